"""The caches of a model's layers on one rank, in the form that a release gives them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options, specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.catalog.release_rules import ValueHistory
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.plan import kv_layers as module
from vllm_runbooks.plan.kv_cache import Demand, Kind, pool, rules
from vllm_runbooks.plan.kv_layers import CacheOptions, KvForms, kv_layers
from vllm_runbooks.plan.shape import Attention, Latent, Layer, Quantization, Recurrent, Shape, shape
from vllm_runbooks.plan.weights import Ranks
from vllm_runbooks.plan.weights import stages as split

GIB = 2**30
_HOPPER, _BLACKWELL, _AMPERE = (9, 0), (10, 0), (8, 0)


def _shape(*layers: tuple[Attention | Latent | Recurrent, int], **more: Any) -> Shape:
    pattern = [index for index, (_, count) in enumerate(layers) for _ in range(count)]
    kinds = tuple(Layer(mixer, None) for mixer, _ in layers)
    named = {"architecture": None, "model_type": None, "text_type": None, "dtype": "bfloat16"}
    return Shape(**{**named, **more}, kinds=kinds, pattern=tuple(pattern))


_FULL = Attention("full", heads=32, kv_heads=8, head_dim=128, value_dim=128)
_SLIDING = replace(_FULL, kind="sliding", window=1024)
_CHUNKED = replace(_FULL, kind="chunked", window=8192)
_MLA = Latent(128, 1536, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)
_SPARSE = replace(_MLA, index_heads=64, index_dim=128)
_GDN = Recurrent("gdn", conv_kernel=4, key_heads=16, key_dim=128, value_heads=48, value_dim=128, state_dtype="float32")
_WIDE = Attention("full", heads=24, kv_heads=4, head_dim=256, value_dim=256)
_MAMBA2 = Recurrent("mamba2", conv_kernel=4, inner=4096, state=128, heads=64, head_dim=64, groups=8)
_KDA = Recurrent("kda", conv_kernel=4, key_heads=32, key_dim=128, value_heads=32, value_dim=128)
_8K = CacheOptions(max_model_len=8192)


def _seen(forms: KvForms) -> list[tuple[str, int, int, int]]:
    """Kind, tokens of a block, bytes of a block and layers, of the first stage."""
    return [(form.kind.value, form.block_tokens, form.page_bytes, count) for form, count in forms.stages[0].items()]


_STARTS = [
    # Of a log: model, release, options, batched tokens and GiB of cache; then the layers of the groups, bytes of a
    # block, and printed tokens and concurrency.
    ("openai/gpt-oss-20b", "0.19.0", CacheOptions(131_072), 2048, 36.56, [12, 12], 393_216, 798_624, 11.99),
    ("google/gemma-4-26B-A4B", "0.19.0", CacheOptions(131_072), 2048, 21.5, [5] * 6, 655_360, 93_936, 6.96),
    ("google/gemma-4-26B-A4B", "0.19.0", CacheOptions(262_144), 2048, 24.45, [5] * 6, 655_360, 106_800, 4.37),
    ("google/gemma-4-31B-it", "0.19.0", CacheOptions(131_072), 2048, 15.18, [10] * 6, 2_621_440, 16_576, 1.23),
    ("Qwen/Qwen2.5-0.5B-Instruct", "0.11.0", CacheOptions(32_768), 8192, 19.705, [24], 196_608, 1_721_888, 52.55),
    (
        "Qwen/Qwen2.5-1.5B-Instruct",
        "0.7.2",
        CacheOptions(128, tensor_parallel=2, is_v0=True),
        2048,
        8.602,
        [28],
        229_376,
        644_304,
        5033.62,
    ),
]


@pytest.mark.parametrize(("model", "version", "asked", "batched", "expected"), [(*s[:4], s[4:]) for s in _STARTS])
def test_recorded_launches_are_reproduced_from_the_configuration(
    model: str, version: str, asked: CacheOptions, batched: int, expected: tuple[Any, ...]
) -> None:
    """A model's configuration and the logged GiB yield the logged tokens, within rounding."""
    gib, groups, size, tokens, concurrency = expected
    file = next(file for file in specs.load(spec_files.compile_specs).files if file.id == model)
    forms = kv_layers(shape(file.config, is_partial=file.is_partial), asked, version)
    made = pool(forms.stages, Demand(asked.max_model_len, batched), rules(version, is_v0=asked.is_v0))
    least, most = (made.blocks([int((gib + error) * GIB)]) for error in (-0.005, 0.005))
    assert ([group.layers for group in made.groups], made.bytes_per_block) == (groups, (size,))
    assert made.tokens(least) <= tokens <= made.tokens(most)
    assert round(made.concurrency(least), 2) <= concurrency <= round(made.concurrency(most), 2)


