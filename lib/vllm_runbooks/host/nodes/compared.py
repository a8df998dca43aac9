"""Facts that must be the same on all nodes: their values by node, and the nodes that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vllm_runbooks.host.nodes.records import Difference, FileFacts, NodeFacts
from vllm_runbooks.host.records import SHARED, VLLM_PACKAGES

ABSENT = "not installed"
NO_GPUS = "none"
_SHOWN = 3
_MAX_VALUE = 120
_SECRET = "[secret"  # noqa: S105 - how placeholders begin
_OWN = (
    "VLLM_HOST_IP",
    "VLLM_HOST_PORT",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HOSTNAME",
    "LOCAL_RANK",
    "RANK",
)
"""Variables with a separate value on each node."""
_SILENT = ("VLLM_LOGGING", "VLLM_CONFIGURE_LOGGING", "NCCL_DEBUG", "RAY_DEDUP", "RAY_COLOR")
"""Prefixes of variables that only change the output."""
_BINDING = ("VLLM_", "NCCL_", "GLOO_", "TP_", "UCX_", "TORCH_", "RAY_")
"""Prefixes of variables that must be equal on all ranks."""


@dataclass(frozen=True)
class Fact:
    """A fact of a node in one or a few words."""

    what: str
    of: Callable[[NodeFacts], str | None]
    """Its value; None if unknown."""


def _package(*names: str) -> Callable[[NodeFacts], str | None]:

    def of(node: NodeFacts) -> str | None:
        packages = node.inventory.packages
        if packages is None:
            return None
        return next((packages[name] for name in names if name in packages), ABSENT)

    return of


def _nccl(node: NodeFacts) -> str | None:
    """NCCL's version with the CUDA version of its package name."""
    packages = node.inventory.packages
    if packages is None:
        return None
    return next((packages[name] for name in sorted(packages) if name.startswith("nvidia-nccl")), ABSENT)


def _ray(node: NodeFacts) -> str | None:
    return node.ray or _package("ray")(node)


def _gpus(node: NodeFacts) -> str | None:
    if not node.inventory.gpus:
        return NO_GPUS if node.inventory.no_gpus_reason is not None else None
    kinds = Counter(gpu.name or "unnamed" for gpu in node.inventory.gpus)
    return ", ".join(f"{count} x {name}" for name, count in kinds.items())


def _limit(name: str, unit: str = "") -> Callable[[NodeFacts], str | None]:
    def of(node: NodeFacts) -> str | None:
        value = getattr(node.inventory.host, name)
        return None if value is None else "no limit" if value < 0 else f"{value:,.0f}{unit}"

    return of


def _model(node: NodeFacts) -> str | None:
    if node.model is None:
        return None
    return f"{node.model.path}{'' if node.model.exists else ' (missing)'}"


VLLM = Fact("vLLM", _package(*VLLM_PACKAGES))
TORCH = Fact("torch", _package("torch"))
NCCL = Fact("NCCL", _nccl)
RAY = Fact("Ray", _ray)
PYTHON = Fact("Python", lambda node: node.inventory.python)
TRANSFORMERS = Fact("transformers", _package("transformers"))
DRIVER = Fact("driver", lambda node: node.inventory.driver)
CUDA = Fact("CUDA of the driver", lambda node: node.inventory.cuda)
KERNEL = Fact("kernel", lambda node: node.inventory.host.kernel)
GPUS = Fact("GPUs", _gpus)
SHM = Fact(SHARED, _limit("shm_mib", " MiB"))
MEMLOCK = Fact("locked memory", _limit("memlock_mib", " MiB"))
OPEN_FILES = Fact("open files", _limit("open_files_max"))
MODEL = Fact("model", _model)
FACTS = (
    VLLM, TORCH, NCCL, RAY, PYTHON, TRANSFORMERS, DRIVER, CUDA, KERNEL, GPUS, SHM, MEMLOCK, OPEN_FILES, MODEL,
)  # fmt: skip


def values(fact: Fact, nodes: Sequence[NodeFacts]) -> dict[str, str | None]:
    """The value of a fact by node."""
    return {node.name: fact.of(node) for node in nodes}


def differ(by_node: Mapping[str, str | None]) -> bool:
    """Whether the known values differ."""
    return len({value for value in by_node.values() if value is not None}) > 1


