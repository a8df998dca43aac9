"""A log becomes one record per launch: figures, arguments, timeline, tracebacks and outcome."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cost import LIMIT, growth
from rows import in_one_test
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.catalog import symptoms as catalog_symptoms
from vllm_runbooks.catalog.authored import compiling
from vllm_runbooks.catalog.records import LineFormat, Signature
from vllm_runbooks.core import printed
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import (
    Frame,
    MinuteCounts,
    Phase,
    PrintedFigure,
    Process,
    Quote,
    RaisedException,
    ServerRun,
    SymptomHit,
    Throughput,
)
from vllm_runbooks.core.scan import PatternMatch, PatternSet
from vllm_runbooks.reading import evidence, startup_log
from vllm_runbooks.reading.startup_log import draft as startup_draft
from vllm_runbooks.reading.startup_log.draft import LaunchDraft
from vllm_runbooks.reading.startup_log.log_lines import LogLine
from vllm_runbooks.reading.startup_log.tracebacks import Tracebacks
from vllm_runbooks.runbooks import case_files

LOGS = Path(__file__).parents[1] / "logs"
VERSION = "INFO 11-20 08:00:00 [api_server.py:1] vLLM API server version 0.19.0"
READY = "INFO:     Application startup complete."
SERVED = 'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
STOPPING = "INFO:     Shutting down"
DIED = (
    "ERROR 11-20 08:09:00 [core_client.py:600] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.fixture(scope="module")
def shelf() -> catalog_symptoms.Catalog:
    return compiled.load(compiling.compile_index)


Read = Callable[[str], list[ServerRun]]


@pytest.fixture
def case(shelf: catalog_symptoms.Catalog) -> Read:
    """Reads a recorded case by its id."""

    def read(name: str) -> list[ServerRun]:
        found = evidence.load(name, read_case=case_files.read_case, cases=folders.cases_dir())
        return startup_log.read(found, shelf)

    return read


def starts_of(
    shelf: catalog_symptoms.Catalog, *lines: str, name: str = "a.log", vllm: str | None = None
) -> list[ServerRun]:
    return startup_log.read(Evidence((Document(name, "\n".join(lines)),), vllm=vllm), shelf)


def one(shelf: catalog_symptoms.Catalog, *lines: str, name: str = "a.log") -> ServerRun:
    (start,) = starts_of(shelf, *lines, name=name)
    return start


def recorded(name: str) -> str:
    """The text of a recorded log, from these tests or a case."""
    path = LOGS / f"{name}.log"
    return (path if path.is_file() else folders.cases_dir() / name / "startup.log").read_text(encoding="utf-8")


def every_recorded_text() -> list[str]:
    return [recorded(p.stem) for p in sorted(LOGS.glob("*.log"))] + [
        p.read_text(encoding="utf-8") for p in sorted(folders.cases_dir().glob("*/*.log"))
    ]


FOUR_STARTS: list[dict[str, object]] = [
    {
        "weights_gib": 13.72,
        "kv_cache_gib": 36.56,
        "kv_cache_tokens": 798_624,
        "max_concurrency": 11.99,
        "max_concurrency_tokens": 131_072,
        "cuda_graph_gib": 0.69,
        "cuda_graph_estimated_gib": 0.42,
        "gpu_memory_utilization": 0.65,
        "max_model_len": 131_072,
        "quantization": "mxfp4",
        "model": "openai/gpt-oss-20b",
        "architecture": "GptOssForCausalLM",
        "load_seconds": 62.336108,
        "startup_seconds": 121.0,
        "generation_tokens_per_s_max": 164.7,
    },
    {
        "weights_gib": 48.5,
        "kv_cache_gib": 21.5,
        "kv_cache_tokens": 93_936,
        "max_concurrency": 6.96,
        "max_concurrency_tokens": 131_072,
        "cuda_graph_gib": None,
        "cuda_graph_estimated_gib": None,
        "gpu_memory_utilization": 0.9,
        "max_model_len": 131_072,
        "quantization": None,
        "model": "google/gemma-4-26B-A4B",
        "architecture": "Gemma4ForConditionalGeneration",
        "load_seconds": 10.090812,
        "startup_seconds": 60.0,
        "generation_tokens_per_s_max": 18.8,
    },
    {
        "weights_gib": 25.7,
        "kv_cache_gib": 24.45,
        "kv_cache_tokens": 106_800,
        "max_concurrency": 4.37,
        "max_concurrency_tokens": 262_144,
        "cuda_graph_gib": 0.95,
        "cuda_graph_estimated_gib": 1.11,
        "gpu_memory_utilization": 0.65,
        "max_model_len": 262_144,
        "quantization": "fp8",
        "model": "google/gemma-4-26B-A4B",
        "architecture": "Gemma4ForConditionalGeneration",
        "load_seconds": 15.197657,
        "startup_seconds": 84.0,
        "generation_tokens_per_s_max": 80.6,
    },
    {
        "weights_gib": 58.9,
        "kv_cache_gib": 15.18,
        "kv_cache_tokens": 16_576,
        "max_concurrency": 1.23,
        "max_concurrency_tokens": 131_072,
        "cuda_graph_gib": 0.84,
        "cuda_graph_estimated_gib": 0.86,
        "gpu_memory_utilization": 0.95,
        "max_model_len": 131_072,
        "quantization": None,
        "model": "google/gemma-4-31B-it",
        "architecture": "Gemma4ForConditionalGeneration",
        "load_seconds": 265.606047,
        "startup_seconds": 379.0,
        "generation_tokens_per_s_max": 23.2,
    },
]


@pytest.mark.parametrize("number", range(4))
def test_every_fact_of_four_launches_in_one_file(case: Read, number: int) -> None:
    """Each launch has its own weights, cache, graphs, arguments, rates and times."""
    start = case("gpt-oss-gemma-a100-four-starts")[number]

    expected = FOUR_STARTS[number] | {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "kv_cache_tokens_meaning": "slots",
    }
    assert {name: getattr(start.facts, name) for name in expected} == expected
    assert (start.release.version, start.release.source, start.outcome) == ("0.19.0", "printed", "running")


def test_four_launches_do_not_overlap(case: Read) -> None:
    """Each line belongs to one launch."""
    ranges = [(start.first_line, start.last_line) for start in case("gpt-oss-gemma-a100-four-starts")]

    assert ranges == [(1, 69), (70, 152), (153, 219), (220, 288)]


def test_the_page_of_four_launches_reads_as_the_case(shelf: catalog_symptoms.Catalog, seeds: Path) -> None:
    """Prose, tables and other commands around the logs change nothing but the line numbers."""
    starts = startup_log.read(
        evidence.load(seeds / "gpt-oss-and-gemma-on-a100.md", read_case=case_files.read_case), shelf
    )

    assert [(start.first_line, start.last_line) for start in starts] == [(10, 105), (118, 227), (240, 333), (347, 442)]
    for start, facts in zip(starts, FOUR_STARTS, strict=True):
        assert {name: getattr(start.facts, name) for name in facts} == facts


@pytest.mark.parametrize("name", ["page.log", "page.txt", "-"])
def test_the_page_reads_the_same_with_any_name(shelf: catalog_symptoms.Catalog, seeds: Path, name: str) -> None:
    """Quoted figures in prose are not a launch, and a command belongs to the next launch."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    starts = startup_log.read(Evidence((Document(name, text),)), shelf)

    assert [start.outcome for start in starts] == ["running"] * 4
    assert all(earlier.last_line < later.first_line for earlier, later in pairwise(starts))
    assert [start.arguments["port"] for start in starts] == [10000] * 4
    for start, facts in zip(starts, FOUR_STARTS, strict=True):
        assert {name: getattr(start.facts, name) for name in facts} == facts


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize("mark", ["> ", ">", "    ", "> > "])
def test_a_log_that_a_reply_quotes_or_a_page_indents(shelf: catalog_symptoms.Catalog, name: str, mark: str) -> None:
    """It reads as the log itself: same outcome, same exception, same places."""
    log = [VERSION, "INFO 11-20 08:00:01 [a.py:1] hello", *TRACE]
    text = ["On Monday somebody wrote:", "", *(mark + line for line in log), "", "Any idea?"]
    if mark.isspace():
        name = "a.md"
    (start,) = starts_of(shelf, *text, name=name)

    assert start.outcome == "failed"
    assert start.release.version == "0.19.0"
    assert [raised.message for raised in start.tracebacks[0].chain] == ["not here"]
    assert (start.tracebacks[0].first_line, start.tracebacks[0].chain[0].quote.column) == (7, len(mark) + 1)


@pytest.mark.parametrize(
    ("page", "place"),
    [
        (("single-gpu-oom-and-8x3090-split.md", "autoglm-3090-video-oom"), (6, 286)),
        (("multi-node-ray.md", "qwen-2x24gb-mp-glued"), (17, 17)),
    ],
)
def test_other_pages_read_as_their_cases(
    shelf: catalog_symptoms.Catalog, seeds: Path, case: Read, page: tuple[str, str], place: tuple[int, int]
) -> None:
    """The page has the facts, outcome and symptoms of the log extracted from it."""
    starts = startup_log.read(evidence.load(seeds / page[0], read_case=case_files.read_case), shelf)

    assert [(start.first_line, start.last_line) for start in starts] == [place]
    (cut,) = case(page[1])
    for start in starts:
        wanted = {name: value for name, value in vars(cut.facts).items() if value is not None}
        assert {name: getattr(start.facts, name) for name in wanted} == wanted
        assert start.outcome == cut.outcome
        assert {hit.symptom for hit in start.hits} == {hit.symptom for hit in cut.hits}


def test_a_page_with_two_logs_has_two_launches(shelf: catalog_symptoms.Catalog, seeds: Path) -> None:
    """The failed launch and the later working one are separate."""
    starts = startup_log.read(
        evidence.load(seeds / "shared-gpu-memory-profiling.md", read_case=case_files.read_case), shelf
    )

    assert [(str(s.outcome), s.facts.kv_cache_tokens) for s in starts] == [("failed", None), ("ready", 1_721_888)]


def test_a_joined_log_of_two_ranks(case: Read) -> None:
    """Each rank's facts are kept; the cache is the smaller rank's, in blocks times block size."""
    (start,) = case("qwen-2x24gb-mp-glued")

    assert [
        (r.rank, r.kv_cache_gib, r.activation_gib, r.non_torch_gib, r.weights_gib, r.gpu_total_gib) for r in start.ranks
    ] == [
        (0, 8.6, 1.39, 0.4, 1.4495, 23.69),
        (1, 9.93, 0.09, 0.37, 1.4495, 23.69),
    ]
    facts = start.facts
    assert (facts.kv_cache_blocks, facts.kv_cache_tokens, facts.max_concurrency) == (40_269, 644_304, 5033.62)
    assert (facts.tensor_parallel_size, facts.executor_backend, facts.cuda_graph_gib) == (2, "mp", 0.85)
    assert start.release.version == "0.7.2"
    assert start.arguments["tensor_parallel_size"] == 2
    assert start.arguments["return_tokens_as_token_ids"] is False


def test_a_log_that_a_wrapper_logged_again(case: Read) -> None:
    """Another logger's prefix changes no figure; the wrapper's own word for ready counts once the cache is there."""
    (start,) = case("qwen-a100-relogged-by-wrapper")

    facts = start.facts
    assert (facts.weights_gib, facts.load_seconds, facts.kv_cache_tokens, facts.max_concurrency) == (
        0.93,
        1.71,
        1_721_888,
        52.55,
    )
    assert start.outcome == "ready"
    assert start.release.source == "unknown"


def test_tracebacks_of_two_processes(case: Read) -> None:
    """The engine's two tracebacks and the server's wrapper are three, each with its process and frames."""
    (start,) = case("autoglm-3090-video-oom")

    assert [
        (t.process.name, t.logged, [(r.type, len(r.frames)) for r in t.chain], t.first_line) for t in start.tracebacks
    ] == [
        ("EngineCore_DP0", True, [("torch.OutOfMemoryError", 36)], 109),
        ("EngineCore_DP0", False, [("torch.OutOfMemoryError", 39)], 223),
        ("APIServer", False, [("RuntimeError", 22)], 280),
    ]
    assert start.outcome_quote is not None
    assert (start.outcome_quote.line, start.outcome_quote.text) == (2, "EngineCore failed to start.")


# Outcomes


@in_one_test(
    ("name", "outcome", "line"),
    [
        ("served-0.11", "running", 75),
        ("data-parallel-served", "running", 200),
        ("offline-generate", "running", 52),
        ("tiny-cpu-served", "running", None),
        ("qwen-2x24gb-mp-glued", "ready", 1),
        ("engine-killed-0.16", "failed", 60),
        ("tiny-cpu-engine-killed", "failed", None),
        ("interrupted-before-ready", "failed", 109),
        ("refused-0.8", "failed", 48),
        ("colours-context-too-long", "failed", 43),
        ("compose-prefix-colours", "failed", None),
        ("container-runtime-prefix", "failed", 52),
        ("last-forty-lines", "failed", 38),
        ("tiny-cpu-port-in-use", "failed", 38),
        ("stalled-worker", "hung", 113),
        ("cut-off-while-loading", "unknown", None),
        ("requests-quote-errors", "running", None),
    ],
)
def test_outcomes_of_recorded_logs(shelf: catalog_symptoms.Catalog, name: str, outcome: str, line: int | None) -> None:
    """Served, killed, interrupted, stuck or truncated: the last proven state and its line."""
    (start,) = starts_of(shelf, recorded(name))

    assert start.outcome == outcome
    if line is not None:
        assert start.outcome_quote is not None
        assert start.outcome_quote.line == line


