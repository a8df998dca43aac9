"""Faults in correct manifests of all forms are reported on their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import checking

HERE = Path(__file__).parent
NAMES = sorted(path.name for path in (HERE / "manifests").iterdir())
FAULTS = YAML(typ="safe").load(HERE / "manifest_faults.yaml")
LEAST_FOUND = 56


def lint(name: str, text: str) -> list[tuple[str, range]]:
    """Rule and lines of the errors and warnings of a text."""
    linted = checking.lint_text(text, name=name)
    wrong = [issue for issue in linted.issues if issue.severity is not IssueSeverity.INFO]
    return [(issue.rule, range(issue.line, issue.line + issue.text.count("\n") + 1)) for issue in wrong]


def is_found(fault: dict[str, Any]) -> bool:
    """Whether its rule reports it on its line."""
    text = (HERE / "manifests" / fault["file"]).read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1, fault
    changed = text.replace(fault["old"], fault["new"])
    line = changed[: changed.index(fault["at"])].count("\n") + 1
    rules = [fault["rule"]] if isinstance(fault["rule"], str) else fault["rule"]
    return any(rule in rules and line in lines for rule, lines in lint(fault["file"], changed))


@pytest.mark.parametrize("name", NAMES)
def test_correct_manifest_has_no_problems(name: str) -> None:
    """A correct manifest has launches, and no error and no warning."""
    text = (HERE / "manifests" / name).read_text(encoding="utf-8")
    assert checking.lint_text(text, name=name).deployments
    assert lint(name, text) == []


def test_faults_are_reported() -> None:
    """At least 56 of the 61 faults are reported by their rules on their lines."""
    missed = [f"{fault['file']}: {fault['at']}" for fault in FAULTS if not is_found(fault)]
    assert len(FAULTS) == 61
    assert len(FAULTS) - len(missed) >= LEAST_FOUND, missed
