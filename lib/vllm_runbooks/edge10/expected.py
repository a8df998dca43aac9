"""The verdict on a job for an edge chip: against what a case expects, else on whether anything is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import verdict_on_findings
from vllm_runbooks.core.records import Judgement, Verdict


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
        verdict, reason = verdict_on_findings([name for name, _ in found], case.expect)
    elif found:
        name, text = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        verdict, reason = Verdict.FAIL, f"{text} ({name}){more}"
    elif unknown:
        verdict, reason = Verdict.FAIL, f"not established: {unknown[0]}"
    else:
        verdict, reason = Verdict.PASS, "nothing is wrong with what was given of the job"
    return Judgement(verdict, reason, case.id if case else None, None, None, (), told)
