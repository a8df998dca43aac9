"""What docker's program prints and its files hold, to facts; the texts come from outside, and may be anything.

The forms are those of docker 19.03 to 29 (`docker info --help`, the Engine API's SystemInfo) and podman 3 to 5, whose
program calls itself docker where podman-docker is installed. Of a login it is read whether there is one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.edge10.host.records import DaemonFile, DockerState

_MOST_WORDS = 400
_MOST_ITEMS = 1000
_MOST_BYTES = 1 << 60
_GIB = 1 << 30
_VERSION = re.compile(
    r"\b(docker|podman) version v?(\d{1,6}(?:\.\d{1,6}){1,3}[\w.+~-]{0,40})", re.IGNORECASE | re.ASCII
)
_TOOLKIT = re.compile(r"\bversion v?(\d{1,6}(?:\.\d{1,6}){1,3}[\w.+~-]{0,40})", re.ASCII)
_FAILURES: Sequence[tuple[DockerState, tuple[str, ...]]] = (
    (DockerState.DENIED, ("permission denied",)),
    (DockerState.STOPPED, (
        "cannot connect to the docker daemon", "failed to connect to the docker api", "is the docker daemon running",
        "connection refused", "error during connect", "docker desktop is unable to start",
    )),
)  # fmt: skip
"""Words of an answer by which it is known, small letters; the first that fits counts."""
LOCAL = ("unix://", "npipe://", "fd://")
"""How an address of a service on this host begins."""
_LOOPBACK = re.compile(r"tcp://(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?/?", re.ASCII)
_NO_REGISTRIES = ("http://", "https://")


class Program(NamedTuple):
    """What a program called docker is."""

    name: str | None
    """"docker" or "podman"; None: it says neither."""
    version: str | None


def program(text: str) -> Program:
    """What `docker --version` printed."""
    match = _VERSION.search(text[:_MOST_WORDS])
    return Program(match[1].lower(), match[2]) if match else Program(None, None)


def toolkit_version(text: str) -> str | None:
    """What `nvidia-ctk --version` printed."""
    match = _TOOLKIT.search(text[:_MOST_WORDS])
    return match[1] if match else None


class Endpoint(NamedTuple):
    """Where docker's program looks for the service."""

    context: str | None
    address: str | None

    @property
    def is_local(self) -> bool:
        """Whether it is on this host, as far as is known."""
        return self.address is None or self.address.startswith(LOCAL) or bool(_LOOPBACK.fullmatch(self.address))


def endpoint(text: str) -> Endpoint:
    """What `docker context inspect` printed of the context in use, which heeds DOCKER_HOST."""
    data = _object(text)
    own = _part(_part(data, "Endpoints"), "docker")
    return Endpoint(_text(data.get("Name")), _text(own.get("Host")))


class Service(NamedTuple):
    """What the service said of itself, or why it did not."""

    state: DockerState
    why: str = ""
    version: str | None = None
    system: str | None = None
    architecture: str | None = None
    is_rootless: bool | None = None
    root_folder: str | None = None
    runtimes: tuple[str, ...] | None = None
    insecure_registries: tuple[str, ...] | None = None
    insecure_networks: tuple[str, ...] | None = None


def service(text: str, errors: str = "") -> Service:
    """What `docker info --format {{json .}}` printed, and what it wrote on standard error."""
    data = _object(text)
    if "host" in data and "store" in data:
        return Service(DockerState.PODMAN, version=_text(_part(data, "version").get("Version")))
    said = _text(data.get("ServerVersion"))
    if not said:
        why = " ".join([*_texts(data.get("ServerErrors")), *errors.split()])[:_MOST_WORDS]
        return Service(failure(why), why or "it said nothing of its service")
    registries = _part(data, "RegistryConfig")
    indexes = _part(registries, "IndexConfigs")
    options = data.get("SecurityOptions")
    return Service(
        DockerState.ANSWERS,
        version=said,
        system=_text(data.get("OperatingSystem")),
        architecture=_text(data.get("Architecture")),
        is_rootless=any("name=rootless" in each.split(",") for each in _texts(options))
        if isinstance(options, list)
        else None,
        root_folder=_text(data.get("DockerRootDir")),
        runtimes=_names(data.get("Runtimes")),
        insecure_registries=tuple(
            name[:_MOST_WORDS]
            for name, told in list(indexes.items())[:_MOST_ITEMS]
            if isinstance(told, dict) and told.get("Secure") is False
        )
        if registries
        else None,
        insecure_networks=_texts(registries.get("InsecureRegistryCIDRs")) if registries else None,
    )


