"""What a letter behind a backslash stands for, as C has it and what borrowed it: Python and systemd."""

from __future__ import annotations

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
DIGITS = {"x": 2, "u": 4, "U": 8}
"""Hexadecimal digits behind the letters that begin a character's number."""
