"""From evidence to the whole answer: launches, causes, checked remedies, planned and actual memory."""

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
from vllm_runbooks.core.records import (
    Answer,
    Facts,
    Finding,
    MemoryUse,
    Outcome,
    PlanComparison,
    Release,
    Remedy,
    Role,
    ServerRun,
    ServerRunSummary,
)
from vllm_runbooks.core.redaction.redact import redact_name, redact_text
from vllm_runbooks.diagnosis import node_logs, remedies, several_logs
from vllm_runbooks.diagnosis.causes import Diagnosis, diagnose, found_by_comparison
from vllm_runbooks.diagnosis.fitting_values import applies_to, explained, fitting_values
from vllm_runbooks.diagnosis.memory import PlannedMemory
from vllm_runbooks.diagnosis.several_logs import LaunchReport
from vllm_runbooks.reading import startup_log

if TYPE_CHECKING:
    from vllm_runbooks.catalog.specs import HostGpu, Specs
    from vllm_runbooks.lint.linting import Knowledge
    from vllm_runbooks.lint.ways_out import ArgumentDifference, LaunchCommand
    from vllm_runbooks.plan.budget import PlannedModel

__all__ = ["answer", "follow", "offered", "read_starts"]


def answer(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    start: int | None = None,
    policy: Policy | None = None,
    cards: Sequence[HostGpu] = (),
    specs: Callable[[], Specs] | None = None,
    model: Callable[[], PlannedModel | None] | None = None,
    cached: Callable[[str, Mapping[str, Any]], PlannedModel | None] | None = None,
) -> Answer:
    """Diagnose the evidence.

    Several files are logs of one launch (its nodes, its ranks): the last launch of each is
    diagnosed together.

    Args:
        evidence: The logs, optionally with their command.
        catalog: Symptoms and policies.
        knowledge: Returns the rules for commands; called only if there is a command.
        start: Number of the launch to diagnose, from 1; default: the last.
        policy: Policy whose steps follow the remedies, or a note on why they do not apply.
        cards: GPUs of the launch, if known.
        specs: Returns models and GPUs; called only if memory was printed.
        model: Returns the launch's model if it is not in the catalog.
        cached: Returns the model of a name and options that is only in this host's cache of the Hub.

    Raises:
        InputError: No launch has this number.
    """
    shelf = specs or (lambda: knowledge().specs)
    request = _Request(evidence, catalog, knowledge, shelf, policy, tuple(cards), model, cached)
    return _answer(request, *read_starts(evidence, catalog, start))


def follow(
    evidence: Evidence,
    catalog: Catalog,
    knowledge: Callable[[], Knowledge],
    *,
    specs: Callable[[], Specs] | None = None,
) -> Iterator[Answer]:
    """Diagnose a growing log: yield an answer whenever it pauses, and at its end."""
    request = _Request(evidence, catalog, knowledge, specs or (lambda: knowledge().specs))
    for starts in startup_log.follow(evidence, catalog):
        yield _answer(request, starts, starts[-1:])


def offered(
    texts: Sequence[RemedyText],
    captures: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    command: str | None,
    arguments: Mapping[str, Any],
    vllm: str | None,
    knowledge: Callable[[], Knowledge],
    cards: Sequence[HostGpu] = (),
) -> tuple[tuple[Remedy, ...], tuple[str, ...]]:
    """Remedies for a running server, checked like those of a log, and why others are left out.

    Args:
        texts: Remedies as authored.
        captures: Values for the placeholders of the texts.
        settings: Options as reported by the server.
        command: Text that launches it; None if unknown.
        arguments: Arguments that its log printed; empty if unknown.
        vllm: Its release; None if unknown.
        knowledge: Returns the rules for commands.
        cards: GPUs of the server, if known.
    """
    from vllm_runbooks.lint.ways_out import LaunchCommand

    base = LaunchCommand(command, arguments, vllm, knowledge)
    reported = LaunchReport((), Outcome.RUNNING, Diagnosis(None, ()), Facts(), arguments, Release(base.vllm, "given"))
    ways = remedies.made(texts, captures, reported.facts, {**settings, **base.flags, **arguments}, reported.release)
    lacking = [_lacking(way, base) for way in ways]
    notes = [reason for reason in lacking if reason]
    ways = tuple(way for way, reason in zip(ways, lacking, strict=True) if not reason)
    memory = PlannedMemory(reported, base, cards=tuple(cards), specs=lambda: knowledge().specs, source="the server")
    fitting, left_out = memory.fitting(ways)
    checked = base.offered(fitting)
    titles = {way.title for way in checked}
    refused = (f"{w.title}: vLLM rejects the changed command" for w in fitting if w.title not in titles)
    return tuple(_said_unchecked(way, base) for way in checked), (*notes, *left_out, *refused)


