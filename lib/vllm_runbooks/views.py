"""Records to text, JSON, HTML and SVG: small pure functions, the same for terminal, notebook, report and site."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core.display import to_json

if TYPE_CHECKING:
    from vllm_runbooks.diagnosis.render import annotated, answers, claims, entrances, starts
    from vllm_runbooks.edge10 import pages as edge10_pages
    from vllm_runbooks.edge10.accuracy import render as accuracy
    from vllm_runbooks.edge10.artefacts import render as edge10_checks
    from vllm_runbooks.edge10.chain import render as chains
    from vllm_runbooks.edge10.host import render as toolchains
    from vllm_runbooks.edge10.jobs import render as edge10_jobs
    from vllm_runbooks.edge10.scripts import render as edge10_scripts
    from vllm_runbooks.history import render as history
    from vllm_runbooks.host import render as inventories
    from vllm_runbooks.host.nodes import render as clusters
    from vllm_runbooks.lint import render as issues
    from vllm_runbooks.plan.render import plans, start_files
    from vllm_runbooks.plan.render import sections as plan_sections
    from vllm_runbooks.plan.render import words as plan_words
    from vllm_runbooks.probe import render as health
    from vllm_runbooks.schedule import render as schedule
    from vllm_runbooks.serve import render as guarded

__all__ = [
    "accuracy",
    "annotated",
    "answers",
    "chains",
    "claims",
    "clusters",
    "edge10_checks",
    "edge10_jobs",
    "edge10_pages",
    "edge10_scripts",
    "entrances",
    "guarded",
    "health",
    "history",
    "inventories",
    "issues",
    "plan_sections",
    "plan_words",
    "plans",
    "schedule",
    "start_files",
    "starts",
    "to_json",
    "toolchains",
]
_VIEWS = {
    "accuracy": "vllm_runbooks.edge10.accuracy.render",
    "annotated": "vllm_runbooks.diagnosis.render.annotated",
    "answer_words": "vllm_runbooks.diagnosis.render.words",
    "answers": "vllm_runbooks.diagnosis.render.answers",
    "bug_report": "vllm_runbooks.runbooks.bug_report",
    "chains": "vllm_runbooks.edge10.chain.render",
    "claims": "vllm_runbooks.diagnosis.render.claims",
    "clusters": "vllm_runbooks.host.nodes.render",
    "columns": "vllm_runbooks.core.views.columns",
    "drawing": "vllm_runbooks.core.views.drawing",
    "edge10_checks": "vllm_runbooks.edge10.artefacts.render",
    "edge10_findings": "vllm_runbooks.edge10.findings_render",
    "edge10_jobs": "vllm_runbooks.edge10.jobs.render",
    "edge10_pages": "vllm_runbooks.edge10.pages",
    "edge10_scripts": "vllm_runbooks.edge10.scripts.render",
    "elements": "vllm_runbooks.core.views.elements",
    "entrances": "vllm_runbooks.diagnosis.render.entrances",
    "figures": "vllm_runbooks.diagnosis.render.figures",
    "guarded": "vllm_runbooks.serve.render",
    "health": "vllm_runbooks.probe.render",
    "history": "vllm_runbooks.history.render",
    "inventories": "vllm_runbooks.host.render",
    "issues": "vllm_runbooks.lint.render",
    "plan_pictures": "vllm_runbooks.plan.render.pictures",
    "plan_sections": "vllm_runbooks.plan.render.sections",
    "plan_words": "vllm_runbooks.plan.render.words",
    "plans": "vllm_runbooks.plan.render.plans",
    "schedule": "vllm_runbooks.schedule.render",
    "start_files": "vllm_runbooks.plan.render.start_files",
    "start_pictures": "vllm_runbooks.core.views.start_pictures",
    "starts": "vllm_runbooks.diagnosis.render.starts",
    "styled": "vllm_runbooks.core.views.styled",
    "toolchains": "vllm_runbooks.edge10.host.render",
}


def __getattr__(name: str) -> Any:
    """Import a kind of view when it is first used."""
    if name in _VIEWS:
        return importlib.import_module(_VIEWS[name])
    raise AttributeError(f"module 'vllm_runbooks.views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
