"""What bash would run of a script, word by word, worked out from its tree; nothing is executed.

The premise: the script runs without arguments, with nothing set from outside that it does not set itself, and the
programs that it calls succeed. What also depends on something else (a variable from outside, a program's answer, a
file) is marked, and both sides of a condition on it are read. Rounds, words and text are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from vllm_runbooks import shell_syntax as syntax
from vllm_runbooks.excerpt import Excerpt
from vllm_runbooks.shell_expansion import Calculator, Pattern, TooMuch, Unreadable, expand_braces, has_braces

MOST_ROUNDS = 1_000
"""Rounds of one loop that are followed."""
MOST_WORDS = 100_000
"""Words of all commands together."""
MOST_STEPS = 50_000
"""Simple commands that are followed, rounds and calls included."""
_MOST_TEXT = 1 << 20
"""Characters of one value."""
_MOST_WORK = 20_000_000
"""Characters and variables copied, and signs matched, in all: some seconds."""
_MOST_NESTED = 40
"""Calls and compound commands in each other that are followed."""
_MACHINE = frozenset(
    "HOME PWD OLDPWD USER LOGNAME HOSTNAME PATH SHELL SHLVL UID EUID PPID RANDOM SRANDOM SECONDS LINENO BASH BASHPID "
    "BASH_SOURCE BASH_VERSION BASH_VERSINFO BASHOPTS SHELLOPTS BASH_LINENO BASH_COMMAND FUNCNAME HOSTTYPE MACHTYPE "
    "OSTYPE EPOCHSECONDS EPOCHREALTIME GROUPS TERM LANG TMPDIR DIRSTACK PIPESTATUS _ COLUMNS LINES".split()
)
"""Variables that are set on every machine, to what cannot be known."""
_ANSWERS = frozenset(
    "grep egrep fgrep rg ag pgrep pidof diff cmp which ping nc ncat curl wget lsof expr mountpoint getent host dig jq "
    "id ss netstat fuser systemctl service git awk sed find flock".split()
)
"""Programs whose exit status answers a question: neither answer is assumed."""
_NOT_FOUND = 127
_HARMLESS_SOURCES = re.compile(
    r"(?:^|/)(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile|\.zshrc|profile|bashrc)$"
)
"""Files that set up a shell, and leave the variables of a script alone."""
_DEFAULTS = frozenset({"-", ":-", "+", ":+", "=", ":=", "?", ":?"})
"""Operators of `${X:-d}` that put something in place of a value."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Word:
    """An argument as a program gets it. `value` is None where it cannot be known, `why` says why."""

    value: str | None
    start: int
    end: int
    raw: str
    why: str = ""
    at: Sequence[int] | None = None
    """Offset in the file of each character of the value; None where some do not stand in the file."""
    expands: frozenset[str] = frozenset()
    """What of "glob", "brace", "tilde", "parameter" and "command" stands in it unquoted."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The value with its places in the file, where it has them."""
        if self.value is None or self.at is None:
            return None
        return Excerpt(self.value, [*self.at, self.at[-1] + 1 if self.at else self.end])


@dataclass(frozen=True)
class Assignment:
    """`NAME=value`, or `export NAME` of a value given before."""

    name: str
    value: Word
    start: int
    end: int
    exported: bool


@dataclass(frozen=True)
class Invocation:
    """A command that bash runs, or would run; its words as the program gets them, the program's name first."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    """`NAME=value` before the command."""
    environment: Mapping[str, str | None]
    """What the script itself exports, with the assignments before the command; None: cannot be known."""
    start: int
    end: int
    is_background: bool = False
    is_waited: bool = False
    """Whether the script later waits for what it started in the background, or uses its process id or a trap."""
    is_conditional: bool = False
    """Whether it runs depends on what the script does not say."""
    is_reached: bool = True
    """Whether bash comes here when nothing is set from outside and programs succeed."""
    is_nested: bool = False
    """It stands in a command substitution."""
    round: tuple[tuple[str, str], ...] = ()
    """The variables of the loops around it, in this round."""
    documents: tuple[Excerpt, ...] = ()
    """Here-documents given to it, as written."""


class Piece(NamedTuple):
    """Part of a value: text, its places, and what is not known of it."""

    text: str | None
    at: Sequence[int] | None = None
    why: str = ""
    outside: bool = False
    quoted: bool = False


Value = tuple[Piece, ...]


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
    count: int = 1


_SUCCESS, _FAILURE = Status(0), Status(1)


class _Stop(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash leave the script; not certain where it depends on what is outside."""


