"""The memory of a launch per GPU, compared with printed figures, and general properties."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies
from ruamel.yaml import YAML

import measured
from measured import HERE, PAGE, Off, Start, catalog, device, model, settled
from rows import in_one_test
from vllm_runbooks.catalog import start_rules
from vllm_runbooks.plan import actual, calibration, costs, inverse, layouts, refusals, terms
from vllm_runbooks.plan import budget as budgets
from vllm_runbooks.plan import settings as planned_settings
from vllm_runbooks.plan.budget import Budget, budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import settle
from vllm_runbooks.plan.terms import GIB, Band

RECORDED = [start for start in measured.starts() if start.is_recorded]
CASES = HERE.parent / "catalog" / "cases"


def planned(
    name: str, release: str, options: dict[str, Any], card: str, *, count: int = 1, total_gib: float | None = None
) -> Budget:
    """The budget of a catalog model on catalog GPUs."""
    return budget(
        model(name), settled(model(name), release, options, card), [device(card, total_gib=total_gib)] * count
    )


# ---- the recorded launches, from their configuration alone


@pytest.mark.parametrize("start", RECORDED, ids=lambda start: start.id)
def test_a_recorded_launch_is_planned_from_its_command(start: Start) -> None:
    """Weights are off by 0.5% at most, the cache's GiB and tokens by 1.5%, the requests by 2%; and it fits."""
    assert start.weights is not None
    assert start.cache is not None
    assert start.pool is not None
    assert start.budget.blocks is not None
    blocks, printed = start.budget.blocks.expected, start.printed
    assert start.weights.expected / GIB == pytest.approx(printed["weights_gib"], rel=0.005)
    assert start.cache.expected / GIB == pytest.approx(printed["kv_gib"], rel=0.015)
    assert start.pool.concurrency(blocks) == pytest.approx(printed["concurrency"], rel=0.02)
    if "tokens" in printed:
        assert start.pool.tokens(blocks) == pytest.approx(printed["tokens"], rel=0.015)
    else:
        assert blocks == pytest.approx(printed["blocks"], rel=0.015)
    assert start.budget.fits is True
    assert start.budget.limits == ()


@pytest.mark.parametrize("start", RECORDED, ids=lambda start: start.id)
def test_the_figures_of_a_recorded_launch_are_in_its_log(start: Start) -> None:
    """The planner is compared with figures that the case's log prints."""
    log = (HERE.parent / start.source.partition(",")[0]).read_text(encoding="utf-8")
    printed = start.printed
    assert re.search(rf"[Ll]oading (?:model weights )?took {printed['weights_gib']:g} ?(?:GiB|GB)", log)
    assert re.search(rf"{printed['concurrency']:.2f}x", log)
    assert re.search(rf"(?:Available KV cache memory: |reserved for KV Cache is ){printed['kv_gib']:g}0? ?GiB", log)
    assert f"{int(printed['tokens']):,} tokens" in log if "tokens" in printed else str(printed["blocks"]) in log


# ---- the recorded failure


PHONE, DESKTOP = "zai-org/AutoGLM-Phone-9B", "RTX3090"
FAILED: dict[str, Any] = {
    "max_model_len": 25480,
    "limit_mm_per_prompt": {"image": 10},
    # Its traceback has `run_dp_sharded_mrope_vision_model`, which only this mode calls (0.16.0
    # glm4_1v.py:1525).
    "mm_encoder_tp_mode": "data",
}


def phone(**more: Any) -> Budget:
    """The failed launch with other options, on a GPU of the size in its log."""
    total = float(failure()["total_gib"])
    return planned(PHONE, "0.16.0", {**FAILED, **more}, DESKTOP, total_gib=total)


def failure() -> dict[str, str]:
    """The error as the case describes it."""
    text = (CASES / "autoglm-3090-video-oom" / "case.yaml").read_text(encoding="utf-8")
    captures: dict[str, str] = YAML(typ="safe", pure=True).load(text)["expect"]["captures"]
    return captures


