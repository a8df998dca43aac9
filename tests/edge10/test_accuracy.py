"""Float and quantized accuracy compared: real reports, valid intervals, hostile input rejected."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from command_line import measured, run
from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import comparing as accuracy
from vllm_runbooks.edge10.accuracy import (
    evalscope_reports,
    intervals,
    reports,
    results,
    score_names,
    vlmeval_reports,
    workbooks,
)
from vllm_runbooks.edge10.accuracy.records import (
    Accuracy,
    AccuracyComparison,
    EvaluationResults,
    PairedCounts,
    ScoreComparison,
)
from vllm_runbooks.edge10.accuracy.reports import ResultFile

ROOT = Path(__file__).resolve().parents[1] / "edge10_reports"
EXPECTED = YAML(typ="safe").load(ROOT / "expected.yaml")
HEAD = "| Model | Dataset | Metric | Subset | Num | Score |\n|---|---|---|---|---|---|\n"


def table(*rows: str, model: str = "m") -> EvaluationResults:
    """A table of EvalScope's: each row is `data set metric subset number score`."""
    lines = [f"| {model} | {' | '.join(row.split())} |" for row in rows]
    return reports.read([ResultFile("", (HEAD + "\n".join(lines)).encode())], "a table")


def both(*rows: tuple[str, str], **asked: float) -> AccuracyComparison:
    """Two tables compared; each row begins with the float model's score."""
    return accuracy.compare(table(*(a for a, _ in rows)), table(*(b for _, b in rows), model="m-awq"), **asked)


def only(found: AccuracyComparison) -> ScoreComparison:
    (row,) = found.scores
    return row


def review(question: int, value: float, *, asked: str = "", **more: Any) -> str:
    """A line of EvalScope's reviews."""
    score = {"value": {"accuracy": value}, **more}
    messages = [{"role": "user", "content": asked or f"question {question}"}, {"role": "assistant", "content": "A"}]
    return json.dumps({"index": question, "messages": messages, "sample_score": {"score": score, "group_id": question}})


def report(**changes: Any) -> dict[str, Any]:
    """A report in EvalScope's form of 1.1.0."""
    subsets = [{"name": "part", "score": 0.75, "num": 20}]
    metric = {"name": "mean_acc", "num": 20, "score": 0.75, "categories": [{"name": ["default"], "subsets": subsets}]}
    return {"name": "m@set", "dataset_name": "set", "model_name": "m", "score": 0.75, "metrics": [metric], **changes}


def answered(lines: Sequence[str], *, model: str = "m", metric: str = "accuracy", end: str = "\n") -> EvaluationResults:
    """A work folder with reviews, and the report that EvalScope makes of them."""
    values = [json.loads(line)["sample_score"]["score"]["value"][metric] for line in lines]
    mean, number = round(sum(values) / len(values), 4), len(values)
    subsets = [{"name": "part", "score": mean, "num": number}]
    entry = {"name": f"mean_{metric}", "num": number, "score": mean, "categories": [{"subsets": subsets}]}
    files = [
        ResultFile(f"reports/{model}/set.json", json.dumps(report(model_name=model, metrics=[entry])).encode()),
        ResultFile(f"reviews/{model}/set_part.jsonl", end.join([*lines, ""]).encode()),
    ]
    return reports.read(files, "work")


def reviewed(*values: float, model: str = "m", asked: str = "", metric: str = "accuracy") -> EvaluationResults:
    """A review folder with these answers."""
    lines = [review(number, value, asked=asked).replace("accuracy", metric) for number, value in enumerate(values)]
    return answered(lines, model=model, metric=metric)


def read(data: Any) -> EvaluationResults:
    return reports.read([ResultFile("", json.dumps(data).encode())], "report.json")


# ---- expectations written before the results were read


def sides(pair: dict[str, Any], folder: Path) -> Iterator[EvaluationResults]:
    for side in ("float", "quantised"):
        path = ROOT / pair.get(side, "")
        if f"{side}_table" in pair:
            path = folder / f"{side}.txt"
            path.write_text(pair[f"{side}_table"], encoding="utf-8")
        elif pair.get("alone"):
            path = Path(shutil.copy(path, folder / f"{side}.json"))
        yield results.read(path)


@pytest.mark.parametrize("pair", EXPECTED["pairs"], ids=lambda pair: pair["id"])
def test_real_results_have_their_expected_verdicts(pair: dict[str, Any], tmp_path: Path) -> None:
    """Verdict, differences, intervals, counts and doubts of results that real releases wrote."""
    found = accuracy.compare(*sides(pair, tmp_path))

    assert found.verdict == pair["verdict"]
    for row in pair["rows"]:
        told = next(
            each
            for each in found.scores
            if score_names.key(each.dataset or "") == score_names.key(row["dataset"])
            and each.subset == row.get("subset")
            and row.get("metric") in (None, each.metric)
        )
        assert told.verdict == row["verdict"]
        assert told.questions == row["questions"]
        assert told.paired == row.get("paired", told.paired)
        assert told.difference == pytest.approx(row["difference"], abs=6e-5)
        if "counts" in row:
            assert told.counts == PairedCounts(*row["counts"])
        if row.get("interval"):
            assert told.interval is not None
            assert [told.interval.low, told.interval.high] == pytest.approx(row["interval"], abs=6e-5)
        elif "interval" in row:
            assert told.interval is None
    assert {doubt.id for doubt in found.doubts} >= set(pair.get("doubts", []))


def test_the_loss_of_the_document_is_real_and_too_much() -> None:
    """0.6224 to 0.5901 over 14,042 questions: rounding moves the interval by no more than three ten-thousandths."""
    found = both(("mmlu mean_acc OVERALL 14042 0.6224", "mmlu mean_acc OVERALL 14042 0.5901"))
    row = only(found)

    assert found.verdict is Accuracy.LOST
    assert row.is_real_loss is True
    assert row.interval is not None
    assert row.widest is not None
    assert row.widest.low < row.interval.low < row.interval.high < row.widest.high < -0.01
    assert row.interval.low - row.widest.low < 3e-4


