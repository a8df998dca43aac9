"""Measure reachability, latency and bandwidth between nodes, in both directions."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.host.nodes.compared import grouped
from vllm_runbooks.host.nodes.records import NodeConnection, NodeFacts, Reachability
from vllm_runbooks.host.nodes.ways import dial_addresses

ANY = "any"
"""Use of a port that the system chooses, as in `host.nodes.records.NodeConnection.use`."""
_WAIT_S = 2.5
"""Timeout after which a connection counts as dropped: a lost first packet is resent after a
second."""
_LISTENED_S = 120
"""Timeout of a listening node, independent of the caller."""
_ANSWERED_S = 20.0
_REACHED_S = 30.0
"""Timeout for the handshake after a connection, in addition to the wait."""
_STREAM_S, _STREAMED_S = 0.25, 15.0
_MAX_ADDRESSES = 16
_NEIGHBOURS = 4
"""Number of nodes to which a node's bandwidth is measured: all others, in a small cluster."""


def measure_reachability(
    carrier: Carrier, nodes: Sequence[NodeFacts], ports: Mapping[str, int]
) -> tuple[NodeConnection, ...] | None:
    """Have every node try each address of every other, at these ports by use and at one that the system chooses."""
    names = [node.name for node in nodes]
    tokens = {name: secrets.token_hex(16) for name in names}
    uses = [*ports.items(), (ANY, 0)]
    answered = carrier.ask_all(
        {name: {"do": "listen", "token": tokens[name], "ports": uses, "for_s": _LISTENED_S} for name in names},
        _ANSWERED_S,
    )
    waiting: dict[str, list[dict[str, Any]]] = {
        name: [] if isinstance(item, UnansweredError) else list(item) for name, item in answered.items()
    }
    try:
        targets = {
            node.name: [
                {
                    "target": node.name,
                    "address": address,
                    **port,
                    "token": tokens[node.name] if port["is_ours"] else None,
                }
                for address in dial_addresses(node)[:_MAX_ADDRESSES]
                for port in waiting[node.name]
            ]
            for node in nodes
        }
        plans = {name: [item for target in names if target != name for item in targets[target]] for name in names}
        sent = {
            name: [{key: item[key] for key in ("address", "port", "token")} for item in plan]
            for name, plan in plans.items()
        }
        answers = carrier.ask_all(
            {name: {"do": "reach", "targets": sent[name], "wait_s": _WAIT_S} for name in names}, _WAIT_S + _REACHED_S
        )
        attempts = [item for node in nodes for item in _results(node, plans[node.name], answers[node.name])]
        return tuple(_with_bandwidth(carrier, names, attempts, tokens)) or None
    finally:
        carrier.ask_all({name: {"do": "silence"} for name in names}, _ANSWERED_S)


def _results(source: NodeFacts, plan: Sequence[Mapping[str, Any]], answer: Any) -> list[NodeConnection]:
    interfaces = {address: attempt.name for attempt in source.interfaces or () for address in attempt.addresses}
    results = []
    for number, attempt in enumerate(plan):
        outcome: dict[str, Any] = {"why": answer} if isinstance(answer, UnansweredError) else answer[number]
        why = str(outcome["why"])
        state = Reachability(outcome["state"]) if outcome.get("state") else Reachability.UNKNOWN
        if not attempt["is_ours"] and attempt["why"] != "taken":
            state, why = Reachability.UNKNOWN, f"could not listen on it: {attempt['why']}"
        elif not attempt["is_ours"] and state is Reachability.REFUSED:
            # The listening process may use another address only.
            state, why = Reachability.UNKNOWN, "another process uses the port, and rejects connections to this address"
        elif attempt["address"] in interfaces and state is Reachability.UNREACHABLE:
            why = f"{source.name} has the same address, on {interfaces[attempt['address']]}"
        interface = interfaces.get(outcome.get("source") or "")
        ends = (source.name, attempt["target"], attempt["address"], attempt["port"], attempt["use"])
        results.append(
            NodeConnection(*ends, state, interface, outcome.get("latency_ms"), reason=redact_text(why)[:300])
        )
    # An address at which another host answers belongs to that host, also for ports without an
    # answer.
    foreign = {
        (result.target, result.address)
        for result in results
        if result.use == ANY and result.state is Reachability.UNREACHABLE
    }
    return [
        replace(result, state=Reachability.UNREACHABLE, reason="from here, the address belongs to another host")
        if (result.target, result.address) in foreign and result.state in (Reachability.OPEN, Reachability.UNKNOWN)
        else result
        for result in results
    ]


def _with_bandwidth(
    carrier: Carrier, names: Sequence[str], attempts: Sequence[NodeConnection], tokens: Mapping[str, str]
) -> list[NodeConnection]:
    """Measure the bandwidth of open ports that the system chose; no node sends or receives twice at a time."""
    measured = dict[NodeConnection, NodeConnection]()
    for step in range(1, min(len(names), _NEIGHBOURS + 1)):
        neighbour = {name: names[(number + step) % len(names)] for number, name in enumerate(names)}
        ways = grouped(
            (attempt.source, attempt)
            for attempt in attempts
            if (attempt.use, attempt.state, attempt.target) == (ANY, Reachability.OPEN, neighbour[attempt.source])
        )
        for turn in range(max(map(len, ways.values()), default=0)):
            now = {name: turns[turn] for name, turns in ways.items() if len(turns) > turn}
            requests = {
                name: {
                    "do": "stream",
                    "address": attempt.address,
                    "port": attempt.port,
                    "token": tokens[attempt.target],
                    "seconds": _STREAM_S,
                }
                for name, attempt in now.items()
            }
            for name, answer in carrier.ask_all(requests, _STREAMED_S).items():
                attempt = now[name]
                if isinstance(answer, UnansweredError):
                    measured[attempt] = replace(
                        attempt, reason=f"data transfer failed: {redact_text(str(answer))}"[:300]
                    )
                else:
                    measured[attempt] = replace(attempt, bandwidth_mbit_s=float(answer["mbit_s"]))
    return [measured.get(attempt, attempt) for attempt in attempts]
