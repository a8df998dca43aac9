"""Rules on facts of nodes and differences between them, for a server over all nodes.

Severities, effects, remedies and sources are in `catalog/tables/node_findings.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vllm_runbooks.catalog.tables import FindingText, RuleFinding, load_table
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes import compared, network_rules, node_rules
from vllm_runbooks.host.nodes.records import Reachability
from vllm_runbooks.host.nodes.view import ClusterRuleContext, RuleHit

COLLECTIVE = "nodes.collective_failed"
_CONDITIONS: Mapping[str, Callable[[ClusterRuleContext], Iterator[RuleHit]]] = {
    "nodes.unread": node_rules.unread,
    "nodes.host_ip_wrong": network_rules.ip_wrong,
    "nodes.host_ip_shared": network_rules.ip_shared,
    "nodes.host_ip_apart": network_rules.ip_apart,
    "nodes.host_ip_missing": network_rules.ip_missing,
    "nodes.interface_missing": network_rules.interface_missing,
    "nodes.interface_loopback": network_rules.interface_loopback,
    "nodes.interface_apart": network_rules.interface_apart,
    "nodes.interfaces_disagree": network_rules.interfaces_disagree,
    "nodes.interface_unset": network_rules.interface_unset,
    "nodes.interface_names_differ": network_rules.interface_names,
    "nodes.name_loopback": network_rules.name_apart,
    "nodes.one_way": network_rules.blocked(*network_rules.CLOSED, one_way=True),
    "nodes.port_dropped": network_rules.blocked(Reachability.DROPPED),
    "nodes.port_refused": network_rules.blocked(Reachability.REFUSED),
    "nodes.no_way": network_rules.blocked(Reachability.UNREACHABLE),
    COLLECTIVE: network_rules.collective,
    "nodes.mtu_differs": network_rules.mtu,
    "nodes.stream_lost": network_rules.stream_lost,
    "nodes.network_slow": network_rules.slow,
    "nodes.proxy": network_rules.proxy,
    "nodes.ray_differs": node_rules.differs(compared.RAY),
    "nodes.ray_token_differs": node_rules.token,
    "nodes.python_differs": node_rules.python,
    "nodes.vllm_differs": node_rules.differs(compared.VLLM),
    "nodes.torch_differs": node_rules.differs(compared.TORCH),
    "nodes.nccl_differs": node_rules.differs(compared.NCCL),
    "nodes.transformers_differs": node_rules.differs(compared.TRANSFORMERS),
    "nodes.driver_differs": node_rules.differs(compared.DRIVER),
    "nodes.environment_differs": node_rules.environment,
    "nodes.model_missing": node_rules.model_missing,
    "nodes.model_path_differs": node_rules.model_path,
    "nodes.model_differs": node_rules.model_differs,
    "nodes.gpus_missing": node_rules.gpus_missing,
    "nodes.gpus_unequal": node_rules.gpus_unequal,
    "nodes.gpu_counts_differ": node_rules.gpu_counts,
    "nodes.clock_off": node_rules.clock,
    "nodes.shm_small": node_rules.shm,
    "nodes.memlock": node_rules.memlock,
    "nodes.open_files": node_rules.open_files,
}
IDS = frozenset(_CONDITIONS)


def findings(context: ClusterRuleContext) -> tuple[tuple[RuleFinding, ...], frozenset[str]]:
    """Find the meaning of the nodes for a server, most serious first, and the relevant facts."""
    table = load_table("node_findings", FindingText)
    node_findings: list[RuleFinding] = []
    facts: set[str] = set()
    for rule, condition in _CONDITIONS.items():
        row = table[rule]
        for hit in condition(context):
            facts.update(hit.facts)
            node_findings.append(
                RuleFinding(
                    rule,
                    hit.severity or row.severity,
                    hit.text,
                    hit.do or row.do,
                    row.source,
                    row.effect,
                    row.symptom,
                    nodes=hit.nodes,
                )
            )
    node_findings += node_rules.single_node_findings(context)
    node_findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return tuple(node_findings), frozenset(facts)
