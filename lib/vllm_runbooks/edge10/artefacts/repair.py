"""Copy and rename files in a folder: over no other file, not out of the folder, and each step with its undo."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.edge10.artefacts.records import RepairRecord, RepairStep

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_RESERVE = 1 << 20
"""Bytes of the disk that stay free."""


class _SkippedError(Exception):
    """A file is left as it is; the text says why."""


def apply(folder: Path, mends: Sequence[RepairStep], float_folder: Path | None) -> RepairRecord:
    """Repair a folder. A step that fails is reported, and the rest goes on.

    Raises:
        InputError: There is no space for the copies; nothing was done.
    """
    _check_space(folder, mends, float_folder)
    done: list[RepairStep] = []
    failed: dict[str, str] = {}
    for mend in mends:
        try:
            _apply_step(folder, mend, float_folder)
        except FileExistsError:
            failed[mend.target] = "a file of this name is there by now"
        except _SkippedError as error:
            failed[mend.target] = str(error)
        except OSError as error:
            failed[mend.target] = error.strerror or "no reason is given"
        else:
            done.append(mend)
    undo = tuple(_undo(mend) for mend in reversed(done))
    return RepairRecord(str(folder), str(float_folder or ""), tuple(done), undo, failed)


def keep(done: RepairRecord, folder: Path) -> Path:
    """Write the record of a repair next to the folder, and return its path.

    Raises:
        NotStoredError: It could not be written.
    """
    place = folder.resolve()
    path, number = place.with_name(f"{place.name}.repair.json"), 1
    while path.exists():
        number += 1
        path = place.with_name(f"{place.name}.repair-{number}.json")
    store(path, to_json(done) + "\n")
    return path


def _undo(mend: RepairStep) -> str:
    return f"remove {mend.target}" if mend.does == "copy" else f"rename {mend.target} back to {mend.source}"


def _check_space(folder: Path, mends: Sequence[RepairStep], float_folder: Path | None) -> None:
    needed = 0
    for mend in mends:
        root = float_folder if mend.is_float else folder
        if mend.does == "copy" and root is not None:
            with suppress(OSError):
                needed += (root / mend.source).stat().st_size
    free = shutil.disk_usage(folder).free
    if needed and needed + _RESERVE > free:
        raise InputError(f"{folder}: the copies need {needed:,} bytes, and {free:,} are free; make room first")


def _apply_step(folder: Path, mend: RepairStep, float_folder: Path | None) -> None:
    target = _inside(folder, mend.target)
    if os.path.lexists(target):
        raise FileExistsError
    if mend.is_float and float_folder is None:
        raise _SkippedError("the float model's folder is not named")
    source = (
        _in_float_model(float_folder, mend.source) if mend.is_float and float_folder else _inside(folder, mend.source)
    )
    if not stat.S_ISREG(source.lstat().st_mode):
        raise _SkippedError(f"{mend.source} is no plain file")
    if mend.does == "copy":
        _copy(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)  # unlike a rename, never over a file
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _copy(source, target)
    source.unlink()


def _inside(folder: Path, path: str) -> Path:
    """A path in a folder, behind no link."""
    root = Path(os.path.realpath(folder))
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise _SkippedError("leads out of the folder")
    parent = root.joinpath(*parts[:-1])
    if Path(os.path.realpath(parent)) != parent:
        raise _SkippedError("lies behind a link, which is not followed")
    if not parent.is_dir():
        raise _SkippedError("its folder is missing")
    return parent / parts[-1]


def _in_float_model(folder: Path, path: str) -> Path:
    """A file of the float model, which a cache of the Hub links to its content."""
    root = Path(os.path.realpath(folder))
    file = Path(os.path.realpath(root / path))
    is_cached = root.parent.name == "snapshots" and file.is_relative_to(root.parent.parent / "blobs")
    if not file.is_relative_to(root) and not is_cached:
        raise _SkippedError(f"{path} leads out of the float model's folder")
    return file


def _copy(source: Path, target: Path) -> None:
    """Copy a file with its mode and times to a new name; a partial copy is removed."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as old, target.open("xb") as new:
        try:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
            shutil.copystat(source, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