@in_one_test(
    ("mixer", "asked", "version", "expected"),
    [
        (_FULL, _8K, "0.19.0", [("full", 16, 65_536, 4)]),
        (_FULL, replace(_8K, tensor_parallel=4), "0.19.0", [("full", 16, 16_384, 4)]),
        # More ranks than heads: each has one, several the same.
        (_FULL, replace(_8K, tensor_parallel=16), "0.19.0", [("full", 16, 8192, 4)]),
        (_FULL, replace(_8K, block_tokens=32), "0.19.0", [("full", 32, 131_072, 4)]),
        (_FULL, replace(_8K, cache_dtype="fp8"), "0.19.0", [("full", 16, 32_768, 4)]),
        (_FULL, replace(_8K, model_bytes=4), "0.19.0", [("full", 16, 131_072, 4)]),
        (_FULL, replace(_8K, model_bytes=4, cache_dtype="bfloat16"), "0.19.0", [("full", 16, 65_536, 4)]),
        # Half a byte a value and a byte for sixteen of them; a byte a value and four for each key and value.
        (_FULL, replace(_8K, cache_dtype="nvfp4"), "0.30.0", [("full", 16, 18_432, 4)]),
        (_FULL, replace(_8K, cache_dtype="int8_per_token_head"), "0.30.0", [("full", 16, 33_792, 4)]),
        (replace(_FULL, value_dim=64), _8K, "0.19.0", [("full", 16, 49_152, 4)]),
        (_SLIDING, _8K, "0.19.0", [("sliding", 16, 65_536, 4)]),
        (_SLIDING, _8K, "0.7.3", [("full", 16, 65_536, 4)]),
        # Windows had the smallest block of the kernel in some releases.
        (_SLIDING, replace(_8K, block_tokens=64), "0.24.0", [("sliding", 64, 262_144, 4)]),
        (_SLIDING, replace(_8K, block_tokens=64), "0.27.1", [("sliding", 16, 65_536, 4)]),
        (_SLIDING, replace(_8K, block_tokens=64), "0.30.0", [("sliding", 64, 262_144, 4)]),
        (_CHUNKED, _8K, "0.19.0", [("chunked", 16, 65_536, 4)]),
        (replace(_FULL, kind="encoder"), _8K, "0.19.0", []),
        (replace(_FULL, shares_cache_of=1), _8K, "0.19.0", []),
        # Latents: every rank has all of them, in blocks of the size that the GPU's backend needs.
        (_MLA, replace(_8K, tensor_parallel=8, capability=_AMPERE), "0.19.0", [("latent", 16, 18_432, 4)]),
        (_MLA, replace(_8K, capability=_HOPPER), "0.7.3", [("latent", 16, 20_480, 4)]),
        (_MLA, replace(_8K, capability=_HOPPER), "0.8.5", [("latent", 64, 73_728, 4)]),
        (_MLA, replace(_8K, capability=_AMPERE), "0.8.5", [("latent", 16, 18_432, 4)]),
        (_MLA, replace(_8K, capability=_HOPPER), "0.14.1", [("latent", 64, 73_728, 4)]),
        (_MLA, replace(_8K, capability=_BLACKWELL), "0.14.1", [("latent", 128, 147_456, 4)]),
        (_MLA, replace(_8K, capability=_BLACKWELL), "0.16.0", [("latent", 64, 73_728, 4)]),
        (replace(_MLA, nope_dim=192), replace(_8K, capability=_BLACKWELL), "0.16.0", [("latent", 128, 147_456, 4)]),
        (_MLA, replace(_8K, capability=_HOPPER), "0.19.0", [("latent", 16, 18_432, 4)]),
        (_MLA, replace(_8K, capability=_HOPPER, cache_dtype="fp8"), "0.19.0", [("latent", 64, 36_864, 4)]),
        # The indexer's keys: 128 values of one byte with a scale.
        (_SPARSE, replace(_8K, capability=_HOPPER), "0.19.0", [("latent", 64, 73_728, 4), ("latent", 64, 8448, 4)]),
        (
            _SPARSE,
            replace(_8K, capability=_HOPPER, cache_dtype="fp8"),
            "0.19.0",
            [("latent", 64, 41_984, 4), ("latent", 64, 8448, 4)],
        ),
        (_SPARSE, replace(_8K, capability=_HOPPER), "0.11.0", [("latent", 64, 41_984, 4), ("latent", 64, 8448, 4)]),
        (_SPARSE, replace(_8K, capability=(12, 0)), "0.26.0", [("latent", 64, 41_984, 4), ("latent", 64, 8448, 4)]),
    ],
)
def test_a_layer_has_the_form_of_its_release(
    mixer: Attention | Latent, asked: CacheOptions, version: str, expected: list[tuple[str, int, int, int]]
) -> None:
    """Kind, block and bytes follow heads, ranks, dtype, GPU and release."""
    forms = kv_layers(_shape((mixer, 4)), asked, version)
    assert (_seen(forms) if not forms.missing else forms.missing) == expected


