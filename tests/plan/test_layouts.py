"""Layouts of the given GPUs: which are valid, which fit, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options, specs, support
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.lint import meaning
from vllm_runbooks.plan import fleet, layouts, planned, planner
from vllm_runbooks.plan.budget import PlannedModel, budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.kv_cache import Kind, KvLayer
from vllm_runbooks.plan.layouts import CopySplit, LayoutChoice, candidates, illegal, placed, ways
from vllm_runbooks.plan.settings import LaunchSettings, settle
from vllm_runbooks.plan.shape import (
    Attention,
    Dense,
    Encoder,
    Experts,
    Format,
    Latent,
    Layer,
    Quantization,
    Recurrent,
    Shape,
)
from vllm_runbooks.plan.weights import Ranks

PHONE = "zai-org/AutoGLM-Phone-9B"
PHONE_OPTIONS = {"max_model_len": 25480, "limit_mm_per_prompt": {"image": 10}}


@cache
def shelf() -> specs.Specs:
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> PlannedModel:
    file = shelf().file(name)
    return subject(name, file.config, is_partial=file.is_partial, source=file.source)


def cards(said: str) -> tuple[Device, ...]:
    """GPUs in the form of a request."""
    return tuple(map(Device.of, shelf().gpus(said)))


def start(name: str, release: str, given: dict[str, Any], first: Device) -> LaunchSettings:
    gpu = shelf().gpu(first.name)
    assert gpu is not None
    return settle(
        model(name).shape,
        given,
        release,
        gpu_name=(gpu.aliases or (gpu.name,))[0],
        memory_gib=gpu.memory_gib,
        capability=gpu.version,
        config=model(name).config,
    )


def judged(
    name: str, said: str, release: str = "0.16.0", given: dict[str, Any] | None = None, **more: Any
) -> tuple[LayoutChoice, ...]:
    def make(ranks: Ranks, first: Device) -> LaunchSettings:
        sizes = {
            "tensor_parallel_size": ranks.tensor,
            "pipeline_parallel_size": ranks.pipeline,
            "data_parallel_size": ranks.data,
        }
        return start(name, release, {**(given or {}), **sizes}, first)

    return ways(model(name), make, cards(said), **more)


def named(found: Sequence[LayoutChoice], name: str) -> LayoutChoice:
    return next(way for way in found if way.name == name)


def key(release: str) -> tuple[int, ...]:
    return (options.version_key(release) or ())[:3]


@pytest.mark.parametrize("count", [1, 2, 3, 6, 8, 12])
def test_every_split_of_the_gpus_is_considered_once(count: int) -> None:
    """Each ordered product of TP, PP and DP up to the number of GPUs, with its replicas."""
    found = candidates(count)
    sizes = [(split.tensor, split.pipeline, split.data) for split in found]
    wanted = {
        (tensor, pipeline, data)
        for tensor in range(1, count + 1)
        for pipeline in range(1, count + 1)
        for data in range(1, count + 1)
        if tensor * pipeline * data <= count
    }
    assert len(sizes) == len(set(sizes)) == len(wanted)
    assert set(sizes) == wanted
    assert all(split.cards <= count < split.cards + split.each for split in found)
    used = [split.cards for split in found]
    assert used == sorted(used, reverse=True)


REFUSED = [
    # 12 heads of the tower: 0.16.0 models/glm4_1v.py:271.
    (PHONE, Ranks(8), "0.16.0", "12 heads of the encoder"),
    # 28 heads: 0.16.0 config/model.py:1049.
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(8), "0.16.0", "28 attention heads"),
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(8), "0.6.6", "28 attention heads"),
    # 64 heads of queries and 8 of keys: 0.25.1 layers/linear.py:995.
    ("Qwen/Qwen3-32B", Ranks(5), "0.25.1", "8 key-value heads"),
    # 151,936 rows of the vocabulary: 0.16.0 layers/vocab_parallel_embedding.py:289.
    ("Qwen/Qwen3-32B", Ranks(5), "0.25.1", "vocabulary"),
    # 29,696 / 16 = 1,856 = 14.5 x 128: 0.16.0 quantization/utils/marlin_utils.py:190.
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", Ranks(16), "0.16.0", "groups of 128"),
    # 768 / 4 = 192 = 1.5 x 128: 0.16.0 quantization/fp8.py:722.
    ("Qwen/Qwen3-30B-A3B-FP8", Ranks(4), "0.16.0", "groups of 128"),
    # The experts are cut by the ranks of all copies: 0.16.0 fused_moe/config.py:932.
    ("Qwen/Qwen3-30B-A3B-FP8", Ranks(2, 1, 2), "0.16.0", "groups of 128"),
    # No `SupportsPP`: models/zamba2.py of all releases.
    ("Zyphra/Zamba2-1.2B-instruct", Ranks(1, 2), "0.16.0", "does not support pipeline parallelism"),
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(1, 29), "0.16.0", "more than the model's 28 layers"),
    # 0.16.0 distributed/utils.py:118-121.
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(1, 2, partition=(14, 13)), "0.16.0", "sum(partitions)=27 does not match"),
    (
        "Qwen/Qwen2.5-7B-Instruct",
        Ranks(1, 3, partition=(14, 14)),
        "0.16.0",
        "len(partitions)=2 does not match pp_size=3.",
    ),
    # Options that these releases' parsers do not have.
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(1, 1, 2), "0.7.2", "no --data-parallel-size"),
    # 0.16.0 config/model.py:1057.
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(2, splits_experts=True), "0.16.0", "without experts"),
]


@in_one_test(("name", "ranks", "release", "said"), REFUSED)
def test_a_rejected_split_has_a_reason(name: str, ranks: Ranks, release: str, said: str) -> None:
    """A split that vLLM's sources reject is invalid, and the reason names what does not divide."""
    found = illegal(model(name), ranks, key(release))
    assert any(said in sentence for sentence in found), found


STARTED = [
    ("Qwen/Qwen2.5-1.5B-Instruct", Ranks(2), "0.7.2"),
    ("Qwen/Qwen2.5-1.5B-Instruct", Ranks(4), "0.16.0"),
    (PHONE, Ranks(2), "0.16.0"),
    (PHONE, Ranks(4), "0.16.0"),
    (PHONE, Ranks(8, encoder_data=True), "0.16.0"),
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(1, 3), "0.16.0"),
    ("Qwen/Qwen3-30B-A3B-FP8", Ranks(4, splits_experts=True), "0.16.0"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", Ranks(8), "0.16.0"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", Ranks(16), "0.33.0"),
    ("openai/gpt-oss-20b", Ranks(8), "0.19.0"),
    ("deepseek-ai/DeepSeek-V3", Ranks(8), "0.19.0"),
    ("Qwen/Qwen2.5-7B-Instruct", Ranks(1, 1, 2), "0.8.5"),
]


@pytest.mark.parametrize(("name", "ranks", "release"), STARTED)
def test_an_accepted_split_is_valid(name: str, ranks: Ranks, release: str) -> None:
    """Repeated heads, stages of unequal length and whole experts are valid."""
    assert illegal(model(name), ranks, key(release)) == ()


def test_an_encoder_that_is_not_loaded_limits_no_split() -> None:
    """With every modality limited to 0, the tower's heads do not matter."""
    assert illegal(model(PHONE), Ranks(8), (0, 16, 0), encoder_off=True) == ()


