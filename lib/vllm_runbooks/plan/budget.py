"""Memory of a launch per GPU: each term, the memory available for the KV cache, its capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import ceil
from typing import Any, NamedTuple

from vllm_runbooks.catalog.specs import Gpu, Specs
from vllm_runbooks.core.display import unknown_reason
from vllm_runbooks.plan import adapters, costs, drafts
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.drafts import Drafting, DraftModel
from vllm_runbooks.plan.encoder_profile import EncoderProfile, profile
from vllm_runbooks.plan.kv_cache import Demand, KvPool, KvRefusedError, KvUnknownError, pool, rules
from vllm_runbooks.plan.kv_layers import CacheOptions, kv_layers
from vllm_runbooks.plan.quantized_names import base_of, quantized_config
from vllm_runbooks.plan.refusals import CROSSED_BATCH, audio_tokens, refusals
from vllm_runbooks.plan.settings import LaunchSettings, mismatch, settle
from vllm_runbooks.plan.shape import Experts, Shape, shape
from vllm_runbooks.plan.terms import GIB, NOTHING, Band, Term, tried
from vllm_runbooks.plan.weights import Ranks, TensorInventory, inventory, layer_bytes, load, stages
from vllm_runbooks.reading.arguments.json_options import speculative

_KEPT_POOLS = 4096
_DRAFT = "draft"
"""Term of a separate draft model whose memory is unknown; a known one is part of the weights."""


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A model, parsed once for any number of budgets."""

    name: str
    config: Mapping[str, Any] = field(repr=False)
    shape: Shape
    source: str | None = None
    checkpoint_bytes: int | None = None
    """Bytes of all tensors, from the headers of the model's files; None if the files are not
    available."""
    layer_bytes: Mapping[int, int] = field(default_factory=dict)
    """Bytes of each layer in the headers of the model's files, unquantized weights as 16-bit values; empty if the
    files are not available."""
    is_partial: bool = False
    """Whether fields missing in the configuration are unknown."""
    is_downloaded: bool = False
    """Whether `source` names files of the Hub."""
    is_assumed: bool = False
    """Whether its quantization is the usual one for its name."""
    unread: str = ""
    """Why the Hub was not read for what the catalog lacks, and what to do; empty if it lacks nothing."""
    draft: DraftModel | None = None
    """Separate draft model, if the launch names one whose configuration is available."""

    @cached_property
    def stock(self) -> TensorInventory:
        """Tensors of the model."""
        return inventory(self.shape)

    @cached_property
    def unlisted(self) -> int:
        """Bytes that the layers have in the files beyond their tensors in `stock`; 0 for at most 1 % more or less.

        The files decide which modules of a quantized checkpoint are not quantized.
        """
        described = layer_bytes(self.stock)
        if not described or not all(layer in self.layer_bytes for layer in range(self.shape.layers)):
            return 0
        difference = sum(self.layer_bytes[layer] for layer in range(self.shape.layers)) - described
        return difference if abs(difference) * 100 > described else 0

    @cached_property
    def contradicted(self) -> str:
        """Layers of the configuration that the files lack, a sentence; empty if they lack none or are not read.

        vLLM reports "weights were not initialized from checkpoint" (0.32.0
        model_executor/model_loader/default_loader.py:563).
        """
        if not self.layer_bytes or self.stock.missing:
            return ""
        stored = {
            layer
            for variant in self.stock.variants
            if any(tensor.in_checkpoint for tensor, _ in variant.tensors)
            for layer in variant.layers
        }
        absent = sorted(stored - self.layer_bytes.keys())
        if not absent:
            return ""
        first, last, count = absent[0], absent[-1], len(absent)
        if count == 1:
            which = f"layer {first}"
        elif last - first == count - 1:
            which = f"layers {first} to {last}"
        else:
            which = f"{count} layers from layer {first} on"
        return f"the checkpoint lacks {which} of the {self.shape.layers} in config.json; vLLM may fail to load it"


