"""The log of a running launch: stored whole, shown redacted, and parsed as it arrives."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import BinaryIO

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import ServerRun
from vllm_runbooks.host.running import RedactedOutput
from vllm_runbooks.reading import startup_log

_TURN_S = 1.0


class Log:
    def __init__(self, path: Path, live: RedactedOutput, on_launch: Callable[[ServerRun], None]) -> None:
        """A log in a file of its owner alone; `on_launch` gets the launch as read so far, in a thread."""
        self.path = path
        self.line_at = time.monotonic()
        self.is_over = False
        """Whether the rest is only stored and shown."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "ab", buffering=0)
        self._live = live
        self._told = on_launch
        self._pieces: SimpleQueue[str | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def take(self, chunk: bytes) -> None:
        with suppress(OSError):  # a full disk must not end the server
            self._file.write(chunk)
        self._live.take(chunk)
        if b"\n" in chunk or b"\r" in chunk:
            self.line_at = time.monotonic()
        if not self.is_over:
            self._pieces.put(chunk.decode("utf-8", "replace"))

    def close(self) -> None:
        self._live.finish()
        self._file.close()
        self.read_no_more()
        self._reader.join(10)

    def read_no_more(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._pieces.put(None)

    def _read(self) -> None:
        evidence = Evidence((Document(self.path.name, self._arriving),))
        try:
            for starts in startup_log.follow(evidence, catalog.load_catalog()):
                if starts:
                    self._told(starts[-1])
        except InputError:
            pass  # binary output is stored and shown, without phases
        finally:
            self.is_over = True

    def _arriving(self) -> Iterator[str]:
        """Pieces as they arrive, and now and then an empty one, after which the launch is reported."""
        while (piece := self._pieces.get()) is not None:
            due_at = time.monotonic() + _TURN_S
            yield piece
            while (left := due_at - time.monotonic()) > 0:
                try:
                    piece = self._pieces.get(timeout=left)
                except Empty:
                    break
                if piece is None:
                    return
                yield piece
            yield ""
