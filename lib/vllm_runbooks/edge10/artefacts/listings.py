"""Listings of folders: output of `tree` and `ls`.

A format is recognised by its lines. Lines of no format are skipped; with too many of them, the text
is not a listing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.artefacts.records import ListedFile, Listing

MAX_FILES = 100_000
"""Files of a listing or folder; a compiled model has some hundreds."""
MAX_TEXT = 32_000_000
"""Characters of a listing."""
MAX_DEPTH = 32
"""Nested folders."""
_MAX_LINES = 120_000
_MAX_LINE = 5_000
_MAX_PATH = 4_096
_MIN_SHARE = 0.8
"""Share of the lines that must fit a format."""

_COLORS = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]|\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)")
_BRANCHES = re.compile(r"[├└┣┗╰][─━-]|[+`\\|]-")
_BRANCH_ROW = re.compile(r"[ │┃|]*?([├└┣┗╰+`\\|])[─━-]+ *(\S.*)")
_FILE_ROW = re.compile(r"[ │┃|]*()([^ │┃|].*)")
_TREE_SUMMARY = re.compile(r"\s*\d{1,9} director(?:y|ies)(?:, \d{1,9} files?)?\s*", re.ASCII)
_PROMPT = re.compile(r"(\S{1,400}?)[$#%>]\s{0,4}(?:tree|ls|find)\b.{0,200}", re.ASCII)
_BRACKET = re.compile(r"\[([^\[\]]{0,120})\]\s{1,4}(?=\S)")
_SIZE = re.compile(r"(\d{1,15}(?:[.,]\d{1,6})?)([KMGTP]?)(?:i?B)?", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MODE = re.compile(r"\s*(?:\d{1,20}\s+\d{1,20}\s+)?([-dlbcpsh])[-rwxsStTl]{9}[.+@]?\s+(.*)", re.ASCII)
_DATE = r"(?:\d{4}-\d\d-\d\d\s+\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:\s+[+-]\d{4})?|\S{1,8}\s+\S{1,8}\s+\d[\d:]{3,7})"
_LONG_FORMAT = re.compile(rf"\d{{1,9}}\s+\S+(?:\s+\S+)?\s+(\d[\d.,]{{0,15}}[KMGTP]?)\s+{_DATE}\s(.*)", re.ASCII)
_TOTAL = re.compile(r"(?:total|总计|總计|总用量)\s*[\d.,]+[KMGTP]?\s*", re.ASCII)


class _Entry(NamedTuple):
    path: str
    size: int | None = None
    kind: str | None = None
    """None if unknown: an entry with others below it is a folder."""


_Entries = tuple[str, list[_Entry]]
"""Name or path of the listed folder, empty if unknown, and its entries."""


def read(text: str, where: str) -> Listing:
    """Parse a listing.

    Args:
        text: Output of a program.
        where: Its name in messages.

    Raises:
        InputError: It is no listing, or is damaged.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT:,} characters; list one folder of artefacts")
    lines = list(itertools.islice(_lines(text), _MAX_LINES + 1))
    if not lines:
        raise InputError(f"{where}: is empty; use a folder, or its listing by `tree` or `ls -lR`")
    for program, reader in (("permissions", _read_long), ("tree", _read_tree)):
        entries = reader(lines)
        if entries is not None:
            listing = _listing(*entries, program)
            return replace(listing, is_truncated=True) if len(lines) > _MAX_LINES else listing
    raise InputError(f"{where}: is not a folder listing; use a folder, or its listing by `tree -s` or `ls -lR`")


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        clean = _COLORS.sub("", line[:_MAX_LINE]).replace("\xa0", " ").rstrip()
        if clean.strip() and not clean.lstrip().startswith("```"):
            yield clean


