"""Scripts for an Edge10 chip linted: every mistake that was written down beforehand, and no other."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from vllm_runbooks import checking
from vllm_runbooks.records import IssueSeverity
from vllm_runbooks.toolchain_records import LintedScripts

SCRIPTS = Path(__file__).parent / "edge10_scripts"
EXPECTED: dict[str, Any] = YAML(typ="safe").load((SCRIPTS / "expected.yaml").read_text("utf-8"))


@cache
def texts(name: str) -> dict[str, str]:
    """The files of a case by name: one script, or a folder of them."""
    path = SCRIPTS / name
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {file.name: file.read_text("utf-8") for file in files}


@cache
def linted(name: str) -> dict[str, LintedScripts]:
    return checking.lint_scripts(texts(name), fix=True)


def wrong(found: dict[str, LintedScripts]) -> list[tuple[str, int, str]]:
    """Errors and warnings: file, line, rule."""
    return sorted(
        (file, issue.line, issue.rule)
        for file, one in found.items()
        for issue in one.issues
        if issue.severity is not IssueSeverity.INFO
    )


def line_of(text: str, words: str) -> int:
    """The one line that holds the words."""
    lines = [number for number, line in enumerate(text.split("\n"), 1) if words in line]
    assert len(lines) == 1, (words, lines)
    return lines[0]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_script_has_what_was_written_down_of_it_and_nothing_else(name: str) -> None:
    """Each mistake at its line; a corrected script has none, whatever its style."""
    files = texts(name)
    expected = []
    for rule, words, *file in EXPECTED[name]["issues"]:
        place = file[0] if file else next(iter(files))
        expected.append((place, line_of(files[place], words), rule))

    assert wrong(linted(name)) == sorted(expected)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_script_is_told_for_what_it_is(name: str) -> None:
    """By what it imports and calls, in the order in which that shows."""
    steps = EXPECTED[name]["steps"]
    by_file = steps if isinstance(steps, dict) else {next(iter(texts(name))): steps}

    assert {file: [step.step for step in one.steps] for file, one in linted(name).items()} == by_file
