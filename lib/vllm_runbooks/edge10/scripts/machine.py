"""What a program that is being followed has: values in a heap, sides of conditions, a record of what it did."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.events import Event, Option
from vllm_runbooks.edge10.scripts.values import MISSING, NONE, UNKNOWN, Box, Value, arm, either, is_same, plain, unknown

MAX_WORK = 60_000
"""Expressions and statements that are followed, rounds and calls included."""
MAX_ROUNDS = 200
"""Rounds of one loop."""
_MAX_EVENTS = 4_000
Signal = tuple[str, Value]
"""How a block was left: "return", "break", "continue" or "stop", and what it returns."""
Follow = Callable[[], Signal | None]


class OverError(Exception):
    """All the work that is done for one program is done."""


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the program."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scopes: tuple[int, ...]
    """Numbers in the heap of the scopes that it sees, the innermost first."""
    marks: frozenset[str] = NONE
    """Last names of its decorators."""
    options: tuple[Option, ...] = ()
    """Those that its decorators declare."""
    owner: int | None = None
    """Number in the heap of the class that it is a method of."""
    defaults: Mapping[str, Value] | None = None

    @cached_property
    def is_generator(self) -> bool:
        """Whether calling it gives what it yields, and not what it returns."""
        return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(self.node))

    @cached_property
    def shared(self) -> frozenset[str]:
        """The names that it declares as those of a scope around it."""
        return frozenset(
            name for each in ast.walk(self.node) if isinstance(each, (ast.Global, ast.Nonlocal)) for name in each.names
        )


@dataclass(frozen=True, eq=False)
class Class:
    """A class of the program."""

    name: str
    scope: int
    """Number in the heap."""
    bases: tuple[Value, ...]
    fields: tuple[str, ...]
    """Names that its body annotates, in order."""
    is_record: bool
    changed: frozenset[str] = NONE
    """Fields of which its own validators may make something else."""


@dataclass
class Frame:
    """A call that is being followed."""

    scopes: tuple[int, ...]
    shared: frozenset[str] = NONE
    """Names that `global` or `nonlocal` makes those of a scope around it."""
    owner: int | None = None
    """Number in the heap of the class whose method is called; None: it is none."""
    pending: list[tuple[Value, bool | None]] | None = None
    """What it returns on sides of conditions that are not known, each with whether a GPU is needed for that."""


class Machine:
    """The state of a program that is being followed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.options: list[Option] = []
        self._heap: dict[int, Any] = {0: {}}
        """Content by number, never changed in place: both sides of a condition begin with the same."""
        self._next = 1
        self._arms: list[tuple[int, int]] = [(0, 0)]
        """The sides of conditions that are being followed; the first one tells apart what nothing calls."""
        self._passed: list[tuple[int, int]] = []
        """Sides of conditions that what follows is on because the other side has left: by `return`, say."""
        self._gpu: bool | None = None
        self._work = self._conditions = 0
        self._explored: dict[tuple[int, int], bool] = {}
        """By condition and side that were looked at: whether that side leaves the block."""
        self._numbers: dict[int, int] = {}

    def python(self, value: Value | None, depth: int = 0) -> Any:
        """The Python value that a value stands for, lists and mappings included; MISSING: not all of it is known."""
        if value is None or depth > 8:
            return MISSING
        if value.kind in ("plain", "path"):
            return value.data
        if value.kind != "box":
            return MISSING
        box: Box = self._heap[value.data]
        if box.items is None:
            return MISSING
        if isinstance(box.items, Mapping):
            pairs = {key: self.python(each, depth + 1) for key, each in box.items.items()}
            return MISSING if any(each is MISSING for each in pairs.values()) else pairs
        items = [self.python(each, depth + 1) for each in box.items]
        return MISSING if any(each is MISSING for each in items) else items

    def items(self, value: Value | None) -> tuple[Value, ...] | None:
        """The items of a list or tuple; None: they are not known."""
        if value is None or value.kind != "box":
            return None
        found = self._heap[value.data].items
        return found if isinstance(found, tuple) else None

    def entries(self, value: Value | None) -> Mapping[Any, Value] | None:
        """What a mapping holds; None: that is not known."""
        if value is None or value.kind != "box":
            return None
        found = self._heap[value.data].items
        return found if isinstance(found, Mapping) else None

    def _new(self, content: Any) -> int:
        number = self._next
        self._next += 1
        self._heap[number] = content
        return number

    def box(self, items: Iterable[Value] | Mapping[Any, Value] | None, node: ast.AST | None) -> Value:
        """A list, tuple or mapping in the heap."""
        if items is not None and not isinstance(items, Mapping):
            items = tuple(items)
        if items is not None and len(items) > pure.MAX_ITEMS:
            items = None
        held = () if items is None else items.values() if isinstance(items, Mapping) else items
        options = NONE.union(*(each.options for each in held)) if held else NONE
        return Value("box", self._new(Box(items)), node, options)

    def _from_python(self, data: Any, node: ast.AST | None, options: frozenset[str]) -> Value:
        """A value of what was worked out."""
        if data is MISSING:
            return Value("unknown", None, node, options)
        if isinstance(data, (list, tuple)):
            return self.box([self._from_python(each, node, options) for each in data], node).given(options)
        return plain(data, node, options)

    def _spend(self) -> None:
        self._work += 1
        if self._work > MAX_WORK or len(self.events) > _MAX_EVENTS:
            raise OverError

    def _set_attribute(self, base: Value, name: str, value: Value, whole: ast.AST) -> None:
        if base.kind == "symbol":
            self._note("assign", f"{base.data}.{name}", whole, args=(value,))
        elif base.kind in ("instance", "namespace"):
            self._heap[base.data] = {**self._heap[base.data], name: value}
        elif base.kind == "class":
            self._heap[base.data.scope] = {**self._heap[base.data.scope], name: value}

    def _set_item(self, base: Value, key: Value, value: Value) -> None:
        if base.kind != "box":
            return
        box: Box = self._heap[base.data]
        index = key.data if key.kind == "plain" else MISSING
        items: Any = None
        if isinstance(box.items, Mapping) and isinstance(index, (str, int)):
            items = {**box.items, index: value}
        elif isinstance(box.items, tuple) and isinstance(index, int) and -len(box.items) <= index < len(box.items):
            held = list(box.items)
            held[index] = value
            items = tuple(held)
        self._heap[base.data] = replace(box, items=items)

    def _extend(self, base: Value, more: Value) -> None:
        box: Box = self._heap[base.data]
        items: Any = None
        if isinstance(box.items, Mapping) and (entries := self.entries(more)) is not None:
            items = {**box.items, **entries}
        elif isinstance(box.items, tuple) and (added := self.items(more)) is not None:
            items = box.items + added
        self._heap[base.data] = replace(box, items=items if items is None or len(items) <= pure.MAX_ITEMS else None)

    @staticmethod
    def _symbol(name: str, node: ast.AST) -> Value:
        return Value("environ", None, node) if name == "os.environ" else Value("symbol", name, node)

    def _option(
        self, name: str, flags: Sequence[str], node: ast.Call, keywords: Mapping[str, Value], maker: str
    ) -> Option:
        places = {each.arg: each for each in node.keywords if each.arg}
        option = Option(name, tuple(flags), keywords.get("default"), node, keywords, places, maker)
        self.options.append(option)
        return option

    def _chosen(
        self, node: ast.AST, test: Value, yes: Follow, no: Follow, pending: list[tuple[Value, bool | None]] | None
    ) -> Signal | None:
        """Follow the side of a condition that is known, else both."""
        truth = self._truth(test)
        if truth is not None and not test.options:
            return (yes if truth else no)()
        if truth is not None:
            # The default decides; what an option could make of it is looked at for what happens there.
            has_left = self._explore(node, no if truth else yes, side=int(truth))
            signal = self._beside(node, yes if truth else no, side=int(not truth))
            if has_left and signal is None:
                self._passed.append((self._number(node), int(not truth)))
            return signal
        sides = [self._truth(arm(test, has_gpu=has_gpu)) for has_gpu in (True, False)]
        if None in sides or sides[0] == sides[1]:
            return self._both(yes, no, pending, (None, None))
        if self._gpu is not None:
            return (yes if sides[not self._gpu] else no)()
        return self._both(yes, no, pending, (True, False) if sides[0] else (False, True))

    def _explore(self, node: ast.AST, follow: Follow, side: int) -> bool:
        """Follow the side of a condition that is not taken, once, for what happens there; it changes nothing.

        Returns:
            Whether that side leaves the block.
        """
        if (id(node), side) not in self._explored:
            self._explored[id(node), side] = False
            heap = dict(self._heap)
            self._explored[id(node), side] = self._beside(node, follow, side) is not None
            self._go_back(heap)
        return self._explored[id(node), side]

    def _number(self, node: ast.AST) -> int:
        """The number of a condition of which one side is taken."""
        return -1 - self._numbers.setdefault(id(node), len(self._numbers))

    @contextmanager
    def _until_here(self) -> Iterator[None]:
        """A stretch of the program behind which no more counts what was left within it."""
        passed = len(self._passed)
        try:
            yield
        finally:
            del self._passed[passed:]

    def _go_back(self, heap: Mapping[int, Any]) -> None:
        """Have everything as it was; what is new since then stays, for events that name it."""
        self._heap = {**self._heap, **heap}

    def _beside(self, node: ast.AST, follow: Follow, side: int) -> Signal | None:
        """Follow one side of a condition of which the other is not taken."""
        self._arms.append((self._number(node), side))
        try:
            with self._until_here():
                return follow()
        finally:
            self._arms.pop()

    def _both(
        self,
        yes: Follow,
        no: Follow,
        pending: list[tuple[Value, bool | None]] | None,
        gpu: tuple[bool | None, bool | None],
    ) -> Signal | None:
        """Follow both sides of a condition, and go on with what they have in common."""
        self._conditions += 1
        number, before, outer = self._conditions, self._heap, self._gpu
        signals: list[Signal | None] = []
        heaps: list[dict[int, Any]] = []
        for side, follow in enumerate((yes, no)):
            self._heap = dict(before)
            self._arms.append((number, side))
            self._gpu = outer if gpu[side] is None else gpu[side]
            try:
                with self._until_here():
                    signals.append(follow())
            finally:
                self._arms.pop()
                self._gpu = outer
            heaps.append(self._heap)
        left = [signal is not None for signal in signals]
        if left == [True, True]:
            self._heap = self._merged(heaps, gpu)
            return self._ended(signals, gpu)
        for side in (0, 1):
            signal = signals[side]
            if signal is not None:
                if signal[0] == "return" and pending is not None:
                    pending.append((signal[1], gpu[side]))
                self._heap = {**heaps[side], **heaps[1 - side]}
                self._passed.append((number, 1 - side))
                return None
        self._heap = self._merged(heaps, gpu)
        return None

    def _ended(self, signals: Sequence[Signal | None], gpu: tuple[bool | None, bool | None]) -> Signal:
        """How a block was left that both sides of a condition leave."""
        first, second = (signal or ("stop", UNKNOWN) for signal in signals)
        if first[0] == second[0] == "return":
            return "return", self._one_of(first[1], second[1], gpu)
        return first if second[0] == "stop" else second

    def _merged(self, heaps: Sequence[dict[int, Any]], gpu: tuple[bool | None, bool | None]) -> dict[int, Any]:
        first, second = heaps
        merged = {**first, **second}
        for number in first.keys() & second.keys():
            one, other = first[number], second[number]
            if one is other:
                continue
            if isinstance(one, Box):
                merged[number] = self._merged_box(one, other)
            else:
                merged[number] = {
                    name: self._one_of(one[name], other[name], gpu) if name in one and name in other else UNKNOWN
                    for name in one.keys() | other.keys()
                }
        return merged

    @staticmethod
    def _merged_box(one: Box, other: Box) -> Box:
        held, beside = one.items, other.items
        if isinstance(held, tuple) and isinstance(beside, tuple) and len(held) == len(beside):
            items = tuple(a if is_same(a, b) else unknown(a, b) for a, b in zip(held, beside, strict=True))
            return replace(one, items=items)
        if isinstance(held, Mapping) and isinstance(beside, Mapping):
            keys = [*held, *(key for key in beside if key not in held)]
            return replace(
                one,
                items={
                    key: held[key] if key in held and key in beside and is_same(held[key], beside[key]) else UNKNOWN
                    for key in keys
                },
            )
        return replace(one, items=None)

    @staticmethod
    def _one_of(one: Value, other: Value, gpu: tuple[bool | None, bool | None]) -> Value:
        if is_same(one, other):
            return one
        if gpu == (True, False):
            return either(one, other)
        if gpu == (False, True):
            return either(other, one)
        return unknown(one, other)

    def _joined(self, parts: Sequence[Value], node: ast.AST) -> Value:
        """Texts behind one another; what is not known of them is a hole."""
        text = "".join(self._text(part) for part in parts)
        options = NONE.union(*(part.options for part in parts))
        return plain(text, node, options) if len(text) <= pure.MAX_TEXT else Value("unknown", None, node, options)

    @staticmethod
    def _text(value: Value) -> str:
        """A value as a text has it."""
        return str(value.data)[: pure.MAX_TEXT] if value.kind in ("plain", "path") else pure.HOLE

    def _truth(self, value: Value) -> bool | None:
        """Whether a value counts as true; None: that is not known."""
        if value.kind == "plain":
            return bool(value.data) if not isinstance(value.data, str) or pure.HOLE not in value.data else None
        if value.kind in ("function", "class", "symbol", "path", "parser"):
            return True
        if value.kind == "box":
            items = self._heap[value.data].items
            return None if items is None else bool(items)
        return None

    def _own_options(self, value: Value) -> frozenset[str]:
        """The options that a list or mapping depends on as a whole, and not for one of its items."""
        if value.kind != "box":
            return value.options
        items = self._heap[value.data].items
        held = () if items is None else items.values() if isinstance(items, Mapping) else items
        return value.options.difference(*(each.options for each in held))

    def _iterated(self, value: Value) -> tuple[Value, ...] | None:
        """What a loop over a value goes through; None: that is not known."""
        if value.kind == "plain" and isinstance(value.data, str) and len(value.data) <= MAX_ROUNDS:
            return tuple(plain(each, value.node, value.options) for each in value.data)
        entries = self.entries(value)
        if entries is not None:
            return tuple(plain(key, value.node) for key in entries)
        return self.items(value)

    def _environment(self, value: Value, node: ast.AST) -> None:
        for name, each in (self.entries(value) or {}).items():
            self._set_variable(plain(name), each, node)

    def _set_variable(self, name: Value, value: Value, node: ast.AST) -> None:
        if name.kind == "plain" and isinstance(name.data, str):
            self._note("environ", name.data, node, args=(value,))

    def _note_call(
        self, name: str, node: ast.AST, args: tuple[Value, ...], keywords: Mapping[str, Value], *, is_open: bool
    ) -> None:
        places = {each.arg: each for each in node.keywords if each.arg} if isinstance(node, ast.Call) else {}
        self._note("call", name, node, args=args, keywords=dict(keywords), places=places, is_open=is_open)

    def _note(self, kind: str, name: str, node: ast.AST, **told: Any) -> None:
        self.events.append(Event(kind, name, node, (*self._arms, *self._passed), self._gpu, **told))
