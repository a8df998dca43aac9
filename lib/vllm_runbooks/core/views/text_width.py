"""Width of text in a terminal; a Chinese character takes two columns, with breaks anywhere."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator

_CLOSING = "，。；：！？、）】》」』”’"
"""Signs that begin no line."""
_OPENING = "（【《「『“‘"
"""Signs that end no line."""


def _is_wide(sign: str) -> bool:
    return unicodedata.east_asian_width(sign) in "WF"


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.category(sign) in ("Mn", "Me", "Cf") else 1 + _is_wide(sign) for sign in text)


def padded(text: str, columns: int, *, is_right: bool = False) -> str:
    room = " " * (columns - width(text))
    return room + text if is_right else text + room


def cut(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    return text[: _fitting(text, columns - 1)] + "…"


def _fitting(text: str, columns: int) -> int:
    used = 0
    for end, sign in enumerate(text):
        used += width(sign)
        if used > columns:
            return end
    return len(text)


def wrap(
    text: str,
    columns: int,
    first: str = "",
    indent: str = "",
    *,
    most: int | None = None,
    ellipsis: str = " …",
    breaks_words: bool = True,
) -> list[str]:
    """Wrap a paragraph to `columns`, with one blank between its words.

    `first` begins the first line and `indent` the others; of more than `most` lines the last ends with `ellipsis`.
    Without `breaks_words` a longer word is one line.
    """
    if not any(map(_is_wide, text)):
        return textwrap.wrap(
            text,
            columns,
            initial_indent=first,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=breaks_words,
            max_lines=most,
            placeholder=ellipsis,
        )
    lines, line, is_empty = [], first, True
    for unit in _units(text, max(columns - max(width(first), width(indent)), 2)):
        piece = unit.lstrip() if is_empty else unit
        if not is_empty and width(line) + width(piece.rstrip()) > columns:
            lines.append(line.rstrip())
            line, piece = indent, unit.lstrip()
        line, is_empty = line + piece, False
    lines.append(line.rstrip())
    if most is not None and len(lines) > most:
        kept = lines[most - 1]
        kept = kept[: _fitting(kept, columns - width(ellipsis))].rstrip()
        lines = [*lines[: most - 1], kept + ellipsis]
    return lines


_UNIT = re.compile(rf" ?(?:[{_OPENING}]*(?:[^\s\u1100-\U0003ffff]+|[^\s])[{_CLOSING}]*)")
"""Unbreakable unit: a word, or a Chinese character, with its adjacent punctuation."""


def _units(text: str, most: int) -> Iterator[str]:
    """Yield the pieces between which a line may end; one that is wider than a line is broken."""
    for match in _UNIT.finditer(text):
        unit, start, used = match[0], 0, 0
        for at, sign in enumerate(unit):
            takes = width(sign)
            if used + takes > most and at > start:
                yield unit[start:at]
                start, used = at, 0
            used += takes
        yield unit[start:]
