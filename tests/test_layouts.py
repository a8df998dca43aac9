"""The ways to use the cards that there are: what is legal, what fits, and which comes first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from vllm_runbooks import options, specs, support
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.lint import meaning
from vllm_runbooks.planning import layouts
from vllm_runbooks.planning.budget import Device, Subject, budget, subject
from vllm_runbooks.planning.layouts import Split, Way, candidates, illegal, placed, ways
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.terms import GIB, Band
from vllm_runbooks.planning.weights import Ranks

PHONE = "zai-org/AutoGLM-Phone-9B"
PHONE_OPTIONS = {"max_model_len": 25480, "limit_mm_per_prompt": {"image": 10}}


@cache
def shelf() -> specs.Specs:
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> Subject:
    file = shelf().file(name)
    return subject(name, file.config, is_partial=file.is_partial, source=file.source)


def cards(said: str) -> tuple[Device, ...]:
    """Cards as a request names them."""
    found = []
    for card in shelf().gpus(said):
        gpu, total = card.gpu, card.gpu.total
        band = Band(*(int(side * GIB) for side in (total.low, total.expected, total.high))) if total else None
        more = (gpu.version, gpu.interconnect, gpu.memory_bandwidth_gb_s)
        found.append(Device(gpu.name, band, total.source if total else "", card.node, *more))
    return tuple(found)


def start(name: str, release: str, given: dict[str, Any], first: Device) -> Settings:
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
) -> tuple[Way, ...]:
    def make(ranks: Ranks, first: Device) -> Settings:
        sizes = {
            "tensor_parallel_size": ranks.tensor,
            "pipeline_parallel_size": ranks.pipeline,
            "data_parallel_size": ranks.data,
        }
        return start(name, release, {**(given or {}), **sizes}, first)

    return ways(model(name), make, cards(said), **more)


def named(found: Sequence[Way], name: str) -> Way:
    return next(way for way in found if way.name == name)


def key(release: str) -> tuple[int, ...]:
    return (options.version_key(release) or ())[:3]


@pytest.mark.parametrize("count", [1, 2, 3, 6, 8, 12])
def test_every_split_of_the_cards_is_considered_once(count: int) -> None:
    """Each ordered product of TP, PP and DP up to the number of cards, with as many copies as there is room for."""
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


@pytest.mark.parametrize(("name", "ranks", "release", "said"), REFUSED)
def test_what_a_release_refuses_is_said_with_the_reason(name: str, ranks: Ranks, release: str, said: str) -> None:
    """A split that vLLM's own sources refuse is not legal, and the sentence names what does not divide."""
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
def test_what_a_release_starts_is_legal(name: str, ranks: Ranks, release: str) -> None:
    """What no source refuses is legal: heads that are repeated, stages of unequal length, experts kept whole."""
    assert illegal(model(name), ranks, key(release)) == ()


def test_an_encoder_that_is_not_loaded_refuses_nothing() -> None:
    """With every modality limited to none the tower's heads do not matter."""
    assert illegal(model(PHONE), Ranks(8), (0, 16, 0), encoder_off=True) == ()


def test_too_few_cards_are_said() -> None:
    """A split that takes more cards than are given is refused in numbers."""
    assert illegal(model(PHONE), Ranks(4), (0, 16, 0), cards("2xRTX3090")) == ("it takes 4 cards, 2 are given",)


_DIVISIBLE = {
    "meaning.heads-not-divisible", "meaning.kv-heads-not-divisible", "meaning.vocabulary-not-divisible",
    "meaning.quantization-groups-cut", "meaning.encoder-heads-not-divisible",
}  # fmt: skip


