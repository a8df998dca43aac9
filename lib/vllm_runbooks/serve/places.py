"""Where guarded starts keep their logs and records."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from vllm_runbooks.core import moments, user_folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host import leftovers
from vllm_runbooks.probe.starts import Sighting

REPORT = "report.json"
MOST = 50
"""Folders of starts that are kept; older ones are removed when a new one is made."""


def starts() -> Path:
    """The folder of all starts of this user."""
    return user_folders.state() / "starts"


def new(id_: str) -> Path:
    """A folder for one start."""
    return starts() / f"{moments.in_a_name()}-{id_[:8]}"


def make(folder: Path) -> None:
    """Make the folder, for its owner alone: a log may hold secrets.

    Raises:
        InputError: it cannot be made.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder}: is not empty; name a new folder with --dir")
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}; name another folder with --dir") from None
    if folder.parent == starts():
        _remove_old(folder.parent)


def ended() -> list[Path]:
    """The folders of starts that have ended, or that hold no report and whose guard is gone, the oldest first."""
    reported, others = _ended(starts()) if starts().is_dir() else ([], [])
    return sorted([*reported, *others])


def _ended(every: Path) -> tuple[list[Path], list[Path]]:
    reported, others = list[Path](), list[Path]()
    for path in sorted(every.iterdir()):
        if (path / REPORT).is_file():  # written when a start has ended
            reported.append(path)
        elif leftovers.is_over(path):
            others.append(path)
    return reported, others


def _remove_old(every: Path) -> None:
    """Keep the last of the starts that have ended, and of those that hold no report: their logs lie elsewhere."""
    reported, others = _ended(every)
    for old in (*reported[:-MOST], *others[:-MOST]):
        with contextlib.suppress(OSError):
            shutil.rmtree(old)


def log_name(number: int) -> str:
    """The log of a try, as the server wrote it."""
    return "server.log" if number == 1 else f"server-{number}.log"


def node_log_name(number: int, node: str) -> str:
    """The log of a node of a try that only computes."""
    return f"node-{node}.log" if number == 1 else f"try-{number}-node-{node}.log"


def node_logs(folder: Path, number: int) -> list[Path]:
    """Those of all such nodes that printed something."""
    return sorted(path for path in folder.glob(node_log_name(number, "*")) if path.stat().st_size)


def command_name(number: int) -> str:
    """The command of a try, or the script that it ran, secrets replaced."""
    return "command.sh" if number == 1 else f"command-{number}.sh"


def seen_name(number: int) -> str:
    """What the guard saw during a try."""
    return "guard.log" if number == 1 else f"guard-{number}.log"


def line_of(sighting: Sighting) -> str:
    """A sighting as a line of the guard's own log, which a diagnosis reads."""
    phase = f" phase={sighting.phase}" if sighting.phase else ""
    return f"[vllm-runbooks] after {sighting.at_s:.1f} s{phase} {sighting.kind}: {sighting.says}"
