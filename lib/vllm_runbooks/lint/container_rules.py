"""Rules about the container of a launch: its GPUs, shared memory, ports and health checks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from vllm_runbooks.catalog.options import SERVERS
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.meaning import LaunchFacts
from vllm_runbooks.lint.pods import Pod, PodContainer, number, pods_of, services_of, text_of
from vllm_runbooks.reading import deployment
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.documents import LaunchFile, images, launchers, yaml_places
from vllm_runbooks.reading.documents.starts import WrittenLaunch
from vllm_runbooks.reading.documents.yaml_places import Node, Scalar

_SHARED = "/dev/shm"  # noqa: S108 - compared, not opened
_GPU_OPTIONS = frozenset(("--gpus", "--device", "--runtime", "--privileged", "--pod", "--cdi-spec-dir"))
_MEMORY_OPTIONS = frozenset(("--shm-size", "--pod"))
_MOUNT_OPTIONS = frozenset(("-v", "--volume", "--mount", "--tmpfs"))
_USES_RUNTIME = frozenset(("docker", "podman", "nerdctl"))
_MAPPING = re.compile(
    r"(?:(?:\[[0-9a-fA-F:.]{2,45}\]|[\d.]{7,15}):)?(?:(\d{0,5}):)?(\d{1,5})(?:/(\w{1,5}))?\Z", re.ASCII
)
"""`[[IP:]HOST:]CONTAINER[/PROTOCOL]` of one port."""
_ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d{1,5})(?!\d)", re.ASCII)
_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)(us|ms|h|m|s)", re.ASCII)
_SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001, "us": 0.000001}
_RAY_PORTS = (6379, 8265, 10001, 52365)
_LEAST_LOAD, _LEAST_COMPILATION = 30, 30
"""Seconds that vLLM needs at least before it serves: imports and engine; compilation and CUDA graphs."""
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)[bB](?![a-zA-Z])", re.ASCII)
_BYTES = ((r"awq|gptq|int4|4bit|fp4|w4|gguf|bnb", 0.5), (r"fp8|int8|w8|8bit|gpt-oss", 1.0))
"""Bytes per weight that a model's name or quantization shows; a low estimate, two without."""
_READ_PER_SECOND = 1e9
"""Bytes that a disk reads per second: a fast one of a cloud instance."""


class Published(NamedTuple):
    """A port mapping: the host's port (None: any), the container's, and its offsets."""

    host: int | None
    inside: int
    start: int
    end: int


@dataclass(frozen=True)
class Container:
    """Facts of a container; None if unknown."""

    has_gpus: bool | None = None
    shares_memory: bool | None = None
    published: Sequence[Published] | None = None
    remedy: str = ""
    """How this form enlarges the shared memory."""
    gpus: str = ""
    """How this form gives a container GPUs."""


@dataclass(frozen=True)
class ContainerLaunch:
    page: LaunchFile
    launch: WrittenLaunch
    parsed: Parsed
    facts: LaunchFacts
    roots: Sequence[Node] = field(default_factory=tuple)

    @property
    def port(self) -> int | None:
        """Port on which vLLM listens; None if unknown, or if other programs may listen, too."""
        facts = self.facts
        if self.launch.entry not in SERVERS or facts.is_elided or {"uds", "headless"} & facts.flags.keys():
            return None
        if self.launch.invocation is not None and self.launch.invocation.is_background:
            return None
        if facts.unknown or any(word.value is None for word in self.launch.words):
            value = facts.flags.get("port")  # an unknown word may be any option
        else:
            value = facts.flags.get("port", facts.defaults.get("port"))
        return value if type(value) is int and 0 < value < 1 << 16 else None

    @property
    def is_split(self) -> bool:
        """Whether several processes of a container share the model."""
        sizes = [self.facts.size(name) for name in ("tensor_parallel_size", "pipeline_parallel_size")]
        return any(size is not None and size > 1 for size in sizes)

    @property
    def is_on_gpus(self) -> bool:
        """Whether the launch certainly runs on GPUs."""
        if self.facts.flags.get("device", "auto") not in ("auto", "cuda"):
            return False
        image = self.launch.image.value if self.launch.image is not None else None
        return images.is_for_gpus(image) or (self.is_split and image is not None and "cpu" not in image)

    def mentions(self, port: int, *spans: tuple[int, int]) -> bool:
        """Whether the command or the environment names a port, on which another program may listen."""
        number = re.compile(rf"(?<!\d){port}(?!\d)", re.ASCII)
        text = self.page.text
        if any(number.search(text, start, end) for start, end in spans):
            return True
        words = (*self.launch.prefix, *self.launch.words)
        is_ray = port in _RAY_PORTS and any("ray" in word.raw for word in words)
        return is_ray or any(number.search(setting.value.raw) for setting in self.launch.environment.values())

    def option(self, *names: str) -> tuple[int, int]:
        """Offsets of the first of some options, else of the launch."""
        for name in names:
            if places := self.parsed.places.get(name):
                index = places[-1]
                last = self.launch.words[deployment.behind(self.parsed, index) - 1]
                return self.launch.words[index].start, last.end
        return self.launch.start, self.launch.end

    @property
    def least_seconds(self) -> int:
        """Seconds that vLLM needs at least until it serves."""
        name = self.facts.name or ""
        described = f"{name} {self.facts.word('quantization') or ''}".lower()
        size = _SIZE.search(name.replace("-", " ").replace("_", " "))
        weight = next((count for pattern, count in _BYTES if re.search(pattern, described)), 2.0)
        reading = float(size[1]) * 1e9 * weight / _READ_PER_SECOND if size else 0
        if self.facts.flags.get("load_format") == "dummy":
            reading = 0
        return int(_LEAST_LOAD + (0 if self.facts.is_on("enforce_eager") else _LEAST_COMPILATION) + reading)


