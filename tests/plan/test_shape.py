"""A model's configuration yields what memory depends on, and names missing fields."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import in_one_test
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.families import families
from vllm_runbooks.plan.shape import Attention, Dense, Experts, Latent, Layer, Recurrent, Rope, Shape, shape

SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 1024,
}  # fmt: skip


@cache
def files() -> dict[str, specs.ModelFile]:
    return {file.id: file for file in specs.load(spec_files.compile_specs).files}


@pytest.fixture(scope="module")
def shelf() -> dict[str, specs.ModelFile]:
    return files()


def read(shelf: dict[str, specs.ModelFile], name: str) -> Shape:
    return shape(shelf[name].config)


def outline(found: Shape) -> dict[str, int]:
    """How many layers have which mixer and which network."""
    lines: dict[str, int] = {}
    for layer, count in zip(found.kinds, map(found.pattern.count, range(len(found.kinds))), strict=True):
        mixer = layer.mixer
        kind = "latent" if isinstance(mixer, Latent) else "none" if mixer is None else mixer.kind
        network = type(layer.feed_forward).__name__.lower() if layer.feed_forward else "none"
        lines[f"{kind} {network}"] = lines.get(f"{kind} {network}", 0) + count
    return lines


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", {"full dense": 32}),
        ("Qwen/Qwen3-30B-A3B", {"full experts": 48}),
        ("openai/gpt-oss-20b", {"sliding experts": 12, "full experts": 12}),
        ("google/gemma-4-26B-A4B", {"sliding experts": 25, "full experts": 5}),
        ("google/gemma-4-31B-it", {"sliding dense": 50, "full dense": 10}),
        ("deepseek-ai/DeepSeek-V3", {"latent dense": 3, "latent experts": 58}),
        ("Qwen/Qwen3.5-35B-A3B", {"gdn experts": 30, "full experts": 10}),
        ("Qwen/Qwen3.5-27B", {"gdn dense": 48, "full dense": 16}),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"chunked experts": 36, "full experts": 12}),
        ("MiniMaxAI/MiniMax-M2.5", {"full experts": 62}),
        ("moonshotai/Kimi-K2-Instruct", {"latent dense": 1, "latent experts": 60}),
    ],
)
def test_layers(shelf: dict[str, specs.ModelFile], name: str, expected: dict[str, int]) -> None:
    """The layers of a model are of the kinds that its class builds."""
    assert outline(read(shelf, name)) == expected


def test_llama_4_mixes_networks(shelf: dict[str, specs.ModelFile]) -> None:
    """Every second layer of Llama 4 Maverick is a mixture, the others are dense with a size of their own."""
    found = read(shelf, "meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    assert outline(found) == {"chunked dense": 24, "chunked experts": 12, "full experts": 12}
    assert {layer.feed_forward.size for layer in found.kinds if isinstance(layer.feed_forward, Dense)} == {16384}
    assert {layer.feed_forward.count for layer in found.kinds if isinstance(layer.feed_forward, Experts)} == {128}


def test_gpt_oss(shelf: dict[str, specs.ModelFile]) -> None:
    """gpt-oss alternates a window and full attention, with sinks, biases and MXFP4 experts."""
    found = read(shelf, "openai/gpt-oss-20b")
    sliding, full = (layer.mixer for layer in found.kinds)
    assert isinstance(sliding, Attention)
    assert isinstance(full, Attention)
    assert (sliding.kind, sliding.window, full.kind, full.window) == ("sliding", 128, "full", None)
    assert (full.heads, full.kv_heads, full.head_dim, full.bias, full.has_sinks) == (64, 8, 64, True, True)
    assert full.rope == Rope("yarn", 64, 4096, 32.0, 150000.0, 131072)
    assert found.quantization is not None
    assert (found.quantization.method, found.quantization.has_mxfp4_experts) == ("mxfp4", True)


def test_gemma_4(shelf: dict[str, specs.ModelFile]) -> None:
    """Gemma 4's full layers have wider heads, fewer of them for keys, and take the keys as values."""
    found = read(shelf, "google/gemma-4-26B-A4B")
    local, whole = (layer.mixer for layer in found.kinds)
    assert isinstance(local, Attention)
    assert isinstance(whole, Attention)
    assert (local.head_dim, local.kv_heads, local.window, local.value_is_key) == (256, 8, 1024, False)
    assert (whole.head_dim, whole.kv_heads, whole.window, whole.value_is_key) == (512, 2, None, True)
    assert local.rope is not None
    assert whole.rope is not None
    assert (local.rope.dim, whole.rope.dim, whole.rope.kind) == (256, 512, "proportional")
    assert found.kinds[0].beside == Dense(2112)


