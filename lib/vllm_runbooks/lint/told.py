"""Hits as issues with messages and fixes, secrets replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.core.excerpt import LineIndex, Replacement, applied
from vllm_runbooks.core.printed import masked
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import calls
from vllm_runbooks.lint.fixing import FixableText, span
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.linted_text import LintedText, severity
from vllm_runbooks.lint.records import Fix, Issue, Launch, SourceLine
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.documents import LaunchFile

MAX_ISSUES = 500
_MAX_TEXT = 400
_MAX_BITS = 1024
_MAX_LINE = 4000
"""Longest line that is shown with its issue."""
_TOO_MUCH = "file.too-much"
_NOTE = "note"
"""Hole for a table's remark, which is in English."""
_HOLE = re.compile(r"\{(\w+)\}")


def issues(judged: FixableText, secrets: Secrets) -> Iterator[Issue]:
    places, lines = LineIndex(judged.text), _SafeLines(judged.text, secrets)
    for hit in _most_serious(judged):
        rule = judged.knowledge.rules[hit.rule]
        if judged.knowledge.lang is not None:
            rule = languages.told_in(rule, judged.knowledge.lang)
        line, column = places(hit.start)
        sentences = _sentences_of(rule, hit, secrets, judged.knowledge.lang)
        first, *notes = [sentence.text for sentence in sentences]
        fix = _fix(judged.page, hit.edits, places, secrets) if hit.edits else None
        replacement = fix.new_text.strip() if fix is not None else None
        yield Issue(
            rule=rule.id,
            severity=severity(rule, hit),
            line=line,
            column=column,
            text=secrets.part(hit.start, min(hit.end, hit.start + _MAX_TEXT))[:_MAX_TEXT],
            message=languages.joined([first, *notes]),
            fix=fix,
            notes=tuple(notes),
            restated=tuple(sentence.text for sentence in sentences[1:] if sentence.names == replacement),
            source=lines.marked(line, hit),
        )


class _SafeLines:
    """The lines of a text, secrets replaced."""

    def __init__(self, text: str, secrets: Secrets) -> None:
        self._text, self._secrets = text, secrets
        self._lines = text.split("\n")

    @cached_property
    def _safe(self) -> list[str]:
        return self._secrets.part(0, len(self._text)).split("\n")

    def marked(self, line: int, hit: Hit) -> SourceLine | None:
        """The line of a hit; None if it is blank or very long, or has a part of a secret of several lines."""
        text = self._lines[line - 1]
        if not text.strip() or len(text) > _MAX_LINE or len(self._safe) != len(self._lines):
            return None
        safe = self._safe[line - 1].rstrip("\r")
        begin = self._text.rfind("\n", 0, hit.start) + 1
        before = self._secrets.part(begin, hit.start)
        about = self._secrets.part(hit.start, min(hit.end, begin + len(text))).rstrip()
        if safe.startswith(before + about):
            return SourceLine(safe, len(before), len(before) + len(about))
        at = safe.find(about) if about else -1  # a secret ends or begins in the middle of it
        return SourceLine(safe, at, at + len(about)) if at >= 0 else SourceLine(safe, 0, len(safe))


class FilledSentence(NamedTuple):
    text: str
    names: str | None
    """Value of its only placeholder; None if it has none or several."""


def _sentences_of(rule: Rule, hit: Hit, secrets: Secrets, lang: str | None) -> list[FilledSentence]:
    say = languages.Wording(lang)
    says = {name: secrets.hidden(say.filling(filling)) for name, filling in hit.says.items()}
    mark = say.mark
    if says.get(_NOTE) and rule.message[0] != mark:  # a table's note is always English
        says[_NOTE] = f"{mark}{says[_NOTE]}"
    if hit.is_call:
        filled = [
            FilledSentence(calls.spoken(text, lang), names and calls.spoken(names, lang))
            for text, names in sentences(rule, says)
        ]
    else:
        filled = sentences(rule, says)
    title = f"{rule.title}{'.' if lang is None else '。'}"
    first = f"{hit.where}{filled[0].text if filled else title}"
    return [FilledSentence(first, None), *filled[1:]]


def _most_serious(judged: FixableText) -> list[Hit]:
    """Hits to report in text order, only the most serious ones of very many."""
    if len(judged.hits) <= MAX_ISSUES:
        return judged.hits
    order = list(IssueSeverity)
    rules = judged.knowledge.rules
    most_serious = sorted(judged.hits, key=lambda hit: order.index(severity(rules[hit.rule], hit)))[:MAX_ISSUES]
    more = Hit(_TOO_MUCH, 0, 0, {"count": f"{len(judged.hits) - MAX_ISSUES:,}"})
    note = [more] if _TOO_MUCH in rules else []
    return [*note, *sorted(most_serious, key=lambda hit: (hit.start, hit.end, hit.rule))]


def sentences(rule: Rule, says: Mapping[str, str]) -> list[FilledSentence]:
    """Fill the rule's sentences; omit those with an unknown placeholder."""
    filled = []
    for sentence in rule.message:
        holes = _HOLE.findall(sentence)
        if all(says.get(name) for name in holes):
            text = _HOLE.sub(lambda hole: says[hole[1]], sentence)
            text = text[:-1] if text.endswith(("?.", "?。", "？。")) else text
            filled.append(FilledSentence(text, says[holes[0]] if len(holes) == 1 else None))
    return filled


def _fix(page: LaunchFile, edits: Sequence[Replacement], places: LineIndex, secrets: Secrets) -> Fix | None:
    """Merge the edits into one replacement; None if there is a secret in between."""
    text, edits = page.text, page.fitted(edits)
    start, end = span(edits)
    inside = [Replacement(edit.start - start, edit.end - start, edit.new_text) for edit in edits]
    new_text = applied(text[start:end], inside)
    return Fix(*places(start), *places(end), new_text) if secrets.hidden(new_text) == new_text else None


def launches(judged: LintedText, secrets: Secrets) -> Iterator[Launch]:
    for launch, parsed in judged.parsed:
        flags = {
            dest: _without_secrets(masked(_jsonable(value), dest), secrets)
            for dest, value in parsed.flags.items()
            if value is not UNKNOWN and dest != "model"
        }
        env = {
            name: None if setting.value.value is None else _without_secrets(masked(setting.value.value, name), secrets)
            for name, setting in launch.environment.items()
        }
        yield Launch(None if parsed.model is None else _without_secrets(masked(parsed.model), secrets), flags, env)


def _without_secrets(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_secrets(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner, secrets) for inner in value]
    return secrets.hidden(value) if isinstance(value, str) else value


def _jsonable(value: Any) -> Any:
    """Replace unknown values, and integers too large for JSON readers, by None."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    return value if value is None or isinstance(value, (str, int, float)) else None
