"""Input and result of the rules on several nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import Cluster
from vllm_runbooks.host.nodes.ways import ReachabilityMatrix


class ClusterRuleContext:
    """The nodes, with data shared by several rules."""

    def __init__(self, cluster: Cluster, specs: Specs) -> None:
        self.cluster, self.specs, self.nodes = cluster, specs, cluster.nodes
        self.matrix = ReachabilityMatrix(cluster)
        self.blocks = tuple(self.matrix.blocks())
        self.variables = compared.variables(cluster.nodes)
        self.files = compared.file_faults(cluster.nodes)

    @cached_property
    def host_findings(self) -> dict[str, tuple[RuleFinding, ...]]:
        """Findings about each node's host alone, by node."""
        return {node.name: inventories.findings(node.inventory, self.specs)[0] for node in self.nodes}


@dataclass(frozen=True)
class RuleHit:
    """A finding of a rule about some nodes."""

    nodes: tuple[str, ...]
    text: str
    severity: Severity | None = None
    """None if it is the rule's."""
    facts: tuple[str, ...] = ()
    do: str = ""
    """Empty if it is the rule's."""


class NodeWords(NamedTuple):
    """A sentence about a node: the text before its name, and after it."""

    before: str
    behind: str
    severity: Severity | None = None


def difference_hits(what: str, values: Mapping[str, str | None], *facts: str) -> Iterator[RuleHit]:
    """One hit on the odd nodes where values by node differ."""
    if compared.differ(values):
        yield RuleHit(compared.odd(values), f"{what}: {compared.phrase(values)}", facts=facts)


def grouped_hits(sentences: Iterable[tuple[str, NodeWords]], *facts: str) -> Iterator[RuleHit]:
    """One hit for all nodes with the same sentence."""
    for words, nodes in compared.grouped((words, node) for node, words in sentences).items():
        yield RuleHit(tuple(nodes), f"{words.before} {compared.listed(nodes)}{words.behind}", words.severity, facts)
