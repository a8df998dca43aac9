"""Results of EvalScope: reports, answers to each question (`reviews`), settings of the task, and the printed table.

Written after the sources of EvalScope 1.1.0 and 1.14.1: `report/report.py`, `report/combinator.py`,
`api/evaluator/cache.py`.
"""

from __future__ import annotations

import re
from collections import Counter
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
from vllm_runbooks.edge10.accuracy.score_names import EvaluationMetric
from vllm_runbooks.edge10.accuracy.scores import ROUNDED, ROUNDED_THRICE, ReportedScore
from vllm_runbooks.reading.documents import yaml_places

_MAX_SUBSETS = 20_000
ASK_ONCE = "evaluate with one answer per question"
_OVERALL = "OVERALL"
"""The table's name of all subsets together."""


class EvalScopeReport(NamedTuple):
    """A model's scores on one data set."""

    model: str
    scores: tuple[ReportedScore, ...]
    failed: int = 0
    """Requests that failed."""


def parse_report(data: Any, where: str) -> EvalScopeReport | None:
    """Parse a report; None if the document is not one; raises InputError."""
    if not isinstance(data, dict) or not {"model_name", "dataset_name"} <= data.keys():
        return None
    dataset, model = score_names.shown(data["dataset_name"]), score_names.shown(data["model_name"])
    version = data.get("schema_version")
    if version is not None and version != 2:
        raise InputError(
            f"{where}: is a report of schema_version {str(version)[:20]}; supported are 2 and reports without a version"
        )
    parsed = tuple(_scores(data, dataset, where))
    if not parsed:
        raise InputError(f"{where}: the report has no score; evaluate again")
    execution = data.get("execution_summary")
    failed = scores.whole(execution.get("errored")) if isinstance(execution, dict) else None
    return EvalScopeReport(model, parsed, failed or 0)


def _scores(data: Mapping[str, Any], dataset: str, where: str) -> Iterator[ReportedScore]:
    primary = data.get("primary_metric_identity")
    for position, entry in enumerate(_list(data.get("metrics"))):
        if not isinstance(entry, dict):
            raise InputError(f"{where}: metrics[{position}] is not a metric; use the report as EvalScope wrote it")
        identity, semantics = entry.get("identity"), _mapping(entry.get("semantics"))
        if isinstance(identity, dict):
            if semantics.get("kind") == "diagnostic":
                continue
            metric = score_names.identified(identity)
            direction = semantics.get("direction")
            if direction in ("higher_is_better", "lower_is_better"):
                metric = metric._replace(higher_is_better=direction == "higher_is_better")
            is_primary: bool | None = identity == primary if primary is not None else None
        else:
            # In these releases `Report.score` is the score of the first metric.
            metric, is_primary = score_names.metric(str(entry.get("name", ""))), position == 0
        parsed = list(islice(_metric_scores(entry, dataset, metric, is_primary=is_primary), _MAX_SUBSETS + 1))
        if len(parsed) > _MAX_SUBSETS:
            raise InputError(f"{where}: has more than {_MAX_SUBSETS:,} subsets; use the table that EvalScope prints")
        yield from parsed


def _metric_scores(
    entry: Mapping[str, Any], dataset: str, metric: EvaluationMetric, *, is_primary: bool | None
) -> Iterator[ReportedScore]:
    value, questions = scores.number(entry.get("score")), scores.whole(entry.get("num"))
    yield ReportedScore(dataset, None, metric, value, questions, ROUNDED_THRICE, is_primary)
    seen: set[str] = set()
    for category in map(_mapping, _list(entry.get("categories"))):
        for subset in _list(category.get("subsets")):
            if not isinstance(subset, dict) or subset.get("is_aggregate") is True:
                continue
            name = score_names.shown(subset.get("name", ""))
            if score_names.key(name) in seen:
                name = score_names.shown(f"{name} ({', '.join(map(str, _list(category.get('name'))))})")
            seen.add(score_names.key(name))
            value, questions = scores.number(subset.get("score")), scores.whole(subset.get("num"))
            yield ReportedScore(dataset, name, metric, value, questions, ROUNDED, is_primary)


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# ---- answers to each question


class Review(NamedTuple):
    """A line of a file of reviews."""

    values: Mapping[str, float]
    """By name of the metric; empty name if there is only one."""
    prompt: str
    """Digest of the question; empty if unknown."""


