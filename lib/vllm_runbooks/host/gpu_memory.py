"""Memory of each GPU and the processes that use it, read from the driver or a recorded series.

A series has a JSON line for each reading: seconds from its beginning, and the GPUs.

    {"at_s": 0.0, "gpus": [{"index": 4, "name": "NVIDIA A100-SXM4-80GB", "total_mib": 81920, "used_mib": 38900}]}

A missing field is unknown. A launch replays a series by the clock from the first reading on, and
the last one stays; a watch reads all of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.host import snapshots
from vllm_runbooks.host.here import here
from vllm_runbooks.host.records import GpuFacts, GpuProcess
from vllm_runbooks.reading import evidence

_MIB = 1 << 20
_MAX_SERIES = 64 << 20


@dataclass(frozen=True)
class MemoryReading:
    """All GPUs at one time."""

    at_s: float
    """By the monotonic clock, or since the beginning of a series."""
    cards: tuple[GpuFacts, ...]

    def of(self, numbers: Sequence[int]) -> tuple[GpuFacts, ...]:
        """GPUs with these indices, if they exist."""
        by_number = {card.index: card for card in self.cards}
        return tuple(by_number[number] for number in numbers if number in by_number)


class Source(Protocol):
    """Source of readings."""

    says: str

    def read(self) -> MemoryReading:
        """Read the memory now."""
        ...


class Recorded:
    """A recorded series, played from its first reading on."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read a series."""
        self.says = f"recorded in {path.name}"
        self._readings = series(path)
        self._clock = clock
        self._began: float | None = None

    def read(self) -> MemoryReading:
        """The reading of this time."""
        now = self._clock()
        if self._began is None:
            self._began = now
        since = now - self._began + self._readings[0].at_s
        return next((reading for reading in reversed(self._readings) if reading.at_s <= since), self._readings[0])


@dataclass(frozen=True)
class _SeriesProcess:
    pid: int
    name: str | None = None
    used_mib: float | None = None


@dataclass(frozen=True)
class _SeriesGpu:
    index: int
    name: str | None = None
    uuid: str | None = None
    total_mib: float | None = None
    reserved_mib: float | None = None
    used_mib: float | None = None
    busy_percent: float | None = None
    processes: tuple[_SeriesProcess, ...] | None = None


@dataclass(frozen=True)
class _SeriesLine:
    at_s: float
    gpus: tuple[_SeriesGpu, ...] = ()


def series(path: Path) -> tuple[MemoryReading, ...]:
    """Read a recorded series, in order; raises InputError."""
    try:
        text = evidence.beginning(evidence.document(path), _MAX_SERIES)
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; use a file with a series of GPU memory readings") from None
    if len(text) > _MAX_SERIES:
        raise InputError(f"{path}: is larger than {_MAX_SERIES >> 20} MiB; use the relevant part")
    readings: list[MemoryReading] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        readings.append(_reading(line, f"{path}:{number}"))
        if len(readings) > 1 and readings[-1].at_s < readings[-2].at_s:
            raise InputError(f"{path}:{number}: at_s is smaller than in the line before; sort the series by time")
    return tuple(readings)


def _reading(line: str, where: str) -> MemoryReading:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or "gpus" not in data:
        raise InputError(f"{where}: is not a GPU memory reading; a line is {{at_s, gpus: [{{index, …}}]}}")
    snapshots.check(_SeriesLine, data, where)
    parsed = record(_SeriesLine, data)
    cards = tuple(map(_card, parsed.gpus))
    for card in cards:
        snapshots.check_card(card, where)
    numbers = [card.index for card in cards]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise InputError(f"{where}: gpus: lists GPU {twice} twice; list each GPU once")
    return MemoryReading(parsed.at_s, cards)


def _card(gpu: _SeriesGpu) -> GpuFacts:
    values = {**vars(gpu)}
    processes = values.pop("processes")
    holders = (GpuProcess(process.pid, command=process.name, used_mib=process.used_mib) for process in processes or ())
    return GpuFacts(**values, processes=None if processes is None else tuple(holders))


class DriverMemory(NamedTuple):
    """Memory of a GPU in MiB."""

    total: float
    reserved: float | None
    """None if the driver counts it as used."""
    used: float


