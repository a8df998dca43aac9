"""Records of the history: requests, results, and their differences; frozen dataclasses.

Times are UTC, as in `2026-11-21T13:37:18Z`; durations are seconds of the monotonic clock. `None` means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_runbooks.core.earlier_schema import SERVER, WAKE_UP, rename_keys
from vllm_runbooks.core.records import Verdict

CHECK, RUN, SERVE, PROBE, WAKE = KINDS = ("check", "run", "serve", "probe", "wake")
"""Kinds of entries: a suite, a runbook's run, a supervised launch, a probe, a turn of a schedule."""


@dataclass(frozen=True)
class HistoryEntry:
    """An action in the history, secrets replaced."""

    id: str
    """12 hexadecimal digits."""
    kind: str
    """One of `KINDS`."""
    subject: str
    """Subject of the action, as in "single-gpu-oom on gpu-memory-busy"."""
    began: str
    """UTC, to the second."""
    seconds: float | None = None
    """Duration by the monotonic clock; None if it has not ended, or ended unseen."""
    verdict: Verdict | None = None
    """None if it has not ended."""
    reason: str = ""
    """One line: why this verdict."""
    part_of: str | None = None
    """Id of the check that it belongs to."""
    job: str | None = None
    """Name of the schedule, if any."""
    host: str = ""
    """Name of its host."""
    vllm: str | None = None
    """vLLM release of the subject."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The request, with defaults."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """The results."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Environment of the run."""

    @property
    def says(self) -> str:
        """A description for people."""
        return f"{_A[self.kind]} {self.subject}" if self.kind in _A else f"{self.kind} {self.subject}"


_A = {
    CHECK: "a check of",
    RUN: "a run of",
    SERVE: "a supervised launch of",
    PROBE: "a probe of",
    WAKE: "a scheduler run",
}


def with_present_names(entry: HistoryEntry) -> HistoryEntry:
    """Rename fields of schema 1: results of a probe, and all of a wake-up."""
    if entry.kind == WAKE:
        inputs, results = (rename_keys(data, WAKE_UP) for data in (entry.inputs, entry.results))
        return replace(entry, inputs=inputs, results=results)
    return replace(entry, results=rename_keys(entry.results, SERVER)) if entry.kind == PROBE else entry


@dataclass(frozen=True)
class Differing:
    """A value that differs between two entries."""

    name: str
    """Dotted name, as in `parameters.evidence`."""
    a: Any
    """None if absent or unknown."""
    b: Any
    change: float | None = None
    """The second number less the first."""
    percent: float | None = None
    """Difference in percent of the first value; None if the first is 0."""
    note: str = ""
    """Effect of the difference, or that a default has changed."""
    is_significant: bool = True
    """Whether it makes two results differ; durations always vary, and do not."""


@dataclass(frozen=True)
class EntryDifferences:
    """Two entries compared: output of `diff --format json`."""

    a: str
    """Description of the first."""
    b: str
    inputs: tuple[Differing, ...]
    """Different inputs, with defaults that another release changed."""
    environment: tuple[Differing, ...]
    results: tuple[Differing, ...]
    notes: tuple[str, ...] = ()
    """Parts that could not be compared, with the reasons."""


@dataclass(frozen=True)
class TrendPoint:
    """An entry of a trend."""

    id: str
    began: str
    verdict: Verdict | None
    seconds: float | None
    facts: Mapping[str, float | None]


@dataclass(frozen=True)
class Trend:
    """A subject over time: output of `history trend --format json`."""

    subject: str
    points: tuple[TrendPoint, ...]
    """The oldest first."""


@dataclass(frozen=True)
class Listed:
    """Output of `history --format json`."""

    entries: tuple[HistoryEntry, ...]
    """The newest first."""
