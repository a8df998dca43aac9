"""Records of a plan, from which all outputs of the planner are made. 1 GiB is 2^30 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vllm_runbooks.core.record_forms import OMIT_NONE, UNPRINTED
from vllm_runbooks.core.records import Edit
from vllm_runbooks.lint.records import CommandRelease


class Find(StrEnum):
    """Targets of an inverse query."""

    CONTEXT = "context"
    """The longest context."""
    CONCURRENCY = "concurrency"
    """Concurrent requests of the full context."""
    GPUS = "gpus"
    """The fewest GPUs, or the smallest."""
    UTILIZATION = "utilization"
    """The lowest share of the GPU's memory."""


@dataclass(frozen=True)
class PlannedGpu:
    """GPUs of one kind on one host."""

    name: str
    count: int
    node: str | None
    total_gib: float | None
    """Memory of each GPU as the driver reports it."""
    source: str
    vendor: str = field(default="nvidia", metadata=UNPRINTED)
    """"nvidia" or "amd"; "cpu" for a NUMA node of a host without GPUs."""


@dataclass(frozen=True)
class PlannedTerm:
    """One term of a GPU's memory; all amounts are None if unknown."""

    name: str
    """"weights", "activation", "encoder", "cuda_graphs", "non_torch", "communication" or
    "kv_cache"; "adapters" or "draft" if the memory of LoRA or of a draft model is unknown."""
    low_gib: float | None
    expected_gib: float | None
    high_gib: float | None
    source: str
    """Source of the amount; for an unknown amount the missing input."""


@dataclass(frozen=True)
class PlannedRank:
    """One GPU."""

    gpu: str
    rank: int
    """Among all ranks of one replica, from 0."""
    node: str | None
    total_gib: float | None
    available_gib: float | None
    """For the KV cache, as "Available KV cache memory" prints it."""
    fits: bool | None
    terms: tuple[PlannedTerm, ...]
    available_low_gib: float | None = None
    """Conservative estimate of the available memory."""
    available_high_gib: float | None = None


@dataclass(frozen=True)
class PlannedCache:
    """The KV cache of one replica: the smallest rank decides."""

    gib: float | None = None
    """Per GPU, as the log prints it."""
    low: float | None = None
    """GiB."""
    high: float | None = None
    """GiB."""
    tokens: int | None = None
    """As this release counts them."""
    tokens_low: int | None = None
    tokens_high: int | None = None
    tokens_meaning: str | None = None
    """Meaning of the tokens: "slots" or "full-length", as in a diagnosis' facts; "none" for a model without a KV
    cache."""
    max_concurrency: float | None = None
    """Requests of `max_model_len` tokens."""
    blocks: int | None = None
    block_tokens: int | None = None
    needed_gib: float | None = None
    """For one request of `max_model_len` tokens, per GPU."""
    longest_context: int | None = None
    """Tokens of the longest request that fits, at most the model's own limit."""
    longest_context_low: int | None = None
    """As `longest_context`, by the conservative estimate."""


@dataclass(frozen=True)
class PlanCalibration:
    """Whether the plan was calibrated, and with what."""

    used: bool
    rows: tuple[str, ...] = ()
    """Source of each correction, a sentence each."""


@dataclass(frozen=True)
class PlannedDeployment:
    """The planned launch."""

    model: str
    flags: Mapping[str, Any]
    """Explicitly given options: argparse destination to value."""
    env: Mapping[str, str | None]
    command: str
    """Shell command in the syntax of this release, linted. For several hosts, one command per
    host."""


@dataclass(frozen=True)
class ParallelLayout:
    """Parallel layout on the GPUs."""

    replicas: int
    tp: int
    pp: int
    dp: int


@dataclass(frozen=True)
class Speed:
    """Estimated bound on the speed of one answer."""

    tokens_per_s: float
    """Upper bound for decoding one request on one replica."""
    basis: str
    """Method of the estimate, as text."""


@dataclass(frozen=True)
class FindAnswer:
    """Answer of an inverse query."""

    quantity: Find
    value: float | str | None
    """None if there is none or it is unknown."""
    unit: str
    low: float | str | None
    """Conservative estimate."""
    high: float | str | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PlanChecks:
    """Results of the checks of a command: "passed", or "unknown"."""

    lint: str
    plan: str


