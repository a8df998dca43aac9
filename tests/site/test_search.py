"""The search of the site: queries, and the page that must be first."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import chromium, opened, served
from vllm_runbooks.cli import commands
from vllm_runbooks.site import building, search_index
from vllm_runbooks.site.ranking import Ranking

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
QUERIES = {
    "cuda out of memory": r"symptoms/oom\.[\w.]+\.html",
    "engine core initialization failed": r"symptoms/engine\.dead_wrapper\.html",
    "kv cache max model len": r"symptoms/kv\.max_len_too_large\.html",
    "port already in use": r"symptoms/port\.in_use\.html",
    "nccl timeout": r"symptoms/dist\.nccl_timeout\.html",
    "no kv cache blocks": r"symptoms/kv\.no_blocks\.html",
    "trust remote code": r"symptoms/model\.trust_remote_code\.html",
    "gpu memory utilization": r"options/group-\w+\.html#option-gpu-memory-utilization",
    "flash attention not supported": r"symptoms/attn\.backend_unsupported(\.gpu_too_old)?\.html",
    "bf16 not supported": r"symptoms/cli\.bad_value\.dtype\.html",
    "tensor parallel size must divide": r"symptoms/dist\.tp_not_divisible\.html",
    "model not found huggingface": r"symptoms/model\.missing_file\.html",
    "chat template missing": r"symptoms/model\.chat_template_missing\.html",
    "tool call parser": r"options/group-[\w-]+\.html#option-tool-call-parser",
    "ray placement group": r"symptoms/ray\.placement_group_pending\.html",
    "xid": r"symptoms/cuda\.illegal_access\.hardware\.html",
    "connection refused": r"symptoms/dist\.wrong_interface\.html",
    "llama 3.3 70b": r"models/meta-llama/Llama-3\.3-70B-Instruct\.html",
    "rtx 3090": r"gpus/RTX3090\.html",
    "a100": r"gpus/A100-(40|80)GB\.html",
}
"""Queries, and the address of the right page; of several similar ones any is right."""
LEAST = 18
"""Queries whose first result must be right."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page with the search and the whole index, without the rest of the site."""
    root = tmp_path_factory.mktemp("search")
    shutil.copytree(ROOT / "docs" / "_static", root / "_static")
    entries = building.search_entries(
        building._symptoms(), building._rules(), building._runbooks(), ROOT / "docs", commands
    )
    (root / "_static" / search_index.INDEX).write_text(search_index.script(entries), encoding="utf-8")
    text = (
        '<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,">'
        '<script src="_static/lookup.js" defer></script><button data-search hidden>Search</button>'
    )
    (root / "index.html").write_text(text, encoding="utf-8")
    with chromium() as browser, served(root) as origin, opened(browser, f"{origin}/index.html") as visit:
        visit.page.evaluate("SiteSearch.load()")
        yield visit.page
        assert visit.troubles() == []


def addresses(page: Page, query: str) -> list[str]:
    """Pages for a query, best first."""
    ranked: list[str] = page.evaluate("(query) => SiteSearch.rank(query).map((entry) => entry.page)", query)
    return ranked


@pytest.mark.slow
def test_queries_find_the_right_page_first(found: Page) -> None:
    """At least eighteen of twenty queries have the right page first, the others have it among the first five."""
    ranked = {query: addresses(found, query) for query in QUERIES}
    first = [query for query, page in QUERIES.items() if ranked[query] and re.fullmatch(page, ranked[query][0])]
    later = [query for query in QUERIES if query not in first]

    assert len(first) >= LEAST, {query: ranked[query][:3] for query in later}
    for query in later:
        assert any(re.fullmatch(QUERIES[query], page) for page in ranked[query][:5]), (query, ranked[query][:5])


def test_the_search_without_a_browser_finds_the_right_page_too() -> None:
    """The ranking in Python keeps the promise of the site's search: it answers agents."""
    entries = building.search_entries(building._symptoms(), building._rules(), [], ROOT / "docs", commands)
    ranking = Ranking(entries)
    ranked = {query: [entry.page for entry in ranking.best(query, 5)] for query in QUERIES}

    assert sum(bool(re.fullmatch(page, ranked[query][0])) for query, page in QUERIES.items()) >= LEAST
    for query, page in QUERIES.items():
        assert any(re.fullmatch(page, address) for address in ranked[query]), (query, ranked[query])
    assert ranking.best("qqqqzzzz", 5) == ranking.best("", 5) == ranking.best("红烧牛肉面", 5) == []


@pytest.mark.slow
def test_a_name_finds_its_page(found: Page) -> None:
    """A model, a GPU, an option, a variable, a command, a page by its heading, an error line, Chinese words."""
    expected = {
        "Qwen/Qwen3-8B": "models/Qwen/Qwen3-8B.html",
        "h100": "gpus/H100-80GB.html",
        "how many gpus for llama 70b": "models/meta-llama/Llama-3.3-70B-Instruct.html",
        "--enforce-eager": "options/group-modelconfig.html#option-enforce-eager",
        "VLLM_ATTENTION_BACKEND": "variables/group-a.html#variable-vllm-attention-backend",
        "vllm-runbooks leftovers": "commands/leftovers.html",
        "how to write a runbook": "writing-a-runbook.html",
        "ValueError: No available memory for the cache blocks": "symptoms/kv.no_blocks.html",
        "多模态编码器显存不足": "symptoms/oom.multimodal_encoder.html",
    }
    for query, page in expected.items():
        assert addresses(found, query)[0] == page, query
    assert addresses(found, "qqqqzzzz") == []
    assert addresses(found, "红烧牛肉面") == []
    assert addresses(found, "<img src=x onerror=window.PWN_1=1>") == []


@pytest.mark.slow
def test_the_search_works_by_keyboard(found: Page) -> None:
    """Ctrl-K opens it, arrows move, Enter takes the first, Escape closes it."""
    found.keyboard.press("Control+k")
    found.wait_for_selector("#search-window[open]")
    assert found.evaluate("document.activeElement.id") == "search-text"
    found.keyboard.type("address already in use")
    # Earlier results are those of the first letters.
    found.wait_for_selector("#search-window ol li:first-child a[href$='symptoms/port.in_use.html']")
    found.keyboard.press("ArrowDown")
    assert found.evaluate("document.activeElement.getAttribute('href') || ''").endswith("symptoms/port.in_use.html")
    found.keyboard.press("ArrowDown")
    found.keyboard.press("ArrowUp")
    found.keyboard.press("ArrowUp")
    assert found.evaluate("document.activeElement.id") == "search-text"
    assert "search.html?q=address" in (found.get_attribute(".search-foot a", "href") or "")
    found.keyboard.press("Escape")
    assert found.evaluate("document.querySelector('#search-window').open") is False
    found.click("[data-search]")
    found.wait_for_selector("#search-window[open]")
    found.keyboard.press("Escape")
