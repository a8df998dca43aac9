"""Compare the memory that vLLM printed at startup with the plan, term by term."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_runbooks.catalog.specs import MAX_GPUS, Gpu, HostGpu
from vllm_runbooks.core.display import unknown_reason
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import ComparedTerm, Facts, PlanComparison, PrintedFigure, Residual, ServerRun
from vllm_runbooks.plan import costs
from vllm_runbooks.plan.budget import Budget, Calibrate, PlannedModel, RankBudget, budget, settled_on, total
from vllm_runbooks.plan.calibration import NEWER_ENGINE, RULES
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import LaunchSettings
from vllm_runbooks.plan.shape import shape
from vllm_runbooks.plan.terms import GIB, NOTHING, Band

_JSON_OPTIONS = (
    "limit_mm_per_prompt", "mm_processor_kwargs", "hf_overrides", "compilation_config", "speculative_config",
)  # fmt: skip
"""Options whose value is an object, in whichever form a log prints it."""
_BATCH = "max_num_batched_tokens"
_PRINTED = 0.005
"""GiB by which a figure printed with two decimals may be off."""
_SHARED = ("activation", "encoder", "non_torch", "communication")
"""Terms whose sum is known if a log only prints the weights and the cache."""
_CAPTURED = ("cuda_graphs", "cuda_graphs_estimated")
_SET = "Explicitly set"
"""Prefix of the log line for a KV cache whose size is set instead of profiled (CPU backend)."""


# ---- the plan of a recorded launch


def options_of(
    arguments: Mapping[str, Any], facts: Facts, readings: Iterable[PrintedFigure] = ()
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Read the planner's options from a launch's arguments and log; unreadable ones are named."""
    options: dict[str, Any] = {}
    missing: list[str] = []
    for name, value in arguments.items():
        if value is None or name.startswith("_"):
            continue
        if name in _JSON_OPTIONS and isinstance(value, str):
            try:
                options[name] = json.loads(value)
            except ValueError:
                missing.append(f"{name}: the log prints it in an unknown format")
        else:
            options[name] = value
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_model_len"):
        if getattr(facts, name) is not None:
            options[name] = getattr(facts, name)
    options.update({reading.name: int(reading.value) for reading in readings if reading.name == _BATCH})
    return options, tuple(missing)


def device_of(card: HostGpu | None, printed_gib: float | None) -> Device | None:
    """GPU of a launch with its memory from the log, else from the catalog; None if unknown."""
    printed = None if printed_gib is None else around(printed_gib)
    if card is None:
        return None if printed is None else Device("the log's GPU", printed, "printed in the log")
    device = Device.of(card)
    return device if printed is None else replace(device, total=printed, total_source="printed in the log")


UNKNOWN = Device("the GPU", None, "the log does not name it; use --gpus")


@dataclass(frozen=True)
class LaunchPlace:
    """Release, GPUs and environment of a launch."""

    release: str
    devices: tuple[Device, ...]
    """At least one; the last one is repeated if the launch needs more."""
    gpu: Gpu | None = None
    """The first GPU; None if its name is unknown."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_cached: bool = False
    """Whether the launch loads the compiled model from vLLM's compile cache; False if unknown."""

    def settings(self, model: PlannedModel, options: Mapping[str, Any]) -> LaunchSettings:
        """Settle the settings of a launch with these options."""
        total = self.devices[0].total
        printed = None if total is None else total.expected / GIB
        made = settled_on(model, options, self.release, self.gpu, environment=self.environment, memory_gib=printed)
        return replace(made, graphs=replace(made.graphs, is_cached=self.is_cached))

    def cards(self, settings: LaunchSettings) -> tuple[Device, ...]:
        """The GPUs of one replica.

        Raises:
            InputError: There are more of them than any request may name.
        """
        need = settings.ranks.cards
        if need > MAX_GPUS:
            raise InputError(f"the launch needs {need} GPUs; correct its parallel sizes")
        return (*self.devices[:need], *(self.devices[-1],) * (need - len(self.devices)))

    def exact(self) -> LaunchPlace:
        """This place without the ranges of the GPUs' memory."""
        bands = ((device, device.total) for device in self.devices)
        exact = (device if band is None else replace(device, total=band.exact()) for device, band in bands)
        return replace(self, devices=tuple(exact))

    def budget(self, model: PlannedModel, options: Mapping[str, Any], calibrate: Calibrate | None = None) -> Budget:
        """Plan the memory of a launch with these options.

        Leave `calibrate` unset to compare the plan with printed values.
        """
        settings = self.settings(model, options)
        return budget(model, settings, self.cards(settings), environment=self.environment, calibrate=calibrate)


