"""What is wrong with the environment that a file gives to vLLM, as broken rules with the changes that mend them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import EnvironmentVariable, Life, Past, ReleaseData, Standing, past, standing
from vllm_runbooks.core.excerpt import Places, Replacement
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.option_rules import Tables, put
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.documents import Page
from vllm_runbooks.reading.documents.starts import Found, Setting
from vllm_runbooks.reading.shell import Word

_OWN = "VLLM_"
"""What names of vLLM's variables begin with, with a few exceptions."""
_MAX_SETTINGS = 2000
"""Settings that are looked at; a file with more of them is no deployment."""
_MAX_VALUE = 1000
"""Characters of a value or name that is matched; a longer one is not judged."""
_MAX_SHOWN = 120
_MAX_LINE = 500
"""Characters behind an address in which a node's start is looked for."""
_MAX_NAMES = 8
"""Names that a renamed variable is followed through."""
_LEAST_NAME = 8
"""Letters of a name that is compared with those known: shorter ones are near too many."""
_CONTAINED = ("map", "list", "entry", "option", "unit", "dockerfile")
"""Forms of settings that one container or unit alone sees."""
_IN_CONTAINERS = ("docker", "compose", "kubernetes")
"""Kinds of starts that run in a container."""
_TRUE = ("1", "true", "yes", "on", "y", "t", "enable", "enabled")
_FALSE = ("0", "false", "no", "off", "n", "f", "disable", "disabled")
_TRIED = ("", "0", "1", "2", "-1", "1.5", "true", "True", "false", "False", "yes", "abc", "/abc", "a,b")
"""Texts that every variable was tried with when the data was made."""
_ALIKE = (
    (re.compile(r"\+?\d{1,400}", re.ASCII), "2"),
    (re.compile(r"-\d{1,400}", re.ASCII), "-1"),
    (re.compile(r"[+-]?(?:\d{1,400}\.\d{0,400}|\.\d{1,400})", re.ASCII), "1.5"),
)
"""For a number the text that was tried when the data was made and is read in the same way."""
_GPU = re.compile(r"\d{1,4}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)
"""How a GPU is named: by number, counted from 0, or by its UUID."""
_LEAD = re.compile(r"(?:^|[;&|({`]|\b(?:then|do|else))[ \t>]*\Z")
"""What may stand on a line in front of a command of its own."""
_NODE = re.compile(r"\bray[ \t]{1,8}start\b[^\n#]{0,400}?--(head|address)\b")


def of_page(
    page: Page, data_of: Callable[[Found | None], ReleaseData], tables: Tables, gpus: int | None = None
) -> Iterator[Hit]:
    """Yield what is wrong with the settings of a page; `gpus` are those of one host, where that is known."""
    judge = _Page(page, data_of, tables, gpus)
    for setting in page.settings[:_MAX_SETTINGS]:
        if judge.is_certain(setting):
            yield from judge.of_setting(setting)
        elif setting.form == "assignment":
            yield from judge.of_unexported(setting)
    yield from judge.of_interfaces()
    yield from judge.of_addresses()


class _Judged(NamedTuple):
    """What is wrong with a value."""

    rule: str = "environment.wrong-value"
    choices: str = ""
    note: str = ""
    meant: str | None = None
    """What it should have been, where that is clear."""


@dataclass(frozen=True)
class _Page:
    """The settings of a page and what sees them."""

    page: Page
    data_of: Callable[[Found | None], ReleaseData]
    tables: Tables
    gpus: int | None = None

    @cached_property
    def owners(self) -> Mapping[int, Found]:
        """The start (or node) that sees a setting, by where the setting begins."""
        every = (*self.page.starts, *self.page.nodes)
        return {setting.start: found for found in every for setting in found.environment.values()}

    @cached_property
    def exported(self) -> frozenset[str]:
        """Names that any setting hands to programs."""
        return frozenset(setting.name for setting in self.page.settings if setting.is_exported)

    @cached_property
    def read_elsewhere(self) -> Mapping[str, Life]:
        """Variables that releases read without declaring them, with the releases."""
        known = [options.version_key(version) for version in options.known_releases()]
        found = {}
        for name, told in self.tables["environment.unknown"].get("read_elsewhere", {}).items():
            first, last = (options.version_key(told[end]) for end in ("first", "last"))
            inside = [index for index, key in enumerate(known) if key and first and last and first <= key <= last]
            if inside:
                found[name] = Life(inside[0], inside[-1])
        return found

    @cached_property
    def past(self) -> Past:
        """What other releases know."""
        return past()

    @cached_property
    def places(self) -> Places:
        return Places(self.page.text)

    def is_certain(self, setting: Setting) -> bool:
        """Whether vLLM, if anything, is given a setting: not a container with something else, nor the shell alone."""
        if setting.form in _CONTAINED and (self.page.starts or setting.form != "dockerfile"):
            return setting.start in self.owners
        return setting.is_exported

    def data(self, setting: Setting) -> ReleaseData:
        """The release that a setting is judged by."""
        return self.data_of(self.owners.get(setting.start))

    def of_setting(self, setting: Setting) -> Iterator[Hit]:
        """Yield what is wrong with one setting."""
        data = self.data(setting)
        named = self._of_name(setting, data)
        if named is not None:
            yield named
        yield from self._of_value(setting, data)

    # ---- names

    def _of_name(self, setting: Setting, data: ReleaseData) -> Hit | None:
        """What is wrong with the name of a setting."""
        name = setting.name
        says = {"name": name, "vllm": data.asked}
        told = self._wrong_name(setting, data)
        if told:
            edits = tuple(self._renamed(setting, told["instead"]))
            says |= {"instead": told["instead"], "note": told.get("note", "")}
            return self._at_name("environment.wrong-name", setting, says, edits)
        replaced = self.tables["environment.removed"].get("replacements", {}).get(name)
        if name in data.environment or not (name.startswith(_OWN) or replaced) or self._is_others(name):
            return None
        stands = self._standing(name, data)
        if stands.kind == "gone":
            instead, edits = self._replaced(setting, data)
            says |= {"last": stands.last, "gone": stands.gone, "note": (replaced or {}).get("note", ""), **instead}
            return self._at_name("environment.removed", setting, says, edits)
        if stands.kind == "to come":
            return self._at_name("environment.not-there-yet", setting, says | {"first": stands.first})
        if stands.kind == "known" or not name.startswith(_OWN):
            return None
        near = alike(name, [each for each in data.environment if each.startswith(_OWN)], 1)
        if self._is_used(name) and not (near and _is_one_letter_off(name, near[0])):
            return None
        return self._at_name("environment.unknown", setting, says | ({"nearest": near[0]} if near else {}))

    def _wrong_name(self, setting: Setting, data: ReleaseData) -> Mapping[str, Any] | None:
        """The row of a name that is written for another; None for all others."""
        table = self.tables["environment.wrong-name"]
        told = table.get("names", {}).get(setting.name)
        known = table.get("known", ())
        if told is None and setting.name not in known and len(setting.name) >= _LEAST_NAME:
            near = next((each for each in known if _is_one_letter_off(setting.name, each)), None)
            told = {"instead": near, "unless": near} if near and setting.name not in data.environment else None
        if told is None or self._is_set(told.get("unless"), setting):
            return None
        is_read = not told["instead"].startswith(_OWN) or told["instead"] in data.environment
        return told if is_read else None

    def _is_set(self, name: str | None, beside: Setting) -> bool:
        """Whether a variable is set for the same start, or for any where it is not known for which."""
        owner = self.owners.get(beside.start)
        return name in (owner.environment if owner is not None else self.exported)

    def _is_others(self, name: str) -> bool:
        """Whether a name that begins like vLLM's belongs to a plugin or is made by Kubernetes."""
        table = self.tables["environment.unknown"]
        if name.startswith(tuple(table.get("plugins", ()))):
            return True
        return any(re.fullmatch(each, name[:_MAX_VALUE]) for each in table.get("made_by_kubernetes", ()))

    def _is_used(self, name: str) -> bool:
        """Whether the file itself uses a variable: it then need not be meant for vLLM."""
        text = self.page.text
        return f"${name}" in text or f"${{{name}" in text

    def _standing(self, name: str, data: ReleaseData) -> Standing:
        more = [self.read_elsewhere[name]] if name in self.read_elsewhere else []
        return standing(name, data, self.past, more)

    def _replaced(self, setting: Setting, data: ReleaseData) -> tuple[dict[str, str], tuple[Replacement, ...]]:
        """What took a variable's place in a release, in words, and the edits where it is another variable."""
        rows = self.tables["environment.removed"].get("replacements", {})
        name, value = setting.name, setting.value.value
        for _ in range(_MAX_NAMES):
            told = rows.get(name, {})
            instead, how = told.get("instead") or {}, told.get("value")
            if "option" in instead:
                return _as_option(instead["option"], how, data), ()
            name = instead.get("env", "")
            if how != "same":
                value = (how or {}).get("map", {}).get(value) if isinstance(how, Mapping) else None
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
        """Where the name stands; -1 where it does not stand in the file as it is."""
        return self.page.text.find(setting.name, setting.start, setting.end)

    def _at_name(
        self, rule: str, setting: Setting, says: Mapping[str, str], edits: tuple[Replacement, ...] = ()
    ) -> Hit:
        at = self._name_at(setting)
        start, end = (at, at + len(setting.name)) if at >= 0 else (setting.start, setting.end)
        return Hit(rule, start, end, says, edits, setting.form == "table")

    def _renamed(self, setting: Setting, new: str) -> Iterator[Replacement]:
        """The name replaced, where it stands in the file as it is."""
        at = self._name_at(setting)
        if at >= 0:
            yield Replacement(at, at + len(setting.name), new)

    # ---- values

    def _of_value(self, setting: Setting, data: ReleaseData) -> Iterator[Hit]:
        value = setting.value.value
        if value is None or len(value) > _MAX_VALUE:
            return
        says = {"name": setting.name, "value": value[:_MAX_SHOWN], "vllm": data.asked}
        judged = self._judged(setting, value, data)
        if judged is not None:
            edits = tuple(put(setting.value, 0, judged.meant)) if judged.meant else ()
            says |= {"choices": judged.choices, "note": judged.note, "nearest": judged.meant or ""}
            yield Hit(judged.rule, *_place(setting.value), says, edits, setting.form == "table")
        yield from self._of_gpus(setting, value)
        split = self.tables["environment.allocator-split"]
        if setting.name in split.get("variables", ()) and split["key"] in value:
            at = value.index(split["key"])
            end = value.find(",", at)
            part = (at, len(value) if end < 0 else end)
            place = _place(setting.value, *part)
            yield Hit("environment.allocator-split", *place, says, (), setting.form == "table")

    def _of_gpus(self, setting: Setting, value: str) -> Iterator[Hit]:
        """GPUs that are named and not there, and such as are named twice."""
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
            if name in seen:
                yield Hit("environment.gpu-twice", *place, says, (), setting.form == "table")
                return
            if count is not None and name.isdigit() and int(name) >= count:
                yield Hit("environment.no-such-gpu", *place, says, (), setting.form == "table")
                return
            seen.append(name)

    def _gpus_for(self, setting: Setting) -> int | None:
        """How many GPUs there are where a setting is read: a container counts its own anew."""
        owner = self.owners.get(setting.start)
        if owner is None or owner.kind not in _IN_CONTAINERS:
            return self.gpus
        given = owner.given
        return given.count if given is not None and given.count is not None else self.gpus

    def _judged(self, setting: Setting, value: str, data: ReleaseData) -> _Judged | None:
        """What is wrong with a value; None for one that is right, or of which nothing is known."""
        for row in self.tables["environment.refused-value"].get("variables", {}).get(setting.name, ()):
            if options.is_within(data.version, row) and not any(
                self._is_set(name, setting) for name in row.get("unless", ())
            ):
                judged = _by_row(value, row) if value else None
                return judged and judged._replace(rule="environment.refused-value")
        table = self.tables["environment.wrong-value"]
        for row in table.get("releases", ()):
            if row["name"] == setting.name and row["value"] == value and options.is_within(data.version, row):
                return _Judged(note=row["then"], meant=row.get("instead"))
        told = table.get("variables", {}).get(setting.name)
        if told is not None:
            return _by_row(value, told) if value else None
        known = data.environment.get(setting.name)
        if known is None or (not value and setting.form != "assignment"):
            return None
        return _by_release(value, known)

    # ---- what vLLM does not see

    def of_unexported(self, setting: Setting) -> Iterator[Hit]:
        """A variable of the shell alone that vLLM was to see."""
        name, at = setting.name, self._name_at(setting)
        if name in self.exported or at != setting.start or self._is_used(name) or not self._is_wanted(setting):
            return
        text = self.page.text
        lead = _LEAD.search(text[max(0, text.rfind("\n", 0, at) + 1, at - _MAX_VALUE) : at])
        edits = (Replacement(at, at, "export "),) if lead else ()
        yield self._at_name("environment.not-exported", setting, {"name": name}, edits)

    def _is_wanted(self, setting: Setting) -> bool:
        """Whether a start behind it, in the same script, would read a variable, and is not given it."""
        name, text = setting.name, self.page.text
        known = self.tables["environment.wrong-name"].get("known", ())
        inherited = self.tables["environment.not-exported"].get("inherited", ())
        for start in self.page.starts:
            is_behind = start.invocation is not None and start.start > setting.start and not start.container
            if is_behind and text.find("\n```", setting.end, start.start) < 0:
                is_read = name in known or (name.startswith(_OWN) and name in self.data_of(start).environment)
                return is_read and name not in inherited and name not in start.environment
        return False

    # ---- settings that belong together

    def of_interfaces(self) -> Iterator[Hit]:
        """NCCL and Gloo of one start bound to different interfaces."""
        table = self.tables["environment.different-interfaces"]
        told: set[tuple[int, int]] = set()
        for found in (*self.page.nodes, *self.page.starts):
            named = [found.environment[name] for name in table.get("variables", ()) if name in found.environment]
            for one, other in pairwise(sorted(named, key=lambda setting: setting.start)):
                both = (one.start, other.start)
                if both in told or _meet(one, other, table.get("prefix")):
                    continue
                told.add(both)
                says = {
                    "name": other.name,
                    "value": (other.value.value or "")[:_MAX_SHOWN],
                    "other": (one.value.value or "")[:_MAX_SHOWN],
                    "other_line": str(self.places(one.start).line),
                }
                yield Hit("environment.different-interfaces", *_place(other.value), says)

    def of_addresses(self) -> Iterator[Hit]:
        """A head and a worker that are given the same address of their own."""
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
        """Nodes that are given an address: where it stands, the address, and whether it is the head or a worker."""
        for node in self.page.nodes:
            own = node.environment.get(name)
            words = {word.value for word in node.prefix}
            role = "head" if "--head" in words else "worker" if "--worker" in words else ""
            if own is not None and own.value.value and role:
                yield *_place(own.value), own.value.value, role
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
    """An option that took a variable's place, in words; nothing where the release has none."""
    if option not in data.by_string:
        return {}
    if isinstance(how, Mapping) and "key" in how:
        keys = data.keys(option)
        is_there = keys is None or how["key"].partition(".")[0] in keys
        return {"instead": f"{option}.{how['key']}"} if is_there else {}
    return {"instead": option}


def _by_row(value: str, told: Mapping[str, Any]) -> _Judged | None:
    """A value judged by a row of the table."""
    given = value.upper() if told.get("ignore_case") else value

    def same(known: str) -> str:
        return known.upper() if told.get("ignore_case") else known

    choices = told.get("choices", [])
    if given in {same(each) for each in (*choices, *told.get("accepted", ()))}:
        return None
    if "shape" in told and re.fullmatch(told["shape"], value, re.ASCII):
        return None
    if "keys" in told and all(_is_pair(part, told["keys"]) for part in _parts(value)):
        return None
    meant = {same(each): new for each, new in told.get("map", {}).items()}.get(given) or _meant(value, choices)
    return _Judged(choices=", ".join(choices), note=told.get("then", ""), meant=meant)


def _meant(value: str, choices: Sequence[str]) -> str | None:
    """The only one of some values that differs in capitals or by one letter from the one that is given."""
    found = [each for each in choices if each.upper() == value.upper()]
    found = found or [each for each in choices if len(each) > 3 and _is_one_letter_off(value.upper(), each.upper())]
    return found[0] if len(found) == 1 else None


def _parts(value: str) -> Iterator[str]:
    """The pieces between commas; those inside brackets belong to the value."""
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


def _by_release(value: str, known: EnvironmentVariable) -> _Judged | None:
    """A value judged by how a release reads its own variable."""
    if known.choices is not None:
        choices = [str(choice) for choice in known.choices if choice is not None]
        allowed = choices if known.is_case_sensitive else [choice.lower() for choice in choices]
        given = value if known.is_case_sensitive else value.lower()
        is_list = known.kind == "list" or isinstance(known.default, list)
        parts = [part.strip() for part in given.split(",")] if is_list else [given]
        if not value or all(part in allowed for part in parts):
            return None
        return _Judged("environment.refused-value", ", ".join(choices), meant=_meant(value, choices))
    read_as = _alike(value)
    word = value.lower()
    said = True if word in _TRUE else False if word in _FALSE else None
    meant = None
    if known.kind == "bool" and said is not None:
        meant = _spelt(known, said=said)
    if read_as is not None and read_as in known.refused:
        return _Judged("environment.refused-value", _shown(known), meant=meant)
    if known.kind != "bool" or said is None or read_as is None or not known.true:
        return None
    if (read_as in known.true) is said or meant is None:
        return None
    # Another spelling of the same word may be read in the same way; only what was tried is known.
    if value not in known.true and any(each.lower() == word for each in known.true):
        return None
    return _Judged(choices=_shown(known), meant=meant)


def _spelt(known: EnvironmentVariable, *, said: bool) -> str | None:
    """How a release wants to be told yes or no."""
    if said:
        return next((each for each in ("1", "True", "true") if each in known.true), None)
    return None if "0" in (*known.true, *known.refused) else "0"


def _shown(known: EnvironmentVariable) -> str:
    """The values that a variable knows, in words."""
    if known.kind == "bool":
        return ", ".join(each for each in (_spelt(known, said=True), _spelt(known, said=False)) if each)
    return {"int": "whole numbers", "float": "numbers"}.get(known.kind, "")


def _alike(value: str) -> str | None:
    """The text among those that were tried which a release reads as it reads a value; None where none is known."""
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


def _is_one_letter_off(one: str, other: str) -> bool:
    """Whether one letter is wrong, missing, too many or swapped with the next, behind the first part of a name."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if "_" in other and same <= other.index("_") and len(one) == len(other):
        return False
    rest, others = one[same:], other[same:]
    is_swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return rest[1:] == others[1:] or rest[1:] == others or rest == others[1:] or is_swapped


def _meet(one: Setting, other: Setting, prefix: str | None) -> bool:
    """Whether two settings of interfaces can mean the same one; what is not known can."""
    if one.value.value is None or other.value.value is None:
        return True
    if other.name == prefix:
        one, other = other, one
    text = (one.value.value or "")[:_MAX_VALUE]
    names = (other.value.value or "")[:_MAX_VALUE].split(",")
    if one.name != prefix:
        return not set(text.split(",")).isdisjoint(names)
    is_without = text.startswith("^")
    is_whole = text.lstrip("^").startswith("=")
    wanted = [each.partition(":")[0] for each in text.lstrip("^=").split(",") if each]
    met = any(name == each if is_whole else name.startswith(each) for name in names for each in wanted)
    return not wanted or met is not is_without


def _place(word: Word, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Where a part of a word's value stands; the whole word where its letters have no places."""
    value, at = word.value or "", word.at
    last = len(value) if end is None else end
    if at is None or len(at) != len(value) or not start < last:
        return word.start, word.end
    return at[start], at[last - 1] + 1
