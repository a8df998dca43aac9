"""Plans begin with the answer, name unknown facts, fit a terminal's width, and escape names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, cast

import pytest

from vllm_runbooks import render
from vllm_runbooks.core import markup
from vllm_runbooks.core.records import ComparedTerm, Facts, PlanComparison, Residual, ServerRun
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.plan.budget import subject
from vllm_runbooks.plan.confirmation import Confirmation, Look, PrintedLine
from vllm_runbooks.plan.inverse import WayOut
from vllm_runbooks.plan.records import (
    Find,
    FindAnswer,
    Layouts,
    ParallelLayout,
    Plan,
    PlanCalibration,
    PlannedCache,
    PlannedDeployment,
    PlannedGpu,
    PlannedRank,
    PlannedTerm,
    Speed,
)
from vllm_runbooks.plan.render import plans
from vllm_runbooks.plan.render import words as plan_words
from vllm_runbooks.plan.requests import PlanningRequest
from vllm_runbooks.plan.terms import Band
from vllm_runbooks.reading import sources

HOSTILE = "</td></pre><script>alert(1)</script>\"' onload=alert(1) \x1b[31m \u202e&<b>"
RELEASE = CommandRelease("0.19.0", "given", "0.19.0")
A100 = PlannedGpu("A100-80GB", 1, None, 79.25, "as the driver reports it")

# gpt-oss-20b of a 0.19.0 launch at utilization 0.65: values of the log, with ranges as in a plan.
CACHE = PlannedCache(
    36.56, 36.26, 36.66, 798_624, 792_000, 800_800, "slots", 11.99, 99_828, 16, 3.0501, 131_072
)  # fmt: skip
TERMS = (
    PlannedTerm("weights", 13.69, 13.69, 13.72, "vLLM's layout of config.json; Marlin pads the hidden size to 3072"),
    PlannedTerm("activation", 0.73, 0.77, 0.86, "logits of 256 sequences"),
    PlannedTerm("non_torch", 0.2, 0.26, 0.35, "measured with 0.19 on one card"),
    PlannedTerm("cuda_graphs", 0.5, 0.69, 1.1, "measured with 0.19; not subtracted by it"),
    PlannedTerm("kv_cache", 36.26, 36.56, 36.66, "what the budget leaves"),
)
START = PlannedDeployment(
    "openai/gpt-oss-20b",
    {"gpu_memory_utilization": 0.65},
    {},
    "vllm serve openai/gpt-oss-20b \\\n  --gpu-memory-utilization 0.65",
)


@pytest.fixture(scope="module")
def fits() -> Plan:
    rank = PlannedRank("A100-80GB", 0, None, 79.25, 36.56, True, TERMS)
    limits = ("The KV cache, not the context, limits the requests at once.",)
    options = {"max_model_len": 131_072, "max_num_seqs": 256, "max_num_batched_tokens": 2048}
    return Plan(
        "openai/gpt-oss-20b",
        RELEASE,
        (A100,),
        True,
        (rank,),
        CACHE,
        limits,
        START,
        PlanCalibration(False),
        options=options,
    )


@pytest.fixture(scope="module")
def too_big(fits: Plan) -> Plan:
    """gemma-4-31B-it, which has 15.18 GiB at utilisation 0.95, at 0.9: one request of 131,072 tokens takes 12.36."""
    terms = (
        PlannedTerm("weights", 58.83, 58.83, 58.9, "vLLM's layout of config.json"),
        PlannedTerm("activation", 0.9, 1.02, 1.2, "logits of 256 sequences"),
        PlannedTerm("non_torch", 0.2, 0.26, 0.35, "measured with 0.19 on one card"),
        PlannedTerm("kv_cache", 10.88, 11.22, 11.4, "what the budget leaves"),
    )
    rank = PlannedRank("A100-80GB", 0, None, 79.25, 11.22, False, terms)
    cache = PlannedCache(11.22, 10.88, 11.4, 12_240, 11_870, 12_448, "slots", 0.91, 4_595, 16, 12.36, 108_768)
    model = "google/gemma-4-31B-it"
    start = PlannedDeployment(model, {"gpu_memory_utilization": 0.9}, {}, f"vllm serve {model}")
    return replace(fits, model=model, fits=False, per_gpu=(rank,), kv_cache=cache, deployment=start, limits=())


@pytest.fixture(scope="module")
def unknown(fits: Plan) -> Plan:
    """A vision model of a family without a rule for its encoder."""
    missing = PlannedTerm("encoder", None, None, None, "no rule for the pictures of this family")
    follows = PlannedTerm("kv_cache", None, None, None, "the encoder profile is not known")
    rank = replace(fits.per_gpu[0], fits=None, available_gib=None, terms=(*TERMS[:3], missing, follows))
    cache = PlannedCache(None, None, None, None, None, None, None, None, None, None, 3.05, None)
    return replace(fits, fits=None, per_gpu=(rank,), kv_cache=cache)


def pair_rank(rank: int, activation: float, non_torch: float, cache: float) -> PlannedRank:
    terms = (
        PlannedTerm("weights", 1.44, 1.45, 1.46, "vLLM's layout of config.json"),
        PlannedTerm("activation", activation, activation, activation, "the sampler runs on the first card"),
        PlannedTerm("non_torch", non_torch, non_torch, non_torch, "measured with 0.7.2"),
        PlannedTerm("kv_cache", cache, cache, cache, "what the budget leaves"),
    )
    return PlannedRank("RTX3090", rank, "node1", 23.69, cache, True, terms)


@pytest.fixture(scope="module")
def pair(fits: Plan, unknown: Plan) -> Layouts:
    """Qwen2.5-1.5B-Instruct on two GPUs with 0.7.2: the ranks differ, the smaller one decides."""
    gpus = (PlannedGpu("RTX3090", 2, "node1", 23.69, "printed"),)
    cache = PlannedCache(8.6, 8.6, 8.6, 644_304, 644_304, 644_304, "slots", 5033.62, 40_269, 16, 0.0017, 32_768)
    model = "Qwen/Qwen2.5-1.5B-Instruct"
    ranks = (pair_rank(0, 1.39, 0.4, 8.6), pair_rank(1, 0.09, 0.37, 9.93))
    speed = Speed(95.2, "the weights are read once for each token")
    base = replace(fits, model=model, gpus=gpus, per_gpu=ranks, kv_cache=cache, legal=True, options={})
    half = replace(base, layout=ParallelLayout(1, 2, 1, 1), reasons=("one answer uses both cards",), speed=speed)
    each = replace(half, layout=ParallelLayout(2, 1, 1, 1), total_concurrency=10_067.24, per_gpu=ranks[:1])
    gone = replace(cache, longest_context=None)
    full = replace(base, layout=ParallelLayout(1, 1, 1, 2), total_concurrency=10_067.24, fits=False, kv_cache=gone)
    dark = replace(unknown, layout=ParallelLayout(1, 1, 2, 1), legal=True, reasons=("the split is not known",))
    refused = replace(base, layout=ParallelLayout(1, 3, 1, 1), legal=False, reasons=("12 heads on 3 cards", "2 cards"))
    return Layouts(model, RELEASE, gpus, True, (each, half, dark, full, refused))


@pytest.fixture(scope="module")
def compared() -> PlanComparison:
    terms = (
        ComparedTerm("weights", 13.69, 13.69, 13.72, 13.72, "within the planned range"),
        ComparedTerm("activation", 0.77, 0.73, 0.86, 0.96, "the forward pass takes more than the sampler"),
        ComparedTerm("communication", 0.0, None, None, None, ""),
    )
    kept = Residual("0.19.0", "A100-80GB", "GptOssForCausalLM", "activation", 0.77, 0.96, "a start")
    return PlanComparison(terms, "activation", ("the card's memory is not printed",), (kept,))


FOUND = FindAnswer(Find.CONTEXT, 131_072, "tokens", 120_000, 131_072, ("The model takes no more.",))


def every(fits: Plan, too_big: Plan, unknown: Plan, pair: Layouts, compared: PlanComparison) -> list[plans.Viewed]:
    return [fits, too_big, unknown, pair, compared, FOUND, replace(fits, found=FOUND)]


@pytest.fixture
def views(fits: Plan, too_big: Plan, unknown: Plan, pair: Layouts, compared: PlanComparison) -> list[plans.Viewed]:
    return every(fits, too_big, unknown, pair, compared)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "fits: 36.6 GiB of KV cache, 798,624 tokens, 11 concurrent requests of 131,072 tokens"),
        ({"total_concurrency": 11.99, "layout": ParallelLayout(1, 1, 1, 1)},
         "fits: 36.6 GiB of KV cache, 798,624 tokens, 11 concurrent requests of 131,072 tokens"),
        ({"total_concurrency": 47.96, "layout": ParallelLayout(2, 1, 1, 2)},
         ("fits: 36.6 GiB of KV cache per GPU, 798,624 tokens in each replica, "
          "47 concurrent requests of 131,072 tokens in total")),
        ({"options": {}},
         "fits: 36.6 GiB of KV cache, 798,624 tokens, 11 concurrent requests of the whole context"),
        ({"kv_cache": replace(CACHE, gib=None, tokens=None, max_concurrency=None)},
         "fits: unknown KV cache memory"),
        ({"fits": False}, "does not fit: The KV cache, not the context, limits the requests at once."),
        ({"fits": False, "limits": ()}, "does not fit: no memory left for the KV cache"),
        ({"fits": None, "kv_cache": replace(CACHE, low=-0.5, high=3.4)},
         ("uncertain: 0.00 to 3.40 GiB left for the KV cache per GPU, "
          "one request of 131,072 tokens needs 3.05 GiB")),
        ({"fits": None, "kv_cache": replace(CACHE, low=None)},
         "uncertain: The KV cache, not the context, limits the requests at once."),
        ({"fits": None, "kv_cache": replace(CACHE, needed_gib=None), "limits": ()},
         "uncertain: it depends on unknown figures"),
        ({"legal": False, "reasons": ("12 heads on 5 cards",)}, "invalid: 12 heads on 5 cards"),
        ({"legal": False}, "invalid: this release rejects it"),
    ],
)  # fmt: skip
def test_the_answer_is_one_line(fits: Plan, change: dict[str, Any], said: str) -> None:
    """Its capacity if it fits, the reason if it does not, or the missing fact."""
    plan = replace(fits, **change)

    assert str(plan_words.headline(plan)) == said
    assert " ".join(plans.text(plan).split()).startswith(said)


def test_a_plan_that_does_not_fit_states_the_shortage(too_big: Plan) -> None:
    """The memory of one request and the remaining memory."""
    said = "does not fit: one request of 131,072 tokens needs 12.4 GiB of KV cache per GPU, 11.2 left"

    assert str(plan_words.headline(too_big)) == said


def test_the_whole_text(fits: Plan) -> None:
    """Answer, GPUs with their terms, KV cache, limits, command, calibration."""
    assert plans.text(fits) == WHOLE


WHOLE = """\
fits: 36.6 GiB of KV cache, 798,624 tokens, 11 concurrent requests of 131,072
tokens
openai/gpt-oss-20b on 1 x A100-80GB (79.25 GiB), vLLM 0.19.0

