"""What a command prints: UTF-8 whatever the terminal's locale says, whole or not at all."""

from __future__ import annotations

import sys


def write(text: str) -> None:
    """Write to standard output; characters that the terminal cannot show are escaped, never an error."""
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    if not text.endswith("\n"):
        stream.write("\n")
    stream.flush()
