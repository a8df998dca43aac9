"""KV caches of a model's layers on one rank, in the form that a release uses.

`kv_layers` converts a shape and the options of a launch to the layers that `kv_cache.pool` groups:
heads split over ranks, block sizes of the attention backend, states and attention padded to pages
of one size. If a fact is missing, it is named and there are no layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from vllm_runbooks.catalog import options
from vllm_runbooks.catalog.release_rules import rules_in
from vllm_runbooks.plan.kv_cache import Kind, KvLayer
from vllm_runbooks.plan.shape import Attention, Compressed, Latent, Layer, Recurrent, Shape
from vllm_runbooks.plan.weights import VALUE_BYTES


@dataclass(frozen=True)
class CacheOptions:
    """Options that decide the form of the cache, in addition to model and release."""

    max_model_len: int
    tensor_parallel: int = 1
    stage_layers: tuple[int, ...] = ()
    """Layers per pipeline stage; empty for a single stage."""
    cache_dtype: str = "auto"
    model_bytes: int = 2
    """Bytes of a value in the dtype that the model runs in."""
    block_tokens: int | None = None
    capability: tuple[int, int] | None = None
    """Compute capability of the GPUs; None if unknown."""
    is_rocm: bool = False
    caches_prefixes: bool | None = None
    """`enable_prefix_caching`; None for the release's default."""
    state_dtype: str = "auto"
    recurrent_dtype: str = "auto"
    index_dtype: str = "auto"
    """Dtype of an indexer's keys: "auto" or as in `indexer_kv_dtype`."""
    backend: str | None = None
    """Attention backend; None for the release's choice."""
    speculative_tokens: int = 0
    draft_layers: int = 0
    """Layers of the checkpoint's own draft module that the last stage runs."""
    is_v0: bool = False


@dataclass(frozen=True)
class KvForms:
    """Layers with a cache, by stage."""

    stages: tuple[Mapping[KvLayer, int], ...] = ()
    """Layers of one rank per stage: forms in order of their first layer, with the number of
    layers."""
    block_tokens: int = 0
    """Tokens of an attention block, before page sizes are unified."""
    state_mode: str = "none"
    """Resulting `mamba_cache_mode`."""
    mixes_groups: bool = True
    """False: the release switches the hybrid cache manager off for these layers."""
    missing: tuple[str, ...] = ()
    """Missing facts; `stages` is empty if there are any."""
    assumptions: tuple[str, ...] = ()
    """What the forms depend on and no option or GPU decides, as text."""


# ---- what differs by release

