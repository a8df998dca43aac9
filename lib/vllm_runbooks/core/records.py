"""Records of a server run read from a log, of its diagnosis, and of the runs of runbooks.

Field names have units (`_gib` is 2**30 bytes, `_s` or `_seconds` seconds, `_tokens` tokens); None
means unknown. Lines and columns count from 1. A trailing underscore (`class_`) avoids a Python
keyword; it is dropped in JSON and YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vllm_runbooks.core.record_forms import OMIT_NONE, UNPRINTED, Authored


class Outcome(StrEnum):
    """The last state of a server run that its log proves."""

    READY = "ready"
    RUNNING = "running"
    FAILED = "failed"
    HUNG = "hung"
    UNKNOWN = "unknown"

    @property
    def is_healthy(self) -> bool:
        return self in (Outcome.READY, Outcome.RUNNING)


class Severity(StrEnum):
    """Severity of a finding: the launch fails, it costs something, or it is worth knowing."""

    FATAL = "fatal"
    DEGRADED = "degraded"
    HINT = "hint"


class Level(StrEnum):
    """Certainty of a finding."""

    CONFIRMED = "confirmed"
    PROBABLE = "probable"
    POSSIBLE = "possible"


class IssueSeverity(StrEnum):
    """Severity of an issue of a command."""

    ERROR = "error"
    """The shell or the release's parser rejects it, or does something else than written."""
    WARNING = "warning"
    """It launches, but it is incorrect, unsafe or wasteful."""
    INFO = "info"


class Role(StrEnum):
    """Role of a matching line in the failure."""

    CAUSE = "cause"
    WRAPPER = "wrapper"
    CONSEQUENCE = "consequence"
    BENIGN = "benign"


class Verdict(StrEnum):
    """Result of a runbook's run."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    ERROR = "error"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"


class Truth(StrEnum):
    """Verdict of a log on a statement."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LookIn(Authored):
    """Where to look for the cause if it is not in this log."""

    what: str
    where: str


@dataclass(frozen=True)
class Edit(Authored):
    """One change of a deployment: an option set or removed, or an environment variable set."""

    op: str
    """"set", "remove" or "env"."""
    name: str
    """Option name without dashes, with `_` between words (argparse destination), or the variable's
    name."""
    value: Any = None
    """None removes a variable."""


@dataclass(frozen=True)
class Quote:
    """An excerpt of the input with its location."""

    file: int
    """Index into the given files."""
    line: int
    column: int
    text: str
    """At most 400 characters, secrets replaced."""


ProcessKey = tuple[int | None, str | None]
"""Pid of a process and, on another host, the address of the host: its identity whatever its
name."""


@dataclass(frozen=True)
class Process:
    """A process that wrote into the log."""

    name: str | None
    pid: int | None = None
    ip: str | None = None
    rank: int | None = None

    @property
    def place(self) -> ProcessKey:
        return self.pid, self.ip


@dataclass(frozen=True)
class Phase:
    """A phase of startup, from its first line to the first line of the next phase."""

    name: str
    first: Quote
    started: str | None
    """Time as printed on its first line (month-day hour:minute:second, no year, no zone)."""
    clock_seconds: float | None
    """Seconds by the log's clock, whole seconds only."""
    printed_seconds: float | None = None
    """Seconds that vLLM itself printed for the main work, if any."""


@dataclass(frozen=True)
class PrintedFigure:
    """One figure printed by vLLM, torch or a driver."""

    name: str
    value: float
    unit: str
    """"GiB", "tokens", "blocks", "s", "x" or "tokens/s"."""
    rank: int | None
    process: Process
    quote: Quote


@dataclass(frozen=True)
class Throughput:
    """One periodic line of the running server."""

    line: int
    prompt_tokens_per_s: float
    generation_tokens_per_s: float
    running: int | None
    waiting: int | None
    kv_cache_usage_percent: float | None
    time: str | None = None
    """As printed: month, day and time."""
    preemptions: int | None = None
    """Since the line before it; printed only if there were any."""