class _Skip(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash leave out the command."""


@dataclass(frozen=True)
class _Variable:
    value: Value | None = None
    elements: dict[int | str, Value] | None = None
    is_map: bool = False
    is_exported: bool = False
    is_integer: bool = False
    case: str = ""
    owner: object = None
    """The state whose own the elements are: while it is not copied, they may be changed in place."""


@dataclass
class _State:
    """Everything that a subshell has a copy of."""

    variables: dict[str, _Variable] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, syntax.Command] = field(default_factory=dict)
    positional: list[Value] | None = None
    options: frozenset[str] = frozenset()
    sourced: bool = False
    environment: Mapping[str, str | None] | None = None
    started: bool = False
    ifs: str | None = " \t\n"
    owner: object = field(default_factory=object)

    def copy(self) -> _State:
        self.owner = object()
        return replace(
            self, variables=dict(self.variables), unset=set(self.unset), functions=dict(self.functions),
            positional=None if self.positional is None else list(self.positional),
        )  # fmt: skip


def plain(value: Value) -> str | None:
    """The text of a value; None where a part of it cannot be known."""
    texts = [piece.text for piece in value]
    return None if None in texts else "".join(text for text in texts if text is not None)


def _is_outside(value: Iterable[Piece]) -> bool:
    return any(piece.outside for piece in value)


def _why(value: Iterable[Piece]) -> str:
    return next((piece.why for piece in value if piece.why), "")


def _unknown(why: str) -> Value:
    return (Piece(None, None, why),)


def _text(text: str, *, outside: bool = False) -> Value:
    return (Piece(text, None, "", outside),) if text or outside else ()


def _cut(value: Value, start: int, end: int) -> Value:
    """The characters of a known value from one index to another."""
    pieces, place = [], 0
    for piece in value:
        text = piece.text or ""
        begin, stop = max(start - place, 0), min(end - place, len(text))
        if begin < stop:
            pieces.append(
                piece._replace(text=text[begin:stop], at=piece.at[begin:stop] if piece.at is not None else None)
            )
        place += len(text)
    return tuple(pieces)


def _after(value: Iterable[Piece], size: int) -> Value:
    """A value without so many known characters at its beginning."""
    pieces = []
    for piece in value:
        cut = min(size, len(piece.text or ""))
        size -= cut
        if piece.text is None or len(piece.text) > cut or (piece.why and not size):
            at = piece.at[cut:] if piece.at is not None else None
            pieces.append(piece._replace(text=None if piece.text is None else piece.text[cut:], at=at))
    return tuple(pieces)


class _Field:
    """One argument in the making."""

    __slots__ = ("is_many", "is_quoted", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.is_quoted = False
        self.is_many = False

    @property
    def is_absent(self) -> bool:
        """Whether it vanishes if nothing is set from outside."""
        return not self.is_quoted and all(piece.text == "" for piece in self.pieces)


class _Splitter:
    """Puts pieces together to fields, splitting those that are not quoted."""

    def __init__(self, ifs: str | None) -> None:
        self.ifs = ifs
        self.fields: list[_Field] = []
        self._current: _Field | None = None
        self._after_blank = False
        blanks = "".join(sign for sign in ifs or "" if sign in " \t\n")
        others = "".join(sign for sign in ifs or "" if sign not in " \t\n")
        tokens = [f"(?P<blank>[{re.escape(blanks)}]+)"] if blanks else []
        tokens += [f"(?P<other>[{re.escape(others)}])"] if others else []
        self._tokens = re.compile("|".join(tokens)) if tokens else None

    def _open(self) -> _Field:
        if self._current is None:
            self._current = _Field()
        self._after_blank = False
        return self._current

    def literal(self, piece: Piece, *, many: bool = False) -> None:
        """A piece that is not split."""
        current = self._open()
        current.pieces.append(piece)
        current.is_quoted |= piece.quoted
        current.is_many |= many

    def expansion(self, piece: Piece) -> None:
        """A piece that is split."""
        if piece.text is None or self.ifs is None:
            self.literal(piece if piece.text is None else Piece(None, None, "IFS is not known"), many=True)
            return
        if not piece.text:
            if piece.why or piece.outside:
                self._open().pieces.append(piece)
            return
        if self._tokens is None:
            self.literal(piece)
            return
        place = 0
        for found in self._tokens.finditer(piece.text):
            self._some(piece, place, found.start())
            place = found.end()
            if found.lastgroup == "blank":
                if self._current is not None and not self._empty():
                    self._close()
                    self._after_blank = True
            elif self._after_blank:
                self._after_blank = False
            else:
                self._open()
                self._close()
        self._some(piece, place, len(piece.text))

    def _empty(self) -> bool:
        current = self._current
        return current is None or (current.is_absent and not any(piece.why for piece in current.pieces))

    def _some(self, piece: Piece, start: int, end: int) -> None:
        if start < end:
            assert piece.text is not None
            at = piece.at[start:end] if piece.at is not None else None
            self._open().pieces.append(piece._replace(text=piece.text[start:end], at=at))

    def _close(self) -> None:
        if self._current is not None:
            self.fields.append(self._current)
        self._current = None

    def cut(self) -> None:
        """The end of one element of a list: what follows is another argument."""
        if self._current is not None and not self._empty():
            self._close()
        self._current = None
        self._after_blank = False

    def finished(self) -> list[_Field]:
        """The fields; empty ones that nothing quoted makes are none, unless a variable from outside may fill them."""
        if self._current is not None and not self._empty():
            self._close()
        return self.fields


@dataclass
class Result:
    """What running a script gives."""

    invocations: list[Invocation] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    too_much: tuple[str, int] | None = None


def run(tree: syntax.Syntax, known: Mapping[str, str]) -> Result:
    """Everything that bash runs of a script, and what stands behind the place where it gives up."""
    runner = _Runner(known)
    try:
        runner.script(tree.lines)
        if tree.rest:
            runner.reached = False
            runner.conditional += 1
            runner.script(tree.rest)
    except TooMuch:
        runner.result.too_much = ("steps", runner.place)
    except RecursionError:
        runner.result.too_much = ("nesting", runner.place)
    return runner.result


class _Runner:
    def __init__(self, known: Mapping[str, str]) -> None:
        self.result = Result()
        self.known = known
        self.state = _State()
        self.status = _SUCCESS
        self.reached = True
        self.conditional = 0
        self.place = 0
        self._depth = 0
        self._words = 0
        self._work = self._steps = 0
        self._tested = 0
        self._background = 0
        self._nested = 0
        self._rounds: list[tuple[str, str]] = []
        self._may_break = False
        self._calls: list[dict[str, _Variable | None]] = []
        self._traps: list[Value] = []
        self._waiting: list[int] = []
        self._is_trapped = False
        self._failed = self._lost = False
        self._doubt = ""

    # Bounds

    def _spend(self, amount: int) -> None:
        self._work += amount
        if self._work > _MOST_WORK:
            raise TooMuch

    def _copied(self) -> _State:
        self._spend(len(self.state.variables) + 1)
        return self.state.copy()

    # Lists

    def script(self, lines: Sequence[Sequence[syntax.Item]]) -> None:
        """A whole script, with what it does at its end."""
        self._lines(lines)
        for trap in self._traps[-1:]:
            self._caught(lambda: self._nested_script(trap, self.place))
        if self._is_trapped:
            self._wait()

    def _lines(self, lines: Sequence[Sequence[syntax.Item]]) -> Signal | None:
        """Lines as bash reads them: an error of expansion leaves out the rest of one."""
        for line in lines:
            reached = self.reached
            signal = self._caught(lambda line=line: self.items(line))  # type: ignore[misc]
            if self._lost:
                self._lost, self.reached = False, reached
            if signal and signal.kind != "skip":
                return signal
        return None

    def _caught(self, go: Callable[[], Signal | None]) -> Signal | None:
        """Run something; an error of expansion in it becomes a signal."""
        counts = self._depth, self._tested, self._background, self._nested, self.conditional, len(self._rounds)
        try:
            return go()
        except (_Skip, _Stop) as error:
            self._depth, self._tested, self._background, self._nested, self.conditional, rounds = counts
            del self._rounds[rounds:]
            self.status = _FAILURE
            return Signal("skip" if isinstance(error, _Skip) else "exit")

    def items(self, items: Sequence[syntax.Item]) -> Signal | None:
        """Commands one after the other; what ends them early."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise TooMuch
        signal = None
        for item in items:
            self.place = item.start
            if item.is_background:
                self._background += 1
                self._subshell(lambda item=item: self._and_or(item.pipelines))  # type: ignore[misc]
                self._background -= 1
                self.status = _SUCCESS
                self.state.started = True
                continue
            signal = self._and_or(item.pipelines)
            if signal:
                break
        self._depth -= 1
        return signal

    def _and_or(self, pipelines: Sequence[tuple[str, syntax.Pipeline]]) -> Signal | None:
        for index, (operator, pipeline) in enumerate(pipelines):
            tested = index + 1 < len(pipelines)
            if index == 0:
                signal = self._pipeline(pipeline, tested=tested)
            else:
                status = self.status

                def go(pipeline: syntax.Pipeline = pipeline, tested: bool = tested) -> Signal | None:  # noqa: FBT001
                    return self._pipeline(pipeline, tested=tested)

                if status.code is None:
                    signal = self._maybe(go, status.why)
                    self.status = status
                elif (status.code == 0) == (operator == "&&"):
                    signal = self._taken(go, status)
                else:
                    if status.origin != "certain":
                        self._untaken(go)
                    continue
            if signal:
                return signal
        return None

    def _taken(self, go: Callable[[], Signal | None], status: Status) -> Signal | None:
        """Run what a condition leads to. Where it ends the script for want of something, go on as if it were there."""
        if status.origin == "certain":
            return go()
        before = self._copied()
        self.conditional += 1
        signal = go()
        self.conditional -= 1
        if signal and signal.kind in ("exit", "return"):
            self.state = before
            self.reached = False
            return None
        return signal

    def _untaken(self, go: Callable[[], Signal | None]) -> None:
        """Read what bash would run under other circumstances, without effect."""
        before, status, reached, may_break = self._copied(), self.status, self.reached, self._may_break
        self.conditional += 1
        self.reached = False
        self._caught(go)
        self.conditional -= 1
        self.state, self.status, self.reached, self._may_break = before, status, reached, may_break

    def _maybe(self, go: Callable[[], Signal | None], why: str, *, likely: bool = True) -> Signal | None:
        """Run what may or may not be run: what differs afterwards cannot be known."""
        before, reached = self._copied(), self.reached
        self.conditional += 1
        self.reached = reached and likely
        signal = self._caught(go)
        self.conditional -= 1
        self.reached = reached
        if signal:
            self._may_break |= signal.kind in ("break", "continue")
            self.state = before
        else:
            self._merge(before, why)
        return None

    def _merge(self, other: _State, why: str) -> None:
        """Keep of the state what another state agrees with."""
        mine = self.state
        self._spend(len(mine.variables) + len(other.variables))
        for name in {*mine.variables, *other.variables}:
            one, two = mine.variables.get(name), other.variables.get(name)
            if one is not two:
                mine.variables[name] = _merged(
                    one or self._absent_variable(name), two or self._absent_variable(name), why
                )
        mine.unset &= other.unset
        mine.functions = {**other.functions, **mine.functions}
        if [plain(v) for v in mine.positional or ()] != [plain(v) for v in other.positional or ()]:
            mine.positional = [(*_unknown(why), Piece("", None, "\0many"))]
        mine.options &= other.options
        mine.sourced |= other.sourced
        mine.environment = None
        mine.ifs = mine.ifs if mine.ifs == other.ifs else None

    def _absent_variable(self, name: str) -> _Variable:
        return _Variable(() if name in self.state.unset else (Piece("", None, f"unset variable {name}", True),))

    def _subshell(self, go: Callable[[], Signal | None]) -> None:
        before, reached, traps = self._copied(), self.reached, self._traps
        self._traps = []
        calls, self._calls = self._calls, [dict(saved) for saved in self._calls]
        self._caught(go)
        self.state, self.reached, self._traps, self._calls = before, reached, traps, calls

    def _pipeline(self, pipeline: syntax.Pipeline, *, tested: bool) -> Signal | None:
        self._tested += tested or pipeline.is_negated
        signal = None
        if len(pipeline.commands) == 1:
            signal = self._command(pipeline.commands[0])
        elif pipeline.commands:
            for command in pipeline.commands:
                self._subshell(lambda command=command: self._command(command))  # type: ignore[misc]
        else:
            self.status = _SUCCESS
        self._tested -= tested or pipeline.is_negated
        if signal:
            return signal
        status = self.status
        if pipeline.is_negated:
            self.status = status._replace(code=None if status.code is None else int(not status.code))
        elif (
            status.code
            and "e" in self.state.options
            and not self._tested
            and not tested
            and (len(pipeline.commands) != 1 or _may_fail(pipeline.commands[0]))
        ):
            if status.origin == "certain":
                return Signal("exit")
            self.reached = False
        return None

    # Commands

    def _command(self, command: syntax.Command) -> Signal | None:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise TooMuch
        signal = self._dispatch(command)
        self._depth -= 1
        return signal

    def _dispatch(self, command: syntax.Command) -> Signal | None:
        match command:
            case syntax.Simple():
                return self._simple(command)
            case syntax.Group(is_subshell=False):
                return self._redirected(command.redirections) or self.items(command.items)
            case syntax.Group():
                self._redirected(command.redirections)
                self._subshell(lambda: self.items(command.items))
                return None
            case syntax.If():
                return self._if(command)
            case syntax.While():
                self._redirected(command.redirections)
                return self._while(command)
            case syntax.For():
                return self._for(command)
            case syntax.ForArithmetic():
                return self._for_arithmetic(command)
            case syntax.Case():
                return self._case(command)
            case syntax.Function():
                self.state.functions[command.name] = command.body
                self.status = _SUCCESS
            case syntax.Calculation():
                try:
                    value, outside = self._calculate(command.parts)
                except _Skip:
                    value, outside = 0, False
                code = None if value is None else int(not value)
                self.status = Status(code, "given" if outside else "certain", self._arithmetic_why)
            case syntax.Condition():
                try:
                    self._doubt = "a file"
                    self.status = _status(*self._condition(command), self._doubt)
                except _Skip:
                    self.status = _FAILURE
        return None

    def _redirected(self, redirections: Iterable[syntax.Redirection]) -> None:
        """The commands that stand in redirections."""
        for redirection in redirections:
            self._commands_in(redirection.target.parts)
            body = redirection.body() if callable(redirection.body) else None
            if body is not None and not redirection.is_literal and ("$(" in body.text or "`" in body.text):
                self._commands_in(syntax.read_document(body))

    def _commands_in(self, parts: syntax.Parts) -> None:
        if any(isinstance(part, syntax.Substitution) for part in parts):
            self._one(parts)

    def _if(self, command: syntax.If) -> Signal | None:
        ends: list[_State] = []
        signals: list[Signal] = []
        doubt = "the result of a command"
        reached, conditional = self.reached, self.conditional
        signal: Signal | None = None
        for condition, body in command.clauses:
            self._tested += 1
            signal = self.items(condition)
            self._tested -= 1
            if signal:
                break
            status = self.status
            if status.code is None or status.origin == "assumed":
                before, doubt = self._copied(), status.why
                self.conditional += 1
                now = self.reached
                self.reached = now and not status.code
                signal = self.items(body)
                self.reached = now and status.code != 0
                (signals if signal else ends).append(signal or self.state)  # type: ignore[arg-type]
                self.state, signal = before, None
                self.status = Status(None)
            elif status.code == 0:
                later = command.clauses[command.clauses.index((condition, body)) + 1 :]
                if status.origin == "given":
                    others = [after for _, after in later] + [command.otherwise]
                    for other in others:
                        if other:
                            self._untaken(lambda other=other: self.items(other))  # type: ignore[misc]
                signal = self._taken(lambda body=body: self.items(body), status)  # type: ignore[misc]
                break
            elif status.origin == "given":
                self._untaken(lambda body=body: self.items(body))  # type: ignore[misc]
                self.conditional += 1
        else:
            self.status = _SUCCESS
            if command.otherwise:
                signal = self.items(command.otherwise)
        if self.conditional > conditional and ends or signals:
            self.reached = reached
        self.conditional = conditional
        if not ends and not signals:
            return signal
        if signal:
            signals.append(signal)
            if not ends:
                return signals[0] if len({s.kind for s in signals}) == 1 else Signal("exit")
            self.state = ends.pop()
        self._may_break |= any(s.kind in ("break", "continue") for s in signals)
        for end in ends:
            self._merge(end, doubt)
        self.status = Status(None, why=doubt)
        return None

    def _while(self, command: syntax.While) -> Signal | None:
        for turn in range(MOST_ROUNDS + 1):
            before = self._copied()
            self._tested += 1
            signal = self.items(command.condition)
            self._tested -= 1
            if signal:
                return self._loop_signal(signal)
            status = self.status
            if status.code is None or status.origin == "assumed":
                likely = status.code is None or (status.code == 0) != command.is_until
                self._maybe(lambda: self.items(command.body), status.why, likely=likely)
                break
            if (status.code == 0) == command.is_until:
                if status.origin == "given" and not turn:
                    self._untaken(lambda: self.items(command.body))
                break
            may_break, self._may_break = self._may_break, False
            signal = self.items(command.body)
            broken, self._may_break = self._may_break, may_break
            if signal:
                ended = self._loop_signal(signal)
                if signal.kind != "continue" or ended:
                    self.status = _SUCCESS
                    return ended
            if broken:
                self._merge(before, status.why)
                break
            if self.state.variables == before.variables and status.origin == "certain":
                return Signal("exit")
        else:
            raise TooMuch
        self.status = _SUCCESS
        return None

    def _loop_signal(self, signal: Signal) -> Signal | None:
        """What a signal from a loop's body is for those around the loop."""
        if signal.kind in ("break", "continue"):
            return Signal(signal.kind, signal.count - 1) if signal.count > 1 else None
        return signal

    def _for(self, command: syntax.For) -> Signal | None:
        if command.words is None:
            fields = [_field(value) for value in self.state.positional or ()]
            if self.state.positional is None:
                self._untaken(lambda: self._round(command.name, _unknown("unset variable @"), command.body))
        else:
            fields = [f for word in command.words for f in self._fields(word)[0]]
        self.status = _SUCCESS
        if command.is_select:
            self._maybe(lambda: self._round(command.name, _unknown("input"), command.body), "input")
            return None
        for turn, item in enumerate(fields):
            if turn >= MOST_ROUNDS:
                raise TooMuch
            value = tuple(piece._replace(quoted=False) for piece in item.pieces)
            if item.is_absent and item.pieces:
                self._untaken(lambda value=value: self._round(command.name, value, command.body))  # type: ignore[misc]
                continue
            go = lambda value=value: self._round(command.name, value, command.body)  # type: ignore[misc]  # noqa: E731
            may_break, self._may_break = self._may_break, False
            signal = self._maybe(go, _why(item.pieces)) if item.is_many else go()
            broken, self._may_break = self._may_break, may_break
            if signal:
                ended = self._loop_signal(signal)
                if signal.kind != "continue" or ended:
                    return ended
            self.conditional += broken
        self.conditional = self.conditional if not fields else min(self.conditional, self._floor())
        return None

    def _floor(self) -> int:
        return self.conditional

    def _round(self, name: str, value: Value, body: Sequence[syntax.Item]) -> Signal | None:
        self._set(name, value)
        self._rounds.append((name, plain(value) or ""))
        signal = self.items(body)
        self._rounds.pop()
        return signal

    def _for_arithmetic(self, command: syntax.ForArithmetic) -> Signal | None:
        begin, test, step = command.steps
        self._step(begin)
        is_endless = not "".join(part.text if isinstance(part, syntax.Literal) else "x" for part in test).strip()
        for _ in range(MOST_ROUNDS + 1):
            value, outside = (1, False) if is_endless else self._step(test)
            if value is None:
                self._maybe(lambda: self.items(command.body), self._arithmetic_why)
                self._maybe(lambda: self._step(step) and None, self._arithmetic_why)
                break
            if not value:
                if outside:
                    self._untaken(lambda: self.items(command.body))
                break
            may_break, self._may_break = self._may_break, False
            before = self._copied()
            signal = self.items(command.body)
            broken, self._may_break = self._may_break, may_break
            if signal:
                ended = self._loop_signal(signal)
                if signal.kind != "continue" or ended:
                    self.status = _SUCCESS
                    return ended
            if broken:
                self._merge(before, "the result of a command")
                break
            self._step(step)
        else:
            raise TooMuch
        self.status = _SUCCESS
        return None

    def _step(self, parts: syntax.Parts) -> tuple[int | None, bool]:
        """One of the three expressions of a loop; one that cannot be read ends it."""
        try:
            return self._calculate(parts)
        except _Skip:
            return 0, False

    def _case(self, command: syntax.Case) -> Signal | None:
        word = self._one(command.word.parts)
        text, outside = plain(word), _is_outside(word)
        self.status = _SUCCESS
        if text is None:
            before, ends = self._copied(), []
            for _, body, _ in command.branches:
                self.state = before.copy()
                self._maybe(lambda body=body: self.items(body), _why(word))  # type: ignore[misc]
                ends.append(self.state)
            self.state = before
            for end in ends:
                self._merge(end, _why(word))
            self.status = Status(None, why=_why(word))
            return None
        goes_on = False
        done = False
        for patterns, body, end in command.branches:
            matched = goes_on or (not done and self._matches_any(patterns, text))
            if matched is None:
                self._maybe(lambda body=body: self.items(body), "a pattern")  # type: ignore[misc]
                continue
            if not matched:
                if outside:
                    self._untaken(lambda body=body: self.items(body))  # type: ignore[misc]
                continue
            signal = self._taken(lambda body=body: self.items(body), Status(0, "given" if outside else "certain"))  # type: ignore[misc]
            if signal:
                return signal
            goes_on, done = end == ";&", end == ";;"
        return None

    def _matches_any(self, patterns: Iterable[syntax.WordNode], text: str) -> bool | None:
        for node in patterns:
            pattern = self._pattern(node.parts)
            if pattern is None:
                return None
            self._spend(4 * len(text) * pattern.cost)
            if pattern.matches(text):
                return True
        return False

    # Conditions

    def _condition(self, condition: syntax.Condition) -> tuple[bool | None, bool]:
        """Whether `[[ … ]]` holds (None: cannot be known), and whether that rests on what is outside."""
        operator, operands = condition.operator, condition.operands
        if operator in ("!", "&&", "||"):
            results = []
            for operand in operands:
                assert isinstance(operand, syntax.Condition)
                results.append(self._condition(operand))
                if operator != "!" and results[-1][0] is (operator == "||"):
                    break
            outside = any(out for _, out in results)
            if operator == "!":
                return (None if results[0][0] is None else not results[0][0]), outside
            decisive = operator == "||"
            if any(result is decisive for result, _ in results):
                return decisive, outside
            return (None if any(result is None for result, _ in results) else not decisive), outside
        words = [operand for operand in operands if isinstance(operand, syntax.WordNode)]
        first = self._one(words[0].parts)
        if len(words) == 1:
            return self._unary(operator, first)
        outside = _is_outside(first)
        text = plain(first)
        if operator in ("=", "!="):
            pattern = self._pattern(words[1].parts)
            outside |= _is_outside(self._one(words[1].parts))
            if pattern is None or text is None:
                return None, outside
            self._spend(4 * len(text) * pattern.cost)
            return pattern.matches(text) == (operator == "="), outside
        second = self._one(words[1].parts)
        outside |= _is_outside(second)
        if operator == "=~":
            return _regex_matches(text, second), outside
        if operator in _NUMERIC:
            numbers = [self._number(value) for value in (first, second)]
            if numbers[0] is None or numbers[1] is None:
                return None, outside
            return _NUMERIC[operator](numbers[0], numbers[1]), outside
        other = plain(second)
        if text is None or other is None or operator not in "<>":
            return None, outside
        return (text < other if operator == "<" else text > other), outside

    def _number(self, value: Value) -> int | None:
        text = plain(value)
        if text is None:
            return None
        try:
            return self._calculator(text).value()
        except Unreadable:
            raise _Skip from None

    def _unary(self, operator: str, value: Value) -> tuple[bool | None, bool]:
        text = plain(value)
        outside = _is_outside(value)
        if operator in ("-n", "-z"):
            if text is None:
                if any(piece.text for piece in value):
                    return operator == "-n", outside
                return None, outside
            return bool(text) == (operator == "-n"), outside
        if operator in ("-v", "-R") and text is not None:
            name, _, subscript = text.partition("[")
            found = self._lookup(name, subscript.rstrip("]") or None)
            return (None if found and found[0].text is None else found is not None and not _absent(found)), (
                outside or bool(found and _absent(found))
            )
        if operator == "-o" and text is not None:
            return None, outside
        return None, outside

    def _test(self, fields: Sequence[_Field]) -> tuple[bool | None, bool]:
        """Whether `test` or `[` holds for its arguments."""
        values = [tuple(item.pieces) for item in fields if not (item.is_absent)]
        outside = any(_is_outside(item.pieces) for item in fields)
        if any(item.is_many for item in fields):
            return None, outside
        texts = [plain(value) for value in values]
        try:
            return self._test_words(list(zip(texts, values, strict=True)), 0), outside
        except Unreadable:
            return False, outside

    def _test_words(self, words: list[tuple[str | None, Value]], depth: int) -> bool | None:
        if depth > _MOST_NESTED:
            raise TooMuch
        size = len(words)
        texts = [text for text, _ in words]
        if size == 0:
            return False
        if size == 1:
            return self._unary("-n", words[0][1])[0]
        if size == 2:
            if texts[0] == "!":
                return _not(self._test_words(words[1:], depth + 1))
            return self._unary(self._operator(texts[0]), words[1][1])[0]
        if size == 3:
            if texts[1] in _COMPARES or texts[1] in _NUMERIC or texts[1] in ("-nt", "-ot", "-ef"):
                return self._compare(str(texts[1]), texts[0], texts[2])
            if texts[1] in ("-a", "-o"):
                one, two = (self._test_words([word], depth + 1) for word in (words[0], words[2]))
                return _both(one, two) if texts[1] == "-a" else _either(one, two)
            if texts[0] == "!":
                return _not(self._test_words(words[1:], depth + 1))
            if texts[0] == "(" and texts[2] == ")":
                return self._test_words(words[1:2], depth + 1)
            if None in texts:
                return None
            raise Unreadable
        if size == 4 and texts[0] == "!":
            return _not(self._test_words(words[1:], depth + 1))
        if size == 4 and texts[0] == "(" and texts[-1] == ")":
            return self._test_words(words[1:-1], depth + 1)
        if None in texts:
            return None
        result, rest = self._test_or(words, 0)
        if rest < size:
            raise Unreadable
        return result

    def _test_or(self, words: list[tuple[str | None, Value]], place: int) -> tuple[bool | None, int]:
        """Terms joined by -a and -o, from a place on; and where they end."""
        alternatives: list[bool | None] = []
        while True:
            result, place = self._test_term(words, place)
            while place < len(words) and words[place][0] == "-a":
                other, place = self._test_term(words, place + 1)
                result = _both(result, other)
            alternatives.append(result)
            if place >= len(words) or words[place][0] != "-o":
                break
            place += 1
        result = alternatives[0]
        for other in alternatives[1:]:
            result = _either(result, other)
        return result, place

    def _test_term(self, words: list[tuple[str | None, Value]], place: int) -> tuple[bool | None, int]:
        negated = False
        while place < len(words) and words[place][0] == "!":
            negated, place = not negated, place + 1
        left = words[place][0] if place < len(words) else None
        if left is None:
            raise Unreadable
        following = words[place + 1][0] if place + 2 < len(words) else None
        result: bool | None
        if left == "(":
            self._depth += 1
            if self._depth > _MOST_NESTED:
                raise TooMuch
            result, place = self._test_or(words, place + 1)
            self._depth -= 1
            if place >= len(words) or words[place][0] != ")":
                raise Unreadable
            place += 1
        elif following in _COMPARES or following in _NUMERIC or following in ("-nt", "-ot", "-ef"):
            result, place = self._compare(str(following), left, words[place + 2][0]), place + 3
        elif re.fullmatch(r"-[a-zA-Z]", left) and place + 1 < len(words):
            result, place = self._unary(left, words[place + 1][1])[0], place + 2
        else:
            result, place = bool(left), place + 1
        return (_not(result) if negated else result), place

    def _operator(self, text: str | None) -> str:
        if text is None or not re.fullmatch(r"-[a-zA-Z]", text):
            raise Unreadable
        return text

    def _compare(self, operator: str, left: str | None, right: str | None) -> bool | None:
        if left is None or right is None or operator in ("-nt", "-ot", "-ef"):
            return None
        if operator in _COMPARES:
            return _COMPARES[operator](left, right)
        if not (_INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)):
            raise Unreadable
        return _NUMERIC[operator](int(left), int(right))

    # Simple commands

    def _simple(self, command: syntax.Simple) -> Signal | None:
        self.place = command.start
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooMuch
        fields: list[_Field] = []
        words: list[Word] = []
        declared: list[syntax.AssignmentNode] = []
        substitutions = self._substituted = False
        for node in command.words:
            if isinstance(node, syntax.AssignmentNode):
                is_plain = node.elements is not None or node.subscript is not None or not has_braces(node.value.parts)
                if is_plain or expand_braces(node.value.parts, MOST_WORDS - self._words)[0] is node.value.parts:
                    declared.append(node)
                    continue
                node = _as_word(node)  # noqa: PLW2901 - braces make plain words of it: `export X={a,b}` assigns twice
            found, expands = self._fields(node, assigns=bool(declared) or self._is_declaration(words))
            self._words += len(found)
            if self._words > MOST_WORDS:
                raise TooMuch
            fields += found
            words += [_word(item, node, expands) for item in found]
        documents = tuple(
            body
            for redirection in command.redirections
            if callable(redirection.body) and (body := redirection.body()) is not None
        )
        self._redirected(command.redirections)
        del substitutions
        if not words and not declared:
            self.status, self._failed = _SUCCESS, False
            for assignment in command.assignments:
                self._assign(assignment, is_listed=True)
            if self._failed:
                self.status = _FAILURE
            elif any(self._has_command(assignment) for assignment in command.assignments):
                self.status = Status(0, "assumed")
            return None
        name = words[0].value if words else None
        if (
            name in ("command", "builtin")
            and len(words) > 1
            and (words[1].value in _BUILTINS or words[1].value in _DECLARES)
        ):
            fields, words, name = fields[1:], words[1:], words[1].value
        if name in _DECLARES:
            self._declare(str(name), fields[1:], words[1:], declared)
            return None
        if name is not None and name in self.state.functions:
            return self._call(self.state.functions[name], fields, command)
        if name in _BUILTINS:
            return _BUILTINS[name](self, fields, words, command)
        self._invoke(words, command, documents)
        if name == "exec" and len(words) > 1:
            return Signal("exit")
        if name in ("bash", "sh", "dash", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash") and len(words) > 1:
            self._shell(fields)
        if name == "command" and len(words) > 1 and str(words[1].value).startswith("-"):
            self.status = Status(None)
        else:
            self.status = _outcome(name)
        return None

    def _is_declaration(self, words: Sequence[Word]) -> bool:
        return bool(words) and words[0].value in _DECLARES

    def _has_command(self, assignment: syntax.AssignmentNode) -> bool:
        return any(isinstance(part, syntax.Substitution) for part in assignment.value.parts)

    def _invoke(self, words: list[Word], command: syntax.Simple, documents: tuple[Excerpt, ...]) -> None:
        assigned = []
        environment = self._environment()
        if command.assignments:
            given: dict[str, str | None] = {}
            saved: dict[str, _Variable | None] = {}
            try:
                for node in command.assignments:
                    saved.setdefault(node.name, self.state.variables.get(node.name))
                    value = self._value_of(node)
                    if node.is_appended:
                        value = self._appended(node.name, value, is_integer=False)
                    word = _whole_word(value, node.value)
                    assigned.append(Assignment(node.name, word, node.start, node.end, exported=True))
                    given[node.name] = word.value
                    self.state.variables[node.name] = _Variable(value)
            finally:
                for variable_name, variable in saved.items():
                    self._restore(variable_name, variable)
            environment = self._environment()
            self._spend(len(environment))
            environment = MappingProxyType({**environment, **given})
        index = len(self.result.invocations)
        if self._background:
            self._waiting.append(index)
        self.result.invocations.append(
            Invocation(
                tuple(words),
                tuple(assigned),
                environment,
                command.start,
                command.end,
                is_background=bool(self._background),
                is_conditional=bool(self.conditional),
                is_reached=self.reached,
                is_nested=bool(self._nested),
                round=tuple(self._rounds),
                documents=documents,
            )
        )

    def _environment(self) -> Mapping[str, str | None]:
        if self.state.environment is None:
            self._spend(len(self.state.variables))
            found: dict[str, str | None] = {}
            for name, variable in self.state.variables.items():
                if variable.is_exported and variable.value is None and variable.elements is None:
                    # A local variable without a value hides none in the environment.
                    hidden = [saved for call in self._calls if (saved := call.get(name)) and saved.value is not None]
                    variable = hidden[-1] if hidden else variable  # noqa: PLW2901
                if variable.is_exported and variable.elements is None and variable.value is not None:
                    found[name] = None if _why(variable.value) else plain(variable.value)
            self.state.environment = MappingProxyType(found)
        return self.state.environment

    def _wait(self) -> None:
        """Everything started in the background is waited for."""
        for index in self._waiting:
            self.result.invocations[index] = replace(self.result.invocations[index], is_waited=True)
        self._waiting.clear()

    def _call(self, body: syntax.Command, fields: Sequence[_Field], command: syntax.Simple) -> Signal | None:
        saved = self.state.positional
        reached = self.reached
        self.state.positional = [_element(item) for item in fields[1:]]
        self._calls.append({})
        for assignment in command.assignments:
            self._local(assignment.name)
            self._assign(assignment)
            self._export(assignment.name)
        try:
            signal = self._command(body)
        finally:
            for name, variable in self._calls.pop().items():
                self._restore(name, variable)
            self.state.positional = saved
        if signal and signal.kind == "return":
            signal = None
        if not signal and reached and not self.reached and "e" not in self.state.options:
            self.reached = reached
        return signal

    def _restore(self, name: str, variable: _Variable | None) -> None:
        if variable is None:
            self.state.variables.pop(name, None)
        else:
            self.state.variables[name] = variable
        self.state.environment = None
        if name == "IFS":
            self._note_ifs()

    def _shell(self, fields: Sequence[_Field]) -> None:
        """`bash -c 'script'`."""
        texts = [plain(tuple(item.pieces)) for item in fields]
        for index, text in enumerate(texts[1:], 1):
            if text is None or not text.startswith(("-", "+")) or text == "--":
                return
            if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", text):
                break
        else:
            return
        if index + 1 >= len(fields):
            return

        def go() -> Signal | None:
            state = self.state
            state.variables = {name: v for name, v in state.variables.items() if v.is_exported}
            state.functions, state.options, state.environment = {}, frozenset(), None
            state.positional = [tuple(item.pieces) for item in fields[index + 3 :]]
            return self._nested_script(tuple(fields[index + 1].pieces), self.place)

        tested, self._tested = self._tested, 0
        self._subshell(go)
        self._tested = tested

    def _nested_script(self, value: Value, place: int) -> Signal | None:
        text = plain(value)
        if text is None or not text.strip():
            return None
        self._spend(len(text) * 4)
        at: list[int] = []
        for piece in value:
            last = at[-1] + 1 if at else place
            at.extend(piece.at if piece.at is not None else [last] * len(piece.text or ""))
        tree = syntax.read(Excerpt(text, [*at, at[-1] + 1]))
        return self._lines(tree.lines)

    # Assignments

    def _value_of(self, node: syntax.AssignmentNode) -> Value:
        return self._one(node.value.parts, assigns=True) if node.elements is None else _unknown("a list")

    def _assign(
        self, node: syntax.AssignmentNode, *, is_listed: bool = False, exports: bool = False, is_map: bool = False,
        is_integer: bool = False, value: Value | None = None,
    ) -> None:  # fmt: skip
        old = self.state.variables.get(node.name)
        if exports or "a" in self.state.options:
            self._export(node.name)
            old = self.state.variables.get(node.name)
        exported = bool(old and old.is_exported)
        if node.elements is not None:
            self._assign_elements(node, is_map=is_map or bool(old and old.is_map))
            word = Word(None, node.value.start, node.value.end, node.value.raw, "a list")
        else:
            value = self._one(node.value.parts, assigns=True) if value is None else value
            if node.subscript is not None:
                self._set_element(node, value)
            else:
                if is_integer or (old and old.is_integer):
                    value = self._integer(value)
                if node.is_appended:
                    value = self._appended(node.name, value, is_integer=is_integer or bool(old and old.is_integer))
                self._set(node.name, value)
            word = _whole_word(value, node.value)
        if is_listed:
            self.result.assignments.append(Assignment(node.name, word, node.start, node.end, exported))

    def _integer(self, value: Value) -> Value:
        text = plain(value)
        if text is None:
            return value
        try:
            number = self._calculator(text).value()
        except Unreadable:
            raise _Skip from None
        outside = _is_outside(value) or self._arithmetic_outside
        return (Piece(None if number is None else str(number), None, _why(value) or self._arithmetic_why, outside),)

    def _appended(self, name: str, value: Value, *, is_integer: bool) -> Value:
        old = self._lookup(name, None) or ()
        if is_integer:
            return self._integer(_text(f"({plain(old) or 0})+({plain(value)})"))
        old = tuple(piece for piece in old if not _absent((piece,)))
        self._spend(sum(len(piece.text or "") for piece in (*old, *value)) + len(old))
        return (*old, *value)

    def _set(self, name: str, value: Value) -> None:
        size = sum(len(piece.text or "") for piece in value)
        if size > _MOST_TEXT or len(value) > _MOST_TEXT >> 4:
            raise TooMuch
        self._spend(len(value))
        old = self.state.variables.get(name)
        if old and old.is_integer:
            value = self._integer(value)
        if old and old.case:
            value = _cased(value, old.case)
        if old is None:
            new = _Variable(value, is_exported="a" in self.state.options)
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
        self.state.ifs = " \t\n" if value is None or _absent(value) else plain(value)

    def _assign_elements(self, node: syntax.AssignmentNode, *, is_map: bool) -> None:
        assert node.elements is not None
        old = self.state.variables.get(node.name)
        elements: dict[int | str, Value] = {}
        if node.is_appended and old is not None:
            if old.elements is None:
                elements = {0: old.value} if old.value else {}
            elif old.owner is self.state.owner:
                elements = old.elements
            else:
                self._spend(len(old.elements))
                elements = dict(old.elements)
        last = next(reversed(elements), -1)
        following = last + 1 if isinstance(last, int) else 0
        if following != len(elements):
            following = max((key for key in elements if isinstance(key, int)), default=-1) + 1
        for element in node.elements:
            if element.subscript is not None:
                key = self._key(element.subscript, is_map=is_map)
                if key is None:
                    elements = {0: _unknown("an index")}
                    continue
                elements[key] = self._one(element.word.parts)
                following = key + 1 if isinstance(key, int) else following
                continue
            for item in self._fields(element.word, is_named=False)[0]:
                elements[following] = _element(item)
                following += 1
                self._words += 1
                if self._words > MOST_WORDS:
                    raise TooMuch
        base = old or _Variable(is_exported="a" in self.state.options)
        self.state.variables[node.name] = replace(
            base, value=None, elements=elements, is_map=is_map, owner=self.state.owner
        )
        self.state.unset.discard(node.name)

    def _set_element(self, node: syntax.AssignmentNode, value: Value) -> None:
        assert node.subscript is not None
        old = self.state.variables.get(node.name) or _Variable()
        key = self._key(node.subscript, is_map=old.is_map)
        elements = dict(old.elements) if old.elements is not None else ({0: old.value} if old.value else {})
        self._spend(len(elements))
        if key is None:
            elements = {0: (*_unknown("an index"), Piece("", None, "\0many"))}
        else:
            elements[key] = (*elements.get(key, ()), *value) if node.is_appended else value
        self.state.variables[node.name] = replace(old, value=None, elements=elements)

    def _key(self, parts: syntax.Parts, *, is_map: bool) -> int | str | None:
        text = plain(self._one(parts))
        if text is None or is_map:
            return text
        try:
            number = self._calculator(text).value()
        except Unreadable:
            raise _Skip from None
        return number

    def _export(self, name: str) -> None:
        old = self.state.variables.get(name) or _Variable()
        if not old.is_exported:
            self.state.variables[name] = replace(old, is_exported=True)
            self.state.environment = None

    def _local(self, name: str) -> None:
        if self._calls and name not in self._calls[-1]:
            old = self.state.variables.get(name)
            self._calls[-1][name] = old
            self.state.variables[name] = _Variable(is_exported=bool(old and old.is_exported))
            self.state.unset.discard(name)

    def _declare(
        self, builtin: str, fields: Sequence[_Field], words: Sequence[Word],
        declared: Sequence[syntax.AssignmentNode],
    ) -> None:  # fmt: skip
        """`declare`, `typeset`, `local`, `export` and `readonly`."""
        letters = "".join(w.value[1:] for w in words if w.value and w.value[0] == "-")
        removed = "".join(w.value[1:] for w in words if w.value and w.value[0] == "+")
        exports = (builtin == "export" and "n" not in letters) or (builtin != "export" and "x" in letters)
        is_local = builtin == "local" or (builtin in ("declare", "typeset") and "g" not in letters)
        self.status = _SUCCESS
        if "p" in letters or (builtin == "export" and "f" in letters) or "f" in letters or "F" in letters:
            return
        values = [None if made.elements is not None else self._one(made.value.parts, assigns=True) for made in declared]
        for node, value in zip(declared, values, strict=True):
            if is_local and self._calls:
                self._local(node.name)
            self._flag(node.name, letters, removed)
            self._assign(
                node, is_listed=True, exports=exports, is_map="A" in letters, is_integer="i" in letters, value=value
            )
            if self._has_command(node):
                self.status = Status(0, "assumed")
        for item, word in zip(fields, words, strict=True):
            text = "".join(piece.text or "" for piece in item.pieces[:1]) if word.value is None else word.value
            if text[:1] in ("-", "+") or (word.value is None and "=" not in text):
                continue
            name, sign, _ = text.partition("=")
            is_appended = bool(sign) and name.endswith("+")
            name = name.removesuffix("+") if sign else name
            if not _NAME.fullmatch(name):
                self.status = _FAILURE
                continue
            if is_local:
                self._local(name)
            self._flag(name, letters, removed)
            if sign:
                value = _after(item.pieces, len(name) + 1 + is_appended)
                if is_appended:
                    value = self._appended(name, value, is_integer=False)
                self._set(name, tuple(piece._replace(quoted=False) for piece in value))
            elif name not in self.state.variables and not exports:
                self.state.variables[name] = _Variable()
            if exports:
                if name not in self.state.variables and name not in self.state.unset:
                    self.state.variables[name] = _Variable(self._lookup(name, None))
                self._export(name)
            if builtin == "export" and "n" in letters:
                self.state.variables[name] = replace(self.state.variables[name], is_exported=False)
                self.state.environment = None
            current = self._lookup(name, None)
            if exports or sign:
                known = Word(
                    None if current is None or _why(current) else plain(current), word.start, word.end, word.raw,
                    _why(current or ()), _places(current or ()),
                )  # fmt: skip
                self.result.assignments.append(Assignment(name, known, word.start, word.end, exports))

    def _flag(self, name: str, letters: str, removed: str) -> None:
        """Attributes that a declaration gives."""
        if not set(letters) & set("aAixlu") and "x" not in removed:
            return
        old = self.state.variables.get(name) or _Variable()
        if "A" in letters or "a" in letters:
            old = replace(old, elements=old.elements if old.elements is not None else {}, is_map="A" in letters)
        if "i" in letters:
            old = replace(old, is_integer=True)
        if "l" in letters or "u" in letters:
            old = replace(old, case="l" if "l" in letters else "u")
        if "x" in removed:
            old = replace(old, is_exported=False)
        self.state.variables[name] = old
        self.state.environment = None

    # Expansion

    def _lookup(self, name: str, subscript: str | int | None) -> Value | None:
        """The value of a variable; None: certainly unset; a piece with `why`: from outside, or not to be known."""
        variable = self.state.variables.get(name)
        if variable is not None:
            if variable.elements is not None:
                key = subscript if subscript is not None else (0 if not variable.is_map else "0")
                if isinstance(key, int) and key < 0:
                    key += max((k for k in variable.elements if isinstance(k, int)), default=-1) + 1
                    self._bad_index(key)
                if any(_why(v) for v in variable.elements.values()) and not variable.is_map:
                    value = variable.elements.get(key)
                    before = [k for k, v in variable.elements.items() if v and v[-1].why == "\0many"]
                    if before and (not isinstance(key, int) or key >= min(k for k in before if isinstance(k, int))):
                        return _unknown(_why(variable.elements[before[0]]))
                    return value
                return variable.elements.get(key)
            if subscript not in (None, 0, "0"):
                self._bad_index(subscript)
                return None
            return variable.value
        if name in self.state.unset:
            return None
        if name in self.known:
            return _text(self.known[name])
        if name == "IFS":
            return _text(" \t\n")
        if name == "OPTIND":
            return _text("1")
        if name in _MACHINE:
            return _unknown(f"unset variable {name}")
        if self.state.sourced:
            return _unknown("sourced file")
        self._bad_index(subscript)
        return (Piece("", None, f"unset variable {name}", True),)

    def _bad_index(self, index: str | int | None) -> None:
        """An index before the beginning is an error: under `set -e` it ends the script."""
        if isinstance(index, int) and index < 0:
            self._failed = True
            if "e" in self.state.options:
                raise _Stop

    def _special(self, name: str) -> Value | None:
        positional = self.state.positional
        if name == "#":
            if positional and (many := next((value for value in positional if _many(value)), None)):
                return _unknown(_why(many))
            return _text(str(len(positional or ())), outside=positional is None)
        if name == "0":
            return _unknown("the name of the script")
        if name.isdigit():
            number = int(name) if len(name) < 8 else 10_000_000
            if positional is None:
                return (Piece("", None, f"unset variable {name}", True),)
            if many := next((value for value in positional[:number] if _many(value)), None):
                return _unknown(_why(many))
            return positional[number - 1] if number <= len(positional) else None
        if name == "?":
            if self.status.code is None or self.status.origin == "assumed":
                return _unknown("the result of a command") if self.status.code is None else _text("0", outside=True)
            return _text(str(self.status.code), outside=self.status.origin == "given")
        if name == "!":
            self._wait()
            return _unknown("a process id")
        return _unknown(f"${name}")

    def _list(self, part: syntax.Parameter) -> list[Value] | None:
        """The elements that `$@`, `$*`, `${X[@]}` and `${X[*]}` stand for; None: it is no list."""
        if part.name in ("@", "*") and part.subscript is None:
            return list(self.state.positional or ())
        if not _is_all(part.subscript):
            return None
        variable = self.state.variables.get(part.name)
        if variable is not None and variable.elements is not None:
            if variable.is_map:
                return [value for _, value in variable.elements.items()]
            return [variable.elements[key] for key in sorted(variable.elements, key=lambda k: (isinstance(k, str), k))]
        value = self._lookup(part.name, None)
        return [] if value is None or (_absent(value) and not self.state.sourced) else [value]

    def _fields(
        self, node: syntax.WordNode, *, assigns: bool = False, is_named: bool = True
    ) -> tuple[list[_Field], frozenset[str]]:
        """The arguments that a word makes, and what is expanded in it."""
        expands: set[str] = set()
        words = [node.parts]
        if has_braces(node.parts):
            words = expand_braces(node.parts, MOST_WORDS - self._words)
            if words[0] is not node.parts:
                expands.add("brace")
        fields: list[_Field] = []
        for parts in words:
            splitter = _Splitter(self.state.ifs)
            self._expand(parts, splitter, expands, assigns=assigns, is_named=is_named and "brace" not in expands)
            fields += splitter.finished()
        if any(_has_glob(item) for item in fields):
            expands.add("glob")
        return fields, frozenset(expands)

    def _one(self, parts: syntax.Parts, *, assigns: bool = False) -> Value:
        """The value of a word that is not split."""
        splitter = _Splitter("")
        self._expand(parts, splitter, set(), assigns=assigns, splits=False)
        pieces = [
            piece
            for item in splitter.fields + ([splitter._current] if splitter._current else [])
            for piece in item.pieces
        ]
        self._doubt = next((piece.why for piece in pieces if piece.text is None), self._doubt)
        return tuple(piece._replace(quoted=False) for piece in _glued(pieces))

    def _pattern(self, parts: syntax.Parts) -> Pattern | None:
        splitter = _Splitter("")
        self._expand(parts, splitter, set(), splits=False)
        signs: list[tuple[str, bool]] = []
        for item in splitter.finished():
            for piece in item.pieces:
                if piece.text is None:
                    return None
                signs += [(sign, piece.quoted) for sign in piece.text]
        self._spend(len(signs))
        return Pattern(signs)

    def _expand(
        self, parts: syntax.Parts, out: _Splitter, expands: set[str], *, assigns: bool = False, splits: bool = True,
        is_named: bool = False,
    ) -> None:  # fmt: skip
        """Put the pieces of a word into the splitter."""
        for index, part in enumerate(parts):
            match part:
                case syntax.Literal(text, at, quoted):
                    if not quoted and "~" in text:
                        self._tilde(part, parts, index, out, expands, assigns=assigns, is_named=is_named)
                    else:
                        out.literal(Piece(text, at, quoted=quoted))
                    self._spend(len(text) // 8)
                case syntax.Parameter():
                    if not part.quoted:
                        expands.add("parameter")
                    self._parameter(part, out, expands, splits=splits)
                case syntax.Substitution():
                    if not part.quoted:
                        expands.add("command")
                    self._nested += 1
                    self._subshell(lambda part=part: self.items(part.script))  # type: ignore[misc]
                    self._nested -= 1
                    piece = Piece(
                        None, None, "process substitution" if part.is_file else "command substitution",
                        quoted=part.quoted or part.is_file,
                    )  # fmt: skip
                    out.literal(piece, many=splits and not part.quoted)
                case syntax.Arithmetic():
                    if not part.quoted:
                        expands.add("parameter")
                    value, outside = self._calculate(part.parts)
                    piece = Piece(None if value is None else str(value), None, self._arithmetic_why, outside)
                    if part.quoted or not splits:
                        out.literal(piece._replace(quoted=part.quoted))
                    else:
                        out.expansion(piece)

    def _tilde(
        self, part: syntax.Literal, parts: syntax.Parts, index: int, out: _Splitter, expands: set[str], *, assigns: bool,
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
            assert found is not None
            whole = found.end() == len(text) and index + 1 < len(parts)
            if whole or start < place:
                continue
            if place < start:
                out.literal(Piece(text[place:start], at[place:start]))
            expands.add("tilde")
            if found[0] == "~":
                home = self._lookup("HOME", None)
            elif found[0] in ("~+", "~-"):
                home = _unknown("unset variable PWD")
            else:
                home = (Piece(found[0], at[start : found.end()]),)
            for piece in home or _unknown("unset variable HOME"):
                out.literal(piece._replace(quoted=True))
            place = found.end()
        if place < len(text):
            out.literal(Piece(text[place:], at[place:]))

    def _parameter(self, part: syntax.Parameter, out: _Splitter, expands: set[str], *, splits: bool) -> None:
        if part.operator == "bad":
            raise _Skip
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
                    self._put(_unknown("an index"), part, out, splits=splits)
                    return
            special = part.name[0].isdigit() or part.name in "#?$!-"
            found = self._special(part.name) if special else self._lookup(part.name, subscript)
            if self._substitute(part, found, out, expands, splits=splits):
                return
            value = self._applied(part, found)
        self._put(value, part, out, splits=splits)

    def _put(self, value: Value, part: syntax.Parameter, out: _Splitter, *, splits: bool) -> None:
        self._spend(sum(len(piece.text or "") for piece in value) // 8 + len(value))
        many = _many(value)
        if part.quoted or not splits:
            for piece in value:
                if piece.why != "\0many":
                    out.literal(piece._replace(quoted=part.quoted), many=many)
            if part.quoted and not value and not part.is_beside_list:
                out.literal(Piece("", quoted=True))
            return
        for piece in value:
            if piece.why != "\0many":
                out.expansion(piece)

    def _put_list(
        self, part: syntax.Parameter, elements: list[Value], out: _Splitter, expands: set[str], *, splits: bool,
        joins_keys: bool = False,
    ) -> None:  # fmt: skip
        """The elements of a list, each an argument of its own, or joined."""
        is_star = part.name == "*" if part.subscript is None else _is_all(part.subscript) == "*"
        if part.operator in _DEFAULTS:
            value: Value | None = None
            if elements:
                value = tuple(piece for element in elements for piece in element) or (
                    (Piece(""),) if len(elements) > 1 else ()
                )
            elif part.subscript is None and self.state.positional is None:
                value = (Piece("", None, f"unset variable {part.name}", True),)
            if self._substitute(part, value, out, expands, splits=splits):
                return
        elif part.operator == ":":
            elements = self._sliced(part, elements)
        elif part.operator:
            elements = [self._applied(part, element) for element in elements]
        if any(_many(element) for element in elements):
            expands.add("parameter")
        ifs = self.state.ifs
        if (is_star and part.quoted) or not splits:
            # In an assignment only what is cut or replaced in it makes a quoted `[@]` join as `[*]` does.
            operates = part.operator and part.operator not in _DEFAULTS
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
                    out._close()
                else:
                    out.cut()
            self._put(element, part, out, splits=True)

    def _sliced(self, part: syntax.Parameter, elements: list[Value]) -> list[Value]:
        numbers = [self._calculate(argument)[0] for argument in part.arguments]
        if None in numbers:
            return [(*_unknown("an index"), Piece("", None, "\0many"))]
        start = numbers[0] or 0
        if part.subscript is None:
            elements = [_unknown("the name of the script"), *elements]
        if start < 0:
            start += len(elements)
            if start < 0:
                return []
        if len(numbers) == 1:
            return elements[start:]
        count = numbers[1] or 0
        if count < 0:
            raise _Skip
        return elements[start : start + count]

    def _length(self, part: syntax.Parameter, elements: list[Value] | None) -> Value:
        if elements is not None:
            if any(_many(element) for element in elements):
                return _unknown(_why(piece for element in elements for piece in element))
            outside = part.subscript is None and self.state.positional is None
            return _text(str(len(elements)), outside=outside)
        subscript = None
        if part.subscript is not None:
            variable = self.state.variables.get(part.name)
            subscript = self._key(part.subscript, is_map=bool(variable and variable.is_map))
        special = part.name[0].isdigit() or part.name in "#?$!-"
        value = self._special(part.name) if special else self._lookup(part.name, subscript)
        text = plain(value or ())
        if text is None:
            return _unknown(_why(value or ()))
        return (Piece(str(len(text)), None, _why(value or ()), _is_outside(value or ())),)

    def _substitute(
        self, part: syntax.Parameter, value: Value | None, out: _Splitter, expands: set[str], *, splits: bool
    ) -> bool:
        """`${X:-d}` and its like; whether something was put in place of the value."""
        operator = part.operator
        if operator not in _DEFAULTS:
            return False
        text = plain(value) if value is not None else ""
        is_absent = value is None or _absent(value)
        outside = value is not None and _is_outside(value)
        if text is None and not any(piece.text for piece in value or ()) and (operator[0] == ":" or _many(value or ())):
            self._untaken_argument(part)
            self._put(_unknown(_why(value or ())), part, out, splits=splits)
            return True
        is_missing = is_absent or (operator[0] == ":" and text == "")
        if operator[-1] == "+":
            is_missing = not is_missing
        if not is_missing:
            if operator[-1] == "+":
                if outside:
                    self._untaken_argument(part)
                if (part.quoted and not _is_all(part.subscript) and part.name != "@") or outside:
                    piece = Piece("", None, "", outside, quoted=part.quoted)
                    out.literal(piece) if part.quoted else out.expansion(piece)
                return True
            return False
        if operator[-1] == "?":
            if outside and not self._rounds:
                self.reached = False
                self._put((Piece("", None, f"unset variable {part.name}", True),), part, out, splits=splits)
                return True
            raise _Stop
        (argument,) = part.arguments
        if operator[-1] == "=":
            assigned = self._one(argument)
            if outside:
                assigned = tuple(piece._replace(outside=True) for piece in assigned)
            self._set(part.name, assigned)
            self._put(assigned, part, out, splits=splits)
            return True
        inner = _Splitter(self.state.ifs)
        if part.quoted and not argument:
            out.literal(Piece("", None, "", outside, quoted=True))
        del inner
        self._expand_argument(argument, part, out, expands, splits=splits, outside=outside)
        return True

    def _expand_argument(
        self, argument: syntax.Parts, part: syntax.Parameter, out: _Splitter, expands: set[str], *, splits: bool,
        outside: bool,
    ) -> None:  # fmt: skip
        """The word of `${X:-word}`: its literal text is split as well, where the whole is not quoted."""
        if outside:
            out.expansion(Piece("", None, "", True)) if not part.quoted else out.literal(
                Piece("", None, "", True, quoted=True)
            )
        for index, piece in enumerate(argument):
            if isinstance(piece, syntax.Literal) and not piece.quoted and not part.quoted and splits:
                if index == 0 and piece.text.startswith("~"):
                    self._tilde(piece, argument, 0, out, expands, assigns=False)
                else:
                    out.expansion(Piece(piece.text, piece.at, "", outside))
            else:
                self._expand((piece,), out, expands, splits=splits)

    def _untaken_argument(self, part: syntax.Parameter) -> None:
        for argument in part.arguments:
            if any(isinstance(piece, syntax.Substitution) for piece in argument):
                self._untaken(lambda argument=argument: self._one(argument) and None)  # type: ignore[misc]

    def _applied(self, part: syntax.Parameter, value: Value | None) -> Value:
        """The value after an operator that cuts or replaces."""
        operator = part.operator
        if value is None:
            return ()
        if not operator or operator in _DEFAULTS:
            if "u" in self.state.options and _absent(value):
                self.reached = False
            return value
        text = plain(value)
        if text is None or _why(value):
            for argument in part.arguments:
                self._commands_in(argument)
            return _unknown(_why(value)) if text is None or not _absent(value) else value
        if operator == ":":
            return self._substring(part, value, text)
        if operator in ("^", "^^", ",", ",,"):
            pattern = self._pattern(part.arguments[0])
            if pattern is None:
                return _unknown("a pattern")
            return self._recased(operator, pattern if part.arguments[0] else None, value)
        if operator[0] in "@*":
            return _unknown(f"${{{part.name}{operator}}}")
        pattern = self._pattern(part.arguments[0])
        if pattern is None:
            return _unknown("a pattern")
        self._spend(4 * len(text) * pattern.cost)
        if operator in ("#", "##"):
            lengths = pattern.prefixes(text)
            return _cut(value, (lengths[0] if operator == "#" else lengths[-1]) if lengths else 0, len(text))
        if operator in ("%", "%%"):
            lengths = pattern.prefixes(text, backwards=True)
            return _cut(value, 0, len(text) - ((lengths[0] if operator == "%" else lengths[-1]) if lengths else 0))
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
            self._spend(len(signs) * 4)
            pieces.append(piece._replace(text="".join(signs)))
        return tuple(pieces)

    def _replaced(self, part: syntax.Parameter, pattern: Pattern, value: Value, text: str) -> Value:
        replacement = self._one(part.arguments[1]) if len(part.arguments) > 1 else ()
        if plain(replacement) is None:
            return _unknown(_why(replacement))
        operator = part.operator
        pieces: list[Piece] = []
        if not part.arguments[0]:
            return value
        if operator in ("/#", "/%"):
            lengths = pattern.prefixes(text, backwards=operator == "/%")
            if not lengths:
                return value
            if operator == "/#":
                return (*replacement, *_cut(value, lengths[-1], len(text)))
            return (*_cut(value, 0, len(text) - lengths[-1]), *replacement)
        place = last = 0
        while place < len(text):
            if pattern.is_literal:
                found = text.find(pattern.text, place)
                if found < 0 or not pattern.text:
                    break
                place, length = found, len(pattern.text)
            else:
                window = text[place:]
                self._spend(4 * len(window) * pattern.cost)
                lengths = pattern.prefixes(window)
                length = lengths[-1] if lengths else 0
                if not length:
                    place += 1
                    continue
            pieces += [*_cut(value, last, place), *replacement]
            self._spend(len(value) + len(replacement) + sum(len(piece.text or "") for piece in replacement))
            place = last = place + length
            if operator == "/":
                break
        return _glued([*pieces, *_cut(value, last, len(text))])

    def _substring(self, part: syntax.Parameter, value: Value, text: str) -> Value:
        numbers = [self._calculate(argument)[0] for argument in part.arguments]
        if None in numbers:
            return _unknown("an index")
        start = numbers[0] or 0
        start = start + len(text) if start < 0 else start
        if start < 0 or start > len(text):
            return ()
        end = len(text)
        if len(numbers) > 1:
            length = numbers[1] or 0
            end = len(text) + length if length < 0 else start + length
            if end < start:
                raise _Skip
        return _cut(value, start, end)

    def _indirect(self, part: syntax.Parameter, out: _Splitter, expands: set[str], *, splits: bool) -> None:
        """`${!X}`, `${!X[@]}` and `${!X*}`."""
        if _is_all(part.subscript):
            variable = self.state.variables.get(part.name)
            keys: list[int | str] = list(variable.elements or ()) if variable and variable.elements is not None else []
            if variable and variable.elements is None and variable.value is not None:
                keys = [0]
            keys = (
                keys
                if variable and variable.is_map
                else sorted(keys, key=str if not all(isinstance(k, int) for k in keys) else None)
            )
            if variable and variable.elements is not None and any(_many(value) for value in variable.elements.values()):
                self._put((*_unknown("unset variable"), Piece("", None, "\0many")), part, out, splits=splits)
                return
            self._put_list(
                part._replace(is_indirect=False),
                [_text(str(key)) for key in keys],
                out,
                expands,
                splits=splits,
                joins_keys=True,
            )
            return
        if part.operator in ("*", "@"):
            names = sorted(name for name in self.state.variables if name.startswith(part.name))
            listed = part._replace(name=part.operator, operator="", is_indirect=False)
            self._put_list(listed, [_text(name) for name in names], out, expands, splits=splits)
            return
        value = (
            self._special(part.name)
            if part.name[0].isdigit() or part.name in "#?$!-"
            else self._lookup(part.name, None)
        )
        name = plain(value or ())
        if value is None or name is None or _why(value):
            self._put(_unknown(_why(value or ()) or "an indirect variable"), part, out, splits=splits)
            return
        found = re.fullmatch(r"([A-Za-z_]\w*|[0-9]+|[@*])(?:\[(\w+|[@*])\])?", name, re.ASCII)
        if not found:
            raise _Stop
        subscript = None
        if found[2]:
            subscript = (syntax.Literal(found[2], [0] * len(found[2]), quoted=False),)
        self._parameter(
            part._replace(name=found[1], subscript=subscript, is_indirect=False), out, expands, splits=splits
        )

    # Arithmetic

    def _calculator(self, text: str) -> Calculator:
        self._spend(len(text))
        self._arithmetic_outside, self._arithmetic_why = False, ""

        def get(name: str, subscript: str) -> str | None:
            key: str | int | None = None
            if subscript:
                variable = self.state.variables.get(name)
                key = subscript if variable and variable.is_map else self._calculator(subscript).value()
            value = self._lookup(name, key)
            self._arithmetic_outside |= _is_outside(value or ())
            if value is not None and _why(value):
                self._arithmetic_why = _why(value)
            return plain(value or ())

        def put(name: str, subscript: str, number: int | None) -> None:
            text = None if number is None else str(number)
            value = (Piece(text, None, self._arithmetic_why, self._arithmetic_outside),)
            if not subscript:
                self._set(name, value)
                return
            old = self.state.variables.get(name) or _Variable()
            key: str | int | None = subscript if old.is_map else self._calculator(subscript).value()
            if key is not None:
                self.state.variables[name] = replace(old, elements={**(old.elements or {}), key: value})

        return Calculator(text, get, put)

    _arithmetic_outside = False
    _arithmetic_why = ""

    def _calculate(self, parts: syntax.Parts) -> tuple[int | None, bool]:
        """The value of an arithmetic expression, and whether it rests on what is outside."""
        value = self._one(parts)
        text = plain(value)
        if text is None:
            self._arithmetic_why = _why(value)
            return None, False
        number: int | None = None
        outside = _is_outside(value)
        try:
            number = self._calculator(text).value()
        except Unreadable:
            if not outside and not self._arithmetic_outside:
                raise _Skip from None
            # Bash leaves out the rest of the line, for want of a variable: it is read all the same.
            self._lost, self.reached = True, False
        self._arithmetic_why = self._arithmetic_why or _why(value)
        return number, outside or self._arithmetic_outside


# Records of pieces


def _outcome(name: str | None) -> Status:
    """The exit status of a program: no program is called like an option, some answer a question, others succeed."""
    if name is None or name.rpartition("/")[2] in _ANSWERS:
        return Status(None)
    return Status(_NOT_FOUND) if name.startswith("-") or not name else Status(0, "assumed")


def _may_fail(command: syntax.Command) -> bool:
    """Whether `set -e` looks at the status of this command: of compound ones only at a subshell's."""
    if isinstance(command, syntax.Group):
        return command.is_subshell
    return isinstance(command, syntax.Simple | syntax.Calculation | syntax.Condition)


def _as_word(node: syntax.AssignmentNode) -> syntax.WordNode:
    """An assignment as an ordinary word."""
    size = len(node.name) + 1 + node.is_appended
    name = syntax.Literal(f"{node.name}{'+' * node.is_appended}=", range(node.start, node.start + size), quoted=False)
    return syntax.WordNode((name, *node.value.parts), node.start, node.end, node.value.raw)


def _merged(one: _Variable, two: _Variable, why: str) -> _Variable:
    """What two values of a variable have in common, from the beginning."""
    if one == two:
        return one
    if one.elements is not None and two.elements is not None and not one.is_map:
        common: dict[int | str, Value] = {}
        for key in sorted(key for key in one.elements if isinstance(key, int)):
            if key not in two.elements or plain(one.elements[key]) != plain(two.elements[key]):
                break
            common[key] = one.elements[key]
        if len(common) == len(one.elements) == len(two.elements):
            return one
        following = max((key for key in common if isinstance(key, int)), default=-1) + 1
        common[following] = (*_unknown(why), Piece("", None, "\0many"))
        return replace(one, elements=common)
    if one.elements is None and two.elements is None:
        left, right = one.value or (), two.value or ()
        texts = plain(left), plain(right)
        if texts[0] is not None and texts[0] == texts[1] and bool(_why(left)) == bool(_why(right)):
            return one
        if texts[0] is None or texts[1] is None:
            return replace(one, value=_unknown(_why(left) or _why(right)))
        if _absent(left) or _absent(right):
            return replace(one, value=_unknown(_why(left) or _why(right)))
        size = next(
            (i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(len(t or "") for t in texts)
        )
        rests = [rest for rest in (texts[0][size:], texts[1][size:]) if rest]
        glue = (Piece(" "),) if size and all(rest[0].isspace() for rest in rests) else ()
        return replace(one, value=(*_cut(left, 0, size), *glue, *_unknown(why)))
    return replace(one, value=None, elements={0: (*_unknown(why), Piece("", None, "\0many"))})


def _absent(value: Value) -> bool:
    """Whether this is a variable that nothing sets."""
    return bool(value) and all(piece.text == "" and piece.why.startswith("unset variable") for piece in value)


def _many(value: Value) -> bool:
    """Whether this element stands for an unknown number of elements."""
    return bool(value) and value[-1].why == "\0many"


def _is_all(subscript: syntax.Parts | None) -> str:
    if subscript is not None and len(subscript) == 1 and isinstance(subscript[0], syntax.Literal):
        return subscript[0].text if subscript[0].text in ("@", "*") else ""
    return ""


def _cased(value: Value, case: str) -> Value:
    return tuple(
        piece._replace(text=piece.text.lower() if case == "l" else piece.text.upper()) if piece.text else piece
        for piece in value
    )


def _glued(pieces: Sequence[Piece]) -> Value:
    """The same value with fewer pieces: those without a doubt are joined where they meet."""
    glued: list[Piece] = []
    run: list[Piece] = []

    def flush() -> None:
        if len(run) == 1:
            glued.append(run[0])
        elif run:
            at: list[int] | None = []
            for piece in run:
                if piece.at is None:
                    at = None
                    break
                at.extend(piece.at)
            glued.append(Piece("".join(piece.text or "" for piece in run), at))
        run.clear()

    for piece in pieces:
        if piece.text is None or piece.why or piece.outside:
            flush()
            glued.append(piece)
        elif piece.text:
            if run and (run[0].at is None) != (piece.at is None):
                flush()
            run.append(piece)
    flush()
    return tuple(glued)


def _element(item: _Field) -> Value:
    """An argument as an element of a list; one that may be none or several says so."""
    value = tuple(piece._replace(quoted=False) for piece in item.pieces)
    return (*value, Piece("", None, "\0many")) if item.is_many or (item.is_absent and item.pieces) else value


def _field(value: Value) -> _Field:
    made = _Field()
    made.pieces = list(value)
    made.is_quoted = True
    return made


def _has_glob(item: _Field) -> bool:
    for piece in item.pieces:
        if not piece.quoted and piece.text and re.search(r"[*?]|\[.*\]", piece.text[:4096]):
            return True
    return False


def _places(value: Iterable[Piece]) -> Sequence[int] | None:
    pieces = [piece for piece in value if piece.text]
    if any(piece.at is None for piece in pieces):
        return None
    if len(pieces) == 1:
        return pieces[0].at
    return [offset for piece in pieces for offset in piece.at or ()]


def _word(item: _Field, node: syntax.WordNode, expands: frozenset[str]) -> Word:
    why = _why(piece for piece in item.pieces if piece.why != "\0many")
    if item.is_many:
        expands = expands | {"parameter"} if "command" not in expands else expands
    if why:
        return Word(None, node.start, node.end, node.raw, why, None, expands)
    return Word(plain(tuple(item.pieces)), node.start, node.end, node.raw, "", _places(item.pieces), expands)


def _whole_word(value: Value, node: syntax.WordNode) -> Word:
    why = _why(value)
    if why:
        return Word(None, node.start, node.end, node.raw, why)
    return Word(plain(value), node.start, node.end, node.raw, "", _places(value))


# Tests

_INTEGER = re.compile(r"\s*[-+]?\d{1,18}\s*", re.ASCII)
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_COMPARES: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


def _not(value: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    return None if value is None else not value


def _both(one: bool | None, two: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _either(one: bool | None, two: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    return _not(_both(_not(one), _not(two)))


def _status(result: bool | None, outside: bool, why: str) -> Status:  # noqa: FBT001 - as conditions return them
    return Status(None if result is None else int(not result), "given" if outside else "certain", why)


_PLAIN_REGEX = re.compile(r"(\^)?((?:[\w\s,:/@%=<>~#&;\"'!-]|\\.|\[\^?[\w\s,:/@%.=-]+\][+*]?|\.[+*]?)*)(\$)?", re.ASCII)


def _regex_matches(text: str | None, pattern: Value) -> bool | None:
    """Whether a text matches a regular expression that is plain enough to be judged; None otherwise."""
    expression = plain(pattern)
    if text is None or expression is None or len(text) > 256 or len(expression) > 64:
        return None
    found = _PLAIN_REGEX.fullmatch(expression)
    if not found or sum(expression.count(sign) for sign in "+*") > 3:
        return None
    return (
        bool(re.search(expression + "\\Z" if not found[3] else expression[:-1] + "\\Z", text))
        if found[3]
        else bool(re.search(expression, text))
    )


# Builtins

_DECLARES = frozenset({"declare", "typeset", "export", "readonly", "local"})
_Builtin = Callable[[_Runner, Sequence[_Field], Sequence[Word], syntax.Simple], "Signal | None"]


def _true(runner: _Runner, *_: object) -> None:
    runner.status = _SUCCESS


def _false(runner: _Runner, *_: object) -> None:
    runner.status = _FAILURE


def _test(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> None:
    arguments = list(fields[1:])
    if words[0].value == "[":
        if not arguments or plain(tuple(arguments[-1].pieces)) != "]":
            runner.status = Status(2)
            return
        arguments.pop()
    unknown = next((piece.why for item in arguments for piece in item.pieces if piece.text is None), "a file")
    runner.status = _status(*runner._test(arguments), unknown)


def _exit(runner: _Runner, fields: Sequence[_Field], *_: object) -> Signal:
    runner.status = _code(fields, runner.status)
    return Signal("exit")


def _return(runner: _Runner, fields: Sequence[_Field], *_: object) -> Signal | None:
    runner.status = _code(fields, runner.status)
    if not runner._calls:
        runner.status = _FAILURE
        return None
    return Signal("return")


def _code(fields: Sequence[_Field], status: Status) -> Status:
    if len(fields) < 2:
        return status
    text = plain(tuple(fields[1].pieces))
    return Status(int(text) & 255 if text and _INTEGER.fullmatch(text) else None)


def _break(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> Signal:
    runner.status = _SUCCESS
    text = plain(tuple(fields[1].pieces)) if len(fields) > 1 else "1"
    return Signal(str(words[0].value), int(text) if text and text.isdecimal() and 0 < len(text) < 6 else 1)


def _eval(runner: _Runner, fields: Sequence[_Field], *_: object) -> Signal | None:
    pieces: list[Piece] = []
    for index, item in enumerate(fields[1:]):
        if index:
            pieces.append(Piece(" ", None))
        pieces += item.pieces
    return runner._nested_script(tuple(pieces), runner.place)


def _source(runner: _Runner, fields: Sequence[_Field], *_: object) -> None:
    path = plain(tuple(fields[1].pieces)) if len(fields) > 1 else None
    runner.status = Status(0, "assumed")
    raw = path or "".join(piece.text or "" for item in fields[1:2] for piece in item.pieces)
    if _HARMLESS_SOURCES.search(raw):
        return
    state = runner.state
    runner._spend(len(state.variables))
    state.variables = {name: _Variable(_unknown("sourced file")) for name in state.variables}
    state.unset.clear()
    state.sourced, state.environment, state.ifs = True, None, None
    state.ifs = " \t\n"


def _set_options(runner: _Runner, fields: Sequence[_Field], *_: object) -> None:
    runner.status = _SUCCESS
    letters = set(runner.state.options)
    long = {"errexit": "e", "nounset": "u", "allexport": "a", "noglob": "f"}
    index = 1
    while index < len(fields):
        text = plain(tuple(fields[index].pieces))
        if text is None:
            runner.state.positional = [_unknown("a condition")]
            return
        if text == "--" or text[:1] not in ("-", "+") or len(text) < 2:
            break
        change = letters.add if text[0] == "-" else letters.discard
        for letter in text[1:]:
            if letter == "o":
                index += 1
                name = plain(tuple(fields[index].pieces)) if index < len(fields) else None
                change(long.get(name or "", "-"))
            else:
                change(letter)
        index += 1
    runner.state.options = frozenset(letters)
    if index < len(fields):
        text = plain(tuple(fields[index].pieces))
        first = index + 1 if text in ("--", "-") else index
        runner.state.positional = [_element(item) for item in fields[first:]]


def _shift(runner: _Runner, fields: Sequence[_Field], *_: object) -> None:
    text = plain(tuple(fields[1].pieces)) if len(fields) > 1 else "1"
    positional = runner.state.positional
    if positional is None:
        runner.status = Status(1, "given")
        return
    if text is None or not text.isdecimal() or any(_many(value) for value in positional):
        why = _why(next((value for value in positional if _many(value)), _unknown("a condition")))
        runner.state.positional = [(*_unknown(why), Piece("", None, "\0many"))]
        runner.status = Status(None)
        return
    count = int(text) if len(text) < 8 else len(positional) + 1
    runner.status = _SUCCESS if count <= len(positional) else _FAILURE
    if count <= len(positional):
        del positional[:count]


def _unset(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> None:
    runner.status = _SUCCESS
    is_function = False
    for word in words[1:]:
        if word.value in ("-f", "-v", "-n"):
            is_function = word.value == "-f"
            continue
        if word.value is None:
            continue
        name, bracket, subscript = word.value.partition("[")
        variable = runner.state.variables.get(name)
        if is_function or (variable is None and name in runner.state.functions and name not in runner.known):
            runner.state.functions.pop(name, None)
        elif bracket and variable and variable.elements is not None:
            key: str | int = subscript.rstrip("]")
            if not variable.is_map:
                key = int(key) if str(key).isdecimal() and len(str(key)) < 9 else -1
            elements = {k: v for k, v in variable.elements.items() if k != key}
            runner._spend(len(elements))
            runner.state.variables[name] = replace(variable, elements=elements)
        else:
            runner.state.variables.pop(name, None)
            runner.state.unset.add(name)
            runner.state.environment = None
            if name == "IFS":
                runner.state.ifs = " \t\n"


def _read(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> None:
    """`read`, `mapfile`, `readarray`: what comes from input cannot be known."""
    runner.status = Status(None)
    is_list = words[0].value != "read"
    names, skip = [], False
    for word in words[1:]:
        text = word.value
        if skip:
            skip = False
            if is_list is None:
                names.append(text)
        elif text and text.startswith("-"):
            skip = text[-1] in "dinNptuCcOs" and not (words[0].value == "read" and text[-1] == "s")
            if words[0].value == "read" and text[-1] == "a":
                is_list = True
        elif text and _NAME.fullmatch(text):
            names.append(text)
    for name in names or (["MAPFILE"] if is_list else ["REPLY"]):
        if name is None:
            continue
        if is_list:
            value = {0: (*_unknown("input"), Piece("", None, "\0many"))}
            runner.state.variables[name] = replace(
                runner.state.variables.get(name) or _Variable(), value=None, elements=dict(value)
            )
        else:
            runner._set(name, _unknown("input"))
        runner.state.environment = None


def _printf(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], command: syntax.Simple) -> None:
    if len(words) > 2 and words[1].value == "-v" and words[2].value and _NAME.fullmatch(words[2].value):
        runner._set(words[2].value, _unknown("printf"))
    else:
        runner._invoke(list(words), command, ())
    runner.status = _SUCCESS


def _let(runner: _Runner, fields: Sequence[_Field], *_: object) -> None:
    runner.status = _FAILURE
    for item in fields[1:]:
        text = plain(tuple(item.pieces))
        if text is None:
            runner.status = Status(None)
            continue
        try:
            number = runner._calculator(text).value()
        except Unreadable:
            runner.status = _FAILURE
            return
        outside = _is_outside(item.pieces) or runner._arithmetic_outside
        runner.status = Status(None if number is None else int(not number), "given" if outside else "certain")


def _wait(runner: _Runner, *_: object) -> None:
    runner._wait()
    runner.status = Status(0, "assumed")


def _trap(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> None:
    runner.status = _SUCCESS
    runner._is_trapped = True
    if len(words) > 2 and any(word.value in ("EXIT", "0") for word in words[2:]):
        runner._traps = [] if words[1].value in ("-", "") else [tuple(fields[1].pieces)]


def _cd(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], command: syntax.Simple) -> None:
    runner._invoke(list(words), command, ())
    runner.state.variables.pop("PWD", None)
    runner.status = Status(0, "assumed")


def _getopts(runner: _Runner, fields: Sequence[_Field], words: Sequence[Word], _: syntax.Simple) -> None:
    runner.status = Status(1, "given") if runner.state.positional is None and len(words) < 4 else Status(None)
    if len(words) > 2 and words[2].value and _NAME.fullmatch(words[2].value):
        runner._set(words[2].value, _unknown("unset variable @"))
        runner._set("OPTARG", _unknown("unset variable @"))
        runner._set("OPTIND", _unknown("unset variable @"))


_BUILTINS: dict[str | None, _Builtin] = {
    ":": _true,
    "true": _true,
    "false": _false,
    "test": _test,
    "[": _test,
    "exit": _exit,
    "return": _return,
    "break": _break,
    "continue": _break,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "set": _set_options,
    "shift": _shift,
    "unset": _unset,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "printf": _printf,
    "let": _let,
    "wait": _wait,
    "trap": _trap,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "getopts": _getopts,
    **dict.fromkeys(("shopt", "alias", "unalias", "hash", "ulimit", "umask", "disown", "jobs", "enable"), _true),
}
