"""Compare the scores of the float and the quantised model: each difference with its interval, against a threshold.

A loss is *real* if the interval of the difference excludes 0, and *too much* beyond the threshold. The verdict is lost
if it is both, kept if the whole interval is above the threshold, and unknown otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.edge10.accuracy import intervals, score_names
from vllm_runbooks.edge10.accuracy.records import (
    Accuracy,
    AccuracyComparison,
    AccuracyInterval,
    AnsweredQuestion,
    Doubt,
    EvaluationResults,
    EvaluationScore,
    PairedCounts,
    ScoreComparison,
)

THRESHOLD, CONFIDENCE = 0.01, 0.95
"""By default a loss of more than one point of a hundred is too much."""
NEWCOMBE, PAIRED = "Newcombe's hybrid score interval, unpaired", "Newcombe's hybrid score interval, paired"
_TINY = 1e-9


class _Difference(NamedTuple):
    """Difference of two scores, as far as known."""

    difference: float | None = None
    interval: AccuracyInterval | None = None
    widest: AccuracyInterval | None = None
    questions: int | None = None
    method: str = ""
    paired: bool = False
    variance: float | None = None
    """Variance of the difference for one question."""
    counts: PairedCounts | None = None
    unknown: str = ""
    """Why there is no interval."""
    missing: int = 0
    """Questions that only one model answered."""
    different: int = 0
    """Questions with the same name and different texts."""


def check(threshold: float, confidence: float) -> None:
    """Validate the limits; raises InputError."""
    are_numbers = all(type(value) in (int, float) for value in (threshold, confidence))
    if not are_numbers or not 0 <= threshold <= 1 or not 0.5 <= confidence <= 0.9999:
        raise InputError(
            f"threshold {threshold}, confidence {confidence}: use a threshold from 0 to 1, such as 0.01 for one point, "
            "and a confidence from 0.5 to 0.9999"
        )


def compare(
    float_: EvaluationResults,
    quantised: EvaluationResults,
    *,
    threshold: float = THRESHOLD,
    confidence: float = CONFIDENCE,
) -> AccuracyComparison:
    """Compare the results of two models.

    Args:
        float_: Results of the float model.
        quantised: Results of the model derived from it, on the same data sets.
        threshold: The largest accepted loss, as a share.
        confidence: Confidence level of the intervals, between 0.5 and 1.

    Raises:
        InputError: A limit is out of range, or the results have nothing in common.
    """
    check(threshold, confidence)
    pairs, unmatched = _match(float_, quantised)
    subsets = Counter((first.dataset, first.metric) for first, _ in pairs if first.subset is not None)
    rows: list[ScoreComparison] = []
    doubts: dict[str, Doubt] = {}
    for first, second in pairs:
        count = subsets[first.dataset, first.metric] if first.subset is not None else 1
        of_pair = 1 - (1 - confidence) / count if count > 1 else confidence
        difference = _compare(first, second, of_pair)
        rows.append(_row(first, second, difference, threshold, of_pair))
        for doubt in _question_doubts(difference, first.dataset):
            doubts.setdefault(f"{doubt.id} {first.dataset}", doubt)
    for doubt in _result_doubts(float_, quantised):
        doubts.setdefault(doubt.text, doubt)
    is_same = any(doubt.id == "same-results" for doubt in doubts.values())
    verdict, why = _verdict(rows, unmatched, is_same=is_same)
    return AccuracyComparison(
        verdict=verdict,
        reason=why,
        float_model=float_.model,
        float_kind=float_.kind,
        quantised_model=quantised.model,
        quantised_kind=quantised.kind,
        threshold=threshold,
        confidence=confidence,
        scores=tuple(rows),
        doubts=tuple(doubts.values()),
        not_compared=tuple(unmatched),
    )


# ---- which scores are compared


def _is_deciding(first: EvaluationScore, second: EvaluationScore) -> bool:
    """Whether the data set's verdict rests on this score; on each if no report marks it."""
    return first.is_primary is not False and second.is_primary is not False


