"""Pages in two languages: every text that is translated stands beside its English one, and a switch chooses.

Both are in the page, so that it works from a folder, is found by the search, and says to fonts and to what reads aloud
which language each is in. A text that has no translation is shown in English behind a mark; without scripts both are
shown, one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.site.myst import assembled, last_verified, prose, raw, sentence

SCRIPT = "language.js"
"""What a page needs of docs/_static."""


class Told(NamedTuple):
    """What the pages themselves say in a language beside English."""

    none: str
    """Of a page that has no translation at all."""
    partly: str
    """Of a page of a symptom or a rule that has one: which of its texts are not translated."""
    diagnosis: str
    """Of the page that diagnoses in the browser, and of the one that checks: which of their texts are in English."""
    check: str
    headings: Mapping[str, str]
    """Headings of a symptom's and a rule's page, as Markdown."""


TOLD = {
    "zh": Told(
        none="本页尚无中文翻译，以下为英文。",
        partly="标题、原因和解决办法为中文；日志和示例为英文。",
        diagnosis="诊断、依据和解决办法为中文；表单、日志和没有译文的内容为英文，并标有【英文】。",
        check="问题的说明为中文；表单和没有译文的规则为英文，后者标有【英文】。",
        headings={
            "Meaning": "含义",
            "Do first": "首先",
            "Confirm": "如何确认",
            "Refute": "如何排除",
            "Ways out": "解决办法",
            "Where to look": "在哪里查看",
            "Runbook": "操作手册",
            "How it shows": "日志中的样子",
            "Near misses": "相似但不同的情况",
            "References": "参考资料",
            "Why": "为什么",
            "What it says": "提示内容",
            "Examples": "示例",
            "What `--fix` does": "`--fix` 的作用",
            "Left alone": "不作提示的情况",
        },
    )
}
"""By what `--lang` calls them."""


def sayer(record: Symptom | Rule, linked: Collection[str] = ()) -> Callable[[str], str]:
    """What makes Markdown of a text of a symptom or a rule, its translations beside it.

    The ids among `linked` lead to their pages.
    """
    known = {lang: _pairs(record, lang) for lang in record.translations if lang in LANGUAGES}

    def say(text: str) -> str:
        english = prose(text, linked=linked)
        if not known or "\n" in english:
            return english
        shown, marks, others = ["en"], "", ""
        for lang, pairs in known.items():
            attributes = f'lang="{LANGUAGES[lang].tag}" class="told told-{lang}"'
            if text in pairs:
                others += f"<span {attributes}>{prose(pairs[text], linked=linked)}</span>"
            else:
                shown.append(lang)
                marks += f"<span {attributes}>{LANGUAGES[lang].mark}</span>"
        classes = " ".join(f"told-{lang}" for lang in shown)
        return f'{marks}<span lang="en" class="told {classes}">{english}</span>{others}'

    return say


def _pairs(record: Symptom | Rule, lang: str) -> dict[str, str]:
    """The English texts that a language has, as a page writes them, with their translations."""
    old = languages.stale(record, lang)
    there, english = languages.translated(record.translations[lang]), languages.texts(record)
    found = {
        one: other
        for name, pieces in english.items()
        if name in there and name not in old
        for one, other in zip(pieces, there[name], strict=True)
    }
    return {**{sentence(one): other for one, other in found.items()}, **found}


def titles(record: Symptom | Rule) -> dict[str, str]:
    """The title in the languages that have it."""
    told = {lang: _pairs(record, lang).get(record.title) for lang in record.translations if lang in LANGUAGES}
    return {lang: title for lang, title in told.items() if title is not None}


def buttons() -> str:
    """The switch itself, as HTML."""
    found = ['<button type="button" data-told="en" lang="en" aria-pressed="true">EN</button>']
    found += [
        f'<button type="button" data-told="{lang}" lang="{language.tag}" aria-pressed="false">{language.name}</button>'
        for lang, language in LANGUAGES.items()
    ]
    return f'<div class="language-switch" role="group" aria-label="Language">{"".join(found)}</div>'


def notes(said: Mapping[str, str]) -> str:
    """A line in each language that is shown where that one is chosen, as HTML."""
    return "".join(
        f'<p lang="{LANGUAGES[lang].tag}" class="told told-{lang} told-note">{escape(note)}</p>'
        for lang, note in said.items()
    )


def switch(record: Symptom | Rule) -> str:
    """What stands below a page's title: the switch, and the title in other languages, or that there is none."""
    known, lines = titles(record), []
    for lang, language in LANGUAGES.items():
        attributes = f'lang="{language.tag}"'
        if lang in known:
            lines.append(f'<p {attributes} class="told told-{lang} told-title">{escape(known[lang])}</p>')
        note = TOLD[lang].partly if lang in known else TOLD[lang].none
        lines.append(f'<p {attributes} class="told told-{lang} told-note">{note}</p>')
    return raw(f"{buttons()}{''.join(lines)}")


def page(record: Symptom | Rule, badges: str, sections: Iterable[tuple[str, Sequence[str]]], note: str = "") -> str:
    """The page of a symptom or a rule: title, badges, switch, a note, its sections by English heading, when it held."""
    say = _heading(record)
    return assembled(
        [f"({record.id})=\n# {prose(record.title)}", badges, switch(record), note],
        [(say(title), parts) for title, parts in sections],
        [last_verified(record.verified.date, record.verified.vllm)],
    )


def _heading(record: Symptom | Rule) -> Callable[[str], str]:
    """What makes a heading of the fixed words of one, its translations beside it."""
    known = titles(record)

    def say(words: str) -> str:
        said = {lang: TOLD[lang].headings[words] for lang in known if words in TOLD[lang].headings}
        if not said:
            return words
        classes = " ".join(["told-en", *(f"told-{lang}" for lang in LANGUAGES if lang not in said)])
        others = (
            f'<span lang="{LANGUAGES[lang].tag}" class="told told-{lang}">{one}</span>' for lang, one in said.items()
        )
        return f'<span lang="en" class="told {classes}">{words}</span>{"".join(others)}'

    return say
