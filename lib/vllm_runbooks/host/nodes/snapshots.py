"""The texts of recorded clusters, nodes and hosts to a `Cluster`; what is damaged is refused in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from vllm_runbooks.core.display import SCHEMA, visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.nodes.records import KIND, NODE_KIND, CheckedCluster, Cluster, NodeFacts, Unread
from vllm_runbooks.host.records import KIND as HOST_KIND

MAX_TEXT = 64 << 20
"""Characters of a recorded cluster; a node of it takes some ten thousand, a way between two 150. As many of ways take
half a gigabyte of memory."""
MAX_NODES = 10_000
_MAX_NAME = 253
"""Signs of a node's name; that of a host has no more."""
_DERIVED = tuple({each.name for each in fields(CheckedCluster)} - {each.name for each in fields(Cluster)})
"""What the output of `cluster check` has beside the nodes: it is reckoned anew."""
_BY_FILES = "snapshots"
"""How nodes were asked that come from files of their own."""
_WRITE = "write it with vllm-runbooks cluster check --out FILE"


def read(texts: Iterable[tuple[str, str]], *, spared: Container[str] = ()) -> Cluster:
    """The cluster that is recorded in texts, each with the name that messages begin with; secrets replaced.

    A text is a whole cluster, one node, or the snapshot of a host, which is a node of the text's own name. Several are
    put together: what one of them measured between its nodes stays with it. A damaged one whose name is among `spared`
    counts as a node that could not be read, as long as there is another.

    Raises:
        InputError: there is no text, one is no such record, something in it is damaged, or two nodes have one name.
    """
    found: list[Cluster] = []
    wrong: list[InputError] = []
    names: Counter[str] = Counter()
    for where, text in texts:
        # Names join what was measured to its node, so they are compared as they are shown.
        try:
            one = _without_secrets(_read(text, where))
        except InputError as error:
            if where not in spared:
                raise
            wrong.append(error)
            one = Cluster(by=_BY_FILES, unread=(Unread(_name_of(where), str(error)),))
        _check_names(one, names, where)
        found.append(one)
    if wrong and len(wrong) == len(found):
        raise wrong[0]
    if not found:
        raise InputError(f"no recorded node was given; {_WRITE}")
    return found[0] if len(found) == 1 else _joined(found)


def _without_secrets(found: Cluster) -> Cluster:
    """The same, its secrets replaced; the name of a variable may tell that its value is one."""
    texts: list[str] = []
    _gather(found, "", texts)
    told = "\n".join(texts)
    if redact_text(told) == told:
        return found  # the rule, and quicker than to look at thousands of texts one by one
    nodes = tuple(
        node
        if node.environment is None
        else replace(node, environment={name: _told(name, value) for name, value in node.environment.items()})
        for node in found.nodes
    )
    return redact_record(replace(found, nodes=nodes))


def _gather(value: Any, named: str, texts: list[str]) -> None:
    """Put all texts of a record into a list; what has a name stands behind it."""
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


def _told(name: str, value: str) -> str:
    """A variable's value; its name may tell that it is a secret. The mark of one, as <secret-0a1b2c3d>, stays."""
    return redact_text(f"{name}={value}").partition("=")[2]


def _read(text: str, where: str) -> Cluster:
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT >> 20} MiB; of hundreds of nodes give fewer at a time")
    begun = text.lstrip("\ufeff \t\r\n")
    data = _json(begun, where) if begun.startswith(("{", "[")) else {"kind": HOST_KIND}
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == HOST_KIND:
        return Cluster(by=_BY_FILES, nodes=(NodeFacts(_name_of(where), inventory=inventories.read(text, where)),))
    if kind not in (KIND, NODE_KIND):
        raise InputError(f'{where}: is no recorded cluster: "kind" is not "{KIND}" or "{NODE_KIND}"; {_WRITE}')
    if data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        raise InputError(f"{where}: has schema {str(data.get('schema'))[:20]}, and {SCHEMA} is read; {_WRITE}")
    told = {name: value for name, value in data.items() if name != "schema" and name not in _DERIVED}
    if kind == NODE_KIND:
        about = {name: told.pop(name) for name in ("constructed", "source", "taken") if name in told}
        inventories.check(Cluster, about, where)
        inventories.check(NodeFacts, told, where)
        found = replace(record(Cluster, about), by=_BY_FILES, nodes=(record(NodeFacts, told),))
    elif "nodes" in told:
        inventories.check(Cluster, told, where)
        found = record(Cluster, told)
    else:
        raise InputError(f"{where}: nodes: is missing; {_WRITE}")
    for node in found.nodes:
        inventories.check_host(node.inventory, f"{where}: {visible(node.name[:60])}")
    _check_links(found, where)
    return found


def _json(text: str, where: str) -> Any:
    try:
        return loaded(text)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({error}); give a recorded cluster as it was written") from None


def _check_links(found: Cluster, where: str) -> None:
    """See that what was measured is between nodes that are there.

    Raises:
        InputError: it names another.
    """
    there = {*_names(found)}
    named = [("head", found.head)] if found.head is not None else []
    named += [("reaches", name) for each in found.reaches or () for name in (each.source, each.target)]
    named += [("collectives", rank.node) for each in found.collectives or () for rank in each.ranks]
    odd = next(((field, name) for field, name in named if name not in there), None)
    if odd is not None:
        raise InputError(f"{where}: {odd[0]}: {visible(odd[1][:60])!r} is no node that is listed; name one that is")


def _names(found: Cluster) -> list[str]:
    return [*(node.name for node in found.nodes), *(each.name for each in found.unread)]


def _check_names(found: Cluster, names: Counter[str], where: str) -> None:
    """See that the nodes have names, and none that is another's."""
    for name in _names(found):
        shown = visible(name[:60])
        if not (0 < len(name) <= _MAX_NAME and name.isprintable()):
            raise InputError(
                f"{where}: {shown!r} is no name of a node; give one of 1 to {_MAX_NAME} signs that can be printed"
            )
        if names[name]:
            raise InputError(f"{where}: {shown}: is a node that was given already; give each under a name of its own")
        names[name] += 1
    if len(names) > MAX_NODES:
        raise InputError(f"{where}: makes more than {MAX_NODES:,} nodes; give fewer at a time")


def _joined(found: Sequence[Cluster]) -> Cluster:
    """Clusters and nodes of several files as one; a collective ran over those of one file, and says nothing of all."""
    reaches = tuple(each for one in found for each in one.reaches or ())
    return Cluster(
        constructed=any(one.constructed or any(node.inventory.constructed for node in one.nodes) for one in found),
        source=f"put together of {len(found)} files",
        by=_BY_FILES,
        head=next((one.head for one in found if one.head is not None), None),
        nodes=tuple(node for one in found for node in one.nodes),
        unread=tuple(each for one in found for each in one.unread),
        reaches=reaches or None,
    )


def _name_of(where: str) -> str:
    """A node's name by that of its file."""
    name = where.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[0] or name
