"""A start in another form: written, read again to be sure, and what the other form does not say."""

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
from vllm_runbooks.reading.documents.starts import Found

_WRITTEN_KEYS = frozenset(
    {"image", "command", "args", "entrypoint", "environment", "env", "ports", "deploy", "ipc", "name"}
)
"""Keys of a service or container that a form has words for."""
_DETACHING = frozenset({"nohup", "setsid", "exec", "env", "/usr/bin/env"})
"""Words in front of a program that say nothing about it."""
_WRITTEN_OPTIONS = {
    *("--rm", "--gpus", "--ipc", "-p", "--publish", "-e", "--env", "--entrypoint", "--name"),
    *("-d", "--detach", "-it", "-i", "-t"),
}
"""Options of `docker run` that are written again, or that only say how this one was run."""
_ON_HOST = ("shell", "systemd")
"""Kinds of starts that are in no container."""
WRITERS = {"shell": to_shell, "docker": to_docker, "compose": to_compose, "systemd": to_systemd}
"""What writes each form."""
FILES = {"shell": "serve.sh", "docker": "serve.sh", "compose": "compose.yaml", "systemd": "vllm.service"}
"""A file's name by which each form is read again."""


def converted(found: Found, to: str, release: ReleaseData) -> tuple[str, Deployment]:
    """A start written in another form, for a release, and the deployment that was written.

    Raises:
        InputError: It is no server, or what is written would not be read as it was.
    """
    if found.entry not in options.SERVERS:
        raise InputError(f"{found.entry} starts no server; give a file with a start of one")
    one = Deployment.of(found)
    words = one.words
    entry = one.entry
    is_contained = to in ("docker", "compose")
    if entry == "image" and not (is_contained and one.image):
        entry = parser_entry(entry, words, release)
    image = one.image if images.published_tag(one.image) is None else None
    one = replace(_with_gpus(one, found, is_contained=is_contained), entry=entry, image=image, release=release.asked)
    text = WRITERS[to](one)
    again = documents.read(text, FILES[to]).starts
    if len(again) != 1 or not _is_read(again[0], one):
        raise InputError(f"this start cannot be written as {to} without doubt; write it by hand")
    return text, one


def _with_gpus(one: Deployment, found: Found, *, is_contained: bool) -> Deployment:
    """With GPUs that are named said once: a container is given them and counts anew, elsewhere a variable says it."""
    if not isinstance(one.gpus, tuple) or (not is_contained and found.kind in _ON_HOST):
        return one
    others = tuple(pair for pair in one.environment if pair[0] not in gpus.VARIABLES)
    return replace(one, environment=others if is_contained else (*others, ("CUDA_VISIBLE_DEVICES", ",".join(one.gpus))))


def _is_read(found: Found, written: Deployment) -> bool:
    """Whether a start that is read has the words and variables that were written, as far as these are known."""
    handed = set(references(written))
    environment = {name: value for name, value in written.environment if name not in handed}
    read = {name: one.value.value for name, one in found.environment.items() if name not in handed}
    hidden = references_of(written)
    return (
        len(found.words) == len(written.words)
        and environment == read
        and all(
            word.value == value or index in hidden
            for index, (word, value) in enumerate(zip(found.words, written.words, strict=True))
        )
    )


def left_out(found: Found, to: str) -> tuple[str, ...]:
    """What stands around a start and no other form says: mounts, limits, wrappers, keys of a service."""
    lost: list[str] = []
    if found.kind == "docker":
        lost += _lost_options(found)
    elif found.keys:
        lost += [key for key in found.keys if key not in _WRITTEN_KEYS]
    elif found.kind in ("shell", "systemd"):
        before = [word.value or word.raw for word in found.prefix]
        program = next((at for at, word in enumerate(before) if re.search(r"(?:^|/)(?:vllm|python[\d.]*)$", word)), 0)
        told = {*_DETACHING, *found.environment}
        around = [word for word in before[:program] if word.partition("=")[0] not in told]
        lost += [" ".join(around)] if around else []
    is_counted = found.gpus is not None and found.gpus.devices is None and found.gpus.count is not None
    if is_counted and to in ("shell", "systemd") and found.kind not in _ON_HOST:
        lost.append("how many GPUs it is given; CUDA_VISIBLE_DEVICES says which outside of a container")
    return tuple(lost)


def _lost_options(found: Found) -> Iterator[str]:
    """Options of `docker run` that are not written again, each with its value."""
    words = [word.value or word.raw for word in found.container]
    for at, word in enumerate(words):
        if not word.startswith("-") or word.partition("=")[0] in _WRITTEN_OPTIONS:
            continue
        following = words[at + 1] if at + 1 < len(words) else "-"
        yield word if "=" in word or following.startswith("-") else f"{word} {following}"
