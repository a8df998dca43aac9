"""The front door for recorded cases of every kind, judged without a runbook by what the tool says of them."""

from __future__ import annotations

from collections.abc import Callable

from vllm_runbooks.core.evidence import CaseKind, Evidence
from vllm_runbooks.core.records import Judgement
from vllm_runbooks.diagnosis import session
from vllm_runbooks.edge10 import evidence as edge10_evidence
from vllm_runbooks.lint import checking
from vllm_runbooks.runbooks import verdicts


def judge(evidence: Evidence) -> Judgement:
    """The verdict on recorded evidence without a runbook, by what the tool says of what it holds; a log is diagnosed.

    Raises:
        InputError: it cannot be judged so.
    """
    case = evidence.case
    if case is not None and case.plan is not None:
        return verdicts.judge_plan(session.planned(case.plan), case, session.judge_claims(evidence))
    return _JUDGES[case.kind if case is not None else CaseKind.LOG](evidence)


_JUDGES: dict[CaseKind, Callable[[Evidence], Judgement]] = {
    CaseKind.LOG: lambda held: session.judge(session.diagnose(held), held),
    CaseKind.SCRIPT: lambda held: checking.judge_commands(checking.lint_commands(held), held),
    CaseKind.SNAPSHOT: lambda held: session.judge_inventory(session.inventory(held), held),
    CaseKind.NODES: lambda held: session.judge_nodes(session.nodes(held), held),
    CaseKind.SERVER: lambda held: session.judge_health(session.health(held), held),
    CaseKind.JOB: lambda held: edge10_evidence.judge(edge10_evidence.of(held)),
}
"""By what a case holds; a question is judged before."""
