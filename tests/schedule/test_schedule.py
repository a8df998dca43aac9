"""The schedule: plan, clock and history decide what is due, and changes are reported once."""

from __future__ import annotations

import http.server
import json
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML

from command_line import run as call
from hostile_server import said, serving
from pace import scaled
from ports import free_port
from rows import in_one_test
from vllm_runbooks.catalog import folders, languages
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.console import output
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.history import store as history
from vllm_runbooks.history.records import WAKE, HistoryEntry
from vllm_runbooks.reading import documents
from vllm_runbooks.schedule import (
    alerts,
    changes,
    cron,
    jobs,
    jupyter,
    policy,
    render,
    reports,
    runs,
    units,
    variables,
    wake,
)
from vllm_runbooks.schedule.records import CheckedPart, JobStanding, Missed, MissedTime, Overlap, ScheduledJob, Turn

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


def job(**other: Any) -> ScheduledJob:
    """A nightly job of a host in Berlin, which papermill runs."""
    usual: dict[str, Any] = {
        "name": "nightly",
        "at": "0 3 * * *",
        "zone": "UTC",
        "command": ("papermill", "in.ipynb", "out.ipynb"),
        "folder": str(Path.cwd()),
        "added": "2026-01-01T00:00:00Z",
    }
    return ScheduledJob(**{**usual, **other})


# Planned times


@in_one_test(
    ("text", "said"),
    [
        ("", "not a cron expression; use five fields"),
        ("* * * *", "not a cron expression"),
        ("* * * * * *", "not a cron expression"),
        ("60 * * * *", "minute: 60 is out of range; use one from 0 to 59"),
        ("* 24 * * *", "hour: 24 is out of range"),
        ("* * 0 * *", "day of the month: 0 is out of range"),
        ("* * * foo *", "month: foo is not a number; use one from 1 to 12, or jan to dec"),
        ("* * * * 8", "day of the week: 8 is out of range"),
        ("-1 * * * *", "minute: -1 is not a value, range or step"),
        ("1,, * * * *", "minute: (nothing) is not a value"),
        ("*/0 * * * *", "invalid step 0; use"),
        ("5/15 * * * *", "cron implementations differ on 5/15; write the range, as in 5-59/15"),
        ("* * * * fri-mon", "starts after its end"),
        ("0 3 */2 * 1", "cron implementations differ on a step over all days combined with the other day field; list"),
        ("0 3 31 2 *", "never matches: no such month has a day 31"),
        ("0 3 30 2 *", "never matches"),
        ("0 3 31 4,6,9,11 *", "never matches"),
        ("1e3 * * * *", "is not a value"),
        ("* * L * *", "is not a value"),
        ("٣ * * * *", "is not a value"),
        ("1," * 300 + "1 * * * *", "not a cron expression"),
    ],
)
def test_an_invalid_plan_is_rejected_in_one_line(text: str, said: str) -> None:
    """With the field, and a valid value."""
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
    start=st.datetimes(utc("2019-01-01").replace(tzinfo=None), utc("2033-01-01").replace(tzinfo=None)),
)
def test_wall_times_match_another_cron_parser(  # noqa: PLR0917 - what is drawn
    minute: str, hour: str, day: str, month: str, weekday: str, start: datetime
) -> None:
    """croniter, as used by JupyterLab's scheduler: the next three times from any moment.

    It finds none where a month lacks the day and the weekday would do; cron uses the weekday.
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


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_plan_or_rejected(text: str) -> None:
    """Every plan has a next time."""
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
def test_planned_times(text: str, zone: str, since: str, until: str, expected: list[str]) -> None:
    """Searching backward and forward yields the same times, each once."""
    assert between(text, zone, since, until) == expected
    at, found = utc(since), []
    while (at := cron.after(cron.parse(text), cron.zone(zone), at)) <= utc(until):
        found.append(at.astimezone(cron.zone(zone)).isoformat(timespec="minutes"))
    assert found == expected


def test_a_host_without_time_zones_and_notebooks_is_told_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that the name is wrong; jobs that run notebooks are rejected when they are added."""
    monkeypatch.setattr("vllm_runbooks.core.extras.find_spec", lambda _: None)
    add = ["schedule", "add", "nightly", "--at", "0 3 * * *", "--"]
    refused = [call(capsys, *add, *words) for words in (["check"], ["papermill", "a.ipynb", "b.ipynb"])]
    monkeypatch.setattr(cron, "ZoneInfo", Mock(side_effect=KeyError))
    monkeypatch.setattr(cron, "available_timezones", set)
    refused.append(call(capsys, *add, "probe", "http://127.0.0.1:1"))

    assert [status for status, _, _ in refused] == [2, 2, 2]
    assert [err.split(";")[0].removeprefix("vllm-runbooks: ") for _, _, err in refused] == [
        "papermill is not installed, but is required for runbooks",
        "papermill is not installed, but is required for runbooks",
        "nightly: tzdata is not installed, but is required for time zones",
    ]


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "../etc/passwd", "/etc/localtime", "Europe", "UTC\n", "é", "A" * 200]
)
def test_an_invalid_time_zone_is_rejected(name: str) -> None:
    """In one line."""
    with pytest.raises(InputError, match="is not a time zone; use a name such as Europe/Berlin") as raised:
        cron.zone(name)

    assert "\n" not in str(raised.value)


# Due runs


def decided(found: policy.Decision) -> tuple[str | None, list[tuple[str, str]]]:
    run = None if found.run is None else policy.stamp(found.run)
    return run, [(each.planned, each.reason) for each in found.passed]


@in_one_test(
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
            {"at": "*/10 * * * *"}, "2026-05-02T01:15", ["2026-05-02T01:00:00Z"],
            {"free_since": utc("2026-05-02T01:12")}, (None, [("2026-05-02T01:10:00Z", "overlap")]),
            id="nobody was awake during the last run: what fell into it is passed over",
        ),
        pytest.param(
            {"at": "*/10 * * * *"}, "2026-05-02T01:20", ["2026-05-02T01:00:00Z"],
            {"free_since": utc("2026-05-02T01:12")},
            ("2026-05-02T01:20:00Z", [("2026-05-02T01:10:00Z", "overlap")]),
            id="what is planned after its end is run",
        ),
        pytest.param(
            {"at": "*/10 * * * *", "grace_s": 0.0}, "2026-05-02T01:35", ["2026-05-02T01:00:00Z"],
            {"free_since": utc("2026-05-02T01:12")},
            (
                "2026-05-02T01:30:00Z",
                [("2026-05-02T01:10:00Z", "overlap"), ("2026-05-02T01:20:00Z", "coalesced")],
            ),
            id="each passed time has its own reason",
        ),
        pytest.param(
            {"at": "*/10 * * * *"}, "2026-05-02T01:15", ["2026-05-02T01:00:00Z"],
            {"free_since": utc("2026-05-03T01:12")}, ("2026-05-02T01:10:00Z", []),
            id="the clock was set back since the last run ended: that says nothing",
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
def test_the_policy_matches_its_documentation(
    other: dict[str, Any], now: str, planned: list[str], more: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    """The table in docs/scheduling.md."""
    assert decided(policy.decide(job(**other), utc(now), planned, **more)) == expected


@settings(max_examples=30, deadline=None)
@given(
    at=st.sampled_from(["*/30 * * * *", "30 2 * * *", "0 0 * * 0", "15 1,2,3 25-29 3,10 *"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"]),
    missed=st.sampled_from(list(Missed)),
    overlap=st.sampled_from(list(Overlap)),
    start=st.sampled_from(["2026-03-27", "2026-10-23", "2026-12-30"]),
    steps=st.lists(st.tuples(st.integers(-3600, 90000), st.booleans()), min_size=1, max_size=12),
    taken=st.none() | st.integers(0, 90000),
)
def test_every_planned_time_is_run_or_reported_once(  # noqa: PLR0917 - what is drawn
    at: str, zone: str, missed: Missed, overlap: Overlap, start: str, steps: list[tuple[int, bool]], taken: int | None
) -> None:
    """For any clock jumps and overlaps, none is run twice, reported twice or lost."""
    made = job(at=at, zone=zone, missed=missed, overlap=overlap, added=f"{start}T00:00:00Z")
    now = furthest = utc(start)
    seen: list[str] = []
    count = 0
    for step, is_running in [*steps, (0, False)]:
        now += timedelta(seconds=step)
        furthest = max(furthest, now)
        now = furthest if (step, is_running) == (0, False) else now
        free_since = None if taken is None else furthest - timedelta(seconds=taken)
        found = policy.decide(made, now, seen, is_running=is_running, free_since=free_since)
        new = [each.planned for each in found.passed] + ([policy.stamp(found.run)] if found.run else [])
        assert not set(new) & set(seen)
        assert len(new) == len(set(new))
        seen += new
        count += sum(each.count for each in found.passed) + (found.run is not None)
    expected = cron.back(cron.parse(at), cron.zone(zone), until=furthest, since=utc(start))

    assert count == len(list(expected))


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "\0"]
)
def test_an_invalid_timestamp_is_unknown(text: str) -> None:
    """Including a year outside UTC's range."""
    assert policy.moment(text) is None


def test_a_long_absence_has_few_entries() -> None:
    """The last twenty individually, the others as a count, without delay."""
    began = time.monotonic()
    found = policy.decide(job(at="* * * * *"), utc("2026-09-01"), ["2026-01-02T00:00:00Z"])

    assert time.monotonic() - began < scaled(2)
    assert len(found.passed) == 21
    assert sum(each.count for each in found.passed) == 999
    assert [each.planned for each in found.passed] == sorted(each.planned for each in found.passed)


# Jobs


def test_a_job_is_read_back_unchanged() -> None:
    """All fields with any values."""
    made = job(
        command=("check", "--only", "a b", "%d", "$x", "'", "yes", "0123", "é"), zone="Europe/Berlin",
        missed=Missed.SKIP, overlap=Overlap.WAIT, grace_s=1.5, webhook_env="HOOK", metrics="x.prom", out="o",
    )  # fmt: skip
    jobs.save(made)

    assert jobs.load("nightly") == made
    assert jobs.names() == ["nightly"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("at: '0 3 31 2 *'", "never matches"),
        ("zone: Mars", "is not a time zone"),
        ("grace_s: .nan", "out of range"),
        ("timeout_s: -1", "out of range"),
        ("timeout_s: soon", "timeout_s"),
        ("missed: maybe", "missed"),
        ("more: 1", "more: is not a known field"),
        ("command: [ls]", "must start with"),
        ("command: [check, --out, x]", "every run has its own folder; put"),
        ("command: [run, x, -p, key, hf_abcdefghijklmnopqrstuvwxyzABCDEFGH]", "contains a secret"),
        ("name: other", "the file's name is 'nightly'"),
        ("webhook_env: 'https://hooks.example/x'", "is not a variable name"),
        ("metrics: x.txt", "must end in .prom to be collected"),
        ("folder: here", "is not an absolute path"),
        ("out: /etc/hostname", "is not a folder"),
        ("added: yesterday", "is not a time"),
        ("added: '0001-01-01T00:00:00+14:00'", "is not a time"),
        ("a: &x [*x]", "nightly.yaml"),
        ("grace_s: true", "grace_s: is not a number"),
        ("grace_s: .inf", "grace_s: is not a number"),
        (f"grace_s: {'9' * 400}", "grace_s: is not a number"),
        ("grace_s: '3'", "grace_s: is not a number"),
        ("at: 5", "at: is not a string"),
        ("folder:", "folder: is not a string"),
        ("out: [x]", "out: is not a string"),
        ("overlap: [skip]", "overlap: must be one of skip, wait"),
        ("command: [check, 1]", "command: is not a list of strings"),
        ("command: check", "command: is not a list of strings"),
        ("zone: TODO", "still says TODO"),
        (f"0x{'F' * 5000}: 1", "nightly.yaml:"),
    ],
)
def test_a_badly_edited_job_is_rejected_in_one_line(capsys: pytest.CaptureFixture[str], change: str, said: str) -> None:
    """With file and field, and without secrets."""
    file = jobs.save(job())
    field = change.partition(":")[0]
    lines = file.read_text("utf-8").splitlines()
    if field == "command":
        lines = [line for line in lines if not line.startswith("- ")]
    file.write_text("\n".join([*(line for line in lines if not line.startswith(f"{field}:")), change]) + "\n", "utf-8")
    status, out, err = call(capsys, "schedule", "wake", "nightly")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "nightly.yaml" in err
    assert "hf_abc" not in err
    assert "hooks.example" not in err


@pytest.mark.parametrize("field", ["name", "at", "zone", "command", "folder", "added"])
def test_a_job_with_a_missing_field_is_rejected(field: str) -> None:
    """The message has the field's name."""
    file = jobs.save(job(command=("check",)))
    lines = file.read_text("utf-8").replace("\n- check", " [check]").splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith(f"{field}:")) + "\n", "utf-8")
    with pytest.raises(InputError, match=f"{field}: is missing"):
        jobs.load("nightly")


