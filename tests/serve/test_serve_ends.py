"""The supervised launch as a process: signals, a second launch on the GPU, hangs; no leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil
import pytest

from pace import scaled
from ports import free_port
from test_serve import SERVED, UP, Stage, Steps, race
from vllm_runbooks.host.processes import TAG

pytestmark = pytest.mark.slow
FAMILY: Steps = [
    {"child": "VLLM::EngineCore"},
    {"child": "VLLM::Worker_TP0", "session": True},
    {"child": "VLLM::Worker_TP1", "session": True, "works": True},
]
"""A server's children, which ignore SIGTERM, some in sessions of their own."""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A host with a fake `vllm`."""
    return Stage(tmp_path, monkeypatch)


class Guard:
    """A guard that runs."""

    def __init__(self, stage: Stage, steps: Any, *options: str) -> None:
        self.stage, self.lines = stage, list[str]()
        self.mark = f"mark-{stage.port}"
        command = [sys.executable, "-m", "vllm_runbooks", "serve", "--vllm", "0.32.0", "--skip", "model", *options]
        self.process = subprocess.Popen(
            [*command, "--", *stage.command()],
            env={**os.environ, "STAND_IN": json.dumps(steps), TAG: self.mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._coming: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._coming.put(line)

    def until(self, words: str, *, within_s: float = 30.0) -> str:
        """The next line of the supervisor with this text."""
        deadline = time.monotonic() + scaled(within_s)
        while True:
            try:
                self.lines.append(self._coming.get(timeout=max(deadline - time.monotonic(), 0.01)))
            except Empty:
                raise AssertionError(f"{words!r} is not in {self.lines}") from None
            if words in self.lines[-1]:
                return self.lines[-1]

    def rest(self) -> str:
        """The supervisor's remaining output."""
        self.process.wait(20)
        self._reader.join(5)
        said = ""
        while not self._coming.empty():
            said += self._coming.get()
        return said

    def marked(self) -> list[psutil.Process]:
        """Every process of it, the guard itself left out."""
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self.mark in one.environ().get(TAG, "").split(":") and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return [one for one in found if one.pid != self.process.pid]

    def close(self) -> None:
        """End all of its processes, after any test."""
        for one in [*self.marked(), psutil.Process(self.process.pid)] if self.process.poll() is None else self.marked():
            with contextlib.suppress(psutil.Error):
                one.kill()
        self.process.wait(10)
        if self.process.stderr:
            self.process.stderr.close()


@pytest.fixture
def guard(stage: Stage) -> Iterator[Callable[..., Guard]]:
    """Makes guards, and ends them."""
    made: list[Guard] = []

    def make(steps: Any, *options: str) -> Guard:
        made.append(Guard(stage, steps, *options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def is_free(port: int) -> bool:
    """Whether no process listens on the port."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def server_of(guard: Guard) -> psutil.Process:
    """The process of the fake API server."""
    return next(one for one in guard.marked() if "stand_in_server.py" in " ".join(one.cmdline()))


@pytest.mark.parametrize(
    ("kill", "status"),
    [
        (lambda g: g.process.send_signal(signal.SIGTERM), 143),
        (lambda g: g.process.send_signal(signal.SIGINT), 130),
        (lambda g: g.process.send_signal(signal.SIGHUP), 129),
        (lambda g: g.process.kill(), -9),
        (lambda g: server_of(g).kill(), 137),
    ],
    ids=["TERM", "INT", "HUP", "KILL of the guard", "KILL of the server"],
)  # fmt: skip
def test_nothing_is_left_five_seconds_after_the_end(
    stage: Stage, guard: Callable[..., Guard], kill: Callable[[Guard], None], status: int
) -> None:
    """No marked process, lock or port; children, grandchildren and other sessions have ended."""
    source = stage.folder / "memory.jsonl"
    race(stage.folder, [(0, 1000)])
    one = guard([*UP, *FAMILY, {"serve": {}}, {"hold": True}], "--gpu-memory", str(source), "--every", "0.05")
    one.until("ready after")
    assert len(one.marked()) >= 4
    kill(one)
    deadline = time.monotonic() + scaled(5)
    while one.marked() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert one.marked() == []
    assert is_free(stage.port)
    assert one.process.wait(scaled(2)) == status


def test_processes_of_a_killed_supervisor_are_ended(stage: Stage, guard: Callable[..., Guard]) -> None:
    """By the guard, which finds it by the mark."""
    one = guard([*UP, *FAMILY, {"serve": {}}, {"hold": True}])
    one.until("ready after")
    supervisor = next(p for p in one.marked() if "vllm_runbooks.host.supervisor" in " ".join(p.cmdline()))
    supervisor.kill()
    began = time.monotonic()
    one.process.wait(scaled(10))

    assert one.marked() == []
    assert time.monotonic() - began < scaled(5)
    assert is_free(stage.port)


def test_two_launches_on_one_gpu_do_not_profile_concurrently(stage: Stage, guard: Callable[..., Guard]) -> None:
    """The second waits for the first, names it, and both become ready."""
    race(stage.folder, [(0, 1000)])
    slow = [UP[0] | {"every": 0.05}, {"serve": {}}, {"hold": True}]
    options = ("--gpu-memory", str(stage.folder / "memory.jsonl"), "--every", "0.05")
    first = guard(slow, *options)
    first.until("memory: passed")
    stage.port = free_port()
    second = guard(slow, *options)
    said = second.until("waiting for GPU")
    first.until("ready after")
    second.until("ready after")

    assert f"process {first.process.pid} is starting on it" in said
    for one in (first, second):
        one.process.terminate()
    assert first.process.wait(10) == second.process.wait(10) == 143


@pytest.mark.parametrize("words", ["Starting to load model", "init engine (profile", "Application startup complete"])
def test_a_stopped_rank_is_a_hang_and_a_slow_one_is_not(stage: Stage, guard: Callable[..., Guard], words: str) -> None:
    """In each phase: process and command to continue it, and a message when it does."""
    pid_file = stage.folder / "pid"
    steps = [
        {"child": "VLLM::Worker_TP1", "session": True, "works": True, "pid_file": str(pid_file)},
        {"print": str(SERVED), "until": words},
        {"work": 7.0},
        {"hold": True},
    ]
    one = guard(steps, "--end-hung-after", "30")
    one.until("configure")
    slow_until = time.monotonic() + 4
    while time.monotonic() < slow_until:
        time.sleep(0.1)
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGSTOP)
    said = one.until("is stopped by a signal", within_s=10)
    assert f"VLLM::Worker_TP1 (process {pid})" in said
    assert not [line for line in one.lines if "no activity" in line or "been idle" in line]
    os.kill(pid, signal.SIGCONT)
    one.until("running again", within_s=10)


def test_a_hang_is_ended_after_its_time_and_explained(stage: Stage, guard: Callable[..., Guard]) -> None:
    """With the cause that a signal stopped the process."""
    pid_file = stage.folder / "pid"
    steps = [
        {"child": "VLLM::Worker_TP1", "pid_file": str(pid_file)},
        {"print": str(SERVED), "until": "Starting to load model"},
        {"hold": True},
    ]
    one = guard(steps, "--end-hung-after", "2", "--record", str(stage.folder / "hung"))
    one.until("configure")
    os.kill(int(pid_file.read_text()), signal.SIGSTOP)
    one.until("giving up", within_s=20)
    said = one.rest()

    assert one.process.wait(scaled(10)) == 1
    assert "other.user_interrupt.stopped_process" in said
    assert (stage.folder / "hung" / "case.yaml").is_file()
