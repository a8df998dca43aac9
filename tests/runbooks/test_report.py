"""The report pages: complete, self-contained, with all file content as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from vllm_runbooks.core.display import NOTHING_MIME
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.runbooks.notebook import VERDICT_MIME
from vllm_runbooks.runbooks.notebook_page import render_notebook
from vllm_runbooks.runbooks.report import render_report, write_report

if TYPE_CHECKING:
    from pathlib import Path

    from vllm_runbooks.runbooks.changes import RunKey

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
    """No script but the page's, no handler, no address outside the folder but https, no control character."""
    read = Tags(page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert page.count("<script") == len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in page
    assert not read.tags & {"iframe", "object", "embed", "link", "form", "base", "svg", "video", "audio"}
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    for name, value in read.attributes:
        if name in ("src", "href"):
            assert re.match(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=]*$|#?[A-Za-z0-9_.-]+$|https://", value), value
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", page)
    assert "url(" not in page


def badges(page: str) -> list[str]:
    return re.findall(r'class="badge \w+">([\w ]+)<', page)


def test_the_headline_counts_checks_by_result() -> None:
    """Runs that need attention are first, in headline and table."""
    mine = run(case=None, reason="running: no problems", outcome="running", root_cause=None)
    page = render_report(results(run(), run("error"), run("fail", reason="class: expected ok, got x"), mine))

    assert "1 check not as expected, 1 not checked, 1 as expected, 1 no problem found" in Tags(page).text
    assert badges(page) == ["not as expected", "not checked", "as expected", "no problem found"]


def test_a_run_has_its_diagnosis_and_its_check() -> None:
    """Its row has names, title, certainty, symptom, differences, other findings and duration."""
    finding = {"symptom": "env.old", "class": "env", "title": "Old driver", "severity": "hint", "level": "possible"}
    page = render_report(
        results(run("fail", seconds=71.4, reason="class: expected ok, got x", findings=[*run()["findings"], finding]))
    )

    for text in (
        "startup-triage",
        "single-gpu-oom",
        "confirmed · failed",
        "KV cache cannot hold one request",
        "●●● confirmed",
        "memory.kv_cache",
        "1 more finding",
        "Old driver hint, possible",
        "1 min 11 s",
        "class: expected ok, got x",
    ):
        assert text in Tags(page).text


def test_a_passing_check_does_not_say_failed() -> None:
    """A case that expects a failed launch passes: the failure is its diagnosis."""
    page = render_report(results(run(reason="as expected: failed, memory.kv_cache")))

    assert badges(page) == ["as expected"]
    assert "as expected: failed" not in page


def test_a_case_without_a_runbook_is_named_diagnosis_only() -> None:
    """Nothing but its diagnosis was checked."""
    text = Tags(render_report(results(run(runbook="(no runbook)")))).text

    assert "Diagnosis only single-gpu-oom" in text


def test_an_empty_suite_has_a_page() -> None:
    """No run was requested."""
    assert "No runs were requested" in render_report(results())


def earlier(verdict: str, case: str, **more: Any) -> tuple[RunKey, dict[str, Any]]:
    key = ("startup-triage", case, "")
    return key, run(verdict, case=case, began="2026-11-22T18:03:00+00:00") | more


def test_the_first_screen_shows_changes_since_the_last_run() -> None:
    """Each number links to its runs, grouped by change, with new failures first."""
    previous = dict([earlier("pass", "a"), earlier("fail", "b"), earlier("pass", "c"), earlier("pass", "d")])
    now = [run(case="c"), run(case="d"), run(case="b"), run("fail", case="a", reason="class: expected ok, got x")]
    page = render_report(results(*now), previous=previous)

    assert "Since the last run, 2026-11-22 18:03 UTC" in Tags(page).text
    assert re.findall(r'href="#([a-z-]+)"><strong>(\d+)</strong> ([a-z ]+)<', page) == [
        ("new-failures", "1", "new failure"),
        ("fixed", "1", "fixed"),
        ("unchanged", "2", "unchanged"),
    ]
    assert re.findall(r'<tbody id="([a-z-]+)">', page) == ["new-failures", "fixed", "unchanged"]


def test_a_first_run_has_nothing_to_compare_with() -> None:
    """One line says so; your own logs are not compared."""
    assert "No earlier run in this folder to compare with." in render_report(results(run()))
    assert "earlier run" not in render_report(results(run(case=None)))


@pytest.mark.parametrize("field", ["runbook", "case", "verdict", "outcome", "reason", "notebook"])
def test_hostile_results_are_escaped(field: str) -> None:
    """Any field is shown as text."""
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
def test_unusual_results_are_shown(odd: dict[str, Any]) -> None:
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
    """Text, errors, tables, summaries and pictures as displayed, and folded code."""
    notebook = {
        "cells": [
            cell("# Meaning\n\nRead `this` **first**.", kind="markdown"),
            cell(
                "answer = diagnose(evidence)",
                {"output_type": "stream", "name": "stdout", "text": ["one\n", "\x1b[31mtwo\x1b[0m\n"]},
                shown(text_html="<b>card</b>", text_plain="PASS k: fine"),
                {"output_type": "error", "ename": "ValueError", "evalue": "x", "traceback": []},
            ),
        ]
    }

    page = render_notebook(notebook, run())

    for text in ("Meaning", "one\ntwo", "card", "ValueError: x"):
        assert text in Tags(page).text
    assert re.search(r"<div class=code><pre[^>]*>answer = diagnose\(evidence\)</pre></div>", page)
    # A wide one scrolls in its frame: the keyboard reaches it, and it has a name.
    assert '<div class=shown tabindex="0" role="group" aria-label="Output"><b>card</b></div>' in page
    assert_is_inert(page)


def test_the_summary_precedes_prose_and_parameters() -> None:
    """Title, two fields, first output; earlier cells are folded below."""
    parameters = cell("live: bool = False  # on this host\nlog: str = ''  # a file")
    parameters["metadata"] = {"tags": ["parameters"]}
    injected = cell("log = 'x.log'")
    injected["metadata"] = {"tags": ["injected-parameters"]}
    notebook = {
        "metadata": {"papermill": {"parameters": {"log": "x.log"}}},
        "cells": [
            cell("# Out of memory\n\nWhat it is for.", kind="markdown"),
            parameters,
            injected,
            cell("answer", shown(text_html="<b>summary</b>")),
            cell("## 1. Memory\n\nText.", kind="markdown"),
            cell("nothing", shown(**{NOTHING_MIME: "", "text_plain": "-"})),
            cell("## 2. Time", kind="markdown"),
            cell("time", shown(text_html="<b>time</b>")),
            cell("## Result", kind="markdown"),
            cell("conclude", shown(**{VERDICT_MIME: {}, "text_html": "<b>as expected</b>"})),
        ],
    }

    page = render_notebook(notebook, run())

    assert re.search(
        r"<h1>Out of memory</h1>.*Diagnosis.*Check.*summary.*About this runbook.*Parameters.*1. Time"
        r".*<b>time</b>.*<details class=folded><summary>Result</summary>.*<b>as expected</b>.*</details></main>",
        page,
    )
    assert "What it is for." in page
    title = run()["findings"][0]["title"]
    card = cell("answer", shown(text_html=f"<b>{title}</b>"))
    assert render_notebook({"cells": [card]}, run()).count(title) == 1
    assert "Memory" not in page
    assert "log = " not in page
    assert [re.sub("<[^>]*>", " ", row).split() for row in re.findall("<th scope=row>.*?</tr>", page)] == [
        ["live", "False", "on", "this", "host"],
        ["log", "&#x27;x.log&#x27;", "set", "a", "file"],
    ]


def test_a_run_on_your_own_log_is_diagnosis_only_unless_live(tmp_path: Path) -> None:
    """For a runbook that can launch servers, page and index say that it did not."""
    parameters = cell("live: bool = False")
    parameters["metadata"] = {"tags": ["parameters"]}
    for name, live in (("dry", False), ("live", True)):
        notebook = {"metadata": {"papermill": {"parameters": {"live": live}}}, "cells": [parameters]}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    own = [run("fail", case=None, reason="it does not fit", notebook=f"{name}.ipynb") for name in ("dry", "live")]
    (tmp_path / "results.json").write_text(json.dumps(results(*own)), encoding="utf-8")

    page = write_report(tmp_path).read_text(encoding="utf-8")

    assert page.count("diagnosis only; no expectation recorded") == 1
    assert "diagnosis only" in (tmp_path / "dry.html").read_text(encoding="utf-8")
    assert "diagnosis only" not in (tmp_path / "live.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("### Third", "<h3>Third</h3>"),
        ("- a\n- *b*\n  1. c", "<ul>\n<li>a</li>\n<li><em>b</em>\n<ol>\n<li>c</li>\n</ol>\n</li>\n</ul>"),
        ("| a | b |\n|---|--:|\n| 1 | `2` |", '<td style="text-align:right"><code>2</code></td>'),
        ("```sh\n# no heading\n```", "<pre><code># no heading\n</code></pre>"),
        ("[docs](https://docs.vllm.ai/x)", '<a href="https://docs.vllm.ai/x" rel="noopener">docs</a>'),
        ("[next](is-it-healthy.ipynb)", '<a href="is-it-healthy--k.html" rel="noopener">next</a>'),
        ("[gone](other.ipynb)", '<a rel="noopener">gone</a>'),
        ("[up](../secret.html)", '<a rel="noopener">up</a>'),
        ("[host](//evil.example/x)", '<a rel="noopener">host</a>'),
        ("[http](http://evil.example/x)", '<a rel="noopener">http</a>'),
        ("![picture](https://evil.example/x.png)", "<p>picture</p>"),
        ("<b onload=x>bold</b>", "&lt;b onload=x&gt;bold&lt;/b&gt;"),
    ],
)
def test_markdown_is_rendered(markdown: str, html: str) -> None:
    """Headings with their level, lists, tables, fences and safe links; HTML in it is text."""
    links = {"is-it-healthy.ipynb": "is-it-healthy--k.html"}
    page = render_notebook({"cells": [cell(markdown, kind="markdown")]}, run(), links)

    assert html in page
    assert_is_inert(page)


