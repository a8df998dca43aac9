"""Facts of a toolchain that compiles models for edge chips, from `catalog/toolchains/<id>.yaml`.

None means that the source does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.indexes import Index
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored, record

STEPS = ("quantise", "convert", "evaluate", "compile")
"""Steps for a model, in this order."""
KINDS = ("llm", "vlm")
"""A language model, and one with image or video input."""
PHASES = ("decode", "prefill")
"""Use of a compiled length: decoding token by token, and processing a prompt."""
MODALITIES = ("image", "video")
ONE_BY_ONE = 1
"""The length that serves tokens which follow one by one: it is always compiled."""


@dataclass(frozen=True)
class Tool(Authored):
    """A part of the toolchain."""

    name: str
    version: str | None
    says: str
    """Description in one clause."""


@dataclass(frozen=True)
class EdgeStep(Authored):
    """Environment of a step."""

    says: str
    image: str | None = None
    """Repository of its container, without the registry; None if it needs none."""
    vllm: str | None = None
    """Release of vLLM in it; None if it has none or if it is unknown, so that no other release is
    assumed."""
    has_vllm: bool = False
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Python modules that only its container has: a script that imports one belongs to this step."""
    gpu: str | None = None
    """"needed" or "advised"; None if unknown."""
    doubt: str = ""
    """Contradictions and gaps of the source."""


@dataclass(frozen=True)
class EdgeModel(Authored):
    """A model of the toolchain's list."""

    name: str
    """Name in the list, with its organisation if given."""
    kind: str
    """One of `KINDS`."""
    quantise: bool | None
    compile: bool | None
    aliases: tuple[str, ...] = ()
    """Other names of the same weights by the source or the maker."""
    note: str = ""
    hub: str | None = None
    """Hub repository, which may differ from the listed name; None if unknown."""


@dataclass(frozen=True)
class QuantisationCalibration(Authored):
    """Calibration data for quantising."""

    methods: tuple[str, ...]
    samples: int
    """Number of samples in the source."""
    tokens: int
    """Tokens per sample in the source."""
    dataset: str
    dataset_config: str
    split: str
    column: str
    vision: bool
    """Whether the vision part of a model may be quantised."""


@dataclass(frozen=True)
class Evaluation(Authored):
    """Servers and questions of the source's evaluation of the float and the quantised model."""

    datasets: Mapping[str, tuple[str, ...]]
    """By kind of model."""
    ports: tuple[int, int]
    """Ports of the float and of the quantised model."""
    answer_tokens: int
    """Longest answer."""
    sequences: int
    """Concurrent sequences of a server."""
    dtype: str


@dataclass(frozen=True)
class CompileLimits(Authored):
    """Limits and defaults of a compile."""

    remap_entries: int
    """Exact number of entries in a list of dies."""
    dies: tuple[int, ...]
    """Numbers of dies that the source shows or names."""
    kv_cache_tokens: int
    """Default of `max_kv_cache_size`."""
    lengths: tuple[int, ...]
    """Default of `seq_len_list`."""
    dev_count: int
    prefill: Mapping[str, int]
    """By kind of model the length of a prompt's piece in the source's example."""
    max_model_len: int
    """Context in the source's example of a model with images."""
    picture: tuple[int, int]
    """Width and height in pixels there."""
    threads_with_gpu: str
    threads_without_gpu: str
    """Value of COMPILE_THREAD."""


@dataclass(frozen=True)
class HostNeeds(Authored):
    """Requirements of a host before the first step."""

    docker_above: str
    """Docker's release must be newer than this one."""
    driver_shown: str
    """NVIDIA driver in the source's own print-out; not a limit."""
    driver_packaged: str
    """NVIDIA driver that the source installs; not a limit."""
    toolkit: str
    """Package that provides GPUs to containers."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Python packages that must have one version, by name, with the source's reason."""


@dataclass(frozen=True)
class TreeFile(Authored):
    """A file of a step's artefacts."""

    path: str
    """Path below the folder of the dies; `{die}` and `{length}` are each of them, `*` any name from
    the compiler."""
    is_needed: bool = True
    phase: str | None = None
    """One of `PHASES`: present for lengths of this phase; None for every length."""
    lengths: tuple[int, ...] = ()
    """Lengths with this file, as far as known; empty for every length."""
    says: str = ""
    renamed_from: str = ""
    """Name given by the compiler, which the last part of the compile script renames or copies."""
    is_copied: bool = False
    """Whether renaming keeps the original file."""
    may_be_empty: bool = False
    is_float: bool = False
    """Whether it is the float model's file, and may be copied from there."""


@dataclass(frozen=True)
class Length(Authored):
    """Use of a compiled length, from the source's listings."""

    tokens: int
    phases: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointFile(Authored):
    """A file of a checkpoint that a step reads."""

    names: tuple[str, ...]
    """Any one of them will do."""
    kinds: tuple[str, ...] = KINDS
    is_copied: bool = True
    """Whether it is the float model's file, and may be copied from there."""
    is_needed: bool = True
    says: str = ""


@dataclass(frozen=True)
class ToolchainFault(Authored):
    """A problem that the toolchain's own FAQ answers."""

    symptom: str
    """Id in `catalog/symptoms`."""
    step: str
    do: str


@dataclass(frozen=True)
class Toolchain(Authored):
    """One version of a toolchain: `catalog/toolchains/<id>.yaml`."""

    id: str
    name: str
    version: str
    released: str
    source: str
    tools: tuple[Tool, ...]
    steps: Mapping[str, EdgeStep]
    """By name of `STEPS`."""
    models: tuple[EdgeModel, ...]
    suffixes: tuple[str, ...]
    """Allowed suffixes of a listed name, from the source's examples."""
    calibration: QuantisationCalibration
    evaluation: Evaluation
    limits: CompileLimits
    host: HostNeeds
    names: Mapping[str, str]
    """Name templates by subject; the placeholders are settings of a job."""
    lengths: tuple[Length, ...]
    trees: Mapping[str, tuple[TreeFile, ...]]
    """By kind of model, the files below the folder of the dies."""
    checkpoint: tuple[CheckpointFile, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Process-wide settings of a compile script, with the purpose of each."""
    faults: tuple[ToolchainFault, ...] = ()


@dataclass(frozen=True)
class ModelSupport:
    """Entry of a toolchain's list for a model."""

    name: str
    listed: EdgeModel | None
    """None if the list does not have it."""
    quantise: bool | None
    compile: bool | None
    reason: str
    similar: tuple[str, ...] = ()
    """Names of the list that are like it, the nearest first."""


@dataclass(frozen=True)
class ModelSupportReport:
    """Output of `edge10 models --format json`."""

    toolchain: str
    """Id of the facts."""
    source: str
    models: tuple[ModelSupport, ...]


def _decoded(index: Any) -> tuple[Toolchain, ...]:
    if index.get("problems"):
        raise InputError(f"{folders.catalog_dir()}: invalid toolchain: {'; '.join(index['problems'])}")
    toolchains = (record(Toolchain, data) for data in index["toolchains"])
    return tuple(sorted(toolchains, key=lambda toolchain: tuple(map(int, toolchain.version.split(".")))))


TOOLCHAINS = Index(
    "toolchains",
    lambda root: sorted((root / "toolchains").glob("*.yaml")),
    "vllm_runbooks.catalog.authored.toolchain_files:compile_toolchains",
    _decoded,
)
"""Each version of a toolchain, the newest last."""
