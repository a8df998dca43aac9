"""Records of a host before a step for an edge chip: its facts and their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.host.records import Inventory

HOST_KIND = "edge10-host"
"""Kind in the record of a host."""
HOST_STEPS = ("quantise", "evaluate", "compile")
"""Steps with a host check; converting needs no more than quantising."""


class DockerState(StrEnum):
    """Result of contacting docker."""

    ANSWERS = "answers"
    MISSING = "missing"
    """The program does not exist."""
    STOPPED = "stopped"
    """Nothing listens at the endpoint."""
    DENIED = "denied"
    """This user may not talk to it."""
    SILENT = "silent"
    """No answer within the timeout."""
    REMOTE = "remote"
    """On another host, not contacted."""
    UNKNOWN = "unknown"
    """The answer was not understood."""


@dataclass(frozen=True)
class DaemonFile:
    """A file with settings of docker's service."""

    path: str
    exists: bool | None = None
    """None without read permission."""
    problem: str = ""
    """Reason why the daemon rejects it, with the line; empty if there is none."""
    insecure_registries: tuple[str, ...] | None = None
    """None if unknown; empty if it lists none."""
    runtimes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ImageFacts:
    """A container image, as docker reports it."""

    name: str
    """Name as requested."""
    exists: bool | None = None
    size_gib: float | None = None


@dataclass(frozen=True)
class DockerFacts:
    """Facts of docker, from its client and its daemon."""

    state: DockerState = DockerState.UNKNOWN
    reason: str = ""
    """Its own message, if it does not answer."""
    client: str | None = None
    """Release of the program."""
    server: str | None = None
    """Release of the service."""
    endpoint: str | None = None
    """Endpoint at which the client looks for the daemon."""
    context: str | None = None
    """Docker context that sets the endpoint."""
    root_folder: str | None = None
    """Folder of the images."""
    root_free_gib: float | None = None
    """On the disk of that folder."""
    runtimes: tuple[str, ...] | None = None
    insecure_registries: tuple[str, ...] | None = None
    """Registries that the running service talks to without a certificate."""
    files: tuple[DaemonFile, ...] | None = None
    """Files that may configure the daemon."""
    images: tuple[ImageFacts, ...] = ()
    """The requested images."""


@dataclass(frozen=True)
class ToolkitFacts:
    """Toolkit that gives containers access to NVIDIA GPUs."""

    programs: tuple[str, ...] = ()
    """Installed programs of the toolkit."""


@dataclass(frozen=True)
class FolderFacts:
    """Folder that is mounted into a step's container."""

    path: str
    exists: bool | None = None
    existing_path: str | None = None
    """Nearest existing folder, which is on this disk."""
    free_gib: float | None = None
    """For this user."""
    total_gib: float | None = None
    is_writable: bool | None = None


@dataclass(frozen=True)
class EdgeHost:
    """Facts of a host at one time, collected or recorded."""

    kind: str = HOST_KIND
    constructed: bool = False
    """Whether the record was written manually."""
    source: str | None = None
    timestamp: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    inventory: Inventory = field(default_factory=Inventory)
    python: str | None = None
    """The given Python, whose packages are in the inventory; None if none was given: then the
    packages do not belong to a step."""
    docker: DockerFacts | None = None
    toolkit: ToolkitFacts | None = None
    folder: FolderFacts | None = None
    environment: Mapping[str, str] | None = None
    """Environment variables that steps read, if set."""


@dataclass(frozen=True)
class HostCheckRequest:
    """A host check."""

    step: str
    """One of `HOST_STEPS`."""
    model: str | None = None
    image: str | None = None
    registry: str | None = None
    data: str | None = None
    """The folder that is meant."""


@dataclass(frozen=True)
class UnknownHostFact:
    """A relevant but unknown fact of a host."""

    fact: str
    reason: str


@dataclass(frozen=True)
class CheckedHost(EdgeHost):
    """A host with its meaning for a step: output of `edge10 preflight --format json`."""

    toolchain: str = ""
    """Id of the facts."""
    request: HostCheckRequest = field(default_factory=lambda: HostCheckRequest(""))
    findings: tuple[RuleFinding, ...] = ()
    unknown: tuple[UnknownHostFact, ...] = ()
    ok: bool | None = None
    """Whether no problem prevents the step; None if no problem was found, but a fact is unknown."""
