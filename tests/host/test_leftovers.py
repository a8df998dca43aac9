"""Leftovers of earlier launches: found with proof of their owner, and removed on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import psutil
import pytest

from command_line import run
from vllm_runbooks.core.files import store
from vllm_runbooks.host import leftovers, owners
from vllm_runbooks.host.owners import Owner
from vllm_runbooks.host.processes import TAG


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of supervised launches."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "vllm-runbooks" / "starts"


def write(starts: Path, id_: str, guard: int, segments: dict[str, int] | None = None, **of_guard: Any) -> None:
    """Write the record of a launch; `of_guard` replaces facts about its supervisor."""
    folder = starts / id_
    folder.mkdir(parents=True)
    record = json.loads(leftovers.written(id_, guard, segments or {}))
    record["guard"] |= of_guard
    store(folder / leftovers.RECORD, json.dumps(record))


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def sleeper(mark: str) -> subprocess.Popen[bytes]:
    """A process that carries a mark."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    process = subprocess.Popen(command, env={**os.environ, TAG: mark}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def segment() -> Iterator[str]:
    """A segment of shared memory that no process has open."""
    command = (
        "from multiprocessing import shared_memory as s, resource_tracker as r; m = s.SharedMemory(create=True, "
        "size=4096); r.unregister(m._name, 'shared_memory'); print(m.name)"
    )
    name = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True, text=True).stdout.strip()
    yield name
    (leftovers.SHARED / name).unlink(missing_ok=True)


def test_a_process_of_a_dead_supervisor_is_proven(starts: Path, gone: int, capsys: pytest.CaptureFixture[str]) -> None:
    """It is ended on request; those of a live supervisor, and unmarked ones, stay."""
    write(starts, "dead1", gone)
    write(starts, "live1", os.getpid())
    with sleeper("dead1") as left, sleeper("live1") as lives, sleeper("other") as other:
        found = {each.name: each for each in leftovers.find_leftovers(starts)}
        status, out, _ = run(capsys, "leftovers", "--remove", "proven")

        assert found[f"{left.pid}"].is_proven
        assert f"{lives.pid}" not in found
        assert f"{other.pid}" not in found
        assert f"removed: process {left.pid}" in out
        assert left.wait(60) is not None
        assert lives.poll() is other.poll() is None
        assert status in (0, 1)
        lives.kill()
        other.kill()


def test_a_segment_is_proven_by_its_inode(starts: Path, gone: int, segment: str) -> None:
    """Not by its name, which another one may have by now; not while a process has it open."""
    inode = leftovers.segments()[segment]
    write(starts, "dead2", gone, {segment: inode + 1})
    unproven = next(each for each in leftovers.find_leftovers(starts) if each.name == segment)
    write(starts, "dead3", gone, {segment: inode})
    proven = next(each for each in leftovers.find_leftovers(starts) if each.name == segment)
    opened = shared_memory.SharedMemory(segment)
    was_removed = leftovers.remove_leftover(proven)
    opened.close()

    assert (unproven.is_proven, proven.is_proven) == (False, True)
    assert not was_removed
    assert leftovers.remove_leftover(proven)
    assert not (leftovers.SHARED / segment).exists()


@pytest.mark.parametrize("elsewhere", [{"namespace": 1}, {"namespace": None}, {"boot": None}])
def test_nothing_is_proven_about_a_supervisor_that_cannot_be_seen(
    starts: Path, gone: int, segment: str, elsewhere: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its number may be in use in another process namespace, which is named."""
    write(starts, "other1", gone, {segment: leftovers.segments()[segment]}, **elsewhere, host="box7")
    write(starts, "outer1", gone)
    with sleeper("outer1:other1") as left:
        found = {each.name: each for each in leftovers.find_leftovers(starts)}
        run(capsys, "leftovers", "--remove", "proven")
        is_left = left.poll() is None
        left.kill()

    assert [found[name].is_proven for name in (f"{left.pid}", segment)] == [False, False]
    assert is_left
    assert (leftovers.SHARED / segment).exists()
    assert "supervisor is not visible from here: it ran in another PID namespace (box7)" in found[segment].proof
    assert not leftovers.is_over(starts / "other1")


def test_a_changed_clock_ends_no_supervisor(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's boot time changes with the clock, e.g. by NTP, and running processes stay."""
    booted = psutil.boot_time()
    write(starts, "live2", os.getpid())
    with sleeper("live2") as lives:
        monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: booted + 5.0)
        names = {each.name for each in leftovers.find_leftovers(starts)}
        lives.kill()

    assert f"{lives.pid}" not in names
    assert not leftovers.is_over(starts / "live2")


