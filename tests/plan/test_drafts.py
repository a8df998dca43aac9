"""Separate draft models: their weights and cache, and what a release rejects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from measured import catalog, device, model
from rows import in_one_test
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.budget import Budget, PlannedModel, budget, drafted
from vllm_runbooks.plan.checkpoints import tensor_names
from vllm_runbooks.plan.drafts import (
    Drafting,
    draft,
    draft_in_catalog,
    layers,
    load_draft,
    own_layers,
    refusal,
    unknown,
)
from vllm_runbooks.plan.settings import LaunchSettings, settle
from vllm_runbooks.plan.shape import Attention, shape
from vllm_runbooks.plan.weights import Ranks

_MEASURED: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
"""The model whose drafts were measured."""
_HEAD = {**_MEASURED, "num_hidden_layers": 1, "num_key_value_heads": 2, "intermediate_size": 320}
_THREE = {**_HEAD, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 128}
_WHOLE = {
    **_MEASURED,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "tie_word_embeddings": True,
}
_MEDUSA = {"architectures": ["MedusaModel"], "model_type": "medusa", "hidden_size": 128, "vocab_size": 512,
           "num_heads": 3, "num_hidden_layers": 1, "truncated_vocab_size": 512}  # fmt: skip
_BARE = frozenset({"fc.weight", "layers.0.self_attn.q_proj.weight"})
_WITH_HEAD = _BARE | {"lm_head.weight"}
_PLACED = Ranks()


def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _loaded(
    config: Mapping[str, Any],
    method: str,
    release: str,
    tensors: frozenset[str] | None = None,
    *,
    ranks: Ranks = _PLACED,
    length: int = 1024,
    target: Mapping[str, Any] = _MEASURED,
) -> tuple[int, int, int]:
    """Least, expected and most bytes on a rank; expected without the allocator's rounding."""
    found = load_draft(
        draft("head", config, tensors=tensors),
        Drafting(method, 2, length),
        shape(target),
        ranks,
        release=_key(release),
        dtype="bfloat16",
    )
    assert found is not None
    return found.low, sum(found.components.values()) - found.components["allocator"], found.high


# ---- weights

_LOADED = [
    # Bytes that vLLM's own proposers of these releases had on a CPU beyond the target's, tables of
    # cosines and
    # sines counted, the two scales of a layer's cache (16 bytes) not; weights of bfloat16 with random values.
    ("eagle", "0.11.0", _HEAD, _BARE, 409_856),
    ("eagle", "0.16.0", _HEAD, _BARE, 409_856),
    ("eagle", "0.32.0", _HEAD, _BARE, 409_856),
    ("eagle", "0.11.0", {**_HEAD, "num_hidden_layers": 2}, _BARE, 754_432),
    ("eagle", "0.32.0", {**_HEAD, "num_hidden_layers": 2}, _BARE, 754_432),
    ("eagle3", "0.11.0", _THREE, _WITH_HEAD, 542_720),
    ("eagle3", "0.16.0", _THREE, _WITH_HEAD, 542_720),
    ("eagle3", "0.32.0", _THREE, _WITH_HEAD, 542_720),
    ("eagle3", "0.11.0", {**_THREE, "draft_vocab_size": 512}, _WITH_HEAD, 513_024),
    ("eagle3", "0.16.0", {**_THREE, "draft_vocab_size": 512}, _WITH_HEAD, 644_096),
    ("eagle3", "0.16.0", {**_THREE, "draft_vocab_size": 512}, _BARE, 513_024),
    ("eagle3", "0.32.0", {**_THREE, "draft_vocab_size": 512}, _WITH_HEAD, 640_000),
    ("eagle3", "0.32.0", {**_THREE, "draft_vocab_size": 512}, _BARE, 508_928),
    ("eagle3", "0.11.0", {**_THREE, "eagle_config": {"use_aux_hidden_state": False}}, _WITH_HEAD, 542_720),
    ("eagle3", "0.16.0", {**_THREE, "eagle_config": {"use_aux_hidden_state": False}}, _WITH_HEAD, 444_416),
    ("eagle3", "0.16.0", {**_THREE, "num_hidden_layers": 2}, _WITH_HEAD, 887_552),
    ("eagle3", "0.32.0", {**_THREE, "norm_before_fc": True, "attention_bias": True}, _WITH_HEAD, 544_256),
    ("eagle3", "0.32.0", {**_THREE, "fc_norm": True, "num_aux_hidden_states": 4}, _WITH_HEAD, 576_512),
    ("draft_model", "0.16.0", _WHOLE, None, 394_112),
    ("draft_model", "0.32.0", _WHOLE, None, 394_112),
    ("medusa", "0.11.0", _MEDUSA, None, 327_680),
    ("medusa", "0.32.0", _MEDUSA, None, 327_680),
]


