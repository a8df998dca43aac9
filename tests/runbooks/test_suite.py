"""A run only passes with its own verdict, no result is lost, and no process is left.

Real kernels and signals throughout. Tests share work: one suite contains every end of a notebook,
and all deaths of a runner are tested together.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import psutil
import pytest

from pace import scaled
from vllm_runbooks.catalog import folders
from vllm_runbooks.cli import run as command_line
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.records import CauseRef, Verdict
from vllm_runbooks.host.processes import TAG, sweep
from vllm_runbooks.runbooks import bench, forks, steps, suite, worker
from vllm_runbooks.runbooks.notebook import VERDICT_MIME
from vllm_runbooks.runbooks.suite import RunbookRequest, run_all
from vllm_runbooks.runbooks.verdict_fields import NO_RUNBOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vllm_runbooks.core.records import RunResult

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and sessions of POSIX")

IMPORTS = """\
from vllm_runbooks.runbooks.notebook import conclude
from vllm_runbooks.core.records import *
from datetime import datetime
from pathlib import Path
def give(verdict, reason="fine", case=None, stop=True):
    case = case or Path(evidence).name
    finding = FindingRef("a.symptom", "a", "A title", Severity.FATAL, Level.CONFIRMED)
    verdict = RunbookVerdict(verdict, reason, case, Outcome.FAILED, CauseRef("a.symptom", "a"), (finding,))
    conclude(verdict, stop_on_fail=stop)
"""
PASS = "give(Verdict.PASS)"  # noqa: S105 - a cell
HANG = "import time; time.sleep(300)"
# Three ways to outlive a kernel: a new session, a second fork, and a second fork without the environment.
STRAY = """\
import pathlib, subprocess
strays = [subprocess.Popen(["sleep", "300"], start_new_session=True).pid]
for command in ("setsid sleep 300", "env -i /usr/bin/env setsid sleep 300"):
    script = f"{command} >/dev/null 2>&1 & echo $!"
    strays.append(int(subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout))
pathlib.Path(where).write_text(" ".join(map(str, strays)))
"""
SECRET = "hf_" + "abcdefghijKLMNOPQRST012345"


def runbook(folder: Path, name: str, *cells: str) -> Path:
    """Write a runbook of these code cells, the helpers of `IMPORTS` before them."""
    parameters = 'evidence: str = "k"  # case\nwhere: str = ""  # file for pids\napi_key: str = ""  # never do this\n'
    code = [("parameters", parameters), ("helpers", IMPORTS), *((f"c{i}", cell) for i, cell in enumerate(cells))]
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            # For any kernel in the file, it runs in this environment's Python.
            "kernelspec": {"name": "no-such-kernel", "display_name": "None", "language": "python"},
            "runbook": {"id": name, "symptoms": [], "side_effects": False, "needs_gpu": False},
        },
        "cells": [
            {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Title\n\nOne sentence."},
            *(
                {
                    "cell_type": "code",
                    "id": id_,
                    "metadata": {"tags": ["parameters"] if id_ == "parameters" else []},
                    "source": source,
                    "outputs": [],
                    "execution_count": None,
                }
                for id_, source in code
            ),
        ],
    }
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def forged_pass(*, last: bool) -> str:
    """A cell that prints text in the form of a verdict, plainly or as its result."""
    data = {"schema": 2, "verdict": "pass", "reason": "x", "case": "k", "outcome": None, "root_cause": None}
    text = json.dumps({VERDICT_MIME: data | {"findings": []}})
    return f"print({text!r})" + ("\nprint('PASS k: fine')" if last else "")


CELLS: dict[str, tuple[str, ...]] = {
    "good": ("1 + 1", PASS),
    "failing": ("give(Verdict.FAIL, 'found <b>it</b>')",),
    "failing_quietly": ("give(Verdict.FAIL, 'found it', stop=False)",),
    "skipped": ("give(Verdict.SKIPPED, 'needs a GPU')",),
    "raises": ("raise ValueError('first line\\nsecond')", PASS),
    "exit_3": ("import sys; sys.exit(3)", PASS),
    "exit_0": ("import sys; sys.exit(0)", PASS),
    "exit_0_after": (PASS + "\nimport sys; sys.exit(0)",),
    "kernel_killed": (STRAY, "import os; os.kill(os.getpid(), 9)", PASS),
    "kernel_killed_after": (PASS + "\nimport os, time; time.sleep(.5); os.kill(os.getpid(), 9)",),
    "timeout": (STRAY, HANG, PASS),
    "strays": (STRAY, PASS),
    "strays_and_raises": (STRAY, "1 / 0"),
    "no_verdict": ("1",),
    "two_verdicts": (PASS + "\n" + PASS,),
    "verdict_too_early": (PASS, "1"),
    "forged": (forged_pass(last=False), forged_pass(last=True)),
    "forged_failure": ("give(Verdict.PASS)\nclass VerdictFailed(Exception): pass\nraise VerdictFailed('x')",),
    "other_case": ("give(Verdict.PASS, case='another')",),
    "secret": (f"print('token is {SECRET}')\n1", f"give(Verdict.PASS, 'key {SECRET} works')"),
    "slow_saver": (
        "import os\nprint(os.stat(where).st_ino)",
        "import time; time.sleep(1.2)",
        "print(os.stat(where).st_ino)",
        PASS,
    ),
    "worker_killed": ("import os; os.kill(os.getppid(), 9)", PASS),
    "bad": (),
    "empty_environment": ("import os, sys\nprint(sys.executable)\nprint(os.getpid())", PASS),
}
STRAYS = ("strays", "strays_and_raises", "kernel_killed", "timeout")
VERDICTS = {
    "good": Verdict.PASS,
    "failing": Verdict.FAIL,
    "failing_quietly": Verdict.FAIL,
    "skipped": Verdict.SKIPPED,
    "strays": Verdict.PASS,
    "secret": Verdict.PASS,
    "slow_saver": Verdict.PASS,
    "empty_environment": Verdict.PASS,
}


class Ran:
    """Every notebook of `CELLS`, executed in one suite into a folder with an awkward name."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out {case} ünd"
        self.folder = folder
        self.events: list[tuple[str, bool]] = []
        self.out.mkdir()
        # From an earlier suite: it must not replace a notebook that is not written.
        (self.out / "bad--k.ipynb").write_text("{}", encoding="utf-8")
        requests = []
        for name, cells in CELLS.items():
            path = runbook(folder, name, *cells)
            if name == "bad":
                path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
            where = self.out / "slow_saver--k.ipynb" if name == "slow_saver" else self.pids(name)
            parameters = {"where": str(where), "evidence": "k"}
            if name == "secret":
                parameters["api_key"] = "correct-horse-battery-9"
            requests.append(RunbookRequest(name, path, "k", parameters, timeout_s=7 if name == "timeout" else 60))
        requests.append(RunbookRequest("refused", Path(), "k", refused="case.yaml: line 3: no title; add one"))
        # A private temporary folder: others may run suites too. Sockets need a short path.
        with tempfile.TemporaryDirectory(prefix="rs") as temporary, pytest.MonkeyPatch.context() as patched:
            patched.setattr(tempfile, "tempdir", temporary)
            patched.setenv("TMPDIR", temporary)
            results = run_all(requests, out=self.out, progress=self.note)
            self.left = [path.name for path in Path(temporary).iterdir()]
        self.results = {result.runbook: result for result in results}

    def note(self, request: RunbookRequest, result: RunResult | None) -> None:
        self.events.append((request.runbook, result is not None))
        if result is not None:
            stored = json.loads((self.out / "results.json").read_text(encoding="utf-8"))["runs"]
            assert result.verdict in [run["verdict"] for run in stored if run["runbook"] == request.runbook]

    def pids(self, name: str) -> Path:
        return self.folder / f"{name}.pids"

    def text(self, name: str) -> str:
        return (self.out / f"{name}--k.ipynb").read_text(encoding="utf-8")

    def outputs(self, name: str) -> list[Any]:
        cells = json.loads(self.text(name))["cells"]
        return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("ran"))


