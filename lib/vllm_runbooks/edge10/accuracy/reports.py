"""Results of an evaluation from the contents of its files, whichever tool wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from vllm_runbooks.core import json_errors
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import evalscope_reports, score_names, scores, vlmeval_reports, workbooks
from vllm_runbooks.edge10.accuracy.evalscope_reports import EvalScopeReport, Reviews, TaskSettings
from vllm_runbooks.edge10.accuracy.records import Doubt, EvaluationResults
from vllm_runbooks.edge10.accuracy.scores import ReportedScore

MAX_BYTES = 64 * 2**20
"""Maximum size of one file."""
_REPORT, _TABLE = "EvalScope report", "EvalScope table"
_VLMEVALKIT = "VLMEvalKit results"
_RESULT_FILE = re.compile(
    r"(?:^|/)(?:reports/(?:[^/]+/)?[^/]+\.json|reviews/(?:[^/]+/)?[^/]+\.jsonl|configs/task_config[^/]*\.ya?ml"
    r"|[^/]+_result\.(?:tsv|csv|xlsx))$"
)
_CIRCULAR = re.compile(r"_(?:vanilla|circular?|circ\d|all)_")
"""Intermediate files of VLMEvalKit, which have each question several times."""


class ResultFile(NamedTuple):
    """A file of results."""

    name: str
    """Path below the given folder, with slashes."""
    raw: bytes


class _ParsedFile(NamedTuple):
    kind: str = ""
    model: str = ""
    scores: Sequence[ReportedScore] = ()
    failed: int = 0
    reviews: Reviews | None = None
    settings: TaskSettings | None = None


def is_wanted(name: str) -> bool:
    """Whether a file of a folder has results, by its path."""
    return _RESULT_FILE.search(name) is not None and _CIRCULAR.search(name.rpartition("/")[2]) is None


def read(files_of_results: Iterable[ResultFile], where: str) -> EvaluationResults:
    """Results of one model's evaluation.

    Args:
        files_of_results: The files; for a folder those that pass `is_wanted`.
        where: Their name in messages.

    Raises:
        InputError: There are none, they cannot be read, or they belong to several models.
    """
    files = [_parse(file, where if file.name == "" else f"{where}/{file.name}") for file in files_of_results]
    reviews = [file.reviews for file in files if file.reviews is not None]
    models = list(dict.fromkeys(file.model for file in files if file.model))
    if len(models) > 1:
        some = ", ".join(models[:8])
        raise InputError(
            f"{where}: contains results of {len(models)} models ({some}); use those of one model, "
            "such as its folder of reports"
        )
    not_computed = {metric for file in reviews for metric in file.not_computed}
    reported = [score for file in files for score in file.scores if not _is_of(score, not_computed)]
    reported, different = evalscope_reports.add_answers(reported, reviews)
    reported = [score for score in reported if not _is_of(score, not_computed)]
    if not reported:
        raise InputError(f"{where}: contains no results; use a report or the work folder of one evaluation")
    settings = [file.settings for file in files if file.settings is not None]
    temperature = max((task.temperature for task in settings if task.temperature is not None), default=None)
    combined = scores.combine_scores(reported)
    doubts = _doubts(sum(file.failed for file in files), settings, different, not_computed)
    kinds = {file.kind for file in files if file.kind}
    model = models[0] if models else ""
    return EvaluationResults(model, " and ".join(sorted(kinds)), combined, tuple(doubts), temperature)


def _is_of(score: ReportedScore, metrics: Iterable[str]) -> bool:
    """Whether a score is of one of the metrics, or of a part of one, as `bleu-1` is of `bleu`."""
    name = score.metric.name
    return any(name == metric or name.startswith(f"{metric}-") for metric in metrics)


def _doubts(
    failed: int, settings: Sequence[TaskSettings], different: Sequence[str], not_computed: Iterable[str]
) -> Iterator[Doubt]:
    if failed:
        requests = "One request failed, and its question scores"
        requests = requests if failed == 1 else f"{failed:,} requests failed, and their questions score"
        yield Doubt("incomplete", f"{requests} 0.", "Find out why, and evaluate again.")
    if missing := ", ".join(sorted(not_computed))[:200]:
        text = f"{missing} could not be computed for some answers, is 0 there, and is ignored."
        yield Doubt("not-computed", text, "Install the metric's dependencies and run the review again.")
    if different:
        names = ", ".join(different[:4])
        text = f"The saved answers of {names} do not match the score of its report: only scores are compared."
        yield Doubt(
            "answers-apart", text, "Nothing if the metric is not a mean over answers; otherwise run the review again."
        )
    if limits := sorted({task.limit for task in settings if task.limit}):
        text = f"Only the first questions were asked (limit {limits[0]}), which may differ from the rest."
        yield Doubt(
            "limited",
            text,
            "Ask all questions before you rely on the scores; a difference between the models is valid.",
        )


def _parse(file: ResultFile, where: str) -> _ParsedFile:
    if len(file.raw) > MAX_BYTES:
        raise InputError(f"{where}: is larger than {MAX_BYTES // 2**20} MiB; use the report instead")
    path = where.replace("\\", "/")
    *folders, last = path.split("/")
    stem, _, ending = last.rpartition(".")
    ending = ending.casefold()
    model = vlmeval_reports.named(path).model
    if file.raw.startswith(b"PK\x03\x04") or ending == "xlsx":
        cells = workbooks.rows(file.raw, where)
        return _ParsedFile(_VLMEVALKIT, model, vlmeval_reports.parse_table(cells, path, where))
    text = file.raw.decode("utf-8-sig", "replace")
    if not text.strip():
        raise InputError(f"{where}: is empty; use a complete report")
    if ending in ("csv", "tsv"):
        rows = vlmeval_reports.rows(text, where, delimiter="\t" if ending == "tsv" else ",")
        return _ParsedFile(_VLMEVALKIT, model, vlmeval_reports.parse_table(rows, path, where))
    if ending in ("yaml", "yml"):
        return _ParsedFile(settings=evalscope_reports.parse_settings(text, where))
    if ending == "jsonl":
        reviewed = folders[-1] if len(folders) > 1 and folders[-2] == "reviews" else ""
        reviews = evalscope_reports.parse_reviews(text, stem, where)
        return _ParsedFile(model=score_names.shown(reviewed), reviews=reviews)
    is_json = ending == "json" or text.lstrip()[:1] in "{["
    report = _parse_report(text, where) if is_json else evalscope_reports.parse_table(text, where)
    return _ParsedFile(_REPORT if is_json else _TABLE, report.model, report.scores, report.failed)


def _parse_report(text: str, where: str) -> EvalScopeReport:
    try:
        data: Any = json_errors.loaded(text)
    except ValueError as error:
        raise InputError(f"{where}: invalid JSON: {error}; use the complete report as written") from None
    report = evalscope_reports.parse_report(data, where)
    if report is None:
        raise InputError(f"{where}: is JSON, but not a report of EvalScope; use one")
    return report
