"""Rules for options: the parser's problems as hits, with fixes only if the parser then rejects less."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.languages import listed
from vllm_runbooks.catalog.options import NameStatus, Option, ReleaseData, past, standing, version_key
from vllm_runbooks.core.excerpt import Replacement
from vllm_runbooks.core.records import Edit
from vllm_runbooks.lint.hits import Edits, Hit
from vllm_runbooks.reading import arguments, deployment, documents
from vllm_runbooks.reading.arguments import NO, YES, CallProblem, Parsed, Problem, bounds, json_keys
from vllm_runbooks.reading.arguments.as_typed import option_of
from vllm_runbooks.reading.arguments.conditions import UNKNOWN
from vllm_runbooks.reading.arguments.spelling import misspelt
from vllm_runbooks.reading.deployment import editing
from vllm_runbooks.reading.documents import LaunchFile, placeholders
from vllm_runbooks.reading.documents.starts import LooseOption, WrittenLaunch
from vllm_runbooks.reading.shell import Word

_STRAY = ("extra-positional", "model-ignored")
_RULES = {
    "model-option": "option.model-as-option", "not-read": "option.file-not-read",
    "out-of-bounds": "option.refused-value",
}  # fmt: skip
"""Rule by problem, unless it is the problem's name after "option."."""
_MISSING = ("required", "missing-value", "extra-positional", "conflict", "model-option")
"""Problems that an option without its command can't have."""
_MAX_CHANGES = 20
_MOST_WORDS = 20_000
_MOST_TEXT = 1_000_000
_LONGEST_TEXT = 200_000
_SHORTENED = ("option.abbreviation", "option.ambiguous")
"""A name in a text is rarely shortened: it is another program's."""
_KEY = re.compile(r"[a-z_]{1,60}")
"""A key that a text names instead of a value in JSON."""
_MAX_GAP = 400
"""Most characters between two options of a list."""
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/@%+-]{1,400}", re.ASCII)
_MANY = 1_000_000
_TAKES = {"*": _MANY, "+": _MANY}
"""Most values of an option by `nargs`; one for all others."""
_POLARITY = frozenset({"no", "enable", "disable"})
_CLEAR = 0.8
"""Least similarity (see difflib) of a certain replacement."""
_CLEARER = 0.04
"""Least difference in similarity between the nearest and the next name."""

Tables = Mapping[str, Mapping[str, Any]]


def of_start(
    page: LaunchFile, launch: WrittenLaunch, parsed: Parsed, data: ReleaseData, tables: Tables
) -> Iterator[Hit]:
    yield from _OptionRules(launch, parsed, data, tables, page).hits()


def _facts(problem: Problem | CallProblem) -> dict[str, str]:
    """Values of a problem's message; keys and choices as lists in words."""
    choices = problem.says.get("choices", "").split()
    says = {**problem.says, **({"keys": problem.says["keys"].replace(" ", ", ")} if "keys" in problem.says else {})}
    if not choices:
        return says
    *others, last = choices
    parts = [", ".join(others), last] if others else [last]
    nearest = misspelt(problem.says.get("value", ""), choices) if problem.kind == "wrong-key-type" else None
    more = {"nearest": nearest} if nearest else {}
    return {**says, "choices": listed(parts, "{first} or {second}"), **more}


def of_call(
    launch: WrittenLaunch, problems: Collection[CallProblem], data: ReleaseData, tables: Tables
) -> Iterator[Hit]:
    places = {keyword.name: keyword for keyword in launch.keywords}
    is_adapted = _is_adapted(launch)
    for problem in problems:
        if is_adapted and problem.kind == "unknown":
            continue
        keyword = places[problem.keyword]
        says = {**_facts(problem), "option": problem.keyword, "vllm": data.checked}
        rule = _RULES.get(problem.kind, f"option.{problem.kind}")
        if problem.kind == "unknown":
            others = _OtherNames(data, tables, frozenset(data.parameters.get(launch.entry, ())))
            name_facts = others.facts_of_parameter(launch.entry, problem.keyword)
            near = problem.says.get("near", "").split()
            rule = name_facts.rule if name_facts else rule
            says |= name_facts.says if name_facts else {"nearest": near[0]} if near else {}
        yield Hit(rule, keyword.name_start, keyword.end, says)
    reported = {problem.keyword for problem in problems}
    values = {keyword.name: keyword.value for keyword in launch.keywords if keyword.is_known}
    for name, more in _senseless(values, data, tables):
        if name not in reported:
            says = {"option": name, "vllm": data.checked, **more}
            yield Hit("option.refused-value", places[name].name_start, places[name].end, says)


