"""What a host means for a step of a toolchain: a table of rules with their sources, and what is not known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.toolchains import AskedModel, Toolchain, ToolchainFinding
from vllm_runbooks.core.host_commands import line
from vllm_runbooks.core.records import Severity
from vllm_runbooks.edge10.host import step_rules as rules
from vllm_runbooks.edge10.host.needs import needs
from vllm_runbooks.edge10.host.records import CheckedHost, DockerState, EdgeHost, HostAsked, Untold
from vllm_runbooks.plan.budget import Subject

_GUIDE = ""
"""The toolchain's own source, which its facts name."""
_DOCKER = "https://docs.docker.com/engine/daemon/troubleshoot/"
_GROUP = "https://docs.docker.com/engine/install/linux-postinstall/"
_CONTEXT = "https://docs.docker.com/engine/manage-resources/contexts/"
_DAEMON = "https://docs.docker.com/reference/cli/dockerd/#daemon-configuration-file"
_INSECURE = "https://docs.docker.com/reference/cli/dockerd/#insecure-registries"
_LOGIN = "https://docs.docker.com/reference/cli/docker/login/"
_DESKTOP = "https://docs.docker.com/desktop/features/gpu/"
_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_PODMAN = "https://docs.podman.io/en/latest/markdown/podman-run.1.html"
_RECKONED = "reckoned, each term with its source"
_NO_CARDS = "a container that asks for cards (--gpus all) ends with 'could not select device driver'"


@dataclass(frozen=True)
class Rule:
    """What is looked at, and what it means."""

    id: str
    severity: Severity
    says: rules.Rule
    effect: str
    do: str
    source: str = _GUIDE
    """Empty: the source of the toolchain's facts."""


