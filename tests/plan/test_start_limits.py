"""Launches that a release rejects: GPUs, splits, variables, and options of another type."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan.records import Layouts, Plan
from vllm_runbooks.plan.render import words as plan_words

QWEN = "Qwen/Qwen2.5-7B-Instruct"
"""28 layers, 28 heads, 4 key-value heads."""


def plan(name: str, gpus: str, vllm: str, **more: Any) -> Plan:
    return planner.plan_model(name, gpus, vllm=vllm, is_calibrated=False, **more)


def layouts(name: str, gpus: str, vllm: str, **more: Any) -> Layouts:
    return planner.plan_layouts(name, gpus, vllm=vllm, is_calibrated=False, **more)


# ---- GPUs


@pytest.mark.parametrize(
    ("gpu", "release", "least"),
    [
        # CMakeLists.txt, CUDA_SUPPORTED_ARCHS: 7.0 and more; wheels of CUDA 13 from 0.20 on, whose compiler begins at
        # 7.5 (https://github.com/vllm-project/vllm/pull/39878).
        ("P100", "0.6.6", "7.0"),
        ("P40", "0.16.0", "7.0"),
        ("V100-32GB", "0.19.1", None),
        ("V100-32GB", "0.20.2", "7.5"),
        ("T4", "0.33.0", None),
    ],
)
def test_gpus_without_kernels_are_rejected(gpu: str, release: str, least: str | None) -> None:
    """A GPU below a release's minimum compute capability fits no model, with this reason."""
    one = plan("Qwen/Qwen2.5-1.5B-Instruct", gpu, release, tp=1, options={"max_model_len": 2048})
    every = layouts("Qwen/Qwen2.5-1.5B-Instruct", gpu, release, options={"max_model_len": 2048})

    assert (one.fits, every.fits) == ((False, False) if least else (True, True))
    assert any(f"no kernels for GPUs below {least} (" in said for said in one.limits) == (least is not None)


def test_the_fewest_gpus_are_not_searched_if_none_can_work() -> None:
    """An unsupported GPU has no number; the smallest GPU is a supported one."""
    found = planner.find_plan("Qwen/Qwen2.5-1.5B-Instruct", "P100", "gpus", vllm="0.16.0", is_calibrated=False).found

    assert found is not None
    assert found.value is None
    assert "compute capability 6.0" in found.reasons[0]
    assert not any("GPU: P100" in said or "GPU: P40" in said for said in found.reasons)


# ---- splits

DEEPSEEK = "deepseek-ai/DeepSeek-V2-Lite"
PREFILL = {"prefill_context_parallel_size": 2, "max_model_len": 4096}


def test_gpus_of_a_prefill_context_group_count() -> None:
    """world_size = pipeline x tensor x prefill context (0.33.0 config/parallel.py:964), times the copies."""
    one = plan(DEEPSEEK, "4xH100-80GB", "0.33.0", tp=2, options=PREFILL)

    assert [card.rank for card in one.per_gpu] == [0, 1, 2, 3]
    assert one.deployment is not None
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3" in one.deployment.command
    with pytest.raises(InputError, match=r"needs 4 GPUs \(tensor x pipeline x data parallel x prefill context"):
        plan(DEEPSEEK, "2xH100-80GB", "0.33.0", tp=2, options=PREFILL)


def test_layouts_count_gpus_as_plans_do() -> None:
    """Each layout of eight GPUs uses eight or reports idle ones, and none is rejected by a plan."""
    for one in layouts(DEEPSEEK, "8xH100-80GB", "0.33.0", options=PREFILL).layouts:
        assert one.layout is not None
        taken = one.layout.replicas * one.layout.tp * one.layout.pp * one.layout.dp * 2
        assert taken == 8 or f"{8 - taken} of 8 GPUs stay idle" in " ".join(one.reasons)
        if one.legal:
            assert len(one.per_gpu) == taken // one.layout.replicas
    # Pairs never use all of three GPUs.
    of_three = layouts(DEEPSEEK, "3xH100-80GB", "0.33.0", options=PREFILL).layouts
    assert any("1 of 3 GPUs stay idle" in one.reasons for one in of_three)


def test_experts_are_distributed_over_the_prefill_context_group() -> None:
    """They are cut by tensor x data x prefill ranks (0.16.0 fused_moe/config.py:932); other weights are repeated."""
    weights: list[float] = []
    for options in ({"max_model_len": 4096}, PREFILL):
        cards = plan(DEEPSEEK, "2xH100-80GB", "0.33.0", tp=1, options=options).per_gpu
        weights.append(next(term.expected_gib or 0.0 for term in cards[0].terms if term.name == "weights"))

    # 26 of 27 layers, 64 experts, three 2048 x 1408 matrices in 16 bits: half is on the other GPU.
    assert weights[0] - weights[1] == pytest.approx(26 * 64 * 3 * 2048 * 1408 * 2 / 2 / 2**30, rel=0.01)


