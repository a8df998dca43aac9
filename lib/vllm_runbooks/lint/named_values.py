"""Names that vLLM looks up when the engine starts: methods, connectors, formats, speculative decoding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.languages import listed
from vllm_runbooks.catalog.options import CALLS, Option, ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint.hits import Edits, Hit
from vllm_runbooks.lint.meaning import LaunchFacts, alternatives
from vllm_runbooks.lint.option_rules import Tables
from vllm_runbooks.reading import deployment
from vllm_runbooks.reading.arguments import Parsed, json_options
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.spelling import alike, misspelt, near
from vllm_runbooks.reading.documents import images
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_CHOICE = "option.wrong-choice"
_MAX_NESTED = 8
_UNSET = ("none", "null", "auto", "")
_SPECULATIVE = ("speculative_config", "spec_method", "spec_tokens", "spec_model")


class _Named(NamedTuple):
    dest: str
    path: tuple[str, ...]
    """Keys within a JSON value; empty for a plain one."""
    value: str


def of_launch(
    launch: WrittenLaunch,
    parsed: Parsed,
    facts: LaunchFacts,
    data: ReleaseData,
    tables: Tables,
    *,
    has_release: bool = True,
) -> Iterator[Hit]:
    """Check the names in a launch's values against those of its release, if it has one."""
    registered = tables[_CHOICE].get("registered", {})
    reported = {problem.dest for problem in parsed.problems}
    for named in _named(facts.flags, registered):
        if named.dest not in reported:
            yield from _of_name(named, launch, parsed, data, registered, has_release=has_release)
    if not reported & set(_SPECULATIVE):
        yield from _of_speculation(launch, parsed, facts, data)


def _named(flags: Mapping[str, Any], registered: Mapping[str, Any]) -> Iterator[_Named]:
    for dest, value in flags.items():
        if isinstance(value, str):
            yield _Named(dest, (), value)
    for name, row in registered.items():
        dest, *keys = name.split(".")
        if keys:
            yield from _within(_Named(dest, tuple(keys), ""), flags.get(dest), row)


def _within(named: _Named, value: Any, row: Mapping[str, Any], depth: int = 0) -> Iterator[_Named]:
    """Names within a JSON value, also of its nested objects of the same kind."""
    parent = _inner(value, named.path[:-1])
    name = _inner(parent, named.path[-1:])
    if isinstance(name, str) and _inner(parent, (row.get("unless", ""),)) is None:
        yield named._replace(value=name)
    items = _inner(value, row["nested"]) if "nested" in row else None
    for item in items if isinstance(items, list) and depth < _MAX_NESTED else ():
        yield from _within(named, item, row, depth + 1)


