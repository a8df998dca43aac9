"""Terminal text whose spans have a meaning: laid out for a width, in colours or plain.

A view is a sequence of blocks. Log text never selects a tone and is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from vllm_runbooks.core.display import visible
from vllm_runbooks.core.records import Outcome, Severity, Verdict
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.elements import AMBER, BLUE, COLUMNS, GREEN, GREY, RED


class Tone(StrEnum):
    """Meaning of a span. Words and signs always express it as well."""

    HEADING = "heading"
    BAD = "bad"
    WARN = "warn"
    GOOD = "good"
    HINT = "hint"
    QUOTE = "quote"
    """Text of a log or a script."""
    COMMAND = "command"
    COST = "cost"
    FAINT = "faint"
    """Less important text: a location, an id, a source."""


VERDICTS = {
    Verdict.PASS: Tone.GOOD, Verdict.FAIL: Tone.BAD, Verdict.ERROR: Tone.BAD, Verdict.INTERRUPTED: Tone.WARN,
    Verdict.SKIPPED: Tone.FAINT,
}  # fmt: skip
SEVERITIES = {Severity.FATAL: Tone.BAD, Severity.DEGRADED: Tone.WARN, Severity.HINT: Tone.HINT}
OUTCOME_TONES = {
    Outcome.READY: Tone.GOOD, Outcome.RUNNING: Tone.GOOD, Outcome.FAILED: Tone.BAD, Outcome.HUNG: Tone.BAD,
    Outcome.UNKNOWN: Tone.WARN,
}  # fmt: skip
GROUNDS = {Tone.BAD: RED, Tone.WARN: AMBER, Tone.GOOD: GREEN, Tone.HINT: BLUE, Tone.FAINT: GREY}
"""Colour of a tone in HTML: the background of a badge, the border of a quotation."""

TextSpan = tuple[str, Tone | None]


@dataclass(frozen=True, slots=True)
class Styled:
    """A text in spans, each with its meaning."""

    spans: tuple[TextSpan, ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.spans)

    def __add__(self, other: Styled | str) -> Styled:
        return Styled((*self.spans, *styled(other).spans))

    def __radd__(self, other: str) -> Styled:
        return styled(other) + self

    def part(self, start: int, end: int) -> Styled:
        kept, at = [], 0
        for text, tone in self.spans:
            if piece := text[max(start - at, 0) : max(end - at, 0)]:
                kept.append((piece, tone))
            at += len(text)
        return Styled(tuple(kept))


Words = Styled | str


def styled(words: Words, tone: Tone | None = None) -> Styled:
    """A text with one tone; existing spans keep theirs."""
    return words if isinstance(words, Styled) else Styled(((words, tone),))


def listed(items: Sequence[Words], between: str = ", ") -> Styled:
    spans: list[TextSpan] = []
    for number, item in enumerate(items):
        spans += [(between, None)] if number else []
        spans += styled(item).spans
    return Styled(tuple(spans))


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in columns; None for no limit."""

    prose: int = COLUMNS
    loose: int | None = None
    """Width of sentences that stay on one line when piped, so that a program can read them by
    line."""
    table: int | None = None
    cut: int | None = None
    """Width of quoted lines that are cut, and of a summary; None: that of tables, or the usual one."""
    breaks_words: bool = True
    """Whether a sentence's word that is wider than a line is broken; a path that is copied is not."""


class TextBlock(Protocol):
    """A piece of a view."""

    def lines(self, layout: Layout) -> list[Styled]:
        """Lines of the block in a layout."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is never broken: a command, a quotation, a head."""

    text: Words

    def lines(self, _: Layout) -> list[Styled]:
        return [styled(self.text)]


