"""Mistakes in a shell script that bash accepts or misreads, with the edits that fix them.

Two passes: first characters that no shell knows (typographic quotes and dashes, non-breaking
spaces, carriage returns, prompts), then errors in lines and words of the corrected text. One round
of edits fixes both.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Excerpt, Replacement
from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.values import ScriptRun
from vllm_runbooks.reading.shell.word_lists import word_list


@dataclass(frozen=True)
class Trouble:
    """A part that bash rejects or misreads; offsets in the file."""

    kind: str
    start: int
    end: int
    says: Mapping[str, str]
    """Named details: what bash does, and the lost part."""
    edits: tuple[Replacement, ...] = ()


Place = Callable[[int], int]
"""The index in the text of the character at an offset of the file, or of the one after it."""
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_NOTHINGS = "\u200b\u200c\u200d\u2060\ufeff"
_BLANK_SIGN = re.compile(f"[{_SPACES}]+|[{_NOTHINGS}]+")
_DOUBLE_QUOTES, _SINGLE_QUOTES = (
    "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02",
    "\u2018\u2019\u201a\u201b\u2039\u203a\uff07",
)
_QUOTE_SIGN = re.compile(f"[{_DOUBLE_QUOTES}{_SINGLE_QUOTES}]")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_DASH_SIGN = re.compile(rf"(?<!\S)-?[{_DASHES}][-{_DASHES}]{{0,3}}(?=[A-Za-z])")
_ONE_LETTER = re.compile(r"[A-Za-z](?![\w.-])")
_RETURNS = re.compile(r"\r+(?=\n|\Z)")
_PROMPT = re.compile(
    r"[ \t]{0,16}((?:\([\w.-]{1,40}\)[ \t]*)?"
    r"(?:[$%]|\[?[\w.-]{1,40}@[\w.-]{1,60}(?:[: ][^\s$#%\]]{0,120})?\]?[$#%]|>>>)[ \t]+)(?=[^\s=])"
)
_MORE_PROMPT = re.compile(r"[ \t]{0,16}(>[ \t])(?=[ \t]*-)")
"""The prompt of a continued line before an option: before anything else it may send the output to a file."""
_START = (
    r"(?:(?:[\w.~$/-]{0,200}/)?vllm[ \t]+(?:serve|run-batch|bench)\b"
    r"|(?:[\w.~$/-]{0,200}/)?python[\d.]{0,5}[ \t]+-m[ \t]+vllm\b|(?:docker|podman|nerdctl)[ \t]+run[ \t])"
)
_FIRST_MORE_PROMPT = re.compile(
    rf"[ \t]{{0,16}}(>[ \t])"
    rf"(?=[ \t]*(?:(?:[A-Za-z_]\w{{0,80}}=[^\s\"'`]{{0,200}}|sudo|nohup|exec|env|time)[ \t]+){{0,20}}{_START})"
)
"""Text before a command that would not follow a redirection: with `vllm` as its file, the command
would be `serve`."""
_BESIDE_MORE_PROMPT = re.compile(
    r"[ \t]{0,16}(>[ \t]+)(?=(?:export|cd|source|pip3?|conda|unset|ulimit|mkdir)[ \t]|[A-Za-z_]\w{0,80}=|#)"
)
"""Text before another input of the same session."""
_ANY_MORE_PROMPT = re.compile(r"[ \t]{0,16}(>(?:[ \t]|$))", re.MULTILINE)
_SWALLOWED = re.compile(rf"(?:sudo|nohup|exec|env|time)\b|{_START}")
_OPTION = re.compile(r"--?[A-Za-z]")
_OPERATOR_END = re.compile(r"(?:&&|\||;|&|\(|\{|\bdo|\bthen|\belse)[ \t]*\Z")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_ALMOST_NAME = re.compile(r"(\$?[A-Za-z0-9_][A-Za-z0-9_.-]*)=", re.ASCII)
_JSON_VALUE = re.compile(r"(--?[\w.-]+=|[A-Za-z_]\w*=)?(?=[\[{])", re.ASCII)
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_KEPT_BLANK = re.compile(r"\\[ \t]+(?=--?[A-Za-z])")
_LONGEST_JSON = 20_000  # characters of a value that are tried as JSON
_MOST_PIECES = 32  # words that are tried together as one JSON value
_SHOWN = 120  # characters of the script that a detail repeats


def find(source: Excerpt, tree: syntax.Syntax, done: ScriptRun) -> list[Trouble]:
    """All troubles of a script that has been read and worked out, in order."""
    signs = list(_signs(source.text, tree))
    faults = [Trouble(fault.kind, fault.start, fault.end, fault.says) for fault in tree.faults]
    troubles = [_placed(trouble, source) for trouble in (*signs, *faults)]
    fixed, fixed_tree = source, tree
    edits = sorted({edit for trouble in signs for edit in trouble.edits})
    if edits:
        fixed = _fixed(source, edits)
        fixed_tree = syntax.read(fixed)
    written = (*_lines(fixed.text, fixed_tree), *_words(fixed, fixed_tree, _delivered(done)))
    troubles += [_placed(trouble, fixed) for trouble in written]
    if done.too_much:
        troubles.append(Trouble("too-much", done.too_much[1], done.too_much[1] + 1, {"what": done.too_much[0]}))
    troubles += _unwatched(done)
    return sorted(troubles, key=lambda trouble: (trouble.start, trouble.end, trouble.kind))


def _placed(trouble: Trouble, source: Excerpt) -> Trouble:

    def span(start: int, end: int) -> tuple[int, int]:
        start, end = min(start, len(source.text)), min(end, len(source.text))
        return source.at[start], (source.at[end - 1] + 1 if end > start else source.at[start])

    edits = tuple(Replacement(*span(edit.start, edit.end), edit.new_text) for edit in trouble.edits)
    return Trouble(trouble.kind, *span(trouble.start, trouble.end), trouble.says, edits)


def _fixed(source: Excerpt, edits: Sequence[Replacement]) -> Excerpt:
    """The text after edits, each character with the offset of the replaced one."""
    pieces: list[str] = []
    at: list[int] = []
    done = 0
    for start, end, new_text in edits:
        if start < done:
            continue
        pieces += [source.text[done:start], new_text]
        at += source.at[done:start]
        at += [source.at[min(start + i, max(end - 1, start))] for i in range(len(new_text))]
        done = end
    return Excerpt("".join([*pieces, source.text[done:]]), [*at, *source.at[done:]])


class Spans:
    """Ranges of a text, with lookup by index."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def around(self, index: int) -> tuple[int, int] | None:
        """The range that includes an index."""
        place = bisect_right(self._starts, index) - 1
        return (self._starts[place], self._ends[place]) if place >= 0 and index < self._ends[place] else None


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


