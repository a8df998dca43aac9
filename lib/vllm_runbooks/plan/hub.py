"""Models on the Hugging Face Hub or ModelScope: configuration files and safetensors headers, never the weights.

`huggingface_hub` applies HF_ENDPOINT, HF_TOKEN and proxies, and sends no token to another host on a redirect. The
files are stored in this tool's cache in the layout of the Hub's cache, with the headers alone as weight files: a
snapshot is read like a model's folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from vllm_runbooks.core import extras
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import NotStoredError, store
from vllm_runbooks.host import model_cache
from vllm_runbooks.host.model_cache import CachedModel
from vllm_runbooks.plan import checkpoints
from vllm_runbooks.plan.reading import OTHER_FILES

PART = "models on the Hub"
"""The feature, for the error about its missing dependency."""
_DEADLINE_S = 60.0
"""Time for a model's files."""
_READ_S = 10
"""Time without any data from the server."""
_FIRST = 1 << 16
"""Bytes of the first read of a weights file; most headers are shorter."""
_MAX_HEADER = 25_000_000
"""Bytes of a header, as `huggingface_hub` limits them (constants.py, SAFETENSORS_MAX_HEADER_LENGTH)."""
_MAX_SHARDS = 2000
_PARALLEL = 8
_MAX_LISTING = 8_000_000
"""Bytes of ModelScope's list of a repository's files."""
_ADAPTER = "adapter_config.json"
_DIFFUSERS = "model_index.json"
_MASTER = "master"
"""ModelScope's default revision."""


class HubAccess(StrEnum):
    """Sources for a model that the catalog does not have."""

    NETWORK = "network"
    """This host's caches, then the Hub."""
    CACHE = "cache"
    """This host's caches."""
    NONE = "none"


class HubFiles(NamedTuple):
    """Files of a model of the Hub in a folder."""

    folder: Path
    source: str
    """Which files, from where, at which revision."""


class _Slow(Exception):  # noqa: N818 - a state, not shown
    """The time for a model's files is over."""


class _UnreachableError(InputError):
    """The Hub does not answer."""


class UnknownRevisionError(InputError):
    """A model does not have the revision."""


def find(
    name: str,
    access: HubAccess,
    *,
    revision: str | None = None,
    download_dir: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> HubFiles | None:
    """A model's files from this host's caches or the Hub; None if the caches lack it and the Hub is not to be asked.

    A complete model in vLLM's cache is used without network access.

    Raises:
        InputError: The Hub does not answer or does not have the model, or a file is damaged.
    """
    if access is HubAccess.NONE or not model_cache.is_hub_id(name):
        return None
    if "/" not in name:
        access = HubAccess.CACHE
    if revision is not None and not model_cache.is_revision(revision):
        raise UnknownRevisionError(f"{revision[:100]}: not a branch, tag or commit")
    kept = sorted(model_cache.cached(name, revision, download_dir), key=lambda model: not _has_headers(model.folder))
    if access is HubAccess.CACHE or (kept and not kept[0].is_ours and _has_headers(kept[0].folder)):
        return _files(kept[0]) if kept else None
    try:
        where = "ModelScope" if model_cache.uses_modelscope(environment) else "the Hub"
        return _files(_fetched(name, revision or model_cache.MAIN, environment), where)
    except _UnreachableError:
        if kept:
            return _files(kept[0])
        raise


def _has_headers(folder: Path) -> bool:
    try:
        return checkpoints.has_headers(folder)
    except InputError:
        return False


def _files(model: CachedModel, where: str = "this host's cache of the Hub") -> HubFiles:
    files = "config.json" + " and safetensors headers" * _has_headers(model.folder)
    return HubFiles(model.folder, f"{files} from {where}, revision {model.commit[:7]}")


# ---- the network


def offline_variable(environment: Mapping[str, str] = os.environ) -> str:
    """The variable that keeps the client off the network; empty if none is set."""
    return next((key for key in model_cache.OFFLINE if model_cache.is_set(key, environment)), "")


def _fetched(name: str, revision: str, environment: Mapping[str, str]) -> CachedModel:
    if offline := offline_variable(environment):
        raise _UnreachableError(
            f"{name}: unknown model, and it is not in this host's cache of the Hub; {offline} is set"
        )
    if extras.missing(PART):
        try:
            extras.require(PART)
        except InputError as error:
            raise _UnreachableError(f"{name}: unknown model; {error}") from None
    from huggingface_hub import constants

    endpoint = model_cache.modelscope(environment) or constants.ENDPOINT
    if not endpoint.startswith(("https://", "http://")):
        raise _UnreachableError(
            f"{name}: unknown model, and HF_ENDPOINT is no address of the Hub; begin it with https://, or unset it"
        )
    return _in_time(lambda until: _download(name, revision, endpoint, until), name, _host(endpoint))


def _in_time(work: Callable[[float], CachedModel], name: str, hub: str) -> CachedModel:
    """The result of work with the client, whose errors become one line; limited in time."""
    results: list[CachedModel] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work(until))
        except Exception as error:  # noqa: BLE001 - the client's releases raise those of three HTTP libraries
            errors.append(error)

    until = time.monotonic() + _DEADLINE_S
    # A daemon: a server that sends one byte after another must not keep the process from its end.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_DEADLINE_S)
    if results:
        return results[0]
    raise _explained(errors[0] if errors else _Slow(), name, hub) from None


