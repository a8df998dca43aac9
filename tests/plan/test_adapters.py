"""The room for LoRA's adapters is what vLLM sets aside when it wraps a model, to the byte."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from adapters_of_vllm import ask
from rows import in_one_test
from vllm_runbooks.plan.adapters import LoraDemand, counted_in, refusals, room
from vllm_runbooks.plan.budget import Budget, budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import LaunchSettings, LoraSettings, settle
from vllm_runbooks.plan.shape import shape
from vllm_runbooks.plan.terms import GIB, Band
from vllm_runbooks.plan.weights import Ranks, inventory

_PYTHON = os.environ.get("VLLM_RUNBOOKS_TEST_PYTHON")
_SIZES = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512, "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
}  # fmt: skip
_MIXTURE = {
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "norm_topk_prob": True,
}  # fmt: skip


def tiny(model_type: str, architecture: str, **more: Any) -> dict[str, Any]:
    return {**_SIZES, "model_type": model_type, "architectures": [architecture], **more}


_LLAMA = tiny("llama", "LlamaForCausalLM")
_QWEN3_TIED = tiny("qwen3", "Qwen3ForCausalLM", tie_word_embeddings=True)
_PHI3 = tiny("phi3", "Phi3ForCausalLM", original_max_position_embeddings=1024)
_PHI = tiny("phi", "PhiForCausalLM", partial_rotary_factor=0.5, num_key_value_heads=4, intermediate_size=512)
CASES: dict[str, dict[str, Any]] = {
    "llama, 1 of rank 16": {"config": _LLAMA, "loras": 1},
    "llama, 3 of rank 64": {"config": _LLAMA, "loras": 3, "rank": 64},
    "llama, tied": {"config": tiny("llama", "LlamaForCausalLM", tie_word_embeddings=True)},
    "llama, 500 words": {"config": tiny("llama", "LlamaForCausalLM", vocab_size=500)},
    "llama, 2 cards": {"config": _LLAMA, "tensor": 2},
    "llama, 4 cards": {"config": _LLAMA, "tensor": 4},
    "llama, 2 cards, sharded": {"config": _LLAMA, "tensor": 2, "sharded": True},
    "qwen2, tied": {"config": tiny("qwen2", "Qwen2ForCausalLM", tie_word_embeddings=True)},
    "qwen3": {"config": tiny("qwen3", "Qwen3ForCausalLM")},
    "qwen3, tied": {"config": _QWEN3_TIED},
    "phi3": {"config": _PHI3},
    "phi": {"config": _PHI},
    "mistral": {"config": tiny("mistral", "MistralForCausalLM")},
    "qwen3_moe": {"config": tiny("qwen3_moe", "Qwen3MoeForCausalLM", **_MIXTURE)},
    "qwen2_moe": {"config": tiny("qwen2_moe", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=96, **_MIXTURE)},
    "mixtral": {"config": tiny("mixtral", "MixtralForCausalLM", num_local_experts=8, num_experts_per_tok=2)},
}
"""Default of these cases: 2 adapters of rank 16 on one GPU."""
_ASKED = ("llama, 3 of rank 64", "llama, 500 words", "llama, 2 cards, sharded", "qwen3, tied", "phi3")
"""Cases for a new run of a release: each takes ten seconds, and experts cannot run on a CPU."""
MEASURED = {
    "llama, 1 of rank 16": {"0.11.0": 450_560, "0.32.0": 172_032},
    "llama, 3 of rank 64": {"0.8.5": 2_916_352, "0.11.0": 2_916_352, "0.16.0": 2_064_384, "0.32.0": 2_064_384},
    "llama, tied": {"0.11.0": 770_048, "0.32.0": 344_064},
    "llama, 500 words": {"0.11.0": 834_816, "0.32.0": 342_528},
    "llama, 2 cards": {"0.8.5": 669_696, "0.11.0": 669_696, "0.16.0": 274_432, "0.32.0": 274_432},
    "llama, 4 cards": {"0.11.0": 587_776, "0.32.0": 241_664},
    "llama, 2 cards, sharded": {"0.8.5": 612_352, "0.11.0": 612_352, "0.16.0": 217_088, "0.32.0": 217_088},
    "qwen2, tied": {"0.8.5": 262_144, "0.11.0": 262_144, "0.32.0": 262_144},
    "qwen3": {"0.11.0": 262_144, "0.32.0": 344_064},
    "qwen3, tied": {"0.11.0": 262_144, "0.16.0": 385_024, "0.32.0": 344_064},
    "phi3": {"0.8.5": 786_432, "0.11.0": 786_432, "0.16.0": 294_912, "0.32.0": 294_912},
    "mistral": {"0.16.0": 262_144, "0.32.0": 262_144},
    "qwen3_moe": {"0.11.0": 132_096, "0.16.0": 803_840, "0.32.0": 803_840},
    "qwen2_moe": {"0.16.0": 824_448},
    "mixtral": {"0.11.0": 705_536, "0.16.0": 1_393_664, "0.32.0": 1_393_664},
}
"""Bytes of stacked adapter tensors, and of the growth of embedding and head, as measured.

