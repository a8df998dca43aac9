"""Python code that launches vLLM: `LLM(…)`, engine arguments, subprocesses, `os.environ`.

The code is parsed (`ast`) and never run. Names are resolved if they are assigned one literal in the
whole function, class or module that they belong to.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from vllm_runbooks.catalog.options import CALLS
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import engine_classes, escapes, gpus, placeholders, programs, python_scopes
from vllm_runbooks.reading.documents.placed_words import Characters, excerpt_of_characters, literal
from vllm_runbooks.reading.documents.python_text import MAX_LENGTH, NotPythonError, PythonText, line_starts
from vllm_runbooks.reading.documents.starts import (
    Around,
    ContainerOptions,
    DocumentReading,
    Gpus,
    Keyword,
    PublishedPort,
    Setting,
    Within,
    WrittenLaunch,
)
from vllm_runbooks.reading.shell import Trouble, Word

_MAX_DEPTH = 40  # how deep a value may nest
_MAX_WORK = 500_000
"""Values of one text that are worked out, and characters that are joined: names in lists of names multiply."""
_MAX_WORDS = 1000
_LISTS = (ast.List, ast.Tuple, ast.BinOp)
_MAX_BITS = 1024  # bits of an integer that is read: printing a longer one is an error
_SUBPROCESS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
_SHELL_CALLS = {"system", "popen", "create_subprocess_shell", "getoutput", "getstatusoutput"}
_CHANGES = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
    *("update", "setdefault", "popitem", "add", "discard", "__setitem__", "__delitem__"),
}
"""Methods that change a list, mapping or set: https://docs.python.org/3/library/stdtypes.html."""
_MAX_ITEMS = 100
"""Statements that set items of one environment; with more of them it is unknown."""
_REPEATED = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_MODAL = {"function", "cls"}
"""Decorators that set the container of a function or class: https://modal.com/docs/reference/modal.gpu."""
_MODAL_GPUS = re.compile(r"[\w+!-]{1,40}(?::(?P<count>\d{1,3}))?", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z]{0,2}('''|\"\"\"|'|\")")
_RAW = re.compile(r"\r\n?|\\[^\r]|[^\\\r'\"]+|.", re.DOTALL)
_ESCAPED = re.compile(
    rf"\r\n?|\\(?:(?P<break>\r\n?|\n)|{escapes.NUMBER}|(?P<octal>[0-7]{{1,3}})|(?P<code>.))|[^\\\r'\"]+|.", re.DOTALL
)
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.LShift: operator.lshift,
}  # fmt: skip


class _UnknownError(Exception):
    """A value is unknown; the message is the reason."""


def read(source: Excerpt, around: Around, reading: DocumentReading) -> bool:
    """Add the launches and settings of Python code.

    Returns False for invalid Python, which the caller reports.
    """
    try:
        text = PythonText(source)
    except NotPythonError as error:
        lines = line_starts(source.text)
        line = min(max(error.line or 1, 1), len(lines)) - 1
        at = source.at[min(lines[line], len(source.text))]
        reading.troubles.append(Trouble("file.not-python", at, at, error.told))
        return len(source.text) > MAX_LENGTH
    _Program(text, replace(around, kind="python", language="python"), reading).read()
    return True


class _Program:
    def __init__(self, text: PythonText, around: Around, reading: DocumentReading) -> None:
        python_scopes.separate(text.tree)
        self.source, self.around, self.reading = text.source, around, reading
        self._span, self._places = text.span, text.places
        self.nodes = sorted(
            (node for node in ast.walk(text.tree) if isinstance(node, (ast.expr, ast.stmt))),
            key=lambda node: (node.lineno, node.col_offset),
        )
        self.work = 0
        self.names, self.imported = self._names()
        self.environment: dict[str, Setting] = {}
        self.own = {node.name for node in self.nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        compared = (part for node in self.nodes if isinstance(node, ast.Compare) for part in node.comparators)
        self.lists = {id(part) for part in compared}
        """Lists that are read, or that words are compared with."""
        executed = [named for node in self.nodes if isinstance(node, ast.Call) and (named := self._run(node))]
        self.run = {id(part) for named in executed for part in _operands(named)}
        """Nodes that are executed by name; they are read at the call, with its environment."""
        self.added: dict[int, list[ast.expr]] = {}
        """Elements that statements after a list's assignment always add to it."""
        self.always: set[int] = set()
        """These statements."""
        self.open: dict[str, list[_Extension]] = {}
        """Lists to which other statements add elements, perhaps, and what they add."""
        extensions = {id(node): _extension(node) for node in self.nodes if isinstance(node, ast.stmt)}
        extended = {id(part) for item in extensions.values() if item.name for part in item.targets}
        self.changed = self._changed(extended)
        """Lists and mappings that statements change in any other way, with the first such place."""
        self.items: dict[str, list[_Item]] = {}
        """Mappings of which statements only set items, and these."""
        for statement in self.nodes:
            if isinstance(statement, ast.Assign) and (item := _item(statement)) is not None:
                self.items.setdefault(_path(item.target.value), []).append(item)
        others = self._changed(extended | {id(item.target) for items in self.items.values() for item in items})
        self.items = {
            name: items
            for name, items in self.items.items()
            if name in self.names and name not in others and len(items) <= _MAX_ITEMS
        }
        self.mappings: dict[int, dict[str, Setting]] = {}
        """Variables of each mapping and of each statement that sets one."""
        self.blocks: dict[int, tuple[int, int]] = {}
        """End of the block that a statement is in."""
        self.repeated = self._repeated()
        self.extended = {extension.name for extension in extensions.values()} - {""}
        for node in ast.walk(text.tree):
            for part in ("body", "orelse", "finalbody"):
                if isinstance(body := getattr(node, part, None), list):
                    self._note_added(body)
                    self.blocks |= {id(statement): _end(body[-1]) for statement in body}
        for number, extension in extensions.items():
            if extension.name and number not in self.always:
                self.open.setdefault(extension.name, []).append(extension)
        self.unread: dict[str, bool] = {}
        """Lists of commands, with whether options are added to them which are unknown."""
        self.assigned = {
            id(node.value): _path(target)
            for node in self.nodes
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            for target in (node.targets[:1] if isinstance(node, ast.Assign) else [node.target])
        }

    def read(self) -> None:
        first = len(self.reading.starts)
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Subscript) and _last_name(target.value) == "environ":
                        self._set(target.slice, node.value, node)
            elif isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, _LISTS) and id(node) not in self.run:
                self._list(node)
        if any(origin.partition(".")[0] == "modal" for origin in self.imported.values()):
            containers = [found for node in self.nodes if (found := self._on_modal(node)) is not None]
            self.reading.change_starts(first, lambda launch: _within_container(launch, containers))

    def _on_modal(self, node: ast.expr | ast.stmt) -> _ModalContainer | None:
        """The container of a function or class on Modal, if its GPUs or its port are known."""
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return None
        methods = node.body if isinstance(node, ast.ClassDef) else ()
        decorators = [*node.decorator_list, *(part for item in methods for part in getattr(item, "decorator_list", ()))]
        calls = [item for item in decorators if isinstance(item, ast.Call)]
        of_app = [item for item in calls if self._is_of_app(item.func)]
        keyword = next((keyword for item in of_app for keyword in item.keywords if keyword.arg == "gpu"), None)
        given = _MODAL_GPUS.fullmatch(self._word(keyword.value).value or "") if keyword is not None else None
        seen = None
        if keyword is not None and given is not None and given["count"] != "0":
            seen = Gpus(None, int(given["count"] or 1), *self._places(keyword))
        if not of_app or any(_last_name(item.func) == "clustered" for item in calls):
            return None
        ports = [port for item in calls if self._origin(item.func) == "modal.web_server" for port in self._ports(item)]
        return _ModalContainer(*self._places(node), seen, ports)

    def _is_of_app(self, function: ast.expr) -> bool:
        """Whether a decorator is one of an app of Modal, in this file or of another module."""
        if not isinstance(function, ast.Attribute) or function.attr not in _MODAL:
            return False
        app = function.value
        made = self.names.get(app.id) if isinstance(app, ast.Name) else None
        is_made = isinstance(made, ast.Call) and self._origin(made.func) in ("modal.App", "modal.Stub")
        return is_made or (isinstance(app, ast.Name) and app.id in self.imported)

    def _ports(self, server: ast.Call) -> list[PublishedPort]:
        nodes = [*server.args[:1], *(keyword.value for keyword in server.keywords if keyword.arg == "port")]
        ports = [(node, self._word(node).value or "") for node in nodes]
        return [
            PublishedPort("", None, int(port), True, *self._places(node)) for node, port in ports if port.isdecimal()
        ]

    def _names(self) -> tuple[dict[str, ast.expr], dict[str, str]]:
        """Names that are assigned once, with their values.

        And the imported ones, with their source.
        """
        values: dict[str, ast.expr | None] = {}
        imported: dict[str, str] = {}
        assigned: Counter[str] = Counter()
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                values[node.target.id] = node.value
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                assigned[node.id] += 1
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    imported[alias.asname or alias.name.split(".")[0]] = f"{module}.{alias.name}".strip(".")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                assigned.update(item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        return {name: value for name, value in values.items() if value is not None and assigned[name] == 1}, imported

    def _changed(self, extended: Collection[int]) -> dict[str, ast.expr]:
        changed: dict[str, ast.expr] = {}
        for node in self.nodes:
            target: ast.expr | None = None
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                target = node if id(node) not in extended else None
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
                target = node.func.value if id(node.func.value) not in extended else None
            while isinstance(target, ast.Subscript):
                target = target.value
            if target is not None and isinstance(node, ast.expr) and (name := _path(target)):
                changed.setdefault(name, node)
        return changed

    def _literal(self, name: str) -> ast.expr | None:
        """The value that a name always has; None if unknown."""
        return None if name in self.extended or name in self.changed else self.names.get(name)

    # Values

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        self.work += 1
        if depth > _MAX_DEPTH or self.work > _MAX_WORK:
            raise _UnknownError("nested too deep")
        if isinstance(node, ast.Constant) and node.value is not Ellipsis:
            if isinstance(node.value, int) and node.value.bit_length() > _MAX_BITS:
                raise _UnknownError("a number with too many digits")
            return node.value
        if isinstance(node, ast.Name):
            named = self._literal(node.id)
            if named is None:
                raise _UnknownError(f"variable {python_scopes.plain(node.id)}")
            return self._value(named, depth + 10)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [self._value(item, depth + 1) for item in node.elts]
        if isinstance(node, ast.Dict):
            if any(key is None for key in node.keys):
                raise _UnknownError("unpacked mapping")
            return {
                self._key(key, depth): self._value(value, depth + 1)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        if _is_dict(node):
            if any(keyword.arg is None for keyword in node.keywords):
                raise _UnknownError("unpacked mapping")
            return {str(keyword.arg): self._value(keyword.value, depth + 1) for keyword in node.keywords}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd, ast.Not)):
            return _negated(node.op, self._value(node.operand, depth + 1))
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, depth + 1), self._value(node.right, depth + 1)
            if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
                self.work += len(left) + len(right)
                if self.work > _MAX_WORK:
                    raise _UnknownError("nested too deep")
                return left + right
            return _calculated(node.op, left, right)
        if isinstance(node, ast.JoinedStr):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else self._filled_in(part, depth)
                for part in node.values
            )
        raise _UnknownError(_why(node))

    def _key(self, key: ast.expr, depth: int) -> str | int | float | bool | None:
        value = self._value(key, depth + 1)
        if isinstance(value, (list, dict)):
            raise _UnknownError("key of no simple type")
        return value  # type: ignore[no-any-return]

    def _word(self, node: ast.expr) -> Word:
        start, end = self._places(node)
        raw = self.source.text[slice(*self._span(node))]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = self._characters(node)
            return Word(text.text, start, end, raw, "", text.at[:-1])
        if isinstance(node, ast.Attribute) and node.attr == "executable":
            return Word("python", start, end, raw)
        try:
            value = self._value(node.args[0] if _is_call(node, "str") and node.args else node)  # type: ignore[attr-defined]
        except _UnknownError as error:
            return Word(None, start, end, raw, str(error))
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return Word(str(value), start, end, raw)
        return Word(None, start, end, raw, "no text")

    def _characters(self, node: ast.Constant) -> Excerpt:
        start, end = self._span(node)
        characters = _string_characters(self.source.text, start, end)
        value = str(node.value)
        if "".join(character for character, _ in characters) != value:
            characters = [(character, start) for character in value]
        last = self.source.at[characters[-1][1]] + 1 if characters else self.source.at[start]
        return excerpt_of_characters([(character, self.source.at[place]) for character, place in characters], last)

    def _text(self, node: ast.expr) -> Excerpt | None:
        """A text, formatted or not, with offsets; unknown parts become a placeholder."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._characters(node)
        if not isinstance(node, ast.JoinedStr):
            return None
        pieces: list[str] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                pieces.append(str(part.value))
                continue
            try:
                pieces.append(self._filled_in(part))
            except _UnknownError:
                pieces.append(HOLE)
        start, end = self._span(node)
        places = _formatted_places(_string_characters(self.source.text, start, end), node, pieces)
        value = "".join(pieces)
        if len(places) != len(value):
            places = [start] * len(value)
        return Excerpt(value, [*(self.source.at[place] for place in places), self._places(node)[1]])

    def _filled_in(self, part: ast.expr, depth: int = 0) -> str:
        if not isinstance(part, ast.FormattedValue) or part.conversion not in {-1, ord("s")} or part.format_spec:
            raise _UnknownError("formatted text")
        value = self._value(part.value, depth + 1)
        if not isinstance(value, (str, int)):
            raise _UnknownError("formatted text")
        self.work += len(str(value))
        return str(value)

    # Calls

    def _call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        called = self._called(node.func)
        if called in CALLS:
            self._engine(node, called)
        elif name in {"setdefault", "putenv", "setenv"} and len(node.args) >= 2 and _is_environ(node.func, name):
            self._set(node.args[0], node.args[1], node)
        elif name == "update" and _is_environ(node.func, name):
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    self.environment |= self._mapping(argument)
            for keyword in node.keywords:
                if keyword.arg:
                    self._set_named(keyword.arg, keyword.value, keyword)
        elif name in _SUBPROCESS | _SHELL_CALLS:
            self._subprocess(node, name)
        elif found := engine_classes.of_origin(self._origin(node.func)):
            self._built(node, *found)

    def _origin(self, function: ast.expr) -> str:
        """Dotted name of what is called, as it was imported; "" if unknown."""
        names: list[str] = []
        while isinstance(function, ast.Attribute):
            names.append(function.attr)
            function = function.value
        first = self.imported.get(function.id, "") if isinstance(function, ast.Name) else ""
        return ".".join([first, *reversed(names)]) if first else ""

    def _built(self, node: ast.Call, name: str, entry: str, row: engine_classes.EngineClass) -> None:
        """Add the engine that a class of another package makes."""
        given = {item.arg: item.value for item in node.keywords if item.arg}
        if node.args and row.model and not isinstance(node.args[0], ast.Starred):
            given.setdefault(row.model[0], node.args[0])
        engine = [(key, value, self._places(value)[0]) for key, value in given.items() if key in row.engine]
        if row.is_direct:
            engine = [(key, value, self._places(value)[0]) for key, value in given.items()]
        for key in row.keywords:
            engine += self._pairs(given[key]) if key in given else []
        model = next((value for path in row.model if (value := self._member(given, path)) is not None), None)
        keywords = [replace(self._keyword(key, value, None), name_start=start) for key, value, start in engine]
        if model is not None and all(keyword.name != "model" for keyword in keywords):
            keywords.insert(0, self._keyword("model", model, None))
        self._add_engine(node, entry, keywords, builder=name)

    def _member(self, given: Mapping[str, ast.expr], path: str) -> ast.expr | None:
        """The value of an argument, or of a key of a literal mapping (`argument.key`)."""
        name, _, key = path.partition(".")
        value = given.get(name)
        if value is None or not key:
            return value
        return next((inner for inner_name, inner, _ in self._pairs(value) if inner_name == key), None)

    def _called(self, function: ast.expr) -> str:
        """The engine's class that a call makes, "" for any other."""
        if isinstance(function, ast.Name):
            origin = self.imported.get(function.id)
            if origin is None:
                return "" if function.id in self.names or function.id in self.own else python_scopes.plain(function.id)
            last = origin.rsplit(".", 1)[-1]
            return last if origin.split(".")[0] == "vllm" and last in CALLS else ""
        if isinstance(function, ast.Attribute):
            base = function.value
            while isinstance(base, ast.Attribute):
                base = base.value
            origin = self.imported.get(base.id, base.id) if isinstance(base, ast.Name) else ""
            return function.attr if origin.split(".")[0] == "vllm" else ""
        return ""

    def _engine(self, node: ast.Call, called: str) -> None:
        positional = [argument for argument in node.args[:1] if not isinstance(argument, ast.Starred)]
        keywords = [self._keyword("model", argument, None) for argument in positional]
        for item in node.keywords:
            if item.arg:
                keywords.append(self._keyword(item.arg, item.value, item))
            else:
                keywords += self._unpacked(item.value)
        is_elided = any(isinstance(argument, ast.Constant) and argument.value is Ellipsis for argument in node.args)
        is_elided |= any(item.arg is None and not self._has_known_keys(item.value) for item in node.keywords)
        keywords = [keyword for keyword in keywords if keyword.why != "left out"]
        self._add_engine(node, called, keywords, is_elided=is_elided)

    def _add_engine(
        self, node: ast.Call, called: str, keywords: list[Keyword], *, is_elided: bool = False, builder: str = ""
    ) -> None:
        start, end = self._places(node)
        environment = {**self.around.environment, **self.environment}
        self.reading.starts.append(
            WrittenLaunch(
                kind="python",
                language="python",
                entry=called,
                words=(),
                start=start,
                end=end,
                environment=environment,
                gpus=gpus.seen(environment, self.around.gpus),
                given=self.around.gpus,
                keywords=tuple(keywords),
                within=self.around.within,
                is_certain=bool(self.imported) or self.around.is_page,
                is_elided=is_elided or bool(builder),
                builder=builder,
                has_own_options=bool(builder),
            )
        )

    def _keyword(self, name: str, node: ast.expr, keyword: ast.keyword | None) -> Keyword:
        start, end = self._places(node)
        name_start = self._places(keyword)[0] if keyword is not None else start
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Keyword(name, None, False, start, end, name_start, "left out")
        try:
            return Keyword(name, self._value(node), True, start, end, name_start)
        except _UnknownError as error:
            return Keyword(name, None, False, start, end, name_start, str(error))

    def _unpacked(self, node: ast.expr) -> list[Keyword]:
        """Arguments of `**kwargs`, if it is one literal mapping."""
        return [replace(self._keyword(name, value, None), name_start=start) for name, value, start in self._pairs(node)]

    def _pairs(self, node: ast.expr) -> list[tuple[str, ast.expr, int]]:
        """Names and values of a literal mapping or of `dict(…)`, each with its offset."""
        if isinstance(node, ast.Name):
            node = self._literal(node.id) or node
        if isinstance(node, ast.Dict):
            return [
                (key.value, value, self._places(key)[0])
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        if _is_call(node, "dict"):
            return [(item.arg, item.value, self._places(item)[0]) for item in node.keywords if item.arg]  # type: ignore[attr-defined]
        return []

    def _has_known_keys(self, node: ast.expr) -> bool:
        """Whether `_pairs` finds all keys of a mapping."""
        named = self._literal(node.id) if isinstance(node, ast.Name) else node
        keys = named.keys if isinstance(named, ast.Dict) else named.keywords if _is_dict(named) else None
        return keys is not None and len(keys) == len(self._pairs(node))

    # The environment

    def _mapping(self, node: ast.expr) -> dict[str, Setting]:
        if id(node) not in self.mappings:
            settings = [
                Setting(name, self._word(value), start, self._places(value)[1], "python")
                for name, value, start in self._pairs(node)
            ]
            self._note_settings(node, settings)
        return self.mappings[id(node)]

    def _note_settings(self, node: ast.AST, settings: Sequence[Setting]) -> None:
        """Report the variables that a node sets, once."""
        self.mappings[id(node)] = {setting.name: setting for setting in settings}
        self.reading.settings += self.mappings[id(node)].values()

    def _passed(self, mapping: ast.expr, call: ast.Call) -> dict[str, Setting]:
        """Environment of a subprocess, with the items that are always set before the call.

        Variables are unknown that other statements may set before it.
        """
        name = mapping.id if isinstance(mapping, ast.Name) else ""
        items = self.items.get(name, ())
        made = self.names[name] if items else self._literal(name) or mapping
        settings = dict(self._mapping(made))
        # The call is neither repeated nor in a function without the mapping's assignment.
        is_in_order = self.repeated.get(id(call), (0, 0)) <= _start(made)
        unknown = dict[str, Setting]()
        for key, _, statement in items:
            if is_in_order and _start(call) < _start(statement):
                continue
            if id(statement) not in self.mappings:
                setting = Setting(key, self._word(statement.value), *self._places(statement), form="python")
                self._note_settings(statement, [setting])
            setting = self.mappings[id(statement)][key]
            settings[key] = setting
            if not (_start(made) < _start(statement) < _end(statement) <= _start(call) < self.blocks[id(statement)]):
                unknown[key] = replace(setting, value=replace(setting.value, value=None, why="expression"))
        return settings | unknown

    def _repeated(self) -> dict[int, tuple[int, int]]:
        """Start of the innermost loop or function that each call is in."""
        found = dict[int, tuple[int, int]]()
        outer = list[ast.expr | ast.stmt]()
        for node in self.nodes:
            while outer and _end(outer[-1]) <= _start(node):
                outer.pop()
            if isinstance(node, _REPEATED):
                outer.append(node)
            elif isinstance(node, ast.Call) and outer:
                found[id(node)] = _start(outer[-1])
        return found

    def _set(self, key: ast.expr, value: ast.expr, whole: ast.AST) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._set_named(key.value, value, whole)

    def _set_named(self, name: str, value: ast.expr, whole: ast.AST) -> None:
        setting = Setting(name, self._word(value), *self._places(whole), form="python")
        self.environment[name] = setting
        self.reading.settings.append(setting)

    # Commands

    def _run(self, node: ast.Call) -> ast.expr | None:
        command = node.args[0] if node.args and _last_name(node.func) in _SUBPROCESS | _SHELL_CALLS else None
        return self.names.get(command.id) if isinstance(command, ast.Name) else None

    def _subprocess(self, node: ast.Call, name: str) -> None:
        environment = dict(self.environment)
        for keyword in node.keywords:
            if keyword.arg == "env":
                environment |= self._passed(keyword.value, node)
        if not node.args:
            return
        named = self._run(node)
        command = named or node.args[0]
        around = replace(self.around, environment={**self.around.environment, **environment}, kind="python")
        text = self._text(command)
        if text is not None:
            is_shell = name in _SHELL_CALLS or any(
                item.arg == "shell" and isinstance(item.value, ast.Constant) and item.value.value
                for item in node.keywords
            )
            if is_shell or programs.may_start(text.text):
                within = (*around.within, Within("python", *self._places(command)))
                programs.read_script(text, replace(around, within=within, is_certain=is_shell), self.reading)
        elif isinstance(command, _LISTS):
            self._list(command, around if named is None else replace(around, is_certain=False))
        elif words := self._split_words(command):
            programs.read_command(tuple(words), around, self.reading)

    def _split_words(self, node: ast.expr) -> list[Word]:
        """Words of `"…".split()` and `shlex.split("…")`."""
        if not isinstance(node, ast.Call) or _last_name(node.func) != "split":
            return []
        if node.args:
            inner: ast.expr = node.args[0]
        else:
            inner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if isinstance(inner, ast.Name) and inner.id in self.names:
            inner = self.names[inner.id]
        text = self._text(inner)
        if text is None:
            return []
        words = []
        for match in re.finditer(r"\S+", text.text):
            part = text.part(*match.span())
            words.append(placeholders.filled(literal(part, end=part.at[len(part.text) - 1] + 1)))
        return words

    def _list(self, node: ast.expr, around: Around | None = None) -> None:
        """A list of a command's words, or a sum of lists, wherever it is used."""
        if id(node) in self.lists:
            return
        operands = list(_operands(node))
        self.lists.update(id(part) for part in operands if isinstance(part, ast.BinOp))
        if not any(isinstance(part, (ast.List, ast.Tuple)) for part in operands):
            return
        elements = self._elements(node)
        if not 2 <= len(elements) <= _MAX_WORDS:
            return
        texts = [item.value for item in elements if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if not any("vllm" in text or text.endswith("api_server.py") or text == "-c" for text in texts):
            return
        self.lists.update(map(id, operands))
        words = tuple(self._word(item) for item in elements if not isinstance(item, ast.Starred))
        if words[0].value is None and words[0].why.startswith("variable python"):
            words = (replace(words[0], value="python", why=""), *words[1:])
        if (words[0].value or "").startswith("-") and not programs.are_own(words):
            return  # options of any program
        environment = {**self.around.environment, **self.environment}
        count = len(self.reading.starts)
        programs.read_command(
            words, around or replace(self.around, environment=environment, is_certain=False), self.reading
        )
        if len(self.reading.starts) == count:
            return
        name = self.assigned.get(id(node), "")
        unread: list[ast.expr] = [item for item in elements if isinstance(item, ast.Starred)]
        if name not in self.unread:
            unread += [item for extension in self.open.get(name, ()) for item in self._note_loose(extension)]
            unread += [self.changed[name]] if name in self.changed else []
        is_reported = self.unread.get(name, False)
        if unread and not is_reported:
            self.reading.troubles.append(Trouble("option.added-unread", *self._places(unread[0]), {}))
        if unread or is_reported:
            self.reading.change_starts(count, lambda launch: replace(launch, is_elided=True))
        if name:
            self.unread[name] = bool(unread) or is_reported

    def _elements(self, node: ast.expr, depth: int = 0) -> list[ast.expr]:
        """Elements of a list's expression; unknown ones are one starred element."""
        self.work += 1
        if depth <= _MAX_DEPTH and self.work <= _MAX_WORK:
            if isinstance(node, (ast.List, ast.Tuple)):
                return self._flat([*node.elts, *self.added.get(id(node), ())], depth)
            if _is_sum(node):
                parts = [part for part in _operands(node) if not _is_sum(part)]
                unpacked = [ast.copy_location(ast.Starred(part), part) for part in parts]
                return self._flat([*unpacked, *self.added.get(id(node), ())], depth)
            name = node.id if isinstance(node, ast.Name) else ""
            if name in self.names and name not in self.open and name not in self.changed:
                return self._elements(self.names[name], depth + 10)
        return [ast.copy_location(ast.Starred(node), node)]

    def _flat(self, items: Sequence[ast.expr], depth: int = 0) -> list[ast.expr]:
        """Items of a list, with the elements of those that it unpacks."""
        found = list[ast.expr]()
        for item in items:
            found += self._elements(item.value, depth + 1) if isinstance(item, ast.Starred) else [item]
        self.work += len(found)
        return found

    def _note_added(self, body: Sequence[ast.stmt]) -> None:
        lists: dict[str, ast.expr] = {}
        for statement in body:
            additions = self._unrolled(statement)
            if additions and all(addition.name in lists for addition in additions):
                for addition in additions:
                    self.added.setdefault(id(lists[addition.name]), []).extend(addition.elements)
                self.always |= {id(node) for node in ast.walk(statement) if isinstance(node, ast.stmt)}
                continue
            # Any other use may change a list or start its command. A chain of elif is deep, but in none of its bodies
            # is a list assigned before the rest of it.
            nodes = list(ast.walk(statement)) if lists else []
            own = {id(part) for node in nodes if isinstance(node, ast.stmt) for part in _extension(node).targets}
            used = {
                _path(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in own
            }
            lists = {name: value for name, value in lists.items() if name not in used}
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(
                statement.value, (ast.List, ast.BinOp)
            ):
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    if name := _path(target):
                        lists[name] = statement.value

    def _unrolled(self, statement: ast.stmt) -> list[_Extension]:
        """What a statement always adds to lists: an extension, or a loop of them over a literal."""
        if not isinstance(statement, ast.For):
            return [extension] if (extension := _extension(statement)).name else []
        additions = [_extension(inner) for inner in statement.body]
        items = self._items(statement.iter)
        names = statement.target.elts if isinstance(statement.target, ast.Tuple) else [statement.target]
        is_simple = all(isinstance(name, ast.Name) for name in names) and not statement.orelse
        if not items or not is_simple or not all(addition.name for addition in additions):
            return []
        found = list[_Extension]()
        for item in items:
            values = item.elts if len(names) > 1 and isinstance(item, (ast.Tuple, ast.List)) else [item]
            if len(values) != len(names) or self.work > _MAX_WORK:
                return []
            bound = _Bound({_path(name): value for name, value in zip(names, values, strict=True)})
            for addition in additions:
                self.work += 10 * len(addition.elements)
                found.append(addition._replace(elements=[bound.visit(deepcopy(part)) for part in addition.elements]))
        return found

    def _items(self, node: ast.expr) -> list[ast.expr]:
        """The values that a loop takes from a literal list or from the items of a literal mapping; else none."""
        if isinstance(node, ast.Call) and _last_name(node.func) == "items" and isinstance(node.func, ast.Attribute):
            mapping: ast.expr | None = node.func.value
            mapping = self._literal(mapping.id) if isinstance(mapping, ast.Name) else mapping
            if not isinstance(mapping, ast.Dict) or None in mapping.keys:
                return []
            pairs = zip(mapping.keys, mapping.values, strict=True)
            return [ast.copy_location(ast.Tuple([key, value]), key) for key, value in pairs if key is not None]
        if (name := _path(node)) in self.extended or name in self.changed:
            return []
        items = self._elements(node)
        return [] if any(isinstance(item, ast.Starred) for item in items) else items

    def _note_loose(self, extension: _Extension) -> list[ast.expr]:
        """Note options that are added to a command's list, perhaps; returns those that are unknown."""
        known = self._flat(extension.elements)
        words = [self._word(item) for item in known if not isinstance(item, ast.Starred)]
        self.reading.loose += programs.options_of(words, "bare")
        unread: list[ast.expr] = [item for item in known if isinstance(item, ast.Starred)]
        return unread or list(extension.elements) if words and words[0].value is None else unread


class _Item(NamedTuple):
    """A statement that sets an item of a mapping."""

    key: str
    target: ast.Subscript
    statement: ast.Assign


def _item(statement: ast.Assign) -> _Item | None:
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if isinstance(target, ast.Subscript) and isinstance(key := target.slice, ast.Constant):
        return _Item(key.value, target, statement) if isinstance(key.value, str) else None
    return None


class _Extension(NamedTuple):
    name: str
    """Dotted name of a list; empty if a statement extends none."""
    elements: Sequence[ast.expr]
    targets: Sequence[ast.expr] = ()
    """Nodes that are this name."""


def _extension(node: ast.stmt) -> _Extension:
    """What a statement adds to a list: `cmd += […]`, `cmd = cmd + […]`, `cmd.extend(…)`, `cmd.append(…)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return _Extension(_path(node.target), _listed(node.value), [node.target])
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and (name := _path(target := node.targets[0])):
        first: ast.expr = node.value
        rest = list[ast.expr]()
        while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add):
            rest[:0] = _listed(first.right)
            first = first.left
        if isinstance(first, ast.List) and first.elts and isinstance(unpacked := first.elts[0], ast.Starred):
            rest = [*first.elts[1:], *rest]
            first = unpacked.value
        return _Extension(name, rest, [target, first]) if _path(first) == name and rest else _Extension("", ())
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        if call.func.attr == "append":
            return _Extension(_path(call.func.value), call.args, [call.func.value])
        if call.func.attr == "extend":
            return _Extension(_path(call.func.value), _listed(call.args[0]), [call.func.value])
    return _Extension("", ())


class _Bound(ast.NodeTransformer):
    """Puts the values of a loop's names in their places."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _listed(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else [ast.copy_location(ast.Starred(node), node)]


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """A sum and its parts in their order, which may be sums."""
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        if _is_sum(part):
            stack += [part.right, part.left]


def _is_sum(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _path(node: ast.expr | ast.AST) -> str:
    """Dotted name of a variable or attribute; empty for other expressions."""
    names = list[str]()
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


class _ModalContainer(NamedTuple):
    start: int
    end: int
    gpus: Gpus | None
    ports: list[PublishedPort]


def _within_container(launch: WrittenLaunch, containers: Sequence[_ModalContainer]) -> WrittenLaunch:
    """The launch with the GPUs and the port of the innermost container it is in, which is the last to begin."""
    found = [container for container in containers if container.start <= launch.start < container.end]
    if not found:
        return launch
    given, ports = found[-1].gpus, found[-1].ports
    if ports and launch.container is None:
        launch = replace(launch, container=ContainerOptions(ports=ports))
    return launch if given is None else replace(launch, gpus=gpus.seen(launch.environment, given), given=given)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return python_scopes.plain(node.id)
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_call(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_dict(node: ast.expr | None) -> TypeGuard[ast.Call]:
    """Whether a node is `dict(…)` with keywords only."""
    return isinstance(node, ast.Call) and _is_call(node, "dict") and not node.args


def _is_environ(function: ast.expr, name: str) -> bool:
    """Whether a method belongs to `os.environ` (or is `os.putenv`, or pytest's `monkeypatch.setenv`)."""
    if name in {"putenv", "setenv"}:
        return True
    return isinstance(function, ast.Attribute) and _last_name(function.value) == "environ"


def _why(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"variable {_last_name(node)}"
    return {"JoinedStr": "formatted text", "Call": "call"}.get(type(node).__name__, "expression")


def _negated(operator: ast.unaryop, value: Any) -> Any:
    if isinstance(operator, ast.Not):
        return not value
    if isinstance(value, (int, float)):
        return -value if isinstance(operator, ast.USub) else value
    raise _UnknownError("expression")


def _calculated(sign: ast.operator, left: Any, right: Any) -> Any:
    operation = _OPERATIONS.get(type(sign))
    is_small = abs(left) < 1 << 16 if isinstance(left, (int, float)) else False
    if isinstance(sign, ast.LShift):
        is_small = isinstance(left, int) and abs(left) < 1 << 32
    is_power = isinstance(sign, (ast.Pow, ast.LShift))
    if operation is None or not all(isinstance(number, (int, float)) for number in (left, right)):
        raise _UnknownError("expression")
    if is_power and not (is_small and 0 <= right < 64):
        raise _UnknownError("expression")
    try:
        result = operation(left, right)
    except (ArithmeticError, TypeError):
        raise _UnknownError("expression") from None
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        raise _UnknownError("a number with too many digits")
    return result


def _string_characters(text: str, start: int, end: int) -> Characters:
    """The characters of string literals that follow each other, each with its index in the text."""
    characters: Characters = []
    index = start
    while index < end:
        match = _PREFIX.match(text, index, end)
        if not match:
            index += 1  # blanks, comments and line ends between two literals
            if text[index - 1] == "#":
                stop = text.find("\n", index, end)
                index = end if stop < 0 else stop
            continue
        quote, is_raw = match[1], "r" in match[0].lower()
        index = match.end()
        while index < end and not text.startswith(quote, index):
            piece = (_RAW if is_raw else _ESCAPED).match(text, index, end)
            assert piece is not None  # noqa: S101 - for the type checker: it matches any character
            value = "\n" if piece[0][0] == "\r" else None if is_raw else _unescaped(piece)
            if value is None:
                characters += zip(piece[0], range(index, piece.end()), strict=True)
            else:
                characters += [(character, index) for character in value]
            index = piece.end()
        index += len(quote)
    return characters


def _formatted_places(characters: Characters, node: ast.JoinedStr, pieces: list[str]) -> list[int]:
    """Position of each character of an f-string; fewer if unknown."""
    places: list[int] = []
    index = 0
    for part, piece in zip(node.values, pieces, strict=True):
        if not isinstance(part, ast.Constant):
            if index >= len(characters) or characters[index][0] != "{":
                return []
            places += [characters[index][1]] * len(piece)
            depth = 0
            while index < len(characters):
                depth += {"{": 1, "}": -1}.get(characters[index][0], 0)
                index += 1
                if depth == 0:
                    break
            continue
        for character in piece:
            if index >= len(characters) or characters[index][0] != character:
                return []
            places.append(characters[index][1])
            index += 1
            if character in "{}" and characters[index : index + 1] == [(character, places[-1] + 1)]:
                index += 1  # written twice
    return places if index == len(characters) else []


def _unescaped(match: re.Match[str]) -> str | None:
    if match["break"]:
        return ""
    if match["code"]:
        return escapes.SIMPLE.get(match["code"])
    return escapes.numbered(match, match["octal"] or "") if match[0][0] == "\\" and len(match[0]) > 1 else None
