"""What a start asks of memory, settled by the rules of a release."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from vllm_runbooks import options, specs
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.errors import InputError
from vllm_runbooks.planning.settings import Settings, settle
from vllm_runbooks.planning.shape import Attention, Experts, Latent, Layer, Quantization, Recurrent, Shape, shape

_A100: dict[str, Any] = {"gpu_name": "NVIDIA A100-SXM4-80GB", "memory_gib": 79.25, "capability": (8, 0)}
_H100: dict[str, Any] = {"gpu_name": "NVIDIA H100 80GB HBM3", "memory_gib": 79.19, "capability": (9, 0)}
_H200: dict[str, Any] = {"gpu_name": "NVIDIA H200", "memory_gib": 139.81, "capability": (9, 0)}
_3090: dict[str, Any] = {"gpu_name": "NVIDIA GeForce RTX 3090", "memory_gib": 23.56, "capability": (8, 6)}
_B200: dict[str, Any] = {"gpu_name": "NVIDIA B200", "memory_gib": 184.31, "capability": (10, 0)}
_GB10: dict[str, Any] = {"gpu_name": "NVIDIA GB10", "memory_gib": 121.63, "capability": (12, 1)}
_T4: dict[str, Any] = {"gpu_name": "Tesla T4", "memory_gib": 14.56, "capability": (7, 5)}
_V100: dict[str, Any] = {"gpu_name": "Tesla V100-SXM2-32GB", "memory_gib": 31.74, "capability": (7, 0)}
_NEWER = {"VLLM_USE_V1": "1"}

_FULL = Attention("full", heads=32, kv_heads=8, head_dim=128, value_dim=128)
_MLA = Latent(128, 1536, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)
_MAMBA = Recurrent("mamba2", conv_kernel=4, inner=4096, state=128, heads=64, head_dim=64, groups=8)
_MIXTURE = Experts(count=128, per_token=8, size=768)


def _layers(*layers: Layer, **more: Any) -> Shape:
    named = {"architecture": "LlamaForCausalLM", "model_type": "llama", "text_type": "llama", "dtype": "bfloat16"}
    told = {**named, "max_positions": 131_072, **more}
    return Shape(**told, kinds=layers, pattern=tuple(range(len(layers))))


_DENSE = _layers(Layer(_FULL, None))
_SHAPES = {
    "dense": _DENSE,
    "experts": _layers(Layer(_FULL, _MIXTURE), architecture="Qwen3MoeForCausalLM"),
    "listed": _layers(Layer(_MLA, _MIXTURE), architecture="DeepseekV2ForCausalLM"),
    "latent": _layers(Layer(_MLA, None)),
    "hybrid": _layers(Layer(_FULL, None), Layer(_MAMBA, None), architecture="NemotronHForCausalLM"),
    "qwen3": replace(_DENSE, architecture="Qwen3ForCausalLM"),
    "awq": replace(_DENSE, architecture="Qwen3ForCausalLM", quantization=Quantization("awq")),
    "pictures": replace(_DENSE, encoders=None),
    "window": _layers(Layer(replace(_FULL, kind="sliding", window=4096), None)),
    "cross": _layers(Layer(_FULL, None), Layer(replace(_FULL, kind="cross"), None)),
}


@cache
def _catalog() -> dict[str, dict[str, Any]]:
    return {file.id: file.config for file in specs.load(spec_files.compile_specs).files}


def _started(model: str, given: dict[str, Any], release: str, card: dict[str, Any], **more: Any) -> Settings:
    config = _catalog()[model]
    return settle(shape(config), given, release, config=config, **card, **more)


_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_STARTS = [
    # Of logs: model, what was given, release, card; then what was printed: longest context, tokens of a batch,
    # requests, graphs of pieces and of whole steps. None: not printed. Where a log names no card it is one of the class
    # that the printed batch belongs to.
    ("openai/gpt-oss-20b", {"gpu_memory_utilization": 0.65}, "0.19.0", _A100, (131_072, 2048, 256, 83, 35)),
    ("google/gemma-4-26B-A4B-it", {"quantization": "fp8"}, "0.19.0", _A100, (262_144, 2048, 256, 51, 35)),
    ("google/gemma-4-26B-A4B-it", {"enforce_eager": True}, "0.19.0", _A100, (262_144, 2048, 256, 0, 0)),
    (
        "openai/gpt-oss-20b",
        {"tensor_parallel_size": 2, "max_model_len": 8192},
        "0.19.0",
        _H100,
        (8192, 8192, None, 83, 83),
    ),
    (_LLAMA, {"tensor_parallel_size": 4, "max_model_len": 8192}, "0.19.0", _H100, (8192, 8192, None, 51, 51)),
    ("openai/gpt-oss-120b", {"tensor_parallel_size": 2}, "0.15.1", _H100, (131_072, 8192, None, 83, 83)),
    (_LLAMA, {"max_model_len": 32_768}, "0.17.1", _3090, (32_768, 2048, None, 51, 35)),
    ("Qwen/Qwen3-4B-Instruct-2507", {"max_model_len": 8192}, "0.10.0", _3090, (8192, 2048, None, 67, 0)),
    ("Qwen/Qwen2.5-14B-Instruct-AWQ", {"max_model_len": 8192}, "0.13.0", _3090, (8192, 2048, None, 51, 35)),
    ("microsoft/Phi-3-mini-4k-instruct", {}, "0.19.1", _3090, (4096, 2048, None, 51, 35)),
    (
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        {"max_num_seqs": 64, "max_model_len": 8192},
        "0.22.1",
        _H100,
        (8192, 8192, 64, 19, 11),
    ),
    ("Qwen/Qwen2.5-Coder-7B-Instruct", {"max_num_seqs": 32}, "0.23.0", _3090, (32_768, 2048, 32, 11, 7)),
    (
        "google/gemma-4-26B-A4B-it",
        {"max_num_seqs": 32, "max_num_batched_tokens": 2496},
        "0.25.1",
        _GB10,
        (262_144, 2496, 32, 11, 7),
    ),
    ("Qwen/Qwen2.5-0.5B-Instruct", {"max_num_batched_tokens": 32_768}, "0.26.0", _3090, (32_768, 32_768, 256, 51, 35)),
    (_LLAMA, {}, "0.31.0", _A100, (131_072, 2048, 256, 51, 35)),
    (
        "Qwen/Qwen2.5-1.5B-Instruct",
        {"max_model_len": 128, "tensor_parallel_size": 2},
        "0.7.2",
        _3090,
        (128, 2048, 256, 0, 35),
    ),
    ("Qwen/Qwen2.5-1.5B-Instruct", {}, "0.7.3", _T4, (32_768, 32_768, 256, 0, 35)),
    (_LLAMA, {}, "0.6.6", _H100, (131_072, 2048, 256, 0, 35)),
]


@pytest.mark.parametrize(("model", "given", "release", "card", "printed"), _STARTS)
def test_a_start_has_the_numbers_that_its_log_printed(
    model: str, given: dict[str, Any], release: str, card: dict[str, Any], printed: tuple[int | None, ...]
) -> None:
    """Longest context, batch, requests and graphs are those that real starts of many releases printed."""
    found = _started(model, given, release, card)
    told = (found.max_model_len, found.batched_tokens, found.sequences, found.piecewise_graphs, found.full_graphs)
    assert tuple(None if seen is None else mine for mine, seen in zip(told, printed, strict=True)) == printed


def test_an_early_start_of_the_newer_engine_has_the_batch_of_its_log() -> None:
    """Before 0.8 the newer engine runs only when asked, and goes by the card's name."""
    found = settle(_DENSE, {"max_model_len": 2048}, "0.7.2", environment=_NEWER, **_H200)
    assert (found.is_v0, found.batched_tokens, found.sequences, found.piecewise_graphs) == (False, 8192, 1024, 67)


