"""Rules about the container of a launch: its GPUs, shared memory, ports and health checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vllm_runbooks.catalog.options import SERVERS
from vllm_runbooks.catalog.specs import CPU_SPACE
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.meaning import LaunchFacts
from vllm_runbooks.reading import deployment
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.documents import LaunchFile, images, yaml_places
from vllm_runbooks.reading.documents.pods import PodContainer, Probe
from vllm_runbooks.reading.documents.starts import ContainerOptions, WrittenLaunch
from vllm_runbooks.reading.documents.yaml_places import Scalar

_SHARED = ("/dev/shm", "/dev")  # noqa: S108 - compared, not opened
_ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d{1,5})(?!\d)", re.ASCII)
_COMMAND_KEYS = ("command", "args", "entrypoint", "env", "environment")
_RAY_PORTS = (6379, 8265, 10001, 52365)
_LEAST_LOAD, _LEAST_COMPILATION = 30, 30
"""Seconds that vLLM needs at least before it serves: imports and engine; compilation and CUDA graphs."""
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)[bB](?![a-zA-Z])", re.ASCII)
_BYTES = ((r"awq|gptq|int4|4bit|fp4|w4|gguf|bnb", 0.5), (r"fp8|int8|w8|8bit|gpt-oss", 1.0))
"""Bytes per weight that a model's name or quantization shows; a low estimate, two without."""
_READ_PER_SECOND = 1e9
"""Bytes that a disk reads per second: a fast one of a cloud instance."""


@dataclass(frozen=True)
class ContainerLaunch:
    page: LaunchFile
    launch: WrittenLaunch
    parsed: Parsed
    facts: LaunchFacts

    @property
    def port(self) -> int | None:
        """Port on which vLLM listens; None if unknown, or if other programs may listen, too."""
        facts = self.facts
        if self.launch.entry not in SERVERS or facts.is_elided or {"uds", "headless"} & facts.flags.keys():
            return None
        if self.launch.invocation is not None and self.launch.invocation.is_background:
            return None
        is_misspelt = any(alike(name, ["port"], 1) for name in facts.unknown)
        if is_misspelt or self.may_have_more_options:
            value = facts.flags.get("port")
        else:
            value = facts.flags.get("port", facts.defaults.get("port"))
        return value if type(value) is int and 0 < value < 1 << 16 else None

    @property
    def may_have_more_options(self) -> bool:
        """Whether an unknown word may be an option: it is not the value of one, or the shell may split it."""
        words, roles = self.launch.words, self.parsed.roles
        for index, word in enumerate(words[: len(roles)]):
            is_split = word.raw[:1] == "$" and word.why not in {"template", "placeholder"}
            has_option = roles[index].option is not None or (index > 0 and words[index - 1].value == "--model")
            if word.value is None and (is_split or not has_option):
                return True
        return False

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

    def mentions(self, port: int) -> bool:
        """Whether the command or the environment names a port, on which another program may listen."""
        number = re.compile(rf"(?<!\d){port}(?!\d)", re.ASCII)
        launch = self.launch
        spans = [(launch.start, launch.end), *(launch.keys[key] for key in _COMMAND_KEYS if key in launch.keys)]
        if any(number.search(self.page.text, start, end) for start, end in spans):
            return True
        is_ray = port in _RAY_PORTS and any("ray" in word.raw for word in (*launch.prefix, *launch.words))
        return is_ray or any(number.search(setting.value.raw) for setting in launch.environment.values())

    @property
    def programs(self) -> frozenset[str]:
        """Programs before the arguments."""
        return frozenset((word.value or "").rsplit("/", 1)[-1] for word in self.launch.prefix)

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
    item = ContainerLaunch(page, launch, parsed, facts)
    if launch.kind == "kubernetes" and launch.pod is not None:
        yield from _of_pod(item, launch.pod)
    elif launch.container is not None and launch.kind == "python" and not launch.container.size:
        yield from _of_published(item, launch.container)  # of a function on Modal
    elif launch.container is not None and (launch.kind == "compose" or _is_run(launch, launch.container)):
        yield from _of_container(item, launch.container)
        if launch.container.health is not None:
            yield from _of_health(item, launch.container.health)


_LIMIT = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([kmgt]?)(i?)b?", re.ASCII | re.IGNORECASE)


