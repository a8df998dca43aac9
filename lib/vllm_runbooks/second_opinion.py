"""The release's own word: an installed vLLM's parser is asked about commands, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.errors import InputError

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

    Nothing is served; with `is_config_checked` the model's configuration is read as vLLM would read it.

    Raises:
        InputError: that Python cannot be run, has no vLLM, or does not answer in time.
    """
    request = {"entry": entry, "commands": [list(words) for words in commands], "check_config": is_config_checked}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Python, and a program of ours
            [python, str(_PROGRAM)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            # Nothing is sent anywhere for having asked.
            env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
        )
    except OSError as error:
        raise InputError(f"--python {python}: cannot be run: {error.strerror}; name a Python with vLLM") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"--python {python}: no answer within {LIMIT_S:.0f} s; try `import vllm` there") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"--python {python}: {said[:300]}; name a Python with vLLM")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
        return [Verdict(answer["vllm"], each["stage"], each["says"]) for each in answer["verdicts"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"--python {python}: its answer cannot be read; try `import vllm` there") from None
