"""Records of accuracy: results of two evaluations, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Accuracy(StrEnum):
    """Whether quantising cost accuracy."""

    LOST = "lost"
    """The loss is more than the threshold, and its interval excludes 0."""
    KEPT = "kept"
    """The whole interval is above the threshold."""
    UNKNOWN = "unknown"
    """Not reported in the results."""


@dataclass(frozen=True)
class Doubt:
    """A reason to be careful with a comparison."""

    id: str
    text: str
    do: str


@dataclass(frozen=True)
class AnsweredQuestion:
    """The value of a model's answer to one question."""

    value: float
    prompt: str
    """Digest of the question as the model got it; empty if unknown."""


@dataclass(frozen=True)
class EvaluationScore:
    """A score of a data set, or of one of its subsets."""

    dataset: str
    subset: str | None
    """None for the whole data set."""
    metric: str
    """One name for the spellings of the tools' releases, as `accuracy`."""
    value: float | None
    """A share of 1 if it is one; None if it is no number."""
    questions: int | None = None
    right: tuple[int, int] | None = None
    """Range of correct answers that a rounded score can mean; None if it is not a share of correct
    answers."""
    is_share: bool | None = None
    """Whether it is a share of questions answered right; None if unknown."""
    higher_is_better: bool | None = None
    is_primary: bool | None = None
    """Whether it is the deciding metric of the data set; None if unknown."""
    answers: Mapping[str, AnsweredQuestion] | None = None
    """Answers by question; None if only the score is known."""


@dataclass(frozen=True)
class EvaluationResults:
    """Results of one model's evaluation."""

    model: str
    kind: str
    """Tool and form, as `EvalScope report`."""
    scores: tuple[EvaluationScore, ...]
    doubts: tuple[Doubt, ...] = ()
    temperature: float | None = None
    """Sampling temperature; None if unknown."""


@dataclass(frozen=True)
class AccuracyInterval:
    """Confidence interval of a difference: quantised less float, in shares of 1."""

    low: float
    high: float


@dataclass(frozen=True)
class PairedCounts:
    """Questions that both models answered, by correctness."""

    both: int
    float_alone: int
    quantised_alone: int
    neither: int


@dataclass(frozen=True)
class ScoreComparison:
    """One score of both models, and the verdict on its difference."""

    dataset: str | None
    subset: str | None
    metric: str
    is_deciding: bool
    """Whether the verdict on the whole rests on it."""
    float_score: float | None
    quantised_score: float | None
    questions: int | None
    """Questions that both answered if these were compared one by one, else the larger number of the two."""
    paired: bool
    """Whether the answers were compared question by question."""
    verdict: Accuracy
    reason: str
    difference: float | None = None
    """Quantised less float."""
    interval: AccuracyInterval | None = None
    widest: AccuracyInterval | None = None
    """The interval with the effect of rounding and of questions that only one answered; the verdict rests on it."""
    confidence: float | None = None
    """Confidence level of the interval; higher for one of several subsets, for a joint level."""
    method: str = ""
    counts: PairedCounts | None = None
    is_real_loss: bool | None = None
    """Whether the whole interval is a loss."""
    higher_is_better: bool | None = None
    needed_questions: int | None = None
    """Approximate number of questions that would decide the same difference; None if it is decided,
    or no number would."""


@dataclass(frozen=True)
class AccuracyComparison:
    """Output of `edge10 compare --format json`: the quantised model compared with the float model."""

    verdict: Accuracy
    reason: str
    float_model: str
    float_kind: str
    quantised_model: str
    quantised_kind: str
    threshold: float
    """The largest accepted loss, in shares of 1."""
    confidence: float
    """Confidence level of a data set's interval, and of those of all its subsets jointly."""
    scores: tuple[ScoreComparison, ...]
    doubts: tuple[Doubt, ...]
    not_compared: tuple[str, ...]
    """Scores that only one of the results has."""
