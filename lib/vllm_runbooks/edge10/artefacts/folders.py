"""Files of a folder with their sizes, and the contents of checked files.

Links to files are followed. Links to folders are not, so that there are no cycles and nothing
outside is read.
"""

from __future__ import annotations

import json
import os
import stat
from itertools import islice
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.artefacts.listings import MAX_DEPTH, MAX_FILES
from vllm_runbooks.edge10.artefacts.records import Contents, ListedFile, Listing
from vllm_runbooks.plan import checkpoints

_MAX_JSON = 64 << 20
"""Bytes of a JSON file; the largest tokenizers have half of that."""
_MAX_TOTAL = 256 << 20
"""Bytes of all JSON files."""
_MAX_SHARDS = 1_000
_LFS = b"version https://git-lfs"
_MAX_TEXT = 4 << 20
"""Maximum characters of a stored text; a longer one is only parsed."""
_INDEX = "model.safetensors.index.json"


def list_folder(folder: Path) -> Listing:
    """List a folder and everything below it; raises InputError."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; use one, or a listing of one")
    files: list[ListedFile] = []
    unread: dict[str, str] = {}
    is_cut = False
    pending = [("", 0)]
    while pending and not is_cut:
        parent, depth = pending.pop()
        try:
            with os.scandir(folder / parent) as entries:
                # A folder may have millions of files.
                batch = list(islice(entries, MAX_FILES - len(files) + 1))
        except OSError as error:
            if not parent:
                raise InputError(f"{folder}: cannot be listed ({error.strerror}); fix its permissions") from None
            unread[parent] = error.strerror or "unknown reason"
            continue
        batch_files = [_listed_file(entry, f"{parent}/{entry.name}" if parent else entry.name) for entry in batch]
        subfolders = [file.path for file in batch_files if file.kind == "folder"]
        files += batch_files
        is_cut = len(files) > MAX_FILES or bool(subfolders and depth + 1 >= MAX_DEPTH)
        pending += [(path, depth + 1) for path in subfolders]
    if not files:
        raise InputError(f"{folder}: is empty; use a folder of artefacts")
    files = sorted(files[:MAX_FILES], key=lambda file: file.path)
    return Listing(folder.resolve().name, tuple(files), unread, is_cut, tool="this host")


def _listed_file(entry: os.DirEntry[str], path: str) -> ListedFile:
    try:
        if entry.is_dir(follow_symlinks=False):
            return ListedFile(path, None, "folder")
        status = entry.stat()
    except OSError:
        return ListedFile(path, None, "broken link" if entry.is_symlink() else "other")
    if stat.S_ISDIR(status.st_mode):
        return ListedFile(path, None, "linked folder")
    return ListedFile(path, status.st_size) if stat.S_ISREG(status.st_mode) else ListedFile(path, None, "other")


def read_contents(folder: Path, listing: Listing) -> Contents:
    """Read the JSON files of a folder and the headers of its weights."""
    texts: dict[str, str] = {}
    damaged: dict[str, str] = {}
    tensors: dict[str, dict[str, int]] = {}
    budget = _MAX_TOTAL
    for file in (file for file in listing.files if file.kind == "file"):
        name = file.path.rpartition("/")[2]
        if name.endswith(".json") and file.bytes is not None and budget > 0:
            budget -= min(file.bytes, _MAX_JSON)
            try:
                text = _read_json(folder / file.path)
            except _UnreadableFileError as error:
                damaged[file.path] = str(error)
                continue
            if len(text) <= _MAX_TEXT or name == _INDEX:
                texts[file.path] = text
        elif name.endswith(".safetensors") and len(tensors) < _MAX_SHARDS:
            try:
                header = checkpoints.tensors(folder / file.path)
            except InputError as error:
                damaged[file.path] = str(error).partition(": ")[2]
            except OSError as error:
                damaged[file.path] = f"cannot be read ({error.strerror}); fix its permissions"
            else:
                tensors[file.path] = {tensor: size for tensor, (_, _, size) in header.items()}
    return Contents(texts, tensors, damaged)


class _UnreadableFileError(Exception):
    """A file cannot be read; the message has the reason and quotes no content."""


def _read_json(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            raw = stream.read(_MAX_JSON + 1)
    except OSError as error:
        raise _UnreadableFileError(f"cannot be read ({error.strerror})") from None
    if len(raw) > _MAX_JSON:
        raise _UnreadableFileError(f"is larger than the {_MAX_JSON >> 20} MiB allowed for such a file")
    if raw.startswith(_LFS):
        raise _UnreadableFileError("is a Git LFS pointer, not the file")
    if not raw.strip():
        raise _UnreadableFileError("is empty")
    try:
        text = raw.decode()
        json.loads(text, parse_int=len, parse_float=len)  # very long numbers are slow to parse
    except UnicodeDecodeError as error:
        raise _UnreadableFileError(f"is not UTF-8 text from byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise _UnreadableFileError(f"is truncated or invalid JSON at {error.lineno}:{error.colno}") from None
    except RecursionError:
        raise _UnreadableFileError("is nested too deeply to be read") from None
    return text