def odd(by_node: Mapping[str, str | None]) -> tuple[str, ...]:
    """Nodes without the most common value, or all known ones if no value is most common."""
    reported = {name: value for name, value in by_node.items() if value is not None}
    ((most, count),) = Counter(reported.values()).most_common(1)
    if count * 2 <= len(reported):
        return tuple(reported)
    return tuple(name for name, value in reported.items() if value != most)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """The values of each key, in order."""
    by_key: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        by_key.setdefault(key, []).append(value)
    return by_key


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first of many."""
    if len(names) <= _SHOWN + 1:
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN:,} more"


def phrase(by_node: Mapping[str, str | None]) -> str:
    """Values in a sentence, each with its nodes, the rarest first."""
    by_value = grouped((value, name) for name, value in by_node.items() if value is not None)
    ranked = sorted(by_value.items(), key=lambda item: len(item[1]))
    more = len(ranked) - _SHOWN - 1
    first = ranked[:_SHOWN] if more > 0 else ranked
    phrases = [f"{value[:_MAX_VALUE]} on {listed(names)}" for value, names in first]
    return "; ".join([*phrases, *([f"{more + 1:,} other values"] if more > 0 else [])])


def variables(nodes: Sequence[NodeFacts]) -> dict[str, dict[str, str | None]]:
    """Variables of the environment that differ between nodes, by name and node."""
    told_by = [node for node in nodes if node.environment is not None]
    names = sorted({name for node in told_by for name in node.environment or {}})
    differing: dict[str, dict[str, str | None]] = {}
    for name in names:
        if name in _OWN or name.endswith("_SOCKET_IFNAME"):
            continue
        by_node = {
            node.name: None if node.environment is None else node.environment.get(name, "not set") for node in nodes
        }
        # A placeholder replaces a secret that is unique to its node.
        if any((value or "").startswith(_SECRET) for value in by_node.values()):
            by_node = {n: "set" if (value or "").startswith(_SECRET) else value for n, value in by_node.items()}
        if differ(by_node):
            differing[name] = by_node
    return differing


def is_binding(name: str) -> bool:
    """Whether the ranks of a server have to agree on a variable."""
    return name.startswith(_BINDING) and not name.startswith(_SILENT)


def differences(nodes: Sequence[NodeFacts], about: frozenset[str]) -> Iterator[Difference]:
    """Facts that differ between nodes; `about` names those with a finding."""
    for fact in FACTS:
        by_node = values(fact, nodes)
        if differ(by_node):
            yield Difference(fact.what, by_node, fact.what in about)
    for name, by_node in variables(nodes).items():
        yield Difference(name, {node: value and value[:_MAX_VALUE] for node, value in by_node.items()}, name in about)


def file_faults(nodes: Sequence[NodeFacts]) -> dict[str, list[str]]:
    """Differences of each node's model files from those of most nodes, else of the first node."""
    files_by_node = {
        node.name: {file.name: file for file in node.model.files}
        for node in nodes
        if node.model is not None and node.model.exists and node.model.files
    }
    faults: dict[str, list[str]] = {}
    for name in sorted({file for files in files_by_node.values() for file in files}):
        forms: list[tuple[FileFacts | None, list[str]]] = []
        for node, files in files_by_node.items():
            mine = files.get(name)
            same = next((nodes for form, nodes in forms if _is_same(form, mine)), None)
            if same is None:
                forms.append((mine, [node]))
            else:
                same.append(node)
        usual = max(forms, key=lambda form_of: len(form_of[1]))
        for form, odd_ones in forms:
            if form is not usual[0]:
                for node in odd_ones:
                    faults.setdefault(node, []).append(f"{name} {_fault(form, usual[0])}")
    return faults


def _is_same(first: FileFacts | None, second: FileFacts | None) -> bool:
    if first is None or second is None:
        return first is second
    hashes = ((first.sha256, second.sha256), (first.sampled_sha256, second.sampled_sha256))
    return first.size == second.size and not any(a is not None and b is not None and a != b for a, b in hashes)


def _fault(mine: FileFacts | None, usual: FileFacts | None) -> str:
    if mine is None:
        return "is missing"
    if usual is None:
        return "exists only there"
    if mine.size != usual.size:
        return f"has {mine.size:,} bytes, {usual.size:,} on the other nodes"
    return "has the same size but different content"
