"""Deadlines scaled by the measured speed of the machine."""

from __future__ import annotations

import os
import time

_ITERATIONS = 500_000
_REFERENCE_S = 0.008
"""Wall time of these iterations on a quiet core of the machine used to choose the deadlines."""
_MAX_FACTOR = 8.0
"""Deadlines also end hangs, so they grow no further."""


def slowdown() -> float:
    """The factor by which the machine is slower than a quiet reference core, at least 1.

    Measured by the wall clock, so that other programs on the same cores count. A busy machine is not busy all the
    time, so it is the worst of three samples and of the last minute's load for each core.
    """
    worst = 0.0
    for _ in range(3):
        begin = time.monotonic()
        for _ in range(_ITERATIONS):
            pass
        worst = max(worst, time.monotonic() - begin)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(worst / _REFERENCE_S, load, 1.0), _MAX_FACTOR)


def scaled(seconds: float) -> float:
    """Scale a deadline chosen on a quiet machine to the current load."""
    return seconds * slowdown()
