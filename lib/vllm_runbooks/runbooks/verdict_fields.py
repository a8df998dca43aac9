"""A run's verdict as two fields: the diagnosis, and its comparison with the expectation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from vllm_runbooks.core.records import COUNTED, Level, Outcome, Severity, Verdict
from vllm_runbooks.core.views.summary import certainty

NO_RUNBOOK = "(no runbook)"
"""Runbook id of a case without one: only its diagnosis is checked."""


class CheckState(StrEnum):
    """Result of checking a diagnosis, most urgent first."""

    NOT_AS_EXPECTED = "not as expected"
    PROBLEM_FOUND = "problem found"
    ERROR = "not checked"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"
    AS_EXPECTED = "as expected"
    RUNS_WITH_INCIDENTS = "runs with incidents"
    NO_PROBLEM_FOUND = "no problem found"


@dataclass(frozen=True)
class VerdictFields:
    """A verdict as two fields."""

    diagnosis: str
    """Title of the root cause, or another result; empty if the run has none."""
    certainty: str
    """Certainty as dots and a word; empty without a root cause."""
    symptom: str
    check: CheckState
    detail: str
    """The difference, the reason for a missing verdict, or the basis of the check."""


_NO_EXPECTATION = "no expectation recorded"
_AS_EXPECTED = "as expected: "
_EXPECTED = "expected"
"""In each difference that `core.expected` and its callers write."""
_MOST_NAMES = 3
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+")
_SAID_BY_OUTCOME = (": no problems", ": unknown cause")
_UNJUDGED = {
    Verdict.ERROR: CheckState.ERROR,
    Verdict.INTERRUPTED: CheckState.INTERRUPTED,
    Verdict.SKIPPED: CheckState.SKIPPED,
}


def verdict_fields(run: Mapping[str, Any], *, is_diagnosis_only: bool = False) -> VerdictFields:
    """The two fields of a run of `results.json`, or of a document of a `RunbookVerdict`.

    Args:
        run: As read from a file; values of other types are shown as text or left out.
        is_diagnosis_only: Whether nothing was executed on a host.
    """
    reason = str(run.get("reason") or "")
    verdict = next((verdict for verdict in Verdict if verdict == run.get("verdict")), Verdict.ERROR)
    if verdict in _UNJUDGED:
        return VerdictFields(*_diagnosis(run, ""), _UNJUDGED[verdict], reason)
    is_pass = verdict is Verdict.PASS
    if run.get("case") and ("as expected" if is_pass else _EXPECTED) in reason:
        diagnosis = _diagnosis(run, reason.replace(_AS_EXPECTED, "") if is_pass else _fit(run))
        check = CheckState.AS_EXPECTED if is_pass else CheckState.NOT_AS_EXPECTED
        return VerdictFields(*diagnosis, check, "" if is_pass else reason)
    diagnosis = _diagnosis(run, reason)
    is_repeated = (
        reason == diagnosis[0]
        or reason.endswith(_SAID_BY_OUTCOME)
        or re.fullmatch(rf"\w+: {re.escape(diagnosis[0])} \([^;]*\)", reason) is not None
    )
    details = ["" if is_repeated else reason, "diagnosis only" if is_diagnosis_only else "", _NO_EXPECTATION]
    found_nothing = CheckState.RUNS_WITH_INCIDENTS if _has_incidents(run) else CheckState.NO_PROBLEM_FOUND
    check = found_nothing if is_pass else CheckState.PROBLEM_FOUND
    return VerdictFields(*diagnosis, check, "; ".join(filter(None, details)))


def _diagnosis(run: Mapping[str, Any], otherwise: str) -> tuple[str, str, str]:
    """Title, certainty and symptom of the root cause; else the state of health, or `otherwise`."""
    cause, outcome, findings = run.get("root_cause"), run.get("outcome"), run.get("findings")
    listed = [item for item in findings if isinstance(item, dict)] if isinstance(findings, (list, tuple)) else []
    # Checks of nodes have findings and neither a cause nor an outcome.
    if cause is None and outcome is None:
        cause = next((item for item in listed if item.get("severity") != Severity.HINT), None)
    if isinstance(cause, dict):
        symptom = str(cause.get("symptom"))
        finding = next((item for item in listed if item.get("symptom") == symptom), {})
        level = next((level for level in Level if level == finding.get("level")), None)
        return str(finding.get("title") or symptom), certainty(level, level.value) if level else "", symptom
    state = next((state for state in Outcome if state == outcome), None)
    if state is not None:
        health = "runs with incidents" if _has_incidents(run) else "healthy"
        return f"{health if state.is_healthy else 'no cause found'} ({state.value})", "", ""
    return _shortened(otherwise), "", ""


def _has_incidents(run: Mapping[str, Any]) -> bool:
    """Whether the server's errors, failed requests or preemptions were counted."""
    facts = run.get("facts")
    return isinstance(facts, dict) and any(isinstance(facts.get(name), int) and facts[name] > 0 for name in COUNTED)


def _shortened(text: str) -> str:
    """A long list of findings as their number and the first of them."""
    names = text.split(", ")
    if len(names) <= _MOST_NAMES or not all(map(_NAME.fullmatch, names)):
        return text
    return f"{len(names)} findings: {', '.join(names[:_MOST_NAMES])} and others"


def _fit(run: Mapping[str, Any]) -> str:
    facts = run.get("facts")
    fits = facts.get("fits") if isinstance(facts, dict) else None
    return {True: "it fits", False: "it does not fit"}.get(fits, "") if isinstance(fits, bool) else ""
