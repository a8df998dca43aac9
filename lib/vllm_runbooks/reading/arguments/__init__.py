"""An argument vector judged as a release's own parser judges it: every fault with its place, every value typed.

Nothing of argparse is used: it stops at the first fault, tells no place, and differs between versions of Python. The
words are rewritten first, as vLLM's parser does (`words`), then options and positionals take their values by
number, type and choices, as argparse does, then the release's own checks are made. A word that cannot be known (None)
may be anything: it takes the place it stands in, and nothing is told of it.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from vllm_runbooks.catalog.options import Option, ReleaseData, inner_type
from vllm_runbooks.reading.arguments import json_keys
from vllm_runbooks.reading.arguments.bounds import refused
from vllm_runbooks.reading.arguments.conditions import UNKNOWN, Values, holds, names
from vllm_runbooks.reading.arguments.spelling import alike
from vllm_runbooks.reading.arguments.values import Reader, ValueFault, type_in_words
from vllm_runbooks.reading.arguments.words import Part, Rewritten, Token, rewrite

REFUSALS = frozenset(
    {
        *("unknown", "ambiguous", "missing-value", "unexpected-value", "wrong-type", "wrong-choice", "bad-json"),
        *("unknown-key", "wrong-key-type", "required", "extra-positional", "conflict"),
    }
)
"""Kinds of problems for which a release refuses the command."""
_MAX_HINTS = 30
"""So many unknown names are compared with the known ones; beyond that nobody reads the hints."""
_MAX_SHOWN = 120
"""Characters of a word that are compared or repeated."""
_NEGATIVE = re.compile(r"-\d+\n?|-\d*\.\d+\n?")
_DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212")
"""Signs that look like a dash and are none."""
_REPEATABLE = frozenset({"_AppendAction", "_AppendConstAction", "_ExtendAction", "_CountAction"})
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
"""Words, in small letters, that are written behind a switch as if it took a value."""
_MODEL = "model_tag"
"""dest of the positional that `vllm serve` takes the model from."""
_ENTRY = "subparser"
"""dest that holds the command of `vllm`; the api_server has none."""


@dataclass(frozen=True)
class Problem:
    """Something about one word that the release refuses, warns of, or takes otherwise than it looks."""

    kind: str
    """One of REFUSALS, or duplicate, abbreviation, underscore, deprecated, model-option, model-ignored, not-read; or
    out-of-bounds: the parser takes it, and the start ends with an error."""
    word: int | None
    """Index of the word at fault; None where something is missing from the command as a whole."""
    option_word: int | None
    """Index of the word with the option that it belongs to."""
    option: str | None
    """The option's own name (`--max-model-len`); of an unknown one the name as written, without its value."""
    dest: str | None
    says: Mapping[str, str] = field(default_factory=dict)
    """Named details; `at` is an offset inside the value of the word."""

    @property
    def is_refusal(self) -> bool:
        """Whether the release refuses the command for it."""
        return self.kind in REFUSALS


@dataclass(frozen=True)
class Role:
    """What a word is to the parser."""

    kind: str
    """option (also with its value: `--a=1`), value, model, positional, separator, unknown or lost."""
    option: str | None = None
    """The name of the option that it is or belongs to."""
    option_word: int | None = None
    """Index of the word with that option."""


@dataclass(frozen=True)
class CallProblem:
    """Something about a keyword of `LLM(…)` or `EngineArgs(…)` that the release refuses."""

    kind: str
    """unknown, wrong-type, wrong-choice, unknown-key, wrong-key-type, conflict or out-of-bounds."""
    keyword: str
    says: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """A command's words as a release understands them."""

    flags: Mapping[str, Any]
    """Values given explicitly, typed, by argparse dest; UNKNOWN where a value cannot be known."""
    model: str | None
    """The model given, as the first argument or by option; None: none, or it cannot be known."""
    problems: tuple[Problem, ...]
    roles: tuple[Role, ...]
    """The role of each word."""
    given: Mapping[str, tuple[int, ...]]
    """Indices of the words with the options, by dest, in the order given."""

    @property
    def is_refused(self) -> bool:
        """Whether the release ends with an error before it reads anything of the model."""
        return any(problem.is_refusal for problem in self.problems)


