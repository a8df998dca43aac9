"""The verdict on a chain of open parts."""

from __future__ import annotations

from vllm_runbooks.core.records import Judgement, Verdict
from vllm_runbooks.edge10.accuracy.records import Accuracy
from vllm_runbooks.edge10.chain.records import OpenChain


def judge_chain(found: OpenChain) -> Judgement:
    """The verdict on a chain of open parts: less was lost than the threshold, or why that is not established."""
    accuracy = found.accuracy
    if accuracy is not None:
        verdict = Verdict.PASS if accuracy.verdict is Accuracy.KEPT else Verdict.FAIL
        reason = f"{accuracy.verdict.value}: {accuracy.why}"
    else:
        verdict = Verdict.SKIPPED if found.needs else Verdict.INTERRUPTED if found.stopped_by else Verdict.FAIL
        reason = found.why_none
    return Judgement(verdict, reason, None, None, None, ())
