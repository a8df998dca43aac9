"""A model's configuration is read as what memory depends on, and what it does not say is named."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_runbooks import specs
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.planning.families import FAMILIES
from vllm_runbooks.planning.shape import Attention, Dense, Experts, Latent, Layer, Recurrent, Rope, Shape, shape

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
    for layer, count in zip(found.kinds, found.counts, strict=True):
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
    assert (found.quantization.method, found.quantization.experts_alone) == ("mxfp4", True)


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
    """Every sixth layer of gemma 3 is full and uses the scaled table, the others a local one of another base."""
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


def test_defaults_are_the_class_own() -> None:
    """What a whole file leaves out is what the model's class fills in, and no other family's default."""
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


def test_unused_window_is_no_window() -> None:
    """A window that `use_sliding_window` switches off has no effect."""
    qwen = {**SMALL, "model_type": "qwen2", "sliding_window": 256, "num_key_value_heads": 2}
    assert first(qwen, use_sliding_window=False).kind == "full"
    used = shape({**qwen, "use_sliding_window": True, "max_window_layers": 2})
    assert outline(used) == {"full dense": 2, "sliding dense": 2}


def test_partial_configurations_name_what_they_lack() -> None:
    """Of a partial file a field that is left out is unknown where a whole file would leave it to the class."""
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
        ({**SMALL, "hidden_size": "64"}, "hidden_size"),
        ({**SMALL, "num_attention_heads": None}, "num_attention_heads"),
        ({**SMALL, "num_key_value_heads": "2"}, "num_key_value_heads"),
        ({**SMALL, "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({**SMALL, "quantization_config": {"quant_method": "magic"}}, "quantization_config: magic"),
        ({**SMALL, "model_type": "qwen3_next", "layer_types": ["odd"] * 4}, "layer_types"),
    ],
)
def test_missing_is_named(config: dict[str, Any], missing: str) -> None:
    """What keeps a model from being read is named by its field."""
    assert missing in shape(config).missing


def test_towers(shelf: dict[str, specs.ModelFile]) -> None:
    """A tower's family is known, its absence too; a tower that only the class knows of is unknown."""
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
    """A checkpoint's method, form and what it leaves out are read."""
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
    for name in FAMILIES:
        found = shape({**small, "model_type": name, "architectures": ["X"]})
        assert found.kinds or found.missing, name
        assert all(isinstance(layer, Layer) for layer in found.kinds)


JUNK = st.sampled_from([None, "", "x", -1, 0, 3, 1.5, True, [], ["a"], {}, {"a": 1}, [1, 2], 10**9])


@given(seed=st.integers(0, 10**6), junk=JUNK)
@settings(max_examples=300, deadline=None)
def test_shape_never_raises(seed: int, junk: Any) -> None:
    """Whatever a field holds, a shape comes back: with layers, or with what is missing."""
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
