"""What a start takes beside weights and cache, against what starts printed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from vllm_runbooks import specs
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.planning import costs
from vllm_runbooks.planning.settings import Settings
from vllm_runbooks.planning.shape import Shape, shape
from vllm_runbooks.planning.terms import GIB, NOTHING, Band, Term
from vllm_runbooks.planning.weights import Ranks

_TURING, _VOLTA, _AMPERE, _A10, _ADA, _HOPPER, _BLACKWELL = (7, 5), (7, 0), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0)
_ROUNDING = 0.005
"""GiB: figures are printed with two places."""


@cache
def _files() -> dict[str, specs.ModelFile]:
    return {file.id: file for file in specs.load(spec_files.compile_specs).files}


@cache
def _model(name: str) -> Shape:
    return shape(_files()[name].config, is_partial=_files()[name].is_partial)


def _settings(version: str, tokens: int, sequences: int, **more: object) -> Settings:
    key = tuple(int(part) for part in version.split("."))
    usual = {
        "is_v0": False,
        "max_model_len": 8192,
        "is_length_fitted": False,
        "utilization": 0.9,
        "ranks": Ranks(),
        "dtype": "bfloat16",
        "sampler": "sort" if key < (0, 17) else "triton" if key < (0, 21) else "flashinfer",
        "piecewise_graphs": 51,
        "full_graphs": 35,
    }
    return Settings(version=version, key=key, batched_tokens=tokens, sequences=sequences, **{**usual, **more})  # type: ignore[arg-type]


def _gib(term: Term) -> tuple[float, float, float]:
    assert term.band is not None, term.source
    low, expected, high = term.band
    assert low <= expected <= high
    return low / GIB, expected / GIB, high / GIB


def _holds(printed: float, term: Term) -> bool:
    low, _, high = _gib(term)
    return low - _ROUNDING <= printed <= high + _ROUNDING


_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_V0 = {"is_v0": True, "piecewise_graphs": 0}
_REPORT = "https://github.com/llm-d-incubation/llm-d-planner docs/accuracy/vllm-v0.19.0-accuracy-report.md"
_OLDER = "https://github.com/llm-d/llm-d-benchmark config_explorer/empirical-vllm-memory-results.md"
_PULL = "https://github.com/vllm-project/vllm/pull/10511"
_WORKER = "a log line of worker.py or gpu_worker.py in a public repository"


class _Peak(NamedTuple):
    model: str
    settings: Settings
    card: tuple[int, int]
    printed: float
    """GiB."""
    source: str
    error: float = 1
    """Per cent that the expected amount may be off."""


_PEAKS = [
    # What a source leaves open: the older report of llm-d names no release (its figures are those of the sorting
    # sampler), the newer one no number of cards for Mixtral, which needs two. Sequences are the release's defaults.
    _Peak(_LLAMA, _settings("0.19.0", 8192, 1024), _HOPPER, 1.89, _REPORT),
    _Peak(_LLAMA, _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=4)), _HOPPER, 1.89, _REPORT),
    _Peak("Qwen/Qwen2.5-7B-Instruct", _settings("0.19.0", 8192, 1024), _HOPPER, 2.21, _REPORT),
    _Peak("Qwen/Qwen3-8B", _settings("0.19.0", 8192, 1024), _HOPPER, 2.21, _REPORT),
    _Peak("microsoft/phi-4", _settings("0.19.0", 8192, 1024), _HOPPER, 1.52, _REPORT),
    _Peak("microsoft/phi-2", _settings("0.19.0", 8192, 1024), _HOPPER, 0.79, _REPORT),
    _Peak("google/gemma-2-9b-it", _settings("0.19.0", 8192, 1024), _HOPPER, 3.65, _REPORT),
    _Peak("google/gemma-2-27b-it", _settings("0.19.0", 8192, 1024), _HOPPER, 3.66, _REPORT),
    _Peak("openai/gpt-oss-20b", _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=2)), _HOPPER, 2.87, _REPORT),
    _Peak("Qwen/Qwen3-30B-A3B", _settings("0.19.0", 8192, 1024), _HOPPER, 2.68, _REPORT),
    _Peak("Qwen/Qwen1.5-MoE-A2.7B-Chat", _settings("0.19.0", 8192, 1024), _HOPPER, 2.47, _REPORT),
    _Peak("deepseek-ai/DeepSeek-V2-Lite-Chat", _settings("0.19.0", 8192, 1024), _HOPPER, 1.93, _REPORT),
    _Peak(
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=2)),
        _HOPPER,
        1.21,
        _REPORT,
    ),
    _Peak("codellama/CodeLlama-7b-hf", _settings("0.19.0", 8192, 1024), _HOPPER, 0.77, _REPORT),
    _Peak("ibm-granite/granite-3.1-8b-instruct", _settings("0.19.0", 8192, 1024), _HOPPER, 0.85, _REPORT),
    _Peak(_LLAMA, _settings("0.11.2", 8192, 1024), _HOPPER, 4.76, _OLDER),
    _Peak("Qwen/Qwen3-0.6B", _settings("0.11.2", 8192, 1024), _HOPPER, 5.56, _OLDER),
    _Peak("openai/gpt-oss-20b", _settings("0.11.2", 8192, 1024), _HOPPER, 7.38, _OLDER),
    _Peak("openai/gpt-oss-120b", _settings("0.11.2", 8192, 1024), _HOPPER, 7.38, _OLDER),
    _Peak(
        "meta-llama/Llama-3.3-70B-Instruct",
        _settings("0.11.2", 8192, 1024, ranks=Ranks(tensor=2)),
        _HOPPER,
        4.84,
        _OLDER,
    ),
    _Peak(_LLAMA, _settings("0.6.6", 2048, 256, **_V0), _HOPPER, 1.19, _WORKER, 2),
    _Peak(_LLAMA, _settings("0.6.5", 8192, 256, **_V0), _HOPPER, 1.26, _PULL),
    _Peak("Qwen/Qwen2.5-0.5B-Instruct", _settings("0.6.6", 32768, 256, **_V0), _TURING, 1.44, _WORKER),
    _Peak("Qwen/Qwen2.5-1.5B-Instruct", _settings("0.7.3", 32768, 256, **_V0), _TURING, 2.02, _WORKER, 2),
    _Peak("Qwen/Qwen2.5-Math-1.5B-Instruct", _settings("0.7.2", 4096, 256, **_V0), _A10, 1.40, _WORKER),
    _Peak("Qwen/Qwen2.5-7B-Instruct", _settings("0.7.3", 2048, 256, **_V0), _VOLTA, 1.40, _WORKER),
    _Peak("Qwen/Qwen3-8B", _settings("0.8.5", 8192, 256, **{**_V0, "ranks": Ranks(tensor=4)}), _TURING, 1.45, _WORKER),
    _Peak("Qwen/Qwen3-8B", _settings("0.14.1", 2048, 256), _ADA, 1.40, _WORKER),
    _Peak("Qwen/Qwen2.5-0.5B-Instruct", _settings("0.26.0", 32768, 256, is_v2_runner=True), (12, 0), 1.06, _WORKER, 7),
]


@pytest.mark.parametrize("peak", _PEAKS, ids=lambda peak: f"{peak.model}-{peak.settings.version}-{peak.printed}")
def test_says_the_activation_that_a_start_printed(peak: _Peak) -> None:
    """The peak of a start lies within the band, and the expected amount is near it."""
    term = costs.activation(_model(peak.model), peak.settings, is_last=True, capability=peak.card)
    assert _holds(peak.printed, term), (_gib(term), peak.source)
    assert abs(_gib(term)[1] - peak.printed) <= peak.printed * peak.error / 100 + _ROUNDING


@pytest.mark.parametrize(
    ("model", "stages", "printed"), [(_LLAMA, 2, 1.10), (_LLAMA, 4, 1.05), ("Qwen/Qwen3-8B", 3, 0.96)]
)
def test_a_stage_that_does_not_sample_holds_the_forward_pass_alone(model: str, stages: int, printed: float) -> None:
    """The first stages of 0.19.0 on H100 print less than the sampler takes on the last one (llm-d-planner's report)."""
    settings = _settings("0.19.0", 8192, 1024, ranks=Ranks(pipeline=stages))
    term = costs.activation(_model(model), settings, is_last=False, capability=_HOPPER)
    assert _holds(printed, term), _gib(term)
    assert _gib(term)[1] == pytest.approx(printed, rel=0.05)
    last = costs.activation(_model(model), settings, is_last=True, is_first=False, capability=_HOPPER)
    assert _gib(last)[1] > _gib(term)[1]


def test_the_older_engine_samples_on_its_first_rank_alone() -> None:
    """Two RTX 3090 print 1.39 and 0.09 GiB in one start of 0.7.2."""
    settings = _settings("0.7.2", 2048, 256, **{**_V0, "ranks": Ranks(tensor=2)})
    model = _model("Qwen/Qwen2.5-1.5B-Instruct")
    assert _gib(costs.activation(model, settings, is_last=True, capability=_A10))[1] == pytest.approx(1.39, abs=0.005)
    other = costs.activation(model, settings, is_last=True, tensor_rank_first=False, capability=_A10)
    assert _holds(0.09, other), _gib(other)


class _Start(NamedTuple):
    model: str
    settings: Settings
    card: tuple[int, int]
    total: float
    """GiB of the card."""
    utilization: float
    weights: float
    cache: float
    """GiB as printed."""
    fabric: str | None = None


_GPT, _MIXTURE, _GEMMA = "openai/gpt-oss-20b", "google/gemma-4-26B-A4B", "google/gemma-4-31B-it"
_SMALL = "Qwen/Qwen2.5-0.5B-Instruct"
_TWO, _FOUR = {"ranks": Ranks(tensor=2)}, {"ranks": Ranks(tensor=4)}
_STARTS = [
    _Start(_GPT, _settings("0.19.0", 2048, 256, piecewise_graphs=83), _AMPERE, 79.25, 0.65, 13.72, 36.56),
    _Start(_MIXTURE, _settings("0.19.0", 2048, 256, is_eager=True), _AMPERE, 79.25, 0.9, 48.5, 21.5),
    _Start(_MIXTURE, _settings("0.19.0", 2048, 256, quantization="fp8"), _AMPERE, 79.25, 0.65, 25.7, 24.45),
    _Start(_GEMMA, _settings("0.19.0", 2048, 256), _AMPERE, 79.25, 0.95, 58.9, 15.18),
    _Start(
        "Qwen/Qwen2.5-1.5B-Instruct",
        _settings("0.7.2", 2048, 256, **{**_V0, **_TWO}),
        _A10,
        23.69,
        0.5,
        1.4495,
        8.60,
        "pcie",
    ),
    _Start(_LLAMA, _settings("0.19.0", 8192, 1024), _HOPPER, 79.19, 0.95, 14.99, 58.11),
    _Start(_LLAMA, _settings("0.19.0", 8192, 1024, **_FOUR), _HOPPER, 79.19, 0.95, 3.77, 67.44, "nvlink"),
    _Start(_GPT, _settings("0.19.0", 8192, 1024, **_TWO), _HOPPER, 79.19, 0.95, 7.01, 63.28, "nvlink"),
    _Start("Qwen/Qwen3-0.6B", _settings("0.11.2", 8192, 1024), _HOPPER, 79.18, 0.9, 1.12, 64.45),
    _Start("Qwen/Qwen3-8B", _settings("0.14.1", 2048, 256), _ADA, 47.37, 0.9, 15.27, 25.94),
    _Start(_SMALL, _settings("0.27.1", 2048, 256, is_v2_runner=True), _ADA, 23.99, 0.85, 0.93, 18.65),
    _Start(_LLAMA, _settings("0.31.0", 2048, 256, is_v2_runner=True), _AMPERE, 79.25, 0.92, 15.0, 56.21),
]


@pytest.mark.parametrize("start", _STARTS, ids=lambda start: f"{start.model}-{start.settings.version}-{start.cache}")
def test_leaves_the_cache_that_a_start_had(start: _Start) -> None:
    """All terms together leave the cache of a log within its band, and within 1.5 per cent."""
    model, settings = _model(start.model), start.settings
    taken = NOTHING
    for term in (
        costs.activation(model, settings, is_last=True, capability=start.card),
        costs.non_torch(settings),
        costs.communication(settings, start.fabric, capability=start.card),
        costs.graphs_reserved(model, settings),
    ):
        assert term.band is not None
        taken = taken.plus(term.band)
    left = Band(*(int((start.total * start.utilization - start.weights) * GIB),) * 3).less(taken)
    # Weights are printed with one place at times.
    assert left.low / GIB - 0.06 <= start.cache <= left.high / GIB + 0.06
    assert left.expected / GIB == pytest.approx(start.cache, rel=0.015)


@pytest.mark.parametrize(
    ("settings", "fabric", "card", "printed"),
    [
        (_settings("0.19.0", 8192, 1024), None, _HOPPER, 0.25),
        (_settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=2)), "nvlink", _HOPPER, 2.07),
        (_settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=4)), "nvlink", _HOPPER, 2.13),
        (_settings("0.19.0", 8192, 1024, ranks=Ranks(pipeline=2)), "nvlink", _HOPPER, 0.07),
        (_settings("0.11.2", 8192, 1024), None, _HOPPER, 0.13),
        (_settings("0.11.2", 8192, 1024, ranks=Ranks(tensor=2)), "nvlink", _HOPPER, 0.55),
        (_settings("0.10.2", 8192, 1024, ranks=Ranks(tensor=2)), "nvlink", _HOPPER, 1.38),
        (_settings("0.10.2", 8192, 1024, ranks=Ranks(tensor=4)), "nvlink", _HOPPER, 1.84),
        (_settings("0.10.2", 8192, 1024, ranks=Ranks(tensor=4)), "pcie", _ADA, 0.21),
        (_settings("0.26.0", 8192, 1024, ranks=Ranks(tensor=4)), "nvlink", _BLACKWELL, 0.95),
        (_settings("0.7.2", 2048, 256, **{**_V0, "ranks": Ranks(tensor=2)}), "pcie", _A10, 0.40),
        (_settings("0.8.5", 2048, 256, **{**_V0, "ranks": Ranks(tensor=4)}), "pcie", _TURING, 0.20),
        (_settings("0.26.0", 32768, 256, is_v2_runner=True), None, (12, 0), 0.07),
    ],
)
def test_says_what_lies_outside_pytorch(
    settings: Settings, fabric: str | None, card: tuple[int, int], printed: float
) -> None:
    """What starts printed as non-torch memory is one card's own and what talking to the others adds."""
    alone, between = costs.non_torch(settings), costs.communication(settings, fabric, capability=card)
    assert alone.band is not None
    assert between.band is not None
    assert _holds(printed, Term("both", alone.band.plus(between.band), ""))


