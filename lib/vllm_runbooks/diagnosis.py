"""One start's record to ranked findings: the first cause over all processes, never the wrapper around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.catalog import Catalog
from vllm_runbooks.records import (
    Condition,
    Conditions,
    Facts,
    Finding,
    Hit,
    Level,
    Outcome,
    Quote,
    Role,
    Severity,
    Start,
    Symptom,
)

_QUOTES = 6
"""Most quotations shown for one finding."""
_UNITS = {"gib": "GiB", "mib": "MiB", "kib": "KiB", "bytes": "bytes", "seconds": "s", "tokens": "tokens", "percent": "%"}
_SEVERITIES = list(Severity)
_ROLES = [Role.CAUSE, Role.CONSEQUENCE, Role.WRAPPER, Role.BENIGN]
_SERVED_FAULTS = frozenset({"api.context_overflow"})
"""Classes of requests that cannot be served although the server is healthy."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found in one start."""

    root_cause: Finding | None
    findings: tuple[Finding, ...]
    """Fatal first, then degraded, then hints; the root cause is the first."""
    hidden: Mapping[str, int]
    """Lines that were recognised and left out, by kind: wrapper, consequence, benign."""
    first_error: Quote | None = None
    """The first exception that no symptom explains, where no cause was found."""


@dataclass(frozen=True)
class _Candidate:
    symptom: Symptom
    hits: tuple[Hit, ...]
    """Hits of its signatures, the deciding one first."""
    companions: tuple[Hit, ...]
    captures: Mapping[str, str]
    conditions: Conditions
    has_recovered: bool
    """Whether the process that printed it went on with the start afterwards."""

    @property
    def rank(self) -> tuple[Any, ...]:
        """Sort key among candidates of one severity: the first cause of the process that did not recover."""
        hit = self.hits[0]
        return (
            _ROLES.index(self.symptom.role),
            self.has_recovered,
            bool(self.conditions.mismatched),
            hit.quote.file,
            hit.quote.line,
            -hit.depth,
            -self.symptom.id.count("."),
            self.symptom.id,
        )


def diagnose(start: Start, catalog: Catalog) -> Diagnosis:
    """Find the symptoms in a start and rank them."""
    by_symptom: dict[str, list[Hit]] = {}
    for hit in _decided(start.hits):
        by_symptom.setdefault(hit.symptom, []).append(hit)
    candidates = [
        _candidate(start, catalog.symptoms[name], hits)
        for name, hits in by_symptom.items()
        if any(hit.signature >= 0 for hit in hits)
    ]
    shown = sorted((c for c in candidates if c.symptom.role is Role.CAUSE), key=lambda c: c.rank)
    fatal = [c for c in shown if c.symptom.severity is Severity.FATAL]
    stand_ins = sorted(
        (c for c in candidates if c.symptom.role in (Role.CONSEQUENCE, Role.WRAPPER) and not c.has_recovered),
        key=lambda c: c.rank,
    )
    if not fatal and stand_ins and not start.outcome.is_healthy:
        shown.insert(0, stand_ins[0])
    hidden = Counter(
        c.symptom.role.value for c in candidates if c not in shown for hit in c.hits if hit.signature >= 0
    )
    unexplained = None if fatal or start.outcome.is_healthy else _first_unexplained(start)
    findings = sorted(
        (_finding(start, candidate, _level(start, candidate, fatal, unexplained)) for candidate in shown),
        key=lambda f: _SEVERITIES.index(f.severity),
    )
    return Diagnosis(_root_cause(start.outcome, findings), tuple(findings), dict(sorted(hidden.items())), unexplained)


def _first_unexplained(start: Start) -> Quote | None:
    """The first exception of the start that no symptom knows, not even as a wrapper."""
    known = {hit.traceback for hit in start.hits if hit.signature >= 0}
    for index, traceback in enumerate(start.tracebacks):
        if index not in known and not traceback.ignored and traceback.chain:
            return traceback.chain[0].quote
    return None


def _root_cause(outcome: Outcome, findings: Sequence[Finding]) -> Finding | None:
    if outcome.is_healthy:
        return next((f for f in findings if f.class_ in _SERVED_FAULTS), None)
    for severity in (Severity.FATAL, Severity.DEGRADED):
        for finding in findings:
            if finding.severity is severity:
                return finding
    return None


def _decided(hits: Sequence[Hit]) -> list[Hit]:
    """Of several symptoms of one group that claim the same words, keep the one that knows the innermost place."""
    deepest: dict[tuple[Any, ...], int] = {}
    for hit in hits:
        deepest[_words(hit)] = max(deepest.get(_words(hit), -2), hit.depth)
    return [hit for hit in hits if hit.signature < 0 or hit.depth == deepest[_words(hit)]]


def _words(hit: Hit) -> tuple[Any, ...]:
    return hit.symptom.split(".")[0], hit.quote.file, hit.quote.line, hit.quote.column


def _candidate(start: Start, symptom: Symptom, hits: Sequence[Hit]) -> _Candidate:
    own = [hit for hit in hits if hit.signature >= 0]
    recovered = {id(hit): _has_recovered(start, hit) for hit in own}
    own.sort(key=lambda hit: (recovered[id(hit)], hit.traceback is None, hit.quote.file, hit.quote.line))
    companions = tuple(hit for hit in hits if hit.signature < 0)
    captures: dict[str, str] = {}
    for hit in (*own, *companions):
        captures = {**hit.captures, **captures}
    return _Candidate(
        symptom,
        tuple(own),
        companions,
        captures,
        _conditions(start, symptom, captures),
        recovered[id(own[0])],
    )


def _has_recovered(start: Start, hit: Hit) -> bool:
    return start.progress.get(hit.process.pid or 0, 0) > hit.quote.line


