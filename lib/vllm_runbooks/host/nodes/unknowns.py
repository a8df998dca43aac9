"""Relevant but unknown facts about several nodes: with any of them a check does not pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from vllm_runbooks.host.nodes import compared
from vllm_runbooks.host.nodes.records import BACKENDS, Collective, ModelFacts, NodeFacts, RankState, Unmeasured
from vllm_runbooks.host.nodes.view import ClusterRuleContext
from vllm_runbooks.host.records import SHARED

ABSENT_RANK = "was not there"
"""Suffix of the reason of a rank that waited for another."""
_WITH_TORCH = "name the Python that vLLM runs with (--python)"
_NEEDS: Sequence[tuple[str, Callable[[ClusterRuleContext, NodeFacts], bool]]] = (
    ("the environment", lambda _, node: node.environment is None),
    ("addresses of the interfaces", lambda _, node: node.interfaces is None),
    ("address of the host name", lambda _, node: node.resolves_to is None),
    ("versions of vLLM, torch, NCCL and Ray", lambda _, node: node.inventory.packages is None),
    ("version of Python", lambda _, node: node.inventory.python is None),
    ("GPUs", lambda _, node: compared.GPUS.of(node) is None),
    ("GPU models", lambda _, node: any(not gpu.name and gpu.error is None for gpu in node.inventory.gpus)),
    ("driver", lambda _, node: bool(node.inventory.gpus) and node.inventory.driver is None),
    ("clock offset", lambda _, node: node.clock_offset_s is None),
    (f"size of {SHARED}", lambda _, node: node.inventory.host.shm_mib is None),
    ("limit of locked memory", lambda _, node: _has_rdma(node) and node.inventory.host.memlock_mib is None),
    ("limit of open files", lambda _, node: node.inventory.host.open_files_max is None),
    (
        "largest packet (MTU) of its interface",
        lambda context, node: _is_led(context, node) and context.matrix.mtu(node) is None,
    ),
    (
        "bandwidth of the connections to it",
        lambda context, node: _is_led(context, node) and not any(context.matrix.rates(node.name)),
    ),
)


def _has_rdma(node: NodeFacts) -> bool:
    return node.inventory.host.rdma_devices != 0


def _is_led(context: ClusterRuleContext, node: NodeFacts) -> bool:
    """Whether an address is known at which others reach a node; if not, there is a finding."""
    way = context.matrix.chosen.get(node.name)
    return way is not None and context.matrix.is_reached(node.name, way.address) is True


def unmeasured(context: ClusterRuleContext, *, model: str, has_failed: bool) -> Iterator[Unmeasured]:
    """List relevant unknowns; `has_failed` means that a collective failed."""
    names = tuple(node.name for node in context.nodes)
    if len(names) + len(context.cluster.unread) < 2:
        yield Unmeasured("a second node, without which nothing is compared", names)
    for what, is_unknown in _NEEDS:
        without = tuple(node.name for node in context.nodes if is_unknown(context, node))
        if without:
            yield Unmeasured(what, without)
    if names and all(compared.VLLM.of(node) == compared.ABSENT for node in context.nodes):
        yield Unmeasured("release of vLLM, which the Python that answered does not have: name the servers' own", names)
    yield from _of_model(context, model)
    if len(names) > 1:
        yield from _of_ways(context, names)
        if not has_failed:
            yield from _of_collectives(context, names)


def _of_model(context: ClusterRuleContext, model: str) -> Iterator[Unmeasured]:
    models = {node.name: node.model for node in context.nodes if node.model is not None}
    # Without facts about a model, none was requested.
    expected = [node.name for node in context.nodes] if models or model else []
    blank = tuple(name for name in expected if name not in models or model not in ("", models[name].path))
    if blank:
        yield Unmeasured(f"the model{f' {model}' if model else ''}", blank)
    unread = tuple(name for name, facts in models.items() if facts.exists and not _is_read(facts))
    if unread:
        yield Unmeasured("content of the model's files", unread)


def _is_read(facts: ModelFacts) -> bool:
    return bool(facts.files) and all(file.sha256 or file.sampled_sha256 for file in facts.files)


def _of_ways(context: ClusterRuleContext, names: tuple[str, ...]) -> Iterator[Unmeasured]:
    if context.cluster.connections is None:
        yield Unmeasured("which node reaches which, on the ports of Ray, torch and vLLM", names)
        return
    untried = context.matrix.untried()
    if untried:
        yield Unmeasured("whether every other node reaches it", untried)
    unknown = tuple(name for name in names if name in context.matrix.unknown)
    if unknown:
        yield Unmeasured("whether a port of it is reached", unknown)


def _of_collectives(context: ClusterRuleContext, names: tuple[str, ...]) -> Iterator[Unmeasured]:
    """All-reduces that did not run: Gloo, and NCCL if every node has GPUs."""
    has_cards = all(node.inventory.gpus for node in context.nodes)
    missing: dict[tuple[str, ...], list[str]] = {}
    for backend, called in BACKENDS.items():
        done = _through([run for run in context.cluster.collectives or () if run.backend == backend])
        without = tuple(name for name in names if name not in done)
        if without and (has_cards or backend == "gloo"):
            missing.setdefault(without, []).append(called)
    for without, those in missing.items():
        what = f"whether an all-reduce by {' and '.join(those)} runs across all nodes"
        yield Unmeasured(what, without, _why_not(context, those))


def _why_not(context: ClusterRuleContext, called: Sequence[str]) -> str:
    """Reason why the first missing rank did not start, other than waiting for another rank."""
    runs = [run for run in context.cluster.collectives or () if BACKENDS.get(run.backend) in called]
    ranks = [rank for run in runs for rank in run.ranks]
    lacking = [rank for rank in ranks if rank.state is RankState.NOT_STARTED and not rank.message.endswith(ABSENT_RANK)]
    reason = next((f"{rank.node}: {' '.join(rank.message.split())[:200]}" for rank in lacking if rank.message), "")
    return f"{reason}; {_WITH_TORCH}" if "torch" in reason else reason


def _through(run: Sequence[Collective]) -> frozenset[str]:
    return frozenset(
        rank.node for collective in run for rank in collective.ranks if rank.state is not RankState.NOT_STARTED
    )
