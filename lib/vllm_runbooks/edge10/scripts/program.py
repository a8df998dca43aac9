"""Read a Python script in execution order: its calls, settings and imports, with their values.

Nothing is executed. Functions are followed where they are called, command-line options have their
defaults, and both sides of unknown conditions are followed. Work is limited, and unfollowed values
are unknown.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_runbooks.edge10.scripts import operations
from vllm_runbooks.edge10.scripts.operations import FUNCTIONS, MAX_BITS, MAX_ITEMS, MAX_TEXT, join_path
from vllm_runbooks.edge10.scripts.values import (
    HOLE,
    MISSING,
    UNKNOWN,
    CallArguments,
    CallResult,
    Items,
    ScriptEvent,
    ScriptOption,
    ScriptValue,
)
from vllm_runbooks.reading.documents.python_text import PythonText

_MAX_WORK = 60_000
"""Statements and expressions that are followed."""
_MAX_EVENTS = 4_000
_MAX_ROUNDS = 200
"""Rounds of a loop."""
_MAX_CALLS = 25
"""Depth of calls."""
_BUILTINS = frozenset(dir(builtins))
_EXITS = frozenset(("sys.exit", "os._exit", "builtins.exit", "builtins.quit"))
_SAME_MODEL = frozenset(("to", "cuda", "cpu", "eval", "half", "float", "bfloat16"))
"""Methods of models that return the model."""
_SAME_PATH = frozenset(f"os.path.{name}" for name in ("abspath", "expanduser", "normpath", "realpath"))
_PATHS = frozenset(("os.path.join", "pathlib.Path"))
_READS = frozenset(("get", "keys", "values", "copy", "index", "count"))
"""Methods that leave a list or mapping as it is."""


class _LimitError(Exception):
    """The script is too much work."""


@dataclass(frozen=True, eq=False)
class FollowedFunction:
    """Function of a script."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    scopes: tuple[dict[str, ScriptValue], ...]
    defaults: Mapping[str, ScriptValue]


@dataclass
class _CallFrame:
    """Call that is being followed."""

    scopes: tuple[dict[str, ScriptValue], ...]
    """Names, the innermost scope first."""
    shared: frozenset[str] = frozenset()
    """Names that are declared global or nonlocal."""
    results: list[ScriptValue] = field(default_factory=list)


