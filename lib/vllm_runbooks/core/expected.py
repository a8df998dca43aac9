"""Compare results with the expectation of a recorded case."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from vllm_runbooks.core.evidence import Case, Expectation
from vllm_runbooks.core.records import CheckedClaim, RunbookVerdict, Verdict


def combine_verdicts(verdicts: Sequence[RunbookVerdict], case: Case | None) -> RunbookVerdict:
    """Combine the verdicts on several parts of one question: pass only if each passes."""
    failed = [verdict for verdict in verdicts if verdict.verdict is not Verdict.PASS]
    return RunbookVerdict(
        verdict=failed[0].verdict if failed else Verdict.PASS,
        reason="; ".join(verdict.reason for verdict in failed or verdicts),
        case=case.id if case is not None else None,
        outcome=next((verdict.outcome for verdict in verdicts if verdict.outcome is not None), None),
        root_cause=next((verdict.root_cause for verdict in verdicts if verdict.root_cause is not None), None),
        findings=tuple(finding for verdict in verdicts for finding in verdict.findings),
        facts={name: value for verdict in reversed(verdicts) for name, value in verdict.facts.items()},
    )


def compare(differences: Sequence[str], agreed: str) -> tuple[Verdict, str]:
    return (Verdict.FAIL, "; ".join(differences)) if differences else (Verdict.PASS, f"as expected: {agreed}")


def verdict_on_findings(names: Sequence[str], expect: Expectation) -> tuple[Verdict, str]:
    """Verdict on findings by the expectation of a case, with the reason."""
    return compare([*finding_differences(names, expect)], ", ".join(dict.fromkeys(names)) or "no problems")


def finding_differences(names: Collection[str], expect: Expectation) -> Iterator[str]:
    got = set(names)
    expected = got if expect.findings is None else set(expect.findings)
    yield from (f"finding {name}: expected, not found" for name in sorted(expected - got))
    yield from (f"finding {name}: found, not expected" for name in sorted(got - expected))


def claim_differences(case: Case, judged: Sequence[CheckedClaim]) -> list[str]:
    """Claims of the case with another verdict than expected, a sentence each."""
    verdicts = {claim.id: claim for claim in judged}
    return [
        f"claim {name}: expected {verdicts[name].expected}, got {verdicts[name].verdict}"
        if name in verdicts
        else f"claim {name}: expected, not checked"
        for name in case.expect.claims or ()
        if name not in verdicts or verdicts[name].verdict is not verdicts[name].expected
    ]
