"""Records of the schedule: a job, what was decided at a wake-up, and what came of it; frozen dataclasses.

Times are UTC, as in `2026-11-21T13:37:18Z`; durations are seconds of the monotonic clock. `None` means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from vllm_runbooks.core.records import Verdict


class Missed(StrEnum):
    """What becomes of a planned time at which nobody was awake."""

    RUN = "run"
    """One run makes up for all of them, if the last of them is not older than the grace."""
    SKIP = "skip"
    """They are told as missed."""


class Overlap(StrEnum):
    """What becomes of a planned time at which the job's last run is still going on."""

    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True)
class ScheduledJob:
    """What is run, when, and who is told."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}

    name: str
    at: str
    """Five fields, as cron has them: minute, hour, day of the month, month, day of the week."""
    zone: str
    """Whose wall clock that is: a name of the IANA data, as in "Europe/Berlin"."""
    command: tuple[str, ...]
    """`check`, `probe` or `run` of vllm-runbooks, or papermill, with what follows it."""
    folder: str
    """Where it is run: names of files in the command are of this folder."""
    added: str
    """UTC; nothing that was planned before is owed."""
    missed: Missed = Missed.RUN
    grace_s: float = 3600.0
    """How late a run may begin."""
    overlap: Overlap = Overlap.SKIP
    timeout_s: float = 3600.0
    """Longest time of a run; then all its processes are ended."""
    webhook_env: str | None = None
    """Name of the variable that holds the webhook's address, which is a secret."""
    metrics: str | None = None
    """The text file that Prometheus' node exporter collects."""
    out: str | None = None
    """Folder in which every run has one of its own; None: in the user's state folder."""


@dataclass(frozen=True)
class Jobs:
    """All jobs of this user."""

    jobs: tuple[ScheduledJob, ...]


@dataclass(frozen=True)
class MissedTime:
    """A planned time for which nothing was run."""

    planned: str
    reason: str
    """"missed", "coalesced" or "overlap"."""
    message: str
    """One line."""
    count: int = 1
    """How many it stands for: of a long absence only the last ones are told apart."""


@dataclass(frozen=True)
class JudgedPart:
    """One part of a run, such as a runbook on a case."""

    subject: str
    verdict: Verdict
    root_cause: str | None = None
    """Id of the symptom."""
    reason: str = ""


@dataclass(frozen=True)
class StatusChange:
    """A change that is reported: the verdict became worse, or all is well again."""

    id: str
    """The same however often it is sent."""
    event: str
    """"worse" or "recovered"."""
    at: str
    job: str
    verdict: Verdict
    """Of the whole run."""
    message: str
    """One line."""
    changed: tuple[JudgedPart, ...]
    """What became worse, or what is well again."""
    host: str = ""
    folder: str | None = None
    """Of the run, with its output and results."""


@dataclass(frozen=True)
class JobStanding:
    """What is known of a job after a run, and what was told of it."""

    number: int = 0
    """How often it was written: of several the largest is the last."""
    sound: Mapping[str, Verdict] = field(default_factory=dict)
    """By subject the verdict with which all was well last."""
    reported: Mapping[str, Verdict] = field(default_factory=dict)
    """By subject the worst that was told since then."""
    causes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By subject the root causes that were told since then."""
    last_run: str | None = None
    last_success: str | None = None
    """When a run passed last; one that is skipped has not."""
    seconds: float | None = None
    """Of the last run; None: none, or it ended without a word."""
    runs: Mapping[str, Verdict] = field(default_factory=dict)
    """By subject the verdict of the last run."""
    verdict: Verdict | None = None
    missed_total: int = 0
    """Planned times without a run of their own since the job was added."""


@dataclass(frozen=True)
class Turn:
    """What one wake-up came to for one job."""

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
    """Planned times of runs that ended without a word."""
    passed: tuple[MissedTime, ...] = ()
    parts: tuple[JudgedPart, ...] = ()
    change: StatusChange | None = None
    sent: tuple[str, ...] = ()
    """Ids of the changes that the webhook has taken."""
    unsent: tuple[str, ...] = ()
    """Ids of those that wait for the next wake-up."""
    folder: str | None = None
    junit: str | None = None
    """Path of the JUnit XML of a `check` or `run`."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turns:
    """What one wake-up came to."""

    turns: tuple[Turn, ...]
