"""Split a file into programs, shell commands, settings and printed trees with their locations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.documents import formats, magics, pages
from vllm_runbooks.reading.documents.python_text import NotPythonError, PythonText

_MAX_PIECES = 400
_TREE = re.compile(r"^[ \t\u00a0│|]{0,200}[├└]──", re.MULTILINE)
_WORD = re.compile(r"\w{1,100}")


@dataclass(frozen=True)
class FilePiece:
    """Piece of a file that is of one kind."""

    kind: str
    """"python", "shell", "yaml" or "listing"."""
    text: Excerpt
    is_part: bool = False
    """Whether it is in a page, where it may continue earlier code."""
    where: str = ""
    """Part of the file, if a line number is not enough."""
    around: frozenset[str] = frozenset()
    """Words of unreadable cells that belong to it: the names that they bind are unknown."""


def cut_file(text: str, name: str = "") -> list[FilePiece]:
    """Cut a file into pieces, in order; `name` helps to find out its format."""
    whole = Excerpt.whole(text[: documents.MAX_LENGTH])
    pieces = islice(_cut(whole, formats.kind_of(whole.text, name), is_part=False), _MAX_PIECES)
    return sorted(pieces, key=lambda piece: piece.text.at[0])


def _cut(source: Excerpt, kind: str, *, is_part: bool) -> Iterator[FilePiece]:
    if kind == "shell":
        yield FilePiece("shell", source, is_part)
        for body, target, _ in documents.heredocs(source):
            inner = formats.kind_of(body.text, target)
            if inner in ("python", "yaml"):
                yield FilePiece(inner, body)
    elif kind in ("python", "yaml"):
        yield FilePiece(kind, source, is_part)
    elif kind == "notebook":
        yield from _cut_notebook(source)
    elif kind == "page":
        yield from _cut_page(source)


def _cut_page(source: Excerpt) -> Iterator[FilePiece]:
    for block in pages.blocks(source):
        if block.kind in ("prose", "cut", "unit") or block.text.text.lstrip().startswith(">>>"):
            continue
        if block.kind not in ("python", "yaml") and _TREE.search(block.text.text):
            yield FilePiece("listing", block.text, is_part=True)
            continue
        kind = block.kind or formats.by_content(block.text.text)
        kind = "shell" if kind in ("page", "command", "span") else kind
        if kind in ("python", "shell", "yaml"):
            text = pages.without_prompts(block.text) if kind == "shell" else pages.dedented(block.text)
            yield from _cut(text, kind, is_part=True)


def _cut_notebook(source: Excerpt) -> Iterator[FilePiece]:
    """Python cells as one program; invalid cells and files written by cells are separate."""
    programs: list[Excerpt] = []
    around: set[str] = set()
    number = 0
    for cell in documents.cells(source):
        number += cell.kind != "page"
        if cell.kind == "page":
            yield from _cut_page(cell.text)
        elif cell.file is not None:
            yield from _cut(cell.text, cell.kind, is_part=False)
        elif cell.kind == "shell":
            yield FilePiece("shell", cell.text, is_part=True)
        elif cell.kind == "python":
            lines = magics.Lines(cell.text) if _is_python(cell.text) else magics.lines(cell.text)
            for command in lines.commands:
                yield FilePiece("shell", command, is_part=True)
            if _is_python(lines.python):
                programs.append(lines.python)
            else:
                around.update(_WORD.findall(lines.python.text))
                yield FilePiece("python", lines.python, is_part=True, where=f"code cell {number}")
    if programs:
        yield FilePiece("python", _joined(programs), around=frozenset(around))


def _joined(texts: Iterable[Excerpt]) -> Excerpt:
    parts: list[str] = []
    at: list[int] = []
    for text in texts:
        parts.append(text.text + "\n")
        at += [*text.at[: len(text.text)], text.at[len(text.text)]]
    return Excerpt("".join(parts), [*at, at[-1] + 1])


def _is_python(source: Excerpt) -> bool:
    try:
        PythonText(source)
    except NotPythonError:
        return False
    return True
