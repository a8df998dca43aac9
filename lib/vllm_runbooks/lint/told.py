"""What was found, as it may be told: issues with their fixes and starts, secrets replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.core.excerpt import Places, Replacement, applied
from vllm_runbooks.core.printed import masked
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import calls
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.judged import Judged, severity
from vllm_runbooks.lint.mending import Found, span
from vllm_runbooks.lint.records import Fix, Issue, Launch
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.documents import Page

MAX_ISSUES = 500
"""Issues of one file; what follows is not told: nobody reads it."""
_MAX_TEXT = 400
_MAX_BITS = 1024
_TOO_MUCH = "file.too-much"
_NOTE = "note"
"""What a rule's table says of one name, in English."""
_HOLE = re.compile(r"\{(\w+)\}")


def issues(judged: Found, secrets: Secrets) -> Iterator[Issue]:
    """What is wrong, in the order of the text."""
    places = Places(judged.text)
    for hit in _most_serious(judged):
        rule = judged.knowledge.rules[hit.rule]
        if judged.knowledge.lang is not None:
            rule = languages.told_in(rule, judged.knowledge.lang)
        line, column = places(hit.start)
        yield Issue(
            rule=rule.id,
            severity=severity(rule, hit),
            line=line,
            column=column,
            text=secrets.part(hit.start, min(hit.end, hit.start + _MAX_TEXT))[:_MAX_TEXT],
            message=_told(rule, hit, secrets, judged.knowledge.lang),
            fix=_fix(judged.page, hit.edits, places, secrets) if hit.edits else None,
        )


def _told(rule: Rule, hit: Hit, secrets: Secrets, lang: str | None) -> str:
    """The message of a hit, in the words of where it stands."""
    say = languages.Wording(lang)
    says = {name: secrets.hidden(say.filling(said)) for name, said in hit.says.items()}
    mark = say.mark
    if says.get(_NOTE) and rule.message[0] != mark:  # a table's note is English; a message that is has its own mark
        says[_NOTE] = f"{mark}{says[_NOTE]}"
    said = message(rule, says)
    return hit.where + (calls.spoken(said, lang) if hit.is_call else said)


def _most_serious(judged: Found) -> list[Hit]:
    """The hits that are told, in the order of the text: of very many the most serious ones, and that there are more."""
    if len(judged.hits) <= MAX_ISSUES:
        return judged.hits
    order = list(IssueSeverity)
    rules = judged.knowledge.rules
    kept = sorted(judged.hits, key=lambda hit: order.index(severity(rules[hit.rule], hit)))[:MAX_ISSUES]
    more = Hit(_TOO_MUCH, 0, 0, {"what": f"{len(judged.hits) - MAX_ISSUES} more issues"})
    told = [more] if _TOO_MUCH in rules else []
    return [*told, *sorted(kept, key=lambda hit: (hit.start, hit.end, hit.rule))]


def message(rule: Rule, says: Mapping[str, str]) -> str:
    """The rule's sentences with what was found; one that needs what is not known is left out."""
    return languages.joined(
        _HOLE.sub(lambda hole: says[hole[1]], sentence)
        for sentence in rule.message
        if all(says.get(name) for name in _HOLE.findall(sentence))
    )


def _fix(page: Page, edits: Sequence[Replacement], places: Places, secrets: Secrets) -> Fix | None:
    """The edits as one replacement; None where a secret stands in between, which a placeholder would destroy."""
    text, edits = page.text, page.fitted(edits)
    start, end = span(edits)
    inside = [Replacement(edit.start - start, edit.end - start, edit.new_text) for edit in edits]
    new_text = applied(text[start:end], inside)
    return Fix(*places(start), *places(end), new_text) if secrets.hidden(new_text) == new_text else None


def launches(judged: Judged, secrets: Secrets) -> Iterator[Launch]:
    """What each start of the text starts, as the release's parser understands it."""
    for start, parsed in judged.parsed:
        flags = {
            dest: _shown(masked(_known(value), dest), secrets)
            for dest, value in parsed.flags.items()
            if value is not UNKNOWN and dest != "model"
        }
        env = {
            name: None if setting.value.value is None else _shown(masked(setting.value.value, name), secrets)
            for name, setting in start.environment.items()
        }
        yield Launch(None if parsed.model is None else _shown(masked(parsed.model), secrets), flags, env)


def _shown(value: Any, secrets: Secrets) -> Any:
    """A value with the secrets of the text replaced in all its texts."""
    if isinstance(value, Mapping):
        return {name: _shown(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner, secrets) for inner in value]
    return secrets.hidden(value) if isinstance(value, str) else value


def _known(value: Any) -> Any:
    """A value with None for what in it cannot be known, and numbers of a size that JSON's readers take."""
    if isinstance(value, Mapping):
        return {str(key): _known(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    return value if value is None or isinstance(value, (str, int, float)) else None
