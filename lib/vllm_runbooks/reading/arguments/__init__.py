"""Parse an argument vector like a release, report every fault, and convert every value.

An unknown word (None) may be anything: it is never a fault.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from operator import eq
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import Option, ReleaseData, inner_type
from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.arguments.bounds import refused
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names
from vllm_runbooks.reading.arguments.spelling import alike, as_number, least_not_below
from vllm_runbooks.reading.arguments.values import ValueReader, type_in_words
from vllm_runbooks.reading.arguments.words import HOLE, Rewritten, Token, rewrite

REFUSALS = frozenset(
    {
        *("unknown", "ambiguous", "missing-value", "unexpected-value", "wrong-type", "wrong-choice", "bad-json"),
        *("unknown-key", "wrong-key-type", "required", "extra-positional", "conflict"),
    }
)
"""Kinds of problems for which the release rejects the command."""
_MAX_HINTS = 30
_MAX_SHOWN = 120
_NEGATIVE = re.compile(r"-\d+\n?|-\d*\.\d+\n?")
_DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212")
"""Characters that look like a dash."""
_REPEATABLE = frozenset({"_AppendAction", "_AppendConstAction", "_ExtendAction", "_CountAction"})
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
"""Values written after a switch as if it took one."""
_MODEL = "model_tag"
"""dest of the positional model of `vllm serve`."""
_ENTRY = "subparser"
"""dest of the command of `vllm`; the api_server has none."""


@dataclass(frozen=True)
class Problem:
    """A word that the release rejects, warns about, or reads in an unexpected way."""

    kind: str
    """One of REFUSALS; duplicate, abbreviation, underscore, deprecated, model-option, model-ignored or not-read; or
    out-of-bounds, which only the engine rejects."""
    word: int | None
    """Index of the word; None if something is missing from the command."""
    option_word: int | None
    option: str | None
    """The option's full name (`--max-model-len`), an unknown one as written."""
    dest: str | None
    says: Mapping[str, str] = field(default_factory=dict)
    """Details; `at` is an offset in the word's value."""

    @property
    def is_refusal(self) -> bool:
        """Whether the release rejects the command for it."""
        return self.kind in REFUSALS


@dataclass(frozen=True)
class WordRole:
    kind: str
    """option (also with its value: `--a=1`), value, model, positional, separator, unknown or lost."""
    option: str | None = None
    option_word: int | None = None


@dataclass(frozen=True)
class CallProblem:
    """A keyword of `LLM(…)` or `EngineArgs(…)` that the release rejects."""

    kind: str
    """unknown, wrong-type, wrong-choice, unknown-key, wrong-key-type, conflict or out-of-bounds."""
    keyword: str
    says: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """A command as a release parses it."""

    flags: Mapping[str, Any]
    """Explicit values by dest; UNKNOWN if a value can't be known."""
    model: str | None
    """None if absent or unknown."""
    problems: tuple[Problem, ...]
    roles: tuple[WordRole, ...]
    places: Mapping[str, tuple[int, ...]]
    """Indices of the options' words by dest."""

    @property
    def is_refused(self) -> bool:
        """Whether the release rejects the command before it reads the model."""
        return any(problem.is_refusal for problem in self.problems)


