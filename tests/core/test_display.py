"""Shown text contains no invisible characters."""

from __future__ import annotations

import json

import pytest

from vllm_runbooks.core import display
from vllm_runbooks.core.display import visible


def test_invisible_characters_are_escaped() -> None:
    """Colors, bidirectional text, private characters and unusual spaces; human text stays."""
    assert visible("a\x1b[3m\u202eb\ue42fc\xa0d\ud800\x85") == "a\\x1b[3m\\u202eb\\ue42fc\\xa0d\\ud800\\x85"
    assert visible("é 漢\u3000字\n\tπ") == "é 漢 字\n π"


HIDDEN = "a\u202eb\u2066c\x9b31md\x7fe\u200bf\u2028g\U000e0041h"


def test_json_escapes_what_reorders_or_hides_text() -> None:
    """The document has only visible characters, its value is the same, and letters stay readable."""
    text = display.escaped_json(json.dumps({"a": HIDDEN, "b": "é 显存 😀"}, ensure_ascii=False))

    assert text.isprintable()
    assert "é 显存 😀" in text
    assert json.loads(text) == {"a": HIDDEN, "b": "é 显存 😀"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m 10%\r\x1b[K20%\t显存\r\n", "\x1b[1;31mred\x1b[0m 10%\r\x1b[K20%\t显存\r\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"), ("\x1b[2J\x1b[3;1H\x1b[6n", "\\x1b[2J\\x1b[3;1H\\x1b[6n"),
        ("\x9b31m", "\\x9b31m"), ("a\u202eb", "a\\u202eb"), ("one\x1b[A\ntwo", "one\ntwo"),
        (b"\x9b31m \xcf\xd4".decode("utf-8", "surrogateescape"), "\\x9b31m \udccf\udcd4"),
    ],
)  # fmt: skip
def test_a_live_output_keeps_its_colors_only(text: str, shown: str) -> None:
    """Titles, links, cursor movements, 8-bit controls and bidirectional marks are escaped; GBK stays."""
    assert display.live(text) == shown
