"""Read a busy server's routine lines in bulk: statistics, access and request lines.

In a run of such lines, only the first and the last of each kind and process change what is known of
the launch. Of the others, only the figures of statistics and the secrets in user text count.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from operator import attrgetter, methodcaller
from typing import Self

from vllm_runbooks.catalog.records import LineFormat
from vllm_runbooks.core.records import Throughput

_KEPT = 4
"""First and last lines of each kind in a run that are read one by one: what precedes a run, such as
an exception's message, affects at most the next four lines."""
_MAX_KINDS = 64
"""Most kinds of lines in a run; a line of another kind begins the next run."""
_BLOCK = 1 << 20
"""Characters that are searched together."""
_TOGETHER = 128
"""Lines that are digested together: of more, the matches do not fit into a processor's cache."""
_REPEATED, _FIRST_REPEATED = 5000, 4200
"""Shortest run of equal lines that is skipped, and how many of its lines are read (more than any message has)."""
_OPEN, _SERVES = ".*", "(?P<generation_tokens_per_s>"
_COLOUR = r"(?:\x1b\[[\d;]{0,9}m)?"
_PREFIX = (
    r"^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? |[\w.-]{1,60}[_-]\d{1,4} {1,40}\| )?"
    rf"{_COLOUR}(\([A-Za-z_][\w:.-]{{0,60}} pid=\d{{1,10}}\))?{_COLOUR} ?"
    r"INFO(?: (\d\d-\d\d \d\d:\d\d:\d\d) (\[[\w./-]{1,120}:\d{1,6}\]) |: {5})"
)
"""A container runtime's prefix, the process (group 1) and a logger's header with time and source line (2, 3)."""

_group = attrgetter("lastindex")
"""Kind of a matched line."""
_writer = methodcaller("group", 1, 3)
"""Process and source line of a matched line."""

Statistic = tuple[int, re.Match[str], tuple[int, ...]]
"""Number and match of a periodic line, and the groups of the fields of `Throughput` after its line."""


class Skipped(str):
    """Lines that are not read one by one: their user text, which may have secrets."""

    __slots__ = ("next_line", "statistics")
    next_line: int
    """Number of the line that follows in the stream."""
    statistics: Sequence[Statistic]

    def __new__(cls, text: str, next_line: int, statistics: Sequence[Statistic]) -> Self:
        skipped = super().__new__(cls, text)
        skipped.next_line, skipped.statistics = next_line, statistics
        return skipped


