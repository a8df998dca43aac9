"""The verdict on a host: against what a case expects, else on whether anything is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_runbooks.core.evidence import Case, Expectation
from vllm_runbooks.core.expected import compare, finding_differences
from vllm_runbooks.core.records import Judgement, Severity, Verdict
from vllm_runbooks.host.records import Inspected


def judge_inventory(host: Inspected, case: Case | None) -> Judgement:
    """The verdict on a host: against what a case expects, else on whether anything is wrong."""
    wrong = [finding for finding in host.findings if finding.severity is not Severity.HINT]
    if case is not None:
        differences = list(_differences(host, case.expect))
        chosen = host.recommendation.gpu if host.recommendation is not None else None
        gpu = "no card" if chosen is None else f"GPU {chosen}"
        verdict, reason = compare(differences, f"{gpu} is recommended")
    elif wrong:
        verdict, reason = Verdict.FAIL, f"{wrong[0].text} ({wrong[0].id})"
    else:
        verdict, reason = Verdict.PASS, host.why_none or "nothing wrong that was told"
    return Judgement(verdict, reason, case.id if case else None, None, None, ())


def _differences(host: Inspected, expect: Expectation) -> Iterator[str]:
    yield from finding_differences([finding.id for finding in host.findings], expect)
    chosen = host.recommendation.gpu if host.recommendation is not None else None
    gpu = "none" if chosen is None else chosen
    if expect.recommended is not None and expect.recommended != gpu:
        yield f"recommended: expected {expect.recommended}, got {gpu}"