def _inner(value: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _of_name(
    named: _Named,
    launch: WrittenLaunch,
    parsed: Parsed,
    data: ReleaseData,
    registered: Mapping[str, Any],
    *,
    has_release: bool,
) -> Iterator[Hit]:
    path, option = ".".join((named.dest, *named.path)), data.by_dest.get(named.dest)
    row = registered.get(path, {})
    source, value = row.get("as", path), _cased(named.value, row)
    names, others = (
        (support.names(source, data.version), registered.get(source, row).get("others", ()))
        if path in registered
        else _hints(option)
    )
    is_open = "." in value or _is_open(value) or value.lower() in _UNSET
    if not names or value in names or value in others or is_open:
        return
    found = alternatives(source, value, names)
    nearest, is_guess = found.get("nearest"), False
    if "releases" in found:
        if not (has_release and data.asked == data.version and _is_ours(launch)):
            return
    elif nearest is None:
        if not _is_ours(launch):
            return
        may_have_others = not row.get("is_closed")
        nearest = (
            near(value, {*names, *others}) if may_have_others else next(iter(alike(value, sorted(names), 1)), None)
        )
        if may_have_others and nearest is None:
            return
        is_guess = may_have_others and not row.get("is_checked")
    place = _place(launch, parsed, named.dest)
    if option is None or place is None:
        return
    label = named.dest if launch.entry in CALLS else option.name
    told = "guessed" if is_guess else "option"
    says = {told: ".".join((label, *named.path)), "value": named.value[:80], "vllm": data.checked, **found}
    says |= {"nearest": nearest} if nearest else {"choices": _choices(names)}
    edits: Edits = () if is_guess else _edits(launch, parsed, named, nearest)
    yield Hit(_CHOICE, *place, says, edits, is_loose=is_guess, is_call=launch.entry in CALLS)


def _choices(names: Collection[str]) -> str:
    *first, last = sorted(names)
    return listed([", ".join(first), last] if first else [last], "{first} or {second}")


def _cased(value: str, row: Mapping[str, Any]) -> str:
    case = row.get("case")
    return value.upper() if case == "upper" else value.lower() if case == "lower" else value


def _is_open(value: str) -> bool:
    """Whether a value is a placeholder, a path or a class."""
    return any(sign in value for sign in "/:\\ {}$<>@%[")


def _is_ours(launch: WrittenLaunch) -> bool:
    """Whether the launch runs vLLM itself, as far as known, rather than the image of another vendor."""
    return launch.image is None or images.is_own(launch.image.value or "")


def _hints(option: Option | None) -> tuple[Collection[str], Collection[str]]:
    """Names in an option's metavar, and in those of all releases, because a plugin may still provide them."""
    if option is None or option.choices or not option.hints:
        return (), ()
    return frozenset(map(str, option.hints)), _past(option.dest)


@cache
def _past(dest: str) -> frozenset[str]:
    past = (options.load(version).by_dest.get(dest) for version in options.known_releases())
    return frozenset(str(name) for option in past if option for name in (*(option.choices or ()), *option.hints))


def _place(launch: WrittenLaunch, parsed: Parsed, dest: str) -> tuple[int, int] | None:
    places = parsed.places.get(dest)
    if not places:
        return None
    if launch.entry in CALLS:
        keyword = launch.keywords[places[-1]]
        return keyword.name_start, keyword.end
    word = launch.words[deployment.behind(parsed, places[-1]) - 1]
    return word.start, word.end


def _edits(launch: WrittenLaunch, parsed: Parsed, named: _Named, nearest: str | None) -> Edits:
    """Replace the name, if it is in the file verbatim, once."""
    if nearest is None or launch.entry in CALLS or misspelt(named.value, [nearest]) is None:
        return ()
    word = launch.words[deployment.behind(parsed, parsed.places[named.dest][-1]) - 1]
    value, at = word.value or "", word.at
    if at is None or len(at) != len(value) or value.count(named.value) != 1:
        return ()
    first = value.index(named.value)
    last = first + len(named.value) - 1
    is_whole = at[last] - at[first] == last - first
    return (Replacement(at[first], at[last] + 1, nearest),) if is_whole else ()


def _of_speculation(launch: WrittenLaunch, parsed: Parsed, facts: LaunchFacts, data: ReleaseData) -> Iterator[Hit]:
    dest = next((name for name in _SPECULATIVE if parsed.places.get(name)), None)
    if dest is None:
        return
    config, twice = json_options.speculative(facts.flags)
    if not isinstance(config, Mapping) or twice is not None or UNKNOWN in config.values():
        return
    release = tuple(int(part) for part in data.version.split("."))
    text_type = _text_type(facts)
    plain = {str(key).replace("-", "_"): value for key, value in config.items()}
    faults = list(json_options.speculative_faults(plain, release, text_type))
    # vLLM reports wrong keys and types together, and only without them the first conflict.
    for fault in [fault for fault in faults if fault.kind != "conflict"] or faults[:1]:
        place, option = _place(launch, parsed, dest), data.by_dest.get(dest)
        if place is None or option is None or _is_open(fault.says.get("value", "")):
            return
        label = dest if launch.entry in CALLS else option.name
        named = _Named(dest, (), fault.says.get("value", ""))
        says = {**fault.says, "option": label, "vllm": data.checked, "value": named.value}
        rule = f"option.{fault.kind}"
        edits: Edits = ()
        if fault.kind == "unknown-key" and (near := alike(says["key"], says["keys"].split(), 1)):
            says["near"] = near[0]
        if choices := says.pop("choices", "").split():
            key = says["key"]
            found = alternatives(f"speculative_config.{key}", named.value, choices)
            says["option"] = label if dest != "speculative_config" else f"{label}.{key}"
            says |= found if "nearest" in found else {**found, "choices": _choices(choices)}
            rule, edits = _CHOICE, _edits(launch, parsed, named, found.get("nearest"))
        yield Hit(rule, *place, says, edits, is_call=launch.entry in CALLS)


def _text_type(facts: LaunchFacts) -> str | None:
    config = facts.model.config if facts.model is not None else {}
    inner = config.get("text_config")
    kind = (inner if isinstance(inner, Mapping) else config).get("model_type")
    return kind if isinstance(kind, str) else None
