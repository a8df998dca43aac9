"""Listings of folders, as programs print them, to one record: `tree`, `ls`, `find`, `dir`, `tar`, `zip`, our own JSON.

What a program prints is told by its lines, not by its name: columns of drawn branches, permissions, sizes beside paths.
Every line is read once from its beginning; what no listing has is passed over, and a text of which too little is read
is none.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.artefacts.records import FILE_KINDS, ListedFile, Listing

MAX_FILES = 100_000
"""Of a listing, or a folder; what is checked has some hundreds."""
MAX_TEXT = 32_000_000
"""Characters of a listing."""
MAX_DEPTH = 32
"""Folders inside of each other."""
_MAX_LINES = 120_000
_MAX_LINE = 5_000
_MAX_PATH = 4_096
"""As on Linux."""

_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]|\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)")
_UPRIGHT = "│┃║|╎┆"
_BRANCH = "├└┣┗╠╚╰╟╙┖┠+`\\"
_DASH = "─━═-╴"
_DRAWN = frozenset(_UPRIGHT + "├└┣┗╠╚╰╟╙┖┠─━═╴╎┆")
_BRANCHES = re.compile(r"[├└┣┗╠╚╰╟╙┖┠][─━═╴-]|[+`\\|]-")
_REPORT = re.compile(r"\s*\d{1,9} director(?:y|ies)(?:, \d{1,9} files?)?\s*", re.ASCII)
_PROMPT = re.compile(r"(\S{1,400}?)[$#%>]\s{0,4}(?:tree|ls|find)\b.{0,200}", re.ASCII)
_BRACKET = re.compile(r"\[([^\[\]]{0,120})\]\s{1,4}(?=\S)")
_SIZE = re.compile(r"(\d{1,15}(?:[.,]\d{1,6})?)([KMGTP]?)(?:i?B)?", re.ASCII)
_BEHIND = re.compile(r"(\S.{0,400}?)\s{1,8}[(\[](\d[\d.,]{0,15})\s?([KMGT]?)i?B?[)\]]", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MODE = re.compile(r"\s*(?:\d{1,20}\s+\d{1,20}\s+)?([-dlbcpsh])[-rwxsStTl]{9}[.+@]?\s+(.*)", re.ASCII)
_DATE = r"(?:\d{4}-\d\d-\d\d\s+\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:\s+[+-]\d{4})?|\S{1,8}\s+\S{1,8}\s+\d[\d:]{3,7})"
_ZIPPED = r"(?:\d\d-[A-Z][a-z]{2}-\d\d\s\d\d:\d\d|\d{8}\.\d{6})"
_OF_LS = re.compile(rf"\d{{1,9}}\s+\S+(?:\s+\S+)?\s+(\d[\d.,]{{0,15}}[KMGTP]?)\s+{_DATE}\s(.*)", re.ASCII)
_OF_TAR = re.compile(rf"\S+/\S+\s+(\d{{1,18}})\s+{_DATE}\s(.*)", re.ASCII)
_OF_ZIPINFO = re.compile(
    rf"\d{{1,3}}\.\d{{1,3}}\s+\w{{1,8}}\s+(\d{{1,18}})\s+\S{{2}}(?:\s+\d{{1,18}})?\s+\w{{1,8}}\s+{_ZIPPED}\s(.*)",
    re.ASCII,
)
_OF_ZIP = re.compile(r"\s*(\d{1,18})\s+(?:\d{4}-\d\d-\d\d|\d\d-\d\d-\d{2,4})\s+\d\d:\d\d\s+(\S.*)", re.ASCII)
_OF_WINDOWS = re.compile(
    r"\s*(?:([-dlarhs]{5,6})\s+)?\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\s+\d{1,2}:\d\d(?:\s?[AaPp]\.?[Mm]\.?)?\s+"
    r"(?:(?:<([A-Z]{1,12})>|(\d[\d.,]{0,20}))\s+)?(\S.*)",
    re.ASCII,
)
_WINDOWS_PLACE = re.compile(r"(?:^|\s)([A-Za-z]:\\.*|\\\\\w.*)", re.ASCII)
_OF_PLACE = (" 的目录", " 的目錄", " のディレクトリ", " 디렉터리")
"""What `dir` writes behind the folder in some languages."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_DIGEST = re.compile(r"\\?[0-9a-fA-F]{32,128}\s{1,4}\*?(\S.*)", re.ASCII)
_NAMED_DIGEST = re.compile(r"[A-Z][A-Z0-9/-]{1,20} \((.*)\) = [0-9a-fA-F]{32,128}", re.ASCII)
_DATED = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\s", re.ASCII)
_TOTAL = re.compile(
    r"(?:total|总计|總计|总用量)\s*[\d.,]+[KMGTP]?\s*|Archive:.*|Zip file size:.*|\d{1,9} files?, \d{1,18} bytes.*",
    re.ASCII,
)
_PICTURES = re.compile(r"[\U0001F300-\U0001FAFF\u2600-\u27BF\uE000-\uF8FF\U000F0000-\U000FFFFD\ufe0f]{1,3}\s{0,3}")
_BULLET = re.compile(r"\A( {0,200})[-*+] {1,3}`?(?=\S)")
_ENOUGH = 0.8
"""Share of the lines that must be read as what a listing has."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    size: int | None
    kind: str | None
    """None: it is not told, and what has others below it is a folder."""


def read(text: str, where: str) -> Listing:
    """The record of a listing.

    Args:
        text: What a program printed, or JSON: `tree -J`, or a document of this tool.
        where: What it is called in messages.

    Raises:
        InputError: it is none, or is damaged.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: is larger than {MAX_TEXT:,} characters; list one folder of artefacts")
    begun = text.lstrip("\ufeff \t\r\n")
    if begun[:1] in ("{", "["):
        found = _of_json(begun, where)
        if found is not None:
            return found
    lines = list(itertools.islice(_lines(text), _MAX_LINES + 1))
    if not lines:
        raise InputError(f"{where}: is empty; give a folder, or what `tree` or `ls -lR` prints of it")
    for name, reader in _READERS:
        entries = reader(lines)
        if entries is not None:
            root, found_entries = entries
            found = _listing(root, found_entries, name)
            return replace(found, is_cut=True) if len(lines) > _MAX_LINES else found
    raise InputError(f"{where}: is no listing of a folder; give a folder, or what `tree -s` or `ls -lR` prints of it")


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        clean = _COLOURS.sub("", line[:_MAX_LINE]).replace("\xa0", " ").rstrip()
        if clean.strip() and not clean.lstrip().startswith("```"):
            yield clean


