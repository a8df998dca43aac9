"""A Python program read in the order in which it runs: what it calls, sets and imports, and with which values.

Nothing is executed. Module level comes first, functions where they are called, conditions that are known on their side,
others on both; a command line's options have their defaults. Work, sizes and depths are bounded, and what cannot be
followed is unknown.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.calls import COMMANDS, Calls, is_converting
from vllm_runbooks.edge10.scripts.events import Option
from vllm_runbooks.edge10.scripts.machine import MAX_ROUNDS, Class, Frame, Function, OverError, Signal
from vllm_runbooks.edge10.scripts.values import MISSING, NONE, UNKNOWN, Made, Value, arm, either, lifted, plain, unknown
from vllm_runbooks.reading.documents.python_text import PythonText

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__package__"}
_INTERACTIVE = frozenset(("get_ipython", "display", "__annotations__", "__class__"))
"""Names that a notebook has, or a class."""
_LEAVES = frozenset(("sys.exit", "os._exit", "builtins.exit", "builtins.quit"))
_PLAIN_FORMS = frozenset(("", "d", "s"))
"""How a formatted text may ask for a value that then stands in it as it is."""


class Missing(NamedTuple):
    """A name that is used where nothing gives it a meaning."""

    node: ast.Name
    is_late: bool
    """Whether an import further down would have."""


class Program(Calls):
    """A program being followed; what it does is in `events` when `run` is over."""

    def __init__(self, text: PythonText, known: Mapping[str, str], outer: frozenset[str] = NONE) -> None:
        """Take a parsed program.

        Args:
            text: The program.
            known: Dotted names of what some names stand for where the program forgets to import them.
            outer: Names that a text before this one has given a meaning, where it goes on with that.
        """
        super().__init__()
        self.text = text
        self.known, self.outer = known, outer
        self.missing: dict[str, Missing] = {}
        """Names that nothing gives a meaning."""
        self.is_whole = True
        """Whether all of it was followed."""
        self._class_scopes: set[int] = set()
        self._defined: list[Function] = []
        nodes = list(ast.walk(text.tree))
        self._read = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        self._stored = frozenset(name for node in nodes for name in _bound_by(node))
        self._imports_late = _module_imports(text.tree, nodes)
        self._has_star = any(
            isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names) for node in nodes
        )
        self._statements: Mapping[type[ast.stmt], Callable[[Any, Frame], Signal | None]] = {
            ast.Expr: self._expression, ast.Assign: self._assign, ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented, ast.Import: self._import, ast.ImportFrom: self._import_from,
            ast.FunctionDef: self._define, ast.AsyncFunctionDef: self._define, ast.ClassDef: self._class,
            ast.Return: self._return, ast.Raise: self._raise, ast.If: self._if, ast.While: self._while,
            ast.For: self._for, ast.AsyncFor: self._for, ast.With: self._with, ast.AsyncWith: self._with,
            ast.Try: self._try, ast.Match: self._match, ast.Break: self._break, ast.Continue: self._continue,
        }  # fmt: skip
        self._expressions: Mapping[type[ast.expr], Callable[[Any, Frame], Value]] = {
            ast.Constant: self._constant, ast.Name: self._name, ast.List: self._sequence, ast.Tuple: self._sequence,
            ast.Set: self._sequence, ast.Dict: self._dictionary, ast.Attribute: self._attribute_of,
            ast.Subscript: self._subscript, ast.BinOp: self._binary, ast.UnaryOp: self._unary,
            ast.BoolOp: self._boolean, ast.Compare: self._compare, ast.IfExp: self._conditional,
            ast.JoinedStr: self._formatted, ast.ListComp: self._comprehension, ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension, ast.DictComp: self._comprehension, ast.NamedExpr: self._walrus,
            ast.Lambda: self._lambda, ast.Await: self._inner, ast.YieldFrom: self._inner, ast.Starred: self._inner,
            ast.Call: self._call,
        }  # fmt: skip

    def run(self) -> None:
        """Follow the whole program, and then functions that it defines and never calls."""
        try:
            self._block(self.text.tree.body, Frame((0,)))
            self._uncalled()
        except (OverError, RecursionError):
            self.is_whole = False
        self._names()

    @property
    def names(self) -> Mapping[str, Value]:
        """The names of the module, as they are in the end."""
        found: Mapping[str, Value] = self._heap[0]
        return found

    @property
    def bound(self) -> frozenset[str]:
        """Every name that any statement binds."""
        return self._stored

    def _names(self) -> None:
        """Note the names that no statement anywhere binds, in what was not followed as well."""
        if self._has_star:
            return
        for node in sorted(self._read, key=lambda node: (node.lineno, node.col_offset)):
            self._note_missing(node, is_late=False)

    def _note_missing(self, node: ast.Name, *, is_late: bool) -> None:
        name = node.id
        if name in self.missing or name in _BUILTINS | _INTERACTIVE | self.outer:
            return
        if is_late or name not in self._stored:
            self.missing[name] = Missing(node, is_late)

    def _store(self, frame: Frame, name: str, value: Value) -> None:
        scope = frame.scopes[0]
        if name in frame.shared:
            scope = next((each for each in frame.scopes[1:] if name in self._heap[each]), frame.scopes[-1])
        self._heap[scope] = {**self._heap[scope], name: value}

    def _look_up(self, node: ast.Name, frame: Frame) -> Value:
        if node.id == "__name__":
            return plain("__main__", node)
        for scope in frame.scopes:
            if node.id in self._heap[scope]:
                found: Value = self._heap[scope][node.id]
                return found
        if node.id in self.known and node.id not in self._stored - self._imports_late:
            if len(self._arms) == 1 and node.id in self._imports_late:
                self._note_missing(node, is_late=True)
            return Value("symbol", self.known[node.id], node)
        if node.id in self._imports_late and len(self._arms) == 1 and not self._has_star:
            self._note_missing(node, is_late=True)
        if node.id in _BUILTINS:
            return Value("symbol", f"builtins.{node.id}", node)
        return UNKNOWN

    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> Signal | None:
        for statement in body:
            self._spend()
            follow = self._statements.get(type(statement))
            signal = follow(statement, frame) if follow is not None else None
            if signal is not None:
                return signal
        return None

    def _expression(self, node: ast.Expr, frame: Frame) -> Signal | None:
        value = self._value(node.value, frame)
        return ("stop", UNKNOWN) if value.kind == "made" and value.data.name in _LEAVES else None

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self._value(node.value, frame)
        for target in node.targets:
            self._bind(target, value, frame, node)

    def _annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self._bind(node.target, self._value(node.value, frame), frame, node)

    def _augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        right = self._value(node.value, frame)
        left = self._value(_loaded(node.target), frame)
        if left.kind == "environ":
            self._environment(right, node)
        elif left.kind == "box" and isinstance(node.op, (ast.Add, ast.BitOr)):
            self._extend(left, right)
        else:
            self._bind(node.target, self._calculated(node.op, left, right, node), frame, node)

    def _bind(self, target: ast.expr, value: Value, frame: Frame, whole: ast.AST) -> None:
        """Give a target a value."""
        if isinstance(target, ast.Name):
            self._store(frame, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, frame, whole)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, unknown(value), frame, whole)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self._value(target.value, frame), target.attr, value, whole)
        elif isinstance(target, ast.Subscript):
            base, key = self._value(target.value, frame), self._value(target.slice, frame)
            if base.kind == "environ":
                self._set_variable(key, value, whole)
            else:
                self._set_item(base, key, value)

    def _unpack(self, targets: Sequence[ast.expr], value: Value, frame: Frame, whole: ast.AST) -> None:
        items = self.items(value)
        is_plain = not any(isinstance(each, ast.Starred) for each in targets)
        for index, target in enumerate(targets):
            known = items is not None and is_plain and len(items) == len(targets)
            self._bind(target, items[index] if known and items is not None else unknown(value), frame, whole)

    def _import(self, node: ast.Import, frame: Frame) -> None:
        for each in node.names:
            self._note("import", each.name, node)
            top = each.name.split(".")[0]
            self._store(frame, each.asname or top, self._symbol(each.name if each.asname else top, node))

    def _import_from(self, node: ast.ImportFrom, frame: Frame) -> None:
        if node.level or not node.module:
            for each in node.names:
                self._store(frame, each.asname or each.name, UNKNOWN)
            return
        self._note("import", node.module, node)
        for each in node.names:
            if each.name != "*":
                name = f"{node.module}.{each.name}"
                self._note("import", name, node)
                self._store(frame, each.asname or each.name, self._symbol(name, node))

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        marks, options, own = set(), [], []
        for decorator in node.decorator_list:
            made = self._value(decorator, frame)
            name = made.data.name if made.kind == "made" else made.data if made.kind == "symbol" else ""
            if not name and isinstance(decorator, (ast.Call, ast.Attribute)):
                name = _last(decorator)
            marks.add(str(name).rpartition(".")[2])
            if made.kind in ("function", "class", "instance"):
                own.append(made)
            if made.kind == "made" and name in ("click.option", "click.argument"):
                options.append(self._click_option(decorator, made.data))
        function = Function(
            node,
            self._seen_from(frame),
            frozenset(marks),
            tuple(filter(None, options)),
            frame.scopes[0] if frame.scopes[0] in self._class_scopes else None,
            self._defaults(node.args, frame),
        )
        self._defined.append(function)
        self._store(frame, node.name, self._decorated(function, own))

    def _decorated(self, function: Function, own: Sequence[Value]) -> Value:
        """A function behind those of its decorators that are the program's own, the innermost first."""
        value = Value("function", function, function.node)
        for decorator in reversed(own):
            made = self._called(decorator, (value,), {}, function.node)
            if made.kind == "function" and made.data is not function:
                # click and the like hand the command line to what stands under the name.
                marks, options = made.data.marks | function.marks, made.data.options or function.options
                value = Value("function", replace(made.data, marks=marks, options=options), function.node)
            elif made.kind in ("instance", "unknown"):
                value = made
        return value

    def _seen_from(self, frame: Frame) -> tuple[int, ...]:
        """The scopes that a function sees which is defined here: not that of a class."""
        return tuple(scope for scope in frame.scopes if scope not in self._class_scopes)

    def _defaults(self, given: ast.arguments, frame: Frame) -> dict[str, Value]:
        """The defaults of a function's parameters, by name."""
        positional = [*given.posonlyargs, *given.args]
        found = {
            parameter.arg: self._value(default, frame)
            for parameter, default in zip(positional[::-1], given.defaults[::-1], strict=False)
        }
        for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default is not None:
                found[parameter.arg] = self._value(default, frame)
        return found

    def _click_option(self, decorator: ast.expr, made: Made) -> Option | None:
        flags = [each.data for each in made.args if each.kind == "plain" and isinstance(each.data, str)]
        if not flags or not isinstance(decorator, ast.Call):
            return None
        own = [flag for flag in flags if not flag.startswith("-")]
        longest = max(flags, key=lambda flag: (flag.startswith("--"), len(flag)))
        name = own[0] if own else longest.lstrip("-").split("/")[0].replace("-", "_")
        return self._option(name, flags, decorator, made.keywords, "click")

    def _class(self, node: ast.ClassDef, frame: Frame) -> None:
        bases = tuple(self._value(base, frame) for base in node.bases)
        marks = {_last(decorator) for decorator in node.decorator_list}
        scope = self._new({})
        self._class_scopes.add(scope)
        self._block(node.body, Frame((scope, *frame.scopes)))
        fields = tuple(
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        )
        last = {_last(base) for base in node.bases}
        records = {"NamedTuple", "BaseModel", "BaseSettings"}
        is_record = bool(marks & {"dataclass", "define", "frozen", "attrs"} or last & records)
        changed = _changed(node, fields)
        self._classes[scope] = Class(node.name, scope, bases, fields, is_record=is_record, changed=changed)
        self._store(frame, node.name, Value("class", self._classes[scope], node))

    def _return(self, node: ast.Return, frame: Frame) -> Signal:
        return "return", self._value(node.value, frame) if node.value is not None else plain(None)

    def _raise(self, node: ast.Raise, frame: Frame) -> Signal:
        if node.exc is not None:
            self._value(node.exc, frame)
        return "stop", UNKNOWN

    def _break(self, node: ast.Break, frame: Frame) -> Signal:  # noqa: ARG002 - one of a table
        return "break", UNKNOWN

    def _continue(self, node: ast.Continue, frame: Frame) -> Signal:  # noqa: ARG002 - one of a table
        return "continue", UNKNOWN

    def _if(self, node: ast.If, frame: Frame) -> Signal | None:
        return self._chosen(
            node,
            self._value(node.test, frame),
            lambda: self._block(node.body, frame),
            lambda: self._block(node.orelse, frame),
            frame.pending,
        )

    def _while(self, node: ast.While, frame: Frame) -> Signal | None:
        for _ in range(MAX_ROUNDS):
            test = self._value(node.test, frame)
            truth = self._truth(test)
            if truth is None:
                return self._perhaps(node.body, frame)
            if not truth:
                return self._block(node.orelse, frame)
            with self._until_here():
                signal = self._block(node.body, frame)
            if signal is not None and signal[0] == "break":
                return None
            if signal is not None and signal[0] != "continue":
                return signal
        self._forget(node.body, frame)
        return None

    def _for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> Signal | None:
        over = self._value(node.iter, frame)
        items = self._iterated(over)
        if items is None or len(items) > MAX_ROUNDS:
            self._bind(node.target, unknown(over), frame, node)
            return self._perhaps(node.body, frame)
        for item in items:
            self._bind(node.target, item.given(self._own_options(over)), frame, node)
            with self._until_here():
                signal = self._block(node.body, frame)
            if signal is not None and signal[0] == "break":
                return None
            if signal is not None and signal[0] != "continue":
                return signal
        return self._block(node.orelse, frame)

    def _perhaps(self, body: Sequence[ast.stmt], frame: Frame) -> Signal | None:
        """Follow what may be done, once or often: what it changes is not known then."""

        def once() -> Signal | None:
            signal = self._block(body, frame)
            return signal if signal is not None and signal[0] in ("return", "stop") else None

        signal = self._both(once, lambda: None, frame.pending, (None, None))
        self._forget(body, frame)
        return signal

    def _forget(self, body: Sequence[ast.stmt], frame: Frame) -> None:
        """Know nothing any more of the names that some statements give a value."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._store(frame, node.id, UNKNOWN)

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> Signal | None:
        for item in node.items:
            value = self._value(item.context_expr, frame)
            entered = self._attribute(value, "__enter__", node) if value.kind == "instance" else UNKNOWN
            if entered.kind == "bound":
                value = self._called(entered, (), {}, node)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value, frame, node)
        return self._block(node.body, frame)

    def _try(self, node: ast.Try, frame: Frame) -> Signal | None:
        signal = self._block(node.body, frame)
        for handler in node.handlers:
            self._explore(handler, partial(self._block, handler.body, frame), side=1)
        if signal is None:
            signal = self._block(node.orelse, frame)
        after = self._block(node.finalbody, frame)
        return after or signal

    def _match(self, node: ast.Match, frame: Frame) -> None:
        self._value(node.subject, frame)
        left = []
        for side, case in enumerate(node.cases):
            follow = partial(self._beside, case, partial(self._block, case.body, frame), side=1)
            if self._explore(node, follow, side):
                left.append(case)
            self._forget(case.body, frame)
        self._passed += [(self._number(case), 0) for case in left]

    def _value(self, node: ast.expr, frame: Frame) -> Value:
        self._spend()
        work = self._expressions.get(type(node))
        if work is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._value(child, frame)
            return unknown(node=node)
        return work(node, frame)

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:  # noqa: ARG002 - one of a table
        if isinstance(node.value, int) and node.value.bit_length() > 1024:
            return unknown(node=node)
        if isinstance(node.value, bytes):
            return plain(node.value.decode("latin-1"), node)
        return unknown(node=node) if isinstance(node.value, complex) else plain(node.value, node)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        return self._look_up(node, frame)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
        items: list[Value] | None = []
        for each in node.elts:
            if not isinstance(each, ast.Starred):
                value = self._value(each, frame)
                if items is not None:
                    items.append(value)
                continue
            more = self._iterated(self._value(each.value, frame))
            items = None if items is None or more is None else [*items, *more]
        return self.box(items, node)

    def _dictionary(self, node: ast.Dict, frame: Frame) -> Value:
        held: dict[Any, Value] | None = {}
        for key, value in zip(node.keys, node.values, strict=True):
            made = self._value(value, frame)
            if key is None:
                more = self.entries(made)
                held = None if held is None or more is None else {**held, **more}
                continue
            name = self._value(key, frame)
            is_known = name.kind == "plain" and isinstance(name.data, (str, int))
            held = {**held, name.data: made} if held is not None and is_known else None
        return self.box(held, node)

    def _attribute_of(self, node: ast.Attribute, frame: Frame) -> Value:
        return self._attribute(self._value(node.value, frame), node.attr, node)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        base = self._value(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            return self._slice(base, node.slice, node, frame)
        key = self._value(node.slice, frame)
        index = key.data if key.kind == "plain" else MISSING
        items: Any = self._heap[base.data].items if base.kind == "box" else None
        if isinstance(items, Mapping) and isinstance(index, (str, int)) and index in items:
            picked: Value = items[index]
            return picked.given(key.options | self._own_options(base))
        if isinstance(items, tuple) and isinstance(index, int) and -len(items) <= index < len(items):
            counted: Value = items[index]
            return counted.given(key.options | self._own_options(base))
        text = base.data if base.kind == "plain" else None
        if isinstance(text, str) and isinstance(index, int) and -len(text) <= index < len(text):
            return plain(text[index], node, base.options | key.options)
        return unknown(base, key, node=node)

    def _slice(self, base: Value, part: ast.Slice, node: ast.AST, frame: Frame) -> Value:
        ends = [
            plain(None) if each is None else self._value(each, frame) for each in (part.lower, part.upper, part.step)
        ]
        known = [each.data for each in ends if each.kind == "plain" and (each.data is None or type(each.data) is int)]
        options = base.options.union(*(each.options for each in ends))
        if len(known) == len(ends) and known[2] != 0:
            items = self.items(base)
            if items is not None:
                return self.box(items[slice(*known)], base.node).given(options)
            if base.kind == "plain" and isinstance(base.data, str):
                return plain(base.data[slice(*known)], node, options)
        return Value("unknown", None, node, options)

    def _binary(self, node: ast.BinOp, frame: Frame) -> Value:
        return self._calculated(node.op, self._value(node.left, frame), self._value(node.right, frame), node)

    def _calculated(self, kind: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        return lifted(lambda one, other: self._combined(kind, one, other, node), left, right)

    def _combined(self, kind: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        options = left.options | right.options
        if isinstance(kind, ast.Div) and (left.kind == "path" or (right.kind == "path" and left.kind == "plain")):
            return Value("path", pure.joined_path([self._text(left), self._text(right)]), node, options)
        if left.kind == "box" or right.kind == "box":
            return self._combined_boxes(kind, left, right, node).given(options)
        if left.kind == right.kind == "plain":
            return self._from_python(pure.calculated(kind, left.data, right.data), node, options)
        texts = [each for each in (left, right) if each.kind == "plain" and isinstance(each.data, str)]
        if isinstance(kind, ast.Add) and texts:
            return self._joined([left, right], node)
        return unknown(left, right, node=node)

    def _combined_boxes(self, kind: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        if isinstance(kind, ast.Mod) and left.kind == "plain" and isinstance(left.data, str):
            values = self.python(right)
            return self._from_python(
                pure.percent(left.data, values) if isinstance(values, list) else MISSING, node, right.options
            )
        if isinstance(kind, ast.Add):
            one, other = self.items(left), self.items(right)
            return self.box(None if one is None or other is None else one + other, node)
        if isinstance(kind, ast.BitOr):
            first, second = self.entries(left), self.entries(right)
            return self.box(None if first is None or second is None else {**first, **second}, node)
        if isinstance(kind, ast.Mult):
            for held, times in ((left, right), (right, left)):
                items = self.items(held)
                if items is not None and times.kind == "plain" and type(times.data) is int:
                    return self.box(items * times.data if len(items) * times.data <= pure.MAX_ITEMS else None, node)
        return self.box(None, node)

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        return lifted(lambda value: self._negated(node, value), self._value(node.operand, frame))

    def _negated(self, node: ast.UnaryOp, value: Value) -> Value:
        if isinstance(node.op, ast.Not):
            if value.kind == "gpu":
                return Value("gpu", not value.data, node, value.options)
            truth = self._truth(value)
            return unknown(value, node=node) if truth is None else plain(not truth, node, value.options)
        is_number = value.kind == "plain" and isinstance(value.data, (int, float))
        if is_number and isinstance(node.op, (ast.USub, ast.UAdd)):
            return plain(-value.data if isinstance(node.op, ast.USub) else value.data, node, value.options)
        return unknown(value, node=node)

    def _boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        """`and` and `or`: the first operand that decides, where all before it are known."""
        last = UNKNOWN
        seen: list[Value] = []
        for index, operand in enumerate(node.values):
            last = self._value(operand, frame)
            seen.append(last)
            truth = self._truth(last)
            if truth is None or last.kind in ("gpu", "either"):
                rest = [self._value(each, frame) for each in node.values[index + 1 :]]
                return unknown(*seen, *rest, node=node)
            if truth == isinstance(node.op, ast.Or):
                break
        return last.given(NONE.union(*(each.options for each in seen)))

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        values = [self._value(node.left, frame), *(self._value(each, frame) for each in node.comparators)]
        if len(values) != 2:
            return unknown(*values, node=node)
        return lifted(lambda one, other: self._compared(node, one, other), *values)

    def _compared(self, node: ast.Compare, left: Value, right: Value) -> Value:
        kind, options = node.ops[0], left.options | right.options
        if left.kind == "gpu" and right.kind == "plain" and isinstance(kind, (ast.Gt, ast.GtE, ast.NotEq)):
            return left
        if left.kind == "gpu" and right.kind == "plain" and isinstance(kind, (ast.Eq, ast.Lt)):
            return Value("gpu", not left.data, node, options)
        if left.kind in ("plain", "path") and right.kind in ("plain", "path"):
            return self._from_python(pure.compared(kind, left.data, right.data), node, options)
        if isinstance(kind, (ast.In, ast.NotIn)) and left.kind == "plain" and right.kind == "box":
            held = self._heap[right.data].items
            keys = list(held) if isinstance(held, Mapping) else self.python(right)
            if isinstance(keys, list):
                return plain((left.data in keys) == isinstance(kind, ast.In), node, options)
        return unknown(left, right, node=node)

    def _conditional(self, node: ast.IfExp, frame: Frame) -> Value:
        test = self._value(node.test, frame)
        truth = self._truth(test)
        if truth is not None and test.kind not in ("gpu", "either"):
            return self._value(node.body if truth else node.orelse, frame).given(test.options)
        taken = [self._value(node.body, frame), self._value(node.orelse, frame)]
        sides = [self._truth(arm(test, has_gpu=has_gpu)) for has_gpu in (True, False)]
        if sides == [True, False]:
            return either(taken[0], taken[1], node)
        if sides == [False, True]:
            return either(taken[1], taken[0], node)
        return unknown(test, *taken, node=node)

    def _formatted(self, node: ast.JoinedStr, frame: Frame) -> Value:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self._value(part.value, frame)
                is_plain = part.format_spec is None or _form(part.format_spec) in _PLAIN_FORMS
                parts.append(value if is_plain and part.conversion in (-1, ord("s")) else unknown(value))
            else:
                parts.append(self._value(part, frame))
        return lifted(lambda *each: self._joined(each, node), *parts)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Value:
        inner = Frame((self._new({}), *frame.scopes))
        found: list[tuple[Value, Value]] = []
        is_known = self._rounds(node, 0, inner, found)
        if isinstance(node, ast.DictComp):
            keys = [
                key.data if key.kind == "plain" and isinstance(key.data, (str, int)) else MISSING for key, _ in found
            ]
            held = dict(zip(keys, (value for _, value in found), strict=True))
            return self.box(held if is_known and MISSING not in keys else None, node)
        return self.box([value for _, value in found] if is_known else None, node)

    def _rounds(self, node: Any, index: int, frame: Frame, found: list[tuple[Value, Value]]) -> bool:
        """Go through a comprehension's loops from one on; False: what it holds is not known."""
        if index == len(node.generators):
            if isinstance(node, ast.DictComp):
                found.append((self._value(node.key, frame), self._value(node.value, frame)))
            else:
                found.append((UNKNOWN, self._value(node.elt, frame)))
            return True
        loop = node.generators[index]
        over = self._value(loop.iter, frame)
        items = self._iterated(over)
        is_known = items is not None and len(items) <= MAX_ROUNDS
        for item in items if is_known and items is not None else (unknown(over),):
            self._bind(loop.target, item.given(self._own_options(over)), frame, node)
            truths = [self._truth(self._value(test, frame)) for test in loop.ifs]
            if None in truths:
                is_known = False
            if False not in truths and not self._rounds(node, index + 1, frame, found):
                is_known = False
        return is_known

    def _walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self._value(node.value, frame)
        self._bind(node.target, value, frame, node)
        return value

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Value(
            "function", Function(node, self._seen_from(frame), defaults=self._defaults(node.args, frame)), node
        )

    def _inner(self, node: ast.Await | ast.YieldFrom | ast.Starred, frame: Frame) -> Value:
        return self._value(node.value, frame)

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        called = self._value(node.func, frame)
        if called.kind == "symbol" and called.data == "builtins.super":
            return self._super(frame)
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        is_open = False
        for each in node.args:
            if not isinstance(each, ast.Starred):
                args.append(self._value(each, frame))
                continue
            more = self._iterated(self._value(each.value, frame))
            args += more or ()
            is_open |= more is None
        for keyword in node.keywords:
            value = self._value(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            entries = self.entries(value)
            keywords |= {key: each for key, each in (entries or {}).items() if isinstance(key, str)}
            is_open |= entries is None
        return self._called(called, tuple(args), keywords, node, is_open=is_open)

    def _uncalled(self) -> None:
        """Follow the functions that nothing calls, each for itself: whoever imports them does."""
        for number, function in enumerate(self._defined, 1):
            if id(function.node) in self._followed:
                continue
            self._arms[0] = (0, number)
            self._passed.clear()
            heap = dict(self._heap)
            if function.marks & COMMANDS and function.options:
                self._command(function, function.node)
            else:
                self._invoke(function, (), {}, function.node)
            self._go_back(heap)


def _changed(node: ast.ClassDef, fields: tuple[str, ...]) -> frozenset[str]:
    """The fields of which a class's validators may make something else."""
    found = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and is_converting(each.annotation)
    }
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if each.name == "model_post_init":
            return frozenset(fields)
        for decorator in each.decorator_list:
            name = _last(decorator)
            if name in ("model_validator", "root_validator"):
                return frozenset(fields)
            if name in ("field_validator", "validator") and isinstance(decorator, ast.Call):
                named = {str(one.value) for one in decorator.args if isinstance(one, ast.Constant)}
                found |= set(fields) if "*" in named or len(named) < len(decorator.args) else named
    return frozenset(found)


def _loaded(target: ast.expr) -> ast.expr:
    """An assignment's target, read."""
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


def _form(spec: ast.expr) -> str:
    """How a formatted text asks for a value; "?" where that is worked out."""
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in parts)


def _last(node: ast.expr) -> str:
    """The last name of a dotted one, or of a call of it."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for each in node.names:
            yield each.asname or each.name.split(".")[0]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names
    elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _module_imports(tree: ast.Module, nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Names that imports at module level, and no other statement anywhere, bind."""
    of_module = {id(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))}
    imported = {name for node in nodes if id(node) in of_module for name in _bound_by(node)}
    others = {name for node in nodes if id(node) not in of_module for name in _bound_by(node)}
    return frozenset(imported - others)
