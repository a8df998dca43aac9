"""Python as text: parsed (`ast`), never run, with the position of each node in the file."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left

from vllm_runbooks.core import python_trees
from vllm_runbooks.core.excerpt import Excerpt

MAX_LENGTH = 400_000
"""Characters that are parsed; longer files are not written manually."""


_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_GRAMMAR = f"parsed as Python {_VERSION}"
"""A later release's grammar may have additional syntax."""
LIMITS = ("size", "grammar")
"""Limits of the reader rather than errors of the text: its size, or the grammar of a later
release."""
_QUOTED = r"(?:[rR]?[fF]|[fF][rR])(?P<quote>[\"'])[^\"'\n]{0,400}\{[^{}\"'\n]{0,200}(?P=quote)[^\n]{0,400}\}"
_LATER: tuple[tuple[tuple[int, int], re.Pattern[str]], ...] = (
    ((3, 12), re.compile(r"[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+\w{1,100}[ \t]*\[")),
    ((3, 12), re.compile(r"[ \t]*type[ \t]+\w{1,100}[ \t]*(?:\[[^\]\n]{0,200}\][ \t]*)?=(?!=)")),
    ((3, 12), re.compile(rf"[^#\n]{{0,400}}?\b{_QUOTED}")),
    ((3, 14), re.compile(r"[^#\n]{0,400}?\b(?:[rR]?[tT]|[tT][rR])[\"']")),
)
"""Line patterns that need a later grammar, with the first release that has it."""


class NotPythonError(Exception):
    """A text that Python cannot read."""

    def __init__(self, says: str, line: int | None = None, *, limit: str = "") -> None:
        """Record Python's message, its line (from 1), and which of `LIMITS` was exceeded."""
        super().__init__(says)
        self.says, self.line, self.limit = says, line, limit

    @property
    def told(self) -> dict[str, str]:
        """Arguments of the message."""
        return {"limit": self.says, "of": self.limit} if self.limit else {"says": self.says}


class PythonText:
    """A parsed text."""

    def __init__(self, source: Excerpt) -> None:
        """Parse a text; raises NotPythonError if it is no Python."""
        self.source = source
        self.lines = line_starts(source.text)
        self._columns: dict[int, list[int]] = {}
        self.tree = _parsed(source.text)

    def index(self, line: int, column: int) -> int:
        """Index in the text of a position from `ast`: lines from 1, columns in bytes of UTF-8."""
        begin = self.lines[line - 1]
        stop = self.lines[line] if line < len(self.lines) else len(self.source.text)
        text = self.source.text[begin:stop]
        if text.isascii():
            return begin + column
        if line not in self._columns:
            places, total = [], 0
            for character in text:
                places.append(total)
                total += len(character.encode("utf-8", "surrogatepass"))
            self._columns[line] = [*places, total]
        return begin + bisect_left(self._columns[line], column)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node in the text."""
        start = self.index(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.index(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def places(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node in the file."""
        start, end = self.span(node)
        return self.source.at[start], self.source.at[end - 1] + 1 if end > start else self.source.at[end]


def _parsed(text: str) -> ast.Module:
    if len(text) > MAX_LENGTH:
        raise NotPythonError(f"it has more than {MAX_LENGTH} characters", limit="size")
    try:
        return python_trees.parse(text)
    except SyntaxError as error:
        line = error.lineno or 1
        later = _later(text, line)
        if later:
            raise NotPythonError(
                f"it needs Python {later} or later, and this is {_VERSION}", line, limit="grammar"
            ) from None
        raise NotPythonError(f"{str(error.msg)[:200]} ({_GRAMMAR})", line) from None
    except (MemoryError, RecursionError):
        raise NotPythonError("it is nested too deeply", limit="size") from None
    except ValueError:
        raise NotPythonError("not Python") from None


def _later(text: str, line: int) -> str:
    """Release whose grammar has the additional syntax of a line; empty if unknown."""
    starts = line_starts(text)
    if not 1 <= line <= len(starts):
        return ""
    begin = starts[line - 1]
    source_line = text[begin : starts[line] if line < len(starts) else len(text)]
    for release, pattern in _LATER:
        if release > sys.version_info[:2] and pattern.match(source_line):
            return ".".join(map(str, release))
    return ""


def line_starts(text: str) -> list[int]:
    """Offsets of the lines as Python counts them."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
