"""A toolchain that compiles models for edge chips: its facts as the catalog has them, jobs, and what is found.

The facts of one version are `catalog/toolchains/<id>.yaml`; `None` is what its source does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from vllm_runbooks.command_records import Issue, Linted
from vllm_runbooks.host_records import Inventory
from vllm_runbooks.record_forms import AUTHORED, WHERE_TOLD
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
    hub: str | None = None
    """Its repository on the Hub, which the listed name need not be; None: not known."""


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
class Evaluation:
    """How the source has the float and the quantised model served, and what it asks them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

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
    is_float: bool = False
    """Whether it is the float model's own, and may be copied from there."""


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

    job: Job | None
    """None: there are problems."""
    problems: tuple[JobProblem, ...]
    """All of them, by line."""
    doubts: tuple[str, ...] = ()
    """What the facts do not tell, so that nobody knows whether the chip takes it."""


@dataclass(frozen=True)
class NameTold:
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
    """What those digits may mean: one pair, and they are told; several, and they are not; none: no order of so many."""
    rest: str = ""
    """A word behind all that the template has."""


@dataclass(frozen=True)
class MadeFile:
    """A file that is made for a job."""

    name: str
    step: str
    """Of `STEPS`; empty: it belongs to none of them."""
    says: str
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
    job: Job | None
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
    room: str = ""
    """What the planner says of the two servers; empty: no cards were named, or the model is unknown to it."""


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


# ---- a host, before a step

HOST_KIND = "edge10-host"
"""What a recorded host calls itself."""
HOST_STEPS = ("quantise", "evaluate", "compile")
"""Steps before which a host is looked at; converting takes no more than quantising."""


class DockerState(StrEnum):
    """What became of the question to docker."""

    ANSWERS = "answers"
    MISSING = "missing"
    """There is no such program."""
    STOPPED = "stopped"
    """Nothing listens where it is looked for."""
    DENIED = "denied"
    """This user may not talk to it."""
    SILENT = "silent"
    """It gave no answer within the limit, and was left."""
    REMOTE = "remote"
    """It is on another host, and was not asked."""
    PODMAN = "podman"
    """The program is podman's, which has no such service."""
    UNKNOWN = "unknown"
    """What it said is not understood."""


@dataclass(frozen=True)
class DaemonFile:
    """A file with settings of docker's service."""

    path: str
    is_there: bool | None = None
    """None: it may not be read."""
    problem: str = ""
    """Why the service refuses it, with the line; empty: nothing."""
    twice: tuple[str, ...] = ()
    """Settings that it has more than once: the last one counts."""
    insecure_registries: tuple[str, ...] | None = None
    """None: it is not known; empty: it names none."""
    runtimes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ImageFacts:
    """A container image, as docker tells of it."""

    name: str
    """As it was asked for."""
    is_there: bool | None = None
    size_gib: float | None = None
    architecture: str | None = None
    """Of processors, as in amd64."""


@dataclass(frozen=True)
class RegistryLogin:
    """Whether this user's docker has a login for a registry; what it is was not read."""

    registry: str
    is_there: bool | None = None


@dataclass(frozen=True)
class DockerFacts:
    """Docker, as its program and its service tell of it."""

    state: DockerState = DockerState.UNKNOWN
    why: str = ""
    """In its own words, where it does not answer."""
    client: str | None = None
    """Release of the program."""
    server: str | None = None
    """Release of the service."""
    endpoint: str | None = None
    """Where the program looks for the service."""
    context: str | None = None
    """Name of the program's setting that says where."""
    system: str | None = None
    """That the service runs on, as in "Docker Desktop"."""
    architecture: str | None = None
    """Of processors, as in x86_64."""
    is_rootless: bool | None = None
    root_folder: str | None = None
    """Where images are kept."""
    root_free_gib: float | None = None
    """On the disk of that folder."""
    runtimes: tuple[str, ...] | None = None
    insecure_registries: tuple[str, ...] | None = None
    """Registries that the running service talks to without a certificate."""
    insecure_networks: tuple[str, ...] | None = None
    """Networks of registries of which the same holds, as in 10.0.0.0/8."""
    is_in_group: bool | None = None
    """Whether this process may use the group of the service's socket."""
    is_listed: bool | None = None
    """Whether the system lists the user in that group."""
    files: tuple[DaemonFile, ...] | None = None
    """Where the service may have settings from."""
    images: tuple[ImageFacts, ...] = ()
    """Those that were asked for."""
    logins: tuple[RegistryLogin, ...] = ()
    """Those that were asked for."""


@dataclass(frozen=True)
class ToolkitFacts:
    """What gives containers the cards of NVIDIA."""

    version: str | None = None
    programs: tuple[str, ...] = ()
    """Of it, those that are found."""


@dataclass(frozen=True)
class FolderFacts:
    """The folder that a step's container is given."""

    path: str
    is_there: bool | None = None
    looked_at: str | None = None
    """The nearest folder that is there, whose disk this is."""
    free_gib: float | None = None
    """For this user."""
    total_gib: float | None = None
    is_writable: bool | None = None


@dataclass(frozen=True)
class EdgeHost:
    """A host at one time, as it was asked or as it was written down."""

    kind: str = HOST_KIND
    constructed: bool = False
    """Whether it was written down from what somebody told."""
    source: str | None = None
    taken: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    inventory: Inventory = field(default_factory=Inventory)
    python: str | None = None
    """The Python that was named, whose packages the inventory has; None: none was, and they are of no step."""
    docker: DockerFacts | None = None
    toolkit: ToolkitFacts | None = None
    folder: FolderFacts | None = None
    environment: Mapping[str, str] | None = None
    """Of the variables that steps heed, those that are set."""


