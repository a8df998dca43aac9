"""What of a file is a program, commands of a shell, settings, or the print-out of a tree: each with its places.

A page is cut into its blocks, a script into itself and the files that it writes, a notebook's cells become one program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading import documents
from vllm_runbooks.reading.documents import container_files, formats, magics, pages
from vllm_runbooks.reading.documents.python_text import NotPythonError, PythonText

MAX_PIECES = 400
"""Pieces of one file that are read: nobody writes a page of more."""
_TREE = re.compile(r"^[ \t\u00a0│|]{0,200}[├└]──", re.MULTILINE)
_LOGIN = re.compile(r"(?:sudo[ \t]{1,4})?\b(?:docker|podman|nerdctl)[ \t]{1,4}login\b[^\n`]{0,1000}")
_LOGIN_IN_FIELD = re.compile(
    r"(?:sudo[ \t]{1,4})?\b(?:docker|podman|nerdctl|helm|skopeo|oras|buildah|crane|regctl)[ \t]"
    r"(?:[^\n]{0,80}[ \t])?login\b(?:[^\n\\]|\\.){0,1000}",
    re.DOTALL,
)
_FLAGS = re.compile(r"(?:--[a-z]{1,20}=\S{1,400}[ \t]{1,40}){0,8}")
"""What a Dockerfile's `RUN` takes in front of its command."""
_COMMENTED = re.compile(rf"^[ \t]{{0,80}}#[#\t ]{{0,20}}(?P<login>{_LOGIN.pattern})", re.MULTILINE)
_PROMPT, _GOES_ON = re.compile(r"[ \t]{0,40}>>>(?: |\Z)"), re.compile(r"[ \t]{0,40}\.\.\.(?: |\Z)")
"""In front of a statement in a session of Python, and of a line that goes on with one."""
_WORD = re.compile(r"[^\W\d]\w{0,99}")
_KINDS = frozenset(("python", "shell", "yaml"))


@dataclass(frozen=True)
class Piece:
    """A part of a file that is of one kind."""

    kind: str
    """"python", "shell", "yaml" or "listing"."""
    text: Excerpt
    is_part: bool = False
    """Whether it stands in a page, where it may be a fragment that goes on with what stands before it."""
    where: str = ""
    """Which of a file's parts it is, where a line does not tell."""
    around: frozenset[str] = frozenset()
    """The words of parts that belong to it and are no Python: what they would give a meaning, or do, is not known."""


def cut(text: str, name: str = "") -> list[Piece]:
    """The pieces of a file, in order; `name` helps to tell its format."""
    whole = Excerpt.whole(text[: documents.MAX_LENGTH])
    kind = formats.kind_of(whole.text, name)
    found: list[Piece] = []
    for piece in _of(whole, kind, is_part=False):
        found.append(piece)
        if len(found) == MAX_PIECES:
            break
    return sorted(found, key=lambda piece: piece.text.at[0])


def _of(source: Excerpt, kind: str, *, is_part: bool) -> Iterator[Piece]:
    if kind == "shell":
        yield Piece("shell", source, is_part)
        for comment in _COMMENTED.finditer(source.text):
            yield Piece("shell", source.part(*comment.span("login")), is_part=True)
        for body, target, _ in documents.heredocs(source):
            inner = formats.kind_of(body.text, target)
            if inner in ("python", "yaml"):
                yield Piece(inner, body)
    elif kind in ("python", "yaml"):
        yield Piece(kind, source, is_part)
        yield from _fields(source) if kind == "yaml" else ()
    elif kind == "dockerfile":
        for name, rest in container_files.instructions(source):
            flags = _FLAGS.match(rest.text)
            if name == "RUN" and flags is not None:
                yield Piece("shell", rest.part(flags.end(), len(rest.text)), is_part)
    elif kind == "notebook":
        yield from _notebook(source)
    elif kind == "page":
        yield from _page(source)