def _match(
    first: EvaluationResults, second: EvaluationResults
) -> tuple[list[tuple[EvaluationScore, EvaluationScore]], list[str]]:

    def by_key(results: EvaluationResults) -> dict[tuple[str, str | None, str], EvaluationScore]:
        return {
            (score_names.key(score.dataset), score.subset and score_names.key(score.subset), score.metric): score
            for score in results.scores
        }

    ours, theirs = by_key(first), by_key(second)
    # Subsets are compared by the deciding metric only.
    pairs = [
        (score, theirs[key])
        for key, score in ours.items()
        if key in theirs and (score.subset is None or _is_deciding(score, theirs[key]))
    ]
    if not any(score.subset is None for score, _ in pairs):
        raise InputError(
            f"nothing to compare: the float results are of {_datasets(first)}, the quantised ones of "
            f"{_datasets(second)}; evaluate both on the same data sets"
        )
    unmatched = [
        f"{_name(score)}: only in the {side} results"
        for scores, others, side in ((ours, theirs, "float"), (theirs, ours, "quantised"))
        for key, score in scores.items()
        if key not in others and score.subset is None and score.is_primary is not False
    ]
    return pairs, unmatched


def _name(score: EvaluationScore | ScoreComparison) -> str:
    return ", ".join(filter(None, [score.dataset, score.subset, score.metric]))


def _datasets(results: EvaluationResults) -> str:
    names = list(dict.fromkeys(f"{score.dataset} ({score.metric})" for score in results.scores if score.subset is None))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


# ---- one difference


def _compare(first: EvaluationScore, second: EvaluationScore, confidence: float) -> _Difference:
    for score, side in ((first, "float"), (second, "quantised")):
        if score.value is None:
            return _Difference(unknown=f"the {side} score is not a number")
        if score.questions == 0:
            return _Difference(unknown=f"the {side} results have no questions for it")
    value, other = first.value or 0.0, second.value or 0.0
    shares = [0 <= share <= 1 for share in (value, other)]
    if not all(shares):
        difference = None if any(shares) else other - value
        return _Difference(difference, unknown="a score is not a fraction, but the threshold is")
    different = 0
    if first.answers is not None and second.answers is not None:
        ours, theirs = first.answers, second.answers
        common = ours.keys() & theirs.keys()
        different = sum(ours[question].prompt != theirs[question].prompt for question in common)
        if common and not different:
            return _compare_answers(ours, theirs, confidence)
    return _compare_scores(first, second, confidence)._replace(different=different)


def _compare_answers(
    first: Mapping[str, AnsweredQuestion], second: Mapping[str, AnsweredQuestion], confidence: float
) -> _Difference:
    """Compare question by question; each question that one model lacks may differ by up to 1."""
    common = sorted(first.keys() & second.keys())
    pairs = [(first[question].value, second[question].value) for question in common]
    missing = len(first.keys() | second.keys()) - len(common)
    number, difference = len(pairs), fmean(b - a for a, b in pairs)
    if any(value not in (0.0, 1.0) for pair in pairs for value in pair):
        unknown = "answers have points instead of right or wrong"
        return _Difference(difference, questions=number, unknown=unknown, paired=True)
    tally = Counter(pairs)
    counts = PairedCounts(tally[1.0, 1.0], tally[1.0, 0.0], tally[0.0, 1.0], tally[0.0, 0.0])
    changed = counts.float_alone + counts.quantised_alone
    interval = intervals.paired(counts, confidence)
    spread = max((changed + 1) / (number + 2) - difference * difference, _TINY)
    total = number + missing
    low, high = (number * interval.low - missing) / total, (number * interval.high + missing) / total
    widest = AccuracyInterval(max(-1.0, low), min(1.0, high))
    return _Difference(difference, interval, widest, number, PAIRED, True, spread, counts, missing=missing)


