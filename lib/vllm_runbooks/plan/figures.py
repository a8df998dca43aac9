"""Values of a plan, by the names that claims and cases use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vllm_runbooks.core.evidence import PlanQuestion
from vllm_runbooks.plan.records import Layouts, ParallelLayout, Plan, PlannedRank

TERMS = ("weights", "activation", "encoder", "cuda_graphs", "non_torch", "communication")

PLAN_FIGURES = frozenset(
    {
        *(f"{least}{name}_gib" for name in TERMS for least in ("", "least_")),
        "available_gib", "most_available_gib", "total_gib", "most_total_gib", "fits", "kv_cache_gib", "kv_cache_tokens",
        "kv_cache_blocks", "max_concurrency", "needed_gib", "longest_context", "replicas", "tp", "pp", "dp", "cards",
        "total_concurrency",
    }
)  # fmt: skip

LOW, EXPECTED, HIGH = range(3)
"""Indices of the low, expected and high estimate."""


def lack(plan: Plan) -> float:
    """GiB that a GPU lacks for one request."""
    available = [rank.available_gib for rank in plan.per_gpu if rank.available_gib is not None]
    return (plan.kv_cache.needed_gib or 0.0) - min(available, default=-math.inf)


def written(value: Any) -> str:
    """A figure as it is written in a sentence."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{int(value):,}" if isinstance(value, (int, float)) else str(value)


def plan_figures(answer: Plan | Layouts, question: PlanQuestion, side: int = EXPECTED) -> dict[str, Any]:
    """Figures of a plan by their names in expressions; of several layouts those of the best.

    `side` chooses the low (0), expected (1) or high (2) estimate.
    """
    plan = (answer.best or next(iter(answer.layouts), None)) if isinstance(answer, Layouts) else answer
    if plan is None:
        return {"fits": answer.fits}
    cache = plan.kv_cache
    layout = plan.layout or ParallelLayout(1, question.tp or 1, question.pp or 1, question.dp or 1)
    return {
        **_card_figures(plan.per_gpu, side),
        "fits": answer.fits,
        "kv_cache_gib": (cache.low, cache.gib, cache.high)[side],
        "kv_cache_tokens": (cache.tokens_low, cache.tokens, cache.tokens_high)[side],
        "kv_cache_blocks": cache.blocks,
        "max_concurrency": cache.max_concurrency,
        "needed_gib": cache.needed_gib,
        "longest_context": cache.longest_context,
        "replicas": layout.replicas,
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "cards": sum(gpu.count for gpu in plan.gpus),
        "total_concurrency": plan.total_concurrency,
    }


def _card_figures(ranks: Sequence[PlannedRank], side: int) -> dict[str, float | None]:
    amounts: dict[tuple[str, str, int], list[float | None]] = {}
    for name in TERMS:
        terms = [term for rank in ranks for term in rank.terms if term.name == name]
        amounts[f"{name}_gib", f"least_{name}_gib", -1] = [
            (term.low_gib, term.expected_gib, term.high_gib)[side] for term in terms
        ] or [0.0]
    amounts["available_gib", "most_available_gib", 0] = [rank.available_gib for rank in ranks]
    amounts["total_gib", "most_total_gib", 0] = [rank.total_gib for rank in ranks]
    figures: dict[str, float | None] = {}
    for (name, opposite, place), sizes in amounts.items() if ranks else ():
        ordered = sorted(size for size in sizes if size is not None)
        is_known = len(ordered) == len(sizes)
        figures |= {name: ordered[place] if is_known else None, opposite: ordered[-1 - place] if is_known else None}
    return figures
