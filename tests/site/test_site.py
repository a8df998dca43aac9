"""The site matches the catalog, loads no foreign files, and runs nothing from a log.

One site is built for all of these tests, from the shipped catalog, a symptom and a rule with
hostile text in every field, and a runbook with a hostile executed copy.
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from browser import chromium, misfits, opened, served
from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.cli import commands as command_line
from vllm_runbooks.core import markup
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.record_forms import UNPRINTED, record
from vllm_runbooks.core.records import Answer, Facts, Level, Outcome, Role, Severity, Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.history.records import KINDS, HistoryEntry
from vllm_runbooks.lint import knowledge
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks.notebook import VERDICT_MIME, load_runbook
from vllm_runbooks.site import building as site
from vllm_runbooks.site import model_fits, myst, option_pages, runbook_pages, sealed

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PAYLOADS = (
    "<script>window.PWN_1=1</script>",
    "<img src=x onerror='window.PWN_2=1'>",
    "<a href='javascript:window.PWN_3=1'>press</a>",
    "<iframe src='javascript:parent.PWN_4=1'></iframe>",
    "<svg onload='window.PWN_5=1'><rect width='1' height='1'/></svg>",
    "<div style='background:url(https://evil.example/a.png)'>a</div>",
    "<div style='background:\\75rl(https://evil.example/b.png)'>b</div>",
    "<svg><title><img src=x onerror='window.PWN_6=1'></title><path fill='url(https://evil.example/c)'/></svg>",
    "<svg></p><style><a id='</style><img src=x onerror=window.PWN_7=1>'>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.PWN_8=1&gt;'>",
    "<link rel=stylesheet href=https://evil.example/d.css><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=https://evil.example/><form><button onclick='window.PWN_9=1'>b</button></form>",
    "</div></section></article><script>window.PWN_10=1</script>",
    "<object data='data:text/html,<script>top.PWN_11=1</script>'></object><embed src=x><video src=https://evil.example/e>",
)
MARKDOWN = (
    "# not a heading", "- not a list", "1. not a list", "> not a quote", "[not](https://evil.example)", "![not](x.png)",
    "{math}`not`", "```{raw} html\n<script>window.PWN_20=1</script>\n```", ":::{toctree}\nx\n:::", "(not-a-target)=",
    "<https://evil.example>", "{{ not }}", "| a | b |\n|---|---|\n| c | d |", "+++ {}", "% comment", "---\na: b\n---",
    "[x]{.mark onclick=1}", "Title\n=====", "    indented", "a\\\nb", "&lt;script&gt;", "$x$", "*a* _b_ **c** ~~d~~",
    "[^1]", "``x` `y``", "`a`b_c", "`", "\x1b[31m\x00\u202e", "{name}", "|", "www.evil.example",
)  # fmt: skip


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A runbook's notebook around these code cells."""
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A runbook\n\nIt is hostile."}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": [title, *cells]}


def cell(name: str, source: str, outputs: list[dict[str, Any]], *tags: str) -> dict[str, Any]:
    """A code cell with its output."""
    meta = {"tags": list(tags)}
    return {
        "cell_type": "code",
        "id": name,
        "metadata": meta,
        "source": source,
        "outputs": outputs,
        "execution_count": 1,
    }


def shown(**data: Any) -> dict[str, Any]:
    """An output of these MIME types; a name's first underscore is the slash."""
    return {
        "output_type": "display_data",
        "metadata": {"text/html": {"isolated": True}},
        "data": {name.replace("_", "/", 1): value for name, value in data.items()},
    }


