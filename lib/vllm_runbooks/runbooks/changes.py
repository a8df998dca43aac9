"""Changes since the last run into the same folder, case by case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.files import store
from vllm_runbooks.core.records import Verdict

_PREVIOUS = "previous.json"
_FIELDS = ("runbook", "case", "node", "verdict", "outcome", "root_cause", "refused")
_BAD = (Verdict.FAIL, Verdict.ERROR)
_JUDGED = (Verdict.PASS, *_BAD)

RunKey = tuple[str, str, str]


class RunChange(StrEnum):
    """Comparison of a run with the last one on the same case, most urgent first."""

    NEW_FAILURE = "new failures"
    STILL_FAILING = "still failing"
    NOT_FINISHED = "not finished"
    FIXED = "fixed"
    OTHER_DIAGNOSIS = "diagnosis changed"
    NEW_CASE = "new cases"
    UNCHANGED = "unchanged"


def keep_previous(folder: Path) -> None:
    """Store the folder's results of each case before they are overwritten.

    A case that the last run did not finish keeps its earlier result.
    """
    results = _read(folder / "results.json")
    runs = {**previous_runs(folder)}
    for run in _runs(results):
        key = _key(run)
        if key is not None and run.get("verdict") in _JUDGED:
            runs[key] = {**{name: run.get(name) for name in _FIELDS}, "began": results.get("began")}
    if runs:
        store(folder / _PREVIOUS, json.dumps({"schema": SCHEMA, "runs": list(runs.values())}, indent=1) + "\n")


def previous_runs(folder: Path) -> dict[RunKey, Mapping[str, Any]]:
    """Last results with a verdict, as stored by `keep_previous`; empty for a new folder."""
    runs = ((_key(run), run) for run in _runs(_read(folder / _PREVIOUS)))
    return {key: run for key, run in runs if key is not None}


def compare(run: Mapping[str, Any], previous: Mapping[RunKey, Mapping[str, Any]]) -> RunChange:
    """Compare a run with the last one on the same case."""
    key, verdict = _key(run), run.get("verdict")
    before = previous.get(key) if key is not None else None
    if verdict not in _JUDGED:
        return RunChange.NOT_FINISHED
    if verdict in _BAD:
        is_new = before is None or before.get("verdict") not in _BAD
        return RunChange.NEW_FAILURE if is_new else RunChange.STILL_FAILING
    if before is None:
        return RunChange.NEW_CASE
    if before.get("verdict") in _BAD:
        return RunChange.FIXED
    return RunChange.UNCHANGED if _diagnosis(before) == _diagnosis(run) else RunChange.OTHER_DIAGNOSIS


def is_comparable(run: Mapping[str, Any]) -> bool:
    return _key(run) is not None


def compared_since(runs: Sequence[Mapping[str, Any]], previous: Mapping[RunKey, Mapping[str, Any]]) -> list[str]:
    """When the earlier runs of these began, in order."""
    keys = {_key(run) for run in runs}
    return sorted({str(before.get("began")) for key, before in previous.items() if key in keys})


def _diagnosis(run: Mapping[str, Any]) -> tuple[Any, Any]:
    cause = run.get("root_cause")
    return run.get("outcome"), cause.get("symptom") if isinstance(cause, dict) else None


def _key(run: Mapping[str, Any]) -> RunKey | None:
    """Runbook, case and node; None for a runbook on another log than a case's: that is another question each time."""
    runbook, case, node = run.get("runbook"), run.get("case") or "", run.get("node") or ""
    if isinstance(runbook, str) and isinstance(case, str) and isinstance(node, str) and (case or run.get("refused")):
        return runbook, case, node
    return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _runs(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    runs = document.get("runs")
    return [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