GPU 0 · A100-80GB: 79.25 GiB, 36.56 GiB for the KV cache, enough for one request
  GiB                  low  expected    high
  weights            13.69     13.69   13.72
  activation peak     0.73      0.77    0.86
  non-torch memory    0.20      0.26    0.35
  CUDA graphs         0.50      0.69    1.10
  KV cache           36.26     36.56   36.66
  weights: vLLM's layout of config.json; Marlin pads the hidden size to 3072
  activation peak: logits of 256 sequences
  non-torch memory: measured with 0.19 on one card
  CUDA graphs: measured with 0.19; not subtracted by it
  KV cache: what the budget leaves

KV CACHE
  per GPU               36.56 GiB (36.26 to 36.66)
  tokens                798,624 (792,000 to 800,800), slots of one layer group
  max concurrency       11 requests of 131,072 tokens
  longest context       131,072 tokens
  KV cache per request  3.05 GiB per GPU
  blocks                99,828 of 16 tokens each

LIMITS
  - The KV cache, not the context, limits the requests at once.

DEFAULTS OF THIS RELEASE
  max_model_len=131072, max_num_seqs=256, max_num_batched_tokens=2048

COMMAND, linted for vLLM 0.19.0
  vllm serve openai/gpt-oss-20b \\
    --gpu-memory-utilization 0.65