def are_gone(pids: list[int], *, within_s: float = 5.0) -> bool:
    """Whether all of these processes have ended; a zombie has."""
    deadline = time.monotonic() + scaled(within_s)
    while True:
        alive = []
        for pid in pids:
            try:
                alive += [pid] if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else []
            except psutil.NoSuchProcess:
                continue
        if not alive or time.monotonic() > deadline:
            return not alive
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_only_a_run_with_a_verdict_passes(ran: Ran, name: str) -> None:
    """Any other end of a kernel is an error, and other runs are not affected."""
    assert ran.results[name].verdict is VERDICTS.get(name, Verdict.ERROR)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("failing", "found <b>it</b>"),
        ("skipped", "needs a GPU"),
        ("raises", "ValueError: first line in cell c0; no verdict was reached"),
        ("exit_3", "SystemExit: 3 in cell c0; no verdict was reached"),
        ("exit_0", "SystemExit: 0 in cell c0; no verdict was reached"),
        ("kernel_killed", "the kernel died in cell c1; no verdict was written"),
        ("timeout", "timed out after 7 s in cell c1"),
        ("worker_killed", "the worker died (SIGKILL); no verdict was written"),
        ("no_verdict", "no verdict was written; the last cell must call conclude()"),
        ("verdict_too_early", "no verdict was written; the last cell must call conclude()"),
        ("two_verdicts", "no verdict was written; the last cell must call conclude()"),
        ("other_case", "the verdict is for case another, not k"),
        ("refused", "case.yaml: line 3: no title; add one"),
    ],
)
def test_the_reason_has_the_exception_and_its_cell(ran: Ran, name: str, reason: str) -> None:
    """One line names the exception and the cell."""
    assert ran.results[name].reason == reason


@pytest.mark.slow
def test_a_broken_notebook_has_no_executed_one(ran: Ran) -> None:
    """It is a one-line error, and an earlier suite's file does not replace it."""
    assert ran.results["bad"].notebook is None
    assert ran.results["refused"].notebook is None
    assert "\n" not in ran.results["bad"].reason
    assert "JSON" in ran.results["bad"].reason


@pytest.mark.slow
def test_a_result_has_the_findings_of_the_runbook(ran: Ran) -> None:
    """Outcome, root cause and findings come from the kernel."""
    result = ran.results["failing"]

    assert (result.case, result.outcome, result.root_cause) == ("k", "failed", CauseRef("a.symptom", "a"))
    assert [finding.title for finding in result.findings] == ["A title"]
    assert 0 < result.seconds < 60


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("name", STRAYS)
def test_no_process_survives_its_run(ran: Ran, name: str) -> None:
    """Neither in sessions, second forks nor empty environments, after any end of the run."""
    pids = [int(pid) for pid in ran.pids(name).read_text(encoding="utf-8").split()]

    assert len(pids) == 3
    assert are_gone(pids, within_s=0)