def test_too_few_gpus_are_reported() -> None:
    """The message has both numbers."""
    assert illegal(model(PHONE), Ranks(4), (0, 16, 0), cards("2xRTX3090")) == ("needs 4 GPUs, 2 available",)


_DIVISIBLE = {
    "meaning.heads-not-divisible", "meaning.kv-heads-not-divisible", "meaning.vocabulary-not-divisible",
    "meaning.quantization-groups-cut", "meaning.encoder-heads-not-divisible",
}  # fmt: skip


@pytest.mark.parametrize("release", ["0.8.5", "0.16.0", "0.33.0"])
def test_no_layout_fails_the_linter(release: str) -> None:
    """For every catalog model with known layers, sizes that the linter rejects are invalid."""
    seen = 0
    for file in shelf().files:
        asked = model(file.id)
        if not asked.shape.kinds:
            continue
        for size in (2, 3, 4, 8, 16):
            start_ = meaning.LaunchFacts({"tensor_parallel_size": size}, support.load(release), shelf().model(file.id))
            if any(broken.rule in _DIVISIBLE for broken in meaning.rules_broken(start_)):
                seen += 1
                assert illegal(asked, Ranks(size), key(release)), (file.id, size)
    assert seen > 100


def test_gpus_of_one_kind_and_host_stay_together() -> None:
    """In any order of the GPUs, if a kind and host has enough of them."""
    mixed = cards("RTX3090@a,RTX4090@a,RTX3090@a,RTX4090@a,2xRTX3090@b")
    assert placed(mixed, CopySplit(3, 2, 1, 1)) == ((0, 2), (1, 3), (4, 5))
    assert placed(mixed, CopySplit(1, 2, 3, 1)) == ((0, 2, 1, 3, 4, 5),)
    assert placed(cards("3xA100-80GB@a,3xA100-80GB@b"), CopySplit(1, 2, 3, 1)) == ((0, 1, 2, 5, 3, 4),)


def test_eight_3090s_serve_a_9b_model_in_pairs() -> None:
    """One GPU is too small, and more than two communicate over PCIe."""
    found = judged(PHONE, "8xRTX3090", given=PHONE_OPTIONS)
    best = found[0]
    assert (best.replicas, best.ranks.tensor, best.ranks.pipeline, best.ranks.data) == (4, 2, 1, 1)
    assert best.fits
    assert best.serves
    assert best.idle == 0
    assert named(found, "8 x 1 GPU").fits is False
    eight = named(found, "1 x TP 8")
    assert not eight.legal
    assert eight.budget is None
    assert "12 heads" in eight.why_not[0]
    assert named(found, "2 x TP 4").slow
    assert "over PCIe" in " ".join(named(found, "2 x TP 4").reasons)
    assert any("one GPU is not enough" in said for said in best.reasons)
    assert sum(len(way.places) == way.replicas for way in found) == len(found)


def test_a_model_that_fits_one_gpu_may_be_split_for_its_cache() -> None:
    """Both layouts are listed with the cost of replicated weights; single GPUs have no traffic."""
    given = {**PHONE_OPTIONS, "limit_mm_per_prompt": {"image": 10, "video": 0}, "gpu_memory_utilization": 0.95}
    found = judged(PHONE, "8xRTX3090", given=given)
    single, pairs = named(found, "8 x 1 GPU"), named(found, "4 x TP 2")
    assert single.fits
    assert pairs.fits
    assert found[0] is pairs
    assert "there is no traffic between GPUs" in single.reasons
    assert pairs.concurrency_total
    assert single.concurrency_total
    assert pairs.concurrency_total > 2 * single.concurrency_total
    assert any("instead of 8 times" in said for said in pairs.reasons)


def test_layouts_are_sorted_by_rank_and_invalid_ones_are_last() -> None:
    """By the tuple that `LayoutChoice.rank` documents."""
    found = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given={"max_model_len": 8192})
    assert [way.rank for way in found] == sorted(way.rank for way in found)
    legal = [way.legal for way in found]
    assert legal == sorted(legal, reverse=True)
    assert not all(legal)
    assert all(way.budget is not None for way in found if way.legal)


def test_requests_above_the_limit_do_not_count() -> None:
    """More cache than `max_num_seqs` needs does not justify communication."""
    given = {"max_model_len": 1024, "max_num_seqs": 16}
    best = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given=given)[0]
    assert best.name == "8 x 1 GPU"
    assert best.useful == 8 * 16


def test_a_layout_on_fewer_gpus_is_listed() -> None:
    """If a replica fits on some of the GPUs, the number of idle ones is printed."""
    few = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given={"max_model_len": 8192})
    way = named(few, "1 x 1 GPU")
    assert way.idle == 7
    assert "7 of 8 GPUs stay idle" in way.reasons
    assert way.rank > few[0].rank


