"""Models in this host's caches, by their name on the Hub; nothing is downloaded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import InputError

_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"(?:[\w-][\w.-]{0,99}/){0,4}[\w-][\w.-]{0,99}", re.ASCII)
_COMMIT = re.compile(r"[\w-]{1,64}", re.ASCII)
MAX_CONFIG = 8_000_000
"""Maximum size of a config.json in bytes; the largest published ones have about 200,000."""
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables that keep the client from the Hub."""
_YES = frozenset({"1", "true", "yes", "on"})
MAIN = "main"


class CachedModel(NamedTuple):
    """A model's files at one revision."""

    folder: Path
    commit: str
    is_ours: bool = False
    """Whether the folder has only headers of the weight files, downloaded for a plan."""


def is_hub_id(name: str) -> bool:
    """Whether a name has the form `ORG/NAME` or `NAME` of the Hub."""
    return _ID.fullmatch(name) is not None and ".." not in name


def is_revision(revision: str) -> bool:
    """Whether a text can be a branch, tag or commit."""
    return _REVISION.fullmatch(revision) is not None and ".." not in revision


def is_commit(text: object) -> bool:
    """Whether a value can be the id of a commit."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


def is_set(variable: str, variables: Mapping[str, str]) -> bool:
    """Whether a variable of the Hub's client has one of its words for true."""
    return variables.get(variable, "").casefold() in _YES


def hub_cache(variables: Mapping[str, str] = os.environ) -> Path | None:
    """Cache of `huggingface_hub`, as its variables place it; None if the user has no home folder."""
    home = Path(variables.get("HF_HOME") or Path(variables.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    try:
        return Path(variables.get("HF_HUB_CACHE") or home / "hub").expanduser()
    except RuntimeError:  # the user of a container may have no home
        return None


def uses_modelscope(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether vLLM loads models from ModelScope."""
    return is_set("VLLM_USE_MODELSCOPE", variables)


def modelscope(variables: Mapping[str, str] = os.environ) -> str | None:
    """Address of ModelScope if vLLM loads models from it, else None (modelscope/hub/constants.py)."""
    return (
        f"https://{variables.get('MODELSCOPE_DOMAIN') or 'www.modelscope.cn'}" if uses_modelscope(variables) else None
    )


def our_cache() -> Path:
    """Cache of the headers that plans downloaded, in the same layout; raises InputError without a home folder."""
    return user_folders.cache() / ("modelscope" if uses_modelscope() else "hub")


def place(name: str, root: Path) -> Path:
    """Folder of a model in a cache."""
    return root / f"models--{name.replace('/', '--')}"


def snapshot(name: str, revision: str | None, root: Path | None) -> CachedModel | None:
    """A model's files in a cache; None if the cache does not have that revision."""
    asked = revision or MAIN
    if root is None or not is_hub_id(name) or not is_revision(asked):
        return None
    model = place(name, root)
    try:
        with (model / "refs" / asked).open("rb") as stream:
            commit = stream.read(100).decode("ascii").strip()
    except (OSError, ValueError):
        commit = asked
    folder = model / "snapshots" / commit
    return CachedModel(folder, commit) if is_commit(commit) and folder.is_dir() else None


def placement(options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Revision and download folder that a launch's options name."""
    revision, folder = (options.get(dest) for dest in ("revision", "download_dir"))
    return str(revision) if revision else None, str(folder) if folder else None


def cached(name: str, revision: str | None = None, download_dir: str | None = None) -> tuple[CachedModel, ...]:
    """Copies of a model with a config.json on this host: vLLM's first, then ours."""
    try:
        ours = our_cache()
    except InputError:
        ours = None
    found = []
    for root in (Path(download_dir) if download_dir else hub_cache(), ours):
        model = snapshot(name, revision, root)
        if model is not None and (model.folder / "config.json").is_file():
            found.append(model._replace(is_ours=root == ours))
    return tuple(found)


def cached_config(name: str, options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The config.json of a launch's cached model; None if it is not cached or not readable."""
    for model in cached(name, *placement(options)):
        try:
            with (model.folder / "config.json").open("rb") as stream:
                config = json.loads(stream.read(MAX_CONFIG))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(config, dict):
            return config
    return None