def test_a_fabric_that_is_not_known_widens_the_band() -> None:
    """Between cards whose connection is not known lies everything from PCIe to NVLink, and the source says so."""
    settings = _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=2))
    slow, fast = (_gib(costs.communication(settings, each, capability=_HOPPER)) for each in ("pcie", "nvlink"))
    unknown = costs.communication(settings, None, capability=_HOPPER)
    assert _gib(unknown)[0] == slow[0]
    assert _gib(unknown)[2] == fast[2]
    assert "not known" in unknown.source
    assert "nvlink-bridge was not measured" in costs.communication(settings, "nvlink-bridge", capability=_HOPPER).source


def test_a_bridge_of_older_cards_counts_as_pcie() -> None:
    """Cards before Hopper share no symmetric memory, so a bridge adds no workspace for it."""
    settings = _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=2))
    assert costs.communication(settings, "nvlink-bridge", capability=_A10) == costs.communication(settings, "pcie")


def test_several_hosts_may_take_more() -> None:
    """Ranks on two hosts have the same expected amount and a wider band."""
    settings = _settings("0.19.0", 8192, 1024, ranks=Ranks(tensor=16))
    one, two = (costs.communication(settings, "nvlink", nodes, capability=_HOPPER) for nodes in (1, 2))
    assert _gib(one)[:2] == _gib(two)[:2]
    assert _gib(one)[2] < _gib(two)[2]


