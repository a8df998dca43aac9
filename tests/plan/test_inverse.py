"""Inverse questions are answered by the budget, in the conservative and the expected case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan import inverse, layouts, planner
from vllm_runbooks.plan.budget import Budget, PlannedModel, budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import LaunchSettings, settle
from vllm_runbooks.plan.terms import GIB, Band
from vllm_runbooks.plan.weights import Ranks

PHONE = "zai-org/AutoGLM-Phone-9B"
PHONE_OPTIONS = {"max_model_len": 25480, "limit_mm_per_prompt": {"image": 10}}
GEMMA = "google/gemma-4-31B-it"

Make = Callable[[Mapping[str, Any]], LaunchSettings]


@cache
def shelf() -> specs.Specs:
    return specs.load(spec_files.compile_specs)


@cache
def model(name: str) -> PlannedModel:
    file = shelf().file(name)
    return subject(name, file.config, is_partial=file.is_partial, source=file.source)


def card(name: str) -> Device:
    gpu = shelf().gpu(name)
    assert gpu is not None
    band = (
        Band(*(int(side * GIB) for side in (gpu.total.low, gpu.total.expected, gpu.total.high))) if gpu.total else None
    )
    return Device(gpu.name, band, "", None, gpu.version, gpu.interconnect, gpu.memory_bandwidth_gb_s)


def settled(name: str, on: str, release: str, given: Mapping[str, Any]) -> LaunchSettings:
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
def test_the_longest_context_is_the_last_that_fits(name: str, on: str, release: str, given: Mapping[str, Any]) -> None:
    """The launch fits with the answer and not with one token more, in both cases."""
    make = maker(name, on, release, given)
    found = inverse.longest_context(inverse.Trial(model(name), make, [card(on)]))
    limit = make({"max_model_len": None}).scheduler.max_model_len or 2**20

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


def test_the_longest_context_matches_vllms_estimate() -> None:
    """0.32.0 with 1.0 GiB of cache and 1,024 bytes a token estimated 1048448 tokens."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 128,
        "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4_194_304,
    }  # fmt: skip
    tiny = subject("tiny", config)

    def make(more: Mapping[str, Any]) -> LaunchSettings:
        given = {"kv_cache_memory_bytes": GIB, "block_size": 128, **more}
        given = {dest: value for dest, value in given.items() if value is not None}
        return settle(tiny.shape, given, "0.32.0", gpu_name="NVIDIA L4", memory_gib=24, capability=(8, 9))

    found = inverse.longest_context(inverse.Trial(tiny, make, [card("L4")]))
    assert (found.low, found.expected, found.high) == (1_048_448,) * 3


def test_the_model_bounds_the_context_if_memory_does_not() -> None:
    """A measured launch had room for 798,624 tokens of gpt-oss-20b; the model allows 131,072."""
    given = {"gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.longest_context(inverse.Trial(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")]))
    assert (found.low, found.expected, found.high) == (131_072,) * 3
    assert found.reasons == ("the model supports at most 131,072 tokens",)


def test_a_model_of_a_million_tokens_bounds_its_own_context() -> None:
    """Kimi-Linear-48B-A3B supports 1,048,576 tokens by model_max_length, which lint and every plan accept."""
    name = "moonshotai/Kimi-Linear-48B-A3B-Instruct"
    make = maker(name, "H200", "0.33.0", {})
    found = inverse.longest_context(inverse.Trial(model(name), make, [card("H200")]))
    assert (found.low, found.reasons) == (1_048_576, ("the model supports at most 1,048,576 tokens",))
    assert found.budget is not None
    assert found.budget.fits
    assert "longest context" not in repr(found.budget)
    assert shelf().models[name].max_positions == 1_048_576


