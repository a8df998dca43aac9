"""Words, assignments and arithmetic of a shell script, expanded as bash does it, on a state that is only modelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.expansion import (
    Calculator,
    Pattern,
    TooMuch,
    Unreadable,
    expand_braces,
    has_braces,
    single_quoted,
)
from vllm_runbooks.reading.shell.values import (
    Assignment,
    Field,
    Input,
    Piece,
    Result,
    Splitter,
    State,
    Value,
    Variable,
    Word,
    as_element,
    as_whole_word,
    cased,
    cut_value,
    glued,
    has_glob,
    is_outside,
    is_several,
    is_unset,
    list_sign,
    plain,
    reason,
    supposed,
    text_value,
    unknowable,
)

MOST_WORDS = 100_000
"""Words of all commands together."""
_MOST_TEXT = 1 << 20
"""Characters of one value."""
_MOST_WORK = 20_000_000
"""Characters and variables copied, and signs matched, in all: some seconds."""
_FIRST_SIGN, _MOST_SIGNS = 0xF0000, 0xFFF0
"""Characters for private use, and how many there are."""
MOST_NESTED = 40
"""Calls and compound commands in each other that are followed."""
_MACHINE = frozenset(
    [
        "HOME",
        "PWD",
        "OLDPWD",
        "USER",
        "LOGNAME",
        "HOSTNAME",
        "PATH",
        "SHELL",
        "SHLVL",
        "UID",
        "EUID",
        "PPID",
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "LINENO",
        "BASH",
        "BASHPID",
        "BASH_SOURCE",
        "BASH_VERSION",
        "BASH_VERSINFO",
        "BASHOPTS",
        "SHELLOPTS",
        "BASH_LINENO",
        "BASH_COMMAND",
        "FUNCNAME",
        "HOSTTYPE",
        "MACHTYPE",
        "OSTYPE",
        "EPOCHSECONDS",
        "EPOCHREALTIME",
        "GROUPS",
        "TERM",
        "LANG",
        "TMPDIR",
        "DIRSTACK",
        "PIPESTATUS",
        "_",
        "COLUMNS",
        "LINES",
    ]
)
"""Variables that are set on every machine, to what cannot be known."""
DEFAULTS = frozenset({"-", ":-", "+", ":+", "=", ":=", "?", ":?"})
"""Operators of `${X:-d}` that put something in place of a value."""
_TRANSFORMS = {"@U": "^^", "@u": "^", "@L": ",,"}
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Status(NamedTuple):
    """An exit status; `origin` says what it rests on: "certain", "given" from outside, or "assumed".

    `why` says why it cannot be known, where it cannot.
    """

    code: int | None
    origin: str = "certain"
    why: str = "the result of a command"


class Signal(NamedTuple):
    """What ends a list of commands before its end."""

    kind: str
    levels: int = 1


SUCCESS, FAILURE = Status(0), Status(1)


class Stop(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash leave the script; not certain where it depends on what is outside."""