GEMMA_4_SMALL = {
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
        "num_kv_shared_layers": 4, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 512,
        "use_double_wide_mlp": True, "sliding_window": 32, "max_position_embeddings": 1024,
    },
    "vision_config": {"hidden_size": 32},
}  # fmt: skip


def test_caches_are_shared() -> None:
    """The last layers of a small gemma 4 use the cache of the last layer of their kind that has one."""
    found = shape(GEMMA_4_SMALL)
    mixers = [found.layer(index).mixer for index in range(found.layers)]
    assert [mixer.shares_cache_of for mixer in mixers if isinstance(mixer, Attention)] == [*[None] * 8, 7, 7, 7, 5]
    networks = [found.layer(index).feed_forward for index in range(found.layers)]
    assert [network.size for network in networks if isinstance(network, Dense)] == [128] * 8 + [256] * 4
    assert found.per_layer_input is not None
    assert (found.per_layer_input.size, found.per_layer_input.vocabulary) == (8, 512)


def test_gemma_3_has_two_tables() -> None:
    """Every sixth layer is full with the scaled table; the others are local with another base."""
    found = shape({
        **SMALL, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 13,
        "head_dim": 16, "num_key_value_heads": 2, "sliding_window": 32, "rope_theta": 1e6,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    })  # fmt: skip
    assert outline(found) == {"sliding dense": 11, "full dense": 2}
    ropes = [layer.mixer.rope for layer in found.kinds if isinstance(layer.mixer, Attention)]
    assert ropes == [Rope("default", 16, 1024, 1.0, 10000.0, 1024), Rope("linear", 16, 1024, 8.0, 1e6, 1024)]


def test_deepseek(shelf: dict[str, specs.ModelFile]) -> None:
    """DeepSeek's attention caches one latent, its newer models have an indexer, its mixture a correction."""
    older, newer = (read(shelf, f"deepseek-ai/DeepSeek-{name}").kinds[1] for name in ("V3", "V3.2"))
    assert isinstance(older.mixer, Latent)
    assert isinstance(newer.mixer, Latent)
    assert (older.mixer.cached_dim, older.mixer.query_rank, older.mixer.index_heads) == (576, 1536, 0)
    assert (newer.mixer.cached_dim, newer.mixer.index_heads, newer.mixer.index_dim) == (576, 64, 128)
    assert older.feed_forward == Experts(256, 8, 2048, shared_size=2048, correction=True)


def test_linear_attention(shelf: dict[str, specs.ModelFile]) -> None:
    """Qwen 3.5's linear layers keep states, its full layers have gated queries and rotate a quarter of a head."""
    found = read(shelf, "Qwen/Qwen3.5-35B-A3B")
    linear, full = (layer.mixer for layer in found.kinds)
    sizes = Recurrent("gdn", conv_kernel=4, key_heads=16, key_dim=128, value_heads=32, value_dim=128)
    assert linear == replace(sizes, state_dtype="float32")
    assert isinstance(full, Attention)
    assert (full.is_gated, full.query_key_norm, full.rope and full.rope.dim) == (True, "head", 64)
    assert len(found.mtp) == 1