@pytest.mark.slow
def test_a_run_has_a_kernel_of_this_very_python(ran: Ran) -> None:
    """Neither the notebook nor the host's registered kernels decide which Python runs."""
    printed = ran.outputs("empty_environment")[0]["text"]

    assert printed[0].strip() == sys.executable


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux")
def test_a_forked_kernel_is_a_fresh_one(tmp_path: Path) -> None:
    """It has no state of the run before, its run's tag in /proc, one parent per run, and every module."""
    used = (
        "import builtins, json, os, sys, random\n"
        "assert 'papermill' in sys.modules, 'not forked'\n"
        "state = hasattr(builtins, 'LEFT'), os.environ.get('LEFT'), 'wave' in sys.modules, os.getcwd()\n"
        "import wave; builtins.LEFT = 1; os.environ['LEFT'] = '1'; os.chdir('/')"
    )
    shown = (
        "from pathlib import Path\n"
        "shown = dict(v.split('=', 1) for v in Path('/proc/self/environ').read_text().split('\\0') if '=' in v)\n"
        f"assert shown[{TAG!r}].rstrip(':') == os.environ[{TAG!r}], shown[{TAG!r}]\n"
        "assert os.getsid(0) == os.getpid() \n"
        f"for name in {forks.UNUSED}: assert sys.modules.get(name, 1) is not None\n"
        "print(json.dumps([*state, os.getppid(), random.random()]))"
    )
    requests = [RunbookRequest(name, runbook(tmp_path, name, used, shown, PASS), "k", {}) for name in ("a", "b")]

    results = run_all(requests, out=tmp_path / "out", jobs=1)

    assert [(result.verdict, result.reason) for result in results] == [(Verdict.PASS, "fine")] * 2
    first, second = (
        json.loads(output["text"][0])
        for name in ("a", "b")
        for cell in json.loads((tmp_path / "out" / f"{name}--k.ipynb").read_text(encoding="utf-8"))["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    )
    assert first[:4] == second[:4] == [False, None, False, str(Path.cwd())]
    assert first[4] != second[4]
    assert first[5] != second[5]


@pytest.mark.slow
@POSIX
def test_notebooks_are_replaced_never_truncated(ran: Ran) -> None:
    """Papermill stores through our handler: while it runs, each save is a new file under the old name."""
    inodes = [output["text"][0] for output in ran.outputs("slow_saver") if output["output_type"] == "stream"]

    assert len(set(inodes)) == 2
    assert [path.name for path in ran.out.glob(".*")] == []


@pytest.mark.slow
def test_secrets_are_in_no_file(ran: Ran) -> None:
    """Not as printed, not as a parameter, not in the verdict's reason."""
    everything = "".join(path.read_text(encoding="utf-8") for path in ran.out.iterdir())

    assert "token is [secret-" in ran.text("secret")
    assert SECRET not in everything
    assert "correct-horse-battery" not in everything
    assert SECRET not in ran.results["secret"].reason


@pytest.mark.slow
def test_parameters_are_stored_with_the_run(ran: Ran) -> None:
    """An executed notebook has its parameters."""
    notebook = json.loads(ran.text("good"))

    assert notebook["metadata"]["papermill"]["parameters"]["evidence"] == "k"


@pytest.mark.slow
def test_the_verdict_is_displayed(ran: Ran) -> None:
    """One output has the record, two lines and HTML, with log text escaped."""
    data = [output["data"] for output in ran.outputs("failing") if output["output_type"] == "display_data"]

    assert len(data) == 1
    assert "".join(data[0]["text/plain"]).splitlines() == [
        "Diagnosis: A title  ●●● confirmed",
        "Check: problem found: found <b>it</b>; no expectation recorded",
    ]
    assert "found &lt;b&gt;it&lt;/b&gt;" in "".join(data[0]["text/html"])


@pytest.mark.slow
def test_every_run_is_announced_and_reported(ran: Ran) -> None:
    """Progress has each begin before its end, and each end after its results are stored."""
    for name in [*CELLS, "refused"]:
        assert [done for runbook, done in ran.events if runbook == name] == [False, True]


@pytest.mark.slow
def test_results_are_readable_by_machines(ran: Ran) -> None:
    """results.json and junit.xml hold each run once, with its verdict."""
    runs = json.loads((ran.out / "results.json").read_text(encoding="utf-8"))
    junit = ET.parse(ran.out / "junit.xml").getroot()  # noqa: S314 - our own file

    assert runs["schema"] == 2
    assert [run["runbook"] for run in runs["runs"]] == [*CELLS, "refused"]
    assert {"runbook", "case", "verdict", "outcome", "root_cause", "seconds", "findings"} <= set(runs["runs"][0])
    assert junit.get("tests") == str(len(CELLS) + 1)
    assert junit.get("failures") == "2"
    assert junit.get("skipped") == "1"
    assert int(junit.get("errors", 0)) == len(CELLS) + 1 - len(VERDICTS)


@pytest.mark.slow
def test_temporary_files_are_removed(ran: Ran) -> None:
    """No connection file, socket or log is left."""
    assert ran.results
    assert ran.left == []


# The runner dies.

CALLER = """\
import signal, sys
# Whoever started the tests may have had these ignored (nohup, a background job of a shell).
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from datetime import datetime
from pathlib import Path
from vllm_runbooks.runbooks.suite import RunbookRequest, run_all
folder = Path(sys.argv[1])
def note(request, result):
    if result is not None:
        print(request.runbook, result.verdict, flush=True)
def request(name):
    return RunbookRequest(name, folder / f"{name}.ipynb", "k", {"evidence": "k", "where": str(folder / f"{name}.pids")})
results = run_all([*map(request, sys.argv[3:])], out=folder / "out", jobs=int(sys.argv[2]), progress=note)
print("end", *[result.verdict for result in results], flush=True)
"""


class Caller:
    """A suite in a separate process with one finished run, a hanging one and stray processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        runbook(folder, "good", PASS)
        runbook(folder, "hanging", STRAY, HANG, PASS)
        runbook(folder, "pending", PASS)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(folder), "1", "good", "hanging", "pending"],
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def await_hanging(self) -> None:
        deadline = time.monotonic() + scaled(60)
        pids = self.folder / "hanging.pids"
        while not (pids.is_file() and pids.read_text(encoding="utf-8") and self.verdict("good") == "pass"):
            assert time.monotonic() < deadline
            assert self.process.poll() is None
            time.sleep(0.05)
        family = [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        self.pids = [*family, *(int(pid) for pid in pids.read_text(encoding="utf-8").split())]

    def verdict(self, name: str) -> str | None:
        try:
            runs = json.loads((self.folder / "out/results.json").read_text(encoding="utf-8"))["runs"]
        except FileNotFoundError:
            return None
        return str(next(run["verdict"] for run in runs if run["runbook"] == name))


OFTEN, SELDOM = ("SIGINT", "SIGKILL"), ("SIGTERM", "SIGHUP")
DEATHS = [
    *((name, OFTEN) for name in OFTEN),
    *(pytest.param(name, SELDOM, marks=pytest.mark.slow) for name in SELDOM),
]
"""Signals, each with those tested together."""


def killed(tmp_path_factory: pytest.TempPathFactory, names: Sequence[str]) -> dict[str, tuple[Caller, bool, str]]:
    """Callers killed by each signal, whether all ended within 5 s, and their output."""
    callers = {name: Caller(tmp_path_factory.mktemp(name)) for name in names}
    try:
        for caller in callers.values():
            caller.await_hanging()
        for name, caller in callers.items():
            caller.process.send_signal(getattr(signal, name))
        over = time.monotonic() + 5
        gone = {
            name: are_gone([caller.process.pid, *caller.pids], within_s=over - time.monotonic())
            for name, caller in callers.items()
        }
    finally:
        for caller in callers.values():
            caller.process.kill()
    return {name: (caller, gone[name], caller.process.communicate()[0]) for name, caller in callers.items()}


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], dict[str, tuple[Caller, bool, str]]]:
    """The results of callers killed by these signals, produced once."""
    return cache(lambda names: killed(tmp_path_factory, names))


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize(("name", "names"), DEATHS)
def test_all_processes_end_within_five_seconds_of_the_runner(dead: Any, name: str, names: tuple[str, ...]) -> None:
    """Workers, kernels, supervisors and their children."""
    assert dead(names)[name][1]


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize(("name", "names"), DEATHS)
def test_finished_verdicts_survive_the_runner(dead: Any, name: str, names: tuple[str, ...]) -> None:
    """The finished run keeps its verdict; the running and the pending one are interrupted."""
    caller, _, printed = dead(names)[name]

    assert printed.startswith("good pass\n")
    assert [caller.verdict(run) for run in ("good", "hanging", "pending")] == ["pass", "interrupted", "interrupted"]
    assert json.loads((caller.folder / "out/hanging--k.ipynb").read_text(encoding="utf-8"))["cells"]
    if name != "SIGKILL":
        assert printed.endswith("end pass interrupted interrupted\n")
        assert ">interrupted<" in (caller.folder / "out/index.html").read_text(encoding="utf-8")


@POSIX
@pytest.mark.slow
def test_kill_at_any_moment_loses_no_acknowledged_run(tmp_path: Path) -> None:
    """Printed results are on disk, others are interrupted, and every file is whole."""
    names = [runbook(tmp_path, f"good{i}", PASS).stem for i in range(6)]
    for attempt in range(8):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(tmp_path), "2", *names], stdout=subprocess.PIPE, text=True
        )
        time.sleep(random.Random(attempt).uniform(0.2, 4.0))  # noqa: S311 - a reproducible moment
        family = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        process.kill()
        printed = process.communicate()[0]
        results = tmp_path / "out/results.json"
        stored = json.loads(results.read_text(encoding="utf-8"))["runs"] if results.exists() else []

        assert {line.split()[0] for line in printed.splitlines() if " pass" in line and "end" not in line} <= {
            run["runbook"] for run in stored if run["verdict"] == "pass"
        }
        assert {run["verdict"] for run in stored} <= {"pass", "interrupted"}
        assert are_gone(family)
        for path in tmp_path.glob("out/*.ipynb"):
            assert json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not list(tmp_path.glob("out/.*"))


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from vllm_runbooks.runbooks.suite import RunbookRequest, run_all

class Waiting:
    def begin(self, suite):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        threading.Thread(target=self.interrupt).start()
        return 1
    def interrupt(self):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
    def stop(self): pass
    def join(self): pass

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs beside it without SIGINT
print(run_all([RunbookRequest("a", Path("a.ipynb"))], out=Path(sys.argv[1]), executor=Waiting())[0].reason)
"""


@pytest.mark.slow
@POSIX
def test_a_signal_is_handled_in_any_thread(tmp_path: Path) -> None:
    """The thread that waits for reports is not woken by it, and sees it all the same."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert (done.stdout, done.returncode) == ("interrupted by SIGINT\n", 0), done.stderr


@POSIX
@pytest.mark.slow
def test_a_hanging_worker_is_ended(tmp_path: Path) -> None:
    """A run's timeout applies even without an answer, and the next run has a new worker."""
    stuck = runbook(tmp_path, "stuck", STRAY, "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", HANG)
    pids = tmp_path / "pids"
    timeout_s = round(scaled(3))  # a kernel starts in this time
    requests = [
        RunbookRequest("stuck", stuck, "k", {"where": str(pids)}, timeout_s=timeout_s),
        RunbookRequest("good", runbook(tmp_path, "good", PASS), "k"),
    ]

    results = run_all(requests, out=tmp_path / "out", jobs=1)

    assert [result.verdict for result in results] == [Verdict.ERROR, Verdict.PASS]
    assert results[0].reason == f"timed out after {timeout_s} s"
    assert are_gone([int(pid) for pid in pids.read_text(encoding="utf-8").split()], within_s=0)


# The disk is full.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 100 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = (
        sys.platform == "linux"
        and os.geteuid() == 0
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk], check=False).returncode == 0
    )
    if not mounted:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", disk], check=True)


