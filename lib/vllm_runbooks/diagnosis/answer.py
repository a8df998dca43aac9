"""Evidence to the whole answer: starts read and diagnosed, remedies with their checks, memory beside its plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.records import Policy, RemedyText
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import Answer, Compared, Facts, Finding, Outcome, Release, Remedy, Start, StartSummary
from vllm_runbooks.core.redaction.redact import redact_name, redact_text
from vllm_runbooks.diagnosis import node_logs, remedies, several_logs
from vllm_runbooks.diagnosis.causes import Diagnosis, diagnose, found_by_comparison
from vllm_runbooks.diagnosis.memory import Memory
from vllm_runbooks.diagnosis.several_logs import Told
from vllm_runbooks.reading import startup_log

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import Card, Specs
    from vllm_runbooks.lint.linting import Knowledge
    from vllm_runbooks.lint.ways_out import Base, Difference
    from vllm_runbooks.plan.budget import Subject

__all__ = ["answer", "follow", "offered", "read_starts"]


def answer(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    start: int | None = None,
    policy: Policy | None = None,
    cards: Sequence[Card] = (),
    specs: Callable[[], Specs] | None = None,
    model: Callable[[], Subject | None] | None = None,
) -> Answer:
    """Diagnose the evidence; `start` chooses one of several starts by its number, from 1 (default: the last).

    Several files are logs of one start (its nodes, its ranks): the last start of each is judged together. `knowledge`
    gives what commands are judged by, and is asked for it only where there is a command; `specs` its part of models and
    cards, where memory is printed. The steps of `policy` stand behind the remedies, or a note says why they do not.
    `cards` are those of the start, where they are known; `model` tells its model, where that is none of the catalog.

    Raises:
        InputError: there is no start of that number.
    """
    asked = _Asked(evidence, catalog, knowledge, specs or (lambda: knowledge().specs), policy, tuple(cards), model)
    return _answer(asked, *read_starts(evidence, catalog, start))


def follow(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    specs: Callable[[], Specs] | None = None,
) -> Iterator[Answer]:
    """Diagnose a log that is still being written, whenever it pauses, and at its end."""
    asked = _Asked(evidence, catalog, knowledge, specs or (lambda: knowledge().specs))
    for starts in startup_log.follow(evidence, catalog):
        yield _answer(asked, starts, starts[-1:])


def offered(
    texts: Sequence[RemedyText],
    captures: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    command: str | None,
    arguments: Mapping[str, Any],
    vllm: str | None,
    knowledge: Callable[[], Knowledge],
    cards: Sequence[Card] = (),
) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
    """Ways out for a server that runs: those that can help, checked as those of a log are, and why others are left out.

    Args:
        texts: The ways out as authored.
        captures: What their texts name.
        settings: What the server tells of itself, by option.
        command: Text that starts it; None: not known.
        arguments: That its log printed; none: not known.
        vllm: Its release; None: not known.
        knowledge: Gives what commands are judged by.
        cards: Those of the server, where they are known.
    """
    from vllm_runbooks.lint.ways_out import Base

    base = Base(command, arguments, vllm, knowledge)
    told = Told((), Outcome.RUNNING, Diagnosis(None, ()), Facts(), arguments, Release(base.vllm, "given"))
    ways = remedies.made(texts, captures, told.facts, {**settings, **base.flags, **arguments})
    lacking = [_lacking(way, base) for way in ways]
    notes = [said for said in lacking if said]
    ways = tuple(way for way, said in zip(ways, lacking, strict=True) if not said)
    memory = Memory(told, base, cards=tuple(cards), specs=lambda: knowledge().specs, source="the server")
    fitting, left_out = memory.fitting(ways)
    checked = base.offered(fitting)
    titles = {way.title for way in checked}
    refused = (f"{w.title}: the release refuses the changed command" for w in fitting if w.title not in titles)
    return tuple(_said_unchecked(way, base) for way in checked), (*notes, *left_out, *refused)


def _lacking(way: Remedy, base: Base) -> str:
    """Why a way out cannot be gone with a release; empty where nothing is against it, or the release is not known."""
    data = base.data
    names = [e.name for e in way.edits if data is not None and e.op != "env" and e.name not in data.by_dest]
    names += [e.name for e in way.edits if data is not None and e.op == "env" and e.name not in data.environment]
    return f"{way.title}: vLLM {base.vllm} has no {names[0]}" if names else ""


def _said_unchecked(way: Remedy, base: Base) -> Remedy:
    if not way.edits or base.found is not None:
        return way
    why = "unknown: the command that started the server is not at hand; give it with --command"
    return replace(way, checks=replace(way.checks, lint=why, plan=why))


class _Asked(NamedTuple):
    """What an answer is asked of."""

    evidence: Evidence
    catalog: Catalog
    knowledge: Callable[[], Knowledge]
    specs: Callable[[], Specs]
    policy: Policy | None = None
    cards: tuple[Card, ...] = ()
    model: Callable[[], Subject | None] | None = None


def _answer(asked: _Asked, starts: list[Start], chosen: list[Start]) -> Answer:
    evidence = asked.evidence
    diagnosed = [diagnose(start, asked.catalog) for start in starts]
    told = several_logs.told(starts, chosen, diagnosed, asked.catalog)
    if not told.release.version and evidence.vllm:
        told = told._replace(release=Release(evidence.vllm, "given"))
    left_out = sum(start.left_out for start in starts)
    ways = _ways(asked, told)
    names = tuple(one_line(redact_name(d.name)) for d in evidence.documents)
    return Answer(
        files=names,
        outcome=told.outcome,
        vllm=told.release,
        root_cause=told.cause,
        findings=(*told.diagnosis.findings, *node_logs.beside(told.starts, asked.catalog), *ways.findings),
        starts=tuple(
            StartSummary(
                s.file,
                s.first_line,
                s.last_line,
                s.outcome,
                found.root_cause,
                s.timeline[-1].name if s.timeline else None,
            )
            for s, found in zip(starts, diagnosed, strict=True)
        ),
        remedies=(*ways.remedies, *ways.steps),
        plan=ways.plan,
        hidden={**told.diagnosis.hidden, **({"earlier_start": left_out} if left_out else {})},
        facts=told.facts,
        ranks=tuple(rank for s in chosen for rank in s.ranks),
        first_error=told.diagnosis.first_error,
        notes=(
            *node_logs.noted(told.nodes, told.starts, told.outcome, asked.catalog, names),
            *_left_empty(evidence, asked.catalog),
            *ways.notes,
        ),
        nodes=told.nodes,
        left_out=told.diagnosis.left_out,
        lang=asked.catalog.lang,
    )


_MAX_NAMED = 8


def _left_empty(evidence: Evidence, catalog: Catalog) -> tuple[str, ...]:
    """Which of the given files hold nothing; for a node that is a finding, for Ray's own files the rule."""
    if not evidence.empty:
        return ()
    say = Wording(catalog.lang)
    named = say(", ").join(map(redact_name, evidence.empty[:_MAX_NAMED]))
    more = len(evidence.empty) - _MAX_NAMED
    if more > 0:
        named = say("{files} and {count} more", files=named, count=more)
    return (
        say("Without a line, and left out: {files}. A node whose log is empty never got to its start.", files=named),
    )


