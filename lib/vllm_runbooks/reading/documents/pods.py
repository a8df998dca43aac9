"""Pods, their Services and their groups in Kubernetes manifests: ports, probes, volumes and resources."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar

_WORKLOADS = ("CronJob", "DaemonSet", "Deployment", "InferenceService", "Job", "LeaderWorkerSet", "Pod", "ReplicaSet",
              "StatefulSet")  # fmt: skip
"""Kinds whose pods are complete as written."""
_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
"""Kinds that need a selector; without one the manifest is a patch."""
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_MOST_TEXTS = 500
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


def number(node: Node | None, default: int | None = None) -> int | None:
    """Number with at most six digits; None for any other text, `default` without a node."""
    text = node.value if isinstance(node, Scalar) else ""
    return default if node is None else int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else None


def text_of(node: Node | None) -> list[str]:
    """All keys and values within a node."""
    texts = []
    for _, inner in islice(yaml_places.walk(node), _MOST_TEXTS) if node is not None else ():
        if isinstance(inner, Scalar):
            texts.append(inner.value)
        elif isinstance(inner, yaml_places.Mapping):
            texts += [key.value for key, _ in inner.items()]
    return texts


def _word(node: Node | None, *path: str) -> str:
    node = yaml_places.at(node, *path)
    return node.value if isinstance(node, Scalar) else ""


def _words(node: Node | None) -> Mapping[str, str]:
    """The pairs of a mapping whose value is a scalar."""
    return {key.value: value.value for key, value in yaml_places.pairs(node) if isinstance(value, Scalar)}


def _is_port(node: Node | None) -> bool:
    """Whether a node is a number or the name of a port, rather than a placeholder."""
    return isinstance(node, Scalar) and node.value.replace("-", "").isalnum()


class Probe(NamedTuple):
    """A health check of a container."""

    kind: str
    command: Node | None
    port: Scalar | None
    """Port of the container that it connects to; None if another host's, or unknown."""
    allowed_seconds: int | None
    """Seconds after which the container is restarted if it does not answer."""
    start: int
    """Offsets of the setting that determines `allowed_seconds`."""
    end: int


def _probe(key: Scalar, node: yaml_places.Mapping) -> Probe:
    port: Node | None = None
    for kind in ("httpGet", "tcpSocket", "grpc"):
        action = node.get(kind)
        listed = yaml_places.at(action, "port")
        if isinstance(listed, Scalar) and not listed.has_template and yaml_places.at(action, "host") is None:
            port = listed
            break
    delay = number(node.get("initialDelaySeconds"), 0)
    period, failures = number(node.get("periodSeconds"), 10), number(node.get("failureThreshold"), 3)
    is_known = None not in (delay, period, failures) and len(node.pairs) == len(node.items())
    place = node.get("failureThreshold") or node.get("periodSeconds") or key
    return Probe(
        key.value,
        yaml_places.at(node, "exec", "command"),
        port if isinstance(port, Scalar) and _is_port(port) else None,
        (delay or 0) + (period or 10) * (failures or 3) if is_known else None,
        place.start,
        place.end,
    )