def subject(
    name: str,
    config: Mapping[str, Any],
    *,
    is_partial: bool = False,
    source: str | None = None,
    checkpoint_bytes: int | None = None,
    draft: DraftModel | None = None,
) -> PlannedModel:
    """Build a model from its configuration; with `is_partial`, missing fields are unknown."""
    sizes = shape(config, is_partial=is_partial)
    return PlannedModel(name, config, sizes, source, checkpoint_bytes, is_partial=is_partial, draft=draft)


def settled_on(
    model: PlannedModel,
    options: Mapping[str, Any],
    release: str,
    gpu: Gpu | None,
    *,
    environment: Mapping[str, str],
    memory_gib: float | None = None,
) -> LaunchSettings:
    """Settle the options of a launch on a GPU; `memory_gib` is the memory of an unknown GPU."""
    return settle(
        model.shape,
        options,
        release,
        environment=environment,
        gpu_name=(gpu.aliases or (gpu.name,))[0] if gpu is not None else None,
        vendor=gpu.vendor if gpu is not None else "nvidia",
        memory_gib=gpu.memory_gib if gpu is not None else memory_gib,
        capability=gpu.version if gpu is not None else None,
        config=model.config,
        draft=model.draft,
    )


def subject_in_catalog(name: str, specs: Specs) -> PlannedModel | None:
    """Model of the catalog by any of its names; None without an entry or configuration."""
    entry = specs.model(name)
    if entry is None or entry.id is None:
        return None
    file = specs.file(entry.id)
    return subject(file.id, file.config, is_partial=file.is_partial, source=file.source)


def subject_by_name(name: str, specs: Specs) -> PlannedModel | None:
    """Model of the catalog, or a quantized checkpoint of one by its name; None if unknown."""
    if (known := subject_in_catalog(name, specs)) is not None or (found := base_of(name, specs)) is None:
        return known
    base, row = found
    source = f"the configuration of {base.id} and the usual layout for this name: {row.layout}"
    made = subject(name, quantized_config(base.config, row), is_partial=base.is_partial, source=source)
    return replace(made, is_assumed=True)


def drafted(model: PlannedModel, options: Mapping[str, Any], find: Callable[[str], DraftModel | None]) -> PlannedModel:
    """Attach the draft model that the launch's options name; `find` loads it by name."""
    speculation = speculative(options)[0]
    name = speculation.get("model") if isinstance(speculation, Mapping) else options.get("speculative_model")
    draft = find(name) if isinstance(name, str) and name else None
    return model if draft is None else replace(model, draft=draft)


@dataclass(frozen=True)
class RankBudget:
    """One GPU of one replica; bytes."""

    rank: int
    stage: int
    device: Device
    terms: tuple[Term, ...]
    requested: Band | None
    available: Band | None
    """Bytes available for the KV cache, possibly negative; None if a term is unknown."""
    captured: Term
    """Memory of CUDA graph capture beyond the reserved amount: "cuda_graphs_captured"."""
    fits: bool | None
    """Whether this GPU has room for its share of one request, None if unknown or too close."""


@dataclass(frozen=True)
class Budget:
    """All GPUs of one replica, and the cache that the smallest of them decides."""

    settings: LaunchSettings
    ranks: tuple[RankBudget, ...]
    pool: KvPool | None
    """None if the memory per block is unknown, the release rejects the layers, or the model has no KV cache."""
    encoder: EncoderProfile | None
    fits: bool | None
    limits: tuple[str, ...]
    """Reasons for the verdict, a sentence each, including missing inputs."""
    calibrated: tuple[str, ...] = ()
    has_cache: bool = True
    """False for an encoder-only model."""

    @cached_property
    def available(self) -> tuple[tuple[int, ...], ...] | None:
        """Bytes for the cache on the poorest GPU of each stage: low, expected and high; None if unknown."""
        by_stage: dict[int, list[Band]] = {}
        for rank in self.ranks:
            if rank.available is None:
                return None
            by_stage.setdefault(rank.stage, []).append(rank.available)
        return tuple(tuple(min(b[side] for b in by_stage[stage]) for stage in sorted(by_stage)) for side in range(3))

    @property
    def is_open(self) -> bool:
        """Whether the memory for the KV cache, or its layout, is unknown."""
        return self.available is None or (self.pool is None and self.has_cache)

    def _by_side(self, measure: Callable[[KvPool, tuple[int, ...]], int]) -> Band | None:
        if self.pool is None or self.available is None:
            return None
        low, expected, high = (measure(self.pool, side) for side in self.available)
        return Band(low, expected, high)

    @cached_property
    def blocks(self) -> Band | None:
        """Blocks of the cache on every GPU; 0 if no memory is left."""
        return self._by_side(KvPool.blocks)

    @cached_property
    def longest(self) -> Band | None:
        """Tokens of the longest request that is served, at most `max_model_len`."""
        return self._by_side(KvPool.longest_context)


