"""One supervised server over several nodes: local agents as nodes, and a fake vLLM."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from command_line import run
from pace import scaled
from ports import free_port
from test_cluster import agent, gone
from test_serve import RACE
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.cluster import carriers, starting_nodes
from vllm_runbooks.cluster.node_checks import NodeChecks
from vllm_runbooks.cluster.over_nodes import NodeCommand, OverNodes
from vllm_runbooks.cluster.starting_nodes import CheckedLaunchNodes, ClusterLaunch, PlannedClusterLaunch
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Edit
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes.records import Cluster, NodeFacts
from vllm_runbooks.probe.starts import Check, Guarded, LaunchResult
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import history_entry as guarded
from vllm_runbooks.serve import places

SERVED = folders.cases_dir() / "tiny-cpu-served" / "startup.log"
NODES = ("head", "second")
KEY = "sk-of-this-test-only"


class Stage:
    """Two agents, each with a fake `vllm` that follows its own steps."""

    def __init__(self, folder: Path, **steps: list[dict[str, Any]]) -> None:
        self.folder, self.port = folder, free_port()
        self.said: list[str] = []
        program = folder / "bin" / "vllm"
        program.parent.mkdir()
        stand_in = Path(__file__).parents[1].joinpath("stand_in_server.py")
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in))} "$@"\n')
        program.chmod(0o755)
        self.steps = steps
        self.carrier = self.agents()
        self.model = str(tiny_models.make(folder, "llama"))
        self.arguments = ("--tensor-parallel-size", "2", "--max-model-len", "512", "--port", str(self.port))

    def agents(self) -> carriers.Processes:
        """One on each node, for one launch."""
        return carriers.Processes(
            {
                node: agent(
                    node,
                    "env",
                    f"PATH={self.folder / 'bin'}:{os.environ['PATH']}",
                    f"STAND_IN={json.dumps(self.steps.get(node, []))}",
                    f"STAND_IN_COUNT={self.folder / node}-count",
                    # Nodes share no folder of locks.
                    f"VLLM_RUNBOOKS_LOCKS={self.folder / node}",
                )
                for node in NODES
            }
        )

    def prepared(self, carrier: carriers.Carrier | None = None, **more: Any) -> PlannedClusterLaunch:
        """The launch over both."""
        found = Cluster(head=NODES[0], nodes=tuple(NodeFacts(node) for node in NODES))
        own = {node: {"VLLM_HOST_IP": f"127.0.0.{number}"} for number, node in enumerate(NODES, 1)}
        looked = CheckedLaunchNodes(
            clusters.check(found, catalog.specs()), own, Check("nodes", LaunchResult.LEFT_OUT, "skipped")
        )
        return PlannedClusterLaunch(carrier or self.carrier, self.asked(**more), looked)

    def asked(self, **more: Any) -> ClusterLaunch:
        """The launch request."""
        request = serve.LaunchRequest(
            subject=serve.subject(["vllm", "serve", self.model, *self.arguments], vllm="0.32.0"),
            source=None,
            gpus=",".join(f"RTX3090@{node}" for node in NODES),
            steady=serve.Steady(2, 0.05, 64.0, 0.3),
            limits=serve.Limits(look_s=0.1, patience_s=2.0),
            folder=self.folder / "start",
        )
        return ClusterLaunch(
            self.model, replace(request, **more), arguments=self.arguments, vllm="0.32.0", port=self.port
        )

    def serve(self, carrier: carriers.Carrier | None = None, **more: Any) -> Guarded:
        """Serve to its end."""
        return serve.serve(self.prepared(carrier, **more).request, show=lambda _: None, say=self.said.append)

    def when(self, words: str, do: Callable[[], None]) -> None:
        """Run an action once the supervisor has printed this."""

        def wait() -> None:
            ends_at = time.monotonic() + scaled(100)
            while not any(words in line for line in self.said) and time.monotonic() < ends_at:
                time.sleep(0.05)
            time.sleep(1.2)  # until its processes were seen
            do()

        threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    """Creates such a stage."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: list[Stage] = []

    def make(**steps: list[dict[str, Any]]) -> Stage:
        made.append(Stage(tmp_path, **steps))
        return made[-1]

    yield make
    for each in made:
        each.carrier.close()


