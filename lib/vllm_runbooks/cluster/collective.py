"""An all-reduce over all nodes that really runs: a process on each, ended on every one of them at the limit."""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.cluster.carriers import Carrier
from vllm_runbooks.cluster.matrix import ANY
from vllm_runbooks.cluster.wires import UnansweredError, one_line
from vllm_runbooks.host.nodes.records import Cluster, Collective, RankOutcome, RankState, Reachability
from vllm_runbooks.host.nodes.unknowns import ABSENT_RANK
from vllm_runbooks.host.nodes.ways import dial_addresses

_MIB = 4
"""Size of the all-reduce in MiB: many packets, and little memory compared with torch."""
_IMPORTED_S = 90.0
"""Timeout for the import of torch, before the timeout of the collective begins."""
_AFTER_S = 1.5
"""Time for the other ranks to report after one rank has failed."""
_STARTED_S, _READ_S, _ENDED_S = 30.0, 10.0, 20.0
_EVERY_S = 0.1
_MAX_LINE = 1 << 16
"""Bytes of a line of a rank; libraries print other lines."""
_HEEDED = ("GLOO_", "NCCL_", "VLLM_HOST_IP", "MASTER_", "TORCH_")
"""Prefixes of variables that affect a collective."""

Variables = Mapping[str, Mapping[str, str]]


def run(
    carrier: Carrier,
    cluster: Cluster,
    *,
    pythons: Mapping[str, str | None],
    port: int,
    limit_s: float,
    advise: Callable[[Cluster], Variables],
    say: Callable[[str], None],
) -> tuple[Collective, ...] | None:
    """Run an all-reduce in the nodes' environment, and if it fails in the recommended one.

    `pythons` has each node's Python with torch (None for the agent's own). The ranks meet at `port`
    of the head and have `limit_s` seconds once torch is imported. Returns None without an address.
    """
    names = [node.name for node in cluster.nodes]
    head = cluster.head or names[0]
    address = meeting_address(cluster)
    if address is None:
        return None
    environments: Variables = {
        node.name: {k: v for k, v in (node.environment or {}).items() if k.startswith(_HEEDED)}
        for node in cluster.nodes
    }
    has_gpus = all(node.inventory.gpus for node in cluster.nodes)
    done = list[Collective]()
    for backend in ("gloo", "nccl") if has_gpus else ("gloo",):
        all_reduce = _AllReduceRun(
            carrier, [head, *(name for name in names if name != head)], address, port, backend, pythons, limit_s
        )
        say(f"running an all-reduce over {backend}")
        done.append(all_reduce.run({}, environments))
        # A Python without torch has none the second time either.
        if any(rank.state in (RankState.FAILED, RankState.HUNG) for rank in done[-1].ranks):
            variables = advise(replace(cluster, collectives=tuple(done)))
            if any(
                environments[name].get(key) != value for name in names for key, value in variables.get(name, {}).items()
            ):
                say(f"running it again over {backend}, with the recommended environment")
                done.append(all_reduce.run(variables, environments))
    return tuple(done)


def meeting_address(cluster: Cluster) -> str | None:
    """The head's address that every other node reaches, with most open ports and least latency; None if unknown."""
    head = next((node for node in cluster.nodes if node.name == cluster.head), None)
    if head is None:
        return None
    others = {node.name for node in cluster.nodes} - {head.name}

    def rank(address: str) -> tuple[bool, int, float]:
        ways = [
            attempt
            for attempt in cluster.connections or ()
            if attempt.target == head.name and attempt.address == address
        ]
        opened = [attempt for attempt in ways if attempt.state is Reachability.OPEN]
        latencies = [attempt.latency_ms for attempt in opened if attempt.latency_ms is not None]
        reached = {attempt.source for attempt in opened if attempt.use == ANY} == others
        return not reached, -len(opened), statistics.median(latencies) if latencies else 0.0

    return min(dial_addresses(head), key=rank, default=None)