# Signs


def _signs(text: str, tree: syntax.Syntax) -> Iterator[Trouble]:
    literal = Spans([*tree.quotes, *tree.documents, *tree.comments])
    quotes = Spans(tree.quotes)
    if returns := [match.span() for match in _RETURNS.finditer(text)]:
        edits = tuple(Replacement(start, end, "") for start, end in returns)
        yield Trouble("carriage-returns", *returns[0], {"lines": str(len(returns))}, edits)
    if not text.isascii():
        yield from _by_line(text, "no-break-space", _sign_edits(text, literal, _BLANK_SIGN))
        yield from _quote_signs(text, literal, quotes)
        yield from _by_line(text, "typographic-dash", _sign_edits(text, literal, _DASH_SIGN))
    yield from _prompts(text, Spans([*tree.quotes, *tree.documents]))


def _by_line(text: str, kind: str, edits: Iterable[Replacement]) -> Iterator[Trouble]:
    ends = [match.start() for match in re.finditer("\n", text)]
    for _, group in groupby(edits, key=lambda edit: bisect_left(ends, edit.start)):
        line = tuple(group)
        signs = {sign for edit in line for sign in text[edit.start : edit.end] if not sign.isascii()}
        codes = " ".join(f"U+{ord(sign):04X}" for sign in sorted(signs)[:8])
        yield Trouble(kind, line[0].start, line[0].end, {"signs": codes, "count": str(len(line))}, line)