RULES: Sequence[Rule] = (
    # docker itself
    Rule("edge10.host_docker_missing", Severity.FATAL, rules.state(DockerState.MISSING),
        "the step runs in the toolchain's container, which nothing here can start",
        f"install docker, as by `{line('system-package', package='docker.io')}`; what else is found here "
        "holds without it"),
    Rule("edge10.host_docker_podman", Severity.DEGRADED, rules.state(DockerState.PODMAN),
        "podman has no service: it reads no daemon.json, keeps images for each user, and gives cards by "
        "--device nvidia.com/gpu=all, where docker takes --gpus all",
        "install docker, for which the guide is written; or give podman its own settings (registries.conf, and a "
        "description of the cards by the container toolkit)", _PODMAN),
    Rule("edge10.host_docker_remote", Severity.FATAL, rules.state(DockerState.REMOTE),
        "containers, images and folders are those of the other host: cards, disk and memory that are found here are "
        "not the ones that a step gets",
        f"look at that host, there; or have docker talk to this one: unset DOCKER_HOST, "
        f"`{line('docker-context-here')}`", _CONTEXT),
    Rule("edge10.host_docker_denied", Severity.FATAL, rules.state(DockerState.DENIED),
        "every command of docker ends with 'permission denied while trying to connect'",
        "have whoever runs this host let you in, as by `usermod -aG docker USER`, and log in again; or run docker's "
        "commands with sudo", _GROUP),
    Rule("edge10.host_docker_stopped", Severity.FATAL, rules.state(DockerState.STOPPED),
        "no container can be started, and no image fetched",
        f"start it: `{line('unit-start', unit='docker')}`; where it ends again, "
        f"`{line('unit-log', unit='docker')}` says why", _DOCKER),
    Rule("edge10.host_docker_silent", Severity.FATAL, rules.state(DockerState.SILENT),
        "every command of docker would hang as well",
        f"see what it waits for: `{line('unit-log', unit='docker')}`; a full disk, or a network disk that is gone, is "
        "the usual reason", _DOCKER),
    Rule("edge10.host_docker_old", Severity.FATAL, rules.old,
        "one before 19.03 does not know --gpus, by which a container gets the cards",
        f"install a newer one, as by `{line('system-package', package='docker.io')}`"),
    Rule("edge10.host_docker_desktop", Severity.DEGRADED, rules.desktop,
        "its containers run in a machine of its own, with its own memory and disk: only on Windows, by WSL 2, does it "
        "pass the cards on, and daemon.json is edited in its settings",
        "use docker's engine on Linux; or look from within a container", _DESKTOP),
    Rule("edge10.host_docker_rootless", Severity.HINT, rules.rootless,
        "the container toolkit cannot set up control groups there: a container with cards may end with 'failed to "
        "create shim task'",
        "set no-cgroups = true in the toolkit's config.toml, and name its settings in ~/.config/docker/daemon.json",
        _TOOLKIT),
    # cards
    Rule("edge10.host_driver_missing", Severity.DEGRADED, rules.driver,
        f"{_NO_CARDS}, or with 'libnvidia-ml.so.1: cannot open shared object file'; without cards quantising takes "
        "very long, and vLLM's usual packages do not start",
        f"install NVIDIA's driver, the newest that the host's system offers, and look with `{line('gpus-now')}`"),
    Rule("edge10.host_gpu_missing", Severity.DEGRADED, rules.cards,
        "the step runs without a card, or not at all",
        f"see what the driver says of each: `{line('gpus-all')}`; vllm-runbooks inventory says what it means"),
    Rule("edge10.host_driver_old", Severity.HINT, rules.driver_old,
        "the containers' CUDA may be newer than the driver takes: then it ends with 'unsatisfied condition: cuda>='",
        "install the newest driver that the host's system offers"),
    Rule("edge10.host_toolkit_missing", Severity.FATAL, rules.toolkit,
        _NO_CARDS,
        f"install it from NVIDIA's packages, as by `{line('system-package', package='nvidia-container-toolkit')}`, and "
        f"{rules.RESTART}", _TOOLKIT),
    Rule("edge10.host_runtime_missing", Severity.HINT, rules.runtime,
        "--gpus all does without it; a container that is started with --runtime=nvidia, or by compose with that name, "
        "ends with 'unknown or invalid runtime name: nvidia'",
        f"tell docker of it: `{line('toolkit-for-docker')}`, and {rules.RESTART}", _TOOLKIT),
    # settings and registries
    Rule("edge10.host_daemon_broken", Severity.FATAL, rules.broken,
        "docker's service ends at its next start with 'unable to configure the Docker daemon with file'",
        f"mend the line; `{line('json', path=rules.SETTINGS)}` says whether it can be read", _DAEMON),
    Rule("edge10.host_daemon_twice", Severity.DEGRADED, rules.twice,
        "the last one counts, and what the others say is lost without a word",
        "join them to one", _DAEMON),
    Rule("edge10.host_registry_unloaded", Severity.DEGRADED, rules.unloaded,
        "fetching ends with 'http: server gave HTTP response to HTTPS client'", rules.RESTART, _INSECURE),
    Rule("edge10.host_registry_unlisted", Severity.DEGRADED, rules.insecure,
        "fetching ends with 'http: server gave HTTP response to HTTPS client', unless the registry has a certificate "
        "that this host trusts", "name it there", _INSECURE),
    Rule("edge10.host_registry_login", Severity.HINT, rules.login,
        "fetching ends with 'no basic auth credentials' where the registry asks for a login", "log in", _LOGIN),
    # the image
    Rule("edge10.host_image_missing", Severity.FATAL, rules.image_missing,
        "the container cannot be started before it is fetched", "fetch it"),
    Rule("edge10.host_image_foreign", Severity.FATAL, rules.image_foreign,
        "its programs end with 'exec format error'", "fetch the one for this host's processors",
        "https://docs.docker.com/build/building/multi-platform/"),
    # the model, and room for it
    Rule("edge10.host_model_refused", Severity.FATAL, rules.refused,
        "the step fails, or makes what nobody vouches for",
        "take a model of the list: vllm-runbooks edge10 models; or quantise it with an open tool, which the guide "
        "allows"),
    Rule("edge10.host_model_quantised", Severity.FATAL, rules.quantised,
        "the quantiser reads float weights", "name the float model"),
    Rule("edge10.host_disk_short", Severity.FATAL, rules.short("disk"),
        "the step ends with `No space left on device` after hours, and leaves half of its files",
        f"make room there, or name another folder; `{line('disks', path='/')}` shows every disk",
        _RECKONED),
    Rule("edge10.host_memory_short", Severity.FATAL, rules.short("memory"),
        "the kernel ends the process while it loads, which prints `Killed`",
        "end what holds the memory, take a larger host, or a smaller model", _RECKONED),
    Rule("edge10.host_gpu_memory_short", Severity.FATAL, rules.short("GPU memory"),
        "the second of the two servers ends with `CUDA out of memory`, or finds no room for its KV cache",
        "serve one model after the other, or take more cards; vllm-runbooks plan reckons each server",
        _RECKONED),
    Rule("edge10.host_folder_missing", Severity.DEGRADED, rules.folder_missing,
        "docker makes a folder that is missing (-v) for root: the container starts, finds no model, and its files "
        "belong to root",
        "make the folder first, or correct its name", "https://docs.docker.com/engine/storage/bind-mounts/"),
    Rule("edge10.host_folder_closed", Severity.DEGRADED, rules.folder_closed,
        "what is made outside of a container fails; what a container's root makes cannot be changed afterwards",
        "name a folder of your own"),
    # Python and variables
    Rule("edge10.host_package_version", Severity.DEGRADED, rules.packages,
        "compiling may end with `Segmentation fault (core dumped)`", "install the one that is named"),
    Rule("edge10.host_vllm_version", Severity.DEGRADED, rules.vllm,
        "float and quantised figures are those of another release, or its options are refused", "install that one"),
    Rule("edge10.host_python_unseen", Severity.HINT, rules.within,
        "compiling may end with `Segmentation fault (core dumped)` of another version",
        "run the preflight within the container, with its Python named (--python)"),
    Rule("edge10.host_threads", Severity.FATAL, rules.threads,
        "with a card and several threads compiling ends with `Expected all tensors to be on the same device`; a script "
        "that sets the variable itself, and a container without it, do not see this one",
        "set what suits the host"),
)  # fmt: skip
IDS = tuple(rule.id for rule in RULES)


