"""Find the processes of a suite or a run by a tag in their environment, and kill them.

The processes of a suite have its id, those of a run the run's id as well. As a program, this module
waits for its caller's death and then kills what the caller started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

TAG = "RUNBOOKS_RUN"
"""Environment variable naming the suite ("ab12") or the run ("ab12.3") of a process; nested suites
append.

vLLM warns of unknown variables that begin with VLLM_.
"""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def nested_tag(tag: str) -> str:
    """Value of `TAG` for processes nested below this one."""
    return ":".join(filter(None, [os.environ.get(TAG), tag]))


def sweep(tag: str, *, root: int | None = None, patience_s: float = 3.0) -> None:
    """Kill every process with the tag, and every descendant of them or of `root`.

    `root` itself stays.

    They are terminated, and killed half a second later. Workers are last, because orphans become
    their children: a process that has overwritten its environment is only found that way.
    """
    _end(lambda: _belonging(tag, root), patience_s)


def end_descendants(root: int, *, patience_s: float = 3.0) -> None:
    """Kill every descendant of `root`, like `sweep`, whatever its tag; `root` itself stays."""
    _end(lambda: (set(), descendants(root)), patience_s)


def _end(find: Callable[[], tuple[set[psutil.Process], set[psutil.Process]]], patience_s: float) -> None:
    """End the workers and the others that are found, until none is."""
    import psutil

    deadline = time.monotonic() + patience_s
    terminated: set[psutil.Process] = set()
    ask_until = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        workers, others = find()
        victims = others or workers
        if not victims:
            return
        for victim in victims:
            with contextlib.suppress(psutil.Error, OSError):
                if victim in workers or (victim in terminated and time.monotonic() > ask_until):
                    victim.kill()
                elif victim not in terminated:
                    terminated.add(victim)
                    victim.terminate()
        time.sleep(0.02)


def _belonging(tag: str, root: int | None) -> tuple[set[psutil.Process], set[psutil.Process]]:
    """Find the workers of a suite (tagged with its bare id), and its other processes."""
    import psutil

    workers: set[psutil.Process] = set()
    others: set[psutil.Process] = set()
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if pid in (os.getpid(), root) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            names = process.environ().get(TAG, "").rstrip(":").split(":")
            if names[-1] == tag and "." not in tag:
                workers.add(process)
            elif any(name == tag or name.startswith(f"{tag}.") for name in names):
                others.add(process)
    # Processes instead of ids, which may have been reused by now.
    others |= _descendants({*workers, *others, *(() if root is None else _processes(root))})
    return workers, others - workers


def descendants(root: int) -> set[psutil.Process]:
    """Every process that runs below this one, but for the caller."""
    return _descendants(_processes(root))


def _processes(pid: int) -> set[psutil.Process]:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        return {psutil.Process(pid)}
    return set()


def _descendants(parents: Iterable[psutil.Process]) -> set[psutil.Process]:
    import psutil

    descendants: set[psutil.Process] = set()
    for parent in parents:
        with contextlib.suppress(psutil.Error, OSError):
            children = parent.children(recursive=True)
            descendants.update(child for child in children if child.pid != os.getpid() and _is_alive(child))
    return descendants


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants (Linux), so that none leaves its sight by forking twice."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Have Linux kill this fork when its parent dies."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


TAG_SPACE = ":" * 12
"""Follows the tag of a process whose forks call `relabel`."""
_tag_address: list[int] = []


def reserve_label() -> None:
    """Remove `TAG_SPACE` from the environment; call this before anything else sets `TAG`."""
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    _tag_address.append(getenv(TAG.encode()))
    os.environ[TAG] = os.environ[TAG].rstrip(":")


def relabel() -> None:
    """Write this fork's tag over its parent's in /proc/PID/environ, where `sweep` reads it."""
    import ctypes

    size = len(ctypes.string_at(_tag_address[0]))
    tag = os.environ[TAG].encode().ljust(size, b":")
    if len(tag) == size:
        ctypes.memmove(_tag_address[0], tag, size)


def reap() -> None:
    """Collect adopted children that ended; between two runs there are no others."""
    with contextlib.suppress(ChildProcessError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def guard(suite_id: str, runtime: str, out: str, how: str = "") -> None:
    """Wait for the caller's end; unless it sent "done", kill and remove what the suite started.

    This removes the folder `runtime`, and unfinished files of `out`. With `how` "apart" it forks,
    so that it is not a child of the caller.
    """
    if how == "apart" and os.fork():
        os._exit(0)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.stdin.buffer.read() == b"done":
        return
    sweep(suite_id, patience_s=4.0)
    shutil.rmtree(runtime, ignore_errors=True)
    for part in Path(out).glob(".*.part"):
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    guard(*sys.argv[1:])
