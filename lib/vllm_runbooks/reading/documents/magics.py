"""Non-Python content of notebook cells: shell commands, IPython magics, and other languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.documents import formats, pages

_CELL = re.compile(r"\s*%%(?P<name>\w{1,60}|!)[ \t]*(?P<words>[^\n]*)(?:\n|\Z)")
_WORD = re.compile(r"[^\W\d]\w{0,99}")
_SAME = frozenset(("capture", "time", "timeit", "prun", "memit", "mprun", "lprun", "debug"))
"""Magics that run the rest of the cell unchanged."""
_MAX_DEPTH = 8  # such lines above each other
_SHELLS = frozenset(("bash", "sh", "zsh", "ksh", "dash", "!", "sx", "system"))
_PYTHONS = re.compile(r"python[\d.]{0,5}|pypy\d?")
"""Magics that run the rest of the cell as a separate program."""
_SHOWN = frozenset(("html", "javascript", "js", "latex", "markdown", "svg"))
"""Magics that display the rest of the cell and define no names."""
_WRITES = frozenset(("writefile", "file"))
_KEPT = re.compile(r"--(?:out|err|proc)[ \t=]+(\w{1,100})")
_FILE = re.compile(r"(?P<more>-a[ \t]+|--append[ \t]+)?[\"']?(?P<name>[^\s\"']{1,300})[\"']?[ \t\r]*\Z")
_LINE = re.compile(
    r"(?P<head>[ \t]{0,200}(?:[^\W\d][\w.,\[\] \t]{0,200}=[ \t]{0,20})?)"
    r"(?:(?P<sign>!{1,2}|%)[ \t]{0,4}(?=\S)|(?P<asks>\?))"
)
_ASKED = re.compile(r"(?P<head>[ \t]{0,200})%{0,2}[^\W\d][\w.*\[\]'\"]{0,200}\?{1,2}[ \t;\r]*\Z")
_MAGIC = re.compile(r"(?P<name>\w{1,60})[ \t]*")
_OPEN = frozenset(("run", "pylab", "store", "load", "loadpy", "paste", "cpaste", "edit", "recall", "rerun", "macro"))
_UNKNOWN = "get_ipython()"
"""Placeholder for the value of a command: a call with an unknown result."""


@dataclass(frozen=True)
class Cell:
    """One cell with its language."""

    kind: str
    """Format, as of a file; "other" if it is unknown or not checked."""
    text: Excerpt
    file: str | None = None
    """The file written by the cell; "" for a separate program, None for code of the notebook."""
    is_more: bool = False
    """Whether it is appended to the file."""
    names: frozenset[str] = frozenset()
    """Names that the cell defines, or may define, outside its Python code."""


@dataclass
class Lines:
    """Python code of a cell."""

    python: Excerpt
    commands: list[Excerpt] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Names in commands, with an unknown use."""
    is_open: bool = False
    """Whether any name may have been defined."""


def cell(kind: str, text: Excerpt, depth: int = 0) -> Cell:
    """A cell by its kind in the notebook ("code" or another) and its first line; `depth` is of a cell within one."""
    if kind != "code":
        return Cell("page", text)
    first = _CELL.match(text.text)
    if first is None:
        return Cell("python", text)
    rest = text.part(first.end(), len(text.text))
    name, words = first["name"], first["words"]
    if name in _SAME and depth < _MAX_DEPTH:
        kept = [word for word in words.split() if word.isidentifier()] if name == "capture" else []
        inner = cell(kind, rest, depth + 1)
        return replace(inner, names=inner.names | frozenset(kept))
    if name in _WRITES:
        return _written(rest, words)
    program = _program(words) if name == "script" else name
    kept = _KEPT.findall(words)
    if program in _SHELLS:
        return Cell("shell", pages.without_prompts(rest), names=frozenset(kept))
    if _PYTHONS.fullmatch(program):
        return Cell("python", rest, "", names=frozenset(kept))
    names = () if name in _SHOWN else _WORD.findall(text.text)
    return Cell("other", rest, names=frozenset(names))


def _program(words: str) -> str:
    command = re.sub(r"--(?:out|err|proc)[ \t=]+\S+|--\w[\w-]*", "", words).split()
    return re.split(r"[/\\]", command[0])[-1] if command else ""


def _written(text: Excerpt, words: str) -> Cell:
    target = _FILE.match(words)
    name = target["name"] if target else ""
    is_told = formats.is_named(name) or text.text.startswith("#!")
    kind = formats.kind_of(text.text, name) if is_told else "other"
    return Cell("other" if kind in ("page", "notebook") else kind, text, name, bool(target and target["more"]))


def lines(text: Excerpt) -> Lines:
    """Python code of a cell; results of shell and IPython commands become unknown values."""
    result = Lines(text)
    parts: list[Excerpt] = []
    for start, stop in _logical(text.text):
        line = text.text[start:stop].rstrip("\n")
        mark = _LINE.match(line)
        question = _ASKED.fullmatch(line)
        if mark is None and question is None:
            parts.append(text.part(start, stop))
            continue
        head = (question or mark)["head"]  # type: ignore[index]
        behind = start + (mark.end() if mark else 0)
        if mark is not None and mark["sign"] is not None and question is None:
            magic = _MAGIC.match(text.text, behind) if mark["sign"] == "%" else None
            name = magic["name"] if magic else ""
            if magic and name == "time":  # the rest runs unchanged
                parts += [text.part(start, start + len(head)), text.part(magic.end(), stop)]
                continue
            result.is_open |= name in _OPEN
            result.names.update(_WORD.findall(line) if name in _SAME else ())
            result.commands.append(text.part(behind, stop))
        value = _UNKNOWN if head.strip() else "pass" if head else ""
        end = start + len(line)
        at = [*text.at[start : start + len(head)], *[text.at[behind]] * (len(value) + 1)]
        parts.append(Excerpt(head + value, at))
        parts.append(text.part(end, stop))
    if parts:
        places = [place for part in parts for place in part.at[: len(part.text)]]
        result.python = Excerpt("".join(part.text for part in parts), [*places, text.at[len(text.text)]])
    return result


def _logical(text: str) -> Iterator[tuple[int, int]]:
    """Lines of a cell, with continued command lines joined."""
    begin, is_command = 0, False
    start = 0
    while begin < len(text):
        end = text.find("\n", begin)
        stop = len(text) if end < 0 else end + 1
        line = text[begin:stop].rstrip("\n")
        if not is_command:
            start = begin
            mark = _LINE.match(line)
            is_command = mark is not None and mark["sign"] is not None
        if not (is_command and line.rstrip().endswith("\\") and stop < len(text)):
            yield start, stop
            is_command = False
        begin = stop