_OVERRIDING = ("rope_scaling", "rope_theta")
"""Options that replace fields of the configuration (0.8.5 config.py, `ModelConfig.__post_init__`; gone by 0.12.0)."""
_NOT_NESTED = ("quantization_config", "compression_config")


def overridden(model: PlannedModel, options: Mapping[str, Any]) -> PlannedModel:
    """Apply `hf_overrides` and the options of older releases for rotary embeddings to the model.

    A nested configuration is merged, any other field replaced (0.16.0 config/model.py, `_apply_dict_overrides`).
    """
    given = options.get("hf_overrides")
    overrides = dict(given) if isinstance(given, Mapping) else {}
    overrides.update((name, options[name]) for name in _OVERRIDING if options.get(name) is not None)
    if not overrides:
        return model
    nested = {name: value for name, value in overrides.items() if name.endswith("_config") and name not in _NOT_NESTED}
    config = {**_merged(model.config, nested), **{name: overrides[name] for name in overrides.keys() - nested.keys()}}
    return replace(model, config=config, shape=shape(config, is_partial=model.is_partial))


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge overrides into a configuration; nested configurations are merged, not replaced."""
    merged = dict(config)
    for name, value in overrides.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def in_gib(size: int) -> float:
    """Bytes in GiB."""
    return size / GIB


def around(gib: float) -> Band:
    """Bytes of a figure that is printed with two decimals."""
    return Band(int((gib - _PRINTED) * GIB), int(gib * GIB), int((gib + _PRINTED) * GIB))


# ---- comparing


@dataclass(frozen=True)
class _Figure:
    """A term that was planned, printed, or both."""

    name: str
    planned: Band | None
    actual: float | None
    """GiB."""
    margin: float = _PRINTED
    """Tolerance of the printed value in GiB."""
    note: str = ""
    row: str = ""
    """Term of its residual if it has another name."""

    @property
    def beyond(self) -> float:
        """GiB beyond the plan's band, negative below it; 0 if within."""
        if self.planned is None or self.actual is None:
            return 0.0
        low, high = self.planned.low / GIB - self.margin, self.planned.high / GIB + self.margin
        by = min(0.0, self.actual - low) + max(0.0, self.actual - high)
        return by if abs(by) >= _PRINTED else 0.0

    @property
    def explained(self) -> str:
        notes = [self.note] if self.note else []
        if self.planned is None:
            notes.append("not planned")
        elif self.actual is None:
            notes.append("the log does not print it")
        elif not self.beyond:
            notes.append("within the planned range")
        else:
            more = "above the planned range" if self.beyond > 0 else "below the planned range"
            notes.append(f"{abs(self.beyond):.2f} GiB {more}: {_WHY[self.name][self.beyond < 0]}")
        return "; ".join(notes)

    def record(self) -> ComparedTerm:
        low, expected, high = (side / GIB for side in self.planned) if self.planned else (None, None, None)
        return ComparedTerm(self.name, expected, low, high, self.actual, self.explained)


