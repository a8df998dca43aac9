"""Routine lines are read in bulk, and nothing that is known of a launch changes by it."""

from __future__ import annotations

import random
import re
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from test_startup_log import mutated
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import ServerRun, Throughput
from vllm_runbooks.core.redaction import redact
from vllm_runbooks.core.scan import PatternSet
from vllm_runbooks.reading import startup_log
from vllm_runbooks.reading.startup_log import routine

LOGS = sorted(folders.cases_dir().rglob("*.log"))
PROMPTS = (
    "a question",
    "my password: hunter2xyz9 and more",
    "ERROR 11-20 10:00:00 [core.py:9] EngineCore failed to start.",
    "CUDA out of memory",
    '"POST /v1/chat HTTP/1.1" 200 OK',
    "(EngineCore pid=9) gone",
    "key\\rvalue",
)
REQUESTS = ("cmpl-{0:032x}-0", "chatcmpl-{0:032x}", "cmpl-{0}", "token=gorilla{0}xy")
"""Ids as vLLM makes them, and as a client may choose them."""
PRINTED = (
    "Received request {0}: prompt: {1!r}",
    "Received request {0}: prompt: {1!r}",
    "Generated response {0} (streaming complete): output: {1!r}",
    "Request {0} details: prompt: {1!r}",
    "Request {0} JSON body: {{'prompt': {1!r}}}",
)
CARRIERS = ("", "", "", "2026-11-20T10:00:00.123456Z ", "vllm-1  | ", "2026-11-20 10:00:00 ")
NOT_ROUTINE = ("ERROR", "pid=9", "hf-", "503")
"""Parts of the lines of `routine_line` that are read one by one."""
SERVER = "(APIServer pid=77) "
PROCESSES = (SERVER, SERVER, "", "\x1b[1;36m(APIServer pid=77)\x1b[0;0m ", "(ApiServer_1 pid=8) ")
OTHER = (
    "(EngineCore pid=78) DEBUG 11-20 10:00:00 [core.py:1] EngineCore loop active.",
    "(APIServer pid=77) INFO 11-20 10:00:01 [api_server.py:5] vLLM API server version 0.19.0",
    "(APIServer pid=80) INFO 11-20 10:00:01 [api_server.py:5] vLLM API server version 0.19.0",
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/engine/core.py", line 10, in step',
    "ValueError: no",
    "Exception in ASGI application",
    "(EngineCore pid=78) ERROR 11-20 10:00:01 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory.",
    "INFO:     Application startup complete.",
    "",
    "hf_abcdefghijklmnopqrstuv",
)


def routine_line(
    chance: random.Random,
    *,
    carriers: Sequence[str] = CARRIERS,
    processes: Sequence[str] = PROCESSES,
    sources: Sequence[int] = (259, 127),
) -> str:
    """One line as a busy server prints it, with a carrier's prefix now and then."""
    number = chance.randrange(60)
    logger = f"INFO 11-20 10:{number:02d}:00 [loggers.py:{chance.choice(sources)}] "
    prefix = chance.choice(carriers) + chance.choice(processes)
    kind = chance.random()
    if kind < 0.3:
        rate = chance.choice(("0.0", f"{chance.random() * 900:.1f}"))
        preempted = chance.choice(("", "", f"Preemptions: {number}, "))
        return (
            f"{prefix}{logger}Engine 000: Avg prompt throughput: {rate} tokens/s, "
            f"Avg generation throughput: {rate} tokens/s, "
            f"Running: {number} reqs, Waiting: 0 reqs, {preempted}"
            f"GPU KV cache usage: {chance.choice((0.1, 99.9, 100.0))}%, "
            "Prefix cache hit rate: 0.0%"
        )
    if kind < 0.5:
        return f'{prefix}INFO:     10.0.0.1:{number} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    if kind < 0.6:
        return f'{prefix}INFO:     10.0.0.1:{number} - "GET /health HTTP/1.1" {chance.choice((200, 200, 503))} OK'
    if kind < 0.7:
        return f"{prefix}{logger}Added request {chance.choice(('chatcmpl', 'cmpl', 'hf'))}-{number:032x}-0."
    request = chance.choice(REQUESTS).format(number)
    printed = chance.choice(PRINTED).format(request, chance.choice(PROMPTS))
    return f"{prefix}{logger}{printed}, params: SamplingParams(n=1)"


