"""Replace secrets in texts: by their form, and as values of secret options and variables.

A long secret is replaced everywhere. A short one may be an ordinary word: it is replaced where it
was read, after the same words in another version of the text, and as a whole text.
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
from vllm_runbooks.reading.documents import LaunchFile
from vllm_runbooks.reading.documents.starts import WrittenLaunch
from vllm_runbooks.reading.shell import Word

_TELLING = 8
"""Shortest value that is replaced everywhere."""
_MAX_LEAD = 60
"""Characters before a short secret that identify it."""
_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_REFERENCE = re.compile(r"\$|<|\{\{|[A-Z_]{1,60}\Z|\[secret")
_GLUED = re.compile(r"[^\s-]--([A-Za-z][A-Za-z-]{1,60})\Z", re.ASCII)
"""An option without a blank before it."""
_BEHIND = re.compile(r"[ \t]{0,40}(?:\\?[ \t]{0,40}(?:#[^\n]{0,400})?\n[ \t]{0,40})?(\S{1,400})")
"""The word after an option without a value, on its line or the next."""


class TextVersion(NamedTuple):
    """A version of a text with its launches."""

    page: LaunchFile
    parsed: Sequence[tuple[WrittenLaunch, Parsed]]


class _Secret(NamedTuple):
    value: str
    places: tuple[tuple[int, int], ...] = ()
    """Ranges of the secret, several if quotes split it; empty if unknown."""


class Secrets:
    def __init__(
        self, first: TextVersion, *others: TextVersion, more: Iterable[tuple[str, tuple[tuple[int, int], ...]]] = ()
    ) -> None:
        """Record the secrets of the text, of `others` (its results), and `more` with offsets."""
        self._redactor = Redactor()
        self._text = first.page.text
        self._values: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._behind: dict[str, tuple[int, str]] = {}
        self._spans: list[Replacement] = []
        for reading in (first, *others):
            self._redactor.learn([reading.page.text])
            for secret in _secrets_of(reading):
                self._learn(secret, reading.page.text, is_first=reading is first)
        for value, places in more:
            self._learn(_Secret(value, places), first.page.text, is_first=True)

    def _learn(self, secret: _Secret, text: str, *, is_first: bool) -> None:
        value = secret.value.strip(_QUOTES)
        if not value or _REFERENCE.match(value):
            return
        if len(value) >= _TELLING or (len(value) >= _TELLING - 2 and any(c.isdigit() for c in value)):
            self._redactor.learn([f"api_key={value}\n"])
            mark = self._values[value] = self._redactor.value(value)
        else:
            mark = self._short[value] = self._redactor.value(value)
        for start, end in secret.places:
            if is_first:
                self._spans.append(Replacement(start, end, mark))
            lead = text[max(0, start - _MAX_LEAD) : start]
            name = re.search(r"[\w.-]{1,50}\W{0,9}\Z", lead)
            lead = name[0] if name else ""
            if lead.strip() and len(secret.places) == 1:
                self._behind[lead + text[start:end]] = len(lead), mark

    def hidden(self, text: str) -> str:
        if text in self._short:
            return self._short[text]
        for written, (length, mark) in self._behind.items():
            if written in text:
                text = re.sub(rf"{re.escape(written)}(?!\w)", written[:length].replace("\\", r"\\") + mark, text)
        text = self._redactor.text(text)
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, self._values[value])
        return text

    def part(self, start: int, end: int) -> str:
        """Replace the secrets in a part of the first text."""
        inside = [
            Replacement(max(edit.start, start) - start, min(edit.end, end) - start, edit.new_text)
            for edit in self._spans
            if edit.start < end and start < edit.end
        ]
        inside.sort(key=lambda edit: (edit.start, -edit.end))
        return self.hidden(applied(self._text[start:end], _apart(inside)))


def _apart(edits: Iterable[Replacement]) -> Iterator[Replacement]:
    """Drop edits that overlap the one before."""
    last = -1
    for edit in edits:
        if edit.start >= last:
            yield edit
            last = edit.end


def _secrets_of(reading: TextVersion) -> Iterator[_Secret]:
    """Yield values of options and variables with secret names, also misspelt ones."""
    page = reading.page
    for setting in (*page.settings, *(item for launch, _ in reading.parsed for item in launch.environment.values())):
        if deployment.is_secret(setting.name, setting.value.value or ""):
            yield from _word(setting.value, 0, page.text)
    for launch in page.starts:
        for index, begin in deployment.secrets([word.value for word in launch.words]).items():
            yield from _word(launch.words[index], begin, page.text)
    for launch, parsed in reading.parsed:
        for word, role in zip(launch.words, parsed.roles, strict=False):
            if role.kind == "value" and names_secret(_plain_name(role.option)):
                yield from _word(word, 0, page.text)
        for glued, word in pairwise(launch.words):
            if (name := _GLUED.search(glued.value or "")) and names_secret(_plain_name(name[1])):
                yield _Secret((word.value or "").partition("--")[0])
        for keyword in launch.keywords:
            if isinstance(keyword.value, str) and names_secret(keyword.name):
                at = page.text.find(keyword.value, keyword.start, keyword.end)
                yield _Secret(keyword.value, ((at, at + len(keyword.value)),) if at >= 0 else ())
        for dest, value in parsed.flags.items():  # a configuration file's, too
            if names_secret(dest):
                values = value if isinstance(value, list) else [value]
                yield from (_Secret(item) for item in values if isinstance(item, str))
        yield from _misplaced(launch, parsed, page.text)


def _misplaced(launch: WrittenLaunch, parsed: Parsed, text: str) -> Iterator[_Secret]:
    for problem in parsed.problems:
        names = (problem.option, *problem.says.get("near", "").split())
        if problem.option_word is None or not any(names_secret(_plain_name(name)) for name in names):
            continue
        option = launch.words[problem.option_word]
        before, equals, _ = (option.value or "").partition("=")
        if equals:
            yield from _word(option, len(before) + 1, text)
        elif problem.option_word + 1 < len(launch.words):
            yield from _word(launch.words[problem.option_word + 1], 0, text)
        if behind := _BEHIND.match(text, option.end):
            yield _Secret(behind[1], (behind.span(1),))


def _word(word: Word, begin: int, text: str) -> Iterator[_Secret]:
    """Yield a word's value, and its source text if different."""
    value = (word.value or "")[begin:]
    if not value:
        return
    places = tuple(_places(word, begin, value, text))
    yield _Secret(value, places)
    if len(places) > 1:
        first, last = places[0][0], places[-1][1]
        yield _Secret(text[first:last], ((first, last),))
    elif not begin and value not in word.raw:
        yield _Secret(word.raw)


def _places(word: Word, begin: int, value: str, text: str) -> Iterator[tuple[int, int]]:
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
