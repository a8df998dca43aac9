"""What a guarded start came to, as the history keeps it."""

from __future__ import annotations

from typing import Any

from vllm_runbooks.core.records import Outcome, Verdict
from vllm_runbooks.probe.starts import Check, Guarded, Result
from vllm_runbooks.runbooks import verdicts

_SIGNALLED = 128
"""From here on an exit status tells the signal that ended it."""


def verdict(found: Guarded) -> tuple[Verdict, str]:
    """How a guarded start ended, and why in one line: a server that served until it was told to end has passed."""
    last = found.attempts[-1] if found.attempts else None
    is_stopped = found.status > _SIGNALLED
    if last is None:
        failed = next((check for check in found.checks if check.result is Result.FAILED), None)
        why = f"not started: {failed.name}: {failed.says}" if failed is not None else "nothing was started"
        return (Verdict.INTERRUPTED if is_stopped else Verdict.FAIL), why
    cause = last.answer.root_cause if last.answer is not None else None
    said = f"{last.ending}{f'; {cause.title} ({cause.symptom})' if cause is not None else ''}"
    if last.ready_s is None:
        is_cut_off = is_stopped and last.answer is not None and last.answer.outcome is not Outcome.FAILED
        return (Verdict.INTERRUPTED if is_cut_off else Verdict.FAIL), f"never ready; it {said}"
    is_well = last.outcome.is_healthy and cause is None
    return (Verdict.PASS if is_well else Verdict.FAIL), f"ready after {last.ready_s:.1f} s; it {said}"


def results(found: Guarded) -> dict[str, Any]:
    """What it came to: its tries, and of the last one the diagnosis, the times and the facts."""
    last = found.attempts[-1] if found.attempts else None
    answer = last.answer if last is not None else None
    cause = answer.root_cause if answer is not None else None
    return {
        "status": found.status,
        "outcome": last.outcome.value if last is not None else None,
        "root_cause": None if cause is None else {"symptom": cause.symptom, "class": cause.class_},
        "findings": [each.symptom for each in answer.findings] if answer is not None else [],
        "facts": verdicts.facts(answer) if answer is not None else {},
        "ready_s": last.ready_s if last is not None else None,
        "phases": {f"{each.name}_s": each.seconds for each in last.phases} if last is not None else {},
        "checks": {_at_node(each): each.result.value for each in found.checks},
        "changes": [each.change.title for each in found.attempts if each.change is not None],
        "attempts": [
            {"outcome": each.outcome.value, "ready_s": each.ready_s, "seconds": each.seconds, "ending": each.ending}
            for each in found.attempts
        ],
        "folder": found.folder,
    }


def _at_node(check: Check) -> str:
    return f"{check.name} at {check.node}" if check.node else check.name