_SETTINGS_DIFFER = "max_num_seqs or max_num_batched_tokens differ from the plan"
_WHY: Mapping[str, tuple[str, str]] = {
    "weights": (
        "a checkpoint or quantization different from the plan's, or a second model in memory (a draft model, adapters)",
        "a checkpoint or quantization different from the plan's, or part of it is not loaded or stays in host memory",
    ),
    "activation": (f"{_SETTINGS_DIFFER}, or kernels keep larger buffers than estimated", f"{_SETTINGS_DIFFER}"),
    "non_torch": (
        "another process used the GPU, or communication between GPUs needs more",
        "another process released memory, or communication between GPUs needs less",
    ),
    "beside_weights": (
        f"another process used the GPU, or {_SETTINGS_DIFFER}, or it is a different GPU",
        f"{_SETTINGS_DIFFER}, or it is a different GPU",
    ),
    "cuda_graphs": ("more or larger graphs than planned", "fewer or smaller graphs than planned"),
    "cuda_graphs_estimated": ("the release's own estimate is high", "the release's own estimate is low"),
    "consumed": (
        "another process used the GPU, or more stays allocated after profiling",
        "another process released memory, or less stays allocated after profiling",
    ),
    "headroom": (f"{_SETTINGS_DIFFER}, or the CUDA graph estimate is high", f"{_SETTINGS_DIFFER}"),
    "kv_cache": (
        "less than planned was subtracted from the budget, or the GPU has more memory",
        "more than planned was subtracted from the budget, or the GPU has less memory",
    ),
}
"""Possible reasons, by term, for printing more and for printing less than planned."""


def compare(
    start: ServerRun,
    model: PlannedModel,
    planned: Budget,
    *,
    gpu: str | None = None,
    source: str = "",
    is_told: bool = True,
) -> PlanComparison:
    """Compare what vLLM printed with the plan.

    Args:
        start: The launch. Its facts cover all ranks: the largest value of each term, the
            smallest KV cache.
        model: The loaded model.
        planned: Its budget, not calibrated.
        gpu: Name of its GPUs, for the residuals; None if unknown.
        source: Source recorded with the residuals.
        is_told: Whether the options are known. If not, only the weights are compared.
    """
    figures = list(_figures(start, model, planned, is_told=is_told))
    missing = list(planned.settings.missing)
    if not is_told:
        missing.append("the launch options: the log does not print them; use --command")
    elif planned.ranks[0].device.total is None:
        missing.append(f"the GPU's memory: {unknown_reason(planned.ranks[0].device.total_source)}")
    tokens, is_as_planned = _tokens(start.facts, planned)
    terms = [figure.record() for figure in figures]
    if tokens:
        terms.append(ComparedTerm("kv_cache_tokens", None, None, None, None, tokens))
    return PlanComparison(
        tuple(terms),
        _off(figures) or (None if is_as_planned else "kv_cache_tokens") or _off(figures, _CAPTURED),
        tuple(dict.fromkeys(missing)),
        tuple(_residuals(figures, planned, model, gpu, source)) if is_told else (),
    )


def _off(figures: Iterable[_Figure], names: Sequence[str] = ()) -> str | None:
    """Term that is farthest beyond its band; the cache only if none of its inputs is."""
    outside = [
        figure
        for figure in figures
        if figure.beyond and (figure.name in names if names else figure.name not in _CAPTURED)
    ]
    causes = [figure for figure in outside if figure.name != "kv_cache"] or outside
    return max(causes, key=lambda figure: abs(figure.beyond)).name if causes else None


