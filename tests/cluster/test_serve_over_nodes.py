"""One supervised server over several nodes: real vLLM in network namespaces, by Ray and ssh."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import namespaces
import set_up
import test_cluster_net as net
import tiny_models
from namespaces import Ring
from pace import scaled
from test_cluster_net import LIVE, TORCH, Cluster, Site

nothing_left, ring, site, short_folder = net.nothing_left, net.ring, net.site, net.short_folder
pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it"),
    pytest.mark.skipif(bool(namespaces.why_not()), reason=f"no network namespaces here: {namespaces.why_not()}"),
]
READY_S = 400.0
PORT = "8181"
KEY = "sk-of-this-test"


class Started:
    """A supervised launch over both hosts, from the first."""

    def __init__(
        self, ring: Ring, folder: Path, *where: str, cards: tuple[str, ...], more: tuple[str, ...] = ()
    ) -> None:
        self.ring, self.folder, self.said = ring, folder, folder / "said"
        model = tiny_models.make(folder, "llama")
        variables = [
            "VLLM_CPU_OMP_THREADS_BIND=0",
            "VLLM_CPU_KVCACHE_SPACE=1",
            "HF_HUB_OFFLINE=1",
            f"PYTHONPATH={LIVE / 'overlay'}",
        ]
        command = [
            *(*net.CLI, "serve", *where, "--python", str(TORCH), "--dir", str(folder / "start"), "--vllm", "0.32.0"),
            *("--gpus", ",".join(f"RTX3090@{card}" for card in cards), "--format", "json", "--no-history"),
            *(word for each in variables for word in ("--env", each)),
            *(str(model), "--tensor-parallel-size", "2", "--max-model-len", "512", "--enforce-eager"),
            *("--served-model-name", "tiny", "--port", PORT, "--master-port", "29711"),
        ]
        command[len(net.CLI) + 1 : len(net.CLI) + 1] = more
        environment = {
            "VLLM_API_KEY": KEY, "XDG_STATE_HOME": str(folder / "state"), "VLLM_RUNBOOKS_LOCKS": str(folder / "locks"),
            "PYTHONPATH": str(LIVE / "overlay"),
        }  # fmt: skip
        with self.said.open("wb") as said, (folder / "report").open("wb") as report:
            self.guard = ring.start(ring.hosts[0], command, environment=environment, stdout=report, stderr=said)

    def until(self, words: str, within_s: float = READY_S) -> float:
        """Wait for this output; return the seconds."""
        began = time.monotonic()
        deadline = began + scaled(within_s)
        while words not in self.said.read_text("utf-8", "replace"):
            assert self.guard.poll() is None, self.said.read_text("utf-8", "replace")[-6000:]
            assert time.monotonic() < deadline, self.said.read_text("utf-8", "replace")[-6000:]
            time.sleep(0.1)
        return time.monotonic() - began

    def asked(self) -> dict[str, Any]:
        """A response of the server to the second host."""
        body = json.dumps({"model": "tiny", "prompt": "a b", "max_tokens": 8})
        place = f"http://{self.ring.address(self.ring.hosts[0])}:{PORT}/v1/completions"
        done = self.ring.run(
            self.ring.hosts[1],
            ["curl", "-sS", "-m", "60", "--noproxy", "*", "-H", f"Authorization: Bearer {KEY}",
             "-H", "Content-Type: application/json", "-d", body, place],
            capture_output=True, text=True,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def of_vllm(self) -> dict[str, dict[int, str]]:
        """By host, its processes of vLLM with their names."""
        found = {}
        for host in self.ring.hosts:
            own = {}
            for pid in self.ring.pids(host):
                try:
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if words.startswith("VLLM::") or re.search(r"bin/vllm serve|resource_tracker", words):
                    own[pid] = words
            found[host] = own
        return found

    def end(self) -> dict[str, Any]:
        """Its report, once it has ended."""
        self.guard.wait(60)
        report: dict[str, Any] = json.loads((self.folder / "report").read_text())
        return report


@pytest.fixture
def up(site: Site) -> Site:
    """Two hosts reachable over ssh."""
    site.up()
    return site


def started(site: Site, *more: str) -> Started:
    """A launch over hosts reachable by ssh."""
    where = ("--hosts", str(site.list()), "--ssh-config", str(site.folder / "ssh_config"))
    return Started(site.ring, site.folder, *where, cards=site.ring.hosts, more=more)


@pytest.mark.full
def test_a_rank_killed_without_requests_ends_all(up: Site) -> None:
    """The server answers the other host; the loss is reported within seconds and diagnosed."""
    one = started(up)
    ready_s = one.until("ready after")
    assert one.asked()["usage"]["completion_tokens"] == 8
    time.sleep(4)  # idle
    before = one.of_vllm()
    rank = next(pid for pid, words in before[up.ring.hosts[1]].items() if "Worker" in words)
    os.kill(rank, signal.SIGKILL)
    told_s = one.until("giving up", 30)
    began = time.monotonic()
    report = one.end()
    print(f"ready after {ready_s:.0f} s, told after {told_s:.1f} s, ended {time.monotonic() - began:.1f} s later")
    (tried,) = report["attempts"]

    assert told_s < 10
    assert one.of_vllm() == {host: {} for host in up.ring.hosts}
    assert report["status"] != 0
    assert tried["events"][0]["kind"] == "gone"
    assert up.ring.hosts[1] in tried["events"][0]["message"]
    assert tried["answer"]["root_cause"] is not None, tried["answer"]
    assert KEY not in one.said.read_text("utf-8") + json.dumps(report)


@pytest.mark.full  # `test_over_nodes` has the order of the end, `test_cluster_net` the same nodes over Ray
def test_ctrl_c_ends_it_on_all_nodes_of_a_ray_cluster(ring: Ring, short_folder: Path) -> None:
    """The server first, then the others: no process is left, and Ray continues."""
    cluster = Cluster(ring, short_folder)
    for host in ring.hosts:
        cluster.start(host)
    cards = tuple(ring.address(host) for host in ring.hosts)
    one = Started(ring, short_folder, "--ray", cluster.address, "--expect", "2", cards=cards)
    ready_s = one.until("ready after")
    assert one.asked()["usage"]["completion_tokens"] == 8
    assert all(one.of_vllm().values())
    began = time.monotonic()
    os.kill(one.guard.pid, signal.SIGINT)
    report = one.end()
    print(f"ready after {ready_s:.0f} s, ended {time.monotonic() - began:.1f} s after Ctrl-C")

    assert report["status"] == 128 + signal.SIGINT
    assert report["attempts"][0]["ending"] == "was stopped by SIGINT"
    assert one.of_vllm() == {host: {} for host in ring.hosts}
    assert [each["result"] for each in report["checks"] if each["name"] in ("nodes", "lock")][1:] == ["passed"] * 2


@pytest.mark.full  # `test_cluster_net` has the finding, the recorded cases the diagnosis
def test_a_wrong_interface_is_rejected_before_and_diagnosed_after(site: Site) -> None:
    """Rejected with the finding; without the check the launch fails and both logs explain it."""
    site.settings = {host: {"GLOO_SOCKET_IFNAME": "mgmt0"} for host in site.ring.hosts}
    site.up()
    one = started(site)
    one.guard.wait(120)
    report = json.loads((one.folder / "report").read_text())
    assert (report["status"], report["attempts"]) == (1, [])
    (check,) = report["checks"]
    assert "nodes.interface_apart" in check["message"]
    assert "mgmt0" in check["message"]
    assert not any(one.of_vllm().values())

    one = started(site, "--skip", "nodes", "--ready-within", "300")
    one.guard.wait(READY_S)
    report = json.loads((one.folder / "report").read_text())
    (tried,) = report["attempts"]
    print(tried["ending"], tried["seconds"])
    assert tried["ready_s"] is None
    assert len(tried["answer"]["nodes"]["logs"]) == 2
    cause = tried["answer"]["root_cause"]
    assert cause["symptom"] == "dist.wrong_interface"
    assert tried["answer"]["files"][cause["evidence"][0]["file"]] == f"node-{site.ring.hosts[1]}.log"
    assert one.of_vllm() == {host: {} for host in site.ring.hosts}
