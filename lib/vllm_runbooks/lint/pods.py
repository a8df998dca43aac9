"""Pods and Services of Kubernetes manifests: ports, probes, volumes and resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

from vllm_runbooks.reading.documents import yaml_places
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar

_WORKLOADS = ("CronJob", "DaemonSet", "Deployment", "InferenceService", "Job", "LeaderWorkerSet", "Pod", "ReplicaSet",
              "StatefulSet")  # fmt: skip
"""Kinds whose pods are complete as written."""
_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
"""Kinds that need a selector; without one the manifest is a patch."""
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


_MOST_TEXTS = 500


def number(node: Node | None) -> int | None:
    """A small number; None for anything else."""
    text = node.value if isinstance(node, Scalar) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None


def text_of(node: Node | None) -> list[str]:
    """All keys and values within a node."""
    texts = []
    for _, inner in islice(yaml_places.walk(node), _MOST_TEXTS) if node is not None else ():
        if isinstance(inner, Scalar):
            texts.append(inner.value)
        elif isinstance(inner, yaml_places.Mapping):
            texts += [key.value for key, _ in inner.items()]
    return texts


def _mapping(node: Node | None) -> Mapping[str, Node]:
    return {key.value: value for key, value in node.items()} if isinstance(node, yaml_places.Mapping) else {}


def _word(node: Node | None) -> str:
    return node.value if isinstance(node, Scalar) else ""


@dataclass(frozen=True)
class Probe:
    kind: str
    node: yaml_places.Mapping
    key: Scalar

    @property
    def port(self) -> Scalar | None:
        """Port of the container that it connects to; None if another host's, or unknown."""
        for kind in ("httpGet", "tcpSocket", "grpc"):
            action = self.node.get(kind)
            port = yaml_places.at(action, "port")
            if isinstance(port, Scalar) and not port.has_template and yaml_places.at(action, "host") is None:
                return port if _is_port(port.value) else None
        return None

    @property
    def command(self) -> Node | None:
        return yaml_places.at(self.node, "exec", "command")

    @property
    def allowed_seconds(self) -> int | None:
        """Seconds after which the container is restarted if it does not answer."""
        defaults = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}
        values = {}
        for key, default in defaults.items():
            node = self.node.get(key)
            values[key] = default if node is None else number(node)
        delay, period, failures = values.values()
        if delay is None or period is None or failures is None or len(self.node.pairs) > len(self.node.items()):
            return None
        return delay + (period or 10) * (failures or 3)

    @property
    def place(self) -> tuple[int, int]:
        for key in ("failureThreshold", "periodSeconds"):
            if (node := self.node.get(key)) is not None:
                return node.start, node.end
        return self.key.start, self.key.end


def _is_port(text: str) -> bool:
    """Whether a text is a number or the name of a port, rather than a placeholder."""
    return text.replace("-", "").isalnum()


@dataclass(frozen=True)
class PodContainer:
    node: yaml_places.Mapping
    pod: yaml_places.Mapping

    @cached_property
    def ports(self) -> Mapping[str, Scalar]:
        """Ports by name."""
        named = ((_word(yaml_places.at(port, "name")), yaml_places.at(port, "containerPort")) for port in self._ports)
        return {name: port for name, port in named if name and isinstance(port, Scalar)}

    @property
    def _ports(self) -> list[Node]:
        return yaml_places.items(self.node.get("ports"))

    @property
    def has_known_ports(self) -> bool:
        """Whether every port is written out."""
        listed = self.node.get("ports")
        if listed is not None and not isinstance(listed, yaml_places.Sequence):
            return False
        return not any("\u2983" in text or "$" in text for text in text_of(listed))

    def resolved(self, port: Scalar) -> tuple[Scalar, int | None]:
        """A port's number and its place; None for a name without a port."""
        asked = number(port)
        if asked is not None:
            return port, asked
        place = self.ports.get(port.value)
        return (place, number(place)) if place is not None else (port, None)

    @property
    def probes(self) -> Iterator[Probe]:
        for key, value in self.node.items():
            if key.value in _PROBES and isinstance(value, yaml_places.Mapping):
                yield Probe(key.value, value, key)

    @property
    def has_gpus(self) -> bool:
        """Whether it requests a device, or its resources are unknown."""
        resources = self.node.get("resources")
        if resources is None:
            return False
        if not isinstance(resources, yaml_places.Mapping) or resources.get("claims") is not None:
            return True
        for part in ("limits", "requests"):
            node = resources.get(part)
            if isinstance(node, Scalar) and node.value not in ("", "~", "null"):
                return True
            if any("/" in name or not name.isascii() for name in _mapping(node)):
                return True
        return False

    @property
    def mounts(self) -> list[str]:
        return [_word(yaml_places.at(mount, "mountPath")) for mount in yaml_places.items(self.node.get("volumeMounts"))]

    @property
    def writable_mounts(self) -> Iterator[tuple[str, str]]:
        """Volume and path of each mount that is not read-only."""
        for mount in yaml_places.items(self.node.get("volumeMounts")):
            if _word(yaml_places.at(mount, "readOnly")) != "true" and yaml_places.at(mount, "subPath") is None:
                yield _word(yaml_places.at(mount, "name")), _word(yaml_places.at(mount, "mountPath"))

    @property
    def user(self) -> str:
        """User ID of the process; empty if unknown."""
        for owner in (self.node, self.pod):
            user = _word(yaml_places.at(owner, "securityContext", "runAsUser"))
            if user:
                return user if user.isdecimal() else ""
        return ""

    @property
    def is_not_root(self) -> bool:
        return self.user not in ("", "0")


