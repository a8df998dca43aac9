"""Planning requests and their evaluation: settings, budgets, and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.options import ReleaseData
from vllm_runbooks.catalog.room import of_share
from vllm_runbooks.catalog.specs import Gpu, HostGpu
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.plan import inverse
from vllm_runbooks.plan import layouts as _layouts
from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel, budget, settled_on
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.network import Network
from vllm_runbooks.plan.records import ParallelLayout
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.terms import GIB
from vllm_runbooks.plan.weights import Ranks

SIZES = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size"}
"""By a size's field in a `ParallelLayout` its option, by argparse destination."""


@dataclass(frozen=True)
class NodePlace:
    """A host as the servers of a plan need to know it."""

    address: str | None = None
    """Address for the other hosts; None to use its name."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that only this host needs, or that differ on it."""


@dataclass(frozen=True, eq=False)
class PlanningRequest:
    """A planning request."""

    model: PlannedModel
    cards: tuple[HostGpu, ...]
    release: CommandRelease
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """Variables of the launch; None for values that are set at launch, such as secrets."""
    calibrate: Calibrate | None = None
    """Corrects the terms by measurements of earlier launches."""
    replicas: int = 1
    numbers: tuple[int, ...] = ()
    """Index of each GPU on its host; empty for the order of the input."""
    places: Mapping[str, NodePlace] = field(default_factory=dict)
    """Facts of each host other than its GPUs, by host name."""
    master_port: int | None = None
    """Rendezvous port of the hosts of one server; None for the release's default."""
    by_ray: bool | None = None
    """Whether Ray joins hosts; None to use Ray only if the release cannot join them itself."""
    network: Network = field(default_factory=dict)

    @property
    def data(self) -> ReleaseData:
        """The release's own."""
        return options.load(self.release.version)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """Variables with known values."""
        return {name: value for name, value in self.environment.items() if value is not None}

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """Index of each GPU on its host, in the order of the input."""
        seen: dict[str | None, int] = {}
        numbers = []
        for card in self.cards:
            numbers.append(seen.get(card.node, 0) if card.number is None else card.number)
            seen[card.node] = numbers[-1] + 1
        return tuple(numbers)


def release_of(version: str | None) -> CommandRelease:
    """Release to plan for: the given one, else the newest in the catalog.

    Raises:
        InputError: The text is not a version.
    """
    if version is None:
        newest = options.known_releases()[-1]
        return CommandRelease(newest, "newest", newest)
    data = options.load(version)
    return CommandRelease(data.asked, "given", data.version)


def settings(
    request: PlanningRequest, more: Mapping[str, Any] | None = None, *, gpu: Gpu | None = None
) -> LaunchSettings:
    """Settle the launch, with `more` overriding its options and variables."""
    first = gpu or (request.cards[0].gpu if request.cards else None)
    made = with_changes(request, more) if more else request
    return settled_on(made.model, made.options, made.release.version, first, environment=made.variables)


def with_changes(request: PlanningRequest, changes: Mapping[str, Any]) -> PlanningRequest:
    """The request with options, by argparse destination, and environment variables changed."""
    variables = {name: value for name, value in changes.items() if name.isupper()}
    others = {name: value for name, value in changes.items() if name not in variables}
    return replace(request, options={**request.options, **others}, environment={**request.environment, **variables})


def budget_of(request: PlanningRequest, settled: LaunchSettings, devices: Sequence[Device]) -> Budget:
    """The memory of one replica."""
    return budget(request.model, settled, devices, environment=request.variables, calibrate=request.calibrate)


def check(request: PlanningRequest) -> None:
    """Reject a request that cannot be planned.

    Raises:
        InputError: The model's layers are unknown, there is no GPU, or they need several builds of vLLM.
    """
    shape = request.model.shape
    if not shape.pattern:
        missing = ", ".join(shape.missing) or "its layers"
        size = request.model.checkpoint_bytes
        weights = f"; its files have {size / GIB:.2f} GiB of weights" if size else ""
        raise InputError(f"{request.model.name}: cannot be planned; unknown: {missing}{weights}")
    if not request.cards:
        raise InputError("no GPUs given; use --gpus, as in --gpus 8xRTX3090")
    if len({card.gpu.vendor for card in request.cards}) > 1:
        raise InputError(
            "--gpus: NVIDIA GPUs, AMD GPUs and CPUs need different builds of vLLM; plan each kind by itself"
        )


def sizes_of(ranks: Ranks) -> dict[str, Any]:
    """The options that split a model so."""
    return dict(zip(SIZES.values(), (ranks.tensor, ranks.pipeline, ranks.data), strict=True))


def split_as(request: PlanningRequest, ranks: Ranks, replicas: int) -> PlanningRequest:
    """The request with this number of replicas and split."""
    return replace(request, options={**request.options, **sizes_of(ranks)}, replicas=replicas)


