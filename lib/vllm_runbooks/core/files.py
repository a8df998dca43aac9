"""Store a file or a folder atomically."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from pathlib import Path

from vllm_runbooks.core.errors import RunbooksError

SNAPSHOT, OBSERVATION, NODES, JOB = "inventory.json", "probe.json", "cluster.json", "job.yaml"
"""Files of a case that is a host's snapshot, a running server as observed, or several nodes: each is alone there."""


class NotStoredError(RunbooksError):
    """A file could not be written; its previous content is intact."""


def store(path: Path, content: str | bytes, *, is_private: bool = False, like: Path | None = None) -> None:
    """Write a file atomically: a reader, or a crash at any time, finds the old content or the new.

    A replaced file keeps its permissions, so that a script stays executable; a link keeps its
    target. A new file has the permissions of `like`, if that is a file. A private file is for its owner
    alone; others follow the umask, because reports are there to be read.
    """
    mode = 0o600 if is_private else 0o666
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    try:
        try:
            unnamed = _unnamed(path.parent, mode)
            opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) if unnamed is None else unnamed
            with os.fdopen(opened, "wb") as file:
                model = next((known for known in (path, like) if known is not None and known.is_file()), None)
                if model is not None and not is_private:
                    os.fchmod(file.fileno(), stat.S_IMODE(model.stat().st_mode))
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
                if unnamed is not None:
                    _name(unnamed, part)
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
    except OSError as error:
        free = "an unknown number of"
        with contextlib.suppress(OSError):
            free = str(shutil.disk_usage(path.parent).free)
        raise NotStoredError(f"could not store {path} ({error.strerror}; {free} bytes free)") from None


def replace_folder(new: Path, place: Path) -> None:
    """Replace a folder atomically by a copy of another.

    Raises OSError, with a complete folder in place, if it fails.
    """
    import tempfile

    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-", ignore_cleanup_errors=True) as name:
        staged, old = Path(name) / "new", Path(name) / "old"
        shutil.copytree(new, staged)
        if place.exists():
            place.rename(old)
        try:
            staged.rename(place)
        except OSError:
            if old.exists() and not place.exists():
                old.rename(place)
            raise


def _unnamed(folder: Path, mode: int) -> int | None:
    """Descriptor of a new file without a name, so that a crash leaves nothing of it; None if unsupported."""
    flag = getattr(os, "O_TMPFILE", 0)
    if flag and os.link in os.supports_dir_fd and Path("/proc/self/fd").is_dir():
        with contextlib.suppress(OSError):
            return os.open(folder, flag | os.O_WRONLY, mode)
    return None


def _name(descriptor: int, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # With only a folder's descriptor, the system follows the link, which is the file.
        os.link(f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