def test_jobs_match_their_schema() -> None:
    """The pydantic schema of the record and the reader accept the same jobs."""
    adapter = TypeAdapter(ScheduledJob)
    usual = document(job())
    for field in usual:
        for value in ("x", "", 3, 3.5, True, None, [], ["x"], ["x", 1], {"a": 1}, "skip", "wait", "run"):
            told = {**usual, field: value}
            by_hand, problems = jobs._parsed(told)
            try:
                expected = adapter.validate_json(json.dumps(told), strict=True)
            except ValidationError:
                expected = None
            assert by_hand == expected, (field, value, problems)
            assert (by_hand is None) == bool(problems)


def test_an_idle_wake_up_loads_few_modules(tmp_path: Path) -> None:
    """It runs every five minutes, so catalog validation and HTTP clients are not imported."""
    jobs.save(job(at="0 3 1 1 *", added=policy.stamp(utc_now()), metrics="n.prom", webhook_env="HOOK"))
    code = (
        "import sys\nfrom vllm_runbooks import cli\nstatus = cli.run(['schedule', 'wake', '--quiet', 'nightly'])\n"
        "heavy = 'pydantic vllm_runbooks.catalog.authored.compiling vllm_runbooks.catalog.load urllib.request '\n"
        "heavy += 'papermill rich'\n"
        "print(status, [name for name in heavy.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert (done.stdout, done.stderr) == ("0 []\n", "")


def test_two_jobs_may_not_share_a_metrics_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """They would overwrite each other, also under different spellings of the path."""
    (tmp_path / "linked").symlink_to(tmp_path)
    jobs.save(job(metrics="x.prom"))
    jobs.save(job(metrics="x.prom"))
    jobs.save(job(name="other", metrics="y.prom"))
    with pytest.raises(InputError, match="is also used by the job nightly; use one file per job"):
        jobs.save(job(name="other", metrics=str(tmp_path / "linked" / "x.prom")))
    add = ["schedule", "add", "n", "--at", "0 3 * * *", "--metrics", "x.prom", "--", "check"]
    status, out, err = call(capsys, *add)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'x.prom' is also used by the job nightly; use one" in err
    (jobs.config() / "other.yaml").write_text("metrics: [\n", "utf-8")
    assert jobs.load("nightly").metrics == "x.prom"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("schedule add Nightly --at '0 3 * * *' -- check", "Nightly: is not a job name; use lowercase"),
        ("schedule add ../x --at '0 3 * * *' -- check", "is not a job name; use lowercase"),
        (f"schedule add {'a' * 41} --at '0 3 * * *' -- check", "is not a job name; use lowercase"),
        ("schedule add n -- check", "Missing option '--at'"),
        ("schedule add n --at '0 3 31 2 *' -- check", "never matches"),
        ("schedule add n --at 'x' -- check", "not a cron expression"),
        ("schedule add n --at '0 3 * * *' --zone X -- check", "is not a time zone"),
        (
            "schedule add n --at '0 3 * * *' --grace soon -- check",
            "'soon' is not a duration from 0s to 31d; use one such as",
        ),
        ("schedule add n --at '0 3 * * *' --grace -1h -- check", "'-1h' is not a duration"),
        ("schedule add n --at '0 3 * * *' --timeout 99999d -- check", "is not a duration from 1s to 31d"),
        ("schedule add n --at '0 3 * * *'", "must start with"),
        ("schedule add n --at '0 3 * * *' -- rm -rf x", "must start with"),
        ("schedule add n --at '0 3 * * *' -- check --bogus", "No such option '--bogus'"),
        ("schedule add n --at '0 3 * * *' -- check -j x", "'x' is not a whole number"),
        ("schedule add n --at '0 3 * * *' -- check --help", "the command contains --help; use a complete command"),
        ("schedule add n --at '0 3 * * *' -- run nothing", "no runbook has this id"),
        ("schedule add n --at '0 3 * * *' -- run single-gpu-oom -p bogus=1", "bogus"),
        ("schedule add n --at '0 3 * * *' -- papermill none.ipynb out.ipynb", "none.ipynb: no such notebook"),
        ("schedule add n --at '0 3 * * *' -- papermill in.ipynb", "papermill needs an input"),
        ("schedule add n --at '0 3 * * *' --metrics none/x.prom -- check", "none is not a folder"),
        ("schedule show n", "no such job"),
        ("schedule remove n", "no such job"),
        ("schedule wake n", "no such job"),
        ("schedule write n systemd", "no such job"),
        ("schedule write n launchd", "'launchd' is not one of"),
        ("schedule", "Usage"),
    ],
)
def test_invalid_input_is_rejected_in_one_line(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """Exit 2, no output, and nothing stored."""
    status, out, err = call(capsys, *shlex.split(line))

    assert status == 2
    assert said in err + out
    if said != "Usage":
        assert (out, err.count("\n")) == ("", 1)
    assert jobs.names() == []


def test_a_job_is_added_listed_shown_replaced_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Removing it also removes its Prometheus metrics."""
    (tmp_path / "n.prom").write_text("x 1\n", "utf-8")
    add = shlex.split(
        "schedule add n --at '0 3 * * *' --zone Europe/Berlin --grace 2h --metrics n.prom -- check --only 'tiny-*'"
    )

    assert call(capsys, *add)[0] == 0
    assert call(capsys, *add)[2] == "vllm-runbooks: n: job already exists; use another name, or --replace\n"
    assert call(capsys, "schedule", "add", "--replace", *add[2:])[0] == 0
    assert call(capsys, "schedule", "list")[1] == "n  0 3 * * *  Europe/Berlin  check --only 'tiny-*'\n"
    status, out, _ = call(capsys, "schedule", "show", "n", "--format", "json")
    shown = json.loads(out)
    assert (status, shown["grace_s"], shown["command"]) == (0, 7200.0, ["check", "--only", "tiny-*"])
    assert call(capsys, "schedule", "remove", "n")[0] == 0
    assert jobs.names() == []
    assert not (tmp_path / "n.prom").exists()


def test_documents_match_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of jobs and of a wake-up."""
    jsonschema = pytest.importorskip("jsonschema")
    jobs.save(job())
    for line, name in (("list", "schedule-list.json"), ("wake", "schedule-wake.json")):
        _, out, _ = call(capsys, "schedule", line, "--format", "json")
        schema = json.loads((folders.catalog_dir() / "schema" / name).read_text("utf-8"))
        assert list(jsonschema.Draft202012Validator(schema).iter_errors(json.loads(out))) == []
        assert out.startswith('{\n  "schema": 2,')


# Timers

ODD = "a b%c$HOME\"d'é\\x"
"""A folder whose name means something to systemd, cron and shells."""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of jobs and that of this Python have this name."""
    folder = tmp_path / ODD
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return python


def by_systemd(text: str) -> list[str]:
    """Split a value by the rules of systemd.syntax(7) and systemd.service(5)."""
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
        ["systemd-analyze", "calendar", "--iterations=3", units.calendar(made)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    times = [
        datetime.fromisoformat(found.replace(" ", "T"))
        for found in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", asked)
    ]
    assert {after - before for before, after in pairwise(times[:3])} <= {timedelta(minutes=units.minutes(made))}


@pytest.mark.parametrize(
    ("at", "minutes"),
    [
        ("0 3 * * *", 5),
        ("*/5 * * * *", 5),
        ("*/4 * * * *", 1),
        ("0,3 * * * *", 1),
        ("0,58 * * * *", 1),
        ("1 * * * *", 5),
    ],
)
def test_we_are_woken_often_enough(at: str, minutes: int) -> None:
    """Every five minutes, or every minute if planned times are closer."""
    assert units.minutes(job(at=at)) == minutes


def test_units_contain_the_command_and_end_its_processes(odd: Path, config: Path) -> None:
    """All words survive systemd's parsing, no secret is included, and child processes end."""
    made = job(webhook_env="HOOK", timeout_s=100.0)
    service, timer = units.systemd(made).values()
    (line,) = re.findall(r"^ExecStart=(.*)$", service, re.MULTILINE)
    words = [word.replace("$$", "$") for word in by_systemd(line)]

    assert words == ["/usr/bin/env", str(odd), "-P", "-m", "vllm_runbooks", "schedule", "wake", "--quiet", "nightly"]
    settings_ = [by_systemd(found)[0] for found in re.findall(r"^Environment=(.*)$", service, re.MULTILINE)]
    assert f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}" in settings_
    assert "EnvironmentFile" not in service
    assert {"KillMode=control-group", "Type=oneshot", "TimeoutStartSec=400"} <= set(service.splitlines())
    assert {"Persistent=true", "RandomizedDelaySec=20"} <= set(timer.splitlines())
    assert config != Path()