@dataclass(frozen=True)
class Reviews:
    """A file of reviews: the value of each answer to a subset of a data set."""

    name: str
    """`<data set>_<subset>`."""
    lines: Mapping[str, Review]
    """By question."""
    not_computed: frozenset[str] = frozenset()
    """Metrics that EvalScope could not compute and counted as 0."""


def parse_reviews(text: str, name: str, where: str) -> Reviews:
    """Parse a file of reviews; raises InputError."""
    reviews: dict[str, Review] = {}
    not_computed: set[str] = set()
    # Not `splitlines`, which splits at other separators that a question may have.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json_errors.loaded(line)
        except ValueError:
            raise InputError(f"{where}: line {number}: invalid JSON; use the file as EvalScope wrote it") from None
        sample = data.get("sample_score") if isinstance(data, dict) else None
        if not isinstance(sample, dict):
            raise InputError(f"{where}: line {number}: is not a review; use the file as EvalScope wrote it")
        names = (sample.get("group_id"), sample.get("sample_id"), data.get("index"))
        question = str(next((identity for identity in names if identity is not None), None))
        if question in reviews:
            raise InputError(f"{where}: line {number}: question {question[:40]} appears twice; {ASK_ONCE}")
        score = _mapping(sample.get("score"))
        prompt = scores.digest(_prompt(data)) if "messages" in data or "input" in data else ""
        reviews[question] = Review(_values(score.get("value")), prompt)
        errors = _mapping(_mapping(score.get("metadata")).get("metric_errors"))
        not_computed.update(score_names.metric(str(metric)).name for metric in errors)
    return Reviews(name, reviews, frozenset(not_computed))