@in_one_test(("method", "release", "config", "tensors", "expected"), _LOADED)
def test_a_draft_has_the_tensors_that_vllm_builds(
    method: str, release: str, config: Mapping[str, Any], tensors: frozenset[str] | None, expected: int
) -> None:
    """Every tensor that a release builds is counted, and none that it shares with the target."""
    assert _loaded(config, method, release, tensors)[1] == expected


@pytest.mark.parametrize(("method", "config", "measured"), [("eagle", _HEAD, 540_928), ("eagle3", _THREE, 673_792)])
def test_a_separate_embedding_is_within_the_range(method: str, config: Mapping[str, Any], measured: int) -> None:
    """Its sharing cannot be known from the files, so both are possible; one was measured."""
    for release in ("0.16.0", "0.32.0"):
        low, expected, high = _loaded(config, method, release, _WITH_HEAD | {"embed_tokens.weight"})
        assert low < expected == measured - 512 * 128 * 2
        assert measured <= high < measured + 2_000


def test_file_names_make_a_head_certain() -> None:
    """Without them a head may have its own embedding; with them it has none."""
    unsure, sure = _loaded(_THREE, "eagle3", "0.19.0"), _loaded(_THREE, "eagle3", "0.19.0", _WITH_HEAD)
    assert unsure[:2] == sure[:2]
    assert unsure[2] - sure[2] == 512 * 128 * 2


@pytest.mark.parametrize(
    ("release", "ranks", "own"),
    [("0.8.5", Ranks(), True), ("0.9.2", Ranks(), False), ("0.9.2", Ranks(pipeline=2), True)],
)
def test_an_embedding_is_shared_by_the_rule_of_the_release(release: str, ranks: Ranks, *, own: bool) -> None:
    """0.8.5 leaves EAGLE its embedding (v1/spec_decode/eagle.py:250), 0.9.2 takes one as large on one stage (:343)."""
    assert _loaded(_HEAD, "eagle", release, ranks=ranks)[1] == 409_856 + (512 * 128 * 2 if own else 0)


def test_a_draft_is_split_as_the_model_is() -> None:
    """Two GPUs have half of each layer matrix; projection, norms and table are on each GPU."""
    whole, half = (_loaded(_HEAD, "eagle", "0.32.0", _BARE, ranks=Ranks(tensor=size))[1] for size in (1, 2))
    fixed = (2 * 128 * 128 + 128) * 2
    assert half - fixed == (whole - fixed) // 2


def test_a_table_that_the_target_has_not_is_counted() -> None:
    """0.27.1 raises a head's positions to the model's (config/speculative.py:1165): then both have one table."""
    short = {**_HEAD, "max_position_embeddings": 64}
    assert _loaded(short, "eagle", "0.26.0", _BARE)[1] == 409_856 + 64 * 32 * 2
    assert _loaded(short, "eagle", "0.27.1", _BARE)[1] == 409_856
    assert _loaded(short, "eagle", "0.27.1", _BARE, length=512)[1] == 409_856 + 512 * 32 * 2


def test_a_file_of_speculators_is_read_as_vllm_reads_it() -> None:
    """Its layer is nested, next to the head's fields (0.33.0 configs/speculators/algos.py:16)."""
    layer = {name: value for name, value in _HEAD.items() if name != "architectures"}
    told = {"speculators_model_type": "eagle3", "draft_vocab_size": 128, "norm_before_fc": True, "architectures": ["X"]}
    found = _loaded({**told, "transformer_layer_config": layer}, "eagle3", "0.32.0", _WITH_HEAD)
    assert found == _loaded({**_THREE, "norm_before_fc": True}, "eagle3", "0.32.0", _WITH_HEAD)


