"""The schedule: what is due is decided by a plan, a clock and the history; every run is judged, every change told once."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from command_line import run as call
from vllm_runbooks import authoring, documents, history, session
from vllm_runbooks.errors import InputError
from vllm_runbooks.history_records import WAKE, Entry
from vllm_runbooks.records import Verdict
from vllm_runbooks.schedule import alerts, changes, cron, jobs, jupyter, policy, reports, runs, units, wake
from vllm_runbooks.schedule_records import Job, Judged, Missed, Overlap, Standing, Told, Turn

BERLIN = ZoneInfo("Europe/Berlin")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config"


def job(**other: Any) -> Job:
    """A nightly job of a host in Berlin, which papermill runs."""
    usual: dict[str, Any] = {
        "name": "nightly",
        "at": "0 3 * * *",
        "zone": "UTC",
        "command": ("papermill", "in.ipynb", "out.ipynb"),
        "folder": str(Path.cwd()),
        "added": "2026-01-01T00:00:00Z",
    }
    return Job(**{**usual, **other})


# Planned times


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no cron expression; give five fields"),
        ("* * * *", "is no cron expression"),
        ("* * * * * *", "is no cron expression"),
        ("60 * * * *", "minute: 60 is out of range; give one from 0 to 59"),
        ("* 24 * * *", "hour: 24 is out of range"),
        ("* * 0 * *", "day of the month: 0 is out of range"),
        ("* * * foo *", "month: foo is no number; give one from 1 to 12, or jan to dec"),
        ("* * * * 8", "day of the week: 8 is out of range"),
        ("-1 * * * *", "minute: -1 is no value, range or step"),
        ("1,, * * * *", "minute: (nothing) is no value"),
        ("*/0 * * * *", "a step of 0 is none"),
        ("5/15 * * * *", "crons read 5/15 differently; write the range, as in 5-59/15"),
        ("* * * * fri-mon", "begins after its end"),
        ("0 3 */2 * 1", "crons read a step over all days beside the other field of days differently"),
        ("0 3 31 2 *", "never comes: no such month has a day 31"),
        ("0 3 30 2 *", "never comes"),
        ("0 3 31 4,6,9,11 *", "never comes"),
        ("1e3 * * * *", "is no value"),
        ("* * L * *", "is no value"),
        ("٣ * * * *", "is no value"),
        ("1," * 300 + "1 * * * *", "is no cron expression"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(text: str, said: str) -> None:
    """With the field that is wrong, and what to write."""
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        cron.parse(text)

    assert "\n" not in str(raised.value)


@settings(max_examples=40, deadline=None)
@given(
    minute=st.sampled_from(["*", "*/7", "0", "5,50", "10-20/3"]),
    hour=st.sampled_from(["*", "3", "*/5", "22-23", "0,12"]),
    day=st.sampled_from(["*", "1", "29", "31", "5-9"]),
    month=st.sampled_from(["*", "2", "feb-apr", "*/3", "12"]),
    weekday=st.sampled_from(["*", "0", "7", "mon-fri", "sun,wed"]),
    start=st.datetimes(datetime(2019, 1, 1), datetime(2033, 1, 1)),
)
def test_wall_times_are_those_of_another_reader_of_cron(
    minute: str, hour: str, day: str, month: str, weekday: str, start: datetime
) -> None:
    """Of croniter, which JupyterLab's scheduler uses: the next three from any moment.

    It finds none where a month lacks the day and the weekday would do; cron takes the weekday.
    """
    croniter = pytest.importorskip("croniter").croniter
    text = f"{minute} {hour} {day} {month} {weekday}"
    start = start.replace(second=0, microsecond=0)
    theirs = croniter(text, start)
    try:
        plan = cron.parse(text)
    except InputError:
        with pytest.raises(Exception, match="failed to find"):
            theirs.get_next(datetime)
        return
    at, ours = start.replace(tzinfo=UTC), []
    for _ in range(3):
        at = cron.after(plan, ZoneInfo("UTC"), at)
        ours.append(at.replace(tzinfo=None))

    try:
        expected = [theirs.get_next(datetime) for _ in range(3)]
    except ValueError:
        assert plan.is_either
        return
    assert ours == expected


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_plan_or_refused(text: str) -> None:
    """And a plan has a next time."""
    try:
        plan = cron.parse(text)
    except InputError:
        return
    assert cron.after(plan, BERLIN, utc("2026-01-01")) > utc("2026-01-01")


def between(text: str, zone: str, since: str, until: str) -> list[str]:
    """Planned moments, the earliest first, as wall times with their offset."""
    where = cron.zone(zone)
    found = cron.back(cron.parse(text), where, until=utc(until), since=utc(since))
    return [at.astimezone(where).isoformat(timespec="minutes") for at in reversed(list(found))]


@pytest.mark.parametrize(
    ("text", "zone", "since", "until", "expected"),
    [
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-03-28", "2026-03-31",
            ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
            id="the hour that a spring night leaves out: the first moment after it",
        ),
        pytest.param(
            "*/20 2,3 * * *", "Europe/Berlin", "2026-03-29", "2026-03-29T12:00",
            ["2026-03-29T03:00+02:00", "2026-03-29T03:20+02:00", "2026-03-29T03:40+02:00"],
            id="several of them are one, and 3:00 itself is the same one",
        ),
        pytest.param(
            "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-26T12:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
            id="the hour that an autumn night has twice: the first",
        ),
        pytest.param(
            "0 0 * * *", "America/Santiago", "2026-09-05T12:00", "2026-09-07T12:00",
            ["2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"],
            id="a gap at midnight",
        ),
        pytest.param(
            "15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00", "2026-10-04T20:00",
            ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"],
            id="a gap of half an hour",
        ),
        pytest.param(
            "0 12 * * *", "Pacific/Apia", "2011-12-28T23:00", "2011-12-31T12:00",
            ["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"],
            id="a day that was left out",
        ),
        pytest.param(
            "59 23 31 12 *", "Europe/Berlin", "2025-06-01", "2027-06-01",
            ["2025-12-31T23:59+01:00", "2026-12-31T23:59+01:00"],
            id="the end of a year",
        ),
        pytest.param(
            "0 0 1 1 *", "Pacific/Auckland", "2026-12-30", "2027-01-02", ["2027-01-01T00:00+13:00"],
            id="new year, which is the year before in UTC",
        ),
        pytest.param(
            "0 6 29 2 *", "UTC", "2095-01-01", "2105-01-01", ["2096-02-29T06:00+00:00", "2104-02-29T06:00+00:00"],
            id="leap days, eight years apart",
        ),
        pytest.param(
            "0 6 31 * *", "UTC", "2026-01-01", "2026-06-01",
            ["2026-01-31T06:00+00:00", "2026-03-31T06:00+00:00", "2026-05-31T06:00+00:00"],
            id="the 31st, in months that have one",
        ),
        pytest.param(
            "0 6 13 * 5", "UTC", "2026-03-10", "2026-03-21",
            ["2026-03-13T06:00+00:00", "2026-03-20T06:00+00:00"],
            id="either field of days, where both are limited",
        ),
    ],
)  # fmt: skip
def test_planned_moments(text: str, zone: str, since: str, until: str, expected: list[str]) -> None:
    """Looked for from behind as from before, they are the same, each once."""
    assert between(text, zone, since, until) == expected
    at, found = utc(since), []
    while (at := cron.after(cron.parse(text), cron.zone(zone), at)) <= utc(until):
        found.append(at.astimezone(cron.zone(zone)).isoformat(timespec="minutes"))
    assert found == expected


@pytest.mark.parametrize("name", ["", "Mars/Base", "../etc/passwd", "/etc/localtime", "Europe", "UTC\n", "é", "A" * 200])
def test_what_is_no_zone_is_refused(name: str) -> None:
    """In one line."""
    with pytest.raises(InputError, match="is no time zone; give a name as in Europe/Berlin") as raised:
        cron.zone(name)

    assert "\n" not in str(raised.value)


# What is due


def decided(found: policy.Decision) -> tuple[str | None, list[tuple[str, str]]]:
    run = None if found.run is None else policy.stamp(found.run)
    return run, [(each.planned, each.why) for each in found.passed]


@pytest.mark.parametrize(
    ("other", "now", "planned", "more", "expected"),
    [
        pytest.param({}, "2026-05-02T02:59", ["2026-05-01T03:00:00Z"], {}, (None, []), id="before its time"),
        pytest.param(
            {}, "2026-05-02T03:00", ["2026-05-01T03:00:00Z"], {}, ("2026-05-02T03:00:00Z", []), id="at its time"
        ),
        pytest.param({}, "2026-05-02T03:04", ["2026-05-02T03:00:00Z"], {}, (None, []), id="covered: not twice"),
        pytest.param(
            {"added": "2026-05-02T03:01:00Z"}, "2026-05-02T03:04", [], {}, (None, []),
            id="nothing before it was added is owed",
        ),
        pytest.param(
            {}, "2026-05-04T03:30", ["2026-05-01T03:00:00Z"], {},
            ("2026-05-04T03:00:00Z", [("2026-05-02T03:00:00Z", "coalesced"), ("2026-05-03T03:00:00Z", "coalesced")]),
            id="several missed are one run",
        ),
        pytest.param(
            {}, "2026-05-04T04:01", ["2026-05-02T03:00:00Z"], {},
            (None, [("2026-05-03T03:00:00Z", "missed"), ("2026-05-04T03:00:00Z", "missed")]),
            id="beyond the grace they are told as missed",
        ),
        pytest.param(
            {"grace_s": 43200.0}, "2026-05-03T14:59", ["2026-05-02T03:00:00Z"], {}, ("2026-05-03T03:00:00Z", []),
            id="a grace of half a day",
        ),
        pytest.param(
            {"missed": Missed.SKIP}, "2026-05-03T03:10", ["2026-05-01T03:00:00Z"], {},
            ("2026-05-03T03:00:00Z", [("2026-05-02T03:00:00Z", "missed")]),
            id="skip: ten minutes are on time",
        ),
        pytest.param(
            {"missed": Missed.SKIP}, "2026-05-03T03:10:01", ["2026-05-02T03:00:00Z"], {},
            (None, [("2026-05-03T03:00:00Z", "missed")]),
            id="skip: a second more is missed",
        ),
        pytest.param(
            {}, "2026-05-03T03:00", ["2026-05-02T03:00:00Z"], {"is_running": True},
            (None, [("2026-05-03T03:00:00Z", "overlap")]),
            id="the last run goes on: passed over",
        ),
        pytest.param(
            {"overlap": Overlap.WAIT}, "2026-05-03T03:00", ["2026-05-02T03:00:00Z"], {"is_running": True}, (None, []),
            id="wait: nothing is written down yet",
        ),
        pytest.param(
            {"overlap": Overlap.WAIT, "missed": Missed.SKIP}, "2026-05-03T05:05", ["2026-05-02T03:00:00Z"],
            {"free_since": utc("2026-05-03T05:00")}, ("2026-05-03T03:00:00Z", []),
            id="wait: late is counted from the end of the last run",
        ),
        pytest.param(
            {}, "2026-05-02T02:00", ["2026-05-02T03:00:00Z"], {}, (None, []), id="the clock was set back: not twice"
        ),
        pytest.param(
            {}, "2026-05-02T03:00", ["2030-01-01T03:00:00Z", "2026-05-01T03:00:00Z"], {}, ("2026-05-02T03:00:00Z", []),
            id="the clock was wrong by years: the job is not stuck",
        ),
        pytest.param(
            {"at": "* * * * *", "grace_s": 60.0}, "2026-05-02T00:00", ["2026-05-01T23:58:00Z"], {},
            ("2026-05-02T00:00:00Z", [("2026-05-01T23:59:00Z", "coalesced")]),
            id="every minute",
        ),
        pytest.param(
            {"at": "30 2 * * *", "zone": "Europe/Berlin"}, "2026-10-25T01:30", ["2026-10-25T00:30:00Z"], {}, (None, []),
            id="2:30 for the second time in an autumn night",
        ),
    ],
)  # fmt: skip
def test_the_policy(
    other: dict[str, Any], now: str, planned: list[str], more: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    """As the table in docs/scheduling.md says."""
    assert decided(policy.decide(job(**other), utc(now), planned, **more)) == expected


def test_a_long_absence_is_told_in_few_entries() -> None:
    """The last twenty one by one, the others as a number; and it is decided at once."""
    began = time.monotonic()
    found = policy.decide(job(at="* * * * *"), utc("2026-09-01"), ["2026-01-02T00:00:00Z"])

    assert time.monotonic() - began < 2
    assert len(found.passed) == 21
    assert sum(each.count for each in found.passed) == 999
    assert [each.planned for each in found.passed] == sorted(each.planned for each in found.passed)


# Jobs


def test_a_job_is_read_as_it_was_stored() -> None:
    """All fields, whatever they are."""
    made = job(
        command=("check", "--only", "a b", "%d", "$x", "'", "yes", "0123", "é"), zone="Europe/Berlin", missed=Missed.SKIP,
        overlap=Overlap.WAIT, grace_s=1.5, webhook_env="HOOK", metrics="x.prom", out="o",
    )  # fmt: skip
    jobs.save(made)

    assert jobs.load("nightly") == made
    assert jobs.names() == ["nightly"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("at: '0 3 31 2 *'", "never comes"),
        ("zone: Mars", "is no time zone"),
        ("grace_s: .nan", "out of range"),
        ("timeout_s: -1", "out of range"),
        ("timeout_s: soon", "timeout_s"),
        ("missed: maybe", "missed"),
        ("more: 1", "more: is not a known field"),
        ("command: [ls]", "begins with none of check, probe, run, papermill"),
        ("command: [check, --out, x]", "every run has a folder of its own"),
        ("command: [run, x, -p, key, hf_abcdefghijklmnopqrstuvwxyzABCDEFGH]", "holds a secret"),
        ("name: other", "the file's name says 'nightly'"),
        ("webhook_env: 'https://hooks.example/x'", "is no name of a variable"),
        ("metrics: x.txt", "the name must end in .prom"),
        ("folder: here", "is no absolute path"),
        ("added: yesterday", "is no time"),
        ("a: &x [*x]", "nightly.yaml"),
    ],
)
def test_a_job_that_was_edited_badly_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], change: str, said: str
) -> None:
    """It names the file and the field, and shows no secret."""
    file = jobs.save(job())
    field = change.partition(":")[0]
    lines = [line for line in file.read_text("utf-8").splitlines()]
    if field == "command":
        lines = [line for line in lines if not line.startswith("- ")]
    file.write_text("\n".join([*(line for line in lines if not line.startswith(f"{field}:")), change]) + "\n", "utf-8")
    status, out, err = call(capsys, "schedule", "wake", "nightly")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "nightly.yaml" in err
    assert "hf_abc" not in err
    assert "hooks.example" not in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("schedule add Nightly --at '0 3 * * *' -- check", "Nightly: is no name of a job"),
        ("schedule add ../x --at '0 3 * * *' -- check", "is no name of a job"),
        (f"schedule add {'a' * 41} --at '0 3 * * *' -- check", "is no name of a job"),
        ("schedule add n -- check", "Missing option '--at'"),
        ("schedule add n --at '0 3 31 2 *' -- check", "never comes"),
        ("schedule add n --at 'x' -- check", "is no cron expression"),
        ("schedule add n --at '0 3 * * *' --zone X -- check", "is no time zone"),
        ("schedule add n --at '0 3 * * *' --grace soon -- check", "'soon' is no time; give one such as 90s, 15m, 1h or 2d"),
        ("schedule add n --at '0 3 * * *' --grace -1h -- check", "'-1h' is no time"),
        ("schedule add n --at '0 3 * * *' --timeout 99999d -- check", "out of range"),
        ("schedule add n --at '0 3 * * *'", "begins with none of check, probe, run, papermill"),
        ("schedule add n --at '0 3 * * *' -- rm -rf x", "begins with none of"),
        ("schedule add n --at '0 3 * * *' -- check --bogus", "No such option '--bogus'"),
        ("schedule add n --at '0 3 * * *' -- check -j x", "'x' is no whole number"),
        ("schedule add n --at '0 3 * * *' -- check --help", "the command asks for help"),
        ("schedule add n --at '0 3 * * *' -- run nothing", "no runbook has this id"),
        ("schedule add n --at '0 3 * * *' -- run single-gpu-oom -p bogus=1", "bogus"),
        ("schedule add n --at '0 3 * * *' -- papermill none.ipynb out.ipynb", "none.ipynb: no such notebook"),
        ("schedule add n --at '0 3 * * *' -- papermill in.ipynb", "papermill needs a notebook"),
        ("schedule add n --at '0 3 * * *' --metrics none/x.prom -- check", "none is no folder"),
        ("schedule show n", "there is no such job"),
        ("schedule remove n", "there is no such job"),
        ("schedule wake n", "there is no such job"),
        ("schedule write n systemd", "there is no such job"),
        ("schedule write n launchd", "'launchd' is not one of"),
        ("schedule", "Usage"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """Exit 2, nothing on standard output, nothing stored."""
    status, out, err = call(capsys, *shlex.split(line))

    assert status == 2
    assert said in err + out
    if said != "Usage":
        assert (out, err.count("\n")) == ("", 1)
    assert jobs.names() == []


def test_a_job_is_added_listed_shown_replaced_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And what Prometheus was told goes with it."""
    (tmp_path / "n.prom").write_text("x 1\n", "utf-8")
    add = shlex.split("schedule add n --at '0 3 * * *' --zone Europe/Berlin --grace 2h --metrics n.prom -- check --only 'tiny-*'")

    assert call(capsys, *add)[0] == 0
    assert call(capsys, *add)[2] == "vllm-runbooks: n: there is such a job; give another name, or --replace\n"
    assert call(capsys, "schedule", "add", "--replace", *add[2:])[0] == 0
    assert call(capsys, "schedule", "list")[1] == "n  0 3 * * *  Europe/Berlin  check --only 'tiny-*'\n"
    status, out, _ = call(capsys, "schedule", "show", "n", "--format", "json")
    shown = json.loads(out)
    assert (status, shown["grace_s"], shown["command"]) == (0, 7200.0, ["check", "--only", "tiny-*"])
    assert call(capsys, "schedule", "remove", "n")[0] == 0
    assert jobs.names() == []
    assert not (tmp_path / "n.prom").exists()


