"""Several nodes: read from recordings, compared, and checked for a server over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes.compared import differences
from vllm_runbooks.host.nodes.meanings import COLLECTIVE, IDS, findings
from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster, NodeEnvironment
from vllm_runbooks.host.nodes.snapshots import MAX_NODES, MAX_TEXT, read
from vllm_runbooks.host.nodes.unknowns import unmeasured
from vllm_runbooks.host.nodes.view import ClusterRuleContext

__all__ = ["IDS", "MAX_NODES", "MAX_TEXT", "check", "read", "standing", "with_variables"]


def check(cluster: Cluster, specs: Specs, *, model: str = "") -> CheckedCluster:
    """Check live or recorded nodes for a server over all of them.

    `model` is the path of the model that every node must have; empty for the recorded one, if any.
    """
    context = ClusterRuleContext(cluster, specs)
    node_findings, facts = findings(context)
    has_failed = any(finding.id == COLLECTIVE for finding in node_findings)
    unknown = tuple(unmeasured(context, model=model, has_failed=has_failed))
    is_wrong = any(finding.severity is not Severity.HINT for finding in node_findings)
    return CheckedCluster(
        **{name: getattr(cluster, name) for name in Cluster.__dataclass_fields__},
        findings=node_findings,
        unmeasured=unknown,
        environments=tuple(context.matrix.environments()),
        differences=tuple(differences(cluster.nodes, facts)),
        ok=False if is_wrong else None if unknown else True,
    )


_PLANNED = frozenset({"nodes.gpus_unequal", "nodes.gpu_counts_differ"})
_SLOW = "nodes.network_slow"


def with_variables(cluster: Cluster, variables: Mapping[str, Mapping[str, str]]) -> Cluster:
    """The nodes with additional variables, by node; other nodes keep their environment."""
    nodes = tuple(
        replace(node, environment={**(node.environment or {}), **variables[node.name]})
        if variables.get(node.name)
        else node
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def standing(
    cluster: Cluster,
    specs: Specs,
    environments: Iterable[NodeEnvironment],
    used: Iterable[str],
    *,
    is_tensor_spread: bool,
) -> tuple[RuleFinding, ...]:
    """Find remaining problems of a launch over the nodes in `used` that sets these environments.

    With `is_tensor_spread` ranks of one tensor-parallel group are on several nodes, so a slow
    network matters.
    """
    launched = with_variables(cluster, {environment.node: environment.variables for environment in environments})
    names = {*used, *(node.name for node in cluster.unread)}
    return tuple(
        finding
        for finding in check(launched, specs).findings
        if (
            is_tensor_spread
            if finding.id == _SLOW
            else finding.severity is not Severity.HINT and finding.id not in _PLANNED
        )
        and names.issuperset(finding.nodes)
    )
