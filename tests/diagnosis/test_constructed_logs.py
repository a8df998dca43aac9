"""Logs in the words that the software prints get the expected diagnosis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from vllm_runbooks.catalog.load import load_catalog
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.diagnosis import diagnosing

CASES = YAML(typ="safe").load(Path(__file__).with_name("constructed_logs.yaml"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_a_constructed_log_gets_the_expected_diagnosis(case: dict[str, Any]) -> None:
    """Outcome, cause, release and facts are those of the table."""
    document = Document(f"{case['id']}.log", case["log"])
    answer = diagnosing.diagnose(Evidence((document,), vllm=case.get("vllm")), catalog=load_catalog())
    cause, first = answer.root_cause, answer.first_error
    actual = {
        "outcome": answer.outcome.value,
        "cause": cause.symptom if cause else None,
        "level": cause.level.value if cause else None,
        "vllm": answer.vllm.version,
        "release_source": answer.vllm.source,
        "rules": answer.vllm.rules,
        "first_error": first.text if first else None,
        "first_fix": answer.remedies[0].title if answer.remedies else None,
    }
    expected = case["expect"]
    assert {name: actual.get(name, getattr(answer.facts, name, None)) for name in expected} == expected
