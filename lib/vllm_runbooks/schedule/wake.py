"""A wake-up: decide, execute due runs, store the result, and report.

Every decision rests on the history's entries of the kind `wake`; a killed wake-up leaves an entry
without an end, and the next one continues from it. Each job has two locks: one while deciding, one
while it runs; both end with their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import NotStoredError
from vllm_runbooks.core.record_forms import document, record
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_record
from vllm_runbooks.history.records import WAKE, HistoryEntry
from vllm_runbooks.history.store import History
from vllm_runbooks.host.here import here
from vllm_runbooks.schedule import changes, cron, jobs, policy, reports, runs, variables
from vllm_runbooks.schedule.records import CheckedPart, JobStanding, MissedTime, ScheduledJob, StatusChange, Turn

Clock = Callable[[], datetime]
_ENTRIES = 500
"""Most entries of a job, the newest first."""
_DECIDING_S = 30.0
_PENDING = timedelta(days=7)
"""Duration of the retries of a change."""


def clock() -> datetime:
    """The current time."""
    return datetime.now(tz=UTC)


def turn(job: ScheduledJob, kept: History, *, now: Clock = clock, pause: Callable[[float], None] = time.sleep) -> Turn:
    """Execute the due run of a job, and report changes.

    Args:
        job: The job.
        kept: The history; a run that cannot be stored must not begin.
        now: The clock.
        pause: Waits before a webhook is retried.

    Raises:
        InputError: No decision is possible, or the job's variables cannot be read.
    """
    environment = {**os.environ, **variables.read(job.name)}
    with contextlib.ExitStack() as stack:
        with _lock(job.name, "deciding", wait_s=_DECIDING_S) as is_ours:
            if not is_ours:
                raise InputError(
                    f"{job.name}: another wake-up has been running for {_DECIDING_S:g} s; check its process"
                )
            is_running = not stack.enter_context(_lock(job.name, "running"))
            # Only of this command: other commands report their own interruptions.
            kept.interrupted(kind=WAKE, job=job.name)
            entries = kept.entries(kind=WAKE, job=job.name, limit=_ENTRIES)
            standing = _standing(entries)
            interrupted: tuple[str, ...] = ()
            change: StatusChange | None = None
            if not is_running:
                standing, interrupted, change = _interrupted(job, kept, entries, standing, now())
            at = now()
            decision = policy.decide(
                job,
                at,
                [str(entry.inputs["planned"]) for entry in entries if "planned" in entry.inputs],
                is_running=is_running,
                # The end of a run without a result is unknown.
                free_since=policy.moment(standing.last_run or "") if standing.seconds is not None else None,
            )
            id_ = None
            if decision.run is not None:
                planned = policy.stamp(decision.run)
                id_ = kept.begin(WAKE, job.name, inputs={"planned": planned, "action": "run"}, job=job.name)
            standing = _pass(job, kept, decision.passed, standing, part_of=id_)
            if id_ is None:
                stack.close()  # before another process decides: no run is active
        if id_ is not None and decision.run is not None:
            standing, outcome = _run(job, kept, (id_, decision.run), standing, environment=environment, now=now)
        else:
            did = "waits" if decision.is_waiting else "passed" if decision.passed else "nothing"
            outcome = Turn(job.name, did, decision.says, change=change, next=policy.stamp(decision.next))
    outcome = replace(outcome, interrupted=interrupted, passed=decision.passed)
    notes = list(outcome.notes)
    added = policy.moment(job.added)
    if added is not None and added > now() + timedelta(seconds=policy.AHEAD_S):
        notes.append(f"{job.name}: was added at {job.added}, in the future; add it again")
    if outcome.action != "nothing" or interrupted or (job.metrics and not Path(job.folder, job.metrics).is_file()):
        try:
            reports.write_metrics(job, standing, _next(job, now()))
        except NotStoredError as error:
            notes.append(str(error))
    url = environment.get(job.webhook_env or "", "")
    sent, unsent = _tell(job, kept, now(), url=url, did_run=outcome.action == "ran", notes=notes, pause=pause)
    return redact_record(replace(outcome, sent=sent, unsent=unsent, notes=tuple(notes)))


def status(outcome: Turn) -> int:
    """Exit status of a turn: 0 nothing is wrong; 1 something is, or is unknown."""
    is_sound = outcome.verdict in (None, Verdict.PASS, Verdict.SKIPPED)
    is_missed = any(missed.reason != "coalesced" for missed in outcome.passed)
    return int(not is_sound or is_missed or bool(outcome.interrupted or outcome.unsent or outcome.notes))


def _run(
    job: ScheduledJob,
    kept: History,
    begun: tuple[str, datetime],
    standing: JobStanding,
    *,
    environment: Mapping[str, str],
    now: Clock,
) -> tuple[JobStanding, Turn]:
    """Run a job, and store the result; `begun` is the entry's id and the planned time."""
    id_, planned = begun
    began = policy.stamp(now())
    try:
        ran = runs.run(job, runs.folder(job, now()), kept, environment)
        judged, seconds, reason, folder = ran.judged, ran.seconds, ran.reason, str(ran.folder)
        junit = str(ran.junit) if ran.junit else None
    except InputError as error:
        judged, seconds, reason = (CheckedPart(changes.WHOLE, Verdict.ERROR, None, str(error)),), 0.0, str(error)
        folder, junit = None, None
    standing, change = changes.compare(standing, judged, job=job.name, at=began, host=here().host, folder=folder)
    verdict, ended = changes.worst(judged), policy.stamp(now())
    standing = replace(
        standing,
        last_run=ended,
        last_success=ended if verdict is Verdict.PASS else standing.last_success,
        seconds=seconds,
        runs={part.subject: part.verdict for part in judged},
        verdict=verdict,
        number=standing.number + 1,
    )
    results: dict[str, Any] = {
        "standing": document(standing),
        "change": document(change) if change else None,
        "folder": folder,
    }
    kept.end(id_, verdict, reason, seconds=seconds, results=results)
    says = f"the run of {policy.stamp(planned)} ended with {verdict}: {reason}"
    return standing, Turn(
        job.name,
        "ran",
        says,
        planned=policy.stamp(planned),
        next=policy.stamp(_next(job, now())),
        verdict=verdict,
        seconds=seconds,
        parts=judged,
        change=change,
        folder=folder,
        junit=junit,
    )


