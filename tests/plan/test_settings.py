"""The settings of a launch that affect memory, by the rules of a release."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import options, specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan.settings import LaunchSettings, mismatch, settle
from vllm_runbooks.plan.shape import Attention, Experts, Latent, Layer, Quantization, Recurrent, Shape, shape
from vllm_runbooks.plan.weights import Ranks

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


def _started(model: str, given: dict[str, Any], release: str, card: dict[str, Any], **more: Any) -> LaunchSettings:
    config = _catalog()[model]
    return settle(shape(config), given, release, config=config, **card, **more)


_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_STARTS = [
    # From logs: model, options, release, GPU; then printed: longest context, tokens of a batch,
    # requests, piecewise and full graphs. None: not printed. If a log names no GPU, it is one of
    # the class
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


@in_one_test(("model", "given", "release", "card", "printed"), _STARTS)
def test_a_launch_has_the_settings_in_its_log(
    model: str, given: dict[str, Any], release: str, card: dict[str, Any], printed: tuple[int | None, ...]
) -> None:
    """Longest context, batch, requests and graphs match printed launches of many releases."""
    found = _started(model, given, release, card)
    told = (
        found.scheduler.max_model_len,
        found.scheduler.batched_tokens,
        found.scheduler.sequences,
        found.graphs.piecewise,
        found.graphs.full,
    )
    assert tuple(None if seen is None else mine for mine, seen in zip(told, printed, strict=True)) == printed


def test_an_early_launch_of_the_newer_engine_has_the_batch_in_its_log() -> None:
    """Before 0.8 the newer engine runs only on request, and uses the GPU's name."""
    found = settle(_DENSE, {"max_model_len": 2048}, "0.7.2", environment=_NEWER, **_H200)
    assert (found.is_v0, found.scheduler.batched_tokens, found.scheduler.sequences, found.graphs.piecewise) == (
        False,
        8192,
        1024,
        67,
    )


def test_a_python_program_has_other_defaults_than_a_server() -> None:
    """The class LLM batches twice the tokens: 16,384 on an H100, as 0.10.2 printed."""
    found = settle(_DENSE, {"max_model_len": 4096}, "0.10.2", context="llm", **_H100)
    assert (found.scheduler.batched_tokens, found.scheduler.sequences, found.graphs.piecewise) == (16_384, 1024, 67)


_BATCHES = [
    # release, GPU, tokens of a batch, requests, share of the memory (engine/arg_utils.py of the
    # releases)
    ("0.8.5", _A100, 8192, 1024, 0.9),
    ("0.9.2", _A100, 2048, 256, 0.9),
    ("0.27.1", _A100, 2048, 256, 0.92),
    ("0.9.2", _H100, 8192, 1024, 0.9),
    ("0.19.1", _H100, 8192, 1024, 0.9),
    ("0.20.2", _3090, 2048, 256, 0.92),
    ("0.27.1", _B200, 8192, 1024, 0.92),
    ("0.28.0", _B200, 16_384, 1024, 0.92),
    # A launch of 0.25.1 on GB10 prints 2,048 raised to 2,496: NVML reports no memory there.
    ("0.25.1", _GB10, 2048, 256, 0.92),
    ("0.32.0", _GB10, 2048, 256, 0.92),
    ("0.33.0", _GB10, 2048, 256, 0.92),
]


@pytest.mark.parametrize(("release", "card", "tokens", "requests", "share"), _BATCHES)
def test_the_gpu_sets_the_defaults(
    release: str, card: dict[str, Any], tokens: int, requests: int, share: float
) -> None:
    """The batch depends on the GPU, and the utilization changed in 0.20."""
    found = settle(_DENSE, {}, release, **card)
    assert (found.scheduler.batched_tokens, found.scheduler.sequences, found.utilization) == (tokens, requests, share)


