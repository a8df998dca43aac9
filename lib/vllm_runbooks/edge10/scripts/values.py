"""What an expression of a program stands for, as far as reading it tells: known, one of two, or unknown."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Value:
    """What an expression stands for; `data` is by `kind`."""

    kind: str
    """"plain" (a text, number, truth value or None), "path" (a text of `pathlib`), "box" (a list, tuple or mapping: its
    number in the heap), "symbol" (a dotted name of what is imported), "made" (what a call of a symbol gives: `Made`),
    "function", "class", "instance" (number in the heap), "bound" (a method and what it belongs to), "parser",
    "namespace" (parsed arguments, number in the heap), "environ", "gpu" (whether there is one: True where `data` is),
    "either" (with a GPU, without one) or "unknown"."""
    data: Any = None
    node: ast.AST | None = field(default=None, repr=False)
    """Where it was written."""
    options: frozenset[str] = NONE
    """Command-line options that it depends on: it is what their defaults make of it."""

    def at(self, node: ast.AST) -> Value:
        """The same value, written elsewhere."""
        return replace(self, node=node)

    def given(self, options: Iterable[str]) -> Value:
        """The same value, depending on more options."""
        more = self.options.union(options)
        return self if more == self.options else replace(self, options=more)

    @property
    def is_unknown(self) -> bool:
        return self.kind == "unknown"


@dataclass(frozen=True)
class Box:
    """A list, tuple or mapping in the heap."""

    items: tuple[Value, ...] | Mapping[Any, Value] | None
    """None: what is in it is not known."""


@dataclass(frozen=True)
class Made:
    """What calling something imported gives."""

    name: str
    """Dotted name of what was called."""
    args: tuple[Value, ...]
    keywords: Mapping[str, Value]
    of: tuple[str, ...] = ()
    """Attributes taken of it."""
    is_open: bool = False
    """Whether it was given further arguments, which are not known."""


class MissingType:
    """The type of `MISSING`."""


MISSING = MissingType()
"""In place of a Python value that is not known; None is one that is."""
UNKNOWN = Value("unknown")


def plain(data: Any, node: ast.AST | None = None, options: frozenset[str] = NONE) -> Value:
    """A value of Python's own."""
    return Value("plain", data, node, options)


def unknown(*of: Value, node: ast.AST | None = None) -> Value:
    """What cannot be known, made of these."""
    options = NONE.union(*(each.options for each in of))
    return Value("unknown", None, node, options) if options or node else UNKNOWN


def is_same(one: Value, other: Value) -> bool:
    """Whether two values are certainly the same."""
    if one is other:
        return True
    if one.kind != other.kind or one.kind in ("unknown", "either", "made"):
        return False
    return type(one.data) is type(other.data) and bool(one.data == other.data)


def lifted(work: Callable[..., Value], *values: Value) -> Value:
    """The result of some work on values, of which those that depend on a GPU are taken apart."""
    if not any(value.kind == "either" for value in values):
        return work(*values)
    arms = [
        work(*(value.data[arm].given(value.options) if value.kind == "either" else value for value in values))
        for arm in (0, 1)
    ]
    return either(arms[0], arms[1])


def either(with_gpu: Value, without: Value, node: ast.AST | None = None) -> Value:
    """A value that depends on whether there is a GPU."""
    with_gpu, without = arm(with_gpu, has_gpu=True), arm(without, has_gpu=False)
    if is_same(with_gpu, without):
        return with_gpu
    return Value("either", (with_gpu, without), node or with_gpu.node, with_gpu.options | without.options)


def arm(value: Value, *, has_gpu: bool) -> Value:
    """What a value is with a GPU, or without one."""
    if value.kind == "either":
        taken: Value = value.data[0 if has_gpu else 1]
        return taken
    if value.kind == "gpu":
        return plain(value.data if has_gpu else not value.data, value.node, value.options)
    return value
