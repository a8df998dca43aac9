"""What addresses, interfaces and the measured ways between nodes mean for a server over them."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.compared import listed
from vllm_runbooks.host.nodes.records import BACKENDS, Interface, NodeFacts, RankOutcome, RankState, Reachability
from vllm_runbooks.host.nodes.view import Said, View, Words, together
from vllm_runbooks.host.nodes.ways import GLOO, HOST_IP, NCCL, Block, addresses, is_loopback, selected, usable, variable

_SLOW_MBIT_S = 10_000.0
_MAX_RANKS = 3
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_NO_PROXIES = ("no_proxy", "NO_PROXY")


# ---- addresses


def ip_missing(view: View) -> Iterator[Said]:
    """Nodes without a `VLLM_HOST_IP`."""
    names = tuple(node.name for node in view.nodes if node.environment is not None and not variable(node, HOST_IP))
    if names:
        yield Said(names, f"{HOST_IP} is not set on {listed(names)}")


def ip_shared(view: View) -> Iterator[Said]:
    """One `VLLM_HOST_IP` on several nodes."""
    by_address: dict[str, list[str]] = {}
    for node in view.nodes:
        if address := variable(node, HOST_IP):
            by_address.setdefault(address, []).append(node.name)
    for address, names in by_address.items():
        if len(names) > 1:
            yield Said(tuple(names), f"{HOST_IP} is {address} on {listed(names)}: each node needs its own")


def ip_wrong(view: View) -> Iterator[Said]:
    """A `VLLM_HOST_IP` that is none of the node; one that several nodes have is a finding of its own."""
    given = Counter(variable(node, HOST_IP) for node in view.nodes)
    for node in view.nodes:
        address, own = variable(node, HOST_IP), addresses(node)
        if address is None:
            continue
        if is_loopback(address):
            yield Said((node.name,), f"{HOST_IP} is {address} on {node.name}: nobody else reaches it there")
        elif own is not None and address not in own and given[address] == 1:
            has = listed([one for each in usable(node) for one in each.addresses]) or "none that others could reach"
            yield Said((node.name,), f"{HOST_IP} is {address} on {node.name}, which has {has}")


def ip_apart(view: View) -> Iterator[Said]:
    """A `VLLM_HOST_IP` at which nobody reaches the node, where another address of it is reached."""
    for node in view.nodes:
        address, own, way = variable(node, HOST_IP), addresses(node), view.ways.chosen.get(node.name)
        if address is None or own is None or address not in own or way is None or way.address == address:
            continue
        if view.ways.is_reached(node.name, address) is False:
            text = f"{HOST_IP} is {address} on {node.name}, where no other node reaches it; {way.address} is reached"
            yield Said((node.name,), text)


def name_apart(view: View) -> Iterator[Said]:
    """A node's own name that leads others nowhere: Gloo goes by it where no interface is set."""
    found = []
    for node in view.nodes:
        stands = _stands_for(node)
        if stands is None:
            continue
        is_harmless = variable(node, GLOO) is not None
        beside = f"; {GLOO} is set, so that Gloo does not ask for it" if is_harmless else f", and {GLOO} is not set"
        called = f", {node.hostname}," if node.hostname not in (None, node.name) else ""
        behind = f"{called} stands for {stands} there{beside}"
        found.append((node.name, Words("the own name of", behind, Severity.HINT if is_harmless else None)))
    yield from together(found)


def _stands_for(node: NodeFacts) -> str | None:
    """What the node's own name wrongly stands for; None: an address of it, or nobody told."""
    named, own = node.resolves_to, addresses(node)
    if named is None:
        return None
    if not named:
        return "no address"
    lone = next(filter(is_loopback, named), None)
    if lone is not None or own is None or own & {*named}:
        return lone
    return f"{listed(named)}, which is no address of it"


def proxy(view: View) -> Iterator[Said]:
    """A proxy that requests between the nodes would go to."""
    words = Words("a proxy is set on", ", and no_proxy leaves out no address of the others")
    found = []
    for node in view.nodes:
        if not any(variable(node, name) for name in _PROXIES):
            continue
        without = ",".join(filter(None, (variable(node, name) for name in _NO_PROXIES)))
        others = [way.address for name, way in view.ways.chosen.items() if name != node.name and way is not None]
        if others and not any(_is_excepted(address, without) for address in others):
            found.append((node.name, words))
    yield from together(found)


def _is_excepted(address: str, without: str) -> bool:
    """Whether an address is among what is asked without a proxy: whole, by its beginning, or by its network."""
    for entry in filter(None, (entry.strip() for entry in without.split(","))):
        if entry == "*" or address.startswith(entry.rstrip("*")):
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(address) in ipaddress.ip_network(entry, strict=False):
                return True
    return False


# ---- interfaces


def _each_selected(view: View) -> Iterator[tuple[NodeFacts, str, tuple[Interface, ...]]]:
    """Of each node the variables that select interfaces, each with those that it selects."""
    for node in view.nodes:
        for name in (NCCL, GLOO):
            found = selected(node, name)
            if found is not None:
                yield node, name, found