def test_our_reader_of_units_parses_them(odd: Path) -> None:
    """It splits the command into the same words, as for units of servers."""
    assert odd.exists()
    service = units.systemd(job())["vllm-runbooks-nightly.service"]
    served = service.replace(
        '"-P" "-m" "vllm_runbooks" "schedule" "wake" "--quiet" "nightly"',
        '"-m" "vllm.entrypoints.openai.api_server" "--model" "m"',
    )
    (start,) = [each for each in documents.read(served, "x.service").starts if each.words]

    assert [word.value for word in start.words][-2:] == ["--model", "m"]


def test_a_line_of_cron_survives_cron_and_a_shell(odd: Path, tmp_path: Path) -> None:
    """Cron takes an escaped % for %, a shell the rest: the program gets its words. No file is run as a program."""
    line = units.crontab(job(at="*/5 * * * *"))
    *fields, command = line.rstrip("\n").split(" ", 5)
    assert cron.parse(" ".join(fields)).minutes == tuple(range(0, 60, 5))
    assert re.search(r"(?<!\\)%", command) is None
    jobs.environment("nightly").parent.mkdir(parents=True)
    jobs.environment("nightly").write_text("HOOK=$(touch ran)\n", "utf-8")
    odd.unlink()
    odd.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$XDG_STATE_HOME"\n', "utf-8")
    odd.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace("\\%", "%")], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert done.stdout.splitlines() == [
        "-P", "-m", "vllm_runbooks", "schedule", "wake", "--quiet", "nightly", os.environ["XDG_STATE_HOME"],
    ]  # fmt: skip
    assert not (tmp_path / "ran").exists()


def test_a_timer_has_the_environment_of_its_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All variables with this library's paths are passed on, and the whole PATH."""
    library = Path(units.__file__).parents[1]
    text = "\n".join(path.read_text("utf-8") for path in library.rglob("*.py"))
    named = set(re.findall(r'"(VLLM_RUNBOOKS_[A-Z_]+[A-Z])"', text)) - {history.JOB}
    named |= set(re.findall(r'"(XDG_[A-Z]+_HOME)"', text))
    assert {history.PLACE, folders.DATA, folders.CATALOGS, "XDG_STATE_HOME", "XDG_CONFIG_HOME"} <= named
    for name in named:
        monkeypatch.setenv(name, f"{name}{os.pathsep}/b c" if name == folders.CATALOGS else f"{name}:x")
    service = units.systemd(job())["vllm-runbooks-nightly.service"]
    found = dict(by_systemd(line)[0].split("=", 1) for line in re.findall(r"^Environment=(.*)$", service, re.MULTILINE))

    assert found == {
        name: f"{tmp_path}/{name}{os.pathsep}/b c" if name == folders.CATALOGS else f"{tmp_path}/{name}:x"
        for name in named - {languages.LANG}
    } | {languages.LANG: f"{languages.LANG}:x"}


def secrets(text: str | bytes, mode: int = 0o600) -> Path:
    """The job's file of variables."""
    file = jobs.environment("nightly")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(mode)
    return file


def test_variables_of_a_job_are_read_by_one_rule() -> None:
    """Nothing in a value means anything, but the quotation marks around it."""
    secrets(
        "# where it is told\n\nHOOK=https://h/x?a=1&b=2\r\nA = b\n".replace(" = ", "=") + "B='$(touch x) \\ \" '\n"
        'C="it\'s %d ; $HOME"\n'
        "D=\n  E=  two words # and no comment  \n"
        "F=a'b\"c\n"
    )

    assert variables.read("nightly") == {
        "HOOK": "https://h/x?a=1&b=2", "A": "b", "B": '$(touch x) \\ " ', "C": "it's %d ; $HOME", "D": "",
        "E": "two words # and no comment", "F": "a'b\"c",
    }  # fmt: skip
    assert variables.read("other") == {}


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("A=SECRET\n", 0o640, "has mode 0640"),
        ("A=SECRET\n", 0o604, "has mode 0604, so other users can read it; change it to 0600"),
        ("A=b\nexport B=SECRET\n", 0o600, "nightly.env:2: is not a NAME=value line"),
        ("A =SECRET\n", 0o600, "nightly.env:1: is not a NAME=value line"),
        ("SECRET\n", 0o600, "is not a NAME=value line"),
        ("1A=SECRET\n", 0o600, "is not a NAME=value line"),
        ("A='SECRET\n", 0o600, "starts with ' but does not end with it"),
        ("A='\n", 0o600, "starts with ' but"),
        ("A='SECRET'x\n", 0o600, "starts with ' but"),
        ('A="SEC"RET"\n', 0o600, 'starts with " but'),
        ("A=SECRET\0\n", 0o600, "contains a character that is not allowed"),
        (b"A=SECRET\xff\n", 0o600, "is not UTF-8"),
        ("A=" + "x" * 70_000, 0o600, "is larger than 64 KiB"),
    ],
)
def test_unreadable_variables_are_rejected_in_one_line(
    capsys: pytest.CaptureFixture[str], text: str | bytes, mode: int, told: str
) -> None:
    """So are those that others can read; none is shown."""
    jobs.save(job())
    secrets(text, mode)
    status, out, err = call(capsys, "schedule", "wake", "nightly")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert "SECRET" not in err


def test_a_special_file_as_variables_does_not_block() -> None:
    """A pipe without a writer would."""
    jobs.environment("nightly").parent.mkdir(parents=True)
    os.mkfifo(jobs.environment("nightly"), 0o600)
    with pytest.raises(InputError, match="is not a file"):
        variables.read("nightly")


def test_nothing_is_installed_without_a_request(
    capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path
) -> None:
    """With one, the commands that enable and disable the timer are printed."""
    jobs.save(job())
    folder = config / "systemd" / "user"
    _, shown, _ = call(capsys, "schedule", "write", "nightly", "systemd")
    assert "[Timer]" in shown
    assert call(capsys, "schedule", "write", "nightly", "systemd", "-o", str(tmp_path / "u"))[0] == 0
    assert not folder.exists()
    status, out, _ = call(capsys, "schedule", "write", "nightly", "systemd", "--apply")

    assert status == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "vllm-runbooks-nightly.service",
        "vllm-runbooks-nightly.timer",
    ]
    assert "systemctl --user enable --now vllm-runbooks-nightly.timer" in out
    assert "systemctl --user disable --now vllm-runbooks-nightly.timer" in out
    assert call(capsys, "schedule", "write", "nightly", "cron", "--apply")[0] == 2


# Turns, with a clock that is set and runs of a process that takes no time

