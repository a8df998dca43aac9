"""A start's memory, card by card: what each part takes, what is left for the KV cache, and what the cache then holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil
from typing import Any

from vllm_runbooks.planning import costs
from vllm_runbooks.planning.encoder_profile import EncoderProfile, profile
from vllm_runbooks.planning.kv_cache import Demand, KvPool, KvRefusedError, KvUnknownError, pool, rules
from vllm_runbooks.planning.kv_layers import CacheOptions, kv_layers
from vllm_runbooks.planning.settings import Settings
from vllm_runbooks.planning.shape import Shape, shape
from vllm_runbooks.planning.terms import GIB, NOTHING, Band, Term
from vllm_runbooks.planning.weights import Inventory, Ranks, inventory, load, stages

_KEPT_POOLS = 4096


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, read once for any number of budgets."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    shape: Shape
    source: str | None = None
    """Where the configuration can be opened."""

    @cached_property
    def stock(self) -> Inventory:
        """Its tensors."""
        return inventory(self.shape)


def subject(name: str, config: Mapping[str, Any], *, is_partial: bool = False, source: str | None = None) -> Subject:
    """A model from its configuration; with `is_partial` what the configuration leaves out is unknown."""
    return Subject(name, config, shape(config, is_partial=is_partial), source)


@dataclass(frozen=True)
class Device:
    """A card that a rank runs on."""

    name: str
    total: Band | None
    """Bytes that the driver reports; None: not known."""
    total_source: str = ""
    node: str | None = None
    capability: tuple[int, int] | None = None
    interconnect: str | None = None
    """Between the cards of one host: "nvlink", "nvlink-bridge" or "pcie"; None: not known."""
    bandwidth_gb_s: float | None = None
    """Of its memory, 10^9 bytes a second."""


@dataclass(frozen=True)
class RankBudget:
    """One card of one replica; bytes."""

    rank: int
    stage: int
    device: Device
    terms: tuple[Term, ...]
    requested: Band | None
    """What the utilisation allows vLLM."""
    available: Band | None
    """Of it for the cache; may be below zero. None: a term is not known."""
    captured: Term
    """What capturing CUDA graphs takes beyond that, when the cache is made."""
    fits: bool | None
    """Whether this card has room for its share of one request, None: not known or too close."""


@dataclass(frozen=True)
class Budget:
    """All cards of one replica, and the cache that the smallest of them decides."""

    settings: Settings
    ranks: tuple[RankBudget, ...]
    pool: KvPool | None
    """None: what the cache needs is not known, or the release refuses it."""
    encoder: EncoderProfile | None
    fits: bool | None
    limits: tuple[str, ...]
    """What decides, a sentence each; what is missing is named."""

    def _available(self, side: int) -> tuple[int, ...] | None:
        """Bytes for the cache on the poorest card of each stage, by the low (0), expected (1) or high (2) reckoning."""
        least: dict[int, int] = {}
        for rank in self.ranks:
            if rank.available is None:
                return None
            least[rank.stage] = min(least.get(rank.stage, rank.available[side]), rank.available[side])
        return tuple(least[stage] for stage in sorted(least))

    @cached_property
    def available(self) -> tuple[tuple[int, ...], ...] | None:
        """Bytes for the cache by stage: low, expected and high; None: not known."""
        sides = [self._available(side) for side in range(3)]
        return None if None in sides else tuple(side for side in sides if side is not None)

    @cached_property
    def blocks(self) -> Band | None:
        """Blocks of the cache on every card; 0 where nothing is left."""
        if self.pool is None or self.available is None:
            return None
        low, expected, high = (self.pool.blocks(side) for side in self.available)
        return Band(low, expected, high)

    @cached_property
    def longest(self) -> Band | None:
        """Tokens of the longest request that is served, at most `max_model_len`."""
        if self.pool is None or self.available is None:
            return None
        low, expected, high = (self.pool.longest_context(side) for side in self.available)
        return Band(low, expected, high)


def _device_wide(total: Band, settings: Settings) -> Band:
    """What the utilisation allows of a card."""
    low, expected, high = (ceil(side * settings.utilization) for side in total)
    return Band(low, expected, high)


def _summed(terms: Sequence[Term]) -> Band | None:
    total = NOTHING
    for term in terms:
        if term.band is None:
            return None
        total = total.plus(term.band)
    return total


@lru_cache(maxsize=_KEPT_POOLS)
def _pool(
    model: Subject, asked: CacheOptions, demand: Demand, version: str, *, mixes_groups: bool
) -> tuple[KvPool | None, bool | None, str]:
    """The cache's groups; else None, whether the start is refused (False) or not known (None), and why."""
    forms = kv_layers(model.shape, asked, version)
    if forms.missing:
        return None, None, f"the cache's form is not known: {', '.join(forms.missing)}"
    full = Demand(
        **{
            **{name: getattr(demand, name) for name in demand.__dataclass_fields__},
            "state_mode": forms.state_mode,
            "mixes_groups": mixes_groups and forms.mixes_groups,
        }
    )
    try:
        return pool(forms.stages, full, rules(version, is_v0=asked.is_v0)), None, ""
    except KvRefusedError as refused:
        return None, False, str(refused)
    except KvUnknownError as unknown:
        return None, None, str(unknown)


