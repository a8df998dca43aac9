"""Languages beside English: the catalog's texts and the fixed words around them, and which translations are stale.

A translation stands beside its English text in the same file and carries a digest of it. One whose English text has
changed since, or that is missing, is not shown: the English text is, behind a mark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import NamedTuple, Self, TypeVar

from vllm_runbooks.catalog.records import Rule, RuleTexts, Symptom, SymptomTexts
from vllm_runbooks.catalog.tables import Table
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.core.records import LookIn

LANG = "VLLM_RUNBOOKS_LANG"
"""Variable that chooses the language, in the kernels of runbooks as well."""
ENGLISH = "en"
Texts = dict[str, tuple[str, ...]]
"""The texts of a symptom or a rule: field to what is said there, piece by piece."""
T = TypeVar("T", Symptom, Rule)


@dataclass(frozen=True)
class Language(Authored):
    """A language beside English."""

    name: str
    """In its own words."""
    tag: str
    """Its tag in HTML: fonts and screen readers go by it."""
    mark: str
    """Stands before a text that is in English for want of a translation."""
    forms: str
    """Regular expression of the names that systems give it, in small letters."""
    words: dict[str, str]
    """The fixed words of what is printed: English to this language."""


LANGUAGES: Mapping[str, Language] = Table("languages", Language)
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
"""Letters of a digest, without a numeral that YAML might take for a number."""


def chosen(name: str | None, where: str = "lang") -> str | None:
    """The language of that name, or of a system's name of it, as `zh_CN.UTF-8`; None is English, as is an empty name.

    Raises:
        InputError: there is none of that name; `where` says what named it.
    """
    asked = (name or "").strip().lower().partition(".")[0].replace("_", "-") or ENGLISH
    if _ENGLISH.fullmatch(asked):
        return None
    found = next((lang for lang, each in LANGUAGES.items() if re.fullmatch(each.forms, asked)), None)
    if found is None:
        raise InputError(f"{where}: {name!r} is no language there is; use {' or '.join((ENGLISH, *LANGUAGES))}")
    return found


_LONGEST = 400
"""Characters of what fills a hole."""


_LEAST = 14
"""Letters around its holes by which a text is known; one with fewer is like any other."""


@cache
def _templates(lang: str) -> list[tuple[re.Pattern[str], str]]:
    """The texts of a language's table that have holes, as patterns."""
    found = []
    for text, said in LANGUAGES[lang].words.items():
        if _HOLE.search(text) and len(re.findall("[a-z]", _HOLE.sub("", text))) >= _LEAST:
            pieces = _HOLE.split(text)
            body = "".join(
                f"(?P<{piece}>.{{1,{_LONGEST}}})" if n % 2 else re.escape(piece) for n, piece in enumerate(pieces)
            )
            found.append((re.compile(body), said))
    return found


class Phrase(str):
    """What fills a hole in words of the code's own: English as it stands, and known by its template elsewhere."""

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, **values: str) -> Self:
        """The template with its `{name}` filled, by phrases as well."""
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made


def listed(said: Sequence[str], form: str = "{first} and {second}") -> str:
    """Some texts in a row, at least one; they may be phrases."""
    return reduce(lambda first, second: Phrase(form, first=first, second=second), said)


class Wording(NamedTuple):
    """The fixed words of what is printed, in a language; None is English."""

    lang: str | None = None

    def __call__(self, text: str, **values: object) -> str:
        """The text in this language, its `{name}` filled; one that is not in the table is marked.

        A text that was filled already is found by the words around its holes.
        """
        if self.lang is None:
            return text.format(**values) if values else text
        language = LANGUAGES[self.lang]
        said = language.words.get(text)
        if said is not None:
            return said.format(**values) if values else said
        for pattern, template in _templates(self.lang):
            match = pattern.fullmatch(text)
            if match:
                return template.format(**match.groupdict())
        return f"{language.mark}{text.format(**values) if values else text}"

    def filling(self, said: str) -> str:
        """What fills a hole: a phrase in this language, anything else as it stands."""
        if self.lang is None or not isinstance(said, Phrase):
            return said
        return self(said.template, **{name: self.filling(value) for name, value in said.values.items()})

    def joined(self, text: str, *others: str) -> str:
        """The text in this language, with sentences behind it that are in it already."""
        return joined((self(text), *others))

    @property
    def mark(self) -> str:
        """What stands before a text that has no translation; nothing where English is asked for."""
        return "" if self.lang is None else LANGUAGES[self.lang].mark


