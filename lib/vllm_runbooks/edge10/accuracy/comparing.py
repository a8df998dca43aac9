"""Whether quantising cost accuracy: scores of two models, each difference with its interval, held against a threshold.

A loss is *real* where the interval of the difference lies on its side alone, and *too much* where it is more than the
threshold. Lost is what is both; kept is where the whole interval lies above the threshold; all else is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, variance
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import intervals, score_names
from vllm_runbooks.edge10.accuracy.records import (
    Accuracy,
    AccuracyInterval,
    AnsweredQuestion,
    Doubt,
    EvaluationResults,
    EvaluationScore,
    JudgedAccuracy,
    JudgedScore,
    PairedCounts,
)

THRESHOLD, CONFIDENCE = 0.01, 0.95
"""A loss of more than one point of a hundred is too much, where nothing else is asked for."""
NEWCOMBE, PAIRED, STUDENT = (
    "Newcombe's hybrid score interval, unpaired",
    "Newcombe's hybrid score interval, paired",
    "Student's t over differences question by question",
)
_TINY = 1e-9


class _Asked(NamedTuple):
    """What a difference is held against."""

    threshold: float
    confidence: float


class _Measured(NamedTuple):
    """A difference, as far as it is known."""

    difference: float | None = None
    interval: AccuracyInterval | None = None
    widest: AccuracyInterval | None = None
    questions: int | None = None
    method: str = ""
    variance: float | None = None
    """Of one question's share in the difference."""
    counts: PairedCounts | None = None
    p_value: float | None = None
    unknown: str = ""
    """Why there is no interval."""
    missing: int = 0
    """Questions that only one of them answered."""
    others: int = 0
    """Questions of the same name that are not the same."""


def check(threshold: float, confidence: float) -> None:
    """See that accuracy can be judged by these.

    Raises:
        InputError: threshold or confidence is none.
    """
    are_numbers = all(type(each) in (int, float) for each in (threshold, confidence))
    if not are_numbers or not 0 <= threshold <= 1 or not 0.5 <= confidence <= 0.9999:
        raise InputError(
            f"threshold {threshold}, confidence {confidence}: give a threshold from 0 to 1, as 0.01 for one point, "
            "and a confidence from 0.5 to 0.9999"
        )


def judge(
    float_: EvaluationResults,
    quantised: EvaluationResults,
    *,
    threshold: float = THRESHOLD,
    confidence: float = CONFIDENCE,
) -> JudgedAccuracy:
    """Whether the quantised model is less accurate than the float one, and whether that may be chance.

    Args:
        float_: Results of the model as it was before.
        quantised: Those of the model made of it, over the same data sets.
        threshold: A loss beyond it is too much, in shares of 1.
        confidence: Of the intervals, between 0.5 and 1.

    Raises:
        InputError: threshold or confidence is none, or nothing is in both.
    """
    check(threshold, confidence)
    asked = _Asked(threshold, confidence)
    rows: list[JudgedScore] = []
    doubts: dict[str, Doubt] = {}
    deciding: list[tuple[EvaluationScore, EvaluationScore]] = []
    pairs, alone = _matched(float_, quantised)
    groups = Counter((first.dataset, first.metric) for first, _ in pairs if first.subset is not None)
    for first, second in pairs:
        is_deciding = first.subset is None and _decides(first, second)
        if is_deciding:
            deciding.append((first, second))
        subsets = groups[first.dataset, first.metric]
        within = (
            asked._replace(confidence=1 - (1 - confidence) / max(subsets, 1)) if first.subset is not None else asked
        )
        measured = _measured(first, second, within.confidence, _repeats(float_, quantised))
        rows.append(_row(first, second, measured, within, is_deciding=is_deciding))
        _note(measured, first, doubts)
    if len(deciding) > 1:
        rows.insert(0, _together(deciding, asked, _repeats(float_, quantised)))
    for doubt in _doubts(float_, quantised):
        doubts.setdefault(doubt.text, doubt)
    is_same = any(doubt.id == "same-results" for doubt in doubts.values())
    verdict, why = _whole(rows, alone, is_same=is_same)
    return JudgedAccuracy(
        verdict=verdict,
        why=why,
        float_model=float_.model,
        float_kind=float_.kind,
        quantised_model=quantised.model,
        quantised_kind=quantised.kind,
        threshold=threshold,
        confidence=confidence,
        scores=tuple(rows),
        doubts=tuple(doubts.values()),
        not_compared=tuple(alone),
    )