class ScriptProgram:
    """Script that was followed: its events, options and names."""

    def __init__(self, text: PythonText, imports: Mapping[str, str], outer: frozenset[str] = frozenset()) -> None:
        """Follow a script; `imports` means names that it forgets to import, `outer` is bound before."""
        self.text = text
        self.events: list[ScriptEvent] = []
        self.options: list[ScriptOption] = []
        self.names: dict[str, ScriptValue] = {}
        """Names of the module at the end."""
        nodes = list(ast.walk(text.tree))
        bound = frozenset(name for node in nodes for name in _bound_names(node))
        self._imports = {name: target for name, target in imports.items() if name not in bound}
        self._branches: list[tuple[int, int]] = [(0, 0)]
        self._excluded: list[tuple[int, int]] = []
        """Branches that the rest is on because the other side has returned."""
        self._conditions = self._work = 0
        self._calls: list[ast.AST] = []
        self._functions: list[FollowedFunction] = []
        self._followed: set[ast.AST] = set()
        self._statements: Mapping[type[ast.stmt], Callable[[Any, _CallFrame], str | None]] = {
            ast.Expr: self._run_expression, ast.Assign: self._assign, ast.AnnAssign: self._assign_annotated,
            ast.AugAssign: self._assign_augmented, ast.Import: self._import, ast.ImportFrom: self._import_from,
            ast.FunctionDef: self._define, ast.AsyncFunctionDef: self._define, ast.ClassDef: self._define_class,
            ast.Return: self._return, ast.Raise: lambda *_: "stop", ast.If: self._if, ast.While: self._while,
            ast.For: self._for, ast.With: self._with, ast.Try: self._try, ast.Break: lambda *_: "break",
            ast.Continue: lambda *_: "continue",
        }  # fmt: skip
        self._expressions: Mapping[type[ast.expr], Callable[[Any, _CallFrame], ScriptValue]] = {
            ast.Constant: self._constant, ast.Name: self._name, ast.List: self._sequence, ast.Tuple: self._sequence,
            ast.Dict: self._mapping, ast.Attribute: self._attribute, ast.Subscript: self._subscript,
            ast.BinOp: self._binary, ast.UnaryOp: self._negated, ast.Compare: self._compare,
            ast.IfExp: self._conditional, ast.JoinedStr: self._formatted, ast.ListComp: self._comprehension,
            ast.GeneratorExp: self._comprehension, ast.Call: self._call, ast.Lambda: lambda *_: UNKNOWN,
        }  # fmt: skip
        try:
            self._follow(text.tree.body, _CallFrame((self.names,)))
            self._follow_uncalled()
        except (_LimitError, RecursionError):
            pass  # the results so far count
        self.bound = bound | outer
        self.unbound: dict[str, ast.Name] = {}
        """Names of `imports` that nothing binds, each with its first use."""
        uses = [node for node in nodes if isinstance(node, ast.Name) and "*" not in bound]
        for node in sorted(uses, key=lambda use: (use.lineno, use.col_offset)):
            if node.id in self._imports and node.id not in outer:
                self.unbound.setdefault(node.id, node)

    # Values

    def python(self, value: ScriptValue | None) -> Any:
        """Python value of a value, lists and mappings included; MISSING if any of it is unknown."""
        return self._converted(value, 0, [MAX_ITEMS])

    def _converted(self, value: ScriptValue | None, depth: int, budget: list[int]) -> Any:
        budget[0] -= 1
        if value is None or depth > 8 or budget[0] < 0:
            return MISSING
        if value.kind == "plain":
            return value.data
        content = value.data.content if value.kind == "items" else None
        if content is None or len(content) > budget[0]:
            return MISSING
        items = content.values() if isinstance(content, dict) else content
        values = [self._converted(item, depth + 1, budget) for item in items]
        if any(item is MISSING for item in values):
            return MISSING
        return dict(zip(content, values, strict=True)) if isinstance(content, dict) else values

    def items(self, value: ScriptValue | None) -> tuple[ScriptValue, ...] | None:
        content = value.data.content if value is not None and value.kind == "items" else None
        return content if isinstance(content, tuple) else None

    def entries(self, value: ScriptValue | None) -> Mapping[Any, ScriptValue] | None:
        content = value.data.content if value is not None and value.kind == "items" else None
        return content if isinstance(content, dict) else None

    @staticmethod
    def _items(content: Iterable[ScriptValue] | dict[Any, ScriptValue] | None, node: ast.AST) -> ScriptValue:
        if content is not None and not isinstance(content, dict):
            content = tuple(content)
        return ScriptValue("items", Items(None if content is None or len(content) > MAX_ITEMS else content), node)

    def _wrapped(self, data: Any, node: ast.AST) -> ScriptValue:
        if isinstance(data, (list, tuple)):
            return self._items([self._wrapped(item, node) for item in data[: MAX_ITEMS + 1]], node)
        is_large = (isinstance(data, int) and data.bit_length() > MAX_BITS) or (
            isinstance(data, str) and len(data) > MAX_TEXT
        )
        is_plain = data is None or isinstance(data, (str, int, float))
        return ScriptValue("plain" if is_plain and not is_large else "unknown", data, node)

    def _computed(self, work: Callable[..., Any], node: ast.AST, *values: ScriptValue) -> ScriptValue:
        """Result of a function of values that are all known; unknown if it raises."""
        arguments = [self.python(value) for value in values]
        if not any(item is MISSING or (isinstance(item, str) and HOLE in item) for item in arguments):
            try:
                return self._wrapped(work(*arguments), node)
            except (TypeError, ValueError, ArithmeticError, LookupError):
                pass
        return UNKNOWN

    @staticmethod
    def _text(value: ScriptValue) -> str:
        return str(value.data)[:MAX_TEXT] if value.kind == "plain" else HOLE

    def _joined(self, parts: Sequence[ScriptValue], node: ast.AST) -> ScriptValue:
        return self._wrapped("".join(map(self._text, parts)), node)

    def _path(self, parts: Sequence[ScriptValue], node: ast.AST) -> ScriptValue:
        return self._wrapped(join_path([self._text(part) for part in parts]), node)

    def _truth(self, value: ScriptValue) -> bool | None:
        if value.kind == "plain":
            return None if isinstance(value.data, str) and HOLE in value.data else bool(value.data)
        return bool(value.data.content) if value.kind == "items" and value.data.content is not None else None

    def _iterated(self, value: ScriptValue) -> tuple[ScriptValue, ...] | None:
        entries = self.entries(value)
        return self.items(value) if entries is None else tuple(ScriptValue("plain", key, value.node) for key in entries)

    # Events

    def _spend(self, work: int = 1) -> None:
        self._work += work
        if self._work > _MAX_WORK or len(self.events) > _MAX_EVENTS:
            raise _LimitError

    def _note(self, kind: str, name: str, node: ast.AST, arguments: CallArguments = CallArguments()) -> None:  # noqa: B008 - frozen
        branches = (*self._branches, *self._excluded)
        self.events.append(
            ScriptEvent(kind, name, node, branches, arguments.args, arguments.keywords, arguments.is_open)
        )

    def _set_variable(self, name: ScriptValue, value: ScriptValue, node: ast.AST) -> None:
        if name.kind == "plain" and isinstance(name.data, str):
            self._note("environ", name.data, node, CallArguments((value,)))

    def _set_attribute(self, owner: ScriptValue, name: str, value: ScriptValue, node: ast.AST) -> None:
        if owner.kind == "symbol":
            self._note("assign", f"{owner.data}.{name}", node, CallArguments((value,)))
        elif owner.kind == "namespace":
            owner.data[name] = value if self._is_certain else UNKNOWN

    @property
    def _is_certain(self) -> bool:
        """Whether the current code is not one side of an unknown condition."""
        return len(self._branches) == 1

    def _set_items(self, owner: ScriptValue, content: tuple[ScriptValue, ...] | dict[Any, ScriptValue] | None) -> None:
        is_kept = content is not None and len(content) <= MAX_ITEMS and self._is_certain
        owner.data.content = content if is_kept else None

    # Statements: each returns how it leaves its block ("return", "break", "continue" or "stop"), or None

    def _follow(self, body: Sequence[ast.stmt], frame: _CallFrame) -> str | None:
        for statement in body:
            self._spend()
            follow = self._statements.get(type(statement))
            signal = follow(statement, frame) if follow is not None else None
            if signal is not None:
                return signal
        return None

    def _run_expression(self, node: ast.Expr, frame: _CallFrame) -> str | None:
        value = self._evaluate(node.value, frame)
        return "stop" if value.kind == "result" and value.data.name in _EXITS else None

    def _assign(self, node: ast.Assign, frame: _CallFrame) -> None:
        value = self._evaluate(node.value, frame)
        for target in node.targets:
            self._bind(target, value, frame, node)

    def _assign_annotated(self, node: ast.AnnAssign, frame: _CallFrame) -> None:
        if node.value is not None:
            self._bind(node.target, self._evaluate(node.value, frame), frame, node)

    def _assign_augmented(self, node: ast.AugAssign, frame: _CallFrame) -> None:
        right, target = self._evaluate(node.value, frame), node.target
        left = self._name(target, frame) if isinstance(target, ast.Name) else UNKNOWN
        self._bind(target, self._calculated(node.op, left, right, node), frame, node)

    def _bind(self, target: ast.expr, value: ScriptValue, frame: _CallFrame, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            scope = frame.scopes[0]
            if target.id in frame.shared:
                scope = next((outer for outer in frame.scopes[1:] if target.id in outer), frame.scopes[-1])
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = self.items(value)
            is_known = items is not None and len(items) == len(target.elts)
            for index, element in enumerate(target.elts):
                is_single = is_known and not isinstance(element, ast.Starred)
                self._bind(element, items[index] if is_single and items is not None else UNKNOWN, frame, node)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, UNKNOWN, frame, node)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self._evaluate(target.value, frame), target.attr, value, node)
        elif isinstance(target, ast.Subscript):
            owner, key = self._evaluate(target.value, frame), self._evaluate(target.slice, frame)
            entries = self.entries(owner)
            if owner.kind == "environ":
                self._set_variable(key, value, node)
            elif owner.kind == "items":
                is_known = entries is not None and key.kind == "plain"
                self._set_items(owner, {**(entries or {}), key.data: value} if is_known else None)

    def _import(self, node: ast.Import, frame: _CallFrame) -> None:
        for alias in node.names:
            self._note("import", alias.name, node)
            top = alias.name.split(".")[0]
            frame.scopes[0][alias.asname or top] = self._symbol(alias.name if alias.asname else top, node)

    def _import_from(self, node: ast.ImportFrom, frame: _CallFrame) -> None:
        module = node.module if not node.level else None
        for name in (module, *(f"{module}.{alias.name}" for alias in node.names)) if module else ():
            self._note("import", name, node)
        for alias in node.names:
            name = f"{module}.{alias.name}"
            frame.scopes[0][alias.asname or alias.name] = self._symbol(name, node) if module else UNKNOWN

    @staticmethod
    def _symbol(name: str, node: ast.AST) -> ScriptValue:
        return ScriptValue("environ", None, node) if name == "os.environ" else ScriptValue("symbol", name, node)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: _CallFrame) -> None:
        for decorator in node.decorator_list:
            self._evaluate(decorator, frame)
        positional = [*node.args.posonlyargs, *node.args.args]
        pairs = [*zip(positional[::-1], node.args.defaults[::-1], strict=False)]
        pairs += [
            (parameter, default)
            for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        ]
        defaults = {parameter.arg: self._evaluate(default, frame) for parameter, default in pairs}
        function = FollowedFunction(node, frame.scopes, defaults)
        self._functions.append(function)
        frame.scopes[0][node.name] = ScriptValue("function", function, node)

    def _define_class(self, node: ast.ClassDef, frame: _CallFrame) -> None:
        """Follow the body of a class; its methods are followed as functions that nothing calls."""
        self._follow(node.body, _CallFrame(({}, *frame.scopes)))
        frame.scopes[0][node.name] = UNKNOWN

    def _return(self, node: ast.Return, frame: _CallFrame) -> str:
        frame.results.append(ScriptValue("plain") if node.value is None else self._evaluate(node.value, frame))
        return "return"

    def _if(self, node: ast.If, frame: _CallFrame) -> str | None:
        truth = self._truth(self._evaluate(node.test, frame))
        if truth is None:
            return self._follow_branches([node.body, node.orelse], frame)
        return self._follow(node.body if truth else node.orelse, frame)

    def _follow_branches(self, bodies: Sequence[Sequence[ast.stmt]], frame: _CallFrame) -> str | None:
        """Follow alternative bodies; names that one of them binds become unknown."""
        self._conditions += 1
        number = self._conditions
        signals = [self._follow_aside(body, frame, (number, side)) for side, body in enumerate(bodies)]
        remaining = [side for side, signal in enumerate(signals) if signal is None]
        for body, signal in zip(bodies, signals, strict=True):
            if signal in (None, "break", "continue"):
                self._forget(body, frame)
        if not remaining:
            return next((signal for signal in signals if signal != "stop"), "stop")
        if len(remaining) == 1:
            self._excluded.append((number, remaining[0]))
        return None

    def _forget(self, body: Sequence[ast.stmt], frame: _CallFrame) -> None:
        """Mark the names that statements bind as unknown."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._bind(node, UNKNOWN, frame, node)

    def _follow_aside(self, body: Sequence[ast.stmt], frame: _CallFrame, branch: tuple[int, int]) -> str | None:
        """Follow one side of a condition; the names of the function are then as they were before."""
        self._spend(len(frame.scopes[0]) // 20)
        count, names = len(self._excluded), dict(frame.scopes[0])
        self._branches.append(branch)
        try:
            return self._follow(body, frame)
        finally:
            self._branches.pop()
            del self._excluded[count:]
            frame.scopes[0].clear()
            frame.scopes[0].update(names)

    def _while(self, node: ast.While, frame: _CallFrame) -> str | None:
        self._evaluate(node.test, frame)
        return self._follow_branches([node.body, []], frame)

    def _for(self, node: ast.For, frame: _CallFrame) -> str | None:
        items = self._iterated(self._evaluate(node.iter, frame))
        if items is None or len(items) > _MAX_ROUNDS:
            self._bind(node.target, UNKNOWN, frame, node)
            return self._follow_branches([node.body, []], frame)
        for item in items:
            self._bind(node.target, item, frame, node)
            count = len(self._excluded)
            signal = self._follow(node.body, frame)
            del self._excluded[count:]
            if signal in ("return", "stop"):
                return signal
            if signal == "break":
                return None
        return self._follow(node.orelse, frame)

    def _with(self, node: ast.With, frame: _CallFrame) -> str | None:
        for item in node.items:
            self._evaluate(item.context_expr, frame)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, UNKNOWN, frame, node)
        return self._follow(node.body, frame)

    def _try(self, node: ast.Try, frame: _CallFrame) -> str | None:
        signal = self._follow(node.body, frame)
        for handler in node.handlers:
            self._conditions += 1
            self._follow_aside(handler.body, frame, (self._conditions, 1))
        if signal is None:
            signal = self._follow(node.orelse, frame)
        return self._follow(node.finalbody, frame) or signal

    # Expressions

    def _evaluate(self, node: ast.expr, frame: _CallFrame) -> ScriptValue:
        self._spend()
        evaluate = self._expressions.get(type(node))
        if evaluate is not None:
            return evaluate(node, frame)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._evaluate(child, frame)
        return UNKNOWN

    def _constant(self, node: ast.Constant, frame: _CallFrame) -> ScriptValue:  # noqa: ARG002 - one of a table
        return self._wrapped(node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value, node)

    def _name(self, node: ast.Name, frame: _CallFrame) -> ScriptValue:
        if node.id == "__name__":
            return ScriptValue("plain", "__main__", node)
        for scope in frame.scopes:
            if node.id in scope:
                return scope[node.id]
        if node.id in self._imports:
            return self._symbol(self._imports[node.id], node)
        return ScriptValue("symbol", f"builtins.{node.id}", node) if node.id in _BUILTINS else UNKNOWN

    def _sequence(self, node: ast.List | ast.Tuple, frame: _CallFrame) -> ScriptValue:
        arguments = self._unpacked(node.elts, frame)
        return self._items(None if arguments.is_open else arguments.args, node)

    def _unpacked(self, elements: Sequence[ast.expr], frame: _CallFrame) -> CallArguments:
        values: list[ScriptValue] = []
        is_open = False
        for element in elements:
            if isinstance(element, ast.Starred):
                items = self._iterated(self._evaluate(element.value, frame))
                values += items or ()
                is_open |= items is None
            else:
                values.append(self._evaluate(element, frame))
        return CallArguments(tuple(values), is_open=is_open)

    def _mapping(self, node: ast.Dict, frame: _CallFrame) -> ScriptValue:
        content: dict[Any, ScriptValue] = {}
        is_known = True
        for key, element in zip(node.keys, node.values, strict=True):
            value = self._evaluate(element, frame)
            name = UNKNOWN if key is None else self._evaluate(key, frame)
            entries = self.entries(value) if key is None else {name.data: value} if name.kind == "plain" else None
            content |= entries or {}
            is_known &= entries is not None
        return self._items(content if is_known else None, node)

    def _attribute(self, node: ast.Attribute, frame: _CallFrame) -> ScriptValue:
        owner, name = self._evaluate(node.value, frame), node.attr
        if owner.kind == "symbol":
            return self._symbol(f"{owner.data}.{name}", node)
        if owner.kind == "namespace":
            value: ScriptValue = owner.data.get(name, UNKNOWN)
            return value
        if owner.kind == "result":
            result: CallResult = owner.data
            return ScriptValue("result", replace(result, attributes=(*result.attributes, name)), node)
        return ScriptValue("method", (owner, name), node)

    def _subscript(self, node: ast.Subscript, frame: _CallFrame) -> ScriptValue:
        owner = self._evaluate(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            ends = [
                ScriptValue("plain") if end is None else self._evaluate(end, frame)
                for end in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            value = self._computed(lambda items, *bounds: items[slice(*bounds)], node, owner, *ends)
            return replace(value, node=owner.node)
        key = self._evaluate(node.slice, frame)
        content = owner.data.content if owner.kind == "items" else None
        try:
            item: ScriptValue = content[key.data] if content is not None and key.kind == "plain" else UNKNOWN
        except (LookupError, TypeError):
            return UNKNOWN
        return item

    def _binary(self, node: ast.BinOp, frame: _CallFrame) -> ScriptValue:
        return self._calculated(node.op, self._evaluate(node.left, frame), self._evaluate(node.right, frame), node)

    def _calculated(self, kind: ast.operator, left: ScriptValue, right: ScriptValue, node: ast.AST) -> ScriptValue:
        is_text = [value.kind == "plain" and isinstance(value.data, str) for value in (left, right)]
        if isinstance(kind, ast.Add):
            first, second = self.items(left), self.items(right)
            if first is not None and second is not None:
                return self._items((*first, *second), node)
            others = left.kind == right.kind == "plain" and not all(is_text)
            if any(is_text) and not others and "items" not in (left.kind, right.kind):
                return self._joined([left, right], node)
        if isinstance(kind, ast.Div) and any(is_text):
            return self._path([left, right], node)
        return self._computed(
            lambda first_value, other: operations.calculate(kind, first_value, other), node, left, right
        )

    def _negated(self, node: ast.UnaryOp, frame: _CallFrame) -> ScriptValue:
        value = self._evaluate(node.operand, frame)
        return self._computed(operator.neg, node, value) if isinstance(node.op, ast.USub) else UNKNOWN

    def _compare(self, node: ast.Compare, frame: _CallFrame) -> ScriptValue:
        values = [self._evaluate(operand, frame) for operand in (node.left, *node.comparators)]
        return self._computed(operations.COMPARISONS[type(node.ops[0])], node, *values) if len(values) == 2 else UNKNOWN

    def _conditional(self, node: ast.IfExp, frame: _CallFrame) -> ScriptValue:
        truth = self._truth(self._evaluate(node.test, frame))
        if truth is not None:
            return self._evaluate(node.body if truth else node.orelse, frame)
        values = (self._evaluate(node.body, frame), self._evaluate(node.orelse, frame))
        return ScriptValue("either", values, node)

    def _formatted(self, node: ast.JoinedStr, frame: _CallFrame) -> ScriptValue:
        parts = []
        for part in node.values:
            value = self._evaluate(part.value if isinstance(part, ast.FormattedValue) else part, frame)
            is_changed = isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion != -1)
            parts.append(UNKNOWN if is_changed else value)
        return self._joined(parts, node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, frame: _CallFrame) -> ScriptValue:
        """Content of a comprehension with one loop; that of others is unknown."""
        inner, loop = _CallFrame(({}, *frame.scopes)), node.generators[0]
        items = self._iterated(self._evaluate(loop.iter, frame))
        is_known = items is not None and len(items) <= _MAX_ROUNDS and len(node.generators) == 1
        values: list[ScriptValue] = []
        for item in items if is_known and items is not None else (UNKNOWN,):
            self._bind(loop.target, item, inner, node)
            truths = [self._truth(self._evaluate(test, inner)) for test in loop.ifs]
            is_known &= None not in truths
            if False not in truths:
                values.append(self._evaluate(node.elt, inner))
        return self._items(values if is_known else None, node)

    # Calls

    def _call(self, node: ast.Call, frame: _CallFrame) -> ScriptValue:
        function = self._evaluate(node.func, frame)
        unpacked = self._unpacked(node.args, frame)
        keywords: dict[str, ScriptValue] = {}
        is_open = unpacked.is_open
        for keyword in node.keywords:
            value = self._evaluate(keyword.value, frame)
            entries = {keyword.arg: value} if keyword.arg is not None else self.entries(value)
            keywords |= {key: entry for key, entry in (entries or {}).items() if isinstance(key, str)}
            is_open |= entries is None
        return self._apply(function, CallArguments(unpacked.args, keywords, is_open), node)

    def _apply(self, function: ScriptValue, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        if function.kind == "function":
            return self._invoke(function.data, arguments, node)
        if function.kind == "symbol":
            return self._call_symbol(function.data, arguments, node)
        if function.kind == "method":
            owner, method = function.data
            return self._call_method(owner, method, arguments, node)
        if function.kind == "result":
            result: CallResult = function.data
            method = result.attributes[-1] if result.attributes else "__call__"
            self._note("call", f".{method}", node, arguments)
            if method in _SAME_MODEL:
                return replace(function, data=replace(result, attributes=result.attributes[:-1]))
            return ScriptValue("result", CallResult(f".{method}", (), {}), node)
        return UNKNOWN

    def _invoke(self, function: FollowedFunction, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        self._followed.add(function.node)
        if len(self._calls) >= _MAX_CALLS or self._calls.count(function.node) > 2:
            return UNKNOWN
        inner = list(ast.walk(function.node))
        shared = {name for child in inner if isinstance(child, (ast.Global, ast.Nonlocal)) for name in child.names}
        scope = self._parameters(function, arguments, node)
        frame = _CallFrame((scope, *function.scopes), frozenset(shared))
        count = len(self._excluded)
        self._calls.append(function.node)
        try:
            signal = self._follow(function.node.body, frame)
        finally:
            self._calls.pop()
            del self._excluded[count:]
        results = frame.results if signal == "return" else [*frame.results, ScriptValue("plain")]
        is_generator = any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in inner)
        is_one = not is_generator and all(_is_same(results[0], result) for result in results)
        return results[0] if is_one else UNKNOWN

    def _parameters(
        self, function: FollowedFunction, arguments: CallArguments, node: ast.AST
    ) -> dict[str, ScriptValue]:
        parameters = function.node.args
        positional = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        names = {*positional, *(parameter.arg for parameter in parameters.kwonlyargs)}
        scope: dict[str, ScriptValue] = dict.fromkeys(names, UNKNOWN)
        scope |= function.defaults
        scope |= dict(zip(positional, arguments.args, strict=False))
        scope |= {name: value for name, value in arguments.keywords.items() if name in names}
        if parameters.vararg is not None:
            scope[parameters.vararg.arg] = self._items(arguments.args[len(positional) :], node)
        if parameters.kwarg is not None:
            others = {name: value for name, value in arguments.keywords.items() if name not in names}
            scope[parameters.kwarg.arg] = self._items(others, node)
        return scope

    def _call_symbol(self, name: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        args = arguments.args
        if name.startswith("builtins."):
            return self._call_builtin(name.removeprefix("builtins."), arguments, node)
        if name == "argparse.ArgumentParser":
            return ScriptValue("parser", [], node)
        if name in _PATHS:
            return self._path(args, node)
        if name in _SAME_PATH and args:
            return args[0]
        self._note("call", name, node, arguments)
        return ScriptValue("result", CallResult(name, args, dict(arguments.keywords)), node)

    def _call_builtin(self, name: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        args = arguments.args
        if name in ("exit", "quit"):
            return ScriptValue("result", CallResult(f"builtins.{name}", args, {}), node)
        if name == "setattr" and len(args) == 3 and args[1].kind == "plain":
            self._set_attribute(args[0], str(args[1].data), args[2], node)
        if name in ("list", "tuple") and len(args) == 1:
            return self._items(self._iterated(args[0]), node)
        if name == "map" and len(args) == 2:
            items = self._iterated(args[1])
            results = [self._apply(args[0], CallArguments((item,)), node) for item in items or ()]
            return self._items(None if items is None else results, node)
        if name == "dict" and not args:
            return self._items(None if arguments.is_open else dict(arguments.keywords), node)
        if name == "str" and len(args) == 1 and args[0].kind == "plain":
            return replace(args[0], data=str(args[0].data))
        if name not in FUNCTIONS or arguments.keywords or arguments.is_open:
            return UNKNOWN
        value = self._computed(FUNCTIONS[name], node, *args)
        return replace(value, node=args[0].node) if args and value.kind == "plain" else value

    def _call_method(self, owner: ScriptValue, method: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        if owner.kind == "parser":
            return self._call_parser(owner, method, arguments, node)
        if owner.kind == "environ":
            self._call_environ(method, arguments, node)
        elif owner.kind == "items":
            return self._call_items(owner, method, arguments, node)
        elif owner.kind == "plain" and isinstance(owner.data, str):
            return self._call_text(owner, method, arguments, node)
        else:
            self._note("call", f".{method}", node, arguments)
        return owner if method in _SAME_MODEL else UNKNOWN

    def _call_parser(self, parser: ScriptValue, method: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        if method == "add_argument" and isinstance(node, ast.Call):
            flags = [str(arg.data) for arg in arguments.args if arg.kind == "plain"]
            dest = arguments.keywords.get("dest")
            longest = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
            name = str(dest.data) if dest is not None else longest.lstrip("-").replace("-", "_")
            if flags:
                keywords = arguments.keywords
                option = ScriptOption(name, tuple(flags), keywords.get("default"), node, keywords)
                self.options.append(option)
                parser.data.append(option)
            return UNKNOWN
        if method != "parse_args":
            return parser if method.startswith("add_") else UNKNOWN
        self._note("parse", "argparse", node)
        return ScriptValue("namespace", {option.name: self._default_of(option) for option in parser.data}, node)

    def _default_of(self, option: ScriptOption) -> ScriptValue:
        default, convert = option.default, option.keywords.get("type")
        if default is None or (default.kind == "plain" and default.data is None):
            return UNKNOWN
        if convert is not None and default.kind == "plain" and isinstance(default.data, str):
            default = replace(self._apply(convert, CallArguments((default,)), option.node), node=default.node)
        return default

    def _call_environ(self, method: str, arguments: CallArguments, node: ast.AST) -> None:
        args = arguments.args
        if method == "setdefault" and len(args) == 2:
            self._set_variable(args[0], args[1], node)
        elif method == "update":
            entries = [entry for arg in args for entry in (self.entries(arg) or {}).items()]
            for name, value in (*entries, *arguments.keywords.items()):
                self._set_variable(ScriptValue("plain", name), value, node)

    def _call_text(self, text: ScriptValue, method: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        args = arguments.args
        if method in ("resolve", "absolute", "encode"):
            return text
        items = self._iterated(args[0]) if method == "join" and len(args) == 1 else None
        parts = [part for item in items or () for part in (text, item)][1:]
        return UNKNOWN if items is None else self._joined(parts, node)

    def _call_items(self, owner: ScriptValue, method: str, arguments: CallArguments, node: ast.AST) -> ScriptValue:
        args, content = arguments.args, owner.data.content
        entries = self.entries(owner)
        if entries is not None and method == "items":
            return self._items(
                [self._items((ScriptValue("plain", key, node), entry), node) for key, entry in entries.items()], node
            )
        if isinstance(content, tuple) and method in ("append", "extend") and len(args) == 1:
            added = (args[0],) if method == "append" else self._iterated(args[0])
            self._set_items(owner, None if added is None else content + added)
        elif method not in _READS:
            self._set_items(owner, None)
        return UNKNOWN

    def _follow_uncalled(self) -> None:
        """Follow functions that nothing calls, each by itself: another script may import them."""
        for number, function in enumerate(self._functions, 1):
            if function.node not in self._followed:
                self._branches[0] = (0, number)
                self._excluded.clear()
                self._invoke(function, CallArguments(), function.node)


def _is_same(value: ScriptValue, other: ScriptValue) -> bool:
    """Whether two values are certainly equal."""
    if value is other:
        return True
    return value.kind == other.kind == "plain" and type(value.data) is type(other.data) and value.data == other.data


def _bound_names(node: ast.AST) -> list[str]:
    """Names that a node binds."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.alias):
        return [node.asname or node.name.split(".")[0]]
    if isinstance(node, ast.arg):
        return [node.arg]
    names = (getattr(node, "name", None), getattr(node, "rest", None), *getattr(node, "names", ()))
    return [name for name in names if isinstance(name, str)]
