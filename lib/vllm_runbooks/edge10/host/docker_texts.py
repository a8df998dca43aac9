"""Parse the output of the docker client and its files, which are untrusted.

The formats are those of docker 19.03 to 29 (`docker info --help`, the Engine API's SystemInfo).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.edge10.host.records import DaemonFile, DockerFacts, DockerState, ImageFacts

_MAX_TEXT = 400
_MAX_ITEMS = 1000
_MAX_BYTES = 1 << 60
_GIB = 1 << 30
_VERSION_NUMBER = r"version v?(\d{1,6}(?:\.\d{1,6}){1,3}[\w.+~-]{0,40})"
_VERSION = re.compile(rf"\bdocker {_VERSION_NUMBER}", re.IGNORECASE | re.ASCII)
_FAILURES: Sequence[tuple[DockerState, tuple[str, ...]]] = (
    (DockerState.DENIED, ("permission denied",)),
    (DockerState.STOPPED, (
        "cannot connect to the docker daemon", "failed to connect to the docker api", "is the docker daemon running",
        "connection refused", "error during connect", "docker desktop is unable to start",
    )),
)  # fmt: skip
"""Lower-case parts of messages; the first match counts."""
_LOCAL = ("unix://", "npipe://", "fd://")
_LOOPBACK = re.compile(r"tcp://(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?/?", re.ASCII)
_SCHEMES = ("http://", "https://")


def parse_program(text: str) -> str | None:
    """Parse `docker --version`."""
    match = _VERSION.search(text[:_MAX_TEXT])
    return match[1] if match else None


class DockerEndpoint(NamedTuple):
    """Endpoint of the docker client."""

    context: str | None
    address: str | None

    @property
    def is_local(self) -> bool:
        """Whether it is on this host, as far as is known."""
        return self.address is None or self.address.startswith(_LOCAL) or bool(_LOOPBACK.fullmatch(self.address))


def parse_endpoint(text: str) -> DockerEndpoint:
    """Parse `docker context inspect`, which respects DOCKER_HOST."""
    data = _object(text)
    endpoint = _part(_part(data, "Endpoints"), "docker")
    return DockerEndpoint(_text(data.get("Name")), _text(endpoint.get("Host")))


def parse_service(text: str, errors: str = "") -> DockerFacts:
    """Parse `docker info --format {{json .}}`, and its standard error."""
    data = _object(text)
    version = _text(data.get("ServerVersion"))
    if not version:
        why = " ".join([*_texts(data.get("ServerErrors")), *errors.split()])[:_MAX_TEXT]
        words = why.lower()
        states = (state for state, signs in _FAILURES if any(sign in words for sign in signs))
        return DockerFacts(next(states, DockerState.UNKNOWN), why or "it said nothing of its service")
    registries = _part(data, "RegistryConfig")
    indexes = list(_part(registries, "IndexConfigs").items())[:_MAX_ITEMS]
    insecure = (name[:_MAX_TEXT] for name, index in indexes if _mapping(index).get("Secure") is False)
    return DockerFacts(
        DockerState.ANSWERS,
        server=version,
        root_folder=_text(data.get("DockerRootDir")),
        runtimes=_names(data.get("Runtimes")),
        insecure_registries=tuple(insecure) if registries else None,
    )


def parse_image(name: str, text: str, errors: str = "") -> ImageFacts:
    """Parse `docker image inspect --format {{json .}} NAME`; its environment is not read."""
    data = _object(text)
    if "Id" not in data:
        return ImageFacts(name, False if "no such image" in errors.lower() else None)
    size = data.get("Size")
    return ImageFacts(name, True, size / _GIB if type(size) is int and 0 <= size < _MAX_BYTES else None)


def parse_daemon_file(path: str, text: str) -> DaemonFile:
    """Parse settings of docker's service, with the problem for which the service would reject them.

    An empty file has no settings (moby, daemon/config/config.go).
    """
    if not text.strip():
        return DaemonFile(path, exists=True, insecure_registries=(), runtimes=())
    try:
        data = loaded(text)
    except ValueError as error:
        return DaemonFile(path, exists=True, problem=f"invalid JSON: {error}")
    if not isinstance(data, dict):
        return DaemonFile(path, exists=True, problem="line 1: not a JSON object")
    registries, runtimes = data.get("insecure-registries"), data.get("runtimes")
    is_list = isinstance(registries, list) and all(isinstance(name, str) for name in registries)
    problem = ""
    if registries is not None and not is_list:
        problem = f'line {_line_of(text, "insecure-registries")}: "insecure-registries" is not a list of strings'
    elif runtimes is not None and not isinstance(runtimes, dict):
        problem = f'line {_line_of(text, "runtimes")}: "runtimes" is not an object'
    return DaemonFile(
        path,
        exists=True,
        problem=problem,
        insecure_registries=None if problem else tuple(map(_without_scheme, _texts(registries))),
        runtimes=None if problem else _names(runtimes) or (),
    )


def _without_scheme(name: str) -> str:
    """A registry as docker reads it, which warns of a scheme (moby, registry/config.go)."""
    return next((name[len(scheme) :] for scheme in _SCHEMES if name.startswith(scheme)), name)


def _line_of(text: str, key: str) -> int:
    return text[: max(text.find(f'"{key}"'), 0)].count("\n") + 1


def _object(text: str) -> dict[str, Any]:
    """The object of a JSON text, alone or in a list; empty if there is none."""
    try:
        data = loaded(text.strip() or "null")
    except ValueError:
        return {}
    return _mapping(data[0] if isinstance(data, list) and len(data) == 1 else data)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _part(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _mapping(data.get(name))


def _text(value: Any) -> str | None:
    return value[:_MAX_TEXT] if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    items = value[:_MAX_ITEMS] if isinstance(value, list) else ()
    return tuple(item[:_MAX_TEXT] for item in items if isinstance(item, str))


def _names(value: Any) -> tuple[str, ...] | None:
    return tuple(name[:_MAX_TEXT] for name in list(value)[:_MAX_ITEMS]) if isinstance(value, dict) else None
