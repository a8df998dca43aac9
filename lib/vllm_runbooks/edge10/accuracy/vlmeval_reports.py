"""VLMEvalKit's results: shares (`*_acc.csv`), scores (`*_score.json`), and answers one by one (`hit`).

Read in the sources of ms-vlmeval 0.0.20: `smp/file.py`, `dataset/utils/multiple_choice.py`, `dataset/image_mcq.py`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import fmean
from typing import Any, NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.accuracy import score_names, scores
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion
from vllm_runbooks.edge10.accuracy.scores import EXACT, Told

_ENDS = re.compile(r"_(?:acc|score|rating|scores|metrics|[A-Za-z0-9.-]{1,40}(?:_matching)?_result|result|judge)$")
_DATASETS = re.compile(
    r"(?:^|_)((?:MMStar|MMBench|MMMU|MMVet|MME|MMT|MMSci|MathVista|MathVision|MathVerse|AI2D|OCRBench|HallusionBench|SEEDBench|SEED"
    r"|ScienceQA|RealWorldQA|POPE|ChartQA|DocVQA|TextVQA|InfoVQA|BLINK|MUIRBench|CCBench|COCO|Video|LLaVABench|M3CoT|A-)"
    r".{0,80})$",
)
"""Data sets begin so; a model's name may have underlines as well."""
_MAX_SCORES = 5_000
_MAX_COLUMNS = 20_000
_MAX_DEPTH = 4
WHOLE = "overall"
_MEASURED = ("hit", "score")


class Named(NamedTuple):
    """What the name of a file tells."""

    model: str
    dataset: str


def named(path: str) -> Named:
    """Model and data set of a file `<model>_<data set>_<what>.<ending>`, which may lie in a folder of the model."""
    *folders, last = path.split("/")
    stem = _ENDS.sub("", last.rpartition(".")[0] or last)
    for folder in reversed(folders):
        if folder and stem.startswith(f"{folder}_"):
            return Named(score_names.shown(folder), score_names.shown(stem[len(folder) + 1 :]))
    known = _DATASETS.search(stem)
    if known is not None and known.start(1) > 0:
        return Named(score_names.shown(stem[: known.start(1) - 1]), score_names.shown(known[1]))
    model, _, dataset = stem.rpartition("_")
    return Named(score_names.shown(model), score_names.shown(dataset))


def rows(text: str, where: str, *, delimiter: str) -> Iterator[list[str]]:
    """The rows of a file with commas or tabs.

    Raises:
        InputError: it is none, or wider than any that is written.
    """
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if len(row) > _MAX_COLUMNS:
                raise InputError(f"{where}: has more than {_MAX_COLUMNS:,} columns; give it as VLMEvalKit wrote it")
            yield row
    except csv.Error as error:
        raise InputError(f"{where}: cannot be read as a table: {error}; give it as VLMEvalKit wrote it") from None


def table(found: Iterable[Sequence[str]], path: str, where: str) -> list[Told]:
    """The scores of a table: of answers one by one, else of shares.

    Raises:
        InputError: it is neither.
    """
    lines = iter(found)
    head = [cell.strip().removeprefix("\ufeff") for cell in next(lines, ())]
    places = {cell.casefold(): at for at, cell in reversed(list(enumerate(head)))}
    measured = next((name for name in _MEASURED if name in places), None)
    if measured is not None and "index" in places:
        return _answers(lines, places, measured, path, where)
    if WHOLE in places:
        return _bounded(_shares(lines, head, places[WHOLE], path), where)
    raise InputError(
        f"{where}: has neither the columns index and hit nor Overall; give VLMEvalKit's *_acc.csv, or its *_result file"
    )


def _answers(
    lines: Iterable[Sequence[str]], places: Mapping[str, int], measured: str, path: str, where: str
) -> list[Told]:
    asked = [places[name] for name in ("question", *"abcdefgh", "answer") if name in places]
    dataset = named(path).dataset
    answers: dict[str, AnsweredQuestion] = {}
    by_category: dict[str, dict[str, AnsweredQuestion]] = {}
    for number, row in enumerate(lines, 2):
        if not any(row):
            continue
        value = _number(_at(row, places[measured]))
        if value is None:
            raise InputError(f"{where}: row {number}: {measured} is no number; give the table as VLMEvalKit wrote it")
        name = _at(row, places["index"])
        if name in answers:
            raise InputError(f"{where}: row {number}: question {name[:40]} stands there twice; give one run at a time")
        answers[name] = AnsweredQuestion(value, scores.digest([_at(row, at) for at in asked]) if asked else "")
        if "category" in places:
            by_category.setdefault(_at(row, places["category"]), {})[name] = answers[name]
    if not answers:
        raise InputError(f"{where}: has no question; evaluate again, and give what is written then")
    metric = score_names.metric("accuracy" if measured == "hit" else measured)
    groups: list[tuple[str | None, dict[str, AnsweredQuestion]]] = [(None, answers)]
    groups += by_category.items() if len(by_category) > 1 else ()
    return [
        Told(
            dataset,
            None if name is None else score_names.shown(name or "(no category)"),
            metric,
            fmean(one.value for one in group.values()),
            len(group),
            EXACT,
            is_primary=True,
            answers=group,
        )
        for name, group in groups
    ]


def _shares(lines: Iterable[Sequence[str]], head: Sequence[str], whole: int, path: str) -> Iterator[Told]:
    """Of a table of shares: its columns are categories, its rows splits of the data set."""
    told = [row for row in islice(lines, _MAX_SCORES + 1) if any(row)]
    dataset, metric = named(path).dataset, score_names.metric("accuracy")
    for row in told:
        split = None if len(told) == 1 else score_names.shown(row[0])
        yield Told(dataset, split, metric, _number(_at(row, whole)), None, EXACT, is_primary=True)
        if split is None:
            for at, name in enumerate(head):
                value = _number(_at(row, at))
                if at != whole and name.casefold() not in ("split", "") and value is not None:
                    yield Told(dataset, score_names.shown(name), metric, value, None, EXACT, is_primary=True)


def _bounded(found: Iterable[Told], where: str) -> list[Told]:
    """All of the scores.

    Raises:
        InputError: there are more than are read.
    """
    read = list(islice(found, _MAX_SCORES + 1))
    if len(read) > _MAX_SCORES:
        raise InputError(f"{where}: holds more than {_MAX_SCORES:,} scores; give VLMEvalKit's *_result file")
    return read


def scored(data: Any, path: str, where: str) -> list[Told]:
    """The numbers of a `*_score.json` or `*_acc.json`, each as a metric of its own.

    Raises:
        InputError: there are more than are read.
    """
    dataset = named(path).dataset
    leaves = ((score_names.metric(name), value) for name, value in _leaves(data, ()))
    found = _bounded((Told(dataset, None, metric, value, None, EXACT) for metric, value in leaves), where)
    return [replace(found[0], is_primary=True)] if len(found) == 1 else found


def _leaves(data: Any, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    value = scores.number(data)
    if value is not None and path:
        yield " ".join(map(score_names.shown, path)), value
    elif isinstance(data, dict) and len(path) < _MAX_DEPTH:
        for name, each in data.items():
            yield from _leaves(each, (*path, name))


def _at(row: Sequence[str], at: int) -> str:
    return row[at].strip() if at < len(row) else ""


def _number(cell: str) -> float | None:
    cell = {"true": "1", "false": "0"}.get(cell.casefold(), cell)
    try:
        return scores.number(float(cell)) if len(cell) < 40 else None
    except ValueError:
        return None
