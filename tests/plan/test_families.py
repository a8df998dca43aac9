"""Defaults of a family for missing fields equal those of its class in transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rows import in_one_test
from vllm_runbooks.plan.families import families

RECORDED: Mapping[str, Mapping[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "class_defaults.json").read_text(encoding="utf-8")
)["families"]
"""By family, of transformers 5.19.0: see defaults_of_transformers.py."""
ALIKE = {
    "kimi_k2": "deepseek_v3", "kimi_vl": "deepseek_v3", "nemotron-nas": "llama", "internvl_chat": "qwen2",
    "mimo": "qwen2", "mimo_v2": "mimo_v2_flash", "step3p7": "step3p5", "iquestcoder": "llama",
    "dots_ocr": "qwen2", "deepseek_vl_v2": "deepseek_v2",
}  # fmt: skip
"""Families whose class is the model's own file, and the one whose class that file builds on."""
_NO_DRAFTS = {"num_nextn_predict_layers": 0}
_DEEPSEEK = {"moe_layer_freq": 1, "topk_method": "noaux_tc"} | _NO_DRAFTS
_PLAIN_HEAD = {"head_dim": None}


def _each(names: str, said: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return dict.fromkeys(names.split(), said)


BESIDE: Mapping[str, Mapping[str, Any]] = {
    # Multimodal parts: the whole model's class says whether the embedding is shared, not the text
    # part's.
    **_each("qwen2_vl qwen2_5_vl qwen3_vl", {"tie_word_embeddings": False}),
    "qwen3_vl_moe": {"tie_word_embeddings": False},
    "glm4v": {"tie_word_embeddings": False, "partial_rotary_factor": 0.5},
    # `getattr(config, "head_dim", None)` in the classes of vLLM: the hidden size over the heads.
    **_each("qwen3_moe qwen3_omni_moe glm4_moe glm4v_moe granite exaone4", _PLAIN_HEAD),
    "exaone_moe": _PLAIN_HEAD | {"attention_bias": False},
    "apertus": _PLAIN_HEAD | {"mlp_bias": False},
    "mllama": _PLAIN_HEAD | {"attention_bias": False, "mlp_bias": False},
    # Layers for speculative decoding that vLLM's classes read if a file names them.
    "qwen3_next": {"num_nextn_predict_layers": 1},
    **_each("deepseek_v3 deepseek_v32 glm_moe_dsa kimi_k25", _DEEPSEEK),
    "deepseek_v2": {"moe_layer_freq": 1} | _NO_DRAFTS,
    # transformers' class (models/deepseek_v4/configuration_deepseek_v4.py).
    "deepseek_v4": {"tie_word_embeddings": False},
    "glm4_moe_lite": {"first_k_dense_replace": 1} | _DEEPSEEK,
    "kimi_linear": {"first_k_dense_replace": 1, "moe_layer_freq": 1},
    "hy_v3": {"first_k_dense_replace": 1},
    # Gemma 3's second base, and the width of Gemma 4's whole heads (models/gemma4/configuration_gemma4.py).
    **_each("gemma3 gemma3_text", {"rope_local_base_freq": 10000.0}),
    **_each("gemma4 gemma4_text", {"global_head_dim": 512}),
    "gemma4_unified": {
        "global_head_dim": 512, "enable_moe_block": False, "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 262144,
    },
    "lfm2_moe": {"block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False},
    **_each("cohere2 cohere2_vision", {"use_qk_norm": False}),
    "mimo_v2_flash": {"partial_rotary_factor": 1.0},
    "minimax_m2": {"attention_bias": False, "use_qk_norm": True},
    # vLLM's own class (0.33.0 transformers_utils/configs/minimax_m3.py); its list of layers has three dense ones.
    **_each(
        "minimax_m3_text minimax_m3_vl",
        {
            "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 3072, "dense_intermediate_size": 12288,
            "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
            "max_position_embeddings": 524288, "tie_word_embeddings": False, "num_local_experts": 128,
            "num_experts_per_tok": 4, "n_shared_experts": 1, "use_routing_bias": True, "first_k_dense_replace": 3,
        },
    ),
    # vLLM's own class (0.32.0 transformers_utils/configs/qwen3_asr.py), whose text part is not transformers'.
    "qwen3_asr": {"max_position_embeddings": 128000},
    # vLLM's copy of the class of the models' own files (0.6.6 transformers_utils/configs/exaone.py), and `getattr` of
    # its model (0.33.0 models/exaone.py).
    "exaone": {
        "num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": True, "max_position_embeddings": 2048,
        "vocab_size": 102400, "attention_bias": False, "mlp_bias": False,
    },
    # The classes of the models' own files (https://github.com/inclusionAI/Ling, configuration_bailing_moe.py).
    "bailing_moe": {
        "head_dim": None, "tie_word_embeddings": False, "use_qkv_bias": False, "use_qk_norm": False,
        "first_k_dense_replace": 0, "num_shared_experts": 0, "moe_router_enable_expert_bias": False,
        "num_nextn_predict_layers": 0,
    },
    # A field of older files, which transformers makes a list of.
    "modernbert": {"global_attn_every_n_layers": 3},
    # `getattr` of vLLM's class (0.33.0 models/bailing_moe_linear.py).
    "bailing_hybrid": {
        "head_dim": None, "tie_word_embeddings": False, "use_qkv_bias": False, "use_qk_norm": False,
        "group_norm_size": 1, "layer_group_size": 1, "first_k_dense_replace": 0, "num_shared_experts": 0,
        "moe_router_enable_expert_bias": False, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "q_lora_rank": None, "kv_lora_rank": 512, "max_position_embeddings": 8192, "num_nextn_predict_layers": 0,
    },
    # `getattr` of vLLM's class (0.33.0 models/glm4.py:162).
    "glm_ocr": _PLAIN_HEAD | {"tie_word_embeddings": False, "attention_bias": False},
    # The class of the model's own files.
    "chatglm": {"add_qkv_bias": False, "tie_word_embeddings": False},
    "mimo": _NO_DRAFTS,
}  # fmt: skip
"""Fields missing in a class, or that vLLM reads elsewhere (0.33.0 model_executor/models/)."""


@in_one_test("name", families())
def test_missing_fields_have_the_defaults_of_the_class(name: str) -> None:
    """Each default is the class's, or without one vLLM's own."""
    of_class = RECORDED.get(ALIKE.get(name, name), {})
    beside = BESIDE.get(ALIKE.get(name, name), {})
    assert dict(families()[name].defaults) == {**of_class, **beside, **BESIDE.get(name, {})}
