"""Generated logs of servers, and what reading a log or running a command costs."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import symptoms as catalog_symptoms
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.reading import startup_log

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
            request = f"request cmpl-{n:032x}-0"
            sampling = f"params: SamplingParams(n=1, temperature=0.7, max_tokens={n})"
            received = f"Received {request}: prompt: {said!r}, {sampling}, prompt_token_ids: None, lora_request: None."
            added = f"[async_llm.py:345] Added {request}."
            lines.append(f"{server} {at} {f'[logger.py:41] {received}' if kind < 0.33 else added}")
        else:
            lines.append(f"{engine} DEBUG {at} [core.py:{n % 900}] EngineCore loop active: {said[:40]}.")
    return "\n".join(lines) + "\n"


def seconds(function: Callable[[], object]) -> float:
    """Processor seconds of a call, without what the objects of earlier tests cost the garbage collector."""
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    function()
    spent = time.process_time() - begun
    gc.unfreeze()
    return spent


def reader_of(evidence: Evidence, count: int) -> Callable[[], object]:
    """Reads evidence with about this number of patterns, with the same matches."""
    shelf = catalog.load_catalog()
    part = "\n".join(evidence.documents[0].text.splitlines()[:400])
    lines = tuple(line for line in shelf.lines if scan.PatternSet(line.patterns).find(part))
    chosen = catalog_symptoms.Catalog({}, lines)
    for symptom in shelf.symptoms.values():
        if len(chosen.patterns.patterns) < count and not symptom.companions:
            chosen = catalog_symptoms.Catalog({**chosen.symptoms, symptom.id: symptom}, lines)
    assert count <= len(chosen.patterns.patterns) < count * 1.2
    startup_log.read(evidence, chosen)
    return lambda: startup_log.read(evidence, chosen)


class Run(NamedTuple):
    """A command in a separate process."""

    status: int
    cpu_seconds: float
    resident_mib: float


def measured(*command: str, out: Path) -> Run:
    """Run a command with its output in a file, and measure it."""
    with out.open("wb") as file:
        measuring = [sys.executable, "-c", _MEASURED, *command]
        done = subprocess.run(measuring, stdout=file, stderr=subprocess.PIPE, check=True, timeout=900)
    status, cpu_seconds, resident_kib = json.loads(done.stderr.splitlines()[-1])
    return Run(status, cpu_seconds, resident_kib / 1024)


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
