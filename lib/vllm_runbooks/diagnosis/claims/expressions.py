"""Expressions of claims: a few operators over names that are looked up; unknown values are reported, never guessed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

MAX_EXPRESSION = 300
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS = ("abs", "known")
_START = "start"
Lookup = Callable[[str, "int | str | None"], Any]
"""Looks up a name of a launch (by number), of a plan, GPU or line (by name), or of none (None); returns None if
unknown.
"""
Figures = Mapping[str, frozenset[str]]
"""Figures by the name of a plan, GPU or line."""


class UnknownError(Exception):
    """A name of an expression has no value; the message has the reason."""


def faults(expression: str, constants: Figures = MappingProxyType({})) -> list[str]:
    """Why an expression cannot be computed; empty if it can."""
    try:
        tree = _parsed(expression)
        list(_checked(tree, constants))
    except ValueError as error:
        return [str(error)]
    return []


def _parsed(expression: str) -> ast.expr:
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"is longer than {MAX_EXPRESSION} characters; compute a part of it under figures")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("is not an expression; write one such as 0.9 * gpu_total_gib <= initial_gib") from None


def _checked(node: ast.expr, constants: Figures) -> Iterator[ast.expr]:
    """Yield every part of an expression; raises ValueError for an operator that is not supported."""
    yield node
    parts: list[ast.expr]
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            parts = []
        case ast.Attribute(value=ast.Name(id=name)) if _start_number(name):
            parts = []
        case ast.Attribute(value=ast.Name(id=name), attr=figure) if name in constants:
            if figure not in constants[name]:
                raise ValueError(f"{name} has no {figure}; it has {', '.join(sorted(constants[name]))}")
            parts = []
        case ast.BoolOp(values=parts):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            parts = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            parts = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _OPERATORS for op in ops):
            parts = [left, *comparators]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            parts = [argument]
        case _:
            raise ValueError(
                f"contains {ast.unparse(node)!r}; use numbers, words, names, start2.name, figures of what the file "
                "names, "
                "+ - * /, comparisons, and, or, not, abs(…), known(…)"
            )
    for part in parts:
        yield from _checked(part, constants)


def _start_number(name: str) -> int | None:
    number = name.removeprefix(_START)
    return int(number) if name.startswith(_START) and number.isdecimal() and number.isascii() else None


def names(expression: str) -> list[str]:
    """Names that an expression looks up, in order.

    Raises:
        ValueError: it is no expression.
    """
    return list(dict.fromkeys(node.id for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name)))


def compute(expression: str, lookup: Lookup, constants: Figures = MappingProxyType({})) -> Any:
    """Compute an expression.

    Raises:
        LookupError: A name is unknown, or its value cannot be used; the message names it.
    """
    try:
        tree = _parsed(expression)
        list(_checked(tree, constants))
        return _value(tree, lookup)
    except UnknownError as unknown:
        raise LookupError(str(unknown)) from None
    except (TypeError, ValueError, ArithmeticError):
        raise LookupError(f"{expression} cannot be computed from this log") from None


def _value(node: ast.expr, lookup: Lookup) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _known(lookup(name, None), f"{name} is not in this log")
        case ast.Attribute(value=ast.Name(id=of), attr=name):
            number = _start_number(of)
            reason = f"{name} of {of} is not in this log" if number else f"{name} of {of} is unknown"
            return _known(lookup(name, number or of), reason)
        case ast.BoolOp(op=op, values=values):
            truths = (bool(_value(value, lookup)) for value in values)
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.UnaryOp(op=op, operand=operand):
            result = _value(operand, lookup)
            return not result if isinstance(op, ast.Not) else -result
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, lookup), _value(right, lookup))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_value(part, lookup) for part in (left, *comparators)]
            pairs = zip(ops, values, values[1:], strict=False)
            return all(_OPERATORS[type(op)](first, second) for op, first, second in pairs)
        case ast.Call(func=ast.Name(id="known"), args=[argument]):
            return _is_known(argument, lookup)
        case _:  # `_checked` lets nothing else through
            return abs(_value(cast("ast.Call", node).args[0], lookup))


def _known(value: Any, reason: str) -> Any:
    if value is None:
        raise UnknownError(reason)
    return value


def _is_known(node: ast.expr, lookup: Lookup) -> bool:
    try:
        _value(node, lookup)
    except UnknownError:
        return False
    return True
