"""Memory other than weights and KV cache: activation, non-torch memory, communication, CUDA graphs.

The activation is the sum of the tensors alive at the peak of the profiling run. The rest of a
forward pass, and everything that PyTorch does not see, is taken from launches that printed it. All
amounts depend on the release: each row of the tables has a release range, a source and the number
of launches it was compared with. Amounts are bytes on one GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from vllm_runbooks.catalog.eras import NEVER, Key
from vllm_runbooks.catalog.specs import shares_memory
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED
from vllm_runbooks.plan.settings import EITHER_SAMPLER, LaunchSettings
from vllm_runbooks.plan.shape import Attention, Compressed, Dense, Experts, Latent, Layer, Recurrent, Shape
from vllm_runbooks.plan.terms import GIB, NOTHING, Band, Term
from vllm_runbooks.plan.weights import compressed_heads, mxfp4_kernel

Capability = tuple[int, int]
"""Compute capability of a GPU."""

_MIB = 2**20

_H100 = (
    "llm-d-planner's accuracy report of vLLM 0.19.0 on H100"
    " (https://github.com/llm-d-incubation/llm-d-planner, docs/accuracy/vllm-v0.19.0-accuracy-report.md)"
)


@dataclass(frozen=True, kw_only=True)
class MeasuredMemory:
    """Memory by release and engine, in GiB unless a subclass says otherwise."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    part: str = ""
    """Component that uses the memory."""
    since: Key = ()
    until: Key = NEVER
    """The first release in which it is another amount."""
    is_v0: bool | None = None
    """Whether the row applies to the V0 engine; None for both engines."""
    low: float
    expected: float
    high: float
    source: str
    """Source of the amount, with the number of measurements."""

    def applies_to(self, settings: LaunchSettings) -> bool:
        """Whether a launch's release and engine have it."""
        return (self.is_v0 is None or self.is_v0 == settings.is_v0) and self.since <= settings.key < self.until

    @property
    def band(self) -> Band:
        """The amounts in bytes."""
        return _gib(self.low, self.expected, self.high)


# ---- the sampler


@dataclass(frozen=True, kw_only=True)
class SamplerMemory(MeasuredMemory):
    """Tensors over the vocabulary that are alive together, in float32 values per row and token of the vocabulary."""

    all_tokens: bool = False
    """A row for each token of the batch instead of each sequence."""
    has_buffer: bool = False
    """A row for each multiprocessor stays allocated."""
    extra_mib: int = 0
    """Measured in addition, for no reason that the source shows."""


_FULL_SORT_BELOW = 128
"""Rows from which PyTorch sorts by segments: ATen/native/cuda/Sort.cu, launch_stable_sort_kernel."""

_MULTIPROCESSORS: Mapping[Capability, tuple[int, int, int]] = {(8, 0): (108, 108, 108), (9, 0): (114, 132, 132)}
"""NVIDIA's A100 and H100 architecture white papers."""
_ANY_MULTIPROCESSORS = (28, 120, 192)


def _sampler(settings: LaunchSettings, rows: int) -> SamplerMemory:
    kind = "v2" if settings.is_v2_runner else settings.sampler
    if kind == EITHER_SAMPLER:
        sort, other = (_sampler(replace(settings, sampler=name), rows) for name in ("sort", "flashinfer"))
        source = f"{sort.source}; with FlashInfer, which vLLM's images have, {other.low:g} to {other.high:g} values"
        return replace(sort, low=other.low, source=source)
    if kind == "sort" and rows < _FULL_SORT_BELOW:
        kind = "sort of few rows"
    samplers: Iterable[SamplerMemory] = load_table("sampler_memory", SamplerMemory).values()
    return next(sampler for sampler in samplers if sampler.part in ("", kind) and sampler.applies_to(settings))


_UNSEEN = 16 * _MIB
"""Small tensors of the sampler that the sum omits: half of the largest difference to a printed
value."""
_WORKSPACE = 8 * _MIB + _MIB // 8
"""Workspace that PyTorch gives cuBLAS at its first use: ATen/cuda/CublasHandlePool.cpp,
parseChosenWorkspaceSize."""
_WORKSPACE_FROM_90 = 32 * _MIB


# ---- the mixture of experts


class _KeptResults(NamedTuple):
    """Shares of the experts' two intermediate results that stay allocated after the forward pass."""

    low: float
    expected: float
    high: float
    source: str


