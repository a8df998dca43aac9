"""Run runbooks through papermill, several at a time, and judge each run by its own verdict.

Three kinds of process take part. The caller (`run_all`) hands out the runs and keeps the results. Workers, each with
papermill imported once, execute one run after the other, every run in a fresh kernel. A guard waits for the caller's
death. Every process started for a suite carries the suite's id in its environment, a run's processes the run's id as
well, so that whatever a run leaves behind is found by what it is and never by its name:

    caller ── worker ── kernel ── whatever a runbook starts
      └─ guard (own session)

When a run ends, its processes are ended. When the caller dies, however it dies, the guard ends all of them. Results are
on disk before they are reported: `results.json` holds every run from the start, as `interrupted` until it is judged.
"""

# ruff: noqa: PLC0415 - papermill, jupyter_client and psutil load in the processes that need them
from __future__ import annotations

import contextlib
import functools
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
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from vllm_runbooks.errors import InputError, RunbooksError
from vllm_runbooks.notebook import parse_judgement, read_judgement
from vllm_runbooks.records import Judgement, RunResult, Verdict, document
from vllm_runbooks.redact import redact_text
from vllm_runbooks.report import NotStoredError, store, write_report

if TYPE_CHECKING:
    from types import FrameType

    import psutil

_TAG = "VLLM_RUNBOOKS_RUN"
"""Environment variable naming the suite ("ab12") or the run ("ab12.3") a process belongs to; nested suites append."""
_START_S = 60
"""How long a kernel may take to answer for the first time; papermill's own default."""
_SAVE_EVERY_S = 1.0
_GRACE_S = 5.0
"""How long a worker may overrun its run's limit to store the notebook before it is killed."""
# sun_path holds 104 bytes on macOS and the BSDs, 108 on Linux, its final NUL included.
_SOCKET_PATH_MAX = 103
_BELOW_TEMPORARY = "/vr01234567/k01234567/k-5"
"""What is added to the temporary folder's path for a socket."""
_PR_SET_CHILD_SUBREAPER = 36
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Progress = Callable[["Request", RunResult | None], None]


@dataclass(frozen=True)
class Request:
    """One run that is asked for."""

    runbook: str
    """Id, as shown."""
    path: Path
    case: str | None = None
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Bound already: `notebook.bind` has checked names and types."""
    timeout_s: float = 600.0
    """Wall-clock limit of the whole run."""
    refused: str | None = None
    """Why this run cannot be started: it is then an error, and the others go on."""


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


class Engine:
    """papermill's engine of this library: this environment's Python over sockets in the file system, saved atomically.

    Registered as the entry point `vllm-runbooks` of `papermill.engine`; papermill's own classes are subclassed when it
    is first used, so that this module needs no papermill to be imported.
    """

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Execute the notebook as papermill asks for it."""
        _register_storage()
        runtime = Path(tempfile.mkdtemp(prefix="k", dir=options.pop("runtime_dir", None)))
        try:
            return _engine().execute_notebook(
                nb, kernel_name, kernel_manager_class=_kernel_manager(runtime), shutdown_kernel="immediate", **options
            )
        finally:
            shutil.rmtree(runtime, ignore_errors=True)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        """Return the name of the only kernel there is: this Python."""
        return "python3"

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:  # noqa: ARG003 - papermill's signature
        """Return the language of the only kernel there is."""
        return "python"


