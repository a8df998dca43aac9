"""Changes to report: each regression once, and the recovery once.

A run is compared with the last one without problems. A regression since then that was not reported
is reported; so is another root cause. A reported failure stays reported until all is well again,
even if it is intermittent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.core.records import Verdict
from vllm_runbooks.schedule.records import CheckedPart, JobStanding, StatusChange

RANKS = {
    Verdict.PASS: 0,
    Verdict.SKIPPED: 1,
    Verdict.INTERRUPTED: 2,
    Verdict.FAIL: 3,
    Verdict.ERROR: 4,
}
"""Verdicts from good to bad."""
WHOLE = "(job)"
"""The subject of a run as a whole, if its parts are unknown."""
MOST = 500
"""Most parts of a run, the worst first."""


def worst(judged: Sequence[CheckedPart]) -> Verdict:
    """The verdict of a whole run; one without parts is an error."""
    return max((part.verdict for part in judged), key=RANKS.__getitem__, default=Verdict.ERROR)


def compare(
    before: JobStanding, judged: Sequence[CheckedPart], *, job: str, at: str, host: str = "", folder: str | None = None
) -> tuple[JobStanding, StatusChange | None]:
    """The standing after a run, and the change to report, if any.

    Args:
        before: The standing before.
        judged: The parts of the run.
        job: Name of the job.
        at: Start of the run (UTC).
        host: Name of this host.
        folder: Folder of the run.
    """
    unsound = [part for part in judged if RANKS[part.verdict] > RANKS[before.sound.get(part.subject, Verdict.SKIPPED)]]
    news = [part for part in unsound if _is_news(before, part)]
    verdict = worst(judged)
    says = _says(news, verdict)
    change: StatusChange | None = None
    after = before
    if news:
        change = StatusChange(_id(job, at, "worse"), "worse", at, job, verdict, says, tuple(news), host, folder)
        after = replace(before, reported=_merged(before.reported, news), causes=_causes(before.causes, news))
    elif not unsound:
        sound = {part.subject: part.verdict for part in judged}
        after = replace(before, sound=sound, reported={}, causes={})
        if before.reported:
            back = tuple(part for part in judged if part.subject in before.reported)
            says = f"recovered: {', '.join(sorted(before.reported)[:5])}"
            change = StatusChange(_id(job, at, "recovered"), "recovered", at, job, verdict, says, back, host, folder)
    return after, change


def _is_news(before: JobStanding, part: CheckedPart) -> bool:
    reported = before.reported.get(part.subject)
    if reported is None or RANKS[part.verdict] > RANKS[reported]:
        return True
    return part.root_cause is not None and part.root_cause not in before.causes.get(part.subject, ())


def _merged(reported: Mapping[str, Verdict], news: Sequence[CheckedPart]) -> dict[str, Verdict]:
    merged = dict(reported)
    for part in news:
        merged[part.subject] = max(part.verdict, merged.get(part.subject, Verdict.PASS), key=RANKS.__getitem__)
    return merged


def _causes(causes: Mapping[str, tuple[str, ...]], news: Sequence[CheckedPart]) -> dict[str, tuple[str, ...]]:
    merged = dict(causes)
    for part in news:
        if part.root_cause is not None:
            merged[part.subject] = (*merged.get(part.subject, ()), part.root_cause)[-20:]
    return merged


def _says(news: Sequence[CheckedPart], verdict: Verdict) -> str:
    if not news:
        return verdict.value
    named = [
        f"{part.verdict} {part.subject}{f' ({part.root_cause})' if part.root_cause else ''}"
        f"{f': {part.reason}' if part.reason else ''}"
        for part in news[:3]
    ]
    more = f"; and {len(news) - 3} more" if len(news) > 3 else ""
    return f"{'; '.join(named)}{more}"


def _id(job: str, at: str, event: str) -> str:
    """Id of a change, constant so that a receiver can drop repetitions."""
    return hashlib.sha256(f"{job}\n{at}\n{event}".encode()).hexdigest()[:16]


def standing(data: Any) -> JobStanding:
    """The standing in an entry of the history; damaged parts are unknown."""
    if not isinstance(data, Mapping):
        return JobStanding()
    total, seconds = data.get("missed_total"), data.get("seconds")
    verdict, number = data.get("verdict"), data.get("number")
    return JobStanding(
        number=number if isinstance(number, int) else 0,
        sound=_verdicts(data.get("sound")),
        reported=_verdicts(data.get("reported")),
        causes=_lists(data.get("causes")),
        last_run=_text(data.get("last_run")),
        last_success=_text(data.get("last_success")),
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
        runs=_verdicts(data.get("runs")),
        verdict=Verdict(verdict) if verdict in list(Verdict) else None,
        missed_total=total if isinstance(total, int) else 0,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _verdicts(value: Any) -> dict[str, Verdict]:
    if not isinstance(value, Mapping):
        return {}
    return {str(subject): Verdict(verdict) for subject, verdict in value.items() if verdict in list(Verdict)}


def _lists(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        return {}
    return {
        str(subject): tuple(map(str, texts)) for subject, texts in value.items() if isinstance(texts, (list, tuple))
    }
