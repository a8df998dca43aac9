"""Memory-relevant contents of a `config.json`: layer sizes, experts, encoder and quantization.

`shape` reads a configuration without guessing. Values that neither a field nor a default of the
model's class gives are listed in `Shape.missing`; callers that need them report "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeGuard

from vllm_runbooks.plan.families import Family, Mixture, families

MAX_LAYERS = 10_000
"""A file with more is damaged, or an attempt to use up memory."""


@dataclass(frozen=True)
class Rope:
    """Rotary embedding table that vLLM keeps on the GPU, shared by layers with equal parameters."""

    kind: str
    """Name in the configuration: "default", "llama3", "yarn", "deepseek_yarn", "longrope", "mrope"
    …"""
    dim: int
    """Values in a row: the part of a head that is rotated."""
    head: int = field(default=0, kw_only=True)
    """Size of the head where layers have heads of two sizes, whose tables are two even if they are equal; else 0."""
    positions: int
    """Positions before scaling: the trained length if the kind has one, else the longest
    context."""
    factor: float = 1.0
    base: float = 0.0
    """Tables of two bases are two tables."""
    longest: int = 0
    width: int = 0
    """Bytes per value whatever the dtype; 0: the dtype's."""
    is_multimodal: bool = False
    """Also rotated by image position (mrope)."""


@dataclass(frozen=True)
class Attention:
    """Attention over cached keys and values."""

    kind: str
    """"full", "sliding", "chunked", "cross" (over an encoder's output) or "encoder" (no cache)."""
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    """Tokens: the window of "sliding", the chunk of "chunked"."""
    bias: bool = False
    output_bias: bool = False
    query_key_norm: str = ""
    """"head": one norm for a head of queries, one of keys; "flat": over all heads together; "whole": so, and each rank
    has all of it."""
    is_gated: bool = False
    gates_heads: bool = False
    input_dim: int = 0
    """Size of its input; 0 for the hidden size."""
    has_sinks: bool = False
    index_heads: int = 0
    """Heads of the queries that select the blocks of tokens to attend to (MiniMax M3); 0: it attends to all."""
    index_dim: int = 0
    shares_cache_of: int | None = None
    """Layer whose keys and values are reused: this layer has no cache and no key and value
    projections."""
    value_is_key: bool = False
    """The checkpoint has no projection of values; vLLM copies that of the keys."""
    rope: Rope | None = None


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: one compressed latent for all heads, kept by every rank."""

    heads: int
    query_rank: int | None
    """None if queries are not compressed."""
    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    is_gated: bool = False
    index_heads: int = 0
    """Heads of the indexer of sparse attention; 0: the layer has none."""
    index_dim: int = 0
    rope: Rope | None = None

    @property
    def cached_dim(self) -> int:
        """Values cached for a token."""
        return self.latent_dim + self.rope_dim


@dataclass(frozen=True)
class Compressed(Latent):
    """DeepSeek V4's attention: to a window of latents, and to older ones of which several are compressed into one."""

    window: int = 0
    """Tokens of the window."""
    ratio: int = 1
    """Tokens that are compressed into one; 1: the layer attends to its window alone."""
    overlap: int = 1
    """Compressed tokens that a token is a part of."""
    groups: int = 0
    """Groups of heads with an output projection of their own."""
    output_rank: int = 0


@dataclass(frozen=True)
class Recurrent:
    """A layer with a state of constant size; its sizes depend on `kind`.

    "mamba1": inner, state, rank; "mamba2": inner, heads, head_dim, state, groups; "gdn" and "kda":
    key and value heads and dims; "linear": heads, head_dim, groups of its norm; "short_conv": inner.
    """

    kind: str
    conv_kernel: int = 0
    inner: int = 0
    state: int = 0
    rank: int = 0
    heads: int = 0
    head_dim: int = 0
    groups: int = 0
    key_heads: int = 0
    key_dim: int = 0
    value_heads: int = 0
    value_dim: int = 0
    bias: bool = False
    conv_bias: bool = False
    is_full_rank: bool = False
    """The output gate of "kda" is one projection (Kimi K3), otherwise two of low rank."""
    has_bound: bool = False
    """The decay of "kda" has a lower bound, which the kernel that keeps a state during prefill needs."""
    has_norm: bool = True
    """Norms: "mamba1" of the time step and its selection inputs, "mamba2" of the output."""
    state_dtype: str | None = None
    """State dtype in the configuration (`mamba_ssm_cache_dtype`, `mamba_ssm_dtype`); None if not
    set."""
    rope: Rope | None = None
    """Of "linear", whose queries and keys are rotated."""


@dataclass(frozen=True)
class Dense:
    """A feed-forward network."""

    size: int
    is_gated: bool = True
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """A mixture of experts with its router and shared experts."""

    count: int
    per_token: int
    size: int
    is_gated: bool = True
    bias: bool = False
    shared_size: int = 0
    shared_gate: bool = False
    correction: bool = False
    """A bias that only the choice of experts sees."""
    router_bias: bool = False
    router_width: int = 0
    """Bytes of a router's weight if the configuration sets its dtype."""
    latent_norm: bool = False
    latent: int = 0
    """Size that the hidden state is projected to before the experts and back after them; 0: none."""
    hashed: int = 0
    """Size of a table that chooses the experts by token, in place of the bias of the choice (DeepSeek V4)."""
    scales: int = 0
    """Scalars next to the router: Gemma 4's scale of inputs and of each expert."""


@dataclass(frozen=True)
class Layer:
    """One decoder layer."""

    mixer: Attention | Latent | Recurrent | None
    feed_forward: Dense | Experts | None
    beside: Dense | None = None
    """Dense network parallel to the experts (Gemma 4)."""
    also: Attention | Recurrent | None = None
    """State-space mixer parallel to attention (Falcon-H1), or after it and its network (Zamba2); attention over an
    encoder's output after that over the tokens (Whisper)."""
    norms: int = 2
    scalars: int = 0
    streams: int = 0
    """Parallel hidden states (gemma 3n's AltUp)."""
    connections: int = 0
    """Parallel hidden states that attention and network each mix (DeepSeek V4's hyper-connections)."""
    detour: int = 0
    """Rank of a low-rank path parallel to attention (Gemma 3n's LAuReL)."""
    repeats: bool = False
    """Attention and network have the weights of an earlier layer (Zamba2)."""
    adapters: tuple[int, int] = (0, 0)
    """Ranks of the adapters of such a layer, for attention and for the first projection of its
    network."""

    @property
    def mixers(self) -> tuple[Attention | Latent | Recurrent, ...]:
        """Token mixers of this layer, each with its own cache."""
        return tuple(mixer for mixer in (self.mixer, self.also) if mixer is not None)


@dataclass(frozen=True)
class Format:
    """Storage format of a linear layer's weights."""

    bits: int
    group: int = 0
    """Weights along the input that share a scale; 0: one scale for each output channel or tensor; see `strategy`."""
    strategy: str = "group"
    """"group", "channel", "tensor" or "block"."""
    block: tuple[int, int] = (0, 0)
    """Output and input size of a block."""
    scale_bytes: int = 2
    has_zeros: bool = False
    has_order: bool = False
    """Whether a permutation of the input channels is stored (GPTQ)."""
    is_float: bool = False
    vector_scales: bool = False
    """The scale of a whole tensor is saved as a vector of one."""


@dataclass(frozen=True)
class Quantization:
    """Quantization of the checkpoint: the first target that names a layer decides."""

    method: str
    """Name in vLLM: "awq", "gptq", "fp8", "compressed-tensors", "mxfp4", "modelopt", "bitsandbytes"
    …"""
    formats: tuple[tuple[tuple[str, ...], Format], ...] = ()
    """Names ("Linear", a module, `re:…`) and the format of the matching modules."""
    ignored: tuple[str, ...] = ()
    kv_cache: str | None = None
    """"fp8" if the checkpoint requests a quantized cache."""
    has_mxfp4_experts: bool = False
    """The experts are in MXFP4, whose kernels pad them."""