def test_gpus_stay_idle_only_if_no_layout_uses_all() -> None:
    """A model of two wide layers uses two of three GPUs: three stages or ranks are impossible."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 8192,
        "intermediate_size": 327_680,
        "num_hidden_layers": 2,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 32_000,
        "max_position_embeddings": 4096,
    }
    wide = subject("two wide layers", config)
    devices = cards("3xRTX3090")

    def make(ranks: Ranks, _: Device) -> LaunchSettings:
        given = {
            "tensor_parallel_size": ranks.tensor,
            "pipeline_parallel_size": ranks.pipeline,
            "data_parallel_size": ranks.data,
        }
        return settle(wide.shape, given, "0.16.0", gpu_name="RTX 3090", memory_gib=24, capability=(8, 6))

    found = ways(wide, make, devices)
    assert found[0].fits
    assert found[0].name == "1 x TP 2"
    assert found[0].idle == 1
    assert all(way.fits is False for way in found if not way.idle)


def test_stages_of_unequal_gpus_have_layers_by_memory() -> None:
    """Of 64 layers the larger GPU has most; even stages do not fit the smaller one."""
    found = judged("Qwen/Qwen3-32B", "RTX3090,A100-80GB", given={"max_model_len": 8192})
    way = named(found, "1 x PP 2")
    parts = way.ranks.partition
    assert way.fits
    assert parts is not None
    assert sum(parts) == 64
    assert parts[1] > 2 * parts[0]
    assert way.environment == {"VLLM_PP_LAYER_PARTITION": ",".join(map(str, parts))}
    even = start("Qwen/Qwen3-32B", "0.16.0", {"max_model_len": 8192, "pipeline_parallel_size": 2}, way.devices[0])
    assert budget(model("Qwen/Qwen3-32B"), even, way.devices).fits is False
    assert any("VLLM_PP_LAYER_PARTITION" in said for said in way.reasons)
    assert found[0] is way


def test_stages_set_in_the_environment_limit_every_layout() -> None:
    """VLLM_PP_LAYER_PARTITION fixes the number of stages (distributed/utils.py, 0.16.0 :118)."""
    found = judged("Qwen/Qwen3-32B", "2xA100-80GB-SXM", given={"max_model_len": 8192}, like=Ranks(partition=(20, 44)))
    assert [way.name for way in found if way.legal] == ["1 x PP 2"]
    assert found[0].ranks.partition == (20, 44)
    assert all("VLLM_PP_LAYER_PARTITION=20,44" in way.why_not[0] for way in found[1:])


def test_replicas_on_different_gpus_have_their_own_budgets() -> None:
    """Their capacities are summed; the replica that is shown is the smallest."""
    given = {"max_model_len": 8192}
    found = named(judged("Qwen/Qwen2.5-1.5B-Instruct", "RTX3090,H100-80GB-SXM", "0.19.0", given), "2 x 1 GPU")
    each = [
        named(judged("Qwen/Qwen2.5-1.5B-Instruct", said, "0.19.0", given), "1 x 1 GPU").concurrency_total or 0.0
        for said in ("RTX3090", "H100-80GB-SXM")
    ]
    assert found.concurrency_total == pytest.approx(sum(each))
    assert each[1] > 2 * each[0]
    assert found.devices[0].name == "RTX3090"


def test_tensor_parallelism_stays_within_a_host() -> None:
    """Layouts that split every layer over two hosts come last."""
    found = judged("Qwen/Qwen3-32B", "2xA100-80GB-SXM@a,2xA100-80GB-SXM@b", given={"max_model_len": 8192})
    four = named(found, "1 x TP 4")
    assert four.slow == 2
    assert any("on different hosts" in said for said in four.reasons)
    assert found[0].slow == 0
    assert found[0].rank < four.rank
    stages = named(found, "1 x TP 2 PP 2")
    assert [device.node for device in stages.devices] == ["a", "a", "b", "b"]
    assert any("only hidden states" in said for said in stages.reasons)
    assert any("needs --nnodes, or Ray" in said for said in stages.reasons)


def test_releases_without_nnodes_need_ray() -> None:
    """0.11.2 is the first of the releases read that has the option; before it several hosts are a Ray cluster."""
    found = judged("Qwen/Qwen3-32B", "A100-80GB-SXM@a,A100-80GB-SXM@b", "0.9.2", {"max_model_len": 8192})
    assert any("a Ray cluster" in said for said in named(found, "1 x PP 2").reasons)


def test_nvlink_makes_groups_of_more_than_two_gpus_fast() -> None:
    """The same split is slow over PCIe, and unknown over an unknown interconnect."""
    slow = {
        said: named(judged("Qwen/Qwen3-32B", f"4x{said}", given={"max_model_len": 8192}), "1 x TP 4")
        for said in ("A100-80GB-PCIe", "A100-80GB-SXM", "A100-80GB")
    }
    assert [way.slow for way in slow.values()] == [1, 0, 0]
    assert any("unknown" in said for said in slow["A100-80GB"].reasons)


def test_data_parallelism_without_experts_ranks_after_separate_servers() -> None:
    """It is listed and described, after the same number of servers."""
    found = judged("Qwen/Qwen2.5-7B-Instruct", "2xRTX4090", given={"max_model_len": 8192})
    twin, servers = named(found, "1 x DP 2"), named(found, "2 x 1 GPU")
    assert twin.is_twin
    assert servers.rank < twin.rank
    assert twin.concurrency_total == servers.concurrency_total
    assert any("the same as separate servers" in said for said in twin.reasons)


def test_a_latent_cache_is_replicated_on_every_rank() -> None:
    """With latent attention, data parallelism serves more requests than tensor parallelism."""
    found = judged("deepseek-ai/DeepSeek-V3", "8xH200", "0.19.0", {"max_model_len": 32768})
    tensor, data = named(found, "1 x TP 8"), named(found, "1 x TP 2 DP 4")
    assert tensor.concurrency_total
    assert data.concurrency_total
    assert data.concurrency_total > 2 * tensor.concurrency_total
    assert any("whole latent cache" in said for said in tensor.reasons)
    small = judged("deepseek-ai/DeepSeek-V2-Lite-Chat", "2xH200", "0.19.0", {"max_model_len": 8192})
    keeps = "every one of the 2 ranks keeps the whole latent cache"
    assert [keeps in named(small, name).reasons for name in ("1 x TP 2", "2 x 1 GPU")] == [True, False]
    assert not _said(named(small, "2 x 1 GPU"), "latent cache")


def test_a_layout_that_does_not_fit_names_its_limit_first() -> None:
    """One that fits names no limits."""
    found = judged("Qwen/Qwen2.5-32B-Instruct", "4xRTX4090", given={"max_model_len": 8192})
    single, whole = named(found, "4 x 1 GPU"), named(found, "1 x TP 4")
    assert (single.fits, whole.fits) == (False, True)
    assert single.budget is not None
    assert single.reasons[0] == single.budget.limits[0]


def test_the_requested_context_counts() -> None:
    """Concurrency is counted at this context; one beyond `max_model_len` is not served."""
    given = {"max_model_len": 8192}
    short = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given, context=4096)[0]
    whole = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given)[0]
    assert short.concurrency_total == pytest.approx(2 * (whole.concurrency_total or 0), rel=0.01)
    assert judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given, context=16384)[0].serves is False


def test_speed_is_bounded_by_the_bytes_per_token() -> None:
    """Qwen2.5-7B reads 28 layers, the head and the cache of 4 KV heads at 1,008 GB/s."""
    way = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given={"max_model_len": 8192})[0]
    layer = 2 * 3584 * 3584 + 2 * 512 * 3584 + 3 * 3584 * 18944
    weights = 2 * (28 * layer + 152_064 * 3584)
    cached = 8192 * 28 * 2 * 4 * 128 * 2
    assert way.speed is not None
    assert way.speed.tokens_per_s == pytest.approx(1008e9 / (weights + cached), rel=0.002)
    assert "read once per token" in way.speed.basis
    assert "8,192 tokens" in way.speed.basis


def test_of_a_mixture_only_the_experts_that_run_are_read() -> None:
    """gpt-oss-20b runs 4 of 32 experts: the bound is between 1 and 8 times that of all weights."""
    way = judged("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_model_len": 8192})[0]
    assert way.speed is not None
    assert way.budget is not None
    band = way.budget.ranks[0].terms[0].band
    assert band is not None
    everything = (way.devices[0].bandwidth_gb_s or 0) * 1e9 / band.expected
    assert 3 < way.speed.tokens_per_s / everything < 32 / 4


def test_speed_is_not_guessed_without_a_bandwidth() -> None:
    """A GPU with an unknown bandwidth has no bound."""
    device = Device("a card", cards("RTX4090")[0].total, capability=(8, 9), interconnect="pcie")
    made = start("Qwen/Qwen2.5-7B-Instruct", "0.16.0", {"max_model_len": 8192}, cards("RTX4090")[0])
    asked = model("Qwen/Qwen2.5-7B-Instruct")
    assert layouts.speed(asked, budget(asked, made, [device]), 8192) is None


def test_an_unknown_layout_neither_fits_nor_fails() -> None:
    """Unknown GPU memory leaves every valid layout open and is named."""
    device = Device("a card", None, "unknown: how much of it the driver reserves", capability=(8, 9))
    made = start("Qwen/Qwen2.5-7B-Instruct", "0.16.0", {"max_model_len": 8192}, cards("RTX4090")[0])
    found = ways(model("Qwen/Qwen2.5-7B-Instruct"), lambda *_: made, [device])
    assert found[0].legal
    assert found[0].fits is None
    assert found[0].concurrency_total is None
    assert any("unknown" in said for said in found[0].reasons)


# ---- what a release rejects, one reason at a time


_FULL = Attention("full", heads=12, kv_heads=4, head_dim=8, value_dim=8)


def _told(*layers: Layer, **more: Any) -> PlannedModel:
    """A model with one of each of these layers."""
    named = {"architecture": "LlamaForCausalLM", "model_type": "llama", "text_type": "llama", "dtype": "bfloat16"}
    sizes = {"hidden_size": 64, "vocabulary_size": 1000, "kinds": layers, "pattern": tuple(range(len(layers)))}
    return PlannedModel("made up", {}, Shape(**{**named, **sizes, **more}))


def _tower(family: str, **sizes: Any) -> dict[str, Any]:
    return {"encoders": (Encoder(family, sizes),)}


def _saved(method: str, form: Format, **more: Any) -> dict[str, Any]:
    return {"quantization": Quantization(method, ((("Linear",), form),), **more)}


_WIDE = "the feed-forward width"
_GROUPS, _BLOCKS = Format(4, group=16), Format(8, strategy="block", block=(16, 16), is_float=True)
_SPLITS = [
    # model, ranks, release, what is rejected
    (_told(Layer(_FULL, None)), Ranks(1), "0.16.0", ()),
    (_told(Layer(_FULL, None)), Ranks(12), "0.16.0", ("the vocabulary's 1,024 padded rows cannot be split over 12",)),
    (_told(Layer(_FULL, None)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, None)), Ranks(8), "0.16.0", ("12 attention heads cannot be split over 8 ranks",)),
    (
        _told(Layer(replace(_FULL, heads=24, kv_heads=12), None), vocabulary_size=512),
        Ranks(8),
        "0.16.0",
        ("12 key-value heads can be neither split over 8 ranks nor repeated evenly",),
    ),
    (_told(Layer(replace(_FULL, heads=24, kv_heads=24), None), vocabulary_size=512), Ranks(8), "0.16.0", ()),
    (_told(Layer(Latent(12, None, 8, 8, 8, 8), None)), Ranks(8), "0.16.0", ("12 attention heads cannot",)),
    (_told(Layer(Latent(12, None, 8, 8, 8, 8), None)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, None), vocabulary_size=64), Ranks(2), "0.16.0", ()),
    (
        _told(Layer(replace(_FULL, kv_heads=12), None), vocabulary_size=65),
        Ranks(3),
        "0.16.0",
        ("the vocabulary's 128 padded rows",),
    ),
    (_told(Layer(Recurrent("mamba1", inner=12, heads=3), None)), Ranks(4), "0.16.0", ()),
    (_told(Layer(Recurrent("mamba1", inner=12), None)), Ranks(8), "0.16.0", ("12 inner width of the recurrent",)),
    (_told(Layer(Recurrent("mamba2", heads=12, groups=1), None)), Ranks(4), "0.16.0", ()),
    (_told(Layer(Recurrent("mamba2", heads=12, groups=2), None)), Ranks(2), "0.16.0", ()),
    (_told(Layer(Recurrent("mamba2", heads=12, groups=2), None)), Ranks(4), "0.16.0", ("2 groups of the recurrent",)),
    (_told(Layer(Recurrent("mamba2", heads=12, groups=8), None)), Ranks(8), "0.16.0", ("12 heads of the recurrent",)),
    (_told(Layer(Recurrent("gdn", key_heads=4, value_heads=8, groups=3), None)), Ranks(4), "0.16.0", ()),
    (
        _told(Layer(Recurrent("gdn", key_heads=4, value_heads=12), None)),
        Ranks(8),
        "0.16.0",
        ("4 key heads of the recurrent", "12 value heads of the recurrent"),
    ),
    (_told(Layer(Recurrent("short_conv", inner=12), None)), Ranks(8), "0.16.0", ("12 width of the recurrent",)),
    (_told(Layer(Recurrent("linear", heads=12, groups=8), None)), Ranks(8), "0.16.0", ("12 heads of the recurrent",)),
    (_told(Layer(Recurrent("linear", heads=8, groups=1), None)), Ranks(2), "0.17.0", ("1 groups of the recurrent",)),
    (_told(Layer(Recurrent("linear", heads=8, groups=4), None)), Ranks(4), "0.17.0", ()),
    (_told(Layer(_FULL, None, also=Recurrent("mamba2", heads=6))), Ranks(4), "0.16.0", ("6 heads of the",)),
    (_told(Layer(_FULL, None), Layer(_FULL, None)), Ranks(1, 2), "0.16.0", ()),
    (_told(Layer(_FULL, None)), Ranks(1, 2), "0.16.0", ("2 pipeline stages are more than the model's 1 layers",)),
    (_told(), Ranks(1, 2), "0.16.0", ()),
    (_told(Layer(_FULL, None), architecture="BertModel"), Ranks(1), "0.16.0", ()),
    (
        _told(Layer(_FULL, None), Layer(_FULL, None), architecture="BertModel"),
        Ranks(1, 2),
        "0.16.0",
        ("BertModel does not support pipeline parallelism",),
    ),
    (_told(Layer(_FULL, None)), Ranks(1, 1, 2), "0.7.2", ("vLLM 0.7.2 has no --data-parallel-size",)),
    (_told(Layer(_FULL, None)), Ranks(1, 1, 1), "0.7.2", ()),
    (_told(Layer(_FULL, Experts(4, 1, 64))), Ranks(splits_experts=True), "0.7.2", ("has no --enable-expert-parallel",)),
    (_told(Layer(_FULL, Experts(4, 1, 64))), Ranks(splits_experts=True), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(64))), Ranks(splits_experts=True), "0.16.0", ("for a model without experts",)),
    (_told(), Ranks(splits_experts=True), "0.16.0", ()),
    (_told(Layer(_FULL, None), **_tower("llava", num_attention_heads=6)), Ranks(4), "0.16.0", ("6 heads of the enc",)),
    (_told(Layer(_FULL, None), **_tower("llava", num_attention_heads=8)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, None), **_tower("qwen2_vl", num_heads=6)), Ranks(4), "0.16.0", ("6 heads of the encoder",)),
    (_told(Layer(_FULL, None), **_tower("another", num_heads=6)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, None), **_tower("qwen2_vl", num_heads="6")), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, None), **_tower("qwen2_vl", num_heads=6)), Ranks(4, encoder_data=True), "0.16.0", ()),
    (_told(Layer(_FULL, None), **_tower("qwen2_vl", num_heads=6)), Ranks(1), "0.16.0", ()),
    (_told(Layer(_FULL, None), encoders=None), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(50))), Ranks(4), "0.16.0", (f"{_WIDE} 50 cannot be split over 4 ranks",)),
    (_told(Layer(_FULL, Dense(52))), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(51))), Ranks(2), "0.16.0", (f"{_WIDE} 51 cannot be split over 2 ranks",)),
    (_told(Layer(_FULL, Dense(52), beside=Dense(50))), Ranks(4), "0.16.0", (f"{_WIDE} 50 cannot be",)),
    (
        _told(Layer(_FULL, Dense(96)), **_saved("awq", _GROUPS)),
        Ranks(4),
        "0.16.0",
        (f"{_WIDE} 96 over 4 ranks leaves 24, which cuts awq's groups of 16 weights",),
    ),
    (_told(Layer(_FULL, Dense(128)), **_saved("awq", _GROUPS)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(96)), **_saved("gptq", _GROUPS)), Ranks(4), "0.16.0", ("cuts gptq's groups of 16",)),
    (_told(Layer(_FULL, Dense(96)), **_saved("another", _GROUPS)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(96)), quantization=Quantization("awq")), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(96)), **_saved("fp8", _BLOCKS)), Ranks(4), "0.16.0", ("cuts fp8's groups of 16",)),
    (_told(Layer(_FULL, Dense(96)), **_saved("fp8", Format(8))), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Dense(96)), **_saved("awq", _GROUPS)), Ranks(4), "0.25.1", ()),
    (_told(Layer(_FULL, Experts(4, 1, 96)), **_saved("fp8", _BLOCKS)), Ranks(4), "0.29.0", ()),
    (_told(Layer(_FULL, Experts(4, 1, 50))), Ranks(4), "0.16.0", ("the experts' width 50 cannot be split over 4",)),
    (
        _told(Layer(_FULL, Experts(4, 1, 50))),
        Ranks(2, 1, 2),
        "0.16.0",
        ("the experts' width 50 cannot be split over 4",),
    ),
    (_told(Layer(_FULL, Experts(4, 1, 50))), Ranks(2), "0.16.0", ()),
    (_told(Layer(_FULL, Experts(4, 1, 50))), Ranks(4, splits_experts=True), "0.16.0", ()),
    (_told(Layer(_FULL, Experts(4, 1, 96)), **_saved("awq", _GROUPS)), Ranks(4), "0.16.0", ()),
    (_told(Layer(_FULL, Experts(4, 1, 96)), **_saved("fp8", _BLOCKS)), Ranks(4), "0.16.0", ("cuts fp8's groups",)),
    (
        _told(Layer(_FULL, Experts(4, 1, 64, shared_size=50))),
        Ranks(4),
        "0.16.0",
        ("the shared experts' width 50 cannot be split over 4 ranks",),
    ),
    (
        _told(Layer(_FULL, Experts(4, 1, 64, shared_size=50))),
        Ranks(4, splits_experts=True),
        "0.16.0",
        ("the shared experts' width 50 cannot",),
    ),
    (_told(Layer(_FULL, Experts(4, 1, 64, shared_size=50))), Ranks(4, 1, 2, splits_experts=True), "0.16.0", ()),
    (
        _told(
            Layer(_FULL, Experts(4, 1, 64, shared_size=96)), **_saved("fp8", _BLOCKS, ignored=("mlp.shared_expert",))
        ),
        Ranks(4),
        "0.16.0",
        (),
    ),
    (
        _told(Layer(_FULL, Experts(4, 1, 64, shared_size=96)), **_saved("fp8", _BLOCKS, ignored=("lm_head",))),
        Ranks(4),
        "0.16.0",
        ("the shared experts' width 96 over 4 ranks leaves 24, which cuts fp8's groups of 16 weights",),
    ),
]


@in_one_test(("told", "ranks", "release", "refused"), _SPLITS)
def test_each_size_is_compared_with_the_ranks(
    told: PlannedModel, ranks: Ranks, release: str, refused: tuple[str, ...]
) -> None:
    """A divisible size is valid; any other is rejected for this one reason, with its numbers."""
    found = illegal(told, ranks, key(release))
    assert len(found) == len(refused), found
    assert all(part in said for part, said in zip(refused, found, strict=True)), found


def test_a_reason_is_given_once_and_only_for_missing_gpus() -> None:
    """Equal layers share one sentence; the exact number of GPUs is enough."""
    told = _told(Layer(_FULL, Dense(50)), Layer(_FULL, Dense(50), norms=1))
    assert illegal(told, Ranks(4), (0, 16, 0)) == ("the feed-forward width 50 cannot be split over 4 ranks",)
    four = cards("4xRTX3090")
    assert illegal(_told(Layer(_FULL, None)), Ranks(4), (0, 16, 0), four) == ()
    assert illegal(_told(Layer(_FULL, None)), Ranks(2), (0, 16, 0), four) == ()


# ---- the order


def test_splits_are_listed_by_size() -> None:
    """Splits that use all GPUs first, then by GPUs per replica, stages and data ranks."""
    assert [split[:4] for split in candidates(4)] == [
        (4, 1, 1, 1), (2, 2, 1, 1), (2, 1, 1, 2), (2, 1, 2, 1), (1, 4, 1, 1), (1, 2, 1, 2), (1, 1, 1, 4),
        (1, 2, 2, 1), (1, 1, 2, 2), (1, 1, 4, 1), (1, 3, 1, 1), (1, 1, 1, 3), (1, 1, 3, 1),
    ]  # fmt: skip


def test_a_fleet_that_does_not_fit_is_searched_within_bounds() -> None:
    """Replicas of more than 64 GPUs have sizes that are powers of two or divisors, and at most 512 GPUs."""
    splits = [split for split in candidates(4096, largest=512) if split.cards == 4096]
    assert max(split.each for split in splits) == 512
    assert len(splits) == 220
    found = judged("Qwen/Qwen3-8B", "4096xT4", given={"gpu_memory_utilization": 0.02})
    assert not any(way.fits for way in found)


def test_a_fleet_of_equal_gpus_costs_little_more_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,096 equal GPUs are read once, numbered once, and only the first server is laid out."""
    given = planner.request("Qwen/Qwen3-8B", "4096xRTX3090", is_calibrated=False)
    read, laid_out = Mock(wraps=Device.of), Mock(wraps=fleet.instances)
    monkeypatch.setattr(Device, "of", read)
    monkeypatch.setattr(fleet, "instances", laid_out)

    found = planned.layouts(given).layouts

    assert (len(found), read.call_count) == (40, 1)
    assert {call.kwargs["replicas"] for call in laid_out.call_args_list} == {1}