def test_one_card_talks_to_no_other() -> None:
    """Replicas and a card alone take nothing to communicate."""
    assert costs.communication(_settings("0.19.0", 8192, 1024), "nvlink").band == NOTHING
    assert costs.communication(_settings("0.19.0", 8192, 1024, ranks=Ranks(data=4)), "nvlink").band == NOTHING
    alone = costs.communication(_settings("0.19.0", 8192, 1024), "nvlink", has_experts=True)
    assert alone.band == NOTHING


_RESERVING = [
    # Release, runner, switch, and whether memory is reserved for graphs: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS in
    # envs.py and profile_cudagraph_memory in both runners.
    ("0.17.1", False, None, False),
    ("0.19.0", False, None, False),
    ("0.19.0", False, True, True),
    ("0.20.2", False, None, True),
    ("0.20.2", False, False, False),
    ("0.26.0", True, None, False),
    ("0.26.0", False, None, True),
    ("0.28.0", True, True, False),
    ("0.29.0", True, None, True),
    ("0.33.0", True, None, True),
]


@pytest.mark.parametrize(("version", "is_newer", "switch", "reserves"), _RESERVING)
def test_reserves_memory_for_graphs_as_the_release_does(
    version: str,
    is_newer: bool,  # noqa: FBT001
    switch: bool | None,  # noqa: FBT001
    reserves: bool,  # noqa: FBT001
) -> None:
    """A release takes graphs off the cache from the one on that has the estimate and where its runner makes one."""
    settings = _settings(version, 8192, 256, is_v2_runner=is_newer)
    term = costs.graphs_reserved(_model(_LLAMA), settings, is_estimated=switch)
    assert (_gib(term)[1] > 0) == reserves
    eager = replace(settings, is_eager=True)
    assert costs.graphs_reserved(_model(_LLAMA), eager, is_estimated=True).band == NOTHING