def _figures(start: ServerRun, model: PlannedModel, planned: Budget, *, is_told: bool) -> Iterator[_Figure]:
    facts, settings = start.facts, planned.settings
    largest = max(planned.ranks, key=lambda rank: _known(rank, ("weights",)).expected)
    weights = _sum(largest, ("weights",))
    if settings.cpu_offload_bytes:
        yield _Figure("weights", None, facts.weights_gib, note="parts of the model stay in host memory")
    elif facts.weights_gib is not None or weights is not None:
        yield _Figure("weights", weights, facts.weights_gib)
    if not is_told or is_cache_set(start.readings):
        return
    first, is_sized = planned.ranks[0], _is_sized(planned)
    yield _Figure(
        "activation",
        _sum(max(planned.ranks, key=lambda rank: _known(rank, _SHARED[:2]).expected), _SHARED[:2]),
        facts.activation_gib,
        note="including encoder profiling" if planned.encoder is not None else "",
    )
    yield _Figure(
        "non_torch",
        _sum(first, _SHARED[2:]),
        facts.non_torch_gib,
        note="including communication between the GPUs" if len(planned.ranks) > 1 else "",
    )
    yield from _consumed(start, model, planned)
    poorest = min(planned.ranks, key=lambda rank: rank.available.expected if rank.available else 0)
    reserved = _known(poorest, ("cuda_graphs",))
    if facts.cuda_graph_estimated_gib is not None:
        gpu = poorest.device.capability
        term = costs.graphs_reserved(model.shape, settings, capability=gpu, is_estimated=True)
        estimate = term.band if is_sized else None
        note = "subtracted from the KV cache" if reserved.high else "reported only, not subtracted from the KV cache"
        yield _Figure("cuda_graphs_estimated", estimate, facts.cuda_graph_estimated_gib, note=note)
    captured = first.captured.band if is_sized else None
    if facts.cuda_graph_gib is not None:
        yield _Figure("cuda_graphs", captured, facts.cuda_graph_gib, note="captured when the KV cache is allocated")
    if facts.activation_gib is None or facts.non_torch_gib is None:
        yield from _derived(facts, poorest, planned, reserved)
    yield _Figure("kv_cache", poorest.available, facts.kv_cache_gib)


def is_compile_cached(readings: Iterable[PrintedFigure]) -> bool:
    """Whether the launch loaded its compiled graphs from vLLM's compile cache and compiled none."""
    names = {reading.name for reading in readings}
    return "graph_load_seconds" in names and "graph_compile_seconds" not in names


def is_cache_set(readings: Iterable[PrintedFigure]) -> bool:
    """Whether the printed size of the KV cache was set instead of profiled."""
    return any(reading.name == "kv_cache_gib" and _SET in reading.quote.text for reading in readings)


def _consumed(start: ServerRun, model: PlannedModel, planned: Budget) -> Iterator[_Figure]:
    """Compare consumed memory and the peak beyond it, which 0.27.1 and later print.

    v1/worker/gpu_worker.py (0.27.1 :527 and :774).
    """
    consumed, headroom = (
        max((reading.value for reading in start.readings if reading.name == name), default=None)
        for name in ("consumed_gib", "headroom_gib")
    )
    if consumed is None and headroom is None:
        return
    first, settings = planned.ranks[0], planned.settings
    kept = costs.activation_kept(
        model.shape,
        settings,
        is_last=settings.ranks.pipeline == 1,
        is_first=True,
        capability=first.device.capability,
    ).band
    stays, peak = _sum(first, ("weights", *_SHARED[2:])), _sum(first, (*_SHARED[:2], "cuda_graphs"))
    if consumed is not None:
        together = None if stays is None or kept is None else stays.plus(kept)
        note = "weights, non-torch memory and activations that stay allocated"
        yield _Figure("consumed", together, consumed, note=note)
    if headroom is not None:
        beyond = None if peak is None or kept is None else peak.less(kept)
        note = "the activation peak beyond that, and the CUDA graph estimate"
        yield _Figure("headroom", beyond, headroom, note=note)


