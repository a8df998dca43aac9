"""The verdict on a chain of open parts."""

from __future__ import annotations

from vllm_runbooks.core.records import Judgement, Verdict
from vllm_runbooks.edge10.accuracy.records import Accuracy
from vllm_runbooks.edge10.chain.records import OpenChain


def judge_chain(found: OpenChain) -> Judgement:
    """Pass if less was lost than the threshold; else why that is not established."""
    if found.accuracy is not None:
        verdict = Verdict.PASS if found.accuracy.verdict is Accuracy.KEPT else Verdict.FAIL
        reason = f"{found.accuracy.verdict.value}: {found.accuracy.why}"
    else:
        verdict = Verdict.SKIPPED if found.needs else Verdict.INTERRUPTED if found.stopped_by else Verdict.FAIL
        reason = found.why_none
    return Judgement(verdict, reason, None, None, None, ())