def test_a_fleet_runs_small_replicas_and_lists_few_layouts() -> None:
    """Of 128 GPUs no replica has more than 64, unless only a larger one fits; odd numbers list 40 layouts."""
    found = judged("Qwen/Qwen3-8B", "128xRTX3090")
    assert (max(len(way.devices) for way in found), found[0].replicas) == (64, 64)
    with_little = judged("Qwen/Qwen3-8B", "66xRTX3090", given={"max_model_len": 40_960, "gpu_memory_utilization": 0.05})
    assert max(len(way.devices) for way in with_little) == 66
    assert len(judged("Qwen/Qwen3-8B", "97xRTX3090")) == 40


def test_gpus_of_a_prefill_context_group_are_split_as_one() -> None:
    """Seven GPUs form two groups of three, and one GPU stays idle."""
    found = candidates(7, 3)
    assert [(split.replicas, split.tensor, split.pipeline, split.data) for split in found] == [
        (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 1, 2), (1, 1, 2, 1),
    ]  # fmt: skip
    assert {(split.prefill, split.cards) for split in found} == {(3, 6)}
    assert [split.each for split in found] == [3, 6, 6, 6]
    assert candidates(1, 2) == ()


def test_a_layout_is_named_by_its_replicas_and_its_sizes() -> None:
    """Sizes of one are left out."""
    names = [
        LayoutChoice(replicas, ranks, (), ()).name
        for replicas, ranks in (
            (3, Ranks()),
            (1, Ranks(2)),
            (2, Ranks(2, 4)),
            (1, Ranks(2, 1, 3)),
            (1, Ranks(2, 3, 4, prefill=5)),
        )
    ]
    assert names == ["3 x 1 GPU", "1 x TP 2", "2 x TP 2 PP 4", "1 x TP 2 DP 3", "1 x TP 2 PP 3 PCP 5 DP 4"]