WAITING = "INFO 11-20 08:0{}:00 [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds."


@in_one_test(
    ("lines", "outcome"),
    [
        ([], "unknown"),
        ([READY], "ready"),
        ([READY, SERVED], "running"),
        ([READY, SERVED, STOPPING], "running"),
        ([READY, STOPPING], "ready"),
        ([STOPPING], "failed"),
        ([READY, SERVED, DIED, SERVED, STOPPING], "failed"),
        ([READY, STOPPING, DIED, "RuntimeError: while stopping"], "ready"),
        (["ValueError: caught and retried", READY], "ready"),
        (["EngineCore failed to start.", VERSION, READY], "ready"),
        (
            [
                READY,
                "Exception ignored in: <function f>",
                "Traceback (most recent call last):",
                '  File "a.py", line 1, in f',
                OOM,
            ],
            "ready",
        ),
        ([READY, "Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 1"], "failed"),
        (
            [READY, "Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 1", SERVED],
            "running",
        ),
        ([WAITING.format(1)], "unknown"),
        ([WAITING.format(1), WAITING.format(2)], "hung"),
        ([READY, WAITING.format(1), WAITING.format(2)], "hung"),
        ([WAITING.format(1), WAITING.format(2), READY], "ready"),
        ([READY, WAITING.format(1), WAITING.format(2), STOPPING], "ready"),
    ],
)
def test_later_lines_decide_the_outcome(shelf: catalog_symptoms.Catalog, lines: list[str], outcome: str) -> None:
    """A crash after ready stays a crash; errors of a request or during shutdown do not count."""
    assert starts_of(shelf, VERSION, *lines)[-1].outcome == outcome


LOGGED = "INFO 11-20 08:01:00 [async_llm.py:1] "
ACCESS = 'INFO:     127.0.0.1:5 - "{} HTTP/1.1" 404 Not Found'
QUOTING = "ERROR 11-20 08:01:00 [serving.py:1] Cannot answer 'EngineCore failed to start. Shutting down' of a user"


@pytest.mark.parametrize(
    "line",
    [
        LOGGED + "Aborted request(s) chatcmpl-1.",
        LOGGED + "Killed actor rank=3",
        LOGGED + "Aborted",
        "Aborted due to the lack of CPU swap space.",
        LOGGED + "Shutting down profiler",
        "DEBUG 11-20 08:01:00 [client.py:1] Shutting down MQLLMEngineClient output handler.",
        LOGGED + "Engine is gracefully shutting down.",
        ACCESS.format("GET /EngineCorefailedtostart"),
        ACCESS.format("GET /Shuttingdown"),
        ACCESS.format("GET /vLLMAPIserverversion0.1.2"),
        ACCESS.format("EngineCorefailedtostart /"),
        QUOTING,
    ],
)
def test_mentions_of_a_crash_do_not_end_a_server(shelf: catalog_symptoms.Catalog, line: str) -> None:
    """User text and text like a shell message leave the server running; a later crash counts."""
    start = one(shelf, VERSION, READY, SERVED, line)
    later = one(shelf, VERSION, READY, SERVED, line.replace("Engine is gracefully", "x"), DIED)

    assert start.outcome == "running"
    assert start.release.version == "0.19.0"
    assert later.outcome == "failed"


@pytest.mark.parametrize(
    "line",
    ["Killed", "Segmentation fault (core dumped)", "run.sh: line 3: 4711 Killed                  vllm serve a/b"],
)
def test_a_shell_message_is_an_end(shelf: catalog_symptoms.Catalog, line: str) -> None:
    """As a whole line without a logger's header, or after a script's name and line."""
    assert one(shelf, VERSION, READY, SERVED, line).outcome == "failed"


@pytest.mark.parametrize(
    "line",
    [
        "INFO:     Shutting down",
        LOGGED + "Shutting down.",
        LOGGED + "Shutting down FastAPI HTTP server.",
        LOGGED + "[shutdown] API server: shutting down FastAPI HTTP server",
        LOGGED + "Received KeyboardInterrupt, shutting down API servers...",
        LOGGED + "Engine is gracefully shutting down.",
    ],
)
def test_a_requested_stop(shelf: catalog_symptoms.Catalog, line: str) -> None:
    """Later crashes are part of stopping."""
    assert one(shelf, VERSION, READY, SERVED, line, DIED).outcome == "running"


TRACE = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: not here"]
HELLO = "{} 11-20 08:00:0{} [a.py:1] hello"


def told_at(level: str) -> list[str]:
    """A traceback as a logger prints it."""
    return [f"{level} 11-20 08:00:05 [a.py:1] {line}" for line in TRACE]


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (told_at("WARNING"), "unknown"),
        (told_at("INFO"), "unknown"),
        (told_at("ERROR"), "failed"),
        ([*told_at("ERROR"), HELLO.format("INFO", 6)], "failed"),
        ([*told_at("ERROR"), *(HELLO.format("INFO", second) for second in (6, 7, 8, 9))], "unknown"),
        (TRACE, "failed"),
        (["Exception in callback f()", "handle: <Handle f()>", *TRACE], "unknown"),
        (["Exception in callback f()", *(HELLO.format("INFO", second) for second in (6, 7, 8, 9)), *TRACE], "failed"),
    ],
)
def test_a_traceback_that_proves_an_end(shelf: catalog_symptoms.Catalog, lines: list[str], outcome: str) -> None:
    """The interpreter's, and an error logged at the very end; no warning's, excused or older one does."""
    assert one(shelf, VERSION, *lines).outcome == outcome


STARTING = "{} 11-20 08:0{}:{}0 [utils.py:1] Waiting for 1 local, 0 remote core engine proc(s) to start."


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([STARTING.format("INFO", 1, 0), STARTING.format("INFO", 2, 0)], "hung"),
        ([STARTING.format("INFO", 1, 0), STARTING.format("INFO", 1, 1)], "unknown"),
        ([STARTING.format("INFO", 1, 0), STARTING.format("INFO", 1, 0)], "unknown"),
        ([STARTING.format("DEBUG", 1, 0), STARTING.format("DEBUG", 4, 0)], "unknown"),
    ],
)
def test_waiting_for_a_minute_is_a_hang(shelf: catalog_symptoms.Catalog, lines: list[str], outcome: str) -> None:
    """Messages printed every ten seconds at DEBUG do not count."""
    assert one(shelf, VERSION, *lines).outcome == outcome


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
                "  Value error, Total number of heads (4) must be divisible by 3. [type=v]",
                "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
            ],
            "1 validation error for VllmConfig Value error, Total number of heads (4) must be divisible by 3. [type=v]",
        ),
        (
            ["torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:", "RuntimeError: no C compiler"],
            "backend='inductor' raised: RuntimeError: no C compiler",
        ),
        (
            ["RuntimeError: ", "        An attempt has been made", "        to start."],
            "An attempt has been made to start.",
        ),
        (
            ["ValueError: one of: ", "(1) a library file, ", "(2) a slow tokenizer."],
            "one of: (1) a library file, (2) a slow tokenizer.",
        ),
        (["ValueError: whole", "root@host:~# "], "whole"),
    ],
)
def test_a_message_over_several_lines(shelf: catalog_symptoms.Catalog, lines: list[str], message: str) -> None:
    """It includes the lines with the cause, without the shell's output after it."""
    raised = one(shelf, VERSION, *TRACE[:2], *lines).tracebacks[0].chain[0]

    assert raised.message == message
    assert raised.quote.text == f"{raised.type}: {message}"
    assert raised.quote.line == 4


def test_a_rejected_argument_is_an_error(shelf: catalog_symptoms.Catalog) -> None:
    """The message of argparse is the error to show, not a command."""
    start = one(
        shelf,
        "INFO 11-20 08:00:00 [__init__.py:216] Automatically detected platform cpu.",
        "usage: vllm serve [model_tag] [options]",
        "vllm serve: error: argument --max-num-seqs: invalid int value: 'many'",
    )

    assert start.outcome == "failed"
    assert start.command is None
    assert [(raised.type, raised.message) for raised in start.tracebacks[0].chain] == [
        ("SystemExit", "argument --max-num-seqs: invalid int value: 'many'")
    ]


def test_an_engine_without_a_server_is_ready_once_initialized(shelf: catalog_symptoms.Catalog) -> None:
    """A script needs no server; an announced server must become ready."""
    engine = (
        "(EngineCore pid=7) INFO 11-20 08:01:00 [core.py:1] init "
        "engine (profile, create kv cache, warmup model) took 32.50 seconds"
    )

    assert one(shelf, engine).outcome == "ready"
    assert one(shelf, VERSION, engine).outcome == "unknown"
    assert one(shelf, "(APIServer pid=1) INFO 11-20 08:00:00 [a.py:1] hello", engine).outcome == "unknown"


# Several launches


@pytest.mark.parametrize(
    ("names", "outcomes"),
    [
        (["refused-0.8", "served-0.11"], ["failed", "running"]),
        (["served-0.11", "refused-0.8"], ["running", "failed"]),
        (["container-runtime-prefix", "container-runtime-prefix"], ["failed", "failed"]),
        (["engine-killed-0.16", "tiny-cpu-served", "cut-off-while-loading"], ["failed", "running", "unknown"]),
        (["tiny-cpu-two-starts"], ["failed", "running"]),
    ],
)
def test_several_launches_in_one_file(shelf: catalog_symptoms.Catalog, names: list[str], outcomes: list[str]) -> None:
    """A launch after an end is separate, also if a container reuses the process number."""
    starts = starts_of(shelf, "".join(recorded(name) for name in names))

    assert [start.outcome for start in starts] == outcomes
    assert all(one.last_line < two.first_line for one, two in pairwise(starts))


def test_each_file_has_its_own_launches(shelf: catalog_symptoms.Catalog) -> None:
    """Logs of several files are not joined."""
    documents = tuple(Document(f"{n}.log", recorded(n)) for n in ("refused-0.8", "served-0.11"))

    assert [start.file for start in startup_log.read(Evidence(documents), shelf)] == [0, 1]


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld", "INFO:     something else", "+ ls -l"])
def test_a_text_without_vllm_has_no_launch(shelf: catalog_symptoms.Catalog, text: str) -> None:
    """No record is created."""
    assert starts_of(shelf, text) == []


# Release, command, arguments


def test_the_release_is_printed_given_or_unknown(shelf: catalog_symptoms.Catalog) -> None:
    """The caller's release takes precedence over the log's."""
    releases = [
        starts_of(shelf, line, vllm=given)[0].release
        for line, given in ((VERSION, None), (VERSION, "0.7.2"), (READY, "0.7.2"), (READY, None))
    ]

    assert [(r.version, r.source) for r in releases] == [
        ("0.19.0", "printed"),
        ("0.7.2", "given"),
        ("0.7.2", "given"),
        (None, "unknown"),
    ]


def test_the_build_of_a_given_release_is_kept(shelf: catalog_symptoms.Catalog) -> None:
    """A printed local version is more precise than the same release given by the caller."""
    [start] = starts_of(shelf, VERSION + "+cu129", vllm="0.19.0")

    assert (start.release.version, start.release.source) == ("0.19.0+cu129", "printed")


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("!pip install torch==2.3.0 vllm==0.4.3", "0.4.3"),
        ("export VLLM_VERSION=0.6.1.post1", "0.6.1.post1"),
        ("vllm-0.2.4+cu118-cp38-cp38-manylinux1_x86_64.whl", "0.2.4"),
        ("docker run vllm/vllm-openai:v0.9.1 --model a/b", "0.9.1"),
        ("It fails on vLLM 0.6.5 with a CPU.", "0.6.5"),
        ("vllm==0.8.5 works, vllm==0.9.0 does not", None),
        ("vllm>=0.8.5 is required", None),
        ("vllm==0.8.5.dev3 and vllm-0.9.1rc2", None),
    ],
)
def test_a_text_that_names_one_release_is_of_it(
    shelf: catalog_symptoms.Catalog, text: str, release: str | None
) -> None:
    """Unless it prints one, or call sites show another."""
    failed = "ERROR 11-20 08:00:00 [core.py:1] EngineCore failed to start."
    [start] = starts_of(shelf, f"{text}\n{failed}")
    printed = starts_of(shelf, f"{text}\n{VERSION}\n{failed}")[-1]

    assert (start.release.version, start.release.source) == (release, "named" if release else "unknown")
    assert printed.release.version == "0.19.0"


def test_the_environment_above_a_log_has_its_release(shelf: catalog_symptoms.Catalog) -> None:
    """The output of `collect_env.py` stands above the log without its header."""
    [start] = starts_of(shelf, f"vLLM Version: 0.8.0\n\n{READY}\nERROR 11-20 08:00:00 [core.py:1] KeyError: 'x'")

    assert (start.release.version, start.release.source) == ("0.8.0", "printed")


