"""Values of expressions in a script, and their uses."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOLE = "\x00"
"""Placeholder for an unknown part of a text."""


MISSING: Any = object()
"""Placeholder for an unknown Python value."""


@dataclass(frozen=True, eq=False)
class ScriptValue:
    """Value of an expression."""

    kind: str
    """"plain" (text, number, truth value or None), "items" (`Items`), "symbol" (dotted name of an import), "result" (of
    calling an import: `CallResult`), "function", "namespace" (parsed options by name), "method" (owner and name),
    "parser" (options of argparse), "either" (of two values), "environ" or "unknown"."""
    data: Any = None
    node: ast.AST | None = field(default=None, repr=False)
    """Location of the value."""


UNKNOWN = ScriptValue("unknown")


@dataclass
class Items:
    """Content of a list, tuple or mapping; None if unknown."""

    content: tuple[ScriptValue, ...] | dict[Any, ScriptValue] | None


@dataclass(frozen=True)
class CallResult:
    """Result of calling an import, or an attribute of it."""

    name: str
    """Dotted name of the function."""
    args: tuple[ScriptValue, ...]
    keywords: Mapping[str, ScriptValue]
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CallArguments:
    """Arguments of a call."""

    args: tuple[ScriptValue, ...] = ()
    keywords: Mapping[str, ScriptValue] = field(default_factory=dict)
    is_open: bool = False
    """Whether there are more that are unknown."""


@dataclass(frozen=True, eq=False)
class ScriptEvent:
    """An action of a script."""

    kind: str
    """"call", "assign" (to an attribute of an import), "environ" (sets a variable), "import" or "parse" (reads the
    command line)."""
    name: str
    """Dotted name of the called, assigned or imported object; a method of an unknown value begins
    with a dot."""
    node: ast.AST
    branches: tuple[tuple[int, int], ...] = ()
    """Conditions that it depends on: number of the condition, and side."""
    args: tuple[ScriptValue, ...] = ()
    keywords: Mapping[str, ScriptValue] = field(default_factory=dict)
    is_open: bool = False
    """Whether it has more arguments that are unknown."""

    def excludes(self, other: ScriptEvent) -> bool:
        """Whether only one of two events can happen: they are on different sides of a condition."""
        sides = dict(self.branches)
        return any(sides.get(condition, side) != side for condition, side in other.branches)

    def argument(self, name: str, index: int | None = None) -> ScriptValue | None:
        """Argument with a name or an index; None if absent."""
        if name in self.keywords:
            return self.keywords[name]
        return self.args[index] if index is not None and index < len(self.args) else None

    def argument_node(self, name: str, index: int | None = None) -> ast.AST:
        """Node of an argument; of the call if the argument is absent."""
        if not isinstance(self.node, ast.Call):
            return self.node
        keyword = next((keyword for keyword in self.node.keywords if keyword.arg == name), None)
        if keyword is not None:
            return keyword
        return self.node.args[index] if index is not None and index < len(self.node.args) else self.node


@dataclass(frozen=True, eq=False)
class ScriptOption:
    """Command-line option of a script."""

    name: str
    """Name of its value."""
    flags: tuple[str, ...]
    default: ScriptValue | None
    node: ast.Call
    keywords: Mapping[str, ScriptValue]

    def keyword_node(self, name: str) -> ast.AST:
        """Node of a keyword of the declaration; of the declaration if it is absent."""
        return next((keyword for keyword in self.node.keywords if keyword.arg == name), self.node)