def test_the_recorded_failure_is_predicted_at_its_place() -> None:
    """The video's profile fails in SiluAndMul's output of 698.00 MiB, and is reported first."""
    found = phone()
    assert found.fits is False
    first, then = found.limits
    assert first.startswith("profiling 1 video of 18,605 tokens runs out of memory before the KV cache is sized")
    assert f"SiluAndMul's output needs {failure()['tried_mib']} MiB" in first
    assert """--limit-mm-per-prompt '{"video": 0}'""" in first
    needed, left = re.findall(r"in total ([\d.]+) GiB with 17% fragmentation, and ([\d.]+) GiB is left", first)[0]
    assert float(needed) > float(left), "the sum that does not fit is the one compared"
    assert then.startswith("no memory left for the KV cache")


def test_the_memory_of_the_failed_launch_matches_its_error() -> None:
    """Weights and live encoder tensors are within 1% of what PyTorch had allocated."""
    found = phone()
    weights = found.ranks[0].terms[0].band
    assert found.encoder is not None
    assert weights is not None
    (step,) = (step for step in found.encoder.steps if step.what == "SiluAndMul's output")
    assert (weights.expected + step.live - step.size) / GIB == pytest.approx(
        float(failure()["allocated_gib"]), rel=0.01
    )


def test_no_utilization_fixes_the_failed_launch() -> None:
    """The encoder is profiled before the cache is sized, so a larger share changes nothing."""
    for utilization in (0.9, 0.95):
        found = phone(gpu_memory_utilization=utilization)
        assert found.fits is False
        assert "at any gpu_memory_utilization" in found.limits[0]


def test_without_its_encoder_mode_the_failed_launch_is_uncertain() -> None:
    """The mode's copy is 202 MiB, and the error is 139 MiB short: 559 MiB free of 698."""
    found = phone(mm_encoder_tp_mode="weights")
    assert any(said.startswith("profiling 1 video of 18,605 tokens may run out") for said in found.limits)


def test_without_videos_the_failed_launch_reaches_its_cache() -> None:
    """The profile passes; at 0.9 one request does not fit, as 256 rows are sorted; 0.94 does, and 32 requests may."""
    none = {"image": 10, "video": 0}
    at_usual = phone(limit_mm_per_prompt=none)
    assert at_usual.fits is False
    assert [said[:32] for said in at_usual.limits] == ["the KV cache is too small: 0.37 "]
    assert phone(limit_mm_per_prompt=none, gpu_memory_utilization=0.94).fits is True
    assert phone(limit_mm_per_prompt=none, max_num_seqs=32).fits is None


# ---- launches with printed memory


def test_the_weights_of_nine_launches_in_ten_match() -> None:
    """The printed weights are within 1% for nine of ten launches, and always within 5%."""
    found = measured.weights()
    assert len(found) >= 100
    assert sum(abs(off.error) <= 0.01 for off in found) >= 0.9 * len(found)
    assert [off.start.id for off in found if abs(off.error) > 0.05] == []


@in_one_test("off", measured.counts(), ids=lambda off: f"{off.start.id}-{off.figure}")
def test_the_printed_memory_yields_the_printed_requests(off: Off) -> None:
    """The printed GiB give the printed tokens, blocks and requests within 2.5%."""
    assert abs(off.error) <= 0.025


def test_the_cache_memory_matches() -> None:
    """The cache is within 5% for at least 80% of the launches."""
    found = measured.caches()
    assert len(found) >= 80
    assert sum(abs(off.error) <= 0.05 for off in found) >= 0.8 * len(found)


def test_the_page_shows_calculated_figures() -> None:
    """Every figure between the page's marks comes from the launches and the planner."""
    assert measured.summary() in PAGE.read_text(encoding="utf-8")