class _Ways(NamedTuple):
    """What there is to do, and what is to be said of it."""

    remedies: tuple[Remedy, ...]
    steps: tuple[Remedy, ...] = ()
    """Those of the policy that was asked for."""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: Compared | None = None


def _ways(asked: _Asked, told: Told) -> _Ways:
    """The remedies as checked edits of the command, and the finding that this is not the command of the log."""
    command = asked.evidence.command
    if command is None:
        ways = _unchecked(asked, told, told.arguments)
        if not any(remedy.edits for remedy in (*ways.remedies, *ways.steps)):
            return ways._replace(plan=_memory(asked, told).compared, findings=_unused(asked, told))
    from vllm_runbooks.lint.ways_out import Base

    shown = next((start.command for start in told.starts if start.command is not None), None)
    base = Base(command, told.arguments, told.release.version, asked.knowledge, shown=shown)
    if command is not None:
        ways = _unchecked(asked, told, {**base.flags, **told.arguments})
    memory = _memory(asked, told, base)
    steps, say = base.offered(ways.steps), Wording(asked.catalog.lang)
    titles = {step.title for step in steps}
    left = "Left out, since the release refuses its command: {title}."
    refused = (say(left, title=s.title) for s in ways.steps if s.title not in titles)
    compared = (*_differing(base.differences(), asked.catalog), *_unused(asked, told, base))
    chosen = [say(base.choice)] if base.choice is not None else []
    said = (*chosen, *ways.notes, *refused)
    fitting, left_out = memory.fitting(ways.remedies, is_completed=True)
    steps, steps_left_out = memory.fitting(steps)
    return _Ways(base.offered(fitting), steps, (*said, *left_out, *steps_left_out), compared, memory.compared)