@cache
def _single() -> LayoutChoice:
    return judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given={"max_model_len": 8192})[0]


def _made(**more: Any) -> LayoutChoice:
    """A layout that fits, with some of its figures changed."""
    one = _single()
    assert one.budget is not None
    ranks = replace(one.ranks, **{name: more.pop(name) for name in ("tensor", "pipeline", "data") if name in more})
    judged_ = replace(one.budget, fits=more.pop("fits", True))
    return replace(one, ranks=ranks, budget=judged_, **more)


_CRITERIA: list[tuple[str, Any, Any]] = [
    ("why_not", (), ("refused",)), ("fits", True, None), ("fits", None, False), ("serves", True, None),
    ("serves", None, False), ("idle", 0, 1), ("is_twin", False, True), ("slow", 0, 1), ("slow", 1, 2),
    ("pipeline", 1, 2), ("useful", 2.0, 1.98), ("tensor", 1, 2), ("data", 1, 2), ("replicas", 2, 1),
]  # fmt: skip


@in_one_test("place", range(len(_CRITERIA)))
def test_earlier_criteria_outweigh_all_later_ones(place: int) -> None:
    """A layout that is better in one criterion precedes one that is better in all later ones."""
    name, good, bad = _CRITERIA[place]
    later = [each for each in _CRITERIA[place + 1 :] if each[0] != name]
    best = {each[0]: each[1] for each in reversed(later)}
    worst = {each[0]: each[2] for each in later}
    assert _made(**worst, **{name: good}).rank < _made(**best, **{name: bad}).rank


