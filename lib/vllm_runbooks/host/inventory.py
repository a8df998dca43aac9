"""A snapshot of this host: its GPUs as NVML reports them, its limits and its software.

Nothing is changed. Command lines of processes are shown without their secrets.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.core import moments
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host import inspection as inventories
from vllm_runbooks.host import leftovers, memory_limit
from vllm_runbooks.host.gpu_memory import MemoryReading, Nvml, series
from vllm_runbooks.host.records import (
    GpuFacts,
    GpuPair,
    GpuProcess,
    GpuUse,
    HostFacts,
    Inspected,
    Inventory,
    MigInstance,
)

_MIB = 1 << 20
_MAX_COMMAND = 400
_MAX_RECORDS = 50_000
_ASKED_S = 60.0
_PACKAGES = re.compile(
    r"(?:vllm|torch|nvidia|flashinfer|flash[-_.]attn|ray|triton|transformers|xformers|tokenizers|numpy|cuda|nccl|pyarrow)"
    r"(?:[-_.][\w.-]{1,60})?",
    re.ASCII | re.IGNORECASE,
)
"""Names of packages that matter to vLLM, or to the preparation of models for it."""
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{4,20})\): (\d{1,4})", re.ASCII)
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", re.ASCII)
_NAMES_PACKAGES = """
import json, sys
from importlib import metadata
found = {(each.metadata["Name"] or ""): each.version for each in metadata.distributions()}
print(json.dumps({"python": sys.version.split()[0], "packages": found}))
"""
# nvmlComputeMode_t
_MODES = {0: "default", 1: "exclusive process", 2: "prohibited", 3: "exclusive process"}
_SLOWED = {0x4: "power cap", 0x8: "hardware", 0x20: "heat", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
"""Relevant bits of nvmlClocksEventReasons: SwPowerCap, HwSlowdown, SwThermalSlowdown,
HwThermalSlowdown and HwPowerBrakeSlowdown."""
_STATUS = {  # nvmlGpuP2PStatus_t
    0: "ok", 1: "chipset not supported", 2: "GPU not supported", 3: "topology not supported", 4: "switched off",
    5: "not supported",
}  # fmt: skip
# nvmlGpuTopologyLevel_t
_PATHS = {0: "board", 10: "switch", 20: "switches", 30: "bridge", 40: "node", 50: "system"}
_READ, _WRITE, _NVLINK, _ATOMICS = range(4)
"""Kinds of NVML's peer-to-peer status between two GPUs, as numbers because pynvml's first constant
is not one."""


def collect(*, starts: Path | None = None, python: str | None = None) -> Inventory:
    """Take a snapshot of this host; without a driver it has no GPUs, and the reason.

    `starts` is the folder of supervised launches, to find orphans. `python` is another Python whose
    packages are listed.
    """
    version, packages = _software(python)
    host = _host()
    snapshot = Inventory(
        source="read on this host", timestamp=moments.now(), host=host, python=version, packages=packages
    )
    try:
        driver = Nvml()
    except InputError as error:
        foreign = f"; {host.foreign_gpus} AMD GPUs found, which are not supported" if host.foreign_gpus else ""
        return redact_record(replace(snapshot, no_gpus_reason=f"{error}{foreign}"))
    left = [] if starts is None or driver.is_inside else leftovers.find_leftovers(starts)
    orphans = {int(leftover.name): leftover.proof for leftover in left if leftover.kind == "process"}
    xids = _xids()
    return redact_record(
        replace(
            snapshot,
            driver=driver.driver,
            cuda=_cuda(driver.ask("nvmlSystemGetCudaDriverVersion_v2")),
            no_gpus_reason=None if driver.handles or driver.lost else "the driver lists no GPU",
            gpus=_gpus(driver, orphans, xids),
            pairs=tuple(
                _pair(driver, first, second) for second in driver.handles for first in driver.handles if first < second
            ),
        )
    )


def gpus_alone() -> Inventory:
    """The GPUs of this host and nothing else."""
    try:
        driver = Nvml()
    except InputError as error:
        raise InputError(f"local: {error}; name the GPUs, as in 8xRTX3090, or use a snapshot file") from None
    return Inventory(gpus=_gpus(driver, {}, None))


def watched(
    specs: Specs,
    *,
    samples: int,
    every_s: float,
    need_gib: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Inspected:
    """Look at the GPUs of this host several times."""
    try:
        driver = Nvml()
    except InputError as error:
        return Inspected(no_gpus_reason=str(error))
    readings = []
    for number in range(samples):
        if number:
            sleep(every_s)
        readings.append(driver.read())
    return seen(readings, driver.says, specs, need_gib)


def recorded(name: str, specs: Specs, *, need_gib: float | None = None) -> Inspected:
    """Read a recorded series, a look for each line."""
    return seen(series(Path(name)), f"recorded in {Path(name).name}", specs, need_gib)


def seen(readings: Sequence[MemoryReading], source: str, specs: Specs, need_gib: float | None) -> Inspected:
    """The GPUs of the last look, with the one recommended after all looks."""
    seconds = readings[-1].at_s - readings[0].at_s
    inventory = redact_record(Inventory(source=source, gpus=readings[-1].cards))
    totals = {gpu.index: inventories.usable_mib(gpu, specs) for gpu in inventory.gpus}
    return inventories.inspect(inventory, specs, uses=uses(readings, totals), seconds=seconds, need_gib=need_gib)


def uses(readings: Sequence[MemoryReading], totals: Mapping[int, float | None]) -> tuple[GpuUse, ...]:
    """Use of each GPU over the looks; `totals` is the memory for processes, where known."""
    numbers = dict.fromkeys(card.index for reading in readings for card in reading.cards)
    return tuple(_use(number, [reading.of([number]) for reading in readings], totals) for number in numbers)


def _use(number: int, looks: Sequence[tuple[GpuFacts, ...]], totals: Mapping[int, float | None]) -> GpuUse:
    seen = [look[0] if look else None for look in looks]
    last = next(card for card in reversed(seen) if card is not None)
    total = totals.get(number)
    holders_by_look = [None if card is None else card.processes for card in seen]
    others = tuple(
        dict.fromkeys(redact_record(process).says for holders in holders_by_look for process in holders or ())
    )
    return GpuUse(
        number,
        None if last.name is None else redact_text(last.name),
        last.usable_mib if total is None else total,
        tuple(None if card is None else card.used_mib for card in seen),
        tuple(None if card is None else card.busy_percent for card in seen),
        others if others or None not in holders_by_look else None,
        inventories.unfit(last),
    )


# ---- GPUs


def _gpus(driver: Nvml, orphans: Mapping[int, str], xids: Sequence[tuple[str, int]] | None) -> tuple[GpuFacts, ...]:
    readable = [_gpu(driver, *item, orphans, xids) for item in driver.handles.items()]
    lost = [GpuFacts(index, error=error) for index, error in driver.lost.items()]
    return tuple(sorted([*readable, *lost], key=lambda gpu: gpu.index))


def _gpu(
    driver: Nvml, index: int, handle: Any, orphans: Mapping[int, str], xids: Sequence[tuple[str, int]] | None
) -> GpuFacts:
    ask = driver.ask
    card = driver.card(index, handle)
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    pci = ask("nvmlDeviceGetPciInfo", handle)
    bus = None if pci is None else _text(pci.busId)
    ecc = ask("nvmlDeviceGetEccMode", handle, unsupported=(0, 0))
    rows = ask("nvmlDeviceGetRemappedRows", handle)
    persistent = ask("nvmlDeviceGetPersistenceMode", handle)
    return replace(
        card,
        free_mib=card.unused_mib,
        capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        mig_instances=_parts(driver, handle) if card.is_mig else (),
        pci_bus=bus,
        numa_node=_numa(bus),
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        pcie_generation_max=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        pcie_width_max=ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        power_w=_watts(ask("nvmlDeviceGetPowerUsage", handle)),
        power_limit_w=_watts(ask("nvmlDeviceGetPowerManagementLimit", handle)),
        power_limit_default_w=_watts(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        clock_mhz=ask("nvmlDeviceGetClockInfo", handle, 1),
        clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, 1),
        throttled_by=_slowed(driver, handle),
        is_ecc_on=None if ecc is None else bool(ecc[0]),
        ecc_uncorrected=ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        retired_pages=_retired(driver, handle),
        remapped_rows=None if rows is None else rows[1],
        is_remap_pending=None if rows is None else bool(rows[2]),
        is_remap_failed=None if rows is None else bool(rows[3]),
        is_persistent=None if persistent is None else bool(persistent),
        compute_mode=_MODES.get(ask("nvmlDeviceGetComputeMode", handle)),
        nvlinks=_nvlinks(driver, handle),
        xids=None if xids is None or bus is None else tuple(number for at, number in xids if _is_same(at, bus)),
        processes=None if card.processes is None else tuple(_process(holder, orphans) for holder in card.processes),
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _cuda(number: int | None) -> str | None:
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _numa(bus: str | None, devices: Path = Path("/sys/bus/pci/devices")) -> int | None:
    """NUMA node of a GPU, from the system: NVML's own function may count GPU memory as a node."""
    with contextlib.suppress(OSError, ValueError):
        domain, _, rest = (bus or "").lower().partition(":")
        node = int((devices / f"{int(domain, 16):04x}:{rest}" / "numa_node").read_text("ascii"))
        return node if node >= 0 else None
    return None


