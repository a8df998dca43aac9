"""Texts as they may be shown: what looks like a secret, and what a start is given as one, behind placeholders.

A long secret is replaced wherever it stands. A short one may be a word of the language (a key `vllm`), so it is
replaced where it was read, behind the same words in another version of the text, and where it is all that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Replacement, applied
from vllm_runbooks.core.redaction.places import names_secret
from vllm_runbooks.core.redaction.redact import Redactor
from vllm_runbooks.reading import deployment
from vllm_runbooks.reading.arguments import Parsed
from vllm_runbooks.reading.documents import Page
from vllm_runbooks.reading.documents.starts import Found
from vllm_runbooks.reading.shell import Word

_TELLING = 8
"""Characters from which a value is replaced wherever it stands; a shorter word may be a part of others."""
_MAX_LEAD = 60
"""Characters in front of a short secret by which it is found again."""
_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_REFERENCE = re.compile(r"\$|<|\{\{|[A-Z_]{1,60}\Z|\[secret")
"""What stands for a secret and is none."""
_GLUED = re.compile(r"[^\s-]--([A-Za-z][A-Za-z-]{1,60})\Z", re.ASCII)
"""An option that lost the blank in front of it."""
_BEHIND = re.compile(r"[ \t]{0,40}(?:\\?[ \t]{0,40}(?:#[^\n]{0,400})?\n[ \t]{0,40})?(\S{1,400})")
"""The word behind an option that lacks its value, on its line or the next."""


class Reading(NamedTuple):
    """A version of a text as it was read."""

    page: Page
    parsed: Sequence[tuple[Found, Parsed]]


class _Given(NamedTuple):
    """A text that is secret for what it is given to."""

    value: str
    places: tuple[tuple[int, int], ...] = ()
    """From where to where it stands, in pieces where quotes part it; empty where that is not known."""


class Secrets:
    """The secrets of one text, and of what it becomes."""

    def __init__(
        self,
        first: Reading,
        *others: Reading,
        more: Iterable[tuple[str, tuple[tuple[int, int], ...]]] = (),
    ) -> None:
        """Learn the secrets of a text, and of versions of it.

        Args:
            first: The text that is shown.
            others: What it becomes.
            more: Further secrets of the text, as its reader knows them, each with where it stands.
        """
        self._redactor = Redactor()
        self._text = first.page.text
        self._values: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._behind: dict[str, tuple[int, str]] = {}
        self._spans: list[Replacement] = []
        for reading in (first, *others):
            self._redactor.learn([reading.page.text])
            for given in _given(reading):
                self._learn(given, reading.page.text, is_first=reading is first)
        for value, places in more:
            self._learn(_Given(value, places), first.page.text, is_first=True)

    def _learn(self, given: _Given, text: str, *, is_first: bool) -> None:
        value = given.value.strip(_QUOTES)
        if not value or _REFERENCE.match(value):
            return
        if len(value) >= _TELLING or (len(value) >= _TELLING - 2 and any(c.isdigit() for c in value)):
            self._redactor.learn([f"api_key={value}\n"])
            mark = self._values[value] = self._redactor.value(value)
        else:
            mark = self._short[value] = self._redactor.value(value)
        for start, end in given.places:
            if is_first:
                self._spans.append(Replacement(start, end, mark))
            lead = text[max(0, start - _MAX_LEAD) : start]
            lead = lead[_name_at(lead) :]
            if lead.strip() and len(given.places) == 1:
                self._behind[lead + text[start:end]] = len(lead), mark

    def hidden(self, text: str) -> str:
        """A text with placeholders for the secrets."""
        if text in self._short:
            return self._short[text]
        for found, (length, mark) in self._behind.items():
            if found in text:
                text = re.sub(rf"{re.escape(found)}(?!\w)", found[:length].replace("\\", r"\\") + mark, text)
        text = self._redactor.text(text)
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, self._values[value])
        return text

    def part(self, start: int, end: int) -> str:
        """A part of the first text with placeholders for the secrets."""
        inside = [
            Replacement(max(one.start, start) - start, min(one.end, end) - start, one.new_text)
            for one in self._spans
            if one.start < end and start < one.end
        ]
        inside.sort(key=lambda one: (one.start, -one.end))
        return self.hidden(applied(self._text[start:end], _apart(inside)))


def _apart(edits: Iterable[Replacement]) -> Iterator[Replacement]:
    """The edits that do not touch the one before."""
    last = -1
    for edit in edits:
        if edit.start >= last:
            yield edit
            last = edit.end


def _name_at(lead: str) -> int:
    """Where in front of a secret the word begins that names it."""
    named = re.search(r"[\w.-]{1,50}\W{0,9}\Z", lead)
    return named.start() if named else len(lead)


def _given(reading: Reading) -> Iterator[_Given]:
    """What is secret for what it is given to: an option or a variable with such a name, or a misspelt one."""
    page = reading.page
    for setting in (*page.settings, *(one for start, _ in reading.parsed for one in start.environment.values())):
        if deployment.is_secret(setting.name, setting.value.value or ""):
            yield from _word(setting.value, 0, page.text)
    for start in page.starts:
        for index, begin in deployment.secrets([word.value for word in start.words]).items():
            yield from _word(start.words[index], begin, page.text)
    for start, parsed in reading.parsed:
        for word, role in zip(start.words, parsed.roles, strict=False):
            if role.kind == "value" and names_secret(_plain_name(role.option)):
                yield from _word(word, 0, page.text)
        for glued, word in pairwise(start.words):
            if (name := _GLUED.search(glued.value or "")) and names_secret(_plain_name(name[1])):
                yield _Given((word.value or "").partition("--")[0])
        for keyword in start.keywords:
            if isinstance(keyword.value, str) and names_secret(keyword.name):
                at = page.text.find(keyword.value, keyword.start, keyword.end)
                yield _Given(keyword.value, ((at, at + len(keyword.value)),) if at >= 0 else ())
        for dest, value in parsed.flags.items():  # a configuration file's, too
            if names_secret(dest):
                yield from (
                    _Given(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)
                )
        yield from _misplaced(start, parsed, page.text)


def _misplaced(start: Found, parsed: Parsed, text: str) -> Iterator[_Given]:
    """Secrets behind options that are misspelt, or that stand where nothing is read."""
    for problem in parsed.problems:
        names = (problem.option, *problem.says.get("near", "").split())
        if problem.option_word is None or not any(names_secret(_plain_name(name)) for name in names):
            continue
        option = start.words[problem.option_word]
        before, equals, _ = (option.value or "").partition("=")
        if equals:
            yield from _word(option, len(before) + 1, text)
        elif problem.option_word + 1 < len(start.words):
            yield from _word(start.words[problem.option_word + 1], 0, text)
        if behind := _BEHIND.match(text, option.end):
            yield _Given(behind[1], (behind.span(1),))


def _word(word: Word, begin: int, text: str) -> Iterator[_Given]:
    """A word's value from an index on as it is delivered, and where that differs as it is written."""
    value = (word.value or "")[begin:]
    if not value:
        return
    places = tuple(_places(word, begin, value, text))
    yield _Given(value, places)
    if len(places) > 1:
        first, last = places[0][0], places[-1][1]
        yield _Given(text[first:last], ((first, last),))
    elif not begin and value not in word.raw:
        yield _Given(word.raw)


def _places(word: Word, begin: int, value: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a part of a word's value stands."""
    if word.at is None:
        at = text.find(value, word.start, word.end)
        if at >= 0:
            yield at, at + len(value)
        elif "$" not in text[word.start : word.end]:
            yield word.start, word.end
        return
    places = list(word.at)[begin : begin + len(value)]
    first = 0
    for index in range(1, len(places) + 1):
        if index == len(places) or places[index] != places[index - 1] + 1:
            yield places[first], places[index - 1] + 1
            first = index


def _plain_name(option: str | None) -> str:
    return (option or "").lstrip("-").replace("-", "_")
