"""Measure a cluster: node facts, every connection in both directions, and an all-reduce.

Facts without a measurement stay unknown. Everything has a timeout, on every node.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.cluster import collective, matrix
from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.wires import UnansweredError
from vllm_runbooks.core import moments
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_record
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.host import nodes as clusters
from vllm_runbooks.host.nodes.records import Cluster, NodeFacts, Unread

PORTS = {"ray": 6379, "torch": 29501, "vllm": 8000}
"""Default ports by use: Ray's head (`ray start --port`), torch's rendezvous (vLLM's --master-port),
and the server (--port)."""
LIMIT_S = 6.0
"""Default timeout of the collective on every rank."""
OTHER_VERSION = "its agent has a different version; install the same version on all nodes"
_ASKED_S = 90.0
_CLOCKED_S = 10.0
_ROUNDS = 5


def measure(
    carrier: Carrier,
    *,
    model: str | None = None,
    pythons: Mapping[str, str] | None = None,
    ports: Mapping[str, int] = PORTS,
    is_collective_run: bool = True,
    limit_s: float = LIMIT_S,
    on_facts: Callable[[Cluster], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """Collect facts from the nodes of a carrier and measure between them.

    Args:
        carrier: Carries requests to its nodes.
        model: A folder, or a name on the Hub, to look for on every node.
        pythons: By node, the Python that vLLM runs with, if it differs from the carrier's.
        ports: Ports to test, by use; the collective uses "torch".
        is_collective_run: Whether to run an all-reduce.
        limit_s: Timeout of the all-reduce, once torch is imported.
        on_facts: Receives the nodes before measurements, and may reject them.
        say: Reports progress.
    """
    named = {node: (pythons or {}).get(node) or carrier.python(node) for node in carrier.nodes()}
    lacking = f"; {len(carrier.unread)} could not be reached" if carrier.unread else ""
    say(f"collecting facts from {count_of(len(named), 'node')}{lacking}")
    nodes, unread = _facts(carrier, model, named)
    names = [node.name for node in nodes]
    cluster = Cluster(
        source="measured",
        timestamp=moments.now(),
        method=carrier.by,
        head=carrier.head if carrier.head in names else next(iter(names), None),
        nodes=tuple(nodes),
        unread=(*carrier.unread, *unread),
    )
    on_facts(cluster)
    if len(nodes) > 1:
        say("testing all connections between them")
        cluster = replace(cluster, connections=matrix.measure_reachability(carrier, nodes, ports))
        if is_collective_run:
            ran = collective.run(
                carrier, cluster, pythons=named, port=ports["torch"], limit_s=limit_s, advise=advised, say=say
            )
            cluster = replace(cluster, collectives=ran)
    return redact_record(cluster)


def advised(cluster: Cluster) -> dict[str, Mapping[str, str]]:
    """Recommended variables by node, from the measurements."""
    environments = clusters.check(cluster, catalog.specs()).environments
    return {environment.node: environment.variables for environment in environments}


def _facts(
    carrier: Carrier, model: str | None, pythons: Mapping[str, str | None]
) -> tuple[list[NodeFacts], list[Unread]]:
    salt = secrets.token_hex(16)
    requests = {node: {"do": "facts", "model": model, "python": pythons[node], "salt": salt} for node in pythons}
    nodes, unread = [], []
    for node, answer in carrier.ask_all(requests, _ASKED_S).items():
        if isinstance(answer, UnansweredError):
            unread.append(Unread(node, str(answer)))
            continue
        try:
            facts = record(NodeFacts, answer)
        except (KeyError, TypeError, ValueError):
            unread.append(Unread(node, OTHER_VERSION))
            continue
        offset, error = _clock(carrier, node)
        nodes.append(replace(facts, clock_offset_s=offset, clock_error_s=error))
    return nodes, unread


def _clock(carrier: Carrier, node: str) -> tuple[float | None, float | None]:
    """A node's clock less ours, by the quickest of some answers, and half the time that one took."""
    tried = []
    for _ in range(_ROUNDS):
        begun, at = time.perf_counter(), time.time()
        try:
            remote_time = float(carrier.ask(node, {"do": "clock"}, _CLOCKED_S)["now_s"])
        except UnansweredError:
            break
        took = time.perf_counter() - begun
        tried.append((took, remote_time - (at + took / 2)))
    if not tried:
        return None, None
    took, offset = min(tried)
    return offset, took / 2
