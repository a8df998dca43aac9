"""Reading only a part of a running server's log, by its printed times."""

from __future__ import annotations

import pytest

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.printed import period
from vllm_runbooks.core.records import ServerRun
from vllm_runbooks.reading import startup_log

SERVED = (folders.cases_dir() / "tiny-cpu-served" / "startup.log").read_text("utf-8")
READY = "Application startup complete."
STARTUP = SERVED[: SERVED.index(READY)].replace("11-20 07:", "11-20 19:") + READY + "\n"
STATISTICS = (
    "(APIServer pid=6396) INFO 11-20 {}:00 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: {}.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, "
    "Prefix cache hit rate: 0.0%"
)
MINUTES = [f"{minute // 60:02}:{minute % 60:02}" for minute in range(20 * 60, 22 * 60)]
FAILED = """\
(EngineCore pid=6500) ERROR 11-20 22:00:01 [core.py:1108] Traceback (most recent call last):
(EngineCore pid=6500) ERROR 11-20 22:00:01 [core.py:1108]   File "/opt/vllm/v1/engine/core.py", line 9, in run
(EngineCore pid=6500) ERROR 11-20 22:00:01 [core.py:1108] OSError: [Errno 28] No space left on device
"""
LOG = STARTUP + "\n".join(STATISTICS.format(minute, n) for n, minute in enumerate(MINUTES, 1)) + "\n" + FAILED


def read(text: str, since: str | None = None, until: str | None = None) -> list[ServerRun]:
    evidence = Evidence((Document("a.log", text),), period=period(since, until))
    return startup_log.read(evidence, catalog.load_catalog())


def test_only_the_lines_of_a_period_count_after_the_startup() -> None:
    """Statistics outside of it are ignored, also those that are read in bulk; the startup's facts stay."""
    [whole], [part] = read(LOG), read(LOG, "11-20 20:30", "2026-11-20T21:10:00")

    assert [sample.generation_tokens_per_s for sample in part.throughput] == list(range(31, 72))
    assert {sample.time for sample in part.throughput} == {f"11-20 {minute}:00" for minute in MINUTES[30:71]}
    assert len(whole.throughput) == len(MINUTES)
    assert (part.release, part.facts.kv_cache_tokens) == (whole.release, whole.facts.kv_cache_tokens)


@pytest.mark.parametrize("zone", ["Z", ".123456Z", "+00:00", " +0000", "-00", ",5"])
def test_a_time_in_utc_is_read(zone: str) -> None:
    """As written: the log's own times have no zone."""
    assert period(f"2026-11-20T20:30:00{zone}", None) == period("11-20 20:30", None)


def test_an_error_outside_the_period_is_no_finding() -> None:
    """An error before or after it is ignored; one at its end is found."""
    hits = {name for start in read(LOG, until="11-20 22:00:01") for name in (h.symptom for h in start.hits)}
    assert "storage.disk_full" in hits

    later = LOG + STATISTICS.format("22:30", 1) + "\n"
    for ends in ({"until": "11-20 22:00:00"}, {"since": "11-20 22:00:02"}):
        [start] = read(later, **ends)
        assert "storage.disk_full" not in {hit.symptom for hit in start.hits}


def test_a_launch_after_the_period_is_left_out() -> None:
    """The last launch is then the one that ran in the period."""
    assert len(read(LOG + STARTUP.replace("pid=", "pid=9"))) == 2
    second = STARTUP.replace("pid=", "pid=9").replace("11-20", "11-21")
    assert len(read(LOG + second, until="11-20 23:00")) == 1


@pytest.mark.parametrize(
    ("since", "until", "says"),
    [
        (None, "11-19 09:00", "a.log: --until is before its first dated line"),
        ("11-22 09:00", None, r"a.log: --since is after its last dated line \(11-2"),
    ],
)
def test_a_period_outside_of_the_log_is_rejected(since: str | None, until: str | None, says: str) -> None:
    """Although statistics are read in bulk; the answer would be that of the startup alone."""
    with pytest.raises(InputError, match=says):
        read(LOG[LOG.index("(APIServer pid=6396) INFO 11-20 20:00") :], since, until)


def test_a_period_over_new_year_is_read() -> None:
    """Prefixes have no year: January follows December."""
    log = STARTUP.replace("11-20", "12-31") + STATISTICS.replace("11-20", "01-01").format("00:30", 7) + "\n"

    [start] = read(log, "12-31 23:00", "01-01 01:00")
    assert [sample.generation_tokens_per_s for sample in start.throughput] == [7.0]


@pytest.mark.parametrize(
    ("since", "until", "says"),
    [
        ("yesterday", None, "--since: 'yesterday' is not a date and time; use a form such as 11-20 09:40"),
        (None, "09:40", "--until: '09:40' is not a date and time"),
        ("13-40 09:40", None, "--since: '13-40 09:40' is not a date and time"),
        *(
            (f"2026-11-20T20:30{offset}", None, f"--since: '2026-11-20T20:30{offset}' has a UTC offset, but")
            for offset in ("+08:00", " +0800", "-05", "+00:30")
        ),
        ("11-20 10:00", "11-20 09:00", "--until: 11-20 09:00 is before --since 11-20 10:00; swap them"),
    ],
)
def test_a_wrong_time_is_named(since: str | None, until: str | None, says: str) -> None:
    """With its option and the form that is expected."""
    with pytest.raises(InputError) as raised:
        period(since, until)
    assert str(raised.value).startswith(says)


def test_a_log_without_dates_has_no_period() -> None:
    """The answer says so instead of ignoring nothing or everything."""
    with pytest.raises(InputError, match=r"a\.log: no line has a date; --since and --until need one"):
        read("OSError: [Errno 28] No space left on device\n", since="11-20 09:40")
