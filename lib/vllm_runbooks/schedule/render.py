"""Jobs and wake-ups as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.schedule.records import ScheduledJob, Turn


def jobs(stored: Sequence[ScheduledJob]) -> str:
    """A line for each job."""
    width = max((len(job.name) for job in stored), default=0)
    lines = [f"{job.name:<{width}}  {job.at}  {job.zone}  {shlex.join(job.command)}" for job in stored]
    return visible("\n".join(lines) or "No jobs. Create one with `vllm-runbooks schedule add`.")


def job(stored: ScheduledJob, following: str) -> str:
    """A job with its next planned time."""
    rows = [
        ("at", f"{stored.at} ({stored.zone}); next {following}"),
        ("command", shlex.join(stored.command)),
        ("folder", stored.folder),
        ("missed", f"{stored.missed}, within {stored.grace_s:g} s"),
        ("overlap", stored.overlap.value),
        ("timeout", f"{stored.timeout_s:g} s"),
        ("webhook", f"${stored.webhook_env}" if stored.webhook_env else "none"),
        ("metrics", stored.metrics or "none"),
        ("out", stored.out or "in the user's state folder"),
        ("added", stored.added),
    ]
    return visible("\n".join([stored.name, *(f"  {name:<10}  {value}" for name, value in rows)]))


def turns(wake_turns: Sequence[Turn]) -> str:
    """Results of a wake-up, a few lines for each job."""
    return visible("\n".join(line for turn in wake_turns for line in _lines(turn)))


def _lines(turn: Turn) -> Iterator[str]:
    yield f"{turn.job}: {turn.message}"
    for planned in turn.interrupted:
        yield f"  interrupted: the run of {planned} ended without a result"
    if turn.passed:
        last = turn.passed[-1]
        count = sum(missed.count for missed in turn.passed)
        when = last.planned if count == 1 else f"{count} planned times up to {last.planned}"
        yield f"  {last.reason}: {when}: {last.message}"
    if turn.change is not None:
        yield f"  {turn.change.event}: {turn.change.message}"
    if turn.sent:
        yield f"  webhook: {len(turn.sent)} of {len(turn.sent) + len(turn.unsent)} messages delivered"
    elif turn.unsent:
        yield f"  {len(turn.unsent)} messages pending; retried at the next wake-up"
    for note in turn.notes:
        yield f"  note: {note}"
    if turn.folder is not None:
        yield f"  output and results: {turn.folder}"
    if turn.next is not None:
        yield f"  next: {turn.next}"
