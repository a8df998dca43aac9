"""Families of models as data: what their classes do that no field of `config.json` says.

Keys are `model_type`s of the text part. `defaults` are those of the class in transformers 5.19.0
(`models/<model_type>/configuration_*.py`), filled in for fields that a whole `config.json` leaves out. The other fields
describe the modules of `models/<model_type>/modeling_*.py` and of the class of the same name in vLLM 0.33.0
(`vllm/model_executor/models/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Mixture:
    """Where a family keeps the sizes of its experts."""

    count: tuple[str, ...] = ("num_experts", "num_local_experts", "n_routed_experts")
    per_token: tuple[str, ...] = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts")
    size: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: str = ""
    """Field that counts shared experts of the experts' own size."""
    shared_of: str = ""
    """Field that gives the size of each of them, where it is another than the experts'."""
    shared_size: tuple[str, ...] = ()
    """Fields that give the size of the shared experts together."""
    shared_gate: bool = False
    correction: bool | str = False
    """A field: where it is true, or names a method that has a correction."""
    router_bias: bool = False
    router_width: int = 0
    """Bytes of a router's weight whatever the dtype; 0: the dtype's."""
    bias: bool = False
    dense_size: str = "intermediate_size"
    """Of the layers without experts."""
    experts_name: str = "mlp.experts"
    expert_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    router_name: str = "mlp.gate"
    shared_name: str = "mlp.shared_experts"


@dataclass(frozen=True)
class Family:
    """What all models of a `model_type` have in common."""

    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
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
    """Norms have a bias of their own."""
    norms: int = 2
    unread: tuple[str, ...] = ()
    """Fields that bring modules which are not counted, unless they are false or the hidden size."""
    scalars: int = 0
    """Of each layer, beside its weights."""
    positions: int | None = None
    """Rows that a learned embedding of positions has beyond the longest context; None: there is none."""
    is_gated: bool = True
    attention_gate: bool | str = False
    has_sinks: bool = False
    head_bias: bool | str = False
    mixture: Mixture | None = None
    window: str = ""
    """"all": `sliding_window` holds for every layer; "used": where `use_sliding_window` is true as well."""
    layer_types: str = ""
    """How kinds of layers are found: see the readers in `shape`."""
    partial_rotary: float = 1.0
    has_rope: bool = True
    is_multimodal_rope: bool = False
    """Rotated by place in a picture, whatever the configuration's copy shows of `mrope_section`."""
    encoder: str | None = None
    """Family of the tower beside the text part; "unknown": there is one whose sizes are not known."""
    mtp: str = ""
    """What surrounds the layers for speculative decoding: see `weights`."""
    mixer_name: str = "self_attn"
    network_name: str = "mlp"
    state_name: str = "mixer"