_OWNED = """
0.7.3  deepseek_v3
0.9    MiMoForCausalLM
0.10   Glm4MoeForCausalLM ernie4_5_moe qwen3_next
0.11   deepseek_v32 longcat_flash pangu_ultra_moe
0.14   exaone_moe
0.15   Glm4MoeLiteForCausalLM step3p5
0.16   GlmOcrForConditionalGeneration glm_moe_dsa
0.17   nemotron_h qwen3_5 qwen3_5_moe
0.19   nemotron_h_puzzle
0.20   NemotronH_Super_Omni_Reasoning_V3 deepseek_v4 exaone4_5 hy_v3
0.21   MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM
0.22   intern_s2_preview qwen3_5_moe_text
0.23   Step3p5ForCausalLM Step3p7ForConditionalGeneration step3p7
0.24   MiniMaxM3SparseForConditionalGeneration minimax_m3_vl
0.25   BailingMoeV2_5ForCausalLM bailing_hybrid
0.26   inkling_mm_model inkling_model longcat_flash_ngram
0.27   kimi_k3
0.28   BailingMoeV3ForCausalLM dots3_note interns2_mobius qwen3_5_text
0.29   NemotronH_Omni_Reasoning_V3 hy_v4 qwen4_exp qwen4_exp_text
0.30   BailingMoeV3VLForConditionalGeneration glm5_next
0.33   RadioMBartPrefixForCausalLM Step5ForCausalLM Step5ForConditionalGeneration step5 step5_vl
"""
"""Releases that are the first whose `hf_config_override` turns a kind or an architecture into a model of MTP."""


@in_one_test("row", _OWNED.strip().splitlines())
def test_the_release_since_which_a_models_own_layers_draft(row: str) -> None:
    """By its kind or its architecture, by the earlier of both where both are named."""
    since, *names = row.split()
    for name in names:
        assert own_layers(name, None) == own_layers(None, name) == own_layers("llama", name) == _key(since)
        assert own_layers(name, "Step5ForCausalLM") == own_layers("step5", name) == _key(since)
    assert own_layers("llama", "LlamaForCausalLM") is own_layers(None, None) is None


@pytest.mark.parametrize(
    ("method", "release", "is_refused"),
    [
        ("draft_model", (0, 9, 9), False), ("draft_model", (0, 10), True), ("draft_model", (0, 14, 9), True),
        ("draft_model", (0, 15), False), ("mlp_speculator", (0, 9, 9), False), ("mlp_speculator", (0, 10), True),
        ("mlp_speculator", (0, 33), True), ("medusa", (0, 32, 9), False), ("medusa", (0, 33), True),
        ("eagle", (0, 33), False),
    ],
)  # fmt: skip
def test_methods_without_an_engine_end_the_launch(method: str, release: tuple[int, ...], *, is_refused: bool) -> None:
    """Whole models from 0.10 to 0.15, speculators of a network since 0.10, Medusa since 0.33."""
    assert refusal(method, release) is is_refused


_SAME = {**_THREE, "draft_vocab_size": 512}
_BROUGHT = _WITH_HEAD | {"embed_tokens.weight"}
_CHANGED: list[tuple[str, Mapping[str, Any], str, frozenset[str] | None, str]] = [
    # EAGLE is there since 0.8; its embedding is the target's where both are of one size since 0.9.
    ("an EAGLE without its own embedding", _HEAD, "eagle", _BARE, "8:540928 9:409856"),
    ("positions are raised since 0.27", {**_HEAD, "max_position_embeddings": 64}, "eagle", _BARE,
     "8:545024 9:413952 27:409856"),
    ("EAGLE-3", _THREE, "eagle3", _WITH_HEAD, "8:542720"),
    ("all layers since 0.11.1, the bias of attention since 0.16", {**_THREE, "num_hidden_layers": 2,
     "attention_bias": True}, "eagle3", _WITH_HEAD, "8:542976 11.1:888064 16:889088"),
    ("the target's head in 0.11, no map of one vocabulary since 0.30", _SAME, "eagle3", _BROUGHT,
     "8:775168 9:644096 11:513024 11.1:644096 30:640000"),
    ("a head that is not brought", _SAME, "eagle3", _BARE, "8:644096 11:513024 30:508928"),
    ("no projection without states between layers since 0.12", {**_THREE,
     "eagle_config": {"use_aux_hidden_state": False}}, "eagle3", _WITH_HEAD, "8:542720 12:444416"),
    ("norms of states since 0.18, a number of them since 0.22", {**_THREE, "norm_before_fc": True, "fc_norm": True,
     "num_aux_hidden_states": 4}, "eagle3", _WITH_HEAD, "8:542720 18:543488 22:577536"),
    ("a whole model since 0.15", _WHOLE, "draft_model", None, "15:394112"),
    ("Medusa since 0.9, with whole vocabularies from 0.11.1 to 0.33", {**_MEDUSA, "truncated_vocab_size": 100},
     "medusa", None, "9:131072 11.1:327680 33:0"),
    ("a head that all share", {**_MEDUSA, "truncated_vocab_size": 100, "original_lm_head": True,
     "medusa_fc_bias": True, "num_hidden_layers": 2}, "medusa", None, "9:164864 33:0"),
]  # fmt: skip
"""What a draft loads, and from which release 0.x on; 0: unknown.

Those of 0.11, 0.16 and 0.32 were measured (above); the rest is calculated: an embedding or a head of 512 words is
512 x 128 x 2 bytes, the map of as many 512 x 8, a table of 64 places 64 x 32 x 2; a layer's biases of 128 + 2 x 64
values are 512 bytes in each of two layers; a norm of three states 3 x 128 x 2; a fourth state brings 128 x 128 x 2 to
the projection, and five norms of 128 more; Medusa's two blocks 128 x 128 x 2 and heads of 100 or 512 words; with a
shared head of 100 one head, and four blocks with a bias.
"""


