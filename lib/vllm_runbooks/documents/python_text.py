"""Python as text: parsed (`ast`) and never run, and where in the file each of its nodes stands."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left

from vllm_runbooks import python_trees
from vllm_runbooks.excerpt import Excerpt

MAX_LENGTH = 400_000
"""Characters that are parsed; a longer file is not written by hand."""
_GRAMMAR = f"by the grammar of Python {sys.version_info.major}.{sys.version_info.minor}, which reads it here"
"""A later release's grammar may have what this one's has not."""


class NotPythonError(Exception):
    """A text that Python cannot read."""

    def __init__(self, says: str, line: int | None = None) -> None:
        """What Python says of it, and the line, from 1; None: of no line."""
        super().__init__(says)
        self.says, self.line = says, line


class PythonText:
    """A parsed text."""

    def __init__(self, source: Excerpt) -> None:
        """Parse a text.

        Raises:
            NotPythonError: it is no Python.
        """
        self.source = source
        self.lines = line_starts(source.text)
        self._columns: dict[int, list[int]] = {}
        self.tree = _parsed(source.text)

    def index(self, line: int, column: int) -> int:
        """Index in the text of a place that `ast` gives: lines from 1, columns in bytes of UTF-8."""
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
        """Where a node stands in the text."""
        start = self.index(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.index(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def places(self, node: ast.AST) -> tuple[int, int]:
        """Where a node stands in the file."""
        start, end = self.span(node)
        return self.source.at[start], self.source.at[end - 1] + 1 if end > start else self.source.at[end]


def _parsed(text: str) -> ast.Module:
    if len(text) > MAX_LENGTH:
        raise NotPythonError(f"it has more than {MAX_LENGTH} characters, and no more are read here")
    try:
        return python_trees.parse(text)
    except SyntaxError as error:
        raise NotPythonError(f"{str(error.msg)[:200]} ({_GRAMMAR})", error.lineno or 1) from None
    except (MemoryError, RecursionError):
        raise NotPythonError("it is nested more deeply than is read here") from None
    except ValueError:
        raise NotPythonError("no Python") from None


def line_starts(text: str) -> list[int]:
    """Where lines begin as Python counts them."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
