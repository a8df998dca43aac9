"""Python's own operations on values that are known: texts, numbers and lists, bounded in size; nothing is executed."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vllm_runbooks.edge10.scripts.values import MISSING

MAX_TEXT = 20_000
"""Characters of a text that is worked out."""
MAX_ITEMS = 5_000
_MAX_BITS = 1024
HOLE = "\x00"
"""In a text, in place of what is not known of it."""
_FIELD = re.compile(r"\{(\w{0,60})\}")
_PERCENT = re.compile(r"%([sd%])")
_TEXTS: Mapping[str, int] = {
    "strip": 1, "lstrip": 1, "rstrip": 1, "lower": 0, "upper": 0, "title": 0, "capitalize": 0, "casefold": 0,
    "removeprefix": 1, "removesuffix": 1, "startswith": 1, "endswith": 1, "isdigit": 0, "count": 1, "find": 1,
    "rfind": 1, "partition": 1, "rpartition": 1,
}  # fmt: skip
"""Methods of texts that make no longer one, with how many arguments they take at most."""
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_CALCULATED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def compared(kind: ast.cmpop, left: Any, right: Any) -> Any:
    """What a comparison of two plain values gives; MISSING: it cannot be told."""
    if isinstance(kind, (ast.Is, ast.IsNot)):
        if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
            return (left is right) == isinstance(kind, ast.Is)
        return MISSING
    if isinstance(kind, (ast.In, ast.NotIn)):
        if isinstance(left, str) and isinstance(right, str):
            return (left in right) == isinstance(kind, ast.In)
        return MISSING
    try:
        return _COMPARED[type(kind)](left, right)
    except TypeError:
        return MISSING


def calculated(kind: ast.operator, left: Any, right: Any) -> Any:
    """What an operator makes of two plain values; MISSING: nothing that is worked out here."""
    if isinstance(left, str) and isinstance(kind, ast.Mod):
        return _percent(left, (right,))
    if isinstance(left, str) and isinstance(right, str) and isinstance(kind, ast.Add):
        return left + right if len(left) + len(right) <= MAX_TEXT else MISSING
    if isinstance(kind, ast.Mult) and isinstance(left, (str, int)) and isinstance(right, (str, int)):
        for text, times in ((left, right), (right, left)):
            if isinstance(text, str):
                fits = isinstance(times, int) and len(text) * max(times, 0) <= MAX_TEXT
                return text * times if fits and isinstance(times, int) else MISSING
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))) or type(kind) not in _CALCULATED:
        return MISSING
    try:
        result = _CALCULATED[type(kind)](left, right)
    except ArithmeticError:
        return MISSING
    return MISSING if isinstance(result, int) and result.bit_length() > _MAX_BITS else result


def _percent(text: str, values: Sequence[Any]) -> Any:
    """`text % values`, where it takes each of them plainly."""
    taken = [mark for mark in _PERCENT.finditer(text) if mark[1] != "%"]
    if len(taken) != len(values) or text.count("%") != len(taken) + 2 * text.count("%%"):
        return MISSING
    rest = iter(values)
    made = _PERCENT.sub(lambda mark: "%" if mark[1] == "%" else str(next(rest)), text)
    return made if len(made) <= MAX_TEXT else MISSING


def percent(text: str, values: Sequence[Any]) -> Any:
    """`text % (values…)`; MISSING where it is written in another way than `%s` and `%d`."""
    return _percent(text, values)


def formatted(text: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """`text.format(…)` with plain fields alone; MISSING where a field asks for more, or is not there."""
    if text.count("{") != len(_FIELD.findall(text)):
        return MISSING
    numbers = iter(range(len(args) + 1))
    pieces: list[str] = []
    done = 0
    for hole in _FIELD.finditer(text):
        name = hole[1] or str(next(numbers, len(args)))
        if name.isdigit():
            if int(name) >= len(args):
                return MISSING
            value = args[int(name)]
        elif name in keywords:
            value = keywords[name]
        else:
            return MISSING
        pieces += [text[done : hole.start()], str(value)]
        done = hole.end()
    made = "".join([*pieces, text[done:]])
    return made if len(made) <= MAX_TEXT else MISSING


def of_text(text: str, name: str, args: Sequence[Any]) -> Any:
    """What a method of a text gives: a plain value, or a list of them; MISSING: none that is worked out here."""
    if name in _TEXTS and len(args) <= _TEXTS[name] and all(isinstance(each, str) for each in args):
        try:
            result = getattr(text, name)(*args)
        except (TypeError, ValueError):
            return MISSING
        return list(result) if isinstance(result, tuple) else result
    if name == "replace" and len(args) == 2 and all(isinstance(each, str) for each in args):
        return text.replace(*args) if (len(text) + 1) * (len(args[1]) + 1) <= MAX_TEXT else MISSING
    if name in ("split", "rsplit") and len(args) <= 2 and len(text) <= MAX_ITEMS:
        try:
            return getattr(text, name)(*args)
        except (TypeError, ValueError):
            return MISSING
    if name == "splitlines" and not args and len(text) <= MAX_ITEMS:
        return text.splitlines()
    return MISSING


def joined_path(parts: Sequence[str]) -> str:
    """Paths behind one another, as `os.path.join` has them on the toolchain's host; a hole is a folder's name."""
    made = posixpath.join(*parts) if parts else ""
    return made[:MAX_TEXT]


def as_python(kind: str, args: Sequence[Any]) -> Any:
    """What calling a type, or another function of Python's own, with plain values gives; MISSING: not worked out."""
    try:
        return _CALLED[kind](*args)
    except (TypeError, ValueError, ArithmeticError, KeyError):
        return MISSING


def _to_int(value: Any = 0) -> Any:
    if isinstance(value, str) and len(value) > 20:
        return MISSING
    return int(value)


_CALLED: Mapping[str, Callable[..., Any]] = {
    "str": lambda value="": str(value),
    "int": _to_int,
    "float": lambda value=0.0: float(value),
    "bool": lambda value=False: bool(value),
    "abs": abs,
    "repr": repr,
    "round": round,
}