VERDICT: dict[str, Any] = {
    "schema": 2, "verdict": "pass", "reason": "as expected", "case": "a-case", "outcome": None, "root_cause": None,
    "findings": [],
}  # fmt: skip
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
RUNBOOK = {"id": "hostile", "symptoms": ["evil.markup", "unknown.symptom"], "side_effects": False, "needs_gpu": False}
OUTPUTS = [
    *(shown(text_html=payload, text_plain="plain") for payload in PAYLOADS),
    *(shown(text_markdown=payload, text_plain="<Markdown>") for payload in (*PAYLOADS, *MARKDOWN)),
    *({"output_type": "stream", "name": "stdout", "text": text} for text in PAYLOADS),
    {"output_type": "error", "ename": PAYLOADS[0], "evalue": PAYLOADS[1], "traceback": list(PAYLOADS)},
    shown(**{"application_javascript": "window.PWN_30=1", "text_latex": "$x$", "image_svg+xml": PAYLOADS[4]}),
    shown(**{"application_vnd.jupyter.widget-view+json": {"model_id": "m"}, "text_plain": "Widget()"}),
    shown(image_png=PICTURE, text_plain="a picture"),
    shown(image_png="'><script>window.PWN_31=1</script>", text_plain="no picture"),
]
EXECUTED = notebook(
    cell("parameters", 'evidence: str = "a-case"  # case', [], "parameters"),
    cell("hostile", "print(log)", OUTPUTS),
    cell(
        "verdict",
        "conclude(verdict)",
        [shown(**{VERDICT_MIME.replace("/", "_", 1): VERDICT, "text_plain": "PASS"})],
    ),
    runbook=RUNBOOK,
    widgets={"application/vnd.jupyter.widget-state+json": {"state": {"m": {"model_name": "HTMLModel"}}}},
)


def stripped(executed: dict[str, Any]) -> dict[str, Any]:
    """The notebook as stored in a repository."""
    cells = [
        {**c, "outputs": [], "execution_count": None} if c["cell_type"] == "code" else c for c in executed["cells"]
    ]
    return {**executed, "cells": cells, "metadata": {"runbook": executed["metadata"]["runbook"]}}


def hostile_symptom() -> dict[str, Any]:
    """A symptom with hostile text in every field."""
    said = "\n\n".join((*PAYLOADS, *MARKDOWN))
    line = " ".join(PAYLOADS)
    return {
        "id": "evil.markup", "title": line, "severity": "fatal", "role": "wrapper", "runbook": "hostile",
        "signatures": [{"pattern": "a very hostile line"}],
        "examples": [{"text": f"{said}\n````\n</pre>{line}", "source": line, "vllm": line}],
        "near_misses": [{"text": said, "why": said}],
        "cause": said, "explanation": [said], "do_first": said, "confirm": said, "refute": said,
        "conditions": [{"says": said, "outcome": ["failed"]}],
        "look_in": {"what": said, "where": said},
        "remedies": [
            {"title": said, "cost": said, "edits": [{"op": "set", "name": f"a`{line}", "value": {"a": line}}]},
            {
                "title": "Ordinary",
                "cost": "",
                "edits": [{"op": "set", "name": "max_num_seqs", "value": {"lower_to": 64}}],
            },
        ],
        "references": [said, "javascript:window.PWN_40=1", "https://a.example/`x`", "https://docs.example/page"],
        "verified": {"date": line, "vllm": line},
    }  # fmt: skip


def hostile_rule() -> dict[str, Any]:
    """A rule with hostile text in every field."""
    said = "\n\n".join((*PAYLOADS, *MARKDOWN))
    line = " ".join(PAYLOADS)
    asked = {"vllm": line, "gpus": line, "file": line}
    rows = {f"{name} {line}": {"instead": {"option": line}, "note": said, "choices": [line]} for name in ("a", "b`")}
    return {
        "id": "shell.evil-markup", "title": line, "severity": "error", "message": [said], "why": said, "fix": said,
        "examples": [{"text": f"{said}\n````\n</pre></mark>{line}", "at": said, "fixed": f"{line}\n{said}", **asked}],
        "near_misses": [{"text": said, "why": said, **asked}],
        "values": {"table": rows, f"deep {line}": {"x": rows}},
        "references": [said, "javascript:window.PWN_41=1", "https://docs.example/page"],
        "verified": {"date": line, "vllm": line},
    }  # fmt: skip


