"""The history's file: opened, migrated to this release's schema, set aside if damaged.

SQLite in WAL mode with full synchronization: a transaction is on disk when it returns. Several
processes may use one file. A lock next to it is held while it is created, migrated, set aside or
removed, for which SQLite's locks are not enough.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from vllm_runbooks.core import moments
from vllm_runbooks.core.errors import RunbooksError

T = TypeVar("T")

FOLDER, NAME = "vllm-runbooks", "history.sqlite"
_BUSY_S = 30.0
"""Longest wait for other processes in seconds."""
_MAGIC, _APPLICATION_AT, _APPLICATION = b"SQLite format 3\0", 68, 0x766C7262
"""SQLite's first bytes, and the offset and value of our mark in the header: "vlrb"
(https://www.sqlite.org/fileformat2.html#the_database_header)."""
_SMALL = 2 << 20
"""Maximum bytes of a file that is checked each time it is opened; a larger one is checked once a
day."""
_DAY_S = 86400
_DAMAGED = frozenset(
    {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
    | {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
)
"""SQLite's errors if a table, an index or the header differs from our statements."""
_DAMAGED_FILE = frozenset({sqlite3.SQLITE_IOERR_SHORT_READ})
_MOST_DAMAGED = 2
"""Most files set aside: if new ones are damaged too, it is the disk."""
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_LONGEST_WHY = 200
_BESIDE = ("", "-wal", "-shm")
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE entries (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            subject TEXT NOT NULL,
            began TEXT NOT NULL,
            seconds REAL,
            verdict TEXT,
            reason TEXT NOT NULL,
            part_of TEXT,
            job TEXT,
            host TEXT NOT NULL,
            vllm TEXT,
            inputs TEXT NOT NULL,
            results TEXT NOT NULL,
            environment TEXT NOT NULL,
            owner TEXT NOT NULL
        )""",
        "CREATE INDEX entries_parts ON entries (part_of, number)",
        "CREATE INDEX entries_subject ON entries (subject, number)",
        "CREATE INDEX entries_began ON entries (began)",
        "CREATE INDEX entries_open ON entries (number) WHERE verdict IS NULL",
    ),
)
"""Statements that migrate a file from each form to the next; their number is this release's form."""


class UnusableError(RunbooksError):
    """The history cannot be used; it is left as it is."""


class _DamagedError(Exception):
    """The file has unexpected content."""


class Database:
    """A file that is opened when first needed, and again if another one has replaced it."""

    def __init__(self, place: Path, say: Callable[[str], None]) -> None:
        self.place = place
        self._say = say
        self._connection: sqlite3.Connection | None = None
        self._key: tuple[int, int] | None = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the work in a transaction, on disk when this returns; it may be repeated.

        Raises:
            UnusableError: The file cannot be written.
        """
        return self._tried(work, "BEGIN IMMEDIATE")

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run the work on a consistent view of the file; None without a file.

        Raises:
            UnusableError: the file cannot be read.
        """
        return self._tried(work, "BEGIN") if os.path.lexists(self.place) else None

    def _tried(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        until, damaged = time.monotonic() + _BUSY_S, 0
        while True:
            try:
                result = self._done(work, begin)
                # If the file was set aside or removed meanwhile, the written data is not in the
                # present one.
                if _key(self.place) == self._key:
                    return result
                self.close()
                if time.monotonic() > until:
                    raise UnusableError(f"{self.place}: the history file keeps being replaced")
            except (sqlite3.Error, _DamagedError, UnicodeDecodeError) as error:
                self.close()
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_INTERNAL)
                # SQLite's message for a table with a damaged name may not be text.
                if not isinstance(error, sqlite3.Error) or code in _DAMAGED_FILE or code & 0xFF in _DAMAGED:
                    damaged += 1
                    if damaged > _MOST_DAMAGED:
                        raise UnusableError(f"{self.place}: the history file keeps being damaged ({error})") from None
                    self._set_aside(str(error))
                elif code & 0xFF not in _BUSY:
                    raise UnusableError(f"{self.place}: the history cannot be used ({error})") from None
                elif time.monotonic() > until:
                    what = f"locked by another process for {_BUSY_S:g} s"
                    raise UnusableError(f"{self.place}: the history cannot be used ({what})") from None
                else:
                    time.sleep(0.02)
            except OSError as error:
                self.close()
                raise UnusableError(f"{self.place}: the history cannot be used ({error.strerror})") from None

    def _done(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        connection = self._connected()
        connection.execute(begin)
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and _key(self.place) == self._key:
            return self._connection
        self.close()
        _make(self.place)
        self._key = _key(self.place)
        _examine(self.place)
        connection = sqlite3.connect(self.place, timeout=_BUSY_S, isolation_level=None)
        self._connection = connection
        connection.text_factory = _text
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
        if _form(connection) != len(MIGRATIONS):
            with locked(self.place):
                _bring_up_to_date(connection, self.place)
        self._look_through(connection)
        return connection

    def _look_through(self, connection: sqlite3.Connection) -> None:
        """Check for damage that statements may not meet for long.

        Raises:
            _DamagedError: there is some.
        """
        now = time.time()
        if self.place.stat().st_size > _SMALL:
            last = connection.execute("SELECT value FROM about WHERE name = 'looked_through'").fetchone()
            if last is not None and 0 <= now - _number(last[0]) < _DAY_S:
                return
        check = connection.execute("PRAGMA quick_check(1)").fetchone()
        if check is None or check[0] != "ok":
            raise _DamagedError("found by the integrity check")
        if self.place.stat().st_size > _SMALL:
            with contextlib.suppress(sqlite3.OperationalError):  # a file that may only be read is looked through anew
                connection.execute("INSERT OR REPLACE INTO about VALUES ('looked_through', ?)", [f"{now:.0f}"])

    def _set_aside(self, why: str) -> None:
        """Rename the damaged file, and the files next to it, unless another process has done so."""
        why = " ".join(why.split())[:_LONGEST_WHY]
        with locked(self.place):
            if self._key is None or _key(self.place) != self._key:
                return
            aside = _free_name(self.place)
            for ending in _BESIDE:
                with contextlib.suppress(FileNotFoundError):
                    self.place.with_name(self.place.name + ending).rename(aside.with_name(aside.name + ending))
        self._say(f"{self.place}: the history is damaged ({why}); moved to {aside.name}, starting a new one")


def remove(place: Path) -> list[Path]:
    """Remove a history, and those that were set aside; returns the removed files.

    Raises:
        UnusableError: The file is not ours.
        OSError: A file cannot be removed.
    """
    if not place.parent.is_dir():
        return []
    if place.is_file() and not is_ours(place):
        raise UnusableError(f"{place}: is not a history of vllm-runbooks; left unchanged")
    with locked(place):
        files = [place.with_name(place.name + ending) for ending in _BESIDE]
        files += sorted(place.parent.glob(f"{_escaped(place.name)}.damaged-*"))
        removed = [path for path in files if os.path.lexists(path) and not path.is_dir()]
        for path in removed:
            path.unlink()
        _lock(place).unlink()
    return removed


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold the lock next to a file.

    Raises:
        UnusableError: Another process has the lock.
        OSError: It cannot be created.
    """
    until = time.monotonic() + _BUSY_S
    path = _lock(place)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _key(path) == (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino):
                break
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise UnusableError(f"{path}: locked by another process for {_BUSY_S:g} s") from None
            time.sleep(0.02)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(place: Path) -> Path:
    return place.with_name(f"{place.name}.lock")


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _free_name(place: Path) -> Path:
    stamp = moments.in_a_name()
    name, number = f"{place.name}.damaged-{stamp}", 2
    while os.path.lexists(place.with_name(name)):
        name, number = f"{place.name}.damaged-{stamp}.{number}", number + 1
    return place.with_name(name)


def _key(path: Path) -> tuple[int, int] | None:
    """Identity of a file, to recognize another of its name; None without one."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def is_usual(place: Path) -> bool:
    """Whether it is in the default folder, which only has histories."""
    return place.name == NAME and place.parent.name == FOLDER


def is_ours(place: Path) -> bool:
    """Whether the file is ours: in the default folder, empty, or beginning with our mark."""
    if is_usual(place):
        return True
    with place.open("rb") as file:
        head = file.read(_APPLICATION_AT + 4)
    return not head or (head.startswith(_MAGIC) and head[_APPLICATION_AT:] == _APPLICATION.to_bytes(4, "big"))


def _make(place: Path) -> None:
    """Create the file, for its owner alone, if there is none.

    Raises:
        OSError: It cannot be created.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.parent.name == FOLDER and stat.S_IMODE(place.parent.stat().st_mode) & 0o077:
        with contextlib.suppress(PermissionError):
            place.parent.chmod(0o700)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _examine(place: Path) -> None:
    """Check that it is a readable file.

    Raises:
        UnusableError: it must not be touched, or cannot be read.
        _DamagedError: it can never be read.
        OSError: it was removed.
    """
    mode = place.stat().st_mode
    if stat.S_ISDIR(mode) and is_usual(place):
        raise _DamagedError("a folder has its name")
    if not stat.S_ISREG(mode):
        raise UnusableError(f"{place}: is not a regular file; use another file")
    if os.access(place, os.R_OK) and not is_ours(place):
        raise UnusableError(f"{place}: is not a history of vllm-runbooks; use another file")
    if not os.access(place, os.R_OK):
        # It may be another user's, and sound: a shared one, or one created by root.
        raise UnusableError(f"{place}: no permission to read the history")


def _form(connection: sqlite3.Connection) -> int | None:
    """Schema version of the file; None if it is new or not ours.

    Raises:
        _DamagedError: Its two copies differ.
    """
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'about'").fetchone()
    if tables is None:
        return None
    row = connection.execute("SELECT value FROM about WHERE name = 'form'").fetchone()
    (marked,) = connection.execute("PRAGMA user_version").fetchone()
    if row is None or _number(row[0]) != marked:
        raise _DamagedError("its version is unreadable")
    return int(marked)


def _bring_up_to_date(connection: sqlite3.Connection, place: Path) -> None:
    """Create the tables of a new file, or migrate those of an earlier schema.

    Raises:
        UnusableError: It has a later schema, or is another program's.
    """
    form = _form(connection)
    if form is None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise UnusableError(f"{place}: is a database of another program; use another file")
        if tables:
            raise _DamagedError("its tables are missing")
        # First, so that the mark is in the file itself, and not in the write-ahead log.
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute("PRAGMA journal_mode = WAL")
        form = 0
    if form == len(MIGRATIONS):
        return  # another process was quicker
    if form > len(MIGRATIONS):
        reason = f"its schema is {form}, this release supports {len(MIGRATIONS)}"
        raise UnusableError(f"{place}: was written by a newer release ({reason}); left unchanged")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[form:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute("INSERT OR REPLACE INTO about VALUES ('form', ?)", [str(len(MIGRATIONS))])
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _number(text: Any) -> int:
    """A number that we wrote.

    Raises:
        _DamagedError: it is not a number.
    """
    if not (isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 16):
        raise _DamagedError("a number in it is invalid")
    return int(text)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