STAND_IN = """
import json, pathlib, sys, time
source, target = sys.argv[1:3]
told = json.loads(pathlib.Path(source).read_text())
print(told["metadata"].get("says", "executed"), flush=True)
pathlib.Path(source + ".began").write_text("")
if told["metadata"].get("seconds"):
    time.sleep(told["metadata"]["seconds"])
while told["metadata"].get("waits_for") and not pathlib.Path(told["metadata"]["waits_for"]).exists():
    time.sleep(0.01)
if not told["metadata"].get("writes_nothing"):
    pathlib.Path(target).write_text(json.dumps(told))
sys.exit(told["metadata"].get("status", 0))
"""
"""In papermill's place: copies a notebook that is executed already."""


def notebook(verdict: str | None, cause: str | None = None, **metadata: Any) -> str:
    """An executed notebook with a verdict."""
    concluded: dict[str, Any] = {
        "schema": 2, "verdict": verdict, "reason": f"it is {verdict}", "case": None, "outcome": None,
        "root_cause": {"symptom": cause, "class": cause.split(".")[0]} if cause else None, "findings": [],
    }  # fmt: skip
    output = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"application/vnd.vllm-runbooks.judgement+json": concluded},
    }
    cell = {
        "cell_type": "code",
        "metadata": {},
        "source": "",
        "outputs": [output] if verdict else [],
        "execution_count": 1,
    }
    return json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


class Nights:
    """A job, a clock that can be set, and a history."""

    def __init__(self, made: ScheduledJob) -> None:
        self.job = made
        self.now = utc("2026-05-01T03:01")
        self.notes: list[str] = []

    def come_to(self, verdict: str | None, cause: str | None = None, **metadata: Any) -> None:
        """Give all further runs this result."""
        Path("in.ipynb").write_text(notebook(verdict, cause, **metadata), "utf-8")

    def wake(self, at: str | None = None) -> Turn:
        """Be woken."""
        if at is not None:
            self.now = utc(at)
        with history.opened(say=output.say, is_needed=True) as kept:
            return wake.turn(self.job, kept, now=lambda: self.now, pause=lambda _: None)

    def kept(self) -> list[HistoryEntry]:
        """The job's entries in the history, oldest first."""
        with history.opened(say=output.say) as kept:
            return kept.entries(kind=WAKE, job=self.job.name)[::-1]


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    """A job that runs each night at three, and passes."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "papermill.py").write_text(STAND_IN, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    found = Nights(job(added="2026-05-01T00:00:00Z", metrics="n.prom"))
    found.come_to("pass")
    return found


def test_a_night_is_run_once_and_a_missed_one_is_caught_up(nights: Nights) -> None:
    """For any clock changes every planned time is in the history once."""
    first = nights.wake("2026-05-01T03:01")
    again = nights.wake("2026-05-01T03:06")
    back = nights.wake("2026-05-01T02:30")
    late = nights.wake("2026-05-04T03:20")
    gone = nights.wake("2026-05-06T12:00")

    assert [(t.action, t.verdict) for t in (first, again, back, late)] == [
        ("ran", Verdict.PASS), ("nothing", None), ("nothing", None), ("ran", Verdict.PASS),
    ]  # fmt: skip
    assert [(p.planned, p.reason) for p in late.passed] == [
        ("2026-05-02T03:00:00Z", "coalesced"), ("2026-05-03T03:00:00Z", "coalesced"),
    ]  # fmt: skip
    assert (gone.action, [p.planned for p in gone.passed]) == (
        "passed",
        ["2026-05-05T03:00:00Z", "2026-05-06T03:00:00Z"],
    )
    assert [wake.status(t) for t in (first, again, late, gone)] == [0, 0, 0, 1]
    planned = [str(entry.inputs["planned"]) for entry in nights.kept()]
    assert sorted(planned) == [f"2026-05-0{day}T03:00:00Z" for day in range(1, 7)]
    assert 'vllm_runbooks_job_missed_total{name="nightly"} 4.0' in Path("n.prom").read_text("utf-8")


@pytest.mark.full
def test_a_day_with_1_000_runs_and_a_jumping_clock_loses_nothing(nights: Nights) -> None:
    """Each planned minute is in the history once, as a run or as missed; memory and open files stay the same."""
    nights.job = replace(nights.job, at="* * * * *", added="2026-05-01T00:00:00Z", metrics=None)
    chance = random.Random(1)  # noqa: S311 - repeatable
    now, ran, process = utc("2026-05-01T00:00"), 0, psutil.Process()
    sizes: list[tuple[int, int]] = []
    while ran < 1000:
        jump = chance.random()
        now += timedelta(minutes=chance.randint(-10, 0) if jump < 0.05 else chance.randint(2, 9) if jump < 0.1 else 1)
        ran += nights.wake(f"{now:%Y-%m-%dT%H:%M}").action == "ran"
        if ran in (100, 1000):
            sizes.append((process.memory_info().rss, process.num_fds()))
    planned = sorted(str(entry.inputs["planned"]) for entry in nights.kept())
    print(f"{ran} runs, {len(planned)} planned times, {now:%H:%M}, {[size >> 20 for size, _ in sizes]} MiB")

    assert len(set(planned)) == len(planned)
    assert all(utc(b[:16]) - utc(a[:16]) == timedelta(minutes=1) for a, b in pairwise(planned))
    assert now > utc("2026-05-01T16:00")
    assert sizes[-1][0] - sizes[0][0] < 16 << 20
    assert sizes[-1][1] == sizes[0][1]


@pytest.mark.parametrize(
    ("at", "nights_", "ran"),
    [
        ("30 2 * * *", ["2026-03-28T01:31", "2026-03-29T00:59", "2026-03-29T01:01", "2026-03-29T01:31"], [1, 0, 1, 0]),
        pytest.param(
            "30 2 * * *",
            ["2026-10-24T00:31", "2026-10-25T00:31", "2026-10-25T01:31", "2026-10-26T01:31"],
            [1, 1, 0, 1],
            marks=pytest.mark.slow,
        ),
        (
            "59 23 31 12 *",
            ["2026-12-31T22:58", "2026-12-31T22:59", "2026-12-31T23:04", "2027-01-01T00:01"],
            [0, 1, 0, 0],
        ),
        pytest.param(
            "0 6 29 2 *",
            ["2028-02-28T06:00", "2028-02-29T05:00", "2028-03-01T06:00"],
            [0, 1, 0],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["spring", "autumn", "the end of a year", "a leap day"],
)
def test_nights_of_berlin(nights: Nights, at: str, nights_: list[str], ran: list[int]) -> None:
    """The night without half past two, the one with two of them, and rare days."""
    nights.job = replace(nights.job, at=at, zone="Europe/Berlin", added=f"{nights_[0][:10]}T00:00:00Z")

    assert [int(nights.wake(moment).action == "ran") for moment in nights_] == ran


@pytest.mark.parametrize("overlap", list(Overlap))
def test_two_runs_of_a_job_never_overlap(nights: Nights, overlap: Overlap) -> None:
    """Due runs are recorded as skipped, or wait; two concurrent wake-ups are one run."""
    nights.job = replace(nights.job, at="*/5 * * * *", overlap=overlap)
    nights.come_to("pass", waits_for="go")
    found: list[Turn] = []
    first = threading.Thread(target=lambda: found.append(nights.wake("2026-05-01T00:05")))
    first.start()
    while not Path("in.ipynb.began").exists():
        time.sleep(0.02)
    at_once = nights.wake("2026-05-01T00:05")
    meanwhile = nights.wake("2026-05-01T00:10")
    Path("go").touch()
    first.join()
    nights.come_to("pass")
    after = nights.wake("2026-05-01T00:12")

    assert (found[0].action, at_once.action) == ("ran", "nothing")
    if overlap is Overlap.SKIP:
        assert (meanwhile.action, [p.reason for p in meanwhile.passed], wake.status(meanwhile)) == (
            "passed",
            ["overlap"],
            1,
        )
        assert after.action == "nothing"
    else:
        assert (meanwhile.action, meanwhile.passed, wake.status(meanwhile)) == ("waits", (), 0)
        assert (after.action, after.planned) == ("ran", "2026-05-01T00:10:00Z")


@pytest.mark.parametrize(
    ("told", "verdict", "reason"),
    [
        (("pass", None, {}), Verdict.PASS, "1 passed"),
        (("fail", "port.in_use", {"status": 1}), Verdict.FAIL, "(job): it is fail"),
        pytest.param(("fail", "port.in_use", {}), Verdict.FAIL, "(job): it is fail", marks=pytest.mark.slow),
        (("skipped", None, {}), Verdict.SKIPPED, "(job): it is skipped"),
        ((None, None, {}), Verdict.ERROR, "(job): no verdict was written; the last cell must call conclude()"),
        (
            ("pass", None, {"status": 1, "says": "kernel died"}),
            Verdict.ERROR,
            "(job): ended with exit status 1: kernel died",
        ),
        (
            ("pass", None, {"writes_nothing": True}),
            Verdict.ERROR,
            "(job): no verdict was written; the last cell must call conclude()",
        ),
        pytest.param(
            ("pass", None, {"seconds": 60}),
            Verdict.ERROR,
            "(job): timed out after 1 s",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("error", None, {}),
            Verdict.ERROR,
            "(job): no verdict was written; the last cell must call conclude()",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_is_assessed_by_its_verdict(
    nights: Nights, told: tuple[str | None, str | None, dict[str, Any]], verdict: Verdict, reason: str
) -> None:
    """Not by its exit; an older notebook in its folder does not count."""
    Path("out.ipynb").write_text(notebook("pass"), "utf-8")
    nights.job = replace(nights.job, timeout_s=1.0 if "seconds" in told[2] else 60.0)
    nights.come_to(told[0], told[1], **told[2])
    began = time.monotonic()
    found = nights.wake()

    assert (found.verdict, found.message) == (
        verdict,
        f"the run of 2026-05-01T03:00:00Z ended with {verdict}: {reason}",
    )
    assert nights.kept()[0].verdict is verdict
    assert time.monotonic() - began < scaled(10)
    assert found.folder is not None
    assert (Path(found.folder) / runs.OUTPUT).is_file()


@pytest.mark.slow
def test_a_killed_run_is_reported_and_the_plan_continues(nights: Nights, tmp_path: Path) -> None:
    """Killing the wake-up ends its run; the next one reports it and runs what is due."""
    nights.job = replace(nights.job, at="* * * * *", added="2026-01-01T00:00:00Z", grace_s=0.0)
    jobs.save(nights.job)
    nights.come_to("pass", seconds=600)
    process = waking()
    while not Path("in.ipynb.began").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    process.kill()
    process.communicate()
    (planned,) = [entry.inputs["planned"] for entry in nights.kept() if entry.inputs["action"] == "run"]
    nights.come_to("pass")
    same = utc(str(planned)[:-1]) + timedelta(seconds=59)
    for _ in range(600):  # its lock is free once its processes have ended
        found = nights.wake(same.replace(tzinfo=None).isoformat())
        if found.interrupted:
            break
        time.sleep(0.05)

    assert (found.action, found.interrupted, wake.status(found)) == ("nothing", (planned,), 1)
    assert found.change is not None
    assert (found.change.event, found.change.verdict) == ("worse", Verdict.INTERRUPTED)
    assert nights.wake().interrupted == ()
    (entry,) = [entry for entry in nights.kept() if entry.inputs["action"] == "run"]
    assert (entry.verdict, entry.reason) == (Verdict.INTERRUPTED, f"the run of {planned} ended without a result")
    after = nights.wake((same + timedelta(minutes=1)).replace(tzinfo=None).isoformat())
    assert (after.action, after.verdict, after.change and after.change.event) == ("ran", Verdict.PASS, "recovered")
    assert not [p for p in Path("/proc").glob("[0-9]*/environ") if _carries(p, f"{history.JOB}=nightly", tmp_path)]


def _carries(path: Path, mark: str, folder: Path) -> bool:
    try:
        held = path.read_bytes()
    except OSError:
        return False
    return mark.encode() in held and str(folder).encode() in held


@pytest.mark.slow
def test_a_wake_up_that_is_stopped_ends_its_run(nights: Nights) -> None:
    """As systemd stops it, by SIGTERM: nothing of the run is left, and it is interrupted, not failed."""
    nights.job = replace(nights.job, at="* * * * *", added="2026-01-01T00:00:00Z")
    jobs.save(nights.job)
    nights.come_to("pass", seconds=600)
    process = waking()
    while not Path("in.ipynb.began").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    process.terminate()
    said = process.communicate(timeout=30)[0].decode()

    assert (process.returncode, "ended with interrupted: (job): was stopped by SIGTERM" in said) == (1, True), said
    (entry,) = [entry for entry in nights.kept() if entry.inputs["action"] == "run"]
    assert entry.verdict is Verdict.INTERRUPTED


@pytest.mark.slow
def test_of_many_concurrent_wake_ups_one_runs(nights: Nights) -> None:
    """As processes of a timer and of a person."""
    nights.job = replace(nights.job, at=f"{utc_now():%M %H %d %m} *", added="2025-06-01T00:00:00Z")
    jobs.save(nights.job)
    nights.come_to("pass", seconds=0.5)
    found = [process.communicate(timeout=60)[0].decode() for process in [waking() for _ in range(6)]]

    assert sum("ended with pass" in said for said in found) == 1, found
    assert sum("nothing is due" in said for said in found) == 5, found
    assert [entry.inputs["action"] for entry in nights.kept()].count("run") == 1


def waking() -> subprocess.Popen[bytes]:
    """A wake-up as a process."""
    command = [sys.executable, "-m", "vllm_runbooks", "schedule", "wake", "nightly"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def utc_now() -> datetime:
    """The time to which a yearly job is set, so that it is due in this minute alone."""
    return datetime.now(tz=UTC)


def test_times_during_a_run_are_skipped_without_a_wake_up(nights: Nights) -> None:
    """Under systemd no second wake-up starts; the result is the same as with one."""
    nights.job = replace(nights.job, at="*/10 * * * *")
    nights.come_to("pass", seconds=0.1)
    ends = utc("2026-05-01T01:12")
    with history.opened(say=output.say, is_needed=True) as kept:
        clock = iter([utc("2026-05-01T01:00")] * 4)
        wake.turn(nights.job, kept, now=lambda: next(clock, ends))
    after = nights.wake("2026-05-01T01:15")

    assert (after.action, [(p.planned, p.reason) for p in after.passed]) == (
        "passed", [("2026-05-01T01:10:00Z", "overlap")],
    )  # fmt: skip


def test_a_job_that_is_always_skipped_has_never_passed(nights: Nights) -> None:
    """Nothing was checked, so an alert must be able to see it."""
    nights.come_to("skipped")
    nights.wake("2026-05-01T03:01")
    told = Path("n.prom").read_text("utf-8")

    assert f'_last_run_timestamp_seconds{{name="nightly"}} {utc("2026-05-01T03:01").timestamp()}' in told
    assert "_last_success_timestamp_seconds" not in told


def test_the_interruption_of_another_command_is_reported_by_it(nights: Nights, tmp_path: Path) -> None:
    """A wake-up ends only its own job; a supervised launch reports its own interruption."""
    begin = (
        "import sys\nfrom vllm_runbooks.history import store as history\n"
        "with history.opened(say=print) as kept:\n"
        "    kept.begin('serve', 'x', inputs={})\n"
        "    kept.begin('wake', 'other', inputs={}, job='other')\n"
        "    inputs = {'planned': '2026-05-01T03:00:00Z', 'action': 'run'}\n"
        "    kept.begin('wake', 'nightly', inputs=inputs, job='nightly')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", begin], check=True, cwd=tmp_path, env=environment)
    found = nights.wake()

    assert found.interrupted == ("2026-05-01T03:00:00Z",)
    with history.opened(say=output.say) as kept:
        assert [(entry.kind, entry.subject) for entry in kept.interrupted()] == [("serve", "x"), ("wake", "other")]


def test_without_a_history_nothing_is_run(nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that cannot be recorded would repeat at every wake-up."""
    monkeypatch.setenv(history.PLACE, str(tmp_path / "lib"))
    with pytest.raises(InputError, match="history"):
        nights.wake()

    assert not Path("out.ipynb").exists()