def maker(request: PlanningRequest, gpus: Iterable[Gpu] = ()) -> _layouts.Make:
    """Build a function that settles the launch for another split on other GPUs."""
    by_name = {gpu.name: gpu for gpu in (*gpus, *(card.gpu for card in request.cards))}

    def make(ranks: Ranks, first: Device) -> LaunchSettings:
        return settings(request, sizes_of(ranks), gpu=by_name[first.name])

    return make


def ways(request: PlanningRequest) -> tuple[_layouts.LayoutChoice, ...]:
    """Every layout on the GPUs, the best first.

    Inspected GPUs with too little or unknown free memory are left out as long as the model fits
    without them.
    """
    ranked: tuple[_layouts.LayoutChoice, ...] = ()
    for places in _choices(request):
        ranked = _ways(request, places)
        if any(way.legal and way.fits is not False for way in ranked):
            break
    return ranked


LEFT_OUT = "left out, as they are in use or their use is unknown"
"""Prefix of the reason that names unused GPUs."""


def _ways(request: PlanningRequest, places: Sequence[int]) -> tuple[_layouts.LayoutChoice, ...]:
    # Most GPUs of a large request are one object.
    devices = {key: Device.of(card) for key, card in {id(card): card for card in request.cards}.items()}
    ranked = _layouts.ways(
        request.model,
        maker(request),
        [devices[id(request.cards[place])] for place in places],
        like=settings(request).ranks,
        environment=request.variables,
        calibrate=request.calibrate,
        network=request.network,
    )
    left = sorted({*range(len(request.cards))} - {*places})
    if not left:
        return ranked
    numbers = numbers_of(request)
    reason = f"{LEFT_OUT}: GPU {', '.join(str(numbers[place]) for place in left)}"
    return tuple(
        replace(
            way,
            places=tuple(tuple(places[place] for place in copy) for copy in way.places),
            idle=way.idle + len(left),
            reasons=(*way.reasons, reason),
        )
        for way in ranked
    )


def _choices(request: PlanningRequest) -> Iterator[list[int]]:
    share = settings(request).utilization
    states = [is_free(card, share) for card in request.cards]
    sizes = set()
    for allowed in ((True,), (True, None), (True, None, False)):
        places = [place for place, state in enumerate(states) if state in allowed]
        if places and len(places) not in sizes:
            sizes.add(len(places))
            yield places


def is_free(card: HostGpu, share: float) -> bool | None:
    """Whether a share of a GPU's memory is free; None if inspected, but with unknown usage."""
    if card.number is None:
        return True
    if card.used_gib is None or card.gpu.total is None:
        return None
    return of_share(card.gpu.total.expected, card.used_gib, share).is_enough


def freest_first(cards: Sequence[HostGpu]) -> tuple[HostGpu, ...]:
    """GPUs in the order of their hosts, inspected ones by memory in use, the least first.

    GPUs of unknown usage come last.
    """
    nodes = list(dict.fromkeys(card.node for card in cards))
    return tuple(sorted(cards, key=lambda card: (nodes.index(card.node), *_use(card))))


def _use(card: HostGpu) -> tuple[bool, float]:
    if card.number is None:
        return False, 0.0
    return card.used_gib is None, card.used_gib or 0.0


def layout_of(way: _layouts.LayoutChoice) -> ParallelLayout:
    """The sizes of a way."""
    return ParallelLayout(way.replicas, way.ranks.tensor, way.ranks.pipeline, way.ranks.data)


def stages_of(request: PlanningRequest) -> tuple[int, ...] | None:
    """Layers per stage if uneven stages of unequal GPUs fit more requests; None otherwise.

    None also for a given split.
    """
    ranks = settings(request).ranks
    devices = [Device.of(card) for card in request.cards[: ranks.cards]]
    if ranks.pipeline < 2 or ranks.partition is not None or len(devices) < ranks.cards:
        return None
    made = _layouts.staged(
        request.model,
        maker(request),
        ranks,
        devices,
        environment=request.variables,
        calibrate=request.calibrate,
    )
    return made.settings.ranks.partition


def taking(request: PlanningRequest, way: _layouts.LayoutChoice) -> PlanningRequest:
    """The request with the GPUs of a layout, replica by replica, and its variables."""
    places = [place for copy in way.places for place in copy]
    return replace(
        request,
        cards=tuple(map(request.cards.__getitem__, places)),
        numbers=tuple(map(numbers_of(request).__getitem__, places)),
        environment={**request.environment, **way.environment},
    )


def numbers_of(request: PlanningRequest) -> tuple[int, ...]:
    """Index of each GPU on its host."""
    return request.numbers or request.counted


def fewest_cards(first: HostGpu, count: int) -> tuple[HostGpu, ...]:
    """`count` GPUs of a kind, on hosts of the usual size if one is not enough."""
    return tuple(
        replace(first, node=node or first.node, number=None, used_gib=None) for node in inverse.on_hosts(count)
    )
