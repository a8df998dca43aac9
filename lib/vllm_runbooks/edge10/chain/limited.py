"""A program under limits of time and memory: what it prints is kept, what it takes measured, nothing of it left."""

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
from vllm_runbooks.edge10.chain.records import Program
from vllm_runbooks.host import memory_limit
from vllm_runbooks.host.running import Live, Running

_LOOK_S = 0.5
_MAX_LINE = 4000
"""Bytes of a line that are read for progress."""
_MAX_SAID = 300
_TAIL = 1 << 18
"""Bytes at the end of a log that are read for its fault."""
_FAULT = re.compile(r"[\w.]{0,100}(?:Error|Exception|Interrupt)\b.*", re.ASCII)
_GIB = 1 << 30
_OF_ROOM = 0.95
"""Part of the memory that is free when a program begins which it may have: the host is to live on."""
_ESCAPES = re.compile(r"\x1b\[[\d;]{0,20}[A-Za-z]", re.ASCII)


@dataclass(frozen=True)
class Bounds:
    """What a program may take."""

    seconds: float
    memory_gib: float


def room_gib() -> float:
    """Memory that a program of this host may have now: what is free, or what the control group leaves of it."""
    free = float(psutil.virtual_memory().available)
    most, used = memory_limit.limit()
    if most is not None and most >= 0:
        free = min(free, most - (used or 0))
    return max(free, 0) * _OF_ROOM / _GIB


def run(
    words: Sequence[str],
    log: Path,
    bounds: Bounds,
    *,
    environment: Mapping[str, str],
    known: str = "",
    heard: Callable[[str], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Program:
    """Run a program to its end, or to that of its time, of its memory or of what it is for.

    Args:
        words: The program with its arguments.
        log: File for what it prints, secrets replaced.
        bounds: What it may take.
        environment: All of its variables.
        known: What may name a secret that it prints.
        heard: Given each line that it prints.
        is_cancelled: Whether it is to be ended, asked several times a second.
    """
    shown = redact_text(shlex.join(words))
    watched = _Watched(heard)
    began = time.monotonic()
    why = ""
    try:
        with log.open("wb") as file:
            live = Live(lambda chunk: watched.take(file, chunk), known=known)
            with Running(words, environment=environment) as running:
                for chunk in running.chunks(until=began + bounds.seconds, tick_s=_LOOK_S):
                    live.take(chunk)
                    watched.look(running.pid)
                    why = _beyond(watched, bounds, began) or ("it was not wanted any more" if is_cancelled() else "")
                    if why:
                        break
                live.finish()
    except (InputError, OSError) as error:
        said = redact_text(f"{error}")
        return Program(shown, None, "could not be run", time.monotonic() - began, 0.0, 0.0, str(log), why=said)
    took = time.monotonic() - began
    stopped = None if running.signalled is None else signal.Signals(running.signalled).name
    status = None if why else running.status
    ending = f"was ended: {why}" if why else running.ending
    if not why and (stopped or status != 0):
        why = f"stopped by {stopped}" if stopped else f"it {running.ending}{_fault(log)}"
    if watched.unwritten:
        cut = f"; its log is cut off: {watched.unwritten}"
        ending, why = ending + cut, why and why + cut
    return Program(shown, status, ending, took, watched.cpu_s, watched.most / _GIB, str(log), stopped, why)


def _beyond(watched: _Watched, bounds: Bounds, began: float) -> str:
    """Which bound it is beyond."""
    if watched.memory > bounds.memory_gib * _GIB:
        return f"it had {watched.memory / _GIB:.1f} GiB of memory, more than the {bounds.memory_gib:.1f} that it may"
    if time.monotonic() - began >= bounds.seconds:
        return f"it was not through after {bounds.seconds:g} s; give it more time"
    return ""


@dataclass
class _Watched:
    """What is seen of it."""

    heard: Callable[[str], None]
    memory: int = 0
    most: int = 0
    unwritten: str = ""
    """Why its log could not be written."""
    _cpu: dict[int, float] = field(default_factory=dict)
    _next: float = 0.0
    _rest: bytes = b""

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def take(self, file: IO[bytes], chunk: bytes) -> None:
        """Keep what it prints, secrets replaced already; a disk that is full is told, and no reason to end it."""
        if not self.unwritten:
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                self.unwritten = error.strerror or str(error)
        *lines, self._rest = (self._rest + chunk.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            self.heard(_ESCAPES.sub("", line[:_MAX_LINE].decode("utf-8", "replace")))
        self._rest = self._rest[:_MAX_LINE]

    def look(self, pid: int) -> None:
        """See what its processes take, twice a second."""
        if time.monotonic() < self._next:
            return
        self._next, self.memory = time.monotonic() + _LOOK_S, 0
        try:
            processes = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            return
        for each in processes:
            try:
                times = each.cpu_times()
                self._cpu[each.pid] = times.user + times.system
                # What a process shares with others, as maps of the same file, is no part of what it takes.
                told = each.memory_info()
                self.memory += told.rss - getattr(told, "shared", 0)
            except psutil.Error:
                continue
        self.most = max(self.most, self.memory)


def _fault(log: Path) -> str:
    """The last line of a log that names an error, as the end of a sentence."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL, 0))
            lines = _ESCAPES.sub("", file.read(_TAIL).decode("utf-8", "replace")).splitlines()
    except OSError:
        lines = []
    found = next((line.strip() for line in reversed(lines) if _FAULT.match(line.strip()[:_MAX_LINE])), "")
    return f": {found[:_MAX_SAID]}" if found else f"; see {log}"
