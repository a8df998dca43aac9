"""Read a busy server's routine lines in bulk: statistics, access and request lines.

In a run of such lines, only the first and the last of each kind and process change what is known of
the launch. Of the others, only the figures of statistics and the secrets in user text count.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, Self

from vllm_runbooks.catalog.records import LineFormat
from vllm_runbooks.core.records import Throughput
from vllm_runbooks.core.scan import PatternSet

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
"""Shortest run of equal or plain lines that is skipped, and how many of its lines are read (more than any message
has)."""
_PLAIN = r"(?:[a-z\d ,.;-]{0,99}+\r?\n)"
"""A line that is no header and no part of an exception, and has a meaning only with a word of the catalog."""
_LAUNCHES = ("vllm", "docker run", "podman run", "nerdctl run")
"""Words of every plain line that `launch.begun` accepts."""
_OPEN, _SERVES = ".*", "(?P<generation_tokens_per_s>"
_COLOUR = r"(?:\x1b\[[\d;]{0,9}m)?+"
_CARRIER = (
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? |[\w.-]{1,60}[_-]\d{1,4} {1,40}\| )?+"
)
"""Prefix of a container runtime."""
_PROCESS, _SOURCE = r"(\([A-Za-z_][\w:.-]{0,60} pid=\d{1,10}\))?", r"\[[\w./-]{1,120}:\d{1,6}\]"

_group = attrgetter("lastindex")
"""Kind of a matched line; None if it is not routine."""
_writer = methodcaller("group", 1, 3)
"""Process and source line of a matched line."""
_Writer = tuple[str | None, str | None]

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


class _Stretch(NamedTuple):
    """Consecutive routine lines."""

    matches: list[re.Match[str]]
    groups: list[int]
    """Last group of each, which is its kind."""
    texts: list[str]
    """User text of each, empty without; an empty list if no line has any."""

    def part(self, begin: int, end: int) -> _Stretch:
        return _Stretch(self.matches[begin:end], self.groups[begin:end], self.texts[begin:end])


class RoutineLines:
    """The routine lines of a catalog, as one expression."""

    def __init__(self, formats: Iterable[LineFormat], headers: Sequence[str], patterns: PatternSet) -> None:
        """Compile; user text with one of the words `headers` may be several lines, and is not routine."""
        self._headers = headers
        self._patterns = patterns
        self._open = set[int]()
        """Groups of user text."""
        self._figures: dict[int, tuple[int, ...]] = {}
        """Groups of the figures of periodic lines, by the last of them."""
        bodies, group = [], 3
        for source in (source for line_format in formats for source in line_format.routine):
            named = re.compile(source).groupindex
            names = [name for name in Throughput.__dataclass_fields__ if name in named]
            # An idle server's lines prove no served request: they are another kind.
            variants = (source.replace(_SERVES, rf"{_SERVES}(?!0\.0\b)"), source) if names else (source,)
            for variant in variants:
                first, group = group, group + len(named) + 1
                if names:
                    self._figures[group] = tuple(first + named[name] for name in names)
                elif variant.endswith(_OPEN):
                    self._open.add(group)
                body = re.sub(r"[?]P<[a-z_]+>", "", variant.removesuffix(_OPEN))
                bodies.append(f"{body}(.{{0,60000}})" if group in self._open else f"{body}()")
        self._repeated, self._plain = group + 1, group + 2
        # Match short runs too: otherwise every line of a run that is too short would be compared with all others.
        self._alone = {None, self._repeated, self._plain}
        """Kinds that are no part of a stretch."""
        self._bodies = rf"(?:{'|'.join(bodies)})\r?\n|(.{{0,99}}\n)\{self._repeated}{{7,}}+|({_PLAIN}{{8,}}+)|.*\n"
        self._of_any = self._expression(_PROCESS, _SOURCE)
        self._of_some = (frozenset[_Writer](), self._of_any)

    def _expression(self, process: str, source: str) -> re.Pattern[str]:
        """An expression that matches every line; group 1 is the process, 2 the time and 3 the source line."""
        header = rf"{_COLOUR}{process}{_COLOUR} ?INFO(?: (\d\d-\d\d \d\d:\d\d:\d\d) ({source}) |: {{5}})"
        return re.compile(f"{_CARRIER}{header}{self._bodies}", re.ASCII)

    def _expression_of(self, writers: Collection[_Writer]) -> re.Pattern[str]:
        """The same with only the lines of these writers of one process as routine, which is faster."""
        if self._of_some[0] != writers:
            process = next(iter(writers))[0] or ""
            source = "|".join(re.escape(source) for _, source in writers if source) or "(?!)"
            self._of_some = frozenset(writers), self._expression(f"({re.escape(process)})", source)
        return self._of_some[1]

    def skim(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield a log's text, with `Skipped` in place of the lines that need not be read."""
        run, at_line_start = _Run(self._open, self._figures), True
        for text in _blocks(pieces):
            yield from _joined(self._skimmed(text, 0 if at_line_start else text.find("\n") + 1 or len(text), run))
            at_line_start = text.endswith("\n")
        yield from run.flush()

    def _skimmed(self, text: str, start: int, run: _Run) -> Iterator[str]:
        yield from run.begin_block()
        expression = self._expression_of(run.writers) if run.writers else self._of_any
        position = 0
        for stretch in self._stretches(expression.finditer(text, start, text.rfind("\n") + 1)):
            begin, end = stretch.matches[0].start(), stretch.matches[-1].end()
            if stretch.groups[0] not in self._alone:
                if begin != position:
                    yield from run.interrupted(text[position:begin])
                yield from run.take(stretch)
                position = end
            elif lines := self._meaningless(stretch.matches[0]):
                yield from run.interrupted(text[position:begin] + "".join(lines[:_FIRST_REPEATED]))
                if stretch.groups[0] == self._plain:
                    run.texts.append("".join(lines[_FIRST_REPEATED:-_KEPT]))
                run.number += len(lines) - _FIRST_REPEATED - _KEPT
                yield run.skipped(run.number)
                yield from run.interrupted("".join(lines[-_KEPT:]))
                position = end
        if position < len(text):
            yield from run.interrupted(text[position:])
        elif run.texts or run.statistics:
            yield run.skipped(run.number)

    def _stretches(self, found: Iterator[re.Match[str]]) -> Iterator[_Stretch]:
        """Routine lines without others between them; a run of equal lines alone."""
        while matches := list(islice(found, _TOGETHER)):
            groups, texts = list(map(_group, matches)), list[str]()
            if not self._open.isdisjoint(groups):
                texts = [
                    match[group] if group in self._open else ""
                    for match, group in zip(matches, groups, strict=True)
                ]  # fmt: skip
                if self._may_be_several("".join(texts)):
                    alone = [not self._may_be_several(text.removesuffix("\r")) for text in texts]
                    groups = [group if is_alone else None for group, is_alone in zip(groups, alone, strict=True)]
            whole = _Stretch(matches, groups, texts)
            if not self._alone.isdisjoint(groups):
                yield from self._parts(whole)
            else:
                yield whole

    def _parts(self, lines: _Stretch) -> Iterator[_Stretch]:
        """Stretches in lines of which some are not routine, without those too short to skip any of their lines."""
        begin, count = 0, len(lines.groups)
        for index, group in enumerate((*lines.groups, None)):
            if group in self._alone:
                if index - begin > 2 * _KEPT or (begin < index and (not begin or index == count)):
                    yield lines.part(begin, index)
                if group is not None:
                    yield lines.part(index, index + 1)
                begin = index + 1

    def _may_be_several(self, text: str) -> bool:
        """Whether user text may be several lines, or a log's line itself."""
        return "\r" in text or any([word in text for word in self._headers])

    def _meaningless(self, match: re.Match[str]) -> list[str]:
        """The lines of a run of equal or plain lines, if it is long and they have no meaning; else none."""
        text, line = match[0], match[self._repeated]
        if text.count("\n") < _REPEATED or (not line and any([word in text for word in _LAUNCHES])):
            return []
        lines = [line] * (len(text) // len(line)) if line else [f"{line}\n" for line in text.split("\n")[:-1]]
        if line and self._may_be_several(line.removesuffix("\n").removesuffix("\r")):
            return []
        among = self._patterns.candidates(text)
        different = [line] if line else lines
        return [] if among and any(self._patterns.find(line, among) for line in different) else lines


class _Run:
    """Consecutive routine lines."""

    def __init__(self, opened: Container[int], figures: Mapping[int, tuple[int, ...]]) -> None:
        self.number = 1
        """Of the next line."""
        self.texts: list[str] = []
        self.statistics: list[Statistic] = []
        self.writers = frozenset[_Writer]()
        """Who alone writes, if it is known: then the kind of a line is its group alone."""
        self._opened, self._figures = opened, figures
        self._last: dict[Any, deque[tuple[int, re.Match[str]]]] = {}
        """Last lines of each kind, with their numbers."""
        self._counts: Counter[Any] = Counter()
        self._reached = 1
        """Number of the line that the reader expects."""
        self._is_whole = False
        """Whether the run includes the whole block."""

    def begin_block(self) -> Iterator[str]:
        """Note who alone wrote the block before; after an interruption it may be others."""
        if not self._is_whole and self.writers:
            yield from self.flush()
            self._end()
            self.writers = frozenset()
        elif self._is_whole and not self.writers and self._last:
            groups: dict[int, _Writer] = dict(list(self._counts))
            if len(groups) == len(self._counts) and len({process for process, _ in groups.values()}) == 1:
                self.writers = frozenset(groups.values())
                self._last = {group: lines for (group, _), lines in self._last.items()}
                self._counts = Counter({group: count for (group, _), count in self._counts.items()})
        self._is_whole = True

    def take(self, stretch: _Stretch) -> Iterator[str]:
        """Yield the first lines of each kind, each after the last ones of the others."""
        kinds: Sequence[object] = stretch.groups
        if not self.writers:
            kinds = list(zip(kinds, map(_writer, stretch.matches), strict=True))
        begin = 0
        if not self._last.keys() >= set(kinds):
            for index, kind in enumerate(kinds):
                if kind not in self._last:
                    self._pass(stretch.part(begin, index), kinds[begin:index])
                    yield from self._read_one(kind, stretch.matches[index][0])
                    begin = index + 1
        self._pass(stretch.part(begin, len(kinds)) if begin else stretch, kinds[begin:] if begin else kinds)

    def _pass(self, stretch: _Stretch, kinds: Sequence[object]) -> None:
        """Digest lines of known kinds, and note the last of each kind."""
        missing = dict.fromkeys(kinds, _KEPT)
        last: list[tuple[object, int]] = []
        for index in range(len(kinds) - 1, -1, -1):
            if not missing:
                break
            kind = kinds[index]
            if kind in missing:
                last.append((kind, index))
                missing[kind] -= 1
                if not missing[kind]:
                    del missing[kind]
        for kind, index in reversed(last):
            self._last[kind].append((self.number + index, stretch.matches[index]))
        self.texts += filter(None, stretch.texts)
        figures = self._figures
        if not figures.keys().isdisjoint(stretch.groups):
            self.statistics += [
                (number, match, figures[group])
                for number, (match, group) in enumerate(zip(stretch.matches, stretch.groups, strict=True), self.number)
                if group in figures
            ]
        self.number += len(kinds)

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
        self._is_whole = False

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
        # Never empty, which would be a pause in the output.
        skipped = Skipped("\n".join([*self.texts, ""]) or "\n", next_line, self.statistics)
        self.texts, self.statistics, self._reached = [], [], next_line
        return skipped


def _joined(parts: Iterable[str]) -> Iterator[str]:
    """Join the parts between skipped lines: many small ones would be read more slowly."""
    for is_skipped, some in groupby(parts, lambda part: isinstance(part, Skipped)):
        if is_skipped:
            yield from some
        else:
            yield "".join(some)


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
    prompt, generation, running, waiting, usage, preempted = match.group(*groups)
    return Throughput(
        line, float(prompt), float(generation), int(running), int(waiting), float(usage), match[2],
        int(preempted) if preempted else None,
    )  # fmt: skip


def preemptions(statistics: Iterable[Statistic]) -> list[tuple[str | None, int]]:
    """Time and number of the preemptions that some periodic lines report."""
    return [(match[2], int(match[groups[5]])) for _, match, groups in statistics if match[groups[5]]]


def fastest(statistics: Iterable[Statistic]) -> float:
    """Most generated tokens per second of some periodic lines."""
    return max([float(match[groups[1]]) for _, match, groups in statistics])