def _repeats(first: EvaluationResults, second: EvaluationResults) -> int:
    return max(first.repeats or 1, second.repeats or 1)


def _decides(first: EvaluationScore, second: EvaluationScore) -> bool:
    """Whether a data set is judged by this score; where neither report says which, by each."""
    told = [each.is_primary for each in (first, second) if each.is_primary is not None]
    return all(told)


# ---- what is compared with what

_Key = tuple[str, str | None, str]


def _key(score: EvaluationScore) -> _Key:
    return score_names.key(score.dataset), score.subset and score_names.key(score.subset), score.metric


def _matched(
    first: EvaluationResults, second: EvaluationResults
) -> tuple[list[tuple[EvaluationScore, EvaluationScore]], list[str]]:
    """Scores that both tell, and in words what only one of them tells.

    Raises:
        InputError: they have nothing in common.
    """
    here, there = ({_key(score): score for score in each.scores} for each in (first, second))
    # Subsets are compared by what their data set is judged by; other metrics only as a whole.
    pairs = [
        (score, there[key])
        for key, score in here.items()
        if key in there and (score.subset is None or _decides(score, there[key]))
    ]
    if not any(one.subset is None for one, _ in pairs):
        raise InputError(
            f"nothing to compare: the float results tell of {_scores(first)}, the quantised ones of {_scores(second)}; "
            "evaluate both on the same data sets"
        )
    alone = [
        f"{_name(score)}: only in the {side} results"
        for own, other, side in ((here, there, "float"), (there, here, "quantised"))
        for key, score in own.items()
        if key not in other and score.subset is None and score.is_primary is not False
    ]
    return pairs, alone


def _name(score: EvaluationScore | JudgedScore) -> str:
    return ", ".join(filter(None, [score.dataset, score.subset, score.metric]))


def _scores(results: EvaluationResults) -> str:
    named = list(dict.fromkeys(f"{each.dataset} ({each.metric})" for each in results.scores if each.subset is None))
    return ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")


# ---- one difference


def _measured(first: EvaluationScore, second: EvaluationScore, confidence: float, repeats: int) -> _Measured:
    if first.value is None or second.value is None:
        side = "float" if first.value is None else "quantised"
        return _Measured(unknown=f"the {side} score is no number")
    if first.questions == 0 or second.questions == 0:
        side = "float" if first.questions == 0 else "quantised"
        return _Measured(unknown=f"the {side} results have no question of it")
    shares = [0 <= each <= 1 for each in (first.value, second.value)]
    if not all(shares):
        scale = "of another scale than the other" if any(shares) else "no share of 1"
        difference = None if any(shares) else second.value - first.value
        return _Measured(difference, unknown=f"a score is {scale}, and the threshold is one of shares")
    others = 0
    if first.answers is not None and second.answers is not None:
        common = first.answers.keys() & second.answers.keys()
        others = sum(first.answers[each].asked != second.answers[each].asked for each in common)
        if common and not others:
            return _by_question(first.answers, second.answers, confidence)
    found = _by_score(first, second, confidence, repeats)
    return found._replace(others=others)


def _by_question(
    first: Mapping[str, AnsweredQuestion], second: Mapping[str, AnsweredQuestion], confidence: float
) -> _Measured:
    """Over the questions that both answered; each other one may hold a difference of up to 1."""
    common = sorted(first.keys() & second.keys())
    pairs = [(first[each].value, second[each].value) for each in common]
    missing = len(first.keys() | second.keys()) - len(common)
    number, difference = len(pairs), fmean(b - a for a, b in pairs)
    if all(a in (0.0, 1.0) and b in (0.0, 1.0) for a, b in pairs):
        alone, other = sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)
        both = sum(a == b == 1.0 for a, b in pairs)
        counts = PairedCounts(both, alone, other, number - both - alone - other)
        interval = intervals.paired(counts, confidence)
        spread = (alone + other + 1) / (number + 2) - difference * difference
        p_value = intervals.mcnemar(alone, other)
        found = _Measured(difference, interval, None, number, PAIRED, max(spread, _TINY), counts, p_value)
    elif not all(0 <= each <= 1 for pair in pairs for each in pair):
        unknown = "an answer is worth more than 1 or less than 0, and the threshold is one of shares"
        return _Measured(difference, questions=number, unknown=unknown)
    else:
        steps = [b - a for a, b in pairs]
        interval = intervals.mean(steps, confidence)
        spread = variance(steps) if number > 1 else 1.0
        found = _Measured(difference, interval, None, number, STUDENT, max(spread, _TINY))
    whole = number + missing
    widest = AccuracyInterval(
        max(-1.0, (number * interval.low - missing) / whole), min(1.0, (number * interval.high + missing) / whole)
    )
    return found._replace(widest=widest, missing=missing)


