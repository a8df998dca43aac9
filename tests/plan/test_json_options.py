"""--speculative-config and --limit-mm-per-prompt in each release, and contradictory options.

Errors were verified with vLLM 0.32.0, 0.16.0, 0.11.0 and 0.8.5 on a CPU (SpeculativeConfig,
MultiModalConfig).
"""

from __future__ import annotations

from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import planner
from vllm_runbooks.plan import records as plan_records
from vllm_runbooks.reading.arguments import json_options

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
    """The error that ends the launch; "" if none."""
    found = _plan(model, release, **options)
    assert (found.fits is False) == bool(found.limits)
    return " | ".join(found.limits)


def test_short_options_of_speculation_equal_the_long_one() -> None:
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


def test_a_repeated_key_is_rejected() -> None:
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
    ("0.33.0", {"method": "egale", "num_speculative_tokens": 2}, "unknown method egale; did you mean eagle?"),
    ("0.17.1", {"method": "ngram_gpu", "num_speculative_tokens": 2}, "unknown method ngram_gpu"),
    ("0.18.1", {"method": "ngram_gpu", "num_speculative_tokens": 2}, ""),
    ("0.33.0", {**_NGRAM, "zork": 1}, "unknown key zork"),
    ("0.16.0", {**_NGRAM, "zork": 1}, "unknown key zork"),
    ("0.11.0", {**_NGRAM, "zork": 1}, ""),
    ("0.8.5", {**_NGRAM, "zork": 1}, "unknown key zork"),
    ("0.33.0", {"method": "ngram", "num-speculative-tokens": 2}, ""),
    ("0.22.1", {"method": "ngram", "num-speculative-tokens": 2}, "unknown key num-speculative-tokens"),
    ("0.33.0", 3, "--speculative-config 3 is not a JSON object"),
    ("0.8.5", [], "--speculative-config [] is not a JSON object"),
]


@in_one_test(("release", "told", "said"), _REFUSED)
def test_speculation_is_rejected_as_in_the_release(release: str, told: Any, said: str) -> None:
    """One line has the error of its class; converted and dropped values are accepted."""
    found = _refusal(_LLAMA, release, speculative_config=told)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    ("release", "refuses"), [("0.8.5", False), ("0.10.2", False), ("0.11.0", True), ("0.33.0", True)]
)
def test_a_bare_number_of_tokens_used_deepseeks_own_layers_before_0_11(release: str, *, refuses: bool) -> None:
    """The model drafted itself (0.10.2 config/__init__.py:2047); 0.11.0 needs a method (:218)."""
    told = _plan(_DEEPSEEK, release, speculative_config={"num_speculative_tokens": 1})
    assert any("without speculative model" in limit for limit in told.limits) == refuses
    if not refuses:
        weights, plain = (found.per_gpu[0].terms[0].expected_gib for found in (told, _plan(_DEEPSEEK, release)))
        assert (weights or 0) > (plain or 0) > 0


@pytest.mark.parametrize("model", [_LLAMA, "Qwen/Qwen3-8B"])
@pytest.mark.parametrize("release", ["0.11.0", "0.19.0", "0.33.0"])
def test_a_model_without_mtp_layers_cannot_draft_by_them(model: str, release: str) -> None:
    """NotImplementedError without a kind of MTP (0.11.2 config/speculative.py:390, 0.19.0 :530)."""
    said = _refusal(model, release, speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    assert "has no MTP layers to draft with" in said


def test_a_model_drafts_by_its_layers_since_the_release_that_reads_them() -> None:
    """GLM-4.5's are read from 0.10.2 on (config/__init__.py, `hf_config_override`); DeepSeek-V3's always."""
    told = {"method": "deepseek_mtp", "num_speculative_tokens": 1}
    assert not any("MTP" in limit for limit in _plan(_DEEPSEEK, "0.9.2", speculative_config=told).limits)
    assert "cannot draft with the MTP layers" in _refusal("zai-org/GLM-4.5-Air", "0.9.2", speculative_config=told)


_LIMITS: list[tuple[str, Any, str]] = [
    ("0.33.0", {"image": {"count": 1, "width": -5, "height": 512}}, "image: width -5 must be an integer > 0"),
    ("0.33.0", {"image": {"width": "wide"}}, "image: width wide must be an integer"),
    ("0.33.0", {"image": {"depth": 3}}, "image: unknown key depth"),
    ("0.33.0", {"image": {"count": -1}}, "image: count -1 must be an integer >= 0"),
    ("0.33.0", {"image": -1}, "image: count -1 must be an integer >= 0"),
    ("0.33.0", {"image": 1.5}, "image: 1.5 must be an integer or an object"),
    ("0.33.0", {"image": None}, "image: null must be an integer or an object"),
    ("0.33.0", {"image": {"width": "512"}, "other": {"depth": 3}}, ""),
    ("0.11.0", {"image": {"count": 1}}, 'image: {"count": 1} must be an integer'),
    ("0.11.0", {"image": 1.5}, "image: 1.5 must be an integer"),
    ("0.33.0", 3, "--limit-mm-per-prompt 3 is not a JSON object"),
]


@pytest.mark.parametrize(("release", "told", "said"), _LIMITS)
def test_limits_are_rejected_as_in_the_release(release: str, told: Any, said: str) -> None:
    """One line has the error of the modality's class (0.33.0 config/multimodal.py:212)."""
    found = _refusal(_PICTURES, release, limit_mm_per_prompt=told)
    assert said in found
    assert bool(said) == bool(found)


def test_limits_of_a_text_model_are_not_checked() -> None:
    """Only multimodal models create their class (0.33.0 config/model.py)."""
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
def test_a_tower_is_left_out_if_all_its_modalities_are_limited_to_zero(
    model: str, told: dict[str, Any], *, is_loaded: bool
) -> None:
    """Others have 999 (0.33.0 config/multimodal.py:215; models/qwen2_5_vl.py:1434, models/gemma3_mm.py:552)."""
    plain, found = (_plan(model, "0.33.0", **more).per_gpu[0].terms[0] for more in ({}, {"limit_mm_per_prompt": told}))
    assert plain.name == found.name == "weights"
    assert (found.expected_gib == plain.expected_gib) == is_loaded


@pytest.mark.parametrize("release", ["0.6.6", "0.33.0"])
def test_fewer_adapters_on_the_host_than_in_a_batch_are_rejected(release: str) -> None:
    """0.6.6 config.py:2042, 0.33.0 config/lora.py:123."""
    said = _refusal(_LLAMA, release, enable_lora=True, max_loras=4, max_cpu_loras=2)
    assert said.startswith("max_cpu_loras (2) must be >= max_loras (4)")
    assert _refusal(_LLAMA, release, enable_lora=True, max_loras=4, max_cpu_loras=4) == ""
    assert _refusal(_LLAMA, release, max_loras=4, max_cpu_loras=2) == ""


def test_a_stage_has_no_negative_number_of_layers() -> None:
    """The sum of -1 and 33 is right, and no model has a stage of -1 layers."""
    with pytest.raises(InputError, match=r"^VLLM_PP_LAYER_PARTITION=-1,33: a stage cannot have -1 layers"):
        planner.plan_model(_LLAMA, "2xA100-80GB", pp=2, environment={"VLLM_PP_LAYER_PARTITION": "-1,33"})


# ---- the functions by themselves


@in_one_test(
    ("value", "number"),
    [
        (3, 3), (True, 1), (3.0, 3), ("3", 3), (" 3 ", 3), (3.5, None), ("3.5", None), ("x", None), (None, None),
        ([3], None), (float("inf"), None), (float("nan"), None), ("-2", -2), (0, 0),
    ],
)  # fmt: skip
def test_a_whole_number_is_parsed_as_pydantic_does(value: Any, number: int | None) -> None:
    """Fractions, words and lists have no integer value."""
    assert json_options.whole(value) == number


@pytest.mark.parametrize(
    ("options", "found", "twice"),
    [
        ({}, None, None),
        ({"speculative_config": {"method": "ngram"}}, {"method": "ngram"}, None),
        ({"spec_method": "ngram"}, {"method": "ngram"}, None),
        ({"spec_method": None}, None, None),
        ({"speculative_config": {"model": "a"}, "spec_tokens": 0}, {"model": "a", "num_speculative_tokens": 0}, None),
        ({"speculative_config": 3, "spec_tokens": 1}, 3, None),
        (
            {"speculative_config": {"model": "a", "method": "b"}, "spec_model": "c", "spec_method": "d"},
            {"model": "c", "method": "d"},
            "--spec-method and --speculative-config['method']",
        ),
    ],
)
def test_short_options_complete_the_long_one(options: dict[str, Any], found: Any, twice: str | None) -> None:
    """The first repeated key is named; an object of another form is unchanged."""
    assert json_options.speculative(options) == (found, twice)


@pytest.mark.parametrize(
    ("method", "is_one"), [("mtp", True), ("deepseek_mtp", True), ("eagle", False), ("mtp_x", False), ("", False)]
)
def test_methods_with_the_models_own_layers_are_known_by_name(method: str, *, is_one: bool) -> None:
    """`mtp`, and every name that ends so (0.33.0 config/speculative.py, MTPModelTypes)."""
    assert json_options.is_mtp(method) is is_one


@pytest.mark.parametrize(
    ("kind", "since"),
    [("deepseek_v3", (0, 7, 3)), ("mimo", (0, 9, 0)), ("ernie4_5_moe", (0, 10, 0)), ("qwen3_next", (0, 10, 0))],
)
def test_models_drafted_for_themselves_from_one_release_to_0_11(kind: str, since: tuple[int, int, int]) -> None:
    """From the first release that reads their layers on, until a method must be named (0.11.0 speculative.py:218)."""
    before = (since[0], since[1] - 1, 9) if not since[2] else (since[0], since[1], since[2] - 1)
    found = [json_options.drafts_itself(kind, key) for key in (before, since, (0, 10, 2), (0, 11, 0))]
    assert found == [False, True, True, False]
    assert not json_options.drafts_itself("llama", (0, 10, 2))
    assert not json_options.drafts_itself(None, (0, 10, 2))


_RELEASES = (
    "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.13.0", "0.14.1", "0.15.1", "0.16.0", "0.17.1",
    "0.18.1", "0.19.0", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0",
    "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip


def _fault(release: str, told: dict[str, Any]) -> str:
    key = tuple(map(int, release.split(".")))
    return json_options.speculation(told, key, release, "llama")[1] or ""


_EAGLE = {"method": "eagle", "model": "a", "num_speculative_tokens": 1}


@in_one_test(
    ("method", "since", "until"),
    [
        ("eagle", "0.9.2", None),
        ("mtp", "0.11.0", None),
        ("suffix", "0.11.2", None),
        ("medusa", "0.9.2", "0.33.0"),
        ("step5_mtp", "0.33.0", None),
    ],
)
def test_a_method_is_accepted_in_the_releases_that_have_it(method: str, since: str, until: str | None) -> None:
    """Other releases reject the value in pydantic; 0.8.5 does not check it."""
    told = {"method": method, "model": "a/b", "num_speculative_tokens": 1}
    accepted = [release for release in _RELEASES if f"unknown method {method}" not in _fault(release, told)]
    last = len(_RELEASES) if until is None else _RELEASES.index(until)
    assert accepted == ["0.8.5", *_RELEASES[_RELEASES.index(since) : last]]


_KEYS: list[tuple[str, Any, str, str | None]] = [
    # key, a value that it takes, the first release read that has it, the first that has it no more
    ("draft_tensor_parallel_size", 1, "0.8.5", None), ("disable_logprobs", True, "0.8.5", "0.11.2"),
    ("quantization", "fp8", "0.8.5", None), ("max_model_len", 8, "0.8.5", None), ("revision", "x", "0.8.5", None),
    ("disable_mqa_scorer", True, "0.8.5", "0.10.2"), ("disable_by_batch_size", 4, "0.8.5", "0.17.1"),
    ("acceptance_method", "x", "0.8.5", "0.10.2"), ("posterior_threshold", 0.1, "0.8.5", "0.10.2"),
    ("posterior_alpha", 0.1, "0.8.5", "0.10.2"), ("disable_log_stats", True, "0.8.5", "0.11.2"),
    ("enable_chunked_prefill", True, "0.8.5", "0.11.2"), ("enforce_eager", True, "0.11.2", None),
    ("disable_padded_drafter_batch", True, "0.11.2", None), ("speculative_token_tree", "[]", "0.11.2", "0.21.0"),
    ("suffix_decoding_max_tree_depth", 3, "0.11.2", None), ("suffix_decoding_min_token_prob", 0.1, "0.11.2", None),
    ("tensor_parallel_size", 1, "0.15.1", None), ("parallel_drafting", True, "0.16.0", None),
    ("draft_load_config", {}, "0.17.1", None), ("use_local_argmax_reduction", True, "0.17.1", None),
    ("moe_backend", "x", "0.19.0", None),
    ("synthetic_acceptance_rate", 0.5, "0.19.0", "0.20.2"), ("synthetic_acceptance_rates", [0.5], "0.20.2", None),
    ("synthetic_acceptance_length", 0.5, "0.20.2", None), ("attention_backend", "x", "0.21.0", None),
    ("draft_sample_method", "greedy", "0.21.0", None), ("num_speculative_tokens_per_batch_size", {}, "0.24.0", None),
    ("use_heterogeneous_vocab", True, "0.25.1", None), ("kv_cache_dtype", "fp8", "0.26.0", None),
    ("enable_adaptive_verification", True, "0.28.0", None), ("dspark_draft_topk", 1, "0.28.0", None),
    ("index_share_for_mtp_iteration", True, "0.29.0", None), ("disable_eagle_block_drop", True, "0.30.0", None),
    ("disable_lookahead_block_hashes", True, "0.33.0", None), ("xpress_topc", 0, "0.33.0", None),
    ("draft_lm_head_quantization", "nvfp4", "0.33.0", None), ("fly_window_size", 1, "0.33.0", None),
    ("fly_entropy_threshold", 0.0, "0.33.0", None), ("fly_entropy_top_k", 1, "0.33.0", None),
]  # fmt: skip


@in_one_test(("key", "value", "since", "until"), _KEYS)
def test_a_key_is_accepted_in_the_releases_that_have_it(key: str, value: Any, since: str, until: str | None) -> None:
    """Other keys are rejected by 0.8.5 and since 0.16, and dropped in between."""
    strict = ["0.8.5", *_RELEASES[_RELEASES.index("0.16.0") :]]
    told = {"method": "eagle", "model": "a/b", "num_speculative_tokens": 1, key: value}
    refused = [release for release in _RELEASES if f"unknown key {key}" in _fault(release, told)]
    last = len(_RELEASES) if until is None else _RELEASES.index(until)
    has = _RELEASES[_RELEASES.index(since) : last]
    assert refused == [release for release in strict if release not in has]
    assert [release for release in _RELEASES if _fault(release, told) and release not in refused] == []


@pytest.mark.parametrize(
    ("key", "value", "since"),
    [
        ("draft_tensor_parallel_size", 0, "0.11.2"), ("max_model_len", 0, "0.11.2"),
        ("prompt_lookup_max", "x", "0.9.2"),
        ("prompt_lookup_min", "x", "0.9.2"), ("model", 7, "0.9.2"), ("revision", 7, "0.11.2"),
        ("dspark_draft_topk", 0, "0.28.0"), ("xpress_topc", -1, "0.33.0"), ("fly_window_size", 0, "0.33.0"),
        ("fly_entropy_threshold", -0.1, "0.33.0"), ("fly_entropy_top_k", 0, "0.33.0"),
        ("draft_sample_method", "best", "0.21.0"), ("rejection_sample_method", "best", "0.18.1"),
        ("draft_lm_head_quantization", "fp4", "0.33.0"),
    ],
)  # fmt: skip
def test_a_value_is_checked_since_its_type_is_known(key: str, value: Any, since: str) -> None:
    """Bounds and types are the release's; earlier releases are not checked."""
    told = {"method": "eagle", "model": "a/b", "num_speculative_tokens": 1, key: value}
    place = _RELEASES.index(since)
    assert f"{key} {value}" in _fault(since, told)
    earlier = _fault(_RELEASES[place - 1], told)
    assert not earlier or "unknown key" in earlier


@in_one_test(
    ("release", "told", "is_fault"),
    [
        ("0.11.0", {"method": "suffix"}, True),
        ("0.11.1", {"method": "suffix"}, True),
        ("0.11.2", {"method": "suffix"}, False),
        ("0.9.1", {"model": 7, "num_speculative_tokens": 1}, False),
        ("0.9.1", {"model": "a", "num_speculative_tokens": 1, "prompt_lookup_max": "x"}, False),
        ("0.9.1", {"model": "a", "num_speculative_tokens": 1, "method": "zork"}, False),
        ("0.9.2", {"model": "a", "num_speculative_tokens": 1, "method": "zork"}, True),
        ("0.11.1", {"model": "a", "num_speculative_tokens": 1, "max_model_len": 0}, False),
        ("0.8.4", {"model": "a", "num_speculative_tokens": 1, "zork": 1}, False),
        ("0.8.6", {"model": "a", "num_speculative_tokens": 1, "zork": 1}, False),
        ("0.25.1", {"method": "dspark"}, True),
        ("0.25.1", {"method": "dspark", "num_speculative_tokens": 1}, False),
        ("0.19.0", {"model": "a/b"}, False),
        ("0.19.0", {"model": "a/b", "method": "ngram"}, True),
        ("0.10.2", {"method": "deepseek_mtp", "num_speculative_tokens": 1}, True),
        ("0.11.0", {"method": "deepseek_mtp", "num_speculative_tokens": 1}, False),
        ("0.11.0", {"model": "a/b", "num_speculative_tokens": 1.0}, False),
        ("0.11.0", {"model": "a/b", "num_speculative_tokens": 0}, True),
        ("0.11.0", {"model": "a/b", "num_speculative_tokens": -0.5}, True),
        (
            "0.33.0",
            {"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_min": 3, "prompt_lookup_max": 3},
            False,
        ),
        ("0.33.0", {"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_min": 1}, False),
        (
            "0.33.0",
            {"model": "[ngram]", "num_speculative_tokens": 1, "prompt_lookup_min": 4, "prompt_lookup_max": 3},
            True,
        ),
        (
            "0.33.0",
            {"model": "ngram", "num_speculative_tokens": 1, "prompt_lookup_min": 4, "prompt_lookup_max": 3},
            True,
        ),
        (
            "0.33.0",
            {**_EAGLE, "prompt_lookup_min": 4, "prompt_lookup_max": 3},
            False,
        ),
        ("0.26.0", {"model": "a/b", "num-speculative-tokens": 1}, False),
        ("0.25.1", {"model": "a/b", "num-speculative-tokens": 1}, True),
    ],
)  # fmt: skip
def test_a_missing_required_key_is_rejected(release: str, told: dict[str, Any], *, is_fault: bool) -> None:
    """A number of tokens, a model or a lookup order, by the rule of each release."""
    assert bool(_fault(release, told)) is is_fault


@in_one_test(
    ("told", "release", "fault"),
    [
        (3, (0, 9, 1), None),
        (3, (0, 9, 2), "--limit-mm-per-prompt 3 is not a JSON object"),
        ({"image": 1}, (0, 9, 2), None),
        ({"image": "1"}, (0, 9, 2), None),
        ({"image": "x"}, (0, 9, 2), "image: x must be an integer"),
        ({"image": 1, "video": "x"}, (0, 9, 2), "video: x must be an integer"),
        ({"image": {"count": 1}}, (0, 11, 0), "image: "),
        ({"image": {"count": 1}}, (0, 11, 1), None),
        ({"image": "1"}, (0, 11, 1), "image: 1 must be an integer or an object"),
        ({"image": 0}, (0, 11, 1), None),
        ({"image": {"width": 0}}, (0, 11, 1), "image: width 0 must be"),
        ({"image": {"width": 1, "height": 1}}, (0, 11, 1), None),
        ({"image": {"num_frames": 1}}, (0, 11, 1), "image: unknown key num_frames"),
        ({"video": {"num_frames": 1, "width": 1, "height": 1}}, (0, 11, 1), None),
        ({"audio": {"length": 1}}, (0, 11, 1), None),
        ({"audio": {"width": 1}}, (0, 11, 1), "audio: unknown key width"),
        ({"other": {"width": 0}}, (0, 11, 1), None),
        ({"other": {"count": -1}}, (0, 11, 1), "other: count -1 must be"),
    ],
)
def test_a_limit_has_the_keys_of_its_modality(told: Any, release: tuple[int, int, int], fault: str | None) -> None:
    """Checked since 0.9.2, objects since 0.11.1 (0.33.0 config/multimodal.py:212-239)."""
    found = json_options.limited(told, release, "x")
    assert (found is None) is (fault is None)
    assert fault is None or fault in (found or "")


@pytest.mark.parametrize(
    ("value", "count", "sizes"),
    [
        (3, 3, {}), ("3", 3, {}), (None, None, {}), ({}, 999, {}), ({"count": 2}, 2, {}), ({"count": "x"}, None, {}),
        ({"width": 5}, 999, {"width": 5}), ({"count": 2, "width": 1, "height": 0, "length": -1}, 2, {"width": 1}),
        ({"width": "7", "height": "x"}, 999, {"width": 7}),
    ],
)  # fmt: skip
def test_counts_and_sizes_of_a_modality_are_distinguished(value: Any, count: int | None, sizes: dict[str, int]) -> None:
    """An object without a count allows 999 items; sizes must be positive."""
    assert (json_options.count(value), json_options.sizes(value)) == (count, sizes)