@dataclass(frozen=True)
class MinuteCounts:
    """What went wrong in one minute of a running server."""

    time: str
    """The minute as printed."""
    preemptions: int
    errors: int
    """Messages of level ERROR; a traceback is one. Different ones of one source line in one second count as one."""
    failed_requests: int
    """HTTP responses with status 5xx; such a line has no time, so the last printed one counts."""


COUNTED = {"preemptions": "preemptions", "errors": "errors", "failed_requests": "HTTP 5xx responses"}
"""Names of the fields that `MinuteCounts` and `Facts` count."""


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback."""

    path: str
    line: int
    function: str

    @property
    def posix_path(self) -> str:
        """The path with slashes on every platform."""
        return self.path.replace("\\", "/")


@dataclass(frozen=True)
class RaisedException:
    """One exception of a traceback's chain, oldest first."""

    type: str
    message: str
    quote: Quote
    frames: tuple[Frame, ...]
    link: str | None
    """Relation to the previous one: "cause" (raise … from), "context" (while handling), None for the
    first."""


@dataclass(frozen=True)
class Traceback:
    """A traceback of one process, with its chain."""

    process: Process
    chain: tuple[RaisedException, ...]
    logged: bool
    """Printed through the logger (the process may go on), not by a dying interpreter."""
    ignored: bool = False
    """Printed as ignored ("Exception ignored in …", a request's failure)."""
    is_mild: bool = False
    """Whether a logger printed it below ERROR, as expected by its process."""

    @property
    def first_line(self) -> int:
        return self.chain[0].quote.line


@dataclass(frozen=True)
class SymptomHit:
    """A line that a symptom's signature matched."""

    symptom: str
    signature: int
    """Index of the signature in its symptom."""
    quote: Quote
    captures: Mapping[str, str]
    process: Process
    phase: str | None
    traceback: int | None = None
    """Index into the launch's tracebacks, if the line is the exception of one."""
    link: int = 0
    """Index into that traceback's chain."""
    depth: int = -2
    """Quality of the place: depth in the traceback of the frame that the signature requires (0 or
    more), -1 for the phase, -2 for neither."""
    level: str | None = None
    """Log level of the line; None without one."""
    time: str | None = None
    """Time on the line, else on the last line before it that has one."""


@dataclass(frozen=True)
class Release:
    """The vLLM release that wrote a log, and how it was determined."""

    version: str | None = None
    source: str = "unknown"
    """"printed", "given", "named" (the only release that the text around the log names), "call-sites",
    "closest" (the release that a modified build is based on, by its call sites) or "unknown"."""
    candidates: tuple[str, ...] = ()
    """Candidate releases by source lines, if not `version` alone: indistinguishable ones, such as a
    release and its post-releases, or the one closest to a development build or a fork."""
    data: str | None = None
    """Release whose generated data is used; None if there is none."""

    @property
    def rules(self) -> str | None:
        """Release whose options and planner apply: `version`, or `data` if the version names no release."""
        return self.data if is_untagged(self.version or "0.0.0") else self.version


UNKNOWN_RELEASE = Release()


def is_untagged(version: str) -> bool:
    """Whether a version names no release, such as 0.1.dev1+g7b5f655 of a source tree without Git tags."""
    return version.strip().removeprefix("v").startswith(("0.0.0", "0.1.dev"))


@dataclass(frozen=True)
class Facts:
    """Values printed by one server run; over ranks, the largest weights and smallest KV cache."""

    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    """Tokens as this release counts them; blocks x block size if only blocks are printed."""
    kv_cache_tokens_meaning: str | None = None
    """Meaning of the count: "slots" (cache slots of one layer group, not a number of requests),
    "full-length" (tokens of full-length requests: the concurrency times max_model_len), None if
    unknown."""
    kv_cache_blocks: int | None = None
    max_concurrency: float | None = None
    max_concurrency_tokens: int | None = None
    """Tokens per request that the concurrency is stated for."""
    cuda_graph_gib: float | None = None
    cuda_graph_estimated_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    gpu_total_gib: float | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    executor_backend: str | None = None
    model: str | None = None
    architecture: str | None = None
    quantization: str | None = None
    platform: str | None = None
    """Platform of vLLM: cuda, rocm, cpu, xpu, tpu, hpu or neuron."""
    load_seconds: float | None = None
    startup_seconds: float | None = None
    """Wall clock from the first dated line to ready."""
    generation_tokens_per_s_max: float | None = None
    preemptions: int | None = None
    """Of requests while it served; this and the next two are None if none was printed."""
    errors: int | None = None
    """Messages of level ERROR while it served."""
    failed_requests: int | None = None
    """HTTP responses with status 5xx while it served."""


