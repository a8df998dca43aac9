"""Copy and rename files between the steps: over no other file, not out of the folder, and each with a way back."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.edge10.artefacts.records import Mend, Repaired

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""What a file system says that has no hard links."""
_MARGIN = 1 << 20
"""Bytes that are left free."""


def apply(folder: Path, mends: Sequence[Mend], float_folder: Path | None) -> Repaired:
    """Do what was planned, one by one; what cannot be done is told, and the rest goes on.

    Args:
        folder: The folder that is repaired.
        mends: What is done in it.
        float_folder: The float model's folder; None: it is not at hand.

    Raises:
        InputError: there is no room for the copies; nothing was done.
    """
    _check_room(folder, mends, float_folder)
    done: list[Mend] = []
    failed: dict[str, str] = {}
    for each in mends:
        try:
            _mend(folder, each, float_folder)
        except _NotDoneError as error:
            failed[each.target] = str(error)
        except OSError as error:
            failed[each.target] = error.strerror or "no reason is given"
        else:
            done.append(each)
    undo = tuple(_undone(each) for each in reversed(done))
    return Repaired(str(folder), str(float_folder or ""), tuple(done), undo, failed)


def keep(done: Repaired, folder: Path) -> Path:
    """Write beside a folder what was done in it, and return where.

    Raises:
        NotStoredError: it could not be written.
    """
    place = folder.resolve()
    number = 1
    path = place.with_name(f"{place.name}.repair.json")
    while path.exists():
        number += 1
        path = place.with_name(f"{place.name}.repair-{number}.json")
    store(path, to_json(done) + "\n")
    return path


def _undone(each: Mend) -> str:
    return f"remove {each.target}" if each.does == "copy" else f"rename {each.target} back to {each.source}"


class _NotDoneError(Exception):
    """A file is left as it is; the text says why."""


def _check_room(folder: Path, mends: Sequence[Mend], float_folder: Path | None) -> None:
    needed = 0
    for each in mends:
        above = float_folder if each.is_float else folder
        if each.does == "copy" and above is not None:
            with suppress(OSError):
                needed += (above / each.source).stat().st_size
    free = shutil.disk_usage(folder).free
    if needed and needed + _MARGIN > free:
        raise InputError(f"{folder}: the copies need {needed:,} bytes, and {free:,} are free; make room first")


def _mend(folder: Path, each: Mend, float_folder: Path | None) -> None:
    target = _inside(folder, each.target)
    if os.path.lexists(target):
        raise _NotDoneError("a file of this name is there by now")
    if each.is_float:
        if float_folder is None:
            raise _NotDoneError("the float model's folder is not named")
        source = _of_float(float_folder, each.source)
    else:
        source = _inside(folder, each.source)
    told = source.lstat()
    if not stat.S_ISREG(told.st_mode):
        raise _NotDoneError(f"{each.source} is no plain file")
    if each.does == "rename":
        _rename(source, target)
    else:
        _copy(source, target)


def _inside(folder: Path, path: str) -> Path:
    """A path in a folder to which no link leads."""
    place = Path(os.path.realpath(folder))
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise _NotDoneError("leads out of the folder")
    above = place.joinpath(*parts[:-1])
    if Path(os.path.realpath(above)) != above:
        raise _NotDoneError("lies behind a link, which is not followed")
    if not above.is_dir():
        raise _NotDoneError("its folder is missing")
    return above / parts[-1]


def _of_float(folder: Path, path: str) -> Path:
    """A file of the float model; where a cache of the Hub links it to its content, that."""
    place = Path(os.path.realpath(folder))
    found = Path(os.path.realpath(place / path))
    cache = place.parent.parent / "blobs"
    is_cached = place.parent.name == "snapshots" and found.is_relative_to(cache)
    if not found.is_relative_to(place) and not is_cached:
        raise _NotDoneError(f"{path} leads out of the float model's folder")
    return found


def _rename(source: Path, target: Path) -> None:
    """Give a file another name, which no file may have by then."""
    if _placed(lambda: os.link(source, target, follow_symlinks=False)):
        source.unlink()
        return
    _copy(source, target)
    source.unlink()


def _copy(source: Path, target: Path) -> None:
    """Copy a file with its mode and times, whole or not at all."""
    part = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.part")
    try:
        read = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(read, "rb") as old, part.open("xb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
        shutil.copystat(source, part)
        if not _placed(lambda: os.link(part, target)):
            # A name that is made is nobody else's: what it is given afterwards replaces nothing.
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _placed(link: Callable[[], None]) -> bool:
    """Whether a file got a further name; False: the file system has no such."""
    try:
        link()
    except FileExistsError:
        raise _NotDoneError("a file of this name is there by now") from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True
