"""Print the output of a command: in UTF-8 whatever the locale is, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_BEYOND = re.compile(r"[^\x00-\x7f]")
STDIN = "standard input"


class NotPrintedError(Exception):
    """Standard output is closed or full."""


def name_left_out(left_out: Iterable[str]) -> None:
    """Name on standard error the catalog files that are broken and were left out: a line each, with its first fault."""
    by_file: dict[str, list[str]] = {}
    for problem in left_out:
        by_file.setdefault(problem.split(":", 1)[0], []).append(problem)
    for problems in by_file.values():
        more = f" (and {len(problems) - 1} more; `vllm-runbooks catalog check` lists all)" if len(problems) > 1 else ""
        say(f"skipped: {problems[0]}{more}")


def say(line: str) -> None:
    """Print a line on standard error, secrets replaced; errors while printing are ignored."""
    from vllm_runbooks.core.display import one_line
    from vllm_runbooks.core.redaction.redact import redact_text

    with suppress(OSError, ValueError):
        click.echo(f"vllm-runbooks: {one_line(redact_text(line))}", err=True)


def write(text: str) -> None:
    """Write to standard output; characters that the terminal cannot show are escaped, never an error."""
    stream = opened()
    encoding = stream.encoding or "utf-8"
    printable = text.encode(encoding, "backslashreplace").decode(encoding)
    with _told(stream):
        stream.write(printable if printable.endswith("\n") else f"{printable}\n")
        stream.flush()


def write_script(text: str) -> None:
    """Write a script as it is, in UTF-8 whatever the locale is; a terminal gets no control characters."""
    from vllm_runbooks.core.display import live

    stream = opened()
    if stream.isatty():
        text = live(text)
    with _told(stream):
        stream.flush()
        stream.buffer.write(text.encode("utf-8", "surrogateescape"))
        stream.flush()


def opened() -> TextIO:
    """Standard output; raises NotPrintedError if it is closed."""
    stream = sys.stdout
    if stream is None or stream.closed:
        raise NotPrintedError("standard output is closed; redirect it to a file or a terminal")
    return stream


@contextmanager
def _told(stream: TextIO) -> Iterator[None]:
    """Report why standard output cannot be written."""
    try:
        yield
    except BrokenPipeError:
        # The reader of the pipe has exited: discard further output and keep the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise NotPrintedError(f"standard output cannot be written: {error.strerror}; check the disk space") from None


def write_json(text: str) -> None:
    """Write a JSON document; it stays valid if the terminal cannot show all of its characters."""
    from vllm_runbooks.core.display import escaped_json

    text = escaped_json(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # Only texts have such characters; a large document is not copied for them.
        text = _BEYOND.sub(lambda match: json.dumps(match[0])[1:-1], text)
    write(text)