def size(text: str) -> int | None:
    """Bytes of a size such as 311, 4.0K or 1.2G; None: it is none."""
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else round(float(found[1].replace(",", ".")) * _UNITS[found[2]])


_Read = tuple[str, list[_Entry]]


def _listing(root: str, entries: Iterable[_Entry], by: str) -> Listing:
    """Paths made plain: no `./`, nothing that leaves the folder, each once; folders by what lies in them."""
    found: dict[str, _Entry] = {}
    folders: set[str] = set()
    is_cut = False
    for entry in entries:
        parts = [part for part in entry.path.replace("\\", "/").split("/") if part not in ("", ".")]
        if not parts or ".." in parts or len(entry.path) > _MAX_PATH:
            continue
        if len(parts) > MAX_DEPTH or len(found) >= MAX_FILES:
            is_cut = True
            continue
        path = "/".join(parts)
        found.setdefault(path, entry)
        folders.update("/".join(parts[:end]) for end in range(1, len(parts)))
    files = (
        ListedFile(path, None, "folder") if path in folders else ListedFile(path, entry.size, entry.kind or "file")
        for path, entry in found.items()
    )
    return Listing(_last(root), tuple(files), is_cut=is_cut, by=by)


def _last(path: str) -> str:
    """The name of a folder by its path; empty where that only says "here"."""
    name = path.strip().strip('"').replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = name.rpartition(":")[2] if re.fullmatch(r"[A-Za-z]:\.?", name) else name
    return "" if name in (".", "..", "~") else name