BLANK = Line("")


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph, indented; `first` begins its first line instead."""

    text: Words
    indent: str = "  "
    first: Words | None = None

    def lines(self, layout: Layout) -> list[Styled]:
        return wrapped(self.text, layout.prose, self.indent, self.first)


@dataclass(frozen=True, slots=True)
class SentenceLines:
    """A sentence that only a terminal wraps; `first` begins its first line."""

    text: Words
    indent: str = "    "
    first: Words = ""

    def lines(self, layout: Layout) -> list[Styled]:
        if layout.loose is None:
            return [styled(self.first) + self.text]
        return wrapped(self.text, layout.loose, self.indent, self.first, breaks_words=layout.breaks_words)


@dataclass(frozen=True, slots=True)
class Table:
    """Cells in columns as wide as they need; where all of them are too wide, the widest are wrapped.

    Numbers are never broken, nor options of vLLM; words of half the table only where nothing else helps.
    """

    head: Sequence[Words]
    rows: Sequence[Sequence[Words]]
    numeric: frozenset[int] = frozenset()
    """Columns of numbers, which are right-aligned."""
    indent: str = ""

    def lines(self, layout: Layout) -> list[Styled]:
        table = [tuple(map(styled, row)) for row in (self.head, *self.rows)]
        widths = [max(columns.width(str(row[i])) for row in table) for i in range(len(self.head))]
        if layout.table is not None:
            self._fit(widths, table, layout.table - len(self.indent))
        rows: list[Styled] = []
        for row in table:
            cells = [_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max(map(len, cells), default=1)):
                parts = [cell[number] if number < len(cell) else styled("") for cell in cells]
                rows.append(self._row(parts, widths))
        return rows

    def _fit(self, widths: list[int], table: Sequence[Sequence[Styled]], room: int) -> None:
        """Narrow the columns: texts to a readable width, headers of numbers, texts between words, then long words."""
        cells = [" ".join(str(row[i]) for row in table).split() for i in range(len(widths))]
        words = [max(map(columns.width, column), default=0) for column in cells]
        whole = [word if word <= max(room // 2, _LEAST) else _LEAST for word in words]
        readable = [max(word, _READABLE) for word in whole]
        _narrow(widths, self._least(widths, readable), room)
        for least in (readable, whole, [min(word, _LEAST) for word in words]):
            _narrow(widths, self._least(words, least), room)

    def _least(self, of_numbers: Sequence[int], of_texts: Sequence[int]) -> list[int]:
        pairs = enumerate(zip(of_numbers, of_texts, strict=True))
        return [number if i in self.numeric else text for i, (number, text) in pairs]

    def _row(self, parts: Sequence[Styled], widths: Sequence[int]) -> Styled:
        spans: list[TextSpan] = [(self.indent, None)]
        for i, (part, width) in enumerate(zip(parts, widths, strict=True)):
            room = " " * (width - columns.width(str(part)))
            is_right = i in self.numeric
            spans += [(room, None), *part.spans] if is_right else [*part.spans, (room, None)]
            spans += [("  ", None)] if i < len(parts) - 1 else []
        row = Styled(tuple(spans))
        return row if len(parts) - 1 in self.numeric else row.part(0, len(str(row).rstrip()))


_LEAST, _READABLE = 12, 24
"""Columns of a text at least, and before a header of numbers is wrapped."""


def _cell(cell: Styled, width: int) -> list[Styled]:
    return [cell] if columns.width(str(cell)) <= width else wrapped(cell, width, "", "")


def _narrow(widths: list[int], least: Sequence[int], room: int) -> None:
    over = sum(widths) + 2 * (len(widths) - 1) - room
    while over > 0:
        wide = [i for i, width in enumerate(widths) if width > least[i]]
        if not wide:
            return
        widest = max(wide, key=lambda i: (widths[i], i))
        widths[widest] -= 1
        over -= 1


def wrapped(
    text: Words,
    width: int,
    indent: str,
    first: Words | None = None,
    most: int | None = None,
    *,
    breaks_words: bool = True,
) -> list[Styled]:
    words = _flat(styled(text))
    lead = styled(indent if first is None else first)
    whole = str(words)
    laid = columns.wrap(whole, width, str(lead), indent, most=most, ellipsis=_ELLIPSIS, breaks_words=breaks_words)
    lines, at = [], 0
    for number, line in enumerate(laid):
        begun = lead if number == 0 else styled(indent)
        body = line[len(str(begun)) :]
        start = whole.find(body, at)
        if start < 0:  # the last line if there were too many
            body = body.removesuffix(_ELLIPSIS)
            start = whole.find(body, at)
            lines.append(begun + words.part(start, start + len(body)) + _ELLIPSIS)
            break
        at = start + len(body)
        lines.append(begun + words.part(start, at))
    return lines or [lead if first is not None else styled("")]


_ELLIPSIS = " …"


def _flat(words: Styled) -> Styled:
    spans: list[TextSpan] = []
    is_apart = False
    for text, tone in words.spans:
        pieces = text.split()
        if not pieces:
            is_apart = is_apart or bool(text)
            continue
        if spans and (is_apart or text[0].isspace()):
            spans.append((" ", None))
        spans.append((" ".join(pieces), tone))
        is_apart = text[-1].isspace()
    return Styled(tuple(spans))


def bulleted(text: Words) -> Prose:
    return Prose(text, "    ", "  - ")


def headed(name: str, blocks: Iterable[TextBlock]) -> list[TextBlock]:
    """A part of a view under its heading."""
    return [Line(styled(name, Tone.HEADING)), *blocks]


def parted(parts: Iterable[Sequence[TextBlock]]) -> list[TextBlock]:
    """Parts with a blank line between them."""
    blocks: list[TextBlock] = []
    for part in parts:
        blocks += [BLANK, *part] if blocks else part
    return blocks


def laid_out(blocks: Iterable[TextBlock], layout: Layout) -> list[Styled]:
    return [line for block in blocks for line in block.lines(layout)]


def plain(blocks: Iterable[TextBlock]) -> str:
    """The text without tones, as a pipe gets it; nothing in it steers a terminal."""
    return visible("\n".join(map(str, laid_out(blocks, Layout()))))