_ADJUSTED = [
    # release, options, tokens of a batch, requests on a 3090, with the defaults 2048 and 256
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
def test_batch_and_requests_limit_each_other(release: str, given: dict[str, Any], tokens: int, requests: int) -> None:
    """A given value changes the default of the other, so that the two are consistent."""
    found = settle(_DENSE, given, release, **_3090)
    assert (found.scheduler.batched_tokens, found.scheduler.sequences) == (tokens, requests)


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
    """It fits a whole prompt unless the context is long; media and pooling have minimums."""
    found = settle(_SHAPES[model], given, release, environment={"VLLM_USE_V1": "0"}, **_A100)
    assert (found.is_v0, found.scheduler.batched_tokens, found.scheduler.is_chunked) == (True, tokens, in_parts)


_ENGINES = [
    # model, release, options, variables, GPU, whether the older engine runs (engine/arg_utils.py of
    # the releases)
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


@in_one_test(("model", "release", "given", "variables", "card", "is_older"), _ENGINES)
def test_the_engine_falls_back_if_the_newer_one_cannot_run(
    model: str, release: str, given: dict[str, Any], *, variables: dict[str, str], card: dict[str, Any], is_older: bool
) -> None:
    """For old GPUs, quantized KV caches, stages and states, each in its releases."""
    found = settle(_SHAPES[model], given, release, environment=variables, **card)
    assert (found.is_v0, found.limits) == (is_older, ())


def test_requiring_an_unavailable_engine_is_reported() -> None:
    """VLLM_USE_V1=1 on an unsupported GPU ends the launch, and the reason is named."""
    found = settle(_DENSE, {}, "0.9.2", environment=_NEWER, **_V100)
    assert found.limits == (
        "vLLM 0.9.2 rejects VLLM_USE_V1=1 with features that the V1 engine lacks: compute capability below 8.0",
    )
    assert not found.is_v0


def _scaled(kind: str, factor: float, *, trained: int | None = None, length: int = 40_960) -> Shape:
    scaling: dict[str, Any] = {"rope_type": kind, "factor": factor}
    if trained is not None:
        scaling["original_max_position_embeddings"] = trained
    return shape({**_catalog()["Qwen/Qwen3-8B"], "max_position_embeddings": length, "rope_scaling": scaling})


_LENGTHS = [
    # From vLLM's own function for the same configuration (run for 0.8.5, 0.11.0, 0.16.0 and
    # 0.32.0).
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
    assert settle(told, {}, release, **_H100).scheduler.max_model_len == longest


_OWN_LENGTHS = [
    ("openai/gpt-oss-20b", "0.11.0", 131_072),
    ("openai/gpt-oss-20b", "0.32.0", 131_072),
    ("deepseek-ai/DeepSeek-V2-Lite", "0.16.0", 163_840),
    ("deepseek-ai/DeepSeek-V3", "0.8.5", 163_840),
    ("google/gemma-3-27b-it", "0.8.5", 131_072),
    ("google/gemma-3-27b-it", "0.32.0", 131_072),
    ("Qwen/Qwen2.5-VL-7B-Instruct", "0.11.0", 128_000),
    ("moonshotai/Kimi-K2-Instruct", "0.32.0", 131_072),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "0.33.0", 1_048_576),
]


@pytest.mark.parametrize(("model", "release", "longest"), _OWN_LENGTHS)
def test_catalog_models_have_the_length_of_the_release(model: str, release: str, longest: int) -> None:
    """The shape yields what vLLM's function returns for the catalog's configurations."""
    assert _started(model, {}, release, _H100).scheduler.max_model_len == longest


def test_disabled_windows_bound_the_context() -> None:
    """With --disable-sliding-window a context is at most a window."""
    assert (
        settle(_SHAPES["window"], {"disable_sliding_window": True}, "0.19.0", **_H100).scheduler.max_model_len == 4096
    )


def test_an_automatic_length_is_reported() -> None:
    """-1 takes the model's own length and is fitted since 0.14."""
    fitted = settle(_DENSE, {"max_model_len": -1}, "0.14.1", **_H100)
    assert (fitted.scheduler.max_model_len, fitted.scheduler.is_length_fitted) == (131_072, True)


_BEYOND = (
    "--max-model-len 200000 is more than the 131072 tokens that the model supports: vLLM 0.19.0 rejects it unless "
)


@pytest.mark.parametrize(
    ("variables", "config", "limits"),
    [
        ({}, {}, (f"{_BEYOND}VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set",)),
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, {}, ()),
        ({}, {"model_max_length": 262_144}, ()),
    ],
)
def test_a_length_beyond_the_model_is_rejected(
    variables: dict[str, str], config: dict[str, Any], limits: tuple[str, ...]
) -> None:
    """The launch ends, unless the variable or the configuration allows the length."""
    found = settle(_DENSE, {"max_model_len": 200_000}, "0.19.0", environment=variables, config=config, **_A100)
    assert (found.scheduler.max_model_len, found.limits) == (200_000, limits)


_GRAPHS = [
    # From vLLM's own function (run for 0.8.5, 0.11.0, 0.16.0 and 0.32.0): release, requests, batch,
    # tokens that
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
def test_captured_graphs_match_the_release(
    release: str, requests: int, batch: int, drafted: int, graphs: tuple[int, int]
) -> None:
    """Their number follows from requests, batch and speculation."""
    given: dict[str, Any] = {"max_num_seqs": requests, "max_num_batched_tokens": batch, "max_model_len": 4096}
    if drafted:
        given["speculative_config"] = {"method": "eagle", "model": "head", "num_speculative_tokens": drafted}
    variables = {"VLLM_USE_V1": "1", "VLLM_USE_V2_MODEL_RUNNER": "0"}
    found = settle(_DENSE, given, release, environment=variables, **_H100)
    assert (found.graphs.piecewise, found.graphs.full) == graphs


_MODES = [
    # model, release, options, GPU, piecewise and full graphs at 256 requests
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


@in_one_test(("model", "release", "given", "card", "graphs"), _MODES)
def test_options_and_attention_decide_which_graphs_there_are(
    model: str, release: str, given: dict[str, Any], card: dict[str, Any], graphs: tuple[int, int]
) -> None:
    """A mode, a level, sizes, adapters, pooling and attention that cannot be captured change the graphs."""
    found = settle(_SHAPES[model], {"max_num_seqs": 256, **given}, release, **card)
    assert (found.graphs.piecewise, found.graphs.full) == graphs


_RUNNERS = [
    # model, release, options, whether the newer model runner runs (config/vllm.py of the releases)
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


@in_one_test(("model", "release", "given", "is_newer"), _RUNNERS)
def test_the_newer_runner_gained_models_by_release(
    model: str, release: str, given: dict[str, Any], *, is_newer: bool
) -> None:
    """The runner depends on the release, the architecture and the options."""
    assert settle(_SHAPES[model], given, release, **_H100).is_v2_runner is is_newer


def test_a_variable_chooses_the_runner() -> None:
    """VLLM_USE_V2_MODEL_RUNNER wins over the release's choice."""
    on = settle(_SHAPES["hybrid"], {}, "0.22.1", environment={"VLLM_USE_V2_MODEL_RUNNER": "1"}, **_H100)
    off = settle(_DENSE, {}, "0.32.0", environment={"VLLM_USE_V2_MODEL_RUNNER": "0"}, **_H100)
    assert (on.is_v2_runner, off.is_v2_runner) == (True, False)


_AHEAD = [
    # model, release, options, batches in flight (config/vllm.py of the releases)
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
    """Asynchronous scheduling, the default since 0.14, adds a batch in flight if possible."""
    assert settle(_SHAPES[model], given, release, **_H100).scheduler.concurrent_batches == batches


_SAMPLERS = [
    # model, release, options, variables, GPU, kernel (v1/sample/ops/topk_topp_sampler.py of the
    # releases)
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


@in_one_test(("model", "release", "given", "variables", "card", "kernel"), _SAMPLERS)
def test_the_sampler_is_the_releases_default(
    model: str, release: str, given: dict[str, Any], *, variables: dict[str, str], card: dict[str, Any], kernel: str
) -> None:
    """Sorting, then Triton's and FlashInfer's kernels; a variable or an old GPU reverts them."""
    assert settle(_SHAPES[model], given, release, environment=variables, **card).sampler == kernel


def test_the_vendor_decides_what_runs_on_a_gpu() -> None:
    """FlashInfer's sampler needs an NVIDIA GPU: drivers name AMD's with and without the vendor."""
    names = ("AMD Instinct MI300X", "Radeon RX 7900 XTX")
    given = {"max_num_seqs": 64, "max_num_batched_tokens": 2048}
    samplers = [settle(_DENSE, given, "0.24.0", gpu_name=name, vendor="amd").sampler for name in names]
    assert samplers == ["triton", "triton"]
    assert settle(_DENSE, {}, "0.24.0", **_H100).sampler == "flashinfer"


_DTYPES = [
    # `model_type`, the checkpoint's dtype, release, GPU, options, resulting dtype (config/model.py)
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
def test_the_dtype_is_supported_by_gpu_and_model(
    kind: str, saved: str | None, release: str, *, card: dict[str, Any], asked: str | None, runs: str
) -> None:
    """A checkpoint keeps its dtype unless the GPU or the model does not support it."""
    told = replace(_DENSE, model_type=kind, dtype=saved)
    assert settle(told, {"dtype": asked} if asked else {}, release, **card).dtype == runs


def test_gemma_4_needs_a_whole_video_in_a_batch() -> None:
    """Since 0.22 the batch fits the model's largest item: 32 frames of 78 tokens."""
    told = shape(_catalog()["google/gemma-4-26B-A4B-it"])
    seen = [
        settle(
            told, given, release, config={"text_config": {"use_bidirectional_attention": kind}}, **card
        ).scheduler.batched_tokens
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
    for text, missing in (({"use_bidirectional_attention": None}, ()), ({}, ("use_bidirectional_attention",))):
        assert settle(told, {}, "0.22.1", config={"text_config": text}, **_A100).missing == missing


def test_given_options_are_kept() -> None:
    """Options without rules become numbers, shares and names."""
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
    assert (found.media.items, found.media.processor) == ({"video": 0, "image": 2}, {"max_pixels": 1000})
    assert (found.cache.dtype, found.cache.size, found.cache.blocks_override, found.cache.block_tokens) == (
        "fp8",
        2**30,
        77,
        32,
    )
    assert (found.cpu_offload_bytes, found.lora.rank, found.lora.slots) == (3 * 2**29, 16, 4)
    assert (found.cache.caches_prefixes, found.cache.mixes_groups, found.cache.decode_shards) == (False, False, 2)
    assert (found.cache.recurrent_dtype, found.utilization, found.media.skips_profile) == ("float32", 0.95, True)


_DRAFTS = [
    ({"method": "eagle3", "model": "head", "num_speculative_tokens": 3}, (3, 0, "head")),
    ({"method": "ngram", "num_speculative_tokens": 5}, (5, 0, None)),
    ({"model": "[ngram]", "num_speculative_tokens": 5}, (5, 0, None)),
    ({"method": "deepseek_mtp", "num_speculative_tokens": 2}, (2, 1, None)),
    ({"method": "mtp"}, (1, 1, None)),
    ({"model": "small", "num_speculative_tokens": 4}, (4, 0, "small")),
]


@pytest.mark.parametrize(("told", "expected"), _DRAFTS)
def test_speculation_is_parsed(told: dict[str, Any], expected: tuple[int, int, str | None]) -> None:
    """Tokens, the checkpoint's own layers and the draft model come from the JSON option."""
    found = settle(
        replace(_SHAPES["latent"], mtp=(Layer(_MLA, None),)), {"speculative_config": told}, "0.19.0", **_H100
    )
    assert (found.speculation.tokens, found.speculation.layers, found.speculation.model) == expected


@pytest.mark.parametrize(
    ("pooling", "batch"),
    [
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, 8192),
        ({"pooling_mode": "lasttoken"}, 8192),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False}, 40960),
        ({"pooling_mode_cls_token": True}, 40960),
    ],
)
def test_only_models_that_pool_the_last_token_read_prompts_in_chunks(pooling: dict[str, Any], batch: int) -> None:
    """The file of sentence-transformers decides whether a batch holds a whole prompt."""
    config = {"1_Pooling/config": pooling}
    found = settle(replace(_DENSE, max_positions=40960), {"runner": "pooling"}, "0.19.0", config=config, **_H100)
    assert (found.missing, found.scheduler.batched_tokens) == ((), batch)


def test_without_a_gpu_dependent_settings_are_named() -> None:
    """Batch and requests are unknown, and so are settings derived from them."""
    found = settle(_DENSE, {}, "0.24.0")
    assert (found.scheduler.batched_tokens, found.scheduler.sequences, found.graphs.full) == (0, 0, 0)
    assert found.missing == (
        "the GPU's name and memory (max_num_batched_tokens depends on them)",
        "the GPU's name and memory (max_num_seqs depends on them)",
        "compute capability of the GPU (the sampler depends on it)",
    )


@pytest.mark.parametrize(
    ("told", "given", "release", "missing"),
    [
        (
            replace(_DENSE, max_positions=None),
            {},
            "0.19.0",
            "the longest context: the model's configuration has no max_position_embeddings",
        ),
        (_DENSE, {"runner": "pooling"}, "0.19.0", "the model's pooling type (decides chunked prefill)"),
        (_DENSE, {"speculative_config": {"method": "ngram"}}, "0.19.0", "num_speculative_tokens"),
        (
            _SHAPES["hybrid"],
            {"kv_transfer_config": {"kv_connector": "Some"}},
            "0.22.1",
            "whether the KV connector supports several KV cache groups",
        ),
    ],
)
def test_an_unknown_setting_is_named(told: Shape, given: dict[str, Any], release: str, missing: str) -> None:
    """It is listed as missing, and not guessed."""
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
def test_connectors_and_events_disable_the_hybrid_manager(given: dict[str, Any], release: str, *, mixes: bool) -> None:
    """In the releases that require it."""
    assert settle(_DENSE, given, release, **_H100).cache.mixes_groups is mixes


def test_all_releases_have_settings() -> None:
    """Every known release has a result."""
    for release in options.known_releases():
        found = settle(_DENSE, {}, release, **_H100)
        assert (found.missing, found.scheduler.max_model_len, found.version) == ((), 131_072, release)


def test_an_invalid_version_is_rejected() -> None:
    """It is an input error."""
    with pytest.raises(InputError):
        settle(_DENSE, {}, "newish")


def test_other_numbers_do_not_reload_the_release() -> None:
    """A repeated question is fast enough for thousands of layouts: 0.1 ms, and never 5."""
    settle(_DENSE, {}, "0.19.0", **_H100)
    taken = []
    for length in range(1, 200):
        begun = time.process_time()
        settle(_DENSE, {"max_model_len": 1000 + length, "tensor_parallel_size": 2}, "0.19.0", **_H100)
        taken.append(time.process_time() - begun)
    assert min(taken) < 5e-3


# ---- each option and each rule by itself


def _given(options_: dict[str, Any], release: str = "0.19.0", told: Shape = _DENSE, **more: Any) -> LaunchSettings:
    return settle(told, options_, release, **{**_H100, **more})


def test_settings_can_be_used_as_keys() -> None:
    """Nested mappings are hashable, and launches that differ in a number differ."""
    options_ = {"limit_mm_per_prompt": {"image": {"count": 1, "width": 8}}, "mm_processor_kwargs": {"a": [1]}}
    same, again, other = (_given({**options_, "max_num_seqs": size}) for size in (8, 8, 9))
    assert {same: 1}[again] == 1
    assert other not in {same: 1}


@pytest.mark.parametrize(
    ("text", "is_on"),
    [
        ("1", True),
        ("0", False),
        (" 1 ", True),
        ("2", True),
        ("-1", True),
        ("00", False),
        ("true", True),
        ("True", True),
        ("yes", False),
        ("", False),
    ],
)
def test_a_variable_is_on_by_its_number_or_its_word(text: str, *, is_on: bool) -> None:
    """`bool(int(...))` of a number, "true" of a word: nothing else switches the newer runner on."""
    assert _given({}, environment={"VLLM_USE_V2_MODEL_RUNNER": text}).is_v2_runner is is_on


@pytest.mark.parametrize(
    ("asked", "runs", "size"),
    [
        ("float", "float32", 4),
        ("float32", "float32", 4),
        ("FLOAT16", "float16", 2),
        ("half", "float16", 2),
        ("torch.bfloat16", "bfloat16", 2),
        ("auto", "bfloat16", 2),
    ],
)
def test_a_dtype_has_several_names(asked: str, runs: str, size: int) -> None:
    """`_STR_DTYPE_TO_TORCH_DTYPE` of config/model.py: "half" and "float" are names of 16 and 32 bits."""
    found = _given({"dtype": asked})
    assert (found.dtype, found.value_bytes, found.missing) == (runs, size, ())


def test_an_invalid_dtype_is_named() -> None:
    """The resulting dtype is unknown."""
    assert _given({"dtype": "int4"}).missing == ("the dtype int4",)


def test_a_dtype_that_depends_on_an_unknown_gpu_is_named() -> None:
    """gemma2 runs in bfloat16, but in float32 before Ampere; llama in 16 bits on any GPU."""
    missing = "compute capability of the GPU (dtype depends on it)"
    kinds = {kind: settle(replace(_DENSE, model_type=kind), {}, "0.19.0") for kind in ("gemma2", "llama")}
    assert {kind: missing in found.missing for kind, found in kinds.items()} == {"gemma2": True, "llama": False}
    assert [found.dtype for found in kinds.values()] == ["bfloat16", "bfloat16"]


_POSITIONS = [
    # model, further configuration, release, options, longest context
    ("dense", {"model_max_length": 5000}, "0.19.0", {}, 5000),
    ("dense", {"text_config": {"model_max_length": 6000}, "model_max_length": 5000}, "0.19.0", {}, 6000),
    ("dense", {"llm_config": {"model_max_length": 7000}}, "0.19.0", {}, 7000),
    ("dense", {"model_max_length": 5000}, "0.7.2", {}, 131_072),
    ("dense", {"model_max_length": 0}, "0.19.0", {}, 131_072),
    ("dense", {"model_max_length": "long"}, "0.19.0", {}, 131_072),
    ("window", {}, "0.19.0", {}, 131_072),
    ("window", {"model_max_length": 4000}, "0.19.0", {"disable_sliding_window": True}, 4000),
    ("dense", {}, "0.19.0", {"disable_sliding_window": True}, 131_072),
]


@pytest.mark.parametrize(("model", "config", "release", "given", "longest"), _POSITIONS)
def test_the_longest_context_is_the_configurations(
    model: str, config: dict[str, Any], release: str, given: dict[str, Any], longest: int
) -> None:
    """`model_max_length` precedes the positions since 0.8 (0.8.5 config.py:2977)."""
    assert _given(given, release, _SHAPES[model], config=config).scheduler.max_model_len == longest


@pytest.mark.parametrize(
    ("release", "asked", "variable", "config", "is_fitted", "refused"),
    [
        ("0.13.0", -1, None, {}, False, False),
        ("0.14.1", -1, None, {}, True, False),
        ("0.14.1", None, None, {}, False, False),
        ("0.19.0", 131_072, None, {}, False, False),
        ("0.19.0", 131_073, None, {}, False, True),
        ("0.19.0", 131_073, "0", {}, False, True),
        ("0.19.0", 131_073, " TRUE ", {}, False, False),
        ("0.7.2", 131_073, None, {"model_max_length": 131_073}, False, False),
        ("0.7.2", 131_074, None, {"model_max_length": 131_073}, False, True),
        ("0.7.2", 131_074, None, {"model_max_length": "any"}, False, True),
    ],
)
def test_a_length_is_accepted_up_to_the_maximum(
    release: str, asked: int | None, variable: str | None, config: dict[str, Any], *, is_fitted: bool, refused: bool
) -> None:
    """One token more is rejected unless it is allowed."""
    environment = {} if variable is None else {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": variable}
    found = _given({"max_model_len": asked}, release, config=config, environment=environment)
    assert (found.scheduler.is_length_fitted, bool(found.limits)) == (is_fitted, refused)
    assert found.scheduler.max_model_len == (131_072 if asked in (None, -1) else asked)


_FEATURES = [
    # options, whether they select the older engine in 0.8.5, 0.9.2 and 0.10.2 (engine/arg_utils.py,
    # `_is_v1_supported_oracle`: 0.8.5 :1292, 0.9.2 :1306, 0.10.2 :1431)
    ({}, (False, False, False)),
    ({"logits_processor_pattern": ".*"}, (True, True, True)),
    ({"preemption_mode": "swap"}, (True, True, True)),
    ({"disable_async_output_proc": True}, (True, True, True)),
    ({"disable_async_output_proc": False}, (False, False, False)),
    ({"scheduling_policy": "priority"}, (True, False, False)),
    ({"scheduling_policy": "fcfs"}, (False, False, False)),
    ({"num_scheduler_steps": 2}, (True, True, False)),
    ({"scheduler_delay_factor": 0.5}, (True, True, True)),
    ({"scheduler_delay_factor": 0.0}, (False, False, False)),
    ({"enable_prompt_adapter": True}, (True, True, False)),
    ({"enable_prompt_embeds": True}, (False, True, True)),
    ({"max_num_partial_prefills": 2}, (True, True, True)),
    ({"max_num_partial_prefills": 1}, (False, False, False)),
    ({"otlp_traces_endpoint": "http://x"}, (True, True, False)),
    ({"load_format": "tensorizer"}, (True, False, False)),
    ({"load_format": "sharded_state"}, (True, True, True)),
    ({"load_format": "safetensors"}, (False, False, False)),
    ({"quantization": "gguf"}, (True, False, False)),
    ({"quantization": "awq"}, (False, False, False)),
    ({"task": "classify"}, (True, False, False)),
    ({"pipeline_parallel_size": 2, "distributed_executor_backend": "ray"}, (False, False, False)),
    ({"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"}, (True, False, False)),
    ({"pipeline_parallel_size": 2, "distributed_executor_backend": "external_launcher"}, (True, False, False)),
    ({"pipeline_parallel_size": 2, "distributed_executor_backend": "uni"}, (True, True, False)),
    ({"distributed_executor_backend": "uni"}, (False, False, False)),
    ({"kv_cache_dtype": "fp8_e5m2"}, (False, False, False)),
    ({"kv_cache_dtype": "int8"}, (True, True, False)),
]


@in_one_test(("given", "is_older"), _FEATURES)
def test_missing_features_of_the_newer_engine_select_the_older_one(
    given: dict[str, Any], is_older: tuple[bool, bool, bool]
) -> None:
    """On an H100, where the newer engine supports FP8 caches; since 0.11 there is no older one."""
    assert tuple(_given(given, release).is_v0 for release in ("0.8.5", "0.9.2", "0.10.2")) == is_older
    assert not _given(given, "0.11.0").is_v0


@pytest.mark.parametrize(
    ("model", "release", "card", "backend", "is_older"),
    [
        ("dense", "0.9.2", _H100, "FLASH_ATTN_VLLM_V1", False),
        ("dense", "0.9.2", _H100, "FLASHINFER", True),
        ("dense", "0.9.2", _B200, None, True),
        ("dense", "0.10.2", _B200, None, False),
        ("dense", "0.10.2", _A100, None, True),
        ("latent", "0.10.2", _A100, "FLASHMLA", False),
        ("latent", "0.10.2", _A100, "CUTLASS_MLA", False),
        ("latent", "0.10.2", _A100, "TRITON_MLA", True),
        ("latent", "0.9.2", _A100, "FLASHMLA", True),
    ],
)
def test_an_fp8_cache_needs_a_gpu_and_a_backend(
    model: str, release: str, card: dict[str, Any], backend: str | None, *, is_older: bool
) -> None:
    """First FlashAttention 3 (0.8.5 :1340), then other backends (0.10.2 platforms/cuda.py:522)."""
    environment = {} if backend is None else {"VLLM_ATTENTION_BACKEND": backend}
    found = settle(_SHAPES[model], {"kv_cache_dtype": "fp8"}, release, environment=environment, **card)
    assert found.is_v0 is is_older


def test_an_engine_that_depends_on_an_unknown_gpu_is_named() -> None:
    """Only 0.8.5 and 0.9.2 run the older engine on GPUs before Ampere."""
    said = "compute capability of the GPU (the engine depends on it)"
    releases = ("0.7.2", "0.8.5", "0.9.2", "0.10.2")
    assert [said in settle(_DENSE, {}, release).missing for release in releases] == [False, True, True, False]


_EAGLE3 = {"method": "eagle3", "model": "head", "num_speculative_tokens": 2}
_RUNNER_RELEASES = ("0.23.0", "0.24.0", "0.26.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
_RUNNER_LACKS = [
    # model, options, the release of those above since which the newer runner supports it, and until
    # which;
    # None: never (config/vllm.py: 0.23.0 :1982, 0.24.0 :1994, 0.26.0 :2127, 0.28.0 :2369, 0.29.0 :2539, 0.30.0 :2815,
    # 0.31.0 :3051, 0.32.0 :2914, 0.33.0 :3053)
    ("dense", {}, "0.23.0", None),
    ("dense", {"reasoning_config": {"reasoning_start_str": "x"}}, "0.23.0", None),
    ("dense", {"enable_return_routed_experts": True}, "0.28.0", None),
    ("dense", {"ec_transfer_config": {"ec_connector": "x"}}, "0.28.0", None),
    ("dense", {"enable_prompt_embeds": True}, "0.29.0", None),
    ("dense", {"enable_dbo": True}, "0.30.0", None),
    ("dense", {"kv_sharing_fast_prefill": True}, "0.30.0", None),
    ("dense", {"logits_processors": ["my.Processor"]}, "0.31.0", None),
    ("dense", {"logprobs_mode": "raw_logits"}, "0.26.0", None),
    ("dense", {"logprobs_mode": "processed_logits"}, "0.26.0", None),
    ("dense", {"logprobs_mode": "raw_logprobs"}, "0.23.0", None),
    ("dense", {"compilation_config": {"mode": 1}}, "0.32.0", None),
    ("dense", {"compilation_config": {"mode": "stock_torch_compile"}}, "0.32.0", None),
    ("dense", {"compilation_config": {"mode": 3}}, "0.23.0", None),
    ("dense", {"pipeline_parallel_size": 2, "distributed_executor_backend": "external_launcher"}, "0.23.0", "0.24.0"),
    ("dense", {"distributed_executor_backend": "external_launcher"}, "0.23.0", None),
    ("dense", {"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"}, "0.23.0", None),
    ("dense", {"speculative_config": _EAGLE3}, "0.23.0", None),
    ("dense", {"speculative_config": _EAGLE3, "pipeline_parallel_size": 2}, "0.30.0", None),
    ("dense", {"speculative_config": {**_EAGLE3, "method": "dflash"}}, "0.24.0", None),
    ("dense", {"speculative_config": {**_EAGLE3, "parallel_drafting": True}}, None, None),
    ("dense", {"speculative_config": {**_EAGLE3, "method": "dflash", "parallel_drafting": True}}, "0.24.0", None),
    ("dense", {"speculative_config": {**_EAGLE3, "method": "draft_model"}}, "0.31.0", None),
    ("dense", {"speculative_config": {**_EAGLE3, "method": "medusa"}}, "0.33.0", None),
    ("dense", {"prefill_context_parallel_size": 1}, "0.23.0", None),
    ("dense", {"prefill_context_parallel_size": 2}, "0.29.0", None),
    ("latent", {"prefill_context_parallel_size": 2}, "0.26.0", None),
    ("dense", {"runner": "pooling"}, "0.29.0", None),
    ("dense", {"convert": "embed"}, "0.29.0", None),
    ("hybrid", {}, "0.29.0", None),
]


@in_one_test(("model", "given", "since", "until"), _RUNNER_LACKS)
def test_missing_features_of_the_newer_runner_select_the_older_one(
    model: str, given: dict[str, Any], since: str | None, until: str | None
) -> None:
    """By each release's list; for a supported model the other options decide."""
    releases = _RUNNER_RELEASES
    wanted = [
        since is not None and releases.index(since) <= place and (until is None or place < releases.index(until))
        for place in range(len(releases))
    ]
    assert [_given(given, release, _SHAPES[model]).is_v2_runner for release in releases] == wanted


def test_aligned_states_and_states_of_every_block_need_the_older_runner() -> None:
    """0.23 and 0.24 lack aligned states, 0.30 and 0.31 those of every block."""
    told = replace(_SHAPES["hybrid"], architecture="Qwen3ForCausalLM")
    found = {
        (release, mode): _given({"mamba_cache_mode": mode} if mode else {}, release, told).is_v2_runner
        for release in ("0.22.1", "0.23.0", "0.29.0", "0.30.0", "0.32.0")
        for mode in ("", "align", "all")
    }
    assert [name for name, is_newer in found.items() if not is_newer] == [
        *(("0.22.1", mode) for mode in ("", "align", "all")), ("0.23.0", "align"), ("0.30.0", "all"),
    ]  # fmt: skip
    assert not _given({"enable_prefix_caching": True}, "0.23.0", told).is_v2_runner
    assert not _given({"reasoning_config": {"a": 1}}, "0.22.1", _SHAPES["qwen3"]).is_v2_runner


_UNDER_WAY = [
    # model, release, options, batches in flight
    ("dense", "0.13.0", {"pipeline_parallel_size": 3}, 3),
    ("dense", "0.14.1", {"pipeline_parallel_size": 3}, 3),
    ("dense", "0.14.1", {"pipeline_parallel_size": 3, "async_scheduling": True}, 3),
    ("dense", "0.26.0", {"pipeline_parallel_size": 3, "async_scheduling": False}, 3),
    ("dense", "0.26.0", {"pipeline_parallel_size": 3}, 4),
    ("dense", "0.31.0", {"pipeline_parallel_size": 3}, 4),
    ("dense", "0.26.0", {}, 2),
    ("dense", "0.26.0", {"async_scheduling": False}, 1),
    ("dense", "0.19.0", {"distributed_executor_backend": "mp"}, 2),
    ("dense", "0.19.0", {"distributed_executor_backend": "uni"}, 2),
    ("dense", "0.19.0", {"distributed_executor_backend": "external_launcher"}, 2),
    ("dense", "0.19.0", {"runner": "pooling"}, 2),
    ("dense", "0.13.0", {"speculative_config": _EAGLE3}, 1),
    ("dense", "0.19.0", {"speculative_config": _EAGLE3}, 2),
    ("dense", "0.19.0", {"speculative_config": {**_EAGLE3, "method": "draft_model"}}, 1),
    ("dense", "0.32.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}, 1),
    ("dense", "0.33.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}, 2),
    ("hybrid", "0.16.0", {}, 2),
    ("hybrid", "0.15.1", {"enable_prefix_caching": True}, 2),
    ("dense", "0.16.0", {"enable_prefix_caching": True}, 2),
]


@in_one_test(("model", "release", "given", "batches"), _UNDER_WAY)
def test_stages_and_asynchronous_scheduling_keep_batches_in_flight(
    model: str, release: str, given: dict[str, Any], batches: int
) -> None:
    """One per stage (v1/executor: max_concurrent_batches), one for asynchronous scheduling."""
    assert _given(given, release, _SHAPES[model]).scheduler.concurrent_batches == batches


def test_stages_of_the_older_runner_are_not_scheduled_ahead_since_0_31() -> None:
    """0.31.0 config/vllm.py:1633: with stages only the newer runner schedules ahead, which then has one batch more."""
    found = {
        (release, newer): _given(
            {"pipeline_parallel_size": 2}, release, environment={"VLLM_USE_V2_MODEL_RUNNER": newer}
        ).scheduler.concurrent_batches
        for release in ("0.14.1", "0.30.0", "0.31.0")
        for newer in ("0", "1")
    }
    assert found == {
        ("0.14.1", "0"): 2, ("0.14.1", "1"): 2, ("0.30.0", "0"): 2, ("0.30.0", "1"): 3, ("0.31.0", "0"): 2,
        ("0.31.0", "1"): 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("release", "given", "variables", "capability", "kernel"),
    [
        ("0.6.6", {}, {"VLLM_USE_FLASHINFER_SAMPLER": "1"}, (9, 0), "sort"),
        ("0.21.0", {}, {}, (12, 1), "flashinfer"),
        ("0.21.0", {}, {}, (12, 2), "triton"),
        ("0.21.0", {}, {}, (7, 4), "triton"),
        ("0.21.0", {"max_num_seqs": 7}, {}, (7, 4), "sort"),
        ("0.24.0", {}, {}, (8, 0), "flashinfer"),
        ("0.21.0", {"logprobs_mode": "processed_logprobs"}, {}, (9, 0), "triton"),
        ("0.21.0", {"logprobs_mode": "raw_logprobs"}, {}, (9, 0), "flashinfer"),
        ("0.26.0", {"logprobs_mode": "processed_logprobs"}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, (9, 0), "flashinfer"),
        ("0.26.0", {"logprobs_mode": "processed_logprobs"}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, (9, 0), "triton"),
        ("0.22.1", {}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, (9, 0), "triton"),
        ("0.22.1", {}, {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_USE_FLASHINFER_SAMPLER": "1"}, (9, 0), "triton"),
        ("0.19.0", {"max_num_seqs": 64, "max_num_batched_tokens": 7}, {}, (9, 0), "sort"),
    ],
)
def test_a_kernel_needs_a_gpu_and_enough_rows(
    release: str, given: dict[str, Any], variables: dict[str, str], capability: tuple[int, int], kernel: str
) -> None:
    """FlashInfer up to 12.1, Triton from eight rows (0.17.1 topk_topp_sampler.py:245)."""
    found = settle(_DENSE, given, release, environment=variables, **{**_H100, "capability": capability})
    assert found.sampler == kernel


_ADJUSTED_MORE = [
    # model, release, options, tokens of a batch, requests, whether prompts are chunked; on a 3090:
    # 2048 and 256
    ("dense", "0.11.2", {"enable_chunked_prefill": False, "max_model_len": 1024}, 2048, 256, False),
    ("dense", "0.11.0", {"enable_chunked_prefill": False, "max_model_len": 4096}, 2048, 256, True),
    ("cross", "0.11.2", {"max_model_len": 4096}, 4096, 256, False),
    ("cross", "0.11.0", {"max_model_len": 4096}, 2048, 256, False),
    ("cross", "0.11.2", {"max_model_len": 4096, "enable_chunked_prefill": True}, 4096, 256, False),
    ("dense", "0.11.2", {"max_num_batched_tokens": 4096, "max_num_seqs": 2, "max_model_len": 512}, 4096, 2, True),
    ("dense", "0.11.2", {"max_num_seqs": 4, "max_model_len": 512}, 2048, 4, True),
    ("dense", "0.11.2", {"max_num_seqs": 3, "max_model_len": 512}, 1536, 3, True),
    ("dense", "0.11.2", {"max_num_batched_tokens": 128, "max_num_seqs": 300}, 128, 300, True),
    ("dense", "0.17.1", {"performance_mode": "throughput", "max_num_seqs": 8}, 4096, 8, True),
    ("dense", "0.17.1", {"performance_mode": "throughput", "max_num_batched_tokens": 999}, 999, 512, True),
    ("dense", "0.17.1", {"performance_mode": "balanced"}, 2048, 256, True),
]


@pytest.mark.parametrize(("model", "release", "given", "tokens", "requests", "in_parts"), _ADJUSTED_MORE)
def test_given_values_are_unchanged(
    model: str, release: str, given: dict[str, Any], tokens: int, requests: int, *, in_parts: bool
) -> None:
    """Rules of the release only change defaults (0.11.2 engine/arg_utils.py:1946, 0.17.1 :2101)."""
    found = settle(_SHAPES[model], given, release, **_3090)
    assert (found.scheduler.batched_tokens, found.scheduler.sequences, found.scheduler.is_chunked) == (
        tokens,
        requests,
        in_parts,
    )


@pytest.mark.parametrize(
    ("release", "given", "tokens"),
    [
        ("0.19.0", {}, 2048),
        ("0.20.2", {}, 256),
        ("0.20.2", {"all2all_backend": "nixl_ep"}, 256),
        ("0.20.2", {"all2all_backend": "pplx"}, 2048),
        ("0.20.2", {"enable_expert_parallel": False}, 2048),
        ("0.20.2", {"data_parallel_size": 1}, 2048),
    ],
)
def test_ranks_that_exchange_batches_have_small_ones(release: str, given: dict[str, Any], tokens: int) -> None:
    """Low latency kernels, whole experts and several ranks together make batches of 256 (0.20.2 arg_utils.py:2339)."""
    usual = {"all2all_backend": "deepep_low_latency", "enable_expert_parallel": True, "data_parallel_size": 2}
    assert settle(_DENSE, {**usual, **given}, release, **_3090).scheduler.batched_tokens == tokens


@pytest.mark.parametrize(
    ("gpu", "context", "tokens"),
    [
        ("NVIDIA H100 80GB HBM3", "serve", 8192),
        ("NVIDIA H200", "serve", 8192),
        ("NVIDIA A100-SXM4-80GB", "serve", 2048),
        ("NVIDIA H100 80GB HBM3", "llm", 16_384),
        ("NVIDIA A100-SXM4-80GB", "llm", 8192),
    ],
)
def test_an_early_batch_depends_on_the_gpus_name(gpu: str, context: str, tokens: int) -> None:
    """0.7.2 engine/arg_utils.py:1296; without a name it is unknown."""
    card = {"memory_gib": 79.0, "capability": (9, 0), "environment": _NEWER, "context": context}
    found = settle(_DENSE, {"max_model_len": 4096}, "0.7.2", gpu_name=gpu, **card)  # type: ignore[arg-type]
    assert (found.scheduler.batched_tokens, found.scheduler.sequences) == (tokens, 1024)
    unknown = settle(_DENSE, {"max_model_len": 4096}, "0.7.2", **card)  # type: ignore[arg-type]
    assert unknown.scheduler.batched_tokens == 0
    assert "the GPU's name (max_num_batched_tokens depends on it)" in unknown.missing


_OLDER_MORE = [
    # model, release, options, tokens of a batch, requests, whether prompts are chunked (0.7.2
    # config.py:1521)
    ("dense", "0.7.2", {"max_model_len": 40_000, "enable_prompt_adapter": True}, 40_000, 256, False),
    ("dense", "0.7.2", {"max_model_len": 40_000, "task": "embed"}, 40_000, 256, False),
    ("dense", "0.7.2", {"max_model_len": 40_000, "enable_chunked_prefill": False}, 40_000, 256, False),
    ("dense", "0.7.2", {"max_model_len": 512, "enable_chunked_prefill": True}, 2048, 256, True),
    ("dense", "0.7.2", {"max_model_len": 40_000, "num_scheduler_steps": 1}, 2048, 256, True),
    ("dense", "0.7.2", {"max_model_len": 2049}, 2049, 256, False),
    ("pictures", "0.7.2", {"max_model_len": 40_000}, 40_000, 256, False),
    ("pictures", "0.7.2", {"max_model_len": 40_000, "language_model_only": True}, 2048, 256, True),
    ("dense", "0.7.2", {"max_model_len": 512, "max_num_batched_tokens": 700, "max_num_seqs": 9}, 700, 9, False),
    ("dense", "0.7.2", {"max_model_len": 16, "max_num_seqs": 4}, 2048, 4, False),
    ("dense", "0.9.2", {"max_model_len": 512, "max_num_seqs": 4}, 2048, 4, False),
    ("dense", "0.9.2", {"max_model_len": 511, "max_num_seqs": 4}, 2044, 4, False),
]


@pytest.mark.parametrize(("model", "release", "given", "tokens", "requests", "in_parts"), _OLDER_MORE)
def test_the_older_engine_chunks_prompts_only_without_conflicts(
    model: str, release: str, given: dict[str, Any], tokens: int, requests: int, *, in_parts: bool
) -> None:
    """Adapters, pooling, media and options keep a long prompt whole, and the batch fits it."""
    found = settle(_SHAPES[model], given, release, environment={"VLLM_USE_V1": "0"}, **_A100)
    assert (found.scheduler.batched_tokens, found.scheduler.sequences, found.scheduler.is_chunked) == (
        tokens,
        requests,
        in_parts,
    )


def test_the_older_engine_does_not_cut_a_prompt_that_is_drafted_for() -> None:
    """Speculation keeps it whole, too (0.7.2 engine/arg_utils.py:1113)."""
    given = {"max_model_len": 40_000, "speculative_model": "[ngram]", "num_speculative_tokens": 2}
    found = settle(_DENSE, given, "0.7.2", **_A100)
    assert (found.is_v0, found.scheduler.batched_tokens, found.scheduler.is_chunked) == (True, 40_000, False)


@pytest.mark.parametrize(
    ("requests", "graphs"), [(1, 1), (2, 2), (3, 3), (4, 3), (8, 4), (9, 5), (256, 35), (257, 36), (10_000, 1027)]
)
def test_the_older_engine_captures_up_to_the_size_for_all_requests(requests: int, graphs: int) -> None:
    """1, 2, 4 and every eighth to 8,192: 3 + 1,024 sizes (0.6.6 config.py:3163)."""
    assert _given({"max_num_seqs": requests}, "0.6.6").graphs.full == graphs


@in_one_test(
    ("most", "eighth", "sixteenth"),
    [
        (1, 1, 1), (2, 2, 2), (3, 2, 2), (4, 3, 3), (7, 3, 3), (8, 4, 4), (9, 4, 4), (247, 33, 33), (248, 34, 34),
        (255, 34, 34), (256, 35, 35), (264, 36, 35), (272, 37, 36), (512, 67, 51), (520, 68, 51),
    ],
)  # fmt: skip
def test_sizes_increase_by_eight_and_later_by_sixteen(most: int, eighth: int, sixteenth: int) -> None:
    """1, 2, 4, then every eighth; from 256 on every sixteenth since 0.11.1 (0.11.2 config/vllm.py:801)."""
    newer = _given({"max_num_seqs": 1, "max_cudagraph_capture_size": most})
    assert newer.graphs.piecewise == sixteenth
    older = _given({"cuda_graph_sizes": [most]}, "0.10.2")
    assert older.graphs.piecewise == (eighth if most >= 4 else 3)


@pytest.mark.parametrize(
    ("release", "pieces"), [("0.9.2", 67), ("0.10.2", 83), ("0.11.0", 81), ("0.11.2", 83), ("0.19.0", 83)]
)
def test_gpt_oss_has_more_sizes(release: str, pieces: int) -> None:
    """To 1,024, in 0.11.0 to 992: 3 + 31 + 49 sizes, or 47 (model_executor/models/config.py)."""
    told = replace(_DENSE, text_type="gpt_oss")
    assert _given({"max_num_seqs": 256}, release, told).graphs.piecewise == pieces
    assert _given({"max_num_seqs": 8}, release, told).graphs.piecewise == (67 if release == "0.9.2" else pieces)


_SIZES = [
    # release, options, piecewise and full graphs
    ("0.9.2", {"cuda_graph_sizes": [1, 2, 4]}, (3, 0)),
    ("0.19.0", {"compilation_config": {"max_cudagraph_capture_size": 64}}, (11, 11)),
    ("0.19.0", {"cudagraph_capture_sizes": [8, 512, 8192, 8193]}, (3, 1)),
    ("0.19.0", {"cudagraph_capture_sizes": [256, 257]}, (2, 1)),
    ("0.16.0", {"performance_mode": "interactivity"}, (51, 35)),
    ("0.17.1", {"performance_mode": "interactivity"}, (76, 60)),
    ("0.17.1", {"performance_mode": "interactivity", "max_cudagraph_capture_size": 16}, (16, 16)),
    ("0.17.1", {"performance_mode": "throughput"}, (51, 35)),
    ("0.19.0", {"max_num_batched_tokens": 100, "max_num_seqs": 64}, (15, 11)),
    ("0.20.2", {"max_num_batched_tokens": 100, "max_num_seqs": 64}, (16, 11)),
    ("0.30.0", {"max_num_seqs": 100}, (28, 15)),
    ("0.31.0", {"max_num_seqs": 100}, (29, 16)),
    ("0.31.0", {"max_num_seqs": 520}, (51, 51)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": 2}}, (0, 51)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": 1}}, (51, 0)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": 0}}, (0, 0)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": "CUDAGraphMode.FULL_DECODE_ONLY"}}, (0, 35)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": "full_and_piecewise"}}, (51, 35)),
    ("0.19.0", {"compilation_config": {"cudagraph_mode": "another"}}, (51, 0)),
    ("0.19.0", {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}}, (0, 35)),
    ("0.9.2", {"compilation_config": {"use_cudagraph": False}}, (0, 0)),
    ("0.9.2", {"compilation_config": {"full_cuda_graph": True}}, (0, 67)),
    ("0.9.2", {"compilation_config": {"full_cuda_graph": False}}, (67, 0)),
    ("0.19.0", {"optimization_level": "O0"}, (0, 0)),
    ("0.19.0", {"optimization_level": "o1"}, (51, 0)),
    ("0.19.0", {"optimization_level": 3}, (51, 35)),
    ("0.11.2", {"optimization_level": 0}, (51, 35)),
    ("0.19.0", {"optimization_level": 0, "compilation_config": {"mode": 3}}, (0, 0)),
    ("0.19.0", {"cpu_offload_gb": 4}, (51, 35)),
    ("0.19.0", {"enforce_eager": True, "enable_lora": True}, (0, 0)),
]


@in_one_test(("release", "given", "graphs"), _SIZES)
def test_graphs_follow_the_options(release: str, given: dict[str, Any], graphs: tuple[int, int]) -> None:
    """Sizes that are listed, a largest one, modes by number and by name, levels: on an H100 of 256 requests."""
    variables = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    found = _given({"max_num_seqs": 256, "max_model_len": 4096, **given}, release, environment=variables)
    assert (found.graphs.piecewise, found.graphs.full) == graphs


@pytest.mark.parametrize(
    ("release", "newer", "graphs"),
    [("0.28.0", "0", (17, 9)), ("0.28.0", "1", (18, 9)), ("0.29.0", "0", (19, 11)), ("0.29.0", "1", (22, 11))],
)
def test_sizes_of_drafted_steps_are_whole_requests(release: str, newer: str, graphs: tuple[int, int]) -> None:
    """Two drafted tokens make steps of three: 18 sizes to 2 x 20 x 3 = 120, each raised to a multiple of three.

    1 and 2 become 3, of 4, 8, 16, 24 … come 6, 9, 18, 24 …: 17, of them 9 to 60. Since 0.29 multiples of the requests
    are among them: 3, 6, 12 and 60 are new, 22 sizes in all, 19 multiples, 11 of them to 60. The newer runner raises
    the sizes of whole steps alone.
    """
    given = {"max_num_seqs": 20, "max_model_len": 4096, "speculative_config": _EAGLE3}
    found = _given(given, release, environment={"VLLM_USE_V2_MODEL_RUNNER": newer})
    assert (found.graphs.piecewise, found.graphs.full) == graphs


_MTP_LAUNCH: dict[str, Any] = {"max_num_seqs": 2, "speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}
_SHORT_CACHE: dict[str, Any] = {"kv_cache_dtype": "fp8"}


@pytest.mark.parametrize(
    ("model", "given", "card", "has_full"),
    [
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | _SHORT_CACHE, _3090, False),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | _SHORT_CACHE, _GB10, False),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | _SHORT_CACHE, _H100, True),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | _SHORT_CACHE, _B200, True),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH, _3090, True),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | {"attention_backend": "flashinfer"}, _3090, False),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | _SHORT_CACHE | {"attention_backend": "TRITON_ATTN"}, _3090, True),
        ("Qwen/Qwen3.6-27B-FP8", _MTP_LAUNCH | {"attention_config": {"backend": "FLASHINFER"}}, _3090, False),
        (
            "Qwen/Qwen3.6-27B-FP8",
            _MTP_LAUNCH | _SHORT_CACHE | {"attention_config": {"backend": "TRITON_ATTN"}},
            _3090,
            True,
        ),
        ("Qwen/Qwen3.6-27B-FP8", {"max_num_seqs": 2, **_SHORT_CACHE}, _3090, True),
        (_LLAMA, {"max_num_seqs": 2, "speculative_config": _EAGLE3, **_SHORT_CACHE}, _3090, True),
    ],
)
def test_flashinfer_decodes_drafts_without_full_graphs(
    model: str, given: dict[str, Any], card: dict[str, Any], *, has_full: bool
) -> None:
    """Its graphs are for one token of each request, except on Hopper and datacenter Blackwell GPUs.

    Layers with states and an 8-bit cache choose FlashInfer (v1/attention/backends/flashinfer.py, 0.27.1 :895-936).
    """
    found = _started(model, given, "0.27.1", card)
    assert (found.graphs.full > 0) is has_full
    assert found.graphs.piecewise > 0


@pytest.mark.parametrize(("release", "doubles"), [("0.22.1", False), ("0.24.0", True)])
def test_the_newer_runner_captures_adapters_separately_since_0_24(release: str, *, doubles: bool) -> None:
    """0.24.0 v1/worker/gpu/cudagraph_utils.py:183: a graph with adapters and one without."""
    plain, adapted = (
        _given({"max_num_seqs": 256, "enable_lora": on}, release, _SHAPES["qwen3"]) for on in (False, True)
    )
    assert plain.is_v2_runner
    assert adapted.graphs.piecewise == plain.graphs.piecewise * (2 if doubles else 1)
    assert adapted.graphs.full == plain.graphs.full * (2 if doubles else 1)


@in_one_test(
    ("release", "given", "is_compiled"),
    [
        ("0.6.6", {}, False),
        ("0.8.5", {}, True),
        ("0.8.5", {"cpu_offload_gb": 4}, True),
        ("0.19.0", {"enforce_eager": True}, False),
        ("0.19.0", {"compilation_config": {"mode": 0}}, False),
        ("0.19.0", {"compilation_config": {"mode": 1}}, False),
        ("0.19.0", {"compilation_config": {"mode": 2}}, False),
        ("0.19.0", {"compilation_config": {"mode": 3}}, True),
        ("0.19.0", {"compilation_config": {"mode": "VLLM_COMPILE"}}, True),
        ("0.10.2", {"compilation_config": {"level": 3}}, True),
        ("0.10.2", {"compilation_config": 3}, True),
        ("0.10.2", {"compilation_config": True}, True),
        ("0.19.0", {"optimization_level": 0}, False),
        ("0.19.0", {"optimization_level": 0, "compilation_config": {"mode": 3}}, True),
        ("0.11.2", {"optimization_level": 0}, True),
    ],
)
def test_a_model_is_compiled_by_default(release: str, given: dict[str, Any], *, is_compiled: bool) -> None:
    """Level 3 is the default; other levels, `--enforce-eager` and the older engine do not."""
    assert _given(given, release).graphs.is_compiled is is_compiled


def test_weights_on_the_host_kept_early_releases_from_compiling() -> None:
    """0.8 has no such rule any more (0.8.5 config.py:3916)."""
    found = [
        _given({"cpu_offload_gb": size, "max_model_len": 4096}, "0.7.2", environment=_NEWER).graphs.is_compiled
        for size in (0, 4)
    ]
    assert found == [True, False]


@pytest.mark.parametrize(
    ("card", "graphs", "is_missing"), [(_B200, (51, 35), False), (_A100, (51, 0), False), ({}, (11, 0), True)]
)
def test_full_graphs_of_latent_attention_need_a_supported_gpu(
    card: dict[str, Any], graphs: tuple[int, int], *, is_missing: bool
) -> None:
    """Before 0.22 only capabilities 9 and 10; an unknown GPU is named."""
    given = {"max_num_batched_tokens": 2048, "max_num_seqs": 256 if card else 32}
    found = settle(_SHAPES["latent"], given, "0.19.0", **card)
    assert (found.graphs.piecewise, found.graphs.full) == graphs
    assert ("compute capability of the GPU (CUDA graphs depend on it)" in found.missing) is is_missing


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("dense", {"tensor_parallel_size": 8, "decode_context_parallel_size": 1}, ""),
        ("dense", {"tensor_parallel_size": 16, "decode_context_parallel_size": 2}, ""),
        ("dense", {"tensor_parallel_size": 16, "decode_context_parallel_size": 4}, "16 / 8: at most 2"),
        ("dense", {"tensor_parallel_size": 8, "decode_context_parallel_size": 2}, "8 / 8: none"),
        ("latent", {"tensor_parallel_size": 8, "decode_context_parallel_size": 8}, ""),
        ("latent", {"tensor_parallel_size": 8, "decode_context_parallel_size": 3}, "must be divisible by dcp_size=3"),
    ],
)
def test_a_context_is_cut_by_as_many_as_heads_are_repeated(model: str, given: dict[str, Any], said: str) -> None:
    """Eight key-value heads on 16 ranks are there twice: the context is cut in two (0.11.2 config/model.py:1178)."""
    found = _given(given, "0.19.0", _SHAPES[model]).limits
    assert bool(found) == bool(said)
    assert said in " ".join(found)


