"""What a command prints: UTF-8 whatever the terminal's locale says, whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_runbooks.catalog import Catalog


def name_left_out(catalog: Catalog) -> None:
    """Name on standard error the catalog files that are broken and were left out."""
    for problem in catalog.problems:
        sys.stderr.write(f"vllm-runbooks: left out: {problem}\n")


def write(text: str) -> None:
    """Write to standard output; characters that the terminal cannot show are escaped, never an error."""
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    shown = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(shown if shown.endswith("\n") else f"{shown}\n")
        stream.flush()
    except BrokenPipeError:
        # The reader of a pipe went away: nothing is left to say to it, and the exit status still says how it was.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_json(text: str) -> None:
    """Write a JSON document; it stays one where the terminal cannot show all of its characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    write(text)
