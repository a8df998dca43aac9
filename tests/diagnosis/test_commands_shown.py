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
    """The text of a page, or of a notebook's cells without outputs."""
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
    """In blocks and sentences, checked for the newest release."""
    assert errors(prose(path)) == []


def test_bad_examples_are_recognised() -> None:
    """They are removed before a page is checked, and would otherwise be found."""
    page = "a\n\n```bash bad\nvllm serve m --max-modle-len 1\n```\n\nb\n"

    assert BAD.sub("", page) == "a\n\n\n\nb\n"
    assert [rule for _, rule, _ in errors(page.replace("bash bad", "bash"))] == ["option.unknown"]


def shown() -> Iterator[tuple[str, str, str | None, str]]:
    """Every command in the answers to recorded cases: case, title, release, command."""
    for case in CASES:
        evidence = sources.load(case)
        if evidence.case is not None and evidence.case.kind is CaseKind.JOB:
            continue  # its steps launch no vLLM
        if evidence.case is not None and evidence.case.kind is CaseKind.NODES:
            continue  # steps on nodes are sentences
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
    """The commands of the fixes that an executed runbook prints."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ()) if "data" in output]
    for output in outputs:
        plain = "".join(output["data"].get("text/plain", ()))
        _, _, ways = plain.partition("FIXES")
        for block in re.findall(r"\n\n((?: {7}\S?.*\n)+)\n", ways):
            yield textwrap.dedent(block)


@pytest.mark.slow
def test_every_fix_with_a_command_is_checked() -> None:
    """By lint for the log's release: each launches vLLM without issues."""
    offered = list(shown())

    assert {"autoglm-3090-video-oom", "single-gpu-oom.ipynb"} <= {case for case, *_ in offered}
    for case, title, vllm, command in offered:
        found = checking.lint_text(command, vllm=vllm)
        wrong = [(i.line, i.rule, i.message) for i in found.issues if i.severity is IssueSeverity.ERROR]
        assert (case, title, wrong, len(found.deployments)) == (case, title, [], 1)


def test_symptoms_and_rules_have_commands_only_in_examples() -> None:
    """Sentences name options; commands are in examples, which are checked."""
    said = [
        text
        for rule in knowledge.knowledge().rules.values()
        for text in (rule.title, rule.why, rule.fix or "", *rule.message)
    ]
    said += [text for s in catalog.load_catalog().symptoms.values() for text in (s.cause, s.do_first, *s.explanation)]

    assert [text for text in said if any(start.words for start in documents.read(text, "page.md").starts)] == []
