"""Pages of the documentation that hold a part written by a program, between two markers."""

from __future__ import annotations

import re
from pathlib import Path


def write_between(page: Path, begin: str, end: str, body: str) -> None:
    """Replace what stands between the markers of a page.

    Raises:
        ValueError: It has no such markers.
    """
    text, count = re.subn(
        f"{re.escape(begin)}.*{re.escape(end)}",
        lambda _: f"{begin}\n\n{body}\n\n{end}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if not count:
        raise ValueError(f"{page}: holds no {begin} … {end}")
    page.write_text(text, encoding="utf-8")
