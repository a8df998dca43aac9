"""What was done on this host: every check, run, guarded start and probe, with what it was asked for and came to.

    with history.opened(say=output.say) as kept:
        id_ = kept.begin("run", "single-gpu-oom", inputs={...})
        kept.end(id_, Verdict.PASS, "as expected", seconds=3.2, results={...})

What `end` and `add` were told is on the disk when they return. A history that cannot be written never ends a command:
that is said in one line, and the command goes on without one.
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
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vllm_runbooks.core import moments, user_folders
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.history import database
from vllm_runbooks.history.database import Database, UnusableError
from vllm_runbooks.history.records import KINDS, HistoryEntry
from vllm_runbooks.host import owners
from vllm_runbooks.host.here import here
from vllm_runbooks.host.owners import Owner

PLACE = "VLLM_RUNBOOKS_HISTORY"
"""Variable that names another file."""
JOB = "VLLM_RUNBOOKS_JOB"
"""Variable in which a schedule names itself to what it starts."""
KEPT_DAYS, KEPT_ROOTS, KEPT_ENTRIES = 400, 10_000, 200_000
"""What is kept: entries younger than that, of them the newest that are no part of another, and the newest of all."""
_LARGEST = 1 << 20
"""Characters of a part of an entry; what is larger is left out."""
_LONGEST, _SHOWN = 4000, 200
"""Characters of a text that is kept whole, and of the beginning of a longer one."""
_CENTURY_DAYS = 36525
_PREFIX = re.compile(r"[0-9a-f]{4,12}", re.ASCII)
_SELECT = (
    "SELECT id, kind, subject, began, seconds, verdict, reason, part_of, job, host, vllm, inputs, results, "
    "coalesce(nullif(environment, '{}'), (SELECT environment FROM entries AS whole WHERE whole.id = e.part_of), '{}') "
    "FROM entries e"
)


def place() -> Path:
    """The history's file: what the variable names, else in the user's folder for state.

    Raises:
        InputError: the user has none.
    """
    setting = os.environ.get(PLACE)
    try:
        return Path(setting).expanduser().absolute() if setting else user_folders.state() / database.NAME
    except RuntimeError:
        raise InputError(f"{PLACE}: {setting}: there is no such home; name a whole path") from None
    except InputError as error:
        raise InputError(f"the history has no place, as {error}, or a file in {PLACE}") from None


def is_id(text: str) -> bool:
    """Whether a text may be the id of an entry, or the beginning of one."""
    return _PREFIX.fullmatch(text) is not None


def surroundings(*, with_cards: bool = False) -> dict[str, Any]:
    """Where this process runs; what was not asked, or is not told, is None.

    Args:
        with_cards: Whether the driver is asked for this host's cards, which may take it seconds.
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
    """The history, its file opened when it is first asked or told something.

    Args:
        at: Its file; None: the usual one.
        say: Says one line to whoever runs the command.
        is_needed: Whether a history that cannot be used is an error (`InputError`) of what is asked; else it is said.
    """
    try:
        store = History(place() if at is None else at, say, is_needed=is_needed)
    except InputError as error:
        if is_needed:
            raise
        say(f"{error}; this command goes on without it")
        store = History(None, say)
    try:
        yield store
    finally:
        store.close()


