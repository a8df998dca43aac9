"""The history keeps acknowledged entries in any failure, and never ends a command."""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pace import scaled, slowdown
from test_serve import UP, Stage, stage
from test_suite import PASS, runbook, small_disk
from vllm_runbooks import render
from vllm_runbooks.authoring import json_schemas
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.cli import run as command_line
from vllm_runbooks.core import moments
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import CauseRef, Outcome, RunResult, Verdict
from vllm_runbooks.diff import differences
from vllm_runbooks.history import database, kept
from vllm_runbooks.history import store as history
from vllm_runbooks.history.records import HistoryEntry, Listed, Trend, TrendPoint
from vllm_runbooks.probe.starts import Attempt, Check, Guarded, LaunchResult
from vllm_runbooks.runbooks import history_entries
from vllm_runbooks.runbooks.notebook import parse_verdict
from vllm_runbooks.runbooks.suite import RunbookRequest
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve import history_entry as guarded
from vllm_runbooks.serve import history_entry as serve_history
from vllm_runbooks.serve import places

jsonschema = pytest.importorskip("jsonschema")

__all__ = ["small_disk", "stage"]
SECRET = "hf_" + "abcdefghijKLMNOPQRST012345"
TOOL = [sys.executable, "-m", "vllm_runbooks"]


@pytest.fixture
def place() -> Path:
    """The test's own history."""
    return history.place()


def told(line: str) -> None:
    """Collects warnings."""
    pytest.fail(line)


def keep(count: int = 1, *, kind: str = "run", subject: str = "a on b", **more: Any) -> list[str]:
    """Keep entries that have ended."""
    with history.opened(say=told) as kept_:
        return [
            kept_.add(kind, subject, Verdict.PASS, "fine", inputs={}, results={"n": n}, seconds=1.0, **more)
            for n in range(count)
        ]


def all_of_it(**asked: Any) -> list[HistoryEntry]:
    with history.opened(say=told) as kept_:
        return kept_.entries(**asked)


@contextlib.contextmanager
def edited() -> Iterator[sqlite3.Connection]:
    """Change the file behind the history's back."""
    with contextlib.closing(sqlite3.connect(history.place())) as file, file:
        yield file


def die_with(work: Callable[[], object]) -> None:
    """Run an action in a process that is then killed without cleanup."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


# Stored entries


def test_an_entry_is_read_back_unchanged(place: Path) -> None:
    """With its host and folder; the file and its folder are private."""
    with history.opened(say=told) as kept_:
        id_ = kept_.begin("run", "single-gpu-oom on k", inputs={"parameters": {"gpus": "", "start": 0}}, job="nightly")
        (begun,) = kept_.entries()
        kept_.end(id_, Verdict.FAIL, "a cause", seconds=1.25, results={"facts": {"weights_gib": 1.5}}, vllm="0.32.0")
        (entry,) = kept_.entries()

    assert (begun.verdict, begun.seconds, begun.results) == (None, None, {})
    assert re.fullmatch(r"[0-9a-f]{12}", entry.id)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.began)
    assert (entry.id, entry.kind, entry.subject, entry.job) == (id_, "run", "single-gpu-oom on k", "nightly")
    assert (entry.verdict, entry.reason, entry.seconds, entry.vllm) == (Verdict.FAIL, "a cause", 1.25, "0.32.0")
    assert entry.inputs == {"parameters": {"gpus": "", "start": 0}}
    assert entry.results == {"facts": {"weights_gib": 1.5}}
    assert {"host", "kernel", "python", "tool", "gpus", "driver"} <= entry.environment.keys()
    assert entry.environment["gpus"] is None
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_any_text_can_be_stored_without_secrets(place: Path) -> None:
    """Lone surrogates, NUL, line ends, terminal colors; tokens, and values with a secret's name."""
    odd = "a\ud800b\x00c\nd\x1b[31m'\""
    with history.opened(say=told) as kept_:
        inputs = {"odd": odd, "token": SECRET, "variables": {"API_KEY": "correct-horse-battery-9"}, odd: [odd]}
        id_ = kept_.begin("run", odd, inputs=inputs, job=odd, vllm=odd)
        kept_.end(id_, Verdict.ERROR, f"{odd} {SECRET}", seconds=None, results={odd: {"x": odd}})
        (entry,) = kept_.entries(subject=odd.replace("\n", " "), job=odd.replace("\n", " "))

    assert entry.inputs["odd"] == odd
    assert entry.results == {odd: {"x": odd}}
    assert entry.subject == "a\\ud800b\\x00c d\\x1b[31m'\""
    raw = b"".join(path.read_bytes() for path in place.parent.iterdir())
    assert SECRET.encode() not in raw
    assert b"correct-horse" not in raw
    render.history.entry(entry).encode()


def test_entries_are_found() -> None:
    """The newest first, by each condition and by the beginning of an id."""
    keep(2)
    (serve_id,) = keep(kind="serve", subject="Qwen/Qwen3-8B", job="nightly")
    with history.opened(say=told) as kept_:
        whole = kept_.begin("check", "everything", inputs={})
        part = kept_.begin("run", "a on c", inputs={}, part_of=whole)
        later = moments.stamp(datetime.now(tz=UTC) + timedelta(hours=1))

        assert [each.id for each in kept_.entries(limit=2)] == [part, whole]
        assert len(kept_.entries(subject="a on b")) == 2
        assert len(kept_.about("a")) == 3
        assert [each.id for each in kept_.entries(kind="serve")] == [serve_id]
        assert [each.id for each in kept_.entries(job="nightly")] == [serve_id]
        assert [each.id for each in kept_.entries(part_of=whole)] == [part]
        assert part not in [each.id for each in kept_.entries(is_whole=True)]
        assert kept_.entries(since=later) == []
        assert kept_.entry(part).environment == kept_.entry(whole).environment
        assert kept_.entry(whole[:11]).id == whole
        for wrong in ("", "%", "zzzz", "0" * 12, "é"):
            with pytest.raises(InputError, match="no history entry"):
                kept_.entry(wrong)


def test_an_ambiguous_id_is_rejected() -> None:
    """With two of them named."""
    keep(2)
    with edited() as file:
        file.execute("UPDATE entries SET id = 'abcd0000000' || number")

    with history.opened(say=told) as kept_, pytest.raises(InputError, match="ambiguous id"):
        kept_.entry("abcd")