def test_a_hundredth_of_a_request_is_not_a_difference() -> None:
    """The smaller groups decide instead."""
    assert _made(useful=2.001, tensor=2).rank > _made(useful=2.0, tensor=1).rank


# ---- sentences about a layout


def _said(way: LayoutChoice, *words: str) -> str:
    return next((said for said in way.reasons if all(word in said for word in words)), "")


def _over(joins: str | None, count: int, *, hosts: int = 1, name: str = "Qwen/Qwen2.5-7B-Instruct") -> LayoutChoice:
    """One replica on this many GPUs, as one tensor-parallel group."""
    devices = [
        replace(device, interconnect=joins, node=f"host{place * hosts // count}" if hosts > 1 else None)
        for place, device in enumerate(cards(f"{count}xA100-80GB-SXM"))
    ]

    def make(ranks: Ranks, first: Device) -> LaunchSettings:
        sizes = {"tensor_parallel_size": ranks.tensor, "pipeline_parallel_size": ranks.pipeline}
        given = {"max_model_len": 8192, "data_parallel_size": ranks.data, **sizes}
        return start(name, "0.16.0", given, replace(first, name="A100-80GB-SXM"))

    return named(ways(model(name), make, devices), f"1 x TP {count}")


@pytest.mark.parametrize(
    ("joins", "count", "slow", "said"),
    [
        ("pcie", 2, 0, "every layer needs an all-reduce over PCIe between two GPUs"),
        ("pcie", 4, 1, "every layer needs an all-reduce over PCIe, which is slow for more than two GPUs"),
        (
            "nvlink-bridge",
            2,
            0,
            (
                "every layer needs an all-reduce between two GPUs, over NVLink if a bridge is installed, "
                "otherwise over PCIe"
            ),
        ),
        (
            "nvlink-bridge",
            4,
            1,
            "NVLink bridges connect pairs only: every layer needs an all-reduce over PCIe, which is slow for 4 GPUs",
        ),
        ("nvlink", 2, 0, ""),
        ("nvlink", 4, 0, ""),
        (
            None,
            2,
            0,
            "every layer needs an all-reduce; the interconnect is unknown, and PCIe is slow for more than two GPUs",
        ),
        (
            None,
            4,
            0,
            "every layer needs an all-reduce; the interconnect is unknown, and PCIe is slow for more than two GPUs",
        ),
    ],
)
def test_the_interconnect_is_described(joins: str | None, count: int, slow: int, said: str) -> None:
    """PCIe is enough for two GPUs, a bridge joins pairs, and an unknown one is not assessed."""
    way = _over(joins, count)
    assert way.slow == slow
    assert _said(way, "all-reduce") == said
    assert not _said(way, "one group")


def test_traffic_between_hosts_is_the_slowest() -> None:
    """The network between hosts decides, whatever joins their GPUs."""
    way = _over("nvlink", 4, hosts=2)
    assert way.slow == 2
    across = "tensor parallel ranks are on different hosts, and every layer needs an all-reduce over the network"
    assert _said(way, "different hosts") == across
    assert _said(way, "a server on") == "a server on 2 hosts (host0, host1) needs --nnodes, or Ray"