@dataclass(frozen=True)
class PlannedChange:
    """A change with which a model fits: a row of the text's table."""

    title: str
    cost: str
    context: int
    """`max_model_len` with the change."""
    concurrency: float | None
    """Concurrent requests of `concurrency_tokens` tokens, over all replicas."""
    concurrency_tokens: int
    fits: bool | None
    """None if it fits by the expected values, not by the conservative ones."""
    layout: ParallelLayout
    edits: tuple[Edit, ...]
    """Changed options and environment variables other than parallel sizes."""
    checkpoint: str | None
    """Another checkpoint, or its description if the catalog has none."""
    gpus: int | None
    """Number of GPUs, if more are needed."""
    command: str | None
    """None for a checkpoint without a name."""
    checks: PlanChecks


@dataclass(frozen=True)
class RunCommand:
    """The command to run, of the plan or of a change."""

    command: str
    remedy: int | None
    """Number of the change in `remedies`, from 1; None for the plan itself."""
    checks: PlanChecks


@dataclass(frozen=True)
class PlanNote:
    """A note or a next step."""

    kind: str
    """"note" or "next"."""
    text: str
    command: str | None


@dataclass(frozen=True, kw_only=True)
class PlanText:
    """What the text of an answer says; absent from the layouts inside it."""

    verdict: str | None = field(default=None, metadata=OMIT_NONE)
    """"FITS", "FITS AT 48,384" if only a shorter context than the default fits, "DOES NOT FIT" or "UNCERTAIN"."""
    summary: str | None = field(default=None, metadata=OMIT_NONE)
    """Capacity, or the reason."""
    remedies: tuple[PlannedChange, ...] | None = field(default=None, metadata=OMIT_NONE)
    """Changes with which it fits, the cheapest first; none if it fits."""
    run: RunCommand | None = field(default=None, metadata=OMIT_NONE)
    """Absent if nothing can be run as it is."""
    notes: tuple[PlanNote, ...] | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class Plan(PlanText):
    """One layout of a model: output of `plan --format json`."""

    model: str
    vllm: CommandRelease
    gpus: tuple[PlannedGpu, ...]
    fits: bool | None
    """None if it depends on unknown inputs."""
    per_gpu: tuple[PlannedRank, ...]
    kv_cache: PlannedCache
    limits: tuple[str, ...]
    """Reasons for the verdict or limits of the launch, a sentence each."""
    deployment: PlannedDeployment | None
    calibration: PlanCalibration
    layout: ParallelLayout | None = None
    legal: bool | None = None
    """Whether this release accepts the layout; None if the plan is not of a layout."""
    reasons: tuple[str, ...] = ()
    """Reasons for the rank of a layout, or why it is invalid."""
    speed: Speed | None = None
    total_concurrency: float | None = None
    """Requests of `max_model_len` tokens over all replicas."""
    found: FindAnswer | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that the plan settled, by argparse destination."""
    missing: tuple[str, ...] = ()
    """Unknown inputs of the launch, other than memory terms; `limits` reports them too."""
    assumptions: tuple[str, ...] = ()
    """What the plan takes for granted about the checkpoint and the build of vLLM, a sentence each."""
    lint: str = field(default="unknown", metadata=UNPRINTED)
    """Result of the linter for the command: "passed" or "rejected"; "unknown" if it was not
    linted."""


@dataclass(frozen=True)
class NodeStart:
    """Launch files and settings of one node."""

    node: str
    address: str | None
    """Address for the other nodes; None to use its name, which must resolve."""
    environment: Mapping[str, str]
    """Environment variables of the node."""
    files: tuple[str, ...]
    """Names of the files for this node; each launch method is complete in itself."""


@dataclass(frozen=True)
class StartFiles:
    """A plan as files for each node: output of `cluster files --format json`."""

    model: str
    vllm: CommandRelease
    layout: ParallelLayout | None
    """None if the sizes were given."""
    fits: bool | None
    joined_by: str
    """"nnodes" or "ray"; empty: every server stays on one host."""
    reason: str
    """Reason, as text."""
    executor: str | None
    """Executor of a server: "uni", "mp" or "ray"; None if unknown."""
    single_node_result: str
    """Result of a launch on one node with the same sizes and nothing else, as text; empty if the
    same."""
    nodes: tuple[NodeStart, ...]
    files: tuple[str, ...]
    """All of them, by their names."""
    steps: tuple[str, ...]
    """Instructions in order, a sentence each."""
    notes: tuple[str, ...] = ()
    """Unknown or omitted items, a sentence each."""


@dataclass(frozen=True)
class Layouts(PlanText):
    """Every layout on the GPUs, the best first."""

    model: str
    vllm: CommandRelease
    gpus: tuple[PlannedGpu, ...]
    fits: bool | None
    layouts: tuple[Plan, ...]

    @property
    def best(self) -> Plan | None:
        """The best layout that can be launched; None if there is none."""
        return next((plan for plan in self.layouts if plan.legal and plan.fits is not False), None)
