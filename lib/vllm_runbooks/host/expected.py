"""Verdict on a host: by the expectation of a case, else by its problems."""

from __future__ import annotations

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import compare, finding_differences
from vllm_runbooks.core.records import RunbookVerdict, Severity, Verdict
from vllm_runbooks.host.records import Inspected


def inventory_verdict(host: Inspected, case: Case | None) -> RunbookVerdict:
    """Verdict on a host: by the expectation of a case, else by its problems."""
    if case is not None:
        differences = list(finding_differences([finding.id for finding in host.findings], case.expect))
        gpu = host.recommendation.gpu if host.recommendation is not None else None
        recommended = "none" if gpu is None else gpu
        if case.expect.recommended not in (None, recommended):
            differences.append(f"recommended: expected {case.expect.recommended}, got {recommended}")
        verdict, reason = compare(differences, f"{'no GPU' if gpu is None else f'GPU {gpu}'} is recommended")
    elif wrong := [finding for finding in host.findings if finding.severity is not Severity.HINT]:
        verdict, reason = Verdict.FAIL, f"{wrong[0].text} ({wrong[0].id})"
    else:
        verdict, reason = Verdict.PASS, host.no_gpus_reason or "no problems"
    return RunbookVerdict(verdict, reason, case.id if case else None, None, None, ())
