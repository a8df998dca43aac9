"""Families of late 2026: sizes on a rank and in the KV cache, summed by hand from vLLM's classes."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.kv_cache import Demand, Kind, pool, rules
from vllm_runbooks.plan.kv_layers import CacheOptions, kv_layers
from vllm_runbooks.plan.shape import Shape, shape
from vllm_runbooks.plan.weights import Ranks, inventory, load

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