def test_unequal_gpus_of_one_group_are_named() -> None:
    """The smallest decides for the group; groups of equal GPUs have no note."""
    given = {"max_model_len": 8192}
    found = judged("Qwen/Qwen2.5-7B-Instruct", "RTX3090,RTX4090", given=given)
    assert _said(named(found, "1 x TP 2"), "one group") == (
        "RTX3090, RTX4090 are in one group, limited by the smallest GPU"
    )
    assert not _said(named(found, "1 x PP 2"), "one group")
    assert _said(named(found, "2 x 1 GPU"), "copies are on") == (
        "the copies are on different GPUs; the figures are of the slowest copy"
    )
    alike = named(judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090@a,RTX4090@b", given=given), "2 x 1 GPU")
    assert not _said(alike, "copies on")
    assert not _said(alike, "a server on")


def test_stages_on_one_host_and_on_two_are_distinguished() -> None:
    """Hidden states are little for PCIe, and the usual way over Ethernet."""
    given = {"max_model_len": 8192}
    one, two = (
        named(judged("Qwen/Qwen3-32B", said, given=given), "1 x PP 2")
        for said in ("2xA100-80GB-SXM", "A100-80GB-SXM@a,A100-80GB-SXM@b")
    )
    assert _said(one, "hidden states") == (
        "pipeline stages exchange only hidden states, so PCIe is fast enough; each request occupies one stage at a time"
    )
    assert _said(two, "hidden states") == (
        "pipeline stages exchange only hidden states between hosts, which is the usual choice over Ethernet"
    )


def test_heads_that_are_repeated_are_counted() -> None:
    """Qwen2.5-1.5B has two key-value heads: four ranks keep each twice, two ranks once."""
    found = judged("Qwen/Qwen2.5-1.5B-Instruct", "4xA100-80GB-SXM", given={"max_model_len": 8192})
    assert _said(named(found, "1 x TP 4"), "key-value") == "2 key-value heads on 4 ranks: each is kept 2 times"
    assert not _said(named(found, "2 x TP 2"), "key-value")
    assert not _said(named(found, "4 x 1 GPU"), "key-value")


def test_an_unused_encoder_limits_no_split() -> None:
    """Its twelve heads allow eight ranks if modalities are limited to 0, or with text only."""
    for given, is_legal in (
        ({"limit_mm_per_prompt": {"image": 0, "video": 0}}, True),
        ({"limit_mm_per_prompt": {"image": 0, "video": 1}}, False),
        ({"language_model_only": True}, True),
        ({}, False),
    ):
        found = judged(PHONE, "8xA100-80GB-SXM", given={"max_model_len": 8192, **given})
        assert named(found, "1 x TP 8").legal is is_legal


def test_experts_are_exchanged_between_the_ranks_of_all_copies() -> None:
    """Two data ranks share the experts: an all-to-all, slow over PCIe beyond two GPUs."""
    found = judged("Qwen/Qwen3-30B-A3B", "4xA100-80GB-PCIe", given={"max_model_len": 8192})
    two, four = named(found, "2 x DP 2"), named(found, "1 x TP 2 DP 2")
    assert (two.slow, four.slow) == (0, 1)
    assert _said(two, "all-to-all").startswith("every layer needs an all-to-all")
    assert (
        _said(four, "all-to-all") == "every layer needs an all-to-all over PCIe, which is slow for more than two GPUs"
    )
    assert _said(two, "its own attention and KV cache")
    assert not two.is_twin
    assert not _said(two, "behind one port")


# ---- how many requests


def test_requests_are_counted_by_blocks_as_the_release_counts_them() -> None:
    """Blocks of 16 tokens: 100 of them hold two requests of 800; a token more takes another block since 0.8."""
    pools = {
        release: budget(
            model("Qwen/Qwen2.5-7B-Instruct"),
            start("Qwen/Qwen2.5-7B-Instruct", release, {"max_model_len": 8192}, cards("RTX4090")[0]),
            cards("RTX4090"),
        ).pool
        for release in ("0.7.2", "0.19.0")
    }
    for release, length, wanted in (
        ("0.7.2", 800, 2.0), ("0.7.2", 801, 1600 / 801), ("0.19.0", 800, 2.0), ("0.19.0", 801, 100 / 51),
    ):  # fmt: skip
        pool = pools[release]
        assert pool is not None
        assert pool.concurrency(100, length) == pytest.approx(wanted)


def test_concurrency_is_limited_by_max_num_seqs() -> None:
    """A 24 GB GPU has cache for more than two requests of 1,024 tokens, but only two may run."""
    way = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given={"max_model_len": 1024, "max_num_seqs": 2})[0]
    assert way.useful == 2
    assert (way.concurrency_total or 0) > 2
    data = named(
        judged("Qwen/Qwen2.5-7B-Instruct", "2xRTX4090", given={"max_model_len": 1024, "max_num_seqs": 2}), "1 x DP 2"
    )
    assert data.useful == 4
    assert data.concurrency_total == pytest.approx(2 * (way.concurrency_total or 0))


def test_a_context_is_served_certainly_possibly_or_not() -> None:
    """In the conservative case, the expected case or neither; never beyond `max_model_len`."""
    made = _single().budget
    assert made is not None
    low, expected, high = made.longest or (0, 0, 0)
    assert low == expected == high == 8192
    seen = [layouts._serves(replace(made), asked) for asked in (1, 8192, 8193, 0)]
    assert seen == [True, True, False, None]


# ---- unequal stages


@pytest.mark.parametrize(
    ("layers", "room", "parts"),
    [
        (64, (24, 80), (15, 49)),
        (10, (1, 1), (5, 5)),
        (11, (1, 1), (6, 5)),
        (10, (1, 1, 1), (4, 3, 3)),
        (7, (3, 1), (5, 2)),
        (8, (3, 1), (6, 2)),
    ],
)
def test_layers_are_distributed_by_memory(layers: int, room: tuple[int, ...], parts: tuple[int, ...]) -> None:
    """The remainder goes to the stage with the largest fraction: 64 x 24 / 104 = 14.77 gives 15."""
    assert layouts._shared(layers, room) == parts


def test_stages_are_as_large_as_their_smallest_gpu() -> None:
    """The least memory in a group; an unknown GPU leaves it unknown."""
    mixed = cards("RTX3090,A100-80GB-SXM,A100-80GB-SXM,A100-80GB-SXM")
    least, most = (device.total.expected if device.total else 0 for device in mixed[:2])
    assert layouts._room(Ranks(2, 2), mixed) == (least, most)
    unknown = (replace(mixed[0], total=None), *mixed[1:])
    assert layouts._room(Ranks(2, 2), unknown) == (0, most)
    assert layouts._room(Ranks(1, 2), mixed[:2]) == (least, most)


# ---- speed


_LAYER: dict[str, Any] = {"kind": Kind.FULL, "block_tokens": 16, "heads": 2, "key_size": 64}


@pytest.mark.parametrize(
    ("layer", "context", "topk", "read"),
    [
        # Keys and values of two heads of 64 values in 16 bits: 512 bytes for a token.
        (KvLayer(**_LAYER), 1000, None, 512 * 1000),
        (KvLayer(**_LAYER), 1000, 10, 512 * 1000),
        (KvLayer(**{**_LAYER, "window": 100}), 1000, None, 512 * 100),
        (KvLayer(**{**_LAYER, "window": 100}), 50, None, 512 * 50),
        (KvLayer(**{**_LAYER, "chunk": 200}), 1000, None, 512 * 200),
        # A latent is there once: 256 bytes for a token of two heads of 64 values.
        (KvLayer(**{**_LAYER, "kind": Kind.LATENT}), 1000, None, 256 * 1000),
        (KvLayer(**{**_LAYER, "kind": Kind.LATENT}), 1000, 10, 256 * 10),
        (KvLayer(**{**_LAYER, "kind": Kind.LATENT}), 5, 10, 256 * 5),
        (KvLayer(Kind.STATE, 1, state_bytes=777), 1000, None, 777),
    ],
)
def test_a_token_reads_what_its_attention_covers(layer: KvLayer, context: int, topk: int | None, read: int) -> None:
    """The context, limited by a window, a chunk or an indexer; a state once."""
    assert layouts._kv_read({layer: 3}, context, topk) == 3 * read
    assert layouts._kv_read({layer: 1, KvLayer(Kind.STATE, 2, state_bytes=5): 2}, context, topk) == read + 10


def test_stages_run_in_sequence_and_the_slowest_gpu_counts() -> None:
    """Two stages read their halves in turn: as fast as one GPU of the same bandwidth."""
    given = {"max_model_len": 8192}
    one = judged("Qwen/Qwen2.5-7B-Instruct", "A100-80GB-SXM", given=given)[0].speed
    found = judged("Qwen/Qwen2.5-7B-Instruct", "2xA100-80GB-SXM", given=given)
    stages, halves = (named(found, name).speed for name in ("1 x PP 2", "1 x TP 2"))
    assert one is not None
    assert stages is not None
    assert halves is not None
    assert stages.tokens_per_s == pytest.approx(one.tokens_per_s, rel=0.001)
    assert halves.tokens_per_s == pytest.approx(2 * one.tokens_per_s, rel=0.01)
    assert stages.basis == (
        "the weights and the KV cache of 8,192 tokens are read once per token at 2039 GB/s, one "
        "stage after the other; compute, kernel launches, traffic between GPUs, and sampling are not included"
    )
    assert one.basis.endswith("at 2039 GB/s; compute, kernel launches, and sampling are not included")
    slow = named(judged("Qwen/Qwen2.5-7B-Instruct", "RTX3090,RTX4090", given=given), "1 x TP 2")
    # 936 of 936 and 1,008 GB/s decide.
    alike = named(judged("Qwen/Qwen2.5-7B-Instruct", "2xRTX3090", given=given), "1 x TP 2")
    assert slow.speed is not None
    assert alike.speed is not None
    assert slow.speed.tokens_per_s == pytest.approx(alike.speed.tokens_per_s, rel=0.001)


