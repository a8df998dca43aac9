"""Inverse queries: longest context, highest concurrency, fewest GPUs, lowest utilization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm_runbooks.catalog.specs import Gpu, HostGpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.plan import inverse
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.figures import lack
from vllm_runbooks.plan.planned import checked, plan
from vllm_runbooks.plan.records import Find, FindAnswer, Plan
from vllm_runbooks.plan.requests import (
    SIZES,
    PlanningRequest,
    check,
    fewest_cards,
    layout_of,
    maker,
    settings,
    split_as,
    taking,
    ways,
)
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.weights import Ranks

_UNITS = {
    Find.CONTEXT: "tokens",
    Find.CONCURRENCY: "requests",
    Find.GPUS: "cards",
    Find.UTILIZATION: "of the GPU's memory",
}


def find(request: PlanningRequest, what: Find, knowledge: lint.Knowledge, smaller: Sequence[Gpu] = ()) -> Plan:
    """Answer an inverse query, with the plan of its conservative answer.

    Without a layout, the best of all is used. For the fewest GPUs, `smaller` are other kinds,
    smallest first, of which a single GPU may be enough.
    """
    check(request)
    if what is Find.GPUS:
        return _fewest(request, knowledge, smaller)
    if any(dest in request.options for dest in SIZES.values()):
        return _found_for(request, what, knowledge, request.replicas)
    best: Plan | None = None
    is_fitted = what is Find.CONCURRENCY and settings(request).scheduler.is_length_fitted
    for way in ways(request):
        if not way.legal:
            continue
        split = split_as(taking(request, way), way.ranks, way.replicas)
        plan_of_way = replace(
            _found_for(split, what, knowledge, way.replicas, is_checked=False),
            layout=layout_of(way),
            legal=True,
            reasons=way.reasons,
        )
        if best is None or _is_better(what, plan_of_way, best, is_length_fitted=is_fitted):
            best = plan_of_way
    if best is None:
        raise InputError("this release has no valid layout of the model on these GPUs; see the plan without --find")
    return checked(best, knowledge, request)


def _is_better(what: Find, plan: Plan, other: Plan, *, is_length_fitted: bool) -> bool:
    """Whether a plan has the better answer; requests of a fitted context are compared only if that is as long."""
    sign = -1 if what is Find.UTILIZATION else 1

    def worth(plan: Plan) -> tuple[bool, int, float, float]:
        value, cache = plan.found.value if plan.found is not None else None, plan.kv_cache
        length = (cache.longest_context_low or cache.longest_context or 0) if is_length_fitted else 0
        # Without an answer, the layout that lacks the least memory, like a plan without a question.
        lacking = -lack(plan) if plan.fits is False else 0.0
        return (value is not None, length, sign * float(value or 0), lacking)

    return worth(plan) > worth(other)


def _found_for(
    request: PlanningRequest, what: Find, knowledge: lint.Knowledge, replicas: int, *, is_checked: bool = True
) -> Plan:
    ranks = settings(request).ranks
    devices = [Device.of(card) for card in request.cards[: ranks.cards]]

    def make(changes: Mapping[str, Any]) -> LaunchSettings:
        options = {**request.options, **changes}
        return settings(replace(request, options={name: value for name, value in options.items() if value is not None}))

    trial = inverse.Trial(request.model, make, devices, request.variables, request.calibrate)
    changes: dict[str, Any] = {}
    times = 1
    if what is Find.CONTEXT:
        answer = inverse.longest_context(trial)
        changes = {"max_model_len": answer.low or answer.expected}
    elif what is Find.UTILIZATION:
        answer = inverse.lowest_utilization(trial)
        changes = {"gpu_memory_utilization": answer.low or answer.expected}
    else:
        answer = inverse.highest_concurrency(trial)
        times = replicas * ranks.data
    options = {**request.options, **{name: value for name, value in changes.items() if value is not None}}
    made = plan(replace(request, options=options))
    sides = (
        None if side is None else int(side * times) if what is Find.CONTEXT else side * times
        for side in (answer.low, answer.expected, answer.high)
    )
    found = _found(what, _UNITS[what], tuple(sides), answer.reasons)
    if made.fits is False and found.value is not None:  # for another reason than memory, such as an invalid layout
        found = _found(what, _UNITS[what], (None,) * 3, made.limits[:1])
    made = replace(made, found=found)
    return checked(made, knowledge, request) if is_checked else made


ONE_GPU = "smallest single GPU: "
"""Prefix of the reason that names the smallest GPU."""


def _fewest(request: PlanningRequest, knowledge: lint.Knowledge, smaller: Sequence[Gpu]) -> Plan:
    first = request.cards[0]
    environment, calibrate = request.variables, request.calibrate
    answer = inverse.fewest_cards(
        request.model,
        maker(request),
        Device.of(first),
        like=settings(request).ranks,
        environment=environment,
        calibrate=calibrate,
    )
    reasons = list(answer.reasons)
    if smaller:
        smallest = inverse.smallest_card(
            request.model,
            maker(request, smaller),
            [Device.of(HostGpu(gpu)) for gpu in smaller],
            environment=environment,
            calibrate=calibrate,
        )
        if smallest.expected is not None:
            low = smallest.low.name if smallest.low else "none"
            sure = "" if smallest.low == smallest.expected else f" (by the conservative estimate: {low})"
            reasons.append("; ".join((f"{ONE_GPU}{smallest.expected.name}{sure}", *smallest.reasons)))
    chosen = answer.sure or answer.budget
    ranks = chosen.settings.ranks if chosen is not None else Ranks()
    sized = replace(split_as(request, ranks, 1), cards=fewest_cards(first, ranks.cards))
    finding = _found(Find.GPUS, f"{first.gpu.name} GPUs", (answer.low, answer.expected, answer.high), tuple(reasons))
    return checked(replace(plan(sized), found=finding), knowledge, sized)


def _found(what: Find, unit: str, sides: tuple[float | None, ...], reasons: tuple[str, ...]) -> FindAnswer:
    """Build the answer: the conservative value, else the expected one, with its bounds."""
    careful, expected, _ = sides
    sides_known = [side for side in sides if side is not None]
    value = expected if careful is None else careful
    return FindAnswer(what, value, unit, min(sides_known, default=None), max(sides_known, default=None), reasons)
