"""What happens when somebody wakes us: decide, run what is due, keep what came of it, and tell.

Everything that is decided from lies in the history, as entries of the kind `wake`; a wake-up that is killed at any
moment leaves an entry without an end there, and the next one goes on from it. Two locks hold for each job: one for the
moment of deciding, one for as long as the job runs; both end with their process.
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
from vllm_runbooks.history.records import WAKE, Entry
from vllm_runbooks.history.store import History
from vllm_runbooks.host.here import here
from vllm_runbooks.schedule import changes, cron, jobs, policy, reports, runs, variables
from vllm_runbooks.schedule.records import Job, Judged, Passed, Standing, Told, Turn

Clock = Callable[[], datetime]
_ENTRIES = 500
"""The newest entries of a job that are read."""
_DECIDING_S = 30.0
_PENDING = timedelta(days=7)
"""For how long a change is tried to be told."""


def clock() -> datetime:
    """This moment."""
    return datetime.now(tz=UTC)


def turn(job: Job, kept: History, *, now: Clock = clock, pause: Callable[[float], None] = time.sleep) -> Turn:
    """Do what is due for a job, and tell what has changed.

    Args:
        job: The job.
        kept: The history; what cannot be written there must not be run.
        now: The clock.
        pause: Waits before a webhook is tried again.

    Raises:
        InputError: nothing can be decided, or the job's variables cannot be read.
    """
    environment = {**os.environ, **variables.read(job.name)}
    with contextlib.ExitStack() as held:
        with _lock(job.name, "deciding", wait_s=_DECIDING_S) as is_ours:
            if not is_ours:
                raise InputError(
                    f"{job.name}: another wake-up has been deciding for {_DECIDING_S:g} s; look at its process"
                )
            is_running = not held.enter_context(_lock(job.name, "running"))
            # Of no other command: whoever began something tells its interruption.
            kept.interrupted(kind=WAKE, job=job.name)
            entries = kept.entries(kind=WAKE, job=job.name, limit=_ENTRIES)
            known = _standing(entries)
            interrupted: tuple[str, ...] = ()
            told: Told | None = None
            if not is_running:
                known, interrupted, told = _interrupted(job, kept, entries, known, now())
            at = now()
            decision = policy.decide(
                job,
                at,
                [str(entry.inputs["planned"]) for entry in entries if "planned" in entry.inputs],
                is_running=is_running,
                # Of a run that ended without a word nobody knows when that was.
                free_since=policy.moment(known.last_run or "") if known.seconds is not None else None,
            )
            id_ = None
            if decision.run is not None:
                planned = policy.stamp(decision.run)
                id_ = kept.begin(WAKE, job.name, inputs={"planned": planned, "does": "run"}, job=job.name)
            known = _pass(job, kept, decision.passed, known, part_of=id_)
            if id_ is None:
                held.close()  # before anybody else decides: nothing runs
        if id_ is not None and decision.run is not None:
            known, found = _run(job, kept, (id_, decision.run), known, environment=environment, now=now)
        else:
            did = "waits" if decision.is_waiting else "passed" if decision.passed else "nothing"
            found = Turn(job.name, did, decision.says, told=told, next=policy.stamp(decision.next))
    found = replace(found, interrupted=interrupted, passed=decision.passed)
    notes = list(found.notes)
    added = policy.moment(job.added)
    if added is not None and added > now() + timedelta(seconds=policy.AHEAD_S):
        notes.append(f"{job.name}: was added at {job.added}, which this clock has not reached; add it again")
    if found.did != "nothing" or interrupted or (job.metrics and not Path(job.folder, job.metrics).is_file()):
        try:
            reports.write_metrics(job, known, _next(job, now()))
        except NotStoredError as error:
            notes.append(str(error))
    url = environment.get(job.webhook_env or "", "")
    sent, unsent = _tell(job, kept, now(), url=url, did_run=found.did == "ran", notes=notes, pause=pause)
    return redact_record(replace(found, sent=sent, unsent=unsent, notes=tuple(notes)))


def status(found: Turn) -> int:
    """Exit status of a turn: 0 nothing is wrong; 1 something is, or was not established."""
    is_sound = found.verdict in (None, Verdict.PASS, Verdict.SKIPPED)
    is_missed = any(each.why != "coalesced" for each in found.passed)
    return int(not is_sound or is_missed or bool(found.interrupted or found.unsent or found.notes))


def _run(
    job: Job,
    kept: History,
    begun: tuple[str, datetime],
    known: Standing,
    *,
    environment: Mapping[str, str],
    now: Clock,
) -> tuple[Standing, Turn]:
    """Run a job, and keep what came of it; `begun` are the entry's id and the planned time."""
    id_, planned = begun
    began = policy.stamp(now())
    try:
        ran = runs.run(job, runs.folder(job, now()), kept, environment)
        judged, seconds, reason, folder = ran.judged, ran.seconds, ran.reason, str(ran.folder)
        junit = str(ran.junit) if ran.junit else None
    except InputError as error:
        judged, seconds, reason = (Judged(changes.WHOLE, Verdict.ERROR, None, str(error)),), 0.0, str(error)
        folder, junit = None, None
    known, told = changes.judge(known, judged, job=job.name, at=began, host=here().host, folder=folder)
    verdict, ended = changes.worst(judged), policy.stamp(now())
    known = replace(
        known,
        last_run=ended,
        last_success=ended if verdict is Verdict.PASS else known.last_success,
        seconds=seconds,
        runs={each.subject: each.verdict for each in judged},
        verdict=verdict,
        number=known.number + 1,
    )
    results: dict[str, Any] = {"standing": document(known), "told": document(told) if told else None, "folder": folder}
    kept.end(id_, verdict, reason, seconds=seconds, results=results)
    says = f"the run of {policy.stamp(planned)} came to {verdict}: {reason}"
    return known, Turn(
        job.name,
        "ran",
        says,
        planned=policy.stamp(planned),
        next=policy.stamp(_next(job, now())),
        verdict=verdict,
        seconds=seconds,
        judged=judged,
        told=told,
        folder=folder,
        junit=junit,
    )