def test_an_untagged_build_is_no_release(shelf: catalog_symptoms.Catalog) -> None:
    """Its number is that of no release: only call sites or the caller show whose rules apply."""
    [start] = starts_of(shelf, VERSION.replace("0.19.0", "0.1.dev1+g7b5f655"))
    [given] = starts_of(shelf, VERSION.replace("0.19.0", "0.1.dev1+g7b5f655"), vllm="0.19.0")

    assert (start.release.version, start.release.data, start.release.rules) == ("0.1.dev1+g7b5f655", None, None)
    assert given.release.rules == "0.19.0"


ARGS = "INFO 11-20 08:00:00 [utils.py:233] non-default args: {'model_tag': 'a/b', 'dtype': torch.bfloat16, 'seed': 1}"


def test_arguments_of_a_dict_a_namespace_and_a_command(shelf: catalog_symptoms.Catalog) -> None:
    """The log's arguments take precedence; the command adds missing ones."""
    start = one(shelf, "root@h:/# vllm serve x/y \\", "  --seed 2 --max-model-len 5", VERSION, ARGS)

    assert start.arguments == {"model_tag": "a/b", "dtype": "torch.bfloat16", "seed": 1, "max_model_len": 5}
    assert (start.command, start.first_line) == ("vllm serve x/y --seed 2 --max-model-len 5", 1)
    namespace = "INFO 11-20 08:00:00 api_server.py:841] args: Namespace(host=None, model='a/b', tensor_parallel_size=2)"
    assert one(shelf, namespace).arguments == {"host": None, "model": "a/b", "tensor_parallel_size": 2}


def test_wrapped_arguments_in_a_paste(shelf: catalog_symptoms.Catalog) -> None:
    """They end with the closing bracket or the next logger line."""
    head = "INFO 11-20 08:00:00 api_server.py:841] args: Namespace(host=None, model='a/long-"

    closed = one(shelf, head, "name', port=1,", "seed=3)", "tail")
    cut = one(shelf, head, "name', port=1,", VERSION)

    unfinished = one(shelf, head)

    assert unfinished.arguments == {"host": None, "model": "'a/long-"}
    assert closed.arguments == {"host": None, "model": "a/long-name", "port": 1, "seed": 3}
    assert cut.arguments == {"host": None, "model": "a/long-name", "port": 1}
    assert cut.release.version == "0.19.0"


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        (["vllm serve a/b --seed 1", "", VERSION], "a/b"),
        (["A=1 python -m vllm.entrypoints.openai.api_server \\", "--model a/b", VERSION], "a/b"),
        (["docker run --gpus all vllm/vllm-openai:v0.19.0 \\", "  --model a/b", VERSION], "a/b"),
        (["llm = LLM(", '    model="a/b",', ")", VERSION], "a/b"),
        ([OOM, "", "vllm serve a/b"], "a/b"),
        ([VERSION, ARGS, READY, "vllm serve other/model"], "a/b"),
        (
            [
                VERSION,
                "Traceback (most recent call last):",
                '  File "/x.py", line 3, in <module>',
                '    llm = LLM(model="other/model")',
                "ValueError: x",
            ],
            None,
        ),
    ],
)
def test_launches_shown_next_to_the_log(shelf: catalog_symptoms.Catalog, lines: list[str], model: str | None) -> None:
    """Before the log, or after one without arguments; code in a traceback is not a launch."""
    assert one(shelf, *lines).facts.model == model


def test_commands_of_a_page_count_at_a_prompt_only(shelf: catalog_symptoms.Catalog) -> None:
    """A page recommends commands; the one at the prompt was run."""
    page = [
        "# Title",
        "```",
        "vllm serve advised/model",
        "```",
        "```",
        "root@h:/# vllm serve ran/this",
        VERSION,
        READY,
        "```",
    ]

    assert one(shelf, *page, name="a.md").facts.model == "ran/this"


# Phases


def test_the_timeline_of_a_recorded_launch(case: Read) -> None:
    """Phases follow each other with the clock's seconds and vLLM's own."""
    start = case("gpt-oss-gemma-a100-four-starts")[0]

    assert [(p.name, p.first.line, p.clock_seconds, p.printed_seconds) for p in start.timeline] == [
        ("configure", 3, 17.0, None), ("engine", 20, 1.0, None), ("load", 24, 68.0, 62.336108),
        ("compile", 37, 8.0, 12.46),
        ("profile", 43, 9.0, None), ("kv_cache", 47, 0.0, None), ("capture", 51, 10.0, 10.0),
        ("warm_up", 55, 8.0, None), ("serve", 60, 0.0, None),
    ]  # fmt: skip


def test_durations_cross_new_year(shelf: catalog_symptoms.Catalog) -> None:
    """A launch over New Year's Eve takes seconds, not a year."""
    start = one(
        shelf,
        VERSION.replace("11-20 08:00:00", "12-31 23:59:50"),
        "INFO 12-31 23:59:55 [a.py:1] Starting to load model a/b...",
        "INFO 01-01 00:00:05 [a.py:1] Model loading took 1.50 GiB memory and 9.5 seconds",
        "INFO 01-01 00:00:06 [a.py:1] GPU KV cache size: 1,600 tokens",
        READY,
    )

    assert [(p.name, p.clock_seconds, p.printed_seconds) for p in start.timeline] == [
        ("configure", 5.0, None), ("load", 11.0, 9.5), ("kv_cache", 0.0, None), ("serve", 0.0, None),
    ]  # fmt: skip
    assert start.facts.startup_seconds == 16.0


def test_a_lagging_process_does_not_reset_the_phase(shelf: catalog_symptoms.Catalog) -> None:
    """The phase of a launch is that of its most advanced process."""
    start = one(
        shelf,
        VERSION,
        "(Worker_TP0 pid=5) INFO 11-20 08:00:03 [a.py:1] Available KV cache memory: 9.93 GiB",
        "(Worker_TP1 pid=6) INFO 11-20 08:00:04 [a.py:1] Model loading took 1.50 GiB memory and 9.5 seconds",
    )

    assert [phase.name for phase in start.timeline] == ["configure", "kv_cache"]


# Figures


@pytest.mark.parametrize(
    ("tokens", "concurrency", "length", "meaning"),
    [
        ("798,624", "11.99", "131,072", "slots"), ("16,576", "1.23", "131,072", "slots"), ("1,571,553", "11.99",
        "131,072", "full-length"),
        ("1,721,888", "52.55", "32,768", "full-length"), ("161,216", "1.23", "131,072", "full-length"), ("1,048,576",
        "2048.00", "512", "full-length"),
    ],
)  # fmt: skip
def test_the_meaning_of_the_token_count(
    shelf: catalog_symptoms.Catalog, tokens: str, concurrency: str, length: str, meaning: str
) -> None:
    """Slots of one layer group if it differs from concurrency times length, else full tokens."""
    start = one(
        shelf,
        VERSION,
        f"GPU KV cache size: {tokens} tokens",
        f"Maximum concurrency for {length} tokens per request: {concurrency}x",
    )

    assert start.facts.kv_cache_tokens_meaning == meaning


def test_ranks_are_named_assigned_or_computed(shelf: catalog_symptoms.Catalog) -> None:
    """From the log's own assignment, the worker's name, or its pipeline and tensor ranks."""
    figure = "INFO 11-20 08:00:03 [a.py:1] Available KV cache memory: {} GiB"
    config = (
        "INFO 11-20 08:00:01 [core.py:1] Initializing a V1 LLM "
        "engine (v0.19.0) with config: model='m', tensor_parallel_size=2, pipeline_parallel_size=2"
    )
    named = one(shelf, config, *(f"(Worker_PP{n // 2}_TP{n % 2} pid={n}) {figure.format(n)}" for n in range(4)))
    assigned = one(
        shelf,
        "(Worker pid=7) INFO 11-20 08:00:00 [p.py:1] world_size=4 "
        "rank=3 local_rank=3 distributed_init_method=tcp://h:1 backend=nccl",
        f"(Worker pid=7) {figure.format(5)}",
    )
    unknown = one(shelf, *(f"(Worker_PP{n} pid={n}) {figure.format(n)}" for n in range(2)))
    rank0 = one(shelf, f"[rank1]: {figure.format(1)}")

    assert [(r.rank, r.kv_cache_gib) for r in named.ranks] == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)]
    assert [r.rank for r in assigned.ranks] == [3]
    assert [r.rank for r in unknown.ranks] == [None, None]
    assert [r.rank for r in rank0.ranks] == [1]
    assert named.facts.kv_cache_gib == 0.0


def test_a_single_engine_is_rank_0(shelf: catalog_symptoms.Catalog) -> None:
    """If the only process with figures is the only one."""
    figure = "(EngineCore pid=7) INFO 11-20 08:00:03 [a.py:1] Available KV cache memory: 5.5 GiB"
    config = (
        "INFO 11-20 08:00:01 [core.py:1] Initializing a V1 LLM engine (v0.19.0) with config: tensor_parallel_size={}"
    )

    assert [one(shelf, config.format(size), figure).ranks[0].rank for size in (1, 2)] == [0, None]


@pytest.mark.parametrize(
    ("line", "backend"),
    [("(RayWorkerWrapper pid=5, ip=10.0.0.2) said", "ray"), ("(VllmWorkerProcess pid=5) said", "mp"),
    ("(EngineCore pid=5) said", None)],
)  # fmt: skip
def test_the_executor_shows_in_process_names(shelf: catalog_symptoms.Catalog, line: str, backend: str | None) -> None:
    """If no line names it."""
    assert one(shelf, VERSION, line).facts.executor_backend == backend


def test_absurd_figures_are_unknown(shelf: catalog_symptoms.Catalog) -> None:
    """An impossible argument is not a fact."""
    start = one(
        shelf,
        "INFO 11-20 08:00:00 [u.py:1] non-default args: "
        "{'gpu_memory_utilization': 1e999, 'max_model_len': 1e300, 'tensor_parallel_size': True, 'model': 7}",
    )

    assert (
        start.facts.gpu_memory_utilization,
        start.facts.max_model_len,
        start.facts.tensor_parallel_size,
        start.facts.model,
    ) == (None, None, None, None)


def test_a_malformed_number_is_dropped(shelf: catalog_symptoms.Catalog) -> None:
    """Digits and dots alone are not a number."""
    line = "INFO 11-20 08:00:00 [a.py:1] Model loading took 1.2.3 GiB memory and 5.5 seconds"

    assert [reading.name for reading in one(shelf, line).readings] == ["load_seconds"]


def test_blocks_become_tokens_with_a_block_size(shelf: catalog_symptoms.Catalog) -> None:
    """From the concurrency, else from the argument, else not at all."""
    blocks = "INFO 11-20 08:00:00 a.py:1] # GPU blocks: 100, # CPU blocks: 5"
    args = "INFO 11-20 08:00:00 a.py:1] args: Namespace(block_size=16, max_model_len='64')"

    tokens = [
        one(shelf, *lines).facts.kv_cache_tokens
        for lines in ((blocks,), (args, blocks), (blocks, "Maximum concurrency for 64 tokens per request: 50.00x"))
    ]

    assert tokens == [None, 1600, 3200]


def test_throughput_samples(shelf: catalog_symptoms.Catalog) -> None:
    """Periodic lines become samples; an idle one proves no request."""
    line = (
        "INFO 11-20 08:00:00 [l.py:1] Engine 000: Avg prompt throughput: 8.0 tokens/s, Avg generation throughput: {} "
        "tokens/s, Running: 1 reqs, Waiting: 2 reqs, GPU KV cache usage: 0.5%, Prefix cache hit rate: 0.0%"
    )
    busy, idle = one(shelf, VERSION, line.format(111.7)), one(shelf, VERSION, line.format(0.0))

    (sample,) = busy.throughput
    assert (sample.line, sample.prompt_tokens_per_s, sample.generation_tokens_per_s) == (2, 8.0, 111.7)
    assert (sample.running, sample.waiting, sample.kv_cache_usage_percent) == (1, 2, 0.5)
    assert (busy.facts.preemptions, busy.facts.errors, busy.facts.failed_requests) == (None, None, None)
    assert (busy.outcome, idle.outcome) == ("running", "unknown")


