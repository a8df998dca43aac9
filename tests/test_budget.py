"""A start's memory, card by card, against what starts printed, and what holds for every start."""

from __future__ import annotations

import json
import re
import runpy
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies
from ruamel.yaml import YAML

import measured
from measured import HERE, PAGE, Off, Start, catalog, device, model, settled
from vllm_runbooks.planning.budget import Budget, Device, budget, subject
from vllm_runbooks.planning.terms import GIB, Band

RECORDED = [start for start in measured.starts() if start.is_recorded]
CASES = HERE.parent / "catalog" / "cases"


def planned(
    name: str, release: str, options: dict[str, Any], card: str, *, count: int = 1, total_gib: float | None = None
) -> Budget:
    """The budget of a model of the catalog on cards of the catalog."""
    return budget(
        model(name), settled(model(name), release, options, card), [device(card, total_gib=total_gib)] * count
    )


# ---- the recorded starts, from their configuration alone


@pytest.mark.parametrize("start", RECORDED, ids=lambda start: start.id)
def test_a_recorded_start_is_planned_from_its_command(start: Start) -> None:
    """Weights are off by 0.5 % at most, the cache's GiB and tokens by 1.5 %, the requests by 2 %; and it fits."""
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
def test_the_figures_of_a_recorded_start_stand_in_its_log(start: Start) -> None:
    """What the planner is held against is what the case's log prints."""
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
    # Its traceback goes through `run_dp_sharded_mrope_vision_model`: this mode alone calls it (0.16.0 glm4_1v.py:1525).
    "mm_encoder_tp_mode": "data",
}


def phone(**more: Any) -> Budget:
    """The failed start with other options, on a card of the size that its log prints."""
    total = float(failure()["total_gib"])
    return planned(PHONE, "0.16.0", {**FAILED, **more}, DESKTOP, total_gib=total)


def failure() -> dict[str, str]:
    """What the case says of the error."""
    text = (CASES / "autoglm-3090-video-oom" / "case.yaml").read_text(encoding="utf-8")
    captures: dict[str, str] = YAML(typ="safe", pure=True).load(text)["expect"]["captures"]
    return captures


def test_the_recorded_failure_is_foreseen_where_it_happened() -> None:
    """The video's profile runs out of memory in SiluAndMul's output of 698.00 MiB; said first, as it happens first."""
    found = phone()
    assert found.fits is False
    first, then = found.limits
    assert first.startswith("profiling 1 video of 18,605 tokens runs out of memory before the cache is sized")
    assert f"SiluAndMul's output takes {failure()['tried_mib']} MiB" in first
    assert """--limit-mm-per-prompt '{"video": 0}'""" in first
    assert then.startswith("nothing is left for the KV cache")


def test_what_the_failed_start_held_is_what_its_error_prints() -> None:
    """Weights and the encoder's living tensors are what PyTorch had allocated when it failed, within 1 %."""
    found = phone()
    weights = found.ranks[0].terms[0].band
    assert found.encoder is not None
    assert weights is not None
    (step,) = (step for step in found.encoder.steps if step.what == "SiluAndMul's output")
    assert (weights.expected + step.live - step.size) / GIB == pytest.approx(
        float(failure()["allocated_gib"]), rel=0.01
    )


def test_no_utilisation_helps_the_failed_start() -> None:
    """The encoder is profiled before the cache is sized: more of the card for vLLM changes nothing."""
    for utilization in (0.9, 0.95):
        found = phone(gpu_memory_utilization=utilization)
        assert found.fits is False
        assert "whatever the utilisation" in found.limits[0]


def test_without_the_mode_of_its_encoder_the_failed_start_is_not_sure() -> None:
    """The tensors of this mode's copy (202 MiB) are less than what the error leaves: 559 MiB free against 698."""
    found = phone(mm_encoder_tp_mode="weights")
    assert any(said.startswith("profiling 1 video of 18,605 tokens may run out") for said in found.limits)


def test_without_videos_the_failed_start_goes_on_to_its_cache() -> None:
    """The profile passes; at 0.9 one request does not fit, as 256 rows are sorted; 0.94 or 32 requests do."""
    none = {"image": 10, "video": 0}
    at_usual = phone(limit_mm_per_prompt=none)
    assert at_usual.fits is False
    assert [said[:32] for said in at_usual.limits] == ["the KV cache is too small: 0.40 "]
    assert phone(limit_mm_per_prompt=none, gpu_memory_utilization=0.94).fits is True
    assert phone(limit_mm_per_prompt=none, max_num_seqs=32).fits is True


# ---- starts that printed their memory


def test_the_weights_of_nine_starts_in_ten_are_met() -> None:
    """What "Model loading took" prints is within 1 % for nine of ten, and never further off than 3 %."""
    found = measured.weights()
    assert len(found) >= 60
    assert sum(abs(off.error) <= 0.01 for off in found) >= 0.9 * len(found)
    assert [off.start.id for off in found if abs(off.error) > 0.03] == []


@pytest.mark.parametrize("off", measured.counts(), ids=lambda off: f"{off.start.id}-{off.figure}")
def test_the_printed_memory_holds_the_printed_requests(off: Off) -> None:
    """From the printed GiB follow the printed tokens, blocks and requests within 2 %."""
    assert abs(off.error) <= 0.02


