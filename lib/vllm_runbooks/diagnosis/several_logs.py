"""Several logs of one launch read together: its outcome, cause and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.records import (
    Facts,
    Finding,
    Level,
    Nodes,
    Outcome,
    Release,
    Role,
    ServerRun,
    Severity,
    SkippedLine,
)
from vllm_runbooks.diagnosis import node_logs
from vllm_runbooks.diagnosis.causes import MAX_QUOTES, SERVED_FAULTS, Diagnosis
from vllm_runbooks.diagnosis.internal_errors import internal_error

_SETTINGS = (
    "gpu_memory_utilization", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
    "executor_backend", "model", "architecture", "quantization",
)  # fmt: skip
"""Facts that follow from the arguments: they are equal for every attempt of a launch."""
_TELLING_FIRST = (Outcome.FAILED, Outcome.HUNG, Outcome.RUNNING, Outcome.READY, Outcome.UNKNOWN)
"""Order of outcomes among several logs of one launch: a log that just ends proves nothing against the others."""
_FROM_THE_FIRST_ERROR = (
    "Start with the first unexplained error, quoted with this notice; the notice is only a consequence."
)


class LaunchReport(NamedTuple):
    """The logs of one launch together."""

    starts: Sequence[ServerRun]
    """The launch as each log has it."""
    outcome: Outcome
    diagnosis: Diagnosis
    facts: Facts
    arguments: Mapping[str, Any]
    release: Release
    """`Release()` if no log shows it."""
    nodes: Nodes | None = None
    """Nodes of a launch over several, by log."""

    @property
    def cause(self) -> Finding | None:
        """The root cause."""
        return self.diagnosis.root_cause


def report_of(
    starts: Sequence[ServerRun], chosen: Sequence[ServerRun], diagnosed: Sequence[Diagnosis], catalog: Catalog
) -> LaunchReport:
    """Read the logs of one launch together.

    Args:
        starts: Every launch of the evidence.
        chosen: Those of the one launch, one of each log.
        diagnosed: The diagnosis of every launch, in the order of `starts`.
        catalog: The symptoms.
    """
    of = {id(start): diagnosis for start, diagnosis in zip(starts, diagnosed, strict=True)}
    ended = _outcome(chosen)
    logs = [(s.outcome, _or_as_before(s, starts, of, Wording(catalog.lang))) for s in chosen]
    merged = _merged(ended, logs, chosen, catalog)
    if not ended.is_healthy:
        merged = _with(merged, node_logs.compared(chosen, merged.root_cause, catalog), catalog)
    merged = replace(_pointed(merged, catalog), internal_error=internal_error(chosen, merged, catalog))
    return LaunchReport(
        chosen,
        ended,
        merged,
        _facts([_with_settings(s, starts) for s in chosen]),
        next((s.arguments for s in chosen if s.arguments), {}),
        next((s.release for s in chosen if s.release.version), Release()),
        node_logs.nodes(chosen),
    )


def _with(diagnosis: Diagnosis, cause: Finding | None, catalog: Catalog) -> Diagnosis:
    """The diagnosis with the cause of all logs before the findings that it explains."""
    if cause is None:
        return diagnosis
    instead = catalog.symptoms[cause.symptom].instead_of
    explained = [f for f in diagnosis.findings if f.look_in is not None or f.symptom in instead]
    quoted = {(quote.file, quote.line) for quote in cause.evidence}
    left_out = [
        *diagnosis.left_out,
        *(SkippedLine(q.file, q.line, Role.CONSEQUENCE) for f in explained for q in f.evidence[:1]),
    ]
    return Diagnosis(
        cause,
        (cause, *(f for f in diagnosis.findings if f not in explained)),
        tuple(line for line in left_out if (line.file, line.line) not in quoted),
        diagnosis.first_error,
    )


def _or_as_before(
    start: ServerRun, starts: Sequence[ServerRun], diagnosed: Mapping[int, Diagnosis], say: Wording
) -> Diagnosis:
    """Diagnosis of the launch; if its log is truncated, the cause of its previous attempt.

    A supervisor that restarts a failing server leaves such logs.
    """
    diagnosis = diagnosed[id(start)]
    if diagnosis.root_cause or diagnosis.first_error or start.outcome.is_healthy:
        return diagnosis
    before = _before(start, starts)
    earlier = diagnosed[id(before)].root_cause if before else None
    if earlier is None:
        return diagnosis
    note = say("the log of the last launch is cut off; the launch before it, with the same arguments, failed with this")
    conditions = replace(earlier.conditions, unknown=(note, *earlier.conditions.unknown))
    level = Level.PROBABLE if earlier.level is Level.CONFIRMED else Level.POSSIBLE
    cause = replace(earlier, level=level, conditions=conditions)
    return replace(diagnosis, root_cause=cause, findings=(cause, *diagnosis.findings))


def _before(start: ServerRun, starts: Sequence[ServerRun]) -> ServerRun | None:
    """The previous attempt with the same arguments in the same file."""
    before = [s for s in starts if s.file == start.file and s.last_line < start.first_line]
    return before[-1] if start.arguments and before and before[-1].arguments == start.arguments else None


def _with_settings(start: ServerRun, starts: Sequence[ServerRun]) -> ServerRun:
    """The launch, with missing settings from its previous attempt."""
    before = _before(start, starts)
    if before is None or start.outcome.is_healthy:
        return start
    settings = {name: getattr(before.facts, name) for name in _SETTINGS if getattr(start.facts, name) is None}
    return replace(start, facts=replace(start.facts, **settings))


def _outcome(starts: Sequence[ServerRun]) -> Outcome:
    return min((s.outcome for s in starts), key=_TELLING_FIRST.index, default=Outcome.UNKNOWN)


def _pointed(diagnosis: Diagnosis, catalog: Catalog) -> Diagnosis:
    """The diagnosis; a notice next to an unexplained error refers to that error, not to other logs."""
    root = diagnosis.root_cause
    if root is None or diagnosis.first_error is None or catalog.symptoms[root.symptom].role is Role.CAUSE:
        return diagnosis
    cause = replace(root, do_first=Wording(catalog.lang)(_FROM_THE_FIRST_ERROR))
    return replace(diagnosis, root_cause=cause, findings=tuple(cause if f == root else f for f in diagnosis.findings))


def _merged(
    outcome: Outcome, logs: list[tuple[Outcome, Diagnosis]], starts: Sequence[ServerRun], catalog: Catalog
) -> Diagnosis:
    """Findings of several logs of one launch: a cause in one log explains the losses in the others.

    The first of several causes counts: by time if the logs show their clocks' offsets, else in the
    given order. A log of a healthy process has no cause for a failure in another log, and the
    reverse. A client's rejected request is a cause next to the log of a server that continues.
    """
    diagnoses = [diagnosis for _, diagnosis in logs]
    if len(diagnoses) == 1:
        return diagnoses[0]
    order = list(Severity)
    lines = [
        d.root_cause
        for ended, d in logs
        if d.root_cause
        and (ended.is_healthy == outcome.is_healthy or (outcome.is_healthy and d.root_cause.class_ in SERVED_FAULTS))
    ]
    causes = sorted(node_logs.in_order(lines, starts), key=lambda f: order.index(f.severity))
    causes = [c for c in causes if c.severity is causes[0].severity]
    causes_only = [c for c in causes if catalog.symptoms[c.symptom].role is Role.CAUSE]
    root = next(iter(causes_only or causes), None)
    left_out: list[SkippedLine] = []
    findings: list[Finding] = [root] if root else []
    for diagnosis in diagnoses:
        left_out += diagnosis.left_out
        for finding in diagnosis.findings:
            if causes_only and catalog.symptoms[finding.symptom].role is not Role.CAUSE:
                left_out += [SkippedLine(quote.file, quote.line, Role.CONSEQUENCE) for quote in finding.evidence[:1]]
            elif (at := next((at for at, f in enumerate(findings) if f.symptom == finding.symptom), None)) is None:
                findings.append(finding)
            elif finding.evidence[:1] != findings[at].evidence[:1]:
                findings[at] = _also_there(findings[at], finding)
    root = findings[0] if root else None
    rest = sorted(findings[1:] if root else findings, key=lambda f: order.index(f.severity))
    is_explained = outcome.is_healthy or any(c.severity is Severity.FATAL for c in causes_only)
    unexplained = None if is_explained else next((d.first_error for d in diagnoses if d.first_error), None)
    return Diagnosis(root, tuple([root, *rest] if root else rest), tuple(left_out), unexplained)


def _also_there(finding: Finding, other: Finding) -> Finding:
    """A finding with the corresponding line of another log."""
    return replace(finding, evidence=(*finding.evidence, *other.evidence[:1])[:MAX_QUOTES])


_LARGEST = frozenset({"weights_gib", "activation_gib", "non_torch_gib", "cuda_graph_gib", "load_seconds"})
_SMALLEST = frozenset({"kv_cache_gib", "kv_cache_tokens", "kv_cache_blocks", "max_concurrency", "gpu_total_gib"})
"""Figures for which the smallest rank is the limit; the others come from the first log that has
one."""


def _facts(starts: list[ServerRun]) -> Facts:
    """Facts of one launch, from one or several logs."""
    if len(starts) == 1:
        return starts[0].facts
    merged: dict[str, Any] = {}
    for name in (f.name for f in fields(Facts)):
        values = [value for s in starts if (value := getattr(s.facts, name)) is not None]
        if values:
            merged[name] = max(values) if name in _LARGEST else min(values) if name in _SMALLEST else values[0]
    return Facts(**merged)