@pytest.mark.parametrize(
    ("name", "release", "sizes", "says"),
    [
        # To 0.25 no attention supports it (v1/worker/cp_utils.py).
        (QWEN, "0.25.1", {"prefill_context_parallel_size": 2}, "does not support any model with"),
        # 0.26.0 v1/attention/backend.py:1000.
        (QWEN, "0.33.0", {"prefill_context_parallel_size": 2}, "does not support a model without latent attention"),
        # 0.26.0 config/parallel.py:514.
        (
            DEEPSEEK,
            "0.33.0",
            {"prefill_context_parallel_size": 2, "decode_context_parallel_size": 3},
            "it must be 1, 2 or 4",
        ),
        # 0.16.0 config/parallel.py:352.
        (DEEPSEEK, "0.16.0", {"decode_context_parallel_size": 4}, "tp_size=2 must be divisible by dcp_size=4"),
        # 0.11.2 config/model.py:1178: four key-value heads on two ranks are not repeated.
        (QWEN, "0.16.0", {"decode_context_parallel_size": 2}, "2 / 4: none"),
    ],
)
def test_invalid_context_shards_are_rejected(name: str, release: str, sizes: dict[str, int], says: str) -> None:
    """The launch would end, so nothing fits, and the limit says why."""
    one = plan(name, "4xH100-80GB", release, tp=2, options={"max_model_len": 4096, **sizes})

    assert one.fits is False
    assert any(says in said for said in one.limits)


def test_conflicting_options_are_rejected_in_one_line() -> None:
    """Conflicts that precede the layout have the release's message, not the command's."""
    with pytest.raises(InputError, match=r"vLLM 0\.16\.0 rejects this: tp_size=… must be divisible by"):
        plan(DEEPSEEK, "4xH100-80GB", "0.16.0", arguments=("-tp", "2", "--decode-context-parallel-size", "4"))


@pytest.mark.parametrize("told", ["14,x", "", "14;14"])
def test_unreadable_stages_are_rejected(told: str) -> None:
    """The launch ends with ValueError (0.16.0 distributed/utils.py:116), so the variable counts."""
    with pytest.raises(InputError, match=f"Invalid partition string: {told}"):
        plan(QWEN, "2xA100-80GB", "0.16.0", pp=2, environment={"VLLM_PP_LAYER_PARTITION": told})


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("14,13", "sum(partitions)=27 does not match num_hidden_layers=28."),
        ("10,10,8", "len(partitions)=3 does not match pp_size=2."),
    ],
)
def test_stages_that_do_not_add_up_do_not_fit(told: str, says: str) -> None:
    """In the release's own words (0.16.0 distributed/utils.py:118-121)."""
    one = plan(QWEN, "2xA100-80GB", "0.16.0", pp=2, environment={"VLLM_PP_LAYER_PARTITION": told})

    assert one.fits is False
    assert one.limits[0].endswith(says)
    assert len(one.limits) == len(set(one.limits))


def test_only_the_layout_selects_gpus() -> None:
    """A deployment sets CUDA_VISIBLE_DEVICES per server, so your own value is rejected."""
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES: follows from the GPUs and the layout"):
        plan(QWEN, "2xA100-80GB", "0.16.0", tp=2, environment={"CUDA_VISIBLE_DEVICES": "2,3"})


# ---- options as values


