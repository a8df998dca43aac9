"""Commands on a node, each under its own supervisor, which stops all processes of the command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, cast

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.host.processes import TAG, nested_tag, sweep
from vllm_runbooks.host.running import read_outcome, send_signal, start_supervisor

_LINGER_S = 1.0
_ENDING_S = 8.0
"""Time within which a supervisor has ended all there is; it needs five seconds."""


MOST = 1 << 20
"""Maximum bytes per read."""
_HELD = 8 << 20
"""Maximum bytes of unread output; the oldest is dropped."""


class CommandOutput:
    """The output of one command."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Read from the pipe to its end."""
        self._pipe = pipe
        self._held = bytearray()
        self._begin = 0
        """Offset of the first buffered byte."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                with self._lock:
                    self._held += chunk
                    self._let_go(len(self._held) - _HELD)

    def _let_go(self, count: int) -> None:
        count = min(max(count, 0), len(self._held))
        del self._held[:count]
        self._begin += count

    def read(self, begin: int) -> tuple[int, bytes]:
        """Read at most 1 MiB from an offset on, and drop earlier bytes.

        Also returns the actual offset.
        """
        with self._lock:
            self._let_go(begin - self._begin)
            return self._begin, bytes(self._held[:MOST])

    def finish(self, seconds: float) -> None:
        """Wait for the end of the pipe, when no process has it open."""
        self._thread.join(seconds)

    def close(self) -> None:
        """Close the pipe, unless a process that cannot be killed has it open."""
        if not self._thread.is_alive():
            self._pipe.close()


class CommandGroup:
    """A command with all its processes."""

    def __init__(
        self, number: str, command: Sequence[str], environment: Mapping[str, str | None], limit_s: float | None
    ) -> None:
        """Start it with changes to the environment (None unsets), and kill it after `limit_s`.

        Raises InputError.
        """
        self._tag = f"node.{os.getpid()}.{number}"
        variables = {**os.environ, **environment, TAG: nested_tag(self._tag)}
        self._outcome: dict[str, Any] | None = None
        self._lock = threading.Lock()
        try:
            self._supervisor = start_supervisor(
                command, {name: value for name, value in variables.items() if value is not None}
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{command[0]}: cannot be run: {getattr(error, 'strerror', None) or error}") from None
        self._output = CommandOutput(cast("IO[bytes]", self._supervisor.stdout))
        if limit_s is not None:
            threading.Thread(target=self._limited, args=(limit_s,), daemon=True).start()

    def _limited(self, limit_s: float) -> None:
        try:
            self._supervisor.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.end()

    @property
    def pid(self) -> int:
        """Pid of the supervisor, the ancestor of all its processes."""
        return self._supervisor.pid

    @property
    def is_running(self) -> bool:
        """Whether any process of it still runs; if not, its complete output is available."""
        if self._supervisor.poll() is None:
            return True
        self._output.finish(_LINGER_S)
        return False

    def sights(self) -> list[Any]:
        """Its current processes, each as a document."""
        from vllm_runbooks.host import progress

        return [document(sight) for sight in progress.seen_below(self.pid).values()]

    def read(self, begin: int) -> tuple[int, bytes]:
        """Read its output, as `CommandOutput.read`."""
        return self._output.read(begin)

    def signal(self, number: int) -> None:
        """Hand a signal on to the command; from then on it has three seconds to end."""
        send_signal(self._supervisor, number)

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None if it runs or was killed with its supervisor."""
        return None if self.is_running else self._read_outcome().get("returncode")

    @property
    def refused(self) -> str:
        """Why the command could not be run at all; empty: it could, or it runs."""
        return "" if self.is_running else str(self._read_outcome().get("refused", ""))

    def end(self, *, at_once: bool = False) -> None:
        """Stop it: by a signal with three seconds of grace, or immediately."""
        if self.is_running:
            # Two signals stop it immediately; the end of its input alone allows three seconds.
            for _ in range(2 if at_once else 0):
                self.signal(signal.SIGTERM)
            with contextlib.suppress(OSError):
                cast("IO[bytes]", self._supervisor.stdin).close()
            try:
                self._supervisor.wait(_ENDING_S)
            except subprocess.TimeoutExpired:
                self._supervisor.kill()
                self._supervisor.wait()
        if self._supervisor.returncode:
            sweep(self._tag)  # the supervisor was killed: find its processes by their tag
        self._read_outcome()

    def close(self) -> None:
        """Stop it and drop its output."""
        self.end()
        self._output.finish(_LINGER_S)
        self._output.close()
        with contextlib.suppress(OSError):
            cast("IO[bytes]", self._supervisor.stdin).close()

    def _read_outcome(self) -> dict[str, Any]:
        with self._lock:
            if self._outcome is None:
                self._outcome = {}
                with contextlib.suppress(OSError, ValueError), cast("IO[bytes]", self._supervisor.stderr) as pipe:
                    self._outcome = read_outcome(pipe.read())
            return self._outcome


class CommandGroups:
    """All groups of this process, by number."""

    def __init__(self) -> None:
        self._groups = dict[str, CommandGroup]()
        self._lock = threading.Lock()
        self._count = 0

    def start(
        self, command: Sequence[str], environment: Mapping[str, str | None], limit_s: float | None = None
    ) -> tuple[str, CommandGroup]:
        """Start a command; return its number and group."""
        with self._lock:
            self._count += 1
            number = f"{self._count}"
        group = CommandGroup(number, command, environment, limit_s)
        with self._lock:
            self._groups[number] = group
        return number, group

    def __getitem__(self, number: str) -> CommandGroup:
        with self._lock:
            if number not in self._groups:
                raise InputError(f"group {number[:20]}: unknown; it has ended, or belongs to another process")
            return self._groups[number]

    def forget(self, number: str) -> None:
        """End a group for good."""
        self[number].close()
        with self._lock:
            self._groups.pop(number, None)

    def close(self) -> None:
        """End all of them, side by side."""
        with self._lock:
            groups, self._groups = list(self._groups.values()), {}
        threads = [threading.Thread(target=group.close) for group in groups]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 2 * _ENDING_S
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
