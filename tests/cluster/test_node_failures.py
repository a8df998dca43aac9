"""Failures over several nodes are diagnosed in the wording of any release or tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from vllm_runbooks import render
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Answer
from vllm_runbooks.diagnosis import diagnosing

FAILURES: Mapping[str, Any] = YAML(typ="safe").load(Path(__file__).parents[1].joinpath("node_failures.yaml"))


def answer(logs: list[str]) -> Answer:
    return diagnosing.diagnose(Evidence(tuple(Document(f"{index}.log", text) for index, text in enumerate(logs))))


def test_failures_are_diagnosed_in_every_form() -> None:
    """The predicted cause with its necessary facts: node, address, requirement."""
    found = {name: answer(failure["logs"]) for name, failure in FAILURES.items()}
    causes = {name: told.root_cause.symptom if told.root_cause else None for name, told in found.items()}
    texts = {name: " ".join(render.answers.text(told).split()) for name, told in found.items()}

    assert causes == {name: failure["cause"] for name, failure in FAILURES.items()}
    assert {
        name: missing
        for name, failure in FAILURES.items()
        if (missing := [said for said in failure.get("says", ()) if said not in texts[name]])
    } == {}
