"""The state of a shell whose script is followed, its limits, and what may end a list of commands early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.expansion import TooMuch
from vllm_runbooks.reading.shell.values import Input, ScriptRun, State, Value, ValuePiece, Variable, unknowable

MOST_WORDS = 100_000
"""Words of all commands together."""
MOST_NESTED = 40
"""Nested calls and compound commands that are followed."""
_MOST_WORK = 20_000_000  # characters and variables copied, and characters matched, in all: some seconds


class Status(NamedTuple):
    """An exit status, by `origin` "certain", "given" from outside or "assumed"; `why` its code is unknown."""

    code: int | None
    origin: str = "certain"
    why: str = "the result of a command"


SUCCESS, FAILURE, WANTING = Status(0), Status(1), Status(1, "given")


class Signal(NamedTuple):
    """Reason for which a list of commands ends early."""

    kind: str
    levels: int = 1


class Stop(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash leave the script; not certain where it depends on what is outside."""


class Skip(Exception):  # noqa: N818 - control flow
    """An error of expansion that makes bash skip the command."""


@dataclass
class Shell:
    """A shell in the middle of a script: what a subshell copies is in `state`."""

    inherited: Mapping[str, str]
    """Variables that are set from outside."""
    run_items: Callable[[Shell, Sequence[syntax.Item]], Signal | None]
    """Runs the commands of substitutions and nested scripts."""
    result: ScriptRun = field(default_factory=ScriptRun)
    state: State = field(default_factory=State)
    status: Status = SUCCESS
    reached: bool = True
    """Whether bash comes here when nothing is set from outside and programs succeed."""
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
    """The trap of EXIT, and whether bash reaches the place that sets it."""
    error_trap: Value = ()
    waiting: list[int] = field(default_factory=list)
    """Invocations in the background that nothing waits for yet."""
    is_trapped: bool = False
    failed: bool = False
    lost: State | None = None
    """The state where bash leaves out the rest of the line for want of a variable."""
    exit_status: Status = WANTING
    """How the script ends for want of something from outside."""
    input: Input = field(default_factory=lambda: Input(None))
    output: list[ValuePiece] | None = None
    """Captured output."""
    sure: tuple[int, int] = (0, 0)
    """`conditional` and `background` where the capture began."""
    getopts_place: tuple[int, int] = (0, 1)
    """The argument of `getopts` that comes next, and the place in it."""
    signs: dict[str, ValuePiece] = field(default_factory=dict)
    """Characters that represent the unknown parts of a nested script."""
    answer: Status | None = None
    """The status of the last substitution."""
    returned: Status | None = None
    doubt: str = ""
    is_alone: bool = True
    """Whether the parameter that is expanded is the whole word."""
    arithmetic_outside: bool = False
    arithmetic_why: str = ""

    def variable(self, name: str) -> Variable:
        """A variable; an empty one where there is none."""
        return self.state.variables.get(name) or Variable()

    @property
    def ignores_case(self) -> bool:
        """Whether patterns match whatever the case."""
        return "nocasematch" in self.state.options

    def spend(self, amount: int) -> None:
        """Count work; raises TooMuch beyond a limit."""
        self.work += amount
        if self.work > _MOST_WORK:
            raise TooMuch

    def count_words(self, count: int) -> None:
        """Count the words of a command; raises TooMuch beyond a limit."""
        self.word_count += count
        if self.word_count > MOST_WORDS:
            raise TooMuch

    def copied(self) -> State:
        """A copy of the state, as a subshell gets it."""
        self.spend(len(self.state.variables) + 1)
        return self.state.copy()

    def write(self, value: Value) -> None:
        """Print a value; what may not be printed is unknown."""
        if self.output is not None:
            self.spend(len(value) + sum(len(piece.text or "") for piece in value) // 8)
            is_sure = (self.conditional, self.background) == self.sure
            self.output += value if is_sure else unknowable("the result of a command")

    def mark_waited(self) -> None:
        """Mark everything in the background as waited for."""
        for index in self.waiting:
            self.result.invocations[index] = replace(self.result.invocations[index], is_waited=True)
        self.waiting.clear()
