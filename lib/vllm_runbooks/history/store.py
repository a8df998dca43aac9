"""Every check, run, supervised launch and probe on this host, with its request and results.

    with history.opened(say=output.say) as kept:
        id_ = kept.begin("run", "single-gpu-oom", inputs={...})
        kept.end(id_, Verdict.PASS, "as expected", seconds=3.2, results={...})

`end` and `add` return when the data is on disk. A history that cannot be written never ends a command: one line reports
it, and the command continues without one.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict, Unpack

from vllm_runbooks.core import moments, user_folders
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.history import database
from vllm_runbooks.history.database import Database, UnusableError
from vllm_runbooks.history.records import KINDS, HistoryEntry, with_present_names
from vllm_runbooks.host import owners
from vllm_runbooks.host.here import here
from vllm_runbooks.host.owners import Owner

PLACE = "VLLM_RUNBOOKS_HISTORY"
"""Variable with another file."""
JOB = "VLLM_RUNBOOKS_JOB"
"""Variable in which a schedule names itself to its processes."""
KEPT_DAYS, KEPT_ROOTS, KEPT_ENTRIES = 400, 10_000, 200_000
"""Limits of the history: age, number of entries that are no part of another, number of all entries."""
_LARGEST = 1 << 20
"""Most characters of a part of an entry; a larger part is left out."""
_LONGEST, _SHOWN = 4000, 200
"""Most characters of a text, and of the beginning of a longer one."""
_CENTURY_DAYS = 36525
_PREFIX = re.compile(r"[0-9a-f]{4,12}", re.ASCII)
_SELECT = (
    "SELECT id, kind, subject, began, seconds, verdict, reason, part_of, job, host, vllm, inputs, results, "
    "coalesce(nullif(environment, '{}'), (SELECT environment FROM entries AS whole WHERE whole.id = e.part_of), '{}') "
    "FROM entries e"
)


def place() -> Path:
    """The history's file: that of the variable, else in the user's state folder.

    Raises:
        InputError: the user has none.
    """
    setting = os.environ.get(PLACE)
    try:
        return Path(setting).expanduser().absolute() if setting else user_folders.state() / database.NAME
    except RuntimeError:
        raise InputError(f"{PLACE}: {setting}: no such home folder; use an absolute path") from None
    except InputError as error:
        raise InputError(f"the history has no location: {error}, or set {PLACE} to a file") from None


def is_id(text: str) -> bool:
    """Whether a text may be the id of an entry, or its beginning."""
    return _PREFIX.fullmatch(text) is not None


def surroundings(*, with_cards: bool = False) -> dict[str, Any]:
    """The environment of this process; None for unknown parts.

    Args:
        with_cards: Whether to query the driver for this host's GPUs, which may take seconds.
    """
    facts: dict[str, Any] = {
        "host": here().host,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "tool": version("vllm-runbooks"),
        "driver": None,
        "gpus": None,
    }
    if with_cards:
        from vllm_runbooks.host.gpu_memory import Nvml

        try:
            cards = Nvml()
        except InputError:
            return facts
        facts["driver"] = cards.driver
        facts["gpus"] = [card.name for card in cards.read().cards]
    return facts


@contextmanager
def opened(at: Path | None = None, *, say: Callable[[str], None], is_needed: bool = False) -> Iterator[History]:
    """The history, its file opened on first use.

    Args:
        at: Its file; None for the default one.
        say: Prints one line to the user.
        is_needed: Whether an unusable history is an error (`InputError`), not only reported.
    """
    try:
        store = History(place() if at is None else at, say, is_needed=is_needed)
    except InputError as error:
        if is_needed:
            raise
        say(f"{error}; this command continues without it")
        store = History(None, say)
    try:
        yield store
    finally:
        store.close()


_ENDED_FIRST = "its process ended first"


class EntryOptions(TypedDict, total=False):
    """Optional parts of a stored entry."""

    part_of: str | None
    """Id of the whole, whose environment a part has."""
    job: str | None
    """Name of the schedule; by default that of the variable `JOB`."""
    environment: Mapping[str, Any] | None
    """By default that of this process."""
    vllm: str | None


class History:
    """Finished and running actions."""

    def __init__(self, at: Path | None, say: Callable[[str], None], *, is_needed: bool = False) -> None:
        """A history; without a path an empty one, which stores nothing."""
        self._database = Database(at, say) if at is not None else None
        self._say = say
        self._is_needed = is_needed
        self._begun: dict[str, dict[str, Any]] = {}
        """Rows that this process began: if the file is lost meanwhile, their end restores them."""
        self._owner = ""

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()

    def begin(self, kind: str, subject: str, *, inputs: Mapping[str, Any], **more: Unpack[EntryOptions]) -> str:
        """Store the beginning of an action, and return its id."""
        if self._database is None:
            return _new_id()
        row = self._row(kind, subject, inputs, moments.now(), **more)
        self._write(lambda connection: self._put(connection, row))
        self._begun[row["id"]] = row
        return str(row["id"])

    def end(
        self,
        id_: str,
        verdict: Verdict,
        reason: str,
        *,
        seconds: float | None,
        results: Mapping[str, Any],
        vllm: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the result of an action; on disk when this returns.

        `inputs` replace those of the beginning, and `environment` is given if it ran elsewhere.
        """
        if self._database is None:
            return
        values = _ending(verdict, reason, seconds, results)
        if vllm is not None:
            values["vllm"] = _line(vllm)
        if inputs is not None:
            values["inputs"] = _json(inputs)
        if environment is not None:
            values |= {"environment": _json(environment), "host": _line(str(environment.get("host") or here().host))}
        begun = self._begun.pop(id_, None)
        if begun is not None:
            row = {**begun, **values}
            self._write(lambda connection: _insert(connection, row))
        else:
            names = ", ".join(f"{name} = :{name}" for name in values)
            update = f"UPDATE entries SET {names} WHERE id = :id"  # noqa: S608 - our own names
            self._write(lambda connection: connection.execute(update, values | {"id": id_}))

    def withdraw(self, id_: str) -> None:
        """Remove the beginning of a rejected action."""
        self._begun.pop(id_, None)
        self._write(lambda connection: connection.execute("DELETE FROM entries WHERE id = ?", [id_]))

    def add(
        self,
        kind: str,
        subject: str,
        verdict: Verdict,
        reason: str,
        *,
        inputs: Mapping[str, Any],
        results: Mapping[str, Any],
        seconds: float | None,
        began: str | None = None,
        **more: Unpack[EntryOptions],
    ) -> str:
        """Store a finished action, and return its id; on disk when this returns."""
        if self._database is None:
            return _new_id()
        row = self._row(kind, subject, inputs, began or moments.now(), **more)
        row |= _ending(verdict, reason, seconds, results)
        self._write(lambda connection: self._put(connection, row))
        return str(row["id"])

    def entries(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        job: str | None = None,
        since: str | None = None,
        part_of: str | None = None,
        limit: int | None = None,
        is_whole: bool = False,
    ) -> list[HistoryEntry]:
        """Entries that meet all conditions, the newest first.

        Args:
            kind: Kind of the entry.
            subject: Exact subject, or a pattern with `*`.
            job: Name of a schedule.
            since: Earliest beginning, as `core.moments.now` writes it.
            part_of: Whole of the entries.
            limit: Most entries.
            is_whole: Only entries that are no part of another.
        """
        compared = "GLOB" if subject is not None and "*" in subject else "="
        conditions = {
            "kind = ?": kind,
            f"subject {compared} ?": subject,
            "job = ?": job,
            "began >= ?": since,
            "part_of = ?": part_of,
        }
        given_conditions = {condition: _plain(value) for condition, value in conditions.items() if value is not None}
        where = " AND ".join([*given_conditions, *(["part_of IS NULL"] if is_whole else []), "1"])
        return self._read(
            f"WHERE {where} ORDER BY number DESC LIMIT ?", [*given_conditions.values(), -1 if limit is None else limit]
        )

    def about(self, subject: str, *, since: str | None = None, limit: int | None = None) -> list[HistoryEntry]:
        """Entries of a subject, the newest first; of a runbook's id its runs on any case."""
        entries = self.entries(subject=subject, since=since, limit=limit)
        if entries or "*" in subject:
            return entries
        escaped = "".join(f"[{letter}]" if letter in "?[" else letter for letter in subject)
        return self.entries(subject=f"{escaped} on *", since=since, limit=limit)

    def beginning(self, prefix: str) -> list[HistoryEntry]:
        """Entries with this id prefix, the newest first; a few of many."""
        if not is_id(prefix):
            return []
        return self._read("WHERE id >= ? AND id < ? ORDER BY number DESC LIMIT 3", [prefix, f"{prefix}g"])

    def entry(self, prefix: str) -> HistoryEntry:
        """The entry with this id prefix.

        Raises:
            InputError: There is none, or there are several.
        """
        entries = self.beginning(prefix)
        if not entries:
            raise InputError(f"{redact_text(prefix)}: no history entry has this id; `history` lists them")
        if len(entries) > 1:
            some = ", ".join(item.id for item in entries[:2])
            raise InputError(f"{prefix}: ambiguous id: {some}; use more characters")
        return entries[0]

    def interrupted(self, *, kind: str | None = None, job: str | None = None) -> list[HistoryEntry]:
        """Entries of ended processes, the oldest first; each is returned once, and marked.

        Args:
            kind: Only entries of this kind.
            job: Only entries of this scheduled job.
        """
        gone = [id_ for id_, _ in self._ended(kind, job)]
        if not gone:
            return []

        def mark(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            marked = [
                id_
                for id_ in gone
                if connection.execute(
                    "UPDATE entries SET verdict = ?, reason = ? WHERE id = ? AND verdict IS NULL",
                    [Verdict.INTERRUPTED.value, _ENDED_FIRST, id_],
                ).rowcount
            ]
            # Within the same transaction: the process that marks an entry reports it.
            return [row for id_ in marked for row in connection.execute(f"{_SELECT} WHERE id = ?", [id_])]

        return self._sound(self._write(mark) or [])

    def prune(self, *, days: float | None = KEPT_DAYS, roots: int | None = KEPT_ROOTS) -> int:
        """Remove older entries, or those beyond a number; returns how many."""
        return self._write(lambda connection: _prune(connection, days, roots)) or 0

    def _put(self, connection: sqlite3.Connection, row: Mapping[str, Any]) -> None:
        _insert(connection, row)
        if row["part_of"] is None:
            _prune(connection, KEPT_DAYS, KEPT_ROOTS)

    def _row(
        self, kind: str, subject: str, inputs: Mapping[str, Any], began: str, **more: Unpack[EntryOptions]
    ) -> dict[str, Any]:
        if kind not in KINDS:
            raise InputError(f"{kind}: is not a kind of entry; use one of {', '.join(KINDS)}")
        part_of, job, vllm = more.get("part_of"), more.get("job") or os.environ.get(JOB), more.get("vllm")
        environment = more.get("environment")
        if environment is None:
            environment = {} if part_of is not None else surroundings()
        self._owner = self._owner or json.dumps(owners.written())
        return {
            "id": _new_id(),
            "kind": kind,
            "subject": _line(subject),
            "began": began,
            "seconds": None,
            "verdict": None,
            "reason": "",
            "part_of": part_of,
            "job": None if not job else _line(job),
            "host": _line(here().host),
            "vllm": None if vllm is None else _line(vllm),
            "inputs": _json(inputs),
            "results": "{}",
            "environment": _json(environment),
            "owner": self._owner,
        }

    def _read(self, rest: str, values: list[Any]) -> list[HistoryEntry]:
        select = f"{_SELECT} {rest}"
        return self._with_ends(
            self._sound(
                self._do(lambda file: file.read(lambda connection: connection.execute(select, values).fetchall())) or []
            )
        )

    def _with_ends(self, entries: list[HistoryEntry]) -> list[HistoryEntry]:
        """The entries, those of ended processes as interrupted, even before a command has marked them."""
        if all(item.verdict for item in entries):
            return entries
        gone = {id_ for id_, _ in self._ended(None, None)}
        return [
            replace(item, verdict=Verdict.INTERRUPTED, reason=_ENDED_FIRST) if item.id in gone else item
            for item in entries
        ]

    def _ended(self, kind: str | None, job: str | None) -> list[tuple[str, str]]:
        """Ids and owners of the open entries of ended processes."""
        open_entries = self._do(lambda file: file.read(lambda connection: _open(connection, kind, job))) or []
        is_gone = {owner: _is_gone(owner) for owner in {owner for _, owner in open_entries}}
        return [(id_, owner) for id_, owner in open_entries if is_gone[owner]]

    def _sound(self, rows: Sequence[tuple[Any, ...]]) -> list[HistoryEntry]:
        """Entries of rows; unreadable ones are reported and left out."""
        entries = [_entry(row) for row in rows]
        if broken := entries.count(None):
            self._say(f"history: {broken} {'entry' if broken == 1 else 'entries'} cannot be read, skipped")
        return [item for item in entries if item is not None]

    def _write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return self._do(lambda file: file.write(work))

    def _do(self, work: Callable[[Database], Any]) -> Any:
        """Run work on the file; None without a usable file."""
        if self._database is None:
            return None
        try:
            return work(self._database)
        except UnusableError as error:
            if self._is_needed:
                raise InputError(f"{error}; fix it, or set another file in {PLACE}") from None
            self._say(f"{error}; this command continues without it")
            self._database = None
            return None


def remove(at: Path) -> list[Path]:
    """Remove a history, and those that were set aside; returns the removed files.

    Raises:
        InputError: It cannot be removed.
    """
    try:
        return database.remove(at)
    except UnusableError as error:
        raise InputError(f"{error}") from None
    except OSError as error:
        raise InputError(f"{at}: cannot be removed ({error.strerror}); check its permissions") from None


def nothing() -> History:
    """A history that stores nothing."""
    return History(None, lambda _: None)


def _new_id() -> str:
    return secrets.token_hex(6)


def _open(connection: sqlite3.Connection, kind: str | None, job: str | None) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT id, owner FROM entries WHERE verdict IS NULL AND (:kind IS NULL OR kind = :kind) "
        "AND (:job IS NULL OR job = :job) ORDER BY number",
        {"kind": kind, "job": job},
    ).fetchall()


