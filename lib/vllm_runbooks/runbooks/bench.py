"""Execute runs on this host, one after another, and stop all their processes.

A bench has a worker (`worker`). A case without a runbook is checked by a separate process: this
module as a program.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.host.processes import TAG, TAG_SPACE, sweep
from vllm_runbooks.runbooks.worker import SOCKET_PATH_MAX, too_long

_GRACE_S = 5.0
_BELOW_TEMPORARY = "/vr01234567/k01234567/k-5"
"""Longest suffix of a socket's path."""


class Gate:
    """Closed to prevent new processes."""

    def __init__(self) -> None:
        self.is_closed = False
        self.starting = threading.Lock()
        """Held while a process is started, so that none starts after the gate is closed."""

    def close(self) -> None:
        with self.starting:
            self.is_closed = True


@dataclass
class Bench:
    tag: str
    """Value of `host.processes.TAG` of its processes."""
    runtime: Path
    name: str
    gate: Gate
    _worker: subprocess.Popen[str] | None = None

    def execute(self, index: int, order: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an order (of `worker`, or `alone`: a case's folder) and end all its processes."""
        try:
            return self._judge(index, order) if "alone" in order else self._ask(index, order)
        except OSError as error:
            return {"reason": f"the worker could not be started: {error}"}

    def _ask(self, index: int, order: Mapping[str, Any]) -> dict[str, Any]:
        worker = self._start_worker()
        if worker is None or worker.stdin is None or worker.stdout is None:
            return {"reason": "interrupted"}
        tag = f"{self.tag}.{index}"
        run, timeout_s = tag.rpartition(":")[2], order["timeout_s"]
        overdue, answered = threading.Event(), threading.Event()

        def end_it() -> None:
            if answered.is_set():
                return
            overdue.set()
            sweep(run, root=worker.pid)
            worker.kill()

        timer = threading.Timer(timeout_s + _GRACE_S, end_it)
        timer.start()
        try:
            worker.stdin.write(json.dumps({**order, "tag": tag}) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            line = ""
        finally:
            answered.set()
            timer.cancel()
        sweep(run, root=worker.pid)
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        if overdue.is_set():
            return {"reason": too_long(timeout_s)}
        return {"reason": f"the worker died ({_ending(worker.returncode)}); no verdict was written"}

    def _judge(self, index: int, order: Mapping[str, Any]) -> dict[str, Any]:
        with self.gate.starting:
            if self.gate.is_closed:
                return {"reason": "interrupted"}
            words = [*module("runbooks.bench"), order["alone"]]
            process = _started(words, f"{self.tag}.{index}", subprocess.DEVNULL, subprocess.DEVNULL)
        try:
            line, _ = process.communicate(timeout=order["timeout_s"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"reason": too_long(order["timeout_s"])}
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        return {"reason": f"the diagnosis died ({_ending(process.returncode)}); no verdict was written"}

    def _start_worker(self) -> subprocess.Popen[str] | None:
        with self.gate.starting:
            if self.gate.is_closed:
                return None
            if self._worker is None or self._worker.poll() is not None:
                with (self.runtime / f"worker-{self.name}.log").open("ab") as log:
                    words = [*module("runbooks.worker"), str(self.runtime)]
                    self._worker = _started(words, self.tag + TAG_SPACE, subprocess.PIPE, log)
            return self._worker

    def close(self) -> None:
        """Stop the worker, by force if it does not respond."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        with contextlib.suppress(OSError, ValueError):
            # Closing the pipe is not a message: a worker whose caller dies sees the same, and
            # cleans up.
            worker.communicate("\n", timeout=_GRACE_S)
        if worker.poll() is None:
            worker.kill()
            worker.communicate()


def _started(words: list[str], tag: str, stdin: int, stderr: int | IO[bytes]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own module
        words,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, TAG: tag},
        # A terminal sends its signals to the whole group; ending the processes is the caller's part.
        start_new_session=True,
        encoding="utf-8",
    )


def verdict_alone(folder: str) -> dict[str, Any]:
    """Check a case without a runbook; return a worker's answer."""
    # Lazy, because the core loads slowly and the process that distributes runs does not need it.
    from vllm_runbooks.reading import sources
    from vllm_runbooks.runbooks import cases

    try:
        verdict = cases.verdict(sources.load(folder))
    except InputError as error:
        return {"reason": str(error), "refused": True}
    return {"verdict": {"schema": SCHEMA, **document(verdict)}}


def module(name: str) -> list[str]:
    """Command that runs one of our modules, without the current folder on its path."""
    return [sys.executable, "-P", "-m", f"vllm_runbooks.{name}"]


def temporary_folder() -> str | None:
    default = tempfile.gettempdir()
    too_long = len(os.fsencode(default + _BELOW_TEMPORARY)) > SOCKET_PATH_MAX
    if too_long and os.access("/tmp", os.W_OK):  # noqa: S108 - mkdtemp is used in it
        return "/tmp"  # noqa: S108
    return default


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return f"exit status {status}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(verdict_alone(*sys.argv[1:])) + "\n")
