"""Rules for the environment variables that a file sets for vLLM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import EnvironmentVariable, NameLifetime, ReleaseData, past, standing
from vllm_runbooks.core.excerpt import LineIndex, Replacement
from vllm_runbooks.lint.hits import Edits, Hit
from vllm_runbooks.lint.option_rules import Tables, put
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.documents import LaunchFile, placeholders
from vllm_runbooks.reading.documents.starts import Setting, WrittenLaunch
from vllm_runbooks.reading.shell import Word

_PREFIX = "VLLM_"
_MAX_SETTINGS = 2000
"""More settings are no deployment."""
_MAX_VALUE = 1000
_MAX_SHOWN = 120
_MAX_LINE = 500
"""Characters after an address in which `ray start` may follow."""
_MAX_NAMES = 8
"""Longest chain of renamed variables."""
_LEAST_NAME = 8
"""Shortest name that is compared: shorter ones resemble too many."""
_CONTAINED = ("map", "list", "entry", "option", "unit", "dockerfile")
"""Forms of settings that only one container or unit sees."""
_IN_CONTAINERS = ("docker", "compose", "kubernetes")
_TRUE = ("1", "true", "yes", "on", "y", "t", "enable", "enabled")
_FALSE = ("0", "false", "no", "off", "n", "f", "disable", "disabled")
_TRIED = ("", "0", "1", "2", "-1", "1.5", "true", "True", "false", "False", "yes", "abc", "/abc", "a,b")
"""Texts that each variable was tried with for the catalog."""
_ALIKE = (
    (re.compile(r"\+?\d{1,400}", re.ASCII), "2"),
    (re.compile(r"-\d{1,400}", re.ASCII), "-1"),
    (re.compile(r"[+-]?(?:\d{1,400}\.\d{0,400}|\.\d{1,400})", re.ASCII), "1.5"),
)
"""Equivalent tested text of a number."""
_GPU = re.compile(r"\d{1,4}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)
_USE = re.compile(r"(?:\$[{(]?|env\.|environ\[['\"])(\w+)", re.ASCII)
_LEAD = re.compile(r"(?:^|[;&|({`]|\b(?:then|do|else))[ \t>]*\Z")
"""Text that may precede a command on its line."""
_NODE = re.compile(r"\bray[ \t]{1,8}start\b[^\n#]{0,400}?--(head|address)\b")


def of_page(
    page: LaunchFile, data_of: Callable[[WrittenLaunch | None], ReleaseData], tables: Tables, gpus: int | None = None
) -> Iterator[Hit]:
    """Check the environment variables of a page; `gpus` is the number on one host, if known."""
    rules = _SettingRules(page, data_of, tables, gpus)
    for setting in page.settings[:_MAX_SETTINGS]:
        if rules.is_certain(setting):
            yield from rules.of_setting(setting)
        elif setting.form == "assignment":
            yield from rules.of_unexported(setting)
    yield from rules.of_interfaces()
    yield from rules.of_addresses()


class _ValueFault(NamedTuple):
    rule: str = "environment.wrong-value"
    choices: str = ""
    note: str = ""
    intended: str | None = None
    """Value that was intended, if clear."""


@dataclass(frozen=True)
class _SettingRules:
    page: LaunchFile
    data_of: Callable[[WrittenLaunch | None], ReleaseData]
    tables: Tables
    gpus: int | None = None

    @cached_property
    def owners(self) -> Mapping[int, WrittenLaunch]:
        """Launch or Ray node by the offset of each setting that it sees."""
        every = (*self.page.starts, *self.page.nodes)
        return {setting.start: launch for launch in every for setting in launch.environment.values()}

    @cached_property
    def is_for_containers(self) -> bool:
        """Whether all launches run in containers, which see only the variables that they are given."""
        return bool(self.page.starts) and all(launch.kind in _IN_CONTAINERS for launch in self.page.starts)

    @cached_property
    def exported(self) -> frozenset[str]:
        return frozenset(setting.name for setting in self.page.settings if setting.is_exported)

    @cached_property
    def read_elsewhere(self) -> Mapping[str, NameLifetime]:
        """Variables that releases read without declaring them."""
        versions = [options.version_key(version) for version in options.known_releases()]
        lives = {}
        for name, row in self.tables["environment.unknown"].get("read_elsewhere", {}).items():
            first, last = (options.version_key(row[end]) for end in ("first", "last"))
            inside = [index for index, key in enumerate(versions) if key and first and last and first <= key <= last]
            if inside:
                lives[name] = NameLifetime(inside[0], inside[-1])
        return lives

    @cached_property
    def places(self) -> LineIndex:
        return LineIndex(self.page.text)

    def is_certain(self, setting: Setting) -> bool:
        """Whether vLLM gets the setting: not another container, nor the shell alone."""
        if self.is_for_containers and setting.start not in self.owners:
            return False
        if setting.form in _CONTAINED and (self.page.starts or setting.form != "dockerfile"):
            return setting.start in self.owners
        return setting.is_exported

    def of_setting(self, setting: Setting) -> Iterator[Hit]:
        data = self.data_of(self.owners.get(setting.start))
        named = self._of_name(setting, data)
        if named is not None:
            yield named
        yield from self._of_value(setting, data)

    def _of_name(self, setting: Setting, data: ReleaseData) -> Hit | None:
        name = setting.name
        says = {"name": name, "vllm": data.checked}
        row = self._wrong_name(setting, data)
        if row:
            edits = tuple(self._renamed(setting, row["instead"]))
            says |= {"instead": row["instead"], "note": row.get("note", "")}
            return self._at_name("environment.wrong-name", setting, says, edits)
        replaced = self.tables["environment.removed"].get("replacements", {}).get(name)
        if name in data.environment or not (name.startswith(_PREFIX) or replaced) or self._is_others(name):
            return None
        more = [self.read_elsewhere[name]] if name in self.read_elsewhere else []
        stands = standing(name, data, past(), more)
        if stands.kind == "gone":
            instead, edits = self._replaced(setting, data)
            says |= {"last": stands.last, "gone": stands.gone, "note": (replaced or {}).get("note", ""), **instead}
            return self._at_name("environment.removed", setting, says, edits)
        if stands.kind == "to come":
            return self._at_name("environment.not-there-yet", setting, says | {"first": stands.first})
        if stands.kind == "known" or not name.startswith(_PREFIX):
            return None
        near = alike(name, [variable for variable in data.environment if variable.startswith(_PREFIX)], 1)
        # A variable that no launch of the file gets may be another program's.
        is_elsewhere = setting.start not in self.owners and (self.page.kind == "page" or bool(self.page.starts))
        is_others = name in self._used or is_elsewhere
        if is_others and not (near and _is_one_letter_off(name, near[0])):
            return None
        return self._at_name("environment.unknown", setting, says | ({"nearest": near[0]} if near else {}))

    def _wrong_name(self, setting: Setting, data: ReleaseData) -> Mapping[str, Any] | None:
        table = self.tables["environment.wrong-name"]
        row = table.get("names", {}).get(setting.name)
        names = table.get("known", ())
        if row is None and setting.name not in names and len(setting.name) >= _LEAST_NAME:
            near = next((candidate for candidate in names if _is_one_letter_off(setting.name, candidate)), None)
            row = {"instead": near, "unless": near} if near and setting.name not in data.environment else None
        if row is None or self._is_set(row.get("unless"), setting):
            return None
        is_read = not row["instead"].startswith(_PREFIX) or row["instead"] in data.environment
        return row if is_read else None

    def _is_set(self, name: str | None, beside: Setting) -> bool:
        owner = self.owners.get(beside.start)
        return name in (owner.environment if owner is not None else self.exported)

    def _is_others(self, name: str) -> bool:
        """Whether a plugin or Kubernetes defines the variable."""
        table = self.tables["environment.unknown"]
        if name.startswith(tuple(table.get("plugins", ()))):
            return True
        return any(re.fullmatch(pattern, name[:_MAX_VALUE]) for pattern in table.get("made_by_kubernetes", ()))

    @cached_property
    def _used(self) -> frozenset[str]:
        """Variables that the file itself uses, so that they may not be meant for vLLM."""
        return frozenset(_USE.findall(self.page.text))

    def _replaced(self, setting: Setting, data: ReleaseData) -> tuple[dict[str, str], Edits]:
        """Return the replacement of a removed variable, and the edits if it is another variable."""
        rows = self.tables["environment.removed"].get("replacements", {})
        name, value = setting.name, setting.value.value
        for _ in range(_MAX_NAMES):
            row = rows.get(name, {})
            instead, conversion = row.get("instead") or {}, row.get("value")
            if "option" in instead:
                return _as_option(instead["option"], conversion, data), ()
            name = instead.get("env", "")
            if conversion != "same":
                value = (conversion or {}).get("map", {}).get(value) if isinstance(conversion, Mapping) else None
            if name in data.environment:
                break
        else:
            name = ""
        if name not in data.environment:
            return {}, ()
        edits = tuple(self._renamed(setting, name))
        if value is None or not edits:
            return {"instead": name}, ()
        if value != setting.value.value:
            changed = tuple(put(setting.value, 0, value))
            edits = (*edits, *changed) if changed else ()
        return {"instead": name}, edits

    def _name_at(self, setting: Setting) -> int:
        """Offset of the name; -1 if it is not in the file verbatim."""
        return self.page.text.find(setting.name, setting.start, setting.end)

    def _at_name(self, rule: str, setting: Setting, says: Mapping[str, str], edits: Edits = ()) -> Hit:
        at = self._name_at(setting)
        start, end = (at, at + len(setting.name)) if at >= 0 else (setting.start, setting.end)
        return Hit(rule, start, end, says, edits, setting.form == "table")

    def _renamed(self, setting: Setting, new: str) -> Iterator[Replacement]:
        at = self._name_at(setting)
        if at >= 0:
            yield Replacement(at, at + len(setting.name), new)

    def _of_value(self, setting: Setting, data: ReleaseData) -> Iterator[Hit]:
        value = setting.value.value
        if value is None or len(value) > _MAX_VALUE or placeholders.is_placeholder(value):
            return
        if setting.form == "assignment" and setting.start not in self.owners and "_" not in setting.name:
            return  # `DEBUG=0`: a name that any program has, which no launch of the file gets
        says = {"name": setting.name, "value": value[:_MAX_SHOWN], "vllm": data.checked}
        fault = self._value_fault(setting, value, data)
        if fault is not None:
            edits = tuple(put(setting.value, 0, fault.intended)) if fault.intended else ()
            says |= {"choices": fault.choices, "note": fault.note, "nearest": fault.intended or ""}
            yield Hit(fault.rule, *_place(setting.value), says, edits, setting.form == "table")
        yield from self._of_gpus(setting, value)
        split = self.tables["environment.allocator-split"]
        if setting.name in split.get("variables", ()) and split["key"] in value:
            at = value.index(split["key"])
            place = _place(setting.value, at, at + len(value[at:].partition(",")[0]))
            yield Hit("environment.allocator-split", *place, says, (), setting.form == "table")

    def _of_gpus(self, setting: Setting, value: str) -> Iterator[Hit]:
        if setting.name not in self.tables["environment.no-such-gpu"].get("variables", ()):
            return
        count, at, seen = self._gpus_for(setting), 0, list[str]()
        for part in value.split(","):
            begin, name = at + len(part) - len(part.lstrip()), part.strip()
            at += len(part) + 1
            if _GPU.fullmatch(name) is None:
                return
            says = {"name": setting.name, "gpu": name, "count": str(count), "seen": ",".join(seen)}
            place = _place(setting.value, begin, begin + len(name))
            if name in seen or (count is not None and name.isdigit() and int(name) >= count):
                rule = "environment.gpu-twice" if name in seen else "environment.no-such-gpu"
                yield Hit(rule, *place, says, (), setting.form == "table")
                return
            seen.append(name)

    def _gpus_for(self, setting: Setting) -> int | None:
        """Number of GPUs where a setting is read; a container numbers its own."""
        owner = self.owners.get(setting.start)
        if owner is None or owner.kind not in _IN_CONTAINERS:
            return self.gpus
        gpus = owner.given
        return gpus.count if gpus is not None and gpus.count is not None else self.gpus

    def _value_fault(self, setting: Setting, value: str, data: ReleaseData) -> _ValueFault | None:
        for row in self.tables["environment.refused-value"].get("variables", {}).get(setting.name, ()):
            is_excused = any(self._is_set(name, setting) for name in row.get("unless", ()))
            if value and options.is_within(data.version, row) and not is_excused:
                fault = _by_row(value, row)
                return fault and fault._replace(rule="environment.refused-value")
        table = self.tables["environment.wrong-value"]
        for row in table.get("releases", ()):
            if row["name"] == setting.name and row["value"] == value and options.is_within(data.version, row):
                return _ValueFault(note=row["then"], intended=row.get("instead"))
        limits = table.get("variables", {}).get(setting.name)
        if limits is not None:
            return _by_row(value, limits) if value else None
        variable = data.environment.get(setting.name)
        if variable is None or (not value and setting.form != "assignment"):
            return None
        return _by_release(value, variable)

    def of_unexported(self, setting: Setting) -> Iterator[Hit]:
        name, at = setting.name, self._name_at(setting)
        if name in self.exported or at != setting.start or name in self._used or not self._is_read_later(setting):
            return
        text = self.page.text
        lead = _LEAD.search(text[max(0, text.rfind("\n", 0, at) + 1, at - _MAX_VALUE) : at])
        edits = (Replacement(at, at, "export "),) if lead else ()
        yield self._at_name("environment.not-exported", setting, {"name": name}, edits)

    def _is_read_later(self, setting: Setting) -> bool:
        name, text = setting.name, self.page.text
        names = self.tables["environment.wrong-name"].get("known", ())
        inherited = self.tables["environment.not-exported"].get("inherited", ())
        if name not in names and not name.startswith(_PREFIX):
            return False
        for launch in self.page.starts:
            is_contained = launch.container is not None and launch.container.size > 0
            is_behind = launch.invocation is not None and launch.start > setting.start and not is_contained
            if is_behind and text.find("\n```", setting.end, launch.start) < 0:
                is_read = name in names or (name.startswith(_PREFIX) and name in self.data_of(launch).environment)
                return is_read and name not in inherited and name not in launch.environment
        return False

    def of_interfaces(self) -> Iterator[Hit]:
        table = self.tables["environment.different-interfaces"]
        reported: set[tuple[int, int]] = set()
        for launch in (*self.page.nodes, *self.page.starts):
            named = [launch.environment[name] for name in table.get("variables", ()) if name in launch.environment]
            for first, second in pairwise(sorted(named, key=lambda setting: setting.start)):
                both = (first.start, second.start)
                if both in reported or _meet(first, second, table.get("prefix")):
                    continue
                reported.add(both)
                says = {
                    "name": second.name,
                    "value": (second.value.value or "")[:_MAX_SHOWN],
                    "other": (first.value.value or "")[:_MAX_SHOWN],
                    "other_line": str(self.places(first.start).line),
                }
                yield Hit("environment.different-interfaces", *_place(second.value), says)

    def of_addresses(self) -> Iterator[Hit]:
        name = self.tables["environment.one-address-for-two-nodes"].get("variable", "")
        heads: dict[str, int] = {}
        nodes = sorted(self._nodes(name))
        for start, _, value, role in nodes:
            if role == "head":
                heads.setdefault(value, start)
        for start, end, value, role in nodes:
            if role == "worker" and value in heads:
                says = {"name": name, "value": value, "other": value, "other_line": str(self.places(heads[value]).line)}
                yield Hit("environment.one-address-for-two-nodes", start, end, says)

    def _nodes(self, name: str) -> Iterator[tuple[int, int, str, str]]:
        """Yield start, end, address and role of each Ray node with an address."""
        for node in self.page.nodes:
            setting = node.environment.get(name)
            words = {word.value for word in node.prefix}
            role = "head" if "--head" in words else "worker" if "--worker" in words else ""
            if setting is not None and setting.value.value and role:
                yield *_place(setting.value), setting.value.value, role
        text, at = self.page.text, -1
        for _ in range(_MAX_SETTINGS if name else 0):
            at = text.find(f"{name}=", at + 1)
            if at < 0:
                return
            begin = at + len(name) + 1
            stop = text.find("\n", begin, begin + _MAX_LINE)
            line = text[begin : begin + _MAX_LINE if stop < 0 else stop]
            value = re.match(r"[0-9A-Za-z.:-]{1,80}(?=[ \t])", line)
            ray = _NODE.search(line)
            if value and ray:
                yield begin, begin + value.end(), value[0], "head" if ray[1] == "head" else "worker"


def _as_option(option: str, how: Any, data: ReleaseData) -> dict[str, str]:
    if option not in data.by_string:
        return {}
    if isinstance(how, Mapping) and "key" in how:
        keys = data.keys(option)
        is_there = keys is None or how["key"].partition(".")[0] in keys
        return {"instead": f"{option}.{how['key']}"} if is_there else {}
    return {"instead": option}


def _by_row(value: str, row: Mapping[str, Any]) -> _ValueFault | None:
    folded = value.upper() if row.get("ignore_case") else value

    def same(text: str) -> str:
        return text.upper() if row.get("ignore_case") else text

    choices = row.get("choices", [])
    if folded in {same(choice) for choice in (*choices, *row.get("accepted", ()))}:
        return None
    if "shape" in row and re.fullmatch(row["shape"], value, re.ASCII):
        return None
    if "keys" in row and all(_is_pair(part, row["keys"]) for part in _parts(value)):
        return None
    intended = {same(choice): new for choice, new in row.get("map", {}).items()}.get(folded)
    intended = intended or _intended(value, choices)
    return _ValueFault(choices=", ".join(choices), note=row.get("then", ""), intended=intended)


def _intended(value: str, choices: Sequence[str]) -> str | None:
    """Return the only choice that differs in case or by one letter."""
    matches = [text for text in choices if text.upper() == value.upper()]
    matches = matches or [text for text in choices if len(text) > 3 and _is_one_letter_off(value.upper(), text.upper())]
    return matches[0] if len(matches) == 1 else None


def _parts(value: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    begin = depth = 0
    for index, character in enumerate(value):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            yield value[begin:index]
            begin = index + 1
    yield value[begin:]


def _is_pair(part: str, keys: Mapping[str, str]) -> bool:
    key, colon, value = part.strip().partition(":")
    return bool(colon) and key in keys and re.fullmatch(keys[key], value, re.ASCII) is not None


def _by_release(value: str, variable: EnvironmentVariable) -> _ValueFault | None:
    if variable.choices is not None:
        choices = [str(choice) for choice in variable.choices if choice is not None]
        allowed = choices if variable.is_case_sensitive else [choice.lower() for choice in choices]
        folded = value if variable.is_case_sensitive else value.lower()
        is_list = variable.kind == "list" or isinstance(variable.default, list)
        parts = [part.strip() for part in folded.split(",")] if is_list else [folded]
        if not value or all(part in allowed for part in parts):
            return None
        return _ValueFault("environment.refused-value", ", ".join(choices), intended=_intended(value, choices))
    read_as = _alike(value)
    word = value.lower()
    is_on = True if word in _TRUE else False if word in _FALSE else None
    intended = None
    if variable.kind == "bool" and is_on is not None:
        intended = _spelt(variable, is_on=is_on)
    if read_as is not None and read_as in variable.refused:
        return _ValueFault("environment.refused-value", _known_values(variable), intended=intended)
    if variable.kind != "bool" or is_on is None or read_as is None or not variable.true:
        return None
    if (read_as in variable.true) is is_on or intended is None:
        return None
    # Another spelling of the same word may have the same meaning; only tested spellings are known.
    if value not in variable.true and any(spelling.lower() == word for spelling in variable.true):
        return None
    return _ValueFault(choices=_known_values(variable), intended=intended)


def _spelt(variable: EnvironmentVariable, *, is_on: bool) -> str | None:
    """Spelling of yes or no that the release reads."""
    if is_on:
        return next((spelling for spelling in ("1", "True", "true") if spelling in variable.true), None)
    return None if "0" in (*variable.true, *variable.refused) else "0"


def _known_values(variable: EnvironmentVariable) -> str:
    if variable.kind == "bool":
        return ", ".join(text for text in (_spelt(variable, is_on=True), _spelt(variable, is_on=False)) if text)
    return {"int": "whole numbers", "float": "numbers"}.get(variable.kind, "")


def _alike(value: str) -> str | None:
    """Return the tried text that the release reads like this value; None if unknown."""
    if value in _TRIED:
        return value
    for pattern, tried in _ALIKE:
        if pattern.fullmatch(value):
            return tried
    try:
        float(value)
    except ValueError:
        return "/abc" if value.startswith("/") else "a,b" if "," in value else "abc" if value.strip() else None
    return None


def _is_one_letter_off(name: str, other: str) -> bool:
    """Whether one letter is wrong, missing, extra or swapped, after the name's prefix."""
    if name == other or abs(len(name) - len(other)) > 1:
        return False
    same = next((i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), min(len(name), len(other)))
    if "_" in other and same <= other.index("_") and len(name) == len(other):
        return False
    rest, others = name[same:], other[same:]
    is_swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return rest[1:] == others[1:] or rest[1:] == others or rest == others[1:] or is_swapped


def _meet(first: Setting, other: Setting, prefix: str | None) -> bool:
    """Whether two interface settings can select the same interface."""
    if first.value.value is None or other.value.value is None:
        return True
    if other.name == prefix:
        first, other = other, first
    text = (first.value.value or "")[:_MAX_VALUE]
    names = (other.value.value or "")[:_MAX_VALUE].split(",")
    if first.name != prefix:
        return not set(text.split(",")).isdisjoint(names)
    is_without = text.startswith("^")
    is_whole = text.lstrip("^").startswith("=")
    entries = [entry.partition(":")[0] for entry in text.lstrip("^=").split(",") if entry]
    met = any(name == entry if is_whole else name.startswith(entry) for name in names for entry in entries)
    return not entries or met is not is_without


def _place(word: Word, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Start and end of a part of a word's value, or of the whole word."""
    value, at = word.value or "", word.at
    last = len(value) if end is None else end
    if at is None or len(at) != len(value) or not start < last:
        return word.start, word.end
    return at[start], at[last - 1] + 1
