"""Clusters of network namespaces: real sshd, real Ray, real firewalls, and torch.

Each misconfiguration is found and named, with its node and what to do, before anything is launched.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

import namespaces
import set_up
from namespaces import Ring
from pace import scaled
from rows import rest_full

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
LIVE = set_up.place()  # read here: tests have their own cache folder
TORCH = LIVE / "venv" / "bin" / "python"
CLI = [sys.executable, "-P", "-m", "vllm_runbooks"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(namespaces.why_not()), reason=f"no network namespaces here: {namespaces.why_not()}"),
]
needs_sshd = pytest.mark.skipif(not Path(SSHD).exists(), reason="openssh-server is not installed")
needs_torch = pytest.mark.skipif(not set_up.is_ready(LIVE), reason="torch: python tests/live/set_up.py sets it up")


@dataclass
class Site:
    """Hosts with sshd, as one list of them describes them."""

    ring: Ring
    folder: Path
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """By host, the words of its line in the list."""
    before: dict[str, list[str]] = field(default_factory=dict)
    """By host, shell commands before its sshd, in a separate mount namespace."""
    sshd: dict[str, list[str]] = field(default_factory=dict)
    """By host, additional lines of its sshd's configuration."""
    more: tuple[str, ...] = ()
    """Further lines of the list."""

    def up(self) -> None:
        """Start sshd on every host, with a key of this test."""
        keys = self.folder / "keys"
        keys.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        known = (keys / "host.pub").read_text().split()[:2]
        lines = [" ".join([self.ring.address(host), *known]) for host in self.ring.hosts]
        (keys / "known").write_text("\n".join(lines) + "\n")
        (self.folder / "ssh_config").write_text(
            f"Host *\n  User root\n  IdentityFile {keys}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {keys}/known\n  GlobalKnownHostsFile /dev/null\n"
        )
        for host in self.ring.hosts:
            (self.folder / f"{host}.sshd").write_text(
                f"ListenAddress {self.ring.address(host)}:22\nHostKey {keys}/host\nPidFile none\nUsePAM no\n"
                f"StrictModes no\nPermitRootLogin prohibit-password\nAuthorizedKeysFile {keys}/user.pub\n"
                + "".join(f"{line}\n" for line in self.sshd.get(host, []))
            )
            (self.folder / f"{host}.hosts").write_text(f"127.0.0.1 localhost\n{self.ring.address(host)} {host}\n")
            script = [
                f"hostname {host}",
                f"mount --bind {self.folder}/{host}.hosts /etc/hosts",
                *self.before.get(host, []),
                f"exec {SSHD} -D -e -f {self.folder}/{host}.sshd",
            ]
            with (self.folder / f"{host}.log").open("wb") as log:
                self.ring.start(
                    host, ["unshare", "--uts", "sh", "-ec", "\n".join(script)], stdout=log, stderr=subprocess.STDOUT
                )
        for host in self.ring.hosts:
            self._wait(host)

    def _wait(self, host: str) -> None:
        ends_at = time.monotonic() + scaled(20)
        probe = f"import socket; socket.create_connection(({self.ring.address(host)!r}, 22), 1)"
        while self.ring.run(host, [sys.executable, "-S", "-c", probe], capture_output=True).returncode:
            assert time.monotonic() < ends_at, (self.folder / f"{host}.log").read_text()

    def list(self) -> Path:
        """The list of hosts."""
        path = self.folder / "hosts.txt"
        lines = []
        for host in self.ring.hosts:
            words = {
                "name": host,
                "agent": sys.executable,
                "python": str(TORCH),
                "VLLM_HOST_IP": self.ring.address(host),
                "NCCL_SOCKET_IFNAME": "v0",
                "GLOO_SOCKET_IFNAME": "v0",
                "PYTHONPATH": str(LIVE / "overlay"),
                "TMPDIR": tempfile.gettempdir(),
                # Hosts share no folder of locks, and these do.
                "VLLM_RUNBOOKS_LOCKS": str(self.folder / f"locks-{host}"),
                **self.settings.get(host, {}),
            }
            lines.append(" ".join([self.ring.address(host), *(f"{k}={v}" for k, v in words.items() if v)]))
        path.write_text("\n".join([*lines, *self.more]) + "\n")
        return path

    def check(self, *words: str) -> tuple[int, dict[str, Any], float]:
        """`cluster check` from the first host: its exit status, its document, and the seconds it took."""
        begun = time.monotonic()
        done = self.ring.run(
            self.ring.hosts[0],
            [*CLI, "cluster", "check", "--hosts", str(self.list()), "--ssh-config", str(self.folder / "ssh_config"),
             "--format", "json", *words],
            capture_output=True, encoding="utf-8", timeout=120,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), time.monotonic() - begun


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files; after the test it is empty, and no process uses it."""
    folder = Path(tempfile.mkdtemp(prefix="rb", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    ends_at = time.monotonic() + scaled(15)
    while (left := _given(str(folder))) and time.monotonic() < ends_at:
        time.sleep(0.2)
    # vLLM leaves its sockets when it is ended, and torch its compiled files; ours leave nothing.
    lying = [str(each) for each in folder.iterdir() if not (each.is_socket() or each.name.startswith("torchinductor_"))]
    shutil.rmtree(folder)

    assert left == []
    assert lying == []


def _given(word: str) -> list[str]:
    """Processes of this machine, in any network, with a word in their command or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if word.encode() in words + (process / "environ").read_bytes():
                found.append(f"{process.name}: {words.replace(bytes(1), b' ').decode('utf-8', 'replace')}")
    return found


