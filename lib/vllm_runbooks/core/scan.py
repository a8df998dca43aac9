"""Find many patterns in untrusted text, in time linear in the text.

A pattern is written in the common subset of RE2 and Python's `re`. A blank in it matches up to four
blanks, or none: pasted logs lose blanks and line breaks. Without google-re2 (in a browser) `re`
gives the same results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

WINDOW = 4096
"""Longest piece of text, in characters, that one pattern is tried on."""
OVERLAP = 1536
"""Characters shared by neighbouring windows; no pattern may match more."""
MAX_WAYS = 100_000
"""Maximum number of ways in which the wide gaps of a pattern can divide a text, which `re` may have
to try at one position."""
_FEW = 24
"""Up to this number, patterns are searched by their words one after another; beyond it in one
pass."""
_SHORT, _OFTEN = 512, 64
"""Characters of a short line, and searches after which a pattern is frequent."""
_GROUP_NAME = re.compile(r"(?<!\\)\(\?P<(\w{1,60})>")
_MAX_MEM = 64 << 20
"""Maximum memory of RE2 for one pattern or one set of words, in bytes; allocated as needed."""
_GAP = "[ \\t]{0,4}"
_WIDE = 9
"""A repeat of more characters than this is a wide gap."""
_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w{1,60}>|\(\?:|\{\d{0,4},?\d{0,4}\}|.", re.DOTALL)
_REPEAT = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")


def _signs(pattern: str) -> list[str]:
    return _SIGN.findall(pattern)


def expand(pattern: str) -> str:
    """The regular expression of a pattern: every blank outside a character class becomes an optional gap."""
    return "".join(_GAP if sign == " " else sign for sign in _signs(pattern))


_REFUSED = (
    (r"\(\?(?!:|P<)", "groups other than (?:…) and (?P<name>…), look-around and flags"),
    (r"\\[0-9]", "back-references"),
    (r"\\[ACEGKNPQUXZpuz]", "an escape that re and RE2 read differently, such as \\A, \\Z, \\Q or \\u"),
    (r"(?<!\\)\$", "the anchor $"),
    (r"\((?!\?)", "groups without a name: write (?:…) or (?P<name>…)"),
    (r"\{,", "a repeat without a lower bound: write {0,80}"),
    (r"(?:[?*+]|\})\+", "a possessive repeat, which RE2 lacks"),
    (r"(?:\)|\])(?:[*+]|\{\d+,\})", "an unbounded repeat of a group or class: bound it, {1,80} for example"),
    (r"\\[dwsDWS](?:[*+]|\{\d+,\})", "an unbounded repeat: bound it, \\d{1,12} for example"),
    (r"(?<!\\)\.(?:[*+]|\{\d+,\})", "an unbounded gap: write .{0,80}"),
    (r"[A-Za-z0-9_ ](?:[*+]|\{\d+,\})", "an unbounded repeat"),
    (r" (?:[?*+]|\{\d)", "a repeated blank: one blank already matches any blank space"),
)
_ODD_CLASS = re.compile(r"\[.*(?:\[|--|&&|~~|\|\|)", re.DOTALL)


def faults(pattern: str) -> list[str]:
    """Reasons why a pattern may not be used: both engines must agree on it, and `re` must stay linear."""
    signs = _signs(pattern)
    bare = "".join(
        "[x]" if sign[0] == "[" and sign != "[" else "x" if sign[0] == "\\" and not sign[1:].isalnum() else sign
        for sign in signs
    )
    problems = [f"uses {why}" for refused, why in _REFUSED if re.search(refused, bare)]
    if any(_ODD_CLASS.match(sign) for sign in signs if sign[0] == "[" and sign != "["):
        problems.append("uses a set operation or a named class, which re and RE2 read differently")
    problems += [
        f"a repeat of up to {most}: at most 200" for most in re.findall(r"\{\d*,(\d+)\}", bare) if int(most) > 200
    ]
    if problems:
        return problems
    try:
        compiled = re.compile(expand(pattern), re.ASCII)
    except re.error as error:
        return [f"is not a regular expression: {error}"]
    width, ways = _size(signs)
    if width > OVERLAP:
        problems.append(f"matches up to {width} characters: at most {OVERLAP}")
    if ways > MAX_WAYS:
        problems.append("has too many wide gaps: narrow them, or keep at most two of {0,200}")
    if compiled.search(""):
        problems.append("matches the empty text")
    elif not pattern.startswith("^") and not literals(pattern):
        problems.append("needs a word of at least three signs outside of groups, to look for first (or a leading ^)")
    return problems


def _size(signs: list[str]) -> tuple[int, int]:
    """Longest match of a pattern in characters, and the number of ways to fill its wide gaps.

    A gap inside an optional group is not counted: if nothing required follows the group, it is
    tried once and skipped. A repeated group must not contain a variable repeat, or the number grows
    with every repetition.
    """
    levels = [[_Size()]]
    item, gap = _Size(), ""
    for sign in (*signs, ""):
        repeat = _REPEAT.fullmatch(sign)
        if repeat or sign == "?":
            least, most = (int(repeat[1]), int(repeat[3] if repeat[2] else repeat[1])) if repeat else (0, 1)
            ways = 1 if least == 0 and most == 1 else item.ways
            if most - least > _WIDE and (gap in (".", "\\S", "\\D", "\\W") or gap[:2] == "[^"):
                ways *= most - least + 1
            if most > 2 and item.varies:
                ways = MAX_WAYS + 1
            item = _Size(item.width * most, ways, varies=item.varies or least != most)
            continue
        done = levels[-1][-1]
        levels[-1][-1] = _Size(done.width + item.width, done.ways * item.ways, varies=done.varies or item.varies)
        item, gap = _Size(), sign
        if sign.startswith("(?"):
            levels.append([_Size()])
        elif sign == "|":
            levels[-1].append(_Size())
        elif sign == ")":
            item = _widest(levels.pop())
        elif sign not in ("", "^", "\\b", "\\B"):
            item = _Size(4 if sign == " " else 1)
    size = _widest(levels[0])
    return size.width, size.ways


class _Size(NamedTuple):
    width: int = 0
    ways: int = 1
    varies: bool = False


def _widest(branches: list[_Size]) -> _Size:
    return _Size(max(b.width for b in branches), max(b.ways for b in branches), varies=any(b.varies for b in branches))


def literals(pattern: str) -> tuple[str, ...]:
    """Words in every match: literal runs outside groups, classes, alternatives and options."""
    words, word, depth = [""], "", 0
    signs = _signs(pattern)
    for sign, follower in zip(signs, [*signs[1:], ""], strict=True):
        if sign == "|" and depth == 0:
            return ()
        if sign[0] == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif _is_literal(sign) and depth == 0 and follower[:1] not in ("?", "*", "{"):
            word += sign[-1]
            continue
        words.append(word)
        word = ""
    words.append(word)
    return tuple(sorted(dict.fromkeys(w for w in words if len(w) >= 3), key=len, reverse=True)[:3])


def _alternatives(pattern: str) -> tuple[str, ...]:
    """Words of which every match has one: one per branch of a group; empty if no group has them."""
    branches: list[list[str]] = []
    depth = 0
    signs = _signs(pattern)
    for sign, follower in zip(signs, [*signs[1:], ""], strict=True):
        if sign == "|" and depth == 0:
            return ()
        if sign == ")":
            depth -= 1
            words = [literals("".join(branch)) for branch in branches]
            if depth == 0 and follower[:1] not in ("?", "{") and all(words):
                return tuple(dict.fromkeys(some[0] for some in words))
        if depth and branches:
            if sign == "|" and depth == 1:
                branches.append([])
            else:
                branches[-1].append(sign)
        if sign[0] == "(":
            depth += 1
            branches = branches if depth > 1 else [[]]
    return ()


def _is_literal(sign: str) -> bool:
    return not sign[1:].isalnum() if sign[0] == "\\" else len(sign) == 1 and sign not in " .^?*+"


@cache
def _re2() -> Any | None:
    try:
        import re2
    except ImportError:
        return None
    return re2


class PatternMatch(NamedTuple):
    """The first match of one pattern in a text."""

    pattern: int
    """Index of the pattern."""
    start: int
    end: int
    groups: dict[str, str]
    """Named groups that took part, in the pattern's order."""


