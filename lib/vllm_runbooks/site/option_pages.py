"""Options and variables of the releases as pages: when each was added, changed and removed; and by release.

The pages are made from the data of the releases (`catalog.options`) and the rules' tables of replacements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import OptionChange
from vllm_runbooks.catalog.records import Symptom
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.site.myst import (
    aside,
    badge,
    code,
    contents,
    filter_field,
    first_of_list,
    listed,
    prose,
    sentence,
    table,
)

_OWNERLESS = frozenset({"options", "positional arguments", None})
"""argparse's own names for options without a configuration class."""
_TYPES = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "json": "JSON",
    "any": "anything",
    "null": "null",
    "human_int": "integer, also as `1k` or `25.6K`",
    "human_int_or_auto": "integer, also as `1k` or `25.6K`, or `auto`",
    "int_pairs": "pairs `KEY=INTEGER`",
    "list": "list with commas between",
    "choice": "choice",
    "other": "custom text format",
}
_LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_COUNTS = {"+": "one or more of", "*": "any number of", "?": "at most one"}
_PROGRAMS = {"serve": "`vllm serve`", "api_server": "the API server's module"}
_CONTEXTS = {"OPENAI_API_SERVER": "for a server", "LLM_CLASS": "for the class `LLM`"}
_KINDS = ("removed", "added", "changed")
"""Kinds of changes, in the order of the page of releases."""
_GROUPS = {
    "AttentionConfig": "Attention", "CacheConfig": "KV cache and memory", "CompilationConfig": "Compilation",
    "DecodingConfig": "Guided decoding", "DeviceConfig": "Device", "Frontend": "API server", "KernelConfig": "Kernels",
    "LoRAConfig": "LoRA", "LoadConfig": "Loading of weights", "LoggingConfig": "Logging", "MambaConfig": "Mamba",
    "ModelConfig": "Model", "MultiModalConfig": "Multimodal input", "ObservabilityConfig": "Metrics and tracing",
    "OffloadConfig": "Offloading", "ParallelConfig": "Several GPUs and hosts", "PromptAdapterConfig": "Prompt adapters",
    "SchedulerConfig": "Scheduling", "StructuredOutputsConfig": "Structured outputs",
    "TokenizerPoolConfig": "Tokenizer pool", "VllmConfig": "Engine", "others": "Other options",
}  # fmt: skip
"""Titles of the groups, which are vLLM's configuration classes; another one has its class's name."""
_COMMON = (
    "--max-model-len", "--gpu-memory-utilization", "--tensor-parallel-size", "--pipeline-parallel-size",
    "--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype", "--quantization", "--dtype", "--enforce-eager",
    "--limit-mm-per-prompt", "--enable-prefix-caching", "--trust-remote-code", "VLLM_ATTENTION_BACKEND",
    "VLLM_HOST_IP", "VLLM_LOGGING_LEVEL", "VLLM_WORKER_MULTIPROC_METHOD", "VLLM_USE_V1", "VLLM_CACHE_ROOT",
)  # fmt: skip
"""Options and variables that are first in their lists."""
_MAX_VALUE = 80
"""Most characters of a default."""
_MOST_FIXED = 4
"""Most symptoms of an entry."""
_Fixed = Mapping[str, Mapping[str, str]]
"""Titles of symptoms by id, by the option or variable that one of their fixes changes."""


@dataclass(frozen=True)
class OptionEntry:
    """An option or variable of any known release."""

    name: str
    data: Mapping[str, Any]
    """Record in the last release with the option."""
    changes: tuple[OptionChange, ...]
    target: str
    """Anchor of its entry."""
    release: str | None = None
    """Release of `data`; None for the last one with the option."""

    @property
    def came(self) -> OptionChange:
        """First known release with it."""
        return self.changes[0]

    @property
    def went(self) -> OptionChange | None:
        """First release without it; None if the newest known release has it."""
        return self.changes[-1] if self.changes[-1].kind == "removed" else None

    @property
    def destination(self) -> str:
        """Argparse destination, as in edits and defaults."""
        return str(self.data.get("dest") or self.name.strip("-").replace("-", "_"))

    @property
    def page(self) -> str:
        """Page name: an option's group, a variable's letter."""
        if self.target.startswith("variable-"):
            letter = self.name.removeprefix("VLLM_")[:1] if self.name.startswith("VLLM_") else ""
            return letter if letter.isalpha() and letter.isascii() else "others"
        group = self.data.get("group")
        return "others" if group in _OWNERLESS else str(group)


