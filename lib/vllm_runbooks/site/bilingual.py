"""Pages in two languages: every translated text next to its English one, with a switch.

Both are in the page, so it works from a folder, is found by the search, and marks each language for
fonts and screen readers. An untranslated text is shown in English with a mark; without scripts both
are shown, one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.site.myst import assembled, code, last_verified, named, prose, raw, sentence

SCRIPT = "language.js"
"""Script of a page, in docs/_static."""


UNTRANSLATED = "This page is not translated yet; it is in English."
_PARTLY = "The title, the cause and the fixes are translated; logs and examples are in English."


def sayer(record: Symptom | Rule, linked: Collection[str] = ()) -> Callable[[str], str]:
    """Return a function that renders a text of a symptom or rule as Markdown, with its translations.

    Ids among `linked` become links to their pages.
    """
    pairs_by_lang = {lang: _pairs(record, lang) for lang in record.translations if lang in LANGUAGES}

    def say(text: str) -> str:
        english = prose(text, linked=linked)
        if not pairs_by_lang or "\n" in english:
            return english
        langs, marks, others = ["en"], "", ""
        for lang, pairs in pairs_by_lang.items():
            attributes = f'lang="{LANGUAGES[lang].tag}" class="told told-{lang}"'
            if text in pairs:
                others += f"<span {attributes}>{prose(pairs[text], linked=linked)}</span>"
            else:
                langs.append(lang)
                marks += f"<span {attributes}>{LANGUAGES[lang].mark}</span>"
        classes = " ".join(f"told-{lang}" for lang in langs)
        return f'{marks}<span lang="en" class="told {classes}">{english}</span>{others}'

    return say


def _pairs(record: Symptom | Rule, lang: str) -> dict[str, str]:
    """The English texts that a language has, as a page shows them, with their translations."""
    old = languages.stale(record, lang)
    translated, english = languages.texts(record.translations[lang]), languages.texts(record)
    pairs = {
        english_text: translated_text
        for name, pieces in english.items()
        if name in translated and name not in old
        for english_text, translated_text in zip(pieces, translated[name], strict=True)
    }
    return {**{sentence(english_text): translated_text for english_text, translated_text in pairs.items()}, **pairs}


def titles(record: Symptom | Rule) -> dict[str, str]:
    """The title by language."""
    by_lang = {lang: _pairs(record, lang).get(record.title) for lang in record.translations if lang in LANGUAGES}
    return {lang: title for lang, title in by_lang.items() if title is not None}


def buttons() -> str:
    """The language switch as HTML."""
    lines = ['<button type="button" data-told="en" lang="en" aria-pressed="true">EN</button>']
    lines += [
        f'<button type="button" data-told="{lang}" lang="{language.tag}" aria-pressed="false">{language.name}</button>'
        for lang, language in LANGUAGES.items()
    ]
    return f'<div class="language-switch" role="group" aria-label="Language">{"".join(lines)}</div>'


def notes(english: str) -> str:
    """A note in each other language, shown if it is chosen, as HTML."""
    return "".join(
        f'<p lang="{language.tag}" class="told told-{lang} told-note">{escape(language.words[english])}</p>'
        for lang, language in LANGUAGES.items()
    )


def title_lines(record: Symptom | Rule) -> str:
    """Lines below a page's badges: the title in other languages, and a note on what is translated."""
    translated, lines = titles(record), []
    for lang, language in LANGUAGES.items():
        attributes = f'lang="{language.tag}"'
        if lang in translated:
            lines.append(f'<p {attributes} class="told told-{lang} told-title">{escape(translated[lang])}</p>')
        note = language.words[_PARTLY if lang in translated else UNTRANSLATED]
        lines.append(f'<p {attributes} class="told told-{lang} told-note">{note}</p>')
    return raw("".join(lines))


def page(record: Symptom | Rule, badges: str, sections: Iterable[tuple[str, Sequence[str]]], note: str = "") -> str:
    """The page of a symptom or a rule: title, badges, switch, note, sections by English heading, date."""
    say = words(record)
    return assembled(
        [f"({record.id})=\n# {prose(record.title)}", raw(buttons()), badges, title_lines(record), note],
        [(say(title), parts) for title, parts in sections],
        [last_verified(record.verified.date, record.verified.vllm)],
    )


def words(record: Symptom | Rule) -> Callable[[str], str]:
    """Return a function that renders fixed words, as a heading, with their translations."""
    translated = titles(record)

    def say(english: str) -> str:
        by_lang = {lang: LANGUAGES[lang].words[english] for lang in translated if english in LANGUAGES[lang].words}
        if not by_lang:
            return english
        classes = " ".join(["told-en", *(f"told-{lang}" for lang in LANGUAGES if lang not in by_lang)])
        others = (
            f'<span lang="{LANGUAGES[lang].tag}" class="told told-{lang}">{text}</span>'
            for lang, text in by_lang.items()
        )
        return f'<span lang="en" class="told {classes}">{english}</span>{"".join(others)}'

    return say


def with_values(text: str, values: Mapping[str, str]) -> str:
    """A text of `sayer` with an example's value after each placeholder, introduced in the language around it."""
    pieces = []
    for piece in _LANGUAGE_SPAN.split(text):
        lang = next((lang for lang in LANGUAGES if piece.startswith(f'<span lang="{LANGUAGES[lang].tag}"')), None)
        for name, value in values.items():
            place = code(named(f"{{{name}}}"))
            example = f"(e.g. {code(value)})" if lang is None else f"（{LANGUAGES[lang].words['e.g.']} {code(value)}）"
            piece = piece.replace(place, f"{place} {example}")  # noqa: PLW2901 - a piece with its values
        pieces.append(piece)
    return "".join(pieces)


def filled(text: str, values: Mapping[str, str], plain: Mapping[str, str]) -> str:
    """Fill each placeholder of a text of `sayer` with a value or plain words; keep one that has neither."""
    pieces = []
    for piece in _LANGUAGE_SPAN.split(text):
        lang = next((lang for lang in LANGUAGES if piece.startswith(f'<span lang="{LANGUAGES[lang].tag}"')), None)

        def word(match: re.Match[str], lang: str | None = lang) -> str:
            before, name, after = match.groups()
            if name in values:
                return f"{before}{values[name]}{after}"
            if lang is None and name not in plain:
                return match.group()
            phrase = plain[name] if lang is None else LANGUAGES[lang].words["value"]
            return phrase if before and after else f"{before}{phrase}{after}"

        pieces.append(re.sub(r"(`?)⟨(\w+)⟩(`?)", word, piece))
    return "".join(pieces)


_LANGUAGE_SPAN = re.compile(r'(?=<span lang=")')