class RoutineLines:
    """The routine lines of a catalog, as one expression."""

    def __init__(
        self, formats: Iterable[LineFormat], headers: Sequence[str], meanings: Callable[[str], Sequence[object]]
    ) -> None:
        """Compile; user text with one of the words `headers` may be several lines, and is not routine."""
        self._headers = headers
        self._meanings = meanings
        self._open = set[int]()
        """Groups of the lines that contain user text."""
        self._figures: dict[int, tuple[int, ...]] = {}
        """Groups of the figures of periodic lines, by the group of the line."""
        bodies, group = [], 4
        for source in (source for line_format in formats for source in line_format.routine):
            named = re.compile(source).groupindex
            names = [name for name in Throughput.__dataclass_fields__ if name in named]
            # An idle server's lines prove no served request: they are another kind.
            variants = (source.replace(_SERVES, rf"{_SERVES}(?!0\.0\b)"), source) if names else (source,)
            for variant in variants:
                rest = ""
                if names:
                    self._figures[group] = tuple(group + named[name] for name in names)
                elif variant.endswith(_OPEN):
                    self._open.add(group)
                    rest = r"[^\r\n]{0,60000}"
                bodies.append(f"({re.sub(r'[?]P<[a-z_]+>', '', variant.removesuffix(_OPEN))}{rest})")
                group += 1 + len(named)
        self._repeated = group
        # Match short runs too: otherwise every line of a run that is too short would be compared with all others.
        repeated = rf"^([^\r\n]{{0,99}}\r?\n)\{group}{{7,}}+"
        self._finditer = re.compile(
            f"{_PREFIX}(?:{'|'.join(bodies)})\r?\n|{repeated}", re.ASCII | re.MULTILINE
        ).finditer

    def skim(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield a log's text, with `Skipped` in place of the lines that need not be read."""
        run, at_line_start = _Run(self._open, self._figures), True
        for text in _blocks(pieces):
            yield from self._skimmed(text, 0 if at_line_start else text.find("\n") + 1 or len(text), run)
            at_line_start = text.endswith("\n")
        yield from run.flush()

    def _skimmed(self, text: str, start: int, run: _Run) -> Iterator[str]:
        position = 0
        for stretch in self._stretches(text, start):
            begin, end = stretch[0].start(), stretch[-1].end()
            if stretch[0].lastindex != self._repeated:
                if begin != position:
                    yield from run.interrupted(text[position:begin])
                yield from run.take(stretch)
                position = end
            elif line := self._equal(stretch[0]):
                yield from run.interrupted(text[position:begin] + line * _FIRST_REPEATED)
                run.number += (end - begin) // len(line) - _FIRST_REPEATED - _KEPT
                yield run.skipped(run.number)
                yield from run.interrupted(line * _KEPT)
                position = end
        if position < len(text):
            yield from run.interrupted(text[position:])
        else:
            yield run.skipped(run.number)

    def _stretches(self, text: str, start: int) -> Iterator[list[re.Match[str]]]:
        """Routine lines without others between them; a run of equal lines alone."""
        found = self._finditer(text, start)
        while matches := list(islice(found, _TOGETHER)):
            yield from self._split(matches)

    def _split(self, matches: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
        groups = set(map(_group, matches))
        if not groups.isdisjoint(self._open):
            spoken = "".join([match[match.lastindex or 0] for match in matches if match.lastindex in self._open])
            if any(word in spoken for word in self._headers):
                matches = [match for match in matches if not self._has_header(match)]
        begins, ends = [match.start() for match in matches[1:]], [match.end() for match in matches]
        breaks = {0, len(matches)}
        if begins != ends[:-1]:
            breaks |= {index for index, (begin, end) in enumerate(zip(begins, ends, strict=False), 1) if begin != end}
        if self._repeated in groups:
            alone = [index for index, match in enumerate(matches) if match.lastindex == self._repeated]
            breaks.update(alone, [index + 1 for index in alone])
        for first, last in pairwise(sorted(breaks)):
            yield matches[first:last]

    def _has_header(self, match: re.Match[str]) -> bool:
        """Whether the user text of a line may be a log's line itself."""
        group = match.lastindex or 0
        return group in self._open and any(word in match[group] for word in self._headers)

    def _equal(self, match: re.Match[str]) -> str | None:
        """The line of a run of equal lines, if the run is long and the line has no meaning."""
        line = match[self._repeated]
        is_long = len(match[0]) >= _REPEATED * len(line) and not self._meanings(line)
        return line if is_long and not any(word in line for word in self._headers) else None


class _Run:
    """Consecutive routine lines."""

    def __init__(self, opened: Container[int], figures: Mapping[int, tuple[int, ...]]) -> None:
        self.number = 1
        """Of the next line."""
        self.texts: list[str] = []
        self.statistics: list[Statistic] = []
        self._opened, self._figures = opened, figures
        self._last: dict[object, deque[tuple[int, re.Match[str]]]] = {}
        """Last lines of each kind, with their numbers."""
        self._counts: Counter[object] = Counter()
        self._reached = 1
        """Number of the line that the reader expects."""

    def take(self, stretch: Sequence[re.Match[str]]) -> Iterator[str]:
        """Yield the first lines of each kind, each after the last ones of the others."""
        kinds = list(zip(map(_group, stretch), map(_writer, stretch), strict=True))
        begin = 0
        if not self._last.keys() >= set(kinds):
            for index, kind in enumerate(kinds):
                if kind not in self._last:
                    self._pass(stretch[begin:index], kinds[begin:index])
                    yield from self._read_one(kind, stretch[index][0])
                    begin = index + 1
        self._pass(stretch[begin:], kinds[begin:])

    def _pass(self, lines: Sequence[re.Match[str]], kinds: Sequence[object]) -> None:
        """Digest lines of known kinds, and note the last of each kind."""
        missing = dict.fromkeys(kinds, _KEPT)
        last: list[tuple[object, int]] = []
        for index in range(len(lines) - 1, -1, -1):
            if not missing:
                break
            kind = kinds[index]
            if kind in missing:
                last.append((kind, index))
                missing[kind] -= 1
                if not missing[kind]:
                    del missing[kind]
        for kind, index in reversed(last):
            self._last[kind].append((self.number + index, lines[index]))
        opened, figures = self._opened, self._figures
        self.texts += [match[0] for match in lines if match.lastindex in opened]
        self.statistics += [
            (number, match, figures[group])
            for number, match in enumerate(lines, self.number)
            if (group := match.lastindex or 0) in figures
        ]
        self.number += len(lines)

    def _read_one(self, kind: object, line: str) -> Iterator[str]:
        yield from self.flush()
        if len(self._counts) == _MAX_KINDS and kind not in self._counts:
            self._end()
        yield line
        self.number += 1
        self._reached = self.number
        self._counts[kind] += 1
        if self._counts[kind] == _KEPT:
            self._last[kind] = deque(maxlen=_KEPT)

    def interrupted(self, other: str) -> Iterator[str]:
        """Yield the last lines and the text that ends the run."""
        yield from self.flush()
        yield other
        self.number += other.count("\n")
        self._reached = self.number
        self._end()

    def _end(self) -> None:
        self._last.clear()
        self._counts.clear()

    def flush(self) -> Iterator[str]:
        """Yield the last lines of each kind in order."""
        for number, match in sorted(chain.from_iterable(self._last.values())):
            if number != self._reached:
                yield self.skipped(number)
            yield match[0]
            self._reached += 1
        for lines in self._last.values():
            lines.clear()
        if self.number != self._reached:
            yield self.skipped(self.number)
        self.texts, self.statistics = [], []  # of lines that were read after all

    def skipped(self, next_line: int) -> Skipped:
        skipped = Skipped("".join(self.texts), next_line, self.statistics)
        self.texts, self.statistics, self._reached = [], [], next_line
        return skipped


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


def time_of(statistic: Statistic) -> str | None:
    """Time of a periodic line as printed."""
    return statistic[1][2]


def throughput(line: int, match: re.Match[str], groups: tuple[int, ...]) -> Throughput:
    """Figures of a periodic line."""
    prompt, generation, running, waiting, usage = match.group(*groups)
    return Throughput(line, float(prompt), float(generation), int(running), int(waiting), float(usage), match[2])


def fastest(statistics: Iterable[Statistic]) -> float:
    """Most generated tokens per second of some periodic lines."""
    return max([float(match[groups[1]]) for _, match, groups in statistics])
