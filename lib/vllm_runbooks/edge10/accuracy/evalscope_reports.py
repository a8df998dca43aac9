"""EvalScope's results: reports of every form, answers one by one, the task's settings, and the table that it prints.

Read in the sources of EvalScope 0.8.2, 0.12.1, 0.17.1, 1.1.0 and 1.14.1: `report/report.py` (before 1.0
`report/utils.py`), `report/combinator.py`, `api/evaluator/cache.py`, `evaluator/evaluator.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, NamedTuple

from vllm_runbooks.core import json_errors
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.accuracy import score_names, scores
from vllm_runbooks.edge10.accuracy.records import AnsweredQuestion
from vllm_runbooks.edge10.accuracy.score_names import Metric
from vllm_runbooks.edge10.accuracy.scores import ROUNDED, ROUNDED_THRICE, Told
from vllm_runbooks.reading.documents import yaml_places

_MAX_SUBSETS = 20_000
OVERALL = "OVERALL"
"""What EvalScope's table calls all subsets together."""


@dataclass(frozen=True)
class Report:
    """One report: a model's scores on one data set."""

    model: str
    scores: tuple[Told, ...]
    failed: int = 0
    """Requests that came to nothing."""


def report(data: Any, where: str) -> Report | None:
    """A report of EvalScope; None: the document is none.

    Raises:
        InputError: it is one, and has no score in it, or one that cannot be read.
    """
    if not isinstance(data, dict) or not {"model_name", "dataset_name"} <= data.keys():
        return None
    dataset, model = score_names.shown(data["dataset_name"]), score_names.shown(data["model_name"])
    version = data.get("schema_version")
    if version is not None and version != 2:
        raise InputError(
            f"{where}: is a report of schema_version {str(version)[:20]}; only 2 and those without are read"
        )
    metrics = data.get("metrics", () if "score" not in data else None)
    found = list(_oldest(data, dataset) if metrics is None else _metrics(data, metrics, dataset, where))
    if not found:
        raise InputError(f"{where}: the report has no score; evaluate again, and give what is written then")
    execution = data.get("execution_summary")
    failed = scores.whole(execution.get("errored")) if isinstance(execution, dict) else None
    return Report(model, tuple(found), failed or 0)


def _oldest(data: Mapping[str, Any], dataset: str) -> Iterator[Told]:
    """Of a report before EvalScope 0.9: numbers of questions stand for the whole alone."""
    questions = scores.whole(data.get("total_num"))
    told = data.get("score")
    by_metric = told if isinstance(told, dict) else {data.get("metric"): told}
    is_primary = True if len(by_metric) == 1 else None
    for name, value in by_metric.items():
        score, metric = scores.number(value), score_names.metric(str(name))
        yield Told(dataset, None, metric, score, questions, ROUNDED, scores.coarse(score), is_primary)


def _metrics(data: Mapping[str, Any], metrics: Any, dataset: str, where: str) -> Iterator[Told]:
    primary = data.get("primary_metric_identity")
    for position, each in enumerate(_list(metrics)):
        if not isinstance(each, dict):
            raise InputError(f"{where}: metrics[{position}] is no metric; give the report as EvalScope wrote it")
        identity, semantics = each.get("identity"), each.get("semantics")
        if isinstance(identity, dict):
            metric = score_names.identified(identity)
            told = semantics if isinstance(semantics, dict) else {}
            if told.get("kind") == "diagnostic":
                continue
            direction = told.get("direction")
            if direction in ("higher_is_better", "lower_is_better"):
                metric = metric._replace(higher_is_better=direction == "higher_is_better")
            is_primary: bool | None = identity == primary if primary is not None else None
        else:
            # `Report.score` of these releases is that of the first metric.
            metric, is_primary = score_names.metric(str(each.get("name", ""))), position == 0
        told_of = list(islice(_metric(each, dataset, metric, is_primary=is_primary), _MAX_SUBSETS + 1))
        if len(told_of) > _MAX_SUBSETS:
            raise InputError(f"{where}: has more than {_MAX_SUBSETS:,} subsets; give the table that EvalScope prints")
        yield from told_of