@dataclass(frozen=True)
class RankFacts:
    """Values printed by one rank."""

    rank: int | None
    process: str | None
    pid: int | None
    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    cuda_graph_gib: float | None = None
    gpu_total_gib: float | None = None
    load_seconds: float | None = None


@dataclass(frozen=True)
class LoggedWarning:
    """A warning and how often it was printed."""

    quote: Quote
    count: int


@dataclass(frozen=True)
class NodePosition:
    """Position of a log among the logs of one launch; None if unknown."""

    nodes: int | None = None
    """Number of nodes of the launch, if it was set explicitly."""
    node_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    """Ranks of this node."""
    ranks: tuple[int, ...] = ()
    """Ranks of the launch whose processes wrote into the log."""
    meeting_point: str | None = None
    """Address and port at which the ranks look for each other."""
    waiting: Mapping[int, str | None] = field(default_factory=dict)
    """Ranks that went there and have written nothing since, each with the time that it printed then."""
    is_mixed: bool = False
    """Whether processes of several hosts wrote into the log, as Ray's driver and a scheduler gather them."""
    is_headless: bool = False
    """Whether the log is of a node that only computes: not of the first."""
    met: str | None = None
    """Printed time at which the first of its ranks had met all others: simultaneous in all logs."""
    last_time: str | None = None
    """Time, as printed, of the last line that carries one."""
    last: Quote | None = None
    """The last line that a logger wrote."""


@dataclass(frozen=True)
class RayDemand:
    """Resources that Ray has not found yet."""

    amounts: Mapping[str, float]
    """Total request of all bundles by resource; memory in GiB."""
    quote: Quote


@dataclass(frozen=True)
class RayCluster:
    """Output of `ray status` for a cluster."""

    quote: Quote
    at: str | None = None
    """Printed time of the output."""
    active: int | None = None
    lost: tuple[str, ...] = ()
    """Recently lost nodes, as printed."""
    used: Mapping[str, float] = field(default_factory=dict)
    """Resources in use or reserved for a placement group; memory in GiB."""
    total: Mapping[str, float] = field(default_factory=dict)
    """Total by resource; resources that Ray does not list are missing, such as a node's own."""
    demands: tuple[RayDemand, ...] = ()


@dataclass(frozen=True)
class ServerRun:
    """One server run, read from a log."""

    file: int
    first_line: int
    last_line: int
    outcome: Outcome
    outcome_quote: Quote | None
    """The line that proves the outcome."""
    release: Release
    command: str | None
    """The command if the log has one, secrets replaced."""
    arguments: Mapping[str, Any]
    """Arguments by argparse destination, as printed; values that are not literals stay text."""
    processes: tuple[Process, ...]
    timeline: tuple[Phase, ...]
    readings: tuple[PrintedFigure, ...]
    throughput: tuple[Throughput, ...]
    minutes: tuple[MinuteCounts, ...]
    """Minutes in which something went wrong, in order."""
    warnings: tuple[LoggedWarning, ...]
    tracebacks: tuple[Traceback, ...]
    hits: tuple[SymptomHit, ...]
    facts: Facts
    ranks: tuple[RankFacts, ...]
    progress: Mapping[int, int] = field(default_factory=dict)
    """Last line of progress by pid (0: no pid shown)."""
    left_out: int = 0
    """Number of earlier launches that are not kept, for a log with very many restarts."""
    last_lines: Mapping[ProcessKey, int] = field(default_factory=dict)
    """Last line by process; processes without a pid count as one."""
    seat: NodePosition = field(default_factory=NodePosition)
    cluster: RayCluster | None = None
    """Output of `ray status` in the text."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that support a finding, contradict it, or are unknown."""

    matched: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A symptom that was found, with everything an engineer needs to act on it."""

    symptom: str
    class_: str
    title: str
    severity: Severity
    level: Level
    evidence: tuple[Quote, ...]
    captures: Mapping[str, str]
    conditions: Conditions
    explanation: str
    do_first: str
    confirm: str
    refute: str
    look_in: LookIn | None = None


@dataclass(frozen=True)
class SkippedLine:
    """A recognized line that is neither the cause nor a finding."""

    file: int
    line: int
    role: Role


@dataclass(frozen=True)
class ServerRunSummary:
    """Summary of one server run."""

    file: int
    first_line: int
    last_line: int
    outcome: Outcome
    root_cause: Finding | None
    phase: str | None = None
    """The last phase that it reached."""


@dataclass(frozen=True)
class Checks:
    """Results of a remedy's checks: "passed", or "unknown: why"."""

    lint: str
    plan: str
    parser: str


