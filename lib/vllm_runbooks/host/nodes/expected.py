"""The verdict on several nodes: against what a case expects, else on whether a start over them would work."""

from __future__ import annotations

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import verdict_on_findings
from vllm_runbooks.core.records import Judgement, Severity, Verdict
from vllm_runbooks.host.nodes.records import CheckedCluster


def judge_nodes(cluster: CheckedCluster, case: Case | None) -> Judgement:
    """The verdict on several nodes: against what a case expects, else on whether a start over them would work."""
    names = [finding.id for finding in cluster.findings]
    facts = {"nodes": len(cluster.nodes)}
    if case is not None:
        verdict, reason = verdict_on_findings(names, case.expect)
    elif cluster.ok is False:
        wrong = next(finding for finding in cluster.findings if finding.severity is not Severity.HINT)
        verdict, reason = Verdict.FAIL, f"{wrong.text} ({wrong.id})"
    elif cluster.ok is None:
        verdict, reason = Verdict.FAIL, f"not measured: {cluster.unmeasured[0].what}"
    else:
        verdict, reason = Verdict.PASS, f"nothing stands in the way of a start over {len(cluster.nodes)} nodes"
    return Judgement(verdict, reason, case.id if case else None, None, None, (), facts)