CALIBRATION
  - off: planned from the configuration and this release's rules and constants
  - A100-80GB: 1 launch compared with the plan
"""


def test_text_fits_the_width_of_a_terminal(views: list[plans.Viewed]) -> None:
    """80 columns without trailing blanks; a command stays whole for copying."""
    for view in views:
        lines = plans.shown(view).plain.split("\n")
        assert max(map(len, lines)) <= 80
        assert [line for line in lines if line != line.rstrip()] == []
    long = replace(START, command=f"vllm serve {'m' * 100}")
    assert f"  {long.command}" in plans.text(replace(cast("Plan", views[0]), deployment=long)).split("\n")


def test_an_unknown_is_named(unknown: Plan) -> None:
    """In the answer, next to the term and in place of the KV cache, never as a number."""
    said = plans.text(unknown)

    why = "cannot calculate the encoder profile (no rule for the pictures of this family)"
    assert " ".join(said.split()).startswith(f"uncertain: {why} ")
    assert "  encoder profile unknown: no rule for the pictures of this family\n" in said
    assert "  per GPU               unknown: encoder profile\n" in said
    assert "  KV cache per request  3.05 GiB per GPU\n" in said
    assert "tokens                " not in said
    bare = replace(unknown, per_gpu=(), limits=(), gpus=(replace(A100, total_gib=None),))
    assert "per GPU               unknown: see the limits" in plans.text(bare)
    assert "1 x A100-80GB (memory unknown)" in plans.text(bare)
    sizeless = replace(unknown, per_gpu=(replace(unknown.per_gpu[0], total_gib=None),))
    assert "GPU 0 · A100-80GB: its memory is unknown\n" in plans.text(sizeless)
    cloudy = replace(unknown, kv_cache=replace(unknown.kv_cache, needed_gib=None), options={"max_num_seqs": None})
    assert "KV cache per request" not in plans.text(cloudy)
    assert "max_num_seqs=unknown" in plans.text(cloudy)


def test_known_facts_about_the_cache_are_shown(fits: Plan) -> None:
    """Rows without a value are left out, blocks of an unknown size counted, an exact amount without a band."""
    bare = PlannedCache(36.56, None, None, None, None, None, None, None, 99_828, None, None, None)
    said = plans.text(replace(fits, kv_cache=bare, gpus=(), deployment=None, limits=()))

    assert "KV CACHE\n  per GPU               36.56 GiB\n  blocks                99,828\n\n" in said
    assert "on no GPU, vLLM 0.19.0" in said
    assert "COMMAND" not in said
    assert "LIMITS" not in said
    plain = plans.text(replace(fits, kv_cache=replace(CACHE, tokens_meaning=None, tokens_low=None, blocks=None)))
    assert "  tokens                798,624\n" in plain
    assert "blocks" not in plain


def test_the_choice_of_the_release_is_explained() -> None:
    """The newest one by default, and the rules used for an unknown one."""
    assert plan_words.release(CommandRelease("0.32.0", "newest", "0.32.0")) == "vLLM 0.32.0, the newest known"
    assert plan_words.release(CommandRelease("0.19.1", "log", "0.19.0")) == "vLLM 0.19.1, by the rules of 0.19.0"


def test_gpus_with_equal_plans_are_grouped(fits: Plan, pair: Layouts) -> None:
    """Four equal ranks are one table; two different ones are two, each with its KV cache."""
    four = replace(fits, per_gpu=tuple(replace(fits.per_gpu[0], rank=rank) for rank in range(4)))

    assert plans.text(four).count("  expected    high\n") == 1
    assert "GPUs 0-3, each · A100-80GB: 79.25 GiB" in plans.text(four)
    two = " ".join(plans.text(pair.layouts[1]).split())
    assert "GPU 0 · RTX3090 · node1: 23.69 GiB, 8.60 GiB for the KV cache, enough for one request" in two
    assert "GPU 1 · RTX3090 · node1: 23.69 GiB, 9.93 GiB for the KV cache, enough for one request" in two


def test_layouts_are_ranked_with_reasons(pair: Layouts) -> None:
    """The best one first and in full; others have their reason."""
    said = plans.text(pair)

    first = (
        "fits: best as 2 x 1 GPU, 8.60 GiB of KV cache per GPU, 644,304 tokens in each replica, "
        "10,067 concurrent requests of the whole context in total "
    )
    assert " ".join(said.split()).startswith(first)
    assert (
        "  LAYOUT                FITS       CONTEXT  CONCURRENT  KV GiB PER GPU\n"
        "  2 x 1 GPU             yes         32,768      10,067            8.60\n"
        "      One answer uses both cards.\n"
        "  TP 2                  yes         32,768       5,033            8.60\n"
        "      One answer uses both cards.\n"
        "  PP 2                  ?          unknown     unknown         unknown\n"
        "      The split is not known.\n"
        "  DP 2                  no               -           -            8.60\n"
        "\n"
        "BEST LAYOUT: 2 x 1 GPU\n"
    ) in said
    assert "  KV cache per request  1.7 MiB per GPU\n" in said
    assert "5,033 requests of the whole context in each replica, 10,067 in total" in " ".join(said.split())
    assert "ESTIMATED SPEED\n  Decoding of one request: at most 95 tokens/s (the weights are read" in said
    assert said.endswith("INVALID\n  - TP 3: 12 heads on 3 cards; 2 cards\n")


@pytest.mark.parametrize(
    ("fits_any", "kept", "said"),
    [
        (False, slice(3, 5), "does not fit: none of 1 valid layout; DP 2: The KV cache, not the context,"),
        (False, slice(2, 5), "does not fit: none of 2 valid layouts; DP 2: The KV cache, not the context,"),
        (
            None,
            slice(2, 5),
            "uncertain: best as PP 2, cannot calculate the encoder profile (no rule for the pictures of this family)",
        ),
        (False, slice(4, 5), "does not fit: no valid parallel layout for these GPUs"),
    ],
)
def test_layouts_have_one_answer(pair: Layouts, fits_any: bool | None, kept: slice, said: str) -> None:  # noqa: FBT001
    """The fitting one, the missing fact, or the layout with the smallest shortage."""
    some = replace(pair, fits=fits_any, layouts=pair.layouts[kept])

    assert str(plan_words.layouts_headline(some)).startswith(said)
    assert " ".join(plans.text(some).split()).startswith(said)


def test_a_layout_that_fits_a_shorter_context_does_not_contradict_itself(pair: Layouts) -> None:
    """Its longest context is certain, rounded and a maximum; it has no concurrent requests of the whole context."""
    short = replace(
        pair.layouts[3], kv_cache=replace(pair.layouts[3].kv_cache, longest_context=30_000, longest_context_low=26_976)
    )
    ranking = replace(pair, layouts=(pair.layouts[0], short))
    html = plans.ranking_html(ranking.layouts)

    assert "  DP 2                  no      max 26,880           -            8.60\n" in plans.text(ranking)
    assert ">fits at 26,880</span>" in html
    assert ">\u2713 fits</span>" in html
    none = replace(short, kv_cache=replace(short.kv_cache, longest_context_low=None))
    assert ">\u2717 does not fit</span>" in plans.ranking_html((pair.layouts[0], none))


def test_a_page_has_the_layouts_and_one_chart_and_folds_the_calculation(pair: Layouts) -> None:
    """The chart is first; terms, sources, speed and layouts that do not fit are folded."""
    short = replace(pair.layouts[-1], fits=False, kv_cache=replace(pair.layouts[-1].kv_cache, longest_context=None))
    html = plans.details_html(replace(pair, layouts=(*pair.layouts[:-1], short)))
    folded = "".join(re.findall(r"<details.*?</details>", html, re.DOTALL))
    shown = re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)

    assert shown.index("<svg") < shown.index("<table")
    assert shown.count("<table") == 1
    assert "does not fit" not in shown
    assert "Layouts that do not fit (1)" in folded
    assert shown.count("KV GiB per GPU") == 1
    assert "Layouts side by side" not in html
    for words in ("KV cache per request", "Speed, an estimate", "expected</th>"):
        assert words not in shown
        assert words in folded
    assert "<details" in plans.details_html(pair.layouts[0])


def test_an_error_without_a_reason_is_the_releases(pair: Layouts) -> None:
    """And a ranking without reasons has none."""
    refused = replace(pair.layouts[4], reasons=())

    assert "- TP 3: this release rejects it" in plans.text(replace(pair, layouts=(refused,)))
    assert "INVALID" not in plans.text(replace(pair, layouts=pair.layouts[:2]))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FOUND, "longest context: 131,072 tokens (120,000 to 131,072)\n  - The model takes no more.\n"),
        (FindAnswer(Find.UTILIZATION, 0.675, "", 0.675, 0.675, ()), "lowest gpu_memory_utilization: 0.675\n"),
        (FindAnswer(Find.CONCURRENCY, 11.99, "requests", None, None, ()), "max concurrency: 11.99 requests\n"),
        (FindAnswer(Find.GPUS, "2 x RTX3090", "", "2 x RTX3090", "4 x RTX3090", ()),
         "GPUs needed: 2 x RTX3090 (2 x RTX3090 to 4 x RTX3090)\n"),
        (FindAnswer(Find.GPUS, 0.0, "cards", None, None, ()), "GPUs needed: 0 cards\n"),
        (FindAnswer(Find.GPUS, None, "", None, None, ("No card is large enough.", "The largest known has 268 GiB.")),
         "GPUs needed: unknown: No card is large enough.\n  - The largest known has 268 GiB.\n"),
        (FindAnswer(Find.CONTEXT, None, "tokens", None, None, ()),
         "longest context: unknown: it depends on unknown figures\n"),
    ],
)  # fmt: skip
def test_inverse_questions_have_an_answer_with_its_range(found: FindAnswer, said: str) -> None:
    """Value, unit, range and reasons, before its plan."""
    assert plans.text(found) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (1, "cards of RTX3090", "GPUs needed: 1 card of RTX3090"),
        (2, "cards of RTX3090", "GPUs needed: 2 cards of RTX3090"),
        (1, "requests", "GPUs needed: 1 request"),
    ],
)
def test_one_is_counted_in_the_singular(value: int, unit: str, said: str) -> None:
    """One GPU is not "1 GPUs"."""
    assert str(plan_words.found_headline(FindAnswer(Find.GPUS, value, unit, value, value, ()))) == said


def test_gpus_of_one_replica_have_their_own_cache(pair: Layouts) -> None:
    """With two tensor-parallel GPUs the memory is each GPU's, the tokens are the group's."""
    said = "fits: 8.60 GiB of KV cache per GPU, 644,304 tokens, 5,033 concurrent requests of the whole context"

    assert str(plan_words.headline(pair.layouts[1])) == said


def test_a_request_shows_no_secret() -> None:
    """A key is hidden as a value, in a list and in an object; other options are shown."""
    keys = ["aaa-first-of-ours", "bbb-second-of-ours"]
    options = {
        "api_key": keys, "hf_token": "ccc-third-of-ours", "hf_overrides": {"api_key": "ddd-fourth-of-ours"},
        "max_model_len": 4096, "enforce_eager": True, "served_model_name": ["ours"],
    }  # fmt: skip
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    shown = render.plan_sections.asked(PlanningRequest(subject("ours", config), (), RELEASE, options))

    for said in (shown.plain, shown.html):
        assert not [word for word in ("first", "second", "third", "fourth") if f"{word}-of-ours" in said]
        assert "[secret-" in said
        assert "max_model_len 4096" in " ".join(said.split())
    assert 'enforce_eager true, served_model_name ["ours"]' in " ".join(shown.plain.split())


def test_the_answer_to_a_question_precedes_its_plan(fits: Plan) -> None:
    """The longest context is the first line."""
    assert plans.text(replace(fits, found=FOUND)).startswith("longest context: 131,072 tokens")
    page = plans.html(replace(fits, found=FOUND))
    assert page.index(">longest context<") < page.index(">fits<")


def test_a_comparison_names_deviating_terms(compared: PlanComparison) -> None:
    """Term by term, with missing facts and conclusions."""
    said = plans.text_compared(compared)

    assert said.startswith("off: activation peak, 0.96 GiB printed, 0.77 GiB planned\n")
    assert (
        "  weights             13.69  13.69 to 13.72        13.72         +0.03\n"
        "      within the planned range\n"
        "  activation peak      0.77  0.73 to 0.86           0.96         +0.19\n"
    ) in said
    assert "  communication        0.00                      unknown\n" in said
    assert "  - unknown: the card's memory is not printed\n" in said
    assert "activation peak: 0.96 GiB printed, 0.77 GiB planned, vLLM 0.19.0, A100-80GB," in said


def test_plan_against_actual_without_a_difference(compared: PlanComparison) -> None:
    """As planned, or nothing to compare, or off by a term without figures."""
    weights, _, none = compared.terms
    bare = PlanComparison((), None)
    anonymous = replace(compared.residuals[0], gpu=None, architecture=None)

    assert str(plan_words.compared_headline(PlanComparison((weights,), None))) == (
        "as planned: 1 reported value is within the planned range"
    )
    assert str(plan_words.compared_headline(PlanComparison((weights, weights), None))).startswith(
        "as planned: 2 reported values"
    )
    assert plans.text_compared(bare) == "not compared: the log prints no term of the plan\n"
    assert (
        str(plan_words.compared_headline(replace(bare, missing=("no memory lines",))))
        == "not compared: no memory lines"
    )
    assert str(plan_words.compared_headline(PlanComparison((none,), "communication"))) == "off: communication"
    assert str(plan_words.compared_headline(PlanComparison((), "kv_cache"))) == "off: KV cache"
    unplanned = replace(weights, planned_gib=None, low_gib=None)
    assert "  weights           unknown                        13.72\n" in plans.text_compared(
        PlanComparison((unplanned,), None, (), (anonymous,))
    )
    assert "unknown GPU, unknown architecture" in " ".join(
        plans.text_compared(PlanComparison((), None, (), (anonymous,))).split()
    )
    assert "KEPT" not in plans.html(bare)


@pytest.mark.parametrize(
    ("calibration", "said"),
    [
        (
            PlanCalibration(True, ("Activation: 4 starts.",)),
            "CALIBRATION\n  - Activation: 4 starts.\n  - A100-80GB: 1 launch ",
        ),
        (PlanCalibration(True), "CALIBRATION\n  - no recorded launch corrects these values\n  - A100-80GB: "),
    ],
)
def test_corrections_of_the_plan_are_named(fits: Plan, calibration: PlanCalibration, said: str) -> None:
    """A sentence for each correction, or that there was none to make, and the launches on each GPU."""
    assert said in plans.text(replace(fits, calibration=calibration))


KEYS = [
    "model", "vllm", "gpus", "fits", "per_gpu", "kv_cache", "limits", "deployment", "calibration", "layout", "legal",
    "reasons", "speed", "total_concurrency", "found", "options", "missing", "assumptions",
]  # fmt: skip


def test_json_has_the_documented_keys(fits: Plan, pair: Layouts) -> None:
    """Every plan has every key; inapplicable ones are null."""
    plain = json.loads(render.to_json(replace(fits, options={}, deployment=None)))
    every = json.loads(render.to_json(pair))

    assert list(plain) == ["schema", *KEYS]
    assert (plain["deployment"], plain["layout"], plain["found"]) == (None, None, None)
    assert json.loads(render.to_json(replace(fits, found=FOUND)))["found"]["quantity"] == "context"
    assert list(every) == ["schema", "model", "vllm", "gpus", "fits", "layouts"]
    assert list(every["layouts"][0]) == KEYS
    assert [plan["legal"] for plan in every["layouts"]] == [True, True, True, True, False]


def test_json_is_rounded_in_one_place(fits: Plan, compared: PlanComparison) -> None:
    """To four decimals, for any precision in the planner."""
    third = replace(fits, kv_cache=replace(CACHE, gib=110 / 3))

    assert json.loads(render.to_json(third))["kv_cache"]["gib"] == 36.6667
    assert json.loads(render.to_json(compared))["terms"][2] == {
        "name": "communication", "planned_gib": 0.0, "low_gib": None, "high_gib": None, "actual_gib": None,
        "explained": "",
    }  # fmt: skip
    assert json.loads(render.to_json(FOUND))["value"] == 131_072


class Tags(HTMLParser):
    """Names of the elements of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def test_the_site_lets_through_all_of_it(views: list[plans.Viewed]) -> None:
    """A plan looks on the published pages as it looks in a notebook: cleaning takes nothing away."""
    for view in views:
        page = plans.html(view)
        kept = read(markup.clean_html(page))
        assert (kept.names, kept.text) == (read(page).names, read(page).text)
        for attribute in ("fill=", " d=", "x1=", "font-size=", "opacity="):
            assert markup.clean_html(page).count(attribute) == page.count(attribute)


