"""Convert a launch to another form, and read it again to be sure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.deployment import (
    Deployment,
    parser_entry,
    references,
    references_of,
    to_compose,
    to_docker,
    to_shell,
    to_systemd,
)
from vllm_runbooks.reading.documents import gpus, images
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_WRITTEN_KEYS = ("image", "command", "args", "entrypoint", "environment", "env", "ports", "deploy", "ipc", "name")
"""Keys of a service or container that every form can express."""
_DETACHING = frozenset({"nohup", "setsid", "exec", "env", "/usr/bin/env"})
_WRITTEN_OPTIONS = {
    *("--rm", "--gpus", "--ipc", "-p", "--publish", "-e", "--env", "--entrypoint", "--name"),
    *("-d", "--detach", "-it", "-i", "-t"),
}
"""Options of `docker run` that are written again or don't matter."""
_ON_HOST = ("shell", "systemd")
WRITERS = {"shell": to_shell, "docker": to_docker, "compose": to_compose, "systemd": to_systemd}
FILES = {"shell": "serve.sh", "docker": "serve.sh", "compose": "compose.yaml", "systemd": "vllm.service"}
"""File name that identifies a form."""


def converted(launch: WrittenLaunch, to: str, release: ReleaseData) -> tuple[str, Deployment]:
    """Convert a launch to another form; raise an error if its meaning would change."""
    if launch.entry not in options.SERVERS:
        raise InputError(f"{launch.entry} does not start a server; use a file that launches one")
    deployment = Deployment.of(launch)
    words = deployment.words
    entry = deployment.entry
    is_contained = to in ("docker", "compose")
    if entry == "image" and not (is_contained and deployment.image):
        entry = parser_entry(entry, words, release)
    image = deployment.image if images.published_tag(deployment.image) is None else None
    deployment = _with_gpus(deployment, launch, is_contained=is_contained)
    deployment = replace(deployment, entry=entry, image=image, release=release.asked)
    text = WRITERS[to](deployment)
    again = documents.read(text, FILES[to]).starts
    if len(again) != 1 or not _is_read(again[0], deployment):
        raise InputError(f"this launch cannot be converted to {to} reliably; write it manually")
    return text, deployment


def _with_gpus(deployment: Deployment, launch: WrittenLaunch, *, is_contained: bool) -> Deployment:
    """Set the GPUs once: for a container as devices, else in a variable."""
    if not isinstance(deployment.gpus, tuple) or (not is_contained and launch.kind in _ON_HOST):
        return deployment
    others = tuple(pair for pair in deployment.environment if pair[0] not in gpus.VARIABLES)
    visible = () if is_contained else (("CUDA_VISIBLE_DEVICES", ",".join(deployment.gpus)),)
    return replace(deployment, environment=(*others, *visible))


def _is_read(launch: WrittenLaunch, written: Deployment) -> bool:
    """Whether the written launch has the same words and variables, as far as known."""
    handed = set(references(written))
    environment = {name: value for name, value in written.environment if name not in handed}
    read = {name: setting.value.value for name, setting in launch.environment.items() if name not in handed}
    hidden = references_of(written)
    return (
        len(launch.words) == len(written.words)
        and environment == read
        and all(
            word.value == value or index in hidden
            for index, (word, value) in enumerate(zip(launch.words, written.words, strict=True))
        )
    )


def left_out(launch: WrittenLaunch, to: str) -> tuple[str, ...]:
    """Parts that the other form cannot express: mounts, limits, wrappers, keys of a service."""
    lost: list[str] = []
    if launch.kind == "docker":
        lost += _lost_options(launch)
    elif launch.keys:
        lost += [key for key in launch.keys if key not in _WRITTEN_KEYS]
    elif launch.kind in ("shell", "systemd"):
        before = [word.value or word.raw for word in launch.prefix]
        program = next((at for at, word in enumerate(before) if re.search(r"(?:^|/)(?:vllm|python[\d.]*)$", word)), 0)
        harmless = {*_DETACHING, *launch.environment}
        around = [word for word in before[:program] if word.partition("=")[0] not in harmless]
        lost += [" ".join(around)] if around else []
    is_counted = launch.gpus is not None and launch.gpus.devices is None and launch.gpus.count is not None
    if is_counted and to in ("shell", "systemd") and launch.kind not in _ON_HOST:
        lost.append("number of GPUs; CUDA_VISIBLE_DEVICES selects them outside a container")
    return tuple(lost)


def _lost_options(launch: WrittenLaunch) -> Iterator[str]:
    words = [word.value or word.raw for word in (launch.container.words if launch.container is not None else ())]
    for at, word in enumerate(words):
        if not word.startswith("-") or word.partition("=")[0] in _WRITTEN_OPTIONS:
            continue
        following = words[at + 1] if at + 1 < len(words) else "-"
        yield word if "=" in word or following.startswith("-") else f"{word} {following}"
