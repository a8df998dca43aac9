"""Print a view to a terminal in colours and at its width; other outputs get plain text.

`NO_COLOR` (not empty) and `TERM=dumb` turn colours off. `FORCE_COLOR` (neither empty nor `0`) turns
them on if the output is not a terminal, at 80 columns or `COLUMNS`; `NO_COLOR` has priority. Only
the terminal's own sixteen colours are used.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TextIO

import click

from vllm_runbooks.core.console import output
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.redaction.redact import redact_name, redact_text
from vllm_runbooks.core.views.elements import COLUMNS
from vllm_runbooks.core.views.styled import Layout, Styled, TextBlock, Tone, laid_out

_CODES = {
    Tone.HEADING: "1",
    Tone.BAD: "1;31",
    Tone.WARN: "33",
    Tone.GOOD: "32",
    Tone.HINT: "36",
    Tone.QUOTE: "35",
    Tone.COMMAND: "36",
    Tone.COST: "33",
    Tone.FAINT: "2",
}
"""ANSI codes: 1 is bold, 2 dim, 31 to 36 red, green, yellow, blue, magenta, cyan."""
_NARROWEST, _WIDEST, _READABLE = 40, 200, 100
"""Minimum and maximum columns of a layout, and those of a readable sentence."""


def show(blocks: Iterable[TextBlock]) -> None:
    """Write a view to standard output in the form that it supports."""
    output.write(_suited(blocks, output.opened()))


def remark(blocks: Iterable[TextBlock]) -> None:
    """Write a view to standard error, where standard output has a document; errors while printing are ignored."""
    with suppress(OSError, ValueError):
        click.echo(_suited(blocks, sys.stderr), err=True, color=True)


def _suited(blocks: Iterable[TextBlock], stream: TextIO) -> str:
    if stream.isatty() or _is_forced():
        return _shown(laid_out(blocks, layout(_columns(stream))), is_coloured=_is_coloured(stream))
    return _shown(laid_out(blocks, _piped_layout()), is_coloured=False)


_LONGEST_COMMAND = 400


def again(*option: str, is_repeatable: bool = True) -> str:
    """Command line of this run with an option, given as words.

    It is described if it is long, has a secret or reads standard input.
    """
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    line = command_line(*words[:end], *option, *words[end:])
    return line if line and is_repeatable and len(line) <= _LONGEST_COMMAND else f"add {option[0]}"


def command_line(*words: str) -> str:
    """A command of this tool as it is typed; empty if it has a secret or cannot be typed."""
    line = shlex.join(["vllm-runbooks", *words])
    is_public = redact_text(line) == line and all(redact_name(word) == word for word in words)
    return line if line.isprintable() and is_public else ""


@contextmanager
def waiting(text: str, *, piped_after_s: float | None = None) -> Iterator[None]:
    """Say on standard error what goes on, if it takes more than a second.

    Args:
        text: What goes on.
        piped_after_s: When to say it where standard error is no terminal; None: never.
    """
    after_s = _PATIENCE_S if sys.stderr.isatty() else piped_after_s
    if after_s is None:
        yield
        return
    import threading

    timer = threading.Timer(after_s, output.say, [f"{text} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_PATIENCE_S = 1.0


def layout(columns: int) -> Layout:
    width = min(max(columns, _NARROWEST), _WIDEST)
    return Layout(prose=min(width, _READABLE), loose=min(width, _READABLE), table=width, cut=width)


def _piped_layout() -> Layout:
    """The layout of a pipe or file: sentences of 100 columns, or of COLUMNS; tables as wide as they are."""
    columns = _given_columns()
    wide = Layout(loose=_READABLE) if columns is None else layout(columns)
    return replace(wide, table=None, breaks_words=False)


def _is_forced() -> bool:
    return os.environ.get("FORCE_COLOR", "") not in ("", "0") and not os.environ.get("NO_COLOR")


def _is_coloured(stream: TextIO) -> bool:
    is_dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
    return _is_forced() or (stream.isatty() and not is_dumb and not os.environ.get("NO_COLOR"))


def _columns(stream: TextIO) -> int:
    if (columns := _given_columns()) is not None:
        return columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or COLUMNS
    except (OSError, ValueError):
        return COLUMNS


def _given_columns() -> int | None:
    """The columns in the environment; None if there are none."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns[:9]) if columns.isdecimal() and int(columns[:9]) > 0 else None


def _shown(lines: Iterable[Styled], *, is_coloured: bool) -> str:
    if not is_coloured:
        return visible("\n".join(map(str, lines)))
    return "\n".join("".join(_span(visible(text), tone) for text, tone in line.spans) for line in lines)


def _span(text: str, tone: Tone | None) -> str:
    return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if tone is not None and text else text
