"""Records of several nodes: what each of them is, which reaches which, and what a server over all of them would meet.

Units stand in names as in `core.records`; `None` means that nobody could tell, or that it was not asked for. A node is
a host, or a container on one, with a name that is its own within the cluster.
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
"""What a recorded cluster calls itself."""
NODE_KIND = "node"
"""What a recorded node calls itself."""


@dataclass(frozen=True)
class Interface:
    """A network interface that has an address."""

    name: str
    addresses: tuple[str, ...] = ()
    """IPv4 and IPv6, without their networks' sizes."""
    is_up: bool | None = None
    mtu: int | None = None
    speed_mbit_s: int | None = None
    """As the driver tells; unknown of what is virtual."""


@dataclass(frozen=True)
class FileFacts:
    """A file of a model's folder."""

    name: str
    size: int
    """Bytes."""
    sha256: str | None = None
    """Of all of it."""
    sampled_sha256: str | None = None
    """Of its size, its ends and pieces between, for what is too large to be read: equal where the files are."""


@dataclass(frozen=True)
class ModelFacts:
    """The model as this node sees it."""

    path: str
    is_there: bool
    why: str = ""
    """Why it cannot be read."""
    files: tuple[FileFacts, ...] = ()
    """By name: the configuration, the index, the tokenizer, the weights."""


@dataclass(frozen=True)
class NodeFacts:
    """One node, as a process of ours on it sees it."""

    name: str
    kind: str = NODE_KIND
    inventory: Inventory = field(default_factory=Inventory)
    hostname: str | None = None
    resolves_to: tuple[str, ...] | None = None
    """Addresses that its own host name stands for, there."""
    interfaces: tuple[Interface, ...] | None = None
    environment: Mapping[str, str] | None = None
    """Of the variables that vLLM, NCCL, Gloo and Ray heed, those that are set; secrets replaced."""
    model: ModelFacts | None = None
    clock_offset_s: float | None = None
    """Its clock less that of the host that asked."""
    clock_error_s: float | None = None
    """Half the time that question and answer took: the offset is no better known."""
    ray: str | None = None
    """Version, where one is installed."""


@dataclass(frozen=True)
class Unread:
    """A node that could not be asked."""

    name: str
    why: str


@dataclass(frozen=True)
class UnreadRemedy:
    """What to do about a node that could not be asked: a row of `catalog/tables/unread_nodes.yaml`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    words: tuple[str, ...]
    """Any of these is in the reason."""
    do: str


class Reachability(StrEnum):
    """What became of an attempt to reach a port."""

    OPEN = "open"
    REFUSED = "refused"
    DROPPED = "dropped"
    """Nothing came back: a firewall swallows it, or the address is nobody's."""
    UNREACHABLE = "unreachable"
    """The system knows no way to the address."""
    UNKNOWN = "unknown"
    """It could not be tried."""


@dataclass(frozen=True)
class Reach:
    """One attempt of one node to reach a port of another, at one of its addresses."""

    source: str
    target: str
    address: str
    port: int
    use: str
    """What the port is for: "ray", "torch", "vllm", "any" for one the system chose."""
    state: Reachability
    interface: str | None = None
    """Of the source, from which it went."""
    latency_ms: float | None = None
    """Median of several round trips."""
    bandwidth_mbit_s: float | None = None
    why: str = ""
    """In the system's words, where it was not open, or was and took no stream of data."""


class RankState(StrEnum):
    """How a rank of a collective ended."""

    DONE = "done"
    FAILED = "failed"
    HUNG = "hung"
    """It was ended at the limit."""
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class RankOutcome:
    """How a collective went on one rank."""

    node: str
    rank: int
    state: RankState
    seconds: float | None = None
    said: str = ""
    """The line that says why."""


BACKENDS: Mapping[str, str] = {"gloo": "Gloo", "nccl": "NCCL"}
"""By what a collective runs: as torch calls it, and as people do."""


@dataclass(frozen=True)
class Collective:
    """An all-reduce over every node that was really run."""

    backend: str
    """Of `BACKENDS`."""
    size_mib: float
    limit_s: float
    ranks: tuple[RankOutcome, ...]
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By node, the variables that it ran with."""


@dataclass(frozen=True)
class Cluster:
    """Nodes at one time, as they were asked or as it was written down."""

    kind: str = KIND
    constructed: bool = False
    """Whether it was written down from what somebody told."""
    source: str | None = None
    taken: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    by: str | None = None
    """How the nodes were asked: "ray", "ssh" or "snapshots"."""
    head: str | None = None
    """Name of the node that others join; None: the first."""
    nodes: tuple[NodeFacts, ...] = ()
    unread: tuple[Unread, ...] = ()
    reaches: tuple[Reach, ...] | None = None
    """None: not measured."""
    collectives: tuple[Collective, ...] | None = None
    """None: none was run."""


NodeFinding = RuleFinding


@dataclass(frozen=True)
class Unmeasured:
    """Something that would mean something, and that is not known of these nodes."""

    what: str
    nodes: tuple[str, ...]
    why: str = ""
    """Why it is not known, and what to do; empty: it was not asked for, or nobody told."""


@dataclass(frozen=True)
class NodeEnvironment:
    """What a node needs in its environment for a server over all of them."""

    node: str
    variables: Mapping[str, str]
    why: str
    """What they were taken from."""


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on all nodes."""

    what: str
    values: Mapping[str, str | None]
    """By node; None: unknown there."""
    matters: bool
    """Whether a finding is about it."""


@dataclass(frozen=True)
class CheckedCluster(Cluster):
    """Nodes with what they mean: what `cluster check --format json` prints."""

    findings: tuple[RuleFinding, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    environments: tuple[NodeEnvironment, ...] = ()
    """By node; none for one whose way to the others is not known."""
    differences: tuple[Difference, ...] = ()
    ok: bool | None = None
    """Whether nothing stands in the way of a start; None: nothing was found, and something could not be measured."""


@dataclass(frozen=True)
class NodePart:
    """A node's part in a suite that was spread over several."""

    name: str
    address: str | None = None
    is_used: bool = True
    """Whether runs were handed to it."""
    is_lost: bool = False
    """Whether it was gone before the suite had ended, or is missing from the cluster."""
    why: str = ""
    """Why it is not used, or lost."""
    cpus: float | None = None
    """That Ray may use there; a run takes one."""
    facts: Mapping[str, Any] | None = None
    """What it is: release of this tool, key of its catalog, Python, system, cards; None: it could not be asked."""