def _lacking(way: Remedy, base: LaunchCommand) -> str:
    """Why a release cannot apply a remedy; empty if it can, or if the release is unknown."""
    data = base.data
    names = [e.name for e in way.edits if data is not None and e.op != "env" and e.name not in data.by_dest]
    names += [e.name for e in way.edits if data is not None and e.op == "env" and e.name not in data.environment]
    return f"{way.title}: vLLM {base.vllm} has no {names[0]}" if names else ""


def _said_unchecked(way: Remedy, base: LaunchCommand) -> Remedy:
    if not way.edits or base.found is not None:
        return way
    why = "unknown: no launch command; use --command"
    return replace(way, checks=replace(way.checks, lint=why, plan=why))


class _Request(NamedTuple):
    """Parameters of a diagnosis."""

    evidence: Evidence
    catalog: Catalog
    knowledge: Callable[[], Knowledge]
    specs: Callable[[], Specs]
    policy: Policy | None = None
    cards: tuple[HostGpu, ...] = ()
    model: Callable[[], PlannedModel | None] | None = None
    cached: Callable[[str, Mapping[str, Any]], PlannedModel | None] | None = None


def _answer(request: _Request, starts: list[ServerRun], chosen: list[ServerRun]) -> Answer:
    evidence = request.evidence
    diagnosed = [diagnose(start, request.catalog) for start in starts]
    reported = several_logs.report_of(starts, chosen, diagnosed, request.catalog)
    if not reported.release.version and evidence.vllm:
        reported = reported._replace(release=Release(evidence.vllm, "given"))
    left_out = sum(start.left_out for start in starts)
    ways = _ways(request, reported)
    names = tuple(one_line(redact_name(d.name)) for d in evidence.documents)
    cause, findings = reported.cause, reported.diagnosis.findings
    if cause is not None and reported.diagnosis.first_error is None:
        agreeing = remedies.agreeing(cause, ways.remedies, request.catalog, reported.facts)
        findings = tuple(agreeing if finding == cause else finding for finding in findings)
        cause = agreeing
    return Answer(
        files=names,
        outcome=reported.outcome,
        vllm=reported.release,
        root_cause=cause,
        findings=(*findings, *node_logs.beside(reported.starts, request.catalog), *ways.findings),
        starts=tuple(
            ServerRunSummary(
                s.file,
                s.first_line,
                s.last_line,
                s.outcome,
                diagnosis.root_cause,
                s.timeline[-1].name if s.timeline else None,
            )
            for s, diagnosis in zip(starts, diagnosed, strict=True)
        ),
        remedies=(*ways.remedies, *ways.steps),
        plan=ways.plan,
        hidden={**reported.diagnosis.hidden, **({"earlier_start": left_out} if left_out else {})},
        facts=reported.facts,
        ranks=tuple(rank for s in chosen for rank in s.ranks),
        first_error=reported.diagnosis.first_error,
        internal_error=reported.diagnosis.internal_error,
        notes=(
            *node_logs.noted(reported.nodes, reported.starts, reported.outcome, request.catalog, names),
            *_left_empty(evidence, request.catalog),
            *ways.notes,
        ),
        nodes=reported.nodes,
        left_out=reported.diagnosis.left_out,
        lang=request.catalog.lang,
        memory=ways.memory,
    )


_MAX_NAMED = 8


