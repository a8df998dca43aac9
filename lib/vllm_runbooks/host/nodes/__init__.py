"""Several nodes: read from what was recorded of them, compared, and what a server over them would meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host.nodes.compared import differences
from vllm_runbooks.host.nodes.meanings import COLLECTIVE, IDS, findings
from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster, NodeEnvironment, NodeFinding
from vllm_runbooks.host.nodes.snapshots import MAX_NODES, MAX_TEXT, read
from vllm_runbooks.host.nodes.unknowns import unmeasured
from vllm_runbooks.host.nodes.view import View

__all__ = ["IDS", "MAX_NODES", "MAX_TEXT", "check", "given", "read", "standing"]


def check(found: Cluster, specs: Specs, *, model: str = "") -> CheckedCluster:
    """Nodes with what they mean for a server over all of them.

    Args:
        found: As they were asked, or as it was recorded.
        specs: The cards that are known.
        model: Path of the model that every node must have; empty: the one that was looked at, if any.
    """
    view = View(found, specs)
    said, about = findings(view)
    has_failed = any(each.id == COLLECTIVE for each in said)
    unknown = tuple(unmeasured(view, model=model, has_failed=has_failed))
    base = {name: getattr(found, name) for name in Cluster.__dataclass_fields__}
    is_wrong = any(each.severity is not Severity.HINT for each in said)
    return CheckedCluster(
        **base,
        findings=said,
        unmeasured=unknown,
        environments=tuple(view.ways.environments()),
        differences=tuple(differences(found.nodes, about)),
        ok=False if is_wrong else None if unknown else True,
    )


_PLANNED = frozenset({"nodes.gpus_unequal", "nodes.gpu_counts_differ"})
"""Findings about cards, which a plan over them heeds."""
_SLOW = "nodes.network_slow"


def given(found: Cluster, variables: Mapping[str, Mapping[str, str]]) -> Cluster:
    """The nodes with further variables, by node; of a node without any what is known stays as it is."""
    nodes = tuple(
        replace(node, environment={**(node.environment or {}), **own}) if (own := variables.get(node.name)) else node
        for node in found.nodes
    )
    return replace(found, nodes=nodes)


def standing(
    found: Cluster,
    specs: Specs,
    environments: Iterable[NodeEnvironment],
    used: Iterable[str],
    *,
    is_tensor_spread: bool,
) -> tuple[NodeFinding, ...]:
    """What a start still meets that gives each node its environment: what that mends is none of it.

    Args:
        found: As the nodes were asked, or as it was recorded.
        specs: The cards that are known.
        environments: What the start sets on each node.
        used: The nodes that it is over.
        is_tensor_spread: Whether ranks of one tensor-parallel group stand on several of them.
    """
    started = given(found, {one.node: one.variables for one in environments})
    names = {*used, *(each.name for each in found.unread)}
    return tuple(
        each
        for each in check(started, specs).findings
        if (is_tensor_spread if each.id == _SLOW else each.severity is not Severity.HINT and each.id not in _PLANNED)
        and names.issuperset(each.nodes)
    )