def first(config: dict[str, Any], **told: Any) -> Attention:
    mixer = shape({**config, **told}).kinds[0].mixer
    assert isinstance(mixer, Attention)
    return mixer


def test_defaults_are_those_of_the_class() -> None:
    """A field missing in a complete file has its class's default, not another family's."""
    assert (first(SMALL).kv_heads, first(SMALL).head_dim, first(SMALL).bias) == (4, 16, False)
    qwen = {**SMALL, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_key_value_heads": 2}
    assert (first(qwen).head_dim, first(qwen).query_key_norm) == (128, "head")
    assert shape(qwen).ties_embeddings is False
    gemma = {**qwen, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}
    assert (first(gemma).head_dim, first(gemma).window, shape(gemma).ties_embeddings) == (256, 4096, True)


def test_null_is_not_left_out() -> None:
    """A field that is null is not filled in."""
    mistral = {**SMALL, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "num_key_value_heads": 2}
    assert (first(mistral).kind, first(mistral).window) == ("sliding", 4096)
    assert (first(mistral, sliding_window=None).kind, first(mistral, sliding_window=None).window) == ("full", None)


def test_an_unused_window_has_no_effect() -> None:
    """A window that `use_sliding_window` switches off has no effect."""
    qwen = {**SMALL, "model_type": "qwen2", "sliding_window": 256, "num_key_value_heads": 2}
    assert first(qwen, use_sliding_window=False).kind == "full"
    used = shape({**qwen, "use_sliding_window": True, "max_window_layers": 2})
    assert outline(used) == {"full dense": 2, "sliding dense": 2}


def test_partial_configurations_name_missing_fields() -> None:
    """In a partial file a missing field is unknown, even if the class has a default."""
    assert shape(SMALL).missing == ()
    partial = shape(SMALL, is_partial=True)
    assert {"num_key_value_heads", "head_dim", "tie_word_embeddings"} <= set(partial.missing)
    lacking = {name: value for name, value in SMALL.items() if name != "max_position_embeddings"}
    assert shape(lacking, is_partial=True).max_positions is None
    assert first(lacking).rope is not None


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({}, "architecture not named"),
        ({"architectures": ["FooForCausalLM"], "model_type": "foo"}, "architecture FooForCausalLM"),
        (
            {"architectures": ["Foo"], "model_type": "deepseek_ref"},
            "architecture Foo with model_type deepseek_ref, for which neither vLLM nor transformers has a class",
        ),
        ({**SMALL, "hidden_size": "64"}, "hidden_size"),
        ({**SMALL, "num_attention_heads": None}, "num_attention_heads"),
        ({**SMALL, "num_key_value_heads": "2"}, "num_key_value_heads"),
        ({**SMALL, "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({**SMALL, "quantization_config": {"quant_method": "magic"}}, "the quantization method magic"),
        ({**SMALL, "model_type": "qwen3_next", "layer_types": ["odd"] * 4}, "layer_types"),
    ],
)
def test_a_missing_field_is_named(config: dict[str, Any], missing: str) -> None:
    """The field that keeps a model from being read."""
    assert missing in shape(config).missing


def test_towers(shelf: dict[str, specs.ModelFile]) -> None:
    """A tower's family or absence is read; one that only the class describes is unknown."""
    found = {
        name: shape(shelf[name].config).encoders
        for name in (
            "Qwen/Qwen2.5-VL-7B-Instruct",
            "meta-llama/Meta-Llama-3.1-8B",
            "google/gemma-4-26B-A4B",
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        )
    }
    families = {name: None if each is None else [tower.family for tower in each] for name, each in found.items()}
    assert families == {
        "Qwen/Qwen2.5-VL-7B-Instruct": ["qwen2_5_vl"],
        "meta-llama/Meta-Llama-3.1-8B": [],
        "google/gemma-4-26B-A4B": ["gemma4"],
        "meta-llama/Llama-4-Scout-17B-16E-Instruct": ["llama4"],
    }
    scout = dict(shelf["meta-llama/Llama-4-Scout-17B-16E-Instruct"].config)
    del scout["vision_config"]
    assert shape(scout).encoders is None


def test_quantisations(shelf: dict[str, specs.ModelFile]) -> None:
    """A checkpoint's method, format and excluded modules are read."""
    block = read(shelf, "deepseek-ai/DeepSeek-V3").quantization
    assert block is not None
    assert [form.block for _, form in block.formats] == [(128, 128)]
    scheme = {
        "quant_method": "compressed-tensors",
        "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "ignore": ["lm_head"],
    }
    found = shape({**SMALL, "quantization_config": scheme}).quantization
    assert found is not None
    assert [(names, form.bits, form.group, form.strategy) for names, form in found.formats] == [
        (("Linear",), 4, 32, "group")
    ]
    assert (found.ignored, found.kv_cache) == (("lm_head",), "fp8")


def test_families_are_sound() -> None:
    """Every family's defaults are plain values, and its readers exist."""
    small = {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "layer_types": ["full_attention"] * 4}
    for name in families():
        found = shape({**small, "model_type": name, "architectures": ["X"]})
        assert found.kinds or found.missing, name
        assert all(isinstance(layer, Layer) for layer in found.kinds)


NAS: dict[str, Any] = {
    **SMALL, "architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "num_attention_heads": 8,
    "hidden_size": 1024, "num_hidden_layers": 4,
}  # fmt: skip
_ATTENTION, _NETWORK = {"n_heads_in_group": 4}, {"ffn_mult": 2.625}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        # Two thirds of 2.625 x 1024 are 1792; of 1.0 they are 682, rounded up to 768.
        ([(_ATTENTION, _NETWORK), (_ATTENTION, {"ffn_mult": 1.0})], [(2, 1792, 2), (2, 768, 2)]),
        ([({"no_op": True}, _NETWORK), ({"n_heads_in_group": 8}, {"no_op": True})], [(None, 1792, 1), (1, None, 1)]),
        ([({"replace_with_linear": True}, _NETWORK)] * 2, None),
        ([(_ATTENTION, {"replace_with_linear": True})] * 2, None),
        ([(_ATTENTION, _NETWORK)], None),
    ],
)
def test_each_layer_of_nemotron_nas_has_its_own_sizes(blocks: list[Any], expected: list[Any] | None) -> None:
    """KV heads, size of the network (a multiple of 256) and norms; a replaced layer is unknown."""
    told = [{"attention": first, "ffn": second} for first, second in blocks]
    found = shape({**NAS, "num_hidden_layers": 2, "block_configs": told})
    if expected is None:
        assert (found.kinds, found.missing) == ((), ("block_configs",))
        return
    seen = [
        (
            layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else None,
            layer.feed_forward.size if isinstance(layer.feed_forward, Dense) else None,
            layer.norms,
        )
        for layer in map(found.layer, range(found.layers))
    ]
    assert seen == expected