def _by_score(first: EvaluationScore, second: EvaluationScore, confidence: float, repeats: int) -> _Measured:
    """Of two scores, each a share of right answers: of what rounding and missing questions leave open, the widest."""
    value, other = first.value or 0.0, second.value or 0.0
    difference = other - value
    questions = max(filter(None, (first.questions, second.questions)), default=None)
    if first.right is None or second.right is None or not first.questions or not second.questions:
        return _Measured(difference, questions=questions, unknown=_no_share(first, second, repeats))
    sizes = first.questions, second.questions
    exact = [
        (each.right[0] if each.right[0] == each.right[1] else share * size, size)
        for each, share, size in ((first, value, sizes[0]), (second, other, sizes[1]))
        if each.right is not None
    ]
    if all(each.right is not None and each.right[0] == each.right[1] for each in (first, second)):
        difference = exact[1][0] / sizes[1] - exact[0][0] / sizes[0]
    interval = intervals.unpaired(exact[0], exact[1], confidence)
    number = max(sizes)
    # What the smaller was not asked may have been right or wrong.
    bands = [(band[0], band[1] + number - size) for band, size in zip((first.right, second.right), sizes, strict=True)]
    lowest = intervals.unpaired((bands[0][1], number), (bands[1][0], number), confidence)
    highest = intervals.unpaired((bands[0][0], number), (bands[1][1], number), confidence)
    widest = AccuracyInterval(min(interval.low, lowest.low), max(interval.high, highest.high))
    spread = sum(_spread(right, size) for right, size in exact)
    return _Measured(difference, interval, widest, number, NEWCOMBE, spread, missing=number - min(sizes))


def _spread(right: float, number: int) -> float:
    """The variance of one answer, never nothing: a question more of each kind is counted (Agresti and Caffo)."""
    share = (right + 1) / (number + 2)
    return share * (1 - share)


def _no_share(first: EvaluationScore, second: EvaluationScore, repeats: int) -> str:
    if not first.questions or not second.questions:
        return "the number of questions is not told; give the answers one by one as well"
    if repeats > 1:
        return (
            f"each question was asked {repeats} times, and only numbers of answers are told; give the work folders, "
            "whose reviews tell the answers one by one"
        )
    if first.is_share is None and second.is_share is None:
        return f"{first.metric} is no share of right answers; give the work folders, whose reviews tell each answer"
    return (
        "the score is no share of its questions (weights, points for parts, or rounded once more); give the work "
        "folders, whose reviews tell each answer"
    )


# ---- what a difference means


def _row(
    first: EvaluationScore, second: EvaluationScore, found: _Measured, asked: _Asked, *, is_deciding: bool
) -> JudgedScore:
    higher = first.higher_is_better if first.higher_is_better is not None else second.higher_is_better
    verdict, why, is_real, needed = _meant(found, asked, higher=higher)
    return JudgedScore(
        dataset=first.dataset or None,
        subset=first.subset,
        metric=first.metric,
        is_deciding=is_deciding,
        float_score=first.value,
        quantised_score=second.value,
        questions=found.questions,
        paired=found.method in (PAIRED, STUDENT),
        verdict=verdict,
        why=why,
        difference=found.difference,
        interval=found.interval,
        widest=found.widest,
        confidence=asked.confidence if found.interval is not None else None,
        method=found.method,
        counts=found.counts,
        p_value=found.p_value,
        is_real_loss=is_real,
        higher_is_better=higher,
        needed_questions=needed,
    )


