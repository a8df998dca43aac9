"""Diagnoses of an external set of labelled logs, if available, scored by their labels."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from figures import Figures

pytestmark = pytest.mark.benchmark

SCORE = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "score"
PROMISES = {"exact": 0.95, "group": 0.98, "unknown": 0.9, "facts": 0.97}
_NAMES = {
    "exact": "share with the correct class of root cause",
    "group": "share with the correct group of root causes",
    "unknown": "share without a wrong cause, if the log does not contain the cause",
    "facts": "share of correct facts",
}


@pytest.mark.skipif(not SCORE.exists(), reason="the labelled logs are not at hand")
def test_labelled_logs_are_diagnosed(figures: Figures) -> None:
    """Classes, groups and facts of the labelled logs; no healthy one gets a cause."""
    command = [sys.executable, str(SCORE), "--", sys.executable, "-m", "vllm_runbooks", "diagnose", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    shares = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", done.stdout)}

    assert shares, done.stderr[-2000:]
    for name, least in PROMISES.items():
        figures.note(f"labeled logs: {_NAMES[name]}", shares[name], at_least=least, form=".3f")
    figures.note("labeled logs: share with the correct release", shares["version"], form=".3f")
    figures.note("labeled logs: share of healthy logs with a cause", shares["false_alarm"], at_most=0, form=".3f")
    figures.note("labeled logs: crashes", shares["crashes"], at_most=0, form=".0f")
