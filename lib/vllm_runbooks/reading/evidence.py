"""Load logs, recorded cases, packs and pasted texts as Evidence."""

from __future__ import annotations

import codecs
import importlib
import io
import os
import re
import select
import stat
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

from vllm_runbooks.core import archives
from vllm_runbooks.core.errors import InputError, WrongFileError, suggestion
from vllm_runbooks.core.evidence import PIECE, Case, Document, Evidence
from vllm_runbooks.core.packs import MemberRole

CaseReader = Callable[[Path], Case]

MAX_UNPACKED = 8 << 30
"""A few kilobytes can unpack without end."""
MAX_SCRIPT = 8_000_000
NAME_A_SCRIPT = "use a script, manifest or page that launches vLLM, or - for standard input"
_SUBSTITUTED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes of a shell's process substitution."""
_WRITER_SECONDS = 2.0
"""Time for the first write to a named pipe."""
_PAUSE, _TURN, _STOPPING = 0.5, 5.0, 10.0
"""Seconds: a pause in a growing log, a report without pauses, and the wait for the end of an interrupted one."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ": "lzma"}
"""Module by magic number of a compressed log."""
_MAGIC = {
    b"\x7fELF": "a program", b"\x89PNG": "an image", b"PK\x03\x04": "an archive", b"%PDF": "a PDF",
    b"SQLite format 3": "a database", b"\xff\xd8\xff": "an image", b"GIF8": "an image", b"7z\xbc\xaf": "an archive",
    b"\x28\xb5\x2f\xfd": "compressed by zstd", b"\x93NUMPY": "an array", b"\x80\x04\x95": "a pickle",
}  # fmt: skip
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_HEAD = 8192
_ODD, _ODD_OF_STRAY = 0.1, 0.03
"""Least share of control characters in binary data: in general, and if it is no UTF-8."""
_MAX_NOISE_LINES, _MIN_TEXT = 1000, 64
"""Lines of binary noise before a log, and least bytes of text behind it."""
_LOG = re.compile(r"^[^.].{0,200}\.(?:log|out|err)(?:\.\d{1,3})?(?:\.(?:gz|bz2|xz))?\Z", re.IGNORECASE)
_MAX_LOGS = 256
_ALONE = "several inputs must be log files of one launch, so use it alone"
_CONTROL = bytes(byte for byte in range(32) if byte < 9 or 13 < byte < 27 or byte > 27)
"""Bytes that are not text; 27 begins a terminal's colors."""
_DOUBLE = re.compile(rb"(?:[\x00-\x7f]|[\x81-\xfe][\x80-\xfe])*\Z")
"""Every byte beyond ASCII has a neighbor beyond ASCII, as in common GBK characters."""


def _encoding(head: bytes, where: str) -> str:
    named = next((encoding for bom, encoding in _BOMS if head.startswith(bom)), None)
    if named:
        return named
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            raise WrongFileError(f"{where}: is {what}, not text", "use the log itself")
    if (wide := _wide(head[:_HEAD])) is not None:
        return wide
    if _is_binary(head[:_HEAD]):
        raise _binary(where)
    return "utf-8"


def _binary(where: str) -> WrongFileError:
    return WrongFileError(f"{where}: is binary, not text", "use the log itself")


def _wide(head: bytes) -> str | None:
    zeros = [head[start::2].count(0) * 2 / max(len(head), 1) for start in (0, 1)]
    if max(zeros) > 0.6 and min(zeros) < 0.1:
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    return None


def _is_binary(head: bytes) -> bool:
    odd = (len(head) - len(head.translate(None, _CONTROL))) / max(len(head), 1)
    return odd > (_ODD if _is_utf8(head) else _ODD_OF_STRAY)


def _without_noise(block: bytes) -> bytes:
    """The head of a log without zeros before it, and with blank lines for binary noise, so that line numbers stay.

    A log that was truncated while its writer went on begins with zeros.
    """
    if block.startswith(bytes(4)):
        block = block.lstrip(b"\0")
    if block.startswith((*_MAGIC, *(bom for bom, _ in _BOMS))) or _wide(block[:_HEAD]) or not _is_binary(block[:_HEAD]):
        return block
    start = 0
    for _ in range(_MAX_NOISE_LINES):
        start = block.find(b"\n", start) + 1
        text = block[start : start + _HEAD]
        if not start or len(text) < _MIN_TEXT:
            break
        if len(text.translate(None, _CONTROL)) == len(text) and _is_utf8(text):
            return b"\n" * block.count(b"\n", 0, start) + block[start:]
    return block