def _meant(found: _Measured, asked: _Asked, *, higher: bool | None) -> tuple[Accuracy, str, bool | None, int | None]:
    """Verdict, why, whether the loss is real, and how many questions would tell."""
    if found.interval is None or found.widest is None or found.difference is None:
        return Accuracy.UNKNOWN, found.unknown, None, None
    if higher is None:
        return Accuracy.UNKNOWN, "whether more is better is not told of this metric", None, None
    sign = 1 if higher else -1
    gain = sign * found.difference
    low, high = sorted((sign * found.widest.low, sign * found.widest.high))
    limit = -asked.threshold - _TINY  # what lies on the threshold is not beyond it
    is_real = high < 0
    if is_real and gain < limit:
        said = "whole interval beyond the threshold" if high < limit else "the interval excludes 0"
        return Accuracy.LOST, f"a real loss of more than {asked.threshold:g}: {said}", True, None
    if low > limit:
        said = "a real loss, and less than the threshold" if is_real else "no loss of more than the threshold"
        return Accuracy.KEPT, said, is_real, None
    plain_low, plain_high = sorted((sign * found.interval.low, sign * found.interval.high))
    if plain_low > limit or (plain_high < 0 and gain < limit):
        what = "questions that only one of them answered" if found.missing else "the rounding of the scores"
        return Accuracy.UNKNOWN, f"not to be told: {what} may hide it", is_real, None
    needed = _needed(found, gain, limit, asked.confidence)
    many = f"; about {needed:,} questions would tell" if needed is not None else ""
    begun = "a real loss, and not to be told whether of more than the threshold" if is_real else "not to be told"
    return Accuracy.UNKNOWN, f"{begun} with {_questions(found.questions)}{many}", is_real, needed


def _questions(number: int | None) -> str:
    return "1 question" if number == 1 else f"{number:,} questions"


def _needed(found: _Measured, gain: float, limit: float, confidence: float) -> int | None:
    """About how many questions would tell a difference as it is; None: it lies on the threshold."""
    distance = -gain if gain < limit else gain - limit
    if found.variance is None or found.questions is None or distance < 2 * _TINY:
        return None
    number = intervals.quantile(confidence) ** 2 * found.variance / (distance * distance)
    if number > 1e9:
        return None
    step: int = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return max(math.ceil(number / step) * int(step), found.questions + 1)


def _together(pairs: Sequence[tuple[EvaluationScore, EvaluationScore]], asked: _Asked, repeats: int) -> JudgedScore:
    """All data sets as one: their questions counted alike."""
    merged = [_merged([pair[side] for pair in pairs]) for side in (0, 1)]
    directions = {each.higher_is_better for pair in pairs for each in pair}
    if any(each is None for each in merged) or len(directions) > 1:
        why = "the data sets are not judged by shares of right answers alone, so that they make no one score"
        return JudgedScore(
            dataset=None,
            subset=None,
            metric="",
            is_deciding=False,
            float_score=None,
            quantised_score=None,
            questions=None,
            paired=False,
            verdict=Accuracy.UNKNOWN,
            why=why,
        )
    first, second = (each for each in merged if each is not None)
    return _row(first, second, _measured(first, second, asked.confidence, repeats), asked, is_deciding=False)


def _merged(parts: Sequence[EvaluationScore]) -> EvaluationScore | None:
    """Scores of several data sets as one; None: they are no shares of right answers."""
    numbers = [part.questions for part in parts]
    bands = [part.right for part in parts]
    if any(band is None for band in bands) or not all(numbers):
        return None
    questions = sum(number or 0 for number in numbers)
    value = sum((part.value or 0.0) * (part.questions or 0) for part in parts) / questions
    answers: dict[str, AnsweredQuestion] | None = {}
    for part in parts:
        if part.answers is None or answers is None:
            answers = None
        else:
            answers |= {f"{score_names.key(part.dataset)}\0{name}": each for name, each in part.answers.items()}
    right = sum(band[0] for band in bands if band), sum(band[1] for band in bands if band)
    names = {part.metric for part in parts}
    metric = names.pop() if len(names) == 1 else "right answers"
    return EvaluationScore(
        dataset="",
        subset=None,
        metric=metric,
        value=value,
        questions=questions,
        right=right,
        is_share=True,
        higher_is_better=parts[0].higher_is_better,
        answers=answers,
    )


