"""Option values with which a launch that ran out of memory fits, calculated from the figures of its log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.printed import number
from vllm_runbooks.diagnosis.several_logs import LaunchReport

_GROUPS = frozenset({"oom", "kv", "mem"})
_CLASSES = frozenset({"api.context_overflow", "engine.execute_timeout", "host.oom_killed"})
_DEFAULT_UTILIZATION = 0.9
_DEFAULT_SEQUENCES = 256
_MAX_UTILIZATION = 0.95
_WEIGHTS_SHARE = 0.82
"""Part of the memory budget that the weights may use if the other needs are unknown."""
_LARGE_GPU_GIB = 70.0
_MOST_GPU_GIB = 300.0
"""No GPU of the catalog has more memory."""
_LARGE_PART, _SMALL_GPU_GIB = 0.4, 14.0
"""From this part of the budget on the weights matter; the budget of a small GPU, if it is unknown."""
_RESERVE_GIB = 1.5
"""Memory for activations, CUDA context and communication if the log does not print it."""
_CONTEXT_GIB = 0.7
"""CUDA context and libraries of a process."""
_MOST_OFFLOADED_GIB = 128
"""More CPU memory is not assumed."""
_HOST_GPUS = 8
_MOST_GPUS = 64
_MARGIN_GIB = 0.25
_LEAST_PART, _ROUNDED_PART, _ROUNDED_GIB = 0.003, 0.0001, 0.005
"""Least difference of two printed shares that tells a GPU's memory, and how far both figures are rounded."""
_GPU_PLATFORMS = frozenset({None, "cuda", "rocm", "xpu", "tpu", "hpu", "neuron"})
"""Platforms that may have several devices; None if unknown."""
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(?:(\d{1,2})x)?(\d{1,4}(?:\.\d{1,3})?)B(?![A-Za-z0-9])", re.IGNORECASE)
"""Parameters in a model's name, in billions: `72B`, `8x7B`; not active ones as in `A3B`."""
_MIXED = 0.83
"""Part of `8x7B` that is not shared between the experts: Mixtral 8x7B has 46.7B parameters."""
_QUANTIZED_LAYER = "/layers/quantization/"
"""Folder of the code that creates the weights of quantized layers."""
_FOUR_BITS = re.compile(r"awq|gptq|int4|4-?bit|w4a|fp4|bnb|bitsandbytes|wna16|q4_|gguf", re.IGNORECASE)
_EIGHT_BITS = re.compile(r"fp8|int8|8-?bit|w8a|q8_", re.IGNORECASE)
_FOUR_BIT_WIDTH, _EIGHT_BIT_WIDTH = 4.6, 8.4
"""Bits per weight with scales and unquantized layers."""
_LATENT = re.compile(r"deepseek|kimi", re.IGNORECASE)
"""Models whose KV cache every tensor-parallel rank stores completely."""
_UNIFIED = re.compile(r"GB10\b|\b(?:Thor|Orin)\b|sm_?(?:121|110|87)\b", re.IGNORECASE)
"""GPUs that share their memory with the host, in the words of warnings."""
_UNIFIED_GIB = (110.0, 124.0)
"""Memory of a GB10 or Jetson Thor: GPUs of their own memory have at most 96 GiB, or 128 GiB and more."""
_V1_IS_DEFAULT = (0, 8)
_V0_FRAMES = frozenset({"determine_num_available_blocks", "profile_num_available_blocks"})


class ModelSizes(NamedTuple):
    """Sizes of the model as the catalog has it; None if unknown."""

    weights_gib: float | None = None
    """All weights."""
    request_gib: float | None = None
    """KV cache per request at full context, per GPU."""
    heads: int | None = None
    kv_heads: int | None = None
    """Heads that the KV cache is split by; 1 for latent attention."""
    positions: int | None = None
    """The model's own maximum context length."""
    is_quantized: bool = False


def applies_to(symptom: str) -> bool:
    """Whether a symptom's remedies need these values."""
    group, _, rest = symptom.partition(".")
    return group in _GROUPS or f"{group}.{rest.partition('.')[0]}" in _CLASSES