def test_a_reported_failure_is_not_repeated_after_catching_up(nights: Nights) -> None:
    """It is reported once, although later entries follow it."""
    nights.come_to("fail", "port.in_use", status=1)
    told = [nights.wake(f"2026-05-0{day}T03:01").change for day in (4, 5)]
    nights.come_to("pass")
    told.append(nights.wake("2026-05-06T03:01").change)

    assert [change and change.event for change in told] == ["worse", None, "recovered"]


def test_a_job_added_with_a_wrong_clock_is_reported(nights: Nights) -> None:
    """Nothing is due before that time, which would go unnoticed."""
    nights.job = replace(nights.job, added="2030-01-01T00:00:00Z")
    found = nights.wake()

    assert (found.action, wake.status(found)) == ("nothing", 1)
    assert found.notes == ("nightly: was added at 2030-01-01T00:00:00Z, in the future; add it again",)


def test_an_output_is_bounded(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its begin, its end and the omitted size are kept; its folder is private."""
    monkeypatch.setattr(runs, "_MOST_OUTPUT", 1000)
    monkeypatch.setattr(runs, "_MOST_END", 500)
    (Path("lib") / "papermill.py").write_text(
        "import sys\nfor i in range(20_000):\n    print(f'line {i:05d}', flush=i % 999 == 0)\nsys.exit(3)\n", "utf-8"
    )
    found = nights.wake()
    folder = Path(found.folder or "")
    kept = (folder / runs.OUTPUT).read_bytes()

    assert kept.startswith(b"line 00000\n")
    assert kept.endswith(b"line 19999\n")
    assert f"\n… {20_000 * 11 - 1500} bytes omitted …\n".encode() in kept
    assert len(kept) < 1600
    assert found.message.endswith("(job): line 19999")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_old_folders_of_runs_are_removed(nights: Nights) -> None:
    """The last fifty are kept, and nothing else in the folder is touched."""
    every = jobs.out(nights.job)
    for number in range(60):
        (every / f"20260101T0000{number:02d}Z").mkdir(parents=True)
        (every / f"20260101T0000{number:02d}Z" / runs.OUTPUT).write_text("", "utf-8")
    (every / "mine").mkdir()
    nights.wake()
    left = sorted(path.name for path in every.iterdir())

    assert (len(left), left[0], left[-1]) == (runs.MOST + 1, "20260101T000011Z", "mine")


# Changes and notifications


@pytest.mark.parametrize(
    ("nights_", "told"),
    [
        ("pass fail:a fail:a pass", ["", "worse", "", "recovered"]),
        ("fail:a fail:b fail:a fail:b pass fail:a", ["worse", "worse", "", "", "recovered", "worse"]),
        ("fail:a error fail:a error pass", ["worse", "worse", "", "", "recovered"]),
        ("pass skipped skipped pass", ["", "worse", "", "recovered"]),
        ("skipped skipped pass skipped", ["", "", "", "worse"]),
        ("skipped fail:a skipped", ["", "worse", "recovered"]),
        ("pass interrupted fail:a pass", ["", "worse", "worse", "recovered"]),
        ("pass pass", ["", ""]),
    ],
)
def test_a_regression_and_its_recovery_are_reported_once(nights_: str, told: list[str]) -> None:
    """A night is one verdict, and its root cause."""
    known, found = JobStanding(), []
    for number, night in enumerate(nights_.split()):
        verdict, _, cause = night.partition(":")
        known, change = changes.compare(
            known, [CheckedPart("x", Verdict(verdict), cause or None)], job="n", at=f"{number}"
        )
        found.append(change.event if change else "")

    assert found == told


def test_each_run_of_a_suite_counts() -> None:
    """A second failing runbook is news, one that fails and recovers unseen is not."""
    known = JobStanding()
    events: list[Any] = []
    for bad in ("", "a", "ab", "b", "ab", "", "b"):
        parts = [CheckedPart(name, Verdict.FAIL if name in bad else Verdict.PASS) for name in "abc"]
        known, change = changes.compare(known, parts, job="n", at=str(len(events)))
        events.append(change and (change.event, [each.subject for each in change.changed]))

    assert events == [None, ("worse", ["a"]), ("worse", ["b"]), None, None, ("recovered", ["a", "b"]), ("worse", ["b"])]


def test_a_jobs_state_survives_the_history(nights: Nights) -> None:
    """It is read back unchanged; if damaged it is unknown, without an error."""
    nights.come_to("fail", "port.in_use", status=1)
    nights.wake()
    (entry,) = nights.kept()
    known = changes.standing(entry.results["standing"])

    assert (known.reported, known.causes) == ({"(job)": Verdict.FAIL}, {"(job)": ("port.in_use",)})
    assert known.last_success is None
    assert (
        changes.standing({"reported": 3, "causes": [], "seconds": "x", "verdict": "fine", "sound": {"a": 1}})
        == JobStanding()
    )
    assert changes.standing(None) == JobStanding()


class Hook(http.server.BaseHTTPRequestHandler):
    """A webhook with configured answers, which keeps its requests."""

    answers: list[int]
    got: list[tuple[str, dict[str, Any], dict[str, str]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.append((self.path, body, dict(self.headers)))
        status = self.answers.pop(0) if self.answers else 200
        if status == 0:
            self.connection.close()
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hook]]:
    """A webhook whose address is in $HOOK."""
    kind = type("Kept", (Hook,), {"answers": [], "got": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/services/T0SECRETPATH")
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("sent", "unsent", "line"),
    [
        (("a",), (), "  webhook: 1 of 1 messages delivered"),
        (("a",), ("b",), "  webhook: 1 of 2 messages delivered"),
        ((), ("b",), "  1 messages pending; retried at the next wake-up"),
    ],
)
def test_a_wake_up_reports_what_its_webhook_accepted(sent: tuple[str, ...], unsent: tuple[str, ...], line: str) -> None:
    """How many changes were delivered, and that the others are not lost."""
    assert render.turns([Turn("nightly", "ran", "passed", sent=sent, unsent=unsent)]) == f"nightly: passed\n{line}"
    assert render.turns([Turn("nightly", "ran", "passed")]) == "nightly: passed"


def test_a_wake_up_reports_skipped_times_with_the_last_one() -> None:
    """One time individually; several with their number and the last one's reason."""
    early = MissedTime("2026-05-01T03:00:00Z", "missed", "5 planned times; too late", 5)
    late = MissedTime("2026-05-02T03:00:00Z", "overlap", "the last run goes on")
    ends = {
        (late,): "overlap: 2026-05-02T03:00:00Z: the last run goes on",
        (early,): "missed: 5 planned times up to 2026-05-01T03:00:00Z: 5 planned times; too late",
        (early, late): "overlap: 6 planned times up to 2026-05-02T03:00:00Z: the last run goes on",
    }
    for passed, end in ends.items():
        assert render.turns([Turn("nightly", "passed", "none", passed=passed)]) == f"nightly: none\n  {end}"


def test_a_webhook_receives_a_change_once(nights: Nights, hook: type[Hook]) -> None:
    """As one document with an id and without secrets."""
    nights.job = replace(nights.job, webhook_env="HOOK")
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"  # noqa: S105 - made up
    for day, (verdict, cause) in enumerate(
        [("pass", None), ("fail", "port.in_use"), ("fail", "port.in_use"), ("pass", None)], 1
    ):
        nights.come_to(verdict, cause, status=int(verdict == "fail"))
        text = Path("in.ipynb").read_text("utf-8").replace("it is fail", f"it is fail with {secret}")
        Path("in.ipynb").write_text(text, "utf-8")
        nights.wake(f"2026-05-0{day}T03:01")
        nights.wake(f"2026-05-0{day}T03:06")

    assert [(path, body["schema"], body["event"], body["verdict"], body["job"]) for path, body, _ in hook.got] == [
        ("/services/T0SECRETPATH", 2, "worse", "fail", "nightly"),
        ("/services/T0SECRETPATH", 2, "recovered", "pass", "nightly"),
    ]  # fmt: skip
    assert hook.got[0][1]["changed"][0]["root_cause"] == "port.in_use"
    assert hook.got[0][2]["Idempotency-Key"] == hook.got[0][1]["id"] != hook.got[1][1]["id"]
    kept = json.dumps([[entry.reason, entry.inputs, entry.results] for entry in nights.kept()])
    assert secret not in kept + json.dumps([body for _, body, _ in hook.got]) + Path("n.prom").read_text("utf-8")
    assert "T0SECRETPATH" not in kept


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "tries", "sent", "said"),
    [
        ([503, 200], 2, True, None),
        pytest.param([429, 500, 200], 3, True, None, marks=pytest.mark.slow),
        pytest.param([0, 200], 2, True, None, marks=pytest.mark.slow),
        ([500, 500, 500], 3, False, "the webhook returned 500"),
        ([404], 1, False, "the webhook returned 404"),
        pytest.param([302], 1, False, "the webhook returned 302", marks=pytest.mark.slow),
    ],
)
def test_a_webhook_is_retried_if_that_may_help(  # noqa: PLR0917 - a row
    nights: Nights,
    hook: type[Hook],
    answers: list[int],
    tries: int,
    sent: bool,  # noqa: FBT001 - a row
    said: str | None,
) -> None:
    """An unaccepted change is sent at the next wake-up with the same id, a rejected one later."""
    nights.job = replace(nights.job, webhook_env="HOOK")
    nights.come_to("fail", "port.in_use", status=1)
    hook.answers[:] = answers
    found = nights.wake()

    assert (len(hook.got), bool(found.sent), bool(found.unsent)) == (tries, sent, not sent)
    assert found.notes == (() if said is None else (f"nightly: {said}",))
    assert {path for path, _, _ in hook.got} == {"/services/T0SECRETPATH"}
    later = nights.wake("2026-05-01T03:06")
    assert bool(later.sent) == (answers[0] == 500)
    night = nights.wake("2026-05-02T03:01")
    assert bool(night.sent) == (answers[0] in (404, 302))
    assert len({body["id"] for _, body, _ in hook.got}) == 1


