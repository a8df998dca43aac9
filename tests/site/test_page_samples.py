"""The samples at the top of the pages on lint and plan are real output."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vllm_runbooks.cli import commands

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_on_lint_shows_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of the sample begins a line of the output for the page's script, in order."""
    page = (ROOT / "docs" / "linting.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```bash bad\n(#!/bin/bash\n.*?)```", page, re.DOTALL)
    (command, sample) = re.findall(r"```console\n\$ vllm-runbooks (lint serve.sh .*)\n([^`]*?)\n```", page)[0]
    (tmp_path / "serve.sh").write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = iter(CliRunner().invoke(commands, command.split()).output.splitlines())

    for line in sample.splitlines():
        shown = line.partition("…")[0].rstrip()
        assert any(real.startswith(shown) for real in printed), line


def test_the_page_on_plans_shows_real_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is the whole answer."""
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    samples = re.findall(r"```console\n\$ vllm-runbooks (plan .*)\n([^`]*?)\n```", page)
    (command, sample) = next(sample for sample in samples if sample[1].startswith("FITS AT"))
    monkeypatch.setattr(sys, "argv", ["vllm-runbooks", *command.split()])

    assert CliRunner().invoke(commands, command.split()).output.rstrip("\n") == sample