# ---- the whole


def _whole(rows: Sequence[JudgedScore], alone: Sequence[str], *, is_same: bool) -> tuple[Accuracy, str]:
    if is_same:
        return Accuracy.UNKNOWN, "both results are the same, and of the same model"
    deciding = [row for row in rows if row.is_deciding]
    lost = [row for row in rows if row.verdict is Accuracy.LOST and (row.is_deciding or row.subset is not None)]
    if lost:
        return Accuracy.LOST, f"{_name(lost[0])}: {lost[0].why}{_more(lost)}"
    unknown = [row for row in deciding if row.verdict is Accuracy.UNKNOWN]
    if unknown:
        return Accuracy.UNKNOWN, f"{_name(unknown[0])}: {unknown[0].why}{_more(unknown)}"
    if not deciding:
        return Accuracy.UNKNOWN, "no data set has the score that it is judged by in both results"
    if alone:
        return Accuracy.UNKNOWN, f"what both tell is kept, and {len(alone)} more cannot be compared"
    return Accuracy.KEPT, f"{_name(deciding[0])}: {deciding[0].why}{_more(deciding)}"


def _more(rows: Sequence[JudgedScore]) -> str:
    return f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""


# ---- what a reader must know


def _note(found: _Measured, score: EvaluationScore, doubts: dict[str, Doubt]) -> None:
    """Say of each data set once what stands between its questions and a comparison."""
    if found.others:
        are = "is" if found.others == 1 else "are"
        said = f"{_questions(found.others)} of {score.dataset} {are} not the same in both: scores are compared."
        do = "Evaluate both with one release, one prompt and one order of the choices."
        doubts.setdefault(f"others {score.dataset}", Doubt("other-questions", said, do))
    if found.missing:
        were = "was" if found.missing == 1 else "were"
        said = f"{_questions(found.missing)} of {score.dataset} {were} answered by one alone: the interval is wider."
        doubts.setdefault(
            f"missing {score.dataset}", Doubt("missing-questions", said, "Evaluate both on all questions.")
        )


def _doubts(first: EvaluationResults, second: EvaluationResults) -> Iterator[Doubt]:
    if first.model and first.model == second.model:
        said = f"Both results are of a model called {first.model}."
        yield Doubt("same-model", said, "See that the second was asked of the quantised server: its name and port.")
        if first.scores == second.scores:
            yield Doubt(
                "same-results", "Both tell the same scores of the same model.", "Give the results of the two models."
            )
    is_swapped = score_names.looks_quantised(first.model) and not score_names.looks_quantised(second.model)
    if is_swapped and second.model:
        said = f"The float results are of {first.model}, which is quantised by its name; the others of {second.model}."
        yield Doubt("swapped", said, "See that the float results come first.")
    heats = [each.temperature for each in (first, second)]
    if any(heat is not None and heat > 0 for heat in heats):
        told = " and ".join("unknown" if heat is None else f"{heat:g}" for heat in heats)
        said = f"Answers were sampled (temperature {told}): another run gives other scores."
        yield Doubt("sampled", said, "Evaluate with temperature 0, or several times.")
    elif None not in heats and heats[0] != heats[1]:
        yield Doubt(
            "other-settings", "The two were asked with different temperatures.", "Evaluate both with one setting."
        )
    repeats = _repeats(first, second)
    several = next(
        (each.metric for each in (*first.scores, *second.scores) if score_names.is_of_several(each.metric)), ""
    )
    if repeats > 1 or several:
        said = f"Each question was asked {repeats} times" if repeats > 1 else f"{several} sums up several answers"
        text = f"{said}: answers to one question count as one."
        yield Doubt("several-answers", text, "Nothing, as long as both were asked equally often.")
    for each in dict.fromkeys((*first.doubts, *second.doubts)):
        sides = [name for name, told in (("float", first), ("quantised", second)) if each in told.doubts]
        yield Doubt(each.id, f"In the {' and the '.join(sides)} results: {each.text}", each.do)
