"""Timestamps in UTC, to the second, as in `2026-11-21T13:37:18Z`; they sort as text."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    return stamp(datetime.now(tz=UTC))


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def in_a_name() -> str:
    """The current timestamp for a file's name, as in `20261121T133718Z`."""
    return now().replace("-", "").replace(":", "")


def moment(text: str) -> datetime | None:
    """Datetime of a timestamp in any zone; None if it is invalid or has no zone."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