_TWO_RESULTS = "both expert GEMM outputs (fused_moe.py, 0.19.0 :1976-1990; marlin_moe.py the same)"
_KEPT = _KeptResults(0.95, 1.0, 1.1, _TWO_RESULTS + " stay in a workspace; 4 measured launches, worst 0.2%; " + _H100)
_FREED = _KeptResults(0.0, 0.0, 0.05, _TWO_RESULTS + " are freed again")
_ELSEWHERE = _KeptResults(
    0.0, 0.0, 0.5, "the MXFP4 expert kernel of this GPU keeps none; 3 measured launches on H100; " + _H100
)
_UNSURE = _KeptResults(0.0, 0.6, 1.8, "unknown which kernel runs these quantized experts, and what it keeps")
_BLACKWELL = _KeptResults(0.0, 1.0, 1.2, _TWO_RESULTS + "; another kernel of this GPU may keep none")

_MODULAR: Key = (0, 14)
"""Experts share a workspace: fused_moe/modular_kernel.py with v1/worker/workspace.py (0.13.0 -> 0.14.1)."""
_MARLIN_DIRECT_UNTIL: Mapping[str, Key] = {
    "mxfp4": (0, 17),
    "awq": (0, 22),
    "awq_marlin": (0, 22),
    "gptq": (0, 20),
    "gptq_marlin": (0, 20),
}
"""First release that calls Marlin with the workspace: quantization/mxfp4.py (0.16.0 :904, 0.17.1
:445), awq_marlin.py (0.21.0 :821, 0.22.1 :696), gptq_marlin.py (0.19.0, 0.20.2 :29)."""


def _held(shape: Shape, settings: LaunchSettings, capability: Capability | None) -> _KeptResults:
    if settings.is_v0 or settings.key < _MODULAR:
        return _FREED
    method = settings.quantization or (shape.quantization.method if shape.quantization else None)
    if method is None:
        return _BLACKWELL if capability is not None and capability[0] >= 10 else _KEPT
    if method == "mxfp4":
        kernel = mxfp4_kernel(shape, capability)
        if kernel == "marlin":
            return _FREED if settings.key < _MARLIN_DIRECT_UNTIL[method] else _KEPT
        return _UNSURE if kernel is None else _ELSEWHERE
    if method in _MARLIN_DIRECT_UNTIL:
        return _FREED if settings.key < _MARLIN_DIRECT_UNTIL[method] else _UNSURE
    if method.startswith("fp8") and capability is not None and capability < (8, 9):
        return _KEPT
    return _UNSURE


# ---- the forward pass


@dataclass(frozen=True)
class _Figures:
    hidden: int
    vocabulary: int
    split: int
    """Most values for a token that are divided by the tensor ranks, over all layers."""
    experts: tuple[Experts, ...]
    per_layer: int
    """Values for a token of all layers' own inputs (gemma 3n and 4)."""
    context: int
    """Heads x values per token to which latent attention expands the cached context; 0 if it does
    not."""
    compressed: Compressed | None
    """Attention with an indexer to compressed latents."""
    streams: int
    """Parallel hidden states."""
    doubts: tuple[str, ...]
    low: float
    high: float
    """Factors on the forward pass for uncertain properties of these layers."""


def _mixer_width(mixer: Attention | Latent | Recurrent) -> int:
    match mixer:
        case Attention():
            query = mixer.heads * mixer.head_dim * (2 if mixer.is_gated else 1)
            return query + mixer.kv_heads * (mixer.head_dim + mixer.value_dim) + mixer.heads * mixer.value_dim
        case Compressed():
            return mixer.heads * mixer.cached_dim
        case Latent():
            return mixer.heads * (2 * (mixer.nope_dim + mixer.rope_dim) + mixer.nope_dim + 2 * mixer.value_dim)
        case Recurrent():
            inner = mixer.inner or mixer.heads * mixer.head_dim
            keys = mixer.key_heads * mixer.key_dim
            values = mixer.value_heads * mixer.value_dim
            # Chunked kernels allocate several copies, some in float32.
            return 4 * (2 * keys + 2 * values + 2 * inner + mixer.groups * mixer.state)


def _network_width(layer: Layer) -> int:
    widths = [0]
    for part in (layer.feed_forward, layer.beside):
        if isinstance(part, Dense):
            widths.append(part.size * (3 if part.is_gated else 2))
        elif isinstance(part, Experts):
            widths.append(part.shared_size * (3 if part.is_gated else 2))
    return max(widths)


_RECURRENT_DOUBT = "memory of state layers in the forward pass is uncertain"
_SPARSE_DOUBT = "memory of the sparse attention indexer is uncertain; 5 measured launches: 1 to 3.3 times the sum"