def test_a_run_does_not_see_the_webhook(nights: Nights, hook: type[Hook], monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook may print its environment, which has the job's variables except the webhook."""
    nights.job = replace(nights.job, webhook_env="HOOK")
    secrets(f"HOOK={os.environ['HOOK']}\nFROM_FILE=x\n")
    monkeypatch.delenv("HOOK")
    told = "import os\nprint(sorted(os.environ), flush=True)\n"
    (Path("lib") / "papermill.py").write_text(told, "utf-8")
    found = nights.wake()
    printed = (Path(found.folder or "") / runs.OUTPUT).read_text("utf-8")

    assert "'HOOK'" not in printed
    assert "'FROM_FILE'" in printed
    assert f"'{history.JOB}'" in printed
    assert [body["event"] for _, body, _ in hook.got] == ["worse"]


@pytest.mark.parametrize(
    "address", ["", "ftp://h/SECRET", "http://", "no address SECRET", "http://h:99999/SECRET", "http://[SECRET/"]
)
def test_a_webhooks_address_is_never_printed(address: str) -> None:
    """Its variable is."""
    with pytest.raises(InputError, match=re.escape("$HOOK")) as raised:
        reports.address(job(webhook_env="HOOK"), address)

    assert "SECRET" not in str(raised.value)


def test_a_change_is_not_lost_without_a_webhook_address(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits, and the wake-up reports it."""
    nights.job = replace(nights.job, webhook_env="HOOK")
    monkeypatch.setenv("HOOK", "ftp://h/SECRET")
    nights.come_to("fail", status=1)
    found = nights.wake()

    assert (len(found.unsent), wake.status(found)) == (1, 1)
    assert "$HOOK" in found.notes[0]
    assert "SECRET" not in repr(found)


def test_a_missing_webhook_is_reported_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system's own word."""
    monkeypatch.setattr(reports, "TIMEOUT_S", 1.0)
    with pytest.raises(reports.NotSentError, match="cannot be reached: Connection refused") as raised:
        reports.send("http://127.0.0.1:1/T0SECRETPATH", "{}", id_="x", pause=lambda _: None)

    assert "SECRET" not in str(raised.value)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40))
