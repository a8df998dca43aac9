"""How the cost of reading grows with the text, in processor time so that a busy machine does not disturb it."""

from __future__ import annotations

import time
from collections.abc import Callable

from vllm_runbooks.reading import documents

LIMIT = 3.0
"""Highest cost ratio for twice the text; linear is 2 plus cache effects, quadratic 4."""
_NOISE_SECONDS = 0.004


def least(work: Callable[[], object], most: float) -> float:
    """Processor seconds of some work, the least of three if the first ones may be disturbed."""
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
        if best < most:
            break
    return best


def seconds(function: Callable[[str], object], text: str, *, rounds: int = 3) -> float:
    """Processor seconds of one call, the best of some."""
    best = float("inf")
    for _ in range(rounds):
        documents.read_kind.cache_clear()
        begun = time.process_time()
        function(text)
        best = min(best, time.process_time() - begun)
    return best


def growth(function: Callable[[str], object], text: str) -> float:
    """Cost ratio of twice the text; the least of six tries, 2 if it is too fast to measure."""
    least = float("inf")
    for _ in range(6):
        once, twice = seconds(function, text), seconds(function, text * 2)
        if twice < _NOISE_SECONDS:
            return 2.0
        least = min(least, twice / max(once, _NOISE_SECONDS / 4))
        if least <= LIMIT:
            break
    return least
