"""Languages other than English: translations of the catalog's texts and of fixed phrases.

A translation is in the same file as its English text and has a digest of it. If it is missing or
the English text has changed, the English text is shown with a mark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any, NamedTuple, Self, TypeVar

from vllm_runbooks.catalog.records import Rule, RuleTexts, Symptom, SymptomTexts
from vllm_runbooks.catalog.tables import LazyTable
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import LookIn

LANG = "VLLM_RUNBOOKS_LANG"
"""Variable that chooses the language, in the kernels of runbooks as well."""
ENGLISH = "en"
Texts = dict[str, tuple[str, ...]]
"""Texts of a symptom or a rule by field, each as a list of pieces."""
T = TypeVar("T", Symptom, Rule)


@dataclass(frozen=True)
class Language(Authored):
    """A language other than English."""

    name: str
    """Name in the language itself."""
    tag: str
    """HTML language tag, for fonts and screen readers."""
    mark: str
    """Mark before a text that is shown in English because it has no translation."""
    forms: str
    """Regular expression of the names that systems give it, in small letters."""
    words: dict[str, str]
    """Fixed phrases: English to this language."""


LANGUAGES: Mapping[str, Language] = LazyTable("languages", Language)
"""By their names for `--lang`."""
_ENGLISH = re.compile("en(-[a-z]{2})?")

_WIDE = "\u3000-\u303f\u3400-\u9fff\uff00-\uffef“”‘’…—"
_FOLD = re.compile(
    rf"(?<=[{_WIDE}])[ \n]+(?=[{_WIDE}])|(?<=[，。；：！？、（）【】《》])[ \n]+|[ \n]+(?=[，。；：！？、（）【】《》])"
)
"""A blank that only a folded line of YAML put there: Chinese has none between its signs."""
_HOLE = re.compile(r"\{(\w+)\}")
_ENDS = "。；！？】"
_DIGITS = "abcdefghijklmnopqrstuvwxyz"
_DIGEST = 7
"""Number of letters of a digest, which has no digits so that YAML does not read a number."""


def chosen(name: str | None, where: str = "lang") -> str | None:
    """Language by its name or its system locale, such as `zh_CN.UTF-8`; None or "" is English.

    Raises InputError if there is none; `where` names the source of the name.
    """
    tag = (name or "").strip().lower().partition(".")[0].replace("_", "-") or ENGLISH
    if _ENGLISH.fullmatch(tag):
        return None
    code = next((lang for lang, language in LANGUAGES.items() if re.fullmatch(language.forms, tag)), None)
    if code is None:
        raise InputError(f"{where}: {name!r} is not an available language; use {' or '.join((ENGLISH, *LANGUAGES))}")
    return code


_LONGEST = 400
"""Maximum length of the value of a placeholder."""


_LEAST = 14
"""Minimum number of letters outside its holes that identify a text."""


@cache
def _templates(lang: str) -> list[tuple[re.Pattern[str], str]]:
    templates = []
    for text, translation in LANGUAGES[lang].words.items():
        if _HOLE.search(text) and len(re.findall("[a-z]", _HOLE.sub("", text))) >= _LEAST:
            pieces = _HOLE.split(text)
            body = "".join(
                f"(?P<{piece}>.{{1,{_LONGEST}}})" if n % 2 else re.escape(piece) for n, piece in enumerate(pieces)
            )
            templates.append((re.compile(body), translation))
    return templates


class Phrase(str):
    """A phrase with filled holes: English as a text, and translated by its template."""

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, **values: str) -> Self:
        """The template with its `{name}` filled, by phrases as well."""
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made


def listed(items: Sequence[str], form: str = "{first} and {second}") -> str:
    """Join texts, at least one; they may be phrases."""
    return reduce(lambda first, second: Phrase(form, first=first, second=second), items)


class Wording(NamedTuple):
    """Fixed phrases in a language; None for English."""

    lang: str | None = None

    def __call__(self, text: str, **values: object) -> str:
        """The text in this language with its placeholders filled.

        A text without a translation is marked.

        Text that is already filled is identified by the words around its placeholders.
        """
        if self.lang is None:
            return text.format(**values) if values else text
        language = LANGUAGES[self.lang]
        translation = language.words.get(text)
        if translation is not None:
            return translation.format(**values) if values else translation
        for pattern, template in _templates(self.lang):
            match = pattern.fullmatch(text)
            if match:
                return template.format(**match.groupdict())
        return f"{language.mark}{text.format(**values) if values else text}"

    def filling(self, text: str) -> str:
        if self.lang is None or not isinstance(text, Phrase):
            return text
        return self(text.template, **{name: self.filling(value) for name, value in text.values.items()})

    def joined(self, text: str, *others: str) -> str:
        """Translate a text and join it with sentences that are translated already."""
        return joined((self(text), *others))

    @property
    def mark(self) -> str:
        """Mark before a text without a translation; empty if the language is English."""
        return "" if self.lang is None else LANGUAGES[self.lang].mark


def joined(sentences: Iterable[str]) -> str:
    """Join sentences; there is no blank after a Chinese full stop."""
    result = ""
    for sentence in sentences:
        result += f"{'' if not result or result[-1] in _ENDS else ' '}{sentence}"
    return result


def unfolded(text: str) -> str:
    """A text of YAML without the blanks that its folded lines put between signs of Chinese."""
    return _FOLD.sub("", text.strip())


def texts(record: Symptom | SymptomTexts | Rule | RuleTexts) -> Texts:
    """Non-empty translatable texts of a symptom or a rule, or of a translation."""
    if isinstance(record, Rule | RuleTexts):
        fields: Texts = {
            "title": (record.title,), "message": record.message, "why": (record.why,), "fix": (record.fix or "",),
        }  # fmt: skip
    else:
        fields = {
            "title": (record.title,), "cause": (record.cause,), "explanation": record.explanation,
            "conditions": tuple(part if isinstance(part, str) else part.says for part in record.conditions),
            "do_first": (record.do_first,), "confirm": (record.confirm,), "refute": (record.refute,),
            "look_in": (record.look_in.what, record.look_in.where) if record.look_in else (),
            "remedies": tuple(pieces for part in record.remedies for pieces in (part.title, part.cost)),
        }  # fmt: skip
    return {name: pieces for name, pieces in fields.items() if any(pieces)}


def digest(pieces: tuple[str, ...]) -> str:
    """Seven letters that identify an English text, however its lines are broken."""
    number = int.from_bytes(hashlib.sha256("\n".join(" ".join(text.split()) for text in pieces).encode()).digest()[:8])
    letters = ""
    for _ in range(_DIGEST):
        number, place = divmod(number, len(_DIGITS))
        letters += _DIGITS[place]
    return letters


def missing(record: Symptom | Rule, lang: str) -> list[str]:
    """The fields of a symptom or a rule that a language lacks, in their order."""
    translation = record.translations.get(lang)
    fields = texts(translation) if translation is not None else {}
    return [name for name in texts(record) if name not in fields]


def stale(record: Symptom | Rule, lang: str) -> list[str]:
    """Fields whose English text has changed since the translation."""
    translation = record.translations.get(lang)
    if translation is None:
        return []
    english = texts(record)
    return [name for name in texts(translation) if translation.of.get(name) != digest(english.get(name, ()))]


def told_in(record: T, lang: str) -> T:
    """A symptom or a rule with its texts in a language.

    Missing or stale ones are in English, with a mark.
    """
    mark = LANGUAGES[lang].mark
    translation = record.translations.get(lang)
    old = stale(record, lang)
    current = {n: pieces for n, pieces in texts(translation).items() if n not in old} if translation is not None else {}
    pieces = {name: current.get(name) or _marked(name, english, mark) for name, english in texts(record).items()}
    is_rule = isinstance(record, Rule)
    names = ("title", "why") if is_rule else ("title", "cause", "do_first", "confirm", "refute")
    changes: dict[str, Any] = {name: pieces.get(name, ("",))[0] for name in names}
    if isinstance(record, Rule):
        changes["message"] = pieces["message"]
        changes["fix"] = pieces.get("fix", ("",))[0] if record.fix else record.fix
    else:
        changes["explanation"] = pieces.get("explanation", ())
        conditions = zip(record.conditions, pieces.get("conditions", ()), strict=True)
        changes["conditions"] = tuple(replace(condition, says=text) for condition, text in conditions)
        changes["look_in"] = LookIn(*pieces["look_in"]) if record.look_in else None
        remedy_texts = iter(pieces.get("remedies", ()))
        changes["remedies"] = tuple(
            replace(remedy, title=title, cost=cost)
            for remedy, title, cost in zip(record.remedies, remedy_texts, remedy_texts, strict=True)
        )
    return replace(record, **changes)


def _marked(name: str, pieces: tuple[str, ...], mark: str) -> tuple[str, ...]:
    if name in ("explanation", "message"):
        return (mark, *pieces)  # a separate sentence, so that the mark always stays
    if name == "conditions":
        return tuple(f"{mark}{text}" for text in pieces)
    if name == "remedies":
        return tuple(f"{mark}{text}" if n % 2 == 0 else text for n, text in enumerate(pieces))
    return (f"{mark}{pieces[0]}", *pieces[1:])
