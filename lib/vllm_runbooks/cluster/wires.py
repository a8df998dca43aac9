"""A process that answers lines of JSON with lines of JSON, local or over a command like ssh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from itertools import count
from typing import IO, Any, cast

from vllm_runbooks.cluster.agent import MAX_LINE
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.core.redaction.redact import redact_text

ENDING_S = 12.0
_TAIL = 4096
"""Bytes kept of its output other than answers; the last line has the reason of its end."""
_HARMLESS = ("Could not chdir to home directory", "Warning: Permanently added")
_SSH_FAILED = 255
"""Exit status of ssh itself (ssh(1), EXIT STATUS)."""


class UnansweredError(RunbooksError):
    """A request was not answered; the message has the reason, without the name of the node."""


def one_line(words: str, most: int = 600) -> str:
    """Output of a program, in one line without secrets."""
    return redact_text(" ".join("".join(c if c.isprintable() else " " for c in words).split()))[:most]


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill the leader of a process group with its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def end_process(process: subprocess.Popen[Any], patience_s: float) -> bool:
    """Close a process's input, and kill its group if it does not exit.

    Returns whether it exited.
    """
    with suppress(OSError, ValueError):
        cast("IO[Any]", process.stdin).close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()
        return False
    return True


class Wire:
    """A process that answers lines of JSON with lines of JSON."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start the process; raises UnansweredError."""
        self._waiting = dict[int, Future[Any]]()
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._numbers = count(1)
        self._tail = b""
        self._stray = b""
        """The last line that was no answer."""
        self._is_left = threading.Event()
        try:
            self.process = subprocess.Popen(  # noqa: S603 - a module of ours, here or behind a row of the table
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnansweredError(f"{argv[0]} cannot be run: {reason}") from None
        self._threads = [threading.Thread(target=reader, daemon=True) for reader in (self._overhear, self._hear)]
        for thread in self._threads:
            thread.start()

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> Any:
        """The answer to a request; raises UnansweredError."""
        number = next(self._numbers)
        waiting: Future[Any] = Future()
        with self._lock:
            self._waiting[number] = waiting
        try:
            self._write({**request, "id": number})
            answer = waiting.result(timeout_s)
        except FutureTimeoutError:
            raise UnansweredError(f"no answer within {timeout_s:g} s") from None
        except (OSError, ValueError):
            raise UnansweredError(self._ending()) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in answer:
            raise UnansweredError(str(answer["error"])[:2000])
        return answer.get("is")

    def _write(self, request: Mapping[str, Any]) -> None:
        pipe = cast("IO[bytes]", self.process.stdin)
        with self._writing:
            pipe.write(json.dumps(request).encode() + b"\n")
            pipe.flush()

    def beat(self, every_s: float) -> None:
        """Send a heartbeat at intervals until it is closed."""
        with suppress(OSError, ValueError):
            while not self._is_left.wait(every_s):
                self._write({"do": "hello"})

    def _hear(self) -> None:
        pipe = cast("IO[bytes]", self.process.stdout)
        with suppress(OSError, ValueError):
            while line := pipe.readline(MAX_LINE + 1):
                # Skip lines that are not our answers; they may be the reason for a missing one.
                if line.strip() and not line.startswith(b"{"):
                    self._stray = line[:_TAIL]
                with suppress(ValueError, RecursionError, AttributeError, TypeError):
                    answer = json.loads(line)
                    with self._lock:
                        waiting = self._waiting.pop(answer.get("id"), None)
                    if waiting is not None:
                        waiting.set_result(answer)
        with self._lock:
            left = list(self._waiting.values())
            self._waiting.clear()
        for waiting in left:
            waiting.set_result({"error": self._ending()})

    def _overhear(self) -> None:
        pipe = cast("IO[bytes]", self.process.stderr)
        with suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), 1 << 16):
                self._tail = (self._tail + chunk)[-_TAIL:]

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        for thread in self._threads:  # its last output may not have been read yet
            if thread is not threading.current_thread():
                thread.join(1)
        words_of_tail = self._tail.decode("utf-8", "replace").splitlines()
        lines = [line for line in words_of_tail if line.strip() and not line.startswith(_HARMLESS)]
        lines = lines or self._stray.decode("utf-8", "replace").splitlines()
        words = one_line(lines[-1]) if lines else ""
        status = self.process.returncode
        if words:
            return words if status == _SSH_FAILED else f"its agent ended: {words}"
        return "its agent exited without a message" if status is not None else "its agent stopped responding"

    def end(self, patience_s: float = ENDING_S) -> bool:
        """Let it exit, which stops its processes; else kill it. Returns whether it exited."""
        self._is_left.set()
        has_ended = end_process(self.process, patience_s)
        for thread, stream in zip(self._threads, (self.process.stderr, self.process.stdout), strict=True):
            thread.join(2)
            with suppress(OSError, ValueError):
                cast("IO[bytes]", stream).close()
        return has_ended