def _parse_size(text: str) -> int | None:
    """Bytes of a size such as 311, 4.0K or 1.2G; None if invalid."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else round(float(match[1].replace(",", ".")) * _UNITS[match[2]])


def _listing(root: str, entries: Iterable[_Entry], program: str) -> Listing:
    """Normalise paths: no `./`, none outside of the folder, each path only the first time."""
    by_path: dict[str, _Entry] = {}
    folders: set[str] = set()
    is_cut = False
    for entry in entries:
        parts = [part for part in entry.path.split("/") if part not in ("", ".")]
        if not parts or ".." in parts or len(entry.path) > _MAX_PATH:
            continue
        if len(parts) > MAX_DEPTH or len(by_path) >= MAX_FILES:
            is_cut = True
            continue
        by_path.setdefault("/".join(parts), entry)
        folders.update("/".join(parts[:end]) for end in range(1, len(parts)))
    files = tuple(
        ListedFile(path, None, "folder") if path in folders else ListedFile(path, entry.size, entry.kind or "file")
        for path, entry in by_path.items()
    )
    return Listing(_folder_name(root), files, is_truncated=is_cut, tool=program)


def _folder_name(path: str) -> str:
    """The last part of a folder's path; empty for `.`, `..` and `~`."""
    name = _unquote(path.strip()).rstrip("/").rpartition("/")[2]
    return "" if name in (".", "..", "~") else name


def _read_tree(lines: list[str]) -> _Entries | None:
    """Parse `tree`."""
    if not any(map(_BRANCHES.search, lines)):
        return None
    texts = [line.expandtabs(4) for line in lines]
    rows = [row for text in texts if (row := _BRANCH_ROW.fullmatch(text) or _FILE_ROW.fullmatch(text))]
    first = next((number for number, row in enumerate(rows) if row[1]), None)
    if first is None:
        return None
    root = rows[first - 1][2] if first else ""
    if root in (".", "./", ""):
        prompt = next((match for row in rows[:first] if (match := _PROMPT.fullmatch(row[2]))), None)
        root = prompt[1].rpartition(":")[2] if prompt else ""
    entries: list[_Entry] = []
    parents: list[tuple[int, str]] = []
    for row in rows[first:]:
        column = row.start(1) if row[1] else row.start(2) - 4
        if column < 0 or _TREE_SUMMARY.fullmatch(row[0]):
            continue
        while parents and parents[-1][0] >= column:
            parents.pop()
        entry = _tree_name(row[2])
        path = f"{parents[-1][1]}/{entry.path}" if parents else entry.path
        entries.append(entry._replace(path=path))
        if row[1] and len(parents) <= MAX_DEPTH + 1:
            parents.append((column, path))
    return _tree_name(root).path if root else "", entries


def _tree_name(text: str) -> _Entry:
    """A name with the permissions and sizes that `tree` prints before it and the signs after it."""
    name, size, kind = text, None, None
    if bracket := _BRACKET.match(name):
        words = bracket[1].split()
        size = next((number for word in reversed(words) if (number := _parse_size(word)) is not None), None)
        kind = "folder" if words and re.fullmatch(r"d[-rwxsStT]{9}", words[0]) else None
        name = name[bracket.end() :]
    name = _unquote(name.partition(" -> ")[0].partition("  [error opening dir]")[0].rstrip())
    if name.endswith("/"):
        kind, name = "folder", name.rstrip("/") or "."
    name = name.removesuffix("*").removesuffix("@")
    return _Entry(name.rpartition("/")[2] or name, None if kind == "folder" else size, kind)


def _read_long(lines: list[str]) -> _Entries | None:
    """Parse lines with permissions: `ls -l`, `ls -lR` and `find -ls`."""
    entries: list[_Entry] = []
    folder = root = ""
    matched = 0
    for line in lines:
        mode = _MODE.fullmatch(line)
        if mode is None:
            is_folder = line.endswith(":") and not line[:1].isspace()
            if is_folder:
                folder = _unquote(line[:-1])
                root = root if matched or root else folder
            matched += is_folder or bool(_TOTAL.fullmatch(line))
            continue
        row = _LONG_FORMAT.fullmatch(mode[2])
        if row is None:
            continue
        matched += 1
        name = _unquote(row[2].strip()).partition(" -> ")[0]
        kind = "folder" if mode[1] == "d" else "file" if mode[1] in "-l" else "other"
        # The listed size of a link is not that of its target.
        size = _parse_size(row[1]) if mode[1] == "-" else None
        name = name.removesuffix("*") if "x" in line.split(None, 1)[0] else name
        entries.append(_Entry(f"{folder}/{name}" if folder else name, size, kind))
    if not entries or matched < _MIN_SHARE * len(lines):
        return None
    prefix = f"{root.rstrip('/')}/"
    if root.startswith("/") and all(entry.path.startswith(prefix) for entry in entries):
        return root, [entry._replace(path=entry.path.removeprefix(prefix)) for entry in entries]
    return "", entries


def _unquote(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name
