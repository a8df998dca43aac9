"""The tensors of a layer: their sizes, and how ranks divide them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from vllm_runbooks.plan.families import Family, Mixture
from vllm_runbooks.plan.shape import Attention, Dense, Experts, Latent, Layer, Recurrent, Shape

CORRECTION = "e_score_correction_bias"
"""Name of the bias that only the choice of experts sees."""


@dataclass(frozen=True)
class ModelTensor:
    """Weights of one module, with how ranks divide them."""

    component: str
    """"embedding", "attention", "recurrent", "mlp", "experts", "shared", "router", "norms", "head", "vision" …"""
    name: str
    """Of the module, as a layer of the checkpoint calls it."""
    rows: int
    """Size of the output; of a vector its length."""
    columns: int = 1
    """Size of the input."""
    split: str = ""
    """"column" (by output), "row" (by input), "kv" (by output, heads repeated where ranks are more), "vocabulary",
    "experts" with "column" or "row" behind a slash; "": each rank has all of it."""
    count: int = 1
    heads: int = 0
    """Of "kv"."""
    bias: bool = False
    is_linear: bool = False
    """A linear layer, which a quantization can be meant for."""
    fused: str = ""
    """Tensors of one name are one allocation in vLLM."""
    width: int = 0
    """Bytes of a value whatever the dtype; 0: the dtype's."""
    in_checkpoint: bool = True
    is_loaded: bool = True

    @property
    def values(self) -> int:
        """Parameters."""
        return self.count * (self.rows * self.columns + (self.rows if self.bias else 0))


def norm(name: str, size: int, *, bias: bool = False, **more: Any) -> ModelTensor:
    return ModelTensor("norms", name, size, bias=bias, **more)


def linear(component: str, name: str, rows: int, columns: int, split: str = "", **more: Any) -> ModelTensor:
    return ModelTensor(component, name, rows, columns, split, is_linear=True, **more)


def _attention(mixer: Attention, hidden: int, name: str) -> Iterator[ModelTensor]:
    heads, size = mixer.heads, mixer.head_dim
    prefix = "cross_attn" if mixer.kind == "cross" else name
    gate, source = 2 if mixer.is_gated else 1, mixer.input_dim or hidden
    yield linear("attention", f"{prefix}.q_proj", heads * size * gate, source, "column", bias=mixer.bias, fused="qkv")
    # A layer that uses another's cache has projections all the same: in the checkpoint, and in vLLM's older releases.
    shared = {"heads": mixer.kv_heads, "bias": mixer.bias, "fused": "qkv"}
    yield linear("attention", f"{prefix}.k_proj", mixer.kv_heads * size, source, "kv", **shared)
    yield linear(
        "attention", f"{prefix}.v_proj", mixer.kv_heads * mixer.value_dim, source, "kv",
        in_checkpoint=not mixer.value_is_key, **shared,
    )  # fmt: skip
    yield linear("attention", f"{prefix}.o_proj", hidden, heads * mixer.value_dim, "row", bias=mixer.output_bias)
    if mixer.query_key_norm == "head":
        yield norm(f"{prefix}.q_norm", size)
        yield norm(f"{prefix}.k_norm", size)
    elif mixer.query_key_norm == "flat":
        yield norm(f"{prefix}.q_norm", heads * size, split="column")
        yield norm(f"{prefix}.k_norm", mixer.kv_heads * size, split="kv", heads=mixer.kv_heads)
    elif mixer.query_key_norm == "whole":
        yield norm(f"{prefix}.q_norm", heads * size)
        yield norm(f"{prefix}.k_norm", mixer.kv_heads * size)
    if mixer.gates_heads:
        yield linear("attention", f"{prefix}.g_proj", heads, hidden, "column")
    if mixer.has_sinks:
        yield ModelTensor("attention", f"{prefix}.sinks", heads, split="column")