@pytest.mark.parametrize(("decode", "is_refused"), [(1, False), (2, False), (4, False), (3, True), (8, True)])
def test_a_prompt_that_is_cut_has_its_context_cut_alike(decode: int, *, is_refused: bool) -> None:
    """With two shards of a prompt and two tensor ranks: 1, 2 or 4 (0.26.0 config/parallel.py:514)."""
    given = {"tensor_parallel_size": 2, "prefill_context_parallel_size": 2, "decode_context_parallel_size": decode}
    found = _given(given, "0.26.0", _SHAPES["latent"])
    assert bool(found.limits) is is_refused
    assert ("activation memory with --prefill-context-parallel-size" in found.missing) is not is_refused
    assert (found.cache.decode_shards, found.cache.prefill_shards) == (decode, 2)


@pytest.mark.parametrize(
    ("told", "parts", "limits"),
    [
        ("0,1", (0, 1), ()),
        ("1", (1,), ()),
        ("-1,2", None, ("VLLM_PP_LAYER_PARTITION=-1,2: a stage cannot have -1 layers; use at least 0",)),
        ("1;2", None, ("VLLM_PP_LAYER_PARTITION: vLLM fails with: Invalid partition string: 1;2",)),
        (
            "9" * 79 + ";;",
            None,
            (f"VLLM_PP_LAYER_PARTITION: vLLM fails with: Invalid partition string: {'9' * 79};",),
        ),
    ],
)
def test_layers_of_stages_are_read_as_vllm_reads_them(
    told: str, parts: tuple[int, ...] | None, limits: tuple[str, ...]
) -> None:
    """A list of integers (0.33.0 distributed/utils.py:217); an invalid one is cut to 80 letters."""
    size = len(parts or (0, 0))
    found = _given({"pipeline_parallel_size": size}, environment={"VLLM_PP_LAYER_PARTITION": told})
    assert (found.ranks.partition, found.limits) == (parts, limits)


