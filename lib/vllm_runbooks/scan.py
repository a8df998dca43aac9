"""Find many patterns in hostile text, in time linear in the text.

A pattern is written in the common subset of RE2 and Python's `re`. A blank in it stands for any blank space of up to
four characters, or none: logs are glued, re-wrapped and pasted, and a message keeps its meaning. google-re2 decides
where it is installed; elsewhere (a browser) `re` gives the same answers behind a literal prefilter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

WINDOW = 4096
"""Longest piece of text, in characters, that one pattern is tried on."""
OVERLAP = 1024
"""Characters shared by neighbouring windows; no pattern may match more."""
_GAP = "[ \\t]{0,4}"
_MAX_MEM = 64 << 20


def expand(pattern: str) -> str:
    """The regular expression of a pattern: every blank outside a character class becomes an optional gap."""
    out: list[str] = []
    in_class = escaped = False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == " ":
            out.append(_GAP)
            continue
        out.append(character)
    return "".join(out)


_UNSAFE = (
    (r"\(\?[^P:]", "groups other than (?:…) and (?P<name>…), look-around and flags"),
    (r"\\[1-9]", "back-references"),
    (r"\\[ZAzGKQE]", "\\A, \\Z and their like"),
    (r"(?<!\\)\$", "the anchor $"),
    (r"\((?!\?)", "groups without a name: write (?:…) or (?P<name>…)"),
    (r"(?:\)|\])(?:[*+]|\{\d+,\})", "an unbounded repeat of a group or class: bound it, {1,80} for example"),
    (r"\\[dwsDWS.](?:[*+]|\{\d+,\})", "an unbounded repeat: bound it, \\d{1,12} for example"),
    (r"(?<!\\)\.(?:[*+]|\{\d+,\})", "an unbounded gap: write .{0,80}"),
    (r"[A-Za-z0-9_ ](?:[*+]|\{\d+,\})", "an unbounded repeat"),
    (r" [?*+{]", "a repeated blank: one blank already stands for any blank space"),
)


def faults(pattern: str) -> list[str]:
    """Why a pattern may not be used; empty when it may.

    Bounded repeats alone keep `re` linear here, since the text is cut into windows; what both engines must agree on is
    kept to the subset that they share.
    """
    found = []
    bare = re.sub(r"\\[^A-Za-z0-9]", "x", pattern)
    bare = re.sub(r"\[\^?\]?(?:\\.|[^\]\\])*\]", "[x]", bare)
    for unsafe, why in _UNSAFE:
        if re.search(unsafe, bare):
            found.append(f"uses {why}")
    for gap in re.findall(r"\{\d*,(\d+)\}", bare):
        if int(gap) > 200:
            found.append(f"a repeat of up to {gap}: at most 200")
    if not found:
        try:
            compiled = re.compile(expand(pattern), re.ASCII)
        except re.error as error:
            return [f"is not a regular expression: {error}"]
        if compiled.search(""):
            found.append("matches the empty text")
        elif not pattern.startswith("^") and not _literals(pattern):
            found.append("needs a word of at least three signs outside of groups, to look for first (or a leading ^)")
    return found


def _literals(pattern: str) -> tuple[str, ...]:
    """Words that every match must contain: the literal runs outside groups, classes, alternatives and options."""
    if "|" in re.sub(r"\\.|\[[^\]]*\]|\((?:[^()]|\([^()]*\))*\)", "", pattern):
        return ()
    words: list[str] = []
    word: list[str] = []
    depth, position = 0, 0
    while position < len(pattern):
        character = pattern[position]
        step = 1
        literal = None
        if character == "\\":
            step = 2
            follower = pattern[position + 1 : position + 2]
            literal = follower if not follower.isalnum() else None
        elif character == "[":
            closing = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]").match(pattern, position)
            step = closing.end() - position if closing else 1
        elif character == "{":
            step = pattern.index("}", position) - position + 1 if "}" in pattern[position:] else 1
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character not in " .^*+?|":
            literal = character
        follower = pattern[position + step : position + step + 1]
        if literal is not None and depth == 0 and follower not in ("?", "*", "{"):
            word.append(literal)
        else:
            words.append("".join(word))
            word = []
        position += step
    words.append("".join(word))
    return tuple(sorted({w for w in words if len(w) >= 3}, key=len, reverse=True)[:3])


@cache
def _re2() -> Any | None:
    try:
        import re2  # noqa: PLC0415 - optional: absent in a browser
    except ImportError:
        return None
    return re2


class Found(NamedTuple):
    """The first match of one pattern in a text."""

    pattern: int
    """Index of the pattern."""
    start: int
    end: int
    groups: dict[str, str]
    """Named groups that took part."""


class PatternSet:
    """Patterns compiled together; `find` names those that match a text, each with its first match."""

    def __init__(self, patterns: Sequence[str], *, engine: str | None = None) -> None:
        """Compile lazily; `engine` "re" leaves google-re2 aside even where it is installed."""
        self.patterns = tuple(patterns)
        self._engine = _re2() if engine != "re" else None
        self._compiled: dict[int, Any] = {}
        self._set = self._compile_set() if self._engine and self.patterns else None
        self._words = None if self._engine else [_literals(p) for p in self.patterns]

    def _options(self) -> Any:
        assert self._engine is not None  # noqa: S101 - narrows the type
        options = self._engine.Options()
        options.max_mem = _MAX_MEM
        options.log_errors = False
        return options

    def _compile_set(self) -> Any:
        assert self._engine is not None  # noqa: S101 - narrows the type
        chosen = self._engine.Set.SearchSet(self._options())
        for pattern in self.patterns:
            chosen.Add(expand(pattern))
        chosen.Compile()
        return chosen

    def _search(self, index: int) -> Callable[[str], Any]:
        if index not in self._compiled:
            source = expand(self.patterns[index])
            if self._engine:
                self._compiled[index] = self._engine.compile(source, self._options())
            else:
                self._compiled[index] = re.compile(source, re.ASCII)
        search: Callable[[str], Any] = self._compiled[index].search
        return search

    def find(self, text: str) -> Iterator[Found]:
        """Yield the first match of every pattern that matches, in order of the patterns within a window."""
        if len(text) <= WINDOW:
            yield from self._find(text, 0)
            return
        seen: set[int] = set()
        for start in range(0, len(text), WINDOW - OVERLAP):
            for found in self._find(text[start : start + WINDOW], start):
                if found.pattern not in seen:
                    seen.add(found.pattern)
                    yield found

    def _find(self, text: str, shift: int) -> Iterator[Found]:
        if self._set is not None:
            candidates = sorted(self._set.Match(text) or ())
        else:
            words = self._words or []
            candidates = [i for i, needed in enumerate(words) if all(word in text for word in needed)]
        for index in candidates:
            match = self._search(index)(text)
            if match:
                groups = {name: value for name, value in match.groupdict().items() if value is not None}
                yield Found(index, shift + match.start(), shift + match.end(), groups)