def _latent(mixer: Latent, hidden: int) -> Iterator[ModelTensor]:
    prefix = "self_attn"
    query = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.query_rank is None:
        yield linear("attention", f"{prefix}.q_proj", query, hidden, "column")
    else:
        yield linear("attention", f"{prefix}.q_a_proj", mixer.query_rank, hidden, fused="latent_a")
        yield norm(f"{prefix}.q_a_layernorm", mixer.query_rank)
        yield linear("attention", f"{prefix}.q_b_proj", query, mixer.query_rank, "column")
    down = mixer.latent_dim + mixer.rope_dim
    yield linear("attention", f"{prefix}.kv_a_proj_with_mqa", down, hidden, fused="latent_a")
    yield norm(f"{prefix}.kv_a_layernorm", mixer.latent_dim)
    up = mixer.heads * (mixer.nope_dim + mixer.value_dim)
    yield linear("attention", f"{prefix}.kv_b_proj", up, mixer.latent_dim, "column")
    # Forms of the same projection that vLLM keeps beside it in the model's dtype: see `_ABSORBED`.
    yield ModelTensor("attention", "absorbed.factors", up, mixer.latent_dim, "column", in_checkpoint=False)
    inner = mixer.query_rank or hidden
    products = (
        ("query", mixer.latent_dim, inner),
        ("rope", mixer.rope_dim, inner),
        ("output", mixer.latent_dim, hidden),
    )
    for name, size, other in products:
        yield ModelTensor("attention", f"absorbed.{name}", mixer.heads * size, other, "column", in_checkpoint=False)
    yield linear("attention", f"{prefix}.o_proj", hidden, mixer.heads * mixer.value_dim, "row")
    if mixer.index_heads:
        size = mixer.index_heads * mixer.index_dim
        yield linear("attention", f"{prefix}.indexer.wq_b", size, mixer.query_rank or hidden)
        yield linear("attention", f"{prefix}.indexer.wk", mixer.index_dim, hidden)
        yield norm(f"{prefix}.indexer.k_norm", mixer.index_dim, bias=True)
        yield ModelTensor("attention", f"{prefix}.indexer.weights_proj", mixer.index_heads, hidden)


def _mamba2(mixer: Recurrent, hidden: int, name: str) -> Iterator[ModelTensor]:
    # What a group's heads share is repeated where ranks are more than groups (mamba_mixer2.py, `extra_groups`).
    shared = 2 * mixer.groups * mixer.state
    shared_fields: dict[str, Any] = {"bias": mixer.bias, "fused": "in_proj"}
    yield linear("recurrent", f"{name}.in_proj", 2 * mixer.inner + mixer.heads, hidden, "column", **shared_fields)
    yield linear("recurrent", f"{name}.in_proj", shared, hidden, "kv", heads=mixer.groups, **shared_fields)
    shared_fields = {"bias": mixer.conv_bias, "fused": "conv1d"}
    yield ModelTensor("recurrent", f"{name}.conv1d", mixer.inner, mixer.conv_kernel, "column", **shared_fields)
    yield ModelTensor(
        "recurrent", f"{name}.conv1d", shared, mixer.conv_kernel, "kv", heads=mixer.groups, **shared_fields
    )
    yield ModelTensor("recurrent", f"{name}.A_log", mixer.heads, split="column", width=4)
    for part in ("D", "dt_bias"):
        yield ModelTensor("recurrent", f"{name}.{part}", mixer.heads, split="column")
    if mixer.has_norm:
        yield ModelTensor("norms", f"{name}.norm", mixer.inner, split="column")
    yield linear("recurrent", f"{name}.out_proj", hidden, mixer.inner, "row", bias=mixer.bias)


def _mamba1(mixer: Recurrent, hidden: int, name: str) -> Iterator[ModelTensor]:
    # No quantisation is handed on to them (mamba_mixer.py).
    yield ModelTensor("recurrent", f"{name}.in_proj", 2 * mixer.inner, hidden, "column", bias=mixer.bias)
    yield ModelTensor("recurrent", f"{name}.conv1d", mixer.inner, mixer.conv_kernel, "column", bias=mixer.conv_bias)
    yield ModelTensor("recurrent", f"{name}.x_proj", mixer.rank + 2 * mixer.state, mixer.inner, "row")
    yield ModelTensor("recurrent", f"{name}.dt_proj", mixer.inner, mixer.rank, "column", bias=True)
    yield ModelTensor("recurrent", f"{name}.A_log", mixer.inner, mixer.state, "column", width=4)
    yield ModelTensor("recurrent", f"{name}.D", mixer.inner, split="column")
    if mixer.has_norm:
        yield norm(f"{name}.dt_layernorm", mixer.rank)
        yield norm(f"{name}.b_c_layernorm", mixer.state, count=2)
    yield ModelTensor("recurrent", f"{name}.out_proj", hidden, mixer.inner, "row", bias=mixer.bias)


def _short_conv(mixer: Recurrent, hidden: int, name: str) -> Iterator[ModelTensor]:
    yield linear("recurrent", f"{name}.in_proj", 3 * mixer.inner, hidden, "column", bias=mixer.bias)
    yield ModelTensor("recurrent", f"{name}.conv", mixer.inner, mixer.conv_kernel, "column", bias=mixer.conv_bias)
    yield linear("recurrent", f"{name}.out_proj", hidden, mixer.inner, "row", bias=mixer.bias)


