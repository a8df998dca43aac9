"""Conditions on a host before a step, by the id of their finding in `catalog/tables/edge10_host_findings.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.toolchains import EdgeStep, ModelSupport, Toolchain
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.host.records import (
    DaemonFile,
    DockerFacts,
    DockerState,
    EdgeHost,
    HostCheckRequest,
    ImageFacts,
)
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.records import VLLM_PACKAGES, GpuFacts
from vllm_runbooks.plan.budget import PlannedModel

THREADS = "COMPILE_THREAD"
READ_VARIABLES = (THREADS, "CUDA_VISIBLE_DEVICES", "DOCKER_HOST", "DOCKER_CONTEXT")
"""Environment variables that a step or its container reads."""
_SETTINGS = "/etc/docker/daemon.json"
_NVIDIA = "nvidia"
_LOCAL_STATES = (
    DockerState.ANSWERS, DockerState.STOPPED, DockerState.DENIED, DockerState.SILENT, DockerState.UNKNOWN,
)  # fmt: skip
"""States of a docker that runs on this host."""


@dataclass(frozen=True)
class HostObservation:
    """Result of a condition; severity and fix if they differ from the table's."""

    text: str
    severity: Severity | None = None
    do: str = ""
    path: str | None = None
    symptom: str = ""


@dataclass(frozen=True)
class EdgeRuleContext:
    """The facts that conditions read."""

    host: EdgeHost
    facts: Toolchain
    request: HostCheckRequest
    model: PlannedModel | None = None
    listed: ModelSupport | None = None
    """The toolchain's list on the model; None if no model was named."""

    @property
    def step(self) -> EdgeStep:
        """The toolchain's facts of the step."""
        return self.facts.steps[self.request.step]

    @property
    def needs_docker(self) -> bool:
        """Whether the step runs in a container."""
        return self.step.image is not None or self.request.image is not None

    @property
    def is_container(self) -> bool:
        """Whether this is a container without docker, so that its host has to be checked from outside."""
        docker = self.host.docker
        is_missing = docker is not None and docker.state is DockerState.MISSING
        return is_missing and bool(self.host.inventory.host.is_container)

    @property
    def docker(self) -> DockerFacts | None:
        """Docker, if the step needs it and it was contacted."""
        return self.host.docker if self.needs_docker and not self.is_container else None

    @property
    def settings_files(self) -> Sequence[DaemonFile]:
        """Files with settings of docker's service."""
        return () if self.docker is None else self.docker.files or ()

    @cached_property
    def gpus(self) -> tuple[GpuFacts, ...]:
        """Usable GPUs."""
        return tuple(gpu for gpu in self.host.inventory.gpus if not inventories.unfit(gpu))

    @property
    def knows_gpus(self) -> bool:
        """Whether the GPUs of the host, or that it has none, are known."""
        inventory = self.host.inventory
        return bool(inventory.gpus or inventory.no_gpus_reason or inventory.driver or inventory.timestamp)

    @property
    def image(self) -> ImageFacts | None:
        """The named image, if docker was queried for it."""
        images = () if self.docker is None else self.docker.images
        return next((image for image in images if image.name == self.request.image), None)

    @property
    def has_image(self) -> bool | None:
        """Whether the image is on the host; None if unknown."""
        return None if self.image is None else self.image.exists

    @property
    def installed_vllm(self) -> str | None:
        """Release of vLLM in the named Python; empty if it has none, None if no Python was named."""
        packages = self.host.inventory.packages
        if self.host.python is None or packages is None:
            return None
        return next((packages[name] for name in VLLM_PACKAGES if name in packages), "")


_Observations = Iterator[HostObservation]
Condition = Callable[[EdgeRuleContext], _Observations]


def version_numbers(version: str | None) -> tuple[int, ...]:
    """Numbers at the start of a version; empty if there are none."""
    match = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,4})", version or "", re.ASCII)
    return tuple(map(int, match[1].split("."))) if match else ()


def _compare_versions(version: str | None, other: str | None) -> int | None:
    """-1 if a version is older, 0 if 16 and 16.0.0 or equal, 1 if newer; None if unknown."""
    first, second = version_numbers(version), version_numbers(other)
    if not first:
        return None
    width = max(len(first), len(second))
    padded = [(*numbers, *(0,) * (width - len(numbers))) for numbers in (first, second)]
    return (padded[0] > padded[1]) - (padded[0] < padded[1])


# ---- docker

_STATES = {
    DockerState.MISSING: "there is no program docker on the path",
    DockerState.STOPPED: "docker's service does not answer",
    DockerState.DENIED: "this user may not talk to docker's service",
    DockerState.SILENT: "docker's service gave no answer in time",
    DockerState.REMOTE: "docker's program talks to another host",
}


def _docker_state(state: DockerState, context: EdgeRuleContext) -> _Observations:
    docker = context.docker
    if docker is not None and docker.state is state:
        at = f" at {docker.endpoint}" if docker.endpoint else ""
        why = f": {docker.reason}" if docker.reason else ""
        yield HostObservation(f"{_STATES[state]}{at}{why}")