class WordSet:
    """Words that are searched in one pass; with google-re2 their number does not matter."""

    def __init__(self, words: Sequence[str], *, engine: str | None = None) -> None:
        """Compile lazily; `engine` "re" ignores an installed google-re2."""
        self.words = tuple(words)
        self._engine = engine

    @cached_property
    def _set(self) -> Any | None:
        re2 = _re2() if self._engine != "re" and self.words else None
        if re2 is None:
            return None
        # Words only: a set of whole patterns with gaps exceeds RE2's memory, and RE2 then silently
        # finds nothing.
        chosen = re2.Set.SearchSet(_options(re2))
        try:
            for word in self.words:
                chosen.Add(re2.escape(word))
            chosen.Compile()
        except re2.error:  # too many words for its memory
            return None
        return chosen

    def present(self, text: str) -> list[str]:
        """Words in a text, in any order."""
        if self._set is None:
            return [word for word in self.words if word in text]
        return [self.words[index] for index in self._set.Match(_encodable(text)) or ()]


@dataclass
class _Search:
    source: str
    uses: int = 0
    """Searches by RE2."""
    by_re2: Callable[[str, int], Any] | None = None

    @cached_property
    def by_re(self) -> Callable[[str, int], Any]:
        return re.compile(self.source, re.ASCII).search

    @cached_property
    def names(self) -> Sequence[str]:
        """Names of the groups in their order, which differs in RE2."""
        return _GROUP_NAME.findall(self.source)


