"""Numbers of a subject's entries over time."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_runbooks.history.records import HistoryEntry, Trend, TrendPoint

_MOST_FACTS = 6


def trend(subject: str, entries: Sequence[HistoryEntry]) -> Trend:
    """Numbers of a subject's entries.

    Args:
        subject: As requested; if all entries have one subject, that one is used.
        entries: At least one entry, the newest first, as `History.about` returns them.
    """
    names = {entry.subject for entry in entries}
    return Trend(names.pop() if len(names) == 1 else subject, tuple(_point(entry) for entry in reversed(entries)))


def moving(subject_trend: Trend) -> list[str]:
    """The first facts that change."""
    names = dict.fromkeys(name for point in subject_trend.points for name in point.facts)
    return [name for name in names if len({point.facts.get(name) for point in subject_trend.points}) > 1][:_MOST_FACTS]


def _point(entry: HistoryEntry) -> TrendPoint:
    facts = entry.results.get("facts")
    measured = {"ready_s": entry.results.get("ready_s"), **(facts if isinstance(facts, dict) else {})}
    numbers = {
        name: float(value)
        for name, value in measured.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return TrendPoint(entry.id, entry.began, entry.verdict, entry.seconds, numbers)
