"""Pages in two languages: their content, and the switch in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import browser
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.lint import knowledge
from vllm_runbooks.site import bilingual, rule_pages, sealed, symptom_pages
from vllm_runbooks.site import building as site

DOCS = Path(__file__).resolve().parents[2] / "docs"
TRANSLATED, BARE = "oom.multimodal_encoder", "cli.command_differs"


def symptom(name: str) -> Symptom:
    """A symptom of the catalog; BARE without its translations."""
    record = catalog.load_catalog(()).symptoms[name]
    return replace(record, translations={}) if name == BARE else record


def test_a_page_has_both_languages() -> None:
    """Each text is there twice, marked by its language; option names are code in both."""
    page = symptom_pages.symptom_page(symptom(TRANSLATED))
    assert '<span lang="en" class="told told-en">More GPUs' in page
    assert '<span lang="zh-Hans" class="told told-zh">需要这么多 GPU，且每一层都有卡间通信</span>' in page
    assert page.count("`limit_mm_per_prompt`") == 4
    assert '<p lang="zh-Hans" class="told told-zh told-title">多模态编码器显存不足</p>' in page


def test_headings_are_in_both_languages() -> None:
    """Every fixed heading of a translated page, in each language; others have English ones."""
    assert bilingual.UNTRANSLATED in LANGUAGES["zh"].words
    rule = rule_pages.rule_page(knowledge.knowledge().rules["safety.open-port"])
    for page in (symptom_pages.symptom_page(symptom(TRANSLATED)), rule):
        heads = [line for line in page.splitlines() if line.startswith("## ")]
        assert len(heads) > 4
        assert [line for line in heads if 'lang="zh-Hans" class="told told-zh">' not in line] == []
    assert '## <span lang="en" class="told told-en">Do first</span>' in symptom_pages.symptom_page(symptom(TRANSLATED))
    assert "## Do first\n" in symptom_pages.symptom_page(symptom(BARE))


def test_fixed_words_are_in_both_languages() -> None:
    """The button, the table's heads, an example's value within a sentence."""
    record = symptom(TRANSLATED)
    page = symptom_pages.symptom_page(record, card=symptom_pages.diagnose_example(record))
    for words in ("诊断我的日志", "解决办法", "代价", "诊断会检查："):
        assert f'<span lang="zh-Hans" class="told told-zh">{words}</span>' in page
    assert "Set {option}" not in page
    assert "（例如 `" in page
    assert all("e.g." not in piece for piece in page.split('<span lang="zh-Hans"')[1:] if "例如" in piece)
    assert "例如" not in symptom_pages.symptom_page(symptom(BARE))


def test_a_page_without_a_translation_says_so() -> None:
    """The switch is there, and a line in Chinese says that the rest is in English."""
    page = symptom_pages.symptom_page(symptom(BARE))
    assert "本页尚无中文翻译" in page
    assert "【英文】" not in page


def test_a_text_without_translation_is_marked() -> None:
    """A missing or stale translation is shown in English after the mark."""
    told = replace(symptom(TRANSLATED), refute="It is something else.")
    said = bilingual.sayer(told)("It is something else.")
    assert said == (
        '<span lang="zh-Hans" class="told told-zh">【英文】</span>'
        '<span lang="en" class="told told-en told-zh">It is something else\\.</span>'
    )


def test_translations_are_escaped() -> None:
    """Like the English text, everywhere."""
    hostile = "<img src=x onerror=PWN=1> ``` [a](javascript:PWN=1)"
    texts = replace(symptom(TRANSLATED).translations["zh"], title=hostile, refute=hostile)
    told = replace(symptom(TRANSLATED), translations={"zh": texts})
    page = symptom_pages.symptom_page(told)
    head, _, below = page.partition(">Meaning</span>")
    assert "&lt;img src=x onerror=PWN=1&gt; &#96;&#96;&#96;" in head
    assert r"\<img src\=x onerror\=PWN\=1\> \`\`\` \[a\]\(javascript\:PWN\=1\)" in below
    assert "<img" not in page.replace(r"\<img", "")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site of three pages, made as the whole one is."""
    root = tmp_path_factory.mktemp("bilingual")
    source = root / "source"
    shutil.copytree(DOCS / "_static", source / "_static")
    shutil.copyfile(DOCS / "conf.py", source / "conf.py")
    for folder in ("symptoms", "rules"):
        (source / folder).mkdir()
    for name in (TRANSLATED, BARE):
        page = symptom_pages.symptom_page(replace(symptom(name), runbook=None))
        (source / "symptoms" / f"{name}.md").write_text(page, "utf-8")
    rule = rule_pages.rule_page(knowledge.knowledge().rules["safety.open-port"])
    (source / "rules" / "safety.open-port.md").write_text(rule, "utf-8")
    toctree = "\n".join([f"symptoms/{TRANSLATED}", f"symptoms/{BARE}", "rules/safety.open-port"])
    (source / "index.md").write_text(f"# Pages\n\n```{{toctree}}\n{toctree}\n```\n", "utf-8")
    site._run_sphinx(source, root / "html", root / "doctrees")
    sealed.seal(root / "html")
    return root / "html"


