"""Fixes for the arguments of Python calls, which are keywords instead of options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.core.records import Edit
from vllm_runbooks.lint.hits import Edits, Hit
from vllm_runbooks.lint.option_rules import Tables, is_opposite
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import Keyword, WrittenLaunch

_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:\.([a-z_][a-z0-9_.]*[a-z0-9_]))?", re.ASCII)
_CLEARER = 0.08
"""Least difference in similarity between the best and the next value."""
_CLEAR = 0.85
"""Least similarity (see difflib) of a certain replacement."""
_LONGEST = 200_000


def spoken(message: str, lang: str | None = None) -> str:
    """Rewrite a message about options for keyword arguments."""
    say = Wording(lang)

    def keyword(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        return say('the key "{key}" of {name}', key=option[2], name=name) if option[2] else name

    return _OPTION.sub(keyword, message.replace(" has no option ", " has no argument "))


def edits(page: LaunchFile, launch: WrittenLaunch, hit: Hit, data: ReleaseData, tables: Tables) -> Edits:
    """Return the edits that fix a keyword argument; empty if no fix is certain."""
    keyword = next((candidate for candidate in launch.keywords if candidate.name_start == hit.start), None)
    if keyword is None or keyword.name_start == keyword.start or len(page.text) > _LONGEST:
        return ()
    parameters = data.taken_by(launch.entry)
    if hit.rule == "option.removed":
        rows = tables["option.removed"].get("replacements", {})
        return _replaced(page, launch, keyword, rows, data)
    nearest = hit.says.get("nearest", "")
    is_like = _ratio(keyword.name, nearest) >= _CLEAR and not is_opposite(keyword.name, nearest)
    if hit.rule == "option.unknown" and nearest in parameters and is_like:
        return _checked(page, launch, [_name(keyword, nearest)], {keyword.name: None, nearest: keyword.value})
    if hit.rule == "option.wrong-choice" and _is_clear_choice(keyword.value, hit.says):
        return editing.edits(page, launch, [Edit("set", keyword.name, hit.says["near"])], data)
    return ()


def _is_clear_choice(value: Any, says: Mapping[str, str]) -> bool:
    near = says.get("near")
    if not near or not isinstance(value, str):
        return False
    ratios = {choice: _ratio(value, choice) for choice in re.split(", | or ", says.get("choices", ""))}
    others = [ratio for choice, ratio in ratios.items() if choice != near]
    return ratios.get(near, 0.0) >= max([_CLEAR - _CLEARER, *(ratio + _CLEARER for ratio in others)])


def _ratio(name: str, other: str) -> float:
    return SequenceMatcher(None, name, other, autojunk=False).ratio()


def _name(keyword: Keyword, new: str) -> Replacement:
    return Replacement(keyword.name_start, keyword.name_start + len(keyword.name), new)


def _replaced(
    page: LaunchFile, launch: WrittenLaunch, keyword: Keyword, rows: Mapping[str, Any], data: ReleaseData
) -> Edits:
    """Replace a removed argument by another one, a key of another one, or nothing."""
    row = rows.get(keyword.name.replace("_", "-"))
    if row is None:
        return ()
    new, value = (row["instead"] or "").lstrip("-").replace("-", "_"), row["value"]
    names = {argument.name for argument in launch.keywords}
    if row["instead"] is None:
        return editing.edits(page, launch, [Edit("remove", keyword.name)], data)
    if new not in data.taken_by(launch.entry) or value is None:
        return ()
    if isinstance(value, Mapping) and "key" in value:
        return _merged(page, launch, new, rows, data) if new not in names else ()
    if new in names or not keyword.is_known:
        return ()
    if value == "same":
        return _checked(page, launch, [_name(keyword, new)], {keyword.name: None, new: keyword.value})
    if keyword.value is False:
        return ()  # an unwanted value is not replaced by its default
    made = value["fixed"] if "fixed" in value else value.get("map", {}).get(str(keyword.value))
    if made is None:
        return ()
    option = data.by_dest.get(new)
    literal: Any = made
    if option is not None and option.type in ("int", "float"):
        with suppress(ValueError):
            literal = json.loads(made)
    text = json.dumps(literal) if isinstance(literal, str) else repr(literal)
    written = Replacement(keyword.start, keyword.end, text)
    return _checked(page, launch, [_name(keyword, new), written], {keyword.name: None, new: literal})


def _merged(page: LaunchFile, launch: WrittenLaunch, new: str, rows: Mapping[str, Any], data: ReleaseData) -> Edits:
    """Merge all arguments that are keys of one object now into that object."""
    members: list[tuple[Keyword, str]] = []
    for argument in launch.keywords:
        row = rows.get(argument.name.replace("_", "-"), {})
        value, is_member = row.get("value"), (row.get("instead") or "").lstrip("-") == new.replace("_", "-")
        is_key = is_member and isinstance(value, Mapping) and "key" in value
        if is_key and "last" not in value and "." not in value["key"]:
            members.append((argument, value["key"]))
    if not members or any(not argument.is_known or argument.name_start == argument.start for argument, _ in members):
        return ()
    written = ", ".join(f'"{key}": {page.text[argument.start : argument.end]}' for argument, key in members)
    first = members[0][0]
    made = [_name(first, new), Replacement(first.start, first.end, f"{{{written}}}")]
    for argument, _ in members[1:]:
        edits = editing.edits(page, launch, [Edit("remove", argument.name)], data)
        if not edits:
            return ()
        made += edits
    changed: dict[str, Any] = {argument.name: None for argument, _ in members}
    return _checked(page, launch, made, {**changed, new: {key: argument.value for argument, key in members}})


def _checked(page: LaunchFile, start: WrittenLaunch, made: list[Replacement], changed: Mapping[str, Any]) -> Edits:
    """Return the edits if the program, read again, has exactly these arguments changed."""
    expected = {argument.name: argument.value for argument in start.keywords} | dict(changed)
    for name in [name for name, value in changed.items() if value is None]:
        del expected[name]
    again = documents.read(page.changed(sorted(made)), kind=page.kind).starts
    calls = [launch.keywords for launch in again if launch.start == start.start]
    is_right = bool(calls) and {argument.name: argument.value for argument in calls[0]} == expected
    return tuple(sorted(made)) if is_right else ()
