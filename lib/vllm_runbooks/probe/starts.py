"""Records of launches on a host. Units are in names as in `core.records`, None means unknown, times are monotonic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_runbooks.core.records import Answer, Edit, Outcome


class LaunchResult(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    LEFT_OUT = "left out"
    """Not applicable, or not requested."""

    @property
    def word(self) -> str:
        """The result in text."""
        return "skipped" if self is LaunchResult.LEFT_OUT else self.value


@dataclass(frozen=True)
class Check:
    """A check before a launch."""

    name: str
    """"command", "plan", "port", "model", "memory" or "lock"; "nodes" for a multi-node launch."""
    result: LaunchResult
    message: str
    """One line: result and fix."""
    seconds: float = 0.0
    """Duration, with deliberate waits."""
    node: str | None = None
    """The node that ran it; None if it is about all of them."""


@dataclass(frozen=True)
class HealthCheck:
    """One step of the ladder that a server must climb to be called ready."""

    name: str
    result: LaunchResult
    message: str
    seconds: float | None = None
    is_needed: bool = True
    """Whether a server that fails it is not ready."""
    is_alive: bool = False
    """Whether a failing server responded properly, and only rejected the request."""
    reason: str = ""
    """Reason of a failure, a word of `catalog.serving.REASONS`."""


def first_failure(checks: Iterable[HealthCheck]) -> HealthCheck | None:
    return next((check for check in checks if check.result is LaunchResult.FAILED and check.is_needed), None)


@dataclass(frozen=True)
class LaunchEvent:
    """An event that the supervisor observed and the server's log cannot show."""

    at_s: float
    kind: str
    """"stopped", "idle", "lopsided", "overdue", "gone", "goes-on", "unanswered", "oom-kill", "memory-released" or
    "memory-taken"."""
    message: str
    phase: str | None = None
    pid: int | None = None
    process: str | None = None


@dataclass(frozen=True)
class LaunchChange:
    """A difference of a further attempt, and its cost."""

    reason: str
    title: str
    cost: str
    edits: tuple[Edit, ...] = ()
    """Empty for the same command."""


@dataclass(frozen=True)
class LoadResult:
    """Result of a small load on a ready server, as reported by vLLM's `vllm bench serve`."""

    command: str
    status: int | None
    """Exit status; None if it was ended or could not run."""
    requests: int
    answered: int | None = None
    """None without a measurement, as below."""
    seconds: float | None = None
    tokens_per_s: float | None = None
    """Output tokens of all requests."""
    time_to_first_token_ms: float | None = None
    """Median."""
    inter_token_latency_ms: float | None = None
    """Median per further token."""
    reason: str = ""


@dataclass(frozen=True)
class PhaseTime:
    """Startup phase of a launch, with the time at which its log reached it."""

    name: str
    at_s: float
    seconds: float | None
    """Seconds until the next phase, or ready; None if the launch ended in it."""


@dataclass(frozen=True)
class Attempt:
    """One launch attempt of the server."""

    number: int
    command: str
    """Redacted."""
    change: LaunchChange | None
    """Change from the attempt before."""
    outcome: Outcome
    ready_s: float | None
    """None if it was never ready."""
    seconds: float
    ending: str
    """Description such as "ended with exit status 1"."""
    phases: tuple[PhaseTime, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    events: tuple[LaunchEvent, ...] = ()
    answer: Answer | None = None
    """Diagnosis; None if it was ready and ended by a signal."""
    status: int | None = None
    """Exit status, negative for a signal; None if we ended it."""
    is_proved: bool = False
    """Whether the proof finished with the server alive."""
    measured: LoadResult | None = None


@dataclass(frozen=True)
class Printed:
    """Line that a release prints when a layout takes effect, and whether a log has it."""

    what: str
    text: str
    source: str
    """Location in vLLM's source."""
    wanted: int | None
    """Expected count; None for at least one."""
    times: int
    """Count in the log."""
    result: LaunchResult


@dataclass(frozen=True)
class Guarded:
    """A supervised launch: output of `serve --format json` when it has ended."""

    id: str
    """Tag of its processes."""
    vllm: str | None
    """Release that the command was checked against."""
    checks: tuple[Check, ...]
    attempts: tuple[Attempt, ...]
    status: int
    """Exit status."""
    folder: str | None = None
    waited_s: float = 0.0
    """Deliberate waits for locks and stable memory."""
    cpu_s: float | None = None
    """CPU seconds of the supervisor until ready."""
    server_cpu_s: float | None = None
    """CPU seconds of the server until ready."""
    notes: tuple[str, ...] = field(default=())
    """Checks that could not run, with the reasons."""

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def failed_check(self) -> str | None:
        """Description of the check that prevented the launch; None if there was an attempt."""
        failed = next((check for check in self.checks if check.result is LaunchResult.FAILED), None)
        return None if self.attempts or failed is None else f"not launched: {failed.name}: {failed.message}"


@dataclass(frozen=True)
class Fleet:
    """Copies of one server, launched together behind a proxy."""

    servers: tuple[Guarded, ...]
    proxy: str
    """Address of the proxy; empty if not all servers were ready."""
    answered: tuple[int | None, ...] = ()
    """Requests answered by each server, by its own metrics; None if unknown."""
    measured: LoadResult | None = None
    folder: str | None = None