_PER_HEAD = {"int8_per_token_head": 1.0, "fp8_per_token_head": 1.0, "int4_per_token_head": 0.5}
"""Bytes per value, without the four-byte scales of each head: one for its key, one for its
value."""
_BYTES = {**VALUE_BYTES, **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"), 1)}
_PACKED_LATENT = 656
"""Bytes of a token in DeepSeek's own form of an 8-bit latent: 512 values, 4 scales, 64 rotated values of two bytes."""
_INDEX_SCALE = 128
"""Values of an indexer's key that share a scale of four bytes."""
_COMPRESSED_BLOCK = 256
"""Tokens per block of compressed latents, before compression (0.20.2 mla/indexer.py:165, 0.33.0 :357)."""
_COMPRESSED_LATENT = 584
"""Bytes of a latent of DeepSeek V4: 448 values, 8 scales, 64 rotated values of two bytes."""
_WINDOW_BLOCK = 64
"""Tokens per block of DeepSeek V4's windows (0.20.2 mla/sparse_swa.py:74, 0.33.0 :85)."""
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens per block of latents that are not compressed yet, by the ratio (0.33.0 deepseek_v4/compressor.py:155)."""
_ALIGNED = 576
"""Bytes that such a page is a multiple of (0.20.2 deepseek_v4_attention.py:716, 0.33.0 deepseek_v4/attention.py)."""
_OTHER_ROWS = "FLASHINFER_MLA_SPARSE_DSV4"
"""Backend with rows of its own, except on compute capability 12 (0.23.0 deepseek_v4/nvidia/flashinfer_sparse.py)."""
_SELECTED_BLOCK = 128
"""Tokens per block of attention that selects blocks (0.33.0 models/minimax_m3/common/sparse_attention.py:163)."""
_INDEX_BYTES = 2
"""Bytes per value of the keys that select blocks, whatever the cache dtype (common/indexer.py:118)."""
_ANY = -1
_LOCAL = ("sliding", "chunked")
_OF_NO_MATTER = frozenset(
    {
        "attention_bias",
        "hidden_act",
        "intermediate_size",
        "max_position_embeddings",
        "mlp_bias",
        "moe_intermediate_size",
        "n_shared_experts",
        "partial_rotary_factor",
        "qkv_bias",
        "rope_local_base_freq",
        "rope_theta",
        "seq_length",
        "shared_expert_intermediate_size",
        "tie_word_embeddings",
        "use_bias",
        "use_qk_norm",
        "vocab_size",
    }
)
"""Fields that affect weights but not the cache: without them the cache layers are still known."""


@dataclass(frozen=True)
class LayerRules:
    """Layer rules of a release."""

    latent: bool = False
    """Latents are cached in compressed form, not as heads."""
    latent_block: tuple[tuple[int, int], ...] = ((_ANY, 16),)
    """Tokens of a latent's block by major compute capability."""
    quantized_latent_block: tuple[tuple[int, int], ...] = ()
    """Latent block sizes for an 8-bit cache, if different."""
    wide_latent_block: tuple[tuple[int, int], ...] = ()
    """Latent block sizes for heads with an unrotated part other than 128 values, if different."""
    latent_bytes: int = 1
    """Multiple of bytes to which a latent is rounded up."""
    sparse: bool = False
    """Sparse attention has its indexer's cache."""
    packs: frozenset[int] = frozenset()
    """Major compute capabilities whose 8-bit sparse attention latents use DeepSeek's format."""
    packs_many_heads: bool = False
    """On major compute capability 10 it is used if a rank has more than 16 heads, whatever `packs`
    says."""
    packs_auto: frozenset[int] = frozenset()
    """Major compute capabilities that use it by default."""
    compressed: str = ""
    """Cache dtype of compressed latents: "" unsupported; "given" only if 8 bits are requested; "any" by default."""
    packs_index: bool = False
    """Keys of 4 bits of an indexer of compressed latents need half as many bytes."""
    local: bool = False
    """Windows have their own form."""
    window_block: str = "same"
    """Block size of sliding windows: "same" as the others, or the "smallest" of the attention
    kernel."""
    inclusive_windows: frozenset[str] = frozenset()
    """Families whose windows are one token longer than configured."""
    mixes_chunks: bool = True
    """The hybrid cache manager stays on for attention over chunks."""
    scheme_dtype: frozenset[str] = frozenset()
    """Quantization methods whose checkpoint sets the default dtype of the cache."""
    states: str = ""
    """Attention blocks of models with states: "" unsupported; "given" the block size option must be
    large enough; "aligned" vLLM increases it."""
    left_states: frozenset[str] = frozenset()
    """Kinds whose states V1 does not keep."""
    state_align: int = 16
    """Tokens that such a block is a multiple of."""
    state_align_wide: int = 16
    """Alignment on compute capability 10.0 with heads of 256 values."""
    state_align_latent: int = 64
    state_align_cutlass: int = 64
    """Alignment next to latents whose block on compute capability 10 is for CUTLASS."""
    state_align_given: bool = False
    """Whether the block is also a multiple of the block size option."""
    state_caching: str = ""
    """States with prefix caching: "" disables caching; "all"; "align"; "both" is "all" for models
    that support it."""
    caches_prefixes: bool = False
    """Prefix caching is on by default for such models."""
    speculative_convolutions: frozenset[str] = frozenset({"gdn"})
    """Kinds whose convolution stores speculative tokens."""
    wide_states: frozenset[str] = frozenset()
    """Families whose recurrent state is four bytes per value by default."""
    fixed_states: frozenset[str] = frozenset({"gdn", "kda"})
    """Kinds whose recurrent state has a fixed dtype."""
    configured_states: bool = False
    """The configuration's dtype of the recurrent state is used."""
    checkpointing: frozenset[str] = frozenset()
    """Kinds that keep a state during prefill, with prefix caching."""
    checkpoint_tokens: int = 1
    """Tokens that a block is a multiple of for "gdn" to do so."""


@cache
def _rules(version: str) -> LayerRules:
    key = options.version_key(version) or options.version_key(options.nearest(version).version) or ()
    return rules_in("kv_layer_rules", LayerRules, key)


# ---- reading a shape


class _UnknownLayerError(Exception):
    """A missing fact, as text."""


def kv_layers(shape: Shape, options: CacheOptions, version: str, drafts: Sequence[Layer] = ()) -> KvForms:
    """KV caches of a model's layers on a rank of each stage; missing facts are in the result.

    `drafts` are the layers of a separate draft model. They run on the last stage and do not affect
    others.

    Raises:
        InputError: The version is invalid.
    """
    by = _rules(version)
    missing = tuple(name for name in shape.missing if name not in _OF_NO_MATTER)
    if missing or not shape.pattern:
        return KvForms(missing=missing or shape.missing or ("the layers",))
    try:
        return _LayerReader(shape, options, by).forms(drafts)
    except _UnknownLayerError as unknown:
        return KvForms(missing=(str(unknown),))


class _LayerReader:
    def __init__(self, shape: Shape, options: CacheOptions, by: LayerRules) -> None:
        self.shape, self.asked, self.by = shape, options, by
        self.mixers = [mixer for layer in (*shape.kinds, *shape.mtp[: options.draft_layers]) for mixer in layer.mixers]
        self.latents = [mixer for mixer in self.mixers if isinstance(mixer, Latent)]
        self.recurrent = [mixer for mixer in self.mixers if isinstance(mixer, Recurrent)]
        self.is_sparse = any(mixer.index_heads for mixer in self.latents)
        self.cache_dtype = self._cache_dtype()
        self.assumptions: dict[str, None] = {}

    def forms(self, others: Sequence[Layer]) -> KvForms:
        options, by = self.asked, self.by
        mode = self._state_mode()
        block = self._block()
        padded: int | None = None
        if self.recurrent and any(isinstance(mixer, (Attention, Latent)) for mixer in self.mixers):
            block, padded = self._aligned(block, mode)
        made = [self._layer(layer, block, mode, padded) for layer in self.shape.kinds]
        last = (*self.shape.mtp[: options.draft_layers], *others)
        drafts = [self._layer(layer, block, mode, padded) for layer in last]
        counts = options.stage_layers or (self.shape.layers,)
        if sum(counts) != self.shape.layers:
            raise _UnknownLayerError(f"stages have {sum(counts)} layers, the model has {self.shape.layers}")
        stages = []
        begin = 0
        for at, count in enumerate(counts):
            kinds = self.shape.pattern[begin : begin + count]
            forms = [(form, kinds.count(index)) for index in dict.fromkeys(kinds) for form in made[index]]
            if at == len(counts) - 1:
                forms += [(form, 1) for draft in drafts for form in draft]
            stages.append(_counted(forms))
            begin += count
        has_chunks = any(form.kind is Kind.CHUNKED for stage in stages for form in stage)
        mixes = by.mixes_chunks or not has_chunks
        return KvForms(tuple(stages), block, mode, mixes, assumptions=tuple(self.assumptions))

    # ---- dtypes

    def _cache_dtype(self) -> str:
        dtype, quantization = self.asked.cache_dtype, self.shape.quantization
        if dtype == "auto" and quantization is not None and quantization.kv_cache:
            return quantization.kv_cache if quantization.method in self.by.scheme_dtype else "auto"
        return dtype

    @property
    def _value_bytes(self) -> int:
        if self.cache_dtype == "auto":
            return self.asked.model_bytes
        size = _BYTES.get(self.cache_dtype)
        if size is None:
            raise _UnknownLayerError(f"how a cache of {self.cache_dtype} packs a token")
        return size

    def _token_bytes(self, heads: int, keys: int, values: int) -> int | None:
        """Bytes per token of a cache with its own packing; None if the sizes determine them."""
        value_bytes = _PER_HEAD.get(self.cache_dtype)
        if value_bytes is not None:
            return heads * (int(keys * value_bytes) + int(values * value_bytes) + 8)
        if self.cache_dtype == "nvfp4":
            # Half a byte per value, and a one-byte scale for every sixteen values.
            return heads * (keys // 2 + keys // 16 + values // 2 + values // 16)
        return None

    # ---- blocks

    def _by_capability(self, table: Sequence[tuple[int, int]]) -> int:
        """Value for the GPU; if all rows agree the GPU does not matter."""
        if len({value for _, value in table}) == 1:
            return table[0][1]
        if self.asked.capability is None and not self.asked.is_rocm:
            raise _UnknownLayerError("the GPU's compute capability, which decides the attention backend")
        # ROCm has the Triton backend unless AITER is on: platforms/rocm.py (0.33.0 _get_backend_priorities).
        own = _ANY if self.asked.capability is None else self.asked.capability[0]
        return next(value for major, value in table if major in (own, _ANY))

    def _block(self) -> int:
        options, by = self.asked, self.by
        if any(isinstance(mixer, Attention) and mixer.index_heads for mixer in self.mixers):
            return _SELECTED_BLOCK
        if not self.latents:
            return options.block_tokens or 16
        if any(isinstance(mixer, Compressed) for mixer in self.latents):
            given = options.block_tokens or _COMPRESSED_BLOCK
            return given if given % _COMPRESSED_BLOCK == 0 else _COMPRESSED_BLOCK
        if self.is_sparse:
            return 64
        table = by.latent_block
        if by.wide_latent_block and self.latents[0].nope_dim != 128:
            table = by.wide_latent_block
        elif by.quantized_latent_block and self.cache_dtype not in ("auto", "bfloat16", "float16"):
            table = by.quantized_latent_block
        least = self._by_capability(table)
        if options.block_tokens is not None and options.block_tokens % least == 0:
            return options.block_tokens
        return least

    def _aligned(self, block: int, mode: str) -> tuple[int, int]:
        """Tokens of an attention block large enough for a state, and bytes of its page."""
        by = self.by
        whole = next(
            m for m in self.mixers if isinstance(m, Latent) or (isinstance(m, Attention) and m.kind not in _LOCAL)
        )
        token = self._attention(whole, 1)[0].page_bytes
        state = max(self._state_bytes(mixer) for mixer in self.recurrent)
        if by.states == "given":
            if block * token < state:
                raise _UnknownLayerError(
                    f"a block_size of at least {-(-state // token)}, which this release requires to be set"
                )
            return block, block * token
        align = by.state_align_latent if isinstance(whole, Latent) else by.state_align
        if isinstance(whole, Latent):
            align = self._by_capability(((10, by.state_align_cutlass), (_ANY, align)))
        elif whole.head_dim == 256:
            align = self._by_capability(((10, by.state_align_wide), (_ANY, align)))
        if by.state_align_given:
            align = max(align, block)
        if mode == "all":
            raise _UnknownLayerError(
                "mamba_chunk_size, which decides the block size if the state of every block is kept"
            )
        if mode == "align" and self._checkpoints("gdn"):
            align = math.lcm(align, by.checkpoint_tokens)
        block = max(block, align * -(-state // (align * token)))
        return block, block * token

    # ---- states

    def _state_mode(self) -> str:
        options, by = self.asked, self.by
        if not self.recurrent:
            return "none"
        if options.is_v0 or not by.states or any(mixer.kind in by.left_states for mixer in self.recurrent):
            raise _UnknownLayerError("how this engine stores the states of such layers")
        caches = by.caches_prefixes if options.caches_prefixes is None else options.caches_prefixes
        if not caches or not by.state_caching:
            return "none"
        can_keep_all = all(mixer.kind in ("mamba1", "mamba2") for mixer in self.recurrent)
        if by.state_caching == "both":
            return "all" if can_keep_all else "align"
        return by.state_caching if can_keep_all or by.state_caching == "align" else "none"

    def _checkpoints(self, kind: str) -> bool:
        if kind not in self.by.checkpointing or not any(mixer.kind == kind for mixer in self.recurrent):
            return False
        if kind == "mamba2":
            return True
        if kind == "kda" and not all(m.is_full_rank and m.has_bound for m in self.recurrent if m.kind == "kda"):
            return False
        if self.asked.is_rocm:
            return False  # FlashInfer's and FlashKDA's kernels are for CUDA
        if self.asked.capability is None:
            raise _UnknownLayerError("the GPU's compute capability, which decides the linear attention kernel")
        if kind == "kda":
            # FlashKDA (0.32.0, 0.33.0 models/kimi_k3/nvidia/kda.py `is_flashkda_supported`).
            return self.asked.capability[0] in (9, 10, 12)
        if self.asked.capability[0] in (10, 12):
            # PyPI's wheel of 0.33.0 requires `nvidia-cutlass-dsl[cu13]`.
            self.assumptions["vLLM is built for CUDA 13, like PyPI's wheel of 0.33.0"] = None
            return all(mixer.key_dim == 128 for mixer in self.recurrent if mixer.kind == "gdn")
        return self.asked.capability[0] == 9

    def _state_bytes(self, mixer: Recurrent) -> int:
        ranks = self.asked.tensor_parallel
        small = self._size_of(self.asked.state_dtype) or self.asked.model_bytes
        more = self.asked.speculative_tokens if mixer.kind in self.by.speculative_convolutions else 0
        kept = mixer.conv_kernel - 1 + more
        if mixer.kind == "mamba1":
            convolution = mixer.inner // ranks * kept
            state = mixer.inner // ranks * mixer.state
        elif mixer.kind == "mamba2":
            groups = mixer.groups if mixer.groups % ranks == 0 else ranks
            convolution = (mixer.inner + 2 * groups * mixer.state) // ranks * kept
            state = mixer.heads // ranks * mixer.head_dim * mixer.state
        elif mixer.kind in ("gdn", "kda"):
            keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
            convolution = (2 * keys + values) // ranks * kept
            state = mixer.value_heads // ranks * mixer.value_dim * mixer.key_dim
        elif mixer.kind == "short_conv":
            convolution, state = mixer.inner // ranks * kept, 0
        elif mixer.kind == "linear":
            # It has no convolution: its only state has the dtype that a convolution has elsewhere.
            return mixer.heads // ranks * mixer.head_dim * mixer.head_dim * small
        else:
            raise _UnknownLayerError(f"the states of a layer of the kind {mixer.kind!r}")
        return convolution * small + state * self._recurrent_bytes(mixer, small)

    def _recurrent_bytes(self, mixer: Recurrent, small: int) -> int:
        size = self._size_of(self.asked.recurrent_dtype)
        usual = 4 if mixer.kind == "kda" else small
        if mixer.kind in self.by.fixed_states:
            return usual
        if size is not None or mixer.kind == "kda":
            return size or usual
        if mixer.state_dtype is not None and self.by.configured_states:
            return self._size_of(mixer.state_dtype) or small
        if self.shape.text_type in self.by.wide_states:
            return (self._size_of(mixer.state_dtype) if mixer.state_dtype else None) or 4
        return small

    @staticmethod
    def _size_of(dtype: str) -> int | None:
        if dtype == "auto":
            return None
        if dtype not in _BYTES:
            raise _UnknownLayerError(f"the size of {dtype}")
        return _BYTES[dtype]

    # ---- layers

    def _layer(self, layer: Layer, block: int, mode: str, padded: int | None) -> tuple[KvLayer, ...]:
        return tuple(form for mixer in layer.mixers for form in self._mixer(mixer, block, mode, padded))

    def _mixer(
        self, mixer: Attention | Latent | Recurrent, block: int, mode: str, padded: int | None
    ) -> tuple[KvLayer, ...]:
        if not isinstance(mixer, Recurrent):
            return self._attention(mixer, block)
        options = self.asked
        is_cached = mode != "none"
        content = self._state_bytes(mixer)
        return (
            KvLayer(
                Kind.STATE,
                block if is_cached else options.max_model_len,
                state_bytes=content,
                speculative_blocks=options.speculative_tokens,
                checkpoint_blocks=int(mode == "align" and self._checkpoints(mixer.kind)),
                padded_bytes=None if padded in (None, content) else padded,
            ),
        )

    def _attention(self, mixer: Attention | Latent, block: int) -> tuple[KvLayer, ...]:
        if isinstance(mixer, Latent):
            return self._latent(mixer, block)
        if mixer.kind == "encoder" or mixer.shares_cache_of is not None:
            return ()
        heads = max(1, mixer.kv_heads // self.asked.tensor_parallel)
        token = self._token_bytes(heads, mixer.head_dim, mixer.value_dim)
        form = KvLayer(
            Kind.FULL,
            block,
            heads=heads,
            key_size=mixer.head_dim,
            value_size=None if mixer.value_dim == mixer.head_dim else mixer.value_dim,
            value_bytes=1 if token is not None else self._value_bytes,
            token_bytes=token,
            can_pad=True,
        )
        if mixer.kind == "cross":
            return (replace(form, kind=Kind.CROSS),)
        if mixer.kind == "chunked":
            return (replace(form, kind=Kind.CHUNKED, chunk=mixer.window),)
        if mixer.kind == "sliding" and self.by.local:
            smallest = self.by.window_block == "smallest"
            more = self.shape.text_type in self.by.inclusive_windows
            window = mixer.window + 1 if more and mixer.window is not None else mixer.window
            return (
                replace(form, kind=Kind.SLIDING, window=window, block_tokens=min(block, 16) if smallest else block),
            )
        if mixer.index_heads:
            return form, KvLayer(Kind.LATENT, block, heads=1, key_size=mixer.index_dim, value_bytes=_INDEX_BYTES)
        return (form,)

    def _latent(self, mixer: Latent, block: int) -> tuple[KvLayer, ...]:
        by, options = self.by, self.asked
        if not by.latent:
            raise _UnknownLayerError("how this release stores a compressed latent")
        if isinstance(mixer, Compressed):
            return self._compressed(mixer, block)
        if mixer.index_heads and not by.sparse:
            raise _UnknownLayerError("how this release stores indexer keys")
        token: int | None = None
        value_bytes = 1
        if self.is_sparse and self._is_packed(mixer):
            token = _PACKED_LATENT
        else:
            value_bytes = self._value_bytes
            size = mixer.cached_dim * value_bytes
            rounded = -(-size // by.latent_bytes) * by.latent_bytes
            token = rounded if rounded != size else None
        latent = KvLayer(
            Kind.LATENT, block, heads=1, key_size=mixer.cached_dim, value_bytes=value_bytes, token_bytes=token
        )
        if not mixer.index_heads or options.is_v0:
            return (latent,)
        width = mixer.index_dim + mixer.index_dim // _INDEX_SCALE * 4
        return latent, KvLayer(Kind.LATENT, block, heads=1, key_size=width, value_bytes=1)

    def _compressed(self, mixer: Compressed, block: int) -> tuple[KvLayer, ...]:
        options, by = self.asked, self.by
        is_given = self.cache_dtype.startswith("fp8")
        if not by.compressed or not (is_given or (by.compressed == "any" and self.cache_dtype == "auto")):
            raise _UnknownLayerError(f"the cache of compressed latents in {self.cache_dtype}: set --kv-cache-dtype fp8")
        if options.capability is None:
            decided = "the GPU's compute capability, which decides the attention backend"
            raise _UnknownLayerError("the attention backend on ROCm" if options.is_rocm else decided)
        if options.backend == _OTHER_ROWS and options.capability[0] != 12:
            raise _UnknownLayerError(f"the cache of compressed latents with {_OTHER_ROWS}")
        size = mixer.cached_dim
        whole = KvLayer(
            Kind.LATENT,
            block,
            heads=1,
            key_size=size,
            value_bytes=1,
            token_bytes=_COMPRESSED_LATENT,
            compression=mixer.ratio,
        )
        window = replace(whole, kind=Kind.LATENT_WINDOW, block_tokens=_WINDOW_BLOCK, window=mixer.window, compression=1)
        forms = [window]
        if mixer.ratio > 1:
            forms += [whole, self._state(mixer, size)]
        if mixer.index_heads:
            bits = 4 if options.index_dtype == "mxfp4" and by.packs_index else 8
            width = mixer.index_dim // 2 + mixer.index_dim // 32 if bits == 4 else mixer.index_dim + 4
            forms += [
                replace(whole, key_size=width, token_bytes=None),
                self._state(mixer, mixer.index_dim),
            ]
        return tuple(replace(form, padded_bytes=-(-form.content_bytes // _ALIGNED) * _ALIGNED) for form in forms)

    @staticmethod
    def _state(mixer: Compressed, size: int) -> KvLayer:
        """Latents and their scores in four bytes until all tokens of a compressed latent are known."""
        block, kept = _STATE_BLOCKS[mixer.ratio], mixer.overlap * mixer.ratio
        return KvLayer(
            Kind.LATENT_WINDOW, block, heads=1, key_size=2 * mixer.overlap * size, value_bytes=4, window=kept
        )

    def _is_packed(self, mixer: Latent) -> bool:
        by, capability = self.by, self.asked.capability
        if self.cache_dtype == "fp8_ds_mla":
            return True
        if self.cache_dtype == "auto":
            majors = by.packs_auto
        elif self.cache_dtype.startswith("fp8"):
            majors = by.packs
        else:
            return False
        if not majors or _ANY in majors:
            return bool(majors)
        if self.asked.is_rocm:
            raise _UnknownLayerError("the layout of an 8-bit latent cache on ROCm")
        if capability is None:
            raise _UnknownLayerError("the GPU's compute capability, which decides the layout of an 8-bit latent cache")
        if capability[0] == 10 and self.cache_dtype != "auto" and by.packs_many_heads:
            return mixer.heads // self.asked.tensor_parallel > 16
        return capability[0] in majors


def _counted(forms: Sequence[tuple[KvLayer, int]]) -> Mapping[KvLayer, int]:
    counts: dict[KvLayer, int] = {}
    for form, count in forms:
        counts[form] = counts.get(form, 0) + count
    return counts
