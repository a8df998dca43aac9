"""Faults of a Python call as its reader knows them: keyword arguments instead of options, and changes in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.core.records import Edit
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.option_rules import Tables
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import Page
from vllm_runbooks.reading.documents.starts import Found, Keyword

_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:\.([a-z_][a-z0-9_.]*[a-z0-9_]))?", re.ASCII)
_SAID = ((", whose parser refuses it", ", which refuses it"), (" has no option ", " has no argument "))
"""What is said of a command, and of a call."""
_CLEARER = 0.08
"""How much more alike the nearest of some values is than the next one, where it is clearly meant."""
_CLEAR = 0.85
"""How alike two names are (see difflib) for one to be clearly meant by the other."""
_LONGEST = 200_000
"""Characters of a program that is read again for a change."""


def spoken(message: str, lang: str | None = None) -> str:
    """A message that speaks of options, in keyword arguments; in a language, None: English."""
    say = Wording(lang)

    def keyword(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return say('the key "{key}" of {name}', key=option[2], name=name) if option[2] else name

    for words, instead in _SAID:
        message = message.replace(words, instead)
    return _OPTION.sub(keyword, message)


def edits(page: Page, start: Found, hit: Hit, data: ReleaseData, tables: Tables) -> tuple[Replacement, ...]:
    """What mends a fault of a call's argument; none where that is not certain."""
    keyword = next((one for one in start.keywords if one.name_start == hit.start), None)
    if keyword is None or keyword.name_start == keyword.start or len(page.text) > _LONGEST:
        return ()
    taken = data.taken_by(start.entry)
    if hit.rule == "option.removed":
        rows = tables["option.removed"].get("replacements", {})
        return _replaced(page, start, keyword, rows, data)
    nearest = hit.says.get("nearest", "")
    if hit.rule == "option.unknown" and nearest in taken and _is_alike(keyword.name, nearest):
        return _checked(page, start, [_name(keyword, nearest)], {keyword.name: None, nearest: keyword.value})
    if hit.rule == "option.wrong-choice" and _is_meant(keyword.value, hit.says):
        return editing.edits(page, start, [Edit("set", keyword.name, hit.says["near"])], data)
    return ()


def _is_meant(value: Any, says: Mapping[str, str]) -> bool:
    """Whether one of the known values, and no other, is what a text was meant to be."""
    near = says.get("near")
    if not near or not isinstance(value, str):
        return False
    alike = {one: SequenceMatcher(None, value, one, autojunk=False).ratio() for one in says.get("choices", "").split()}
    others = [ratio for one, ratio in alike.items() if one != near]
    return alike.get(near, 0.0) >= max([_CLEAR - _CLEARER, *(ratio + _CLEARER for ratio in others)])


def _is_alike(name: str, other: str) -> bool:
    return SequenceMatcher(None, name, other, autojunk=False).ratio() >= _CLEAR


def _name(keyword: Keyword, new: str) -> Replacement:
    return Replacement(keyword.name_start, keyword.name_start + len(keyword.name), new)


def _replaced(
    page: Page, start: Found, keyword: Keyword, rows: Mapping[str, Any], data: ReleaseData
) -> tuple[Replacement, ...]:
    """What a gone argument becomes: another one, a key of another one, or nothing."""
    row = rows.get(keyword.name.replace("_", "-"))
    if row is None:
        return ()
    new, value = (row["instead"] or "").lstrip("-").replace("-", "_"), row["value"]
    given = {one.name for one in start.keywords}
    if row["instead"] is None:
        return editing.edits(page, start, [Edit("remove", keyword.name)], data)
    if new not in data.taken_by(start.entry) or value is None:
        return ()
    if isinstance(value, Mapping) and "key" in value:
        return _merged(page, start, new, rows, data) if new not in given else ()
    if new in given or not keyword.is_known:
        return ()
    if value == "same":
        return _checked(page, start, [_name(keyword, new)], {keyword.name: None, new: keyword.value})
    if keyword.value is False:
        return ()  # what was not wanted is not replaced by what it would have been
    made = value["fixed"] if "fixed" in value else value.get("map", {}).get(str(keyword.value))
    if made is None:
        return ()
    option = data.by_dest.get(new)
    literal: Any = _number(made) if option is not None and option.type in ("int", "float") else made
    written = Replacement(
        keyword.start, keyword.end, json.dumps(literal) if isinstance(literal, str) else repr(literal)
    )
    return _checked(page, start, [_name(keyword, new), written], {keyword.name: None, new: literal})


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _merged(page: Page, start: Found, new: str, rows: Mapping[str, Any], data: ReleaseData) -> tuple[Replacement, ...]:
    """All arguments of the call that are keys of one object now: the first becomes the object, the others go."""
    found: list[tuple[Keyword, str]] = []
    for one in start.keywords:
        row = rows.get(one.name.replace("_", "-"), {})
        value = row.get("value")
        is_key = (
            isinstance(value, Mapping)
            and "key" in value
            and (row.get("instead") or "").lstrip("-") == new.replace("_", "-")
        )
        if is_key and "last" not in value and "." not in value["key"]:
            found.append((one, value["key"]))
    if not found or any(not one.is_known or one.name_start == one.start for one, _ in found):
        return ()
    written = ", ".join(f'"{key}": {page.text[one.start : one.end]}' for one, key in found)
    first = found[0][0]
    made = [_name(first, new), Replacement(first.start, first.end, f"{{{written}}}")]
    for one, _ in found[1:]:
        removed = editing.edits(page, start, [Edit("remove", one.name)], data)
        if not removed:
            return ()
        made += removed
    wanted: dict[str, Any] = {one.name: None for one, _ in found}
    return _checked(page, start, made, {**wanted, new: {key: one.value for one, key in found}})


def _checked(page: Page, start: Found, made: list[Replacement], changed: Mapping[str, Any]) -> tuple[Replacement, ...]:
    """The changes, where the program read again has exactly these arguments changed."""
    wanted = {one.name: one.value for one in start.keywords} | dict(changed)
    gone = {name for name, value in changed.items() if value is None}
    again = documents.read(page.changed(sorted(made)), kind=page.kind).starts
    read = next(({one.name: one.value for one in each.keywords} for each in again if each.start == start.start), None)
    return tuple(sorted(made)) if read == {name: value for name, value in wanted.items() if name not in gone} else ()