def _is_gone(owner: str) -> bool:
    """Whether the process that began an entry has certainly ended."""
    try:
        owner_data = json.loads(owner)
    except ValueError:
        return False
    if not owners.is_written(owner_data):
        return False
    state = owners.state(owner_data)
    # A process on another host that shares this file has another boot id, too.
    return state is Owner.GONE or (state is Owner.OF_ANOTHER_BOOT and owner_data.get("host") == here().host)


def _insert(connection: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    """Write a row, or its changes: its number stays."""
    names = list(row)
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    connection.execute(
        f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "  # noqa: S608
        f"ON CONFLICT (id) DO UPDATE SET {changed}",
        row,
    )


def _prune(connection: sqlite3.Connection, days: float | None, roots: int | None) -> int:
    """Remove whole entries with their parts: those that are too old, and those beyond a number."""
    gone: set[str] = set()
    if days is not None:
        before = moments.stamp(datetime.now(tz=UTC) - timedelta(days=min(days, _CENTURY_DAYS)))
        rows = connection.execute("SELECT id FROM entries WHERE began < ? AND part_of IS NULL", [before])
        gone.update(id_ for (id_,) in rows)
    if roots is not None:
        rows = connection.execute(
            "SELECT id FROM entries WHERE part_of IS NULL ORDER BY number DESC LIMIT -1 OFFSET ?", [roots]
        )
        gone.update(id_ for (id_,) in rows)
        # A check has hundreds of parts.
        rows = connection.execute(
            "SELECT id FROM entries WHERE part_of IS NULL AND number <= (SELECT max(number) FROM entries) - ?",
            [KEPT_ENTRIES],
        )
        gone.update(id_ for (id_,) in rows)
    count = 0
    for id_ in gone:
        count += connection.execute("DELETE FROM entries WHERE part_of = ?", [id_]).rowcount
        count += connection.execute("DELETE FROM entries WHERE id = ?", [id_]).rowcount
    return count


def _ending(verdict: Verdict, reason: str, seconds: float | None, results: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verdict": Verdict(verdict).value,
        "reason": _line(reason),
        "seconds": None if seconds is None else round(seconds, 4),
        "results": _json(results),
    }


def _entry(row: tuple[Any, ...]) -> HistoryEntry | None:
    """Entry of a row; None if its content is unexpected."""
    *plain, inputs, results, environment = row
    id_, kind, subject, began, seconds, verdict, reason, part_of, job, host, vllm = plain
    texts = [id_, kind, subject, began, reason, host, *(item for item in (part_of, job, vllm) if item is not None)]
    try:
        documents = [json.loads(item) for item in (inputs, results, environment)]
        ending = None if verdict is None else Verdict(verdict)
        duration = None if seconds is None else float(seconds)
    except (ValueError, TypeError, RecursionError):
        return None
    if not all(isinstance(item, str) for item in texts) or not all(isinstance(item, dict) for item in documents):
        return None
    return with_present_names(
        HistoryEntry(id_, kind, subject, began, duration, ending, reason, part_of, job, host, vllm, *documents)
    )


def _json(data: Mapping[str, Any]) -> str:
    """JSON with secrets replaced, in ASCII, so that any text can be stored."""
    whole = json.dumps(_shortened(document(redact_record(dict(data)))), default=str)
    # Again as a whole: a secret may only be recognized by its key.
    text = redact_text(whole)
    try:
        json.loads(text)
    except ValueError:
        text = json.dumps({"left_out": "its secrets could not be redacted"})
    return text if len(text) <= _LARGEST else json.dumps({"left_out": f"it has {len(text)} characters"})


def _shortened(value: Any) -> Any:
    """The same with long texts, such as pasted logs, cut to beginning, length and digest."""
    if isinstance(value, dict):
        return {name[:_LONGEST]: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "backslashreplace")).hexdigest()[:20]
    return f"{value[:_SHOWN]}… ({len(value)} characters, digest {digest})"


def _plain(text: str) -> str:
    """A text without characters that a database rejects."""
    return visible(text.replace("\n", " "))


def _line(text: str) -> str:
    """A text of one line without secrets and characters that a database or a terminal rejects."""
    return _plain(" ".join(redact_text(text).split()))[:2000]