_LLAMA = Family(
    defaults={"num_key_value_heads": None, "head_dim": None, "attention_bias": False, "mlp_bias": False,
              "max_position_embeddings": 2048, "tie_word_embeddings": False, "vocab_size": 32000, "hidden_size": 4096,
              "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
    head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias",
)  # fmt: skip
_MISTRAL = Family(
    defaults={"num_key_value_heads": 8, "head_dim": None, "tie_word_embeddings": False, "sliding_window": 4096,
              "max_position_embeddings": 131072, "vocab_size": 32000},
    head_dim=True, window="all",
)  # fmt: skip
_MINISTRAL3 = Family(
    defaults={"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False, "sliding_window": None,
              "max_position_embeddings": 262144, "vocab_size": 131072},
    head_dim=True, window="all",
)  # fmt: skip
_QWEN2 = Family(
    defaults={"num_key_value_heads": 32, "tie_word_embeddings": False, "use_sliding_window": False,
              "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28},
    qkv_bias=True, window="used", layer_types="listed",
)  # fmt: skip
_QWEN2_VL = replace(
    _QWEN2,
    defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "use_sliding_window": False,
              "max_position_embeddings": 32768, "vocab_size": 152064},
)  # fmt: skip
_QWEN3 = Family(
    defaults={"num_key_value_heads": 32, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": False,
              "use_sliding_window": False, "max_position_embeddings": 32768, "max_window_layers": 28},
    head_dim=True, qkv_bias="attention_bias", query_key_norm="head", window="used", layer_types="listed",
)  # fmt: skip
_QWEN3_MOE = replace(
    _QWEN3,
    defaults={"num_key_value_heads": 4, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
              "use_sliding_window": False, "max_position_embeddings": 32768, "decoder_sparse_step": 1,
              "mlp_only_layers": None, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8},
    mixture=Mixture(count=("num_experts",)),
    layer_types="",
)  # fmt: skip
_QWEN3_NEXT = Family(
    defaults={"num_key_value_heads": 2, "head_dim": 256, "tie_word_embeddings": False,
              "max_position_embeddings": 32768, "decoder_sparse_step": 1, "mlp_only_layers": None,
              "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
              "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4,
              "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
              "num_experts_per_tok": 10, "partial_rotary_factor": 0.25, "num_nextn_predict_layers": 1},
    head_dim=True, qkv_bias="qkv_bias", query_key_norm="head", attention_gate=True, layer_types="linear",
    partial_rotary=0.25, mtp="qwen",
    mixture=Mixture(count=("num_experts",), shared_size=("shared_expert_intermediate_size",), shared_gate=True,
                    shared_name="mlp.shared_expert"),
)  # fmt: skip
_QWEN3_5 = replace(
    _QWEN3_NEXT,
    defaults={"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": False,
              "max_position_embeddings": 32768, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
              "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
              "full_attention_interval": 4, "partial_rotary_factor": 0.25},
    mixture=None, encoder="qwen3_vl", is_multimodal_rope=True,
)  # fmt: skip
_QWEN3_5_MOE = replace(
    _QWEN3_NEXT,
    defaults={**_QWEN3_5.defaults, "num_key_value_heads": 2, "moe_intermediate_size": 512, "num_experts": 256,
              "shared_expert_intermediate_size": 512, "num_experts_per_tok": 8},
    encoder="qwen3_vl", is_multimodal_rope=True,
)  # fmt: skip
_GEMMA = Family(
    defaults={"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True, "attention_bias": False,
              "max_position_embeddings": 8192, "vocab_size": 256000},
    head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias",
)  # fmt: skip
_GEMMA2 = replace(
    _GEMMA,
    defaults={"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True, "attention_bias": False,
              "max_position_embeddings": 8192, "vocab_size": 256000, "sliding_window": 4096,
              "sliding_window_pattern": 2},
    norms=4, layer_types="sliding",
)  # fmt: skip
_GEMMA3 = replace(
    _GEMMA2,
    defaults={"num_key_value_heads": 4, "num_attention_heads": 8, "head_dim": 256, "tie_word_embeddings": True,
              "attention_bias": False, "max_position_embeddings": 131072, "vocab_size": 262208,
              "sliding_window": 4096, "sliding_window_pattern": 6, "rope_local_base_freq": 10000.0},
    query_key_norm="head",
)  # fmt: skip
_GEMMA4 = replace(
    _GEMMA3,
    defaults={"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True, "attention_bias": False,
              "max_position_embeddings": 131072, "vocab_size": 262144, "sliding_window": 512,
              "sliding_window_pattern": 6, "attention_k_eq_v": False, "global_head_dim": 512, "num_kv_shared_layers": 0,
              "enable_moe_block": False, "use_double_wide_mlp": False, "hidden_size_per_layer_input": 256,
              "vocab_size_per_layer_input": 262144},
    layer_types="gemma4", encoder="gemma4",
    mixture=Mixture(count=("num_experts",), per_token=("top_k_experts",), experts_name="experts", router_name="router"),
)  # fmt: skip
_GEMMA3N = replace(
    _GEMMA3,
    defaults={"num_key_value_heads": 2, "num_attention_heads": 8, "head_dim": 256, "tie_word_embeddings": True,
              "attention_bias": False, "max_position_embeddings": 32768, "vocab_size": 262400, "sliding_window": 512,
              "sliding_window_pattern": 5, "num_kv_shared_layers": 15, "hidden_size_per_layer_input": 256,
              "vocab_size_per_layer_input": 262144, "altup_num_inputs": 4, "laurel_rank": 64},
    layer_types="gemma4",
)  # fmt: skip
_DEEPSEEK = Family(
    defaults={"tie_word_embeddings": False, "first_k_dense_replace": 3, "moe_layer_freq": 1,
              "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
              "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
              "moe_intermediate_size": 2048, "topk_method": "noaux_tc", "max_position_embeddings": 4096,
              "num_nextn_predict_layers": 0},
    layer_types="latent", mtp="deepseek",
    mixture=Mixture(count=("n_routed_experts",), shared_count="n_shared_experts", correction="topk_method"),
)  # fmt: skip
_DEEPSEEK2 = replace(
    _DEEPSEEK,
    defaults={**_DEEPSEEK.defaults, "first_k_dense_replace": 0, "n_routed_experts": 64, "n_shared_experts": 2,
              "moe_intermediate_size": 1407, "topk_method": "greedy", "max_position_embeddings": 2048,
              "num_experts_per_tok": None},
)  # fmt: skip
_GLM_DSA = replace(
    _DEEPSEEK,
    mtp="glm",
    defaults={**_DEEPSEEK.defaults, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "v_head_dim": 256,
              "max_position_embeddings": 202752, "index_head_dim": 128, "index_n_heads": 32},
)  # fmt: skip
_LLAMA4 = Family(
    defaults={"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": False,
              "max_position_embeddings": 131072, "attention_chunk_size": 8192, "interleave_moe_layer_step": 1,
              "no_rope_layer_interval": 4, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1,
              "num_local_experts": 16, "vocab_size": 202048},
    head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", layer_types="llama4", encoder="llama4",
    mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",), shared_size=("intermediate_size",),
                    dense_size="intermediate_size_mlp", experts_name="feed_forward.experts",
                    router_name="feed_forward.router", shared_name="feed_forward.shared_expert"),
)  # fmt: skip
_GPT_OSS = Family(
    defaults={"num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": False, "attention_bias": True,
              "max_position_embeddings": 131072, "sliding_window": 128, "sliding_window_pattern": 2,
              "num_local_experts": 128, "num_experts_per_tok": 4, "intermediate_size": 2880},
    head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", has_sinks=True, layer_types="sliding",
    mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",), router_bias=True, bias=True,
                    router_name="mlp.router"),
)  # fmt: skip
_NEMOTRON_H = Family(
    defaults={"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": False,
              "mlp_bias": False, "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8,
              "conv_kernel": 4, "use_conv_bias": True, "use_bias": False, "n_routed_experts": 8,
              "n_shared_experts": 1, "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
              "moe_latent_size": None, "num_experts_per_tok": 2, "max_position_embeddings": 4096,
              "num_nextn_predict_layers": 0},
    head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", is_gated=False,
    norms=1, layer_types="nemotron_h", has_rope=False, mtp="nemotron", mixer_name="mixer", network_name="mixer",
    mixture=Mixture(count=("n_routed_experts",), shared_size=("moe_shared_expert_intermediate_size",), correction=True,
                    experts_name="mixer.experts", router_name="mixer.gate", shared_name="mixer.shared_experts"),
)  # fmt: skip