def hostile(plan: Plan) -> Plan:
    terms = tuple(replace(term, source=HOSTILE) for term in plan.per_gpu[0].terms)
    odd = PlannedTerm(HOSTILE, 1.0, 1.0, 1.0, HOSTILE)
    rank = replace(plan.per_gpu[0], gpu=HOSTILE, node=HOSTILE, terms=(*terms, odd))
    return replace(
        plan, model=HOSTILE, vllm=CommandRelease(HOSTILE, "given", HOSTILE), gpus=(replace(A100, name=HOSTILE),),
        per_gpu=(rank,), limits=(HOSTILE,), deployment=replace(START, command=HOSTILE), reasons=(HOSTILE,),
        calibration=PlanCalibration(True, (HOSTILE,)), options={HOSTILE: HOSTILE}, speed=Speed(1.0, HOSTILE),
        found=replace(FOUND, reasons=(HOSTILE,), unit=HOSTILE),
    )  # fmt: skip


def test_no_name_becomes_markup(views: list[plans.Viewed], compared: PlanComparison, pair: Layouts) -> None:
    """Models, GPUs, sources and reasons come from users, so they are escaped."""
    bad = [hostile(view) for view in views if isinstance(view, Plan)]
    odd = ComparedTerm(HOSTILE, 1.0, 1.0, 1.0, 2.0, HOSTILE)
    kept = replace(compared.residuals[0], release=HOSTILE, gpu=HOSTILE, architecture=HOSTILE, term=HOSTILE)
    laid = tuple(replace(hostile(plan), layout=plan.layout, legal=plan.legal) for plan in pair.layouts)
    layouts = replace(pair, model=HOSTILE, layouts=laid)
    every_view: list[plans.Viewed] = [*bad, layouts, PlanComparison((odd,), HOSTILE, (HOSTILE,), (kept,))]
    for view in every_view:
        shown = plans.shown(view)
        assert set(read(shown.html).names) <= {
            "div", "span", "b", "p", "br", "pre", "code", "table", "thead", "tbody", "tr", "th", "td",
            "svg", "title", "rect", "line", "path", "text",
        }  # fmt: skip
        assert "alert(1)" in read(shown.html).text
        assert "\x1b" not in shown.html + shown.plain + plans.html(view)
        assert "\u202e" not in shown.html + shown.plain + plans.text(FOUND)
        assert json.loads(render.to_json(view))["schema"] == 2


