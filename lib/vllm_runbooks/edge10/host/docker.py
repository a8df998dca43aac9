"""Ask docker and the container toolkit of this host for their facts; nothing is pulled, started or logged in to."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.edge10.host import asking, docker_texts
from vllm_runbooks.edge10.host.asking import ask
from vllm_runbooks.edge10.host.records import DaemonFile, DockerFacts, DockerState, RegistryLogin, ToolkitFacts

_GIB = 1 << 30
_MAX_FILE = 4 << 20
"""Bytes of a settings file."""
_TOOLKIT = (
    "nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-runtime",
    "nvidia-container-cli",
)  # fmt: skip
"""Programs of the toolkit; not every release has all of them."""
SYSTEM = Path("/etc/docker/daemon.json")


def facts(image: str | None = None, registry: str | None = None) -> DockerFacts:
    """Docker on this host, with an image and the login for a registry.

    A service on another host is not asked: that may log in there.
    """
    docker = replace(_program(), files=tuple(_settings_files()), logins=tuple(_logins(registry)))
    if docker.state is DockerState.MISSING:
        return docker
    if docker.state is not DockerState.PODMAN:
        docker = _service(docker)
    if image is None or docker.state not in (DockerState.ANSWERS, DockerState.PODMAN):
        return docker
    answer = ask(host_commands.argv("docker-image", image=image))
    return replace(docker, images=(docker_texts.parse_image(image, answer.output, answer.errors),))


def toolkit() -> ToolkitFacts:
    """The container toolkit, by its programs on the path."""
    programs = tuple(name for name in _TOOLKIT if shutil.which(name) is not None)
    output = ask(host_commands.argv("toolkit-program")).output if _TOOLKIT[0] in programs else ""
    return ToolkitFacts(docker_texts.parse_toolkit_version(output), programs)


def _program() -> DockerFacts:
    """The program, which prints its release without asking the service."""
    if shutil.which("docker") is None:
        return DockerFacts(DockerState.MISSING)
    answer = ask(host_commands.argv("docker-program"))
    program = docker_texts.parse_program(answer.output)
    if program.name == "podman":
        return DockerFacts(DockerState.PODMAN, client=program.version)
    why = "" if answer.status == 0 else " ".join(answer.errors.split())[:400]
    if answer.is_late:
        why = f"its program gave no answer within {asking.LIMIT_S:g} s"
    elif answer.status != 0 and not why:
        why = f"its program ended with status {answer.status}"
    return DockerFacts(why=why, client=program.version)


def _service(docker: DockerFacts) -> DockerFacts:
    """The service that the program connects to, unless it is on another host."""
    endpoint = docker_texts.parse_endpoint(ask(host_commands.argv("docker-context")).output)
    if endpoint.address is None:
        endpoint = endpoint._replace(address=os.environ.get("DOCKER_HOST") or None)
    docker = replace(docker, endpoint=endpoint.address, context=endpoint.context)
    if not endpoint.is_local:
        return replace(docker, state=DockerState.REMOTE, why="")
    answer = ask(host_commands.argv("docker-service"))
    if answer.is_late:
        return replace(docker, state=DockerState.SILENT, why=f"none within {asking.LIMIT_S:g} s")
    service = docker_texts.parse_service(answer.output, answer.errors)
    is_denied = service.state is DockerState.DENIED
    is_listed, is_in_group = _group_membership(endpoint.address) if is_denied else (None, None)
    return replace(
        service,
        client=docker.client,
        endpoint=docker.endpoint,
        context=docker.context,
        files=docker.files,
        logins=docker.logins,
        root_free_gib=_free_gib(service.root_folder),
        is_listed=is_listed,
        is_in_group=is_in_group,
    )


def _free_gib(folder: str | None) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        if folder:
            disk = os.statvfs(folder)
            return disk.f_bavail * disk.f_frsize / _GIB
    return None


def _group_membership(address: str | None) -> tuple[bool | None, bool | None]:
    """Whether the system lists this user in the group of the service's socket, and whether this process has it."""
    import grp  # not on every system
    import pwd

    with contextlib.suppress(OSError, KeyError):
        number = Path((address or "unix:///var/run/docker.sock").removeprefix("unix://")).stat().st_gid
        user = pwd.getpwuid(os.getuid()).pw_name
        return user in grp.getgrgid(number).gr_mem, number in (*os.getgroups(), os.getgid())
    return None, None


def _settings_files() -> Iterator[DaemonFile]:
    """Settings of the service: the system's, and those of a rootless service."""
    folder = _user_folder(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    for path in (SYSTEM, *(() if folder is None else (folder / "docker" / "daemon.json",))):
        is_there, text = _read(path)
        if is_there:
            yield docker_texts.parse_daemon_file(str(path), text)
        elif is_there is None or path == SYSTEM:
            yield DaemonFile(str(path), is_there=is_there)


def _logins(registry: str | None) -> Iterator[RegistryLogin]:
    """Whether docker's program has a login for a registry; nothing of the login is kept."""
    if registry is not None:
        folder = _user_folder(os.environ.get("DOCKER_CONFIG") or "~/.docker")
        is_there, text = (None, "") if folder is None else _read(folder / "config.json")
        yield RegistryLogin(registry, docker_texts.has_login(text, registry) if is_there else is_there)


def _user_folder(folder: str) -> Path | None:
    """A folder of this user; None without a home, as in some containers."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        return None


def _read(path: Path) -> tuple[bool | None, str]:
    """Whether a file exists, and its text; None if it may not be read, is too large or no file."""
    try:
        if path.exists() and not path.is_file():
            return None, ""
        with path.open("rb") as stream:
            raw = stream.read(_MAX_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return False, ""
    except (OSError, ValueError):
        return None, ""
    return (None, "") if len(raw) > _MAX_FILE else (True, raw.decode("utf-8-sig", "replace"))
