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
    from vllm_runbooks import live
    from vllm_runbooks import views as render
    from vllm_runbooks.cluster import evidence as nodes_evidence
    from vllm_runbooks.core.errors import InputError, RunbooksError, VerdictFailed
    from vllm_runbooks.diagnosis.session import (
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
    from vllm_runbooks.edge10 import evidence as edge10_evidence
    from vllm_runbooks.jupyter import panels as widgets
    from vllm_runbooks.lint.checking import judge_commands, lint_commands, migrate_commands, shown
    from vllm_runbooks.plan import evidence as plan_evidence
    from vllm_runbooks.plan.planner import find_plan, plan_layouts, plan_model
    from vllm_runbooks.runbooks.notebook import conclude

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
    "InputError": "core.errors",
    "RunbooksError": "core.errors",
    "VerdictFailed": "core.errors",
    "conclude": "runbooks.notebook",
    "diagnose": "diagnosis.session",
    "entrances": "diagnosis.session",
    "find_plan": "plan.planner",
    "health": "diagnosis.session",
    "inventory": "diagnosis.session",
    "judge": "diagnosis.session",
    "judge_claims": "diagnosis.session",
    "judge_commands": "lint.checking",
    "judge_health": "diagnosis.session",
    "judge_nodes": "diagnosis.session",
    "lint_commands": "lint.checking",
    "load": "diagnosis.session",
    "migrate_commands": "lint.checking",
    "nodes": "diagnosis.session",
    "paste": "diagnosis.session",
    "plan_layouts": "plan.planner",
    "plan_model": "plan.planner",
    "read": "diagnosis.session",
    "serving": "diagnosis.session",
    "shown": "lint.checking",
}
_ROOMS = {
    "edge10_evidence": "edge10.evidence",
    "live": "live",
    "nodes_evidence": "cluster.evidence",
    "plan_evidence": "plan.evidence",
    "render": "views",
    "widgets": "jupyter.panels",
}


def __getattr__(name: str) -> Any:
    """Import a public name's module when it is first used: starting up stays a matter of milliseconds."""
    if name in _ROOMS:
        return importlib.import_module(f"vllm_runbooks.{_ROOMS[name]}")
    if name in _HOME:
        return getattr(importlib.import_module(f"vllm_runbooks.{_HOME[name]}"), name)
    raise AttributeError(f"module 'vllm_runbooks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