def test_incidents_of_a_running_server_are_counted_per_minute(shelf: catalog_symptoms.Catalog) -> None:
    """Preemptions, messages of level ERROR and failed requests; not the errors before it is ready."""
    line = (
        "INFO 11-20 08:00:00 [l.py:1] Engine 000: Avg prompt throughput: 8.0 tokens/s, Avg generation throughput: 9.9 "
        "tokens/s, Running: 1 reqs, Waiting: 2 reqs, Preemptions: {}, GPU KV cache usage: 0.5%"
    )
    request = '10.0.0.1:9 - "POST /v1/chat/completions HTTP/1.1" {}'
    start = one(
        shelf,
        VERSION,
        "ERROR 11-20 07:58:00 [a.py:1] before",
        "INFO:     " + request.format("500 Internal Server Error"),
        line.format(3),
        line.format(4).replace("08:00:00", "08:00:10"),
        "(APIServer pid=7) ERROR 11-20 08:01:30 [async_llm.py:9] Traceback (most recent call last):",
        "(APIServer pid=7) ERROR 11-20 08:01:30 [async_llm.py:9] ValueError: no",
        "(EngineCore pid=8) ERROR 11-20 08:01:30 [core.py:9] another",
        "INFO:     " + request.format("503 Service Unavailable"),
        "INFO:     " + request.format("404 Not Found"),
    )

    assert [sample.preemptions for sample in start.throughput] == [3, 4]
    assert (start.facts.preemptions, start.facts.errors, start.facts.failed_requests) == (7, 2, 1)
    assert start.minutes == (MinuteCounts("11-20 08:00", 7, 0, 0), MinuteCounts("11-20 08:01", 0, 2, 1))


@pytest.mark.parametrize(
    ("lines", "errors", "failed"),
    [
        # Two ranks that print a traceback each, line by line in turn.
        ([f"(Worker_TP{n % 2} pid={n % 2}) ERROR 11-20 09:00:00 [w.py:9]   line {n}" for n in range(20)], 2, None),
        ([f"(APIServer pid=7) ERROR 11-20 09:00:00 [a.py:{n}] error {n}" for n in range(5)], 5, None),
        (["(APIServer pid=7) ERROR 11-20 09:00:00 [a.py:9] the same"] * 3, 3, None),
        (
            ["INFO 11-20 09:00:00 [l.py:1] Received request x: prompt: '1.0.0.1 - \"GET /x HTTP/1.1\" 500 no'"],
            None,
            None,
        ),
        (['INFO:     10.0.0.1:9 - "GET /x HTTP/1.1" 5000 no'], None, None),
        ([f'INFO:     10.0.0.1:9 - "GET /{"x" * 150} HTTP/1.1" 502 Bad Gateway'], None, 1),
    ],
)
def test_each_error_of_a_server_counts_once(
    lines: list[str], errors: int | None, failed: int | None, shelf: catalog_symptoms.Catalog
) -> None:
    """Whatever other processes print in between; what a client wrote does not count."""
    facts = one(shelf, VERSION, READY, SERVED, *lines).facts

    assert (facts.errors, facts.failed_requests) == (errors, failed)


