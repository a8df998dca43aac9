"""The report in a real Chromium: two widths, two themes, the keyboard, its filters, paper, and attacks.

Pictures go to $VLLM_RUNBOOKS_SCREENSHOTS, or to the folder of the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import THEMES, WIDTHS, Theme, axe, chromium, misfits, opened, shot
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views.runbook_steps import StepText, step
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks.changes import keep_previous
from vllm_runbooks.runbooks.notebook import VERDICT_MIME, _card, read_verdict
from vllm_runbooks.runbooks.report import write_report
from vllm_runbooks.runbooks.verdict_fields import NO_RUNBOOK

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CASE = "autoglm-3090-video-oom"
SUMMARY = f"summary-first--{CASE}"
ATTACKS = (
    "<script>window.PWN_1=1</script>",
    "<img src=x onerror='window.PWN_2=1'>",
    "</style></script><svg onload='window.PWN_3=1'>",
    "[x](javascript:window.PWN_4=1) <javascript:window.PWN_5=1> ![x](https://evil.example/x.png)",
    "<iframe srcdoc='<script>top.PWN_6=1</script>'></iframe><link rel=stylesheet href=https://evil.example/x.css>",
    "<div style='background:url(https://evil.example/b)'>x</div><form action=https://evil.example><button>x</button>",
    "<pre data-copy=command><code><img src=x onerror='window.PWN_7=1'></code></pre>",
)
"""Hostile log text; a script that runs sets a window property that begins with PWN."""


def cell(kind: str, source: str, *outputs: dict[str, Any], id_: str = "a") -> dict[str, Any]:
    return {"cell_type": kind, "id": id_, "metadata": {}, "source": source, "outputs": list(outputs)}


def display(html: str, plain: str = "") -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": html, "text/plain": plain}}


def summary_first() -> dict[str, Any]:
    """A notebook with a summary, steps with evidence, and a verdict, as runbooks have them."""
    evidence = sources.load(CASE)
    answer = diagnosing.diagnose(evidence)
    verdict = diagnosing.verdict(answer, evidence)
    text = StepText(
        "PyTorch held 22.08 of 23.56 GiB.", "Weights and video do not fit.", "Limit videos.", "vllm serve x"
    )
    steps = step(text, {"Marked log": answers.cause(answer), "Memory": answers.memory(answer)})
    data = {"schema": 2, **document(verdict)}
    output = display(_card(verdict, verdict.reason))
    output["data"][VERDICT_MIME] = data
    parameters = cell("code", "live: bool = False  # start a server\nevidence: str = ''  # case or file", id_="p")
    parameters["metadata"] = {"tags": ["parameters"]}
    return {
        "metadata": {"papermill": {"parameters": {"evidence": CASE}}},
        "cells": [
            cell(
                "markdown",
                "# Out of memory\n\nWhat it is for.\n\n- a list\n- **bold**\n\n| a | b |\n|--|--|\n| 1 | 2 |",
            ),
            parameters,
            cell("code", "answer = rb.diagnose(case)", display(answers.summary(answer).html), id_="s"),
            cell("markdown", "## 1. What took the memory"),
            cell("code", "rb.step(…)", display(steps.html), id_="t"),
            cell("code", "rb.conclude(verdict)", output, id_="v"),
        ],
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden notebooks, one with a summary first, a hostile one, and changes."""
    folder = tmp_path_factory.mktemp("report")
    hostile = [cell(kind, text, display(text, text)) for text in ATTACKS for kind in ("markdown", "code")]
    hostile.append(cell("code", "print()", {"output_type": "stream", "text": "\x1b[31m<b>" + "x" * 400_000}))
    notebooks = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.ipynb"))}
    notebooks |= {SUMMARY: summary_first(), "hostile": {"cells": hostile}}
    runs = []
    for name, notebook in notebooks.items():
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        verdict = read_verdict(notebook)
        run = document(verdict) if verdict else {"verdict": "fail", "reason": " ".join(ATTACKS), "case": ATTACKS[0]}
        runs.append({**run, "runbook": name.partition("--")[0], "seconds": 2.5, "notebook": f"{name}.ipynb"})
    runs.append({**runs[0], "runbook": NO_RUNBOOK, "case": "alone", "notebook": None})
    results = {"tool": "vllm-runbooks 1", "began": "2026-11-22T18:03:00+00:00", "runs": [*runs[1:]]}
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    keep_previous(folder)
    runs[2] |= {"verdict": "fail", "reason": "class: expected ok, got oom.weights"}
    runs[3] |= {"verdict": "error", "reason": "the kernel died", "root_cause": None, "outcome": None, "findings": []}
    (folder / "results.json").write_text(json.dumps(results | {"runs": runs}), encoding="utf-8")
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["index", SUMMARY, "split-over-8x3090", "hostile"])
def test_a_page_is_accessible(  # noqa: PLR0917 - a fixture each
    report: Path, browser: Browser, name: str, width: int, theme: Theme, tmp_path: Path
) -> None:
    """No serious axe issue, folded or not; no cut text, no request, no hostile script."""
    with opened(browser, f"file://{report / name}.html", width=width, theme=theme) as visit:
        shot(visit.page, f"report-{name}-{width}-{theme}", tmp_path)
        for _ in range(2):
            assert visit.troubles() == []
            assert axe(visit.page) == []
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            visit.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
        if name != "split-over-8x3090":
            assert misfits(visit.page) == []


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_runbook_has_a_clean_page(report: Path, browser: Browser, path: Path) -> None:
    """No console error, no policy violation, no foreign request."""
    with opened(browser, f"file://{report / path.stem}.html", width=390) as visit:
        assert visit.troubles() == []
        assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_degraded_server_has_a_short_page(report: Path, browser: Browser) -> None:
    """With the evidence folded at most half of the 3,769 px that the page once had; the times are in the evidence."""
    with opened(browser, f"file://{report / 'is-it-healthy'}.html") as visit:
        assert visit.page.evaluate("document.documentElement.scrollHeight") <= 3769 / 2
        times = visit.page.get_by_text("time to first token", exact=True).first
        assert not times.is_visible()
        visit.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
        assert times.is_visible()


