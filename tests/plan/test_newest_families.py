"""Families of late 2026: sizes on a rank and in the KV cache, summed by hand from vLLM's classes."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.budget import PlannedModel
from vllm_runbooks.plan.kv_cache import Demand, Kind, KvUnknownError, pool, rules
from vllm_runbooks.plan.kv_layers import CacheOptions, kv_layers
from vllm_runbooks.plan.layouts import illegal
from vllm_runbooks.plan.shape import Shape, shape
from vllm_runbooks.plan.weights import Ranks, checkpoint_bytes, inventory, load

_BESIDE = ("allocator", "rotary", "buffers")


def _config(name: str) -> dict[str, Any]:
    return dict(next(file.config for file in specs.load(spec_files.compile_specs).files if file.id == name))


def _loaded(model: Shape, ranks: Ranks) -> int:
    loaded = load(inventory(model), ranks, release=(0, 33, 0), capability=(10, 0))
    assert loaded is not None
    return sum(size for part, size in loaded[0].components.items() if part not in _BESIDE)


def _request_bytes(model: Shape, tokens: int, **options: Any) -> int:
    """Bytes of one request's cache on a rank."""
    forms = kv_layers(model, CacheOptions(tokens, capability=(10, 0), **options), "0.33.0")
    assert forms.missing == ()
    demand = Demand(tokens, 8192, state_mode=forms.state_mode, mixes_groups=forms.mixes_groups)
    return pool(forms.stages, demand, rules("0.33.0")).needed_bytes(tokens)[0]


# ---- MiniMax M3


