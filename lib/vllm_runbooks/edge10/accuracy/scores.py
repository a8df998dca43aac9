"""What a report tells of one score, and what follows from it: which numbers of right answers it can stand for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import score_names
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion, Doubt, EvaluationScore
from vllm_runbooks.edge10.accuracy.score_names import Metric

ROUNDED = 0.00005
"""How far a score with four digits may lie from what was rounded (`normalize_score` of EvalScope)."""
ROUNDED_THRICE = 3 * ROUNDED
"""The same of a mean over categories of means over subsets, each rounded."""
EXACT = 1e-9
_MOST_NAMED = 4


@dataclass(frozen=True)
class Told:
    """A score as a report has it."""

    dataset: str
    subset: str | None
    metric: Metric
    value: float | None
    questions: int | None
    half: float = ROUNDED
    """How far rounding may have moved it."""
    coarse: float = 0.0
    """The same by the digits that are there: fewer than the tool writes, where somebody rounded once more."""
    is_primary: bool | None = None
    answers: Mapping[str, AnsweredQuestion] | None = None
    where: str = ""


def number(value: Any) -> float | None:
    """A number of a document; None: it is none, or not a finite one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        found = float(value) if is_number else math.nan
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """A number of questions; none is larger than a thousand million."""
    found = number(value)
    return int(found) if found is not None and 0 <= found <= 1e9 and found == int(found) else None


def coarse(value: float | None) -> float:
    """Half of a score's last digit, as it is written."""
    digits = repr(value).partition(".")[2]
    return 0.5 * 10.0 ** -len(digits) if digits.isdigit() else 0.0


