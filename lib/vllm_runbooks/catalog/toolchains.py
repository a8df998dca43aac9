"""The facts of a toolchain that compiles models for edge chips, from `catalog/toolchains/<id>.yaml`.

None means that the source does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.core.record_forms import Authored

STEPS = ("quantise", "convert", "evaluate", "compile")
"""What is done with a model, in this order."""
KINDS = ("llm", "vlm")
"""A language model, and one that takes pictures or videos as well."""
PHASES = ("decode", "prefill")
"""What a compiled length serves: tokens that follow one by one, and a prompt's that come together."""
MODALITIES = ("image", "video")
ONE_BY_ONE = 1
"""The length that serves tokens which follow one by one: it is always compiled."""


@dataclass(frozen=True)
class Tool(Authored):
    """A part of the toolchain."""

    name: str
    version: str | None
    says: str
    """What it does, in one clause."""


@dataclass(frozen=True)
class EdgeStep(Authored):
    """What a step runs in."""

    says: str
    image: str | None = None
    """Repository of its container, without the registry; None: it needs none."""
    vllm: str | None = None
    """Release of vLLM there; None: it has none, or its release is not told, so that nothing is judged by another's."""
    has_vllm: bool = False
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    """Python modules that only its container has: a script that imports one belongs to this step."""
    gpu: str | None = None
    """"needed" or "advised"; None: it is not told."""
    doubt: str = ""
    """What the source contradicts itself in, or leaves open."""


@dataclass(frozen=True)
class EdgeModel(Authored):
    """A model of the toolchain's list."""

    name: str
    """As the list has it, with its organisation where it names one."""
    kind: str
    """Of `KINDS`."""
    quantise: bool | None
    compile: bool | None
    aliases: tuple[str, ...] = ()
    """Names by which the source, or its maker, calls the same weights."""
    note: str = ""
    hub: str | None = None
    """Its repository on the Hub, which the listed name need not be; None: not known."""


@dataclass(frozen=True)
class QuantisationCalibration(Authored):
    """What quantising is fed with."""

    methods: tuple[str, ...]
    samples: int
    """As the source sets it."""
    tokens: int
    """Of one sample, as the source sets it."""
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
    """Of the float and of the quantised model."""
    answer_tokens: int
    """Longest answer."""
    sequences: int
    """That a server works on at once."""
    dtype: str


@dataclass(frozen=True)
class CompileLimits(Authored):
    """Limits and defaults of a compile."""

    remap_entries: int
    """Exactly so many entries a list of dies has."""
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
    """Context in the source's example of a model with pictures."""
    picture: tuple[int, int]
    """Width and height in pixels there."""
    threads_with_gpu: str
    threads_without_gpu: str
    """Value of COMPILE_THREAD."""


@dataclass(frozen=True)
class HostNeeds(Authored):
    """What a host needs before the first step."""

    docker_above: str
    """Docker's release must be newer than this one."""
    driver_shown: str
    """Of NVIDIA, in the source's own print-out: no limit."""
    driver_packaged: str
    """Of NVIDIA, that the source has installed: no limit either."""
    toolkit: str
    """Package that gives containers the cards."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Python packages that must have one version, by name, and why the source says so."""


@dataclass(frozen=True)
class TreeFile(Authored):
    """A file of a step's artefacts."""

    path: str
    """Below the folder of the dies; `{die}` and `{length}` stand for each of them, `*` for what the compiler names."""
    is_needed: bool = True
    phase: str | None = None
    """Of `PHASES`: it is there for lengths that serve it; None: for every length."""
    lengths: tuple[int, ...] = ()
    """Lengths that it is known of; empty: every length."""
    says: str = ""
    renamed_from: str = ""
    """What the compiler names it, and the last part of the compile script renames or copies."""
    is_copied: bool = False
    """Whether renaming leaves the former file where it was."""
    may_be_empty: bool = False
    is_float: bool = False
    """Whether it is the float model's own, and may be copied from there."""


@dataclass(frozen=True)
class Length(Authored):
    """What a compiled length serves, as the source's listings show it."""

    tokens: int
    phases: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointFile(Authored):
    """A file of a checkpoint that a step reads."""

    names: tuple[str, ...]
    """Any one of them will do."""
    kinds: tuple[str, ...] = KINDS
    is_copied: bool = True
    """Whether it is that of the float model, and may be copied from there."""
    is_needed: bool = True
    says: str = ""


@dataclass(frozen=True)
class ToolchainFault(Authored):
    """What the toolchain's own list of questions answers."""

    symptom: str
    """Id in `catalog/symptoms`."""
    step: str
    do: str


@dataclass(frozen=True)
class ScriptPart(Authored):
    """Something that the source's compile script has, so that its run writes programs for the chip."""

    kind: str
    """Of `KINDS`: in the script for such models."""
    form: str
    """Of `SCRIPT_FORMS`."""
    name: str
    value: str | None = None
    """As Python prints it, where it is the same for every job; None: it is the job's own."""
    is_needed: bool = False
    """Whether what is run without it is no compile, as the source says; else what holds without it is not told."""
    says: str = ""
    """What it is for, in one clause."""


SCRIPT_FORMS = ("call", "mode", "patch", "argument", "variable")
"""A function that is called, a mode that is set, a method that is replaced, an argument of the engine, a variable."""


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
    """What may stand behind a listed name and is the same model to the list, as the source's own examples use it."""
    calibration: QuantisationCalibration
    evaluation: Evaluation
    limits: CompileLimits
    host: HostNeeds
    names: Mapping[str, str]
    """Templates of names by what they name; the holes are settings of a job."""
    lengths: tuple[Length, ...]
    trees: Mapping[str, tuple[TreeFile, ...]]
    """By kind of model, the files below the folder of the dies."""
    checkpoint: tuple[CheckpointFile, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Process-wide settings that a compile script makes, and what each is for."""
    script: tuple[ScriptPart, ...] = ()
    faults: tuple[ToolchainFault, ...] = ()


@dataclass(frozen=True)
class ModelSupport:
    """Entry of a toolchain's list for a model."""

    name: str
    listed: EdgeModel | None
    """None: the list does not have it."""
    quantise: bool | None
    compile: bool | None
    reason: str
    similar: tuple[str, ...] = ()
    """Names of the list that are like it, the nearest first."""


@dataclass(frozen=True)
class ModelSupportReport:
    """What `edge10 models --format json` prints."""

    toolchain: str
    """Id of the facts."""
    source: str
    models: tuple[ModelSupport, ...]
