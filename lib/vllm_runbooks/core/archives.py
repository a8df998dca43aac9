"""Evidence packs as zip archives: reproducible, read within limits, never unpacked to disk.

An archive may come from anyone. No path is derived from it, every size is limited before it is
read, and an archive that differs from its manifest is rejected.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.packs import KIND, MANIFEST, MemberRole

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

MAX_KEPT = 32 << 20
"""Maximum size of the logs in a pack, in bytes."""
MAX_MEMBERS = 300
MAX_LOGS = MAX_MEMBERS - 20
"""The remaining members describe the logs."""
_MAX_UNPACKED = 64 << 20
"""Bytes of all members together. It bounds a bomb whatever its ratio: an honest log of equal lines packs 1000 to 1."""
_MAX_PACKED = 64 << 20
_MAX_MANIFEST = 4 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}(?:/[A-Za-z0-9_][A-Za-z0-9._-]{0,119})?", re.ASCII)
"""Path of a member: a file, or one in a folder."""
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_AS_MADE = "; pass the pack as it was made"
_UNPACK_IT = "unpack it, and pass its logs or their folder"
_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")
_END = struct.Struct("<4s4H2LH")
"""Record at the end of an archive: signature, disks (2), members (here, in all), size and offset of
their list, comment."""
_LOCATOR = 20
"""Bytes before the record that may refer to another one, with larger numbers than any pack's
(zip64)."""
_MAX_ENTRY = 46 + 241 + 13
"""Bytes of a member in the list: its fixed part, the longest name, and little more."""


@dataclass(frozen=True)
class PackMember:
    """A member that was read."""

    name: str
    role: str
    source: str | None
    raw: bytes


@dataclass(frozen=True)
class Archive:
    """A pack that was read whole."""

    vllm: str | None
    gpus: str | None
    start: int | None
    """Number of the launch that it describes, from 1; None for the last."""
    is_inventory_of_start: bool
    parts: tuple[PackMember, ...]

    def of(self, role: MemberRole) -> list[PackMember]:
        return [part for part in self.parts if part.role == role]


def written(members: Mapping[str, bytes]) -> bytes:
    """Zip archive of members by name, reproducible byte for byte; raises InputError if it is too large to be read."""
    import zipfile

    if len(members) > MAX_MEMBERS or sum(map(len, members.values())) > _MAX_UNPACKED:
        raise InputError(
            f"a pack of this would contain more than {MAX_MEMBERS} files or {_MAX_UNPACKED >> 20} "
            "MiB, which is not read; "
            "give fewer logs, or the part of the command that starts vLLM"
        )
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in sorted(members):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 3
            about.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(about, members[name], compresslevel=6)
    return whole.getvalue()


def is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in _BEGINS


def read(path: Path) -> Archive:
    """Read a pack; raises InputError if it is invalid, damaged, or differs from its manifest."""
    import zipfile

    where = str(path)
    try:
        with path.open("rb") as file:
            _bounded(file, where)
            with zipfile.ZipFile(file) as archive:
                return _read(archive, where)
    except (zipfile.BadZipFile, OSError):  # OSError for an offset outside the file
        raise InputError(f"{where}: is a damaged or truncated archive{_AS_MADE}") from None
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError):
        raise InputError(f"{where}: is an archive that cannot be read{_AS_MADE}") from None


def _bounded(file: IO[bytes], where: str) -> None:
    """Reject a file or a list of members that is larger than any pack's before the list is read."""
    size = file.seek(0, io.SEEK_END)
    if size > _MAX_PACKED:
        raise InputError(f"{where}: is an archive of more than {_MAX_PACKED >> 20} MiB, not a pack; use the log itself")
    file.seek(max(size - _END.size - _LOCATOR, 0))
    tail = file.read()
    file.seek(0)
    end = tail[-_END.size :]
    if len(end) < _END.size or not end.startswith(_BEGINS[1]) or tail.startswith(b"PK\x06\x07"):
        raise InputError(
            f"{where}: is a damaged or truncated archive, or was not created by vllm-runbooks pack{_AS_MADE}"
        )
    _, _, _, _, members, listed, _, _ = _END.unpack(end)
    if members > MAX_MEMBERS or listed > MAX_MEMBERS * _MAX_ENTRY:
        raise InputError(f"{where}: contains more than {MAX_MEMBERS} files, so it is not a pack; use the log itself")


