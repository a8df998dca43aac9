"""Records to text, JSON, HTML and SVG: small pure functions, the same for terminal, notebook, report and site."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vllm_runbooks.display import to_json

if TYPE_CHECKING:
    from vllm_runbooks.render import (
        accuracy,
        annotated,
        answers,
        chains,
        claims,
        clusters,
        edge10_checks,
        edge10_jobs,
        edge10_pages,
        edge10_scripts,
        entrances,
        guarded,
        health,
        history,
        inventories,
        issues,
        plan_sections,
        plan_words,
        plans,
        schedule,
        start_files,
        starts,
        toolchains,
    )

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


def __getattr__(name: str) -> Any:
    """Import a kind of view when it is first used."""
    if name in __all__:
        return importlib.import_module(f"vllm_runbooks.render.{name}")
    raise AttributeError(f"module 'vllm_runbooks.render' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
