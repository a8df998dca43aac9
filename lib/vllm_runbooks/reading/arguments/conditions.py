"""Evaluate conditions of the release data without running code of a release.

A condition is a JSON list with its operator first, such as ["==", ["arg", name], ["const", v]]; ["given", name] is
whether an argument is explicit, ["item", name] the item of a `filter` or `some` loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class _UnknownValue:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _UnknownValue()
"""Placeholder for an unknown value, such as a command substitution."""

_MAX_ITEMS = 1000
_MAX_TEXT = 1_000_000
_MAX_BITS = 20_000
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict, "list": list}


def _is_number(value: Any) -> bool:
    """Whether it is a number small enough to calculate with: a text before `%` would be a format."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= _MAX_BITS)


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT
    return len(value) <= _MAX_ITEMS if isinstance(value, list) else _is_number(value)


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    **{function.__name__: function for function in (bool, len, sorted, any, all)},
    **{name: getattr(str, name) for name in ("startswith", "endswith", "lower", "upper", "strip")},
    "[]": lambda a, index: a[index],
    "isinstance": lambda a, name: isinstance(a, _TYPES[name]),
    "not": lambda a: not a,
    "set": lambda a: {str(item) for item in a},
    "values": lambda a: list(a.values()),
    "keys": list,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "is": lambda a, b: a is b,
    "is not": lambda a, b: a is not b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
    "+": lambda a, b: a + b if _is_short(a) and _is_short(b) else UNKNOWN,
    "-": lambda a, b: a - b if _is_short(a) and _is_short(b) else UNKNOWN,
    "%": lambda a, b: a % b if _is_number(a) and _is_number(b) else UNKNOWN,
}


class Values(NamedTuple):
    """Access to values; each function returns UNKNOWN for unknown ones."""

    value: Callable[[str], Any]
    is_given: Callable[[str], Any]
    variable: Callable[[str], Any] = lambda _: UNKNOWN


def holds(condition: Sequence[Any], values: Values) -> Any:
    """Evaluate a condition; UNKNOWN if it can't be known."""
    return _value(condition, values, {})


def names(condition: Sequence[Any]) -> Iterator[str]:
    """Yield the arguments that a condition reads."""
    operator, *parts = condition
    if operator == "arg":
        yield parts[0]
    elif operator not in ("const", "given", "env", "item"):
        for part in parts:
            if isinstance(part, list) and part:
                yield from names(part)


def _value(condition: Sequence[Any], values: Values, items: Mapping[str, Any]) -> Any:
    operator, *parts = condition
    if operator == "const":
        return parts[0]
    if operator == "arg":
        return values.value(parts[0])
    if operator == "given":
        return values.is_given(parts[0])
    if operator == "env":
        return values.variable(parts[0])
    if operator == "item":
        return items.get(parts[0], UNKNOWN)
    if operator in ("and", "or"):
        return _joined(operator, parts, values, items)
    if operator in ("filter", "some"):
        return _over(operator, parts, values, items)
    return _combined(operator, parts, values, items)


def _combined(operator: str, parts: Sequence[Any], values: Values, items: Mapping[str, Any]) -> Any:
    if operator in ("[]", "isinstance"):
        args = [_value(parts[0], values, items), parts[1]]
    else:
        args = [_value(part, values, items) for part in parts]
    if any(value is UNKNOWN or (isinstance(value, list) and any(item is UNKNOWN for item in value)) for value in args):
        return UNKNOWN
    try:
        return _OPERATORS[operator](*args)
    except (TypeError, ValueError, ZeroDivisionError, IndexError, KeyError, AttributeError, OverflowError):
        return UNKNOWN


def _joined(operator: str, parts: Sequence[Any], values: Values, items: Mapping[str, Any]) -> Any:
    """Evaluate `and` and `or` with unknown parts."""
    result: Any = operator == "and"
    is_unknown = False
    for part in parts:
        value = _value(part, values, items)
        if value is UNKNOWN:
            is_unknown = True
        elif bool(value) == (operator == "or"):
            return value
        else:
            result = value
    return UNKNOWN if is_unknown else result


def _over(operator: str, parts: Sequence[Any], values: Values, items: Mapping[str, Any]) -> Any:
    listed, name, test, *result = parts
    candidates = _value(listed, values, items)
    if not isinstance(candidates, list) or len(candidates) > _MAX_ITEMS:
        return UNKNOWN
    kept = []
    for item in candidates:
        inner = {**items, name: item}
        met = _value(test, values, inner)
        if met is UNKNOWN:
            return UNKNOWN
        if met:
            if operator == "some":
                return True
            kept.append(_value(result[0], values, inner))
    return False if operator == "some" else kept