def hostile_runs() -> list[HistoryEntry]:
    """History entries with hostile text in every foreign field."""
    return [
        HistoryEntry(
            id=f"{number:012x}", kind=kind, subject=f"hostile on {line}", began="2026-11-21T13:37:18Z", seconds=1.0,
            verdict=Verdict.FAIL, reason=line, job=line, host=line, vllm=line, inputs={line: line},
            results={"root_cause": {"symptom": "evil.markup"}, line: line},
        )
        for number, (kind, line) in enumerate((kind, line) for kind in KINDS for line in PAYLOADS)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the shipped catalog with a hostile symptom, a hostile rule and a hostile run among them."""
    root = tmp_path_factory.mktemp("site")
    executed, runbook = root / "executed", root / "hostile.ipynb"
    executed.mkdir()
    runbook.write_text(json.dumps(stripped(EXECUTED)), encoding="utf-8")
    (executed / "hostile--a-case.ipynb").write_text(json.dumps(EXECUTED), encoding="utf-8")
    symptoms = [*catalog.load_catalog(()).symptoms.values(), record(Symptom, hostile_symptom())]
    page = runbook_pages.paired(load_runbook(runbook), executed)
    rules = [*knowledge.knowledge().rules.values(), record(Rule, hostile_rule())]
    with pytest.MonkeyPatch.context() as patch:
        # The pages of the other models are alike, and half of the time.
        specs = catalog.specs()
        few = replace(specs, texts={name: specs.texts[name] for name in model_fits.COMMON_MODELS})
        patch.setattr(catalog, "specs", lambda: few)
        site.write_sources(
            root / "source",
            docs=DOCS,
            symptoms=symptoms,
            rules=rules,
            pages=[page],
            commands=command_line,
            runs=hostile_runs(),
        )
    site._run_sphinx(root / "source", root / "built" / "html", root / "doctrees")
    sealed.seal(root / "built" / "html")
    return root / "built" / "html"


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the content of its article."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str]]] = []
        self.article: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.ids: set[str] = set()
        self._depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs})
        self._depth += tag == "article"
        self.all.append(element)
        self.ids.add(element[1].get("id", ""))
        if self._depth:
            self.article.append(element)

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.text.append(data)


@cache
def pages(folder: Path) -> dict[str, Elements]:
    """Every page of a built site, by its path."""
    return {
        str(path.relative_to(folder)): Elements(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts
    }


@pytest.mark.slow
def test_nothing_hostile_is_left_in_a_page(built: Path) -> None:
    """Texts of logs, outputs and symptoms appear as text: no element, attribute or address of theirs gets through."""
    forbidden = {
        "script",
        "iframe",
        "object",
        "embed",
        "link",
        "meta",
        "base",
        "form",
        "style",
        "video",
        "audio",
        "math",
    }
    for name, page in pages(built).items():
        inside = page.article
        assert not forbidden & {tag for tag, _ in inside}, name
        assert not [attribute for _, attributes in inside for attribute in attributes if attribute.startswith("on")], (
            name
        )
        addresses = [attributes.get("href", "") + attributes.get("src", "") for _, attributes in inside]
        assert not [a for a in addresses if re.match(r"\s*(?:javascript|data|vbscript):", a, re.IGNORECASE)], name
        assert not [a for a in addresses if "evil.example" in a], name
        assert not [attributes for _, attributes in inside if re.search(r"url|\\", attributes.get("style", ""))], name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["symptoms/evil.markup.html", "rules/shell.evil-markup.html"])
def test_hostile_texts_are_shown_completely(built: Path, name: str) -> None:
    """All text of a symptom or rule is visible, including markup."""
    page = "".join(pages(built)[name].text)
    for said in PAYLOADS:
        assert page.count(" ".join(said.split())) >= 8
    for said in (
        "# not a heading",
        "(not-a-target)=",
        "[not](https://evil.example)",
        "&lt;script&gt;",
        "**c**",
    ):
        assert page.count(said) >= 8


@pytest.mark.slow
def test_nothing_hostile_runs(built: Path) -> None:
    """With hostile symptom, rule, run and history, no page runs a payload or requests files."""
    hostile = [name for name in pages(built) if "evil" in name or "hostile" in name]
    found = [*hostile, "index.html", "runs.html", "symptoms/index.html", "rules/index.html", "runbooks/index.html"]
    assert len(hostile) == 3
    with chromium() as browser, served(built) as start, opened(browser, f"{start}/index.html", width=390) as visit:
        for name in found:
            visit.page.goto(f"{start}/{name}", wait_until="load")
            assert misfits(visit.page) == [], name
            assert visit.executed() == [], name
            assert visit.external() == [], name
            assert visit.errors == [], name
        visit.page.goto(f"{start}/index.html")
        visit.page.fill("#lookup-text", "very hostile line script onerror window")
        visit.page.wait_for_selector("#lookup-found a")
        assert visit.executed() == []


@pytest.mark.slow
def test_a_page_has_one_article_and_one_heading(built: Path) -> None:
    """No text closes the page's own elements or opens a second of them."""
    for name, page in pages(built).items():
        tags = [tag for tag, _ in page.all]
        assert tags.count("body") == 1, name
        if name != "search.html":
            assert (tags.count("article"), tags.count("h1")) == (1, 1), name


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(built: Path) -> None:
    """Every script, style, picture and font is a file of the site."""
    loading = {
        "script",
        "img",
        "iframe",
        "source",
        "video",
        "audio",
        "embed",
        "object",
        "input",
        "track",
        "image",
        "use",
    }
    for name, page in pages(built).items():
        for tag, attributes in page.all:
            if tag in loading or (tag == "link" and attributes.get("rel") not in ("canonical", "author")):
                address = attributes.get("src") or attributes.get("href") or attributes.get("data") or ""
                assert not re.match(r"\s*(?:[a-z]+:)?//", address, re.IGNORECASE), (name, tag, address)
    for path in built.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"(?:@import\s*|url\(\s*)[\"']?(?:https?:)?//[^)]{0,80}", text), path.name
    for path in built.rglob("*.js"):
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.findall(r"(?:\.src|\.href|fetch\(|importScripts\()\s*=?\s*[\"'`]https?://.{0,60}", text), (
            path.name
        )


