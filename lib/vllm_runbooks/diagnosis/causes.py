"""From one launch to ranked findings: the first cause of all processes, never the wrapper around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog.eras import NEVER
from vllm_runbooks.catalog.languages import joined
from vllm_runbooks.catalog.options import version_key
from vllm_runbooks.catalog.records import Condition, Symptom
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.catalog.templates import UNITS, fill, filled_or_plain
from vllm_runbooks.core.records import (
    UNKNOWN_RELEASE,
    Conditions,
    Facts,
    Finding,
    Level,
    Outcome,
    Quote,
    Release,
    Role,
    ServerRun,
    Severity,
    SkippedLine,
    SymptomHit,
)

_MESSAGE_LINES = 3
"""Lines in which a message that begins with a general error names its reason."""
_UNPLACED = -2
"""Depth of a hit whose signature requires no place."""
MAX_QUOTES = 6
"""Most quotations of one finding."""
_SEVERITIES = list(Severity)
_CHATTER = frozenset({"DEBUG", "INFO"})
"""Log levels at which servers repeat client input: a request's text may quote any error."""
SERVED_FAULTS = frozenset({"api.context_overflow"})
"""Classes of requests that fail although the server is healthy."""


@dataclass(frozen=True)
class Diagnosis:
    """The findings of one launch."""

    root_cause: Finding | None
    findings: tuple[Finding, ...]
    """Fatal first, then degraded, then hints; the first cause first within each."""
    left_out: tuple[SkippedLine, ...] = ()
    """Recognized lines that no finding quotes."""
    first_error: Quote | None = None
    """First exception without a symptom, if it precedes the cause or there is none."""
    internal_error: Finding | None = None
    """The finding that this exception is a bug in vLLM or a kernel library."""

    @property
    def hidden(self) -> Mapping[str, int]:
        """Number of recognized lines by kind: wrapper, consequence, benign."""
        return dict(sorted(Counter(line.role.value for line in self.left_out).items()))


@dataclass(frozen=True)
class _Candidate:
    symptom: Symptom
    hits: tuple[SymptomHit, ...]
    """Hits of its signatures, the deciding one first."""
    companions: tuple[SymptomHit, ...]
    captures: Mapping[str, str]
    conditions: Conditions
    has_recovered: bool
    """Whether the process that printed it continued its startup afterwards."""

    @property
    def is_doubtful(self) -> bool:
        """Whether a condition contradicts it."""
        return self.has_recovered or self.hits[0].level in _CHATTER or bool(self.conditions.mismatched)

    @property
    def rank(self) -> tuple[Any, ...]:
        """Sort key among candidates of one severity: the first cause of the process that did not recover."""
        hit = self.hits[0]
        return (
            self.has_recovered,
            hit.level in _CHATTER,
            bool(self.conditions.mismatched),
            hit.quote.file,
            hit.quote.line,
            -hit.depth,
            -self.symptom.id.count("."),
            self.symptom.id,
        )


def diagnose(start: ServerRun, catalog: Catalog) -> Diagnosis:
    """Find the symptoms of a launch and rank them."""
    placed = _placed_by_their_own(start.hits, catalog)
    mismatched = [
        hit for candidate in _candidates(start, catalog, placed) for hit in (*candidate.hits, *candidate.companions)
    ]
    decided = _decided(_most_precise(mismatched, catalog), catalog)
    candidates = sorted(_candidates(start, catalog, decided), key=lambda c: c.rank)
    causes = [c for c in candidates if c.symptom.role is Role.CAUSE]
    fatal = [c for c in causes if c.symptom.severity is Severity.FATAL]
    # A line that a cause quotes as its evidence is not another error.
    quoted = {_line(hit) for c in fatal for hit in c.companions}
    causes = [c for c in causes if c in fatal or _line(c.hits[0]) not in quoted]
    causes = [c for c in causes if not any(_is_reason_of(other, c) for other in fatal)]
    fatal = [c for c in fatal if c in causes]
    proven = {c.symptom.class_ for c in fatal if c.symptom.look_in is None and not c.is_doubtful}
    causes = [c for c in causes if c.symptom.look_in is None or c.symptom.class_ not in proven]
    fatal = [c for c in fatal if c in causes]
    stand_ins = [
        c
        for c in candidates
        if c.symptom.role in (Role.CONSEQUENCE, Role.WRAPPER)
        and (not c.has_recovered or start.outcome is Outcome.FAILED)
    ]
    if not fatal and stand_ins and not start.outcome.is_healthy:
        # A consequence of another failure is more informative than the notice of an end.
        causes.insert(0, min(stand_ins, key=lambda c: c.symptom.role is Role.WRAPPER))
    left_out = tuple(SkippedLine(*_line(hit), c.symptom.role) for c in candidates if c not in causes for hit in c.hits)
    unexplained = None if start.outcome.is_healthy else _first_unexplained(start, fatal)
    findings = sorted(
        (_finding(start, candidate, _level(start, candidate, fatal, unexplained)) for candidate in causes),
        key=lambda f: _SEVERITIES.index(f.severity),
    )
    return Diagnosis(_root_cause(start.outcome, findings), tuple(findings), left_out, unexplained)


