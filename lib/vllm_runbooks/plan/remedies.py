"""Remedies of a plan that does not fit: other layouts, options, checkpoints and GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.lint import linting as lint
from vllm_runbooks.plan import inverse, planned
from vllm_runbooks.plan.budget import Budget, PlannedModel, subject, subject_by_name
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.layouts import LayoutChoice
from vllm_runbooks.plan.quantized_names import KnownCheckpoint, QuantizedName, quantized_config, without_ending
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.requests import (
    SIZES,
    PlanningRequest,
    fewest_cards,
    maker,
    settings,
    sizes_of,
    split_as,
    taking,
    ways,
    with_changes,
)
from vllm_runbooks.plan.terms import Band

_MOST = 3
_SEARCHED = 4
"""Number of layouts whose options are changed: those that lack the least memory."""
_SHORT_CONTEXT = 4096
_SHORTENED = 8
"""A context that is shorter by this factor costs more than anything else."""
_NEAR = 0.9
"""A context of this part of the longest is as good: then the better layout decides."""
_LAYOUT_PRICE, _CHECKPOINT_PRICE, _SHORT_PRICE, _GPUS_PRICE = -1, 7, 10, 100
"""Prices relative to those of `inverse.WayOut`, 0 to 8 for a change and their sum for two."""


class RemedyKind(Enum):
    """Kind of change."""

    LAYOUT = "layout"
    """Nothing but parallel sizes that the user chose."""
    OPTIONS = "options"
    CHECKPOINT = "checkpoint"
    """The checkpoint, perhaps with options."""
    GPUS = "gpus"


@dataclass(frozen=True)
class PlanRemedy:
    """A change with which a model fits."""

    plan: Plan
    """The changed plan, its command linted; without a command if the change is a checkpoint that has no name."""
    budget: Budget
    """Budget of one replica."""
    copies: int
    kind: RemedyKind
    price: int
    costs: tuple[str, ...]
    """Cost of each change."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Options by argparse destination, and environment variables."""
    checkpoint: str = ""
    """Another checkpoint: its name, else its description."""
    gpus: int | None = None
    """GPUs, where more are needed."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the linter warns of the command."""
        return bool(planned.warnings(self.plan))

    @property
    def context(self) -> int:
        """`max_model_len` of the changed plan; with `auto` the length that vLLM fits."""
        return _context(self.budget)

    def concurrency(self, tokens: int) -> float | None:
        """Concurrent requests of `tokens` over all replicas; None if unknown."""
        pool, blocks = self.budget.pool, self.budget.blocks
        if pool is None or blocks is None:
            return None
        return pool.concurrency(blocks.expected, tokens) * self.copies * self.budget.settings.ranks.data


def _context(budget: Budget) -> int:
    scheduler = budget.settings.scheduler
    fitted = budget.longest if scheduler.is_length_fitted else None
    return scheduler.max_model_len if fitted is None else fitted.expected


def remedies(
    request: PlanningRequest, answer: Plan | Layouts, knowledge: lint.Knowledge, specs: Specs
) -> tuple[PlanRemedy, ...]:
    """Cheapest changes that make a plan fit, one of each kind; none is known to fail.

    Certain changes come first, then those without a linter warning. For a plan that may fit, only
    changes that make it certain are listed.
    """
    if answer.fits:
        return ()
    free = replace(request, options={dest: value for dest, value in request.options.items() if dest not in _SIZES})
    lint_all = partial(_linted, knowledge, request, is_sure=answer.fits is None)
    found = lint_all(_of_options(free, request))
    if any(remedy.kind is RemedyKind.LAYOUT for remedy in found):
        return _chosen(found)
    if free.cards[0].gpu.vendor == "cpu":  # quantized weights are not planned there, nor is a host with more sockets
        return _chosen(found)
    chosen = _chosen([*found, *lint_all(_of_checkpoints(free, specs))])
    if len(chosen) == _MOST and not all(remedy.checkpoint for remedy in chosen):
        return chosen
    return _chosen([*chosen, *lint_all(_of_more_gpus(free))])


def _linted(
    knowledge: lint.Knowledge, request: PlanningRequest, found: Iterable[PlanRemedy], *, is_sure: bool
) -> list[PlanRemedy]:
    """The changes that fit, or may fit unless they have to be sure, and that the release accepts."""
    linted = []
    for remedy in found:
        cards = request.cards if remedy.gpus is None else fewest_cards(request.cards[0], remedy.gpus)
        plan = planned.checked(remedy.plan, knowledge, replace(request, cards=cards))
        if plan.fits or (plan.fits is None and remedy.context and not is_sure):
            linted.append(replace(remedy, plan=plan))
    return linted


def _chosen(found: Iterable[PlanRemedy]) -> tuple[PlanRemedy, ...]:
    """The cheapest of each kind, at least one of them with the same checkpoint."""
    chosen: list[PlanRemedy] = []
    for remedy in sorted(found, key=lambda remedy: (remedy.plan.fits is not True, remedy.is_doubtful, remedy.price)):
        if not any(_is_enough(other, remedy) for other in chosen):
            chosen.append(remedy)
    same = next((remedy for remedy in chosen[_MOST:] if not remedy.checkpoint), None)
    if same is not None and all(remedy.checkpoint for remedy in chosen[:_MOST]):
        return (*chosen[: _MOST - 1], same)
    return tuple(chosen[:_MOST])


