"""Hosts as network namespaces: a bridge in a separate namespace, with an address for each.

    python tests/namespaces.py run COUNT -- COMMAND…    the hosts exist while the command runs

Each host has `v0` with 10.77.N.1 and so on on the bridge, and `mgmt0` with 192.168.K.10, which leads nowhere. A ring
has a unique number, so several can exist concurrently. Any end of this process, even SIGKILL, ends
the ring: a supervisor reads the end of a pipe, ends all processes in the namespaces
(`ip netns pids`), and removes them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pace import scaled

IP = shutil.which("ip") or "/usr/sbin/ip"
IPTABLES = shutil.which("iptables") or "/usr/sbin/iptables"
_PREFIX = "rb"
_RINGS = 200


@functools.cache
def why_not() -> str:
    """Why no namespaces can be had here; empty: they can."""
    if os.geteuid() != 0:
        return "network namespaces want root"
    if not Path(IP).exists() or not Path(IPTABLES).exists():
        return "iproute2 or iptables is not installed"
    name = f"{_PREFIX}try{os.getpid()}"
    done = subprocess.run([IP, "netns", "add", name], capture_output=True, check=False)
    subprocess.run([IP, "netns", "del", name], capture_output=True, check=False)
    return done.stderr.decode().strip()


def _ip(*words: str, in_: str | None = None, check: bool = True) -> None:
    where = ["-n", in_] if in_ else []
    subprocess.run([IP, *where, *words], check=check, capture_output=True)


class Ring:
    """Some hosts on one network."""

    def __init__(self, count: int = 2) -> None:
        """Create this many."""
        self.number = _taken()
        """Of the ring, which its names and addresses hold."""
        self.hosts = tuple(f"{_PREFIX}{self.number}h{each}" for each in range(1, count + 1))
        self.switch = _switch(self.number)
        self._guard = subprocess.Popen(
            [sys.executable, __file__, "guard", self.switch, *self.hosts], stdin=subprocess.PIPE, start_new_session=True
        )
        self._started: list[subprocess.Popen[Any]] = []
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        for name in self.hosts:
            _ip("netns", "add", name)
            _ip("link", "set", "lo", "up", in_=name)
        _ip("link", "add", "br0", "type", "bridge", in_=self.switch)
        _ip("link", "set", "br0", "up", in_=self.switch)
        for each, name in enumerate(self.hosts, 1):
            end = f"{_PREFIX}{self.number}p{each}"
            _ip("link", "add", end, "netns", self.switch, "type", "veth", "peer", "name", "v0", "netns", name)
            _ip("link", "set", end, "master", "br0", in_=self.switch)
            _ip("link", "set", end, "up", in_=self.switch)
            _ip("addr", "add", f"{self.address(name)}/24", "dev", "v0", in_=name)
            _ip("link", "set", "v0", "up", in_=name)
            # A bridge without ports: an interface that has an address and leads nowhere.
            _ip("link", "add", "mgmt0", "type", "bridge", in_=name)
            _ip("addr", "add", f"{self.other_address(name)}/24", "dev", "mgmt0", in_=name)
            _ip("link", "set", "mgmt0", "up", in_=name)

    def address(self, host: str) -> str:
        """On the network that all share."""
        return f"10.77.{self.number}.{self.hosts.index(host) + 1}"

    def other_address(self, host: str) -> str:
        """Of the interface that leads nowhere."""
        return f"192.168.{self.hosts.index(host) + 1}.10"

    @staticmethod
    def into(host: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """The words before a command that is to run on a host."""
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return [IP, "netns", "exec", host, *(["env", *variables] if variables else [])]

    def start(
        self, host: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command on a host, in a separate session."""
        process = subprocess.Popen([*self.into(host, environment), *command], start_new_session=True, **options)
        self._started.append(process)
        return process

    def run(
        self, host: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command on a host."""
        return subprocess.run([*self.into(host, environment), *command], check=False, **options)

    def firewall(self, host: str, *rule: str) -> None:
        """Add a rule of iptables on a host, as in `"INPUT", "-p", "tcp", "--dport", "6379", "-j", "DROP"`."""
        subprocess.run([*self.into(host), IPTABLES, "-w", "-A", *rule], check=True, capture_output=True)

    def open(self) -> None:
        """Take all rules away."""
        for host in self.hosts:
            subprocess.run([*self.into(host), IPTABLES, "-w", "-F"], check=True, capture_output=True)

    def pids(self, host: str) -> list[int]:
        """Processes that run on a host."""
        return _pids(host)

    def end(self) -> None:
        """End everything that runs on the hosts; they stay."""
        _end_all(self.hosts)
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)

    def close(self) -> None:
        """Remove everything."""
        self.end()
        _remove((self.switch, *self.hosts))
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.write(b"done")
                self._guard.stdin.close()
        self._guard.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _switch(number: int) -> str:
    return f"{_PREFIX}{number}sw"


def _taken() -> int:
    """A free number of a ring, reserved by creating its switch.

    Raises:
        RuntimeError: none is free.
    """
    for turn in range(_RINGS):
        number = (os.getpid() + turn) % _RINGS
        if not subprocess.run([IP, "netns", "add", _switch(number)], capture_output=True, check=False).returncode:
            return number
    raise RuntimeError(f"{_RINGS} rings are there already: `ip netns list` names them")


def _pids(host: str) -> list[int]:
    told = subprocess.run([IP, "netns", "pids", host], capture_output=True, check=False, encoding="ascii")
    return [int(each) for each in told.stdout.split()]


def _end_all(hosts: Sequence[str], patience_s: float = 3.0) -> None:
    """End all processes in these namespaces: terminate, then kill."""
    ends_at = time.monotonic() + scaled(patience_s)
    number = signal.SIGTERM
    while True:
        found = [pid for host in hosts for pid in _pids(host)]
        if not found or time.monotonic() > ends_at + patience_s:
            return
        if time.monotonic() > ends_at:
            number = signal.SIGKILL
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.1)


def _remove(names: Sequence[str]) -> None:
    for name in names:
        _ip("netns", "del", name, check=False)


def _guard(names: list[str]) -> None:
    """Wait for the end of the ring's creator, and clean up in its place."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() != b"done":
        _end_all(names[1:])
        _remove(names)


def main(arguments: list[str]) -> int:
    """The program."""
    if arguments[:1] == ["guard"]:
        _guard(arguments[1:])
        return 0
    if arguments[:1] != ["run"] or "--" not in arguments:
        sys.stderr.write(f"{(__doc__ or '').splitlines()[2].strip()}\n")
        return 2
    split = arguments.index("--")
    with Ring(int(arguments[1])) as ring:
        variables = {f"HOST{number}": host for number, host in enumerate(ring.hosts, 1)} | {
            f"ADDRESS{number}": ring.address(host) for number, host in enumerate(ring.hosts, 1)
        }
        return subprocess.run(arguments[split + 1 :], env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
