"""Which of the known names a misspelt one was likely meant for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_SHARED = 0.6
"""Part of their words that two names share to be near each other, whatever their letters."""


def alike(written: str, known: Sequence[str], most: int = 3) -> list[str]:
    """The known names that a misspelt one is likely to have been meant for, the nearest first."""
    limit = max(1, len(written) // 4)
    letters, words = _letters(written), _words_of(written)
    found = []
    for candidate in known:
        others = _words_of(candidate)
        shared = len(words & others) / max(len(words | others), 1)
        distance = limit + 1
        if abs(len(candidate) - len(written)) <= limit and _difference(letters, _letters(candidate)) <= limit:
            distance = _distance(written, candidate, limit)
        if distance <= limit or shared >= _SHARED:
            found.append((distance - 3 * shared, candidate))
    return [candidate for _, candidate in sorted(found)[:most]]


@lru_cache(maxsize=2048)
def _letters(text: str) -> Counter[str]:
    return Counter(text)


@lru_cache(maxsize=2048)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[-_]", text.strip("-_").lower()))


def _difference(one: Counter[str], other: Counter[str]) -> int:
    """A lower bound of the distance of two texts, from their letters alone."""
    surplus = sum(count - other[letter] for letter, count in one.items() if count > other[letter])
    lack = sum(count - one[letter] for letter, count in other.items() if count > one[letter])
    return max(surplus, lack)


def _distance(one: str, other: str, limit: int) -> int:
    """Letters to change, add, drop or swap; more than `limit` is told as limit + 1."""
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, other_letter in enumerate(other, 1):
            cost = last[j - 1] if letter == other_letter else 1 + min(last[j], row[j - 1], last[j - 1])
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == other_letter:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before_last, last = last, row
    return min(last[-1], limit + 1)