def _unchecked(asked: _Asked, told: Told, arguments: Mapping[str, Any]) -> _Ways:
    """The remedies of the cause, and the steps of the policy that was asked for."""
    found = remedies.of_cause(told.cause, asked.catalog, told.facts, arguments)
    if told.nodes is not None:
        is_alone = {s.seat.local_world_size for s in told.starts} - {None} == {1}
        found = tuple(_over_nodes(way) for way in found if not (is_alone and _is_between_cards(way)))
    if asked.policy is None:
        return _Ways(found)
    steps, notes = remedies.of_policy(asked.policy, told.cause, told.facts, arguments)
    say = Wording(asked.catalog.lang)
    return _Ways(found, steps, tuple(say(note) for note in notes))


def _is_between_cards(way: Remedy) -> bool:
    """Whether a way out is about the traffic between the cards of one host."""
    return any(edit.name == "NCCL_P2P_DISABLE" for edit in way.edits)


def _over_nodes(way: Remedy) -> Remedy:
    """A way out for a start over several nodes: no log says that one of them has cards left for more ranks."""
    return replace(way, edits=()) if any(edit.name in _SIZES for edit in way.edits) else way


def _memory(asked: _Asked, told: Told, base: Base | None = None) -> Memory:
    evidence = asked.evidence
    names = ", ".join(
        dict.fromkeys(one_line(redact_name(evidence.documents[start.file].name)) for start in told.starts)
    )
    source = f"case {evidence.case.id}" if evidence.case else names
    return Memory(
        told, base, cards=asked.cards, specs=asked.specs, source=source, model=asked.model, lang=asked.catalog.lang
    )


_DIFFERS = "cli.command_differs"


def _differing(differences: Sequence[Difference], catalog: Catalog) -> tuple[Finding, ...]:
    """The finding that a command is not the one that the log is of."""
    symptom = catalog.symptoms.get(_DIFFERS)
    if not differences or symptom is None:
        return ()
    told = "; ".join(f"{each.name}: {each.given} in the command, {each.ran} in the log" for each in differences)
    return (found_by_comparison(symptom, {"differences": redact_text(told)}),)


_UNUSED = "dist.gpus_unused"
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def _unused(asked: _Asked, told: Told, base: Base | None = None) -> tuple[Finding, ...]:
    """The finding that a start takes fewer cards than there are, where log or command tell how many it takes."""
    symptom = asked.catalog.symptoms.get(_UNUSED)
    if not asked.cards or symptom is None:
        return ()
    default = 1 if base is not None and base.found is not None else None
    flags = base.flags if base is not None else {}
    sizes = [getattr(told.facts, name) or flags.get(name, default) for name in _SIZES]
    if not all(isinstance(size, int) for size in sizes) or math.prod(sizes) >= len(asked.cards):
        return ()
    needed, have = math.prod(sizes), len(asked.cards)
    return (found_by_comparison(symptom, {"need": f"{needed}", "have": f"{have}", "free": f"{have - needed}"}),)


def read_starts(evidence: Evidence, catalog: Catalog, start: int | None = None) -> tuple[list[Start], list[Start]]:
    """Every start of the evidence, and those that the answer is about."""
    starts = startup_log.read(evidence, catalog)
    if start is not None:
        if not 1 <= start <= len(starts):
            held = "one start" if len(starts) == 1 else f"{len(starts)} starts"
            raise InputError(f"start {start}: the text holds {held}; choose one of them")
        return starts, [starts[start - 1]]
    last = {s.file: s for s in starts}
    return starts, list(last.values())
