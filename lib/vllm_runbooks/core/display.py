"""Rendered text: rich in a notebook, plain in a terminal, without control characters."""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.core.record_forms import document

SCHEMA = 2
NOTHING_MIME = "application/vnd.vllm-runbooks.nothing+json"
"""Marks an output that only reports that there is nothing to show."""


@dataclass(frozen=True)
class RenderedView:
    """Something to show: rich in a notebook, plain in a terminal."""

    plain: str
    html: str
    is_nothing: bool = False
    """Whether it only reports that there is nothing to show: pages omit it and a heading without
    other content."""

    def __post_init__(self) -> None:
        """Let no control character of a log reach a terminal or a page."""
        object.__setattr__(self, "plain", visible(self.plain))
        object.__setattr__(self, "html", visible(self.html))

    @classmethod
    def said(cls, text: str) -> RenderedView:
        from html import escape

        return cls(text, f"<p>{escape(text)}</p>")

    @classmethod
    def nothing(cls, text: str) -> RenderedView:
        """A remark that there is nothing to show."""
        from html import escape

        return cls(text, f'<p style="opacity:.75">{escape(text)}</p>', is_nothing=True)

    @classmethod
    def joined(cls, parts: Sequence[RenderedView]) -> RenderedView:
        return cls("\n".join(part.plain for part in parts), "".join(part.html for part in parts))

    def __str__(self) -> str:
        return self.plain

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        mark: dict[str, Any] = {NOTHING_MIME: {}} if self.is_nothing else {}
        return {"text/plain": self.plain, "text/html": self.html, **mark}


def to_json(record: Any, *, indent: int | None = 2) -> str:
    """A record as one JSON document; without an indent it is one line."""
    return escaped_json(json.dumps({"schema": SCHEMA, **document(record)}, ensure_ascii=False, indent=indent))


_BEYOND = re.compile(r"[^\x00-\x7e]+")


def escaped_json(text: str) -> str:
    """A JSON document whose characters that reorder, hide or control text are escaped; its meaning is the same."""
    return _BEYOND.sub(lambda run: run[0] if run[0].isprintable() else "".join(map(_json_escaped, run[0])), text)


def _json_escaped(letter: str) -> str:
    if letter.isprintable() or letter in _SPACES:
        return letter
    return json.dumps(letter)[1:-1] if letter > "\x7f" else "\\u007f"


_PLAIN = re.compile("[ -~\\n]+")
_SPACES = "\t\u3000"
"""Shown as a space: the second is the one of Chinese and Japanese texts."""


def visible(text: str) -> str:
    """Escape characters that control a terminal, reorder or hide text, or are invisible."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(c if c.isprintable() or c == "\n" else " " if c in _SPACES else _escaped(c) for c in text)


def unknown_reason(text: str) -> str:
    """What is unknown, for a sentence that already says "unknown: "."""
    return text.removeprefix("unknown: ")


def one_line(text: str) -> str:
    """Text of `visible` with line ends as signs, for names in one-line messages."""
    return visible(text).replace("\n", "\\n")


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


_LIVE = re.compile(r"(?P<kept>\x1b\[[0-9;:]{0,40}[mK])|(?P<up>\x1b\[A)|[^\n\r\t -~]")
_STRAY, _LAST_CONTROL, _LAST_STRAY = "\udc80", "\udc9f", "\udcff"
"""Bytes that are not UTF-8, as `surrogateescape` decodes them; the first 32 can control a terminal."""


def unified_diff(before: str, after: str, name: str, new_name: str = "", *, context: int = 3) -> str:
    """The changes between two texts as git writes them, which marks a last line without its end."""
    old, new = (
        [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in io.StringIO(text)]
        for text in (before, after)
    )
    return "".join(difflib.unified_diff(old, new, name, new_name or name, n=context))


def live(text: str) -> str:
    """Another program's output for a terminal: its colors and line ends, all other control characters escaped."""
    return _LIVE.sub(_live, text)


def _live(match: re.Match[str]) -> str:
    letter = match[0]
    if match["kept"] or letter.isprintable() or letter in _SPACES:
        return letter
    if match["up"]:  # between several progress bars
        return ""
    if _STRAY <= letter <= _LAST_STRAY:
        return f"\\x{ord(letter) & 0xFF:02x}" if letter <= _LAST_CONTROL else letter
    return _escaped(letter)