class History:
    """What was done, and is being done."""

    def __init__(self, at: Path | None, say: Callable[[str], None], *, is_needed: bool = False) -> None:
        """A history; without a place none, which keeps nothing and holds nothing."""
        self._database = Database(at, say) if at is not None else None
        self._say = say
        self._is_needed = is_needed
        self._begun: dict[str, dict[str, Any]] = {}
        """Rows that this process has begun: where the file is lost meanwhile, their end brings them back whole."""
        self._owner = ""

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()

    def begin(
        self,
        kind: str,
        subject: str,
        *,
        inputs: Mapping[str, Any],
        part_of: str | None = None,
        job: str | None = None,
        environment: Mapping[str, Any] | None = None,
        vllm: str | None = None,
    ) -> str:
        """Write down that something begins, and return its id; a part has the surroundings of its whole."""
        if self._database is None:
            return _new_id()
        row = self._row(
            kind,
            subject,
            inputs=inputs,
            part_of=part_of,
            job=job,
            environment=environment,
            vllm=vllm,
            began=moments.now(),
        )
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
        """Write down what it came to; on the disk when this returns.

        `inputs` replace those that it began with, and `environment` says where it was done if that was elsewhere.
        """
        if self._database is None:
            return
        values = _ending(verdict, reason, seconds, results, vllm)
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
        """Remove what was begun, and refused before anything was done."""
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
        part_of: str | None = None,
        job: str | None = None,
        environment: Mapping[str, Any] | None = None,
        vllm: str | None = None,
    ) -> str:
        """Write down something that has ended, and return its id; on the disk when this returns."""
        if self._database is None:
            return _new_id()
        row = self._row(
            kind,
            subject,
            inputs=inputs,
            part_of=part_of,
            job=job,
            environment=environment,
            vllm=vllm,
            began=began or moments.now(),
        )
        row |= _ending(verdict, reason, seconds, results, vllm)
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
        """The entries that meet all conditions, the newest first.

        Args:
            kind: As it was begun.
            subject: To the letter, or a pattern with `*`.
            job: Name of a schedule.
            since: Those that began then or later, as `core.moments.now` writes one.
            part_of: Parts of that entry.
            limit: So many at most.
            is_whole: Those alone that are no part of another.
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
        """The entries of a subject, the newest first; of a runbook's id where there are none, its runs on any case."""
        entries = self.entries(subject=subject, since=since, limit=limit)
        if entries or "*" in subject:
            return entries
        escaped = "".join(f"[{letter}]" if letter in "?[" else letter for letter in subject)
        return self.entries(subject=f"{escaped} on *", since=since, limit=limit)

    def beginning(self, prefix: str) -> list[HistoryEntry]:
        """The entries whose id begins so, the newest first; a few of many."""
        if not is_id(prefix):
            return []
        return self._read("WHERE id >= ? AND id < ? ORDER BY number DESC LIMIT 3", [prefix, f"{prefix}g"])

    def entry(self, prefix: str) -> HistoryEntry:
        """The entry whose id begins so.

        Raises:
            InputError: there is none, or there are several.
        """
        entries = self.beginning(prefix)
        if not entries:
            raise InputError(f"{redact_text(prefix)}: no entry of the history has this id; `history` lists them")
        if len(entries) > 1:
            some = ", ".join(item.id for item in entries[:2])
            raise InputError(f"{prefix}: several entries begin so, as {some}; give more of it")
        return entries[0]

    def interrupted(self, *, kind: str | None = None, job: str | None = None) -> list[HistoryEntry]:
        """The entries that a process has begun which is gone, the oldest first; each is told once, and marked.

        Args:
            kind: Of this kind alone; what is of another is told to whoever asks for it.
            job: Of this schedule alone.
        """
        open_entries = self._do(lambda file: file.read(lambda connection: _open(connection, kind, job))) or []
        is_gone = {owner: _is_gone(owner) for owner in {owner for _, owner in open_entries}}
        gone = [id_ for id_, owner in open_entries if is_gone[owner]]
        if not gone:
            return []

        def mark(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            says = "its process ended before it did"
            marked = [
                id_
                for id_ in gone
                if connection.execute(
                    "UPDATE entries SET verdict = ?, reason = ? WHERE id = ? AND verdict IS NULL",
                    [Verdict.INTERRUPTED.value, says, id_],
                ).rowcount
            ]
            # In the same transaction: who marks an entry tells it.
            return [row for id_ in marked for row in connection.execute(f"{_SELECT} WHERE id = ?", [id_])]

        return self._sound(self._write(mark) or [])

    def prune(self, *, days: float | None = KEPT_DAYS, roots: int | None = KEPT_ROOTS) -> int:
        """Remove what is older, or beyond so many; how many entries that were."""
        return self._write(lambda connection: _prune(connection, days, roots)) or 0

    def _put(self, connection: sqlite3.Connection, row: Mapping[str, Any]) -> None:
        _insert(connection, row)
        if row["part_of"] is None:
            _prune(connection, KEPT_DAYS, KEPT_ROOTS)

    def _row(
        self,
        kind: str,
        subject: str,
        *,
        inputs: Mapping[str, Any],
        part_of: str | None,
        job: str | None,
        environment: Mapping[str, Any] | None,
        vllm: str | None,
        began: str,
    ) -> dict[str, Any]:
        if kind not in KINDS:
            raise InputError(f"{kind}: is no kind of entry; give one of {', '.join(KINDS)}")
        if environment is None:
            environment = {} if part_of is not None else surroundings()
        self._owner = self._owner or json.dumps(owners.written())
        job = job or os.environ.get(JOB)
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
        return self._sound(
            self._do(lambda file: file.read(lambda connection: connection.execute(select, values).fetchall())) or []
        )

    def _sound(self, rows: Sequence[tuple[Any, ...]]) -> list[HistoryEntry]:
        """The entries of rows; what cannot be read is said, and left out."""
        entries = [_entry(row) for row in rows]
        if broken := entries.count(None):
            self._say(f"history: {broken} {'entry' if broken == 1 else 'entries'} cannot be read, and left out")
        return [item for item in entries if item is not None]

    def _write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return self._do(lambda file: file.write(work))

    def _do(self, work: Callable[[Database], Any]) -> Any:
        """Do something with the file; None where there is none, or none any more."""
        if self._database is None:
            return None
        try:
            return work(self._database)
        except UnusableError as error:
            if self._is_needed:
                raise InputError(f"{error}; see to it, or name another file in {PLACE}") from None
            self._say(f"{error}; this command goes on without it")
            self._database = None
            return None


def remove(at: Path) -> list[Path]:
    """Remove a history, and those that were set aside; returns what was removed.

    Raises:
        InputError: it cannot be removed.
    """
    try:
        return database.remove(at)
    except UnusableError as error:
        raise InputError(f"{error}") from None
    except OSError as error:
        raise InputError(f"{at}: cannot be removed ({error.strerror}); check its permissions") from None


def nothing() -> History:
    """A history that keeps nothing, for whoever wants none."""
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
    """Whether the process that began an entry is gone for certain."""
    try:
        owner_data = json.loads(owner)
    except ValueError:
        return False
    if not owners.is_written(owner_data):
        return False
    state = owners.state(owner_data)
    # Of another boot is also what runs on another host that shares this file.
    return state is Owner.GONE or (state is Owner.OF_ANOTHER_BOOT and owner_data.get("host") == here().host)


def _insert(connection: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    """Write a row, or what has changed of it: its number stays."""
    names = list(row)
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    connection.execute(
        f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "  # noqa: S608
        f"ON CONFLICT (id) DO UPDATE SET {changed}",
        row,
    )


def _prune(connection: sqlite3.Connection, days: float | None, roots: int | None) -> int:
    """Remove whole entries with their parts: those that are too old, and those beyond so many."""
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


def _ending(
    verdict: Verdict, reason: str, seconds: float | None, results: Mapping[str, Any], vllm: str | None
) -> dict[str, Any]:
    values: dict[str, Any] = {
        "verdict": Verdict(verdict).value,
        "reason": _line(reason),
        "seconds": None if seconds is None else round(seconds, 4),
        "results": _json(results),
    }
    return values if vllm is None else values | {"vllm": _line(vllm)}


def _entry(row: tuple[Any, ...]) -> HistoryEntry | None:
    """The entry of a row; None: it is not what was written."""
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
    return HistoryEntry(id_, kind, subject, began, duration, ending, reason, part_of, job, host, vllm, *documents)


def _json(data: Mapping[str, Any]) -> str:
    """The JSON of something that is told, secrets replaced; pure ASCII, so that any text can be kept."""
    whole = json.dumps(_shortened(document(redact_record(dict(data)))), default=str)
    # Once more as a whole: a secret may be known by the name of its key alone.
    text = redact_text(whole)
    try:
        json.loads(text)
    except ValueError:
        text = json.dumps({"left_out": "its secrets could not be replaced"})
    return text if len(text) <= _LARGEST else json.dumps({"left_out": f"it has {len(text)} characters"})


def _shortened(value: Any) -> Any:
    """The same with long texts, such as a log that was pasted, told by their beginning, length and digest."""
    if isinstance(value, dict):
        return {name[:_LONGEST]: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "backslashreplace")).hexdigest()[:20]
    return f"{value[:_SHOWN]}… ({len(value)} characters, digest {digest})"


def _plain(text: str) -> str:
    """A text that a database can hold: no half of a character, no end before its end."""
    return visible(text.replace("\n", " "))


def _line(text: str) -> str:
    """A text of one line, secrets replaced, with nothing in it that a database or a terminal cannot hold."""
    return _plain(" ".join(redact_text(text).split()))[:2000]
