"""Determine due runs from the plan, the clock and the history alone.

The policy, a table in `docs/scheduling.md`: of the planned times that are not covered yet, the
latest may be run; all others have passed. An entry of the job covers its planned time and all
earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from vllm_runbooks.core import moments
from vllm_runbooks.schedule import cron
from vllm_runbooks.schedule.records import Missed, MissedTime, Overlap, ScheduledJob

ON_TIME_S = 600.0
"""Delay of a run that is still on time: timers wake us every few minutes."""
AHEAD_S = 86400.0
"""A planned time later than this from now was written by a wrong clock, and covers nothing."""
_TOLD_APART = 20
"""Missed times that are listed separately; the others are counted."""
_COUNTED = 1000


stamp, moment = moments.stamp, moments.moment
"""Formats a timestamp, and parses it."""


@dataclass(frozen=True)
class Decision:
    """Decision for the current wake-up."""

    run: datetime | None
    """The planned time for which the job runs."""
    passed: tuple[MissedTime, ...]
    """Planned times without a run, the earliest first."""
    says: str
    next: datetime
    is_waiting: bool = False


def covered(job: ScheduledJob, planned: Iterable[str], now: datetime) -> datetime:
    """The time up to which nothing is due.

    Args:
        job: The job.
        planned: The planned times of its entries.
        now: The clock.
    """
    times = [at for text in (job.added, *planned) if (at := moment(text)) is not None]
    return max((at for at in times if at <= now + timedelta(seconds=AHEAD_S)), default=now)


def decide(
    job: ScheduledJob,
    now: datetime,
    planned: Iterable[str],
    *,
    is_running: bool = False,
    free_since: datetime | None = None,
) -> Decision:
    """Decide for a job at a wake-up.

    Args:
        job: The job.
        now: The clock (UTC).
        planned: The planned times of all its entries, in any order.
        is_running: Whether its last run continues.
        free_since: When its last run ended; None if unknown, or if there is none.
    """
    plan, where = cron.parse(job.at), cron.zone(job.zone)
    following = cron.after(plan, where, now)
    since = covered(job, planned, now)
    due = list(islice(cron.back(plan, where, until=now, since=since), _COUNTED))
    if not due:
        return Decision(None, (), f"nothing is due before {stamp(following)}", following)
    latest, is_cut = due[0], len(due) == _COUNTED
    if is_running and job.overlap is Overlap.WAIT:
        return Decision(None, (), f"{stamp(latest)} is waiting for the previous run to end", following, is_waiting=True)
    overlapped: tuple[MissedTime, ...] = ()
    if job.overlap is Overlap.SKIP:
        # The wake-up may have waited for the end of the run, as with systemd.
        until = now if is_running else free_since if free_since is not None and free_since <= now else since
        during, due = [at for at in due if at <= until], [at for at in due if at > until]
        reason = "the previous run was still active"
        overlapped = _passed(during, "overlap", reason, is_cut=is_cut)
        if not due:
            return Decision(None, overlapped, f"{stamp(latest)} is skipped: {reason}", following)
    ready = latest
    if job.overlap is Overlap.WAIT and free_since is not None and latest < free_since <= now:
        ready = free_since
    late = (now - ready).total_seconds()
    allowed = max(ON_TIME_S, job.grace_s if job.missed is Missed.RUN else 0.0)
    if late > allowed:
        reason = f"the scheduler was not running until {stamp(now)}"
        passed = _passed(due, "missed", reason, is_cut=is_cut and not overlapped)
        return Decision(None, (*overlapped, *passed), f"{stamp(latest)} was missed: {reason}", following)
    why, reason = ("coalesced", f"the run of {stamp(latest)} replaces it")
    if job.missed is Missed.SKIP:
        why, reason = "missed", "the scheduler was not running"
    passed = _passed(due[1:], why, reason, is_cut=is_cut and not overlapped)
    return Decision(latest, (*overlapped, *passed), f"{stamp(latest)} is due", following)


def _passed(times: list[datetime], why: str, reason: str, *, is_cut: bool) -> tuple[MissedTime, ...]:
    """Planned times without a run, given with the latest first, returned with the earliest first.

    Args:
        times: The planned times.
        why: A word for the reason.
        reason: One line.
        is_cut: Whether there may be earlier ones, which were not counted.
    """
    apart = [MissedTime(stamp(at), why, reason) for at in reversed(times[:_TOLD_APART])]
    rest = times[_TOLD_APART:]
    if not rest:
        return tuple(apart)
    more = " or more" if is_cut else ""
    return (MissedTime(stamp(rest[0]), why, f"{len(rest)}{more} planned times; {reason}", len(rest)), *apart)