def _prompt(data: Mapping[str, Any]) -> Any:
    """Prompt of the model, without its answer and without marks that differ between runs."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        return str(data.get("input", "")).removeprefix("**User**: \n")
    prompts = [
        message
        for message in messages
        if isinstance(message, dict) and message.get("role") not in ("assistant", "tool")
    ]
    return "\n".join(str(message.get("content")) for message in prompts)


def _values(value: Any) -> dict[str, float]:
    by_metric = value if isinstance(value, dict) else {"": value}
    parsed = {
        str(name): float(number) if isinstance(number, bool) else scores.number(number)
        for name, number in by_metric.items()
    }
    return {name: number for name, number in parsed.items() if number is not None}


def add_answers(reported: Sequence[ReportedScore], files: Sequence[Reviews]) -> tuple[list[ReportedScore], list[str]]:
    """Add the answers to the scores that are their means; lists the other data sets."""
    by_name = {score_names.key(file.name): file for file in files}
    complete: list[ReportedScore] = []
    different: dict[str, None] = {}
    for score in reported:
        file = by_name.get(score_names.key(f"{score.dataset}_{score.subset}")) if score.subset is not None else None
        answers = None if file is None else _answers(file, score)
        if answers is not None:
            value = fmean(answer.value for answer in answers.values())
            score = replace(score, answers=answers, value=value, rounding=scores.EXACT)  # noqa: PLW2901
        elif file is not None and score.is_primary is not False:
            different[score.dataset] = None
        complete.append(score)
    return complete, list(different)


def _answers(file: Reviews, score: ReportedScore) -> dict[str, AnsweredQuestion] | None:
    """The answers that a score is the mean of; None if it is not their mean."""
    answers: dict[str, AnsweredQuestion] = {}
    for question, line in file.lines.items():
        for name, value in line.values.items():
            if not name or score_names.metric(name).name == score.metric.name:
                answers.setdefault(question, AnsweredQuestion(value, line.prompt))
    if not answers or score.value is None or not len(answers) == len(file.lines) == score.questions:
        return None
    mean = fmean(answer.value for answer in answers.values())
    return answers if abs(mean - score.value) <= score.rounding + 1e-6 else None


# ---- settings of the task


class TaskSettings(NamedTuple):
    """Sampling settings of the answers."""

    temperature: float | None = None
    limit: str = ""


def parse_settings(text: str, where: str) -> TaskSettings:
    """Parse a `task_config.yaml`; raises InputError if questions were repeated."""
    try:
        root = yaml_places.read(Excerpt.whole(text))
    except yaml_places.YamlError:
        return TaskSettings()
    if not isinstance(root, yaml_places.Mapping):
        return TaskSettings()
    generation = root.get("generation_config")
    generation = generation if isinstance(generation, yaml_places.Mapping) else root
    counts = (_parse_number(root.get("repeats")), _parse_number(generation.get("n")))
    if any(count is not None and count > 1 for count in counts):
        raise InputError(f"{where}: each question was asked several times; {ASK_ONCE}")
    node = root.get("limit")
    limit = node.value if isinstance(node, yaml_places.Scalar) and node.value not in ("null", "~") else ""
    return TaskSettings(_parse_number(generation.get("temperature")), limit[:20])


def _parse_number(node: object) -> float | None:
    try:
        return scores.number(float(node.value)) if isinstance(node, yaml_places.Scalar) else None
    except ValueError:
        return None


# ---- the printed table

_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}m")
_SEPARATOR = re.compile("[|│┃]")
_COLUMNS = ("model", "dataset", "metric", "subset", "num", "score")
_VALUE = re.compile(r"(-?[0-9]{1,9}(?:\.([0-9]{1,17}))?)\s?(%?)")
_MAX_ROWS = 50_000


def parse_table(text: str, where: str) -> EvalScopeReport:
    """Parse all tables of a text, as EvalScope prints them, in a log or alone; raises InputError."""
    models: dict[str, None] = {}
    parsed: list[ReportedScore] = []
    columns: dict[str, int] | None = None
    is_framed = True
    for number, line in enumerate(_COLORS.sub("", text).split("\n"), 1):
        if len(line) > 20_000 or not any(letter.isalnum() for letter in line):
            continue
        cells = [cell.strip() for cell in _SEPARATOR.split(line)]
        cells = cells if cells[0] else cells[1:]
        is_line_framed = _SEPARATOR.match(line.lstrip()) is not None
        head = [cell.casefold() for cell in cells]
        if set(_COLUMNS) <= set(head):
            columns = {name: head.index(name) for name in _COLUMNS}
            is_framed = is_line_framed
        elif columns is None or len(cells) < 2 or is_line_framed is not is_framed:
            columns = None
        elif len(cells) <= max(columns.values()):
            raise InputError(f"{where}: line {number}: a row of the table has too few cells; use the complete table")
        else:
            models[score_names.shown(cells[columns["model"]])] = None
            parsed.append(_parse_row({name: cells[at] for name, at in columns.items()}, f"{where}: line {number}"))
            if len(parsed) > _MAX_ROWS:
                raise InputError(f"{where}: its tables have more than {_MAX_ROWS:,} rows; use the JSON reports")
    if not parsed:
        raise InputError(
            f"{where}: contains no results; use a report or work folder of EvalScope, its table "
            "with the columns Model, "
            "Dataset, Metric, Subset, Num and Score, or results of VLMEvalKit"
        )
    if len(models) > 1:
        some = ", ".join(list(models)[:8])
        raise InputError(f"{where}: its table has {len(models)} models ({some}); use one table per model")
    # The table does not mark the primary metric, so it is known only for a data set with one
    # metric.
    counts = Counter(dataset for dataset, _ in {(score.dataset, score.metric.name) for score in parsed})
    marked = (replace(score, is_primary=counts[score.dataset] == 1 or None) for score in parsed)
    return EvalScopeReport(next(iter(models)), tuple(marked))


def _parse_row(cells: Mapping[str, str], where: str) -> ReportedScore:
    subset = None if cells["subset"].upper() == _OVERALL else score_names.shown(cells["subset"])
    value, rounding = _parse_value(cells["score"])
    questions = cells["num"].replace(",", "")
    return ReportedScore(
        score_names.shown(cells["dataset"]),
        subset,
        score_names.metric(cells["metric"]),
        value,
        int(questions) if re.fullmatch(r"[0-9]{1,9}", questions) else None,
        ROUNDED_THRICE if subset is None and rounding == ROUNDED else rounding,
        where=where,
    )


def _parse_value(cell: str) -> tuple[float | None, float]:
    """A score and its rounding error; the table omits zeros at the end: 0.8 has four digits."""
    match = _VALUE.fullmatch(cell)
    if match is None:
        return None, ROUNDED
    digits = len(match[2] or "")
    if match[3]:
        return float(match[1]) / 100, 0.5 * 10.0 ** -max(digits, 1) / 100
    return float(match[1]), 0.5 * 10.0 ** -max(digits, 4)