@pytest.mark.parametrize(
    ("asked", "dtype", "size", "missing"),
    [
        (None, "bfloat16", 2, ()),
        (None, "float32", 4, ()),
        ("auto", "float32", 4, ()),
        ("bfloat16", "float32", 2, ()),
        ("torch.float32", "bfloat16", 4, ()),
        ("int8", "bfloat16", 2, ("the lora_dtype int8",)),
    ],
)
def test_adapters_have_the_models_dtype_or_their_own(
    asked: str | None, dtype: str, size: int, missing: tuple[str, ...]
) -> None:
    """`--lora-dtype auto` is the model's (config/lora.py)."""
    found = _given({"enable_lora": True, "lora_dtype": asked, "dtype": dtype})
    assert (found.lora.value_bytes, found.missing) == (size, missing)


def test_adapters_count_only_if_enabled() -> None:
    """Without --enable-lora every option of adapters is without effect."""
    given = {"max_loras": 3, "max_lora_rank": 64, "fully_sharded_loras": True, "enable_lora_bias": True}
    given["lora_extra_vocab_size"] = 128
    on, off = (_given({**given, "enable_lora": is_on}, "0.8.5") for is_on in (True, False))
    for found, wanted in ((on, (64, 3, 2, True, 128, True)), (off, (0, 0, 0, False, 0, False))):
        told = (found.lora.rank, found.lora.slots, found.lora.value_bytes)
        assert (*told, found.lora.is_sharded, found.lora.extra_words, found.lora.has_bias) == wanted
    usual = _given({"enable_lora": True}, "0.8.5")
    assert (usual.lora.rank, usual.lora.slots, usual.lora.extra_words) == (16, 1, 256)