@cache
def entries(kind: str) -> tuple[OptionEntry, ...]:
    """Every option ("option") or variable ("environment") of any known release, by name."""
    last: dict[str, Any] = {}
    start = f"{kind} "
    for _, document in options.documents():
        last |= {key[len(start) :]: record for key, record in document["set"].items() if key.startswith(start)}
    lead = "variable" if kind == "environment" else "option"
    targets: dict[str, str] = {}
    for name in sorted(last, key=lambda entry_name: (entry_name.strip("-").lower(), entry_name)):
        target = f"{lead}-{_slug(name)}"
        while target in targets.values():
            target += "-x"
        targets[name] = target
    histories = options.histories(kind)
    return tuple(OptionEntry(name, last[name], histories[name], target) for name, target in targets.items())


def links() -> dict[str, str]:
    """Targets of options and variables with an entry, by every spelling."""
    targets: dict[str, str] = {}
    for entry in (*entries("option"), *entries("environment")):
        for text in (entry.name, *entry.data.get("strings", ())):
            targets.setdefault(text, entry.target)
    return targets


def sources(rules: Mapping[str, Mapping[str, Any]], symptoms: Iterable[Symptom]) -> dict[str, str]:
    """All pages by file name; `rules` are the tables of the rules by id, for replacements."""
    gone, fixed = _replacements(rules), _fixed(symptoms)
    files = {"options/releases.md": _releases_page()}
    for folder, kind in (("options", "option"), ("variables", "environment")):
        pages: dict[str, list[OptionEntry]] = {}
        for entry in sorted(entries(kind), key=_is_removed):
            pages.setdefault(entry.page, []).append(entry)
        ordered = dict(sorted(pages.items(), key=lambda item: (item[0] == "others", item[0].lower())))
        files[f"{folder}/index.md"] = _index(kind, list(ordered), fixed)
        for name, members in ordered.items():
            files[f"{folder}/{file_name(name)}.md"] = _page(kind, name, members, gone[kind], fixed)
    return files


def entry_of(name: str) -> OptionEntry | None:
    """The entry of an option, by any spelling, or of a variable; None if no known release has it."""
    target = links().get(name)
    return next((e for kind in ("option", "environment") for e in entries(kind) if e.target == target), None)


def entry_markdown(
    entry: OptionEntry,
    rules: Mapping[str, Mapping[str, Any]],
    symptoms: Iterable[Symptom] = (),
    *,
    release: str | None = None,
) -> str:
    """An entry as on its page, with the values of a release if it has the entry; other parameters as for `sources`."""
    kind, described = ("option", _option) if entry.target.startswith("option-") else ("environment", _variable)
    if release is not None and (record := options.load(release).records.get(f"{kind} {entry.name}")) is not None:
        entry = replace(entry, data=record, release=release)
    return "\n\n".join(_entry(entry, described, _replacements(rules)[kind], _fixed(symptoms)))


def _replacements(rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: rules.get(f"{name}.removed", {}).get("replacements", {}) for name in ("option", "environment")}


def _fixed(symptoms: Iterable[Symptom]) -> _Fixed:
    fixed: dict[str, dict[str, str]] = {}
    for symptom in symptoms:
        for edit in (edit for remedy in symptom.remedies for edit in remedy.edits):
            fixed.setdefault(edit.name, {})[symptom.id] = symptom.title
    return fixed


def _is_removed(entry: OptionEntry) -> bool:
    """Whether the newest release does not have the entry, so it is listed last."""
    return entry.went is not None


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def file_name(page: str) -> str:
    """File name of a page, without its ending."""
    return f"group-{_slug(page)}"


# ---- pages


def _title(kind: str, page: str) -> str:
    if kind == "environment":
        return "Other variables" if page == "others" else code(f"VLLM_{page}…")
    return _GROUPS.get(page) or code(page)