def test_our_rows_next_to_the_peers_are_current() -> None:
    """`ours.json` has the current planner's answer for every launch that the peers planned."""
    peers = HERE / "benchmarks" / "peers"
    made: dict[str, Any] = runpy.run_path(str(peers / "ours.py"))
    assert json.loads((peers / "ours.json").read_text(encoding="utf-8")) == made["rows"]()


def test_a_closer_peer_is_named() -> None:
    """If another tool predicts the cache better, the page names it."""
    peers = HERE / "benchmarks" / "peers"
    rows = json.loads((peers / "rows.json").read_text("utf-8"))["rows"]
    ours = {row["case"]: row["kv_gib"] for row in json.loads((peers / "ours.json").read_text("utf-8"))}
    cases = json.loads((peers / "cases.json").read_text("utf-8"))["cases"]
    printed = {case["id"]: case["printed"]["kv_gib"] for case in cases if case["printed"]["kv_gib"]}
    nearer = {
        (row["peer"], row["case"])
        for row in rows
        if row["kv_gib"] is not None
        and row["case"] in printed
        and abs(row["kv_gib"] - printed[row["case"]]) < abs(ours[row["case"]] - printed[row["case"]])
    }
    assert {case for peer, case in nearer if peer == "aiconfigurator"} == {"S1", "P4", "H1", "H3", "H4"}
    assert {case for peer, case in nearer if peer == "llm-d-planner"} == {"P1", "P4", "H4", "H6"}


# ---- properties of every launch


RELEASES = ("0.8.5", "0.11.0", "0.19.0", "0.25.1", "0.33.0")
CARDS = ("RTX3090", "T4", "L40S", "A100-80GB", "H100-80GB")
MODELS = (
    "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "google/gemma-3-27b-it", "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-Next-80B-A3B-Instruct", "microsoft/phi-4",
)  # fmt: skip
an_ask = strategies.tuples(
    strategies.sampled_from(MODELS),
    strategies.sampled_from(RELEASES),
    strategies.sampled_from(CARDS),
    strategies.sampled_from([1, 2, 4]),
    strategies.integers(64, 32_768),
)


def asked(ask: tuple[str, str, str, int, int], **options: Any) -> Budget:
    """One of many launches."""
    name, release, card, count, length = ask
    told = {"max_model_len": length, "tensor_parallel_size": count, **options}
    return planned(name, release, told, card, count=count)


@given(an_ask, strategies.floats(0.1, 0.98), strategies.floats(0, 0.5))
@settings(max_examples=150, deadline=None)
def test_a_higher_utilization_never_gives_fewer_blocks(
    ask: tuple[str, str, str, int, int], utilization: float, more: float
) -> None:
    """Neither in the low nor in the expected or high case."""
    less = asked(ask, gpu_memory_utilization=utilization).blocks
    greater = asked(ask, gpu_memory_utilization=min(1, utilization + more)).blocks
    assert (less is None) == (greater is None)
    if less is not None and greater is not None:
        assert all(one <= other for one, other in zip(less, greater, strict=True))


@given(an_ask, strategies.integers(1, 32_768))
@settings(max_examples=150, deadline=None)
def test_a_longer_context_never_lets_more_requests_in(ask: tuple[str, str, str, int, int], more: int) -> None:
    """With the same blocks and batch, requests of a longer context are as many or fewer."""
    fixed = {"max_num_batched_tokens": 65_536, "max_num_seqs": 64}
    short, long = asked(ask, **fixed), asked((*ask[:4], ask[4] + more), **fixed)
    if short.pool is not None and long.pool is not None:
        assert long.pool.concurrency(10_000) <= short.pool.concurrency(10_000) * (1 + 1e-9)


