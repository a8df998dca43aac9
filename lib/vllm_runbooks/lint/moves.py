"""Changes with a new release that are not errors: defaults, replaced variables, the image."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import CALLS, Default, Option, ReleaseData, inner_type, past, standing
from vllm_runbooks.catalog.specs import DefaultReview, DefaultReviews, HostGpu, Matter
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.core.records import Edit
from vllm_runbooks.lint.hits import Edits
from vllm_runbooks.lint.option_rules import Tables
from vllm_runbooks.lint.records import ChangedDefault
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import LaunchFile, images
from vllm_runbooks.reading.documents.starts import Setting, WrittenLaunch

_UNREVIEWED = DefaultReview(Matter.UNKNOWN, "This change has not been reviewed.", "", writes=False)
_KEYWORDS = ("None", "True", "False")
_SWITCHES = {"1": True, "true": True, "True": True, "0": False, "false": False, "False": False}


@dataclass(frozen=True)
class Moved:
    """A changed default, and the edit that keeps the former value."""

    told: ChangedDefault
    edit: Edit | None = None


def changed_defaults(
    launch: WrittenLaunch,
    parsed: Parsed,
    releases: tuple[ReleaseData, ReleaseData],
    reviews: DefaultReviews,
    *,
    given: Collection[str],
    is_idle: Callable[[str], bool],
    card: HostGpu | None = None,
) -> Iterator[Moved]:
    """Yield changed defaults between two releases that matter to a launch.

    `given` are the options that it sets in the old release; options of `is_idle` have no effect in
    the new one.
    """
    before, after = releases
    arguments = _arguments(after, launch.entry)
    for dest, review, old, new in differing_defaults(before, after, launch.entry, reviews, card):
        if not {dest, review.former.option if review.former else dest}.isdisjoint({*parsed.flags, *given}):
            continue
        if not _counts(review, parsed):
            continue
        edit = _kept(dest, old.value, new, review, after)
        if edit is not None and (edit.name not in arguments or is_idle(after.by_dest[edit.name].name)):
            edit = None
        values = _displayed(old.value), _displayed(new.value)
        yield Moved(ChangedDefault(dest, *values, explicit=edit is not None, note=_why(review, releases)), edit)
    yield from _changed_variables(launch, parsed, before, after, reviews)


def _why(review: DefaultReview, releases: tuple[ReleaseData, ReleaseData]) -> str:
    """What a change means; empty for a move to an older release, which does the opposite."""
    before, after = (options.version_key(data.version) or () for data in releases)
    return review.why if before <= after else ""


def differing_defaults(
    before: ReleaseData, after: ReleaseData, entry: str, reviews: DefaultReviews, card: HostGpu | None = None
) -> Iterator[tuple[str, DefaultReview, Default, Default]]:
    """Yield each argument of a program or class whose default differs: name, review, old and new default."""
    former, arguments = _arguments(before, entry), _arguments(after, entry)
    for dest in (name for name in dict.fromkeys([*arguments, *reviews.options]) if name in former):
        review = reviews.options.get(dest, _UNREVIEWED)
        old = _default(before, entry, dest, card)
        new = Default(review.gone, review.gone is not None)
        if dest in arguments:
            new = _default(after, entry, dest, card)
        if not old.is_known or (not new.is_known and (old.value is None or new.depends_on != ("the GPU",))):
            continue
        is_same = new.is_known and _equivalent(old.value, review) == _equivalent(new.value, review)
        if not is_same and not _is_nothing(old.value, new.value):
            yield dest, review, old, new


def _counts(review: DefaultReview, parsed: Parsed) -> bool:
    is_met = not review.only_with or any(option in parsed.flags for option in review.only_with)
    return is_met and review.matters is not Matter.NOTHING


def _arguments(data: ReleaseData, entry: str) -> Mapping[str, Any]:
    return data.taken_by(entry) if entry in CALLS else data.by_dest


def _default(data: ReleaseData, entry: str, dest: str, card: HostGpu | None) -> Default:
    if entry in CALLS:
        parameter = data.parameters.get(entry, {}).get(dest, {})
        if "default" in parameter:
            return Default(parameter["default"], is_known=True)
    context = "llm" if entry in CALLS else "serve"
    if card is None:
        return data.default(dest, context=context)
    gpu = card.gpu
    return data.default(dest, context=context, gpu=gpu.name, memory_gib=gpu.memory_gib, capability=gpu.capability)


def _is_nothing(*values: Any) -> bool:
    return all(value is None or value in ("", {}, [], "None") for value in values)


def _equivalent(value: Any, review: DefaultReview) -> Any:
    """Map a former default to its present equivalent."""
    former = review.former
    return former.value if former is not None and former.option is None and former.of == value else value


def _displayed(value: Any) -> Any:
    """Return a default for display: the repr of an object."""
    return value["repr"] if isinstance(value, Mapping) and value.keys() == {"repr"} else value


def _kept(dest: str, old: Any, new: Default, review: DefaultReview, after: ReleaseData) -> Edit | None:
    """Return the edit that sets the former default; None if no option can."""
    name, value, is_reviewed = dest, old, False
    if review.former is not None and review.former.of == old:
        name, value, is_reviewed = review.former.option or dest, review.former.value, True
    option = after.by_dest.get(name)
    if not review.writes or option is None or option.deprecated:
        return None
    # A text without choices names a class or path of its own release, and an open default of the
    # new release has no value: neither is made explicit without a review.
    is_plain = isinstance(value, (int, float)) or (isinstance(value, str) and option.choices is not None)
    is_open = new.is_known and new.value is None
    if not is_reviewed and (not is_plain or is_open):
        return None
    return Edit("set", name, value) if _is_accepted(option, value) else None


def _is_accepted(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        return value in option.flag_values.values()
    return option.takes_value and value not in _KEYWORDS and (option.choices is None or value in option.choices)


def _changed_variables(
    launch: WrittenLaunch, parsed: Parsed, before: ReleaseData, after: ReleaseData, reviews: DefaultReviews
) -> Iterator[Moved]:
    for name, review in reviews.environment.items():
        if name in launch.environment or not _counts(review, parsed):
            continue
        old, new = _variable(name, before, review), _variable(name, after, review)
        if old is not None and new is not None and old != new:
            yield Moved(ChangedDefault(name, old, new, explicit=False, note=_why(review, (before, after))))


def _variable(name: str, data: ReleaseData, review: DefaultReview) -> Any:
    variable = data.environment.get(name)
    if variable is not None:
        return variable.default
    return review.gone if standing(name, data, past()).kind == "gone" else review.early


def candidates(
    page: LaunchFile, starts: Sequence[tuple[WrittenLaunch, Parsed, ReleaseData]], tables: Tables
) -> Iterator[Edits]:
    """Yield alternative edits that replace removed variables by options, and later options by variables."""
    rows = tables["environment.removed"].get("replacements", {})
    owners: dict[int, list[tuple[WrittenLaunch, Parsed, ReleaseData]]] = {}
    settings: dict[int, Setting] = {}
    for launch, parsed, data in starts:
        for name, setting in launch.environment.items():
            if name in rows and name not in data.environment:
                settings[setting.start] = setting
                owners.setdefault(setting.start, []).append((launch, parsed, data))
    for at, setting in settings.items():
        if rows[setting.name].get("instead") is None:
            yield editing.unset(page, setting)
            continue
        if "$" in setting.value.raw:
            continue  # `${NAME:-value}` stays overridable
        options_instead = [_as_option(setting, rows[setting.name], parsed, data) for _, parsed, data in owners[at]]
        made = [
            editing.edits(page, launch, [edit], data) if edit is not None and launch.is_certain else ()
            for edit, (launch, _, data) in zip(options_instead, owners[at], strict=True)
        ]
        if all(made):
            yield _distinct([*(edit_made for edits in made for edit_made in edits), *editing.unset(page, setting)])
    for launch, parsed, data in starts:
        yield from _as_variables(page, launch, parsed, data, tables)


def _distinct(edits: Sequence[Replacement]) -> Edits:
    return tuple(dict.fromkeys(edits))


def _as_option(setting: Setting, row: Mapping[str, Any], parsed: Parsed, data: ReleaseData) -> Edit | None:
    text, how = setting.value.value, row.get("value")
    named = (row.get("instead") or {}).get("option")
    option = data.by_string.get(named or "")
    if option is None or text is None or how is None or option.deprecated:
        return None
    if isinstance(how, Mapping) and "key" in how:
        return _as_key(option, text, how, parsed, data)
    value: Any = text if how == "same" else how.get("map", {}).get(text)
    if value is None or option.dest in parsed.flags:
        return None
    return Edit("set", option.dest, value) if _is_accepted(option, value) else None


def _as_key(option: Option, text: str, how: Mapping[str, Any], parsed: Parsed, data: ReleaseData) -> Edit | None:
    keys = data.keys(option.strings[0]) or {}
    whole = parsed.flags.get(option.dest, {})
    key = how["key"]
    if key not in keys or not isinstance(whole, Mapping) or key in whole:
        return None
    value = how["map"].get(text) if "map" in how else _typed(text, keys[key].get("type"))
    if value is None:
        return None
    return Edit("set", option.dest, {**whole, key: value, **how.get("with", {})})


def _typed(text: str, kind: Any) -> Any:
    """Convert a variable's text to the type of a key; None if it does not fit."""
    kind = inner_type(kind)
    if kind == "bool":
        return _SWITCHES.get(text)
    if isinstance(kind, Mapping) and "enum" in kind:
        return next((choice for choice in kind["enum"] if str(choice) == text and choice is not None), None)
    if kind == "int":
        return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
    return text if kind == "str" and text not in _KEYWORDS else None


