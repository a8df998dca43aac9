"""Edits of notebook cells in their file: JSON strings, each of which may be one line of a cell."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable

from vllm_runbooks.core.excerpt import Replacement

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CUT = re.compile(r"(?P<run>\\{1,200})(?P<digits>u[0-9A-Fa-f]{0,3})?\Z")
_MAX_CUT = 210
_BEFORE_ITEM = re.compile(r"[,\[](\s*)\Z")
_MAX_GAP = 400  # characters between two lines of a cell


def fitted(text: str, edits: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Convert edits of notebook cells to edits of the file.

    The file stays valid JSON, and a list of lines stays a list.
    """
    strings = [match.span() for match in _STRING.finditer(text)]
    starts = [start for start, _ in strings]
    made = []
    for edit in edits:
        index = bisect_right(starts, edit.start) - 1
        if index < 0 or not strings[index][0] < edit.start < strings[index][1]:
            made.append(edit)
            continue
        new_text = edit.new_text
        if "\r\n" in new_text and "\\r\\n" not in text[slice(*strings[index])]:
            new_text = new_text.replace("\r\n", "\n")  # line ends of the file, not of the cell
        gap = _gap(text, strings[index][0])
        between = "\\n" if gap is None else f'\\n",{gap}"'
        new = between.join(json.dumps(line, ensure_ascii=False)[1:-1] for line in new_text.split("\n"))
        made.append(Replacement(_whole(text, edit.start), _whole(text, edit.end), new))
    return tuple(made)


def _whole(text: str, at: int) -> int:
    """An offset in a string; the end of an escape that includes it."""
    cut = _CUT.search(text[max(at - _MAX_CUT, 0) : at])
    if cut is None or len(cut["run"]) % 2 == 0:
        return at
    escape = _ESCAPE.match(text, at - len(cut["digits"] or "") - 1)
    return at if escape is None else escape.end()


def _gap(text: str, start: int) -> str | None:
    """Text before a string that is an item of a list; None for any other string."""
    before = _BEFORE_ITEM.search(text[max(start - _MAX_GAP, 0) : start])
    return None if before is None else before[1]
