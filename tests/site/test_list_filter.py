"""The field that filters a list, in a page with the site's own scripts and no other content."""

from __future__ import annotations

import json
import shutil
from html import escape
from pathlib import Path

import pytest

from browser import chromium, opened, served
from vllm_runbooks.site import myst, spec_pages

ROOT = Path(__file__).resolve().parents[2]
_ENTRIES = [
    {"page": "symptoms/engine.html", "kind": "fatal", "title": "Engine memory", "lines": ["No memory for blocks"]},
    {"page": "symptoms/kv.html", "kind": "fatal", "title": "KV cache", "names": ["kv.blocks"],
     "lines": ["No available memory for the cache blocks"]},
]  # fmt: skip


@pytest.mark.slow
def test_a_filter_ranks_a_pasted_line_and_knows_the_groups(tmp_path: Path) -> None:
    """The nearest symptom is first whatever the order of the page; the words of a row's target match."""
    shutil.copytree(ROOT / "docs" / "_static", tmp_path / "_static")
    index = f"globalThis.LOOKUP = {json.dumps(_ENTRIES)};"
    (tmp_path / "_static" / "lookup-data.js").write_text(index, encoding="utf-8")
    data = escape(json.dumps({"#option-a": "KV cache and memory"}))
    rows = (("symptoms/engine.html", "Engine"), ("symptoms/kv.html", "Cache"), ("x.html#option-a", "--swap-space"))
    items = "".join(f'<li><a href="{href}">{name}</a></li>' for href, name in rows)
    text = (
        '<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,">'
        f'<article><section><div class="filter" data-words="{data}"><input><span role="status"></span></div>'
        '<div class="unfiltered">Common<ul><li><a href="symptoms/kv.html">Cache</a></li></ul></div>'
        f"<section><h2>S</h2><ul>{items}</ul></section></section></article>"
        '<script src="_static/lookup.js"></script><script src="_static/site.js"></script>'
    )
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    assert "data-words=" in myst.filter_field("x", "y", {"#option-a": "KV cache"})
    with chromium() as browser, served(tmp_path) as origin, opened(browser, f"{origin}/index.html") as visit:
        page = visit.page
        page.fill(".filter input", "kv memory")
        assert page.locator("section section li:visible").all_inner_texts() == ["--swap-space"]
        assert not page.get_by_text("Common").is_visible()
        assert page.locator("[role=status]").inner_text() == "1 of 3"
        page.fill(".filter input", "space")
        assert page.locator("section section li:visible").all_inner_texts() == ["--swap-space"]
        page.fill(".filter input", "ache")
        assert page.locator("section section li:visible").all_inner_texts() == ["Cache", "--swap-space"]
        prefix = "(EngineCore_DP0 pid=264) ERROR 11-22 08:12:01 [core.py:844] "
        page.fill(".filter input", f"{prefix}ValueError: No available memory for the cache blocks")
        page.get_by_text("Closest by message").wait_for()
        assert page.locator(".nearby li").all_inner_texts()[0] == "Cache"
        assert page.locator("section section li:visible").count() == 0
        page.fill(".filter input", "")
        assert page.locator("li:visible").count() == len(rows) + 1
        assert visit.troubles() == []


@pytest.mark.slow
def test_a_model_is_two_lines_on_a_phone(tmp_path: Path) -> None:
    """Its name, then its figures in one line; on a desk the figures are right-aligned."""
    shutil.copytree(ROOT / "docs" / "_static", tmp_path / "_static")
    head = ("Model", "Format", "Weights", "Context", "Fits on", "")
    row = (
        '<a href="x.html">Qwen/Qwen3-8B</a>',
        "bfloat16",
        "15.3 GiB",
        "40,960",
        "1x L40S",
        '<span class="hidden-words">x</span>',
    )
    table = spec_pages._table(head, [row], "catalog models")
    text = (
        '<!doctype html><html lang="en" data-theme="light"><meta name="viewport" content="width=device-width">'
        '<title>x</title><link rel="icon" href="data:,"><link rel="stylesheet" href="_static/custom.css">'
        f'<article class="bd-article">{table}</article>'
    )
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    with chromium() as browser, served(tmp_path) as origin:
        with opened(browser, f"{origin}/index.html", width=390) as visit:
            tops = "all => all.map(cell => Math.round(cell.getBoundingClientRect().top))"
            first, *figures = visit.page.eval_on_selector_all("td:visible", tops)
            assert len(set(figures)) == 1
            assert figures[0] > first
            assert visit.page.eval_on_selector("tbody tr", "row => row.getBoundingClientRect().height") < 80
        with opened(browser, f"{origin}/index.html") as visit:
            align = "all => all.map(cell => getComputedStyle(cell).textAlign)"
            assert visit.page.eval_on_selector_all("td:nth-child(3), td:nth-child(4)", align) == ["right"] * 2