MIXED: list[tuple[str, dict[str, Any], str]] = [
    ("qwen3_moe", {}, "eeeeee"),
    ("qwen3_moe", {"mlp_only_layers": [0, 5]}, "deeeed"),
    ("qwen3_moe", {"decoder_sparse_step": 2}, "dedede"),
    ("qwen3_moe", {"decoder_sparse_step": 3}, "ddedde"),
    ("qwen3_moe", {"decoder_sparse_step": 0}, "dddddd"),
    ("qwen3_moe", {"num_experts": 0}, "dddddd"),
    ("deepseek_v3", {"first_k_dense_replace": 2}, "ddeeee"),
    ("deepseek_v3", {"first_k_dense_replace": 1, "moe_layer_freq": 2}, "ddeded"),
    ("deepseek_v3", {"first_k_dense_replace": 0, "moe_layer_freq": 2}, "ededed"),
    ("deepseek_v3", {"moe_layer_freq": [0, 1, 1, 0]}, "deeddd"),
    ("deepseek_v3", {"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, "deeddd"),
    ("ernie4_5_moe", {"moe_layer_start_index": 3}, "dddeee"),
    ("lfm2_moe", {"num_dense_layers": 2, "layer_types": ["conv"] * 6}, "ddeeee"),
    ("jamba", {"expert_layer_period": 3, "expert_layer_offset": 2}, "ddedde"),
    ("llama4", {"interleave_moe_layer_step": 2}, "dedede"),
    ("llama", {}, "dddddd"),
]
"""Family, fields, and which of six layers have experts."""


@in_one_test(("name", "told", "expected"), MIXED)
def test_which_layers_have_experts(name: str, told: dict[str, Any], expected: str) -> None:
    """By the first layers, by every so-manyth one, by a list, or all."""
    config = {
        **SMALL, "model_type": name, "num_hidden_layers": 6, "num_key_value_heads": 2, "moe_intermediate_size": 32,
        "vision_config": {}, **told,
    }  # fmt: skip
    found = shape(config)
    letters = ["e" if isinstance(found.layer(at).feed_forward, Experts) else "d" for at in range(found.layers)]
    assert "".join(letters) == expected, found.missing


LISTED: list[tuple[str, dict[str, Any], str]] = [
    ("gemma2", {}, "sfsfsf"),
    ("gemma3_text", {}, "sssssf"),
    ("gemma2", {"sliding_window_pattern": 3}, "ssfssf"),
    ("gemma2", {"_sliding_window_pattern": 3}, "ssfssf"),
    ("gpt_oss", {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 4}, "ffssss"),
    ("gpt_oss", {"layer_types": ["full_attention"] * 7}, "ffffff"),
    ("gpt_oss", {"layer_types": ["full_attention"] * 5}, ""),
    ("qwen3_next", {}, "lllfll"),
    ("qwen3_next", {"full_attention_interval": 2}, "lflflf"),
    ("jamba", {}, "llllfl"),
    ("jamba", {"attn_layer_period": 3, "attn_layer_offset": 1}, "lfllfl"),
    ("bamba", {"attn_layer_indices": [0, 5]}, "fllllf"),
    ("lfm2", {"full_attn_idxs": [2]}, "llflll"),
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 4}, "ffffss"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": None}, "ffffff"),
    ("qwen2", {"layer_types": ["sliding_attention", "full_attention"] * 3}, "sfsfsf"),
    ("llama4", {"vision_config": {}}, "cccfcc"),
    ("llama4", {"vision_config": {}, "no_rope_layers": [0, 1, 0, 1, 1, 1]}, "fcfccc"),
    ("llama4", {"vision_config": {}, "attention_chunk_size": None}, "ffffff"),
    ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1, 1, 0, 1, 1], "v_head_dim": 16, "swa_head_dim": 16, "head_dim": 16,
     "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_v_head_dim": 16, "sliding_window": 8,
     "n_routed_experts": None}, "fssfss"),
    ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1]}, ""),
    ("nemotron_h", {"hybrid_override_pattern": "M*-M*-"}, "lfnlfn"),
    ("nemotron_h", {"layers_block_type": ["mamba", "attention", "mlp"]}, "lfn"),
    ("nemotron_h", {"hybrid_override_pattern": "M*X"}, ""),
]  # fmt: skip
"""Family, fields, and six layers: full, sliding, chunks, state (l), none; "" if unknown."""