@pytest.mark.slow
def test_every_symptom_has_a_page(built: Path) -> None:
    """The page of a symptom is called by its id, carries it as an anchor, and the index leads there."""
    found = pages(built)
    links = {attributes.get("href") for _, attributes in found["symptoms/index.html"].article}
    shipped = catalog.load_catalog(())
    assert shipped.symptoms
    for name, symptom in shipped.symptoms.items():
        page = found[f"symptoms/{name}.html"]
        text = " ".join("".join(page.text).split())
        assert f"{name}.html" in links
        assert re.sub(r"[._]+", "-", name) in page.ids
        assert " ".join(symptom.title.replace("`", "").split()) in text
        for example in symptom.examples:
            assert " ".join(example.text.split()) in text
        for remedy in symptom.remedies:
            assert remedy.cost.split("{")[0].replace("`", "")[1:] in text


@pytest.mark.slow
def test_every_rule_has_a_page(built: Path) -> None:
    """The page of a rule shows its examples, wrong and corrected, and the index and the sidebar lead there."""
    found = pages(built)
    links = {attributes.get("href") for _, attributes in found["rules/index.html"].article}
    sidebar = {attributes.get("href") for tag, attributes in found["rules/option.removed.html"].all if tag == "a"}
    rules = knowledge.knowledge().rules
    assert rules
    for name, rule in rules.items():
        page = found[f"rules/{name}.html"]
        text = " ".join("".join(page.text).split())
        assert f"{name}.html" in links
        assert name == "option.removed" or f"{name}.html" in sidebar
        assert re.sub(r"[._]+", "-", name) in page.ids
        assert " ".join(rule.title.replace("`", "").split()) in text
        assert ("mark", {"class": "wrong"}) in page.article
        for example in rule.examples:
            shown = example.fixed or ""
            assert " ".join("".join(c if c.isprintable() else " " for c in shown).split()) in text