def test_a_link_to_a_runbook_leads_to_its_page(tmp_path: Path) -> None:
    """If it was executed into the same report."""
    for name, text in (("one--k", "[two](two.ipynb)"), ("two--k", "text")):
        notebook = {"cells": [cell(text, kind="markdown")]}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    runs = [run(runbook=name, case="k", notebook=f"{name}--k.ipynb") for name in ("one", "two")]
    (tmp_path / "results.json").write_text(json.dumps(results(*runs)), encoding="utf-8")

    write_report(tmp_path)

    assert '<a href="two--k.html" rel="noopener">two</a>' in (tmp_path / "one--k.html").read_text(encoding="utf-8")


def test_a_hostile_notebook_is_escaped() -> None:
    """Nothing in it runs or is fetched."""
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

    page = render_notebook({"cells": cells}, run(**dict.fromkeys(("runbook", "case", "verdict", "reason"), HOSTILE)))

    assert_is_inert(page)
    assert page.count("<img ") == 1


def test_a_long_output_is_cut_with_a_word_about_it() -> None:
    """A page has a size that a browser can show."""
    page = render_notebook({"cells": [cell("", {"output_type": "stream", "text": "x" * 300_000})]}, run())

    assert len(page) < 230_000
    assert "100000 more characters are in the notebook" in page


def test_the_report_needs_only_its_folder(tmp_path: Path) -> None:
    """results.json and the notebooks next to it; other files are linked."""
    (tmp_path / "good.ipynb").write_text(json.dumps({"cells": [cell("1 + 1")]}), encoding="utf-8")
    (tmp_path / "bad.ipynb").write_text("{", encoding="utf-8")
    runs = [run(notebook="good.ipynb"), run(notebook="bad.ipynb"), run(notebook="../outside.ipynb"), run()]
    (tmp_path / "results.json").write_text(json.dumps(results(*runs)), encoding="utf-8")

    index = write_report(tmp_path)
    page = index.read_text(encoding="utf-8")

    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["good.html", "index.html"]
    assert re.findall(r'href="([^"]*)"', page)[2:5] == ["good.html", "good.ipynb", "bad.ipynb"]
    assert_is_inert(page)
    assert_is_inert((tmp_path / "good.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"runs": 1}'])
def test_a_folder_without_results_is_rejected(tmp_path: Path, content: str | None) -> None:
    """One line names the file."""
    if content is not None:
        (tmp_path / "results.json").write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=r"results\.json: "):
        write_report(tmp_path)
