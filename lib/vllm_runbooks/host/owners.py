"""The process that wrote a record, even if its number was reused since."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from vllm_runbooks.host.here import here

_PROC = Path("/proc")
_STATE, _BEGAN = 0, 19
"""State and start time of a process are in its `stat`, after its name (proc_pid_stat(5), fields 3
and 22)."""
_ENDED = frozenset({b"Z", b"X"})
"""States of zombie processes: their process ids are still in use."""


class Owner(Enum):
    """State of the process that wrote a record; of several, the last one listed here counts."""

    OF_ANOTHER_BOOT = "another boot"
    """Or of another host: nothing that it wrote down is here."""
    GONE = "gone"
    UNSEEN = "unseen"
    """Its process id is meaningless here, because its namespace is different or unknown."""
    ALIVE = "alive"


def written(pid: int | None = None) -> dict[str, Any]:
    """Describe a process for a record, by default this one."""
    at, pid = here(), os.getpid() if pid is None else pid
    return {"pid": pid, "ticks": began(pid), "namespace": at.namespace, "boot": at.boot, "host": at.host}


def state(owner: Mapping[str, Any]) -> Owner:
    """State of the process that wrote a record.

    Records of old releases have no start time: their process has certainly ended only if its id is
    unused.
    """
    at, boot, ticks = here(), owner.get("boot"), owner.get("ticks")
    if boot is not None and at.boot is not None and boot != at.boot:
        return Owner.OF_ANOTHER_BOOT
    if boot != at.boot or owner.get("namespace") != at.namespace:
        return Owner.UNSEEN
    stat = _stat(owner["pid"])
    if stat is None:
        return Owner.GONE if _is_free(owner["pid"]) else Owner.UNSEEN
    if stat[_STATE] in _ENDED:
        return Owner.GONE
    if ticks is None:
        return Owner.UNSEEN
    return Owner.ALIVE if int(stat[_BEGAN]) == ticks else Owner.GONE


def is_written(owner: Any) -> bool:
    """Whether this is an owner's record."""
    return (
        isinstance(owner, dict)
        and type(owner.get("pid")) is int
        and 0 < owner["pid"] < 1 << 31
        and isinstance(owner.get("ticks"), (int, type(None)))
    )


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since the boot; None if it has ended, or unknown."""
    stat = _stat(pid)
    return None if stat is None or stat[_STATE] in _ENDED else int(stat[_BEGAN])


def _stat(pid: int) -> list[bytes] | None:
    """The kernel's fields of a process from its state on; None if they cannot be read."""
    with contextlib.suppress(OSError):
        # A name may contain spaces and brackets.
        fields = (_PROC / f"{pid}" / "stat").read_bytes().rpartition(b")")[2].split()
        if len(fields) > _BEGAN and fields[_BEGAN].isdigit():
            return fields
    return None


def _is_free(pid: int) -> bool:
    """Whether no process certainly has this id: a system may hide those of other users."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