def _kda(mixer: Recurrent, hidden: int) -> Iterator[ModelTensor]:
    prefix = "self_attn"
    size = mixer.heads * mixer.head_dim
    for name in ("q", "k", "v"):
        yield linear("recurrent", f"{prefix}.{name}_proj", size, hidden, "column", fused="qkv")
        yield ModelTensor("recurrent", f"{prefix}.{name}_conv1d", size, mixer.conv_kernel, "column")
    yield ModelTensor("recurrent", f"{prefix}.dt_bias", size, split="column", width=4)
    yield ModelTensor("recurrent", f"{prefix}.A_log", mixer.heads, split="column", width=4)
    yield linear("recurrent", f"{prefix}.f_a_proj", mixer.head_dim, hidden)
    yield linear("recurrent", f"{prefix}.f_b_proj", size, mixer.head_dim, "column")
    yield linear("recurrent", f"{prefix}.b_proj", mixer.heads, hidden, "column")
    yield linear("recurrent", f"{prefix}.g_a_proj", mixer.head_dim, hidden)
    yield linear("recurrent", f"{prefix}.g_b_proj", size, mixer.head_dim, "column")
    yield norm(f"{prefix}.o_norm", mixer.head_dim)
    yield linear("recurrent", f"{prefix}.o_proj", hidden, size, "row")


def _gdn(mixer: Recurrent, hidden: int) -> Iterator[ModelTensor]:
    prefix = "linear_attn"
    keys, values = mixer.key_heads * mixer.key_dim, mixer.value_heads * mixer.value_dim
    yield linear("recurrent", f"{prefix}.in_proj_qkv", 2 * keys + values, hidden, "column", fused="in_proj")
    yield linear("recurrent", f"{prefix}.in_proj_z", values, hidden, "column", fused="in_proj")
    yield linear("recurrent", f"{prefix}.in_proj_b", mixer.value_heads, hidden, "column", fused="in_proj_ba")
    yield linear("recurrent", f"{prefix}.in_proj_a", mixer.value_heads, hidden, "column", fused="in_proj_ba")
    yield ModelTensor("recurrent", f"{prefix}.conv1d", 2 * keys + values, mixer.conv_kernel, "column")
    # Of the model's dtype before: 0.16.0 models/qwen3_next.py:338, 0.32.0 layers/mamba/gdn/qwen_gdn_linear_attn.py:555.
    yield ModelTensor("recurrent", f"{prefix}.A_log", mixer.value_heads, split="column", width=4)
    yield ModelTensor("recurrent", f"{prefix}.dt_bias", mixer.value_heads, split="column")
    yield ModelTensor("norms", f"{prefix}.norm", mixer.value_dim)
    yield linear("recurrent", f"{prefix}.out_proj", hidden, values, "row")


def _recurrent(mixer: Recurrent, hidden: int, name: str) -> Iterator[ModelTensor]:
    match mixer.kind:
        case "mamba1":
            yield from _mamba1(mixer, hidden, name)
        case "mamba2":
            yield from _mamba2(mixer, hidden, name)
        case "short_conv":
            yield from _short_conv(mixer, hidden, name)
        case "kda":
            yield from _kda(mixer, hidden)
        case "gdn":
            yield from _gdn(mixer, hidden)


def _dense(network: Dense, hidden: int, component: str, prefix: str) -> Iterator[ModelTensor]:
    names = ("gate_proj", "up_proj") if network.is_gated else ("up_proj",)
    for name in names:
        yield linear(component, f"{prefix}.{name}", network.size, hidden, "column", bias=network.bias,
                      fused=f"{prefix}.gate_up")  # fmt: skip
    yield linear(component, f"{prefix}.down_proj", hidden, network.size, "row", bias=network.bias)


def _experts(network: Experts, hidden: int, mixture: Mixture) -> Iterator[ModelTensor]:
    inner = network.latent or hidden
    gate, up, down = mixture.expert_names
    first = (gate, up) if network.is_gated else (up,)
    for name in first:
        yield linear("experts", f"{mixture.experts_name}.0.{name}", network.size, inner, "experts/column",
                      count=network.count, bias=network.bias, fused="w13")  # fmt: skip
    yield linear("experts", f"{mixture.experts_name}.0.{down}", inner, network.size, "experts/row",
                  count=network.count, bias=network.bias, fused="w2")  # fmt: skip
    if network.latent:
        yield linear("experts", "mixer.fc1_latent_proj", network.latent, hidden)
        yield linear("experts", "mixer.fc2_latent_proj", hidden, network.latent)
    if network.shared_size:
        yield from _dense(Dense(network.shared_size, is_gated=network.is_gated), hidden, "shared", mixture.shared_name)
        if network.shared_gate:
            yield ModelTensor("router", f"{mixture.shared_name}_gate", 1, hidden)
    yield ModelTensor("router", mixture.router_name, network.count, hidden, bias=network.router_bias,
                 width=mixture.router_width)  # fmt: skip
    if network.correction:
        yield ModelTensor("router", f"{mixture.router_name}.{CORRECTION}", network.count, width=4)
    if network.scales:
        yield ModelTensor("router", f"{mixture.router_name}.scales", network.scales)