FILL = "print('x' * 60_000)"


@pytest.mark.slow
def test_a_full_disk_is_not_a_pass_and_destroys_nothing(small_disk: Path, tmp_path: Path) -> None:
    """The run names the failed file; the last good notebook is whole, without partial files."""
    path = runbook(tmp_path, "filling", "1", "import time; time.sleep(1.1)", FILL, FILL, PASS)

    result = run_all([RunbookRequest("filling", path, "k", {"evidence": "k"})], out=small_disk)[0]

    assert result.verdict is Verdict.ERROR
    assert result.reason.startswith(f"could not store {small_disk / 'filling--k.ipynb'} (No space left on device; ")
    assert result.reason.endswith(" bytes free)")
    assert json.loads((small_disk / "filling--k.ipynb").read_text(encoding="utf-8"))["cells"]
    assert json.loads((small_disk / "results.json").read_text(encoding="utf-8"))["runs"][0]["verdict"] == "error"
    assert not list(small_disk.glob(".*"))


@POSIX
@pytest.mark.slow
def test_a_file_size_limit_is_not_a_pass(tmp_path: Path) -> None:
    """As for a full disk, and without special rights."""
    runbook(tmp_path, "filling", FILL, PASS)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n" + CALLER

    run = subprocess.run(
        [sys.executable, "-c", limited, tmp_path, "1", "filling"], capture_output=True, text=True, check=True
    )

    assert run.stdout.splitlines() == ["filling error", "end error"]
    assert "could not store" in (tmp_path / "out/results.json").read_text(encoding="utf-8")


