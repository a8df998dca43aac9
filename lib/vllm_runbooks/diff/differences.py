"""Two entries side by side: what was asked for and differs, before what it came to and differs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.specs import DefaultReviews
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.history.records import CHECK, PROBE, RUN, SERVE, Compared, Differing, Entry
from vllm_runbooks.lint import moves
from vllm_runbooks.probe import expected as probe_expected
from vllm_runbooks.probe import history_entry as probed
from vllm_runbooks.probe import judging
from vllm_runbooks.probe.records import Health, Observation
from vllm_runbooks.probe.starts import Guarded
from vllm_runbooks.reading import arguments, documents
from vllm_runbooks.serve import history_entry as guarded

_MEASURED = re.compile(r"(?:^|[._])(?:seconds|ms|s|tokens_per_s_max)(?:\[\d{1,4}\])?$", re.ASCII)
"""How the names of times and rates end, which are never the same twice."""
_NO_RESULTS = ("case", "folder")
"""What stands among the results and says what was looked at, or where something lies."""
_FIGURE = re.compile(r"(?:^|\.)facts\.(\w{1,100})$", re.ASCII)
_OF_A_PROBE = ("outcome", "root_cause", "findings", "rungs")
"""Results of a probe that count; the others are figures of a moment."""
_RELEASE = re.compile(r"(?:^|\.)facts\.vllm$", re.ASCII)
_OF_THE_COMMAND = ("given", "release_data")
"""Inputs that say where the others come from."""
_MOST_DEPTH = 12


def compared(a: Entry, b: Entry) -> Compared:
    """The differences of two entries, in the order in which they stand there."""
    reviews = catalog.specs().defaults
    return Compared(
        _called(a),
        _called(b),
        inputs=tuple(_inputs(a, b, reviews)),
        environment=tuple(_of(_flat(a.environment), _flat(b.environment))),
        results=tuple(_results(a, b)),
        notes=tuple(_notes(a, b)),
    )


def read(data: Mapping[str, Any], name: str) -> Entry:
    """The entry that a document is: one that was exported, or what another command printed or stored.

    Raises:
        InputError: it is none of these.
    """
    told = {key: value for key, value in data.items() if key != "schema"}
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        if {"id", "kind", "subject"} <= told.keys():
            return _checked(record(Entry, told))
        if {"attempts", "checks", "status"} <= told.keys():
            return _of_start(record(Guarded, told), name)
        if told.get("kind") == PROBE:
            is_judged = "observation" in told
            return _of_probe(record(Health, told) if is_judged else judging.health(record(Observation, told)))
        if "runs" in told:
            runs = {_subject(run): run for run in told["runs"]}
            return Entry("", CHECK, name, str(told.get("began") or ""), results={"runs": _parts(runs)})
        if {"outcome", "facts", "findings", "vllm"} <= told.keys():
            return _of_answer(told, name)
    raise InputError(
        f"{name}: is no entry of a history, and no document of diagnose, serve, probe or check; name one of these"
    )


def with_parts(entry: Entry, parts: Sequence[Entry]) -> Entry:
    """A check with what its runs came to, so that these are compared as well."""
    if entry.kind != CHECK or not parts:
        return entry
    runs = {each.subject: {**each.results, "verdict": each.verdict} for each in parts}
    return replace(entry, results={**entry.results, "runs": _parts(runs)})


def _checked(entry: Entry) -> Entry:
    """An entry whose parts are what they are called.

    Raises:
        TypeError: one of them is something else.
    """
    texts = (entry.id, entry.kind, entry.subject, entry.began, entry.reason, entry.host)
    mappings = (entry.inputs, entry.results, entry.environment)
    named = (entry.vllm, entry.job, entry.part_of)
    if (
        not all(isinstance(each, str) for each in texts)
        or not all(isinstance(each, str | None) for each in named)
        or not all(isinstance(each, Mapping) for each in mappings)
    ):
        raise TypeError("no entry")
    return entry


def _of_start(found: Guarded, name: str) -> Entry:
    verdict, reason = guarded.judged(found)
    last = found.attempts[-1] if found.attempts else None
    return Entry(
        "",
        SERVE,
        name,
        "",
        verdict=verdict,
        reason=reason,
        vllm=found.vllm,
        inputs={} if last is None else {"command": last.command},
        results=guarded.results(found),
    )


def _of_probe(found: Health) -> Entry:
    seen = found.observation
    return Entry(
        "",
        PROBE,
        seen.place,
        seen.at,
        seconds=seen.seconds,
        verdict=found.verdict,
        reason=found.reason,
        vllm=found.vllm.version,
        inputs=probed.inputs(found),
        results=probed.results(found),
    )


def _of_answer(told: Mapping[str, Any], name: str) -> Entry:
    cause = told["root_cause"]
    facts = {key: value for key, value in told["facts"].items() if value is not None}
    for term in (told.get("plan") or {}).get("terms") or ():
        facts[f"planned_{term['name']}_gib"] = term["planned_gib"]
    is_well = cause is None and told["outcome"] in ("ready", "running")
    return Entry(
        "",
        RUN,
        name,
        "",
        verdict=Verdict.PASS if is_well else Verdict.FAIL,
        vllm=told["vllm"]["version"],
        inputs={"files": list(told["files"])},
        results={
            "outcome": told["outcome"],
            "root_cause": None if cause is None else {"symptom": cause["symptom"], "class": cause["class"]},
            "findings": [each["symptom"] for each in told["findings"]],
            "facts": facts,
        },
    )


def _subject(run: Mapping[str, Any]) -> str:
    return f"{run['runbook']} on {run['case']}" if run["case"] else str(run["runbook"])


def _parts(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    names = ("verdict", "outcome", "root_cause", "findings", "facts")
    return {
        subject: {
            name: [_id(each) for each in run[name]] if name == "findings" else run[name]
            for name in names
            if name in run
        }
        for subject, run in runs.items()
    }


def _id(finding: Any) -> Any:
    return finding["symptom"] if isinstance(finding, Mapping) else finding


def _called(entry: Entry) -> str:
    if not entry.id:
        return entry.subject
    return f"{entry.id}, {entry.says}, begun {entry.began}{f' on {entry.host}' if entry.host else ''}"


def _inputs(a: Entry, b: Entry, reviews: DefaultReviews) -> Iterator[Differing]:
    if a.subject != b.subject and a.id and b.id:
        yield Differing("subject", a.subject, b.subject)
    if a.vllm != b.vllm:
        yield Differing("vllm", a.vllm, b.vllm)
    known = {**reviews.options, **reviews.environment}
    given = [set(_texts(each.inputs.get("given"))) for each in (a, b)]
    first, second = ({k: v for k, v in each.inputs.items() if k not in _OF_THE_COMMAND} for each in (a, b))
    if _unknown_starts(a, b):
        first, second = ({k: v for k, v in each.items() if k != "options"} for each in (first, second))
    told = set()
    for each in _of(_flat(first), _flat(second)):
        place, _, name = each.name.partition(".")
        if place in ("options", "variables") and name:
            name = name.partition(".")[0]
            told.add(name)
            note = known[name].why if name in known else ""
            if place == "options":
                note = _whose(name in given[0], name in given[1], note)
            yield replace(each, note=note)
        else:
            yield each
    for move in _moved(a.vllm, b.vllm, reviews, given[0] | given[1]):
        if move.option not in told:
            note = _whose(False, False, move.note)
            yield _differing(f"defaults.{move.option}", move.from_, move.to, note)


def _whose(is_first: bool, is_second: bool, why: str) -> str:  # noqa: FBT001 - of two sides each
    """Where two values of an option come from."""
    if is_first and is_second:
        return ""
    if is_first or is_second:
        return f"the {'second' if is_first else 'first'} is its release's default"
    return f"the default has changed{f': {why}' if why else ''}"


def _moved(a: str | None, b: str | None, reviews: DefaultReviews, given: set[str]) -> Iterator[Any]:
    """Defaults that matter and differ between two releases, of a server that is given nothing but its model."""
    if a is None or b is None or a == b:
        return
    with contextlib.suppress(InputError):
        before, after = options.load(a), options.load(b)
        start = documents.read("vllm serve model", kind="shell").starts[0]
        parsed = arguments.parse([word.value for word in start.words], after, start.entry)
        found = moves.changed_defaults(start, parsed, (before, after), reviews, given=given, is_idle=lambda _: False)
        yield from sorted((each.told for each in found), key=lambda told: told.option)


def _results(a: Entry, b: Entry) -> Iterator[Differing]:
    yield from _of({"verdict": a.verdict}, {"verdict": b.verdict})
    first, second = ({k: v for k, v in each.results.items() if k not in _NO_RESULTS} for each in (a, b))
    is_probe = a.kind == b.kind == PROBE
    for each in _of(_flat(first), _flat(second)):
        if _RELEASE.search(each.name):
            continue  # told among the inputs
        if is_probe:
            yield replace(each, counts=each.name.partition(".")[0] in _OF_A_PROBE)
        else:
            yield replace(each, counts=_MEASURED.search(each.name) is None and not _is_of_a_server(each.name))
    yield from (replace(each, counts=False) for each in _of({"seconds": a.seconds}, {"seconds": b.seconds}))


def _is_of_a_server(name: str) -> bool:
    """Whether a result is a figure of a running server, as runs of a runbook tell them."""
    match = _FIGURE.search(name)
    return match is not None and (match[1].startswith(probe_expected.OF_A_LOAD) or match[1] in catalog.serving().facts)


def _unknown_starts(a: Entry, b: Entry) -> list[str]:
    """Of two probes those of which it is not known what the server was started with."""
    if not a.kind == b.kind == PROBE:
        return []
    return [
        name
        for name, each in (("first", a), ("second", b))
        if not each.inputs.get("command") and not each.inputs.get("arguments")
    ]


def _notes(a: Entry, b: Entry) -> Iterator[str]:
    if unknown := _unknown_starts(a, b):
        of = "both servers were" if len(unknown) > 1 else f"the {unknown[0]} server was"
        yield f"what {of} started with is not known, as a server does not tell it: probe with --command or --log"
    if a.kind != b.kind:
        yield f"the first is {a.says}, the second {b.says}: they may have little in common"
    for name, each in (("first", a), ("second", b)):
        if each.verdict is None:
            yield f"the {name} has not ended, or is no entry of a history"
        if not each.environment:
            yield f"the {name} does not tell where it was done"


def _of(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Differing]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield _differing(name, a.get(name), b.get(name))


def _differing(name: str, a: Any, b: Any, note: str = "") -> Differing:
    if not _is_number(a) or not _is_number(b):
        return Differing(name, a, b, note=note)
    return Differing(name, a, b, by=b - a, percent=100 * (b - a) / abs(a) if a else None, note=note)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flat(value: Mapping[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of nested mappings by their dotted names; of findings each by its own."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, Mapping) and each and depth < _MOST_DEPTH:
            found |= _flat(each, f"{before}{name}.", depth + 1)
        elif name == "findings" and isinstance(each, (list, tuple)):
            found |= {f"{before}findings.{one}": "found" for one in each}
        elif isinstance(each, (list, tuple)) and each and all(isinstance(one, Mapping) for one in each):
            found |= _flat({f"{name}[{number}]": one for number, one in enumerate(each)}, before, depth + 1)
        elif each not in ({}, [], ()):
            found[f"{before}{name}"] = each
    return found


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else []
