"""Real vLLM on a CPU: started, provoked, diagnosed from its own log, and started again with what was advised."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "live"))

import provoke
import set_up
from provoke import Failure

LIVE = set_up.place()  # asked here: tests have a cache folder of their own
SEED = 20261121
_A_PART = {"arguments": 1, "shell": 1, "engine": 2, "files": 1, "ranks": 1, "killed": 2, "requests": 1, "rest": 1}
"""How many of each group are tried without `-m full`."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it"),
]


def rows() -> list[object]:
    """Every failure: some of each group are slow, the others full."""
    draw = random.Random(SEED)  # noqa: S311 - drawn to be repeated
    every = provoke.failures()
    chosen = {
        one.id
        for group, count in _A_PART.items()
        for one in draw.sample([each for each in every if each.group == group], count)
    }
    marks = {True: pytest.mark.slow, False: pytest.mark.full}
    return [pytest.param(one, id=one.id, marks=marks[one.id in chosen]) for one in every]


@pytest.mark.parametrize("failure", rows())
def test_a_provoked_failure_is_diagnosed_from_its_own_log(failure: Failure, tmp_path: Path) -> None:
    """As what was written down before it was first run."""
    folder = tmp_path / failure.id
    folder.mkdir()
    found = provoke.provoke(failure, folder, live=LIVE)

    assert found.class_ in failure.accept, (found.class_, (folder / "server.log").read_text("utf-8")[-3000:])


@pytest.mark.slow
def test_the_guard_costs_little(tmp_path: Path) -> None:
    """Until ready at most one twentieth of the processor time that the server took; waits on purpose are told."""
    healthy = Failure("healthy", "none", [])
    (tmp_path / "healthy").mkdir()
    found = provoke.provoke(healthy, tmp_path / "healthy", live=LIVE)
    report = json.loads((found.folder / "report.json").read_text("utf-8"))

    assert report["attempts"][0]["ready_s"] is not None
    print(f"guard {report['cpu_s']:.2f} CPU s, server {report['server_cpu_s']:.2f} CPU s until ready")
    assert report["cpu_s"] <= 0.05 * report["server_cpu_s"]