# ---- JSON


def _of_json(text: str, where: str) -> Listing | None:
    """A document of ours, or of `tree -J`; None: it is no JSON, as `[1.2K]  name` is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        if text.startswith("{"):
            raise InputError(f"{where}: is no JSON; write it again, or give the folder itself") from None
        return None
    if isinstance(told, list):
        entries, root = list(_of_tree(told)), next((each.get("name") for each in told if isinstance(each, dict)), "")
        return _listing(root if isinstance(root, str) else "", entries, "tree") if entries else None
    held = told.get("listing", told)
    if not isinstance(held, dict) or not isinstance(held.get("files"), list):
        raise InputError(f"{where}: has no list of files; give what `edge10 check --format json` prints")
    entries = [_own(each, f"{where}: files[{number}]") for number, each in enumerate(held["files"])]
    found = _listing("", entries, "vllm-runbooks")
    name, unread = held.get("name") or "", held.get("unread") or {}
    if not isinstance(name, str) or not isinstance(unread, dict):
        raise InputError(f"{where}: name or unread have another form; give what `edge10 check --format json` prints")
    reasons = {str(path): str(why) for path, why in unread.items()}
    return Listing(name, found.files, reasons, found.is_cut or held.get("is_cut") is True, str(held.get("by") or ""))


def _own(told: object, where: str) -> _Entry:
    held: Mapping[str, Any] = told if isinstance(told, dict) else {}
    path, number, kind = held.get("path"), held.get("bytes"), held.get("kind", "file")
    is_size = number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 0)
    if not isinstance(path, str) or not is_size or kind not in FILE_KINDS:
        raise InputError(f"{where}: is no file with path, bytes and kind; write the listing again")
    return _Entry(path, number, str(kind))


def _of_tree(told: list[Any]) -> Iterator[_Entry]:
    """Entries of `tree -J`, whose first is the folder itself."""
    open_ = [(each, "", True) for each in reversed(told)]
    while open_:
        each, above, is_root = open_.pop()
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            continue
        name = each["name"].rstrip("/").rpartition("/")[2]
        path = "" if is_root else f"{above}{name}"
        inside = each.get("contents")
        if path:
            number = each.get("size")
            is_folder = each.get("type") == "directory" or isinstance(inside, list)
            yield _Entry(
                path, number if isinstance(number, int) and not is_folder else None, "folder" if is_folder else "file"
            )
        if isinstance(inside, list) and path.count("/") < MAX_DEPTH:
            open_ += [(one, f"{path}/" if path else "", False) for one in reversed(inside)]


# ---- drawn trees


@dataclass(frozen=True, slots=True)
class _Row:
    branch: int | None
    """Column of its branch; None: nothing is drawn in front of the name but what goes past it."""
    column: int
    name: str


def _drawn(lines: list[str]) -> _Read | None:
    """What `tree` draws, in whatever signs, the one of Windows included, which draws branches to folders alone."""
    if not any(map(_BRANCHES.search, lines)):
        return None
    lines = [line.expandtabs(4) for line in lines]
    is_wide = any(_is_narrow(line) for line in lines)
    rows = [_row(line, is_wide=is_wide) for line in lines]
    first = next((number for number, row in enumerate(rows) if row.branch is not None), None)
    if first is None:
        return None
    root = rows[first - 1].name if first else ""
    asked = next((found[1] for line in lines[:first] if (found := _PROMPT.fullmatch(line.strip()))), "")
    if root in (".", "./", ""):
        root = asked.rpartition(":")[2]
    entries: list[_Entry] = []
    above: list[tuple[int, str]] = []
    for line, row in zip(lines[first:], rows[first:], strict=True):
        if _REPORT.fullmatch(line):
            continue
        at = row.branch if row.branch is not None else row.column - _STEP
        if at < 0 or not row.name:
            continue
        while above and above[-1][0] >= at:
            above.pop()
        entry = _named(row.name)
        path = f"{above[-1][1]}/{entry.path}" if above else entry.path
        entries.append(_Entry(path, entry.size, entry.kind))
        if row.branch is not None and len(above) <= MAX_DEPTH + 1:
            above.append((at, path))
    return _named(root).path if root else "", entries


_STEP = 4
"""Columns from a folder's branch to that of what lies in it, where files have none."""


