"""Every recorded case has its expected answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import scan
from vllm_runbooks.core.evidence import Case, CaseKind
from vllm_runbooks.core.records import Severity
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.causes import diagnose
from vllm_runbooks.reading import sources, startup_log
from vllm_runbooks.runbooks import case_files

CASES = [case_files.load_case(path.parent) for path in sorted((folders.catalog_dir() / "cases").glob("*/case.yaml"))]
HEALTHY = [case.id for case in CASES if case.expect.class_ == "ok"]


@pytest.mark.parametrize("engine", ["re2", "re"])
def test_a_healthy_case_has_no_failure(engine: str) -> None:
    """Recorded healthy launches have hints at most."""
    shelf = replace(catalog.load_catalog(()))
    if engine == "re":
        shelf.__dict__["patterns"] = scan.PatternSet(shelf.patterns.patterns, engine="re")
    for name in HEALTHY:
        last = [diagnose(start, shelf) for start in startup_log.read(sources.load(name), shelf)][-1]

        assert last.root_cause is None, name
        assert not [f.symptom for f in last.findings if f.severity is not Severity.HINT], name


@in_one_test("case", [case for case in CASES if case.kind is CaseKind.LOG], ids=lambda case: case.id)
def test_a_recorded_case_is_answered_as_expected(case: Case) -> None:
    """Outcome, class, captures, facts and findings of every shipped case."""
    evidence = sources.load(case.id)
    verdict = diagnosing.verdict(diagnosing.diagnose(evidence), evidence)

    assert verdict.verdict.value == "pass", verdict.reason
