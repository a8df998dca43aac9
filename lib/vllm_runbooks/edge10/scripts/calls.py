"""What a call gives: of the program's own functions and classes, of Python's, and of what is imported."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from vllm_runbooks.edge10.scripts import pure
from vllm_runbooks.edge10.scripts.events import Option
from vllm_runbooks.edge10.scripts.machine import MAX_ROUNDS, Class, Frame, Function, Machine, Signal
from vllm_runbooks.edge10.scripts.values import MISSING, NONE, UNKNOWN, Box, Made, Value, either, lifted, plain, unknown

_MAX_CALLS = 25
"""How deep calls are followed."""
_MAX_SAME = 2
"""How often a function may be in the midst of itself."""
_TYPES = frozenset(("str", "int", "float", "bool", "abs", "repr", "round"))
_RUN_ARGUMENTS = frozenset(
    ("Fire", "run", "spawn", "start_processes", "Process", "Thread", "submit", "run_until_complete", "apply")
)
"""Last names of what calls a function that it is given."""
_SAME = frozenset(("to", "cuda", "cpu", "eval", "half", "float", "bfloat16", "requires_grad_", "train"))
"""Methods of models that return them."""
_PASSING = frozenset(
    ("os.path.abspath", "os.path.expanduser", "os.path.expandvars", "os.path.normpath", "os.path.realpath", "os.fspath")
)
"""Functions that leave a path what it means."""
_PATHS = frozenset(f"pathlib.{name}" for name in ("Path", "PurePath", "PosixPath", "PurePosixPath"))
_PARSERS = frozenset(("argparse.ArgumentParser", "configargparse.ArgParser", "configargparse.ArgumentParser"))
_GPU = frozenset(("torch.cuda.is_available", "torch.cuda.device_count"))
_CONVERTING = frozenset(("callback", "parser", "click_type", "converter"))
"""Keywords with which a declaration names what makes something else of a value."""
_VALIDATORS = ("BeforeValidator", "AfterValidator", "PlainValidator", "WrapValidator")
COMMANDS = frozenset(("command", "group"))
"""Last names of decorators that hand a function the command line."""


class Calls(Machine):
    """A machine that follows calls."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._stack: list[int] = []
        self._followed: set[int] = set()
        """Functions that were called, by their node."""
        self._classes: dict[int, Class] = {}
        """By the number of their scope."""
        self._methods = {
            "parser": self._of_parser, "environ": self._of_environ, "plain": self._of_text, "path": self._of_path,
            "box": self._of_box,
        }  # fmt: skip
        self._sequences = {
            "len": self._length, "range": self._range, "list": self._listed, "tuple": self._listed,
            "set": self._listed, "dict": self._mapping, "reversed": self._reversed, "sorted": self._ordered,
            "enumerate": self._enumerated, "zip": self._zipped, "map": self._mapped, "sum": self._summed,
        }  # fmt: skip

    @abstractmethod
    def _value(self, node: ast.expr, frame: Frame) -> Value:
        """What an expression stands for."""

    @abstractmethod
    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> Signal | None:
        """Follow statements, and say how they were left."""

    def _attribute(self, base: Value, name: str, node: ast.AST) -> Value:
        if base.kind == "symbol":
            return self._symbol(f"{base.data}.{name}", node)
        if base.kind in ("instance", "namespace"):
            held = self._heap[base.data]
            if name in held:
                found: Value = held[name]
                return found.given(base.options)
            if base.kind == "instance":
                return self._of_class(base, held["__class__"], name, node)
        if base.kind == "class":
            return self._of_class(None, base, name, node)
        if base.kind == "super":
            own, of = base.data
            inherited = (self._of_class(own, each, name, node) for each in of.bases)
            return next((each for each in inherited if not each.is_unknown), unknown(node=node))
        if base.kind == "made":
            made: Made = base.data
            return Value("made", replace(made, of=(*made.of, name)), node, base.options)
        if base.kind == "path" and name in ("name", "parent", "stem"):
            text = str(base.data)
            taken = {"name": text.rpartition("/")[2], "parent": _parent(text)}
            taken["stem"] = taken["name"].rpartition(".")[0] or taken["name"]
            return Value("path" if name == "parent" else "plain", taken[name], node, base.options)
        return Value("bound", (base, name), node, base.options)

    def _of_class(self, instance: Value | None, of: Value, name: str, node: ast.AST, depth: int = 0) -> Value:
        """An attribute that a class, or one that it is made from, has."""
        if of.kind != "class" or depth > 8:
            return unknown(node=node)
        held = self._heap[of.data.scope]
        if name not in held:
            for base in of.data.bases:
                found = self._of_class(instance, base, name, node, depth + 1)
                if not found.is_unknown:
                    return found
            return unknown(node=node)
        value: Value = held[name]
        if value.kind != "function":
            return value
        marks = value.data.marks
        if marks & {"property", "cached_property"} and instance is not None:
            return self._invoke(value.data, (instance,), {}, node)
        if "staticmethod" in marks:
            return value
        owner = of if "classmethod" in marks else instance
        return value if owner is None else Value("bound", (owner, value.data), node)

    def _super(self, frame: Frame) -> Value:
        """`super()`: the instance of a method, seen as one of the classes that the method's class is made from."""
        own = next(iter(self._heap[frame.scopes[0]].values()), None)
        of = self._classes.get(frame.owner) if frame.owner is not None else None
        return UNKNOWN if own is None or of is None else Value("super", (own, of))

    def _called(
        self,
        called: Value,
        args: tuple[Value, ...],
        keywords: Mapping[str, Value],
        node: ast.AST,
        *,
        is_open: bool = False,
    ) -> Value:
        if called.kind == "function":
            if called.data.marks & COMMANDS and not args and not keywords:
                return self._command(called.data, node)
            return self._invoke(called.data, args, keywords, node)
        if called.kind == "class":
            return self._instance(called, args, keywords, node)
        if called.kind == "bound":
            return self._bound(called, args, keywords, node, is_open=is_open)
        if called.kind == "instance":
            method = self._attribute(called, "__call__", node)
            return self._called(method, args, keywords, node) if method.kind == "bound" else unknown(*args, node=node)
        if called.kind == "symbol":
            return self._symbol_called(called.data, args, keywords, node, is_open=is_open)
        if called.kind == "made":
            return self._made_called(called, args, keywords, node, is_open=is_open)
        self._follow_arguments("", args, keywords, node)
        return unknown(*args, node=node)

    def _command(self, function: Function, node: ast.AST) -> Value:
        """A function that click hands the command line to."""
        self._note("parse", "click", node)
        given = {option.name: self._of_click(option).given((option.name,)) for option in function.options}
        result = self._invoke(function, (), given, node)
        if "group" in function.marks:
            others = [each for each in self._commands() if each is not function]
            for side, each in enumerate(others):
                self._explore(function.node, partial(self._chosen_command, each, node), side)
        return result

    def _of_click(self, option: Option) -> Value:
        """What click makes of an option's default."""
        default, kind = option.default, option.keywords.get("type")
        if default is None or option.is_converted:
            return UNKNOWN
        is_text = default.kind == "plain" and isinstance(default.data, str)
        if is_text and kind is not None and str(kind.data).startswith("builtins."):
            return self._called(kind, (default,), {}, option.node).at(default.node or option.node)
        return default

    def _commands(self) -> list[Function]:
        """The functions of the module that the command line is handed to."""
        values = self._heap[0].values()
        return [each.data for each in values if each.kind == "function" and each.data.marks & COMMANDS]

    def _chosen_command(self, function: Function, node: ast.AST) -> Signal | None:
        """A command of a group: whether it is given is up to the command line."""
        self._command(function, node)
        return None

    def _invoke(self, function: Function, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        """Follow a call of one of the program's own functions."""
        self._followed.add(id(function.node))
        if self._depth >= _MAX_CALLS or self._stack.count(id(function.node)) > 2:
            return unknown(*args, node=node)
        scope = self._new(self._bound_parameters(function, args, keywords))
        frame = Frame((scope, *function.scopes), function.shared, function.owner, [])
        self._depth += 1
        self._stack.append(id(function.node))
        try:
            if isinstance(function.node, ast.Lambda):
                return self._value(function.node.body, frame)
            with self._until_here():
                signal = self._block(function.node.body, frame)
        finally:
            self._depth -= 1
            self._stack.pop()
        if function.is_generator:
            return unknown(node=node)
        result = signal[1] if signal is not None and signal[0] == "return" else plain(None)
        for value, gpu in reversed(frame.pending or []):
            sides = (None, None) if gpu is None else (gpu, not gpu)
            result = self._one_of(value, result, sides)
        return result

    def _bound_parameters(
        self, function: Function, args: Sequence[Value], keywords: Mapping[str, Value]
    ) -> dict[str, Value]:
        given = function.node.args
        positional = [each.arg for each in (*given.posonlyargs, *given.args)]
        named = {*positional, *(each.arg for each in given.kwonlyargs)}
        held: dict[str, Value] = dict.fromkeys(named, UNKNOWN)
        held |= function.defaults or {}
        held |= dict(zip(positional, args, strict=False))
        held |= {name: value for name, value in keywords.items() if name in named}
        if given.vararg is not None:
            held[given.vararg.arg] = self.box(args[len(positional) :], None)
        if given.kwarg is not None:
            held[given.kwarg.arg] = self.box({n: v for n, v in keywords.items() if n not in named}, None)
        return held

    def _instance(self, of: Value, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        made = Value("instance", self._new({"__class__": of}), node)
        start = self._of_class(made, of, "__init__", node)
        if start.kind == "bound":
            self._called(start, tuple(args), keywords, node)
        elif of.data.is_record:
            held: dict[str, Value] = {"__class__": of}
            for name in of.data.fields:
                default: Value = self._heap[of.data.scope].get(name, UNKNOWN)
                if default.kind == "made" and default.data.name in ("dataclasses.field", "pydantic.Field"):
                    default = self._field(default.data, node)
                held[name] = default
            held |= dict(zip(of.data.fields, args, strict=False))
            held |= {name: value for name, value in keywords.items() if name in of.data.fields}
            held |= {name: unknown(held[name], node=node) for name in of.data.changed & held.keys()}
            self._heap[made.data] = held
            after = self._of_class(made, of, "__post_init__", node)
            if after.kind == "bound":
                self._called(after, (), {}, node)
        return made

    def _field(self, made: Made, node: ast.AST) -> Value:
        """The default that a field of a record declares."""
        factory = made.keywords.get("default_factory")
        if factory is not None:
            return self._called(factory, (), {}, node)
        return made.keywords.get("default") or (made.args[0] if made.args else UNKNOWN)

    def _bound(
        self,
        called: Value,
        args: tuple[Value, ...],
        keywords: Mapping[str, Value],
        node: ast.AST,
        *,
        is_open: bool,
    ) -> Value:
        owner, method = called.data
        if isinstance(method, Function):
            return self._invoke(method, (owner, *args), keywords, node)
        if owner.kind == "either":
            arms = [
                self._bound(Value("bound", (owner.data[side], method)), args, keywords, node, is_open=is_open)
                for side in (0, 1)
            ]
            return either(arms[0], arms[1])
        work = self._methods.get(owner.kind)
        if work is not None:
            return work(owner, method, args, keywords, node)
        self._note_call(f".{method}", node, args, keywords, is_open=is_open)
        self._follow_arguments(method, args, keywords, node)
        return owner if method in _SAME else unknown(owner, *args, node=node)

    def _of_parser(
        self, parser: Value, method: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST
    ) -> Value:
        if method == "add_argument" and isinstance(node, ast.Call):
            flags = [each.data for each in args if each.kind == "plain" and isinstance(each.data, str)]
            name = keywords.get("dest")
            longest = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
            own = name.data if name is not None and name.kind == "plain" else longest.lstrip("-").replace("-", "_")
            if flags and isinstance(own, str):
                self._heap[parser.data] += (self._option(own, flags, node, keywords, "argparse"),)
        elif method == "set_defaults":
            return UNKNOWN
        elif method in ("parse_args", "parse_known_args", "parse_intermixed_args"):
            self._note("parse", "argparse", node)
            held = {option.name: self._parsed(option) for option in self._heap[parser.data]}
            space = Value("namespace", self._new(held), node)
            is_pair = method == "parse_known_args"
            return self.box((space, UNKNOWN), node) if is_pair else space
        elif method.startswith("add_"):
            return parser
        return UNKNOWN

    def _parsed(self, option: Option) -> Value:
        """What an option's default comes to."""
        action = option.keywords.get("action")
        default = option.default
        if default is None and action is not None and action.data in ("store_true", "store_false"):
            default = plain(action.data == "store_false", option.node)
        if default is None or (default.kind == "plain" and default.data is None):
            return Value("unknown", None, option.node, frozenset((option.name,)))
        convert = option.keywords.get("type")
        if convert is not None and default.kind == "plain" and isinstance(default.data, str):
            default = self._called(convert, (default,), {}, option.node).at(default.node or option.node)
        return default.given((option.name,))

    def _of_environ(
        self, environ: Value, method: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST
    ) -> Value:
        if method == "setdefault" and len(args) == 2:
            self._set_variable(args[0], args[1], node)
        elif method == "update":
            for each in args:
                self._environment(each, node)
            for name, value in keywords.items():
                self._set_variable(plain(name), value, node)
        elif method == "copy":
            return self.box(None, node)
        return unknown(environ, node=node)

    def _of_text(
        self, text: Value, method: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST
    ) -> Value:
        if not isinstance(text.data, str):
            return unknown(text, node=node)
        options = text.options.union(*(each.options for each in (*args, *keywords.values())))
        if method == "join" and len(args) == 1:
            items = self._iterated(args[0])
            if items is None:
                return Value("unknown", None, node, options)
            parts = [part for index, item in enumerate(items) for part in ((text, item) if index else (item,))]
            return self._joined(parts, node).given(options)
        known = [self.python(each) for each in args]
        if method in ("encode", "decode"):
            return text
        if method == "format":
            named = {name: self._text(value) for name, value in keywords.items()}
            made = pure.formatted(text.data, [self._text(each) for each in args], named)
        elif pure.HOLE in text.data or any(each is MISSING for each in known):
            made = MISSING
        else:
            made = pure.of_text(text.data, method, known)
        return self._from_python(made, node, options)

    def _of_path(
        self, path: Value, method: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST
    ) -> Value:
        options = path.options.union(*(each.options for each in args))
        if method in ("resolve", "absolute", "expanduser"):
            return path
        if method == "as_posix":
            return plain(path.data, node, options)
        if method == "joinpath" and not keywords:
            return Value("path", pure.joined_path([path.data, *map(self._text, args)]), node, options)
        if method == "with_name" and len(args) == 1 and not keywords:
            return Value("path", pure.joined_path([_parent(str(path.data)), self._text(args[0])]), node, options)
        if method in ("rename", "replace"):
            self._note_call(f".{method}", node, tuple(args), keywords, is_open=False)
        return Value("unknown", None, node, options)

    def _of_box(
        self, box: Value, method: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST
    ) -> Value:
        held: Box = self._heap[box.data]
        items = held.items
        if isinstance(items, Mapping):
            return self._of_mapping(box, method, args, keywords, node)
        if method == "copy":
            return self.box(items, box.node)
        if method == "append" and len(args) == 1:
            self._heap[box.data] = replace(held, items=None if items is None else (*items, args[0]))
        elif method == "extend" and len(args) == 1:
            self._extend(box, args[0])
        elif method == "count" and len(args) == 1:
            known = self.python(box)
            return plain(known.count(args[0].data), node) if isinstance(known, list) else UNKNOWN
        elif method != "index":
            self._heap[box.data] = replace(held, items=None)
        return unknown(box, node=node)

    def _of_mapping(
        self,
        box: Value,
        method: str,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        node: ast.AST,
    ) -> Value:
        items: Mapping[Any, Value] = self._heap[box.data].items
        if method in ("keys", "values", "items"):
            keys = [plain(key, box.node) for key in items]
            if method == "items":
                pairs = zip(keys, items.values(), strict=True)
                return self.box([self.box(pair, node) for pair in pairs], node)
            return self.box(keys if method == "keys" else items.values(), node)
        if method in ("get", "setdefault") and args and args[0].kind == "plain" and args[0].data in items:
            return items[args[0].data]
        if method == "get":
            return args[1] if len(args) > 1 and args[0].kind == "plain" else UNKNOWN
        if method == "copy":
            return self.box(items, box.node)
        if method == "update":
            for each in args:
                self._extend(box, each)
            named = self._heap[box.data].items
            if isinstance(named, Mapping):
                self._heap[box.data] = Box({**named, **keywords})
        else:
            self._heap[box.data] = Box(None)
        return UNKNOWN

    def _made_called(
        self,
        called: Value,
        args: tuple[Value, ...],
        keywords: Mapping[str, Value],
        node: ast.AST,
        *,
        is_open: bool,
    ) -> Value:
        made: Made = called.data
        if made.name == "functools.partial" and not made.of and made.args:
            given = {**made.keywords, **keywords}
            return self._called(made.args[0], (*made.args[1:], *args), given, node, is_open=is_open or made.is_open)
        if made.name == "typer.Typer" and not made.of:
            self._typer(node)
            return UNKNOWN
        method = made.of[-1] if made.of else "__call__"
        self._note_call(f".{method}", node, args, keywords, is_open=is_open)
        self._follow_arguments(method, args, keywords, node)
        if method in _SAME:
            return Value("made", replace(made, of=made.of[:-1]), called.node, called.options)
        return Value("made", Made(f".{method}", (), {}), node)

    def _typer(self, node: ast.AST) -> None:
        """An application of typer being run: the command line is parsed, and each of its commands may be called."""
        self._note("parse", "typer", node)
        commands = self._commands()
        for side, each in enumerate(commands):
            if len(commands) == 1:
                self._with_defaults(each, node)
            else:
                self._explore(node, partial(self._with_defaults, each, node), side)

    def _with_defaults(self, function: Function, node: ast.AST) -> None:
        """Call a function with what a command line leaves to its defaults."""
        given = {}
        parameters = function.node.args
        changed = {
            each.arg
            for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
            if is_converting(each.annotation)
        }
        for name, default in (function.defaults or {}).items():
            value = UNKNOWN if name in changed else default
            if value.kind == "made" and value.data.name in ("typer.Option", "typer.Argument"):
                is_left = value.data.args and not value.data.keywords.keys() & _CONVERTING
                value = value.data.args[0] if is_left else UNKNOWN
            given[name] = value.given((name,))
        self._invoke(function, (), given, node)

    def _symbol_called(
        self,
        name: str,
        args: tuple[Value, ...],
        keywords: Mapping[str, Value],
        node: ast.AST,
        *,
        is_open: bool,
    ) -> Value:
        if name.startswith("builtins."):
            return self._builtin(name.removeprefix("builtins."), args, keywords, node)
        if name in _GPU:
            return Value("gpu", True, node)
        if name in _PARSERS:
            return Value("parser", self._new(()), node)
        if name in _PASSING and args:
            return args[0]
        if name == "os.path.join" or name in _PATHS:
            options = NONE.union(*(each.options for each in args))
            text = pure.joined_path([self._text(each) for each in args])
            return Value("path" if name in _PATHS else "plain", text or ".", node, options)
        if name == "os.putenv" and len(args) == 2:
            self._set_variable(args[0], args[1], node)
        if name in ("types.SimpleNamespace", "argparse.Namespace"):
            return Value("namespace", self._new(dict(keywords)), node)
        if name in ("copy.copy", "copy.deepcopy") and args:
            return args[0] if args[0].kind != "box" else self.box(self._heap[args[0].data].items, args[0].node)
        if name == "importlib.import_module" and args and args[0].kind == "plain" and isinstance(args[0].data, str):
            self._note("import", args[0].data, node)
            return self._symbol(args[0].data, node)
        if name in ("unittest.mock.patch.object", "mock.patch.object") and len(args) > 1:
            self._set_attribute(args[0], str(args[1].data), args[2] if len(args) > 2 else UNKNOWN, node)
        if name == "typer.run" and args and args[0].kind == "function":
            self._note("parse", "typer", node)
            self._with_defaults(args[0].data, node)
            return UNKNOWN
        if name == "fire.Fire" and args and args[0].kind == "function":
            self._note("parse", "fire", node)
            self._with_defaults(args[0].data, node)
            return UNKNOWN
        self._note_call(name, node, args, keywords, is_open=is_open)
        self._follow_arguments(name.rpartition(".")[2], args, keywords, node)
        return Value("made", Made(name, args, dict(keywords), is_open=is_open), node)

    def _builtin(self, name: str, args: tuple[Value, ...], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        options = NONE.union(*(each.options for each in args))
        if name in ("exit", "quit"):
            return Value("made", Made(f"builtins.{name}", args, {}), node)
        if name == "setattr" and len(args) == 3 and args[1].kind == "plain":
            self._set_attribute(args[0], str(args[1].data), args[2], node)
        if name == "getattr" and len(args) >= 2 and args[1].kind == "plain" and isinstance(args[1].data, str):
            return self._attribute(args[0], args[1].data, node)
        if name in _TYPES:
            return lifted(lambda *each: self._converted(name, each, node), *args) if args else UNKNOWN
        work = self._sequences.get(name)
        if work is not None:
            return work(args, keywords, node).given(options)
        self._follow_arguments(name, args, keywords, node)
        return Value("unknown", None, node, options)

    def _converted(self, name: str, args: Sequence[Value], node: ast.AST) -> Value:
        options = NONE.union(*(each.options for each in args))
        if name == "str" and len(args) == 1 and args[0].kind in ("plain", "path"):
            return plain(str(args[0].data), args[0].node or node, options)
        known = [each.data for each in args if each.kind == "plain" and pure.HOLE not in str(each.data)]
        if len(known) != len(args):
            return Value("unknown", None, node, options)
        return self._from_python(pure.as_python(name, known), node, options)

    def _length(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        items = self._iterated(args[0]) if args else None
        return plain(len(items), node) if items is not None else unknown(node=node)

    def _range(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        ends = [each.data for each in args if each.kind == "plain" and type(each.data) is int]
        if len(ends) != len(args) or not 1 <= len(ends) <= 3 or (len(ends) == 3 and not ends[2]):
            return self.box(None, node)
        numbers = range(*ends)
        return self.box([plain(each, node) for each in numbers] if len(numbers) <= pure.MAX_ITEMS else None, node)

    def _listed(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        items = self._iterated(args[0]) if args else ()
        return self.box(items, node)

    def _mapping(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        entries = self.entries(args[0]) if args else {}
        return self.box(None if entries is None else {**entries, **keywords}, node)

    def _reversed(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        items = self._iterated(args[0]) if args else None
        return self.box(None if items is None else items[::-1], node)

    def _ordered(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        items = self._iterated(args[0]) if args and not keywords else None
        known = None if items is None else [each.data for each in items if each.kind == "plain"]
        if items is None or known is None or len(known) != len(items) or len({type(each) for each in known}) > 1:
            return self.box(None, node)
        try:
            return self.box([plain(each, node) for each in sorted(known)], node)
        except TypeError:
            return self.box(None, node)

    def _enumerated(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:
        items = self._iterated(args[0]) if len(args) == 1 and not keywords else None
        if items is None:
            return self.box(None, node)
        pairs = enumerate(items)
        return self.box([self.box((plain(index, node), each), node) for index, each in pairs], node)

    def _zipped(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        every = [self._iterated(each) for each in args]
        known = [each for each in every if each is not None]
        if len(known) != len(every):
            return self.box(None, node)
        return self.box([self.box(row, node) for row in zip(*known, strict=False)], node)

    def _mapped(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        items = self._iterated(args[1]) if len(args) == 2 else None
        if items is None or len(items) > MAX_ROUNDS:
            return self.box(None, node)
        return self.box([self._called(args[0], (each,), {}, node) for each in items], node)

    def _summed(self, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> Value:  # noqa: ARG002
        known = self.python(args[0]) if len(args) == 1 else MISSING
        if isinstance(known, list) and all(isinstance(each, (int, float)) for each in known):
            return plain(sum(known), node)
        return unknown(node=node)

    def _follow_arguments(self, name: str, args: Sequence[Value], keywords: Mapping[str, Value], node: ast.AST) -> None:
        """Follow a function that is handed to what runs it."""
        if name not in _RUN_ARGUMENTS:
            return
        for value in (*args[:1], *filter(None, (keywords.get("target"), keywords.get("fn")))):
            if value.kind == "function":
                self._invoke(value.data, (), {}, node)


def _parent(path: str) -> str:
    """What a path stands in."""
    return path.rpartition("/")[0] or "."


def is_converting(annotation: ast.expr | None) -> bool:
    """Whether an annotation names what makes something else of the value."""
    calls = [each for each in ast.walk(annotation) if isinstance(each, ast.Call)] if annotation is not None else []
    return any(
        {keyword.arg for keyword in call.keywords} & _CONVERTING
        or (isinstance(call.func, (ast.Name, ast.Attribute)) and ast.unparse(call.func).endswith(_VALIDATORS))
        for call in calls
    )