def _compare_scores(first: EvaluationScore, second: EvaluationScore, confidence: float) -> _Difference:
    """Compare two shares of right answers; the widest interval covers rounding and missing questions."""
    value, other = first.value or 0.0, second.value or 0.0
    questions = max(filter(None, (first.questions, second.questions)), default=None)
    if first.right is None or second.right is None or not first.questions or not second.questions:
        return _Difference(other - value, questions=questions, unknown=_reason_unknown(first, second))
    sizes = first.questions, second.questions
    is_exact = [band[0] == band[1] for band in (first.right, second.right)]
    right = (
        first.right[0] if is_exact[0] else value * sizes[0],
        second.right[0] if is_exact[1] else other * sizes[1],
    )
    difference = right[1] / sizes[1] - right[0] / sizes[0] if all(is_exact) else other - value
    interval = intervals.unpaired((right[0], sizes[0]), (right[1], sizes[1]), confidence)
    number = max(sizes)
    # Questions missing in the smaller run may be correct or not.
    bands = [(band[0], band[1] + number - size) for band, size in zip((first.right, second.right), sizes, strict=True)]
    lowest = intervals.unpaired((bands[0][1], number), (bands[1][0], number), confidence)
    highest = intervals.unpaired((bands[0][0], number), (bands[1][1], number), confidence)
    widest = AccuracyInterval(min(interval.low, lowest.low), max(interval.high, highest.high))
    # One more question of each kind, so that the variance is never 0 (Agresti and Caffo).
    shares = [(count + 1) / (size + 2) for count, size in zip(right, sizes, strict=True)]
    spread = sum(share * (1 - share) for share in shares)
    return _Difference(difference, interval, widest, number, NEWCOMBE, variance=spread, missing=number - min(sizes))


def _reason_unknown(first: EvaluationScore, second: EvaluationScore) -> str:
    if not first.questions or not second.questions:
        return "unknown number of questions; add the individual answers"
    return "the score is not a fraction of right answers; use the work folders, whose reviews contain each answer"


# ---- the verdict on a difference


def _row(
    first: EvaluationScore, second: EvaluationScore, comparison: _Difference, threshold: float, confidence: float
) -> ScoreComparison:
    higher = first.higher_is_better if first.higher_is_better is not None else second.higher_is_better
    verdict, why, is_real, needed = _assess(comparison, threshold, confidence, higher=higher)
    return ScoreComparison(
        dataset=first.dataset or None,
        subset=first.subset,
        metric=first.metric,
        is_deciding=first.subset is None and _is_deciding(first, second),
        float_score=first.value,
        quantised_score=second.value,
        questions=comparison.questions,
        paired=comparison.paired,
        verdict=verdict,
        reason=why,
        difference=comparison.difference,
        interval=comparison.interval,
        widest=comparison.widest,
        confidence=confidence if comparison.interval is not None else None,
        method=comparison.method,
        counts=comparison.counts,
        is_real_loss=is_real,
        higher_is_better=higher,
        needed_questions=needed,
    )


def _assess(
    comparison: _Difference, threshold: float, confidence: float, *, higher: bool | None
) -> tuple[Accuracy, str, bool | None, int | None]:
    """Verdict, its reason, whether the loss is significant, and the number of questions needed."""
    if comparison.interval is None or comparison.widest is None or comparison.difference is None:
        return Accuracy.UNKNOWN, comparison.unknown, None, None
    if higher is None:
        return Accuracy.UNKNOWN, "unknown whether a higher value of this metric is better", None, None
    sign = 1 if higher else -1
    gain = sign * comparison.difference
    low, high = sorted((sign * comparison.widest.low, sign * comparison.widest.high))
    limit = -threshold - _TINY  # a loss equal to the threshold is accepted
    is_real = high < 0
    if is_real and gain < limit:
        reason = "whole interval beyond the threshold" if high < limit else "the interval excludes 0"
        return Accuracy.LOST, f"a real loss of more than {threshold:g}: {reason}", True, None
    if low > limit:
        text = "a real loss, but less than the threshold" if is_real else "no loss of more than the threshold"
        return Accuracy.KEPT, text, is_real, None
    plain_low, plain_high = sorted((sign * comparison.interval.low, sign * comparison.interval.high))
    if plain_low > limit or (plain_high < 0 and gain < limit):
        cause = "questions that only one model answered" if comparison.missing else "the rounding of the scores"
        return Accuracy.UNKNOWN, f"inconclusive: {cause} may hide a loss", is_real, None
    needed = _needed_questions(comparison, gain, limit, confidence)
    more = f", about {needed:,} needed" if needed is not None else ""
    start = "a real loss, but inconclusive whether it exceeds the threshold" if is_real else "inconclusive"
    if comparison.questions is not None:
        start += f": {count_of(comparison.questions, 'question')}"
    return Accuracy.UNKNOWN, f"{start}{more}", is_real, needed


