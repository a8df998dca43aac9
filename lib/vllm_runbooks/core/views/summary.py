"""Summary of an answer, as one record for terminal, notebook and page.

Colour is severity, dots are certainty, and both are also expressed in words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vllm_runbooks.core.records import COUNTED, Facts, Level, MemoryUse
from vllm_runbooks.core.views import text_width as columns
from vllm_runbooks.core.views.styled import (
    BLANK,
    Layout,
    Line,
    Styled,
    Table,
    TextBlock,
    Tone,
    Words,
    listed,
    styled,
    wrapped,
)

DOTS = {Level.CONFIRMED: "●●●", Level.PROBABLE: "●●○", Level.POSSIBLE: "●○○"}
_PASSED, _REJECTED, _OPEN = "✓", "✗", "\u2013"
MARKS = {"passed": _PASSED, "rejected": _REJECTED}
"""Signs of a validation; any other state is a dash: not validated."""
_MARK_TONES = {_PASSED: Tone.GOOD, _REJECTED: Tone.BAD}
WIDEST = 100
"""Columns of the widest line of a summary."""
_STATE = 9
_BAR = 22
_INDENT = " " * 8
"""Indentation of the lines below a fix."""


@dataclass(frozen=True)
class Statement:
    """A problem or observation: a sentence, its certainty, and the line that proves it."""

    sign: str
    """"✗" (wrong), "!" (notice) or "?" (unknown)."""
    text: str
    tone: Tone
    certainty: str = ""
    """Certainty as dots and a word."""
    id: str = ""
    place: str = ""
    quote: str = ""
    """Text of the input at that location."""
    is_whole: bool = False
    """Whether the quote is not cut at the end of its line: it is all there is to go by."""
    effect: str = ""
    """Consequence."""
    action: str = ""
    """Action; empty if the fix describes it."""
    page: str = ""
    """Address of the page about the id."""
    span: tuple[int, int] | None = None
    """Range of the quote that an HTML card underlines."""


@dataclass(frozen=True)
class SuggestedFix:
    """The first fix: the change, its cost, and its validation."""

    change: str
    cost: str = ""
    checks: tuple[tuple[str, str], ...] = ()
    """Name and sign of each validation; empty if there is nothing to validate."""
    note: str = ""
    """Input that would allow its validation."""
    is_command: bool = True
    """Whether the change is text of a command, not a sentence."""
    command: str = ""
    """The whole changed command; empty if it is not to be shown."""
    given: str = ""
    """Text before the change, if lines that differ from it are to be marked."""
    unchecked: str = "not checked by {names}"
    """Template for the validations that did not run."""


@dataclass(frozen=True)
class NamedMemory:
    """Memory under a name: now, or with a fix."""

    name: str
    use: MemoryUse
    text: str
    """Result as text."""


@dataclass(frozen=True)
class SummaryTable:
    """Choices or figures, a row each."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Columns of numbers."""
    note: str = ""
    is_last_below: bool = False
    """Whether the last column is below each row in HTML: a phone has no space for another column of text."""


@dataclass(frozen=True)
class Step:
    """A next step, optionally with a command."""

    name: str
    text: str
    command: str = ""
    is_first: bool = False
    """Whether it comes before the fix."""
    runbook: str = ""
    """Id of the runbook to open."""
    page: str = ""
    """Address of the page that takes this step, in place of its command."""


@dataclass(frozen=True)
class Summary:
    """The state, the cause, the first fix and the way to the rest."""

    state: str
    tone: Tone
    about: tuple[str, ...]
    """Subject of the answer, as far as known: file, release, model, GPUs."""
    sentence: str = ""
    """Description of a healthy state."""
    statements: tuple[Statement, ...] = ()
    """The cause; without one, the observations."""
    fix: SuggestedFix | None = None
    fix_name: str = "Fix"
    memory: tuple[NamedMemory, ...] = ()
    steps: tuple[Step, ...] = ()
    more: Step | None = None
    """The way to the rest."""
    table: SummaryTable | None = None


