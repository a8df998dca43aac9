"""Records of a job that takes one model to an edge chip: as it is described, named, and made into files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.toolchains import ONE_BY_ONE
from vllm_runbooks.lint.records import Issue


@dataclass(frozen=True)
class JobCalibration:
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
class JobEvaluation:
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
class EdgeJob:
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
    calibration: JobCalibration | None
    """None: it is quantised already."""
    evaluation: JobEvaluation
    threshold: float | None
    """Largest loss of a score that is taken, a score being between 0 and 1; None: not said."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """By field of the description what was taken, and from where, for what it does not say."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of which programs are made, rising: tokens that follow one by one, and the pieces of a prompt."""
        return (ONE_BY_ONE, *self.prefill)


@dataclass(frozen=True)
class JobProblem:
    """What is wrong with the description of a job."""

    line: int
    """Where it says so, or would."""
    field: str
    """As in `evaluation.ports`; empty: it is about the whole."""
    text: str
    do: str
    is_read: bool = True
    """Whether it can be read and contradicts something; else it cannot be read."""


@dataclass(frozen=True)
class ReadJob:
    """The description of a job as it was read."""

    job: EdgeJob | None
    """None: there are problems."""
    problems: tuple[JobProblem, ...]
    """All of them, by line."""
    doubts: tuple[str, ...] = ()
    """What the facts do not tell, so that nobody knows whether the chip takes it."""


@dataclass(frozen=True)
class FolderName:
    """What the name of a compiled model's folder tells of its settings; None: it does not tell that one."""

    name: str
    kind: str | None
    """Of `KINDS`."""
    model: str
    """The checkpoint that was compiled."""
    context_tokens: int | None = None
    prefill: tuple[int, ...] | None = None
    """Lengths of a prompt's pieces."""
    picture: tuple[int, int] | None = None
    """Width and height in pixels."""
    dies: int | None = None
    modality: str | None = None
    remap: str | None = None
    """Digits of the orders of the dies, that of the vision part first."""
    orders: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """What those digits mean; none: no order of so many."""
    rest: str = ""
    """A word behind all that the template has."""


@dataclass(frozen=True)
class MadeFile:
    """A file that is made for a job."""

    name: str
    step: str
    """Of `STEPS`; empty: it belongs to none of them."""
    description: str
    is_run: bool = False
    """Whether it is a program of the shell."""


@dataclass(frozen=True)
class MadeIssue:
    """What a linter says of a made file."""

    file: str
    issue: Issue


@dataclass(frozen=True)
class MadeJob:
    """What `edge10 make --format json` prints."""

    toolchain: str
    """Id of the facts; empty: the description does not get so far."""
    job: EdgeJob | None
    """None: there are problems, and nothing was made."""
    problems: tuple[JobProblem, ...]
    doubts: tuple[str, ...]
    description: str
    """The file that describes the job, as it was named."""
    folder: str
    files: tuple[MadeFile, ...]
    written: tuple[str, ...] = ()
    """Names of files that were written; the others were as they are already."""
    removed: tuple[str, ...] = ()
    """Names of files of an earlier making that this job has not."""
    issues: tuple[MadeIssue, ...] = ()
    """Of the made files, by the linters that judge what a user writes."""
    quantised_folder: str = ""
    converted_folder: str = ""
    compiled_folder: str = ""
    """The folder of the compiled model, below the job's."""
    dies_folder: str = ""
    """The folder below that."""
    memory: str = ""
    """What the planner says of the two servers; empty: no cards were named, or the model is unknown to it."""