Calibrate = Callable[[PlannedModel, tuple[Term, ...], Device, LaunchSettings], tuple[tuple[Term, ...], tuple[str, ...]]]
"""Corrects the terms of a GPU with residuals of earlier launches.

Returns the corrected terms in the same order, and a sentence for each correction.
"""


def total(terms: Iterable[Term]) -> Band | None:
    """Sum of the terms; None if one of them is unknown."""
    whole = NOTHING
    for term in terms:
        if term.band is None:
            return None
        whole = whole.plus(term.band)
    return whole


@lru_cache(maxsize=_KEPT_POOLS)
def _pool(
    model: PlannedModel,
    options: CacheOptions,
    demand: Demand,
    version: str,
    *,
    release: tuple[int, ...],
    draft_method: str,
    mixes_groups: bool,
) -> tuple[KvPool | None, bool | None, str]:
    """Group the layers of the KV cache.

    Returns the pool; or None with the verdict (False if the release rejects the layers, None if
    unknown) and the reason.
    """
    others = drafts.layers(model.draft, draft_method, release) if model.draft is not None and draft_method else ()
    forms = kv_layers(model.shape, options, version, others)
    if forms.missing:
        what = "unknown" if {*forms.missing} <= {*model.shape.missing} else "unknown KV cache layout"
        return None, None, f"{what}: {', '.join(forms.missing)}"
    if forms.stages and not any(forms.stages):
        return None, None, ""  # encoder-only: vLLM allocates no cache (v1/core/kv_cache_utils.py, 0.33.0)
    full = replace(demand, state_mode=forms.state_mode, mixes_groups=mixes_groups and forms.mixes_groups)
    try:
        made = pool(forms.stages, full, rules(version, is_v0=options.is_v0))
        return replace(made, assumptions=forms.assumptions), None, ""
    except KvRefusedError as refused:
        return None, False, str(refused)
    except KvUnknownError as unknown:
        return None, None, str(unknown)


def _cache(model: PlannedModel, settings: LaunchSettings, device: Device) -> tuple[KvPool | None, bool | None, str]:
    ranks = settings.ranks
    if settings.scheduler.max_model_len < 1:
        return None, None, "the context length is unknown"
    options = CacheOptions(
        max_model_len=settings.scheduler.max_model_len,
        tensor_parallel=ranks.tensor,
        stage_layers=stages(model.shape.layers, ranks, settings.key),
        cache_dtype=settings.cache.dtype,
        model_bytes=settings.value_bytes,
        block_tokens=settings.cache.block_tokens,
        capability=device.capability,
        is_rocm=device.is_rocm,
        caches_prefixes=settings.cache.caches_prefixes,
        state_dtype=settings.cache.state_dtype,
        recurrent_dtype=settings.cache.recurrent_dtype,
        index_dtype=settings.cache.index_dtype,
        backend=settings.cache.backend,
        speculative_tokens=settings.speculation.tokens,
        draft_layers=settings.speculation.layers,
        is_v0=settings.is_v0,
    )
    demand = Demand(
        settings.scheduler.max_model_len,
        settings.scheduler.batched_tokens,
        encoder_tokens=_encoder_tokens(model.shape, settings),
        concurrent_batches=settings.scheduler.concurrent_batches,
        decode_shards=settings.cache.decode_shards,
        prefill_shards=settings.cache.prefill_shards,
        blocks_override=settings.cache.blocks_override,
    )
    return _pool(
        model,
        options,
        demand,
        settings.version,
        release=settings.key,
        draft_method=settings.speculation.method,
        mixes_groups=settings.cache.mixes_groups,
    )