def summary_view(summary: Summary) -> list[TextBlock]:
    """The summary for a terminal, in at most `WIDEST` columns."""
    is_long = columns.width(summary.state) >= _STATE
    state = f"{summary.state}   " if is_long else columns.padded(summary.state, _STATE - 1) + " "
    lead = styled(state, summary.tone)
    blocks: list[TextBlock] = [_About(summary.about, lead)]
    if summary.sentence:
        blocks.append(_Paragraph(summary.sentence, " " * columns.width(str(lead))))
    if summary.statements:
        blocks.append(BLANK)
        for statement in summary.statements:
            blocks += _statement_view(statement)
    if summary.table is not None:
        blocks += [BLANK, *_table_view(summary.table)]
    leading = [step for step in summary.steps if step.is_first]
    if leading:
        blocks += [BLANK, *map(step_view, leading)]
    if summary.fix is not None:
        blocks += [BLANK, *_fix_view(summary.fix, _label(summary.fix_name))]
    for memory in summary.memory:
        blocks.append(_Paragraph(f"{_bar(memory.use)} {memory.text}", f"{_INDENT}    ", f"{_INDENT}{memory.name} "))
    if summary.fix is not None and summary.fix.command:
        commands = summary.fix.command.rstrip("\n").split("\n")
        lines = [Line(_INDENT + styled(line, Tone.COMMAND)) if line else BLANK for line in commands]
        blocks += [*([BLANK] if summary.fix.change else []), *lines]
    if others := [step for step in summary.steps if not step.is_first]:
        blocks += [BLANK, *map(step_view, others)]
    if summary.more is not None:
        blocks += [
            BLANK,
            _Below(styled(f"  {summary.more.text}: "), styled(summary.more.command, Tone.COMMAND), "    "),
        ]
    return blocks


def _statement_view(statement: Statement) -> list[TextBlock]:
    sign = styled(f"{statement.sign} ", statement.tone)
    certainty = [statement.certainty] if statement.certainty else []
    tag = "  ".join([*certainty, *([statement.id] if statement.id else [])])
    blocks: list[TextBlock] = [_Sides(styled(statement.text, statement.tone), styled(tag, Tone.FAINT), "  ", sign)]
    if statement.quote:
        place = styled(f"  {statement.place} | ", Tone.FAINT)
        quote = styled(statement.quote, Tone.QUOTE)
        blocks.append(_Paragraph(quote, "    ", place, most=4) if statement.is_whole else _Cut(place + quote))
    elif statement.place:
        blocks.append(_Paragraph(styled(statement.place, Tone.FAINT), most=3))
    for name, text in (("So", statement.effect), ("Fix", statement.action)):
        if text:
            blocks.append(_Paragraph(text, _INDENT, styled(_label(name), Tone.HEADING)))
    return blocks


def _fix_view(fix: SuggestedFix, name: str) -> list[TextBlock]:
    lead = styled(name, Tone.HEADING)
    if not fix.change and not fix.checks:
        return [Line(styled(name.rstrip(), Tone.HEADING))]
    signs = [styled(f"{check} {sign}", _MARK_TONES[sign]) for check, sign in fix.checks if sign != _OPEN]
    if (names := ", ".join(check for check, sign in fix.checks if sign == _OPEN)) and not fix.note:
        signs.append(styled(fix.unchecked.format(names=names), Tone.FAINT))
    marks = listed(signs, "  ")
    if not fix.change:
        return [Line(lead + ("" if name.endswith("  ") else "  ") + marks)]
    # A command keeps its blanks: it only breaks between options.
    change = styled(fix.change, Tone.COMMAND if fix.is_command else None)
    blocks: list[TextBlock] = [_Words(change, _INDENT, lead) if fix.is_command else _Paragraph(change, _INDENT, lead)]
    if fix.cost or signs:
        blocks.append(_Sides(styled(fix.cost), marks, _INDENT))
    if fix.note:
        blocks.append(_Paragraph(styled(fix.note, Tone.FAINT), _INDENT))
    return blocks


def _table_view(table: SummaryTable) -> list[TextBlock]:
    head = [styled(cell, Tone.HEADING) for cell in table.head]
    note = [_Paragraph(styled(table.note, Tone.FAINT))] if table.note else []
    return [_BoundedTable(Table(head, table.rows, table.numeric, _INDENT[:2])), *note]


