"""The control group of this process: its memory limit, its use, and whether the kernel killed for it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")


def kills(membership: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> int | None:
    """Number of processes of this cgroup that the kernel killed for memory; None if unknown."""
    for group in _groups(membership, root):
        with contextlib.suppress(OSError, ValueError):
            text = (group.folder / group.events).read_text("ascii")
            if match := re.search(r"^oom_kill (\d{1,18})$", text, re.MULTILINE):
                return int(match[1])
    return None


def limit(membership: Path = Path("/proc/self/cgroup"), root: Path = _ROOT) -> tuple[int | None, int | None]:
    """Memory limit and use of this group in bytes: of nested limits the one with the least room; -1 is no limit."""
    limits: list[tuple[int, int | None]] = []
    is_open = False
    for group in _groups(membership, root):
        most = _number(group.folder / group.limit)
        is_open = is_open or most is not None
        if most is not None and most >= 0:
            limits.append((most, _number(group.folder / group.used)))
    if not limits:
        return (-1 if is_open else None), None
    return min(limits, key=lambda pair: pair[0] - (pair[1] or 0))


def root_limit(root: Path = _ROOT) -> int | None:
    """The limit in bytes that vLLM reads on a CPU since 0.24.0, of the root's group; None if there is none.

    utils/cpu_resource_utils.py, `get_cgroup_memory_limit` (0.24.0 :65, 0.33.0 :70).
    """
    limits = (_number(root / names[0]) for names in (_NAMES, ("memory/" + _NAMES_V1[0],)))
    return next((most for most in limits if most is not None and most >= 0), None)


_NO_LIMIT = 1 << 60
"""Limit from which a cgroup v1 has none: it then contains the largest number of pages."""


def _number(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        text = file.read_text("ascii").strip()
        if text == "max":
            return -1
        return int(text) if int(text) < _NO_LIMIT else -1
    return None


class _ControlGroup(NamedTuple):
    folder: Path
    limit: str
    used: str
    events: str


# Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel
_NAMES = ("memory.max", "memory.current", "memory.events")
_NAMES_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control")


def _groups(membership: Path, root: Path) -> list[_ControlGroup]:
    """The groups around this process, innermost first; in a container the root alone."""
    groups: list[_ControlGroup] = []
    with contextlib.suppress(OSError):
        for line in membership.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                base, names = root, _NAMES
            elif "memory" in controllers.split(","):
                base, names = root / "memory", _NAMES_V1
            else:
                continue
            place = base / path.lstrip("/")
            groups += [
                _ControlGroup(parent, *names)
                for parent in (place, *place.parents)
                if parent == base or base in parent.parents
            ]
    return groups