class Skip(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash leave out the command."""


class Expander:
    """Expands words; what runs commands is left to a subclass."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self.result = Result()
        self.known = known
        self.state = State()
        self.status = SUCCESS
        self.reached = True
        self.conditional = 0
        self.place = 0
        self._depth = 0
        self._words = 0
        self._work = self._steps = 0
        self._tested = 0
        self._assigning: dict[str, tuple[Variable | None, Variable]] = {}
        """Variables that are assigned before the command that is worked out: what they were, and are."""
        self._passed: dict[str, Variable] = {}
        """Variables that are assigned before the program that has been noted."""
        self._background = 0
        self.loops = 0
        """Loops around the command, within its function."""
        self._nested = 0
        self._rounds: list[tuple[str, str]] = []
        self._may_break = False
        self.calls: list[dict[str, Variable | None]] = []
        self.traps: list[tuple[Value, bool]] = []
        """What is done at the end, and whether bash comes to where that is said."""
        self.error_trap: Value = ()
        self._waiting: list[int] = []
        self.is_trapped = False
        self._failed = False
        self._lost: State | None = None
        self._left = Status(1, "given")
        self.input = Input(None)
        self._output: list[Piece] | None = None
        self._sure = 0, 0
        self.cluster = 0, 1
        """Of `getopts`: the argument and the place in it that come next."""
        self.signs: dict[str, Piece] = {}
        """Signs that stand in a nested script for what cannot be known of it."""
        self._answer: Status | None = None
        self._returned: Status | None = None
        self._doubt = ""

    def spend(self, amount: int) -> None:
        self._work += amount
        if self._work > _MOST_WORK:
            raise TooMuch

    def copied(self) -> State:
        self.spend(len(self.state.variables) + 1)
        return self.state.copy()

    def substituted(self, items: Sequence[syntax.Item]) -> Value:
        """Run the commands of a substitution: what they print."""
        raise NotImplementedError

    def untaken(self, go: Callable[[], Signal | None]) -> None:
        """Read what is run under other circumstances only."""
        raise NotImplementedError

    def waited(self) -> None:
        """Everything started in the background is waited for."""
        raise NotImplementedError

    def _environment(self) -> Mapping[str, str | None]:
        if self.state.environment is None:
            self.spend(len(self.state.variables))
            found: dict[str, str | None] = {}
            for name, variable in self.state.variables.items():
                if variable.is_exported and variable.value is None and variable.elements is None:
                    # A local variable without a value hides none in the environment.
                    hidden = [saved for call in self.calls if (saved := call.get(name)) and saved.value is not None]
                    variable = hidden[-1] if hidden else variable  # noqa: PLW2901
                if variable.is_exported and variable.elements is None and variable.value is not None:
                    found[name] = None if variable.export_doubt or reason(variable.value) else plain(variable.value)
            self.state.environment = MappingProxyType(found)
        return self.state.environment

    def _restore(self, name: str, variable: Variable | None) -> None:
        if variable is None:
            self.state.variables.pop(name, None)
        else:
            self.state.variables[name] = variable
        self.state.environment = None
        if name == "IFS":
            self._note_ifs()

    # Assignments

    def _assignable(self, nodes: Sequence[syntax.AssignmentNode]) -> list[syntax.AssignmentNode]:
        """Assignments before a command that are made: one to a read-only variable ends the script under `set -e`."""
        made = [node for node in nodes if not ((old := self.state.variables.get(node.name)) and old.is_readonly)]
        if len(made) < len(nodes) and "e" in self.state.options:
            raise Stop
        return made

    def _value_of(self, node: syntax.AssignmentNode) -> Value:
        return self.one(node.value.parts, assigns=True) if node.elements is None else unknowable("a list")

    def assign_node(
        self, node: syntax.AssignmentNode, *, is_listed: bool = False, exports: bool = False, is_map: bool = False,
        is_integer: bool = False, value: Value | None = None,
    ) -> None:  # fmt: skip
        node = node._replace(name=self.meant(node.name))
        old = self.state.variables.get(node.name)
        if old and old.is_readonly:
            raise self._refusal()
        if exports or "a" in self.state.options:
            self.export(node.name)
            old = self.state.variables.get(node.name)
        exported = bool(old and old.is_exported)
        if node.elements is not None:
            self._assign_elements(node, is_map=is_map or bool(old and old.is_map))
            word = Word(None, node.value.start, node.value.end, node.value.raw, "a list")
        else:
            value = self.one(node.value.parts, assigns=True) if value is None else value
            if node.subscript is not None:
                self._set_element(node, value)
            else:
                if is_integer or (old and old.is_integer):
                    value = self._integer(value)
                if node.is_appended:
                    value = self.appended(node.name, value, is_integer=is_integer or bool(old and old.is_integer))
                self.assign(node.name, value)
            word = as_whole_word(value, node.value)
        if is_listed:
            self.result.assignments.append(Assignment(node.name, word, node.start, node.end, exported))

    def _integer(self, value: Value) -> Value:
        text = plain(value)
        if text is None:
            return value
        try:
            number = self.calculator(text).value()
        except Unreadable:
            raise Skip from None
        outside = is_outside(value) or self.arithmetic_outside
        return (Piece(None if number is None else str(number), None, reason(value) or self._arithmetic_why, outside),)

    def appended(self, name: str, value: Value, *, is_integer: bool) -> Value:
        old = self._lookup(name, None) or ()
        if is_integer:
            return self._integer(text_value(f"({plain(old) or 0})+({plain(value)})"))
        old = tuple(piece for piece in old if not is_unset((piece,)))
        self.spend(sum(len(piece.text or "") for piece in (*old, *value)) + len(old))
        return (*old, *value)

    def _refusal(self) -> Skip | Stop:
        """An error that `set -e` makes fatal."""
        return Stop() if "e" in self.state.options else Skip()

    def meant(self, name: str) -> str:
        """The variable that a name stands for: that of a reference is another."""
        for _ in range(8):
            variable = self.state.variables.get(name)
            if variable is None or not variable.target:
                break
            name = variable.target
        return name

    def assign(self, name: str, value: Value) -> None:
        """Give a variable a value; raises Skip where it is read-only."""
        name = self.meant(name)
        size = sum(len(piece.text or "") for piece in value)
        if size > _MOST_TEXT or len(value) > _MOST_TEXT >> 4:
            raise TooMuch
        self.spend(len(value))
        old = self.state.variables.get(name)
        if old and old.is_readonly:
            raise self._refusal()
        if old and old.is_integer:
            value = self._integer(value)
        if old and old.case:
            value = cased(value, old.case)
        if is_unset(value):
            value = (*value, Piece("", None, "", True))  # it is set now, to nothing
        if old is None:
            new = Variable(value, is_exported="a" in self.state.options)
        elif old.elements is not None:
            new = replace(old, elements={**old.elements, (0 if not old.is_map else "0"): value})
        else:
            new = replace(old, value=value)
        self.state.variables[name] = new
        self.state.unset.discard(name)
        if new.is_exported:
            self.state.environment = None
        if name == "IFS":
            self._note_ifs()

    def _note_ifs(self) -> None:
        value = self._lookup("IFS", None)
        self.state.ifs = " \t\n" if value is None or is_unset(value) else plain(value)

    def _assign_elements(self, node: syntax.AssignmentNode, *, is_map: bool) -> None:
        old = self.state.variables.get(node.name)
        elements: dict[int | str, Value] = {}
        if node.is_appended and old is not None:
            if old.elements is None:
                elements = {0: old.value} if old.value else {}
            elif old.owner is self.state.owner:
                elements = old.elements
            else:
                self.spend(len(old.elements))
                elements = dict(old.elements)
        last = next(reversed(elements), -1)
        following = last + 1 if isinstance(last, int) else 0
        if following != len(elements):
            following = max((key for key in elements if isinstance(key, int)), default=-1) + 1
        for key, value in self._elements(node.elements or (), is_map=is_map):
            place = following if key is None else key
            elements[place] = value
            following = place + 1 if isinstance(place, int) else following
        base = old or Variable(is_exported="a" in self.state.options)
        self.state.variables[node.name] = replace(
            base, value=None, elements=elements, is_map=is_map, owner=self.state.owner
        )
        self.state.unset.discard(node.name)

    def _elements(self, written: Sequence[syntax.Element], *, is_map: bool) -> list[tuple[int | str | None, Value]]:
        """The values of a list in brackets, with the keys that are given."""
        found: list[tuple[int | str | None, Value]] = []
        for element in written:
            if element.subscript is None:
                made = self._fields(element.word, is_named=False)[0]
                self._words += len(made)
                if self._words > MOST_WORDS:
                    raise TooMuch
                found += [(None, as_element(item)) for item in made]
                continue
            key = self._key(element.subscript, is_map=is_map)
            value = self.one(element.word.parts)
            found.append((key, value) if key is not None else (0, (*unknowable("an index"), Piece("", None, "\0many"))))
        return found

    def _set_element(self, node: syntax.AssignmentNode, value: Value) -> None:
        old = self.state.variables.get(node.name) or Variable()
        key, why = self._key(node.subscript or (), is_map=old.is_map), self._doubt
        elements: dict[int | str, Value] = {}
        if old.elements is not None:
            elements = dict(old.elements)
        elif old.value:
            elements = {0: old.value}
        self.spend(len(elements))
        if isinstance(key, int) and key < 0:
            key += max((k for k in elements if isinstance(k, int)), default=-1) + 1
        if _counts(node) and any(is_several(value) for value in elements.values()):
            key = max((k for k in elements if isinstance(k, int)), default=-1) + 1
        if key is None:
            elements = {0: (*unknowable(why or "an index"), Piece("", None, "\0many"))}
        else:
            elements[key] = (*elements.get(key, ()), *value) if node.is_appended else value
        self.state.variables[node.name] = replace(old, value=None, elements=elements)

    def _key(self, parts: syntax.Parts, *, is_map: bool) -> int | str | None:
        text = plain(self.one(parts))
        if text is None or is_map:
            return text
        try:
            number = self.calculator(text).value()
        except Unreadable:
            raise Skip from None
        return number

    def export(self, name: str) -> None:
        old = self.state.variables.get(name) or Variable()
        if not old.is_exported or old.export_doubt:
            self.state.variables[name] = replace(old, is_exported=True, export_doubt="")
            self.state.environment = None

    def make_local(self, name: str) -> None:
        if self.calls and name not in self.calls[-1]:
            old = self.state.variables.get(name)
            self.calls[-1][name] = old
            self.state.variables[name] = Variable(is_exported=bool(old and old.is_exported))
            self.state.unset.discard(name)

    # Expansion

    def _lookup(self, name: str, subscript: str | int | None) -> Value | None:
        """The value of a variable; None: certainly unset; a piece with `why`: from outside, or not to be known."""
        name = self.meant(name)
        variable = self.state.variables.get(name)
        if variable is not None:
            if variable.elements is not None:
                key = subscript if subscript is not None else (0 if not variable.is_map else "0")
                if isinstance(key, int) and key < 0:
                    key += max((k for k in variable.elements if isinstance(k, int)), default=-1) + 1
                    self._bad_index(key)
                if any(reason(v) for v in variable.elements.values()) and not variable.is_map:
                    value = variable.elements.get(key)
                    before = [k for k, v in variable.elements.items() if v and v[-1].why == "\0many"]
                    if before and (not isinstance(key, int) or key >= min(k for k in before if isinstance(k, int))):
                        return unknowable(reason(variable.elements[before[0]]))
                    return value
                several = next((v for v in variable.elements.values() if is_several(v)), None)
                if several and key not in variable.elements:
                    return unknowable(reason(several))
                return variable.elements.get(key)
            if subscript not in (None, 0, "0"):
                self._bad_index(subscript)
                return None
            return variable.value
        if name in self.state.unset:
            return None
        if name in self.known:
            return text_value(self.known[name])
        if name == "IFS":
            return text_value(" \t\n")
        if name == "OPTIND":
            return text_value("1")
        if name in _MACHINE:
            return unknowable(f"unset variable {name}")
        if self.state.sourced:
            return unknowable("sourced file")
        self._bad_index(subscript)
        return (Piece("", None, f"unset variable {name}", True),)

    def value_of(self, name: str, subscript: str | None = None) -> Value | None:
        """The value of a variable, or of one of its elements; None: it has none."""
        if name.isdigit():
            return self._special(name)
        if subscript is None:
            return self._lookup(name, None)
        variable = self.state.variables.get(self.meant(name)) or Variable()
        if subscript in ("@", "*") and variable.elements is not None and not variable.is_map:
            return next(iter(variable.elements.values()), None)
        try:
            key = self._key((syntax.Literal(subscript, range(len(subscript)), quoted=True),), is_map=variable.is_map)
        except Skip:
            key = None
        return unknowable("an index") if key is None else self._lookup(name, key)

    def forget(self, name: str) -> None:
        """Take a variable away."""
        self.state.variables.pop(name, None)
        self.state.unset.add(name)
        self.state.environment = None
        if name == "IFS":
            self._note_ifs()

    def set_list(self, name: str, elements: Sequence[Value]) -> None:
        """Give a variable a list."""
        old = self.state.variables.get(name) or Variable(is_exported="a" in self.state.options)
        self.spend(len(elements))
        self.state.variables[name] = replace(old, value=None, elements=dict(enumerate(elements)))
        self.state.unset.discard(name)
        self.state.environment = None

    def set_element(self, name: str, subscript: str, value: Value) -> None:
        """Give an element of a list a value."""
        key = (syntax.Literal(subscript, range(len(subscript)), quoted=True),)
        word = syntax.WordNode((), 0, 0, "")
        self._set_element(syntax.AssignmentNode(name, key, False, word, None, 0, 0), value)

    def _bad_index(self, index: str | int | None) -> None:
        """An index before the beginning is an error: under `set -e` it ends the script."""
        if isinstance(index, int) and index < 0:
            self._failed = True
            if "e" in self.state.options:
                raise Stop

    def _special(self, name: str) -> Value | None:
        positional = self.state.positional
        if name == "#":
            if positional and (many := next((value for value in positional if is_several(value)), None)):
                return _counted(positional, many)
            return text_value(str(len(positional or ())), outside=positional is None)
        if name == "0":
            return self.state.name or unknowable("the name of the script")
        if name.isdigit():
            number = int(name) if len(name) < 8 else 10_000_000
            if positional is None:
                return (Piece("", None, f"unset variable {name}", True),)
            if many := next((value for value in positional[:number] if is_several(value)), None):
                left = supposed(positional)
                if left is None:
                    return unknowable(reason(many))
                return left[number - 1] if number <= len(left) else (Piece("", None, reason(many), True),)
            return positional[number - 1] if number <= len(positional) else None
        if name == "?":
            if self.status.code is None:
                return unknowable("the result of a command")
            return text_value(str(self.status.code), outside=self.status.origin != "certain")
        if name == "!":
            self.waited()
            return unknowable("a process id")
        return unknowable("a process id" if name == "$" else "options of the shell")

    def _list(self, part: syntax.Parameter) -> list[Value] | None:
        """The elements that `$@`, `$*`, `${X[@]}` and `${X[*]}` stand for; None: it is no list."""
        if part.name in ("@", "*") and part.subscript is None:
            return list(self.state.positional or ())
        if not list_sign(part.subscript):
            return None
        variable = self.state.variables.get(part.name)
        if variable is not None and variable.elements is not None:
            if variable.is_map:
                return [value for _, value in variable.elements.items()]
            return [variable.elements[key] for key in sorted(variable.elements, key=lambda k: (isinstance(k, str), k))]
        value = self._lookup(part.name, None)
        return [] if value is None or (is_unset(value) and not self.state.sourced) else [value]

    def _fields(
        self, node: syntax.WordNode, *, assigns: bool = False, is_named: bool = True
    ) -> tuple[list[Field], frozenset[str]]:
        """The arguments that a word makes, and what is expanded in it."""
        expands: set[str] = set()
        words = [node.parts]
        if has_braces(node.parts):
            words = expand_braces(node.parts, MOST_WORDS - self._words)
            if words[0] is not node.parts:
                expands.add("brace")
        fields: list[Field] = []
        for parts in words:
            splitter = Splitter(self.state.ifs, reason(self._lookup("IFS", None) or ()))
            # What braces make is an ordinary word, whatever it looks like.
            is_whole = "brace" not in expands
            self._expand(parts, splitter, expands, assigns=assigns and is_whole, is_named=is_named and is_whole)
            fields += splitter.finished()
        if any(has_glob(item) for item in fields):
            expands.add("glob")
            if "nullglob" in self.state.options and "f" not in self.state.options:
                fields = [item for item in fields if not has_glob(item)]
        return fields, frozenset(expands)

    def one(self, parts: syntax.Parts, *, assigns: bool = False) -> Value:
        """The value of a word that is not split."""
        splitter = Splitter("")
        self._expand(parts, splitter, set(), assigns=assigns, splits=False)
        pieces = [piece for item in splitter.all_fields() for piece in item.pieces]
        self._doubt = next((piece.why for piece in pieces if piece.text is None), self._doubt)
        return tuple(piece._replace(quoted=False) for piece in glued(pieces))

    def _pieces(self, parts: syntax.Parts) -> list[Piece]:
        """The pieces of a word that is not split: which are quoted counts in a pattern."""
        splitter = Splitter("")
        self._expand(parts, splitter, set(), splits=False)
        return [piece for item in splitter.all_fields() for piece in item.pieces]

    def _pattern(self, parts: syntax.Parts, *, is_tested: bool = False, ignores_case: bool = True) -> Pattern | None:
        """A pattern; None where it cannot be known. In `[[ ]]` (`is_tested`) it may hold groups, as if by `extglob`.

        What is cut off or changed in case (not `ignores_case`) no option makes ignore it.
        """
        signs: list[tuple[str, bool]] = []
        for piece in self._pieces(parts):
            if piece.text is None:
                return None
            signs += [(sign, piece.quoted) for sign in piece.text]
        self.spend(len(signs))
        takes_groups = is_tested or "extglob" in self.state.options
        return Pattern(signs, ignores_case=self.ignores_case and ignores_case, takes_groups=takes_groups)

    @property
    def ignores_case(self) -> bool:
        return "nocasematch" in self.state.options

    def _expand(
        self, parts: syntax.Parts, out: Splitter, expands: set[str], *, assigns: bool = False, splits: bool = True,
        is_named: bool = False,
    ) -> None:  # fmt: skip
        """Put the pieces of a word into the splitter."""
        for index, part in enumerate(parts):
            match part:
                case syntax.Literal(text, at, quoted):
                    if self.signs and not text.isascii() and not self.signs.keys().isdisjoint(text):
                        self._put_signs(part, out)
                    elif not quoted and "~" in text:
                        self._tilde(part, parts, index, out, expands, assigns=assigns, is_named=is_named)
                    else:
                        out.literal(Piece(text, at, quoted=quoted))
                    self.spend(len(text) // 8)
                case syntax.Parameter():
                    if not part.quoted:
                        expands.add("parameter")
                    self._is_alone = len(parts) == 1
                    self._parameter(part, out, expands, splits=splits)
                case syntax.Substitution():
                    if not part.quoted:
                        expands.add("command")
                    value = self.substituted(part.script)
                    if part.is_file:
                        out.literal(Piece(None, None, "process substitution", quoted=True))
                    elif reason(value):
                        why = "command substitution"
                        out.literal(Piece(None, None, why, quoted=part.quoted), many=splits and not part.quoted)
                    else:
                        self._put_value(value, out, quoted=part.quoted, splits=splits)
                case syntax.Arithmetic():
                    if not part.quoted:
                        expands.add("parameter")
                    number, outside = self._calculate(part.parts)
                    piece = Piece(None if number is None else str(number), None, self._arithmetic_why, outside)
                    self._put_value((piece,), out, quoted=part.quoted, splits=splits)

    def _signed(self, value: Value) -> Value:
        """The text of a script, with a sign for each part of it that cannot be known."""
        pieces: list[Piece] = []
        for piece in value:
            if piece.why == "\0many":
                continue
            if piece.text is None or piece.why:
                sign = chr(_FIRST_SIGN + len(self.signs) % _MOST_SIGNS)
                self.signs[sign] = piece
                pieces.append(Piece(sign))
            else:
                pieces.append(piece)
        return tuple(pieces)

    def _put_signs(self, part: syntax.Literal, out: Splitter) -> None:
        """Text of a nested script in which signs stand for what cannot be known."""
        place = 0
        for index, sign in enumerate(part.text):
            if sign not in self.signs:
                continue
            if place < index:
                out.literal(Piece(part.text[place:index], part.at[place:index], quoted=part.quoted))
            self._put_value((self.signs[sign],), out, quoted=part.quoted, splits=True)
            place = index + 1
        if place < len(part.text):
            out.literal(Piece(part.text[place:], part.at[place:], quoted=part.quoted))

    def _put_value(self, value: Value, out: Splitter, *, quoted: bool, splits: bool) -> None:
        """What an expansion gives: split, unless it is quoted or an assignment."""
        if quoted and not value:
            out.literal(Piece("", quoted=True))
        for piece in value:
            if quoted or not splits:
                out.literal(piece._replace(quoted=quoted))
            else:
                out.expansion(piece)

    def _tilde(
        self, part: syntax.Literal, parts: syntax.Parts, index: int, out: Splitter, expands: set[str], *, assigns: bool,
        is_named: bool = False,
    ) -> None:  # fmt: skip
        text, at = part.text, part.at
        starts = [0] if index == 0 and text.startswith("~") else []
        if assigns:
            starts += [found.end() - 1 for found in re.finditer(r":~", text)]
        head = parts[0]
        named = (
            re.match(r"[A-Za-z_]\w*\+?=", head.text, re.ASCII)
            if isinstance(head, syntax.Literal) and not head.quoted
            else None
        )
        if named and is_named and not assigns:
            starts += [named.end()] if index == 0 and text.startswith("~", named.end()) else []
            starts += [found.end() - 1 for found in re.finditer(r":~", text)]
            assigns = True
        place = 0
        for start in sorted(set(starts)):
            found = re.compile(r"~[^/:]*" if assigns or start else r"~[^/]*").match(text, start)
            end = found.end() if found else start
            reaches_on = end == len(text) and index + 1 < len(parts)
            if reaches_on or start < place:
                continue
            if place < start:
                out.literal(Piece(text[place:start], at[place:start]))
            expands.add("tilde")
            if text[start:end] == "~":
                home = self._lookup("HOME", None)
            elif text[start:end] in ("~+", "~-"):
                home = unknowable("unset variable PWD")
            else:
                home = (Piece(text[start:end], at[start:end]),)
            for piece in home or unknowable("unset variable HOME"):
                out.literal(piece._replace(quoted=True))
            place = end
        if place < len(text):
            out.literal(Piece(text[place:], at[place:]))

    def _parameter(self, part: syntax.Parameter, out: Splitter, expands: set[str], *, splits: bool) -> None:
        if part.operator == "bad":
            raise self._refusal()
        part = part._replace(name=self.meant(part.name))
        if part.is_indirect:
            self._indirect(part, out, expands, splits=splits)
            return
        elements = self._list(part)
        if elements is not None and not part.is_length:
            self._put_list(part, elements, out, expands, splits=splits)
            return
        if part.is_length:
            value = self._length(part, elements)
        else:
            subscript: str | int | None = None
            if part.subscript is not None:
                variable = self.state.variables.get(part.name)
                subscript = self._key(part.subscript, is_map=bool(variable and variable.is_map))
                if subscript is None:
                    self._put(unknowable("an index"), part, out, splits=splits)
                    return
            special = part.name[0].isdigit() or part.name in "#?$!-"
            found = self._special(part.name) if special else self._lookup(part.name, subscript)
            if self._substitute(part, found, out, expands, splits=splits):
                return
            value = self._applied(part, found)
            if part.operator and part.operator not in DEFAULTS and (part.operator[0] not in "#%" or plain(found or ())):
                # Nothing that is left of a value is an argument even beside a list.
                part = part._replace(is_beside_list=False)
        self._put(value, part, out, splits=splits)

    def _put(self, value: Value, part: syntax.Parameter, out: Splitter, *, splits: bool) -> None:
        self.spend(sum(len(piece.text or "") for piece in value) // 8 + len(value))
        many = is_several(value)
        if part.quoted or not splits:
            # Nothing is no argument beside a list, nor where it stands for elements that vanish.
            vanishes = is_unset(value) if part.is_beside_list else many and plain(value) == ""
            quoted = part.quoted and not vanishes
            for piece in value:
                if piece.why != "\0many":
                    out.literal(piece._replace(quoted=quoted), many=many)
            if part.quoted and not value and not part.is_beside_list:
                out.literal(Piece("", quoted=True))
            return
        for piece in value:
            if piece.why != "\0many":
                out.expansion(piece)

    def _put_list(
        self, part: syntax.Parameter, elements: list[Value], out: Splitter, expands: set[str], *, splits: bool,
        joins_keys: bool = False,
    ) -> None:  # fmt: skip
        """The elements of a list, each an argument of its own, or joined."""
        is_star = part.name == "*" if part.subscript is None else list_sign(part.subscript) == "*"
        if part.operator in DEFAULTS:
            value: Value | None = None
            if elements:
                value = tuple(piece for element in elements for piece in element)
                sure = sum(not is_several(element) for element in elements)
                if not plain(value) and (sure > 1 or (sure and not splits and not part.quoted)):
                    value = (Piece(" "),)  # several empty ones are something
            elif part.subscript is None and self.state.positional is None:
                value = (Piece("", None, f"unset variable {part.name}", True),)
            if self._substitute(part, value, out, expands, splits=splits):
                return
        elif part.operator == ":":
            elements = self._sliced(part, elements)
        elif part.operator:
            elements = [self._applied(part, element) for element in elements]
        if any(is_several(element) for element in elements):
            expands.add("parameter")
            if not self._is_alone:
                elements = _with_doubtful_ends(elements)
        ifs = self.state.ifs
        if (is_star and part.quoted) or not splits:
            # In an assignment only what is cut or replaced in it makes a quoted `[@]` join as `[*]` does.
            operates = part.operator and part.operator not in DEFAULTS
            joins = is_star or part.operator[:1] in ("#", "%") or (part.quoted and (joins_keys or operates))
            glue = " " if ifs is None or not joins else ifs[:1] or " " * (not is_star)
            part = part._replace(is_beside_list=False)
            for index, element in enumerate(elements):
                if index:
                    out.literal(Piece(glue, quoted=part.quoted))
                self._put(element, part, out, splits=False)
            if part.quoted and (not elements or not splits):
                out.literal(Piece("", quoted=True))
            return
        part = part._replace(is_beside_list=False)
        for index, element in enumerate(elements):
            if index:
                if part.quoted:
                    out.close()
                else:
                    out.cut()
            self._put(element, part, out, splits=True)

    def _sliced(self, part: syntax.Parameter, elements: list[Value]) -> list[Value]:
        numbers = [self._calculate(argument)[0] for argument in part.arguments]
        if None in numbers:
            return [(*unknowable("an index"), Piece("", None, "\0many"))]
        doubt = next((element for element in elements if is_several(element)), None)
        left = supposed(elements)
        if left is None:
            return [(*unknowable(reason(doubt or ())), Piece("", None, "\0many"))]
        start, elements = numbers[0] or 0, left
        keys: Sequence[int | str] = range(len(elements))
        if part.subscript is None:
            elements = [self._special("0") or (), *elements]
            keys = range(len(elements))
        elif doubt:
            pass
        elif (variable := self.state.variables.get(part.name)) and variable.elements and not variable.is_map:
            keys = sorted(variable.elements, key=lambda key: (isinstance(key, str), key))
        last = keys[-1] if keys else -1
        if start < 0:
            start += (last if isinstance(last, int) else len(keys) - 1) + 1
            if start < 0:
                return []
        start = sum(1 for key in keys if isinstance(key, int) and key < start)
        if len(numbers) == 1:
            return elements[start:]
        count = numbers[1] or 0
        if count < 0:
            raise Skip
        return elements[start : start + count]

    def _length(self, part: syntax.Parameter, elements: list[Value] | None) -> Value:
        if elements is not None:
            if many := next((element for element in elements if is_several(element)), None):
                return _counted(elements, many)
            outside = part.subscript is None and self.state.positional is None
            return text_value(str(len(elements)), outside=outside)
        subscript = None
        if part.subscript is not None:
            variable = self.state.variables.get(part.name)
            subscript = self._key(part.subscript, is_map=bool(variable and variable.is_map))
        special = part.name[0].isdigit() or part.name in "#?$!-"
        value = self._special(part.name) if special else self._lookup(part.name, subscript)
        text = plain(value or ())
        if "u" in self.state.options and (value is None or is_unset(value)):
            if value is None:
                raise Stop
            self.reached = False
        if text is None:
            return unknowable(reason(value or ()))
        return (Piece(str(len(text)), None, reason(value or ()), is_outside(value or ())),)

    def _substitute(
        self, part: syntax.Parameter, value: Value | None, out: Splitter, expands: set[str], *, splits: bool
    ) -> bool:
        """`${X:-d}` and its like; whether something was put in place of the value."""
        operator = part.operator
        if operator not in DEFAULTS:
            return False
        text = plain(value) if value is not None else ""
        is_absent = value is None or is_unset(value)
        outside = value is not None and is_outside(value)
        if (
            text is None
            and not any(piece.text for piece in value or ())
            and (operator[0] == ":" or is_several(value or ()))
        ):
            self._untaken_argument(part)
            many = [piece for piece in value or () if piece.why == "\0many"]
            self._put((*unknowable(reason(value or ())), *many[:1]), part, out, splits=splits)
            return True
        is_missing = is_absent or (operator[0] == ":" and text == "")
        if operator[-1] == "+":
            is_missing = not is_missing
        if not is_missing:
            if operator[-1] == "+":
                if outside:
                    self._untaken_argument(part)
                if (
                    part.quoted and not part.is_beside_list and not list_sign(part.subscript) and part.name != "@"
                ) or outside:
                    piece = Piece("", None, "", outside, quoted=part.quoted and not part.is_beside_list)
                    out.literal(piece) if part.quoted else out.expansion(piece)
                return True
            return False
        if operator[-1] == "?":
            if outside and not self._rounds:
                self.reached = False
                self._put((Piece("", None, f"unset variable {part.name}", True),), part, out, splits=splits)
                return True
            raise Stop
        (argument,) = part.arguments
        if operator[-1] == "=":
            assigned = self.one(argument)
            if outside:
                assigned = tuple(piece._replace(outside=True) for piece in assigned)
            self.assign(part.name, assigned)
            self._put(assigned, part, out, splits=splits)
            return True
        if part.quoted and not argument and not part.is_beside_list:
            out.literal(Piece("", None, "", outside, quoted=True))
        self._expand_argument(argument, part, out, expands, splits=splits, outside=outside)
        return True

    def _expand_argument(
        self, argument: syntax.Parts, part: syntax.Parameter, out: Splitter, expands: set[str], *, splits: bool,
        outside: bool,
    ) -> None:  # fmt: skip
        """The word of `${X:-word}`: its literal text is split as well, where the whole is not quoted."""
        if outside:
            absent = Piece("", None, "", True, quoted=part.quoted and not part.is_beside_list)
            out.literal(absent) if part.quoted else out.expansion(absent)
        is_beside = part.quoted and part.is_beside_list
        for index, piece in enumerate(argument):
            if not isinstance(piece, syntax.Literal) or not splits or not self.signs.keys().isdisjoint(piece.text):
                inner = (
                    piece._replace(is_beside_list=True) if is_beside and isinstance(piece, syntax.Parameter) else piece
                )
                self._expand((inner,), out, expands, splits=splits)
            elif piece.quoted or part.quoted:
                # In the same quotes as a list bash cuts a default at escaped separators.
                cuts = is_beside and _is_escape(argument, index - 1) and piece.text[:1] in (self.state.ifs or " ")
                if cuts:
                    out.close()
                if piece.text[cuts:]:
                    out.literal(Piece(piece.text[cuts:], piece.at[cuts:], quoted=True))
            elif index == 0 and piece.text.startswith("~"):
                self._tilde(piece, argument, 0, out, expands, assigns=False)
            else:
                out.expansion(Piece(piece.text, piece.at, "", outside))

    def _commands_in(self, parts: syntax.Parts) -> None:
        """Run the commands that stand in a word."""
        if any(isinstance(part, syntax.Substitution) for part in parts):
            self.one(parts)

    def _untaken_argument(self, part: syntax.Parameter) -> None:
        for argument in part.arguments:
            if any(isinstance(piece, syntax.Substitution) for piece in argument):
                self.untaken(partial(self._commands_in, argument))

    def _applied(self, part: syntax.Parameter, value: Value | None) -> Value:
        """The value after an operator that cuts or replaces."""
        operator = part.operator
        if value is None:
            if "u" in self.state.options and operator not in DEFAULTS and part.name not in ("@", "*"):
                raise Stop
            return ()
        if "u" in self.state.options and is_unset(value) and operator not in DEFAULTS:
            self.reached = False
        if not operator or operator in DEFAULTS:
            return value
        text, why = plain(value), reason(value)
        if text is None or is_unset(value) or is_several(value):
            for argument in part.arguments:
                self._commands_in(argument)
            if is_unset(value):
                return value
            return (*unknowable(why), *(value[-1:] if is_several(value) else ()))
        if why:
            # It rests on a variable that nothing sets: what it then is serves conditions.
            known = tuple(piece._replace(why="") for piece in value)
            return (*self._operated(part, known, text), Piece("", None, why, True))
        return self._operated(part, value, text)

    def _operated(self, part: syntax.Parameter, value: Value, text: str) -> Value:
        """A value that is known after an operator."""
        operator = part.operator
        if operator == ":":
            return self._substring(part, value, text)
        if operator in ("^", "^^", ",", ",,"):
            pattern = self._pattern(part.arguments[0], ignores_case=False)
            if pattern is None:
                return unknowable("a pattern")
            return self._recased(operator, pattern if part.arguments[0] else None, value)
        if operator in _TRANSFORMS:
            return self._recased(_TRANSFORMS[operator], None, value)
        if operator == "@Q":
            return text_value(single_quoted(text))
        if operator[0] in "@*":
            return unknowable(f"${{{part.name}{operator}}}")
        pattern = self._pattern(part.arguments[0], ignores_case=operator[0] not in "#%")
        if pattern is None:
            return unknowable("a pattern")
        self.spend(pattern.work(text))
        if operator in ("#", "##"):
            lengths = pattern.prefixes(text)
            return cut_value(value, (lengths[0] if operator == "#" else lengths[-1]) if lengths else 0, len(text))
        if operator in ("%", "%%"):
            lengths = pattern.prefixes(text, backwards=True)
            return cut_value(value, 0, len(text) - ((lengths[0] if operator == "%" else lengths[-1]) if lengths else 0))
        return self._replaced(part, pattern, value, text)

    def _recased(self, operator: str, pattern: Pattern | None, value: Value) -> Value:
        case = "u" if operator[0] == "^" else "l"
        pieces, first = [], True
        for piece in value:
            signs = []
            for sign in piece.text or "":
                fits = (first or len(operator) == 2) and (pattern is None or pattern.matches(sign))
                changed = (sign.upper() if case == "u" else sign.lower()) if fits else sign
                signs.append(changed if len(changed) == 1 else sign)
                first = False
            self.spend(len(signs) * 4)
            pieces.append(piece._replace(text="".join(signs)))
        return tuple(pieces)

    def _replaced(self, part: syntax.Parameter, pattern: Pattern, value: Value, text: str) -> Value:
        given = self._pieces(part.arguments[1]) if len(part.arguments) > 1 else []
        if plain(tuple(given)) is None:
            return unknowable(reason(given))

        def replacement(start: int, end: int) -> Value:
            """What is put in place of a stretch: a `&` that is not quoted stands for it."""
            made: list[Piece] = []
            for piece in given:
                place = 0
                for sign in () if piece.quoted else re.finditer(r"\\?&", piece.text or ""):
                    made += cut_value((piece,), place, sign.start())
                    made += cut_value(value, start, end) if len(sign[0]) == 1 else (Piece("&"),)
                    place = sign.end()
                made += cut_value((piece,), place, len(piece.text or "")) if place else (piece,)
            self.spend(sum(1 + len(piece.text or "") for piece in made))
            return tuple(piece._replace(quoted=False) for piece in made)

        operator = part.operator
        pieces: list[Piece] = []
        if not part.arguments[0] and operator in ("/", "//"):
            return value
        if operator in ("/#", "/%"):
            lengths = pattern.prefixes(text, backwards=operator == "/%")
            if not lengths:
                return value
            size = lengths[-1]
            if operator == "/#":
                return (*replacement(0, size), *cut_value(value, size, len(text)))
            return (*cut_value(value, 0, len(text) - size), *replacement(len(text) - size, len(text)))
        place = last = 0
        while place < len(text):
            if pattern.is_literal:
                found = text.find(pattern.text, place)
                if found < 0 or not pattern.text:
                    break
                place, length = found, len(pattern.text)
            else:
                window = text[place:]
                self.spend(pattern.work(window))
                lengths = pattern.prefixes(window)
                length = lengths[-1] if lengths else 0
                if not length:
                    place += 1
                    continue
            pieces += [*cut_value(value, last, place), *replacement(place, place + length)]
            self.spend(len(value))
            place = last = place + length
            if operator == "/":
                break
        return glued([*pieces, *cut_value(value, last, len(text))])

    def _substring(self, part: syntax.Parameter, value: Value, text: str) -> Value:
        numbers = [self._calculate(argument)[0] for argument in part.arguments]
        if None in numbers:
            return unknowable("an index")
        start = numbers[0] or 0
        start = start + len(text) if start < 0 else start
        if start < 0 or start > len(text):
            return ()
        end = len(text)
        if len(numbers) > 1:
            length = numbers[1] or 0
            end = len(text) + length if length < 0 else start + length
            if end < start:
                raise Skip
        return cut_value(value, start, end)

    def _indirect(self, part: syntax.Parameter, out: Splitter, expands: set[str], *, splits: bool) -> None:
        """`${!X}`, `${!X[@]}` and `${!X*}`."""
        if list_sign(part.subscript):
            variable = self.state.variables.get(part.name)
            keys: list[int | str] = list(variable.elements or ()) if variable and variable.elements is not None else []
            if variable and variable.elements is None and variable.value is not None:
                keys = [0]
            keys = (
                keys
                if variable and variable.is_map
                else sorted(keys, key=str if not all(isinstance(k, int) for k in keys) else None)
            )
            if (
                variable
                and variable.elements is not None
                and any(is_several(value) for value in variable.elements.values())
            ):
                self._put((*unknowable("unset variable"), Piece("", None, "\0many")), part, out, splits=splits)
                return
            self._put_list(
                part._replace(is_indirect=False),
                [text_value(str(key)) for key in keys],
                out,
                expands,
                splits=splits,
                joins_keys=True,
            )
            return
        if part.operator in ("*", "@"):
            names = sorted(name for name in self.state.variables if name.startswith(part.name))
            listed = part._replace(name=part.operator, operator="", is_indirect=False)
            self._put_list(listed, [text_value(name) for name in names], out, expands, splits=splits)
            return
        value = (
            self._special(part.name)
            if part.name[0].isdigit() or part.name in "#?$!-"
            else self._lookup(part.name, None)
        )
        name = plain(value or ())
        if value is None or name is None or reason(value):
            self._put(unknowable(reason(value or ()) or "an indirect variable"), part, out, splits=splits)
            return
        found = re.fullmatch(r"([A-Za-z_]\w*|[0-9]+|[@*])(?:\[(\w+|[@*])\])?", name, re.ASCII)
        if not found:
            raise Stop
        subscript = None
        if found[2]:
            subscript = (syntax.Literal(found[2], [0] * len(found[2]), quoted=False),)
        self._parameter(
            part._replace(name=found[1], subscript=subscript, is_indirect=False), out, expands, splits=splits
        )

    # Arithmetic

    def calculator(self, text: str) -> Calculator:
        self.spend(len(text))
        self.arithmetic_outside, self._arithmetic_why = False, ""

        def get(name: str, subscript: str) -> str | None:
            key: str | int | None = None
            if subscript:
                variable = self.state.variables.get(name)
                key = subscript if variable and variable.is_map else self.calculator(subscript).value()
            value = self._lookup(name, key)
            self.arithmetic_outside |= is_outside(value or ())
            if value is not None and reason(value):
                self._arithmetic_why = reason(value)
                if is_unset(value) and "u" in self.state.options:
                    self.reached = False
            return plain(value or ())

        def put(name: str, subscript: str, number: int | None) -> None:
            text = None if number is None else str(number)
            value = (Piece(text, None, self._arithmetic_why, self.arithmetic_outside),)
            if not subscript:
                self.assign(name, value)
                return
            old = self.state.variables.get(name) or Variable()
            key: str | int | None = subscript if old.is_map else self.calculator(subscript).value()
            if key is not None:
                self.state.variables[name] = replace(old, elements={**(old.elements or {}), key: value})

        return Calculator(text, get, put)

    _is_alone = True
    arithmetic_outside = False
    _arithmetic_why = ""

    def _calculate(self, parts: syntax.Parts, *, is_fatal: bool = True) -> tuple[int | None, bool]:
        """The value of an arithmetic expression, and whether it rests on what is outside.

        Raises Skip where it cannot be read, unless that may be for want of a variable and would be fatal.
        """
        value = self.one(parts)
        text = plain(value)
        if text is None:
            self._arithmetic_why = reason(value)
            return None, False
        number: int | None = None
        outside = is_outside(value)
        try:
            number = self.calculator(text).value()
        except Unreadable:
            self.arithmetic_outside |= outside
            if not is_fatal or not self.arithmetic_outside:
                raise Skip from None
            # Bash leaves out the rest of the line, for want of a variable: it is read all the same.
            self._lost, self.reached = self._lost or self.copied(), False
        self._arithmetic_why = self._arithmetic_why or reason(value)
        return number, outside or self.arithmetic_outside


def _counted(elements: Sequence[Value], doubt: Value) -> Value:
    """The number of elements of a list that may be shorter or longer than it looks."""
    left = supposed(elements)
    return unknowable(reason(doubt)) if left is None else (Piece(str(len(left)), None, reason(doubt), True),)


def _counts(node: syntax.AssignmentNode) -> bool:
    """Whether the place in a list that is assigned is the number of its elements: `L[${#L[@]}]=x` adds one."""
    (part,) = node.subscript if node.subscript and len(node.subscript) == 1 else (None,)
    if not isinstance(part, syntax.Parameter) or not part.is_length:
        return False
    return part.name == node.name and bool(list_sign(part.subscript))


def _is_escape(parts: syntax.Parts, index: int) -> bool:
    """Whether a backslash stands here in double quotes that escapes what follows, though it is kept."""
    part = parts[index] if index >= 0 else None
    before = parts[index - 1] if index > 0 else None
    is_escaped = (
        isinstance(part, syntax.Literal)
        and isinstance(before, syntax.Literal)
        and (bool(before.at) and before.at[-1] + 1 != part.at[0])
    )
    return isinstance(part, syntax.Literal) and part.quoted and part.text == "\\" and not is_escaped


def _with_doubtful_ends(elements: Sequence[Value]) -> list[Value]:
    """The elements of a list, where something else is glued to the first and to the last one, whichever these are.

    What vanishes for want of a variable is neither, but it makes its neighbour doubtful, as what cannot be known does.
    """
    made = list(elements)
    for end in (0, -1):
        kept: list[Value] = []
        doubt: Value = ()
        while made:
            element = made.pop(end)
            if is_several(element):
                doubt = (*doubt, *element[:-1])
                kept += [element] if plain(element) != "" else []
                continue
            kept.append((*element, *doubt))
            if plain(element) != "":
                break
        made = [*kept, *made] if end == 0 else [*made, *reversed(kept)]
    return made or [(*unknowable(reason(elements[0])), Piece("", None, "\0many"))]