@lru_cache(maxsize=64)
def _figures(shape: Shape) -> _Figures:
    kinds = shape.kinds
    latent = [layer.mixer for layer in kinds if isinstance(layer.mixer, Latent)]
    doubts, low, high = [], 0.93, 1.09
    if any(isinstance(mixer, Recurrent) for layer in kinds for mixer in layer.mixers):
        doubts.append(_RECURRENT_DOUBT)
        low, high = 0.6, 3.0
    if any(mixer.index_heads for mixer in latent):
        doubts.append(_SPARSE_DOUBT)
        low, high = 0.9, 3.5
    inputs = shape.per_layer_input
    return _Figures(
        hidden=shape.hidden_size,
        vocabulary=shape.vocabulary_size,
        split=max((max(sum(map(_mixer_width, layer.mixers)), _network_width(layer)) for layer in kinds), default=0),
        experts=tuple(dict.fromkeys(layer.feed_forward for layer in kinds if isinstance(layer.feed_forward, Experts))),
        per_layer=2 * inputs.size * shape.layers if inputs else 0,
        context=max((m.heads * (m.nope_dim + m.value_dim) for m in latent if not isinstance(m, Compressed)), default=0),
        compressed=next((mixer for mixer in latent if isinstance(mixer, Compressed) and mixer.index_heads), None),
        streams=max((layer.connections for layer in kinds), default=0) or 1,
        doubts=tuple(doubts),
        low=low,
        high=high,
    )


_HIDDEN_STATES = (2.7, 3.75, 4.6)
"""Hidden states alive in addition to the widest tensors: low, expected, high; fitted to 9 printed
launches."""
_FORWARD_SOURCE = (
    "the forward pass: the widest layer's tensors and 3.75 hidden states; 9 measured launches of 0.7.3 to 0.26.0, "
    "error 0.7% (median), 6% (maximum); " + _H100
)
_SIMULATES_CONTEXT: Key = (0, 11)
"""The profiling run makes the expanded context of latent attention (mla/common.py, 0.11.2 :1879-1888)."""
_CONTEXT_TOKENS = 64 * 1024
"""determine_chunked_prefill_workspace_size (mla/common.py, 0.11.2 :479-507)."""
_BLOCK_TOKENS = 16


def _context_tokens(settings: LaunchSettings) -> int:
    pages = settings.scheduler.sequences * (settings.cache.block_tokens or _BLOCK_TOKENS)
    return max(min(max(8 * settings.scheduler.max_model_len, 4 * pages), _CONTEXT_TOKENS), pages)


_CHUNKS: Sequence[tuple[Key, int]] = (((0, 12), 32 * 1024), (NEVER, 16 * 1024))
"""Tokens per chunk of the experts before each release, if no result is kept:
VLLM_FUSED_MOE_CHUNK_SIZE (envs.py, 0.11.2 and 0.12.0)."""


