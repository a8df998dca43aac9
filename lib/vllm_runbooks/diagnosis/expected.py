"""The verdict on an answer: against a case's expectation and claims, else on whether anything is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import claim_differences, compare
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Answer, CauseRef, CheckedClaim, FindingRef, RunbookVerdict, Verdict
from vllm_runbooks.core.views.summary import counted


def verdict(answer: Answer, case: Case | None, judged: Sequence[CheckedClaim] = ()) -> RunbookVerdict:
    """The verdict: against a case's expectation and claims, else on whether anything is wrong."""
    differences = [*_differences(answer, case), *claim_differences(case, judged)] if case else []
    cause = answer.root_cause
    if case:
        agreed = cause.class_ if cause else "no root cause"
        verdict, reason = compare(differences, f"{answer.outcome.value}, {agreed}")
    elif cause:
        verdict, reason = Verdict.FAIL, f"{answer.outcome.value}: {cause.title} ({cause.symptom}, {cause.level.value})"
    elif answer.outcome.is_healthy:
        verdict, reason = Verdict.PASS, f"{answer.outcome.value}: {counted(answer.facts) or 'no problems'}"
    else:
        verdict, reason = Verdict.FAIL, f"{answer.outcome.value}: unknown cause"
    return RunbookVerdict(
        verdict=verdict,
        reason=reason,
        case=case.id if case else None,
        outcome=answer.outcome,
        root_cause=CauseRef(cause.symptom, cause.class_) if cause else None,
        findings=tuple(FindingRef(f.symptom, f.class_, f.title, f.severity, f.level) for f in answer.findings),
        facts=facts(answer),
    )


def facts(answer: Answer) -> dict[str, Any]:
    """Known facts of a launch by name: its printed values, its release, and its memory plan."""
    facts_reported = {"vllm": answer.vllm.version, **document(answer.facts)}
    for term in answer.plan.terms if answer.plan is not None else ():
        facts_reported[f"planned_{term.name}_gib"] = document(term.planned_gib)
    return {name: value for name, value in facts_reported.items() if value is not None}


def _differences(answer: Answer, case: Case) -> list[str]:
    expect, cause = case.expect, answer.root_cause
    actual_class = cause.class_ if cause else "ok"
    checks: list[tuple[str, Any, Any]] = [
        ("outcome", expect.outcome, answer.outcome),
        ("class", expect.class_, actual_class),
        ("symptom", expect.symptom, cause.symptom if cause else None),
        ("starts", expect.starts, [s.outcome for s in answer.starts] if expect.starts is not None else None),
    ]
    checks += [(f"capture {k}", v, cause.captures.get(k) if cause else None) for k, v in expect.captures.items()]
    checks += [(f"fact {k}", v, getattr(answer.facts, k, None)) for k, v in expect.facts.items()]
    present = {f.symptom for f in answer.findings}
    differences = [
        f"{name}: expected {document(expected)}, got {document(got)}"
        for name, expected, got in checks
        if expected is not None and document(expected) != document(got)
    ]
    differences += [f"finding {name}: expected, not found" for name in expect.findings or () if name not in present]
    return differences