@pytest.mark.parametrize("release", ["0.8.5", "0.16.0", "0.33.0"])
def test_no_way_is_offered_that_the_linter_refuses(release: str) -> None:
    """For every model of the catalog whose shape is known: what the linter calls not divisible is not legal here."""
    seen = 0
    for file in shelf().files:
        asked = model(file.id)
        if not asked.shape.kinds:
            continue
        for size in (2, 3, 4, 8, 16):
            start_ = meaning.Command({"tensor_parallel_size": size}, support.load(release), shelf().model(file.id))
            if any(judgement.rule in _DIVISIBLE for judgement in meaning.judge(start_)):
                seen += 1
                assert illegal(asked, Ranks(size), key(release)), (file.id, size)
    assert seen > 100


def test_cards_of_one_kind_and_host_stay_together() -> None:
    """Groups are of one kind and host where there are enough such cards, whatever the order in which they are given."""
    mixed = cards("RTX3090@a,RTX4090@a,RTX3090@a,RTX4090@a,2xRTX3090@b")
    assert placed(mixed, Split(3, 2, 1, 1)) == ((0, 2), (1, 3), (4, 5))
    assert placed(mixed, Split(1, 2, 3, 1)) == ((0, 2, 1, 3, 4, 5),)
    assert placed(cards("3xA100-80GB@a,3xA100-80GB@b"), Split(1, 2, 3, 1)) == ((0, 1, 2, 5, 3, 4),)


def test_eight_3090s_share_a_9b_model_by_pairs() -> None:
    """Four servers of two cards: one card is too small, and more than two talk over PCIe."""
    found = judged(PHONE, "8xRTX3090", given=PHONE_OPTIONS)
    best = found[0]
    assert (best.replicas, best.ranks.tensor, best.ranks.pipeline, best.ranks.data) == (4, 2, 1, 1)
    assert best.fits
    assert best.serves
    assert best.idle == 0
    assert named(found, "8 x one card").fits is False
    eight = named(found, "1 x TP 8")
    assert not eight.legal
    assert eight.budget is None
    assert "12 heads" in eight.why_not[0]
    assert named(found, "2 x TP 4").slow
    assert "over PCIe" in " ".join(named(found, "2 x TP 4").reasons)
    assert any("one card alone does not suffice" in said for said in best.reasons)
    assert sum(len(way.places) == way.replicas for way in found) == len(found)


def test_a_model_that_fits_one_card_may_still_be_split_for_its_cache() -> None:
    """Both ways are there, with the cache that the weights' copies cost; servers of one card have no traffic."""
    given = {**PHONE_OPTIONS, "limit_mm_per_prompt": {"image": 10, "video": 0}, "gpu_memory_utilization": 0.95}
    found = judged(PHONE, "8xRTX3090", given=given)
    single, pairs = named(found, "8 x one card"), named(found, "4 x TP 2")
    assert single.fits
    assert pairs.fits
    assert found[0] is pairs
    assert "no traffic between cards" in single.reasons
    assert pairs.concurrency_total
    assert single.concurrency_total
    assert pairs.concurrency_total > 2 * single.concurrency_total
    assert any("instead of 8 times" in said for said in pairs.reasons)


def test_the_order_is_that_of_the_key_and_the_illegal_come_last() -> None:
    """The tuple that `Way.rank` documents decides; nothing that is refused stands before what is legal."""
    found = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given={"max_model_len": 8192})
    assert [way.rank for way in found] == sorted(way.rank for way in found)
    legal = [way.legal for way in found]
    assert legal == sorted(legal, reverse=True)
    assert not all(legal)
    assert all(way.budget is not None for way in found if way.legal)


def test_requests_that_may_not_run_do_not_count() -> None:
    """More cache than `max_num_seqs` lets run is no reason to let cards talk."""
    given = {"max_model_len": 1024, "max_num_seqs": 16}
    best = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given=given)[0]
    assert best.name == "8 x one card"
    assert best.useful == 8 * 16


def test_few_cards_that_suffice_are_shown() -> None:
    """Where one copy fits a part of the cards, a way says so and how many stay idle."""
    few = judged("Qwen/Qwen2.5-7B-Instruct", "8xRTX4090", given={"max_model_len": 8192})
    way = named(few, "1 x one card")
    assert way.idle == 7
    assert "7 of 8 cards stay idle" in way.reasons
    assert way.rank > few[0].rank