def _index(kind: str, pages: Sequence[str], fixed: _Fixed) -> str:
    """All names by page with type, default and fixed symptoms, common ones first; contents for the sidebar."""
    kind_entries = entries(kind)
    gone = sum(entry.went is not None for entry in kind_entries)
    what = (
        "variables that any known vLLM release reads"
        if kind == "environment"
        else ("options of `vllm serve` and of the API server that any known vLLM release has")
    )
    word = "variables" if kind == "environment" else "options"
    newest = options.known_releases()[-1]
    removed = f"{gone} of them were removed before the newest release, {prose(newest)}"
    intro = f"{len(kind_entries)} {what}; {removed}. {_known_releases()}"
    words = {f"#{entry.target}": _GROUPS.get(entry.page, "") for entry in kind_entries if entry.page in _GROUPS}
    described = _variable if kind == "environment" else _option
    lines = {
        entry.name: f"[{code(entry.name)}](#{entry.target}) "
        f"[{_in_short(entry, described(entry), fixed)}]{{.summary .facts}} {aside(_span(entry))}"
        for entry in kind_entries
    }
    parts = [
        "# Environment variables by release" if kind == "environment" else "# Options by release",
        intro,
        filter_field(f"Filter {len(kind_entries)} {word}", "kv cache, lora, parallel", words),
        first_of_list("Common", [lines[name] for name in _COMMON if name in lines]),
    ]
    for page in pages:
        items = listed(lines[entry.name] for entry in sorted(kind_entries, key=_is_removed) if entry.page == page)
        title = f"[{_title(kind, page)}]({file_name(page)}.md)"
        parts += [f"## {title}", f"::::{{container}} names\n{items}\n::::"]
    more = () if kind == "environment" else ("Releases <releases>",)
    toctree = contents((*more, *(file_name(page) for page in pages)), sentence(word))
    return "\n\n".join([*parts, toctree]) + "\n"


def _in_short(entry: OptionEntry, facts: Sequence[str], fixed: _Fixed) -> str:
    """Values and default of an entry, and how many symptoms it fixes; that it was removed, if it was."""
    if entry.went:
        return f"removed in {prose(entry.went.release)}"
    values = re.sub(r", (also|or none\b).*", "", facts[0])
    default = next((fact for fact in facts if fact.startswith("default ")), "")
    count = len(fixed.get(entry.destination, ()))
    fixes = f"fixes {count_of(count, 'symptom')}" if count else ""
    short = default if len(default) <= _MAX_VALUE else "default computed at startup"
    return " · ".join(filter(None, (values, short, fixes)))


def _span(entry: OptionEntry) -> str:
    """First and last release of an entry."""
    first = f"≤ {entry.came.release}" if entry.came.after is None else entry.came.release
    if entry.went:
        return f"{first} \N{EN DASH} {entry.went.after}"
    return "" if entry.came.after is None else f"from {first}"


def _known_releases() -> str:
    releases = options.known_releases()
    return (
        f"The data knows [{len(releases)} releases](../options/releases.md), "
        f"{prose(releases[0])} to {prose(releases[-1])}: "
        "changes between two of them are listed with the later one."
    )


def _page(kind: str, page: str, members: Sequence[OptionEntry], gone: Mapping[str, Any], fixed: _Fixed) -> str:
    """A page of options or variables, with the history of each."""
    described = _variable if kind == "environment" else _option
    body = [part for entry in members for part in _entry(entry, described, gone, fixed)]
    releases = aside(f"Known releases: {', '.join(prose(release) for release in options.known_releases())}")
    group = f"Options of vLLM's {code(page)}. " if kind == "option" and page in _GROUPS and page != "others" else ""
    return "\n\n".join([f"# {_title(kind, page)}", group + _known_releases(), *body, releases]) + "\n"


def _entry(
    entry: OptionEntry, described: Callable[[OptionEntry], list[str]], gone: Mapping[str, Any], fixed: _Fixed
) -> Iterator[str]:
    yield f"({entry.target})=\n## {code(entry.name)}"
    marks = []
    if entry.went:
        marks.append(f"{badge('removed')} in {prose(entry.went.release)}")
    elif entry.data.get("deprecated"):
        marks.append(badge("deprecated"))
    facts = [*marks, *described(entry)]
    yield " · ".join(facts)
    if entry.went:
        instead = _instead(gone.get(entry.name.removeprefix("--")) or gone.get(entry.name))
        if instead:
            yield instead
    if cured := fixed.get(entry.destination):
        shown = [f"[{prose(title)}](../symptoms/{name}.md)" for name, title in list(cured.items())[:_MOST_FIXED]]
        more = f" · {len(cured) - len(shown)} more" if len(cured) > len(shown) else ""
        yield f"Part of a fix for: {' · '.join(shown)}{more}"
    moving = options.histories("default").get(entry.destination, ())
    history = _history(entry, moving if entry.target.startswith("option-") else ())
    yield f"::::{{container}} history\n{listed(history)}\n::::"


