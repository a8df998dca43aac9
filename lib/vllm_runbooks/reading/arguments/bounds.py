"""Values that a release's parser accepts and its engine rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import LIMITS, ReleaseData
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names

_MOST_BITS = 1024


class _RefusedArguments(NamedTuple):
    dests: tuple[str, ...]
    """Explicitly set destinations."""
    says: Mapping[str, str]
    """`bound` as text, or the release's own `message`; `place` in its sources."""


def refused(
    arguments: Mapping[str, Any], release: ReleaseData, *, is_whole: bool = True
) -> Iterator[_RefusedArguments]:
    """Yield explicit arguments that the engine rejects; UNKNOWN and None are not checked.

    An absent argument counts only as a switch that is off, and only if all arguments are known.
    """

    def value(dest: str) -> Any:
        if dest in arguments:
            argument = arguments[dest]
            is_huge = isinstance(argument, int) and argument.bit_length() > _MOST_BITS
            return UNKNOWN if argument is None or is_huge else argument
        return False if is_whole and dest in release.switches_off else UNKNOWN

    values = Values(value, arguments.__contains__)
    reported: set[str] = set()
    for bound in release.bounds:
        if arguments.keys().isdisjoint(bound.dests):
            continue
        dests = [dest for dest in dict.fromkeys(names(bound.refused)) if dest in arguments]
        refusal = UNKNOWN if reported.intersection(dests) else holds(bound.refused, values)
        if refusal is not UNKNOWN and refusal:
            reported.update(dests)
            says = {"bound": in_words(bound.limits), "message": bound.says.rstrip("."), "place": bound.at}
            yield _RefusedArguments(tuple(dests), says)


def in_words(limits: Mapping[str, float]) -> str:
    """Limits as text: "more than 0 and at most 1"."""
    return " and ".join(f"{LIMITS[limit].words} {number:g}" for limit, number in limits.items() if limit in LIMITS)


def is_outside(value: Any, limits: Mapping[str, float]) -> bool:
    """Whether a value is a number that limits exclude."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return not all(LIMITS[limit].holds(value, number) for limit, number in limits.items() if limit in LIMITS)
