"""A small load by vLLM's own `vllm bench serve`, to compare launches."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.host.running import RedactedOutput, SupervisedCommand
from vllm_runbooks.probe.asking import Target
from vllm_runbooks.probe.starts import LoadResult
from vllm_runbooks.reading.arguments.as_typed import option_of
from vllm_runbooks.serve.subject import ServedLaunch

LOG, RESULT = "bench.log", "bench.json"
_MAX_RESULT = 16 << 20
_MAX_SAID = 200
_FAULT = re.compile(r"(?:[\w.]{0,80}(?:Error|Exception)\b|.{0,80}\berror:).*", re.ASCII)
_TAKEN_OVER = ("tokenizer", "tokenizer_mode", "trust_remote_code")
"""Server options that decide how prompts are tokenized."""


@dataclass(frozen=True)
class Load:
    """Requests of random tokens, each answered to its full length."""

    requests: int = 32
    prompt_tokens: int = 128
    answer_tokens: int = 32
    at_once: int = 8
    within_s: float = 600.0

    def __post_init__(self) -> None:
        for name in ("requests", "prompt_tokens", "answer_tokens", "at_once"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise InputError(f"load: {name} is {getattr(self, name)!r}; use a whole number, at least 1")


def measure(
    load: Load, subject: ServedLaunch, target: Target, folder: Path, *, is_cancelled: Callable[[], bool] = lambda: False
) -> LoadResult:
    """Send the load with the command's own vLLM to `target`; log and result go into `folder`."""
    program = _program(subject)
    if program is None or subject.model is None:
        what = "vllm is not in PATH on this host" if program is None else "the command has no model name"
        return LoadResult("", None, load.requests, reason=f"{what}, so `vllm bench serve` cannot send a load")
    words = [*program, "bench", "serve", *_options(load, subject, target, folder)]
    command = redact_text(shlex.join(words))
    environment = {**subject.run[1], **({"OPENAI_API_KEY": target.key} if target.key else {})}
    try:
        with (folder / LOG).open("wb") as log:
            live = RedactedOutput(lambda chunk: _write(log, chunk), known=subject.known)
            status = _run(words, environment, live, load.within_s, is_cancelled)
    except (InputError, OSError) as error:
        return LoadResult(command, None, load.requests, reason=redact_text(f"{error}"))
    if status != 0:
        why = "it was stopped" if status is None else f"it exited with status {status}"
        return LoadResult(command, status, load.requests, reason=f"{why}{_last_fault(folder / LOG)}")
    return _measured(command, load, folder / RESULT)


def _program(subject: ServedLaunch) -> list[str] | None:
    if subject.is_container:
        return None
    if subject.python is not None:
        return [subject.python, "-m", "vllm.entrypoints.cli.main"]
    path = shutil.which("vllm", path=subject.variables.get("PATH"))
    return None if path is None else [path]


def _options(load: Load, subject: ServedLaunch, target: Target, folder: Path) -> list[str]:
    names = subject.flags.get("served_model_name")
    name = names[0] if isinstance(names, list) and names else names if isinstance(names, str) else subject.model
    options: dict[str, Any] = {
        "backend": "openai",
        "base-url": target.place,
        "model": subject.model,
        "served-model-name": name,
        "dataset-name": "random",
        "random-input-len": load.prompt_tokens,
        "random-output-len": load.answer_tokens,
        "num-prompts": load.requests,
        "max-concurrency": load.at_once,
        "seed": 0,
        "result-dir": folder,
        "result-filename": RESULT,
    }
    words = [word for option, value in options.items() for word in (f"--{option}", f"{value}")]
    for dest in _TAKEN_OVER:
        value, option = subject.flags.get(dest), option_of(dest)
        words += [option] if value is True else [option, value] if isinstance(value, str) else []
    return [*words, "--ignore-eos", "--save-result", "--disable-tqdm"]


def _write(file: IO[bytes], chunk: bytes) -> None:
    file.write(chunk)


def _run(
    words: list[str],
    environment: Mapping[str, str],
    live: RedactedOutput,
    within_s: float,
    is_cancelled: Callable[[], bool],
) -> int | None:
    """Run it and show its output; return the exit status, None if it was ended."""
    until = time.monotonic() + within_s
    with SupervisedCommand(words, environment=environment) as running:
        for chunk in running.chunks():
            live.take(chunk)
            if is_cancelled() or time.monotonic() >= until:
                break
        live.finish()
    return running.status


def _last_fault(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    fault = next((line.strip() for line in reversed(lines) if _FAULT.match(line.strip()[:_MAX_SAID])), "")
    return f": {fault[:_MAX_SAID]}" if fault else f"; see {log.name}"


def _measured(command: str, load: Load, path: Path) -> LoadResult:
    try:
        result: Any = json.loads(path.read_text("utf-8")) if path.stat().st_size <= _MAX_RESULT else None
        figures = {name: _figure(result.get(name)) for name in _FIGURES}
    except (OSError, ValueError, AttributeError, RecursionError):
        return LoadResult(command, 0, load.requests, reason=f"it wrote no readable {RESULT}")
    answered = result["completed"] if isinstance(result.get("completed"), int) and result["completed"] >= 0 else None
    return LoadResult(
        command,
        0,
        load.requests,
        answered=answered,
        seconds=figures["duration"],
        tokens_per_s=figures["output_throughput"],
        time_to_first_token_ms=figures["median_ttft_ms"],
        inter_token_latency_ms=figures["median_tpot_ms"],
    )


_FIGURES = ("duration", "output_throughput", "median_ttft_ms", "median_tpot_ms")


def _figure(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value > 0 else None