def _instead(record: Any) -> str:
    """Replacement of a removed entry, from its rule."""
    if not isinstance(record, Mapping):
        return ""
    instead = record.get("instead")
    names = [str(name) for name in instead.values()] if isinstance(instead, Mapping) else [instead] if instead else []
    targets = links()
    names_linked = [f"[{code(name)}](#{targets[name]})" if name in targets else code(name) for name in names]
    note = prose(str(record.get("note") or ""))
    lead = f"Instead: {', '.join(names_linked)}." if names_linked else "Nothing replaces it." if not note else ""
    return f"{lead} {note}".strip()


# ---- description of an entry


def _option(entry: OptionEntry) -> list[str]:
    record = entry.data
    facts = [_taken(record)]
    if "choices" in record:
        facts.append(f"one of {_values(record['choices'])}")
    if "hints" in record:
        facts.append(f"its help names {_values(record['hints'])}")
    if record.get("required"):
        facts.append("required")
    facts.append(f"default {_default(entry)}")
    others = [text for text in record.get("strings", ()) if text != entry.name]
    if others:
        facts.append(f"also {', '.join(code(text) for text in others)}")
    if "only" in record:
        facts.append(f"only in {_PROGRAMS.get(record['only'], code(str(record['only'])))}")
    if "by_device" in record:
        facts.append(f"{' and '.join(map(prose, record['by_device']))} depend on the device; shown for a GPU")
    return facts


def _variable(entry: OptionEntry) -> list[str]:
    record = entry.data
    kind = record.get("kind", "str")
    facts = ["on or off" if kind == "bool" else _TYPES.get(kind, prose(kind))]
    if "choices" in record:
        facts = [f"one of {_values(record['choices'])}"]
        if not record.get("case_sensitive", True):
            facts.append("capital letters make no difference")
    if "true" in record:
        facts.append(f"of the texts tried, on with {_values(record['true'])}")
    facts.append(f"default {_value(record.get('default'))}")
    if not record.get("listed", True):
        facts.append("read, but not among the variables that vLLM lists")
    return facts


def _taken(record: Mapping[str, Any]) -> str:
    """Description of an option's values."""
    nargs = record.get("nargs")
    if nargs == 0:
        return "takes no value"
    kind = _type(record.get("type", "str"))
    return f"{_COUNTS.get(nargs, prose(str(nargs)))} {kind}" if nargs is not None else kind


def _type(kind: Any) -> str:
    """Description of the conversion of an option or key."""
    if isinstance(kind, str):
        return _TYPES.get(kind) or code(kind)
    if not isinstance(kind, Mapping):
        return "text"
    for limited in ("int", "float", "str"):
        if isinstance(kind.get(limited), Mapping):
            bounds = [f"{_LIMITS[name]} {prose(str(n))}" for name, n in kind[limited].items() if name in _LIMITS]
            return " ".join([_TYPES[limited], *bounds])
    shapes: dict[str, Callable[[Any], str]] = {
        "optional": lambda inner: f"{_type(inner)}, or none",
        "json_or_str": lambda _: "JSON or text",
        "json_or_pairs": lambda _: "JSON or pairs",
        "dataclass": lambda name: f"JSON object {code(str(name))}",
        "object": lambda name: f"JSON object {code(str(name))}",
        "opaque": lambda _: "custom text format",
    }
    return next((shape(kind[name]) for name, shape in shapes.items() if name in kind), "value with a custom check")


