"""Pages in two languages: every text that is translated stands beside its English one, and a switch chooses.

Both are in the page, so that it works from a folder, is found by the search, and says to fonts and to what reads aloud
which language each is in. A text that has no translation is shown in English behind a mark; without scripts both are
shown, one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from html import escape

from vllm_runbooks import languages
from vllm_runbooks.languages import LANGUAGES
from vllm_runbooks.records import Rule, Symptom
from vllm_runbooks.site.myst import prose, raw, sentence

SCRIPT, STYLE = "language.js", "language.css"
"""What a page needs of docs/_static."""
NONE = {"zh": "本页尚无中文翻译，以下为英文。"}
"""What a page says that has no translation at all."""
_PARTLY = {"zh": "标题、原因和解决办法为中文；小标题、日志和示例为英文。"}
"""What one says that has: which of its texts are not translated."""


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
    titles = []
    for lang, language in LANGUAGES.items():
        attributes = f'lang="{language.tag}"'
        title = _pairs(record, lang).get(record.title) if lang in record.translations else None
        if title is not None:
            titles.append(f'<p {attributes} class="told told-{lang} told-title">{escape(title)}</p>')
        note = NONE[lang] if title is None else _PARTLY[lang]
        titles.append(f'<p {attributes} class="told told-{lang} told-note">{note}</p>')
    return raw(f"{buttons()}{''.join(titles)}")
