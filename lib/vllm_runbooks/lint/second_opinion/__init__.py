"""Validate commands with an installed vLLM's parser, in a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint.hits import ParserVerdict

LIMIT_S = 180.0
"""Timeout; most of it is the import of vLLM."""
_PROGRAM = Path(__file__).with_name("ask_parser.py")


def ask(
    python: str, entry: str, commands: Sequence[Sequence[str]], *, is_config_checked: bool = False
) -> list[ParserVerdict]:
    """Validate commands, the words after `vllm serve` or the module, with another Python's vLLM.

    Nothing is served; with `is_config_checked` the model's configuration is read too, without
    running its code.
    """
    request = {"entry": entry, "commands": [list(words) for words in commands], "check_config": is_config_checked}
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own Python, and a program of ours
            [python, str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # Disable usage statistics.
            env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--python {python}: cannot be run: {reason}; use a Python with vLLM") from None
    try:
        output, errors = process.communicate(json.dumps(request), LIMIT_S)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"--python {python}: no answer within {LIMIT_S:.0f} s; check that it can `import vllm`"
        ) from None
    finally:
        _end(process)
    if process.returncode:
        last_line = (errors.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"--python {python}: {last_line[:300]}; use a Python with vLLM")
    try:
        answer: dict[str, Any] = json.loads(output)
        return [ParserVerdict(answer["vllm"], verdict["stage"], verdict["says"]) for verdict in answer["verdicts"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"--python {python}: invalid response; check that it can `import vllm`") from None


def _end(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:
        # Not waited for yet, so its process id is still valid.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
