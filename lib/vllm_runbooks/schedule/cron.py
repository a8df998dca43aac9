"""Planned times: the fields of a cron expression as wall times, and these as timestamps.

The fields have cron's meaning. Expressions that crons read differently are rejected, so that a plan
is the same in JupyterLab. A wall time in a DST gap becomes the first time after the gap; for a
repeated wall time the first one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from vllm_runbooks.core import extras
from vllm_runbooks.core.errors import InputError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """From the least value on."""


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PART = re.compile(r"(\*|[0-9]{1,4}|[a-z]{3})(?:-([0-9]{1,4}|[a-z]{3}))?(?:/([0-9]{1,4}))?", re.ASCII)
_LONGEST = 400
"""Most characters of an expression: all sixty minutes written out are fewer."""
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FURTHEST = timedelta(days=8 * 366 + 1)
"""Years to search: there are eight between two leap days at most."""
_WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Cron:
    """The wall times of an expression."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    is_either: bool
    """Whether the day of the month or of the week is enough, as both are limited."""

    def is_on(self, day: date) -> bool:
        """Whether a day has planned times."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (in_month or in_week) if self.is_either else (in_month and in_week)

    def of(self, day: date) -> Iterator[datetime]:
        """The wall times of a day, the earliest first."""
        if self.is_on(day):
            for hour in self.hours:
                for minute in self.minutes:
                    yield datetime.combine(day, time(hour, minute))

    @property
    def closest_s(self) -> float:
        """The shortest interval between two wall times of a day, in seconds."""
        minutes = [hour * 60 + minute for hour in self.hours for minute in self.minutes]
        return 60.0 * min((after - before for before, after in pairwise([*minutes, 24 * 60 + minutes[0]])))


def parse(text: str) -> Cron:
    """Parse an expression.

    Raises:
        InputError: It is invalid, or its day never occurs.
    """
    excerpt = " ".join(text.split())[:80] or "(nothing)"
    words = _SHORT.get(text.strip().lower(), text).split()
    if len(text) > _LONGEST or len(words) != len(_FIELDS):
        raise InputError(
            f"--at {excerpt}: not a cron expression; use five fields (minute hour day month weekday), as in '0 3 * * *'"
        )
    values = [_values(word.lower(), excerpt, field) for word, field in zip(words, _FIELDS, strict=True)]
    minutes, hours, days, months, week = values
    weekdays = frozenset(day % 7 for day in week)
    is_free = [word.startswith("*") for word in words]
    has_step = any(word.startswith("*/") for word in (words[2], words[4]))
    if has_step and len(days) < 31 and len(weekdays) < 7:
        raise InputError(
            f"--at {excerpt}: cron implementations differ on a step over all days combined with the other day "
            "field; list the days"
        )
    is_either = not (is_free[2] or is_free[4])
    if not is_either and min(days) > max(_LENGTHS[month - 1] for month in months):
        raise InputError(f"--at {excerpt}: never matches: no such month has a day {min(days)}")
    return Cron(
        " ".join(words), tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months), weekdays,
        is_either,
    )  # fmt: skip


def _values(word: str, excerpt: str, field: _Field) -> set[int]:
    """Values that a field allows."""
    values: set[int] = set()
    where = f"--at {excerpt}: {field.name}"
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[1] == "*" and match[2]):
            raise InputError(f"{where}: {part or '(nothing)'} is not a value, range or step; use one as in 1-5/2")
        step = int(match[3]) if match[3] else 1
        if match[1] == "*":
            first, last = field.least, field.most
        else:
            first = _value(match[1], where, field)
            last = _value(match[2], where, field) if match[2] else first
        if match[3] and match[1] != "*" and not match[2]:
            raise InputError(
                f"{where}: cron implementations differ on {part}; write the range, as in {first}-{field.most}/{step}"
            )
        if not 1 <= step <= field.most:
            raise InputError(f"{where}: invalid step {step}; use 1 to {field.most}")
        if first > last:
            raise InputError(f"{where}: {part} starts after its end; write two ranges, separated by a comma")
        values.update(range(first, last + 1, step))
    return values


def _value(text: str, where: str, field: _Field) -> int:
    if text.isdigit():
        value = int(text)
    elif text in field.words:
        value = field.words.index(text) + field.least
    else:
        names = f", or {field.words[0]} to {field.words[-1]}" if field.words else ""
        raise InputError(f"{where}: {text} is not a number; use one from {field.least} to {field.most}{names}")
    if not field.least <= value <= field.most:
        raise InputError(f"{where}: {value} is out of range; use one from {field.least} to {field.most}")
    return value


def zone(name: str) -> ZoneInfo:
    """Zone of an IANA name.

    Raises:
        InputError: There is none, or neither the system nor `tzdata` has zones.
    """
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(?:/[A-Za-z0-9_+-]{1,30}){0,2}", name, re.ASCII):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            if not available_timezones():
                extras.require("time zones")
    excerpt = "".join(c if c.isprintable() else "?" for c in name[:60]) or "(nothing)"
    raise InputError(f"--zone {excerpt}: is not a time zone; use a name such as Europe/Berlin, or UTC")


def moment(wall: datetime, where: ZoneInfo) -> datetime:
    """Timestamp (UTC) of a wall time: the first one, or the first after the gap that contains it."""
    instant = wall.replace(tzinfo=where, fold=0).astimezone(UTC)
    if instant.astimezone(where).replace(tzinfo=None, fold=0) == wall:
        return instant
    # With the offset after the gap it is before the change, with the one before the gap after it.
    before = wall.replace(tzinfo=where, fold=1).astimezone(UTC)
    offset = instant.astimezone(where).utcoffset()
    while instant - before > timedelta(seconds=1):
        middle = before + (instant - before) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(where).utcoffset() == offset:
            instant = middle
        else:
            before = middle
    return instant


def after(cron: Cron, where: ZoneInfo, at: datetime) -> datetime:
    """The first planned timestamp later than `at` (UTC)."""
    day = at.astimezone(where).date() - timedelta(days=1)
    end = day + _FURTHEST + _WEEK
    while day < end:
        for wall in cron.of(day):
            if (instant := moment(wall, where)) > at:
                return instant
        day += timedelta(days=1)
    raise InputError(f"--at {cron.text}: never matches; use another day")


def back(cron: Cron, where: ZoneInfo, *, until: datetime, since: datetime) -> Iterator[datetime]:
    """Planned timestamps from `until` back to `since` (exclusive), the latest first, each once."""
    day = until.astimezone(where).date() + timedelta(days=1)
    first = since.astimezone(where).date() - timedelta(days=1)
    last: datetime | None = None
    while day >= first:
        for wall in reversed(list(cron.of(day))):
            instant = moment(wall, where)
            if since < instant <= until and instant != last:
                last = instant
                yield instant
        day -= timedelta(days=1)