def busy(log: str, seed: int, *, length: int = 200) -> str:
    """A log with runs of this many routine lines, and lines that interrupt them, at random places."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    lines = log.splitlines()
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(lines) + 1)
        processes, sources = chance.choice(((PROCESSES, (259, 127)), ((SERVER,), (259,)), (("",), (259,))))
        some = [routine_line(chance, processes=processes, sources=sources) for _ in range(chance.choice((1, 3, 40)))]
        run = [chance.choice(OTHER) if chance.random() < 0.02 else chance.choice(some) for _ in range(length)]
        lines[at:at] = run
    end = chance.choice(("\n", "\n", "\r\n"))
    return end.join(lines) + chance.choice(("", end))


def read(text: str, piece: int) -> list[ServerRun]:
    def pieces() -> Iterator[str]:
        return (text[start : start + piece] for start in range(0, len(text), piece))

    redact.forget()
    return startup_log.read(Evidence((Document("a.log", pieces),)), catalog.load_catalog())


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_a_log_with_routine_lines_is_read_as_line_by_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fact, finding and line number is the same, wherever the runs of routine lines are."""
    monkeypatch.setattr(routine, "_BLOCK", 9000)
    text = busy(path.read_text("utf-8"), len(path.parent.name))
    in_bulk = read(text, 4000)
    monkeypatch.setattr(routine.RoutineLines, "skim", lambda _self, pieces: pieces)
    assert in_bulk == read(text, 4000)


SEEDS = 5000