def test_what_profiling_graphs_leaves_is_counted_where_it_happens() -> None:
    """A start of 0.19.0 without graphs has less outside PyTorch than one with them."""
    with_graphs = _settings("0.19.0", 2048, 256)
    without = replace(with_graphs, is_eager=True)
    assert _gib(costs.non_torch(without))[1] < _gib(costs.non_torch(with_graphs))[1]


@pytest.mark.parametrize(
    ("version", "pieces", "whole", "more", "printed"),
    [
        ("0.19.0", 83, 35, {}, 0.69),
        ("0.19.0", 51, 35, {"quantization": "fp8"}, 0.95),
        ("0.19.0", 51, 35, {}, 0.84),
        ("0.19.0", 51, 51, {"ranks": Ranks(tensor=4)}, 0.67),
        ("0.19.0", 83, 83, {"ranks": Ranks(tensor=2)}, 1.55),
        ("0.19.1", 51, 35, {}, 0.46),
        ("0.22.1", 19, 11, {"quantization": "fp8"}, 0.22),
        ("0.23.0", 11, 7, {}, 0.11),
        ("0.26.0", 51, 35, {"is_v2_runner": True}, 0.40),
        ("0.10.2", 67, 0, {}, 0.67),
        ("0.10.0", 67, 0, {}, 0.5),
        ("0.10.2", 67, 0, {"ranks": Ranks(tensor=2)}, 2.37),
        ("0.13.0", 51, 35, {}, 1.18),
        ("0.31.0", 51, 35, {"is_v2_runner": True}, 0.23),
        ("0.7.3", 0, 35, {"is_v0": True}, 0.17),
        ("0.7.2", 0, 35, {"is_v0": True, "ranks": Ranks(tensor=2)}, 0.85),
    ],
)
def test_says_what_capturing_graphs_took(
    version: str, pieces: int, whole: int, more: dict[str, object], printed: float
) -> None:
    """The gibibytes of "Graph capturing finished" of starts lie within the band."""
    settings = _settings(version, 8192, 256, piecewise_graphs=pieces, full_graphs=whole, **more)
    assert _holds(printed, costs.graphs_captured(_model(_LLAMA), settings))
    assert costs.graphs_captured(_model(_LLAMA), replace(settings, is_eager=True)).band == NOTHING


