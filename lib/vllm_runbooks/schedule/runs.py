"""A run of a job: a process with a timeout; its verdicts count, not only its exit status."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import RawIOBase
from pathlib import Path
from typing import Any

from vllm_runbooks.core import moments
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.history import store as history
from vllm_runbooks.history.records import PROBE, HistoryEntry
from vllm_runbooks.history.store import History
from vllm_runbooks.host.running import RedactedOutput, SupervisedCommand
from vllm_runbooks.runbooks.notebook import read_verdict
from vllm_runbooks.schedule import jobs
from vllm_runbooks.schedule.changes import MOST as MOST_JUDGED
from vllm_runbooks.schedule.changes import RANKS, WHOLE, worst
from vllm_runbooks.schedule.records import CheckedPart, ScheduledJob

OUTPUT = "output.log"
MOST = 50
"""Most folders of runs."""
_LARGEST = 64 << 20
_TAIL = 1 << 14
_MOST_OUTPUT, _MOST_END = 8 << 20, 1 << 20
"""Bytes kept of the beginning of an output, and of its end."""
_UNREAD = 2
"""Exit status of an invalid request."""


@dataclass(frozen=True)
class JobRun:
    """Result of a run."""

    judged: tuple[CheckedPart, ...]
    seconds: float
    folder: Path
    junit: Path | None

    @property
    def verdict(self) -> Verdict:
        """Verdict of the whole run."""
        return worst(self.judged)

    @property
    def reason(self) -> str:
        """One line on the worst part."""
        bad = [part for part in self.judged if part.verdict is self.verdict]
        if self.verdict is Verdict.PASS:
            return f"{len(bad)} passed"
        first = bad[0] if bad else CheckedPart(WHOLE, Verdict.ERROR, None, "no verdict was written")
        more = f"; and {len(bad) - 1} more" if len(bad) > 1 else ""
        return f"{first.subject}: {first.reason}{more}"


def folder(job: ScheduledJob, at: datetime) -> Path:
    """Create a folder for one run, for its owner alone, and remove old ones.

    Raises:
        InputError: It cannot be created.
    """
    every = jobs.out(job)
    try:
        every.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(100):
            run_folder = every / f"{at:%Y%m%dT%H%M%SZ}{f'-{number}' if number else ''}"
            with contextlib.suppress(FileExistsError):
                run_folder.mkdir(mode=0o700)  # the output may contain secrets
                break
        else:
            raise InputError(f"{every}: contains too many folders of this second; check the clock")
        old = sorted(path for path in every.glob("[0-9]*T[0-9]*Z*") if (path / OUTPUT).is_file())
    except OSError as error:
        raise InputError(f"{every}: cannot be used: {error.strerror}; use another folder with --out") from None
    for path in old[: max(len(old) - MOST + 1, 0)]:
        shutil.rmtree(path, ignore_errors=True)
    return run_folder


class _Bounded:
    """Writes the output of a run to a file: its beginning on arrival, and finally its end."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self._room = _MOST_OUTPUT
        self._end: deque[bytes] = deque()
        self._ending = self._beyond = 0

    def show(self, lines: bytes) -> None:
        now, later = lines[: self._room], lines[self._room :]
        self._room -= len(now)
        self._file.write(now)
        if later:
            self._end.append(later[-_MOST_END:])
            self._ending += len(self._end[-1])
            self._beyond += len(later)
            while self._ending - len(self._end[0]) >= _MOST_END:
                self._ending -= len(self._end.popleft())

    def finish(self) -> None:
        end = b"".join(self._end)[-_MOST_END:]
        if left_out := self._beyond - len(end):
            self._file.write(f"\n… {left_out} bytes omitted …\n".encode())
        self._file.write(end)


def words(job: ScheduledJob, into: Path) -> list[str]:
    """The command line of a job; our commands get the folder for their results."""
    first, *rest = job.command
    if first == jobs.PAPERMILL:
        return [sys.executable, "-P", "-m", "papermill", *rest]
    program = [sys.executable, "-P", "-m", "vllm_runbooks", first]
    return [*program, *(() if first == "probe" else ("--out", str(into))), *rest]


def run(job: ScheduledJob, into: Path, kept: History, environment: Mapping[str, str]) -> JobRun:
    """Run a job now with its output in the folder, and return its result.

    Args:
        job: The job.
        into: The folder.
        kept: The history, to which a probe writes its result.
        environment: Variables of the run.
    """
    began, stamp = time.monotonic(), moments.now()
    output = _output_of(job)
    before = _mark(output)
    # The run may print its environment, so it does not get the webhook.
    inherited = {name: value for name, value in environment.items() if name != job.webhook_env}

    def told() -> HistoryEntry | None:
        return next(iter(kept.entries(kind=PROBE, job=job.name, since=stamp, limit=1)), None)

    refused, is_over, status, signalled, ending = None, False, None, None, ""
    try:
        with (into / OUTPUT).open("wb", buffering=0) as file:
            bounded = _Bounded(file)
            live = RedactedOutput(bounded.show, known="")
            with SupervisedCommand(
                words(job, into), environment={**inherited, history.JOB: job.name}, folder=Path(job.folder)
            ) as running:
                for chunk in running.chunks(until=began + job.timeout_s):
                    live.take(chunk)
                    if time.monotonic() >= began + job.timeout_s:
                        is_over = True
                        break
            live.finish()
            bounded.finish()
            status, signalled, ending = running.status, running.signalled, running.ending
    except (OSError, InputError) as error:
        refused = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
    parts = list(_parts(job, into))
    if refused is not None:
        whole = [CheckedPart(WHOLE, Verdict.ERROR, None, f"could not run: {refused}")]
    elif is_over:
        whole = [CheckedPart(WHOLE, Verdict.ERROR, None, f"timed out after {job.timeout_s:g} s")]
    elif signalled is not None:
        whole = [CheckedPart(WHOLE, Verdict.INTERRUPTED, None, ending)]
    elif status is None or status < 0:
        whole = [CheckedPart(WHOLE, Verdict.ERROR, None, ending)]
    else:
        whole = _whole(job, status, into, parts, output if _mark(output) != before else None, read_entry=told)
    judged = [
        CheckedPart(
            redact_text(part.subject), part.verdict, part.root_cause, " ".join(redact_text(part.reason).split())[:500]
        )
        for part in sorted([*parts, *whole], key=lambda part: -RANKS[part.verdict])[:MOST_JUDGED]
    ]
    junit = into / "junit.xml"
    return JobRun(tuple(judged), time.monotonic() - began, into, junit if junit.is_file() else None)