@pytest.mark.slow
def test_a_rank_lost_without_requests_ends_all(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """Its node's process continues; the supervisor names the rank and node, and ends all."""
    pid_file = tmp_path / "rank"
    site = stage(
        head=[{"print": str(SERVED), "until": "Application startup complete"}, {"serve": {}}, {"hold": True}],
        second=[{"child": "VLLM::Worker_TP1", "pid_file": str(pid_file)}, {"print": str(SERVED), "until": "INFO"},
                {"hold": True}],
    )  # fmt: skip
    site.when("ready after", lambda: os.kill(int(pid_file.read_text()), signal.SIGKILL))
    found = site.serve()

    (tried,) = found.attempts
    assert tried.ready_s is not None
    assert [(each.kind, each.process) for each in tried.events] == [("gone", "VLLM::Worker_TP1 on second")]
    assert "VLLM::Worker_TP1 on second" in tried.ending
    assert found.status == 1
    (log,) = places.node_logs(tmp_path / "start", 1)
    assert log.name == "node-second.log"
    assert "INFO" in log.read_text()
    # Each node's own results are kept.
    assert set(guarded.results(found)["checks"]) == {
        *("nodes", "command", "plan", "port at head"),
        *(f"{name} at {node}" for name in ("model", "lock", "memory") for node in NODES),
    }
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "start").iterdir() if path.is_file())


class LosingCarrier(carriers.Carrier):
    """Two nodes: the second is lost immediately, and the head exits with 0 when signalled."""

    by = "ssh"

    def __init__(self) -> None:
        super().__init__()
        self.is_signalled = threading.Event()

    def nodes(self) -> tuple[str, ...]:
        return NODES

    def ask(self, node: str, request: Any, timeout_s: float) -> Any:
        del timeout_s
        if node == NODES[1] and request["do"] != "start":
            raise UnansweredError("its agent exited without a message")
        if request["do"] == "signal":
            self.is_signalled.set()
        is_running = not self.is_signalled.is_set()
        return {"group": "1", "begin": 0, "end": 0, "data": "", "is_running": is_running, "status": 0, "refused": ""}

    def close(self) -> None:
        pass


def test_a_clean_exit_of_the_head_after_a_lost_node_is_a_failure(tmp_path: Path) -> None:
    """The lost node caused the end."""
    parts = [NodeCommand(node, ("vllm",), {}) for node in NODES]
    with OverNodes(LosingCarrier(), parts, tmp_path, 1) as server:
        assert not b"".join(server.chunks(tick_s=0.05))

    assert server.status is None
    assert server.ending.startswith("was stopped: second stopped responding")


@pytest.mark.slow
@pytest.mark.parametrize("node", NODES)
def test_a_lost_node_ends_the_others(node: str, stage: Callable[..., Stage], tmp_path: Path) -> None:
    """It is named, with the open question; no process is left on the others."""
    site = stage(
        head=[{"print": str(SERVED), "until": "Application startup complete"}, {"serve": {}},
              {"child": "VLLM::EngineCore", "pid_file": str(tmp_path / "head-pid")}, {"hold": True}],
        second=[{"child": "VLLM::Worker_TP1", "pid_file": str(tmp_path / "second-pid")}, {"hold": True}],
    )  # fmt: skip
    agents = {each: site.carrier.ask(each, {"do": "hello"}, 5)["pid"] for each in NODES}
    site.when("ready after", lambda: os.kill(agents[node], signal.SIGKILL))
    found = site.serve()

    (tried,) = found.attempts
    assert tried.ready_s is not None
    assert f"{node} stopped responding (its agent exited" in tried.ending
    assert "its processes may still be running" in tried.ending
    assert found.status == 1
    assert gone(*(int((tmp_path / f"{each}-pid").read_text()) for each in NODES))


