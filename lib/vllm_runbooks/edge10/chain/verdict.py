"""The verdict on a chain of open parts."""

from __future__ import annotations

from vllm_runbooks.core.records import RunbookVerdict, Verdict
from vllm_runbooks.edge10.accuracy.records import Accuracy
from vllm_runbooks.edge10.chain.records import OpenChain


def chain_verdict(chain: OpenChain) -> RunbookVerdict:
    """Pass if less was lost than the threshold; else why that is not established."""
    if chain.accuracy is not None:
        verdict = Verdict.PASS if chain.accuracy.verdict is Accuracy.KEPT else Verdict.FAIL
        reason = f"{chain.accuracy.verdict.value}: {chain.accuracy.reason}"
    else:
        verdict = Verdict.SKIPPED if chain.needs else Verdict.INTERRUPTED if chain.stopped_by else Verdict.FAIL
        reason = chain.no_accuracy_reason
    return RunbookVerdict(verdict, reason, None, None, None, ())
