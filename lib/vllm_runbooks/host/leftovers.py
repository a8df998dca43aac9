"""Remains of earlier launches on this host, each with its evidence; nothing is removed unasked.

A leftover is proven if it has the mark of a supervised launch whose supervisor has ended: a process
by its environment, a shared memory segment by its inode in the launch's record. A supervisor in
another process namespace, such as a container, is invisible, so nothing of it is proven.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.host import owners
from vllm_runbooks.host import records as host_records
from vllm_runbooks.host.here import here
from vllm_runbooks.host.owners import Owner
from vllm_runbooks.host.processes import TAG

if TYPE_CHECKING:
    import psutil

SHARED = Path(host_records.SHARED)
_SEGMENT = re.compile(
    r"(?:psm_[0-9a-f]{8}|sem\.mp-[\w-]{4,40}|vllm\w{0,40}|nccl-[\w-]{1,40}|sem\.[A-Za-z0-9]{6,10})", re.ASCII
)
"""Names that Python's shared memory, its semaphores, vLLM and NCCL give."""
RECORD = "start.json"
"""File that a supervisor writes about its launch, in the launch's folder among those of all
launches."""


@dataclass(frozen=True)
class Leftover:
    """Remains of an earlier launch."""

    kind: str
    """"process" or "segment"."""
    name: str
    """Process number, or the segment's file name."""
    size_bytes: int
    """Memory in use; for a segment the allocated size, not its maximum."""
    is_proven: bool
    proof: str
    """Evidence, as text."""
    key: int | None = None
    """Inode of a segment, or start time of a process, so that nothing else is removed in its
    place."""


def written(id_: str, guard: int, segments: Mapping[str, int]) -> str:
    """Record of a supervisor: its mark, itself, and the shared memory that its processes opened."""
    return json.dumps({"id": id_, "guard": owners.written(guard), "segments": dict(segments)}) + "\n"


def segments() -> dict[str, int]:
    """Segments of shared memory of this user: names and inodes."""
    inodes = {}
    with contextlib.suppress(OSError), os.scandir(SHARED) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                if stat.st_uid == os.getuid() and _SEGMENT.fullmatch(entry.name):
                    inodes[entry.name] = stat.st_ino
    return inodes


def opened_by(pids: Sequence[int], names: Mapping[str, int]) -> set[str]:
    """Segments that these processes have mapped."""
    opened: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
                name = line.partition(f"{SHARED}/")[2].removesuffix(" (deleted)")
                if name in names:
                    opened.add(name)
    return opened


def find_leftovers(starts: Path) -> list[Leftover]:
    """Possible leftovers of vLLM on this host; `starts` is the folder of supervised launches."""
    import psutil

    records: dict[Owner, list[dict[str, Any]]] = {state: [] for state in Owner}
    for record in map(_record, sorted(starts.glob(f"*/{RECORD}"))):
        if record is not None:
            records[owners.state(record["guard"])].append(record)
    # Small inode numbers and predictable names recur after a boot.
    del records[Owner.OF_ANOTHER_BOOT]
    of_mark = {record["id"]: (state, record) for state, some in records.items() for record in some}
    processes = [process for pid in psutil.pids() if (process := _process(pid)) is not None]
    left = [leftover for process in processes if (leftover := _left(process, of_mark)) is not None]
    inodes = segments()
    mapped = opened_by([process.pid for process in processes], inodes)
    of_start = {
        (name, inode): (state, record)
        for state, some in records.items()
        for record in some
        for name, inode in record["segments"].items()
    }
    for name in sorted(set(inodes) - mapped):
        state, record = of_start.get((name, inodes[name]), (None, {}))
        if state is Owner.ALIVE:
            continue
        size = 0
        with contextlib.suppress(OSError):
            size = (SHARED / name).stat().st_blocks * 512
        proof = (
            f"opened by launch {record['id'][:12]}, {_whose(state, record)}; no visible process has it open"
            if state is not None
            else "named like shared memory of Python or vLLM and owned by this user; no visible process has it open"
        )
        left.append(Leftover("segment", name, size, state is Owner.GONE, proof, inodes[name]))
    return left


def is_over(folder: Path) -> bool:
    """Whether the supervisor of the launch has certainly ended; False without a record."""
    record = _record(folder / RECORD)
    return record is not None and owners.state(record["guard"]) in (Owner.GONE, Owner.OF_ANOTHER_BOOT)


def _whose(state: Owner, record: Mapping[str, Any]) -> str:
    if state is Owner.GONE:
        return "whose supervisor has ended"
    guard, at = record["guard"], here()
    if (guard.get("boot"), guard.get("namespace")) != (at.boot, at.namespace):
        return f"whose supervisor is not visible from here: it ran in another PID namespace ({guard.get('host')})"
    return f"whose supervisor may be alive: the start time of process {guard['pid']} is unknown"


def remove_leftover(leftover: Leftover, *, patience_s: float = 3.0) -> bool:
    """Remove a leftover if it is unchanged; returns whether it no longer exists."""
    import psutil

    if leftover.kind == "segment":
        path = SHARED / leftover.name
        if segments().get(leftover.name) != leftover.key or opened_by(
            psutil.pids(), {leftover.name: leftover.key or 0}
        ):
            return False  # another one of this name, or in use again
        with contextlib.suppress(OSError):
            path.unlink()
        return not path.exists()
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(int(leftover.name))
        if leftover.key is None or owners.began(process.pid) != leftover.key:
            return leftover.key is not None  # the process id was reused
        process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(patience_s)
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            process.kill()
            process.wait(patience_s)
    return _process(int(leftover.name)) is None


def _process(pid: int) -> psutil.Process | None:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if process.uids().real == os.getuid() and pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _left(process: psutil.Process, of_mark: Mapping[str, tuple[Owner, Mapping[str, Any]]]) -> Leftover | None:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        marks = set(process.environ().get(TAG, "").split(":"))
        size = process.memory_info().rss
        title = next(iter(" ".join(process.cmdline()).split()), process.name())
        marked = {of_mark[mark][0]: of_mark[mark][1] for mark in sorted(marks & of_mark.keys())}
        if Owner.ALIVE in marked:
            return None
        if marked:
            # A nested launch has both marks, and one whose supervisor is invisible may be alive.
            state = Owner.UNSEEN if Owner.UNSEEN in marked else Owner.GONE
            proof = f"{title} is marked as part of launch {marked[state]['id'][:12]}, {_whose(state, marked[state])}"
        elif title.startswith("VLLM::") and not _has_server(process):
            state = Owner.UNSEEN
            proof = f"{title} without the server that started it: its parent is process {process.ppid()}"
        else:
            return None
        return Leftover("process", f"{process.pid}", size, state is Owner.GONE, proof, owners.began(process.pid))
    return None


def _has_server(process: psutil.Process) -> bool:
    """Whether the parent of a process is vLLM, and not a process that adopts orphans."""
    parent = process.parent()
    if parent is None or parent.pid == 1:
        return False
    title = (parent.cmdline() or [""])[0]
    return title.startswith("VLLM::") or any("vllm" in word for word in parent.cmdline())


def _record(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        record = json.loads(path.read_text("utf-8"))
        if (
            isinstance(record, dict)
            and owners.is_written(record.get("guard"))
            and isinstance(record.get("id"), str)
            and isinstance(record.get("segments"), dict)
        ):
            return dict(record)
    return None