def test_counts_outlive_their_minutes(shelf: catalog_symptoms.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many minutes with errors only the last are drawn, but all count."""
    monkeypatch.setattr(startup_draft, "_MAX_MINUTES", 3)
    start = one(shelf, VERSION, READY, *(f"ERROR 11-20 09:{n:02}:00 [a.py:1] {n}" for n in range(5)))

    assert start.facts.errors == 5
    assert [minute.time for minute in start.minutes] == [f"11-20 09:0{n}" for n in (2, 3, 4)]


def test_warnings_are_listed_once_with_their_count(shelf: catalog_symptoms.Catalog) -> None:
    """For any number of repeats; at most 60 different ones are kept."""
    warning = "WARNING 11-20 08:00:00 [a.py:1] same"
    start = one(
        shelf,
        VERSION,
        warning,
        *(f"WARNING 11-20 08:00:00 [a.py:1] number {n}" for n in range(99)),
        warning,
        "WARNING: ",
    )

    assert (start.warnings[0].quote.text, start.warnings[0].quote.line, start.warnings[0].count) == ("same", 2, 2)
    assert len(start.warnings) == 60


# Tracebacks


def logged(process: str, *lines: str) -> list[str]:
    return [f"({process}) ERROR 11-20 08:00:00 [core.py:9] {line}" for line in lines]


TB = "Traceback (most recent call last):"
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"


def test_interleaved_processes_keep_their_own_tracebacks(shelf: catalog_symptoms.Catalog) -> None:
    """Lines of two processes in turn give two tracebacks with the frames of each."""
    one_ = logged("Worker_TP0 pid=1", TB, '  File "/x/a.py", line 1, in a', "    code()", "ValueError: first")
    two = logged("Worker_TP1 pid=2", TB, '  File "/x/b.py", line 2, in b', "    code()", "KeyError: 'second'")
    start = one(shelf, VERSION, *(line for pair in zip(one_, two, strict=True) for line in pair))

    assert [
        (t.process, t.chain[0].type, t.chain[0].message, [f.function for f in t.chain[0].frames])
        for t in start.tracebacks
    ] == [
        (Process("Worker_TP0", 1), "ValueError", "first", ["a"]),
        (Process("Worker_TP1", 2), "KeyError", "'second'", ["b"]),
    ]


def test_chains_by_cause_and_context(shelf: catalog_symptoms.Catalog) -> None:
    """One traceback, oldest exception first, each with how it followed; messages over lines belong to it."""
    frame = '  File "/x/a.py", line {0}, in f{0}'
    start = one(
        shelf,
        VERSION,
        TB,
        frame.format(1),
        "    code()",
        "ValueError",
        "",
        CAUSE,
        "",
        TB,
        frame.format(2),
        "pkg.mod.OddName: why",
        "and more",
        "",
        CONTEXT,
        "",
        TB,
        frame.format(3),
        "RuntimeError: last",
    )

    (traceback,) = start.tracebacks
    assert [(r.type, r.message, r.link, [f.line for f in r.frames]) for r in traceback.chain] == [
        ("ValueError", "", None, [1]), ("pkg.mod.OddName", "why", "cause", [2]), ("RuntimeError", "last", "context",
        [3]),
    ]  # fmt: skip
    assert traceback.logged is False


def test_a_second_traceback_is_not_chained(shelf: catalog_symptoms.Catalog) -> None:
    """Without a linking sentence there are two; a frame without a heading begins one too."""
    frame = '  File "/x/a.py", line 1, in f'
    start = one(shelf, VERSION, TB, frame, "ValueError: a", TB, frame, "ValueError: b", frame, "ValueError: c", CAUSE)

    assert [[r.message for r in t.chain] for t in start.tracebacks] == [["a"], ["b"], ["c"]]


def test_an_exception_group_is_read_without_its_margin(shelf: catalog_symptoms.Catalog) -> None:
    """The bars before a group's lines are dropped."""
    start = one(
        shelf,
        VERSION,
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/x/a.py", line 1, in f',
        "  |     run()",
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
    )

    assert [t.chain[0].type for t in start.tracebacks] == ["ExceptionGroup"]


MESSAGE = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.mark.parametrize("indent", ["    ", "\t", ""])
@pytest.mark.parametrize("head", ["", "(APIServer pid=5) ERROR 11-20 08:00:00 [a.py:1] "])
def test_source_code_never_matches_a_symptom(shelf: catalog_symptoms.Catalog, indent: str, head: str) -> None:
    """A source line with a message is ignored, even in a paste without indentation."""
    lines = [
        TB,
        '  File "/x/a.py", line 1, in f',
        f'{indent}raise RuntimeError("{MESSAGE}")',
        f"{indent}raise" if indent else "KeyError: x",
    ]
    start = one(shelf, VERSION, *(f"{head}{line}" for line in lines))
    said = one(shelf, VERSION, *(f"{head}{line}" for line in (*lines[:3], f"RuntimeError: {MESSAGE}")))

    assert [hit.symptom for hit in start.hits if "dead_wrapper" in hit.symptom] == []
    assert [hit.quote.line for hit in said.hits if "dead_wrapper" in hit.symptom] == [5]


def test_text_from_users_never_matches_a_symptom(shelf: catalog_symptoms.Catalog) -> None:
    """Logged prompts that quote errors are not errors."""
    start = one(shelf, recorded("requests-quote-errors"))

    assert [hit.symptom for hit in start.hits if hit.symptom.startswith(("oom", "kv"))] == []


@pytest.mark.slow
def test_very_many_lines_keep_bounded_records(shelf: catalog_symptoms.Catalog) -> None:
    """Hits, tracebacks, chains, frames and events are bounded; the first and last are kept."""
    frame = '  File "/x/a.py", line 1, in f'
    alone = one(shelf, VERSION, *["ValueError: x\n"] * 300)
    chain = one(shelf, VERSION, *[f"{TB}\n{frame}\nValueError: x\n\n{CONTEXT}\n"] * 120)
    deep = one(shelf, VERSION, TB, *[frame] * 3000, OOM)
    hits = one(shelf, VERSION, *[f"{OOM}\n"] * 2100, "OSError: [Errno 28] No space left on device\n")
    served = one(shelf, VERSION, READY, *[SERVED] * 900)

    assert len(alone.tracebacks) == 200
    assert max(len(t.chain) for t in chain.tracebacks) == 20
    assert len(deep.tracebacks[0].chain[0].frames) == 200
    assert len(hits.hits) < 2000
    assert hits.hits[-1].symptom == "storage.disk_full"
    assert hits.hits[-1].traceback == 199
    assert served.outcome_quote is not None
    assert served.outcome_quote.line == 902


# The summary of a launch

NOBODY = Process(None)


def line(number: int, text: str = "x", process: Process = NOBODY, **more: Any) -> LogLine:
    return LogLine(number, text, process, **more)


def at(number: int) -> Quote:
    return Quote(0, number, 1, "x")


def drafted(*readings: tuple[str, float] | tuple[str, float, Process], **more: Any) -> ServerRun:
    """The record of a launch whose lines printed certain figures."""
    draft = LaunchDraft(0, 1, Tracebacks(0), **more)
    draft.note_readings(
        PrintedFigure(name, value, "", None, who[0] if who else NOBODY, at(1)) for name, value, *who in readings
    )
    return draft.record(None)


def test_of_very_many_lines_the_first_and_the_last_are_kept() -> None:
    """Each kind up to its bound: the record of a log of any length stays small."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    for number in range(1, 5001):
        draft.note("failed", at(number))
        draft.note_hit(SymptomHit("a.b", 0, at(number), {}, NOBODY, None, None))
        draft.note_waiting(line(number))
        draft.note_calm(number % 2, number)
        draft.note_rank(Process("Worker", number), number)
        draft.note_progress(line(number, process=Process("Worker", number)))
        draft.meet(line(number, process=Process("Worker", number), source=f"a.py:{number}"))
    for number in range(1, 12):
        draft.note_readings([PrintedFigure("load_seconds", number, "s", None, NOBODY, at(number))] * 1999)

    assert [quote.line for quote in draft.events["failed"]] == [*range(1, 500), 5000]
    assert [hit.quote.line for hit in draft.hits] == [*range(1, 201), *range(4801, 5001)]
    assert list(draft.waited) == [*range(1, 500), 5000]
    assert {pid: list(lines) for pid, lines in draft.calm.items()} == {
        1: [4993, 4995, 4997, 4999], 0: [4994, 4996, 4998, 5000],
    }  # fmt: skip
    assert (len(draft.ranks), len(draft.progress), len(draft.processes), len(draft.sources)) == (4096, 4096, 4096, 2000)
    assert len(draft.readings) == 11 * 1999
    draft.note_progress(line(6000, process=Process("Worker", 1)))
    draft.note_progress(line(6001, process=Process("Worker", 5000)))
    assert (draft.progress[1], 5000 in draft.progress) == (6000, False)
    assert draft.ranks[Process("Worker", 4096)] == 4096


def test_of_very_many_calm_processes_the_first_are_watched() -> None:
    """4096 of them."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    for pid in (*range(4097), 5):
        draft.note_calm(pid, pid + 1)

    assert (len(draft.calm), list(draft.calm[5]), 4096 in draft.calm) == (4096, [6, 6], False)


def test_of_very_many_throughput_lines_ever_fewer_are_kept() -> None:
    """After 4096 of them every second, then every fourth; the fastest is that of all."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    for number in range(6200):
        draft.note_throughput(Throughput(number, 0.0, 9.5 if number == 4097 else 1.0, None, None, None))
    kept = [sample.line for sample in draft.throughput]

    assert kept[:3] == [0, 2, 4]
    assert kept[2040:2052] == list(range(4080, 4104, 2))
    assert (len(kept), draft.fastest, draft.throughput_lines) == (3100, 9.5, 6200)
    for number in range(6200, 8200):
        draft.note_throughput(Throughput(number, 0.0, 1.0, None, None, None))
    assert [sample.line for sample in draft.throughput][-2:] == [8192, 8196]
    assert [sample.line for sample in draft.throughput][:2] == [0, 4]


@in_one_test(
    ("readings", "more", "expected"),
    [
        # Of several ranks the largest share of weights and graphs counts, and the smallest cache.
        ([("weights_gib", 1.5), ("weights_gib", 2.5), ("profiled_weights_gib", 9.0)], {}, {"weights_gib": 2.5}),
        ([("profiled_weights_gib", 9.0)], {}, {"weights_gib": 9.0}),
        ([("kv_cache_gib", 3.0), ("kv_cache_gib", 2.0)], {}, {"kv_cache_gib": 2.0}),
        ([("kv_cache_tokens", 300.0), ("kv_cache_tokens", 200.0)], {}, {"kv_cache_tokens": 200}),
        ([("max_concurrency", 3.5), ("max_concurrency", 2.5)], {}, {"max_concurrency": 2.5}),
        ([("cuda_graph_gib", 0.5), ("cuda_graph_gib", 0.7)], {}, {"cuda_graph_gib": 0.7}),
        ([("cuda_graph_estimated_gib", 0.5), ("cuda_graph_estimated_gib", 0.7)], {}, {"cuda_graph_estimated_gib": 0.7}),
        ([("activation_gib", 0.5), ("activation_gib", 0.7)], {}, {"activation_gib": 0.7}),
        ([("non_torch_gib", 0.5), ("non_torch_gib", 0.7)], {}, {"non_torch_gib": 0.7}),
        ([("gpu_total_gib", 24.0), ("gpu_total_gib", 23.5)], {}, {"gpu_total_gib": 23.5}),
        ([("load_seconds", 3.0), ("load_seconds", 4.0)], {}, {"load_seconds": 4.0}),
        # The longest request: from the engine, the line, the argument, then the concurrency's
        # length.
        ([("max_model_len", 8.0), ("max_model_len", 9.0), ("max_concurrency_tokens", 7.0)],
         {"config": {"max_seq_len": 10}, "arguments": {"max_model_len": 6}}, {"max_model_len": 10}),
        ([("max_model_len", 8.0), ("max_model_len", 9.0)], {"arguments": {"max_model_len": 6}}, {"max_model_len": 9}),
        ([("max_concurrency_tokens", 7.0)], {"arguments": {"max_model_len": 6}}, {"max_model_len": 6}),
        ([("max_concurrency_tokens", 7.0)], {}, {"max_model_len": 7, "max_concurrency_tokens": 7}),
        ([("gpu_memory_utilization", 0.5), ("gpu_memory_utilization", 0.6)], {}, {"gpu_memory_utilization": 0.6}),
        ([("gpu_memory_utilization", 0.5)], {"arguments": {"gpu_memory_utilization": 0.8}},
         {"gpu_memory_utilization": 0.8}),
        # Blocks become tokens by the concurrency line, else by the argument.
        ([("kv_cache_blocks", 100.0)], {}, {"kv_cache_blocks": 100, "kv_cache_tokens": None}),
        ([("kv_cache_blocks", 100.0)], {"arguments": {"block_size": 16}}, {"kv_cache_tokens": 1600}),
        ([("kv_cache_blocks", 100.0), ("max_concurrency", 50.0), ("max_concurrency_tokens", 64.0)],
         {"arguments": {"block_size": 16}}, {"kv_cache_tokens": 3200}),
        ([("kv_cache_blocks", 100.0), ("max_concurrency", 50.0)],
         {"arguments": {"block_size": 16, "max_model_len": 64}}, {"kv_cache_tokens": 3200}),
        ([("kv_cache_blocks", 100.0), ("max_concurrency", 0.001), ("max_concurrency_tokens", 64.0)],
         {"arguments": {"block_size": 16}}, {"kv_cache_tokens": 1600}),
        ([("kv_cache_blocks", 100.0), ("kv_cache_tokens", 7.0)], {"arguments": {"block_size": 16}},
         {"kv_cache_tokens": 7}),
        # The engine's value takes precedence over the argument.
        ([], {"config": {"tensor_parallel_size": 2}, "arguments": {"tensor_parallel_size": 4}},
         {"tensor_parallel_size": 2}),
        ([], {"arguments": {"pipeline_parallel_size": "4", "data_parallel_size": 3.0}},
         {"pipeline_parallel_size": 4, "data_parallel_size": 3, "tensor_parallel_size": None}),
        ([], {"words": {"executor_backend": "mp"}, "arguments": {"distributed_executor_backend": "ray"}},
         {"executor_backend": "mp"}),
        ([], {"arguments": {"distributed_executor_backend": "ray"}}, {"executor_backend": "ray"}),
        ([], {"arguments": {"model": "a", "model_tag": "c"}, "config": {"model": "b"}, "words": {"model": "d"}},
         {"model": "a"}),
        ([], {"arguments": {"model": "None", "model_tag": "c"}, "config": {"model": "b"}, "words": {"model": "d"}},
         {"model": "b"}),
        ([], {"arguments": {"model": "", "model_tag": "c"}, "words": {"model": "d"}}, {"model": "c"}),
        ([], {"arguments": {"model": 7}, "words": {"model": "d"}}, {"model": "d"}),
        ([], {"words": {"architecture": "A"}, "config": {"quantization": "awq"}, "arguments": {"quantization": "fp8"}},
         {"architecture": "A", "quantization": "awq"}),
        ([], {"config": {"quantization": None}, "arguments": {"quantization": "fp8"}}, {"quantization": "fp8"}),
        # No number.
        ([], {"arguments": {"tensor_parallel_size": "\u00b2"}}, {"tensor_parallel_size": None}),
        ([], {"arguments": {"tensor_parallel_size": "9" * 30}}, {"tensor_parallel_size": int("9" * 18)}),
        ([], {"arguments": {"tensor_parallel_size": 1e18}}, {"tensor_parallel_size": None}),
        ([], {"arguments": {"tensor_parallel_size": -5e17}}, {"tensor_parallel_size": -(5 * 10**17)}),
        ([], {"arguments": {"gpu_memory_utilization": True}}, {"gpu_memory_utilization": None}),
        ([], {"arguments": {"gpu_memory_utilization": 10**18}}, {"gpu_memory_utilization": None}),
        ([], {"arguments": {"gpu_memory_utilization": 1}}, {"gpu_memory_utilization": 1.0}),
    ],
)  # fmt: skip
def test_each_fact_has_its_source(
    readings: list[tuple[str, float]], more: dict[str, Any], expected: dict[str, Any]
) -> None:
    """If several print it, the decisive one."""
    facts = drafted(*readings, **more).facts

    assert {name: getattr(facts, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("tokens", "meaning"),
    # Ten requests of 1000 tokens; two decimals of the concurrency leave 0.06 %, and 0.05 % are left for rounding.
    [(10_000, "full-length"), (10_011, "full-length"), (9_989, "full-length"), (10_012, "slots"), (9_988, "slots")],
)
def test_a_token_count_is_compared_within_rounding(tokens: float, meaning: str) -> None:
    """If a figure is missing or zero, the count has no meaning."""
    figures = [("kv_cache_tokens", tokens), ("max_concurrency", 10.0), ("max_concurrency_tokens", 1000.0)]

    assert drafted(*figures).facts.kv_cache_tokens_meaning == meaning
    for missing in range(3):
        without = [*figures[:missing], *figures[missing + 1 :]]
        assert drafted(*without).facts.kv_cache_tokens_meaning is None
        assert drafted(*without, (figures[missing][0], 0.0)).facts.kv_cache_tokens_meaning is None


RANKED: list[tuple[list[tuple[str, float, Process]], dict[str, Any], list[tuple[int | None, int | None]]]] = [
    # One process next to the driver: the driver is rank 0.
    ([("weights_gib", 1.0, Process("VllmWorkerProcess", 7)), ("weights_gib", 1.0, Process(None, 1))], {},
     [(0, 1), (1, 7)]),
    (
        [("weights_gib", 1.0, Process("VllmWorkerProcess", n)) for n in (7, 8)] + [("weights_gib", 1.0,
        Process(None, 1))],
        {}, [(None, 7), (None, 8), (None, 1)],
    ),
    ([("weights_gib", 1.0, Process("VllmWorkerProcess", 7))], {"config": {"tensor_parallel_size": 1}}, [(None, 7)]),
    # The only remaining one for a single rank; the server prints a length as well.
    ([("weights_gib", 1.0, Process("EngineCore", 7)), ("max_model_len", 9.0, Process("APIServer", 1))],
     {"config": {"tensor_parallel_size": 1}}, [(0, 7)]),
    ([("weights_gib", 1.0, Process("EngineCore", 7))], {"config": {"tensor_parallel_size": 2}}, [(None, 7)]),
    ([("weights_gib", 1.0, Process("EngineCore", n)) for n in (7, 8)], {"config": {"tensor_parallel_size": 1}},
     [(None, 7), (None, 8)]),
    ([("weights_gib", 1.0, Process("EngineCore", 7, rank=3))], {"config": {"tensor_parallel_size": 1}}, [(3, 7)]),
    # By name: tensor ranks within pipeline ranks.
    ([("weights_gib", 1.0, Process(f"Worker_PP{n}_TP{m}", n * 3 + m)) for n in (1, 0) for m in (2, 0)],
     {"config": {"tensor_parallel_size": 3}}, [(0, 0), (2, 2), (3, 3), (5, 5)]),
    ([("weights_gib", 1.0, Process("Worker_TP1", 7))], {}, [(1, 7)]),
    ([("weights_gib", 1.0, Process("Worker_PP1", 7))], {}, [(None, 7)]),
    ([("weights_gib", 1.0, Process("Worker_PP1", 7))], {"config": {"tensor_parallel_size": 2}}, [(2, 7)]),
    # The rank assigned in the log takes precedence over the name.
    ([("weights_gib", 1.0, Process("Worker_TP1", 7))], {"ranks": {Process("Worker_TP1", 7): 5}}, [(5, 7)]),
]  # fmt: skip


@pytest.mark.parametrize(("readings", "more", "expected"), RANKED)
def test_figures_are_listed_by_rank(
    readings: list[tuple[str, float, Process]], more: dict[str, Any], expected: list[tuple[int | None, int | None]]
) -> None:
    """In rank order, unknown ranks last; figures that are not per rank are left out."""
    start = drafted(*readings, **more)

    assert [(row.rank, row.pid) for row in start.ranks] == expected
    assert {reading.rank for reading in start.readings if reading.name == "weights_gib"} == {one for one, _ in expected}


def test_of_a_rank_s_figures_the_last_counts() -> None:
    """A profile is printed again when it was run again."""
    worker = Process("Worker_TP0", 7)
    (row,) = drafted(
        ("kv_cache_gib", 5.0, worker), ("kv_cache_gib", 4.0, worker), ("kv_cache_tokens", 9.0, worker)
    ).ranks

    assert (row.rank, row.process, row.pid, row.kv_cache_gib, row.weights_gib) == (0, "Worker_TP0", 7, 4.0, None)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("RayWorkerWrapper", "ray"), ("RayWorkerProc", "ray"), ("Worker_TP0", "mp"), ("Worker_PP1", "mp"),
        ("VllmWorker", "mp"), ("Worker", None), ("MyRayWorker", None), (None, None),
    ],
)  # fmt: skip
def test_an_executor_is_identified_by_its_workers(name: str | None, backend: str | None) -> None:
    """The prefix of their names decides."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    draft.meet(line(1, process=Process(name, 7)))

    assert draft.record(None).facts.executor_backend == backend


@in_one_test(
    ("texts", "outcome", "line_number"),
    [
        # A minute between the first and the last waiting line, after the last progress.
        ([STARTING.format("INFO", 1, 0), STARTING.format("INFO", 1, 5).replace(":50", ":59")], "unknown", None),
        ([STARTING.format("INFO", 1, n) for n in range(5)], "unknown", None),
        ([STARTING.format("INFO", 1, 0), STARTING.format("INFO", 1, 3), STARTING.format("INFO", 2, 0)], "hung", 4),
        ([STARTING.format("INFO", 1, 0), READY, STARTING.format("INFO", 2, 0)], "ready", 3),
        ([READY, SERVED, STARTING.format("INFO", 1, 0), STARTING.format("INFO", 2, 0)], "hung", 5),
        # An end is placed at its first line; earlier outcomes before ready are discarded.
        ([DIED, DIED], "failed", 2),
        ([DIED, READY], "ready", 3),
        ([READY, DIED, STOPPING], "failed", 3),
        ([*TRACE, READY], "ready", 5),
        ([READY, *TRACE, DIED], "failed", 5),
        ([STOPPING, DIED], "failed", 3),
        ([STOPPING], "failed", 2),
        ([READY, SERVED, SERVED], "running", 4),
        ([READY, READY], "ready", 2),
        # Three lines without an error may follow an error that ends its process.
        ([*told_at("ERROR"), *(HELLO.format("INFO", second) for second in (6, 7, 8))], "failed", 4),
        ([*told_at("ERROR"), *(HELLO.format("INFO", second) for second in (6, 7, 8, 9))], "unknown", None),
        ([READY, *told_at("ERROR")], "ready", 2),
    ],
)  # fmt: skip
def test_an_outcome_has_the_line_that_proves_it(
    shelf: catalog_symptoms.Catalog, texts: list[str], outcome: str, line_number: int | None
) -> None:
    """The first proof, or the last one for waiting."""
    start = one(shelf, VERSION, *texts)

    assert (start.outcome, start.outcome_quote and start.outcome_quote.line) == (outcome, line_number)


ENGINE = "INFO 11-20 08:00:0{} [core.py:1] Initializing a V1 LLM engine (v0.19.0) with config: model='m', seed=0"
LOADING = "INFO 11-20 08:00:01 [a.py:1] Starting to load model a/b..."
ENGINE_READY = (
    "(EngineCore pid=1) INFO 11-20 08:01:00 [core.py:1] init engine "
    "(profile, create kv cache, warmup model) took 32.50 seconds"
)
ALLOWED = "INFO 11-20 08:00:01 [model.py:1] Resolved architecture: LlamaForCausalLM"


@in_one_test(
    ("texts", "first_lines"),
    [
        # The server's first line again: another server, unless the same process prints it.
        ([VERSION, VERSION], [1, 2]),
        ([f"(APIServer pid=1) {VERSION}", f"(APIServer pid=1) {VERSION}"], [1]),
        ([f"(APIServer pid=1) {VERSION}", f"(APIServer pid=2) {VERSION}"], [1, 2]),
        ([f"(APIServer pid=1) {VERSION}", LOADING, f"(APIServer pid=1) {VERSION}"], [1, 3]),
        ([f"(APIServer pid=1) {VERSION}", "(APIServer pid=2) hello"], [1, 2]),
        ([VERSION, "(APIServer pid=2) hello", "(APIServer pid=2) hello"], [1]),
        ([f"(APIServer pid=1) {VERSION}", f"(EngineCore pid=2) {LOADING}"], [1]),
        # A command after a launch that is one.
        ([VERSION, "$ vllm serve m", VERSION], [1, 2]),
        (["$ vllm serve m", VERSION], [1]),
        # A second engine of a script, in another process, after the first is ready.
        ([f"(EngineCore pid=1) {ENGINE.format(1)}", f"(EngineCore pid=2) {ENGINE.format(2)}"], [1]),
        (
            [
                f"(EngineCore pid=1) {ENGINE.format(1)}",
                ENGINE_READY,
                f"(EngineCore pid=2) {ENGINE.format(2)}",
            ],
            [1, 3],
        ),
        # The configuration line again, after a traceback that ended a process.
        ([ALLOWED, *TRACE, ALLOWED], [1, 5]),
        ([ALLOWED, ALLOWED], [1]),
        ([f"(EngineCore pid=1) {ALLOWED}", *TRACE, f"(EngineCore pid=1) {ALLOWED}"], [1]),
        ([ALLOWED, READY, *TRACE, ALLOWED], [1]),
        ([ALLOWED, *told_at("ERROR"), ALLOWED], [1]),
    ],
)
def test_the_first_line_of_a_further_launch(
    shelf: catalog_symptoms.Catalog, texts: list[str], first_lines: list[int]
) -> None:
    """A line that only begins a launch, from another process or repeated."""
    assert [start.first_line for start in starts_of(shelf, *texts)] == first_lines


@pytest.mark.parametrize(("between", "first_line"), [(0, 1), (2, 1), (3, 6)])
def test_a_launch_begins_with_the_command_shown_near_it(
    shelf: catalog_symptoms.Catalog, between: int, first_line: int
) -> None:
    """Within four lines."""
    page = ["$ vllm serve m", "```", *["Prose."] * between, VERSION]

    assert one(shelf, *page, name="a.md").first_line == first_line


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("weights_gib", "GiB"), ("kv_cache_tokens", "tokens"), ("kv_cache_blocks", "blocks"), ("load_seconds", "s"),
        ("prompt_tokens_per_s", "tokens/s"), ("kv_cache_usage_percent", "%"), ("max_concurrency", "x"),
        ("gpu_memory_utilization", ""), ("max_model_len", "tokens"), ("version", None), ("tokens", None),
        ("tokens_before", None),
    ],
)  # fmt: skip
def test_a_figure_s_name_ends_in_its_unit(name: str, unit: str | None) -> None:
    """Or the name is registered; any other value is a word."""
    assert startup_log._unit(name) == unit


