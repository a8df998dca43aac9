"""What facts of a host say before a step: each rule looks at one thing, and says it of the host that is looked at."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from vllm_runbooks.catalog.toolchains import AskedModel, EdgeStep, Toolchain
from vllm_runbooks.core import host_commands
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.host.records import DockerFacts, DockerState, EdgeHost, HostAsked, HostNeed, ImageFacts
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host.records import VLLM_PACKAGES, GpuFacts
from vllm_runbooks.plan.budget import Subject

THREADS = "COMPILE_THREAD"
"""The variable by which the compiler divides its work."""
HEEDED = (THREADS, "CUDA_VISIBLE_DEVICES", "DOCKER_HOST", "DOCKER_CONTEXT")
"""Variables that a step, or its container, heeds."""
_NUMBER = re.compile(r"\d{1,6}", re.ASCII)
_NVIDIA = "nvidia"
_DESKTOP = "Docker Desktop"
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""What the kernel calls processors, and images do."""
_USUAL = "amd64"
"""Processors that an image is for where nobody tells otherwise."""
_ASKED_HERE = (DockerState.ANSWERS, DockerState.STOPPED, DockerState.DENIED, DockerState.SILENT, DockerState.UNKNOWN)
"""States of a docker that is this host's."""


@dataclass(frozen=True)
class Said:
    """What a rule found."""

    text: str
    severity: Severity | None = None
    """Where it is another than the rule's."""
    do: str = ""
    """Where it is another than the rule's."""
    path: str | None = None
    symptom: str = ""


@dataclass(frozen=True)
class View:
    """What every rule looks at."""

    host: EdgeHost
    facts: Toolchain
    asked: HostAsked
    needs: tuple[HostNeed, ...] = ()
    model: Subject | None = None
    listed: AskedModel | None = None
    """What the toolchain's list says of the model; None: none was named."""

    @property
    def step(self) -> EdgeStep:
        """What the step runs in."""
        return self.facts.steps[self.asked.step]

    @property
    def needs_docker(self) -> bool:
        """Whether the step runs in a container, by the toolchain or because an image was named."""
        return self.step.image is not None or self.asked.image is not None

    @property
    def is_within(self) -> bool:
        """Whether this is a container without docker: whether one can be started is to be asked outside of it."""
        docker = self.host.docker
        return (
            docker is not None and docker.state is DockerState.MISSING and bool(self.host.inventory.host.is_container)
        )

    @property
    def docker(self) -> DockerFacts | None:
        """Docker, where the step needs it and it was looked at."""
        return self.host.docker if self.needs_docker and not self.is_within else None

    @cached_property
    def cards(self) -> tuple[GpuFacts, ...]:
        """Cards that a start may go to."""
        return tuple(gpu for gpu in self.host.inventory.gpus if not inventories.unfit(gpu))

    @property
    def knows_cards(self) -> bool:
        """Whether it was told which cards there are, none among the answers."""
        found = self.host.inventory
        return bool(found.gpus or found.why_none or found.driver or found.taken)

    @property
    def image(self) -> ImageFacts | None:
        """The image that was named, as far as docker was asked for it."""
        images = () if self.docker is None else self.docker.images
        return next((each for each in images if each.name == self.asked.image), None)

    @property
    def has_image(self) -> bool | None:
        """Whether the image is there, so that nothing has to be fetched."""
        return None if self.image is None else self.image.is_there


Rule = Callable[[View], Iterator[Said]]


def numbers(version: str | None) -> tuple[int, ...]:
    """The numbers that a version begins with; none: it is not known, or begins with none."""
    begun = re.match(r"v?(\d{1,6}(?:\.\d{1,6}){0,4})", version or "", re.ASCII)
    return tuple(map(int, _NUMBER.findall(begun[1]))) if begun else ()


