"""Content of the Runs panel from this host's history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.diff import differences
from vllm_runbooks.history import render as views
from vllm_runbooks.history import store as history
from vllm_runbooks.history import trends
from vllm_runbooks.history.records import HistoryEntry

_LISTED, _OF_ONE = 60, 200
"""Most entries in the list, and most of one subject in a trend."""


@dataclass(frozen=True)
class RunRequest:
    """A selection of the history."""

    subject: str = ""
    """Empty: all."""
    a: str = ""
    """Id of an entry to compare; empty: none."""
    b: str = ""


@dataclass(frozen=True)
class RunReport:
    """Content of the panel."""

    error: str = ""
    entries: RenderedView | None = None
    subjects: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    """Label and id of each listed entry."""
    trend: RenderedView | None = None
    difference: RenderedView | None = None


def report_on(request: RunRequest, at: Path | None = None) -> RunReport:
    """The history now; `at` is another file than the usual one."""
    notes: list[str] = []
    try:
        with history.opened(at, say=notes.append, is_needed=True) as kept:
            whole = kept.entries(limit=_OF_ONE, is_whole=True)
            subject = request.subject.strip()
            listed = kept.about(subject, limit=_OF_ONE) if subject else whole
            pair = [_whole(kept, entry) for entry in (request.a, request.b) if entry]
    except RunbooksError as error:
        return RunReport(error=str(error))
    return RunReport(
        error="; ".join(notes),
        entries=views.table(listed[:_LISTED]),
        subjects=tuple(dict.fromkeys(entry.subject for entry in whole)),
        choices=tuple((f"{entry.began}  {entry.subject[:60]}  {entry.id}", entry.id) for entry in listed[:_LISTED]),
        trend=views.curves(trends.trend(subject, listed)) if subject and listed else None,
        difference=views.difference(differences.compared(pair[0], pair[1])) if len(pair) == 2 else None,
    )


def _whole(kept: history.History, id_: str) -> HistoryEntry:
    entry = kept.entry(id_)
    return differences.with_parts(entry, kept.entries(part_of=entry.id))
