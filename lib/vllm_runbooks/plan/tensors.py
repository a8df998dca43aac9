"""The tensors of a layer: their sizes, and how ranks divide them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.plan.families import Family, Mixture
from vllm_runbooks.plan.shape import Attention, Compressed, Dense, Experts, Latent, Layer, Recurrent, Shape

CORRECTION = "e_score_correction_bias"
"""Name of the bias that only the choice of experts sees."""


@dataclass(frozen=True)
class ModelTensor:
    """Weights of one module, with how ranks divide them."""

    component: str
    """"embedding", "attention", "recurrent", "mlp", "experts", "shared", "router", "norms", "head", "vision" …"""
    name: str
    """Module name within a layer of the checkpoint."""
    rows: int
    """Size of the output; of a vector its length."""
    columns: int = 1
    """Size of the input."""
    split: str = ""
    """"column" (by output), "row" (by input), "kv" (by output, heads replicated if there are more
    ranks), "vocabulary", "experts" with "column" or "row" after a slash; "" for no split."""
    count: int = 1
    heads: int = 0
    """Number of heads, for the split "kv"."""
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


@dataclass(frozen=True)
class TensorRow(Authored):
    """A tensor in a table; a text is a formula: a sum of products of sizes and numbers, where `/` rounds down."""

    name: str
    rows: int | str
    columns: int | str = 1
    split: str = ""
    count: int | str = 1
    component: str = ""
    """Empty: that of the table."""
    heads: int | str = 0
    bias: bool | str = False
    is_linear: bool = False
    fused: str = ""
    width: int = 0
    in_checkpoint: bool = True
    is_loaded: bool | str = True


@dataclass(frozen=True)
class MixerTensors(Authored):
    """The tensors of a mixer."""

    tensors: tuple[TensorRow, ...]
    prefix: str = ""
    """Name of the module, if not the family's."""


def evaluate(formula: int | str, size: Callable[[str], int]) -> int:
    """Evaluate a formula of `TensorRow`; `size` looks up a size by its name."""
    if not isinstance(formula, str):
        return int(formula)

    def quotient(factor: str) -> int:
        dividend, divisor = (
            int(part) if part.lstrip("-").isdigit() else size(part) for part in (factor + "/1").split("/")[:2]
        )
        return dividend // divisor

    return sum(prod(map(quotient, summand.split("*"))) for summand in formula.split("+"))


def tensors_of(rows: Iterable[TensorRow], size: Callable[[str], int], component: str) -> Iterator[ModelTensor]:
    """The tensors of a table's rows that exist for these sizes."""
    for row in rows:
        if count := evaluate(row.count, size):
            yield ModelTensor(
                row.component or component,
                row.name,
                evaluate(row.rows, size),
                evaluate(row.columns, size),
                row.split,
                count,
                evaluate(row.heads, size),
                bias=bool(evaluate(row.bias, size)),
                is_linear=row.is_linear,
                fused=row.fused,
                width=row.width,
                in_checkpoint=row.in_checkpoint,
                is_loaded=bool(evaluate(row.is_loaded, size)),
            )


def norm(name: str, size: int, *, bias: bool = False, **more: Any) -> ModelTensor:
    return ModelTensor("norms", name, size, bias=bias, **more)


def linear(component: str, name: str, rows: int, columns: int, split: str = "", **more: Any) -> ModelTensor:
    return ModelTensor(component, name, rows, columns, split, is_linear=True, **more)


def _attention(mixer: Attention, hidden: int, name: str) -> Iterator[ModelTensor]:
    heads, size = mixer.heads, mixer.head_dim
    prefix = "cross_attn" if mixer.kind == "cross" else name
    gate, source = 2 if mixer.is_gated else 1, mixer.input_dim or hidden
    yield linear("attention", f"{prefix}.q_proj", heads * size * gate, source, "column", bias=mixer.bias, fused="qkv")
    # A layer that uses another's cache still has projections: in the checkpoint, and in older
    # releases of vLLM.
    shared = {"heads": mixer.kv_heads, "bias": mixer.bias, "fused": "qkv"}
    yield linear("attention", f"{prefix}.k_proj", mixer.kv_heads * size, source, "kv", **shared)
    yield linear(
        "attention", f"{prefix}.v_proj", mixer.kv_heads * mixer.value_dim, source, "kv",
        in_checkpoint=not mixer.value_is_key, **shared,
    )  # fmt: skip
    if mixer.index_heads:
        rows = mixer.index_heads * mixer.index_dim
        shared = {"heads": mixer.index_heads, "fused": "qkv"}
        yield linear("attention", f"{prefix}.index_q_proj", rows, source, "kv", **shared)
        yield linear("attention", f"{prefix}.index_k_proj", mixer.index_dim, source, fused="qkv")
        yield norm(f"{prefix}.index_norms", mixer.index_dim, count=2)
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


