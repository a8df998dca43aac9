"""The command line as a test calls it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from vllm_runbooks import cli

PORT = "OSError: [Errno 98] Address already in use\n"
"""A log that one line diagnoses."""


def call(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """The command as a whole process."""
    command = [sys.executable, "-m", "vllm_runbooks", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **more)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command in this process."""
    status = cli.run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err
