"""Other effects on a launch: GPU memory of other processes, kernel OOM kills, shared memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from vllm_runbooks.host import leftovers, memory_limit
from vllm_runbooks.host.records import GpuFacts
from vllm_runbooks.probe.starts import LaunchEvent
from vllm_runbooks.serve.preflight import MIB_PER_GIB, LaunchHost

_EVERY_S = 1.0
SEGMENTS_EVERY_S = 5.0
_LOOKS = 24
"""Samples of a segment until it counts as another process's: launches map theirs within minutes."""


class Neighbours:
    """Memory of other processes during profiling.

    Empty in a container, where the driver's pids are the host's.
    """

    def __init__(self, host: LaunchHost, began: float, within_mib: float) -> None:
        self._host, self._began, self._within = host, began, within_mib
        self._before: dict[int, dict[int, float]] = {}
        self._own: set[int] = set()
        self._next = began

    def look(self, pids: Collection[int], now: float) -> list[LaunchEvent]:
        """Memory that others took or gave back since the last look; `pids` are the launch's own."""
        if self._host.source is None or now < self._next:
            return []
        self._next = now + _EVERY_S
        self._own |= set(pids)  # the driver may name one that has just ended
        events = []
        for card in self._host.source.read().of(self._host.numbers):
            if card.processes is None or any(process.is_host_pid for process in card.processes):
                continue
            others = {
                process.pid: process.used_mib
                for process in card.processes
                if process.pid not in self._own and process.used_mib
            }
            before = self._before.get(card.index)
            self._before[card.index] = others
            if before is not None:
                moved = sum(others.values()) - sum(before.values())
                if abs(moved) > self._within:
                    events.append(self._event(card, moved, sorted(set(before) | set(others)), now))
        return events

    def _event(self, card: GpuFacts, moved: float, pids: list[int], now: float) -> LaunchEvent:
        kind, what = ("memory-taken", "allocated") if moved > 0 else ("memory-released", "freed")
        who = ", ".join(f"process {pid}" for pid in pids[:4])
        says = f"GPU {card.index}: other processes ({who}) {what} {abs(moved) / MIB_PER_GIB:.2f} GiB"
        return LaunchEvent(now - self._began, kind, says)


class Killings:
    def __init__(self, began: float, count: Callable[[], int | None] = memory_limit.kills) -> None:
        self._began, self._count = began, count
        self._before = count()

    def look(self, now: float | None = None) -> list[LaunchEvent]:
        count = self._count()
        if count is None or self._before is None or count <= self._before:
            return []
        self._before = count
        says = "the kernel killed a process of this cgroup: out of memory"
        return [LaunchEvent((time.monotonic() if now is None else now) - self._began, "oom-kill", says)]


class Segments:
    """Shared memory segments that the launch's processes opened."""

    def __init__(self) -> None:
        self.own: dict[str, int] = {}
        """Names and inodes."""
        self._looked: dict[tuple[str, int], int] = {}
        self._earlier = leftovers.segments().items()
        self._next = 0.0

    def look(self, processes: Collection[int], now: float) -> bool:
        """Look for segments that these processes have mapped; return False if it is too early."""
        if now < self._next:
            return False
        self._next = now + SEGMENTS_EVERY_S
        new = [segment for segment in leftovers.segments().items() if self.own.get(segment[0]) != segment[1]]
        self._looked = {segment: self._looked.get(segment, 0) + 1 for segment in new}
        young = {name: inode for name, inode in new if self._looked[name, inode] <= _LOOKS}
        if young:
            self.own.update({name: young[name] for name in leftovers.opened_by([*processes], young)})
        return True

    def remove(self) -> None:
        """Remove what the ended launch created and left, unless another process has it open."""
        for name, inode in self.own.items() - self._earlier:
            leftovers.remove_leftover(leftovers.Leftover("segment", name, 0, is_proven=True, proof="", key=inode))