def _encoder_tokens(shape: Shape, settings: LaunchSettings) -> int:
    """Tokens of the encoder's output of a request."""
    if settings.key >= CROSSED_BATCH:
        return settings.scheduler.batched_tokens
    return audio_tokens(shape)


_FROM_FILES = (0.98, 1.0, 1.25)
"""Low, expected and high GPU memory per byte of a checkpoint. Padding of quantized experts reached
1.07 (gpt-oss-20b); encoders and embeddings may be replicated on every rank."""


class _Loading(NamedTuple):
    """Settings that decide the layout of the weights."""

    ranks: Ranks
    release: tuple[int, ...]
    dtype: str
    quantization: str | None
    capability: tuple[int, int] | None
    tokens: int
    with_mtp: bool
    encoder_off: bool
    offloaded: int
    """Bytes on the host instead."""
    drafting: Drafting | None = None
    with_head: bool = True
    is_rocm: bool = False


@lru_cache(maxsize=_KEPT_POOLS)
def _weights(model: PlannedModel, how: _Loading) -> tuple[Term, ...]:
    *others, last = _own_weights(model, how)
    if model.draft is None or how.drafting is None:
        return (*others, last)
    loaded = drafts.load_draft(
        model.draft,
        how.drafting,
        model.shape,
        how.ranks,
        release=how.release,
        dtype=how.dtype,
        capability=how.capability,
        tokens=how.tokens,
    )
    if loaded is None or last.band is None:
        return (
            *others,
            last if loaded is not None else replace(last, band=None, source="the draft model's: unknown"),
        )
    sides = Band(loaded.low, loaded.expected, loaded.high)
    origin = f" ({model.draft.source})" if model.draft.source else ""
    source = f"{_gib(loaded.expected)} of it for the draft model {model.draft.name}{origin}"
    return (*others, Term("weights", last.band.plus(sides), "; ".join((last.source, source, *loaded.reasons))))


def _own_weights(model: PlannedModel, how: _Loading) -> tuple[Term, ...]:
    loaded = load(
        model.stock,
        how.ranks,
        release=how.release,
        dtype=how.dtype,
        quantization=how.quantization,
        capability=how.capability,
        tokens=how.tokens,
        with_mtp=how.with_mtp,
        encoder_off=how.encoder_off,
        with_head=how.with_head,
        is_rocm=how.is_rocm,
    )
    if loaded is None and model.checkpoint_bytes is not None and how.quantization is None:
        share = model.checkpoint_bytes / (how.ranks.tensor * how.ranks.pipeline)
        sides = Band(*(max(0, int(share * factor) - how.offloaded) for factor in _FROM_FILES))
        source = "headers of the model's files, split evenly; vLLM's layout of them is unknown"
        return (Term("weights", sides, source),) * how.ranks.pipeline
    if loaded is None:
        missing = ", ".join(model.stock.missing) or f"how {how.quantization} stores its weights"
        return (Term("weights", None, f"unknown: {missing}"),) * how.ranks.pipeline
    source = f"from the model's config.json ({model.source})" if model.source else "from the model's config.json"
    source = f"from {model.source}" if model.is_downloaded else source
    terms = []
    unlisted = model.unlisted if how.quantization is None else 0
    if unlisted:
        than = "more" if unlisted > 0 else "less"
        source += f"; the headers of the layers have {_gib(abs(unlisted))} {than} than it describes, which is included"
    for stage, layers in zip(loaded, stages(model.shape.layers, how.ranks, how.release), strict=True):
        change = unlisted * layers // (model.shape.layers * how.ranks.tensor) - how.offloaded
        spread = abs(unlisted) // 8
        low, high = stage.low - spread, stage.high + spread
        sides = Band(*(max(0, side + change) for side in (low, stage.expected, high)))
        terms.append(Term("weights", sides, "; ".join((source, *stage.reasons))))
    return tuple(terms)


@lru_cache(maxsize=_KEPT_POOLS)
def _room(model: PlannedModel, demand: adapters.LoraDemand) -> tuple[Term, ...]:
    return adapters.room(model.stock, demand)