def test_graphs_of_sparse_attention_may_take_gibibytes() -> None:
    """Starts of DeepSeek V4 printed up to 4.13 GiB (0.26.0)."""
    settings = _settings("0.26.0", 8192, 1024, full_graphs=51)
    sparse = costs.graphs_captured(_model("deepseek-ai/DeepSeek-V3.2"), settings)
    assert _holds(4.13, sparse)


@pytest.mark.parametrize(
    ("total", "printed"),
    [(15.55, 0.23), (23.56, 0.51), (31.36, 0.5), (44.39, 0.49), (79.19, 0.53), (79.25, 0.41), (139.81, 0.6)],
)
def test_says_what_a_card_loses_before_the_start(total: float, printed: float) -> None:
    """Between a card's memory and what is free at first lie the figures of "Initial free memory"."""
    assert _holds(printed, costs.context(int(total * GIB)))
    assert _holds(printed, costs.context())


@pytest.mark.parametrize(
    ("version", "tokens", "sequences", "more", "values"),
    [
        # Float32 values for each row and token of the vocabulary that live together in the sampler.
        ("0.16.0", 512, 128, {}, 9.5),
        ("0.16.0", 512, 64, {}, 12.5),
        ("0.23.0", 512, 128, {}, 3.5),
        ("0.23.0", 512, 128, {"is_v2_runner": True}, 1.5),
        ("0.33.0", 512, 128, {"is_v2_runner": True}, 3.5),
        ("0.7.3", 512, 128, {}, 0.5),
        ("0.7.2", 512, 128, {}, 0.5 * 512 / 128),
        ("0.16.0", 512, 128, {"dtype": "float32"}, 9.0),
    ],
)
def test_the_sampler_grows_with_its_rows(
    version: str, tokens: int, sequences: int, more: dict[str, object], values: float
) -> None:
    """Another vocabulary of 10 million tokens takes what the sampler's tensors of the release's sources say."""
    model = replace(_model(_LLAMA), vocabulary_size=1_000_000)
    larger = replace(model, vocabulary_size=11_000_000)
    settings = _settings(version, tokens, sequences, **more)
    small, large = (
        _gib(costs.activation(each, settings, is_last=True, capability=_HOPPER)) for each in (model, larger)
    )
    assert (large[1] - small[1]) * GIB == pytest.approx(values * sequences * 10_000_000 * 4, rel=0.001)


