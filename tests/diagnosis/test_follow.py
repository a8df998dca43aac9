"""A growing log has interim answers on standard error and the final one on standard output."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pace import scaled
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.records import Outcome
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources

LOG = folders.cases_dir() / "tiny-cpu-served" / "startup.log"
FAILED = folders.cases_dir() / "tiny-cpu-port-in-use" / "startup.log"

ROUTINE = (
    "(APIServer pid=1) INFO 11-20 09:{:02}:{:02} [loggers.py:123] Engine 000: Avg prompt throughput: {:.1f} tokens/s,"
    " Avg generation throughput: {:.1f} tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%\n"
)


def follow(name: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vllm_runbooks", "diagnose", "--follow", name, *more]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


@pytest.mark.slow
def test_a_pipe_has_an_answer_at_every_pause_and_at_its_end() -> None:
    """Standard error has place and phase; the document on standard output is the last."""
    lines = LOG.read_text("utf-8").splitlines(keepends=True)
    running = follow("-", "--format", "json")
    assert running.stdin is not None
    assert running.stderr is not None
    loaded = next(number for number, line in enumerate(lines) if "KV cache size" in line)
    running.stdin.write("".join(lines[: loaded + 1]))
    running.stdin.flush()
    assert running.stderr.readline().rstrip() == f"line {loaded + 1}: size the KV cache; no problems so far"
    said, heard = running.communicate("".join(lines[loaded + 1 :]), timeout=60)

    answer = json.loads(said)
    assert (answer["outcome"], answer["root_cause"], running.returncode) == ("running", None, 0)
    assert answer["files"] == ["-"]
    assert all(line.startswith("line ") for line in heard.splitlines())


@pytest.mark.slow
def test_a_file_is_followed_until_the_user_interrupts(tmp_path: Path) -> None:
    """Appended lines count; Ctrl-C prints the answer without a traceback."""
    log = tmp_path / "startup.log"
    text = FAILED.read_text("utf-8")
    log.write_text(text[: len(text) // 4], encoding="utf-8")
    running = follow(str(log))
    assert running.stderr is not None
    assert "no problems so far" in running.stderr.readline()
    with log.open("a", encoding="utf-8") as file:
        file.write(text[len(text) // 4 :])
    assert "port.in_use" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    said, heard = running.communicate(timeout=30)

    assert running.returncode == 1
    assert "port.in_use" in said
    assert "Traceback" not in heard


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--follow"], "pass a log file, a recorded case, or -"),
        (["--follow", "a.log", "b.log"], "--follow accepts only one growing log"),
        (["--follow", "-", "--start", "1"], "--follow accepts only one growing log"),
        (["--follow", "nowhere.log"], "nowhere.log: cannot be read: No such file"),
    ],
)
def test_input_that_cannot_be_followed_is_rejected(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with no output."""
    from vllm_runbooks import cli

    assert cli.run(["diagnose", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_a_pipe_without_text_is_rejected() -> None:
    """As an empty file is."""
    running = follow("-")
    _, heard = running.communicate("", timeout=30)

    assert running.returncode == 2
    assert heard == "vllm-runbooks: -: is empty; use the log of a vLLM launch\n"


@pytest.mark.slow
def test_following_a_whole_log_gives_the_same_answer() -> None:
    """The pieces in which a text arrives change nothing."""
    started = time.monotonic()
    running = follow("-", "--format", "json")
    said, _ = running.communicate(LOG.read_text("utf-8"), timeout=60)
    whole = diagnosing.diagnose(sources.load(str(LOG)))

    followed = json.loads(said)
    assert followed["outcome"] == whole.outcome == Outcome.RUNNING
    assert followed["facts"]["kv_cache_tokens"] == whole.facts.kv_cache_tokens
    assert time.monotonic() - started < scaled(60)


@pytest.mark.slow
@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_restarted_file_is_followed(tmp_path: Path, *, is_renamed: bool) -> None:
    """Emptied at a restart, or replaced by a log rotation: the new log is answered for."""
    log = tmp_path / "startup.log"
    log.write_text(FAILED.read_text("utf-8"), encoding="utf-8")
    running = follow(str(log))
    assert running.stderr is not None
    assert "port.in_use" in running.stderr.readline()
    if is_renamed:
        log.rename(tmp_path / "startup.log.1")
    log.write_text(LOG.read_text("utf-8"), encoding="utf-8")
    assert "running" in running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    said, _ = running.communicate(timeout=30)

    assert running.returncode == 0
    assert "RUNNING" in said


@pytest.mark.full
def test_a_log_that_grows_by_a_gibibyte_is_followed_in_flat_memory(tmp_path: Path) -> None:
    """Nothing of it is lost: the answer has the error that follows."""
    log = tmp_path / "startup.log"
    log.write_text(LOG.read_text("utf-8"), encoding="utf-8")
    chance = random.Random(1)  # noqa: S311 - repeatable
    running = follow(str(log), "--format", "json")
    assert running.stderr is not None
    running.stderr.readline()
    watched, sizes, written = psutil.Process(running.pid), [0], 0
    with log.open("a", encoding="utf-8") as file:
        while written < 1 << 30:
            figures = [(chance.randint(0, 59), chance.randint(0, 59), chance.random() * 9e3) for _ in range(20_000)]
            block = "".join(ROUTINE.format(minute, second, rate, rate / 7) for minute, second, rate in figures)
            written += file.write(block)
            file.flush()
            while log.stat().st_size - read_of(watched) > 64 << 20:
                time.sleep(0.05)
            sizes.append(watched.memory_info().rss)
        file.write(FAILED.read_text("utf-8").splitlines(keepends=True)[-1])
    while read_of(watched) < log.stat().st_size:
        time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=scaled(120))
    first, most = max(sizes[: len(sizes) // 4]), max(sizes)
    print(f"{written >> 20} MiB; {first >> 20} MiB after a quarter, {most >> 20} MiB at most")

    assert json.loads(said)["files"] == ["startup.log"]
    assert most - first < 16 << 20


def read_of(process: psutil.Process) -> int:
    """Characters that a process has read from files."""
    return int(process.io_counters().read_chars)
