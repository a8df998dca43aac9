"""Questions asked the other way round are answered by the budget itself, on the careful and the expected side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from vllm_runbooks import specs
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.planning import inverse, layouts
from vllm_runbooks.planning.budget import Budget, Device, Subject, budget, subject
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.terms import GIB, Band
from vllm_runbooks.planning.weights import Ranks

PHONE = "zai-org/AutoGLM-Phone-9B"
PHONE_OPTIONS = {"max_model_len": 25480, "limit_mm_per_prompt": {"image": 10}}
GEMMA = "google/gemma-4-31B-it"

Make = Callable[[Mapping[str, Any]], Settings]


@cache
def shelf() -> specs.Specs:
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> Subject:
    file = shelf().file(name)
    return subject(name, file.config, is_partial=file.is_partial, source=file.source)


def card(name: str) -> Device:
    gpu = shelf().gpu(name)
    assert gpu is not None
    band = (
        Band(*(int(side * GIB) for side in (gpu.total.low, gpu.total.expected, gpu.total.high))) if gpu.total else None
    )
    return Device(gpu.name, band, "", None, gpu.version, gpu.interconnect, gpu.memory_bandwidth_gb_s)


def settled(name: str, on: str, release: str, given: Mapping[str, Any]) -> Settings:
    gpu = shelf().gpu(on)
    assert gpu is not None
    return settle(
        model(name).shape,
        {dest: value for dest, value in given.items() if value is not None},
        release,
        gpu_name=(gpu.aliases or (gpu.name,))[0],
        memory_gib=gpu.memory_gib,
        capability=gpu.version,
        config=model(name).config,
    )


def maker(name: str, on: str, release: str, given: Mapping[str, Any]) -> Make:
    return lambda more: settled(name, on, release, {**given, **more})


STARTS = [
    (GEMMA, "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072}),
    ("Qwen/Qwen3-32B", "A100-80GB-SXM", "0.25.1", {}),
    ("Qwen/Qwen2.5-7B-Instruct", "RTX4090", "0.7.2", {"gpu_memory_utilization": 0.85}),
    ("Qwen/Qwen3-30B-A3B-FP8", "RTX PRO 6000", "0.33.0", {"gpu_memory_utilization": 0.4}),
    (PHONE, "RTX3090", "0.16.0", {**PHONE_OPTIONS, "limit_mm_per_prompt": {"image": 10, "video": 0}}),
    ("openai/gpt-oss-20b", "RTX4090", "0.19.0", {"gpu_memory_utilization": 0.8}),
]


@pytest.mark.parametrize(("name", "on", "release", "given"), STARTS)
def test_the_longest_context_is_the_last_one_that_fits(
    name: str, on: str, release: str, given: Mapping[str, Any]
) -> None:
    """The start succeeds with the answer, and not with one token more, on the careful and on the expected side."""
    make = maker(name, on, release, given)
    found = inverse.longest_context(model(name), make, [card(on)])
    limit = make({"max_model_len": None}).max_model_len or 2**20

    def fits(length: float) -> bool | None:
        return budget(model(name), make({"max_model_len": int(length)}), [card(on)]).fits

    assert found.expected is not None
    assert found.high is not None
    assert (found.low or 0) <= found.expected <= found.high <= limit
    assert fits(found.expected) is not False
    assert found.expected == limit or fits(found.expected + 1) is False
    if found.low:
        assert fits(found.low) is True
        assert found.low == limit or fits(found.low + 1) is not True
    assert found.reasons


def test_the_longest_context_is_what_vllm_estimates() -> None:
    """A start of 0.32.0 with 1.0 GiB of cache and 1,024 bytes a token printed an estimate of 1048448 tokens."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 128,
        "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4_194_304,
    }  # fmt: skip
    tiny = subject("tiny", config)

    def make(more: Mapping[str, Any]) -> Settings:
        given = {"kv_cache_memory_bytes": GIB, "block_size": 128, **more}
        given = {dest: value for dest, value in given.items() if value is not None}
        return settle(tiny.shape, given, "0.32.0", gpu_name="NVIDIA L4", memory_gib=24, capability=(8, 9))

    found = inverse.longest_context(tiny, make, [card("L4")])
    assert (found.low, found.expected, found.high) == (1_048_448,) * 3


def test_the_model_bounds_the_context_where_memory_does_not() -> None:
    """A measured start held 798,624 tokens of gpt-oss-20b; the model takes 131,072, and that is said."""
    given = {"gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.longest_context(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")])
    assert (found.low, found.expected, found.high) == (131_072,) * 3
    assert found.reasons == ("the model takes no more than 131,072 tokens",)


