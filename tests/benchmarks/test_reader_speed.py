"""Cost of reading a log: compared with a naive reader, in memory, by size and number of patterns.

The input is fixed: output of a running server between a startup and a failure, where one line in six
matches the catalog. Times are processor seconds; ratios are medians of several runs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from costs import MIB, START, Run, chatter, measured, reader_of, seconds, write
from figures import Figures
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.reading import startup_log

pytestmark = pytest.mark.benchmark

ROUNDS = 3


def test_the_reader_is_ten_times_as_fast_as_a_search_for_each_pattern_and_line(figures: Figures) -> None:
    """Reading with the whole catalog costs at most a tenth of one `re.search` per pattern and line."""
    shelf = catalog.load_catalog()
    searches = [re.compile(scan.expand(pattern), re.ASCII).search for pattern in shelf.patterns.patterns]
    text = START + chatter(10_000)
    part = (START + chatter(500)).splitlines()
    evidence = Evidence((Document("a.log", text),))

    def naive() -> int:
        return sum(1 for line in part for search in searches if search(line))

    def read() -> object:
        return startup_log.read(evidence, shelf)

    read()
    ratios = []
    for _ in range(ROUNDS):
        by_naive = seconds(naive) / sum(len(line) + 1 for line in part)
        ratios.append(by_naive / (seconds(read) / len(text)))

    figures.note("log reader: MB per second of CPU time", len(text) / seconds(read) / 1e6, form=".1f")
    what = f"log reader: CPU time of `re.search` for each of {len(searches)} patterns / CPU time of the reader"
    figures.note(what, ratios, at_least=10, form=".1f")


def test_routine_and_plain_lines_cost_a_multiple_of_a_search_for_one_word(figures: Figures) -> None:
    """Statistics, access and request lines, and long runs of plain lines: their cost is compared with a loop."""
    shelf = catalog.load_catalog()
    lines = [line for line in chatter(30_000).splitlines(keepends=True) if " INFO" in line]
    statistics, requests = (
        "".join(line for line in lines if (" request " in line) is is_request) for is_request in (False, True)
    )
    logs = {
        "statistics and access lines": (START + statistics * (48 * MIB // len(statistics)), 8),
        "request lines": (START + requests * (48 * MIB // len(requests)), 8),
        "blank lines": ("\n" * 300_000, 15),
        "equal lines": ("a\n" * 300_000, 15),
        "lists of numbers": ("".join(f"{number}\n" for number in range(300_000)), 20),
    }
    for kind, (text, limit) in logs.items():
        evidence = Evidence((Document("a.log", text),))

        def loop(text: str = text) -> int:
            return sum("disk_full" in line for line in text.splitlines())

        def read(evidence: Evidence = evidence) -> object:
            redact.forget()
            return startup_log.read(evidence, shelf)

        read()
        ratios = [seconds(read) / seconds(loop) for _ in range(ROUNDS)]
        figures.note(f"log reader: MB per second of CPU time, {kind}", len(text) / seconds(read) / 1e6, form=".1f")
        figures.note(f"log reader: CPU time of {kind} / of a search for one word", ratios, at_most=limit, form=".1f")


def test_the_number_of_patterns_hardly_matters(figures: Figures) -> None:
    """Four hundred patterns cost at most a quarter more than fifty with the same matches."""
    evidence = Evidence((Document("a.log", chatter(20_000)),))
    few, many = reader_of(evidence, 50), reader_of(evidence, 400)
    ratios = [seconds(many) / seconds(few) for _ in range(ROUNDS)]

    figures.note("log reader: CPU time with 400 patterns / with 50", ratios, at_most=1.25)


def diagnosed(log: Path) -> tuple[Run, dict[str, Any]]:
    """Diagnose a file in a separate process, and measure it."""
    out = log.with_suffix(".json")
    run = measured(sys.executable, "-m", "vllm_runbooks", "diagnose", "--format", "json", str(log), out=out)
    assert run.status == 1
    return run, json.loads(out.read_text("utf-8"))


FULL = pytest.mark.full


@pytest.mark.parametrize("sizes", [(1, 4, 16), pytest.param((1, 32, 1024), marks=FULL)], ids=["16 MiB", "1 GiB"])
def test_cost_is_linear_and_memory_bounded(sizes: tuple[int, ...], tmp_path: Path, figures: Figures) -> None:
    """A MiB more costs the same at every size; the whole process stays below 200 MB; the end of the log is found."""
    log = tmp_path / "a.log"
    write(log, 4096)
    base = min(diagnosed(log)[0].cpu_seconds for _ in range(3))
    rates = []
    for size in sizes:
        write(log, size * MIB)
        run, answer = min((diagnosed(log) for _ in range(2 if size < 100 else 1)), key=lambda done: done[0].cpu_seconds)
        rates.append((run.cpu_seconds - base) / size)
        assert (answer["outcome"], answer["root_cause"]["class"]) == ("failed", "storage.disk_full")
        figures.note("diagnose: memory for logs of any size, MiB", run.resident_mib, at_most=200, form=".0f")
    grown = max(rates[1:]) / min(rates[1:])
    figures.note(
        f"log reader: CPU time per MiB of a log of {sizes[1]} and of {sizes[2]} MiB, larger / smaller",
        grown,
        at_most=1.5,
    )


@pytest.mark.parametrize("size", [8, pytest.param(200, marks=FULL)])
@pytest.mark.parametrize("separator", [" ", "\r", ""], ids=["blanks", "returns", "glued"])
def test_a_file_without_a_newline_is_read(size: int, separator: str, tmp_path: Path, figures: Figures) -> None:
    """Of any length in bounded memory, and its end is found all the same."""
    log = tmp_path / "a.log"
    write(log, size * MIB, separator=separator)
    run, answer = diagnosed(log)

    figures.note("diagnose: memory for logs of any size, MiB", run.resident_mib, at_most=200, form=".0f")
    assert answer["outcome"] == "failed"
