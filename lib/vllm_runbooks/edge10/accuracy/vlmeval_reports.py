"""Results of VLMEvalKit: answers to each question, with the column `hit`.

Written after the sources of ms-vlmeval 0.0.20: `smp/file.py`, `dataset/utils/multiple_choice.py`,
`dataset/image_mcq.py`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import score_names, scores
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion
from vllm_runbooks.edge10.accuracy.scores import EXACT, ReportedScore

_SUFFIX = re.compile(r"_[A-Za-z0-9.-]{1,40}(?:_matching)?_result$")
_MAX_COLUMNS = 20_000


class ResultName(NamedTuple):
    """Model and data set in the name of a file."""

    model: str
    dataset: str


def named(path: str) -> ResultName:
    """Split `<model>_<data set>_<judge>_result.<ending>`, which may be in a folder of the model."""
    *folders, last = path.split("/")
    stem = _SUFFIX.sub("", last.rpartition(".")[0] or last)
    folder = next((folder for folder in reversed(folders) if folder and stem.startswith(f"{folder}_")), None)
    model, dataset = (folder, stem[len(folder) + 1 :]) if folder else stem.rpartition("_")[::2]
    return ResultName(score_names.shown(model), score_names.shown(dataset))


def rows(text: str, where: str, *, delimiter: str) -> Iterator[list[str]]:
    """Rows of a CSV or TSV file; raises InputError."""
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if len(row) > _MAX_COLUMNS:
                raise InputError(
                    f"{where}: has more than {_MAX_COLUMNS:,} columns; use the file as VLMEvalKit wrote it"
                )
            yield row
    except csv.Error as error:
        raise InputError(f"{where}: cannot be read as a table: {error}; use the file as VLMEvalKit wrote it") from None


def parse_table(table: Iterable[Sequence[str]], path: str, where: str) -> list[ReportedScore]:
    """Scores of a table of answers, and of its categories; raises InputError."""
    lines = iter(table)
    head = [cell.strip().removeprefix("\ufeff").casefold() for cell in next(lines, ())]
    if not {"index", "hit"} <= set(head):
        raise InputError(f"{where}: lacks the columns index and hit; use VLMEvalKit's *_result file")
    prompt = [name for name in ("question", *"abcdefgh", "answer") if name in head]
    categories: dict[str, dict[str, AnsweredQuestion]] = {}
    answers: dict[str, AnsweredQuestion] = {}
    for number, row in enumerate(lines, 2):
        if not any(row):
            continue
        cells = dict.fromkeys(head, "") | {name: cell.strip() for name, cell in zip(head, row, strict=False)}
        name, value = cells["index"], _number(cells["hit"])
        if value is None:
            raise InputError(f"{where}: row {number}: hit is not a number; use the table as VLMEvalKit wrote it")
        if name in answers:
            raise InputError(f"{where}: row {number}: question {name[:40]} appears twice; use one run at a time")
        digest = scores.digest([cells[column] for column in prompt]) if prompt else ""
        answers[name] = AnsweredQuestion(value, digest)
        categories.setdefault(cells.get("category", ""), {})[name] = answers[name]
    if not answers:
        raise InputError(f"{where}: has no questions; evaluate again")
    groups: list[tuple[str | None, dict[str, AnsweredQuestion]]] = [(None, answers)]
    if len(categories) > 1:
        groups += [(score_names.shown(name or "(no category)"), group) for name, group in categories.items()]
    return [
        ReportedScore(
            named(path).dataset,
            subset,
            score_names.metric("accuracy"),
            fmean(answer.value for answer in group.values()),
            len(group),
            EXACT,
            is_primary=True,
            answers=group,
        )
        for subset, group in groups
    ]


def _number(cell: str) -> float | None:
    try:
        return scores.number(float(cell)) if len(cell) < 40 else None
    except ValueError:
        return None