def _sign_edits(text: str, literal: Spans, sign: re.Pattern[str]) -> Iterator[Replacement]:
    """Replace special blanks, or dashes before an option."""
    for match in sign.finditer(text):
        if not literal.around(match.start()):
            dashes = "-" if _ONE_LETTER.match(text, match.end()) else "--"
            blanks = " " * len(match[0]) if match[0][0] in _SPACES else ""
            yield Replacement(*match.span(), dashes if sign is _DASH_SIGN else blanks)


def _quote_signs(text: str, literal: Spans, quotes: Spans) -> Iterator[Trouble]:
    lines: dict[int, list[re.Match[str]]] = {}
    for match in _QUOTE_SIGN.finditer(text):
        around = literal.around(match.start())
        if around is None:
            lines.setdefault(_line_start(text, match.start()), []).append(match)
        elif (
            match[0] in _DOUBLE_QUOTES
            and quotes.around(match.start()) == around
            and re.match(r"'\s*[\[{]", text[around[0] : around[0] + 80])
        ):
            # JSON between single quotes: its own quotes must be straight.
            edit = Replacement(*match.span(), '"')
            yield Trouble("typographic-quotes", *match.span(), {"signs": f"U+{ord(match[0]):04X}"}, (edit,))
    for signs in lines.values():
        doubles = sum(sign[0] in _DOUBLE_QUOTES for sign in signs)
        edits = tuple(Replacement(*s.span(), '"' if s[0] in _DOUBLE_QUOTES else "'") for s in signs)
        is_paired = doubles % 2 == 0 and len(signs) % 2 == 0
        codes = " ".join(sorted({f"U+{ord(sign[0]):04X}" for sign in signs}))
        yield Trouble("typographic-quotes", *signs[0].span(), {"signs": codes}, edits if is_paired else ())


def _prompts(text: str, literal: Spans) -> Iterator[Trouble]:
    lines: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        lines.append((start, _line_end(text, start)))
        start = lines[-1][1] + 1
    is_session = any(_FIRST_MORE_PROMPT.match(text, *line) and not literal.around(line[0]) for line in lines)
    continued = is_marked = False
    for start, end in lines:
        prompt = None
        if not literal.around(start):
            prompt = _PROMPT.match(text, start, end)
            if not prompt and is_session and not continued:
                prompt = _FIRST_MORE_PROMPT.match(text, start, end) or _BESIDE_MORE_PROMPT.match(text, start, end)
            if not prompt and continued:
                prompt = (_ANY_MORE_PROMPT if is_marked else _MORE_PROMPT).match(text, start, end)
        if prompt:
            edit = Replacement(*prompt.span(1), "")
            yield Trouble("prompt", *prompt.span(1), {"prompt": prompt[1].strip()}, (edit,))
        is_marked = is_marked if continued else prompt is not None and prompt[1].startswith(">")
        continued = text[start:end].rstrip().endswith("\\")


# Lines


class _Break(NamedTuple):
    """Position where a command is interrupted and continues below."""

    kind: str
    start: int
    end: int
    begun: int
    """From where on the text is replaced."""


class _Gap(NamedTuple):
    """Text between a break and the next non-empty line."""

    comments: tuple[tuple[int, int], ...]
    content: int
    has_blank: bool
    is_continued: bool
    """The last comment ends in a backslash."""


