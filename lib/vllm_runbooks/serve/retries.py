"""Changes for further tries, for few causes. Edits are never repeated; a race with a neighbour is just retried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import Answer, Remedy
from vllm_runbooks.lint import second_opinion
from vllm_runbooks.probe.starts import Attempt, LaunchChange
from vllm_runbooks.serve.subject import ServedLaunch

_AGAIN = {
    "mem.profiling_assertion": (
        "wait for stable GPU memory, then run the same command again",
        "the time of another launch",
    ),
}
"""Causes outside of the launch: title and cost of trying again without a change."""
_PRINTED_VALUES = {"kv.max_len_too_large": "max_model_len"}
"""Causes for which vLLM prints the fitting value, with its option: used if the planner lacks it."""
_OF_MEMORY = ("mem.", "oom.", "kv.")
"""Groups of causes that a changed setting fixes if the planner confirms it."""


def next_change(
    tried: Attempt, subject: ServedLaunch, before: Sequence[LaunchChange], say: Callable[[str], None]
) -> LaunchChange | None:
    """The change for the next try; None if no checked one can help. `before` are the changes so far."""
    cause = tried.answer.root_cause if tried.answer is not None else None
    if cause is None or tried.answer is None:
        return None
    if (change := again(tried.answer)) is not None:
        return change
    if not cause.class_.startswith(_OF_MEMORY):
        return None
    done = [item.edits for item in before]
    fitting = [item for item in tried.answer.remedies if _is_fit(item, cause.class_) and item.edits not in done]
    return first_possible(tried.answer, fitting, subject, say)


def _is_fit(remedy: Remedy, class_: str) -> bool:
    return remedy.checks.plan == "passed" or [edit.name for edit in remedy.edits] == [_PRINTED_VALUES.get(class_)]


def first_possible(
    answer: Answer, remedies: Sequence[Remedy], subject: ServedLaunch, say: Callable[[str], None]
) -> LaunchChange | None:
    """The first remedy that passed lint, can be applied to the command and is accepted by its vLLM."""
    cause = answer.root_cause
    for remedy in remedies:
        if cause is None or not remedy.edits or remedy.checks.lint != "passed":
            continue
        try:
            changed = subject.edited(remedy.edits)
        except InputError as error:
            say(f"not tried: {remedy.title}: {error}")
            continue
        if not _is_refused(changed, remedy.title, say):
            return LaunchChange(f"{cause.symptom}: {cause.title}", remedy.title, remedy.cost, remedy.edits)
    return None


def again(answer: Answer) -> LaunchChange | None:
    """A retry without a change, if the cause is outside the launch."""
    cause = answer.root_cause
    if cause is None or cause.class_ not in _AGAIN:
        return None
    title, cost = _AGAIN[cause.class_]
    return LaunchChange(f"{cause.symptom}: {cause.title}", title, cost)


def _is_refused(changed: ServedLaunch, title: str, say: Callable[[str], None]) -> bool:
    words = [word.value for word in changed.found.words]
    if not changed.is_installed or changed.python is None or None in words:
        return False
    try:
        [verdict] = second_opinion.ask(changed.python, changed.found.entry, [[word or "" for word in words]])
    except InputError as error:
        say(f"the installed vLLM did not validate a change: {error}")
        return False
    if verdict.stage is not None:
        say(f"not tried: {title}: vLLM {verdict.vllm} rejects it: {verdict.says}")
    return verdict.stage is not None


def why_none(tried: Attempt) -> str:
    cause = tried.answer.root_cause if tried.answer is not None else None
    if cause is None:
        return "unknown cause"
    if not cause.class_.startswith(_OF_MEMORY):
        return f"another launch cannot fix {cause.class_}"
    whys = dict.fromkeys(remedy.checks.plan for remedy in tried.answer.remedies if remedy.edits) if tried.answer else {}
    reasons = "; ".join(why.removeprefix("unknown: ") for why in whys if why != "passed")
    return f"no applicable fix for {cause.class_}{f' ({reasons})' if reasons else ''}"