def test_a_python_program_has_other_defaults_than_a_server() -> None:
    """The class LLM reads twice the tokens at once: 16,384 on an H100, as a start of 0.10.2 printed."""
    found = settle(_DENSE, {"max_model_len": 4096}, "0.10.2", context="llm", **_H100)
    assert (found.batched_tokens, found.sequences, found.piecewise_graphs) == (16_384, 1024, 67)


_BATCHES = [
    # release, card, tokens of a batch, requests, share of the memory (engine/arg_utils.py of the releases)
    ("0.8.5", _A100, 8192, 1024, 0.9),
    ("0.9.2", _A100, 2048, 256, 0.9),
    ("0.27.1", _A100, 2048, 256, 0.92),
    ("0.9.2", _H100, 8192, 1024, 0.9),
    ("0.19.1", _H100, 8192, 1024, 0.9),
    ("0.20.2", _3090, 2048, 256, 0.92),
    ("0.27.1", _B200, 8192, 1024, 0.92),
    ("0.28.0", _B200, 16_384, 1024, 0.92),
    # A start of 0.25.1 on GB10 prints 2,048 raised to 2,496: NVML tells no memory there.
    ("0.25.1", _GB10, 2048, 256, 0.92),
    ("0.32.0", _GB10, 2048, 256, 0.92),
    ("0.33.0", _GB10, 2048, 256, 0.92),
]


@pytest.mark.parametrize(("release", "card", "tokens", "requests", "share"), _BATCHES)
def test_the_card_decides_what_is_not_given(
    release: str, card: dict[str, Any], tokens: int, requests: int, share: float
) -> None:
    """The same command takes another batch on another card, and the share of the memory moved in 0.20."""
    found = settle(_DENSE, {}, release, **card)
    assert (found.batched_tokens, found.sequences, found.utilization) == (tokens, requests, share)


