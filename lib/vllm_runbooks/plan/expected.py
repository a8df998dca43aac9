"""Verdict on a plan: by its case and claims, else by whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vllm_runbooks.core.evidence import BestLayout, Case, Expectation, PlanQuestion
from vllm_runbooks.core.expected import claim_differences, compare
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import CheckedClaim, RunbookVerdict, Verdict
from vllm_runbooks.plan.figures import plan_figures, written
from vllm_runbooks.plan.records import Layouts, Plan


def plan_verdict(plan: Plan | Layouts, case: Case | None, judged: Sequence[CheckedClaim] = ()) -> RunbookVerdict:
    """Verdict on a plan: by its case and claims, else by whether it fits."""
    if case is not None and case.plan is not None:
        differences = [*_planned_otherwise(plan, case.plan, case.expect), *claim_differences(case, judged)]
        verdict, reason = compare(differences, _FITS[plan.fits])
        return RunbookVerdict(verdict, reason, case.id, None, None, (), _known(plan, case.plan))
    limits = plan.limits[:1] if isinstance(plan, Plan) and not plan.fits else ()
    reason = "; ".join((_FITS[plan.fits], *limits))
    verdict = Verdict.PASS if plan.fits else Verdict.FAIL
    return RunbookVerdict(verdict, reason, None, None, None, (), _known(plan))


def _known(plan: Plan | Layouts, question: PlanQuestion | None = None) -> dict[str, Any]:
    if question is None and isinstance(plan, Plan) and plan.layout is None:
        return {} if plan.fits is None else {"fits": plan.fits}
    figures = plan_figures(plan, question or PlanQuestion("", "", ""))
    return {name: value for name, value in document(figures).items() if value is not None}


_FITS = {True: "it fits", False: "it does not fit", None: "unknown whether it fits"}


def _planned_otherwise(plan: Plan | Layouts, question: PlanQuestion, expect: Expectation) -> Iterator[str]:
    if expect.fits is not None and plan.fits is not expect.fits:
        yield f"expected: {_FITS[expect.fits]}, got: {_FITS[plan.fits]}"
    values = plan_figures(plan, question)
    if expect.best is not None:
        best = BestLayout(*(values.get(name, 0) for name in ("replicas", "tp", "pp", "dp")))
        if best != expect.best:
            yield f"best layout: expected {_layout(expect.best)}, got {_layout(best)}"
    for name, expected in expect.per_gpu.items():
        got = values.get(name)
        if got is None or round(got, _decimals(expected)) != expected:
            yield f"{name}: expected {expected:,}, got {'unknown' if got is None else written(float(got))}"


def _layout(layout: BestLayout) -> str:
    return f"{layout.replicas} x (tensor {layout.tp}, pipeline {layout.pp}, data {layout.dp})"


def _decimals(number: float) -> int:
    return 0 if number.is_integer() else len(str(number).partition(".")[2])
