"""The verdict on an answer, commands, a plan, hosts or a job: against a case's expectation, else on what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from vllm_runbooks.core.evidence import BestLayout, Case, Expectation, PlanAsked
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import (
    Answer,
    CauseRef,
    FindingRef,
    IssueSeverity,
    JudgedClaim,
    Judgement,
    Level,
    Severity,
    Verdict,
)
from vllm_runbooks.diagnosis.claims.figures import plan_figures, written
from vllm_runbooks.host.nodes.records import CheckedCluster
from vllm_runbooks.host.records import Inspected
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.probe.records import Health


def judge(found: Answer, case: Case | None, judged: Sequence[JudgedClaim] = ()) -> Judgement:
    """The verdict: against a case's expectation, its claims included, else on whether anything is wrong."""
    differences = [*_differences(found, case), *_other_verdicts(case, judged)] if case else []
    cause = found.root_cause
    if case:
        verdict = Verdict.FAIL if differences else Verdict.PASS
        said = f"{cause.class_}" if cause else "no root cause"
        reason = "; ".join(differences) or f"as expected: {found.outcome.value}, {said}"
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


def judge_commands(found: Linted, case: Case | None) -> Judgement:
    """The verdict on commands: against what a case expects, else on whether anything is wrong."""
    wrong = [issue for issue in found.issues if issue.severity is not IssueSeverity.INFO]
    if case is not None and case.expect.issues is not None:
        expected = {(each.rule, each.line) for each in case.expect.issues}
        got = {(issue.rule, issue.line) for issue in wrong}
        differences = [f"line {line}: {rule}: expected, not found" for rule, line in sorted(expected - got)]
        differences += [f"line {line}: {rule}: found, not expected" for rule, line in sorted(got - expected)]
        reason = "; ".join(differences) or f"as expected: {len(expected)} issues"
        verdict = Verdict.FAIL if differences else Verdict.PASS
    elif wrong:
        verdict, reason = Verdict.FAIL, f"line {wrong[0].line}: {wrong[0].message} ({wrong[0].rule})"
    elif not found.deployments:
        verdict, reason = Verdict.FAIL, "no start of vLLM was found, so nothing was checked"
    else:
        verdict, reason = Verdict.PASS, f"nothing wrong on vLLM {found.vllm.version}"
    count = {severity.value: sum(issue.severity is severity for issue in wrong) for severity in IssueSeverity}
    told = {"vllm": found.vllm.version, "errors": count["error"], "warnings": count["warning"]}
    return Judgement(verdict, reason, case.id if case else None, None, None, (), told)


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
        differences += _other_findings([finding.id for finding in found.findings], expect)
        verdict = Verdict.FAIL if differences else Verdict.PASS
        reason = "; ".join(differences) or f"as expected: {cause.id if cause else 'nothing wrong'}"
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


def judge_inventory(found: Inspected, case: Case | None) -> Judgement:
    """The verdict on a host: against what a case expects, else on whether anything is wrong."""
    wrong = [one for one in found.findings if one.severity is not Severity.HINT]
    if case is not None:
        differences = list(_found_otherwise(found, case.expect))
        verdict = Verdict.FAIL if differences else Verdict.PASS
        chosen = found.recommendation.gpu if found.recommendation is not None else None
        told = "no card" if chosen is None else f"GPU {chosen}"
        reason = "; ".join(differences) or f"as expected: {told} is recommended"
    elif wrong:
        verdict, reason = Verdict.FAIL, f"{wrong[0].text} ({wrong[0].id})"
    else:
        verdict, reason = Verdict.PASS, found.why_none or "nothing wrong that was told"
    return Judgement(verdict, reason, case.id if case else None, None, None, ())


def _found_otherwise(found: Inspected, expect: Expectation) -> Iterator[str]:
    yield from _other_findings([one.id for one in found.findings], expect)
    chosen = found.recommendation.gpu if found.recommendation is not None else None
    told = "none" if chosen is None else chosen
    if expect.recommended is not None and expect.recommended != told:
        yield f"recommended: expected {expect.recommended}, got {told}"


def judge_nodes(found: CheckedCluster, case: Case | None) -> Judgement:
    """The verdict on several nodes: against what a case expects, else on whether a start over them would work."""
    names = [one.id for one in found.findings]
    told = {"nodes": len(found.nodes)}
    if case is not None:
        verdict, reason = _as_expected(names, case.expect)
    elif found.ok is False:
        wrong = next(one for one in found.findings if one.severity is not Severity.HINT)
        verdict, reason = Verdict.FAIL, f"{wrong.text} ({wrong.id})"
    elif found.ok is None:
        verdict, reason = Verdict.FAIL, f"not measured: {found.unmeasured[0].what}"
    else:
        verdict, reason = Verdict.PASS, f"nothing stands in the way of a start over {len(found.nodes)} nodes"
    return Judgement(verdict, reason, case.id if case else None, None, None, (), told)