The releases' own LoRAModelManager wrapped the models on a CPU (`adapters_of_vllm`); small flags of
experts are left out.
"""


def asked_of(case: dict[str, Any], version: str, **more: Any) -> LoraDemand:
    key = tuple(map(int, version.split(".")))
    told: dict[str, Any] = {
        "release": key, "ranks": Ranks(tensor=case.get("tensor", 1)), "rank": case.get("rank", 16),
        "slots": case.get("loras", 2), "width": 2, "model_width": 2, "is_sharded": case.get("sharded", False),
        "extra_words": 256 if key < (0, 12) else 0, "has_bias": False, "tokens": 0,
    }  # fmt: skip
    told |= more
    lora = LoraSettings(
        told["rank"], told["slots"], told["width"], told["is_sharded"], told["extra_words"], told["has_bias"]
    )
    return LoraDemand(told["release"], told["ranks"], lora, told["model_width"], told["tokens"])


def sizes(case: dict[str, Any], version: str, **more: Any) -> list[Band | None]:
    return [term.band for term in room(inventory(shape(case["config"])), asked_of(case, version, **more))]


def size(case: dict[str, Any], version: str, **more: Any) -> int:
    band = sizes(case, version, **more)[0]
    assert band is not None
    return band.expected


@in_one_test(
    ("name", "version", "measured"),
    [(name, version, found) for name, by in MEASURED.items() for version, found in by.items()],
)
def test_the_room_matches_the_release(name: str, version: str, measured: int) -> None:
    """Each wrapped layer has the measured bytes, and no range begins below them."""
    band = sizes(CASES[name], version)[0]
    assert band is not None
    assert band.expected == measured
    assert band.low <= measured <= band.high


@pytest.mark.slow
def test_an_installed_release_matches_the_plan() -> None:
    """The vLLM of VLLM_RUNBOOKS_TEST_PYTHON reserves the same bytes, except for experts."""
    if not _PYTHON:
        pytest.skip("VLLM_RUNBOOKS_TEST_PYTHON names no Python with vLLM")
    chosen = {name: CASES[name] for name in _ASKED}
    usual = {"rank": 16, "loras": 2, "tensor": 1, "sharded": False}
    version, real = ask(_PYTHON, [usual | case for case in chosen.values()])
    release = version.partition("+")[0]
    assert {name: size(case, release) for name, case in chosen.items()} == dict(zip(chosen, real, strict=True))


def test_a_bias_and_a_wider_dtype_count() -> None:
    """An adapter's bias is one value for each output, and float32 adapters take twice as much.

    Llama's layer has outputs of 128 + 64 + 64, 128, 256 + 256 and 128 (0.8.5 lora/layers.py:356).
    """
    case = CASES["llama, 1 of rank 16"]
    plain = size(case, "0.8.5", extra_words=0)
    assert size(case, "0.8.5", extra_words=0, has_bias=True) - plain == 2 * 2 * (256 + 128 + 512 + 128)
    assert size(case, "0.32.0", width=4) == 2 * size(case, "0.32.0")


def test_stages_have_the_adapters_of_their_own_layers() -> None:
    """Two stages share the bytes of one; embedding and head belong to the first and the last."""
    case = CASES["llama, 1 of rank 16"]
    first, last = sizes(case, "0.32.0", ranks=Ranks(pipeline=2))
    assert first is not None
    assert last is not None
    # One layer each (65,536 bytes), the embedding's 20,480 and the head's 20,480: the measured
    # 172,032.
    assert (first.expected, last.expected) == (86_016, 86_016)


def test_experts_are_divided_by_size_or_by_number() -> None:
    """Ranks share each expert's inner size, or the experts (0.21.0 fused_moe.py)."""
    case = CASES["qwen3_moe"]
    each = 16 * 2 * 2
    attention = {1: 2 * (40_960 + 16_384), 2: 2 * (32_768 + 12_288)}
    router, ends = 17_408, 40_960 + 40_960
    # Each of 8 experts has w1, w3 and w2 with a side of 128 and one of 64, which two GPUs halve.
    assert size(case, "0.32.0") == attention[1] + router + ends + 2 * each * 8 * 3 * (128 + 64)
    table = 8 * 512
    two = attention[2] + router + ends + table
    assert size(case, "0.32.0", ranks=Ranks(tensor=2)) == two + 2 * each * 8 * 3 * (128 + 32)
    assert size(case, "0.32.0", ranks=Ranks(tensor=2, splits_experts=True)) == two + 2 * each * 4 * 3 * (128 + 64)