def joined(sentences: Iterable[str]) -> str:
    """Sentences one behind the other; behind a full stop of Chinese stands no blank."""
    said = ""
    for sentence in sentences:
        said += f"{'' if not said or said[-1] in _ENDS else ' '}{sentence}"
    return said


def unfolded(text: str) -> str:
    """A text of YAML without the blanks that its folded lines put between signs of Chinese."""
    return _FOLD.sub("", text.strip())


def texts(record: Symptom | Rule) -> Texts:
    """The English texts of a symptom or a rule that can be translated, without those that are empty."""
    return _said(record)


def translated(record: SymptomTexts | RuleTexts) -> Texts:
    """A translation's texts, of the same form as `texts`; without those that it lacks."""
    return _said(record)


def _said(record: Symptom | SymptomTexts | Rule | RuleTexts) -> Texts:
    if isinstance(record, Rule | RuleTexts):
        found: Texts = {
            "title": (record.title,), "message": record.message, "why": (record.why,), "mends": (record.mends or "",),
        }  # fmt: skip
    else:
        found = {
            "title": (record.title,), "cause": (record.cause,), "explanation": record.explanation,
            "conditions": tuple(each if isinstance(each, str) else each.says for each in record.conditions),
            "do_first": (record.do_first,), "confirm": (record.confirm,), "refute": (record.refute,),
            "look_in": (record.look_in.what, record.look_in.where) if record.look_in else (),
            "remedies": tuple(said for each in record.remedies for said in (each.title, each.cost)),
        }  # fmt: skip
    return {name: said for name, said in found.items() if any(said)}


def digest(said: tuple[str, ...]) -> str:
    """Seven letters by which an English text is known again, however its lines are broken."""
    number = int.from_bytes(hashlib.sha256("\n".join(" ".join(text.split()) for text in said).encode()).digest()[:8])
    letters = ""
    for _ in range(_DIGEST):
        number, place = divmod(number, len(_DIGITS))
        letters += _DIGITS[place]
    return letters


def missing(record: Symptom | Rule, lang: str) -> list[str]:
    """The fields of a symptom or a rule that a language lacks, in their order."""
    found = record.translations.get(lang)
    there = translated(found) if found is not None else {}
    return [name for name in texts(record) if name not in there]


def stale(record: Symptom | Rule, lang: str) -> list[str]:
    """The fields of which the English text has changed since it was translated."""
    found = record.translations.get(lang)
    if found is None:
        return []
    english = texts(record)
    return [name for name in translated(found) if found.of.get(name) != digest(english.get(name, ()))]


def told_in(record: T, lang: str) -> T:
    """A symptom or a rule with its texts in a language; what is missing or stale is in English, behind a mark."""
    mark = LANGUAGES[lang].mark
    found = record.translations.get(lang)
    old = stale(record, lang)
    there = {n: said for n, said in translated(found).items() if n not in old} if found is not None else {}
    said = {name: there.get(name) or _marked(name, english, mark) for name, english in texts(record).items()}
    if isinstance(record, Rule):
        mends = _first(said, "mends") if record.mends else record.mends
        return replace(
            record, title=_first(said, "title"), message=said["message"], why=_first(said, "why"), mends=mends
        )
    return replace(
        record,
        title=_first(said, "title"),
        cause=_first(said, "cause"),
        do_first=_first(said, "do_first"),
        confirm=_first(said, "confirm"),
        refute=_first(said, "refute"),
        explanation=said.get("explanation", ()),
        conditions=tuple(
            replace(c, says=text) for c, text in zip(record.conditions, said.get("conditions", ()), strict=True)
        ),
        look_in=LookIn(*said["look_in"]) if record.look_in else None,
        remedies=tuple(
            replace(remedy, title=said["remedies"][2 * n], cost=said["remedies"][2 * n + 1])
            for n, remedy in enumerate(record.remedies)
        ),
    )


def _first(said: Texts, name: str) -> str:
    return said.get(name, ("",))[0]


def _marked(name: str, said: tuple[str, ...], mark: str) -> tuple[str, ...]:
    """An English text with one mark for each of its parts that stand alone."""
    if name in ("explanation", "message"):
        return (mark, *said)  # a sentence of its own: whichever of the others is left out, the mark stays
    if name == "conditions":
        return tuple(f"{mark}{text}" for text in said)
    if name == "remedies":
        return tuple(f"{mark}{text}" if n % 2 == 0 else text for n, text in enumerate(said))
    return (f"{mark}{said[0]}", *said[1:])
