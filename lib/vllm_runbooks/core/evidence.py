"""Input of a diagnosis: texts, and recorded cases with expected results and documents' claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from vllm_runbooks.core.files import JOB, NODES, OBSERVATION, SNAPSHOT
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import Outcome, Truth

if TYPE_CHECKING:
    from vllm_runbooks.core.printed import Period

PIECE = 1 << 18
"""Characters or bytes of a text that are handed on at a time."""


@dataclass(frozen=True)
class Document:
    """One input text."""

    name: str
    """Base name, as shown."""
    source: str | Callable[[], Iterator[str]]
    """The text, or a function that yields it in pieces: a log may be larger than memory."""

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces, from a pipe only once.

        Raises InputError if it is unreadable or binary.
        """
        if not isinstance(self.source, str):
            return self.source()
        text = self.source
        return (text[start : start + PIECE] for start in range(0, len(text), PIECE))

    @property
    def text(self) -> str:
        return "".join(self.pieces())


@dataclass(frozen=True)
class IssueRef(Authored):
    """An issue of a command by name and location."""

    rule: str
    line: int


@dataclass(frozen=True)
class BestLayout(Authored):
    """Expected layout."""

    replicas: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1


@dataclass(frozen=True)
class Expectation(Authored):
    """Expected result of a case; unset fields are not compared."""

    outcome: Outcome | None = None
    class_: str | None = None
    """Class of the root cause; "ok" when there must be none."""
    symptom: str | None = None
    captures: dict[str, str] = field(default_factory=dict)
    """Captures of the root cause, as printed."""
    facts: dict[str, Any] = field(default_factory=dict)
    starts: list[Outcome] | None = None
    """Outcome of every launch in the files, in order."""
    findings: list[str] | None = None
    """Ids of symptoms that must be among the findings; for a snapshot, a server, nodes or a job all
    findings."""
    claims: list[str] | None = None
    """Ids of claims of `claims.yaml` whose verdict must match."""
    issues: list[IssueRef] | None = None
    """For a script: every expected error and warning, and no others."""
    fits: bool | None = None
    """For a plan: whether it fits, or one of the layouts does."""
    best: BestLayout | None = None
    """For layouts: the expected best one."""
    recommended: int | Literal["none"] | None = None
    """For a snapshot: index of the recommended GPU for the next launch; "none" if none is
    suitable."""
    per_gpu: dict[str, float] = field(default_factory=dict)
    """For a plan: its figures by their names in claims, such as `weights_gib`, to as many decimals
    as given."""


@dataclass(frozen=True)
class PlanQuestion(Authored):
    """Request to the planner; without a parallel size it is for every layout, else missing sizes are 1."""

    model: str
    """Name in the catalog."""
    gpus: str
    """For example `8xRTX3090` or `A100-80GB@node1,A100-80GB@node2`."""
    vllm: str
    """Release."""
    tp: int | None = None
    """Tensor parallel size."""
    pp: int | None = None
    """Pipeline parallel size."""
    dp: int | None = None
    """Data parallel size."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further engine options by argparse destination."""


@dataclass(frozen=True)
class GpuReference(Authored):
    """A GPU by name."""

    card: str
    """For example A100-48GB."""


@dataclass(frozen=True)
class LineReference(Authored):
    """A line that a release prints according to a document."""

    vllm: str
    """Release."""
    text: str
    """The line, or part of it; a number matches any number, `…` matches anything."""


@dataclass(frozen=True)
class ClaimInput(Authored):
    """An input of the claims that is not in the log."""

    name: str
    """With its unit, as a fact: gpu_total_gib."""
    value: str | int | float | bool
    source: str


@dataclass(frozen=True)
class Credit(Authored):
    """An effect attributed to one setting: it needs two runs that differ in nothing else."""

    setting: str
    """Argument (argparse destination)."""
    starts: list[int]
    """The two launches, counted from 1."""
    apart_from: list[str] = field(default_factory=list)
    """Settings that differ as written and are known to have no effect here."""