@dataclass(frozen=True)
class Encoder:
    """A tower for images, videos or audio; sizes by the names its own family gives them."""

    family: str
    sizes: Mapping[str, Any] = field(hash=False)
    """The part of the configuration, its class' defaults filled in."""


@dataclass(frozen=True)
class PerLayerInput:
    """Gemma 3n's and 4's second embedding: a small vector for each layer."""

    size: int
    vocabulary: int


@dataclass(frozen=True)
class Shape:
    """Memory-relevant sizes of a model; `missing` lists what the configuration does not define."""

    architecture: str | None
    model_type: str | None
    text_type: str | None
    """`model_type` of the family that the text part belongs to: a key of `families`."""
    dtype: str | None
    """Dtype of the checkpoint: "bfloat16", "float16", "float32"; None if not given."""
    hidden_size: int = 0
    vocabulary_size: int = 0
    max_positions: int | None = None
    """As in the configuration, without scaling."""
    pools: bool = False
    """Whether vLLM runs it as a pooling model by default: for embeddings, scores or classes."""
    ties_embeddings: bool | None = None
    head_bias: bool = False
    token_types: int = 0
    """Rows of the embedding of token types; 0 if there is none."""
    labels: int = 0
    """Classes of an encoder-only model's classifier; 0 if it has none."""
    kinds: tuple[Layer, ...] = ()
    """The kinds of layers that occur, in order of their first layer."""
    pattern: tuple[int, ...] = ()
    """The kind of each layer, as an index into `kinds`."""
    last_norms: int = 1
    """Vectors of the hidden size after the last layer: its norm, and what mixes blocks of residuals (Kimi K3)."""
    mtp: tuple[Layer, ...] = ()
    """Layers for speculative decoding in the checkpoint; vLLM loads them only on request."""
    per_layer_input: PerLayerInput | None = None
    index_topk: int | None = None
    """Tokens that an indexer chooses."""
    quantization: Quantization | None = None
    encoders: tuple[Encoder, ...] | None = ()
    """None if an encoder's family is unknown."""
    missing: tuple[str, ...] = ()
    """Missing fields and facts; `kinds` may be empty if there are any."""

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.pattern)

    def layer(self, index: int) -> Layer:
        """One layer."""
        return self.kinds[self.pattern[index]]


class _UnknownFieldError(Exception):
    """A field that is needed is not there."""


class _ShapeReader:
    """One part of a configuration with the defaults of its class."""

    def __init__(self, config: Mapping[str, Any], family: Family, *, is_partial: bool) -> None:
        self.config = config
        self.family = family
        self.is_partial = is_partial
        self.missing: dict[str, None] = {}

    def get(self, *names: str) -> Any:
        """First field that is present, else the class's default; None for neither or null."""
        for name in names:
            if name in self.config:
                return self.config[name]
        for name in names:
            if name in self.family.defaults:
                if self.is_partial and name not in self.config:
                    self.missing[name] = None
                return self.family.defaults[name]
        return None

    def number(self, *names: str, least: int = 0) -> int:
        """A count or size that must be known."""
        value = self.get(*names)
        if isinstance(value, (list, tuple)) and value and all(item == value[0] for item in value):
            # One for each layer, all equal.
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        return self.fail(names[0])

    def fail(self, name: str) -> NoReturn:
        self.missing[name] = None
        raise _UnknownFieldError

    def optional(self, *names: str) -> int | None:
        return None if self.get(*names) is None else self.number(*names)

    def flag(self, rule: bool | str) -> bool:  # noqa: FBT001 - the family's rule is its data
        """Value of a family's rule: a constant, or the name of a boolean field."""
        if isinstance(rule, bool):
            return rule
        value = self.get(rule)
        return value == "noaux_tc" if isinstance(value, str) else bool(value)


def _part(config: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return inner
    return {}


def _longest(read: _ShapeReader) -> int | None:
    names = ("max_position_embeddings", "seq_length")
    value = read.get(*names)
    is_told = isinstance(value, int) and (not read.is_partial or any(name in read.config for name in names))
    return value if is_told else None


def _ropes(read: _ShapeReader) -> Callable[[str, int], Rope | None]:
    """Reads the tables of cosines and sines: by kind of attention and size of a head."""
    config = read.config
    tables = _part(config, "rope_parameters", "rope_scaling")
    longest = _longest(read)
    factor_of_head = config.get("partial_rotary_factor")
    rotary_dim = config.get("rotary_dim")

    def one(kind: str, size: int) -> Rope | None:
        if not read.family.has_rope or longest is None:
            return None
        mine = _part(tables, f"{kind}_attention") or (
            {} if any(isinstance(value, Mapping) for value in tables.values()) else tables
        )
        base = mine.get("rope_theta", config.get("rope_theta", 0.0))
        if (
            kind == "sliding"
            and (local := read.get("rope_local_base_freq", "swa_rope_theta", "local_rope_theta")) is not None
        ):
            mine, base = {}, local
        name = mine.get("rope_type", mine.get("type", "default"))
        part = mine.get("partial_rotary_factor", factor_of_head)
        part = read.family.partial_rotary if part is None else part
        dim = rotary_dim if _is_size(rotary_dim) else size if name == "proportional" else int(size * part)
        factor = mine.get("factor", 1.0)
        trained = mine.get("original_max_position_embeddings", config.get("original_max_position_embeddings"))
        scaled = name in ("yarn", "deepseek_yarn", "longrope", "su")
        return Rope(
            kind=str(name),
            dim=dim,
            positions=trained if scaled and isinstance(trained, int) else longest,
            factor=float(factor) if isinstance(factor, (int, float)) else 1.0,
            base=float(base) if isinstance(base, (int, float)) else 0.0,
            longest=longest,
            is_multimodal=read.family.is_multimodal_rope or "mrope_section" in mine or name == "mrope",
        )

    return one


def _attention(read: _ShapeReader, rope: Callable[[str, int], Rope | None]) -> Attention:
    """Attention of the default kind; the readers of layers change it as needed."""
    family = read.family
    heads = read.number("num_attention_heads", least=1)
    head_dim = read.optional("head_dim", "kv_channels") if family.head_dim or "head_dim" in read.config else None
    if head_dim is None:
        head_dim = read.number("hidden_size") // heads
    kv_heads = read.optional("num_key_value_heads", "multi_query_group_num")
    if kv_heads == 0:
        read.fail("num_key_value_heads")
    window = read.optional("sliding_window") if family.window else None
    used = window is not None and (family.window == "all" or bool(read.get("use_sliding_window")))
    has_norm = family.query_key_norm and (not family.norm_field or read.flag(family.norm_field))
    return Attention(
        kind="encoder" if family.is_encoder else "sliding" if used else "full",
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        window=window if used else None,
        bias=read.flag(family.qkv_bias),
        output_bias=read.flag(family.output_bias),
        query_key_norm=family.query_key_norm if has_norm else "",
        is_gated=read.flag(family.attention_gate),
        has_sinks=family.has_sinks,
        rope=rope("full", head_dim),
    )


def _latent(read: _ShapeReader, rope: Callable[[str, int], Rope | None]) -> Latent:
    config = read.config
    rope_dim = read.number("qk_rope_head_dim")
    index_heads = read.optional("index_n_heads") if config.get("index_topk") or config.get("index_n_heads") else None
    table = rope("full", rope_dim)
    if table is not None and table.kind == "yarn":
        table = replace(table, kind="deepseek_yarn")
    return Latent(
        heads=read.number("num_attention_heads", least=1),
        query_rank=read.optional("q_lora_rank"),
        latent_dim=read.number("kv_lora_rank"),
        rope_dim=rope_dim,
        nope_dim=read.number("qk_nope_head_dim"),
        value_dim=read.number("v_head_dim"),
        index_heads=index_heads or 0,
        index_dim=read.number("index_head_dim") if index_heads else 0,
        rope=table,
    )


def _experts(read: _ShapeReader, mixture: Mixture) -> Experts:
    size = read.number(*mixture.size)
    shared = 0
    if mixture.shared_count:
        shared_each = read.number(mixture.shared_of, *mixture.size) if mixture.shared_of else size
        shared = shared_each * read.number(mixture.shared_count)
    if mixture.shared_size:
        shared = read.number(*mixture.shared_size)
    return Experts(
        count=read.number(*mixture.count),
        per_token=read.number(*mixture.per_token),
        size=size,
        is_gated=read.family.is_gated,
        bias=mixture.bias,
        shared_size=shared,
        shared_gate=mixture.shared_gate,
        correction=read.flag(mixture.correction),
        router_bias=mixture.router_bias,
        router_width=4 if read.get("router_dtype") == "fp32" else 0,
        latent_norm=bool(read.get("latent_moe_use_norm")),
        latent=read.optional("moe_latent_size", "routed_expert_hidden_size") or 0,
    )


def _has_experts(read: _ShapeReader, index: int) -> bool:
    """Whether a layer's feed-forward network is a mixture, by whichever fields the family has for it."""
    config, family = read.config, read.family
    if family.mixture is None:
        return False
    frequency = config.get("moe_layer_freq", family.defaults.get("moe_layer_freq"))
    listed = config.get("mlp_layer_types")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        return index < len(listed) and listed[index] != "dense"
    if "expert_layer_period" in family.defaults:
        # One expert is a dense network (0.33.0 models/jamba.py:145).
        has_router = read.number(*family.mixture.count) > 1
        return has_router and index % read.number("expert_layer_period") == read.number("expert_layer_offset")
    names = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
    first = next((fields[name] for fields in (config, family.defaults) for name in names if name in fields), 0) or 0
    if isinstance(frequency, Sequence):
        return bool(frequency[index]) if index < len(frequency) else False
    if index < first:
        return False
    if isinstance(frequency, int) and frequency > 1:
        return index % frequency == 0
    if index in (config.get("mlp_only_layers") or ()):
        return False
    step = config.get("decoder_sparse_step", family.defaults.get("decoder_sparse_step", 1))
    step = config.get("interleave_moe_layer_step", family.defaults.get("interleave_moe_layer_step", step))
    return bool(step) and (index + 1) % step == 0


def _feed_forward(read: _ShapeReader) -> Callable[[int], Dense | Experts]:
    family = read.family
    mixture = family.mixture
    sparse = _experts(read, mixture) if mixture is not None and read.get(*mixture.count) else None
    name = mixture.dense_size if mixture is not None else "intermediate_size"

    def one(index: int) -> Dense | Experts:
        if sparse is not None and _has_experts(read, index):
            return sparse
        names = (name, "ffn_hidden_size", "ffn_dim")
        size = read.optional(*names) if family.network_ratio else read.number(*names)
        wide = family.network_ratio * read.number("hidden_size") if size is None else size
        return Dense(wide, is_gated=family.is_gated, bias=read.flag(family.mlp_bias))

    return one


_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "linear",
    "conv": "linear",
    "hybrid": "hybrid",
}


