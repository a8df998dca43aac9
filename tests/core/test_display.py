"""Shown text contains no invisible characters."""

from __future__ import annotations

from vllm_runbooks.core.display import visible


def test_invisible_characters_are_escaped() -> None:
    """Colors, bidirectional text, private characters and unusual spaces; human text stays."""
    assert visible("a\x1b[3m\u202eb\ue42fc\xa0d\ud800\x85") == "a\\x1b[3m\\u202eb\\ue42fc\\xa0d\\ud800\\x85"
    assert visible("é 漢\u3000字\n\tπ") == "é 漢 字\n π"