def _is_reason_of(other: _Candidate, candidate: _Candidate) -> bool:
    """Whether a more precise symptom follows in the next lines of the same message."""
    first, second = candidate.hits[0], other.hits[0]
    return (
        other.symptom.id.startswith(f"{candidate.symptom.id}.")
        and first.quote.file == second.quote.file
        and 0 < second.quote.line - first.quote.line <= _MESSAGE_LINES
        and first.process == second.process
        and not other.is_doubtful
    )


def _first_unexplained(start: ServerRun, fatal: Sequence[_Candidate]) -> Quote | None:
    """The first exception that no symptom matches, not even as a wrapper; if there is a cause, only one before it."""
    explained = {hit.traceback for hit in start.hits if hit.signature >= 0}
    limit = fatal[0].hits[0].quote.line if fatal else None
    for index, traceback in enumerate(start.tracebacks):
        if index in explained or traceback.ignored or traceback.is_mild or not traceback.chain:
            continue
        quote = traceback.chain[0].quote
        went_on = start.progress.get(traceback.process.pid or 0, 0) > quote.line
        if not went_on and (limit is None or quote.line < limit):
            return quote
    return None


def _root_cause(outcome: Outcome, findings: Sequence[Finding]) -> Finding | None:
    if outcome.is_healthy:
        return next((f for f in findings if f.class_ in SERVED_FAULTS), None)
    return next((f for f in findings if f.severity in (Severity.FATAL, Severity.DEGRADED)), None)


def _placed_by_their_own(hits: Sequence[SymptomHit], catalog: Catalog) -> list[SymptomHit]:
    """Drop hits whose frames are those of a wrapper.

    A parent repeats its worker's message in its own exception ("Worker failed with error '…'"): its
    frames and phase do not show where the worker failed.
    """
    wrapped = {_line(h) for h in hits if h.signature >= 0 and catalog.symptoms[h.symptom].role is Role.WRAPPER}
    return [
        h
        for h in hits
        if h.depth == _UNPLACED or _line(h) not in wrapped or catalog.symptoms[h.symptom].role is not Role.CAUSE
    ]


def _most_precise(hits: Sequence[SymptomHit], catalog: Catalog) -> list[SymptomHit]:
    """Drop hits of a symptom that another symptom on the same line replaces.

    A symptom replaces those that it names (`instead_of`) and those that it refines (a.b.c refines
    a.b) if its place is at least as precise.
    """
    places: dict[tuple[int, int], dict[str, int]] = {}
    for hit in hits:
        if hit.signature >= 0:
            depths = places.setdefault(_line(hit), {})
            depths[hit.symptom] = max(hit.depth, depths.get(hit.symptom, hit.depth))
    replaced = set()
    for place, depths in places.items():
        named = {general for name in depths for general in catalog.symptoms[name].instead_of}
        for name in depths.keys() - named:
            if catalog.symptoms[name].role is Role.CAUSE:
                named |= {s for s, depth in depths.items() if name.startswith(f"{s}.") and depths[name] >= depth}
        replaced |= {(*place, general) for general in named}
    return [hit for hit in hits if (*_line(hit), hit.symptom) not in replaced]


