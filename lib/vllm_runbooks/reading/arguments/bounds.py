"""Values that a release's parser takes and its engine refuses: told before the start is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import LIMITS, Bound, ReleaseData
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names

_MOST_BITS = 1024
"""Of a number that is judged."""


class _Refused(NamedTuple):
    """Arguments with which a release ends with an error as soon as it starts."""

    dests: tuple[str, ...]
    """Those of them that are given."""
    says: Mapping[str, str]
    """`bound` in words, or the release's own `message`; `place`, where it stands in its sources."""


def refused(given: Mapping[str, Any], release: ReleaseData, *, is_whole: bool = True) -> Iterator[_Refused]:
    """What a release refuses of arguments given explicitly, by dest; one that is UNKNOWN or None is not judged.

    An argument that is not given counts only as a switch that is off, and that only where all that is given is known.
    """

    def value(dest: str) -> Any:
        if dest in given:
            found = given[dest]
            is_huge = isinstance(found, int) and found.bit_length() > _MOST_BITS
            return UNKNOWN if found is None or is_huge else found
        return False if is_whole and dest in release.switches_off else UNKNOWN

    values = Values(value, given.__contains__)
    told: set[str] = set()
    for bound in release.bounds:
        if given.keys().isdisjoint(bound.dests):
            continue
        own = [dest for dest in dict.fromkeys(names(bound.refused)) if dest in given]
        found = UNKNOWN if told.intersection(own) else holds(bound.refused, values)
        if found is not UNKNOWN and found:
            told.update(own)
            yield _Refused(tuple(own), _says(bound))


def in_words(limits: Mapping[str, float]) -> str:
    """Limits as words: "more than 0 and at most 1"."""
    return " and ".join(f"{LIMITS[limit].words} {number:g}" for limit, number in limits.items() if limit in LIMITS)


def is_outside(value: Any, limits: Mapping[str, float]) -> bool:
    """Whether a value is a number that limits exclude."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return not all(LIMITS[limit].holds(value, number) for limit, number in limits.items() if limit in LIMITS)


def _says(bound: Bound) -> dict[str, str]:
    return {"bound": in_words(bound.limits), "message": bound.says, "place": bound.at}
