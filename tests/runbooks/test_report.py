"""The pages show what was judged, need nothing but themselves, and take nothing in a file for more than text."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.runbooks.report import render_notebook, render_report, write_report

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\"'><a href='javascript:alert(1)'>\x1b[31m\x00\x07"


def run(verdict: str = "pass", **more: Any) -> dict[str, Any]:
    """An entry of results.json."""
    return {
        "runbook": "startup-triage",
        "case": "single-gpu-oom",
        "verdict": verdict,
        "outcome": "failed",
        "root_cause": {"symptom": "memory.kv_cache", "class": "memory.kv_cache"},
        "seconds": 1.25,
        "findings": [
            {
                "symptom": "memory.kv_cache",
                "class": "memory.kv_cache",
                "title": "KV cache cannot hold one request",
                "severity": "fatal",
                "level": "confirmed",
            }
        ],
        "reason": "as expected",
        "notebook": None,
    } | more


def results(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"schema": 2, "runs": list(runs)}


class Tags(HTMLParser):
    """Every tag and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_is_inert(page: str) -> None:
    """No script, no handler, no address outside the folder, no control character."""
    read = Tags(page)
    assert not read.tags & {"script", "iframe", "object", "embed", "link", "form", "base", "svg", "video", "audio"}
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    for name, value in read.attributes:
        if name in ("src", "href"):
            assert re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=]*$|[A-Za-z0-9_.-]+$", value), value
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page)
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_the_page_says_how_many_ended_how() -> None:
    """The headline counts, and what needs attention comes first."""
    page = render_report(results(run(), run("error"), run("fail"), run(), run("skipped"), run("interrupted")))

    badges = re.findall(r'class="badge \w+">(\w+)<', page)
    assert "2 passed, 1 failed, 1 could not be judged, 1 interrupted, 1 skipped" in Tags(page).text
    assert badges == ["fail", "error", "interrupted", "skipped", "pass", "pass"]


def test_a_run_is_shown_with_its_cause() -> None:
    """Names, outcome, cause with title and class, findings and duration stand in its row."""
    text = Tags(render_report(results(run("fail", seconds=71.4, reason="class differs")))).text

    for shown in (
        "startup-triage",
        "single-gpu-oom",
        "failed",
        "KV cache cannot hold one request",
        "memory.kv_cache",
        "fatal, confirmed",
        "1 min 11 s",
        "class differs",
    ):
        assert shown in text


def test_an_empty_suite_has_a_page() -> None:
    """Nothing was asked for, and the page says so."""
    assert "No run was asked for" in render_report(results())


@pytest.mark.parametrize("field", ["runbook", "case", "verdict", "outcome", "reason", "notebook"])
def test_hostile_results_stay_text(field: str) -> None:
    """Whatever a field holds, the page holds it as text."""
    page = render_report(results(run(**{"verdict": "fail", field: HOSTILE})))

    assert_is_inert(page)


def test_hostile_findings_stay_text() -> None:
    """Findings and causes quote logs."""
    finding = dict.fromkeys(("symptom", "class", "title", "severity", "level"), HOSTILE)

    assert_is_inert(render_report(results(run(findings=[finding], root_cause={"symptom": HOSTILE, "class": HOSTILE}))))


@pytest.mark.parametrize(
    "odd",
    [{}, {"seconds": "x"}, {"findings": "x"}, {"root_cause": []}, {"verdict": None}, {"verdict": []}, {"case": {}}],
)
def test_odd_results_are_shown_as_they_are(odd: dict[str, Any]) -> None:
    """A hand-made or newer file does not end in an exception."""
    assert_is_inert(render_report(results({} if not odd else run(**odd))))


def cell(source: str, *outputs: dict[str, Any], kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "id": "a", "metadata": {}, "source": source, "outputs": list(outputs)}


def shown(**data: Any) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {key.replace("_", "/"): v for key, v in data.items()},
    }