def _value(value: Any) -> str:
    """A value as text or code."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Mapping) and set(value) == {"object"}:
        return f"that of {code(str(value['object']))}"
    if isinstance(value, Mapping) and set(value) == {"repr"}:
        return "computed" if value["repr"] == "computed" else code(_cut(str(value["repr"])))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return code(_cut(text)) or "empty"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def _values(values: Iterable[Any]) -> str:
    return ", ".join(_value(value) if value is not None else "none" for value in values)


def _default(entry: OptionEntry) -> str:
    """The default in the entry's release; a computed default has its own table."""
    default = entry.data.get("default")
    release = entry.release or (entry.went.after if entry.went else options.known_releases()[-1])
    dest = entry.data.get("dest") or entry.name.strip("-").replace("-", "_")
    moving = options.load(release or "latest").records.get(f"default {dest}")
    return _value(default) if default is not None or moving is None else _moving(moving)


def _moving(record: Mapping[str, Any]) -> str:
    """A default that the release computes."""
    rows = [_row(row) for row in record.get("rows", ())]
    if not rows:
        return "computed at startup"
    return f"computed: {'; '.join(rows)}" if len(rows) > 1 else rows[0]


def _row(row: Mapping[str, Any]) -> str:
    value = row.get("value")
    if isinstance(value, Mapping):
        by = [f"{_value(item)} {_CONTEXTS.get(name, code(name))}" for name, item in value.items()]
        text = (
            ", ".join(by) if len({_value(item) for item in value.values()}) > 1 else _value(next(iter(value.values())))
        )
    else:
        text = _value(value)
    conditions = [text for condition in row.get("if", ()) for text in _condition(condition)]
    return f"{text} on a GPU {' and '.join(conditions)}" if conditions else text


