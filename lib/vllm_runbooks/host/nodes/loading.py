"""Snapshots of several nodes by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.load import specs
from vllm_runbooks.core.errors import InputError, WrongFileError, check_texts
from vllm_runbooks.core.evidence import CaseKind, Evidence
from vllm_runbooks.core.expected import verdict_on_findings
from vllm_runbooks.core.records import FindingRef, Level, RunbookVerdict, Severity, Verdict
from vllm_runbooks.reading.sources import beginning, load_files

if TYPE_CHECKING:
    from vllm_runbooks.host.nodes.records import CheckedCluster, Cluster


_WRITE_NODES = "give what vllm-runbooks cluster check --out FILE wrote, or a folder of such files"


def read_nodes(sources: Sequence[str | Evidence]) -> Cluster:
    """Read files, folders of files, recorded cases, `-` or loaded evidence as one cluster; raises InputError."""
    from vllm_runbooks.host import nodes as clusters

    spared = {file for source in sources if isinstance(source, str) for file in snapshots_in(source) or ()}
    return clusters.read((text for source in sources for text in _node_texts(source)), spared=spared)


def snapshots_in(name: str) -> list[str] | None:
    """The snapshots in a folder, by name; None if it is no folder, or a recorded case."""
    folder = Path(name)
    is_named = bool(name.strip()) and "\0" not in name
    is_of_nodes = is_named and folder.is_dir() and not (folder / "case.yaml").is_file()
    return sorted(map(str, folder.glob("*.json"))) if is_of_nodes else None


def _node_texts(name: str | Evidence) -> Iterator[tuple[str, str]]:
    from vllm_runbooks.host.nodes import MAX_TEXT

    if isinstance(name, Evidence):
        yield from ((document.name, beginning(document, MAX_TEXT)) for document in name.documents)
        return
    check_texts(snapshot=name)
    files = [name] if (snapshots := snapshots_in(name)) is None else snapshots
    if not files:
        raise InputError(f"{name}: contains no *.json; {_WRITE_NODES}")
    for file in files:
        try:
            loaded = load_files([file])
        except WrongFileError as error:
            raise InputError(f"{error.wrong}; {_WRITE_NODES}") from None
        if loaded.case is not None and loaded.case.kind not in (CaseKind.NODES, CaseKind.SNAPSHOT):
            raise InputError(f"{file}: is a recorded case, and none of nodes; {_WRITE_NODES}")
        documents = loaded.documents
        if len(documents) != 1:
            raise InputError(f"{file}: contains {len(documents)} files; {_WRITE_NODES}")
        yield "standard input" if file == "-" else file, beginning(documents[0], MAX_TEXT)


def nodes(*snapshots: str | Evidence, model: str = "") -> CheckedCluster:
    """Several nodes with their differences, and the consequences for a server over all of them.

    A snapshot is a file of `cluster check --out` or `inventory -o`, a folder of such files, a
    recorded case, or loaded evidence. `model` is the path of the model that every node must have.

    Raises:
        InputError: A snapshot cannot be read, or has no node.
    """
    from vllm_runbooks.host import nodes as clusters

    check_texts(model=model)
    return clusters.check(read_nodes(snapshots), specs(), model=model)


def nodes_verdict(cluster: CheckedCluster, evidence: Evidence | None) -> RunbookVerdict:
    """Verdict on several nodes: by the expectation of a case, else by the result of a launch."""
    case = evidence.case if evidence is not None else None
    if case is not None:
        verdict, reason = verdict_on_findings([finding.id for finding in cluster.findings], case.expect)
    elif cluster.ok is False:
        wrong = next(finding for finding in cluster.findings if finding.severity is not Severity.HINT)
        verdict, reason = Verdict.FAIL, f"{wrong.text} ({wrong.id})"
    elif cluster.ok is None:
        verdict, reason = Verdict.FAIL, f"not measured: {cluster.unmeasured[0].fact}"
    else:
        verdict, reason = Verdict.PASS, f"no problem prevents a launch over {len(cluster.nodes)} nodes"
    facts = {"nodes": len(cluster.nodes)}
    findings = tuple(FindingRef(f.id, "nodes", f.text, f.severity, Level.CONFIRMED) for f in cluster.findings)
    return RunbookVerdict(verdict, reason, case.id if case is not None else None, None, None, findings, facts)