def _is_utf8(head: bytes) -> bool:
    """Whether the head of a text, maybe cut inside a character, is UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


class _Decoder:
    """Decodes bytes: UTF-8, lines in the form of GBK as that, with stray bytes visible."""

    def __init__(self, encoding: str) -> None:
        self._wide = codecs.getincrementaldecoder(encoding)("backslashreplace") if encoding != "utf-8" else None
        self._rest = b""
        self._is_gbk = False

    def text(self, block: bytes, *, final: bool = False) -> str:
        """Decode up to the end of the last line; the rest waits for the next block."""
        if self._wide:
            return self._wide.decode(block, final)
        block = self._rest + block
        end = len(block) if final else block.rfind(b"\n") + 1
        if not end and len(block) >= PIECE:
            end = len(block) - 1
            while end > len(block) - 4 and 0x80 <= block[end] < 0xC0:  # inside of a character
                end -= 1
        block, self._rest = block[:end], block[end:]
        try:
            return block.decode()
        except UnicodeDecodeError:
            return "".join(map(self._line, block.splitlines(keepends=True)))

    def _line(self, line: bytes) -> str:
        with suppress(UnicodeDecodeError):
            return line.decode()
        if self._is_gbk or _DOUBLE.match(line):
            with suppress(UnicodeDecodeError):
                text = line.decode("gb18030")
                self._is_gbk = True
                return text
        return line.decode(errors="backslashreplace")


def _decoded(blocks: Iterable[bytes], where: str, *, skips_noise: bool = True) -> Iterator[str]:
    decoder, is_blank, has_zeros = None, True, False
    for block in blocks:
        if decoder is None:
            has_zeros = has_zeros or block.startswith(b"\0")
            block = _without_noise(block) if skips_noise else block  # noqa: PLW2901 - that is no text
            if not block:
                continue
            decoder = _Decoder(_encoding(block, where))
            block = block.removeprefix(_BOMS[0][0])  # noqa: PLW2901 - the mark is no text
        text = decoder.text(block)
        is_blank = is_blank and (not text or text.isspace())
        yield text
    rest = decoder.text(b"", final=True) if decoder else ""
    if is_blank and not rest.strip():
        raise _binary(where) if has_zeros else WrongFileError(f"{where}: is empty", "use the log of a vLLM launch")
    yield rest


def decode(raw: bytes, where: str) -> str:
    """Decode a whole text; unlike a log, it is rejected if it begins with binary noise."""
    return "".join(_decoded([raw], where, skips_noise=False))


def _unpacked(file: IO[bytes], where: str) -> Iterator[bytes]:
    """Yield the blocks of a file, decompressed if necessary."""
    head = _filled(file)
    module = next((module for magic, module in _PACKED.items() if head.startswith(magic)), None)
    if module is None:
        yield head
        while block := file.read(PIECE):
            yield block
        return
    try:
        packing = importlib.import_module(module)
    except ImportError:
        raise InputError(f"{where}: is compressed, and this Python lacks {module}; unpack it first") from None
    unpacked, total = packing.open(_Rejoined(head, file)), 0
    try:
        while block := unpacked.read(PIECE):
            total += len(block)
            if total > MAX_UNPACKED:
                limit = f"{MAX_UNPACKED >> 30} GiB"
                raise InputError(f"{where}: unpacks to more than {limit}; unpack it and cut out the launch")
            yield block
    except (EOFError, OSError, zlib.error, getattr(packing, "LZMAError", EOFError)) as error:
        if not total or getattr(error, "errno", None):
            raise InputError(f"{where}: cannot be unpacked: {error}; use a complete file") from None
        # A log that was truncated while it was packed: read the existing part.


def _filled(file: IO[bytes]) -> bytes:
    """Read a whole piece, however little a pipe returns at a time."""
    parts: list[bytes] = []
    while (lacking := PIECE - sum(map(len, parts))) > 0 and (part := file.read(lacking)):
        parts.append(part)
    return b"".join(parts)


class _Rejoined(io.RawIOBase):
    """A file whose head was already read."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._head[: len(buffer)] if self._head else self._file.read(len(buffer))
        self._head = self._head[len(block) :] if self._head else b""
        buffer[: len(block)] = block
        return len(block)


def standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise InputError("standard input: is closed; use a file, or pipe the text in")
    return sys.stdin.buffer


@contextmanager
def opened(name: str) -> Iterator[int]:
    """Open a log that is being written; `-` is standard input."""
    if name == "-":
        yield standard_input().fileno()
        return
    with _reading_errors(_path(name)), _path(name).open("rb") as file:
        yield file.fileno()


def growing(descriptor: int, path: Path, interrupts: Callable[[], int]) -> Document:
    """Document that is still being written to a pipe or file; a pause is an empty piece.

    It ends with the pipe, or with an interrupt: a pipe gets some seconds after the first, none after the second.
    """
    return Document(path.name, lambda: _growing(descriptor, path, interrupts))


def _growing(descriptor: int, path: Path, interrupts: Callable[[], int]) -> Iterator[str]:
    decoder, since = None, time.monotonic()
    for block in _arriving(descriptor, path, interrupts):
        if block:
            if decoder is None:
                block = _without_noise(block)  # noqa: PLW2901 - that is no text
                decoder = _Decoder(_encoding(block, path.name)) if block else None
            if decoder is not None:
                yield decoder.text(block)
        if not block or time.monotonic() - since > _TURN:
            since = time.monotonic()
            yield ""
    if decoder is None:
        raise WrongFileError(f"{path.name}: is empty", "use the log of a vLLM launch")
    yield decoder.text(b"", final=True)


def _arriving(descriptor: int, path: Path, interrupts: Callable[[], int]) -> Iterator[bytes]:
    """Yield data until the writer has ended as well, and an empty block for each pause."""
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    until = float("inf")
    while time.monotonic() < until and interrupts() < 2:
        if interrupts():
            until = min(until, time.monotonic() + (0 if is_file else _STOPPING))
        is_quiet = not select.select([descriptor], [], [], _PAUSE)[0]
        block = b"" if is_quiet else os.read(descriptor, PIECE)
        if not (block or is_quiet or is_file):
            return
        if is_file and not block and until == float("inf"):
            time.sleep(_PAUSE)
            block = _begun_anew(descriptor, path)
        yield block


def _begun_anew(descriptor: int, path: Path) -> bytes:
    """Go on at the beginning of a truncated or replaced file."""
    with suppress(OSError):
        opened_file, file_now = os.fstat(descriptor), path.stat()
        if (opened_file.st_dev, opened_file.st_ino) != (file_now.st_dev, file_now.st_ino):
            with path.open("rb") as file:
                os.dup2(file.fileno(), descriptor)
            return b"\n"
        if opened_file.st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
            os.lseek(descriptor, 0, os.SEEK_SET)
            return b"\n"
    return b""


def document(path: Path) -> Document:
    """Document of a file or named pipe; checks that its head is text."""
    with _reading_errors(path):
        mode = path.stat().st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
            what = next((what for is_kind, what in _KINDS if is_kind(mode)), "no file")
            raise WrongFileError(f"{path}: is {what}, not a regular file", "use a log file, or - for standard input")
        if stat.S_ISFIFO(mode):
            return _once(path.name, _texts(_piped(path), str(path)))
        _first(_texts(path.open("rb"), str(path)))

    def pieces() -> Iterator[str]:
        with _reading_errors(path):
            yield from _texts(path.open("rb"), str(path))

    return Document(path.name, pieces)


def _texts(file: IO[bytes], where: str) -> Iterator[str]:
    with file:
        yield from _decoded(_unpacked(file, where), where)


def held(file: IO[bytes], name: str, close: Callable[[], object]) -> Document:
    """Document of an open file, closed together with it."""

    def pieces() -> Iterator[str]:
        file.seek(0)
        yield from _decoded(_unpacked(file, name), name)

    document = Document(name, pieces)
    weakref.finalize(document, close)
    _first(pieces())
    return document


