"""Excerpts of a file that map each of their characters to its offset in the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple


class TextPosition(NamedTuple):
    """A position in a file; lines and columns count from 1."""

    line: int
    column: int


class Replacement(NamedTuple):
    """An edit: `new_text` replaces the text between the offsets `start` and `end`."""

    start: int
    end: int
    new_text: str


@dataclass(frozen=True)
class Excerpt:
    """Text from a file: a fenced block, a block scalar, a quoted string without its escapes."""

    text: str
    at: Sequence[int]
    """Offset in the file of each character, and of the end: one more than the text has characters."""

    @classmethod
    def whole(cls, text: str) -> Excerpt:
        return cls(text, range(len(text) + 1))

    def part(self, start: int, end: int) -> Excerpt:
        return Excerpt(self.text[start:end], self.at[start : end + 1])

    def joined(self, parts: Iterable[tuple[int, int]]) -> Excerpt:
        """Several pieces (from index, to index) as one text: lines without the indentation or prefix they all have."""
        pieces = list(parts)
        text = "".join(self.text[start:end] for start, end in pieces)
        at = [offset for start, end in pieces for offset in self.at[start:end]]
        return Excerpt(text, [*at, self.at[pieces[-1][1]] if pieces else self.at[0]])


class LineIndex:
    """Turns offsets in a file's text into lines and columns."""

    def __init__(self, text: str) -> None:
        # Not splitlines: a form feed or a Unicode separator begins no line for an editor, nor for a shell.
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))][:-1]

    def __call__(self, offset: int) -> TextPosition:
        """Position of a character; for the end of the text its end."""
        line = bisect_right(self._starts, offset)
        return TextPosition(line, offset - self._starts[line - 1] + 1)


def applied(text: str, edits: Iterable[Replacement]) -> str:
    return EditedText(text, edits).text


class EditedText:
    """A text with edits, whose positions can be mapped to the original ones."""

    def __init__(self, text: str, edits: Iterable[Replacement]) -> None:
        self._begins: list[int] = []
        self._from: list[int] = []
        self._is_kept: list[bool] = []
        pieces: list[str] = []
        done = length = 0
        for start, end, new_text in sorted(edits, key=lambda edit: edit[:2]):
            if start < done:
                continue
            for piece, origin, is_kept in ((text[done:start], done, True), (new_text, start, False)):
                self._begins.append(length)
                self._from.append(origin)
                self._is_kept.append(is_kept)
                pieces.append(piece)
                length += len(piece)
            done = end
        self._begins.append(length)
        self._from.append(done)
        self._is_kept.append(True)
        self.text = "".join([*pieces, text[done:]])

    def back(self, offset: int) -> int:
        """Original offset of a character of the changed text; the insertion point for new text."""
        piece = bisect_right(self._begins, offset) - 1
        return self._from[piece] + (offset - self._begins[piece] if self._is_kept[piece] else 0)

    def keeps(self, start: int, end: int) -> bool:
        """Whether the characters from one offset up to another stood in the text as they are, side by side."""
        piece = bisect_right(self._begins, start) - 1
        ends = [*self._begins[1:], len(self.text) + 1]
        return self._is_kept[piece] and end <= ends[piece]
