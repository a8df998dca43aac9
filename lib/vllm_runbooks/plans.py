"""Plans for a model on cards, as records: budgets, layouts, questions the other way round, commands checked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from vllm_runbooks import deployment, lint, options, proxy, redact, support
from vllm_runbooks.deployment import confirmation, fleet
from vllm_runbooks.errors import InputError
from vllm_runbooks.options import ReleaseData
from vllm_runbooks.plan_records import (
    Calibration,
    Find,
    Found,
    Layout,
    Layouts,
    Plan,
    PlannedCache,
    PlannedDeployment,
    PlannedGpu,
    PlannedRank,
    PlannedTerm,
    Speed,
)
from vllm_runbooks.planning import inverse
from vllm_runbooks.planning import layouts as _layouts
from vllm_runbooks.planning.budget import Budget, Calibrate, Device, RankBudget, Subject, budget, too_old
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.shape import Experts
from vllm_runbooks.planning.terms import GIB, Term
from vllm_runbooks.planning.weights import Ranks
from vllm_runbooks.records import CommandRelease, IssueSeverity
from vllm_runbooks.specs import Card, Gpu

_SIZES = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size"}
_SETTLED = {
    "max_model_len": "max_model_len",
    "max_num_batched_tokens": "batched_tokens",
    "max_num_seqs": "sequences",
    "gpu_memory_utilization": "utilization",
    "dtype": "dtype",
}
"""By argparse destination the field of the settings that says what a start comes to."""


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be planned."""

    model: Subject
    cards: tuple[Card, ...]
    release: CommandRelease
    options: Mapping[str, Any] = field(default_factory=dict)
    """Engine arguments that are given, by argparse destination, converted."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables of the start; None: set where it is started, as secrets are."""
    calibrate: Calibrate | None = None
    """Corrects the terms by what earlier starts printed."""
    replicas: int = 1
    numbers: tuple[int, ...] = ()
    """Of each card its place among those of its host; none: they are counted as they stand."""

    @property
    def data(self) -> ReleaseData:
        """The release's own."""
        return options.load(self.release.version)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The variables whose values are known."""
        return {name: value for name, value in self.environment.items() if value is not None}


def release_of(version: str | None) -> CommandRelease:
    """The release to plan for: the one that is given, else the newest that is known.

    Raises:
        InputError: The text is no version.
    """
    if version is None:
        newest = options.known_releases()[-1]
        return CommandRelease(newest, "newest", newest)
    data = options.load(version)
    return CommandRelease(data.asked, "given", data.version)


def settings(request: Request, more: Mapping[str, Any] | None = None, *, gpu: Gpu | None = None) -> Settings:
    """What the start comes to, with further options instead of its own."""
    first = gpu or (request.cards[0].gpu if request.cards else None)
    return settle(
        request.model.shape,
        {**request.options, **(more or {})},
        request.release.version,
        environment=request.variables,
        gpu_name=(first.aliases or (first.name,))[0] if first else None,
        memory_gib=first.memory_gib if first else None,
        capability=first.version if first else None,
        config=request.model.config,
        draft=request.model.draft,
    )


def budget_of(request: Request, asked: Settings, devices: Sequence[Device]) -> Budget:
    """The memory of one replica."""
    return budget(request.model, asked, devices, environment=request.variables, calibrate=request.calibrate)


def plan(request: Request) -> Plan:
    """One start as it is asked for, on the first cards that it needs.

    Raises:
        InputError: Nothing about it can be planned.
    """
    _check(request)
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
    return replace(made, limits=(*made.limits, *said))


def _check(request: Request) -> None:
    """Refuse what nothing can be planned of.

    Raises:
        InputError: as `plan`.
    """
    shape = request.model.shape
    if not shape.pattern:
        missing = ", ".join(shape.missing) or "its layers"
        raise InputError(f"{request.model.name}: nothing can be planned: not known: {missing}")
    if not request.cards:
        raise InputError("no card is given; name some, as in --gpus 8xRTX3090")


def layouts(request: Request, knowledge: lint.Knowledge | None = None) -> Layouts:
    """Every way to use the cards, the best first; with knowledge the commands of those that fit are linted.

    Raises:
        InputError: Nothing about it can be planned.
    """
    _check(request)
    plans = [_way(request, way) for way in _ways(request)]
    if knowledge is not None:
        plans = [checked(one, knowledge, request) if one.legal and one.fits is not False else one for one in plans]
    fits = [one.fits for one in plans if one.legal]
    verdict = True if True in fits else None if None in fits else False
    return Layouts(request.model.name, request.release, _gpus(request.cards), verdict, tuple(plans))


def _taken(request: Request, way: _layouts.Way) -> Request:
    """The request with the cards of a way, copy by copy, and what the way sets."""
    places = [place for copy in way.places for place in copy]
    numbers = _numbers(request)
    return replace(
        request,
        cards=tuple(request.cards[place] for place in places),
        numbers=tuple(numbers[place] for place in places),
        environment={**request.environment, **way.environment},
    )


def _way(request: Request, way: _layouts.Way) -> Plan:
    """A way to use the cards, as a plan of one of its copies."""
    taken = _taken(request, way)
    asked = way.budget.settings if way.budget is not None else settings(request, _flags(way.ranks))
    one = _plan(taken, asked, way.devices, way.budget, replicas=way.replicas)
    return replace(
        one,
        fits=one.fits if way.legal else False,
        layout=Layout(way.replicas, way.ranks.tensor, way.ranks.pipeline, way.ranks.data),
        legal=way.legal,
        reasons=(*way.why_not, *way.reasons),
        limits=one.limits if way.legal else way.why_not,
        deployment=one.deployment if way.legal else None,
        speed=Speed(way.speed.tokens_per_s, way.speed.basis) if way.speed is not None else None,
        total_concurrency=way.concurrency_total,
    )


def _flags(ranks: Ranks) -> dict[str, Any]:
    return {
        "tensor_parallel_size": ranks.tensor,
        "pipeline_parallel_size": ranks.pipeline,
        "data_parallel_size": ranks.data,
    }


def _maker(request: Request, gpus: Iterable[Gpu] = ()) -> _layouts.Make:
    """What the start comes to, split otherwise, on other cards."""
    by_name = {gpu.name: gpu for gpu in (*gpus, *(card.gpu for card in request.cards))}

    def make(ranks: Ranks, first: Device) -> Settings:
        return settings(request, _flags(ranks), gpu=by_name[first.name])

    return make


def _ways(request: Request) -> tuple[_layouts.Way, ...]:
    devices = [Device.of(card) for card in request.cards]
    return _layouts.ways(
        request.model,
        _maker(request),
        devices,
        like=settings(request).ranks,
        environment=request.variables,
        calibrate=request.calibrate,
    )


# ---- records


def _plan(
    request: Request, asked: Settings, devices: Sequence[Device], made: Budget | None, replicas: int | None = None
) -> Plan:
    count = request.replicas if replicas is None else replicas
    ranks = () if made is None else made.ranks
    refused = (*_not_implemented(request), *_without_dtype(asked, devices))
    cards = request.cards[: len(devices) * count]
    return Plan(
        model=request.model.name,
        vllm=request.release,
        gpus=_gpus(cards),
        fits=made.fits if made is not None and not refused else False,
        per_gpu=tuple(_rank(one, made) for one in ranks if made is not None),
        kv_cache=_cache(made),
        limits=(*refused, *(made.limits if made is not None else ())),
        deployment=_deployment(request, asked, count),
        calibration=Calibration(request.calibrate is not None, made.calibrated if made is not None else ()),
        options=_settled(request, asked),
    )


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
    for (name, node), same in groupby(cards, key=lambda card: (card.gpu.name, card.node)):
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
    available = one.available.expected if one.available else None
    return PlannedRank(one.device.name, one.rank, one.device.node, _gib(total), _gib(available), one.fits, tuple(terms))


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


# ---- commands


def _numbers(request: Request) -> tuple[int, ...]:
    if request.numbers:
        return request.numbers
    seen: dict[str | None, int] = {}
    found = []
    for card in request.cards:
        found.append(seen.get(card.node, 0))
        seen[card.node] = found[-1] + 1
    return tuple(found)


def hosts(request: Request, count: int) -> tuple[fleet.Host, ...]:
    """The hosts of the first cards, each card by its number there."""
    found: dict[str | None, list[str]] = {}
    for card, number in zip(request.cards[:count], _numbers(request), strict=False):
        found.setdefault(card.node, []).append(str(number))
    return tuple(fleet.Host(tuple(devices), node) for node, devices in found.items())


def parts(request: Request, ranks: Ranks, replicas: int, first_port: int = fleet.FIRST_PORT) -> tuple[fleet.Part, ...]:
    """The servers of a layout, on the first cards.

    Raises:
        InputError: The release has no option for it.
    """
    return fleet.instances(
        request.model.name,
        request.data,
        hosts(request, replicas * ranks.cards),
        replicas=replicas,
        split=_split_of(ranks),
        flags=_without_sizes(request.options),
        environment=request.environment,
        first_port=first_port,
    )


def _split_of(ranks: Ranks) -> fleet.Split:
    return fleet.Split(ranks.tensor, ranks.pipeline, ranks.data, ranks.prefill)


def _without_sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    return {dest: value for dest, value in given.items() if dest not in _SIZES.values()}


def _deployment(request: Request, asked: Settings, replicas: int) -> PlannedDeployment | None:
    """The first instance's start; None where this release has no option for it."""
    try:
        first = [part for part in parts(request, asked.ranks, replicas) if not part.instance]
    except InputError:
        return None  # `plan` refuses what was given; of a layout its reasons say why
    sizes = {dest: size for dest, size in _flags(asked.ranks).items() if size > 1}
    return PlannedDeployment(
        request.model.name,
        {dest: _open(dest, value) for dest, value in {**_without_sizes(request.options), **sizes}.items()},
        {
            name: None if value and deployment.is_secret(name, value) else value
            for name, value in first[0].deployment.environment
        },
        fleet.shown(first),
    )