def _next(job: Job, at: datetime) -> datetime:
    return cron.after(cron.parse(job.at), cron.zone(job.zone), at)


def _standing(entries: list[Entry]) -> Standing:
    """What was known last, which an entry may hold that was begun before others."""
    found = [changes.standing(entry.results["standing"]) for entry in entries if entry.results.get("standing")]
    return max(found, key=lambda known: known.number, default=Standing())


def _interrupted(
    job: Job, kept: History, entries: list[Entry], known: Standing, at: datetime
) -> tuple[Standing, tuple[str, ...], Told | None]:
    """Give runs that ended without a word an end: nobody holds the lock of the job any more."""
    found, told = [], None
    for entry in reversed(entries):
        if entry.inputs.get("does") != "run" or entry.results.get("standing"):
            continue
        if entry.verdict not in (None, Verdict.INTERRUPTED):
            continue
        planned = str(entry.inputs.get("planned"))
        reason = f"the run of {planned} ended without a word"
        judged = [Judged(changes.WHOLE, Verdict.INTERRUPTED, None, reason)]
        known, told = changes.judge(known, judged, job=job.name, at=policy.stamp(at), host=here().host)
        known = replace(
            known, last_run=policy.stamp(at), seconds=None, verdict=Verdict.INTERRUPTED, number=known.number + 1
        )
        results = {"standing": document(known), "told": document(told) if told else None}
        kept.end(entry.id, Verdict.INTERRUPTED, reason, seconds=None, results=results)
        found.append(planned)
    return known, tuple(found), told


def _pass(job: Job, kept: History, passed: tuple[Passed, ...], known: Standing, *, part_of: str | None) -> Standing:
    """Write down the planned times that nothing is run for; with the last of them how many there were."""
    total = known.missed_total + sum(each.count for each in passed)
    known = replace(known, missed_total=total, number=known.number + 1)
    for number, each in enumerate(passed, 1):
        inputs = {"planned": each.planned, "does": each.why, "count": each.count}
        results = {"standing": document(known)} if number == len(passed) else {}
        kept.add(
            WAKE, job.name, Verdict.SKIPPED, f"{each.why}: {each.says}", inputs=inputs, results=results, seconds=None,
            part_of=part_of, job=job.name,
        )  # fmt: skip
    return known


def _tell(
    job: Job,
    kept: History,
    at: datetime,
    *,
    url: str,
    did_run: bool,
    notes: list[str],
    pause: Callable[[float], None],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Send the changes that the webhook has not taken yet, the oldest first: ids of those taken, and of the others."""
    if job.webhook_env is None:
        return (), ()
    entries = kept.entries(kind=WAKE, job=job.name, limit=_ENTRIES)
    settled = {entry.inputs.get("sent") for entry in entries}
    refused = {entry.inputs.get("refused") for entry in entries} if not did_run else set()
    waiting = [
        (entry, told)
        for entry in reversed(entries)
        if (told := _told(entry)) is not None and told.id not in settled | refused and _is_young(told, at)
    ]
    if not waiting:
        return (), ()
    sent: list[str] = []
    with _lock(job.name, "telling") as is_ours:
        if not is_ours:
            return (), ()
        try:
            url = reports.address(job, url)
            for entry, told in waiting:
                try:
                    reports.send(url, reports.payload(told), id_=told.id, pause=pause)
                except reports.NotSentError as error:
                    if error.is_refused:
                        _note(job, kept, entry, {"refused": told.id}, str(error))
                    raise
                _note(job, kept, entry, {"sent": told.id}, "the webhook has taken it")
                sent.append(told.id)
        except (InputError, reports.NotSentError) as error:
            said = str(error)
            notes.append(said if said.startswith(f"{job.name}:") else f"{job.name}: {said}")
    return tuple(sent), tuple(told.id for _, told in waiting if told.id not in sent)


def _note(job: Job, kept: History, entry: Entry, inputs: dict[str, str], reason: str) -> None:
    whole = entry.part_of or entry.id
    verdict = Verdict.PASS if "sent" in inputs else Verdict.ERROR
    kept.add(WAKE, job.name, verdict, reason, inputs=inputs, results={}, seconds=None, part_of=whole, job=job.name)


def _told(entry: Entry) -> Told | None:
    data = entry.results.get("told")
    if not isinstance(data, dict):
        return None
    try:
        return record(Told, data)
    except (KeyError, TypeError, ValueError):
        return None


def _is_young(told: Told, at: datetime) -> bool:
    """Whether a change is still news; a clock that was set back makes none old."""
    changed = policy.moment(told.at)
    return changed is not None and at - changed <= _PENDING


def forget() -> tuple[int, list[str]]:
    """Remove what runs of all jobs left in the usual place; of how many jobs, and the jobs that run and keep theirs.

    Raises:
        InputError: something cannot be removed.
    """
    folder = jobs.state()
    found = list(folder.iterdir()) if folder.is_dir() else []
    names = sorted({path.name.partition(".")[0] for path in found})
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
    """Hold a lock of a job, if nobody else does, or not any more within that time; yields whether it is held."""
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
