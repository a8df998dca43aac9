"""Model families: properties of their classes that are not in `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED


@dataclass(frozen=True)
class Mixture:
    """Fields in which a family stores the sizes of its experts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    count: tuple[str, ...] = ("num_experts", "num_local_experts", "n_routed_experts")
    per_token: tuple[str, ...] = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts")
    size: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: str = ""
    """Field with the number of shared experts of the same size as the experts."""
    shared_of: str = ""
    """Field with the size of each shared expert, if different from the experts'."""
    shared_size: tuple[str, ...] = ()
    """Fields that give the size of the shared experts together."""
    shared_gate: bool = False
    correction: bool | str = False
    """Boolean field, or field that names a method with a correction."""
    router_bias: bool = False
    router_width: int = 0
    """Bytes of a router's weight whatever the dtype; 0: the dtype's."""
    bias: bool = False
    dense_size: str = "intermediate_size"
    """Field for the layers without experts."""
    experts_name: str = "mlp.experts"
    expert_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    latent_names: tuple[str, str] = ("mixer.fc1_latent_proj", "mixer.fc2_latent_proj")
    router_name: str = "mlp.gate"
    shared_name: str = "mlp.shared_experts"


@dataclass(frozen=True)
class Family:
    """Common properties of all models of a `model_type`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Usual names of fields that the configuration has under another name."""
    is_foreign: bool = False
    """Neither vLLM nor transformers has a class for this `model_type`: vLLM rejects it."""
    head_dim: bool = False
    """The class has a field `head_dim`; without one a head's size is always the hidden size over the heads."""
    qkv_bias: bool | str = False
    """True, False or the field that decides; so are the next."""
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    query_key_norm: str = ""
    norm_field: str = ""
    """Field that must be true for `query_key_norm`."""
    norm_bias: bool = False
    """Norms have a bias."""
    norms: int = 2
    unread: tuple[str, ...] = ()
    """Fields that bring modules which are not counted, unless they are false or the hidden size."""
    scalars: int = 0
    """Number of scalars per layer, in addition to its weights."""
    positions: int | None = None
    """Rows of a learned position embedding beyond the longest context; None if there is none."""
    splits_vocabulary: bool = True
    """Whether ranks divide the rows of the embedding."""
    is_gated: bool = True
    network_ratio: int = 0
    """Hidden sizes in a network's width where the configuration does not set it; 0: it must."""
    attention_gate: bool | str = False
    has_sinks: bool = False
    head_bias: bool | str = False
    mixture: Mixture | None = None
    window: str = ""
    """"all": `sliding_window` applies to every layer; "used": only if `use_sliding_window` is
    true."""
    layer_types: str = ""
    """Method that finds the kinds of layers: see the readers in `shape`."""
    partial_rotary: float = 1.0
    has_rope: bool = True
    is_multimodal_rope: bool = False
    """Rotated by image position, whatever the configuration's copy has for `mrope_section`."""
    encoder: str | None = None
    """Family of the tower next to the text model; "unknown" for a tower of unknown size."""
    encoders: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By architecture another tower than `encoder`."""
    mtp: str = ""
    """Modules around the layers for speculative decoding: see `weights`; "absent": the published files have none."""
    is_encoder: bool = False
    """Encoder-only (BERT): no KV cache, and learned embeddings of positions and token types."""
    mixer_name: str = "self_attn"
    network_name: str = "mlp"
    state_name: str = "mixer"


def families() -> Mapping[str, Family]:
    """All families by `model_type`."""
    return load_table("families", Family)