class Nvml:
    """The NVIDIA driver of this host."""

    says = "read from the driver (NVML)"

    def __init__(self) -> None:
        """Connect to the driver; raises InputError."""
        import pynvml

        self._nvml = pynvml
        # The driver reports process ids of the host, in every namespace.
        self.is_inside = not here().has_hosts_numbers
        self.handles: dict[int, Any] = {}
        self.lost: dict[int, str] = {}
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise InputError(f"no NVIDIA driver on this host ({error})") from None
        for index in range(count):
            try:
                self.handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
            except pynvml.NVMLError as error:
                self.lost[index] = f"{error}"

    def close(self) -> None:
        """End the connection; others of this process stay."""
        self.ask("nvmlShutdown")

    @property
    def driver(self) -> str | None:
        """Version of the driver."""
        version: str | None = self.ask("nvmlSystemGetDriverVersion")
        return version

    def read(self) -> MemoryReading:
        """Read all GPUs."""
        lost = (GpuFacts(index, error=error) for index, error in self.lost.items())
        cards = (*(self.card(*handle) for handle in self.handles.items()), *lost)
        return MemoryReading(time.monotonic(), tuple(sorted(cards, key=lambda card: card.index)))

    def card(self, index: int, handle: Any) -> GpuFacts:
        """Read one GPU."""
        memory = self.memory(handle)
        busy = self.ask("nvmlDeviceGetUtilizationRates", handle)
        return GpuFacts(
            index=index,
            name=self.ask("nvmlDeviceGetName", handle),
            uuid=self.ask("nvmlDeviceGetUUID", handle),
            total_mib=memory and memory.total,
            reserved_mib=memory and memory.reserved,
            used_mib=memory and memory.used,
            busy_percent=None if busy is None else float(busy.gpu),
            is_mig=self.is_mig(handle),
            processes=self.processes(handle),
        )

    def memory(self, handle: Any) -> DriverMemory | None:
        """Memory of a GPU or an instance; an old driver counts the reserved memory as used."""
        version = self.constant("nvmlMemory_v2")
        info = None if version is None else self.ask("nvmlDeviceGetMemoryInfo", handle, version)
        reserved = None if info is None else info.reserved / _MIB
        info = info or self.ask("nvmlDeviceGetMemoryInfo", handle)
        return None if info is None else DriverMemory(info.total / _MIB, reserved, info.used / _MIB)

    def is_mig(self, handle: Any) -> bool | None:
        """Whether a GPU is divided into instances (MIG)."""
        mode = self.ask("nvmlDeviceGetMigMode", handle, unsupported=(0, 0))
        return None if mode is None else bool(mode[0])

    def processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        """Processes that compute on a GPU; None if unknown."""
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses", handle)
        if processes is None:
            return None
        return tuple(
            GpuProcess(
                process.pid,
                used_mib=None if process.usedGpuMemory is None else process.usedGpuMemory / _MIB,
                is_host_pid=self.is_inside,
            )
            for process in processes
        )

    def ask(self, name: str, *arguments: Any, unsupported: Any = None) -> Any:
        """Call a function of NVML.

        Returns None if it fails or is missing, `unsupported` if the GPU lacks the feature.
        """
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            value = function(*arguments)
        except self._nvml.NVMLError as error:
            return unsupported if error.value == self._nvml.NVML_ERROR_NOT_SUPPORTED else None
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value

    def constant(self, name: str) -> Any:
        """A constant of NVML; None if this version lacks it."""
        return getattr(self._nvml, name, None)


def source_of(series: str) -> tuple[Source | None, str]:
    """The recorded series of that name, or for an empty one the driver; else None and why there is no driver."""
    if series:
        return Recorded(Path(series)), ""
    try:
        return Nvml(), ""
    except InputError as error:
        return None, str(error)


def unrest_mib(readings: Sequence[MemoryReading], numbers: Sequence[int]) -> float | None:
    """Change of some GPUs' used memory over the readings; None if unknown for one of them."""
    moved = 0.0
    for number in numbers:
        used = [card.used_mib for reading in readings for card in reading.of([number])]
        sizes = [size for size in used if size is not None]
        if len(sizes) < len(readings) or not sizes:
            return None
        moved = max(moved, max(sizes) - min(sizes))
    return moved
