"""What a further try changes: for few causes, only what was checked, and never twice the same."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from vllm_runbooks.errors import InputError
from vllm_runbooks.live_records import Attempt, Change
from vllm_runbooks.records import Answer, Remedy
from vllm_runbooks.serve.subject import Subject

_AGAIN = {
    "mem.profiling_assertion": (
        "wait for stable GPU memory, then start the same command again",
        "the time of another start",
    ),
}
"""Causes that lie outside the start, with what is done about them: nothing is changed."""
_OF_MEMORY = ("mem.", "oom.", "kv.")
"""Groups of causes that a changed setting mends, where the planner says that it fits."""


def next_change(tried: Attempt, subject: Subject, before: Sequence[Change]) -> Change | None:
    """What to do differently after a failed try; None: nothing that was checked can help.

    Args:
        tried: The try that failed.
        subject: What it ran.
        before: The changes that led to it.
    """
    cause = tried.answer.root_cause if tried.answer is not None else None
    if cause is None or tried.answer is None:
        return None
    if (change := again(tried.answer)) is not None:
        return change
    if not cause.class_.startswith(_OF_MEMORY):
        return None
    done = [each.edits for each in before]
    for remedy in tried.answer.remedies:
        if remedy.edits and remedy.edits not in done and _is_checked(remedy):
            with contextlib.suppress(InputError):
                subject.edited(remedy.edits)
                return Change(f"{cause.symptom}: {cause.title}", remedy.title, remedy.cost, remedy.edits)
    return None


def again(answer: Answer) -> Change | None:
    """The change that changes nothing of the command, where the cause lies outside of the start; else None."""
    cause = answer.root_cause
    if cause is None or cause.class_ not in _AGAIN:
        return None
    title, cost = _AGAIN[cause.class_]
    return Change(f"{cause.symptom}: {cause.title}", title, cost)


def _is_checked(remedy: Remedy) -> bool:
    return remedy.checks.lint == "passed" and remedy.checks.plan == "passed"


def why_none(tried: Attempt) -> str:
    """Why nothing is tried, in words."""
    cause = tried.answer.root_cause if tried.answer is not None else None
    if cause is None:
        return "the cause is not known"
    if not cause.class_.startswith(_OF_MEMORY):
        return f"{cause.class_} is nothing that another start mends"
    return f"no way out of {cause.class_} has passed all checks"