# ---- intervals


@pytest.mark.parametrize("case", EXPECTED["unpaired"], ids=lambda case: str(case["counts"]))
def test_intervals_of_two_shares_match_references(case: dict[str, Any]) -> None:
    """Newcombe's own table, and statsmodels."""
    a, m, b, n = case["counts"]
    found = intervals.unpaired((a, m), (b, n), 0.95)

    assert [found.low, found.high] == pytest.approx(case["interval"], abs=2e-6)


@pytest.mark.parametrize("case", EXPECTED["paired"], ids=lambda case: str(case["counts"]))
def test_intervals_of_pairs_match_references(case: dict[str, Any]) -> None:
    """A published example."""
    found = intervals.paired(PairedCounts(*case["counts"]), 0.95)

    assert [found.low, found.high] == pytest.approx(case["interval"], abs=5e-4)


@pytest.mark.parametrize("shares", [(0.55, 0.15, 0.1), (0.3, 0.1, 0.3), (0.85, 0.1, 0.02)])
def test_paired_intervals_have_their_nominal_coverage(shares: tuple[float, float, float]) -> None:
    """Over all outcomes of 24 questions, by their probabilities; the worst found is a little below 95%."""
    number, (both_right, alone, other) = 24, shares
    neither, truth, held = 1 - sum(shares), other - alone, 0.0
    for a, b, c in product(range(number + 1), repeat=3):
        if (d := number - a - b - c) < 0:
            continue
        found = intervals.paired(PairedCounts(a, b, c, d), 0.95)
        if found.low - 1e-9 <= truth <= found.high + 1e-9:
            ways = math.factorial(number)
            for each in (a, b, c, d):
                ways //= math.factorial(each)
            held += ways * both_right**a * alone**b * other**c * neither**d

    assert 0.935 < held < 0.99


def test_three_questions_have_an_interval_and_no_verdict() -> None:
    """Even if both models answered all correctly."""
    found = both(("set acc part 3 1.0", "set acc part 3 1.0"))
    row = only(found)

    assert found.verdict is Accuracy.UNKNOWN
    assert row.interval is not None
    assert row.interval.high - row.interval.low > 1
    assert row.needed_questions is not None
    assert row.needed_questions > 100
    assert only(accuracy.compare(reviewed(1, 1, 1), reviewed(1, 1, 1, model="m-awq"))).verdict is Accuracy.UNKNOWN


def test_points_of_another_scale_have_no_interval() -> None:
    """Even if their mean is between 0 and 1."""
    row = only(accuracy.compare(reviewed(3.0, -2.0), reviewed(3.0, -3.0, model="m-awq")))

    assert (row.verdict, row.interval, row.difference) == (Accuracy.UNKNOWN, None, -0.5)
    assert "answers have points" in row.reason


# ---- verdicts


def test_a_small_loss_of_many_questions_is_kept() -> None:
    """Half a point of a million questions is real, and below the threshold."""
    row = only(both(("set acc OVERALL 1000000 0.8", "set acc OVERALL 1000000 0.795")))

    assert (row.verdict, row.is_real_loss) == (Accuracy.KEPT, True)


def test_a_loss_near_the_threshold_is_undecided() -> None:
    """The interval excludes 0 and includes the threshold."""
    row = only(both(("set acc OVERALL 100000 0.8", "set acc OVERALL 100000 0.791")))

    assert (row.verdict, row.is_real_loss) == (Accuracy.UNKNOWN, True)
    assert row.needed_questions is not None
    assert row.needed_questions > 100_000


