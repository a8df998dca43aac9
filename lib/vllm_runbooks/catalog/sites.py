"""Identify the vLLM release of a log by the source lines in its log lines and tracebacks.

The catalog has, for each release, the lines that write log lines and the ranges of the functions of
start-up code. Each release is weighted by the likelihood that it printed the log; a rare line
counts more than a common one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import folders, options
from vllm_runbooks.core.records import Frame

SITES, WORDINGS = "sites.txt", "wordings.json"
"""Files of generated data in the folder `releases/logs` of the catalog."""
MAX_SITES = 1000
"""Maximum number of sites per launch; a launch of the largest release has about 150."""
_MAX_FRAMES = 20_000
"""Maximum number of frames: most occur in many tracebacks."""
_MISS = 0.03
"""Chance that a release's own log shows a line that its sources lack: a plugin's, a patched file's."""
_MARGIN = 40
"""Lines after a file's last known line that a site of another release may name."""
_IN_RANGE = 0.4
"""Probability that a frame of a neighbouring release lies inside the function's range by
accident."""
_CLEAR = math.log(30)
"""Log likelihood ratio to the next release that identifies a release: one site or frame of its
own."""
_ENOUGH = math.log(200)
"""Log likelihood ratio to chance that is needed for any result."""
_FITS = 0.9
"""Share of the sites and frames that a release which wrote the log has."""
_MOSTLY = 0.7
"""Share of the sites and frames from which on a log is of a modified build of a release."""
_FEW = 3
_NEAR = 0.2
"""Share of the sites and frames from which on a release is called the closest."""
_SOURCE = re.compile(r"\[?(?P<path>[\w./\\-]{1,120}):(?P<line>\d{1,6})\]?", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}")
_ANY = re.compile(r"(…|\d[\d.,]{0,18}\d|\d)", re.ASCII)
"""Values that are filled into a printed line."""


class Site(NamedTuple):
    """A source line that wrote a log line."""

    file: str
    """Base name."""
    line: int


class ModuleFunction(NamedTuple):
    """A function of start-up code."""

    name: str
    first: int
    last: int


class Module(NamedTuple):
    """Log lines and functions of a source file of a release."""

    sites: tuple[int, ...] = ()
    """Lines that write log lines, ascending."""
    functions: tuple[ModuleFunction, ...] = ()


@dataclass(frozen=True)
class Fit:
    """Fit of the releases in the catalog to a log."""

    release: str | None = None
    """The release that wrote it; None if none or several fit. Includes its post-releases."""
    candidates: tuple[str, ...] = ()
    """Indistinguishable releases that fit; if none fits, only the closest."""
    matched: int = 0
    """Sites and frames that the best release has."""
    total: int = 0
    """Sites and frames in files that some known release has."""
    closest: str | None = None
    """The release that a modified build is based on: no release has all sites and frames, and none comes near this
    one."""

    @property
    def is_known(self) -> bool:
        """Whether a release, or one of several, wrote the log: else the candidate is only the closest."""
        return self.release is not None or len(self.candidates) > 1


def order(version: str) -> tuple[object, ...]:
    """Sort key of releases: by number, then by suffix, as in `.post1`."""
    return (options.version_key(version) or (), tuple(int(part) for part in _NUMBER.findall(version)[3:]), version)


def site(source: str) -> Site | None:
    """Site of a log line, `file.py:line` with or without a path; None if invalid."""
    match = _SOURCE.fullmatch(source)
    return Site(re.split(r"[/\\]", match["path"])[-1], int(match["line"])) if match else None