def _minimax_m3(tp: int) -> int:
    """Bytes of parameters of `MiniMaxM3SparseForConditionalGeneration` (0.33.0 models/minimax_m3/nvidia/model.py)."""
    hidden, head, kv = 6144, 128, max(1, 4 // tp)
    queries = 64 // tp
    plain = hidden * head * (queries + 2 * kv) + queries * head * hidden + 2 * head
    indexed = plain + hidden * head * (kv + 1) + 2 * head
    moe = 128 * 3 * hidden * 3072 // tp + 3 * hidden * 3072 // tp
    router = 128 * hidden + 128  # float32
    text = 3 * (plain + 3 * hidden * 12288 // tp) + 57 * (indexed + moe) + 60 * 2 * hidden + hidden
    text += 2 * 200064 * hidden // tp
    width = 1280
    layer = (3 * width * width + 3 * width) // tp + width * width // tp + width
    layer += (5120 * width + 5120) // tp + width * 5120 // tp + width + 4 * width
    tower = 32 * layer + width * 3 * 2 * 14 * 14 + 2 * width
    projectors = (width * hidden + hidden) // tp + hidden * hidden // tp + hidden
    projectors += (4 * hidden * hidden + hidden) // tp + hidden * hidden // tp + hidden
    return 2 * (text + tower + projectors) + 57 * 4 * router


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_minimax_m3_has_the_weights_of_its_class(tp: int) -> None:
    """Queries of the index are divided and replicated like keys and values, its keys are on every rank."""
    assert _loaded(shape(_config("MiniMaxAI/MiniMax-M3")), Ranks(tp)) == _minimax_m3(tp)


@pytest.mark.parametrize(("tp", "heads"), [(1, 4), (2, 2), (4, 1), (8, 1)])
@pytest.mark.parametrize(("dtype", "width"), [("auto", 2), ("fp8", 1)])
def test_minimax_m3_caches_index_keys_in_two_bytes_whatever_the_dtype(
    tp: int, heads: int, dtype: str, width: int
) -> None:
    """60 layers cache keys and values, 57 of them a key of the index too, in blocks of 128 tokens."""
    model = shape(_config("MiniMaxAI/MiniMax-M3"))
    token = 60 * 2 * heads * 128 * width + 57 * 128 * 2
    assert _request_bytes(model, 12_800, tensor_parallel=tp, cache_dtype=dtype) == 12_800 * token


def test_minimax_m3_without_its_list_of_sparse_layers_is_unknown() -> None:
    """No other part of the configuration has the layers that select blocks."""
    config = _config("MiniMaxAI/MiniMax-M3")
    text = {key: value for key, value in config["text_config"].items() if key != "sparse_attention_config"}
    assert shape({**config, "text_config": text}).missing == ("sparse_attention_config",)


# ---- Kimi K3


def _kimi_k3(tp: int) -> int:
    """Bytes of parameters of `KimiK3ForConditionalGeneration` (0.33.0 models/kimi_k3/nvidia/{model,kda,mla}.py)."""
    hidden, inner, heads = 7168, 96 * 128 // tp, 96 // tp
    kda = hidden * (4 * inner + 128 + heads) + 128 * inner + inner * hidden + 128
    kda_wide = inner + heads + 3 * inner * 4  # float32: dt_bias, A_log and the convolutions
    mla = hidden * (1536 + 576 + inner) + 1536 * heads * 192 + 512 * heads * 256 + inner * hidden + 1536 + 512
    latent = 2 * hidden * 3584 + 3584
    moe = latent + 896 * hidden + 3 * hidden * 6144 // tp
    experts = 896 * 3 * 3584 * 3072 // tp
    residual = 4 * hidden
    text = 69 * kda + 24 * mla + 92 * moe + 3 * hidden * 33792 // tp + 93 * (2 * hidden + residual) + 3 * hidden
    text += 2 * 163840 * hidden // tp
    whole = 1 if 12 % tp else tp
    blocks = (1024 * 3 * 1536 + 1536 * 1024 + 2 * 1024 * 4096) // whole + 2 * 1024
    tower = 27 * blocks + 1024 * 3 * 14 * 14 + 64 * 64 * 1024 + 1024 + 4096 * 4096 + hidden * 4096 + hidden
    return 2 * (text + tower) + 4 * (69 * kda_wide + 92 * 896) + 92 * (experts // 2 + experts // 32)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_kimi_k3_has_the_weights_of_its_class(tp: int) -> None:
    """Latent projections are on every rank; so is the tower if the ranks cannot divide its 12 heads."""
    assert _loaded(shape(_config("moonshotai/Kimi-K3")), Ranks(tp)) == _kimi_k3(tp)


def test_kimi_k3_has_the_published_number_of_parameters() -> None:
    """The Hub counts 32 values more in each of 69 layers: the files pad `A_log` from 96 to 128."""
    assert inventory(shape(_config("moonshotai/Kimi-K3"))).parameters() == 2_779_931_837_184 - 69 * 32


@pytest.mark.parametrize("tp", [1, 8])
def test_kimi_k3_keeps_states_in_pages_of_its_latents(tp: int) -> None:
    """A state is 128 x 128 float32 values a head and three tokens of its convolution, in whole blocks of 128 tokens."""
    state = 96 // tp * (128 * 128 * 4 + 3 * 3 * 128 * 2)
    asked = CacheOptions(131_072, tensor_parallel=tp, capability=(10, 0))
    forms = kv_layers(shape(_config("moonshotai/Kimi-K3")), asked, "0.33.0")
    block = -(-state // (576 * 2 * 128)) * 128
    assert forms.block_tokens == block
    layers = {(form.kind.name, form.state_bytes, form.page_bytes): count for form, count in forms.stages[0].items()}
    assert layers == {("STATE", state, block * 576 * 2): 69, ("LATENT", 0, block * 576 * 2): 24}


@pytest.mark.parametrize(
    ("version", "capability", "blocks"),
    [("0.30.0", (10, 0), 0), ("0.32.0", (10, 0), 1), ("0.33.0", (9, 0), 1), ("0.33.0", (8, 0), 0)],
)
def test_kimi_k3_keeps_a_state_during_prefill_where_flashkda_runs(
    version: str, capability: tuple[int, int], blocks: int
) -> None:
    """`get_kv_cache_spec` of models/kimi_k3/nvidia/kda.py since 0.32.0."""
    asked = CacheOptions(131_072, capability=capability, caches_prefixes=True)
    forms = kv_layers(shape(_config("moonshotai/Kimi-K3")), asked, version)
    assert {form.checkpoint_blocks for form in forms.stages[0] if form.kind is Kind.STATE} == {blocks}


# ---- DeepSeek V4


def _quantized(rows: int, columns: int) -> int:
    """Bytes of an FP8 matrix with a scale of one byte for 128 x 128 values."""
    return rows * columns + -(-rows // 128) * -(-columns // 128)


def _deepseek_v4_flash(tp: int, expert_values_per_scale: int = 32) -> int:
    """Bytes of parameters of `DeepseekV4ForCausalLM` (0.33.0 models/deepseek_v4/nvidia/model.py, attention.py)."""
    hidden, inner = 4096, 2048 // tp
    attention = _quantized(1024, hidden) + _quantized(512, hidden) + _quantized(64 * 512 // tp, 1024)
    attention += _quantized(8 * 1024 // tp, 4096) + _quantized(hidden, 8 * 1024 // tp) + 2 * (1024 + 512) + 4 * 64
    values = 256 * 3 * hidden * inner
    moe = values // 2 + values // expert_values_per_scale + 2 * 256 * hidden
    moe += 2 * _quantized(inner, hidden) + _quantized(hidden, inner)
    streams = 2 * 4 * (24 * 4 * hidden + 24 + 3)
    ratio_4 = 2 * 2 * 1024 * hidden + 4 * 4 * 1024 + 2 * 512
    ratio_4 += _quantized(64 * 128, 1024) + 2 * 64 * hidden + 2 * 2 * 256 * hidden + 4 * 4 * 256 + 2 * 128
    ratio_128 = 2 * 2 * 512 * hidden + 4 * 128 * 512 + 2 * 512
    layers = 43 * (attention + moe + streams + 2 * 2 * hidden) + 21 * ratio_4 + 20 * ratio_128
    tables = 3 * 129280 * 6 * 4 + 40 * 256 * 4
    head = 4 * (4 * 4 * hidden + 4 + 1)
    return layers + tables + head + 2 * hidden + 2 * 2 * 129280 * hidden // tp


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_deepseek_v4_has_the_weights_of_its_class(tp: int) -> None:
    """FP8 matrices, MXFP4 experts, and tensors for compression and for parallel hidden states on every rank."""
    assert _loaded(shape(_config("deepseek-ai/DeepSeek-V4-Flash")), Ranks(tp)) == _deepseek_v4_flash(tp)


_SMALL_V4: dict[str, Any] = {
    "num_hidden_layers": 3, "num_nextn_predict_layers": 0, "n_routed_experts": 8, "vocab_size": 32_768,
    "max_position_embeddings": 4096, "compress_ratios": [0, 0, 4, 128, 4], "rms_norm_eps": 1e-6, "hidden_act": "silu",
}  # fmt: skip


@pytest.mark.parametrize(("tp", "built"), [(1, 1_296_351_004), (2, 678_728_220)])
def test_a_rank_of_deepseek_v4_has_the_bytes_of_vllms_class(tp: int, built: int) -> None:
    """As vLLM 0.32.0 builds it on the meta device (`tests/classes_of_vllm.py --deepseek-v4`), without a draft layer."""
    assert _loaded(shape({**_config("deepseek-ai/DeepSeek-V4-Flash"), **_SMALL_V4}), Ranks(tp)) == built


@pytest.mark.parametrize(("tp", "printed"), [(2, 74.02), (2, 74.08), (2, 74.35), (4, 38.09)])
def test_the_range_of_deepseek_v4_covers_printed_weights(tp: int, printed: float) -> None:
    """Launches of DeepSeek V4 Flash print up to 0.45% more than the sum with its buffers."""
    loaded = load(
        inventory(shape(_config("deepseek-ai/DeepSeek-V4-Flash"))), Ranks(tp), release=(0, 25, 0), tokens=8192
    )
    assert loaded is not None
    assert loaded[0].low <= printed * 2**30 <= loaded[0].high
    assert loaded[0].expected == pytest.approx(printed * 2**30, rel=0.0045)


@pytest.mark.parametrize(
    ("release", "has_draft", "streams", "queries"),
    [((0, 26), False, 4, 0), ((0, 27), False, 0, 64), ((0, 28), True, 4, 64), ((0, 29), False, 0, 0)],
)
def test_buffers_of_deepseek_v4_are_loaded_with_its_weights(
    release: tuple[int, ...], has_draft: int, streams: int, queries: int
) -> None:
    """Of 8192 tokens the hidden states, for a draft from 0.27 on, and in 0.27 and 0.28 the queries of 64 heads."""
    stock = inventory(shape(_config("deepseek-ai/DeepSeek-V4-Flash")))
    loaded = load(stock, Ranks(8), release=release, tokens=8192, with_mtp=bool(has_draft))
    assert loaded is not None
    assert loaded[0].components["buffers"] == 8192 * (4 * 512 + 2 * 4096 * streams + 2 * 512 * queries)


def test_experts_of_deepseek_v4_in_nvfp4_have_a_scale_for_16_values() -> None:
    """`moe_quant_algo` changes the experts alone; names that the file ignores stay in FP8."""
    model = shape(_config("nvidia/DeepSeek-V4-Flash-NVFP4"))
    assert _loaded(model, Ranks()) == _deepseek_v4_flash(1, expert_values_per_scale=16)


def test_experts_of_deepseek_v4_may_be_in_fp8() -> None:
    """With `expert_dtype` fp8 all scales are of four bytes."""
    model = shape(_config("deepseek-ai/DeepSeek-V4-Flash") | {"expert_dtype": "fp8"})
    forms = [form for names, form in model.quantization.formats] if model.quantization else []
    assert [(form.bits, form.block, form.scale_bytes) for form in forms] == [(8, (128, 128), 4)]


def test_deepseek_v4_has_the_published_bytes() -> None:
    """The files have 159,609,485,896 bytes; of the three tables by token vLLM has four bytes for eight."""
    stock = inventory(shape(_config("deepseek-ai/DeepSeek-V4-Flash")))
    assert checkpoint_bytes(stock) == 159_609_485_896 - 3 * 129_280 * 6 * 4


@pytest.mark.parametrize("junk", [None, 0, "x", [1], -1, {}])
@pytest.mark.parametrize("name", ["compress_ratios", "num_hash_layers", "hc_mult", "o_groups", "quantization_config"])
def test_damaged_fields_of_deepseek_v4_give_an_answer(name: str, junk: Any) -> None:
    """Weights are calculated or a missing field is named, whatever a field holds."""
    stock = inventory(shape(_config("deepseek-ai/DeepSeek-V4-Flash") | {name: junk}))
    assert (load(stock, Ranks(2), release=(0, 33, 0)) is None) == bool(stock.missing)


def test_a_rank_that_cuts_blocks_of_shared_experts_is_refused() -> None:
    """At TP 16 a rank has 192 of 3072 values of DeepSeek V4 Pro's shared expert: blocks of 128 do not divide them."""
    config = _config("deepseek-ai/DeepSeek-V4-Pro")
    model = PlannedModel("deepseek-v4-pro", config, shape(config))
    assert any("cuts fp8's groups of 128" in reason for reason in illegal(model, Ranks(16), (0, 33, 0)))
    assert not any("cuts" in reason for reason in illegal(model, Ranks(8), (0, 33, 0)))


def _deepseek_v4_forms(name: str = "Flash", version: str = "0.33.0", **options: Any) -> Any:
    asked = CacheOptions(30_000, **{"capability": (9, 0), "cache_dtype": "fp8", **options})
    return kv_layers(shape(_config(f"deepseek-ai/DeepSeek-V4-{name}")), asked, version)


@pytest.mark.parametrize(
    ("version", "index", "key_page"),
    [("0.20.2", "auto", 8640), ("0.26.0", "mxfp4", 8640), ("0.27.1", "mxfp4", 4608), ("0.33.0", "auto", 8640)],
)
def test_deepseek_v4_has_five_kinds_of_latents(version: str, index: str, key_page: int) -> None:
    """Windows, latents of 4 and of 128 tokens, the indexer's keys, and what is not compressed yet."""
    (stage,) = _deepseek_v4_forms(version=version, index_dtype=index).stages
    assert [(form.kind.value, form.block_tokens, form.page_bytes, count) for form, count in stage.items()] == [
        ("latent_window", 64, 37_440, 43),
        ("latent", 256, 37_440, 21),
        ("latent_window", 4, 32_832, 21),
        ("latent", 256, key_page, 21),
        ("latent_window", 4, 8_640, 21),
        ("latent", 256, 1_728, 20),
        ("latent_window", 8, 32_832, 20),
    ]


def test_deepseek_v4_needs_the_cache_that_a_launch_printed() -> None:
    """Release 0.22 (vllm-project/vllm#44376): 6.66 GiB for 30,000 tokens; 13,528 tokens fit into 5.44 GiB."""
    cache = pool(_deepseek_v4_forms(version="0.22.0").stages, Demand(30_000, 16_384), rules("0.22.0"))
    assert round(cache.needed_bytes()[0] / 2**30, 2) == 6.66
    low, high = (cache.longest_context([int(gib * 2**30)]) for gib in (5.435, 5.445))
    assert low <= 13_528 <= high


@pytest.mark.parametrize(
    ("version", "options", "missing"),
    [
        ("0.29.0", {"cache_dtype": "auto"}, "the cache of compressed latents in auto: set --kv-cache-dtype fp8"),
        ("0.33.0", {"cache_dtype": "bfloat16"}, "the cache of compressed latents in bfloat16"),
        ("0.33.0", {"backend": "FLASHINFER_MLA_SPARSE_DSV4"}, "with FLASHINFER_MLA_SPARSE_DSV4"),
        ("0.33.0", {"capability": None}, "compute capability"),
    ],
)
def test_other_caches_of_deepseek_v4_are_unknown(version: str, options: dict[str, Any], missing: str) -> None:
    """16-bit rows, and releases that require the 8-bit cache as an option."""
    (reason,) = _deepseek_v4_forms(version=version, **options).missing
    assert missing in reason


@pytest.mark.parametrize(
    ("version", "options"),
    [("0.30.0", {"cache_dtype": "auto"}), ("0.33.0", {"backend": "FLASHINFER_MLA_SPARSE_DSV4", "capability": (12, 0)})],
)
def test_usual_caches_of_deepseek_v4_are_known(version: str, options: dict[str, Any]) -> None:
    """The default from 0.30 on, and the backend of GPUs of compute capability 12."""
    assert _deepseek_v4_forms("Pro", version, **options).missing == ()


def test_windows_of_latents_without_the_hybrid_manager_are_unknown() -> None:
    """Some releases fail to convert them."""
    with pytest.raises(KvUnknownError, match="windows of latents"):
        pool(_deepseek_v4_forms().stages, Demand(30_000, 8192, mixes_groups=False), rules("0.33.0"))


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"compress_ratios": None}, "compress_ratios"),
        ({"compress_ratios": [4] * 42 + [8]}, "compress_ratios"),
        ({"rope_scaling": None}, "rope_scaling"),
        ({"vision_n_layers": 27}, "sizes with vision_n_layers"),
    ],
)
def test_unread_variants_of_deepseek_v4_are_unknown(changed: dict[str, Any], missing: str) -> None:
    """Other ratios of compression and the vision variant are not guessed."""
    config = _config("deepseek-ai/DeepSeek-V4-Flash") | changed
    assert missing in inventory(shape(config)).missing


# ---- Laguna, and text parts alone


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"num_attention_heads_per_layer": [48, 64]}, "num_attention_heads_per_layer"),
        ({"num_attention_heads_per_layer": ["x"] * 40}, "num_attention_heads_per_layer"),
        ({"swa_attention_sink_enabled": True}, "swa_attention_sink_enabled"),
    ],
)
def test_unread_variants_of_laguna_are_unknown(changed: dict[str, Any], missing: str) -> None:
    """Odd lists of heads and sinks are named."""
    assert any(missing in field for field in shape({**_config("poolside/Laguna-XS-2.1"), **changed}).missing)


@pytest.mark.parametrize(("gating", "columns"), [(False, 0), (True, 1), ("per-head", 1), ("per-element", 128)])
def test_gates_of_laguna(gating: Any, columns: int) -> None:
    """A head has no gate, one, or one for each of its values; the number is the class's of vLLM 0.33.0."""
    config = _config("poolside/Laguna-M.1")
    heads = config["num_hidden_layers"] * config["num_attention_heads"]

    def parameters(gates: Any) -> int:
        count = inventory(shape({**config, "gating": gates})).parameters()
        assert count is not None
        return count

    assert parameters(gating) - parameters(False) == heads * columns * config["hidden_size"]


def test_a_text_part_alone_has_no_encoder() -> None:
    """`qwen3_5_moe_text` is the text part of `qwen3_5_moe`, as a model of its class."""
    model = shape(_config("Qwen/Qwen3.8-2.4T-A95B"))
    assert (model.missing, model.encoders, model.layers) == ((), (), 92)