@pytest.mark.parametrize(("loss", "verdict"), [(0.03, Accuracy.LOST), (0.002, Accuracy.KEPT)])
def test_the_suggested_number_of_questions_decides(loss: float, verdict: Accuracy) -> None:
    """With this number the same difference has a verdict, with half of it none."""
    few = only(both(("set acc OVERALL 500 0.8", f"set acc OVERALL 500 {0.8 - loss}")))
    assert few.needed_questions is not None

    def asked(number: int) -> Accuracy:
        return only(both((f"set acc OVERALL {number} 0.8", f"set acc OVERALL {number} {0.8 - loss}"))).verdict

    assert asked(round(few.needed_questions * 1.15 / 500) * 500) is verdict
    assert asked(few.needed_questions // 1000 * 500) is Accuracy.UNKNOWN


def test_the_threshold_and_the_confidence_are_the_callers() -> None:
    """A loss of three points is kept where five are allowed, and a narrow interval needs less confidence."""
    rows = ("mmlu acc OVERALL 14042 0.6224", "mmlu acc OVERALL 14042 0.5901")

    assert both(rows, threshold=0.05).verdict is Accuracy.KEPT
    assert both(rows, threshold=0.03).verdict is Accuracy.LOST
    assert both(("s acc OVERALL 400 0.80", "s acc OVERALL 400 0.75")).verdict is Accuracy.UNKNOWN
    assert both(("s acc OVERALL 400 0.80", "s acc OVERALL 400 0.75"), confidence=0.8).verdict is Accuracy.LOST


@pytest.mark.parametrize(
    "asked",
    [{"threshold": -0.1}, {"threshold": math.nan}, {"threshold": "1 %"}, {"confidence": 1.0}, {"confidence": 95}],
)
def test_an_impossible_request_is_rejected(asked: dict[str, Any]) -> None:
    """In one line."""
    with pytest.raises(InputError, match="use a threshold from 0 to 1"):
        both(("s acc OVERALL 4 0.5", "s acc OVERALL 4 0.5"), **asked)


def test_lower_is_better_for_some_metrics() -> None:
    """An error rate that rises is a loss."""
    told = [
        reviewed(*[0.0] * 60, metric="wer"),
        reviewed(*[float(n % 2) for n in range(60)], model="m-awq", metric="wer"),
    ]

    assert accuracy.compare(told[0], told[1]).verdict is Accuracy.LOST
    assert accuracy.compare(told[1], told[0]).verdict is Accuracy.KEPT


def test_an_unknown_metric_has_no_direction() -> None:
    """Whether a higher score is better is not guessed."""
    row = only(both(("set strange OVERALL 100 0.9", "set strange OVERALL 100 0.2")))

    assert row.verdict is Accuracy.UNKNOWN
    assert row.difference == pytest.approx(-0.7)


def test_answers_with_an_unknown_metric_have_no_verdict() -> None:
    """Answers and interval are reported without a direction."""
    told = reviewed(*[float(n % 2) for n in range(99)], metric="strange")
    row = only(accuracy.compare(told, told))

    assert (row.verdict, row.paired) == (Accuracy.UNKNOWN, True)
    assert row.interval is not None
    assert "whether a higher value" in row.reason


def test_a_mean_without_its_answers_has_no_interval() -> None:
    """The spread of ROUGE over a hundred answers is unknown."""
    row = only(both(("set Rouge-L-F OVERALL 100 0.61", "set Rouge-L-F OVERALL 100 0.42")))

    assert (row.interval, row.verdict) == (None, Accuracy.UNKNOWN)
    assert "reviews" in row.reason


def test_a_score_that_is_not_a_share_has_no_interval() -> None:
    """0.6224 of 3 questions is not a number of correct answers, so there are partial scores."""
    row = only(both(("set acc OVERALL 3 0.6224", "set acc OVERALL 3 0.5901")))

    assert (row.interval, row.verdict) == (None, Accuracy.UNKNOWN)


def test_a_collapsed_subset_is_a_loss_even_if_the_total_is_kept() -> None:
    """One of twenty subjects fell from 0.9 to 0.1, the total by half a point."""
    rows = [(f"set acc s{n} 5000 0.8", f"set acc s{n} 5000 0.8") for n in range(19)]
    found = both(*rows, ("set acc s19 600 0.9", "set acc s19 600 0.1"))

    assert found.scores[0].verdict is Accuracy.KEPT
    assert found.verdict is Accuracy.LOST
    assert "s19" in found.reason


def test_subsets_have_wider_intervals() -> None:
    """Of 40 subsets two would be worse by chance; none is called lost for it."""
    rows = [(f"set acc s{n} 200 0.8", f"set acc s{n} 200 {0.72 if n < 2 else 0.8}") for n in range(40)]
    alone = only(both(rows[0], confidence=0.95))
    found = both(*rows)

    assert found.scores[1].interval is not None
    assert alone.interval is not None
    assert found.scores[1].interval.low < alone.interval.low
    assert found.scores[1].verdict is Accuracy.UNKNOWN


def test_several_data_sets_are_compared_separately() -> None:
    """One loss is enough."""
    found = both(
        ("one acc OVERALL 9000 0.9", "one acc OVERALL 9000 0.9"),
        ("two acc OVERALL 9000 0.9", "two acc OVERALL 9000 0.8"),
    )

    assert [row.verdict for row in found.scores] == [Accuracy.KEPT, Accuracy.LOST]
    assert found.verdict is Accuracy.LOST


# ---- whether the two can be compared


def test_paired_answers_detect_smaller_losses() -> None:
    """Forty of a thousand questions were lost, none won: without pairs this is undecided."""
    first, second = [1.0] * 700 + [0.0] * 300, [1.0] * 660 + [0.0] * 340
    found = accuracy.compare(reviewed(*first), reviewed(*second, model="m-awq"))
    apart = accuracy.compare(reviewed(*first), reviewed(*second, model="m-awq", asked="another prompt"))

    assert (only(found).paired, found.verdict) == (True, Accuracy.LOST)
    assert (only(apart).paired, apart.verdict) == (False, Accuracy.UNKNOWN)
    assert "other-questions" in {doubt.id for doubt in apart.doubts}


def test_answers_of_only_one_model_leave_the_scores_to_compare() -> None:
    """A review folder on one side, a printed table on the other, in either order."""
    answered, printed = reviewed(*[1.0] * 30, *[0.0] * 10), table("set acc OVERALL 40 0.5", model="q")
    for first, second, difference in ((answered, printed, -0.25), (printed, answered, 0.25)):
        row = only(accuracy.compare(first, second))

        assert (row.paired, row.counts, row.questions) == (False, None, 40)
        assert row.difference == pytest.approx(difference)


def test_answers_are_matched_by_question() -> None:
    """A server with varying latency writes them in another order."""
    lines = [review(n, float(n % 3 > 0)) for n in range(90)]
    first, second = answered(lines), answered(lines[::-1], model="m-awq")

    assert only(accuracy.compare(first, second)).counts == PairedCounts(60, 0, 0, 30)


def test_missing_questions_widen_the_interval() -> None:
    """A tenth of the questions missing may hide a loss of a tenth."""
    found = accuracy.compare(reviewed(*[1.0] * 5000), reviewed(*[1.0] * 4500, model="m-awq"))
    row = only(found)

    assert row.questions == 4500
    assert row.widest is not None
    assert row.widest.low == pytest.approx(-0.1, abs=0.002)
    assert (found.verdict, row.needed_questions) == (Accuracy.UNKNOWN, None)
    assert "missing-questions" in {doubt.id for doubt in found.doubts}


def test_different_numbers_of_questions_are_never_paired() -> None:
    """1,000 first questions against all: the result of the others is unknown."""
    found = both(("mmlu acc OVERALL 14042 0.6224", "mmlu acc OVERALL 1000 0.5"))

    assert found.verdict is Accuracy.UNKNOWN
    assert "missing-questions" in {doubt.id for doubt in found.doubts}


@pytest.mark.parametrize("score", ["-", "nan", "—", "622.4", "-0.2"])
def test_an_invalid_score_is_unknown(score: str) -> None:
    """Not a number, or none that a share can be."""
    row = only(both(("mmlu acc OVERALL 14042 0.6224", f"mmlu acc OVERALL 14042 {score}")))

    assert (row.verdict, row.interval) == (Accuracy.UNKNOWN, None)


def test_a_report_without_questions_is_unknown() -> None:
    """A failed evaluation has a score of 0 over 0 questions."""
    row = only(both(("mmlu acc OVERALL 14042 0.6224", "mmlu acc OVERALL 0 0.0")))

    assert row.verdict is Accuracy.UNKNOWN
    assert "no question" in row.reason


def test_results_without_common_data_sets_are_rejected() -> None:
    """Other data sets, and other metrics of one data set, in a line that names them."""
    for other in ("ceval acc OVERALL 10 0.5", "mmlu f1 OVERALL 10 0.5"):
        with pytest.raises(InputError, match=r"nothing to compare: the float results are of mmlu \(accuracy\)"):
            both(("mmlu acc OVERALL 10 0.5", other))
    many = table(*(f"set{n} acc OVERALL 10 0.5" for n in range(5)))
    with pytest.raises(InputError, match=r"set2 \(accuracy\), set3 \(accuracy\) and 1 more, the quantised ones"):
        accuracy.compare(many, table("mmlu acc OVERALL 10 0.5", model="q"))


def test_a_missing_data_set_prevents_a_pass() -> None:
    """A data set that was not evaluated again is named."""
    found = accuracy.compare(
        table("one acc OVERALL 90000 0.9", "two acc OVERALL 90000 0.9"), table("one acc OVERALL 90000 0.9", model="q")
    )

    assert found.verdict is Accuracy.UNKNOWN
    assert found.not_compared == ("two, accuracy: only in the float results",)


def test_equal_models_or_results_raise_a_doubt() -> None:
    """The quantized server may not have been queried, or a report was copied."""
    rows = ("mmlu acc OVERALL 90000 0.6224", "mmlu acc OVERALL 90000 0.6220")
    other = accuracy.compare(table(rows[0]), table(rows[1]))
    same = accuracy.compare(table(rows[0]), table(rows[0]))

    assert [doubt.id for doubt in other.doubts] == ["same-model"]
    assert (other.verdict, same.verdict) == (Accuracy.KEPT, Accuracy.UNKNOWN)
    assert [doubt.id for doubt in same.doubts] == ["same-model", "same-results"]


def test_swapped_results_raise_a_doubt() -> None:
    """A name with "quantized" is in the float model's place."""
    first, second = table("s acc OVERALL 10 0.5", model="qwen3_awq"), table("s acc OVERALL 10 0.5", model="qwen3")

    assert [doubt.id for doubt in accuracy.compare(first, second).doubts] == ["swapped"]
    assert [doubt.id for doubt in accuracy.compare(second, first).doubts] == []


def test_several_answers_to_a_question_are_rejected() -> None:
    """They are not independent: an interval of them would be too narrow."""
    lines = "\n".join(review(n // 3, float(n % 3 > 0)) for n in range(30))
    for file in (
        ResultFile("reviews/m/set_p.jsonl", lines.encode()),
        ResultFile("configs/task_config.yaml", b"generation_config:\n  n: 3\n"),
        ResultFile("configs/task_config.yaml", b"repeats: 3\n"),
    ):
        with pytest.raises(InputError, match="evaluate with one answer per question"):
            reports.read([ResultFile("reports/m/set.json", json.dumps(report()).encode()), file], "w")


# ---- reports of every form


def test_reviews_that_contradict_their_score_are_ignored() -> None:
    """A metric other than a mean, or answers of another run."""
    lines = "\n".join(review(n, 1.0) for n in range(20))
    found = reports.read(
        [
            ResultFile("reports/m/set.json", json.dumps(report()).encode()),
            ResultFile("reviews/m/set_part.jsonl", lines.encode()),
        ],
        "w",
    )

    assert found.scores[0].answers is None
    assert [doubt.id for doubt in found.doubts] == ["answers-apart"]


def test_reviews_are_used_for_their_metrics() -> None:
    """Other metrics, and those with missing answers, keep the score."""
    data = report()
    data["metrics"].append({**data["metrics"][0], "name": "mean_f1"})
    lines = [review(n, float(n < 15)) for n in range(20)]
    for text, answered in (("\n".join(lines), [True, False]), ("\n".join(lines[:19]), [False, False])):
        files = [
            ResultFile("reports/m/set.json", json.dumps(data).encode()),
            ResultFile("reviews/m/set_part.jsonl", text.encode()),
        ]
        found = reports.read(files, "w")
        assert [each.answers is not None for each in found.scores] == answered


def test_a_weighted_score_is_not_a_share() -> None:
    """A mean over categories hides the number of correct answers, so there is no interval."""
    data = report()
    data["metrics"][0]["categories"][0]["subsets"] += [{"name": "other", "score": 0.2, "num": 100}]
    data["metrics"][0] |= {"score": 0.475, "num": 120}
    row = accuracy.compare(read(data), read({**data, "model_name": "q"})).scores[0]

    assert (row.interval, row.verdict) == (None, Accuracy.UNKNOWN)


def test_diagnostics_and_totals_of_subsets_are_not_scores() -> None:
    """Marked by EvalScope 1.14, they are neither compared nor counted twice."""
    data = json.loads((ROOT / "evalscope-1.14.1/float/reports/tiny/general_mcq.json").read_text("utf-8"))
    metric = data["metrics"][0]
    tokens = {**metric, "identity": {"name": "tokens", "aggregation": "mean", "dimensions": {}}}
    data["metrics"].append({**tokens, "semantics": {**metric["semantics"], "kind": "diagnostic"}})
    metric["categories"][0]["subsets"].append({"name": "all", "score": 0.75, "num": 20, "is_aggregate": True})

    assert [(each.subset, each.questions, each.metric) for each in read(data).scores] == [
        (None, 20, "accuracy"),
        ("sums", 10, "accuracy"),
        ("products", 10, "accuracy"),
    ]


def test_failed_requests_are_reported() -> None:
    """The report has the number of questions without an answer."""
    found = read(report(execution_summary={"requested": 20, "succeeded": 17, "errored": 3, "incomplete": True}))

    assert [doubt.id for doubt in found.doubts] == ["incomplete"]
    assert found.doubts[0].text.startswith("3 requests")
    found = read(report(execution_summary={"requested": 20, "succeeded": 19, "errored": 1, "incomplete": True}))
    assert found.doubts[0].text.startswith("One request failed, and its question")


def test_a_table_is_found_in_a_colored_log() -> None:
    """As EvalScope prints it: after a logger's line, in a frame, among other lines."""
    text = "\x1b[32mINFO\x1b[0m: Overall report table: \n" + (ROOT / "evalscope-1.14.1/float.txt").read_text("utf-8")
    text += "\n\x1b[0m2026-01-01 - INFO: Output directory | outputs | 3 | 4 | 5 | 6 | 7 | 8\n"

    assert len(reports.read([ResultFile("", text.encode())], "log").scores) == 16


def test_a_table_of_two_models_or_two_runs_is_rejected() -> None:
    """The document's two tables in one file would be compared with themselves."""
    row = "| {} | mmlu | mean_acc | OVERALL | 14042 | {} |\n"
    for lines, said in (
        (row.format("a", 0.6) + row.format("b", 0.5), "2 models \\(a, b\\)"),
        (row.format("a", 0.6) + row.format("a", 0.5), "line 4: two scores of mmlu, accuracy: 0.6 and 0.5"),
    ):
        with pytest.raises(InputError, match=said):
            reports.read([ResultFile("", (HEAD + lines).encode())], "both.txt")


@pytest.mark.parametrize("kind", ["tsv", "xlsx"])
def test_answers_of_vlmevalkit_are_paired(kind: str) -> None:
    """60 questions with a column `hit`, as text and as a workbook."""
    first, second = (
        results.read(ROOT / f"vlmevalkit/{side}/{model}_MMStar_exact_matching_result.{kind}")
        for side, model in (("float", "vl"), ("quantised", "vl-awq"))
    )

    assert accuracy.compare(first, second).scores[0].counts == PairedCounts(19, 19, 13, 9)


def test_a_partial_data_set_is_reported() -> None:
    """`limit` selects the first questions; unreadable settings are ignored."""
    files = [ResultFile("reports/m/set.json", json.dumps(report()).encode())]
    config = b"limit: 20\nrepeats: many\ngeneration_config:\n  temperature: 0.0\n"
    found = reports.read([*files, ResultFile("configs/task_config.yaml", config)], "w")

    assert [doubt.id for doubt in found.doubts] == ["limited"]
    assert found.temperature == 0.0
    for broken in (b"a: [", b"- 1"):
        assert reports.read([*files, ResultFile("configs/task_config.yaml", broken)], "w").temperature is None


def test_different_temperatures_are_reported() -> None:
    """Neither model may be sampled; missing settings are reported as unknown."""
    told = [
        reports.read(
            [
                ResultFile("reports/m/set.json", json.dumps(report(model_name=name)).encode()),
                ResultFile("configs/task_config.yaml", f"generation_config:\n  temperature: {heat}\n".encode()),
            ],
            "w",
        )
        for name, heat in (("m", 0.0), ("q", 0.7))
    ]

    assert "temperature 0 and 0.7" in accuracy.compare(told[0], told[1]).doubts[0].text
    assert "temperature unknown and 0.7" in accuracy.compare(read(report()), told[1]).doubts[0].text


def test_subsets_of_one_name_are_distinguished_by_their_category() -> None:
    """Two categories may have a subset `test` each."""
    data = report()
    subsets = [{"name": "test", "score": 0.5, "num": 10}]
    data["metrics"][0]["categories"] = [{"name": ["law"], "subsets": subsets}, {"name": ["art"], "subsets": subsets}]
    data["metrics"][0]["score"] = 0.5

    assert [each.subset for each in read(data).scores] == [None, "test", "test (art)"]


def test_a_table_without_counts_has_scores_and_no_verdict() -> None:
    """Without the numbers of questions, subsets have no total."""
    found = both(("set acc one - 0.5", "set acc one - 0.4"), ("set acc two - 0.5", "set acc two - 0.4"))

    assert found.verdict is Accuracy.UNKNOWN
    assert [row.difference for row in found.scores] == [None, pytest.approx(-0.1), pytest.approx(-0.1)]


def test_the_primary_metric_of_a_data_set_decides() -> None:
    """As marked by EvalScope; if the two marks differ, there is no verdict."""
    data = json.loads((ROOT / "evalscope-1.14.1/float/reports/tiny/general_mcq.json").read_text("utf-8"))
    other = json.loads(json.dumps(data["metrics"][0]).replace("accuracy", "pass"))
    other["identity"]["aggregation"] = "official"
    data["metrics"].append(other)
    swapped = {**data, "model_name": "q", "primary_metric_identity": other["identity"]}
    found = accuracy.compare(read(data), read({**data, "model_name": "q"}))

    assert [(row.metric, row.is_deciding) for row in found.scores if row.subset is None] == [
        ("accuracy", True),
        ("pass-official", False),
    ]
    assert "no data set has its main score" in accuracy.compare(read(data), read(swapped)).reason


def test_a_difference_at_the_threshold_has_no_required_number() -> None:
    """No number of questions decides it."""
    assert only(both(("s acc OVERALL 1000 0.8", "s acc OVERALL 1000 0.79"))).needed_questions is None
    assert (
        only(both(("s acc OVERALL 1000 0.8", "s acc OVERALL 1000 0.79"), threshold=0.0100001)).needed_questions is None
    )


def test_a_single_question_is_in_the_singular() -> None:
    """In the verdict and in the required number."""
    found = only(both(("s acc OVERALL 1 1.0", "s acc OVERALL 1 0.0")))
    apart = accuracy.compare(reviewed(1, 0, 1), reviewed(1, 0))

    assert "1 question, " in found.reason
    assert "1 questions" not in found.reason + "".join(each.text for each in apart.doubts)
    assert any("1 question of" in each.text for each in apart.doubts)


# ---- folders


def test_a_work_folder_is_read_from_each_of_its_parts() -> None:
    """Answers are found from the folder, one model's reports, or a report."""
    root = ROOT / "evalscope-1.1.0/float"
    whole = results.read(root)
    assert whole.scores[0].answers is not None

    for part in ("reports/tiny", "reports/tiny/general_mcq.json"):
        found = results.read(root / part)
        assert (found.scores, found.model, found.temperature) == (whole.scores, "tiny", 0.0)


def test_a_folder_of_several_runs_or_models_is_rejected(tmp_path: Path) -> None:
    """They are named, so that one can be chosen."""
    shutil.copytree(ROOT / "evalscope-1.1.0/float", tmp_path / "20260101")
    assert results.read(tmp_path).model == "tiny"

    shutil.copytree(ROOT / "evalscope-1.1.0/quantised", tmp_path / "20260102")
    with pytest.raises(InputError, match=r"contains 2 runs .*20260101, 20260102"):
        results.read(tmp_path)
    shutil.copytree(ROOT / "evalscope-1.1.0/quantised", tmp_path / "20260101", dirs_exist_ok=True)
    with pytest.raises(InputError, match=r"results of 2 models .*tiny, tiny-w4"):
        results.read(tmp_path / "20260101")
    assert results.read(tmp_path / "20260101/reports/tiny-w4").model == "tiny-w4"


def test_a_folder_of_copied_reports_is_read(tmp_path: Path) -> None:
    """Copied reports have their scores."""
    whole = ROOT / "evalscope-1.1.0/quantised"
    (report,) = (whole / "reports").rglob("*.json")
    shutil.copy(report, tmp_path / "mmlu.json")

    assert results.read(tmp_path).scores[0].value == results.read(whole).scores[0].value


@pytest.mark.parametrize("make", [lambda _: None, lambda p: p.mkdir(), lambda p: p.write_text("")])
def test_a_place_without_results_is_rejected(make: Callable[[Path], object], tmp_path: Path) -> None:
    """A missing path, an empty folder or file: one line with the expected input."""
    make(tmp_path / "it")
    with pytest.raises(InputError, match=r"it: (no such file|contains no results|is empty).*; use "):
        results.read(tmp_path / "it")


def test_a_special_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is not opened, an unreadable file named, and a folder without end not walked."""
    with pytest.raises(InputError, match="/dev/null: is not a regular file"):
        results.read(Path("/dev/null"))
    (tmp_path / "report.json").write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        with pytest.raises(InputError, match=r"report.json: cannot be read: Permission denied"):
            results.read(tmp_path / "report.json")
    shutil.copytree(ROOT / "evalscope-1.1.0/float", tmp_path / "run")
    for name, said in (("_MAX_FILES", "more than 1 result files"), ("_MAX_VISITED", "more than 1 files")):
        with monkeypatch.context() as patched:
            patched.setattr(results, name, 1)
            with pytest.raises(InputError, match=said):
                results.read(tmp_path / "run")


def test_names_of_vlmevalkit_are_split_by_the_folder_or_the_last_part() -> None:
    """Both parts may have underscores."""
    named = vlmeval_reports.named

    assert named("out/my_vl/my_vl_MMBench_DEV_EN_gpt-4o_result.xlsx") == ("my_vl", "MMBench_DEV_EN")
    assert named("my_vl_MMStar_exact_matching_result.tsv") == ("my_vl", "MMStar")


# ---- damaged or hostile input


@in_one_test(
    ("name", "raw", "said"),
    [
        ("cut.json", json.dumps(report())[:200].encode(), "invalid JSON: line 1"),
        ("deep.json", b"[" * 200_000, "invalid JSON: too deep or too long"),
        ("other.json", b'{"a": "b"}', "not a report of EvalScope"),
        ("none.json", b'{"model_name": "m", "dataset_name": "d", "metrics": []}', "has no score"),
        ("half.json", b'{"model_name": "m", "dataset_name": "d"}', "has no score"),
        ("odd.json", b'{"model_name": "m", "dataset_name": "d", "metrics": [3]}', "metrics\\[0\\] is not a metric"),
        ("new.json", b'{"model_name": "m", "dataset_name": "d", "schema_version": 3}', "schema_version 3"),
        ("words.txt", b"no results here", "Model, Dataset, Metric, Subset, Num and Score"),
        ("short.txt", (HEAD + "| m | mmlu |").encode(), "line 3: a row of the table has too few cells"),
        ("a.csv", b"a,b\n1,2\n", "lacks the columns index and hit"),
        ("a.tsv", b"index\thit\n1\tyes\n", "row 2: hit is not a number"),
        ("a.tsv", b"index\thit\n\n", "has no questions"),
        ("r.jsonl", b"[]\n", "line 1: is not a review"),
        ("twice.tsv", b"index\thit\n1\t1\n1\t0\n", "question 1 appears twice"),
        ("a.csv", b'index,hit\n"' + b"x" * 200_000 + b'",1\n', "field larger than field limit"),
        ("a.xlsx", b"PK\x03\x04broken", "cannot be read as a workbook"),
        ("r.jsonl", b'{"a": 1}\n{"a": 2}\n', "line 1: is not a review"),
        ("r.jsonl", b'{"index": 0, \n' + review(1, 1.0).encode(), "line 1: invalid JSON"),
    ],
)  # fmt: skip
def test_unreadable_input_is_one_line(name: str, raw: bytes, said: str) -> None:
    """Place, error and fix."""
    with pytest.raises(InputError, match=said) as raised:
        reports.read([ResultFile(name, raw)], "it")

    assert re.match(rf"it(/{re.escape(name)})?: [^\n]+; [^\n]+$", str(raised.value))


def test_a_file_above_the_limit_is_rejected_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """In MiB, for any content; a file of exactly this size is read."""
    raw = json.dumps(report()).encode()
    monkeypatch.setattr(reports, "MAX_BYTES", 2 * 2**20)

    assert reports.read([ResultFile("", raw.ljust(2 * 2**20))], "it").model == "m"
    with pytest.raises(InputError, match=r"\Ait: is larger than 2 MiB; use the report instead\Z"):
        reports.read([ResultFile("", raw.ljust(2 * 2**20 + 1))], "it")


def test_reviews_edited_on_windows_are_read() -> None:
    """Lines end with CRLF, and questions may contain Unicode line separators."""
    line = json.dumps(json.loads(review(1, 1.0, asked="one\u2028two")), ensure_ascii=False)
    found = answered([line, review(2, 0.0)], end="\r\n")

    assert [len(each.answers or ()) for each in found.scores] == [2]


def test_too_many_scores_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skipped one could be a loss."""
    subsets = [{"name": f"s{n}", "score": 0.5, "num": 4} for n in range(9)]
    metric = {"name": "mean_acc", "num": 36, "score": 0.5, "categories": [{"name": ["default"], "subsets": subsets}]}
    monkeypatch.setattr(evalscope_reports, "_MAX_SUBSETS", 8)
    with pytest.raises(InputError, match=r"report\.json: has more than 8 subsets"):
        read(report(metrics=[metric]))
    with pytest.raises(InputError, match="has more than 20,000 columns"):
        reports.read([ResultFile("m_MMStar_result.csv", b"," * 20_000)], "it")


def test_an_endless_table_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ends at a maximum number of rows."""
    monkeypatch.setattr(evalscope_reports, "_MAX_ROWS", 3)
    with pytest.raises(InputError, match="more than 3 rows; use the JSON reports"):
        reports.read([ResultFile("", (HEAD + "| m | d | acc | s | 1 | 1 |\n" * 4).encode())], "it")


def test_absurd_numbers_are_unknown() -> None:
    """Numbers of questions and scores: no overflow, and no verdict."""
    for number, score in (
        (1e300, 0.5),
        (-3, 0.5),
        (20, 1e308),
        (20, float("inf")),
        ("20", "0.5"),
        (True, True),
        (10**400, 1),
    ):
        data = report()
        data["metrics"][0] |= {"num": number, "score": score, "categories": []}
        row = only(accuracy.compare(read(data), read({**data, "model_name": "q"})))
        assert row.verdict is Accuracy.UNKNOWN


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["", "a.json", "a.jsonl", "a.csv", "a.xlsx", "a.txt", "c.yaml"]))
def test_any_bytes_are_read_or_rejected(raw: bytes, name: str) -> None:
    """Never anything but a result or one line."""
    with contextlib.suppress(InputError):
        reports.read([ResultFile(name, raw)], "it")


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "identity", "score", "num", "categories", "subsets", "semantics", "kind"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(_JSON, _JSON)
def test_reports_with_any_content_are_compared_or_rejected(metric: Any, other: Any) -> None:
    """For any value of a report's fields."""
    with contextlib.suppress(InputError):
        first, second = (read(report(metrics=[each], model_name=name)) for each, name in ((metric, "m"), (other, "q")))
        assert render.accuracy.shown(accuracy.compare(first, second)).plain


def test_names_in_a_report_are_escaped_and_redacted() -> None:
    """The model's name is shown as text, and a key in it is replaced."""
    name = "<script>alert(1)</script>\x1b[31m"
    token = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    found = accuracy.compare(
        read(report(model_name=name, dataset_name="d<b>")),
        read(report(model_name=f"api_key={token}", dataset_name="d<b>")),
    )
    page = render.accuracy.shown(found)
    said = page.plain + page.html + render.to_json(found)

    assert "<script>" not in page.html
    assert "\x1b" not in said
    assert token not in said


# ---- how it is shown


@pytest.fixture
def document() -> AccuracyComparison:
    rows = ("mmlu mean_acc OVERALL 14042 0.6224", "mmlu mean_acc OVERALL 14042 0.5901")
    return both(rows, ("ceval acc OVERALL 40 0.6", "ceval acc OVERALL 40 0.55"))


def test_answers_that_only_one_model_has_correct_are_counted() -> None:
    """Two hundred questions lost, and none won."""
    found = accuracy.compare(reviewed(*[1.0] * 200), reviewed(*[0.0] * 200, model="q"))
    text = " ".join(render.accuracy.shown(found).plain.split())

    assert "of 200 questions 200 were answered correctly only by the float model, 0 only by the quantised one" in text


def test_a_notebook_has_verdict_table_and_doubts(document: AccuracyComparison) -> None:
    """And the same in text."""
    page = render.accuracy.shown(document)

    for said in ("lost", "0.6224", "0.5901", "-0.0323", "14,042"):
        assert said in page.plain
        assert said in page.html
    assert "-0.0437 to -0.0209" in page.plain


def test_of_many_rows_the_relevant_ones_are_shown() -> None:
    """Of 60 subsets the lost one is shown, and the others are counted."""
    rows = [(f"set acc s{n} 500 0.8", f"set acc s{n} 500 {0.2 if n == 57 else 0.8}") for n in range(60)]
    text = render.accuracy.shown(both(*rows)).plain

    assert "set, s57" in text
    assert "37 more rows, none with a certain loss" in text
    assert (
        "37 more rows, 37 of them with a loss"
        in render.accuracy.shown(both(*[(a, a.replace("0.8", "0.2")) for a, _ in rows])).plain
    )


def test_skipped_data_sets_are_listed_up_to_a_limit() -> None:
    """Thirty data sets that were not evaluated again."""
    rows = [f"set{n} acc OVERALL 9 0.8" for n in range(31)]
    text = render.accuracy.shown(accuracy.compare(table(*rows), table(rows[0], model="q"))).plain

    assert "set5, accuracy: only in the float results" in text
    assert "and 6 more: see --format json" in text


# ---- the command


def test_the_command_prints_one_document_of_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """`--format json`, validated with the published schema."""
    jsonschema = pytest.importorskip("jsonschema")
    sides = [str(ROOT / f"evalscope-1.14.1/{side}") for side in ("float", "quantised")]
    status, out, err = run(capsys, "edge10", "compare", *sides, "--format", "json")
    schema = json.loads((ROOT.parent.parent / "catalog/schema/edge10-compare.json").read_text("utf-8"))

    assert (status, err) == (1, "")
    assert out.startswith('{\n  "schema": 2,')
    jsonschema.validate(json.loads(out), schema)


def test_the_exit_status_is_the_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """0 kept, 1 lost or unknown, 2 not comparable."""
    row = "| {} | mmlu | mean_acc | OVERALL | {} | {} |\n"
    for name, model, number, score in (
        ("float", "m", 90_000, 0.62),
        ("kept", "m-awq", 90_000, 0.619),
        ("lost", "m-awq", 90_000, 0.59),
        ("few", "m-awq", 12, 0.5),
    ):
        (tmp_path / name).write_text(HEAD + row.format(model, number, score))
    (tmp_path / "other").write_text(HEAD + row.format("m", 12, 0.5).replace("mmlu", "ceval"))
    for name, status, said in (("kept", 0, "KEPT "), ("lost", 1, "LOST "), ("few", 1, "UNKNOWN ")):
        found, out, _ = run(capsys, "edge10", "compare", str(tmp_path / "float"), str(tmp_path / name))
        assert (found, out[: len(said)]) == (status, said)
        assert ("-0.0345 to -0.0255" in out) is (name == "lost")
    for name, said in (("float", "are the same"), ("other", "nothing to compare"), ("none", "no such file")):
        found, out, err = run(capsys, "edge10", "compare", str(tmp_path / "float"), str(tmp_path / name))
        assert (found, out, err.count("\n")) == (2, "", 1)
        assert said in err


@pytest.mark.slow
def test_a_huge_file_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    """More than 64 MiB in one file: a line, little time and little memory."""
    path = tmp_path / "giant.json"
    with path.open("wb") as file:
        file.truncate(40 * 2**30)
    (tmp_path / "other.txt").write_text(HEAD)
    found = measured("edge10", "compare", str(path), str(tmp_path / "other.txt"), cwd=tmp_path)

    assert found.status == 2
    assert "is larger than 64 MiB" in found.err
    assert found.peak_mib < 250


def book(sheet: str, compressed: int = zipfile.ZIP_STORED) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", compressed) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    return raw.getvalue()


def test_a_hostile_workbook_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities are not expanded, and no part is unpacked beyond its limit."""
    bomb = '<!DOCTYPE a [<!ENTITY b "cccc"><!ENTITY d "&b;&b;&b;">]><sheetData><row><c><v>&d;</v></c></row></sheetData>'
    with pytest.raises(InputError, match="has a document type declaration"):
        list(workbooks.rows(book(bomb), "it.xlsx"))
    monkeypatch.setattr(workbooks, "_MAX_PART", 10_000)
    with pytest.raises(InputError, match="is larger than"):
        list(workbooks.rows(book(" " * 20_000, zipfile.ZIP_DEFLATED), "it.xlsx"))


def test_a_workbook_of_too_many_cells_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped cells before the last one of a row count too."""
    monkeypatch.setattr(workbooks, "_MAX_CELLS", 3)
    with pytest.raises(InputError, match="has more than 3 cells"):
        list(workbooks.rows(book(f"<sheetData><row>{'<c/>' * 4}</row></sheetData>"), "it.xlsx"))
    with pytest.raises(InputError, match="has more than 3 cells"):
        list(workbooks.rows(book("<sheetData>" + '<row><c r="B1"/></row>' * 2 + "</sheetData>"), "it.xlsx"))
    with pytest.raises(InputError, match="cells"):
        list(workbooks.rows(book("<sheetData>" + "<a/>" * 40 + "</sheetData>"), "it.xlsx"))


def test_a_damaged_or_encrypted_workbook_is_rejected() -> None:
    """In one line, for any error of the archive library."""
    packed = bytearray(book("<sheetData>" + "<row/>" * 200 + "</sheetData>", zipfile.ZIP_DEFLATED))
    start = packed.index(b"sheet1.xml") + len(b"sheet1.xml")
    packed[start : start + 8] = b"\xff" * 8
    encrypted = bytearray(book("<sheetData/>"))
    encrypted[6] |= 1
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    for raw in (packed, encrypted):
        with pytest.raises(InputError, match="cannot be read as a workbook"):
            list(workbooks.rows(bytes(raw), "it.xlsx"))


def test_cells_of_a_workbook_have_the_place_of_their_name() -> None:
    """Empty cells are missing in the file, and texts may be inline."""
    first = '<row r="1"><c r="B1" t="inlineStr"><is><t>hit</t></is></c></row>'
    second = '<row><c><v>1</v></c><c r="AA2"><v>2</v></c></row>'
    found = list(workbooks.rows(book(f"<sheetData>{first}{second}</sheetData>"), "it.xlsx"))

    assert found == [["", "hit"], ["1", *[""] * 25, "2"]]
