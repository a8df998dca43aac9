"""Open runbooks in place, or in a working copy if they belong to a package."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import folders
from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store


class RunbookFolder(NamedTuple):
    folder: Path
    said: str
    """Message about copied files; empty if the runbooks are opened in place."""


def workspace(folder: Path | None = None) -> RunbookFolder:
    """A writable folder of the runbooks: a checkout's own, else a copy in `folder` or the user's state."""
    source = folders.runbooks_dir()
    if not any(source.glob("*.ipynb")):
        raise InputError(f"{source}: contains no runbooks; use the folder that contains catalog/ and runbooks/")
    is_package = Path(__file__).resolve().parents[1] in source.resolve().parents
    if folder is None and not is_package and os.access(source, os.W_OK):
        return RunbookFolder(source, "")
    target = (folder or user_folders.state() / "lab" / version("vllm-runbooks")).absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be created ({error.strerror}); use another folder") from None
    copied = 0
    for path in sorted(source.glob("*.ipynb")):
        if not (target / path.name).exists():
            store(target / path.name, path.read_text(encoding="utf-8"))
            copied += 1
    if not copied:
        return RunbookFolder(target, f"opening the existing runbooks in {target}")
    return RunbookFolder(target, f"copied {copied} runbooks to {target}; changes in this folder are kept")
