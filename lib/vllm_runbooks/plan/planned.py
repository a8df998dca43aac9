"""A start or every layout, planned: budgets as records, in GiB, with their commands linted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from vllm_runbooks.catalog import support
from vllm_runbooks.catalog.room import TAKEN_GIB, Room
from vllm_runbooks.catalog.specs import Card
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.plan import costs
from vllm_runbooks.plan import layouts as _layouts
from vllm_runbooks.plan.budget import Budget, Device, RankBudget, too_old
from vllm_runbooks.plan.records import (
    Calibration,
    Layouts,
    Plan,
    PlannedCache,
    PlannedGpu,
    PlannedRank,
    PlannedTerm,
    Speed,
)
from vllm_runbooks.plan.requests import (
    Request,
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
from vllm_runbooks.plan.settings import Settings
from vllm_runbooks.plan.terms import GIB, Term

_SETTLED = {
    "max_model_len": "max_model_len",
    "max_num_batched_tokens": "batched_tokens",
    "max_num_seqs": "sequences",
    "gpu_memory_utilization": "utilization",
    "dtype": "dtype",
}
"""By argparse destination the field of the settings that says what a start comes to."""


def plan(request: Request) -> Plan:
    """One start as it is asked for, on the first cards that it needs.

    Raises:
        InputError: Nothing about it can be planned.
    """
    check(request)
    asked = settings(request)
    devices = [Device.of(card) for card in request.cards]
    need = asked.ranks.cards
    if need > len(devices):
        sizes = "tensor x pipeline x data parallel" + " x prefill context parallel" * (asked.ranks.prefill > 1)
        raise InputError(
            f"the start takes {need} cards ({sizes}), {len(devices)} are given; "
            f"give --gpus {need}x… or smaller parallel sizes"
        )
    illegal = _layouts.illegal(request.model, asked.ranks, asked.key, devices[:need])
    made = _plan(request, asked, devices[:need], budget_of(request, asked, devices[:need]))
    idle = len(devices) - need * request.replicas
    said = (f"{idle} of the {len(devices)} cards stay idle",) if idle > 0 else ()
    if illegal:
        return replace(made, fits=False, limits=tuple(dict.fromkeys((*illegal, *made.limits, *said))))
    parts = stages_of(request)
    advised = () if parts is None else (_layouts.uneven(parts),)
    return replace(made, limits=(*made.limits, *advised, *said))


def layouts(request: Request, knowledge: lint.Knowledge | None = None) -> Layouts:
    """Every way to use the cards, the best first; with knowledge the commands of those that fit are linted.

    Raises:
        InputError: Nothing about it can be planned.
    """
    check(request)
    plans = [_way(request, way) for way in ways(request)]
    if knowledge is not None:
        plans = [checked(one, knowledge, request) if one.legal and one.fits is not False else one for one in plans]
    fits = [one.fits for one in plans if one.legal]
    verdict = True if True in fits else None if None in fits else False
    return Layouts(request.model.name, request.release, _gpus(request.cards), verdict, tuple(plans))


def _way(request: Request, way: _layouts.Way) -> Plan:
    """A way to use the cards, as a plan of one of its copies."""
    taken = taking(request, way)
    asked = way.budget.settings if way.budget is not None else settings(request, sizes_of(way.ranks))
    one = _plan(taken, asked, way.devices, way.budget, replicas=way.replicas)
    return replace(
        one,
        fits=one.fits if way.legal else False,
        layout=layout_of(way),
        legal=way.legal,
        reasons=(*way.why_not, *(one.limits[:1] if way.fits and not one.fits else ()), *way.reasons),
        limits=one.limits if way.legal else way.why_not,
        deployment=one.deployment if way.legal else None,
        speed=Speed(way.speed.tokens_per_s, way.speed.basis) if way.speed is not None else None,
        total_concurrency=way.concurrency_total,
    )


def _plan(
    request: Request, asked: Settings, devices: Sequence[Device], made: Budget | None, replicas: int | None = None
) -> Plan:
    count = request.replicas if replicas is None else replicas
    ranks = () if made is None else made.ranks
    refused = (*_not_implemented(request), *_without_dtype(asked, devices))
    cards = request.cards[: len(devices) * count]
    busy = _busy(request, asked, ranks, count)
    fits = made.fits if made is not None and not refused else False
    at: dict[int, bool | None] = {}
    for place, (state, _) in busy.items():
        rank = place % len(ranks)
        at[rank] = min(at.get(rank, True), state, key=_WORST_FIRST.index)
    fits = min(fits, *at.values(), True, key=_WORST_FIRST.index)
    stops = [text for state in _WORST_FIRST[:2] for each, text in busy.values() if each is state]
    notices = [text for state, text in busy.values() if state]
    own = made.limits if made is not None else ()
    first, then = (own, ()) if made is not None and made.fits is False else ((), own)
    return Plan(
        model=request.model.name,
        vllm=request.release,
        gpus=_gpus(cards),
        fits=fits,
        per_gpu=tuple(_beside(_rank(one, made), at.get(place, True)) for place, one in enumerate(ranks) if made),
        kv_cache=_cache(made),
        limits=(*refused, *first, *stops, *then, *notices),
        deployment=deployment_of(request, asked, count),
        calibration=Calibration(request.calibrate is not None, made.calibrated if made is not None else ()),
        options=_settled(request, asked),
        missing=asked.missing,
    )


_WORST_FIRST = (False, None, True)


def _busy(
    request: Request, asked: Settings, ranks: Sequence[RankBudget], copies: int
) -> dict[int, tuple[bool | None, str]]:
    """By place the cards that were read and are in use: False too much, None not told, True not too much; and why."""
    found: dict[int, tuple[bool | None, str]] = {}
    numbers = numbers_of(request)
    for place, card in enumerate(request.cards[: len(ranks) * copies]):
        if card.number is None:
            continue
        where = f"GPU {numbers[place]}" + (f" of {card.node}" if card.node else "")
        total = card.gpu.total
        if card.used_gib is None:
            found[place] = None, f"{where}: how much of its memory is in use is not told"
        elif total is not None and card.used_gib:
            need = _gib(_needed(asked, ranks[place % len(ranks)]))
            room = None if need is None else Room(total.expected, card.used_gib, need)
            if room is not None and not room.is_enough:
                way = f", or give --gpu-memory-utilization {room.most:g} at most" if room.most else ""
                said = (
                    f"{where}: {card.used_gib:.2f} GiB are in use, so {room.free:.2f} GiB are free and the "
                    f"start asks for {room.wanted:.2f} GiB: it ends; take another card{way}"
                )
                found[place] = False, said
            elif card.used_gib > TAKEN_GIB:
                said = (
                    f"{where}: {card.used_gib:.2f} GiB are in use; what others give back or take can make a start fail"
                )
                found[place] = True, said
    return found


def _needed(asked: Settings, rank: RankBudget) -> float | None:
    """Bytes that must be free at the start: the share, where the release looks; else what it comes to take."""
    if rank.requested is not None and costs.checks_free(asked) and asked.cache_bytes is None:
        return rank.requested.expected
    taken = [term.band.expected for term in rank.terms if term.band is not None]
    return sum(taken) + (asked.cache_bytes or 0) if len(taken) == len(rank.terms) else None


def _beside(rank: PlannedRank, state: bool | None) -> PlannedRank:  # noqa: FBT001 - three values
    """A rank on a card that others use."""
    return rank if state or rank.fits is False else replace(rank, fits=state)


def _not_implemented(request: Request) -> tuple[str, ...]:
    """Why the release does not know the model at all; a plugin may bring what it lacks."""
    known, architecture = support.load(request.release.version).modalities, request.model.shape.architecture
    if not known or (architecture is not None and architecture in known):
        return ()
    named = f"implements no {architecture}" if architecture else "cannot tell: the configuration names no architecture"
    return (f"vLLM {request.release.version} {named}; without a plugin the start is refused",)


_BFLOAT16_FROM = (8, 0)
"""Compute capability; every rank ends its start below it (v1/worker/gpu_worker.py, `_check_if_gpu_supports_dtype`)."""


def _without_dtype(asked: Settings, devices: Sequence[Device]) -> tuple[str, ...]:
    """Cards that cannot run the type of numbers that the first card leads to."""
    if asked.dtype != "bfloat16" or too_old(asked, devices):
        return ()  # a card that the release has no kernels for is refused for that
    names = {each.name for each in devices if each.capability is not None and each.capability < _BFLOAT16_FROM}
    return tuple(f"{name} cannot run bfloat16, which this start comes to; give --dtype half" for name in sorted(names))


def _settled(request: Request, asked: Settings) -> dict[str, Any]:
    """What was not given and what it comes to."""
    found = {dest: getattr(asked, name) for dest, name in _SETTLED.items() if dest not in request.options}
    return {dest: value for dest, value in found.items() if value}


def _gib(size: float | None) -> float | None:
    return None if size is None else size / GIB


def _gpus(cards: Sequence[Card]) -> tuple[PlannedGpu, ...]:
    found = []
    for (name, node, _), same in groupby(cards, key=lambda card: (card.gpu.name, card.node, card.gpu.total)):
        each = list(same)
        total = each[0].gpu.total
        source = total.source if total else "not known"
        found.append(PlannedGpu(name, len(each), node, total.expected if total else None, source))
    return tuple(found)


def _term(term: Term) -> PlannedTerm:
    low, expected, high = term.band or (None, None, None)
    return PlannedTerm(term.name, _gib(low), _gib(expected), _gib(high), term.source)


def _rank(one: RankBudget, made: Budget) -> PlannedRank:
    terms = [_term(term) for term in one.terms]
    if one.available is not None and made.blocks is not None and made.pool is not None:
        size = made.pool.bytes_per_block[one.stage]
        low, expected, high = (_gib(blocks * size) for blocks in made.blocks)
        said = f"{made.blocks.expected:,} blocks of {size:,} bytes; the card with the least decides for all"
        terms.append(PlannedTerm("kv_cache", low, expected, high, said))
    elif one.available is not None:
        low, expected, high = (_gib(max(0, side)) for side in one.available)
        terms.append(PlannedTerm("kv_cache", low, expected, high, "what the utilisation leaves"))
    else:
        terms.append(PlannedTerm("kv_cache", None, None, None, "not known, as another term is not"))
    total = one.device.total.expected if one.device.total else None
    low, available, high = one.available or (None, None, None)
    return PlannedRank(
        one.device.name,
        one.rank,
        one.device.node,
        _gib(total),
        _gib(available),
        one.fits,
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
        return PlannedCache(_gib(max(0, expected)), _gib(max(0, low)), _gib(max(0, high)))
    need = max(pool.needed_bytes())
    return PlannedCache(
        gib=_gib(max(0, expected)),
        low=_gib(max(0, low)),
        high=_gib(max(0, high)),
        tokens=pool.tokens(blocks.expected),
        tokens_low=pool.tokens(blocks.low),
        tokens_high=pool.tokens(blocks.high),
        tokens_meaning="full-length" if pool.rules.prints_requests else "slots",
        max_concurrency=pool.concurrency(blocks.expected),
        blocks=blocks.expected,
        block_tokens=min(group.form.block_tokens for group in pool.groups),
        needed_gib=_gib(need),
        longest_context=made.longest.expected if made.longest is not None else None,
    )


_SAID = frozenset({"meaning.architecture-unknown"})
"""Rules whose finding a plan says by itself."""


def faults(
    text: str, knowledge: lint.Knowledge, request: Request, name: str = "command.sh"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the release refuses of a command or file on these cards, and what else is wrong, a sentence each."""
    issues = lint.lint(text, knowledge, lint.Asked(name, request.release.version, request.cards)).issues
    wrong = [issue for issue in issues if issue.rule not in _SAID]
    errors = tuple(issue.message for issue in wrong if issue.severity is IssueSeverity.ERROR)
    return errors, tuple(issue.message for issue in wrong if issue.severity is IssueSeverity.WARNING)


def checked(found: Plan, knowledge: lint.Knowledge, request: Request) -> Plan:
    """The plan with its command linted: one that the release refuses does not fit and is not shown."""
    if found.deployment is None:
        return found
    refusals, others = faults(found.deployment.command, knowledge, request)
    # Cards without kernels stop the start however the command is mended.
    devices = [Device.of(card) for card in request.cards]
    unfit = too_old(settings(request), devices) if found.fits is False else ()
    rest = (said for said in found.limits if said not in unfit)
    limits = (*unfit, *refusals, *rest, *(f"the command: {one}" for one in others))
    if refusals:
        return replace(found, fits=False, deployment=None, limits=limits)
    return replace(found, limits=limits)