def of_launch(page: LaunchFile, launch: WrittenLaunch, parsed: Parsed, facts: LaunchFacts) -> Iterator[Hit]:
    """Check the container that a launch runs in."""
    item = ContainerLaunch(page, launch, parsed, facts, page.manifests)
    if launch.kind == "compose":
        yield from _of_service(item)
    elif launch.kind == "kubernetes":
        yield from _of_pod(item)
    elif page.kind == "shell" and not launch.container and facts.visible is None:
        yield from _of_job(item)
    elif _is_run(launch):
        yield from _of_container(item, _container_of_options(launch))


_DIRECTIVE = re.compile(r"^#SBATCH[ \t]+(--?[a-zA-Z-]{1,30})[= \t][ \t]*([\w:.,-]{1,80})", re.MULTILINE | re.ASCII)
_GPUS_OF_JOB = ("--gres", "--gpus-per-node", "--gpus", "-G")
_NODES_OF_JOB = ("--nodes", "-N")
_STEP_OPTIONS = (*_GPUS_OF_JOB, "--gpus-per-task", "--gres-flags", "--het-group")


@lru_cache(maxsize=4)
def _directives(text: str) -> Mapping[str, str]:
    return {match[1]: match[2] for match in _DIRECTIVE.finditer(text)}


def _of_job(item: ContainerLaunch) -> Iterator[Hit]:
    """A Slurm job on one node with fewer GPUs than the launch needs."""
    text, directives = item.page.text, _directives(item.page.text)
    nodes = next((directives[name] for name in _NODES_OF_JOB if name in directives), "1")
    given = [(name, directives[name]) for name in _GPUS_OF_JOB if name in directives]
    words = {(word.value or word.raw).partition("=")[0] for word in item.launch.prefix}
    if nodes != "1" or len(given) != 1 or not words.isdisjoint(_STEP_OPTIONS) or "hetjob" in text:
        return
    kind, _, count = given[0][1].rpartition(":")
    sizes = [item.facts.size(name) for name in ("tensor_parallel_size", "pipeline_parallel_size")]
    is_local = item.facts.flags.get("device", "auto") in ("auto", "cuda") and "nnodes" not in item.facts.flags
    if not count.isdecimal() or (given[0][0] == "--gres" and kind.partition(":")[0] != "gpu") or None in sizes:
        return
    needed = math.prod(size or 1 for size in sizes)
    if needed > int(count[:6]) and is_local:
        says = {"needed": str(needed), "given": count, "origin": given[0][0]}
        place = item.option("tensor_parallel_size", "pipeline_parallel_size")
        yield Hit("meaning.more-gpus-than-given", *place, says)


def _is_run(launch: WrittenLaunch) -> bool:
    if launch.image is None or launch.image.value is None or not launch.is_certain or launch.is_elided:
        return False
    programs = {(word.value or "").rsplit("/", 1)[-1] for word in launch.prefix}
    is_unit = bool(launch.container) and not programs & _USES_RUNTIME and launch.kind == "systemd"
    return is_unit or (bool(launch.container) and bool(programs & _USES_RUNTIME))