def test_documents_keep_to_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of jobs, and of a wake-up."""
    jsonschema = pytest.importorskip("jsonschema")
    jobs.save(job())
    for line, name in (("list", "schedule-list.json"), ("wake", "schedule-wake.json")):
        _, out, _ = call(capsys, "schedule", line, "--format", "json")
        assert list(jsonschema.Draft202012Validator(authoring.schemas()[name]).iter_errors(json.loads(out))) == []
        assert out.startswith('{\n  "schema": 1,')


# What wakes us

ODD = 'a b%c$HOME"d\'é\\x'
"""A folder whose name means something to systemd, cron and shells."""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of jobs and that of this Python have such a name."""
    folder = tmp_path / ODD
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return python


def by_systemd(text: str) -> list[str]:
    """The words of a value, read by systemd's rules as systemd.syntax(7) and systemd.service(5) tell them."""
    words, at = [], 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        assert text[at] == '"'
        word, at = "", at + 1
        while text[at] != '"':
            step = 2 if text[at] in "\\%" else 1
            word += text[at : at + step].replace('\\"', '"').replace("\\\\", "\\").replace("%%", "%")
            at += step
        words.append(word)
        at += 1
    return words


@needs_systemd
@pytest.mark.parametrize("at", ["0 3 * * *", "*/2 * * * *", "7 * * * *"])
def test_units_are_accepted_by_systemd(tmp_path: Path, odd: Path, at: str) -> None:
    """`verify` finds nothing in them, though paths hold a blank, %, $, quotes; `calendar` knows when they wake."""
    assert odd.exists()
    made = job(at=at, timeout_s=60.0)
    for name, text in units.systemd(made).items():
        (tmp_path / name).write_text(text, "utf-8")
    files = [str(tmp_path / name) for name in units.systemd(made)]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", *files], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    asked = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=3", units.calendar(made)], capture_output=True, text=True, check=True
    ).stdout
    times = [datetime.fromisoformat(found.replace(" ", "T")) for found in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", asked)]
    assert {after - before for before, after in zip(times[:3], times[1:3], strict=False)} <= {
        timedelta(minutes=units.minutes(made))
    }


@pytest.mark.parametrize(
    ("at", "minutes"),
    [("0 3 * * *", 5), ("*/5 * * * *", 5), ("*/4 * * * *", 1), ("0,3 * * * *", 1), ("0,58 * * * *", 1), ("1 * * * *", 5)],
)
def test_we_are_woken_often_enough(at: str, minutes: int) -> None:
    """Every five minutes, or every minute where planned times lie closer."""
    assert units.minutes(job(at=at)) == minutes


def test_units_say_what_they_must(odd: Path, config: Path) -> None:
    """All words come out of systemd's reading as they are, with no secret; and what is left of a run is ended."""
    made = job(webhook_env="HOOK", timeout_s=100.0)
    service, timer = units.systemd(made).values()
    (line,) = re.findall(r"^ExecStart=(.*)$", service, re.MULTILINE)
    words = [word.replace("$$", "$") for word in by_systemd(line)]

    assert words == ["/usr/bin/env", str(odd), "-P", "-m", "vllm_runbooks", "schedule", "wake", "--quiet", "nightly"]
    settings_ = [by_systemd(found)[0] for found in re.findall(r"^Environment=(.*)$", service, re.MULTILINE)]
    assert f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}" in settings_
    (file,) = re.findall(r"^EnvironmentFile=-(.*)$", service, re.MULTILINE)
    assert file.replace("%%", "%") == str(jobs.environment("nightly"))
    assert {"KillMode=control-group", "Type=oneshot", "TimeoutStartSec=400"} <= set(service.splitlines())
    assert {"Persistent=true", "RandomizedDelaySec=20"} <= set(timer.splitlines())
    assert config != Path()


