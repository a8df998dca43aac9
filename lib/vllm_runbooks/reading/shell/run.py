"""What bash would run of a script, word by word, worked out from its tree; nothing is executed.

The premise: the script runs without arguments, with nothing set from outside that it does not set itself, and the
programs that it calls succeed. What also depends on something else (a variable from outside, a program's answer, a
file) is marked, and both sides of a condition on it are read. Rounds, words and text are bounded.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.builtins import BUILTINS, DECLARES, NUMERIC, Shell, as_status, declare, printed, unary
from vllm_runbooks.reading.shell.expansion import TooMuch, Unreadable, expand_braces, has_braces, search
from vllm_runbooks.reading.shell.values import (
    Assignment,
    Field,
    Input,
    Invocation,
    Piece,
    Result,
    State,
    Value,
    Variable,
    Word,
    as_element,
    as_field,
    as_whole_word,
    as_word,
    assignment_word,
    cut_value,
    is_outside,
    merged,
    plain,
    reason,
    text_value,
    unknowable,
)
from vllm_runbooks.reading.shell.words import FAILURE, MOST_NESTED, MOST_WORDS, SUCCESS, Signal, Skip, Status, Stop

MOST_ROUNDS = 1_000
"""Rounds of one loop that are followed."""
MOST_STEPS = 20_000
"""Simple commands that are followed, rounds and calls included."""
_ANSWERS = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "pgrep",
        "pidof",
        "diff",
        "cmp",
        "which",
        "ping",
        "nc",
        "ncat",
        "curl",
        "wget",
        "lsof",
        "expr",
        "mountpoint",
        "getent",
        "host",
        "dig",
        "jq",
        "id",
        "ss",
        "netstat",
        "fuser",
        "systemctl",
        "service",
        "git",
        "awk",
        "sed",
        "find",
        "flock",
    ]
)
"""Programs whose exit status answers a question: neither answer is assumed."""
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash"})
_NOT_FOUND = 127
_WANTING = Status(1, "given")
"""How a script ends for want of something from outside."""


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
    return _without_signs(runner.result, runner.signs) if runner.signs else runner.result


class _Turn(NamedTuple):
    """What running a loop's body once comes to."""

    is_over: bool
    """Whether it ends the loop."""
    signal: Signal | None
    """What it then is for those around the loop."""
    may_be_over: bool
    """Whether it may have ended the loop."""


@dataclass
class _Ends:
    """What those branches of an `if` come to that may be taken or not."""

    states: list[State] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    doubt: str = "the result of a command"
    likely: Status | None = None
    """The status behind the branch that is taken where programs succeed."""
    left: Status | None = None
    """The status with which that branch ends the script or the function."""
    is_sure: bool = True
    """Whether which branch is taken depends on nothing but that programs succeed."""
    is_lost: bool = False
    """Whether bash gives up within the `if`."""