def test_an_option_that_is_not_a_number_counts_as_absent() -> None:
    """True and strings are not numbers of ranks."""
    for value in (True, "2", None):
        assert _given({"tensor_parallel_size": value}).ranks.tensor == 1


@pytest.mark.parametrize(
    ("given", "release", "model", "mixes", "is_missing"),
    [
        ({"kv_transfer_config": {"a": 1}}, "0.22.1", "hybrid", True, True),
        ({"kv_transfer_config": {"a": 1}, "disable_hybrid_kv_cache_manager": False}, "0.22.1", "hybrid", True, False),
        ({"kv_transfer_config": {"a": 1}}, "0.22.1", "dense", True, False),
        ({"kv_transfer_config": {"a": 1}}, "0.19.0", "hybrid", False, False),
        ({"kv_transfer_config": {"a": 1}}, "0.8.5", "dense", True, False),
        ({"disable_hybrid_kv_cache_manager": True}, "0.22.1", "hybrid", False, False),
    ],
)
def test_a_connector_may_switch_mixed_groups_off(
    given: dict[str, Any], release: str, model: str, *, mixes: bool, is_missing: bool
) -> None:
    """Up to 0.21 any connector does, then some do: open only with groups of several kinds."""
    found = _given(given, release, _SHAPES[model])
    assert found.cache.mixes_groups is mixes
    assert ("whether the KV connector supports several KV cache groups" in found.missing) is is_missing


