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
OVERLAP = 1536
"""Characters shared by neighbouring windows; no pattern may match more."""
MAX_WAYS = 100_000
"""Ways in which the wide gaps of one pattern may share a text between them: what `re` may have to try at one place."""
SET_AFTER = 2000
"""Windows that are tried by the patterns' words before RE2's set is worth compiling (60 ms for 150 patterns)."""
_GAP = "[ \\t]{0,4}"
_WIDE = 9
"""A repeat of more than so many characters is a wide gap."""
_MAX_MEM = 64 << 20
_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<\w{1,60}>|\(\?:|\{\d{0,4},?\d{0,4}\}|.", re.DOTALL)
_REPEAT = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")


def _signs(pattern: str) -> list[str]:
    """Escapes, classes, openings of groups, repeats and single characters of a pattern."""
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
    (r" (?:[?*+]|\{\d)", "a repeated blank: one blank already stands for any blank space"),
)
_ODD_CLASS = re.compile(r"\[.*(?:\[|--|&&|~~|\|\|)", re.DOTALL)


def faults(pattern: str) -> list[str]:
    """Why a pattern may not be used; empty when it may.

    What both engines must agree on is kept to the subset that they share. `re` stays linear because the text is cut
    into windows, every repeat is bounded, and the bounds together allow few ways to share a window.
    """
    signs = _signs(pattern)
    bare = "".join(
        "[x]" if sign[0] == "[" and len(sign) > 1 else "x" if sign[0] == "\\" and not sign[1:].isalnum() else sign
        for sign in signs
    )
    found = [f"uses {why}" for refused, why in _REFUSED if re.search(refused, bare)]
    if any(_ODD_CLASS.match(sign) for sign in signs if sign[0] == "[" and len(sign) > 1):
        found.append("uses a set operation or a named class, which re and RE2 read differently")
    found += [
        f"a repeat of up to {most}: at most 200" for most in re.findall(r"\{\d*,(\d+)\}", bare) if int(most) > 200
    ]
    if found:
        return found
    try:
        compiled = re.compile(expand(pattern), re.ASCII)
    except re.error as error:
        return [f"is not a regular expression: {error}"]
    width, ways = _size(signs)
    if width > OVERLAP:
        found.append(f"matches up to {width} characters: at most {OVERLAP}")
    if ways > MAX_WAYS:
        found.append("has too many wide gaps: narrow them, or keep at most two of {0,200}")
    if compiled.search(""):
        found.append("matches the empty text")
    elif not pattern.startswith("^") and not _literals(pattern):
        found.append("needs a word of at least three signs outside of groups, to look for first (or a leading ^)")
    return found


def _size(signs: list[str]) -> tuple[int, int]:
    """Longest match of a pattern in characters, and the ways in which its wide gaps can share a text.

    A gap inside an optional group is not counted: where nothing needed follows the group, it is tried once and skipped.
    A group that is repeated must not hold a variable repeat itself, or its ways grow with every turn.
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


def _literals(pattern: str) -> tuple[str, ...]:
    """Words that every match must contain: the literal runs outside groups, classes, alternatives and options."""
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
    return tuple(sorted({w for w in words if len(w) >= 3}, key=len, reverse=True)[:3])


def _is_literal(sign: str) -> bool:
    """Whether a sign stands for one character, itself."""
    return not sign[1:].isalnum() if sign[0] == "\\" else len(sign) == 1 and sign not in " .^?*+"


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
    """Named groups that took part, in the pattern's order."""


class PatternSet:
    """Patterns compiled together; `find` names those that match a text, each with its first match."""

    def __init__(self, patterns: Sequence[str], *, engine: str | None = None) -> None:
        """Compile lazily; `engine` "re" leaves google-re2 aside even where it is installed."""
        self.patterns = tuple(patterns)
        self._re2 = _re2() if engine != "re" else None
        self._searches: dict[int, tuple[Callable[[str, int], Any], list[str]]] = {}
        self._words: list[tuple[int, tuple[str, ...]]] = []
        self._set: Any = None
        self._windows = 0

    def _candidates(self, window: str) -> Sequence[int]:
        """Indices of the patterns that may match: by their words, in a long text by a set of RE2."""
        self._windows += 1
        if self._re2 and self._windows > SET_AFTER:
            self._set = self._set or _compiled_set(self._re2, self.patterns)
            return sorted(self._set.Match(window) or ())
        self._words = self._words or [(index, _literals(pattern)) for index, pattern in enumerate(self.patterns)]
        return [index for index, words in self._words if all(word in window for word in words)]

    def _search(self, index: int) -> tuple[Callable[[str, int], Any], list[str]]:
        """What searches for a pattern, and the names of its groups in order: RE2 has an order of its own."""
        if index not in self._searches:
            source = expand(self.patterns[index])
            compiled = self._re2.compile(source, _options(self._re2)) if self._re2 else re.compile(source, re.ASCII)
            self._searches[index] = compiled.search, sorted(compiled.groupindex, key=compiled.groupindex.__getitem__)
        return self._searches[index]

    def find(self, text: str) -> Iterator[Found]:
        """Yield the first match of every pattern that matches, in order of the patterns within a window."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is no text for RE2
        if len(text) <= WINDOW:
            yield from self._find(text, 0, WINDOW)
            return
        seen: set[int] = set()
        step = WINDOW - OVERLAP
        for start in range(0, len(text) - OVERLAP, step):
            # One character more in front, so that ^ and \b see what stands before; a match that begins in the overlap
            # is the next window's, which holds all of it.
            lead = min(start, 1)
            own = lead + (step if start + WINDOW < len(text) else WINDOW)
            for found in self._find(text[start - lead : start + WINDOW], lead, own):
                if found.pattern not in seen:
                    seen.add(found.pattern)
                    shift = start - lead
                    yield Found(found.pattern, shift + found.start, shift + found.end, found.groups)

    def _find(self, window: str, lead: int, own: int) -> Iterator[Found]:
        for index in self._candidates(window):
            search, names = self._search(index)
            match = search(window, lead)
            if match and match.start() < own:
                said = match.groupdict()
                groups = {name: said[name] for name in names if said[name] is not None}
                yield Found(index, match.start(), match.end(), groups)


def _options(re2: Any) -> Any:
    options = re2.Options()
    options.max_mem = _MAX_MEM
    options.log_errors = False
    return options


def _compiled_set(re2: Any, patterns: Sequence[str]) -> Any:
    chosen = re2.Set.SearchSet(_options(re2))
    for pattern in patterns:
        chosen.Add(expand(pattern))
    chosen.Compile()
    return chosen