def _decided(hits: Sequence[SymptomHit], catalog: Catalog) -> list[SymptomHit]:
    """Keep the symptom with the innermost place for each group and message.

    A cause precedes symptoms that only follow from one. Messages are the same if the same words are
    in the same place, or the same figures are repeated elsewhere: a logger, a dying interpreter and
    a parent process all print one exception, not all of them with its frames.
    """
    values: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for hit in hits:
        values.setdefault(_place(hit), {_place(hit)}).update(_figures(hit))
    caused = {key for hit in hits if catalog.symptoms[hit.symptom].role is Role.CAUSE for key in values[_place(hit)]}
    hits = [
        hit
        for hit in hits
        if hit.signature < 0
        or catalog.symptoms[hit.symptom].role in (Role.CAUSE, Role.BENIGN)
        or caused.isdisjoint(values[_place(hit)])
    ]
    deepest: dict[tuple[Any, ...], int] = {}
    for hit in hits:
        for key in values[_place(hit)]:
            deepest[key] = max(deepest.get(key, hit.depth), hit.depth)
    winners = {(key, hit.symptom) for hit in hits for key in values[_place(hit)] if hit.depth == deepest[key]}
    return [
        hit for hit in hits if hit.signature < 0 or all((key, hit.symptom) in winners for key in values[_place(hit)])
    ]  # fmt: skip


def _place(hit: SymptomHit) -> tuple[Any, ...]:
    """The message of a hit, for symptoms of its group."""
    group = hit.symptom.split(".")[0]
    if hit.traceback is None:
        return group, hit.quote.file, hit.quote.line, hit.quote.column
    return group, "raised", hit.traceback, hit.link


def _figures(hit: SymptomHit) -> Iterator[tuple[Any, ...]]:
    """Yield the figures that identify a hit's message elsewhere; a single figure is not enough."""
    figures = tuple(sorted((n, v) for n, v in hit.captures.items() if v[:1].isdigit()))
    if hit.signature >= 0 and len(figures) > 1:
        yield hit.symptom.split(".")[0], hit.quote.file, figures


def _candidates(start: ServerRun, catalog: Catalog, hits: Sequence[SymptomHit]) -> Iterator[_Candidate]:
    """Yield the candidates among the hits whose required conditions are true."""
    by_symptom: dict[str, list[SymptomHit]] = {}
    for hit in hits:
        by_symptom.setdefault(hit.symptom, []).append(hit)
    for name, matching in by_symptom.items():
        candidate = _candidate(start, catalog, catalog.symptoms[name], matching)
        if candidate:
            yield candidate


def _candidate(start: ServerRun, catalog: Catalog, symptom: Symptom, hits: Sequence[SymptomHit]) -> _Candidate | None:
    matches = [hit for hit in hits if hit.signature >= 0]
    if symptom.severity is not Severity.HINT and start.outcome.is_healthy:
        matches = [hit for hit in matches if hit.level not in _CHATTER]
    if not matches:
        return None
    matches.sort(key=lambda h: (_has_recovered(start, h), h.level in _CHATTER, h.traceback is None, h.quote.line))
    companions = tuple(hit for hit in hits if hit.signature < 0)
    captures = _captures(matches, companions)
    conditions = _conditions(start, catalog, symptom, matches[0], captures)
    if conditions is None:
        return None
    return _Candidate(symptom, tuple(matches), companions, captures, conditions, _has_recovered(start, matches[0]))


def _captures(hits: Sequence[SymptomHit], companions: Sequence[SymptomHit]) -> dict[str, str]:
    """Captures of the deciding message, completed from others only for other quantities: figures are never mixed."""
    captures: dict[str, str] = dict(hits[0].captures)
    for hit in (*hits[1:], *companions):
        quantities = {_quantity(name) for name in captures}
        if (
            _line(hit) == _line(hits[0])
            or hit.signature < 0
            or not quantities & {_quantity(name) for name in hit.captures}
        ):
            captures.update({n: v for n, v in hit.captures.items() if _quantity(n) not in quantities})
    # A waiting process repeats its message: the last one has the total time.
    last = {n: v for hit in hits for n, v in hit.captures.items() if _quantity(n) == "waited"}
    return {**captures, **{n: v for n, v in last.items() if n in captures}}


def _line(hit: SymptomHit) -> tuple[int, int]:
    """File and line of a hit."""
    return hit.quote.file, hit.quote.line


def _quantity(name: str) -> str:
    """The quantity of a capture: its name without the unit."""
    stem, _, unit = name.rpartition("_")
    return stem if unit in UNITS and stem else name


def _has_recovered(start: ServerRun, hit: SymptomHit) -> bool:
    return start.progress.get(hit.process.pid or 0, 0) > hit.quote.line