def test_cards_stay_idle_only_where_no_way_uses_all() -> None:
    """Of three cards two hold a model of two wide layers: three stages are too many, three ranks divide no heads."""
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

    def make(ranks: Ranks, _: Device) -> Settings:
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


def test_stages_of_unequal_cards_get_layers_by_memory() -> None:
    """Of 64 layers the larger card has most: even stages do not fit the smaller one."""
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


def test_stages_that_the_environment_gives_bind_every_way() -> None:
    """With VLLM_PP_LAYER_PARTITION set only ways with so many stages start (distributed/utils.py, 0.16.0 :118)."""
    found = judged("Qwen/Qwen3-32B", "2xA100-80GB-SXM", given={"max_model_len": 8192}, like=Ranks(partition=(20, 44)))
    assert [way.name for way in found if way.legal] == ["1 x PP 2"]
    assert found[0].ranks.partition == (20, 44)
    assert all("VLLM_PP_LAYER_PARTITION=20,44" in way.why_not[0] for way in found[1:])


def test_copies_on_different_cards_each_have_their_own_budget() -> None:
    """What all copies hold is the sum over cards that differ; the copy that is shown is the poorest."""
    given = {"max_model_len": 8192}
    found = named(judged("Qwen/Qwen2.5-1.5B-Instruct", "RTX3090,H100-80GB-SXM", "0.19.0", given), "2 x one card")
    each = [
        named(judged("Qwen/Qwen2.5-1.5B-Instruct", said, "0.19.0", given), "1 x one card").concurrency_total or 0.0
        for said in ("RTX3090", "H100-80GB-SXM")
    ]
    assert found.concurrency_total == pytest.approx(sum(each))
    assert each[1] > 2 * each[0]
    assert found.devices[0].name == "RTX3090"


def test_tensor_parallelism_stays_within_a_host() -> None:
    """With two hosts the ways that split every layer over both come after those that do not."""
    found = judged("Qwen/Qwen3-32B", "2xA100-80GB-SXM@a,2xA100-80GB-SXM@b", given={"max_model_len": 8192})
    four = named(found, "1 x TP 4")
    assert four.slow == 2
    assert any("across hosts" in said for said in four.reasons)
    assert found[0].slow == 0
    assert found[0].rank < four.rank
    stages = named(found, "1 x TP 2 PP 2")
    assert [device.node for device in stages.devices] == ["a", "a", "b", "b"]
    assert any("hidden states alone" in said for said in stages.reasons)
    assert any("needs --nnodes, or Ray" in said for said in stages.reasons)


def test_releases_without_nnodes_need_ray() -> None:
    """0.11.2 is the first of the releases read that has the option; before it several hosts are a Ray cluster."""
    found = judged("Qwen/Qwen3-32B", "A100-80GB-SXM@a,A100-80GB-SXM@b", "0.9.2", {"max_model_len": 8192})
    assert any("a Ray cluster" in said for said in named(found, "1 x PP 2").reasons)


def test_nvlink_makes_more_than_two_cards_no_drawback() -> None:
    """The same split is slow over PCIe and not over NVLink; over what is not known it is said to be unknown."""
    slow = {
        said: named(judged("Qwen/Qwen3-32B", f"4x{said}", given={"max_model_len": 8192}), "1 x TP 4")
        for said in ("A100-80GB-PCIe", "A100-80GB-SXM", "A100-80GB")
    }
    assert [way.slow for way in slow.values()] == [1, 0, 0]
    assert any("not known" in said for said in slow["A100-80GB"].reasons)


