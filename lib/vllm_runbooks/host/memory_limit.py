"""Whether the kernel killed something for memory, as the control group of this process counts it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def kills(own: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> int | None:
    """How many processes of this group the kernel has killed for memory so far; None: it does not tell.

    Source: Documentation/admin-guide/cgroup-v2.rst, memory.events (of version 1: memory.oom_control).
    """
    for file in _files(own, root):
        with contextlib.suppress(OSError, ValueError):
            if match := re.search(r"^oom_kill (\d{1,18})$", file.read_text("ascii"), re.MULTILINE):
                return int(match[1])
    return None


def _files(own: Path, root: Path) -> list[Path]:
    """Where the count may stand; in a container the group's path is the root's."""
    found = []
    with contextlib.suppress(OSError):
        for line in own.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            place = path.lstrip("/")
            if not controllers:
                found += [root / place / "memory.events", root / "memory.events"]
            elif "memory" in controllers.split(","):
                found += [root / "memory" / place / "memory.oom_control", root / "memory" / "memory.oom_control"]
    return found