@pytest.fixture(params=["folder", "server"])
def address(request: pytest.FixtureRequest, pages: Path) -> Iterator[str]:
    """The site, opened from a folder or served."""
    if request.param == "folder":
        yield pages.as_uri()
        return
    with browser.served(pages) as origin:
        yield origin


@pytest.mark.slow
def test_the_switch_works(address: str, tmp_path: Path) -> None:
    """By mouse or keyboard; the next page remembers it, and nothing is requested."""
    with (
        browser.chromium() as program,
        browser.opened(program, f"{address}/symptoms/{TRANSLATED}.html", width=390, theme="dark") as visit,
    ):
        page = visit.page
        chinese = page.get_by_text("把该模态的上限设为 0 启动一次")
        confirm = page.get_by_text("Launch once with the modality")
        assert (confirm.is_visible(), chinese.is_visible()) == (True, False)
        button = page.get_by_role("button", name="中文")
        button.focus()
        page.keyboard.press("Enter")
        assert (confirm.is_visible(), chinese.is_visible()) == (False, True)
        heads = [text for text in page.locator("article h2").all_inner_texts() if text.strip("# ")]
        assert [text[:2] for text in heads[:2]] == ["首先", "含义"]
        assert not any("Meaning" in text or "Confirm" in text for text in heads)
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator("p.told-title").get_attribute("lang") == "zh-Hans"
        if not address.startswith("file:"):  # there axe cannot read the style sheets that it requests
            assert browser.axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        browser.shot(page, "symptom-zh-390-dark", tmp_path)
        page.goto(f"{address}/rules/safety.open-port.html")
        assert page.get_by_text("端口对所有人开放且没有 API 密钥").first.is_visible()
        page.goto(f"{address}/symptoms/{BARE}.html")
        assert page.get_by_text("本页尚无中文翻译").is_visible()
        assert page.get_by_text("An option was changed between the command", exact=False).first.is_visible()
        page.get_by_role("button", name="EN").click()
        assert not page.get_by_text("本页尚无中文翻译").is_visible()
        assert visit.troubles() == []


@pytest.mark.slow
def test_without_scripts_both_are_shown(pages: Path) -> None:
    """A reader whose browser runs no scripts misses nothing, and sees no switch that does nothing."""
    with (
        browser.chromium() as program,
        browser.opened(program, f"{pages.as_uri()}/symptoms/{TRANSLATED}.html", java_script_enabled=False) as visit,
    ):
        assert visit.page.get_by_text("Launch once with the modality").is_visible()
        assert visit.page.get_by_text("把该模态的上限设为 0 启动一次").is_visible()
        assert not visit.page.locator(".language-switch").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["多模态编码器", "显存", "GPU显存 encoder"])
def test_search_finds_chinese(pages: Path, words: str) -> None:
    """A phrase of a translation finds its page, and so does a word of two characters in it."""
    with (
        browser.served(pages) as origin,
        browser.chromium() as program,
        browser.opened(program, f"{origin}/search.html?q={words}") as visit,
    ):
        found = visit.page.locator("#search-results a", has_text="multimodal encoder")
        found.first.wait_for(timeout=10_000)