def _next(job: ScheduledJob, at: datetime) -> datetime:
    return cron.after(cron.parse(job.at), cron.zone(job.zone), at)


def _standing(entries: list[HistoryEntry]) -> JobStanding:
    """Last standing, which may be in an entry that began before others."""
    standings = [changes.standing(entry.results["standing"]) for entry in entries if entry.results.get("standing")]
    return max(standings, key=lambda standing: standing.number, default=JobStanding())


def _interrupted(
    job: ScheduledJob, kept: History, entries: list[HistoryEntry], standing: JobStanding, at: datetime
) -> tuple[JobStanding, tuple[str, ...], StatusChange | None]:
    """End entries of runs that ended without a result: the lock of the job is free."""
    planned_times, change = [], None
    for entry in reversed(entries):
        if entry.inputs.get("action") != "run" or entry.results.get("standing"):
            continue
        if entry.verdict not in (None, Verdict.INTERRUPTED):
            continue
        planned = str(entry.inputs.get("planned"))
        reason = f"the run of {planned} ended without a result"
        judged = [CheckedPart(changes.WHOLE, Verdict.INTERRUPTED, None, reason)]
        standing, change = changes.compare(standing, judged, job=job.name, at=policy.stamp(at), host=here().host)
        standing = replace(
            standing, last_run=policy.stamp(at), seconds=None, verdict=Verdict.INTERRUPTED, number=standing.number + 1
        )
        results = {"standing": document(standing), "change": document(change) if change else None}
        kept.end(entry.id, Verdict.INTERRUPTED, reason, seconds=None, results=results)
        planned_times.append(planned)
    return standing, tuple(planned_times), change