@dataclass(frozen=True)
class PodContainer:
    """Container of a pod."""

    node: yaml_places.Mapping
    pod: Pod

    @cached_property
    def ports(self) -> Mapping[str, Scalar]:
        """Ports by name."""
        listed = ((_word(port, "name"), yaml_places.at(port, "containerPort")) for port in self._items("ports"))
        return {name: port for name, port in listed if name and isinstance(port, Scalar)}

    def _items(self, key: str) -> list[Node]:
        return yaml_places.items(self.node.get(key))

    @property
    def has_known_ports(self) -> bool:
        """Whether every port is written out."""
        listed = self.node.get("ports")
        if listed is not None and not isinstance(listed, yaml_places.Sequence):
            return False
        return not any("$" in text or HOLE in text for text in text_of(listed))

    def resolved(self, port: Scalar) -> tuple[Scalar, int | None]:
        """A port's number and its place; None for a name without a port."""
        place = port if number(port) is not None else self.ports.get(port.value, port)
        return place, number(place)

    @property
    def probes(self) -> list[Probe]:
        pairs = [(key, value) for key, value in self.node.items() if key.value in _PROBES]
        return [_probe(key, value) for key, value in pairs if isinstance(value, yaml_places.Mapping)]

    @property
    def has_gpus(self) -> bool:
        """Whether it requests a device, or its resources are unknown."""
        resources = self.node.get("resources")
        if resources is None:
            return False
        if not isinstance(resources, yaml_places.Mapping) or resources.get("claims") is not None:
            return True
        for part in map(resources.get, ("limits", "requests")):
            if isinstance(part, Scalar) and yaml_places.scalars(part):
                return True
            if any("/" in key.value or not key.value.isascii() for key, _ in yaml_places.pairs(part)):
                return True
        return False

    @property
    def mounts(self) -> list[str]:
        return [_word(mount, "mountPath") for mount in self._items("volumeMounts")]

    @property
    def created_folders(self) -> Iterator[tuple[str, Node]]:
        """Writable mounts of folders of the host that kubelet creates, owned by root: the path, and where it is set."""
        folders = {_word(item, "name"): yaml_places.at(item, "hostPath") for item in self.pod.items("volumes")}
        for mount in self._items("volumeMounts"):
            folder = folders.get(_word(mount, "name"))
            is_whole = _word(mount, "readOnly") != "true" and yaml_places.at(mount, "subPath") is None
            if folder is not None and is_whole and _word(folder, "type") == "DirectoryOrCreate":
                yield _word(mount, "mountPath").rstrip("/"), folder

    @property
    def user(self) -> str:
        """User ID of the process; empty if unknown."""
        users = [_word(owner, "securityContext", "runAsUser") for owner in (self.node, self.pod.node)]
        user = next(filter(None, users), "")
        return user if user.isdecimal() else ""


@dataclass(frozen=True)
class Pod:
    node: yaml_places.Mapping
    template: yaml_places.Mapping
    """The mapping with its metadata."""
    is_complete: bool
    """Whether the manifest is complete, not a patch or a template."""

    def items(self, key: str) -> list[Node]:
        return yaml_places.items(self.node.get(key))

    @cached_property
    def containers(self) -> list[PodContainer]:
        return [PodContainer(item, self) for item in self.items("containers") if isinstance(item, yaml_places.Mapping)]

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return _words(yaml_places.at(self.template, "metadata", "labels"))

    @property
    def has_others(self) -> bool:
        """Whether other containers run next to the first, which may listen on ports."""
        return len(self.containers) > 1 or any(_word(item, "restartPolicy") for item in self.items("initContainers"))

    @property
    def has_init(self) -> bool:
        return bool(self.items("initContainers"))

    @property
    def has_gpus(self) -> bool:
        """Whether the pod may get GPUs other than by its containers' resources."""
        metadata = yaml_places.at(self.template, "metadata")
        marks = [text for key in ("annotations", "labels") for text in text_of(yaml_places.at(metadata, key))]
        gives = ("runtimeClassName", "resourceClaims", "resources", "schedulerName")
        return any(self.node.get(key) is not None for key in gives) or any("gpu" in text.lower() for text in marks)

    @property
    def has_known_ports(self) -> bool:
        return all(container.has_known_ports for container in self.containers) and not self.has_init

    def resolved(self, port: Scalar) -> tuple[Scalar, int | None]:
        """Resolve a port against the ports of all containers."""
        found = [container.resolved(port) for container in self.containers]
        return next((pair for pair in found if pair[1] is not None), (port, number(port)))


def containers_of(root: Node, *, is_template: bool) -> dict[int, PodContainer]:
    """The containers of the pods of a document, by the node's id."""
    pods: dict[int, Pod] = {}
    kind = _word(root, "kind")
    is_complete = kind in _WORKLOADS and yaml_places.at(root, "apiVersion") is not None and not is_template
    is_complete = is_complete and not (kind in _SELECTING and yaml_places.at(root, "spec", "selector") is None)
    for _, node in yaml_places.walk(root):
        if not isinstance(node, yaml_places.Mapping):
            continue
        inner = node.get("spec")
        if isinstance(inner, yaml_places.Mapping) and isinstance(inner.get("containers"), yaml_places.Sequence):
            pods[id(inner)] = Pod(inner, node, is_complete)
        elif isinstance(node.get("containers"), yaml_places.Sequence):
            pods.setdefault(id(node), Pod(node, node, is_complete))
    return {id(container.node): container for pod in pods.values() for container in pod.containers}


