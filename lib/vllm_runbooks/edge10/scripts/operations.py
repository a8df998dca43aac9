"""Python's operations on known values: bounded in size, and nothing of a script is executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vllm_runbooks.edge10.scripts.values import HOLE

MAX_TEXT = 20_000
"""Characters of a text that is computed."""
MAX_ITEMS = 5_000
MAX_BITS = 1024
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container, ast.NotIn: lambda item, container: item not in container,
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": len, "int": int, "float": float, "sum": sum, "min": min, "max": max, "sorted": sorted,
    "range": lambda *ends: _limited(range(*ends)),
}  # fmt: skip
"""Builtins that are computed where all arguments are known."""


def _limited(numbers: range) -> list[int]:
    if len(numbers) > MAX_ITEMS:
        raise ValueError
    return list(numbers)


def calculate(kind: ast.operator, left: Any, right: Any) -> Any:
    """Result of an operator; raises ValueError if unsupported."""
    if isinstance(kind, ast.Mult):
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (str, list)) and isinstance(times, int) and len(sequence) * times > MAX_ITEMS:
                raise ValueError
    if type(kind) not in _ARITHMETIC or (isinstance(left, str) and isinstance(kind, ast.Mod)):
        raise ValueError
    return _ARITHMETIC[type(kind)](left, right)


def join_path(parts: Sequence[str]) -> str:
    """Join the parts of a path; a part that begins with a slash drops those before it."""
    path = ""
    for part in parts:
        path = part if part.startswith("/") or not path else f"{path.rstrip('/')}/{part.removeprefix('./')}"
    return path or "."


def is_known_text(value: object) -> bool:
    return isinstance(value, str) and HOLE not in value
