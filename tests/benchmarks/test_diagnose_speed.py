"""CPU time of a diagnosis as a whole process, against importing papermill, in one run on one machine."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from figures import Figures

pytestmark = pytest.mark.benchmark

CASES = Path(__file__).resolve().parents[2] / "catalog" / "cases"
ROUNDS = 5


def seconds(*command: str) -> float:
    """CPU time of a whole process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_diagnosis_takes_less_than_importing_papermill(tmp_path: Path, figures: Figures) -> None:
    """`diagnose` on a 500-line log takes less CPU time than `python -c "import papermill"`: median of five rounds."""
    names = ("autoglm-3090-video-oom", "gpt-oss-gemma-a100-four-starts")
    lines = [line for name in names for line in (CASES / name / "startup.log").read_text("utf-8").splitlines()][:500]
    log = tmp_path / "startup.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(lines) == 500
    command = str(Path(sys.executable).with_name("vllm-runbooks"))
    seconds(command, "diagnose", str(log))

    ratios = [
        seconds(command, "diagnose", str(log)) / seconds(sys.executable, "-c", "import papermill")
        for _ in range(ROUNDS)
    ]

    figures.note("diagnose: CPU time for a 500-line log / of `import papermill`", ratios, at_most=0.6)
