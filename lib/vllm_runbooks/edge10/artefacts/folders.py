"""What lies in a folder: its files with their sizes, and what stands in those that are judged.

A listing is bounded in number and depth. A link to a file is the file; one to a folder is not followed, so that there
is no way in a circle and none out of the folder.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.artefacts import vocabularies
from vllm_runbooks.edge10.artefacts.listings import MAX_DEPTH, MAX_FILES
from vllm_runbooks.edge10.artefacts.records import Contents, ListedFile, Listing, Tensor, Vocabulary
from vllm_runbooks.plan import checkpoints

_MAX_JSON = 64 << 20
"""Bytes of a JSON file that are read; the tokenizers of the largest vocabularies have half of that."""
_MAX_TOGETHER = 256 << 20
"""Bytes of all that are read."""
_MAX_SHARDS = 1_000
_LFS = b"version https://git-lfs"
_KEPT = 4 << 20
"""Characters of a text that are kept for what stands in it; of a longer one only whether it is whole is judged."""
_MAX_DIGITS = 18
_INDEX = "model.safetensors.index.json"


def list_folder(folder: Path) -> Listing:
    """List what lies in a folder and below it.

    Raises:
        InputError: it is no folder, is empty, or cannot be read.
    """
    if not folder.exists():
        raise InputError(f"{folder}: is not there; name a folder of artefacts, or a listing of one")
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; name one, or a listing of one")
    found: list[ListedFile] = []
    unread: dict[str, str] = {}
    is_cut = False
    open_ = [("", 0)]
    while open_:
        below, depth = open_.pop()
        try:
            with os.scandir(folder / below) as entries:
                # Not sorted before they are counted: a folder may hold millions.
                here: list[os.DirEntry[str]] = []
                for entry in entries:
                    if len(found) + len(here) >= MAX_FILES:
                        is_cut = True
                        break
                    here.append(entry)
        except OSError as error:
            if not below:
                raise InputError(f"{folder}: cannot be listed ({error.strerror}); mend its permissions") from None
            unread[below] = error.strerror or "no reason is given"
            continue
        for entry in sorted(here, key=lambda one: one.name):
            path = f"{below}/{entry.name}" if below else entry.name
            listed = _entry(entry, path)
            found.append(listed)
            if listed.kind == "folder":
                if depth + 1 >= MAX_DEPTH:
                    is_cut = True
                elif not is_cut:
                    open_.append((path, depth + 1))
    if not found:
        raise InputError(f"{folder}: is empty; name a folder of artefacts")
    name = folder.resolve().name
    return Listing(name, tuple(sorted(found, key=lambda one: one.path)), unread, is_cut, by="this host")


def _entry(entry: os.DirEntry[str], path: str) -> ListedFile:
    try:
        if entry.is_dir(follow_symlinks=False):
            return ListedFile(path, None, "folder")
        told = entry.stat()
    except OSError:
        return ListedFile(path, None, "broken link" if entry.is_symlink() else "other")
    if stat.S_ISDIR(told.st_mode):
        return ListedFile(path, None, "linked folder")
    return ListedFile(
        path, told.st_size if stat.S_ISREG(told.st_mode) else None, "file" if stat.S_ISREG(told.st_mode) else "other"
    )


def read_contents(folder: Path, listing: Listing) -> Contents:
    """Read what is judged of a folder's files: its JSON, and the headers of its weights."""
    texts: dict[str, str] = {}
    damaged: dict[str, str] = {}
    tensors: dict[str, dict[str, Tensor]] = {}
    known: dict[str, Vocabulary] = {}
    left = _MAX_TOGETHER
    shards = 0
    for each in listing.files:
        if each.kind != "file":
            continue
        if each.path.endswith(".json") and each.bytes is not None and left > 0:
            left -= min(each.bytes, _MAX_JSON)
            text, told, why = _json(folder / each.path)
            if each.path.rpartition("/")[2] in vocabularies.FILES and (found := vocabularies.of(told)) is not None:
                known[each.path] = found
            if why:
                damaged[each.path] = why
            elif text is not None and (len(text) <= _KEPT or each.path.rpartition("/")[2] == _INDEX):
                texts[each.path] = text
        elif each.path.endswith(".safetensors") and shards < _MAX_SHARDS:
            shards += 1
            try:
                held = checkpoints.tensors(folder / each.path)
            except InputError as error:
                damaged[each.path] = str(error).partition(": ")[2]
            except OSError as error:
                damaged[each.path] = f"cannot be read ({error.strerror}); mend its permissions"
            else:
                tensors[each.path] = {name: Tensor(*one) for name, one in held.items()}
    return Contents(texts, tensors, damaged, known)


def _json(path: Path) -> tuple[str | None, object, str]:
    """A JSON text, what it holds, and what is wrong with it; nothing that stands in it is quoted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            raw = stream.read(_MAX_JSON + 1)
    except OSError as error:
        return None, None, f"cannot be read ({error.strerror})"
    if len(raw) > _MAX_JSON:
        return None, None, f"is larger than the {_MAX_JSON >> 20} MiB that such a file may have"
    if raw.startswith(_LFS):
        return None, None, "is a pointer of Git LFS, not the file"
    if not raw.strip():
        return None, None, "is empty"
    try:
        text = raw.decode()
        told = json.loads(text, parse_int=_number, parse_float=len)
    except UnicodeDecodeError as error:
        return None, None, f"is no text in UTF-8 from byte {error.start} on"
    except json.JSONDecodeError as error:
        return None, None, f"is cut off or no JSON at {error.lineno}:{error.colno}"
    except RecursionError:
        return None, None, "is nested too deeply to be read"
    return text, told, ""


def _number(digits: str) -> int:
    """A number of few digits; one of very many takes very long to be reckoned, and is the count of them."""
    return int(digits) if len(digits) <= _MAX_DIGITS else len(digits)
