"""Run a program with a limit on its time and output; nothing of it is left running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

LIMIT_S = 5.0
"""How long a program may take."""
_TICK_S = 0.01
MOST = 4 << 20
"""Bytes of its output, and of standard error: it is ended beyond."""


class ProgramAnswer(NamedTuple):
    """What a program printed."""

    status: int | None
    """None if it could not be started or was ended at the limit."""
    output: str = ""
    errors: str = ""
    is_late: bool = False
    """Whether it was ended at the limit."""


def ask(argv: Sequence[str]) -> ProgramAnswer:
    """Run a command of `catalog.host_commands` to its end or the limits, without input."""
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            program = subprocess.Popen(  # noqa: S603 - a row of the table
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd="/", start_new_session=True
            )
            deadline = time.monotonic() + LIMIT_S
            try:
                while program.poll() is None and time.monotonic() < deadline:
                    if max(os.fstat(file.fileno()).st_size for file in (output, errors)) > MOST:
                        break
                    time.sleep(_TICK_S)
            finally:
                status = program.poll()
                if status is None:
                    with contextlib.suppress(OSError):
                        os.killpg(program.pid, signal.SIGKILL)
                    program.wait()
            texts = []
            for file in (output, errors):
                file.seek(0)
                texts.append(file.read(MOST).decode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        return ProgramAnswer(None, errors=getattr(error, "strerror", None) or str(error))
    return ProgramAnswer(status, texts[0], texts[1], is_late=status is None)