def fitting_values(
    reported: LaunchReport, arguments: Mapping[str, Any], sizes: ModelSizes, *, gpus: int | None = None
) -> Mapping[str, str]:
    """The values for the placeholders of remedies; without those that the log cannot show to fit.

    Args:
        reported: The launch and its cause.
        arguments: Arguments of the launch.
        sizes: Sizes of its model.
        gpus: Number of GPUs, if known.
    """
    if reported.cause is None:
        return {}
    figures = _Figures(reported, arguments, sizes, gpus)
    solve = next((solve for prefix, solve in _SOLVERS if reported.cause.symptom.startswith(prefix)), _nothing)
    return {name: _text(value) for name, value in solve(figures) if value is not None}


def explained(values: Mapping[str, str], say: Wording) -> tuple[str, ...]:
    """Why the usual fixes are not offered."""
    if "least_gib" in values:
        text = "A lower gpu_memory_utilization does not help: weights and activations need about {size} GiB of the GPU."
        return (say(text, size=values["least_gib"]),)
    if "over_weights_gib" in values:
        text = "Smaller batches do not help: the weights need about {size} GiB per GPU, but the budget is {budget} GiB."
        return (say(text, size=values["over_weights_gib"], budget=values["over_budget_gib"]),)
    return ()


def _text(value: float | str) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


_Values = Iterator[tuple[str, "float | int | str | None"]]


