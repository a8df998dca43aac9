"""Bytes of a log, a recorded case's folder or a pasted text to Evidence."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from vllm_runbooks.errors import InputError
from vllm_runbooks.records import Case, Document, Evidence

CaseReader = Callable[[Path], Case]
"""Reads a `case.yaml`."""

MAX_BYTES = 512 << 20
_SUBSTITUTED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a shell's process substitution hands over a pipe."""
_WRITER_SECONDS = 2.0
"""Time within which a pipe with a name has to be written into."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_MAGIC = {
    b"\x7fELF": "a program", b"\x89PNG": "a picture", b"PK\x03\x04": "an archive", b"\x1f\x8b": "compressed",
    b"%PDF": "a PDF", b"SQLite format 3": "a database", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture",
    b"7z\xbc\xaf": "an archive", b"BZh": "compressed", b"\xfd7zXZ": "compressed", b"\x28\xb5\x2f\xfd": "compressed",
    b"\x93NUMPY": "an array", b"\x80\x04\x95": "a pickle",
}  # fmt: skip
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(raw: bytes, where: str) -> str:
    """The text of a log's bytes; stray bytes stay visible as escapes.

    Raises:
        InputError: the bytes are empty or no text.
    """
    encoding = next((encoding for bom, encoding in _BOMS if raw.startswith(bom)), None)
    if encoding is None:
        for magic, what in _MAGIC.items():
            if raw.startswith(magic):
                raise InputError(f"{where}: is {what}, not text; give the log itself")
        head = raw[:8192]
        odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
        if odd > len(head) * 0.1:
            raise InputError(f"{where}: is binary, not text; give the log itself")
    text = raw.decode(encoding or "utf-8", errors="backslashreplace")
    if not text or text.isspace():
        raise InputError(f"{where}: is empty; give the log of a vLLM start")
    return text


def _document(path: Path) -> Document:
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            raw = _piped(path)
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
        else:
            what = next((what for is_kind, what in _KINDS if is_kind(mode)), "no file")
            raise InputError(f"{path}: is {what}, not a log; give a log file, or - for standard input")
        if len(raw) > MAX_BYTES:
            raise InputError(
                f"{path}: larger than {MAX_BYTES >> 20} MiB; cut out the start, for example with `tail -c 100M`"
            )
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; check the path") from None
    return Document(path.name, decode(raw, str(path)))


def _piped(path: Path) -> bytes:
    """What is written into a pipe: one of a process substitution has a writer, one with a name may have none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as pipe:
        has_writer = path.as_posix().startswith(_SUBSTITUTED)
        if not has_writer and not select.select([pipe], [], [], _WRITER_SECONDS)[0]:
            raise InputError(f"{path}: is a pipe that nobody writes into; give a log file, or - for standard input")
        os.set_blocking(descriptor, True)
        return pipe.read(MAX_BYTES + 1)


def _path(name: str | Path) -> Path:
    """The path of a name; a whole text pasted in its place is no path."""
    try:
        path = Path(name).expanduser()
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError) as error:
        shown = str(name).strip().partition("\n")[0][:80]
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{shown}: cannot be read: {reason}; check the path") from None
    return path


def load(name: str | Path, *, read_case: CaseReader, cases: Path | None = None, vllm: str | None = None) -> Evidence:
    """Load a log file, a case's folder, or a recorded case by its id (looked for in `cases`).

    Raises:
        InputError: nothing of this name, a folder without `case.yaml`, or a file that is no text.
    """
    if not str(name).strip() or "\0" in str(name):
        why = "holds a NUL character" if "\0" in str(name) else "is empty"
        raise InputError(f"the name {str(name)!r} {why}; name a log file, a folder with case.yaml or a recorded case")
    path = _path(name)
    if path.exists() and not path.is_dir():
        return Evidence((_document(path),), vllm=vllm)
    if not path.is_dir() and cases is not None and path.name == str(name) and (cases / path.name).is_dir():
        path = cases / path.name
    if path.is_dir():
        return load_case(path, read_case=read_case, vllm=vllm)
    known = sorted(p.parent.name for p in cases.glob("*/case.yaml")) if cases else []
    hint = f"; recorded cases: {', '.join(known)}" if known and path.name == str(name) else ""
    raise InputError(f"{name}: no such file, folder or recorded case{hint or '; check the path'}")


def load_case(folder: Path, *, read_case: CaseReader, vllm: str | None = None) -> Evidence:
    """Load a folder that holds a `case.yaml` and the files it names."""
    if not (folder / "case.yaml").is_file():
        raise InputError(f"{folder}: holds no case.yaml; give a log file, or a folder that holds a recorded case")
    case = read_case(folder / "case.yaml")
    root = folder.resolve()
    for name in case.files:
        if not (root / name).resolve().is_relative_to(root):
            raise InputError(
                f"{folder / 'case.yaml'}: names {name}, which lies outside of its folder; name its own files"
            )
    return Evidence(tuple(_document(folder / name) for name in case.files), case, vllm or case.vllm)


def load_files(
    names: Sequence[str], *, read_case: CaseReader, cases: Path | None = None, vllm: str | None = None
) -> Evidence:
    """Load what a command line names: one case or folder, or any number of logs of one start; `-` is standard input."""
    if len(names) == 1 and names[0] != "-":
        return load(names[0], read_case=read_case, cases=cases, vllm=vllm)
    documents: list[Document] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise InputError(f"name {number} of {len(names)} is empty ({name!r}); name a log file, or leave it out")
        if name == "-":
            documents.append(Document("-", decode(sys.stdin.buffer.read(MAX_BYTES), "standard input")))
        else:
            path = _path(name)
            if path.is_dir():
                raise InputError(f"{name}: is a folder; several inputs must be log files of one start")
            if cases is not None and not path.exists() and path.name == name and (cases / name).is_dir():
                raise InputError(
                    f"{name}: is a recorded case; several inputs must be log files of one start, so name it alone"
                )
            documents += load(name, read_case=read_case, vllm=vllm).documents
    return Evidence(tuple(documents), vllm=vllm)


def pasted(text: str, *, vllm: str | None = None) -> Evidence:
    """Evidence of a pasted text."""
    decoded = decode(text.encode("utf-8", "backslashreplace"), "the pasted text")
    return Evidence((Document("pasted text", decoded),), vllm=vllm)