def test_prefix_caching_is_as_requested() -> None:
    """Without the option the release decides."""
    found = [
        _given({} if on is None else {"enable_prefix_caching": on}).cache.caches_prefixes for on in (None, True, False)
    ]
    assert found == [None, True, False]


def test_options_without_a_value_have_the_releases_default() -> None:
    """The settings of a launch without options."""
    found = _given({})
    assert (found.cache.size, found.cache.blocks_override, found.cpu_offload_bytes) == (None, None, 0)
    assert (found.quantization, found.cache.block_tokens, found.media.items, found.media.item_sizes) == (
        None,
        None,
        None,
        {},
    )
    assert (found.media.skips_profile, found.media.language_only, found.ranks.encoder_data) == (False, False, False)
    assert (found.cache.decode_shards, found.cache.prefill_shards, found.graphs.is_eager) == (1, 1, False)
    assert (found.speculation.tokens, found.speculation.layers, found.speculation.model, found.speculation.method) == (
        0,
        0,
        None,
        "",
    )


_SPECULATED = [
    # model's own layers, release, options, then tokens, layers, draft model, and missing facts
    (1, "0.19.0", {"method": "mtp", "num_speculative_tokens": 3}, (3, 1, None), ()),
    (2, "0.19.0", {"method": "mtp", "model": "head", "num_speculative_tokens": 3}, (3, 2, None), ()),
    (0, "0.19.0", {"method": "suffix"}, (24, 0, None), ()),
    (0, "0.19.0", {"method": "suffix", "suffix_decoding_max_tree_depth": 9}, (9, 0, None), ()),
    (0, "0.19.0", {"method": "suffix", "num_speculative_tokens": 5}, (5, 0, None), ()),
    (0, "0.19.0", {"method": "ngram", "model": "ngram", "num_speculative_tokens": 5}, (5, 0, None), ()),
    (0, "0.19.0", {"method": "ngram", "num_speculative_tokens": "5"}, (5, 0, None), ()),
]