@pytest.mark.parametrize(
    "seeds",
    [range(8), *(pytest.param(range(first, first + 104), marks=pytest.mark.full) for first in range(8, SEEDS, 104))],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_a_damaged_log_with_routine_lines_is_read_as_line_by_line(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is cut, spliced, overwritten or glued together, and however the text arrives."""
    texts = [path.read_text("utf-8")[:20_000] for path in LOGS]
    skim = routine.RoutineLines.skim
    for seed in seeds:
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        text = mutated(chance, busy(chance.choice(texts), seed, length=60), busy(chance.choice(texts), seed, length=60))
        piece = chance.choice((700, 4000, 1 << 18))
        monkeypatch.setattr(routine, "_BLOCK", chance.choice((500, 9000, 1 << 20)))
        monkeypatch.setattr(routine.RoutineLines, "skim", skim)
        in_bulk = read(text, piece)
        monkeypatch.setattr(routine.RoutineLines, "skim", lambda _self, pieces: pieces)
        assert in_bulk == read(text, piece), seed


@pytest.mark.parametrize("block", [1 << 20, 9000])
def test_a_generated_log_of_a_server_is_read_as_line_by_line(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a failure at its end; in small blocks most are read by the expression of a single process."""
    narrow, count = routine.RoutineLines._expression_of, 0

    def counting(lines: routine.RoutineLines, writers: frozenset[routine._Writer]) -> re.Pattern[str]:
        nonlocal count
        count += 1
        return narrow(lines, writers)

    monkeypatch.setattr(routine, "_BLOCK", block)
    monkeypatch.setattr(routine.RoutineLines, "_expression_of", counting)
    text = generated(9000 if block > 9000 else 4000)
    in_bulk = read(text, block // 4)
    assert block > 9000 or count > 20
    monkeypatch.setattr(routine.RoutineLines, "skim", lambda _self, pieces: pieces)
    assert in_bulk == read(text, block // 4)


def generated(count: int) -> str:
    """A launch, up to this number of routine lines of one server, and a failure that shows a request's password."""
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    lines = [routine_line(chance, carriers=("",), processes=(SERVER,), sources=(259,)) for _ in range(count)]
    lines = [line for line in lines if not any(word in line for word in NOT_ROUTINE)]
    lines[len(lines) // 2] = f"{SERVER}INFO 11-20 10:00:00 [loggers.py:259] Received request a-1: password: gorilla77xy"
    failure = f"{SERVER}ERROR 11-20 11:00:00 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. gorilla77xy"
    start = (folders.cases_dir() / "tiny-cpu-served" / "startup.log").read_text("utf-8")
    return "\n".join([start.rstrip("\n"), *lines, failure, ""])


def of_other_usage(line: int, match: re.Match[str], groups: tuple[int, ...]) -> Throughput:
    return replace(SAMPLE(line, match, groups), kv_cache_usage_percent=101.0)


def of_other_minutes(statistics: Sequence[routine.Statistic]) -> list[tuple[str | None, int]]:
    return [(time, number + 1) for time, number in PREEMPTIONS(statistics)]


def with_wrong_number(run: routine._Run, next_line: int) -> routine.Skipped:
    return SKIPPED(run, next_line + 1)


def without_text(run: routine._Run, next_line: int) -> routine.Skipped:
    run.texts = []
    return SKIPPED(run, next_line)


SAMPLE, SKIPPED, PREEMPTIONS = routine.throughput, routine._Run.skipped, routine.preemptions


@pytest.mark.parametrize(
    ("part", "name", "broken"),
    [
        (routine, "throughput", of_other_usage),
        (routine, "preemptions", of_other_minutes),
        (routine._Run, "skipped", with_wrong_number),
        (routine._Run, "skipped", without_text),
        (routine._Run, "flush", lambda _: ()),
    ],
    ids=["figures", "preemptions", "line numbers", "secrets", "last lines"],
)
def test_the_comparison_notices_a_wrong_digest(
    part: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the figures of statistics, the number of skipped lines, the secrets in requests, and the last lines."""
    text = generated(600)
    right = read(text, 1 << 18)
    monkeypatch.setattr(part, name, broken)
    assert read(text, 1 << 18) != right


def test_the_comparison_notices_a_mistake_in_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A miscounted line of busy or idle statistics, of either access log, or of any message about a request."""
    text, digest, kinds = generated(2500), routine._Run._pass, set[int]()

    def noting(run: routine._Run, stretch: routine._Stretch, names: Sequence[object]) -> None:
        kinds.update(stretch.groups)
        digest(run, stretch, names)

    monkeypatch.setattr(routine._Run, "_pass", noting)
    right = read(text, 1 << 18)
    assert len(kinds) == 8
    for kind in kinds:

        def broken(run: routine._Run, stretch: routine._Stretch, names: Sequence[object], kind: int = kind) -> None:
            digest(run, stretch, names)
            run.number += kind in stretch.groups

        monkeypatch.setattr(routine._Run, "_pass", broken)
        assert read(text, 1 << 18) != right, kind


@pytest.mark.parametrize("line", ["", "a", "still waiting", "Traceback (most recent call last):", "KeyError: 'x'"])
def test_equal_lines_are_read_as_line_by_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of an exception's message and between other lines; of those without a meaning few are read."""
    lines = next(path for path in LOGS if "oom" in path.parent.name).read_text("utf-8").splitlines()
    raised = next(number for number, text in enumerate(lines) if "Error: " in text) + 1
    for at in (raised, 3):
        lines[at:at] = [line] * 6000
    text = "\n".join(lines)
    in_bulk = read(text, len(text))
    monkeypatch.setattr(routine.RoutineLines, "skim", lambda _self, pieces: pieces)
    assert in_bulk == read(text, len(text))


PLAIN = (
    ("{}", True),
    ("step {}, loss 0.{}", True),
    ("\n\n\n{}", True),
    ("my password is hunter{}", True),
    ("a line of prose, {} of them.", True),
    ("{}", False),
    ("vllm serve model-{}", False),
    ("docker run x{}", False),
    ("{}: colon", False),
)
"""Different lines, and whether few of them are read."""


@pytest.mark.parametrize(("line", "is_skipped"), PLAIN)
def test_plain_lines_are_read_as_line_by_line(line: str, *, is_skipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of an exception's message and between other lines; of those without a meaning few are read."""
    lines = next(path for path in LOGS if "oom" in path.parent.name).read_text("utf-8").splitlines()
    raised = next(number for number, text in enumerate(lines) if "Error: " in text) + 1
    for at in (raised, 3):
        lines[at:at] = [line.format(n, n) for n in range(6000)]
        if not is_skipped:
            lines[at + 5500] = "out of memory, exit code 137"
    text = "\n".join([*lines, "(EngineCore pid=9) ERROR 11-20 10:00:00 [core.py:9] ValueError: hunter5000 said no"])
    skimmed = list(routine.RoutineLines((), (), PatternSet(("out of (?:memory|time)",))).skim([text]))
    kept = sum(len(part) for part in skimmed if not isinstance(part, routine.Skipped))
    assert (kept < len(text) * 0.85) == is_skipped
    in_bulk = read(text, len(text))
    monkeypatch.setattr(routine.RoutineLines, "skim", lambda _self, pieces: pieces)
    assert in_bulk == read(text, len(text))


def test_runs_of_equal_lines_that_are_too_short_are_read_in_linear_time() -> None:
    """One line less than a run that is skipped."""
    skimmed = routine.RoutineLines((), (), PatternSet(()))
    text = (("X" * 90 + "\n") * (routine._REPEATED - 1) + "other\n") * 4
    begin = time.process_time()
    assert "".join(skimmed.skim([text])) == text
    assert time.process_time() - begin < 1


def test_a_block_of_equal_lines_needs_little_memory() -> None:
    """Not an entry for each of its lines."""
    skimmed = routine.RoutineLines((), (), PatternSet(()))
    text = "a\n" * (routine._BLOCK // 2)
    tracemalloc.start()
    try:
        assert len("".join(skimmed.skim([text]))) < len(text) / 50
        assert tracemalloc.get_traced_memory()[1] < 8 * len(text)
    finally:
        tracemalloc.stop()