def raised(*functions: str) -> RaisedException:
    return RaisedException(
        "E", "x", at(1), tuple(Frame("/x/vllm/a.py", n, name) for n, name in enumerate(functions)), None
    )


@in_one_test(
    ("chain", "wanted", "expected"),
    [
        # The frames raised first are the innermost, and its last frame counts.
        ([raised("a", "b")], ("a",), (0, {})), ([raised("a", "b")], ("b",), (1, {})),
        ([raised("a", "a")], ("a",), (1, {})), ([raised("a")], ("c",), None), ([], ("a",), None),
        ([raised("a"), raised("b", "c")], ("a",), (2, {})), ([raised("a"), raised("b", "c")], ("b",), (0, {})),
        ([raised("a"), raised("b"), raised("c")], ("b",), (1, {})),
         ([raised("a"), raised("b"), raised("c")], ("c",), (0, {})),
        # A function's full name, with its file if requested, on any system.
        ([raised("ab")], ("a",), None), ([raised("a")], (r"a\.py:a",), (0, {})), ([raised("a")], (r"b\.py:a",), None),
        ([raised("a")], ("(?:a|b)",), (0, {})), ([raised("a")], ("b", "a"), (0, {})),
        ([raised("load_7")], (r"load_(?P<n>\d)(?P<m>x)?",), (0, {"n": "7"})),
        ([RaisedException("E", "x", at(1), (Frame("C:\\x\\a.py", 1, "a"),), None)], (r"a\.py:a",), (0, {})),
    ],
)  # fmt: skip
def test_the_innermost_of_the_requested_frames(
    chain: list[RaisedException], wanted: tuple[str, ...], expected: tuple[int, dict[str, str]] | None
) -> None:
    """Its depth counts from the outermost frame of the exception raised last."""
    assert startup_log._deepest(chain, Signature("x", frames=wanted)) == expected


@in_one_test(
    ("chain", "expected"),
    [
        ([raised("a", "b")], None), ([raised("b", "a")], (1, {})), ([raised("b")], None), ([], None),
        ([raised("a"), raised("b")], (1, {})), ([raised("b"), raised("a")], None),
    ],
)  # fmt: skip
def test_an_innermost_frame_has_no_other_below_it(
    chain: list[RaisedException], expected: tuple[int, dict[str, str]] | None
) -> None:
    assert startup_log._deepest(chain, Signature("x", frames=("a",), innermost=True)) == expected


@pytest.mark.parametrize("number", [7, 8, 9, 12])
def test_a_message_continues_for_eight_lines(shelf: catalog_symptoms.Catalog, number: int) -> None:
    """Indented lines after it; further lines stay in the log."""
    texts = [*TRACE[:2], "RuntimeError: head", *(f"  line {n}" for n in range(1, number + 1))]
    (told,) = one(shelf, VERSION, *texts).tracebacks

    assert told.chain[0].message == " ".join(["head", *(f"line {n}" for n in range(1, min(number, 8) + 1))])


@pytest.mark.parametrize("between", range(5))
def test_an_ignored_traceback(shelf: catalog_symptoms.Catalog, between: int) -> None:
    """It follows the announcement within three lines."""
    texts = ["Exception ignored in: <f>", *["words"] * between, *TRACE]
    (told,) = one(shelf, VERSION, *texts).tracebacks

    assert told.ignored is (between < 3)


def test_of_very_many_tracebacks_and_frames_the_first_and_the_last_half_are_kept(
    shelf: catalog_symptoms.Catalog,
) -> None:
    """200 of each half; a chain has twenty links, then another traceback begins."""
    alone = one(shelf, VERSION, *[f"ValueError: {n}\n" for n in range(300)]).tracebacks
    frames = [f'  File "/x/a.py", line {n}, in f' for n in range(300)]
    (deep,) = one(shelf, VERSION, TB, *frames, OOM).tracebacks
    linked = one(shelf, VERSION, *[f"{TB}\n{frames[0]}\nValueError: {n}\n\n{CONTEXT}\n" for n in range(45)]).tracebacks

    assert [told.chain[0].message for told in alone] == [str(n) for n in (*range(100), *range(200, 300))]
    assert [frame.line for frame in deep.chain[0].frames] == [*range(100), *range(200, 300)]
    assert [[raised.message for raised in told.chain] for told in linked] == [
        [str(n) for n in range(first, min(first + 20, 45))] for first in (0, 20, 40)
    ]


SHELL = "~/a.py:12, in f(x)"


def spoken(number: int, text: str, **more: Any) -> LogLine:
    """A line of a log; after `!` one from a logger."""
    return line(number, text.removeprefix("!"), level="ERROR" if text.startswith("!") else None, **more)


def traced(*texts: str) -> Tracebacks:
    """The tracebacks of some lines, the first of which is line 1."""
    tracebacks = Tracebacks(0)
    for number, text in enumerate(texts, 1):
        tracebacks.follow(spoken(number, text))
    return tracebacks


@in_one_test(
    ("texts", "is_code"),
    [
        # A frame is code anywhere, also after a group's margin, and in a notebook's format.
        ([TRACE[1]], True), ([f"!{TRACE[1]}"], True), ([f"  | {TRACE[1]}"], True), ([SHELL], True), (["x"], False),
        (["    call()"], False), (["~/a.py"], False),
        # In an open traceback: indented lines, and the line after a frame.
        ([TB, "    call()"], True), ([TB, "\tcall()"], True), ([TB, "call(x"], False), ([TB, TRACE[1], "call(x"], True),
        ([TB, TRACE[1], "pass"], True), ([TB, TRACE[1], "KeyError"], False), ([TB, TRACE[1], "KeyError: x"], False),
        ([TB, TRACE[1], "odd.Name: x"], False), ([TB, TRACE[1], "call(x", "more(x"], False),
        ([TB, TRACE[1], "call(x", "  more(x"], True), ([TB, TRACE[1], "call(x", " KeyError: x"], False),
        ([TB, TRACE[1], "call(x", " more(x"], True), ([TB, TRACE[1], "call(x", "  | \tmore(x"], True),
        ([TB, TRACE[1], TB, "call(x"], False),
        # A logger's traceback continues only with the logger's lines, and vice versa.
        ([f"!{TB}", "!    call()"], True), ([f"!{TB}", "    call()"], False), ([TB, "!    call()"], False),
        # Not after its exception.
        ([*TRACE, "    call()"], False), ([*TRACE, TB, "    call()"], True),
    ],
)  # fmt: skip
def test_lines_of_code_in_a_traceback(texts: list[str], *, is_code: bool) -> None:
    """The last of the given lines is checked."""
    assert traced(*texts[:-1]).is_code(spoken(9, texts[-1])) is is_code


@in_one_test(
    ("text", "more", "message"),
    [
        ("more", {}, None), ("  more", {}, None), ("See: more", {}, None), ("KeyError", {}, "ValueError: a"),
        ("", {}, "ValueError: a"), ("   ", {}, "ValueError: a"), (TB, {}, "ValueError: a"),
        (TRACE[1], {}, "ValueError: a"), (SHELL, {}, "ValueError: a"), (CAUSE, {}, "ValueError: a"),
        (f"  {CONTEXT}", {}, "ValueError: a"), ("KeyError: 1", {}, "ValueError: a"), ("!more", {}, "ValueError: a"),
        ("more", {"source": "b.py:1"}, "ValueError: a"), ("more", {"process": Process("Worker", 2)}, None),
    ],
)  # fmt: skip
def test_the_end_of_a_message(text: str, more: dict[str, Any], message: str | None) -> None:
    """A line that begins something else or comes from elsewhere; other processes are ignored."""
    tracebacks = traced(*TRACE[:2], "ValueError: a")
    is_raised, complete = tracebacks.follow(spoken(9, text, **more))
    rest = " ".join(["ValueError: a", *([] if more else [text.strip()])])

    assert (is_raised, complete and complete.text) == (text == "KeyError: 1", message)
    assert [told.text for told in tracebacks.close()] == ([rest] if not message else [text] if is_raised else [])
    assert list(tracebacks.close()) == []


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_a_traceback_is_read_at_any_level(shelf: catalog_symptoms.Catalog, level: str) -> None:
    """With its frame and the text after its exception."""
    head = f"{level} 11-20 08:00:05 [a.py:1]"
    (told,) = one(shelf, VERSION, *told_at(level), f"{head}   and why", f"{head} other").tracebacks

    assert [(raised.message, len(raised.frames)) for raised in told.chain] == [("not here and why", 1)]
    assert (told.logged, told.ignored) == (True, False)