def _asked(settings: LaunchSettings) -> adapters.LoraDemand:
    return adapters.LoraDemand(
        settings.key, settings.ranks, settings.lora, settings.value_bytes, settings.scheduler.batched_tokens
    )


def _with_adapters(terms: Sequence[Term], room: Term, release: tuple[int, ...]) -> list[Term]:
    name = adapters.counted_in(release)
    if room.band is None or name is None:
        return [*terms, room]
    source = f"{_gib(room.band.expected)} of it for LoRA's adapters, {room.source}"
    return [
        replace(term, band=term.band.plus(room.band), source=f"{source}; {term.source}")
        if term.name == name and term.band is not None
        else term
        for term in terms
    ]


def _beyond(text: Term, profiled: EncoderProfile) -> Term:
    """Memory of the encoder's profiling beyond the peak of the text model.

    The encoder's own peak is over by then, but its output is still allocated.
    """
    if text.band is None:
        return Term("encoder", None, "the activation is unknown")
    low, expected, high = (
        max(peak - words, profiled.kept) for peak, words in zip(profiled.peak, reversed(text.band), strict=True)
    )
    middle = max(profiled.peak.expected - text.band.expected, profiled.kept)
    del expected
    source = f"{profiled.description}; {profiled.source}"
    return Term("encoder", Band(min(low, middle), middle, max(high, middle)), source)


def _terms(
    model: PlannedModel,
    settings: LaunchSettings,
    device: Device,
    stage: int,
    *,
    is_first: bool,
    nodes: int,
    estimates: bool | None,
) -> tuple[tuple[Term, ...], Term, EncoderProfile | None]:
    """Terms of one GPU in allocation order, the cost of graph capture, and the encoder profile."""
    ranks = settings.ranks
    is_last = stage == ranks.pipeline - 1
    how = _Loading(
        ranks,
        settings.key,
        settings.dtype,
        settings.quantization,
        device.capability,
        settings.scheduler.batched_tokens,
        settings.speculation.layers > 0,
        settings.media.loads_no_encoder,
        settings.cpu_offload_bytes,
        Drafting(settings.speculation.method, settings.speculation.tokens, settings.scheduler.max_model_len)
        if settings.speculation.method
        else None,
        not settings.is_pooling,
        is_rocm=device.is_rocm,
    )
    weights = _weights(model, how)[stage]
    if device.is_cpu:
        process = costs.worker_process(settings, weights.band)
        return (weights, process), Term("cuda_graphs_captured", NOTHING, "no CUDA graphs on a CPU"), None
    text = costs.activation(
        model.shape,
        settings,
        is_last=is_last,
        is_first=stage == 0,
        tensor_rank_first=is_first,
        capability=device.capability,
    )
    terms = [weights, text]
    if settings.speculation.unknown:
        terms.insert(1, Term(_DRAFT, None, settings.speculation.unknown))
    encoder = profile(model.shape, settings, config=model.config, is_first=stage == 0)
    if isinstance(encoder, EncoderProfile):
        terms.append(_beyond(text, encoder))
    elif model.shape.encoders != ():
        terms.append(Term("encoder", NOTHING if encoder.is_known else None, encoder.reason))
    terms.append(costs.non_torch(settings, is_rocm=device.is_rocm))
    if ranks.cards > 1:
        mixes = any(isinstance(layer.feed_forward, Experts) for layer in model.shape.kinds)
        terms.append(
            costs.communication(
                settings,
                device.interconnect,
                nodes,
                capability=device.capability,
                has_experts=mixes,
                is_rocm=device.is_rocm,
            )
        )
    terms.append(costs.graphs_reserved(model.shape, settings, capability=device.capability, is_estimated=estimates))
    if settings.lora.rank:
        terms = _with_adapters(terms, _room(model, _asked(settings))[stage], settings.key)
    captured = replace(costs.graphs_captured(model.shape, settings), name="cuda_graphs_captured")
    kind = costs.launch_kind(settings, device.capability, has_encoder=isinstance(encoder, EncoderProfile))
    return _widened(terms, kind, device), captured, encoder if isinstance(encoder, EncoderProfile) else None