class _ModuleRow:
    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._sites, _, self._functions = text.partition("=")
        self._names = names

    @cached_property
    def sites(self) -> tuple[int, ...]:
        """Lines that write log lines, ascending; empty if the row is damaged."""
        try:
            return tuple(accumulate(map(int, self._sites.split())))
        except ValueError:
            return ()

    @cached_property
    def functions(self) -> tuple[ModuleFunction, ...]:
        """Functions by start; empty if the row is damaged."""
        words = self._functions.split()
        try:
            firsts = accumulate(map(int, words[1::3]))
            return tuple(
                ModuleFunction(self._names[int(name)], first, first + int(length))
                for name, first, length in zip(words[::3], firsts, words[2::3], strict=True)
            )
        except (ValueError, IndexError):
            return ()

    @cached_property
    def ranges(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        spans: dict[str, list[tuple[int, int]]] = {}
        for name, first, last in self.functions:
            spans.setdefault(name, []).append((first, last))
        return spans


class Book:
    """Log lines and functions of every release, decoded file by file when used."""

    def __init__(self, text: str) -> None:
        """Parse the text of a sites file; of a damaged file the readable part."""
        self.releases: tuple[str, ...] = ()
        self._lines: dict[str, list[str]] = {}
        self._rows: dict[str, list[_ModuleRow | None]] = {}
        self._named: dict[str, list[tuple[int, ...]]] = {}
        lines: list[str] = []
        for line in text.split("\n"):
            if line[:1] == " ":
                lines.append(line)
            elif line.startswith("releases "):
                self.releases = tuple(line.split()[1:])
            elif line and line[0] != "#":
                lines = self._lines[line] = []

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {}
        for path in self._lines:
            table.setdefault(path.rpartition("/")[2], []).append(path)
        return table

    def modules(self, release: str) -> dict[str, Module]:
        index = self.releases.index(release)
        rows = ((path, self._in_releases(path)[index]) for path in self._lines)
        return {path: Module(row.sites, row.functions) for path, row in rows if row}

    def _in_releases(self, path: str) -> list[_ModuleRow | None]:
        if path not in self._rows:
            texts = {
                first: rest for first, _, rest in (line.strip().partition(" ") for line in self._lines.get(path, ()))
            }
            names = texts.pop("names", "").split()
            changes = {release: None if row == "-" else _ModuleRow(row, names) for release, row in texts.items()}
            now, rows = None, []
            for release in self.releases:
                now = changes.get(release, now) if release in changes else now
                rows.append(now)
            self._rows[path] = rows
        return self._rows[path]

    def sites(self, file: str) -> list[tuple[int, ...]]:
        if file not in self._named:
            columns = [self._in_releases(path) for path in self._by_name.get(file, ())]
            merged = []
            for rows in zip(*columns, strict=True) if columns else ():
                rows_sites = [row.sites for row in rows if row and row.sites]
                merged.append(rows_sites[0] if len(rows_sites) == 1 else tuple(sorted(set().union(*rows_sites))))
            self._named[file] = merged
        return self._named[file]

    def ranges(self, path: str) -> list[Mapping[str, Sequence[tuple[int, int]]]]:
        return [row.ranges if row else {} for row in self._in_releases(path)]


def data_folder() -> Path:
    return folders.catalog_dir() / "releases" / "logs"


@lru_cache(maxsize=4)
def read_book(path: Path) -> Book:
    try:
        return Book(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Book("")


@dataclass
class _Tally:
    weight: float = 0.0
    matched: int = 0

    def add(self, chance: float, *, is_hit: bool) -> None:
        """Weigh one site or frame that another release would show with this chance."""
        self.matched += is_hit
        self.weight += math.log((1 - _MISS) / chance) if is_hit else math.log(_MISS / (1 - chance))


def fit(sites: Iterable[Site], frames: Iterable[Frame] = (), *, book: Book | None = None) -> Fit:
    """Identify the release that wrote log lines at these sites and raised through these frames."""
    places = set(sites)
    vllm_frames = {vllm_frame for frame in islice(frames, _MAX_FRAMES) if (vllm_frame := _in_package(frame))}
    if not places and not vllm_frames:
        return _judged({}, 0)
    book = book or read_book(data_folder() / SITES)
    tallies = {release: _Tally() for release in book.releases}
    total = 0
    for place in sorted(places)[:MAX_SITES]:
        total += _weigh_site(place, book, tallies)
    for path, line, function in sorted(vllm_frames)[:MAX_SITES]:
        total += _weigh_frame(path, line, function, book, tallies)
    return _judged(tallies, total)


def _in_package(frame: Frame) -> tuple[str, int, str] | None:
    """Path, line and function of a frame in vLLM's package; None for other packages and unnamed code."""
    _, package, path = frame.posix_path.rpartition("/vllm/")
    return (path, frame.line, frame.function) if package and frame.line > 0 and frame.function[:1] != "<" else None


def _weigh_site(place: Site, book: Book, tallies: Mapping[str, _Tally]) -> bool:
    """Weight a site; False if no release has this file."""
    sites = book.sites(place.file)
    if not any(sites):
        return False
    for tally, lines in zip(tallies.values(), sites, strict=True):
        chance = min(len(lines) / (lines[-1] + _MARGIN), 0.5) if lines else _MISS
        at = bisect_left(lines, place.line)
        tally.add(chance, is_hit=at < len(lines) and lines[at] == place.line)
    return True


def _weigh_frame(path: str, line: int, function: str, book: Book, tallies: Mapping[str, _Tally]) -> bool:
    """Weight a frame; False if no release has functions in this file."""
    ranges = book.ranges(path)
    if not any(ranges):
        return False
    for tally, functions in zip(tallies.values(), ranges, strict=True):
        is_hit = any(first <= line <= last for first, last in functions.get(function, ()))
        tally.add(_IN_RANGE if functions else _MISS, is_hit=is_hit)
    return True


def _judged(tallies: Mapping[str, _Tally], total: int) -> Fit:
    """A release that has nearly everything and is far likelier than the next; several of them; or the closest."""
    if not tallies or not total:
        return Fit()
    ranked = sorted(tallies, key=lambda release: tallies[release].weight, reverse=True)
    best = tallies[ranked[0]]
    has_all = best.weight >= _ENOUGH and best.matched >= _FITS * total
    alike = [name for name in ranked if has_all and best.weight - tallies[name].weight < _CLEAR]
    if not alike and best.matched >= _FEW and best.matched >= _NEAR * total:
        near = ranked[:1]
    else:
        near = sorted(alike, key=order) if len(alike) > 1 else []
    equal = [name for name in ranked if best.weight - tallies[name].weight < _CLEAR]
    is_based = not alike and best.matched >= max(_FEW, _MOSTLY * total)
    return Fit(_common(alike), tuple(near), best.matched, total, _common(equal) if is_based else None)


def _common(alike: Sequence[str]) -> str | None:
    """The single release, or the one of which all others are post-releases.

    Post-releases often change no logging line.
    """
    for name in alike:
        if all(other == name or other.startswith(f"{name}.post") for other in alike):
            return name
    return None


def wording(line: str) -> str:
    """Pattern of a printed line: a number matches any number, `…` matches anything."""
    signs = []
    for part in _ANY.split(line.strip()):
        if part == "…":
            signs.append(".{0,80}")
        elif part[:1].isdecimal():
            signs.append(r"[\d.,]{1,20}")
        else:
            signs.append(" ".join(map(re.escape, part.split(" "))))
    return "".join(signs)


def digest(pattern: str) -> str:
    return hashlib.sha256(pattern.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class Wordings:
    """In which releases a message matches each of the catalog's patterns."""

    releases: tuple[str, ...] = ()
    signs: Mapping[str, str] = field(default_factory=dict)
    """By the pattern's digest a sign for each release: 1 has it, 0 has not, ? not read."""

    def has(self, pattern: str, release: str) -> bool | None:
        """Whether a release has a wording; None if unknown."""
        signs = self.signs.get(digest(pattern), "")
        index = self.releases.index(release) if release in self.releases else len(signs)
        return {"1": True, "0": False}.get(signs[index : index + 1])


@lru_cache(maxsize=4)
def read_wordings(path: Path) -> Wordings:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        signs = {key: row for rows in document["patterns"].values() for key, row in rows.items()}
        return Wordings(tuple(document["releases"]), signs)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Wordings()