@pytest.fixture
def ring(nothing_left: Path) -> Iterator[Ring]:
    """Two hosts."""
    del nothing_left  # checked after the hosts have ended
    with Ring(2) as made:
        yield made


@pytest.fixture
def site(ring: Ring, tmp_path: Path) -> Site:
    """Two hosts reachable over ssh, not started yet."""
    return Site(ring, tmp_path)


def named(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Ids of blocking findings, with their nodes."""
    said: dict[str, list[str]] = {}
    for each in found["findings"]:
        assert each["do"]
        assert each["effect"]
        if each["severity"] != "hint":
            said.setdefault(each["id"], []).extend(each["nodes"])
    return said


class Peaks:
    """Records the peak memory of our own processes on each host."""

    def __init__(self, ring: Ring) -> None:
        self._ring, self._is_over = ring, threading.Event()
        self.seen: dict[str, dict[str, float]] = {host: {} for host in ring.hosts}
        """By host and program the largest `VmHWM` of one process, in MiB."""
        self._moments: dict[str, list[list[tuple[str, float]]]] = {host: [] for host in ring.hosts}
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            for host in self._ring.hosts:
                there = [found for pid in self._ring.pids(host) if (found := self._look(pid)) is not None]
                self._moments[host].append(there)
                for name, mib in there:
                    self.seen[host][name] = max(self.seen[host].get(name, 0), mib)

    @staticmethod
    def _look(pid: int) -> tuple[str, float] | None:
        """The role of one of our processes, and its peak."""
        with contextlib.suppress(OSError, IndexError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            if Path(words[0]).name.startswith("python"):
                known = ("supervisor", "all_reduce.py", "cluster.agent", "check")
                return next((each for each in known if any(each in word for word in words)), "other"), _peak_mib(pid)
        return None

    def added_mib(self, host: str, torch: float) -> float:
        """The peak on a host, without the requesting command and torch in a rank."""
        return max(
            sum(mib - (torch if name == "all_reduce.py" else 0) for name, mib in there if name != "check")
            for there in self._moments[host]
        )


def _peak_mib(pid: int | str) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def spent_s(ring: Ring) -> float:
    """CPU seconds of the processes on the hosts, including ended ones."""
    ticks = 0
    for pid in (pid for host in ring.hosts for pid in ring.pids(host)):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    own = os.times()
    return ticks / os.sysconf("SC_CLK_TCK") + own.children_user + own.children_system


def is_quick(seconds: float, cpu_s: float) -> bool:
    """Whether a check takes 20 s at most of processor time, and by the clock on a quiet machine."""
    print(f"cluster check: {seconds:.1f} s, {cpu_s:.1f} s of CPU")
    return cpu_s < 20 and seconds < scaled(20)


def _peak_of_torch() -> float:
    """MiB of a live Python with the imports of a rank."""
    program = "import torch, torch.distributed\nprint(open('/proc/self/status').read())"
    done = subprocess.run([TORCH, "-c", program], capture_output=True, check=True, encoding="ascii")
    return int(done.stdout.partition("VmHWM:")[2].split()[0]) / 1024


# ---- the hosts themselves


def test_hosts_end_with_their_killed_creator() -> None:
    """Namespaces and their processes."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\nimport namespaces, os, signal\n"
        "ring = namespaces.Ring(2)\np = ring.start(ring.hosts[0], ['sleep', '300'])\n"
        "print(*ring.hosts, p.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, encoding="utf-8")
    *hosts, pid = done.stdout.split()
    ends_at = time.monotonic() + scaled(15)
    while time.monotonic() < ends_at and Path(f"/proc/{pid}").exists():
        time.sleep(0.1)
    time.sleep(0.5)

    there = subprocess.run([namespaces.IP, "netns", "list"], capture_output=True, check=True, encoding="utf-8").stdout
    assert not [host for host in hosts if host in there.split()]
    assert not Path(f"/proc/{pid}").exists()


# ---- over ssh


@needs_sshd
@needs_torch
def test_a_healthy_pair_passes(site: Site) -> None:
    """No blocking finding, the all-reduce ran within 20 s, and 100 MB per node without torch."""
    site.up()
    # The catalog is compiled once, when it is first needed.
    subprocess.run([*CLI, "cluster", "check", "cluster-healthy-pair"], capture_output=True, check=True)
    before = _peak_of_torch()
    begun_s = spent_s(site.ring)
    with Peaks(site.ring) as peaks:
        status, found, seconds = site.check()
    cpu_s = spent_s(site.ring) - begun_s
    added = {host: peaks.added_mib(host, before) for host in site.ring.hosts}
    print(f"torch alone {before:.0f} MiB; added", added, peaks.seen)

    assert named(found) == {}
    assert found["unread"] == []
    assert [rank["state"] for rank in found["collectives"][0]["ranks"]] == ["done", "done"]
    assert {each["node"]: each["variables"]["GLOO_SOCKET_IFNAME"] for each in found["environments"]} == dict.fromkeys(
        site.ring.hosts, "v0"
    )
    assert all(abs(node["clock_offset_s"]) < 0.5 for node in found["nodes"])
    assert all(
        each["bandwidth_mbit_s"] > 100
        for each in found["connections"]
        if each["use"] == "any" and "10.77" in each["address"]
    )
    assert (status, found["ok"], found["unmeasured"]) == (0, True, [])
    assert is_quick(seconds, cpu_s)
    # On the first host the command itself counts as well.
    assert all(0 < mib * 1.048576 < 100 for mib in added.values()), (added, peaks.seen)
    for host in site.ring.hosts:  # sshd alone is left, of each host
        assert all("agent" not in Path(f"/proc/{pid}/cmdline").read_text() for pid in site.ring.pids(host))


@pytest.mark.full
@needs_sshd
@needs_torch
def test_three_healthy_hosts_pass(tmp_path: Path) -> None:
    """Each reaches both others on every port, three ranks are through, and each host gets its own environment."""
    with Ring(3) as ring:
        site = Site(ring, tmp_path)
        site.up()
        status, found, _ = site.check()
        addresses = {host: ring.address(host) for host in ring.hosts}
    ways = {
        (each["source"], each["target"], each["use"])
        for each in found["connections"]
        if each["state"] == "open" and each["address"] == addresses[each["target"]]
    }
    expected = {
        (source, target, use)
        for source, target in itertools.permutations(ring.hosts, 2)
        for use in ("any", "ray", "torch", "vllm")
    }

    assert (status, named(found), found["unread"], found["unmeasured"]) == (0, {}, [], [])
    assert ways == expected
    assert [rank["state"] for rank in found["collectives"][0]["ranks"]] == ["done"] * 3
    assert {each["node"]: each["variables"]["VLLM_HOST_IP"] for each in found["environments"]} == addresses


NETWORKS = [
    # misconfiguration, hosts whose variables are changed, the finding, its hosts
    (
        "wrong interface on one",
        {1: {"GLOO_SOCKET_IFNAME": "mgmt0", "NCCL_SOCKET_IFNAME": "mgmt0"}},
        "nodes.interface_apart",
        {1},
    ),
    (
        "wrong interface on both",
        {n: {"GLOO_SOCKET_IFNAME": "mgmt0", "NCCL_SOCKET_IFNAME": "mgmt0"} for n in (0, 1)},
        "nodes.interface_apart",
        {0, 1},
    ),
    ("no such interface", {1: {"GLOO_SOCKET_IFNAME": "eth99"}}, "nodes.interface_missing", {1}),
    ("no VLLM_HOST_IP", {1: {"VLLM_HOST_IP": ""}}, "nodes.host_ip_missing", {1}),
    ("VLLM_HOST_IP of nobody", {1: {"VLLM_HOST_IP": "10.99.0.9"}}, "nodes.host_ip_wrong", {1}),
]


@needs_sshd
@needs_torch
@pytest.mark.parametrize(
    ("_what", "changed", "finding", "on"), rest_full(NETWORKS, 1), ids=[row[0] for row in NETWORKS]
)
def test_a_wrong_variable_is_named(
    site: Site, _what: str, changed: dict[int, dict[str, str]], finding: str, on: set[int]
) -> None:
    """With its host, and the environment that each host needs."""
    site.settings = {site.ring.hosts[number]: words for number, words in changed.items()}
    site.up()
    status, found, seconds = site.check()
    print(f"{_what}: {seconds:.1f} s")

    assert status == 1
    assert set(named(found).get(finding, [])) == {site.ring.hosts[number] for number in on}, named(found)
    assert [each["variables"]["VLLM_HOST_IP"] for each in found["environments"]] == [
        site.ring.address(host) for host in site.ring.hosts
    ]


FIREWALLS = [
    ("dropped", 0, ("--dport", "29501", "-j", "DROP"), "nodes.port_dropped"),
    ("refused", 0, ("--dport", "29501", "-j", "REJECT"), "nodes.port_refused"),
    ("one way", 1, ("--syn", "!", "--dport", "22", "-j", "DROP"), "nodes.one_way"),
]


@needs_sshd
@needs_torch
@pytest.mark.parametrize(("_what", "at", "rule", "finding"), rest_full(FIREWALLS, 1), ids=[row[0] for row in FIREWALLS])
def test_a_firewall_is_named(site: Site, _what: str, at: int, rule: tuple[str, ...], finding: str) -> None:
    """Dropped, refused, or in one direction; nothing hangs."""
    site.up()
    site.ring.firewall(site.ring.hosts[at], "INPUT", "-i", "v0", "-p", "tcp", *rule)
    status, found, seconds = site.check("--limit", "4s")
    print(f"{_what}: {seconds:.1f} s")

    assert status == 1
    assert site.ring.hosts[at] in named(found).get(finding, []), named(found)


HOSTS = [
    ("a tiny /dev/shm", {"before": ["mount -t tmpfs -o size=64m tmpfs /dev/shm"]}, "nodes.shm_small"),
    (
        "a token of its own",
        {"sshd": ["SetEnv RAY_AUTH_MODE=token RAY_AUTH_TOKEN=other-0123456789abcdef"]},
        "nodes.ray_token_differs",
    ),
    ("no model", {"before": ["mount -t tmpfs tmpfs {folder}/model"]}, "nodes.model_missing"),
    ("another model", {"before": ["mount --bind {folder}/other {folder}/model"]}, "nodes.model_differs"),
    (
        "a clock off by a minute",
        {"agent": 'PYTHONPATH={folder}/awake exec faketime -f +60s {python} "$@"'},
        "nodes.clock_off",
    ),
    ("another Ray", {"python": ['"torch":', '"ray": "2.59.0", "torch":']}, "nodes.ray_differs"),
    ("another Python", {"python": ['"python": "3.11', '"python": "3.12']}, "nodes.python_differs"),
]


@needs_sshd
@needs_torch
@pytest.mark.parametrize(("_what", "how", "finding"), rest_full(HOSTS, 1), ids=[row[0] for row in HOSTS])
def test_a_difference_on_a_host_is_named(site: Site, _what: str, how: dict[str, Any], finding: str) -> None:
    """With that host."""
    head, other = site.ring.hosts
    for name, content in (("model", "{}"), ("other", '{"a": 1}')):
        (site.folder / name).mkdir()
        (site.folder / name / "config.json").write_text(content)
    site.before[other] = [each.format(folder=site.folder) for each in how.get("before", [])]
    site.sshd[other] = how.get("sshd", [])
    if "sshd" in how:
        site.sshd[head] = ["SetEnv RAY_AUTH_MODE=token RAY_AUTH_TOKEN=shared-0123456789abcdef"]
    if "agent" in how:
        script = site.folder / "agent.sh"
        line = how["agent"].format(python=sys.executable, folder=site.folder)
        script.write_text(f"#!/bin/sh\nexport FAKETIME_DONT_FAKE_MONOTONIC=1\n{line}\n")
        # libfaketime 0.9.10 hands `time.sleep` of Python 3.11 on as a negative time (its issue 426), and `subprocess`
        # sleeps until the awaited process has ended.
        (site.folder / "awake").mkdir()
        (site.folder / "awake" / "sitecustomize.py").write_text(
            "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds) and None\n"
        )
        script.chmod(0o755)
        site.settings[other] = {"agent": str(script)}
    if "python" in how:
        # Names its packages as a host with other ones does.
        real = site.folder / "real.sh"
        real.write_text(
            f'#!/bin/sh\nif [ "$1" = -c ]; then {TORCH} "$@" | sed \'s/{how["python"][0]}/{how["python"][1]}/\'\n'
            f'else exec {TORCH} "$@"; fi\n'
        )
        real.chmod(0o755)
        plain = site.folder / "plain.sh"
        plain.write_text(real.read_text().replace("2.59.0", "2.60.0").replace('"3.12', '"3.11'))
        plain.chmod(0o755)
        site.settings = {head: {"python": str(plain)}, other: {"python": str(real)}}
    site.up()
    status, found, seconds = site.check("--no-collective", "--model", str(site.folder / "model"))
    print(f"{_what}: {seconds:.1f} s")

    assert status == 1
    assert other in named(found).get(finding, []), (named(found), found["unread"])
    assert "0123456789abcdef" not in json.dumps(found)


@pytest.mark.full
@needs_sshd
@needs_torch
def test_a_name_for_a_loopback_address_is_named(site: Site) -> None:
    """Without an interface setting Gloo fails, and the host is named."""
    head, other = site.ring.hosts
    site.before[other] = [f"echo 127.0.1.1 {other} > {site.folder}/{other}.hosts"]
    site.settings = {host: {"GLOO_SOCKET_IFNAME": "", "NCCL_SOCKET_IFNAME": ""} for host in (head, other)}
    site.up()
    status, found, _ = site.check()

    assert status == 1
    assert named(found)["nodes.name_loopback"] == [other]


@pytest.mark.full
@needs_sshd
def test_unreachable_hosts_are_named_and_the_others_continue(tmp_path: Path) -> None:
    """Refused, absent, and without our Python; the third answers."""
    with Ring(3) as ring:
        site = Site(ring, tmp_path)
        site.settings = {ring.hosts[2]: {"agent": "/nope/python"}}
        site.up()
        ring.firewall(
            ring.hosts[1], "INPUT", "-p", "tcp", "--dport", "22", "-j", "REJECT", "--reject-with", "tcp-reset"
        )
        site.more = (f"10.77.{ring.number}.99 name=nobody",)
        status, found, seconds = site.check("--no-collective")

    said = {each["name"]: each["reason"] for each in found["unread"]}
    assert status == 1
    assert [node["name"] for node in found["nodes"]] == [ring.hosts[0]]
    assert "refused" in said[ring.hosts[1]]
    assert "/nope/python" in said[ring.hosts[2]]
    assert any(word in said["nobody"] for word in ("timed out", "No route"))
    assert seconds < scaled(30)


# ---- a Ray cluster


RAY = Path(sys.executable).parent / "ray"
_RAY = ["--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats", "--block"]


class Cluster:
    """A Ray cluster over the hosts of a ring."""

    def __init__(self, ring: Ring, folder: Path) -> None:
        self.ring, self.folder = ring, folder
        self.address = f"{ring.address(ring.hosts[0])}:6379"

    def start(self, host: str, **environment: str) -> None:
        """Start a host's part, the head first, and wait until it is ready."""
        own = self.ring.address(host)
        variables = {
            "VLLM_HOST_IP": own, "NCCL_SOCKET_IFNAME": "v0", "GLOO_SOCKET_IFNAME": "v0",
            "RAY_raylet_start_wait_time_s": "110",  # a busy machine takes its time
            **environment,
        }  # fmt: skip
        is_head = host == self.ring.hosts[0]
        words = ["--head", "--port", "6379", "--include-dashboard=false", "--temp-dir", str(self.folder / "ray")]
        how = words if is_head else ["--address", self.address]
        command = [str(RAY), "start", *how, "--node-ip-address", own, *_RAY]
        said = self.folder / f"ray-{host}.log"
        with said.open("wb") as log:
            started = self.ring.start(host, command, environment=variables, stdout=log, stderr=subprocess.STDOUT)
        ends_at = time.monotonic() + scaled(240)
        while b"Ray runtime started" not in said.read_bytes():
            assert started.poll() is None, said.read_text()
            assert time.monotonic() < ends_at, said.read_text()
            time.sleep(0.3)

    def check(self, *words: str, host: int = 0) -> tuple[int, dict[str, Any], float]:
        """`cluster check --ray` from a host."""
        begun = time.monotonic()
        done = self.ring.run(
            self.ring.hosts[host],
            [*CLI, "cluster", "check", "--ray", self.address, "--python", str(TORCH), "--format", "json", *words],
            capture_output=True, encoding="utf-8", timeout=200,
            environment={"PYTHONPATH": str(LIVE / "overlay")},
        )  # fmt: skip
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), time.monotonic() - begun


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path for Ray's sockets."""
    folder = Path("/tmp") / f"rb{os.getpid()}"  # noqa: S108 - a socket's path has 107 bytes at most
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@needs_torch
def test_a_ray_cluster_is_checked_and_its_shortage_is_named(ring: Ring, short_folder: Path) -> None:
    """Both nodes answer; half a cluster and a missing one are named; nothing is left."""
    cluster = Cluster(ring, short_folder)
    head, other = ring.hosts
    status, found, _ = cluster.check()
    assert (status, found["nodes"]) == (1, [])
    assert "no Ray cluster" in found["unread"][0]["reason"]

    cluster.start(head)
    status, found, _ = cluster.check("--expect", "2", "--no-collective")
    assert status == 1
    assert len(found["nodes"]) == 1
    assert "expected 2 nodes" in found["unread"][0]["reason"]

    cluster.start(other)
    before = {host: len(ring.pids(host)) for host in ring.hosts}
    begun_s = spent_s(ring)
    status, found, seconds = cluster.check("--expect", "2")
    assert is_quick(seconds, spent_s(ring) - begun_s)
    assert named(found) == {}
    assert {node["name"] for node in found["nodes"]} == {ring.address(host) for host in ring.hosts}
    for node in found["nodes"]:
        assert node["name"] in {address for each in node["interfaces"] for address in each["addresses"]}
        assert node["environment"]["VLLM_HOST_IP"] == node["name"]
    assert [rank["state"] for rank in found["collectives"][0]["ranks"]] == ["done", "done"]
    # Ray keeps idle workers for a while; none of them runs an agent or a rank.
    left = [Path(f"/proc/{pid}/cmdline").read_text() for host in ring.hosts for pid in ring.pids(host)]
    assert not [each for each in left if "all_reduce" in each or "::Agent" in each or "vllm_runbooks" in each], before


