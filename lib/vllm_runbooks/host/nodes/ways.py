"""Reachability of nodes: the measured matrix, and each node's address and network variables."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_runbooks.host.nodes.records import (
    Cluster,
    Interface,
    NodeConnection,
    NodeEnvironment,
    NodeFacts,
    Reachability,
)

HOST_IP, NCCL, GLOO = "VLLM_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"
_TRIED = frozenset(Reachability) - {Reachability.UNKNOWN}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14}", re.ASCII)
"""Names of interfaces that are safe in an environment; Linux allows 15 characters."""


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback or unspecified."""
    return address.startswith("127.") or address in ("::1", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


def is_outward(address: str) -> bool:
    """Whether another node might reach an address: neither loopback nor link-local."""
    return not (is_loopback(address) or address.startswith("169.254.") or address.casefold().startswith("fe80:"))


def usable_interfaces(node: NodeFacts) -> tuple[Interface, ...]:
    """Interfaces of a node through which another node might reach it."""
    return tuple(
        interface
        for interface in node.interfaces or ()
        if interface.is_up is not False and any(map(is_outward, interface.addresses))
    )


def dial_addresses(node: NodeFacts) -> tuple[str, ...]:
    """Addresses of a node at which another might reach it, in the order of its interfaces."""
    outward = (
        address for interface in usable_interfaces(node) for address in interface.addresses if is_outward(address)
    )
    return tuple(dict.fromkeys(outward))


def addresses(node: NodeFacts) -> frozenset[str] | None:
    """All addresses of a node; None if unknown."""
    if node.interfaces is None:
        return None
    return frozenset(address for interface in node.interfaces for address in interface.addresses)


def variable(node: NodeFacts, name: str) -> str | None:
    """A variable of a node's environment; None if unset, empty or unknown."""
    return (node.environment or {}).get(name) or None


def selected_interfaces(node: NodeFacts, name: str) -> tuple[Interface, ...] | None:
    """Interfaces that a variable selects for its library; None if not set or unknown.

    NCCL matches prefixes, with a leading = whole names, with a leading ^ it excludes them; Gloo
    matches whole names.
    """
    value = variable(node, name)
    if value is None or node.interfaces is None:
        return None
    if name == GLOO:
        names = value.split(",")
        return tuple(interface for interface in node.interfaces if interface.name in names)
    is_without, value = value.startswith("^"), value.removeprefix("^")
    is_whole, value = value.startswith("="), value.removeprefix("=")
    words = tuple(word for word in value.split(",") if word)

    def is_named(interface: Interface) -> bool:
        return interface.name in words if is_whole else interface.name.startswith(words)

    return tuple(interface for interface in node.interfaces if is_named(interface) is not is_without)


@dataclass(frozen=True)
class NodeRoute:
    """Interface and address at which others reach a node."""

    interface: str
    address: str
    why: str


@dataclass(frozen=True)
class BlockedPorts:
    """Ports of a node that another does not reach, all for the same reason."""

    source: str
    target: str
    address: str
    reaches: tuple[NodeConnection, ...]
    is_whole: bool
    """Whether every attempt at the address failed."""
    is_open_back: bool
    """Whether something is reached in the other direction."""

    @property
    def ports(self) -> tuple[str, ...]:
        """Ports with their uses."""
        return tuple(sorted({f"{attempt.port} ({attempt.use})" for attempt in self.reaches}))


class ReachabilityMatrix:
    """The reachability of a cluster's nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = {node.name: node for node in cluster.nodes}
        self._tried: dict[tuple[str, str], dict[str, list[NodeConnection]]] = defaultdict(lambda: defaultdict(list))
        self.unknown: set[str] = set()
        self._out: dict[str, Counter[str]] = defaultdict(Counter)
        for attempt in cluster.connections or ():
            if attempt.state not in _TRIED:
                self.unknown.add(attempt.target)
                continue
            self._tried[attempt.source, attempt.target][attempt.address].append(attempt)
            if attempt.state is Reachability.OPEN and attempt.interface is not None:
                self._out[attempt.source][attempt.interface] += 1
        self._sources: dict[str, list[str]] = defaultdict(list)
        for source, target in self._tried:
            self._sources[target].append(source)
        owners = Counter(owned for node in cluster.nodes for owned in addresses(node) or ())
        self._shared = {address for address, count in owners.items() if count > 1}
        self.chosen = {node.name: self._choose(node) for node in cluster.nodes}

    def mtu(self, node: NodeFacts) -> int | None:
        """MTU of the interface at which a node is reached; None if unknown."""
        route = self.chosen[node.name]
        return next(
            (interface.mtu for interface in node.interfaces or () if route and interface.name == route.interface), None
        )

    def untried(self) -> tuple[str, ...]:
        """Nodes that not every other node tried to reach."""
        others = len(self.nodes) - 1
        return tuple(name for name in self.nodes if len([s for s in self._sources[name] if s in self.nodes]) < others)

    def is_reached(self, name: str, address: str) -> bool | None:
        """Whether any node reaches another at an address; None if it was not tested."""
        attempts = [attempt for by_source in self._attempts(name, address) for attempt in by_source]
        return any(attempt.state is Reachability.OPEN for attempt in attempts) if attempts else None

    def _attempts(self, name: str, address: str) -> list[list[NodeConnection]]:
        """Connection attempts of each node to another at an address."""
        return [self._tried[source, name].get(address, []) for source in self._sources[name]]

    def _choose(self, node: NodeFacts) -> NodeRoute | None:
        """Best route to a node; None if none leads to the others."""
        ranked = []
        set_by = variable(node, HOST_IP)
        for number, interface in enumerate(usable_interfaces(node)):
            for address in interface.addresses:
                if not is_outward(address) or address in self._shared:
                    continue
                by_source = self._attempts(node.name, address)
                opened = [
                    [attempt for attempt in attempts if attempt.state is Reachability.OPEN] for attempts in by_source
                ]
                count = sum(map(bool, opened))
                whole = sum(
                    bool(attempts) and attempts == every for attempts, every in zip(opened, by_source, strict=True)
                )
                out = self._out[node.name][interface.name]
                if not count and not out:
                    continue
                rates = [rate for attempts in opened for attempt in attempts if (rate := attempt.bandwidth_mbit_s)]
                score = (
                    count, whole, out > 0, round(math.log2(min(rates))) if rates else 0, address == set_by,
                    ":" not in address, -number,
                )  # fmt: skip
                ranked.append((score, self._way(interface.name, address, opened)))
        return max(ranked, key=lambda attempts: attempts[0])[1] if ranked else None

    def _way(self, interface: str, address: str, opened: Sequence[Sequence[NodeConnection]]) -> NodeRoute:
        count = sum(map(bool, opened))
        if not count:
            return NodeRoute(interface, address, f"{interface} leads to the others, and none of them reaches {address}")
        other = "one other node reaches" if count == 1 else f"{count} other nodes reach"
        slow = [attempt.latency_ms for attempts in opened for attempt in attempts if attempt.latency_ms is not None]
        rates = [rate for attempts in opened for attempt in attempts if (rate := attempt.bandwidth_mbit_s) is not None]
        speeds = [f"latency at most {max(slow):.3g} ms"] if slow else []
        speeds += [f"bandwidth at least {min(rates):,.0f} Mbit/s"] if rates else []
        return NodeRoute(
            interface, address, f"{other} it at {address} on {interface}{', ' * bool(speeds)}{', '.join(speeds)}"
        )

    def blocks(self) -> Iterator[BlockedPorts]:
        """Ports that are not reached at the addresses that would be used, by source, target and state."""
        for (source, target), by_address in self._tried.items():
            for address in self._judged(target, by_address):
                closed: dict[Reachability, list[NodeConnection]] = defaultdict(list)
                for attempt in by_address[address]:
                    if attempt.state is not Reachability.OPEN:
                        closed[attempt.state].append(attempt)
                is_whole = sum(map(len, closed.values())) == len(by_address[address])
                for attempts in closed.values():
                    back = self._is_open(target, source)
                    yield BlockedPorts(source, target, address, tuple(attempts), is_whole, back)

    def _judged(self, target: str, by_address: Mapping[str, Collection[NodeConnection]]) -> tuple[str, ...]:
        """Addresses at which a node has to be reached: the chosen one, else the likeliest."""
        route = self.chosen.get(target)
        if route is not None:
            return (route.address,) if route.address in by_address else ()
        # For an unreachable node: the address with the most promising state, such as a firewall
        # that answers or drops packets.
        states = {
            address: min(_LIKELY.index(attempt.state) for attempt in attempts)
            for address, attempts in by_address.items()
        }
        best = min(states.values(), default=0)
        return tuple(address for address, state in states.items() if state == best)[:1]

    def _is_open(self, source: str, target: str) -> bool:
        tried = self._tried.get((source, target), {})
        return any(attempt.state is Reachability.OPEN for attempts in tried.values() for attempt in attempts)

    def rates(self, name: str) -> Iterator[tuple[float, str]]:
        """Bandwidths of the route to a node in Mbit/s, each with its source."""
        route = self.chosen.get(name)
        for attempts in [] if route is None else self._attempts(name, route.address):
            for attempt in attempts:
                if attempt.bandwidth_mbit_s is not None:
                    yield attempt.bandwidth_mbit_s, attempt.source

    def environments(self) -> Iterator[NodeEnvironment]:
        """Environment variables of each node whose route is known."""
        for name, route in self.chosen.items():
            if route is None or not _NAME.fullmatch(route.interface):
                continue
            others = [
                interface.name for interface in self.nodes[name].interfaces or () if interface.name != route.interface
            ]
            # NCCL matches interface names by prefix.
            exactly = "=" if any(other.startswith(route.interface) for other in others) else ""
            variables = {HOST_IP: route.address, NCCL: f"{exactly}{route.interface}", GLOO: route.interface}
            yield NodeEnvironment(name, variables, route.why)


_LIKELY = (Reachability.OPEN, Reachability.REFUSED, Reachability.DROPPED, Reachability.UNREACHABLE)