@pytest.mark.slow
def test_the_place_of_an_issue_is_marked(built: Path) -> None:
    """The example's words are marked in its script, with the message of `lint` below."""
    text = (built / "rules" / "option.removed.html").read_text(encoding="utf-8")
    page = "".join(pages(built)["rules/option.removed.html"].text)
    examples = knowledge.knowledge().rules["option.removed"].examples
    assert [e.at for e in examples] == re.findall(r'<mark class="wrong">(.*?)</mark>', text)
    assert all(e.says in " ".join(page.split()) for e in examples)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["option", "environment"])
def test_every_option_of_every_release_has_an_entry(built: Path, kind: str) -> None:
    """Each is found on its page by its anchor, and the index leads there."""
    folder = {"option": "options", "environment": "variables"}[kind]
    found = pages(built)
    anchors = {f"{name.partition('/')[2]}#{anchor}" for name, page in found.items() for anchor in page.ids}
    links = {a.get("href") for _, a in found[f"{folder}/index.html"].article if "#" in a.get("href", "")[1:]}
    entries = option_pages.entries(kind)
    assert {href.partition("#")[2] for href in links if href} >= {entry.target for entry in entries}
    assert not [href for href in links if href and not href.startswith("#") and href not in anchors]
    assert max(path.stat().st_size for path in (built / folder).glob("*.html")) < 400_000


@pytest.mark.slow
def test_symptoms_and_runbooks_lead_to_each_other(built: Path) -> None:
    """A symptom's page names its runbook, the runbook's page its symptoms; unknown names are left out."""
    found = pages(built)
    assert "../runbooks/hostile.html" in {a.get("href") for _, a in found["symptoms/evil.markup.html"].article}
    assert "../symptoms/evil.markup.html" in {a.get("href") for _, a in found["runbooks/hostile.html"].article}
    assert "unknown.symptom" not in "".join(found["runbooks/hostile.html"].text)


@pytest.mark.slow
def test_the_sidebar_leads_to_every_symptom(built: Path) -> None:
    """Every symptom links to all others."""
    page = pages(built)["symptoms/port.in_use.html"]
    hrefs = {attributes.get("href") for tag, attributes in page.all if tag == "a"}
    missing = {f"{name}.html" for name in catalog.load_catalog(()).symptoms} - hrefs - {"port.in_use.html"}
    assert not missing


@pytest.mark.slow
def test_a_runbook_shows_its_case_and_its_verdict(built: Path) -> None:
    """And its pictures; invalid ones are left out."""
    page = pages(built)["runbooks/hostile.html"]
    text = " ".join("".join(page.text).split())
    assert "Example run on the recorded case a-case." in text
    pictures = [attributes["src"] for tag, attributes in page.article if tag == "img"]
    assert len(pictures) == 1
    assert pictures[0].startswith("../_images/")
    assert "no picture" in text


# Texts to Markdown


def tokens(markdown: str) -> list[Any]:
    """The tokens that MyST, with the site's settings, reads in a Markdown text."""
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    config = MdParserConfig(enable_extensions={"attrs_inline", "colon_fence", "deflist"})
    parsed = create_md_parser(config, RendererHTML).parse(markdown)
    return [child for token in parsed for child in [token, *(token.children or [])]]


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="`ab_ -.#{}[]()<>|\\\n:=*+1&⟨⟩!$%^~'\""), st.sampled_from(MARKDOWN)))
def test_prose_is_escaped(text: str) -> None:
    """Any text becomes paragraphs, with code between backticks."""
    seen = tokens(myst.prose(text))
    assert {t.type for t in seen} <= {
        "paragraph_open",
        "paragraph_close",
        "inline",
        "text",
        "text_special",
        "code_inline",
    }
    said = "".join(t.content for t in seen if t.type in ("text", "text_special", "code_inline"))
    kept = re.sub(r"[`\s\u200b⟨⟩{}]", "", said)
    assert kept == re.sub(
        r"[`\s\u200b⟨⟩{}]", "", "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text)
    )


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="`~ \n\ta:")))
def test_a_log_is_one_literal_block(text: str) -> None:
    """No line of a log ends the block that contains it."""
    assert [t.type for t in tokens(myst.literal(text))] == ["fence"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(alphabet="`~<>&\"'/ \n\tab:"), st.sampled_from(["", "wrong"]))))
