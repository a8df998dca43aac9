"""What the panel Runs shows of this host's history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import RunbooksError
from vllm_runbooks.diff import differences
from vllm_runbooks.history import render as views
from vllm_runbooks.history import store as history
from vllm_runbooks.history import trends
from vllm_runbooks.history.records import Entry

_LISTED, _OF_ONE = 60, 200
"""Entries that are listed, and those of a subject that a trend is drawn of."""


@dataclass(frozen=True)
class Asked:
    """What of the history is shown."""

    subject: str = ""
    """Empty: everything."""
    a: str = ""
    """Id of an entry that is compared; empty: none."""
    b: str = ""


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    entries: Shown | None = None
    subjects: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    """For whom two are chosen from: words and id of each entry that is listed."""
    trend: Shown | None = None
    difference: Shown | None = None


def told(asked: Asked, at: Path | None = None) -> Told:
    """The history as it is now; `at` is another file than the usual one."""
    said: list[str] = []
    try:
        with history.opened(at, say=said.append, is_needed=True) as kept:
            whole = kept.entries(limit=_OF_ONE, is_whole=True)
            subject = asked.subject.strip()
            found = kept.about(subject, limit=_OF_ONE) if subject else whole
            pair = [_whole(kept, each) for each in (asked.a, asked.b) if each]
    except RunbooksError as error:
        return Told(error=str(error))
    return Told(
        error="; ".join(said),
        entries=views.table(found[:_LISTED]),
        subjects=tuple(dict.fromkeys(each.subject for each in whole)),
        choices=tuple((f"{each.began}  {each.subject[:60]}  {each.id}", each.id) for each in found[:_LISTED]),
        trend=views.curves(trends.trend(subject, found)) if subject and found else None,
        difference=views.difference(differences.compared(pair[0], pair[1])) if len(pair) == 2 else None,
    )


def _whole(kept: history.History, id_: str) -> Entry:
    found = kept.entry(id_)
    return differences.with_parts(found, kept.entries(part_of=found.id))