class PodService(NamedTuple):
    """A Service with a selector and a cluster IP."""

    selector: Mapping[str, str]
    ports: Sequence[Scalar]
    """Ports of the pod that it forwards to."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return bool(self.selector) and self.selector.items() <= labels.items()


def service_of(root: Node) -> PodService | None:
    """The Service that a document is; None for any other."""
    spec = yaml_places.at(root, "spec")
    if _word(root, "kind") != "Service" or _word(spec, "clusterIP") == "None":
        return None
    selector = yaml_places.at(spec, "selector")
    listed = yaml_places.items(yaml_places.at(spec, "ports"))
    targets = [yaml_places.at(port, "targetPort") or yaml_places.at(port, "port") for port in listed]
    ports = [target for target in targets if isinstance(target, Scalar) and _is_port(target)]
    is_known = isinstance(selector, yaml_places.Mapping) and len(_words(selector)) == len(selector.items())
    return PodService(_words(selector), ports) if is_known and ports else None


# Groups that serve one model together: of LeaderWorkerSet, and of KubeRay's clusters


def gpus_of_groups(root: Node) -> dict[int, int | None]:
    """GPUs of the group of each mapping that is in one, by the node's id; None if unknown."""
    totals: dict[int, int | None] = {}
    mappings = (node for _, node in yaml_places.walk(root) if isinstance(node, yaml_places.Mapping))
    groups = (node for node in mappings if any(node.get(key) is not None for key in _GROUPS))
    for node in islice(groups, _MAX_GROUPS):
        template = node.get("leaderWorkerTemplate")
        total = _of_leader(template) if template is not None else _of_ray(node)
        totals |= {id(inner): total for _, inner in yaml_places.walk(node) if isinstance(inner, yaml_places.Mapping)}
    return totals


def _of_leader(template: Node) -> int | None:
    size, worker = number(yaml_places.at(template, "size"), 1), _of_pods(yaml_places.at(template, "workerTemplate"))
    first = yaml_places.at(template, "leaderTemplate")
    leader = _of_pods(first) if first is not None else worker
    return None if size is None or leader is None or worker is None else leader + (size - 1) * worker


def _of_ray(cluster: Node) -> int | None:
    counts = [_of_member(yaml_places.at(cluster, "headGroupSpec")) or 0]  # a head may have no GPUs
    for group in yaml_places.items(yaml_places.at(cluster, "workerGroupSpecs")):
        pods, hosts = _of_member(group), number(yaml_places.at(group, "numOfHosts"), 1)
        replicas = [number(yaml_places.at(group, key), 0) for key in ("replicas", "maxReplicas")]
        if pods is None or hosts is None or None in replicas:
            return None
        counts.append(math.prod((pods, hosts, max(count or 0 for count in replicas) or 1)))
    return sum(counts) or None


def _of_member(group: Node | None) -> int | None:
    """GPUs that a member of a Ray cluster offers: those of its pod, unless its parameters set their number."""
    offered = yaml_places.at(group, "rayStartParams", "num-gpus")
    return number(offered) if offered is not None else _of_pods(yaml_places.at(group, "template"))


def _of_pods(template: Node | None) -> int | None:
    """GPUs of a pod's containers; None if unknown."""
    total = 0
    for container in yaml_places.items(yaml_places.at(template, "spec", "containers")):
        limit = gpu_limit(yaml_places.at(container, "resources"))
        if limit is not None and number(limit) is None:
            return None
        total += number(limit) or 0
    return total or None


def gpu_limit(resources: Node | None) -> Scalar | None:
    """The number of GPUs that a container's resources limit or request; None if they have none."""
    for part in ("limits", "requests"):
        named = yaml_places.at(resources, part)
        for key, value in yaml_places.pairs(named):
            if key.value.endswith("/gpu") and isinstance(value, Scalar):
                return value
    return None