@in_one_test(
    ("texts", "expected"),
    [
        # Alone it needs a name, its words, and a logger that reports a fault.
        (["ValueError: x"], [("ValueError", "x", 1, 1)]), (["ValueError"], []), (["ValueError:x"], []),
        (["odd: x"], []), (["| ValueError: x"], []), (["!ValueError: x"], [("ValueError", "x", 1, 1)]),
        ([" ValueError: x"], []),
        # At the end of a traceback with frames any name counts, also after a blank.
        ([*TRACE[:2], "odd.Name"], [("odd.Name", "", 3, 1)]), ([*TRACE[:2], "odd: x: y"], [("odd", "x: y", 3, 1)]),
        ([TB, "odd: x"], []), ([*TRACE[:2], "    c()", " ValueError: x"], [("ValueError", "x", 4, 2)]),
        ([*TRACE[:2], "    c()", "  ValueError: x"], []), ([*TRACE[:2], " odd"], []), ([*TRACE[:2], "pass"], []),
        ([*TRACE[:2], "!odd: x"], []), ([f"!{TRACE[0]}", f"!{TRACE[1]}", "odd: x"], []),
        (["  | " + TB, "  | " + TRACE[1], "  | odd: x"], [("odd", "x", 3, 1)]),
        # The output of argparse, up to two words after the program's name.
        (["vllm: error: x"], [("SystemExit", "x", 1, 1)]), (["vllm serve: error: x"], [("SystemExit", "x", 1, 1)]),
        (["vllm bench serve: error: x y"], [("SystemExit", "x y", 1, 1)]), (["vllm a b c: error: x"], []),
        (["vllm run-batch: error: x"], [("SystemExit", "x", 1, 1)]), (["vllm: error: "], []),
        (["api_server.py: error: x"], [("SystemExit", "x", 1, 1)]), (["!vllm: error: x"], []),
        # The words of the code that a text ends in.
        ([*TRACE[:2], '    raise ValueError("No room'], [("ValueError", "No room", 3, 11)]),
        ([*TRACE[:2], '    raise ValueError("abc'], []), ([TB, '    raise ValueError("No room'], []),
        ([*TRACE[:2], '    raise ValueError("No room', "    )"], []), ([*TRACE[:2], "    raise ValueError(text"], []),
        ([*TRACE, "", '    raise ValueError("No room'], [("ValueError", "not here", 3, 1)]),
    ],
)  # fmt: skip
def test_an_exception_and_its_place(texts: list[str], expected: list[tuple[str, str, int, int]]) -> None:
    """Type, message, line and column."""
    tracebacks = traced(*texts)
    list(tracebacks.close())

    assert [
        (raised.type, raised.message, raised.quote.line, raised.quote.column)
        for told in tracebacks.records()
        for raised in told.chain
    ] == expected


def test_frames_that_a_notebook_prints_after_an_exception() -> None:
    """With the code between them, without the interpreter's frames."""
    texts = ["ValueError: a", SHELL, "     11 y()", "---> 12 x()", "", "~/b.py in C.g(x)", "words", TRACE[1]]
    (told,) = traced(*texts).records()

    assert told.chain[0].frames == (Frame("~/a.py", 12, "f"), Frame("~/b.py", 0, "g"))
    assert traced("ValueError: a", TRACE[1]).records()[0].chain[0].frames == ()
    assert traced(*TRACE, SHELL).records()[0].chain[0].frames == (Frame("a.py", 1, "f"),)
    assert traced("!ValueError: a", f"!{SHELL}").records()[0].chain[0].frames == ()
    assert len(traced("ValueError: a", *[SHELL] * 201).records()[0].chain[0].frames) == 200


def test_of_very_many_processes_the_tracebacks_of_the_latest_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that begins a traceback displaces the one that began first."""
    monkeypatch.setattr("vllm_runbooks.reading.startup_log.tracebacks._MAX_THREADS", 2)
    tracebacks = Tracebacks(0)
    for number in (1, 2, 3):
        for text in TRACE[:2]:
            tracebacks.follow(line(number, text, Process("Worker", number)))
    for number in (2, 1, 3):
        tracebacks.follow(line(number, TRACE[2], Process("Worker", number)))

    assert [(told.process.pid, len(told.chain[0].frames)) for told in tracebacks.records()] == [(2, 1), (1, 0), (3, 1)]


def test_tracebacks_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keeps its number if others are dropped; the last decides whether a process ended."""
    monkeypatch.setattr("vllm_runbooks.reading.startup_log.tracebacks.MAX_TRACEBACKS", 4)
    tracebacks = traced(*(text for number in range(6) for text in (f"ValueError: {number}", "")))

    assert (len(tracebacks), tracebacks.positions()) == (4, {0: 0, 1: 1, 4: 2, 5: 3})
    assert [[raised.message for raised in tracebacks.chain(number)] for number in (1, 2, 5, 6)] == [
        ["1"],
        [],
        ["5"],
        [],
    ]
    assert [traced(*texts).has_ended_one for texts in ([], TRACE, [f"!{text}" for text in TRACE])] == [
        False,
        True,
        False,
    ]
    assert traced("Exception ignored in: <f>", *TRACE).has_ended_one is False
    assert traced(*(f"!{text}" for text in TRACE), *TRACE).has_ended_one is True
    assert [traced(f"!{TRACE[2]}").records()[0].is_mild, traced(TRACE[2]).records()[0].is_mild] == [False, False]


EVENTS = ("begin", "engine", "engine_ready", "opening", "ready", "wrapper_ready", "served", "waiting", "stopping")


@in_one_test(
    ("events", "phase", "has_advanced", "has_ended"),
    [
        *(
            ([event], None, event in ("engine", "engine_ready", "ready", "stopping", "failed"),
             event in ("ready", "wrapper_ready", "served", "stopping", "failed"))
            for event in (*EVENTS, "kv", "failed")
        ),
        ([], None, False, False), ([], "configure", False, False), ([], "engine", True, False),
        ([], "serve", True, False),
    ],
)  # fmt: skip
def test_the_progress_of_a_launch(events: list[str], phase: str | None, *, has_advanced: bool, has_ended: bool) -> None:
    """Past its arguments, and far enough that another launch may follow."""
    phases = [Phase(phase, at(1), None, None, None)] if phase else []
    draft = LaunchDraft(0, 1, Tracebacks(0), phases=phases, events={event: [at(1)] for event in events})

    assert (draft.has_advanced, draft.has_ended) == (has_advanced, has_ended)
    assert (draft.phase, draft.has(*EVENTS)) == (phase, bool({*events} & {*EVENTS}))
    assert draft.is_log is bool({*events} - {"kv"})


def test_a_launch_with_a_traceback_or_an_answer_has_ended() -> None:
    """It counts as a log, as do errors and logger lines."""

    def draft(**more: Any) -> LaunchDraft:
        return LaunchDraft(0, 1, **{"tracebacks": Tracebacks(0), **more})

    served, died = draft(served=line(1)), draft(tracebacks=traced(*TRACE))
    fault, companion = draft(), draft()
    fault.note_hit(SymptomHit("a.b", 0, at(1), {}, NOBODY, None, None))
    companion.note_hit(SymptomHit("a.b", -1, at(1), {}, NOBODY, None, None))

    assert [one.has_ended for one in (served, died, fault, companion, draft())] == [True, True, False, False, False]
    assert [one.is_log for one in (served, died, fault, companion, draft())] == [True, True, True, False, False]
    assert [one.has_failure for one in (fault, companion)] == [True, False]
    assert draft(has_logged=True).is_log


def test_waiting_without_times_is_a_hang_from_the_second_line_on(shelf: catalog_symptoms.Catalog) -> None:
    """The log has no duration."""
    waiting = WAITING.partition("] ")[2]

    assert [str(one(shelf, VERSION, *[waiting] * number).outcome) for number in (1, 2)] == ["unknown", "hung"]