def parse(
    words: Sequence[str | None],
    release: ReleaseData,
    entry: str = "serve",
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> Parsed:
    """Parse the words after `vllm serve` (or after the api_server's module name) as a release does.

    `config` is the content of the `--config` file, if known; its options are at that word. `environment` has the
    variables that are set, None for an unknown value.
    """
    if config is not None:
        return _Parser(words, release, entry, config, environment or {}).parsed()
    return parse_words(tuple(words), release, entry, tuple((environment or {}).items()))


@lru_cache(maxsize=16)
def parse_words(
    words: tuple[str | None, ...], release: ReleaseData, entry: str, environment: tuple[tuple[str, str | None], ...]
) -> Parsed:
    """`parse` without a configuration file; the last few are kept, as a fix parses the same words several times."""
    return _Parser(words, release, entry, None, dict(environment)).parsed()


def parse_call(keywords: Mapping[str, Any], release: ReleaseData, call: str = "LLM") -> tuple[CallProblem, ...]:
    """Check the keywords of `LLM(…)` or `EngineArgs(…)`; a value that is not literal is UNKNOWN."""
    parameters = release.taken_by(call)
    names_known = sorted(name for name in parameters if not name.startswith("_"))
    by_dest = _grammar(release, "serve").by_dest
    problems: list[CallProblem] = []
    for keyword, value in keywords.items():
        if parameters and keyword not in parameters:
            near = alike(keyword, names_known)
            problems.append(CallProblem("unknown", keyword, {"near": " ".join(near)} if near else {}))
        elif value is not UNKNOWN and keyword in by_dest:
            problems += _called_with(keyword, value, by_dest[keyword], release)
    wrong = {problem.keyword for problem in problems}
    bounds = (fault for fault in refused(keywords, release) if wrong.isdisjoint(fault.dests))
    return (*problems, *(CallProblem("out-of-bounds", fault.dests[-1], fault.says) for fault in bounds))


def _called_with(keyword: str, value: Any, option: Option, release: ReleaseData) -> Iterator[CallProblem]:
    """Check one value: Python converts nothing, and None is nearly always valid."""
    if value is None or option.action in _CONVERTING_ACTIONS:
        return
    kind = inner_type(option.type)
    if isinstance(value, dict) and isinstance(kind, dict) and "dataclass" in kind:
        for fault in json_keys.judged(value, {"object": kind["dataclass"]}, release.objects):
            yield CallProblem(fault.kind, keyword, fault.says)
    elif option.choices is not None and isinstance(value, str):
        if value not in option.choices:
            names_known = [str(choice) for choice in option.choices if choice is not None]
            near = _near_choice(value, names_known)
            says = {"choices": " ".join(names_known), "value": _cut(value)} | ({"near": near[0]} if near else {})
            yield CallProblem("wrong-choice", keyword, says)
    elif kind in _NUMBERS and option.nargs is None and (isinstance(value, list | dict) or _is_no_number(value)):
        yield CallProblem("wrong-type", keyword, {"expected": type_in_words(kind), "value": _cut(str(value))})


_CONVERTING_ACTIONS = frozenset({"LoRAParserAction", "PromptAdapterParserAction", "StoreBoolean"})
_NUMBERS = ("int", "float", "human_int", "human_int_or_auto")


def _near_choice(value: str, names: Sequence[str]) -> list[str]:
    """The value that was meant, if any: of numbers, the least that is no smaller; else the nearest spelling."""
    if all(as_number(name) is None for name in names):
        return alike(value[:_MAX_SHOWN], names, 1)
    return least_not_below(value, names)


def _is_no_number(value: Any) -> bool:
    return isinstance(value, str) and value != "auto" and as_number(value) is None


class _Grammar:
    def __init__(self, options: Sequence[Option]) -> None:
        self.positionals = [option for option in options if not option.strings]
        self.by_string = {text: option for option in options for text in option.strings}
        self.by_dest = {option.dest: option for option in reversed(options)}
        self.required = [option for option in options if option.strings and option.required]
        self.has_negative = any(_NEGATIVE.fullmatch(text) for text in self.by_string)

    @cached_property
    def names(self) -> list[str]:
        """Long spellings that a message may suggest; not double negations."""
        odd = ("--no-disable-", "--no-enable-", "--no-no-")
        return sorted(text for text in self.by_string if text.startswith("--") and not text.startswith(odd))

    @cached_property
    def short(self) -> list[str]:
        """Spellings with one dash and more than one letter."""
        return [text for text in self.by_string if len(text) > 2 and not text.startswith("--")]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.by_string)

    def beginning(self, start: str) -> Iterator[str]:
        for text in self._sorted[bisect_left(self._sorted, start) :]:
            if not text.startswith(start):
                return
            yield text