def test_concurrency_at_the_launched_context_matches_the_log() -> None:
    """gpt-oss-20b on an A100 (0.19.0, utilization 0.65) has 11.99 requests of 131,072 tokens."""
    given = {"gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.highest_concurrency(
        inverse.Trial(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")]), 131_072
    )
    assert found.expected == pytest.approx(11.99, rel=0.02)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= (found.expected or 0) <= found.high


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct"])
def test_a_fitted_context_serves_at_least_one_request(name: str) -> None:
    """With `--max-model-len auto` each case has its own longest context, of which one request is served."""
    make = maker(name, "RTX3090", "0.33.0", {"max_model_len": -1})
    found = inverse.highest_concurrency(inverse.Trial(model(name), make, [card("RTX3090")]))
    assert [side is not None and 1 <= side < 1.2 for side in (found.low, found.expected, found.high)] == [True] * 3


def test_concurrency_names_the_limiting_option() -> None:
    """If the cache has room for more than `max_num_seqs`, the option is named."""
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_num_seqs": 4})
    found = inverse.highest_concurrency(
        inverse.Trial(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")]), 8192
    )
    assert found.expected is not None
    assert found.expected > 4
    assert any("max_num_seqs allows 4" in said for said in found.reasons)


@pytest.mark.parametrize(
    ("name", "on", "release", "given"),
    [
        (GEMMA, "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072}),
        ("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072}),
        ("Qwen/Qwen2.5-7B-Instruct", "RTX3090", "0.7.2", {}),
        ("Qwen/Qwen3-8B", "L40S", "0.33.0", {"max_model_len": 16384}),
    ],
)
def test_the_lowest_utilization_is_the_last_hundredth_that_fits(
    name: str, on: str, release: str, given: Mapping[str, Any]
) -> None:
    """One hundredth less fails, and the conservative answer is not lower."""
    make = maker(name, on, release, given)
    found = inverse.lowest_utilization(inverse.Trial(model(name), make, [card(on)]))

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


def test_working_launches_used_more_than_the_lowest_utilization() -> None:
    """gpt-oss-20b ran with 0.65, gemma-4-31B-it with 131,072 tokens and 0.95."""
    for name, used in (("openai/gpt-oss-20b", 0.65), (GEMMA, 0.95)):
        make = maker(name, "A100-80GB-PCIe", "0.19.0", {"max_model_len": 131072})
        found = inverse.lowest_utilization(inverse.Trial(model(name), make, [card("A100-80GB-PCIe")]))
        assert found.expected is not None
        assert found.expected <= used


def split_maker(name: str, release: str, given: Mapping[str, Any]) -> layouts.Make:
    def make(ranks: Ranks, first: Device) -> LaunchSettings:
        sizes = {"tensor_parallel_size": ranks.tensor, "pipeline_parallel_size": ranks.pipeline}
        return settled(name, first.name, release, {**given, **sizes})

    return make


@pytest.mark.parametrize(
    ("name", "on", "release", "given", "count"),
    [
        # 61.0 GiB of weights and 10 GiB of cache: a third is more than a GPU has, a quarter is 17.8
        # GiB.
        ("Qwen/Qwen3-32B", "RTX4090", "0.25.1", {"max_model_len": 40960}, 4),
        ("Qwen/Qwen3-32B", "H200", "0.25.1", {"max_model_len": 8192}, 1),
        (PHONE, "RTX3090", "0.16.0", PHONE_OPTIONS, 2),
    ],
)
def test_the_fewest_gpus_are_the_first_number_with_a_valid_split(
    name: str, on: str, release: str, given: Mapping[str, Any], count: int
) -> None:
    """The split is named, and so is the shortage with fewer GPUs."""
    found = inverse.fewest_cards(model(name), split_maker(name, release, given), card(on))
    assert (found.low, found.expected) == (count, count)
    assert found.budget is not None
    assert len(found.budget.ranks) == count
    assert found.budget.fits
    assert count == 1 or len(found.reasons) > 1


def test_a_model_too_large_for_any_number_of_gpus_has_no_answer() -> None:
    """Even the maximum number of GPUs is not enough."""
    make = split_maker("deepseek-ai/DeepSeek-V3", "0.25.1", {"max_model_len": 8192})
    found = inverse.fewest_cards(model("deepseek-ai/DeepSeek-V3"), make, card("RTX4090"), most=4)
    assert found.expected is None
    assert found.reasons[0] == "more than 4 GPUs"


def test_the_smallest_gpu_is_the_first_that_is_enough_alone() -> None:
    """GPUs are tried in order of size; the one before the answer has its shortage."""
    devices = [card(name) for name in ("T4", "L4", "RTX5090", "L40S", "A100-80GB", "H200")]
    make = split_maker("Qwen/Qwen3-8B", "0.25.1", {"max_model_len": 32768})
    found = inverse.smallest_card(model("Qwen/Qwen3-8B"), make, devices)
    assert found.expected is not None
    made = {one.name: budget(model("Qwen/Qwen3-8B"), make(Ranks(), one), [one]).fits for one in devices}
    assert found.expected.name == next(name for name, fits in made.items() if fits is not False)
    assert found.low is not None
    assert found.low.name == next(name for name, fits in made.items() if fits)
    assert "is too small" in found.reasons[0]


def test_a_launch_that_fits_needs_no_fix() -> None:
    """No change is proposed."""
    given = {"max_model_len": 131072, "gpu_memory_utilization": 0.65}
    make = maker("openai/gpt-oss-20b", "A100-80GB-PCIe", "0.19.0", given)
    assert inverse.ways_out(model("openai/gpt-oss-20b"), make, [card("A100-80GB-PCIe")], given) == ()


def test_changes_are_the_smallest_in_order_of_cost() -> None:
    """gemma-4-31B-it at 0.9 lacks room for 131,072 tokens: more memory, or a shorter context."""
    given = {"max_model_len": 131072}
    make = maker(GEMMA, "A100-80GB-PCIe", "0.19.0", given)
    found = inverse.ways_out(model(GEMMA), make, [card("A100-80GB-PCIe")], given)
    names = [tuple(way.changes) for way in found]
    assert names[0] == ("gpu_memory_utilization",)
    assert ("max_model_len",) in names
    share = found[0].changes["gpu_memory_utilization"]
    # A launch with 0.95 worked.
    assert 0.9 < share <= 0.95
    assert (
        budget(model(GEMMA), make({"gpu_memory_utilization": round(share - 0.01, 2)}), [card("A100-80GB-PCIe")]).fits
        is not True
    )
    assert [way.price for way in found] == sorted(way.price for way in found)


@pytest.mark.parametrize(("name", "on", "release", "given"), STARTS)
def test_every_change_makes_the_launch_fit(name: str, on: str, release: str, given: Mapping[str, Any]) -> None:
    """With each change the budget fits, with the printed margin."""
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
        assert all(way.costs)


def test_a_video_profile_out_of_memory_is_fixed_by_limiting_videos() -> None:
    """The 9B phone model fits an RTX 3090 without videos and with more memory, or two GPUs."""
    make = maker(PHONE, "RTX3090", "0.16.0", PHONE_OPTIONS)
    found = inverse.ways_out(model(PHONE), make, [card("RTX3090")] * 2, PHONE_OPTIONS)
    first = found[0].changes
    assert first["limit_mm_per_prompt"] == {"image": 10, "video": 0}
    assert first["gpu_memory_utilization"] > 0.9
    assert {"tensor_parallel_size": 2} in [way.changes for way in found]
    # A change that is enough alone is not repeated in a pair.
    alone = [way.changes for way in found if len(way.changes) == 1]
    for way in found:
        assert len(way.changes) == 1 or not any(change.items() <= way.changes.items() for change in alone)


def test_an_8_bit_cache_is_proposed_only_if_the_gpu_supports_it() -> None:
    """Release and GPU must support it: 0.7.2 with an unknown capability proposes none."""
    given = {"max_model_len": 131072}
    make = maker(GEMMA, "A100-80GB-PCIe", "0.19.0", given)
    device = card("A100-80GB-PCIe")
    unknown = Device(device.name, device.total, capability=None)
    for device_, expected in ((unknown, False), (card("H100-80GB-PCIe"), True)):
        found = inverse.ways_out(model(GEMMA), make, [device_], given)
        assert any("kv_cache_dtype" in way.changes for way in found) is expected


def test_an_unknown_fact_gives_a_reason_instead_of_an_answer() -> None:
    """With unknown GPU memory every answer is the missing fact."""
    name = "Qwen/Qwen2.5-7B-Instruct"
    device = Device("a card", None, "unknown: how much of it the driver reserves", capability=(8, 9))
    make = maker(name, "RTX4090", "0.16.0", {})
    answers = [
        inverse.longest_context(inverse.Trial(model(name), make, [device])),
        inverse.highest_concurrency(inverse.Trial(model(name), make, [device]), 4096),
        inverse.lowest_utilization(inverse.Trial(model(name), make, [device])),
        inverse.fewest_cards(model(name), lambda *_: make({}), device),
    ]
    for answer in answers:
        assert (answer.low, answer.expected, answer.high) == (None, None, None)
        assert any("unknown" in said for said in answer.reasons)
    assert inverse.ways_out(model(name), make, [device], {}) == ()
    assert inverse.smallest_card(model(name), lambda *_: make({}), [device]).reasons == ("unknown: a card",)


# ---- small models with calculated memory


MIB = 2**20


def tiny(**more: Any) -> PlannedModel:
    """Two layers of two heads: 1,024 bytes of cache for a token in 16 bits."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 128,
        "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 1_000_000, **more,
    }  # fmt: skip
    return subject("tiny", config)


def kept(of: PlannedModel, release: str = "0.32.0", on: str = "L4", **given: Any) -> Make:
    """The result of launching such a model with a cache of a given size."""
    gpu = shelf().gpu(on)

    def make(more: Mapping[str, Any]) -> LaunchSettings:
        told = {dest: value for dest, value in {"block_size": 16, **given, **more}.items() if value is not None}
        named = {"gpu_name": f"NVIDIA {on}", "memory_gib": gpu.memory_gib, "capability": gpu.version}
        return settle(of.shape, told, release, **named)  # type: ignore[arg-type] # names of settle

    return make


@pytest.mark.parametrize("tokens", [16, 1008, 32_752, 32_768, 32_784, 999_984])
def test_a_cache_fits_a_request_of_its_size(tokens: int) -> None:
    """Blocks of 16 tokens; one block is set aside (0.32.0 v1/core/block_pool.py), and one token more is too many."""
    of = tiny()
    found = inverse.longest_context(
        inverse.Trial(of, kept(of, kv_cache_memory_bytes=1024 * (tokens + 16)), [card("L4")])
    )
    assert (found.low, found.expected, found.high) == (tokens,) * 3
    assert found.reasons[0].startswith(("the KV cache is too small", "nothing is left"))
    assert found.budget is not None
    assert found.budget.settings.scheduler.max_model_len == tokens


def test_a_cache_without_a_block_fits_no_request() -> None:
    """There is no longest context, and the reason is given."""
    of = tiny()
    found = inverse.longest_context(inverse.Trial(of, kept(of, kv_cache_memory_bytes=1024), [card("L4")]))
    assert (found.low, found.expected, found.high) == (None, None, None)
    assert found.reasons


def test_a_model_without_a_known_maximum_is_bounded_by_memory() -> None:
    """The answer says that memory is the bound."""
    of = tiny(max_position_embeddings=None)
    found = inverse.longest_context(inverse.Trial(of, kept(of, kv_cache_memory_bytes=1024 * 5016), [card("L4")]))
    assert found.expected == 4992
    assert found.reasons[0] == ("the model's own longest context is unknown: this is the limit by memory")


@pytest.mark.parametrize(("context", "requests"), [(16, 100.0), (17, 50.0), (160, 10.0), (1600, 1.0)])
def test_requests_are_bounded_by_whole_blocks(context: int, requests: float) -> None:
    """Each request uses whole blocks of the hundred blocks of 16 tokens."""
    of = tiny()
    make = kept(of, kv_cache_memory_bytes=1024 * 1600, max_num_seqs=10)
    found = inverse.highest_concurrency(inverse.Trial(of, make, [card("L4")]), context)
    fitting = context < 1600
    assert found.expected == (requests if fitting else 0.0)
    said = "max_num_seqs allows 10 of them to run concurrently"
    assert (said in found.reasons) is (requests > 10)
    assert found.budget is not None
    assert found.budget.settings.scheduler.max_model_len == context


def test_one_side_may_be_sure_of_nothing() -> None:
    """In words: of small numbers with their decimals, of large ones without."""
    told = [inverse._careful(low, "tokens") for low in (None, 0.42, 9.5, 10.0, 12_345.6)]
    assert told == [
        "conservative estimate: none fits",
        "conservative estimate: 0.42 tokens",
        "conservative estimate: 9.5 tokens",
        "conservative estimate: 10 tokens",
        "conservative estimate: 12,346 tokens",
    ]


def test_the_highest_utilization_is_the_free_share_of_an_idle_gpu() -> None:
    """The CUDA context uses 0.5 GiB (12 printed launches): 0.99 is free of 100 GiB, 0.98 of 16."""
    of = tiny()

    def most(*totals: float | None) -> float:
        devices = [
            Device("x", None if gib is None else Band(*(int(gib * GIB),) * 3), "", None, (8, 9)) for gib in totals
        ]
        return inverse._safe(inverse.Trial(of, kept(of), devices))

    assert most(100) == pytest.approx(0.99)
    assert most(40) == pytest.approx(0.98)
    assert most(16) == pytest.approx(0.98)
    assert most(100, 40, None) == pytest.approx(0.98)
    assert most(None) == pytest.approx(0.95)


def test_the_shortage_below_the_lowest_utilization_is_named() -> None:
    """The reason at one hundredth less, and the conservative value if it differs."""
    make = maker("Qwen/Qwen3-8B", "L40S", "0.33.0", {"max_model_len": 16384})
    found = inverse.lowest_utilization(inverse.Trial(model("Qwen/Qwen3-8B"), make, [card("L40S")]))
    assert found.budget is not None
    assert found.budget.settings.utilization == found.expected
    assert found.reasons[0].startswith(("the KV cache is too small", "no memory left for the KV cache"))
    assert found.reasons[-1] == f"conservative estimate: {found.low:g}"
    assert len(found.reasons) == 2


def test_a_model_too_large_at_any_utilization_has_no_answer() -> None:
    """A whole T4 is too small for 32 billion weights; their shortage is named."""
    make = maker("Qwen/Qwen3-32B", "T4", "0.16.0", {"max_model_len": 1024})
    found = inverse.lowest_utilization(inverse.Trial(model("Qwen/Qwen3-32B"), make, [card("T4")]))
    assert (found.low, found.expected, found.high) == (None, None, None)
    assert found.reasons[0].startswith("the weights do not fit")


# ---- number of GPUs


@pytest.mark.parametrize(
    ("count", "hosts"),
    [(1, [None]), (8, [None] * 8), (9, ["host0"] * 8 + ["host1"]), (17, ["host0"] * 8 + ["host1"] * 8 + ["host2"])],
)
def test_gpus_are_eight_to_a_host(count: int, hosts: list[str | None]) -> None:
    """A single host is not named."""
    assert list(inverse.on_hosts(count)) == hosts


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        (Ranks(), "one GPU is enough"),
        (Ranks(2), "TP 2 PP 1"),
        (Ranks(4, 2), "TP 4 PP 2"),
        (Ranks(2, 2, prefill=2), "TP 2 PP 2 PCP 2"),
        (Ranks(8, 2), "TP 8 PP 2, on 2 hosts of 8 GPUs (beyond one host only whole hosts are tried)"),
        (Ranks(8, 3), "TP 8 PP 3, on 3 hosts of 8 GPUs (beyond one host only whole hosts are tried)"),
    ],
)
def test_a_split_is_named_with_its_hosts(ranks: Ranks, said: str) -> None:
    """One GPU has no split; several hosts are counted."""
    assert inverse._placed_name(ranks) == said


@pytest.mark.parametrize(("count", "told"), [(0, 0), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_the_first_three_of_many_reasons_are_named(count: int, told: int) -> None:
    """The others are counted."""
    found = inverse._few(str(number) for number in range(count))
    assert len(found) == told
    assert found[:3] == tuple(str(number) for number in range(min(count, 3)))
    assert count <= 3 or found[-1] == f"{count - 3} more reasons against other layouts"


def test_more_gpus_than_one_host_come_in_whole_hosts() -> None:
    """DeepSeek-V3 takes 640 GiB and more: eight A100 are not enough, two hosts of them are."""
    name = "deepseek-ai/DeepSeek-V3"
    make = split_maker(name, "0.25.1", {"max_model_len": 8192})
    found = inverse.fewest_cards(model(name), make, card("A100-80GB-SXM"))
    assert found.expected == 16
    assert found.budget is not None
    assert len(found.budget.ranks) == 16
    assert {rank.device.node for rank in found.budget.ranks} == {"host0", "host1"}
    # The network between hosts is for stages.
    assert (found.budget.settings.ranks.tensor, found.budget.settings.ranks.pipeline) == (8, 2)
    assert inverse.fewest_cards(model(name), make, card("A100-80GB-SXM"), most=15).expected is None
    assert inverse.fewest_cards(model(name), make, card("A100-80GB-SXM"), most=15).reasons[0] == "more than 15 GPUs"


def test_the_certain_and_the_expected_number_are_both_given() -> None:
    """If the conservative case needs more GPUs, both numbers have their splits."""
    name, given = "Qwen/Qwen3-8B", {"gpu_memory_utilization": 0.85}
    longest = inverse.longest_context(
        inverse.Trial(model(name), maker(name, "RTX4090", "0.25.1", given), [card("RTX4090")])
    )
    assert (longest.low or 0) < (longest.expected or 0)
    make = split_maker(name, "0.25.1", {**given, "max_model_len": int(longest.expected or 0)})
    answer = inverse.fewest_cards(model(name), make, card("RTX4090"))
    assert (answer.low, answer.expected) == (2, 1)
    assert answer.budget is not None
    assert answer.sure is not None
    assert (len(answer.budget.ranks), len(answer.sure.ranks)) == (1, 2)
    assert answer.reasons[0] == "TP 2 PP 1"
    assert answer.reasons[1] == "expected to be enough, not certain: 1 GPUs, one GPU is enough"


def test_the_smallest_gpu_has_certain_expected_and_unknown_answers() -> None:
    """Excluded GPUs have a reason."""
    asked = model("Qwen/Qwen3-8B")
    make = split_maker("Qwen/Qwen3-8B", "0.25.1", {"max_model_len": 8192})
    unknown = replace(card("L4"), name="a card", total=None)

    def made(_: Ranks, first: Device) -> LaunchSettings:
        return make(Ranks(), first if first.total is not None else card("L4"))

    found = inverse.smallest_card(asked, made, [card("T4"), unknown, card("H200")])
    assert found.expected is not None
    assert (found.expected.name, found.low, found.high) == ("H200", found.expected, found.expected)
    assert found.reasons[0].startswith("T4 is too small (the weights do not fit")
    assert found.reasons[1:] == ("unknown: a card",)
    none = inverse.smallest_card(asked, made, [card("T4")])
    assert (none.low, none.expected, none.high) == (None, None, None)
    assert len(none.reasons) == 1
    first = inverse.smallest_card(asked, made, [card("H200"), card("T4")])
    assert first.reasons == ()


# ---- changes, one by one


def ways(
    given: Mapping[str, Any], *, name: str = GEMMA, on: str = "A100-80GB-PCIe", count: int = 1
) -> list[inverse.WayOut]:
    """The single changes that make a launch fit."""
    found = inverse.ways_out(model(name), maker(name, on, "0.19.0", given), [card(on)] * count, given)
    return [way for way in found if len(way.changes) == 1]


def by_name(found: list[inverse.WayOut]) -> dict[str, inverse.WayOut]:
    return {next(iter(way.changes)): way for way in found}


def test_each_change_has_its_cost_and_its_place() -> None:
    """Changes without loss for users come first: utilization, batch, concurrency, graphs."""
    found = by_name(ways({"max_model_len": 131_072, "max_num_batched_tokens": 16_384}, count=2))
    requests = found["max_num_seqs"].changes["max_num_seqs"] if "max_num_seqs" in found else 0
    assert {name: (way.price, *way.costs) for name, way in found.items() if name != "max_model_len"}.items() <= {
        "gpu_memory_utilization": (0, "less memory for other programs on the GPU"),
        "max_num_batched_tokens": (2, "long prompts take more prefill steps"),
        "max_num_seqs": (3, f"at most {requests} requests run concurrently"),
        "enforce_eager": (4, "slower decoding without CUDA graphs"),
        "kv_cache_dtype": (5, "slightly less accurate: 8-bit KV cache"),
        "tensor_parallel_size": (8, "2 GPUs instead of 1, with traffic between them in every layer"),
    }.items()
    assert found["tensor_parallel_size"].changes == {"tensor_parallel_size": 2}
    length = found["max_model_len"].changes["max_model_len"]
    assert length % 256 == 0
    assert found["max_model_len"].costs == ("longer requests are rejected",)
    assert found["max_model_len"].price == 6


@pytest.mark.parametrize("requests", [1, 2, 4, 8, 16, 32, 64])
def test_the_proposed_concurrency_is_the_largest_power_of_two_that_fits(requests: int) -> None:
    """The context leaves room for the logits of exactly this many requests."""
    of = tiny(vocab_size=262_144, num_hidden_layers=64)
    longest = inverse.longest_context(
        inverse.Trial(of, kept(of, max_num_seqs=requests, max_num_batched_tokens=512), [card("L4")])
    ).low
    given: dict[str, Any] = {"max_model_len": longest, "max_num_batched_tokens": 512}
    found = inverse.ways_out(of, kept(of, **given), [card("L4")], given)
    assert {"max_num_seqs": requests} in [way.changes for way in found]


def test_a_change_already_made_is_not_proposed() -> None:
    """No graphs if eager, no second GPU if there is one, no 8-bit cache if already set."""
    given = {"max_model_len": 131_072, "enforce_eager": True, "kv_cache_dtype": "fp8_e4m3"}
    names = set(by_name(ways(given)))
    assert names.isdisjoint({"enforce_eager", "kv_cache_dtype", "tensor_parallel_size", "limit_mm_per_prompt"})


def test_utilization_does_not_affect_a_cache_of_a_given_size() -> None:
    """`--kv-cache-memory-bytes` is fixed; a shorter context helps."""
    names = by_name(ways({"max_model_len": 131_072, "kv_cache_memory_bytes": 4 * GIB}))
    assert "gpu_memory_utilization" not in names
    assert "max_model_len" in names


def test_a_short_context_is_not_rounded_down() -> None:
    """Below 256 tokens the number is exact: 100 blocks, one reserved, are 1,584 tokens."""
    of = tiny()
    for blocks, length in ((100, 1536), (9, 128)):
        given: dict[str, Any] = {"kv_cache_memory_bytes": 16 * 1024 * blocks, "max_model_len": 40_000, "block_size": 16}
        found = inverse.ways_out(of, kept(of, **given), [card("L4")], given)
        lengths = [way.changes["max_model_len"] for way in found if tuple(way.changes) == ("max_model_len",)]
        assert lengths == [length]


def test_the_margin_is_the_room_beyond_one_request() -> None:
    """Of 100 blocks of 16 KiB one is reserved, a request of 800 tokens uses 50, and 49 remain."""
    of = tiny()
    made = budget(of, kept(of, kv_cache_memory_bytes=16 * 1024 * 100, max_model_len=800)({}), [card("L4")])
    assert inverse.margin(made) == (49 * 16 * 1024,) * 3
    unknown = budget(of, kept(of, max_model_len=800)({}), [replace(card("L4"), total=None)])
    assert inverse.margin(unknown) is None


@pytest.mark.parametrize(
    ("some", "more", "is_part"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2, "b": 2}, False),
        ({"a": 2}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({}, {"a": 1}, True),
    ],
)
def test_a_change_may_be_part_of_a_larger_one(some: dict[str, int], more: dict[str, int], *, is_part: bool) -> None:
    """A change that is enough alone is not repeated in a pair."""
    assert inverse._is_part(some, more) is is_part


@pytest.mark.parametrize(
    ("release", "capabilities", "takes"),
    [
        ("0.19.0", [(8, 9)], True),
        ("0.19.0", [(9, 0), (8, 9)], True),
        ("0.19.0", [(9, 0), None], False),
        ("0.19.0", [None], False),
        ("0.8.5", [(8, 9)], True),
        ("0.8.5", [(8, 8)], False),
        ("0.8.5", [(8, 9), (8, 8)], False),
        ("0.19.0", [(8, 6)], True),
    ],
)
def test_an_8_bit_cache_needs_support_on_all_gpus(
    release: str, capabilities: list[tuple[int, int] | None], *, takes: bool
) -> None:
    """In hardware from 8.9, earlier by the release's backends; an unknown GPU is not assumed."""
    devices = [Device("x", None, "", None, capability) for capability in capabilities]
    assert inverse._takes_fp8(release, devices) is takes


def test_layouts_with_fitted_contexts_are_compared_by_their_context() -> None:
    """Each layout holds about one request of its longest context: the remainder of a block decides nothing."""
    arguments = ["--max-model-len", "auto"]
    request = planner.request("meta-llama/Llama-3.3-70B-Instruct", "4xL40S", vllm="0.33.0", arguments=arguments)
    found = planner.find(request, "concurrency")
    contexts = [layout.kv_cache.longest_context or 0 for layout in planner.layouts(request).layouts if layout.legal]

    assert found.kv_cache.longest_context == max(contexts)
