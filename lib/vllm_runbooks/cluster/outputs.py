"""Output of a command, buffered in bounded memory; the command never waits for its reader."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import IO

MOST = 1 << 20
"""Bytes that are read at once."""
_HELD = 8 << 20
"""Bytes that are held of what nobody has taken; beyond them the oldest is let go."""


class CommandOutput:
    """The output of one command."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Take what comes out of the pipe, to its end."""
        self._pipe = pipe
        self._held = bytearray()
        self._begin = 0
        """Place of the first byte that is held."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        with suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                with self._lock:
                    self._held += chunk
                    self._let_go(len(self._held) - _HELD)

    def _let_go(self, count: int) -> None:
        count = min(max(count, 0), len(self._held))
        del self._held[:count]
        self._begin += count

    def read(self, begin: int) -> tuple[int, bytes]:
        """Read at most a MiB from a place on, and drop what lies before; also returns where it begins."""
        with self._lock:
            self._let_go(begin - self._begin)
            return self._begin, bytes(self._held[:MOST])

    def finish(self, seconds: float) -> None:
        """Wait for its end, which comes when nothing holds the pipe any more."""
        self._thread.join(seconds)

    def close(self) -> None:
        """Close the pipe, unless something that cannot be ended holds it."""
        if not self._thread.is_alive():
            self._pipe.close()