def _of_container(item: ContainerLaunch, container: Container) -> Iterator[Hit]:
    """Rules of `docker run` and of compose services."""
    launch = item.launch
    if container.has_gpus is False and item.is_on_gpus and launch.image is not None:
        says = {"remedy": container.gpus}
        yield Hit("container.no-gpus", launch.image.start, launch.image.end, says)
    if container.shares_memory is False and item.is_split and not item.facts.flags.get("headless"):
        yield _shared_memory(item, container.remedy)
    port, published = item.port, container.published
    if port is not None and published and all(port != mapping.inside for mapping in published):
        mapping = published[0]
        outside = mapping.inside if mapping.host == port else mapping.host
        says = {"port": str(port), "inside": str(mapping.inside)}
        says |= {"instead": f"{outside}:{port}"} if outside is not None else {}
        yield Hit("container.port-mapping", mapping.start, mapping.end, says)


def _shared_memory(item: ContainerLaunch, remedy: str) -> Hit:
    size = item.facts.size("tensor_parallel_size") or 1
    says = {"count": str(size * (item.facts.size("pipeline_parallel_size") or 1)), "remedy": remedy}
    place = item.option("tensor_parallel_size", "pipeline_parallel_size")
    return Hit("container.shared-memory", *place, says)


def _container_of_options(launch: WrittenLaunch) -> Container:
    names: set[str] = set()
    mounts: list[str] = []
    network, ipc, published, is_known = "", "", list[Published](), True
    ports_known = True
    for name, argument in launchers.named_options(launch.container):
        names.add(name)
        value = argument.value if argument is not None else None
        if not name:
            is_known = False
        elif name in _MOUNT_OPTIONS:
            mounts.append(value or "")
        elif name in ("--net", "--network"):
            network = value or "?"
        elif name == "--ipc":
            ipc = value or "?"
        elif name == "--publish-all" or (name[1:2] != "-" and "P" in name):
            ports_known = False
        elif name in ("-p", "--publish") and argument is not None:
            mapping = _published(value, argument.start, argument.end)
            if mapping is None:
                ports_known = False
            elif mapping.inside:
                published.append(mapping)
    has_gpus = bool(names & _GPU_OPTIONS) or "NVIDIA_VISIBLE_DEVICES" in launch.environment
    has_gpus = has_gpus or any("nvidia-docker" in (word.value or "") for word in launch.prefix)
    shares = bool(names & _MEMORY_OPTIONS) or ipc not in ("", "private") or any(_SHARED in text for text in mounts)
    is_unit = launch.kind == "systemd" and not launch.prefix
    return Container(
        has_gpus or (None if not is_known else False),
        shares or (None if not is_known else False),
        published if ports_known and is_known and network != "host" else None,
        "ShmSize=8g" if is_unit else "--ipc=host or --shm-size=8g",
        "AddDevice=nvidia.com/gpu=all" if is_unit else _gpus_option(launch),
    )


def _gpus_option(launch: WrittenLaunch) -> str:
    is_podman = any((word.value or "").rsplit("/", 1)[-1] == "podman" for word in launch.prefix)
    return "--device nvidia.com/gpu=all" if is_podman else "--gpus all"


def _published(value: str | None, start: int, end: int) -> Published | None:
    """A port mapping as docker writes it; inside is 0 for UDP, None if unknown or a range."""
    match = _MAPPING.match(value or "")
    if match is None:
        return None
    if match[3] not in (None, "tcp"):
        return Published(None, 0, start, end)
    return Published(int(match[1]) if match[1] else None, int(match[2]), start, end)


# Compose


def _of_service(item: ContainerLaunch) -> Iterator[Hit]:
    found = next((pair for root in item.roots if (pair := _service(item.launch, root)) is not None), None)
    if found is None:
        return
    services, service = found
    yield from _of_container(item, _container_of_service(item, service))
    yield from _of_health(item, services, service)


def _service(launch: WrittenLaunch, root: Node) -> tuple[yaml_places.Mapping, yaml_places.Mapping] | None:
    services = root.get("services") if isinstance(root, yaml_places.Mapping) else None
    if not isinstance(services, yaml_places.Mapping) or not root.start <= launch.start <= root.end:
        return None
    service = services.get(launch.name)
    return (services, service) if isinstance(service, yaml_places.Mapping) else None