def _widened(terms: Sequence[Term], kind: str, device: Device) -> tuple[Term, ...]:
    """The terms, with what launches of this kind need beyond them as non-torch memory."""
    row = costs.band_width(kind)
    shift, margin = int(row.shift_gib * GIB), int(row.margin * (device.total or NOTHING).expected)

    def widened(term: Term) -> Term:
        if term.name != "non_torch" or term.band is None or not shift + margin:
            return term
        low, expected, high = term.band
        source = f"{term.source}; {kind}: {_gib(shift)} more, or up to {_gib(shift + margin)} ({row.source})"
        return replace(term, band=Band(low, expected + shift, high + shift + margin), source=source)

    return tuple(map(widened, terms))


def budget(
    model: PlannedModel,
    settings: LaunchSettings,
    devices: Sequence[Device],
    *,
    environment: Mapping[str, str] | None = None,
    calibrate: Calibrate | None = None,
) -> Budget:
    """Add up the memory of a launch on each GPU, and the KV cache that fits into the rest.

    `devices` are the GPUs of one replica, rank by rank: those of the first pipeline stage come
    first. `environment` has the variables that decide the reserved memory; `calibrate` corrects the
    terms.
    """
    if mismatch(settings.ranks, model.shape.layers) is not None:
        # The limits report the invalid partition; the rest is planned with vLLM's default stages.
        settings = replace(settings, ranks=replace(settings.ranks, partition=None))
    ranks = settings.ranks
    nodes = len({device.node for device in devices})
    estimate = (environment or {}).get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    estimates = None if estimate is None else estimate.strip() not in ("0", "")
    groups, refused, why = _cache(model, settings, devices[0])
    problems = _Problems()
    for sentence in settings.limits:
        problems.add(False, sentence)
    for name in settings.missing:
        problems.add(None, f"unknown: {name}")
    for sentence in refusals(model.shape, settings, devices):
        problems.add(False, sentence)
    for sentence in adapters.refusals(model.shape, _asked(settings)) if settings.lora.rank else ():
        problems.add(False, sentence)
    if why:
        problems.add(refused, why)
    made: dict[tuple[int, Device, bool], _GpuBudget] = {}
    rank_budgets: list[RankBudget] = []
    corrected: dict[str, None] = {}
    encoder: EncoderProfile | None = None
    for rank, device in enumerate(devices):
        stage = ranks.stage(rank)
        key = (stage, device, rank % ranks.tensor == 0)
        if key not in made:
            parts = _terms(model, settings, device, stage, is_first=key[2], nodes=nodes, estimates=estimates)
            if calibrate is not None:
                (*terms, captured), corrections = calibrate(model, (*parts[0], parts[1]), device, settings)
                parts = (tuple(terms), captured, parts[2])
                corrected.update(dict.fromkeys(corrections))
            made[key] = _GpuBudget(settings, device, stage, parts, groups)
            made[key].check(problems)
        card = made[key]
        encoder = encoder or card.encoder
        rank_budgets.append(
            RankBudget(rank, stage, device, card.terms, card.requested, card.available, card.captured, card.fits)
        )
    whole = Budget(
        settings, tuple(rank_budgets), groups, encoder, None, (), tuple(corrected), groups is not None or bool(why)
    )
    if problems.verdict and not settings.scheduler.is_length_fitted and groups is not None and whole.blocks is not None:
        served = groups.concurrency(whole.blocks.expected)
        if served < 1:
            # Some releases check only one group; all of them trust an override of the number of
            # blocks.
            problems.add(
                False,
                f"vLLM's own check passes, but the KV cache has room for {served:.2f} of one request of "
                f"{settings.scheduler.max_model_len:,} tokens: such a request is never served",
            )
    return replace(whole, fits=problems.verdict, limits=problems.said)


WEIGHTS_LACK = "the weights do not fit"
CACHE_LACKS = ("the KV cache is too small", "no memory left for the KV cache")
"""Prefixes of the limits that report too little KV cache memory."""