def _conditions(
    start: ServerRun, catalog: Catalog, symptom: Symptom, hit: SymptomHit, captures: Mapping[str, str]
) -> Conditions | None:
    """Matched, mismatched and unknown conditions; None if a required one is false."""
    sorted_by: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for condition in symptom.conditions:
        if condition.is_first:
            verdict: bool | None = _is_first(start, catalog, hit)
        elif condition.is_last:
            verdict = _is_last(start, hit)
        elif condition.phase:
            verdict = None if hit.phase is None else hit.phase in condition.phase
        else:
            verdict = _holds(start, condition, captures)
        if condition.required and (verdict is False or (verdict is None and condition.capture)):
            return None
        says = fill(condition.says, captures, start.facts)
        if says is not None:
            sorted_by[verdict].append(says)
    return Conditions(tuple(sorted_by[True]), tuple(sorted_by[False]), tuple(sorted_by[None]))


def _is_first(start: ServerRun, catalog: Catalog, hit: SymptomHit) -> bool:
    """Whether no other failure precedes a line: no other exception, no other fatal symptom."""
    tracebacks = {h.traceback for h in start.hits if h.symptom == hit.symptom}
    for index, traceback in enumerate(start.tracebacks):
        if (
            index not in tracebacks
            and not traceback.ignored
            and traceback.chain
            and traceback.first_line < hit.quote.line
        ):
            return False
    return not any(
        other.quote.line < hit.quote.line
        and other.symptom != hit.symptom
        and other.signature >= 0
        and catalog.symptoms[other.symptom].severity is Severity.FATAL
        and not _is_ruled_out(start, catalog.symptoms[other.symptom], other)
        for other in start.hits
    )


def _is_ruled_out(start: ServerRun, symptom: Symptom, hit: SymptomHit) -> bool:
    """Whether the outcome, or the text after a line, shows that it was not a failure."""
    return any(
        condition.required
        and (
            (condition.outcome and start.outcome.value not in condition.outcome)
            or (condition.is_last and not _is_last(start, hit))
        )
        for condition in symptom.conditions
    )


def _is_last(start: ServerRun, hit: SymptomHit) -> bool:
    """Whether a line is the last of its process; for several processes without a pid, the last of all."""
    return start.last_lines.get(hit.process.place) == hit.quote.line


def _holds(start: ServerRun, condition: Condition, captures: Mapping[str, str]) -> bool | None:
    """Evaluate a condition for a launch; None if the log does not show it."""
    if condition.outcome:
        return start.outcome.value in condition.outcome
    return holds(condition, captures, start.facts, start.arguments, start.release)


def holds(
    condition: Condition,
    captures: Mapping[str, str],
    facts: Facts,
    arguments: Mapping[str, Any],
    release: Release = UNKNOWN_RELEASE,
) -> bool | None:
    """Evaluate a condition on an argument, a fact, a capture or the release; None if unknown."""
    if condition.since or condition.until:
        return _is_between(condition.since, condition.until, release)
    value: Any = None
    if condition.argument:
        if not arguments:
            return None
        value = arguments.get(condition.argument)
    elif condition.fact:
        value = getattr(facts, condition.fact)
    elif condition.capture:
        value = _captured(condition.capture, captures)
    if condition.lacks is not None:
        key = fill(condition.lacks, captures, facts)
        if key is None or not (value is None or isinstance(value, Mapping)):
            return None
        return value is None or value.get(key) != 0
    if value is None:
        return None
    tests: list[Callable[[], bool]] = []
    if condition.equals is not None:
        tests.append(lambda: str(value) == str(condition.equals))
    if condition.contains:
        tests.append(lambda: any(text.lower() in str(value).lower() for text in condition.contains))
    if condition.at_least is not None:
        tests.append(lambda: float(value) >= float(condition.at_least or 0))
    if condition.at_most is not None:
        tests.append(lambda: float(value) <= float(condition.at_most or 0))
    try:
        return all(test() for test in tests)
    except (TypeError, ValueError):
        return None


def _is_between(since: str | None, until: str | None, release: Release) -> bool | None:
    """Whether the launch's release is in a range; None if the log does not show it."""
    versions = (release.version,) if release.version else release.candidates
    keys = [key for version in versions if (key := version_key(version)) is not None]
    first, end = version_key(since or "") or (), version_key(until or "") or NEVER
    verdicts = {first <= key < end for key in keys}
    return verdicts.pop() if len(verdicts) == 1 else None