def test_of_very_many_launches_the_last_are_kept(
    shelf: catalog_symptoms.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 are kept; the first has the number of dropped ones."""
    assert startup_log._MAX_STARTS == 500
    monkeypatch.setattr(startup_log, "_MAX_STARTS", 2)

    for number, expected in ((1, [(1, 0)]), (2, [(1, 0), (2, 0)]), (3, [(2, 1), (3, 0)]), (5, [(4, 3), (5, 0)])):
        starts = starts_of(shelf, *[VERSION] * number)
        assert [(start.first_line, start.left_out) for start in starts] == expected


def test_figures_quoted_before_a_log_are_ignored(shelf: catalog_symptoms.Catalog) -> None:
    """No logger printed them; figures from a logger belong to another launch."""
    quoted = "GPU KV cache size: 5,000 tokens"
    server = f"(APIServer pid=1) {VERSION}"

    assert [(s.first_line, s.facts.kv_cache_tokens) for s in starts_of(shelf, quoted, server)] == [(2, None)]
    assert [(s.first_line, s.facts.kv_cache_tokens) for s in starts_of(shelf, f"{LOGGED}{quoted}", server)] == [
        (1, 5000)
    ]
    assert [(s.first_line, s.facts.kv_cache_tokens) for s in starts_of(shelf, quoted, VERSION)] == [(2, None)]


ARGUMENTS = f"{LOGGED}non-default args: {{'model': 'm',"


def test_text_after_wrapped_arguments_is_read(shelf: catalog_symptoms.Catalog) -> None:
    """Their last line closes the outer bracket; inner brackets do not count."""
    start = one(shelf, VERSION, ARGUMENTS, "'sizes': {'a': 1},", "'seed': 3}", "ValueError: why")

    assert (start.arguments["model"], start.arguments["seed"]) == ("m", 3)
    assert [told.chain[0].message for told in start.tracebacks] == ["why"]


@pytest.mark.parametrize("number", [98, 99, 100, 105])
def test_arguments_are_wrapped_over_a_hundred_lines(shelf: catalog_symptoms.Catalog, number: int) -> None:
    """Of up to 1000 characters."""
    rows = [f"'k{n}': {n}," for n in range(1, number + 1)]
    start = one(shelf, VERSION, ARGUMENTS, *rows)

    assert [name for name in start.arguments if name[0] == "k"] == [f"k{n}" for n in range(1, min(number, 99) + 1)]


@pytest.mark.parametrize(("length", "value"), [(1000, 12), (1001, 1)])
def test_a_wrapped_line_has_at_most_a_thousand_characters(
    shelf: catalog_symptoms.Catalog, length: int, value: int
) -> None:
    """The rest is dropped."""
    row = f"'a': '{'x' * (length - 19)}', 'seed': 12"
    start = one(shelf, VERSION, ARGUMENTS, row, "}")

    assert len(row) == length
    assert start.arguments["seed"] == value


@pytest.mark.parametrize(
    ("figures", "words", "sample"),
    [
        ({"generation_tokens_per_s": 0.0}, {}, Throughput(3, 0.0, 0.0, None, None, None)),
        ({"generation_tokens_per_s": 0.5}, {"running": "2"}, Throughput(3, 0.0, 0.5, 2, None, None)),
        (
            {"generation_tokens_per_s": 9.0, "prompt_tokens_per_s": 7.5, "kv_cache_usage_percent": 1.5},
            {"waiting": "4", "running": "0"}, Throughput(3, 7.5, 9.0, 0, 4, 1.5),
        ),
    ],
)  # fmt: skip
def test_a_periodic_line_is_a_sample(figures: dict[str, float], words: dict[str, str], sample: Throughput) -> None:
    """It proves a served request if it counts any token."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    startup_log._take_throughput(draft, line(3), figures, words)

    assert (draft.throughput, draft.fastest) == ([sample], sample.generation_tokens_per_s)
    assert draft.served == (line(3) if sample.generation_tokens_per_s else None)


def test_phases_follow_their_order_and_have_the_longest_of_their_durations() -> None:
    """A completed phase does not begin again; durations printed later still count."""
    draft = LaunchDraft(0, 1, Tracebacks(0), last_time="11-20 08:00:00")

    def take(number: int, phase: str, seconds: float | None = None, name: str = "load_seconds") -> None:
        known = LineFormat("x", (), (), phase=phase, duration="load_seconds")
        figures = {} if seconds is None else {name: seconds}
        startup_log._take_phase(draft, line(number, process=Process("W", number)), known, figures, at(number))

    take(1, "load")
    take(2, "load", 3.0)
    take(3, "capture", 5.0)
    take(4, "load", 2.0)
    take(5, "load", 4.0)
    take(6, "configure")
    take(7, "capture", 9.0, "capture_seconds")

    assert draft.phases == [
        Phase("load", at(1), "11-20 08:00:00", None, 4.0), Phase("capture", at(3), "11-20 08:00:00", None, 5.0),
    ]  # fmt: skip
    assert draft.progress == {number: number for number in range(1, 8)}


@pytest.mark.parametrize(
    ("signature", "phase", "has_message", "expected"),
    [
        # Certainty of the place: not required, by the phase, by the depth of a frame.
        (Signature("x"), None, False, (-2, None, {"a": "1"})), (Signature("x"), "load", True, (-2, 0, {"a": "1"})),
        (Signature("x", phases=("load",)), None, False, None), (Signature("x", phases=("load",)), "serve", False, None),
        (Signature("x", phases=("serve", "load")), "load", False, (-1, None, {"a": "1"})),
        (Signature("x", exception=True), None, False, None),
        (Signature("x", exception=True), None, True, (-2, 0, {"a": "1"})),
        (Signature("x", frames=("g",)), None, False, None), (Signature("x", frames=("h",)), None, True, None),
        (Signature("x", frames=("g",)), None, True, (1, 0, {"a": "1"})),
        (Signature("x", frames=("(?P<a>f)",)), None, True, (0, 0, {"a": "1"})),
        (Signature("x", frames=("(?P<b>f)",)), None, True, (0, 0, {"a": "1", "b": "f"})),
        (Signature("x", frames=("f",), phases=("load",)), "load", True, (0, 0, {"a": "1"})),
    ],
)  # fmt: skip
def test_where_a_symptom_counts(
    shelf: catalog_symptoms.Catalog,
    signature: Signature,
    phase: str | None,
    has_message: bool,  # noqa: FBT001 - a table's column
    expected: tuple[int, int | None, dict[str, str]] | None,
) -> None:
    """In its phases, at an exception, or with a certain frame in the traceback."""
    tracebacks = traced(*TRACE[:2], '  File "b.py", line 2, in g', "ValueError: x")
    phases = [Phase(phase, at(1), None, None, None)] if phase else []
    draft = LaunchDraft(0, 1, tracebacks, phases=phases)
    meant = startup_log._SymptomMatch("a.b", 3, signature, PatternMatch(0, 0, 1, {"a": "1"}))
    (message,) = tracebacks.close()
    startup_log._LogReader(0, shelf)._take_hit(draft, message.line, meant, message if has_message else None)

    assert [(hit.depth, hit.traceback, hit.captures) for hit in draft.hits] == ([expected] if expected else [])
    assert {(hit.symptom, hit.signature, hit.phase, hit.quote.line) for hit in draft.hits} <= {("a.b", 3, phase, 4)}


@pytest.mark.parametrize(
    ("text", "has_cache"),
    [
        ("GPU KV cache size: 5,000 tokens", True), ("# GPU blocks: 500, # CPU blocks: 0", True),
        ("Model loading took 13.72 GiB memory and 62.3 seconds", False), ("Starting to load model a/b...", False),
    ],
)  # fmt: skip
def test_a_wrappers_ready_message_counts_after_the_cache(
    shelf: catalog_symptoms.Catalog, text: str, *, has_cache: bool
) -> None:
    """The cache size is in tokens or blocks; no other figure counts."""
    start = one(shelf, VERSION, f"{LOGGED}{text}", "vLLM Engine created with fallback configuration")

    assert start.outcome == ("ready" if has_cache else "unknown")


def test_a_followed_log_is_reported_at_each_pause(shelf: catalog_symptoms.Catalog) -> None:
    """Once for each pause with new lines, and at the end."""
    pieces = [f"{VERSION}\n", f"{READY}\n", "", "", "", SERVED, "\n", "", f"{DIED}\n"]
    told = startup_log.follow(Evidence((Document("a.log", lambda: iter(pieces)),)), shelf)

    assert [[str(start.outcome) for start in starts] for starts in told] == [["ready"], ["running"], ["failed"]]


HEAD = "RuntimeError: head"


@in_one_test(
    ("texts", "message"),
    [
        # Indented lines, up to the first other line; any line after a colon.
        ([HEAD, "a"], "head"), ([HEAD, "  a", "b", "  c"], "head a"), ([HEAD, "\ta", " b"], "head a b"),
        ([f"{HEAD}:", "a", "  b", "c"], "head: a b c"), ([HEAD, "  a:", "b", "c"], "head a: b c"),
        ([HEAD, "a", "  b:", "c"], "head"), ([f"{HEAD}:", "", "a"], "head:"), ([HEAD, "", "  a"], "head"),
        ([f"{HEAD}:", "For further information visit http://h", "a"], "head: a"),
        ([f"{HEAD}:", "  For further information visit http://h", "  a"], "head: a"),
        # The rest of a sentence that a paste wrapped, and no line after its end.
        ([f"{HEAD} found with", "b.", "c"], "head found with b."), ([f"{HEAD} (b", "c)", "d"], "head (b c)"),
        ([f"{HEAD}.", "Reasons: {b: [c,", "d]}", "e"], "head. Reasons: {b: [c, d]}"),
        # At most two such lines, unless vLLM lists settings or reasons.
        ([f"{HEAD} (b", "c", "d", "e"], "head (b c d"), ([f"{HEAD} with AConfig(b,", "c,", "d,", "e)"],
          "head with AConfig(b, c, d, e)"),
        # No bracket within quotes, prompt or other exception.
        ([f"{HEAD} '{{'", "a"], "head '{'"), ([f"{HEAD} can't (b", "c's)", "d"], "head can't (b c's)"),
        ([f"{HEAD} '{{' in", "root@pod-1:/app# nvidia-smi"], "head '{' in"), ([f"{HEAD} in", "$ ls"], "head in"),
        ([f"{HEAD} in", "[me@node ~]$"], "head in"), ([f"{HEAD} in", "(venv) bash-5.1$ ls"], "head in"),
        ([f"{HEAD} in", "torch.OutOfMemoryError happened earlier"], "head in"),
        ([f"{HEAD} of", "100% of $5"], "head of 100% of $5"),
        # An exception that the message names, and nothing after it.
        ([f"{HEAD} raised:", "KeyError: a", "  b"], "head raised: KeyError: a"), ([f"{HEAD}:", "KeyError: a"], "head:"),
        ([f"{HEAD}:", *(f"a{n}" for n in range(9))], "head: a0 a1 a2 a3 a4 a5 a6 a7"),
        ([f"!{HEAD}:", "a"], "head:"), ([f"!{HEAD}:", "!a"], "head: a"), ([f"{HEAD}:", "!a"], "head:"),
    ],
)  # fmt: skip
def test_lines_shown_with_an_exception(texts: list[str], message: str) -> None:
    """Only those that must belong to its message."""
    assert traced(*texts).records()[0].chain[0].message == message


def test_times_and_processes_of_a_launch() -> None:
    """The first valid time, the last time, and each process and place once, in order."""
    draft = LaunchDraft(0, 1, Tracebacks(0))
    times = (None, "nonsense", "11-20 08:00:01", "11-20 08:00:05", None, "11-20 08:00:03")
    for number, told in enumerate(times, 1):
        draft.meet(line(number, process=Process("W", number % 2), time=told, source="a.py:1" if number > 2 else None))

    assert (draft.first_moment, draft.last_time) == (printed.moment("11-20 08:00:01"), "11-20 08:00:03")
    assert (list(draft.processes), draft.sources) == ([Process("W", 1), Process("W", 0)], {"a.py:1"})


@pytest.mark.parametrize(
    ("version", "candidates", "known"),
    [
        (None, (), None), ("0.19.0", (), "0.19.0"), ("0.19.0", ("0.9.2",), "0.19.0"), ("nonsense", (), None),
        ("nonsense", ("0.11.0", "0.9.2"), "0.9.2"), (None, ("0.8.5", "0.9.2"), "0.9.2"), (None, ("0.8.5",), "0.8.5"),
    ],
)  # fmt: skip
def test_the_release_whose_options_are_used(
    version: str | None, candidates: tuple[str, ...], known: str | None
) -> None:
    """The log's release, else the newest possible one."""
    assert startup_draft._data_for(version, candidates) == known


@pytest.mark.parametrize(
    ("seen", "name", "is_server"),
    [
        *(({one}, None, True) for one in ("server-begin", "opening", "server-version", "banner-version")),
        (set[str](), None, False), ({"engine"}, "EngineCore", False), (set[str](), "APIServer", True),
        (set[str](), "ApiServer_0", True), (set[str](), "MyAPIServer", False),
    ],
)  # fmt: skip
def test_a_server_is_identified_by_a_line_or_a_process(seen: set[str], name: str | None, *, is_server: bool) -> None:
    """A line that only a server prints, or the process's name."""
    draft = LaunchDraft(0, 1, Tracebacks(0), seen=seen, processes={Process(name): None})

    assert startup_draft._is_server(draft) is is_server


def test_the_record_of_a_launch() -> None:
    """Its lines, ordered hits, counted warnings and release."""
    draft = LaunchDraft(2, 7, traced(*TRACE), version="0.19.0", warnings={"w": [at(3), 4]})
    for number, column, traceback in ((5, 2, 1), (4, 9, 0), (5, 1, None)):
        draft.note_hit(SymptomHit("a.b", 0, Quote(2, number, column, "x"), {}, NOBODY, None, traceback))
    start = draft.record("0.11.0")

    assert (start.file, start.first_line, start.last_line, start.command) == (2, 7, 7, None)
    assert [(hit.quote.line, hit.quote.column) for hit in start.hits] == [(4, 9), (5, 1), (5, 2)]
    assert [hit.traceback for hit in start.hits] == [0, None, None]
    assert [(one.quote.line, one.count) for one in start.warnings] == [(3, 4)]
    assert (start.release.version, start.release.source) == ("0.11.0", "given")
    draft.version, draft.last_line, draft.served = None, 9, line(8, "text")
    again = draft.record("0.11.0")
    assert (again.release.version, again.release.source, again.last_line) == ("0.11.0", "given", 9)
    assert (again.outcome, again.outcome_quote) == ("running", Quote(2, 8, 1, "text"))


# Hostile text


def mutated(chance: random.Random, text: str, other: str) -> str:
    """Cut, splice, overwrite and flood the text, seeded."""
    begin, end = sorted((chance.randrange(len(text)), chance.randrange(len(text))))
    noise = "".join(chr(chance.choice((0, 7, 8, 13, 27, 91, 96, 124, 233, 0x4E2D, 0xD800))) for _ in range(40))
    return chance.choice(
        (
            text[begin:end],
            text[:begin] + other[begin % len(other) :],
            text[:begin] + noise + text[begin:],
            text.replace("\n", "\r"),
            text.replace("\n", ""),
            text.replace(" ", ""),
            "".join(c if chance.random() > 0.02 else chance.choice(noise) for c in text),
            text[begin:end] + "\x1b[" * 5000 + "\r" * 5000,
            text.replace("(", "\x1b[1m(\x1b[0m"),
        )
    )


@in_one_test("seed", range(24))
def test_damaged_logs_are_read_in_bounded_time(shelf: catalog_symptoms.Catalog, seed: int) -> None:
    """Any damaged log: no exception, places inside the file, short excerpts, little time."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    texts = every_recorded_text()
    text = mutated(chance, chance.choice(texts), chance.choice(texts))
    begun = time.process_time()

    starts = starts_of(shelf, text)

    assert time.process_time() - begun < 1.0
    check_places(text, starts)


def check_places(text: str, starts: list[ServerRun]) -> None:
    rows = [len(row) + 1 for row in text.split("\n")]
    for start in starts:
        assert 1 <= start.first_line <= start.last_line <= len(rows)
        quotes = [start.outcome_quote, *(h.quote for h in start.hits), *(r.quote for r in start.readings)]
        quotes += [w.quote for w in start.warnings] + [r.quote for t in start.tracebacks for r in t.chain]
        for quote in filter(None, quotes):
            assert len(quote.text) <= 400
            assert 1 <= quote.line <= len(rows)
            assert 1 <= quote.column <= rows[quote.line - 1]


@pytest.mark.slow
def test_one_line_of_a_megabyte(shelf: catalog_symptoms.Catalog) -> None:
    """A log whose line ends are all lost is read within seconds."""
    text = VERSION + recorded("gpt-oss-gemma-a100-four-starts").replace("\n", "") * 15 + "x" * 100_000
    begun = time.process_time()

    starts = starts_of(shelf, text)

    assert time.process_time() - begun < 5.0
    assert len(starts) >= 4
    check_places(text, starts)


PIECES = [
    VERSION, READY, SERVED, STOPPING, DIED, OOM, ARGS, TB, CAUSE, CONTEXT,
    '  File "/x/a.py", line 1, in f', "    code()",
    "vllm serve m \\", "--seed 1", "llm = LLM(", "```", "# Title", "| a | b |", "^C", "args: Namespace(a=1, ",
    "(Worker_TP1 pid=2) INFO 11-20 08:00:03 [a.py:1] Available KV cache memory: 9.93 GiB",
]  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=30), max_size=25),
    st.sampled_from(["\n", "\r", "", " "]),
    st.sampled_from(["a.log", "a.md"]),
)
def test_launches_of_any_text_lie_inside_the_file(
    shelf: catalog_symptoms.Catalog, pieces: list[str], between: str, name: str
) -> None:
    """No order of lines raises."""
    text = between.join(pieces)

    check_places(text, starts_of(shelf, text, name=name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        VERSION, READY, SERVED, STOPPING, DIED, OOM, ARGS, TB, f'{TB}\n  File "/x/a.py", line 1, in f',
        f"ValueError: x\n{CONTEXT}", "vllm serve m \\", "--seed 1 \\",
        "args: Namespace(a=1, ", "llm = LLM(", "```", "(A pid=1)", "x", "(APIServer pid=1) hello", "WARNING: odd",
        "api_key=x",
    ],
)  # fmt: skip
def test_reading_is_linear_in_repeated_lines(shelf: catalog_symptoms.Catalog, unit: str) -> None:
    """Doubling any repeated line at most doubles the cost of reading."""
    text = f"{unit}\n" * (10_000 // (len(unit) + 1))

    assert growth(lambda repeated: starts_of(shelf, repeated), text) <= LIMIT


@pytest.mark.slow
def test_reading_is_linear_in_a_long_log(shelf: catalog_symptoms.Catalog) -> None:
    """Twice the log costs at most three times."""
    text = "".join(every_recorded_text()[:12])

    assert growth(lambda repeated: starts_of(shelf, repeated), text) <= LIMIT


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_both_engines_give_the_same_records(shelf: catalog_symptoms.Catalog, step: int) -> None:
    """With google-re2 and without it every recorded log reads alike; by default every twelfth is tried."""
    plain = replace(shelf)
    vars(plain)["patterns"] = PatternSet(shelf.patterns.patterns, engine="re")

    for text in every_recorded_text()[::step]:
        assert starts_of(plain, text) == starts_of(shelf, text)
