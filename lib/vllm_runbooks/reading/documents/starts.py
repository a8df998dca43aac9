"""A vLLM launch with its context: the common records of all document formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents.pods import PodContainer, PodService, Probe
from vllm_runbooks.reading.shell import Invocation, Trouble, Word


class Within(NamedTuple):
    """A container of a command within the file: a quoted string or a scalar."""

    language: str
    """The language that it is quoted in: "shell", "compose", "yaml", "systemd", "python" or "json"."""
    start: int
    """Offsets in the file, quotes included."""
    end: int


@dataclass(frozen=True)
class Setting:
    """An environment variable with its value."""

    name: str
    value: Word
    start: int
    """Offsets of the whole setting, from its name or list item to the end of its value."""
    end: int
    form: str
    """Syntax of the setting: "assignment" (shell), "option" (of a container command), "map" or
    "list" (YAML), "entry" (`name:` and `value:` of Kubernetes), "unit", "python", "dockerfile",
    "table"."""
    is_exported: bool = True
    """False for a variable of the shell alone, which no program sees."""
    pair: tuple[int, int] | None = None
    """Offsets of the word `NAME=value`, quotes included, if it is one word."""


@dataclass(frozen=True)
class Keyword:
    """An argument of a Python call."""

    name: str
    value: Any
    """The literal; None also if it is unknown."""
    is_known: bool
    start: int
    end: int
    name_start: int
    """Offset of the argument's name; of its value if it has no name."""
    why: str = ""


@dataclass(frozen=True)
class Gpus:
    """GPUs assigned to a launch, as far as the file says."""

    devices: tuple[str, ...] | None = None
    """Indices or UUIDs; None if only their number is given."""
    count: int | None = None
    start: int = 0
    end: int = 0


class PublishedPort(NamedTuple):
    """A port mapping of a container."""

    address: str
    """Address of the host, as written; empty for all."""
    host: int | None
    """None for any."""
    inside: int | None
    """Port of the container; None if unknown or one of several."""
    is_tcp: bool
    start: int
    end: int

    @property
    def is_local(self) -> bool:
        """Whether only this host reaches it."""
        return _LOOPBACK.fullmatch(self.address) is not None


_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}|\[?::1\]?", re.ASCII)
_GIVE_GPUS = frozenset((
    "--gpus", "--device", "--devices", "--runtime", "--privileged", "--pod", "--cdi-spec-dir", "--device-cgroup-rules",
))  # fmt: skip
_GIVE_MEMORY = frozenset(("--shm-size", "--pod"))


@dataclass
class ContainerOptions:
    """The options of `docker run`; those of a Podman unit and of a compose service in the same form."""

    words: tuple[Word, ...] = ()
    names: set[str] = field(default_factory=set)
    is_complete: bool = True
    """False if an unknown word may be further options."""
    settings: list[Setting] = field(default_factory=list)
    image: Word | None = None
    entrypoint: Word | None = None
    gpus: Gpus | None = None
    mounts: list[str] = field(default_factory=list)
    ports: list[PublishedPort] = field(default_factory=list)
    network: str = ""
    ipc: str = ""
    health: Probe | None = None
    """The health check of a compose service."""
    rest: tuple[Word, ...] = ()
    size: int = 0
    memory: str = ""
    is_run: bool = False
    """Whether the remaining words are arguments of the image's entry point, rather than a
    replacement."""

    @property
    def has_gpus(self) -> bool | None:
        """Whether an option gives it GPUs; None if unknown."""
        return not self.names.isdisjoint(_GIVE_GPUS) or (False if self.is_complete else None)

    @property
    def shares_memory(self) -> bool | None:
        """Whether it has more shared memory than by default; None if unknown."""
        is_mounted = any("/dev/shm" in mount for mount in self.mounts)  # noqa: S108 - compared, not opened
        is_shared = self.ipc not in {"", "private", "shareable"} or not self.names.isdisjoint(_GIVE_MEMORY)
        return is_mounted or is_shared or (False if self.is_complete else None)

    @property
    def is_local(self) -> bool:
        """Whether its ports are published, all at an address that their host alone reaches."""
        return bool(self.ports) and self.network != "host" and all(port.is_local for port in self.ports)