def _once(name: str, pieces: Iterator[str]) -> Document:
    """Document that can be read once; checks its first piece now."""
    first = _first(pieces)
    return Document(name, lambda: chain((first,), pieces))


def _first(pieces: Iterator[str]) -> str:
    """First non-blank piece, with the preceding text."""
    blank = ""
    for piece in pieces:
        if piece and not piece.isspace():
            return blank + piece
        blank = f"{blank}{piece}"[:_HEAD]
    return blank


@contextmanager
def _reading_errors(path: Path) -> Iterator[None]:
    """Report why a file can't be read in one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; check the path") from None


def _piped(path: Path) -> IO[bytes]:
    """Open a pipe; a named one may have no writer."""
    pipe = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    has_writer = path.as_posix().startswith(_SUBSTITUTED)
    if not has_writer and not select.select([pipe], [], [], _WRITER_SECONDS)[0]:
        pipe.close()
        raise WrongFileError(f"{path}: is a pipe without a writer", "use a log file, or - for standard input")
    os.set_blocking(pipe.fileno(), True)
    return pipe


def _path(name: str | Path) -> Path:
    """Path of a name; None for a whole pasted text."""
    try:
        path = Path(name).expanduser()
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError) as error:
        name_shown = str(name).strip().partition("\n")[0][:80]
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name_shown}: cannot be read: {reason}; check the path") from None
    return path


def load(name: str | Path, *, read_case: CaseReader, cases: Path | None = None, vllm: str | None = None) -> Evidence:
    """Load a log file, a case's folder, or a recorded case of `cases` by id."""
    if not str(name).strip() or "\0" in str(name):
        why = "contains a NUL character" if "\0" in str(name) else "is empty"
        hint = "use a log file, a folder with case.yaml or a recorded case"
        raise WrongFileError(f"the name {str(name)!r} {why}", hint)
    path = _path(name)
    if path.exists() and not path.is_dir():
        if is_pack(path):
            return load_pack(path, vllm=vllm)
        return Evidence((document(path),), vllm=vllm)
    if not path.is_dir() and cases is not None and path.name == str(name) and (cases / path.name).is_dir():
        path = cases / path.name
    if path.is_dir():
        return load_case(path, read_case=read_case, vllm=vllm)
    case_names = sorted(p.parent.name for p in cases.glob("*/case.yaml")) if cases and path.name == str(name) else []
    raise WrongFileError(
        f"{name}: no such file, folder or recorded case", suggestion(path.name, case_names, "check the path")
    )


def is_pack(path: Path) -> bool:
    with _reading_errors(path):
        return stat.S_ISREG(path.stat().st_mode) and archives.is_archive(path)


def load_pack(path: Path, *, vllm: str | None = None) -> Evidence:
    with _reading_errors(path):
        pack = archives.read(path)
    logs, commands, snapshots = (pack.of(role) for role in (MemberRole.LOG, MemberRole.COMMAND, MemberRole.INVENTORY))
    if not logs:
        raise WrongFileError(f"{path}: is a pack without a log", "use a log, or a pack made from one")
    return Evidence(
        tuple(Document(Path(part.source or part.name).name or part.name, decode(part.raw, part.name)) for part in logs),
        vllm=vllm or pack.vllm,
        command=decode(commands[0].raw, commands[0].name) if commands else None,
        gpus=pack.gpus,
        snapshot=decode(snapshots[0].raw, snapshots[0].name) if snapshots and pack.is_inventory_of_start else None,
        start=pack.start,
        pack=str(path),
    )


def packed_command(path: Path) -> str:
    with _reading_errors(path), wanted_script():
        commands = archives.read(path).of(MemberRole.COMMAND)
    if not commands:
        raise InputError(f"{path}: is a pack without a command; {NAME_A_SCRIPT}")
    return decode(commands[0].raw, commands[0].name)