def _cache(model: Subject, settings: Settings, device: Device) -> tuple[KvPool | None, bool | None, str]:
    ranks = settings.ranks
    asked = CacheOptions(
        max_model_len=settings.max_model_len,
        tensor_parallel=ranks.tensor,
        stage_layers=stages(model.shape.layers, ranks, settings.key),
        cache_dtype=settings.cache_dtype,
        model_bytes=4 if settings.dtype == "float32" else 2,
        block_tokens=settings.block_tokens,
        capability=device.capability,
        caches_prefixes=settings.caches_prefixes,
        state_dtype=settings.state_dtype,
        recurrent_dtype=settings.recurrent_dtype,
        speculative_tokens=settings.speculative_tokens,
        draft_layers=settings.draft_layers,
        is_v0=settings.is_v0,
    )
    demand = Demand(
        settings.max_model_len,
        settings.batched_tokens,
        concurrent_batches=settings.concurrent_batches,
        decode_shards=settings.decode_shards,
        prefill_shards=settings.prefill_shards,
        blocks_override=settings.blocks_override,
    )
    return _pool(model, asked, demand, settings.version, mixes_groups=settings.mixes_groups)


@lru_cache(maxsize=_KEPT_POOLS)
def _weights(
    model: Subject,
    ranks: Ranks,
    release: tuple[int, ...],
    dtype: str,
    quantization: str | None,
    capability: tuple[int, int] | None,
    tokens: int,
    draft_layers: int,
    encoder_off: bool,  # noqa: FBT001 - a key of the cache
    offloaded: int,
) -> tuple[Term, ...]:
    """What each stage loads."""
    loaded = load(
        model.stock,
        ranks,
        release=release,
        dtype=dtype,
        quantization=quantization,
        capability=capability,
        tokens=tokens,
        with_mtp=draft_layers > 0,
        encoder_off=encoder_off,
    )
    if loaded is None:
        missing = ", ".join(model.stock.missing) or f"how {quantization} stores its weights"
        return (Term("weights", None, f"not known: {missing}"),) * ranks.pipeline
    said = f"configuration ({model.source})" if model.source else "configuration"
    terms = []
    for stage in loaded:
        sides = Band(*(max(0, side - offloaded) for side in (stage.low, stage.expected, stage.high)))
        terms.append(Term("weights", sides, "; ".join((said, *stage.reasons))))
    return tuple(terms)


def _beyond(text: Term, profiled: EncoderProfile | None, reason: str) -> Term:
    """What the encoder's profiling adds to the peak of the text: its own is past by then, what it put out is kept."""
    if profiled is None:
        return Term("encoder", None, reason)
    if text.band is None:
        return Term("encoder", None, "not known, as the activation is not")
    added = [
        max(peak - words, kept)
        for peak, words, kept in zip(profiled.peak, reversed(text.band), (profiled.kept,) * 3, strict=True)
    ]
    middle = max(profiled.peak.expected - text.band.expected, profiled.kept)
    return Term("encoder", Band(max(added[0], 0), max(middle, 0), max(added[2], 0)), profiled.source)