def _is_narrow(line: str) -> bool:
    """Whether its branch is one sign and one dash, as where such signs are two columns wide."""
    at = next((number for number, sign in enumerate(line) if sign in "├└"), None)
    return at is not None and line[at + 1 : at + 2] == "─" and line[at + 2 : at + 3] not in ("─", " ", "")


def _row(line: str, *, is_wide: bool) -> _Row:
    at = 0
    while at < len(line) and (line[at] == " " or line[at] in _UPRIGHT):
        at += 1
    branch = None
    if line[at : at + 1] and line[at] in _BRANCH and line[at + 1 : at + 2] and line[at + 1] in _DASH:
        branch, at = at, at + 1
    elif at and line[at - 1] == "|" and line[at : at + 1] == "-":
        branch = at - 1
    if branch is not None:
        while at < len(line) and line[at] in _DASH:
            at += 1
    while at < len(line) and line[at] == " ":
        at += 1

    def column(end: int) -> int:
        return end + (sum(sign in _DRAWN for sign in line[:end]) if is_wide else 0)

    return _Row(None if branch is None else column(branch), column(at), line[at:])


def _named(text: str) -> _Entry:
    """A name with what `tree` writes in front of it and behind."""
    name, told, kind = text, None, None
    found = _BRACKET.match(name)
    if found:
        words = found[1].split()
        told = next((number for word in reversed(words) if (number := size(word)) is not None), None)
        kind = "folder" if words and re.fullmatch(r"d[-rwxsStT]{9}", words[0]) else None
        name = name[found.end() :]
    name = _PICTURES.sub("", name, count=1) if _PICTURES.match(name) else name
    behind = _BEHIND.fullmatch(name)
    if behind:
        name, told = behind[1], size(f"{behind[2]}{behind[3]}")
    name = re.split(r" {1,8}(?:#|<-|←|//) ", name, maxsplit=1)[0].partition(" -> ")[0].rstrip()
    name = name.partition("  [error opening dir]")[0]
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if name.endswith("/"):
        kind, name = "folder", name.rstrip("/") or "."
    name = name.removesuffix("*").removesuffix("@")
    return _Entry(name.rpartition("/")[2] or name, None if kind == "folder" else told, kind)


# ---- lines with permissions


def _long(lines: list[str]) -> _Read | None:
    """What `ls -l`, `ls -lR`, `find -ls`, `tar -tv` and `zipinfo` print."""
    entries: list[_Entry] = []
    folder = root = ""
    understood = 0
    for line in lines:
        mode = _MODE.fullmatch(line)
        if mode is None:
            if line.endswith(":") and not line[:1].isspace():
                root = root if understood or root else _unquoted(line[:-1])
                folder = _unquoted(line[:-1])
                understood += 1
            else:
                understood += bool(_TOTAL.fullmatch(line))
            continue
        rest = _OF_ZIPINFO.fullmatch(mode[2]) or _OF_TAR.fullmatch(mode[2]) or _OF_LS.fullmatch(mode[2])
        if rest is None:
            continue
        understood += 1
        name = _unquoted(rest[2].strip())
        name = name.partition(" -> ")[0] if mode[1] == "l" else name.partition(" link to ")[0]
        kind = "folder" if mode[1] == "d" else "file" if mode[1] in "-lh" else "other"
        # A link's own size says nothing of the file that it leads to.
        told = size(rest[1]) if mode[1] in "-h" else None
        name = name.removesuffix("*") if "x" in line.split(None, 1)[0] else name
        entries.append(_Entry(f"{folder}/{name}" if folder else name, told, kind))
    if not entries or understood < _ENOUGH * len(lines):
        return None
    return _under(root, entries)