@pytest.mark.parametrize(("what", "config", "method", "tensors", "expected"), _CHANGED)
def test_a_draft_changes_with_the_releases_that_changed_it(
    what: str, config: Mapping[str, Any], method: str, tensors: frozenset[str] | None, expected: str
) -> None:
    """From 0.7 to 0.33 its bytes change exactly where the release's code does."""
    releases = [*(f"0.{minor}.0" for minor in range(7, 12)), "0.11.1", *(f"0.{minor}.0" for minor in range(12, 34))]
    seen, before = [], 0
    for release in releases:
        has_it = not unknown(draft("head", config), Drafting(method, 2), _key(release), Ranks(), target_form=False)
        now = _loaded(config, method, release, tensors)[1] if has_it else 0
        if now != before:
            seen.append(f"{release.removeprefix('0.').removesuffix('.0')}:{now}")
        before = now
    assert " ".join(seen) == expected, what


@pytest.mark.parametrize(
    ("config", "shortened", "blocks"),
    [
        ({}, 512, 1), ({"truncated_vocab_size": None}, 512, 1), ({"truncated_vocab_size": 100}, 100, 1),
        ({"medusa_num_layers": 2}, 512, 2),
    ],
)  # fmt: skip
def test_medusas_heads_have_the_sizes_of_their_file(config: dict[str, Any], shortened: int, blocks: int) -> None:
    """A head per speculated token, each of this many blocks; any field for layers counts."""
    told = {name: value for name, value in _MEDUSA.items() if name not in ("truncated_vocab_size", "num_hidden_layers")}
    # Two heads: blocks of 128 x 128, and rows of as many words, padded to 64, in 0.9 each head's own.
    expected = 2 * 2 * (blocks * 128 * 128 + -(-shortened // 64) * 64 * 128)
    assert _loaded({**told, **config}, "medusa", "0.9.2")[1] == expected


def test_medusas_sizes_have_defaults() -> None:
    """Without them 4096 wide, 32,001 words and one block (0.32.0 transformers_utils/configs/medusa.py:14)."""
    bare = {"architectures": ["MedusaModel"], "model_type": "medusa"}
    assert _loaded(bare, "medusa", "0.9.2")[1] == 2 * 2 * (4096 * 4096 + 32_064 * 4096)
    for sizes in ({"hidden_size": 0}, {"vocab_size": -1}, {"num_hidden_layers": None}):
        said = unknown(draft("heads", {**bare, **sizes}), Drafting("medusa", 2), (0, 9), Ranks(), target_form=False)
        assert said == ("the sizes of its heads",)
    none = unknown(draft("heads", bare), Drafting("medusa", 0), (0, 9), Ranks(), target_form=False)
    assert none == ("the sizes of its heads",)


@pytest.mark.parametrize(
    ("told", "states"),
    [
        ({}, 3),
        ({"num_aux_hidden_states": 2}, 2),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4, 5]}}, 5),
        ({"num_aux_hidden_states": 2, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1]}}, 2),
        ({"eagle_config": "odd"}, 3),
    ],
)
def test_the_file_gives_the_number_of_projected_states(told: dict[str, Any], states: int) -> None:
    """Default three; each widens the projection by the target's (0.22.1 llama_eagle3.py:178)."""
    plain = _loaded(_THREE, "eagle3", "0.22.0", _WITH_HEAD)[1]
    assert _loaded({**_THREE, **told}, "eagle3", "0.22.0", _WITH_HEAD)[1] - plain == (states - 3) * 128 * 128 * 2
    wide = _loaded({**_THREE, **told, "target_hidden_size": 256}, "eagle3", "0.22.0", _WITH_HEAD)[1]
    assert wide - plain == (2 * states - 3) * 128 * 128 * 2


