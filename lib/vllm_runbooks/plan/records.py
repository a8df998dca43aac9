"""What a plan says: records that every output of the planner is made of. GiB are 2^30 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vllm_runbooks.core.record_forms import UNPRINTED
from vllm_runbooks.lint.records import CommandRelease


class Find(StrEnum):
    """What can be asked for the other way round."""

    CONTEXT = "context"
    """The longest context."""
    CONCURRENCY = "concurrency"
    """Requests of the whole context at the same time."""
    GPUS = "gpus"
    """The fewest cards, or the smallest."""
    UTILIZATION = "utilization"
    """The lowest share of the card's memory."""


@dataclass(frozen=True)
class PlannedGpu:
    """Cards of one kind on one host."""

    name: str
    count: int
    node: str | None
    total_gib: float | None
    """As the driver reports it, of each."""
    source: str


@dataclass(frozen=True)
class PlannedTerm:
    """One part of a card's memory; all None: not known."""

    name: str
    """"weights", "activation", "encoder", "cuda_graphs", "non_torch", "communication" or "kv_cache"; "adapters" where
    what LoRA takes is not known."""
    low_gib: float | None
    expected_gib: float | None
    high_gib: float | None
    source: str
    """Where the amount comes from; of an unknown one what is missing."""


@dataclass(frozen=True)
class PlannedRank:
    """One card."""

    gpu: str
    rank: int
    """Of all ranks of one replica, from 0."""
    node: str | None
    total_gib: float | None
    available_gib: float | None
    """For the KV cache, as "Available KV cache memory" prints it."""
    fits: bool | None
    terms: tuple[PlannedTerm, ...]
    available_low_gib: float | None = None
    """Of what is available, on the careful side of what is not known to the byte."""
    available_high_gib: float | None = None


@dataclass(frozen=True)
class PlannedCache:
    """The KV cache of one replica: the smallest rank decides."""

    gib: float | None = None
    """Of each card, as the log prints it."""
    low: float | None = None
    """GiB."""
    high: float | None = None
    """GiB."""
    tokens: int | None = None
    """As this release counts them."""
    tokens_low: int | None = None
    tokens_high: int | None = None
    tokens_meaning: str | None = None
    """What they mean: "slots" or "full-length", as in a diagnosis' facts."""
    max_concurrency: float | None = None
    """Requests of `max_model_len` tokens."""
    blocks: int | None = None
    block_tokens: int | None = None
    needed_gib: float | None = None
    """For one request of `max_model_len` tokens, of each card."""
    longest_context: int | None = None
    """Tokens of the longest request that this memory serves, at most what the model takes."""


@dataclass(frozen=True)
class PlanCalibration:
    """Whether, and by what, the plan was corrected."""

    used: bool
    rows: tuple[str, ...] = ()
    """What each correction rests on, a sentence each."""


@dataclass(frozen=True)
class PlannedDeployment:
    """The start that was planned."""

    model: str
    flags: Mapping[str, Any]
    """Argparse destination to value, of what is given explicitly."""
    env: Mapping[str, str | None]
    command: str
    """For a shell, as this release takes it; linted. Of several hosts each host's own, one after the other."""


@dataclass(frozen=True)
class ParallelLayout:
    """How cards are used."""

    replicas: int
    tp: int
    pp: int
    dp: int


@dataclass(frozen=True)
class Speed:
    """What bounds the speed of one answer; an estimate."""

    tokens_per_s: float
    """At most, of one request on one replica, decoding."""
    basis: str
    """How it was estimated, in words."""


@dataclass(frozen=True)
class FindAnswer:
    """The answer to a question asked the other way round."""

    quantity: Find
    value: float | str | None
    """None: there is none, or it is not known."""
    unit: str
    low: float | str | None
    """On the careful side of what is not known to the byte."""
    high: float | str | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One way to run a model: what `plan --format json` prints."""

    model: str
    vllm: CommandRelease
    gpus: tuple[PlannedGpu, ...]
    fits: bool | None
    """None: it depends on what is not known."""
    per_gpu: tuple[PlannedRank, ...]
    kv_cache: PlannedCache
    limits: tuple[str, ...]
    """What decides or limits the start, a sentence each."""
    deployment: PlannedDeployment | None
    calibration: PlanCalibration
    layout: ParallelLayout | None = None
    legal: bool | None = None
    """Of a layout: whether this release starts it."""
    reasons: tuple[str, ...] = ()
    """Why a layout stands where it stands, or is not legal."""
    speed: Speed | None = None
    total_concurrency: float | None = None
    """Of all replicas together, requests of `max_model_len` tokens."""
    found: FindAnswer | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the plan settled that was not given, by argparse destination."""
    missing: tuple[str, ...] = ()
    """What the start depends on and is not known, beside terms of the memory; `limits` says so, too."""
    lint: str = field(default="unknown", metadata=UNPRINTED)
    """What the linter returned for the command: "passed" or "rejected"; "unknown" where it was not asked."""


@dataclass(frozen=True)
class NodeStart:
    """What is done on one node to start its part of a plan."""

    node: str
    address: str | None
    """By which the others reach it; None: by its name, which has to resolve."""
    environment: Mapping[str, str]
    """Its own."""
    files: tuple[str, ...]
    """That belong there, by their names; each way to start it is complete in itself."""


@dataclass(frozen=True)
class StartFiles:
    """A plan as files for each node: what `cluster files --format json` prints."""

    model: str
    vllm: CommandRelease
    layout: ParallelLayout | None
    """None: the sizes were given."""
    fits: bool | None
    joined_by: str
    """"nnodes" or "ray"; empty: every server stays on one host."""
    reason: str
    """Why so, in words."""
    executor: str | None
    """Of a server as it is written: "uni", "mp" or "ray"; None: not known."""
    single_node_result: str
    """What a start on one node would come to that is given the sizes and nothing else, in words; empty: the same."""
    nodes: tuple[NodeStart, ...]
    files: tuple[str, ...]
    """All of them, by their names."""
    steps: tuple[str, ...]
    """What to do, in order, a sentence each."""
    notes: tuple[str, ...] = ()
    """What is not known or was left out, a sentence each."""


@dataclass(frozen=True)
class Layouts:
    """Every way to use the cards, the best first."""

    model: str
    vllm: CommandRelease
    gpus: tuple[PlannedGpu, ...]
    fits: bool | None
    layouts: tuple[Plan, ...]

    @property
    def best(self) -> Plan | None:
        """The best layout that starts; None if none does."""
        return next((plan for plan in self.layouts if plan.legal and plan.fits is not False), None)
