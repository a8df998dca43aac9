"""This user's folders for state, configuration and cache (XDG Base Directory Specification 0.8)."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vllm_runbooks.core.errors import InputError

STATE, CONFIG, CACHE = VARIABLES = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
"""Variables that name other places for them."""
_OURS = "vllm-runbooks"


def state() -> Path:
    """Our folder for state; raises InputError if this user has no home and no variable names another folder."""
    return _base(STATE, "~/.local/state") / _OURS


def config() -> Path:
    """Our folder for configuration; raises as `state`."""
    return every_config() / _OURS


def cache() -> Path:
    """Folder for recomputable data; raises as `state`."""
    return _base(CACHE, "~/.cache") / _OURS


def caches(*, create: bool = False) -> Iterator[Path]:
    """Folders for recomputable data: the user's cache, then a temporary one without a writable home folder."""
    with suppress(InputError):
        yield cache()
    with suppress(OSError, AttributeError):  # Windows has no user numbers
        folder, user = Path(tempfile.gettempdir()), os.getuid()
        folder = folder / f"{_OURS}-{user}"
        if create:
            folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        # Another user may have created the folder to have their files read.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022:
            yield folder


def every_config() -> Path:
    """Parent of all programs' configuration folders; raises as `state`."""
    return _base(CONFIG, "~/.config")


def _base(variable: str, usual: str) -> Path:
    folder = Path(os.environ.get(variable) or "")
    if folder.is_absolute():  # the specification has any other left out of account
        return folder
    try:
        return Path(usual).expanduser()
    except RuntimeError:  # the user of a container may have no home
        raise InputError(f"this user has no home folder; set {variable} to a folder") from None
