"""The files of a folder that can launch vLLM, without those that git ignores."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.reading.documents import formats

_TEXTS = (".conf", ".txt")
"""Suffixes of files whose format only their text shows."""
_HIDDEN = (".github", ".gitlab-ci.yml")
"""Hidden names that are read."""
_SKIPPED = ("__pycache__", "node_modules", "site-packages")
_ENVIRONMENT = "pyvenv.cfg"
_MAX_FILES = 20_000
_MAX_DEPTH = 40
_MAX_BYTES = 1_000_000
"""Largest file of a folder that is read."""
_MAX_PATTERNS, _LONGEST, _MOST_FOLDERS = 2_000, 300, 4
_LAUNCHES = re.compile(
    r"vllm|\bLLM\(|EngineArgs|engine_kwargs|max[-_]model[-_]len|gpu[-_]memory[-_]util|tensor[-_]parallel|served[-_]model",
    re.IGNORECASE,
)
"""Words of a launch; a file for `--config` has those of options alone."""


class _Pattern(NamedTuple):
    folder: str
    """Folder of its `.gitignore`, with a slash at the end."""
    match: re.Pattern[str]
    is_for_folders: bool
    is_negated: bool


def may_launch(text: str) -> bool:
    """Whether a text mentions vLLM or its options."""
    return _LAUNCHES.search(text) is not None


def files_in(folder: str, most: int | None = None) -> list[str]:
    """Scripts, manifests, programs and pages in a folder and its subfolders, in order.

    Raises:
        InputError: There are none, or too many.
    """
    paths = []
    for path in _walk(folder, _patterns_above(folder), 0):
        paths.append(path)
        if len(paths) > (most or _MAX_FILES):
            raise InputError(f"{folder}: contains more than {most or _MAX_FILES:,} scripts; use a smaller folder")
    if not paths:
        raise InputError(
            f"{folder}: contains no script; use a folder with .sh, .py, .yaml, .service, .md or .ipynb files"
        )
    return paths


def _walk(folder: str, patterns: Sequence[_Pattern], depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    names = {entry.name for entry in entries}
    if depth and _ENVIRONMENT in names:
        return
    patterns = [*patterns, *_patterns_in(folder)] if ".gitignore" in names else patterns
    below = []
    for entry in entries:
        if entry.is_symlink() or (entry.name.startswith(".") and entry.name not in _HIDDEN):
            continue
        is_folder = entry.is_dir()
        if _is_ignored(os.path.abspath(entry.path), patterns, is_folder=is_folder):  # noqa: PTH100 - links stay links
            continue
        if is_folder:
            below += [entry.path] if entry.name not in _SKIPPED and depth < _MAX_DEPTH else []
        elif _is_script(entry.name) and entry.is_file() and entry.stat().st_size <= _MAX_BYTES:
            yield str(Path(entry.path))
    for path in below:
        yield from _walk(path, patterns, depth + 1)


def _is_script(name: str) -> bool:
    return (formats.is_named(name) and not name.lower().endswith(".log")) or name.lower().endswith(_TEXTS)


def _is_ignored(path: str, patterns: Sequence[_Pattern], *, is_folder: bool) -> bool:
    """Whether git ignores a path: the last pattern that matches decides."""
    for pattern in reversed(patterns):
        if pattern.is_for_folders and not is_folder:
            continue
        if path.startswith(pattern.folder) and pattern.match.fullmatch(path, len(pattern.folder)):
            return not pattern.is_negated
    return False


def _patterns_above(folder: str) -> list[_Pattern]:
    """Patterns of the repository that contains a folder, from its root to the folder above."""
    start = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay links
    root = next((parent for parent in (start, *start.parents) if os.path.lexists(parent / ".git")), None)
    if root is None:
        return []
    above = [parent for parent in (*reversed(start.parents), start) if parent == root or root in parent.parents]
    patterns = _patterns_in(str(root), ".git/info/exclude")
    for parent in above[:-1]:
        patterns += _patterns_in(str(parent))
    return patterns


def _patterns_in(folder: str, name: str = ".gitignore") -> list[_Pattern]:
    text = ""
    with suppress(OSError, ValueError):
        path = Path(folder, name)
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= _MAX_BYTES else ""
    base = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118 - a slash at the end
    lines = text.splitlines()[:_MAX_PATTERNS]
    return [pattern for line in lines if (pattern := _pattern(line, base)) is not None]


def _pattern(line: str, folder: str) -> _Pattern | None:
    line = re.sub(r"(?<!\\) +\Z", "", line[: _LONGEST + 1])
    is_negated = line.startswith("!")
    line = line[is_negated:]
    if not line.strip("/") or line.startswith("#") or len(line) > _LONGEST or line.count("**") > _MOST_FOLDERS:
        return None
    is_for_folders, line = line.endswith("/"), line.rstrip("/")
    lead = "" if "/" in line else r"(?:.*/)?"
    body = _translated(_PIECE.findall(line.lstrip("/")))
    try:
        return _Pattern(folder, re.compile(lead + body, re.DOTALL), is_for_folders, is_negated)
    except re.error:
        return None


_PIECE = re.compile(r"\A\*\*/|/\*\*/|/\*\*\Z|\*+|\?|\[[!^]?\]?[^\]/]*\]|\\.|.", re.DOTALL)
_ANY_FOLDERS = {"**/": "(?:.*/)?", "/**/": "/(?:.*/)?", "/**": "/.*"}


def _translated(pieces: Sequence[str]) -> str:
    """A regular expression; a `*` between others takes the least text before what follows, as in `fnmatch`."""
    parts = [""]  # each begins with a star but the first
    ends: list[str] = []
    for piece in pieces:
        if piece == "/" or piece in _ANY_FOLDERS:
            ends.append(_atomic(parts) + _ANY_FOLDERS.get(piece, "/"))
            parts = [""]
        elif piece.startswith("*"):
            parts.append("")
        else:
            parts[-1] += _matching(piece)
    return "".join(ends) + _atomic(parts)


def _atomic(parts: Sequence[str]) -> str:
    """The text of one name in which a star is before each part but the first."""
    between = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1])
    return parts[0] + between + (f"[^/]*{parts[-1]}" if len(parts) > 1 else "")


def _matching(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if piece.startswith("[") and len(piece) > 1:
        inner = piece[1:-1]
        negation = "^" if inner[0] in "!^" else ""
        return f"[{negation}{inner[len(negation) :].replace(chr(92), chr(92) * 2).replace('[', chr(92) + '[')}]"
    return re.escape(piece[-1])
