"""Verdict on linted commands."""

from __future__ import annotations

from vllm_runbooks.core.evidence import Case
from vllm_runbooks.core.expected import compare
from vllm_runbooks.core.records import IssueSeverity, RunbookVerdict, Verdict
from vllm_runbooks.lint.records import Linted


def judge_commands(linted: Linted, case: Case | None) -> RunbookVerdict:
    """Compare with the case's expectation, else fail on any error or warning."""
    wrong = [issue for issue in linted.issues if issue.severity is not IssueSeverity.INFO]
    if case is not None and case.expect.issues is not None:
        expected = {(issue.rule, issue.line) for issue in case.expect.issues}
        got = {(issue.rule, issue.line) for issue in wrong}
        differences = [f"line {line}: {rule}: expected, not found" for rule, line in sorted(expected - got)]
        differences += [f"line {line}: {rule}: found, not expected" for rule, line in sorted(got - expected)]
        verdict, reason = compare(differences, f"{len(expected)} issues")
    elif wrong:
        verdict, reason = Verdict.FAIL, f"line {wrong[0].line}: {wrong[0].message} ({wrong[0].rule})"
    elif not linted.deployments:
        verdict, reason = Verdict.FAIL, "no start of vLLM was found, so nothing was checked"
    else:
        verdict, reason = Verdict.PASS, f"nothing wrong on vLLM {linted.vllm.version}"
    count = {severity.value: sum(issue.severity is severity for issue in wrong) for severity in IssueSeverity}
    figures = {"vllm": linted.vllm.version, "errors": count["error"], "warnings": count["warning"]}
    return RunbookVerdict(verdict, reason, case.id if case else None, None, None, (), figures)
