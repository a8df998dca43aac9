"""Deadlines that hold on a busy machine: scaled by how fast the machine runs a fixed piece of work right now."""

from __future__ import annotations

import time

_WORK = 1_500_000
"""Iterations of the probe."""
_REFERENCE_S = 0.025
"""Wall time of the probe on a quiet core of the machine on which the tests' deadlines were chosen."""
_MOST = 20.0
"""A deadline also ends a hang, so it never grows by more than this factor."""


def slowdown() -> float:
    """How many times as long as on a quiet reference core a piece of work takes now, from 1 to 20.

    By the wall clock, so that other programs on the same cores count.
    """
    begin = time.monotonic()
    for _ in range(_WORK):
        pass
    return min(max((time.monotonic() - begin) / _REFERENCE_S, 1.0), _MOST)


def scaled(seconds: float) -> float:
    """A deadline of some seconds on a quiet machine, in seconds on this machine at present."""
    return seconds * slowdown()