def _whole(
    job: ScheduledJob,
    status: int,
    into: Path,
    parts: Sequence[CheckedPart],
    output: Path | None,
    *,
    read_entry: Callable[[], HistoryEntry | None],
) -> list[CheckedPart]:
    """The part for the exit status, if it differs from the other parts."""
    if job.command[0] == "probe":
        return [_probed(job, status, into, read_entry())]
    if job.command[0] == jobs.PAPERMILL:
        return [_concluded(status, into, output)]
    if status == _UNREAD or not parts:
        return [
            CheckedPart(
                WHOLE, Verdict.ERROR, None, _last_line(into) or f"exit status {status}, and no verdict was written"
            )
        ]
    is_sound = RANKS[worst(parts)] <= RANKS[Verdict.SKIPPED]
    if is_sound == (status == 0):
        return []
    return [CheckedPart(WHOLE, Verdict.ERROR, None, f"ended with exit status {status}: {_last_line(into)}")]


def _parts(job: ScheduledJob, into: Path) -> Iterator[CheckedPart]:
    """Verdicts in `results.json`; only this run can have written it, the folder is its own."""
    if job.command[0] not in ("check", "run"):
        return
    data = _json(into / "results.json")
    runs = data.get("runs") if isinstance(data, Mapping) else None
    for run_data in runs if isinstance(runs, Sequence) else ():
        if isinstance(run_data, Mapping) and run_data.get("verdict") in list(Verdict):
            cause = run_data.get("root_cause")
            named = [str(run_data[key]) for key in ("runbook", "case") if run_data.get(key)]
            symptom = str(cause["symptom"]) if isinstance(cause, Mapping) and cause.get("symptom") else None
            # A case that was recorded has a root cause, and passes: that is no trouble of this host.
            verdict = Verdict(run_data["verdict"])
            yield CheckedPart(
                " on ".join(named) or WHOLE,
                verdict,
                symptom if verdict is Verdict.FAIL else None,
                str(run_data.get("reason") or ""),
            )


def _probed(job: ScheduledJob, status: int, into: Path, entry: HistoryEntry | None) -> CheckedPart:
    """Result of a probe by its exit status, with the words of its history entry."""
    subject = " ".join(word for word in job.command[1:] if "://" in word)[:200] or WHOLE
    verdict = {0: Verdict.PASS, 1: Verdict.FAIL}.get(status, Verdict.ERROR)
    if entry is None or entry.verdict is None:
        return CheckedPart(subject, verdict, None, _last_line(into))
    if verdict is Verdict.FAIL and entry.verdict is not Verdict.PASS:
        verdict = entry.verdict
    cause = entry.results.get("root_cause")
    symptom = str(cause["symptom"]) if isinstance(cause, Mapping) and cause.get("symptom") else None
    return CheckedPart(subject, verdict, symptom, entry.reason)


def _concluded(status: int, into: Path, output: Path | None) -> CheckedPart:
    """Verdict of an executed notebook."""
    data = _json(output) if output is not None else None
    verdict = read_verdict(data) if isinstance(data, Mapping) else None
    if verdict is None:
        reason = "no verdict was written; the last cell must call conclude()" if status == 0 else _last_line(into)
        return CheckedPart(WHOLE, Verdict.ERROR, None, reason or f"ended with exit status {status}")
    if status != 0 and verdict.verdict is not Verdict.FAIL:
        return CheckedPart(WHOLE, Verdict.ERROR, None, f"ended with exit status {status}: {_last_line(into)}")
    cause = verdict.root_cause.symptom if verdict.root_cause and verdict.verdict is Verdict.FAIL else None
    return CheckedPart(verdict.case or WHOLE, verdict.verdict, cause, verdict.reason)


def _output_of(job: ScheduledJob) -> Path | None:
    """The notebook that papermill writes."""
    return Path(job.folder, job.command[2]) if job.command[0] == jobs.PAPERMILL else None


def _mark(path: Path | None) -> tuple[int, int, int] | None:
    """State of a file, to detect a new version."""
    with contextlib.suppress(OSError):
        if path is not None:
            state = path.stat()
            return state.st_ino, state.st_mtime_ns, state.st_size
    return None


def _json(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= _LARGEST:
            return json.loads(path.read_text("utf-8"))
    return None


def _last_line(into: Path) -> str:
    """The last printed line, which explains a failure."""
    with contextlib.suppress(OSError), (into / OUTPUT).open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
        lines = file.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""
