"""CPU time of linting a script as a process, compared with importing papermill."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from figures import Figures
from test_diagnose_speed import CASES, ROUNDS, seconds

pytestmark = pytest.mark.benchmark


def test_linting_a_script_is_faster_than_importing_papermill(tmp_path: Path, figures: Figures) -> None:
    """`lint` of a 60-line script takes less CPU time than `python -c "import papermill"`: median of five rounds."""
    lines = (CASES / "copied-launch-script" / "launch.sh").read_text("utf-8").splitlines()
    script = tmp_path / "launch.sh"
    script.write_text("\n".join([*lines, "wait", *(f"echo step {n}" for n in range(60))][:60]) + "\n", encoding="utf-8")
    command = str(Path(sys.executable).with_name("vllm-runbooks"))
    arguments = ("lint", str(script), "--vllm", "0.19.0", "--gpus", "8xRTX3090")
    seconds(command, *arguments)

    ratios = [seconds(command, *arguments) / seconds(sys.executable, "-c", "import papermill") for _ in range(ROUNDS)]

    figures.note("lint: CPU time for a 60-line script / of `import papermill`", ratios, at_most=0.4)