class PatternSet:
    """Patterns that are searched together; `find` returns the first match of each."""

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        engine: str | None = None,
        known: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Compile lazily; `engine` "re" ignores an installed google-re2, `known` has `literals` of patterns."""
        self.patterns = tuple(patterns)
        self._known = known
        self._re2 = _re2() if engine != "re" else None
        self._searches: dict[int, _Search] = {}

    @cached_property
    def _words(self) -> list[tuple[str, ...]]:
        """Words of every match of each pattern, the rarest among all patterns first."""
        known = self._known
        words = [known[pattern] if pattern in known else literals(pattern) for pattern in self.patterns]
        often = Counter(word for some in words for word in some)
        return [tuple(sorted(some, key=often.__getitem__)) for some in words]

    @cached_property
    def _first_words(self) -> list[str]:
        return [words[0] if words else "" for words in self._words]

    @cached_property
    def _either(self) -> list[tuple[str, ...]]:
        """For patterns without a common word, words of which every match has one."""
        return [() if words else _alternatives(p) for p, words in zip(self.patterns, self._words, strict=True)]

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for index, word in enumerate(self._first_words):
            for either in self._either[index] or (word,):
                table.setdefault(either, []).append(index)
        return table

    @cached_property
    def _wordlist(self) -> WordSet:
        return WordSet([word for word in self._by_word if word], engine="re" if self._re2 is None else None)

    def candidates(self, text: str) -> Sequence[int]:
        """Indices of the patterns whose word is in a text of any length, for `among` of `find`."""
        indices = list(self._by_word.get("", ()))
        for word in self._wordlist.present(text):
            indices += self._by_word[word]
        return sorted(set(indices))

    def _search(self, index: int, length: int) -> tuple[Callable[[str, int], Any], Sequence[str]]:
        search = self._searches.get(index) or self._searches.setdefault(index, _Search(expand(self.patterns[index])))
        if self._re2 is None or (length <= _SHORT and search.uses >= _OFTEN):
            return search.by_re, search.names
        search.uses += 1
        search.by_re2 = search.by_re2 or self._re2.compile(search.source, _options(self._re2)).search
        return search.by_re2, search.names

    def find(self, text: str, among: Sequence[int] | None = None) -> list[PatternMatch]:
        """First match of every matching pattern, in order of the patterns within a window.

        `among` restricts the patterns, if `candidates` returned them for a text that includes this
        one.
        """
        if among is None or len(among) > _FEW:
            among = self.candidates(text)
        first = self._first_words
        among = [index for index in among if first[index] in text]
        if not among:
            return []
        text = _encodable(text)
        if len(text) <= WINDOW:
            return self._find(text, 0, WINDOW, among)
        matches: dict[int, PatternMatch] = {}
        step = WINDOW - OVERLAP
        for start in range(0, len(text) - OVERLAP, step):
            # One more character before it, so that ^ and \b see the preceding text; a match that
            # begins in the overlap belongs to the next window, which contains all of it.
            lead = min(start, 1)
            limit = lead + (step if start + WINDOW < len(text) else WINDOW)
            shift = start - lead
            for index, begin, end, groups in self._find(text[shift : start + WINDOW], lead, limit, among):
                matches.setdefault(index, PatternMatch(index, shift + begin, shift + end, groups))
        return list(matches.values())

    def _find(self, window: str, lead: int, limit: int, among: Sequence[int]) -> list[PatternMatch]:
        matches = []
        for index in among:
            words, either = self._words[index], self._either[index]
            # Lists: quicker than generators here.
            if not all([word in window for word in words]) or (either and not any([w in window for w in either])):
                continue
            search, names = self._search(index, len(window))
            match = search(window, lead)
            if match and match.start() < limit:
                values = match.groupdict() if names else {}
                groups = {name: values[name] for name in names if values[name] is not None}
                matches.append(PatternMatch(index, match.start(), match.end(), groups))
        return matches


def _encodable(text: str) -> str:
    """Text without lone surrogates, which RE2 cannot read."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _options(re2: Any) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEM
    return options
