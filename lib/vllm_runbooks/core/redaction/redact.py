"""Replace secrets in any text that leaves the library with placeholders, consistently within a run.

The functions share one `Redactor`; use a separate one if placeholders and counts belong to one run.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any, TypeVar, cast

from vllm_runbooks.core.redaction import places
from vllm_runbooks.core.redaction.places import FOLLOWING, PART, Secret, merged

T = TypeVar("T")


_SUFFIX = re.compile(
    r"(?:\.(?:log|txt|out|err|json|jsonl|ya?ml|md|html|ipynb|csv|gz|xz|bz2|zip)){1,3}\Z", re.IGNORECASE
)

_OWNED = re.compile(r"(?<![^/])(?P<user>[^\s/:@]{1,100}:)(?P<value>[^\s/:@]{1,200})@(?!sha256\b)")
"""Login before a host, in a file's name."""
_PLACEHOLDER = re.compile(r"\[secret[^\]]{0,20}\]\Z")
_MAX_AGAIN, _FIRST = 1000, 128
"""Maximum number of known values that are searched; the first of them are never dropped.

A log prints its own settings first; client data comes later, and without limit.
"""
_MAX_TOLD_APART = 100_000
"""Maximum number of secrets with a unique placeholder; malicious input may have any number."""
_WINDOW = 1 << 18
"""Characters of a document that are looked at together."""
_AHEAD = 1 << 15
"""Look-ahead in characters before a position is final; no pattern is longer."""


class _Windows:
    """Cuts a text that arrives in parts into overlapping windows.

    The user of a window sets its end.
    """

    def __init__(self) -> None:
        self.cut = 0
        """End of the last window, and start of the next."""
        self._waiting: list[str] = []
        self._length = 0

    @property
    def rest(self) -> str:
        self._waiting = ["".join(self._waiting)]
        return self._waiting[0]

    def take(self, part: str) -> Iterator[str]:
        """Yield the windows that are complete with this part."""
        for start in range(0, len(part), _WINDOW):
            self._waiting.append(part[start : start + _WINDOW])
            self._length += len(self._waiting[-1])
            while self._length >= _WINDOW + _AHEAD:
                text = self.rest
                yield text[: _WINDOW + _AHEAD]
                self._waiting = [text[self.cut :]]
                self._length -= self.cut


