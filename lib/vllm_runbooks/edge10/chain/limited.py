"""Run a program with limits on time and memory: its output is logged, its use of both is measured."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.edge10.chain.records import ProgramRun
from vllm_runbooks.host import memory_limit
from vllm_runbooks.host.running import RedactedOutput, SupervisedCommand

_SAMPLE_S = 0.5
_MAX_LINE = 4000
"""Bytes of a line that are read for progress."""
_MAX_ERROR = 300
_TAIL = 1 << 18
"""Bytes at the end of a log that are searched for its error."""
_ERROR = re.compile(r"[\w.]{0,100}(?:Error|Exception|Interrupt)\b.*", re.ASCII)
_GIB = 1 << 30
_FREE_SHARE = 0.95
"""Share of the free memory that a program may use."""
_ESCAPES = re.compile(r"\x1b\[[\d;]{0,20}[A-Za-z]", re.ASCII)


@dataclass(frozen=True)
class RunLimits:
    """Limits of a program."""

    seconds: float
    memory_gib: float


@dataclass(frozen=True)
class RunContext:
    """Shared settings of all programs of a chain."""

    environment: Mapping[str, str]
    """All variables."""
    secrets: str
    """Text that contains secrets which may be printed."""
    say: Callable[[str], None]
    """Prints a line on the progress."""
    is_cancelled: Callable[[], bool]
    """Whether to stop, called several times a second."""


def free_memory_gib() -> float:
    """Memory available to a program: the free memory of the system and its cgroup."""
    free = float(psutil.virtual_memory().available)
    most, used = memory_limit.limit()
    if most is not None and most >= 0:
        free = min(free, most - (used or 0))
    return max(free, 0) * _FREE_SHARE / _GIB


def run(
    words: Sequence[str],
    log: Path,
    limits: RunLimits,
    context: RunContext,
    *,
    environment: Mapping[str, str],
    read_line: Callable[[str], None],
) -> ProgramRun:
    """Run a program to its end, its limits or its cancellation."""
    command = redact_text(shlex.join(words))
    monitor = _Monitor(read_line)
    began = time.monotonic()
    why, status, ending, signal_name = "", None, "could not be run", None
    try:
        with log.open("wb") as file:
            live = RedactedOutput(lambda chunk: monitor.write(file, chunk), known=context.secrets)
            with SupervisedCommand(words, environment=environment) as running:
                for chunk in running.chunks(until=began + limits.seconds, tick_s=_SAMPLE_S):
                    live.take(chunk)
                    monitor.sample(running.pid)
                    why = monitor.exceeded(limits, began)
                    why = why or ("it was canceled" if context.is_cancelled() else "")
                    if why:
                        break
                live.finish()
        status, ending = (None, f"was stopped: {why}") if why else (running.status, running.ending)
        signal_name = None if running.signalled is None else signal.Signals(running.signalled).name
        if not why and (signal_name or status != 0):
            why = f"stopped by {signal_name}" if signal_name else f"it {ending}{_last_error(log)}"
    except (InputError, OSError) as error:
        why = redact_text(f"{error}")
    seconds, peak_gib = time.monotonic() - began, monitor.peak / _GIB
    return ProgramRun(command, status, ending, seconds, monitor.cpu_s, peak_gib, str(log), signal_name, why)


@dataclass
class _Monitor:
    """Output, processor time and memory of a running program."""

    read_line: Callable[[str], None]
    memory: int = 0
    peak: int = 0
    _cpu: dict[int, float] = field(default_factory=dict)
    _next_sample: float = 0.0
    _rest: bytes = b""

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def exceeded(self, limits: RunLimits, began: float) -> str:
        if self.memory > limits.memory_gib * _GIB:
            return f"it had {self.memory / _GIB:.1f} GiB of memory, more than its limit of {limits.memory_gib:.1f}"
        if time.monotonic() - began >= limits.seconds:
            return f"it timed out after {limits.seconds:g} s; increase its timeout"
        return ""

    def write(self, file: IO[bytes], chunk: bytes) -> None:
        """Log output, already redacted, and read its lines."""
        file.write(chunk)
        file.flush()
        *lines, rest = (self._rest + chunk.replace(b"\r", b"\n")).split(b"\n")
        self._rest = rest[:_MAX_LINE]
        for line in lines:
            self.read_line(_ESCAPES.sub("", line[:_MAX_LINE].decode("utf-8", "replace")))

    def sample(self, pid: int) -> None:
        """Measure its processes, twice a second."""
        if time.monotonic() < self._next_sample:
            return
        self._next_sample, self.memory = time.monotonic() + _SAMPLE_S, 0
        try:
            processes = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            return
        for process in processes:
            try:
                times, usage = process.cpu_times(), process.memory_info()
            except psutil.Error:
                continue
            self._cpu[process.pid] = times.user + times.system
            # Exclude shared memory, such as mapped files, which several processes would count.
            self.memory += usage.rss - getattr(usage, "shared", 0)
        self.peak = max(self.peak, self.memory)


def _last_error(log: Path) -> str:
    """The last line of a log that names an error, as the end of a sentence."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL, 0))
            lines = _ESCAPES.sub("", file.read(_TAIL).decode("utf-8", "replace")).splitlines()
    except OSError:
        lines = []
    error = next((line.strip() for line in reversed(lines) if _ERROR.match(line.strip()[:_MAX_LINE])), "")
    return f": {error[:_MAX_ERROR]}" if error else f"; see {log}"
