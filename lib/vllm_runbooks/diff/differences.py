"""Two entries compared: different inputs before different results."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.specs import DefaultReviews
from vllm_runbooks.core.earlier_schema import SERVER, upgrade
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.history.records import (
    CHECK,
    PROBE,
    RUN,
    SERVE,
    Differing,
    EntryDifferences,
    HistoryEntry,
    with_present_names,
)
from vllm_runbooks.lint import moves
from vllm_runbooks.probe import checking
from vllm_runbooks.probe import expected as probe_expected
from vllm_runbooks.probe import history_entry as probed
from vllm_runbooks.probe.records import Health, Observation
from vllm_runbooks.probe.starts import Guarded
from vllm_runbooks.reading import arguments, documents
from vllm_runbooks.serve import history_entry as guarded

_MEASURED = re.compile(r"(?:^|[._])(?:seconds|ms|s|tokens_per_s_max)(?:\[\d{1,4}\])?$", re.ASCII)
"""Suffixes of names of times and rates, which always vary."""
_NO_RESULTS = ("case", "folder")
"""Results that only name the subject or a location."""
_FIGURE = re.compile(r"(?:^|\.)facts\.(\w{1,100})$", re.ASCII)
_OF_A_PROBE = ("outcome", "root_cause", "findings", "health_checks")
"""Significant results of a probe; the others always vary."""
_RELEASE = re.compile(r"(?:^|\.)facts\.vllm$", re.ASCII)
_OF_THE_COMMAND = ("given", "release_data")
"""Inputs that only name the source of others."""
_MOST_DEPTH = 12


def compared(a: HistoryEntry, b: HistoryEntry) -> EntryDifferences:
    """Differences of two entries, in the order of the first."""
    reviews = catalog.specs().defaults
    return EntryDifferences(
        _called(a),
        _called(b),
        inputs=tuple(_inputs(a, b, reviews)),
        environment=tuple(_of(_flat(a.environment), _flat(b.environment))),
        results=tuple(_results(a, b)),
        notes=tuple(_notes(a, b)),
    )


def read(data: Mapping[str, Any], name: str) -> HistoryEntry:
    """The entry in a document: exported, or printed or stored by another command.

    Raises:
        InputError: It is none of these.
    """
    is_entry = {"id", "kind", "subject"} <= data.keys()
    # Reports of launches had no schema at first.
    upgraded = data if is_entry else upgrade({"schema": 1, **data}, SERVER)
    fields = {key: value for key, value in upgraded.items() if key != "schema"}
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        if is_entry:
            return with_present_names(_checked(record(HistoryEntry, fields)))
        if {"attempts", "checks", "status"} <= fields.keys():
            return _of_start(record(Guarded, fields), name)
        if fields.get("kind") == PROBE:
            is_judged = "observation" in fields
            return _of_probe(record(Health, fields) if is_judged else checking.health(record(Observation, fields)))
        if "runs" in fields:
            runs = {_subject(run): run for run in fields["runs"]}
            return HistoryEntry("", CHECK, name, str(fields.get("began") or ""), results={"runs": _parts(runs)})
        if {"outcome", "facts", "findings", "vllm"} <= fields.keys():
            return _of_answer(fields, name)
    raise InputError(f"{name}: is not a history entry, nor a document of diagnose, serve, probe or check")


def with_parts(entry: HistoryEntry, parts: Sequence[HistoryEntry]) -> HistoryEntry:
    """A check with the results of its runs, to compare these as well."""
    if entry.kind != CHECK or not parts:
        return entry
    runs = {part.subject: {**part.results, "verdict": part.verdict} for part in parts}
    return replace(entry, results={**entry.results, "runs": _parts(runs)})


def _checked(entry: HistoryEntry) -> HistoryEntry:
    """An entry with parts of the right types.

    Raises:
        TypeError: one of them has another type.
    """
    texts = (entry.id, entry.kind, entry.subject, entry.began, entry.reason, entry.host)
    mappings = (entry.inputs, entry.results, entry.environment)
    named = (entry.vllm, entry.job, entry.part_of)
    if (
        not all(isinstance(item, str) for item in texts)
        or not all(isinstance(item, str | None) for item in named)
        or not all(isinstance(item, Mapping) for item in mappings)
    ):
        raise TypeError("no entry")
    return entry


def _of_start(start: Guarded, name: str) -> HistoryEntry:
    verdict, reason = guarded.judged(start)
    last = start.attempts[-1] if start.attempts else None
    return HistoryEntry(
        "",
        SERVE,
        name,
        "",
        verdict=verdict,
        reason=reason,
        vllm=start.vllm,
        inputs={} if last is None else {"command": last.command},
        results=guarded.results(start),
    )


def _of_probe(health: Health) -> HistoryEntry:
    seen = health.observation
    return HistoryEntry(
        "",
        PROBE,
        seen.address,
        seen.timestamp,
        seconds=seen.seconds,
        verdict=health.verdict,
        reason=health.reason,
        vllm=health.vllm.version,
        inputs=probed.inputs(health),
        results=probed.results(health),
    )


def _of_answer(answer: Mapping[str, Any], name: str) -> HistoryEntry:
    cause = answer["root_cause"]
    facts = {key: value for key, value in answer["facts"].items() if value is not None}
    for term in (answer.get("plan") or {}).get("terms") or ():
        facts[f"planned_{term['name']}_gib"] = term["planned_gib"]
    is_well = cause is None and answer["outcome"] in ("ready", "running")
    return HistoryEntry(
        "",
        RUN,
        name,
        "",
        verdict=Verdict.PASS if is_well else Verdict.FAIL,
        vllm=answer["vllm"]["version"],
        inputs={"files": list(answer["files"])},
        results={
            "outcome": answer["outcome"],
            "root_cause": None if cause is None else {"symptom": cause["symptom"], "class": cause["class"]},
            "findings": [finding["symptom"] for finding in answer["findings"]],
            "facts": facts,
        },
    )


def _subject(run: Mapping[str, Any]) -> str:
    return f"{run['runbook']} on {run['case']}" if run["case"] else str(run["runbook"])


def _parts(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    names = ("verdict", "outcome", "root_cause", "findings", "facts")
    return {
        subject: {
            name: [_id(item) for item in run[name]] if name == "findings" else run[name]
            for name in names
            if name in run
        }
        for subject, run in runs.items()
    }


def _id(finding: Any) -> Any:
    return finding["symptom"] if isinstance(finding, Mapping) else finding


def _called(entry: HistoryEntry) -> str:
    if not entry.id:
        return entry.subject
    return f"{entry.id}, {entry.says}, started {entry.began}{f' on {entry.host}' if entry.host else ''}"


def _inputs(a: HistoryEntry, b: HistoryEntry, reviews: DefaultReviews) -> Iterator[Differing]:
    if a.subject != b.subject and a.id and b.id:
        yield Differing("subject", a.subject, b.subject)
    if a.vllm != b.vllm:
        yield Differing("vllm", a.vllm, b.vllm)
    reviewed = {**reviews.options, **reviews.environment}
    options_given = [set(_texts(side.inputs.get("given"))) for side in (a, b)]
    first, second = ({k: v for k, v in side.inputs.items() if k not in _OF_THE_COMMAND} for side in (a, b))
    if _unknown_starts(a, b):
        first, second = ({k: v for k, v in side.items() if k != "options"} for side in (first, second))
    reported = set()
    for side in _of(_flat(first), _flat(second)):
        place, _, name = side.name.partition(".")
        if place in ("options", "variables") and name:
            name = name.partition(".")[0]
            reported.add(name)
            note = reviewed[name].why if name in reviewed else ""
            if place == "options":
                note = _whose(name in options_given[0], name in options_given[1], note)
            yield replace(side, note=note)
        else:
            yield side
    for move in _moved(a.vllm, b.vllm, reviews, options_given[0] | options_given[1]):
        if move.option not in reported:
            note = _whose(False, False, move.note)
            yield _differing(f"defaults.{move.option}", move.from_, move.to, note)


def _whose(is_first: bool, is_second: bool, why: str) -> str:  # noqa: FBT001 - of two sides each
    """Note on the source of an option's two values."""
    if is_first and is_second:
        return ""
    if is_first or is_second:
        return f"the {'second' if is_first else 'first'} is its release's default"
    return f"Default changed{f': {why}' if why else ''}"


