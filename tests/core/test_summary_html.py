"""The summary and the steps of a runbook as HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.markup import clean_html
from vllm_runbooks.core.records import MemoryUse
from vllm_runbooks.core.views.drawing import WIDTH
from vllm_runbooks.core.views.runbook_steps import StepText, step
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import NamedMemory, Statement, Step, SuggestedFix, Summary
from vllm_runbooks.core.views.summary_html import memory_bars, rendered
from vllm_runbooks.runbooks.shown_cells import shown_cells

_DASH = "\u2013"
_PAYLOAD = "<img src=x onerror=alert(1)>"
_SUMMARY = Summary(
    "FAILED",
    Tone.BAD,
    ("startup.log", "vLLM 0.16.0"),
    statements=(Statement("✗", "CUDA out of memory", Tone.BAD, "●●● confirmed", "oom.load", "line 9", _PAYLOAD),),
    fix=SuggestedFix("--max-num-seqs 32", "at most 32 run concurrently", (("lint", "✓"), ("vLLM", _DASH))),
    memory=(NamedMemory("now", MemoryUse(24.0, 30.0, None, None), "needs 30 of 24 GiB"),),
    steps=(Step("Next", "compare", "vllm-runbooks diff a b"),),
)


def test_the_html_summary_has_the_content_of_the_terminal() -> None:
    """State, cause with proof, fix with cost and checks, memory, next step; text is escaped."""
    html = rendered(_SUMMARY).html.replace('<span style="white-space:nowrap">--max-num-seqs</span>', "--max-num-seqs")
    for words in (
        *("FAILED", "startup.log", "CUDA out of memory", "oom.load", "line 9", "--max-num-seqs 32", "at most 32"),
        *("lint", "✓ passed", f"{_DASH} not checked", "needs 30 of 24 GiB", "vllm-runbooks diff a b"),
    ):
        assert words in html, words
    assert "<img" not in html
    assert "&lt;img" in html


def test_a_published_summary_keeps_its_commands_and_its_bars() -> None:
    """Sanitizing keeps the mark for copying, and the part of a bar beyond the GPU."""
    html = clean_html(rendered(_SUMMARY).html)
    assert '<pre data-copy="command"' in html
    assert "beyond the limit of 24.00 GiB" in html


def test_a_launch_over_its_share_has_a_red_part() -> None:
    """The bar's line is the limit, though the GPU has more memory; the legend names every part."""
    use = MemoryUse(24.0, 22.0, -2.0, None)
    html = memory_bars((NamedMemory("now", use, "needs 22.00 GiB, limit 20.00 GiB"),))
    scale = (WIDTH - 2) / 24.0

    assert use.limit_gib == 20.0
    assert f'<rect x="{20 * scale:.1f}" y="2.0" width="{2 * scale:.1f}"' in html
    assert f'<line x1="{20 * scale:.1f}"' in html
    assert "beyond the limit of 20.00 GiB" in html
    assert "beyond the limit</span>" in html
    assert "not used</span>" in html
    fits = memory_bars((NamedMemory("fix", MemoryUse(24.0, 18.0, 2.0, None), "2 GiB"),))
    assert "beyond" not in fits
    assert "<line" not in fits


def test_a_bar_keeps_its_height_on_a_phone() -> None:
    """It has no text that would be stretched; sanitizing keeps that."""
    assert clean_html(rendered(_SUMMARY).html).count('preserveAspectRatio="none"') == 1


def test_changed_words_of_a_command_are_marked() -> None:
    """Words that the text before the change has are not, and what is copied has no mark."""
    fix = SuggestedFix("vllm serve m \\\n  --port 1", given="vllm serve m \\\n  --prot 1")
    html = rendered(replace(_SUMMARY, fix=fix)).html
    marked = re.findall(r"#2da44e33;font-weight:600\">(.*?)</span></span>", html)
    assert [re.sub("<.*?>", "", words) for words in marked] == ["--port"]


def test_a_fix_without_any_check_has_only_its_note() -> None:
    """With a check, the others are named as not checked."""
    fix = SuggestedFix("--port 1", checks=(("lint", "\u2013"), ("plan", "\u2013")), note="Add the command.")
    assert "lint" not in rendered(replace(_SUMMARY, fix=fix)).html
    checked = replace(fix, checks=(("lint", "✓"), ("plan", "\u2013")))
    assert "not checked" in rendered(replace(_SUMMARY, fix=checked)).html
    assert "not checked" in rendered(replace(_SUMMARY, fix=replace(fix, note=""))).html


def test_evidence_is_folded_below_its_fact() -> None:
    """A step shows fact, consequence and action; empty evidence is left out."""
    shown = step(
        StepText("PyTorch held 22 GiB.", "It does not fit.", "Limit videos.", "vllm serve m"),
        {"The log": RenderedView("log", "<p>log</p>"), "Figures": RenderedView.nothing("no figures")},
    )
    assert shown.html.count("<details") == 1
    assert "no figures" not in shown.html
    assert re.findall("<th[^>]*>(.*?)</th>", clean_html(shown.html)) == ["Fact", "So", "Do"]
    assert shown.plain.startswith("Fact  PyTorch held 22 GiB.\nSo    It does not fit.\nDo    Limit videos.\n")


def test_a_step_without_content_is_marked() -> None:
    """Pages leave out its output."""
    empty = step(None, {"Figures": RenderedView.nothing("no figures")})
    assert empty.is_nothing
    assert empty.plain == "no figures"


def test_pages_leave_out_empty_steps_and_renumber_the_rest() -> None:
    """A heading without outputs is dropped, and the numbers have no gap."""
    cells = [
        _prose("# Title"), _prose("## 1. First"), _code(RenderedView("a", "a")),
        _prose("## 2. Second"), _code(RenderedView.nothing("none")),
        _prose("## 3. Third\n\nText."), _code(RenderedView.nothing("none")), _code(RenderedView("b", "b")),
        _prose("## Verdict"),
    ]  # fmt: skip
    shown = shown_cells(cells)
    prose = [cell["source"] for cell in shown if cell["cell_type"] == "markdown"]
    assert prose == ["# Title", "## 1. First", "## 2. Third\n\nText.", "## Verdict"]
    assert [len(cell["outputs"]) for cell in shown if cell["cell_type"] == "code"] == [1, 0, 1]


def _prose(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text}


def _code(view: RenderedView) -> dict[str, Any]:
    output = {"output_type": "execute_result", "data": view._repr_mimebundle_()}
    return {"cell_type": "code", "source": "view", "outputs": [output]}
