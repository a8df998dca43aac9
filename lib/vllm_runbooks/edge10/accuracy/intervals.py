"""Confidence intervals of differences between two shares or means, and McNemar's test.

A difference is the second value less the first. Sources: R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890,
method 10 (two samples) and 2635-2650, method 10 (pairs); E. B. Wilson, J. Amer. Stat. Assoc. 22 (1927), 209-212;
Q. McNemar, Psychometrika 12 (1947), 153-157, in its exact form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from vllm_runbooks.edge10.accuracy.records import AccuracyInterval, PairedCounts

_MIN_SPREAD = 1e-9
"""A smaller standard deviation is rounding of binary fractions, as in 0.8 - 0.7 and 0.3 - 0.2."""


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


def mcnemar(float_alone: int, quantised_alone: int) -> float:
    """McNemar's exact test: two-sided probability of so uneven a split if neither model is better."""
    number, fewer = float_alone + quantised_alone, min(float_alone, quantised_alone)
    if not number:
        return 1.0
    log_ways = math.lgamma(number + 1) - number * math.log(2)
    tail = math.fsum(math.exp(log_ways - math.lgamma(k + 1) - math.lgamma(number - k + 1)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


def mean(differences: Sequence[float], confidence: float) -> AccuracyInterval:
    """Student's t interval of the mean of differences between -1 and 1.

    Equal differences have no spread. Then a share of all questions may differ that a sample of this size can miss
    (Clopper and Pearson's bound), each by as much as possible.
    """
    number, middle = len(differences), fmean(differences)
    spread = stdev(differences) if number > 1 else 0.0
    if spread < _MIN_SPREAD:
        unseen = 1 - (1 - confidence) ** (1 / number)
        return AccuracyInterval(middle - unseen * (1 + middle), middle + unseen * (1 - middle))
    half = student(number - 1, confidence) * spread / math.sqrt(number)
    return AccuracyInterval(max(-1.0, middle - half), min(1.0, middle + half))


def student(degrees: int, confidence: float) -> float:
    """Half width of a two-sided interval of Student's distribution, in standard errors, by bisection."""

    def coverage(width: float) -> float:
        return 1 - _beta(degrees / (degrees + width * width), degrees / 2, 0.5)

    low, high = 0.0, 1.0
    while coverage(high) < confidence:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if coverage(middle) < confidence else (low, middle)
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function (DLMF 8.17), by its continued fraction."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    fraction = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction
