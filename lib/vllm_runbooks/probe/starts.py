"""Records of what happens on a host: a guarded start with its checks, rungs, sightings and tries; frozen dataclasses.

Units stand in names as in `core.records`; `None` means unknown. Times are seconds since the guard began, by the
monotonic clock, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_runbooks.core.records import Answer, Edit, Outcome


class Result(StrEnum):
    """What came of a check or of a rung."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It could not be established."""
    LEFT_OUT = "left out"
    """It does not apply here, or it was not wanted."""


@dataclass(frozen=True)
class Check:
    """One thing that is looked at before a start."""

    name: str
    """"command", "plan", "port", "model", "memory" or "lock"; "nodes" of a start over several."""
    result: Result
    says: str
    """One line: what was found, and what to do."""
    seconds: float = 0.0
    """How long it took, deliberate waits included."""
    node: str | None = None
    """Which one made it, of a start over several; None: it is about all of it."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder that a server must climb to be called ready."""

    name: str
    """"port", "health", "server", "models", "model", "token", "stream", "chat" or "tools"."""
    result: Result
    says: str
    """One line: what answered, or why it is not reached."""
    seconds: float | None = None
    """Time to the whole answer."""
    is_needed: bool = True
    """Whether a server that fails it is not ready."""
    is_alive: bool = False
    """Of one that failed whether the server answered in good order, and only refused what was asked."""
    reason: str = ""
    """Of one that failed why, in a word of `catalog.serving.REASONS`."""


def first_failure(rungs: Iterable[Rung]) -> Rung | None:
    """The first needed rung that failed."""
    return next((rung for rung in rungs if rung.result is Result.FAILED and rung.is_needed), None)


@dataclass(frozen=True)
class Sighting:
    """Something that the guard saw and the server's log cannot say."""

    at_s: float
    kind: str
    """"stopped", "idle", "lopsided", "overdue", "gone", "goes-on", "unanswered", "oom-kill", "memory-released" or
    "memory-taken"."""
    says: str
    phase: str | None = None
    """Phase of the start at that moment."""
    pid: int | None = None
    process: str | None = None
    """Name of that process, as the system shows it."""


@dataclass(frozen=True)
class Change:
    """What a further try does differently, and what that costs."""

    reason: str
    """Symptom that asks for it, and why this is the next step."""
    title: str
    cost: str
    edits: tuple[Edit, ...] = ()
    """None: the same command again."""


@dataclass(frozen=True)
class Measured:
    """What a small load on a server that was ready showed, as vLLM's own `vllm bench serve` told it."""

    command: str
    """That sent the load, secrets replaced."""
    status: int | None
    """Its exit status; None: it was ended, or could not be run."""
    requests: int
    """That were to be sent."""
    answered: int | None = None
    """Of them; as the fields below None where nothing was measured."""
    seconds: float | None = None
    """For all of them."""
    tokens_per_s: float | None = None
    """Tokens of answers, all requests together."""
    first_token_ms: float | None = None
    """Median time to the first token of an answer."""
    each_token_ms: float | None = None
    """Median time for each further token of an answer."""
    why_none: str = ""
    """Why nothing was measured."""


@dataclass(frozen=True)
class PhaseTime:
    """A phase of a start, as its log was seen to reach it."""

    name: str
    at_s: float
    """Since the launch."""
    seconds: float | None
    """Up to the next phase, or until it was ready; None: it ended in it."""


@dataclass(frozen=True)
class Attempt:
    """One start of the server."""

    number: int
    """From 1."""
    command: str
    """As it was run, secrets replaced."""
    change: Change | None
    """From the attempt before; None of the first."""
    outcome: Outcome
    ready_s: float | None
    """Seconds from the launch until it was ready; None: never."""
    seconds: float
    ending: str
    """In words, as in "ended with exit status 1"."""
    phases: tuple[PhaseTime, ...] = ()
    rungs: tuple[Rung, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    answer: Answer | None = None
    """The diagnosis; None of a start that became ready and was ended by a signal."""
    status: int | None = None
    """Exit status of the server, below 0 of a signal; None: it was ended by the guard."""
    is_proved: bool = False
    """Whether it was there to the end of what was to be done with a server that is ready."""
    measured: Measured | None = None
    """What a load showed when it was ready; None: none was asked for, or the server did not live to its end."""


@dataclass(frozen=True)
class Printed:
    """A line that a release prints where a layout took effect, and whether a log holds it."""

    what: str
    """What it shows."""
    text: str
    """Part of the line, to the letter."""
    source: str
    """Where the release prints it."""
    wanted: int | None
    """How often; None: once at least."""
    times: int
    """How often the log holds it."""
    result: Result


@dataclass(frozen=True)
class Guarded:
    """A guarded start: what `serve --format json` prints when it has ended."""

    id: str
    """Mark of its processes."""
    vllm: str | None
    """Release that commands were judged by."""
    checks: tuple[Check, ...]
    attempts: tuple[Attempt, ...]
    status: int
    """Exit status that is handed on."""
    folder: str | None = None
    """Where its log and records lie."""
    waited_s: float = 0.0
    """Deliberate waits: for a lock, for memory to be stable."""
    cpu_s: float | None = None
    """CPU seconds of the guard until ready."""
    server_cpu_s: float | None = None
    """CPU seconds of the server's processes until then."""
    notes: tuple[str, ...] = field(default=())
    """What could not be watched or checked, and why."""

    @property
    def last(self) -> Attempt | None:
        """The last try."""
        return self.attempts[-1] if self.attempts else None

    @property
    def failed_check(self) -> str | None:
        """The check that prevented the launch, in words; None if a try was made."""
        failed = next((check for check in self.checks if check.result is Result.FAILED), None)
        return None if self.attempts or failed is None else f"not started: {failed.name}: {failed.says}"


@dataclass(frozen=True)
class Fleet:
    """Copies of one server, started together behind a proxy."""

    servers: tuple[Guarded, ...]
    proxy: str
    """Where the proxy answered; empty where not every server was ready."""
    answered: tuple[int | None, ...] = ()
    """Requests of the load that each server answered, by its own metrics; None: it did not tell."""
    measured: Measured | None = None
    """What the load that went through the proxy showed."""
    folder: str | None = None
