"""Check recorded cases of every kind without a runbook."""

from __future__ import annotations

from collections.abc import Callable

from vllm_runbooks.core.evidence import CaseKind, Evidence
from vllm_runbooks.core.extensions import JOB_VERDICT, extension
from vllm_runbooks.core.records import RunbookVerdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import expected as host_expected
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.lint import checking
from vllm_runbooks.plan import expected as plan_expected
from vllm_runbooks.plan import planner
from vllm_runbooks.probe import checking as probe_checking


def verdict(evidence: Evidence) -> RunbookVerdict:
    """The verdict on recorded evidence without a runbook; a log is diagnosed."""
    case = evidence.case
    if case is not None and case.plan is not None:
        return plan_expected.plan_verdict(planner.planned(case.plan), case, diagnosing.check_claims(evidence))
    return _JUDGES[case.kind if case is not None else CaseKind.LOG](evidence)


_JUDGES: dict[CaseKind, Callable[[Evidence], RunbookVerdict]] = {
    CaseKind.LOG: lambda evidence: diagnosing.verdict(diagnosing.diagnose(evidence), evidence),
    CaseKind.SCRIPT: lambda evidence: checking.command_verdict(checking.lint_commands(evidence), evidence),
    CaseKind.SNAPSHOT: lambda evidence: host_expected.inventory_verdict(
        host_loading.inventory(evidence), evidence.case
    ),
    CaseKind.NODES: lambda evidence: node_loading.nodes_verdict(node_loading.nodes(evidence), evidence),
    CaseKind.SERVER: lambda evidence: probe_checking.health_verdict(probe_checking.health(evidence), evidence),
    CaseKind.JOB: lambda evidence: extension(JOB_VERDICT)(evidence),  # noqa: PLW0108 - imported when called
}