def _fields(source: Excerpt) -> Iterator[Piece]:
    """The logins to registries that the fields of a manifest or of a CI's settings hold."""
    for login in _LOGIN_IN_FIELD.finditer(source.text):
        start, end = login.span()
        quote = source.text[start - 1 : start]
        if quote in ("'", '"') and (shut := source.text.rfind(quote, start, end)) >= 0:
            end = shut
        yield Piece("shell", source.part(start, end), is_part=True)


def _page(source: Excerpt) -> Iterator[Piece]:
    for block in pages.blocks(source):
        if block.kind == "prose":
            for login in _LOGIN.finditer(block.text.text):
                yield Piece("shell", block.text.part(*login.span()), is_part=True)
            continue
        if block.kind in ("cut", "unit"):
            continue
        if block.kind not in ("python", "yaml") and _TREE.search(block.text.text):
            yield Piece("listing", block.text, is_part=True)
            continue
        kind = block.kind or formats.by_content(block.text.text)
        kind = "shell" if kind in ("page", "command", "span") else kind
        if kind in (*_KINDS, "dockerfile"):
            text = pages.without_prompts(block.text) if kind == "shell" else pages.dedented(block.text)
            text = _typed(text) if kind == "python" else text
            yield from _of(text, kind, is_part=True)


def _typed(source: Excerpt) -> Excerpt:
    """What was typed in a session of Python, behind its prompts; a text without prompts as it is."""
    if _PROMPT.match(source.text.lstrip()) is None:
        return source
    parts: list[tuple[int, int]] = []
    begin = 0
    for line in source.text.split("\n"):
        end = min(begin + len(line) + 1, len(source.text))
        prompt = _PROMPT.match(line) or (_GOES_ON.match(line) if parts else None)
        if prompt is not None:
            parts.append((begin + prompt.end(), end))
        begin = end
    return source.joined(parts)


def _notebook(source: Excerpt) -> Iterator[Piece]:
    """The cells of Python as one program, as they are run one after the other; lines of shell in them as such.

    A cell that is no Python stands for itself: what the others do is told without it. What a cell writes to a file, and
    a program of its own, are judged as such; a cell of another language is not.
    """
    own: list[Excerpt] = []
    apart: dict[tuple[str, str], list[Excerpt]] = {}
    around: set[str] = set()
    is_open = False
    number = 0
    for cell in documents.cells(source):
        around |= cell.names
        number += cell.kind != "page"
        if cell.kind == "page":
            yield from _page(cell.text)
        elif cell.file is not None:
            key = (cell.kind, cell.file or f"\n{number}")
            apart[key] = [*(apart.get(key, ()) if cell.is_more else ()), cell.text]
        elif cell.kind == "shell":
            yield Piece("shell", cell.text, is_part=True)
        elif cell.kind == "python":
            lines = magics.Lines(cell.text) if _is_python(cell.text) else magics.lines(cell.text)
            around |= lines.names
            is_open |= lines.is_open
            for command in lines.commands:
                yield Piece("shell", command, is_part=True)
            if _is_python(lines.python):
                own.append(lines.python)
            else:
                around.update(_WORD.findall(lines.python.text))
                yield Piece("python", lines.python, is_part=True, where=f"code cell {number}")
    for (kind, _), texts in apart.items():
        yield from _of(_behind_each_other(texts), kind, is_part=False)
    if is_open:
        around.update(_WORD.findall(source.text))
    if own:
        yield Piece("python", _behind_each_other(own), around=frozenset(around))


def _behind_each_other(texts: Iterable[Excerpt]) -> Excerpt:
    """Texts as one, each beginning a line."""
    said: list[str] = []
    at: list[int] = []
    for each in texts:
        said.append(each.text + "\n")
        at += [*each.at[: len(each.text)], each.at[len(each.text)]]
    return Excerpt("".join(said), [*at, at[-1] + 1])


def _is_python(source: Excerpt) -> bool:
    try:
        PythonText(source)
    except NotPythonError:
        return False
    return True