def _open(dest: str, value: Any) -> Any:
    """A value as it may be shown: in place of a secret, its placeholder."""
    if isinstance(value, str):
        return redact.redact_value(value) if deployment.is_secret(dest, value) else value
    return [_open(dest, each) for each in value] if isinstance(value, (list, tuple)) else value


_ANSWERED = {Find.CONTEXT: "max_model_len", Find.UTILIZATION: "gpu_memory_utilization"}
"""By question the option that its plan sets."""


def _effective(request: Request, one: Plan) -> tuple[Request, Layout]:
    """The request as a plan of it came out: its cards in their order, its stages, and what a question answered."""
    flags = one.deployment.flags if one.deployment is not None else {}
    layout = one.layout or Layout(request.replicas, *(int(flags.get(dest, 1)) for dest in _SIZES.values()))
    dest = _ANSWERED.get(one.found.what) if one.found is not None else None
    if dest is not None and dest in flags:
        request = replace(request, options={**request.options, dest: flags[dest]})
    if one.found is not None and one.found.what is Find.GPUS:
        return replace(request, cards=_fewest_cards(request.cards[0], len(one.per_gpu)), replicas=1), layout
    if one.layout is not None:
        sizes = (layout.replicas, layout.tp, layout.pp, layout.dp)
        for way in _ways(request):
            if (way.replicas, way.ranks.tensor, way.ranks.pipeline, way.ranks.data) == sizes:
                return _taken(request, way), layout
    return request, layout


