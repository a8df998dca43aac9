"""Names that vLLM looks up when the engine starts: methods, connectors, formats, speculative decoding."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.languages import listed
from vllm_runbooks.catalog.options import CALLS, ReleaseData
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.lint.hits import Edits, Hit
from vllm_runbooks.lint.meaning import LaunchFacts
from vllm_runbooks.lint.option_rules import Tables
from vllm_runbooks.reading import deployment
from vllm_runbooks.reading.arguments import Parsed, json_options
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.spelling import alike, misspelt
from vllm_runbooks.reading.documents.starts import WrittenLaunch

_CHOICE = "option.wrong-choice"
_MAX_NESTED = 8
_SPECULATIVE = ("speculative_config", "spec_method", "spec_tokens", "spec_model")


class _Named(NamedTuple):
    dest: str
    path: tuple[str, ...]
    """Keys within a JSON value; empty for a plain one."""
    value: str


def of_launch(
    launch: WrittenLaunch, parsed: Parsed, facts: LaunchFacts, data: ReleaseData, tables: Tables
) -> Iterator[Hit]:
    """Check the names in a launch's values against those of its release."""
    registered = tables[_CHOICE].get("registered", {})
    reported = {problem.dest for problem in parsed.problems}
    for named in _named(facts.flags, registered):
        if named.dest not in reported:
            yield from _of_name(named, launch, parsed, data, tables)
    if not reported & set(_SPECULATIVE):
        yield from _of_speculation(launch, parsed, facts, data)


def _named(flags: Mapping[str, Any], registered: Mapping[str, Any]) -> Iterator[_Named]:
    for dest, value in flags.items():
        if isinstance(value, str):
            yield _Named(dest, (), value)
    for name, row in registered.items():
        dest, _, key = name.partition(".")
        value = flags.get(dest)
        if key and isinstance(value, Mapping):
            yield from _within(_Named(dest, (key,), ""), value, row)


def _within(named: _Named, value: Mapping[str, Any], row: Mapping[str, Any], depth: int = 0) -> Iterator[_Named]:
    """Names within a JSON value, also of its nested objects of the same kind."""
    name = value.get(named.path[-1])
    if isinstance(name, str) and value.get(row.get("unless", "")) is None:
        yield named._replace(value=name)
    inner: Any = value
    for key in row.get("nested", ()):
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    for item in inner if isinstance(inner, list) and depth < _MAX_NESTED else ():
        if isinstance(item, Mapping):
            yield from _within(named, item, row, depth + 1)


def _of_name(named: _Named, launch: WrittenLaunch, parsed: Parsed, data: ReleaseData, tables: Tables) -> Iterator[Hit]:
    names, others, is_closed = _names(".".join((named.dest, *named.path)), data, tables)
    value = named.value
    if not names or value in names or value in others or value.lower() in ("none", "null", "auto", ""):
        return
    nearest = misspelt(value, names)
    if _is_open(value) or "." in value or (nearest is None and not (is_closed and _is_ours(launch))):
        return
    option = data.by_dest.get(named.dest)
    place = _place(launch, parsed, named.dest)
    if option is None or place is None:
        return
    nearest = nearest or next(iter(alike(value, sorted(names), 1)), None)
    label = named.dest if launch.entry in CALLS else option.name
    says = {"option": ".".join((label, *named.path)), "value": value[:80], "vllm": data.checked}
    says |= {"nearest": nearest} if nearest else {}
    if "names" not in tables[_CHOICE].get("registered", {}).get(".".join((named.dest, *named.path)), {}):
        *first, last = sorted(names)
        says["choices"] = listed([", ".join(first), last] if first else [last], "{first} or {second}")
    yield Hit(_CHOICE, *place, says, _edits(launch, parsed, named, nearest), is_call=launch.entry in CALLS)


def _is_open(value: str) -> bool:
    """Whether a value is a placeholder, a path or a class."""
    return any(sign in value for sign in "/:\\ {}$<>@%[")


def _is_ours(launch: WrittenLaunch) -> bool:
    """Whether the launch runs vLLM itself, as far as known, rather than the image of another vendor."""
    image = launch.image.value if launch.image is not None else None
    return launch.image is None or (image or "").removeprefix("docker.io/").startswith("vllm/vllm-openai")


def _names(name: str, data: ReleaseData, tables: Tables) -> tuple[Collection[str], Collection[str], bool]:
    """Names of the release, names that are not reported, and whether every other one is rejected."""
    row = tables[_CHOICE].get("registered", {}).get(name, {})
    others = frozenset(row.get("others", ()))
    if name == "quantization":
        features = support.load(data.version)
        return features.quantizations.keys(), others | _past(name), True
    if "names" in row:
        return frozenset(row["names"]), others, False
    option = data.by_dest.get(name)
    if option is None or option.choices or not option.hints:
        return (), (), False
    return frozenset(map(str, option.hints)), _past(name), False


@cache
def _past(dest: str) -> frozenset[str]:
    """Names of all releases."""
    names: set[str] = set()
    for version in options.known_releases():
        option = options.load(version).by_dest.get(dest)
        names.update(map(str, (*(option.choices or ()), *(option.hints or ()))) if option is not None else ())
        names.update(support.load(version).quantizations if dest == "quantization" else ())
    return frozenset(names)


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
    for fault in json_options.speculative_faults(plain, release, text_type):
        place, option = _place(launch, parsed, dest), data.by_dest.get(dest)
        if place is None or option is None or _is_open(fault.says.get("value", "")):
            return
        label = dest if launch.entry in CALLS else option.name
        says = {**fault.says, "option": label, "vllm": data.checked, "value": fault.says.get("value", "")}
        named = _Named(dest, (), fault.says.get("value", ""))
        choices = fault.says.get("choices", "").split()
        nearest = misspelt(named.value, choices) if choices else None
        if choices:
            says["choices"] = ", ".join(choices)
            says["option"] = label if dest != "speculative_config" else f"{label}.{fault.says['key']}"
            says |= {"nearest": nearest} if nearest else {}
        edits = _edits(launch, parsed, named, nearest) if nearest else ()
        rule = _CHOICE if choices else f"option.{fault.kind}"
        yield Hit(rule, *place, says, edits, is_call=launch.entry in CALLS)
        return  # the first one stops vLLM


def _text_type(facts: LaunchFacts) -> str | None:
    config = facts.model.config if facts.model is not None else {}
    inner = config.get("text_config")
    kind = (inner if isinstance(inner, Mapping) else config).get("model_type")
    return kind if isinstance(kind, str) else None
