"""Check a job for an edge chip against its case, or check that nothing is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import verdict_on_findings
from vllm_runbooks.core.records import RunbookVerdict, Verdict


def judge_job(
    findings: Sequence[tuple[str, str]], unknown: Sequence[str], case: Case | None, facts: Mapping[str, Any]
) -> RunbookVerdict:
    """Check a job for an edge chip against its case, or check that nothing is wrong.

    Args:
        findings: What is wrong, each as its id and a sentence; what is only worth knowing is not among it.
        unknown: What could not be established, a sentence each.
        case: The recorded job.
        facts: What is known of it, by name.
    """
    if case is not None:
        verdict, reason = verdict_on_findings([name for name, _ in findings], case.expect)
    elif findings:
        name, text = findings[0]
        more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        verdict, reason = Verdict.FAIL, f"{text} ({name}){more}"
    elif unknown:
        verdict, reason = Verdict.FAIL, f"not established: {unknown[0]}"
    else:
        verdict, reason = Verdict.PASS, "nothing is wrong with what was given of the job"
    return RunbookVerdict(verdict, reason, case.id if case else None, None, None, (), facts)
