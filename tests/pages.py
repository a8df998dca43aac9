"""Documentation pages with a generated part between two markers."""

from __future__ import annotations

import re
from pathlib import Path


def write_between(page: Path, begin: str, end: str, body: str) -> None:
    """Replace the text between the markers of a page.

    Raises:
        ValueError: It lacks these markers.
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