def _senseless(values: Mapping[str, Any], data: ReleaseData, tables: Tables) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield numbers that every release accepts and that can't serve anything."""
    for dest, row in tables["option.refused-value"].get("sense", {}).items():
        value, option = values.get(dest), data.by_dest.get(dest)
        takes_auto = option is not None and "auto" in str(option.type)
        is_other = (value == row.get("auto") and takes_auto) or value in row.get("others", ())
        if bounds.is_outside(value, row) and not is_other and _is_since(row.get("since"), data):
            yield dest, {"sense": bounds.in_words(row), "because": row["because"]}


def _is_since(first: str | None, data: ReleaseData) -> bool:
    """Whether a release is the first one with a limit, or later."""
    return first is None or (version_key(data.version) or ()) >= (version_key(first) or ())


def _is_adapted(launch: WrittenLaunch) -> bool:
    """Whether a call uses a worker or executor of another package, which needs its own release."""
    keywords = {keyword.name: keyword for keyword in launch.keywords}
    worker, executor = keywords.get("worker_cls"), keywords.get("distributed_executor_backend")
    own_worker = worker is not None and not str(worker.value if worker.is_known else "").startswith(("auto", "vllm."))
    return own_worker or (executor is not None and not executor.is_known)


def of_loose(loose: LooseOption, data: ReleaseData, tables: Tables) -> Iterator[Hit]:
    """Check an option without its command; in comments and tables, which no program reads, nothing is fixed."""
    parsed = arguments.parse(placeholders.without_values(loose.words), data)
    is_spoken = loose.where != "bare"
    for hit in _OptionRules(loose, parsed, data, tables).hits():
        is_theirs = hit.rule == "option.foreign" and hit.says["program"].lower() not in hit.says["option"]
        if not is_spoken or not (
            is_theirs
            or (hit.rule == "option.unknown" and not hit.edits)
            or hit.rule in _SHORTENED
            or (hit.rule == "option.bad-json" and _KEY.fullmatch(loose.words[-1].value or ""))
        ):
            yield replace(hit, edits=(), is_information=loose.where == "comment") if is_spoken else hit


def own_groups(options_outside: Sequence[LooseOption]) -> Iterator[LooseOption]:
    """Options of the lists and tables of which at least half of the options are vLLM's."""
    group: list[LooseOption] = []
    for loose in [*options_outside, None]:
        if group and (loose is None or loose.where != group[-1].where or loose.start - group[-1].end > _MAX_GAP):
            own = sum(_is_known(member) for member in group)
            if 2 * own >= len(group):
                yield from group
            group = []
        if loose is not None:
            group.append(loose)


def _is_known(loose: LooseOption) -> bool:
    """Whether a release of vLLM has the option."""
    name = _written(loose.words[0]).partition(".")[0].replace("_", "-")
    return standing(name, options.load(options.known_releases()[-1]), past()).kind != "never"


class _NameFacts(NamedTuple):
    rule: str
    says: dict[str, str]
    remedy: Mapping[str, Any]
    """Table row with the replacement; empty if none is certain."""
    takes: int = _MANY