@pytest.mark.parametrize(("layers", "release", "told", "expected", "missing"), _SPECULATED)
def test_the_method_sets_the_number_of_drafted_tokens(
    layers: int, release: str, told: dict[str, Any], expected: tuple[int, int, str | None], missing: tuple[str, ...]
) -> None:
    """`suffix` has 24 by default (0.33.0 config/speculative.py:1735); others their own layers."""
    model = replace(_DENSE, mtp=(Layer(_FULL, None),) * layers)
    found = _given({"speculative_config": told}, release, model)
    assert (found.speculation.tokens, found.speculation.layers, found.speculation.model) == expected
    assert found.missing == missing


def test_stages_of_many_layers_add_up() -> None:
    """A sum is compared as a number: 200 and 200 are 400 layers, and not 401."""
    ranks = Ranks(pipeline=2, partition=(200, 200))
    assert mismatch(ranks, 400) is None
    assert "sum(partitions)=400 does not match num_hidden_layers=401." in (mismatch(ranks, 401) or "")
    assert mismatch(Ranks(pipeline=300, partition=(1,) * 300), 300) is None
    assert mismatch(Ranks(pipeline=2), 1) is None


@pytest.mark.parametrize(
    ("layers", "told", "missing"),
    [
        (0, {"method": "mtp"}, ("num_speculative_tokens", "MTP layers")),
        (0, {"method": "mtp", "num_speculative_tokens": 1}, ("MTP layers",)),
        (0, {"method": "mtp", "model": "head", "num_speculative_tokens": 1}, ("the draft model head",)),
        (1, {"method": "mtp"}, ()),
    ],
)
def test_missing_layers_are_named(layers: int, told: dict[str, Any], missing: tuple[str, ...]) -> None:
    """For a model of an unknown class without its own layers, tokens and method are open."""
    model = replace(_DENSE, architecture=None, mtp=(Layer(_FULL, None),) * layers)
    found = _given({"speculative_config": told}, "0.19.0", model)
    assert len(found.missing) == len(missing)
    assert all(part in said for part, said in zip(missing, found.missing, strict=True))