def test_speculation_and_adapters_widen_the_band() -> None:
    """The rejection sampler and LoRA's logits come on top of a start without them."""
    plain = _settings("0.19.0", 8192, 1024)
    low, expected, high = _gib(costs.activation(_model(_LLAMA), plain, is_last=True))
    drafts = _gib(costs.activation(_model(_LLAMA), replace(plain, speculative_tokens=2), is_last=True))
    assert drafts[:2] == (low, expected)
    assert drafts[2] > high
    adapters = _gib(costs.activation(_model(_LLAMA), replace(plain, lora_rank=16, loras=1), is_last=True))
    assert adapters[1] > expected
    assert adapters[2] > high


@pytest.mark.parametrize(
    ("model", "version", "card", "more", "why"),
    [
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "0.22.1", _HOPPER, {}, "which kernel"),
        ("openai/gpt-oss-20b", "0.19.0", None, {}, "which kernel"),
        ("Qwen/Qwen3-30B-A3B", "0.19.0", _BLACKWELL, {}, "another kernel"),
        ("Qwen/Qwen3-30B-A3B", "0.19.0", _HOPPER, {"quantization": "gptq_marlin"}, ""),
        ("Qwen/Qwen3-30B-A3B", "0.22.1", _HOPPER, {"quantization": "gptq_marlin"}, "which kernel"),
        ("deepseek-ai/DeepSeek-V3.2", "0.19.0", _HOPPER, {}, "indexer"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.19.0", _HOPPER, {}, "layers with a state"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.19.0", _HOPPER, {}, "layers with a state"),
    ],
)
def test_says_what_of_the_activation_is_not_established(
    model: str, version: str, card: tuple[int, int] | None, more: dict[str, object], why: str
) -> None:
    """Where a kernel or an architecture was not measured the source says so and the band is wide."""
    term = costs.activation(_model(model), _settings(version, 8192, 256, **more), is_last=True, capability=card)
    low, _, high = _gib(term)
    assert why in term.source
    assert not why or high > low * 1.08