def _derived(facts: Facts, poorest: RankBudget, planned: Budget, reserved: Band) -> Iterator[_Figure]:
    """Share of the utilization beyond weights and cache, if the log prints only these two."""
    settings, total = planned.settings, poorest.device.total
    if total is None or facts.weights_gib is None or facts.kv_cache_gib is None or settings.cache.size is not None:
        return
    if settings.ranks.pipeline > 1 or settings.cpu_offload_bytes:
        return
    share = total.expected * settings.utilization / GIB
    names, estimate = list(_SHARED), 0.0
    if reserved.high and facts.cuda_graph_estimated_gib is not None:
        estimate = facts.cuda_graph_estimated_gib
    elif reserved.high:
        names.append("cuda_graphs")
    band = _sum(poorest, names)
    if band is not None:
        above, below = (total.high - total.expected, total.expected - total.low)
        band = Band(
            band.low - int(above * settings.utilization), band.expected, band.high + int(below * settings.utilization)
        )
    summands = " + ".join(
        ["activation", *(["encoder"] if planned.encoder else []), "non-torch"]
        + (["communication"] if len(planned.ranks) > 1 else [])
        + (["the CUDA graph estimate"] if "cuda_graphs" in names else [])
    )
    less = f" minus {estimate:.2f} estimated for CUDA graphs" if estimate else ""
    yield _Figure(
        "beside_weights",
        band,
        share - facts.weights_gib - facts.kv_cache_gib - estimate,
        3 * _PRINTED,
        f"{summands}, by subtraction: {settings.utilization:g} x {total.expected / GIB:.2f} GiB minus "
        f"{facts.weights_gib:.2f} of weights minus {facts.kv_cache_gib:.2f} of KV cache{less}",
        "beside_weights_and_graphs" if "cuda_graphs" in names else "",
    )


def _is_sized(planned: Budget) -> bool:
    """Whether batch and number of requests are known.

    Graphs and the blocks of a sliding window depend on them.
    """
    return bool(planned.settings.scheduler.batched_tokens and planned.settings.scheduler.sequences)


def _sum(rank: RankBudget, names: Sequence[str]) -> Band | None:
    return total(term for term in rank.terms if term.name in names)


def _known(rank: RankBudget, names: Sequence[str]) -> Band:
    return _sum(rank, names) or NOTHING


def _tokens(facts: Facts, planned: Budget) -> tuple[str, bool]:
    """Capacity of the printed KV cache by the release's rules, and whether the log agrees."""
    pool, size = planned.pool, facts.kv_cache_gib
    if pool is None or size is None or size <= _PRINTED or planned.settings.ranks.pipeline > 1:
        return "", True
    band = around(size)
    few, many = (pool.blocks((side,)) for side in (band.low, band.high))
    statements, is_within = [], True
    if facts.kv_cache_tokens is not None:
        least, most = pool.tokens(few), pool.tokens(many)
        statements.append(f"{least:,} to {most:,} tokens (the log reports {facts.kv_cache_tokens:,})")
        is_within = least <= facts.kv_cache_tokens <= most
    is_same = facts.max_concurrency_tokens in (None, planned.settings.scheduler.max_model_len) and _is_sized(planned)
    if facts.max_concurrency is not None and is_same:
        low, high = pool.concurrency(few), pool.concurrency(many)
        statements.append(
            f"{low:.2f} to {high:.2f} full-context requests (the log reports {facts.max_concurrency:.2f})"
        )
        is_within = is_within and low - _PRINTED <= facts.max_concurrency <= high + _PRINTED
    if not statements:
        return "", True
    end = "" if is_within else "; the KV cache layout differs from the plan"
    return f"in this release's layout, {size:.2f} GiB has room for {'; '.join(statements)}{end}", is_within


def _residuals(
    figures: Iterable[_Figure], planned: Budget, model: PlannedModel, gpu: str | None, source: str
) -> Iterator[Residual]:
    settings = planned.settings
    if settings.ranks.pipeline > 1 or settings.ranks.data > 1 or settings.is_v0 != (settings.key < NEWER_ENGINE):
        return
    for figure in figures:
        term = figure.row or figure.name
        if term in RULES and figure.planned is not None and figure.actual is not None:
            yield Residual(
                settings.version,
                gpu,
                model.shape.architecture,
                term,
                figure.planned.expected / GIB,
                figure.actual,
                source,
                settings.ranks.tensor,
            )
