"""What every rule looks at: the nodes with what is known beside them, and what a rule says of some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.core.records import Severity
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import Cluster
from vllm_runbooks.host.nodes.ways import Ways
from vllm_runbooks.host.records import HostFinding


class View:
    """The nodes with what is known beside them."""

    def __init__(self, found: Cluster, specs: Specs) -> None:
        """Sort the matrix, which several rules look at."""
        self.found, self.specs, self.nodes = found, specs, found.nodes
        self.ways = Ways(found)
        self.blocks = tuple(self.ways.blocks())
        self.variables = compared.variables(found.nodes)
        self.files = compared.file_faults(found.nodes)

    @cached_property
    def of_hosts(self) -> dict[str, tuple[HostFinding, ...]]:
        """By node, what its facts mean for it alone."""
        return {node.name: tuple(inventories.findings(node.inventory, self.specs)[0]) for node in self.nodes}


@dataclass(frozen=True)
class Said:
    """What a rule found: of which nodes, in words."""

    nodes: tuple[str, ...]
    text: str
    severity: Severity | None = None
    """Where it is another than the rule's."""
    facts: tuple[str, ...] = ()
    """Names of the facts that differ."""
    do: str = ""
    """Where it is another than the rule's."""


class Words(NamedTuple):
    """What is said of a node: in front of its name, and behind it."""

    before: str
    behind: str
    severity: Severity | None = None


def together(found: Iterable[tuple[str, Words]], *facts: str) -> Iterator[Said]:
    """One saying for all nodes of which the same is said."""
    by_words: dict[Words, list[str]] = {}
    for name, words in found:
        by_words.setdefault(words, []).append(name)
    for words, names in by_words.items():
        text = f"{words.before} {compared.listed(names)}{words.behind}"
        yield Said(tuple(names), text, words.severity, facts)