@dataclass(frozen=True)
class _OtherNames:
    data: ReleaseData
    tables: Tables
    spellings: frozenset[str]
    """Spellings that the parser knows (of a call: its parameters)."""

    def facts(self, name: str, written: str = "") -> _NameFacts | None:
        """Return the rule that a name breaks; None if no release or program has it."""
        stands = standing(name, self.data, past())
        if stands.kind == "gone":
            return self._gone(name, stands)
        if stands.kind == "to come":
            return _NameFacts("option.not-there-yet", {"first": stands.first} | self._before(name), {})
        row = self.tables["option.removed"].get("earlier", {}).get(name.lstrip("-"))
        if row and stands.kind == "never":
            gone = options.known_releases()[0]
            says = {"last": row["last"], "gone": gone, "note": row["note"]} | self._instead(row)
            return _NameFacts("option.removed", says, row)
        for program, foreign in self.tables["option.foreign"].items():
            row = foreign["options"].get(name) or foreign["options"].get(written)
            if row and stands.kind == "never":
                says = {"program": program, "note": row.get("note", "")} | self._instead(row)
                remedy = row if row["instead"] or row.get("remove") else {}
                return _NameFacts("option.foreign", says, remedy, row["takes"])
        return None

    def facts_of_parameter(self, call: str, name: str) -> _NameFacts | None:
        """Return the rule that a parameter breaks, of which the option may still be known."""
        for owner in (call, "EngineArgs"):
            stands = standing(f"{owner}.{name}", self.data, past())
            row = self.tables["option.removed"].get("replacements", {}).get(name.replace("_", "-"))
            if stands.kind == "gone" and row is not None:
                says = {"last": stands.last, "gone": stands.gone, "note": row.get("note", "")}
                return _NameFacts("option.removed", says | self._instead(row), row)
        return self.facts(option_of(name))

    def _gone(self, name: str, stands: NameStatus) -> _NameFacts:
        former = options.load(stands.last)
        was = next((option for option in former.by_dest.values() if name in option.strings), None)
        rows = self.tables["option.removed"].get("replacements", {})
        row = rows.get(name.lstrip("-")) or rows.get(stands.owner.lstrip("-"), {})
        is_off = was is not None and was.flag_values.get(name) is False
        stays = self.data.by_dest.get(was.dest) if was is not None else None
        if was is not None and stays is not None and stays.name == was.name:
            row = self._respelt(was, stays, name)
        elif is_off and row.get("instead"):
            # The switch's negation was the default.
            row = {"instead": None, "value": None, "note": row.get("note", "")}
        takes = _MANY if was is None else was.nargs if isinstance(was.nargs, int) else _TAKES.get(was.nargs or "", 1)
        says = {"last": stands.last, "gone": stands.gone, "note": row.get("note", "")} | self._instead(row)
        return _NameFacts("option.removed", says, row, takes)

    def _respelt(self, was: Option, stays: Option, name: str) -> dict[str, Any]:
        if stays.takes_value and was.takes_value:
            return {"instead": stays.name, "value": "same"}
        value = was.flag_values.get(name)
        same = next((text for text, sets in stays.flag_values.items() if sets == value and text.startswith("--")), None)
        if same is not None:
            return {"instead": same, "value": "same"}
        return {"instead": None, "value": None} if stays.default == value else {}

    def _instead(self, row: Mapping[str, Any]) -> dict[str, str]:
        instead, value = row.get("instead"), row.get("value")
        if not instead or not self._has(instead):
            return {}
        if isinstance(value, Mapping) and "key" in value:
            return {"instead": f"{instead}.{value['key']}"} if self.has_key(instead, value) else {}
        return {"instead": instead}

    def _has(self, option: str) -> bool:
        return option in self.spellings or option.removeprefix("--").replace("-", "_") in self.spellings

    def _before(self, name: str) -> dict[str, str]:
        """Replacement for an option that was added later."""
        row = self.tables["option.not-there-yet"].get("before", {}).get(name.lstrip("-"))
        if not row:
            return {}
        instead = row["instead"]
        if instead is None:
            return {"note": row["note"]}
        variable, option = instead.get("env"), instead.get("option")
        if variable and (variable in self.data.environment or not variable.startswith("VLLM_")):
            return {"instead": variable, "note": row["note"]}
        return {"instead": option, "note": row["note"]} if option and self._has(option) else {}

    def has_key(self, option: str, value: Mapping[str, Any]) -> bool:
        """Whether the JSON option has a key; true if unknown."""
        if "last" in value:
            return options.is_within(self.data.version, value)
        keys = self.data.keys(option)
        return keys is None or value["key"].partition(".")[0] in keys