@dataclass(frozen=True)
class Pod:
    node: yaml_places.Mapping
    template: yaml_places.Mapping
    """The mapping with its metadata."""
    root: Node

    @cached_property
    def containers(self) -> list[PodContainer]:
        listed = yaml_places.items(self.node.get("containers"))
        return [PodContainer(item, self.node) for item in listed if isinstance(item, yaml_places.Mapping)]

    def container_at(self, offset: int) -> PodContainer | None:
        return next((item for item in self.containers if item.node.start <= offset <= item.node.end), None)

    @property
    def labels(self) -> Mapping[str, str]:
        labels = _mapping(yaml_places.at(self.template, "metadata", "labels"))
        return {name: value.value for name, value in labels.items() if isinstance(value, Scalar)}

    @property
    def is_complete(self) -> bool:
        """Whether nothing is merged into it before it runs."""
        kind = _word(yaml_places.at(self.root, "kind"))
        if kind in _SELECTING and yaml_places.at(self.root, "spec", "selector") is None:
            return False
        return kind in _WORKLOADS and yaml_places.at(self.root, "apiVersion") is not None

    @property
    def has_others(self) -> bool:
        """Whether other containers run next to the first, which may listen on ports."""
        beside = yaml_places.items(self.node.get("initContainers"))
        return len(self.containers) > 1 or any(_word(yaml_places.at(item, "restartPolicy")) for item in beside)

    @property
    def has_init(self) -> bool:
        return bool(yaml_places.items(self.node.get("initContainers")))

    @property
    def has_gpus(self) -> bool:
        """Whether something other than a container's resources may give it GPUs."""
        marks = [*text_of(yaml_places.at(self.template, "metadata", "annotations"))]
        marks += text_of(yaml_places.at(self.template, "metadata", "labels"))
        gives = ("runtimeClassName", "resourceClaims", "resources", "schedulerName")
        return any(self.node.get(key) is not None for key in gives) or any("gpu" in text.lower() for text in marks)

    @property
    def shares_ipc(self) -> bool:
        return self.node.get("hostIPC") is not None

    @property
    def has_known_ports(self) -> bool:
        return all(container.has_known_ports for container in self.containers) and not self.has_init

    def resolved(self, port: Scalar) -> tuple[Scalar, int | None]:
        """As for a container, for the ports of all."""
        found = [container.resolved(port) for container in self.containers]
        return next((pair for pair in found if pair[1] is not None), (port, number(port)))

    def created_folder(self, volume: str) -> Node | None:
        """The host's folder of a volume, if kubelet creates it, owned by root."""
        for item in yaml_places.items(self.node.get("volumes")):
            path = yaml_places.at(item, "hostPath")
            if _word(yaml_places.at(item, "name")) == volume and path is not None:
                return path if _word(yaml_places.at(path, "type")) == "DirectoryOrCreate" else None
        return None


@lru_cache(maxsize=16)
def pods_of(root: Node) -> list[Pod]:
    """Pods of a document, with the mappings around them."""
    pods: dict[int, Pod] = {}
    for _, node in yaml_places.walk(root):
        if not isinstance(node, yaml_places.Mapping):
            continue
        inner = node.get("spec")
        if isinstance(inner, yaml_places.Mapping) and isinstance(inner.get("containers"), yaml_places.Sequence):
            pods[id(inner)] = Pod(inner, node, root)
        elif isinstance(node.get("containers"), yaml_places.Sequence):
            pods.setdefault(id(node), Pod(node, node, root))
    return list(pods.values())


@dataclass(frozen=True)
class PodService:
    selector: Mapping[str, str]
    ports: Sequence[Scalar]
    """Ports of the pod that it forwards to."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return bool(self.selector) and self.selector.items() <= labels.items()


@lru_cache(maxsize=4)
def services_of(roots: Sequence[Node]) -> list[PodService]:
    """Services with a selector and an address of their own."""
    services = []
    for root in roots:
        kind, spec = yaml_places.at(root, "kind"), yaml_places.at(root, "spec")
        if _word(kind) != "Service" or _word(yaml_places.at(spec, "clusterIP")) == "None":
            continue
        selector = _mapping(yaml_places.at(spec, "selector"))
        texts = {name: value.value for name, value in selector.items() if isinstance(value, Scalar)}
        targets = []
        for port in yaml_places.items(yaml_places.at(spec, "ports")):
            target = yaml_places.at(port, "targetPort") or yaml_places.at(port, "port")
            if isinstance(target, Scalar) and _is_port(target.value):
                targets.append(target)
        if len(texts) == len(selector) and targets:
            services.append(PodService(texts, targets))
    return services