def test_a_marked_text_is_one_block_and_its_marks(pieces: list[tuple[str, str]]) -> None:
    """It contains no element other than its marks, and its text is unchanged."""
    (block,) = tokens(myst.marked(pieces))
    found = Elements(f"<article>{block.content}</article>")
    assert (block.type, block.info) == ("fence", "{raw} html")
    assert [tag for tag, _ in found.article[1:]] == ["div", "div", "pre", *("mark" for _, mark in pieces if mark)]
    assert "".join(found.text).strip() == "".join(myst.printable(text) for text, _ in pieces).strip()


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="` ab|\\")))
def test_code_is_code_and_nothing_else(text: str) -> None:
    """Inline code of any text is one piece of code with that text."""
    inside = [t for t in tokens(f"a {myst.code(text)} b") if t.type == "code_inline"]
    visible = " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())
    assert [t.content for t in inside] == ([visible] if visible else [])


def test_ids_in_prose_lead_to_their_pages() -> None:
    """A known id becomes a link, with and without backticks; others stay text."""
    said = myst.prose("see oom.weights, `oom.weights` or oom.other.", linked={"oom.weights"})
    assert said == "see [`oom.weights`](oom.weights.md)\\, [`oom.weights`](oom.weights.md) or oom\\.other\\."


# Outputs of notebooks


@in_one_test("payload", PAYLOADS)
def test_cleaned_html_is_stable_and_harmless(payload: str) -> None:
    """Nothing that runs, loads or links is left, and cleaning again finds nothing more to remove."""
    once = markup.clean_html(payload)
    found = Elements(f"<article>{once}</article>").article[1:]
    assert not {tag for tag, _ in found} - markup._TAGS
    assert not {name for _, attributes in found for name in attributes} & {
        "href",
        "src",
        "onerror",
        "onload",
        "id",
        "class",
    }
    assert "evil.example" not in once
    assert markup.clean_html(once) == once


def test_rendered_output_is_kept() -> None:
    """Tables, badges, bars and the verdict pass sanitizing with all attributes."""
    from vllm_runbooks.runbooks.notebook import _card

    evidence = sources.load("autoglm-3090-video-oom")
    answer = diagnosing.diagnose(evidence)
    verdict = diagnosing.verdict(answer, evidence)
    views = (
        answers.summary,
        answers.starts,
        answers.cause,
        answers.checks,
        answers.memory,
        answers.remedies,
        answers.facts,
        answers.others,
    )
    rendered = [*(view(answer).html for view in views), _card(verdict, verdict.reason)]
    rendered.append(render.starts.timeline(diagnosing.read(evidence)).html)

    def normal(html: str) -> list[Any]:
        """Elements with their attributes, where `.4` and `0.4` and blanks make no difference."""
        found = Elements(f"<article>{html}</article>").article
        bare = [(tag, {k: re.sub(r"[\s;]", "", v) for k, v in attributes.items()}) for tag, attributes in found]
        return [(tag, {k: re.sub(r"([,:])0\.", r"\1.", v) for k, v in attributes.items()}) for tag, attributes in bare]

    for html in rendered:
        assert normal(markup.clean_html(html)) == normal(html)
    loading = '<b style="color:color-mix(in srgb, url(//evil.example/x) 60%, red)">x</b>'
    assert markup.clean_html(loading) == "<b>x</b>"