def _lines(text: str, tree: syntax.Syntax) -> Iterator[Trouble]:
    documents = Spans([*tree.documents, *tree.quotes])
    lists = Spans(tree.lists)
    comments = dict(tree.comments)
    breaks = [*_broken(text, tree), *_cut_lines(text, tree, comments), *_missing(text, tree)]
    joined: dict[int, int] = {}
    fresh = tree.fresh_lines
    covered: list[tuple[int, int]] = []
    for cut in sorted(breaks, key=lambda cut: cut.start):
        if any(start <= cut.start <= end for start, end in covered[-1:]):
            continue
        gap = _gap(text, cut)
        line = fresh[bisect_right(fresh, cut.begun) - 1]
        head = joined.get(line, line)
        is_listed = lists.around(cut.start) is not None
        if not is_listed and documents.around(cut.start):
            continue
        if is_listed or not _goes_on(text, cut, gap, head) or documents.around(gap.content):
            if cut.kind in ("comment-after-continuation", "blank-after-continuation"):
                says = {"in": "list"} if is_listed else {"adds": " ", "lost": ""}
                yield Trouble(cut.kind, cut.start, cut.end, says, (_without_backslash(text, cut),))
            elif not is_listed and cut.kind != "missing-continuation":
                yield Trouble("dangling-continuation", cut.start, cut.end, {})
            continue
        line = _line_start(text, gap.content)
        joined[line] = head
        covered.append((cut.begun, gap.content))
        lost = text[gap.content : _line_end(text, gap.content)].strip().rstrip("\\").strip()
        says = {"lost": lost[:_SHOWN], "runs": lost.split(" ")[0][:_SHOWN]}
        edits = [Replacement(cut.begun, gap.content, f" \\\n{text[line : gap.content]}")]
        indent = re.compile(r"[ \t]*").match(text, head)
        for start, end in gap.comments:
            kept = text[start:end].rstrip().rstrip("\\").rstrip()
            edits.append(Replacement(head, head, f"{indent[0] if indent else ''}{kept}\n"))
        yield Trouble(cut.kind, cut.start, cut.end, says, tuple(edits))
    fixed = Spans(covered)
    for index in tree.continuations:
        start = _line_start(text, index)
        if not text[start:index].strip(" \t") and not fixed.around(index):
            yield Trouble("lone-backslash", index, index + 1, {}, (Replacement(start, _line_end(text, index) + 1, ""),))


def _without_backslash(text: str, cut: _Break) -> Replacement:
    """The line without its backslash; a comment after it stays."""
    end = _line_end(text, cut.start)
    rest = text[cut.start + 1 : end].strip()
    return Replacement(cut.begun, end, f"  {rest}" if rest else "")


def _broken(text: str, tree: syntax.Syntax) -> Iterator[_Break]:
    for index in tree.broken:
        end = _line_end(text, index)
        rest = text[index + 1 : end]
        comment = rest.strip().startswith("#")
        if rest.startswith("#") and not _OPTION.match(text[end + 1 : end + 200].lstrip()):
            continue
        kind = "comment-after-continuation" if comment else "blank-after-continuation"
        yield _Break(kind, index, end, _before(text, index))


def _cut_lines(text: str, tree: syntax.Syntax, comments: Mapping[int, int]) -> Iterator[_Break]:
    """Continuations that lead to an empty line or to a comment."""
    for index in tree.continuations:
        place = index + 2
        while place < len(text) and text[place] in " \t":
            place += 1
        if _OPERATOR_END.search(text[max(0, index - 40) : index]):
            continue
        if place >= len(text) or text[place] == "\n":
            end = min(place + 1, len(text))
            yield _Break("empty-line-after-continuation", place, end, _before(text, index))
        elif place in comments:
            yield _Break("comment-line-after-continuation", place, comments[place], _before(text, index))


def _before(text: str, index: int) -> int:
    """Start of the blanks, and of lines with only a backslash, before a backslash."""
    while True:
        place = index
        while place and text[place - 1] in " \t":
            place -= 1
        if text[max(0, place - 2) : place] != "\\\n":
            return place
        index = place - 2


