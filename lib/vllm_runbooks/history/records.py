"""Records of the history: what was asked for, what it came to, and how two of these differ; frozen dataclasses.

Times are UTC, as in `2026-11-21T13:37:18Z`; durations are seconds of the monotonic clock. `None` means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.core.records import Verdict

CHECK, RUN, SERVE, PROBE, WAKE = KINDS = ("check", "run", "serve", "probe", "wake")
"""What is kept: a suite, a runbook's run, a guarded start, a look at a running server, a schedule's turn."""


@dataclass(frozen=True)
class HistoryEntry:
    """One thing that was done, as the history keeps it; secrets replaced."""

    id: str
    """12 hexadecimal digits."""
    kind: str
    """One of `KINDS`."""
    subject: str
    """What it was about, as in "single-gpu-oom on gpu-memory-busy"."""
    began: str
    """UTC, to the second."""
    seconds: float | None = None
    """How long it took, by the monotonic clock; None: it has not ended, or nobody was there to see it end."""
    verdict: Verdict | None = None
    """None: it has not ended."""
    reason: str = ""
    """One line: why this verdict."""
    part_of: str | None = None
    """Id of the check that it belongs to."""
    job: str | None = None
    """Name of the schedule that started it."""
    host: str = ""
    """Name of the host that it was done on."""
    vllm: str | None = None
    """Release of vLLM that it was about."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What it was asked for, defaults included."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """What it came to."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Where it was done."""

    @property
    def says(self) -> str:
        """What it is, for people."""
        return f"{_A[self.kind]} {self.subject}" if self.kind in _A else f"{self.kind} {self.subject}"


_A = {
    CHECK: "a check of",
    RUN: "a run of",
    SERVE: "a guarded start of",
    PROBE: "a probe of",
    WAKE: "a turn of the schedule",
}


@dataclass(frozen=True)
class Differing:
    """A value that is not the same in two entries."""

    name: str
    """Where it stands, as in `parameters.evidence`."""
    a: Any
    """None: it is not there, or unknown."""
    b: Any
    by: float | None = None
    """Of two numbers the second less the first."""
    percent: float | None = None
    """That, of the first; None where the first is 0."""
    note: str = ""
    """What the difference does, or that a default has moved."""
    counts: bool = True
    """Whether it makes two results differ; what is measured in seconds is never the same twice, and does not."""


@dataclass(frozen=True)
class EntryDifferences:
    """Two entries side by side: what `diff --format json` prints."""

    a: str
    """What the first one is."""
    b: str
    inputs: tuple[Differing, ...]
    """What was asked for, defaults that another release changed included."""
    environment: tuple[Differing, ...]
    results: tuple[Differing, ...]
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""


@dataclass(frozen=True)
class TrendPoint:
    """One entry of a trend."""

    id: str
    began: str
    verdict: Verdict | None
    seconds: float | None
    facts: Mapping[str, float | None]


@dataclass(frozen=True)
class Trend:
    """How a subject went over time: what `history trend --format json` prints."""

    subject: str
    points: tuple[TrendPoint, ...]
    """The oldest first."""


@dataclass(frozen=True)
class Listed:
    """What `history --format json` prints."""

    entries: tuple[HistoryEntry, ...]
    """The newest first."""