def test_old_entries_are_removed_when_another_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those above 400 days and above the maximum number, with their parts."""
    (old,) = keep(kind="check")
    keep(part_of=old)
    with edited() as file:
        file.execute("UPDATE entries SET began = '2024-01-01T00:00:00Z' WHERE id = ?", [old])
    assert len(all_of_it()) == 2
    (new,) = keep()
    assert [each.id for each in all_of_it()] == [new]

    monkeypatch.setattr(history, "KEPT_ROOTS", 3)
    ids = keep(5)
    assert [each.id for each in all_of_it()] == ids[:1:-1]


# Who was interrupted


def test_entries_of_a_dead_process_are_reported_once() -> None:
    """They are marked as interrupted; running ones, and those of other containers, stay."""

    def begin() -> None:
        with history.opened(say=told) as dying:
            dying.begin("run", "gone on k", inputs={})

    die_with(begin)
    with history.opened(say=told) as kept_:
        running = kept_.begin("serve", "m", inputs={})
        elsewhere = kept_.begin("probe", "p", inputs={})
    with edited() as file:
        (owner,) = file.execute("SELECT owner FROM entries WHERE id = ?", [elsewhere]).fetchone()
        other = json.dumps({**json.loads(owner), "pid": 2**22, "namespace": 1})
        file.execute("UPDATE entries SET owner = ? WHERE id = ?", [other, elsewhere])

    with history.opened(say=told) as kept_:
        (gone,) = kept_.interrupted()
        assert (gone.subject, gone.verdict, gone.seconds) == ("gone on k", Verdict.INTERRUPTED, None)
        assert kept_.interrupted() == []
        assert {each.id for each in kept_.entries() if each.verdict is None} == {running, elsewhere}


def test_entries_of_other_kinds_or_schedules_are_left_to_their_commands() -> None:
    """A schedule does not report interruptions of other commands."""

    def begin() -> None:
        with history.opened(say=told) as dying:
            dying.begin("wake", "nightly", inputs={}, job="nightly")
            dying.begin("wake", "weekly", inputs={}, job="weekly")
            dying.begin("serve", "m", inputs={})

    die_with(begin)
    with history.opened(say=told) as kept_:
        assert [each.subject for each in kept_.interrupted(kind="wake", job="nightly")] == ["nightly"]
        assert kept_.interrupted(kind="wake", job="nightly") == []
        assert [each.subject for each in kept_.interrupted(kind="wake")] == ["weekly"]
        assert [each.subject for each in kept_.interrupted()] == ["m"]


def test_an_unreadable_interrupted_entry_ends_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported and skipped; the others are listed."""

    def begin() -> None:
        with history.opened(say=told) as dying:
            for subject in ("a on k", "b on k"):
                dying.begin("run", subject, inputs={})

    die_with(begin)
    with edited() as file:
        file.execute("UPDATE entries SET inputs = 'nothing' WHERE subject = 'a on k'")
    with kept.opened(no_history=False):
        damaged, other = capsys.readouterr().err.splitlines()
    assert "1 entry cannot be read" in damaged
    assert "a run of b on k" in other