def test_a_head_that_shares_the_embedding_reads_it() -> None:
    """Qwen2.5-1.5B ties both: a token reads 28 layers, 151,936 rows of 1,536 values, and the cache."""
    way = judged("Qwen/Qwen2.5-1.5B-Instruct", "RTX4090", given={"max_model_len": 1024})[0]
    layer = 2 * 1536 * 1536 + 2 * 256 * 1536 + 3 * 1536 * 8960
    read = 2 * (28 * layer + 151_936 * 1536) + 1024 * 28 * 2 * 2 * 128 * 2
    assert way.speed is not None
    assert way.speed.tokens_per_s == pytest.approx(1008e9 / read, rel=0.002)


def test_no_speed_is_given_for_drafted_tokens() -> None:
    """The acceptance rate is unknown."""
    given = {"max_model_len": 8192, "speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}
    assert judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given)[0].speed is None


# ---- comparisons


_SLOW = "every token waits for a slow interconnect"
_STAGED = "each request passes through more stages in sequence"


@in_one_test(
    ("mine", "theirs", "said"),
    [
        (
            {"concurrency_total": 30.0, "slow": 1},
            {"concurrency_total": 20.0},
            f"it fits 1.5 times the requests of {{}}, but {_SLOW}",
        ),
        (
            {"concurrency_total": 30.0, "pipeline": 2, "idle": 1},
            {"concurrency_total": 20.0},
            f"it fits 1.5 times the requests of {{}}, but {_STAGED} and GPUs stay idle",
        ),
        (
            {"concurrency_total": 30.0, "useful": 16.0},
            {"concurrency_total": 20.0},
            "it fits 1.5 times the requests of {}, but max_num_seqs allows 16 of them to run concurrently",
        ),
        (
            {"concurrency_total": 30.0, "useful": 16.0, "slow": 1},
            {"concurrency_total": 20.0},
            f"it fits 1.5 times the requests of {{}}, but {_SLOW}",
        ),
        ({"concurrency_total": 30.0, "useful": 0.0}, {"concurrency_total": 20.0}, ""),
        ({"concurrency_total": 30.0, "useful": 30.0}, {"concurrency_total": 20.0}, ""),
        ({"concurrency_total": 21.0, "slow": 1}, {"concurrency_total": 20.0}, ""),
        (
            {"concurrency_total": 21.1, "slow": 1},
            {"concurrency_total": 20.0},
            f"it fits 1.1 times the requests of {{}}, but {_SLOW}",
        ),
        ({"concurrency_total": 30.0, "slow": 1}, {"concurrency_total": 20.0, "slow": 1}, ""),
        ({"concurrency_total": 10.0}, {"concurrency_total": 20.0}, "it fits only 0.50 times the requests of {}"),
        ({"concurrency_total": 20.0}, {"concurrency_total": 21.0}, ""),
        ({"concurrency_total": 19.9}, {"concurrency_total": 21.0}, "it fits only 0.95 times the requests of {}"),
        ({"concurrency_total": None}, {"concurrency_total": 20.0}, ""),
        ({"concurrency_total": 20.0}, {"concurrency_total": None}, ""),
        ({"concurrency_total": 20.0, "slow": 1}, {"concurrency_total": 0.0}, ""),
    ],
)
def test_another_layout_names_its_gain_and_its_price(mine: dict[str, Any], theirs: dict[str, Any], said: str) -> None:
    """If they differ by more than 5%; more requests only with their price."""
    best = _made(**{"useful": 0.0, **theirs})
    assert list(layouts._against(_made(**{"useful": 0.0, **mine}), best)) == ([said.format(best.name)] if said else [])


@pytest.mark.parametrize(
    ("others", "is_named"),
    [
        ([{"concurrency_total": 11.3, "pipeline": 2}], True),
        ([{"concurrency_total": 10.0, "pipeline": 2}], False),
        ([{"concurrency_total": 11.3}], False),
        ([{"concurrency_total": 11.3, "pipeline": 2, "fits": False}], False),
        ([{"concurrency_total": None, "pipeline": 2}, {"concurrency_total": 12.0, "pipeline": 2}], True),
    ],
)
def test_the_best_layout_names_why_a_pipeline_with_more_requests_is_second(
    others: list[dict[str, Any]],
    is_named: bool,  # noqa: FBT001
) -> None:
    """Latency; nothing about layouts with less, or without more stages."""
    best = _made(concurrency_total=11.0, tensor=2, replicas=1)
    explained = layouts._explained([best, *(_made(**other, replicas=1) for other in others)])
    reason = "latency is lower than with PP 2, where each request occupies one stage at a time"

    assert (reason in explained[0].reasons) is is_named
    assert not list(layouts._latency(_made(concurrency_total=None), explained))


@pytest.mark.parametrize(
    ("best", "single", "said"),
    [
        ({"concurrency_total": 12.34}, None, ["the KV cache fits 12 requests of 8,192 tokens in total"]),
        ({"concurrency_total": 99.94}, None, ["the KV cache fits 99 requests of 8,192 tokens in total"]),
        ({"concurrency_total": 100.0}, None, ["the KV cache fits 100 requests of 8,192 tokens in total"]),
        ({"concurrency_total": None}, None, []),
        ({"concurrency_total": 12.0, "fits": False}, None, []),
        ({"concurrency_total": None}, {"fits": False}, ["one GPU is not enough (small)"]),
        ({"concurrency_total": None}, {"fits": None}, ["one GPU alone may not be enough: small"]),
        ({"concurrency_total": None}, {"concurrency_total": 5.0}, []),
        (
            {"concurrency_total": 15.0, "tensor": 4, "replicas": 1},
            {"concurrency_total": 5.0, "replicas": 4},
            [
                "the KV cache fits 15 requests of 8,192 tokens in total",
                "3.0 times the KV cache of 4 single GPUs, because the weights are stored once instead of 4 times",
            ],
        ),
        (
            {"concurrency_total": 15.0, "tensor": 2, "data": 2, "replicas": 3},
            {"concurrency_total": 5.0, "replicas": 12},
            [
                "the KV cache fits 15 requests of 8,192 tokens in total",
                "3.0 times the KV cache of 12 single GPUs, because the weights are stored 6 times instead of 12 times",
            ],
        ),
        (
            {"concurrency_total": 5.0},
            {"concurrency_total": 5.0},
            ["the KV cache fits 5.0 requests of 8,192 tokens in total"],
        ),
    ],
)
def test_the_best_layout_is_compared_with_single_gpus(
    best: dict[str, Any], single: dict[str, Any] | None, said: list[str]
) -> None:
    """Total requests, and compared with single-GPU servers the cost of replicated weights."""
    other = None if single is None else _made(**single)
    if other is not None and other.budget is not None:
        other = replace(other, budget=replace(other.budget, limits=("small", "other")))
    assert list(layouts._merits(_made(**best), other)) == said