def test_experts_share_a_workspace_from_0_14_on() -> None:
    """Before, what the experts make is freed again and does not add to the sampler."""
    model = _model("Qwen/Qwen3-30B-A3B")
    older, newer = (
        _gib(costs.activation(model, _settings(version, 8192, 1024), is_last=True, capability=_HOPPER))[1]
        for version in ("0.13.0", "0.14.1")
    )
    # 8192 tokens, 8 experts each, both halves 2048 values wide.
    assert newer - older == pytest.approx(2 * 8192 * 8 * (2048 + 2048) / GIB, rel=0.001)


def test_what_experts_free_again_counts_in_the_forward_pass() -> None:
    """On a stage of 0.13.0 that does not sample, both results of the experts live with the hidden states.

    They are made for 16,384 tokens at a time (envs.py, 0.13.0 :805).
    """
    for tokens, at_a_time in ((8192, 8192), (65536, 16384)):
        settings = _settings("0.13.0", tokens, 256, ranks=Ranks(pipeline=2))
        found = _gib(costs.activation(_model("Qwen/Qwen3-30B-A3B"), settings, is_last=False, capability=_HOPPER))[1]
        # fused_moe.py, 0.13.0 :1838-1847: the larger of twice 768 and 2048 values, and 768, for 8 experts.
        results = 2 * at_a_time * 8 * (2048 + 768)
        attention = 2 * tokens * (32 * 128 * 2 + 4 * 128 * 2)
        states = (3.75 + 2) * 2 * tokens * 2048
        assert found * GIB == pytest.approx(max(results, attention) + states + 32 * 2**20, rel=0.001)


def test_data_parallel_ranks_see_each_others_tokens() -> None:
    """Where ranks share the experts the workspace is for the tokens of all, at most."""
    model = _model("Qwen/Qwen3-30B-A3B")
    alone = _settings("0.19.0", 8192, 256)
    shared = replace(alone, ranks=Ranks(data=4, splits_experts=True))
    one, four = (_gib(costs.activation(model, each, is_last=True, capability=_HOPPER)) for each in (alone, shared))
    assert four[1] > one[1] + 1
    assert _gib(costs.communication(shared, "nvlink", capability=_HOPPER, has_experts=True))[1] > 1