@dataclass(frozen=True)
class HostAsked:
    """What a host is looked at for."""

    step: str
    """Of `HOST_STEPS`."""
    model: str | None = None
    image: str | None = None
    registry: str | None = None
    data: str | None = None
    """The folder that is meant."""


@dataclass(frozen=True)
class NeedTerm:
    """A part of what a step takes."""

    what: str
    gib: float | None
    """At least; None: not known."""
    source: str


@dataclass(frozen=True)
class HostNeed:
    """What a step takes of one thing, beside what is there."""

    what: str
    """"disk", "memory" or "GPU memory"."""
    terms: tuple[NeedTerm, ...]
    least_gib: float | None
    """All terms together; None: one is not known."""
    there_gib: float | None
    where: str
    is_enough: bool | None
    """Whether all that is counted fits; None: one of the two is not known."""
    uncounted: str = ""
    """What comes on top, and nobody tells beforehand."""


@dataclass(frozen=True)
class Untold:
    """Something that would mean something, and that is not known of a host."""

    what: str
    why: str


@dataclass(frozen=True)
class CheckedHost(EdgeHost):
    """A host with what it means for a step: what `edge10 preflight --format json` prints."""

    toolchain: str = ""
    """Id of the facts."""
    asked: HostAsked = field(default_factory=lambda: HostAsked(""))
    needs: tuple[HostNeed, ...] = ()
    findings: tuple[ToolchainFinding, ...] = ()
    unknown: tuple[Untold, ...] = ()
    ok: bool | None = None
    """Whether nothing stands in the way of the step; None: nothing was found, and something is not known."""


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


@dataclass(frozen=True)
class ScriptStep:
    """Something that a script does on the way to the chip."""

    file: str
    step: str
    """"host", "quantise", "convert", "serve", "evaluate", "compile-llm" or "compile-vlm"."""
    line: int
    vllm: str | None
    """Release of vLLM that it is judged by; None: it runs none, or one of a release that is not told."""


@dataclass(frozen=True)
class LintedScripts(Linted):
    """What `edge10 lint --format json` prints: what `lint` does, and what the scripts are."""

    steps: tuple[ScriptStep, ...] = ()
    """What the scripts do, as their imports, calls and commands tell; empty: nothing of the toolchain's."""
    toolchain: str = ""
    """Id of the facts."""


# ---- folders between the steps


@dataclass(frozen=True)
class ListedFile:
    """A file, a folder or a link of a listing."""

    path: str
    """Below the folder that was listed, with `/` between its parts."""
    bytes: int | None = None
    """None: the listing does not tell it."""
    kind: str = "file"
    """Of `FILE_KINDS`."""


FILE_KINDS = ("file", "folder", "broken link", "linked folder", "other")
"""A link to a file is the file; one to a folder is not followed; the last is neither, as a socket."""


@dataclass(frozen=True)
class Listing:
    """What lies in a folder."""

    name: str
    """Of the folder; empty: it is not told."""
    files: tuple[ListedFile, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    """By path of a folder in it why it could not be listed."""
    is_cut: bool = False
    """Whether there is more than is listed."""
    by: str = ""
    """What listed it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file of weights, as its header tells."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer knows, for comparison alone."""

    entries: int
    digest: str
    """Of all entries with their numbers."""


@dataclass(frozen=True)
class Contents:
    """What stands in the files of a folder, as far as it is judged; all by path."""

    texts: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with a file that could not be read."""
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)


@dataclass(frozen=True)
class Mend:
    """A file that is copied or renamed where `--repair` asks for it."""

    does: str
    """Of `MENDS`."""
    source: str
    """Path of the file below the folder, or below the float model's."""
    target: str
    """Below the folder."""
    is_float: bool
    """Whether the source is the float model's."""
    why: str


MENDS = ("copy", "rename")


@dataclass(frozen=True)
class Repaired:
    """What `--repair` did in a folder, as it is kept beside it."""

    folder: str
    float_folder: str
    done: tuple[Mend, ...]
    undo: tuple[str, ...]
    """What takes each back, the last first."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """By target why it was not done."""


@dataclass(frozen=True)
class CheckedFolder:
    """What a folder between two steps is, and what is wrong with it: what `edge10 check --format json` prints."""

    toolchain: str
    """Id of the facts."""
    name: str
    """Of the folder; empty: it is not told."""
    what: str
    """Of `ARTEFACTS`."""
    kind: str | None
    """Of `KINDS`; None: it is not told."""
    dies: int | None
    dies_told_by: str
    lengths: tuple[int, ...] | None
    lengths_told_by: str
    listing: Listing
    findings: tuple[ToolchainFinding, ...]
    mends: tuple[Mend, ...] = ()
    """What `--repair` would do."""
    left: tuple[str, ...] = ()
    """What could be mended in more than one way, or from no file that is known: it is the reader's."""
    unchecked: tuple[str, ...] = ()
    """What was asked for, and could not be established."""
    remarks: tuple[str, ...] = ()
    """What the answer does not cover, or takes from the files themselves."""
    ok: bool | None = None
    """None: nothing was found, and something that was asked for could not be established."""
    repaired: Repaired | None = field(default=None, metadata=WHERE_TOLD)
    """What was done before this was found; None: nothing was."""


ARTEFACTS = ("compiled", "checkpoint")
