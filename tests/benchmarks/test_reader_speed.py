"""Cost of reading a log: compared with a naive reader, in memory, by size and number of patterns.

The input is fixed: output of a running server between a startup and a failure, where one line in six
matches the catalog. Times are processor seconds; ratios are medians of several runs.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from figures import Figures
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import symptoms as catalog_symptoms
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.reading import startup_log

pytestmark = pytest.mark.benchmark

ROUNDS = 5
MIB = 1 << 20
START = (folders.cases_dir() / "tiny-cpu-served" / "startup.log").read_text("utf-8")
STAMP = "11-20 09:{:02}:{:02}"
RAISED = """\
Traceback (most recent call last):
  File "/opt/vllm/v1/engine/core.py", line 1099, in run_engine_core
  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 3311, in execute_model
OSError: [Errno 28] No space left on device"""
END = "\n".join(
    [
        *(f"(EngineCore pid=78) ERROR 11-20 10:00:01 [core.py:1108] {line}" for line in RAISED.splitlines()),
        *(f"(EngineCore pid=78) {line}" for line in RAISED.splitlines()),
        "(APIServer pid=77) ERROR 11-20 10:00:02 [async_llm.py:500] AsyncLLM output_handler failed.",
        "",
    ]
)
WORDS = ("server", "asked", "summary", "what", "each", "pages", "says", "memory", "time", "few", "words", "of", "the")
PERIODIC = (
    "Avg prompt throughput: {0}, Avg generation throughput: {0}, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%"
)


def chatter(count: int) -> str:
    """This many lines of a running server: periodic, HTTP, logged requests, debugging, warnings."""
    chance = random.Random(20261120)  # noqa: S311 - repeatable, not secret
    lines = []
    for n in range(count):
        server, engine = "(APIServer pid=77) INFO", "(EngineCore pid=78)"
        at = STAMP.format(n // 60 % 60, n % 60)
        said = " ".join(chance.choices(WORDS, k=12))
        kind = chance.random()
        if kind < 0.05:
            periodic = PERIODIC.format(f"{chance.random() * 90:.1f} tokens/s")
            lines.append(f"{server} {at} [loggers.py:259] Engine 000: {periodic}")
        elif kind < 0.15:
            lines.append(f'{server}:     10.0.1.{n % 250}:{n % 60000} - "POST /v1/chat HTTP/1.1" 200 OK')
        elif kind < 0.16:
            lines.append(f"{engine} WARNING {at} [scheduler.py:{n % 900}] a step took {n} ms")
        elif kind < 0.5:
            sampling = f"params: SamplingParams(n=1, temperature=0.7, max_tokens={n})"
            lines.append(f"{server} {at} [logger.py:41] Added request cmpl-{n:032x}-0: {said!r}, {sampling}.")
        else:
            lines.append(f"{engine} DEBUG {at} [core.py:{n % 900}] EngineCore loop active: {said[:40]}.")
    return "\n".join(lines) + "\n"


def seconds(function: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    begun = time.process_time()
    function()
    return time.process_time() - begun


def test_the_reader_is_ten_times_as_fast_as_a_search_for_each_pattern_and_line(figures: Figures) -> None:
    """Reading with the whole catalog costs at most a tenth of one `re.search` per pattern and line."""
    shelf = catalog.load_catalog()
    searches = [re.compile(scan.expand(pattern), re.ASCII).search for pattern in shelf.patterns.patterns]
    text = START + chatter(20_000)
    part = (START + chatter(1500)).splitlines()
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


def test_routine_and_equal_lines_cost_a_multiple_of_a_search_for_one_word(figures: Figures) -> None:
    """Statistics, access and request lines, and long runs of equal lines: their cost is compared with a loop."""
    shelf = catalog.load_catalog()
    lines = [line for line in chatter(150_000).splitlines(keepends=True) if " INFO" in line]
    logs = {
        "statistics and access lines": (START + "".join(line for line in lines if "SamplingParams" not in line), 60),
        "request lines": (START + "".join(line for line in lines if "SamplingParams" in line), 120),
        "blank lines": ("\n" * 300_000, 30),
        "equal lines": ("a\n" * 300_000, 30),
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
        figures.note(f"log reader: CPU time of {kind} / of a search for one word", ratios, at_most=limit, form=".0f")


def test_the_number_of_patterns_hardly_matters(figures: Figures) -> None:
    """Four hundred patterns cost at most a quarter more than fifty with the same matches."""
    shelf = catalog.load_catalog()
    text = chatter(20_000)
    part = "\n".join(text.splitlines()[:400])
    lines = tuple(line for line in shelf.lines if scan.PatternSet(line.patterns).find(part))
    evidence = Evidence((Document("a.log", text),))

    def reader(count: int) -> Callable[[], object]:
        chosen = catalog_symptoms.Catalog({}, lines)
        for symptom in shelf.symptoms.values():
            if len(chosen.patterns.patterns) < count and not symptom.companions:
                chosen = catalog_symptoms.Catalog({**chosen.symptoms, symptom.id: symptom}, lines)
        assert count <= len(chosen.patterns.patterns) < count * 1.2
        startup_log.read(evidence, chosen)
        return lambda: startup_log.read(evidence, chosen)

    few, many = reader(50), reader(400)
    ratios = [seconds(many) / seconds(few) for _ in range(ROUNDS)]

    figures.note("log reader: CPU time with 400 patterns / with 50", ratios, at_most=1.25)


class Run(NamedTuple):
    """A diagnosis in a separate process."""

    cpu_seconds: float
    resident_mib: float
    answer: dict[str, object]


def diagnosed(log: Path) -> Run:
    """Diagnose a file in a separate process, and measure it."""
    with log.with_suffix(".json").open("wb") as out:
        command = [sys.executable, "-m", "vllm_runbooks", "diagnose", "--format", "json", str(log)]
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *command], stdout=out, stderr=subprocess.PIPE, check=True, timeout=900
        )
    status, cpu_seconds, resident_kib = json.loads(done.stderr)
    assert status == 1
    return Run(cpu_seconds, resident_kib / 1024, json.loads(log.with_suffix(".json").read_text("utf-8")))


_MEASURED = """
import json, os, subprocess, sys
running = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(running.pid, 0)
json.dump([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss], sys.stderr)
"""
"""Run from a small process: to a child of this one Linux would count the memory that this one has."""


def write(log: Path, size: int, *, separator: str = "\n") -> None:
    """Write a launch, server output up to this size, and a failure."""
    block = chatter(7000).replace("\n", separator)
    with log.open("w", encoding="utf-8") as file:
        written = file.write(START.replace("\n", separator))
        while written < size - len(END):
            written += file.write(block[: size - len(END) - written])
        file.write(separator + END.replace("\n", separator))


FULL = pytest.mark.full


@pytest.mark.parametrize("sizes", [(1, 8, 32), pytest.param((1, 32, 1024), marks=FULL)], ids=["32 MiB", "1 GiB"])
def test_cost_is_linear_and_memory_bounded(sizes: tuple[int, ...], tmp_path: Path, figures: Figures) -> None:
    """A MiB more costs the same at every size; the whole process stays below 200 MB; the end of the log is found."""
    log = tmp_path / "a.log"
    write(log, 4096)
    base = min(diagnosed(log).cpu_seconds for _ in range(3))
    rates = []
    for size in sizes:
        write(log, size * MIB)
        run = min((diagnosed(log) for _ in range(3 if size < 100 else 1)), key=lambda run: run.cpu_seconds)
        rates.append((run.cpu_seconds - base) / size)
        cause = run.answer["root_cause"]
        assert isinstance(cause, dict)
        assert (run.answer["outcome"], cause["class"]) == ("failed", "storage.disk_full")
        figures.note("diagnose: memory for logs of any size, MiB", run.resident_mib, at_most=200, form=".0f")
    grown = max(rates[1:]) / min(rates[1:])
    figures.note(
        f"log reader: CPU time per MiB of a log of {sizes[1]} and of {sizes[2]} MiB, larger / smaller",
        grown,
        at_most=1.5,
    )


@pytest.mark.parametrize("size", [24, pytest.param(200, marks=FULL)])
@pytest.mark.parametrize("separator", [" ", "\r", ""], ids=["blanks", "returns", "glued"])
def test_a_file_without_a_newline_is_read(size: int, separator: str, tmp_path: Path, figures: Figures) -> None:
    """Of any length in bounded memory, and its end is found all the same."""
    log = tmp_path / "a.log"
    write(log, size * MIB, separator=separator)
    run = diagnosed(log)

    figures.note("diagnose: memory for logs of any size, MiB", run.resident_mib, at_most=200, form=".0f")
    assert run.answer["outcome"] == "failed"