def _captured(name: str, captures: Mapping[str, str]) -> Any:
    """A capture, or the quotient of two (`need_gib/have_gib`)."""
    part, slash, whole = name.partition("/")
    if not slash:
        return captures.get(name)
    try:
        return float(captures[part]) / float(captures[whole])
    except ZeroDivisionError:
        return float("inf")
    except (KeyError, ValueError, OverflowError):
        return None


def _level(start: ServerRun, candidate: _Candidate, fatal: Sequence[_Candidate], unexplained: Quote | None) -> Level:
    """Certainty of a finding.

    The first fatal exception of a failed launch at a known place is confirmed, unless a condition
    contradicts it or an unexplained exception precedes it. A finding that refers to another log is
    at most probable, and only possible if an exception is unexplained or a condition unknown.
    """
    symptom = candidate.symptom
    if symptom.role is not Role.CAUSE:
        return Level.PROBABLE if unexplained is None and not candidate.has_recovered else Level.POSSIBLE
    if candidate.is_doubtful and symptom.severity is not Severity.HINT:
        return Level.POSSIBLE
    if symptom.severity is not Severity.FATAL:
        conditions = candidate.conditions
        is_unsure = conditions.mismatched or (conditions.unknown and symptom.severity is Severity.HINT)
        return Level.POSSIBLE if is_unsure else Level.CONFIRMED
    if start.outcome.is_healthy or candidate is not fatal[0]:
        return Level.POSSIBLE
    if symptom.look_in is not None:
        return Level.POSSIBLE if candidate.conditions.unknown else Level.PROBABLE
    hit = candidate.hits[0]
    signature = symptom.signatures[hit.signature]
    is_placed = bool(signature.frames) or not signature.phases
    has_ended = start.outcome in (Outcome.FAILED, Outcome.HUNG)
    is_error = hit.traceback is not None or hit.level in ("ERROR", "CRITICAL")
    sure = is_placed and has_ended and is_error and unexplained is None and not _ended_of_another(start, hit)
    return Level.CONFIRMED if sure else Level.PROBABLE


def _ended_of_another(start: ServerRun, hit: SymptomHit) -> bool:
    """Whether the launch may have failed for another reason than a line that was only logged.

    Servers log client input, which may quote any error: such a line is certain unless an
    unexplained exception follows it in another process.
    """
    if hit.traceback is not None:
        return False
    explained = {other.traceback for other in start.hits if other.signature >= 0}
    return any(
        index not in explained
        and traceback.chain
        and not traceback.ignored
        and traceback.process != hit.process
        and traceback.chain[-1].quote.line > hit.quote.line
        for index, traceback in enumerate(start.tracebacks)
    )


def _finding(start: ServerRun, candidate: _Candidate, level: Level) -> Finding:
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
        explanation=joined(sentence for sentence in sentences if sentence),
        do_first=filled_or_plain(symptom.do_first, captures, start.facts),
        confirm=filled_or_plain(symptom.confirm, captures, start.facts),
        refute=filled_or_plain(symptom.refute, captures, start.facts),
        look_in=symptom.look_in,
    )


def _evidence(candidate: _Candidate) -> tuple[Quote, ...]:
    """The deciding line, lines with further evidence, then its repetitions; each text once."""
    quotes: dict[tuple[int, int], Quote] = {}
    for hit in (candidate.hits[0], *candidate.companions, *candidate.hits[1:]):
        quotes.setdefault(_line(hit), hit.quote)
    return tuple(quotes.values())[:MAX_QUOTES]


def found_by_comparison(
    symptom: Symptom, captures: Mapping[str, str], evidence: tuple[Quote, ...] = (), level: Level = Level.CONFIRMED
) -> Finding:
    """The finding of a symptom that no single line shows, only a comparison."""
    return Finding(
        symptom=symptom.id,
        class_=symptom.class_,
        title=symptom.title,
        severity=symptom.severity,
        level=level,
        evidence=evidence,
        captures=captures,
        conditions=Conditions(),
        explanation=joined(filter(None, (fill(text, captures, Facts()) for text in symptom.explanation))),
        do_first=filled_or_plain(symptom.do_first, captures, Facts()),
        confirm=filled_or_plain(symptom.confirm, captures, Facts()),
        refute=filled_or_plain(symptom.refute, captures, Facts()),
        look_in=symptom.look_in,
    )
