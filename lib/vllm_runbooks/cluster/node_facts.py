"""The facts of the node that this process runs on."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.places import names_secret
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host import inventory
from vllm_runbooks.host.nodes.records import FileFacts, Interface, ModelFacts, NodeFacts

HEEDED = re.compile(
    r"(?:VLLM|NCCL|GLOO|RAY_AUTH|RAY_CGRAPH|RAY_EXPERIMENTAL|TORCH_NCCL|TORCH_DISTRIBUTED|TP_SOCKET|UCX|FI|HF|TRANSFORMERS)_\w{1,80}"
    r"|RAY_ADDRESS|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|MASTER_ADDR|MASTER_PORT|OMP_NUM_THREADS"
    r"|(?:(?:http|https|all|no)_proxy)|(?:(?:HTTP|HTTPS|ALL|NO)_PROXY)",
    re.ASCII,
)
"""Names of variables that affect vLLM, its processes and its communication; Ray sets many more."""
_OURS = "VLLM_RUNBOOKS_"
_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - a name
_RESOLVED_S = 5.0
_MAX_FILES = 4096
_MAX_WHOLE = 32 << 20
_PIECE, _PIECES = 1 << 16, 32
_OF_MODEL = (".json", ".safetensors", ".bin", ".pt", ".gguf", ".model", ".tiktoken", ".txt", ".py", ".jinja")
"""Ends of names of a model's files."""
_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


def collect(name: str, *, model: str | None = None, python: str | None = None, salt: str = "") -> NodeFacts:
    """Facts of this node, with secrets replaced by marks: with one salt equal marks are equal secrets.

    `model` is a folder, or a name on the Hub that is looked up in its cache; `python` is the one that vLLM runs with.
    """
    host = inventory.collect(python=python)
    hostname = socket.gethostname()
    return redact_record(
        NodeFacts(
            name,
            inventory=host,
            hostname=hostname,
            resolves_to=resolved(hostname),
            interfaces=interfaces(),
            environment=environment(os.environ, salt),
            model=None if model is None else model_facts(model),
            ray=(host.packages or {}).get("ray"),
        )
    )


def resolved(name: str) -> tuple[str, ...] | None:
    """Addresses that a name resolves to; None if the resolver does not answer."""
    results: list[tuple[str, ...]] = []

    def ask() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            results.append(tuple(dict.fromkeys(str(info[4][0]) for info in infos)))
            return
        results.append(())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_RESOLVED_S)
    return results[0] if results else None


def interfaces() -> tuple[Interface, ...]:
    """Interfaces with an address, as the system lists them."""
    import psutil

    states = psutil.net_if_stats()
    listed = []
    for name, entries in psutil.net_if_addrs().items():
        addresses = [entry.address for entry in entries if entry.family in (socket.AF_INET, socket.AF_INET6)]
        interface = Interface(name, tuple(address.partition("%")[0] for address in addresses))
        if state := states.get(name):
            speed = state.speed if 0 < state.speed < (1 << 16) - 1 else None
            interface = replace(interface, is_up=state.isup, mtu=state.mtu, speed_mbit_s=speed)
        listed.append(interface)
    return tuple(interface for interface in listed if interface.addresses)


def environment(variables: Mapping[str, str], salt: str) -> dict[str, str]:
    """Variables that matter, Ray's token from its file too; a secret becomes a mark, as "<secret-0a1b2c3d>"."""
    heeded = {}
    token = variables.get(_TOKEN) or _token_of_file(variables)
    for name, value in sorted({**variables, **({} if token is None else {_TOKEN: token})}.items()):
        if HEEDED.fullmatch(name) is None or name.startswith(_OURS):
            continue
        if names_secret(name):
            mark = hmac.new(salt.encode(), value.encode("utf-8", "replace"), "sha256").hexdigest()[:8]
            heeded[name] = f"<secret-{mark}>"
        else:
            heeded[name] = redact_text(f"{name}={value}").partition("=")[2]
    return heeded


def _token_of_file(variables: Mapping[str, str]) -> str | None:
    if variables.get("RAY_AUTH_MODE", "").lower() != "token":
        return None
    with contextlib.suppress(OSError, ValueError):
        path = Path(variables.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
        with path.open("r", encoding="utf-8") as stream:
            return stream.read(4096).strip() or None
    return None


# ---- the model


def model_facts(model: str) -> ModelFacts:
    """The model's files as this node has them; the weights are sampled, not read."""
    folder = _folder(model)
    if folder is None:
        return ModelFacts(model, exists=False, reason="is not in this node's Hub cache")
    try:
        names = sorted(file.name for file in folder.iterdir() if file.suffix in _OF_MODEL and file.is_file())
        files = tuple(_file(folder / name) for name in names[:_MAX_FILES])
    except OSError as error:
        reason = "not found" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        return ModelFacts(model, exists=False, reason=reason)
    if not any(file.name in ("config.json", "params.json") or file.name.endswith(".gguf") for file in files):
        return ModelFacts(model, exists=False, reason="the folder has no config.json", files=files)
    return ModelFacts(model, exists=True, files=files)


def _folder(model: str) -> Path | None:
    """Folder of a model's files; None if it is a name on the Hub that is not in the cache."""
    path = Path(model).expanduser()
    if path.is_dir() or path.is_absolute() or not _REPOSITORY.fullmatch(model):
        return path
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser() / f"models--{model.replace('/', '--')}"
    with contextlib.suppress(OSError, ValueError):
        revision = (cache / "refs" / "main").read_text("ascii").strip()
        if re.fullmatch(r"[0-9a-f]{4,64}", revision, re.ASCII):
            return cache / "snapshots" / revision
    return None


def _file(path: Path) -> FileFacts:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= _MAX_WHOLE:
            return FileFacts(path.name, size, sha256=hashlib.file_digest(stream, "sha256").hexdigest())
        digest = hashlib.sha256(str(size).encode())
        for number in range(_PIECES):
            stream.seek((size - _PIECE) * number // (_PIECES - 1))
            digest.update(stream.read(_PIECE))
        return FileFacts(path.name, size, sampled_sha256=digest.hexdigest())


def python_with_torch(python: str | None) -> str:
    """Python for a collective here; raises InputError if none has torch."""
    if python is not None:
        return python
    if find_spec("torch") is None:
        raise InputError(f"{sys.executable}: has no torch; set a Python with torch using --python")
    return sys.executable