def step_view(step: Step) -> TextBlock:
    """A step after its name."""
    lead = styled(_label(step.name), Tone.HEADING)
    command = step.command or step.runbook
    if step.text and command:
        return _Below(lead + f"{step.text}: ", styled(command, Tone.COMMAND), _INDENT)
    return _Paragraph(styled(step.text) + styled(step.command, Tone.COMMAND), _INDENT, lead)


def _label(name: str) -> str:
    return columns.padded(f"  {name} ", len(_INDENT))


def _bar(use: MemoryUse) -> str:
    """Memory of one GPU: the part without the KV cache, and the cache; "▓" beyond the launch's limit."""
    scale = _BAR / max(use.total_gib, use.used_gib)
    used = max(1, round(min(use.used_gib, use.limit_gib) * scale))
    beyond = max(1, round((use.used_gib - use.limit_gib) * scale)) if use.used_gib > use.limit_gib else 0
    return "█" * used + "▓" * beyond + "░" * max(0, _BAR - used - beyond)


def _width(layout: Layout) -> int:
    return min(layout.cut or layout.table or WIDEST, WIDEST)


@dataclass(frozen=True, slots=True)
class _About:
    """Subject of an answer, with line breaks only between its parts."""

    parts: Sequence[str]
    first: Styled

    def lines(self, layout: Layout) -> list[Styled]:
        lines, line = list[Styled](), self.first
        for number, part in enumerate(self.parts):
            end = f" · {part}" if number and str(line).strip() else part
            further = 2 if number < len(self.parts) - 1 else 0  # for the sign at the end of the line
            if number and columns.width(str(line) + end) + further > _width(layout):
                lines.append(line + " ·")
                line, end = styled(" " * columns.width(str(self.first))), part
            line += end
        return [*lines, line]


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A paragraph as wide as a summary."""

    text: Words
    indent: str = "  "
    first: Words | None = None
    most: int | None = None

    def lines(self, layout: Layout) -> list[Styled]:
        return wrapped(self.text, _width(layout), self.indent, self.first, self.most)


@dataclass(frozen=True, slots=True)
class _BoundedTable:
    """A block as wide as a summary."""

    block: TextBlock

    def lines(self, layout: Layout) -> list[Styled]:
        return self.block.lines(replace(layout, table=_width(layout)))


@dataclass(frozen=True, slots=True)
class _Below:
    """A text and a command after it; below it if there is no room, in shell-continued lines."""

    text: Styled
    command: Styled
    indent: str

    def lines(self, layout: Layout) -> list[Styled]:
        line = self.text + self.command
        if columns.width(str(line)) <= _width(layout):
            return [line]
        parts = [""]
        for word in shell_words(str(self.command)):
            if parts[-1] and columns.width(f"{self.indent}{parts[-1]} {word} \\") > _width(layout):
                parts[-1] += " \\"
                parts.append("  ")
            parts[-1] += f" {word}" if parts[-1].strip() else word
        below = [styled(self.indent) + styled(part, Tone.COMMAND) for part in parts]
        return [self.text.part(0, len(str(self.text).rstrip())), *below]


@dataclass(frozen=True, slots=True)
class _Words:
    """Words of a command, broken only between words and never inside quotes."""

    text: Styled
    indent: str
    first: Words

    def lines(self, layout: Layout) -> list[Styled]:
        lead = styled(self.first)
        if columns.width(str(lead)) + columns.width(str(self.text)) <= _width(layout):
            return [lead + self.text]
        lines, line = list[Styled](), ""
        for word in shell_words(str(self.text)):
            if line and columns.width(self.indent + line + word) >= _width(layout):
                lines.append(styled(line, Tone.COMMAND))
                line = ""
            line = f"{line} {word}" if line else word
        lines.append(styled(line, Tone.COMMAND))
        return [(lead if number == 0 else styled(self.indent)) + line for number, line in enumerate(lines)]


_SHELL = re.compile(
    r"""(?P<blank>(?:[ \t]|\\\n)+)|(?P<end>\n)|\#[^\n]*|(?:'[^']*'?|"(?:\\.|[^"\\])*"?|\\.?|[^ \t\n'"\\])+""", re.DOTALL
)
"""Blanks and continued lines, the end of a command, a comment, or a word with its quotes."""