def _container_of_service(item: ContainerLaunch, service: yaml_places.Mapping) -> Container:
    values: Mapping[str, Node] = {key.value: value for key, value in service.items()}
    is_known = "extends" not in values and not _has_template(item.page.text, service)
    devices = yaml_places.at(values.get("deploy"), "resources", "reservations")
    has_gpus = bool(values.keys() & {"gpus", "runtime", "devices", "privileged", "device_cgroup_rules"})
    has_gpus = has_gpus or (devices is not None and yaml_places.at(devices, "devices") is not None)
    has_gpus = has_gpus or yaml_places.at(devices, "generic_resources") is not None
    texts = [text for key in ("volumes", "tmpfs") for text in text_of(values.get(key))]
    ipc = values.get("ipc")
    shares = "shm_size" in values or any(_SHARED in text for text in texts)
    shares = shares or (ipc is not None and not (isinstance(ipc, Scalar) and ipc.value == "private"))
    mappings: list[Published] | None = []
    for port in yaml_places.items(values.get("ports")):
        mapping = _mapped(port)
        mappings = None if mappings is None or mapping is None else [*mappings, *([mapping] if mapping.inside else [])]
    return Container(
        has_gpus or (False if is_known else None),
        shares or (False if is_known else None),
        None if "network_mode" in values else mappings,
        "shm_size: 8gb or ipc: host",
        "gpus: all, or a reservation of devices under deploy.resources",
    )


def _mapped(port: Node) -> Published | None:
    if isinstance(port, yaml_places.Mapping):
        inside, outside = number(port.get("target")), number(port.get("published"))
        target = port.get("target")
        if inside is None or target is None:
            return None
        is_tcp = port.get("protocol") is None or text_of(port.get("protocol")) == ["tcp"]
        return Published(outside, inside if is_tcp else 0, target.start, target.end)
    if not isinstance(port, Scalar):
        return None
    return _published(port.value, port.start, port.end)


def _of_health(item: ContainerLaunch, services: yaml_places.Mapping, service: yaml_places.Mapping) -> Iterator[Hit]:
    check = service.get("healthcheck")
    if not isinstance(check, yaml_places.Mapping):
        return
    test = check.get("test")
    yield from _of_address(item, test, service)
    if not isinstance(test, (Scalar, yaml_places.Sequence)) or not _is_awaited(item.launch.name, services, service):
        return
    retries = check.get("retries")
    count = 3 if retries is None else number(retries)
    interval, grace = (_seconds(check.get(key), default) for key, default in (("interval", 30), ("start_period", 0)))
    if item.launch.entry not in SERVERS or count is None or interval is None or grace is None:
        return
    allowed, needed = grace + count * interval, item.least_seconds
    if allowed < needed:
        place = retries if retries is not None else test
        says = {"allowed": f"{allowed:.0f}", "needed": str(needed), "remedy": "start_period"}
        yield Hit("container.probe-too-short", place.start, place.end, says)


def _of_address(item: ContainerLaunch, command: Node | None, around: yaml_places.Mapping) -> Iterator[Hit]:
    """A health check that queries another port of its own container."""
    port = item.port
    for scalar in yaml_places.scalars(command):
        for match in _ADDRESS.finditer(scalar.value[:2000]):
            asked = int(match[1])
            if port is not None and asked != port and not item.mentions(asked, *_command_spans(around)):
                yield Hit("container.probe-port", scalar.start, scalar.end, {"asked": str(asked), "port": str(port)})
                return


def _command_spans(container: yaml_places.Mapping) -> list[tuple[int, int]]:
    keys = ("command", "args", "entrypoint", "env", "environment")
    nodes = [container.get(key) for key in keys]
    return [(node.start, node.end) for node in nodes if node is not None]


def _is_awaited(name: str, services: yaml_places.Mapping, service: yaml_places.Mapping) -> bool:
    """Whether something acts on the health of a service."""
    for other in (value for _, value in services.items()):
        waits = yaml_places.at(other, "depends_on", name, "condition")
        if isinstance(waits, Scalar) and waits.value == "service_healthy":
            return True
    return any("autoheal" in text for text in text_of(service.get("labels")))


def _seconds(node: Node | None, default: float) -> float | None:
    if node is None:
        return default
    text = node.value if isinstance(node, Scalar) else ""
    parts = _DURATION.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        return None
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


@lru_cache(maxsize=64)
def _has_template(text: str, node: Node) -> bool:
    return any(mark in text[node.start : node.end] for mark in ("{{", "{%"))


# Kubernetes