@in_one_test(("name", "told", "expected"), LISTED)
def test_the_attention_of_each_layer(name: str, told: dict[str, Any], expected: str) -> None:
    """By a pattern, a period, a list of kinds, or a list of positions."""
    found = shape({**SMALL, "model_type": name, "num_hidden_layers": 6, "num_key_value_heads": 2, **told})
    letters = ""
    for at in range(found.layers):
        mixer = found.layer(at).mixer
        letters += "n" if mixer is None else mixer.kind[0] if isinstance(mixer, Attention) else "l"
    assert letters == expected, found.missing


def test_mllama_has_cross_attention_in_every_fifth_layer() -> None:
    """From the fourth on by default; with a norm of heads, no table, and two gates."""
    config = {**SMALL, "model_type": "mllama", "num_hidden_layers": 40, "vision_config": {}}
    for told, places in (({}, [3, 8, 13, 18, 23, 28, 33, 38]), ({"cross_attention_layers": [2]}, [2])):
        found = shape({**config, **told})
        layers = [found.layer(at) for at in range(40)]
        cross = [at for at, layer in enumerate(layers) if getattr(layer.mixer, "kind", "") == "cross"]
        assert cross == places
        mixer = layers[places[0]].mixer
        assert isinstance(mixer, Attention)
        assert (mixer.query_key_norm, mixer.rope, layers[places[0]].scalars) == ("head", None, 2)


