"""Known names that a misspelt one resembles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_SHARED = 0.6
"""Share of common words that makes two names similar."""
_SHORT, _LONG = 3, 8
"""Characters of a name that can be a typo, and of one that can have two."""
_DIGITS = re.compile(r"\d+")


def alike(written: str, names: Sequence[str], most: int = 3) -> list[str]:
    """Return the known names closest to a misspelt one."""
    limit = max(1, len(written) // 4)
    letters, words = _letters(written), _words_of(written)
    candidates = []
    for candidate in names:
        others = _words_of(candidate)
        shared = len(words & others) / max(len(words | others), 1)
        distance = limit + 1
        if abs(len(candidate) - len(written)) <= limit and _difference(letters, _letters(candidate)) <= limit:
            distance = _distance(written, candidate, limit)
        if distance <= limit or shared >= _SHARED:
            candidates.append((distance - 3 * shared, candidate))
    return [candidate for _, candidate in sorted(candidates)[:most]]


def misspelt(written: str, names: Iterable[str]) -> str | None:
    """The one known name that a text is certainly a typo of; None if it may be another name."""
    limit = 1 if len(written) < _LONG else 2
    near = [
        name
        for name in names
        if _distance(written.lower(), name.lower(), limit) <= limit
        and _DIGITS.findall(written) == _DIGITS.findall(name)
        and not _is_longer(written, name)
    ]
    return near[0] if len(near) == 1 and len(written) >= _SHORT else None


def near(written: str, names: Iterable[str]) -> str | None:
    """The one known name that differs from a text in one character, even in a digit."""
    found = [
        name for name in names if _distance(written.lower(), name.lower(), 1) == 1 and not _is_longer(written, name)
    ]
    return found[0] if len(found) == 1 and len(written) >= _SHORT else None


def _is_longer(text: str, other: str) -> bool:
    """Whether one name is the other with a suffix that makes it another one, such as `V2`."""
    short, long = sorted((text, other), key=len)
    return long.startswith(short) and not (long[len(short) :].isalpha() and long[len(short) :].islower())


@lru_cache(maxsize=2048)
def _letters(text: str) -> Counter[str]:
    return Counter(text)


@lru_cache(maxsize=2048)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(re.split(r"[-_]", text.strip("-_").lower()))


def _difference(letters: Counter[str], others: Counter[str]) -> int:
    """Lower bound of the distance, from the letters alone."""
    surplus = sum(count - others[letter] for letter, count in letters.items() if count > others[letter])
    lack = sum(count - letters[letter] for letter, count in others.items() if count > letters[letter])
    return max(surplus, lack)


def _distance(word: str, candidate: str, limit: int) -> int:
    """Edit distance with swaps; limit + 1 if it is larger than `limit`."""
    before_last: list[int] = []
    last = list(range(len(candidate) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, other_letter in enumerate(candidate, 1):
            cost = last[j - 1] if letter == other_letter else 1 + min(last[j], row[j - 1], last[j - 1])
            if i > 1 and j > 1 and letter == candidate[j - 2] and word[i - 2] == other_letter:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before_last, last = last, row
    return min(last[-1], limit + 1)


def as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def least_not_below(value: str, names: Iterable[str]) -> list[str]:
    """Of the names that are numbers, the least that is no smaller than `value`, if any."""
    given = as_number(value)
    numbers = {name: number for name in names if (number := as_number(name)) is not None}
    above = [name for name in numbers if given is not None and numbers[name] >= given]
    return sorted(above, key=numbers.__getitem__)[:1]
