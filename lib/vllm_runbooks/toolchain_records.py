"""A toolchain that compiles models for edge chips: its facts as the catalog has them, jobs, and what is found.

The facts of one version are `catalog/toolchains/<id>.yaml`; `None` is what its source does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from vllm_runbooks.record_forms import AUTHORED
from vllm_runbooks.records import Severity

STEPS = ("quantise", "convert", "evaluate", "compile")
"""What is done with a model, in this order."""
KINDS = ("llm", "vlm")
"""A language model, and one that takes pictures or videos as well."""
PHASES = ("decode", "prefill")
"""What a compiled length serves: tokens that follow one by one, and a prompt's that come together."""
MODALITIES = ("image", "video")
ONE_BY_ONE = 1
"""The length that serves tokens which follow one by one: it is always compiled."""


# ---- what is authored: catalog/toolchains/*.yaml


@dataclass(frozen=True)
class Tool:
    """A part of the toolchain."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    name: str
    version: str | None
    says: str
    """What it does, in one clause."""


@dataclass(frozen=True)
class EdgeStep:
    """What a step runs in."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
class EdgeModel:
    """A model of the toolchain's list."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    name: str
    """As the list has it, with its organisation where it names one."""
    kind: str
    """Of `KINDS`."""
    quantise: bool | None
    compile: bool | None
    aliases: tuple[str, ...] = ()
    """Names by which the source, or its maker, calls the same weights."""
    note: str = ""


@dataclass(frozen=True)
class Calibration:
    """What quantising is fed with."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
class CompileLimits:
    """Sizes that a compile takes."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
class HostNeeds:
    """What a host needs before the first step."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
class TreeFile:
    """A file of a step's artefacts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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


@dataclass(frozen=True)
class Length:
    """What a compiled length serves, as the source's listings show it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    tokens: int
    phases: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointFile:
    """A file of a checkpoint that a step reads."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    names: tuple[str, ...]
    """Any one of them will do."""
    kinds: tuple[str, ...] = KINDS
    is_copied: bool = True
    """Whether it is that of the float model, and may be copied from there."""
    is_needed: bool = True
    says: str = ""


@dataclass(frozen=True)
class Fault:
    """What the toolchain's own list of questions answers."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    symptom: str
    """Id in `catalog/symptoms`."""
    step: str
    do: str


@dataclass(frozen=True)
class Toolchain:
    """One version of a toolchain: what `catalog/toolchains/<id>.yaml` holds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
    calibration: Calibration
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
    faults: tuple[Fault, ...] = ()


# ---- a job: one model on its way to the chip


@dataclass(frozen=True)
class CalibrationAsked:
    """What a job's quantising is fed with."""

    method: str
    samples: int
    tokens: int
    """Of one sample."""
    dataset: str
    """Name on the Hub, or a folder."""
    dataset_config: str
    """Which part of the data set; empty: it has no parts."""
    split: str
    column: str


@dataclass(frozen=True)
class EvaluationAsked:
    """How the float and the quantised model of a job are served and asked."""

    datasets: tuple[str, ...]
    float_port: int
    quantised_port: int
    float_name: str
    """Under which the float model is served, and asked."""
    quantised_name: str
    limit: int | None
    """Questions of each data set's parts; None: all."""
    seed: int
    answer_tokens: int
    """Longest answer."""
    cards: int
    """Of each of the two servers: its tensor parallel size."""


@dataclass(frozen=True)
class Job:
    """One model's way to the chip, as its small YAML description has it; what that leaves out comes from the facts."""

    toolchain: str
    """Id of the facts."""
    model: str
    """As given: its name on the Hub, or its folder."""
    listed: str
    """Name in the toolchain's list."""
    kind: str
    """Of `KINDS`."""
    quantised: str | None
    """A checkpoint that is quantised already; None: quantising and converting are steps of the job."""
    dies: int
    vision_remap: tuple[int, ...]
    """The dies in their order, filled with zeros to the entries that the toolchain takes; empty without pictures."""
    language_remap: tuple[int, ...]
    context_tokens: int
    """Longest sequence that is served while evaluating, and that a model with pictures is compiled for."""
    prefill: tuple[int, ...]
    """Lengths of a prompt's pieces that are compiled, rising."""
    kv_cache_tokens: int | None
    """Longest sequence that a language model is compiled for; None: of a model with pictures it is the context."""
    embedding_as_input: bool
    """Whether the host computes the embedding of a language model."""
    modality: str | None
    """Of `MODALITIES`; None: no pictures."""
    picture: tuple[int, int] | None
    """Width and height in pixels; None: no pictures."""
    gpu: bool
    """Whether the host that quantises and compiles has one."""
    calibration: CalibrationAsked | None
    """None: it is quantised already."""
    evaluation: EvaluationAsked
    threshold: float | None
    """Largest loss of a score that is taken, a score being between 0 and 1; None: not said."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """By field of the description what was taken, and from where, for what it does not say."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of which programs are made, rising: tokens that follow one by one, and the pieces of a prompt."""
        return (ONE_BY_ONE, *self.prefill)