FAR = {"gpt-oss-120b-h100": "its weights fill the card: 0.45 % of them is a tenth of what they leave"}
"""Starts whose cache is further off than 5 %, and why."""


@pytest.mark.parametrize("off", measured.caches(), ids=lambda off: off.start.id)
def test_the_memory_for_the_cache_is_met(off: Off) -> None:
    """Where the card's total is known the cache's GiB are within 5 %."""
    assert abs(off.error) <= 0.05 or off.start.id in FAR


def test_every_exception_is_one() -> None:
    """No start is excused that needs no excuse."""
    assert {off.start.id for off in measured.caches() if abs(off.error) > 0.05} == set(FAR)


def test_nine_printed_figures_in_ten_lie_between_low_and_high() -> None:
    """The band of the weights and of the cache is as wide as what starts print."""
    for found in (measured.weights(), measured.caches()):
        assert sum(off.holds for off in found) >= 0.9 * len(found)


def test_the_page_shows_what_is_reckoned() -> None:
    """Every figure between the marks of the page comes from the starts and from the planner as it is."""
    assert measured.tables() in PAGE.read_text(encoding="utf-8")


def test_our_rows_beside_the_peers_are_what_the_planner_says() -> None:
    """`ours.json` is as the planner answers now, a row for every start that the peers were asked about."""
    peers = HERE / "benchmarks" / "peers"
    made: dict[str, Any] = runpy.run_path(str(peers / "ours.py"))
    assert json.loads((peers / "ours.json").read_text(encoding="utf-8")) == made["rows"]()


def test_a_peer_that_is_nearer_is_named() -> None:
    """Where another tool's memory for the cache is nearer to the printed one than ours, the page says so."""
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
    assert nearer == {
        ("aiconfigurator", "S1"), ("aiconfigurator", "P4"), ("llm-d-planner", "P1"), ("llm-d-planner", "P4"),
    }  # fmt: skip


# ---- what holds for every start


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
    """One of the many starts."""
    name, release, card, count, length = ask
    told = {"max_model_len": length, "tensor_parallel_size": count, **options}
    return planned(name, release, told, card, count=count)


@given(an_ask, strategies.floats(0.1, 0.98), strategies.floats(0, 0.5))
@settings(max_examples=150, deadline=None)
def test_more_of_the_card_never_gives_fewer_blocks(
    ask: tuple[str, str, str, int, int], utilization: float, more: float
) -> None:
    """A higher utilisation leaves as many blocks or more, on every side of what is uncertain."""
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
def test_low_and_high_enclose_what_is_expected(
    ask: tuple[str, str, str, int, int], cache_dtype: str, eager: str
) -> None:
    """Every term, what is left, the blocks and the longest request lie between their own low and high."""
    found = asked(ask, kv_cache_dtype=cache_dtype, enforce_eager=eager == "eager")
    bands = [term.band for rank in found.ranks for term in (*rank.terms, rank.captured)]
    bands += [rank.available for rank in found.ranks] + [found.blocks, found.longest]
    assert [band for band in bands if band is not None and not band.low <= band.expected <= band.high] == []


@given(an_ask)
@settings(max_examples=100, deadline=None)
def test_a_budget_that_fits_serves_what_is_asked(ask: tuple[str, str, str, int, int]) -> None:
    """Where it says that it fits, one request of the asked length finds room even on the careful side."""
    found = asked(ask)
    if found.fits:
        assert found.longest is not None
        assert found.longest.low == found.settings.max_model_len
        assert found.limits == ()


def test_what_is_not_known_is_named() -> None:
    """A card's memory and an architecture that are not known are named, not guessed."""
    qwen = model("Qwen/Qwen3-8B")
    told = settled(qwen, "0.19.0", {}, "A100-80GB")
    nameless = budget(qwen, told, [Device("some card", None, "no source has it")])
    assert nameless.fits is None
    assert "the memory of some card is not known: no source has it" in nameless.limits

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
def test_an_option_whose_memory_is_not_known_is_named(options: dict[str, Any], what: str) -> None:
    """A plan with such an option is never sure to fit, and says which it is."""
    found = planned("Qwen/Qwen3-8B", "0.19.0", options, "A100-80GB")
    assert found.fits is None
    assert any(what in said for said in found.limits)


def test_a_card_that_settles_nothing_is_named() -> None:
    """Without a card's name the batch and the requests that depend on it are missing, by name."""
    qwen = model("Qwen/Qwen3-8B")
    found = budget(qwen, settled(qwen, "0.19.0", {}), [Device("some card", Band(*(24 * GIB,) * 3))])
    assert found.fits is None
    assert any("max_num_batched_tokens" in said for said in found.limits)


def test_every_model_has_a_budget_or_a_reason() -> None:
    """All models of the catalog, on cards of five kinds and releases of five ages: a budget, or why there is none."""
    wrong = []
    for name, card, release in product(catalog().texts, CARDS, RELEASES):
        try:
            found = planned(name, release, {}, card)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test looks for
            wrong.append(f"{name} {card} {release}: {error!r}")
            continue
        if found.fits is not True and not found.limits:
            wrong.append(f"{name} {card} {release}: {found.fits} without a reason")
        if found.fits is True and (found.blocks is None or found.blocks.low <= 0):
            wrong.append(f"{name} {card} {release}: fits without a cache")
    assert wrong == []
