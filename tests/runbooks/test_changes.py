"""Changes since the last run into the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks.runbooks.changes import RunChange, compare, compared_since, keep_previous, previous_runs


def run(verdict: str, symptom: str | None = None, **more: Any) -> dict[str, Any]:
    cause = {"symptom": symptom, "class": "x"} if symptom else None
    return {"runbook": "r", "case": "k", "verdict": verdict, "outcome": "failed", "root_cause": cause, **more}


def keep(folder: Path, *runs: dict[str, Any], began: str = "2026-01-01") -> None:
    (folder / "results.json").write_text(json.dumps({"began": began, "runs": runs}), encoding="utf-8")
    keep_previous(folder)


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (run("pass"), run("fail"), RunChange.NEW_FAILURE),
        (run("pass"), run("error"), RunChange.NEW_FAILURE),
        (None, run("fail"), RunChange.NEW_FAILURE),
        (run("error"), run("fail"), RunChange.STILL_FAILING),
        (run("fail"), run("pass"), RunChange.FIXED),
        (run("pass", "a"), run("pass", "b"), RunChange.OTHER_DIAGNOSIS),
        (run("pass", "a"), run("pass", "a", seconds=3), RunChange.UNCHANGED),
        (run("pass"), run("pass", node="two"), RunChange.NEW_CASE),
        (run("pass"), run("interrupted"), RunChange.NOT_FINISHED),
        (run("pass"), run("skipped"), RunChange.NOT_FINISHED),
        (run("error", case=None, refused=True), run("error", case=None, refused=True), RunChange.STILL_FAILING),
    ],
)
def test_a_run_is_compared_with_the_last_one_on_its_case(
    tmp_path: Path, before: dict[str, Any] | None, now: dict[str, Any], change: RunChange
) -> None:
    """By verdict, and by diagnosis if both pass."""
    keep(tmp_path, *([before] if before else []))

    assert compare(now, previous_runs(tmp_path)) is change


def test_an_unfinished_case_keeps_its_earlier_result(tmp_path: Path) -> None:
    """So does a case missing in a later run; the compared result has its date."""
    keep(tmp_path, run("pass"), run("pass", case="other"), began="2026-01-01")
    keep(tmp_path, run("interrupted"), run("fail", case="third"), began="2026-01-02")
    previous = previous_runs(tmp_path)

    assert compare(run("fail"), previous) is RunChange.NEW_FAILURE
    assert compare(run("fail", case="third"), previous) is RunChange.STILL_FAILING
    assert compared_since([run("fail"), run("fail", case="third")], previous) == ["2026-01-01", "2026-01-02"]
    assert compared_since([run("fail")], previous) == ["2026-01-01"]


@pytest.mark.parametrize("content", ["", "[]", '{"runs": 1}', '{"runs": [1, {"runbook": [], "verdict": "pass"}]}'])
def test_results_that_cannot_be_read_are_compared_with_nothing(tmp_path: Path, content: str) -> None:
    """A hand-made or damaged file neither stops a run nor is kept."""
    (tmp_path / "results.json").write_text(content, encoding="utf-8")
    keep_previous(tmp_path)

    assert previous_runs(tmp_path) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
