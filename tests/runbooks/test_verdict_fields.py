"""A verdict as two fields: the diagnosis, and the result of its check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks.notebook import _card
from vllm_runbooks.runbooks.verdict_fields import CheckState, verdict_fields

FINDING = {"symptom": "port.in_use", "class": "port", "title": "Port taken", "severity": "fatal", "level": "probable"}
CAUSE = {"root_cause": {"symptom": "port.in_use", "class": "port"}, "findings": [FINDING], "outcome": "failed"}


@pytest.mark.parametrize(
    ("run", "diagnosis", "certainty", "check", "detail"),
    [
        (
            {"verdict": "pass", "case": "k", "reason": "as expected: failed, port", **CAUSE},
            "Port taken", "●●○ probable", CheckState.AS_EXPECTED, "",
        ),
        (
            {"verdict": "fail", "case": "k", "reason": "class: expected ok, got port", **CAUSE},
            "Port taken", "●●○ probable", CheckState.NOT_AS_EXPECTED, "class: expected ok, got port",
        ),
        (
            {"verdict": "fail", "reason": "failed: Port taken (port.in_use, probable)", **CAUSE},
            "Port taken", "●●○ probable", CheckState.PROBLEM_FOUND, "no expectation recorded",
        ),
        (
            {"verdict": "pass", "reason": "ready: no problems", "outcome": "ready"},
            "healthy (ready)", "", CheckState.NO_PROBLEM_FOUND, "no expectation recorded",
        ),
        (
            {"verdict": "pass", "reason": "running: errors 5", "outcome": "running", "facts": {"errors": 5}},
            "runs with incidents (running)", "", CheckState.RUNS_WITH_INCIDENTS,
            "running: errors 5; no expectation recorded",
        ),
        (
            {"verdict": "pass", "reason": "running: no problems", "outcome": "running", "facts": {"errors": 0}},
            "healthy (running)", "", CheckState.NO_PROBLEM_FOUND, "no expectation recorded",
        ),
        (
            {"verdict": "fail", "reason": "failed: unknown cause", "outcome": "failed"},
            "no cause found (failed)", "", CheckState.PROBLEM_FOUND, "no expectation recorded",
        ),
        (
            {"verdict": "pass", "case": "k", "reason": "as expected: it fits"},
            "it fits", "", CheckState.AS_EXPECTED, "",
        ),
        (
            {"verdict": "fail", "case": "k", "reason": "expected: it fits, got: no", "facts": {"fits": False}},
            "it does not fit", "", CheckState.NOT_AS_EXPECTED, "expected: it fits, got: no",
        ),
        (
            {"verdict": "fail", "case": "k", "reason": "line 3: no option --x (option.unknown)"},
            "line 3: no option --x (option.unknown)", "", CheckState.PROBLEM_FOUND, "no expectation recorded",
        ),
        (
            {"verdict": "pass", "reason": "2 copies answered 16 of 16 requests", "outcome": "ready"},
            "healthy (ready)", "", CheckState.NO_PROBLEM_FOUND,
            "2 copies answered 16 of 16 requests; no expectation recorded",
        ),
        (
            {"verdict": "pass", "case": "k", "reason": "as expected: a.b, a.c-d, b.c_d, c.d"},
            "4 findings: a.b, a.c-d, b.c_d and others", "", CheckState.AS_EXPECTED, "",
        ),
        (
            {"verdict": "pass", "case": "k", "reason": "as expected: nodes.clock_off", "findings": [
                {"symptom": "nodes.x", "title": "No RDMA", "severity": "hint", "level": "confirmed"},
                {"symptom": "nodes.clock_off", "title": "Clocks differ", "severity": "fatal", "level": "confirmed"},
            ]},
            "Clocks differ", "●●● confirmed", CheckState.AS_EXPECTED, "",
        ),
        ({"verdict": "error", "reason": "the kernel died"}, "", "", CheckState.ERROR, "the kernel died"),
        ({"verdict": "skipped", "reason": "no GPU"}, "", "", CheckState.SKIPPED, "no GPU"),
        ({"verdict": "newer"}, "", "", CheckState.ERROR, ""),
    ],
)  # fmt: skip
def test_diagnosis_and_check_are_two_fields(
    run: dict[str, Any], diagnosis: str, certainty: str, check: CheckState, detail: str
) -> None:
    """They do not repeat each other, and only a check with an expectation has a result."""
    fields = verdict_fields(run)

    assert (fields.diagnosis, fields.certainty, fields.check, fields.detail) == (diagnosis, certainty, check, detail)


def test_the_words_of_real_verdicts_are_understood() -> None:
    """Verdicts of a recorded failure: expected, unexpected, and for a user's log."""
    evidence = sources.load("autoglm-3090-video-oom")
    other = sources.load("tiny-cpu-served")
    answer = diagnosing.diagnose(evidence)
    judged = [diagnosing.verdict(answer, case) for case in (evidence, other)]
    fields = [verdict_fields(document(verdict)) for verdict in judged]

    assert [field.check for field in fields] == [CheckState.AS_EXPECTED, CheckState.NOT_AS_EXPECTED]
    assert {field.diagnosis for field in fields} == {"CUDA out of memory in the multimodal encoder"}
    assert fields[1].detail.startswith("outcome: expected running, got failed")


def test_the_summary_of_a_passing_check_does_not_say_failed() -> None:
    """The failure is the diagnosis, the check is as expected, and text is escaped."""
    evidence = sources.load("autoglm-3090-video-oom")
    verdict = diagnosing.verdict(diagnosing.diagnose(evidence), evidence)
    html = _card(verdict, verdict.reason)

    assert verdict.verdict is Verdict.PASS
    assert "●●● confirmed" in html
    assert ">as expected</span>" in html
    assert "failed" not in html.lower()
    assert "<script>" not in _card(replace(verdict, verdict=Verdict.FAIL), "<script>")
