"""Plans for a model on cards, as records: one start, every layout, questions the other way round, files to start it."""

from __future__ import annotations

from vllm_runbooks.plan.files import confirmations, deployed, doubts, servers
from vllm_runbooks.plan.planned import checked, faults, layouts, plan
from vllm_runbooks.plan.questions import find
from vllm_runbooks.plan.reading import (
    MAX_CONFIG,
    Sources,
    answered,
    asked_otherwise,
    has_sizes,
    model_in_catalog,
    read,
    told_model,
)
from vllm_runbooks.plan.requests import SIZES, Place, Request, budget_of, freest_first, release_of, settings, stages_of

__all__ = [
    "MAX_CONFIG",
    "SIZES",
    "Place",
    "Request",
    "Sources",
    "answered",
    "asked_otherwise",
    "budget_of",
    "checked",
    "confirmations",
    "deployed",
    "doubts",
    "faults",
    "find",
    "freest_first",
    "has_sizes",
    "layouts",
    "model_in_catalog",
    "plan",
    "read",
    "release_of",
    "servers",
    "settings",
    "stages_of",
    "told_model",
]
