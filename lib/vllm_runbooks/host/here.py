"""Identity of this process' host: the host, its boot, and the process namespace."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import NamedTuple

_FIRST = 0xEFFFFFFC
"""Inode of the namespace that a host boots with (Linux include/linux/proc_ns.h, PROC_PID_INIT_INO)."""
_NAMESPACE = Path("/proc/self/ns/pid")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class HostIdentity(NamedTuple):
    """Host and namespace in which process ids are unique; None for unknown values."""

    namespace: int | None
    """Inode of its process namespace; a container has its own."""
    boot: str | None
    """Boot id of the kernel."""
    host: str
    """Display name; a container has its own."""

    @property
    def has_hosts_numbers(self) -> bool:
        """Whether its process ids are those of the whole host, as far as known."""
        return self.namespace in (None, _FIRST)


def here() -> HostIdentity:
    """Identity of this process' host."""
    namespace = boot = None
    with contextlib.suppress(OSError):
        namespace = _NAMESPACE.stat().st_ino
    with contextlib.suppress(OSError, ValueError):
        boot = _BOOT.read_text("ascii").strip() or None
    return HostIdentity(namespace, boot, socket.gethostname())