def check(
    host: EdgeHost,
    asked: HostAsked,
    facts: Toolchain,
    specs: Specs,
    *,
    model: Subject | None = None,
    listed: AskedModel | None = None,
) -> CheckedHost:
    """A host with what it means for a step.

    Args:
        host: As it was asked, or as it was recorded.
        asked: The step, and what it is for.
        facts: Of the toolchain.
        specs: The cards that are known.
        model: The model that was named.
        listed: What the toolchain's list says of it.
    """
    if asked.data is not None and host.folder is not None and host.folder.path != asked.data:
        host = replace(host, folder=None)  # what was recorded is of another one
    needed = () if model is None else needs(host, asked.step, model, facts, specs)
    view = rules.View(host, facts, asked, needed, model, listed)
    found = tuple(_findings(view))
    unknown = tuple(_unknown(view))
    base = {name: getattr(host, name) for name in EdgeHost.__dataclass_fields__}
    is_wrong = any(each.severity is not Severity.HINT for each in found)
    return CheckedHost(
        **base,
        toolchain=facts.id,
        asked=asked,
        needs=needed,
        findings=found,
        unknown=unknown,
        ok=False if is_wrong else None if unknown else True,
    )


def _findings(view: rules.View) -> Iterator[ToolchainFinding]:
    for rule in RULES:
        for said in rule.says(view):
            yield ToolchainFinding(
                rule.id,
                said.severity or rule.severity,
                said.path,
                said.text,
                rule.effect,
                said.do or rule.do,
                rule.source or view.facts.source,
                said.symptom,
            )


# ---- what is not known


def _unknown(view: rules.View) -> Iterator[Untold]:
    """What would mean something, and is not known: it is never a pass."""
    yield from _of_docker(view)
    found = view.host.inventory
    if not view.knows_cards:
        yield Untold("cards and their driver", "nobody told")
    elif found.gpus and found.driver is None:
        yield Untold("release of the driver", "it was not told")
    if view.needs_docker and not view.is_within and view.host.toolkit is None:
        yield Untold("the container toolkit", "nobody told")
    yield from _of_model(view)
    if view.asked.step == "compile" and view.host.environment is None:
        yield Untold(f"{rules.THREADS} in the environment", "nobody told")
    yield from _of_python(view)


