"""`check --ray`: a cluster has the verdicts of one host, whatever happens to its nodes.

The protocol is tested with a program in place of the one that joins Ray; real Ray over two network
namespaces is slow.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

import namespaces
from namespaces import Ring
from pace import scaled
from test_cluster_net import CLI, Cluster
from test_suite import HANG, PASS, STRAY, are_gone, recorded, runbook
from vllm_runbooks.cli import run as command_line
from vllm_runbooks.cluster import node_tasks, tasks
from vllm_runbooks.core import extras
from vllm_runbooks.core.errors import InputError

HERE = {"host": "a", "tool": "1", "catalog": "c", "cases": "k", "python": "3.11.7"}
BRIDGE = """\
import json, sys
def say(**told):
    print(json.dumps(told), flush=True)
def node(name, **facts):
    facts = None if facts.get("tool") == "" else {**HERE, **facts}
    why = "" if facts else "vllm-runbooks is not installed in its Python; install it"
    return {"name": name, "address": "10.0.0.1", "id": name * 4, "why": why, "is_head": False, "cpus": 1.0,
            "facts": facts, "is_lost": False}
def done(index, node, reason="fine", **more):
    verdict = {"schema": 2, "verdict": "pass", "reason": reason, "case": asked["runs"][index]["order"]["alone"][-1],
                 "outcome": None, "root_cause": None, "findings": [], "facts": {}}
    say(done=index, answer={"verdict": verdict}, seconds=1.5, node=node, lost_on=more.get("lost_on", []))
"""


class Told:
    """The result of `check`."""

    def __init__(self, status: int, out: Path, printed: str, said: str) -> None:
        self.status, self.out, self.printed, self.said = status, out, printed, said

    @property
    def results(self) -> dict[str, Any]:
        return dict(json.loads((self.out / "results.json").read_text(encoding="utf-8")))


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """`check --ray` of the cases a, b and c, with this program instead of Ray's."""
    for name in "abc":
        recorded(tmp_path, name, runbooks="")

    def run(script: str, *words: str, is_kept: bool = False) -> Told:
        bridge = tmp_path / "bridge.py"
        bridge.write_text(f"HERE = {HERE!r}\n{BRIDGE}{script}", encoding="utf-8")
        monkeypatch.setattr(tasks, "module", lambda _: [sys.executable, str(bridge)])
        monkeypatch.setattr(extras, "missing", lambda _: "")  # the replacement needs no Ray
        out = tmp_path / "out"
        given = ["--cases", str(tmp_path / "cases"), "--out", str(out), *([] if is_kept else ["--no-history"])]
        status = command_line(["check", "--ray", "10.0.0.1:6379", *given, *words])
        return Told(status, out, *capfd.readouterr())

    return run


def test_a_lost_node_is_reported_and_its_runs_count_once(check: Any) -> None:
    """The check ends with 1; each run is listed once, with its host."""
    told = check(
        "say(nodes=[node('one'), node('two', python='3.12.1')], here=HERE); asked = json.loads(sys.stdin.readline())\n"
        "say(begun=0); say(begun=1); done(0, 'one'); say(lost='two', why='it was lost')\n"
        "say(begun=2); done(1, 'one', lost_on=['two']); done(2, 'one'); say(through=True); sys.stdin.read()"
    )

    runs = told.results["runs"]
    assert told.status == 1
    assert [(run["case"], run["verdict"], run["node"]) for run in runs] == [(case, "pass", "one") for case in "abc"]
    assert [run.get("lost_on") for run in runs] == [None, ["two"], None]
    assert [(node["name"], node["is_lost"]) for node in told.results["nodes"]] == [("one", False), ("two", True)]
    assert "node two: it was lost; its runs are restarted on other nodes" in told.said
    assert "Node one: 3 pass" in told.printed
    assert "Node two: lost" in told.printed
    assert "Differs between nodes: python (one: 3.11.7; two: 3.12.1)" in told.printed
    page = (told.out / "index.html").read_text(encoding="utf-8")
    assert "<h2>By node</h2>" in page
    assert "started before on two" in page
    assert "<strong>two</strong> 3.12.1" in page