def test_a_reused_process_number_is_not_the_supervisor() -> None:
    """A process that began a hundredth of a second later is another one."""
    mine = owners.written()
    assert owners.state(mine) is Owner.ALIVE
    assert owners.state(mine | {"ticks": mine["ticks"] + 1}) is Owner.GONE


def test_a_process_may_be_named_like_its_own_state() -> None:
    """Brackets and spaces in a name move no field."""
    code = "open('/proc/self/comm', 'w').write('a) Z 1 2 (b'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        before = owners.written(one.pid)
        assert one.stdout is not None
        one.stdout.readline()
        assert owners.state(before) is Owner.ALIVE
        one.kill()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        assert owners.state(before) is Owner.GONE  # no process has reacted yet


def test_a_hidden_supervisor_is_not_considered_ended(
    starts: Path, gone: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hidepid, /proc hides other users' processes; a free number is still certain."""
    write(starts, "hidden1", os.getpid())
    write(starts, "dead6", gone)
    hidden = tmp_path / "proc"
    (hidden / f"{os.getpid()}" / "stat").mkdir(parents=True)  # it cannot be read
    for there in (tmp_path / "nothing", hidden):
        monkeypatch.setattr(owners, "_PROC", there)
        assert not leftovers.is_over(starts / "hidden1")
        assert leftovers.is_over(starts / "dead6")


def test_records_of_earlier_releases_prove_only_a_free_number(starts: Path, gone: int) -> None:
    """It wrote the time by a clock that may have been set since."""
    write(starts, "earlier1", os.getpid())
    write(starts, "earlier2", gone)
    for name in ("earlier1", "earlier2"):
        path = starts / name / leftovers.RECORD
        record = json.loads(path.read_text())
        del record["guard"]["ticks"]
        record["guard"]["began"] = 1.5
        path.write_text(json.dumps(record))
    with sleeper("earlier1") as left:
        found = {each.name: each for each in leftovers.find_leftovers(starts)}
        left.kill()

    assert not found[f"{left.pid}"].is_proven
    assert f"the start time of process {os.getpid()} is unknown" in found[f"{left.pid}"].proof
    assert [leftovers.is_over(starts / name) for name in ("earlier1", "earlier2")] == [False, True]


def test_nothing_from_another_boot_counts(starts: Path, segment: str) -> None:
    """Its processes ended with that boot, whatever has their names and numbers now."""
    write(starts, "before1", os.getpid(), {segment: leftovers.segments()[segment]}, boot="another")
    found = {each.name: each for each in leftovers.find_leftovers(starts)}

    assert not found[segment].is_proven
    assert "named like" in found[segment].proof
    assert leftovers.is_over(starts / "before1")


def test_a_damaged_record_is_ignored(starts: Path, gone: int) -> None:
    """The others are read."""
    write(starts, "good", gone)
    for number, text in enumerate(
        ["", "[]", "{}", '{"guard": {"pid": "x"}}', '{"guard": {"pid": 1}, "id": 1}', "[" * 9**5]
    ):
        (starts / f"bad{number}").mkdir()
        (starts / f"bad{number}" / leftovers.RECORD).write_text(text)
    with sleeper("good") as left:
        found = {each.name: each for each in leftovers.find_leftovers(starts)}
        left.kill()

    assert found[f"{left.pid}"].is_proven


def test_a_reused_number_or_name_is_not_removed(starts: Path, gone: int, segment: str) -> None:
    """Another owner may have taken a process number or name in the meantime."""
    write(starts, "dead4", gone)
    with sleeper("dead4") as left:
        one = next(each for each in leftovers.find_leftovers(starts) if each.name == f"{left.pid}")
        is_gone = leftovers.remove_leftover(
            leftovers.Leftover(one.kind, one.name, 0, is_proven=True, proof="", key=(one.key or 0) - 9)
        )

        assert is_gone
        assert psutil.pid_exists(left.pid)
        left.kill()
    other = leftovers.Leftover("segment", segment, 0, is_proven=True, proof="", key=1)
    assert not leftovers.remove_leftover(other)
    assert (leftovers.SHARED / segment).exists()


def test_a_name_that_is_not_a_leftover_is_rejected(starts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For example process 1, or a path."""
    assert not starts.exists()
    for name in ("1", "../../etc/passwd", ""):
        status, out, err = run(capsys, "leftovers", "--remove", name)
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_the_list_is_a_document(starts: Path, gone: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With the proof of each."""
    write(starts, "dead5", gone)
    with sleeper("dead5") as left:
        status, out, _ = run(capsys, "leftovers", "--format", "json")
        left.kill()
    rows = {row["name"]: row for row in json.loads(out)["leftovers"]}

    assert status == 1
    assert rows[f"{left.pid}"]["proven"] is True
    assert "dead5" in rows[f"{left.pid}"]["proof"]