def _of_docker(view: rules.View) -> Iterator[Untold]:
    if not view.needs_docker:
        return
    if view.is_within:
        yield Untold("docker, its settings and images", "this is a container: look from its host as well")
        return
    docker = view.docker
    if docker is None:
        yield Untold("docker", "nobody told")
        return
    if docker.state is DockerState.UNKNOWN:
        yield Untold("docker's service", docker.why or "what it said is not understood")
    has_release = rules.numbers(docker.server or docker.client)
    if not has_release and docker.state not in (DockerState.MISSING, DockerState.PODMAN):
        yield Untold("docker's release", "it was not told")
    if docker.state is DockerState.ANSWERS and docker.runtimes is None:
        yield Untold("docker's runtimes", "its service did not tell")
    registry = view.asked.registry
    if registry is not None and not view.has_image and rules.is_known_insecure(view) is None:
        yield Untold(f"whether docker takes {registry} without a certificate", _why_not(view))
    if view.asked.image is None:
        yield Untold(f"whether the step's image ({view.step.image}) is there", "name it: --image NAME:TAG")
    elif view.has_image is None:
        yield Untold(f"whether the image {view.asked.image} is there", _why_not(view))
    here = rules.unseen_processors(view)
    if here:
        yield Untold(
            f"whether the step's image is for {here}", "it is not here to be looked at, and the guide is silent"
        )
    if view.has_image is False:
        free = "how much is free there is not told" if docker.root_free_gib is None else _free(docker.root_free_gib)
        yield Untold(
            "whether the step's image fits",
            f"it goes to {docker.root_folder or 'docker'}: {free}; its size is not told",
        )


def _free(gib: float) -> str:
    return f"{gib:,.1f} GiB are free there"


def _why_not(view: rules.View) -> str:
    """Why docker could not be asked."""
    docker = view.docker
    if docker is None or docker.state is DockerState.ANSWERS:
        return "it was not asked when this was recorded" if view.host.docker is not None else "nobody told"
    return f"docker: {docker.state.value}"


def _of_model(view: rules.View) -> Iterator[Untold]:
    if view.asked.model is None:
        yield Untold("disk and memory that the step takes", "name the model: --model NAME, or its folder")
        return
    if view.listed is not None and view.asked.step != "evaluate":
        told = {"quantise": view.listed.quantise, "compile": view.listed.compile}[view.asked.step]
        if told is None:
            near = f"; near: {', '.join(view.listed.near)}" if view.listed.near else ""
            yield Untold(f"whether the toolchain may {view.asked.step} {view.listed.name}", f"{view.listed.why}{near}")
    for need in view.needs:
        if need.is_enough is not None:
            continue
        if need.there_gib is None:
            is_named = need.what != "disk" or view.asked.data is not None
            why = "it was not told" if is_named else "name the folder of models and artefacts: --data DIR"
            yield Untold(f"{need.what} that is free", why)
        blank = [term.what for term in need.terms if term.gib is None]
        if blank:
            missing = view.model.stock.missing if view.model is not None else ()
            said = f"; its configuration does not tell {', '.join(missing[:4])}" if missing else ""
            yield Untold(f"{need.what} for {', '.join(blank)}", f"the model's size is not known{said}")


def _of_python(view: rules.View) -> Iterator[Untold]:
    """Versions in the Python that runs the step, where that is one that can be named."""
    wanted = {"vllm": view.step.vllm} if view.step.vllm is not None else {}
    if view.asked.step == "compile":
        wanted.update(view.facts.host.packages)
    is_outside = view.step.image is not None and view.host.inventory.host.is_container is not True
    if not wanted or (view.host.python is None and is_outside):
        return  # a hint says how the container's own is looked at
    names = ", ".join(wanted)
    if view.host.python is None:
        yield Untold(f"versions of {names} in the Python of this step", "name it: --python PATH")
        return
    packages = view.host.inventory.packages
    blank = [name for name in wanted if name != "vllm" and name not in (packages or {})]
    if packages is None or blank:
        yield Untold(f"versions of {', '.join(blank) or names}", f"{view.host.python} does not list them")
