"""A log with its important lines marked: the cause, its consequences, harmless lines; the rest is folded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.evidence import Document
from vllm_runbooks.core.records import Answer, Finding, Quote, Role
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.elements import AMBER, BLUE, GREEN, GREY, RED, badge, cut, heading, tag, tinted
from vllm_runbooks.reading.startup_log.log_lines import clean

_CONTEXT = 2
"""Lines shown on either side of a marked one."""
_MAX_MARKED, _MAX_NOISE = 40, 8
"""Most marked lines, and most of them that are only noise: a log may have thousands."""
_MAX_LINE = 400
"""Most characters of a line."""
_BEFORE = 8192
"""Characters before a stretch that are searched for the beginning of a secret, as of a private key."""
_GONE = "[part of a multi-line secret]"


class _Tone(NamedTuple):
    """Distinguishes marked lines by a word as well as by a color."""

    word: str
    colour: str
    meaning: str


_CAUSE = _Tone("cause", RED, "the line that decides the diagnosis")
_NOTICE = _Tone("notice", RED, "the cause is in another log")
_EVIDENCE = _Tone("evidence", RED, "supports or repeats the cause")
_UNEXPLAINED = _Tone("first error", RED, "an exception that no symptom explains")
_ALSO = _Tone("also found", AMBER, "another finding")
_START = _Tone("start", BLUE, "first line of a launch")
_WRAPPER = _Tone("wrapper", GREY, "another process ended")
_CONSEQUENCE = _Tone("consequence", GREY, "a consequence of the cause")
_HARMLESS = _Tone("harmless", GREEN, "looks like an error, but is harmless")
_TONES = (_CAUSE, _NOTICE, _EVIDENCE, _UNEXPLAINED, _ALSO, _START, _WRAPPER, _CONSEQUENCE, _HARMLESS)
"""In the order of preference for a line with several marks."""
_ROLES = {Role.WRAPPER: _WRAPPER, Role.CONSEQUENCE: _CONSEQUENCE, Role.BENIGN: _HARMLESS}
_NOISE = frozenset(_ROLES.values())
_NOUNS = {_WRAPPER: "wrapper", _CONSEQUENCE: "consequence", _HARMLESS: "harmless"}


class _LineMark(NamedTuple):
    """Reason why a line is marked, and the quoted text."""

    tone: _Tone
    quote: Quote | None = None
    label: str = ""
    """Text next to the word."""


class _LogRow(NamedTuple):
    """A line, or a folded stretch."""

    number: int
    text: str
    mark: _LineMark | None = None
    folded: int = 0
    """Folded lines; 0 if this is a line."""
    noise: Mapping[_Tone, int] | None = None
    """Number of marked lines in a folded stretch."""


def log(answer: Answer, documents: Sequence[Document]) -> RenderedView:
    """The log of an answer, folded around its important lines, secrets replaced.

    `documents` are those of the evidence, in its order. Each is read again, so a pipe shows only
    the quoted lines. The view is a few dozen kilobytes for a log of any size.
    """
    every = _marks(answer)
    parts = []
    for file, (name, document) in enumerate(zip(answer.files, documents, strict=True)):
        marks = {line: mark for (place, line), mark in every.items() if place == file}
        parts.append((name, list(_rows(document, marks))))
    met = {row.mark.tone for _, rows in parts for row in rows if row.mark}
    tones = [tone for tone in _TONES if tone in met]
    if not tones:
        return RenderedView.nothing("No marked lines: the log matches no symptom in the catalog.")
    is_one = len(parts) == 1
    plain = [line for name, rows in parts for line in (*([] if is_one else [name]), *map(_plain, rows))]
    html = [part for name, rows in parts for part in ("" if is_one else heading(name), *map(_html, rows))]
    legend = [tag("span", f"{badge(t.word, t.colour)} {escape(t.meaning)}", "margin-right:14px") for t in tones]
    below = tag("div", " ".join(legend), "font-size:13px;line-height:1.9;margin-top:10px")
    return RenderedView("\n".join(plain), tag("div", "".join(html), "max-width:110ch") + below)


def _marks(answer: Answer) -> dict[tuple[int, int], _LineMark]:
    """The mark of each line, by file and line; the most important of several."""
    by_place: dict[tuple[int, int], _LineMark] = {}
    for place, mark in _every_mark(answer):
        present = by_place.get(place)
        if present is None or _TONES.index(mark.tone) < _TONES.index(present.tone):
            by_place[place] = mark
    return by_place


def _every_mark(answer: Answer) -> Iterator[tuple[tuple[int, int], _LineMark]]:
    cause = answer.root_cause
    if cause:
        yield from _of_finding(cause, _NOTICE if cause.look_in else _CAUSE, _EVIDENCE)
    if answer.first_error:
        yield _place(answer.first_error), _LineMark(_UNEXPLAINED, answer.first_error)
    for finding in answer.findings:
        if finding != cause:
            yield from _of_finding(finding, _ALSO, _ALSO)
    if len(answer.starts) > 1:
        for number, start in enumerate(answer.starts, 1):
            ended = f"{number} of {len(answer.starts)}: {start.outcome.value}"
            yield (start.file, start.first_line), _LineMark(_START, label=ended)
    for line in answer.left_out:
        if line.role in _ROLES:  # a cause dropped because the launch went on is not noise
            yield (line.file, line.line), _LineMark(_ROLES[line.role])


def _of_finding(finding: Finding, first: _Tone, rest: _Tone) -> Iterator[tuple[tuple[int, int], _LineMark]]:
    for index, quote in enumerate(finding.evidence):
        yield _place(quote), _LineMark(rest if index else first, quote, "" if index else finding.title)


def _place(quote: Quote) -> tuple[int, int]:
    return quote.file, quote.line


def _rows(document: Document, marks: Mapping[int, _LineMark]) -> Iterator[_LogRow]:
    """Rows for the lines of a file and for the stretches between them."""
    marked = _shown(marks)
    telling = [line for line in marked if marks[line].tone not in _NOISE]
    numbers = marked | {near for line in telling for near in range(max(line - _CONTEXT, 1), line + _CONTEXT + 1)}
    before, met = 0, set()
    for number, text in _lines(document, numbers):
        if number > before + 1:
            yield _fold(before + 1, number - 1, marks)
        if text is not None:
            met.add(number)
            mark = marks.get(number)
            yield _LogRow(number, _said(text, mark), mark)
        before = number
    # A pipe has been read already: use its quotes.
    missing = [line for line in sorted(marked) if line not in met]
    yield from (_LogRow(line, mark.quote.text, mark) for line in missing if (mark := marks[line]).quote)


def _shown(marks: Mapping[int, _LineMark]) -> set[int]:
    """The marked lines to show: deciding ones, then the noise nearest to them."""
    telling = sorted(
        (line for line, mark in marks.items() if mark.tone not in _NOISE), key=lambda n: _rank(marks[n], n)
    )
    telling = telling[:_MAX_MARKED]
    noise = [line for line, mark in marks.items() if mark.tone in _NOISE]
    centre = telling[0] if telling else 0
    nearest = sorted(noise, key=lambda line: (abs(line - centre), line))
    return {*telling, *nearest[:_MAX_NOISE]}


def _rank(mark: _LineMark, line: int) -> tuple[int, int]:
    return _TONES.index(mark.tone), line


def _lines(document: Document, numbers: set[int]) -> Iterator[tuple[int, str | None]]:
    """Yield the chosen lines of a document with their numbers, secrets replaced; at the end the last number alone."""
    lead: deque[str] = deque(maxlen=200)
    stretch: list[str] = []
    number = 0
    for number, line in _every_line(document):
        if number in numbers:
            stretch.append(line)
        else:
            yield from _redacted(number - len(stretch), lead, stretch)
            lead += [*stretch, line]
            stretch = []
    yield from _redacted(number + 1 - len(stretch), lead, stretch)
    if number and number not in numbers:
        yield number + 1, None


def _every_line(document: Document) -> Iterator[tuple[int, str]]:
    """Yield every line with its number, cut if it is very long, numbered as the reader does."""
    number, rest = 1, ""
    for piece in document.pieces():
        *lines, rest = (rest + piece).split("\n")
        for line in lines:
            yield number, line[:_BEFORE]
            number += 1
        rest = rest[:_BEFORE]
    if rest:
        yield number, rest


def _redacted(first: int, lead: Iterable[str], stretch: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a stretch without its secrets, which the text before it may reveal."""
    if not stretch:
        return
    before = "\n".join([*lead, ""])[-_BEFORE:]
    clear = redact_text(before + "\n".join(stretch))[len(redact_text(before)) :].split("\n")
    if len(clear) != len(stretch):
        # A multi-line secret became one word: lines that are not in the remaining text belong to
        # it.
        kept = set(clear)
        clear = [line if line in kept else _GONE for line in stretch]
    yield from enumerate(clear, first)


