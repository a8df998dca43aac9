"""Plans for a model on cards, as records: budgets, layouts, questions the other way round, commands checked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from vllm_runbooks import deployment, lint, options, proxy
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
from vllm_runbooks.planning.budget import Budget, Calibrate, Device, RankBudget, Subject, budget
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.shape import Experts
from vllm_runbooks.planning.terms import GIB, Band, Term
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
    environment: Mapping[str, str] = field(default_factory=dict)
    calibrate: Calibrate | None = None
    """Corrects the terms by what earlier starts printed."""
    replicas: int = 1

    @property
    def data(self) -> ReleaseData:
        """The release's own."""
        return options.load(self.release.version)


def device(card: Card) -> Device:
    """A card as budgets need it."""
    gpu, total = card.gpu, card.gpu.total
    return Device(
        gpu.name,
        Band(*(int(side * GIB) for side in (total.low, total.expected, total.high))) if total else None,
        total.source if total else "no source says what its driver leaves",
        card.node,
        gpu.version,
        gpu.interconnect,
        gpu.memory_bandwidth_gb_s,
    )


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
        environment=request.environment,
        gpu_name=(first.aliases or (first.name,))[0] if first else None,
        memory_gib=first.memory_gib if first else None,
        capability=first.version if first else None,
        config=request.model.config,
    )


def budget_of(request: Request, asked: Settings, devices: Sequence[Device]) -> Budget:
    """The memory of one replica."""
    return budget(request.model, asked, devices, environment=request.environment, calibrate=request.calibrate)


def plan(request: Request) -> Plan:
    """One start as it is asked for, on the first cards that it needs.

    Raises:
        InputError: Nothing about it can be planned.
    """
    _check(request)
    asked = settings(request)
    devices = [device(card) for card in request.cards]
    need = asked.ranks.tensor * asked.ranks.pipeline * asked.ranks.data
    if need > len(devices):
        raise InputError(
            f"the start takes {need} cards (tensor x pipeline x data parallel), {len(devices)} are given; "
            f"give --gpus {need}x… or smaller parallel sizes"
        )
    illegal = _layouts.illegal(request.model, asked.ranks, asked.key, devices[:need])
    made = _plan(request, asked, devices[:need], budget_of(request, asked, devices[:need]))
    idle = len(devices) - need * request.replicas
    said = (f"{idle} of the {len(devices)} cards stay idle",) if idle > 0 else ()
    if illegal:
        return replace(made, fits=False, limits=(*illegal, *made.limits, *said))
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


def layouts(request: Request) -> Layouts:
    """Every way to use the cards, the best first.

    Raises:
        InputError: Nothing about it can be planned.
    """
    _check(request)
    devices = [device(card) for card in request.cards]
    plans = []
    for way in _ways(request, devices):
        asked = way.budget.settings if way.budget is not None else settings(request, _flags(way.ranks))
        one = _plan(request, asked, way.devices, way.budget, replicas=way.replicas)
        speed = Speed(way.speed.tokens_per_s, way.speed.basis) if way.speed is not None else None
        concurrency = one.kv_cache.max_concurrency
        plans.append(
            replace(
                one,
                fits=one.fits if way.legal else False,
                layout=Layout(way.replicas, way.ranks.tensor, way.ranks.pipeline, way.ranks.data),
                legal=way.legal,
                reasons=(*way.why_not, *way.reasons),
                limits=one.limits if way.legal else way.why_not,
                speed=speed,
                total_concurrency=None
                if concurrency is None or not way.legal
                else concurrency * way.replicas * way.ranks.data,
            )
        )
    fits = [one.fits for one in plans if one.legal]
    verdict = True if True in fits else None if None in fits else False
    return Layouts(request.model.name, request.release, _gpus(request.cards), verdict, tuple(plans))


def _flags(ranks: Ranks) -> dict[str, Any]:
    return {
        "tensor_parallel_size": ranks.tensor,
        "pipeline_parallel_size": ranks.pipeline,
        "data_parallel_size": ranks.data,
    }


def _ways(request: Request, devices: Sequence[Device]) -> Sequence[_layouts.Way]:
    def make(ranks: Ranks) -> Settings:
        return settings(request, _flags(ranks))

    return _layouts.ways(request.model, make, devices, calibrate=request.calibrate, environment=request.environment)


# ---- records


def _plan(
    request: Request, asked: Settings, devices: Sequence[Device], made: Budget | None, replicas: int | None = None
) -> Plan:
    count = request.replicas if replicas is None else replicas
    ranks = () if made is None else made.ranks
    cards = request.cards[: len(devices) * count]
    return Plan(
        model=request.model.name,
        vllm=request.release,
        gpus=_gpus(cards),
        fits=made.fits if made is not None else False,
        per_gpu=tuple(_rank(one, made) for one in ranks if made is not None),
        kv_cache=_cache(made),
        limits=made.limits if made is not None else (),
        deployment=_deployment(request, asked, devices, count),
        calibration=Calibration(request.calibrate is not None, made.calibrated if made is not None else ()),
        options=_settled(request, asked),
    )


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
        return PlannedCache(*(None,) * 13)
    low, expected, high = (min(side) for side in made.available)
    pool, blocks = made.pool, made.blocks
    if pool is None or blocks is None:
        return PlannedCache(_gib(expected), _gib(low), _gib(high), *(None,) * 10)
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