def _moved(a: str | None, b: str | None, reviews: DefaultReviews, named: set[str]) -> Iterator[Any]:
    """Defaults that matter and differ between two releases, for a server with only a model."""
    if a is None or b is None or a == b:
        return
    with contextlib.suppress(InputError):
        before, after = options.load(a), options.load(b)
        start = documents.read("vllm serve model", kind="shell").starts[0]
        parsed = arguments.parse([word.value for word in start.words], after, start.entry)
        moved = moves.changed_defaults(start, parsed, (before, after), reviews, given=named, is_idle=lambda _: False)
        yield from sorted((move.told for move in moved), key=lambda change: change.option)


def _results(a: HistoryEntry, b: HistoryEntry) -> Iterator[Differing]:
    yield from _of({"verdict": a.verdict}, {"verdict": b.verdict})
    first, second = ({k: v for k, v in item.results.items() if k not in _NO_RESULTS} for item in (a, b))
    is_probe = a.kind == b.kind == PROBE
    for item in _of(_flat(first), _flat(second)):
        if _RELEASE.search(item.name):
            continue  # reported among the inputs
        if is_probe:
            yield replace(item, is_significant=item.name.partition(".")[0] in _OF_A_PROBE)
        else:
            yield replace(item, is_significant=_MEASURED.search(item.name) is None and not _is_of_a_server(item.name))
    yield from (replace(item, is_significant=False) for item in _of({"seconds": a.seconds}, {"seconds": b.seconds}))


