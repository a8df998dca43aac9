"""Records of the schedule: a job, the decision at a wake-up, and its result; frozen dataclasses.

Times are UTC, as in `2026-11-21T13:37:18Z`; durations are seconds of the monotonic clock. `None`
means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from vllm_runbooks.core.records import Verdict


class Missed(StrEnum):
    """Action for a planned time without a wake-up."""

    RUN = "run"
    """One run replaces all of them, if the last of them is not older than the grace period."""
    SKIP = "skip"
    """Report them as missed."""


class Overlap(StrEnum):
    """Action for a planned time while the job's last run continues."""

    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True)
class ScheduledJob:
    """A command, its schedule, and who is notified."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}

    name: str
    at: str
    """Five fields, as cron has them: minute, hour, day of the month, month, day of the week."""
    zone: str
    """Time zone of the schedule: an IANA name, as in "Europe/Berlin"."""
    command: tuple[str, ...]
    """`check`, `probe` or `run` of vllm-runbooks, or papermill, with its arguments."""
    folder: str
    """Working directory of the command."""
    added: str
    """UTC; earlier planned times are not due."""
    missed: Missed = Missed.RUN
    grace_s: float = 3600.0
    """Longest delay of a run."""
    overlap: Overlap = Overlap.SKIP
    timeout_s: float = 3600.0
    """Timeout of a run; then all its processes are ended."""
    webhook_env: str | None = None
    """Name of the variable with the webhook's address, which is a secret."""
    metrics: str | None = None
    """Text file for the collector of Prometheus' node exporter."""
    out: str | None = None
    """Folder in which every run gets its own; None for the user's state folder."""


@dataclass(frozen=True)
class Jobs:
    """All jobs of this user."""

    jobs: tuple[ScheduledJob, ...]


@dataclass(frozen=True)
class MissedTime:
    """A planned time without a run."""

    planned: str
    reason: str
    """"missed", "coalesced" or "overlap"."""
    message: str
    """One line."""
    count: int = 1
    """Number of planned times: of a long absence only the last are listed separately."""


@dataclass(frozen=True)
class CheckedPart:
    """A part of a run, such as a runbook on a case."""

    subject: str
    verdict: Verdict
    root_cause: str | None = None
    """Id of the symptom."""
    reason: str = ""


@dataclass(frozen=True)
class StatusChange:
    """A reported change: a regression, or the recovery."""

    id: str
    """Constant over repeated deliveries."""
    event: str
    """"worse" or "recovered"."""
    at: str
    job: str
    verdict: Verdict
    """Verdict of the whole run."""
    message: str
    """One line."""
    changed: tuple[CheckedPart, ...]
    """Parts that became worse, or recovered."""
    host: str = ""
    folder: str | None = None
    """Folder of the run, with its output and results."""


@dataclass(frozen=True)
class JobStanding:
    """State of a job after a run, and reported failures."""

    number: int = 0
    """Increases with each write: of several the largest is the last."""
    sound: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict by subject when all was well last."""
    reported: Mapping[str, Verdict] = field(default_factory=dict)
    """Worst reported verdict by subject since then."""
    causes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Reported root causes by subject since then."""
    last_run: str | None = None
    last_success: str | None = None
    """When a run passed last; a skipped run did not."""
    seconds: float | None = None
    """Duration of the last run; None if there was none, or if it ended unseen."""
    runs: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict of the last run by subject."""
    verdict: Verdict | None = None
    missed_total: int = 0
    """Planned times without their own run since the job was added."""


@dataclass(frozen=True)
class Turn:
    """Result of a wake-up for one job."""

    job: str
    action: str
    """"ran", "passed" (a planned time without a run), "waits" (for the last run's end) or "nothing"."""
    message: str
    """One line."""
    planned: str | None = None
    """The planned time of the run."""
    next: str | None = None
    """The next planned time."""
    verdict: Verdict | None = None
    seconds: float | None = None
    interrupted: tuple[str, ...] = ()
    """Planned times of runs that ended unseen."""
    passed: tuple[MissedTime, ...] = ()
    parts: tuple[CheckedPart, ...] = ()
    change: StatusChange | None = None
    sent: tuple[str, ...] = ()
    """Ids of the changes that the webhook accepted."""
    unsent: tuple[str, ...] = ()
    """Ids of the changes that wait for the next wake-up."""
    folder: str | None = None
    junit: str | None = None
    """Path of the JUnit XML of a `check` or `run`."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turns:
    """Results of a wake-up."""

    turns: tuple[Turn, ...]
