"""Folders and files of supervised launches."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from vllm_runbooks.core import moments, user_folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host import leftovers
from vllm_runbooks.probe.starts import LaunchEvent

REPORT = "report.json"
MOST = 50


def starts() -> Path:
    return user_folders.state() / "starts"


def new(id_: str) -> Path:
    return starts() / f"{moments.in_a_name()}-{id_[:8]}"


def make(folder: Path) -> None:
    """Make the folder for its owner alone, as a log may contain secrets."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder}: is not empty; set a new folder with --dir")
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}; set another folder with --dir") from None
    if folder.parent == starts():
        # Launches without a report are counted separately: their logs are elsewhere.
        for others in _ended(folder.parent):
            for old in others[:-MOST]:
                with contextlib.suppress(OSError):
                    shutil.rmtree(old)


def ended() -> list[Path]:
    """Folders of ended launches, the oldest first."""
    reported, others = _ended(starts()) if starts().is_dir() else ([], [])
    return sorted([*reported, *others])


def _ended(every: Path) -> tuple[list[Path], list[Path]]:
    reported, others = list[Path](), list[Path]()
    for path in sorted(every.iterdir()):
        if (path / REPORT).is_file():  # written at the end of a launch
            reported.append(path)
        elif leftovers.is_over(path):
            others.append(path)
    return reported, others


def numbered(name: str, number: int) -> str:
    """File name of an attempt: the first keeps it, as in server.log, server-2.log."""
    stem, _, suffix = name.partition(".")
    return name if number == 1 else f"{stem}-{number}.{suffix}"


def log_name(number: int) -> str:
    return numbered("server.log", number)


def node_log_name(number: int, node: str) -> str:
    """Log of a node that only computes."""
    return f"node-{node}.log" if number == 1 else f"try-{number}-node-{node}.log"


def node_logs(folder: Path, number: int) -> list[Path]:
    return sorted(path for path in folder.glob(node_log_name(number, "*")) if path.stat().st_size)


def command_name(number: int) -> str:
    return numbered("command.sh", number)


def seen_name(number: int) -> str:
    return numbered("guard.log", number)


def line_of(event: LaunchEvent) -> str:
    """An event as a log line that `diagnose` reads."""
    phase = f" phase={event.phase}" if event.phase else ""
    return f"[vllm-runbooks] after {event.at_s:.1f} s{phase} {event.kind}: {event.message}"