@pytest.mark.parametrize(
    ("config", "version", "more", "why"),
    [
        (CASES["mixtral"]["config"], "0.9.2", {}, "does not support LoRA for Mixtral"),
        (tiny("falcon", "FalconForCausalLM"), "0.33.0", {}, "does not support LoRA for Falcon"),
        (tiny("llama", "LlamaForCausalLM", vocab_size=262_144), "0.16.0", {}, "262,144 tokens (at"),
        (_LLAMA, "0.32.0", {"is_sharded": True, "rank": 1, "ranks": Ranks(tensor=2)}, "not a multiple of 2"),
        (CASES["qwen3_moe"]["config"], "0.16.0", {"ranks": Ranks(tensor=2, splits_experts=True)}, "expert-parallel"),
    ],
)  # fmt: skip
def test_a_launch_that_the_release_rejects_is_rejected(
    config: dict[str, Any], version: str, more: dict[str, Any], why: str
) -> None:
    """Models without LoRA, heads with too many words, and exclusive options end the launch."""
    said = list(refusals(shape(config), asked_of({"config": config}, version, **more)))
    assert len(said) == 1
    assert why in said[0]


def test_a_launch_that_worked_is_not_rejected() -> None:
    """None of the measured launches is rejected."""
    for name, by in MEASURED.items():
        for version in by:
            assert list(refusals(shape(CASES[name]["config"]), asked_of(CASES[name], version))) == []


CHANGES = """
Llama Granite DeciLM Exaone4 Ernie4_5 Mixtral Phi3 | 7 9 12
Mistral                                    | 7 9 12 15
Ministral3 Qwen2 MiMo Gemma Gemma2 Gemma3 Glm4 Qwen2Moe Glm4Moe Ernie4_5_Moe | 7 9
Qwen3                                      | 7 9 16 28
Qwen3Moe                                   | 7 9 16
Glm                                        | 7 9 12 32
Phi SeedOss                                | 7 9 32
Olmo2                                      | 7 9 26
Olmo3 HunYuanDenseV1                       | 7 9 29
"""
"""Architectures, and the releases 0.x that changed the adapter memory of a tied model.

Releases 7 to 8 may not count it; 9 is the first after 0.8.5, which does. Padding of adapters on
embedding and head was removed in 0.12; Mistral lost these adapters, Qwen 3 has them since 0.16,
and its tied head was wrapped as a second embedding until 0.28. Classes replaced by the Transformers
backend are unknown from then on (`embedding_modules` in model_executor/models/ of each release,
registry.py).
"""


