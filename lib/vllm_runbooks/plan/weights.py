"""Bytes of a model's weights on each GPU, in vLLM's layout.

`inventory` converts a `Shape` to its tensors, once; `load` sums those of a rank. Sizes are exact
bytes for the listed tensors. If the layout depends on unknowns (the kernel of quantized experts,
the allocator's rounding), `low` and `high` are the bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import lru_cache

from vllm_runbooks.catalog.eras import EraValue, Key, in_release
from vllm_runbooks.plan.encoders import encoder_tensors, is_whole, taps, tower_of
from vllm_runbooks.plan.families import Family, families
from vllm_runbooks.plan.shape import Compressed, Experts, Format, Latent, Layer, Quantization, Rope, Shape
from vllm_runbooks.plan.tensors import CORRECTION, ModelTensor, layer_tensors, linear, mtp_tensors, norm, stream_head

_MIB = 2**20
VOCABULARY_PADDING = 64
"""Rows that a sharded embedding is padded to (vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE)."""
VALUE_BYTES: Mapping[str, int] = {"bfloat16": 2, "float16": 2, "half": 2, "float": 4, "float32": 4}
"""Bytes per value, by name of the dtype."""


Stored = tuple[tuple[ModelTensor, Format | None], ...]
"""Tensors with their storage format; None for the model's dtype."""


@dataclass(frozen=True)
class Variant:
    """Layers with identical tensors and storage formats."""

    layers: tuple[int, ...]
    tensors: Stored
    ropes: tuple[Rope, ...]
    uses_other_cache: bool = False


@dataclass(frozen=True)
class TensorInventory:
    """All tensors of a model, identical layers counted together."""

    shape: Shape
    variants: tuple[Variant, ...]
    embedding: Stored
    head: Stored
    """Empty if the embedding is also the head."""
    norm: ModelTensor | None
    """Norm after the last layer; None if there is none."""
    encoders: Stored
    mtp: Stored
    missing: tuple[str, ...] = ()

    @property
    def everything(self) -> Iterator[tuple[ModelTensor, Format | None, int]]:
        """Each tensor with its format and the number of layers that have it."""
        for variant in self.variants:
            for tensor, form in variant.tensors:
                yield tensor, form, len(variant.layers)
        for part in (self.embedding, self.head, self.encoders, self.last_norm, self.mtp):
            for tensor, form in part:
                yield tensor, form, 1

    @property
    def last_norm(self) -> Stored:
        """The norm after the last layer, if any."""
        return () if self.norm is None else ((self.norm, None),)

    def parameters(
        self, *, with_scales: bool = True, with_corrections: bool = True, with_mtp: bool = True
    ) -> int | None:
        """Number of values in the checkpoint's files; None if unknown.

        For packed integers the weights before packing are counted, for NVFP4 the bytes, as in
        published figures. Some of those leave out the scales, or the biases of the choice of
        experts, which are float32. Some checkpoints leave out the layers for speculative decoding
        that their configuration names.
        """
        if self.missing:
            return None
        return sum(
            _stored(tensor, form, with_scales=with_scales) * times
            for tensor, form, times in self.everything
            if tensor.in_checkpoint
            and (with_corrections or not tensor.name.endswith(CORRECTION))
            and (with_mtp or tensor.component != "mtp")
        )


_HARMLESS = {"max_position_embeddings", "use_sliding_window", "sliding_window", "max_window_layers"}
"""Fields without which the weights are still known."""


