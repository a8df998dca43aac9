"""Find out why a vLLM deployment fails, with runbooks that prove it.

Example::

    import vllm_runbooks as rb

    evidence = rb.load("startup.log")
    answer = rb.diagnose(evidence)
    print(rb.render.answers.text(answer))
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm_runbooks.catalog.load import entrances, serving
    from vllm_runbooks.cluster import evidence as nodes_evidence
    from vllm_runbooks.core.errors import InputError, RunbooksError, VerdictFailed
    from vllm_runbooks.core.views.runbook_steps import StepText, step
    from vllm_runbooks.diagnosis.diagnosing import check_claims, diagnose, read, verdict
    from vllm_runbooks.edge10 import evidence as edge10_evidence
    from vllm_runbooks.host.loading import inventory
    from vllm_runbooks.host.nodes.loading import nodes, nodes_verdict
    from vllm_runbooks.jupyter import panels as widgets
    from vllm_runbooks.lint.checking import command_verdict, lint_commands, migrate_commands, shown
    from vllm_runbooks.plan.planner import find_plan, plan_layouts, plan_model
    from vllm_runbooks.probe.checking import health, health_verdict
    from vllm_runbooks.reading.sources import load, paste
    from vllm_runbooks.runbooks import plan_evidence
    from vllm_runbooks.runbooks.notebook import conclude

__all__ = [
    "InputError",
    "RunbooksError",
    "StepText",
    "VerdictFailed",
    "check_claims",
    "command_verdict",
    "conclude",
    "diagnose",
    "edge10_evidence",
    "entrances",
    "find_plan",
    "health",
    "health_verdict",
    "inventory",
    "lint_commands",
    "live",
    "load",
    "migrate_commands",
    "nodes",
    "nodes_evidence",
    "nodes_verdict",
    "paste",
    "plan_evidence",
    "plan_layouts",
    "plan_model",
    "read",
    "render",
    "serving",
    "shown",
    "step",
    "verdict",
    "widgets",
]

_HOMES: Mapping[str, str] = {
    "InputError": "core.errors:InputError",
    "RunbooksError": "core.errors:RunbooksError",
    "StepText": "core.views.runbook_steps:StepText",
    "VerdictFailed": "core.errors:VerdictFailed",
    "check_claims": "diagnosis.diagnosing:check_claims",
    "command_verdict": "lint.checking:command_verdict",
    "conclude": "runbooks.notebook:conclude",
    "diagnose": "diagnosis.diagnosing:diagnose",
    "edge10_evidence": "edge10.evidence",
    "entrances": "catalog.load:entrances",
    "find_plan": "plan.planner:find_plan",
    "health": "probe.checking:health",
    "health_verdict": "probe.checking:health_verdict",
    "inventory": "host.loading:inventory",
    "lint_commands": "lint.checking:lint_commands",
    "load": "reading.sources:load",
    "migrate_commands": "lint.checking:migrate_commands",
    "nodes": "host.nodes.loading:nodes",
    "nodes_evidence": "cluster.evidence",
    "nodes_verdict": "host.nodes.loading:nodes_verdict",
    "paste": "reading.sources:paste",
    "plan_evidence": "runbooks.plan_evidence",
    "plan_layouts": "plan.planner:plan_layouts",
    "plan_model": "plan.planner:plan_model",
    "read": "diagnosis.diagnosing:read",
    "serving": "catalog.load:serving",
    "shown": "lint.checking:shown",
    "step": "core.views.runbook_steps:step",
    "verdict": "diagnosis.diagnosing:verdict",
    "widgets": "jupyter.panels",
}
"""Location of each public name below this package: a module, or a name in one."""
_NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "live": {
        "Load": "serve.load:Load",
        "apply": "runbooks.live.starting:apply",
        "chain": "edge10.chain.chains:chain",
        "chain_verdict": "edge10.chain.verdict:chain_verdict",
        "check": "runbooks.live.fleets:check",
        "confirmed": "runbooks.live.confirming:confirmed",
        "evidence": "runbooks.live.starting:evidence",
        "fleet": "runbooks.live.fleets:fleet",
        "is_ready": "runbooks.live.verdicts:is_ready",
        "nodes": "cluster.named:nodes",
        "of_split": "runbooks.live.confirming:of_split",
        "pair_verdict": "runbooks.live.verdicts:pair_verdict",
        "probe": "runbooks.live.probing:probe",
        "split": "runbooks.live.fleets:split",
        "split_verdict": "runbooks.live.verdicts:split_verdict",
        "start": "runbooks.live.starting:start",
        "verdict": "runbooks.live.verdicts:verdict",
        "watched": "runbooks.live.watching:watched",
    },
    "render": {
        "accuracy": "edge10.accuracy.render",
        "annotated": "diagnosis.render.annotated",
        "answers": "diagnosis.render.answers",
        "chains": "edge10.chain.render",
        "claims": "diagnosis.render.claims",
        "clusters": "host.nodes.render",
        "edge10_checks": "edge10.artefacts.render",
        "edge10_jobs": "edge10.jobs.render",
        "edge10_pages": "edge10.pages",
        "edge10_steps": "edge10.job_steps",
        "edge10_scripts": "edge10.scripts.render",
        "entrances": "diagnosis.render.entrances",
        "guarded": "serve.render",
        "health": "probe.render",
        "health_steps": "probe.steps",
        "history": "history.render",
        "inventories": "host.render",
        "issue_steps": "lint.steps",
        "issue_summaries": "lint.summaries",
        "issues": "lint.render",
        "launches": "diagnosis.render.launches",
        "log_steps": "diagnosis.render.log_steps",
        "plan_sections": "plan.render.sections",
        "plan_words": "plan.render.words",
        "plans": "plan.render.plans",
        "schedule": "schedule.render",
        "start_files": "plan.render.start_files",
        "starts": "diagnosis.render.starts",
        "steps": "diagnosis.render.steps",
        "to_json": "core.display:to_json",
        "toolchains": "edge10.host.render",
    },
}
"""Namespaces of public names with their locations."""


class _Namespace(ModuleType):
    """A namespace of names from several packages, each imported on first use."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(f"{__name__}.{name}", doc)
        self._homes = _NAMESPACES[name]
        self.__all__ = [*self._homes]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _imported(self._homes[name])

    def __dir__(self) -> list[str]:
        return self.__all__


live: Any = _Namespace("live", "What runbooks do on this host: start servers and prove a fix.")
render: Any = _Namespace("render", "Records to text, JSON, HTML and SVG, the same in terminal, notebook and report.")


def _imported(home: str) -> Any:
    module, _, name = home.partition(":")
    found = importlib.import_module(f"{__name__}.{module}")
    return getattr(found, name) if name else found


def __getattr__(name: str) -> Any:
    """Import a public name's module on first use, so that startup takes milliseconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _imported(_HOMES[name])


def __dir__() -> list[str]:
    return __all__