def _is_same(at: str, bus: str) -> bool:
    """Whether the kernel log names this GPU: it has `0000:3b:00`, the driver `00000000:3B:00.0`."""
    mine, theirs = (address.lower().partition(".")[0].split(":") for address in (at, bus))
    return [int(part, 16) for part in mine if part] == [int(part, 16) for part in theirs if part]


def _parts(driver: Nvml, handle: Any) -> tuple[MigInstance, ...]:
    parts = []
    for index in range(driver.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if part is not None:
            memory = driver.memory(part)
            name, uuid = driver.ask("nvmlDeviceGetName", part), driver.ask("nvmlDeviceGetUUID", part)
            parts.append(MigInstance(name, uuid, memory and memory.total, memory and memory.used))
    return tuple(parts)


def _slowed(driver: Nvml, handle: Any) -> tuple[str, ...] | None:
    reasons = driver.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:
        reasons = driver.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if reasons is None else tuple(name for bit, name in _SLOWED.items() if reasons & bit)


def _retired(driver: Nvml, handle: Any) -> int | None:
    pages = [driver.ask("nvmlDeviceGetRetiredPages", handle, cause) for cause in (0, 1)]
    counts = [len(page_list) for page_list in pages if page_list is not None]
    return sum(counts) if len(counts) == len(pages) else None


def _nvlinks(driver: Nvml, handle: Any) -> int | None:
    """Number of active NVLinks; NVML returns an error per link if there are none."""
    most = driver.constant("NVML_NVLINK_MAX_LINKS") or 0
    states = [driver.ask("nvmlDeviceGetNvLinkState", handle, link, unsupported=0) for link in range(most)]
    active = [state for state in states if state is not None]
    return sum(active) if active else None


def _pair(driver: Nvml, number: int, other_number: int) -> GpuPair:
    first, second = driver.handles[number], driver.handles[other_number]
    status = {
        kind: _STATUS.get(driver.ask("nvmlDeviceGetP2PStatus", first, second, kind))
        for kind in (_READ, _WRITE, _NVLINK, _ATOMICS)
    }
    path = driver.ask("nvmlDeviceGetTopologyCommonAncestor", first, second)
    return GpuPair(
        number, other_number, status[_READ], status[_WRITE], status[_ATOMICS], status[_NVLINK], _PATHS.get(path)
    )


# ---- who is on them


def _process(holder: GpuProcess, orphans: Mapping[int, str]) -> GpuProcess:
    import psutil

    if holder.is_host_pid:
        return holder
    user = command = container = None
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(holder.pid)
        with contextlib.suppress(psutil.Error, OSError, KeyError):
            user = process.username()
        command = redact_text(" ".join(process.cmdline()) or process.name())[:_MAX_COMMAND]
    with contextlib.suppress(OSError):
        named = _CONTAINER.search(Path(f"/proc/{holder.pid}/cgroup").read_text("utf-8", "replace"))
        container = named[0] if named else ""
    return replace(holder, user=user, command=command, container=container, orphan=orphans.get(holder.pid, ""))


def _xids(log_file: str = "/dev/kmsg") -> list[tuple[str, int]] | None:
    """Xid errors in the kernel log, with the GPU's bus id; None without permission."""
    try:
        log = os.open(log_file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    errors = []
    # Reading fails at the end of the log, or without permission.
    with os.fdopen(log, "rb", buffering=0) as lines, contextlib.suppress(OSError):
        for _ in range(_MAX_RECORDS):
            with contextlib.suppress(BrokenPipeError):  # that line was overwritten meanwhile
                if not (line := lines.read(8192)):
                    break
                errors += [(at, int(number)) for at, number in _XID.findall(line.decode("utf-8", "replace"))]
    return errors


# ---- the host


def _host() -> HostFacts:
    import resource  # not on every system

    import psutil

    memory = psutil.virtual_memory()
    shm = shm_free = None
    with contextlib.suppress(OSError):
        stats = os.statvfs(leftovers.SHARED)
        shm, shm_free = stats.f_blocks * stats.f_frsize / _MIB, stats.f_bavail * stats.f_frsize / _MIB
    memlock, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    files, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit, used = memory_limit.limit()
    return HostFacts(
        shm_mib=shm,
        shm_free_mib=shm_free,
        memlock_mib=-1.0 if memlock == resource.RLIM_INFINITY else memlock / _MIB,
        open_files=-1 if files == resource.RLIM_INFINITY else files,
        open_files_max=-1 if files_max == resource.RLIM_INFINITY else files_max,
        memory_mib=memory.total / _MIB,
        memory_available_mib=memory.available / _MIB,
        memory_limit_mib=None if limit is None else -1.0 if limit < 0 else limit / _MIB,
        memory_used_mib=None if used is None or used < 0 else used / _MIB,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        kernel=os.uname().release,
        is_container=_is_container(),
        rdma_devices=_count(Path("/sys/class/infiniband")),
        foreign_gpus=_amd(Path("/sys/class/kfd/kfd/topology/nodes")),
    )


def _is_container() -> bool | None:
    if sys.platform != "linux":
        return None
    if any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")) or os.environ.get("container"):  # noqa: SIM112 - systemd's name
        return True
    with contextlib.suppress(OSError):
        groups = Path("/proc/1/cgroup").read_text("utf-8", "replace")
        return any(word in groups for word in ("docker", "kubepods", "containerd", "libpod", "/lxc/"))
    return None


def _count(folder: Path) -> int | None:
    """Number of entries of a system folder; None if it is empty."""
    try:
        return len(list(folder.iterdir()))
    except FileNotFoundError:
        return 0 if Path("/sys").is_dir() else None
    except OSError:
        return None


def _amd(nodes: Path) -> int | None:
    if not Path("/sys").is_dir():
        return None
    count = 0
    for file in nodes.glob("*/gpu_id"):
        with contextlib.suppress(OSError, ValueError):
            count += int(file.read_text("ascii")) != 0
    return count


# ---- its software


def _software(python: str | None) -> tuple[str | None, dict[str, str]]:
    if python is None:
        from importlib import metadata

        all_of_them = {(package.metadata["Name"] or ""): package.version for package in metadata.distributions()}
        return ".".join(map(str, sys.version_info[:3])), _of_vllm(all_of_them)
    try:
        answer = subprocess.run(  # noqa: S603 - the Python that the user names
            [python, "-c", _NAMES_PACKAGES], capture_output=True, check=False, timeout=_ASKED_S, cwd="/"
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"--python {python}: no answer within {_ASKED_S:.0f} s; use another Python") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--python {python}: cannot be run: {reason}; use a Python executable") from None
    try:
        facts = json.loads(answer.stdout)
        return str(facts["python"]), _of_vllm(facts["packages"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"--python {python}: does not list its packages; use a Python executable") from None


def _of_vllm(packages: Mapping[str, Any]) -> dict[str, str]:
    return {
        re.sub(r"[-_.]+", "-", name).lower(): str(version)
        for name, version in sorted(packages.items(), key=lambda item: item[0].lower())
        if _PACKAGES.fullmatch(name)
    }