def test_the_summary_is_on_the_first_screen(report: Path, browser: Browser) -> None:
    """Problem and fix are within 900 px, after diagnosis and check."""
    with opened(browser, f"file://{report / SUMMARY}.html") as visit:
        bottom = "e => e.getBoundingClientRect().bottom"
        assert visit.page.locator(".fields").evaluate(bottom) < 250
        assert visit.page.locator(".shown").first.evaluate(bottom) < 900


def test_runs_are_filtered_by_check_and_by_text(report: Path, browser: Browser) -> None:
    """With the keyboard; groups without a run are hidden, and a link to a group shows all of it."""
    with opened(browser, f"file://{report / 'index.html'}") as visit:
        page = visit.page
        rows = page.locator("tr[data-check]:visible")
        whole = rows.count()
        page.get_by_role("button", name="Not as expected").focus()
        page.keyboard.press("Enter")
        assert (rows.count(), page.locator("tbody:visible").count()) == (1, 1)
        assert page.get_by_role("button", name="Not as expected").get_attribute("aria-pressed") == "true"
        assert page.get_by_role("status").inner_text() == f"1 of {whole}"
        page.get_by_role("button", name="All").click()
        page.get_by_role("searchbox").fill("SPLIT over-8x")
        assert rows.count() == 1
        page.locator(".changes a", has_text="unchanged").click()
        assert rows.count() == whole
        assert page.locator("#unchanged").is_visible()
        assert visit.troubles() == []


def test_every_control_is_reachable_by_keyboard(report: Path, browser: Browser) -> None:
    """Tab follows the order of links, buttons and folds, and each shows its focus."""
    with opened(browser, f"file://{report / SUMMARY}.html") as visit:
        controls = visit.page.locator("a[href]:visible, button:visible, summary:visible")
        assert controls.count() > 4
        visit.page.evaluate("window.reached = new Set()")
        for _ in range(40):
            visit.page.keyboard.press("Tab")
            assert visit.page.evaluate(
                "() => { const e = document.activeElement; reached.add(e);"
                " return e === document.body || getComputedStyle(e).outlineStyle }"
            ) in (True, "solid")
        assert controls.evaluate_all("all => all.filter(e => !reached.has(e)).map(e => e.outerHTML)") == []


def test_a_command_is_copied_by_its_button(report: Path, browser: Browser) -> None:
    """Only the command, without the button's text; the button confirms it."""
    grants = ["clipboard-read", "clipboard-write"]
    with opened(browser, f"file://{report / SUMMARY}.html", permissions=grants) as visit:
        button = visit.page.locator("pre[data-copy] button").first
        command = visit.page.locator("pre[data-copy] code").first.inner_text()
        button.click()
        button.filter(has_text="Copied").wait_for(timeout=5000)  # the clipboard answers later
        assert visit.page.evaluate("navigator.clipboard.readText()") == command


def test_without_a_script_everything_is_still_readable(report: Path, browser: Browser) -> None:
    """No dead control is shown, folds open, and one box shows the code of all cells."""
    with opened(browser, f"file://{report / 'index.html'}", java_script_enabled=False) as visit:
        assert visit.page.locator(".filters").is_hidden()
        assert visit.page.locator("tr[data-check]").first.is_visible()
        visit.page.goto(f"file://{report / SUMMARY}.html")
        visit.page.locator("summary", has_text="About this runbook").click()
        assert visit.page.get_by_text("What it is for.").is_visible()
        assert visit.page.locator("button").count() == 0
        code = visit.page.get_by_text("answer = rb.diagnose(case)")
        assert not code.is_visible()
        visit.page.get_by_label("Show the code").check()
        assert code.is_visible()


def test_on_paper_nothing_is_folded(report: Path, browser: Browser) -> None:
    """Evidence, parameters and code are printed; buttons are not."""
    with opened(browser, f"file://{report / SUMMARY}.html") as visit:
        text = visit.page.get_by_text("What it is for.")
        assert not text.is_visible()
        visit.page.emulate_media(media="print")
        assert visit.page.get_by_text("answer = rb.diagnose(case)").is_visible()
        assert text.evaluate("e => e.getBoundingClientRect().height") > 0
        assert text.evaluate("e => e.checkVisibility({contentVisibilityAuto: true})")
        assert visit.page.locator(".copy").first.is_hidden()