def test_the_next_command_reports_interruptions(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, in one line, and not with --no-history."""

    def begin() -> None:
        with history.opened(say=told) as dying:
            dying.begin("run", "single-gpu-oom on k", inputs={})

    die_with(begin)
    with kept.opened(no_history=True):
        assert capsys.readouterr().err == ""
    with kept.opened(no_history=False):
        assert re.fullmatch(
            r"vllm-runbooks: a run of single-gpu-oom on k, started 2\S+Z, was interrupted\n", capsys.readouterr().err
        )
    with kept.opened(no_history=False):
        assert capsys.readouterr().err == ""


def test_a_killed_run_is_listed_as_interrupted_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Before another command has marked it, which still reports it."""

    def begin() -> None:
        with history.opened(say=told) as dying:
            dying.begin("run", "single-gpu-oom on k", inputs={})

    die_with(begin)
    with history.opened(say=told) as opened:
        (listed,) = opened.entries()
        assert (listed.verdict, opened.entry(listed.id).verdict) == (Verdict.INTERRUPTED, Verdict.INTERRUPTED)
        mine = opened.begin("run", "b on k", inputs={})
        assert opened.entry(mine).verdict is None
    with kept.opened(no_history=False):
        assert "a run of single-gpu-oom on k" in capsys.readouterr().err


# Damage to the file


def truncated(place: Path, chance: random.Random) -> None:
    os.truncate(place, chance.randrange(place.stat().st_size))


def flipped(place: Path, chance: random.Random) -> None:
    raw = bytearray(place.read_bytes())
    for _ in range(chance.choice((1, 1, 10, 100))):
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    place.write_bytes(raw)


def check_goes_on(place: Path, before: Sequence[str]) -> None:
    """Store and read an entry with any old file, which stays or is set aside in one line."""
    said: list[str] = []
    with history.opened(say=said.append) as kept_:
        kept_.interrupted()
        id_ = kept_.begin("run", "after", inputs={})
        kept_.end(id_, Verdict.PASS, "fine", seconds=0.1, results={})
        found = kept_.entries()
    aside = [
        path for path in place.parent.iterdir() if ".damaged-" in path.name and path.name[-4:] not in ("-wal", "-shm")
    ]

    assert found[0].id == id_
    assert found[0].verdict is Verdict.PASS
    damage = [line for line in said if "; moved to " in line]
    assert len(damage) == len(aside) <= 1
    assert all(aside[0].name in line and "\n" not in line for line in damage)
    left_out = [line for line in said if "skipped" in line]
    assert len(said) == len(damage) + len(left_out)
    if not damage and not left_out:
        assert len(found) == len(before) + 1


def check_damage(damage: Callable[[Path, random.Random], None], seeds: range) -> None:
    for seed in seeds:
        place = history.place()
        shutil.rmtree(place.parent, ignore_errors=True)
        before = keep(30)
        damage(place, random.Random(seed))  # noqa: S311 - a reproducible place
        check_goes_on(place, before)


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_damaged_file_is_set_aside(damage: Callable[[Path, random.Random], None]) -> None:
    """And a new one is begun; no command ends of it."""
    check_damage(damage, range(6))


@pytest.mark.full
@pytest.mark.parametrize("damage", [truncated, flipped])
def test_a_file_damaged_anywhere_is_set_aside(damage: Callable[[Path, random.Random], None]) -> None:
    """At forty places."""
    check_damage(damage, range(100, 140))


def as_text(place: Path) -> None:
    place.write_text("this is no database\n" * 1000)


def as_folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


def without_table(_: Path) -> None:
    with edited() as file:
        file.execute("DROP TABLE entries")


def without_form(_: Path) -> None:
    with edited() as file:
        file.execute("UPDATE about SET value = '7'")


@pytest.mark.parametrize("damage", [as_text, as_folder, without_table, without_form])
def test_a_file_other_than_a_history_is_set_aside(place: Path, damage: Callable[[Path], None]) -> None:
    """A text, a folder, a database without the table, or with another version than its header."""
    before = keep(3)
    damage(place)

    check_goes_on(place, before)

    assert len(all_of_it()) == 1


def test_a_missing_journal_loses_only_its_entries(place: Path) -> None:
    """The file that is left is whole."""
    keep(3)
    die_with(lambda: history.History(place, told).add("run", "x", Verdict.PASS, "", inputs={}, results={}, seconds=0))
    place.with_name(f"{place.name}-wal").unlink()

    keep()

    assert len(all_of_it()) == 4


def test_a_file_damaged_during_use_loses_nothing_of_this_command(place: Path) -> None:
    """A begun entry is stored with its end; also if the history is wiped meanwhile."""
    for harm in (as_text, history.remove):
        said: list[str] = []
        with history.opened(say=said.append) as kept_:
            id_ = kept_.begin("serve", "m", inputs={"command": "vllm serve m"})
            place.with_name(f"{place.name}-wal").unlink(missing_ok=True)
            harm(place)
            kept_.end(id_, Verdict.PASS, "fine", seconds=1, results={})

        (entry,) = all_of_it()
        assert (entry.id, entry.inputs, entry.verdict) == (id_, {"command": "vllm serve m"}, Verdict.PASS)


def foreign(_: Path) -> None:
    with edited() as file:
        file.execute("CREATE TABLE mine (x)")


def newer(_: Path) -> None:
    keep()
    with edited() as file:
        file.execute("UPDATE about SET value = '99'")
        file.execute("PRAGMA user_version = 99")


def pipe(place: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize(
    ("other", "says"), [(foreign, "another program"), (newer, "newer release"), (pipe, "is not a regular file; use")]
)
def test_files_of_others_are_not_touched(place: Path, other: Callable[[Path], None], says: str) -> None:
    """One line reports it, and the command continues without a history, unless it needs one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    other(place)
    before = place.stat().st_ino

    said: list[str] = []
    with history.opened(say=said.append) as kept_:
        kept_.interrupted()
        kept_.end(kept_.begin("run", "a", inputs={}), Verdict.PASS, "", seconds=0, results={})
    with history.opened(say=told, is_needed=True) as kept_, pytest.raises(InputError, match=says):
        kept_.entries()

    (line,) = said
    assert says in line
    assert line.endswith("; this command continues without it")
    assert place.stat().st_ino == before
    assert not list(place.parent.glob("*.damaged-*"))


@pytest.mark.parametrize("content", [b"important notes\n", b"SQLite format 3\0" + bytes(84), b"\0" * 8192])
def test_a_foreign_file_is_neither_moved_nor_removed(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even if a variable names it, in any command."""
    notes = tmp_path / "notes.txt"
    notes.write_bytes(content)
    monkeypatch.setenv(history.PLACE, str(notes))
    statuses = [command_line(words) for words in (["history"], ["history", "wipe", "--yes"])]
    with history.opened(say=lambda _: None) as kept_:
        kept_.begin("run", "a on b", inputs={})

    assert statuses == [2, 2]
    assert capsys.readouterr().err.count("is not a history of vllm-runbooks; ") == 2
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["notes.txt"]
    assert notes.read_bytes() == content


def test_the_file_is_marked_as_a_history_immediately(tmp_path: Path) -> None:
    """After a crash before the first checkpoint it is still recognized."""
    die_with(lambda: history.History(tmp_path / "mine", told).begin("run", "a on b", inputs={}))

    assert database.is_ours(tmp_path / "mine")


def test_a_file_of_an_earlier_form_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries stay."""
    (old,) = keep()
    more = ("ALTER TABLE entries ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'",)
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, more))

    new = keep()

    assert [each.id for each in all_of_it()] == [*new, old]
    with edited() as file:
        assert file.execute("SELECT DISTINCT colour FROM entries").fetchall() == [("blue",)]
        assert file.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_file_locked_for_too_long_is_skipped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, without waiting forever."""
    keep()
    monkeypatch.setattr(database, "_BUSY_S", 0.2)
    holder = sqlite3.connect(place, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    said: list[str] = []
    with history.opened(say=said.append) as kept_:
        kept_.end(kept_.begin("run", "a", inputs={}), Verdict.PASS, "", seconds=0, results={})
    holder.close()

    assert len(said) == 1
    assert "locked by another process for 0.2 s" in said[0]


@pytest.fixture
def full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A full disk with a history, and the ids of its entries."""
    subprocess.run(["mount", "-o", "remount,size=600k", small_disk], check=True)
    monkeypatch.setenv(history.PLACE, str(small_disk / "history.sqlite"))
    before = keep(2)
    with (small_disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return small_disk, before


def test_a_full_disk_loses_only_the_new_entry(full_disk: tuple[Path, list[str]]) -> None:
    """One line reports it, and earlier entries are intact."""
    disk, before = full_disk
    said: list[str] = []
    with history.opened(say=said.append) as kept_:
        for _ in range(3):
            kept_.end(kept_.begin("run", "x", inputs={}), Verdict.PASS, "", seconds=0, results={})
    (disk / "filler").unlink()

    assert len(said) == 1
    assert "full" in said[0]
    assert [each.id for each in all_of_it()] == before[::-1]


@pytest.mark.slow
def test_a_full_disk_does_not_change_a_commands_result(
    full_disk: tuple[Path, list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The exit status is its own, with one line more on standard error."""
    status = command_line(["check", "--only", "tiny-cpu-interrupted", "--out", str(tmp_path / "out")])
    out, err = capfd.readouterr()
    (full_disk[0] / "filler").unlink()

    assert (status, out.splitlines()[0]) == (0, "1 pass")
    assert err.count("continues without it") == 1
    assert [each.id for each in all_of_it()] == full_disk[1][::-1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody without a home")
def test_a_user_without_a_home_has_no_history() -> None:
    """One line reports it."""
    code = """\
import os
from vllm_runbooks.history import store as history
from vllm_runbooks.core.console import output
os.setuid(54321)
with history.opened(say=output.say) as kept:
    kept.begin("run", "x", inputs={})
"""
    ran = subprocess.run([sys.executable, "-c", code], env={}, check=True, capture_output=True, text=True)

    assert ran.stderr.count("\n") == 1
    assert "this user has no home folder" in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_history_is_not_touched() -> None:
    """A valid but unreadable file in a folder where it could be renamed, as after sudo."""
    code = """\
import os
from vllm_runbooks.history import store as history
from vllm_runbooks.core.console import output
os.setuid(54321)
with history.opened(say=output.say) as kept:
    kept.interrupted()
try:
    with history.opened(say=output.say, is_needed=True) as kept:
        kept.entries()
except history.InputError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        place = Path(folder, "shared.sqlite")
        with history.opened(place, say=told) as kept_:
            kept_.begin("run", "x", inputs={})
        before = sorted((path.name, path.read_bytes()) for path in Path(folder).iterdir())
        ran = subprocess.run(
            [sys.executable, "-c", code], env={history.PLACE: str(place)}, check=True, capture_output=True, text=True
        )

        assert sorted((path.name, path.read_bytes()) for path in Path(folder).iterdir()) == before
    for line in (ran.stderr, ran.stdout):
        assert line.count("\n") == 1
        assert "no permission to read the history" in line


# Concurrency and cost


def write_many(number: int) -> None:
    with history.opened(say=told) as kept_:
        for turn in range(12):
            id_ = kept_.begin("run", f"{number} on {turn}", inputs={})
            kept_.end(id_, Verdict.PASS, "fine", seconds=0.0, results={})


def test_eight_concurrent_writers_lose_nothing() -> None:
    """Not even while creating the file; no lock is an error."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_many, args=(number,)) for number in range(8)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)

    assert [one.exitcode for one in writers] == [0] * 8
    found = all_of_it()
    assert {each.subject for each in found} == {f"{n} on {turn}" for n in range(8) for turn in range(12)}
    assert {each.verdict for each in found} == {Verdict.PASS}


def write_despite(number: int) -> None:
    with history.opened(say=lambda _: None) as kept_:
        kept_.add("run", f"{number}", Verdict.PASS, "fine", inputs={}, results={}, seconds=0.0)


@pytest.mark.parametrize("damage", [as_text, as_folder])
def test_a_damaged_file_is_set_aside_by_one_of_many(place: Path, damage: Callable[[Path], None]) -> None:
    """Others do not mistake the new file for the damaged one."""
    keep()
    damage(place)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_despite, args=(number,)) for number in range(8)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)

    assert [one.exitcode for one in writers] == [0] * 8
    assert {each.subject for each in all_of_it()} == {f"{number}" for number in range(8)}
    assert len([path for path in place.parent.glob("*.damaged-*") if not path.name.endswith(("-wal", "-shm"))]) == 1


def test_a_long_text_is_stored_as_its_digest() -> None:
    """A log pasted into a parameter does not fill the file, and two can be distinguished."""
    with history.opened(say=told) as kept_:
        for end in "ab":
            kept_.begin("run", "x", inputs={"parameters": {"pasted_log": "line\n" * 100_000 + end, "gpus": "A100"}})
        a, b = (each.inputs["parameters"] for each in kept_.entries())

    assert a["gpus"] == b["gpus"] == "A100"
    assert len(a["pasted_log"]) < 300
    assert "500001 characters" in a["pasted_log"]
    assert a["pasted_log"] != b["pasted_log"]


@pytest.mark.parametrize("facts", [[], {"a": []}, {"a": {}}, {"a": float("nan")}, {str(n): n for n in range(201)}, "x"])
def test_a_malformed_verdict_is_ignored(facts: Any) -> None:
    """Notebook output is not trusted: a run whose verdict has other values than facts fails."""
    good = {"schema": 2, "verdict": "pass", "reason": "x", "case": None, "outcome": None, "root_cause": None}
    verdict = parse_verdict({**good, "findings": [], "facts": {"a": 1.5, "b": "c", "d": True}})

    assert verdict is not None
    assert verdict.facts == {"a": 1.5, "b": "c", "d": True}
    assert parse_verdict({**good, "findings": [], "facts": facts}) is None


def test_an_entry_is_cheap() -> None:
    """Opening, beginning and ending take less than 50 ms, also with ten thousand entries."""
    keep()
    with edited() as file:
        file.execute(
            "INSERT INTO entries "
            "(id, kind, subject, began, verdict, reason, host, inputs, results, environment, owner) "
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9990) "
            "SELECT printf('%012x', i), kind, subject, began, verdict, reason, host, inputs, results, environment, "
            "owner FROM n, (SELECT * FROM entries LIMIT 1)"
        )
    keep()  # looks through the file, as happens once a day
    best = 1.0
    for _ in range(3):
        began = time.process_time()
        with history.opened(say=told) as kept_:
            kept_.interrupted()
            id_ = kept_.begin("run", "a on b", inputs={"parameters": {"gpus": ""}})
            kept_.end(id_, Verdict.PASS, "fine", seconds=0.1, results={})
        best = min(best, time.process_time() - began)

    assert best < 0.05


def test_help_needs_no_database() -> None:
    """It is not loaded."""
    for words in (["--help"], ["history", "--help"], ["check", "--help"], ["list"]):
        code = f"import sys; from vllm_runbooks.cli import run; run({words!r}); sys.exit('sqlite3' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


# Entries of commands


def test_a_check_is_stored_while_it_runs(tmp_path: Path) -> None:
    """Each run is stored before it starts, without secrets, and completed with its verdict."""
    case = folders.cases_dir() / "tiny-cpu-port-in-use"
    notebook_ = runbook(tmp_path, "good", "give(Verdict.FAIL, 'found it', stop=False)")
    given = {"evidence": str(case), "api_key": "correct-horse-battery-9"}
    alone = RunbookRequest("(no runbook)", case, case.name, is_alone=True)
    requests = [alone, RunbookRequest("good", notebook_, parameters=given)]
    cause = CauseRef("port.in_use", "port.in_use")
    results = [
        RunResult("(no runbook)", case.name, Verdict.PASS, Outcome.FAILED, cause, 1.5, (), "as expected", None, False),
        RunResult("good", None, Verdict.FAIL, None, None, 2.0, (), "found it", None, False, facts={"vllm": "0.32.0"}),
    ]
    with history.opened(say=told) as kept_, history_entries.Runs(kept_, requests, whole="everything") as runs:
        tell = runs.progress(None)
        for request in requests:
            tell(request, None)
        begun = kept_.entries(kind="run")
        for request, result in zip(requests, results, strict=True):
            tell(request, result)
        runs.finish(results)
        second, first, check = kept_.entries()

    assert [each.verdict for each in begun] == [None, None]
    assert [each.id for each in begun] == [second.id, first.id]
    assert {each.part_of for each in begun} == {check.id}
    assert (check.subject, check.verdict, check.reason) == ("everything", Verdict.FAIL, "1 pass, 1 fail")
    assert check.results == {"runs": {f"(no runbook) on {case.name}": "pass", "good": "fail"}}
    assert (first.verdict, first.seconds, first.results["root_cause"]["class"]) == (Verdict.PASS, 1.5, "port.in_use")
    assert re.fullmatch("[0-9a-f]{20}", first.inputs["case_digest"])
    assert first.inputs["catalog"].startswith(compiled.key(folders.catalog_dir()))
    assert (second.subject, second.verdict, second.vllm) == (f"good on {case.name}", Verdict.FAIL, "0.32.0")
    assert second.inputs["parameters"] == {"evidence": str(case), "where": "", "api_key": "[secret-1]"}
    assert second.inputs["runbook_digest"]


@pytest.mark.slow
def test_a_check_is_stored_with_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run with its inputs and result, as a part of the check."""
    assert command_line(["check", "--only", "tiny-cpu-port-in-use", "--out", str(tmp_path)]) == 0
    capsys.readouterr()

    run, check = all_of_it()
    assert (check.kind, check.subject, check.verdict, check.reason) == (
        "check", "tiny-cpu-port-in-use", Verdict.PASS, "1 pass"
    )  # fmt: skip
    assert check.results == {"runs": {"(no runbook) on tiny-cpu-port-in-use": "pass"}}
    assert (run.part_of, run.verdict, run.vllm) == (check.id, Verdict.PASS, "0.32.0")
    assert run.seconds is not None
    assert run.results["root_cause"]["class"] == "port.in_use"
    assert run.results["findings"][0] == run.results["root_cause"]["symptom"]
    assert run.results["facts"]["max_model_len"] > 0
    assert re.fullmatch("[0-9a-f]{20}", run.inputs["case_digest"])
    assert run.inputs["catalog"].startswith(compiled.key(folders.catalog_dir()))


@pytest.mark.slow
def test_a_run_is_stored_with_its_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Including defaults, with secrets replaced; its verdict is the entry's."""
    path = runbook(tmp_path, "good", "give(Verdict.FAIL, 'found it', stop=False)")
    case = tmp_path / "k"
    shutil.copytree(folders.cases_dir() / "tiny-cpu-interrupted", case)
    words = ["-p", "evidence", str(case), "-p", "api_key", "correct-horse-battery-9"]

    assert command_line(["run", str(path), "--out", str(tmp_path / "out"), *words]) == 1
    capsys.readouterr()

    (entry,) = all_of_it()
    assert (entry.kind, entry.subject, entry.verdict, entry.reason) == ("run", "good on k", Verdict.FAIL, "found it")
    assert entry.inputs["parameters"] == {"evidence": str(case), "where": "", "api_key": "[secret-1]"}
    assert entry.inputs["runbook_digest"]
    assert entry.results["findings"] == ["a.symptom"]


@pytest.mark.slow
def test_no_history_stores_nothing(stage: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """For a check, a run, a launch, and checks without a launch."""
    out = ["--out", str(tmp_path / "out")]
    assert command_line(["check", "--only", "tiny-cpu-port-in-use", "--no-history", *out]) == 0
    assert command_line(["run", "check-a-command", "--no-history", *out]) == 0
    stage.setenv("STAND_IN", json.dumps([{"exit": 3}]))
    for words in (["--no-history"], ["--check"]):
        command_line(["serve", "--vllm", "0.32.0", "--skip", "model", *words, "--", *stage.command()])
    capfd.readouterr()

    assert not history.place().exists()


@pytest.mark.slow
def test_a_supervised_launch_is_stored(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    """Its command, the options with the release's defaults, tries, checks and times."""
    stage.setenv("STAND_IN", json.dumps([*UP, {"serve": {}}, {"hold": True}]))
    words = ["serve", "--vllm", "0.32.0", "--skip", "model", "--until-ready"]

    assert command_line([*words, "--", *stage.command("--api-key", SECRET)]) == 0
    capfd.readouterr()

    (entry,) = all_of_it()
    assert (entry.kind, entry.subject, entry.vllm, entry.verdict) == ("serve", "tiny", "0.32.0", Verdict.PASS)
    assert entry.reason.startswith("ready after")
    assert SECRET not in json.dumps(entry.inputs)
    assert entry.inputs["options"]["gpu_memory_utilization"] == 0.92
    assert entry.inputs["options"]["port"] == stage.port
    assert "gpu_memory_utilization" not in entry.inputs["given"]
    assert entry.results["status"] == 0
    assert entry.results["ready_s"] > 0
    assert entry.results["checks"]["port"] == "passed"
    assert len(entry.results["attempts"]) == 1


def attempt(outcome: Outcome, **more: Any) -> Attempt:
    told_ = {"number": 1, "command": "vllm serve m", "change": None, "seconds": 9.0, "ending": "ended", "ready_s": None}
    return Attempt(outcome=outcome, **{**told_, **more})


@pytest.mark.parametrize(
    ("attempts", "status", "verdict", "reason"),
    [
        ((attempt(Outcome.RUNNING, ready_s=3.0),), 143, Verdict.PASS, "ready after 3.0 s; it ended"),
        ((attempt(Outcome.FAILED),), 1, Verdict.FAIL, "never ready; it ended"),
        ((attempt(Outcome.FAILED, ready_s=3.0),), 1, Verdict.FAIL, "ready after 3.0 s; it ended"),
        ((), 1, Verdict.FAIL, "not launched: port: 8000 is taken"),
        ((), 130, Verdict.INTERRUPTED, "not launched: port: 8000 is taken"),
    ],
)
def test_a_launch_passes_if_it_served_to_its_end(
    attempts: tuple[Attempt, ...], status: int, verdict: Verdict, reason: str
) -> None:
    """Stopping a serving server with a signal is not a failure."""
    checks = (Check("port", LaunchResult.FAILED, "8000 is taken"),)
    found = Guarded("x", "0.32.0", checks, attempts, status)

    assert guarded.judged(found) == (verdict, reason)
    assert guarded.results(found)["checks"] == {"port": "failed"}


# Queries


def start(vllm: str, *more: str, kv_gib: float = 20.0) -> str:
    """Store a launch of a server with a release."""
    subject = serve.subject(["vllm", "serve", "Qwen/Qwen3-8B", *more], vllm=vllm, environment={"PATH": "/bin"})
    with history.opened(say=told) as kept_:
        facts = {"kv_cache_gib": kv_gib}
        results: dict[str, Any] = {"outcome": "running", "root_cause": None, "findings": [], "facts": facts}
        inputs = serve_history._start_inputs(subject)
        return kept_.add(
            "serve", "Qwen/Qwen3-8B", Verdict.PASS, "", inputs=inputs, results=results, seconds=1, vllm=vllm
        )


def compared(capsys: pytest.CaptureFixture[str], a: str, b: str, form: str = "text") -> tuple[int, str]:
    """The exit status of `diff`, and its output."""
    status = command_line(["diff", a, b, "--format", form])
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


def test_two_releases_differ_in_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """For the same command, changed defaults and their effects precede the results."""
    first, second = start("0.16.0"), start("0.32.0", kv_gib=22.0)

    status, out = compared(capsys, "Qwen/Qwen3-8B~1", "Qwen/Qwen3-8B")

    assert status == 1
    head, _, rest = out.partition("\n\n")
    assert head.startswith("DIFFERS  1 result differs · ")
    assert rest.startswith(f"a: {first}, a supervised launch of Qwen/Qwen3-8B, started ")
    inputs, results = out.index("options.gpu_memory_utilization: 0.9 -> 0.92 (+0.02, +2.2%)"), out.index("Results")
    assert inputs < results < out.index("facts.kv_cache_gib: 20 -> 22 (+2, +10.0%)")
    assert "Default changed: vLLM uses" in out
    same = compared(capsys, first[:8], first)
    assert (same[0], same[1].splitlines()[0]) == (
        0, "SAME     the results are the same except for times · no inputs differ · no environment values differ"
    )  # fmt: skip
    assert compared(capsys, second, first, "json")[0] == 1


def test_an_option_in_only_one_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The other's value is its release's default."""
    start("0.32.0", "--gpu-memory-utilization", "0.8")
    start("0.32.0")

    _, out = compared(capsys, "Qwen/Qwen3-8B~1", "Qwen/Qwen3-8B")

    assert "options.gpu_memory_utilization: 0.8 -> 0.92 (+0.12, +15.0%)\n    the second is its release's default" in out


def test_documents_of_two_hosts_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two outputs of `diagnose`: new and missing findings, and defaults of the releases."""
    names = []
    for case in ("tiny-cpu-served", "autoglm-3090-video-oom"):
        command_line(["diagnose", str(folders.cases_dir() / case / "startup.log"), "--format", "json"])
        names.append(str(tmp_path / f"{case}.json"))
        Path(names[-1]).write_text(capsys.readouterr().out)

    status, out = compared(capsys, names[0], names[1])
    assert status == 1
    assert "\n  vllm: 0.32.0 -> 0.16.0\n" in out
    assert "\n  defaults.gpu_memory_utilization: 0.92 -> 0.9 (-0.02, -2.2%)\n" in out
    assert "\n  new finding: oom.multimodal_encoder\n" in out
    assert "\n  resolved finding: oom.multimodal_encoder\n" in compared(capsys, names[1], names[0])[1]
    assert compared(capsys, names[0], names[0])[0] == 0


def test_an_exported_entry_is_compared_as_the_entry_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that two hosts are."""
    id_ = start("0.32.0")
    file = tmp_path / "one.json"
    assert command_line(["history", "export", str(file)]) == 0
    capsys.readouterr()

    assert compared(capsys, str(file), id_)[0] == 0


def test_checks_are_compared_run_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    """By their results; durations are shown and make no difference."""
    results: dict[str, Any]
    for gib, seconds in ((1.0, 1.0), (1.0, 2.0), (2.0, 2.0)):
        with history.opened(say=told) as kept_:
            whole = kept_.begin("check", "everything", inputs={})
            results = {"findings": [], "facts": {"kv_cache_gib": gib}}
            for subject in ("a on b", "c"):
                kept_.add("run", subject, Verdict.PASS, "", inputs={}, results=results, seconds=seconds, part_of=whole)
            kept_.end(whole, Verdict.PASS, "2 pass", seconds=seconds, results={"runs": {"a on b": "pass", "c": "pass"}})

    status, out = compared(capsys, "everything~2", "everything~1")
    assert status == 0
    assert "seconds: 1 -> 2 (+1, +100.0%)" in out
    assert compared(capsys, "everything~1", "everything")[0] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a JSON document"),
        ("[1]", "is not a JSON object"),
        ("{}", "is not a history entry, nor a"),
        ('{"id": 1, "kind": [], "subject": {}}', "is not a history entry, nor a"),
        ('{"id": "a", "kind": "run", "subject": "s", "began": "x", "inputs": 7}', "is not a history entry, nor a"),
        ('{"runs": [{"runbook": 1}]}', "is not a history entry, nor a"),
        ('{"outcome": 1, "facts": [], "findings": 2, "vllm": 3, "root_cause": null}', "is not a history entry, nor a"),
        ("[" * 100_000, "is not a JSON document"),
        ('{"a": 1}\n{"a": 1}\n', "from an export with several lines, use one line"),
    ],
)
def test_an_invalid_document_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    """In one line, with no output."""
    file = tmp_path / "x.json"
    file.write_text(text)

    assert command_line(["diff", str(file), str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("diff nothing nothing", "no history entry matches"),
        ("diff abcd abcd", "no history entry has this id"),
        ("diff missing.json x", "No such file"),
        ("show abcdef", "no runbook has this id"),
        ("show nothing", "no runbook has this id"),
        ("history --since yesterday", "is not a time"),
        ("history --since 999999w", "is not a time"),
        ("history --kind other", "is not one of"),
        ("history --limit 0", "is not in the range"),
        ("history trend nothing", "nothing: no history entry has this subject"),
        ("history prune --keep 5x", "neither an age"),
        ("history export .", "is a folder"),
        ("history wipe", "add --yes"),
        ("history nonsense", "extra argument"),
    ],
)
def test_a_wrong_word_is_one_line(capsys: pytest.CaptureFixture[str], line: str, says: str) -> None:
    """With exit status 2, and nothing printed."""
    assert command_line(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command_line(list(words)) == 0
    return capsys.readouterr().out


def test_documents_keep_to_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a list, an entry, a trend and a difference."""
    ids = [start("0.19.0"), start("0.32.0")]
    for name, words in {
        "history": ["history", "--format", "json"],
        "entry": ["show", ids[0], "--format", "json"],
        "trend": ["history", "trend", "Qwen/Qwen3-8B", "--format", "json"],
    }.items():
        document = json.loads(printed(capsys, *words))
        jsonschema.Draft202012Validator(json_schemas.schemas()[f"{name}.json"]).validate(document)
    _, out = compared(capsys, ids[0], ids[1], "json")
    jsonschema.Draft202012Validator(json_schemas.schemas()["diff.json"]).validate(json.loads(out))


def test_the_history_is_listed_shown_and_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """The newest first, parts under their check, numbers that moved over time."""
    assert printed(capsys, "history") == "no matching entries in the history\n"
    assert not history.place().exists()
    (check,) = keep(kind="check", subject="everything")
    keep(part_of=check)
    first, second = start("0.32.0", kv_gib=1.5), start("0.32.0", kv_gib=2.5)

    listed = printed(capsys, "history").splitlines()
    assert listed[0] == "OK       3 runs: 3 pass"
    assert [line.split()[0] for line in listed[2:]] == ["id", second, first, check]
    assert len(printed(capsys, "history", "--subject", "a on *").splitlines()) == 4
    shown = printed(capsys, "show", check[:6])
    assert shown.startswith("A check of everything\n")
    assert "a on b" in shown
    assert "\nInputs\n  " in printed(capsys, "show", first)
    trend = printed(capsys, "history", "trend", "Qwen/Qwen3-8B").splitlines()
    assert trend[0] == "PASS     Qwen/Qwen3-8B · 2 runs: 2 pass · kv_cache_gib 1.5 to 2.5"
    assert trend[2].split()[-1] == "kv_cache_gib"
    assert [line.split()[-1] for line in trend[3:]] == ["1.5", "2.5"]
    with history.opened(say=told) as kept_:
        failed = kept_.add("run", "c on d", Verdict.FAIL, "it differs", inputs={}, results={}, seconds=1.0)
    listed = printed(capsys, "history").splitlines()
    assert listed[0] == "FAILED   1 of 4 runs failed"
    assert listed[-1] == f"  Next  vllm-runbooks show {failed}"


def test_a_curve_goes_from_the_first_entry_to_the_last() -> None:
    """From left to right inside the picture, with the timestamps of its ends."""
    points = tuple(
        TrendPoint(f"{day}", f"2026-11-2{day}T08:00:00", Verdict.PASS, took, {"kv_cache_gib": took / 8})
        for day, took in ((1, 10.0), (2, 20.0), (3, 15.0))
    )
    html = render.history.curves(Trend("a on b", points)).html

    for track in re.findall(r'<path d="(M[^"a]+)" fill="none"', html):
        across = [float(x) for x in re.findall(r"[ML]([0-9.]+) ", track)]
        gaps = [later - one for one, later in pairwise(across)]
        assert len(gaps) == 2
        assert min(gaps) > 50
        assert max(gaps) - min(gaps) < 1
    assert html.count(">2026-11-21 08:00<") == html.count(">2026-11-23 08:00<") == 2
    assert ">2026-11-22 08:00<" not in html


def test_the_history_is_exported_pruned_and_wiped(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """Lines from the oldest; removed entries, set-aside files and logs of launches are listed."""
    ids = keep(3)
    lines = printed(capsys, "history", "export", "-").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids
    assert all(json.loads(line)["schema"] == 2 for line in lines)
    assert printed(capsys, "history", "prune", "--keep", "2") == "1 entry removed\n"
    as_text(place)
    check_goes_on(place, ids)
    log = places.starts() / "20260101T000000Z-abc"
    log.mkdir(parents=True)
    (log / "report.json").write_text("{}")
    running = places.starts() / "20260101T000000Z-def"
    running.mkdir()

    out = printed(capsys, "history", "wipe", "--yes")

    assert {
        line.removeprefix("removed ").rpartition("/")[2].split(".damaged")[0] for line in out.splitlines()[:-1]
    } == {"history.sqlite"}
    assert "the logs of 1 supervised launch in" in out
    assert sorted(path.name for path in place.parent.rglob("*")) == ["20260101T000000Z-def", "starts"]
    assert printed(capsys, "history", "wipe", "--yes") == "nothing to remove\n"


# Killed at any moment


def test_wiping_keeps_running_jobs(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    """Their state is in the same folder."""
    state = place.parent / "jobs"
    for name in ("old", "busy"):
        (state / name / "20260101T000000Z").mkdir(parents=True)
        (state / name / "20260101T000000Z" / "output.log").write_text("x")
    with (state / "busy.running").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command_line(["history", "wipe", "--yes"])
    out, err = capsys.readouterr()

    assert "removed the output of 1 job in" in out
    assert "busy: is running, its output is kept" in err
    assert sorted(path.name for path in state.iterdir()) == ["busy", "busy.running"]


def test_removing_everything_is_not_pruning(capsys: pytest.CaptureFixture[str]) -> None:
    """It requires confirmation."""
    keep()

    assert command_line(["history", "prune", "--keep", "0"]) == 2
    assert "history wipe" in capsys.readouterr().err
    assert len(all_of_it()) == 1


def test_an_invalid_request_is_not_stored() -> None:
    """`SUBJECT~1` is then the real previous one."""
    status = command_line(["probe", "http://127.0.0.1:9", "--log", "there-is-none.log"])

    assert status == 2
    assert all_of_it() == []


def test_a_relative_state_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in the XDG specification."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert history.place() == tmp_path / ".local" / "state" / "vllm-runbooks" / "history.sqlite"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three short runbooks, and a case that names them."""
    (tmp_path / "books").mkdir()
    names = [runbook(tmp_path / "books", name, PASS).stem for name in ("one", "two", "three")]
    case = tmp_path / "cases" / "k"
    shutil.copytree(folders.cases_dir() / "tiny-cpu-interrupted", case)
    text = (case / "case.yaml").read_text().replace("id: tiny-cpu-interrupted", "id: k")
    (case / "case.yaml").write_text(text.replace("runbooks: []", f"runbooks: [{', '.join(names)}]"))
    return tmp_path


def suite_of(three: Path, out: str = "out") -> list[str]:
    words = ["check", "--runbooks", str(three / "books"), "--cases", str(three / "cases"), "--out", str(three / out)]
    return [*TOOL, *words, "-j", "2"]


_PASSED = re.compile(r"^\[\d/3\] pass (\S+ on k) ", re.MULTILINE)
KILLS = [
    pytest.param(range(4), marks=pytest.mark.slow, id="some"),
    pytest.param(range(50), marks=pytest.mark.full, id="all"),
]


def _read_until(process: subprocess.Popen[str], passes: int) -> str:
    """The output of a suite until this many runs have passed, or its end."""
    assert process.stderr
    said = ""
    while len(_PASSED.findall(said)) < passes and (line := process.stderr.readline()):
        said += line
    return said


@pytest.mark.parametrize("seeds", KILLS)
def test_kill_at_any_moment_loses_no_entry(three: Path, seeds: range, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed results are stored, no file is partial, and the next command reports it once."""
    moments = set()
    for seed in seeds:
        before = {each.id for each in all_of_it()}
        process = subprocess.Popen(suite_of(three), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        # Timing follows the printed progress, as a busy machine may not have done anything yet. The
        # file may not exist yet, which is not a partial file.
        err = _read_until(process, passes=seed % 3)
        time.sleep(random.Random(seed).uniform(0.0, 1.5))  # noqa: S311 - a reproducible moment
        process.kill()
        err += process.communicate()[1]
        printed_ = set(_PASSED.findall(err))
        new = [each for each in all_of_it() if each.id not in before]

        assert "was interrupted" not in err
        assert printed_ <= {each.subject for each in new if each.verdict is Verdict.PASS}
        if history.place().exists():
            with edited() as file:
                assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        open_ = [each.says for each in reversed(new) if each.verdict in (None, Verdict.INTERRUPTED)]
        moments.add(len(open_))
        with kept.opened(no_history=False):
            pass
        said = capsys.readouterr().err.splitlines()
        assert [re.sub(r"vllm-runbooks: (.*), started \S+Z, was interrupted", r"\1", line) for line in said] == open_
        _check_whole(three / "out")
    assert len(moments) > 1


def _check_whole(out: Path) -> None:
    """No part of a file is left, within the five seconds that the guard has, and every file is whole."""
    deadline = time.monotonic() + scaled(5)
    while any(path.name.startswith(".") for path in out.glob("**/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(out.glob("**/.*")) == []
    for path in (*out.glob("*.ipynb"), *out.glob("*.json")):
        json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.full
def test_eight_concurrent_suites_share_a_history(three: Path) -> None:
    """No lock is an error, and every run of each is there."""
    suites = [
        subprocess.Popen(suite_of(three, f"out{number}"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(8)
    ]
    ended = [each.communicate() for each in suites]

    assert [each.returncode for each in suites] == [0] * 8, ended
    assert not any("history" in err for _, err in ended)
    found = all_of_it()
    assert [each.verdict for each in found] == [Verdict.PASS] * 32
    for check in (each for each in found if each.kind == "check"):
        assert sorted(part.subject for part in all_of_it(part_of=check.id)) == ["one on k", "three on k", "two on k"]


def test_listed_is_whole() -> None:
    """A list of entries is one document."""
    keep()
    document = json.loads(render.to_json(Listed(tuple(all_of_it()))))

    assert list(document) == ["schema", "entries"]
    assert differences.read(document["entries"][0], "x").subject == "a on b"


@pytest.mark.slow
def test_a_terminated_suite_closes_its_entries(three: Path) -> None:
    """Finished runs keep their verdict, running ones are interrupted, none is open."""
    process = subprocess.Popen(suite_of(three), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + scaled(60)
    while not all_of_it(kind="run") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate()

    found = all_of_it()
    assert process.returncode == 1
    assert found[-1].verdict is Verdict.INTERRUPTED
    assert {each.verdict for each in found} <= {Verdict.PASS, Verdict.INTERRUPTED}
    with history.opened(say=told) as kept_:
        assert kept_.interrupted() == []


@pytest.mark.full
def test_a_history_of_100_000_entries_is_read_in_half_a_second(place: Path) -> None:
    """By each command, in processor time with the start of Python, and a list is as long as of a short history."""
    keep()
    names = "id, kind, subject, began, seconds, verdict, reason, part_of, job, host, vllm, inputs, results, environment"
    names += ", owner"
    with edited() as file:
        row = file.execute(f"SELECT {names} FROM entries").fetchone()  # noqa: S608 - the test's own names
        began = datetime(2020, 1, 1, tzinfo=UTC)
        file.executemany(
            f"INSERT INTO entries ({names}) VALUES ({', '.join('?' * 15)})",  # noqa: S608
            (
                (
                    f"{n:012x}", row[1], f"r{n % 50} on k{n % 7}", moments.stamp(began + timedelta(minutes=20 * n)),
                    *row[4:12], json.dumps({"facts": {"weights_gib": n % 9}}), *row[13:],
                )
                for n in range(1, 100_000)
            ),
        )  # fmt: skip
    for command in ("history", "history trend 'r3 on k3'", f"diff {700:012x} {99_500:012x}", f"show {50_000:012x}"):
        words = [sys.executable, "-m", "vllm_runbooks", *shlex.split(command)]
        seconds = float("inf")
        for _ in range(2):  # the first one may compile the catalog
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            ran = subprocess.run(words, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = min(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        print(f"{command}: {seconds:.2f} s of processor time, {len(ran.stdout)} characters")

        assert ran.returncode in (0, 1), ran.stderr
        assert len(ran.stdout) < 5000
        assert seconds < 0.5 * max(slowdown() / 2, 1)
    assert place.stat().st_size < 100_000_000