def test_a_disk_that_is_already_full_is_rejected(small_disk: Path, tmp_path: Path) -> None:
    """No kernel starts if its verdict could not be stored."""
    (small_disk / "big").write_bytes(b"x" * 98_000)

    with pytest.raises(InputError, match=r"could not store .* .* bytes free\); use another folder"):
        run_all([RunbookRequest("good", runbook(tmp_path, "good", PASS))], out=small_disk / "out")


@pytest.mark.slow
def test_results_that_cannot_be_stored_are_an_error(small_disk: Path, tmp_path: Path) -> None:
    """A disk that fills during runs ends in one line."""
    filler = f"open({str(small_disk / 'big')!r}, 'wb', buffering=0).write(bytes(200_000))"

    with pytest.raises(RunbooksError, match="could not store"):
        run_all([RunbookRequest("good", runbook(tmp_path, "good", filler, PASS), "k")], out=small_disk / "out")


# The request.


def test_names_of_cases_stay_in_the_folder(tmp_path: Path) -> None:
    """For any case name, its notebook is in the folder with a unique name."""
    requests = [
        RunbookRequest("r", Path(), case, refused="x") for case in ("../../up", "a/b", "a_b", ".hidden", "", None)
    ]

    results = run_all(requests, out=tmp_path / "out")

    assert [result.verdict for result in results] == [Verdict.ERROR] * 6
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["index.html", "junit.xml", "out", "results.json"]


def test_a_run_is_compared_with_the_last_one_in_its_folder(tmp_path: Path) -> None:
    """The folder's results are kept, and the report has the changes."""
    earlier = {"runs": [{"runbook": "r", "case": "k", "verdict": "pass"}], "began": "2026-01-02T03:04:05+00:00"}
    (tmp_path / "results.json").write_text(json.dumps(earlier), encoding="utf-8")

    for change in ("1</strong> new failure<", "1</strong> still failing<"):
        run_all([RunbookRequest("r", Path(), "k", refused="its evidence cannot be read")], out=tmp_path)
        assert change in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_control_characters_do_not_break_the_xml(tmp_path: Path) -> None:
    """A reason may quote a log; characters that XML does not allow are dropped."""
    run_all([RunbookRequest("r", Path(), "c\x00\ud800", refused="a \x1b[31m<b>&\x07 \ufffe")], out=tmp_path)

    case = ET.parse(tmp_path / "junit.xml").getroot()[0]  # noqa: S314 - our own file

    assert case.get("name") == "c"
    assert "<b>&" in (case[0].get("message") or "")


def test_an_unusable_folder_is_rejected(tmp_path: Path) -> None:
    """A file where the folder should be is one line."""
    (tmp_path / "out").write_text("", encoding="utf-8")

    with pytest.raises(InputError, match="cannot be used"):
        run_all([], out=tmp_path / "out")


def test_signal_handlers_are_restored(tmp_path: Path) -> None:
    """The caller's own handlers are in place after a suite."""
    before = signal.getsignal(signal.SIGINT)
    run_all([RunbookRequest("r", Path(), refused="x")], out=tmp_path)

    assert signal.getsignal(signal.SIGINT) is before


# papermill by itself.


@pytest.mark.slow
def test_papermill_can_use_the_engine_by_itself(tmp_path: Path) -> None:
    """The engine brings its kernel, its sockets and its way of storing along."""
    path = runbook(tmp_path, "good", f"print({SECRET!r})", PASS)
    script = (
        "import papermill; from papermill.engines import papermill_engines\n"
        "from vllm_runbooks.runbooks.worker import Engine\n"
        "papermill_engines.register('ours', Engine)\n"
        f"papermill.execute_notebook({str(path)!r}, {str(tmp_path / 'out.ipynb')!r}, engine_name='ours')"
    )

    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)

    text = (tmp_path / "out.ipynb").read_text(encoding="utf-8")
    assert VERDICT_MIME in text
    assert SECRET not in text