def _scale_count(form: Format, rows: int, columns: int) -> int:
    if form.strategy == "block":
        return -(-rows // form.block[0]) * -(-columns // form.block[1])
    if form.strategy == "group" and form.group:
        return rows * -(-columns // form.group)
    return rows if form.strategy == "channel" else 1


def _stored(tensor: ModelTensor, form: Format | None, *, with_scales: bool) -> int:
    if form is None or form.bits == 16:
        return tensor.values
    weights = tensor.rows * tensor.columns
    scales = _scale_count(form, tensor.rows, tensor.columns) if with_scales else 0
    if form.strategy == "tensor":
        # A scale without dimensions is not counted; a checkpoint with `activation_scheme` writes
        # them as vectors.
        scales = 2 * form.vector_scales if with_scales else 0
    bias = tensor.rows if tensor.bias else 0
    if form.bits >= 8:
        return tensor.count * (weights + bias + scales)
    if form.is_float and form.group == 16:
        return tensor.count * (weights // 2 + scales + bias)
    return tensor.values


_ROOTS = ("model.language_model.", "language_model.model.", "model.", "backbone.", "language_model.", "")


class _ModuleNames:
    def __init__(self, patterns: Iterable[str]) -> None:
        self.exact: set[str] = set()
        starts, general = [], []
        for pattern in patterns:
            if pattern.startswith("re:"):
                general.append(pattern.removeprefix("re:"))
            elif pattern.endswith("*") and "*" not in pattern[:-1]:
                starts.append(pattern[:-1])
            elif "*" in pattern:
                general.append(translate(pattern))
            else:
                self.exact.add(pattern)
        self.starts = tuple(starts)
        self.general = [re.compile(pattern) for pattern in general]
        self.is_per_layer = any("layers" in text for text in (*self.exact, *starts, *general))
        self.words = {pattern for pattern in self.exact if "." not in pattern}

    def has(self, name: str) -> bool:
        """Whether the module of this name, without its root, is included."""
        if not (self.exact or self.starts or self.general):
            return False
        parts = name.split(".")
        if not self.words.isdisjoint(parts):
            return True
        for root in _ROOTS:
            full = root + name
            if full.startswith(self.starts) or any(pattern.match(full) for pattern in self.general):
                return True
            if any(root + ".".join(parts[:cut]) in self.exact for cut in range(len(parts), 0, -1)):
                return True
        return False


class _Forms:
    def __init__(self, quantization: Quantization | None) -> None:
        self.quantization = quantization
        formats = quantization.formats if quantization is not None else ()
        self.groups = [(_ModuleNames(names), "Linear" in names, "Experts" in names, form) for names, form in formats]
        self.ignored = _ModuleNames(quantization.ignored if quantization is not None else ())

    @property
    def is_per_layer(self) -> bool:
        return self.ignored.is_per_layer or any(names.is_per_layer for names, *_ in self.groups)

    def of(self, tensor: ModelTensor, name: str) -> Format | None:
        """Format of a tensor; None for the model's dtype."""
        if not tensor.is_linear or not self.groups or self.ignored.has(name):
            return None
        for names, is_general, is_experts, form in self.groups:
            if (is_experts and tensor.split.startswith("experts")) or (
                not is_experts and (is_general or names.has(name))
            ):
                return form
        return None

    def named(self, name: str) -> Format | None:
        """Format of a module that is quantized only if its own name is listed."""
        return next((form for names, _, _, form in self.groups if names.has(name)), None)


def _ropes(layer: Layer) -> tuple[Rope, ...]:
    rope = getattr(layer.mixer, "rope", None)
    return (rope,) if rope is not None else ()


def inventory(shape: Shape) -> TensorInventory:
    """Tensors of a model; facts that make their sizes unknown are named."""
    hidden, vocabulary = shape.hidden_size, shape.vocabulary_size
    family = families().get(shape.text_type or "")
    missing = [name for name in shape.missing if name not in _HARMLESS]
    if shape.ties_embeddings is None:
        missing.append("tie_word_embeddings")
    encoders: list[ModelTensor] = []
    if shape.encoders is None:
        missing.append("sizes of the encoder")
    for encoder in shape.encoders or ():
        tower = encoder_tensors(encoder, hidden)
        if tower is None:
            missing.append(f"sizes of the encoder {encoder.family}")
        encoders.extend(tower or ())
    last = None
    if family is None or not family.is_encoder or family.has_rope:
        bias = family.norm_bias if family is not None else False
        last = norm("model.norm", hidden, bias=bias, count=shape.last_norms)
    if family is None or not shape.kinds:
        return TensorInventory(shape, (), (), (), last, (), (), tuple(dict.fromkeys(missing or ["layers"])))
    forms = _Forms(shape.quantization)
    inputs = shape.per_layer_input
    size = inputs.size if inputs else 0
    by_kind = [tuple(layer_tensors(layer, hidden, family, inputs=size)) for layer in shape.kinds]
    head = ModelTensor("head", "lm_head", vocabulary, hidden, "vocabulary", bias=shape.head_bias)
    streams = shape.kinds[0].connections
    mixing = tuple((tensor, None) for tensor in stream_head(streams, hidden, "head")) if streams else ()
    return TensorInventory(
        shape,
        _variants(shape, by_kind, forms),
        tuple((tensor, forms.of(tensor, tensor.name)) for tensor in _embedding(shape, family)),
        (() if shape.ties_embeddings else ((head, forms.named(head.name)),)) + mixing,
        last,
        tuple((tensor, None) for tensor in encoders),
        tuple((t, forms.of(t, f"layers.{shape.layers}.{t.name}")) for t in mtp_tensors(shape, family)),
        tuple(dict.fromkeys(missing)),
    )


def _variants(shape: Shape, by_kind: Sequence[tuple[ModelTensor, ...]], forms: _Forms) -> tuple[Variant, ...]:
    groups: dict[tuple[int, tuple[Format | None, ...]], list[int]] = {}
    uniform: dict[int, tuple[Format | None, ...]] = {}
    for index, kind in enumerate(shape.pattern):
        forms_of_kind = uniform.get(kind)
        if forms_of_kind is None:
            forms_of_kind = tuple(forms.of(tensor, f"layers.{index}.{tensor.name}") for tensor in by_kind[kind])
            if not forms.is_per_layer:
                uniform[kind] = forms_of_kind
        groups.setdefault((kind, forms_of_kind), []).append(index)
    return tuple(
        Variant(
            tuple(layers),
            tuple(zip(by_kind[kind], forms_of_kind, strict=True)),
            _ropes(shape.kinds[kind]),
            uses_other_cache=getattr(shape.kinds[kind].mixer, "shares_cache_of", None) is not None,
        )
        for (kind, forms_of_kind), layers in groups.items()
    )


def _embedding(shape: Shape, family: Family) -> list[ModelTensor]:
    hidden, vocabulary, inputs = shape.hidden_size, shape.vocabulary_size, shape.per_layer_input
    split = "vocabulary" if family.splits_vocabulary else ""
    embedding = [ModelTensor("embedding", "embed_tokens", vocabulary, hidden, split)]
    if inputs is not None:
        wide = inputs.size * shape.layers
        embedding.append(ModelTensor("embedding", "embed_tokens_per_layer", inputs.vocabulary, wide, "vocabulary"))
        embedding.append(linear("embedding", "per_layer_model_projection", wide, hidden, "column"))
        embedding.append(norm("per_layer_projection_norm", inputs.size))
    if family.positions is not None and shape.max_positions is not None:
        embedding.append(ModelTensor("embedding", "embed_positions", shape.max_positions + family.positions, hidden))
    if family.is_encoder:
        if not family.has_rope:
            rows = {"position_embeddings": shape.max_positions or 0, "token_type_embeddings": shape.token_types}
            embedding += [ModelTensor("embedding", name, count, hidden, "vocabulary") for name, count in rows.items()]
        embedding.append(norm("embeddings.LayerNorm", hidden, bias=family.norm_bias))
        if shape.labels:  # in float32, as the pooler (models/roberta.py, `head_dtype`)
            embedding.append(ModelTensor("head", "classifier.dense", hidden, hidden, bias=True, width=4))
            embedding.append(ModelTensor("head", "classifier.out_proj", shape.labels, hidden, bias=True, width=4))
    streams = shape.kinds[0].streams
    if streams:
        embedding.append(linear("embedding", "altup_projections", hidden, hidden, "column", count=2 * (streams - 1)))
    extra = _EXTRA_ROWS.get(shape.model_type or "", 0)
    if extra:
        embedding[0] = replace(embedding[0], rows=vocabulary + extra)
    return embedding


_EXTRA_ROWS = {"mllama": 8}
"""Rows of the embedding beyond the vocabulary, for image tokens."""


@dataclass(frozen=True)
class Ranks:
    """Parallel sizes of a model."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    splits_experts: bool = False
    """`--enable-expert-parallel`: each GPU has some experts whole instead of a part of each."""
    partition: tuple[int, ...] | None = None
    """Layers of each pipeline stage (VLLM_PP_LAYER_PARTITION); None for vLLM's default."""
    encoder_data: bool = False
    """`--mm-encoder-tp-mode data`: each GPU has the whole encoder."""
    prefill: int = 1
    """Prefill context parallel size: GPUs that process a prompt together, each with the weights but
    only a part of the experts."""

    @property
    def cards(self) -> int:
        """GPUs of one replica (config/parallel.py, `world_size`: 0.12.0 :504, 0.33.0 :964)."""
        return self.tensor * self.pipeline * self.data * self.prefill

    def stage(self, rank: int) -> int:
        """Pipeline stage of a rank; ranks are ordered by stage, then prefill, then tensor rank."""
        return rank // (self.tensor * self.prefill) % self.pipeline


@dataclass(frozen=True)
class Loaded:
    """Bytes of weights on one GPU of a pipeline stage after loading."""

    components: Mapping[str, int]
    """"allocator" is the rounding of the allocator, "rotary" the rotary tables."""
    low: int
    expected: int
    high: int
    reasons: tuple[str, ...] = ()
    """Why `low` and `high` differ from `expected`."""


_REMAINDER = (EraValue("last"), EraValue("before last", (0, 8)))
"""Stages that get the remaining layers: distributed/utils.py get_pp_indices (0.7.3 :65-86, 0.8.5
:103-105)."""
_DYNAMIC_ROWS = (EraValue("stretched"), EraValue("plain", (0, 22)))
"""Rows of the table of "dynamic": layers/rotary_embedding/dynamic_ntk_scaling_rope.py (0.21.0 :62, 0.22.1 :67)."""
_ABSORBED = (EraValue("products"), EraValue("factors", (0, 8)))
"""Additional tensors kept for the second projection of latent attention.

"products": its products with the adjacent projections (attention/backends/mla/utils.py, 0.7.2
:330-394, 0.7.3 :323-390); "factors": its two halves, views of the weight itself unless that is
quantized (mla/common.py).
"""
_SHARED_PROJECTIONS = (EraValue(True), EraValue(False, (0, 30)))
"""Whether layers that use another's cache load its projections: models/gemma4.py (0.29.0 :421, 0.30.0 :409-419)."""


def stages(layers: int, ranks: Ranks, release: Key | None = None) -> tuple[int, ...]:
    """Number of layers of each pipeline stage."""
    if ranks.partition is not None:
        return ranks.partition
    count_each, left = divmod(layers, ranks.pipeline)
    counts = [count_each] * ranks.pipeline
    if left and in_release(_REMAINDER, release) == "last":
        counts[-1] += left
    else:
        for place in range(2, left + 2):
            counts[-place] += 1
    return tuple(counts)


_MULTIMODAL_ROWS = 4
"""Factor on the length of a table with image positions (mrope.py, `cache_max_position_num`)."""


def table_bytes(rope: Rope, release: Key | None, width: int) -> int:
    """Bytes of a table of cosines and sines."""
    stretched = int(rope.positions * rope.factor)
    if rope.kind in ("yarn", "deepseek_yarn", "linear", "ntk"):
        rows = stretched
    elif rope.kind in ("longrope", "su"):
        rows = rope.positions + rope.longest
    elif rope.kind == "dynamic" and in_release(_DYNAMIC_ROWS, release) == "stretched":
        rows = stretched
    else:
        rows = rope.longest
    return rows * (_MULTIMODAL_ROWS if rope.is_multimodal else 1) * rope.dim * (rope.width or width)


@dataclass(frozen=True)
class _Kernel:
    """Padding of an MXFP4 expert kernel, in values: multiples of sizes."""

    hidden: int = 1
    inner: int = 1
    inputs: int = 1
    """Multiple for the input of each matrix, without its scales."""
    scale_rows: int = 1
    bias_width: int = 0
    """Bytes of a bias; 0: the dtype's."""


_MARLIN = (EraValue(_Kernel(256, 128)),)
_TRITON = (
    EraValue(_Kernel(1, 64, inputs=256, scale_rows=256, bias_width=4)),
    EraValue(_Kernel(1, 128, inputs=256, scale_rows=256, bias_width=4), (0, 19)),
)
_KERNELS: Mapping[str, tuple[EraValue, ...]] = {
    "marlin": _MARLIN,
    "triton": _TRITON,
    "trtllm": (EraValue(_Kernel(256, 256)), EraValue(_Kernel(256, 128), (0, 28))),
    "none": (EraValue(_Kernel()),),
}
"""Padding by MXFP4 expert kernel.

quantization/mxfp4.py (0.15.1 :277-329, :738-750), fused_moe/oracle/mxfp4.py (0.19.0 :370-399, TRTLLM's
0.25.1 :647, 0.28.0 :656). The padding of Triton's layout for Hopper is not in the source: inputs to 128 bytes and
rows of scales to 256 follow from measured launches (gpt-oss 20B and 120B on H100, one and two GPUs: 13.47,
64.38, 32.98, from 0.19 on 7.01 GiB).
"""


_UNREAD: tuple[Key, Key] = ((0, 26), (0, 28))
"""Releases between two that were read, whose TRTLLM kernel may pad as either."""


def mxfp4_kernel(shape: Shape, capability: tuple[int, int] | None) -> str | None:
    """Default kernel of a model's experts for a GPU's compute capability; None if unknown."""
    if capability is None:
        return None
    if capability[0] == 9 and shape.text_type == "gpt_oss":
        # Triton's has no activation but gpt-oss's (0.33.0 fused_moe/experts/gpt_oss_triton_kernels_moe.py:1100).
        return "triton"
    if capability[0] == 10:
        return "trtllm"
    return "marlin"


_RUNTIME: Mapping[str, tuple[Format, bool]] = {
    "fp8": (Format(bits=8, strategy="tensor", scale_bytes=4, is_float=True), False),
    "fp8_per_tensor": (Format(bits=8, strategy="tensor", scale_bytes=4, is_float=True), False),
    "fp8_per_block": (Format(bits=8, strategy="block", block=(128, 128), scale_bytes=4, is_float=True), False),
    "ptpc_fp8": (Format(bits=8, strategy="channel", scale_bytes=4, is_float=True), False),
    "bitsandbytes": (Format(bits=4, group=64, scale_bytes=4), False),
    "experts_int8": (Format(bits=8, strategy="channel", scale_bytes=4), True),
}
"""Quantizations done while loading, and whether they are for experts alone."""


def round_up(value: int, multiple: int) -> int:
    """The next multiple."""
    return -(-value // multiple) * multiple


def on_rank(tensor: ModelTensor, ranks: Ranks) -> tuple[int, int, int]:
    """Count, rows and columns of a tensor on a rank."""
    count, rows, columns = tensor.count, tensor.rows, tensor.columns
    split, tp = tensor.split, ranks.tensor
    if not split:
        return count, rows, columns
    if split.startswith("experts"):
        group = tp * ranks.data * ranks.prefill
        if ranks.splits_experts:
            return -(-count // group), rows, columns
        split, tp = split.removeprefix("experts/"), group
    if tp == 1 and split != "vocabulary":
        return count, rows, columns
    if split == "column":
        return count, -(-rows // tp), columns
    if split == "row":
        return count, rows, -(-columns // tp)
    if split == "kv":
        heads = max(1, tensor.heads)  # a wrong configuration may have none
        return count, rows // heads * max(1, -(-heads // tp)), columns
    return count, -(-round_up(rows, VOCABULARY_PADDING) // tp), columns


def _bytes(count: int, rows: int, columns: int, form: Format | None, width: int, *, bias: bool) -> tuple[int, int]:
    """Bytes of the weights, and of their scales, zeros and biases."""
    beside = count * rows * width if bias else 0
    if form is None:
        return count * rows * columns * width, beside
    weights = count * (rows * columns * form.bits // 8)
    scales = _scale_count(form, rows, columns)
    beside += count * scales * form.scale_bytes
    if form.has_zeros:
        beside += count * (scales * form.bits // 8)
    if form.has_order:
        beside += count * columns * 4
    return weights, beside


def size_on_rank(tensor: ModelTensor, ranks: Ranks, dtype: str | None) -> int:
    """Bytes of a tensor that is not quantized on each rank."""
    width = tensor.width or VALUE_BYTES.get(dtype or "", 2)
    return sum(_bytes(*on_rank(tensor, ranks), None, width, bias=tensor.bias))


def checkpoint_bytes(stock: TensorInventory) -> int | None:
    """Bytes of a checkpoint's tensors in its configured format, else 16 bits; None if unknown."""
    if stock.missing:
        return None
    width = VALUE_BYTES.get(stock.shape.dtype or "", 2)
    return sum(
        times * sum(_bytes(tensor.count, tensor.rows, tensor.columns, form, tensor.width or width, bias=tensor.bias))
        for tensor, form, times in stock.everything
        if tensor.in_checkpoint
    )


def layer_bytes(stock: TensorInventory) -> int | None:
    """Bytes of all layers in the checkpoint's files, counted like those of `checkpoints.layer_bytes`.

    None if unknown, or if vLLM stores the quantized weights in another form than the files.
    """
    quantization = stock.shape.quantization
    if stock.missing or (quantization is not None and quantization.method == "bitsandbytes"):
        return None
    return sum(
        len(variant.layers)
        * sum(_bytes(tensor.count, tensor.rows, tensor.columns, form, tensor.width or 2, bias=tensor.bias))
        for variant in stock.variants
        for tensor, form in _without_zeros(variant.tensors)
        if tensor.in_checkpoint
    )


def _without_zeros(tensors: Stored) -> Iterator[tuple[ModelTensor, Format | None]]:
    for tensor, form in tensors:
        yield tensor, None if form is None else replace(form, has_zeros=False, has_order=False)


_SPLITS_LARGE = {
    False: (EraValue(True), EraValue(False, (0, 21))),
    True: (EraValue(True), EraValue(False, (0, 31))),
}
"""Whether PyTorch's allocator splits blocks of 20 MiB and more while weights load, by `is_rocm`.

vLLM sets max_split_size_mb to 20 (v1/worker/gpu_worker.py, `_scoped_allocator_max_split`: 0.21.0, not in 0.20.2; on
ROCm 0.31.0, not 0.30.0).
"""


def _slack(blocks: Iterable[int], *, splits_large: bool) -> int:
    """Overhead of PyTorch's allocator for the allocations of a layer.

    An allocation of 10 MiB or more gets a segment rounded up to 2 MiB, and keeps a remainder of 1
    MiB or less, or all of it if large blocks are not split. One between 1 and 10 MiB is cut from a
    segment of 20 MiB, whose remainder serves others (c10/cuda/CUDACachingAllocator.cpp:
    kMinLargeAlloc, kLargeBuffer, kRoundLarge, should_split with kSmallSize and max_split_size).
    """
    sizes = [size for size in blocks if size > _MIB]
    small = min((size for size in sizes if size < 10 * _MIB), default=None)
    served = 20 * _MIB - small if small is not None else 0
    total = 0
    for size in sizes:
        if size >= 10 * _MIB and size > served:
            rest = -size % (2 * _MIB)
            is_split = rest > _MIB and (splits_large or size < 20 * _MIB)
            total += 0 if is_split else rest
    return total


@dataclass(frozen=True)
class _How:
    width: int
    kernel: _Kernel | None = None
    """Kernel of the quantized experts."""
    drops_shared: bool = False
    absorbed: str = "factors"
    runtime: tuple[Format, bool] | None = None
    splits_large: bool = True
    pads_rows: bool = False
    """ROCm: rows of unquantized experts and of FP8 layers are padded."""
    flashinfer_rows: int = 1
    """Multiple that FlashInfer's kernels pad the intermediate size of quantized experts to."""
    flashinfer_bits: frozenset[int] = frozenset()
    """Bits of the experts that those kernels run."""


_ROW_PADDING, _PADDED_ROWS = 256, 512
"""ROCm pads a row by 256 bytes if its size is a multiple of 512.

Experts that are not quantized: `_maybe_pad_weight` with VLLM_ROCM_MOE_PADDING (0.10.2 fused_moe/layer.py :344, 0.33.0
fused_moe/unquantized_fused_moe_method.py :147). Other FP8 layers with a scale per tensor or block:
`_maybe_pad_fp8_weight` with VLLM_ROCM_FP8_PADDING (0.10.2 quantization/fp8.py :363, 0.11.0
quantization/utils/fp8_utils.py :737, 0.33.0 :1178).
"""


def _is_padded(form: Format) -> bool:
    """Whether ROCm pads the rows of a layer in this format."""
    return form.bits == 8 and form.is_float and form.strategy in ("tensor", "block")


def _padding(part: tuple[int, int, int], width: int) -> int:
    """Bytes that ROCm adds to the rows of a weight."""
    count, rows, columns = part
    return 0 if columns * width % _PADDED_ROWS else count * rows * _ROW_PADDING


_FLASHINFER_ROWS = (EraValue(1), EraValue(128, (0, 17)))
"""Multiple that FlashInfer's kernels pad the intermediate size of experts without a gate to.

FP8 with a scale per tensor: quantization/utils/flashinfer_utils.py (0.16.0 :292, 0.17.1 :337, 0.33.0 :614). NVFP4 with
TRTLLM's kernel: flashinfer_fp4_moe.py (0.17.1 :251, 0.33.0 :419).
"""
_FLASHINFER_GPUS: Mapping[int, frozenset[int]] = {
    9: frozenset({8}),
    10: frozenset({4, 8}),
    11: frozenset({8}),
    12: frozenset({8}),
}
"""Bits of the experts that those kernels run, by major compute capability (fused_moe/flashinfer_cutlass_moe.py,
0.18.1 :127, and experts/trtllm_nvfp4_moe.py)."""
_NVFP4_GROUP = 16


def _aligned(tensor: ModelTensor, form: Format, part: tuple[int, int, int], how: _How) -> tuple[int, int, int]:
    """Count, rows and columns of an expert's weight with FlashInfer's padding."""
    is_known = form.strategy == "tensor" if form.bits == 8 else form.group == _NVFP4_GROUP
    if not is_known or not form.is_float or form.bits not in how.flashinfer_bits:
        return part
    count, rows, columns = part
    if tensor.fused == "w13":
        return count, round_up(rows, how.flashinfer_rows), columns
    return count, rows, round_up(columns, how.flashinfer_rows)


def _unused(sizes: Mapping[str, int], padding: Mapping[str, int]) -> int:
    """Memory of a layer's original experts that the allocator keeps but cannot use.

    The padded second matrix is put into the freed first one, whose remainder is too small for the next layer. Five
    launches on MI300X printed this to 1.5 %.
    """
    second = sizes.get("w2", 0) + padding.get("w2", 0)
    return max(0, sizes.get("w13", 0) - second) if padding.get("w13") and padding.get("w2") else 0


def _is_loaded(tensor: ModelTensor, how: _How, *, latent_is_quantized: bool) -> bool:
    if not tensor.is_loaded or (how.drops_shared and tensor.split == "kv" and tensor.is_linear):
        return False
    if tensor.name.startswith("absorbed."):
        if tensor.name == "absorbed.factors":
            return how.absorbed == "factors" and latent_is_quantized
        return how.absorbed == "products"
    return True


def _padded(
    tensor: ModelTensor, form: Format, kernel: _Kernel, part: tuple[int, int, int], width: int
) -> tuple[int, int]:
    count, rows, columns = part
    is_first = tensor.fused == "w13"
    rows = round_up(rows, kernel.inner if is_first else kernel.hidden)
    columns = round_up(columns, kernel.hidden if is_first else kernel.inner)
    scales = count * round_up(rows, kernel.scale_rows) * -(-columns // form.group) * form.scale_bytes
    biases = count * rows * (kernel.bias_width or width) if tensor.bias else 0
    return count * (rows * round_up(columns, kernel.inputs) * form.bits // 8), scales + biases


def _sum(tensors: Iterable[tuple[ModelTensor, Format | None]], ranks: Ranks, how: _How) -> dict[str, int]:
    """Bytes by component, the allocator's rounding among them."""
    sizes: dict[str, int] = {}
    blocks: dict[str, int] = {}
    padding: dict[str, int] = {}
    latent_is_quantized = False
    for tensor, stored_form in tensors:
        if not _is_loaded(tensor, how, latent_is_quantized=latent_is_quantized):
            continue
        form = stored_form
        is_expert = tensor.component == "experts"
        if form is None and how.runtime is not None and tensor.is_linear and (is_expert or not how.runtime[1]):
            form = how.runtime[0]
        if tensor.name.endswith("kv_b_proj"):
            latent_is_quantized = form is not None
        part = on_rank(tensor, ranks)
        if is_expert and stored_form is not None:
            part = _aligned(tensor, stored_form, part, how)
        if how.kernel is not None and form is not None and is_expert:
            weights, beside = _padded(tensor, form, how.kernel, part, how.width)
        else:
            weights, beside = _bytes(*part, form, tensor.width or how.width, bias=tensor.bias)
        sizes[tensor.component] = sizes.get(tensor.component, 0) + weights + beside
        if tensor.component in ("vision", "audio"):
            # All layers of a tower are counted together, without rounding each allocation.
            continue
        block = tensor.fused or tensor.name
        blocks[block] = blocks.get(block, 0) + weights
        if how.pads_rows and is_expert and form is None:
            padding[block] = padding.get(block, 0) + _padding(part, tensor.width or how.width)
        if how.pads_rows and not is_expert and form is not None and _is_padded(form):
            sizes[tensor.component] += _padding(part, 1)
        if form is not None:
            blocks[f"{block} scales"] = blocks.get(f"{block} scales", 0) + beside
    sizes["allocator"] = _slack(blocks.values(), splits_large=how.splits_large)
    if padding:
        sizes["experts"] += sum(padding.values())
        sizes["fragments"] = _unused(blocks, padding)
    return sizes


@lru_cache(maxsize=4096)
def _variant(variant: Variant, ranks: Ranks, how: _How) -> dict[str, int]:
    return _sum(variant.tensors, ranks, how)


_KEEPS_STREAMS_UNTIL: Key = (0, 27)
"""From here on, DeepSeek V4 keeps its hidden states only for a draft (deepseek_v4/nvidia/model.py, 0.27.1 :1095)."""
_KEEPS_QUERIES: tuple[Key, Key] = ((0, 27), (0, 29))
"""DeepSeek V4 has a buffer for its queries (deepseek_v4/eager_scratch.py, 0.27.1 and 0.28.0, not in 0.29.0)."""


def compressed_heads(mixer: Compressed, tensor: int) -> int:
    """Heads for which a rank allocates queries and results (deepseek_v4/nvidia/flashmla.py, 0.22.1)."""
    return 64 if mixer.heads // tensor <= 64 else 128


def _compressed_buffers(shape: Shape, ranks: Ranks, release: Key | None, tokens: int, *, drafts: bool) -> int:
    """Bytes of the last stage's buffers for a step's tokens of DeepSeek V4 in 16 bits."""
    kind = next((kind for kind in shape.kinds if isinstance(kind.mixer, Compressed)), None)
    if kind is None or not isinstance(kind.mixer, Compressed):
        return 0
    streams = queries = 0
    if drafts or (release is not None and release < _KEEPS_STREAMS_UNTIL):
        streams = kind.connections * shape.hidden_size
    if release is not None and _KEEPS_QUERIES[0] <= release < _KEEPS_QUERIES[1]:
        queries = compressed_heads(kind.mixer, ranks.tensor) * kind.mixer.cached_dim
    return tokens * 2 * (streams + queries)


def _buffers(shape: Shape, tokens: int, width: int, *, has_encoder: bool) -> int:
    """Buffers for a step's tokens that are allocated at loading."""
    size = 0
    for encoder in shape.encoders or ():
        if has_encoder and encoder.family in ("qwen3_vl", "qwen3_omni_moe"):
            size += taps(encoder.sizes) * tokens * shape.hidden_size * width
    if shape.per_layer_input is not None:
        size += tokens * shape.layers * shape.per_layer_input.size * width
    if any(isinstance(kind.mixer, Latent) and kind.mixer.index_heads for kind in shape.kinds):
        size += tokens * (shape.index_topk or 0) * 4
    return size


@dataclass(frozen=True)
class _LoadPlan:
    ranks: Ranks
    release: Key | None
    how: _How
    others: tuple[_How, ...]
    """Other forms that are possible."""
    shares: bool
    """Layers that use another's cache load projections of keys and values."""
    fixed: Mapping[str, int]
    reasons: tuple[str, ...]
    spread: int
    """Bytes that the fixed part can be off."""
    is_quantized: bool


def _layers(
    stock: TensorInventory, plan: _LoadPlan, start: int, end: int
) -> tuple[dict[str, int], int, int, set[Rope]]:
    total: dict[str, int] = {}
    less = more = 0
    tables: set[Rope] = set()
    for variant in stock.variants:
        times = len(variant.layers)
        if plan.ranks.pipeline > 1:
            times = bisect_left(variant.layers, end) - bisect_left(variant.layers, start)
        if not times:
            continue
        how = plan.how
        if not plan.shares and variant.uses_other_cache:
            how = replace(how, drops_shared=True)
        own = _variant(variant, plan.ranks, how)
        for component, size in own.items():
            total[component] = total.get(component, 0) + size * times
        if plan.others:
            sizes = [sum(_variant(variant, plan.ranks, other).values()) - sum(own.values()) for other in plan.others]
            less, more = less + min(0, *sizes) * times, more + max(0, *sizes) * times
        tables.update(variant.ropes)
    return total, less, more, tables


def _stage(stock: TensorInventory, plan: _LoadPlan, start: int, end: int, ends: Stored) -> Loaded:
    total, less, more, tables = _layers(stock, plan, start, end)
    for part in (plan.fixed, _sum(ends, plan.ranks, plan.how)):
        for component, size in part.items():
            total[component] = total.get(component, 0) + size
    total["rotary"] = sum(table_bytes(rope, plan.release, plan.how.width) for rope in tables)
    expected = sum(total.values())
    rounded = total["allocator"]
    reasons = plan.reasons
    if plan.is_quantized:
        reasons = ("kernels of quantized layers store scales and padding in their own layouts", *reasons)
    if rounded:
        reasons = ("the range covers allocator rounding, which depends on the order of allocations", *reasons)
    kernels = expected // _KERNEL_SHARE if plan.is_quantized else 0
    fragments = total.get("fragments", 0)
    if fragments:
        reasons = (f"the range covers {_FRAGMENTS}", *reasons)
    low = expected - fragments - max(rounded + expected // _PRINTED, kernels) + less - plan.spread
    high = expected + max(rounded // 2, expected // _UNSEEN, kernels) + more + plan.spread
    return Loaded(total, low, expected, high, reasons)


_FRAGMENTS = "memory that the allocator cannot use after ROCm pads the experts' rows"
_PRINTED = 1000
"""Divisor of the total: measured launches print less than the sum by up to this part."""
_KERNEL_SHARE = 200
"""Divisor of the total: kernels of quantized layers add or omit up to this part, by the scatter of
measured launches."""
_UNSEEN = 400
"""Divisor of the total: small buffers can add up to this part, such as workspaces of kernels and
scales of caches (measured launches print up to this much more)."""


def _has_gates(shape: Shape) -> bool:
    networks = (kind.feed_forward for kind in shape.kinds)
    return all(network.is_gated for network in networks if isinstance(network, Experts))


_USUAL_TOKENS = 8192
"""Tokens per step for the size of buffers if the batch is not given."""


def load(
    stock: TensorInventory,
    ranks: Ranks,
    *,
    release: Key | None = None,
    dtype: str | None = None,
    quantization: str | None = None,
    capability: tuple[int, int] | None = None,
    tokens: int | None = None,
    with_mtp: bool = False,
    encoder_off: bool = False,
    with_head: bool = True,
    is_rocm: bool = False,
) -> tuple[Loaded, ...] | None:
    """Weights on a GPU of each pipeline stage; None if `stock.missing` has the reason.

    `dtype` is `--dtype`: without it all checkpoints load as 16-bit values, including float32.
    `quantization` is the option; a checkpoint's own method has priority. `tokens` is
    `--max-num-batched-tokens`. `encoder_off` means that all modalities are limited to 0. Pooling models
    have no LM head (`with_head`).
    """
    shape = stock.shape
    stored = shape.quantization
    if stock.missing or (quantization is not None and stored is None and quantization not in _RUNTIME):
        return None
    width = VALUE_BYTES.get(dtype or "", 2)
    name = mxfp4_kernel(shape, capability)
    is_mxfp4 = stored is not None and stored.has_mxfp4_experts
    how = _How(
        width,
        kernel=in_release(_KERNELS[name or "marlin"], release) if is_mxfp4 else None,
        absorbed=in_release(_ABSORBED, release),
        runtime=_RUNTIME.get(quantization or "") if stored is None else None,
        splits_large=in_release(_SPLITS_LARGE[is_rocm], release),
        pads_rows=is_rocm,
    )
    if not is_rocm and capability is not None and not _has_gates(shape):
        rows, bits = in_release(_FLASHINFER_ROWS, release), _FLASHINFER_GPUS.get(capability[0], frozenset())
        how = replace(how, flashinfer_rows=rows, flashinfer_bits=bits)
    others: tuple[_How, ...] = ()
    reasons = []
    if is_mxfp4 and name is None:
        others = tuple(
            replace(how, kernel=in_release(_KERNELS[kernel_name], release)) for kernel_name in ("none", "trtllm")
        )
        reasons.append("the expert kernel, which decides the padding, depends on the GPU")
    if is_mxfp4 and name == "trtllm" and release is not None and _UNREAD[0] <= release < _UNREAD[1]:
        others = (replace(how, kernel=in_release(_KERNELS[name], _UNREAD[1])),)
        reasons.append("the padding of this release's expert kernel is unknown")
    has_encoder = not encoder_off or any(
        release is not None and release < tower_of(encoder).off_since for encoder in shape.encoders or ()
    )
    fixed: dict[str, int] = {}
    if has_encoder:
        whole = ranks.encoder_data or any(is_whole(encoder, ranks.tensor) for encoder in shape.encoders or ())
        fixed.update(_sum(stock.encoders, replace(ranks, tensor=1) if whole else ranks, how))
    step = _USUAL_TOKENS if tokens is None else tokens
    buffers = _buffers(shape, step, width, has_encoder=has_encoder)
    buffers += _compressed_buffers(shape, ranks, release, step, drafts=with_mtp)
    if buffers:
        fixed["buffers"] = buffers
    spread = buffers if tokens is None else 0
    if spread:
        reasons.append("buffers grow with the tokens per step, which are unknown")
    family = families().get(shape.text_type or "")
    if shape.max_positions is None and (family is None or family.has_rope):
        reasons.append("cosine and sine tables are left out: the longest context is unknown")
    plan = _LoadPlan(
        ranks,
        release,
        how,
        others,
        in_release(_SHARED_PROJECTIONS, release),
        fixed,
        tuple(reasons),
        spread,
        stored is not None or quantization is not None,
    )
    loaded = []
    start = 0
    for stage, count in enumerate(stages(shape.layers, ranks, release)):
        ends: Stored = ()
        is_last = stage == ranks.pipeline - 1
        if stage == 0 or (is_last and with_head and not stock.head):
            ends += stock.embedding
        if is_last:
            ends += (*(stock.head if with_head else ()), *stock.last_norm, *(stock.mtp if with_mtp else ()))
        loaded.append(_stage(stock, plan, start, start + count, ends))
        start += count
    return tuple(loaded)
