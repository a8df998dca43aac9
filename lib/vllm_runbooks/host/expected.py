"""The verdict on a host: against what a case expects, else on whether anything is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_runbooks.core.evidence import Case, Expectation
from vllm_runbooks.core.expected import compare, finding_differences
from vllm_runbooks.core.records import Judgement, Severity, Verdict
from vllm_runbooks.host.records import Inspected


def judge_inventory(found: Inspected, case: Case | None) -> Judgement:
    """The verdict on a host: against what a case expects, else on whether anything is wrong."""
    wrong = [one for one in found.findings if one.severity is not Severity.HINT]
    if case is not None:
        differences = list(_found_otherwise(found, case.expect))
        chosen = found.recommendation.gpu if found.recommendation is not None else None
        told = "no card" if chosen is None else f"GPU {chosen}"
        verdict, reason = compare(differences, f"{told} is recommended")
    elif wrong:
        verdict, reason = Verdict.FAIL, f"{wrong[0].text} ({wrong[0].id})"
    else:
        verdict, reason = Verdict.PASS, found.why_none or "nothing wrong that was told"
    return Judgement(verdict, reason, case.id if case else None, None, None, ())


def _found_otherwise(found: Inspected, expect: Expectation) -> Iterator[str]:
    yield from finding_differences([one.id for one in found.findings], expect)
    chosen = found.recommendation.gpu if found.recommendation is not None else None
    told = "none" if chosen is None else chosen
    if expect.recommended is not None and expect.recommended != told:
        yield f"recommended: expected {expect.recommended}, got {told}"
