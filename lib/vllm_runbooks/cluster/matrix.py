"""Which node reaches which: every way tried in both directions, with its latency and its bandwidth."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.host.nodes.records import NodeFacts, Reach, Reachability
from vllm_runbooks.host.nodes.ways import dialled

ANY = "any"
"""What a port is for that the system chooses, as in `host.nodes.records.Reach.use`."""
_WAIT_S = 2.5
"""Until what has not answered counts as dropped: a first packet that was lost is sent again after a second."""
_LISTENED_S = 120
"""After which a node waits no longer, whatever becomes of who asked."""
_ANSWERED_S = 20.0
_REACHED_S = 30.0
"""How long attempts that were answered may take to be spoken to, beside the wait."""
_STREAM_S, _STREAMED_S = 0.25, 15.0
_MAX_ADDRESSES = 16
_NEIGHBOURS = 4
"""That a node's bandwidth is measured to: all others, in a small cluster."""


def reaches(carrier: Carrier, nodes: Sequence[NodeFacts], ports: Mapping[str, int]) -> tuple[Reach, ...] | None:
    """Every attempt of every node to reach every other at each of its addresses; None: none could be made.

    Args:
        carrier: Asks the nodes.
        nodes: With the addresses that others try.
        ports: By what each is for; one more is chosen by each node's system.
    """
    names = [node.name for node in nodes]
    tokens = {name: secrets.token_hex(16) for name in names}
    wanted = [*ports.items(), (ANY, 0)]
    told = carrier.ask_all(
        {name: {"do": "listen", "token": tokens[name], "ports": wanted, "for_s": _LISTENED_S} for name in names},
        _ANSWERED_S,
    )
    waiting: dict[str, list[dict[str, Any]]] = {
        name: [] if isinstance(each, UnansweredError) else list(each) for name, each in told.items()
    }
    try:
        plans = {
            name: [one for node in nodes if node.name != name for one in _attempts(node, waiting[node.name])]
            for name in names
        }
        sent = {
            name: [
                {
                    "address": each["address"],
                    "port": each["port"],
                    "token": tokens[each["target"]] if each["is_ours"] else None,
                }
                for each in plan
            ]
            for name, plan in plans.items()
        }
        answers = carrier.ask_all(
            {name: {"do": "reach", "targets": sent[name], "wait_s": _WAIT_S} for name in names}, _WAIT_S + _REACHED_S
        )
        found = [each for node in nodes for each in _judged(node, plans[node.name], answers[node.name])]
        return tuple(_with_bandwidth(carrier, names, found, tokens)) or None
    finally:
        carrier.ask_all({name: {"do": "silence"} for name in names}, _ANSWERED_S)


def _attempts(target: NodeFacts, waiting: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What another node tries, to reach this one."""
    return [
        {"target": target.name, "address": address, **port}
        for address in dialled(target)[:_MAX_ADDRESSES]
        for port in waiting
    ]


def _judged(source: NodeFacts, plan: Sequence[Mapping[str, Any]], answer: Any) -> list[Reach]:
    """What became of a node's attempts."""
    own = {address: each.name for each in source.interfaces or () for address in each.addresses}
    found = []
    for number, each in enumerate(plan):
        told: Mapping[str, Any] = {}
        why = ""
        if isinstance(answer, UnansweredError):
            why = str(answer)
        else:
            told = answer[number]
            why = str(told["why"])
        state = Reachability(told["state"]) if told.get("state") else Reachability.UNKNOWN
        if not each["is_ours"] and each["why"] != "taken":
            state, why = Reachability.UNKNOWN, f"nobody could wait there: {each['why']}"
        elif not each["is_ours"] and state is Reachability.REFUSED:
            # Who listens there may do so at another address alone.
            state, why = Reachability.UNKNOWN, "another process has the port there, and refuses at this address"
        elif each["address"] in own and state is Reachability.UNREACHABLE:
            why = f"{source.name} has this address itself, on {own[each['address']]}"
        found.append(
            Reach(
                source.name,
                each["target"],
                each["address"],
                each["port"],
                each["use"],
                state,
                own.get(told.get("source") or ""),
                told.get("latency_ms"),
                why=redact_text(why)[:300],
            )
        )
    # An address where somebody else answers is somebody else's, for the ports as well at which nobody can be asked.
    foreign = {(one.target, one.address) for one in found if one.use == ANY and one.state is Reachability.UNREACHABLE}
    return [
        replace(one, state=Reachability.UNREACHABLE, why="the address is not the node's own from here")
        if (one.target, one.address) in foreign and one.state in (Reachability.OPEN, Reachability.UNKNOWN)
        else one
        for one in found
    ]


def _with_bandwidth(
    carrier: Carrier, names: Sequence[str], found: Sequence[Reach], tokens: Mapping[str, str]
) -> list[Reach]:
    """The attempts, those at a port that the system chose with the bandwidth where they were open.

    No node sends to two at once, nor takes from two.
    """
    measured = dict[Reach, Reach]()
    for step in range(1, min(len(names), _NEIGHBOURS + 1)):
        ways: dict[str, list[Reach]] = {name: [] for name in names}
        neighbour = {name: names[(number + step) % len(names)] for number, name in enumerate(names)}
        for one in found:
            if one.use == ANY and one.state is Reachability.OPEN and one.target == neighbour[one.source]:
                ways[one.source].append(one)
        for turn in range(max(map(len, ways.values()))):
            now = {name: each[turn] for name, each in ways.items() if len(each) > turn}
            asked = {
                name: {
                    "do": "stream",
                    "address": one.address,
                    "port": one.port,
                    "token": tokens[one.target],
                    "seconds": _STREAM_S,
                }
                for name, one in now.items()
            }
            for name, told in carrier.ask_all(asked, _STREAMED_S).items():
                one = now[name]
                if isinstance(told, UnansweredError):
                    measured[one] = replace(one, why=f"a stream of data did not pass: {redact_text(str(told))}"[:300])
                else:
                    measured[one] = replace(one, bandwidth_mbit_s=float(told["mbit_s"]))
    return [measured.get(one, one) for one in found]
