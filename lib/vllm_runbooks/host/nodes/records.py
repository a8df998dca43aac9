"""Records of several nodes: their facts, reachability, and findings for a server over all of them.

Units are in names as in `core.records`; `None` is unknown. A node is a host, or a container on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.record_forms import AUTHORED
from vllm_runbooks.host.records import Inventory

KIND = "cluster"
NODE_KIND = "node"


@dataclass(frozen=True)
class Interface:
    """A network interface that has an address."""

    name: str
    addresses: tuple[str, ...] = ()
    """IPv4 and IPv6, without their networks' sizes."""
    is_up: bool | None = None
    mtu: int | None = None
    speed_mbit_s: int | None = None


@dataclass(frozen=True)
class FileFacts:
    """A file of a model's folder."""

    name: str
    size: int
    """Bytes."""
    sha256: str | None = None
    """Hash of all content."""
    sampled_sha256: str | None = None
    """Hash of its size and samples, for a file that is too large to be read."""


@dataclass(frozen=True)
class ModelFacts:
    """The model as this node sees it."""

    path: str
    exists: bool
    reason: str = ""
    """Why it cannot be read."""
    files: tuple[FileFacts, ...] = ()
    """By name: the configuration, the index, the tokenizer, the weights."""


@dataclass(frozen=True)
class NodeFacts:
    """One node, as its agent sees it."""

    name: str
    kind: str = NODE_KIND
    inventory: Inventory = field(default_factory=Inventory)
    hostname: str | None = None
    resolves_to: tuple[str, ...] | None = None
    """Addresses that its own host name resolves to."""
    interfaces: tuple[Interface, ...] | None = None
    environment: Mapping[str, str] | None = None
    """Variables for vLLM, NCCL, Gloo and Ray that are set, with secrets replaced."""
    model: ModelFacts | None = None
    clock_offset_s: float | None = None
    """Difference to the clock of the requesting host."""
    clock_error_s: float | None = None
    """Half the round trip."""
    ray: str | None = None
    """Version of Ray."""


@dataclass(frozen=True)
class Unread:
    """A node without an answer."""

    name: str
    reason: str


@dataclass(frozen=True)
class UnreadRemedy:
    """Action for a node that did not answer: a row of `catalog/tables/unread_nodes.yaml`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    words: tuple[str, ...]
    """Any of these is in the reason."""
    do: str


class Reachability(StrEnum):
    """Result of an attempt to reach a port."""

    OPEN = "open"
    REFUSED = "refused"
    DROPPED = "dropped"
    """No answer: a firewall drops the packets, or no host has the address."""
    UNREACHABLE = "unreachable"
    """No route to the address."""
    UNKNOWN = "unknown"
    """Not tested."""


@dataclass(frozen=True)
class NodeConnection:
    """One attempt of one node to reach a port of another, at one of its addresses."""

    source: str
    target: str
    address: str
    port: int
    use: str
    """"ray", "torch", "vllm", or "any" for a port that the system chose."""
    state: Reachability
    interface: str | None = None
    """Interface of the source."""
    latency_ms: float | None = None
    """Median of several round trips."""
    bandwidth_mbit_s: float | None = None
    reason: str = ""
    """Why it is not open, or took no stream of data."""


class RankState(StrEnum):
    """Result of a rank of a collective."""

    DONE = "done"
    FAILED = "failed"
    HUNG = "hung"
    """Ended at the limit."""
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class RankOutcome:
    """Result of a collective on one rank."""

    node: str
    rank: int
    state: RankState
    seconds: float | None = None
    message: str = ""
    """Last message."""


BACKENDS: Mapping[str, str] = {"gloo": "Gloo", "nccl": "NCCL"}


@dataclass(frozen=True)
class Collective:
    """An all-reduce that was run over every node."""

    backend: str
    """One of `BACKENDS`."""
    size_mib: float
    limit_s: float
    ranks: tuple[RankOutcome, ...]
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables that it ran with, by node."""


@dataclass(frozen=True)
class Cluster:
    """Live or recorded nodes at one time."""

    kind: str = KIND
    constructed: bool = False
    """Whether it was written by a person."""
    source: str | None = None
    timestamp: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    method: str | None = None
    """Source of the nodes: "ray", "ssh" or "snapshots"."""
    head: str | None = None
    """Node that others join; None for the first."""
    nodes: tuple[NodeFacts, ...] = ()
    unread: tuple[Unread, ...] = ()
    connections: tuple[NodeConnection, ...] | None = None
    """None if not measured."""
    collectives: tuple[Collective, ...] | None = None
    """None if none was run."""


NodeFinding = RuleFinding


@dataclass(frozen=True)
class Unmeasured:
    """An unknown fact about nodes that matters."""

    fact: str
    nodes: tuple[str, ...]
    reason: str = ""
    """Reason why it is unknown, and the action."""


@dataclass(frozen=True)
class NodeEnvironment:
    """Environment variables of a node for a server over all nodes."""

    node: str
    variables: Mapping[str, str]
    reason: str
    """Reason for them."""


@dataclass(frozen=True)
class Difference:
    """A fact that differs between nodes."""

    fact: str
    values: Mapping[str, str | None]
    """By node; None if unknown."""
    is_significant: bool
    """Whether there is a finding about it."""


@dataclass(frozen=True)
class CheckedCluster(Cluster):
    """Nodes with their meaning: output of `cluster check --format json`."""

    findings: tuple[RuleFinding, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    environments: tuple[NodeEnvironment, ...] = ()
    """None for a node without a known route."""
    differences: tuple[Difference, ...] = ()
    ok: bool | None = None
    """None if nothing was found, and something could not be measured."""


@dataclass(frozen=True)
class NodePart:
    """A node of a suite that runs on several."""

    name: str
    address: str | None = None
    is_used: bool = True
    """Whether it executes runs."""
    is_lost: bool = False
    """Whether it was lost before the end of the suite."""
    reason: str = ""
    """Why it is not used, or lost."""
    cpus: float | None = None
    """CPUs for Ray; a run uses one."""
    facts: Mapping[str, Any] | None = None
    """Release of this tool, key of its catalog, Python, system and GPUs."""