# The commands.


def recorded(folder: Path, name: str, *, runbooks: str = "good", text: str | None = None) -> None:
    """Write a recorded case that names these runbooks."""
    case = folder / "cases" / name
    case.mkdir(parents=True)
    (case / "startup.log").write_text("INFO 11-20 06:23:11 [api_server.py:1] started\n", encoding="utf-8")
    content = f"id: {name}\ntitle: A case\nsource: ours\nfiles: [startup.log]\nexpect: {{class: ok}}\n"
    (case / "case.yaml").write_text(text or f"{content}runbooks: [{runbooks}]\n", encoding="utf-8")


@pytest.fixture
def shelf(tmp_path: Path) -> list[str]:
    """A folder of two runbooks and two cases, as options of the commands."""
    (tmp_path / "runbooks").mkdir()
    runbook(tmp_path / "runbooks", "good", PASS)
    runbook(tmp_path / "runbooks", "failing", "give(Verdict.FAIL, 'found it')")
    recorded(tmp_path, "a-case")
    recorded(tmp_path, "b-case", runbooks="good, failing")
    return [
        "--runbooks",
        str(tmp_path / "runbooks"),
        "--cases",
        str(tmp_path / "cases"),
        "--out",
        str(tmp_path / "out"),
    ]


@pytest.mark.slow
def test_check_runs_runbooks_on_the_cases_that_name_them(
    shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Broken ones are errors next to other results; progress is on stderr, and the status is 1."""
    (tmp_path / "runbooks/broken.ipynb").write_text("{", encoding="utf-8")
    recorded(tmp_path, "c-case", text="id: [\n")
    recorded(tmp_path, "d-case", runbooks="goood, broken")

    status = command_line(["check", *shelf, "--only", "broken", "--only", "[bcd]-case"])
    printed = capfd.readouterr()

    runs = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))["runs"]
    assert status == 1
    assert [(run["runbook"], run["case"], run["verdict"]) for run in runs] == [
        ("broken", None, "error"),
        ("good", "b-case", "pass"),
        ("failing", "b-case", "fail"),
        ("(any)", "c-case", "error"),
        ("goood", "d-case", "error"),
    ]
    assert "did you mean good?" in runs[4]["reason"]
    assert "FAIL failing on b-case: found it" in printed.out.splitlines()
    assert printed.out.splitlines()[-2:] == ["1 pass, 1 fail, 3 error", f"Report: {tmp_path / 'out/index.html'}"]
    assert len(printed.err.splitlines()) == 5


@pytest.mark.slow
def test_check_runs_a_case_without_a_runbook(
    shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its diagnosis, in every list next to the others, without a notebook."""
    recorded(tmp_path, "lone-case", runbooks="")
    recorded(tmp_path, "odd-case", runbooks="")
    (tmp_path / "cases/odd-case/startup.log").write_text("OSError: [Errno 98] Address already in use\n", "utf-8")

    status = command_line(["check", *shelf, "--only", "a-case", "--only", "*-case", "--only", "good"])
    printed = capfd.readouterr()

    found = [
        (run["runbook"], run["case"], run["verdict"], run["notebook"])
        for run in json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))["runs"]
    ]
    assert found[0] == ("good", "a-case", "pass", "good--a-case.ipynb")
    assert found[3:] == [(NO_RUNBOOK, "lone-case", "pass", None), (NO_RUNBOOK, "odd-case", "fail", None)]
    assert status == 1
    assert f"FAIL {NO_RUNBOOK} on odd-case: class: expected ok, got port.in_use" in printed.out.splitlines()
    assert "3 pass, 2 fail" in printed.out.splitlines()
    listed = ET.parse(tmp_path / "out/junit.xml").iter("testcase")  # noqa: S314 - our own file
    assert (NO_RUNBOOK, "lone-case") in [(case.get("classname"), case.get("name")) for case in listed]
    assert "<strong>Diagnosis only</strong> <span class=case>lone-case</span>" in (
        tmp_path / "out/index.html"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tiny-cpu-port-in-use", "as expected: failed, port.in_use"),
        ("plan-autoglm-8x3090", "as expected: it fits"),
        ("copied-launch-script", "as expected: 11 issues"),
    ],
)
def test_a_case_has_the_verdict_of_its_tool(name: str, reason: str) -> None:
    """A log that of the diagnosis, a question the plan's, a script lint's."""
    verdict = bench.verdict_alone(str(folders.cases_dir() / name))["verdict"]

    assert (verdict["case"], verdict["verdict"], verdict["reason"]) == (name, "pass", reason)