def _read(archive: ZipFile, where: str) -> Archive:
    infos = archive.infolist()
    if MANIFEST not in archive.namelist():
        raise WrongFileError(f"{where}: is an archive, but not an evidence pack: no {MANIFEST}", _UNPACK_IT)
    if len(infos) > MAX_MEMBERS:
        raise InputError(f"{where}: contains more than {MAX_MEMBERS} files, so it is not a pack; use the log itself")
    by_name: dict[str, ZipInfo] = {}
    names_in_use: set[str] = set()
    for info in infos:
        _plain(info, where)
        if info.filename.casefold() in names_in_use:
            raise InputError(f"{where}: contains {info.filename} twice{_AS_MADE}")
        names_in_use.add(info.filename.casefold())
        by_name[info.filename] = info
    if sum(info.file_size for info in infos) > _MAX_UNPACKED or by_name[MANIFEST].file_size > _MAX_MANIFEST:
        raise InputError(
            f"{where}: unpacks to more than the limit of a pack ({_MAX_UNPACKED >> 20} MiB); use the log itself"
        )
    manifest = _manifest(_bytes(archive, by_name.pop(MANIFEST), where), where)
    listed = [_member(entry, where) for entry in manifest["members"]]
    names = [name for name, _, _, _ in listed]
    if sorted(names) != sorted(by_name):
        odd = sorted({*names} ^ {*by_name}) or names
        raise InputError(f"{where}: its manifest and its files differ, as in {odd[0][:80]}{_AS_MADE}")
    parts = []
    for name, role, source, digest in listed:
        raw = _bytes(archive, by_name[name], where)
        if hashlib.sha256(raw).hexdigest() != digest:
            raise InputError(f"{where}: {name} does not match its manifest{_AS_MADE}")
        parts.append(PackMember(name, role, source, raw))
    request = {name: manifest.get(name) for name in ("vllm", "gpus")}
    start = manifest.get("start")
    is_number = isinstance(start, int) and not isinstance(start, bool) and start > 0
    is_text = all(value is None or isinstance(value, str) for value in request.values())
    if not is_text or not (start is None or is_number):
        raise InputError(f"{where}: its {MANIFEST} cannot be read{_AS_MADE}")
    return Archive(request["vllm"], request["gpus"], start, manifest.get("is_inventory_of_start") is True, tuple(parts))


def _plain(info: ZipInfo, where: str) -> None:
    name, mode = info.filename, info.external_attr >> 16
    why = None
    if not _NAME.fullmatch(name) or info.orig_filename != name:
        why = "has an invalid name for a pack"
    elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        why = "is a link, or not a regular file"
    elif info.flag_bits & 0x41:
        why = "is encrypted"
    elif info.compress_type not in (0, 8):
        why = "uses an unsupported compression"
    if why is not None:
        raise InputError(f"{where}: its member {name[:80]!r} {why}; use a pack created by vllm-runbooks pack")


def _bytes(archive: ZipFile, info: ZipInfo, where: str) -> bytes:
    """Content of a member, never more than its listed size."""
    with archive.open(info) as file:
        raw = file.read(info.file_size + 1)
    if len(raw) != info.file_size:
        raise InputError(f"{where}: {info.filename} does not have its declared size{_AS_MADE}")
    if raw.startswith(_BEGINS):
        raise InputError(f"{where}: {info.filename} is itself an archive; use a pack created by vllm-runbooks pack")
    return raw


def _manifest(raw: bytes, where: str) -> dict[str, Any]:
    try:
        manifest = json.loads(raw.decode())
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND or not isinstance(manifest.get("members"), list):
        raise WrongFileError(
            f"{where}: is an archive, but not an evidence pack: its {MANIFEST} has another kind", _UNPACK_IT
        )
    if manifest.get("schema") not in (1, SCHEMA):
        raise InputError(
            f"{where}: is a pack with an unsupported schema; use the release of vllm-runbooks that created it"
        )
    return manifest


def _member(entry: Any, where: str) -> tuple[str, str, str | None, str]:
    if isinstance(entry, dict):
        name, role, source, digest = (entry.get(key) for key in ("name", "role", "source", "sha256"))
        is_sound = isinstance(source, str | None) and isinstance(digest, str) and _SHA256.fullmatch(digest)
        if isinstance(name, str) and isinstance(role, str) and isinstance(digest, str) and is_sound:
            return name, role, source, digest
    raise InputError(f"{where}: its {MANIFEST} cannot be read{_AS_MADE}")
