"""What plans, cards and the messages of a release say, by the names that expressions use."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from vllm_runbooks.catalog import options, sites
from vllm_runbooks.catalog.specs import Gpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Claim, Claims, PlanAsked
from vllm_runbooks.diagnosis.claims.expressions import Figures, UnknownError, names
from vllm_runbooks.plan.figures import PLAN_FIGURES, plan_figures
from vllm_runbooks.plan.records import Layouts, Plan

CARD_FIGURES = frozenset({"exists", "why", "memory_gib", "capability", "has_fp8"})
LINE_FIGURES = frozenset({"printed"})
Planned = Callable[[PlanAsked], "Plan | Layouts"]
"""Answers a question to the planner; InputError where nothing can be planned."""


def figures(authored: Claims) -> Figures:
    """What expressions of a file of claims may ask of its plans, cards and lines."""
    tables = ((authored.plans, PLAN_FIGURES), (authored.cards, CARD_FIGURES), (authored.lines, LINE_FIGURES))
    return {name: known for table, known in tables for name in table}


class Asked:
    """What the plans, cards and lines of a file of claims say; each is asked once, when an expression needs it."""

    def __init__(self, authored: Claims, planned: Planned | None, card: Callable[[str], Gpu] | None) -> None:
        self.figures = figures(authored)
        self._authored, self._planned, self._card = authored, planned, card
        self._found: dict[str, Plan | Layouts | Gpu | InputError] = {}

    def names(self, claim: Claim) -> list[str]:
        """What a claim's expressions ask, in their order."""
        said = [*claim.figures.values(), claim.right_if, claim.only_if or ""]
        asked = dict.fromkeys(name for text in said if text for name in names(text))
        return [name for name in asked if name in self.figures]

    def has_sides(self, names: Sequence[str]) -> bool:
        """Whether one of them is a plan, whose figures have a low and a high side."""
        return not self._authored.plans.keys().isdisjoint(names)

    def basis(self, name: str) -> str:
        """What is asked under a name, in words."""
        if name in self._authored.plans:
            return f"planned: {in_words(self._authored.plans[name])}"
        if name in self._authored.cards:
            return f"looked up: {self._authored.cards[name].card}"
        line = self._authored.lines[name]
        return f"searched in the messages of vLLM {line.vllm}: {line.text}"

    def value(self, figure: str, name: str, side: int) -> Any:
        """A figure; None where it is not known.

        Raises:
            UnknownError: nothing can be planned, in the planner's own words.
        """
        if name in self._authored.lines:
            line = self._authored.lines[name]
            wordings = sites.read_wordings(sites.data_folder() / sites.WORDINGS)
            return wordings.has(sites.wording(line.text), options.load(line.vllm).version)
        if name in self._authored.cards:
            return _card_figure(figure, self._looked_up(name, self._card, self._authored.cards[name].card))
        found = self._looked_up(name, self._planned, self._authored.plans[name])
        if isinstance(found, InputError):
            raise UnknownError(f"{name} cannot be planned: {found}")
        return plan_figures(found, self._authored.plans[name], side).get(figure)

    def _looked_up(self, name: str, answer: Callable[[Any], Any] | None, asked: Any) -> Any:
        if name not in self._found:
            try:
                self._found[name] = InputError("nobody is there to ask") if answer is None else answer(asked)
            except InputError as error:
                self._found[name] = error
        return self._found[name]


def _card_figure(figure: str, found: Gpu | InputError) -> Any:
    if isinstance(found, InputError):
        return {"exists": False, "why": str(found)}.get(figure)
    fp8 = None if found.formats is None else "fp8" in found.formats
    capability = float(found.capability) if found.version and found.capability else None
    return {"exists": True, "memory_gib": found.memory_gib, "capability": capability, "has_fp8": fp8}.get(figure)


def in_words(asked: PlanAsked) -> str:
    """A question to the planner in one line."""
    sizes = ((asked.tp, "tensor"), (asked.pp, "pipeline"), (asked.dp, "data"))
    said = [f"{name} parallel {size}" for size, name in sizes if size is not None] or ["every layout"]
    given = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in asked.options.items()]
    return ", ".join((f"{asked.model} on {asked.gpus}", *said, f"vLLM {asked.vllm}", *given))