@in_one_test(
    ("architecture", "changed"),
    [(name, row.split("|")[1]) for row in CHANGES.strip().splitlines() for name in row.split("|")[0].split()]
    + [("Mistral3/", "7 9 10 12 15"), ("Llava/", "7 9 12"), ("Qwen3VL/", "7 9 16 28"), ("Gemma3/", "7 9")]
    + [("Qwen2VL/", "7 9"), ("Qwen2_5_VL/", "7 9")],
)
def test_which_layers_have_adapters_follows_the_class_of_the_release(architecture: str, changed: str) -> None:
    """From 0.6 to 0.33 the room changes with the class; a slash marks a multimodal model."""
    ending = "ForConditionalGeneration" if architecture.endswith("/") else "ForCausalLM"
    config = tiny("llama", architecture.removesuffix("/") + ending, vocab_size=500, tie_word_embeddings=True)
    seen = [sizes({"config": config}, f"0.{minor}.0", extra_words=0)[0] for minor in range(6, 34)]
    assert [str(6 + at) for at in range(1, len(seen)) if seen[at] != seen[at - 1]] == changed.split()


FIRST = """
0.7    Qwen2_5_VL/
0.8    Qwen3 Gemma3 Glm4 Gemma3/
0.9    MiMo Mistral3/ InternVLChatModel.
0.10   SeedOss Olmo2 Exaone4 HunYuanDenseV1 Ernie4_5 Qwen2Moe Qwen3Moe Mixtral Glm4Moe DeepseekV2 DeepseekV3 Deepseek
0.10   Ernie4_5_Moe
0.11   Olmo3 Qwen3VL/
0.11.1 GptOss Llama4/ OPT
0.14   Llava/
0.15   MiniMaxM2
0.20   Ministral3 Gemma4/
0.25   Starcoder2
0.32   BertModel.
"""
"""Releases whose class first has `SupportsLoRA` among its bases; a dot ends a whole name."""


def _whole(name: str) -> str:
    if name.endswith("."):
        return name.removesuffix(".")
    return name.removesuffix("/") + ("ForConditionalGeneration" if name.endswith("/") else "ForCausalLM")


@in_one_test(
    ("since", "name"), [(row.split()[0], name) for row in FIRST.strip().splitlines() for name in row.split()[1:]]
)
def test_a_class_without_adapters_ends_the_launch(since: str, name: str) -> None:
    """The release before the first one with LoRA is rejected by number and class."""
    config = {**_LLAMA, "architectures": [_whole(name)]}
    key = tuple(map(int, since.split(".")))
    before = (0, key[1] - 1, 9) if len(key) < 3 else (0, 11, 0)
    assert list(refusals(shape(config), asked_of({}, since))) == []
    number = ".".join(map(str, before))
    said = [f"vLLM {number} does not support LoRA for {_whole(name)}"]
    assert list(refusals(shape(config), asked_of({}, number, release=before))) == said


@pytest.mark.parametrize("name", ["Falcon", "Zamba2", "Mllama/", "KimiK25/", "MiMoV2Flash"])
def test_some_classes_have_no_adapters_in_any_release(name: str) -> None:
    """Up to the newest known release."""
    assert list(refusals(shape({**_LLAMA, "architectures": [_whole(name)]}), asked_of({}, "0.33.0")))


@pytest.mark.parametrize(
    ("words", "version", "is_refused"),
    [
        (257_024, "0.16.9", False), (257_025, "0.16.9", True), (258_048, "0.17.0", False), (258_049, "0.17.0", True),
        (258_049, "0.33.0", True),
    ],
)  # fmt: skip
def test_a_head_with_adapters_has_so_many_words_at_most(words: int, version: str, is_refused: bool) -> None:  # noqa: FBT001
    """257,024 until 0.17, then 258,048 (lora/layers/logits_processor.py :87); a class without such a head has none."""
    for architecture, limited in (("LlamaForCausalLM", True), ("Qwen2ForCausalLM", False)):
        config = tiny("llama", architecture, vocab_size=words)
        said = list(refusals(shape(config), asked_of({}, version)))
        assert bool(said) == (is_refused and limited)
        assert not said or f"{words:,} tokens (at most {257_024 if version < '0.17' else 258_048:,})" in said[0]