def _docker_old(context: EdgeRuleContext) -> _Observations:
    docker, least = context.docker, context.facts.host.docker_above
    if docker is None:
        return
    version = docker.server or docker.client
    order = _compare_versions(version, least)
    if order is not None and order <= 0:
        severity = None if order < 0 else Severity.DEGRADED
        yield HostObservation(f"docker is {version}, but the guide requires a version above {least}", severity)


# ---- GPUs in containers


def _driver_missing(context: EdgeRuleContext) -> _Observations:
    inventory = context.host.inventory
    if context.knows_gpus and inventory.driver is None and not inventory.gpus:
        reason = inventory.no_gpus_reason or "unknown reason"
        yield HostObservation(
            reason if "no NVIDIA driver" in reason else f"no NVIDIA driver ({reason})", _gpu_severity(context)
        )


def _gpu_missing(context: EdgeRuleContext) -> _Observations:
    inventory = context.host.inventory
    if context.knows_gpus and not context.gpus and (inventory.driver is not None or inventory.gpus):
        reasons = [f"GPU {gpu.index} {inventories.unfit(gpu)}" for gpu in inventory.gpus]
        reasons = reasons or [inventory.no_gpus_reason or "it lists none"]
        text = f"the driver works, but no GPU is usable: {'; '.join(reasons[:4])}"
        yield HostObservation(text, _gpu_severity(context))


def _gpu_severity(context: EdgeRuleContext) -> Severity:
    return Severity.FATAL if context.step.gpu == "needed" else Severity.DEGRADED


def _driver_old(context: EdgeRuleContext) -> _Observations:
    driver, facts = context.host.inventory.driver, context.facts.host
    if _compare_versions(driver, facts.driver_packaged) == -1:
        text = f"the driver is {driver}, but the guide installs {facts.driver_packaged} and shows {facts.driver_shown}"
        yield HostObservation(text)


def _toolkit_missing(context: EdgeRuleContext) -> _Observations:
    docker, toolkit = context.docker, context.host.toolkit
    if docker is None or toolkit is None or docker.state is DockerState.REMOTE:
        return
    if not toolkit.programs and _NVIDIA not in (docker.runtimes or ()):
        text = f"{context.facts.host.toolkit} not found, and docker has no runtime for it"
        yield HostObservation(text)


def _runtime_missing(context: EdgeRuleContext) -> _Observations:
    docker, toolkit = context.docker, context.host.toolkit
    if docker is None or docker.runtimes is None or toolkit is None or not toolkit.programs:
        return
    if _NVIDIA not in docker.runtimes:
        path = next((file.path for file in docker.files or () if _NVIDIA in (file.runtimes or ())), None)
        runtimes = ", ".join(docker.runtimes[:8]) or "(none)"
        text = f"the docker daemon has the runtimes {runtimes}, but no NVIDIA runtime"
        yield HostObservation(f"{text}, although {path} contains it" if path else text, do=_restart() if path else "")


def _restart() -> str:
    return f"restart docker to load its settings: `{host_commands.line('unit-restart', unit='docker')}`"


# ---- settings and registries


def _daemon_broken(context: EdgeRuleContext) -> _Observations:
    for file in context.settings_files:
        if file.problem:
            yield HostObservation(f"{file.path}: {file.problem}", path=file.path)


def accepts_registry(context: EdgeRuleContext) -> bool | None:
    """Whether docker's daemon accepts the named registry without a certificate; None if unknown.

    If the daemon does not answer, its files are those for its next launch.
    """
    docker, registry = context.docker, context.request.registry
    if docker is None or registry is None or docker.state not in _LOCAL_STATES:
        return None
    if docker.insecure_registries is not None:
        return registry in docker.insecure_registries
    if _settings_with_registry(context, registry):
        return True
    files = docker.files
    is_known = files is not None and all(f.exists is False or f.insecure_registries is not None for f in files)
    return False if is_known else None


def _settings_with_registry(context: EdgeRuleContext, registry: str) -> str:
    for file in context.settings_files:
        if registry in (file.insecure_registries or ()):
            return file.path
    return ""


def _registry_unloaded(context: EdgeRuleContext) -> _Observations:
    """The running daemon has not loaded the entry yet."""
    docker, registry = context.docker, context.request.registry
    if docker is None or registry is None or docker.insecure_registries is None:
        return
    path = _settings_with_registry(context, registry)
    if path and accepts_registry(context) is False:
        text = f"{path} contains {registry}, but the running daemon has not loaded it"
        yield HostObservation(text, _fetch_severity(context), do=_restart(), path=path)


