"""Results of an evaluation, whoever wrote them: files come in as names and bytes, one record goes out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from vllm_runbooks.core import json_errors
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import evalscope_reports, score_names, scores, vlmeval_reports, workbooks
from vllm_runbooks.edge10.accuracy.evalscope_reports import Report, Reviews, Settings
from vllm_runbooks.edge10.accuracy.records import Doubt, EvaluationResults
from vllm_runbooks.edge10.accuracy.scores import Told

MAX_BYTES = 64 * 2**20
"""Of one file."""
ANSWERS, REPORT, TABLE = "EvalScope answers", "EvalScope report", "EvalScope table"
VLMEVALKIT = "VLMEvalKit results"
_WANTED = re.compile(
    r"(?:^|/)(?:reports/(?:[^/]+/)?[^/]+\.json|reviews/(?:[^/]+/)?[^/]+\.jsonl|configs/task_config[^/]*\.ya?ml"
    r"|[^/]+_(?:acc|score)\.(?:csv|json)|[^/]+_result\.(?:tsv|xlsx|csv))$"
)
_CIRCULAR = re.compile(r"_(?:vanilla|circular?|circ\d|all)_")
"""In names of VLMEvalKit's steps between: they hold each question several times."""


class Given(NamedTuple):
    """A file of results."""

    name: str
    """Its path below what was named, with slashes."""
    raw: bytes


class _Read(NamedTuple):
    """What one file told."""

    kind: str
    model: str = ""
    told: Sequence[Told] = ()
    failed: int = 0
    reviews: Reviews | None = None
    settings: Settings | None = None


def is_wanted(name: str) -> bool:
    """Whether a file of a folder holds results, by its path."""
    return _WANTED.search(name) is not None and _CIRCULAR.search(name.rpartition("/")[2]) is None


def read(given: Iterable[Given], where: str) -> EvaluationResults:
    """The results of one model's evaluation.

    Args:
        given: The files; of a folder those that `is_wanted`. They are read one after the other.
        where: What they are called in messages.

    Raises:
        InputError: there are none, they cannot be read, or they are those of several models.
    """
    found = [_read(each, where if each.name == "" else f"{where}/{each.name}") for each in given]
    told = [one for each in found for one in each.told]
    files = [each.reviews for each in found if each.reviews is not None]
    models = list(dict.fromkeys(each.model for each in found if each.model))
    if len(models) > 1:
        some = ", ".join(models[:8])
        raise InputError(
            f"{where}: holds results of {len(models)} models ({some}); name what is of one, as its folder of reports"
        )
    uncomputed = {name for file in files for name in file.not_computed}
    told, apart = evalscope_reports.answered([one for one in told if not _is_one(one.metric.name, uncomputed)], files)
    told = [one for one in told if not _is_one(one.metric.name, uncomputed)]
    if not told:
        raise InputError(f"{where}: holds no results; name a report, or the work folder, of one evaluation")
    settings = [each.settings for each in found if each.settings is not None]
    temperature = max((each.temperature for each in settings if each.temperature is not None), default=None)
    repeats = _repeats(settings, files)
    finished, doubts = scores.finished(told, repeats)
    doubts += _doubts(found, files, settings, apart)
    kinds = {each.kind for each in found if each.kind and each.told} or {ANSWERS}
    model = models[0] if models else ""
    return EvaluationResults(model, " and ".join(sorted(kinds)), finished, tuple(doubts), temperature, repeats)


def _repeats(settings: Sequence[Settings], files: Sequence[Reviews]) -> int | None:
    """How often each question was asked, by the task's settings and by the answers; None: neither tells."""
    asked = [each.repeats for each in settings if each.repeats is not None]
    answers = [round(len(each.lines) / len({line.question for line in each.lines})) for each in files if each.lines]
    return max([*asked, *answers], default=None)


def _is_one(metric: str, names: Collection[str]) -> bool:
    """Whether a metric is one of these, or a part of one, as `bleu-1` is of `bleu`."""
    return any(metric == name or metric.startswith(f"{name}-") for name in names)


