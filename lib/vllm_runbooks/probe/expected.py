"""The verdict on a running server: compared with a case's expectation, else whether anything is wrong."""

from __future__ import annotations

from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import compare, finding_differences
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import CauseRef, FindingRef, Level, RunbookVerdict
from vllm_runbooks.probe.records import Health


def health_verdict(health: Health, case: Case | None) -> RunbookVerdict:
    """The verdict on a server: compared with the case's expectation, else whether anything is wrong."""
    cause = health.cause
    verdict, reason = health.verdict, health.reason
    if case is not None:
        expect = case.expect
        checks = [
            ("outcome", expect.outcome, health.outcome),
            ("class", expect.class_, cause.id if cause else "ok"),
            ("symptom", expect.symptom, cause.id if cause else None),
        ]
        differences = [
            f"{name}: expected {expected}, got {got}"
            for name, expected, got in checks
            if expected is not None and expected != got
        ]
        differences += finding_differences([finding.id for finding in health.findings], expect)
        verdict, reason = compare(differences, cause.id if cause else "no problems")
    return RunbookVerdict(
        verdict=verdict,
        reason=reason,
        case=case.id if case else None,
        outcome=health.outcome,
        root_cause=cause_of(health),
        findings=tuple(FindingRef(f.id, f.id, f.title, f.severity, Level.CONFIRMED) for f in health.findings),
        facts=health_facts(health),
    )


def cause_of(health: Health) -> CauseRef | None:
    return None if health.cause is None else CauseRef(health.cause.id, health.cause.id)


def health_facts(health: Health) -> dict[str, Any]:
    """Facts by name: release, figures, and with the prefix `load_` those of the load."""
    facts = {"vllm": health.vllm.version, **health.facts}
    load = health.observation.load
    for name, field in _LOAD.items() if load is not None else ():
        value = document(getattr(load, field))
        parts = (
            {f"{name}_{share}": figure for share, figure in value.items()} if isinstance(value, dict) else {name: value}
        )
        facts |= {f"{OF_A_LOAD}{part}": figure for part, figure in parts.items()}
    return {name: document(value) for name, value in facts.items() if value is not None}


_LOAD = {
    "answer_tokens_per_s": "answer_tokens_per_s",
    "requests_per_s": "requests_per_s",
    "first_token": "time_to_first_token",
    "each_token": "inter_token_latency",
    "whole": "end_to_end_latency",
}
"""Facts about a load, with the fields of its measurement."""

OF_A_LOAD = "load_"
