"""Content of the Nodes panel for several nodes, recorded or live: facts, differences, consequences for a launch."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.catalog import folders
from vllm_runbooks.cluster import named
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.files import NODES
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes import render as clusters
from vllm_runbooks.host.nodes.records import CheckedCluster

ALL, DIFFERENT = "all facts", "differences"


@dataclass(frozen=True)
class NodeRequest:
    """Nodes to check, with the options of `vllm-runbooks cluster check`."""

    ray: str = ""
    hosts: str = ""
    expect: int = 0
    model: str = ""
    python: str = ""
    ports: str = ""


@dataclass(frozen=True)
class NodeReport:
    """Content of the panel."""

    error: str = ""
    nodes: RenderedView | None = None
    reach: RenderedView | None = None
    findings: RenderedView | None = None
    environments: tuple[tuple[str, str], ...] = ()
    """Name and shell lines of each node."""
    without: RenderedView | None = None
    """Reason for a missing environment."""


NOTHING = NodeReport()


def report_on(snapshot: str, *, is_whole: bool = True) -> NodeReport:
    """Recorded nodes from a file, a folder of files or a case, or several separated by commas."""
    names = [part.strip() for part in snapshot.split(",") if part.strip()]
    if not names:
        return NOTHING
    try:
        return shown(node_loading.nodes(*names), is_whole=is_whole)
    except RunbooksError as error:
        return NodeReport(error=str(error))


def measured(request: NodeRequest) -> CheckedCluster | NodeReport:
    """Collect facts from the nodes and measure between them, or report an invalid request."""
    try:
        return named.nodes(
            request.ray,
            hosts=request.hosts,
            expect=request.expect,
            model=request.model,
            python=request.python,
            ports=request.ports,
        )
    except RunbooksError as error:
        return NodeReport(error=str(error))


def shown(checked: CheckedCluster | str, *, is_whole: bool = True) -> NodeReport:
    """Content for recorded or live nodes; else the reason for missing ones."""
    if isinstance(checked, str):
        return NodeReport(nodes=clusters.nodes(checked))
    listed = tuple(clusters.exports(checked))
    return NodeReport(
        nodes=clusters.nodes(checked, is_whole=is_whole),
        reach=clusters.reach(checked),
        findings=clusters.findings(checked),
        environments=listed,
        without=None if listed else clusters.environments(checked),
    )


def recorded() -> list[str]:
    """Ids of the recorded clusters."""
    return sorted(path.parent.name for path in folders.cases_dir().glob(f"*/{NODES}"))