def _adapters(layer: Layer, hidden: int) -> Iterator[ModelTensor]:
    """What a layer of Zamba2 has of its own where attention and network are a shared block's."""
    of_attention, of_network = layer.adapters
    if of_attention and isinstance(layer.mixer, Attention):
        size = layer.mixer.input_dim
        yield linear("attention", "self_attn.adapters.0", of_attention, size, "column", count=3)
        yield linear("attention", "self_attn.adapters.1", size, of_attention, "column", count=3)
    if isinstance(layer.feed_forward, Dense):
        yield linear("mlp", "feed_forward.gate_up_proj_adapter_list.0", of_network, hidden, "column")
        yield linear("mlp", "feed_forward.gate_up_proj_adapter_list.1", 2 * layer.feed_forward.size, of_network,
                     "column")  # fmt: skip
    yield linear("mlp", "linear", hidden, hidden)


def layer_tensors(layer: Layer, hidden: int, family: Family, *, inputs: int = 0) -> Iterator[ModelTensor]:
    """The tensors of a layer; `inputs` is the size of its own input (gemma 3n and 4)."""
    if layer.adapters[1]:
        yield from _adapters(layer, hidden)
    if layer.repeats:
        pass
    elif isinstance(layer.mixer, Attention):
        yield from _attention(layer.mixer, hidden, family.mixer_name)
    elif isinstance(layer.mixer, Latent):
        yield from _latent(layer.mixer, hidden)
    for mixer in layer.mixers:
        if isinstance(mixer, Recurrent):
            yield from _recurrent(mixer, hidden, family.state_name)
    if isinstance(layer.feed_forward, Dense) and not layer.repeats:
        yield from _dense(layer.feed_forward, hidden, "mlp", family.network_name)
    elif isinstance(layer.feed_forward, Experts):
        yield from _experts(layer.feed_forward, hidden, family.mixture or Mixture())
    if layer.beside is not None:
        yield from _dense(layer.beside, hidden, "mlp", "mlp")
    if layer.norms:
        yield norm("norm", hidden, bias=family.norm_bias, count=layer.norms)
    if layer.streams:
        streams = layer.streams
        yield ModelTensor("mlp", "altup.correction_coefs", streams, streams)
        yield ModelTensor("mlp", "altup.prediction_coefs", streams**2, streams)
        yield ModelTensor("mlp", "altup.modality_router", streams, hidden)
        yield norm("altup.norms", hidden, count=2)
    if layer.detour:
        yield linear("mlp", "laurel.linear_left", layer.detour, hidden, "column")
        yield linear("mlp", "laurel.linear_right", hidden, layer.detour, "row")
        yield norm("laurel.post_laurel_norm", hidden)
    if layer.scalars:
        yield ModelTensor("norms", "scalar", 1, count=layer.scalars)
    if inputs:
        yield linear("mlp", "per_layer_input_gate", inputs, hidden)
        yield linear("mlp", "per_layer_projection", hidden, inputs)


def mtp_tensors(shape: Shape, family: Family) -> Iterator[ModelTensor]:
    """Layers for speculative decoding with what surrounds them, as the checkpoint has them."""
    hidden, kind = shape.hidden_size, family.mtp
    for layer in shape.mtp:
        for tensor in layer_tensors(layer, hidden, family):
            yield replace(tensor, component="mtp")
    passes = len(shape.mtp) // 2 if kind == "nemotron" else len(shape.mtp)
    if kind in ("deepseek", "glm"):
        yield ModelTensor("mtp", "eh_proj", hidden, 2 * hidden, count=passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
    if kind == "deepseek":
        yield ModelTensor("mtp", "copies", 2 * shape.vocabulary_size, hidden, count=passes, is_loaded=False)
    elif kind == "qwen":
        yield ModelTensor("mtp", "fc", hidden, 2 * hidden)
        yield ModelTensor("mtp", "norms", hidden, count=3)
    elif kind == "mimo":
        yield ModelTensor("mtp", "input_proj", hidden, 2 * hidden, count=passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
    elif kind == "nemotron":
        yield ModelTensor("mtp", "eh_proj", hidden, 2 * hidden, count=passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