def _metric(each: Mapping[str, Any], dataset: str, metric: Metric, *, is_primary: bool | None) -> Iterator[Told]:
    score = scores.number(each.get("score"))
    number = scores.whole(each.get("num"))
    yield Told(dataset, None, metric, score, number, ROUNDED_THRICE, scores.coarse(score), is_primary)
    seen: set[str] = set()
    for category in _list(each.get("categories")):
        named = category.get("name") if isinstance(category, dict) else None
        for subset in _list(category.get("subsets") if isinstance(category, dict) else None):
            if not isinstance(subset, dict) or subset.get("is_aggregate") is True:
                continue
            name = score_names.shown(subset.get("name", ""))
            if score_names.key(name) in seen:
                name = score_names.shown(f"{name} ({', '.join(map(str, _list(named)))})")
            seen.add(score_names.key(name))
            value, questions = scores.number(subset.get("score")), scores.whole(subset.get("num"))
            yield Told(dataset, name, metric, value, questions, ROUNDED, scores.coarse(value), is_primary)


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


# ---- answers, one by one


class Review(NamedTuple):
    """One line of a file of reviews."""

    question: str
    values: Mapping[str, float]
    """By name of the metric as it stands there; empty where only one is told."""
    asked: str


@dataclass(frozen=True)
class Reviews:
    """A file of reviews: what each answer to a data set's subset was worth."""

    name: str
    """`<data set>_<subset>`."""
    lines: tuple[Review, ...]
    not_computed: frozenset[str] = frozenset()
    """Metrics that EvalScope could not compute and counted as 0."""
    is_cut: bool = False
    """Whether the last line is not whole."""


def reviews(text: str, name: str, where: str) -> Reviews:
    """A file of reviews.

    Raises:
        InputError: a line before the last is none.
    """
    found: list[Review] = []
    failed: set[str] = set()
    lines = text.split("\n")  # alone: what else `splitlines` takes for an end of line may stand in a question
    last = max((number for number, line in enumerate(lines) if line.strip()), default=-1)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            data = json_errors.loaded(line)
        except ValueError:
            if number == last and found:
                return Reviews(name, tuple(found), frozenset(failed), is_cut=True)
            raise InputError(f"{where}: line {number + 1}: is no JSON; give the file as EvalScope wrote it") from None
        review = _review(data)
        if review is None:
            raise InputError(f"{where}: line {number + 1}: is no review; give the file as EvalScope wrote it")
        found.append(review)
        failed |= _failed(data)
    return Reviews(name, tuple(found), frozenset(failed))


def _review(data: Any) -> Review | None:
    if not isinstance(data, dict):
        return None
    sample = data.get("sample_score")
    if isinstance(sample, dict):
        score = sample.get("score")
        value = score.get("value") if isinstance(score, dict) else None
        named = next(
            (sample[key] for key in ("group_id", "sample_id") if sample.get(key) is not None), data.get("index")
        )
        asked = scores.digest(_prompt(data)) if "messages" in data or "input" in data else ""
        return Review(str(named), _values(value), asked)
    choices = data.get("choices")
    if isinstance(choices, list):
        results = [_result(choice) for choice in choices]
        values = [_values(result) for result in results]
        names = {name for each in values for name in each}
        means = {name: fmean(each[name] for each in values if name in each) for name in names}
        return Review(
            str(data.get("index")), means, scores.digest(data.get("raw_input")) if "raw_input" in data else ""
        )
    return None