ROPES: list[tuple[dict[str, Any], Rope]] = [
    ({}, Rope("default", 16, 1024, 1.0, 0.0, 1024)),
    ({"rope_theta": 500_000}, Rope("default", 16, 1024, 1.0, 500_000.0, 1024)),
    ({"rope_theta": "odd"}, Rope("default", 16, 1024, 1.0, 0.0, 1024)),
    ({"partial_rotary_factor": 0.5}, Rope("default", 8, 1024, 1.0, 0.0, 1024)),
    ({"rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 7}}, Rope("default", 4, 1024, 1.0, 7.0, 1024)),
    ({"rotary_dim": 12}, Rope("default", 12, 1024, 1.0, 0.0, 1024)),
    ({"rotary_dim": 0}, Rope("default", 16, 1024, 1.0, 0.0, 1024)),
    ({"rope_scaling": {"type": "linear", "factor": 2}}, Rope("linear", 16, 1024, 2.0, 0.0, 1024)),
    ({"rope_scaling": {"type": "linear", "factor": "2"}}, Rope("linear", 16, 1024, 1.0, 0.0, 1024)),
    ({"rope_scaling": {"rope_type": "yarn", "type": "x", "factor": 4.0, "original_max_position_embeddings": 256}},
     Rope("yarn", 16, 256, 4.0, 0.0, 1024)),
    ({"rope_scaling": {"rope_type": "longrope"}, "original_max_position_embeddings": 512},
     Rope("longrope", 16, 512, 1.0, 0.0, 1024)),
    ({"rope_scaling": {"rope_type": "su"}, "original_max_position_embeddings": 512},
     Rope("su", 16, 512, 1.0, 0.0, 1024)),
    ({"rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": 512}},
     Rope("llama3", 16, 1024, 1.0, 0.0, 1024)),
    ({"rope_scaling": {"type": "mrope"}}, Rope("mrope", 16, 1024, 1.0, 0.0, 1024, is_multimodal=True)),
    ({"rope_scaling": {"mrope_section": [1]}}, Rope("default", 16, 1024, 1.0, 0.0, 1024, is_multimodal=True)),
    ({"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5}},
     Rope("proportional", 16, 1024, 1.0, 0.0, 1024)),
    ({"rope_parameters": {"full_attention": {"rope_theta": 9}}}, Rope("default", 16, 1024, 1.0, 9.0, 1024)),
    ({"rope_parameters": {"sliding_attention": {"rope_theta": 9}}}, Rope("default", 16, 1024, 1.0, 0.0, 1024)),
]  # fmt: skip


@in_one_test(("told", "expected"), ROPES)
def test_a_table_is_read_in_each_form(told: dict[str, Any], expected: Rope) -> None:
    """Among the other fields, in one part, or in one per kind of attention."""
    assert first(SMALL, **told).rope == expected


JUNK = st.sampled_from([None, "", "x", -1, 0, 3, 1.5, True, [], ["a"], {}, {"a": 1}, [1, 2], 10**9])


@given(seed=st.integers(0, 10**6), junk=JUNK)
@settings(max_examples=300, deadline=None)
def test_shape_never_raises(seed: int, junk: Any) -> None:
    """Any value of a field yields layers, or the missing field."""
    chance = random.Random(seed)  # noqa: S311 - what is drawn is a test case
    config: dict[str, Any] = dict(files()[chance.choice(sorted(files()))].config)
    part = config
    inner = config.get("text_config")
    if isinstance(inner, dict) and chance.random() < 0.7:
        part = config["text_config"] = dict(inner)
    name = chance.choice(sorted(part))
    if chance.random() < 0.3:
        del part[name]
    else:
        part[name] = junk
    found = shape(config)
    assert found.kinds or found.missing or found.layers == 0


def test_pooling_models_have_no_lm_head() -> None:
    """Embedding models by their modules.json or their class, and any model with `--runner pooling`."""

    def weights(name: str, arguments: Sequence[str] = ()) -> float:
        plan = planner.plan_model(name, "L40S", tp=1, access="none", arguments=arguments)
        return next(term.expected_gib or 0.0 for term in plan.per_gpu[0].terms if term.name == "weights")

    head = 2 * 151_936 * 4096 / 2**30
    base = weights("Qwen/Qwen3-8B")
    assert weights("Qwen/Qwen3-8B", ["--runner", "pooling"]) == pytest.approx(base - head, abs=0.001)
    embedding = weights("Qwen/Qwen3-Embedding-8B")
    assert embedding * 2**30 / 2 == pytest.approx(7_567_295_488, rel=0.001)
    assert weights("Qwen/Qwen3-Embedding-8B", ["--runner", "generate"]) > embedding + head * 0.99
    config = {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3"}
    assert shape(config).pools
    assert not shape({**config, "architectures": ["Qwen3ForCausalLM"]}).pools


def test_ling_2_5_is_told_apart_by_its_class() -> None:
    """The next generation has the same model_type; a router of another dtype is unknown as well."""
    config: dict[str, Any] = {
        "model_type": "bailing_hybrid", "architectures": ["BailingMoeV2_5ForCausalLM"], "hidden_size": 512,
        "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 32_064,
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "layer_group_size": 2,
        "group_norm_size": 4,
    }  # fmt: skip
    found = shape(config)
    assert [type(found.layer(index).mixer) for index in range(4)] == [Recurrent, Latent] * 2
    for change, missing in (
        ({"architectures": ["BailingMoeV3ForCausalLM"]}, "architecture BailingMoeV3ForCausalLM"),
        ({"architectures": []}, "architecture"),
        ({"router_dtype": "bf16"}, "router_dtype"),
    ):
        assert shape(config | change).missing == (missing,)
    assert {type(layer.mixer) for layer in shape(config | {"layer_group_size": 1}).kinds} == {Latent}


def test_modernbert_has_a_table_for_each_kind_of_layer() -> None:
    """Its layers are listed, or each third attends to all; a class with a head is unknown."""
    config: dict[str, Any] = {
        "model_type": "modernbert", "architectures": ["ModernBertModel"], "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0, "num_hidden_layers": 7,
    }  # fmt: skip
    found = shape(config)
    assert found.pools
    layers = [found.layer(index) for index in range(7)]
    assert [layer.norms for layer in layers] == [1] + [2] * 6
    bases = [layer.mixer.rope.base for layer in layers if isinstance(layer.mixer, Attention) and layer.mixer.rope]
    assert bases == [0.0, 10_000.0, 10_000.0] * 2 + [0.0]
    assert shape(config | {"layer_types": ["sliding_attention"] * 7}).layer(0).mixer == layers[1].mixer
    classes = {"architectures": ["ModernBertForSequenceClassification"]}
    assert shape(config | classes).missing == ("architecture ModernBertForSequenceClassification",)
    assert shape(config | {"norm_bias": True}).missing == ("sizes with norm_bias",)
