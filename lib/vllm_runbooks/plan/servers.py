"""Servers of a layout: the GPUs and the launch command of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.plan import fleet
from vllm_runbooks.plan.records import PlannedDeployment
from vllm_runbooks.plan.requests import SIZES, NodePlace, PlanningRequest, numbers_of, sizes_of
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.weights import Ranks
from vllm_runbooks.reading import deployment


def hosts(request: PlanningRequest, count: int) -> tuple[fleet.Host, ...]:
    """The hosts of the first GPUs, each GPU by its number there."""
    by_node: dict[str | None, list[str]] = {}
    numbers = map(str, numbers_of(request))
    for node, same in groupby(request.cards[:count], attrgetter("node")):
        by_node.setdefault(node, []).extend(map(itemgetter(1), zip(same, numbers, strict=False)))
    places = {node: request.places.get(node or "", NodePlace()) for node in by_node}
    return tuple(
        fleet.Host(tuple(devices), node, places[node].address, places[node].environment)
        for node, devices in by_node.items()
    )


def parts(
    request: PlanningRequest,
    ranks: Ranks,
    replicas: int,
    first_port: int = fleet.FIRST_PORT,
    *,
    most: int | None = None,
) -> tuple[fleet.InstancePart, ...]:
    """The servers of a layout, on the first GPUs; at most the first `most` of them.

    Raises:
        InputError: The release has no option for it.
    """
    has_several = replicas > 1
    if most is not None and len(set(map(attrgetter("node"), request.cards))) == 1:
        replicas = min(replicas, most)  # on one host, the others change nothing
    made = fleet.instances(
        request.model.name,
        request.data,
        hosts(request, replicas * ranks.cards),
        replicas=replicas,
        split=split_of(ranks),
        flags=_without_sizes(request.options),
        environment=request.environment,
        first_port=first_port,
        master_port=request.master_port,
        by_ray=bool(request.by_ray),
        most=most,
    )
    if request.cards[0].gpu.vendor != "cpu":
        return made
    return tuple(_on_nodes(part, is_bound=has_several) for part in made)


def _on_nodes(part: fleet.InstancePart, *, is_bound: bool) -> fleet.InstancePart:
    """The part on a CPU: bound to the NUMA nodes that its GPUs stand for, if others have servers too."""
    order, chosen = fleet.CHOOSES_GPUS
    renamed = ((_MEMORY_NODES if name == chosen else name, value) for name, value in part.deployment.environment)
    kept = tuple(pair for pair in renamed if pair[0] != order and (is_bound or pair[0] != _MEMORY_NODES))
    return replace(part, deployment=replace(part.deployment, environment=kept))


_MEMORY_NODES = "CPU_VISIBLE_MEMORY_NODES"
"""NUMA nodes that a server on a CPU uses: utils/cpu_resource_utils.py (0.20.2 :14, 0.33.0 :17)."""


def split_of(ranks: Ranks) -> fleet.ParallelSizes:
    """Split of one replica, as sizes of a deployment."""
    return fleet.ParallelSizes(ranks.tensor, ranks.pipeline, ranks.data, ranks.prefill)


def _without_sizes(options: Mapping[str, Any]) -> dict[str, Any]:
    return {dest: value for dest, value in options.items() if dest not in SIZES.values()}


def deployment_of(request: PlanningRequest, settled: LaunchSettings, replicas: int) -> PlannedDeployment | None:
    """Launch of the first instance; None if this release has no option for it."""
    try:
        first = parts(request, settled.ranks, replicas, most=1)
    except InputError:
        return None  # `plan` rejects given sizes; the reasons of a layout report it
    sizes = {dest: size for dest, size in sizes_of(settled.ranks).items() if size > 1}
    return PlannedDeployment(
        request.model.name,
        {dest: _open(dest, value) for dest, value in {**_without_sizes(request.options), **sizes}.items()},
        {
            name: None if value and deployment.is_secret(name, value) else value
            for name, value in first[0].deployment.environment
        },
        fleet.shown(first),
    )


def _open(dest: str, value: Any) -> Any:
    if isinstance(value, str):
        return redact.redact_value(value) if deployment.is_secret(dest, value) else value
    return [_open(dest, item) for item in value] if isinstance(value, (list, tuple)) else value
