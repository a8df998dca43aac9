"""The README's sample of a checked command is what is printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_runbooks.cli import commands

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_shows_what_lint_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is the beginning of every line, in order, of what is said about the recorded script."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command, sample) = re.findall(r"```console\n\$ vllm-runbooks (lint .*)\n([^`]*?)\n```", readme)[0]
    monkeypatch.chdir(ROOT / "catalog" / "cases" / "copied-launch-script")
    printed = iter(CliRunner().invoke(commands, command.split()).output.splitlines())

    for line in sample.splitlines():
        shown = line.partition("…")[0].rstrip()
        assert any(real.startswith(shown) for real in printed), line


def test_the_readme_shows_what_plan_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is the whole answer."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command, sample) = re.findall(r"```console\n\$ vllm-runbooks (plan .*)\n([^`]*?)\n```", readme)[0]
    monkeypatch.setattr(sys, "argv", ["vllm-runbooks", *command.split()])

    assert CliRunner().invoke(commands, command.split()).output.rstrip("\n") == sample