def test_the_text_file_is_valid_for_prometheus(subject: str) -> None:
    """For any names of runs; each metric has its help and type."""
    parser = pytest.importorskip("prometheus_client.parser")
    known = JobStanding(
        last_run="2026-05-01T03:01:00Z", last_success="2026-04-30T03:01:00Z", seconds=1.25,
        runs={subject: Verdict.FAIL}, verdict=Verdict.FAIL, missed_total=7,
    )  # fmt: skip
    text = reports.metrics_text(job(), known, utc("2026-05-02T03:00"))
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}

    assert {sample.name for family in families.values() for sample in family.samples} == {
        m.name for m in reports.METRICS.values()
    }
    assert all(family.documentation and family.type in ("gauge", "counter") for family in families.values())
    values = {(s.name, s.labels.get("verdict")): s.value for family in families.values() for s in family.samples}
    assert values["vllm_runbooks_job_last_run_timestamp_seconds", None] == utc("2026-05-01T03:01").timestamp()
    assert values["vllm_runbooks_job_verdict", "fail"] == 1.0
    assert values["vllm_runbooks_job_verdict", "pass"] == 0.0
    assert values["vllm_runbooks_job_missed_total", None] == 7.0
    assert (
        subject.isprintable() is False
        or next(iter(families["vllm_runbooks_job_run_verdict"].samples)).labels["run"] == subject
    )


# Alerts


def rules() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    data = YAML(typ="safe", pure=True).load(alerts.rules_file(catalog.serving()))
    return {rule["alert"]: rule for group in data["groups"] for rule in group["rules"]}


def expressions() -> list[str]:
    """All PromQL expressions that are written."""
    return [rule["expr"] for rule in rules().values()]


def test_alerts_use_existing_metrics() -> None:
    """Ours, those of a recorded server, and their names in older releases."""
    recorded = (Path(__file__).parents[1] / "metrics-0.32.0.txt").read_text("utf-8")
    real = set(re.findall(r"^([a-z][\w:]*)[{ ]", recorded, re.MULTILINE))
    ours = {metric.name for metric in reports.METRICS.values()}
    older = {
        f"{each.name}{'_bucket' if series.type == 'histogram' else ''}"
        for series in catalog.serving().series.values()
        for each in series.names
        if each.last is not None
    }
    named = {
        found for text in expressions() for found in re.findall(r"\b(?:vllm[:_][a-z0-9_:]+|http_requests_total)", text)
    }

    assert named - ours - real - older == set()
    assert len(named & real) >= 10
    assert not older & real


def test_every_condition_on_metrics_has_an_alert() -> None:
    """With severity, duration and fix; a more specific alert silences it."""
    measured = [each for each in catalog.serving().conditions if all(test.fact for test in each.when)]
    found = rules()

    assert len(found) == len(measured) + 4
    assert found["VllmKvPressure"]["labels"]["severity"] == "warning"
    assert found["VllmKvPressure"]["for"] == "300s"
    assert " unless " in found["VllmQueue"]["expr"]
    assert all(rule["annotations"]["summary"] and rule["annotations"]["description"] for rule in found.values())


@needs_promtool
def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    """`promtool check rules` on the file."""
    (tmp_path / "rules.yml").write_text(alerts.rules_file(catalog.serving()), "utf-8")
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout


@needs_promtool
def test_alerts_fire_as_expected(tmp_path: Path) -> None:
    """`promtool test rules`: series of a job and a server, and the resulting alerts."""
    (tmp_path / "rules.yml").write_text(alerts.rules_file(catalog.serving()), "utf-8")
    server = '{instance="s:8000"}'
    series = {
        'vllm_runbooks_job_verdict{instance="h",name="n",verdict="fail"}': "0x30 1x120",
        'vllm_runbooks_job_verdict{instance="h",name="n",verdict="pass"}': "1x30 0x120",
        'vllm_runbooks_job_next_run_timestamp_seconds{instance="h",name="n"}': "3600x150",
        'vllm_runbooks_job_timeout_seconds{instance="h",name="n"}': "600x150",
        'vllm_runbooks_job_missed_total{instance="h",name="n"}': "0x150",
        f"vllm:num_requests_waiting{server}": "0x30 9x120",
        f"vllm:num_requests_running{server}": "1x30 4x14 0 4x105",
        f"vllm:num_preemptions_total{server}": "0x30 1+1x120",
        f"vllm:kv_cache_usage_perc{server}": "0.5x30 0.99x120",
        f"vllm:generation_tokens_total{server}": "0+100x150",
        'http_requests_total{instance="s:8000",status="5xx"}': "0x150",
        'http_requests_total{instance="s:8000",status="2xx"}': "0+10x150",
    }
    asked = {
        "RunbooksJobFailing": ("32m", True), "RunbooksJobOverdue": ("90m", True), "RunbooksJobMissed": ("90m", False),
        "VllmKvPressure": ("50m", True), "VllmQueueOverload": ("46m", True), "VllmQueue": ("50m", False),
        "VllmKvNearlyFull": ("50m", False), "VllmErrors": ("50m", False), "VllmStuck": ("50m", False),
    }  # fmt: skip
    early = dict.fromkeys(asked, ("25m", False))
    written = rules()

    def expected(name: str) -> list[dict[str, Any]]:
        labels = {"severity": written[name]["labels"]["severity"]}
        labels |= {"instance": "h", "name": "n"} if name.startswith("Runbooks") else {"instance": "s:8000"}
        notes = {
            key: text.replace("{{ $labels.name }}", "n").replace("{{ $labels.instance }}", "s:8000")
            for key, text in written[name]["annotations"].items()
        }
        return [{"exp_labels": labels, "exp_annotations": notes}]

    tests = [
        {"eval_time": at, "alertname": name, "exp_alerts": expected(name) if comes else []}
        for each in (asked, early) for name, (at, comes) in each.items()
    ]  # fmt: skip
    data = {
        "rule_files": ["rules.yml"], "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": tests,
        }],
    }  # fmt: skip
    (tmp_path / "test.yml").write_text(json.dumps(data), "utf-8")
    runs_of_days = {
        'vllm_runbooks_job_last_run_timestamp_seconds{instance="h",name="n"}': "1800+1800x100",
        'vllm_runbooks_job_last_success_timestamp_seconds{instance="h",name="n"}': "1800x100",
        'vllm_runbooks_job_last_run_timestamp_seconds{instance="h",name="never"}': "1800+1800x100",
        'vllm_runbooks_job_last_run_timestamp_seconds{instance="h",name="well"}': "1800+1800x100",
        'vllm_runbooks_job_last_success_timestamp_seconds{instance="h",name="well"}': "1800+1800x100",
    }
    unpassed = expected("RunbooksJobUnpassed")[0]
    never = json.loads(
        json.dumps(unpassed).replace('"name": "n"', '"name": "never"').replace("No run of n", "No run of never")
    )
    data = {
        "rule_files": ["rules.yml"], "evaluation_interval": "30m",
        "tests": [{
            "interval": "30m",
            "input_series": [{"series": name, "values": values} for name, values in runs_of_days.items()],
            "alert_rule_test": [
                {"eval_time": "26h", "alertname": "RunbooksJobUnpassed", "exp_alerts": [never]},
                {"eval_time": "27h", "alertname": "RunbooksJobUnpassed", "exp_alerts": [unpassed, never]},
            ],
        }],
    }  # fmt: skip
    (tmp_path / "days.yml").write_text(json.dumps(data), "utf-8")
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "test.yml", "days.yml"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


# JupyterLab's scheduler


def test_a_jupyter_job_has_values_as_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """That scheduler pastes them into code; a file is named by its whole path, as the notebook runs elsewhere."""
    (tmp_path / "it's.log").write_text("x\n", "utf-8")
    status, _, err = call(
        capsys, "schedule", "add", "n", "--at", "0 3 * * 1-5", "--zone", "Europe/Berlin", "--",
        "run", "single-gpu-oom", "-p", "evidence", "it's.log", "-p", "start=0", "-p", "stop_on_fail=no",
    )  # fmt: skip
    assert (status, err) == (0, "")
    status, out, _ = call(capsys, "schedule", "write", "n", "jupyter")
    found = json.loads(out)

    assert status == 0
    assert (found["schedule"], found["timezone"], found["name"]) == ("0 3 * * 1-5", "Europe/Berlin", "n")
    assert found["parameters"] == {
        "evidence": repr(str(tmp_path / "it's.log")), "start": "0", "stop_on_fail": "False",
    }  # fmt: skip
    jobs.save(job(name="c", command=("check",)))
    assert call(capsys, "schedule", "write", "c", "jupyter")[0] == 2