def _layer_kinds(read: _ShapeReader, layers: int, *, has_states: bool = False) -> list[str]:
    """The kind of each layer: "full", "sliding", "chunked", "linear" or, with attention and a state, "hybrid".

    The last two are kinds only of families that have states.
    """
    listed = read.config.get("layer_types", read.config.get("layers_block_type"))
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        kinds = [_KINDS.get(str(kind), "") for kind in listed[:layers]]
        is_read = has_states or {"linear", "hybrid"}.isdisjoint(kinds)
        if len(kinds) == layers and all(kinds) and is_read:
            return kinds
        read.fail("layer_types")
    places = read.config.get("attn_layer_indices", read.config.get("full_attn_idxs"))
    if isinstance(places, Sequence) and not isinstance(places, str):
        kept = {place for place in places if isinstance(place, int)}
        return ["full" if index in kept else "linear" for index in range(layers)]
    if "attn_layer_period" in read.family.defaults:
        every, first = read.number("attn_layer_period"), read.number("attn_layer_offset")
        return ["full" if index % every == first else "linear" for index in range(layers)]
    if read.family.layer_types in ("mamba2", "short_conv", "zamba2", "step3p5"):
        # Their classes' default is one kind alone, which no published model is.
        read.fail("layer_types")
    if read.family.layer_types == "linear":
        every = read.number("full_attention_interval")
        return ["full" if (index + 1) % every == 0 else "linear" for index in range(layers)]
    every = read.number("sliding_window_pattern", "_sliding_window_pattern")
    return ["full" if (index + 1) % every == 0 else "sliding" for index in range(layers)]