@pytest.mark.full
def test_the_runbook_checks_a_ray_cluster(ring: Ring, short_folder: Path) -> None:
    """`multi-node-ray` with `live` shows the nodes, and reports every unmeasured fact."""
    cluster = Cluster(ring, short_folder)
    for host in ring.hosts:
        cluster.start(host)
    asked = ["-p", "live", "true", "-p", "ray", cluster.address, "-p", "expect", "2"]
    done = ring.run(
        ring.hosts[0],
        [*CLI, "run", "multi-node-ray", *asked, "--no-history", "--out", str(short_folder / "out")],
        capture_output=True, encoding="utf-8", timeout=300,
    )  # fmt: skip
    (page,) = (short_folder / "out").glob("multi-node-ray*.ipynb")
    cells = {cell["id"]: cell for cell in json.loads(page.read_text("utf-8"))["cells"]}
    shown = {
        name: "".join("".join(output.get("data", {}).get("text/plain", "")) for output in cells[name]["outputs"])
        for name in ("summary", "nodes-step", "ways-step", "layout-step")
    }

    assert done.returncode == 1, done.stdout + done.stderr  # without torch in Ray's Python no collective is run
    assert "FAIL" in done.stdout
    for host in ring.hosts:
        own = ring.address(host)
        assert own in shown["nodes-step"]
        assert f"{own}: export VLLM_HOST_IP={own} NCCL_SOCKET_IFNAME=v0" in shown["ways-step"]
    assert "queried through Ray" in shown["summary"]
    assert "open" in shown["ways-step"]
    assert "unknown model" in " ".join(shown["layout-step"].split())