_QWEN, _NEMOTRON, _KIMI = ((_GDN, 3), (_WIDE, 1)), ((_MAMBA2, 3), (_FULL, 1)), ((_KDA, 3), (_MLA, 1))


@in_one_test(
    ("layers", "version", "changed", "expected"),
    [
        # A block of attention has room for a state.
        (_QWEN, "0.19.1", {}, (784, "none", 8192, 3_207_168)),
        (_QWEN, "0.19.1", {"tensor_parallel": 2}, (784, "none", 8192, 1_603_584)),
        # Before the configuration's dtype was read a state was half as large.
        (_QWEN, "0.16.0", {"capability": _HOPPER}, (400, "none", 8192, 1_634_304)),
        # FlashInfer wanted blocks of 32 on Blackwell.
        (_QWEN, "0.16.0", {"capability": _BLACKWELL}, (416, "none", 8192, 1_634_304)),
        # With prefix caching there is a state for each block.
        (_QWEN, "0.28.0", {}, (784, "align", 784, 3_207_168)),
        (_QWEN, "0.28.0", {"caches_prefixes": False}, (784, "none", 8192, 3_207_168)),
        (_QWEN, "0.19.1", {"caches_prefixes": True}, (784, "align", 784, 3_207_168)),
        (_QWEN, "0.13.0", {"caches_prefixes": True, "capability": _HOPPER}, (400, "none", 8192, 1_634_304)),
        # FlashInfer's linear attention keeps states at multiples of 64 tokens.
        (_QWEN, "0.33.0", {"capability": _HOPPER}, (832, "align", 832, 3_207_168)),
        (_QWEN, "0.33.0", {"capability": _AMPERE}, (784, "align", 784, 3_207_168)),
        # On Blackwell with CUDA 13, as PyPI's wheel of 0.33.0 has it.
        (_QWEN, "0.33.0", {"capability": _BLACKWELL}, (832, "align", 832, 3_207_168)),
        (_QWEN, "0.33.0", {"capability": (12, 0)}, (832, "align", 832, 3_207_168)),
        # A sufficiently large block size is kept; later releases use a multiple of it.
        (_QWEN, "0.19.1", {"block_tokens": 1024}, (1024, "none", 8192, 3_207_168)),
        (_QWEN, "0.19.1", {"block_tokens": 128}, (784, "none", 8192, 3_207_168)),
        (_QWEN, "0.20.2", {"block_tokens": 128}, (896, "none", 8192, 3_207_168)),
        (_QWEN, "0.9.2", {"block_tokens": 1024}, (1024, "none", 8192, 1_634_304)),
        (_NEMOTRON, "0.16.0", {}, (272, "none", 8192, 1_085_440)),
        (_NEMOTRON, "0.19.0", {"recurrent_dtype": "float32"}, (528, "none", 8192, 2_134_016)),
        # Tokens that are not yet sure lengthen the convolution.
        (_NEMOTRON, "0.16.0", {"speculative_tokens": 1}, (272, "none", 8192, 1_085_440)),
        (_NEMOTRON, "0.17.1", {"speculative_tokens": 1}, (272, "none", 8192, 1_097_728)),
        (_KIMI, "0.19.0", {"capability": _HOPPER}, (1920, "none", 8192, 2_170_880)),
        (_KIMI, "0.24.0", {"capability": _HOPPER}, (1888, "none", 8192, 2_170_880)),
        (_KIMI, "0.27.1", {"capability": _HOPPER}, (1920, "none", 8192, 2_170_880)),
    ],
)
def test_states_and_attention_have_pages_of_one_size(
    layers: tuple[Any, ...], version: str, changed: dict[str, Any], expected: tuple[int, str, int, int]
) -> None:
    """Attention block, kept states, tokens and bytes match the release."""
    forms = kv_layers(_shape(*layers), replace(_8K, **changed), version)
    assert forms.missing == ()
    kept = next(form for form in forms.stages[0] if form.kind is Kind.STATE)
    whole = next(form for form in forms.stages[0] if form.kind in (Kind.FULL, Kind.LATENT))
    assert kept.page_bytes == whole.page_bytes
    assert (whole.block_tokens, forms.state_mode, kept.block_tokens, kept.state_bytes) == expected