_ADJUSTED = [
    # release, given, tokens of a batch, requests on a 3090, where the defaults are 2048 and 256
    ("0.10.2", {"max_num_seqs": 1, "max_model_len": 512}, 2048, 1),
    ("0.11.2", {"max_num_seqs": 1, "max_model_len": 512}, 512, 1),
    ("0.9.2", {"max_num_batched_tokens": 128}, 128, 256),
    ("0.10.2", {"max_num_batched_tokens": 128}, 128, 128),
    ("0.10.2", {"enable_chunked_prefill": False, "max_model_len": 4096}, 2048, 256),
    ("0.11.2", {"enable_chunked_prefill": False, "max_model_len": 4096}, 4096, 256),
    ("0.16.0", {"performance_mode": "throughput"}, 2048, 256),
    ("0.17.1", {"performance_mode": "throughput"}, 4096, 512),
    (
        "0.20.2",
        {"all2all_backend": "deepep_low_latency", "enable_expert_parallel": True, "data_parallel_size": 2},
        256,
        256,
    ),
]


@pytest.mark.parametrize(("release", "given", "tokens", "requests"), _ADJUSTED)
def test_batch_and_requests_bound_each_other(release: str, given: dict[str, Any], tokens: int, requests: int) -> None:
    """What is given moves what is not: a batch never holds more than all requests, and the other way round."""
    found = settle(_DENSE, given, release, **_3090)
    assert (found.batched_tokens, found.sequences) == (tokens, requests)


_OLDER = [
    # model, release, given, tokens of a batch, whether prompts are read in parts (0.7.2 config.py:1521)
    ("dense", "0.7.2", {"max_model_len": 32_768}, 32_768, False),
    ("dense", "0.7.2", {"max_model_len": 32_769}, 2048, True),
    ("dense", "0.7.2", {"max_model_len": 40_000, "enable_lora": True}, 40_000, False),
    ("dense", "0.7.2", {"max_model_len": 40_000, "num_scheduler_steps": 8}, 40_000, True),
    ("dense", "0.7.2", {"max_model_len": 512}, 2048, False),
    ("window", "0.7.2", {"max_model_len": 40_000}, 40_000, False),
    ("pictures", "0.7.2", {"max_model_len": 4096}, 5120, False),
    ("dense", "0.7.2", {"max_model_len": 512, "runner": "pooling"}, 32_768, False),
    ("latent", "0.7.2", {"max_model_len": 40_000}, 2048, True),
    ("latent", "0.8.5", {"max_model_len": 40_000}, 40_000, False),
    ("dense", "0.9.2", {"max_model_len": 16, "max_num_seqs": 4}, 64, False),
]


@pytest.mark.parametrize(("model", "release", "given", "tokens", "in_parts"), _OLDER)
def test_the_older_engine_sizes_its_batch_by_the_context(
    model: str, release: str, given: dict[str, Any], *, tokens: int, in_parts: bool
) -> None:
    """Its batch holds a whole prompt unless the context is long; pictures and pooling have floors of their own."""
    found = settle(_SHAPES[model], given, release, environment={"VLLM_USE_V1": "0"}, **_A100)
    assert (found.is_v0, found.batched_tokens, found.is_chunked) == (True, tokens, in_parts)


