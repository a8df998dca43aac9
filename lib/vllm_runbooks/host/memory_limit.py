"""What the control group of this process says of memory: its limit, its use, and whether the kernel killed for it."""

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


def limit(own: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> tuple[int | None, int | None]:
    """Bytes that this group may have and those that it has; a limit of -1 is none, None is not told.

    Of several groups around this process that have a limit, the one with the least room.

    Source: Documentation/admin-guide/cgroup-v2.rst, memory.max (of version 1: memory.limit_in_bytes).
    """
    found: list[tuple[int, int | None]] = []
    is_open = False
    for folder, name, used in _groups(own, root):
        most = _number(folder / name)
        is_open = is_open or most is not None
        if most is not None and most >= 0:
            found.append((most, _number(folder / used)))
    if not found:
        return (-1 if is_open else None), None
    return min(found, key=lambda each: each[0] - (each[1] or 0))


_NO_LIMIT = 1 << 60
"""From here a limit of version 1 is none: what is written there is the largest number of pages."""


def _number(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        told = file.read_text("ascii").strip()
        if told == "max":
            return -1
        return int(told) if int(told) < _NO_LIMIT else -1
    return None


def _groups(own: Path, root: Path) -> list[tuple[Path, str, str]]:
    """The groups around this process from its own outwards, with the files of each; in a container the root alone."""
    found = []
    with contextlib.suppress(OSError):
        for line in own.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                base, names = root, ("memory.max", "memory.current")
            elif "memory" in controllers.split(","):
                base, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            else:
                continue
            place = base / path.lstrip("/")
            found += [(each, *names) for each in (place, *place.parents) if each == base or base in each.parents]
    return found


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
