"""Store a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from pathlib import Path

from vllm_runbooks.errors import RunbooksError


class NotStoredError(RunbooksError):
    """A file could not be written; what was there before is intact."""


def store(path: Path, text: str) -> None:
    """Write the file whole or not at all: a reader, or a crash at any moment, finds the old content or the new.

    A file that is replaced keeps its permissions, so that a script can still be run; a link goes on leading to it.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    try:
        try:
            # Not mkstemp: its files are readable by their owner alone, and reports are there to be read.
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
                if path.is_file():
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
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
