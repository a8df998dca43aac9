"""A supervised server over network namespaces: a host is lost, cut off, or used twice.

A fake vLLM serves and computes, `test_serve_over_nodes` has the real one; ssh, firewall and
supervisor are real.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import namespaces
import test_cluster_net as net
import tiny_models
from namespaces import Ring
from pace import scaled
from test_cluster_net import Cluster, Site
from test_over_nodes import SERVED
from vllm_runbooks.cluster import agent

nothing_left, ring, site, short_folder = net.nothing_left, net.ring, net.site, net.short_folder
pytestmark = [
    pytest.mark.slow,
    net.needs_sshd,
    pytest.mark.skipif(bool(namespaces.why_not()), reason=f"no network namespaces here: {namespaces.why_not()}"),
]
PORT = "8181"


class Start:
    """A supervised launch over both hosts, from the first."""

    def __init__(self, ring: Ring, folder: Path, where: Sequence[str], cards: Sequence[str]) -> None:
        """Launch it on GPUs of nodes, by name, with options that say where the nodes are."""
        self.folder = folder
        folder.mkdir()
        model = tiny_models.make(folder, "llama")
        command = [
            *(*net.CLI, "serve", *where, "--dir", str(folder / "start"), "--vllm", "0.32.0", "--format", "json"),
            *("--skip", "nodes", "--gpus", ",".join(f"RTX3090@{card}" for card in cards)),
            *(str(model), "--tensor-parallel-size", "2", "--max-model-len", "512", "--port", PORT),
        ]
        environment = {"VLLM_API_KEY": "sk-of-this-test", "XDG_STATE_HOME": str(folder / "state")}
        with (folder / "said").open("wb") as said, (folder / "report").open("wb") as report:
            self.guard = ring.start(ring.hosts[0], command, environment=environment, stdout=report, stderr=said)

    @property
    def said(self) -> str:
        """The supervisor's output."""
        return (self.folder / "said").read_text("utf-8", "replace")

    def until(self, words: str) -> None:
        """Wait for this output."""
        ends_at = time.monotonic() + scaled(90)
        while words not in self.said:
            assert self.guard.poll() is None, self.said[-4000:]
            assert time.monotonic() < ends_at, self.said[-4000:]
            time.sleep(0.1)

    def ended(self, within_s: float) -> dict[str, Any]:
        """Its report, once it has ended."""
        self.guard.wait(within_s)
        report: dict[str, Any] = json.loads((self.folder / "report").read_text())
        return report


def pythons(ring: Ring, folder: Path, *, is_ready: bool = True) -> dict[str, Path]:
    """By host a Python with a fake vLLM: the first one's serves, the second one's computes."""
    program = Path(__file__).parents[1].joinpath("stand_in_server.py")
    log: dict[str, Any] = {"print": str(SERVED), "until": "Application startup complete"}
    serves = [log, {"serve": {}}] if is_ready else [{**log, "until": "INFO"}]
    works = {"child": "VLLM::Worker", "works": True}
    made = {}
    for host, steps in zip(ring.hosts, ([*serves, works, {"hold": True}], [works, {"hold": True}]), strict=True):
        own = folder / f"of-{host}"
        own.mkdir()
        shebang = f"#!{sys.executable}\nimport os, runpy, sys\n"
        (own / "python").write_text(f"{shebang}os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n")
        (own / "vllm").write_text(
            f"{shebang}os.environ['STAND_IN'] = {json.dumps(steps)!r}\n"
            f"runpy.run_path({str(program)!r}, run_name='__main__')\n"
        )
        for each in own.iterdir():
            each.chmod(0o755)
        made[host] = own / "python"
    return made


def up(site: Site, *, is_ready: bool = True) -> None:
    """Start both hosts, each with a fake vLLM."""
    site.settings = {
        host: {"python": str(path)} for host, path in pythons(site.ring, site.folder, is_ready=is_ready).items()
    }
    site.up()


def started(site: Site, name: str, *more: str) -> Start:
    """A launch over hosts reachable by ssh."""
    where = ("--hosts", str(site.list()), "--ssh-config", str(site.folder / "ssh_config"), *more)
    return Start(site.ring, site.folder / name, where, site.ring.hosts)


def cut_off(ring: Ring, host: str) -> None:
    """Silently drop all packets."""
    for chain, interface in (("INPUT", "-i"), ("OUTPUT", "-o")):
        ring.firewall(host, chain, interface, "v0", "-j", "DROP")


def of_start(ring: Ring, host: str) -> list[str]:
    """The processes of a launch on a host: agents, supervisors, and their children."""
    found = []
    for pid in ring.pids(host):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        if any(each in words for each in ("vllm_runbooks.", "/vllm serve", "VLLM::")):
            found.append(words[:200])
    return found