def _explained(error: Exception, name: str, hub: str) -> InputError:
    from huggingface_hub import constants, errors

    if isinstance(error, InputError):
        return error
    if isinstance(error, _Slow):
        return _UnreachableError(f"{name}: {hub} did not send the model's files in {_DEADLINE_S:g} s; try again")
    if isinstance(error, errors.GatedRepoError):
        how = f"accept its license on {hub} and set HF_TOKEN"
        return InputError(f"{name}: the repository is gated; {how}, or pass a folder with its config.json")
    if isinstance(error, errors.RevisionNotFoundError):
        return UnknownRevisionError(f"{name}: {hub} does not have this revision; correct --revision")
    if isinstance(error, errors.RepositoryNotFoundError):
        return InputError(
            f"{name}: unknown model: {hub} does not have it; correct the name, or set HF_TOKEN if it is private"
        )
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, FileNotFoundError):
        return InputError(f"{name}: a file that {hub} lists is missing; try again")
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 404:
        return InputError(f"{name}: unknown model: {hub} does not have it; correct the name or --revision")
    if isinstance(status, int):
        kind = _UnreachableError if status >= 500 or status == 429 else InputError
        how = "; check HF_TOKEN" if status in (401, 403) else ""
        return kind(f"{name}: {hub} answered with HTTP {status}{how}")
    if isinstance(error, NotStoredError) or (isinstance(error, OSError) and error.filename):
        return InputError(f"{name}: its files cannot be stored: {error}")
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return _UnreachableError(
            f"{name}: unknown model, and {hub} cannot be read: its answer is not the Hub's, as behind a captive portal "
            "or proxy; check the network, or pass a folder with its config.json"
        )
    variable = "HF_ENDPOINT" if hub == _host(constants.ENDPOINT) else "MODELSCOPE_DOMAIN"
    how = f"check the network and {variable}, or pass a folder with its config.json"
    return _UnreachableError(f"{name}: unknown model, and {hub} cannot be read{_reason(error)}; {how}")


def _reason(error: BaseException | None) -> str:
    """The operating system's words for an error or its cause, in parentheses; empty if there are none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            return f" ({error.strerror.removeprefix(f'[Errno {error.errno}] ')})"
        error = error.__cause__ or error.__context__
    return ""


def _host(endpoint: str) -> str:
    """The host of an address, without a password in it."""
    return re.sub(r"^[a-z]+://(?:[^/@]*@)?", "", endpoint).partition("/")[0]


class _Repository(NamedTuple):
    commit: str
    sizes: Mapping[str, int | None]
    address: Callable[[str], str]
    """Address of a file."""


def _on_hub(name: str, revision: str) -> _Repository:
    import huggingface_hub as client

    info = client.HfApi().model_info(name, revision=revision, files_metadata=True, timeout=_READ_S)
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    return _Repository(str(info.sha or ""), sizes, lambda file: client.hf_hub_url(name, file, revision=info.sha))


def _on_modelscope(name: str, revision: str, endpoint: str, until: float) -> _Repository:
    """Files by ModelScope's API (modelscope/hub/api.py `get_model_files`, file_download.py `get_file_download_url`)."""
    address = f"{endpoint}/api/v1/models/{name}/repo"
    query = urlencode({"Revision": _MASTER if revision == model_cache.MAIN else revision, "Recursive": "true"})
    try:
        listed = json.loads(_read(f"{address}/files?{query}", _MAX_LISTING, until))
        files = [file for file in listed["Data"]["Files"] if file["Type"] == "blob"]
        # The last change of a file is the repository's commit.
        commit = str(max(files, key=lambda file: int(file["CommittedDate"]))["Revision"])
        sizes = {str(file["Path"]): int(file["Size"]) for file in files}
    except (LookupError, TypeError, ValueError, RecursionError):
        raise InputError(f"{name}: {_host(endpoint)} sent no list of files for revision {revision}") from None
    return _Repository(commit, sizes, lambda file: f"{address}?{urlencode({'Revision': commit, 'FilePath': file})}")


