"""What is shown holds nothing that a reader cannot see."""

from __future__ import annotations

from vllm_runbooks.core.display import visible


def test_everything_that_no_sign_shows_is_an_escape() -> None:
    """Colours, turned text, private letters and spaces that a shell takes for letters; what people write stays."""
    assert visible("a\x1b[3m\u202eb\ue42fc\xa0d\ud800\x85") == "a\\x1b[3m\\u202eb\\ue42fc\\xa0d\\ud800\\x85"
    assert visible("é 漢\u3000字\n\tπ") == "é 漢 字\n π"