@pytest.mark.parametrize(
    ("release", "options", "says"),
    [
        ("0.16.0", {"max_model_len": "8192"}, "max_model_len: must be an integer, also as 8k or 8K, or auto; got str"),
        (
            "0.16.0",
            {"max_model_len": 8192.0},
            "max_model_len: must be an integer, also as 8k or 8K, or auto; got float",
        ),
        ("0.16.0", {"max_num_seqs": True}, "max_num_seqs: must be an integer; got bool"),
        ("0.16.0", {"gpu_memory_utilization": "0.9"}, "gpu_memory_utilization: must be a number; got str"),
        ("0.16.0", {"enforce_eager": "yes"}, "enforce_eager: must be True or False; got str"),
        ("0.7.2", {"enable_chunked_prefill": "true"}, "enable_chunked_prefill: must be True or False"),
        ("0.16.0", {"kv_cache_dtype": 8}, "kv_cache_dtype: must be a text; got int"),
        ("0.16.0", {"cudagraph_capture_sizes": [1, "2"]}, "cudagraph_capture_sizes: must be a list, each an integer"),
        ("0.16.0", {"compilation_config": [3]}, "compilation_config: must be JSON; got list"),
        ("0.7.2", {"limit_mm_per_prompt": "image=1"}, "limit_mm_per_prompt: must be"),
        ("0.16.0", {"dtype": "bf17"}, "--dtype does not accept bf17 in vLLM 0.16.0"),
        ("0.16.0", {"maxmodellen": 1}, "maxmodellen: is not an option of vLLM 0.16.0; did you mean max_model_len?"),
        ("0.16.0", {"compilation_config": {"levl": 3}}, "--compilation-config has no key levl"),
    ],
)
def test_options_of_another_type_are_rejected(release: str, options: dict[str, Any], says: str) -> None:
    """In one line with the option and the type in this release."""
    with pytest.raises(InputError) as refused:
        plan(QWEN, "A100-80GB", release, tp=1, options=options)

    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("release", "options", "shown"),
    [
        ("0.16.0", {"max_model_len": "auto"}, "--max-model-len -1"),
        ("0.16.0", {"max_model_len": None, "max_num_seqs": 8}, "--max-num-seqs 8"),
        ("0.8.5", {"compilation_config": 3}, "--compilation-config 3"),
        ("0.16.0", {"cudagraph_capture_sizes": [1, 2]}, "--cudagraph-capture-sizes 1 2"),
        ("0.16.0", {"enable_prefix_caching": False}, "--no-enable-prefix-caching"),
        ("0.7.2", {"enable_chunked_prefill": True}, "--enable-chunked-prefill"),
        ("0.7.2", {"enforce_eager": False, "seed": 1}, "--seed 1"),
        ("0.16.0", {"hf_overrides": {"rope_theta": 1.0}}, """--hf-overrides '{"rope_theta": 1.0}'"""),
        ("0.16.0", {"lora_modules": ["a=/b"], "enable_lora": True}, "--lora-modules"),
    ],
)
def test_options_of_the_right_type_are_accepted(release: str, options: dict[str, Any], shown: str) -> None:
    """As a word of the command would be."""
    one = plan(QWEN, "A100-80GB", release, tp=1, options=options)

    assert one.deployment is not None
    assert shown in one.deployment.command


def test_unsupported_gpus_are_reported_before_an_unsupported_dtype() -> None:
    """A P100 cannot run vLLM at all, so half precision is no advice."""
    found = planner.plan_model("meta-llama/Llama-3.1-8B-Instruct", "P100", vllm="0.8.5", tp=1)

    assert found.fits is False
    assert "have no kernels for GPUs below 7.0" in found.limits[0]
    assert not any("set --dtype half" in said for said in found.limits)


def test_an_uncertain_plan_names_the_unknown_fact() -> None:
    """A range without the unknown part is not a range."""
    words = {"model": "/nope", "method": "draft_model", "num_speculative_tokens": 5}
    found = planner.plan_model(
        "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB", vllm="0.33.0", options={"speculative_config": words}
    )

    assert found.fits is None
    assert str(plan_words.headline(found)).startswith("uncertain: cannot calculate the draft model (/nope: it is")
    assert found.kv_cache.gib is None


def test_a_cache_without_memory_is_planned_as_zero() -> None:
    """Never negative, even if its layout is unknown: how 0.6.6 stores DeepSeek's latent."""
    cache = plan("deepseek-ai/DeepSeek-R1", "8xA100-40GB", "0.6.6", tp=8).kv_cache

    assert (cache.low, cache.gib, cache.high, cache.tokens) == (0, 0, 0, None)


def test_many_rejected_layouts_are_counted() -> None:
    """Only the first ones that no release accepts are named."""
    found = planner.find_plan("meta-llama/Meta-Llama-3.1-405B", "T4", "gpus", vllm="0.11.0")

    assert found.found is not None
    assert found.found.reasons[0] == "more than 64 GPUs"
    assert len(found.found.reasons) <= 5
    assert found.found.reasons[-1].endswith("more reasons against other layouts")


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V4-Flash"])
def test_sparse_attention_needs_a_gpu_with_a_backend(model: str) -> None:
    """No sparse backend of vLLM takes an A100; a Hopper GPU runs the same model."""
    refused = planner.plan_model(model, "16xA100-80GB", vllm="0.33.0", tp=8)

    assert refused.fits is False
    assert refused.limits[0] == (
        "vLLM 0.33.0 has no sparse attention backend for A100-80GB (compute capability 8.0): "
        "the model needs at least 9.0"
    )
    assert planner.plan_model(model, "8xH200", vllm="0.33.0", tp=8).fits is True


