"""Conditions of a release's checks: their values, and which are not evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds

_HUGE = 1 << 100_000
_LONG = "a" * 2_000_000


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("%", 7, 4, 3),
        ("%", 7.5, 2, 1.5),
        ("%", 7, 0, UNKNOWN),
        ("%", "%999999999d", 1, UNKNOWN),
        ("%", "%s", "a", UNKNOWN),
        ("%", _HUGE, 3, UNKNOWN),
        ("+", 1, 2, 3),
        ("+", "a", "b", "ab"),
        ("+", [1], [2], [1, 2]),
        ("+", _LONG, "b", UNKNOWN),
        ("+", _HUGE, 1, UNKNOWN),
        ("-", 1, _HUGE, UNKNOWN),
        ("*", "a", 1 << 40, UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arithmetic_is_limited_to_small_numbers_and_strings(
    operator: str, left: Any, right: Any, expected: Any
) -> None:
    """A string before `%` could be a format, and request a huge width."""
    condition = [operator, ["arg", "left"], ["arg", "right"]]
    values = {"left": left, "right": right}

    assert holds(condition, Values(values.__getitem__, lambda _: True)) == expected
