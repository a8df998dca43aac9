"""Several logs of one start told together: its outcome, its cause, its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.records import Facts, Finding, LeftOut, Level, Nodes, Outcome, Release, Role, Severity, Start
from vllm_runbooks.diagnosis import node_logs
from vllm_runbooks.diagnosis.causes import MAX_QUOTES, SERVED_FAULTS, Diagnosis

_SETTINGS = (
    "gpu_memory_utilization", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "executor_backend", "model", "architecture", "quantization",
)  # fmt: skip
"""Facts that the arguments decide: they are the same whenever the same start is tried."""
_TELLING_FIRST = (Outcome.FAILED, Outcome.HUNG, Outcome.RUNNING, Outcome.READY, Outcome.UNKNOWN)
"""What several logs of one start prove together: a log that just ends proves nothing against the others."""
_FROM_THE_FIRST_ERROR = (
    "Start from the first error that no symptom explains, quoted with this notice: the notice only follows from it."
)


class Told(NamedTuple):
    """What the logs of one start say together."""

    starts: Sequence[Start]
    """The start as each log has it."""
    outcome: Outcome
    diagnosis: Diagnosis
    facts: Facts
    arguments: Mapping[str, Any]
    release: Release
    """Release() where no log tells it."""
    nodes: Nodes | None = None
    """Of a start over several nodes, what each log tells."""

    @property
    def cause(self) -> Finding | None:
        """The root cause."""
        return self.diagnosis.root_cause


def told(starts: Sequence[Start], chosen: Sequence[Start], diagnosed: Sequence[Diagnosis], catalog: Catalog) -> Told:
    """What the logs of one start say together.

    Args:
        starts: Every start of the evidence.
        chosen: Those of them that are the one start, one of each log.
        diagnosed: The diagnosis of every start, in the order of `starts`.
        catalog: The symptoms.
    """
    of = {id(start): diagnosis for start, diagnosis in zip(starts, diagnosed, strict=True)}
    ended = _outcome(chosen)
    logs = [(s.outcome, _or_as_before(s, starts, of, Wording(catalog.lang))) for s in chosen]
    merged = _merged(ended, logs, chosen, catalog)
    if not ended.is_healthy:
        merged = _with(merged, node_logs.compared(chosen, merged.root_cause, catalog), catalog)
    return Told(
        chosen,
        ended,
        _pointed(merged, catalog),
        _facts([_with_settings(s, starts) for s in chosen]),
        next((s.arguments for s in chosen if s.arguments), {}),
        next((s.release for s in chosen if s.release.version), Release()),
        node_logs.nodes(chosen),
    )


def _with(found: Diagnosis, cause: Finding | None, catalog: Catalog) -> Diagnosis:
    """The diagnosis with the cause that the logs tell together in front of what it explains."""
    if cause is None:
        return found
    instead = catalog.symptoms[cause.symptom].instead_of
    explained = [f for f in found.findings if f.look_in is not None or f.symptom in instead]
    quoted = {(quote.file, quote.line) for quote in cause.evidence}
    left_out = [
        *found.left_out,
        *(LeftOut(q.file, q.line, Role.CONSEQUENCE) for f in explained for q in f.evidence[:1]),
    ]
    return Diagnosis(
        cause,
        (cause, *(f for f in found.findings if f not in explained)),
        tuple(each for each in left_out if (each.file, each.line) not in quoted),
        found.first_error,
    )


def _or_as_before(start: Start, starts: Sequence[Start], diagnosed: Mapping[int, Diagnosis], say: Wording) -> Diagnosis:
    """The start's diagnosis; of one that is cut off before its error, the cause of the same start tried before it.

    A supervisor that starts a failing server over and over leaves such logs.
    """
    own = diagnosed[id(start)]
    if own.root_cause or own.first_error or start.outcome.is_healthy:
        return own
    before = _before(start, starts)
    earlier = diagnosed[id(before)].root_cause if before else None
    if earlier is None:
        return own
    said = say(
        "the last start is cut off before its error; the start before it, with the same arguments, failed of this"
    )
    conditions = replace(earlier.conditions, unknown=(said, *earlier.conditions.unknown))
    level = Level.PROBABLE if earlier.level is Level.CONFIRMED else Level.POSSIBLE
    cause = replace(earlier, level=level, conditions=conditions)
    return replace(own, root_cause=cause, findings=(cause, *own.findings))


def _before(start: Start, starts: Sequence[Start]) -> Start | None:
    """The start of the same arguments that was tried before one in the same file, if there was one."""
    before = [s for s in starts if s.file == start.file and s.last_line < start.first_line]
    return before[-1] if start.arguments and before and before[-1].arguments == start.arguments else None


def _with_settings(start: Start, starts: Sequence[Start]) -> Start:
    """The start with the settings that it does not tell itself and the same start before it told."""
    before = _before(start, starts)
    if before is None or start.outcome.is_healthy:
        return start
    told = {name: getattr(before.facts, name) for name in _SETTINGS if getattr(start.facts, name) is None}
    return replace(start, facts=replace(start.facts, **told))


def _outcome(starts: Sequence[Start]) -> Outcome:
    return min((s.outcome for s in starts), key=_TELLING_FIRST.index, default=Outcome.UNKNOWN)


def _pointed(found: Diagnosis, catalog: Catalog) -> Diagnosis:
    """The diagnosis; a notice beside an unexplained error sends the reader to that error, not to other logs."""
    root = found.root_cause
    if root is None or found.first_error is None or catalog.symptoms[root.symptom].role is Role.CAUSE:
        return found
    cause = replace(root, do_first=Wording(catalog.lang)(_FROM_THE_FIRST_ERROR))
    return replace(found, root_cause=cause, findings=tuple(cause if f == root else f for f in found.findings))


def _merged(
    outcome: Outcome, logs: list[tuple[Outcome, Diagnosis]], starts: Sequence[Start], catalog: Catalog
) -> Diagnosis:
    """The findings of several logs of one start: a cause in one log explains what the others only lost.

    Of several causes the first counts: by their times, where the logs show how their clocks differ, else as given.
    What a log of a healthy process holds is no cause of the failure that another log shows, nor the other way round.
    What a client was told of its request is one beside the log of the server that goes on.
    """
    diagnoses = [diagnosis for _, diagnosis in logs]
    if len(diagnoses) == 1:
        return diagnoses[0]
    order = list(Severity)
    told = [
        d.root_cause
        for ended, d in logs
        if d.root_cause
        and (ended.is_healthy == outcome.is_healthy or (outcome.is_healthy and d.root_cause.class_ in SERVED_FAULTS))
    ]
    causes = sorted(node_logs.in_order(told, starts), key=lambda f: order.index(f.severity))
    causes = [c for c in causes if c.severity is causes[0].severity]
    own = [c for c in causes if catalog.symptoms[c.symptom].role is Role.CAUSE]
    root = next(iter(own or causes), None)
    left_out: list[LeftOut] = []
    findings: list[Finding] = [root] if root else []
    for found in diagnoses:
        left_out += found.left_out
        for finding in found.findings:
            if own and catalog.symptoms[finding.symptom].role is not Role.CAUSE:
                left_out += [LeftOut(quote.file, quote.line, Role.CONSEQUENCE) for quote in finding.evidence[:1]]
            elif (at := next((at for at, f in enumerate(findings) if f.symptom == finding.symptom), None)) is None:
                findings.append(finding)
            elif finding.evidence[:1] != findings[at].evidence[:1]:
                findings[at] = _also_there(findings[at], finding)
    root = findings[0] if root else None
    rest = sorted(findings[1:] if root else findings, key=lambda f: order.index(f.severity))
    is_explained = outcome.is_healthy or any(c.severity is Severity.FATAL for c in own)
    unexplained = None if is_explained else next((d.first_error for d in diagnoses if d.first_error), None)
    return Diagnosis(root, tuple([root, *rest] if root else rest), tuple(left_out), unexplained)


def _also_there(finding: Finding, other: Finding) -> Finding:
    """A finding with the line by which another log shows the same."""
    return replace(finding, evidence=(*finding.evidence, *other.evidence[:1])[:MAX_QUOTES])


_LARGEST = frozenset({"weights_gib", "activation_gib", "non_torch_gib", "cuda_graph_gib", "load_seconds"})
_SMALLEST = frozenset({"kv_cache_gib", "kv_cache_tokens", "kv_cache_blocks", "max_concurrency", "gpu_total_gib"})
"""Figures of which the smallest rank bounds all; of the others the first log that knows one gives it."""


def _facts(starts: list[Start]) -> Facts:
    """Facts of one start, from one or several logs of it."""
    if len(starts) == 1:
        return starts[0].facts
    merged: dict[str, Any] = {}
    for name in (f.name for f in fields(Facts)):
        values = [value for s in starts if (value := getattr(s.facts, name)) is not None]
        if values:
            merged[name] = max(values) if name in _LARGEST else min(values) if name in _SMALLEST else values[0]
    return Facts(**merged)