def _as_variables(
    page: LaunchFile, launch: WrittenLaunch, parsed: Parsed, data: ReleaseData, tables: Tables
) -> Iterator[Edits]:
    """Yield edits from later options to the variables before them."""
    if launch.entry in CALLS or not launch.is_certain:
        return
    rows = tables["option.not-there-yet"].get("before", {})
    replaced = tables["environment.removed"].get("replacements", {})
    for problem in parsed.problems:
        index = problem.option_word
        if problem.kind != "unknown" or index is None or problem.word != index:
            continue
        name, equals, glued = (launch.words[index].value or "").partition("=")
        variable = (rows.get(name.lstrip("-"), {}).get("instead") or {}).get("env", "")
        row = replaced.get(variable, {})
        if variable not in data.environment or (row.get("instead") or {}).get("option") != name:
            continue
        last = index + 1
        if not equals and last < len(launch.words) and not (launch.words[last].value or "-").startswith("-"):
            glued, last = launch.words[last].value or "", last + 1
        value = _variable_value(glued, row.get("value"))
        removed = editing.without(page, launch, index, last, data) if value is not None else ()
        made = editing.edits(page, launch, [Edit("env", variable, value)], data) if removed else ()
        if made and variable not in launch.environment:
            yield _distinct([*made, *removed])


def _variable_value(text: str, how: Any) -> str | None:
    """Value of the variable that corresponds to an option; None if uncertain."""
    if how == "same":
        return text or None
    back = [old for old, new in (how or {}).get("map", {}).items() if new == (text or True)]
    is_one = len(back) == 1 or all(text_before in _SWITCHES for text_before in back)
    return back[0] if back and is_one else None


def retagged(launch: WrittenLaunch, to: str) -> Edits:
    """Replace the release in the tag of vLLM's own image, or `latest` by one that is not the newest."""
    image = launch.image
    tag = images.published_tag(image.value) if image is not None else None
    is_known = options.nearest(to).version == to
    if image is None or tag is None or image.at is None or not is_known:
        return ()
    if tag == "latest":
        old, new = images.parse(image.value).tag, "" if to == options.known_releases()[-1] else f"v{to}"
    else:
        old, new = tag[1:], to if launch.release == tag[1:] else ""
    if not (old and new):
        return ()
    first, last = image.at[-len(old)], image.at[-1]
    return (Replacement(first, last + 1, new),) if last - first == len(old) - 1 else ()