class _Runner(Shell):
    """Follows the commands of a script."""

    def script(self, lines: Sequence[Sequence[syntax.Item]]) -> None:
        """A whole script, with what it does at its end."""
        self._lines(lines)
        if not self.reached:
            self.status = self._left
        self._run_traps(reached=True)
        if self.is_trapped:
            self.waited()

    def _run_traps(self, *, reached: bool) -> None:
        """What a shell does at its end, however it comes to it."""
        for trap, is_set in self.traps[-1:]:
            self.traps, self.reached = [], reached and is_set
            self._caught(partial(self.nested_script, trap, self.place))

    def _lines(self, lines: Sequence[Sequence[syntax.Item]]) -> Signal | None:
        """Lines as bash reads them: an error of expansion leaves out the rest of one."""
        for line in lines:
            reached = self.reached
            signal = self._caught(partial(self.items, line))
            if self._lost:
                self.state, self._lost, self.reached = self._lost, None, reached
            if signal and signal.kind != "skip":
                return signal
        return None

    def _caught(self, go: Callable[[], Signal | None]) -> Signal | None:
        """Run something; an error of expansion in it becomes a signal."""
        counts = self._depth, self._tested, self._background, self._nested, self.conditional, len(self._rounds)
        try:
            return go()
        except (Skip, Stop) as error:
            self._depth, self._tested, self._background, self._nested, self.conditional, rounds = counts
            del self._rounds[rounds:]
            self.status = FAILURE
            return Signal("skip" if isinstance(error, Skip) else "exit")

    def items(self, items: Sequence[syntax.Item]) -> Signal | None:
        """Commands one after the other; what ends them early."""
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise TooMuch
        signal = None
        for item in items:
            self.place = item.start
            if item.is_background:
                self._background += 1
                self._subshell(partial(self._and_or, item.pipelines))
                self._background -= 1
                self.status = SUCCESS
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
                        self.untaken(go)
                    continue
            if signal:
                return signal
        return None

    def _taken(self, go: Callable[[], Signal | None], status: Status) -> Signal | None:
        """Run what a condition leads to. Where it ends the script for want of something, go on as if it were there."""
        if status.origin == "certain":
            return go()
        before = self.copied()
        self.conditional += 1
        signal = go()
        self.conditional -= 1
        if signal and signal.kind in ("exit", "return"):
            left = self.status._replace(origin="given")
            if signal.kind == "return" and self.reached:
                self._returned = left
            self.state, self._left = before, left
            self.reached = False
            return None
        return signal

    def substituted(self, items: Sequence[syntax.Item]) -> Value:
        """Run the commands of a substitution: what they print, without the line ends behind it."""
        self._nested += 1
        printed = self._printed(lambda: self.items(items))
        self._nested -= 1
        if not items:
            self.status = SUCCESS
        self._answer = self.status
        if plain(printed) is None:
            return unknowable("command substitution")
        pieces = list(printed)
        for index in range(len(pieces) - 1, -1, -1):
            text = pieces[index].text or ""
            cut = text.rstrip("\n")
            pieces[index : index + 1] = cut_value((pieces[index],), 0, len(cut)) if text else (pieces[index],)
            if cut:
                break
        return tuple(pieces)

    def _printed(self, go: Callable[[], Signal | None]) -> Value:
        """Run something in a subshell: what it prints."""
        outer, self._output = self._output, []
        sure, self._sure = self._sure, (self.conditional, self._background)
        self._subshell(go)
        printed, self._output, self._sure = self._output, outer, sure
        return tuple(printed)

    def write(self, value: Value) -> None:
        """Print something; what may not be printed cannot be known."""
        if self._output is not None:
            self.spend(len(value) + sum(len(piece.text or "") for piece in value) // 8)
            is_sure = (self.conditional, self._background) == self._sure
            self._output += value if is_sure else unknowable("the result of a command")

    def untaken(self, go: Callable[[], Signal | None]) -> None:
        """Read what bash would run under other circumstances, without effect."""
        before, status, reached, may_break = self.copied(), self.status, self.reached, self._may_break
        output, self._output = self._output, None
        self.conditional += 1
        self.reached = False
        self._caught(go)
        self.conditional -= 1
        self.state, self.status, self.reached, self._may_break = before, status, reached, may_break
        self._output = output

    def _maybe(self, go: Callable[[], Signal | None], why: str, *, likely: bool = True) -> Signal | None:
        """Run what may or may not be run: what differs afterwards cannot be known."""
        before, reached = self.copied(), self.reached
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

    def _merge(self, other: State, why: str) -> None:
        """Keep of the state what another state agrees with."""
        mine = self.state
        self.spend(len(mine.variables) + len(other.variables))
        for name in {*mine.variables, *other.variables}:
            one, two = mine.variables.get(name), other.variables.get(name)
            if one is not two:
                mine.variables[name] = merged(
                    one or self._absent_variable(name), two or self._absent_variable(name), why
                )
        mine.unset &= other.unset
        mine.functions = {**other.functions, **mine.functions}
        if [plain(v) for v in mine.positional or ()] != [plain(v) for v in other.positional or ()]:
            mine.positional = [(*unknowable(why), Piece("", None, "\0many"))]
        mine.options &= other.options
        mine.sourced |= other.sourced
        mine.environment = None
        mine.ifs = mine.ifs if mine.ifs == other.ifs else None

    def _absent_variable(self, name: str) -> Variable:
        return Variable(() if name in self.state.unset else (Piece("", None, f"unset variable {name}", True),))

    def _subshell(self, go: Callable[[], Signal | None]) -> None:
        before, reached, traps = self.copied(), self.reached, self.traps
        self.traps = []
        self._left = _WANTING
        calls, self.calls = self.calls, [dict(saved) for saved in self.calls]
        loops, self.loops = self.loops, 0
        error_trap, self.error_trap = self.error_trap, ()
        assigning, lost = self._assigning, self._lost
        self._caught(go)
        self._assigning, self._lost = assigning, lost
        if self.traps:
            left, was_reached = self.status, self.reached
            self._run_traps(reached=reached)
            self.status, self.reached = left, was_reached
        if reached and not self.reached:
            self.status = self._left
        self.state, self.reached, self.traps, self.calls, self.loops = before, reached, traps, calls, loops
        self.error_trap = error_trap

    def _pipeline(self, pipeline: syntax.Pipeline, *, tested: bool) -> Signal | None:
        self._tested += tested or pipeline.is_negated
        signal = None
        if len(pipeline.commands) == 1:
            signal = self._command(pipeline.commands[0])
        elif pipeline.commands:
            failed: Status | None = None
            outer = self.input
            for command in pipeline.commands[:-1]:
                self.input = Input(self._printed(partial(self._command, command)))
                failed = self.status if self.status.code else failed
            self._subshell(partial(self._command, pipeline.commands[-1]))
            failed = self.status if self.status.code else failed
            self.input = outer
            if failed and "pipefail" in self.state.options:
                self.status = failed
        else:
            self.status = SUCCESS
        self._tested -= tested or pipeline.is_negated
        if self._assigning:
            self._hide_assigned()
            self._assigning = {}
        if signal:
            return signal
        status = self.status
        if pipeline.is_negated:
            self.status = status._replace(code=None if status.code is None else int(not status.code))
        is_failure = self._is_failure(pipeline, tested=tested)
        if is_failure and self.error_trap and not self.calls and not self._nested:
            trap, self.error_trap = self.error_trap, ()
            signal = self.nested_script(trap, self.place)
            self.error_trap, self.status = trap, status
            if signal:
                return signal
        if is_failure and "e" in self.state.options:
            if status.origin == "certain":
                return Signal("exit")
            self.reached = False
        return None

    def _is_failure(self, pipeline: syntax.Pipeline, *, tested: bool) -> bool:
        """Whether a pipeline has failed in a way that `set -e` and `trap … ERR` look at."""
        return bool(
            self.status.code
            and not (self._tested or tested or pipeline.is_negated)
            and (len(pipeline.commands) != 1 or _may_fail(pipeline.commands[0]))
        )

    # Commands

    def _command(self, command: syntax.Command) -> Signal | None:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise TooMuch
        signal = self._dispatch(command)
        self._depth -= 1
        return signal

    def _dispatch(self, command: syntax.Command) -> Signal | None:
        match command:
            case syntax.Simple():
                return self._simple(command)
            case syntax.Redirected():
                return self._redirected(command.redirections, partial(self._dispatch, command.command))
            case syntax.Group(is_subshell=False):
                return self.items(command.items)
            case syntax.Group():
                self._subshell(lambda: self.items(command.items))
                return None
            case syntax.If():
                return self._if(command)
            case syntax.While():
                return self._looped(partial(self._while, command))
            case syntax.For():
                return self._looped(partial(self._for, command))
            case syntax.ForArithmetic():
                return self._looped(partial(self._for_arithmetic, command))
            case syntax.Case():
                return self._case(command)
            case syntax.Function():
                self.state.functions[command.name] = command.body
                self.status = SUCCESS
            case syntax.Calculation():
                try:
                    value, outside = self._calculate(command.parts, is_fatal=False)
                except Skip:
                    value, outside = 0, self.arithmetic_outside
                code = None if value is None else int(not value)
                self.status = Status(code, "given" if outside else "certain", self._arithmetic_why)
            case syntax.Condition():
                try:
                    self._doubt = "a file"
                    self.status = as_status(*self._condition(command), self._doubt)
                except Skip:
                    self.status = FAILURE
        return None

    def _redirected(self, redirections: Iterable[syntax.Redirection], go: Callable[[], Signal | None]) -> Signal | None:
        """Run something with its input and output redirected."""
        outer = self.input, self._output
        hidden = self._hide_assigned()
        for redirection in redirections:
            if redirection.operator in ("<", "<<", "<<-", "<<<"):
                given = self._given(redirection)
                if redirection.descriptor in ("", "0"):
                    self.input = given
                continue
            self._commands_in(redirection.target.parts)
            if redirection.descriptor in ("", "1") and redirection.operator not in ("<&", "<>"):
                self._output = None
        for name, variable in hidden.items():
            self._restore(name, variable)
        try:
            return go()
        finally:
            self.input, self._output = outer

    def _hide_assigned(self) -> dict[str, Variable | None]:
        """Take away what is assigned before the command whose assignments are worked out.

        Only the first command of a substitution there sees it, and no redirection does.
        """
        hidden: dict[str, Variable | None] = {}
        for name, (before, assigned) in self._assigning.items():
            if self.state.variables.get(name) is assigned:
                hidden[name] = assigned
                self._restore(name, before)
        return hidden

    def _given(self, redirection: syntax.Redirection) -> Input:
        """What a redirection gives to read."""
        parts, body = redirection.target.parts, redirection.body()
        if body is not None:
            return Input(self.document(body, is_literal=redirection.is_literal))
        if redirection.operator == "<<<":
            return Input((*self.one(parts), Piece("\n")))
        if redirection.operator == "<" and len(parts) == 1:
            (part,) = parts
            if isinstance(part, syntax.Substitution) and part.is_file:
                return Input(self._printed(lambda: self.items(part.script)))
            if redirection.target.raw == "/dev/null":
                return Input(())
        self._commands_in(parts)
        return Input(None)

    def document(self, body: Excerpt, *, is_literal: bool) -> Value:
        """The text of a here-document."""
        if is_literal:
            return self.one((syntax.Literal(body.text, body.at[: len(body.text)], quoted=True),))
        return self.one(syntax.read_document(body))

    def _if(self, command: syntax.If) -> Signal | None:
        ends = _Ends()
        reached, conditional = self.reached, self.conditional
        signal: Signal | None = None
        for index, (condition, body) in enumerate(command.clauses):
            now = self.reached
            self._tested += 1
            signal = self.items(condition)
            self._tested -= 1
            ends.is_lost |= now and not self.reached
            if signal:
                break
            status, now = self.status, self.reached
            if status.code is None or status.origin == "assumed":
                self._perhaps(body, status, ends)
            elif status.code == 0:
                if status.origin == "given":
                    for other in (*(after for _, after in command.clauses[index + 1 :]), command.otherwise):
                        if other:
                            self.untaken(partial(self.items, other))
                signal = self._taken(partial(self.items, body), status)
                break
            elif status.origin == "given":
                self.untaken(partial(self.items, body))
                self.conditional += 1
        else:
            now = self.reached
            if command.otherwise:
                signal = self.items(command.otherwise)
            else:
                self.status = SUCCESS
        ends.is_lost |= ends.is_sure and now and not self.reached
        if (self.conditional > conditional and ends.states) or ends.signals:
            self.reached = reached and not ends.is_lost
        if ends.left:
            self.reached, self._left = False, ends.left
        self.conditional = conditional
        return self._joined(ends, signal)

    def _perhaps(self, body: Sequence[syntax.Item], status: Status, ends: _Ends) -> None:
        """Run a branch that is taken if the status is right, of which that cannot be known for certain."""
        before, ends.doubt, ends.is_sure = self.copied(), status.why, ends.is_sure and status.code is not None
        reached, is_likely = self.reached, self.reached and not status.code
        self.conditional += 1
        self.reached = is_likely
        signal = self.items(body)
        if signal:
            ends.signals.append(signal)
        else:
            ends.states.append(self.state)
            ends.is_lost |= ends.is_sure and is_likely and not self.reached
        if status.code == 0 and not signal:
            ends.likely = ends.likely or self.status
        elif status.code == 0 and signal and signal.kind in ("exit", "return") and self.reached:
            ends.left = self.status._replace(origin="assumed")
            self._returned = ends.left if signal.kind == "return" else self._returned
        self.reached = reached and status.code != 0
        self.state, self.status = before, Status(None)

    def _joined(self, ends: _Ends, signal: Signal | None) -> Signal | None:
        """Go on behind an `if`, whose last branch has ended in the present state or with a signal."""
        states, signals = ends.states, ends.signals
        if not states and not signals:
            return signal
        likely = ends.likely or self.status
        if signal:
            signals.append(signal)
            if not states:
                return signals[0] if len({s.kind for s in signals}) == 1 else Signal("exit")
            self.state = states.pop()
        self._may_break |= any(s.kind in ("break", "continue") for s in signals)
        for state in states:
            self._merge(state, ends.doubt)
        is_sure = ends.is_sure and likely.code is not None
        self.status = Status(likely.code, "assumed", likely.why) if is_sure else Status(None, why=ends.doubt)
        return None

    def _while(self, command: syntax.While) -> Signal | None:
        ended = SUCCESS
        for turn in range(MOST_ROUNDS + 1):
            before, unread, cluster = self.copied(), self.input.place, self.cluster
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
                    self.untaken(lambda: self.items(command.body))
                break
            done = self._turn(partial(self.items, command.body))
            if done.is_over:
                self.status = SUCCESS
                return done.signal
            if done.may_be_over:
                self._merge(before, status.why)
                break
            ended = self.status
            if (
                status.origin == "certain"
                and self.state.variables == before.variables
                and self.input.place == unread
                and self.cluster == cluster
                and self.state.positional == before.positional
            ):
                return Signal("skip" if self._lost else "exit")
        else:
            raise TooMuch
        self.status = ended
        return None

    def _looped(self, go: Callable[[], Signal | None]) -> Signal | None:
        self.loops += 1
        try:
            return go()
        finally:
            self.loops -= 1

    def _turn(self, go: Callable[[], Signal | None]) -> _Turn:
        """Run a loop's body once."""
        may_break, self._may_break = self._may_break, False
        signal = go()
        may_be_over, self._may_break = self._may_break, may_break
        ended = self._loop_signal(signal) if signal else None
        return _Turn(signal is not None and (signal.kind != "continue" or ended is not None), ended, may_be_over)

    def _loop_signal(self, signal: Signal) -> Signal | None:
        """What a signal from a loop's body is for those around the loop."""
        if signal.kind in ("break", "continue"):
            return Signal(signal.kind, signal.levels - 1) if signal.levels > 1 else None
        return signal

    def _for(self, command: syntax.For) -> Signal | None:
        if command.words is None:
            fields = [as_field(value) for value in self.state.positional or ()]
            if self.state.positional is None:
                self.untaken(lambda: self._round(command.name, unknowable("unset variable @"), command.body))
        else:
            fields = [f for word in command.words for f in self._fields(word)[0]]
        conditional = self.conditional
        if not fields:
            self.status = SUCCESS
        if command.is_select:
            self._maybe(lambda: self._round(command.name, unknowable("input"), command.body), "input")
            return None
        for turn, item in enumerate(fields):
            if turn >= MOST_ROUNDS:
                raise TooMuch
            value = tuple(piece._replace(quoted=False) for piece in item.pieces)
            if item.is_absent and item.pieces:
                self.untaken(partial(self._round, command.name, value, command.body))
                continue
            go = partial(self._round, command.name, value, command.body)
            done = self._turn(partial(self._maybe, go, reason(item.pieces)) if item.is_many else go)
            if done.is_over:
                self.conditional = conditional
                return done.signal
            self.conditional += done.may_be_over
        self.conditional = conditional
        return None

    def _round(self, name: str, value: Value, body: Sequence[syntax.Item]) -> Signal | None:
        self.assign(name, value)
        self._rounds.append((name, plain(value) or ""))
        signal = self.items(body)
        self._rounds.pop()
        return signal

    def _for_arithmetic(self, command: syntax.ForArithmetic) -> Signal | None:
        begin, test, step = command.steps
        ended = SUCCESS
        self._step(begin)
        is_endless = not "".join(part.text if isinstance(part, syntax.Literal) else "x" for part in test).strip()
        for _ in range(MOST_ROUNDS + 1):
            value, outside = (1, False) if is_endless else self._step(test)
            if value is None:
                self._maybe(lambda: self.items(command.body), self._arithmetic_why)
                self._maybe(partial(self._stepped, step), self._arithmetic_why)
                break
            if not value:
                if outside:
                    self.untaken(lambda: self.items(command.body))
                break
            before = self.copied()
            done = self._turn(partial(self.items, command.body))
            if done.is_over:
                self.status = SUCCESS
                return done.signal
            if done.may_be_over:
                self._merge(before, "the result of a command")
                break
            ended = self.status
            self._step(step)
        else:
            raise TooMuch
        self.status = ended
        return None

    def _step(self, parts: syntax.Parts) -> tuple[int | None, bool]:
        """One of the three expressions of a loop; one that cannot be read ends it."""
        try:
            return self._calculate(parts)
        except Skip:
            return 0, False

    def _stepped(self, parts: syntax.Parts) -> None:
        self._step(parts)

    def _case(self, command: syntax.Case) -> Signal | None:
        word = self.one(command.word.parts)
        text, outside = plain(word), is_outside(word)
        if text is None:
            before, ends = self.copied(), []
            for _, body, _ in command.branches:
                self.state = before.copy()
                self._maybe(partial(self.items, body), reason(word))
                ends.append(self.state)
            self.state = before
            for state in ends:
                self._merge(state, reason(word))
            self.status = Status(None, why=reason(word))
            return None
        goes_on = False
        done = False
        is_run = False
        for patterns, body, end in command.branches:
            matched = goes_on or (not done and self._matches_any(patterns, text))
            if matched is None:
                self._maybe(partial(self.items, body), "a pattern")
                is_run = True
                continue
            if not matched:
                if outside:
                    self.untaken(partial(self.items, body))
                continue
            signal = self._taken(partial(self.items, body), Status(0, "given" if outside else "certain"))
            if signal:
                return signal
            goes_on, done = end == ";&", end == ";;"
            is_run = bool(body)
        if not is_run:
            self.status = SUCCESS
        return None

    def _matches_any(self, patterns: Iterable[syntax.WordNode], text: str) -> bool | None:
        for node in patterns:
            pattern = self._pattern(node.parts)
            if pattern is None:
                return None
            self.spend(pattern.work(text))
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
                results.append(self._condition(operand) if isinstance(operand, syntax.Condition) else (None, False))
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
        first = self.one(words[0].parts)
        if len(words) == 1:
            return unary(self, operator, first)
        outside = is_outside(first)
        text = plain(first)
        if operator in ("=", "!="):
            pattern = self._pattern(words[1].parts, is_tested=True)
            outside |= is_outside(self.one(words[1].parts))
            if pattern is None or text is None:
                return None, outside
            self.spend(pattern.work(text))
            return pattern.matches(text) == (operator == "="), outside
        if operator == "=~":
            return self._searched(text, words[1].parts), outside
        second = self.one(words[1].parts)
        outside |= is_outside(second)
        if operator in NUMERIC:
            numbers = [self._number(value) for value in (first, second)]
            if numbers[0] is None or numbers[1] is None:
                return None, outside
            return NUMERIC[operator](numbers[0], numbers[1]), outside
        other = plain(second)
        if text is None or other is None or operator not in "<>":
            return None, outside
        return (text < other if operator == "<" else text > other), outside

    def _searched(self, text: str | None, expression: syntax.Parts) -> bool | None:
        """Whether a regular expression is found in a text: what its groups find is noted."""
        pieces = self._pieces(expression)
        signs = [(piece.text or "", piece.quoted) for piece in pieces]
        groups: list[Value] = [(*unknowable("unset variable BASH_REMATCH"), Piece("", None, "\0many"))]
        matched = None
        repeats = sum(sign in "*+?{" for expression_text, _ in signs for sign in expression_text)
        self.spend(len(text or "") ** min(repeats, 3) // 16)
        if text is not None and not any(piece.text is None for piece in pieces):
            with contextlib.suppress(Unreadable):
                found = search(signs, text, ignores_case=self.ignores_case)
                groups, matched = [text_value(group) for group in found or ()], found is not None
        self.set_list("BASH_REMATCH", groups)
        return matched

    def _number(self, value: Value) -> int | None:
        text = plain(value)
        if text is None:
            return None
        try:
            return self.calculator(text).value()
        except Unreadable:
            raise Skip from None

    # Simple commands

    def _simple(self, command: syntax.Simple) -> Signal | None:
        self.place = command.start
        self._answer = None
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooMuch
        fields: list[Field] = []
        words: list[Word] = []
        declared: list[syntax.AssignmentNode] = []
        for node in command.words:
            if isinstance(node, syntax.AssignmentNode):
                is_plain = node.elements is not None or node.subscript is not None or not has_braces(node.value.parts)
                if is_plain or expand_braces(node.value.parts, MOST_WORDS - self._words)[0] is node.value.parts:
                    declared.append(node)
                    continue
                node = assignment_word(node)  # noqa: PLW2901 - braces make plain words of it: `export X={a,b}` assigns twice
            found, expands = self._fields(node, assigns=bool(declared) or self._is_declaration(words))
            self._words += len(found)
            if self._words > MOST_WORDS:
                raise TooMuch
            fields += found
            words += [as_word(item, node, expands) for item in found]
        go = partial(self._executed, command, fields, words, declared)
        return self._redirected(command.redirections, go) if command.redirections else go()

    def _executed(
        self, command: syntax.Simple, fields: list[Field], words: list[Word], declared: list[syntax.AssignmentNode]
    ) -> Signal | None:
        """Run a command whose words are expanded."""
        if not words and not declared:
            self._failed = False
            for assignment in command.assignments:
                self.assign_node(assignment, is_listed=True)
            self.status = FAILURE if self._failed else self._answer or SUCCESS
            return None
        name = words[0].value if words else None
        if (
            name in ("command", "builtin")
            and len(words) > 1
            and (words[1].value in BUILTINS or words[1].value in DECLARES)
        ):
            fields, words, name = fields[1:], words[1:], words[1].value
        if name in DECLARES:
            declare(self, str(name), fields[1:], words[1:], declared)
            return None
        if name is not None and name in self.state.functions:
            return self._call(self.state.functions[name], fields, command)
        if name in BUILTINS:
            return self._with(command.assignments, lambda: BUILTINS[name](self, fields, words, command))
        self.invoke(words, command)
        if name == "exec" and len(words) > 1:
            self.traps = []
            return Signal("exit")
        if name not in _SHELLS or not self._shell(fields):
            self.status = _outcome(name)
        self.write(printed(self, name, fields[1:]))
        return None

    def _with(self, assignments: Sequence[syntax.AssignmentNode], go: Callable[[], Signal | None]) -> Signal | None:
        """Run a builtin with the variables that are assigned before it."""
        assignments = self._assignable(assignments)
        if not assignments:
            return go()
        saved = {node.name: self.state.variables.get(node.name) for node in assignments}
        for node in assignments:
            self.assign_node(node)
            self.export(node.name)
        try:
            return go()
        finally:
            for name, variable in saved.items():
                self._restore(name, variable)

    def _is_declaration(self, words: Sequence[Word]) -> bool:
        return bool(words) and words[0].value in DECLARES

    def invoke(self, words: list[Word], command: syntax.Simple) -> None:
        """Note a program that runs."""
        documents = tuple(body for redirection in command.redirections if (body := redirection.body()) is not None)
        assigned = []
        environment = self._environment()
        self._passed = {}
        if command.assignments:
            given: dict[str, str | None] = {}
            saved: dict[str, Variable | None] = {}
            outer, self._assigning = self._assigning, dict(self._assigning)
            try:
                for node in self._assignable(command.assignments):
                    saved.setdefault(node.name, self.state.variables.get(node.name))
                    value = self._value_of(node)
                    if node.is_appended:
                        value = self.appended(node.name, value, is_integer=False)
                    word = as_whole_word(value, node.value)
                    assigned.append(Assignment(node.name, word, node.start, node.end, exported=True))
                    new = Variable(value, is_exported=True)
                    self.state.variables[node.name] = new
                    self._assigning[node.name] = saved[node.name], new
                    self.state.environment = None
                # Read at the end: `${A:=x}` in one of them may set another.
                for name in saved:
                    value = self.state.variables[name].value or ()
                    given[name] = None if reason(value) else plain(value)
                    self._passed[name] = self.state.variables[name]
            finally:
                self._assigning = outer
                for variable_name, variable in saved.items():
                    self._restore(variable_name, variable)
                if self._lost:
                    self._lost = self.copied()
            environment = self._environment()
            self.spend(len(environment))
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

    def waited(self) -> None:
        """Everything started in the background is waited for."""
        for index in self._waiting:
            self.result.invocations[index] = replace(self.result.invocations[index], is_waited=True)
        self._waiting.clear()

    def _call(self, body: syntax.Command, fields: Sequence[Field], command: syntax.Simple) -> Signal | None:
        saved = self.state.positional
        returned, self._returned = self._returned, None
        loops, self.loops = self.loops, 0
        self.state.positional = [as_element(item) for item in fields[1:]]
        self.calls.append({})
        for assignment in self._assignable(command.assignments):
            self.make_local(assignment.name)
            self.assign_node(assignment)
            self.export(assignment.name)
        try:
            signal = self._command(body)
        finally:
            for name, variable in self.calls.pop().items():
                self._restore(name, variable)
            self.state.positional, self.loops = saved, loops
        if signal and signal.kind == "return":
            signal = None
        if self._returned and not signal:
            self.reached, self.status = True, self._returned
        self._returned = returned
        return signal

    def _shell(self, fields: Sequence[Field]) -> bool:
        """`bash -c 'script'`, or `bash` that reads what it is given; whether the script is known."""
        texts = [plain(tuple(item.pieces)) or "" for item in fields]
        index = 1
        while index < len(texts) and re.fullmatch(r"[-+](?!-\Z)(?![A-Za-z]*c)\S*", texts[index]):
            index += 1
        values = [tuple(item.pieces) for item in fields]
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", "".join(texts[index : index + 1])) and index + 1 < len(texts):
            script, name, arguments = values[index + 1], (values[index + 2 :] or values)[0], values[index + 3 :]
        elif (index == len(texts) or any(text[:2] == "-s" for text in texts[1:index])) and (rest := self.input.rest()):
            script, name, arguments = rest, values[0], values[index:]
        else:
            return False

        passed = self._passed

        def go() -> Signal | None:
            state = self.state
            state.variables = {
                name: Variable(unknowable(v.export_doubt), is_exported=True) if v.export_doubt else v
                for name, v in (state.variables | passed).items()
                if v.is_exported
            }
            letters = "".join(text[1:] for text in texts[1 : index + 1] if text[:1] == "-")
            state.functions, state.options, state.environment = {}, frozenset(letters), None
            state.positional, state.name = arguments, name
            self.status = SUCCESS
            return self.nested_script(script, self.place)

        tested, self._tested = self._tested, 0
        self._subshell(go)
        self._tested = tested
        return not reason(script) and plain(script) is not None

    def nested_script(self, value: Value, place: int) -> Signal | None:
        if not any(not piece.why and (piece.text or "").strip() for piece in value):
            return None
        value = self._signed(value)
        text = plain(value) or ""
        self.spend(len(text) * 4)
        at: list[int] = []
        for piece in value:
            last = at[-1] + 1 if at else place
            at.extend(piece.at if piece.at is not None else [last] * len(piece.text or ""))
        tree = syntax.read(Excerpt(text, [*at, at[-1] + 1]), takes_groups="extglob" in self.state.options)
        signal = self._lines(tree.lines)
        if tree.faults and not signal:
            self.status = Status(2)
        return signal


def _without_signs(result: Result, meant: Mapping[str, Piece]) -> Result:
    """The result in which words say for what the signs in them stand that were made up."""
    variable = re.compile(r"unset variable (\w+)\Z")
    table = {
        ord(sign): f"${{{found[1]}}}" if (found := variable.match(piece.why)) else "$(...)"
        for sign, piece in meant.items()
    }

    def readable(word: Word) -> Word:
        return word if word.raw.isascii() else replace(word, raw=word.raw.translate(table))

    for index, run in enumerate(result.invocations):
        result.invocations[index] = replace(run, words=tuple(map(readable, run.words)))
    for index, made in enumerate(result.assignments):
        result.assignments[index] = replace(made, value=readable(made.value))
    return result


def _outcome(name: str | None) -> Status:
    """The exit status of a program: no program is called like an option, some answer a question, others succeed."""
    if name is None or name.rpartition("/")[2] in _ANSWERS:
        return Status(None)
    return Status(_NOT_FOUND) if name.startswith("-") or not name else Status(0, "assumed")


def _may_fail(command: syntax.Command) -> bool:
    """Whether `set -e` looks at the status of this command: of compound ones only at a subshell's."""
    if isinstance(command, syntax.Redirected):
        return _may_fail(command.command)
    if isinstance(command, syntax.Group):
        return command.is_subshell
    return isinstance(command, syntax.Simple | syntax.Calculation | syntax.Condition)