def _plain(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    norms, scalars = read.family.norms, read.family.scalars
    return (Layer(attention, network(index), norms=norms, scalars=scalars) for index in range(layers))


def _falcon(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    config = read.config
    heads, hidden = read.number("num_attention_heads", "n_head"), read.number("hidden_size")
    is_new = bool(config.get("new_decoder_architecture"))
    several = read.number("num_kv_heads", "n_head_kv") if is_new else heads
    attention = Attention(
        kind="full",
        heads=heads,
        kv_heads=1 if read.get("multi_query") and not is_new else several,
        head_dim=hidden // heads,
        value_dim=hidden // heads,
        bias=bool(read.get("bias")),
        output_bias=bool(read.get("bias")),
        rope=None if config.get("alibi") else _ropes(read)("full", hidden // heads),
    )
    wide = read.optional("ffn_hidden_size")
    network = Dense(4 * hidden if wide is None else wide, is_gated=False, bias=bool(read.get("bias")))
    norm_count = read.optional("num_ln_in_parallel_attn")
    norms = (2 if is_new else 1) if norm_count is None else norm_count
    return [Layer(attention, network, norms=norms if is_new or read.get("parallel_attn") else 2)] * layers


def _listed(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """Families whose class has sliding layers only if configured; otherwise like `_plain`."""
    kinds = read.config.get("layer_types")
    uses = read.get("use_sliding_window") and read.optional("sliding_window")
    if not kinds and not uses:
        return _plain(replace_window(read), layers)
    attention = _attention(replace_window(read), _ropes(read))
    network = _feed_forward(read)
    first = read.optional("max_window_layers") or 0
    names = _layer_kinds(read, layers) if kinds else ["sliding" if i >= first else "full" for i in range(layers)]
    sliding = replace(attention, kind="sliding", window=read.optional("sliding_window"))
    return (
        Layer(sliding if kind == "sliding" else attention, network(index), norms=read.family.norms)
        for index, kind in enumerate(names)
    )


def replace_window(read: _ShapeReader) -> _ShapeReader:
    other = _ShapeReader(read.config, replace(read.family, window=""), is_partial=read.is_partial)
    other.missing = read.missing
    return other


def _sliding(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    rope = _ropes(read)
    attention = _attention(read, rope)
    network = _feed_forward(read)
    window = read.number("sliding_window")
    sliding = replace(attention, kind="sliding", window=window, rope=rope("sliding", attention.head_dim))
    return (
        Layer(sliding if kind == "sliding" else attention, network(index), norms=read.family.norms)
        for index, kind in enumerate(_layer_kinds(read, layers))
    )


def _laguna(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """Sliding layers may have other heads; each head or each of its values has a gate (0.33.0 models/laguna.py:336)."""
    heads = read.config.get("num_attention_heads_per_layer") or [read.number("num_attention_heads")] * layers
    gating = read.get("gating")
    gates_heads = gating is True or gating == "per-head"
    is_gated = bool(gating) and not gates_heads
    if not _is_list(heads) or len(heads) != layers or not all(map(_is_size, heads)):
        read.fail("num_attention_heads_per_layer")
    for layer, count in zip(_sliding(read, layers), heads, strict=True):
        if isinstance(layer.mixer, Attention):
            yield replace(layer, mixer=replace(layer.mixer, heads=count, gates_heads=gates_heads, is_gated=is_gated))


def _linear(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    recurrent = Recurrent(
        kind="gdn",
        conv_kernel=read.number("linear_conv_kernel_dim"),
        key_heads=read.number("linear_num_key_heads"),
        key_dim=read.number("linear_key_head_dim"),
        value_heads=read.number("linear_num_value_heads"),
        value_dim=read.number("linear_value_head_dim"),
        state_dtype=read.config.get("mamba_ssm_dtype"),
    )
    return (
        Layer(recurrent if kind == "linear" else attention, network(index))
        for index, kind in enumerate(_layer_kinds(read, layers, has_states=True))
    )


def _gemma4(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    rope = _ropes(read)
    local = _attention(read, rope)
    local = replace(local, kind="sliding", window=read.number("sliding_window"))
    local = replace(local, rope=rope("sliding", local.head_dim))
    size = (
        read.optional("global_head_dim") or local.head_dim
        if "global_head_dim" in read.family.defaults
        else local.head_dim
    )
    heads = read.optional("num_global_key_value_heads") or local.kv_heads
    is_shared = bool(read.get("attention_k_eq_v"))
    whole = replace(local, kind="full", window=None, head_dim=size, value_dim=size, rope=rope("full", size))
    if is_shared:
        whole = replace(whole, kv_heads=heads, value_is_key=True)
    shared = read.number("num_kv_shared_layers")
    kinds = _layer_kinds(read, layers)
    if kinds:
        kinds[-1] = "full"
    inputs = read.optional("hidden_size_per_layer_input") or 0
    mixture = read.family.mixture
    sparse = None
    sizes = read.get("intermediate_size")
    sizes = sizes if isinstance(sizes, (list, tuple)) else [read.number("intermediate_size")] * layers
    streams, detour = read.optional("altup_num_inputs") or 0, read.optional("laurel_rank") or 0
    if read.get("enable_moe_block") and mixture is not None:
        sparse = replace(_experts(read, mixture), scales=read.number("hidden_size") + read.number(*mixture.count))
    wide = bool(read.get("use_double_wide_mlp"))
    for index, kind in enumerate(kinds):
        mixer = local if kind == "sliding" else whole
        source = None
        if index >= layers - shared:
            source = max((i for i in range(layers - shared) if kinds[i] == kind), default=None)
            mixer = replace(mixer, shares_cache_of=source)
        network = Dense(sizes[index] * (2 if wide and source is not None else 1))
        # A norm before and after attention and network each; parallel experts have three more, the
        # layer's own input one.
        norms = 4 + (3 if sparse else 0) + (1 if inputs else 0)
        yield Layer(
            mixer,
            sparse or network,
            beside=network if sparse else None,
            norms=norms,
            scalars=0 if streams else 1,
            streams=streams,
            detour=detour,
        )


def _mla(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    if all(read.optional(name) == 0 for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        # Without sizes of latents vLLM's class has plain attention (0.33.0 models/deepseek_v2.py:1280).
        return _plain(read, layers)
    return _latents(read, layers)


def _latents(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _latent(read, _ropes(read))
    network = _feed_forward(read)
    listed = read.config.get("indexer_types")
    without = replace(attention, index_heads=0, index_dim=0)
    for index in range(layers):
        shares = isinstance(listed, Sequence) and index < len(listed) and listed[index] == "shared"
        yield Layer(without if shares else attention, network(index))


def _bailing_hybrid(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """Groups of layers whose last has latent attention, the others lightning attention (Ling and Ring 2.5)."""
    # The next generation has the same `model_type` (0.33.0 models/bailing_moe_v3.py).
    named = read.config.get("architectures")
    if not _is_list(named) or list(named) != ["BailingMoeV2_5ForCausalLM"]:
        read.fail("architecture" if not _is_list(named) or not named else f"architecture {named[0]}")
    if read.get("router_dtype") not in (None, "fp32"):
        read.fail("router_dtype")
    heads = read.number("num_attention_heads")
    size = read.optional("head_dim") or read.number("hidden_size") // heads
    rope = _ropes(read)
    latent, network = _latent(read, rope), _feed_forward(read)
    if latent.rope is not None:
        latent = replace(latent, rope=replace(latent.rope, dim=latent.rope_dim, head=latent.rope_dim))
    lightning = Recurrent(
        kind="linear",
        heads=heads,
        head_dim=size,
        groups=read.optional("group_norm_size") or 1,
        bias=bool(read.get("use_qkv_bias")),
        has_norm=bool(read.get("use_qk_norm")),
        rope=rope("full", size),
    )
    every = read.number("layer_group_size")
    return (
        Layer(lightning if every > 0 and (index + 1) % every else latent, network(index)) for index in range(layers)
    )


def _kimi_linear(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = replace(_latent(read, _ropes(read)), rope=None, is_gated=bool(read.get("mla_use_output_gate")))
    network = _feed_forward(read)
    linear = _part(read.config, "linear_attn_config")
    listed = read.config.get("layer_types")
    if isinstance(listed, (list, tuple)) and len(listed) == layers:
        recurrent = [kind == "linear_attention" for kind in listed]
    else:
        places = linear.get("kda_layers")
        if not isinstance(places, (list, tuple)):
            read.fail("linear_attn_config.kda_layers")
        recurrent = [index + 1 in places for index in range(layers)]
    heads, size = linear.get("num_heads"), linear.get("head_dim")
    heads = heads if isinstance(heads, int) else read.number("linear_num_heads")
    size = size if isinstance(size, int) else read.number("linear_head_dim")
    kernel = linear.get("short_conv_kernel_size")
    mixer = Recurrent(
        kind="kda",
        conv_kernel=kernel if isinstance(kernel, int) else read.number("linear_conv_kernel_dim"),
        heads=heads,
        head_dim=size,
        key_heads=heads,
        key_dim=size,
        value_heads=heads,
        value_dim=size,
        is_full_rank=bool(linear.get("use_full_rank_gate")),
        has_bound=linear.get("gate_lower_bound") is not None,
    )
    # With blocks of residuals, attention and network each have a norm and a projection to one value.
    norms = 6 if read.optional("attn_res_block_size") else 2
    return (
        Layer(mixer if is_linear else attention, network(index), norms=norms)
        for index, is_linear in enumerate(recurrent)
    )


def _llama4(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    rope = _ropes(read)
    attention = _attention(read, rope)
    network = _feed_forward(read)
    every = read.number("no_rope_layer_interval")
    listed = read.config.get("no_rope_layers") or [int((i + 1) % every != 0) for i in range(layers)]
    chunk = read.optional("attention_chunk_size")
    chunked = replace(attention, kind="chunked", window=chunk) if chunk else attention
    for index in range(layers):
        # A 1 in `no_rope_layers` marks a layer with rotary embeddings; only those use chunked
        # attention.
        yield Layer(chunked if listed[index] else replace(attention, rope=None), network(index))


def _mamba2(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """State-space layers and attention, sequential or, for kind "hybrid", parallel."""
    inner = read.optional("mamba_d_ssm")
    inner = read.number("mamba_expand") * read.number("hidden_size") if inner is None else inner
    heads = read.number("mamba_n_heads")
    size = read.get("mamba_d_head")
    recurrent = Recurrent(
        kind="mamba2",
        conv_kernel=read.number("mamba_d_conv"),
        inner=inner,
        state=read.number("mamba_d_state"),
        heads=heads,
        head_dim=size if isinstance(size, int) else inner // heads,
        groups=read.number("mamba_n_groups", least=1),
        bias=bool(read.get("mamba_proj_bias")),
        conv_bias=bool(read.get("mamba_conv_bias")),
        has_norm=read.flag("mamba_rms_norm") if "mamba_rms_norm" in read.family.defaults else True,
    )
    attention = _attention(read, _ropes(read))
    if read.get("position_embedding_type") in ("nope", None) and "position_embedding_type" in read.family.defaults:
        attention = replace(attention, rope=None)
    network = _feed_forward(read)
    beside = read.optional("shared_intermediate_size")
    kinds = (
        ["hybrid"] * layers if read.family.layer_types == "parallel" else _layer_kinds(read, layers, has_states=True)
    )
    for index, kind in enumerate(kinds):
        yield Layer(
            recurrent if kind == "linear" else attention,
            # Without experts, the dense network that all tokens share remains alone.
            Dense(beside) if beside and not read.get("num_local_experts") else network(index),
            also=recurrent if kind == "hybrid" else None,
        )


def _jamba(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    hidden = read.number("hidden_size")
    rank = read.get("mamba_dt_rank")
    recurrent = Recurrent(
        kind="mamba1",
        conv_kernel=read.number("mamba_d_conv"),
        inner=read.number("mamba_expand") * hidden,
        state=read.number("mamba_d_state"),
        rank=rank if isinstance(rank, int) else -(-hidden // 16),
        bias=bool(read.get("mamba_proj_bias")),
        conv_bias=bool(read.get("mamba_conv_bias")),
    )
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    return (
        Layer(recurrent if kind == "linear" else attention, network(index))
        for index, kind in enumerate(_layer_kinds(read, layers, has_states=True))
    )


def _zamba2(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """State-space layers, some of which are preceded by a shared block of attention and network."""
    hidden, heads = read.number("hidden_size"), read.number("num_attention_heads")
    inner, count = read.number("mamba_expand") * hidden, read.number("n_mamba_heads")
    recurrent = Recurrent(
        kind="mamba2",
        conv_kernel=read.number("mamba_d_conv"),
        inner=inner,
        state=read.number("mamba_d_state"),
        heads=count,
        head_dim=inner // count,
        groups=read.number("mamba_ngroups"),
        bias=bool(read.get("add_bias_linear")),
        conv_bias=bool(read.get("use_conv_bias")),
    )
    size = 2 * hidden // heads
    rope = _ropes(read)("full", size) if read.get("use_mem_rope") else None
    # The block's input is the embedding concatenated with the hidden state.
    attention = Attention("full", heads, heads, size, size, input_dim=2 * hidden, rope=rope)
    network = Dense(read.number("intermediate_size"), bias=bool(read.get("add_bias_linear")))
    blocks, rank = read.number("num_mem_blocks"), read.number("adapter_rank")
    ranks = (rank if read.get("use_shared_attention_adapter") else 0, rank)
    seen = 0
    for kind in _layer_kinds(read, layers, has_states=True):
        if kind == "hybrid":
            yield Layer(
                attention, network, also=recurrent, norms=4 if seen < blocks else 1, repeats=seen >= blocks,
                adapters=ranks,
            )  # fmt: skip
            seen += 1
        else:
            yield Layer(recurrent, None, norms=1)


def _mamba(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """Nothing but state spaces."""
    inner = read.optional("intermediate_size") or read.number("expand") * read.number("hidden_size")
    heads = read.optional("num_heads")
    recurrent = Recurrent(
        kind="mamba2" if heads else "mamba1",
        conv_kernel=read.number("conv_kernel"),
        inner=inner,
        state=read.number("state_size"),
        bias=bool(read.get("use_bias")),
        conv_bias=bool(read.get("use_conv_bias")),
    )
    if heads:
        recurrent = replace(recurrent, heads=heads, head_dim=inner // heads, groups=read.number("n_groups", least=1))
    else:
        rank = read.get("time_step_rank")
        rank = rank if isinstance(rank, int) else -(-read.number("hidden_size") // 16)
        recurrent = replace(recurrent, rank=rank, has_norm=False)
    return [Layer(recurrent, None, norms=1)] * layers


def _step3p5(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    config, rope = read.config, _ropes(read)
    kinds = _layer_kinds(read, layers)
    whole = replace(
        _attention(read, rope),
        kv_heads=read.number("num_attention_groups", least=1),
        gates_heads=bool(config.get("use_head_wise_attn_gate")),
    )
    other = _part(config, "attention_other_setting")
    heads = config.get("num_sliding_attention_heads") or other.get("num_attention_heads")
    sliding = replace(whole, kind="sliding", window=read.number("sliding_window"))
    if _is_size(heads) and other.get("attention_type", "sliding_attention") == "sliding_attention":
        sliding = replace(sliding, heads=heads)
    experts = _experts(read, read.family.mixture) if read.family.mixture is not None else None
    dense = Dense(read.number("intermediate_size"))
    listed, indices = config.get("mlp_layer_types"), config.get("moe_layers_enum")
    if isinstance(listed, (list, tuple)):
        sparse = {index for index, kind in enumerate(listed) if kind == "sparse"}
    else:
        sparse = {int(index) for index in indices.split(",")} if isinstance(indices, str) else set(range(1, layers))
    return (
        Layer(sliding if kind == "sliding" else whole, experts if index in sparse else dense)
        for index, kind in enumerate(kinds)
    )


def _deepseek_v4(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    # Sizes of 0.33.0 models/deepseek_v4/attention.py and compressor.py; layers without compression are not scaled
    # (common/rope.py).
    size, rope_dim, longest = read.number("head_dim"), read.number("qk_rope_head_dim"), _longest(read) or 0
    scaling = _part(read.config, "rope_scaling", "rope_parameters")
    factor, trained = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    plain = Rope("deepseek_yarn", rope_dim, longest, base=read.number("rope_theta"), longest=longest, width=4)
    if not isinstance(factor, (int, float)) or not _is_size(trained):
        read.fail("rope_scaling")
    scaled = replace(plain, positions=trained, factor=float(factor), base=read.number("compress_rope_theta"))
    attention = Compressed(
        heads=read.number("num_attention_heads"),
        query_rank=read.number("q_lora_rank"),
        latent_dim=size - rope_dim,
        rope_dim=rope_dim,
        nope_dim=size - rope_dim,
        value_dim=size,
        window=read.number("sliding_window"),
        groups=read.number("o_groups") or read.fail("o_groups"),
        output_rank=read.number("o_lora_rank"),
        rope=plain,
    )
    heads, index_size = read.number("index_n_heads"), read.number("index_head_dim")
    kinds = {
        0: attention,
        4: replace(attention, ratio=4, overlap=2, index_heads=heads, index_dim=index_size, rope=scaled),
        128: replace(attention, ratio=128, rope=scaled),
    }
    ratios = read.config.get("compress_ratios")
    if not _is_list(ratios) or len(ratios) < layers or not set(ratios) <= set(kinds) or read.family.mixture is None:
        read.fail("compress_ratios")
    experts = _experts(read, read.family.mixture)
    table = read.number("vocab_size") * experts.per_token
    hashed = replace(experts, correction=False, hashed=table)
    first, streams = read.number("num_hash_layers"), read.number("hc_mult")
    return (
        Layer(kinds[ratio], hashed if index < first else experts, connections=streams)
        for index, ratio in enumerate(ratios[:layers])
    )


def _minimax_m3(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    sparse_sizes = _part(read.config, "sparse_attention_config")
    listed, heads, size = (
        sparse_sizes.get(name) for name in ("sparse_attention_freq", "sparse_num_index_heads", "sparse_index_dim")
    )
    # vLLM's class accepts no other sizes (0.33.0 layers/linear.py:1406).
    if not _is_list(listed) or len(listed) < layers or heads != attention.kv_heads or size != attention.head_dim:
        read.fail("sparse_attention_config")
    sparse = replace(attention, index_heads=heads, index_dim=size)
    return (Layer(sparse if listed[index] else attention, network(index)) for index in range(layers))


def _short_conv(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    recurrent = Recurrent(
        kind="short_conv",
        conv_kernel=read.number("conv_L_cache"),
        inner=read.optional("conv_dim") or read.number("hidden_size"),
        bias=bool(read.get("conv_bias")),
        conv_bias=bool(read.get("conv_bias")),
    )
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    size = read.optional("block_ff_dim", "intermediate_size") or 0
    if read.get("block_auto_adjust_ff_dim"):
        # Two thirds, times a factor, rounded up: a gated network with the parameters of a plain
        # one.
        size = int(int(2 * size / 3) * read.get("block_ffn_dim_multiplier"))
        multiple = read.number("block_multiple_of")
        size = -(-size // multiple) * multiple
    for index, kind in enumerate(_layer_kinds(read, layers, has_states=True)):
        part = network(index)
        part = Dense(size) if isinstance(part, Dense) else part
        yield Layer(recurrent if kind == "linear" else attention, part)


_LETTERS = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}


def _nemotron_pattern(config: Mapping[str, Any]) -> str | None:
    pattern, listed = config.get("hybrid_override_pattern"), config.get("layers_block_type")
    if isinstance(pattern, str):
        return pattern
    if isinstance(listed, (list, tuple)) and all(kind in _LETTERS for kind in listed):
        return "".join(_LETTERS[kind] for kind in listed)
    return None


def _nemotron_h(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    pattern = _nemotron_pattern(read.config)
    if pattern is None or len(pattern) != layers:
        read.fail("hybrid_override_pattern")
    heads, size = read.number("mamba_num_heads"), read.number("mamba_head_dim")
    recurrent = Recurrent(
        kind="mamba2",
        conv_kernel=read.number("conv_kernel"),
        inner=heads * size,
        state=read.number("ssm_state_size"),
        heads=heads,
        head_dim=size,
        groups=read.number("n_groups", least=1),
        bias=bool(read.get("use_bias")),
        conv_bias=bool(read.get("use_conv_bias")),
        state_dtype=read.config.get("mamba_ssm_cache_dtype"),
    )
    attention = _attention(read, _ropes(read)) if "*" in pattern else None
    mixture = read.family.mixture
    sparse = _experts(read, mixture) if "E" in pattern and mixture is not None else None
    kinds = {
        "M": Layer(recurrent, None, norms=1),
        "*": Layer(attention, None, norms=1),
        "E": Layer(None, sparse, norms=1),
    }
    if "-" in pattern:
        dense = Dense(read.number("intermediate_size"), is_gated=False, bias=read.flag(read.family.mlp_bias))
        kinds["-"] = Layer(None, dense, norms=1)
    if set(pattern) - set(kinds):
        read.fail("hybrid_override_pattern")
    return (kinds[letter] for letter in pattern)


def _blocks(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """Nemotron-NAS: each layer's own sizes, some without attention or without a network."""
    attention = _attention(read, _ropes(read))
    hidden = read.number("hidden_size")
    blocks = read.config.get("block_configs") or ()
    if len(blocks) != layers:
        read.fail("block_configs")
    for block in blocks:
        first, second = _part(block, "attention"), _part(block, "ffn")
        if first.get("replace_with_linear") or second.get("replace_with_linear"):
            read.fail("block_configs")
        mixer = None
        if not first.get("no_op"):
            mixer = replace(attention, kv_heads=attention.heads // first["n_heads_in_group"])
        network = None
        if not second.get("no_op"):
            # The family uses two thirds of the multiple, rounded up to 256.
            size = int(2 * second["ffn_mult"] * hidden / 3)
            network = Dense(-(-size // 256) * 256)
        yield Layer(mixer, network, norms=(mixer is not None) + (network is not None))


def _mimo_v2(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    rope = _ropes(read)
    config = read.config
    whole = replace(_attention(read, rope), value_dim=read.number("v_head_dim"))
    size = read.number("swa_head_dim")
    sliding = replace(
        whole,
        kind="sliding",
        heads=read.number("swa_num_attention_heads"),
        kv_heads=read.number("swa_num_key_value_heads", least=1),
        head_dim=size,
        value_dim=read.number("swa_v_head_dim"),
        window=read.number("sliding_window"),
        has_sinks=bool(config.get("add_swa_attention_sink_bias")),
        rope=rope("sliding", size),
    )
    whole = replace(whole, has_sinks=bool(config.get("add_full_attention_sink_bias")))
    network = _feed_forward(read)
    pattern = config.get("hybrid_layer_pattern") or ()
    if len(pattern) != layers:
        read.fail("hybrid_layer_pattern")
    return (Layer(sliding if kind else whole, network(index)) for index, kind in enumerate(pattern))


def _mllama(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    cross = set(read.config.get("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38))
    over = replace(attention, kind="cross", query_key_norm="head", rope=None)
    for index in range(layers):
        if index in cross:
            yield Layer(over, network(index), scalars=2)
        else:
            yield Layer(attention, network(index))


def _modernbert(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    """The first layer has no norm before its attention; each third attends to all, with a table of its own."""
    named = read.config.get("architectures")
    if _is_list(named) and list(named) != ["ModernBertModel"]:
        # The classes with a head are not read.
        read.fail(f"architecture {named[0] if named else 'not named'}")
    rope = _ropes(read)
    attention, network = _attention(read, rope), _feed_forward(read)
    local = replace(attention, rope=rope("sliding", attention.head_dim))
    every = read.number("global_attn_every_n_layers", least=1)
    listed = read.config.get("layer_types")
    for index in range(layers):
        is_local = listed[index] == "sliding_attention" if _is_list(listed) else index % every > 0
        yield Layer(local if is_local else attention, network(index), norms=1 if index == 0 else 2)


def _whisper(read: _ShapeReader, layers: int) -> Iterable[Layer]:
    attention = _attention(read, _ropes(read))
    network = _feed_forward(read)
    return (Layer(attention, network(index), also=replace(attention, kind="cross"), norms=3) for index in range(layers))


_LAYERS: Mapping[str, Callable[[_ShapeReader, int], Iterable[Layer]]] = {
    "": _plain,
    "whisper": _whisper,
    "modernbert": _modernbert,
    "falcon": _falcon,
    "listed": _listed,
    "sliding": _sliding,
    "laguna": _laguna,
    "linear": _linear,
    "gemma4": _gemma4,
    "latent": _mla,
    "bailing_hybrid": _bailing_hybrid,
    "llama4": _llama4,
    "nemotron_h": _nemotron_h,
    "mamba2": _mamba2,
    "parallel": _mamba2,
    "jamba": _jamba,
    "mamba": _mamba,
    "zamba2": _zamba2,
    "step3p5": _step3p5,
    "deepseek_v4": _deepseek_v4,
    "minimax_m3": _minimax_m3,
    "short_conv": _short_conv,
    "blocks": _blocks,
    "kimi_linear": _kimi_linear,
    "mimo_v2": _mimo_v2,
    "mllama": _mllama,
}

_FP8 = Format(bits=8, strategy="tensor", scale_bytes=4, is_float=True)


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(item for item in value if isinstance(item, str))
    return ()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _block(value: Any) -> tuple[int, int]:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(item, int) for item in value):
        return value[0], value[1]
    return 0, 0


def _compressed(config: Mapping[str, Any], missing: dict[str, None]) -> tuple[tuple[tuple[str, ...], Format], ...]:
    """Forms by `config_groups`."""
    formats = []
    for name, group in _part(config, "config_groups").items():
        weights = _part(group, "weights") if isinstance(group, Mapping) else {}
        bits = weights.get("num_bits")
        if not isinstance(bits, int):
            missing[f"quantization_config.config_groups.{name}"] = None
            continue
        is_float = weights.get("type") == "float"
        whole = "tensor" if is_float else "channel"
        strategy = str(weights.get("strategy") or ("group" if weights.get("group_size") else whole))
        style = str(group.get("format") or config.get("format") or config.get("quant_algo") or "")
        is_small = is_float and (bits == 4 or "mxfp8" in style)
        shares = _count(weights.get("group_size")) or (32 if "mxfp" in style else 16 if is_small else 0)
        formats.append((
            _strings(group.get("targets")) or ("Linear",),
            Format(
                bits=bits,
                group=shares if strategy in ("group", "tensor_group") or is_small else 0,
                strategy="group" if strategy == "tensor_group" or is_small else strategy,
                block=_block(weights.get("block_structure")),
                scale_bytes=1 if is_small else 4 if strategy in ("tensor", "block") else 2,
                has_zeros=weights.get("symmetric") is False,
                has_order=weights.get("actorder") in ("group", "dynamic"),
                is_float=is_float,
            ),
        ))  # fmt: skip
    return tuple(formats)


def _modelopt(config: Mapping[str, Any]) -> Format | None:
    algorithm = str(config.get("quant_algo") or "").upper()
    if "NVFP4" in algorithm:
        return Format(bits=4, group=_count(config.get("group_size")) or 16, scale_bytes=1, is_float=True)
    if algorithm.startswith("FP8"):
        return _FP8
    return None


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _quantization(config: Mapping[str, Any], missing: dict[str, None]) -> Quantization | None:
    if not config:
        return None
    producer = _part(config, "producer").get("name")
    method = str(config.get("quant_method") or (producer if producer == "modelopt" else ""))
    bits, group = config.get("bits", config.get("w_bit")), config.get("group_size", config.get("q_group_size", 128))
    ignored = _strings(config.get("ignore")) + _strings(config.get("ignored_layers"))
    ignored += _strings(config.get("modules_to_not_convert")) + _strings(config.get("exclude_modules"))
    cache = str(config.get("kv_cache_quant_algo") or "").lower() or None
    if _part(config, "kv_cache_scheme") or str(config.get("kv_cache_scheme")).lower() == "fp8":
        cache = "fp8"
    forms: tuple[tuple[tuple[str, ...], Format], ...] = ()
    if method in ("awq", "awq_marlin", "gptq", "gptq_marlin") and _is_size(bits) and isinstance(group, int):
        is_awq = method.startswith("awq")
        form = Format(
            bits=bits,
            group=max(group, 0),
            strategy="group" if group > 0 else "channel",
            has_zeros=is_awq or not config.get("sym", True),
            has_order=not is_awq and bool(config.get("desc_act")),
        )
        forms = ((("Linear",), form),)
    elif method == "fp8":
        block = _block(config.get("weight_block_size"))
        static = config.get("activation_scheme") == "static"
        form = replace(_FP8, strategy="block" if block[0] else "tensor", block=block, vector_scales=static)
        forms = ((("Linear",), form),)
    elif method == "deepseek_v4_fp8":
        return _deepseek_v4_formats(config)
    elif method == "mxfp4":
        forms = ((("Experts",), Format(bits=4, group=32, scale_bytes=1, is_float=True)),)
        return Quantization("mxfp4", forms, ignored, has_mxfp4_experts=True)
    elif method == "bitsandbytes":
        small = bool(config.get("load_in_4bit") or config.get("_load_in_4bit"))
        forms = (
            (("Linear",), Format(bits=4, group=64, scale_bytes=4) if small else Format(bits=8, strategy="channel")),
        )
        ignored += _strings(config.get("llm_int8_skip_modules"))
    elif method in ("compressed-tensors", "modelopt", "modelopt_fp4"):
        forms = _compressed(config, missing)
        if not forms and (form_ := _modelopt(config)) is not None:
            forms = ((("Linear",), form_),)
    if not forms:
        missing[f"the quantization method {method}" if method else "the method of quantization_config"] = None
        return None
    return Quantization(method, forms, ignored, cache)


def _deepseek_v4_formats(config: Mapping[str, Any]) -> Quantization:
    """Formats of DeepSeek V4 (0.33.0 models/deepseek_v4/quant_config.py): experts in MXFP4, NVFP4 or as all others."""
    is_small = config.get("expert_dtype", "fp4") == "fp4"
    is_nvfp4 = str(config.get("moe_quant_algo") or "").upper() == "NVFP4"
    block = _block(config.get("weight_block_size"))
    general = replace(_FP8, strategy="block" if block[0] else "tensor", block=block, scale_bytes=1)
    experts = Format(bits=4, group=16 if is_nvfp4 else 32, scale_bytes=1, is_float=True)
    forms = ((("Linear",), general if is_small else replace(general, scale_bytes=4)),)
    small: tuple[tuple[tuple[str, ...], Format], ...] = ((("Experts",), experts),) if is_small else ()
    return Quantization(
        "fp8", small + forms, _strings(config.get("ignored_layers")), has_mxfp4_experts=is_small and not is_nvfp4
    )


_TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
_TOWERS = ("vision_config", "audio_config")


def _dtype(*parts: Mapping[str, Any]) -> str | None:
    for part in parts:
        for name in ("dtype", "torch_dtype"):
            if isinstance(part.get(name), str):
                return str(part[name]).removeprefix("torch.")
    return None


_AROUND = (
    "alignment_intermediate_size", "downsample_factor", "projector_bias", "projector_hidden_size",
    "projector_config", "projector_use_layernorm", "scale_factor", "spatial_merge_size", "text_config",
    "vision_feature_layer",
)  # fmt: skip
"""Fields outside a tower's own configuration that decide its sizes."""


def _encoders(config: Mapping[str, Any], family: Family, architecture: str | None) -> tuple[Encoder, ...] | None:
    family = replace(family, encoder=family.encoders.get(architecture or "", family.encoder))
    if family.encoder is None:
        return None if any(isinstance(config.get(name), Mapping) for name in _TOWERS) else ()
    if family.encoder == "unknown":
        return None
    config = _part(config, "thinker_config") or config
    vision = config.get("vision_config")
    encoders = []
    if config.get("is_encoder_decoder") is True:
        encoders = [Encoder(family.encoder, config)]
    if isinstance(vision, Mapping):
        encoders = [Encoder(family.encoder, {name: config[name] for name in _AROUND if name in config} | dict(vision))]
    audio = config.get("audio_config")
    if isinstance(audio, Mapping):
        encoders.append(Encoder(f"{family.encoder}_audio", audio))
    return tuple(encoders) if encoders else None


def _merged(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    inner = _part(config, *_TEXT)
    inner = _part(inner, "text_config") or inner
    if not inner:
        return config, config
    outside = {name: value for name, value in config.items() if name not in ("model_type", "architectures")}
    return {**outside, **inner}, inner


def _mtp(read: _ShapeReader, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers for speculative decoding after the others, of the last layer's kind."""
    defaults = read.family.defaults
    if read.family.mtp == "absent":
        return ()
    count = read.config.get("num_nextn_predict_layers", read.config.get("mtp_num_hidden_layers"))
    count = defaults.get("num_nextn_predict_layers", 0) if count is None and not read.is_partial else count
    if not layers or not isinstance(count, int) or not 0 < count <= MAX_LAYERS:
        return ()
    if read.family.mtp == "nemotron":
        parts = (Attention, Experts)
        kinds_found = [
            next((layer for layer in layers if isinstance(layer.mixer or layer.feed_forward, part)), None)
            for part in parts
        ]
        return tuple(layer for layer in kinds_found if layer is not None) * count
    last = next((layer for layer in reversed(layers) if not isinstance(layer.mixer, Recurrent)), layers[-1])
    if isinstance(last.mixer, Compressed):
        plain = replace(last.mixer, ratio=1, overlap=1, index_heads=0, index_dim=0)
        return (replace(last, mixer=plain),) * count
    if isinstance(last.mixer, Latent) and not last.mixer.index_heads:
        # If layers share the selection of one indexer, the layer after them has its own.
        indexed = next((x.mixer for x in layers if isinstance(x.mixer, Latent) and x.mixer.index_heads), last.mixer)
        last = replace(last, mixer=indexed)
    return (last,) * count


def _layer_count(read: _ShapeReader) -> int:
    letters = _nemotron_pattern(read.config)
    count = len(letters) if letters else read.number("num_hidden_layers", "num_layers", "n_layer")
    if count > MAX_LAYERS:
        read.fail("num_hidden_layers")
    return count


_POOLING_CLASSES = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification", "ClassificationModel",
    "ForRewardModeling", "RewardModel",
)  # fmt: skip
"""Ends of the names of pooling models (vllm 0.32.0 config/model.py:2322); not all others in "Model" are."""


def _pools(config: Mapping[str, Any], architecture: str | None) -> bool:
    """Whether the class or a module of sentence-transformers pools (vllm 0.32.0 config/model.py:1277)."""
    modules = config.get("modules")
    types = [str(module.get("type")) for module in modules if isinstance(module, Mapping)] if _is_list(modules) else []
    return (architecture or "").endswith(_POOLING_CLASSES) or any(name.endswith(".Pooling") for name in types)


def _sees_all(text: Mapping[str, Any]) -> bool:
    """Whether attention is not causal: no KV cache (0.33.0 models/config.py:157, config/model.py:2182)."""
    return text.get("is_causal") is False or text.get("use_bidirectional_attention") is True


def _encoding(mixer: Attention | Latent | Recurrent | None) -> Attention | Latent | Recurrent | None:
    return replace(mixer, kind="encoder") if isinstance(mixer, Attention) else mixer


_CLASSIFIER = "ForSequenceClassification"


def _labels(config: Mapping[str, Any]) -> int:
    """Classes; two by default, as in transformers."""
    names = config.get("id2label")
    return len(names) if isinstance(names, Mapping) and names else _count(config.get("num_labels")) or 2


_CROSSED = "the KV cache for the encoder's output of an encoder-decoder model"
"""Each request has one of a fixed size beside its tokens' (0.32.0 v1/kv_cache_interface.py, CrossAttentionSpec)."""


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _unknown_class(named: Shape, family: Family | None) -> str:
    missing = f"architecture {named.architecture or named.model_type or 'not named'}"
    if family is not None and family.is_foreign:
        missing += f" with model_type {named.model_type}, for which neither vLLM nor transformers has a class"
    return missing


def shape(config: Mapping[str, Any], *, is_partial: bool = False) -> Shape:
    """Read the memory-relevant sizes of a `config.json`; never raises.

    With `is_partial` a missing field is unknown; otherwise it has the default of its class.
    """
    text, inner = _merged(config)
    listed = config.get("architectures")
    architecture = listed[0] if isinstance(listed, (list, tuple)) and listed and isinstance(listed[0], str) else None
    model_type = config.get("model_type") if isinstance(config.get("model_type"), str) else None
    known_families = families()
    if model_type not in known_families and (whole := (model_type or "").removesuffix("_text")) in known_families:
        # The text part alone, as a model of its own.
        model_type = whole
        known_families = {**known_families, whole: replace(known_families[whole], encoder=None)}
    outer_family = known_families.get(model_type or "")
    inner_type = str(inner.get("model_type") or "")
    text_type = inner_type if inner_type in known_families else model_type
    family = known_families.get(text_type or "")
    named = Shape(architecture, model_type, text_type, _dtype(config, text), pools=_pools(config, architecture))
    if family is None or outer_family is None or family.is_foreign:
        crossed = (_CROSSED,) if config.get("is_encoder_decoder") is True else ()
        return replace(named, missing=(_unknown_class(named, family), *crossed))
    text = {**text, **{name: text[own] for name, own in family.fields.items() if own in text}}
    read = _ShapeReader(text, family, is_partial=is_partial)
    quantization_config = _part(config, "quantization_config", "compression_config") or _part(
        text, "quantization_config"
    )
    if model_type == "kimi_k3" and quantization_config.get("format") == "mxfp4-pack-quantized":
        # vLLM quantizes nothing but the experts (0.33.0 models/config.py:492).
        quantization_config = {**quantization_config, "quant_method": "mxfp4"}
    if model_type == "deepseek_v4" and quantization_config.get("quant_method") == "fp8":
        told = {"expert_dtype": text.get("expert_dtype", "fp4"), "quant_method": "deepseek_v4_fp8"}
        quantization_config = {**quantization_config, **told}
    quantization = _quantization(quantization_config, read.missing)
    kinds: dict[Layer, int] = {}
    pattern: list[int] = []
    hidden = vocabulary = 0
    mtp: tuple[Layer, ...] = ()
    inputs: PerLayerInput | None = None
    if family.is_encoder and (positions := read.get("position_embedding_type")) not in (None, "absolute"):
        read.missing[f"sizes with position_embedding_type {positions}"] = None
    try:
        hidden = read.number("hidden_size")
        vocabulary = read.number("vocab_size", "padded_vocab_size")
        for name in family.unread:
            if text.get(name) and text[name] != hidden:
                read.missing[f"sizes with {name}"] = None
        layers = tuple(_LAYERS[family.layer_types](read, _layer_count(read)))
        if _sees_all(text):
            layers = tuple(replace(layer, mixer=_encoding(layer.mixer)) for layer in layers)
        pattern.extend(kinds.setdefault(layer, len(kinds)) for layer in layers)
        mtp = _mtp(read, layers)
        size = read.optional("hidden_size_per_layer_input")
        if size:
            inputs = PerLayerInput(size, read.optional("vocab_size_per_layer_input") or vocabulary)
    except (_UnknownFieldError, LookupError, TypeError, ValueError, ZeroDivisionError):
        if not read.missing:
            read.missing["a field of an unexpected type"] = None
        kinds, pattern, mtp, inputs = {}, [], (), None
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    return replace(
        named,
        hidden_size=hidden,
        vocabulary_size=vocabulary,
        max_positions=_longest(read),
        ties_embeddings=read.get("tie_word_embeddings") if tied is None else bool(tied),
        head_bias=read.flag(family.head_bias),
        pools=named.pools or family.is_encoder,
        token_types=_count(read.get("type_vocab_size")) if family.is_encoder and kinds else 0,
        labels=_labels(config) if family.is_encoder and (architecture or "").endswith(_CLASSIFIER) else 0,
        kinds=tuple(kinds),
        pattern=tuple(pattern),
        last_norms=3 if text.get("attn_res_block_size") else 1,
        mtp=mtp,
        per_layer_input=inputs,
        index_topk=text.get("index_topk") if isinstance(text.get("index_topk"), int) else None,
        quantization=quantization,
        encoders=_encoders(config, outer_family, architecture),
        missing=tuple(read.missing),
    )
