"""The fixed words of what is printed, in Chinese."""

from __future__ import annotations

WORDS: dict[str, str] = {}
"""English, as the code says it, to Chinese; `{name}` is filled in both."""