def test_a_notebook_is_readable_without_jupyter() -> None:
    """Prose, code, printed text and errors are there; tables, cards and pictures as they were shown."""
    notebook = {
        "cells": [
            cell("# Meaning\n\nRead `this` **first**.\n\n```\n# not a heading\n```\n", kind="markdown"),
            cell(
                "answer = diagnose(evidence)",
                {"output_type": "stream", "name": "stdout", "text": ["one\n", "\x1b[31mtwo\x1b[0m\n"]},
                shown(text_html="<b>card</b>", text_plain="PASS k: fine"),
                {"output_type": "error", "ename": "ValueError", "evalue": "x", "traceback": []},
            ),
        ]
    }

    page = render_notebook(notebook, title="startup-triage", verdict="pass", reason="fine")

    assert "<h2>Meaning</h2><p>Read <code>this</code> <strong>first</strong>.</p>" in page
    for text in ("# not a heading", "answer = diagnose(evidence)", "one\ntwo", "card", "ValueError: x"):
        assert text in Tags(page).text
    # A wide one scrolls in its frame: the keyboard reaches it, and it has a name.
    assert '<div class=shown tabindex="0" role="group" aria-label="Output"><b>card</b></div>' in page
    assert_is_inert(page)


def test_a_hostile_notebook_stays_text() -> None:
    """Nothing in a notebook runs or is fetched, wherever it stands."""
    picture = base64.b64encode(b"\x89PNG").decode()
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "text": HOSTILE},
        {"output_type": "error", "ename": HOSTILE, "evalue": HOSTILE, "traceback": [HOSTILE]},
        shown(text_html=HOSTILE, text_plain=HOSTILE),
        shown(image_png=f'{picture}" onerror="alert(1)', text_plain="a"),
        shown(image_png=picture, text_plain=HOSTILE),
        shown(text_markdown=f"[x](javascript:alert(1)) {HOSTILE}"),
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg onload=alert(1)>"}},
    ]
    cells = [
        cell(HOSTILE, kind="markdown"),
        cell(f"[a](javascript:x) `{HOSTILE}`", kind="markdown"),
        cell(HOSTILE, *outputs),
    ]
    cells[2]["id"] = HOSTILE

    page = render_notebook({"cells": cells}, title=HOSTILE, verdict=HOSTILE, reason=HOSTILE)

    assert_is_inert(page)
    assert page.count("<img ") == 1


def test_a_long_output_is_cut_with_a_word_about_it() -> None:
    """A page stays one that a browser can show."""
    page = render_notebook({"cells": [cell("", {"output_type": "stream", "text": "x" * 300_000})]}, title="t")

    assert len(page) < 220_000
    assert "100000 more characters are in the notebook" in page


def test_the_report_is_made_from_the_folder_alone(tmp_path: Path) -> None:
    """results.json and the notebooks beside it are all it takes; what cannot be shown is linked only."""
    (tmp_path / "good.ipynb").write_text(json.dumps({"cells": [cell("1 + 1")]}), encoding="utf-8")
    (tmp_path / "bad.ipynb").write_text("{", encoding="utf-8")
    runs = [run(notebook="good.ipynb"), run(notebook="bad.ipynb"), run(notebook="../outside.ipynb"), run()]
    (tmp_path / "results.json").write_text(json.dumps(results(*runs)), encoding="utf-8")

    index = write_report(tmp_path)
    page = index.read_text(encoding="utf-8")

    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["good.html", "index.html"]
    assert re.findall(r'href="([^"]*)"', page)[2:] == ["good.html", "good.ipynb", "bad.ipynb"]
    assert_is_inert(page)
    assert_is_inert((tmp_path / "good.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"runs": 1}'])
def test_a_folder_without_results_is_refused(tmp_path: Path, content: str | None) -> None:
    """One line names the file."""
    if content is not None:
        (tmp_path / "results.json").write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=r"results\.json: "):
        write_report(tmp_path)
