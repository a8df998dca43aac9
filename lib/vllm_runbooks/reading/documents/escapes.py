"""Backslash escapes of C, as used by Python and systemd."""

from __future__ import annotations

import re

SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{sign: sign for sign in ("\\", "'", '"')},
}
NUMBER = r"x(?P<x>[\da-fA-F]{2})|u(?P<u>[\da-fA-F]{4})|U(?P<U>[\da-fA-F]{8})"
"""Hexadecimal code of a character after a backslash."""


def numbered(match: re.Match[str], octal: str = "") -> str | None:
    """The character of a number that `NUMBER` matches, or of octal digits; None if it is no character's."""
    try:
        return chr(int(octal, 8) if octal else int(match["x"] or match["u"] or match["U"], 16))
    except (ValueError, OverflowError):
        return None
