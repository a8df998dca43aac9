"""Run a command under a supervisor that streams output, forwards signals and leaves no process.

    caller ── supervisor ── command ── processes of the command

Every process has `processes.TAG` with the run's id, by which it is killed if the supervisor was
killed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, cast

from vllm_runbooks.core.display import live
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.redact import Redactor
from vllm_runbooks.host.processes import TAG, nested_tag, sweep

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from vllm_runbooks.host.progress import Sight

_ENDING_S = 10.0
"""Time within which a supervisor has ended all there is; it needs five seconds."""
_MAX_LINE = 1 << 20
"""Maximum bytes of an incomplete line before it is shown."""
_TICK_S = 0.5

Show = Callable[[bytes], None]
"""Shows the output of a command as it arrives, secrets replaced."""


def start_supervisor(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a command under its supervisor, in its own session.

    A terminal sends signals to a whole process group.
    """
    return subprocess.Popen(  # noqa: S603 - our own module, and the user's own command
        [sys.executable, "-P", "-m", "vllm_runbooks.host.supervisor", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )


def send_signal(supervisor: subprocess.Popen[bytes], number: int) -> None:
    """Have a supervisor hand a signal on to its command, if it still runs."""
    with contextlib.suppress(OSError, ValueError):
        os.write(cast("IO[bytes]", supervisor.stdin).fileno(), bytes([number]))


def read_outcome(errors: bytes) -> dict[str, Any]:
    """Last outcome that a supervisor printed about its command; empty if it was killed."""
    with contextlib.suppress(ValueError, IndexError):
        return dict(json.loads(errors.splitlines()[-1]))  # the interpreter may have printed something before
    return {}


class StoppableRun:
    """Something that runs until signals stop it."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.status: int | None = None
        """Exit status, negative for a signal; None if it runs or was stopped by the supervisor."""
        self.stopped_by: int | None = None
        """The first signal that was handed on."""
        self.signalled: int | None = None
        """The first that came from outside."""
        self._said = ""
        self._blocks = contextlib.ExitStack()

    @property
    def ending(self) -> str:
        """Description of its end, as in "ended with exit status 1"."""
        return self._said or ending_of(self.status)

    def stop(self, number: int, said: str) -> None:
        """Forward a signal; `said` describes the resulting end, as in "was stopped by SIGTERM"."""
        self.stopped_by = self.stopped_by or number
        self._said = self._said or said
        self._send(number)

    def _send(self, number: int) -> None:
        raise NotImplementedError

    def _hand_on(self, number: int, _frame: FrameType | None) -> None:
        self.signalled = self.signalled or number
        self.stop(number, f"was stopped by {signal.Signals(number).name}")


class SupervisedCommand(StoppableRun):
    """A command with all its processes; leaving the block kills them.

    Inside the block, in the main thread, SIGINT, SIGTERM and SIGHUP are forwarded: the first ends
    the command within five seconds, a second one immediately.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        """Prepare the command; raises InputError."""
        if shutil.which(command[0], path=(environment or os.environ).get("PATH")) is None:
            raise InputError(f"{command[0]}: no such command; check its name and PATH")
        super().__init__()
        self._command = list(command)
        self._environment = {**(environment or os.environ), TAG: nested_tag(self.id)}
        self._folder = folder

    def __enter__(self) -> Self:
        self._supervisor = start_supervisor(self._command, self._environment, self._folder)
        with contextlib.ExitStack() as undone:
            undone.callback(self._end)
            self._blocks.enter_context(self._handing_on())
            undone.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # At the end of its input the supervisor stops everything; afterwards nothing remains to do.
        try:
            outcome = self._end()
        finally:
            self._blocks.close()
        if "refused" in outcome:
            raise InputError(f"{self._command[0]}: cannot be run: {outcome['refused']}") from error
        if "returncode" not in outcome:
            self._said = self._said or "was stopped when its supervisor was killed"
        self.status = outcome.get("returncode")

    @property
    def pid(self) -> int:
        """Pid of the supervisor, the ancestor of all processes of the command."""
        return self._supervisor.pid

    def sights(self) -> Mapping[int, Sight]:
        """Every process of the command, by number."""
        from vllm_runbooks.host import progress

        return progress.seen_below(self.pid)

    def chunks(self, *, until: float = math.inf, tick_s: float = _TICK_S) -> Iterator[bytes]:
        """Output of the command as it arrives.

        `b""` at each tick without any, and once at the monotonic time `until`.
        """
        pipe = cast("IO[bytes]", self._supervisor.stdout)
        while True:
            is_due = time.monotonic() >= until
            if is_due:
                until = math.inf
                yield b""
            if select.select([pipe], [], [], min(tick_s, max(until - time.monotonic(), 0)))[0]:
                chunk = os.read(pipe.fileno(), 1 << 16)
                if not chunk:
                    return
                yield chunk
            elif self._supervisor.poll() is not None:
                # A process that cannot be killed has the pipe open.
                return
            elif time.monotonic() < until:
                yield b""

    def _send(self, number: int) -> None:
        send_signal(self._supervisor, number)

    @contextlib.contextmanager
    def _handing_on(self) -> Iterator[None]:
        with handled_by(self._hand_on) as before:
            if isinstance(before.get(signal.SIGINT), SignalHolder):
                for number in before[signal.SIGINT].taken():
                    self._hand_on(number, None)
            yield

    def _end(self) -> dict[str, Any]:
        if self._supervisor.poll() not in (None, 0):
            sweep(self.id)  # it was killed: its processes have its pipes open
        try:
            _, errors = self._supervisor.communicate(timeout=_ENDING_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            sweep(self.id)
            _, errors = self._supervisor.communicate()
        return read_outcome(errors)


def ending_of(status: int | None) -> str:
    """Description of an exit status; None means that the supervisor stopped it."""
    if status is None:
        return "was stopped by the supervisor"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


class SignalHolder:
    """Delays signals while data that cannot be repeated is only in memory."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._is_released = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self._is_released:
            self._is_released = False
            raise KeyboardInterrupt
        self._numbers.append(number)

    def taken(self) -> list[int]:
        """Signals received so far; from here on they are the caller's."""
        numbers, self._numbers = self._numbers, []
        return numbers

    def release(self) -> None:
        """Interrupt from here on, once, and now if a signal was received."""
        self._is_released = True
        if self.taken():
            self._is_released = False
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Delay signals again."""
        self._is_released = False


@contextlib.contextmanager
def holding() -> Iterator[SignalHolder]:
    """Delay SIGINT, SIGTERM and SIGHUP, if this thread may handle signals."""
    holder = SignalHolder()
    with handled_by(holder):
        yield holder


@contextlib.contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[dict[int, Any]]:
    """Handle SIGINT, SIGTERM and SIGHUP, where this thread may; yields their handlers before."""
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    if before.get(signal.SIGHUP) == signal.SIG_IGN:
        # Keep nohup. SIGINT, which a script's background jobs ignore, counts all the same.
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handler)
    try:
        yield before
    finally:
        for number, former in before.items():
            signal.signal(number, former if former is not None else signal.SIG_DFL)


class RedactedOutput:
    """Shows an output by whole lines, secrets replaced and control characters but colors escaped."""

    def __init__(self, show: Show, *, known: str) -> None:
        """Secrets that `known` names are replaced wherever they are printed."""
        self._show = show
        self._rest = b""
        self._redactor = Redactor()
        self._redactor.learn([known])

    def take(self, chunk: bytes) -> None:
        """Show the lines that are complete; a progress bar's line is at its return."""
        text = self._rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if not end and len(text) > _MAX_LINE:
            end = len(text)
        self._rest = text[end:]
        self._show_lines(text[:end])

    def finish(self) -> None:
        """Print the remaining text, with the missing line end."""
        self._show_lines(self._rest and self._rest + b"\n")
        self._rest = b""

    def _show_lines(self, lines: bytes) -> None:
        if lines:
            # Secrets from earlier lines, such as a key, may continue in these.
            redacted = self._redactor.more(lines.decode("utf-8", "surrogateescape"))
            self._show(live(redacted).encode("utf-8", "surrogateescape"))
