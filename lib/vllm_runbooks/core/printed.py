"""Read values as programs print them: numbers, times, and the pairs of a `{…}` or `Namespace(…)`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from vllm_runbooks.core import python_trees
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.redaction.places import names_secret
from vllm_runbooks.core.redaction.redact import redact_text, redact_value

MAX_LITERAL = 4000
"""Longest text, in characters, that is read as a literal; a longer one stays text."""
_PAIR = re.compile(
    r"\s{0,8}(?:'(\w{1,80})'\s{0,4}:|\"(\w{1,80})\"\s{0,4}:|(\w{1,80})\s{0,4}=)\s{0,4}(?P<value>.*)\Z", re.DOTALL
)
_TIME = re.compile(r"(?:(\d{4})[-/])?(?:(\d\d)[-/](\d\d))?[T ]?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_MAX_COUNT = 7
"""Digits of a number that is no secret, whatever its name."""
_HALF_A_YEAR = 183 * 86400


class Moment(NamedTuple):
    """A printed time; only times of the same form are comparable."""

    seconds: float
    """Seconds since the epoch for times with a year, since the start of a leap year for dates, else
    since midnight."""
    form: str
    """Printed date: "year", "date" or "day" (time only)."""


def moment(text: str | None) -> Moment | None:
    """The time printed in a log's prefix."""
    match = _TIME.match(text or "")
    if not match:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        date = datetime(
            int(year or 2000), int(month or 1), int(day or 1), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except ValueError:
        return None
    form = "day" if month is None else "date" if year is None else "year"
    return Moment(date.timestamp() + float(f"0.{fraction or 0}"), form)


def seconds_between(earlier: Moment | None, later: Moment | None) -> float | None:
    """Seconds between two printed times over midnight or new year; None if not comparable."""
    if earlier is None or later is None or earlier.form != later.form:
        return None
    seconds = later.seconds - earlier.seconds
    if earlier.form == "day" and seconds < 0:
        seconds += 86400
    if earlier.form == "date" and seconds < -_HALF_A_YEAR:
        seconds += 366 * 86400
    return round(seconds, 6) if seconds >= 0 else None


class Period(NamedTuple):
    """Part of a log by the printed date and time; both ends belong to it."""

    since: Moment | None
    until: Moment | None

    def place(self, at: Moment) -> int:
        """-1 for a time before the period, 0 for one in it, 1 for one after it; all within half a year."""
        if self.since and 0 < (seconds_between(at, self.since) or 0) < _HALF_A_YEAR:
            return -1
        return int(bool(self.until and 0 < (seconds_between(self.until, at) or 0) < _HALF_A_YEAR))


def period(since: str | None, until: str | None) -> Period | None:
    """The period between two given times, such as `11-20 09:40` or `2026-11-20T09:40:05`; None without both.

    Raises:
        InputError: A time is not in this form or has a UTC offset, or the period ends before it begins.
    """
    ends = []
    for option, text in (("--since", since), ("--until", until)):
        match = _GIVEN_TIME.fullmatch(text.strip()) if text else None
        if match and (match["offset"] or "0").strip("+-0:"):
            raise InputError(
                f"{option}: {text!r} has a UTC offset, but vLLM's log has none; give the time as the log prints it"
            )
        at = moment(f"{match[1]} {match[2]}{match[3] or ':00'}") if match else None
        if text is not None and at is None:
            raise InputError(f"{option}: {text!r} is not a date and time; use a form such as 11-20 09:40")
        ends.append(at)
    first, last = ends
    if first and last and Period(first, None).place(last):
        raise InputError(f"--until: {until} is before --since {since}; swap them")
    return Period(first, last) if first or last else None


_GIVEN_TIME = re.compile(
    r"(?:\d{4}-)?(\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(?:[.,]\d{1,9})?(?: ?(?:Z|(?P<offset>[+-]\d\d(?::?\d\d)?)))?"
)
"""The year, UTC and fractions of a second are ignored because vLLM does not print them."""


def number(text: str) -> float | None:
    """A printed number, thousands separated by commas or not."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def literal(text: str) -> Any:
    """Parse a printed literal safely; other text stays text. Secrets are replaced."""
    text = text.strip()
    value: Any = text
    if len(text) <= MAX_LITERAL:
        try:
            value = python_trees.literal(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = text
    return masked(value, otherwise=text)


def masked(value: Any, name: str = "", *, otherwise: str = "") -> Any:
    """Convert a value to JSON types with its secrets replaced; other types become `otherwise`."""
    if isinstance(value, str):
        return redact_value(value) if value and names_secret(name) else redact_text(value)
    if isinstance(value, (list, tuple)):
        return [masked(item, name, otherwise=otherwise) for item in value]
    if isinstance(value, dict):
        inner = name if names_secret(name) else ""
        return {str(key): masked(item, inner or str(key), otherwise=otherwise) for key, item in value.items()}
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if names_secret(name) and value is not None and not (is_number and len(str(value)) <= _MAX_COUNT):
        return redact_value(str(value))
    return value if value is None or is_number else redact_text(otherwise)


def pairs(text: str) -> dict[str, Any]:
    """Read `{'a': 1, …}` or `(a=1, …)`, truncated or not.

    Values that are not literals stay text.
    """
    values: dict[str, Any] = {}
    for part in _parts(text):
        match = _PAIR.match(part)
        if match:
            name = match[1] or match[2] or match[3]
            values[name] = masked(literal(match["value"]), name)
    return values


def is_closed(text: str) -> bool:
    """Whether the bracket that a text begins with is closed in it."""
    return len(text) > sum(len(part) + 1 for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    depth, start, quote, escaped = 0, 1, "", False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{<":
            depth += 1
        elif character in ")]}>" and depth:
            depth -= 1
            if depth == 0:
                yield text[start:position]
                return
        elif character == "," and depth == 1:
            yield text[start:position]
            start = position + 1
    yield text[start:]