@pytest.mark.parametrize(
    ("version", "release", "is_refused"),
    [("0.11.0", (0, 11), False), ("0.11.1", (0, 11, 1), True), ("0.20.9", (0, 20, 9), True), ("0.21", (0, 21), False)],
)
def test_expert_parallelism_excludes_adapters_of_experts_at_first(
    version: str,
    release: tuple[int, ...],
    is_refused: bool,  # noqa: FBT001
) -> None:
    """From 0.11.1, whose experts have them, until 0.21 (fused_moe.py); without experts or their parallelism never."""
    ranks = Ranks(tensor=2, splits_experts=True)
    for config, given, has in (
        (CASES["qwen3_moe"]["config"], ranks, True),
        (CASES["qwen3_moe"]["config"], Ranks(tensor=2), False),
        (_LLAMA, ranks, False),
    ):
        assert bool(list(refusals(shape(config), asked_of({}, version, release=release, ranks=given)))) == (
            is_refused and has
        )


@pytest.mark.parametrize(
    ("rank", "tensor", "is_refused"), [(16, 4, False), (16, 3, True), (2, 4, True), (16, 1, False)]
)
def test_a_sharded_rank_is_divided_evenly(rank: int, tensor: int, is_refused: bool) -> None:  # noqa: FBT001
    """Only if the rank of adapters is divided."""
    for is_sharded in (False, True):
        asked = asked_of({}, "0.16.0", rank=rank, ranks=Ranks(tensor=tensor), is_sharded=is_sharded)
        assert bool(list(refusals(shape(_LLAMA), asked))) == (is_refused and is_sharded)


@pytest.mark.parametrize(
    ("release", "term"),
    [((0, 6, 9), "non_torch"), ((0, 7), None), ((0, 8, 4), None), ((0, 8, 5), "weights")],
)
def test_the_term_that_counts_adapters_is_the_releases(release: tuple[int, ...], term: str | None) -> None:
    """Outside of PyTorch in 0.6, for sure in none from 0.7 on, among the weights since 0.8.5."""
    assert counted_in(release) == term


def test_adapter_memory_that_no_term_counts_is_reported() -> None:
    """The amount is printed in GiB with two decimals."""
    case: dict[str, Any] = {
        "config": tiny("llama", "LlamaForCausalLM", hidden_size=4096, intermediate_size=16384),
        "loras": 8,
        "rank": 256,
    }
    term = room(inventory(shape(case["config"])), asked_of(case, "0.7.2", extra_words=0))[0]
    # Two layers: inputs 4096 three times and 16384, outputs 4096, 16384 twice, and heads of 128, 64 and 64.
    layer = 3 * 4096 + (128 + 64 + 64) + (128 + 4096) + 2 * (4096 + 16384) + (16384 + 4096)
    ends = (512 + 4096) + (4096 + 512)
    gib = 8 * 256 * 2 * (2 * layer + ends) / GIB
    assert term.band is None
    assert term.source == (
        f"adapters need {gib:.2f} GiB, which vLLM 0.7.2 may not count: then the KV cache gets that memory too"
    )


@pytest.mark.parametrize(
    ("config", "more", "why"),
    [
        (tiny("llama", "FooForCausalLM"), {}, "which layers of FooForCausalLM support LoRA in vLLM 0.32.0"),
        ({**_LLAMA, "num_attention_heads": None}, {}, "num_attention_heads"),
        (CASES["qwen3_moe"]["config"], {"ranks": Ranks(data=2)}, "how expert adapters are split over data parallel"),
        (
            {**CASES["qwen3_moe"]["config"], "quantization_config": {"quant_method": "fp8"}}, {},
            "whether kernels of quantized experts support LoRA",
        ),
    ],
)  # fmt: skip
def test_an_unknown_amount_has_a_reason(config: dict[str, Any], more: dict[str, Any], why: str) -> None:
    """Each stage has a term without a band."""
    ranks = replace(more.get("ranks", Ranks()), pipeline=2)
    terms = room(inventory(shape(config)), asked_of({}, "0.32.0", **{**more, "ranks": ranks}))
    assert [(term.name, term.band) for term in terms] == [("adapters", None)] * 2
    assert why in terms[0].source
    assert terms[0].source.startswith("unknown: ")


def test_a_dense_model_may_have_ranks_of_data_and_be_quantised() -> None:
    """Both hold adapters of experts alone back; so does quantisation only since experts have adapters."""
    quantised = {"quantization_config": {"quant_method": "fp8"}}
    case = {"config": {**_LLAMA, **quantised}}
    assert size(case, "0.32.0", ranks=Ranks(data=2)) == size({"config": _LLAMA}, "0.32.0")
    mixture = {"config": {**CASES["qwen3_moe"]["config"], **quantised}}
    assert size(mixture, "0.11.0") == size(CASES["qwen3_moe"], "0.11.0")