def _left_empty(evidence: Evidence, catalog: Catalog) -> tuple[str, ...]:
    """Note on the given files that are empty: a finding for a node, normal for Ray's own files."""
    if not evidence.empty:
        return ()
    say = Wording(catalog.lang)
    named = say(", ").join(map(redact_name, evidence.empty[:_MAX_NAMED]))
    more = len(evidence.empty) - _MAX_NAMED
    if more > 0:
        named = say("{files} and {count} more", files=named, count=more)
    return (say("Skipped empty files: {files}. A node with an empty log never started vLLM.", files=named),)


class _Ways(NamedTuple):
    """Remedies, with notes and findings about them."""

    remedies: tuple[Remedy, ...]
    steps: tuple[Remedy, ...] = ()
    """Steps of the requested policy."""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    plan: PlanComparison | None = None
    memory: tuple[MemoryUse, MemoryUse] | None = None
    """Before and after the first remedy."""


def _ways(request: _Request, reported: LaunchReport) -> _Ways:
    """The remedies as checked edits of the command, and a finding if the log is of another command."""
    command = request.evidence.command
    if command is None:
        ways = _unchecked(request, reported, reported.arguments, _memory(request, reported))
        if not any(remedy.edits for remedy in (*ways.remedies, *ways.steps)):
            return ways._replace(plan=_memory(request, reported).compared, findings=_unused(request, reported))
    from vllm_runbooks.lint.ways_out import LaunchCommand

    logged_command = next((start.command for start in reported.starts if start.command is not None), None)
    base = LaunchCommand(
        command,
        reported.arguments,
        reported.release.rules,
        request.knowledge,
        logged_command=logged_command,
        model=reported.facts.model,
    )
    say = Wording(request.catalog.lang)
    chosen = [say(base.choice)] if base.choice is not None else []
    if base.is_another:  # another launch's options would be mixed with this one's figures
        ways = _ways(request._replace(evidence=replace(request.evidence, command=None)), reported)
        differing = _differing(base.differences(), request.catalog)
        return ways._replace(findings=(*differing, *ways.findings), notes=(*chosen, *ways.notes))
    memory = _memory(request, reported, base)
    if command is not None:
        ways = _unchecked(request, reported, {**base.flags, **reported.arguments}, memory)
    steps = base.offered(ways.steps)
    titles = {step.title for step in steps}
    left = "Fix left out because vLLM rejects its command: {title}."
    refused = (say(left, title=s.title) for s in ways.steps if s.title not in titles)
    compared = (*_differing(base.differences(), request.catalog), *_unused(request, reported, base))
    notes = (*chosen, *ways.notes, *refused)
    fitting, left_out = memory.fitting(ways.remedies, is_completed=True)
    steps, steps_left_out = memory.fitting(steps)
    offered = base.offered(fitting)
    is_planned = bool(offered) and offered[0].checks.plan == "passed"
    change = memory.change(offered[0]) if is_planned and _is_of_memory(reported) else None
    return _Ways(offered, steps, (*notes, *left_out, *steps_left_out), compared, memory.compared, change)


def _is_of_memory(reported: LaunchReport) -> bool:
    """Whether GPU memory is the cause."""
    return reported.cause is not None and reported.cause.class_.partition(".")[0] in ("oom", "kv", "mem")