@dataclass(frozen=True, kw_only=True)
class LaunchContext:
    """Where a launch is written and runs."""

    kind: str = "shell"
    """"shell", "docker", "compose", "kubernetes", "systemd", "dockerfile", "python", "config" (a file for
    `--config`), "argv" or "log"."""
    name: str = ""
    environment: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of this document that the launch sees."""
    image: Word | None = None
    group: Gpus | None = None
    """GPUs of all pods of the launch's group, or of its Slurm job on one host."""
    container: ContainerOptions | None = None
    pod: PodContainer | None = None
    """Container of the pod that runs the launch."""
    memory: str = ""
    """Memory limit of the container, as written; empty if it has none, or if it is unknown."""
    language: str = "shell"
    """Syntax of the words: "shell", "compose" (a text that Compose splits), "yaml", "json" or
    "python" (lists), "systemd", "glued", "argv"."""
    within: tuple[Within, ...] = ()
    """Containers of the words within the file, from the outermost inwards."""
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """In a manifest: the keys of the container, each with where its pair begins and ends."""
    is_certain: bool = True
    """False if something before the command is unknown, or if it is in the middle of a sentence."""
    is_reconstructed: bool = False
    """Whether blanks or line ends that a paste lost were put back."""
    invocation: Invocation | None = None
    """Shell invocation, if any: background, waiting, loop."""
    builder: str = ""
    """Chart, operator or server that builds the launch and has its own vLLM; empty for vLLM's own command."""
    has_own_options: bool = False
    """Whether the builder reads options of its own among those of vLLM."""


@dataclass(frozen=True)
class WrittenLaunch(LaunchContext):
    """A launch of vLLM."""

    entry: str
    """"serve", "api_server", "image" (the image's default command), "LLM", "EngineArgs",
    "AsyncEngineArgs", "run-batch", "bench latency" and so on; "node" for a host of a Ray cluster,
    which has an environment and no arguments."""
    words: tuple[Word, ...]
    start: int
    end: int
    prefix: tuple[Word, ...] = ()
    """Words before the arguments: wrappers, `docker run` with its options and image, `vllm
    serve`."""
    release: str | None = None
    gpus: Gpus | None = None
    """GPUs visible to the launch."""
    given: Gpus | None = None
    """GPUs of its container: the launch counts them from 0, and sees fewer if a variable restricts
    them."""
    keywords: tuple[Keyword, ...] = ()
    is_elided: bool = False
    """Whether `...` replaces arguments in the text."""

    @property
    def is_local(self) -> bool:
        """Whether the ports of its container are published on loopback only."""
        return self.container is not None and self.container.is_local

    @property
    def has_more_variables(self) -> bool:
        """Whether a file or a record of the cluster sets variables of its container."""
        names = self.container.names if self.container is not None else frozenset()
        return "--env-file" in names or "envFrom" in self.keys


@dataclass(frozen=True)
class LooseOption:
    """An option outside any command."""

    words: tuple[Word, ...]
    """The option, and its value if certain."""
    where: str
    """"bare" (on its own line), "comment" or "table"."""
    start: int
    end: int


@dataclass
class DocumentReading:
    """Everything read from a document so far."""

    starts: list[WrittenLaunch] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    loose: list[LooseOption] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    images: list[Word] = field(default_factory=list)
    parts: list[tuple[str, Excerpt, Around]] = field(default_factory=list)
    """Texts of another format, each with its kind, to be read separately: `python -c …`, a page in YAML."""
    services: list[PodService] = field(default_factory=list)
    file: str = ""
    """The text of the file, as far as it is read."""

    def change_starts(self, first: int, change: Callable[[WrittenLaunch], WrittenLaunch]) -> None:
        """Change each launch from an index on."""
        self.starts[first:] = map(change, self.starts[first:])

    def add(self, other: DocumentReading) -> None:
        """Add the reading of a part of the file."""
        for name in ("starts", "settings", "loose", "troubles", "images", "parts", "services"):
            getattr(self, name).extend(getattr(other, name))


@dataclass(frozen=True)
class Around(LaunchContext):
    """Context in which a command runs."""

    gpus: Gpus | None = None
    """GPUs of the container."""
    job: Gpus | None = None
    """GPUs of the Slurm job that runs the launch."""
    is_page: bool = False
    """In a page `<model>` is a placeholder and `...` an omission, whatever a shell would make of them."""
    depth: int = 0
    is_rendered: bool = False
    """Whether the statements of a template are left out of the text."""

    @property
    def known(self) -> dict[str, str]:
        """Variables with a known value."""
        return {name: item.value.value for name, item in self.environment.items() if item.value.value is not None}

    def inside(self, word: Word) -> Around:
        """Context of a script or code within a word."""
        within = (*self.within, Within(self.language, word.start, word.end))
        return replace(self, within=within, depth=self.depth + 1, invocation=None)