def _per_value(found: Iterable[tuple[NodeFacts, str, str]]) -> Iterator[Said]:
    """One finding for each value, of one variable or both: node, variable, what is wrong with it."""
    by_node: dict[tuple[str, str | None, str], list[str]] = {}
    for node, name, wrong in found:
        by_node.setdefault((node.name, variable(node, name), wrong), []).append(name)
    yield from together(
        (node, Words(f"{_are(names)} {value} on", f", {wrong}")) for (node, value, wrong), names in by_node.items()
    )


def _are(names: Sequence[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def interface_missing(view: View) -> Iterator[Said]:
    """Variables that select no interface of the node."""
    yield from _per_value(
        (node, name, "which has no such interface") for node, name, found in _each_selected(view) if not found
    )


def interface_loopback(view: View) -> Iterator[Said]:
    """Variables that select the node's loopback alone."""
    yield from _per_value(
        (node, name, "which leads to the node itself alone")
        for node, name, found in _each_selected(view)
        if found and all(is_loopback(one) for each in found for one in each.addresses)
    )


def interface_apart(view: View) -> Iterator[Said]:
    """Variables that select interfaces at which nobody reaches the node, where another one leads to the others."""
    wrong = []
    for node, name, found in _each_selected(view):
        way = view.ways.chosen.get(node.name)
        own = [one for each in found for one in each.addresses if not is_loopback(one)]
        if not own or way is None or any(each.name == way.interface for each in found):
            continue
        reached = [view.ways.is_reached(node.name, one) for one in own]
        if True not in reached and False in reached:
            text = f"where no other node reaches it; {way.interface} is the interface that leads to the others"
            wrong.append((node, name, text))
    yield from _per_value(wrong)


def interfaces_disagree(view: View) -> Iterator[Said]:
    """NCCL and Gloo on different interfaces of a node."""
    by_values: dict[tuple[str, str], list[str]] = {}
    for node in view.nodes:
        one, other = variable(node, NCCL), variable(node, GLOO)
        if one is None or other is None:
            continue
        by_nccl, by_gloo = selected(node, NCCL), selected(node, GLOO)
        if by_nccl is None or by_gloo is None:
            is_apart = one.strip("=^") != other
        else:
            # Where one selects nothing, that is a finding of its own.
            is_apart = bool(by_nccl and by_gloo) and not {i.name for i in by_nccl} & {i.name for i in by_gloo}
        if is_apart:
            by_values.setdefault((one, other), []).append(node.name)
    for (one, other), names in by_values.items():
        text = f"{NCCL} is {one} and {GLOO} is {other} on {listed(names)}: two networks for one server"
        yield Said(tuple(names), text)


def interface_unset(view: View) -> Iterator[Said]:
    """Several interfaces, and none named for who would choose among them."""
    found = []
    for node in view.nodes:
        way = view.ways.chosen.get(node.name)
        if way is None or node.environment is None or len(usable(node)) < 2:
            continue
        unset = []
        if node.inventory.gpus and variable(node, NCCL) is None:
            unset.append(NCCL)
        named = next(iter(node.resolves_to or ()), None)
        own = {one for each in node.interfaces or () if each.name == way.interface for one in each.addresses}
        if variable(node, GLOO) is None and named is not None and not is_loopback(named) and named not in own:
            unset.append(GLOO)
        if unset:
            names = ", ".join(each.name for each in usable(node))
            found.append((node.name, Words(f"{_are(unset)} not set on", f", where there are {names}")))
    yield from together(found)


def interface_names(view: View) -> Iterator[Said]:
    """Another name of the interface that leads to the others, on another node."""
    found = {name: None if way is None else way.interface for name, way in view.ways.chosen.items()}
    if compared.differ(found) and any(node.inventory.gpus for node in view.nodes):
        text = f"the interface that leads to the others has not one name: {compared.told(found)}"
        yield Said(compared.odd(found), text)


def mtu(view: View) -> Iterator[Said]:
    """Largest packets of the interfaces that lead to the others."""
    found = {node.name: None if (size := view.ways.mtu(node)) is None else str(size) for node in view.nodes}
    if compared.differ(found):
        yield Said(compared.odd(found), f"the largest packet (MTU) of the interfaces differs: {compared.told(found)}")


# ---- the matrix


def slow(view: View) -> Iterator[Said]:
    """The slowest of the ways that would be used."""
    found = [(rate, source, node.name) for node in view.nodes for rate, source in view.ways.rates(node.name)]
    rate, source, target = min(found, default=(_SLOW_MBIT_S, "", ""))
    if rate < _SLOW_MBIT_S:
        yield Said((source, target), f"the slowest way, from {source} to {target}, moves {rate:,.0f} Mbit/s")


def blocked(*states: Reachability, one_way: bool = False) -> Callable[[View], Iterator[Said]]:
    """Ways that are blocked in such a state; those that are open the other way by a rule of their own.

    Blocks that are alike are one finding: first those of one target from several nodes, then those of several targets
    from the same nodes, then both directions.
    """

    def says(view: View) -> Iterator[Said]:
        by_target: dict[tuple[Reachability, tuple[str, ...], str], list[Block]] = {}
        for block in view.blocks:
            state = block.reaches[0].state
            if state in states and (block.is_whole and block.is_open_back) is one_way:
                ports = tuple(sorted({f"{each.port} ({each.use})" for each in block.reaches}))
                by_target.setdefault((state, ports, block.target), []).append(block)
        by_sources: dict[tuple[Reachability, tuple[str, ...], frozenset[str]], list[Block]] = {}
        for (state, ports, _), blocks in by_target.items():
            by_sources.setdefault((state, ports, frozenset(one.source for one in blocks)), []).extend(blocks)
        by_ends = {
            (state, ports, sources, frozenset(one.target for one in blocks)): blocks
            for (state, ports, sources), blocks in by_sources.items()
        }
        for (state, ports, sources, targets), blocks in list(by_ends.items()):
            # What was told already from the other end is gone.
            if by_ends.pop((state, ports, sources, targets), None) is not None:
                yield _said_of(blocks, by_ends.pop((state, ports, targets, sources), []), state, ports)

    return says


def _said_of(blocks: Sequence[Block], back: Sequence[Block], state: Reachability, ports: Sequence[str]) -> Said:
    """Blocks of some nodes towards others, and those that are the same the other way."""
    sources, targets = (tuple(dict.fromkeys(getattr(one, end) for one in blocks)) for end in ("source", "target"))
    places = [
        f"{name} at {address}" for name, address in dict.fromkeys((b.target, b.address) for b in (*blocks, *back))
    ]
    what = "any port that was tried" if blocks[0].is_whole else f"port{'s' * (len(ports) > 1)} {listed(ports)}"
    # What joins them all is at fault: one node that reaches nobody, or one that nobody reaches.
    about = sources if len(sources) < len(targets) else targets
    if back:
        about = (*sources, *targets) if len(sources) == len(targets) else about
        return Said(about, f"{listed(places)} do not reach each other, {what}: {_STATES[state]}")
    verb = "does" if len(sources) == 1 else "do"
    other = "; the other way is open" if all(one.is_open_back for one in blocks) else ""
    return Said(about, f"{listed(sources)} {verb} not reach {listed(places)}, {what}: {_STATES[state]}{other}")


_STATES = {
    Reachability.DROPPED: "nothing comes back, as behind a firewall that drops",
    Reachability.REFUSED: "it is refused, though something listens there, as by a firewall that rejects",
    Reachability.UNREACHABLE: "the system knows no way there",
}
CLOSED = tuple(_STATES)


def stream_lost(view: View) -> Iterator[Said]:
    """Ways that are open, and on which a stream of data broke off."""
    by_target: dict[tuple[str, str, str], list[str]] = {}
    for each in view.found.reaches or ():
        if each.state is Reachability.OPEN and each.why and each.bandwidth_mbit_s is None:
            by_target.setdefault((each.target, each.address, each.why), []).append(each.source)
    for (target, address, why), sources in by_target.items():
        verb = "reaches" if len(sources) == 1 else "reach"
        text = f"{listed(sources)} {verb} {target} at {address}, and {' '.join(why.split())[:200]}"
        yield Said((*dict.fromkeys((*sources, target)),), text)


_IS_SET = (
    "it ran with the variables that are advised, so these are not at fault: see that large packets pass (MTU, and the "
    "ICMP messages that tell of it), and that no firewall closes the ports that Gloo and NCCL choose among all; then "
    "check again"
)


def collective(view: View) -> Iterator[Said]:
    """All-reduces that failed or hung on a rank."""
    advised = {each.node: each.variables for each in view.ways.environments()}
    for each in view.found.collectives or ():
        failed = [rank for rank in each.ranks if rank.state in (RankState.FAILED, RankState.HUNG)]
        if failed:
            more = f"; and {len(failed) - _MAX_RANKS} more" if len(failed) > _MAX_RANKS else ""
            ranks = "; ".join(map(_rank, failed[:_MAX_RANKS]))
            by = BACKENDS.get(each.backend, each.backend)
            text = f"an all-reduce of {each.size_mib:g} MiB by {by} failed: {ranks}{more}"
            is_set = all(advised.get(node, {}).items() <= {**ran}.items() for node, ran in each.environments.items())
            do = _IS_SET if advised and each.environments and is_set else ""
            yield Said(tuple(dict.fromkeys(rank.node for rank in failed)), text, do=do)


def _rank(told: RankOutcome) -> str:
    ended = "hung, and was ended" if told.state is RankState.HUNG else "failed"
    after = "" if told.seconds is None else f" after {told.seconds:.3g} s"
    why = f" ({' '.join(told.said.split())[:200]})" if told.said else ""
    return f"rank {told.rank} on {told.node} {ended}{after}{why}"