def _is_of_a_server(name: str) -> bool:
    """Whether a result is a figure of a running server, as runs of a runbook report it."""
    match = _FIGURE.search(name)
    return match is not None and (match[1].startswith(probe_expected.OF_A_LOAD) or match[1] in catalog.serving().facts)


def _unknown_starts(a: HistoryEntry, b: HistoryEntry) -> list[str]:
    """Probes of servers with unknown launch commands."""
    if not a.kind == b.kind == PROBE:
        return []
    return [
        name
        for name, item in (("first", a), ("second", b))
        if not item.inputs.get("command") and not item.inputs.get("arguments")
    ]


def _notes(a: HistoryEntry, b: HistoryEntry) -> Iterator[str]:
    if unknown := _unknown_starts(a, b):
        of = "both servers" if len(unknown) > 1 else f"the {unknown[0]} server"
        yield f"the options of {of} are unknown; to compare them, probe with --command or --log"
    if a.kind != b.kind:
        yield f"the first is {a.says}, the second {b.says}: they may not be comparable"
    for name, item in (("first", a), ("second", b)):
        if item.verdict is None:
            yield f"the {name} has not ended, or is not a history entry"
        if not item.environment:
            yield f"the host of the {name} entry is unknown"


def _of(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Differing]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield _differing(name, a.get(name), b.get(name))


def _differing(name: str, a: Any, b: Any, note: str = "") -> Differing:
    if not _is_number(a) or not _is_number(b):
        return Differing(name, a, b, note=note)
    return Differing(name, a, b, change=b - a, percent=100 * (b - a) / abs(a) if a else None, note=note)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flat(value: Mapping[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """Values of nested mappings by dotted names; findings each by its own."""
    flat: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, Mapping) and item and depth < _MOST_DEPTH:
            flat |= _flat(item, f"{before}{name}.", depth + 1)
        elif name == "findings" and isinstance(item, (list, tuple)):
            flat |= {f"{before}findings.{inner}": "found" for inner in item}
        elif isinstance(item, (list, tuple)) and item and all(isinstance(inner, Mapping) for inner in item):
            flat |= _flat({f"{name}[{number}]": inner for number, inner in enumerate(item)}, before, depth + 1)
        elif item not in ({}, [], ()):
            flat[f"{before}{name}"] = item
    return flat


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []
