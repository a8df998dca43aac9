"""What releases make of --speculative-config and --limit-mm-per-prompt, and of options that contradict others.

What is refused was tried with vLLM 0.32.0, 0.16.0, 0.11.0 and 0.8.5 on a CPU (SpeculativeConfig, MultiModalConfig).
"""

from __future__ import annotations

from typing import Any

import pytest

from vllm_runbooks import plan_records, planner
from vllm_runbooks.errors import InputError

_LLAMA, _DEEPSEEK = "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3"
_PICTURES, _STILL = "Qwen/Qwen2.5-VL-7B-Instruct", "google/gemma-3-4b-it"
_NGRAM = {"method": "ngram", "num_speculative_tokens": 2}


def _plan(model: str, release: str, **options: Any) -> plan_records.Plan:
    sizes = {"tp": 8} if model == _DEEPSEEK else {"tp": 1}
    gpus = "8xH200" if model == _DEEPSEEK else "A100-80GB"
    return planner.plan_model(
        model, gpus, vllm=release, options={"max_model_len": 8192, **options}, is_calibrated=False, **sizes
    )


def _refusal(model: str, release: str, **options: Any) -> str:
    """What ends the start; "" where nothing does."""
    found = _plan(model, release, **options)
    assert (found.fits is False) == bool(found.limits)
    return " | ".join(found.limits)


def test_short_options_of_speculation_mean_what_the_long_one_does() -> None:
    """Each gives one key of --speculative-config (0.33.0 engine/arg_utils.py:2109)."""
    short = _plan(_LLAMA, "0.33.0", spec_method="ngram", spec_tokens=3)
    long = _plan(_LLAMA, "0.33.0", speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    plain = _plan(_LLAMA, "0.33.0")
    assert short.per_gpu == long.per_gpu != plain.per_gpu


def test_a_draft_model_of_the_short_option_is_found() -> None:
    """Its memory is that of the same model in --speculative-config."""
    name = "meta-llama/Llama-3.2-1B-Instruct"
    short = _plan(_LLAMA, "0.22.1", spec_model=name, spec_method="draft_model", spec_tokens=3)
    told = {"model": name, "method": "draft_model", "num_speculative_tokens": 3}
    assert short.per_gpu == _plan(_LLAMA, "0.22.1", speculative_config=told).per_gpu
    assert short.fits is True


def test_a_key_that_is_given_twice_is_refused() -> None:
    """0.33.0 engine/arg_utils.py:2119."""
    said = _refusal(_LLAMA, "0.33.0", spec_method="ngram", speculative_config=_NGRAM)
    assert said.startswith("--spec-method and --speculative-config['method'] are mutually exclusive")


_REFUSED: list[tuple[str, Any, str]] = [
    ("0.33.0", {"method": "ngram", "num_speculative_tokens": 0}, "num_speculative_tokens 0 must be an integer > 0"),
    ("0.11.0", {"method": "ngram", "num_speculative_tokens": -3}, "num_speculative_tokens -3 must be above 0"),
    ("0.33.0", {"method": "ngram", "num_speculative_tokens": "many"}, "num_speculative_tokens many must be an integer"),
    ("0.8.5", {"method": "ngram", "num_speculative_tokens": "4"}, "num_speculative_tokens 4 must be an integer"),
    ("0.33.0", {"method": "ngram", "num_speculative_tokens": "4"}, ""),
    ("0.33.0", {"method": "ngram"}, "num_speculative_tokens must be provided"),
    ("0.33.0", {"method": "mtp"}, "num_speculative_tokens must be provided"),
    ("0.33.0", {}, "num_speculative_tokens must be provided"),
    ("0.33.0", {"num_speculative_tokens": 2}, "num_speculative_tokens was provided but without speculative model"),
    ("0.8.5", {"num_speculative_tokens": 2}, "num_speculative_tokens was provided but without speculative model"),
    ("0.33.0", {"method": "eagle", "num_speculative_tokens": 2}, "without speculative model"),
    ("0.33.0", {**_NGRAM, "prompt_lookup_min": 5, "prompt_lookup_max": 2}, "prompt_lookup_min=5 must be <= "),
    ("0.11.0", {**_NGRAM, "prompt_lookup_max": 0}, "prompt_lookup_max=0 must be > 0"),
    ("0.33.0", {**_NGRAM, "prompt_lookup_min": 2, "prompt_lookup_max": 5}, ""),
    ("0.33.0", {"method": "egale", "num_speculative_tokens": 2}, "there is no method egale; did you mean eagle?"),
    ("0.17.1", {"method": "ngram_gpu", "num_speculative_tokens": 2}, "there is no method ngram_gpu"),
    ("0.18.1", {"method": "ngram_gpu", "num_speculative_tokens": 2}, ""),
    ("0.33.0", {**_NGRAM, "zork": 1}, "there is no key zork"),
    ("0.16.0", {**_NGRAM, "zork": 1}, "there is no key zork"),
    ("0.11.0", {**_NGRAM, "zork": 1}, ""),
    ("0.8.5", {**_NGRAM, "zork": 1}, "there is no key zork"),
    ("0.33.0", {"method": "ngram", "num-speculative-tokens": 2}, ""),
    ("0.22.1", {"method": "ngram", "num-speculative-tokens": 2}, "there is no key num-speculative-tokens"),
    ("0.33.0", 3, "--speculative-config 3 is no object"),
    ("0.8.5", [], "--speculative-config [] is no object"),
]


@pytest.mark.parametrize(("release", "told", "said"), _REFUSED)
def test_speculation_is_refused_as_the_release_refuses_it(release: str, told: Any, said: str) -> None:
    """One line says what its class raises; what it converts or drops is taken."""
    found = _refusal(_LLAMA, release, speculative_config=told)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    ("release", "refuses"), [("0.8.5", False), ("0.10.2", False), ("0.11.0", True), ("0.33.0", True)]
)
def test_a_number_of_tokens_alone_drafts_with_deepseek_before_0_11(release: str, *, refuses: bool) -> None:
    """The model drafted for itself (0.10.2 config/__init__.py:2047), then a method must say so (0.11.0 :218)."""
    told = _plan(_DEEPSEEK, release, speculative_config={"num_speculative_tokens": 1})
    assert any("without speculative model" in limit for limit in told.limits) == refuses
    if not refuses:
        weights, plain = (found.per_gpu[0].terms[0].expected_gib for found in (told, _plan(_DEEPSEEK, release)))
        assert (weights or 0) > (plain or 0) > 0


@pytest.mark.parametrize("model", [_LLAMA, "Qwen/Qwen3-8B"])
@pytest.mark.parametrize("release", ["0.11.0", "0.19.0", "0.33.0"])
def test_a_model_without_mtp_layers_cannot_draft_by_them(model: str, release: str) -> None:
    """NotImplementedError where no kind of MTP is found (0.11.2 config/speculative.py:390, 0.19.0 :530)."""
    said = _refusal(model, release, speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    assert "has no MTP layers to draft with" in said


def test_a_model_drafts_by_its_layers_since_the_release_that_reads_them() -> None:
    """GLM-4.5's are read from 0.10.2 on (config/__init__.py, `hf_config_override`); DeepSeek-V3's always."""
    told = {"method": "deepseek_mtp", "num_speculative_tokens": 1}
    assert not any("MTP" in limit for limit in _plan(_DEEPSEEK, "0.9.2", speculative_config=told).limits)
    assert "does not draft by the MTP layers" in _refusal("zai-org/GLM-4.5-Air", "0.9.2", speculative_config=told)


_LIMITS: list[tuple[str, Any, str]] = [
    ("0.33.0", {"image": {"count": 1, "width": -5, "height": 512}}, "image: width -5 must be an integer > 0"),
    ("0.33.0", {"image": {"width": "wide"}}, "image: width wide must be an integer"),
    ("0.33.0", {"image": {"depth": 3}}, "image: there is no key depth"),
    ("0.33.0", {"image": {"count": -1}}, "image: count -1 must be an integer >= 0"),
    ("0.33.0", {"image": -1}, "image: count -1 must be an integer >= 0"),
    ("0.33.0", {"image": 1.5}, "image: 1.5 must be an integer or an object"),
    ("0.33.0", {"image": None}, "image: null must be an integer or an object"),
    ("0.33.0", {"image": {"width": "512"}, "other": {"depth": 3}}, ""),
    ("0.11.0", {"image": {"count": 1}}, 'image: {"count": 1} must be an integer'),
    ("0.11.0", {"image": 1.5}, "image: 1.5 must be an integer"),
    ("0.33.0", 3, "--limit-mm-per-prompt 3 is no object"),
]


@pytest.mark.parametrize(("release", "told", "said"), _LIMITS)
def test_limits_are_refused_as_the_release_refuses_them(release: str, told: Any, said: str) -> None:
    """One line says what the class of a modality raises (0.33.0 config/multimodal.py:212, 0.11.0 integers alone)."""
    found = _refusal(_PICTURES, release, limit_mm_per_prompt=told)
    assert said in found
    assert bool(said) == bool(found)


def test_a_model_of_text_alone_judges_no_limits() -> None:
    """Their class is made for multimodal models alone (0.33.0 config/model.py)."""
    assert _refusal(_LLAMA, "0.33.0", limit_mm_per_prompt={"image": None}) == ""


@pytest.mark.parametrize(
    ("model", "told", "is_loaded"),
    [
        (_PICTURES, {"image": {"width": 512, "height": 512}, "video": 0}, True),
        (_PICTURES, {"video": 0}, True),
        (_PICTURES, {"image": 0}, True),
        (_PICTURES, {"image": 0, "video": 0}, False),
        (_STILL, {"image": 0}, False),
        (_STILL, {"video": 0}, True),
    ],
)
def test_a_tower_is_left_out_where_all_it_reads_is_limited_to_none(
    model: str, told: dict[str, Any], *, is_loaded: bool
) -> None:
    """Others have 999 (0.33.0 config/multimodal.py:215; models/qwen2_5_vl.py:1434, models/gemma3_mm.py:552)."""
    plain, found = (_plan(model, "0.33.0", **more).per_gpu[0].terms[0] for more in ({}, {"limit_mm_per_prompt": told}))
    assert plain.name == found.name == "weights"
    assert (found.expected_gib == plain.expected_gib) == is_loaded


@pytest.mark.parametrize("release", ["0.6.6", "0.33.0"])
def test_fewer_adapters_on_the_host_than_run_are_refused(release: str) -> None:
    """0.6.6 config.py:2042, 0.33.0 config/lora.py:123."""
    said = _refusal(_LLAMA, release, enable_lora=True, max_loras=4, max_cpu_loras=2)
    assert said.startswith("max_cpu_loras (2) must be >= max_loras (4)")
    assert _refusal(_LLAMA, release, enable_lora=True, max_loras=4, max_cpu_loras=4) == ""
    assert _refusal(_LLAMA, release, max_loras=4, max_cpu_loras=2) == ""


def test_a_stage_has_no_negative_number_of_layers() -> None:
    """The sum of -1 and 33 is right, and no model has a stage of -1 layers."""
    with pytest.raises(InputError, match=r"^VLLM_PP_LAYER_PARTITION=-1,33: no stage has -1 layers"):
        planner.plan_model(_LLAMA, "2xA100-80GB", pp=2, environment={"VLLM_PP_LAYER_PARTITION": "-1,33"})