def test_only_supported_kinds_of_output_are_kept() -> None:
    """Widgets, scripts, LaTeX and the verdict's own type are dropped; Markdown becomes text."""
    safe = runbook_pages.safe_notebook(stripped(EXECUTED), EXECUTED, "x.ipynb")
    assert set(safe["metadata"]) == {"kernelspec", "language_info"}
    outputs = [output for c in safe["cells"] if c["cell_type"] == "code" for output in c["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert kinds == {"text/html", "text/plain", "image/png"}
    assert [o["data"] for o in outputs if o.get("data", {}).get("text/plain") == MARKDOWN[0]] == [
        {"text/plain": MARKDOWN[0]}
    ]


def test_secrets_do_not_reach_the_site() -> None:
    """Outputs are redacted again, for any executed copy."""
    secret = "hf_" + "abcdefghijKLMNOPQRST012345"
    ran = notebook(cell("a", "x", [shown(text_html=f"<b>{secret}</b>", text_plain=secret)]), runbook=RUNBOOK)
    assert secret not in json.dumps(runbook_pages.safe_notebook(stripped(ran), ran, "x.ipynb"))


def test_an_outdated_copy_is_rejected() -> None:
    """A page shows the runbook's own cells; outputs of other code are not passed off as theirs."""
    changed = notebook(cell("a", "other", []), runbook=RUNBOOK)
    with pytest.raises(InputError, match=r"run\.ipynb: cell a differs"):
        runbook_pages.safe_notebook(stripped(notebook(cell("a", "x", []), runbook=RUNBOOK)), changed, "run.ipynb")


@pytest.mark.parametrize("broken", [{}, {"output_type": 3}, {"output_type": "display_data", "data": []}, "text", None])
def test_malformed_outputs_are_left_out(broken: Any) -> None:
    """A damaged copy costs its damaged outputs."""
    ran = notebook(cell("a", "x", [broken]), runbook=RUNBOOK)
    safe = runbook_pages.safe_notebook(stripped(ran), ran, "x.ipynb")
    assert safe["cells"][1]["outputs"] == []


# Folders


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    """A build replaces only its own files."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="contains files that are not from a site"):
        site.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_missing_tools_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, one line names the package."""
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    said = "myst_nb is not installed, but is required for the site; run: pip install 'vllm-runbooks[site]'"
    with pytest.raises(InputError, match=re.escape(said)):
        site.build(tmp_path / "out")


def test_a_missing_run_is_rejected(tmp_path: Path) -> None:
    """A folder without a runbook's run is rejected with the command that makes one."""
    with pytest.raises(InputError, match=r"contains no run of .*; run `vllm-runbooks check --out"):
        site.build(tmp_path / "out", executed=tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_a_site_is_replaced_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removed page is removed from the site; a failed build leaves the old site."""
    data = tmp_path / "data"
    (data / "runbooks").mkdir(parents=True)
    (data / "catalog").symlink_to(ROOT / "catalog")
    shutil.copytree(DOCS, data / "docs")
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(data))
    out = tmp_path / "out"
    site.build(out)
    (out / "old.html").touch()
    (data / "docs" / "index.md").write_text("# A\n\n```{toctree}\nruns/nowhere\n```\n", encoding="utf-8")
    with pytest.raises(RunbooksError, match=r"index\.md.*nowhere"):
        site.build(out)
    assert (out / "old.html").exists()
    shutil.copyfile(DOCS / "index.md", data / "docs" / "index.md")
    site.build(out)
    assert not (out / "old.html").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out"}


# The authored pages


def commands(page: str) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, each with the output on the page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows, each a code block with its name as caption."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, body in re.findall(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)\n```", text, re.DOTALL):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body + "\n", encoding="utf-8")


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one of our commands like a reader."""
    program, *arguments = shlex.split(command)
    assert program == "vllm-runbooks"
    argv = [sys.executable, "-m", "vllm_runbooks", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_RUNBOOKS_")}
    return subprocess.run(
        argv, cwd=folder, env=environment, check=False, capture_output=True, text=True, encoding="utf-8"
    )


def assert_prints(printed: str, actual: str) -> None:
    """Every line that the page shows is printed, in that order; `…` ends a line early."""
    rest = actual.splitlines()
    for wanted in printed.splitlines():
        start = wanted.removesuffix("…").rstrip()
        place = next(
            (i for i, line in enumerate(rest) if (line.startswith if "…" in wanted else line.__eq__)(start)), None
        )
        assert place is not None, f"{wanted!r} is not printed in\n{actual}"
        rest = rest[place + 1 :]


@pytest.mark.slow
def test_adding_a_symptom_works_as_described(tmp_path: Path) -> None:
    """Every command of the page on authoring has the output shown, with the files shown."""
    statuses = []
    for command, printed in commands("authoring.md"):
        done = run(command, tmp_path)
        assert_prints(printed, done.stdout)
        statuses.append(done.returncode)
        write_files("authoring.md", tmp_path)
    assert statuses == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("checked", [" --only 'autoglm-*'", pytest.param("", id="everything", marks=pytest.mark.full)])
def test_the_commands_of_the_guide_work(tmp_path: Path, checked: str) -> None:
    """On the log of the page on authoring and a copied script, with the documented results.

    What the page checks whole is checked whole from the wheel (`test_wheel`), and here in part.
    """
    write_files("authoring.md", tmp_path)
    shutil.copyfile(ROOT / "catalog" / "cases" / "copied-launch-script" / "launch.sh", tmp_path / "launch.sh")
    spans = re.findall(r"`(vllm-runbooks [^`]+)`", (DOCS / "guide.md").read_text(encoding="utf-8"))
    expected = {
        "vllm-runbooks diagnose startup.log --command launch.sh --gpus 8xRTX3090": {1},
        "vllm-runbooks lint launch.sh --vllm 0.19.0 --gpus 8xRTX3090": {1},
        "vllm-runbooks migrate launch.sh --from 0.11.0 --to 0.19.0": {1},
        "vllm-runbooks convert launch.sh --to compose --vllm 0.19.0": {1},
        "vllm-runbooks check": {0},
        # Findings of this host differ.
        "vllm-runbooks inventory": {0, 1},
    }
    assert {*expected} - {*spans} == set()
    for command, statuses in expected.items():
        done = run(command + (checked if command.endswith("check") else ""), tmp_path)
        assert done.returncode in statuses, (command, done.stderr)
    named = re.findall(r"`(vllm-runbooks diagnose autoglm\S+)`", (DOCS / "guide.md").read_text(encoding="utf-8"))
    assert [run(command, tmp_path).returncode for command in named] == [1]


def test_the_page_on_reading_lists_every_field_and_value() -> None:
    """Fields of the document, outcomes, levels, roles and severities."""
    text = (DOCS / "reading.md").read_text(encoding="utf-8")
    document, facts = text[text.index("## The JSON document") :].split("### Facts")
    assert re.findall(r"^\| `(\w+)` \|", document, re.MULTILINE) == [
        f.name for f in fields(Answer) if f.metadata != UNPRINTED
    ]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", facts, re.MULTILINE)
    assert sorted(re.findall(r"\w+", " ".join(rows))) == sorted(f.name for f in fields(Facts))
    defined = set(re.findall(r"^`(\w+)`\n: ", text, re.MULTILINE))
    assert defined == {*map(str, Outcome), *map(str, Level), *(str(role) for role in Role if role is not Role.CAUSE)}
    assert all(f"`{severity}`" in text for severity in Severity)


# The real runbooks


@pytest.mark.full
def test_the_shipped_site_builds_in_any_folder(tmp_path: Path) -> None:
    """The command runs the shipped runbooks, prints the index path, and every runbook passes.

    Progress is printed on standard error, a line for each step. It takes a minute of two idle
    cores; the limit here is one for hangs.
    """
    work = tmp_path / "elsewhere"
    work.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("vllm-runbooks site build", work)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_utime", "ru_stime"))
    print(f"\nsite build: {used:.0f} s of processors")
    assert used < 300
    assert done.returncode == 0, done.stderr
    steps = [line.removeprefix("vllm-runbooks: ").split()[0] for line in done.stderr.splitlines()]
    assert steps == ["executing", "writing", "building", "adding"]
    assert done.stdout == f"{work / 'site-out' / 'index.html'}\n"
    schemas = {path.stem.removeprefix("vllm-serve-") for path in (work / "site-out/schemas").glob("vllm-serve-*.json")}
    assert schemas == {*options.known_releases(), "latest"}
    found = pages(work / "site-out")
    runbooks = [path.stem for path in (ROOT / "runbooks").glob("*.ipynb")]
    assert runbooks
    for name in runbooks:
        assert "pass Executed" in " ".join("".join(found[f"runbooks/{name}.html"].text).split())
