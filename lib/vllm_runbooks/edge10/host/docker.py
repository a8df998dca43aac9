"""Collect facts from docker and the container toolkit of this host.

Nothing is pulled, started or logged in to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.edge10.host import asking, docker_texts
from vllm_runbooks.edge10.host.asking import ask
from vllm_runbooks.edge10.host.records import DaemonFile, DockerFacts, DockerState, ToolkitFacts

_GIB = 1 << 30
_MAX_FILE = 4 << 20
"""Bytes of a settings file."""
_TOOLKIT = (
    "nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-runtime",
    "nvidia-container-cli",
)  # fmt: skip
"""Programs of the toolkit; not every release has all of them."""
SYSTEM = Path("/etc/docker/daemon.json")


def facts(image: str | None = None) -> DockerFacts:
    """Facts of docker on this host, and of an image.

    A daemon on another host is not contacted: that may log in there.
    """
    is_there, text = _read(SYSTEM)
    file = docker_texts.parse_daemon_file(str(SYSTEM), text) if is_there else DaemonFile(str(SYSTEM), is_there)
    docker = replace(_program(), files=(file,))
    if docker.state is not DockerState.MISSING:
        docker = _service(docker)
    if image is None or docker.state is not DockerState.ANSWERS:
        return docker
    answer = ask(host_commands.argv("docker-image", image=image))
    return replace(docker, images=(docker_texts.parse_image(image, answer.output, answer.errors),))


def toolkit() -> ToolkitFacts:
    """The container toolkit, by its programs on the path."""
    return ToolkitFacts(tuple(name for name in _TOOLKIT if shutil.which(name) is not None))


def _program() -> DockerFacts:
    """The program, which prints its release without asking the service."""
    if shutil.which("docker") is None:
        return DockerFacts(DockerState.MISSING)
    answer = ask(host_commands.argv("docker-program"))
    why = "" if answer.status == 0 else " ".join(answer.errors.split())[:400]
    if answer.is_late:
        why = f"the docker CLI did not answer within {asking.LIMIT_S:g} s"
    elif answer.status != 0 and not why:
        why = f"the docker CLI exited with status {answer.status}"
    return DockerFacts(reason=why, client=docker_texts.parse_program(answer.output))


def _service(docker: DockerFacts) -> DockerFacts:
    """The service that the program connects to, unless it is on another host."""
    endpoint = docker_texts.parse_endpoint(ask(host_commands.argv("docker-context")).output)
    if endpoint.address is None:
        endpoint = endpoint._replace(address=os.environ.get("DOCKER_HOST") or None)
    docker = replace(docker, endpoint=endpoint.address, context=endpoint.context)
    if not endpoint.is_local:
        return replace(docker, state=DockerState.REMOTE, reason="")
    answer = ask(host_commands.argv("docker-service"))
    if answer.is_late:
        return replace(docker, state=DockerState.SILENT, reason=f"none within {asking.LIMIT_S:g} s")
    service = docker_texts.parse_service(answer.output, answer.errors)
    return replace(
        service,
        client=docker.client,
        endpoint=docker.endpoint,
        context=docker.context,
        files=docker.files,
        root_free_gib=_free_gib(service.root_folder),
    )


def _free_gib(folder: str | None) -> float | None:
    with contextlib.suppress(OSError, ValueError):
        if folder:
            disk = os.statvfs(folder)
            return disk.f_bavail * disk.f_frsize / _GIB
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