def test_the_history_has_the_nodes_of_each_run(check: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """One entry for the check with its nodes, the lost one named; each run once, with the host that executed it."""
    check(
        "say(nodes=[node('one', host='host-1'), node('two', host='host-2')], here=HERE)\n"
        "asked = json.loads(sys.stdin.readline())\n"
        "say(begun=0); say(begun=1); done(0, 'one'); say(lost='two', why='it was lost')\n"
        "say(begun=2); done(1, 'one', lost_on=['two']); done(2, 'one'); say(through=True); sys.stdin.read()",
        is_kept=True,
    )
    assert command_line(["history", "export", "-"]) == 0
    whole, *runs = map(json.loads, capfd.readouterr().out.splitlines())

    assert whole["reason"] == "3 pass, node two lost"
    assert [(node["name"], node["is_lost"]) for node in whole["results"]["nodes"]] == [("one", False), ("two", True)]
    told = sorted((run["subject"], run["host"], run["results"].get("lost_on")) for run in runs)
    assert told == [(f"(no runbook) on {case}", "host-1", ["two"] if case == "b" else None) for case in "abc"]


def test_a_lost_cluster_leaves_errors_and_no_open_runs(check: Any) -> None:
    """Finished verdicts stay; the others are errors, without an endless wait."""
    told = check(
        "say(nodes=[node('one')], here=HERE); asked = json.loads(sys.stdin.readline())\n"
        "say(begun=0); done(0, 'one'); say(begun=1)"
    )

    assert told.status == 1
    assert [run["verdict"] for run in told.results["runs"]] == ["pass", "error", "error"]
    assert told.results["runs"][2]["reason"] == "lost the connection to the Ray cluster"


def test_a_missing_cluster_is_a_result_and_not_invalid_input(check: Any) -> None:
    """Reported once, in one line; every run is an error in the documents."""
    told = check("say(error='no Ray cluster at 10.0.0.1:6379: Connection refused')")

    assert told.status == 1
    assert {run["verdict"] for run in told.results["runs"]} == {"error"}
    assert told.said.count("vllm-runbooks: --ray 10.0.0.1:6379: no Ray cluster at") == 1
    assert "Connection refused" not in told.printed


def test_a_node_with_another_catalog_gets_no_run(check: Any) -> None:
    """A node with another catalog, or without this package, is named and left out, and makes the check end with 1."""
    told = check(
        "say(nodes=[node('one'), node('two', catalog='d'), node('three', tool='')], here=HERE)\n"
        "asked = json.loads(sys.stdin.readline())\n"
        "for run in asked['runs']: say(begun=run['index']); done(run['index'], 'one', ','.join(asked['fit']))\n"
        "say(through=True); sys.stdin.read()"
    )

    assert told.status == 1
    assert {run["reason"] for run in told.results["runs"]} == {"oneoneoneone"}
    assert "node two: skipped: different catalog than on this host" in told.said
    assert "node three: vllm-runbooks is not installed in its Python" in told.said


def test_every_node_is_compared_with_the_others(check: Any) -> None:
    """Each run is executed on each node, and different verdicts are shown."""
    told = check(
        "say(nodes=[node('one'), node('two', catalog='d')], here=HERE); asked = json.loads(sys.stdin.readline())\n"
        "for run in asked['runs']:\n"
        "    say(begun=run['index']); at = run['node'][:3]\n"
        "    if run['index'] != 4: done(run['index'], at)\n"
        "    else: say(done=4, answer={'reason': 'it died'}, seconds=0.1, node=at, lost_on=[])\n"
        "say(through=True); sys.stdin.read()",
        "--every-node",
        "--format",
        "json",
    )

    document = json.loads(told.printed)
    assert [(run["case"], run["node"]) for run in document["runs"]] == [(c, n) for n in ("one", "two") for c in "abc"]
    found = {each["fact"]: each["values"] for each in document["differences"]}
    assert found["catalog"] == {"one": "c", "two": "d"}
    assert found["(no runbook) on b"] == {"one": "pass", "two": "error"}
    assert set(found) == {"catalog", "(no runbook) on b"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ray", "nohost"], "write HOST:PORT"),
        (["--ray", "ray://h:1"], "write HOST:PORT"),
        (["--ray", "local"], "write HOST:PORT"),
        (["--ray", "-h:1"], "write HOST:PORT"),
        (["--ray", "h:99999"], "write HOST:PORT"),
        (["--every-node"], "--ray"),
    ],
)
def test_an_invalid_address_is_rejected(words: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, status 2, no output, and no process."""
    assert command_line(["check", "--only", "tiny-cpu-port-in-use", *words]) == 2
    printed, told = capfd.readouterr()
    assert printed == ""
    assert said in told
    assert len(told.splitlines()) == 1


def test_input_files_are_copied_to_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders keep their names; too large ones are rejected."""
    (tmp_path / "case" / "deep").mkdir(parents=True)
    (tmp_path / "case" / "deep" / "a.log").write_text("x", encoding="utf-8")
    folder = node_tasks.pack(tmp_path / "case").unpack(tmp_path / "1")
    file = node_tasks.pack(tmp_path / "case/deep/a.log").unpack(tmp_path / "2")

    assert folder == tmp_path / "1" / "case"
    assert (folder / "deep/a.log").read_text(encoding="utf-8") == "x"
    assert file.read_text(encoding="utf-8") == "x"
    monkeypatch.setattr(node_tasks, "MOST_BYTES", 0)
    with pytest.raises(InputError, match="too large"):
        node_tasks.pack(tmp_path / "case")


TASK = """\
import sys
from pathlib import Path
from vllm_runbooks.cluster import node_tasks
folder, notebook = map(Path, sys.argv[1:])
order = {"input": str(notebook), "output": str(folder / "o.ipynb"), "parameters": {}, "timeout_s": 60.0,
         "steps": str(folder / "steps"), "step": None, "step_tries": None, "step_timeout_s": None}
bench = node_tasks._bench("t", is_fresh=False)
print(bench.runtime, flush=True)
bench.execute(0, order)
"""


@pytest.mark.slow
def test_a_killed_task_leaves_nothing(tmp_path: Path) -> None:
    """Its supervisor is not a child, as Ray kills those first; all processes end soon."""
    notebook = runbook(tmp_path, "r", STRAY.replace("where", repr(str(tmp_path / "pids"))), HANG, PASS)
    task = subprocess.Popen(
        [sys.executable, "-c", TASK, str(tmp_path), str(notebook)], stdout=subprocess.PIPE, text=True
    )
    assert task.stdout is not None
    runtime = Path(task.stdout.readline().strip())
    assert runtime.is_dir()
    ends_at = time.monotonic() + scaled(60)
    while not (tmp_path / "pids").is_file() or len((tmp_path / "pids").read_text().split()) < 3:
        assert task.poll() is None
        assert time.monotonic() < ends_at
        time.sleep(0.1)
    for process in [*psutil.Process(task.pid).children(), psutil.Process(task.pid)]:
        process.kill()
    task.wait()
    task.stdout.close()

    *strays, hidden = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    # Without its environment a process is found by its parents only, and those were killed.
    psutil.Process(hidden).kill()
    assert are_gone(strays, within_s=10)
    while runtime.exists():
        assert time.monotonic() < ends_at
        time.sleep(0.1)


# ---- real Ray

real = pytest.mark.skipif(bool(namespaces.why_not()), reason=f"no network namespaces here: {namespaces.why_not()}")
RAY_SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    # Other tests may use the processors while Ray starts.
    "RAY_raylet_start_wait_time_s": "100",
    "RAY_agent_register_timeout_ms": "100000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ray over two hosts, a CPU on each."""
    folder = Path(f"/tmp/rc{time.time_ns() % 10**6}")  # noqa: S108 - a socket's path has 107 bytes at most
    folder.mkdir()
    with Ring(2) as ring:
        found = Cluster(ring, folder)
        for host in ring.hosts:
            # A host that is killed clears up nothing.
            found.start(host, TMPDIR=str(folder), **RAY_SETTINGS)
        yield found
    shutil.rmtree(folder, ignore_errors=True)


def started(cluster: Cluster, shelf: Path, *words: str) -> subprocess.Popen[str]:
    """Run `check --ray` on the first host."""
    given = ["--runbooks", str(shelf / "runbooks"), "--cases", str(shelf / "cases"), "--no-history"]
    return cluster.ring.start(
        cluster.ring.hosts[0],
        [*CLI, "check", "--ray", cluster.address, *given, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def by_run(results: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(run["runbook"], run["case"]): (run["verdict"], run["reason"]) for run in results["runs"]}


def read(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "results.json").read_text(encoding="utf-8")))


@real
@pytest.mark.full
def test_a_cluster_has_the_verdicts_of_one_host(cluster: Cluster, tmp_path: Path) -> None:
    """The same verdicts for the same reasons, notebooks at their place, over both nodes; and on every node."""
    cells = {"good": [PASS], "bad": ["give(Verdict.FAIL, 'found it')"], "dies": ["import os; os._exit(3)", PASS]}
    (tmp_path / "runbooks").mkdir()
    for name, given in cells.items():
        runbook(tmp_path / "runbooks", name, "import time; time.sleep(1)", *given)
    recorded(tmp_path, "k", runbooks="good, bad, dies")
    recorded(tmp_path, "l", runbooks="good, bad")
    given = ["--runbooks", str(tmp_path / "runbooks"), "--cases", str(tmp_path / "cases"), "--no-history"]
    assert command_line(["check", *given, "--out", str(tmp_path / "here")]) == 1

    process = started(cluster, tmp_path, "--out", str(tmp_path / "there"))
    _, said = process.communicate(timeout=400)

    here, there = read(tmp_path / "here"), read(tmp_path / "there")
    assert process.returncode == 1, said
    assert by_run(there) == by_run(here)
    assert [run["notebook"] for run in there["runs"]] == [run["notebook"] for run in here["runs"]]
    assert {run["node"] for run in there["runs"]} == {node["name"] for node in there["nodes"]}
    assert len(there["nodes"]) == 2
    assert there["differences"] == []

    process = started(cluster, tmp_path, "--out", str(tmp_path / "every"), "--every-node", "--only", "good")
    _, said = process.communicate(timeout=400)
    every = read(tmp_path / "every")
    assert process.returncode == 0, said
    assert len(every["runs"]) == 4
    assert {(run["case"], run["node"]) for run in every["runs"]} == {
        (case, node["name"]) for case in "kl" for node in every["nodes"]
    }


@pytest.mark.full
@real
@pytest.mark.slow
def test_a_node_executes_one_run_per_cpu(cluster: Cluster, tmp_path: Path) -> None:
    """One here: Ray would lend the CPU of a waiting task to the next one."""
    times = tmp_path / "times"
    times.mkdir()
    cell = (
        "import os, pathlib, time; began = time.monotonic(); time.sleep(1)\n"
        f"pathlib.Path({str(times)!r}, str(os.getpid()) + str(began)).write_text("
        "f\"{os.readlink('/proc/self/ns/net')} {began} {time.monotonic()}\")"
    )
    (tmp_path / "runbooks").mkdir()
    runbook(tmp_path / "runbooks", "good", cell, PASS)
    for case in "klmnop":
        recorded(tmp_path, case)

    process = started(cluster, tmp_path, "--out", str(tmp_path / "there"))
    _, said = process.communicate(timeout=400)

    assert process.returncode == 0, said
    by_node: dict[str, list[tuple[float, float]]] = {}
    for file in times.iterdir():
        node, began, ended = file.read_text(encoding="utf-8").split()
        by_node.setdefault(node, []).append((float(began), float(ended)))
    assert sum(map(len, by_node.values())) == 6
    assert len(by_node) == 2
    for runs in map(sorted, by_node.values()):
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(runs))