def _limit_gib(launch: WrittenLaunch) -> float | None:
    """Memory limit of the launch's container; None if it has none, or an unknown one."""
    found = _LIMIT.fullmatch(launch.memory.strip())
    if found is None:
        return None
    number, unit, binary = found.groups()
    if launch.kind == "kubernetes" and unit == "m":
        return float(number) / 1000 / 2**30 or None  # thousandths of a byte
    base = 1000 if launch.kind == "kubernetes" and not binary else 1024
    return float(number) * base ** " kmgt".index(unit.lower() or " ") / 2**30 or None  # 0: no limit


def of_cpu_memory(launch: WrittenLaunch, facts: LaunchFacts, host_gib: float | None) -> Iterator[Hit]:
    """Compare the KV cache of vLLM on a CPU with the memory of the container and of the host."""
    setting = launch.environment.get(CPU_SPACE)
    space = (setting.value.value or "").strip() if setting is not None else ""
    sizes = [facts.size(name) or 1 for name in ("tensor_parallel_size", "pipeline_parallel_size")]
    image = launch.image.value if launch.image is not None else None
    if setting is None or images.is_for_gpus(image) or not re.fullmatch(r"\d{1,9}", space, re.ASCII):
        return  # on GPUs vLLM does not read the variable
    need = int(space) * sizes[0] * sizes[1]
    least = min((gib for gib in (_limit_gib(launch), host_gib) if gib), default=None)
    if least is not None and need >= least:
        says = {"space": space, "need": f"{need:,}", "memory": f"{least:,.1f}"}
        yield Hit("environment.cpu-cache-too-large", setting.start, setting.end, says)


def _is_run(launch: WrittenLaunch, options: ContainerOptions) -> bool:
    is_named = launch.image is not None and launch.image.value is not None
    return is_named and launch.is_certain and not launch.is_elided and bool(options.words)


def _of_container(item: ContainerLaunch, options: ContainerOptions) -> Iterator[Hit]:
    """Rules of `docker run`, of Podman units and of compose services."""
    launch = item.launch
    is_given = "NVIDIA_VISIBLE_DEVICES" in launch.environment or "nvidia-docker" in item.programs
    if options.has_gpus is False and not is_given and item.is_on_gpus and launch.image is not None:
        yield Hit("container.no-gpus", launch.image.start, launch.image.end, {"remedy": _remedy(item, _GPU_REMEDIES)})
    if options.shares_memory is False and item.is_split and not item.facts.flags.get("headless"):
        yield _shared_memory(item, _remedy(item, _MEMORY_REMEDIES))
    yield from _of_published(item, options)


def _of_published(item: ContainerLaunch, options: ContainerOptions) -> Iterator[Hit]:
    ports = [port for port in options.ports if port.is_tcp]
    is_known = options.is_complete or (item.launch.kind == "compose" and "--extends" not in options.names)
    is_known &= options.network.partition(":")[0] not in ("host", "container", "service")
    if item.port is not None and ports and is_known and all(port.inside not in (None, item.port) for port in ports):
        first = ports[0]
        outside = first.inside if first.host == item.port else first.host
        says = {"port": str(item.port), "inside": str(first.inside)}
        address = f"{first.address}:" if first.address not in ("", "?") else ""
        says |= {"instead": f"{address}{outside}:{item.port}"} if outside is not None else {}
        yield Hit("container.port-mapping", first.start, first.end, says)


_GPU_REMEDIES = {
    "compose": "gpus: all, or a reservation of devices under deploy.resources",
    "unit": "AddDevice=nvidia.com/gpu=all",
    "podman": "--device nvidia.com/gpu=all",
    "": "--gpus all",
}
_MEMORY_REMEDIES = {
    "compose": "shm_size: 8gb or ipc: host",
    "unit": "ShmSize=8g",
    "": "--ipc=host or --shm-size=8g",
}


def _remedy(item: ContainerLaunch, remedies: Mapping[str, str]) -> str:
    """Remedy in the container's form: compose, Podman, a systemd unit or Docker."""
    is_unit = item.launch.container is not None and not item.launch.container.size
    form = "podman" if "podman" in item.programs else "unit" if is_unit else ""
    form = item.launch.kind if item.launch.kind == "compose" else form
    return remedies.get(form, remedies[""])


def _shared_memory(item: ContainerLaunch, remedy: str) -> Hit:
    size = item.facts.size("tensor_parallel_size") or 1
    says = {"count": str(size * (item.facts.size("pipeline_parallel_size") or 1)), "remedy": remedy}
    place = item.option("tensor_parallel_size", "pipeline_parallel_size")
    return Hit("container.shared-memory", *place, says)