@pytest.mark.parametrize(
    ("version", "capability", "expected"),
    [
        ("0.31.0", _HOPPER, (0, 0)),
        ("0.32.0", _HOPPER, (0, 1)),
        ("0.33.0", _HOPPER, (1, 1)),
        ("0.33.0", _BLACKWELL, (1, 1)),
        ("0.33.0", _AMPERE, (0, 1)),
    ],
)
def test_some_states_are_kept_while_a_prompt_is_read(
    version: str, capability: tuple[int, int], expected: tuple[int, int]
) -> None:
    """Kernels that can hand out a state in the middle of a prompt cost one more state for a request."""
    made = [kv_layers(_shape(*layers), replace(_8K, capability=capability), version) for layers in (_QWEN, _NEMOTRON)]
    states = (form for forms in made for form in forms.stages[0] if form.kind is Kind.STATE)
    assert tuple(form.checkpoint_blocks for form in states) == expected


@pytest.mark.parametrize(
    ("mixer", "ranks", "version", "expected"),
    [
        (Recurrent("mamba1", conv_kernel=4, inner=8192, state=16), 2, "0.19.0", 155_648),
        (_MAMBA2, 1, "0.19.0", 1_085_440),
        # Groups that do not divide are replicated on every rank.
        (replace(_MAMBA2, groups=2), 4, "0.19.0", 269_824),
        (Recurrent("short_conv", conv_kernel=3, inner=2048), 2, "0.19.0", 4096),
        (Recurrent("linear", heads=64, head_dim=96), 2, "0.19.0", 589_824),
        (_KDA, 2, "0.19.0", 1_085_440),
    ],
)
def test_a_state_has_the_bytes_that_vllm_computes(mixer: Recurrent, ranks: int, version: str, expected: int) -> None:
    """Convolution and recurrent state of each kind, as vLLM's own calculator sizes them."""
    forms = kv_layers(_shape((mixer, 2)), replace(_8K, tensor_parallel=ranks), version)
    assert [(form.state_bytes, count) for form, count in forms.stages[0].items()] == [(expected, 2)]


