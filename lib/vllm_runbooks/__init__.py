"""Find out why a vLLM deployment fails, with runbooks that prove it.

Example::

    import vllm_runbooks as rb

    evidence = rb.load("startup.log")
    answer = rb.diagnose(evidence)
    print(rb.render.answers.text(answer))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_runbooks import edge10_evidence, live, nodes_evidence, plan_evidence, render, widgets
    from vllm_runbooks.checking import judge_commands, lint_commands, migrate_commands, shown
    from vllm_runbooks.errors import InputError, RunbooksError, VerdictFailed
    from vllm_runbooks.notebook import conclude
    from vllm_runbooks.planner import find_plan, plan_layouts, plan_model
    from vllm_runbooks.session import (
        diagnose,
        entrances,
        health,
        inventory,
        judge,
        judge_claims,
        judge_health,
        judge_nodes,
        load,
        nodes,
        paste,
        read,
        serving,
    )

__all__ = [
    "InputError",
    "RunbooksError",
    "VerdictFailed",
    "conclude",
    "diagnose",
    "edge10_evidence",
    "entrances",
    "find_plan",
    "health",
    "inventory",
    "judge",
    "judge_claims",
    "judge_commands",
    "judge_health",
    "judge_nodes",
    "lint_commands",
    "live",
    "load",
    "migrate_commands",
    "nodes",
    "nodes_evidence",
    "paste",
    "plan_evidence",
    "plan_layouts",
    "plan_model",
    "read",
    "render",
    "serving",
    "shown",
    "widgets",
]

_HOME = {
    "InputError": "errors", "RunbooksError": "errors", "VerdictFailed": "errors", "conclude": "notebook",
    "diagnose": "session", "entrances": "session", "find_plan": "planner",
    "health": "session", "inventory": "session", "judge": "session",
    "judge_claims": "session", "judge_commands": "checking", "judge_health": "session",
    "judge_nodes": "session", "lint_commands": "checking",
    "load": "session",
    "migrate_commands": "checking", "nodes": "session", "paste": "session",
    "plan_layouts": "planner", "plan_model": "planner",
    "read": "session", "serving": "session", "shown": "checking",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first used: starting up stays a matter of milliseconds."""
    if name in ("edge10_evidence", "live", "nodes_evidence", "plan_evidence", "render", "widgets"):
        return importlib.import_module(f"vllm_runbooks.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"vllm_runbooks.{_HOME[name]}"), name)
    raise AttributeError(f"module 'vllm_runbooks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