@pytest.mark.slow
def test_a_case_that_fails_to_run_alone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable, too slow, or a killed process; the reason says which."""
    recorded(tmp_path, "k", runbooks="")
    folder = tmp_path / "cases" / "k"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif sys.orig_argv[-1].endswith('dies'): os._exit(3)\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    requests = [
        RunbookRequest(NO_RUNBOOK, tmp_path / "none", "k", is_alone=True),
        RunbookRequest(NO_RUNBOOK, folder, "k", timeout_s=0.01, is_alone=True),
        RunbookRequest(NO_RUNBOOK, tmp_path / "dies", "k", is_alone=True),
        RunbookRequest(NO_RUNBOOK, folder, "other", is_alone=True),
    ]

    results = run_all(requests, out=tmp_path / "out")

    assert {result.verdict for result in results} == {Verdict.ERROR}
    assert [result.refused for result in results] == [True, False, False, False]
    assert "no such file" in results[0].reason
    assert [result.reason for result in results[1:]] == [
        "timed out after 0.01 s",
        "the diagnosis died (exit status 3); no verdict was written",
        "the verdict is for case k, not other",
    ]
    assert "no such file" in bench.verdict_alone(str(tmp_path / "none"))["reason"]


def test_no_case_starts_once_the_suite_ends(tmp_path: Path) -> None:
    """Pending ones are interrupted."""
    ending = suite.Suite([RunbookRequest(NO_RUNBOOK, tmp_path, "k", is_alone=True)], out=tmp_path, progress=None)
    ending.stop()
    judge = bench.Bench("t", runtime=tmp_path, name="0", gate=ending.gate)
    ending.judged(0, judge.execute(0, ending.order(0)), seconds=0.0)

    event = ending.events.get()
    assert isinstance(event, tuple)
    assert event[1] is not None
    assert event[1].verdict is Verdict.INTERRUPTED


def test_check_exits_with_0_if_all_pass(shelf: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """With one document on stdout, on request."""
    status = command_line(["check", *shelf, "--only", "a-*", "--format", "json"])

    assert status == 0
    assert json.loads(capfd.readouterr().out)["runs"][0]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "--only", "god"], "did you mean good?"),
        (["check", "--only", "good", "--only", "zzz"], "--only zzz"),
        (["check", "--jobs", "0"], "jobs"),
        (["run", "god"], "did you mean good?"),
        (["run", "good", "-p", "evidenc", "x"], "did you mean evidence?"),
        (["run", "good", "-p", "where", "a", "-p", "where", "b"], "set twice"),
        (["run", "good", "-p", "evidence", "/no/such/file"], "no such file"),
        (["run", "good"], "k: no such file"),
        (["run", "/no/such.ipynb"], "no such file"),
        (["show", "god"], "did you mean good?"),
    ],
)
def test_an_invalid_request_is_rejected_before_any_kernel(
    shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """Status 2, one line on stderr, no output, and no folder."""
    kept = {"check": shelf, "run": shelf[:2] + shelf[4:], "show": shelf[:2]}[arguments[0]]

    status = command_line([*arguments, *kept])
    printed = capfd.readouterr()

    assert (status, printed.out) == (2, "")
    assert len(printed.err.splitlines()) == 1
    assert says in printed.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_run_exits_with_2_for_unreadable_input(
    shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A parameter that only a cell can check: one line on stderr; another error stays 1."""
    cell = "from vllm_runbooks.core.errors import InputError\nraise {}('no/such: is no model')"
    runbook(tmp_path / "runbooks", "refusing", cell.format("InputError"))
    runbook(tmp_path / "runbooks", "breaking", cell.format("ValueError"))
    evidence = ["-p", "evidence", str(tmp_path / "cases/a-case"), *shelf[:2], *shelf[4:]]

    refused = command_line(["run", "refusing", *evidence])
    said = capfd.readouterr()
    broken = command_line(["run", "breaking", *evidence])

    assert (refused, said.out, broken) == (2, "", 1)
    assert said.err.splitlines()[-1] == "vllm-runbooks: refusing: no/such: is no model"


def test_run_reports_the_verdict(shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With the executed notebook and the status; a path to an .ipynb works like an id."""
    evidence = ["-p", "evidence", str(tmp_path / "cases/a-case")]

    status = command_line(["run", str(tmp_path / "runbooks/failing.ipynb"), *evidence, *shelf[4:]])

    assert status == 1
    assert capfd.readouterr().out.splitlines() == [
        "FAIL failing on a-case: found it",
        f"Executed notebook: {tmp_path / 'out/failing.ipynb'}",
        f"Report: {tmp_path / 'out/index.html'}",
    ]


def test_runbooks_are_listed_and_shown(shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ids with titles; one with its parameters; a broken one is named and makes the status 1."""
    assert command_line(["list", *shelf[:2]]) == 0
    assert capfd.readouterr().out.splitlines() == ["failing  Title", "good     Title"]
    assert command_line(["show", "good", *shelf[:2]]) == 0
    assert "  evidence: str = 'k'  case" in capfd.readouterr().out
    (tmp_path / "runbooks/broken.ipynb").write_text("{", encoding="utf-8")
    assert command_line(["list", *shelf[:2], "--format", "json"]) == 1
    assert [book["id"] for book in json.loads(capfd.readouterr().out)["runbooks"]] == ["failing", "good"]


@pytest.mark.slow
def test_the_results_have_their_versions_and_times(tmp_path: Path) -> None:
    """Reports of different nights can be distinguished."""
    runbook(tmp_path, "good", PASS)
    run_all([RunbookRequest("good", tmp_path / "good.ipynb")], out=tmp_path / "out")

    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))

    assert results["tool"].startswith("vllm-runbooks ")
    assert abs(datetime.fromisoformat(results["began"]).timestamp() - time.time()) < 600
    assert results["tool"] in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_runs_with_one_name_are_stored_separately(tmp_path: Path) -> None:
    """Two runs with equal file names have a notebook each."""
    runbook(tmp_path, "good", PASS)
    same = [RunbookRequest("good", tmp_path / "good.ipynb", parameters={"evidence": name}) for name in ("a/b", "a:b")]

    results = run_all(same, out=tmp_path / "out")

    assert len({result.notebook for result in results}) == 2


