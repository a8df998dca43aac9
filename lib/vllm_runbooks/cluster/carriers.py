"""Carry requests to agents and answers back: local processes, ssh, or a Ray cluster.

A node without an answer is reported with its reason and the rest continues. Every wait has a
timeout. Agents end when their carrier is closed or its process is killed, because their input ends.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.cluster.agent import UNHEARD_S
from vllm_runbooks.cluster.hosts import SshHost
from vllm_runbooks.cluster.wires import UnansweredError, Wire
from vllm_runbooks.host.nodes.records import Unread

Answer = Any
_BEAT_S = UNHEARD_S / 4
"""Time between heartbeats to an agent, which exits without them."""
_HELLO_S = 25.0
"""Timeout for the first answer of a node: ssh, and the start of Python."""
_RAY_S = 60.0
_AT_ONCE = 64
_HEEDLESS = "processes launched there may still be running; check and stop them"
"""For processes other than our agent: sshd does not stop them at a disconnect."""


class Carrier(ABC):
    """Carries questions to the agents of nodes; leaving the block ends them."""

    by: str
    """Method, as in `host.nodes.records.Cluster.by`."""

    def __init__(self) -> None:
        self.unread: tuple[Unread, ...] = ()
        self.head: str | None = None
        """Node that the others join, if known."""

    @abstractmethod
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that answer."""

    @abstractmethod
    def ask(self, node: str, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """A node's answer to a question of `agent.Agent`; raises UnansweredError."""

    @abstractmethod
    def close(self) -> None:
        """Stop every agent with all its processes."""

    def python(self, node: str) -> str | None:
        """Python of the node's vLLM, according to its list; None if not given."""
        del node
        return None

    def ask_all(
        self, requests: Mapping[str, Mapping[str, Any]], timeout_s: float
    ) -> dict[str, Answer | UnansweredError]:
        """Answers of several nodes, each to its own request, concurrently."""

        def one(node: str) -> Answer | UnansweredError:
            try:
                return self.ask(node, requests[node], timeout_s)
            except UnansweredError as error:
                return error

        with ThreadPoolExecutor(max(min(len(requests), _AT_ONCE), 1)) as pool:
            return dict(zip(requests, pool.map(one, requests), strict=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Processes(Carrier):
    """An agent in a process for each node: local, or through a command such as ssh."""

    by = "ssh"

    def __init__(self, commands: Mapping[str, Sequence[str]], *, hello_s: float = _HELLO_S) -> None:
        """Start an agent on each node; nodes that do not answer within `hello_s` are unread."""
        super().__init__()
        self._wires = dict[str, Wire]()
        unread = list[Unread]()

        def begin(node: str) -> tuple[str, Wire | None, str]:
            try:
                wire = Wire(commands[node])
            except UnansweredError as error:
                return node, None, str(error)
            try:
                wire.ask({"do": "hello"}, hello_s)
            except UnansweredError as error:
                has_ended = wire.end(1.0)  # it has no processes yet
                return node, None, str(error) if has_ended else f"{error}; {_HEEDLESS}"
            return node, wire, ""

        with ThreadPoolExecutor(max(min(len(commands), _AT_ONCE), 1)) as pool:
            for node, wire, why in pool.map(begin, commands):
                if wire is None:
                    unread.append(Unread(node, why))
                else:
                    self._wires[node] = wire
                    threading.Thread(target=wire.beat, args=(_BEAT_S,), daemon=True).start()
        self.unread = tuple(unread)

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that answer."""
        return tuple(self._wires)

    def ask(self, node: str, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """A node's answer."""
        return self._wires[node].ask(request, timeout_s)

    def close(self) -> None:
        """End every agent, side by side."""
        wires, self._wires = list(self._wires.values()), {}
        with ThreadPoolExecutor(max(min(len(wires), _AT_ONCE), 1)) as pool:
            list(pool.map(Wire.end, wires))


class Ssh(Processes):
    """Hosts of a list, each reached over ssh with a Python there that has this package."""

    def __init__(self, hosts: Sequence[SshHost], *, config: str | None = None, hello_s: float = _HELLO_S) -> None:
        """Log in to each host without a password; the first is the head.

        `config` is another ssh configuration.
        """
        super().__init__({host.name: _ssh(host, config) for host in hosts}, hello_s=hello_s)
        self._hosts = {host.name: host for host in hosts}
        self.head = hosts[0].name if hosts else None

    def python(self, node: str) -> str | None:
        """The host's `python=`."""
        return self._hosts[node].python


def _ssh(host: SshHost, config: str | None) -> list[str]:
    login = f"{host.user}@{host.address}" if host.user else host.address
    where = ["-F", config] if config is not None else []
    port = ["-p", str(host.port)] if host.port else []
    words = host_commands.argv("agent-elsewhere", login=login, remote_path=host.agent, word=host.name)
    at = words.index("--")
    # `env` accepts variables before the program; their values have no shell syntax.
    variables = [f"{name}={value}" for name, value in host.environment]
    behind = list(words[at + 2 :])
    begun = ["env", *variables, *behind] if variables else behind
    return [*words[:at], *where, *port, *words[at : at + 2], *begun]


class Ray(Carrier):
    """Nodes of a running Ray cluster: one actor on each, owned by a process that joined it.

    Ray stays in that process, so that a join without end, for instance, cannot block this one.
    """

    by = "ray"

    def __init__(self, address: str, *, expected: int | None = None) -> None:
        """Join the cluster at `10.0.0.1:6379` or `auto`.

        Reports missing nodes of those expected.
        """
        super().__init__()
        self._names: tuple[str, ...] = ()
        self._wire: Wire | None = None
        try:
            self._wire = Wire([sys.executable, "-P", "-m", "vllm_runbooks.cluster.ray_bridge", address])
            answer = self._wire.ask({"do": "join"}, _RAY_S)
        except UnansweredError as error:
            self.unread = (Unread(address, str(error)),)
            self.close()
            return
        self._names = tuple(node["name"] for node in answer["nodes"] if not node["why"])
        self.head = answer["head"]
        unread = [Unread(node["name"], node["why"]) for node in answer["nodes"] if node["why"]]
        alive = len(self._names)
        if expected is not None and alive + len(unread) < expected:
            missing = expected - alive - len(unread)
            why = (
                f"expected {expected} nodes, but the cluster at {address} has {alive}: nodes that have not joined are "
                "unknown to Ray; check their Ray logs, or use ssh (--hosts)"
            )
            unread.append(Unread(f"{missing} more" if missing > 1 else "one more", why))
        self.unread = tuple(unread)

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that answer."""
        return self._names

    def ask(self, node: str, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """A node's answer."""
        if self._wire is None:
            raise UnansweredError("disconnected from the cluster")
        question = {"do": "ask", "node": node, "request": dict(request), "timeout_s": timeout_s}
        return self._wire.ask(question, timeout_s + 5)

    def close(self) -> None:
        """Leave the cluster, which stops every actor with all its processes."""
        if self._wire is not None:
            with suppress(UnansweredError):
                self._wire.ask({"do": "leave"}, 20)
            self._wire.end()
            self._wire = None
