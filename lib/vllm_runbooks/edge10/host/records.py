"""Records of a host before a step to an edge chip: what was asked of it, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.host.records import Inventory

HOST_KIND = "edge10-host"
"""What a recorded host calls itself."""
HOST_STEPS = ("quantise", "evaluate", "compile")
"""Steps before which a host is looked at; converting takes no more than quantising."""


class DockerState(StrEnum):
    """What became of the question to docker."""

    ANSWERS = "answers"
    MISSING = "missing"
    """There is no such program."""
    STOPPED = "stopped"
    """Nothing listens where it is looked for."""
    DENIED = "denied"
    """This user may not talk to it."""
    SILENT = "silent"
    """It gave no answer within the limit, and was left."""
    REMOTE = "remote"
    """It is on another host, and was not asked."""
    UNKNOWN = "unknown"
    """What it said is not understood."""


@dataclass(frozen=True)
class DaemonFile:
    """A file with settings of docker's service."""

    path: str
    exists: bool | None = None
    """None: it may not be read."""
    problem: str = ""
    """Why the service refuses it, with the line; empty: nothing."""
    insecure_registries: tuple[str, ...] | None = None
    """None: it is not known; empty: it names none."""
    runtimes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ImageFacts:
    """A container image, as docker tells of it."""

    name: str
    """As it was asked for."""
    exists: bool | None = None
    size_gib: float | None = None


@dataclass(frozen=True)
class DockerFacts:
    """Docker, as its program and its service tell of it."""

    state: DockerState = DockerState.UNKNOWN
    reason: str = ""
    """In its own words, where it does not answer."""
    client: str | None = None
    """Release of the program."""
    server: str | None = None
    """Release of the service."""
    endpoint: str | None = None
    """Where the program looks for the service."""
    context: str | None = None
    """Name of the program's setting that says where."""
    root_folder: str | None = None
    """Where images are kept."""
    root_free_gib: float | None = None
    """On the disk of that folder."""
    runtimes: tuple[str, ...] | None = None
    insecure_registries: tuple[str, ...] | None = None
    """Registries that the running service talks to without a certificate."""
    files: tuple[DaemonFile, ...] | None = None
    """Where the service may have settings from."""
    images: tuple[ImageFacts, ...] = ()
    """Those that were asked for."""


@dataclass(frozen=True)
class ToolkitFacts:
    """What gives containers the cards of NVIDIA."""

    programs: tuple[str, ...] = ()
    """Of it, those that are found."""


@dataclass(frozen=True)
class FolderFacts:
    """The folder that a step's container is given."""

    path: str
    exists: bool | None = None
    existing_path: str | None = None
    """The nearest folder that is there, whose disk this is."""
    free_gib: float | None = None
    """For this user."""
    total_gib: float | None = None
    is_writable: bool | None = None


@dataclass(frozen=True)
class EdgeHost:
    """A host at one time, as it was asked or as it was written down."""

    kind: str = HOST_KIND
    constructed: bool = False
    """Whether it was written down from what somebody told."""
    source: str | None = None
    timestamp: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    inventory: Inventory = field(default_factory=Inventory)
    python: str | None = None
    """The Python that was named, whose packages the inventory has; None: none was, and they are of no step."""
    docker: DockerFacts | None = None
    toolkit: ToolkitFacts | None = None
    folder: FolderFacts | None = None
    environment: Mapping[str, str] | None = None
    """Of the variables that steps heed, those that are set."""


@dataclass(frozen=True)
class HostCheckRequest:
    """What a host is looked at for."""

    step: str
    """Of `HOST_STEPS`."""
    model: str | None = None
    image: str | None = None
    registry: str | None = None
    data: str | None = None
    """The folder that is meant."""


@dataclass(frozen=True)
class UnknownHostFact:
    """Something that would mean something, and that is not known of a host."""

    fact: str
    reason: str


@dataclass(frozen=True)
class CheckedHost(EdgeHost):
    """A host with what it means for a step: what `edge10 preflight --format json` prints."""

    toolchain: str = ""
    """Id of the facts."""
    request: HostCheckRequest = field(default_factory=lambda: HostCheckRequest(""))
    findings: tuple[RuleFinding, ...] = ()
    unknown: tuple[UnknownHostFact, ...] = ()
    ok: bool | None = None
    """Whether nothing stands in the way of the step; None: nothing was found, and something is not known."""