class _Figures:
    """Figures of one launch, in GiB per GPU; None if unknown."""

    def __init__(
        self, reported: LaunchReport, arguments: Mapping[str, Any], sizes: ModelSizes, gpus: int | None
    ) -> None:
        self.captures = reported.cause.captures if reported.cause is not None else {}
        self.symptom = reported.cause.symptom if reported.cause is not None else ""
        self.facts, self.starts = reported.facts, reported.starts
        self.arguments, self.sizes, self.gpus = arguments, sizes, gpus
        self.release = reported.release.version

    def gib(self, name: str) -> float | None:
        """A captured amount of memory."""
        for unit, size in (("gib", 1.0), ("mib", 1 / 1024), ("kib", 1 / 1024**2), ("bytes", 1 / 1024**3)):
            if f"{name}_{unit}" in self.captures:
                value = number(self.captures[f"{name}_{unit}"])
                return None if value is None else value * size
        return None

    def count(self, name: str) -> int | None:
        """A captured, else a typed whole number."""
        value = number(self.captures[name]) if name in self.captures else self.arguments.get(name)
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 else None

    def read(self, name: str) -> float | None:
        """A figure that the launch printed last."""
        values = [figure.value for start in self.starts for figure in start.readings if figure.name == name]
        return values[-1] if values else None

    # ---- the launch

    @cached_property
    def total(self) -> float | None:
        printed = self.gib("total") or self.facts.gpu_total_gib or self.graphs_total
        available = self.gib("available") or self.facts.kv_cache_gib
        if printed or not self.facts.weights_gib or available is None or self.utilization is None:
            return printed
        # At least so much, since the budget has room for what was printed.
        used = self.facts.weights_gib + available + (self.facts.activation_gib or 0.0)
        if used < self.facts.weights_gib / 2:
            return None  # far more: activations that were not printed use most of the budget
        return used / self.utilization if used > 0 else None

    @cached_property
    def graphs_total(self) -> float | None:
        """The GPU's memory by the part that the estimate for CUDA graphs is of it, rounded down."""
        share, rest = self.read("gpu_memory_utilization"), self.read("utilization_without_graphs")
        graphs = self.facts.cuda_graph_estimated_gib
        if share is None or rest is None or not graphs or share - rest < _LEAST_PART:
            return None
        return (graphs - _ROUNDED_GIB) / (share - rest + _ROUNDED_PART)

    @cached_property
    def utilization(self) -> float | None:
        value = number(self.captures.get("utilization", "")) or self.facts.gpu_memory_utilization
        value = value or self.arguments.get("gpu_memory_utilization")
        if isinstance(value, (int, float)) and 0 < value <= 1:
            return float(value)
        return _DEFAULT_UTILIZATION if self.arguments else None

    @cached_property
    def budget(self) -> float | None:
        if self.total is None:
            return None
        return self.total * (self.utilization or _DEFAULT_UTILIZATION)

    @cached_property
    def seen(self) -> int:
        """Ranks of one replica that the log shows at least."""
        ranks = [rank.rank for start in self.starts for rank in start.ranks if rank.rank is not None]
        shown = [start.seat.world_size or 1 for start in self.starts]
        shown += [max(start.seat.ranks, default=0) + 1 for start in self.starts]
        return max([*shown, *(rank + 1 for rank in ranks), (self.count("gpu") or 0) + 1])

    @cached_property
    def tensor(self) -> int:
        typed = self.facts.tensor_parallel_size or self.count("tensor_parallel_size")
        return typed or max(1, self.seen // self.pipeline)

    @cached_property
    def pipeline(self) -> int:
        return self.facts.pipeline_parallel_size or self.count("pipeline_parallel_size") or 1

    @cached_property
    def is_v0(self) -> bool:
        """Whether the V0 engine failed: it does not split prompts by default."""
        raised = [link for start in self.starts for traceback in start.tracebacks for link in traceback.chain]
        frames = [frame for link in raised for frame in link.frames]
        if any("vllm/v1/" in frame.path for frame in frames):
            return False
        if any("vllm/worker/" in frame.path or frame.function in _V0_FRAMES for frame in frames):
            return True
        numbers = tuple(map(int, re.findall(r"\d{1,4}", self.release or "")[:2]))
        return bool(numbers) and numbers < _V1_IS_DEFAULT

    @property
    def has_gpus(self) -> bool:
        """Whether the host may have more devices of the same kind."""
        return self.facts.platform in _GPU_PLATFORMS

    @cached_property
    def is_unified(self) -> bool:
        """Whether the GPU shares its memory with the host."""
        texts = (warned.quote.text for start in self.starts for warned in start.warnings)
        if any(_UNIFIED.search(text) for text in texts):
            return True
        low, high = _UNIFIED_GIB
        return self.total is not None and low <= self.total <= high

    # ---- the model

    @cached_property
    def model(self) -> str:
        name = self.facts.model or self.arguments.get("model") or ""
        return str(name).rstrip("/").rpartition("/")[2]

    @cached_property
    def quantization(self) -> str:
        method = self.facts.quantization or self.arguments.get("quantization")
        return str(method) if method and str(method) != "None" else ""

    @cached_property
    def is_quantized(self) -> bool:
        forms = (_FOUR_BITS, _EIGHT_BITS)
        if self.quantization or self.sizes.is_quantized or any(form.search(self.model) for form in forms):
            return True
        frames = (f for start in self.starts for t in start.tracebacks for link in t.chain for f in link.frames)
        return any(_QUANTIZED_LAYER in frame.posix_path and frame.function == "create_weights" for frame in frames)

    @cached_property
    def named_gib(self) -> float | None:
        """Size of the weights by the number of parameters in the model's name."""
        sizes = [float(size) * (float(times) * _MIXED if times else 1) for times, size in _SIZE.findall(self.model)]
        if not sizes:
            return None
        form = f"{self.model} {self.quantization}"
        bits: float = 32 if str(self.arguments.get("dtype")) in ("float32", "float") else 16
        if _FOUR_BITS.search(form) or (self.quantization and not _EIGHT_BITS.search(form)):
            bits = _FOUR_BIT_WIDTH
        elif _EIGHT_BITS.search(form):
            bits = _EIGHT_BIT_WIDTH
        return max(sizes) * 1e9 * bits / 8 / 2**30

    @cached_property
    def all_weights(self) -> float | None:
        """All weights: as loaded, as the catalog has them, as the checkpoint's size is printed, or by the name."""
        ranks = self.tensor * self.pipeline
        if self.facts.weights_gib:
            return self.facts.weights_gib * ranks
        if self.sizes.weights_gib and (self.sizes.is_quantized or not self.quantization):
            return self.sizes.weights_gib
        checkpoints = [f.value for start in self.starts for f in start.readings if f.name == "checkpoint_gib"]
        if checkpoints and max(checkpoints) > 0:
            return max(checkpoints)
        return self.named_gib

    @cached_property
    def weights(self) -> float | None:
        return None if self.all_weights is None else self.all_weights / (self.tensor * self.pipeline)

    @cached_property
    def reserve(self) -> float:
        """Memory of a running model next to weights and KV cache."""
        printed = (self.facts.activation_gib or 0.0) + max(self.facts.non_torch_gib or 0.0, 0.0)
        return printed or (_RESERVE_GIB if self.total is None else min(_RESERVE_GIB, 0.1 * self.total))

    @cached_property
    def request(self) -> float | None:
        """KV cache per request at full context."""
        need = self.gib("need")
        if need is not None:
            return need
        if self.concurrency and self.facts.kv_cache_gib:
            return self.facts.kv_cache_gib / self.concurrency
        return self.sizes.request_gib

    @cached_property
    def concurrency(self) -> float | None:
        """Requests at full context that the KV cache fits."""
        facts = self.facts
        if facts.max_concurrency and facts.max_concurrency_tokens in (None, facts.max_model_len):
            return facts.max_concurrency
        return None

    # ---- the failed allocation

    @cached_property
    def lacking(self) -> float | None:
        """Memory that the failed allocation lacked."""
        tried, free = self.gib("tried"), self.gib("free")
        return None if tried is None or free is None else max(tried - free, 0.0)

    @cached_property
    def others(self) -> float | None:
        """Memory of other processes on the GPU, if it is much."""
        used, free, allocated = self.gib("in_use"), self.gib("free"), self.gib("allocated")
        if used is None and allocated is not None:
            used = allocated + (self.gib("reserved") or 0.0) + _CONTEXT_GIB
        if self.total is None or used is None or free is None:
            return None
        others = self.total - free - used
        if others <= max(1.0, 0.06 * self.total) or self.is_full(allocated):
            return None
        return others

    def is_full(self, allocated: float | None) -> bool:
        """Whether the weights that the process loads leave no memory for requests, even on an empty GPU."""
        if self.total is None or self.budget is None:
            return False
        loading = allocated if self.symptom.startswith("oom.weights") else None
        weights = max(loading or 0.0, self.weights or 0.0)
        return weights > _WEIGHTS_SHARE * max(self.budget, 0.95 * self.total)

    @cached_property
    def overflow(self) -> bool:
        """Whether the weights leave nothing of the memory budget for requests."""
        if self.weights is None or self.budget is None or self.total is None:
            return False
        return self.weights + (self.request or 0.0) > self.budget or self.weights > 0.9 * min(self.budget, self.total)

    # ---- searches

    def more_gpus(self, spared: float | None = None) -> _Values:
        """The fewest GPUs, in powers of two, that hold the model; or free so much memory on each."""
        if self.weights is None or self.budget is None or not self.has_gpus:
            return
        size = self.tensor * 2
        while size * self.pipeline <= _MOST_GPUS and not self.fits_on(size, spared):
            size *= 2
        count = size * self.pipeline
        if count > _MOST_GPUS:
            return
        is_local = not self.is_unified and size <= _HOST_GPUS and count <= (self.gpus or count)
        yield "shard_gib", self.weights * self.tensor / size
        yield ("fit_ranks", size) if is_local and self.divides(size) else ("fit_gpus", count)

    def divides(self, size: int) -> bool:
        return self.sizes.heads is None or self.sizes.heads % size == 0

    def fits_on(self, size: int, spared: float | None) -> bool:
        weights, budget = self.weights or 0.0, self.budget or 0.0
        part = self.tensor / size
        shard = weights * part * 1.03
        if spared is not None:
            return weights - shard >= spared
        if self.request is None:
            return shard <= _WEIGHTS_SHARE * budget
        return shard + self.request * part + self.reserve <= 0.97 * budget

    def fits_cache(self, size: int, need: float, have: float) -> bool:
        """Whether one request at full context fits the KV cache of each of so many GPUs."""
        heads = self.sizes.kv_heads or (1 if _LATENT.search(f"{self.model} {self.facts.architecture}") else _HOST_GPUS)
        kept = max(1, heads / size) / max(1, heads / self.tensor)
        spared = 0.9 * (1 - self.tensor / size) * (self.facts.weights_gib or 0.0)
        return 1.05 * need * kept <= have + spared

    def offload(self) -> int | None:
        """GiB of the weights per GPU in CPU memory with which the rest fits."""
        if self.weights is None or self.budget is None or self.is_unified:
            return None
        fits = _WEIGHTS_SHARE * self.budget
        if self.request is not None:
            fits = min(fits, 0.97 * self.budget - self.reserve - self.request)
        size = math.ceil(self.weights - fits)
        host = self.read("host_free_gib")
        if not 0 < size <= min(self.weights / 2, _MOST_OFFLOADED_GIB / self.tensor) or (
            host is not None and size * self.tensor > 0.8 * host
        ):
            return None
        return size if size > (self.count("cpu_offload_gb") or 0) else None

    def fewer_bits(self) -> _Values:
        """Size of the weights per GPU with 4 bits, if that fits the budget."""
        if self.is_quantized:
            yield "quantized", self.quantization or self.model
        elif self.weights is not None and self.budget is not None:
            size = self.weights * _FOUR_BIT_WIDTH / 16
            if size <= _WEIGHTS_SHARE * self.budget:
                yield "four_bit_gib", size
                return
            yield "four_bit_too_large_gib", size
            ranks = 2
            while size / ranks > _WEIGHTS_SHARE * self.budget:
                ranks *= 2
            if ranks * self.tensor <= _HOST_GPUS and not self.is_unified:
                yield "four_bit_ranks", ranks * self.tensor
                yield "four_bit_shard_gib", size / ranks

    def over_budget(self) -> _Values:
        """The weights and the budget that they exceed."""
        if self.gib("total") or self.facts.gpu_total_gib:
            yield "over_weights_gib", self.weights
            yield "over_budget_gib", self.budget

    def weights_fixes(self) -> _Values:
        """Values for weights that do not fit."""
        yield from self.fewer_bits()
        yield "fit_offload_gib", self.offload()
        yield from self.more_gpus()

    def lower_utilization(self, lacking: float) -> _Values:
        """A lower share that frees so much memory, if the KV cache can give it; else with a shorter context."""
        if self.total is None:
            return
        if self.utilization is None:
            yield "fit_step", math.ceil(100 * lacking / self.total) / 100
            return
        steps = math.ceil(100 * lacking / self.total - 1e-9)
        share, given = round(self.utilization - steps / 100, 2), steps / 100 * self.total
        most = None if self.weights is None else self.utilization * self.total - self.weights
        if share < 0.05 or (most is not None and most - given < min(0.5, 0.02 * self.total)):
            return
        cache = self.facts.kv_cache_gib or most
        if self.concurrency and cache:
            kept = self.concurrency * (1 - given / cache)
            if kept < 1.03:
                context = _rounded(0.95 * kept * (self.facts.max_model_len or 0))
                if self.facts.kv_cache_gib and context >= 1024:
                    yield "pair_utilization", share
                    yield "pair_context_tokens", context
                return
        yield "fit_utilization", share

    def raise_utilization(self, lacking: float, used: float | None = None) -> float | None:
        """A higher share with so much more memory, if the GPU has it; `used` is known to be within the share."""
        if self.utilization is None:
            return None
        total = self.total or (None if not used else used / self.utilization)
        if total is None:
            return None
        share = math.ceil(100 * (self.utilization + 1.05 * lacking / total) - 1e-9) / 100
        graphs = self.facts.cuda_graph_gib or max(self.facts.cuda_graph_estimated_gib or 0.0, 0.0)
        if share > _MAX_UTILIZATION or (1 - share) * total < 0.4 + graphs:
            return None
        host = self.read("host_free_gib")
        if self.is_unified and (host is None or host < lacking + 2):
            return None
        return share

    def sequences(self, part: float, present: int | None) -> int | None:
        """The largest power of two that is at most this part of the present number of sequences."""
        present = present or _DEFAULT_SEQUENCES
        if part * present < 1 or present < 2:
            return None
        return 1 << int(math.log2(min(part, 0.5) * present))

    @property
    def splits_prompts(self) -> bool:
        """Whether the V0 engine splits prompts: it then prints the size of the batch."""
        is_set = self.arguments.get("enable_chunked_prefill") is True
        return is_set or self.read("max_num_batched_tokens") is not None

    @property
    def has_whole_prompts(self) -> bool:
        """Whether a batch is at least one whole prompt: its size follows from max_model_len then."""
        return self.arguments.get("enable_chunked_prefill") is False or (self.is_v0 and not self.splits_prompts)

    def batch(self, part: float) -> int | None:
        """A smaller batch, if prompts are split into batches."""
        present = self.count("max_num_batched_tokens") or int(self.read("max_num_batched_tokens") or 0)
        if self.has_whole_prompts:
            return None
        if not present:  # the server's default is 2048, on GPUs with much memory 8192
            return 2048 if self.total and self.total >= _LARGE_GPU_GIB else 1024
        size = 2 ** int(math.log2(max(min(part, 0.5) * present, 1)))
        return size if size >= max(512, self.count("max_num_seqs") or 1) else None


def _rounded(tokens: float) -> int:
    """A context length, rounded down."""
    step = 256 if tokens >= 2048 else 16
    return int(tokens) // step * step


def _nothing(_: _Figures) -> _Values:
    yield from ()


def _weights(figures: _Figures) -> _Values:
    """Weights that do not fit, unless other processes fill the GPU."""
    yield "others_gib", figures.others
    if figures.others is None or figures.overflow:
        yield from figures.weights_fixes()
    yield "present_ranks", figures.tensor * figures.pipeline


def _profile(figures: _Figures) -> _Values:
    """A profiling run that needs too much next to the weights, or weights that leave nothing for it."""
    yield "others_gib", figures.others
    if figures.overflow:
        yield from figures.over_budget()
        yield from figures.weights_fixes()
        return
    yield from figures.more_gpus(figures.lacking and 1.2 * figures.lacking)
    part = 0.25
    tried, used, weights = figures.gib("tried"), figures.gib("allocated"), figures.facts.weights_gib
    if tried is not None and used is not None and weights is not None and figures.total is not None:
        peak, most = used - weights + tried, figures.total - (figures.others or 0) - weights - 1.0
        part = 0.8 * most / peak if peak > 0 else part
    yield "fit_sequences", figures.sequences(part, figures.count("max_num_seqs"))
    yield "fit_batched_tokens", figures.batch(part)
    context = figures.facts.max_model_len
    if context and figures.has_whole_prompts:
        shorter = _rounded(min(part, 0.5) * context)
        yield "fit_context_tokens", shorter if shorter >= 1024 else None


def _encoder(figures: _Figures) -> _Values:
    """An encoder that is profiled with too many or too large items."""
    yield "others_gib", figures.others
    tried, free = figures.gib("tried"), figures.gib("free")
    if figures.lacking is not None:
        yield from figures.more_gpus(1.2 * figures.lacking + _MARGIN_GIB)
    if figures.is_v0 and tried and free is not None:
        # V0 profiles each of max_num_seqs sequences with its items.
        yield "fit_sequences", figures.sequences(0.5 * free / tried, figures.count("max_num_seqs"))
    context = figures.facts.max_model_len
    yield "fit_context_tokens", 8192 if context and context > 8192 else None


def _after_cache(figures: _Figures, lacking: float) -> _Values:
    yield "others_gib", figures.others
    yield from figures.lower_utilization(lacking)
    graphs = figures.facts.cuda_graph_gib
    is_eager = figures.arguments.get("enforce_eager") is True
    yield "spared_graphs_gib", graphs if graphs and graphs >= lacking and not is_eager else None


def _sampler(figures: _Figures) -> _Values:
    """A sampler whose memory is proportional to the sequences, after the KV cache was allocated."""
    tried, free = figures.gib("tried"), figures.gib("free")
    present = figures.count("dummy_requests") or figures.count("max_num_seqs")
    if tried and free is not None:
        yield "fit_sequences", figures.sequences(0.5 * free / tried, present)
    elif figures.lacking is None:
        yield "fit_sequences", figures.sequences(0.25, present)
    if figures.lacking is not None:
        yield from _after_cache(figures, figures.lacking + max(_MARGIN_GIB, 0.25 * figures.lacking))


def _graphs(figures: _Figures) -> _Values:
    """Graphs that do not fit next to the KV cache: the rest of them is unknown."""
    rest = max(figures.lacking or 0.0, figures.facts.cuda_graph_estimated_gib or 1.0)
    yield from _after_cache(figures, rest + _MARGIN_GIB)
    yield "fit_sequences", figures.sequences(0.25, figures.count("max_num_seqs"))


def _runtime(figures: _Figures) -> _Values:
    """A step that needs more than the profiling run did."""
    if figures.lacking is not None:
        yield from _after_cache(figures, figures.lacking + max(_MARGIN_GIB, 0.1 * figures.lacking))
    present = figures.count("max_num_seqs")
    yield "fit_sequences", figures.sequences(0.5, present) if present is None or present > 4 else None
    yield "fit_batched_tokens", figures.batch(0.5)


def _cache_allocation(figures: _Figures) -> _Values:
    """A KV cache that is larger than the memory that is left for it."""
    used, planned = figures.gib("allocated"), figures.facts.kv_cache_gib
    lacking = figures.lacking
    if used is not None and planned and figures.facts.weights_gib and lacking is not None:
        rest = planned - max(used - figures.facts.weights_gib, 0.0)
        lacking = max(lacking, rest - (figures.gib("free") or 0.0))
    elif figures.total is not None:
        lacking = max(lacking or 0.0, 0.05 * figures.total)
    if lacking is not None:
        yield from _after_cache(figures, lacking + _MARGIN_GIB)


def _no_blocks(figures: _Figures) -> _Values:
    """A budget that weights and activations use up."""
    share, available, weights, total = figures.utilization, figures.gib("available"), figures.weights, figures.total
    need = (figures.request or 0.0) + max(0.5, 0.02 * (total or 24.0))
    yield "present_ranks", figures.tensor * figures.pipeline
    if available is not None and share is not None and (total or weights):
        raised = figures.raise_utilization(need - available, weights and weights + available)
        yield "fit_utilization", raised
        yield from _fewer(figures, need - available)
        yield from figures.more_gpus(need - available)
        if raised is None:
            yield from figures.over_budget() if figures.overflow else ()
            yield from figures.fewer_bits()
            yield "weights_matter", "yes"
            if total is None and share <= _DEFAULT_UTILIZATION - 0.1 and not figures.is_unified:
                yield "room_for_share", _DEFAULT_UTILIZATION
        return
    most = None if total is None else _DEFAULT_UTILIZATION * total
    if weights is not None and most is not None and weights + need > most:
        yield from figures.over_budget()
        yield from figures.weights_fixes()
        return
    if share is not None and share <= _DEFAULT_UTILIZATION - 0.1 and not figures.is_unified:
        yield "fit_utilization", _DEFAULT_UTILIZATION
    elif (share is None or share < _MAX_UTILIZATION) and not figures.is_unified:
        room = (_MAX_UTILIZATION - (share or _DEFAULT_UTILIZATION)) * (total or _MOST_GPU_GIB)
        yield "room_for_share", _MAX_UTILIZATION if available is None or need - available < room else None
    if weights is None or weights > _LARGE_PART * (figures.budget or _SMALL_GPU_GIB):
        yield "weights_matter", "yes"
        yield "quantized", figures.quantization or figures.model if figures.is_quantized else None


def _fewer(figures: _Figures, lacking: float) -> _Values:
    """Fewer sequences and smaller batches, if the profiling run's peak is large enough."""
    peak = figures.facts.activation_gib
    if peak and peak > 1.2 * lacking:
        part = 1 - 1.2 * lacking / peak
        yield "fit_sequences", figures.sequences(part, figures.count("max_num_seqs"))
        yield "fit_batched_tokens", figures.batch(part)


def _context(figures: _Figures) -> _Values:
    """A KV cache that is too small for one request at full context."""
    asked, estimated = figures.count("max_seq_len"), figures.count("estimated_tokens")
    need, have, stored = figures.gib("need"), figures.gib("have"), figures.count("have_tokens")
    if asked is None:
        return
    longest = estimated or stored
    if longest is not None:
        longest = _rounded(0.99 * longest) or longest
    elif need and have:
        # Models with sliding windows or states need a constant part, too.
        longest = _rounded(0.9 * asked * have / need)
    yield "fit_context_tokens", longest if longest and 16 <= longest < asked else None
    if (need is None or have is None) and stored:
        # Both in parts of the need at full context.
        need, have, used = 1.0, stored / asked, None
        budget, weights = figures.budget, figures.weights
        if budget is not None and weights is not None and budget > weights + figures.reserve:
            have = budget - weights - figures.reserve
            need = have * asked / stored
    if need is None or have is None or have <= 0:
        return
    is_set = "set_gib" in figures.captures
    yield "fit_cache_gib", math.ceil(1.02 * need * 10) / 10 if is_set else None
    if not is_set and (need > 1 or figures.gib("need") is not None):
        used = None if figures.facts.weights_gib is None else figures.facts.weights_gib + have
        yield "fit_utilization", figures.raise_utilization(need - have, used)
    if not figures.has_gpus:
        return
    yield "fit_8bit_cache", "yes" if need <= 1.9 * have else None
    size = figures.tensor * 2
    while size <= _HOST_GPUS and not figures.fits_cache(size, need, have):
        size *= 2
    if not figures.is_unified and size * figures.pipeline <= min(_HOST_GPUS, figures.gpus or _HOST_GPUS):
        yield "fit_ranks", size if figures.divides(size) else None


def _free_memory(figures: _Figures) -> _Values:
    """Memory that others use when the launch requests its share."""
    free, total = figures.gib("free"), figures.gib("total")
    if free is None or total is None or total <= 0:
        return
    share = math.floor(100 * (free - max(0.1, 0.005 * free)) / total) / 100
    needed = 0.0 if figures.weights is None else 1.05 * figures.weights + min(figures.reserve, 1.0)
    if share >= (figures.utilization or 1.0) or share < 0.05:
        return
    if needed + (figures.sizes.request_gib or 0.0) > share * total:
        yield "least_gib", needed
        return
    yield "fit_utilization", share


def _external(figures: _Figures) -> _Values:
    """Weights that another process loaded: they count, too."""
    held, total = figures.gib("held"), figures.gib("total")
    if held is None or total is None:
        return
    lacking = held - (figures.utilization or 0.0) * total + max(1.0, 0.05 * total)
    yield "fit_utilization", figures.raise_utilization(lacking)


def _mamba(figures: _Figures) -> _Values:
    yield "fit_sequences", figures.count("mamba_blocks")


def _overflow(figures: _Figures) -> _Values:
    """A context that the request fits, if model and KV cache have it."""
    tokens = figures.count("request_tokens")
    parts = figures.count("prompt_tokens"), figures.count("output_tokens")
    if tokens is None and all(parts):
        tokens = sum(part or 0 for part in parts)
    cache, longest = figures.facts.kv_cache_tokens, figures.sizes.positions
    if tokens is None or cache is None or tokens > 0.95 * cache:
        return
    if longest is None:
        yield "served_tokens", tokens
        return
    if tokens > longest:
        return
    limit = min(int(0.95 * cache), longest)
    doubled = 2 ** math.ceil(math.log2(tokens))
    yield "longer_context_tokens", min(doubled, limit)


def _cache_overflow(figures: _Figures) -> _Values:
    """A prompt that the whole cache does not fit."""
    tokens, cache = figures.count("request_tokens"), figures.facts.kv_cache_tokens
    if tokens is None or cache is None or cache >= tokens:
        return
    yield "fit_context_tokens", _rounded(0.98 * cache)
    yield "fit_8bit_cache", "yes" if tokens <= 1.9 * cache else None
    if figures.facts.kv_cache_gib:
        yield "fit_utilization", figures.raise_utilization((tokens / cache - 1) * figures.facts.kv_cache_gib)


def _host(figures: _Figures) -> _Values:
    """Options that keep data in host memory."""
    yield "offloaded_gib", figures.count("cpu_offload_gb")
    swap = figures.arguments.get("swap_space")
    yield "swap_gib", figures.count("swap_space") if swap is not None else None


def _step(figures: _Figures) -> _Values:
    """A step that takes too long: half as many tokens, if the log prints their number."""
    present = figures.count("max_num_batched_tokens") or int(figures.read("max_num_batched_tokens") or 0)
    yield "fit_batched_tokens", figures.batch(0.5) if present else None


_SOLVERS = (
    ("engine.execute_timeout", _step),
    ("oom.weights", _weights),
    ("oom.profile_run", _profile),
    ("oom.multimodal_encoder", _encoder),
    ("oom.sampler_warmup", _sampler),
    ("oom.cudagraph_capture", _graphs),
    ("oom.runtime", _runtime),
    ("oom.kv_alloc", _cache_allocation),
    ("kv.no_blocks.mamba", _mamba),
    ("kv.no_blocks", _no_blocks),
    ("kv.max_len_too_large", _context),
    ("mem.free_below_utilization.external_weights", _external),
    ("mem.free_below_utilization", _free_memory),
    ("api.context_overflow.cache", _cache_overflow),
    ("api.context_overflow", _overflow),
    ("host.oom_killed", _host),
)
"""By the beginning of a symptom's id, the more precise one first."""
