"""Read, check and compile `serving.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog import serving as serving_rules
from vllm_runbooks.catalog.authored.located import Location, Problem
from vllm_runbooks.catalog.authored.yaml_files import compile_records, not_one_of, read_record, unknown_commands
from vllm_runbooks.catalog.serving import SERVING, Serving, ServingCondition, ServingTest
from vllm_runbooks.catalog.templates import PLACEHOLDER

ADAPTER = TypeAdapter(Serving)
_ID = re.compile(r"serving\.[a-z][a-z0-9]*(?:_[a-z0-9]+){0,8}", re.ASCII)
_PLACE = r"(?:vllm \d[\d.]*(?:post\d+)? )?[\w/.-]+\.py(?::\d+)?"
_SOURCE = re.compile(rf"vllm \d[\d.]* [\w/.-]+\.py(?::\d+)?(?: and {_PLACE})?", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}", re.ASCII)


def read_serving(path: Path, where: str | None = None) -> Serving:
    names = options.names(path.parent / "releases")
    return read_record(path, where or path.name, ADAPTER, lambda read: _problems(read, names))


def _problems(serving: Serving, names: options.Names) -> Iterator[Problem]:
    yield from _series_problems(serving)
    yield from _fact_problems(serving)
    ids = [condition.id for condition in serving.conditions]
    for index, condition in enumerate(serving.conditions):
        at = ("conditions", index)
        if ids.index(condition.id) != index or not _ID.fullmatch(condition.id):
            yield (*at, "id"), f"{condition.id!r} is not a unique id; use serving. and lowercase words"
        for place, name in enumerate(condition.instead_of):
            if name not in ids or name == condition.id:
                yield (*at, "instead_of", place), f"{name!r} is not another condition of this file"
        for location, problem in _condition_problems(condition, serving, names):
            yield (*at, *location), problem


def _series_problems(serving: Serving) -> Iterator[Problem]:
    for name, series in serving.series.items():
        at = ("series", name)
        yield from not_one_of((*at, "type"), series.type, serving_rules.TYPES)
        if not series.names:
            yield (*at, "names"), "is empty; add metric names"
        for index, exported in enumerate(series.names):
            if (series.type == "counter") is not exported.name.endswith("_total"):
                yield (*at, "names", index, "name"), f"{exported.name!r}: only counters end with _total"
            if not _SOURCE.fullmatch(exported.source):
                yield (*at, "names", index, "source"), "is not written as `vllm 0.32.0 v1/metrics/loggers.py:528`"


def _fact_problems(serving: Serving) -> Iterator[Problem]:
    for name, fact in serving.facts.items():
        at = ("facts", name)
        if not _NAME.fullmatch(name) or name in serving_rules.TOLD:
            yield at, f"{name!r} is not a unique name; use lowercase words"
        if fact.kind not in serving_rules.KINDS:
            yield (*at, "kind"), f"{fact.kind!r} is not one of {', '.join(serving_rules.KINDS)}"
            continue
        for field, series in (("series", fact.series), ("of", fact.of)):
            if series is not None and series not in serving.series:
                yield (*at, field), f"{series!r} is not a series of this file"
        expected = serving_rules.KINDS[fact.kind]
        if fact.series in serving.series and serving.series[fact.series].type != expected:
            yield (*at, "series"), f"{fact.series!r} is not a {expected}, which a {fact.kind} needs"
        if (fact.of is not None) is not (fact.kind == "share"):
            yield (*at, "of"), "is required for a share, and only for a share"
        if (fact.quantile is not None) is not (fact.kind == "quantile"):
            yield (*at, "quantile"), "is required for a quantile, and only for a quantile"
        if fact.quantile is not None and not 0 < fact.quantile < 1:
            yield (*at, "quantile"), f"{fact.quantile} is not between 0 and 1"
        if fact.join not in ("sum", "max"):
            yield (*at, "join"), f"{fact.join!r} is neither sum nor max"


def _condition_problems(
    condition: ServingCondition, serving: Serving, release_names: options.Names
) -> Iterator[tuple[Location, str]]:
    if not condition.when:
        yield ("when",), "is empty; add a test"
    for index, test in enumerate(condition.when):
        for field, problem in _test_problems(test, serving):
            yield ("when", index, field), problem
    if bool(condition.why_limits) is all(test.fact is None for test in condition.when):
        yield ("why_limits",), "is required if a limit is a figure, and only then"
    if not _SOURCE.fullmatch(condition.source):
        yield ("source",), "is not written as `vllm 0.32.0 v1/metrics/loggers.py:528`"
    texts: list[tuple[Location, str]] = [
        ((name,), getattr(condition, name)) for name in ("title", "explanation", "do_first", "confirm", "refute")
    ]
    for place, change in enumerate(condition.changes):
        texts += [(("changes", place, name), getattr(change, name)) for name in ("title", "cost")]
        texts += [(("changes", place, "needs", n), f"{{{name}}}") for n, name in enumerate(change.needs)]
        for n, edit in enumerate(change.edits):
            texts.append((("changes", place, "edits", n, "value"), str(edit.value)))
            names = release_names.variables if edit.op == "env" else release_names.arguments
            if names and edit.name not in names:
                yield ("changes", place, "edits", n, "name"), f"{edit.name!r} is in no release"
    for location, text in texts:
        for name in PLACEHOLDER.findall(text):
            if name not in serving.facts and name not in serving_rules.TOLD:
                yield location, f"{{{name}}} is not a fact of this file, nor one of {', '.join(serving_rules.TOLD)}"
        for wrong in unknown_commands(text):
            yield location, wrong


def _test_problems(test: ServingTest, serving: Serving) -> Iterator[tuple[str, str]]:
    tested = [name for name in ("fact", "health_check", "setting") if getattr(test, name)]
    if len(tested) != 1:
        yield "fact", "a test needs exactly one of fact, health_check or setting"
    for check in test.health_check:
        yield from not_one_of("health_check", check, serving_rules.HEALTH_CHECKS)
    for reason in test.reason:
        yield from not_one_of("reason", reason, serving_rules.REASONS)
    if (test.setting is None) is not (test.equals is None):
        yield "equals", "is required for a setting, and only for a setting"
    if test.fact is None:
        return
    yield from not_one_of("op", test.op, serving_rules.OPERATORS)
    if (test.limit is None) is (test.than is None):
        yield "limit", "needs a limit, or another fact as `than`"
    for field, name in (("fact", test.fact), ("than", test.than)):
        fact = None if name is None else serving.facts.get(name)
        if name is not None and fact is None:
            yield field, f"{name!r} is not a fact of this file"
        if fact is not None and test.over not in serving_rules.OVER.get(fact.kind, ()):
            yield (
                "over",
                f"{test.over!r} does not go with a {fact.kind}: {', '.join(serving_rules.OVER.get(fact.kind, ()))}",
            )


def compile_serving(root: Path) -> tuple[dict[str, Any], list[str]]:
    return compile_records(SERVING, root, read_serving)
