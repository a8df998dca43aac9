"""Run runbooks through papermill, several at a time, on this host or a cluster (`cluster.tasks`).

    caller ── worker ── run (on Linux) ── kernel ── whatever a runbook starts
      └─ guard (own session)

The caller (`run_all`) stores results before they are reported; workers execute runs in fresh kernels, which they fork
on Linux (`forks`); the guard (`host.processes`) ends all if the caller dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
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
from typing import Any, Protocol
from xml.etree import ElementTree as ET

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import RunbookVerdict, RunResult, Verdict
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host.nodes.records import Difference, NodePart
from vllm_runbooks.host.processes import TAG, sweep
from vllm_runbooks.runbooks import steps
from vllm_runbooks.runbooks.bench import Bench, Gate, module, temporary_folder
from vllm_runbooks.runbooks.changes import keep_previous
from vllm_runbooks.runbooks.notebook import parse_verdict
from vllm_runbooks.runbooks.report import write_report
from vllm_runbooks.runbooks.worker import one_line

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Progress = Callable[["RunbookRequest", RunResult | None], None]


@dataclass(frozen=True)
class RunbookRequest:
    runbook: str
    path: Path
    """The runbook, or the folder of a case without one."""
    case: str | None = None
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Checked and typed by `notebook.bind`."""
    timeout_s: float = 600.0
    refused: str | None = None
    """Reason why the run cannot start."""
    is_alone: bool = False
    is_resumed: bool = False
    """Whether results of earlier steps are reused."""
    step: str | None = None
    step_tries: int | None = None
    step_timeout_s: float | None = None
    node: str | None = None


_TICK_S = 1.0


class RunExecutor(Protocol):
    """Executes the runs of a suite."""

    def begin(self, suite: Suite) -> int:
        """Start to process `suite.waiting`; return how often `suite.through` will be called."""

    def stop(self) -> None:
        """End all runs; the suite's gate is closed."""

    def join(self) -> None:
        """Wait until all have ended."""


def run_all(
    requests: Sequence[RunbookRequest],
    *,
    out: Path,
    jobs: int = 2,
    progress: Progress | None = None,
    executor: RunExecutor | None = None,
) -> list[RunResult]:
    """Execute the runs into the folder `out`; return results in order.

    By default they run on this host, `jobs` at a time. `progress` is called when a run starts, and
    again when its result is on disk. SIGINT, SIGTERM and SIGHUP end the suite and interrupt the
    runs without a result.
    """
    if jobs < 1:
        raise InputError(f"jobs: {jobs} is not a number of concurrent runs; use 1 or more")
    suite = Suite(requests, out=out.absolute(), progress=progress)
    return suite.run(Local(jobs) if executor is None else executor)


