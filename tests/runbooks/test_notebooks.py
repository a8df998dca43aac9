"""Every runbook keeps the conventions that make it readable, runnable headless and safe to commit."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import cases, notebook

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = sorted((ROOT / "runbooks").glob("*.ipynb"))
TAGS = {"step", "parameters", "live", "mutates", "hide-input", "raises-exception"}
CELL_KEYS = {"code": {"tags", "jupyter"}, "markdown": {"tags"}}


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def each_cell(kind: str) -> list[Any]:
    return [
        pytest.param(path, cell, id=f"{path.stem}:{cell['id']}")
        for path in RUNBOOKS
        for cell in cells(path)
        if cell["cell_type"] == kind
    ]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


@in_one_test(("path", "cell"), each_cell("code"))
def test_code_cells_call_the_library_and_nothing_else(path: Path, cell: dict[str, Any]) -> None:
    """At most ten lines a cell (parameters sixteen), in which nothing is defined, caught, looped over or matched."""
    code = source(cell)
    banned = (ast.FunctionDef, ast.ClassDef, ast.Try, ast.For, ast.While, ast.If, ast.Lambda, ast.ListComp)

    assert len(code.splitlines()) <= (16 if "parameters" in cell["metadata"].get("tags", []) else 10), path
    assert [type(node).__name__ for node in ast.walk(ast.parse(code)) if isinstance(node, banned)] == []
    assert re.search(r"\bre\.|subprocess|os\.system", code) is None


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_runbooks_are_stripped_and_their_cells_have_ids(path: Path) -> None:
    """No outputs, counts or stray metadata, and every cell id is a name."""
    data = json.loads(path.read_text(encoding="utf-8"))

    assert set(data["metadata"]) == {"kernelspec", "runbook"}
    for cell in data["cells"]:
        assert re.fullmatch(r"[a-z][a-z0-9-]{2,40}", cell["id"]), cell["id"]
        assert set(cell["metadata"]) <= CELL_KEYS[cell["cell_type"]], cell["id"]
        assert set(cell["metadata"].get("tags", [])) <= TAGS, cell["id"]
        assert cell.get("outputs", []) == [], cell["id"]
        assert cell.get("execution_count") is None, cell["id"]
    assert len({cell["id"] for cell in data["cells"]}) == len(data["cells"])


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_runbooks_begin_with_the_answer_and_continue_in_steps(path: Path) -> None:
    """Title and impact, parameters, the summary; then numbered steps with headings and the result.

    A panel has a separate cell, below a heading without a number.
    """
    listed = cells(path)
    kinds = [cell["cell_type"] for cell in listed]
    steps = [source(cell) for cell in listed[3:] if cell["cell_type"] == "markdown"]
    headings = [re.match(r"## (?:(\d+)\. )?\S", text) for text in steps if not text.startswith("### ")]

    assert kinds[:3] == ["markdown", "code", "code"]
    assert source(listed[0]).startswith("# ")
    assert "**Impact.**" in source(listed[0])
    assert ".summary(" in source(listed[2]).splitlines()[-1]
    assert [found[1] if found else "no heading" for found in headings] == [
        *map(str, range(1, len(headings))), None
    ]  # fmt: skip
    assert steps[-1].startswith("## Result\n")
    assert [
        cell["id"] for cell, before in zip(listed[3:], kinds[2:], strict=False) if cell["cell_type"] == before
    ] == []
    assert "rb.conclude(" in source(listed[-1])


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_code_of_steps_is_collapsed(path: Path) -> None:
    """JupyterLab shows parameters, the call for the summary and all outputs; the code of a step is a click away."""
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    hidden = [cell["metadata"].get("jupyter", {}) == {"source_hidden": True} for cell in code]
    assert hidden == [False, False, *[True] * (len(code) - 2)]


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_parameters_are_literals_that_papermill_can_read(path: Path) -> None:
    """One `name: type = literal  # help` a line with exactly one `=`: papermill drops any other from its inspection."""
    (cell,) = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    first = next(c for c in cells(path) if c["cell_type"] == "code")

    assert cell is first or cell["id"] == first["id"]
    for line in source(cell).splitlines():
        assert re.fullmatch(r"[a-z_]+: (?:str|int|float|bool) = [^=|]+  # [^=]+", line), line


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_runbooks_and_symptoms_link_each_other(path: Path) -> None:
    """A runbook names symptoms of the catalog, each of which names the runbook, and the reverse."""
    symptoms = catalog.load_catalog().symptoms
    runbook = notebook.load_runbook(path)

    assert sorted(runbook.symptoms) == sorted(s.id for s in symptoms.values() if s.runbook == runbook.id)


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_the_default_evidence_is_a_recorded_case_that_lists_the_runbook(path: Path) -> None:
    """With its defaults a runbook works on a recorded case, so that it runs anywhere."""
    runbook = notebook.load_runbook(path)
    default = next(p.default for p in runbook.parameters if p.name == "evidence")
    case = sources.load(str(default)).case

    assert case is not None
    assert runbook.id in case.runbooks


def test_every_case_is_used() -> None:
    """Each recorded case has a verdict from a test: the one below runs them all."""
    assert len(list((ROOT / "catalog" / "cases").glob("*/case.yaml"))) >= 14


@in_one_test("folder", sorted((ROOT / "catalog" / "cases").iterdir()), ids=lambda p: p.name)
def test_recorded_cases_have_their_expected_answers(folder: Path) -> None:
    """For every kind of case: log, question, host, running server."""
    verdict = cases.verdict(sources.load(str(folder)))

    assert (verdict.verdict.value, verdict.reason.startswith("as expected")) == ("pass", True), verdict.reason