def test_the_page_has_the_content_of_the_text(fits: Plan, pair: Layouts, compared: PlanComparison) -> None:
    """Verdict, picture, table and command; green if it fits, amber if open, red if rejected."""
    page = plans.html(fits)

    assert page.count("<svg") == 1 + len(TERMS)
    for said in ("36.6 GiB of KV cache", "13.69", "--gpu-memory-utilization 0.65", "slots of one layer group"):
        assert said in page
    assert "12 heads on 3 cards; 2 cards" in plans.html(pair)
    assert "#cf222e" in plans.html(pair.layouts[4])
    assert "the forward pass takes more than the sampler" in plans.html(compared)
    assert "#9a6700" in plans.html(FindAnswer(Find.GPUS, None, "", None, None, ("none is known",)))
    assert "#1a7f37" in plans.html(FindAnswer(Find.GPUS, 2, "GPUs", 2, 2, ()))
    assert "#9a6700" in plans.html(PlanComparison((), None))
    assert "#1a7f37" in plans.html(PlanComparison(compared.terms[:1], None))
    assert "<svg" not in plans.html(replace(fits, per_gpu=(), deployment=None, limits=(), options={}))
    assert "The first" not in plans.html(replace(pair, layouts=pair.layouts[4:]))
    assert "Not legal" not in plans.html(replace(pair, layouts=pair.layouts[:1]))