def _pass(
    job: ScheduledJob, kept: History, passed: tuple[MissedTime, ...], standing: JobStanding, *, part_of: str | None
) -> JobStanding:
    """Store the planned times without a run; the last entry has their total."""
    total = standing.missed_total + sum(missed.count for missed in passed)
    standing = replace(standing, missed_total=total, number=standing.number + 1)
    for number, missed in enumerate(passed, 1):
        inputs = {"planned": missed.planned, "action": missed.reason, "count": missed.count}
        results = {"standing": document(standing)} if number == len(passed) else {}
        kept.add(
            WAKE, job.name, Verdict.SKIPPED, f"{missed.reason}: {missed.message}", inputs=inputs, results=results,
            seconds=None, part_of=part_of, job=job.name,
        )  # fmt: skip
    return standing


def _tell(
    job: ScheduledJob,
    kept: History,
    at: datetime,
    *,
    url: str,
    did_run: bool,
    notes: list[str],
    pause: Callable[[float], None],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Send the changes that the webhook has not accepted yet, the oldest first.

    Returns the ids of accepted and of other ones.
    """
    if job.webhook_env is None:
        return (), ()
    entries = kept.entries(kind=WAKE, job=job.name, limit=_ENTRIES)
    settled = {entry.inputs.get("sent") for entry in entries}
    refused = {entry.inputs.get("refused") for entry in entries} if not did_run else set()
    waiting = [
        (entry, change)
        for entry in reversed(entries)
        if (change := _change_of(entry)) is not None and change.id not in settled | refused and _is_young(change, at)
    ]
    if not waiting:
        return (), ()
    sent: list[str] = []
    with _lock(job.name, "telling") as is_ours:
        if not is_ours:
            return (), ()
        try:
            url = reports.address(job, url)
            for entry, change in waiting:
                try:
                    reports.send(url, reports.payload(change), id_=change.id, pause=pause)
                except reports.NotSentError as error:
                    if error.is_refused:
                        _note(job, kept, entry, {"refused": change.id}, str(error))
                    raise
                _note(job, kept, entry, {"sent": change.id}, "delivered to the webhook")
                sent.append(change.id)
        except (InputError, reports.NotSentError) as error:
            message = str(error)
            notes.append(message if message.startswith(f"{job.name}:") else f"{job.name}: {message}")
    return tuple(sent), tuple(change.id for _, change in waiting if change.id not in sent)


def _note(job: ScheduledJob, kept: History, entry: HistoryEntry, inputs: dict[str, str], reason: str) -> None:
    whole = entry.part_of or entry.id
    verdict = Verdict.PASS if "sent" in inputs else Verdict.ERROR
    kept.add(WAKE, job.name, verdict, reason, inputs=inputs, results={}, seconds=None, part_of=whole, job=job.name)


def _change_of(entry: HistoryEntry) -> StatusChange | None:
    data = entry.results.get("change")
    if not isinstance(data, dict):
        return None
    try:
        return record(StatusChange, data)
    except (KeyError, TypeError, ValueError):
        return None


def _is_young(change: StatusChange, at: datetime) -> bool:
    """Whether a change is still news; a clock that was set back makes none old."""
    changed = policy.moment(change.at)
    return changed is not None and at - changed <= _PENDING


def forget() -> tuple[int, list[str]]:
    """Remove the runs of all jobs in the default folder; returns their number.

    Running jobs keep theirs, and are returned as well.

    Raises:
        InputError: A run cannot be removed.
    """
    folder = jobs.state()
    files = list(folder.iterdir()) if folder.is_dir() else []
    names = sorted({path.name.partition(".")[0] for path in files})
    running = []
    for name in names:
        with _lock(name, "running") as is_ours:
            if not is_ours:
                running.append(name)
                continue
            try:
                for path in folder.glob(f"{name}.*"):
                    path.unlink(missing_ok=True)
                if (folder / name).is_dir():
                    shutil.rmtree(folder / name)
            except OSError as error:
                raise InputError(f"{error.filename or folder}: cannot be removed ({error.strerror})") from None
    return len(names) - len(running), running


@contextlib.contextmanager
def _lock(name: str, what: str, *, wait_s: float = 0.0) -> Iterator[bool]:
    """Hold a lock of a job if it becomes free in time; yields whether it is held."""
    folder = jobs.state()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{name}.{what}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used: {error.strerror}; check XDG_STATE_HOME") from None
    try:
        until = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return
    finally:
        os.close(descriptor)
