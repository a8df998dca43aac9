"""Plan a launch or every layout: budgets as records, in GiB, with their commands linted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from vllm_runbooks.catalog import options, support
from vllm_runbooks.catalog.room import TAKEN_GIB, MemoryClaim
from vllm_runbooks.catalog.specs import HostGpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.plan import costs
from vllm_runbooks.plan import layouts as _layouts
from vllm_runbooks.plan.budget import Budget, RankBudget
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.records import (
    Layouts,
    Plan,
    PlanCalibration,
    PlannedCache,
    PlannedGpu,
    PlannedRank,
    PlannedTerm,
)
from vllm_runbooks.plan.refusals import too_old
from vllm_runbooks.plan.requests import (
    PlanningRequest,
    budget_of,
    check,
    layout_of,
    numbers_of,
    settings,
    sizes_of,
    stages_of,
    taking,
    ways,
)
from vllm_runbooks.plan.servers import deployment_of
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.terms import GIB, Term


def plan(request: PlanningRequest) -> Plan:
    """Plan one launch as requested, on as many of the first GPUs as it needs."""
    check(request)
    settled = settings(request)
    devices = [Device.of(card) for card in request.cards]
    need = settled.ranks.cards
    if need > len(devices):
        sizes = "tensor x pipeline x data parallel" + " x prefill context parallel" * (settled.ranks.prefill > 1)
        raise InputError(
            f"the launch needs {need} {'CPUs' if devices[0].is_cpu else 'GPUs'} ({sizes} size), but --gpus has "
            f"{len(devices)}; "
            f"use --gpus {need}x… or smaller parallel sizes"
        )
    illegal = _layouts.illegal(request.model, settled.ranks, settled.key, devices[:need])
    made = _plan(request, settled, devices[:need], budget_of(request, settled, devices[:need]))
    idle = len(devices) - need * request.replicas
    idle_note = (f"{idle} of the {len(devices)} {_layouts.IDLE}",) if idle > 0 else ()
    if illegal:
        return replace(made, fits=False, limits=tuple(dict.fromkeys((*illegal, *made.limits, *idle_note))))
    parts = stages_of(request)
    advised = () if parts is None else (_layouts.uneven(parts),)
    return replace(made, limits=(*made.limits, *advised, *idle_note))


def layouts(request: PlanningRequest, knowledge: lint.Knowledge | None = None) -> Layouts:
    """Every layout on the GPUs, best first; `knowledge` lints the commands of those that fit."""
    check(request)
    plans = [layout_plan(request, way) for way in ways(request)]
    if knowledge is not None:
        plans = [checked(plan, knowledge, request) if plan.legal and plan.fits is not False else plan for plan in plans]
    fits = [plan.fits for plan in plans if plan.legal]
    verdict = True if True in fits else None if None in fits else False
    return Layouts(request.model.name, request.release, _gpus(request.cards), verdict, tuple(plans))


def layout_plan(request: PlanningRequest, way: _layouts.LayoutChoice) -> Plan:
    """The plan of one layout."""
    way_request = taking(request, way)
    settled = way.budget.settings if way.budget is not None else settings(request, sizes_of(way.ranks))
    plan = _plan(way_request, settled, way.devices, way.budget, replicas=way.replicas)
    return replace(
        plan,
        fits=plan.fits if way.legal else False,
        layout=layout_of(way),
        legal=way.legal,
        reasons=(*way.why_not, *(plan.limits[:1] if way.fits and not plan.fits else ()), *way.reasons),
        limits=plan.limits if way.legal else way.why_not,
        deployment=plan.deployment if way.legal else None,
        speed=way.speed,
        total_concurrency=way.concurrency_total,
    )


def _plan(
    request: PlanningRequest,
    settled: LaunchSettings,
    devices: Sequence[Device],
    made: Budget | None,
    replicas: int | None = None,
) -> Plan:
    count = request.replicas if replicas is None else replicas
    ranks = () if made is None else made.ranks
    refused = _not_implemented(request)
    cards = request.cards[: len(devices) * count]
    busy = _busy(request, settled, ranks, count)
    fits = made.fits if made is not None and not refused else False
    at: dict[int, bool | None] = {}
    for place, (state, _) in busy.items():
        rank = place % len(ranks)
        at[rank] = min(at.get(rank, True), state, key=_WORST_FIRST.index)
    fits = min(fits, *at.values(), True, key=_WORST_FIRST.index)
    stops = [text for state in _WORST_FIRST[:2] for verdict, text in busy.values() if verdict is state]
    notices = [text for state, text in busy.values() if state]
    limits = made.limits if made is not None else ()
    first, then = (limits, ()) if made is not None and made.fits is False else ((), limits)
    return Plan(
        model=request.model.name,
        vllm=request.release,
        gpus=_gpus(cards),
        fits=fits,
        per_gpu=tuple(
            _beside(_rank(rank_budget, made), at.get(place, True)) for place, rank_budget in enumerate(ranks) if made
        ),
        kv_cache=_cache(made),
        limits=(*refused, *first, *stops, *then, *notices),
        deployment=deployment_of(request, settled, count),
        calibration=PlanCalibration(request.calibrate is not None, made.calibrated if made is not None else ()),
        options=_settled(request, settled),
        missing=settled.missing,
        assumptions=_assumptions(request, made),
    )


def _assumptions(request: PlanningRequest, made: Budget | None) -> tuple[str, ...]:
    model = request.model
    checkpoint = (f"the checkpoint has {model.source}",) if model.is_assumed else ()
    has_aiter = request.variables.get(_AITER, "0").strip().casefold() in ("1", "true")
    is_rocm = made is not None and any(rank.device.is_rocm for rank in made.ranks)
    kernels = (f"{_AITER}=1 changes no size: the plan is for kernels without AITER",) if has_aiter and is_rocm else ()
    return (*checkpoint, *kernels, *(made.pool.assumptions if made is not None and made.pool is not None else ()))


_AITER = "VLLM_ROCM_USE_AITER"


_WORST_FIRST = (False, None, True)


def _busy(
    request: PlanningRequest, settled: LaunchSettings, ranks: Sequence[RankBudget], copies: int
) -> dict[int, tuple[bool | None, str]]:
    """Used GPUs of the launch by index: False if too much memory is in use, None if unknown.

    True if enough memory is free. Each has a message.
    """
    busy: dict[int, tuple[bool | None, str]] = {}
    numbers = numbers_of(request)
    for place, card in enumerate(request.cards[: len(ranks) * copies]):
        if card.number is None:
            continue
        where = f"GPU {numbers[place]}" + (f" of {card.node}" if card.node else "")
        total = card.gpu.total
        if card.used_gib is None:
            busy[place] = None, f"{where}: its memory in use is unknown"
        elif total is not None and card.used_gib:
            need = _gib(_needed(settled, ranks[place % len(ranks)]))
            room = None if need is None else MemoryClaim(total.expected, card.used_gib, need)
            if room is not None and not room.is_enough:
                way = f", or give --gpu-memory-utilization {room.most:g} at most" if room.most else ""
                sentence = (
                    f"{where}: {card.used_gib:.2f} GiB in use, {room.free:.2f} GiB free; the "
                    f"launch requires {room.wanted:.2f} GiB and fails; use another GPU{way}"
                )
                busy[place] = False, sentence
            elif card.used_gib > TAKEN_GIB:
                sentence = (
                    f"{where}: {card.used_gib:.2f} GiB in use; memory that other processes allocate or release "
                    "can make a launch fail"
                )
                busy[place] = True, sentence
    return busy


def _needed(settled: LaunchSettings, rank: RankBudget) -> float | None:
    """Bytes that must be free at launch: the requested share if checked, else all terms."""
    if rank.requested is not None and costs.checks_free(settled) and settled.cache.size is None:
        return rank.requested.expected
    sizes = [term.band.expected for term in rank.terms if term.band is not None]
    return sum(sizes) + (settled.cache.size or 0) if len(sizes) == len(rank.terms) else None


def _beside(rank: PlannedRank, state: bool | None) -> PlannedRank:  # noqa: FBT001 - three values
    return rank if state or rank.fits is False else replace(rank, fits=state)


def _not_implemented(request: PlanningRequest) -> tuple[str, ...]:
    version, architecture = request.release.version, request.model.shape.architecture
    modalities = support.load(version).modalities
    if not modalities or (architecture is not None and architecture in modalities):
        return ()
    newest = support.load(options.known_releases()[-1]).modalities
    if architecture and architecture not in {*newest, *_UNRUNNABLE} and _BACKEND in modalities:
        return ()
    named = f"implements no {architecture}" if architecture else "cannot check: the configuration names no architecture"
    return (f"vLLM {version} {named}; without a plugin vLLM rejects it",)


_BACKEND = "TransformersMoEForCausalLM"
"""A release with this class runs those of transformers. An architecture that only a later release has is newer."""
_UNRUNNABLE = ("MllamaForConditionalGeneration",)
"""Classes of transformers that such a release accepts and cannot run. Mllama's processor has no
`_get_num_multimodal_tokens`, which a launch calls (0.11.2 models/transformers/multimodal.py:68, 0.32.0 :208;
transformers 5.19.0); the last release with a class of its own, 0.10.2, runs it in the V0 engine."""


def _settled(request: PlanningRequest, settled: LaunchSettings) -> dict[str, Any]:
    values = {
        "max_model_len": settled.scheduler.max_model_len,
        "max_num_batched_tokens": settled.scheduler.batched_tokens,
        "max_num_seqs": settled.scheduler.sequences,
        "gpu_memory_utilization": settled.utilization,
        "dtype": settled.dtype,
    }
    return {dest: value for dest, value in values.items() if value and dest not in request.options}


def _gib(size: float | None) -> float | None:
    return None if size is None else size / GIB


def _gpus(cards: Sequence[HostGpu]) -> tuple[PlannedGpu, ...]:
    groups = []
    for (gpu, node), same in groupby(cards, key=attrgetter("gpu", "node")):
        total = gpu.total
        source = total.source if total else "unknown"
        groups.append(
            PlannedGpu(gpu.name, len(list(same)), node, total.expected if total else None, source, gpu.vendor)
        )
    return tuple(groups)


def _term(term: Term) -> PlannedTerm:
    low, expected, high = term.band or (None, None, None)
    return PlannedTerm(term.name, _gib(low), _gib(expected), _gib(high), term.source)


def _rank(rank: RankBudget, made: Budget) -> PlannedRank:
    terms = [_term(term) for term in rank.terms]
    if rank.available is not None and made.blocks is not None and made.pool is not None:
        size = made.pool.bytes_per_block[rank.stage]
        low, expected, high = (_gib(blocks * size) for blocks in made.blocks)
        source = f"{made.blocks.expected:,} blocks of {size:,} bytes; limited by the smallest GPU"
        terms.append(PlannedTerm("kv_cache", low, expected, high, source))
    elif rank.available is not None:
        low, expected, high = (_gib(max(0, side)) for side in rank.available)
        unused = "" if made.has_cache else "; unused: the model has no KV cache"
        terms.append(PlannedTerm("kv_cache", low, expected, high, f"what gpu_memory_utilization leaves{unused}"))
    else:
        terms.append(PlannedTerm("kv_cache", None, None, None, "another term is unknown"))
    total = rank.device.total.expected if rank.device.total else None
    low, available, high = rank.available or (None, None, None)
    return PlannedRank(
        rank.device.name,
        rank.rank,
        rank.device.node,
        _gib(total),
        _gib(available),
        rank.fits,
        tuple(terms),
        _gib(low),
        _gib(high),
    )


def _cache(made: Budget | None) -> PlannedCache:
    if made is None or made.available is None:
        return PlannedCache()
    low, expected, high = (min(side) for side in made.available)
    pool, blocks = made.pool, made.blocks
    if pool is None or blocks is None:
        meaning = None if made.has_cache else "none"
        return PlannedCache(_gib(max(0, expected)), _gib(max(0, low)), _gib(max(0, high)), tokens_meaning=meaning)
    need = max(pool.needed_bytes())
    fitted = made.longest.expected if made.longest is not None and made.settings.scheduler.is_length_fitted else None
    return PlannedCache(
        gib=_gib(max(0, expected)),
        low=_gib(max(0, low)),
        high=_gib(max(0, high)),
        tokens=pool.tokens(blocks.expected),
        tokens_low=pool.tokens(blocks.low),
        tokens_high=pool.tokens(blocks.high),
        tokens_meaning="full-length" if pool.rules.prints_requests else "slots",
        max_concurrency=pool.concurrency(blocks.expected, fitted or None),
        blocks=blocks.expected,
        block_tokens=min(group.form.block_tokens for group in pool.groups),
        needed_gib=_gib(need),
        longest_context=made.longest.expected if made.longest is not None else None,
        longest_context_low=made.longest.low if made.longest is not None else None,
    )


_SAID = frozenset({"meaning.architecture-unknown"})
"""Rules whose findings the plan already reports."""


def faults(
    text: str, knowledge: lint.Knowledge, request: PlanningRequest, name: str = "command.sh"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Errors and warnings of the linter for a command or file on these GPUs, a sentence each."""
    on_cpu = sum(card.gpu.memory_gib for card in request.cards if card.gpu.vendor == "cpu") or None
    cards = None if on_cpu else request.cards
    issues = lint.lint(text, knowledge, lint.LintRequest(name, request.release.version, cards, cpu_gib=on_cpu)).issues
    wrong = [issue for issue in issues if issue.rule not in _SAID]
    errors = tuple(issue.message for issue in wrong if issue.severity is IssueSeverity.ERROR)
    return errors, tuple(issue.message for issue in wrong if issue.severity is IssueSeverity.WARNING)


def checked(plan: Plan, knowledge: lint.Knowledge, request: PlanningRequest) -> Plan:
    """The plan with its command linted: a rejected one does not fit and is not shown."""
    if plan.deployment is None:
        return plan
    refusals, others = faults(plan.deployment.command, knowledge, request)
    # GPUs without kernels prevent the launch whatever the command.
    unfit = too_old(settings(request), [Device.of(card) for card in request.cards]) if plan.fits is False else ()
    rest = (sentence for sentence in plan.limits if sentence not in unfit)
    limits = (*unfit, *refusals, *rest, *(f"{_OF_COMMAND}{warning}" for warning in others))
    if refusals:
        return replace(plan, fits=False, deployment=None, limits=limits, lint="rejected")
    return replace(plan, limits=limits, lint="passed")


_OF_COMMAND = "the command: "


def warnings(plan: Plan) -> tuple[str, ...]:
    """Warnings of the linter for the plan's command."""
    return tuple(limit.removeprefix(_OF_COMMAND) for limit in plan.limits if limit.startswith(_OF_COMMAND))
