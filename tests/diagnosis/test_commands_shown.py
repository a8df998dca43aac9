"""Every vLLM command that the project shows has passed its own linter, or is marked as a bad example."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.evidence import CaseKind
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.lint import checking, knowledge
from vllm_runbooks.probe import checking as probe_checking
from vllm_runbooks.reading import documents, sources

ROOT = Path(__file__).resolve().parents[2]
BAD = re.compile(r"^(```+)bash bad\n.*?^\1$", re.MULTILINE | re.DOTALL)
"""A fenced block whose commands are wrong on purpose."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "runbooks").glob("*.ipynb"))]
CASES = [path.parent.name for path in sorted(folders.cases_dir().glob("*/case.yaml"))]


def prose(path: Path) -> str:
    """What a page says: of a notebook its cells, outputs left out."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    return BAD.sub("", text)


def errors(text: str, vllm: str | None = None) -> list[tuple[int, str, str]]:
    found = checking.lint_text(text, name="page.md", vllm=vllm)
    return [(i.line, i.rule, i.message) for i in found.issues if i.severity is IssueSeverity.ERROR]


@in_one_test("path", PAGES, ids=lambda path: path.name)
def test_a_page_shows_no_wrong_command(path: Path) -> None:
    """Neither in a block nor in a sentence, for the newest release that is known."""
    assert errors(prose(path)) == []


def test_bad_examples_are_recognised() -> None:
    """They are cut out before a page is judged, and would be found otherwise."""
    page = "a\n\n```bash bad\nvllm serve m --max-modle-len 1\n```\n\nb\n"

    assert BAD.sub("", page) == "a\n\n\n\nb\n"
    assert [rule for _, rule, _ in errors(page.replace("bash bad", "bash"))] == ["option.unknown"]


def shown() -> Iterator[tuple[str, str, str | None, str]]:
    """Every command that the answer to a recorded case offers: case, title, release, command."""
    for case in CASES:
        evidence = sources.load(case)
        if evidence.case is not None and evidence.case.kind is CaseKind.JOB:
            continue  # what its steps print is no start of vLLM
        if evidence.case is not None and evidence.case.kind is CaseKind.NODES:
            continue  # what is to be done about nodes is told in words
        if evidence.case is not None and evidence.case.kind is CaseKind.SERVER:
            found = probe_checking.health(evidence)
            ways = (way for finding in found.findings for way in finding.changes)
            yield from ((case, w.title, found.vllm.version, w.command) for w in ways if w.command is not None)
            continue
        for number in range(1, len(diagnosing.read(evidence)) + 1):
            answer = diagnosing.diagnose(evidence, start=number)
            for remedy in answer.remedies:
                if remedy.command is not None:
                    yield case, remedy.title, answer.vllm.version, remedy.command
    for golden in sorted((ROOT / "tests" / "golden").glob("*.ipynb")):
        for number, command in enumerate(printed_ways_out(golden), 1):
            yield golden.name, f"command {number}", None, command


def printed_ways_out(notebook: Path) -> Iterator[str]:
    """The commands among the ways out that an executed runbook prints."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ()) if "data" in output]
    for output in outputs:
        plain = "".join(output["data"].get("text/plain", ()))
        _, _, ways = plain.partition("FIXES")
        for block in re.findall(r"\n\n((?: {7}\S?.*\n)+)\n", ways):
            yield textwrap.dedent(block)


@pytest.mark.slow
def test_every_way_out_that_is_a_command_has_been_checked() -> None:
    """By the linter, for the release of the log: each holds a start of vLLM, and nothing in it is wrong."""
    offered = list(shown())

    assert {"autoglm-3090-video-oom", "single-gpu-oom.ipynb"} <= {case for case, *_ in offered}
    for case, title, vllm, command in offered:
        found = checking.lint_text(command, vllm=vllm)
        wrong = [(i.line, i.rule, i.message) for i in found.issues if i.severity is IssueSeverity.ERROR]
        assert (case, title, wrong, len(found.deployments)) == (case, title, [], 1)


def test_symptoms_and_rules_show_none_outside_of_examples() -> None:
    """What they say in words names options; a command stands in an example, where it is judged."""
    said = [
        text
        for rule in knowledge.knowledge().rules.values()
        for text in (rule.title, rule.why, rule.mends or "", *rule.message)
    ]
    said += [text for s in catalog.load_catalog().symptoms.values() for text in (s.cause, s.do_first, *s.explanation)]

    assert [text for text in said if any(start.words for start in documents.read(text, "page.md").starts)] == []