class Suite:
    _THROUGH = 0
    """Event of a finished part; no signal has this number."""

    def __init__(self, requests: Sequence[RunbookRequest], *, out: Path, progress: Progress | None) -> None:
        self.id = uuid.uuid4().hex
        self.tool = f"vllm-runbooks {version('vllm-runbooks')}"
        self.began = datetime.now(tz=UTC).isoformat(timespec="seconds")
        self.out = out
        self.requests = requests
        self.waiting = deque(enumerate(requests))
        self.outputs = _output_names(requests)
        self.results = [_result(request, Verdict.INTERRUPTED, "not finished") for request in requests]
        self.events: SimpleQueue[tuple[int, RunResult | None] | int] = SimpleQueue()
        self.gate = Gate()
        self.nodes: Sequence[NodePart] = ()
        """Participating nodes; none on this host."""
        self.unsaved: NotStoredError | None = None
        self._progress = progress or (lambda _request, _result: None)

    @property
    def tag(self) -> str:
        """Tag of this suite's processes, after that of an outer suite."""
        return ":".join(filter(None, [os.environ.get(TAG), self.id]))

    def run(self, executor: RunExecutor) -> list[RunResult]:
        self._prepare_folder()
        self.runtime = Path(tempfile.mkdtemp(prefix="vr", dir=temporary_folder()))
        with _signals_to(self.events), self._guarded():
            try:
                self._collect(executor.begin(self))
            finally:
                self.stop()
                executor.stop()
                executor.join()
                shutil.rmtree(self.runtime, ignore_errors=True)
        # Keep results that arrived between a signal and the end of the slots.
        with contextlib.suppress(Empty):
            while True:
                event = self.events.get_nowait()
                if isinstance(event, tuple) and event[1] and event[1].verdict is not Verdict.INTERRUPTED:
                    self.results[event[0]] = event[1]
        self._save(final=True)
        if self.unsaved:
            raise RunbooksError(f"{self.unsaved}; free some space and run again")
        return self.results

    def order(self, index: int) -> dict[str, Any]:
        request = self.requests[index]
        if request.is_alone:
            return {"alone": str(request.path.absolute()), "timeout_s": request.timeout_s}
        return {
            "input": str(request.path.absolute()),
            "output": str(self.out / self.outputs[index]),
            "parameters": dict(request.parameters),
            "steps": str(self.steps_of(index)),
            **{name: getattr(request, name) for name in ("timeout_s", "step", "step_tries", "step_timeout_s")},
        }

    def started(self, index: int) -> None:
        self.events.put((index, None))

    def judged(
        self,
        index: int,
        answer: Mapping[str, Any],
        *,
        seconds: float,
        node: str | None = None,
        lost_on: Sequence[str] = (),
    ) -> None:
        """Report a worker's answer to a run; `lost_on` are nodes that began it and were lost."""
        request = self.requests[index]
        result = _checked_result(request, answer)
        if self.gate.is_closed and result.verdict is Verdict.ERROR:
            # We stopped the kernel ourselves: this is not an error of the run.
            result = _result(request, Verdict.INTERRUPTED, "interrupted")
        final = replace(result, seconds=seconds, node=node, lost_on=tuple(lost_on) or None)
        self.events.put((index, final))

    def through(self) -> None:
        self.events.put(self._THROUGH)

    def steps_of(self, index: int) -> Path:
        return (self.out / self.outputs[index]).with_suffix(".steps")

    def stop(self) -> None:
        """Start no more runs and kill every process of this suite."""
        self.gate.close()
        sweep(self.id)

    def _prepare_folder(self) -> None:
        """Write the reports with every run open; reject a folder that cannot be written."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for index, name in enumerate(self.outputs):
                (self.out / name).unlink(missing_ok=True)
                request = self.requests[index]
                steps.clear(self.steps_of(index), all_of_them=not (request.is_resumed or request.step))
            keep_previous(self.out)
        except NotStoredError as error:
            raise InputError(f"{error}; use another folder with --out") from None
        except OSError as error:
            raise InputError(f"{self.out}: cannot be used ({error.strerror}); use another folder with --out") from None
        self._save(final=True)
        if self.unsaved:
            raise InputError(f"{self.unsaved}; use another folder with --out")

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        guard = subprocess.Popen(  # noqa: S603 - our own module
            [*module("host.processes"), self.id, str(self.runtime), str(self.out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.communicate(b"done")

    def _collect(self, parts: int) -> None:
        while parts:
            try:
                event = self.events.get(timeout=_TICK_S)
            except Empty:
                continue  # a signal to another thread, or just before the wait, does not wake it
            if event == self._THROUGH:
                parts -= 1
            elif isinstance(event, int):
                self.stop()
                reason = f"interrupted by {signal.Signals(event).name}"
                self.results = [
                    replace(result, reason=reason) if result.verdict is Verdict.INTERRUPTED else result
                    for result in self.results
                ]
                return
            else:
                index, result = event
                if result is not None:
                    self.results[index] = result
                    self._save()
                self._progress(self.requests[index], result)

    def _save(self, *, final: bool = False) -> None:
        self.results = [
            replace(result, notebook=name if (self.out / name).is_file() else None)
            for name, result in zip(self.outputs, self.results, strict=True)
        ]
        runs = [document(result) for result in self.results]
        record = {"schema": SCHEMA, "tool": self.tool, "began": self.began, "runs": runs} | by_node(
            self.nodes, self.results
        )
        try:
            store(self.out / "results.json", json.dumps(record, indent=1) + "\n")
            if final:
                store(self.out / "junit.xml", _junit(self.results))
                write_report(self.out)
            self.unsaved = None
        except NotStoredError as error:
            self.unsaved = error


class Local:
    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._slots: list[threading.Thread] = []

    def begin(self, suite: Suite) -> int:
        count = min(self._jobs, len(suite.requests))
        names = [f"slot-{number}" for number in range(count)]
        self._slots = [threading.Thread(target=_work, args=(suite, name), name=name, daemon=True) for name in names]
        for slot in self._slots:
            slot.start()
        return count

    def stop(self) -> None:
        """Do nothing: the suite ends the processes of this host."""

    def join(self) -> None:
        for slot in self._slots:
            slot.join()


def _work(suite: Suite, name: str) -> None:
    bench = Bench(suite.tag, runtime=suite.runtime, name=name, gate=suite.gate)
    try:
        while not suite.gate.is_closed:
            try:
                index, request = suite.waiting.popleft()
            except IndexError:
                break
            suite.started(index)
            began = time.monotonic()
            answer = refusal(request) or bench.execute(index, suite.order(index))
            suite.judged(index, answer, seconds=0.0 if request.refused is not None else time.monotonic() - began)
    finally:
        bench.close()
        suite.through()


def refusal(request: RunbookRequest) -> dict[str, Any] | None:
    """Result of a run that cannot be started."""
    return None if request.refused is None else {"reason": request.refused, "refused": True}


def by_node(nodes: Sequence[NodePart], results: Sequence[RunResult]) -> dict[str, Any]:
    if not nodes:
        return {}
    return {"nodes": document(nodes), "differences": document(differences(nodes, results))}


def differences(nodes: Sequence[NodePart], results: Sequence[RunResult]) -> tuple[Difference, ...]:
    """Facts and results that differ between nodes."""
    facts_by_node = {node.name: node.facts for node in nodes if node.facts is not None}
    changed = []
    for what in sorted({name for node_facts in facts_by_node.values() for name in node_facts} - {"host"}):
        values = {name: _shown(node_facts.get(what)) for name, node_facts in facts_by_node.items()}
        if len(set(values.values())) > 1:
            changed.append(Difference(what, values, what in DECISIVE))
    for result in results:
        values = {
            other.node: _came_to(other)
            for other in results
            if other.node is not None and (other.runbook, other.case) == (result.runbook, result.case)
        }
        difference = Difference(f"{result.runbook} on {result.case}" if result.case else result.runbook, values, True)
        if len(set(values.values())) > 1 and difference not in changed:
            changed.append(difference)
    return tuple(changed)


DECISIVE = ("tool", "catalog", "cases")
"""Facts of a node that affect verdicts."""


def _shown(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return None if value is None else str(value)


def _came_to(result: RunResult) -> str:
    cause = result.root_cause.symptom if result.root_cause else None
    return ", ".join(filter(None, [result.verdict.value, result.outcome and result.outcome.value, cause]))


def _checked_result(request: RunbookRequest, answer: Mapping[str, Any]) -> RunResult:
    if answer.get("reason"):
        return _result(request, Verdict.ERROR, answer["reason"], refused=bool(answer.get("refused")))
    concluded = parse_verdict(answer.get("verdict"))
    if concluded is None:
        return _result(request, Verdict.ERROR, "no verdict was written; the last cell must call conclude()")
    if request.case is not None and concluded.case != request.case:
        return _result(request, Verdict.ERROR, f"the verdict is for case {concluded.case}, not {request.case}")
    return _result(request, concluded.verdict, concluded.reason, concluded)


def _result(
    request: RunbookRequest,
    verdict: Verdict,
    reason: str,
    concluded: RunbookVerdict | None = None,
    *,
    refused: bool = False,
) -> RunResult:
    reason = one_line(redact_text(reason))
    return RunResult(
        runbook=request.runbook,
        case=request.case or (concluded.case if concluded else None),
        verdict=verdict,
        outcome=concluded.outcome if concluded else None,
        root_cause=concluded.root_cause if concluded else None,
        seconds=0.0,
        findings=concluded.findings if concluded else (),
        reason=reason,
        notebook=None,
        refused=refused,
        facts=redact_record(concluded.facts) if concluded else {},
    )


def _output_names(requests: Sequence[RunbookRequest]) -> list[str]:
    names: list[str] = []
    for request in requests:
        joined = "--".join(filter(None, [request.runbook, request.case, request.node]))
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", joined).lstrip(".-")[:120] or "run"
        name, number = f"{stem}.ipynb", 2
        while name in names:
            name, number = f"{stem}-{number}.ipynb", number + 1
        names.append(name)
    return names


def kept_steps(request: RunbookRequest, out: Path) -> list[str]:
    """Steps whose earlier results the last run used, in the order of their use."""
    return steps.kept((out / _output_names([request])[0]).with_suffix(".steps"))


def _junit(results: Sequence[RunResult]) -> str:
    """JUnit XML: fail is a failure; error and interrupted are errors."""
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
        name = _NOT_XML.sub("", " at ".join(filter(None, [result.case or result.runbook, result.node])))
        case = ET.SubElement(
            suite, "testcase", classname=_NOT_XML.sub("", result.runbook), name=name, time=f"{result.seconds:.3f}"
        )
        if result.verdict in kinds:
            ET.SubElement(case, kinds[result.verdict], message=_NOT_XML.sub("", result.reason), type=result.verdict)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


@contextlib.contextmanager
def _signals_to(events: SimpleQueue[Any]) -> Iterator[None]:
    """Put SIGINT, SIGTERM and SIGHUP into the queue, in the main thread."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def put(number: int, _frame: object) -> None:
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