def parse(
    words: Sequence[str | None],
    release: ReleaseData,
    entry: str = "serve",
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> Parsed:
    """Judge the words after `vllm serve` (or after the api_server's module name).

    `config` is the content of the file that `--config` names, where the caller has it; its options are judged with the
    place of that word. Without it nothing is told of what the file may hold. `environment` has the variables that are
    set (None: to what cannot be known); the others are taken as not set.
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
    """What is certainly wrong with the keywords of a call; a value that is not literal is UNKNOWN.

    Args:
        keywords: Literal values by keyword.
        release: The release that is called.
        call: LLM, EngineArgs or AsyncEngineArgs.
    """
    taken = release.taken_by(call)
    names_known = sorted(name for name in taken if not name.startswith("_"))
    by_dest = _grammar(release.entries["serve"]).by_dest
    problems: list[CallProblem] = []
    for keyword, value in keywords.items():
        if taken and keyword not in taken:
            near = alike(keyword, names_known)
            problems.append(CallProblem("unknown", keyword, {"near": " ".join(near)} if near else {}))
        elif value is not UNKNOWN and keyword in by_dest:
            problems += _called_with(keyword, value, by_dest[keyword], release)
    wrong = {problem.keyword for problem in problems}
    bounds = (found for found in refused(keywords, release) if wrong.isdisjoint(found.dests))
    return (*problems, *(CallProblem("out-of-bounds", found.dests[-1], found.says) for found in bounds))


def _called_with(keyword: str, value: Any, option: Option, release: ReleaseData) -> Iterator[CallProblem]:
    """What is certainly wrong with one value; Python converts nothing, and None is nearly always taken."""
    if value is None or option.action in _OWN_VALUES:
        return
    kind = inner_type(option.type)
    if isinstance(value, dict) and isinstance(kind, dict) and "dataclass" in kind:
        for fault in json_keys.judged(value, {"object": kind["dataclass"]}, release.objects):
            yield CallProblem(fault.kind, keyword, fault.says)
    elif option.choices is not None and isinstance(value, str):
        if value not in option.choices:
            names_known = [str(choice) for choice in option.choices if choice is not None]
            near = alike(value[:_MAX_SHOWN], names_known, 1)
            says = {"choices": " ".join(names_known), "value": _cut(value)} | ({"near": near[0]} if near else {})
            yield CallProblem("wrong-choice", keyword, says)
    elif kind in _NUMBERS and option.nargs is None and (isinstance(value, list | dict) or _is_no_number(value)):
        yield CallProblem("wrong-type", keyword, {"expected": type_in_words(kind), "value": _cut(str(value))})


_OWN_VALUES = frozenset({"LoRAParserAction", "PromptAdapterParserAction", "StoreBoolean"})
_NUMBERS = ("int", "float", "human_int", "human_int_or_auto")


def _is_no_number(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return value != "auto"
    return False


class _Grammar:
    """The spellings that a parser knows."""

    def __init__(self, options: Sequence[Option]) -> None:
        # Kept alive, so that another parser's options cannot come to stand at its address.
        self.options = options
        self.positionals = [option for option in options if not option.strings]
        self.by_string = {text: option for option in options for text in option.strings}
        self.by_dest = {option.dest: option for option in reversed(options)}
        self.required = [option for option in options if option.strings and option.required]
        self.has_negative = any(_NEGATIVE.fullmatch(text) for text in self.by_string)

    @cached_property
    def names(self) -> list[str]:
        """The long spellings that a message may propose; nobody means a denied denial (`--no-disable-x`)."""
        odd = ("--no-disable-", "--no-enable-", "--no-no-")
        return sorted(text for text in self.by_string if text.startswith("--") and not text.startswith(odd))

    @cached_property
    def short(self) -> list[str]:
        """The spellings with one dash and more than one letter."""
        return [text for text in self.by_string if len(text) > 2 and not text.startswith("--")]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.by_string)

    def beginning(self, start: str) -> Iterator[str]:
        """The spellings that begin with a text."""
        for text in self._sorted[bisect_left(self._sorted, start) :]:
            if not text.startswith(start):
                return
            yield text


_GRAMMARS: dict[int, _Grammar] = {}
_MAX_GRAMMARS = 64
"""Parsers that are kept: two for each of the releases that one command is compared with."""


def _grammar(options: Sequence[Option]) -> _Grammar:
    """The grammar of a parser, made once."""
    kept = _GRAMMARS.get(id(options))
    if kept is None or kept.options is not options:
        if len(_GRAMMARS) >= _MAX_GRAMMARS:
            _GRAMMARS.clear()
        kept = _GRAMMARS[id(options)] = _Grammar(options)
    return kept


class _Seen(NamedTuple):
    """What argparse sees in a word that looks like an option."""

    option: Option | None
    """None: there is none, or it is ambiguous."""
    string: str
    explicit: str | None
    """The value that stands in the same word."""
    shift: int
    """Characters of the token before that value."""


class _Parser:
    def __init__(
        self,
        words: Sequence[str | None],
        release: ReleaseData,
        entry: str,
        config: Mapping[str, Any] | None,
        environment: Mapping[str, str | None],
    ) -> None:
        self.words, self.release, self.entry = words, release, entry
        self.config, self.environment = config, environment
        self.grammar = _grammar(release.entries[entry])
        self.problems: list[Problem] = []
        self.roles: list[Role | None] = [None] * len(words)
        self.flags: dict[str, Any] = {}
        self.given: dict[str, list[int]] = {}
        self.hints = 0
        self.is_open: bool
        """Whether words that cannot be known, or a file that was not read, may hold more than is seen."""
        self.is_helped = False
        self.takes_first = entry == "serve" or release.features.get("api_server_model") != "ignored"
        """Whether the program takes its model from the first argument, where its parser has a place for it."""

    def parsed(self) -> Parsed:
        """The command, understood."""
        known = self.grammar.by_string
        rewritten = rewrite(self.words, self.release.features, self.entry, self.config, known.__contains__)
        self.is_open = rewritten.has_unread_file
        self._take_over(rewritten)
        self._match(rewritten.tokens)
        if self.is_helped:
            # The parser prints its help where it meets it, and tells of what is left over only at the end.
            self.problems = [each for each in self.problems if each.kind not in ("unknown", "extra-positional")]
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
            tuple(sorted(self.problems, key=lambda problem: (problem.word is None, problem.word or 0))),
            tuple(role or Role("lost") for role in self.roles),
            {dest: tuple(places) for dest, places in self.given.items()},
        )

    def _take_over(self, rewritten: Rewritten) -> None:
        """Roles and remarks of the words that the rewriting itself understood."""
        for word, (kind, string, option_word) in rewritten.taken.items():
            option = self.grammar.by_string.get(string)
            is_unknown = self.words[word] is None
            self.roles[word] = Role("unknown" if is_unknown else kind, option.name if option else string, option_word)
        for kind, word, option_word, string, says in rewritten.remarks:
            found = self.grammar.by_string.get(string)
            dest = found.dest if found else None
            self.problems.append(Problem(kind, word, option_word, found.name if found else string, dest, says))

    # ---- telling

    def _tell(self, kind: str, token: Token, option: Option, option_word: int | None, **says: str) -> None:
        self.problems.append(Problem(kind, token.word, option_word, option.name, option.dest, says))

    def _tell_unknown(self, token: Token, string: str) -> None:
        self.hints += 1
        near = alike(string, self.grammar.names) if self.hints <= _MAX_HINTS and len(string) <= _MAX_SHOWN else []
        says = {"near": " ".join(near)} if near else {}
        short = max((text for text in self.grammar.short if string.startswith(text)), key=len, default=None)
        if short is not None and not string.startswith("--"):
            # Only spellings of one letter may have their value glued to them.
            says = {"hint": "glued", "near": f"{short}={_cut((token.text or '')[len(short) :])}"}
        self.problems.append(Problem("unknown", token.word, token.word, string, None, says))

    def _role(self, token: Token, kind: str, option: Option | None = None, option_word: int | None = None) -> None:
        if self.roles[token.word] is None:
            told = option.name if option is not None and option.strings else None
            self.roles[token.word] = Role("unknown" if self.words[token.word] is None else kind, told, option_word)

    # ---- options and positionals

    def _match(self, tokens: list[Token]) -> None:
        """Give options and positionals their values, in the order in which argparse does."""
        end = next((at for at, token in enumerate(tokens) if token.text == "--"), len(tokens))
        seen = [self._seen(token) for token in tokens[:end]] + [None] * (len(tokens) - end)
        left = list(self.grammar.positionals)
        at, is_excused = 0, False
        while at < len(tokens) and not self.is_helped:
            found = seen[at]
            if found is not None:
                at = self._option(found, tokens, seen, at)
                is_excused = found.option is None and found.explicit is None
                continue
            run = at
            while at < len(tokens) and seen[at] is None:
                at += 1
            self._positionals(tokens[run:at], left, is_excused=is_excused)
            is_excused = False
        if self.is_helped or self.is_open:
            return
        missing = [option for option in left if option.nargs not in ("?", "*")]
        missing += [option for option in self.grammar.required if option.dest not in self.given]
        for option in missing:
            says = {"what": option.name}
            self.problems.append(Problem("required", None, None, option.name, option.dest, says))

    def _seen(self, token: Token) -> _Seen | None:
        """What a word is as an option; None for a value. Tells of options that do not exist or are ambiguous."""
        text, known = token.text, self.grammar.by_string
        if not text or text[0] != "-":
            return None
        if text in known:
            return _Seen(known[text], text, None, 0)
        if len(text) == 1:
            return None
        string, equals, value = text.partition("=")
        explicit = value if equals else None
        if equals and string in known:
            return _Seen(known[string], string, explicit, len(string) + 1)
        matches = list(islice(self._short_for(text, string, explicit), _MAX_HINTS))
        if len(matches) == 1:
            self._tell_short(token, matches[0], string)
            return matches[0]
        if matches:
            says = {"matches": " ".join(match.string for match in matches)}
            self.problems.append(Problem("ambiguous", token.word, token.word, string, None, says))
            return _Seen(None, string, explicit, 0)
        if (_NEGATIVE.fullmatch(text) and not self.grammar.has_negative) or " " in text:
            return None
        self._tell_unknown(token, string)
        return _Seen(None, string, explicit, 0)

    def _short_for(self, text: str, string: str, explicit: str | None) -> Iterator[_Seen]:
        """The options that a word may be short for."""
        known = self.grammar.by_string
        if text[1] == "-":
            for full in self.grammar.beginning(string):
                yield _Seen(known[full], full, explicit, len(string) + 1)
            return
        if text[:2] in known:
            yield _Seen(known[text[:2]], text[:2], text[2:], 2)
        for full in self.grammar.beginning(text):
            if full != text[:2]:
                yield _Seen(known[full], full, None, 0)

    def _tell_short(self, token: Token, found: _Seen, string: str) -> None:
        if found.option is not None and found.string.startswith(string):
            self._tell("abbreviation", token, found.option, token.word, full=found.string)

    def _option(self, found: _Seen, tokens: list[Token], seen: Sequence[_Seen | None], at: int) -> int:
        """Give one option its values; returns where to go on."""
        token = tokens[at]
        self._role(token, "option", found.option, token.word)
        found = self._unglued(found, token)
        option = found.option
        if option is None:
            return at + 1
        self._note(found, token)
        least, most = _counts(option.nargs)
        if found.explicit is not None:
            place = str(token.shift + found.shift)
            if most == 0:
                says = {"value": _cut(found.explicit), "at": place}
                self._tell("unexpected-value", token, option, token.word, **says)
            elif least > 1:
                self._tell("missing-value", token, option, token.word, expected=_expected(option.nargs))
            elif found.explicit == "--":
                # Versions of Python differ in whether this is a value or none.
                self.flags[option.dest] = UNKNOWN
            else:
                value = Token(found.explicit, token.word, token.shift + found.shift)
                self._set(option, [value], token, found.string)
            return at + 1
        end = at + 1
        while end < len(tokens) and end - at <= most and seen[end] is None and tokens[end].text != "--":
            end += 1
        if end - at - 1 < least:
            says = {"expected": _expected(option.nargs)}
            following = self.words[token.word + 1] if token.word + 1 < len(self.words) else None
            if following:
                says["next"] = _cut(following)
                says |= {"hint": "negative-number"} if _NEGATIVE.fullmatch(following) else {}
            self._tell("missing-value", token, option, token.word, **says)
            return end
        for value in tokens[at + 1 : end]:
            self._role(value, "value", option, token.word)
        self._set(option, tokens[at + 1 : end], token, found.string)
        return end

    def _unglued(self, found: _Seen, token: Token) -> _Seen:
        """The last of several short flags in one word (-ab is -a -b); those before it are noted."""
        explicit, start, done = found.explicit or "", found, 0
        while found.option is not None and found.option.nargs == 0 and done < len(explicit):
            more = f"-{explicit[done]}"
            inner = None if found.string.startswith("--") else self.grammar.by_string.get(more)
            if inner is None:
                break
            if not done or found.option is not inner:
                self._note(found, token)
                self._set(found.option, [], token, found.string)
            done += 1
            found = found._replace(option=inner, string=more)
        return found._replace(explicit=explicit[done:] or None, shift=start.shift + done) if done else found

    def _note(self, found: _Seen, token: Token) -> None:
        """Note that an option is given."""
        option = found.option
        if option is None:
            return
        if option.action == "_HelpAction":
            self.is_helped = True
        if option.deprecated:
            self._tell("deprecated", token, option, token.word)
        before = self.given.setdefault(option.dest, [])
        if before and before[-1] != token.word and option.action not in _REPEATABLE:
            self._tell("duplicate", token, option, token.word, first=str(before[-1]))
        before.append(token.word)

    def _positionals(self, run: list[Token], left: list[Option], *, is_excused: bool) -> None:
        """Give a run of words that no option takes to the positionals that are left; what remains is too much.

        After an option that does not exist (`is_excused`) a word is more likely its value than a fault of its own.
        """
        has_unknown = any(token.text is None and not token.is_made for token in run)
        self.is_open |= has_unknown
        waiting, separators = deque(run), 0
        while left and waiting:
            # A positional takes what separates it from options along with its value.
            while waiting and waiting[0].text == "--" and not separators:
                self._role(waiting.popleft(), "separator")
                separators += 1
            if not waiting and left[0].nargs not in ("?", "*"):
                break
            positional = left.pop(0)
            if waiting:
                self._take_positional(
                    positional, waiting.popleft(), left, is_lost=is_excused and len(waiting) + 1 == len(run)
                )
            if waiting and waiting[0].text == "--" and not separators:
                self._role(waiting.popleft(), "separator")
                separators += 1
        for at, token in enumerate(waiting):
            if at and (waiting[at - 1].text or "")[:1] in _DASHES:
                # The value of what was meant for an option.
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
            # It may be the value of the positional, or options, or nothing at all.
            self._role(token, "unknown")
            left.insert(0, positional)
            return
        is_model = positional.dest == _MODEL and self.takes_first
        self._role(token, "lost" if is_lost else "model" if is_model else "positional")
        self.given.setdefault(positional.dest, []).append(token.word)
        self._set(positional, [token], token, "")

    def _tell_ignored(self, model: Any) -> None:
        """Tell of a model in a place that the parser has and the program does not read."""
        loaded = self._current("model")
        if model is UNKNOWN or model == loaded:
            return
        word = self.given[_MODEL][-1]
        switch = self._switch_before(word)
        says = {"ignored": _cut(str(model))} | ({"loaded": _cut(loaded)} if isinstance(loaded, str) else {})
        says = {"switch": switch} if switch else says
        self.problems.append(Problem("model-ignored", word, None, None, "model", says))

    def _switch_before(self, word: int) -> str | None:
        """The switch that a yes or no stands behind as if it were its value; None: it is no such word."""
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
            # The blank in its value keeps argparse from seeing an option in it.
            self._tell_unknown(token, text.partition("=")[0])
            return
        if token.is_made and any(problem.word == token.word and problem.is_refusal for problem in self.problems):
            return
        model, first = self.flags.get(_MODEL), self.given.get(_MODEL, [0])[-1]
        if isinstance(model, str) and self.takes_first and self._switch_before(first):
            # What counts as the model was meant for a value, and this word for the model.
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
        """Tell of a yes or no that a switch is given; of one with a no it is not known what was meant."""
        text, switch = self.words[word] or "", self._switch_before(word) or ""
        if text.lower() in NO:
            self.flags[self.grammar.by_string[switch.replace("_", "-")].dest] = UNKNOWN
        says = {"value": _cut(text), "switch": switch}
        self.problems.append(Problem("extra-positional", word, None, None, None, says))

    # ---- values

    def _set(self, option: Option, values: list[Token], token: Token, string: str) -> None:
        """Convert the values of one option and keep them."""
        if option.nargs == 0:
            if option.action != "_HelpAction":
                self.flags[option.dest] = option.flag_values.get(string, option.const)
            return
        option_word = token.word if option.strings else None
        if not values:
            const = option.const
            self.flags[option.dest] = (
                {"True": True, "False": False}.get(const, const) if isinstance(const, str) else const
            )
            return
        read = [self._value(option, value, option_word) for value in values]
        result = read[0] if option.nargs in (None, "?") else read
        if option.action == "_AppendAction":
            result = [*self.flags.get(option.dest, []), result]
        self.flags[option.dest] = result

    def _value(self, option: Option, value: Token, option_word: int | None) -> Any:
        if value.text is None and not value.is_made:
            return UNKNOWN
        reader = Reader(self.release.objects, self.release.conversions)
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
        near = alike(str(result)[:_MAX_SHOWN], names, 1)
        says = {"choices": " ".join(names), "value": _cut(value.text or ""), "at": str(value.shift)}
        self._tell("wrong-choice", value, option, option_word, **says, **({"near": near[0]} if near else {}))

    def _tell_fault(self, option: Option, fault: ValueFault, value: Token, option_word: int | None) -> None:
        says = dict(fault.says)
        if "value" in says:
            says["value"] = _cut(says["value"])
        if fault.kind == "unknown-key":
            near = alike(str(fault.path[-1])[:_MAX_SHOWN], says.get("keys", "").split(), 1)
            says |= {"near": near[0]} if near else {}
        if value.is_made:
            part = _part(value.parts, fault.path)
            is_key = fault.kind == "unknown-key" and len(fault.path) <= len(part.path)
            word = part.word if is_key else part.value_word
            token, option_word = Token(self.words[word], word), part.word
        else:
            token = value
            at = json_keys.place(value.text or "", fault.path) if fault.path else int(says.get("at", "0"))
            says["at"] = str(value.shift + (at or 0))
        self._tell(fault.kind, token, option, option_word, **says)

    # ---- after parsing

    def _check(self) -> None:
        """What the release refuses once it has parsed the words."""
        values = Values(self._current, self.given.__contains__, self._variable)
        for check in self.release.checks:
            if not _is_true(holds(check["when"], values)):
                continue
            dests = list(dict.fromkeys(names(check["when"])))
            words = [self.given[dest][-1] for dest in dests if self.given.get(dest)]
            word = max(words, default=None)
            option = next((self.grammar.by_dest[dest] for dest in dests if word in self.given.get(dest, ())), None)
            says = {"message": check["says"], "dests": " ".join(dests)}
            name, dest = (option.name, option.dest) if option else (None, None)
            self.problems.append(Problem("conflict", word, word, name, dest, says))

    def _bound(self) -> None:
        """What the release refuses only when it starts; nothing more is told of what the parser refuses."""
        wrong = {problem.dest for problem in self.problems if problem.is_refusal}
        for found in refused(self.flags, self.release, is_whole=not self.is_open):
            words = {self.given[dest][-1]: dest for dest in found.dests if self.given.get(dest)}
            if words and wrong.isdisjoint(found.dests):
                word = max(words)
                option = self.grammar.by_dest.get(words[word])
                last = max(at for at, role in enumerate(self.roles) if at == word or _belongs(role, word))
                name = option.name if option else None
                self.problems.append(Problem("out-of-bounds", last, word, name, words[word], found.says))

    def _current(self, dest: str) -> Any:
        """The value of a dest after parsing; UNKNOWN where it cannot be known."""
        if dest == _ENTRY:
            return "serve" if self.entry == "serve" else None
        if dest in self.flags:
            return self.flags[dest]
        option = self.grammar.by_dest.get(dest)
        is_known = option is not None and not self.is_open and not isinstance(option.default, dict)
        return option.default if option is not None and is_known else UNKNOWN

    def _variable(self, name: str) -> Any:
        """The value that the release reads from an environment variable; UNKNOWN where it cannot be known."""
        variable = self.release.environment.get(name)
        if variable is None:
            return UNKNOWN
        if name not in self.environment:
            return UNKNOWN if isinstance(variable.default, dict) else variable.default
        text = self.environment[name]
        if text is None or not isinstance(variable.default, bool):
            return UNKNOWN if text is None else text
        return text in variable.true


def _belongs(role: Role | None, option_word: int) -> bool:
    return role is not None and role.kind == "value" and role.option_word == option_word


def _is_true(value: Any) -> bool:
    return value is not UNKNOWN and bool(value)


def _counts(nargs: int | str | None) -> tuple[int, int]:
    """The fewest and the most values that an option takes."""
    if isinstance(nargs, int):
        return nargs, nargs
    return {None: (1, 1), "?": (0, 1), "*": (0, sys.maxsize)}.get(nargs, (1, sys.maxsize))


def _expected(nargs: int | str | None) -> str:
    if isinstance(nargs, int):
        return f"{nargs} values"
    return {None: "one value", "?": "at most one value", "*": "values"}.get(nargs, "at least one value")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _part(parts: Sequence[Part], path: Sequence[str | int]) -> Part:
    """The key given by itself that a place in the JSON belongs to."""
    steps = tuple(map(str, path))
    return max(reversed(parts), key=lambda part: _shared(part.path, steps))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