def failure(why: str) -> DockerState:
    """What became of a question, by what docker said instead of an answer."""
    words = why.lower()
    return next((state for state, signs in _FAILURES if any(sign in words for sign in signs)), DockerState.UNKNOWN)


class Image(NamedTuple):
    """What docker said of an image."""

    is_there: bool | None
    size_gib: float | None = None
    architecture: str | None = None


def image(text: str, errors: str = "") -> Image:
    """What `docker image inspect --format {{json .}} NAME` printed; of its environment nothing is read."""
    data = _object(text)
    if "Id" not in data:
        return Image(False if "no such image" in errors.lower() else None)
    size = data.get("Size")
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MOST_BYTES
    return Image(True, size / _GIB if is_size and isinstance(size, int) else None, _text(data.get("Architecture")))


def daemon_file(path: str, text: str) -> DaemonFile:
    """The settings of docker's service in a file, as the service would take them; what it would refuse is said.

    A file without content counts as one without settings (moby, daemon/config/config.go: it is decoded by Go, which
    takes the last of two keys of one name).
    """
    if not text.strip():
        return DaemonFile(path, is_there=True, insecure_registries=(), runtimes=())
    try:
        data = loaded(text)
    except ValueError as error:
        return DaemonFile(path, is_there=True, problem=f"is no JSON: {error}")
    if not isinstance(data, dict):
        return DaemonFile(path, is_there=True, problem="line 1: is no JSON object")
    named = data.get("insecure-registries")
    runtimes = data.get("runtimes")
    problem = ""
    if named is not None and not (isinstance(named, list) and all(isinstance(each, str) for each in named)):
        problem = f'line {_line_of(text, "insecure-registries")}: "insecure-registries" is no list of texts'
    elif runtimes is not None and not isinstance(runtimes, dict):
        problem = f'line {_line_of(text, "runtimes")}: "runtimes" is no object'
    return DaemonFile(
        path,
        is_there=True,
        problem=problem,
        twice=tuple(_twice(text)),
        insecure_registries=None if problem else tuple(map(_bare, _texts(named))),
        runtimes=None if problem else _names(runtimes) or (),
    )


def _bare(name: str) -> str:
    """A registry without what docker takes off it, with a warning (moby, registry/config.go)."""
    return next((name.removeprefix(begun) for begun in _NO_REGISTRIES if name.lower().startswith(begun)), name)


def _line_of(text: str, key: str) -> int:
    return text[: max(text.find(f'"{key}"'), 0)].count("\n") + 1


def _twice(text: str) -> Iterator[str]:
    """Keys that stand more than once in one object of a JSON text that can be read."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    with suppress(RecursionError):  # this needs a little more depth than reading it did
        json.loads(text, object_pairs_hook=look)
    yield from (key[:_MOST_WORDS] for key in found[:_MOST_ITEMS])


def has_login(text: str, registry: str) -> bool | None:
    """Whether the settings of docker's program (config.json) have a login for a registry; None: that is not known.

    Where a program keeps the logins, the settings have an empty entry for each (docker/cli, cli/config/credentials).
    """
    try:
        data = loaded(text) if text.strip() else {}
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    if registry in _part(data, "credHelpers"):
        return None  # that program knows, and is not asked
    entry = next((told for name, told in _part(data, "auths").items() if _place(name) == registry), None)
    return entry is not None and (bool(entry) or bool(data.get("credsStore")))


def _place(name: str) -> str:
    """The registry that an entry is of; older ones are addresses with a path."""
    bare = next((name.removeprefix(begun) for begun in _NO_REGISTRIES if name.startswith(begun)), name)
    return bare.partition("/")[0]


def _object(text: str) -> dict[str, Any]:
    """The object that a text is, alone or in a list; empty: it is none."""
    try:
        data = loaded(text.strip() or "null")
    except ValueError:
        return {}
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    return data if isinstance(data, dict) else {}


def _part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: Any) -> str | None:
    return value[:_MOST_WORDS] if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(each[:_MOST_WORDS] for each in value[:_MOST_ITEMS] if isinstance(each, str))


def _names(value: Any) -> tuple[str, ...] | None:
    return tuple(name[:_MOST_WORDS] for name in list(value)[:_MOST_ITEMS]) if isinstance(value, dict) else None