def _servers(request: Request, one: Plan, first_port: int) -> tuple[fleet.Split, tuple[fleet.Part, ...]]:
    taken, layout = _effective(request, one)
    ranks = replace(settings(taken).ranks, tensor=layout.tp, pipeline=layout.pp, data=layout.dp)
    return _split_of(ranks), parts(taken, ranks, layout.replicas, first_port)


def confirmations(
    request: Request, one: Plan, *, first_port: int = fleet.FIRST_PORT
) -> dict[str, confirmation.Confirmation]:
    """How to see after the start that each instance runs as it was split, by its name and host.

    Raises:
        InputError: The release has no option for the layout.
    """
    split, made = _servers(request, one, first_port)
    has_experts = any(isinstance(kind.feed_forward, Experts) for kind in request.model.shape.kinds)
    expected = _expected(request, one)
    found = {}
    for part in made:
        whole = [other for other in made if other.instance == part.instance]
        found[f"{part.name} on {part.node}" if part.node else part.name] = confirmation.confirmation(
            part,
            split,
            request.data,
            hosts=len(part.joined) or len(whole),
            place=whole.index(part),
            has_experts=has_experts,
            expected=expected,
        )
    return found


def _expected(request: Request, one: Plan) -> confirmation.Expected:
    """A plan's figures, as a start prints them."""
    weights = []
    for card in one.per_gpu:
        term = next((term for term in card.terms if term.name == "weights"), None)
        weights.append(_sides(*((term.low_gib, term.expected_gib, term.high_gib) if term is not None else (None,))))
    cache, asked = one.kv_cache, {**request.options, **(one.deployment.flags if one.deployment is not None else {})}
    length = one.options.get("max_model_len", asked.get("max_model_len"))
    tokens, concurrency = _sides(cache.tokens_low, cache.tokens, cache.tokens_high), None
    if tokens is not None and cache.max_concurrency is not None and tokens.expected:
        concurrency = confirmation.Sides(*(cache.max_concurrency * side / tokens.expected for side in tokens))
    # A cache whose size is given is not reported as what was available.
    is_given = asked.get("kv_cache_memory_bytes") is not None
    return confirmation.Expected(
        tuple(weights),
        None if is_given else _sides(cache.low, cache.gib, cache.high),
        tokens,
        concurrency,
        length if isinstance(length, int) and length > 0 else 0,
        settings(request).is_v0,
    )