def _prompt(data: Mapping[str, Any]) -> Any:
    """What the model was asked: all but what it answered, and but marks that every run makes anew."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        return str(data.get("input", "")).removeprefix("**User**: \n")
    asked = [each for each in messages if isinstance(each, dict) and each.get("role") not in ("assistant", "tool")]
    return "\n".join(
        each["content"] if isinstance(each.get("content"), str) else str(each.get("content")) for each in asked
    )


def _result(choice: Any) -> Any:
    review = choice.get("review") if isinstance(choice, dict) else None
    return review.get("result") if isinstance(review, dict) else None


def _values(value: Any) -> dict[str, float]:
    told = value if isinstance(value, dict) else {"": value}
    found = {name: float(one) if isinstance(one, bool) else scores.number(one) for name, one in told.items()}
    return {str(name): one for name, one in found.items() if one is not None}


def _failed(data: Mapping[str, Any]) -> set[str]:
    """Metrics that a review says could not be computed."""
    node: Any = data
    for key in ("sample_score", "score", "metadata", "metric_errors"):
        node = node.get(key) if isinstance(node, dict) else None
    return {score_names.metric(str(name)).name for name in node} if isinstance(node, dict) else set()


def answered(told: Sequence[Told], files: Sequence[Reviews]) -> tuple[list[Told], list[str]]:
    """The scores with the answers that they were made of, and the data sets whose answers do not come to them."""
    datasets = dict.fromkeys(each.dataset for each in told)
    by_name = {score_names.key(file.name): file for file in files}
    found: list[Told] = []
    apart: dict[str, None] = {}
    taken: set[str] = set()
    for each in told:
        file = by_name.get(score_names.key(f"{each.dataset}_{each.subset}")) if each.subset is not None else None
        if file is None:
            found.append(each)
            continue
        taken.add(file.name)
        answers = _answers(file, each)
        if answers is None:
            if each.is_primary is not False and not file.is_cut:
                apart[each.dataset] = None
            found.append(each)
        else:
            value = fmean(one.value for one in answers.values())
            found.append(replace(each, answers=answers, value=value, half=scores.EXACT))
    alone = [file for file in files if file.name not in taken and not any(_begins(file, name) for name in datasets)]
    found += [one for file in alone for one in _alone(file)]
    return found, list(apart)


def _begins(file: Reviews, dataset: str) -> bool:
    return file.name == dataset or file.name.startswith(f"{dataset}_")


def _answers(file: Reviews, each: Told) -> dict[str, AnsweredQuestion] | None:
    """The answers that a score is the mean of; None: they do not come to it."""
    rows = [(line.question, value, line.asked) for line in file.lines for value in _of_metric(line.values, each.metric)]
    is_whole = bool(rows) and each.value is not None and len(rows) == len(file.lines) and not file.is_cut
    if not is_whole or each.questions not in (len(rows), len({question for question, _, _ in rows})):
        return None
    by_question = _by_question(rows)
    means = (fmean(value for _, value, _ in rows), fmean(one.value for one in by_question.values()))
    fits = any(abs(mean - (each.value or 0.0)) <= each.half + 1e-6 for mean in means)
    return by_question if fits else None


def _by_question(rows: Sequence[tuple[str, float, str]]) -> dict[str, AnsweredQuestion]:
    values: dict[str, list[float]] = {}
    asked: dict[str, str] = {}
    for question, value, digest in rows:
        values.setdefault(question, []).append(value)
        asked.setdefault(question, digest)
    return {question: AnsweredQuestion(fmean(each), asked[question]) for question, each in values.items()}


def _of_metric(values: Mapping[str, float], metric: Metric) -> list[float]:
    for name, value in values.items():
        if not name or score_names.metric(name).name == metric.name:
            return [value]
    return []


def _alone(file: Reviews) -> Iterator[Told]:
    """The scores of reviews that no report sums up."""
    names = dict.fromkeys(name for line in file.lines for name in line.values)
    for name in names:
        rows = [(line.question, line.values[name], line.asked) for line in file.lines if name in line.values]
        answers = _by_question(rows)
        metric = score_names.metric(name or "accuracy")
        value = fmean(one.value for one in answers.values())
        yield Told(
            score_names.shown(file.name),
            None,
            metric,
            value,
            len(answers),
            scores.EXACT,
            is_primary=len(names) == 1 or None,
            answers=answers,
        )


# ---- settings of the task


class Settings(NamedTuple):
    """What a task's settings tell of how answers came about."""

    temperature: float | None = None
    repeats: int | None = None
    limit: str = ""


def settings(text: str) -> Settings:
    """The settings in a `task_config.yaml`; nothing of what cannot be read."""
    try:
        root = yaml_places.read(Excerpt.whole(text))
    except yaml_places.YamlError:
        return Settings()
    if not isinstance(root, yaml_places.Mapping):
        return Settings()
    generation = root.get("generation_config")
    within = generation if isinstance(generation, yaml_places.Mapping) else root
    asked = [_figure(root.get("repeats")), _figure(within.get("n"))]
    repeats = max((int(each) for each in asked if each is not None and each >= 1), default=None)
    limit = root.get("limit")
    told = limit.value if isinstance(limit, yaml_places.Scalar) else ""
    return Settings(_figure(within.get("temperature")), repeats, "" if told in ("null", "~") else told[:20])