def _missing(text: str, tree: syntax.Syntax) -> Iterator[_Break]:
    """Commands that are options: the line before them lacks its backslash."""
    last: syntax.Simple | None = None
    is_headed = False
    place = partial(bisect_left, tree.at)
    for command in tree.commands:
        first = command.words[0] if command.words and not command.assignments else None
        is_option = isinstance(first, syntax.WordNode) and _OPTION.match(first.raw) is not None
        # Options without a preceding program are a list, not an interrupted command.
        is_headed = is_headed or not is_option
        if last is not None and is_headed and is_option and isinstance(first, syntax.WordNode):
            begun, start = place(last.end), place(command.start)
            between = text[begun:start]
            if "\n" in between and _only_blank(between):
                yield _Break("missing-continuation", start, place(first.end), begun)
        last = command


def _only_blank(between: str) -> bool:
    lines = (line.strip() for line in between.split("\n"))
    return all(not line or line.startswith("#") or line == "\\" for line in lines)


def _gap(text: str, cut: _Break) -> _Gap:
    comments: list[tuple[int, int]] = []
    has_blank = is_continued = False
    start = cut.begun
    first = True
    while start < len(text):
        end = _line_end(text, start)
        line = text[start:end]
        bare = line.strip(" \t\r")
        if first:
            bare = bare.lstrip("\\").strip(" \t\r")
        if bare.startswith("#"):
            begin = start + line.index("#")
            comments.append((begin, end))
            is_continued = bare.endswith("\\")
        elif bare in ("", "\\"):
            has_blank |= not first and not bare
        elif not first:
            return _Gap(tuple(comments), start + len(line) - len(line.lstrip(" \t")), has_blank, is_continued)
        first = False
        start = end + 1
    return _Gap(tuple(comments), len(text), has_blank, is_continued)


_ASSIGNED = re.compile(
    r"[ \t]*+(?:(?:export[ \t]++)?+[A-Za-z_]\w*+=(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'\\])*+(?:[ \t\n]|\\\n|#[^\n]*+\n)*+)++"
)
"""Assignments without a program: the text behind them is a command of its own."""


def _goes_on(text: str, cut: _Break, gap: _Gap, head: int) -> bool:
    """Whether the text after a break belongs to the command before it."""
    if gap.content >= len(text):
        return False
    if _OPTION.match(text, gap.content):
        return True
    if cut.kind == "missing-continuation" or _ASSIGNED.fullmatch(text, head, max(head, cut.begun)):
        return False
    indent = gap.content - _line_start(text, gap.content)
    head_indent = len(text[head : head + 400]) - len(text[head : head + 400].lstrip(" \t"))
    if text[gap.content] in ")}" or re.compile(r"(?:fi|done|esac|else|elif|then|do)\b").match(text, gap.content):
        return False
    return indent > head_indent or (gap.is_continued and not gap.has_blank)


# Words


def _delivered(done: ScriptRun) -> dict[int, list[str]]:
    delivered: dict[int, list[str]] = {}
    for invocation in done.invocations:
        values: dict[int, list[str]] = {}
        for word in invocation.words:
            values.setdefault(word.start, []).append(word.value if word.value is not None else "?")
        for start, texts in values.items():
            delivered.setdefault(start, texts)
    return delivered


def _words(source: Excerpt, tree: syntax.Syntax, delivered: Mapping[int, list[str]]) -> Iterator[Trouble]:
    place = partial(bisect_left, tree.at)
    for command in tree.commands:
        words = [word for word in command.words if isinstance(word, syntax.WordNode)]
        if not words:
            continue
        yield from _assignments(source.text, command, words, place)
        yield from _separated(command, words, place)
        yield from _kept_blanks(source.text, words, place)
        yield from _unquoted(source.text, words, place, delivered)