# ---- cache


def test_a_draft_has_the_layers_that_vllm_builds() -> None:
    """0.11.0 always builds one layer of EAGLE-3, 0.16.0 all; Medusa has no cache."""
    head = draft("head", {**_THREE, "num_hidden_layers": 2})
    found = [len(layers(head, "eagle3", _key(release))) for release in ("0.11.0", "0.16.0")]
    assert found == [1, 2]
    mixer = layers(head, "eagle3", (0, 16, 0))[0].mixer
    assert isinstance(mixer, Attention)
    assert (mixer.kv_heads, mixer.head_dim) == (2, 32)  # FullAttentionSpec of both releases: 256 bytes a token
    assert layers(draft("heads", _MEDUSA), "medusa", (0, 16, 0)) == ()


# ---- whole launches

_TARGET, _SMALL = "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"
_EAGLE = "yuhuili/EAGLE-LLaMA3-Instruct-8B"


def _asked(name: str, release: str, told: Mapping[str, Any], **options: Any) -> tuple[PlannedModel, LaunchSettings]:
    given = {"speculative_config": {"num_speculative_tokens": 3, **told}, **options}
    of = drafted(model(name), given, lambda asked: draft_in_catalog(asked, catalog()))
    gpu = catalog().gpu("H100-80GB")
    return of, settle(
        of.shape,
        given,
        release,
        gpu_name="NVIDIA H100 80GB HBM3",
        memory_gib=gpu.memory_gib,
        capability=gpu.version,
        config=of.config,
        draft=of.draft,
    )


def _planned(name: str, release: str, told: Mapping[str, Any], **options: Any) -> Budget:
    of, settings = _asked(name, release, told, **options)
    count = settings.ranks.tensor * settings.ranks.pipeline
    return budget(of, settings, [device("H100-80GB")] * count)


def _weights(found: Budget, rank: int) -> int:
    term = found.ranks[rank].terms[0]
    assert term.band is not None
    return term.band.expected


def test_a_small_model_of_the_catalog_drafts_for_a_large_one() -> None:
    """Each of 8 GPUs has an eighth of 1,235,814,400 parameters and a table."""
    alone = _planned(_TARGET, "0.20.2", {"method": "ngram"}, tensor_parallel_size=8)
    found = _planned(_TARGET, "0.20.2", {"model": _SMALL}, tensor_parallel_size=8)
    assert found.fits is True
    assert found.limits == ()
    assert _weights(found, 0) - _weights(alone, 0) == pytest.approx(1_235_814_400 * 2 / 8 + 131_072 * 64 * 2, rel=0.005)
    assert found.pool is not None
    assert found.pool.bytes_per_block == (16 * 2 * 2 * (80 * 128 + 16 * 64),)
    assert f"the draft model {_SMALL}" in found.ranks[0].terms[0].source


def test_a_head_is_on_the_last_stage_only() -> None:
    """With pipeline stages the last one has the head, its embedding and its cache layer."""
    name = "meta-llama/Meta-Llama-3-8B-Instruct"
    alone = _planned(name, "0.20.2", {"method": "ngram"}, pipeline_parallel_size=2)
    found = _planned(name, "0.20.2", {"model": _EAGLE}, pipeline_parallel_size=2)
    # Attention, network, projection, norm and embedding of the head: 4096 wide, 14336 inside, 8 of 32 heads.
    own = 2 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336 + 2 * 4096**2 + 4096 + 128256 * 4096)
    assert _weights(found, 0) == _weights(alone, 0)
    assert _weights(found, 1) - _weights(alone, 1) == pytest.approx(own, rel=0.005)
    assert found.pool is not None
    assert found.pool.bytes_per_block == tuple(16 * 2 * 8 * 128 * 2 * count for count in (16, 17))