def test_given_options_take_precedence_over_defaults(fits: Plan) -> None:
    """Then the release's defaults; otherwise nothing is assumed."""
    given = replace(START, flags={"gpu_memory_utilization": 0.65, "max_model_len": 4096})

    assert plan_words.option(replace(fits, deployment=given), "max_model_len") == 4096
    assert plan_words.option(fits, "max_model_len") == 131_072
    assert plan_words.utilization(fits) == 0.65
    assert plan_words.utilization(replace(fits, deployment=None)) is None


# In steps, as runbooks show them.


def test_replicas_inside_one_server_are_listed_once(pair: Layouts) -> None:
    """A layout that differs only in them is named below the table."""
    each, half, dark, full, refused = pair.layouts
    same = replace(each, layout=ParallelLayout(1, 1, 1, 2))
    found = replace(pair, layouts=(each, half, same, dark, full, refused))

    for said in (str(render.plan_sections.ranking(found)), plans.text(found)):
        assert "Equivalent layouts with data parallelism inside one server: DP 2 as 2 x 1" in said
        assert len(re.findall(r"^  DP 2 ", said, re.MULTILINE)) == 1  # the other one does not fit, so it is another
    assert "THE FIRST" not in str(render.plan_sections.ranking(found))
    assert "INVALID\n  - TP 3" in str(render.plan_sections.ranking(found))
    bare = replace(pair, layouts=(replace(each, layout=None),))
    assert "as requested" in str(render.plan_sections.ranking(bare))
    nothing = replace(pair, fits=False, layouts=(refused,))
    assert str(render.plan_sections.ranking(nothing)).startswith(
        "does not fit: no valid parallel layout for these GPUs"
    )


def test_memory_is_shown_without_the_command(fits: Plan) -> None:
    """Answer, GPUs, cache and limits, as in the whole view."""
    shown = render.plan_sections.memory(fits)

    assert shown.plain == WHOLE.partition("DEFAULTS OF THIS RELEASE")[0].rstrip() + "\n"
    assert "--gpu-memory-utilization" not in shown.html


def test_the_first_file_of_a_kind_is_shown_whole() -> None:
    """The first of a pattern in full, blanks kept; no text of a file becomes markup."""
    made = {"systemd/a.service": f"[Unit]\n  {HOSTILE}\n", "systemd/b.service": "[Unit]\n", "nginx.conf": "events {}\n"}
    shown = render.plan_sections.files(made, "systemd/*")

    assert "systemd/a.service\n  [Unit]\n    " in shown.plain
    assert "The others differ only in GPUs and port: systemd/b.service." in shown.plain
    assert "events" not in shown.plain
    assert "<script" not in shown.html
    assert "alert(1)" in read(shown.html).text


