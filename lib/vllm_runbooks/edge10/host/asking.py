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
"""How long a program may take."""
MOST = 4 << 20
"""Bytes of its output, and of standard error, that are kept."""


class ProgramAnswer(NamedTuple):
    """What a program printed."""

    status: int | None
    """None if it could not be started or was ended at the limit."""
    output: str = ""
    errors: str = ""
    is_late: bool = False
    """Whether it was ended at the limit."""


def ask(argv: Sequence[str]) -> ProgramAnswer:
    """Run a command of `catalog.host_commands` to its end or the limit, without input."""
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
    output, errors = bytearray(), bytearray()
    is_complete = False
    try:
        is_complete = _read(program, (output, errors), time.monotonic() + LIMIT_S)
    finally:
        if not is_complete:
            with contextlib.suppress(OSError):
                os.killpg(program.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(1.0)
        for pipe in (program.stdout, program.stderr):
            if pipe is not None:
                pipe.close()
    status = program.returncode if is_complete else None
    return ProgramAnswer(
        status, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), is_late=not is_complete
    )


def _read(program: subprocess.Popen[bytes], buffers: tuple[bytearray, bytearray], deadline: float) -> bool:
    """Read the output to its end; False at the deadline. Output beyond the bound is discarded."""
    with selectors.DefaultSelector() as selector:
        for pipe, buffer in zip((program.stdout, program.stderr), buffers, strict=True):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, buffer)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            for key, _ in selector.select(remaining):
                piece = os.read(key.fd, 1 << 16)
                key.data.extend(piece[: MOST - len(key.data)])
                if not piece:
                    selector.unregister(key.fileobj)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(max(deadline - time.monotonic(), 0.1))
        return True
    return False