_SIZES = frozenset(SIZES.values())


def _is_enough(other: PlanRemedy, remedy: PlanRemedy) -> bool:
    """Whether a change is that of another and more, or may fit as little as another of its kind."""
    if other.kind is RemedyKind.LAYOUT or other.kind is not remedy.kind:
        return False
    return set(other.changes) <= set(remedy.changes) or not (other.plan.fits or remedy.plan.fits)


def _remedies(
    request: PlanningRequest,
    way: LayoutChoice | None,
    kind: RemedyKind,
    price: int,
    costs: tuple[str, ...],
    **more: Any,
) -> Iterator[PlanRemedy]:
    if way is not None and way.budget is not None:
        yield PlanRemedy(planned.layout_plan(request, way), way.budget, way.replicas, kind, price, costs, **more)


def _fitting(ranked: Iterable[LayoutChoice]) -> LayoutChoice | None:
    """The best layout that is sure to fit."""
    return next((way for way in ranked if way.legal and way.fits), None)


# ---- options


def _of_options(free: PlanningRequest, request: PlanningRequest) -> Iterator[PlanRemedy]:
    """Layouts that fit, and the best layout for each change of options."""
    legal = [way for way in ways(free) if way.legal and not way.is_twin]
    if len(free.options) < len(request.options):
        costs = ("different parallel sizes",)
        yield from _remedies(free, _fitting(legal), RemedyKind.LAYOUT, _LAYOUT_PRICE, costs)
        asked = sizes_of(settings(request).ranks)
        legal = [way for way in legal if sizes_of(way.ranks) == asked] or legal
    lacking = [(margin.expected, way) for way in legal if not way.fits and (margin := _margin(way.budget)) is not None]
    nearest = sorted(lacking, key=lambda pair: -pair[0])[:_SEARCHED]
    kinds: dict[frozenset[str], list[tuple[LayoutChoice, inverse.WayOut]]] = {}
    for _, way in sorted(nearest, key=lambda pair: legal.index(pair[1])):
        split = split_as(taking(free, way), way.ranks, way.replicas)
        for change in inverse.ways_out(
            free.model,
            partial(settings, split),
            way.devices,
            split.options,
            environment=split.variables,
            calibrate=split.calibrate,
        ):
            if _SIZES.isdisjoint(change.changes):
                kinds.setdefault(frozenset(change.changes), []).append((way, change))
    whole = settings(free).scheduler.max_model_len
    for pairs in kinds.values():
        way, change = _best(pairs)
        context = _context(change.budget)
        is_short = context < min(whole, max(_SHORT_CONTEXT, whole // _SHORTENED))
        changed = with_changes(free, change.changes)
        chosen = replace(way, budget=change.budget, speed=None, concurrency_total=None)
        price = _SHORT_PRICE + change.price if is_short else change.price
        yield from _remedies(changed, chosen, RemedyKind.OPTIONS, price, change.costs, changes=change.changes)


def _margin(budget: Budget | None) -> Band | None:
    """Bytes that are left after one request; None if unknown, or no option helps: the weights alone are too large."""
    if budget is None:
        return None
    for rank in budget.ranks:
        weights = next((term.band for term in rank.terms if term.name == "weights"), None)
        if weights is not None and rank.device.total is not None and weights.low > rank.device.total.high:
            return None
    return inverse.margin(budget)


def _best(pairs: list[tuple[LayoutChoice, inverse.WayOut]]) -> tuple[LayoutChoice, inverse.WayOut]:
    """The layout for one kind of change, of layouts in their order: sure, then about the longest context."""
    sure = [pair for pair in pairs if pair[1].fits] or pairs
    longest = max(_context(change.budget) for _, change in sure)
    return next(pair for pair in sure if _context(pair[1].budget) >= longest * _NEAR)


# ---- other checkpoints, more GPUs

_OF_REPOSITORY = frozenset({"revision", "code_revision", "tokenizer_revision", "hf_config_path", "load_format"})
"""Options about the files of a repository, which another one has not."""


def _of_checkpoints(free: PlanningRequest, specs: Specs) -> Iterator[PlanRemedy]:
    """Quantized checkpoints of the model, the largest first; else one that has no name, with FP8 or INT4 weights."""
    model = free.model
    if model.shape.quantization is not None or not {"quantization", "hf_overrides"}.isdisjoint(free.options):
        return
    if settings(free).dtype == "float32":
        return  # Marlin's kernels need 16-bit activations (https://github.com/vllm-project/vllm/issues/28843)
    if not {"quantization_config", "compression_config"}.isdisjoint(model.config):
        return  # by a method that is unknown
    checkpoints, fitting = tuple(_quantized(model, specs)), list[PlanRemedy]()
    options = {dest: value for dest, value in free.options.items() if dest not in _OF_REPOSITORY}
    for checkpoint in checkpoints:
        changed = replace(free, model=replace(checkpoint, draft=model.draft), options=options)
        fitting += _of_checkpoint(changed, checkpoint.name, _cost(model, checkpoint))
    # Without changes: least loss first; with changes: longest context first.
    yield from sorted(fitting, key=lambda remedy: -remedy.context if remedy.changes else -_weights(remedy))
    if not checkpoints:
        changed = replace(free, options={**free.options, "quantization": "fp8"})
        fitting += _of_checkpoint(changed, "an FP8 checkpoint", "needs that checkpoint", may_change=False)
        yield from _unnamed(fitting)
    if not fitting:
        config = quantized_config(model.config, load_table("quantized_names", QuantizedName)["w4a16"])
        small = subject(model.name, config, is_partial=model.is_partial, source=model.source)
        changed = replace(free, model=replace(small, draft=model.draft))
        yield from _unnamed(
            _of_checkpoint(changed, "a 4-bit checkpoint", "less accurate: 4-bit weights; needs that checkpoint")
        )


def _cost(model: PlannedModel, checkpoint: PlannedModel) -> str:
    """Cost of a quantized checkpoint, with its organization if that is not the model's."""
    own, organization = (name.rpartition("/")[0] for name in (model.name, checkpoint.name))
    origin = f": quantized by {organization}" if own != organization else ""
    if checkpoint.is_assumed:
        return f"less accurate{origin}; usual layout assumed"
    return f"less accurate{origin or ': quantized weights'}"


def _of_checkpoint(changed: PlanningRequest, name: str, cost: str, *, may_change: bool = True) -> Iterator[PlanRemedy]:
    """The best layout for a checkpoint as the options are, else with changed options."""
    whole = list(_remedies(changed, _fitting(ways(changed)), RemedyKind.CHECKPOINT, 0, ()))
    for remedy in whole or (_of_options(changed, changed) if may_change else ()):
        costs, price = (*remedy.costs, cost), _CHECKPOINT_PRICE + remedy.price
        yield replace(remedy, kind=RemedyKind.CHECKPOINT, price=price, costs=costs, checkpoint=name)


def _unnamed(found: Iterable[PlanRemedy]) -> Iterator[PlanRemedy]:
    """The cheapest one that is sure, without a command: the checkpoint has no name."""
    sure = (remedy for remedy in found if remedy.plan.fits)
    for remedy in sorted(sure, key=lambda remedy: remedy.price)[:1]:
        yield replace(remedy, plan=replace(remedy.plan, deployment=None))


def _weights(remedy: PlanRemedy) -> int:
    """Bytes of the weights of one copy."""
    terms = (term for rank in remedy.budget.ranks for term in rank.terms if term.name == "weights" and term.band)
    return sum(term.band.expected for term in terms if term.band is not None)


def _quantized(model: PlannedModel, specs: Specs) -> Iterator[PlannedModel]:
    """Known checkpoints that have the model's name with a quantization's ending, and its layers."""
    shape = model.shape
    own = model.name.rstrip("/").rpartition("/")[2].casefold()
    for name in (*specs.texts, *load_table("quantized_checkpoints", KnownCheckpoint)):
        last = name.rpartition("/")[2].casefold()
        if not last.startswith(own) or (found := without_ending(last)) is None or found[0] != own:
            continue
        other = subject_by_name(name, specs)
        if other is None or other.shape.quantization is None:
            continue
        sizes = (other.shape.layers, other.shape.hidden_size, other.shape.vocabulary_size, other.shape.architecture)
        if sizes == (shape.layers, shape.hidden_size, shape.vocabulary_size, shape.architecture):
            config = {**model.config, **other.config}  # a log of a checkpoint rarely prints all of its configuration
            made = subject(other.name, config, is_partial=model.is_partial, source=other.source)
            yield replace(made, is_assumed=other.is_assumed)


def _of_more_gpus(free: PlanningRequest) -> Iterator[PlanRemedy]:
    """The fewest GPUs of the same kind, on one host or up to twice as many; none for a fleet."""
    if len({card.gpu.name for card in free.cards}) > 1 or len(free.cards) > inverse.MOST_CARDS:
        return
    result = inverse.fewest_cards(
        free.model,
        maker(free),
        Device.of(free.cards[0]),
        most=max(inverse.HOST_CARDS, 2 * len(free.cards)),
        like=settings(free).ranks,
        environment=free.variables,
        calibrate=free.calibrate,
    )
    if (made := result.sure or result.budget) is None or made.fits is False:
        return
    ranks = made.settings.ranks
    if ranks.cards <= len(free.cards):
        return
    changed = replace(split_as(free, ranks, 1), cards=fewest_cards(free.cards[0], ranks.cards), numbers=())
    more = ranks.cards - len(free.cards)
    costs = (f"{more} more GPU{'s' * (more > 1)}",)
    yield PlanRemedy(planned.plan(changed), made, 1, RemedyKind.GPUS, _GPUS_PRICE, costs, gpus=ranks.cards)
