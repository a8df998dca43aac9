"""Who wrote something down: a process of this host, told from another that was given its number later."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

from vllm_runbooks.host.here import here


class Owner(Enum):
    """What is known of the process that wrote something down; of several the last here counts."""

    OF_ANOTHER_BOOT = "another boot"
    """Or of another host: nothing that it wrote down is here."""
    GONE = "gone"
    UNSEEN = "unseen"
    """It is of another process namespace, such as a container's: its number says nothing here."""
    ALIVE = "alive"


def written(pid: int | None = None) -> dict[str, Any]:
    """What a process writes down of itself, by default this one."""
    at, pid = here(), os.getpid() if pid is None else pid
    return {"pid": pid, "began": _began(pid), "namespace": at.namespace, "boot": at.boot, "host": at.host}


def state(owner: Mapping[str, Any]) -> Owner:
    """What is known here of a process, by what it wrote down of itself."""
    at, boot, began = here(), owner.get("boot"), owner.get("began")
    if boot is not None and at.boot is not None and boot != at.boot:
        return Owner.OF_ANOTHER_BOOT
    if boot != at.boot or owner.get("namespace") != at.namespace:
        return Owner.UNSEEN
    there = _began(owner["pid"])
    return Owner.ALIVE if there is not None and (began is None or abs(there - began) < 1) else Owner.GONE


def is_written(owner: Any) -> bool:
    """Whether this is what a process wrote down of itself."""
    return (
        isinstance(owner, dict)
        and type(owner.get("pid")) is int
        and isinstance(owner.get("began"), (int, float, type(None)))
    )


def _began(pid: int) -> float | None:
    import psutil  # noqa: PLC0415

    with contextlib.suppress(psutil.Error, OSError, ValueError, OverflowError):
        process = psutil.Process(pid)
        # What has died and waits for its parent to take notice has its number still.
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    return None
