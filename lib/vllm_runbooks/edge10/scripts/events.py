"""What a program does, step by step, as reading it in the order in which it runs tells."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.edge10.scripts.values import Value

_LEAVING = frozenset((
    "builtins.int", "builtins.float", "builtins.str", "builtins.bool",
    "click.INT", "click.FLOAT", "click.STRING", "click.BOOL", "click.Path",
))  # fmt: skip
"""Types of click's options, by name, that make of a default of their own type the same."""
_CHECKING = frozenset(f"click.{name}" for name in ("Path", "Choice", "IntRange", "FloatRange"))
"""Those that are made by a call."""


@dataclass(frozen=True, eq=False)
class Event:
    """Something that a program does."""

    kind: str
    """"call", "assign" (to an attribute of what is imported), "environ" (a variable of the environment that is set),
    "import", "parse" (of the command line) or "engine" (a call that makes vLLM's engine)."""
    name: str
    """Dotted name of what is called, assigned to or imported; a method of something unknown begins with a dot."""
    node: ast.AST
    arms: tuple[tuple[int, int], ...] = ()
    """The branches that it stands in: the condition's number, and which of its sides."""
    gpu: bool | None = None
    """Whether it happens only where there is a GPU, or only where there is none."""
    args: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    places: Mapping[str, ast.AST] = field(default_factory=dict)
    """Where the keywords stand, each from its name on."""
    is_open: bool = False
    """Whether it is given further arguments, which are not known."""

    def is_beside(self, other: Event) -> bool:
        """Whether only one of the two can happen: they stand on different sides of a condition."""
        mine = dict(self.arms)
        return any(mine.get(condition, side) != side for condition, side in other.arms)

    def given(self, name: str, index: int | None = None) -> Value | None:
        """The argument of a name, or at an index; None: there is none, or none that is known."""
        if name in self.keywords:
            return self.keywords[name]
        return self.args[index] if index is not None and index < len(self.args) else None

    def place(self, name: str, index: int | None = None) -> ast.AST:
        """Where an argument stands; the call where it is not given."""
        if name in self.places:
            return self.places[name]
        if index is not None and isinstance(self.node, ast.Call) and index < len(self.node.args):
            return self.node.args[index]
        return self.node


@dataclass(frozen=True, eq=False)
class Option:
    """An option that a program takes on its command line."""

    name: str
    """Under which its value is found."""
    flags: tuple[str, ...]
    default: Value | None
    """None: it has none."""
    node: ast.Call
    keywords: Mapping[str, Value]
    places: Mapping[str, ast.keyword]
    maker: str
    """"argparse" or "click"."""

    @property
    def is_converted(self) -> bool:
        """Whether something that is not followed makes of its default what the program gets."""
        if self.maker != "click":
            return False
        kind = self.keywords.get("type")
        is_plain = kind is None or (kind.kind == "symbol" and kind.data in _LEAVING)
        is_own = kind is not None and kind.kind == "made" and kind.data.name in _CHECKING
        return "callback" in self.keywords or not (is_plain or is_own)