class _Problems:
    """Reasons why the launch may fail, certain failures first."""

    def __init__(self) -> None:
        self.fatal: dict[str, None] = {}
        self.open: dict[str, None] = {}

    def add(self, fits: bool | None, sentence: str) -> None:  # noqa: FBT001 - the verdict that the sentence explains
        """Add the reason of a rejection (False) or of an unknown (None)."""
        (self.fatal if fits is False else self.open)[sentence] = None

    @property
    def verdict(self) -> bool | None:
        return False if self.fatal else None if self.open else True

    @property
    def said(self) -> tuple[str, ...]:
        return (*self.fatal, *self.open)


class _GpuBudget:
    """One GPU with its terms, and values derived from them."""

    def __init__(
        self,
        settings: LaunchSettings,
        device: Device,
        stage: int,
        made: tuple[tuple[Term, ...], Term, EncoderProfile | None],
        groups: KvPool | None,
    ) -> None:
        self.settings, self.device, self.stage, self.groups = settings, device, stage, groups
        self.terms, self.captured, self.encoder = made
        self.requested = device.total and Band(*(ceil(side * settings.utilization) for side in device.total))
        used = total(self.terms)
        self.available = None
        if self.requested is not None and used is not None and device.total is not None:
            # A negative estimate of CUDA graphs makes the cache larger than the share, never than the GPU.
            most = device.total.high - self._band("weights").low
            self.available = Band(*(min(side, most) for side in self.requested.less(used)))
        if settings.cache.size is not None:
            self.available = Band(*(settings.cache.size,) * 3)
        self.fits: bool | None = None

    def check(self, problems: _Problems) -> None:
        mine = _Problems()
        for term in self.terms:
            if term.band is None and term.name != _DRAFT:  # the settings say why it is unknown
                mine.add(None, f"{term.name.replace('_', ' ')}: {term.source}")
        if self.device.total is None:
            mine.add(None, f"the memory of {self.device.name} is unknown: {unknown_reason(self.device.total_source)}")
            self._check_physical(mine, self.device.physical)
        else:
            self._check_profile(mine, self.device.total)
        self._check_cache(mine)
        self.fits = mine.verdict
        for sentence in mine.fatal:
            problems.add(False, sentence)
        for sentence in mine.open:
            problems.add(None, sentence)

    def _band(self, name: str) -> Band:
        return next((term.band for term in self.terms if term.name == name and term.band is not None), NOTHING)

    def _check_physical(self, mine: _Problems, physical: int | None) -> None:
        """Whether the weights alone exceed the data sheet's memory, whose usable part is unknown."""
        weights = self._band("weights")
        if physical is not None and weights.low > physical:
            text = f"{_gib(weights.expected)} needed, {self.device.name} has {_gib(physical)} of physical memory"
            mine.add(False, f"{WEIGHTS_LACK}: {text}")

    def _check_profile(self, mine: _Problems, total: Band) -> None:
        """Whether loading and profiling stay within the whole GPU: no utilization bounds them."""
        context = (costs.HOST_USE if self.device.is_cpu else costs.context(total.expected).band) or NOTHING
        left = self.device.within(total).less(context).less(self._band("weights")).less(self._band("communication"))
        name, limit = self.device.name, self.device.limit
        if limit is not None:
            name = f"{name} with a limit of {_gib(limit)} (cgroup)"
        if left.expected < 0:
            weights = self._band("weights").expected
            available = _gib(max(0, left.expected + weights))
            mine.add(False, f"{WEIGHTS_LACK}: {_gib(weights)} needed, {available} available on {name}")
            return
        if self.requested is not None and self.settings.cache.size is None:
            free = total.less(context)
            if limit is not None and self.requested.expected > limit:
                mine.add(
                    False,
                    f"the control group of this process allows {_gib(limit)}, which vLLM {self.settings.version} does "
                    f"not read: it plans with {_gib(self.requested.expected)}, and the kernel ends processes beyond "
                    "the limit",
                )
            elif costs.checks_free(self.settings) and self.requested.expected > free.expected:
                advice = "; lower it" if self.device.is_cpu else ""
                mine.add(
                    False,
                    f"gpu_memory_utilization {self.settings.utilization:g} requires {_gib(self.requested.expected)}, "
                    f"an idle {name} has about {_gib(free.expected)} free: vLLM's check of free memory fails{advice}",
                )
        text = self._band("activation")
        if text.expected > left.expected:
            mine.add(
                False,
                f"profiling runs out of memory: it needs {_gib(text.expected)} in addition to the weights, "
                f"only {_gib(left.expected)} available on {name}; lower max_num_seqs or max_num_batched_tokens",
            )
        if self.encoder is not None:
            self._check_encoder(mine, self.encoder, left)
        cache = self._given_cache()
        if cache is not None:
            rest = left.less(self._band("non_torch")).less(self.captured.band or NOTHING)
            if cache > rest.expected:
                mine.add(
                    False,
                    f"the requested KV cache needs {_gib(cache)}, and only {_gib(max(0, rest.expected))} is available "
                    f"next to the weights on {name}",
                )
        reach = (self.requested or NOTHING).plus(self.captured.band or NOTHING)
        if self.available is not None and self.available.expected > 0 and self.settings.cache.size is None:
            over = reach.expected + context.expected - total.expected
            if over > 0 and not self.device.is_cpu:
                mine.add(
                    None,
                    f"CUDA graph capture needs {_gib((self.captured.band or NOTHING).expected)} beyond what "
                    f"gpu_memory_utilization {self.settings.utilization:g} covers: {_gib(over)} more than {name} has "
                    "available",
                )

    def _given_cache(self) -> int | None:
        """Bytes of the KV cache if an option sets its size; None if it is profiled."""
        blocks = self.settings.cache.blocks_override
        if blocks is not None and self.groups is not None:
            return blocks * self.groups.bytes_per_block[self.stage]
        return self.settings.cache.size

    def _check_encoder(self, mine: _Problems, encoder: EncoderProfile, left: Band) -> None:
        """Whether the allocator finds room for every tensor of the encoder's profile, gaps between blocks counted."""
        shares = costs.FRAGMENTED
        worst, middle = (
            encoder.refused(int(room / (1 + share))) for room, share in zip(left[:2], shares[:0:-1], strict=True)
        )
        step = middle or worst
        if step is None:
            return
        fix = f"; limit {encoder.modality}s: --limit-mm-per-prompt '{{\"{encoder.modality}\": 0}}'"
        share, room = (shares[1], left.expected) if middle is not None else (shares[2], left.low)
        mine.add(
            False if middle is not None else None,
            f"profiling {encoder.description} "
            f"{'runs' if middle is not None else 'may run'} out of memory before the KV cache is sized, at any "
            f"gpu_memory_utilization: its {step.what} needs {tried(step.size) / 2**20:.2f} MiB, in total "
            f"{_gib(int(step.live * (1 + share)))} with {share:.0%} fragmentation, and {_gib(room)} is left next to "
            f"{_gib(self._band('weights').expected)} of weights on {self.device.name}"
            f"{'' if encoder.is_essential else fix}",
        )

    def _check_cache(self, mine: _Problems) -> None:
        """Check whether one request of the longest length fits into the KV cache."""
        if self.groups is None or self.available is None:
            return
        size = self.groups.bytes_per_block[self.stage] if self.groups.rules.sets_aside else 0
        need = self.groups.needed_bytes()[self.stage] + size
        low, expected, high = self.available
        if low >= need or (self.settings.scheduler.is_length_fitted and low > size):
            return
        length = self.settings.scheduler.max_model_len
        if expected < need:
            may = f"; {_gib(high)} available in the best case" if high >= need else ""
            problem = (
                f"{CACHE_LACKS[1]} ({_gib(-expected)} short)"
                if expected <= 0
                else f"{CACHE_LACKS[0]}: {_gib(expected)} available, {_gib(need)} needed"
            )
            mine.add(False, f"{problem} for one request of {length:,} tokens on {self.device.name}{may}")
        else:
            mine.add(
                None,
                f"too close to call: one request of {length:,} tokens needs {_gib(need)}; {self.device.name} has about "
                f"{_gib(expected)}, at least {_gib(low)}",
            )


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"
