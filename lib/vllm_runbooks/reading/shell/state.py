"""State of a simulated shell, its limits, and the signals that end a list of commands early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.expansion import TooMuch
from vllm_runbooks.reading.shell.values import Input, ScriptRun, State, Value, ValuePiece, Variable, unknowable

MOST_WORDS = 100_000
"""Maximum number of words of all commands together."""
MOST_NESTED = 40
"""Nested calls and compound commands that are followed."""
_MOST_WORK = 20_000_000  # characters and variables copied, and characters matched, in all: some seconds


class Status(NamedTuple):
    """An exit status, by `origin` "certain", "given" from outside or "assumed".

    `why` its code is unknown.
    """

    code: int | None
    origin: str = "certain"
    why: str = "the result of a command"


SUCCESS, FAILURE, WANTING = Status(0), Status(1), Status(1, "given")


class Signal(NamedTuple):
    """Reason for which a list of commands ends early."""

    kind: str
    levels: int = 1


class Stop(Exception):  # noqa: N818 - control flow
    """An expansion error that makes bash exit; uncertain if it depends on the outside."""


class Skip(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash skip the command."""


@dataclass
class Shell:
    """A shell in the middle of a script; `state` is the part that a subshell copies."""

    inherited: Mapping[str, str]
    """Variables that are set from outside."""
    run_items: Callable[[Shell, Sequence[syntax.Item]], Signal | None]
    """Runs the commands of substitutions and nested scripts."""
    result: ScriptRun = field(default_factory=ScriptRun)
    state: State = field(default_factory=State)
    status: Status = SUCCESS
    reached: bool = True
    """Whether bash reaches this point if nothing is set from outside and programs succeed."""
    conditional: int = 0
    """Conditions around the command that depend on something else."""
    place: int = 0
    depth: int = 0
    word_count: int = 0
    work: int = 0
    steps: int = 0
    tested: int = 0
    """Conditions around the command, within which `set -e` ends nothing."""
    assigning: dict[str, tuple[Variable | None, Variable]] = field(default_factory=dict)
    """Variables assigned before the command that is expanded: their old and new values."""
    passed: dict[str, Variable] = field(default_factory=dict)
    """Variables assigned before the last program."""
    background: int = 0
    loops: int = 0
    """Loops around the command, within its function."""
    nested: int = 0
    """Command substitutions around the command."""
    rounds: list[tuple[str, str]] = field(default_factory=list)
    may_break: bool = False
    calls: list[dict[str, Variable | None]] = field(default_factory=list)
    """The variables that each function call around the command hides."""
    traps: list[tuple[Value, bool]] = field(default_factory=list)
    """The EXIT trap, and whether bash reaches the command that sets it."""
    error_trap: Value = ()
    waiting: list[int] = field(default_factory=list)
    """Background invocations without a `wait` so far."""
    is_trapped: bool = False
    failed: bool = False
    lost: State | None = None
    """State at which bash skips the rest of the line because a variable is missing."""
    exit_status: Status = WANTING
    """Exit status of the script if an outside input is missing."""
    input: Input = field(default_factory=lambda: Input(None))
    output: list[ValuePiece] | None = None
    """Captured output."""
    sure: tuple[int, int] = (0, 0)
    """`conditional` and `background` at the start of the capture."""
    getopts_place: tuple[int, int] = (0, 1)
    """Next argument of `getopts`, and the index in it."""
    signs: dict[str, ValuePiece] = field(default_factory=dict)
    """Characters that represent the unknown parts of a nested script."""
    answer: Status | None = None
    """The status of the last substitution."""
    returned: Status | None = None
    doubt: str = ""
    is_alone: bool = True
    """Whether the expanded parameter is the whole word."""
    arithmetic_outside: bool = False
    arithmetic_why: str = ""

    def variable(self, name: str) -> Variable:
        """A variable; an empty one if it does not exist."""
        return self.state.variables.get(name) or Variable()

    @property
    def ignores_case(self) -> bool:
        """Whether patterns match whatever the case."""
        return "nocasematch" in self.state.options

    def spend(self, amount: int) -> None:
        """Add to the work; raises TooMuch beyond a limit."""
        self.work += amount
        if self.work > _MOST_WORK:
            raise TooMuch

    def count_words(self, count: int) -> None:
        """Add to the number of words; raises TooMuch beyond a limit."""
        self.word_count += count
        if self.word_count > MOST_WORDS:
            raise TooMuch

    def copied(self) -> State:
        """A copy of the state, as a subshell gets it."""
        self.spend(len(self.state.variables) + 1)
        return self.state.copy()

    def write(self, value: Value) -> None:
        """Print a value; output that may not be printed is unknown."""
        if self.output is not None:
            self.spend(len(value) + sum(len(piece.text or "") for piece in value) // 8)
            is_sure = (self.conditional, self.background) == self.sure
            self.output += value if is_sure else unknowable("the result of a command")

    def mark_waited(self) -> None:
        """Mark everything in the background as waited for."""
        for index in self.waiting:
            self.result.invocations[index] = replace(self.result.invocations[index], is_waited=True)
        self.waiting.clear()