_ENGINES = [
    # model, release, given, variables, card, whether the older engine runs (engine/arg_utils.py of the releases)
    ("dense", "0.7.3", {}, {}, _A100, True),
    ("dense", "0.8.5", {}, {}, _A100, False),
    ("dense", "0.8.5", {}, {"VLLM_USE_V1": "0"}, _A100, True),
    ("dense", "0.8.5", {}, {}, _V100, True),
    ("dense", "0.9.2", {}, {}, _T4, True),
    ("dense", "0.10.2", {}, {}, _T4, False),
    ("dense", "0.8.5", {"kv_cache_dtype": "fp8"}, {}, _A100, True),
    ("dense", "0.8.5", {"kv_cache_dtype": "fp8"}, {}, _H100, False),
    ("dense", "0.10.2", {"kv_cache_dtype": "fp8"}, {}, _A100, True),
    ("dense", "0.10.2", {"kv_cache_dtype": "fp8"}, {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, _A100, False),
    ("latent", "0.10.2", {"kv_cache_dtype": "fp8"}, {}, _A100, False),
    ("dense", "0.11.0", {"kv_cache_dtype": "fp8"}, {"VLLM_USE_V1": "0"}, _A100, False),
    ("dense", "0.8.5", {"pipeline_parallel_size": 2}, {}, _A100, True),
    ("dense", "0.8.5", {"pipeline_parallel_size": 2, "distributed_executor_backend": "ray"}, {}, _A100, False),
    ("dense", "0.9.2", {"pipeline_parallel_size": 2}, {}, _A100, False),
    ("dense", "0.8.5", {"dtype": "float32"}, {}, _A100, True),
    ("dense", "0.9.2", {"dtype": "float32"}, {}, _A100, False),
    ("dense", "0.8.5", {"speculative_config": {"model": "[ngram]", "num_speculative_tokens": 3}}, {}, _A100, True),
    ("dense", "0.8.5", {"speculative_config": {"model": "[ngram]", "num_speculative_tokens": 3}}, _NEWER, _A100, False),
    ("dense", "0.9.2", {"speculative_config": {"model": "small", "num_speculative_tokens": 3}}, {}, _A100, True),
    ("hybrid", "0.8.5", {}, {}, _A100, True),
    ("hybrid", "0.9.2", {}, {}, _A100, True),
    ("hybrid", "0.9.2", {}, _NEWER, _A100, False),
    ("hybrid", "0.10.2", {}, {}, _A100, False),
    ("cross", "0.10.2", {}, {}, _A100, True),
    ("dense", "0.8.5", {"num_scheduler_steps": 8}, {}, _A100, True),
    ("dense", "0.8.5", {"num_scheduler_steps": 1}, {}, _A100, False),
    ("dense", "0.8.5", {"task": "embed"}, {}, _A100, True),
]


@pytest.mark.parametrize(("model", "release", "given", "variables", "card", "is_older"), _ENGINES)
def test_the_engine_falls_back_where_the_newer_one_cannot(
    model: str, release: str, given: dict[str, Any], *, variables: dict[str, str], card: dict[str, Any], is_older: bool
) -> None:
    """Old cards, quantised caches, stages and states bring the older engine back, each in its releases."""
    found = settle(_SHAPES[model], given, release, environment=variables, **card)
    assert (found.is_v0, found.limits) == (is_older, ())


def test_asking_for_an_engine_that_cannot_is_told() -> None:
    """VLLM_USE_V1=1 on a card that the newer engine lacks ends the start, and the reason is named."""
    found = settle(_DENSE, {}, "0.9.2", environment=_NEWER, **_V100)
    assert found.limits == ("vLLM 0.9.2 refuses VLLM_USE_V1=1 with what the newer engine lacks: old card",)


def _scaled(kind: str, factor: float, *, trained: int | None = None, length: int = 40_960) -> Shape:
    scaling: dict[str, Any] = {"rope_type": kind, "factor": factor}
    if trained is not None:
        scaling["original_max_position_embeddings"] = trained
    return shape({**_catalog()["Qwen/Qwen3-8B"], "max_position_embeddings": length, "rope_scaling": scaling})


_LENGTHS = [
    # As vLLM's own function answers for the same configuration (run for 0.8.5, 0.11.0, 0.16.0 and 0.32.0).
    ("yarn", _scaled("yarn", 4.0, trained=32_768), {"0.8.5": 131_072, "0.16.0": 131_072, "0.32.0": 40_960}),
    ("linear", _scaled("linear", 2.0), {"0.8.5": 81_920, "0.32.0": 81_920}),
    ("dynamic", _scaled("dynamic", 4.0), {"0.11.0": 163_840, "0.32.0": 163_840}),
    ("llama3", _scaled("llama3", 8.0, trained=8192), {"0.8.5": 40_960, "0.32.0": 40_960}),
    (
        "longrope",
        _scaled("longrope", 1.0, trained=4096),
        {"0.8.5": 40_960, "0.11.0": 40_960, "0.16.0": 4096, "0.32.0": 4096},
    ),
]


@pytest.mark.parametrize(
    ("told", "release", "longest"),
    [
        pytest.param(told, release, longest, id=f"{name}-{release}")
        for name, told, by_release in _LENGTHS
        for release, longest in by_release.items()
    ],
)
def test_the_longest_context_is_the_one_that_the_release_derives(told: Shape, release: str, longest: int) -> None:
    """Scaled rotary embeddings stretch the context as each release counts them."""
    assert settle(told, {}, release, **_H100).max_model_len == longest


_OWN_LENGTHS = [
    ("openai/gpt-oss-20b", "0.11.0", 131_072),
    ("openai/gpt-oss-20b", "0.32.0", 131_072),
    ("deepseek-ai/DeepSeek-V2-Lite", "0.16.0", 163_840),
    ("deepseek-ai/DeepSeek-V3", "0.8.5", 163_840),
    ("google/gemma-3-27b-it", "0.8.5", 131_072),
    ("google/gemma-3-27b-it", "0.32.0", 131_072),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "0.11.0", 128_000),
    ("moonshotai/Kimi-K2-Instruct", "0.32.0", 131_072),
]


@pytest.mark.parametrize(("model", "release", "longest"), _OWN_LENGTHS)
def test_catalog_models_have_the_length_that_the_release_derives(model: str, release: str, longest: int) -> None:
    """What vLLM's own function answers for the catalog's configurations comes out of the shape."""
    assert _started(model, {}, release, _H100).max_model_len == longest


def test_windows_bound_the_context_where_they_are_switched_off() -> None:
    """With --disable-sliding-window a context is no longer than a window."""
    assert settle(_SHAPES["window"], {"disable_sliding_window": True}, "0.19.0", **_H100).max_model_len == 4096