def _of_health(item: ContainerLaunch, check: Probe) -> Iterator[Hit]:
    yield from _of_address(item, check)
    allowed, needed = check.allowed_seconds, item.least_seconds
    if item.launch.entry in SERVERS and allowed is not None and allowed < needed:
        says = {"allowed": str(allowed), "needed": str(needed), "remedy": "start_period"}
        yield Hit("container.probe-too-short", check.start, check.end, says)


def _of_address(item: ContainerLaunch, probe: Probe) -> Iterator[Hit]:
    """A health check that queries another port of its own container."""
    port = item.port
    for scalar in yaml_places.scalars(probe.command):
        for match in _ADDRESS.finditer(scalar.value[:2000]):
            asked = int(match[1])
            if port is not None and asked != port and not item.mentions(asked):
                yield Hit("container.probe-port", scalar.start, scalar.end, {"asked": str(asked), "port": str(port)})
                return


# Kubernetes


def _of_pod(item: ContainerLaunch, container: PodContainer) -> Iterator[Hit]:
    if container.pod.is_complete:
        yield from _of_resources(item, container)
    yield from _of_probes(item, container)
    for service in item.page.services:
        if service.selects(container.pod.labels):
            yield from _of_ports(item, container, service.ports)
    yield from _of_cache(item, container)


def _of_resources(item: ContainerLaunch, container: PodContainer) -> Iterator[Hit]:
    image, pod = item.launch.image, container.pod
    is_given = pod.has_gpus or container.has_gpus or "NVIDIA_VISIBLE_DEVICES" in item.launch.environment
    if not is_given and item.is_on_gpus and image is not None:
        says = {"remedy": "nvidia.com/gpu under resources.limits"}
        yield Hit("container.no-gpus", image.start, image.end, says)
    is_shared = pod.node.get("hostIPC") is not None or any(path.rstrip("/") in _SHARED for path in container.mounts)
    if item.is_split and not is_shared and item.launch.entry in SERVERS:
        yield _shared_memory(item, "a volume emptyDir with medium: Memory at /dev/shm")


def _of_probes(item: ContainerLaunch, container: PodContainer) -> Iterator[Hit]:
    port, marked = item.port, set[int]()
    for probe in container.probes:
        yield from _of_address(item, probe)
        if probe.port is None:
            continue
        place, asked = container.resolved(probe.port)
        if asked is None and container.has_known_ports:
            says = {"name": probe.port.value}
            yield Hit("container.probe-port", probe.port.start, probe.port.end, says)
        is_other = asked is not None and port is not None and asked != port and not container.pod.has_others
        if is_other and asked is not None and place.start not in marked and not item.mentions(asked):
            marked.add(place.start)
            says = {"asked": str(asked), "port": str(port)}
            yield Hit("container.probe-port", place.start, place.end, says)
    probes = {probe.kind: probe for probe in container.probes}
    last = probes.get("startupProbe") or probes.get("livenessProbe")
    if item.launch.entry not in SERVERS or last is None:
        return
    allowed, needed = last.allowed_seconds, item.least_seconds
    if allowed is not None and allowed < needed:
        remedy = "failureThreshold" if last.kind == "startupProbe" else "a startupProbe"
        says = {"allowed": str(allowed), "needed": str(needed), "remedy": remedy, "probe": last.kind}
        yield Hit("container.probe-too-short", last.start, last.end, says)


def _of_ports(item: ContainerLaunch, container: PodContainer, ports: Sequence[Scalar]) -> Iterator[Hit]:
    port, pod = item.port, container.pod
    resolved = [(target, *pod.resolved(target)) for target in ports]
    for target, _, asked in resolved:
        if asked is None and pod.has_known_ports and not target.has_template:
            yield Hit("container.service-port", target.start, target.end, {"name": target.value})
    numbers = [(place, asked) for _, place, asked in resolved if asked is not None]
    if port is None or pod.has_others or not numbers or len(numbers) < len(resolved):
        return
    if all(asked != port and not item.mentions(asked) for _, asked in numbers):
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


def _of_cache(item: ContainerLaunch, container: PodContainer) -> Iterator[Hit]:
    if container.user in ("", "0") or container.pod.has_init:
        return
    written = [item.launch.environment[name].value.value for name in _CACHES if name in item.launch.environment]
    written.append(item.facts.word("download_dir"))
    caches = [path.rstrip("/") for path in written if path]
    for path, folder in container.created_folders:
        if any(f"{cache}/".startswith(f"{path}/") for cache in caches):
            says = {"path": path, "user": container.user}
            yield Hit("container.cache-not-writable", folder.start, folder.end, says)