class Redactor:
    """Replaces the secrets of one run: the same value by the same placeholder everywhere.

    Once a value was found by its name, it is also replaced without the name; `text` and `learn`
    read the whole document first, so earlier occurrences are replaced too.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Replacements by kind: the token's issuer, else `key`, `token`, `password`, `authorization`, `cookie`, `url`,
        `private_key`, `webhook`, `encoded` or `repeated`."""
        self._numbers: dict[str, int] = {}
        self._again: dict[str, None] = {}
        """Known values: the first ones, then the others, the latest last."""
        self._first: set[str] = set()
        self._edges: Counter[str] = Counter()
        """Edges of known values: a fast check that a short text has none of them."""
        self._before = ""
        self._lock = threading.RLock()
        """The supervisor prints lines while another thread reads the log."""

    def text(self, whole: str) -> str:
        """A whole text with its secrets replaced."""
        if len(whole) > _WINDOW:
            self.learn([whole])
            return "".join(self.pieces([whole]))
        with self._lock:
            secrets = places.find(whole, self._again)
            self._remember(whole, secrets)
            return self._replaced(whole, self._all(whole, secrets, at_ends=True)) if secrets or self._again else whole

    def known(self, whole: str) -> str:
        """Replace only known values."""
        with self._lock:
            return self._replaced(whole, self._all(whole, []))

    def name(self, name: str) -> str:
        """A file's name or a path with its secrets replaced; its suffix stays."""
        stem = _stem(name)
        redacted = _OWNED.sub(lambda owned: owned["user"] + self.value(owned["value"]) + "@", self.text(stem))
        return redacted + name[len(stem) :]

    def value(self, value: str) -> str:
        """Placeholder of a secret value."""
        if _PLACEHOLDER.match(value):
            return value
        whole = [Secret(0, len(value), "key", 0)]
        with self._lock:
            self._remember(value, whole)
            return self._replaced(value, whole)

    def learn(self, parts: Iterable[str]) -> None:
        """Record the secrets of a document, so that later occurrences are replaced."""
        for _ in self.watch(parts):
            pass

    def learn_names(self, names: Iterable[str]) -> None:
        for name in names:
            self.learn([_stem(name)])

    def watch(self, parts: Iterable[str]) -> Iterator[str]:
        """Yield the parts of a document unchanged, and record its secrets."""
        windows = _Windows()
        for part in parts:
            for text in windows.take(part):
                self._learned(windows, text)
            if not part:
                # A pause in the output: the text so far is going to be printed.
                with self._lock:
                    self._remember(windows.rest, places.find(windows.rest, self._again))
            yield part
        self._learned(windows, windows.rest)

    def pieces(self, parts: Iterable[str]) -> Iterator[str]:
        """Yield a document in parts with secrets replaced.

        The result does not depend on the parts.
        """
        windows = _Windows()
        for part in parts:
            for text in windows.take(part):
                with self._lock:
                    secrets = self._learned(windows, text)
                    redacted = self._replaced(text[: windows.cut], self._all(text[: windows.cut], secrets))
                yield redacted
        with self._lock:
            redacted = self._replaced(windows.rest, self._all(windows.rest, self._learned(windows, windows.rest)))
        yield redacted

    def more(self, lines: str) -> str:
        """Redact the next lines of a streamed output; secrets may begin in earlier lines."""
        with self._lock:
            text = self._before + lines
            secrets = places.find(text, self._again)
            self._remember(text, secrets)
            shift = len(self._before)
            new = [s._replace(start=max(s.start - shift, 0), end=s.end - shift) for s in secrets if s.end > shift]
            self._before = _going_on(text)
            return self._replaced(lines, self._all(lines, new))

    def _learned(self, windows: _Windows, text: str) -> list[Secret]:
        """Secrets before the end of a window, which is set here; they are recorded."""
        with self._lock:
            secrets = places.find(text, self._again)
            windows.cut = _cut(text, secrets) if len(text) >= _WINDOW + _AHEAD else len(text)
            whole = [secret for secret in secrets if secret.end <= windows.cut]
            self._remember(text, whole)
        return whole

    def _all(self, text: str, secrets: list[Secret], *, at_ends: bool = False) -> list[Secret]:
        secrets = list(secrets)
        if len(text) < len(self._again) and self._edges.keys().isdisjoint(
            text[start : start + PART] for start in range(len(text) - PART + 1)
        ):
            return merged(secrets)
        for value in self._again:
            if value[:PART] in text:
                secrets += places.places_of(value, text)
            if at_ends and len(value) >= 2 * PART and (value[:PART] in text or value[-PART:] in text):
                secrets += places.parts_of(value, text)
        return merged(secrets)

    def _remember(self, text: str, secrets: list[Secret]) -> None:
        for secret in secrets:
            for value in places.tellings(secret, text[secret.start : secret.end]):
                if value in self._first:
                    continue
                if len(self._first) < _FIRST:
                    self._first.add(value)
                if value in self._again:
                    del self._again[value]
                else:
                    self._edges.update((value[:PART], value[-PART:]))
                self._again[value] = None
                if len(self._again) > _MAX_AGAIN:
                    self._forget(next(islice(self._again, _FIRST, None)))

    def _forget(self, value: str) -> None:
        del self._again[value]
        for edge in (value[:PART], value[-PART:]):
            self._edges[edge] -= 1
            if not self._edges[edge]:
                del self._edges[edge]

    def _replaced(self, text: str, secrets: list[Secret]) -> str:
        pieces, position = [], 0
        for secret in secrets:
            self.counts[secret.kind] = self.counts.get(secret.kind, 0) + 1
            value = places.value_of(text[secret.start : secret.end])
            pieces += [text[position : secret.start], self._placeholder(value)]
            position = secret.end
        return "".join([*pieces, text[position:]]) if secrets else text

    def _placeholder(self, value: str) -> str:
        if value not in self._numbers and len(self._numbers) >= _MAX_TOLD_APART:
            return "[secret]"
        return f"[secret-{self._numbers.setdefault(value, len(self._numbers) + 1)}]"


_shared = Redactor()


def forget() -> None:
    """Reset the state, as in a new process: placeholder numbers are per answer."""
    global _shared  # noqa: PLW0603 - what every module shares
    _shared = Redactor()


def redact_text(text: str) -> str:
    """Return the text with every recognised secret replaced, or unchanged if there is none."""
    return _shared.text(text)


def redact_name(name: str) -> str:
    return _shared.name(name)


def redact_value(value: str) -> str:
    return _shared.value(value)


def watch(parts: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a document unchanged; from then on `redact_text` knows its secrets."""
    return _shared.watch(parts)


def redact_record(record: T) -> T:
    """Replace the secrets in all texts of a record, or of any nest of dataclasses, lists, tuples and mappings."""
    return cast("T", _redacted(record))


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else redact_text(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_redacted, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_redacted, value))
    if isinstance(value, Mapping):
        return {key: _redacted(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {name: new for name, old in values.items() if (new := _redacted(old)) != old}
        return replace(value, **changed) if changed else value
    return value


def _stem(name: str) -> str:
    suffix = _SUFFIX.search(name)
    return name[: suffix.start()] if suffix and suffix.start() else name


def _going_on(text: str) -> str:
    """End of a text in which a secret may continue: its last lines, or an unfinished private key."""
    begun = places.key_begun(text)
    if begun is not None:
        return text[begun:]
    least = max(len(text) - places.MAX_KEY, 0)
    start = len(text)
    left = FOLLOWING + 1
    for _ in range(FOLLOWING + 1 + places.TURNS):
        end, start = start, text.rfind("\n", least, max(start - 1, least)) + 1
        if not start:
            return text[least:]
        left -= not places.is_row(text[start:end])
        if not left:
            break
    return text[start:]


def _cut(text: str, secrets: list[Secret]) -> int:
    """Position to cut a window: if possible at a line end, never between a secret and its name."""
    cut = text.rfind("\n", _WINDOW // 2, _WINDOW) + 1 or text.rfind(" ", _WINDOW // 2, _WINDOW) + 1 or _WINDOW
    for secret in sorted(secrets, key=lambda secret: secret.end, reverse=True):
        if secret.begin < cut < secret.end:
            cut = secret.begin
    return cut or _WINDOW
