"""Check translations against their English texts, and stamp them with digests."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.authored.located import Location, Problem, line_of, read_yaml
from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.catalog.templates import PLACEHOLDER, filled_or_plain
from vllm_runbooks.core.records import Facts

T = TypeVar("T", Symptom, Rule)
STAMP = "vllm-runbooks catalog translations --stamp"
"""Command that marks translations as up to date with their English text."""

_COLUMNS = 118
_CODE = re.compile(r"`([^`]+)`")
_NAME = re.compile(
    r"--[a-z][\w-]*|[A-Za-z0-9{<./-]*\w*[_=]\w+(?:[./=-]\w+)*|\w+\.(?:json|yaml|py|jinja2?|safetensors)\b", re.ASCII
)
"""Options, variables, functions and files, which prose names without backticks."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*", re.ASCII)
_KEPT = (
    ("{name}", PLACEHOLDER),
    ("code", _CODE),
    ("name", _NAME),
    ("number", _NUMBER),
)
"""Elements that must be the same in a translation and its English text."""


def unfolded(record: T) -> T:
    """A symptom or a rule, its translations without the blanks that only folded lines of YAML put into them."""
    return replace(
        record, translations={lang: _tidied(translation) for lang, translation in record.translations.items()}
    )


def _tidied(texts: Any) -> Any:
    if isinstance(texts, str):
        return languages.unfolded(texts)
    if isinstance(texts, tuple):
        return tuple(map(_tidied, texts))
    if is_dataclass(texts) and not isinstance(texts, type):
        return replace(texts, **{field.name: _tidied(getattr(texts, field.name)) for field in fields(texts)})
    return texts


def problems(record: Symptom | Rule) -> Iterator[Problem]:
    """Problems of the translations of a symptom or a rule, independent of earlier English texts."""
    for lang, translation in record.translations.items():
        location: Location = ("translations", lang)
        if lang not in LANGUAGES:
            yield location, f"{lang!r} is not an available language; use {' or '.join(LANGUAGES)}"
            continue
        translated, english, old = (
            languages.texts(translation),
            languages.texts(record),
            languages.stale(record, lang),
        )
        for name in translation.of.keys() - translated.keys():
            yield (*location, "of", name), "is the digest of a missing text; remove it"
        for name, translation_pieces in translated.items():
            if name in old and name in translation.of:
                continue  # reported as stale: its original English text is unavailable
            pieces = english.get(name, ())
            if len(translation_pieces) != len(pieces):
                yield (
                    (*location, name),
                    f"has {len(translation_pieces)} entries where the English text has {len(pieces)}",
                )
                continue
            for number, (ours, theirs) in enumerate(zip(translation_pieces, pieces, strict=True)):
                for wrong in _differences(ours, theirs):
                    yield _place(location, name, number), wrong
                if LANGUAGES[lang].mark in ours:
                    yield _place(location, name, number), f"has {LANGUAGES[lang].mark}, which is added automatically"
        first = translated.get("do_first", ("",))[0]
        if first and not filled_or_plain(first, {}, Facts()):
            yield (*location, "do_first"), "must make sense without any figure, one sentence at a time"


def _place(location: Location, name: str, number: int) -> Location:
    if name == "remedies":
        return (*location, name, number // 2, ("title", "cost")[number % 2])
    if name == "look_in":
        return (*location, name, ("what", "where")[number])
    return (*location, name, number) if name in ("explanation", "conditions", "message") else (*location, name)


def _differences(ours: str, theirs: str) -> Iterator[str]:
    if not ours.strip():
        yield "is empty; translate it, or remove the field"
        return
    for kind, pattern in _KEPT:
        translated, english = (set(pattern.findall(text)) for text in (ours, theirs))
        if lost := sorted(english - translated):
            yield f"lacks the {kind} {', '.join(map(repr, lost))}, which is in the English text"
        if more := sorted(translated - english):
            yield f"has the {kind} {', '.join(map(repr, more))}, which is not in the English text"


def stale(record: Symptom | Rule) -> Iterator[Problem]:
    """Problems of translations whose English text has changed, or that were never stamped."""
    for lang in record.translations:
        old = languages.stale(record, lang) if lang in LANGUAGES else []
        if old:
            reason = "the English text has changed, or the translation was never confirmed"
            yield ("translations", lang), f"{', '.join(old)}: {reason}; compare them, then run `{STAMP} FILE`"


def stamped(path: Path, record: Symptom | Rule) -> str:
    """Text of a file with digests that mark its translations as up to date."""
    data = read_yaml(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    english = languages.texts(record)
    # From the last one on: an insertion moves everything below it.
    for lang in sorted(record.translations, key=lambda name: -line_of(data, ("translations", name))):
        translation = record.translations[lang]
        made = ", ".join(f"{n}: {languages.digest(english[n])}" for n in languages.texts(translation) if n in english)
        head = line_of(data, ("translations", lang))
        of = line_of(data, ("translations", lang, "of")) - 1
        is_stamped = lines[of].lstrip().startswith("of:")  # even if it is empty
        at = of if is_stamped else head
        indent = lines[head][: len(lines[head]) - len(lines[head].lstrip())]
        end = at
        if is_stamped:
            end += 1
            while end < len(lines) and lines[end].startswith(f"{indent} "):
                end += 1
        lines[at:end] = textwrap.wrap(
            f"{{{made}}}", _COLUMNS, initial_indent=f"{indent}of: ", subsequent_indent=f"{indent}     "
        )
    return "\n".join(lines)