@given(an_ask, strategies.sampled_from(["auto", "fp8"]), strategies.sampled_from(["eager", "graphs"]))
@settings(max_examples=150, deadline=None)
def test_low_and_high_enclose_the_expected_value(
    ask: tuple[str, str, str, int, int], cache_dtype: str, eager: str
) -> None:
    """For every term, the remainder, the blocks and the longest request."""
    found = asked(ask, kv_cache_dtype=cache_dtype, enforce_eager=eager == "eager")
    bands = [term.band for rank in found.ranks for term in (*rank.terms, rank.captured)]
    bands += [rank.available for rank in found.ranks] + [found.blocks, found.longest]
    assert [band for band in bands if band is not None and not band.low <= band.expected <= band.high] == []


@given(an_ask)
@settings(max_examples=100, deadline=None)
def test_a_budget_that_fits_serves_the_request(ask: tuple[str, str, str, int, int]) -> None:
    """If it fits, one request of the given length has room even in the conservative case."""
    found = asked(ask)
    if found.fits:
        assert found.longest is not None
        assert found.longest.low == found.settings.scheduler.max_model_len
        assert found.limits == ()


def test_unknown_facts_are_named() -> None:
    """An unknown GPU memory or architecture is named, not guessed."""
    qwen = model("Qwen/Qwen3-8B")
    told = settled(qwen, "0.19.0", {}, "A100-80GB")
    nameless = budget(qwen, told, [Device("some card", None, "no source has it")])
    assert nameless.fits is None
    assert "the memory of some card is unknown: no source has it" in nameless.limits

    strange = subject("strange", {"architectures": ["MadeUpForCausalLM"], "model_type": "made_up", "hidden_size": 64})
    unknown = budget(strange, settled(strange, "0.19.0", {}, "A100-80GB"), [device("A100-80GB")])
    assert unknown.fits is None
    assert any("architecture MadeUpForCausalLM" in said for said in unknown.limits)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dtype": "int4"}, "the dtype int4"),
        ({"kv_cache_dtype": "int3"}, "int3"),
        ({"quantization": "made_up"}, "made_up"),
        ({"enable_lora": True, "lora_target_modules": ["o_proj"]}, "lora_target_modules"),
        ({"speculative_config": {"model": "some/drafter", "num_speculative_tokens": 3}}, "some/drafter"),
    ],
)
def test_an_option_with_unknown_memory_is_named(options: dict[str, Any], what: str) -> None:
    """A plan with such an option never certainly fits, and names the option."""
    found = planned("Qwen/Qwen3-8B", "0.19.0", options, "A100-80GB")
    assert found.fits is None
    assert any(what in said for said in found.limits)


def test_an_unknown_gpu_is_named() -> None:
    """Without a GPU name, the batch and the requests that depend on it are named as missing."""
    qwen = model("Qwen/Qwen3-8B")
    found = budget(qwen, settled(qwen, "0.19.0", {}), [Device("some card", Band(*(24 * GIB,) * 3))])
    assert found.fits is None
    assert any("max_num_batched_tokens" in said for said in found.limits)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.full)])
def test_every_model_has_a_budget_or_a_reason(step: int) -> None:
    """Every catalog model on five kinds of GPUs and five releases: a budget or a reason.

    By default one in seven of the combinations, which include each model, GPU and release.
    """
    tried = list(product(catalog().texts, CARDS, RELEASES))[::step]
    assert [len({each[at] for each in tried}) for at in range(3)] == [len(catalog().texts), len(CARDS), len(RELEASES)]
    wrong = []
    for name, card, release in tried:
        try:
            found = planned(name, release, {}, card)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test looks for
            wrong.append(f"{name} {card} {release}: {error!r}")
            continue
        if found.fits is not True and not found.limits:
            wrong.append(f"{name} {card} {release}: {found.fits} without a reason")
        if found.fits is True and found.has_cache and (found.blocks is None or found.blocks.low <= 0):
            wrong.append(f"{name} {card} {release}: fits without a cache")
    assert wrong == []


# ---- one GPU, calculated


_TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 128,
    "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "vocab_size": 512, "max_position_embeddings": 1_000_000,
}  # fmt: skip
"""Two layers of two heads: 1,024 bytes of cache for a token in 16 bits."""


def sized(gib: float, **more: Any) -> Device:
    """A GPU with this much memory."""
    return Device("a card", Band(*(int(gib * GIB),) * 3), "", more.pop("node", None), (8, 9), **more)


def small(release: str = "0.19.0", *, on: Device | None = None, count: int = 1, **options: Any) -> Budget:
    """A launch of the small model, by default on GPUs with 24 GiB."""
    of = subject("tiny", _TINY)
    told = {"max_model_len": 1600, "block_size": 16, **options}
    settings_ = settle(of.shape, told, release, gpu_name="NVIDIA L4", memory_gib=24, capability=(8, 9))
    return budget(of, settings_, [on or sized(24)] * count)


def test_a_plan_cannot_be_changed() -> None:
    """Terms, GPUs, settings and derived values are shared by many readers and are immutable."""
    kinds = [
        kind
        for module in (actual, budgets, calibration, costs, inverse, layouts, planned_settings, start_rules, terms)
        for kind in vars(module).values()
        if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    assert len(kinds) >= 20
    for kind in kinds:
        with pytest.raises(FrozenInstanceError):
            setattr(object.__new__(kind), fields(kind)[0].name, None)


def test_a_subject_is_shown_without_its_configuration() -> None:
    """A configuration of hundreds of lines is in no message."""
    shown = repr(subject("tiny", _TINY))
    assert "hidden_size=128" in shown
    assert "max_position_embeddings" not in shown


_SMALL = "the KV cache is too small: 0.00 GiB available, 0.00 GiB needed for one request of 1,600 tokens on a card"


@pytest.mark.parametrize(
    ("release", "tokens", "said"),
    [
        ("0.19.0", 1600, ()),
        ("0.19.0", 1599, (_SMALL,)),
        ("0.32.0", 1616, ()),
        ("0.32.0", 1615, (_SMALL,)),
        ("0.32.0", 16, (_SMALL,)),
    ],
)
def test_one_request_of_the_longest_length_must_find_room(release: str, tokens: int, said: tuple[str, ...]) -> None:
    """1,600 tokens are 100 blocks of 16 KiB; 0.32 also needs the block that it reserves."""
    found = small(release, kv_cache_memory_bytes=1024 * tokens)
    assert (found.fits, found.limits) == (not said, said)
    assert found.blocks == (tokens // 16,) * 3


@pytest.mark.parametrize(("gib", "fits"), [(23.4, True), (23.6, False)])
def test_a_cache_of_a_given_size_must_fit(gib: float, *, fits: bool) -> None:
    """Driver and process use 0.5 of 24 GiB, the launch a little: 23.4 are too many with graphs."""
    found = small(kv_cache_memory_bytes=int((gib - 1) * GIB), enforce_eager=True)
    assert found.fits is True
    tight = small(kv_cache_memory_bytes=int((gib - 0.25) * GIB), enforce_eager=True)
    assert (tight.fits is True) is fits
    if not fits:
        assert tight.limits[0].startswith(f"the requested KV cache needs {gib - 0.25:.2f} GiB, and only 23.25 GiB is")


def test_blocks_that_are_set_are_the_cache() -> None:
    """77 blocks of 16 tokens regardless of the rest; they must fit, and hold one request."""
    found = small(num_gpu_blocks_override=177)
    assert (found.fits, found.blocks) == (True, (177,) * 3)
    few = small(num_gpu_blocks_override=50)
    assert few.fits is False
    many = small(num_gpu_blocks_override=2_000_000)
    assert many.fits is False
    # 2,000,000 blocks of 16 KiB.
    assert many.limits[0].startswith(f"the requested KV cache needs {2_000_000 * 16384 / GIB:.2f} GiB")


def test_a_share_that_is_not_free_ends_the_launch() -> None:
    """Half of 24 GiB is in use: 0.97 is free, 0.98 is not; no check before 0.9.2 (:120)."""
    assert small(gpu_memory_utilization=0.97).fits is not False
    found = small(gpu_memory_utilization=0.99)
    assert found.limits[0] == (
        "gpu_memory_utilization 0.99 requires 23.76 GiB, an idle a card has about 23.50 GiB free: vLLM's check "
        "of free memory fails"
    )
    assert not any("check of free memory" in said for said in small("0.8.5", gpu_memory_utilization=0.99).limits)
    given_ = small(gpu_memory_utilization=0.99, kv_cache_memory_bytes=GIB)
    assert given_.fits is True


def test_graphs_beyond_the_share_are_reported() -> None:
    """0.19 reserves nothing for graphs: at 0.97 they use the last free memory."""
    found = small(gpu_memory_utilization=0.97)
    assert found.fits is None
    assert len(found.limits) == 1
    assert re.fullmatch(
        r"CUDA graph capture needs 0\.\d\d GiB beyond what gpu_memory_utilization 0\.97 covers: 0\.\d\d GiB "
        r"more than a card has available",
        found.limits[0],
    )
    assert small(gpu_memory_utilization=0.97, enforce_eager=True).fits is True
    assert small(gpu_memory_utilization=0.9).fits is True


def test_weights_that_do_not_fit_are_the_only_reason() -> None:
    """Nothing after them happens."""
    found = planned("Qwen/Qwen3-32B", "0.19.0", {"max_model_len": 1024}, DESKTOP)
    assert found.fits is False
    assert found.limits[0].startswith("the weights do not fit: 61.0")
    needed, available = map(float, re.findall(r"(\d+\.\d\d) GiB (?:needed|available)", found.limits[0]))
    assert available < 23.69 < needed  # without the CUDA context, so that the sentence is never contradictory
    assert not any("profiling" in said for said in found.limits)


def test_a_batch_that_does_not_fit_is_reported_with_a_smaller_one() -> None:
    """One million tokens in a batch leave no room next to the weights."""
    found = planned("Qwen/Qwen3-8B", "0.19.0", {"max_model_len": 8192, "max_num_batched_tokens": 1_000_000}, DESKTOP)
    assert found.fits is False
    assert found.limits[0].startswith("profiling runs out of memory: it needs ")
    assert found.limits[0].endswith("lower max_num_seqs or max_num_batched_tokens")


@pytest.mark.parametrize(
    ("text", "reserves"), [(None, False), ("0", False), ("1", True), (" 0 ", False), ("", False), ("true", True)]
)
def test_the_variable_of_the_estimate_is_read(text: str | None, *, reserves: bool) -> None:
    """0.19 reserves graph memory if VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS says so (envs.py)."""
    of = subject("tiny", _TINY)
    settings_ = settle(of.shape, {"max_model_len": 1600}, "0.19.0", gpu_name="L4", memory_gib=24, capability=(8, 9))
    environment = {} if text is None else {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": text}
    (rank,) = budget(of, settings_, [sized(24)], environment=environment).ranks
    (graphs,) = (term.band for term in rank.terms if term.name == "cuda_graphs")
    assert graphs is not None
    assert (graphs.expected > 0) is reserves


def test_the_utilization_is_rounded_up_to_a_byte() -> None:
    """Half a byte of 24 GiB rounds up to the next byte (v1/worker/utils.py, `ceil`)."""
    (rank,) = small(gpu_memory_utilization=0.3).ranks
    wanted = -(-(24 * GIB * 3) // 10)
    assert rank.requested == (wanted,) * 3
    terms_ = [term.band for term in rank.terms if term.band is not None]
    assert rank.available is not None
    assert rank.available.expected == wanted - sum(band.expected for band in terms_)
    assert rank.available.low == wanted - sum(band.high for band in terms_)
    assert rank.available.high == wanted - sum(band.low for band in terms_)


def test_the_smallest_gpu_decides_for_its_stage() -> None:
    """Two unequal ranks have the smaller one's blocks; unknown memory leaves the plan open."""
    of = subject("tiny", _TINY)
    told = {"max_model_len": 1600, "tensor_parallel_size": 2}
    settings_ = settle(of.shape, told, "0.19.0", gpu_name="L4", memory_gib=24, capability=(8, 9))
    pairs = [(sized(24), sized(12)), (sized(12), sized(24)), (sized(12), sized(12))]
    blocks = [budget(of, settings_, pair).blocks for pair in pairs]
    assert blocks[0] == blocks[1] == blocks[2]
    unknown = budget(of, settings_, [sized(24), Device("a card", None, "nobody knows")])
    assert (unknown.available, unknown.blocks, unknown.longest, unknown.fits) == (None, None, None, None)
    assert unknown.limits == ("the memory of a card is unknown: nobody knows",)


def test_each_stage_has_its_own_room() -> None:
    """Two stages of two ranks: four GPUs, two figures."""
    found = small(count=4, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert [(rank.rank, rank.stage) for rank in found.ranks] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert found.available is not None
    assert [len(side) for side in found.available] == [2, 2, 2]
    names = [[term.name for term in rank.terms] for rank in found.ranks]
    assert all("communication" in each for each in names)
    assert "communication" not in [term.name for term in small().ranks[0].terms]


def test_an_invalid_split_is_planned_as_vllm_would_split_it() -> None:
    """The limit is reported; the GPUs are those of even stages."""
    of = subject("tiny", _TINY)
    told = {"max_model_len": 1600, "pipeline_parallel_size": 2}
    card_ = {"gpu_name": "L4", "memory_gib": 24, "capability": (8, 9)}
    made = [
        budget(of, settle(of.shape, told, "0.19.0", environment=environment, **card_), [sized(24)] * 2)  # type: ignore[arg-type]
        for environment in ({}, {"VLLM_PP_LAYER_PARTITION": "2,1"}, {"VLLM_PP_LAYER_PARTITION": "1,1"})
    ]
    assert [each.fits for each in made] == [True, False, True]
    assert made[0].available == made[1].available == made[2].available
    assert made[1].settings.ranks.partition is None
    assert made[2].settings.ranks.partition == (1, 1)


@pytest.mark.parametrize(
    ("release", "capability", "said"),
    [
        ("0.19.0", (7, 0), ()),
        (
            "0.19.0",
            (6, 1),
            ("a card has compute capability 6.1, and builds of vLLM 0.19.0 have no kernels for GPUs below 7.0",),
        ),
        (
            "0.20.2",
            (7, 0),
            ("a card has compute capability 7.0, and builds of vLLM 0.20.2 have no kernels for GPUs below 7.5",),
        ),
        ("0.20.2", (7, 5), ()),
        ("0.20.2", None, ()),
    ],
)
def test_gpus_below_the_minimum_capability_are_named(
    release: str, capability: tuple[int, int] | None, said: tuple[str, ...]
) -> None:
    """One sentence per kind of GPU, with the source of the minimum."""
    of = subject("tiny", _TINY)
    settings_ = settle(of.shape, {}, release, gpu_name="L4", memory_gib=24, capability=(8, 9))
    devices = [replace(sized(24), capability=capability)] * 2
    found = refusals.too_old(settings_, [*devices, sized(24)])
    assert [each.partition(" (")[0] for each in found] == list(said)


def test_weight_files_complete_a_configuration() -> None:
    """10 GiB of files on two GPUs as two stages: 2.5 GiB each, 0.98 to 1.25 of it."""
    of = subject("strange", {"architectures": ["MadeUp"], "model_type": "made_up"}, checkpoint_bytes=10 * GIB)
    told = {"max_model_len": 1024, "tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    for off in (0, 1):
        settings_ = settle(
            of.shape, {**told, "cpu_offload_gb": off}, "0.19.0", gpu_name="L4", memory_gib=24, capability=(8, 9)
        )
        for rank in budget(of, settings_, [sized(24)] * 4).ranks:
            weights = rank.terms[0].band
            assert weights is not None
            assert [side / GIB for side in weights] == pytest.approx([2.5 * 0.98 - off, 2.5 - off, 2.5 * 1.25 - off])
            assert rank.terms[0].source.startswith("headers of the model's files, split evenly")
    quantised = settle(of.shape, {**told, "quantization": "fp8"}, "0.19.0")
    assert budget(of, quantised, [sized(24)] * 4).ranks[0].terms[0].band is None


def test_offloaded_weights_are_not_on_the_gpu() -> None:
    """`--cpu-offload-gb` subtracts its bytes, never below zero."""
    plain, off, far = (
        planned("Qwen/Qwen3-8B", "0.19.0", {"max_model_len": 1024, "cpu_offload_gb": size}, "A100-80GB")
        .ranks[0]
        .terms[0]
        for size in (0, 4, 400)
    )
    assert plain.band is not None
    assert off.band is not None
    assert tuple(off.band) == tuple(side - 4 * GIB for side in plain.band)
    assert far.band == (0, 0, 0)


def test_certain_reasons_precede_open_ones() -> None:
    """First what ends the launch, then unknown facts."""
    found = small(kv_cache_memory_bytes=1024, dtype="int4")
    assert found.fits is False
    assert found.limits[0].startswith("the KV cache is too small")
    assert found.limits[1:] == ("unknown: the dtype int4",)


def test_a_gpu_has_the_facts_of_the_catalog() -> None:
    """Name, bytes, host, capability, interconnect and bandwidth; a missing total is reported."""
    (card_,) = catalog().gpus("A100-80GB-SXM@a")
    found = Device.of(card_)
    assert (found.name, found.node, found.capability) == ("A100-80GB-SXM", "a", (8, 0))
    assert (found.interconnect, found.bandwidth_gb_s) == ("nvlink", 2039)
    assert found.total is not None
    assert [side / GIB for side in found.total] == pytest.approx([79.14, 79.25, 79.25], abs=1e-6)
    (other,) = catalog().gpus("MI350X")
    assert Device.of(other).total is None
    assert Device.of(other).total_source == "unknown: how much of it the driver reserves"


def test_a_catalog_model_is_found_by_any_of_its_names() -> None:
    """A folder's name is enough; a model outside the catalog is not found."""
    found = budgets.subject_in_catalog("/models/Qwen3-8B", catalog())
    assert found is not None
    assert (found.name, found.is_partial) == ("Qwen/Qwen3-8B", catalog().file("Qwen/Qwen3-8B").is_partial)
    assert budgets.subject_in_catalog("someone/else", catalog()) is None


def test_the_draft_model_is_found_by_its_name() -> None:
    """In both forms of the option; a malformed name is not looked up."""
    of, asked_for = subject("tiny", _TINY), []

    def find(name: str) -> None:
        asked_for.append(name)

    for options in (
        {"speculative_config": {"model": "a/one", "num_speculative_tokens": 1}},
        {"speculative_model": "a/two"},
        {"spec_model": "a/three"},
        {"speculative_config": {"model": ""}},
        {"speculative_config": {"model": 7}},
        {"speculative_config": {"method": "ngram"}},
        {},
    ):
        assert budgets.drafted(of, options, find) is of
    assert asked_for == ["a/one", "a/two", "a/three"]


def test_a_request_that_is_never_served_is_reported() -> None:
    """A given number of blocks is used as is: 50 blocks are half of a request of 1,600 tokens."""
    found = small("0.7.2", num_gpu_blocks_override=50)
    assert found.fits is False
    assert any("0.50" in said or "too small" in said for said in found.limits)