def _figure(node: object) -> float | None:
    try:
        found = float(node.value) if isinstance(node, yaml_places.Scalar) else None
    except ValueError:
        return None
    return scores.number(found)


# ---- the table that is printed

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
_CELLS = re.compile("[|│┃]")
_COLUMNS = ("model", "dataset", "metric", "subset", "num", "score")
_MAX_ROWS = 50_000


class TableRow(NamedTuple):
    """A row of the table, and whose it is."""

    model: str
    told: Told


def table(text: str, where: str) -> list[TableRow]:
    """The rows of all tables in a text, as EvalScope prints them, in a log or by themselves.

    Raises:
        InputError: there is none, or a row cannot be read.
    """
    rows: list[TableRow] = []
    columns: dict[str, int] | None = None
    is_framed = True
    for number, line in enumerate(_COLOURS.sub("", text).split("\n"), 1):
        if len(line) > 20_000 or not any(letter.isalnum() for letter in line):
            continue
        cells = _cells(line)
        head = [cell.casefold() for cell in cells]
        if set(_COLUMNS) <= set(head):
            columns = {name: head.index(name) for name in _COLUMNS}
            is_framed = _is_framed(line)
        elif columns is None or len(cells) < 2 or _is_framed(line) is not is_framed:
            columns = None
        elif len(cells) <= max(columns.values()):
            raise InputError(f"{where}: line {number}: a row of the table has too few cells; give the table whole")
        else:
            rows.append(_row({name: cells[at] for name, at in columns.items()}, f"{where}: line {number}"))
            if len(rows) > _MAX_ROWS:
                raise InputError(f"{where}: its tables have more than {_MAX_ROWS:,} rows; give the reports as JSON")
    if not rows:
        raise InputError(
            f"{where}: holds no results; give a report or work folder of EvalScope, its table with the columns Model, "
            "Dataset, Metric, Subset, Num and Score, or results of VLMEvalKit"
        )
    return _primary(rows)


def _is_framed(line: str) -> bool:
    return _CELLS.match(line.lstrip()) is not None


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in _CELLS.split(line)]
    return cells[1:] if cells and not cells[0] else cells


def _row(cells: Mapping[str, str], where: str) -> TableRow:
    subset = None if cells["subset"].upper() == OVERALL else score_names.shown(cells["subset"])
    value, half, coarse = _told_value(cells["score"])
    half = half * 3 if subset is None and half == ROUNDED else half
    questions = cells["num"].replace(",", "")
    told = Told(
        score_names.shown(cells["dataset"]),
        subset,
        score_names.metric(cells["metric"]),
        value,
        int(questions) if re.fullmatch(r"[0-9]{1,9}", questions) else None,
        half,
        coarse,
        where=where,
    )
    return TableRow(score_names.shown(cells["model"]), told)


_VALUE = re.compile(r"(-?[0-9]{1,9}(?:\.([0-9]{1,17}))?)\s?(%?)")


def _told_value(cell: str) -> tuple[float | None, float, float]:
    """A score, and how far rounding may have moved it: as EvalScope rounds, and by the digits that are there.

    Its tables leave zeros at the end out: 0.8 has four digits.
    """
    match = _VALUE.fullmatch(cell)
    if match is None:
        return None, ROUNDED, 0.0
    digits = len(match[2] or "")
    if match[3]:
        return float(match[1]) / 100, 0.5 * 10.0 ** -max(digits, 1) / 100, 0.5 * 10.0**-digits / 100
    return float(match[1]), 0.5 * 10.0 ** -max(digits, 4), 0.5 * 10.0**-digits


def _primary(rows: list[TableRow]) -> list[TableRow]:
    """A table does not say by which metric a data set is judged, but where there is only one."""
    metrics: dict[str, set[str]] = {}
    for _, told in rows:
        metrics.setdefault(told.dataset, set()).add(told.metric.name)
    return [
        row._replace(told=replace(row.told, is_primary=len(metrics[row.told.dataset]) == 1 or None)) for row in rows
    ]