def _doubts(
    found: Sequence[_Read], files: Sequence[Reviews], settings: Sequence[Settings], apart: Sequence[str]
) -> list[Doubt]:
    doubts = []
    failed = sum(each.failed for each in found)
    if failed:
        said = (
            "One request failed, and its question counts for nothing."
            if failed == 1
            else f"{failed:,} requests failed, and their questions count for nothing."
        )
        doubts.append(Doubt("incomplete", said, "Find out why, and evaluate again."))
    missing = sorted({name for file in files for name in file.not_computed})
    if missing:
        said = f"{', '.join(missing)[:200]} could not be computed for some answers, stands as 0 there, and is left out."
        doubts.append(Doubt("not-computed", said, "Install what the metric needs and review again, to have it judged."))
    cut = [score_names.shown(file.name) for file in files if file.is_cut]
    if cut:
        said = f"The last line of the answers of {', '.join(cut[:4])} is not whole."
        doubts.append(Doubt("cut-off", said, "Wait until the evaluation has ended, or copy the file anew."))
    if apart:
        said = (
            f"The answers kept of {', '.join(apart[:4])} do not come to the score of its report: scores are compared."
        )
        doubts.append(
            Doubt("answers-apart", said, "Nothing, if the metric is no mean over answers; else review again.")
        )
    limits = sorted({each.limit for each in settings if each.limit})
    if limits:
        said = f"Only the first questions were asked (limit {limits[0]}), which need not be like the rest."
        doubts.append(Doubt("limited", said, "Ask all before relying on the scores; a difference over them stands."))
    return doubts


def _read(given: Given, where: str) -> _Read:
    if len(given.raw) > MAX_BYTES:
        raise InputError(f"{where}: is larger than {MAX_BYTES // 2**20} MiB; give the report in place of it")
    path = where.replace("\\", "/")
    ending = path.rpartition("/")[2].rpartition(".")[2].casefold()
    if given.raw.startswith(b"PK\x03\x04") or ending == "xlsx":
        return _of_vlmevalkit(vlmeval_reports.table(workbooks.rows(given.raw, where), path, where), path)
    text = given.raw.decode("utf-8-sig", "replace")
    if not text.strip():
        raise InputError(f"{where}: is empty; give a report that was written whole")
    if ending in ("csv", "tsv"):
        rows = vlmeval_reports.rows(text, where, delimiter="\t" if ending == "tsv" else ",")
        return _of_vlmevalkit(vlmeval_reports.table(rows, path, where), path)
    if ending in ("yaml", "yml"):
        return _Read("", settings=evalscope_reports.settings(text))
    if ending == "jsonl":
        *folders, last = path.split("/")
        name = last.rpartition(".")[0]
        model = folders[-1] if len(folders) > 1 and folders[-2] == "reviews" else ""
        reviews = evalscope_reports.reviews(text, name, where)
        return _Read(ANSWERS, score_names.shown(model), reviews=reviews)
    if ending == "json" or text.lstrip()[:1] in "{[":
        return _of_json(text, path, where)
    rows_of = evalscope_reports.table(text, where)
    models = list(dict.fromkeys(row.model for row in rows_of))
    if len(models) > 1:
        raise InputError(
            f"{where}: its table has {len(models)} models ({', '.join(models[:8])}); give one table for each"
        )
    return _Read(TABLE, models[0], [row.told for row in rows_of])


def _of_vlmevalkit(told: Sequence[Told], path: str) -> _Read:
    return _Read(VLMEVALKIT, vlmeval_reports.named(path).model, told)


def _of_json(text: str, path: str, where: str) -> _Read:
    try:
        data: Any = json_errors.loaded(text)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON: {error}; give the report as it was written, whole") from None
    found: Report | None = evalscope_reports.report(data, where)
    if found is not None:
        return _Read(REPORT, found.model, found.scores, found.failed)
    told = vlmeval_reports.scored(data, path, where)
    if not told:
        raise InputError(f"{where}: is JSON, and no report of EvalScope or VLMEvalKit; give one of those")
    return _of_vlmevalkit(told, path)