def test_tables_of_tokens_and_the_allocators_rounding_are_counted() -> None:
    """48 bytes for each token of a batch; a 400th of the whole at most is rounded up; the least leaves routers out."""
    case = CASES["qwen3_moe"]
    plain, more = (sizes(case, "0.32.0", tokens=tokens)[0] for tokens in (0, 1000))
    assert plain is not None
    assert more is not None
    assert more.expected - plain.expected == 48_000
    assert more.high == more.expected + more.expected // 400
    # Of two layers' routers, 2 adapters of rank 16: inputs 128, outputs 8.
    assert plain.expected - plain.low == 2 * 2 * 16 * 2 * (128 + 8)


# ---- in a budget


def planned(config: dict[str, Any], version: str, options: dict[str, Any]) -> Budget:
    made = settled(config, version, options)
    cards = [Device("H100-80GB", Band(*(79 * GIB,) * 3), "told", capability=(9, 0))] * made.ranks.tensor
    return budget(subject("tiny", config), made, cards)


def settled(config: dict[str, Any], version: str, options: dict[str, Any]) -> LaunchSettings:
    return settle(
        shape(config),
        options,
        version,
        gpu_name="NVIDIA H100 80GB HBM3",
        memory_gib=79.0,
        capability=(9, 0),
        config=config,
    )


def test_adapters_are_in_the_term_where_the_release_prints_them() -> None:
    """Loading includes them since 0.8.5, non-torch memory in 0.6.6; the cache shrinks."""
    assert (counted_in((0, 6, 6)), counted_in((0, 8, 5)), counted_in((0, 33, 0))) == ("non_torch", "weights", "weights")
    options = {"enable_lora": True, "max_loras": 4, "max_lora_rank": 64, "max_num_batched_tokens": 2048}
    without = planned(_LLAMA, "0.32.0", {"max_num_batched_tokens": 2048})
    found = planned(_LLAMA, "0.32.0", options)
    grown = [
        one.band.expected - other.band.expected
        for one, other in zip(found.ranks[0].terms, without.ranks[0].terms, strict=True)
        if one.name == "weights" and one.band and other.band
    ]
    # 16 times the room of one adapter of rank 16, and the tables of 2,048 tokens.
    assert grown == [16 * 172_032 + 48 * 2048]
    assert found.fits is True


def test_a_release_that_does_not_count_adapters_is_uncertain() -> None:
    """0.7.2 gives their memory to the cache as well; the plan prints the amount as uncertain."""
    found = planned(_LLAMA, "0.7.2", {"enable_lora": True})
    assert found.fits is None
    assert any("may not count" in said for said in found.limits)


def test_a_class_with_unknown_layers_is_named() -> None:
    """The weights stay known, the adapters and the cache are not."""
    found = planned(tiny("phi", "PhiForCausalLM", partial_rotary_factor=0.5), "0.33.0", {"enable_lora": True})
    assert found.fits is None
    assert any("PhiForCausalLM" in said for said in found.limits)
    assert [term.name for term in found.ranks[0].terms if term.band is None] == ["adapters"]


@pytest.mark.parametrize("option", ["lora_target_modules", "enable_tower_connector_lora", "enable_moe_shared_loras"])
def test_options_that_change_which_layers_have_adapters_are_named(option: str) -> None:
    """If an option's effect on adapters is unknown, the plan is uncertain and names it."""
    found = planned(_LLAMA, "0.32.0", {"enable_lora": True, option: ["o_proj"] if "target" in option else True})
    assert found.fits is None
    assert any(option in said for said in found.limits)


def test_the_dtype_of_adapters_is_the_options_or_the_models() -> None:
    """`--lora-dtype` decides the bytes of a value; without it the model's dtype does."""
    for options, width in (
        ({}, 2),
        ({"dtype": "float32"}, 4),
        ({"dtype": "float32", "lora_dtype": "bfloat16"}, 2),
    ):
        assert settled(_LLAMA, "0.32.0", {"enable_lora": True, **options}).lora.value_bytes == width