@pytest.mark.slow
def test_a_stopped_rank_is_reported_and_ended(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """As on one host: a stop signal is certain immediately, and tolerated for a set time."""
    pid_file = tmp_path / "rank"
    site = stage(
        head=[{"print": str(SERVED), "until": "Application startup complete"}, {"serve": {}}, {"hold": True}],
        second=[{"child": "VLLM::Worker_TP1", "pid_file": str(pid_file)}, {"hold": True}],
    )
    site.when("ready after", lambda: os.kill(int(pid_file.read_text()), signal.SIGSTOP))
    found = site.serve(limits=serve.Limits(look_s=0.1, patience_s=2.0, hung_s=1.0))

    (tried,) = found.attempts
    assert [(each.kind, each.process) for each in tried.events] == [("stopped", "VLLM::Worker_TP1 on second")]
    assert "was stopped: it hung for" in tried.ending
    assert gone(int(pid_file.read_text()))


@pytest.mark.slow
def test_a_retry_launches_every_part_again(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """The memory of every node is read first; logs are separate, and a change applies to all."""
    fails = [{"print": str(RACE)}, {"exit": 1}]
    up = [{"print": str(SERVED), "until": "Application startup complete"}, {"serve": {}}, {"sleep": 1.0}, {"exit": 0}]
    computes = [{"print": str(SERVED), "until": "INFO"}, {"hold": True}]
    site = stage(head=[fails, up], second=[[{"hold": True}], computes])
    found = site.serve(tries=2)

    first, second = found.attempts
    assert (first.ready_s, second.ready_s is not None) == (None, True)
    assert first.answer is not None
    assert first.answer.root_cause is not None
    assert first.answer.root_cause.class_ == "mem.profiling_assertion"
    assert [check.message.partition(":")[0] for check in found.checks if check.name == "memory"] == [*NODES, *NODES]
    assert sorted(path.name for path in (tmp_path / "start").glob("*node*")) == [
        "node-second.log",
        "try-2-node-second.log",
    ]
    assert [path.name for path in places.node_logs(tmp_path / "start", 1)] == []  # it was silent
    assert [path.name for path in places.node_logs(tmp_path / "start", 2)] == ["try-2-node-second.log"]
    changed = site.prepared().edited([Edit("set", "max_model_len", 256)])
    for part in changed.parts:
        assert part.command[part.command.index("--max-model-len") + 1] == "256"
    assert changed.subject.flags["max_model_len"] == 256


@pytest.mark.slow
def test_a_launch_on_nodes_with_another_starting_one_is_rejected(stage: Callable[..., Stage]) -> None:
    """It names the other, leaves no lock, and works once the other is ready."""
    site = stage()
    first = site.prepared()
    assert [check.result for check in first.checks(site.said.append) if check.name == "lock"] == [
        LaunchResult.PASSED
    ] * 2
    holder = site.carrier.ask("head", {"do": "hello"}, 5)["pid"]
    with site.agents() as others:
        refused = site.serve(others)
        first.unlock()
        again = [check for check in site.prepared(others).checks(site.said.append) if check.name == "lock"]

    assert (refused.status, refused.attempts) == (1, ())
    assert refused.checks[-1].result is LaunchResult.FAILED
    assert f"head: this host: process {holder} has been starting on it" in refused.checks[-1].message
    assert [check.result for check in again] == [LaunchResult.PASSED] * 2


@pytest.mark.slow
def test_each_node_checks_its_own_part(stage: Callable[..., Stage]) -> None:
    """An occupied port is reported with its node, and nothing is launched anywhere."""
    site = stage()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", site.port))
        taken.listen()
        found = site.serve()

    assert (found.status, found.attempts) == (1, ())
    assert [(check.name, check.node) for check in found.checks if check.result is LaunchResult.FAILED] == [
        ("port", "head")
    ]


def test_a_launch_requires_an_api_key(stage: Callable[..., Stage], monkeypatch: Any) -> None:
    """The message names the variable."""
    monkeypatch.delenv("VLLM_API_KEY")
    with pytest.raises(InputError, match="VLLM_API_KEY is not set"):
        stage().prepared()


def test_early_errors_are_rejected_early(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing key before any contact, sizes that the GPUs do not allow before a measurement."""
    site = stage()
    asked = replace(site.asked(left_out=["nodes"]), arguments=("--tensor-parallel-size", "4"))
    with pytest.raises(InputError, match="needs 4 GPUs"):
        starting_nodes.measure_nodes(site.carrier, asked, site.said.append)
    monkeypatch.delenv("VLLM_API_KEY")
    status, _, err = run(capsys, "serve", "--hosts", "127.0.0.1:1 ,127.0.0.2:1", "org/model", "-tp", "2")

    assert site.said == ["collecting facts from 2 nodes"]
    assert (status, len(err.splitlines())) == (2, 1)
    assert "VLLM_API_KEY is not set" in err


def test_a_rejected_launch_on_nodes_is_in_the_history(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like one on a single host; silent hosts are named, and the exit status is 1."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    status, out, err = run(capsys, "serve", "--hosts", "127.0.0.1:1 ,127.0.0.2:1", "org/model", "-tp", "2")
    _, kept, _ = run(capsys, "history", "list", "--format", "json")
    (entry,) = json.loads(kept)["entries"]

    assert (status, out) == (1, "")
    assert "nodes.unread" in err
    assert err.count("NOT STARTED") == 1
    assert (entry["kind"], entry["verdict"]) == ("serve", "fail")
    assert entry["reason"].startswith("not launched: nodes: 127.0.0.1: ")
    assert "127.0.0.2: " in entry["reason"]
    assert entry["inputs"]["options"]["tensor_parallel_size"] == 2


def parts(folder: Path, head: str, second: str) -> list[NodeCommand]:
    """Two shell scripts."""
    return [
        NodeCommand(node, ("sh", "-c", script), {"F": str(folder)})
        for node, script in zip(NODES, (head, second), strict=True)
    ]


@pytest.mark.slow
def test_the_server_is_stopped_before_the_others(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """The others compute for it; the exit status is the server's."""
    heed = "trap 'echo {0} >> $F/order; sleep 0.5; echo {0}-gone >> $F/order; exit {1}' TERM; "
    script = f"{heed}echo up; while :; do sleep 0.05; done"
    both = parts(tmp_path, script.format("head", 5), script.format("second", 6))
    printed = b""
    with OverNodes(stage().carrier, both, tmp_path, 1) as over:
        for chunk in over.chunks(tick_s=0.1):
            printed += chunk
            log = tmp_path / "node-second.log"
            if printed and log.read_bytes() and not over.stopped_by:
                over.stop(signal.SIGTERM, "was stopped")

    assert (printed, log.read_bytes()) == (b"up\n", b"up\n")
    assert (tmp_path / "order").read_text().split() == ["head", "head-gone", "second", "second-gone"]
    assert (over.status, over.ending) == (5, "was stopped")


@pytest.mark.slow
def test_if_one_part_ends_all_end(stage: Callable[..., Stage], tmp_path: Path) -> None:
    """With its node and exit; a part that cannot run has a reason."""
    carrier = stage().carrier
    both = parts(tmp_path, "sleep 300 & echo $! > $F/pid; wait", "sleep 0.3; exit 4")
    with OverNodes(carrier, both, tmp_path, 1) as over:
        assert list(over.chunks(tick_s=0.1)).count(b"") > 0
    assert over.status == 4
    assert over.ending == "ended with exit status 4 on second, a worker node; the others were stopped"
    assert gone(int((tmp_path / "pid").read_text()))

    missing = [both[0], NodeCommand("second", ("/nope/vllm",), {})]
    with (
        pytest.raises(InputError, match=r"second: .*cannot be run: No such file"),
        OverNodes(carrier, missing, tmp_path, 2) as over,
    ):
        list(over.chunks(tick_s=0.1))


def test_a_node_has_one_launch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one waits, gives up with the owner's name, or continues once the first is ready."""
    monkeypatch.setenv("VLLM_RUNBOOKS_LOCKS", str(tmp_path))
    asked = {
        "command": ["vllm", "serve", "tiny"],
        "environment": {},
        "vllm": "0.32.0",
        "names": ["lock"],
        "steady": [2, 0.05, 64.0, 0.3],
    }
    first, second = NodeChecks(), NodeChecks()

    def lock(node: NodeChecks, **more: Any) -> tuple[str, str]:
        (told,) = (each for each in node.check({**asked, **more}) if each["name"] == "lock")
        return told["result"], told["message"]

    assert lock(first)[0] == "passed"
    assert lock(second, is_check=True)[0] == "unknown"
    result, says = lock(second)
    assert result == "failed"
    assert f"process {os.getpid()} has been starting on it" in says
    first.unlock({})
    assert lock(second)[0] == "passed"
    second.unlock({})


@pytest.mark.parametrize(
    ("case", "result", "finding"),
    [
        ("cluster-healthy-pair", LaunchResult.PASSED, ""),
        ("cluster-interface-both", LaunchResult.FAILED, "nodes.interface_apart"),
    ],
)
def test_a_launch_that_certainly_fails_on_the_nodes_is_rejected(case: str, result: LaunchResult, finding: str) -> None:
    """With the finding and the fix."""
    found = starting_nodes.check_findings(clusters.check(node_loading.read_nodes([case]), catalog.specs()))

    assert found.result is result
    assert finding in found.message


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--ray", "h:1", "--hosts", "a,b", "M"], "use either"),
        (["--ray", "h:1"], "use MODEL"),
        (["--hosts", "a,b", "M", "--host", "::"], "--host is set from the nodes"),
        (["--hosts", "a,b", "M", "--api-key", "x"], "set VLLM_API_KEY instead"),
        (["--hosts", "a,b", "M", "--port", "many"], "is not a port"),
        (["--hosts", "a,b", "--env", "NOT_SET_HERE", "M"], "NAME=VALUE"),
        (["--hosts", "a,b", "--env", "HF_TOKEN=hf_0123456789", "M"], "HF_TOKEN would be visible"),
        (["--hosts", "/nope/hosts", "M"], "no such file"),
        (["--expect", "2", "--", "vllm", "serve", "M"], "--expect requires --ray or --hosts"),
        (["--skip", "nodes", "--", "vllm", "serve", "M"], "--skip nodes requires --ray or --hosts"),
    ],
)
def test_an_invalid_request_is_rejected(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, before any contact."""
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    status, out, err = run(capsys, "serve", *words)

    assert (status, out) == (2, "")
    assert why in err
    assert len(err.splitlines()) == 1
