"""Results of VLMEvalKit: shares (`*_acc.csv`), and answers to each question (`hit`).

Written after the sources of ms-vlmeval 0.0.20: `smp/file.py`, `dataset/utils/multiple_choice.py`,
`dataset/image_mcq.py`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import score_names, scores
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion
from vllm_runbooks.edge10.accuracy.scores import EXACT, ReportedScore

_SUFFIX = re.compile(r"_(?:acc|[A-Za-z0-9.-]{1,40}(?:_matching)?_result|result|judge)$")
_DATASETS = re.compile(
    r"(?:^|_)((?:MMStar|MMBench|MMMU|MMVet|MME|MMT|MMSci|MathVista|MathVision|MathVerse|AI2D|OCRBench|HallusionBench|SEEDBench|SEED"
    r"|ScienceQA|RealWorldQA|POPE|ChartQA|DocVQA|TextVQA|InfoVQA|BLINK|MUIRBench|CCBench|COCO|Video|LLaVABench|M3CoT|A-)"
    r".{0,80})$",
)
"""Prefixes of data sets: a model's name may have underscores as well."""
_MAX_SCORES = 5_000
_MAX_COLUMNS = 20_000
_OVERALL = "overall"


class ResultName(NamedTuple):
    """Model and data set in the name of a file."""

    model: str
    dataset: str


def named(path: str) -> ResultName:
    """Split `<model>_<data set>_<what>.<ending>`, which may be in a folder of the model."""
    *folders, last = path.split("/")
    stem = _SUFFIX.sub("", last.rpartition(".")[0] or last)
    for folder in reversed(folders):
        if folder and stem.startswith(f"{folder}_"):
            return ResultName(score_names.shown(folder), score_names.shown(stem[len(folder) + 1 :]))
    match = _DATASETS.search(stem)
    if match is not None and match.start(1) > 0:
        return ResultName(score_names.shown(stem[: match.start(1) - 1]), score_names.shown(match[1]))
    model, _, dataset = stem.rpartition("_")
    return ResultName(score_names.shown(model), score_names.shown(dataset))


def rows(text: str, where: str, *, delimiter: str) -> Iterator[list[str]]:
    """Rows of a CSV or TSV file.

    Raises:
        InputError: It cannot be read, or is too wide.
    """
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if len(row) > _MAX_COLUMNS:
                raise InputError(f"{where}: has more than {_MAX_COLUMNS:,} columns; give it as VLMEvalKit wrote it")
            yield row
    except csv.Error as error:
        raise InputError(f"{where}: cannot be read as a table: {error}; give it as VLMEvalKit wrote it") from None


def parse_table(table: Iterable[Sequence[str]], path: str, where: str) -> list[ReportedScore]:
    """Scores of a table of answers or of shares.

    Raises:
        InputError: It is neither.
    """
    lines = iter(table)
    head = [cell.strip().removeprefix("\ufeff") for cell in next(lines, ())]
    columns = {cell.casefold(): at for at, cell in reversed(list(enumerate(head)))}
    measure = next((name for name in ("hit", "score") if name in columns), None)
    if measure is not None and "index" in columns:
        return _answer_scores(lines, columns, measure, path, where)
    if _OVERALL in columns:
        return _bounded(_share_scores(lines, head, columns[_OVERALL], path), where)
    raise InputError(
        f"{where}: has neither the columns index and hit nor Overall; give VLMEvalKit's *_acc.csv, or its *_result file"
    )


def _answer_scores(
    lines: Iterable[Sequence[str]], columns: Mapping[str, int], measure: str, path: str, where: str
) -> list[ReportedScore]:
    prompt = [columns[name] for name in ("question", *"abcdefgh", "answer") if name in columns]
    answers: dict[str, AnsweredQuestion] = {}
    categories: dict[str, dict[str, AnsweredQuestion]] = {}
    for number, row in enumerate(lines, 2):
        if not any(row):
            continue
        value, name = _number(_cell(row, columns[measure])), _cell(row, columns["index"])
        if value is None:
            raise InputError(f"{where}: row {number}: {measure} is no number; give the table as VLMEvalKit wrote it")
        if name in answers:
            raise InputError(f"{where}: row {number}: question {name[:40]} stands there twice; give one run at a time")
        answers[name] = AnsweredQuestion(value, scores.digest([_cell(row, at) for at in prompt]) if prompt else "")
        if "category" in columns:
            categories.setdefault(_cell(row, columns["category"]), {})[name] = answers[name]
    if not answers:
        raise InputError(f"{where}: has no question; evaluate again, and give what is written then")
    metric = score_names.metric("accuracy" if measure == "hit" else measure)
    subsets = {score_names.shown(name or "(no category)"): group for name, group in categories.items()}
    groups: list[tuple[str | None, dict[str, AnsweredQuestion]]] = [(None, answers)]
    groups += subsets.items() if len(subsets) > 1 else ()
    return [
        ReportedScore(
            named(path).dataset,
            subset,
            metric,
            fmean(answer.value for answer in group.values()),
            len(group),
            EXACT,
            is_primary=True,
            answers=group,
        )
        for subset, group in groups
    ]


def _share_scores(
    lines: Iterable[Sequence[str]], head: Sequence[str], overall: int, path: str
) -> Iterator[ReportedScore]:
    """Scores of a table of shares: its columns are categories, its rows splits of the data set."""
    table = [row for row in islice(lines, _MAX_SCORES + 1) if any(row)]
    dataset, metric = named(path).dataset, score_names.metric("accuracy")
    for row in table:
        split = None if len(table) == 1 else score_names.shown(row[0])
        yield ReportedScore(dataset, split, metric, _number(_cell(row, overall)), None, EXACT, is_primary=True)
        for at, name in enumerate(head if split is None else ()):
            value = _number(_cell(row, at))
            if at != overall and name.casefold() not in ("split", "") and value is not None:
                yield ReportedScore(dataset, score_names.shown(name), metric, value, None, EXACT, is_primary=True)


def _bounded(reported: Iterable[ReportedScore], where: str) -> list[ReportedScore]:
    read = list(islice(reported, _MAX_SCORES + 1))
    if len(read) > _MAX_SCORES:
        raise InputError(f"{where}: holds more than {_MAX_SCORES:,} scores; give VLMEvalKit's *_result file")
    return read


def _cell(row: Sequence[str], at: int) -> str:
    return row[at].strip() if at < len(row) else ""


def _number(cell: str) -> float | None:
    cell = {"true": "1", "false": "0"}.get(cell.casefold(), cell)
    try:
        return scores.number(float(cell)) if len(cell) < 40 else None
    except ValueError:
        return None
