"""Run runbooks through papermill, several at a time, and judge each run by its own verdict.

Three kinds of process take part. The caller (`run_all`) hands out the runs and keeps the results. Workers (`worker`),
each with papermill imported once, execute one run after the other, every run in a fresh kernel. A guard (`processes`)
waits for the caller's death:

    caller ── worker ── kernel ── whatever a runbook starts
      └─ guard (own session)

A case that names no runbook has a process of its own that judges it. When a run ends, its processes are ended. When the
caller dies, however it dies, the guard ends all of them. Results are on disk before they are reported: `results.json`
holds every run from the start, as `interrupted` until it is judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from vllm_runbooks import steps
from vllm_runbooks.errors import InputError, RunbooksError
from vllm_runbooks.files import NotStoredError, store
from vllm_runbooks.notebook import SCHEMA, held_back, parse_judgement
from vllm_runbooks.processes import TAG, sweep
from vllm_runbooks.record_forms import document
from vllm_runbooks.records import Judgement, RunResult, Verdict
from vllm_runbooks.redact import redact_record, redact_text
from vllm_runbooks.report import write_report
from vllm_runbooks.worker import SOCKET_PATH_MAX, one_line, too_long

if TYPE_CHECKING:
    from types import FrameType


NO_RUNBOOK = "(no runbook)"
"""Stands for the runbook of a case that names none."""
_GRACE_S = 5.0
"""How long a worker may overrun its run's limit to store the notebook before it is killed."""
_BELOW_TEMPORARY = "/vr01234567/k01234567/k-5"
"""What is added to the temporary folder's path for a socket."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Progress = Callable[["Request", RunResult | None], None]


@dataclass(frozen=True)
class Request:
    """One run that is asked for."""

    runbook: str
    """Id, as shown."""
    path: Path
    """Of the runbook; of a case that is judged without one, of its folder."""
    case: str | None = None
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Bound already: `notebook.bind` has checked names and types."""
    timeout_s: float = 600.0
    """Wall-clock limit of the whole run."""
    refused: str | None = None
    """Why this run cannot be started: it is then an error, and the others go on."""
    is_alone: bool = False
    """Whether the case is judged without a runbook."""
    is_resumed: bool = False
    """Whether what its steps have left in the folder is read in place of doing them again."""
    step: str | None = None
    """The one step that is run, with what earlier ones have left."""
    step_tries: int | None = None
    """How often a step that fails is tried; None: as the step says."""
    step_timeout_s: float | None = None
    """Longest time for one try of a step; None: as the step says."""


def run_all(
    requests: Sequence[Request], *, out: Path, jobs: int = 2, progress: Progress | None = None
) -> list[RunResult]:
    """Execute the runs, `jobs` at a time, into the folder `out`, and return their results in the order asked for.

    `progress` is called with a request and None when it starts, and with its result when that is on disk. SIGINT,
    SIGTERM and SIGHUP end the suite: what was not judged by then is interrupted.
    """
    if jobs < 1:
        raise InputError(f"jobs: {jobs} is not a number of runs at a time; give 1 or more")
    suite = _Suite(requests, out=out.absolute(), progress=progress)
    return suite.run(min(jobs, len(requests)))


