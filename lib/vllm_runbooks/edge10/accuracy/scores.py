"""Scores of a report, and the numbers of correct answers that a rounded score can mean."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import score_names
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion, EvaluationScore
from vllm_runbooks.edge10.accuracy.score_names import EvaluationMetric

ROUNDED = 0.00005
"""Rounding error of a score with four digits (`normalize_score` of EvalScope)."""
ROUNDED_THRICE = 3 * ROUNDED
"""Rounding error of a mean over categories of means over subsets."""
EXACT = 1e-9


@dataclass(frozen=True)
class ReportedScore:
    """A score as a report has it."""

    dataset: str
    subset: str | None
    metric: EvaluationMetric
    value: float | None
    questions: int | None
    rounding: float = ROUNDED
    """Largest error by the tool's rounding."""
    is_primary: bool | None = None
    answers: Mapping[str, AnsweredQuestion] | None = None
    where: str = ""


def number(value: Any) -> float | None:
    """A finite number; None if invalid."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        parsed = float(value) if is_number else math.nan
    except OverflowError:
        return None
    return parsed if math.isfinite(parsed) else None


def whole(value: Any) -> int | None:
    """A number of questions, at most 10^9; None if invalid."""
    parsed = number(value)
    return int(parsed) if parsed is not None and 0 <= parsed <= 1e9 and parsed == int(parsed) else None


def digest(*parts: Any) -> str:
    """Digest that identifies a question."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def combine_scores(reported: Iterable[ReportedScore]) -> tuple[EvaluationScore, ...]:
    """The scores of a report, each data set before its subsets; raises InputError."""
    groups: dict[tuple[str, str], list[ReportedScore]] = {}
    for score in reported:
        groups.setdefault((score_names.key(score.dataset), score.metric.name), []).append(score)
    scores: list[EvaluationScore] = []
    for group in groups.values():
        unique = _deduplicate(group)
        parts = [_evaluate(score) for score in unique if score.subset is not None]
        total = next((score for score in unique if score.subset is None), None)
        scores += [_total(total, parts, unique[0]), *(parts if len(parts) > 1 else [])]
    return tuple(scores)


def _deduplicate(group: Sequence[ReportedScore]) -> list[ReportedScore]:
    """Each score once, because several tables or files may contain it."""
    by_subset: dict[str | None, ReportedScore] = {}
    for score in group:
        name = None if score.subset is None else score_names.key(score.subset)
        other = by_subset.setdefault(name, score)
        if other is score:
            continue
        tolerance = score.rounding + other.rounding + EXACT
        values = (score.value, other.value)
        is_same = None not in values and abs((score.value or 0) - (other.value or 0)) <= tolerance
        if not is_same:
            what = f"{score.dataset}{f', {score.subset}' if score.subset else ''}, {score.metric.name}"
            raise InputError(
                f"{score.where or 'the results'}: two scores of {what}: {other.value} and {score.value}; "
                "use the results of one model and one run at a time"
            )
    return list(by_subset.values())


def _evaluate(score: ReportedScore) -> EvaluationScore:
    right, is_share = _right_answers(score)
    return EvaluationScore(
        dataset=score.dataset,
        subset=score.subset,
        metric=score.metric.name,
        value=score.value,
        questions=score.questions if score.answers is None else len(score.answers),
        right=right,
        is_share=is_share,
        higher_is_better=score.metric.higher_is_better,
        is_primary=score.is_primary,
        answers=score.answers,
    )


def _right_answers(score: ReportedScore) -> tuple[tuple[int, int] | None, bool | None]:
    """Possible numbers of correct answers of a score, and whether it is a share of them."""
    if score.answers is not None:
        values = [answer.value for answer in score.answers.values()]
        is_share = bool(values) and all(value in (0.0, 1.0) for value in values)
        return ((int(sum(values)),) * 2 if is_share else None), is_share
    if not score.metric.is_share or score.value is None or not score.questions:
        return None, score.metric.is_share
    if not -score.rounding <= score.value <= 1 + score.rounding:
        return None, False
    low = max(0, math.ceil((score.value - score.rounding) * score.questions - EXACT))
    high = min(score.questions, math.floor((score.value + score.rounding) * score.questions + EXACT))
    return ((low, high), True) if low <= high else (None, False)


def _total(reported: ReportedScore | None, parts: Sequence[EvaluationScore], example: ReportedScore) -> EvaluationScore:
    """Score of a whole data set, from its subsets if they have more detail."""
    if reported is not None and (reported.answers is not None or not parts):
        return _evaluate(reported)
    questions = sum(part.questions or 0 for part in parts)
    if not questions or any(part.questions is None or part.value is None for part in parts):
        unknown = replace(example, subset=None, value=None, questions=None, answers=None)
        return _evaluate(reported or unknown)
    pooled = sum((part.value or 0.0) * (part.questions or 0) for part in parts) / questions
    value = pooled
    if reported is not None:
        if reported.value is None or abs(reported.value - pooled) > reported.rounding + 2 * ROUNDED:
            # Weights, or a mean over categories: no share of right answers.
            return replace(_evaluate(reported), right=None, is_share=False)
        value = reported.value if reported.questions == questions else pooled
    pooled_score = ReportedScore(example.dataset, None, example.metric, value, questions, is_primary=example.is_primary)
    if all(part.answers is not None for part in parts):
        answers = {f"{part.subset}\0{name}": answer for part in parts for name, answer in (part.answers or {}).items()}
        return _evaluate(replace(pooled_score, value=pooled, answers=answers))
    bands = [part.right for part in parts if part.right is not None]
    if len(bands) == len(parts):
        band = (sum(low for low, _ in bands), sum(high for _, high in bands))
        return replace(_evaluate(pooled_score), right=band, is_share=True)
    is_share = False if any(part.is_share is False for part in parts) else None
    return replace(_evaluate(pooled_score), right=None, is_share=is_share)
