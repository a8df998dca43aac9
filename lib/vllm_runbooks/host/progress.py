"""Activity of processes between two samples: CPU time, I/O bytes, and whether they are stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_BUSY = 0.02
"""Share of a core from which a process counts as active: an idle one wakes up some times a
second."""
_MIN_IO = 1 << 16
"""Bytes per second from which I/O counts as activity."""


@dataclass(frozen=True)
class Sight:
    """A process at one time."""

    pid: int
    name: str
    """Process title, such as `VLLM::Worker_TP0`, or program name."""
    state: str
    """State reported by the system: "running", "sleeping", "disk-sleep", "stopped", "tracing-stop",
    "zombie"."""
    cpu_s: float
    io_bytes: int | None
    """Bytes read and written since its start; None if the system does not report it."""

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped by a signal or a debugger."""
        return self.state in ("stopped", "tracing-stop")


def seen_below(root: int) -> dict[int, Sight]:
    """Every running process that descends from one, by number."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        return seen(psutil.Process(root).children(recursive=True))
    return {}


def seen(processes: Iterable[psutil.Process]) -> dict[int, Sight]:
    """Current state of some processes, without those that have ended."""
    import psutil

    sights = {}
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            state = process.status()
            if state == psutil.STATUS_ZOMBIE:
                continue
            times = process.cpu_times()
            sights[process.pid] = Sight(
                process.pid, _title(process), str(state), times.user + times.system, _io_bytes(process)
            )
    return sights


def _title(process: psutil.Process) -> str:
    command = process.cmdline()
    if command and command[0].startswith("VLLM::"):
        return command[0].split()[0]
    return str(process.name())


def _io_bytes(process: psutil.Process) -> int | None:
    import psutil

    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        counters = process.io_counters()
        # Through read() and write(), and through mapped files, which only the disk's own counters show.
        return int(counters.read_chars + counters.write_chars + counters.read_bytes)
    return None


class Activity:
    """Find active processes by comparing two samples."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._before: Mapping[int, Sight] = {}

    def working(self, now: Mapping[int, Sight], at: float | None = None) -> dict[int, bool]:
        """Whether each process worked since the last look; a new one has."""
        at = time.monotonic() if at is None else at
        since = max(at - self._at, 1e-3) if self._at is not None else 0.0
        by_pid = {
            pid: (before := self._before.get(pid)) is None or not since or _has_worked(before, sight, since)
            for pid, sight in now.items()
        }
        self._at, self._before = at, now
        return by_pid


def _has_worked(before: Sight, now: Sight, since: float) -> bool:
    if now.cpu_s - before.cpu_s > _BUSY * since:
        return True
    return now.io_bytes is not None and before.io_bytes is not None and now.io_bytes - before.io_bytes > _MIN_IO * since
