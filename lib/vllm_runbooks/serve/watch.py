"""Distinguish hangs from slow startups by the activity of processes in the current phase.

A process stopped by a signal is certain. If no process works and no line is printed, the launch
waits for something outside, unless its GPUs are busy. An idle rank next to a working one, or a
phase that takes several times its usual time, is only reported: it may be a long compilation.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.host.progress import Activity, Sight
from vllm_runbooks.probe.starts import LaunchEvent
from vllm_runbooks.serve.durations import Usual

STOPPED_S = 3.0
"""Time stopped by a signal, longer than a debugger's short stops."""
IDLE_S = 30.0
"""Time without work and output during startup."""
OVERDUE_S, OVERDUE_TIMES = 300.0, 3
"""Time without output, also as a multiple of the phase's usual time."""
LOPSIDED_S = 60.0
"""Time in which one rank was idle while another worked, without output."""
SERVING = "serve"
_HANGS = ("stopped", "idle")
_RANKS = (re.compile(r"Worker"), re.compile(r"EngineCore_DP"))
"""Process titles of ranks; the second is used if none match the first."""


@dataclass
class _ProcessState:
    name: str
    pid: int
    worked_at: float
    stopped_since: float | None = None


@dataclass
class HangWatch:
    began: float
    idle_s: float = IDLE_S
    lopsided_s: float = LOPSIDED_S
    phase: str | None = None
    line_at: float = field(default=0.0)
    usual: Mapping[str, Usual] = field(default_factory=dict)
    is_computing: Callable[[], bool | None] = lambda: None
    """Whether a GPU of the launch is busy; None if unknown."""
    is_ready: bool = False
    hung_since: float | None = None
    _activity: Activity = field(default_factory=Activity)
    _known: dict[int, _ProcessState] = field(default_factory=dict)
    _told: set[tuple[str, int | None, str | None]] = field(default_factory=set)

    def look(self, processes: Mapping[int, Sight], now: float | None = None) -> list[LaunchEvent]:
        now = time.monotonic() if now is None else now
        working = self._activity.working(processes, now)
        for key, sight in processes.items():
            process = self._known.setdefault(key, _ProcessState(sight.name, sight.pid, now))
            process.name = sight.name
            if working[key]:
                process.worked_at = now
            process.stopped_since = (process.stopped_since or now) if sight.is_stopped else None
        gone = [self._known.pop(key) for key in sorted(set(self._known) - set(processes))]
        current = list(self._found(now))
        keys = [(event.kind, event.pid, event.phase) for event in current]
        events = [event for key, event in zip(keys, current, strict=True) if key not in self._told]
        self._told.update(keys)
        for process in gone:
            if self.is_ready and process.name.startswith("VLLM::"):
                says = f"{process.name} (process {process.pid}) ended while the server ran"
                events.append(self._event(now, "gone", says, process.pid, process.name))
        if any(event.kind in _HANGS for event in current):
            self.hung_since = self.hung_since or now
        elif self.hung_since is not None:
            events.append(self._event(now, "goes-on", f"running again after {now - self.hung_since:.0f} s"))
            self.hung_since = None
            self._told.clear()
        return events

    def _found(self, now: float) -> Iterator[LaunchEvent]:
        stopped = [
            process
            for process in self._known.values()
            if process.stopped_since and now - process.stopped_since >= STOPPED_S
        ]
        for process in stopped:
            go_on = host_commands.line("go-on", pid=f"{process.pid}")
            says = f"{process.name} (process {process.pid}) is stopped by a signal; resume it with `{go_on}`"
            yield self._event(now, "stopped", says, process.pid, process.name)
        if stopped or self.is_ready or not self._known:
            return  # a ready server is idle without requests
        quiet = now - max(self.line_at, self.began)
        still = {key: now - process.worked_at for key, process in self._known.items()}
        if quiet >= self.idle_s and min(still.values()) >= self.idle_s and not self.is_computing():
            says = f"no activity and no output for {self.idle_s:.0f} s: vLLM is waiting for something external"
            yield self._event(now, "idle", says)
            return
        usual = self.usual.get(self.phase or "")
        if usual is not None and quiet >= max(OVERDUE_S, OVERDUE_TIMES * usual.most_s):
            cards = " and its GPUs are busy" if self.is_computing() else ""
            says = (
                f"no output for {quiet:.0f} s; this phase usually takes {usual.says}; its processes are active{cards}"
            )
            yield self._event(now, "overdue", says)
        every = ({key: s for key, s in still.items() if kind.search(self._known[key].name)} for kind in _RANKS)
        ranks = next(filter(None, every), {})
        idle = [key for key, seconds in ranks.items() if seconds >= self.lopsided_s]
        if quiet >= self.lopsided_s and len(ranks) > 1 and 0 < len(idle) < len(ranks):
            for key in idle:
                name, pid = self._known[key].name, self._known[key].pid
                says = f"{name} (process {pid}) has been idle for {ranks[key]:.0f} s while other ranks are active"
                yield self._event(now, "lopsided", says, pid, name)

    def _event(self, now: float, kind: str, says: str, pid: int | None = None, name: str | None = None) -> LaunchEvent:
        return LaunchEvent(now - self.began, kind, says, SERVING if self.is_ready else self.phase, pid, name)