def _terms(
    model: Subject, settings: Settings, device: Device, stage: int, *, is_first: bool, nodes: int, estimates: bool | None
) -> tuple[tuple[Term, ...], Term, EncoderProfile | None]:
    """The parts of one card in the order in which a start takes them, what capturing takes, and the encoder's profile."""
    ranks = settings.ranks
    is_last = stage == ranks.pipeline - 1
    weights = _weights(
        model,
        ranks,
        settings.key,
        settings.dtype,
        settings.quantization,
        device.capability,
        settings.batched_tokens,
        settings.draft_layers,
        settings.language_only or _is_off(settings),
        settings.cpu_offload_bytes,
    )[stage]
    text = costs.activation(
        model.shape,
        settings,
        is_last=is_last,
        is_first=stage == 0,
        tensor_rank_first=is_first,
        capability=device.capability,
    )
    terms = [weights, text]
    found: EncoderProfile | None = None
    if model.shape.encoders is None or model.shape.encoders:
        profiled = profile(model.shape, settings, config=model.config)
        found = profiled if isinstance(profiled, EncoderProfile) else None
        terms.append(_beyond(text, found, "" if isinstance(profiled, EncoderProfile) else profiled))
    terms.append(costs.non_torch(settings, capability=device.capability))
    if ranks.tensor * ranks.pipeline > 1:
        terms.append(costs.communication(settings, interconnect=device.interconnect, nodes=nodes))
    terms.append(costs.graphs_reserved(model.shape, settings, is_estimated=estimates))
    return tuple(terms), costs.graphs_captured(model.shape, settings), found


def _is_off(settings: Settings) -> bool:
    """Whether every modality is limited to none."""
    return bool(settings.items) and not any((settings.items or {}).values())


def budget(
    model: Subject, settings: Settings, devices: Sequence[Device], *, environment: Mapping[str, str] | None = None
) -> Budget:
    """What a start takes of each card, and what the cache then holds.

    Args:
        model: The model.
        settings: Everything that the start asks.
        devices: The cards of one replica, rank by rank: those of the first pipeline stage come first.
        environment: Variables of the start that decide what is reserved.
    """
    ranks = settings.ranks
    nodes = len({device.node for device in devices})
    estimates = _estimates(environment or {})
    groups, refused, why = _cache(model, settings, devices[0])
    limits = [*settings.limits, *([why] if why else []), *(f"not known: {name}" for name in settings.missing)]
    made: dict[tuple[int, Device, bool], tuple[tuple[Term, ...], Term, EncoderProfile | None]] = {}
    found: list[RankBudget] = []
    encoder: EncoderProfile | None = None
    for rank, device in enumerate(devices):
        stage = rank // ranks.tensor % ranks.pipeline
        key = (stage, device, rank % ranks.tensor == 0)
        if key not in made:
            made[key] = _terms(
                model, settings, device, stage, is_first=key[2], nodes=nodes, estimates=estimates
            )
        terms, captured, profiled = made[key]
        encoder = encoder or profiled
        requested = _allowed(device.total, settings.utilization)
        used = _summed(terms)
        available = requested.less(used) if requested is not None and used is not None else None
        if settings.cache_bytes is not None:
            available = Band(*(settings.cache_bytes,) * 3)
        fits = _fits(groups, stage, available)
        found.append(RankBudget(rank, stage, device, terms, requested, available, captured, fits))
        if rank < ranks.tensor * ranks.pipeline:
            limits += [said for said in _overruns(found[-1], encoder) if said not in limits]
    judged = [rank.fits for rank in found]
    fits: bool | None = False if refused is False or settings.limits or False in judged or any(map(_bursts, found)) else True
    if fits and (None in judged or groups is None or settings.missing):
        fits = None
    return Budget(settings, tuple(found), groups, encoder, fits, tuple(dict.fromkeys(limits)))


def _estimates(environment: Mapping[str, str]) -> bool | None:
    """What the start's environment says of reserving CUDA graphs' memory; None: nothing."""
    told = environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    return None if told is None else told.strip() not in ("0", "")


def _allowed(total: Band | None, utilization: float) -> Band | None:
    return None if total is None else Band(*(ceil(side * utilization) for side in total))


def _fits(groups: KvPool | None, stage: int, available: Band | None) -> bool | None:
    """Whether one request of the longest length has room on a card of a stage; None: not known, or too close."""
    if groups is None or available is None:
        return None
    size = groups.bytes_per_block[stage] if groups.rules.sets_aside else 0
    need = groups.needed_bytes()[stage]
    low, _, high = (side - size >= need for side in available)
    return low if low == high else None