def cells_of(page: str) -> list[str]:
    """The cells of a page's tables, as HTML."""
    return re.findall(r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>", page, re.DOTALL)


def test_a_single_file_is_shown_alone() -> None:
    """No sentence about others, and one if no file is written."""
    shown = render.plan_sections.files({"nginx.conf": "a  \n\n  b\n", "other": "c"}, "nginx.*")

    assert shown.plain == "nginx.conf\n  a\n\n    b\n"
    assert "The others" not in shown.html
    three = render.plan_sections.files({"b": "1", "a": "2", "c": "3"}, "?")
    assert three.plain == "b\n  1\n\nThe others differ only in GPUs and port: a, c.\n"
    assert "The others differ only in GPUs and port: a, c." in three.html
    none = render.plan_sections.files({"b": "1"}, "a")
    assert none.plain == "Not written: there is one server, and nothing to share requests among."


def test_equal_verifications_of_a_split_are_combined() -> None:
    """Lines with counts and amounts, then read-only commands, then open questions."""
    ranked = PrintedLine("Every rank is there.", "rank <0>", 2, "x:1", "8.60 GiB")
    once = PrintedLine("The server is up.", "ready", 1, "x:2")
    some = PrintedLine("It goes on.", "on", None, "x:3")
    look = Look("the port", ("ss", "-l", "a b"), "a line")
    other = replace(look, words=("ss", "-t"))
    found = {
        "a": Confirmation((ranked, once), (look,), ("the order",)), "b": Confirmation((ranked, once), (other,)),
        "c": Confirmation((some,), (replace(look, what="the card"),), ("the order", "the rest")),
    }  # fmt: skip
    shown = render.plan_sections.confirmations(found)

    assert shown.plain == (
        "In the log of each of a, b\n  - rank <0> (2 times): planned 8.60 GiB\n      Every rank is there.\n"
        "  - ready\n      The server is up.\n\nIn the log of c\n  - on\n      It goes on.\n\n"
        "Check (read-only): the port\n  ss -l 'a b'\n  ss -t\n  Expect: a line.\n\n"
        "Check (read-only): the card\n  ss -l 'a b'\n  Expect: a line.\n\n"
        "Unknown: the order\n\nUnknown: the rest\n"
    )
    assert cells_of(shown.html) == [
        "part of a line", "<code>rank &lt;0&gt;</code> (2 times): planned 8.60 GiB", "Every rank is there.",
        "<code>ready</code>", "The server is up.", "part of a line", "<code>on</code>", "It goes on.",
    ]  # fmt: skip
    said = read(shown.html).text
    for part in ("In the log of each of a, b", "ss -l 'a b'\nss -t", "Expect: a line.", "Unknown: the rest"):
        assert part in said


def start_of(**more: Any) -> ServerRun:
    start = diagnosing.read(sources.load("tiny-cpu-served"))[0]
    return replace(start, facts=Facts(**more), arguments={})


def test_plans_are_next_to_printed_figures(fits: Plan) -> None:
    """Figure by figure with its deviation, the largest first; a launch without a plan has a reason.

    Requests are compared where they are counted for the same context.
    """
    printed: dict[str, Any] = {
        "model": "org/m", "weights_gib": 13.72, "kv_cache_gib": 36.56, "kv_cache_tokens": 400_000,
        "max_concurrency": 12.0,
    }  # fmt: skip
    starts = [start_of(**printed, max_concurrency_tokens=131_072), start_of(model="n")]
    shown = render.plan_sections.compared(starts, [fits, "no <model>"])

    assert shown.plain == (
        "planned: 4 printed figures; the farthest is 99.7% off (KV cache tokens of start\n1)\n\n1 m\n"
        "                           planned  band                     printed    off by\n"
        "  weights GiB                13.69  13.69 to 13.72             13.72     -0.2%\n"
        "  KV cache GiB               36.56  36.26 to 36.66             36.56      0.0%\n"
        "  KV cache tokens          798,624  792,000 to 800,800       400,000    +99.7%\n"
        "  max concurrency            11.99                             12.00     -0.1%\n"
        "\n2 n\n  not planned: no <model>\n"
    )
    assert cells_of(shown.html)[:9] == [
        "", "planned", "printed", "off by", "weights GiB", "13.69", "13.72", "-0.2%", "planned 13.69 to 13.72",
    ]  # fmt: skip
    assert cells_of(shown.html)[-4:] == ["max concurrency", "11.99", "12.00", "-0.1%"]
    assert "Not planned: no &lt;model&gt;" in shown.html
    for tokens, has in ((None, True), (4096, False)):
        one = render.plan_sections.compared([start_of(**printed, max_concurrency_tokens=tokens)], [fits])
        assert ("max concurrency" in one.plain) is has
    none = render.plan_sections.compared([start_of()], [fits])
    assert none.plain == "The log prints no figure that is planned."
    assert ">no &lt;model&gt;</p>" in render.plan_sections.compared(starts[1:], ["no <model>"]).html


def test_the_largest_gpu_is_compared(fits: Plan) -> None:
    """Of ranks that differ, by their weights."""
    small, large = (
        replace(fits.per_gpu[0], rank=rank, terms=(PlannedTerm("weights", gib, gib, gib, ""),))
        for rank, gib in enumerate((1.0, 2.0))
    )
    shown = render.plan_sections.compared([start_of(weights_gib=2.0)], [replace(fits, per_gpu=(small, large, small))])

    assert shown.plain.startswith("planned: 1 printed figures; the farthest is 0.0% off (weights GiB of start 1)\n")
    assert "  weights GiB                 2.00  2.00 to 2.00                2.00      0.0%\n" in shown.plain


def test_changes_have_their_options_and_their_room() -> None:
    """As shell options, with the remaining KV cache and the cost."""
    gib = 2**30
    ways = [
        WayOut({"max_model_len": 4096, "enforce_eager": True}, True, Band(gib, 2 * gib, 3 * gib), ("less",), 1, None),  # type: ignore[arg-type]
        WayOut({"limit_mm_per_prompt": {"video": 0}}, None, None, ("no videos",), 2, None),  # type: ignore[arg-type]
        WayOut({"dtype": "half"}, False, Band(-gib, 0, 0), ("accuracy",), 3, None),  # type: ignore[arg-type]
    ]
    shown = render.plan_sections.ways_out(ways)

    assert shown.plain == (
        "  - --max-model-len 4096 --enforce-eager\n    fits, leaves 2.00 GiB, 1.00 at least; less\n"
        "  - --limit-mm-per-prompt '{\"video\": 0}'\n    is expected to fit, no videos\n"
        "  - --dtype half\n    does not fit, leaves 0.00 GiB, -1.00 at least; accuracy\n\n"
        "GiB left: KV cache of the fullest GPU after one full-context request.\n"
    )
    said = [re.sub("<[^>]*>", "", cell) for cell in cells_of(shown.html)]
    assert said[:10] == [
        "change", "fits", "GiB left", "--max-model-len 4096 --enforce-eager", "yes", "2.00",
        "less; at least 1.00 GiB are left", "--limit-mm-per-prompt &#x27;{&quot;video&quot;: 0}&#x27;", "?", "",
    ]  # fmt: skip
    assert said[10].startswith("no videos")
    assert said[11:] == ["--dtype half", "no", "0.00", "accuracy; at least -1.00 GiB are left"]
    none = render.plan_sections.ways_out([])
    assert none.plain == "No change of one or two options makes it fit, or it fits as it is."
    assert render.plan_sections.ways_out("no <card>").plain == "not planned: no <card>"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gib": 10.0}, "10.0 GiB of KV cache"), ({"gib": 9.994}, "9.99 GiB of KV cache"),
        ({"gib": 0.0}, "0.00 GiB of KV cache"),
        ({"gib": 1234.56}, "1,234.6 GiB of KV cache"), ({"gib": None}, "798,624 tokens"),
        ({"tokens": 0}, "36.6 GiB of KV cache, 0"),
    ],
)  # fmt: skip
def test_amounts_have_three_digits_or_more(fits: Plan, change: dict[str, Any], said: str) -> None:
    """A tenth of a GiB from ten on, a hundredth below; nothing is an amount."""
    assert str(plan_words.headline(replace(fits, kv_cache=replace(CACHE, **change)))).startswith(f"fits: {said}")


