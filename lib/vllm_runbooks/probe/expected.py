"""The verdict on a running server: against what a case expects, else on whether anything is wrong."""

from __future__ import annotations

from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import compare, finding_differences
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import CauseRef, FindingRef, Judgement, Level
from vllm_runbooks.probe.records import Health


def judge_health(found: Health, case: Case | None) -> Judgement:
    """The verdict on a running server: against what a case expects, else on whether anything is wrong."""
    cause = found.cause
    verdict, reason = found.verdict, found.reason
    if case is not None:
        expect = case.expect
        checks = [
            ("outcome", expect.outcome, found.outcome),
            ("class", expect.class_, cause.id if cause else "ok"),
            ("symptom", expect.symptom, cause.id if cause else None),
        ]
        differences = [
            f"{name}: expected {wanted}, got {got}"
            for name, wanted, got in checks
            if wanted is not None and wanted != got
        ]
        differences += finding_differences([finding.id for finding in found.findings], expect)
        verdict, reason = compare(differences, cause.id if cause else "nothing wrong")
    return Judgement(
        verdict=verdict,
        reason=reason,
        case=case.id if case else None,
        outcome=found.outcome,
        root_cause=cause_of(found),
        findings=tuple(FindingRef(f.id, f.id, f.title, f.severity, Level.CONFIRMED) for f in found.findings),
        facts=health_facts(found),
    )


def cause_of(found: Health) -> CauseRef | None:
    """The root cause of a running server by name: the id of a condition is its class as well."""
    return None if found.cause is None else CauseRef(found.cause.id, found.cause.id)


def health_facts(found: Health) -> dict[str, Any]:
    """What is known of a running server, by name: its release, its figures, and as `load_…` what a load showed."""
    told = {"vllm": found.vllm.version, **found.facts}
    load = found.observation.load
    for name in _LOAD if load is not None else ():
        value = document(getattr(load, name))
        parts = {f"{name}_{share}": each for share, each in value.items()} if isinstance(value, dict) else {name: value}
        told |= {f"{OF_A_LOAD}{part}": each for part, each in parts.items()}
    return {name: document(value) for name, value in told.items() if value is not None}


_LOAD = ("answer_tokens_per_s", "requests_per_s", "first_token", "each_token", "whole")
"""Fields of `LoadMeasured` that are figures of the server."""

OF_A_LOAD = "load_"
"""How the names of such facts begin."""