# ---- what is found


@dataclass(frozen=True)
class ToolchainFinding:
    """What is wrong with a host, a checkpoint or a compiled tree, and what to do about it."""

    id: str
    severity: Severity
    path: str | None
    """The file or folder that it is about, relative to the one that was looked at; None: it is about no file."""
    text: str
    effect: str
    do: str
    source: str
    symptom: str = ""
    """Id of the symptom by which a log would show it; empty: none is known."""


@dataclass(frozen=True)
class AskedModel:
    """What a toolchain's list says of a model."""

    name: str
    listed: EdgeModel | None
    """None: the list does not have it."""
    quantise: bool | None
    compile: bool | None
    why: str
    near: tuple[str, ...] = ()
    """Names of the list that are like it, the nearest first."""


@dataclass(frozen=True)
class AskedModels:
    """What `edge10 models --format json` prints."""

    toolchain: str
    """Id of the facts."""
    source: str
    models: tuple[AskedModel, ...]


# ---- accuracy: what evaluations told of the float model and of the quantised one


class Accuracy(StrEnum):
    """Whether quantising cost accuracy."""

    LOST = "lost"
    """The loss is more than the threshold, and no chance."""
    KEPT = "kept"
    """The loss is less than the threshold, as sure as was asked for."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Doubt:
    """What a reader must know before relying on a comparison."""

    id: str
    text: str
    do: str


@dataclass(frozen=True)
class AnsweredQuestion:
    """What a model's answer to one question was worth."""

    value: float
    """The mean over its answers, where it was asked several times."""
    asked: str
    """Digest of the question as the model got it; empty: it is not told."""


@dataclass(frozen=True)
class EvaluationScore:
    """A score of a data set, or of one of its subsets."""

    dataset: str
    subset: str | None
    """None: the whole data set."""
    metric: str
    """Our one name for what releases of the tools call differently, as `accuracy`."""
    value: float | None
    """A share of 1 where it is one; None: it is no number."""
    questions: int | None = None
    right: tuple[int, int] | None = None
    """The fewest and the most right answers that a rounded score stands for; None: it is no share of right ones."""
    is_share: bool | None = None
    """Whether it is a share of questions answered rightly; None: it is not told."""
    higher_is_better: bool | None = None
    is_primary: bool | None = None
    """Whether it is the one that the data set is judged by; None: it is not told."""
    answers: Mapping[str, AnsweredQuestion] | None = None
    """By question; None: only the score is there."""


@dataclass(frozen=True)
class EvaluationResults:
    """What one model's evaluation told."""

    model: str
    kind: str
    """Whose results they are, as `EvalScope report`."""
    scores: tuple[EvaluationScore, ...]
    doubts: tuple[Doubt, ...] = ()
    temperature: float | None = None
    """With which answers were sampled; None: it is not told."""
    repeats: int | None = None
    """How often each question was asked; None: it is not told."""


@dataclass(frozen=True)
class AccuracyInterval:
    """Where the difference lies, with the confidence that was asked for."""

    low: float
    high: float


@dataclass(frozen=True)
class PairedCounts:
    """Questions that both models answered, by who was right."""

    both: int
    float_alone: int
    quantised_alone: int
    neither: int


@dataclass(frozen=True)
class JudgedScore:
    """One score of both models, and what its difference means."""

    dataset: str | None
    """None: all data sets together."""
    subset: str | None
    metric: str
    is_deciding: bool
    """Whether the verdict on the whole rests on it."""
    float_score: float | None
    quantised_score: float | None
    questions: int | None
    """That both answered where they were compared one by one, else the larger number of the two."""
    paired: bool
    """Whether the answers were compared question by question."""
    verdict: Accuracy
    why: str
    difference: float | None = None
    """Quantised less float."""
    interval: AccuracyInterval | None = None
    widest: AccuracyInterval | None = None
    """The same with what rounding and questions that only one of them answered may hide; the verdict rests on it."""
    confidence: float | None = None
    """Of the interval; of several subsets it is higher, so that all of them hold together with what was asked for."""
    method: str = ""
    counts: PairedCounts | None = None
    p_value: float | None = None
    """Of McNemar's exact test, two-sided."""
    is_real_loss: bool | None = None
    """Whether the interval lies on the side of the loss alone."""
    higher_is_better: bool | None = None
    needed_questions: int | None = None
    """About how many questions would tell, if the difference stays as it is; None: it is known, or no number would."""


@dataclass(frozen=True)
class JudgedAccuracy:
    """What `edge10 judge --format json` prints: float against quantised."""

    verdict: Accuracy
    why: str
    float_model: str
    float_kind: str
    quantised_model: str
    quantised_kind: str
    threshold: float
    """A loss beyond it is too much, in shares of 1."""
    confidence: float
    scores: tuple[JudgedScore, ...]
    doubts: tuple[Doubt, ...]
    not_compared: tuple[str, ...]
    """What only one of them tells."""
