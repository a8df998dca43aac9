"""Where this process stands: its host, the host's boot, and the process namespace that its process numbers are of."""

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
    """A place whose process numbers are one set; None: the system does not tell."""

    namespace: int | None
    """Inode of its process namespace; a container has one of its own."""
    boot: str | None
    """Of the kernel that runs it."""
    host: str
    """Name, for people: a container has one of its own."""

    @property
    def has_hosts_numbers(self) -> bool:
        """Whether its process numbers are those of the whole host, as far as can be told."""
        return self.namespace in (None, _FIRST)


def here() -> HostIdentity:
    """The place of this process."""
    namespace = boot = None
    with contextlib.suppress(OSError):
        namespace = _NAMESPACE.stat().st_ino
    with contextlib.suppress(OSError, ValueError):
        boot = _BOOT.read_text("ascii").strip() or None
    return HostIdentity(namespace, boot, socket.gethostname())