def _under(root: str, entries: list[_Entry]) -> _Read:
    """Paths below the folder that a listing begins with, where all of them lie there and that is no place in itself."""
    start = f"{root.rstrip('/')}/"
    if root.startswith("/") and all(entry.path.startswith(start) for entry in entries):
        return root, [_Entry(entry.path.removeprefix(start), entry.size, entry.kind) for entry in entries]
    return "", entries


def _unquoted(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name


def _zipped(lines: list[str]) -> _Read | None:
    """What `unzip -l` prints."""
    found = [match for line in lines if (match := _OF_ZIP.fullmatch(line))]
    if not found or len(found) < _ENOUGH * (len(lines) - 5):
        return None
    return "", [_Entry(each[2], int(each[1]), "folder" if each[2].endswith("/") else "file") for each in found]


def _zipped_by_python(lines: list[str]) -> _Read | None:
    """What `python -m zipfile -l` prints."""
    entries = []
    for line in lines[1:]:
        path, *told = line.rsplit(None, 3)
        if len(told) != 3 or not _STAMP.fullmatch(" ".join(told[:2])) or not _is_number(told[2]):
            return None
        is_folder = path.endswith("/")
        entries.append(_Entry(path, None if is_folder else int(told[2][:18]), "folder" if is_folder else "file"))
    return ("", entries) if entries else None


def _windows(lines: list[str]) -> _Read | None:
    """What `dir /s` and `Get-ChildItem -Recurse` print: rows below the folder that they lie in."""
    root, folder = "", None
    found: list[tuple[str, _Entry]] = []
    for line in lines:
        row, place = _OF_WINDOWS.fullmatch(line), _WINDOWS_PLACE.search(line)
        if row is not None and folder is not None:
            mode, mark, number, name = row.groups()
            is_folder = (mode or "").startswith("d") or mark == "DIR"
            kind = "folder" if is_folder else "file" if mark in (None, "SYMLINK") else "linked folder"
            is_link = mark is not None or (mode or "").endswith("l")
            told = int(re.sub("[.,]", "", number)) if number and not is_folder and not is_link else None
            name = name.partition(" [")[0] if mark else name
            found.append((folder, _Entry(name, told, kind)))
        elif place is not None:
            folder = place[1]
            for end in _OF_PLACE:
                folder = folder.removesuffix(end)
            root = root or folder
    if 2 * len(found) < len(lines) - 3 * len({folder for folder, _ in found}) or not found:
        return None
    if not all(f"{place}\\".startswith(f"{root}\\") for place, _ in found):
        root = ""
    return root, [replace(one, path=f"{place.removeprefix(root)}\\{one.path}") for place, one in found]


# ---- lines with paths


_KINDS = {"d": "folder", "f": "file", "l": "file", "-": "file"}


def _paths(lines: list[str]) -> _Read | None:
    """What `find` prints: paths, and where it was asked for their sizes and kinds, in front of them or behind."""
    entries = [entry for line in lines if (entry := _path(line))]
    tops = [entry.path.replace("\\", "/").partition("/")[0] for entry in entries]
    # What another program puts before a path looks like the folder on top, and is another for each.
    usual = Counter(tops).most_common(1)[0][0] if tops else ""
    likely = [
        entry
        for entry, top in zip(entries, tops, strict=True)
        if (" " not in top or (top == usual and "/" in entry.path)) and not _DATED.match(entry.path)
    ]
    has_folders = any("/" in entry.path.strip("/").removeprefix("./") for entry in entries)
    if not has_folders or any(line.endswith(":") for line in lines) or len(likely) < _ENOUGH * len(lines):
        return None
    whole = sum("/" in entry.path or "." in entry.path for entry in likely)
    if whole < len(likely) / 2 or _is_indented(lines):
        return None
    first, rest = entries[0].path, entries[1:]
    is_root = bool(rest) and all(entry.path.startswith(f"{first.rstrip('/')}/") for entry in rest)
    # Of files alone the first is one of them, and not the folder that was searched.
    return _under(first, rest) if first.startswith("/") and is_root else ("", entries)


def _digested(lines: list[str]) -> _Read | None:
    """What `sha256sum` and its like print."""
    found = [match for line in lines if (match := _DIGEST.fullmatch(line) or _NAMED_DIGEST.fullmatch(line))]
    return _paths([each[1] for each in found]) if len(found) == len(lines) else None


def _is_number(word: str) -> bool:
    return word.isdigit() and word.isascii()


def _is_indented(lines: list[str]) -> bool:
    return len({len(line) - len(line.lstrip()) for line in lines}) > 1 and not any(
        line.split()[0].isdigit() for line in lines
    )


def _path(line: str) -> _Entry | None:
    words = line.split("\t") if "\t" in line else line.split(" ")
    words = [word for word in words if word]
    kind, told = None, None
    if len(words) > 1 and words[0] in _KINDS:
        kind = _KINDS[words.pop(0)]
    if len(words) > 1 and _is_number(words[0]):
        told = int(words.pop(0)[:18])
    elif len(words) > 1 and _is_number(words[-1]):
        told = int(words.pop()[:18])
    if kind is None and len(words) > 1 and words[-1] in _KINDS:
        kind = _KINDS[words.pop()]
    path = _unquoted(" ".join(words).rstrip(","))
    kind = "folder" if path.endswith("/") else kind
    return _Entry(path, None if kind == "folder" else told, kind) if path else None


def _recursive(lines: list[str]) -> _Read | None:
    """What `ls -R` prints: names below the folder that they lie in."""
    entries: list[_Entry] = []
    folder = None
    headers = 0
    for line in lines:
        if line.endswith(":") and not line[:1].isspace():
            folder, headers = _unquoted(line[:-1]), headers + 1
        elif folder is None:
            return None
        else:
            names = [_unquoted(name) for name in re.split(r"\s{2,}", line.strip())]
            if any(" " in name or "/" in name.rstrip("/") for name in names):
                return None
            entries += [
                _Entry(f"{folder}/{name.removesuffix('*')}", None, "folder" if name.endswith("/") else None)
                for name in names
            ]
    return _under(lines[0][:-1], entries) if headers and entries else None


def _indented(lines: list[str]) -> _Read | None:
    """Names that only their indents place."""
    lines = [_BULLET.sub(r"\1", line.expandtabs(4)) for line in lines]
    if any(" " in line.strip() for line in lines) or not any("." in line or line.endswith("/") for line in lines):
        return None
    above: list[tuple[int, str]] = []
    entries = []
    for line in lines:
        at, entry = len(line) - len(line.lstrip()), _named(line.strip())
        while above and above[-1][0] >= at:
            above.pop()
        path = f"{above[-1][1]}/{entry.path}" if above else entry.path
        entries.append(_Entry(path, entry.size, entry.kind))
        if len(above) <= MAX_DEPTH:
            above.append((at, path))
    return "", entries


_READERS: tuple[tuple[str, Callable[[list[str]], _Read | None]], ...] = (
    ("permissions", _long),
    ("tree", _drawn),
    ("unzip", _zipped),
    ("zipfile", _zipped_by_python),
    ("dir", _windows),
    ("digests", _digested),
    ("find", _paths),
    ("ls", _recursive),
    ("indents", _indented),
)
