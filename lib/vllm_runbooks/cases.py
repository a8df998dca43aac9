"""The front door for recorded cases of every kind, judged without a runbook by what the tool says of them."""

from __future__ import annotations

from collections.abc import Callable

from vllm_runbooks import checking, edge10_evidence, session, verdicts
from vllm_runbooks.evidence_records import CaseKind, Evidence
from vllm_runbooks.records import Judgement


def judge(evidence: Evidence) -> Judgement:
    """The verdict on recorded evidence without a runbook, by what the tool says of what it holds; a log is diagnosed.

    Raises:
        InputError: it cannot be judged so.
    """
    case = evidence.case
    kind = case.kind if case is not None else CaseKind.LOG
    if case is not None and case.plan is not None:
        return verdicts.judge_plan(session.planned(case.plan), case, session.judge_claims(evidence))
    judged: dict[CaseKind, Callable[[], Judgement]] = {
        CaseKind.LOG: lambda: session.judge(session.diagnose(evidence), evidence),
        CaseKind.SCRIPT: lambda: checking.judge_commands(checking.lint_commands(evidence), evidence),
        CaseKind.SNAPSHOT: lambda: session.judge_inventory(session.inventory(evidence), evidence),
        CaseKind.NODES: lambda: session.judge_nodes(session.nodes(evidence), evidence),
        CaseKind.SERVER: lambda: session.judge_health(session.health(evidence), evidence),
        CaseKind.JOB: lambda: edge10_evidence.judge(edge10_evidence.of(evidence)),
    }
    return judged[kind]()