def load_case(folder: Path, *, read_case: CaseReader, vllm: str | None = None) -> Evidence:
    """Load a folder with a `case.yaml` and its files, or only with the logs of one launch."""
    if not (folder / "case.yaml").is_file():
        if logs := _logs_in(folder):
            filled = [path for path in logs if not _is_empty(path)]
            empty = tuple(path.name for path in logs if path not in filled) if filled else ()
            return Evidence(tuple(map(document, filled or logs)), vllm=vllm, empty=empty)
        hint = "use a log file, or a folder of logs (*.log, *.out or *.err)"
        raise WrongFileError(f"{folder}: no case.yaml", hint)
    case = read_case(folder / "case.yaml")
    root = folder.resolve()
    for name in (*case.files, *([case.command] if case.command else ())):
        if not (root / name).resolve().is_relative_to(root):
            raise InputError(f"{folder / 'case.yaml'}: names {name}, which is outside its folder; use files inside it")
    command = document(folder / case.command).text if case.command else None
    return Evidence(tuple(document(folder / name) for name in case.files), case, vllm or case.vllm, command)


def _logs_in(folder: Path) -> list[Path]:
    """Logs directly in a folder, by name, numbers by value."""
    with _reading_errors(folder):
        logs = [path for path in folder.iterdir() if path.is_file() and _LOG.search(path.name)]
    if len(logs) > _MAX_LOGS:
        raise InputError(f"{folder}: contains more than {_MAX_LOGS} logs; name the logs of one launch")
    return sorted(logs, key=lambda path: _by_number(path.name))


def _is_empty(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == 0


def _by_number(name: str) -> list[str | int]:
    return [int(piece) if at % 2 else piece for at, piece in enumerate(re.split(r"(\d{1,18})", name))]


def load_files(
    names: Sequence[str], *, read_case: CaseReader, cases: Path | None = None, vllm: str | None = None
) -> Evidence:
    """Load the arguments of a command line: one case or folder, or logs of one launch; `-` is standard input."""
    if len(names) == 1 and names[0] != "-":
        return load(names[0], read_case=read_case, cases=cases, vllm=vllm)
    if names.count("-") > 1:
        raise InputError("-: used twice, but standard input can be read only once")
    documents: list[Document] = []
    empty: list[Path] = []
    for number, name in enumerate(names, 1):
        if not name.strip():
            wrong = f"name {number} of {len(names)} is empty ({name!r})"
            raise WrongFileError(wrong, "use a log file, or remove it")
        if name == "-":
            where = "standard input"
            documents.append(_once(name, _decoded(_unpacked(standard_input(), where), where)))
        else:
            path = _path(name)
            if path.is_dir():
                raise InputError(f"{name}: is a folder; several inputs must be log files of one launch")
            if cases is not None and not path.exists() and path.name == name and (cases / name).is_dir():
                raise InputError(f"{name}: is a recorded case; {_ALONE}")
            if path.is_file() and is_pack(path):
                raise InputError(f"{name}: is an archive; {_ALONE}")
            if _is_empty(path):
                empty.append(path)
            else:
                documents += load(name, read_case=read_case, vllm=vllm).documents
    if not documents:
        document(empty[0])  # raises the error for an empty file
    return Evidence(tuple(documents), vllm=vllm, empty=tuple(path.name for path in empty))


def handed(name: str, raw: bytes) -> Document:
    """Document of bytes passed under a file name."""

    def pieces() -> Iterator[str]:
        yield from _texts(io.BytesIO(raw), name)

    _first(pieces())
    return Document(name, pieces)


@contextmanager
def wanted_script(instead: str = NAME_A_SCRIPT) -> Iterator[None]:
    """Request a script instead of a log in error messages."""
    try:
        yield
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {instead}") from None


def script(document: Document, where: str) -> str:
    text = beginning(document)
    if len(text) > MAX_SCRIPT:
        raise InputError(f"{where}: is larger than {MAX_SCRIPT} characters; use the part that launches vLLM")
    return text


def beginning(document: Document, most: int = MAX_SCRIPT) -> str:
    """Beginning of a document, long enough for its reader to reject its size."""
    text, size = [], 0
    for piece in document.pieces():
        text.append(piece)
        size += len(piece)
        if size > most:
            break
    return "".join(text)


def check_rewritable(raw: bytes, where: str) -> None:
    """Require UTF-8, so that rewriting loses nothing."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: is not UTF-8; convert it first, as in iconv -f LATIN1 -t UTF-8") from None


def pasted(text: str, *, vllm: str | None = None) -> Evidence:
    raw = text.encode("utf-8", "backslashreplace")
    return Evidence((Document("pasted text", decode(raw, "the pasted text")),), vllm=vllm)
