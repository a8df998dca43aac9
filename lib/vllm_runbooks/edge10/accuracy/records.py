"""Records of accuracy: what evaluations told of the float model and of the quantised one, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Accuracy(StrEnum):
    """Whether quantising cost accuracy."""

    LOST = "lost"
    """The loss is more than the threshold, and its interval excludes 0."""
    KEPT = "kept"
    """Nothing in the interval is a loss of more than the threshold."""
    UNKNOWN = "unknown"
    """Neither can be told from these results."""


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
    """Quantised less float, in shares of 1, as is the next."""
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
    """That was asked for: of intervals of whole data sets, and of all subsets of one together."""
    scores: tuple[JudgedScore, ...]
    doubts: tuple[Doubt, ...]
    not_compared: tuple[str, ...]
    """What only one of them tells."""