@pytest.mark.full
@real
@pytest.mark.slow
def test_an_interrupted_check_leaves_nothing_on_the_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """Ray is left, all processes of runs end on every node, and open runs are marked."""
    (tmp_path / "runbooks").mkdir()
    names = ["r0", "r1"]
    for name in names:
        runbook(tmp_path / "runbooks", name, STRAY.replace("where", repr(str(tmp_path / f"{name}.pids"))), HANG, PASS)
    recorded(tmp_path, "k", runbooks=", ".join(names))
    process = started(cluster, tmp_path, "--out", str(tmp_path / "out"))
    ends_at = time.monotonic() + scaled(200)
    while not all((tmp_path / f"{name}.pids").is_file() for name in names):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at
        time.sleep(0.2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = process.communicate(timeout=100)

    print(f"interrupted: over after {time.monotonic() - began:.1f} s")
    strays = [int(pid) for name in names for pid in (tmp_path / f"{name}.pids").read_text().split()]
    assert len(strays) == 6
    assert are_gone(strays, within_s=15)
    assert process.returncode == 1, said
    assert {run["verdict"] for run in read(tmp_path / "out")["runs"]} == {"interrupted"}
    print(f"nothing left after {time.monotonic() - began:.1f} s")


@pytest.mark.full
@real
@pytest.mark.slow
def test_a_killed_node_loses_no_run(cluster: Cluster, tmp_path: Path) -> None:
    """Its runs are executed elsewhere, once, and it is named. Comes last."""
    (tmp_path / "runbooks").mkdir()
    names = [f"r{number}" for number in range(8)]
    for name in names:
        runbook(
            tmp_path / "runbooks",
            name,
            STRAY.replace("where", repr(str(tmp_path / name)) + " + str(__import__('os').getpid())"),
            "import time; time.sleep(4)",
            PASS,
        )
    recorded(tmp_path, "k", runbooks=", ".join(names))
    out = tmp_path / "out"
    process = started(cluster, tmp_path, "--out", str(out))
    lost = cluster.ring.address(cluster.ring.hosts[1])
    ends_at = time.monotonic() + scaled(300)
    while not (out / "results.json").is_file() or not any(run.get("node") == lost for run in read(out)["runs"]):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends_at
        time.sleep(0.2)
    time.sleep(2)
    for pid in cluster.ring.pids(cluster.ring.hosts[1]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    printed, said = process.communicate(timeout=400)

    found = read(out)
    assert [(run["runbook"], run["verdict"]) for run in found["runs"]] == [(name, "pass") for name in names], said
    assert process.returncode == 1
    assert f"node {lost}: " in said
    assert any(lost in run.get("lost_on", []) for run in found["runs"])
    assert [node["name"] for node in found["nodes"] if node["is_lost"]] == [lost]
    strays = [int(pid) for path in tmp_path.glob("r[0-9]*") for pid in path.read_text().split()]
    assert strays
    assert are_gone(strays, within_s=15)
    assert f"Node {lost}: lost" in printed