def gone(ring: Ring, *hosts: str, within_s: float) -> float:
    """Wait until no process of a launch runs on these hosts; return the seconds."""
    began = time.monotonic()
    deadline = began + scaled(within_s)
    while left := [each for host in hosts for each in of_start(ring, host)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    return time.monotonic() - began


def test_a_host_without_processes_ends_the_launch(site: Site) -> None:
    """It is named, and the processes on the other one end."""
    head, other = site.ring.hosts
    up(site)
    one = started(site, "one")
    one.until("ready after")
    assert any("VLLM::Worker" in each for each in of_start(site.ring, other))
    for pid in site.ring.pids(other):
        os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    report = one.ended(60)
    print(f"host killed: ended after {time.monotonic() - began:.1f} s: {report['attempts'][0]['ending']}")

    assert report["status"] == 1
    assert f"{other} stopped responding" in report["attempts"][0]["ending"]
    gone(site.ring, head, other, within_s=5)


@pytest.mark.full  # a minute of waiting; `test_over_nodes` has the guard's side, `test_cluster` that of the agent
def test_a_host_that_is_cut_off_ends_the_launch_on_both_sides(site: Site) -> None:
    """The supervisor names it and the open question; its agent ends its processes there."""
    head, other = site.ring.hosts
    up(site)
    one = started(site, "one")
    one.until("ready after")
    cut_off(site.ring, other)
    began = time.monotonic()
    report = one.ended(90)
    ended_s = time.monotonic() - began
    (tried,) = report["attempts"]
    assert report["status"] == 1
    assert f"{other} stopped responding" in tried["ending"]
    assert "its processes may still be running" in tried["ending"]
    gone(site.ring, head, within_s=2)
    gone(site.ring, other, within_s=agent.UNHEARD_S + 30)
    both_s = time.monotonic() - began
    print(f"cut off: ended after {ended_s:.1f} s, on the other side after {both_s:.1f} s: {tried['ending']}")


@pytest.mark.full  # minutes of waiting for Ray
def test_a_ray_node_that_is_cut_off_ends_the_launch_on_both_sides(ring: Ring, short_folder: Path) -> None:
    """Ray ends the processes that it cannot reach."""
    head, other = ring.hosts
    programs = pythons(ring, short_folder)
    cluster = Cluster(ring, short_folder)
    for host in ring.hosts:
        locks = str(short_folder / f"locks-{host}")
        cluster.start(host, VLLM_RUNBOOKS_LOCKS=locks)
    where = [word for host in ring.hosts for word in ("--python", f"{ring.address(host)}={programs[host]}")]
    cards = [ring.address(host) for host in ring.hosts]
    one = Start(ring, short_folder / "one", ("--ray", cluster.address, "--expect", "2", *where), cards)
    one.until("ready after")
    assert any("VLLM::Worker" in each for each in of_start(ring, other))
    cut_off(ring, other)
    began = time.monotonic()
    report = one.ended(120)
    ended_s = time.monotonic() - began
    assert report["status"] == 1
    assert f"{ring.address(other)} stopped responding" in report["attempts"][0]["ending"]
    gone(ring, head, within_s=5)
    gone(ring, other, within_s=240)
    both_s = time.monotonic() - began
    print(f"of Ray cut off: ended after {ended_s:.1f} s, on the other side after {both_s:.1f} s")


@pytest.mark.full
def test_a_killed_supervisor_leaves_nothing(site: Site) -> None:
    """Each agent notices the lost connection, and ends its processes."""
    up(site)
    one = started(site, "one")
    one.until("ready after")
    assert all(of_start(site.ring, host) for host in site.ring.hosts)
    os.kill(one.guard.pid, signal.SIGKILL)
    print(f"guard killed: nothing left after {gone(site.ring, *site.ring.hosts, within_s=15):.1f} s")


@pytest.mark.full
def test_a_second_launch_on_the_same_hosts_is_rejected(site: Site) -> None:
    """It names the first, which has the host's lock and continues."""
    up(site, is_ready=False)
    first = started(site, "first")
    first.until("INFO")
    second = started(site, "second", "--wait", "1", "--skip", "port")
    report = second.ended(60)
    failed = report["checks"][-1]
    assert (report["status"], report["attempts"]) == (1, [])
    assert (failed["name"], failed["result"]) == ("lock", "failed")
    assert "this host: process " in failed["message"]
    holder = failed["message"].partition("process ")[2].split()[0]
    assert b"cluster.agent" in Path(f"/proc/{holder}/cmdline").read_bytes()
    assert all(any("/vllm serve" in each for each in of_start(site.ring, host)) for host in site.ring.hosts)
    os.kill(first.guard.pid, signal.SIGTERM)
    assert first.ended(30)["status"] == 128 + signal.SIGTERM
    gone(site.ring, *site.ring.hosts, within_s=5)
