"""What a look at a running server came to, as the history keeps it."""

from __future__ import annotations

from typing import Any

from vllm_runbooks import verdicts
from vllm_runbooks.probe_records import Health
from vllm_runbooks.records import document


def inputs(found: Health) -> dict[str, Any]:
    """What was looked at, and how the server is set up as far as it tells."""
    seen = found.observation
    return {
        "model": seen.model,
        "served": {each.id: each.max_model_len for each in seen.models},
        "settings": dict(seen.settings),
        "arguments": dict(seen.arguments),
        "command": seen.command,
    }


def results(found: Health) -> dict[str, Any]:
    """What it came to: findings, the highest rung, the figures, and what a load showed."""
    seen = found.observation
    return {
        "outcome": found.outcome.value,
        "root_cause": document(verdicts.cause_of(found)),
        "findings": [each.id for each in found.findings],
        "rungs": {each.name: each.result.value for each in seen.rungs},
        "facts": {name: value for name, value in found.facts.items() if value is not None},
        "load": None if seen.load is None else document(seen.load),
        "log": None if seen.log is None else document(seen.log),
    }