def digest(*asked: Any) -> str:
    """What a question is recognised by."""
    text = json.dumps(asked, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finished(told: Iterable[Told], repeats: int | None) -> tuple[tuple[EvaluationScore, ...], list[Doubt]]:
    """The scores of a report, each data set as a whole before its subsets.

    Args:
        told: As they stand there.
        repeats: How often each question was asked; then numbers in a report count answers.

    Raises:
        InputError: the same score is told twice, and differently.
    """
    groups: dict[tuple[str, str], list[Told]] = {}
    for each in told:
        groups.setdefault((score_names.key(each.dataset), each.metric.name), []).append(each)
    scores: list[EvaluationScore] = []
    in_percent: dict[str, None] = {}
    for group in groups.values():
        scaled, is_percent = _shares(_once(group))
        if is_percent:
            in_percent[scaled[0].dataset] = None
        parts = [_score(each, repeats) for each in scaled if each.subset is not None]
        of_all = next((each for each in scaled if each.subset is None), None)
        scores += [_whole(of_all, parts, scaled, repeats), *(parts if len(parts) > 1 else [])]
    return tuple(scores), [_percent(list(in_percent))] if in_percent else []


def _once(group: Sequence[Told]) -> list[Told]:
    """Each score once; that with the answers it was made of, where they come to it."""
    found: dict[str | None, Told] = {}
    for each in group:
        name = None if each.subset is None else score_names.key(each.subset)
        other = found.setdefault(name, each)
        if other is each:
            continue
        is_same = (
            each.value is not None
            and other.value is not None
            and abs(each.value - other.value) <= each.half + other.half + EXACT
        )
        if not is_same and each.answers is None and other.answers is None:
            of = f"{each.dataset}{f', {each.subset}' if each.subset else ''}, {each.metric.name}"
            raise InputError(
                f"{each.where or 'the results'}: two scores of {of}: {other.value} and {each.value}; "
                "give the results of one model and one run at a time"
            )
        found[name] = max(each, other, key=lambda one: (one.answers is not None) is is_same)
    return list(found.values())


def _shares(group: Sequence[Told]) -> tuple[list[Told], bool]:
    """Shares of 1 in place of percent, for a metric that is a share; and whether that was so."""
    values = [each.value for each in group if each.value is not None]
    if not group[0].metric.is_share or not values or not 1 + ROUNDED < max(values) <= 100 or min(values) < 0:
        return list(group), False
    return [
        replace(
            each,
            value=None if each.value is None else each.value / 100,
            half=max(each.half / 100, ROUNDED),
            coarse=each.coarse / 100,
        )
        for each in group
    ], True


def _percent(datasets: Sequence[str]) -> Doubt:
    more = f" and {len(datasets) - _MOST_NAMED} more data sets" if len(datasets) > _MOST_NAMED else ""
    return Doubt(
        "percent",
        f"The scores of {', '.join(datasets[:_MOST_NAMED])}{more} lie above 1 and are read as percent.",
        "Nothing, if they are; else give a report whose scores are shares of 1.",
    )


def _score(each: Told, repeats: int | None) -> EvaluationScore:
    right, is_share = _right(each, repeats)
    return EvaluationScore(
        dataset=each.dataset,
        subset=each.subset,
        metric=each.metric.name,
        value=each.value,
        questions=each.questions if each.answers is None else len(each.answers),
        right=right,
        is_share=is_share,
        higher_is_better=each.metric.higher_is_better,
        is_primary=each.is_primary,
        answers=each.answers,
    )


def _right(each: Told, repeats: int | None) -> tuple[tuple[int, int] | None, bool | None]:
    """The numbers of right answers that a score can stand for, and whether it is a share of them."""
    if each.answers is not None:
        values = [one.value for one in each.answers.values()]
        is_share = bool(values) and all(value in (0.0, 1.0) for value in values)
        return ((int(sum(values)),) * 2 if is_share else None), is_share
    if not each.metric.is_share or each.value is None or not each.questions or (repeats or 1) > 1:
        return None, each.metric.is_share
    if not -each.half <= each.value <= 1 + each.half:
        return None, False
    for half in (each.half, max(each.half, each.coarse)):
        low = max(0, math.ceil((each.value - half) * each.questions - EXACT))
        high = min(each.questions, math.floor((each.value + half) * each.questions + EXACT))
        if low <= high:
            return (low, high), True
    return None, False


def _whole(
    told: Told | None, parts: Sequence[EvaluationScore], group: Sequence[Told], repeats: int | None
) -> EvaluationScore:
    """The score of a whole data set, made of its subsets as far as they tell more than it does itself."""
    if told is not None and (told.answers is not None or not parts):
        return _score(told, repeats)
    numbers = [part.questions for part in parts]
    questions = sum(number or 0 for number in numbers)
    known = all(number is not None for number in numbers) and all(part.value is not None for part in parts)
    if not known or not questions:
        return _score(told if told is not None else _empty(group[0]), repeats)
    pooled = sum((part.value or 0.0) * (part.questions or 0) for part in parts) / questions
    own = Told(group[0].dataset, None, group[0].metric, pooled, questions, is_primary=group[0].is_primary)
    if told is not None:
        agrees = told.value is not None and abs(told.value - pooled) <= told.half + 2 * ROUNDED
        if not agrees:
            # Weights, or a mean over categories: no share of right answers, whatever the subsets are.
            return replace(_score(told, repeats), right=None, is_share=False)
        own = replace(own, value=told.value if own.questions == told.questions else pooled)
    found = _score(own, repeats)
    answered = [part.answers for part in parts]
    if all(each is not None for each in answered):
        merged = {f"{part.subset}\0{name}": answer for part in parts for name, answer in (part.answers or {}).items()}
        return _score(replace(own, value=pooled, answers=merged), repeats)
    bands = [part.right for part in parts]
    if all(band is not None for band in bands):
        band = (sum(band[0] for band in bands if band), sum(band[1] for band in bands if band))
        return replace(found, right=band, is_share=True)
    return replace(found, right=None, is_share=False if any(part.is_share is False for part in parts) else None)


def _empty(each: Told) -> Told:
    return replace(each, subset=None, value=None, questions=None, answers=None)