@lru_cache(maxsize=64)
def _grammar(release: ReleaseData, entry: str) -> _Grammar:
    return _Grammar(release.entries[entry])


class _OptionWord(NamedTuple):
    option: Option | None
    """None if unknown or ambiguous."""
    string: str
    explicit: str | None
    """The value in the same word."""
    shift: int
    """Offset of that value in the token."""


@dataclass
class _Parser:
    words: Sequence[str | None]
    release: ReleaseData
    entry: str
    config: Mapping[str, Any] | None
    environment: Mapping[str, str | None]
    problems: list[Problem] = field(default_factory=list)
    flags: dict[str, Any] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    hints: int = 0
    is_open: bool = False
    """Whether unknown words or an unread file may contain more arguments."""
    is_helped: bool = False

    def __post_init__(self) -> None:
        self.grammar = _grammar(self.release, self.entry)
        self.roles: list[WordRole | None] = [None] * len(self.words)
        self.takes_first = self.entry == "serve" or self.release.features.get("api_server_model") != "ignored"
        """Whether the program reads the model from the first argument."""

    def parsed(self) -> Parsed:
        spellings = self.grammar.by_string
        rewritten = rewrite(self.words, self.release.features, self.entry, self.config, spellings.__contains__)
        self.is_open = rewritten.has_unread_file
        self._take_over(rewritten)
        self._match(rewritten.tokens)
        if self.is_helped:
            # The parser prints its help immediately, but reports unknown arguments only at the end.
            self.problems = [fault for fault in self.problems if fault.kind not in ("unknown", "extra-positional")]
        else:
            self._check()
            self._bound()
        model = self.flags.pop(_MODEL, None)
        if model is not None and self.takes_first:
            self.flags["model"] = model
        elif model is not None:
            self._tell_ignored(model)
        model = self.flags.get("model")
        return Parsed(
            self.flags,
            model if isinstance(model, str) else None,
            tuple(sorted(self.problems, key=lambda fault: (fault.word is None, fault.word or 0))),
            tuple(role or WordRole("lost") for role in self.roles),
            {dest: tuple(places) for dest, places in self.places.items()},
        )

    def _take_over(self, rewritten: Rewritten) -> None:
        for word, (role, string, option_word) in rewritten.consumed.items():
            option, kind = self.grammar.by_string.get(string), "unknown" if self.words[word] is None else role
            self.roles[word] = WordRole(kind, option.name if option else string, option_word)
        for kind, word, option_word, string, says in rewritten.remarks:
            match = self.grammar.by_string.get(string)
            dest = match.dest if match else None
            self.problems.append(Problem(kind, word, option_word, match.name if match else string, dest, says))

    def _tell(self, kind: str, token: Token, option: Option, option_word: int | None, **says: str) -> None:
        self.problems.append(Problem(kind, token.word, option_word, option.name, option.dest, says))

    def _tell_unknown(self, token: Token, string: str) -> None:
        self.hints += 1
        near = alike(string, self.grammar.names) if self.hints <= _MAX_HINTS and len(string) <= _MAX_SHOWN else []
        says = {"near": " ".join(near)} if near else {}
        short = max((text for text in self.grammar.short if string.startswith(text)), key=len, default=None)
        if short is not None and not string.startswith("--"):
            # Only short options accept a value without a separator.
            says = {"hint": "glued", "near": f"{short}={_cut((token.text or '')[len(short) :])}"}
        self.problems.append(Problem("unknown", token.word, token.word, string, None, says))

    def _role(self, token: Token, kind: str, option: Option | None = None, option_word: int | None = None) -> None:
        if self.roles[token.word] is None:
            name = option.name if option is not None and option.strings else None
            self.roles[token.word] = WordRole("unknown" if self.words[token.word] is None else kind, name, option_word)

    def _match(self, tokens: list[Token]) -> None:
        end = next((at for at, token in enumerate(tokens) if token.text == "--"), len(tokens))
        seen = [self._seen(token) for token in tokens[:end]] + [None] * (len(tokens) - end)
        left = list(self.grammar.positionals)
        at, is_excused = 0, False
        while at < len(tokens) and not self.is_helped:
            option_word = seen[at]
            if option_word is not None:
                at = self._option(option_word, tokens, seen, at)
                is_excused = option_word.option is None and option_word.explicit is None
                continue
            run = at
            while at < len(tokens) and seen[at] is None:
                at += 1
            self._positionals(tokens[run:at], left, is_excused=is_excused)
            is_excused = False
        if self.is_helped or self.is_open:
            return
        missing = [option for option in left if option.nargs not in ("?", "*")]
        missing += [option for option in self.grammar.required if option.dest not in self.places]
        for option in missing:
            self.problems.append(Problem("required", None, None, option.name, option.dest, {"what": option.name}))

    def _seen(self, token: Token) -> _OptionWord | None:
        """Recognize an option in a word; None for a value. Reports unknown and ambiguous options."""
        text, spellings = token.text, self.grammar.by_string
        if not text or text[0] != "-":
            return None
        if text in spellings:
            return _OptionWord(spellings[text], text, None, 0)
        if len(text) == 1:
            return None
        string, equals, value = text.partition("=")
        explicit = value if equals else None
        if equals and string in spellings:
            return _OptionWord(spellings[string], string, explicit, len(string) + 1)
        matches = list(islice(self._short_for(text, string, explicit), _MAX_HINTS))
        if len(matches) == 1:
            [match] = matches
            if match.option is not None and match.string.startswith(string):
                self._tell("abbreviation", token, match.option, token.word, full=match.string)
            return match
        if matches:
            says = {"matches": " ".join(match.string for match in matches)}
            self.problems.append(Problem("ambiguous", token.word, token.word, string, None, says))
            return _OptionWord(None, string, explicit, 0)
        if (_NEGATIVE.fullmatch(text) and not self.grammar.has_negative) or " " in text:
            return None
        self._tell_unknown(token, string)
        return _OptionWord(None, string, explicit, 0)

    def _short_for(self, text: str, string: str, explicit: str | None) -> Iterator[_OptionWord]:
        spellings = self.grammar.by_string
        if text[1] == "-":
            for full in self.grammar.beginning(string):
                yield _OptionWord(spellings[full], full, explicit, len(string) + 1)
            return
        if text[:2] in spellings:
            yield _OptionWord(spellings[text[:2]], text[:2], text[2:], 2)
        for full in self.grammar.beginning(text):
            if full != text[:2]:
                yield _OptionWord(spellings[full], full, None, 0)

    def _option(self, match: _OptionWord, tokens: list[Token], matches: Sequence[_OptionWord | None], at: int) -> int:
        token = tokens[at]
        self._role(token, "option", match.option, token.word)
        match = self._unglued(match, token)
        option = match.option
        if option is None:
            return at + 1
        self._note(match, token)
        least, most, expected = _values_of(option.nargs)
        if match.explicit is not None:
            place = str(token.shift + match.shift)
            if most == 0 and match.explicit == HOLE:
                self.flags[option.dest] = UNKNOWN
            elif most == 0:
                says = {"value": _cut(match.explicit), "at": place}
                self._tell("unexpected-value", token, option, token.word, **says)
            elif least > 1:
                self._tell("missing-value", token, option, token.word, expected=expected)
            elif match.explicit == "--":
                # Versions of Python differ in whether this is a value or none.
                self.flags[option.dest] = UNKNOWN
            else:
                value = Token(match.explicit, token.word, token.shift + match.shift)
                self._set(option, [value], token, match.string)
            return at + 1
        end = at + 1
        while end < len(tokens) and end - at <= most and matches[end] is None and tokens[end].text != "--":
            end += 1
        if end - at - 1 < least:
            says = {"expected": expected}
            following = self.words[token.word + 1] if token.word + 1 < len(self.words) else None
            if following:
                says["next"] = _cut(following)
                says |= {"hint": "negative-number"} if _NEGATIVE.fullmatch(following) else {}
            self._tell("missing-value", token, option, token.word, **says)
            return end
        for value in tokens[at + 1 : end]:
            self._role(value, "value", option, token.word)
        self._set(option, tokens[at + 1 : end], token, match.string)
        return end

    def _unglued(self, last: _OptionWord, token: Token) -> _OptionWord:
        """Return the last of several short flags in one word (-ab is -a -b) and note the others."""
        explicit, start, done = last.explicit or "", last, 0
        while last.option is not None and last.option.nargs == 0 and done < len(explicit):
            more = f"-{explicit[done]}"
            inner = None if last.string.startswith("--") else self.grammar.by_string.get(more)
            if inner is None:
                break
            if not done or last.option is not inner:
                self._note(last, token)
                self._set(last.option, [], token, last.string)
            done += 1
            last = last._replace(option=inner, string=more)
        return last._replace(explicit=explicit[done:] or None, shift=start.shift + done) if done else last

    def _note(self, option_word: _OptionWord, token: Token) -> None:
        option = option_word.option
        if option is None:
            return
        if option.action == "_HelpAction":
            self.is_helped = True
        if option.deprecated:
            self._tell("deprecated", token, option, token.word)
        before = self.places.setdefault(option.dest, [])
        if before and before[-1] != token.word and option.action not in _REPEATABLE:
            self._tell("duplicate", token, option, token.word, first=str(before[-1]))
        before.append(token.word)

    def _positionals(self, run: list[Token], left: list[Option], *, is_excused: bool) -> None:
        """Assign words to the positionals and report the rest, unless an unknown option precedes (`is_excused`)."""
        has_unknown = any(token.text is None and not token.is_made for token in run)
        self.is_open |= has_unknown
        waiting, separators = deque(run), 0
        while left and waiting:
            # A positional also consumes the `--` that separates it from options.
            while waiting and waiting[0].text == "--" and not separators:
                self._role(waiting.popleft(), "separator")
                separators += 1
            if not waiting and left[0].nargs not in ("?", "*"):
                break
            positional = left.pop(0)
            is_lost = is_excused and len(waiting) == len(run)
            if waiting:
                self._take_positional(positional, waiting.popleft(), left, is_lost=is_lost)
            if waiting and waiting[0].text == "--" and not separators:
                self._role(waiting.popleft(), "separator")
                separators += 1
        for at, token in enumerate(waiting):
            if at and (waiting[at - 1].text or "")[:1] in _DASHES:
                # The value of a presumed option.
                is_excused, run = True, [token]
            if token.text is None and not token.is_made:
                self._role(token, "unknown")
            elif is_excused and token is run[0]:
                self._role(token, "lost")
            else:
                self._role(token, "separator" if token.text == "--" else "positional")
                if not has_unknown:
                    self._tell_extra(token)

    def _take_positional(self, positional: Option, token: Token, left: list[Option], *, is_lost: bool) -> None:
        if token.text is None and not token.is_made:
            # It may expand to the positional, to options, or to nothing.
            self._role(token, "unknown")
            left.insert(0, positional)
            return
        is_model = positional.dest == _MODEL and self.takes_first
        self._role(token, "lost" if is_lost else "model" if is_model else "positional")
        self.places.setdefault(positional.dest, []).append(token.word)
        self._set(positional, [token], token, "")

    def _tell_ignored(self, model: Any) -> None:
        loaded = self._current("model")
        if model is UNKNOWN or model == loaded:
            return
        word = self.places[_MODEL][-1]
        switch = self._switch_before(word)
        says = {"ignored": _cut(str(model))} | ({"loaded": _cut(loaded)} if isinstance(loaded, str) else {})
        says = {"switch": switch} if switch else says
        self.problems.append(Problem("model-ignored", word, None, None, "model", says))

    def _switch_before(self, word: int) -> str | None:
        """Return the switch that a yes or no follows as if it were its value."""
        text = self.words[word] or ""
        if word == 0 or text.lower() not in YES + NO:
            return None
        written, role = self.words[word - 1] or "", self.roles[word - 1]
        option = self.grammar.by_string.get(written.replace("_", "-"))
        is_switch = option is not None and option.nargs == 0 and role is not None and role.kind == "option"
        return written if is_switch else None

    def _tell_extra(self, token: Token) -> None:
        text = self.words[token.word] if token.is_made else token.text
        text = text or ""
        if text.startswith("--") and "=" in text and " " in text:
            # The blank in its value prevents argparse from recognizing an option.
            self._tell_unknown(token, text.partition("=")[0])
            return
        if token.is_made and any(problem.word == token.word and problem.is_refusal for problem in self.problems):
            return
        model, first = self.flags.get(_MODEL), self.places.get(_MODEL, [0])[-1]
        if isinstance(model, str) and self.takes_first and self._switch_before(first):
            # The presumed model is a value, and this word is the model.
            self._tell_valued(first)
            return
        if self._switch_before(token.word):
            self._tell_valued(token.word)
            return
        says = {"value": _cut(text)} | ({"model": _cut(model)} if isinstance(model, str) else {})
        if _NEGATIVE.fullmatch(self.words[token.word] or ""):
            says |= {"hint": "negative-number", "value": _cut(self.words[token.word] or "")}
        elif text.startswith("-") and " " in text:
            says["hint"] = "option-in-one-word"
        elif text[:1] in _DASHES:
            says["hint"] = "dash"
        self.problems.append(Problem("extra-positional", token.word, None, None, None, says))

    def _tell_valued(self, word: int) -> None:
        text, switch = self.words[word] or "", self._switch_before(word) or ""
        if text.lower() in NO:
            self.flags[self.grammar.by_string[switch.replace("_", "-")].dest] = UNKNOWN
        says = {"value": _cut(text), "switch": switch}
        self.problems.append(Problem("extra-positional", word, None, None, None, says))

    def _set(self, option: Option, values: list[Token], token: Token, string: str) -> None:
        if option.nargs == 0:
            if option.action != "_HelpAction":
                self.flags[option.dest] = option.flag_values.get(string, option.const)
            return
        option_word = token.word if option.strings else None
        if not values:
            self.flags[option.dest] = {"True": True, "False": False}.get(str(option.const), option.const)
            return
        read = [self._value(option, value, option_word) for value in values]
        result = read[0] if option.nargs in (None, "?") else read
        if option.action == "_AppendAction":
            result = [*self.flags.get(option.dest, []), result]
        self.flags[option.dest] = result

    def _value(self, option: Option, value: Token, option_word: int | None) -> Any:
        if not value.is_made and (value.text is None or value.text == HOLE):
            return UNKNOWN
        reader = ValueReader(self.release.objects, self.release.conversions)
        text = value.text or ""
        result = reader.read(text, option.type, value.made)
        if option.choices is not None and not reader.faults and result is not UNKNOWN:
            self._choose(option, result, value, option_word)
        elif not reader.faults:
            result = reader.read_by_action(result, text, option.action, option.probes)
        for fault in reader.faults:
            self._tell_fault(option, fault, value, option_word)
        if not reader.faults:
            return result
        return value.made if value.is_made else value.text

    def _choose(self, option: Option, result: Any, value: Token, option_word: int | None) -> None:
        choices = option.choices or ()
        if any(result == choice for choice in choices):
            return
        names = [str(choice) for choice in choices if choice is not None]
        near = _near_choice(str(result), names)
        says = {"choices": " ".join(names), "value": _cut(value.text or ""), "at": str(value.shift)}
        self._tell("wrong-choice", value, option, option_word, **says, **({"near": near[0]} if near else {}))

    def _tell_fault(self, option: Option, fault: json_keys.Fault, value: Token, option_word: int | None) -> None:
        says = dict(fault.says)
        if "value" in says:
            says["value"] = _cut(says["value"])
        if fault.kind == "unknown-key":
            near = alike(str(fault.path[-1])[:_MAX_SHOWN], says.get("keys", "").split(), 1)
            says |= {"near": near[0]} if near else {}
        if value.is_made:
            steps = tuple(map(str, fault.path))
            part = max(reversed(value.parts), key=lambda part: sum(takewhile(bool, map(eq, part.path, steps))))
            is_key = fault.kind == "unknown-key" and len(fault.path) <= len(part.path)
            word = part.word if is_key else part.value_word
            token, option_word = Token(self.words[word], word), part.word
        else:
            token = value
            at = json_keys.place(value.text or "", fault.path) if fault.path else int(says.get("at", "0"))
            says["at"] = str(value.shift + (at or 0))
        self._tell(fault.kind, token, option, option_word, **says)

    def _check(self) -> None:
        values = Values(self._current, self.places.__contains__, self._variable)
        for check in self.release.checks:
            met = holds(check["when"], values)
            if met is UNKNOWN or not met:
                continue
            dests = list(dict.fromkeys(names(check["when"])))
            words = [self.places[dest][-1] for dest in dests if self.places.get(dest)]
            word = max(words, default=None)
            option = next((self.grammar.by_dest[dest] for dest in dests if word in self.places.get(dest, ())), None)
            says = {"message": check["says"].rstrip("."), "dests": " ".join(dests)}
            name, dest = (option.name, option.dest) if option else (None, None)
            self.problems.append(Problem("conflict", word, word, name, dest, says))

    def _bound(self) -> None:
        """Report values that the engine rejects at startup, unless the parser rejects them already."""
        wrong = {problem.dest for problem in self.problems if problem.is_refusal}
        for fault in refused(self.flags, self.release, is_whole=not self.is_open):
            words = {self.places[dest][-1]: dest for dest in fault.dests if self.places.get(dest)}
            if words and wrong.isdisjoint(fault.dests):
                word = max(words)
                option = self.grammar.by_dest.get(words[word])
                roles = enumerate(self.roles)
                values = [at for at, role in roles if role and role.kind == "value" and role.option_word == word]
                last = max([word, *values])
                name = option.name if option else None
                self.problems.append(Problem("out-of-bounds", last, word, name, words[word], fault.says))

    def _current(self, dest: str) -> Any:
        """Value of a dest after parsing; UNKNOWN if it can't be known."""
        if dest == _ENTRY:
            return "serve" if self.entry == "serve" else None
        if dest in self.flags:
            return self.flags[dest]
        option = self.grammar.by_dest.get(dest)
        is_known = option is not None and not self.is_open and not isinstance(option.default, dict)
        return option.default if option is not None and is_known else UNKNOWN

    def _variable(self, name: str) -> Any:
        variable = self.release.environment.get(name)
        if variable is None:
            return UNKNOWN
        if name not in self.environment:
            return UNKNOWN if isinstance(variable.default, dict) else variable.default
        text = self.environment[name]
        if text is None or not isinstance(variable.default, bool):
            return UNKNOWN if text is None else text
        return text in variable.true


_NARGS = {None: (1, 1, "one value"), "?": (0, 1, "at most one value"), "*": (0, sys.maxsize, "values")}


def _values_of(nargs: int | str | None) -> tuple[int, int, str]:
    if isinstance(nargs, int):
        return nargs, nargs, f"{nargs} values"
    return _NARGS.get(nargs, (1, sys.maxsize, "at least one value"))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