def _conditions(start: Start, symptom: Symptom, captures: Mapping[str, str]) -> Conditions:
    sorted_by: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for condition in symptom.conditions:
        says = fill(condition.says, captures, start.facts)
        if says is not None:
            sorted_by[_holds(start, condition, captures)].append(says)
    return Conditions(tuple(sorted_by[True]), tuple(sorted_by[False]), tuple(sorted_by[None]))


def _holds(start: Start, condition: Condition, captures: Mapping[str, str]) -> bool | None:
    """Whether a condition holds for a start; None where the log does not say."""
    if condition.outcome:
        return start.outcome.value in condition.outcome
    value: Any = None
    if condition.argument:
        if not start.arguments:
            return None
        value = start.arguments.get(condition.argument)
    elif condition.fact:
        value = getattr(start.facts, condition.fact)
    elif condition.capture:
        value = captures.get(condition.capture)
    if condition.lacks is not None:
        key = fill(condition.lacks, captures, start.facts)
        if key is None or not (value is None or isinstance(value, Mapping)):
            return None
        return value is None or value.get(key) != 0
    if value is None:
        return None
    tests: list[Callable[[], bool]] = []
    if condition.equals is not None:
        tests.append(lambda: str(value) == str(condition.equals))
    if condition.at_least is not None:
        tests.append(lambda: float(value) >= float(condition.at_least or 0))
    if condition.at_most is not None:
        tests.append(lambda: float(value) <= float(condition.at_most or 0))
    try:
        return all(test() for test in tests)
    except (TypeError, ValueError):
        return None


def _level(start: Start, candidate: _Candidate, fatal: Sequence[_Candidate], unexplained: Quote | None) -> Level:
    """How sure: a fatal exception of a failed start, nothing against it and no rival, is confirmed.

    That the cause is not in the text is at most probable, and only possible while an exception is left unexplained.
    """
    if candidate.symptom.role is not Role.CAUSE:
        return Level.PROBABLE if unexplained is None else Level.POSSIBLE
    if candidate.has_recovered or candidate.conditions.mismatched:
        return Level.POSSIBLE
    if candidate.symptom.severity is not Severity.FATAL:
        return Level.CONFIRMED
    if start.outcome.is_healthy:
        return Level.POSSIBLE
    rivals = [c for c in fatal if c is not candidate and c.rank[:3] == candidate.rank[:3]]
    is_first = all(candidate.rank <= rival.rank for rival in rivals)
    in_exception = candidate.hits[0].traceback is not None or candidate.hits[0].level in ("ERROR", "CRITICAL")
    if start.outcome in (Outcome.FAILED, Outcome.HUNG) and in_exception and is_first:
        return Level.CONFIRMED
    return Level.PROBABLE if is_first else Level.POSSIBLE


def _finding(start: Start, candidate: _Candidate, level: Level) -> Finding:
    symptom, captures = candidate.symptom, candidate.captures
    severity = symptom.severity
    if severity is Severity.FATAL and start.outcome.is_healthy:
        severity = Severity.DEGRADED
    sentences = [fill(sentence, captures, start.facts) for sentence in symptom.explanation]
    return Finding(
        symptom=symptom.id,
        class_=symptom.class_,
        title=symptom.title,
        severity=severity,
        level=level,
        evidence=_evidence(candidate),
        captures=dict(captures),
        conditions=candidate.conditions,
        explanation=" ".join(sentence for sentence in sentences if sentence),
        do_first=_filled_or_plain(symptom.do_first, captures, start.facts),
        confirm=_filled_or_plain(symptom.confirm, captures, start.facts),
        refute=_filled_or_plain(symptom.refute, captures, start.facts),
        look_in=replace(symptom.look_in) if symptom.look_in else None,
    )


def _evidence(candidate: _Candidate) -> tuple[Quote, ...]:
    quotes: dict[tuple[int, int], Quote] = {}
    for hit in (candidate.hits[0], *candidate.companions, *candidate.hits[1:]):
        quotes.setdefault((hit.quote.file, hit.quote.line), hit.quote)
    return tuple(quotes.values())[:_QUOTES]


_PLACEHOLDER = re.compile(r"\{(\w{1,60})\}")


def fill(text: str, captures: Mapping[str, str], facts: Facts) -> str | None:
    """The text with its `{name}` replaced by captures and facts; None when one of them is not known."""
    missing = False

    def known(match: re.Match[str]) -> str:
        nonlocal missing
        value = value_of(match[1], captures, facts)
        missing = missing or value is None
        return value or ""

    filled = _PLACEHOLDER.sub(known, text)
    return None if missing else filled


def _filled_or_plain(text: str, captures: Mapping[str, str], facts: Facts) -> str:
    """Sentence by sentence: one that needs an unknown value is left out."""
    sentences = re.split(r"(?<=[.;:!?])\s+(?=[A-Z`\"])", text.strip())
    return " ".join(s for s in (fill(sentence, captures, facts) for sentence in sentences) if s)


def value_of(name: str, captures: Mapping[str, str], facts: Facts) -> str | None:
    """A capture or fact in words: `tried` finds `tried_mib` and says "698.00 MiB"."""
    if name in captures:
        return captures[name]
    for suffix, unit in _UNITS.items():
        if f"{name}_{suffix}" in captures:
            return f"{captures[f'{name}_{suffix}']} {unit}"
    fact = getattr(facts, name, None)
    if fact is None:
        return None
    if isinstance(fact, float):
        number = f"{fact:.2f}".rstrip("0").rstrip(".")
    elif isinstance(fact, int):
        number = f"{fact:,}"
    else:
        number = str(fact)
    unit = _UNITS.get(name.rsplit("_", 1)[-1], "")
    return f"{number} {unit}".strip()
