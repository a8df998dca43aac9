"""Jobs and wake-ups as text and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from vllm_runbooks.core.display import visible
from vllm_runbooks.schedule.records import Job, Turn


def jobs(found: Sequence[Job]) -> str:
    """A line for each job."""
    width = max((len(job.name) for job in found), default=0)
    lines = [f"{job.name:<{width}}  {job.at}  {job.zone}  {shlex.join(job.command)}" for job in found]
    return visible("\n".join(lines) or "there is no job; `vllm-runbooks schedule add` makes one")


def job(found: Job, following: str) -> str:
    """Everything about a job, and when it is next due."""
    rows = [
        ("at", f"{found.at} ({found.zone}); next {following}"),
        ("command", shlex.join(found.command)),
        ("folder", found.folder),
        ("missed", f"{found.missed}, within {found.grace_s:g} s"),
        ("overlap", found.overlap.value),
        ("time limit", f"{found.timeout_s:g} s"),
        ("webhook", f"${found.webhook_env}" if found.webhook_env else "none"),
        ("metrics", found.metrics or "none"),
        ("out", found.out or "in the user's state folder"),
        ("added", found.added),
    ]
    return visible("\n".join([found.name, *(f"  {name:<10}  {said}" for name, said in rows)]))


def turns(found: Sequence[Turn]) -> str:
    """What a wake-up came to, a few lines for each job."""
    return visible("\n".join(line for turn in found for line in _lines(turn)))


def _lines(turn: Turn) -> Iterator[str]:
    yield f"{turn.job}: {turn.says}"
    for planned in turn.interrupted:
        yield f"  interrupted: the run of {planned} ended without a word"
    if turn.passed:
        first, last = turn.passed[0], turn.passed[-1]
        count = sum(each.count for each in turn.passed)
        when = last.planned if count == 1 else f"{count} planned times up to {last.planned}"
        yield f"  {last.why}: {when}: {last.says if len(turn.passed) > 1 or count == 1 else first.says}"
    if turn.told is not None:
        yield f"  {turn.told.event}: {turn.told.says}"
    if turn.sent:
        yield f"  the webhook has taken {len(turn.sent)} of {len(turn.sent) + len(turn.unsent)}"
    elif turn.unsent:
        yield f"  {len(turn.unsent)} still to be told; tried again at the next wake-up"
    for note in turn.notes:
        yield f"  note: {note}"
    if turn.folder is not None:
        yield f"  output and results: {turn.folder}"
    if turn.next is not None:
        yield f"  next: {turn.next}"