def test_a_fitted_length_is_the_context_of_the_answer() -> None:
    """`--max-model-len auto` serves the longest context that fits, so at least one request of it runs."""
    found = planner.plan_model("Qwen/Qwen3-8B", "RTX3090", vllm="0.33.0", options={"max_model_len": -1})

    assert plan_words.option(found, "max_model_len") == found.kv_cache.longest_context
    assert found.kv_cache.max_concurrency == pytest.approx(1.0, abs=0.01)


def test_a_cache_is_not_larger_than_its_gpu() -> None:
    """A negative estimate of CUDA graphs, as GB10 prints with drafts, leaves at most the memory next to the weights.

    The estimate of a launch without drafts is not negative.
    """
    draft = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    piecewise = {"cudagraph_mode": "PIECEWISE"}
    options = {"compilation_config": piecewise, "speculative_config": draft}
    found = planner.plan_model("Qwen/Qwen3-8B", "GB10", vllm="0.27.1", options=options)
    plain = planner.plan_model("Qwen/Qwen3-8B", "GB10", vllm="0.27.1", options={"compilation_config": piecewise})
    assert min(term.low_gib or 0 for term in plain.per_gpu[0].terms) >= 0
    weights = next(term for term in found.per_gpu[0].terms if term.name == "weights")

    assert found.kv_cache.high is not None
    assert found.kv_cache.high + (weights.low_gib or 0) <= 122
    assert min(term.low_gib or 0 for term in found.per_gpu[0].terms) < 0


def test_an_encoder_decoder_model_reads_an_audio_at_once() -> None:
    """A batch below the encoder's 1,500 positions is rejected at startup; a larger one is not."""
    small = planner.plan_model("openai/whisper-large-v3", "L4", vllm="0.32.0", options={"max_num_batched_tokens": 512})
    large = planner.plan_model("openai/whisper-large-v3", "L4", vllm="0.32.0", options={"max_num_batched_tokens": 2048})

    assert small.limits[0].startswith("max_num_batched_tokens 512 is smaller than the 1,500 tokens of one audio")
    assert (small.fits, large.fits) == (False, True)


@pytest.mark.parametrize(
    ("model", "release", "quantization", "fits"),
    [
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "0.20.2", None, False),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "0.20.2", None, True),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "0.18.1", None, False),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "0.32.0", "gptq_marlin", True),
    ],
)
def test_rocm_accepts_the_checkpoint_that_is_loaded(
    model: str, release: str, quantization: str | None, *, fits: bool
) -> None:
    """ModelOpt's algorithm and a kernel's checkpoint decide, as vLLM replaces the names before it looks at its list."""
    options = {"quantization": quantization} if quantization else {}

    assert planner.plan_model(model, "8xMI300X", vllm=release, tp=4, options=options).fits is fits


@pytest.mark.parametrize(
    ("model", "options", "limit"),
    [
        # Gemma 2 does not run in float16, so on a T4 it runs in float32.
        ("ModelCloud/gemma-2-9b-gptq-4bit", {}, "no quantization gptq for float32, which this launch uses: T4 cannot"),
        ("ModelCloud/gemma-2-9b-gptq-4bit", {"dtype": "bfloat16"}, "T4 does not support bfloat16, which this launch"),
        ("google/gemma-2-9b", {"quantization": "fp8"}, "no quantization fp8 for float32, which this launch uses: T4"),
        ("google/gemma-2-2b", {"dtype": "bfloat16"}, "does not support bfloat16, which this launch uses; set --d"),
        ("Qwen/Qwen3-8B-AWQ", {"dtype": "float32"}, "no quantization awq for float32, which this launch uses; set --d"),
        ("Qwen/Qwen3-8B-AWQ", {}, None),
    ],
)
def test_a_quantization_needs_its_dtypes(model: str, options: dict[str, Any], limit: str | None) -> None:
    """A launch in float32 is rejected if its quantization has none, and float32 is advised only if it has."""
    one = plan(model, "T4", "0.33.0", tp=1, options={**options, "max_model_len": 4096})

    assert one.fits is (limit is None)
    found = [said for said in one.limits if limit is not None and limit in said]
    assert len(found) == (limit is not None)
    assert all(("set --dtype" in said) is ("set --d" in str(limit)) for said in found)


def test_no_quantized_checkpoint_is_a_change_of_a_launch_in_float32() -> None:
    """The kernels for quantized weights compute in 16 bits."""
    request = planner.request("google/gemma-2-9b", "T4", vllm="0.33.0", is_calibrated=False)

    assert [remedy.checkpoint for remedy in planner.remedies(request, planner.layouts(request))] == [""]
