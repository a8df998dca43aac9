"""What the panel Nodes shows of several nodes, recorded or asked: what they are, what differs, what a start meets."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.catalog import folders
from vllm_runbooks.cluster import named
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.evidence import NODES
from vllm_runbooks.host.nodes import loading as node_loading
from vllm_runbooks.host.nodes import render as clusters
from vllm_runbooks.host.nodes.records import CheckedCluster

ALL, DIFFERENT = "all that is known", "what differs"


@dataclass(frozen=True)
class Asked:
    """Nodes that are to be asked themselves, in the words of `vllm-runbooks cluster check`."""

    ray: str = ""
    hosts: str = ""
    expect: int = 0
    model: str = ""
    python: str = ""
    ports: str = ""


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    nodes: Shown | None = None
    reach: Shown | None = None
    findings: Shown | None = None
    environments: tuple[tuple[str, str], ...] = ()
    """Name and lines for a shell, of each node."""
    without: Shown | None = None
    """Why there is no environment, where there is none."""


NOTHING = Told()


def told(snapshot: str, *, is_whole: bool = True) -> Told:
    """Recorded nodes by a file, a folder of files or a case, several of them separated by commas."""
    names = [part.strip() for part in snapshot.split(",") if part.strip()]
    if not names:
        return NOTHING
    try:
        return shown(node_loading.nodes(*names), is_whole=is_whole)
    except RunbooksError as error:
        return Told(error=str(error))


def measured(asked: Asked) -> CheckedCluster | Told:
    """The nodes themselves, asked and measured; else what is wrong with the question."""
    try:
        return named.nodes(
            asked.ray,
            hosts=asked.hosts,
            expect=asked.expect,
            model=asked.model,
            python=asked.python,
            ports=asked.ports,
        )
    except RunbooksError as error:
        return Told(error=str(error))


def shown(found: CheckedCluster | str, *, is_whole: bool = True) -> Told:
    """Nodes that were read or asked; else why there are none."""
    if isinstance(found, str):
        return Told(nodes=clusters.nodes(found))
    listed = tuple(clusters.exports(found))
    return Told(
        nodes=clusters.nodes(found, is_whole=is_whole),
        reach=clusters.reach(found),
        findings=clusters.findings(found),
        environments=listed,
        without=None if listed else clusters.environments(found),
    )


def recorded() -> list[str]:
    """Ids of the recorded clusters."""
    return sorted(path.parent.name for path in folders.cases_dir().glob(f"*/{NODES}"))