def _sides(*sides: float | None) -> confirmation.Sides | None:
    low, expected, high = sides if len(sides) == 3 else (None, None, None)
    if low is None or expected is None or high is None:
        return None
    return confirmation.Sides(low, expected, high)


def _told(found: Mapping[str, confirmation.Confirmation], notes: Sequence[str]) -> str:
    """Confirmations as a text."""
    log = "Counts are of one start; a log is the start script's file, the unit's journal or the container's output."
    lines = [*notes, log]
    for name, one in found.items():
        lines += ["", f"{name}: its log ({one.log}) must hold"]
        lines += [
            f"  {line.what}: {line.text}"
            + (f" ({line.times} time{'s' * (line.times > 1)})" if line.times else "")
            + (f"; planned: {line.expected}" if line.expected else "")
            for line in one.lines
        ]
        lines += [f"  {look.what}: {shlex.join(look.words)}: {look.expected}" for look in one.looks]
        lines += [f"  not known: {said}" for said in one.unknown]
    return "\n".join(lines) + "\n"


def deployed(
    request: Request, one: Plan, *, first_port: int = fleet.FIRST_PORT, retries_posts: bool = False
) -> dict[str, str]:
    """The files that start a plan's servers and share requests among them, by name; several hosts have their own.

    Raises:
        InputError: The release has no option for it, or no image.
    """
    _, made = _servers(request, one, first_port)
    doubts = _doubts(one)
    found: dict[str, str] = {}
    nodes = list(dict.fromkeys(part.node for part in made))
    for node in nodes:
        mine = [part for part in made if part.node == node]
        behind = f"-{node}" if len(nodes) > 1 else ""
        found[f"start{behind}.sh"] = fleet.shell(mine, doubts)
        # A container does not find the Ray of its host.
        contained = [part for part in mine if not part.joined]
        if contained:
            found[f"compose{behind}.yaml"] = fleet.compose(contained, doubts)
        found.update({f"systemd{behind}/{name}": text for name, text in fleet.systemd(mine, doubts).items()})
    found.update(fleet.ray(made))
    serving = [part for part in made if part.serves]
    if len(serving) > 1:
        servers = [proxy.Server(part.node or "127.0.0.1", part.port) for part in serving]
        found["nginx.conf"] = proxy.nginx(servers, retries_posts=retries_posts)
    said = dict.fromkeys(said for part in made for said in part.unwritten)
    found["verify.txt"] = _told(confirmations(request, one, first_port=first_port), [*doubts, *said])
    return found


