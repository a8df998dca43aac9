"""Rules on addresses, interfaces and the measured reachability of nodes."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes.compared import grouped, listed
from vllm_runbooks.host.nodes.records import BACKENDS, Interface, NodeFacts, RankOutcome, RankState, Reachability
from vllm_runbooks.host.nodes.view import ClusterRuleContext, NodeWords, RuleHit, difference_hits, grouped_hits
from vllm_runbooks.host.nodes.ways import (
    GLOO,
    HOST_IP,
    NCCL,
    BlockedPorts,
    addresses,
    is_loopback,
    selected_interfaces,
    usable_interfaces,
    variable,
)

_SLOW_MBIT_S = 10_000.0
_MAX_RANKS = 3
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXIES = ("no_proxy", "NO_PROXY")


# ---- addresses


def ip_missing(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Nodes without a `VLLM_HOST_IP`."""
    names = tuple(node.name for node in context.nodes if node.environment is not None and not variable(node, HOST_IP))
    if names:
        yield RuleHit(names, f"{HOST_IP} is not set on {listed(names)}")


def ip_shared(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """One `VLLM_HOST_IP` on several nodes."""
    by_address = grouped((variable(node, HOST_IP), node.name) for node in context.nodes if variable(node, HOST_IP))
    for address, names in by_address.items():
        if len(names) > 1:
            yield RuleHit(tuple(names), f"{HOST_IP} is {address} on {listed(names)}: each node needs its own")


def ip_wrong(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """A `VLLM_HOST_IP` that is not the node's, unless several nodes have it."""
    counts = Counter(variable(node, HOST_IP) for node in context.nodes)
    for node in context.nodes:
        address, node_addresses = variable(node, HOST_IP), addresses(node)
        if address is None:
            continue
        if is_loopback(address):
            yield RuleHit((node.name,), f"{HOST_IP} is {address} on {node.name}: other hosts cannot reach it")
        elif node_addresses is not None and address not in node_addresses and counts[address] == 1:
            outward = [item for interface in usable_interfaces(node) for item in interface.addresses]
            has = listed(outward) or "none that others could reach"
            yield RuleHit((node.name,), f"{HOST_IP} is {address} on {node.name}, which has {has}")


def ip_apart(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """A `VLLM_HOST_IP` that no node reaches, while another address of the node is reachable."""
    for node in context.nodes:
        address, route = variable(node, HOST_IP), context.matrix.chosen.get(node.name)
        if address is None or address not in (addresses(node) or ()) or route is None or route.address == address:
            continue
        if context.matrix.is_reached(node.name, address) is False:
            text = f"{HOST_IP} is {address} on {node.name}, where no other node reaches it; {route.address} is reached"
            yield RuleHit((node.name,), text)


def name_apart(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """A host name that does not resolve to the node: Gloo uses it if no interface is set."""
    sentences = []
    for node in context.nodes:
        target = _wrong_address(node)
        if target is None:
            continue
        is_harmless = variable(node, GLOO) is not None
        gloo = f"; {GLOO} is set, so Gloo does not use it" if is_harmless else f", and {GLOO} is not set"
        called = f", {node.hostname}," if node.hostname not in (None, node.name) else ""
        behind = f"{called} resolves to {target}{gloo}"
        words = NodeWords("the host name of", behind, Severity.HINT if is_harmless else None)
        sentences.append((node.name, words))
    yield from grouped_hits(sentences)


def _wrong_address(node: NodeFacts) -> str | None:
    resolved, node_addresses = node.resolves_to, addresses(node)
    if not resolved:
        return None if resolved is None else "no address"
    loopback = next(filter(is_loopback, resolved), None)
    if loopback is not None or node_addresses is None or node_addresses & {*resolved}:
        return loopback
    return f"{listed(resolved)}, which is not an address of the node"


def proxy(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """A proxy that requests between the nodes would go to."""
    words = NodeWords("a proxy is set on", ", and no_proxy leaves out no address of the others")
    sentences = []
    for node in context.nodes:
        if not any(variable(node, name) for name in _PROXIES):
            continue
        exceptions = ",".join(filter(None, (variable(node, name) for name in _NO_PROXIES)))
        routes = context.matrix.chosen.items()
        others = [route.address for name, route in routes if name != node.name and route is not None]
        if others and not any(_is_excepted(address, exceptions) for address in others):
            sentences.append((node.name, words))
    yield from grouped_hits(sentences)


def _is_excepted(address: str, exceptions: str) -> bool:
    """Whether `no_proxy` covers an address: whole, by its beginning, or by its network."""
    for entry in filter(None, (entry.strip() for entry in exceptions.split(","))):
        if entry == "*" or address.startswith(entry.rstrip("*")):
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(address) in ipaddress.ip_network(entry, strict=False):
                return True
    return False


# ---- interfaces


def _selections(context: ClusterRuleContext) -> Iterator[tuple[NodeFacts, str, tuple[Interface, ...]]]:
    for node in context.nodes:
        for name in (NCCL, GLOO):
            interfaces = selected_interfaces(node, name)
            if interfaces is not None:
                yield node, name, interfaces


def _hits_by_value(faults: Iterable[tuple[NodeFacts, str, str]]) -> Iterator[RuleHit]:
    """One hit per value of a variable; a fault is a node, a variable and a problem."""
    by_node = grouped(((node.name, variable(node, name), wrong), name) for node, name, wrong in faults)
    yield from grouped_hits(
        (node, NodeWords(f"{_are(names)} {value} on", f", {wrong}")) for (node, value, wrong), names in by_node.items()
    )


def _are(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def interface_missing(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Variables that select no interface of the node."""
    yield from _hits_by_value(
        (node, name, "which has no such interface") for node, name, interfaces in _selections(context) if not interfaces
    )


def interface_loopback(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Variables that select the node's loopback alone."""
    yield from _hits_by_value(
        (node, name, "which leads to the node itself alone")
        for node, name, interfaces in _selections(context)
        if interfaces and all(is_loopback(address) for interface in interfaces for address in interface.addresses)
    )


def interface_apart(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Variables that select unreachable interfaces, while another one leads to the other nodes."""
    faults = []
    for node, name, interfaces in _selections(context):
        route = context.matrix.chosen.get(node.name)
        outward = [item for interface in interfaces for item in interface.addresses if not is_loopback(item)]
        if not outward or route is None or any(interface.name == route.interface for interface in interfaces):
            continue
        reached = [context.matrix.is_reached(node.name, address) for address in outward]
        if True not in reached and False in reached:
            text = f"where no other node reaches it; {route.interface} is the interface that leads to the others"
            faults.append((node, name, text))
    yield from _hits_by_value(faults)


def interfaces_disagree(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """NCCL and Gloo on different interfaces of a node."""
    pairs = []
    for node in context.nodes:
        nccl, gloo = variable(node, NCCL), variable(node, GLOO)
        if nccl is None or gloo is None:
            continue
        by_nccl, by_gloo = selected_interfaces(node, NCCL), selected_interfaces(node, GLOO)
        if by_nccl is None or by_gloo is None:
            is_apart = nccl.strip("=^") != gloo
        else:
            # If one selects nothing, another rule applies.
            is_apart = bool(by_nccl and by_gloo) and not {i.name for i in by_nccl} & {i.name for i in by_gloo}
        if is_apart:
            pairs.append(((nccl, gloo), node.name))
    for (nccl, gloo), names in grouped(pairs).items():
        text = f"{NCCL} is {nccl} and {GLOO} is {gloo} on {listed(names)}: two networks for one server"
        yield RuleHit(tuple(names), text)


def interface_unset(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Several interfaces, and none selected for a library that would choose among them."""
    sentences = []
    for node in context.nodes:
        route = context.matrix.chosen.get(node.name)
        if route is None or node.environment is None or len(usable_interfaces(node)) < 2:
            continue
        unset = []
        if node.inventory.gpus and variable(node, NCCL) is None:
            unset.append(NCCL)
        resolved = next(iter(node.resolves_to or ()), None)
        on_route = {item for part in node.interfaces or () if part.name == route.interface for item in part.addresses}
        if variable(node, GLOO) is None and resolved and not is_loopback(resolved) and resolved not in on_route:
            unset.append(GLOO)
        if unset:
            names = ", ".join(interface.name for interface in usable_interfaces(node))
            sentences.append((node.name, NodeWords(f"{_are(unset)} not set on", f", where there are {names}")))
    yield from grouped_hits(sentences)


def interface_names(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Interfaces that lead to the others under different names."""
    names = {name: None if route is None else route.interface for name, route in context.matrix.chosen.items()}
    if any(node.inventory.gpus for node in context.nodes):
        yield from difference_hits("the interface that leads to the others has not one name", names)


def mtu(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Different MTUs of the interfaces that lead to the others."""
    sizes = {node.name: None if (size := context.matrix.mtu(node)) is None else str(size) for node in context.nodes}
    yield from difference_hits("MTU (largest packet) differs between interfaces", sizes)


# ---- reachability


def slow(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """The slowest route that would be used."""
    rates = [(rate, source, node.name) for node in context.nodes for rate, source in context.matrix.rates(node.name)]
    rate, source, target = min(rates, default=(_SLOW_MBIT_S, "", ""))
    if rate < _SLOW_MBIT_S:
        yield RuleHit((source, target), f"the slowest way, from {source} to {target}, moves {rate:,.0f} Mbit/s")


def blocked(*states: Reachability, one_way: bool = False) -> Callable[[ClusterRuleContext], Iterator[RuleHit]]:
    """Ports blocked in one of these states.

    Similar ones are one hit: by target, by source, then both ways.
    """

    def condition(context: ClusterRuleContext) -> Iterator[RuleHit]:
        by_target = grouped(
            ((block.reaches[0].state, block.ports, block.target), block)
            for block in context.blocks
            if block.reaches[0].state in states and (block.is_whole and block.is_open_back) is one_way
        )
        by_sources: dict[tuple[Reachability, tuple[str, ...], frozenset[str]], list[BlockedPorts]] = {}
        for (state, ports, _), blocks in by_target.items():
            by_sources.setdefault((state, ports, frozenset(block.source for block in blocks)), []).extend(blocks)
        by_ends = {
            (state, ports, sources, frozenset(block.target for block in blocks)): blocks
            for (state, ports, sources), blocks in by_sources.items()
        }
        for (state, ports, sources, targets), blocks in list(by_ends.items()):
            # Both directions are one hit.
            if by_ends.pop((state, ports, sources, targets), None) is not None:
                yield _blocked_hit(blocks, by_ends.pop((state, ports, targets, sources), []), state, ports)

    return condition


def _blocked_hit(
    blocks: Sequence[BlockedPorts], back: Sequence[BlockedPorts], state: Reachability, ports: Sequence[str]
) -> RuleHit:
    sources, targets = (tuple(dict.fromkeys(getattr(block, end) for block in blocks)) for end in ("source", "target"))
    ends = dict.fromkeys((block.target, block.address) for block in (*blocks, *back))
    places = [f"{name} at {address}" for name, address in ends]
    what = "any port that was tried" if blocks[0].is_whole else f"port{'s' * (len(ports) > 1)} {listed(ports)}"
    # Report the common end: one node that reaches no other, or one that no other reaches.
    nodes = sources if len(sources) < len(targets) else targets
    if back:
        nodes = (*sources, *targets) if len(sources) == len(targets) else nodes
        return RuleHit(nodes, f"{listed(places)} do not reach each other, {what}: {_STATES[state]}")
    verb = "does" if len(sources) == 1 else "do"
    other = "; the reverse direction is open" if all(block.is_open_back for block in blocks) else ""
    return RuleHit(nodes, f"{listed(sources)} {verb} not reach {listed(places)}, {what}: {_STATES[state]}{other}")


_STATES = {
    Reachability.DROPPED: "no answer, which suggests that a firewall drops packets",
    Reachability.REFUSED: "connection refused although a process listens there, so a firewall may reject packets",
    Reachability.UNREACHABLE: "no route to host",
}
CLOSED = tuple(_STATES)


def stream_lost(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """Open ports on which a stream of data broke off."""
    by_target = grouped(
        ((attempt.target, attempt.address, attempt.reason), attempt.source)
        for attempt in context.cluster.connections or ()
        if attempt.state is Reachability.OPEN and attempt.reason and attempt.bandwidth_mbit_s is None
    )
    for (target, address, why), sources in by_target.items():
        verb = "reaches" if len(sources) == 1 else "reach"
        text = f"{listed(sources)} {verb} {target} at {address}, and {' '.join(why.split())[:200]}"
        yield RuleHit((*dict.fromkeys((*sources, target)),), text)


_IS_SET = (
    "the recommended variables were set, so they are not the cause: check that large packets pass (MTU and the ICMP "
    "messages that report it) and that no firewall blocks the random ports of Gloo and NCCL; then check again"
)


def collective(context: ClusterRuleContext) -> Iterator[RuleHit]:
    """All-reduces that failed or hung on a rank."""
    advised = {environment.node: environment.variables for environment in context.matrix.environments()}
    for run in context.cluster.collectives or ():
        failed = [rank for rank in run.ranks if rank.state in (RankState.FAILED, RankState.HUNG)]
        if failed:
            more = f"; and {len(failed) - _MAX_RANKS} more" if len(failed) > _MAX_RANKS else ""
            ranks = "; ".join(map(_rank, failed[:_MAX_RANKS]))
            by = BACKENDS.get(run.backend, run.backend)
            text = f"an all-reduce of {run.size_mib:g} MiB by {by} failed: {ranks}{more}"
            is_set = all(advised.get(node, {}).items() <= {**ran}.items() for node, ran in run.environments.items())
            do = _IS_SET if advised and run.environments and is_set else ""
            yield RuleHit(tuple(dict.fromkeys(rank.node for rank in failed)), text, do=do)


def _rank(outcome: RankOutcome) -> str:
    ended = "hung and was stopped" if outcome.state is RankState.HUNG else "failed"
    after = "" if outcome.seconds is None else f" after {outcome.seconds:.3g} s"
    why = f" ({' '.join(outcome.message.split())[:200]})" if outcome.message else ""
    return f"rank {outcome.rank} on {outcome.node} {ended}{after}{why}"