def test_a_fitted_length_is_told() -> None:
    """-1 takes the model's own length and is fitted since 0.14."""
    fitted = settle(_DENSE, {"max_model_len": -1}, "0.14.1", **_H100)
    assert (fitted.max_model_len, fitted.is_length_fitted) == (131_072, True)


_BEYOND = "--max-model-len 200000 is more than the 131072 tokens that the model takes: vLLM 0.19.0 refuses it unless "


@pytest.mark.parametrize(
    ("variables", "config", "limits"),
    [
        ({}, {}, (f"{_BEYOND}VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set",)),
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, {}, ()),
        ({}, {"model_max_length": 262_144}, ()),
    ],
)
def test_a_length_beyond_the_model_is_refused(
    variables: dict[str, str], config: dict[str, Any], limits: tuple[str, ...]
) -> None:
    """More tokens than the model takes end the start, unless the variable or the configuration allows them."""
    found = settle(_DENSE, {"max_model_len": 200_000}, "0.19.0", environment=variables, config=config, **_A100)
    assert (found.max_model_len, found.limits) == (200_000, limits)


_GRAPHS = [
    # As vLLM's own function answers (run for 0.8.5, 0.11.0, 0.16.0 and 0.32.0): release, requests, batch, tokens that
    # are speculated, then graphs of pieces and of whole decoding steps.
    ("0.8.5", 256, 256, 0, (35, 0)),
    ("0.11.0", 256, 2048, 0, (67, 35)),
    ("0.11.0", 100, 2048, 0, (28, 15)),
    ("0.11.0", 1, 256, 0, (3, 1)),
    ("0.16.0", 256, 2048, 0, (51, 35)),
    ("0.16.0", 1, 2048, 0, (2, 1)),
    ("0.16.0", 32, 2048, 3, (33, 17)),
    ("0.32.0", 256, 256, 0, (35, 35)),
    ("0.32.0", 100, 2048, 0, (29, 16)),
]


@pytest.mark.parametrize(("release", "requests", "batch", "drafted", "graphs"), _GRAPHS)
def test_graphs_are_those_that_the_release_captures(
    release: str, requests: int, batch: int, drafted: int, graphs: tuple[int, int]
) -> None:
    """How many graphs there are follows from requests, batch and speculation by the release's rule."""
    given: dict[str, Any] = {"max_num_seqs": requests, "max_num_batched_tokens": batch, "max_model_len": 4096}
    if drafted:
        given["speculative_config"] = {"method": "eagle", "model": "head", "num_speculative_tokens": drafted}
    variables = {"VLLM_USE_V1": "1", "VLLM_USE_V2_MODEL_RUNNER": "0"}
    found = settle(_DENSE, given, release, environment=variables, **_H100)
    assert (found.piecewise_graphs, found.full_graphs) == graphs