def shell_lines(text: str) -> list[str]:
    """Commands and comments of a script as written, each in one line unless a word has several."""
    lines: list[list[str]] = [[]]
    for piece in _SHELL.finditer(text):
        if piece["end"]:
            lines.append([])
        elif not piece["blank"]:
            lines[-1].append(piece[0])
    return [" ".join(words) for words in lines if words]


def shell_words(text: str) -> list[str]:
    """Words of a command as written, quotes kept; an option stays with its value."""
    words: list[str] = []
    for piece in _SHELL.finditer(text):
        if piece["blank"] or piece["end"]:
            continue
        if words and re.fullmatch(r"--[^\s=]+", words[-1]) and not re.match(r"-(?!\d)", piece[0]):
            words[-1] += f" {piece[0]}"
        else:
            words.append(piece[0])
    return words


def short_model_name(model: str) -> str:
    """A model without its organization or folder."""
    return model.rstrip("/").rpartition("/")[2] or model


def count_of(number: int, noun: str) -> str:
    """A number with its noun, as in "2 GPUs"."""
    ending = "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{number:,} {noun}{ending * (number != 1)}"


def counted(facts: Facts, say: Callable[[str], str] = str) -> str:
    """What went wrong while a server ran, each with its number; empty if nothing did."""
    counts = ((say(text), getattr(facts, name)) for name, text in COUNTED.items())
    return ", ".join(f"{name} {count:,}" for name, count in counts if count)


def first_clauses(text: str, most: int) -> str:
    """The first clauses of a text, as far as there is space for them, the first whole; a semicolon ends a clause."""
    line = ""
    for clause in re.split(r"(?<=;) |(?<=；)", " ".join(text.split())):
        if line and len(line) + len(clause) > most and line.count("`") % 2 == 0:
            break
        line += f" {clause}" if line else clause
    return line.rstrip(" ;；")


def rest_step(parts: Sequence[str], again: str, say: Callable[[str], str] = str) -> Step | None:
    """Reference to the parts that a summary omits, by the command that shows them.

    None without one.
    """
    *parts, last = parts
    text = say(" and ").join(part for part in (say(", ").join(parts), last) if part)
    return Step("", say("For {parts}").format(parts=text), again) if again else None


def concurrency_text(count: float) -> str:
    """A number of concurrent requests, rounded down; below ten with one decimal."""
    return f"{math.floor(count):,}" if count >= 10 else f"{math.floor(count * 10) / 10:.1f}"


def sentence_of(text: str, *, names: Sequence[str] = (), end: str = ".") -> str:
    """A text with a capital and a full stop; one of `names`, a value or an identifier at its beginning stays."""
    first = re.match(r"[a-z]{1,30}(?=[ ,:])", text)
    if first is not None and first[0] not in names:
        text = text[:1].upper() + text[1:]
    return text + end if text and not text.endswith((".", "…", "。", ":", "?", end or ".")) else text


@dataclass(frozen=True, slots=True)
class _Sides:
    """A text with another at the right edge; below it if there is no room."""

    left: Styled
    right: Styled
    indent: str
    first: Words | None = None

    def lines(self, layout: Layout) -> list[Styled]:
        width = _width(layout)
        lines = wrapped(self.left, width, self.indent, self.first) if str(self.left) else []
        if not str(self.right):
            return lines
        room = width - columns.width(str(lines[-1])) - columns.width(str(self.right)) if lines else 0
        if room >= 2:
            lines[-1] += " " * room + self.right
            return lines
        return [*lines, self.indent + self.right]


@dataclass(frozen=True, slots=True)
class _Cut:
    """One line, cut at the edge."""

    text: Styled

    def lines(self, layout: Layout) -> list[Styled]:
        whole = str(self.text)
        shown = columns.cut(whole, _width(layout))
        return [self.text] if shown == whole else [self.text.part(0, len(shown) - 1) + "…"]


def certainty(level: Level, word: str) -> str:
    """Dots and word of a certainty."""
    return f"{DOTS[level]} {word}"


def check_marks(checks: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Signs of validations, from names and states ("passed", or "unknown: why")."""
    return tuple((name, MARKS.get(state, _OPEN)) for name, state in checks)
