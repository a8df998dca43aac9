"""Parse the output of docker's program and its files, which are untrusted.

The formats are those of docker 19.03 to 29 (`docker info --help`, the Engine API's SystemInfo) and podman 3 to 5, whose
program calls itself docker with podman-docker. Of a login only its existence is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.edge10.host.records import DaemonFile, DockerFacts, DockerState, ImageFacts

_MAX_TEXT = 400
_MAX_ITEMS = 1000
_MAX_BYTES = 1 << 60
_GIB = 1 << 30
_VERSION_NUMBER = r"version v?(\d{1,6}(?:\.\d{1,6}){1,3}[\w.+~-]{0,40})"
_VERSION = re.compile(rf"\b(docker|podman) {_VERSION_NUMBER}", re.IGNORECASE | re.ASCII)
_TOOLKIT = re.compile(rf"\b{_VERSION_NUMBER}", re.ASCII)
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


class ContainerProgram(NamedTuple):
    """The program called docker."""

    name: str | None
    """`docker` or `podman`; None if it says neither."""
    version: str | None


def parse_program(text: str) -> ContainerProgram:
    """Parse `docker --version`."""
    match = _VERSION.search(text[:_MAX_TEXT])
    return ContainerProgram(match[1].lower(), match[2]) if match else ContainerProgram(None, None)


def parse_toolkit_version(text: str) -> str | None:
    """Parse `nvidia-ctk --version`."""
    match = _TOOLKIT.search(text[:_MAX_TEXT])
    return match[1] if match else None


class DockerEndpoint(NamedTuple):
    """Where docker's program connects to."""

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
    """Parse `docker info --format {{json .}}`, and what it printed on standard error."""
    data = _object(text)
    if "host" in data and "store" in data:
        return DockerFacts(DockerState.PODMAN, server=_text(_part(data, "version").get("Version")))
    version = _text(data.get("ServerVersion"))
    if not version:
        why = " ".join([*_texts(data.get("ServerErrors")), *errors.split()])[:_MAX_TEXT]
        words = why.lower()
        states = (state for state, signs in _FAILURES if any(sign in words for sign in signs))
        return DockerFacts(next(states, DockerState.UNKNOWN), why or "it said nothing of its service")
    registries, options = _part(data, "RegistryConfig"), data.get("SecurityOptions")
    indexes = list(_part(registries, "IndexConfigs").items())[:_MAX_ITEMS]
    insecure = (name[:_MAX_TEXT] for name, index in indexes if _mapping(index).get("Secure") is False)
    is_rootless = any("name=rootless" in option.split(",") for option in _texts(options))
    return DockerFacts(
        DockerState.ANSWERS,
        server=version,
        system=_text(data.get("OperatingSystem")),
        architecture=_text(data.get("Architecture")),
        is_rootless=is_rootless if isinstance(options, list) else None,
        root_folder=_text(data.get("DockerRootDir")),
        runtimes=_names(data.get("Runtimes")),
        insecure_registries=tuple(insecure) if registries else None,
        insecure_networks=_texts(registries.get("InsecureRegistryCIDRs")) if registries else None,
    )


def parse_image(name: str, text: str, errors: str = "") -> ImageFacts:
    """Parse `docker image inspect --format {{json .}} NAME`; its environment is not read."""
    data = _object(text)
    if "Id" not in data:
        return ImageFacts(name, False if "no such image" in errors.lower() else None)
    size = data.get("Size")
    is_size = type(size) is int and 0 <= size < _MAX_BYTES
    return ImageFacts(name, True, float(size or 0) / _GIB if is_size else None, _text(data.get("Architecture")))


def parse_daemon_file(path: str, text: str) -> DaemonFile:
    """Parse settings of docker's service, with the problem for which the service would reject them.

    An empty file has no settings (moby, daemon/config/config.go; Go takes the last of two equal keys).
    """
    if not text.strip():
        return DaemonFile(path, is_there=True, insecure_registries=(), runtimes=())
    try:
        data = loaded(text)
    except ValueError as error:
        return DaemonFile(path, is_there=True, problem=f"is no JSON: {error}")
    if not isinstance(data, dict):
        return DaemonFile(path, is_there=True, problem="line 1: is no JSON object")
    registries, runtimes = data.get("insecure-registries"), data.get("runtimes")
    is_list = isinstance(registries, list) and all(isinstance(name, str) for name in registries)
    problem = ""
    if registries is not None and not is_list:
        problem = f'line {_line_of(text, "insecure-registries")}: "insecure-registries" is no list of texts'
    elif runtimes is not None and not isinstance(runtimes, dict):
        problem = f'line {_line_of(text, "runtimes")}: "runtimes" is no object'
    return DaemonFile(
        path,
        is_there=True,
        problem=problem,
        twice=_repeated_keys(text),
        insecure_registries=None if problem else tuple(map(_without_scheme, _texts(registries))),
        runtimes=None if problem else _names(runtimes) or (),
    )


def _without_scheme(name: str) -> str:
    """A registry as docker reads it, which warns of a scheme (moby, registry/config.go)."""
    return next((name[len(scheme) :] for scheme in _SCHEMES if name.startswith(scheme)), name)


def _line_of(text: str, key: str) -> int:
    return text[: max(text.find(f'"{key}"'), 0)].count("\n") + 1


def _repeated_keys(text: str) -> tuple[str, ...]:
    keys: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        keys.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    with suppress(RecursionError):  # a hook needs a little more depth
        json.loads(text, object_pairs_hook=collect)
    return tuple(key[:_MAX_TEXT] for key in keys[:_MAX_ITEMS])


def has_login(text: str, registry: str) -> bool | None:
    """Whether the settings of docker's program (config.json) have a login for a registry; None if unknown.

    With a credential store the settings have an empty entry for each login (docker/cli, cli/config/credentials).
    """
    try:
        data = loaded(text) if text.strip() else {}
    except ValueError:
        return None
    if not isinstance(data, dict) or registry in _part(data, "credHelpers"):
        return None
    # Older entries are addresses with a path.
    logins = ((_without_scheme(name).partition("/")[0], login) for name, login in _part(data, "auths").items())
    entry = next((login for name, login in logins if name == registry), None)
    return entry is not None and (bool(entry) or bool(data.get("credsStore")))


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
