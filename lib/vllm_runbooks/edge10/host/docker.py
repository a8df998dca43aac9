"""Ask docker and the container toolkit of this host what they are; nothing is fetched, started or logged in to."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.core import host_commands
from vllm_runbooks.edge10.host import asking, docker_texts
from vllm_runbooks.edge10.host.asking import Answer, ask
from vllm_runbooks.edge10.host.records import (
    DaemonFile,
    DockerFacts,
    DockerState,
    ImageFacts,
    RegistryLogin,
    ToolkitFacts,
)

_GIB = 1 << 30
_MAX_FILE = 4 << 20
"""Bytes of a settings file."""
_TOOLKIT = (
    "nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-runtime",
    "nvidia-container-cli",
)  # fmt: skip
"""Programs of the toolkit; which of them a release has differs."""
SYSTEM = Path("/etc/docker/daemon.json")
"""The service's settings."""


class Wanted(NamedTuple):
    """What docker is asked for beside itself."""

    image: str | None = None
    registry: str | None = None


def facts(wanted: Wanted) -> DockerFacts:
    """Docker on this host, with the image and the registry that are looked for.

    A service on another host is not asked: that may log in there, and its answers would be of no use.
    """
    found = replace(_program(), files=tuple(_files()), logins=tuple(_logins(wanted.registry)))
    if found.state is DockerState.MISSING:
        return found
    if found.state is not DockerState.PODMAN:
        found = _service(found)
    can_tell = found.state in (DockerState.ANSWERS, DockerState.PODMAN)
    return replace(found, images=tuple(_images(wanted.image))) if can_tell else found


def toolkit() -> ToolkitFacts:
    """The container toolkit, by its programs on the path."""
    programs = tuple(name for name in _TOOLKIT if shutil.which(name) is not None)
    said = ask(host_commands.argv("toolkit-program")).output if programs[:1] == _TOOLKIT[:1] else ""
    return ToolkitFacts(docker_texts.toolkit_version(said), programs)


def _program() -> DockerFacts:
    """The program, which tells its own release without asking the service."""
    if shutil.which("docker") is None:
        return DockerFacts(DockerState.MISSING)
    said = ask(host_commands.argv("docker-program"))
    program = docker_texts.program(said.output)
    if program.name == "podman":
        return DockerFacts(DockerState.PODMAN, client=program.version)
    return DockerFacts(why=_why(said) if said.status != 0 else "", client=program.version)


def _service(found: DockerFacts) -> DockerFacts:
    """The service where the program looks for it, unless that is another host."""
    at = docker_texts.endpoint(ask(host_commands.argv("docker-context")).output)
    if at.address is None:
        at = at._replace(address=os.environ.get("DOCKER_HOST") or None)
    found = replace(found, endpoint=at.address, context=at.context)
    if not at.is_local:
        return replace(found, state=DockerState.REMOTE, why="")
    said = ask(host_commands.argv("docker-service"))
    if said.is_late:
        return replace(found, state=DockerState.SILENT, why=f"none within {asking.LIMIT_S:g} s")
    told = docker_texts.service(said.output, said.errors)
    listed, own = _group(at.address) if told.state is DockerState.DENIED else (None, None)
    return replace(
        found,
        state=told.state,
        why=told.why,
        server=told.version,
        system=told.system,
        architecture=told.architecture,
        is_rootless=told.is_rootless,
        root_folder=told.root_folder,
        root_free_gib=_free(told.root_folder),
        runtimes=told.runtimes,
        insecure_registries=told.insecure_registries,
        insecure_networks=told.insecure_networks,
        is_listed=listed,
        is_in_group=own,
    )


def _why(said: Answer) -> str:
    if said.is_late:
        return f"its program gave no answer within {asking.LIMIT_S:g} s"
    return " ".join(said.errors.split())[:400] or f"its program ended with status {said.status}"


def _free(folder: str | None) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        if folder:
            told = os.statvfs(folder)
            return told.f_bavail * told.f_frsize / _GIB
    return None


def _group(address: str | None) -> tuple[bool | None, bool | None]:
    """Whether the system lists this user in the group of the service's socket, and whether this process has it."""
    import grp  # not on every system
    import pwd

    with contextlib.suppress(OSError, KeyError):
        number = Path((address or "unix:///var/run/docker.sock").removeprefix("unix://")).stat().st_gid
        user = pwd.getpwuid(os.getuid()).pw_name
        return user in grp.getgrgid(number).gr_mem, number in (*os.getgroups(), os.getgid())
    return None, None


def _images(name: str | None) -> Iterator[ImageFacts]:
    if name is not None:
        said = ask(host_commands.argv("docker-image", image=name))
        told = docker_texts.image(said.output, said.errors)
        yield ImageFacts(name, told.is_there, told.size_gib, told.architecture)


def _files() -> Iterator[DaemonFile]:
    """The service's settings: the system's, and those of a service without root's rights."""
    own = _own(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    for path in (SYSTEM, *(() if own is None else (own / "docker" / "daemon.json",))):
        is_there, text = _text(path)
        if is_there:
            yield docker_texts.daemon_file(str(path), text)
        elif is_there is None or path == SYSTEM:
            yield DaemonFile(str(path), is_there=is_there)


def _logins(registry: str | None) -> Iterator[RegistryLogin]:
    """Whether docker's program has a login for a registry; of the login itself nothing is kept."""
    if registry is None:
        return
    own = _own(os.environ.get("DOCKER_CONFIG") or "~/.docker")
    is_there, text = (None, "") if own is None else _text(own / "config.json")
    has = docker_texts.has_login(text, registry) if is_there else is_there
    yield RegistryLogin(registry, has)


def _own(folder: str) -> Path | None:
    """A folder of this user; None: the user has no home, as in some containers."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        return None


def _text(path: Path) -> tuple[bool | None, str]:
    """Whether a file is there, and what it holds; None: it may not be read, or is no file that can be."""
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