@pytest.mark.parametrize(
    ("release", "told", "layers"),
    [
        ("0.9.2", {"num_speculative_tokens": 1}, 1),
        ("0.9.2", {"method": "ngram", "num_speculative_tokens": 1}, 0),
        ("0.11.0", {"num_speculative_tokens": 1}, 0),
    ],
)
def test_deepseek_drafted_for_itself_with_only_a_number(release: str, told: dict[str, Any], layers: int) -> None:
    """0.10.2 config/__init__.py:2047; a given method takes precedence."""
    model = replace(_SHAPES["latent"], text_type="deepseek_v3", mtp=(Layer(_MLA, None),))
    assert _given({"speculative_config": told}, release, model).speculation.layers == layers


def test_a_listed_model_with_states_uses_the_older_runner_in_0_25() -> None:
    """The newer one runs listed and dense models without states (0.25.1 config/vllm.py:557)."""
    kinds = ("dense", "experts", "listed", "hybrid")
    found = [_given({}, "0.25.1", _SHAPES[kind]).is_v2_runner for kind in kinds]
    assert found == [True, False, True, False]
    stateful = replace(_SHAPES["hybrid"], architecture="DeepseekV2ForCausalLM")
    assert not _given({}, "0.25.1", stateful).is_v2_runner


def test_items_that_are_not_named_have_the_usual_count() -> None:
    """999 of pictures and videos that a model reads (0.33.0 config/multimodal.py:215), one in the older engine."""
    told = shape(_catalog()["Qwen/Qwen2.5-VL-7B-Instruct"])
    found = _given({"limit_mm_per_prompt": {"audio": 3}}, "0.19.0", told)
    assert found.media.items == {"image": 999, "video": 999, "audio": 3}
    older = _given({"limit_mm_per_prompt": {"video": 2}}, "0.7.2", told)
    assert (older.is_v0, older.media.items) == (True, {"image": 1, "video": 2})
    still = shape(_catalog()["google/gemma-3-4b-it"])
    assert _given({"limit_mm_per_prompt": {"audio": 0}}, "0.19.0", still).media.items == {"image": 999, "audio": 0}
    assert _given({"limit_mm_per_prompt": {"image": 0}}, "0.19.0").media.items == {"image": 0}


def test_sizes_of_items_are_the_given_ones() -> None:
    """A modality without sizes has none, and a count is not a size."""
    given = {"limit_mm_per_prompt": {"image": {"count": 2, "width": 512, "height": 256}, "video": {"count": 1}}}
    found = _given(given, "0.19.0", shape(_catalog()["Qwen/Qwen2.5-VL-7B-Instruct"]))
    assert found.media.item_sizes == {"image": {"width": 512, "height": 256}}