@dataclass(frozen=True)
class Remedy:
    """A remedy with its cost."""

    title: str
    cost: str
    edits: tuple[Edit, ...]
    command: str | None
    checks: Checks


@dataclass(frozen=True)
class ComparedTerm:
    """A term as it was planned and as the log prints it."""

    name: str
    planned_gib: float | None
    low_gib: float | None
    high_gib: float | None
    actual_gib: float | None
    explained: str
    """Whether the difference is within the plan's band, or its meaning."""


@dataclass(frozen=True)
class Residual:
    """Difference between plan and log for a term, which corrects later plans."""

    release: str
    gpu: str | None
    architecture: str | None
    term: str
    planned_gib: float
    actual_gib: float
    source: str
    tensor_parallel_size: int = 1


@dataclass(frozen=True)
class PlanComparison:
    """Plan compared with the log."""

    terms: tuple[ComparedTerm, ...]
    off: str | None
    """Name of the term that differs most beyond its band; None if all are within."""
    missing: tuple[str, ...] = ()
    """Missing inputs."""
    residuals: tuple[Residual, ...] = ()
    verdict: str | None = field(default=None, metadata=OMIT_NONE)
    """"AS PLANNED", "OFF" or "NOT COMPARED", in the document of `plan --from-log`."""
    summary: str | None = field(default=None, metadata=OMIT_NONE)
    """Reason of the verdict."""


@dataclass(frozen=True)
class MemoryUse:
    """Planned memory of the fullest GPU of a launch."""

    total_gib: float
    used_gib: float
    """Memory used in addition to the KV cache."""
    kv_cache_gib: float | None
    """Left for the KV cache within the launch's share of the GPU, below zero if it lacks memory; None if unknown."""
    request_gib: float | None
    """KV cache of one request of `max_model_len` tokens on that GPU; None if unknown."""

    @property
    def limit_gib(self) -> float:
        """Memory that the launch may use: its share if it exceeds that, else the whole GPU."""
        lacking = min(self.kv_cache_gib or 0.0, 0.0)
        return min(self.total_gib, max(0.0, self.used_gib + lacking)) if lacking else self.total_gib


@dataclass(frozen=True)
class NodeLog:
    """One log of a launch over several nodes."""

    file: int
    node_rank: int | None
    ranks: tuple[int, ...]
    """Ranks of the launch whose processes wrote into the log."""
    outcome: Outcome
    waits: bool
    """Whether it ends where its ranks wait for the others."""
    last_line: int
    last_time: str | None
    """Last time as printed, by the clock of that node."""
    clock_offset_s: float | None
    """Offset of its clock to that of the first log, within a second or two: both print when all
    ranks have met. None if unknown."""


@dataclass(frozen=True)
class Nodes:
    """The logs of one launch over several nodes."""

    count: int | None
    """Number of nodes of the launch; None if no log reports it."""
    logs: tuple[NodeLog, ...]
    missing: tuple[int, ...] = ()
    """Ranks of the nodes without a log."""
    ranks_missing: tuple[int, ...] = ()
    """Ranks of the launch that wrote into none of the logs, if their nodes are unknown."""