def _expert_bytes(figures: _Figures, settings: LaunchSettings, width: int) -> tuple[int, int]:
    """Bytes of the experts' two results: kept in the workspace, and freed again.

    The workspace is for the GPU's own tokens, the freed part for those of all ranks. Data-parallel
    ranks exchange their tokens, and shard the experts like tensor ranks if no rank has whole ones
    (fused_moe/config.py, 0.11.0 :695-717; fused_moe/layer.py, 0.11.0 :2001-2021).
    """
    ranks = settings.ranks
    kept = freed = 0
    for experts in figures.experts:
        size = experts.size if ranks.splits_experts else -(-experts.size // (ranks.tensor * ranks.data))
        across = experts.latent or figures.hidden
        first = max(size * (2 if experts.is_gated else 1), across)
        kept = max(kept, experts.per_token * (first + max(size, across)))
        freed = max(freed, experts.per_token * (first + size))
    tokens = settings.scheduler.batched_tokens
    chunk = next(chunk for until, chunk in _CHUNKS if settings.key < until)
    return tokens * kept * width, min(tokens * ranks.data, chunk) * freed * width


class _RankPlace(NamedTuple):
    is_first: bool
    is_last: bool
    samples: bool
    capability: Capability | None


class _Activation(NamedTuple):
    total: Band
    kept: Band
    source: str


def _kept(
    shape: Shape, settings: LaunchSettings, place: _RankPlace, expert_bytes: int, state: int
) -> tuple[Band, _KeptResults]:
    """Memory still allocated after the forward pass.

    This is the experts' workspace, a stage's input and cuBLAS' workspace.
    """
    kept_results = _held(shape, settings, place.capability) if expert_bytes else _FREED
    gathered = expert_bytes * settings.ranks.data
    passed = 0 if place.is_first else 2 * state
    largest = place.capability is None or place.capability >= (9, 0)
    cublas = _WORKSPACE_FROM_90 if largest and place.capability else _WORKSPACE
    shared = _attention_workspace(_figures(shape), settings, place.capability)
    band = Band(
        max(shared, int(expert_bytes * kept_results.low)) + passed + _WORKSPACE,
        max(shared, int(gathered * kept_results.expected)) + passed + cublas,
        max(shared, int(gathered * kept_results.high)) + passed + (_WORKSPACE_FROM_90 if largest else cublas),
    )
    return band, kept_results


_GATHERED_REQUESTS = 4
"""Requests whose latents are gathered together (deepseek_v4/nvidia/flashmla.py, 0.22.1 :147, 0.33.0 :101)."""
_INDEXED_CONTEXTS = 40
"""Contexts whose indexer keys are gathered together (mla/indexer.py get_max_prefill_buffer_size, 0.20.2, 0.33.0)."""
_LOGITS = 512 * _MIB
"""VLLM_SPARSE_INDEXER_MAX_LOGITS_MB (layers/sparse_attn_indexer.py, 0.33.0 :503)."""


def _attention_workspace(figures: _Figures, settings: LaunchSettings, capability: Capability | None) -> int:
    """Part of the experts' workspace that DeepSeek V4's attention needs at least."""
    mixer = figures.compressed
    if mixer is None:
        return 0
    latents = -(-settings.scheduler.max_model_len // mixer.ratio)
    keys = _INDEXED_CONTEXTS * latents * (mixer.index_dim + 4)
    if capability is not None and capability[0] == 12:
        return keys
    rows = latents + mixer.window + settings.scheduler.batched_tokens
    return max(keys, _GATHERED_REQUESTS * rows * mixer.cached_dim * 2)


def _forward(figures: _Figures, settings: LaunchSettings, place: _RankPlace, kept: Band, freed: int) -> Band:
    """The most that lives together in the forward pass; `freed`: bytes of experts' results that do not stay."""
    width = settings.value_bytes
    tokens, tensor = settings.scheduler.batched_tokens, settings.ranks.tensor
    state = tokens * figures.hidden * width
    wide = tokens * width * (-(-figures.split // tensor) + figures.per_layer)
    if figures.context and settings.key >= _SIMULATES_CONTEXT and not settings.is_v0:
        wide = max(wide, _context_tokens(settings) * -(-figures.context // tensor) * width)
    if figures.compressed is not None:
        # The result has more heads than the rank; the indexer's logits are allocated afterwards.
        results = compressed_heads(figures.compressed, tensor) * figures.compressed.cached_dim
        wide = max(wide + tokens * width * results, _LOGITS)
    wide, state = max(wide, freed), state * figures.streams
    sent = 0 if place.is_last else 2 * state
    few, usual, many = _HIDDEN_STATES
    adapters = 3 * tokens * settings.lora.rank * 4
    return Band(
        kept.low + sent + int((wide + few * state) * figures.low),
        kept.expected + sent + int(wide + usual * state),
        kept.high + sent + int((wide + many * state) * figures.high) + adapters,
    )


def _sampled(figures: _Figures, settings: LaunchSettings, place: _RankPlace, kept: Band) -> tuple[Band, Band, str]:
    """Peak of the sampler, the part that stays allocated, and the source."""
    width = settings.value_bytes
    rows = min(settings.scheduler.sequences, settings.scheduler.batched_tokens)
    by = _sampler(settings, rows)
    values = figures.vocabulary * (settings.scheduler.batched_tokens if by.all_tokens else rows) * 4
    # Logits of a float32 model are not copied.
    spared = 0.5 if width == 4 else 0.0
    if by.has_buffer:
        few, usual, many = _MULTIPROCESSORS.get(place.capability or (0, 0), _ANY_MULTIPROCESSORS)
        row = figures.vocabulary * 4
        kept = kept.plus(Band(min(few, rows) * row, min(usual, rows) * row, min(many, rows) * row))
    state = settings.scheduler.batched_tokens * figures.hidden * width
    beside = state + by.extra_mib * _MIB + (0 if settings.is_v0 else 2 * rows * figures.hidden * width)
    low = int(values * (by.low - spared)) + kept.low + state
    expected = int(values * (by.expected - spared)) + kept.expected + beside
    high = int(values * (by.high - spared)) + kept.high + beside + _UNSEEN
    if settings.speculation.tokens:
        # The rejection sampler uses two rows per sequence, and its own copies.
        high += int(values * by.high)
    if settings.lora.rank:
        expected, high = expected + int(values * 0.6), high + int(values * 2)
    return Band(low, expected, high), kept, by.source


_TIMES_KERNELS: Key = (0, 11, 1)
"""Inductor times combined kernels while it compiles: config/compilation.py (0.11.2 :667, 0.33.0 :1002; PyTorch 2.9)."""
_COMPILED = 1.1
"""Most of a compilation's memory, per byte of the embedding."""
_COMPILED_SOURCE = (
    "in a first launch, without vLLM's compile cache, the peak includes a copy of the embedding, which Inductor makes"
    " to time kernels (https://github.com/vllm-project/vllm/issues/54122): 1.0 to 1.1 times its size in 3 launches; of"
    " 29 printed KV caches, 22 are nearer to that of a first launch"
)


def _compiled(shape: Shape, settings: LaunchSettings) -> int:
    """Bytes that are allocated while a first launch compiles the model; 0 if the embedding is not compiled or cached.

    A launch with an encoder embeds its tokens outside of the compiled model.
    """
    graphs = settings.graphs
    is_compiled = graphs.is_compiled and not (graphs.is_cached or graphs.is_eager or settings.is_v0)
    if not is_compiled or settings.key < _TIMES_KERNELS or (shape.encoders and not settings.media.loads_no_encoder):
        return 0
    rows = -(-shape.vocabulary_size // settings.ranks.tensor)
    return rows * shape.hidden_size * settings.value_bytes


def _activation(shape: Shape, settings: LaunchSettings, place: _RankPlace) -> _Activation:
    figures = _figures(shape)
    width = settings.value_bytes
    expert_bytes, freed = _expert_bytes(figures, settings, width)
    kept, kept_results = _kept(
        shape, settings, place, expert_bytes, settings.scheduler.batched_tokens * figures.hidden * width
    )
    total = _forward(figures, settings, place, kept, freed if kept_results is _FREED else 0)
    source = _FORWARD_SOURCE
    if place.samples:
        sampled, kept, text = _sampled(figures, settings, place, kept)
        if sampled.expected > total.expected:
            source = text
        total = Band(max(total.low, sampled.low), max(total.expected, sampled.expected), max(total.high, sampled.high))
    if expert_bytes and kept_results is not _FREED:
        source = f"{source}; {kept_results.source}"
    compiled = _compiled(shape, settings) if place.is_first else 0
    if (most := int(_COMPILED * compiled)) > total.expected:
        total = Band(total.low, max(total.expected, compiled), max(total.high, most))
        source = f"{source}; {_COMPILED_SOURCE}"
    return _Activation(total, kept, "; ".join((source, *figures.doubts)))


def _missing(shape: Shape, settings: LaunchSettings) -> str | None:
    if not shape.kinds or not shape.hidden_size or not shape.vocabulary_size:
        return "unknown activation memory: " + (", ".join(shape.missing) or "the configuration names no layers")
    if not settings.scheduler.batched_tokens or not settings.scheduler.sequences:
        return "unknown activation memory: it grows with max_num_batched_tokens and max_num_seqs"
    return None


def activation(
    shape: Shape,
    settings: LaunchSettings,
    *,
    is_last: bool,
    is_first: bool = True,
    tensor_rank_first: bool = True,
    capability: Capability | None = None,
) -> Term:
    """The most that PyTorch allocates in the profiling run of the text model beyond the weights.

    The last pipeline stage samples (`is_last`); the first one receives no hidden states (`is_first`). In the older
    engine only the first tensor rank samples.
    """
    if (reason := _missing(shape, settings)) is not None:
        return Term("activation", None, reason)
    samples = is_last and (tensor_rank_first or not settings.is_v0) and not settings.is_pooling
    place = _RankPlace(is_first, is_last, samples, capability)
    estimate = _activation(shape, settings, place)
    return Term("activation", estimate.total, estimate.source)


def activation_kept(
    shape: Shape,
    settings: LaunchSettings,
    *,
    is_last: bool,
    is_first: bool = True,
    capability: Capability | None = None,
) -> Term:
    """Activation still allocated after the profiling run: workspaces and the sampler's buffer.

    From 0.27 on vLLM prints the peak without it, and counts it as consumed memory
    (utils/mem_utils.py, 0.27.1 :234).
    """
    if (reason := _missing(shape, settings)) is not None:
        return Term("activation", None, reason)
    estimate = _activation(
        shape, settings, _RankPlace(is_first, is_last, is_last and not settings.is_pooling, capability)
    )
    return Term("activation", estimate.kept, estimate.source)


# ---- memory outside PyTorch


def _gib(low: float, expected: float, high: float) -> Band:
    return Band(int(low * GIB), int(expected * GIB), int(high * GIB))


def _measured(part: str, settings: LaunchSettings) -> MeasuredMemory:
    rows: Iterable[MeasuredMemory] = load_table("non_torch_memory", MeasuredMemory).values()
    return next(row for row in rows if row.part == part and row.applies_to(settings))


_GRAPHS_PROFILED: Key = (0, 18)
"""profile_cudagraph_memory: v1/worker/gpu_model_runner.py (0.18.1 :5593)."""
_GRAPHS_APART: Key = (0, 27)
"""Graphs are profiled after the measurement: v1/worker/gpu_worker.py (0.27.1 :460)."""
_GRAPHS_RESERVED: Key = (0, 20)
"""First release in which VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is on by default: envs.py
(0.20.2)."""
_RUNNER_PROFILES: Key = (0, 29)
"""The newer runner profiles graphs: v1/worker/gpu/cudagraph_utils.py (0.29.0 :718); it returned 0 before."""


def _profiles_graphs(settings: LaunchSettings) -> bool:
    if settings.is_v0 or settings.graphs.is_eager or not settings.graphs.piecewise + settings.graphs.full:
        return False
    return settings.key >= (_RUNNER_PROFILES if settings.is_v2_runner else _GRAPHS_PROFILED)


def non_torch(settings: LaunchSettings, *, is_rocm: bool = False) -> Term:
    """Non-torch memory as the release counts it, on one GPU without communication."""
    part = "rocm" if is_rocm else "non_torch"
    if not is_rocm and not settings.is_v0 and _GRAPHS_PROFILED <= settings.key < _GRAPHS_APART:
        if settings.ranks.pipeline > 1 and settings.ranks.tensor == 1:
            part = "non_torch_stages"
        else:
            part = "non_torch_with_graphs" if _profiles_graphs(settings) else "non_torch_without_graphs"
    row = _measured(part, settings)
    return Term("non_torch", row.band, row.source)


HOST_USE = Band(int(0.9 * GIB), int(1.6 * GIB), int(2.6 * GIB))
"""Memory of a host without GPUs that a worker does not get: 0.54 GiB each for the API server and the engine core, and
the operating system (vLLM 0.32.0 on one host). vLLM compares the rest with the share that it asks for
(v1/worker/cpu_worker.py, 0.20.2 :65, 0.33.0 :89)."""
_OF_WEIGHTS = (0.1, 0.22, 0.4)
"""Memory of a worker on a CPU per byte of its weights, for what the allocator keeps of loading and packing them: in 10
launches of vLLM 0.32.0 with 0.9 to 7.5 GiB of weights, the memory beyond them grew so (tests/plan/test_cpu.py)."""


def worker_process(settings: LaunchSettings, weights: Band | None) -> Term:
    """Memory of a worker's process on a CPU beyond its weights: libraries, warm-up and what the allocator keeps."""
    if weights is None:
        return Term("non_torch", None, "the weights are unknown")
    row = _measured("cpu" if settings.graphs.is_eager else "cpu_compiled", settings)
    kept = Band(*(int(side * share) for side, share in zip(weights, _OF_WEIGHTS, strict=True)))
    return Term("non_torch", row.band.plus(kept), row.source)


@dataclass(frozen=True, kw_only=True)
class BandWidth:
    """Memory that one kind of launch needs beyond its terms, from launches with printed memory."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    shift_gib: float = 0.0
    """GiB that it usually needs."""
    margin: float = 0.0
    """Share of the GPU's memory that it may need in addition."""
    source: str
    """Number of launches and of their sources."""


_MANY_GPUS = 8
LAUNCH_KINDS = ("shared-memory", "draft", "encoder", "many-gpus", "several-gpus", "one-gpu")
"""Rows of `band_widths`, the least certain first."""


def launch_kind(settings: LaunchSettings, capability: Capability | None, *, has_encoder: bool) -> str:
    """Row of `band_widths` for a launch: the property that makes its memory least certain."""
    properties = (
        shares_memory(capability),
        settings.speculation.tokens > 0,
        has_encoder,
        settings.ranks.cards >= _MANY_GPUS,
        settings.ranks.cards > 1,
        True,
    )
    return LAUNCH_KINDS[properties.index(True)]


def band_width(kind: str) -> BandWidth:
    """Width of the memory bands of a kind of launch."""
    rows: Mapping[str, BandWidth] = load_table("band_widths", BandWidth)
    return rows[kind]


@dataclass(frozen=True, kw_only=True)
class MeasuredGpu:
    """Launches on a GPU whose printed memory was compared with the plan."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    launches: int


def measured_launches(gpu: str) -> int:
    """Number of launches on a GPU that were compared with the plan."""
    rows: Mapping[str, MeasuredGpu] = load_table("measured_gpus", MeasuredGpu)
    return rows[gpu].launches if gpu in rows else 0


_MULTICAST: Capability = (9, 0)
"""GPUs below share no symmetric memory: distributed/device_communicators/symm_mem.py, all_reduce_utils.py."""


def communication(
    settings: LaunchSettings,
    interconnect: str | None,
    nodes: int = 1,
    *,
    capability: Capability | None = None,
    has_experts: bool = False,
    is_rocm: bool = False,
) -> Term:
    """Memory for communication between GPUs, in addition to `non_torch`.

    `interconnect` is "nvlink" (every GPU to every other), "nvlink-bridge" (pairs) or "pcie", None
    if unknown. `nodes` is the number of hosts. Data-parallel ranks share the experts of a
    mixture-of-experts model.
    """
    ranks = settings.ranks
    shares = ranks.tensor > 1 or (ranks.data > 1 and has_experts)
    if not shares and ranks.pipeline == 1:
        return Term("communication", NOTHING, "single GPU, no communication")
    if not shares:
        return Term(
            "communication",
            _gib(0.0, 0.0, 0.3 * nodes),
            "stages pass only hidden states; no cost visible in 3 measured launches; " + _H100,
        )
    near, far = _measured("pcie", settings), _measured("nvlink", settings)
    if is_rocm:
        near = far = _measured("rocm_many_ranks" if ranks.tensor >= _MANY_GPUS else "rocm_ranks", settings)
    elif settings.is_v0 and ranks.tensor * ranks.pipeline >= 8:
        near = far = _measured("many_ranks", settings)
    is_old = capability is not None and capability < _MULTICAST
    if near is far or interconnect == "pcie" or (interconnect == "nvlink-bridge" and is_old):
        band, source = near.band, near.source
    elif interconnect == "nvlink" and not is_old:
        band, source = far.band, far.source
    else:
        band = Band(near.band.low, (near.band.expected + far.band.expected) // 2, far.band.high)
        why = "unknown interconnect" if interconnect is None else f"{interconnect} was not measured"
        source = f"{why}: between PCIe ({near.source}) and NVLink ({far.source})"
    if nodes > 1:
        band = Band(band.low, band.expected, band.high + GIB)
        source += "; several hosts: up to 1 GiB more, not measured"
    return Term("communication", band, source)


# ---- CUDA graphs


@dataclass(frozen=True, kw_only=True)
class GraphMemory(MeasuredMemory):
    """Memory of graph capture; `low`, `expected` and `high` are factors for the scatter."""

    fixed: float
    """GiB whatever is captured."""
    per_graph: float
    """GiB of each graph."""
    expected: float = 1.0


_MANY_CARDS_UNTIL: Key = (0, 11)
_MANY_CARDS = int(3.6 * GIB)
"""5 printed launches of large models on 2 to 16 GPUs before 0.11: 2.4 to 3.5 GiB."""
_SPARSE = int(4.5 * GIB)
"""4 printed launches of DeepSeek V4: 0.1 to 4.1 GiB, one 8.6."""
_SPARSE_GRAPH = 0.025
"""GiB of each graph with a sparse attention indexer: four printed estimates (GLM-5.2, DeepSeek V4), 0 to 0.046."""


def _graph_row(settings: LaunchSettings) -> GraphMemory:
    rows: Mapping[str, GraphMemory] = load_table("cuda_graph_memory", GraphMemory)
    return next(row for row in rows.values() if row.applies_to(settings))


def _graphs(shape: Shape, settings: LaunchSettings) -> tuple[Band, str]:
    count = settings.graphs.piecewise + settings.graphs.full
    if settings.graphs.is_eager or not count:
        return NOTHING, "no CUDA graphs are captured"
    row = _graph_row(settings)
    is_sparse = _SPARSE_DOUBT in _figures(shape).doubts
    expected = row.fixed + (max(row.per_graph, _SPARSE_GRAPH) if is_sparse else row.per_graph) * count
    low, middle, high = _gib((row.fixed + row.per_graph * count) * row.low, expected, expected * row.high)
    if settings.ranks.tensor > 1 and settings.key < _MANY_CARDS_UNTIL:
        high = max(high, _MANY_CARDS)
    if is_sparse:
        high = max(high, _SPARSE)
    return Band(low, middle, high), row.source


def graphs_captured(shape: Shape, settings: LaunchSettings) -> Term:
    """Memory of CUDA graph capture, which is outside the utilization's share."""
    band, source = _graphs(shape, settings)
    return Term("cuda_graphs", band, source)


_ESTIMATE = (0.6, 1.0, 2.4)
"""Ratio of the estimate to the captured memory: 25 printed pairs, 10th, 50th and 90th
percentile."""
_ESTIMATE_OF_RUNNER = (0.6, 2.7, 3.6)
"""The same of the newer runner: 3 launches of 0.29.0 to 0.31.0 on A100, L4 and RTX 4070, whose memory leaves 2.1 to 2.9
times the usual captured memory for it. The low end is the older runner's, the high end a quarter above the highest."""
_MEASURED = "vLLM's estimate, which was 0.6 to 2.4 times the memory used in 25 measured captures"
_MEASURED_OF_RUNNER = "vLLM's estimate, about 2.7 times the memory used, as 3 measured launches leave for it"
_NEGATIVE = -28 * GIB
_NEGATIVE_SOURCE = (
    "on GPUs that share the host's memory, vLLM compares free memory without the page cache, so the estimate can be"
    " negative and enlarges the KV cache if only one kind of graph is captured (https://github.com/vllm-project/vllm/"
    "issues/44740; 12 printed estimates with speculative decoding on GB10: -36 to 0.3 GiB)"
)
_STATES_IN_CONTEXT: Key = (0, 26)
_STATE_BYTES = 16
_STATE_GRAPH = 24 * _MIB
_STATE_SOURCE = (
    "with gated linear attention, 24 MiB per full graph and 16 bytes per value of max_num_batched_tokens tokens"
    " (https://github.com/vllm-project/vllm/issues/50780; three printed estimates of 0.26 to 0.28: 1.19 to 1.94 GiB)"
)


def _states_estimated(shape: Shape, settings: LaunchSettings) -> int:
    """What the estimate counts in addition for layers with gated linear attention.

    The first full graph is profiled with a context of max_num_batched_tokens tokens, whose states are counted as graph
    memory. The second one stands for all others, in place of the usual memory of each.
    """
    width = max(
        (
            mixer.value_heads * mixer.value_dim
            for layer in shape.kinds
            for mixer in layer.mixers
            if isinstance(mixer, Recurrent)
        ),
        default=0,
    )
    if not width or not settings.graphs.full or settings.is_v2_runner or settings.key < _STATES_IN_CONTEXT:
        return 0
    values = settings.scheduler.batched_tokens * -(-width // settings.ranks.tensor)
    usual = int(_graph_row(settings).per_graph * GIB)
    return settings.graphs.full * (_STATE_GRAPH - usual) + values * _STATE_BYTES


def graphs_reserved(
    shape: Shape, settings: LaunchSettings, *, capability: Capability | None = None, is_estimated: bool | None = None
) -> Term:
    """Memory that the release subtracts from the KV cache for CUDA graphs.

    `is_estimated` is `VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`, None if not set.
    """
    if not _profiles_graphs(settings):
        return Term("cuda_graphs", NOTHING, "this release, or this launch, reserves no memory for CUDA graphs")
    if is_estimated is None:
        is_estimated = settings.key >= _GRAPHS_RESERVED
    if not is_estimated:
        return Term(
            "cuda_graphs",
            NOTHING,
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is off: no memory reserved for CUDA graphs",
        )
    band, source = _graphs(shape, settings)
    low, middle, high = _ESTIMATE_OF_RUNNER if settings.is_v2_runner else _ESTIMATE
    states = _states_estimated(shape, settings)
    text = f"{_MEASURED_OF_RUNNER if settings.is_v2_runner else _MEASURED}; {source}"
    least = int(band.low * low)
    if states:
        text += f"; {_STATE_SOURCE}"
    is_drafting = settings.speculation.tokens > 0
    if is_drafting and shares_memory(capability) and not (settings.graphs.piecewise and settings.graphs.full):
        least, text = _NEGATIVE, f"{text}; {_NEGATIVE_SOURCE}"
    return Term(
        "cuda_graphs",
        Band(least, int(band.expected * middle) + states, int(band.expected * high) + 2 * states),
        text,
    )


# ---- before the model is loaded

_CONTEXT_BELOW: Sequence[tuple[int, Band, str]] = (
    (17 * GIB, _gib(0.15, 0.23, 0.4), "2 measured launches on 16 GB GPUs: 0.23 GiB between the total and what is free"),
    (10**15, _gib(0.3, 0.5, 0.65), "12 measured launches on one GPU of 24 to 268 GiB: 0.34 to 0.61 GiB"),
)


def context(total: int | None = None) -> Term:
    """Memory of driver and process on a GPU before the model is loaded and before ranks connect.

    It is not part of a budget. A profiling run must fit into the rest of the `total` bytes (None if
    unknown).
    """
    if total is None:
        return Term("context", _gib(0.15, 0.45, 0.65), "14 measured launches: 0.23 to 0.61 GiB")
    band, source = next((band, source) for limit, band, source in _CONTEXT_BELOW if total < limit)
    return Term("context", band, source)


_FREE_CHECKED: Key = (0, 9, 2)


def checks_free(settings: LaunchSettings) -> bool:
    """Whether vLLM exits if less memory is free than its utilization allows.

    v1/worker/gpu_worker.py (0.9.2 :120).
    """
    return not settings.is_v0 and settings.key >= _FREE_CHECKED


FRAGMENTED = (0.0, 0.17, 0.6)
"""Memory that the allocator reserves but does not use while an encoder is profiled, as a share of
the live tensors.

One launch was measured in full: 614 MiB for 3.4 GiB (catalog/cases/autoglm-3090-video-oom). Of
eight other printed startup failures, five had less than 0.12 GiB and two with images 2.26 and 4.07
GiB.
"""