def test_concurrency_at_the_context_that_was_started_is_the_printed_one() -> None:
    """A start of gpt-oss-20b on an A100 (0.19.0, utilisation 0.65) printed 11.99 requests of 131,072 tokens."""
    given = {"gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.highest_concurrency(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")], 131_072)
    assert found.expected == pytest.approx(11.99, rel=0.02)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= (found.expected or 0) <= found.high


def test_concurrency_names_the_option_that_bounds_it() -> None:
    """Where the cache holds more requests than `max_num_seqs` lets run, that is said."""
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_num_seqs": 4})
    found = inverse.highest_concurrency(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")], 8192)
    assert found.expected is not None
    assert found.expected > 4
    assert any("max_num_seqs lets 4" in said for said in found.reasons)


@pytest.mark.parametrize(
    ("name", "on", "release", "given"),
    [
        (GEMMA, "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072}),
        ("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072}),
        ("Qwen/Qwen2.5-7B-Instruct", "RTX3090", "0.7.2", {}),
        ("Qwen/Qwen3-8B", "L40S", "0.33.0", {"max_model_len": 16384}),
    ],
)
def test_the_lowest_utilisation_is_the_last_hundredth_that_fits(
    name: str, on: str, release: str, given: Mapping[str, Any]
) -> None:
    """The start succeeds with the answer and fails with one hundredth less; the careful answer is no lower."""
    make = maker(name, on, release, given)
    found = inverse.lowest_utilization(model(name), make, [card(on)])

    def fits(share: float) -> bool | None:
        return budget(model(name), make({"gpu_memory_utilization": round(share, 2)}), [card(on)]).fits

    assert found.low is not None
    assert found.expected is not None
    assert found.high is not None
    assert found.high <= found.expected <= found.low
    assert fits(found.low) is True
    assert fits(found.low - 0.01) is not True
    assert fits(found.expected) is not False
    assert fits(found.expected - 0.01) is False


def test_the_utilisation_that_was_used_lies_above_the_lowest() -> None:
    """Starts that ran with 0.65 (gpt-oss-20b) and 0.95 (gemma-4-31B-it, 131,072 tokens) could have run with less."""
    for name, used in (("openai/gpt-oss-20b", 0.65), (GEMMA, 0.95)):
        make = maker(name, "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072})
        found = inverse.lowest_utilization(model(name), make, [card("A100-80GB-PCIe")])
        assert found.expected is not None
        assert found.expected <= used


def split_maker(name: str, release: str, given: Mapping[str, Any]) -> layouts.Make:
    def make(ranks: Ranks, first: Device) -> Settings:
        sizes = {"tensor_parallel_size": ranks.tensor, "pipeline_parallel_size": ranks.pipeline}
        return settled(name, first.name, release, {**given, **sizes})

    return make


@pytest.mark.parametrize(
    ("name", "on", "release", "given", "count"),
    [
        # 61.0 GiB of weights and 10 GiB of cache: a third of it is more than a card has, a quarter is 17.8 GiB.
        ("Qwen/Qwen3-32B", "RTX4090", "0.25.1", {"max_model_len": 40960}, 4),
        ("Qwen/Qwen3-32B", "H200", "0.25.1", {"max_model_len": 8192}, 1),
        (PHONE, "RTX3090", "0.16.0", PHONE_OPTIONS, 2),
    ],
)
def test_the_fewest_cards_are_the_first_number_with_a_split_that_fits(
    name: str, on: str, release: str, given: Mapping[str, Any], count: int
) -> None:
    """So many cards suffice in the split that is named, and what fewer lack is said."""
    found = inverse.fewest_cards(model(name), split_maker(name, release, given), card(on))
    assert (found.low, found.expected) == (count, count)
    assert found.budget is not None
    assert len(found.budget.ranks) == count
    assert found.budget.fits
    assert count == 1 or len(found.reasons) > 1


def test_a_model_that_no_number_of_cards_holds_says_so() -> None:
    """Where even the most cards do not suffice there is no answer."""
    make = split_maker("deepseek-ai/DeepSeek-V3", "0.25.1", {"max_model_len": 8192})
    found = inverse.fewest_cards(model("deepseek-ai/DeepSeek-V3"), make, card("RTX4090"), most=4)
    assert found.expected is None
    assert found.reasons[0] == "more than 4 cards"


def test_the_smallest_card_is_the_first_that_suffices_alone() -> None:
    """Cards are tried from the smallest; the one before the answer says what it lacks."""
    devices = [card(name) for name in ("T4", "L4", "RTX5090", "L40S", "A100-80GB", "H200")]
    make = split_maker("Qwen/Qwen3-8B", "0.25.1", {"max_model_len": 32768})
    found = inverse.smallest_card(model("Qwen/Qwen3-8B"), make, devices)
    assert found.expected is not None
    made = {one.name: budget(model("Qwen/Qwen3-8B"), make(Ranks(), one), [one]).fits for one in devices}
    assert found.expected.name == next(name for name, fits in made.items() if fits is not False)
    assert found.low is not None
    assert found.low.name == next(name for name, fits in made.items() if fits)
    assert "the next smaller one" in found.reasons[0]


def test_a_start_that_fits_needs_no_way_out() -> None:
    """Nothing is proposed where nothing is wrong."""
    given = {"max_model_len": 131072, "gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    assert inverse.ways_out(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")], given) == ()


def test_ways_out_are_the_smallest_changes_in_the_order_of_their_cost() -> None:
    """gemma-4-31B-it at 0.9 lacks room for 131,072 tokens: more of the card, or a shorter context among others."""
    given = {"max_model_len": 131072}
    make = maker(GEMMA, "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.ways_out(model(GEMMA), make, [card("A100-80GB-PCIe")], given)
    names = [tuple(way.changes) for way in found]
    assert names[0] == ("gpu_memory_utilization",)
    assert ("max_model_len",) in names
    share = found[0].changes["gpu_memory_utilization"]
    # A start with 0.95 ran.
    assert 0.9 < share <= 0.95
    assert (
        budget(model(GEMMA), make({"gpu_memory_utilization": round(share - 0.01, 2)}), [card("A100-80GB-PCIe")]).fits
        is not True
    )
    assert [way.price for way in found] == sorted(way.price for way in found)


@pytest.mark.parametrize(("name", "on", "release", "given"), STARTS)
def test_every_way_out_is_one(name: str, on: str, release: str, given: Mapping[str, Any]) -> None:
    """Each change, made, gives a start that the budget does not refuse, with the margin that is told."""
    make = maker(name, on, release, given)
    two = [card(on)] * 2
    for way in inverse.ways_out(model(name), make, two, given):
        made = make(way.changes)
        again: Budget = budget(model(name), made, two[: made.ranks.tensor])
        assert again.fits is way.fits is not False
        assert way.margin is not None
        assert way.margin.low <= way.margin.expected <= way.margin.high
        assert way.margin.expected >= 0
        assert way.fits is None or way.margin.low >= 0
        assert way.cost


def test_a_video_profile_that_runs_out_is_cured_by_limiting_videos() -> None:
    """The 9B phone model on one RTX 3090 fits without videos and with more of the card; two cards are another way."""
    make = maker(PHONE, "RTX3090", "0.16.0", PHONE_OPTIONS)
    found = inverse.ways_out(model(PHONE), make, [card("RTX3090")] * 2, PHONE_OPTIONS)
    first = found[0].changes
    assert first["limit_mm_per_prompt"] == {"image": 10, "video": 0}
    assert first["gpu_memory_utilization"] > 0.9
    assert {"tensor_parallel_size": 2} in [way.changes for way in found]
    # What helps alone is not told again together with something else.
    alone = [way.changes for way in found if len(way.changes) == 1]
    for way in found:
        assert len(way.changes) == 1 or not any(change.items() <= way.changes.items() for change in alone)


def test_a_cache_of_8_bits_is_proposed_only_where_the_card_has_it() -> None:
    """Known to the release and the card, or not proposed: 0.7.2 on a card of unknown capability is silent."""
    given = {"max_model_len": 131072}
    make = maker(GEMMA, "A100-80GB-PCIe", "0.19.0", given)
    device = card("A100-80GB-PCIe")
    unknown = Device(device.name, device.total, capability=None)
    for device_, expected in ((unknown, False), (card("H100-80GB-PCIe"), True)):
        found = inverse.ways_out(model(GEMMA), make, [device_], given)
        assert any("kv_cache_dtype" in way.changes for way in found) is expected


def test_what_is_not_known_has_no_answer_but_a_reason() -> None:
    """A card of unknown memory: every question is answered by what is missing."""
    name = "Qwen/Qwen2.5-7B-Instruct"
    device = Device("a card", None, "no source says what its driver leaves", capability=(8, 9))
    make = maker(name, "RTX4090", "0.16.0", {})
    answers = [
        inverse.longest_context(model(name), make, [device]),
        inverse.highest_concurrency(model(name), make, [device], 4096),
        inverse.lowest_utilization(model(name), make, [device]),
        inverse.fewest_cards(model(name), lambda *_: make({}), device),
    ]
    for answer in answers:
        assert (answer.low, answer.expected, answer.high) == (None, None, None)
        assert any("not known" in said for said in answer.reasons)
    assert inverse.ways_out(model(name), make, [device], {}) == ()
    assert inverse.smallest_card(model(name), lambda *_: make({}), [device]).reasons == ("not known: a card",)