def _condition(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        parts = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield {
            "memory_gib": f"with {prose(parts)} GiB or more",
            "name_has": f"called {prose(parts)}",
            "name_lacks": f"not called {prose(parts)}",
            "capability_has": f"of compute capability {prose(parts)}",
            "capability_lacks": f"not of compute capability {prose(parts)}",
        }.get(name, f"where {prose(name)} is {prose(parts)}")


# ---- history


def _history(entry: OptionEntry, moving: Sequence[OptionChange]) -> list[str]:
    """Changes of an entry by release, the oldest first, without those without effect."""
    by_release: dict[str, list[str]] = {}
    for change in entry.changes:
        texts = _changed(entry.name, change)
        if change.after is None:
            by_release[change.release] = ["in this release or earlier"]
        elif texts:
            by_release.setdefault(change.release, []).extend(texts)
    for change in moving:
        if change.kind == "changed" and "rows" in change.fields:
            by_release.setdefault(change.release, []).append(
                f"default {_moving({'rows': change.fields['rows'][1] or ()})}"
            )
    order = {release: number for number, release in enumerate(options.known_releases())}
    lines = sorted(by_release.items(), key=lambda item: order[item[0]])
    return [f"[{prose(release)}]{{.release}} {'; '.join(texts)}" for release, texts in lines]


def _changed(name: str, change: OptionChange) -> list[str]:
    """Description of a release's changes of an entry.

    Empty if only the parser's internals changed.
    """
    if change.kind != "changed":
        return [change.kind]
    texts = []
    for field, (old, new) in change.fields.items():
        described = _FIELDS.get(field)
        text = described(name, old, new) if described else ""
        if text:
            texts.append(text)
    return texts


def _sets(word: str) -> Callable[[str, Any, Any], str]:
    def described(_: str, old: Any, new: Any) -> str:
        if not old or not new:
            return f"{word}: {_values(new)}" if new else f"{word}: any value is taken"
        came, went = [items for items in new if items not in old], [items for items in old if items not in new]
        parts = [f"{lead} {_values(items)}" for lead, items in (("also", came), ("no longer", went)) if items]
        return f"{word}: {', '.join(parts)}" if parts else ""

    return described


def _spelled(name: str, old: Any, new: Any) -> str:
    before, after = old or [name], new or [name]
    came, went = (
        [spelling for spelling in after if spelling not in before],
        [spelling for spelling in before if spelling not in after],
    )
    parts = [
        f"also {', '.join(map(code, came))}" if came else "",
        f"no longer {', '.join(map(code, went))}" if went else "",
    ]
    return ", ".join(filter(None, parts))


def _retyped(_: str, old: Any, new: Any) -> str:
    before, after = _type(old or "str"), _type(new or "str")
    return f"accepts {after} instead of {before}" if before != after else ""


def _counted(_: str, old: Any, new: Any) -> str:
    if new == 0 or old == 0:
        return "no longer accepts a value" if new == 0 else "accepts a value"
    return f"accepts {_COUNTS.get(new, 'one')} {'values' if new in ('+', '*') else 'value'}"


_FIELDS: Mapping[str, Callable[[str, Any, Any], str]] = {
    "default": lambda _, old, new: f"default {_value(new)}, was {_value(old)}" if _value(old) != _value(new) else "",
    "choices": _sets("choices"),
    "hints": lambda name, old, new: _sets("values named in its help")(name, old, new) if old and new else "",
    "strings": _spelled,
    "type": _retyped,
    "nargs": _counted,
    "deprecated": lambda _, __, new: "deprecated" if new else "no longer deprecated",
    "required": lambda _, __, new: "required" if new else "not required",
    "only": lambda _, __, new: f"only in {_PROGRAMS.get(new, code(str(new)))}" if new else "in both programs",
    "kind": lambda _, __, new: f"read as {_TYPES.get(new or 'str', '') or prose(str(new))}",
    "true": lambda _, __, new: f"on with {_values(new)}" if new else "",
    "case_sensitive": lambda _, __, new: "" if new is None else "capital letters make a difference",
    "listed": lambda _, __, new: "vLLM lists it" if new is None or new else "vLLM no longer lists it",
}
"""Descriptions of field changes that a user notices; without argparse's action class or a group's
name."""


# ---- by release


def _releases_page() -> str:
    """The releases in the catalog, the origin of their data, and the changes of each."""
    releases = options.known_releases()
    made = {version: document.get("made", {}) for version, document in options.documents()}
    by_release = {kind: _by_release(kind) for kind in ("option", "environment")}
    rows, sections = [], []
    for at in range(len(releases) - 1, -1, -1):
        release = releases[at]
        data = options.load(release)
        package = str(made[release].get("package", "?")).partition(" ")[0]
        origin = f"{package}, {made[release].get('origin', '?')}"
        label = f"[{prose(release)}](#release-{_slug(release)})" if at else prose(release)
        cells = [
            "\n\n".join(filter(None, (str(number), _counts(by_release[kind].get(release, {})) if at else "")))
            for kind, number in (("option", len(data.of("option"))), ("environment", len(data.environment)))
        ]
        rows.append([label, *cells, prose(origin)])
        if at:
            sections += [
                f"(release-{_slug(release)})=\n## {prose(release)}",
                f"Compared with {prose(releases[at - 1])}.",
            ]
            sections += list(_news(by_release, release))
    intro = (
        f"{len(releases)} releases. *Parser*: the data comes from running the release's own parser; "
        "*static*: from its source. See [how to add a release](../releases.md)."
    )
    return (
        "\n\n".join(
            [
                "# Known releases",
                intro,
                table(["Release", "Options", "Variables", "Made from"], rows, "2 4 4 3"),
                *sections,
            ]
        )
        + "\n"
    )


def _by_release(kind: str) -> dict[str, dict[str, list[OptionEntry]]]:
    by_release: dict[str, dict[str, list[OptionEntry]]] = {}
    for entry in entries(kind):
        for change in entry.changes:
            if change.kind != "changed" or _changed(entry.name, change):
                by_release.setdefault(change.release, {}).setdefault(change.kind, []).append(entry)
    return by_release


def _counts(by_kind: Mapping[str, Sequence[OptionEntry]]) -> str:
    """Number of added, removed and changed entries of a release."""
    counts = [f"{len(by_kind[kind])} {kind}" for kind in _KINDS if kind in by_kind]
    return ", ".join(counts) or "as before"


def _news(by_release: Mapping[str, Mapping[str, Mapping[str, Sequence[OptionEntry]]]], release: str) -> Iterator[str]:
    lines = []
    for kind, word in (("option", "Options"), ("environment", "Variables")):
        for change in _KINDS:
            news = by_release[kind].get(release, {}).get(change, ())
            if news:
                lines.append(f"{word} {change}: {', '.join(f'[{code(e.name)}](#{e.target})' for e in news)}")
    yield listed(lines) if lines else "Nothing that a command shows."