def _mixer_tensors(kind: str, mixer: Latent | Recurrent, hidden: int, name: str) -> Iterator[ModelTensor]:
    layout = load_table("mixer_tensors", MixerTensors).get(kind)
    if layout is None:
        return
    sizes = {key: int(value) for key, value in vars(mixer).items() if isinstance(value, int)} | {"hidden": hidden}
    if isinstance(mixer, Latent):
        has_rank = mixer.query_rank is not None
        sizes |= {"has_rank": has_rank, "has_query": not has_rank, "has_index": mixer.index_heads > 0}
        sizes["query"] = mixer.query_rank or hidden
    if isinstance(mixer, Compressed):
        sizes["has_ratio"] = mixer.ratio > 1
    component = "attention" if isinstance(mixer, Latent) else "recurrent"
    for tensor in tensors_of(layout.tensors, sizes.__getitem__, component):
        # vLLM's derived tensors have their own name next to the module's.
        of_module = f"{layout.prefix or name}.{tensor.name}"
        yield replace(tensor, name=tensor.name[1:] if tensor.name.startswith(".") else of_module)


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
        inward, outward = mixture.latent_names
        yield linear("shared", inward, network.latent, hidden)
        yield linear("shared", outward, hidden, network.latent)
    if network.latent_norm:
        yield norm("routed_expert_norm", network.latent)
    if network.shared_size:
        yield from _dense(Dense(network.shared_size, is_gated=network.is_gated), hidden, "shared", mixture.shared_name)
        if network.shared_gate:
            yield ModelTensor("router", f"{mixture.shared_name}_gate", 1, hidden)
    yield ModelTensor("router", mixture.router_name, network.count, hidden, bias=network.router_bias,
                 width=network.router_width or mixture.router_width)  # fmt: skip
    if network.correction:
        yield ModelTensor("router", f"{mixture.router_name}.{CORRECTION}", network.count, width=4)
    if network.hashed:
        yield ModelTensor("router", f"{mixture.router_name}.tid2eid", network.hashed, width=4)
    if network.scales:
        yield ModelTensor("router", f"{mixture.router_name}.scales", network.scales)


def _adapters(layer: Layer, hidden: int) -> Iterator[ModelTensor]:
    """Tensors of a Zamba2 layer other than those of the shared block."""
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
    """Tensors of a layer; `inputs` is the size of its own input (Gemma 3n and 4)."""
    if layer.adapters[1]:
        yield from _adapters(layer, hidden)
    if layer.repeats:
        pass
    elif isinstance(layer.mixer, Attention):
        yield from _attention(layer.mixer, hidden, family.mixer_name)
    elif isinstance(layer.mixer, Latent):
        kind = "compressed" if isinstance(layer.mixer, Compressed) else "latent"
        yield from _mixer_tensors(kind, layer.mixer, hidden, "")
    if isinstance(layer.also, Attention):
        yield from _attention(layer.also, hidden, family.mixer_name)
    for mixer in layer.mixers:
        if isinstance(mixer, Recurrent):
            yield from _mixer_tensors(mixer.kind, mixer, hidden, family.state_name)
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
    if layer.connections:
        streams = layer.connections
        mixes = (2 + streams) * streams
        yield ModelTensor("mlp", "hc_fn", mixes, streams * hidden, count=2, width=4)
        yield ModelTensor("mlp", "hc_base_and_scale", mixes + 3, count=2, width=4)
    if layer.detour:
        yield linear("mlp", "laurel.linear_left", layer.detour, hidden, "column")
        yield linear("mlp", "laurel.linear_right", hidden, layer.detour, "row")
        yield norm("laurel.post_laurel_norm", hidden)
    if layer.scalars:
        yield ModelTensor("norms", "scalar", 1, count=layer.scalars)
    if inputs:
        yield linear("mlp", "per_layer_input_gate", inputs, hidden)
        yield linear("mlp", "per_layer_projection", hidden, inputs)


def stream_head(streams: int, hidden: int, component: str) -> Iterator[ModelTensor]:
    """What mixes parallel hidden states into one after the last layer (DeepSeek V4)."""
    yield ModelTensor(component, "hc_head_fn", streams, streams * hidden, width=4)
    yield ModelTensor(component, "hc_head_base_and_scale", streams + 1, width=4)


def mtp_tensors(shape: Shape, family: Family) -> Iterator[ModelTensor]:
    """Layers for speculative decoding with the modules around them, as in the checkpoint."""
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
    elif kind == "deepseek_v4" and shape.mtp:
        yield linear("mtp", "e_and_h_proj", hidden, hidden, count=2 * passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
        yield from stream_head(shape.mtp[0].connections, hidden, "mtp")
    elif kind == "mimo":
        yield ModelTensor("mtp", "input_proj", hidden, 2 * hidden, count=passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
    elif kind == "nemotron":
        yield ModelTensor("mtp", "eh_proj", hidden, 2 * hidden, count=passes)
        yield ModelTensor("mtp", "norms", hidden, count=3 * passes)