@pytest.mark.parametrize(
    ("needed", "said"), [(0.1, "0.10 GiB"), (0.0999, "102.3 MiB"), (0.0, "0.0 MiB"), (3.0501, "3.05 GiB")]
)
def test_a_request_needs_gib_or_mib(fits: Plan, needed: float, said: str) -> None:
    """MiB below a tenth of a GiB."""
    assert f"  KV cache per request  {said} per GPU\n" in plans.text(
        replace(fits, kv_cache=replace(CACHE, needed_gib=needed))
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gib": 3.0, "needed_gib": 3.0}, "no memory left for the KV cache"),
        ({"gib": 2.99, "needed_gib": 3.0},
         "one request of 131,072 tokens needs 3.00 GiB of KV cache per GPU, 2.99 left"),
        ({"gib": -1.0, "needed_gib": 3.0},
         "one request of 131,072 tokens needs 3.00 GiB of KV cache per GPU, 0.00 left"),
        ({"gib": None}, "no memory left for the KV cache"),
        ({"needed_gib": None}, "no memory left for the KV cache"),
    ],
)  # fmt: skip
def test_a_cache_that_is_too_small_is_reported(fits: Plan, change: dict[str, Any], said: str) -> None:
    """Less than one request; an equal amount is enough, and no shortage is negative."""
    plan = replace(fits, fits=False, limits=(), kv_cache=replace(CACHE, **change))

    assert str(plan_words.headline(plan)) == f"does not fit: {said}"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.0, 2.0, " (1.00 to 2.00)"), (1.0, 1.0, ""), (None, 2.0, ""), (1.0, None, ""), (0.0, 2.0, " (0.00 to 2.00)")],
)
def test_a_range_follows_its_amount(fits: Plan, low: float | None, high: float | None, said: str) -> None:
    """Where both its ends are known and differ."""
    shown = plans.text(replace(fits, kv_cache=replace(CACHE, low=low, high=high)))

    assert f"  per GPU               36.56 GiB{said}\n" in shown


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        (Find.UTILIZATION, 0.67504, "0.675"), (Find.UTILIZATION, 0.67515, "0.6752"), (Find.CONCURRENCY, 10.0, "10"),
        (Find.CONCURRENCY, 1234.504, "1,234.5"), (Find.GPUS, 100.0, "100"), (Find.CONTEXT, "all", "all"),
    ],
)  # fmt: skip
def test_answers_are_rounded_by_their_quantity(what: Find, value: float | str, said: str) -> None:
    """Four digits for a utilization, two for others, no trailing zeros; words are unchanged."""
    assert str(plan_words.found_headline(FindAnswer(what, value, "", None, None, ()))).endswith(f": {said}")


@pytest.mark.parametrize(
    ("low", "high", "said"), [(1, 3, " (1 to 3)"), (2, 2, ""), (None, 3, ""), (1, None, ""), (0, 2, " (0 to 2)")]
)
def test_answers_have_a_range_if_both_ends_are_known(low: int | None, high: int | None, said: str) -> None:
    """And differ."""
    assert (
        str(plan_words.found_headline(FindAnswer(Find.GPUS, 2, "cards", low, high, ())))
        == f"GPUs needed: 2 cards{said}"
    )


def test_the_document_is_indented_by_two_and_keeps_its_letters(fits: Plan) -> None:
    """A reader's eyes are enough."""
    said = render.to_json(replace(fits, model="ü"))

    assert re.match(r'\{\n  "', said)
    assert '\n  "model": "ü"' in said