@dataclass(frozen=True)
class _AllReduceRun:
    """An all-reduce over nodes, one rank on each."""

    carrier: Carrier
    ranked: Sequence[str]
    address: str
    port: int
    backend: str
    pythons: Mapping[str, str | None]
    limit_s: float

    def run(self, variables: Variables, environments: Variables) -> Collective:
        """Run it with these additional variables; every rank is killed at the timeout."""
        requests = {
            name: {
                "do": "all_reduce",
                "python": self.pythons.get(name),
                "environment": dict(variables.get(name, {})),
                "limit_s": _IMPORTED_S + self.limit_s,
                "spec": {
                    "rank": rank,
                    "world": len(self.ranked),
                    "address": self.address,
                    "port": self.port,
                    "backend": self.backend,
                    "mib": _MIB,
                    "limit_s": self.limit_s,
                },
            }
            for rank, name in enumerate(self.ranked)
        }
        started = self.carrier.ask_all(requests, _STARTED_S)
        ranks = {name: _Rank(name, number, started[name]) for number, name in enumerate(self.ranked)}
        try:
            self._wait(ranks)
        finally:
            ending = {
                name: {"do": "end", "group": rank.group, "at_once": True, "forget": True}
                for name, rank in ranks.items()
                if rank.group is not None
            }
            self.carrier.ask_all(ending, _ENDED_S)
        return Collective(
            self.backend,
            float(_MIB),
            self.limit_s,
            _outcomes([rank.outcome(self.limit_s) for rank in ranks.values()]),
            {name: {**environments.get(name, {}), **variables.get(name, {})} for name in self.ranked},
        )

    def _wait(self, ranks: Mapping[str, _Rank]) -> None:
        """Look at the ranks until all are through, one has failed and the others had their time, or the limit is up."""
        ends_at = time.monotonic() + _IMPORTED_S
        is_begun = has_failed = False
        while time.monotonic() < ends_at:
            requests = {
                name: {"do": "read", "group": rank.group, "begin": rank.read_to}
                for name, rank in ranks.items()
                if rank.is_open
            }
            for name, answer in self.carrier.ask_all(requests, _READ_S).items():
                ranks[name].take(answer)
            if not any(rank.is_open for rank in ranks.values()):
                return
            now = time.monotonic()
            if not is_begun and all(rank.has_imported or not rank.is_open for rank in ranks.values()):
                is_begun, ends_at = True, now + self.limit_s
            if not has_failed and any(rank.has_failed for rank in ranks.values()):
                has_failed, ends_at = True, min(ends_at, now + _AFTER_S)
            time.sleep(_EVERY_S)


def _outcomes(outcomes: Sequence[RankOutcome]) -> tuple[RankOutcome, ...]:
    """Outcomes of the ranks; if a rank was missing, those that waited for it are not reported."""
    lacking = next((outcome for outcome in outcomes if outcome.state is RankState.NOT_STARTED), None)
    if lacking is None:
        return tuple(outcomes)
    is_told = (RankState.DONE, RankState.NOT_STARTED)
    reason = f"rank {lacking.rank} on {lacking.node} {ABSENT_RANK}"
    return tuple(
        outcome
        if outcome.state in is_told
        else replace(outcome, state=RankState.NOT_STARTED, seconds=None, message=reason)
        for outcome in outcomes
    )


class _Rank:
    def __init__(self, node: str, number: int, started: Any) -> None:
        self._node, self._number = node, number
        self.group: str | None = None
        self.read_to = 0
        self._said: list[dict[str, Any]] = []
        """Messages of the program, as `all_reduce` writes them."""
        self._line = ""
        """Last other line that was printed."""
        self._rest = b""
        self._why = ""
        self._is_over = False
        if isinstance(started, UnansweredError):
            self._why = str(started)
        else:
            self.group = str(started["group"])

    @property
    def is_open(self) -> bool:
        return self.group is not None and not self._is_over

    @property
    def has_imported(self) -> bool:
        return bool(self._said)

    @property
    def has_failed(self) -> bool:
        return not self.is_open and not any(message["state"] == "done" for message in self._said)

    def take(self, answer: Any) -> None:
        if isinstance(answer, UnansweredError):
            self._why, self._is_over = str(answer), True
            return
        raw = base64.b64decode(answer["data"])
        self.read_to = answer["end"]
        if not answer["is_running"] and not raw:
            raw, self._is_over, self._why = b"\n", True, answer["refused"]
        *lines, self._rest = (self._rest + raw).split(b"\n")
        self._rest = self._rest[:_MAX_LINE]
        for line in lines:
            self._hear(line)

    def _hear(self, line: bytes) -> None:
        if line.startswith(b'{"state"'):
            with suppress(ValueError):
                self._said.append(json.loads(line))
        elif line.strip():
            self._line = line.decode("utf-8", "replace")

    def outcome(self, limit_s: float) -> RankOutcome:
        last = self._said[-1] if self._said else {}
        state = last.get("state")
        if state == RankState.DONE:
            return RankOutcome(self._node, self._number, RankState.DONE, float(last["seconds"]))
        if not self.is_open:
            ended = RankState.NOT_STARTED if state in (None, "unable") else RankState.FAILED
            reason = str(last.get("message") or "") or self._why or self._line or "it exited without a message"
            return RankOutcome(self._node, self._number, ended, message=one_line(reason))
        if state is None:
            return RankOutcome(
                self._node, self._number, RankState.NOT_STARTED, message="torch was not imported in time"
            )
        where = "after all ranks had joined" if state == "joined" else "while it waited for the others"
        reason = f"still waiting when it was stopped, {where}; the timeout is {limit_s:g} s"
        return RankOutcome(self._node, self._number, RankState.HUNG, message=reason)
