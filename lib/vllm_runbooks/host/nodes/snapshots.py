"""Read the texts of recorded clusters, nodes and hosts; damaged ones are rejected in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.earlier_schema import HOST, upgrade
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes.records import KIND, NODE_KIND, CheckedCluster, Cluster, NodeFacts, Unread
from vllm_runbooks.host.records import KIND as HOST_KIND
from vllm_runbooks.host.snapshots import read_fields, redact_environment

MAX_TEXT = 64 << 20
"""Maximum characters of a recorded cluster; a node takes about ten thousand, a connection 150. This
many connections use half a gigabyte of memory."""
MAX_NODES = 10_000
_MAX_NAME = 253
"""Signs of a node's name; that of a host has no more."""
_DERIVED = tuple({field.name for field in fields(CheckedCluster)} - {field.name for field in fields(Cluster)})
"""Fields of `cluster check` output other than the nodes: they are recomputed."""
_BY_FILES = "snapshots"
_WRITE = "write it with vllm-runbooks cluster check --out FILE"


def read(texts: Iterable[tuple[str, str]], *, spared: Container[str] = ()) -> Cluster:
    """Read recorded texts, each with its name for messages, as one cluster, with secrets replaced.

    A text is a cluster, a node, or the snapshot of a host. Measurements between its nodes are kept.
    A damaged one in `spared` counts as an unread node, as long as there is another.

    Raises:
        InputError: There is no text, one is damaged, or two nodes have the same name.
    """
    clusters: list[Cluster] = []
    wrong: list[InputError] = []
    names: Counter[str] = Counter()
    for where, text in texts:
        # Names link measurements to their nodes, so they are compared in redacted form.
        try:
            cluster = _without_secrets(_read(text, where))
        except InputError as error:
            if where not in spared:
                raise
            wrong.append(error)
            cluster = Cluster(method=_BY_FILES, unread=(Unread(_name_of(where), str(error)),))
        _check_names(cluster, names, where)
        clusters.append(cluster)
    if wrong and len(wrong) == len(clusters):
        raise wrong[0]
    if not clusters:
        raise InputError(f"no recorded node was given; {_WRITE}")
    return clusters[0] if len(clusters) == 1 else _joined(clusters)


def _without_secrets(cluster: Cluster) -> Cluster:
    """Replace secrets; the name of a variable may show that its value is one."""
    texts: list[str] = []
    _gather(cluster, "", texts)
    text = "\n".join(texts)
    if redact_text(text) == text:
        return cluster  # the rule, and quicker than to look at thousands of texts one by one
    nodes = tuple(
        node if node.environment is None else replace(node, environment=redact_environment(node.environment))
        for node in cluster.nodes
    )
    return redact_record(replace(cluster, nodes=nodes))


def _gather(value: Any, named: str, texts: list[str]) -> None:
    """Collect all texts of a record, with the name of a variable before its value."""
    if isinstance(value, str):
        texts.append(named + value)
    elif isinstance(value, tuple):
        for item in value:
            _gather(item, named, texts)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _gather(item, f"{named}{name}=", texts)
    elif is_dataclass(value):
        for item in vars(value).values():
            if item is not None:
                _gather(item, named, texts)


def _read(text: str, where: str) -> Cluster:
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT >> 20} MiB; of hundreds of nodes give fewer at a time")
    begun = text.lstrip("\ufeff \t\r\n")
    data = upgrade(_json(begun, where), HOST) if begun.startswith(("{", "[")) else {"kind": HOST_KIND}
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == HOST_KIND:
        return Cluster(method=_BY_FILES, nodes=(NodeFacts(_name_of(where), inventory=inventories.read(text, where)),))
    if kind not in (KIND, NODE_KIND):
        raise InputError(f'{where}: is not a recorded cluster: "kind" is not "{KIND}" or "{NODE_KIND}"; {_WRITE}')
    values = read_fields(data, where, _DERIVED, _WRITE)
    if kind == NODE_KIND:
        about: dict[str, Any] = {
            name: values.pop(name) for name in ("constructed", "source", "timestamp") if name in values
        }
        inventories.check(Cluster, about, where)
        inventories.check(NodeFacts, values, where)
        cluster = replace(record(Cluster, about), method=_BY_FILES, nodes=(record(NodeFacts, values),))
    elif "nodes" in values:
        inventories.check(Cluster, values, where)
        cluster = record(Cluster, values)
    else:
        raise InputError(f"{where}: nodes: is missing; {_WRITE}")
    for node in cluster.nodes:
        inventories.check_host(node.inventory, f"{where}: {visible(node.name[:60])}")
    _check_links(cluster, where)
    return cluster


def _json(text: str, where: str) -> Any:
    try:
        return loaded(text)
    except ValueError as error:
        raise InputError(f"{where}: invalid JSON ({error}); use a recorded cluster as it was written") from None


def _check_links(cluster: Cluster, where: str) -> None:
    known_nodes = {*_names(cluster)}
    named = [("head", cluster.head)] if cluster.head is not None else []
    named += [
        ("connections", name) for attempt in cluster.connections or () for name in (attempt.source, attempt.target)
    ]
    named += [("collectives", rank.node) for attempt in cluster.collectives or () for rank in attempt.ranks]
    odd = next(((field, name) for field, name in named if name not in known_nodes), None)
    if odd is not None:
        raise InputError(f"{where}: {odd[0]}: {visible(odd[1][:60])!r} is not a listed node; name one of those")


def _names(cluster: Cluster) -> list[str]:
    return [*(node.name for node in cluster.nodes), *(unread.name for unread in cluster.unread)]


def _check_names(cluster: Cluster, names: Counter[str], where: str) -> None:
    for name in _names(cluster):
        printable = visible(name[:60])
        if not (0 < len(name) <= _MAX_NAME and name.isprintable()):
            form = f"use 1 to {_MAX_NAME} printable characters"
            raise InputError(f"{where}: {printable!r} is not a valid node name; {form}")
        if names[name]:
            form = "use unique names"
            raise InputError(f"{where}: {printable}: is listed twice; {form}")
        names[name] += 1
    if len(names) > MAX_NODES:
        raise InputError(f"{where}: makes more than {MAX_NODES:,} nodes; give fewer at a time")


def _joined(clusters: Sequence[Cluster]) -> Cluster:
    """Merge clusters of several files; a collective covers the nodes of one file, so it is dropped."""
    reaches = tuple(item for cluster in clusters for item in cluster.connections or ())
    return Cluster(
        constructed=any(
            cluster.constructed or any(node.inventory.constructed for node in cluster.nodes) for cluster in clusters
        ),
        source=f"put together of {len(clusters)} files",
        method=_BY_FILES,
        head=next((cluster.head for cluster in clusters if cluster.head is not None), None),
        nodes=tuple(node for cluster in clusters for node in cluster.nodes),
        unread=tuple(item for cluster in clusters for item in cluster.unread),
        connections=reaches or None,
    )


def _name_of(where: str) -> str:
    name = where.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[0] or name
