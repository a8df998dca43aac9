"""What is shown: rich in a notebook, plain in a terminal, and nothing in it that moves a cursor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
"""Version of the JSON documents."""


@dataclass(frozen=True)
class Shown:
    """Something to show: rich in a notebook, plain in a terminal."""

    plain: str
    html: str

    def __post_init__(self) -> None:
        """Let no control character of a log reach a terminal or a page."""
        object.__setattr__(self, "plain", visible(self.plain))
        object.__setattr__(self, "html", visible(self.html))

    def __str__(self) -> str:
        return self.plain

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.plain, "text/html": self.html}


_INVISIBLE = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]"
)


def visible(text: str) -> str:
    """The text with control characters, and those that reorder or hide others, written as escapes."""
    return _INVISIBLE.sub(lambda match: " " if match[0] == "\t" else match[0].encode("unicode_escape").decode(), text)
