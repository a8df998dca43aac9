"""Confidence intervals of differences between two shares.

A difference is the second value less the first. Sources: R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890,
method 10 (two samples) and 2635-2650, method 10 (pairs); E. B. Wilson, J. Amer. Stat. Assoc. 22 (1927), 209-212.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from vllm_runbooks.edge10.accuracy.records import AccuracyInterval, PairedCounts


def quantile(confidence: float) -> float:
    """Half width of a two-sided interval of the normal distribution, in standard deviations."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _wilson(right: float, number: float, confidence: float) -> tuple[float, float]:
    z = quantile(confidence)
    share = right / number
    middle = share + z * z / (2 * number)
    half = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    scale = 1 + z * z / number
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def _newcombe(
    first: tuple[float, float], second: tuple[float, float], confidence: float, phi: float
) -> AccuracyInterval:
    """Newcombe's hybrid score interval of the difference of two shares with correlation `phi`."""
    share, other = first[0] / first[1], second[0] / second[1]
    (low, high), (other_low, other_high) = (_wilson(*counts, confidence) for counts in (first, second))
    below, above = other - other_low, other_high - other
    share_below, share_above = share - low, high - share
    down = max(0.0, below * below - 2 * phi * below * share_above + share_above * share_above)
    up = max(0.0, above * above - 2 * phi * above * share_below + share_below * share_below)
    return AccuracyInterval(max(-1.0, other - share - math.sqrt(down)), min(1.0, other - share + math.sqrt(up)))


def unpaired(first: tuple[float, float], second: tuple[float, float], confidence: float) -> AccuracyInterval:
    """Interval of the difference of two shares over questions that may differ."""
    return _newcombe(first, second, confidence, 0.0)


def paired(counts: PairedCounts, confidence: float) -> AccuracyInterval:
    """Interval of the difference of two shares over the same questions."""
    number = counts.both + counts.float_alone + counts.quantised_alone + counts.neither
    first, second = counts.both + counts.float_alone, counts.both + counts.quantised_alone
    product = first * (number - first) * second * (number - second)
    agreement = float(counts.both * counts.neither - counts.float_alone * counts.quantised_alone)
    if agreement > 0:
        agreement = max(agreement - number / 2, 0.0)  # Newcombe's continuity correction
    return _newcombe((first, number), (second, number), confidence, agreement / math.sqrt(product) if product else 0.0)