def _is_below(version: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a version is an older one; 16 and 16.0.0 are the same."""
    width = max(len(version), len(other))
    return (*version, *(0,) * (width - len(version))) < (*other, *(0,) * (width - len(other)))


def _is_same(installed: str, wanted: str) -> bool:
    """Whether two versions have the same numbers; what stands behind those, as a build's name, is no matter."""
    pair = numbers(installed), numbers(wanted)
    return bool(pair[0]) and not _is_below(*pair) and not _is_below(pair[1], pair[0])


# ---- docker itself


def state(*asked: DockerState) -> Rule:
    """A rule for what became of the question to docker."""

    def says(view: View) -> Iterator[Said]:
        docker = view.docker
        if docker is not None and docker.state in asked:
            at = f" at {docker.endpoint}" if docker.endpoint else ""
            why = f": {docker.why}" if docker.why else ""
            yield Said(f"{_STATES[docker.state]}{at}{why}", do=_regroup(docker))

    return says


_STATES = {
    DockerState.MISSING: "there is no program docker on the path",
    DockerState.STOPPED: "docker's service does not answer",
    DockerState.DENIED: "this user may not talk to docker's service",
    DockerState.SILENT: "docker's service gave no answer in time",
    DockerState.REMOTE: "docker's program talks to another host",
    DockerState.PODMAN: "the program docker is podman's",
}


def _regroup(docker: DockerFacts) -> str:
    """What to do where the user was let in, and this process began before."""
    is_late = docker.state is DockerState.DENIED and docker.is_listed is True and docker.is_in_group is False
    return "log out and in again: the system lists you in docker's group, and this login is older" if is_late else ""


def old(view: View) -> Iterator[Said]:
    """A release that is too old."""
    docker = view.docker
    if docker is None or docker.state is DockerState.PODMAN:
        return
    said = docker.server or docker.client
    version, least = numbers(said), numbers(view.facts.host.docker_above)
    if version and not _is_below(least, version):
        is_older = _is_below(version, least)
        yield Said(
            f"docker is {said}, and the guide asks for one above {view.facts.host.docker_above}",
            None if is_older else Severity.DEGRADED,
        )


def desktop(view: View) -> Iterator[Said]:
    """Docker Desktop, which runs containers in a machine of its own."""
    if view.docker is not None and view.docker.system == _DESKTOP:
        yield Said(f"docker is {_DESKTOP}")


def rootless(view: View) -> Iterator[Said]:
    """A service without the rights of root."""
    if view.docker is not None and view.docker.is_rootless:
        yield Said("docker runs rootless")


# ---- cards in containers


def driver(view: View) -> Iterator[Said]:
    """No driver of NVIDIA."""
    found = view.host.inventory
    if view.knows_cards and found.driver is None and not found.gpus:
        yield Said(f"no driver of NVIDIA answers ({found.why_none or 'no reason is told'})", _by_need(view))


def cards(view: View) -> Iterator[Said]:
    """A driver, and no card that can be used."""
    found = view.host.inventory
    if view.knows_cards and not view.cards and (found.driver is not None or found.gpus):
        why = [f"GPU {gpu.index} {inventories.unfit(gpu)}" for gpu in found.gpus] or [found.why_none or "it lists none"]
        yield Said(f"the driver answers, and no card can be taken: {'; '.join(why[:4])}", _by_need(view))


def _by_need(view: View) -> Severity:
    return Severity.FATAL if view.step.gpu == "needed" else Severity.DEGRADED


def driver_old(view: View) -> Iterator[Said]:
    """A driver below the one that the guide installs."""
    found, packaged = view.host.inventory.driver, view.facts.host.driver_packaged
    version = numbers(found)
    if version and _is_below(version, numbers(packaged)):
        yield Said(f"the driver is {found}, and the guide installs {packaged} and shows {view.facts.host.driver_shown}")


def toolkit(view: View) -> Iterator[Said]:
    """Nothing that would give a container the cards."""
    docker, found = view.docker, view.host.toolkit
    if docker is None or found is None or docker.state not in (*_ASKED_HERE, DockerState.MISSING, DockerState.PODMAN):
        return
    if not found.programs and _NVIDIA not in (docker.runtimes or ()) and docker.system != _DESKTOP:
        yield Said(f"no program of the {view.facts.host.toolkit} is found, and docker has no runtime of it")


def runtime(view: View) -> Iterator[Said]:
    """A toolkit that docker has not been told of."""
    docker, found = view.docker, view.host.toolkit
    if docker is None or docker.runtimes is None or found is None or not found.programs:
        return
    if _NVIDIA not in docker.runtimes:
        named = next((each for each in docker.files or () if _NVIDIA in (each.runtimes or ())), None)
        yield Said(
            f"docker's service has the runtimes {', '.join(docker.runtimes[:8]) or '(none)'}, and none of NVIDIA"
            + ("" if named is None else f", though {named.path} names it"),
            do="" if named is None else RESTART,
        )


RESTART = f"restart docker, which reads its settings then: `{host_commands.line('unit-restart', unit='docker')}`"


# ---- settings and registries


def broken(view: View) -> Iterator[Said]:
    """Settings that the service refuses."""
    for each in () if view.docker is None else view.docker.files or ():
        if each.problem:
            yield Said(f"{each.path}: {each.problem}", path=each.path)


def twice(view: View) -> Iterator[Said]:
    """Settings that stand there more than once."""
    for each in () if view.docker is None else view.docker.files or ():
        if each.twice:
            yield Said(f"{each.path} has {', '.join(each.twice[:4])} more than once", path=each.path)


def is_known_insecure(view: View) -> bool | None:
    """Whether the service takes the registry that was named without a certificate; None: not known.

    Where the service does not answer its files are what counts at its next start.
    """
    docker, registry = view.docker, view.asked.registry
    if docker is None or registry is None or docker.state not in _ASKED_HERE:
        return None
    if docker.insecure_registries is not None:
        return registry in docker.insecure_registries or _is_within(registry, docker.insecure_networks or ())
    if _in_files(docker, registry):
        return True
    is_told = docker.files is not None and all(
        each.is_there is False or each.insecure_registries is not None for each in docker.files
    )
    return False if is_told else None


def _is_within(registry: str, networks: tuple[str, ...]) -> bool:
    """Whether a registry that is named by its address lies in a network."""
    host = registry.rpartition(":")[0].strip("[]") or registry
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    for each in networks:
        try:
            if address in ipaddress.ip_network(each, strict=False):
                return True
        except ValueError:
            continue
    return False


def _in_files(docker: DockerFacts, registry: str) -> str:
    """The file that names a registry, or a network around it; empty: none does."""
    for each in docker.files or ():
        named = each.insecure_registries or ()
        if registry in named or _is_within(registry, named):
            return each.path
    return ""


def unloaded(view: View) -> Iterator[Said]:
    """An entry that the running service has not read yet."""
    docker, registry = view.docker, view.asked.registry
    if docker is None or registry is None or docker.insecure_registries is None:
        return
    path = _in_files(docker, registry)
    if path and is_known_insecure(view) is False:
        yield Said(f"{path} names {registry}, and the running service does not know it", _by_image(view), path=path)


def insecure(view: View) -> Iterator[Said]:
    """No entry at all; one that is nearly right is named."""
    docker, registry = view.docker, view.asked.registry
    if docker is None or registry is None:
        return
    if is_known_insecure(view) is False and not _in_files(docker, registry):
        host = registry.rpartition(":")[0]
        named = [
            *(docker.insecure_registries or ()),
            *(n for e in docker.files or () for n in e.insecure_registries or ()),
        ]
        near = next((each for each in named if host and each.partition(":")[0] == host), "")
        also = f"; {near} is named, which is another one to docker" if near else ""
        file = next((each.path for each in docker.files or () if each.is_there), None)
        yield Said(
            f"docker's service does not take {registry} without a certificate{also}",
            _by_image(view),
            do=f'put "{registry}" into the list insecure-registries of {file or SETTINGS}, beside what is there, and '
            f"{RESTART}; or have the registry use a certificate that this host trusts",
            path=file,
        )


SETTINGS = "/etc/docker/daemon.json"


def _by_image(view: View) -> Severity | None:
    """Where nothing has to be fetched it can wait."""
    return Severity.HINT if view.has_image else None


def login(view: View) -> Iterator[Said]:
    """No login for a registry from which something has to be fetched."""
    docker, registry = view.docker, view.asked.registry
    if docker is None or registry is None or view.has_image is not False:
        return
    told = next((each.is_there for each in docker.logins if each.registry == registry), None)
    if told is False:
        host, _, port = registry.rpartition(":")
        command = _printed("docker-login", url_host=host, port=port) or "docker's login"
        yield Said(
            f"docker's program has no login for {registry}",
            do=f"where the registry asks for one: {command}, which asks for the password; one on the command line is "
            "seen by every user of this host, and stays in the shell's history",
        )


def _printed(name: str, **values: str) -> str:
    """A command of the table for people; empty: a value is not of its kind, as a registry without a port."""
    try:
        return f"`{host_commands.line(name, **values)}`"
    except InputError:
        return ""


# ---- the image


def image_missing(view: View) -> Iterator[Said]:
    """An image that is to be fetched."""
    if view.image is not None and view.has_image is False:
        try:
            command = f": `{host_commands.line('docker-pull', image=view.image.name)}`"
        except InputError:
            command = ""
        yield Said(
            f"docker has no image {view.image.name}", do=f"fetch it, once what is named above is mended{command}"
        )


def image_foreign(view: View) -> Iterator[Said]:
    """An image for other processors."""
    docker, image = view.docker, view.image
    if docker is None or image is None or image.architecture is None or docker.architecture is None:
        return
    here = _PROCESSORS.get(docker.architecture, docker.architecture)
    if image.architecture != here:
        yield Said(f"the image {image.name} is for {image.architecture}, and docker runs on {here}")


def unseen_processors(view: View) -> str:
    """This host's processors, where an image that is not there may be for other ones; empty: no doubt is known."""
    here = None if view.docker is None else view.docker.architecture
    is_usual = here is None or _PROCESSORS.get(here, here) == _USUAL
    return "" if is_usual or view.has_image or here is None else here


# ---- the model, and room for it


def refused(view: View) -> Iterator[Said]:
    """A model that the toolchain's list says no of."""
    told = view.listed
    if told is not None and {"quantise": told.quantise, "compile": told.compile}.get(view.asked.step) is False:
        yield Said(f"the toolchain does not {view.asked.step} {told.name} ({told.why})")


def quantised(view: View) -> Iterator[Said]:
    """A model that is quantised before it is."""
    if view.asked.step == "quantise" and view.model is not None and view.model.shape.quantization is not None:
        yield Said(f"{view.model.name} is quantised already ({view.model.shape.quantization.method})")


def short(what: str) -> Rule:
    """A rule for room that does not suffice."""

    def says(view: View) -> Iterator[Said]:
        for need in view.needs:
            if need.what == what and need.is_enough is False:
                known = [term for term in need.terms if term.gib is not None]
                terms = ", ".join(f"{term.what} {term.gib:,.1f} GiB" for term in known)
                least = sum(term.gib or 0.0 for term in known)
                yield Said(
                    f"{need.where} has {need.there_gib:,.1f} GiB, and {least:,.1f} are needed at least: {terms}",
                    path=view.host.folder.path if what == "disk" and view.host.folder is not None else None,
                )

    return says


def folder_missing(view: View) -> Iterator[Said]:
    """A folder that docker would make."""
    folder = view.host.folder
    if folder is not None and folder.is_there is False:
        yield Said(f"{folder.path}: there is no such folder", path=folder.path)


def folder_closed(view: View) -> Iterator[Said]:
    """A folder that may not be written."""
    folder = view.host.folder
    if folder is not None and folder.is_there and folder.is_writable is False:
        yield Said(f"{folder.path}: this user may not write there", path=folder.path)


# ---- Python and variables


def packages(view: View) -> Iterator[Said]:
    """Packages that must have one version, in the Python that was named."""
    found = view.host.inventory.packages
    if view.asked.step != "compile" or view.host.python is None or found is None:
        return
    for name, wanted in view.facts.host.packages.items():
        installed = found.get(name)
        if installed is None or not numbers(installed) or _is_same(installed, wanted):
            continue
        is_older = _is_below(numbers(installed), numbers(wanted))
        symptom = next((each.symptom for each in view.facts.faults if name in each.do.split()), "")
        command = host_commands.line("install", requirement=f"{name}=={wanted}")
        yield Said(
            f"{view.host.python} has {name} {installed}, and the guide names {wanted}",
            None if is_older else Severity.HINT,
            do=f"install the one that is named, in the Python that compiles: `{command}`"
            + ("" if is_older else "; a newer one may do as well, nobody tells"),
            symptom=symptom,
        )


def installed_vllm(view: View) -> str | None:
    """Release of vLLM in the Python that was named; empty: it has none; None: no Python was named."""
    found = view.host.inventory.packages
    if view.host.python is None or found is None:
        return None
    return next((found[name] for name in VLLM_PACKAGES if name in found), "")


def vllm(view: View) -> Iterator[Said]:
    """Another vLLM than the one that the step is described for."""
    wanted, installed = view.step.vllm, installed_vllm(view)
    if wanted is None or installed is None or _is_same(installed, wanted):
        return
    has = f"has vLLM {installed}" if installed else "has no vLLM"
    command = host_commands.line("install", requirement=f"vllm=={wanted}")
    yield Said(f"{view.host.python} {has}, and the guide evaluates with {wanted}", do=f"install that one: `{command}`")


def within(view: View) -> Iterator[Said]:
    """Packages that can be looked at from within a container alone."""
    is_outside = view.step.image is not None and view.host.inventory.host.is_container is not True
    if view.asked.step == "compile" and view.host.python is None and is_outside and view.facts.host.packages:
        names = ", ".join(f"{name} {version}" for name, version in view.facts.host.packages.items())
        yield Said(f"the compile container's Python was not looked at, whose {names} the guide names")


def threads(view: View) -> Iterator[Said]:
    """A number of the compiler's threads that does not suit the host."""
    told = (view.host.environment or {}).get(THREADS)
    if view.asked.step != "compile" or told is None or not view.knows_cards:
        return
    limits = view.facts.limits
    if view.cards and told.strip() != limits.threads_with_gpu:
        symptom = next((each.symptom for each in view.facts.faults if THREADS in each.do), "")
        yield Said(
            f"{THREADS} is {told[:20]!r} here, and the host has a card",
            do=f"set it to {limits.threads_with_gpu} wherever the compile script runs",
            symptom=symptom,
        )
    elif not view.cards and told.strip() == limits.threads_with_gpu != limits.threads_without_gpu:
        yield Said(
            f"{THREADS} is {told[:20]!r} here, and the host has no card",
            Severity.HINT,
            do=f"try {limits.threads_without_gpu}, which the guide offers for hosts without one",
        )
