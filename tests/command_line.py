"""The command line as a test calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vllm_runbooks import cli

PORT = "OSError: [Errno 98] Address already in use\n"
"""A log that one line diagnoses."""


def call(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """The command as a whole process."""
    command = [sys.executable, "-m", "vllm_runbooks", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **more)


class Measured(NamedTuple):
    """The cost of a command as a process."""

    status: int
    out: str
    err: str
    cpu_seconds: float
    peak_mib: float


_MEASURED = """
import pathlib, sys, time
from vllm_runbooks import cli
status = cli.run(sys.argv[1:])
# What the system counts as the most of a process (`ru_maxrss`) begins with that of whoever started it; this does not.
peak = pathlib.Path("/proc/self/status").read_text("ascii").partition("VmHWM:")[2].split()[0]
sys.stdout.flush()
print(time.process_time(), peak, file=sys.stderr)
sys.exit(status)
"""


def measured(*arguments: str, cwd: Path, timeout: float = 600) -> Measured:
    """The command as a process, with its processor time and peak memory; Linux only."""
    command = [sys.executable, "-c", _MEASURED, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    err, _, figures = done.stderr.removesuffix("\n").rpartition("\n")
    seconds, kib = figures.split()
    return Measured(done.returncode, done.stdout, err, float(seconds), int(kib) / 1024)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command in this process."""
    status = cli.run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err