def test_an_unavailable_draft_is_named() -> None:
    """Without a configuration there is no number, and the plan names the missing input."""
    found = _planned(_TARGET, "0.20.2", {"model": "some/drafter"}, tensor_parallel_size=8)
    assert found.fits is None
    assert any("some/drafter: it is not in the catalog; pass a folder" in said for said in found.limits)
    unknown = "some/drafter: it is not in the catalog; pass a folder with its config.json"
    assert found.settings.speculation.unknown == unknown
    assert [(term.band, term.source) for term in found.ranks[0].terms if term.name == "draft"] == [(None, unknown)]


@pytest.mark.parametrize(
    ("release", "told", "said"),
    [
        ("0.8.5", {"model": _SMALL}, "the V0 engine shares the KV cache"),
        ("0.20.2", {"model": _EAGLE, "method": "dflash"}, "vLLM's layout of draft models for dflash"),
        ("0.20.2", {"model": _EAGLE, "quantization": "fp8"}, "how fp8 stores its weights"),
        ("0.20.2", {"method": "extract_hidden_states"}, "the memory of extract_hidden_states drafting"),
        ("0.32.0", {"method": "dspark"}, "the memory of dspark drafting"),
        ("0.32.0", {"method": "mtp", "model": "some/head"}, "the memory of the draft model some/head"),
    ],
)
def test_an_unknown_drafting_method_is_named(release: str, told: Mapping[str, Any], said: str) -> None:
    """A method whose memory was never derived is named as missing."""
    _, found = _asked("meta-llama/Meta-Llama-3-8B-Instruct", release, told)
    assert found.speculation.method == ""
    assert any(said in name for name in found.missing), found.missing


@pytest.mark.parametrize(("options", "is_known"), [({}, True), ({"quantization": "fp8"}, False)])
def test_a_head_may_have_the_quantization_of_its_target(options: Mapping[str, Any], *, is_known: bool) -> None:
    """0.11.0 quantizes an EAGLE-3 head as the target (llama_eagle3.py:37), also where an option alone quantizes it."""
    _, found = _asked("meta-llama/Meta-Llama-3-8B-Instruct", "0.11.0", {"model": _EAGLE}, **options)
    assert (found.speculation.method == "eagle") is is_known
    assert any("the layout of a quantized head" in name for name in found.missing) is not is_known


def test_a_target_with_unknown_weights_is_the_reason() -> None:
    """The known draft model is not named."""
    found = _planned(_TARGET, "0.20.2", {"model": _SMALL}, tensor_parallel_size=8, quantization="quark")
    term = found.ranks[0].terms[0]
    assert (term.band, term.source) == (None, "unknown: how quark stores its weights")


@pytest.mark.parametrize(
    ("config", "how", "release", "ranks", "said"),
    [
        (_HEAD, "eagle", "0.11.0", Ranks(), "the layout of a quantized head"),
        (
            {**_HEAD, "architectures": ["Qwen3ForCausalLM"]},
            "eagle",
            "0.20.2",
            Ranks(),
            "Qwen3ForCausalLM as a draft head",
        ),
        ({**_HEAD, "layer_types": ["sliding_attention"]}, "eagle", "0.20.2", Ranks(), "sliding-window layers"),
        (_WHOLE, "draft_model", "0.20.2", Ranks(pipeline=2), "split over pipeline stages"),
        ({**_MEDUSA, "hidden_size": "wide"}, "medusa", "0.20.2", Ranks(), "the sizes of its heads"),
    ],
)
def test_a_head_with_another_layout_is_not_guessed(
    config: Mapping[str, Any], how: str, release: str, ranks: Ranks, said: str
) -> None:
    """Unread layouts have no bytes; the target is quantized (0.11.0 llama_eagle3.py:37)."""
    found = unknown(draft("head", config), Drafting(how, 3), _key(release), ranks, target_form=True)
    assert any(said in name for name in found), found


