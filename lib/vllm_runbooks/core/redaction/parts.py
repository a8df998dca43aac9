"""Patterns that are compiled when first used, and tests of a single value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

MIN_AGAIN = 8
"""Minimum length of a value that is replaced everywhere else, too."""


class LazyPattern:
    """A pattern that is compiled at first use.

    Most texts need few of them, and some take milliseconds.
    """

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._source, self._flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        return self._compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        return self._compiled.match

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        return self._compiled.finditer

    @cached_property
    def sub(self) -> Callable[..., str]:
        return self._compiled.sub

    @cached_property
    def findall(self) -> Callable[..., list[Any]]:
        return self._compiled.findall


def escaped(text: str) -> str:
    """The text as JSON escapes it."""
    return "".join(sign if sign.isascii() else rf"\u{ord(sign):04x}" for sign in text)


def is_telling(value: str) -> bool:
    """Whether a secret is distinctive enough to be searched everywhere."""
    return (
        MIN_AGAIN <= len(value) <= 4000
        and not any(character.isspace() for character in value)
        and any(character.isalpha() for character in value)
        and (
            any(character.isdigit() for character in value)
            or not value.replace("_", "").replace("-", "").replace(".", "").replace("/", "").replace(":", "").isalnum()
            or turns(value) >= 4
        )
    )


_MIN_RARE = 16
_WORDS = re.compile(r"[\w./:-]*\Z", re.ASCII)


def is_common(value: str) -> bool:
    """Whether a value is short and each of its parts is like a word or a number: other text may have it by chance."""
    return (
        len(value) < _MIN_RARE
        and _WORDS.match(value) is not None
        and all(
            turns(part) <= 3 and (len(part) < 10 or (part.isalpha() and turns(part) <= 1))
            for part in re.split(r"[-_./:]", value)
        )
    )


def turns(value: str) -> int:
    """Number of changes between lower case, upper case and digits in a text."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in value if c.isalnum()]
    return sum(left != right for left, right in pairwise(kinds))
