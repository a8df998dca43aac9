"""A guarded start as text and JSON: what was checked, what was tried, what was changed and what that costs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vllm_runbooks.display import SCHEMA, visible
from vllm_runbooks.live_records import Attempt, Guarded, Result
from vllm_runbooks.records import document
from vllm_runbooks.render import answers


def to_json(found: Guarded) -> str:
    """The start as one JSON document."""
    return json.dumps({"schema": SCHEMA, **document(found)}, ensure_ascii=False, indent=2)


def text(found: Guarded) -> str:
    """What is said at the end, for a terminal."""
    parts = [*_attempts(found)]
    if found.attempts and (answer := found.attempts[-1].answer) is not None and not answer.outcome.is_healthy:
        parts.append(answers.text(answer).rstrip("\n"))
    if changes := [each.change for each in found.attempts if each.change is not None]:
        told = [
            f"  {n}. {change.title}\n     because {change.reason}; costs {change.cost}"
            for n, change in enumerate(changes, 1)
        ]
        parts.append("\n".join(["WHAT WAS CHANGED", *told]))
    parts.append("\n".join(_rows(found)))
    return visible("\n\n".join(parts) + "\n")


def _attempts(found: Guarded) -> Iterator[str]:
    for each in found.attempts:
        name = f"try {each.number}" if len(found.attempts) > 1 else "the start"
        yield f"{name}: {_came_to(each)}"


def _came_to(tried: Attempt) -> str:
    if tried.ready_s is not None:
        return f"ready after {tried.ready_s:.1f} s; {tried.ending} after {tried.seconds:.0f} s"
    failed = next((rung for rung in tried.rungs if rung.result is Result.FAILED and rung.is_needed), None)
    reached = f"; as far as {failed.name}: {failed.says}" if failed is not None else ""
    return f"never ready, {tried.ending} after {tried.seconds:.0f} s{reached}"


def _rows(found: Guarded) -> Iterator[str]:
    if not found.attempts:
        failed = next((check for check in found.checks if check.result is Result.FAILED), None)
        yield f"not started: {failed.name}: {failed.says}" if failed is not None else "nothing was started"
    for note in found.notes:
        yield f"note: {note}"
    if found.waited_s >= 0.1:
        yield f"waited on purpose: {found.waited_s:.1f} s"
    if found.attempts and found.folder:
        yield f"log and report: {found.folder}"