def _registry_unlisted(context: EdgeRuleContext) -> _Observations:
    docker, registry = context.docker, context.request.registry
    if docker is None or registry is None or accepts_registry(context) is not False:
        return
    if _settings_with_registry(context, registry):
        return
    host = registry.rpartition(":")[0]
    names = [*(docker.insecure_registries or ())]
    names += [name for file in context.settings_files for name in file.insecure_registries or ()]
    near = next((name for name in names if host and name.partition(":")[0] == host), "")
    also = f"; {near} is configured, which docker treats as another registry" if near else ""
    path = next((file.path for file in context.settings_files if file.exists), None)
    yield HostObservation(
        f"the docker daemon does not accept {registry} without a certificate{also}",
        _fetch_severity(context),
        do=f'add "{registry}" to the list insecure-registries of {path or _SETTINGS}, and '
        f"{_restart()}; or use a certificate for the registry that this host trusts",
        path=path,
    )


def _fetch_severity(context: EdgeRuleContext) -> Severity | None:
    """A hint if the image is on the host already."""
    return Severity.HINT if context.has_image else None


# ---- the image


def _image_missing(context: EdgeRuleContext) -> _Observations:
    if context.image is not None and context.has_image is False:
        command = host_commands.line("docker-pull", image=context.image.name)
        do = f"pull it after fixing the problems above: `{command}`"
        yield HostObservation(f"docker has no image {context.image.name}", do=do)


# ---- the model and its folder


def _model_refused(context: EdgeRuleContext) -> _Observations:
    listed, step = context.listed, context.request.step
    if listed is not None and {"quantise": listed.quantise, "compile": listed.compile}.get(step) is False:
        yield HostObservation(f"the toolchain does not {step} {listed.name} ({listed.reason})")


def _model_quantised(context: EdgeRuleContext) -> _Observations:
    model = context.model
    if context.request.step == "quantise" and model is not None and model.shape.quantization is not None:
        yield HostObservation(f"{model.name} is already quantised ({model.shape.quantization.method})")


def _folder_missing(context: EdgeRuleContext) -> _Observations:
    folder = context.host.folder
    if folder is not None and folder.exists is False:
        yield HostObservation(f"{folder.path}: no such folder", path=folder.path)


def _folder_closed(context: EdgeRuleContext) -> _Observations:
    folder = context.host.folder
    if folder is not None and folder.exists and folder.is_writable is False:
        yield HostObservation(f"{folder.path}: no write permission for this user", path=folder.path)


# ---- Python and variables


def _package_version(context: EdgeRuleContext) -> _Observations:
    python, installed = context.host.python, context.host.inventory.packages
    if context.request.step != "compile" or python is None or installed is None:
        return
    for name, required in context.facts.host.packages.items():
        if _compare_versions(installed.get(name), required) != -1:
            continue
        command = host_commands.line("install", requirement=f"{name}=={required}")
        yield HostObservation(
            f"{python} has {name} {installed[name]}, but the guide requires {required}",
            do=f"install that version in the Python that compiles: `{command}`",
            symptom=next((fault.symptom for fault in context.facts.faults if name in fault.do.split()), ""),
        )


def _vllm_version(context: EdgeRuleContext) -> _Observations:
    required, installed = context.step.vllm, context.installed_vllm
    if required is None or installed is None or _compare_versions(installed, required) == 0:
        return
    has = f"has vLLM {installed}" if installed else "has no vLLM"
    command = host_commands.line("install", requirement=f"vllm=={required}")
    text = f"{context.host.python} {has}, but the guide evaluates with {required}"
    yield HostObservation(text, do=f"install that version: `{command}`")


def _python_unseen(context: EdgeRuleContext) -> _Observations:
    packages = context.facts.host.packages
    is_outside = context.step.image is not None and context.host.inventory.host.is_container is not True
    if context.request.step == "compile" and context.host.python is None and is_outside and packages:
        names = ", ".join(f"{name} {version}" for name, version in packages.items())
        yield HostObservation(f"the compile container's Python was not checked; the guide requires {names}")


def _threads(context: EdgeRuleContext) -> _Observations:
    threads = (context.host.environment or {}).get(THREADS)
    if context.request.step != "compile" or threads is None or not context.knows_gpus:
        return
    required = context.facts.limits.threads_with_gpu
    if context.gpus and threads.strip() != required:
        yield HostObservation(
            f"{THREADS} is {threads[:20]!r} here, but the host has a GPU",
            do=f"set it to {required} wherever the compile script runs",
            symptom=next((fault.symptom for fault in context.facts.faults if THREADS in fault.do), ""),
        )


CONDITIONS: Mapping[str, Condition] = {
    **{f"docker_{state.value}": partial(_docker_state, state) for state in _STATES},
    "docker_old": _docker_old,
    "driver_missing": _driver_missing,
    "gpu_missing": _gpu_missing,
    "driver_old": _driver_old,
    "toolkit_missing": _toolkit_missing,
    "runtime_missing": _runtime_missing,
    "daemon_broken": _daemon_broken,
    "registry_unloaded": _registry_unloaded,
    "registry_unlisted": _registry_unlisted,
    "image_missing": _image_missing,
    "model_refused": _model_refused,
    "model_quantised": _model_quantised,
    "folder_missing": _folder_missing,
    "folder_closed": _folder_closed,
    "package_version": _package_version,
    "vllm_version": _vllm_version,
    "python_unseen": _python_unseen,
    "threads": _threads,
}
"""By the id of the finding without `edge10.host_`."""