class _Suite:
    """The caller's side: what is asked for, what is known, and who is running."""

    def __init__(self, requests: Sequence[Request], *, out: Path, progress: Progress | None) -> None:
        self.id = uuid.uuid4().hex
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
        return ":".join(filter(None, [os.environ.get(_TAG), self.id]))

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

    def stop(self) -> None:
        """Let no run start any more and end every process of this suite."""
        with self.spawning:
            self.stopping.set()
        _sweep(self.id)

    def _prepare_folder(self) -> None:
        """Write results.json, junit.xml and index.html, every run still open; refuse a folder that cannot hold them."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for name in self.outputs:
                (self.out / name).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be used ({error.strerror}); give another folder with --out") from None
        self._save(final=True)
        if self.unsaved:
            raise InputError(f"{self.unsaved}; give another folder with --out")

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep a guard for as long as this suite runs; it acts when this process ends without having said so."""
        guard = subprocess.Popen(  # noqa: S603 - this very module
            [*_this_module(), "guard", self.id, str(self.runtime), str(self.out)],
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
        record = {"schema": 1, "runs": [document(result) for result in self.results]}
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
            return _result(request, Verdict.ERROR, request.refused)
        started = time.monotonic()
        try:
            answer = self._ask(index, request)
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
        }
        overdue = threading.Event()

        def end_it() -> None:
            overdue.set()
            _sweep(run, root=worker.pid)
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
            timer.cancel()
        _sweep(run, root=worker.pid)
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end_worker()
        if overdue.is_set():
            return {"reason": _too_long(request.timeout_s)}
        return {"reason": f"the worker died ({_ending(worker.returncode)}); no verdict was written"}

    def _start_worker(self) -> subprocess.Popen[str] | None:
        """Return the worker, started where there is none; None when the suite is ending."""
        with self.suite.spawning:
            if self.suite.stopping.is_set():
                return None
            if self.worker is None or self.worker.poll() is not None:
                with (self.suite.runtime / f"worker-{self.number}.log").open("ab") as log:
                    self.worker = subprocess.Popen(  # noqa: S603 - this very module
                        [*_this_module(), "worker", str(self.suite.runtime)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        env={**os.environ, _TAG: self.suite.tag},
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


def _judge(request: Request, answer: Mapping[str, Any]) -> RunResult:
    """Turn a worker's answer into a result: the runbook's verdict where the run ended in order, else an error."""
    if answer.get("reason"):
        return _result(request, Verdict.ERROR, answer["reason"])
    judgement = parse_judgement(answer.get("judgement"))
    if judgement is None:
        return _result(request, Verdict.ERROR, "no verdict was written; the last cell must call conclude()")
    if request.case is not None and judgement.case != request.case:
        return _result(request, Verdict.ERROR, f"the verdict is for case {judgement.case}, not for {request.case}")
    return _result(request, judgement.verdict, judgement.reason, judgement)


def _result(request: Request, verdict: Verdict, reason: str, judgement: Judgement | None = None) -> RunResult:
    reason = _one_line(redact_text(reason))
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


def _this_module() -> list[str]:
    """Command that runs this module in a process of its own; -P keeps the current folder out of its imports."""
    return [sys.executable, "-P", "-m", "vllm_runbooks.suite"]


def _short_temporary_folder() -> str | None:
    """Folder for sockets: the default one unless its path is too long for a socket's name."""
    default = tempfile.gettempdir()
    too_long = len(os.fsencode(default + _BELOW_TEMPORARY)) > _SOCKET_PATH_MAX
    if too_long and os.access("/tmp", os.W_OK):  # noqa: S108 - mkdtemp is used in it
        return "/tmp"  # noqa: S108
    return default


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"


def _too_long(timeout_s: float) -> str:
    return f"time-out after {timeout_s:g} s"


def _one_line(text: str) -> str:
    """First line with anything on it, without control characters, short enough for a table."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= 400 else f"{line[:397]}..."


# Processes: who belongs to a run, and ending them.


def _sweep(tag: str, *, root: int | None = None, patience_s: float = 3.0) -> None:
    """End every process that carries the tag, or descends from one that does or from `root`; `root` itself stays.

    They are asked first and killed half a second later. Workers go last: orphans become their children (a process that
    has overwritten its environment, as those that set their title do, is found that way alone).
    """
    import psutil

    deadline = time.monotonic() + patience_s
    asked: set[psutil.Process] = set()
    ask_until = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        workers, others = _belonging(tag, root)
        victims = others or workers
        if not victims:
            return
        for victim in victims:
            with contextlib.suppress(psutil.Error, OSError):
                if victim in workers or (victim in asked and time.monotonic() > ask_until):
                    victim.kill()
                elif victim not in asked:
                    asked.add(victim)
                    victim.terminate()
        time.sleep(0.02)


def _belonging(tag: str, root: int | None) -> tuple[set[psutil.Process], set[psutil.Process]]:
    """Find the workers of a suite (they carry its bare id), and what else carries the tag or descends from one."""
    import psutil

    workers: set[psutil.Process] = set()
    others: set[psutil.Process] = set()
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if pid in (os.getpid(), root) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            names = process.environ().get(_TAG, "").split(":")
            if names[-1] == tag and "." not in tag:
                workers.add(process)
            elif any(name == tag or name.startswith(f"{tag}.") for name in names):
                others.add(process)
    for parent in [*workers, *others, *([psutil.Process(root)] if root and psutil.pid_exists(root) else [])]:
        with contextlib.suppress(psutil.Error, OSError):
            children = parent.children(recursive=True)
            others.update(child for child in children if child.pid != os.getpid() and _is_alive(child))
    return workers, others - workers


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, OSError):
        return False


def _guard(suite_id: str, runtime: str, out: str) -> None:
    """Wait for the caller's end; where it came without a word, end what the suite started and remove what it left."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.stdin.buffer.read() == b"done":
        return
    _sweep(suite_id, patience_s=4.0)
    shutil.rmtree(runtime, ignore_errors=True)
    for part in Path(out).glob(".*.part"):
        part.unlink(missing_ok=True)


# The worker: executes runs through papermill, one after the other.


def _work(runtime: str) -> None:
    """Answer each order that arrives on stdin with one line on stdout, until an empty line; end all when stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever papermill or a kernel prints goes to the log: stdout belongs to the answers alone.
    os.dup2(2, 1)
    _adopt_orphans()
    orders: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin, orders), daemon=True).start()
    import papermill  # noqa: F401 - while the caller prepares the first order

    while order := orders.get():
        _reap()
        answer = _execute(json.loads(order), runtime)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # Nothing is left to be saved; taking the interpreter apart would only cost time.
    os._exit(0)


def _listen(stdin: IO[str], orders: SimpleQueue[str]) -> None:
    for line in stdin:
        orders.put(line.strip())
        if not line.strip():
            return
    # The caller is gone without having ended this worker: the guard ends it; without a guard this does.
    _sweep(os.environ[_TAG].split(":")[-1], root=os.getpid())
    os._exit(1)


def _adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants (Linux), so that none leaves its sight by forking twice."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> None:
    """Collect adopted children that ended; between two runs there are no others."""
    with contextlib.suppress(ChildProcessError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _execute(order: Mapping[str, Any], runtime: str) -> dict[str, Any]:
    """Execute one notebook and say how it ended: a reason where it is an error, else the judgement found in it."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.engines import papermill_engines
    from papermill.exceptions import PapermillExecutionError
    from papermill.execute import execute_notebook

    papermill_engines.register("vllm-runbooks", Engine)
    deadline = time.monotonic() + order["timeout_s"]
    here = {"cell": ""}

    def remaining(_cell: Any) -> float:
        # nbclient takes 0 for "no limit".
        return float(max(0.01, deadline - time.monotonic()))

    def entered(cell: Mapping[str, Any], cell_index: int) -> None:
        here["cell"] = f" in cell {cell.get('id', cell_index + 1)}"

    output = Path(order["output"])
    before = os.environ[_TAG]
    os.environ[_TAG] = order["tag"]
    try:
        execute_notebook(
            _literal(order["input"]),
            _literal(order["output"]),
            parameters=order["parameters"],
            engine_name="vllm-runbooks",
            kernel_name="python3",
            language="python",
            progress_bar=False,
            start_timeout=max(1, int(min(_START_S, order["timeout_s"]))),
            runtime_dir=runtime,
            timeout_func=remaining,
            on_cell_execute=entered,
        )
    except PapermillExecutionError as error:
        return _read_answer(output, f"{error.ename}: {error.evalue}{here['cell']}")
    except CellTimeoutError:
        return {"reason": redact_text(_too_long(order["timeout_s"]) + here["cell"])}
    except DeadKernelError:
        return {"reason": redact_text(f"the kernel died{here['cell']}; no verdict was written")}
    except NotStoredError as error:
        return {"reason": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, this run is an error and the next one goes on
        return {"reason": redact_text(f"{type(error).__name__}: {_one_line(str(error))}{here['cell']}")}
    finally:
        os.environ[_TAG] = before
    return _read_answer(output, None)


def _read_answer(output: Path, raised: str | None) -> dict[str, Any]:
    """Read the stored notebook: only an error of the last cell that is the verdict's own is no error of the run."""
    notebook = json.loads(output.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    errors = [(cell, out) for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
    judgement = read_judgement(notebook)
    is_verdict = (
        [(cell is code[-1], out["ename"]) for cell, out in errors] == [(True, "VerdictFailed")]
        and judgement is not None
        and judgement.verdict is Verdict.FAIL
    )
    if errors and not is_verdict:
        cell, out = errors[0]
        value = _one_line(str(out["evalue"]))
        return {"reason": redact_text(f"{out['ename']}: {value} in cell {cell.get('id', '?')}; no verdict was reached")}
    if raised and not errors:
        return {"reason": redact_text(raised)}
    return {"judgement": None if judgement is None else {"schema": 1, **document(judgement)}}


def _literal(path: str) -> str:
    """Escape a path for papermill, which reads every path as a format string."""
    return path.replace("{", "{{").replace("}", "}}")


@functools.cache
def _register_storage() -> None:
    """Have papermill store notebooks through us: atomically, and without secrets."""
    from papermill.iorw import LocalHandler, papermill_io

    class Storage(LocalHandler):  # type: ignore[misc]
        """Files of absolute paths; papermill's own handler truncates the last good notebook before it writes."""

        def write(self, buf: str, path: str) -> None:
            store(Path(path), _redact_notebook(buf))

    # A second handler for the scheme "local" is never asked; one for the prefix of absolute paths is.
    papermill_io.register(Path.cwd().anchor, Storage())


@functools.cache
def _engine() -> Any:
    """Build the engine from papermill's: it saves once a second instead of twice a cell."""
    from papermill.engines import NBClientEngine, NotebookExecutionManager

    class Manager(NotebookExecutionManager):  # type: ignore[misc]
        """Progress of one execution; saves its start, its end, and in between what a second has brought."""

        saved = float("-inf")

        def save(self, **options: Any) -> None:
            if self.end_time is not None or time.monotonic() - self.saved >= _SAVE_EVERY_S:
                super().save(**options)
                self.saved = time.monotonic()

    class Saving(NBClientEngine):  # type: ignore[misc]
        """papermill's engine with that manager."""

        @classmethod
        def execute_notebook(cls, nb: Any, kernel_name: str, output_path: str | None = None, **options: Any) -> Any:
            manager = Manager(
                nb,
                output_path=output_path,
                progress_bar=options.pop("progress_bar", True),
                log_output=options.get("log_output", False),
                autosave_cell_every=options.pop("autosave_cell_every", 30),
            )
            manager.notebook_start()
            try:
                cls.execute_managed_notebook(manager, kernel_name, **options)
            finally:
                manager.cleanup_pbar()
                manager.notebook_complete()
            return manager.nb

    return Saving


def _kernel_manager(runtime: Path) -> type[Any]:
    """Build a kernel manager for one run: this Python, and sockets in `runtime` where the path is short enough.

    Sockets in a folder of ours need no free TCP port (several kernels starting at once may be given the same one) and
    nobody else on the host can connect to them.
    """
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpec

    class ThisPython(AsyncKernelManager):  # type: ignore[misc]
        """A kernel of the environment that this library runs in, whatever `python3` is registered on the host."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.connection_file = str(runtime / "c.json")
            if os.name == "posix" and len(os.fsencode(runtime / "k-5")) <= _SOCKET_PATH_MAX:
                self.transport, self.ip = "ipc", str(runtime / "k")

        @property
        def kernel_spec(self) -> Any:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=command, language="python", display_name="Python 3")

    return ThisPython


def _redact_notebook(text: str) -> str:
    """Return the notebook's JSON with secrets replaced in every string of it."""
    from nbformat import reads, writes

    # Reading joins what the format splits into lines, so that a secret is seen whole.
    return str(writes(_redact_value(reads(text, as_version=4))))


def _redact_value(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        value = redact_text(value)
        if "\n" not in value and len(value) < 4096:
            # A password alone has no mark; its name beside it tells.
            named = redact_text(f"{key}={value}")
            value = named.removeprefix(f"{key}=") if named.startswith(f"{key}=") else value
        return value
    if isinstance(value, dict):
        for name, item in value.items():
            value[name] = _redact_value(item, str(name))
        return value
    if isinstance(value, list):
        return [_redact_value(item, key) for item in value]
    return value


if __name__ == "__main__":
    if sys.argv[1] == "guard":
        _guard(*sys.argv[2:])
    else:
        _work(*sys.argv[2:])