_GLM4_MOE = Family(
    defaults={"num_key_value_heads": 8, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
              "use_qk_norm": False, "max_position_embeddings": 131072, "moe_intermediate_size": 1408,
              "num_experts_per_tok": 8, "n_shared_experts": 1, "n_routed_experts": 128,
              "first_k_dense_replace": 1, "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 1},
    head_dim=True, mtp="glm", qkv_bias="attention_bias", query_key_norm="head", norm_field="use_qk_norm",
    partial_rotary=0.5,
    mixture=Mixture(count=("n_routed_experts",), shared_count="n_shared_experts", correction=True, router_width=4),
)  # fmt: skip
_MAMBA2: Mapping[str, Any] = {
    "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False,
}  # fmt: skip
_GRANITE_HYBRID = Family(
    defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "attention_bias": False,
              "max_position_embeddings": 2048, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
              "shared_intermediate_size": 1024, "position_embedding_type": None, **_MAMBA2},
    qkv_bias="attention_bias", output_bias="attention_bias", layer_types="mamba2", state_name="mamba",
    network_name="shared_mlp",
    mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",),
                    shared_size=("shared_intermediate_size",), experts_name="block_sparse_moe.experts",
                    expert_names=("w1", "w3", "w2"), router_name="block_sparse_moe.gate", shared_name="shared_mlp"),
)  # fmt: skip
_LFM2 = Family(
    defaults={"num_key_value_heads": 8, "tie_word_embeddings": True, "max_position_embeddings": 128000,
              "vocab_size": 65536, "conv_bias": False, "conv_L_cache": 3, "block_multiple_of": 256,
              "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True},
    query_key_norm="head", layer_types="short_conv", network_name="feed_forward", state_name="conv",
)  # fmt: skip

_MAMBA1 = Family(
    defaults={"tie_word_embeddings": True, "state_size": 16, "expand": 2, "conv_kernel": 4, "time_step_rank": "auto",
              "use_bias": False, "use_conv_bias": True, "vocab_size": 50280},
    has_rope=False, layer_types="mamba",
)  # fmt: skip
_GRANITE_EXPERTS = Mixture(
    count=("num_local_experts",), size=("intermediate_size",), router_name="block_sparse_moe.gate",
    experts_name="block_sparse_moe.experts", expert_names=("w1", "w3", "w2"),
)  # fmt: skip
_GRANITE_MOE = Family(
    defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "attention_bias": False,
              "max_position_embeddings": 2048, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
    qkv_bias="attention_bias", output_bias="attention_bias", mixture=_GRANITE_EXPERTS,
)  # fmt: skip
_COHERE = Family(
    defaults={"num_key_value_heads": None, "tie_word_embeddings": True, "attention_bias": False, "use_qk_norm": False,
              "max_position_embeddings": 8192, "vocab_size": 256000},
    qkv_bias="attention_bias", output_bias="attention_bias", query_key_norm="flat", norm_field="use_qk_norm", norms=1,
)  # fmt: skip

_VISION_LLAMA = replace(_LLAMA, encoder="unknown")

_ERNIE = Family(
    defaults={"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": True, "use_bias": False,
              "max_position_embeddings": 131072},
    head_dim=True, qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias",
)  # fmt: skip
_OLMO2 = Family(
    defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "attention_bias": False,
              "max_position_embeddings": 2048},
    qkv_bias="attention_bias", output_bias="attention_bias", query_key_norm="flat",
)  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "ministral3": _MINISTRAL3,
    "mixtral": replace(
        _MISTRAL,
        defaults={**_MISTRAL.defaults, "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2},
        mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",), router_name="block_sparse_moe.gate",
                        experts_name="block_sparse_moe.experts", expert_names=("w1", "w3", "w2")),
    ),
    "qwen2": _QWEN2,
    "qwen2_vl": replace(_QWEN2_VL, encoder="qwen2_vl", is_multimodal_rope=True),
    "qwen2_5_vl": replace(_QWEN2_VL, encoder="qwen2_5_vl", is_multimodal_rope=True),
    "qwen2_moe": replace(
        _QWEN2,
        defaults={"num_key_value_heads": 16, "tie_word_embeddings": False, "use_sliding_window": False,
                  "max_position_embeddings": 32768, "decoder_sparse_step": 1, "mlp_only_layers": None,
                  "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
                  "num_experts_per_tok": 4},
        layer_types="",
        mixture=Mixture(count=("num_experts",), shared_size=("shared_expert_intermediate_size",), shared_gate=True,
                        shared_name="mlp.shared_expert"),
    ),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl": replace(
        _QWEN3,
        defaults={"num_key_value_heads": 32, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 128000},
        window="", layer_types="", encoder="qwen3_vl", is_multimodal_rope=True,
    ),
    "qwen3_vl_moe": replace(
        _QWEN3_MOE,
        defaults={"num_key_value_heads": 16, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 128000, "decoder_sparse_step": 1, "mlp_only_layers": None,
                  "moe_intermediate_size": 1408, "num_experts": 60, "num_experts_per_tok": 4},
        window="", encoder="qwen3_vl", is_multimodal_rope=True,
    ),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN3_5,
    "qwen3_5_moe": _QWEN3_5_MOE,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "gemma3": replace(_GEMMA3, encoder="gemma3"),
    "gemma3n_text": _GEMMA3N,
    "gemma3n": replace(_GEMMA3N, encoder="unknown"),
    "gemma4_text": replace(_GEMMA4, encoder=None),
    "gemma4": _GEMMA4,
    "phi": Family(
        defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "max_position_embeddings": 2048,
                  "partial_rotary_factor": 0.5},
        qkv_bias=True, output_bias=True, mlp_bias=True, norm_bias=True, norms=1, is_gated=False, head_bias=True,
        partial_rotary=0.5, unread=("qk_layernorm",),
    ),
    "phi3": Family(
        defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "max_position_embeddings": 4096,
                  "sliding_window": None, "original_max_position_embeddings": 4096},
        window="all",
    ),
    "starcoder2": Family(
        defaults={"num_key_value_heads": 2, "tie_word_embeddings": True, "max_position_embeddings": 4096,
                  "sliding_window": None, "use_bias": True},
        qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias", norm_bias=True, is_gated=False, window="all",
    ),
    "glm4v": Family(
        defaults={"num_key_value_heads": 2, "tie_word_embeddings": False, "vocab_size": 151552, "hidden_size": 4096,
                  "intermediate_size": 13696, "num_hidden_layers": 40, "num_attention_heads": 32,
                  "max_position_embeddings": 32768, "partial_rotary_factor": 0.5},
        qkv_bias=True, norms=4, encoder="glm4v", partial_rotary=0.5, is_multimodal_rope=True,
    ),
    "glm4_moe": _GLM4_MOE,
    "chatglm": Family(
        defaults={"add_qkv_bias": False, "tie_word_embeddings": False},
        qkv_bias="add_qkv_bias", partial_rotary=0.5,
    ),
    "mimo": replace(_QWEN2, defaults={**_QWEN2.defaults, "num_nextn_predict_layers": 0}, head_dim=True, mtp="mimo"),
    "olmo2": _OLMO2,
    "olmo3": replace(
        _OLMO2,
        defaults={**_OLMO2.defaults, "sliding_window": 4096, "sliding_window_pattern": 4}, layer_types="sliding",
    ),
    "seed_oss": Family(
        defaults={"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": True,
                  "attention_out_bias": False, "mlp_bias": False, "max_position_embeddings": 524288},
        head_dim=True, qkv_bias="attention_bias", output_bias="attention_out_bias", mlp_bias="mlp_bias",
    ),
    "smollm3": Family(
        defaults={"num_key_value_heads": 4, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
                  "max_position_embeddings": 32768, "use_sliding_window": False},
        qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", window="used",
        layer_types="listed",
    ),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(
        _ERNIE,
        defaults={"num_key_value_heads": 4, "tie_word_embeddings": True, "use_bias": False,
                  "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "moe_k": 6, "moe_num_experts": 64,
                  "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_interval": 1},
        head_dim=False,
        mixture=Mixture(count=("moe_num_experts",), per_token=("moe_k",), shared_count="moe_num_shared_experts",
                        correction=True, router_width=4),
    ),
    "phimoe": Family(
        defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 131072, "sliding_window": None, "num_local_experts": 16,
                  "num_experts_per_tok": 2, "lm_head_bias": False},
        qkv_bias="attention_bias", output_bias="attention_bias", norm_bias=True, head_bias="lm_head_bias",
        window="all",
        mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",), router_name="block_sparse_moe.gate",
                        experts_name="block_sparse_moe.experts", expert_names=("w1", "w3", "w2")),
    ),
    "granite": replace(_LLAMA, head_dim=False),
    "exaone4": Family(
        defaults={"num_key_value_heads": 32, "head_dim": None, "tie_word_embeddings": False,
                  "max_position_embeddings": 2048, "sliding_window": 4096, "sliding_window_pattern": 4},
        head_dim=True, query_key_norm="head", layer_types="sliding",
    ),
    "glm4": Family(
        defaults={"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": True,
                  "max_position_embeddings": 131072, "partial_rotary_factor": 0.5},
        head_dim=True, qkv_bias="attention_bias", norms=4, partial_rotary=0.5,
    ),
    "hunyuan_v1_dense": Family(
        defaults={"num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 2048},
        head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", query_key_norm="head",
    ),
    "kimi_linear": Family(
        defaults={"tie_word_embeddings": False, "first_k_dense_replace": 1, "moe_layer_freq": 1, "kv_lora_rank": 512,
                  "q_lora_rank": None, "qk_rope_head_dim": 64,
                  "qk_nope_head_dim": 128, "v_head_dim": 128, "num_shared_experts": 1, "n_shared_experts": 1,
                  "num_experts_per_token": 8, "num_experts": 256, "moe_intermediate_size": 1024},
        layer_types="kimi_linear", has_rope=False,
        mixture=Mixture(count=("num_experts", "n_routed_experts"), shared_count="num_shared_experts", correction=True,
                        experts_name="block_sparse_moe.experts", expert_names=("w1", "w3", "w2"),
                        router_name="block_sparse_moe.gate", shared_name="block_sparse_moe.shared_experts"),
    ),
    "mimo_v2_flash": Family(
        defaults={"tie_word_embeddings": False, "attention_bias": False, "partial_rotary_factor": 1.0},
        head_dim=True, qkv_bias="attention_bias", layer_types="mimo_v2",
        mixture=Mixture(count=("n_routed_experts",), correction="topk_method", router_width=4),
    ),
    "minimax_m2": Family(
        defaults={"tie_word_embeddings": False, "attention_bias": False, "use_qk_norm": True, "num_local_experts": 256,
                  "num_experts_per_tok": 8},
        head_dim=True, query_key_norm="flat", norm_field="use_qk_norm",
        mixture=Mixture(count=("num_local_experts",), size=("intermediate_size",), correction=True, router_width=4,
                        experts_name="block_sparse_moe.experts", expert_names=("w1", "w3", "w2"),
                        router_name="block_sparse_moe.gate"),
    ),
    "granitemoehybrid": _GRANITE_HYBRID,
    "bamba": Family(
        defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
                  "max_position_embeddings": 262144, "vocab_size": 128000, **_MAMBA2},
        qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", partial_rotary=0.5,
        layer_types="mamba2", network_name="feed_forward", state_name="mamba",
    ),
    "falcon_h1": Family(
        defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "max_position_embeddings": 8192,
                  "vocab_size": 128000, "mamba_d_ssm": 1024, "mamba_rms_norm": False, "mlp_bias": False,
                  "attention_bias": False, **_MAMBA2},
        head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias",
        layer_types="parallel", network_name="feed_forward", state_name="mamba",
    ),
    "jamba": Family(
        defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "max_position_embeddings": 262144,
                  "vocab_size": 65536, "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2,
                  "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16,
                  "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": "auto", "mamba_conv_bias": True,
                  "mamba_proj_bias": False},
        has_rope=False, layer_types="jamba", network_name="feed_forward", state_name="mamba",
        mixture=Mixture(count=("num_experts",), size=("intermediate_size",), experts_name="feed_forward.experts",
                        router_name="feed_forward.router"),
    ),
    "zamba2": Family(
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 4096, "vocab_size": 32000,
                  "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 8,
                  "use_conv_bias": True, "add_bias_linear": False, "num_mem_blocks": 1, "adapter_rank": 128,
                  "use_shared_attention_adapter": False, "use_mem_rope": False},
        layer_types="zamba2", network_name="feed_forward", state_name="mamba",
    ),
    "mamba": _MAMBA1,
    "falcon_mamba": _MAMBA1,
    "mamba2": Family(
        defaults={"tie_word_embeddings": False, "state_size": 128, "expand": 2, "conv_kernel": 4, "n_groups": 8,
                  "num_heads": 128, "use_bias": False, "use_conv_bias": True, "vocab_size": 32768},
        has_rope=False, layer_types="mamba",
    ),
    "step3p5": Family(
        defaults={"head_dim": 128, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 128000, "moe_intermediate_size": 1280, "share_expert_dim": 1280,
                  "vocab_size": 128815},
        head_dim=True, qkv_bias="attention_bias", query_key_norm="head", layer_types="step3p5",
        mixture=Mixture(count=("moe_num_experts",), per_token=("moe_top_k",), shared_size=("share_expert_dim",),
                        correction=True, router_width=4, experts_name="moe.experts", router_name="moe.gate",
                        shared_name="moe.share_expert"),
    ),
    "lfm2": _LFM2,
    "lfm2_moe": replace(
        _LFM2,
        defaults={**_LFM2.defaults, "block_auto_adjust_ff_dim": False, "num_experts": 32, "num_experts_per_tok": 4,
                  "moe_intermediate_size": 1792, "num_dense_layers": 2, "use_expert_bias": True},
        mixture=Mixture(count=("num_experts",), correction="use_expert_bias", experts_name="feed_forward.experts",
                        expert_names=("w1", "w3", "w2"), router_name="feed_forward.gate"),
    ),
    "glm": Family(
        defaults={"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": False, "attention_bias": True,
                  "max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "vocab_size": 151552},
        head_dim=True, qkv_bias="attention_bias", partial_rotary=0.5,
    ),
    "glm4_moe_lite": replace(
        _DEEPSEEK,
        defaults={**_DEEPSEEK.defaults, "first_k_dense_replace": 1, "q_lora_rank": 768, "qk_nope_head_dim": 192,
                  "v_head_dim": 256, "n_routed_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 1536,
                  "intermediate_size": 10240, "max_position_embeddings": 202752, "vocab_size": 154880},
        mixture=Mixture(count=("n_routed_experts",), shared_count="n_shared_experts", correction=True,
                        router_width=4),
    ),
    "glm4v_moe": replace(
        _GLM4_MOE,
        defaults={"num_key_value_heads": 8, "head_dim": None, "tie_word_embeddings": False, "attention_bias": True,
                  "max_position_embeddings": 65536, "moe_intermediate_size": 1408, "num_experts_per_tok": 8,
                  "n_shared_experts": 1, "n_routed_experts": 128, "first_k_dense_replace": 1,
                  "partial_rotary_factor": 0.5, "vocab_size": 151424},
        encoder="glm4v", is_multimodal_rope=True,
    ),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": replace(
        _GRANITE_MOE,
        defaults={**_GRANITE_MOE.defaults, "shared_intermediate_size": 0},
        mixture=replace(_GRANITE_EXPERTS, shared_size=("shared_intermediate_size",), shared_name="shared_mlp"),
    ),
    "granite_swa": replace(
        _LLAMA,
        defaults={"num_key_value_heads": 4, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
                  "max_position_embeddings": 8192, "vocab_size": 100352, "sliding_window": 128},
        head_dim=False, layer_types="sliding",
    ),
    "cohere": _COHERE,
    "cohere2": replace(
        _COHERE,
        defaults={**_COHERE.defaults, "sliding_window": 4096, "sliding_window_pattern": 4}, head_dim=True,
        layer_types="sliding",
    ),
    "stablelm": Family(
        defaults={"num_key_value_heads": 32, "tie_word_embeddings": False, "use_qkv_bias": False,
                  "max_position_embeddings": 4096, "partial_rotary_factor": 0.25, "vocab_size": 50304},
        qkv_bias="use_qkv_bias", norm_bias=True, partial_rotary=0.25, unread=("qk_layernorm",),
    ),
    "olmoe": Family(
        defaults={"num_key_value_heads": None, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304},
        query_key_norm="whole", mixture=Mixture(count=("num_experts",), size=("intermediate_size",)),
    ),
    "arcee": replace(
        _LLAMA,
        defaults={**_LLAMA.defaults, "max_position_embeddings": 4096, "hidden_size": 2560, "intermediate_size": 18432},
        is_gated=False,
    ),
    "apertus": replace(
        _LLAMA,
        defaults={**_LLAMA.defaults, "max_position_embeddings": 65536, "vocab_size": 131072,
                  "intermediate_size": 14336},
        is_gated=False, query_key_norm="head", scalars=2,
    ),
    "dots1": Family(
        defaults={"num_key_value_heads": 32, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 2048, "moe_intermediate_size": 1408, "first_k_dense_replace": 0,
                  "vocab_size": 152064},
        head_dim=True, qkv_bias="attention_bias", query_key_norm="head",
        mixture=Mixture(count=("n_routed_experts",), shared_count="n_shared_experts", correction="topk_method"),
    ),
    "nemotron": Family(
        defaults={"num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
                  "mlp_bias": False, "max_position_embeddings": 4096, "partial_rotary_factor": 0.5,
                  "vocab_size": 256000},
        head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias", norm_bias=True,
        is_gated=False, partial_rotary=0.5,
    ),
    "exaone_moe": Family(
        defaults={"num_key_value_heads": 32, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 2048, "sliding_window": 4096, "sliding_window_pattern": 4,
                  "first_k_dense_replace": 1, "moe_intermediate_size": 1024, "num_experts": 64,
                  "num_experts_per_tok": 8, "num_shared_experts": 1, "vocab_size": 102400},
        head_dim=True, qkv_bias="attention_bias", query_key_norm="head", layer_types="sliding",
        mixture=Mixture(count=("num_experts",), shared_count="num_shared_experts", correction=True),
    ),
    "hy_v3": Family(
        defaults={"num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": False, "mlp_bias": False,
                  "max_position_embeddings": 131072, "num_experts": 192, "num_experts_per_tok": 8,
                  "num_shared_experts": 1, "moe_intermediate_size": 1536, "first_k_dense_replace": 1,
                  "vocab_size": 120832},
        head_dim=True, query_key_norm="head", norm_field="qk_norm",
        mixture=Mixture(count=("num_experts",), size=("expert_hidden_dim", "moe_intermediate_size"),
                        shared_count="num_shared_experts", correction=True, router_width=4),
    ),
    "afmoe": Family(
        defaults={"num_key_value_heads": None, "head_dim": 128, "tie_word_embeddings": False, "num_dense_layers": 1,
                  "max_position_embeddings": 16384, "num_experts": 64, "num_experts_per_tok": 6,
                  "num_shared_experts": 2, "moe_intermediate_size": 1408, "sliding_window": 1024,
                  "sliding_window_pattern": 4, "vocab_size": 200192},
        head_dim=True, query_key_norm="head", attention_gate=True, norms=4, layer_types="sliding",
        mixture=Mixture(count=("num_experts",), shared_count="num_shared_experts", correction=True, router_width=4),
    ),
    "hunyuan_v1_moe": Family(
        defaults={"num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": False, "attention_bias": False,
                  "max_position_embeddings": 2048, "num_experts": 1, "moe_topk": 1, "vocab_size": 290943},
        head_dim=True, qkv_bias="attention_bias", output_bias="attention_bias", query_key_norm="head",
        norm_field="use_qk_norm",
        mixture=Mixture(count=("num_experts",), per_token=("moe_topk",),
                        size=("moe_intermediate_size", "intermediate_size"), shared_count="num_shared_expert",
                        shared_of="intermediate_size", shared_name="mlp.shared_mlp"),
    ),
    "mistral4": replace(
        _DEEPSEEK,
        defaults={"tie_word_embeddings": False, "first_k_dense_replace": 0, "kv_lora_rank": 256,
                  "q_lora_rank": 1024, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64,
                  "v_head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 4,
                  "moe_intermediate_size": 2048, "max_position_embeddings": 1048576, "vocab_size": 131072},
        mtp="", mixture=Mixture(count=("n_routed_experts",), shared_count="n_shared_experts"),
    ),
    "falcon": Family(
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 2048, "bias": False, "multi_query": True,
                  "parallel_attn": True, "ffn_hidden_size": None, "num_ln_in_parallel_attn": None,
                  "vocab_size": 65024},
        norm_bias=True, is_gated=False, layer_types="falcon",
    ),
    "opt": Family(
        defaults={"tie_word_embeddings": True, "max_position_embeddings": 2048, "enable_bias": True},
        qkv_bias="enable_bias", output_bias="enable_bias", mlp_bias="enable_bias", norm_bias=True, is_gated=False,
        has_rope=False, positions=2, unread=("word_embed_proj_dim",),
    ),
    "gpt_neox": Family(
        defaults={"tie_word_embeddings": False, "max_position_embeddings": 2048, "attention_bias": True,
                  "vocab_size": 50432},
        qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias=True, norm_bias=True, is_gated=False,
        partial_rotary=0.25,
    ),
    "gpt_oss": _GPT_OSS,
    "deepseek_v2": _DEEPSEEK2,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": replace(_DEEPSEEK, defaults={**_DEEPSEEK.defaults, "max_position_embeddings": 163840}),
    "kimi_k2": _DEEPSEEK,
    "glm_moe_dsa": _GLM_DSA,
    "llama4": _LLAMA4,
    "nemotron_h": _NEMOTRON_H,
    "nemotron-nas": replace(_LLAMA, layer_types="blocks"),
    "mllama": replace(
        _LLAMA,
        defaults={"num_key_value_heads": 8, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
                  "head_dim": None, "max_position_embeddings": 131072, "cross_attention_layers": None},
        layer_types="mllama", encoder="mllama",
    ),
    "llava": replace(_VISION_LLAMA, encoder="llava"),
    "mistral3": replace(_MISTRAL, encoder="pixtral"),
    "llava_next": replace(_VISION_LLAMA, encoder="llava_next"),
    "llava_onevision": replace(_QWEN2, encoder="llava_onevision"),
    "paligemma": replace(_GEMMA, encoder="paligemma"),
    "idefics3": replace(_VISION_LLAMA, encoder="idefics3"),
    "smolvlm": replace(_VISION_LLAMA, encoder="idefics3"),
    "lfm2_vl": replace(_LFM2, encoder="lfm2_vl"),
    "internvl": replace(
        _QWEN2, defaults={name: value for name, value in _QWEN2.defaults.items() if name != "tie_word_embeddings"},
        encoder="internvl",
    ),
    "kimi_vl": replace(_DEEPSEEK, encoder="moonvit"),
    "cohere2_vision": replace(
        _COHERE,
        defaults={**_COHERE.defaults, "sliding_window": 4096, "sliding_window_pattern": 4}, head_dim=True,
        layer_types="sliding", encoder="cohere2_vision",
    ),
    "qwen2_audio": replace(_QWEN2, encoder="qwen2_audio"),
    # Whether these share the embedding their file says alone: the classes' defaults differ by release of transformers.
    "qwen2_5_omni": replace(
        _QWEN2_VL,
        defaults={"num_key_value_heads": 4, "use_sliding_window": False, "max_position_embeddings": 32768,
                  "vocab_size": 152064},
        encoder="qwen2_5_omni", is_multimodal_rope=True,
    ),
    "gemma4_unified": replace(
        _GEMMA4,
        defaults={**_GEMMA4.defaults, "hidden_size_per_layer_input": 0, "max_position_embeddings": 262144,
                  "sliding_window": 1024},
        encoder="unknown",
    ),
    "internvl_chat": replace(_QWEN2, encoder="internvit"),
    "kimi_k25": replace(_DEEPSEEK, encoder="moonvit"),
}  # fmt: skip
"""By `model_type`; of a model with an encoder that of the whole model."""