@dataclass(frozen=True)
class Answer:
    """The complete diagnosis: output of `diagnose --format json`."""

    files: tuple[str, ...]
    outcome: Outcome
    vllm: Release
    root_cause: Finding | None
    findings: tuple[Finding, ...]
    starts: tuple[ServerRunSummary, ...]
    remedies: tuple[Remedy, ...]
    plan: PlanComparison | None
    """The launch's printed memory against its plan; None if the log prints no memory."""
    hidden: Mapping[str, int]
    facts: Facts
    ranks: tuple[RankFacts, ...]
    first_error: Quote | None
    """First exception without a symptom, if it precedes the cause or there is none."""
    internal_error: Finding | None = field(default=None, metadata=OMIT_NONE)
    """The finding that the first error is a bug in vLLM or a kernel library; None if it is not, or a cause is known."""
    notes: tuple[str, ...] = ()
    """Notes on the request: why a policy, or a step of it, is not offered."""
    nodes: Nodes | None = field(default=None, metadata=OMIT_NONE)
    """For a multi-node launch: facts of each log, and the missing logs."""
    left_out: tuple[SkippedLine, ...] = field(default=(), metadata=UNPRINTED)
    """Positions of the lines counted by `hidden`, for a view of the annotated log."""
    memory: tuple[MemoryUse, MemoryUse] | None = field(default=None, metadata=UNPRINTED)
    """Planned memory before and after the first remedy; None if it changes none, or it cannot be planned."""
    lang: str | None = field(default=None, metadata=OMIT_NONE)
    """Language of the texts if not English."""


@dataclass(frozen=True)
class CauseRef:
    """A root cause by name; for a condition of a running server both names are its id."""

    symptom: str
    """Id of the symptom, or of the condition."""
    class_: str


@dataclass(frozen=True)
class FindingRef:
    """A finding by name, for lists of runs."""

    symptom: str
    class_: str
    title: str
    severity: Severity
    level: Level


@dataclass(frozen=True)
class RunbookVerdict:
    """Verdict of a runbook, written by its last cell."""

    verdict: Verdict
    reason: str
    case: str | None
    outcome: Outcome | None
    root_cause: CauseRef | None
    findings: tuple[FindingRef, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the checked object, by name: numbers, strings or booleans."""


@dataclass(frozen=True)
class CheckedClaim:
    """Verdict of the record on a claim."""

    id: str
    says: str
    expected: Truth
    verdict: Truth
    figures: Mapping[str, str]
    """Known figures as shown, by name."""
    because: str
    undecided: str
    """Reason if unknown; else empty."""
    quotes: tuple[Quote, ...]
    basis: tuple[str, ...] = ()
    """Plans and look-ups behind the verdict, as text."""


@dataclass(frozen=True)
class FigureComparison:
    """Whether a figure is comparable between runs."""

    figure: str
    may: bool | None
    """None if the log does not have enough information."""
    why: str


@dataclass(frozen=True)
class Parameter:
    """One declared parameter of a runbook."""

    name: str
    type: str
    """"str", "int", "float" or "bool"."""
    default: str | int | float | bool
    help: str


@dataclass(frozen=True)
class Runbook:
    """A runbook as its notebook declares it."""

    id: str
    title: str
    summary: str
    """First sentence of its first cell."""
    path: str
    parameters: tuple[Parameter, ...]
    symptoms: tuple[str, ...]
    side_effects: bool
    needs_gpu: bool
    steps: tuple[str, ...] = ()
    """Names of the cells that take long or change something, in order."""


@dataclass(frozen=True)
class RunResult:
    """One run of a suite: an entry of `results.json`."""

    runbook: str
    case: str | None
    verdict: Verdict
    outcome: Outcome | None
    root_cause: CauseRef | None
    seconds: float
    findings: tuple[FindingRef, ...]
    reason: str
    notebook: str | None
    """Executed notebook, relative to the output folder; None if none was written."""
    refused: bool
    """Whether the run could not read its parameters or its evidence."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the checked object that the verdict reports."""
    node: str | None = field(default=None, metadata=OMIT_NONE)
    """Node of a cluster on which it was executed."""
    lost_on: tuple[str, ...] | None = field(default=None, metadata=OMIT_NONE)
    """Nodes that had started it before, and did not answer."""
