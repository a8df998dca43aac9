"""Pages of options and variables match the data of the releases."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape

import pytest

from vllm_runbooks.catalog import options
from vllm_runbooks.lint import knowledge
from vllm_runbooks.site import building, option_pages


@cache
def pages() -> dict[str, str]:
    """All pages, with the tables of the shipped rules."""
    rules = {name: rule.values for name, rule in knowledge.knowledge().rules.items()}
    return option_pages.sources(rules, building._symptoms())


def entry_text(name: str) -> str:
    """The text about an option or variable."""
    target = option_pages.links()[name]
    text = "\n".join(pages().values())
    return text[text.index(f"({target})=") :].split("\n(", 1)[0]


def history(name: str) -> list[tuple[str, str]]:
    """Releases and their changes as shown."""
    lines = re.findall(r"^- \[(.*?)\]\{\.release\} (.*)$", entry_text(name), re.MULTILINE)
    return [(release.replace("\\", ""), said) for release, said in lines]


@pytest.mark.parametrize("kind", ["option", "environment"])
def test_every_name_of_every_release_has_one_entry(kind: str) -> None:
    """Every option and variable of any release is on exactly one page."""
    known = {name for release in options.known_releases() for name in options.load(release).of(kind)}
    entries = option_pages.entries(kind)
    text = "\n".join(pages().values())
    assert {entry.name for entry in entries} == known
    assert [entry.target for entry in entries if text.count(f"({entry.target})=\n") != 1] == []


@pytest.mark.parametrize("kind", ["option", "environment"])
def test_additions_and_removals_have_their_release(kind: str) -> None:
    """The first line of a history is the addition, the last one the removal."""
    for entry in option_pages.entries(kind)[::7]:
        told = history(entry.name)
        assert told[0] in [(entry.came.release, words) for words in ("added", "in this release or earlier")]
        if entry.went:
            assert told[-1] == (entry.went.release, "removed")


def test_the_replacement_of_an_option_is_named() -> None:
    """The entry of a removed option links to the successor in the rule's table."""
    text = entry_text("--guided-decoding-backend")
    assert "removed" in text
    assert f"[`--structured-outputs-config`](#{option_pages.links()['--structured-outputs-config']})" in text
    assert entry_text("--structured-outputs-config").count("removed") == 0


def test_changes_are_described_in_words() -> None:
    """Defaults, choices and spellings with old and new values; a group's name does not count."""
    assert ("0.20.2", "default `0.92`, was `0.9`") in history("--gpu-memory-utilization")
    assert any(said.startswith("choices: also `") for _, said in history("--kv-cache-dtype"))
    assert "CacheConfig" not in " ".join(said for _, said in history("--kv-cache-dtype"))
    assert any("on a GPU with" in said for _, said in history("--max-num-seqs"))


def test_an_option_is_found_by_the_title_of_its_group() -> None:
    """The filter of the index has the title of each option's group; the common options hide while filtering."""
    page = pages()["options/index.md"]
    found = re.search(r'data-words="(.*?)"', page)
    assert found is not None
    words = json.loads(unescape(found[1]))
    for name in ("--gpu-memory-utilization", "--block-size", "--swap-space"):
        assert words[f"#{option_pages.links()[name]}"] == "KV cache and memory"
    common, groups = page.partition(":::::{container} unfiltered\n")[2].split("\n:::::\n", 1)
    assert "[`--gpu-memory-utilization`](#option-gpu-memory-utilization) [number · default `0.92` · fixes " in common
    assert "## [KV cache and memory](group-cacheconfig.md)" in groups
    assert groups.count("(#option-gpu-memory-utilization)") == 1
    assert "(#option-swap-space) [removed in " in groups


def test_an_entry_has_the_symptoms_that_it_fixes() -> None:
    """With links, also of a variable; the index has their number."""
    text = entry_text("--max-model-len")
    assert "](../symptoms/kv.max_len_too_large.md)" in text
    assert re.search(r" · \d+ more$", text, re.MULTILINE)
    assert "](../symptoms/" in entry_text("VLLM_ATTENTION_BACKEND")
    assert "Part of a fix" not in entry_text("--model")


def test_every_common_option_is_in_a_list() -> None:
    """A name that no release has would be left out without a word."""
    known = {entry.name for kind in ("option", "environment") for entry in option_pages.entries(kind)}
    assert set(option_pages._COMMON) <= known


def test_releases_are_counted() -> None:
    """A row a release, with as many options as its parser has."""
    text = pages()["options/releases.md"]
    rows = re.findall(r"^\* - \[?([\d.\\]+).*\n  - (\d+)$", text, re.MULTILINE)
    counted = [(release, len(options.load(release).of("option"))) for release in reversed(options.known_releases())]
    assert [(release.replace("\\", ""), int(number)) for release, number in rows] == counted


def test_every_page_lists_the_known_releases() -> None:
    """Dates of changes are only meaningful with this list."""
    first, last = options.known_releases()[0], options.known_releases()[-1]
    for name, text in pages().items():
        assert first.replace(".", "\\.") in text, name
        assert last.replace(".", "\\.") in text, name