_MODES = [
    # model, release, given, card, graphs of pieces and of whole steps at 256 requests
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_mode": "NONE"}}, _A100, (0, 0)),
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_mode": "PIECEWISE"}}, _A100, (51, 0)),
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}, _A100, (0, 35)),
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_mode": "FULL"}}, _H100, (0, 51)),
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_mode": "FULL"}}, _A100, (51, 35)),
    ("dense", "0.19.0", {"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8]}}, _A100, (4, 4)),
    ("dense", "0.19.0", {"max_cudagraph_capture_size": 64}, _A100, (11, 11)),
    ("dense", "0.19.0", {"compilation_config": {"mode": 0}}, _A100, (0, 0)),
    ("dense", "0.19.0", {"optimization_level": 0}, _A100, (0, 0)),
    ("dense", "0.19.0", {"optimization_level": 1}, _A100, (51, 0)),
    ("dense", "0.10.2", {"compilation_config": 0}, _A100, (0, 0)),
    ("dense", "0.9.2", {"cuda_graph_sizes": [64]}, _A100, (11, 0)),
    ("dense", "0.19.0", {"enable_lora": True}, _A100, (102, 70)),
    ("dense", "0.11.0", {"enable_lora": True}, _A100, (67, 35)),
    ("dense", "0.19.0", {"runner": "pooling"}, _A100, (51, 0)),
    ("hybrid", "0.10.2", {}, _A100, (67, 35)),
    ("dense", "0.10.2", {}, _A100, (67, 0)),
    ("latent", "0.19.0", {}, _A100, (51, 0)),
    ("latent", "0.19.0", {}, _H100, (51, 35)),
    ("latent", "0.22.1", {}, _A100, (51, 35)),
    ("dense", "0.27.1", {"max_num_seqs": 512}, _B200, (51, 51)),
    ("dense", "0.28.0", {"max_num_seqs": 512}, _B200, (83, 51)),
]


@pytest.mark.parametrize(("model", "release", "given", "card", "graphs"), _MODES)
def test_options_and_attention_decide_which_graphs_there_are(
    model: str, release: str, given: dict[str, Any], card: dict[str, Any], graphs: tuple[int, int]
) -> None:
    """A mode, a level, sizes, adapters, pooling and attention that cannot be captured change the graphs."""
    found = settle(_SHAPES[model], {"max_num_seqs": 256, **given}, release, **card)
    assert (found.piecewise_graphs, found.full_graphs) == graphs


_RUNNERS = [
    # model, release, given, whether the newer model runner runs (config/vllm.py of the releases)
    ("qwen3", "0.21.0", {}, False),
    ("qwen3", "0.22.1", {}, True),
    ("awq", "0.22.1", {}, False),
    ("awq", "0.24.0", {}, True),
    ("dense", "0.22.1", {}, False),
    ("dense", "0.23.0", {}, True),
    ("dense", "0.23.0", {"enable_dbo": True}, False),
    ("listed", "0.23.0", {}, False),
    ("listed", "0.24.0", {}, True),
    ("experts", "0.28.0", {}, False),
    ("experts", "0.29.0", {}, True),
    ("hybrid", "0.28.0", {}, False),
    ("hybrid", "0.29.0", {}, True),
    ("latent", "0.25.1", {}, True),
    ("dense", "0.31.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, False),
    ("dense", "0.32.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, True),
    ("dense", "0.25.1", {"logprobs_mode": "raw_logits"}, False),
    ("dense", "0.26.0", {"logprobs_mode": "raw_logits"}, True),
]


@pytest.mark.parametrize(("model", "release", "given", "is_newer"), _RUNNERS)
def test_the_newer_runner_takes_models_one_release_after_the_other(
    model: str, release: str, given: dict[str, Any], *, is_newer: bool
) -> None:
    """Which runner a model gets depends on the release, on its architecture and on what the start does."""
    assert settle(_SHAPES[model], given, release, **_H100).is_v2_runner is is_newer


def test_a_variable_chooses_the_runner() -> None:
    """VLLM_USE_V2_MODEL_RUNNER wins over the release's choice."""
    on = settle(_SHAPES["hybrid"], {}, "0.22.1", environment={"VLLM_USE_V2_MODEL_RUNNER": "1"}, **_H100)
    off = settle(_DENSE, {}, "0.32.0", environment={"VLLM_USE_V2_MODEL_RUNNER": "0"}, **_H100)
    assert (on.is_v2_runner, off.is_v2_runner) == (True, False)


_AHEAD = [
    # model, release, given, batches that are under way at the same time (config/vllm.py of the releases)
    ("dense", "0.13.0", {}, 1),
    ("dense", "0.13.0", {"async_scheduling": True}, 2),
    ("dense", "0.14.1", {}, 2),
    ("dense", "0.14.1", {"async_scheduling": False}, 1),
    ("dense", "0.16.0", {"pipeline_parallel_size": 2}, 2),
    ("dense", "0.19.0", {"distributed_executor_backend": "ray"}, 1),
    ("dense", "0.19.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, 1),
    ("dense", "0.19.0", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}, 2),
    ("dense", "0.26.0", {"pipeline_parallel_size": 2}, 3),
    ("experts", "0.26.0", {"pipeline_parallel_size": 2}, 2),
    ("dense", "0.20.2", {"runner": "pooling"}, 1),
    ("hybrid", "0.16.0", {"enable_prefix_caching": True}, 1),
    ("hybrid", "0.17.1", {"enable_prefix_caching": True}, 2),
]


@pytest.mark.parametrize(("model", "release", "given", "batches"), _AHEAD)
def test_batches_are_scheduled_ahead(model: str, release: str, given: dict[str, Any], batches: int) -> None:
    """Asynchronous scheduling, on by default since 0.14, keeps another batch under way where it can."""
    assert settle(_SHAPES[model], given, release, **_H100).concurrent_batches == batches


_SAMPLERS = [
    # model, release, given, variables, card, kernel (v1/sample/ops/topk_topp_sampler.py of the releases)
    ("dense", "0.7.2", {}, {}, _H100, "sort"),
    ("dense", "0.16.0", {}, {}, _H100, "sort"),
    ("dense", "0.16.0", {}, {"VLLM_USE_FLASHINFER_SAMPLER": "1"}, _H100, "flashinfer"),
    ("dense", "0.17.1", {}, {}, _H100, "triton"),
    ("dense", "0.17.1", {"max_num_seqs": 7}, {}, _H100, "sort"),
    ("dense", "0.17.1", {"max_num_seqs": 8}, {}, _H100, "triton"),
    ("dense", "0.20.2", {}, {}, _H100, "triton"),
    ("dense", "0.21.0", {}, {}, _H100, "flashinfer"),
    ("dense", "0.21.0", {}, {"VLLM_USE_FLASHINFER_SAMPLER": "0"}, _H100, "triton"),
    ("dense", "0.21.0", {"logprobs_mode": "processed_logits"}, {}, _H100, "triton"),
    ("dense", "0.21.0", {}, {}, _T4, "flashinfer"),
    ("dense", "0.24.0", {}, {}, _T4, "triton"),
    ("qwen3", "0.22.1", {}, {}, _H100, "triton"),
    ("qwen3", "0.23.0", {}, {}, _H100, "flashinfer"),
    ("dense", "0.30.0", {"max_num_seqs": 1}, {"VLLM_USE_FLASHINFER_SAMPLER": "0"}, _H100, "triton"),
]


@pytest.mark.parametrize(("model", "release", "given", "variables", "card", "kernel"), _SAMPLERS)
def test_the_sampler_is_the_releases(
    model: str, release: str, given: dict[str, Any], *, variables: dict[str, str], card: dict[str, Any], kernel: str
) -> None:
    """Sorting, Triton's and FlashInfer's kernels follow one another, and a variable or an old card turns back."""
    assert settle(_SHAPES[model], given, release, environment=variables, **card).sampler == kernel


_DTYPES = [
    # `model_type`, the checkpoint's dtype, release, card, given, what the model runs in (config/model.py)
    ("llama", "bfloat16", "0.19.0", _A100, None, "bfloat16"),
    ("llama", "bfloat16", "0.19.0", _T4, None, "float16"),
    ("llama", "float32", "0.19.0", _A100, None, "bfloat16"),
    ("llama", "float32", "0.8.5", _A100, None, "float16"),
    ("gemma2", "float32", "0.7.2", _A100, None, "bfloat16"),
    ("gemma2", "bfloat16", "0.9.2", _T4, None, "float32"),
    ("gemma3_text", "bfloat16", "0.9.2", _T4, None, "float16"),
    ("gemma3_text", "bfloat16", "0.10.2", _T4, None, "float32"),
    ("gemma3", "float16", "0.19.0", _A100, None, "bfloat16"),
    ("llama", "bfloat16", "0.19.0", _A100, "half", "float16"),
    ("llama", "bfloat16", "0.19.0", _A100, "torch.float32", "float32"),
    ("llama", None, "0.19.0", _A100, None, "bfloat16"),
]


@pytest.mark.parametrize(("kind", "saved", "release", "card", "asked", "runs"), _DTYPES)
def test_the_dtype_is_one_that_card_and_model_take(
    kind: str, saved: str | None, release: str, *, card: dict[str, Any], asked: str | None, runs: str
) -> None:
    """A checkpoint runs in its own dtype unless the card lacks it or the model cannot run in it."""
    told = replace(_DENSE, model_type=kind, dtype=saved)
    assert settle(told, {"dtype": asked} if asked else {}, release, **card).dtype == runs


def test_gemma_4_reads_a_whole_video_at_once() -> None:
    """Since 0.22 the batch holds the largest item of a model that reads a picture at once: 32 frames of 78 tokens."""
    told = shape(_catalog()["google/gemma-4-26B-A4B-it"])
    seen = [
        settle(
            told, given, release, config={"text_config": {"use_bidirectional_attention": kind}}, **card
        ).batched_tokens
        for given, release, kind, card in (
            ({}, "0.21.0", "vision", _A100),
            ({}, "0.22.1", "vision", _A100),
            ({}, "0.22.1", "all", _A100),
            ({}, "0.22.1", "vision", _H100),
            ({"language_model_only": True}, "0.22.1", "vision", _A100),
            ({"max_num_batched_tokens": 2048}, "0.22.1", "vision", _A100),
        )
    ]
    assert seen == [2048, 2496, 2048, 8192, 2048, 2048]


def test_what_is_asked_for_is_kept() -> None:
    """Options that need no rule come out as numbers, shares and names of their own."""
    given = {
        "gpu_memory_utilization": 0.95,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
        "data_parallel_size": 4,
        "enable_expert_parallel": True,
        "limit_mm_per_prompt": {"video": 0, "image": {"count": 2, "width": 512}},
        "mm_encoder_tp_mode": "data",
        "mm_processor_kwargs": {"max_pixels": 1000},
        "skip_mm_profiling": True,
        "kv_cache_dtype": "fp8",
        "kv_cache_memory_bytes": 2**30,
        "num_gpu_blocks_override": 77,
        "block_size": 32,
        "cpu_offload_gb": 1.5,
        "enable_lora": True,
        "max_loras": 4,
        "enable_prefix_caching": False,
        "decode_context_parallel_size": 2,
        "mamba_ssm_cache_dtype": "float32",
        "disable_hybrid_kv_cache_manager": True,
    }
    found = settle(_DENSE, given, "0.19.0", environment={"VLLM_PP_LAYER_PARTITION": "1,1,2"}, **_H100)
    assert found.ranks == found.ranks.__class__(2, 3, 4, True, (1, 1, 2), True)
    assert (found.items, found.processor) == ({"video": 0, "image": 2}, {"max_pixels": 1000})
    assert (found.cache_dtype, found.cache_bytes, found.blocks_override, found.block_tokens) == ("fp8", 2**30, 77, 32)
    assert (found.cpu_offload_bytes, found.lora_rank, found.loras) == (3 * 2**29, 16, 4)
    assert (found.caches_prefixes, found.mixes_groups, found.decode_shards) == (False, False, 2)
    assert (found.recurrent_dtype, found.utilization, found.skips_encoder_profile) == ("float32", 0.95, True)


_DRAFTS = [
    ({"method": "eagle3", "model": "head", "num_speculative_tokens": 3}, (3, 0, "head")),
    ({"method": "ngram", "num_speculative_tokens": 5}, (5, 0, None)),
    ({"model": "[ngram]", "num_speculative_tokens": 5}, (5, 0, None)),
    ({"method": "deepseek_mtp", "num_speculative_tokens": 2}, (2, 1, None)),
    ({"method": "mtp"}, (1, 1, None)),
    ({"model": "small", "num_speculative_tokens": 4}, (4, 0, "small")),
]


@pytest.mark.parametrize(("told", "expected"), _DRAFTS)
def test_speculation_is_read(told: dict[str, Any], expected: tuple[int, int, str | None]) -> None:
    """Tokens, layers of the checkpoint's own module and the drafting model come from the JSON option."""
    found = settle(
        replace(_SHAPES["latent"], mtp=(Layer(_MLA, None),)), {"speculative_config": told}, "0.19.0", **_H100
    )
    assert (found.speculative_tokens, found.draft_layers, found.draft_model) == expected


def test_without_a_card_what_depends_on_it_is_named() -> None:
    """Nobody's card is no card: batch and requests are unknown, and so is what follows from them."""
    found = settle(_DENSE, {}, "0.24.0")
    assert (found.batched_tokens, found.sequences, found.full_graphs) == (0, 0, 0)
    assert found.missing == (
        "the card's name and memory (max_num_batched_tokens depends on them)",
        "the card's name and memory (max_num_seqs depends on them)",
        "compute capability of the card (the sampler depends on it)",
    )


@pytest.mark.parametrize(
    ("told", "given", "release", "missing"),
    [
        (replace(_DENSE, max_positions=None), {}, "0.19.0", "max_position_embeddings"),
        (_DENSE, {"runner": "pooling"}, "0.19.0", "how the model pools (long prompts are read in parts or whole)"),
        (_DENSE, {"speculative_config": {"method": "ngram"}}, "0.19.0", "num_speculative_tokens"),
        (
            _SHAPES["hybrid"],
            {"kv_transfer_config": {"kv_connector": "Some"}},
            "0.22.1",
            "whether the KV connector takes groups of several kinds",
        ),
    ],
)
def test_what_cannot_be_known_is_named(told: Shape, given: dict[str, Any], release: str, missing: str) -> None:
    """A value that nothing says is missing by its name, not guessed."""
    assert settle(told, given, release, **_H100).missing == (missing,)


@pytest.mark.parametrize(
    ("given", "release", "mixes"),
    [
        ({}, "0.19.0", True),
        ({"kv_transfer_config": {"kv_connector": "Some"}}, "0.19.0", False),
        ({"kv_transfer_config": {"kv_connector": "Some"}}, "0.22.1", True),
        ({"kv_events_config": {"publisher": "zmq"}}, "0.19.0", False),
        ({"kv_events_config": {"publisher": "zmq"}}, "0.20.2", True),
    ],
)
def test_connectors_and_events_keep_groups_of_one_kind(given: dict[str, Any], release: str, *, mixes: bool) -> None:
    """What moves the cache elsewhere switched the hybrid manager off in its releases."""
    assert settle(_DENSE, given, release, **_H100).mixes_groups is mixes


def test_every_value_has_its_source() -> None:
    """What is given says so, what a rule decides names the release's file and line."""
    found = settle(_DENSE, {"max_num_seqs": 8}, "0.19.0", **_H100).sources
    assert found["sequences"] == "given"
    assert found["batched_tokens"] == "vllm 0.19.0, for this card"
    assert found["sampler"] == "vllm 0.17.1 v1/sample/ops/topk_topp_sampler.py:245"


def test_all_releases_are_settled() -> None:
    """No known release is without an answer."""
    for release in options.known_releases():
        found = settle(_DENSE, {}, release, **_H100)
        assert (found.missing, found.max_model_len, found.version) == ((), 131_072, release)


def test_a_text_that_is_no_version_is_refused() -> None:
    """A release that cannot be read is an error of the one who asked."""
    with pytest.raises(InputError):
        settle(_DENSE, {}, "newish")


def test_other_numbers_take_a_tenth_of_a_millisecond() -> None:
    """Asked again with other numbers the answer is quick enough for thousands of layouts."""
    settle(_DENSE, {}, "0.19.0", **_H100)
    taken = []
    for length in range(1, 200):
        begun = time.perf_counter()
        settle(_DENSE, {"max_model_len": 1000 + length, "tensor_parallel_size": 2}, "0.19.0", **_H100)
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 1e-4