def test_the_librarys_own_reader_of_units_reads_them(odd: Path) -> None:
    """As those of servers, it splits the command into the same words."""
    assert odd.exists()
    service = units.systemd(job())["vllm-runbooks-nightly.service"]
    served = service.replace('"-P" "-m" "vllm_runbooks" "schedule" "wake" "--quiet" "nightly"', '"-m" "vllm.entrypoints.openai.api_server" "--model" "m"')
    (start,) = [each for each in documents.read(served, "x.service").starts if each.words]

    assert [word.value for word in start.words][-2:] == ["--model", "m"]


def test_a_line_of_cron_comes_out_of_cron_and_a_shell_as_it_is(odd: Path, tmp_path: Path) -> None:
    """Cron takes `\\%` for %, a shell the rest: the program is started with its words and the job's variables."""
    line = units.crontab(job(at="*/5 * * * *"))
    *fields, command = line.rstrip("\n").split(" ", 5)
    assert cron.parse(" ".join(fields)).minutes == tuple(range(0, 60, 5))
    assert re.search(r"(?<!\\)%", command) is None
    jobs.environment("nightly").parent.mkdir(parents=True)
    jobs.environment("nightly").write_text("HOOK='https://h/$x'\n", "utf-8")
    odd.unlink()
    odd.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$HOOK" "$XDG_STATE_HOME"\n', "utf-8")
    odd.chmod(0o755)
    done = subprocess.run(["/bin/sh", "-c", command.replace("\\%", "%")], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.splitlines() == [
        "-P", "-m", "vllm_runbooks", "schedule", "wake", "--quiet", "nightly", "https://h/$x", os.environ["XDG_STATE_HOME"],
    ]  # fmt: skip


def test_nothing_is_installed_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path) -> None:
    """And then it says how the timer is started, and how that is undone."""
    jobs.save(job())
    folder = config / "systemd" / "user"
    _, shown, _ = call(capsys, "schedule", "write", "nightly", "systemd")
    assert "[Timer]" in shown
    assert call(capsys, "schedule", "write", "nightly", "systemd", "-o", str(tmp_path / "u"))[0] == 0
    assert not folder.exists()
    status, out, _ = call(capsys, "schedule", "write", "nightly", "systemd", "--apply")

    assert status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["vllm-runbooks-nightly.service", "vllm-runbooks-nightly.timer"]
    assert "systemctl --user enable --now vllm-runbooks-nightly.timer" in out
    assert "systemctl --user disable --now vllm-runbooks-nightly.timer" in out
    assert call(capsys, "schedule", "write", "nightly", "cron", "--apply")[0] == 2
