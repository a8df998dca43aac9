"""Moments as they are written down: UTC, to the second, as in `2026-11-21T13:37:18Z`; as text their order is theirs."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This moment."""
    return stamp(datetime.now(tz=UTC))


def stamp(at: datetime) -> str:
    """A moment as it is written everywhere."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def in_a_name() -> str:
    """This moment as a part of a file's name, as in `20261121T133718Z`."""
    return now().replace("-", "").replace(":", "")


def moment(text: str) -> datetime | None:
    """The moment that was written, in any zone that is told; None: it is none."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
