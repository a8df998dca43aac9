"""The verdict on an answer: against a case's expectation and its claims, else on whether anything is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import claim_differences, compare
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Answer, CauseRef, FindingRef, JudgedClaim, Judgement, Verdict


def judge(found: Answer, case: Case | None, judged: Sequence[JudgedClaim] = ()) -> Judgement:
    """The verdict: against a case's expectation, its claims included, else on whether anything is wrong."""
    differences = [*_differences(found, case), *claim_differences(case, judged)] if case else []
    cause = found.root_cause
    if case:
        agreed = cause.class_ if cause else "no root cause"
        verdict, reason = compare(differences, f"{found.outcome.value}, {agreed}")
    elif cause:
        verdict, reason = Verdict.FAIL, f"{found.outcome.value}: {cause.title} ({cause.symptom}, {cause.level.value})"
    elif found.outcome.is_healthy:
        verdict, reason = Verdict.PASS, f"{found.outcome.value}: nothing wrong"
    else:
        verdict, reason = Verdict.FAIL, f"{found.outcome.value}: no cause could be established"
    return Judgement(
        verdict=verdict,
        reason=reason,
        case=case.id if case else None,
        outcome=found.outcome,
        root_cause=CauseRef(cause.symptom, cause.class_) if cause else None,
        findings=tuple(FindingRef(f.symptom, f.class_, f.title, f.severity, f.level) for f in found.findings),
        facts=facts(found),
    )


def facts(found: Answer) -> dict[str, Any]:
    """What is known of a start, by name: what it printed, the release, and what the plan says of its memory."""
    told = {"vllm": found.vllm.version, **document(found.facts)}
    for term in found.plan.terms if found.plan is not None else ():
        told[f"planned_{term.name}_gib"] = document(term.planned_gib)
    return {name: value for name, value in told.items() if value is not None}


def _differences(found: Answer, case: Case) -> list[str]:
    expect, cause = case.expect, found.root_cause
    said = cause.class_ if cause else "ok"
    checks: list[tuple[str, Any, Any]] = [
        ("outcome", expect.outcome, found.outcome),
        ("class", expect.class_, said),
        ("symptom", expect.symptom, cause.symptom if cause else None),
        ("starts", expect.starts, [s.outcome for s in found.starts] if expect.starts is not None else None),
    ]
    checks += [(f"capture {k}", v, cause.captures.get(k) if cause else None) for k, v in expect.captures.items()]
    checks += [(f"fact {k}", v, getattr(found.facts, k, None)) for k, v in expect.facts.items()]
    present = {f.symptom for f in found.findings}
    differences = [
        f"{name}: expected {document(wanted)}, got {document(got)}"
        for name, wanted, got in checks
        if wanted is not None and document(wanted) != document(got)
    ]
    differences += [f"finding {name}: expected, not found" for name in expect.findings or () if name not in present]
    return differences