def _assignments(
    text: str, command: syntax.Simple, words: Sequence[syntax.WordNode], place: Place
) -> Iterator[Trouble]:
    """Words that only look like assignments."""
    first = 1 if words[0].raw in _DECLARES else 0
    swallowed = next((word for word in command.words[first:] if isinstance(word, syntax.WordNode)), None)
    if first and swallowed is not None and isinstance(command.words[first], syntax.AssignmentNode):
        begin = place(swallowed.start)
        if _SWALLOWED.match(text, begin):
            start, stop = place(words[0].start), place(command.words[first].start)
            end = place(words[-1].end)
            says = {"declares": words[0].raw, "lost": text[begin:end][:_SHOWN]}
            edit = Replacement(start, stop, "")
            yield Trouble("command-as-names", start, place(words[0].end), says, (edit,))
            return
    rest = words[first:]
    if not rest or len(rest) < len(command.words) - first:
        return
    name = rest[0]
    start = place(name.start)
    if len(rest) >= 2 and _NAME.match(name.raw) and rest[1].raw.startswith("=") and not rest[1].raw.startswith("=="):
        value = rest[1] if len(rest[1].raw) > 1 else (rest[2] if len(rest) > 2 else None)
        end = place(rest[-1].end)
        edits: tuple[Replacement, ...] = ()
        if value is not None and rest[-1] is value and (first or name.raw.isupper() or name.raw[0].isupper()):
            begin = place(value.start) + (value is rest[1])
            edits = (Replacement(place(name.end), begin, "="),)
        runs = "export" if first else name.raw
        yield Trouble("not-an-assignment", start, end, {"name": name.raw, "runs": runs, "meant": name.raw}, edits)
        return
    match = _ALMOST_NAME.match(name.raw)
    is_pin = name.raw.startswith("=", match.end()) if match else False  # a requirement of pip, `name==1.0`
    if match and not is_pin and not first and not _NAME.match(match[1]):
        intended = re.sub(r"\W", "_", match[1].lstrip("$"))
        intended = intended if match[1].startswith("$") else intended.upper().lstrip("0123456789")
        says = {"name": match[1], "runs": text[start : place(name.end)][:_SHOWN], "meant": intended}
        yield Trouble("not-an-assignment", start, start + len(match[0]), says)


_NUMBERS = re.compile(r"\d+(?:[.,:-]\d+)*", re.ASCII)
_VALUE = re.compile(r"true|false|\".*\"|'.*'", re.DOTALL)


def _separated(command: syntax.Simple, words: Sequence[syntax.WordNode], place: Place) -> Iterator[Trouble]:
    """Values that a blank separates from their `NAME=`: as a command, or as a name to export, they make no sense."""
    declares = words[0].raw in _DECLARES
    for node, word in pairwise((*command.assignments, *command.words)):
        if not isinstance(node, syntax.AssignmentNode) or node.elements is not None or node.value.raw:
            continue
        if not isinstance(word, syntax.WordNode):
            continue
        if declares:
            is_value = not _NAME.match(word.raw) and not word.raw.startswith("-")
        else:
            is_value = bool(_NUMBERS.fullmatch(word.raw) or (len(words) == 1 and _VALUE.fullmatch(word.raw)))
        if is_value:
            edit = Replacement(place(node.end), place(word.start), "")
            says = {"name": node.name, "runs": (words[0] if declares else word).raw[:_SHOWN], "meant": node.name}
            yield Trouble("not-an-assignment", place(node.start), place(word.end), says, (edit,))


def _kept_blanks(text: str, words: Sequence[syntax.WordNode], place: Place) -> Iterator[Trouble]:
    """Backslashes before a blank and an option, which make the blank part of an argument."""
    for word in words[1:]:
        match = _KEPT_BLANK.match(text, place(word.start)) if word.raw.startswith("\\") else None
        if match:
            says = {"adds": word.raw[1:_SHOWN], "lost": ""}
            yield Trouble("blank-after-continuation", *match.span(), says, (Replacement(*match.span(), ""),))