@pytest.mark.parametrize(("tensor", "data"), [(1, 4), (2, 2), (4, 1)])
def test_data_parallel_ranks_cut_experts_like_tensor_ranks(tensor: int, data: int) -> None:
    """Without expert parallelism four ranks hold a quarter of each expert and talk to each other, however counted."""
    model = _model("Qwen/Qwen3-30B-A3B")
    shared = _settings("0.19.0", 8192, 256, ranks=Ranks(tensor=tensor, data=data))
    alone = replace(shared, ranks=Ranks(tensor=tensor))
    found, one = (
        _gib(costs.activation_kept(model, each, is_last=True, capability=_HOPPER))[1] for each in (shared, alone)
    )
    # Values for a token and each of its 8 experts: the gate and up halves of a card's part of 768, at least the hidden
    # size of 2048, and again the larger of part and hidden size; for the tokens of every data rank.
    assert max(2 * 768 // 4, 2048) + 2048 == 4096
    assert (found - one) * GIB == pytest.approx(2 * 8192 * 8 * 4096 * (data - 1), abs=2**20)
    assert _gib(costs.communication(shared, "nvlink", capability=_HOPPER, has_experts=True))[1] > 1


def test_parts_of_wide_experts_take_less_of_the_workspace() -> None:
    """Mixtral's experts of 14,336 values, cut by two data ranks, leave results of 14,336 and 7,168 for each token."""
    shared = _settings("0.19.0", 8192, 256, ranks=Ranks(data=2))
    whole = replace(shared, ranks=Ranks(data=2, splits_experts=True))
    model = _model("mistralai/Mixtral-8x7B-Instruct-v0.1")
    cut, full = (
        _gib(costs.activation_kept(model, each, is_last=True, capability=_HOPPER))[1] for each in (shared, whole)
    )
    # Both have the tokens of two ranks, two experts each; whole ones leave twice 14,336 and 14,336 values.
    assert (full - cut) * GIB == pytest.approx(2 * 2 * 8192 * 2 * (3 * 14_336 - (14_336 + 7_168)), rel=0.001)


def test_older_releases_gather_the_tokens_of_data_parallel_ranks() -> None:
    """On a stage of 0.13.0 the freed results of cut experts are for the tokens of all ranks, 16,384 at a time."""
    model = _model("mistralai/Mixtral-8x7B-Instruct-v0.1")
    settings = _settings("0.13.0", 8192, 256, ranks=Ranks(pipeline=2, data=4))
    found = _gib(costs.activation(model, settings, is_last=False, capability=_HOPPER))[1]
    # fused_moe.py, 0.13.0 :1838-1847: the halves of 3,584 values and their product, for 2 experts.
    results = 2 * 16384 * 2 * (7_168 + 3_584)
    states = (3.75 + 2) * 2 * 8192 * 4096
    assert found * GIB == pytest.approx(results + states + 32 * 2**20, rel=0.001)


def test_names_what_stays_allocated() -> None:
    """0.27.1 prints the peak without what stays: a start of Qwen2.5 0.5B printed 0.25 GiB."""
    settings = _settings("0.27.1", 2048, 256, is_v2_runner=True)
    model = _model("Qwen/Qwen2.5-0.5B-Instruct")
    total = costs.activation(model, settings, is_last=True, capability=_ADA)
    kept = costs.activation_kept(model, settings, is_last=True, capability=_ADA)
    assert _gib(total)[1] - _gib(kept)[1] == pytest.approx(0.25, abs=0.01)


def test_never_guesses() -> None:
    """A model whose layers are not known, or a start whose batch is not, has no activation, and the term says why."""
    settings = _settings("0.19.0", 8192, 256)
    unknown = shape({"model_type": "of-no-family", "architectures": ["OfNoFamily"]})
    for term in (
        costs.activation(unknown, settings, is_last=True),
        costs.activation_kept(unknown, settings, is_last=True),
    ):
        assert term.band is None
        assert "OfNoFamily" in term.source
    empty = replace(_model(_LLAMA), kinds=(), pattern=())
    assert "no layers" in costs.activation(empty, settings, is_last=True).source
    unsettled = costs.activation(_model(_LLAMA), replace(settings, batched_tokens=0), is_last=True)
    assert unsettled.band is None
    assert "max_num_batched_tokens" in unsettled.source