@dataclass(frozen=True)
class Claim(Authored):
    """A statement of a document, and the expression on the case's record that checks it.

    Expressions consist of numbers, quoted strings, names, + - * /, comparisons, and, or, not,
    abs(…), known(…). A name is a figure, a given, a capture of the root cause, a fact, a setting or
    a reading; of the last launch, or `start2.name`. A figure of a plan, a GPU or a line that the
    file names is `name.figure`.
    """

    id: str
    says: str
    """The statement, paraphrased."""
    verdict: Truth
    """Expected verdict."""
    right_if: str
    """Expression: the statement is right if it is true, wrong if false, unknown if a name is
    unknown."""
    because: list[str]
    """Sentences with the numbers, `{name}`; one that needs an unknown number is left out."""
    figures: dict[str, str] = field(default_factory=dict)
    """Numbers to report with the verdict: name (with its unit) to expression."""
    only_if: str | None = None
    """Expression without which the log cannot decide."""
    at: dict[str, list[float]] = field(default_factory=dict)
    """Values that the document offers: the statement is right if `right_if` is true for one of
    them."""
    credit: Credit | None = None
    quotes: list[str] = field(default_factory=list)
    """Words that identify the lines to quote with the verdict."""
    trap: str | None = None
    """Number of a known mistake of the source documents."""


@dataclass(frozen=True)
class Claims(Authored):
    """Claims of a document about a recorded case: `claims.yaml` next to `case.yaml`."""

    document: str
    """Description of the document."""
    claims: list[Claim]
    given: list[ClaimInput] = field(default_factory=list)
    plans: dict[str, PlanQuestion] = field(default_factory=dict)
    """By the name that expressions use; so are the next two."""
    cards: dict[str, GpuReference] = field(default_factory=dict)
    lines: dict[str, LineReference] = field(default_factory=dict)


class CaseKind(StrEnum):
    """Kind of a recorded case, which decides how it is checked."""

    LOG = "log"
    SCRIPT = "script"
    QUESTION = "question"
    """To the planner, with or without a log."""
    SNAPSHOT = "snapshot"
    """Snapshot of a host."""
    SERVER = "server"
    """Observations of a running server."""
    NODES = "nodes"
    """Snapshots of several nodes, before a launch over them."""
    JOB = "job"
    """Job for an edge chip, with its scripts, host and results."""


@dataclass(frozen=True)
class CaseFile(Authored):
    """A recorded case as its `case.yaml` describes it."""

    id: str
    title: str
    source: str
    files: list[str]
    """Empty for a question."""
    expect: Expectation
    vllm: str | None = None
    command: str | None = None
    """File with the script or manifest that the log belongs to."""
    runbooks: list[str] = field(default_factory=list)
    told_with: str | None = None
    """Case of the same document: the nodes of a multi-node launch, for its log, or the reverse."""
    plan: PlanQuestion | None = None
    """The question."""

    @property
    def kind(self) -> CaseKind:
        if self.plan is not None:
            return CaseKind.QUESTION
        if self.expect.issues is not None:
            return CaseKind.SCRIPT
        if JOB in self.files:
            return CaseKind.JOB
        alone = self.files[0] if len(self.files) == 1 else None
        by_file = {SNAPSHOT: CaseKind.SNAPSHOT, OBSERVATION: CaseKind.SERVER, NODES: CaseKind.NODES}
        return by_file.get(alone or "", CaseKind.LOG)


@dataclass(frozen=True)
class Case(CaseFile):
    """A recorded case, with the claims of a document about it."""

    claims: Claims | None = None


@dataclass(frozen=True)
class Evidence:
    """Input of a diagnosis: the same type for a live run and a recorded folder."""

    documents: tuple[Document, ...]
    case: Case | None = None
    vllm: str | None = None
    """Release from the caller or the case."""
    command: str | None = None
    """Text of the script or manifest that the logs belong to."""
    gpus: str | None = None
    """GPUs of the launch, as in `--gpus`, if the evidence names them."""
    snapshot: str | None = None
    """The GPUs as the text of a host's snapshot."""
    start: int | None = None
    """Number of the launch that the evidence is about, from 1, if it says so."""
    period: Period | None = None
    """The part of the logs to read after startup."""
    empty: tuple[str, ...] = ()
    """Names of given files that are empty."""
    pack: str | None = None
    """The evidence pack that it was read from, whose contents are untrusted."""
