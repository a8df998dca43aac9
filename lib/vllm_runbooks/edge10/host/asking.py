"""Ask another program something: within a time, for so much of an answer, and nothing is left of it."""

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
"""How long a program may take to answer."""
MOST = 4 << 20
"""Bytes that are read of an answer, and of what it writes on standard error."""


class Answer(NamedTuple):
    """What a program answered."""

    status: int | None
    """None: it could not be started, or was ended at its limit."""
    output: str = ""
    errors: str = ""
    is_late: bool = False
    """Whether it was ended at its limit."""


def ask(argv: Sequence[str]) -> Answer:
    """Run a program, as a command of `core.host_commands` has it, to its end or its limit; it reads nothing.

    It and what it starts are ended together.
    """
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
        return Answer(None, errors=getattr(error, "strerror", None) or str(error))
    held = (bytearray(), bytearray())
    is_whole = False
    try:
        is_whole = _read(program, held, time.monotonic() + LIMIT_S)
    finally:
        _end(program, is_ended=is_whole)
    output, errors = (bytes(each).decode("utf-8", "replace") for each in held)
    return Answer(program.returncode if is_whole else None, output, errors, is_late=not is_whole)


def _read(program: subprocess.Popen[bytes], held: tuple[bytearray, bytearray], deadline: float) -> bool:
    """Read what it prints to its end; whether that came in time. What is beyond the most is read and let go."""
    with selectors.DefaultSelector() as ready:
        for pipe, kept in zip((program.stdout, program.stderr), held, strict=True):
            if pipe is not None:
                ready.register(pipe, selectors.EVENT_READ, kept)
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in ready.select(left):
                piece = os.read(key.fd, 1 << 16)
                if piece:
                    key.data.extend(piece[: MOST - len(key.data)])
                else:
                    ready.unregister(key.fileobj)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(max(deadline - time.monotonic(), 0.1))
        return True
    return False


def _end(program: subprocess.Popen[bytes], *, is_ended: bool) -> None:
    """End its whole group, unless it came to its own end; close what was read."""
    if not is_ended:
        with contextlib.suppress(OSError):
            os.killpg(program.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(1.0)
    for pipe in (program.stdout, program.stderr):
        if pipe is not None:
            pipe.close()
