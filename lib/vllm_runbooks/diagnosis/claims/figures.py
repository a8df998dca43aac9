"""Figures of plans, GPUs and messages of a release, by the names that expressions use."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from vllm_runbooks.catalog import options, sites
from vllm_runbooks.catalog.specs import Gpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Claim, Claims, PlanQuestion
from vllm_runbooks.diagnosis.claims.expressions import Figures, UnknownError, names
from vllm_runbooks.plan.figures import PLAN_FIGURES, plan_figures
from vllm_runbooks.plan.records import Layouts, Plan

CARD_FIGURES = frozenset({"exists", "why", "memory_gib", "capability", "has_fp8"})
LINE_FIGURES = frozenset({"printed"})
Planned = Callable[[PlanQuestion], "Plan | Layouts"]
"""Answers a question to the planner; an InputError if it cannot be planned."""


def figures(authored: Claims) -> Figures:
    """Figures of plans, GPUs and lines that the expressions of a claims file may use."""
    tables = ((authored.plans, PLAN_FIGURES), (authored.cards, CARD_FIGURES), (authored.lines, LINE_FIGURES))
    return {name: names for table, names in tables for name in table}


class ClaimLookup:
    """Looks up plans, GPUs and lines of a claims file, each once and only if an expression needs it."""

    def __init__(self, authored: Claims, planned: Planned | None, card: Callable[[str], Gpu] | None) -> None:
        self.figures = figures(authored)
        self._authored, self._planned, self._card = authored, planned, card
        self._found: dict[str, Plan | Layouts | Gpu | InputError] = {}

    def names(self, claim: Claim) -> list[str]:
        """Names in a claim's expressions, in order."""
        expressions = [*claim.figures.values(), claim.right_if, claim.only_if or ""]
        unique = dict.fromkeys(name for text in expressions if text for name in names(text))
        return [name for name in unique if name in self.figures]

    def has_sides(self, names: Sequence[str]) -> bool:
        """Whether one of the names is a plan, whose figures have a low and a high case."""
        return not self._authored.plans.keys().isdisjoint(names)

    def basis(self, name: str) -> str:
        """The questions to the planner, as text."""
        if name in self._authored.plans:
            return f"planned: {in_words(self._authored.plans[name])}"
        if name in self._authored.cards:
            return f"looked up: {self._authored.cards[name].card}"
        line = self._authored.lines[name]
        return f"searched in the messages of vLLM {line.vllm}: {line.text}"

    def value(self, figure: str, name: str, side: int) -> Any:
        """A figure; None if unknown.

        Raises:
            UnknownError: the planner cannot answer; the message is its own.
        """
        if name in self._authored.lines:
            line = self._authored.lines[name]
            wordings = sites.read_wordings(sites.data_folder() / sites.WORDINGS)
            return wordings.has(sites.wording(line.text), options.load(line.vllm).version)
        if name in self._authored.cards:
            return _card_figure(figure, self._looked_up(name, self._card, self._authored.cards[name].card))
        answer = self._looked_up(name, self._planned, self._authored.plans[name])
        if isinstance(answer, InputError):
            raise UnknownError(f"{name} cannot be planned: {answer}")
        return plan_figures(answer, self._authored.plans[name], side).get(figure)

    def _looked_up(self, name: str, answer: Callable[[Any], Any] | None, query: Any) -> Any:
        if name not in self._found:
            try:
                self._found[name] = InputError("no planner is available") if answer is None else answer(query)
            except InputError as error:
                self._found[name] = error
        return self._found[name]


def _card_figure(figure: str, gpu: Gpu | InputError) -> Any:
    if isinstance(gpu, InputError):
        return {"exists": False, "why": str(gpu)}.get(figure)
    fp8 = None if gpu.formats is None else "fp8" in gpu.formats
    capability = float(gpu.capability) if gpu.version and gpu.capability else None
    return {"exists": True, "memory_gib": gpu.memory_gib, "capability": capability, "has_fp8": fp8}.get(figure)


def in_words(plan: PlanQuestion) -> str:
    """A question to the planner in one line."""
    sizes = ((plan.tp, "tensor"), (plan.pp, "pipeline"), (plan.dp, "data"))
    sizes_text = [f"{name} parallel {size}" for size, name in sizes if size is not None] or ["every layout"]
    options = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in plan.options.items()]
    return ", ".join((f"{plan.model} on {plan.gpus}", *sizes_text, f"vLLM {plan.vllm}", *options))