def _doubts(one: Plan) -> tuple[str, ...]:
    """What a plan that does not surely fit says of itself, a sentence each; none where it fits."""
    if one.fits:
        return ()
    missing = {term.name: term.source for card in one.per_gpu for term in card.terms if term.expected_gib is None}
    if len(missing) > 1:
        missing.pop("kv_cache", None)  # follows from the others
    reasons = dict.fromkeys((*(f"{name}: {source}" for name, source in missing.items()), *one.limits))
    verdict = "It is not certain that this plan fits" if one.fits is None else "This plan does not fit"
    return tuple(" ".join(said.split()) for said in (f"{verdict}: {'; '.join(reasons)}" if reasons else verdict,))


_SAID = frozenset({"meaning.architecture-unknown"})
"""Rules whose finding a plan says by itself."""


def faults(
    text: str, knowledge: lint.Knowledge, request: Request, name: str = "command.sh"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the release refuses of a command or file on these cards, and what else is wrong, a sentence each."""
    spec = ",".join(f"{one.count}x{one.name}" + (f"@{one.node}" if one.node else "") for one in _gpus(request.cards))
    issues = lint.lint(text, knowledge, lint.Asked(name, request.release.version, spec)).issues
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


# ---- the other way round


_UNITS = {
    Find.CONTEXT: "tokens",
    Find.CONCURRENCY: "requests",
    Find.GPUS: "cards",
    Find.UTILIZATION: "of the card's memory",
}


def find(request: Request, what: Find, knowledge: lint.Knowledge, smaller: Sequence[Gpu] = ()) -> Plan:
    """The answer to a question asked the other way round, with the plan that the careful side of it leads to.

    Where no layout is given the best one of all is taken. For the fewest cards, `smaller` are other kinds of which one
    alone may suffice, the smallest first.

    Raises:
        InputError: Nothing about it can be planned.
    """
    _check(request)
    if what is Find.GPUS:
        return _fewest(request, knowledge, smaller)
    if any(dest in request.options for dest in _SIZES.values()):
        return _found_for(request, what, knowledge, request.replicas)
    best: Plan | None = None
    for way in _ways(request):
        if not way.legal:
            continue
        split = _split(_taken(request, way), way.ranks, way.replicas)
        one = replace(
            _found_for(split, what, knowledge, way.replicas, is_checked=False),
            layout=Layout(way.replicas, way.ranks.tensor, way.ranks.pipeline, way.ranks.data),
            legal=True,
            reasons=way.reasons,
        )
        if best is None or _is_better(what, one, best):
            best = one
    if best is None:
        raise InputError("this release starts the model in no layout on these cards; see the plan without --find")
    return checked(best, knowledge, request)


def _split(request: Request, ranks: Ranks, replicas: int) -> Request:
    return replace(request, options={**request.options, **_flags(ranks)}, replicas=replicas)


def _is_better(what: Find, one: Plan, other: Plan) -> bool:
    """Whether an answer is more than another; of equal ones the layout that was ranked first stays."""
    sign = -1 if what is Find.UTILIZATION else 1

    def worth(plan: Plan) -> tuple[bool, float]:
        value = plan.found.value if plan.found is not None else None
        return (value is not None, sign * float(value or 0))

    return worth(one) > worth(other)


def _found_for(
    request: Request, what: Find, knowledge: lint.Knowledge, replicas: int, *, is_checked: bool = True
) -> Plan:
    """The answer for the layout that the request gives."""
    ranks = settings(request).ranks
    devices = [Device.of(card) for card in request.cards[: ranks.cards]]
    environment, calibrate = request.variables, request.calibrate

    def make(changes: Mapping[str, Any]) -> Settings:
        given = {**request.options, **changes}
        return settings(replace(request, options={name: value for name, value in given.items() if value is not None}))

    changes: dict[str, Any] = {}
    times = 1
    if what is Find.CONTEXT:
        answer = inverse.longest_context(request.model, make, devices, environment=environment, calibrate=calibrate)
        changes = {"max_model_len": answer.low or answer.expected}
    elif what is Find.UTILIZATION:
        answer = inverse.lowest_utilization(request.model, make, devices, environment=environment, calibrate=calibrate)
        changes = {"gpu_memory_utilization": answer.low or answer.expected}
    else:
        answer = inverse.highest_concurrency(
            request.model, make, devices, make({}).max_model_len, environment=environment, calibrate=calibrate
        )
        times = replicas * ranks.data
    given = {**request.options, **{name: value for name, value in changes.items() if value is not None}}
    made = plan(replace(request, options=given))
    sides = (
        None if side is None else int(side * times) if what is Find.CONTEXT else side * times
        for side in (answer.low, answer.expected, answer.high)
    )
    made = replace(made, found=_found(what, _UNITS[what], tuple(sides), answer.reasons))
    return checked(made, knowledge, request) if is_checked else made


def _fewest(request: Request, knowledge: lint.Knowledge, smaller: Sequence[Gpu]) -> Plan:
    """The fewest cards of the first kind, and the smallest card of which one suffices."""
    first = request.cards[0]
    environment, calibrate = request.variables, request.calibrate
    answer = inverse.fewest_cards(
        request.model,
        _maker(request),
        Device.of(first),
        like=settings(request).ranks,
        environment=environment,
        calibrate=calibrate,
    )
    reasons = list(answer.reasons)
    if smaller:
        one = inverse.smallest_card(
            request.model,
            _maker(request, smaller),
            [Device.of(Card(gpu)) for gpu in smaller],
            environment=environment,
            calibrate=calibrate,
        )
        if one.expected is not None:
            reasons.append("; ".join((f"one card alone: {one.expected.name} is the smallest", *one.reasons)))
    chosen = answer.sure or answer.budget
    ranks = chosen.settings.ranks if chosen is not None else Ranks()
    made = plan(replace(_split(request, ranks, 1), cards=_fewest_cards(first, ranks.cards)))
    found = _found(Find.GPUS, f"cards of {first.gpu.name}", (answer.low, answer.expected, answer.high), tuple(reasons))
    return checked(replace(made, found=found), knowledge, request)


def _fewest_cards(first: Card, count: int) -> tuple[Card, ...]:
    """So many cards of a kind, on hosts of the usual size where one does not suffice."""
    return tuple(replace(first, node=node or first.node) for node in inverse.on_hosts(count))


def _found(what: Find, unit: str, sides: tuple[float | None, ...], reasons: tuple[str, ...]) -> Found:
    """An answer that is sure to hold where there is one, else the one that is expected; least and most beside it."""
    careful, expected, _ = sides
    known = [side for side in sides if side is not None]
    value = expected if careful is None else careful
    return Found(what, value, unit, min(known, default=None), max(known, default=None), reasons)
