"""The release's own word: an installed vLLM's parser is asked about commands, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.core.errors import InputError

LIMIT_S = 180.0
"""Time in which the other Python must have answered: importing vLLM takes most of it."""
_PROGRAM = Path(__file__).with_name("ask_parser.py")


class Verdict(NamedTuple):
    """What an installed vLLM makes of one command."""

    vllm: str
    """The release that was asked."""
    stage: str | None
    """Where it is refused: "parse", "validate" or "config"; None: it is not."""
    says: str


def ask(
    python: str, entry: str, commands: Sequence[Sequence[str]], *, is_config_checked: bool = False
) -> list[Verdict]:
    """What the vLLM of another Python makes of the words after `vllm serve`, or after the server's module name.

    Nothing is served; with `is_config_checked` the model's configuration is read as vLLM would read it, without running
    code that comes with the model.

    Raises:
        InputError: that Python cannot be run, has no vLLM, or does not answer in time.
    """
    request = {"entry": entry, "commands": [list(words) for words in commands], "check_config": is_config_checked}
    try:
        asked = subprocess.Popen(  # noqa: S603 - the user's own Python, and a program of ours
            [python, str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # Nothing is sent anywhere for having asked.
            env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--python {python}: cannot be run: {reason}; name a Python with vLLM") from None
    try:
        output, errors = asked.communicate(json.dumps(request), LIMIT_S)
    except subprocess.TimeoutExpired:
        raise InputError(f"--python {python}: no answer within {LIMIT_S:.0f} s; try `import vllm` there") from None
    finally:
        _end(asked)
    if asked.returncode:
        said = (errors.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"--python {python}: {said[:300]}; name a Python with vLLM")
    try:
        answer: dict[str, Any] = json.loads(output)
        return [Verdict(answer["vllm"], each["stage"], each["says"]) for each in answer["verdicts"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"--python {python}: its answer cannot be read; try `import vllm` there") from None


def _end(asked: subprocess.Popen[str]) -> None:
    """End the program, where it has not ended, and what it has started, such as vLLM's own helpers."""
    if asked.returncode is None:
        # Not waited for yet: its number is its own still.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.wait()
    for stream in (asked.stdin, asked.stdout, asked.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
