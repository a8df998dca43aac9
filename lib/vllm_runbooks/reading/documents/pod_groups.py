"""Pods that serve one model together: the groups of LeaderWorkerSet, and of KubeRay's clusters."""

from __future__ import annotations

import math
import re

from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar

_MAX_GROUPS = 50
_GROUPS = ("leaderWorkerTemplate", "headGroupSpec")
"""Keys of a group of pods, in their mapping or next to their pods."""
SEVERAL_HOSTS = re.compile(
    r"\bray[ \t]+(?:start|symmetric-run)\b|RAY_START_CMD|run_cluster\.sh|multi-node-serving|\bLWS_|leaderWorkerTemplate"
    r"|headGroupSpec|workerGroupSpecs|--nnodes|--node[-_]rank|--data-parallel-(?:address|start-rank)|--headless"
    r"|\bmultinode\b|^#SBATCH[ \t]+(?:-N|--nodes)[ =](?!1\b)|\bsrun\b[^\n]{0,200}[ \t](?:-N|--nodes)[ =](?!1\b)"
    r"|\b(?:kind|apiVersion):[ \t]*[\"']?"
    r"(?:MPIJob|PyTorchJob|RayCluster|RayService|RayJob|LeaderWorkerSet|batch\.volcano)",
    re.MULTILINE,
)
"""Text of a file that joins several hosts or pods."""


def gpus_of_groups(root: Node) -> dict[int, int | None]:
    """GPUs of the group of each mapping that is in one, by the node's id; None if unknown."""
    totals: dict[int, int | None] = {}
    left = _MAX_GROUPS
    for _, node in yaml_places.walk(root):
        if not isinstance(node, yaml_places.Mapping) or not any(node.get(key) is not None for key in _GROUPS):
            continue
        if not left:
            break
        left -= 1
        total = _of_leader(node.get("leaderWorkerTemplate")) if node.get("leaderWorkerTemplate") else _of_ray(node)
        totals |= {id(inner): total for _, inner in yaml_places.walk(node) if isinstance(inner, yaml_places.Mapping)}
    return totals


def _of_leader(template: Node | None) -> int | None:
    size = _number(template, "size", 1)
    worker = _of_pods(yaml_places.at(template, "workerTemplate"))
    leader = (
        _of_pods(yaml_places.at(template, "leaderTemplate"))
        if yaml_places.at(template, "leaderTemplate") is not None
        else worker
    )
    return None if size is None or leader is None or worker is None else leader + (size - 1) * worker


def _of_ray(cluster: Node) -> int | None:
    groups = yaml_places.at(cluster, "workerGroupSpecs")
    head = _of_pods(yaml_places.at(cluster, "headGroupSpec", "template"))
    counts = [head or 0]  # a head may have no GPUs
    for group in groups.items if isinstance(groups, yaml_places.Sequence) else []:
        pods, hosts = _of_pods(yaml_places.at(group, "template")), _number(group, "numOfHosts", 1)
        replicas = [_number(group, key, 0) for key in ("replicas", "maxReplicas")]
        if pods is None or hosts is None or None in replicas:
            return None
        most = max(count or 0 for count in replicas) or 1
        counts.append(math.prod((pods, hosts, most)))
    return sum(counts) or None


def _of_pods(template: Node | None) -> int | None:
    """GPUs of a pod's containers; None if unknown."""
    containers = yaml_places.at(template, "spec", "containers")
    if not isinstance(containers, yaml_places.Sequence):
        return None
    total = 0
    for container in containers.items:
        for part in ("limits", "requests"):
            resources = yaml_places.at(container, "resources", part)
            pairs = resources.items() if isinstance(resources, yaml_places.Mapping) else []
            values = [value for key, value in pairs if key.value.endswith("/gpu")]
            if not values:
                continue
            if not isinstance(values[0], Scalar) or not values[0].value.isdecimal() or len(values[0].value) > 4:
                return None
            total += int(values[0].value)
            break
    return total or None


def _number(node: Node | None, key: str, default: int) -> int | None:
    value = yaml_places.at(node, key)
    if value is None:
        return default
    return int(value.value) if isinstance(value, Scalar) and re.fullmatch(r"\d{1,5}", value.value, re.ASCII) else None
