"""Intervals of differences between two shares or means, and McNemar's test; nothing but arithmetic.

All differences are the second less the first. Sources: R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890,
method 10 (two samples) and 2635-2650, method 10 (pairs); E. B. Wilson, J. Amer. Stat. Assoc. 22 (1927), 209-212;
Q. McNemar, Psychometrika 12 (1947), 153-157, in its exact form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from vllm_runbooks.edge10.accuracy.records import AccuracyInterval, PairedCounts


def quantile(confidence: float) -> float:
    """How many standard deviations a two-sided interval of a normal distribution reaches."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson(right: float, number: float, confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a share, without a continuity correction.

    Args:
        right: Right answers; where only a rounded share is told, not always a whole number.
        number: Questions, at least one.
        confidence: Of the interval, two-sided.
    """
    z = quantile(confidence)
    share = right / number
    middle = share + z * z / (2 * number)
    half = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    whole = 1 + z * z / number
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def _squared_and_added(
    first: float, second: float, around_first: tuple[float, float], around_second: tuple[float, float], phi: float
) -> AccuracyInterval:
    """Newcombe's way from the intervals of two shares, which go together as `phi` says, to that of their difference."""
    below, above = second - around_second[0], around_second[1] - second
    first_below, first_above = first - around_first[0], around_first[1] - first
    down = max(0.0, below * below - 2 * phi * below * first_above + first_above * first_above)
    up = max(0.0, above * above - 2 * phi * above * first_below + first_below * first_below)
    off = second - first
    return AccuracyInterval(max(-1.0, off - math.sqrt(down)), min(1.0, off + math.sqrt(up)))


def unpaired(first: tuple[float, float], second: tuple[float, float], confidence: float) -> AccuracyInterval:
    """Newcombe's hybrid score interval of the difference of two shares, over questions that need not be the same.

    Args:
        first: Right answers and number of questions.
        second: The same of the other.
        confidence: Of the interval, two-sided.
    """
    return _squared_and_added(
        first[0] / first[1], second[0] / second[1], wilson(*first, confidence), wilson(*second, confidence), 0.0
    )


def paired(counts: PairedCounts, confidence: float) -> AccuracyInterval:
    """Newcombe's hybrid score interval of the difference of two shares over the same questions."""
    both, alone, other, neither = counts.both, counts.float_alone, counts.quantised_alone, counts.neither
    number = both + alone + other + neither
    first, second = both + alone, both + other
    product = first * (number - first) * second * (number - second)
    together = float(both * neither - alone * other)
    if together > 0:
        together = max(together - number / 2, 0.0)  # Newcombe's continuity correction
    phi = together / math.sqrt(product) if product else 0.0
    around = wilson(first, number, confidence), wilson(second, number, confidence)
    return _squared_and_added(first / number, second / number, *around, phi)


def mcnemar(float_alone: int, quantised_alone: int) -> float:
    """McNemar's exact test, two-sided: how likely so uneven a split is where neither model is better."""
    number, fewer = float_alone + quantised_alone, min(float_alone, quantised_alone)
    if not number:
        return 1.0
    start = math.lgamma(number + 1) - number * math.log(2)
    tail = math.fsum(math.exp(start - math.lgamma(k + 1) - math.lgamma(number - k + 1)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


_NO_SPREAD = 1e-9
"""A standard deviation below this is what binary fractions leave of equal differences, as 0.8 - 0.7 and 0.3 - 0.2."""


def mean(differences: Sequence[float], confidence: float) -> AccuracyInterval:
    """Student's t interval of the mean of differences question by question, each between -1 and 1.

    Where all are the same, their spread says nothing; then as large a share of all questions may be otherwise as could
    have been missed by chance (Clopper and Pearson's bound of none seen), each by as much as there is room for.
    """
    number, middle = len(differences), fmean(differences)
    spread = stdev(differences) if number > 1 else 0.0
    if spread < _NO_SPREAD:
        unseen = 1 - (1 - confidence) ** (1 / number)
        return AccuracyInterval(middle - unseen * (1 + middle), middle + unseen * (1 - middle))
    half = student(number - 1, confidence) * spread / math.sqrt(number)
    return AccuracyInterval(max(-1.0, middle - half), min(1.0, middle + half))


def student(degrees: int, confidence: float) -> float:
    """How many standard errors a two-sided interval of Student's distribution reaches, by halving."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def _within(reach: float, degrees: int) -> float:
    """The probability that a value of Student's distribution lies within so many standard errors."""
    return 1 - _beta(degrees / (degrees + reach * reach), degrees / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function (DLMF 8.17), by its continued fraction where that is quick."""
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