class _Suite:
    """The caller's side: what is asked for, what is known, and who is running."""

    def __init__(self, requests: Sequence[Request], *, out: Path, progress: Progress | None) -> None:
        self.id = uuid.uuid4().hex
        self.tool = f"vllm-runbooks {version('vllm-runbooks')}"
        self.began = datetime.now(tz=UTC).isoformat(timespec="seconds")
        self.out = out
        self.requests = requests
        self.waiting = deque(enumerate(requests))
        self.outputs = _output_names(requests)
        self.results = [_result(request, Verdict.INTERRUPTED, "not finished") for request in requests]
        self.events: SimpleQueue[tuple[int, RunResult | None] | int] = SimpleQueue()
        self.stopping = threading.Event()
        self.spawning = threading.Lock()
        self.unsaved: NotStoredError | None = None
        self._progress = progress or (lambda _request, _result: None)

    @property
    def tag(self) -> str:
        """Value of the environment variable for this suite's workers; a suite within a run keeps the outer name."""
        return ":".join(filter(None, [os.environ.get(TAG), self.id]))

    def run(self, jobs: int) -> list[RunResult]:
        self._prepare_folder()
        self.runtime = Path(tempfile.mkdtemp(prefix="vr", dir=_short_temporary_folder()))
        with _signals_to(self.events), self._guarded():
            slots = [_Slot(self, number) for number in range(jobs)]
            try:
                for slot in slots:
                    slot.start()
                self._collect(slots)
            finally:
                self.stop()
                for slot in slots:
                    slot.join()
                shutil.rmtree(self.runtime, ignore_errors=True)
        self._drain()
        self._save(final=True)
        if self.unsaved:
            raise RunbooksError(f"{self.unsaved}; free some space and run again")
        return self.results

    def steps_of(self, index: int) -> Path:
        """Where a run's steps leave what they come to."""
        return _steps_folder(self.out, self.outputs[index])

    def stop(self) -> None:
        """Let no run start any more and end every process of this suite."""
        with self.spawning:
            self.stopping.set()
        sweep(self.id)

    def _prepare_folder(self) -> None:
        """Write results.json, junit.xml and index.html, every run still open; refuse a folder that cannot hold them."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for index, name in enumerate(self.outputs):
                (self.out / name).unlink(missing_ok=True)
                request = self.requests[index]
                steps.clear(self.steps_of(index), all_of_them=not (request.is_resumed or request.step))
        except OSError as error:
            raise InputError(f"{self.out}: cannot be used ({error.strerror}); give another folder with --out") from None
        self._save(final=True)
        if self.unsaved:
            raise InputError(f"{self.unsaved}; give another folder with --out")

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep a guard for as long as this suite runs; it acts when this process ends without having said so."""
        guard = subprocess.Popen(  # noqa: S603 - our own module
            [*_module("processes"), self.id, str(self.runtime), str(self.out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.communicate(b"done")

    def _collect(self, slots: Sequence[_Slot]) -> None:
        """Take the slots' reports until all of them are through, or a signal ends the suite."""
        open_slots = len(slots)
        while open_slots:
            event = self.events.get()
            if event == _Slot.THROUGH:
                open_slots -= 1
            elif isinstance(event, int):
                self._interrupted_by(signal.Signals(event).name)
                return
            else:
                self._take(*event)

    def _take(self, index: int, result: RunResult | None) -> None:
        if result is not None:
            self.results[index] = result
            self._save()
        self._progress(self.requests[index], result)

    def _interrupted_by(self, name: str) -> None:
        self.stop()
        self.results = [
            replace(result, reason=f"interrupted by {name}") if result.verdict is Verdict.INTERRUPTED else result
            for result in self.results
        ]

    def _drain(self) -> None:
        """Keep what was judged between a signal and the end of the slots."""
        with contextlib.suppress(Empty):
            while True:
                event = self.events.get_nowait()
                if isinstance(event, tuple) and event[1] and event[1].verdict is not Verdict.INTERRUPTED:
                    self.results[event[0]] = event[1]

    def _save(self, *, final: bool = False) -> None:
        """Store the results as they are; a full disk is reported at the end, when it may have room again."""
        self.results = [self._with_notebook(index, result) for index, result in enumerate(self.results)]
        runs = [document(result) for result in self.results]
        record = {"schema": 1, "tool": self.tool, "began": self.began, "runs": runs}
        try:
            store(self.out / "results.json", json.dumps(record, indent=1) + "\n")
            if final:
                store(self.out / "junit.xml", _junit(self.results))
                write_report(self.out)
            self.unsaved = None
        except NotStoredError as error:
            self.unsaved = error

    def _with_notebook(self, index: int, result: RunResult) -> RunResult:
        name = self.outputs[index]
        return replace(result, notebook=name if (self.out / name).is_file() else None)


class _Slot(threading.Thread):
    """One of the runs at a time: takes requests and has its worker execute them, with a new worker where one died."""

    THROUGH = 0
    """Event that a slot has nothing left to do; no signal has this number."""

    def __init__(self, suite: _Suite, number: int) -> None:
        super().__init__(name=f"slot-{number}", daemon=True)
        self.suite = suite
        self.number = number
        self.worker: subprocess.Popen[str] | None = None

    def run(self) -> None:
        try:
            while not self.suite.stopping.is_set():
                try:
                    index, request = self.suite.waiting.popleft()
                except IndexError:
                    break
                self.suite.events.put((index, None))
                self.suite.events.put((index, self._execute(index, request)))
        finally:
            self._end_worker()
            self.suite.events.put(self.THROUGH)

    def _execute(self, index: int, request: Request) -> RunResult:
        """Have one request executed and everything it started ended; judge it."""
        if request.refused is not None:
            return _result(request, Verdict.ERROR, request.refused, refused=True)
        started = time.monotonic()
        try:
            answer = self._ask_alone(index, request) if request.is_alone else self._ask(index, request)
        except OSError as error:
            answer = {"reason": f"the worker could not be started: {error}"}
        result = _judge(request, answer)
        if self.suite.stopping.is_set() and result.verdict is Verdict.ERROR:
            # The kernel was ended by us: that is no error of the run.
            result = _result(request, Verdict.INTERRUPTED, "interrupted")
        return replace(result, seconds=time.monotonic() - started)

    def _ask(self, index: int, request: Request) -> dict[str, Any]:
        """Send the request to the worker and wait for its answer, but not for ever."""
        worker = self._start_worker()
        if worker is None or worker.stdin is None or worker.stdout is None:
            return {"reason": "interrupted"}
        run = f"{self.suite.id}.{index}"
        order = {
            "tag": f"{self.suite.tag}.{index}",
            "input": str(request.path.absolute()),
            "output": str(self.suite.out / self.suite.outputs[index]),
            "parameters": dict(request.parameters),
            "timeout_s": request.timeout_s,
            "steps": str(self.suite.steps_of(index)),
            "step": request.step,
            "step_tries": request.step_tries,
            "step_timeout_s": request.step_timeout_s,
        }
        overdue, answered = threading.Event(), threading.Event()

        def end_it() -> None:
            if answered.is_set():
                return
            overdue.set()
            sweep(run, root=worker.pid)
            worker.kill()

        timer = threading.Timer(request.timeout_s + _GRACE_S, end_it)
        timer.start()
        try:
            worker.stdin.write(json.dumps(order) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            line = ""
        finally:
            answered.set()
            timer.cancel()
        sweep(run, root=worker.pid)
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end_worker()
        if overdue.is_set():
            return {"reason": too_long(request.timeout_s)}
        return {"reason": f"the worker died ({_ending(worker.returncode)}); no verdict was written"}

    def _ask_alone(self, index: int, request: Request) -> dict[str, Any]:
        """Have a case judged without a runbook, in a process that ends with the answer or at the run's limit."""
        with self.suite.spawning:
            if self.suite.stopping.is_set():
                return {"reason": "interrupted"}
            process = subprocess.Popen(  # noqa: S603 - our own module
                [*_module("suite"), str(request.path.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, TAG: f"{self.suite.tag}.{index}"},
                start_new_session=True,
                encoding="utf-8",
            )
        try:
            line, _ = process.communicate(timeout=request.timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"reason": too_long(request.timeout_s)}
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        return {"reason": f"the diagnosis died ({_ending(process.returncode)}); no verdict was written"}

    def _start_worker(self) -> subprocess.Popen[str] | None:
        """Return the worker, started where there is none; None when the suite is ending."""
        with self.suite.spawning:
            if self.suite.stopping.is_set():
                return None
            if self.worker is None or self.worker.poll() is not None:
                with (self.suite.runtime / f"worker-{self.number}.log").open("ab") as log:
                    self.worker = subprocess.Popen(  # noqa: S603 - our own module
                        [*_module("worker"), str(self.suite.runtime)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        env={**os.environ, TAG: self.suite.tag},
                        # A terminal sends its signals to the whole group; ending the workers is the caller's part.
                        start_new_session=True,
                        encoding="utf-8",
                    )
            return self.worker

    def _end_worker(self) -> None:
        """End the worker in good order, or by force where it does not listen."""
        worker, self.worker = self.worker, None
        if worker is None:
            return
        with contextlib.suppress(OSError, ValueError):
            # The pipe's end says nothing by itself: a worker whose caller dies sees just that, and cleans up.
            worker.communicate("\n", timeout=_GRACE_S)
        if worker.poll() is None:
            worker.kill()
            worker.communicate()


def judge_alone(folder: str) -> dict[str, Any]:
    """Judge a case without a runbook, by what the tool says of what it holds; a worker's answer."""
    # The core loads slowly, and whoever hands out the runs needs none of it.
    from vllm_runbooks import checking, session  # noqa: PLC0415

    try:
        judgement = checking.judge_recorded(session.load(folder))
    except InputError as error:
        return {"reason": str(error), "refused": True}
    return {"judgement": {"schema": SCHEMA, **document(judgement)}}


def _judge(request: Request, answer: Mapping[str, Any]) -> RunResult:
    """Turn a worker's answer into a result: the runbook's verdict where the run ended in order, else an error."""
    if answer.get("reason"):
        return _result(request, Verdict.ERROR, answer["reason"], refused=bool(answer.get("refused")))
    judgement = parse_judgement(answer.get("judgement"))
    if judgement is None:
        return _result(request, Verdict.ERROR, "no verdict was written; the last cell must call conclude()")
    if request.case is not None and judgement.case != request.case:
        return _result(request, Verdict.ERROR, f"the verdict is for case {judgement.case}, not for {request.case}")
    return _result(request, judgement.verdict, judgement.reason, judgement)


def _result(
    request: Request, verdict: Verdict, reason: str, judgement: Judgement | None = None, *, refused: bool = False
) -> RunResult:
    reason = one_line(redact_text(reason))
    return RunResult(
        runbook=request.runbook,
        case=request.case or (judgement.case if judgement else None),
        verdict=verdict,
        outcome=judgement.outcome if judgement else None,
        root_cause=judgement.root_cause if judgement else None,
        seconds=0.0,
        findings=judgement.findings if judgement else (),
        reason=reason,
        notebook=None,
        refused=refused,
        facts=redact_record(judgement.facts) if judgement else {},
    )


def _output_names(requests: Sequence[Request]) -> list[str]:
    """Name the executed notebooks: `<runbook>--<case>.ipynb`, harmless as a file name and each of them once."""
    names: list[str] = []
    for request in requests:
        joined = "--".join(filter(None, [request.runbook, request.case]))
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", joined).lstrip(".-")[:120] or "run"
        name, number = f"{stem}.ipynb", 2
        while name in names:
            name, number = f"{stem}-{number}.ipynb", number + 1
        names.append(name)
    return names


def _steps_folder(out: Path, notebook: str) -> Path:
    return (out / notebook).with_suffix(".steps")


def done_steps(request: Request, out: Path) -> dict[str, tuple[int, int] | None]:
    """The steps that are done in the folder of a run that is made alone, and what tells whether one is done anew."""
    folder = _steps_folder(out, _output_names([request])[0])
    return {path.stem: steps.stamp(path) for path in folder.glob("*.json") if steps.is_done(path)}


def kept_steps(request: Request, out: Path, before: Mapping[str, object], result: RunResult) -> list[str]:
    """The steps that a run has taken from earlier ones, in its notebook's order; `before` are those done at its start.

    Taken is what was not written anew, though its cell was executed and no parameter kept it from being done.
    """
    if result.notebook is None:
        return []
    after = done_steps(request, out)
    kept = {name for name, stood in before.items() if after.get(name) == stood}
    cells = json.loads((out / result.notebook).read_text("utf-8"))["cells"] if kept else []
    return [
        name
        for cell in cells
        if (name := cell.get("id")) in kept
        and cell.get("execution_count") is not None
        and not held_back(request.path, name, request.parameters)
    ]


def _junit(results: Sequence[RunResult]) -> str:
    """Write the results in the XML that CI systems read: fail is a failure; error and interrupted are errors."""
    kinds = {Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.INTERRUPTED: "error", Verdict.SKIPPED: "skipped"}
    count = [kinds.get(result.verdict, "") for result in results]
    suite = ET.Element(
        "testsuite",
        name="vllm-runbooks",
        tests=str(len(results)),
        failures=str(count.count("failure")),
        errors=str(count.count("error")),
        skipped=str(count.count("skipped")),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        name = _NOT_XML.sub("", result.case or result.runbook)
        case = ET.SubElement(
            suite, "testcase", classname=_NOT_XML.sub("", result.runbook), name=name, time=f"{result.seconds:.3f}"
        )
        if result.verdict in kinds:
            ET.SubElement(case, kinds[result.verdict], message=_NOT_XML.sub("", result.reason), type=result.verdict)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


@contextlib.contextmanager
def _signals_to(events: SimpleQueue[Any]) -> Iterator[None]:
    """Put SIGINT, SIGTERM and SIGHUP into the queue while the suite runs, where this thread may handle signals."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def put(number: int, _frame: FrameType | None) -> None:
        # SimpleQueue.put is reentrant: the handler may interrupt the very get() that waits for it.
        events.put(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Under nohup SIGHUP is ignored, and stays so.
    before = {number: signal.getsignal(number) for number in numbers if signal.getsignal(number) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, put)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _module(name: str) -> list[str]:
    """Command that runs one of our modules in a process of its own; -P keeps the current folder out of its imports."""
    return [sys.executable, "-P", "-m", f"vllm_runbooks.{name}"]


def _short_temporary_folder() -> str | None:
    """Folder for sockets: the default one unless its path is too long for a socket's name."""
    default = tempfile.gettempdir()
    too_long = len(os.fsencode(default + _BELOW_TEMPORARY)) > SOCKET_PATH_MAX
    if too_long and os.access("/tmp", os.W_OK):  # noqa: S108 - mkdtemp is used in it
        return "/tmp"  # noqa: S108
    return default


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(judge_alone(*sys.argv[1:])) + "\n")