def test_data_parallelism_without_experts_is_no_better_than_servers() -> None:
    """It is offered, named as what it is, behind the same servers."""
    found = judged("Qwen/Qwen2.5-7B-Instruct", "2xRTX4090", given={"max_model_len": 8192})
    twin, servers = named(found, "1 x DP 2"), named(found, "2 x one card")
    assert twin.is_twin
    assert servers.rank < twin.rank
    assert twin.concurrency_total == servers.concurrency_total
    assert any("otherwise the same as servers" in said for said in twin.reasons)


def test_a_latent_cache_lies_on_every_rank() -> None:
    """Data parallelism holds more requests of a model with latent attention than tensor parallelism does."""
    found = judged("deepseek-ai/DeepSeek-V3", "8xH200", "0.19.0", {"max_model_len": 32768})
    tensor, data = named(found, "1 x TP 8"), named(found, "1 x TP 2 DP 4")
    assert tensor.concurrency_total
    assert data.concurrency_total
    assert data.concurrency_total > 2 * tensor.concurrency_total
    assert any("whole latent cache" in said for said in tensor.reasons)


def test_a_context_that_is_asked_for_is_what_counts() -> None:
    """Requests are counted at the context asked for; one beyond `max_model_len` is not served."""
    given = {"max_model_len": 8192}
    short = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given, context=4096)[0]
    whole = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given)[0]
    assert short.concurrency_total == pytest.approx(2 * (whole.concurrency_total or 0), rel=0.01)
    assert judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given=given, context=16384)[0].serves is False


def test_speed_is_bounded_by_what_a_token_reads() -> None:
    """Of Qwen2.5-7B each token reads 28 layers, the head and the cache of its 4 key-value heads, at 1,008 GB/s."""
    way = judged("Qwen/Qwen2.5-7B-Instruct", "RTX4090", given={"max_model_len": 8192})[0]
    layer = 2 * 3584 * 3584 + 2 * 512 * 3584 + 3 * 3584 * 18944
    weights = 2 * (28 * layer + 152_064 * 3584)
    cached = 8192 * 28 * 2 * 4 * 128 * 2
    assert way.speed is not None
    assert way.speed.tokens_per_s == pytest.approx(1008e9 / (weights + cached), rel=0.002)
    assert "upper bound" in way.speed.basis
    assert "8,192 tokens" in way.speed.basis


def test_of_a_mixture_only_the_experts_that_run_are_read() -> None:
    """gpt-oss-20b runs 4 of 32 experts: the bound lies well above that of all its weights, and below 8 times of it."""
    way = judged("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_model_len": 8192})[0]
    assert way.speed is not None
    assert way.budget is not None
    band = way.budget.ranks[0].terms[0].band
    assert band is not None
    everything = (way.devices[0].bandwidth_gb_s or 0) * 1e9 / band.expected
    assert 3 < way.speed.tokens_per_s / everything < 32 / 4


def test_speed_is_not_guessed_without_a_bandwidth() -> None:
    """A card whose bandwidth no source gives has no bound."""
    device = Device("a card", cards("RTX4090")[0].total, capability=(8, 9), interconnect="pcie")
    made = start("Qwen/Qwen2.5-7B-Instruct", "0.16.0", {"max_model_len": 8192}, cards("RTX4090")[0])
    asked = model("Qwen/Qwen2.5-7B-Instruct")
    assert layouts.speed(asked, budget(asked, made, [device]), 8192) is None


def test_what_is_not_known_is_neither_fit_nor_refused() -> None:
    """A card of unknown memory leaves every legal way open and names what is missing."""
    device = Device("a card", None, "no source says what its driver leaves", capability=(8, 9))
    made = start("Qwen/Qwen2.5-7B-Instruct", "0.16.0", {"max_model_len": 8192}, cards("RTX4090")[0])
    found = ways(model("Qwen/Qwen2.5-7B-Instruct"), lambda *_: made, [device])
    assert found[0].legal
    assert found[0].fits is None
    assert found[0].concurrency_total is None
    assert any("not known" in said for said in found[0].reasons)