@pytest.mark.parametrize(
    ("layers", "more", "asked", "version", "missing"),
    [
        (((_FULL, 2),), {"missing": ("head_dim",)}, _8K, "0.19.0", "head_dim"),
        ((), {}, _8K, "0.19.0", "the layers"),
        (((_FULL, 2),), {}, replace(_8K, cache_dtype="turboquant_4bit"), "0.30.0", "turboquant_4bit"),
        (((_MLA, 2),), {}, _8K, "0.19.0", "compute capability"),
        (((_SPARSE, 2),), {}, replace(_8K, cache_dtype="fp8"), "0.30.0", "compute capability"),
        (((_MLA, 2),), {}, replace(_8K, capability=_HOPPER), "0.6.6", "compressed latent"),
        (((_SPARSE, 2),), {}, replace(_8K, capability=_HOPPER), "0.10.2", "indexer"),
        (((_GDN, 3), (_WIDE, 1)), {}, replace(_8K, is_v0=True), "0.10.2", "states"),
        (((_GDN, 3), (_WIDE, 1)), {}, _8K, "0.9.2", "block_size of at least"),
        (((_MAMBA2, 3), (_FULL, 1)), {}, replace(_8K, caches_prefixes=True), "0.19.0", "mamba_chunk_size"),
        (((Recurrent("rwkv"), 2),), {}, _8K, "0.19.0", "'rwkv'"),
        (((_FULL, 2),), {}, replace(_8K, stage_layers=(2, 2)), "0.19.0", "stages have 4 layers"),
    ],
)
def test_missing_facts_are_named(
    layers: tuple[Any, ...], more: dict[str, Any], asked: CacheOptions, version: str, missing: str
) -> None:
    """One unknown layer leaves all unknown, and the answer names the missing fact."""
    forms = kv_layers(_shape(*layers, **more), asked, version)
    assert (forms.stages, len(forms.missing)) == ((), 1)
    assert missing in forms.missing[0]


def test_fields_that_only_weights_need_may_be_absent() -> None:
    """The cache can be planned even if the file does not say whether embeddings are tied."""
    forms = kv_layers(_shape((_FULL, 2), missing=("tie_word_embeddings",)), _8K, "0.19.0")
    assert _seen(forms) == [("full", 16, 65_536, 2)]


@pytest.mark.parametrize(
    ("method", "version", "page"),
    [
        ("modelopt", "0.13.0", 65_536),
        ("modelopt", "0.14.1", 32_768),
        ("compressed-tensors", "0.14.1", 65_536),
        ("compressed-tensors", "0.15.1", 32_768),
    ],
)
def test_a_checkpoint_may_decide_the_dtype(method: str, version: str, page: int) -> None:
    """A checkpoint with an 8-bit cache sets it by default, in the releases that read it."""
    quantized = _shape((_FULL, 2), quantization=Quantization(method, kv_cache="fp8"))
    assert _seen(kv_layers(quantized, _8K, version)) == [("full", 16, page, 2)]


@pytest.mark.parametrize(("version", "expected"), [("0.9.2", True), ("0.12.0", False), ("0.14.1", True)])
def test_chunks_disable_the_hybrid_manager_in_some_releases(version: str, expected: bool) -> None:  # noqa: FBT001
    """Attention over chunks keeps all tokens from 0.10 to 0.13."""
    assert kv_layers(_shape((_FULL, 1), (_CHUNKED, 3)), _8K, version).mixes_groups is expected


@pytest.mark.parametrize(
    ("layers", "stages", "version", "expected"),
    [
        (28, 4, "0.19.0", (7, 7, 7, 7)),
        (61, 4, "0.7.3", (15, 15, 15, 16)),
        (61, 4, "0.19.0", (15, 15, 16, 15)),
        (62, 4, "0.19.0", (15, 16, 16, 15)),
        (63, 4, "0.19.0", (16, 16, 16, 15)),
    ],
)
def test_layers_are_split_as_the_release_splits_them(
    layers: int, stages: int, version: str, expected: tuple[int, ...]
) -> None:
    """Extra layers go to the last stage in old releases, to the middle ones in later ones."""
    assert split(layers, Ranks(pipeline=stages), options.version_key(version)) == expected


def test_each_stage_has_its_own_layers_and_the_last_one_the_draft() -> None:
    """Stages are cut from the layers in order, and a draft module's layer is a layer of the last stage."""
    model = replace(_shape((_FULL, 2), (_SLIDING, 4)), mtp=(Layer(_FULL, None),))
    forms = kv_layers(model, replace(_8K, stage_layers=(3, 3), draft_layers=1), "0.19.0")
    assert [{form.kind.value: count for form, count in stage.items()} for stage in forms.stages] == [
        {"full": 2, "sliding": 1},
        {"sliding": 3, "full": 1},
    ]


def test_every_rule_is_changed_by_some_release() -> None:
    """No field of the rules is equal in all releases, except one that was reverted."""
    changed = set(load_table("kv_layer_rules", ValueHistory))
    assert {each.name for each in fields(module.LayerRules)} - changed == {"state_align"}