def test_an_invalid_notebook_is_rejected(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a request to a server."""
    monkeypatch.setenv("TOKEN", "x")
    Path("in.ipynb").write_text("{", "utf-8")
    jobs.save(job())
    post = ["--post", "http://127.0.0.1:1", "--token-env", "TOKEN"]
    status, out, err = call(capsys, "schedule", "write", "nightly", "jupyter", *post)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "is not a notebook" in err


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (
            ["--post", "http://127.0.0.1:1", "--token-env", "TOKEN"],
            "127.0.0.1:1: cannot be reached: Connection refused",
        ),
        (
            ["--post", "http://127.0.0.1:1/?token=SECRET", "--token-env", "TOKEN"],
            "--post: is not a server address; use",
        ),
        (["--post", "ftp://h", "--token-env", "TOKEN"], "--post: is not a server address; use"),
        (["--post", "http://h:x", "--token-env", "TOKEN"], "--post: is not a server address; use"),
        (["--post", "http://127.0.0.1:1", "--token-env", "NONE"], "--token-env NONE: is not set"),
        (["--post", "http://127.0.0.1:1"], "--post and --token-env require each other and"),
        (["--now"], "--now requires both"),
    ],
)
def test_an_unreachable_server_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given_: list[str], said: str
) -> None:
    """Without its token."""
    monkeypatch.setenv("TOKEN", "SECRET")
    jobs.save(job(command=("run", "single-gpu-oom")))
    status, out, err = call(capsys, "schedule", "write", "nightly", "jupyter", *given_)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "SECRET" not in err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (said(200, b"3"), "has no runtime environment"),
        (said(200, b"[" * 100_000), "returned no JSON for GET /scheduler/runtime_environments"),
        (said(200, b"<html>"), "returned no JSON"),
        (said(200, b"{}")[:-1], "returned no JSON"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "cannot be reached: IncompleteRead"),
        (b"hello\r\n\r\n", "cannot be reached: BadStatusLine"),
        (said(302, b"", "Location: http://127.0.0.1:1/"), "returned 302 for GET /scheduler/runtime_environments"),
        (said(403, b""), "the token is rejected; check the variable set with --token-env"),
    ],
)
def test_a_server_with_an_invalid_answer_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: bytes, told: str
) -> None:
    """No answer crashes us, and none redirects the token."""
    monkeypatch.setenv("TOKEN", "SECRET")
    jobs.save(job(command=("run", "single-gpu-oom")))
    with serving(lambda connection, *_: connection.sendall(answer)) as port:
        post = ["--post", f"http://127.0.0.1:{port}", "--token-env", "TOKEN"]
        status, out, err = call(capsys, "schedule", "write", "nightly", "jupyter", *post)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert "SECRET" not in err


@pytest.mark.parametrize("made", [b"[]", b"3", b"{}", b'{"job_definition_id": 3}', b'{"job_definition_id": "a\\nb"}'])
def test_a_server_that_creates_nothing_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, made: bytes
) -> None:
    """A valid answer has an id."""
    monkeypatch.setenv("TOKEN", "SECRET")
    jobs.save(job(command=("run", "single-gpu-oom")))

    def answer(connection: socket.socket, asked: str, _: bytes) -> None:
        connection.sendall(said(200, b'[{"name": "python"}]' if asked.startswith("GET") else made))

    with serving(answer) as port:
        post = ["--post", f"http://127.0.0.1:{port}", "--token-env", "TOKEN"]
        status, out, err = call(capsys, "schedule", "write", "nightly", "jupyter", *post)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "sent no job_definition_id for POST /scheduler/job_definitions" in err


def test_a_token_is_sent_to_no_other_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a posted document, after a redirect."""
    monkeypatch.setenv("TOKEN", "SECRET")
    jobs.save(job(command=("run", "single-gpu-oom")))
    stolen: list[bytes] = []

    def elsewhere(connection: socket.socket, _: str, raw: bytes) -> None:
        stolen.append(raw)
        connection.sendall(said(200, b"[]"))

    with serving(elsewhere) as other:
        to_other = said(302, b"", f"Location: http://localhost:{other}/scheduler/runtime_environments")
        with serving(lambda connection, *_: connection.sendall(to_other)) as port:
            post = ["--post", f"http://127.0.0.1:{port}", "--token-env", "TOKEN"]
            status, _, _ = call(capsys, "schedule", "write", "nightly", "jupyter", *post)

    assert (status, stolen) == (2, [])


def _dripping(connection: socket.socket, begin: bytes) -> None:
    connection.sendall(begin)
    for _ in range(100):
        connection.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "limit_s"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 0.5), (b"HTTP/1.1 200 OK\r\nX: ", 0.1)],
    ids=["its body", "its head"],
)
def test_a_slow_server_does_not_block_us(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, begin: bytes, limit_s: float
) -> None:
    """One timeout covers the whole answer, and only the head of a webhook's answer is read."""
    monkeypatch.setattr(jupyter, "TIMEOUT_S", limit_s)
    monkeypatch.setattr(reports, "TIMEOUT_S", limit_s)
    monkeypatch.setenv("TOKEN", "x")
    jobs.save(job(command=("run", "single-gpu-oom")))
    with serving(lambda connection, *_: _dripping(connection, begin)) as port:
        began = time.monotonic()
        post = ["--post", f"http://127.0.0.1:{port}", "--token-env", "TOKEN"]
        _, _, err = call(capsys, "schedule", "write", "nightly", "jupyter", *post)
        asked = time.monotonic() - began
        try:
            reports.send(f"http://127.0.0.1:{port}/", "{}", id_="x", pause=lambda _: None)
            sent = "taken"
        except reports.NotSentError as error:
            sent = str(error)

    late = f"no answer within {limit_s:g} s"
    assert f"cannot be reached: {late}" in err
    assert sent == ("taken" if begin.endswith(b"\r\n\r\n") else f"the webhook cannot be reached: {late}")
    assert asked < scaled(2.5)
    assert time.monotonic() - began < scaled(4)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """A real JupyterLab with its scheduler; sends it a request."""
    pytest.importorskip("jupyterlab")
    pytest.importorskip("jupyter_scheduler")
    port = free_port()
    root = tmp_path / "root"
    root.mkdir()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}",
    ]  # fmt: skip
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8",
        "JUPYTER_TOKEN": "labtoken",
    }  # fmt: skip
    (tmp_path / "home").mkdir()

    def ask(path: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": "token labtoken"})
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - our own server
            return json.loads(reply.read())

    ask.port = port  # type: ignore[attr-defined]
    with (tmp_path / "lab.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + scaled(90)
            while True:
                try:
                    ask("/scheduler/runtime_environments")
                    break
                except OSError:
                    assert server.poll() is None, (tmp_path / "lab.log").read_text("utf-8")
                    assert time.monotonic() < until
                    time.sleep(0.3)
            yield ask
        finally:
            server.terminate()
            server.wait(30)


@pytest.mark.slow
def test_a_job_really_runs_in_jupyterlab(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lab: Any, tmp_path: Path
) -> None:
    """Created by our command: a passing job completes, a failing one fails, a plan has its zone."""
    monkeypatch.setenv("TOKEN", "labtoken")
    (tmp_path / "bad log.txt").write_text("OSError: [Errno 98] Address already in use\n", "utf-8")
    post = ["jupyter", "--post", f"http://127.0.0.1:{lab.port}", "--token-env", "TOKEN"]
    seen: dict[str, Any] = {}
    for name, evidence in (("good", "autoglm-3090-video-oom"), ("bad", "bad log.txt")):
        add = ["schedule", "add", name, "--at", "30 2 * * *", "--zone", "Europe/Berlin", "--"]
        assert call(capsys, *add, "run", "single-gpu-oom", "-p", "evidence", evidence)[0] == 0
        status, out, err = call(capsys, "schedule", "write", name, *post, "--now")
        assert (status, err) == (0, "")
        id_ = out.split()[-1]
        until = time.monotonic() + scaled(90)
        # "STOPPED" is also the state of a job before its process is seen.
        while time.monotonic() < until and seen.get(name, {}).get("status") not in ("COMPLETED", "FAILED"):
            time.sleep(0.5)
            seen[name] = lab(f"/scheduler/jobs/{id_}")

    assert {name: found["status"] for name, found in seen.items()} == {"good": "COMPLETED", "bad": "FAILED"}
    status, out, _ = call(capsys, "schedule", "write", "good", *post)
    planned = lab(f"/scheduler/job_definitions/{out.split()[-1]}")
    assert (planned["schedule"], planned["timezone"], planned["active"]) == ("30 2 * * *", "Europe/Berlin", True)


@pytest.mark.slow
def test_a_job_of_each_kind_is_run_and_has_its_verdict(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite, a runbook and a real papermill run, by their results, with JUnit XML if any."""
    monkeypatch.delenv("PYTHONPATH")
    shutil.copy(folders.runbooks_dir() / "single-gpu-oom.ipynb", "book.ipynb")
    Path("bad.log").write_text("OSError: [Errno 98] Address already in use\n", "utf-8")
    for number, (command, verdict, subject, has_junit) in enumerate([
        (("check", "--only", "tiny-cpu-served"), Verdict.PASS, "single-gpu-oom on tiny-cpu-served", True),
        (("run", "single-gpu-oom", "-p", "evidence", "bad.log"), Verdict.FAIL, "single-gpu-oom", True),
        (("run", "single-gpu-oom", "-p", "evidence", "none.log"), Verdict.ERROR, "(job)", False),
        (("probe", "http://127.0.0.1:1"), Verdict.FAIL, "http://127.0.0.1:1", False),
        (("papermill", "book.ipynb", "out.ipynb"), Verdict.PASS, "autoglm-3090-video-oom", False),
        (("papermill", "book.ipynb", "out.ipynb", "-p", "evidence", "bad.log"), Verdict.FAIL, "(job)", False),
    ]):  # fmt: skip
        nights.job = replace(nights.job, name=f"kind-{number}", command=command, timeout_s=120.0)
        found = nights.wake()
        assert (found.verdict, [each.subject for each in found.parts]) == (verdict, [subject]), found
        assert (found.junit is not None) == has_junit
        with history.opened(say=output.say) as kept:
            of_job = {entry.kind for entry in kept.entries(job=nights.job.name)}
        assert WAKE in of_job