class _OptionRules:
    def __init__(
        self,
        whole: WrittenLaunch | LooseOption,
        parsed: Parsed,
        data: ReleaseData,
        tables: Tables,
        page: LaunchFile | None = None,
    ) -> None:
        self.whole, self.words, self.page = whole, whole.words, page
        self.parsed, self.data, self.tables = parsed, data, tables
        self.start = whole if isinstance(whole, WrittenLaunch) else None
        self.is_loose = isinstance(whole, LooseOption) and whole.where != "bare"
        self.values = placeholders.without_values(self.words)
        written = [word.value for word in self.words]
        self.entry = deployment.parser_entry(self.start.entry, written, data) if self.start else "serve"
        self.tries = min(_MAX_CHANGES, _MOST_WORDS // (len(self.words) + 1))
        self.readings = 0
        self.merged: dict[str, Edits] = {}
        if page is not None and len(page.text) <= _LONGEST_TEXT:
            self.readings = min(_MAX_CHANGES, _MOST_TEXT // (len(page.text) * max(1, len(page.starts)) + 1))

    @cached_property
    def spellings(self) -> Mapping[str, Option]:
        return {text: option for option in self.data.entries[self.entry] for text in option.strings}

    @cached_property
    def names(self) -> _OtherNames:
        return _OtherNames(self.data, self.tables, frozenset(self.spellings))

    def hits(self) -> Iterator[Hit]:
        for problem in self.parsed.problems:
            if self.start is None and problem.kind in _MISSING:
                continue
            name_facts = self.facts_by_word.get(-1 if problem.option_word is None else problem.option_word)
            if name_facts is not None and problem.word == problem.option_word:
                yield self._named(problem, name_facts)
            elif name_facts is None and not (problem.kind in _STRAY and problem.word in self.covered):
                yield self._hit(problem)
        yield from self._senseless()

    def _senseless(self) -> Iterator[Hit]:
        reported = {problem.dest for problem in self.parsed.problems}
        for dest, more in _senseless(self.parsed.flags, self.data, self.tables):
            at = self.parsed.places.get(dest)
            option = self._name(at[-1]) if at else ""
            if at and option.startswith("-") and dest not in reported:  # else it is in a config file
                word = self.words[deployment.behind(self.parsed, at[-1]) - 1]
                says = {"option": option, "value": word.value or "", "vllm": self.data.checked, **more}
                yield Hit("option.refused-value", word.start, word.end, says, (), self.is_loose)

    @cached_property
    def covered(self) -> frozenset[int]:
        """Indices of the values of unknown options, and of those that other releases or programs have."""
        takes = {problem.option_word: 1 for problem in self.parsed.problems if problem.kind == "unknown"}
        takes |= {index: facts.takes for index, facts in self.facts_by_word.items()}
        spans = (range(index, self._end(index, size)) for index, size in takes.items() if index is not None)
        return frozenset(chain.from_iterable(spans))

    @cached_property
    def facts_by_word(self) -> Mapping[int, _NameFacts]:
        """Facts by index of each word with an option of another release or program."""
        facts = {}
        refused = {problem.option_word for problem in self.parsed.problems if problem.is_refusal}
        for problem in self.parsed.problems:
            index = problem.option_word
            if index is None or index in facts or index not in refused or problem.kind in ("underscore", "duplicate"):
                continue
            name = self._name(index)
            if name in self.spellings or not name.startswith("-"):
                continue
            name_facts = self.names.facts(name, _written(self.words[index]))
            if name_facts is not None:
                facts[index] = name_facts
        return facts

    def _name(self, index: int) -> str:
        """Name of the option in a word, as the parser reads it."""
        written = _written(self.words[index])
        if written.startswith("--"):
            return written.partition(".")[0].replace("_", "-")
        return written

    def _named(self, problem: Problem, name_facts: _NameFacts) -> Hit:
        index = problem.option_word or 0
        word = self.words[index]
        says = {"option": self._name(index), "written": _written(word), "vllm": self.data.checked, **name_facts.says}
        return Hit(name_facts.rule, word.start, word.end, says, self._replaced(index, name_facts), self.is_loose)

    def _hit(self, problem: Problem) -> Hit:
        rule, near = _RULES.get(problem.kind, f"option.{problem.kind}"), _near(problem)
        more = {"nearest": near[0]} if near and problem.kind in ("unknown", "wrong-choice") else {}
        word = None if problem.word is None else self.words[problem.word]
        start, end = (word.start, word.end) if word else (self.whole.start, self.whole.end)
        says = {**_facts(problem), "vllm": self.data.checked, **more}
        for name, index in (("value", problem.word), ("written", problem.option_word)):
            if index is not None and self.words[index].value is not None:
                says.setdefault(name, self.words[index].value or "")
        hint = self.tables.get(rule, {}).get("hints", {}).get(problem.says.get("hint"))
        if hint:
            says["meant"] = hint
        if problem.option:
            says["option"] = problem.option
        says["written"] = says.get("written", "").partition("=")[0]
        return Hit(rule, start, end, says, self._fix(problem), self.is_loose)

    def _fix(self, problem: Problem) -> Edits:
        if problem.word is None or self.words[problem.word].value is None or self.tries <= 0:
            return ()
        index, written = problem.word, _written(self.words[problem.word])
        if problem.kind == "unknown":
            near, name = _near(problem), self._name(index)
            if problem.says.get("hint") == "glued":
                return self._put_word(index, near[0])
            return self._renamed(index, name, near[0]) if near and _is_clear(name, near) else ()
        if problem.kind == "abbreviation" and standing(written, self.data, past()).kind == "never":
            return self._renamed(index, written, problem.says["full"])
        if problem.kind == "underscore":
            name = written.partition(".")[0] if self.data.features.get("underscores") == "before_dot" else written
            return self._renamed(index, name, name.replace("_", "-"))
        if problem.kind == "wrong-choice" and "near" in problem.says:
            return self._put(index, int(problem.says.get("at", "0")), problem.says["near"])
        if problem.kind == "duplicate" and "first" in problem.says:
            return self._without(first := int(problem.says["first"]), deployment.behind(self.parsed, first))
        if "switch" in problem.says:
            return self._unvalued(index, (self.words[index].value or "").lower())
        if problem.kind == "unexpected-value" and "=" in (self.words[index].value or ""):
            return self._bare(index, written, (self.words[index].value or "").partition("=")[2].lower())
        return ()

    def _bare(self, index: int, written: str, value: str) -> Edits:
        if value in YES:
            return self._put_word(index, written)
        other, is_needless = self._opposite(written) if value in NO else (None, False)
        if other is not None:
            return self._put_word(index, other)
        return self._without(index, index + 1) if is_needless else ()

    def _unvalued(self, index: int, value: str) -> Edits:
        if value in YES:
            return self._without(index, index + 1)
        written = self.words[index - 1].value or ""
        other, is_needless = self._opposite(written)
        if is_needless:
            return self._without(index - 1, index + 1)
        if other is None or not self._is_better([*self.values[: index - 1], other, *self.values[index + 1 :]], index):
            return ()
        edits = (*renamed(self.words[index - 1], len(written), other), *self._without(index, index + 1))
        return edits if len(edits) > 1 else ()

    def _opposite(self, written: str) -> tuple[str | None, bool]:
        """Return the opposite flag, and whether the opposite is the default."""
        name = written.replace("_", "-")
        option = self.spellings.get(name)
        if option is None or name not in option.flag_values:
            return None, False
        contrary = not option.flag_values[name]
        others = (text for text, sets in option.flag_values.items() if sets is contrary and text.startswith("--"))
        return next(others, None), option.default is contrary

    def _replaced(self, index: int, name_facts: _NameFacts) -> Edits:
        """Replace an option by another one, a key of another one, or nothing."""
        remedy = name_facts.remedy
        if "instead" not in remedy or self.tries <= 0:
            return ()
        last = self._end(index, name_facts.takes)
        new, value = remedy["instead"], remedy["value"]
        if new is None:
            return self._without(index, last)
        if new not in self.spellings or value is None:
            return ()
        name, equals, glued = (self.words[index].value or "").partition("=")
        values = [glued] if equals else [text or "" for text in self.values[index + 1 : last]]
        name = name.partition(".")[0] if name.startswith("--") else name
        if value == "same":
            return self._renamed(index, name, new)
        if "key" in value:
            if not self.names.has_key(new, value):
                return self._without(index, last)
            text = value.get("map", {}).get(" ".join(values)) or " ".join(values) if values else "true"
            return self._keyed(index, last, new, value["key"], text)
        text = value["fixed"] if "fixed" in value else value.get("map", {}).get(" ".join(values))
        return self._set(index, last, name, new, text) if text is not None else ()

    def _set(self, index: int, last: int, name: str, new: str, text: str) -> Edits:
        word = self.words[index]
        if "=" not in (word.value or "") and last == index + 2:
            edits = (*renamed(word, len(name), new), *put(self.words[index + 1], 0, text))
            return self._spliced(index, last, [new, text], edits if len(edits) == 2 else ())
        is_split = self.start is None or self.start.language in ("shell", "compose", "systemd", "glued")
        if "=" not in (word.value or "") and is_split and word.raw == word.value and last == index + 1:
            return self._spliced(index, last, [new, text], renamed(word, len(word.value or ""), f"{new} {text}"))
        return self._put_word(index, f"{new}={text}") if "=" in (word.value or "") or last == index + 1 else ()

    def _spliced(self, first: int, last: int, words: list[str], edits: Iterable[Replacement]) -> Edits:
        """Return the edits that replace some words, if the result is better."""
        edits, changed = tuple(edits), [*self.values[:first], *words, *self.values[last:]]
        return edits if edits and self._is_better(changed, first, range(first, first + len(words))) else ()

    def _keyed(self, index: int, last: int, new: str, key: str, text: str) -> Edits:
        """Make an option a key of a JSON option: dotted if the parser reads that, else merged with others."""
        name = _written(self.words[index])
        dest = self.spellings[new].dest
        is_whole = any("." not in _written(self.words[at]) for at in self.parsed.places.get(dest, ()))
        if self.data.features.get("dotted") and not is_whole:
            if last == index + 1 and "=" not in (self.words[index].value or ""):
                return self._set(index, last, name, f"{new}.{key}", text)
            return self._renamed(index, name, f"{new}.{key}")
        if new not in self.merged:
            self.merged[new] = self._merged(new, dest)
        return self.merged[new]

    def _merged(self, new: str, dest: str) -> Edits:
        """Merge all options that are keys of one JSON option now."""
        whole = self.parsed.flags.get(dest, {})
        if isinstance(whole, str):
            # A value that the release rejects keeps its spelling.
            whole = json_keys.read(whole)[0]
        if not isinstance(whole, Mapping) or self.page is None or self.start is None or not self._may_read():
            return ()
        whole, gone = dict(whole), []
        for index, name_facts in self.facts_by_word.items():
            value = name_facts.remedy.get("value")
            is_key = isinstance(value, Mapping) and "key" in value and name_facts.remedy["instead"] == new
            if not is_key or not self.names.has_key(new, value or {}):
                continue
            last = self._end(index, name_facts.takes)
            word = self.words[index].value or ""
            values = [word.partition("=")[2]] if "=" in word else self.values[index + 1 : last]
            text, key = " ".join(part or "" for part in values), (value or {})["key"]
            made = _json(text) if text else True
            if whole.setdefault(key, made) != made or None in self.values[index:last]:
                return ()
            gone.append((index, last))
        self.readings -= len(gone)
        if self.readings < 0 or UNKNOWN in whole.values():
            return ()
        edits = [*editing.edits(self.page, self.start, [Edit("set", dest, whole)], self.data)]
        if not edits:
            return ()
        for first, last in gone:
            removed = editing.without(self.page, self.start, first, last, self.data)
            if not removed:
                return ()
            edits += removed
        return tuple(edits) if self._reads_better(edits) else ()

    def _renamed(self, index: int, name: str, new: str) -> Edits:
        value = self.words[index].value or ""
        at = [index]
        if value[len(name) : len(name) + 1] == ".":
            at = [i for i, text in enumerate(self.values) if (text or "").startswith(f"{name}.")]
        changed = list(self.values)
        edits: list[Replacement] = []
        for place in at:
            edit = tuple(renamed(self.words[place], len(name), new))
            if not edit:
                return ()
            edits += edit
            changed[place] = new + (self.values[place] or "")[len(name) :]
        return tuple(edits) if self._is_better(changed, index, at) else ()

    def _put(self, index: int, start: int, text: str) -> Edits:
        value = (self.values[index] or "")[:start] + text
        return self._spliced(index, index + 1, [value], put(self.words[index], start, text))

    def _put_word(self, index: int, text: str) -> Edits:
        edits = renamed(self.words[index], len(self.values[index] or ""), text)
        is_plain = _PLAIN.fullmatch(text.replace("=", "")) is not None
        return self._spliced(index, index + 1, [text], edits if is_plain else ())

    def _without(self, first: int, last: int) -> Edits:
        if self.page is None or self.start is None or not self._may_read():
            return ()
        changed = [*self.values[:first], *self.values[last:]]
        if not self._is_better(changed, first):
            return ()
        return editing.without(self.page, self.start, first, last, self.data)

    def _end(self, index: int, takes: int) -> int:
        """Index after the last word of an unknown option."""
        if "=" in (self.words[index].value or ""):
            return index + 1
        last = index + 1
        while last < len(self.words) and last - index <= takes and _is_value(self.values[last]):
            last += 1
        return last

    def _is_better(self, words: Sequence[str | None], fault: int, at: Iterable[int] = ()) -> bool:
        """Whether the parser accepts the changed words, and rejects less in total."""
        self.tries -= 1
        if self.tries < 0:
            return False
        environment = {name: item.value.value for name, item in self.start.environment.items()} if self.start else {}
        refusals = self._refusals(arguments.parse(words, self.data, self.entry, environment=environment))
        was = self._refusals(self.parsed)
        places = {place for problem in refusals for place in (problem.word, problem.option_word)}
        is_fixed = fault in {place for problem in was for place in (problem.word, problem.option_word)}
        return places.isdisjoint(at) and len(refusals) <= len(was) - is_fixed

    def _refusals(self, parsed: Parsed) -> list[Problem]:
        kinds = _MISSING if self.start is None else ()
        return [problem for problem in parsed.problems if problem.is_refusal and problem.kind not in kinds]

    def _reads_better(self, edits: Sequence[Replacement]) -> bool:
        """Whether the changed page, read again, has less that is rejected."""
        if self.page is None or self.start is None or not self._may_read():
            return False
        again = documents.read(self.page.changed(edits), kind=self.page.kind)
        start = next((read for read in again.starts if read.start == self.start.start), None)
        if start is None or len(again.starts) != len(self.page.starts):
            return False
        parsed = arguments.parse([word.value for word in start.words], self.data, self.entry)
        doubled = [read for read in (parsed, self.parsed) for problem in read.problems if problem.kind == "duplicate"]
        return len(self._refusals(parsed)) < len(self._refusals(self.parsed)) and parsed not in doubled

    def _may_read(self) -> bool:
        self.readings -= 1
        return self.readings >= 0


def _near(problem: Problem) -> list[str]:
    near = problem.says.get("near", "")
    return [near] if problem.says.get("hint") == "glued" else near.split()


def _written(word: Word) -> str:
    [value] = placeholders.without_values([word])
    return (value or "").partition("=")[0]


def _is_value(text: str | None) -> bool:
    """Whether a word after an unknown option is probably its value."""
    return text is None or not text.startswith("-") or text == "-" or re.match(r"-\.?\d", text) is not None


def _json(text: str) -> Any:
    try:
        made = json.loads(text[:400])
    except (ValueError, RecursionError):
        return text
    return made if isinstance(made, int | float) else text


def _is_clear(name: str, near: Sequence[str]) -> bool:
    if is_opposite(name, near[0]):
        return False
    ratios = [SequenceMatcher(None, name, other, autojunk=False).ratio() for other in near]
    is_first = ratios[0] >= max(ratios[1:], default=0.0) + _CLEARER
    return is_first and (ratios[0] >= _CLEAR or _words(name) == _words(near[0]))


def is_opposite(name: str, other: str) -> bool:
    """Whether only one of two names switches something off, or on."""
    return _words(name) & _POLARITY != _words(other) & _POLARITY


def _words(name: str) -> frozenset[str]:
    return frozenset(name.strip("-").replace("_", "-").split("-"))


def renamed(word: Word, length: int, new: str) -> Iterator[Replacement]:
    """Replace the first characters of a word, if they are in the file verbatim."""
    at = word.at
    if at is not None and 0 < length <= len(at) and at[length - 1] - at[0] == length - 1:
        yield Replacement(at[0], at[length - 1] + 1, new)


def put(word: Word, start: int, new: str) -> Iterator[Replacement]:
    """Replace the characters of a word from an index on, if they are in the file verbatim."""
    value, at = word.value or "", word.at
    is_placed = at is not None and len(at) == len(value) and start < len(value)
    if at is not None and is_placed and at[-1] - at[start] == len(value) - 1 - start and _PLAIN.fullmatch(new):
        yield Replacement(at[start], at[-1] + 1, new)