def hosts(cards: Sequence[Card]) -> tuple[fleet.Host, ...]:
    """The hosts of cards, each card by its number there."""
    found: dict[str | None, list[str]] = {}
    for card in cards:
        of = found.setdefault(card.node, [])
        of.append(str(len(of)))
    return tuple(fleet.Host(tuple(devices), node) for node, devices in found.items())


def parts(
    request: Request, ranks: Ranks, cards: Sequence[Card], replicas: int, first_port: int = fleet.FIRST_PORT
) -> tuple[fleet.Part, ...]:
    """The servers of a layout.

    Raises:
        InputError: The release has no option for it.
    """
    return fleet.instances(
        request.model.name,
        request.data,
        hosts(cards),
        replicas=replicas,
        split=fleet.Split(ranks.tensor, ranks.pipeline, ranks.data),
        flags=_without_sizes(request.options),
        environment=request.environment,
        first_port=first_port,
    )


def _without_sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    return {dest: value for dest, value in given.items() if dest not in _SIZES.values()}


def _deployment(
    request: Request, asked: Settings, devices: Sequence[Device], replicas: int
) -> PlannedDeployment | None:
    """The first instance's start; None where this release has no option for it."""
    cards = request.cards[: len(devices) * replicas]
    try:
        first = parts(request, asked.ranks, cards, replicas)[0].deployment
    except InputError:
        return None
    sizes = {dest: size for dest, size in _flags(asked.ranks).items() if size > 1}
    return PlannedDeployment(
        request.model.name,
        {**_without_sizes(request.options), **sizes},
        dict(first.environment),
        deployment.to_shell(first),
    )


def _servers(request: Request, one: Plan, first_port: int) -> tuple[fleet.Split, tuple[fleet.Part, ...]]:
    layout = one.layout or Layout(request.replicas, *(int(request.options.get(dest, 1)) for dest in _SIZES.values()))
    ranks = Ranks(layout.tp, layout.pp, layout.dp)
    split = fleet.Split(layout.tp, layout.pp, layout.dp)
    cards = request.cards[: layout.replicas * split.cards]
    return split, parts(request, ranks, cards, layout.replicas, first_port)


def confirmations(
    request: Request, one: Plan, *, first_port: int = fleet.FIRST_PORT
) -> dict[str, confirmation.Confirmation]:
    """How to see after the start that each instance runs as it was split, by the instance's name.

    Raises:
        InputError: The release has no option for the layout.
    """
    split, made = _servers(request, one, first_port)
    has_experts = any(isinstance(kind.feed_forward, Experts) for kind in request.model.shape.kinds)
    found = {}
    for part in made:
        if part.serves:
            over = sum(other.instance == part.instance for other in made)
            found[part.name] = confirmation.confirmation(part, split, request.data, hosts=over, has_experts=has_experts)
    return found


def _told(found: Mapping[str, confirmation.Confirmation]) -> str:
    """Confirmations as a text."""
    lines = []
    for name, one in found.items():
        lines.append(f"{name}: its log must hold")
        lines += [
            f"  {line.what}: {line.text}" + (f" ({line.times} times)" if line.times else "") for line in one.lines
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
    found: dict[str, str] = {}
    nodes = list(dict.fromkeys(part.node for part in made))
    for node in nodes:
        mine = [part for part in made if part.node == node]
        behind = f"-{node}" if len(nodes) > 1 else ""
        found[f"start{behind}.sh"] = fleet.shell(mine)
        found[f"compose{behind}.yaml"] = fleet.compose(mine)
        found.update({f"systemd{behind}/{name}": text for name, text in fleet.systemd(mine).items()})
    serving = [part for part in made if part.serves]
    if len(serving) > 1:
        servers = [proxy.Server(part.node or "127.0.0.1", part.port) for part in serving]
        found["nginx.conf"] = proxy.nginx(servers, retries_posts=retries_posts)
    found["verify.txt"] = _told(confirmations(request, one, first_port=first_port))
    return found


def faults(
    text: str, knowledge: lint.Knowledge, request: Request, name: str = "command.sh"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Errors and warnings of a command or file on the release and these cards, a sentence each."""
    spec = ",".join(f"{one.count}x{one.name}" + (f"@{one.node}" if one.node else "") for one in _gpus(request.cards))
    issues = lint.lint(text, knowledge, lint.Asked(name, request.release.version, spec)).issues
    errors = tuple(issue.message for issue in issues if issue.severity is IssueSeverity.ERROR)
    return errors, tuple(issue.message for issue in issues if issue.severity is IssueSeverity.WARNING)


def checked(found: Plan, knowledge: lint.Knowledge, request: Request) -> Plan:
    """The plan with its command linted: one that the release refuses is not shown, and why is said."""
    if found.deployment is None:
        return found
    errors, warnings = faults(found.deployment.command, knowledge, request)
    said = tuple(f"the command: {one}" for one in (*errors, *warnings))
    shown = None if errors else found.deployment
    return replace(found, deployment=shown, limits=(*found.limits, *said))


# ---- the other way round


def find(request: Request, what: Find, cards: Callable[[], Sequence[Gpu]]) -> Found:
    """The answer to a question asked the other way round; `cards` are those that may be proposed."""
    raise NotImplementedError


_INVERSE = inverse