def _of_pod(item: ContainerLaunch) -> Iterator[Hit]:
    start = item.launch.start
    root = next((root for root in item.roots if root.start <= start <= root.end), None)
    pods = pods_of(root) if root is not None else []
    pod = next((pod for pod in pods if pod.node.start <= start <= pod.node.end), None)
    container = pod.container_at(start) if pod is not None else None
    if root is None or pod is None or container is None:
        return
    if pod.is_complete and not _has_template(item.page.text, root):
        yield from _of_resources(item, pod, container)
    yield from _of_probes(item, pod, container)
    for service in services_of(item.roots):
        if pod.labels and service.selects(pod.labels):
            yield from _of_ports(item, pod, container, service.ports)
    yield from _of_cache(item, pod, container)


def _of_resources(item: ContainerLaunch, pod: Pod, container: PodContainer) -> Iterator[Hit]:
    image = item.launch.image
    is_given = pod.has_gpus or container.has_gpus or "NVIDIA_VISIBLE_DEVICES" in item.launch.environment
    if not is_given and item.is_on_gpus and image is not None:
        says = {"remedy": "nvidia.com/gpu under resources.limits"}
        yield Hit("container.no-gpus", image.start, image.end, says)
    is_shared = pod.shares_ipc or any(path.rstrip("/") in (_SHARED, "/dev") for path in container.mounts)
    if item.is_split and not is_shared and item.launch.entry in SERVERS:
        yield _shared_memory(item, "a volume emptyDir with medium: Memory at /dev/shm")


def _of_probes(item: ContainerLaunch, pod: Pod, container: PodContainer) -> Iterator[Hit]:
    port, marked = item.port, set[int]()
    for probe in container.probes:
        yield from _of_address(item, probe.command, container.node)
        if probe.port is None:
            continue
        place, asked = container.resolved(probe.port)
        if asked is None and container.has_known_ports:
            says = {"name": probe.port.value}
            yield Hit("container.probe-port", probe.port.start, probe.port.end, says)
        is_other = asked is not None and port is not None and asked != port and not pod.has_others
        if is_other and asked is not None and place.start not in marked:
            if item.mentions(asked, *_command_spans(container.node)):
                continue
            marked.add(place.start)
            says = {"asked": str(asked), "port": str(port)}
            yield Hit("container.probe-port", place.start, place.end, says)
    probes = {probe.kind: probe for probe in container.probes}
    if item.launch.entry not in SERVERS or {"startupProbe", "livenessProbe"}.isdisjoint(probes):
        return
    probe = probes.get("startupProbe") or probes["livenessProbe"]
    allowed, needed = probe.allowed_seconds, item.least_seconds
    if allowed is not None and allowed < needed:
        remedy = "failureThreshold" if probe.kind == "startupProbe" else "a startupProbe"
        says = {"allowed": str(allowed), "needed": str(needed), "remedy": remedy, "probe": probe.kind}
        yield Hit("container.probe-too-short", *probe.place, says)


def _of_ports(item: ContainerLaunch, pod: Pod, container: PodContainer, ports: Sequence[Scalar]) -> Iterator[Hit]:
    port = item.port
    resolved = [(target, *pod.resolved(target)) for target in ports]
    for target, _, asked in resolved:
        if asked is None and pod.has_known_ports and not target.has_template:
            yield Hit("container.service-port", target.start, target.end, {"name": target.value})
    numbers = [(place, asked) for _, place, asked in resolved if asked is not None]
    if port is None or pod.has_others or not numbers or len(numbers) < len(resolved):
        return
    spans = _command_spans(container.node)
    if all(asked != port and not item.mentions(asked, *spans) for _, asked in numbers):
        place, asked = numbers[0]
        says = {"asked": str(asked), "port": str(port)}
        yield Hit("container.service-port", place.start, place.end, says)


_CACHES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "VLLM_CACHE_ROOT",
    "XDG_CACHE_HOME",
    "TRANSFORMERS_CACHE",
)


def _of_cache(item: ContainerLaunch, pod: Pod, container: PodContainer) -> Iterator[Hit]:
    if not container.is_not_root or pod.has_init:
        return
    written = [item.launch.environment[name].value.value for name in _CACHES if name in item.launch.environment]
    written.append(item.facts.word("download_dir"))
    caches = [path.rstrip("/") for path in written if path]
    for volume, path in container.writable_mounts:
        folder = pod.created_folder(volume)
        place = path.rstrip("/")
        if folder is not None and any(f"{cache}/".startswith(f"{place}/") for cache in caches):
            says = {"path": place, "user": container.user}
            yield Hit("container.cache-not-writable", folder.start, folder.end, says)