@POSIX
def test_ending_one_run_leaves_the_next_alone() -> None:
    """The processes of run 10 do not belong to run 1."""
    sleeper = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]
    tagged = {**os.environ, TAG: "abc.10"}
    with subprocess.Popen(sleeper, env=tagged, stdout=subprocess.PIPE, start_new_session=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            sweep("abc.1", patience_s=0.5)

            assert other.poll() is None
        finally:
            other.kill()


STEP = """\
from dataclasses import dataclass
from vllm_runbooks.runbooks import steps
@dataclass(frozen=True)
class Made:
    number: int
def act(step): return steps.do(step, lambda: Made(1), Made)
x = act("{0}") if {1} else None
"""


def in_steps(folder: Path) -> Path:
    """A runbook of two steps, the second of which needs a parameter."""
    path = runbook(folder, "parted", STEP.format("c0", "True"), STEP.format("c1", "apply"), PASS)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["id"] == "parameters":
            cell["source"] += "apply: bool = False  # do the second as well\nlive: bool = False  # on this host\n"
        elif cell["id"] in ("c0", "c1"):
            cell["metadata"]["tags"] = ["step"]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_resumed_run_names_reused_steps(shelf: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A step without work is not a pass."""
    path, evidence = in_steps(tmp_path / "runbooks"), ["-p", "evidence", str(tmp_path / "cases/a-case")]

    def said(*more: str) -> list[str]:
        assert command_line(["run", str(path), *evidence, *shelf[4:], *more]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert [line.partition(":")[0] for line in lines[-2:]] == ["Executed notebook", "Report"]
        return lines[:-2]

    passed = "PASS parted on a-case: fine"
    assert said("--resume", "-p", "apply", "true") == [passed]
    assert said("--resume", "-p", "apply", "true") == [passed, "Kept from earlier runs: c0, c1"]
    assert said("--resume") == [passed, "Kept from earlier runs: c0"]
    assert said("--step", "c1") == [
        "SKIPPED parted: step c1 had nothing to do, or has no result; see its cell in the notebook",
        "Kept from earlier runs: c0",
    ]
    assert said("--step", "c1", "-p", "apply", "true")[0] == "PASS parted: step c1 is done"
    assert said() == [passed]


@pytest.mark.parametrize(
    ("left", "parameters", "verdict", "reason"),
    [
        ('{"status": "done"}', {"apply": True}, "pass", "step c1 is done"),
        ('{"status": "open"}', {"apply": True}, "fail", "step c1 did not finish, and runs again"),
        ("{", {"apply": True}, "fail", "step c1 did not finish, and runs again"),
        (None, {"apply": True}, "skipped", "step c1 had nothing to do, or has no result; see its cell in the notebook"),
    ],
)
@pytest.mark.parametrize("is_old", [False, True])
def test_a_step_passes_if_it_wrote_a_result(
    tmp_path: Path, left: str | None, parameters: dict[str, bool], verdict: str, reason: str, *, is_old: bool
) -> None:
    """An unchanged earlier file is not a result of this run."""
    path = in_steps(tmp_path)
    kept = tmp_path / "c1.json"
    if is_old:
        kept.write_text('{"status": "done"}', encoding="utf-8")
    before = steps.stamp(kept)
    if left is not None:
        (tmp_path / "new").write_text(left, encoding="utf-8")
        (tmp_path / "new").replace(kept)
    order = {"input": str(path), "step": "c1", "steps": str(tmp_path), "parameters": parameters}

    concluded = worker._of_step(order, path, before)["verdict"]

    assert concluded["verdict"] == verdict
    assert concluded["reason"].startswith(reason)


def test_an_error_in_a_steps_cell_is_its_reason(tmp_path: Path) -> None:
    """With or without a result of the step."""
    path = in_steps(tmp_path)
    executed = json.loads(path.read_text(encoding="utf-8"))
    executed["cells"][4]["outputs"] = [{"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}]
    path.write_text(json.dumps(executed), encoding="utf-8")

    answer = worker._of_step({"step": "c1", "steps": str(tmp_path)}, path, None)

    assert answer == {"reason": "ValueError: no in cell c1; no verdict was reached"}


def test_show_describes_live(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without it nothing is changed; the steps are listed."""
    runbook(tmp_path, "plain", PASS)
    in_steps(tmp_path)

    def said(id_: str) -> list[str]:
        assert command_line(["show", id_, "--runbooks", str(tmp_path)]) == 0
        return capfd.readouterr().out.splitlines()[6:8]

    assert said("parted") == ["Side effects: none without live", "Steps:        c0, c1"]
    assert said("plain") == ["Side effects: none", ""]


def test_a_server_that_would_not_be_launched_is_rejected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of the shipped runbooks too: one line, status 2."""
    arguments = ["run", "single-gpu-oom", "-p", "serve", "vllm serve m", "--out", str(tmp_path / "out")]

    said = "serve is set without live, so nothing would be launched or read on this host"
    assert command_line(arguments) == 2
    assert capfd.readouterr() == (
        "",
        f"vllm-runbooks: single-gpu-oom: {said}; add -p live true\n",
    )


def test_run_begins_with_the_summary(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Failure and first fix, then the verdict and the notebook's path."""
    evidence = ["-p", "evidence=tiny-cpu-port-in-use"]
    status = command_line(["run", "single-gpu-oom", *evidence, "--out", str(tmp_path), "--no-history"])
    lines = capfd.readouterr().out.splitlines()

    assert status == 0
    assert lines[0].startswith("FAILED   startup.log · vLLM 0.32.0")
    assert "port.in_use" in lines[2]
    assert lines[-3].startswith("PASS single-gpu-oom on tiny-cpu-port-in-use")
    assert lines[-2] == f"Executed notebook: {tmp_path / 'single-gpu-oom.ipynb'}"
    assert lines[-1] == f"Report: {tmp_path / 'index.html'}"
