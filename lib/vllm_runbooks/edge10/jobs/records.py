"""Records of a job that takes one model to an edge chip: description, names and generated files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.toolchains import ONE_BY_ONE
from vllm_runbooks.lint.records import Issue


@dataclass(frozen=True)
class JobCalibration:
    """Calibration data of a job's quantising."""

    method: str
    samples: int
    tokens: int
    """Tokens per sample."""
    dataset: str
    """Name on the Hub, or a folder."""
    dataset_config: str
    """Configuration of the data set; empty if it has none."""
    split: str
    column: str


@dataclass(frozen=True)
class JobEvaluation:
    """Servers and requests for the evaluation of a job's float and quantised model."""

    datasets: tuple[str, ...]
    float_port: int
    quantised_port: int
    float_name: str
    """Name of the served float model, also in requests."""
    quantised_name: str
    limit: int | None
    """Maximum number of questions per part of a data set; None for all."""
    seed: int
    answer_tokens: int
    """Longest answer."""
    cards: int
    """GPUs per server: its tensor parallel size."""


@dataclass(frozen=True)
class EdgeJob:
    """A model's job for the chip, from its small YAML description; defaults come from the facts."""

    toolchain: str
    """Id of the facts."""
    model: str
    """Name on the Hub, or folder, as given."""
    listed: str
    """Name in the toolchain's list."""
    kind: str
    """One of `KINDS`."""
    quantised: str | None
    """An already quantised checkpoint; None if the job quantises and converts."""
    dies: int
    vision_remap: tuple[int, ...]
    """Dies in order, padded with zeros to the toolchain's number of entries; empty without
    images."""
    language_remap: tuple[int, ...]
    context_tokens: int
    """Longest sequence while evaluating, for which a model with images is also compiled."""
    prefill: tuple[int, ...]
    """Lengths of a prompt's pieces that are compiled, rising."""
    kv_cache_tokens: int | None
    """Longest sequence that a language model is compiled for; None for models with images, which
    use the context."""
    embedding_as_input: bool
    """Whether the host computes the embedding of a language model."""
    modality: str | None
    """One of `MODALITIES`; None without images."""
    picture: tuple[int, int] | None
    """Width and height in pixels; None without images."""
    gpu: bool
    """Whether the host that quantises and compiles has one."""
    calibration: JobCalibration | None
    """None if the model is already quantised."""
    evaluation: JobEvaluation
    threshold: float | None
    """Largest accepted loss of a score between 0 and 1; None if not given."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Defaults with their source, by field of the description."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Ascending lengths of the compiled programs: decoding lengths, and chunks of a prompt."""
        return (ONE_BY_ONE, *self.prefill)


@dataclass(frozen=True)
class JobProblem:
    """A problem in the description of a job."""

    line: int
    """Line of the field, or where it would be."""
    field: str
    """Field such as `evaluation.ports`; empty for the whole description."""
    text: str
    do: str
    is_read: bool = True
    """Whether it can be read and contradicts something; else it cannot be read."""


@dataclass(frozen=True)
class ReadJob:
    """The description of a job as it was read."""

    job: EdgeJob | None
    """None if there are problems."""
    problems: tuple[JobProblem, ...]
    """All of them, by line."""
    doubts: tuple[str, ...] = ()
    """Unknown facts, so that it is uncertain whether the chip supports the job."""


@dataclass(frozen=True)
class FolderName:
    """Settings in the name of a compiled model's folder; None for those that it lacks."""

    name: str
    kind: str | None
    """One of `KINDS`."""
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
    """Meanings of those digits; empty if no order has this number."""
    rest: str = ""
    """A word after all parts of the template."""


@dataclass(frozen=True)
class MadeFile:
    """A file that is generated for a job."""

    name: str
    step: str
    """One of `STEPS`; empty if it belongs to none of them."""
    description: str
    is_run: bool = False
    """Whether it is a program of the shell."""


@dataclass(frozen=True)
class MadeIssue:
    """A linter's issue in a generated file."""

    file: str
    issue: Issue


@dataclass(frozen=True)
class MadeJob:
    """Output of `edge10 make --format json`."""

    toolchain: str
    """Id of the facts; empty if the description has no valid one."""
    job: EdgeJob | None
    """None if there are problems and nothing was generated."""
    problems: tuple[JobProblem, ...]
    doubts: tuple[str, ...]
    description: str
    """The file that describes the job, as it was named."""
    folder: str
    files: tuple[MadeFile, ...]
    written: tuple[str, ...] = ()
    """Names of files that were written; the others were as they are already."""
    issues: tuple[MadeIssue, ...] = ()
    """Issues of the generated files, from the linters for users' files."""
    quantised_folder: str = ""
    converted_folder: str = ""
    compiled_folder: str = ""
    """The folder of the compiled model, below the job's."""
    dies_folder: str = ""
    """The folder below that."""
