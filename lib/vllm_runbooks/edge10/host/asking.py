"""Run a program with a limit on its time and output; nothing of it is left running."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

LIMIT_S = 5.0
"""Timeout of a program, including every process that has its output open."""
MOST = 4 << 20
"""Bytes kept of its output, and of its standard error; the rest is dropped."""


class ProgramAnswer(NamedTuple):
    """Output of a program."""

    status: int | None
    """None if it could not be started or was killed at the timeout."""
    output: str = ""
    errors: str = ""
    is_late: bool = False
    """Whether it was ended at the limit."""


def ask(argv: Sequence[str]) -> ProgramAnswer:
    """Run a command of `catalog.host_commands` to its end or the limit, without input."""
    deadline = time.monotonic() + LIMIT_S
    try:
        program = subprocess.Popen(  # noqa: S603 - a row of the table
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return ProgramAnswer(None, errors=getattr(error, "strerror", None) or str(error))
    with program:
        try:
            output, errors = _read(program, deadline)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(max(deadline - time.monotonic(), 0))
        finally:
            status = program.poll()
            with contextlib.suppress(OSError):  # including background processes of the program
                os.killpg(program.pid, signal.SIGKILL)
    return ProgramAnswer(status, output, errors, is_late=status is None)


def _read(program: subprocess.Popen[bytes], deadline: float) -> list[str]:
    """Output and standard error until both are closed or the time is over."""
    texts = {pipe: bytearray() for pipe in (program.stdout, program.stderr) if pipe is not None}
    with selectors.DefaultSelector() as selector:
        for pipe, text in texts.items():
            selector.register(pipe, selectors.EVENT_READ, text)
        while selector.get_map() and (left_s := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                chunk = os.read(key.fd, 1 << 16)
                key.data.extend(chunk[: MOST - len(key.data)])
                if not chunk:
                    selector.unregister(key.fileobj)
    return [text.decode("utf-8", "replace") for text in texts.values()]