def judge_job(
    found: Sequence[tuple[str, str]], unknown: Sequence[str], case: Case | None, told: Mapping[str, Any]
) -> Judgement:
    """The verdict on a job for an edge chip: against what a case expects, else on whether anything is wrong.

    Args:
        found: What is wrong, each as its id and a sentence; what is only worth knowing is not among it.
        unknown: What could not be established, a sentence each.
        case: The recorded job.
        told: What is known of it, by name.
    """
    if case is not None:
        verdict, reason = _as_expected([name for name, _ in found], case.expect)
    elif found:
        name, text = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        verdict, reason = Verdict.FAIL, f"{text} ({name}){more}"
    elif unknown:
        verdict, reason = Verdict.FAIL, f"not established: {unknown[0]}"
    else:
        verdict, reason = Verdict.PASS, "nothing is wrong with what was given of the job"
    return Judgement(verdict, reason, case.id if case else None, None, None, (), told)


def together(found: Sequence[Judgement], case: Case | None) -> Judgement:
    """The verdict on several parts of one question: pass where each passes; what is known of them is put together."""
    failed = [one for one in found if one.verdict is not Verdict.PASS]
    return Judgement(
        verdict=failed[0].verdict if failed else Verdict.PASS,
        reason="; ".join(one.reason for one in failed or found),
        case=case.id if case is not None else None,
        outcome=next((one.outcome for one in found if one.outcome is not None), None),
        root_cause=next((one.root_cause for one in found if one.root_cause is not None), None),
        findings=tuple(each for one in found for each in one.findings),
        facts={name: value for one in reversed(found) for name, value in one.facts.items()},
    )


def _as_expected(names: Sequence[str], expect: Expectation) -> tuple[Verdict, str]:
    """The verdict on findings against those that a case expects, and why."""
    differences = list(_other_findings(names, expect))
    verdict = Verdict.FAIL if differences else Verdict.PASS
    return verdict, "; ".join(differences) or f"as expected: {', '.join(dict.fromkeys(names)) or 'nothing wrong'}"


def _other_findings(names: Collection[str], expect: Expectation) -> Iterator[str]:
    """The findings that are not those which a case expects, where it names any, or says that there are none."""
    got = set(names)
    wanted = got if expect.findings is None else set(expect.findings)
    yield from (f"finding {name}: expected, not found" for name in sorted(wanted - got))
    yield from (f"finding {name}: found, not expected" for name in sorted(got - wanted))


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


def judge_plan(found: Plan | Layouts, case: Case | None, judged: Sequence[JudgedClaim] = ()) -> Judgement:
    """The verdict on a plan: against the case whose question it answers and its claims, else on whether it fits."""
    if case is not None and case.plan is not None:
        differences = [*_planned_otherwise(found, case.plan, case.expect), *_other_verdicts(case, judged)]
        verdict = Verdict.FAIL if differences else Verdict.PASS
        reason = "; ".join(differences) or f"as expected: {_told(found.fits)}"
        return Judgement(verdict, reason, case.id, None, None, (), _known(found, case.plan))
    limits = found.limits[:1] if isinstance(found, Plan) and not found.fits else ()
    reason = "; ".join((_told(found.fits), *limits))
    verdict = Verdict.PASS if found.fits else Verdict.FAIL
    return Judgement(verdict, reason, None, None, None, (), _known(found))


def _known(found: Plan | Layouts, asked: PlanAsked | None = None) -> dict[str, Any]:
    """What is known of a plan, by name; of a question that is not at hand without the layout that it asked for."""
    if asked is None and isinstance(found, Plan) and found.layout is None:
        return {} if found.fits is None else {"fits": found.fits}
    told = plan_figures(found, asked or PlanAsked("", "", ""))
    return {name: value for name, value in document(told).items() if value is not None}


_FITS = {True: "it fits", False: "it does not fit", None: "whether it fits is not known"}


def _told(fits: bool | None) -> str:  # noqa: FBT001 - three values, one sentence each
    return _FITS[fits]


def _planned_otherwise(found: Plan | Layouts, asked: PlanAsked, expect: Expectation) -> Iterator[str]:
    if expect.fits is not None and found.fits is not expect.fits:
        yield f"expected: {_told(expect.fits)}, got: {_told(found.fits)}"
    values = plan_figures(found, asked)
    if expect.best is not None:
        best = BestLayout(*(values.get(name, 0) for name in ("replicas", "tp", "pp", "dp")))
        if best != expect.best:
            yield f"best layout: expected {_layout(expect.best)}, got {_layout(best)}"
    for name, wanted in expect.per_gpu.items():
        got = values.get(name)
        if got is None or round(got, _decimals(wanted)) != wanted:
            yield f"{name}: expected {wanted:,}, got {'unknown' if got is None else written(float(got))}"


def _layout(layout: BestLayout) -> str:
    return f"{layout.replicas} x (tensor {layout.tp}, pipeline {layout.pp}, data {layout.dp})"


def _decimals(number: float) -> int:
    return 0 if number.is_integer() else len(str(number).partition(".")[2])


def _other_verdicts(case: Case, judged: Sequence[JudgedClaim]) -> list[str]:
    """The case's claims that did not come out as written, a sentence each."""
    verdicts = {claim.id: claim for claim in judged}
    return [
        f"claim {name}: expected {verdicts[name].expected}, got {verdicts[name].verdict}"
        if name in verdicts
        else f"claim {name}: not judged"
        for name in case.expect.claims or ()
        if name not in verdicts or verdicts[name].verdict is not verdicts[name].expected
    ]