def _unchecked(request: _Request, reported: LaunchReport, arguments: Mapping[str, Any], memory: PlannedMemory) -> _Ways:
    """The remedies of the cause, and the steps of the requested policy."""
    cause, say = reported.diagnosis.internal_error or reported.cause, Wording(request.catalog.lang)
    notes: tuple[str, ...] = ()
    if cause is not None and applies_to(cause.symptom):
        values = fitting_values(reported, arguments, memory.sizes, gpus=len(request.cards) or None)
        notes = explained(values, say)
        cause = replace(cause, captures={**values, **memory.searched(), **cause.captures})
    if cause is not None and "model_type" in cause.captures and not isinstance(memory.model, str):
        cause = replace(cause, captures={"architecture": memory.model.shape.architecture or "", **cause.captures})
    if cause is not None:
        cause = replace(cause, captures={**memory.gpu_captures(), **cause.captures})
    ways = remedies.of_cause(
        cause, request.catalog, reported.facts, arguments, release=reported.release, starts=reported.starts
    )
    error = reported.diagnosis.first_error
    if error is not None and (cause is None or request.catalog.symptoms[cause.symptom].role is Role.WRAPPER):
        known = reported.starts, request.catalog, reported.facts, arguments
        ways = remedies.unique((*remedies.of_error(error, *known, release=reported.release), *ways))
    if reported.nodes is not None:
        is_alone = {s.seat.local_world_size for s in reported.starts} - {None} == {1}
        ways = tuple(_over_nodes(way) for way in ways if not (is_alone and _is_between_cards(way)))
    if request.policy is None:
        return _Ways(ways, notes=notes)
    steps, skipped = remedies.of_policy(request.policy, reported.cause, reported.facts, arguments, reported.release)
    return _Ways(ways, steps, (*notes, *(say(note) for note in skipped)))


def _is_between_cards(way: Remedy) -> bool:
    """Whether a remedy is about the traffic between the GPUs of one host."""
    return any(edit.name == "NCCL_P2P_DISABLE" for edit in way.edits)


def _over_nodes(way: Remedy) -> Remedy:
    """A remedy for a launch over several nodes; no log shows that a node has GPUs left for more ranks."""
    return replace(way, edits=()) if any(edit.name in _SIZES for edit in way.edits) else way


def _memory(request: _Request, reported: LaunchReport, base: LaunchCommand | None = None) -> PlannedMemory:
    evidence = request.evidence
    names = ", ".join(
        dict.fromkeys(one_line(redact_name(evidence.documents[start.file].name)) for start in reported.starts)
    )
    source = f"case {evidence.case.id}" if evidence.case else names
    return PlannedMemory(
        reported,
        base,
        cards=request.cards,
        specs=request.specs,
        source=source,
        model=request.model,
        cached=request.cached,
        lang=request.catalog.lang,
    )


_DIFFERS = "cli.command_differs"


def _differing(differences: Sequence[ArgumentDifference], catalog: Catalog) -> tuple[Finding, ...]:
    """The finding that the log is of another command."""
    symptom = catalog.symptoms.get(_DIFFERS)
    if not differences or symptom is None:
        return ()
    say = Wording(catalog.lang)
    text = "; ".join(
        say("{name}: {given} in the command, {ran} in the log", name=d.name, given=d.given, ran=d.ran)
        for d in differences
    )
    return (found_by_comparison(symptom, {"differences": redact_text(text)}),)


_UNUSED = "dist.gpus_unused"
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def _unused(request: _Request, reported: LaunchReport, base: LaunchCommand | None = None) -> tuple[Finding, ...]:
    """The finding that a launch uses fewer GPUs than there are, if log or command show how many it uses."""
    symptom = request.catalog.symptoms.get(_UNUSED)
    if not request.cards or symptom is None:
        return ()
    default = 1 if base is not None and base.found is not None else None
    flags = base.flags if base is not None else {}
    sizes = [getattr(reported.facts, name) or flags.get(name, default) for name in _SIZES]
    if not all(isinstance(size, int) for size in sizes) or math.prod(sizes) >= len(request.cards):
        return ()
    needed, have = math.prod(sizes), len(request.cards)
    return (found_by_comparison(symptom, {"need": f"{needed}", "have": f"{have}", "free": f"{have - needed}"}),)


def read_starts(
    evidence: Evidence, catalog: Catalog, start: int | None = None
) -> tuple[list[ServerRun], list[ServerRun]]:
    """Every launch of the evidence, and those to diagnose."""
    starts = startup_log.read(evidence, catalog)
    if start is not None:
        if not 1 <= start <= len(starts):
            count = "one launch" if len(starts) == 1 else f"{len(starts)} launches"
            raise InputError(f"start {start}: the log has {count}; choose one of them")
        return starts, [starts[start - 1]]
    last = {s.file: s for s in starts}
    return starts, list(last.values())
