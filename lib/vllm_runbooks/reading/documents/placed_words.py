"""Words with the offset of each of their characters: parts of them, their text, and settings."""

from __future__ import annotations

import re
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents.starts import Setting
from vllm_runbooks.reading.shell import Word

Characters = list[tuple[str, int]]
"""Characters with their offsets."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,200})=")


def literal(source: Excerpt, *, start: int | None = None, end: int | None = None, why: str = "") -> Word:
    """A word with the same value as its text in the file.

    `start` and `end` are offsets that include its quotes.
    """
    first = source.at[0] if start is None else start
    last = source.at[len(source.text)] if end is None else end
    return Word(None if why else source.text, first, last, source.text, why, None if why else source.at[:-1])


def excerpt_of_characters(characters: Characters, end: int) -> Excerpt:
    """Convert characters to an excerpt; `end` is the offset of its end."""
    return Excerpt("".join(character for character, _ in characters), [*(place for _, place in characters), end])


def word_of_characters(characters: Characters, start: int, end: int, raw: str, why: str = "") -> Word:
    """Convert characters to a word, unknown if one of them is; `why` is the reason then."""
    value = "".join(character for character, _ in characters)
    if HOLE in value:
        return Word(None, start, end, raw, why)
    return Word(value, start, end, raw, "", tuple(place for character, place in characters if character))


def unknown(start: int, end: int, why: str) -> Word:
    """An unknown word."""
    return Word(None, start, end, "", why)


def cut(word: Word, index: int) -> Word:
    """The word without its first characters."""
    at = word.at[index:] if word.at is not None else None
    start = at[0] if at is not None and len(at) else word.start
    value = None if word.value is None else word.value[index:]
    return replace(word, value=value, start=start, at=at)


def of_pair(word: Word, index: int, form: str) -> Setting:
    """Setting of a word `NAME=value`; the value begins at an index."""
    value = word.value or ""
    return Setting(value[: index - 1], cut(word, index), word.start, word.end, form, pair=(word.start, word.end))


def setting_of(word: Word, form: str) -> Setting | None:
    """Setting of a word; None if it is not `NAME=value`."""
    match = _ASSIGNMENT.match(word.value or "")
    return of_pair(word, match.end(), form) if match else None


def excerpt_of(word: Word) -> Excerpt:
    """Value of a word as an excerpt; for a partly unknown word the text between its quotes."""
    value = word.value
    if value is None and word.at is not None and len(word.at) == len(word.raw):
        value = word.raw
    if value is None:
        return _between_quotes(word)
    if not word.at or len(word.at) != len(value):
        return Excerpt(value, [*[word.start] * len(value), word.end])
    return Excerpt(value, [*word.at, word.at[-1] + 1])


def _between_quotes(word: Word) -> Excerpt:
    raw = word.raw
    places = range(word.start, word.end) if word.end - word.start == len(raw) else [word.start] * len(raw)
    kept = list(enumerate(raw))
    if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'":
        kept = kept[1:-1]
    if raw[:1] == '"':
        unescaped = []
        is_escaped = False
        for index, character in kept:
            if is_escaped and character not in '"\\`\n':
                unescaped.append((index - 1, "\\"))
            is_escaped = character == "\\" and not is_escaped
            if not is_escaped and not (character == "\n" and raw[index - 1] == "\\"):
                unescaped.append((index, character))
        kept = unescaped
    return excerpt_of_characters([(character, places[index]) for index, character in kept], word.end)


_ESCAPED_BLANKS = re.compile(r" +(?=--)")


def without_escaped_blanks(words: list[Word]) -> tuple[list[Word], bool]:
    r"""Words of a command that lost its line ends: `\ --port` is the word ` --port` to a shell."""
    kept, is_pasted = [], False
    for word in words:
        blanks = _ESCAPED_BLANKS.match(word.value or "")
        if blanks and "\\ " in word.raw:
            kept.append(cut(word, blanks.end()))
            is_pasted = True
        elif not is_escaped_blank(word):
            kept.append(word)
    return kept, is_pasted


def is_escaped_blank(word: Word) -> bool:
    """Whether a word is only an escaped blank: a misplaced line continuation."""
    return bool(word.value) and not (word.value or "").strip(" ") and word.raw.startswith("\\")