def _needed_questions(comparison: _Difference, gain: float, limit: float, confidence: float) -> int | None:
    """Approximate number of questions that would decide the same difference.

    None at the threshold.
    """
    distance = -gain if gain < limit else gain - limit
    if comparison.variance is None or comparison.questions is None or distance < 2 * _TINY:
        return None
    number = intervals.quantile(confidence) ** 2 * comparison.variance / (distance * distance)
    if number > 1e9:
        return None
    step: int = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return max(math.ceil(number / step) * int(step), comparison.questions + 1)


def _verdict(rows: Sequence[ScoreComparison], unmatched: Sequence[str], *, is_same: bool) -> tuple[Accuracy, str]:
    if is_same:
        return Accuracy.UNKNOWN, "both results are the same, and of the same model"
    deciding = [row for row in rows if row.is_deciding]
    lost = [row for row in rows if row.verdict is Accuracy.LOST and (row.is_deciding or row.subset is not None)]
    unknown = [row for row in deciding if row.verdict is Accuracy.UNKNOWN]
    for verdict, group in ((Accuracy.LOST, lost), (Accuracy.UNKNOWN, unknown)):
        if group:
            return verdict, _reason(group)
    if not deciding:
        return Accuracy.UNKNOWN, "no data set has its main score in both results"
    if unmatched:
        return Accuracy.UNKNOWN, f"no loss in the common scores, but {len(unmatched)} more cannot be compared"
    return Accuracy.KEPT, _reason(deciding)


def _reason(rows: Sequence[ScoreComparison]) -> str:
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{_name(rows[0])}: {rows[0].reason}{more}"


# ---- doubts


def _question_doubts(comparison: _Difference, dataset: str) -> Iterator[Doubt]:
    if comparison.different:
        are = "is" if comparison.different == 1 else "are"
        text = (
            f"{count_of(comparison.different, 'question')} of {dataset} {are} different in the two "
            "results: only scores are compared."
        )
        do = "Evaluate both with one release, one prompt and one order of the choices."
        yield Doubt("other-questions", text, do)
    if comparison.missing:
        were = "was" if comparison.missing == 1 else "were"
        number = count_of(comparison.missing, "question")
        text = f"{number} of {dataset} {were} answered by only one model: the interval is wider."
        yield Doubt("missing-questions", text, "Evaluate both on all questions.")


def _result_doubts(first: EvaluationResults, second: EvaluationResults) -> Iterator[Doubt]:
    if first.model and first.model == second.model:
        text = f"Both results are of a model called {first.model}."
        yield Doubt(
            "same-model", text, "Check that the second evaluation used the quantised server: its name and port."
        )
        if first.scores == second.scores:
            text = "Both results have the same scores of the same model."
            yield Doubt("same-results", text, "Use the results of the two models.")
    is_swapped = score_names.looks_quantised(first.model) and not score_names.looks_quantised(second.model)
    if is_swapped and second.model:
        text = (
            f"The float results are of {first.model}, whose name is that of a quantized model; "
            f"the others are of {second.model}."
        )
        yield Doubt("swapped", text, "Check that the float results come first.")
    temperatures = [first.temperature, second.temperature]
    if any(temperature is not None and temperature > 0 for temperature in temperatures):
        values = " and ".join("unknown" if temperature is None else f"{temperature:g}" for temperature in temperatures)
        text = f"Answers were sampled (temperature {values}): another run has other scores."
        yield Doubt("sampled", text, "Evaluate with temperature 0.")
    for doubt in dict.fromkeys((*first.doubts, *second.doubts)):
        sides = [name for name, results in (("float", first), ("quantised", second)) if doubt in results.doubts]
        yield Doubt(doubt.id, f"In the {' and the '.join(sides)} results: {doubt.text}", doubt.do)