def _unquoted(
    text: str, words: Sequence[syntax.WordNode], place: Place, delivered: Mapping[int, list[str]]
) -> Iterator[Trouble]:
    """Values that bash changes before a program that needs them as written."""
    done = -1
    for index, word in enumerate(words):
        if word.start < done or (index == 0 and not _OPTION.match(word.raw)):
            continue
        head = _JSON_VALUE.match(word.raw)
        start = place(word.start)
        if head and '"' in word.raw and "\\\n" not in word.raw:
            begin = start + head.end()
            near = words[index : index + _MOST_PIECES]
            end = _json_end(text, begin, near, place)
            stop = end or place(word.end)
            near = [piece for piece in near if place(piece.end) <= stop] if end else [word]
            done = near[-1].end
            values = [value for piece in near for value in delivered.get(piece.start, [])]
            if end is None and (not values or text[begin] == "["):
                continue
            edits: tuple[Replacement, ...] = ()
            if end is not None and "'" not in text[begin:end]:
                edits = (Replacement(begin, end, f"'{text[begin:end]}'"),)
            says = {"written": text[begin:stop][:_SHOWN], "delivered": " ".join(values)[:_SHOWN]}
            yield Trouble("unquoted-expansion", begin, stop, says, edits)
            continue
        is_value = word.raw.startswith("--") and "=" in word.raw
        is_value |= index > 0 and words[index - 1].raw.startswith("--") and "=" not in words[index - 1].raw
        if is_value and _globs(word) and not head:
            begin = start + (word.raw.find("=") + 1 if word.raw.startswith("--") else 0)
            stop = place(word.end)
            plain = not re.search(r"['\"$`\\]", text[begin:stop])
            edits = (Replacement(begin, stop, f"'{text[begin:stop]}'"),) if plain else ()
            says = {"written": text[begin:stop][:_SHOWN], "delivered": "the names of files that match, if any do"}
            yield Trouble("unquoted-expansion", begin, stop, says, edits)


def _globs(word: syntax.WordNode) -> bool:
    return any(
        isinstance(part, syntax.Literal) and not part.quoted and ("*" in part.text or "?" in part.text)
        for part in word.parts
    )


def _json_end(text: str, begin: int, words: Sequence[syntax.WordNode], place: Place) -> int | None:
    """End of the JSON value that begins here; None if there is none."""
    for word in words:
        end = place(word.end)
        piece = text[begin:end]
        if len(piece) > _LONGEST_JSON or "\n" in piece:
            return None
        if piece[-1:] not in "]}":
            continue
        try:
            json.loads(piece)
        except (ValueError, RecursionError):
            continue
        return end
    return None


_POLLED = re.compile(r":\S{1,200}/(?:health|ping|v1/models)\b")
"""Address of a server that answers when it is ready."""


_UNKNOWN = "\ufffc"
"""What a formatted text puts where it does not know a word."""


def _unwatched(done: ScriptRun) -> Iterator[Trouble]:
    """Background programs that the script does not wait for."""
    seen: set[int] = set()
    head = None
    polls = [item.start for item in done.invocations if any(_POLLED.search(word.raw) for word in item.words)]
    for invocation in done.invocations:
        if invocation.start < max(polls, default=0):
            continue  # the script queries the server afterwards, and notices a failure
        # A command that begins with an option is the rest of an interrupted command, which is the
        # launch.
        head = invocation if head is None or not (invocation.words[0].value or "").startswith("-") else head
        program = next((text for text in (word.value or "?" for word in head.words) if _UNKNOWN not in text), "?")
        if program.rpartition("/")[2] in word_list("prepares-or-prints"):
            continue
        if invocation.is_background and not invocation.is_waited and invocation.start not in seen:
            seen.add(invocation.start)
            yield Trouble("background-unwatched", head.start, head.end, {"program": program})
