"""Python that starts vLLM: `LLM(…)`, engine arguments, commands handed to subprocesses, and `os.environ`.

The code is parsed (`ast`) and never run. Names are followed where they are given one literal in the whole file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog.options import CALLS
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents import escapes, gpus, placeholders, programs
from vllm_runbooks.reading.documents.python_text import MAX_LENGTH, NotPythonError, PythonText, line_starts
from vllm_runbooks.reading.documents.starts import Around, Found, Keyword, Reading, Setting, Within
from vllm_runbooks.reading.shell import Trouble, Word

_MAX_DEPTH = 40
"""How deep a value may nest."""
_MAX_WORK = 500_000
"""Values of one text that are worked out, and characters that are joined: names in lists of names multiply."""
_MAX_BITS = 1024
"""Of a whole number that is taken: more makes even its printing an error."""
_SUBPROCESS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
_SHELL_CALLS = {"system", "popen", "create_subprocess_shell", "getoutput", "getstatusoutput"}
_PREFIX = re.compile(r"[A-Za-z]{0,2}('''|\"\"\"|'|\")")
_SIMPLE = {**escapes.SIMPLE, "\n": ""}


class _UnknownError(Exception):
    """A value that cannot be known; the message says why."""


def read(source: Excerpt, around: Around, reading: Reading) -> bool:
    """Add what a Python text starts and sets; False where it is no Python, which is left to the caller to report."""
    try:
        text = PythonText(source)
    except NotPythonError as error:
        lines = line_starts(source.text)
        line = min(max(error.line or 1, 1), len(lines)) - 1
        at = source.at[min(lines[line], len(source.text))]
        reading.troubles.append(Trouble("file.not-python", at, at, error.told, ()))
        return len(source.text) > MAX_LENGTH
    _Program(text, replace(around, kind="python", language="python"), reading).read()
    return True


class _Program:
    """A parsed text being looked through."""

    def __init__(self, text: PythonText, around: Around, reading: Reading) -> None:
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
        self.lists: set[int] = set()
        """Lists that were read as a command."""
        self.run = {id(named) for node in self.nodes if isinstance(node, ast.Call) and (named := self._run(node))}
        """What is run by name: it is read where it is run, with the variables that it is given there."""
        self.commands: set[str] = set()
        """Variables that hold a command's words."""
        self.assigned = {
            id(node.value): node.targets[0].id
            for node in self.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def read(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._item(target, node)
            elif isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, (ast.List, ast.Tuple)) and id(node) not in self.run:
                self._list(node)
        for node in self.nodes:
            self._extension(node)

    def _names(self) -> tuple[dict[str, ast.expr], dict[str, str]]:
        given: dict[str, list[ast.expr | None]] = {}
        imported: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                given.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                given.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                given.setdefault(node.id, [])
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for one in node.names:
                    imported[one.asname or one.name.split(".")[0]] = f"{module}.{one.name}".strip(".")
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                given.setdefault(node.target.id, []).append(None)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                for argument in every:
                    given.setdefault(argument.arg, []).append(None)
        stores: dict[str, int] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                stores[node.id] = stores.get(node.id, 0) + 1
        return {
            name: values[0]
            for name, values in given.items()
            if len(values) == 1 and values[0] is not None and stores.get(name, 0) == 1
        }, imported

    # Values

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        """The literal that an expression stands for.

        Raises:
            _UnknownError: It cannot be known without running the program.
        """
        self.work += 1
        if depth > _MAX_DEPTH or self.work > _MAX_WORK:
            raise _UnknownError("nested too deep")
        if isinstance(node, ast.Constant) and node.value is not Ellipsis:
            if isinstance(node.value, int) and node.value.bit_length() > _MAX_BITS:
                raise _UnknownError("a number with too many digits")
            return node.value
        if isinstance(node, ast.Name):
            named = self.names.get(node.id)
            if named is None:
                raise _UnknownError(f"variable {node.id}")
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
        if isinstance(node, ast.Call) and _is_call(node, "dict") and not node.args:
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
        """An expression as an argument of a command."""
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
        """A string's value with the place of each character in the file."""
        start, end = self._span(node)
        found = _string_characters(self.source.text, start, end)
        value = str(node.value)
        if "".join(character for character, _ in found) != value:
            found = [(character, start) for character in value]
        last = self.source.at[found[-1][1]] + 1 if found else self.source.at[start]
        return Excerpt(value, [*(self.source.at[place] for _, place in found), last])

    def _text(self, node: ast.expr) -> Excerpt | None:
        """A text, formatted or not, with places; what cannot be known in it as something that is to be filled in."""
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
                pieces.append(placeholders.UNKNOWN)
        start, end = self._span(node)
        places = _formatted_places(_string_characters(self.source.text, start, end), node, pieces)
        value = "".join(pieces)
        if len(places) != len(value):
            places = [start] * len(value)
        return Excerpt(value, [*(self.source.at[place] for place in places), self._places(node)[1]])

    def _filled_in(self, part: ast.expr, depth: int = 0) -> str:
        """What a formatted text has in place of an expression.

        Raises:
            _UnknownError: It cannot be known.
        """
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

    def _called(self, function: ast.expr) -> str:
        """The engine's class that a call makes, "" for any other."""
        if isinstance(function, ast.Name):
            origin = self.imported.get(function.id)
            if origin is None:
                return "" if function.id in self.names or function.id in self.own else function.id
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
        keywords: list[Keyword] = []
        for index, argument in enumerate(node.args[:1]):
            if not isinstance(argument, ast.Starred) and index == 0:
                keywords.append(self._keyword("model", argument, None))
        for keyword in node.keywords:
            if keyword.arg:
                keywords.append(self._keyword(keyword.arg, keyword.value, keyword))
            else:
                keywords += self._unpacked(keyword.value)
        is_elided = any(isinstance(argument, ast.Constant) and argument.value is Ellipsis for argument in node.args)
        keywords = [one for one in keywords if one.why != "left out"]
        start, end = self._places(node)
        environment = {**self.around.environment, **self.environment}
        self.reading.starts.append(
            Found(
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
                is_elided=is_elided,
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
        """Arguments of `**kwargs`, where that is one literal mapping."""
        if isinstance(node, ast.Name) and node.id in self.names:
            node = self.names[node.id]
        if isinstance(node, ast.Dict):
            return [
                replace(self._keyword(key.value, value, None), name_start=self._places(key)[0])
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        if _is_call(node, "dict"):
            return [self._keyword(one.arg, one.value, one) for one in node.keywords if one.arg]  # type: ignore[attr-defined]
        return []

    # The environment

    def _item(self, target: ast.expr, statement: ast.Assign) -> None:
        if isinstance(target, ast.Subscript) and _last_name(target.value) == "environ":
            self._set(target.slice, statement.value, statement)

    def _mapping(self, node: ast.Dict) -> dict[str, Setting]:
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found[key.value] = self._setting(key.value, value, self._places(key)[0], self._places(value)[1])
        self.reading.settings += found.values()
        return found

    def _set(self, key: ast.expr, value: ast.expr, whole: ast.AST) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self._set_named(key.value, value, whole)

    def _set_named(self, name: str, value: ast.expr, whole: ast.AST) -> None:
        setting = self._setting(name, value, *self._places(whole))
        self.environment[name] = setting
        self.reading.settings.append(setting)

    def _setting(self, name: str, value: ast.expr, start: int, end: int) -> Setting:
        return Setting(name, self._word(value), start, end, "python")

    # Commands

    def _run(self, node: ast.Call) -> ast.expr | None:
        """The command that a call runs by its name."""
        command = node.args[0] if node.args and _last_name(node.func) in _SUBPROCESS | _SHELL_CALLS else None
        return self.names.get(command.id) if isinstance(command, ast.Name) else None

    def _subprocess(self, node: ast.Call, name: str) -> None:
        environment = dict(self.environment)
        for keyword in node.keywords:
            if keyword.arg == "env":
                environment |= self._given_environment(keyword.value)
        if not node.args:
            return
        named = self._run(node)
        command = named or node.args[0]
        around = replace(self.around, environment={**self.around.environment, **environment}, kind="python")
        text = self._text(command)
        if text is not None:
            is_shell = name in _SHELL_CALLS or any(
                one.arg == "shell" and isinstance(one.value, ast.Constant) and one.value.value for one in node.keywords
            )
            if is_shell or programs.may_start(text.text):
                within = (*around.within, Within("python", *self._places(command)))
                programs.read_script(text, replace(around, within=within, is_certain=is_shell), self.reading)
        elif isinstance(command, (ast.List, ast.Tuple)):
            self._list(command, around if named is None else replace(around, is_certain=False))
        elif self._split_words(command):
            programs.read_command(tuple(self._split_words(command)), around, self.reading)

    def _given_environment(self, node: ast.expr) -> dict[str, Setting]:
        if isinstance(node, ast.Name) and node.id in self.names:
            node = self.names[node.id]
        if isinstance(node, ast.Dict):
            return self._mapping(node)
        if _is_call(node, "dict"):
            found = {
                one.arg: self._setting(one.arg, one.value, *self._places(one))
                for one in node.keywords  # type: ignore[attr-defined]
                if one.arg
            }
            self.reading.settings += found.values()
            return found
        return {}

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
        words = [
            Word(
                match[0],
                text.at[match.start()],
                text.at[match.end() - 1] + 1,
                match[0],
                "",
                text.at[match.start() : match.end()],
            )
            for match in re.finditer(r"\S+", text.text)
        ]
        return [placeholders.filled(word) for word in words]

    def _list(self, node: ast.List | ast.Tuple, around: Around | None = None) -> None:
        """A list of a command's words, wherever it is then used."""
        if id(node) in self.lists or not 2 <= len(node.elts) <= 1000:
            return
        texts = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if not any("vllm" in text or text.endswith("api_server.py") or text == "-c" for text in texts):
            return
        self.lists.add(id(node))
        words = tuple(self._word(one) for one in node.elts if not isinstance(one, ast.Starred))
        if words[0].value is None and words[0].why.startswith("variable python"):
            words = (replace(words[0], value="python", why=""), *words[1:])
        environment = {**self.around.environment, **self.environment}
        count = len(self.reading.starts)
        programs.read_command(
            words, around or replace(self.around, environment=environment, is_certain=False), self.reading
        )
        if len(self.reading.starts) > count and id(node) in self.assigned:
            self.commands.add(self.assigned[id(node)])

    def _extension(self, node: ast.AST) -> None:
        """Options that are added to a command's list (`cmd += […]`, `cmd.extend([…])`), perhaps."""
        target: ast.expr
        if isinstance(node, ast.AugAssign):
            target, value = node.target, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "extend":
            target, value = node.func.value, node.args[0] if node.args else node.func
        else:
            return
        if isinstance(target, ast.Name) and target.id in self.commands and isinstance(value, (ast.List, ast.Tuple)):
            self.reading.loose += programs.options_of([self._word(one) for one in value.elts], "bare")


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_call(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


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


def _calculated(operator: ast.operator, left: Any, right: Any) -> Any:
    """The result of simple arithmetic on numbers."""
    if not all(isinstance(one, (int, float)) for one in (left, right)):
        raise _UnknownError("expression")
    try:
        result = _arithmetic(operator, left, right)
    except (ArithmeticError, TypeError):
        raise _UnknownError("expression") from None
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        raise _UnknownError("a number with too many digits")
    return result


def _arithmetic(operator: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv):
        return left // right
    if isinstance(operator, ast.Div):
        return left / right
    if isinstance(operator, ast.Pow) and abs(left) < 1 << 16 and 0 <= right < 64:
        return left**right
    if isinstance(operator, ast.LShift) and isinstance(left, int) and abs(left) < 1 << 32 and 0 <= right < 64:
        return left << right
    raise _UnknownError("expression")


def _string_characters(text: str, start: int, end: int) -> list[tuple[str, int]]:
    """The characters of string literals that follow each other, each with its index in the text."""
    found: list[tuple[str, int]] = []
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
            index = _one(text, index, end, found, is_raw=is_raw)
        index += len(quote)
    return found


def _formatted_places(characters: list[tuple[str, int]], node: ast.JoinedStr, pieces: list[str]) -> list[int]:
    """Where each character of a formatted text stands, by what is written; fewer where that cannot be told.

    What an expression stands for begins where the expression does.
    """
    found: list[int] = []
    index = 0
    for part, piece in zip(node.values, pieces, strict=True):
        if not isinstance(part, ast.Constant):
            if index >= len(characters) or characters[index][0] != "{":
                return []
            found += [characters[index][1]] * len(piece)
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
            found.append(characters[index][1])
            is_brace = character in "{}"
            index += 1
            if is_brace and characters[index : index + 1] == [(character, found[-1] + 1)]:
                index += 1  # written twice
    return found if index == len(characters) else []


def _one(text: str, index: int, end: int, found: list[tuple[str, int]], *, is_raw: bool) -> int:
    """Append the character written at an index; the index behind it."""
    character = text[index]
    if character == "\r":
        found.append(("\n", index))
        return index + (2 if text[index + 1 : index + 2] == "\n" else 1)
    if character != "\\" or index + 1 >= end:
        found.append((character, index))
        return index + 1
    code = text[index + 1]
    if is_raw and code == "\r":
        found.append(("\\", index))
        return index + 1
    if is_raw:
        found += [("\\", index), (code, index + 1)]
        return index + 2
    if code == "\r":
        return index + (3 if text[index + 2 : index + 3] == "\n" else 2)
    if code in _SIMPLE:
        found += [(one, index) for one in _SIMPLE[code]]
        return index + 2
    if code in "01234567":
        stop = index + 2
        while stop < min(index + 4, end) and text[stop] in "01234567":
            stop += 1
        found.append((chr(int(text[index + 1 : stop], 8)), index))
        return stop
    digits = escapes.DIGITS.get(code, 0)
    if digits:
        try:
            found.append((chr(int(text[index + 2 : index + 2 + digits], 16)), index))
        except (ValueError, OverflowError):
            found.append(("\ufffd", index))
        return index + 2 + digits
    found += [("\\", index), (code, index + 1)]
    return index + 2