def _said(text: str, mark: _LineMark | None) -> str:
    """The text of a line; for a long or rewritten one, the part that was quoted."""
    text = clean(text.rstrip("\r"))
    is_odd = len(text) > _MAX_LINE or "\r" in text
    if is_odd and mark and mark.quote:
        return f"… {mark.quote.text}"
    text = text.rsplit("\r", 1)[-1].rstrip()
    return text if len(text) <= _MAX_LINE else f"{text[: _MAX_LINE - 1]}…"


def _fold(first: int, last: int, marks: Mapping[int, _LineMark]) -> _LogRow:
    """The row for a folded stretch, with the marks in it."""
    among = Counter(mark.tone for line, mark in marks.items() if first <= line <= last and mark.tone in _NOISE)
    return _LogRow(first, "", folded=last - first + 1, noise=among)


def _folded(row: _LogRow) -> str:
    lines = "line" if row.folded == 1 else "lines"
    among = ", ".join(f"{count:,} {_NOUNS[tone]}" for tone in _TONES if (count := (row.noise or {}).get(tone)))
    return f"{row.folded:,} {lines}" + (f", {among}" if among else "")


def _plain(row: _LogRow) -> str:
    if row.folded:
        return f"        ⋯ {_folded(row)}"
    if row.mark is None:
        return f"  {row.number:>6}  {visible(row.text)}"
    if not row.mark.label:
        return f"> {row.number:>6}  [{row.mark.tone.word}] {visible(row.text)}"
    return f"        ▼ {row.mark.tone.word}: {cut(row.mark.label, 120)}\n> {row.number:>6}  {visible(row.text)}"


_LINE = "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent;color:inherit;font-size:13px"


def _html(row: _LogRow) -> str:
    if row.folded:
        style = "padding:2px 0 2px 12px;margin:2px 0;font-size:13px;opacity:.8"
        return tag("div", f"⋯ {escape(_folded(row))}", style)
    number = tag("span", str(row.number), "opacity:.75;margin-right:10px;font-size:13px")
    line = number + tag("code", escape(visible(row.text)), _LINE)
    if row.mark is None:
        return tag("div", line, "border-left:4px solid transparent;padding:0 0 0 8px;line-height:1.5")
    tone = row.mark.tone
    word = tag("span", badge(tone.word, tone.colour), "font-size:12px;margin-right:8px")
    label = tag("span", escape(cut(row.mark.label, 120)), "font-size:13px;font-weight:600") if row.mark.label else ""
    head = tag("div", word + label, "margin-bottom:2px") if label else word
    # By its attribute a panel finds the line to scroll to.
    place = " data-cause" if tone in (_CAUSE, _NOTICE, _UNEXPLAINED) else ""
    return f'<div{place} style="{tinted(tone.colour, "4px 0 4px 8px")};margin:3px 0;line-height:1.5">{head}{line}</div>'