@pytest.mark.parametrize(
    ("release", "told", "options", "said"),
    [
        ("0.14.1", {"model": _SMALL}, {}, "does not support the draft method draft_model"),
        (
            "0.16.0",
            {"model": "heads", "method": "mlp_speculator"},
            {},
            "does not support the draft method mlp_speculator",
        ),
        ("0.33.0", {"model": "heads", "method": "medusa"}, {}, "does not support the draft method medusa"),
        ("0.20.2", {"model": "Qwen/Qwen3-0.6B"}, {}, "requires the same vocabulary"),
        (
            "0.20.2",
            {"model": _SMALL, "draft_tensor_parallel_size": 1},
            {"tensor_parallel_size": 8},
            "splits a draft model like the model itself, over 8 GPUs",
        ),
        (
            "0.20.2",
            {"model": _SMALL, "draft_tensor_parallel_size": 4},
            {"tensor_parallel_size": 8},
            "runs a draft model on 1 GPU or on 8, not on 4",
        ),
        ("0.20.2", {"model": _SMALL}, {"tensor_parallel_size": 64}, "32 attention heads"),
    ],
)
def test_a_draft_that_the_release_rejects_is_reported(
    release: str, told: Mapping[str, Any], options: Mapping[str, Any], said: str
) -> None:
    """The launch would end in config/speculative.py or v1/worker/gpu_model_runner.py."""
    _, found = _asked(_TARGET, release, told, **options)
    assert any(said in limit for limit in found.limits), found.limits


@pytest.mark.parametrize(
    ("release", "told", "length"),
    [
        ("0.33.0", {"model": "meta-llama/Meta-Llama-3-8B-Instruct"}, 8192),
        ("0.33.0", {"model": _SMALL}, 131_072),
        ("0.33.0", {"model": _SMALL, "max_model_len": 4096}, 4096),
        ("0.32.0", {"model": "meta-llama/Meta-Llama-3-8B-Instruct"}, 131_072),
        ("0.33.0", {"model": _EAGLE, "method": "eagle"}, 131_072),
    ],
)
def test_a_draft_of_a_shorter_context_shortens_the_requests(release: str, told: Mapping[str, Any], length: int) -> None:
    """0.33.0 config/vllm.py:3025: the newer runner serves none that a whole draft cannot; a head shares places."""
    _, found = _asked("meta-llama/Llama-3.1-8B-Instruct", release, told)
    assert found.is_v2_runner
    assert found.scheduler.max_model_len == length


@pytest.mark.parametrize(
    ("name", "release", "newer"),
    [("a/EAGLE-x", "0.29.0", True), ("a/x.eagle3", "0.29.0", True), ("a/x-DFlash", "0.29.0", True),
     ("a/x", "0.29.0", False)],
)  # fmt: skip
def test_the_method_follows_from_the_name(name: str, release: str, *, newer: bool) -> None:
    """The name gives the method (0.33.0 config/speculative.py:1445); 0.29.0 has only heads."""
    _, found = _asked("meta-llama/Llama-3.1-8B-Instruct", release, {"model": name})
    assert found.speculation.model == name
    assert found.is_v2_runner is newer


def test_a_folder_is_read_with_the_names_in_its_files(tmp_path: Path) -> None:
    """A folder with config.json and weights drafts like a catalog model, and more certainly."""
    (tmp_path / "config.json").write_text(json.dumps({**_HEAD, "vocab_size": 128256, "hidden_size": 4096}))
    header = json.dumps({"fc.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}, "__metadata__": {}})
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0\0")
    assert tensor_names(tmp_path) == frozenset({"fc.weight"})
    told = {"model": str(tmp_path), "method": "eagle", "num_speculative_tokens": 3}
    asked = planner.request(
        "meta-llama/Meta-Llama-3-8B-Instruct",
        "H100-80GB",
        vllm="0.20.2",
        options={"speculative_config": told},
        is_calibrated=False,
    )
    assert asked.model.draft is not None
    assert asked.model.draft.has("embed_tokens") is False
    found = planner.plan(asked)
    assert found.fits is True
    assert f"draft model {tmp_path}" in found.per_gpu[0].terms[0].source


def test_names_come_from_an_index_if_there_is_one(tmp_path: Path) -> None:
    """The index lists every tensor; an empty folder has no names."""
    assert tensor_names(tmp_path) is None
    index = {"weight_map": {"lm_head.weight": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert tensor_names(tmp_path) == frozenset({"lm_head.weight"})
