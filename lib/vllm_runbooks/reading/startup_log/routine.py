"""Read a busy server's routine lines in bulk: statistics, access and request lines.

In a run of such lines, only the first and the last of each kind and process change what is known of
the launch. Of the others, only the figures of statistics and the secrets in user text count.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Self

from vllm_runbooks.catalog.records import LineFormat
from vllm_runbooks.core.records import Throughput

_KEPT = 4
"""First and last lines of each kind in a run that are read one by one: what precedes a run, such as
an exception's message, affects at most the next four lines."""
_BLOCK = 1 << 20
"""Characters that are searched together."""
_REPEATED, _FIRST_REPEATED = 5000, 4200
"""Shortest run of equal lines that is skipped, and how many of its lines are read (more than any message has)."""
_OPEN = ".*"
_COLOUR = r"(?:\x1b\[[\d;]{0,9}m)?"
_PREFIX = (
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? |[\w.-]{1,60}[_-]\d{1,4} {1,40}\| )?"
    rf"{_COLOUR}(\([A-Za-z_][\w:.-]{{0,60}} pid=\d{{1,10}}\))?{_COLOUR} ?"
    r"INFO(?: (\d\d-\d\d \d\d:\d\d:\d\d) (\[[\w./-]{1,120}:\d{1,6}\]) |: {5})"
)
"""A container runtime's prefix, the process (group 1) and a logger's header with time and source line (2, 3)."""


class Skipped(str):
    """Lines that are not read one by one: their user text, which may have secrets."""

    __slots__ = ("next_line", "samples")
    next_line: int
    """Number of the line that follows in the stream."""
    samples: Sequence[Throughput]

    def __new__(cls, text: str, next_line: int, samples: Sequence[Throughput]) -> Self:
        skipped = super().__new__(cls, text)
        skipped.next_line, skipped.samples = next_line, samples
        return skipped


class _Kind(NamedTuple):
    is_open: bool
    """Whether the line contains user text."""
    figures: tuple[int, ...]
    """Groups of the fields of `Throughput` after its line; empty without statistics."""


class RoutineLines:
    """The routine lines of a catalog, as one expression."""

    def __init__(
        self, formats: Iterable[LineFormat], headers: Sequence[str], meanings: Callable[[str], Sequence[object]]
    ) -> None:
        """Compile; user text with one of the words `headers` may be several lines, and is not routine."""
        self._headers = headers
        self._meanings = meanings
        self._kinds: dict[int, _Kind] = {}
        bodies, group = [], 4
        for source in (source for line_format in formats for source in line_format.routine):
            named = re.compile(source).groupindex
            figures = tuple(group + named[name] for name in Throughput.__dataclass_fields__ if name in named)
            self._kinds[group] = _Kind(source.endswith(_OPEN), figures)
            rest = r"[^\r\n]{0,60000}" if source.endswith(_OPEN) else ""
            bodies.append(f"({re.sub(r'[?]P<[a-z_]+>', '', source.removesuffix(_OPEN))}{rest})")
            group += 1 + len(named)
        self._repeated = group
        # Match short runs too: otherwise every line of a run that is too short would be compared with all others.
        repeated = rf"^([^\r\n]{{0,99}}\r?\n)\{group}{{7,}}+"
        self._finditer = re.compile(
            f"{_PREFIX}(?:{'|'.join(bodies)})\r?\n|{repeated}", re.ASCII | re.MULTILINE
        ).finditer

    def skim(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield a log's text, with `Skipped` in place of the lines that need not be read."""
        run, at_line_start = _Run(), True
        for text in _blocks(pieces):
            yield from self._skimmed(text, 0 if at_line_start else text.find("\n") + 1 or len(text), run)
            at_line_start = text.endswith("\n")
        yield from run.flush()

    def _skimmed(self, text: str, start: int, run: _Run) -> Iterator[str]:
        position, number = 0, run.number
        headers = [word for word in self._headers if word in text]
        for match in self._finditer(text, start):
            begin, end = match.span()
            group = match.lastindex or 0
            if group == self._repeated:
                line = match[group]
                count = (end - begin) // len(line)
                is_long = count >= _REPEATED and not self._meanings(line)
                if is_long and not any(word in line for word in headers):
                    run.number = number
                    yield from run.interrupted(text[position:begin] + line * _FIRST_REPEATED)
                    run.number += count - _FIRST_REPEATED - _KEPT
                    yield run.skipped(run.number)
                    yield from run.interrupted(line * _KEPT)
                    position, number = end, run.number
                continue
            is_open, figures = self._kinds[group]
            # A list: quicker than a generator here.
            if is_open and any([text.find(word, match.start(group), end) >= 0 for word in headers]):
                continue
            if begin != position:
                run.number = number
                yield from run.interrupted(text[position:begin])
                number = run.number
            position = end
            process, source = match.group(1, 3)
            kind = (text[begin], process, source, group, figures and match[figures[1]] != "0.0")
            last = run.last.get(kind)
            if last is None:
                run.number = number
                yield from run.read_one(kind, match[0])
            else:
                last.append((number, match))
                if figures:
                    run.samples.append(_sample(number, match, figures))
                elif is_open:
                    run.texts.append(match[0])
            number += 1
        run.number = number
        if position < len(text):
            yield from run.interrupted(text[position:])
        else:
            yield run.skipped(number)


class _Run:
    """Consecutive routine lines."""

    def __init__(self) -> None:
        self.number = 1
        """Of the next line."""
        self.last: dict[object, deque[tuple[int, re.Match[str]]]] = {}
        """Last lines of each kind, with their numbers."""
        self.texts: list[str] = []
        self.samples: list[Throughput] = []
        self._counts: Counter[object] = Counter()
        self._reached = 1
        """Number of the line that the reader expects."""

    def read_one(self, kind: object, line: str) -> Iterator[str]:
        """Yield one of the first lines of a kind, after the last ones of the others."""
        yield from self.flush()
        yield line
        self._reached += 1
        self._counts[kind] += 1
        if self._counts[kind] == _KEPT:
            self.last[kind] = deque(maxlen=_KEPT)

    def interrupted(self, other: str) -> Iterator[str]:
        """Yield the last lines and the text that ends the run."""
        yield from self.flush()
        yield other
        self.number += other.count("\n")
        self._reached = self.number
        self.last.clear()
        self._counts.clear()

    def flush(self) -> Iterator[str]:
        """Yield the last lines of each kind in order."""
        for number, match in sorted(chain.from_iterable(self.last.values())):
            if number != self._reached:
                yield self.skipped(number)
            yield match[0]
            self._reached += 1
        for lines in self.last.values():
            lines.clear()
        if self.number != self._reached:
            yield self.skipped(self.number)
        self.texts, self.samples = [], []  # of lines that were read after all

    def skipped(self, next_line: int) -> Skipped:
        skipped = Skipped("".join(self.texts), next_line, self.samples)
        self.texts, self.samples, self._reached = [], [], next_line
        return skipped


def _sample(line: int, match: re.Match[str], groups: tuple[int, ...]) -> Throughput:
    prompt, generation, running, waiting, usage = match.group(*groups)
    return Throughput(line, float(prompt), float(generation), int(running), int(waiting), float(usage), match[2])


def _blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Join pieces to blocks that end with a line, if it is not longer than a block."""
    waiting: list[str] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length < _BLOCK:
            continue
        text = "".join(waiting)
        end = text.rfind("\n") + 1 or length
        yield text[:end]
        waiting, length = [text[end:]], length - end
    if length:
        yield "".join(waiting)
