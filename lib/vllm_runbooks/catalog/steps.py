"""Derive an authored value from the present one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

NO_STEP = object()
"""There is no better value than the present one."""

Step = Callable[[Any, "float | None", Mapping[str, str]], Any]


def _lower_by(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    if present is None:
        return None
    return round(present - amount, 4) if present > 2 * amount else NO_STEP


def _lower_to(amount: float, present: float | None, _: Mapping[str, str]) -> Any:
    if present is None or present > amount:
        return amount
    return int(present // 2) or NO_STEP


def _share(quotient: str, _: float | None, captures: Mapping[str, str]) -> Any:
    """Two captures divided, rounded down to hundredths."""
    part, _slash, whole = quotient.partition("/")
    try:
        share = math.floor(100 * float(captures[part]) / float(captures[whole])) / 100
    except (KeyError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return share if 0.05 < share < 1 else NO_STEP


STEPS: Mapping[str, Step] = {
    "lower_by": _lower_by,
    "lower_to": _lower_to,
    "raise_to": lambda amount, present, _: amount if present is None or present < amount else int(present * 2),
    "at_least": lambda amount, present, _: amount if present is None or present < amount else NO_STEP,
    "share": _share,
}
"""Derivation of an authored value from the present one: {lower_by: 0.05}, {lower_to: 64},
{share: free_gib/total_gib}."""
