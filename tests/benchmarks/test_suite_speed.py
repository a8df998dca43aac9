"""`check` of a few runs takes at most 0.4 of the CPU time that as many papermill command lines take."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from figures import Figures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = 3
RUNS = 5
VERDICT = """\
from vllm_runbooks.runbooks.notebook import conclude
from vllm_runbooks.core.records import RunbookVerdict, Verdict
conclude(RunbookVerdict(Verdict.PASS, "fine", case, None, None, ()), stop_on_fail=True)
"""
CELLS = {
    "parameters": 'evidence: str = "a-case"  # recorded case',
    "look": "import pathlib\ncase = pathlib.Path(evidence).name\nsum(range(10))",
    "verdict": VERDICT,
}


def prepare(folder: Path) -> None:
    """Write one trivial runbook and ten cases that name it."""
    code: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": id_,
            "metadata": {"tags": ["parameters"] if id_ == "parameters" else []},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for id_, source in CELLS.items()
    ]
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Trivial\n\nTakes no time."}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    declared = {"id": "trivial", "symptoms": [], "side_effects": False, "needs_gpu": False}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel, "runbook": declared},
        "cells": [title, *code],
    }
    (folder / "runbooks").mkdir()
    (folder / "runbooks/trivial.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    for number in range(RUNS):
        case = folder / f"cases/case-{number}"
        case.mkdir(parents=True)
        (case / "startup.log").write_text("INFO 11-20 06:23:11 [api_server.py:1] started\n", encoding="utf-8")
        (case / "case.yaml").write_text(
            f"id: case-{number}\ntitle: A case\nsource: ours\nfiles: [startup.log]\n"
            "expect: {class: ok}\nrunbooks: [trivial]\n",
            encoding="utf-8",
        )


def check(folder: Path) -> None:
    command = [sys.executable, "-m", "vllm_runbooks", "check", "--out", str(folder / "out")]
    subprocess.run(
        [*command, "--runbooks", str(folder / "runbooks"), "--cases", str(folder / "cases")],
        check=True,
        capture_output=True,
    )


def papermill(folder: Path) -> None:
    for number in range(RUNS):
        command = [sys.executable, "-m", "papermill", "--no-progress-bar", "-k", "python3"]
        files = [str(folder / "runbooks/trivial.ipynb"), str(folder / f"papermill-{number}.ipynb")]
        parameters = ["-p", "evidence", str(folder / f"cases/case-{number}")]
        subprocess.run([*command, *files, *parameters], check=True, capture_output=True)


def seconds(work: Callable[[Path], None], folder: Path) -> float:
    """CPU time of the processes that `work` starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work(folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.benchmark
def test_check_is_faster_than_papermill(tmp_path: Path, figures: Figures) -> None:
    """Median of three rounds in turn; every run on both sides has its own kernel."""
    prepare(tmp_path)
    check(tmp_path)

    rounds = [(seconds(check, tmp_path), seconds(papermill, tmp_path)) for _ in range(ROUNDS)]

    ratios = [ours / theirs for ours, theirs in rounds]
    figures.note(f"check: CPU time for {RUNS} runs / of `papermill` for them", ratios, at_most=0.25)