def _download(name: str, revision: str, endpoint: str, until: float) -> CachedModel:
    from huggingface_hub import constants, utils

    utils.disable_progress_bars()
    utils.logging.set_verbosity_error()
    is_hub = endpoint == constants.ENDPOINT
    repository = _on_hub(name, revision) if is_hub else _on_modelscope(name, revision, endpoint, until)
    commit, sizes, address = repository
    if not model_cache.is_commit(commit):
        raise InputError(f"{name}: {_host(endpoint)} sent no commit for revision {revision}")
    if "config.json" not in sizes:
        what = _without_config(sizes, lambda file: _read(address(file), model_cache.MAX_CONFIG, until))
        raise InputError(f"{name}: {what}")
    root = model_cache.our_cache()
    folder = model_cache.place(name, root) / "snapshots" / commit
    for file in ("config.json", *(f"{other}.json" for other in OTHER_FILES), checkpoints.INDEX):
        if file in sizes and not (folder / file).is_file():
            limit = checkpoints.MAX_INDEX if file == checkpoints.INDEX else model_cache.MAX_CONFIG
            content = b""
            if (sizes[file] or 0) <= limit:
                content = _read(address(file), limit + 1, until)
            if (size := max(sizes[file] or 0, len(content))) > limit:
                raise InputError(f"{name}: {file} has {size} bytes, more than the {limit} allowed for such a file")
            if sizes[file] not in (None, len(content)):
                raise InputError(
                    f"{name}: {file} has {sizes[file]} bytes on the Hub, {len(content)} arrived; try again"
                )
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            store(folder / file, content)
    missing = [file for file in _weight_files(name, folder, sizes) if not (folder / file).is_file()]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        headers = pool.map(lambda file: _header(name, file, address(file), sizes[file], until), missing)
        for file, header in zip(missing, headers, strict=True):
            store(folder / file, header)
    reference = model_cache.place(name, root) / "refs" / revision
    if revision != commit:
        reference.parent.mkdir(parents=True, exist_ok=True)
        store(reference, commit)
    return CachedModel(folder, commit, is_ours=True)


def _without_config(files: Collection[str], content: Callable[[str], bytes]) -> str:
    """What a repository without config.json is, and what to plan instead."""
    if _DIFFUSERS in files:
        return f"a diffusers pipeline ({_DIFFUSERS}); vllm serve loads language models with a config.json"
    if _ADAPTER not in files:
        return "the repository has no config.json; pass the model that it was converted from"
    try:
        base = json.loads(content(_ADAPTER))["base_model_name_or_path"]
    except (LookupError, TypeError, ValueError, RecursionError):
        base = None
    model = base if isinstance(base, str) and model_cache.is_hub_id(base) else "its base model"
    return f"an adapter of {model} ({_ADAPTER}); plan {model} with --enable-lora"


def _weight_files(name: str, folder: Path, sizes: Mapping[str, int | None]) -> list[str]:
    try:
        files = checkpoints.shards(folder) if checkpoints.INDEX in sizes else checkpoints.weight_files(sizes)
    except InputError:
        raise InputError(f"{name}: {checkpoints.INDEX} on the Hub is not a safetensors index") from None
    if len(files) > _MAX_SHARDS:
        raise InputError(f"{name}: its weights are in {len(files)} files, more than the {_MAX_SHARDS} allowed")
    missing = [file for file in files if file not in sizes]
    if missing:
        raise InputError(f"{name}: the repository lacks {len(missing)} of the {len(files)} files in its index")
    return files


def _header(name: str, file: str, url: str, size: int | None, until: float) -> bytes:
    """The start of a weights file, up to the end of its header."""
    start = _read(url, _FIRST, until)
    length = struct.unpack("<Q", start[:8])[0] if len(start) >= 8 else 0
    if length > _MAX_HEADER:
        raise InputError(f"{name}: {file} declares a header of {length} bytes, more than the {_MAX_HEADER} allowed")
    end = 8 + length
    header = start[:end] if end <= len(start) else _read(url, end, until)
    try:
        # A header that is cut off lacks its end.
        places = checkpoints.places(io.BytesIO(header if len(header) == end else b""), file)
    except InputError:
        raise InputError(f"{name}: the header of {file} on the Hub is damaged or cut off") from None
    whole = end + max((place.end for place in places.values()), default=0)
    if size is not None and size != whole:
        raise InputError(f"{name}: {file} has {size} bytes on the Hub, but its header says {whole}")
    return header


def _read(url: str, length: int, until: float) -> bytes:
    """The first bytes of a file; a server that ignores ranges is cut off after them."""
    data = bytearray()
    for part in _parts(url, length):
        data += part
        if time.monotonic() > until:
            raise _Slow
        if len(data) >= length:
            break
    return bytes(data[:length])


def _parts(url: str, length: int) -> Iterator[bytes]:
    from huggingface_hub import constants, utils

    token = None if url.startswith(constants.ENDPOINT) else False  # the Hub's token is for the Hub alone
    headers = {**utils.build_hf_headers(token=token), "Range": f"bytes=0-{length - 1}", "Accept-Encoding": "identity"}
    session: Any = utils.get_session()
    # Before 1.0 the client uses requests, then httpx.
    if callable(getattr(session, "stream", None)):
        opened = session.stream("GET", url, headers=headers, timeout=_READ_S, follow_redirects=True)
    else:
        opened = contextlib.closing(session.get(url, headers=headers, timeout=_READ_S, stream=True))
    with opened as response:
        utils.hf_raise_for_status(response)
        yield from response.iter_bytes() if hasattr(response, "iter_bytes") else response.iter_content(_FIRST)
