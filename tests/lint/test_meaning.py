"""Rules about unintended launches apply only if all necessary facts are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import in_one_test
from vllm_runbooks.authoring.releases import supported
from vllm_runbooks.catalog import folders, options, specs, support
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.catalog.specs import Gpu, HostGpu, Model, Specs
from vllm_runbooks.catalog.support import Backend
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import knowledge, meaning
from vllm_runbooks.lint.meaning import BrokenRule, LaunchFacts


@pytest.fixture(scope="module")
def shelf() -> Specs:
    return specs.load(spec_files.compile_specs)


METHODS = knowledge.knowledge().tables["meaning.quantization-differs"]


def command(
    shelf: Specs,
    flags: Mapping[str, Any],
    vllm: str = "0.16.0",
    model: str | None = None,
    gpus: str | None = None,
    **known: Any,
) -> LaunchFacts:
    return LaunchFacts(
        flags=flags,
        support=support.load(vllm),
        model=shelf.model(model) if model else None,
        cards=shelf.gpus(gpus) if gpus else None,
        fits=shelf.fits,
        methods=METHODS["methods"],
        formats=METHODS["formats"],
        **{"entry": "LLM", **known},
    )


def rules(*given_: Any, **known: Any) -> list[str]:
    return [broken.rule for broken in meaning.rules_broken(command(*given_, **known))]


def only(shelf: Specs, rule: str, flags: Mapping[str, Any], **known: Any) -> BrokenRule:
    found = [broken for broken in meaning.rules_broken(command(shelf, flags, **known)) if broken.rule == rule]
    assert len(found) == 1, found
    return found[0]


QWEN3 = {"model": "Qwen/Qwen3-8B"}
CODER = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
GEMMA3 = {"model": "google/gemma-3-27b-it"}
GPT_OSS = {"model": "openai/gpt-oss-20b"}
GLM = {"model": "/models/AutoGLM-Phone-9B"}
CUTS = {"model": "Qwen/Qwen3-235B-A22B-FP8"}
TEMPLATE = "/x/tool_chat_template_gemma4.jinja"

BROKEN: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ("heads-not-divisible", {"tensor_parallel_size": 3}, QWEN3, {"heads": "32", "fitting": "1, 2, 4, 8, 16, 32"}),
    ("vocabulary-not-divisible", {"tensor_parallel_size": 3}, QWEN3, {"vocabulary": "151936"}),
    ("kv-heads-not-divisible", {"tensor_parallel_size": 7}, {"model": "Qwen/Qwen2.5-0.5B-Instruct"}, {"heads": "2"}),
    ("kv-heads-replicated", {"tensor_parallel_size": 16}, QWEN3, {"copies": "2"}),
    ("encoder-heads-not-divisible", {"tensor_parallel_size": 8}, GLM, {"heads": "12", "size": "8"}),
    ("quantization-groups-cut", {"tensor_parallel_size": 8}, CUTS, {"share": "192", "group": "128"}),
    ("more-gpus-than-given", {"tensor_parallel_size": 8}, {"gpus": "4xL4"}, {"needed": "8", "given": "4"}),
    ("more-gpus-than-given", {"tensor_parallel_size": 4}, {"devices": ("0", "1")}, {"given": "2"}),
    ("more-gpus-than-given", {"data_parallel_size": 3}, {"device_count": 2}, {"needed": "3"}),
    ("gpus-unused", {}, {"devices": ("0", "1")}, {"needed": "1", "unused": "1"}),
    ("gpus-unused", {"pipeline_parallel_size": 2}, {"device_count": 8}, {"unused": "6"}),
    ("unequal-gpus", {"tensor_parallel_size": 2}, {"gpus": "RTX3090@a,H800@b"}, {"smallest": "RTX3090"}),
    ("ray-on-one-host", {"distributed_executor_backend": "ray"}, {"gpus": "2xRTX3090"}, {"needed": "1"}),
    ("encoder-on-every-gpu", {"mm_encoder_tp_mode": "data", "tensor_parallel_size": 4}, {}, {"size": "4"}),
    ("bfloat16-unsupported", {"dtype": "bfloat16"}, {"gpus": "T4"}, {"capability": "7.5"}),
    ("bfloat16-cast", {}, {"gpus": "V100-32GB", **QWEN3}, {"gpu": "V100-32GB"}),
    ("fp8-cache-without-hardware", {"kv_cache_dtype": "fp8"}, {"gpus": "RTX3090"}, {"capability": "8.6"}),
    (
        "cache-type-unsupported",
        {"kv_cache_dtype": "fp8", "attention_backend": "FLASH_ATTN"},
        {"gpus": "RTX3090"},
        {"backend": "FLASH_ATTN"},
    ),
    ("backend-unsupported", {"attention_backend": "FLASH_ATTN"}, {"gpus": "T4"}, {"capability": "7.5"}),
    ("backend-unknown", {"attention_backend": "FLASHY"}, {}, {"backend": "FLASHY"}),
    (
        "backend-variable-unknown",
        {},
        {"environment": {"VLLM_ATTENTION_BACKEND": "FLASHY"}, "vllm": "0.8.5"},
        {"backend": "FLASHY"},
    ),
    ("quantization-unsupported", {"quantization": "mxfp4"}, {"gpus": "T4"}, {"least": "8.0"}),
    ("quantization-unsupported", {}, {"gpus": "T4", "model": "openai/gpt-oss-20b"}, {"method": "mxfp4"}),
    ("fp8-weights-without-hardware", {"quantization": "fp8"}, {"gpus": "A100-80GB"}, {"capability": "8.0"}),
    ("architecture-unknown", {}, {"model": "google/gemma-4-31B-it", "vllm": "0.11.0"}, {}),
    ("modality-unlimited", {"limit_mm_per_prompt": {"image": 10}}, GLM, {"unlimited": "video", "limited": "image 10"}),
    ("processor-argument-ignored", {"mm_processor_kwargs": {"max_pixels": 1}}, GLM, {"names": "max_pixels"}),
    (
        "processor-argument-ignored",
        {"mm_processor_kwargs": {"max_pixel": 1}},
        {"model": "Qwen/Qwen2.5-VL-7B-Instruct"},
        {"names": "max_pixel"},
    ),
    ("eager-costs", {"enforce_eager": True}, {}, {}),
    ("context-beyond-model", {"max_model_len": 65536}, QWEN3, {"limit": "40960"}),
    ("context-odd", {"max_model_len": 8196}, {}, {"nearest": "8192"}),
    ("context-odd", {"max_model_len": 32767}, {}, {"nearest": "32768"}),
    ("tool-parser-unused", {"tool_call_parser": "hermes"}, {"entry": "serve"}, {"parser": "hermes"}),
    ("tool-parser-unknown", {"tool_call_parser": "gemma4", "enable_auto_tool_choice": True}, {}, {"parser": "gemma4"}),
    ("reasoning-parser-unknown", {"reasoning_parser": "qwen33"}, {}, {"parser": "qwen33"}),
    ("tool-parser-of-others", {"tool_call_parser": "mistral"}, QWEN3, {"fitting": "hermes"}),
    ("reasoning-parser-of-others", {"reasoning_parser": "granite"}, QWEN3, {"fitting": "qwen3"}),
    ("tool-parser-of-others", {"tool_call_parser": "hermes"}, {"name": CODER}, {"model": CODER}),
    ("tool-parser-of-others", {"tool_call_parser": "hermes"}, {"name": "/m/Qwen3-Coder-30B"}, {}),
    ("quantization-groups-cut", {"tensor_parallel_size": 8}, {"model": "MiniMaxAI/MiniMax-M2.5"}, {"share": "192"}),
    ("float16-unsupported", {"dtype": "half"}, GEMMA3, {"kind": "gemma3"}),
    ("bfloat16-unsupported", {"dtype": "bfloat16"}, {"gpus": "T4", **GEMMA3}, {"nearest": "float32"}),
    ("bfloat16-cast", {}, {"gpus": "T4", **GEMMA3}, {"type": "float32"}),
    ("quantization-differs", {"quantization": "fp8"}, {**GPT_OSS, "name": "openai/gpt-oss-20b"}, {"stored": "mxfp4"}),
    ("quantization-absent", {"quantization": "awq"}, {**QWEN3, "name": "qwen/qwen3-8b"}, {"asked": "awq"}),
    ("slower-kernel", {"quantization": "awq"}, {"gpus": "A100-80GB"}, {"faster": "awq_marlin"}),
    ("type-unsupported", {"dtype": "half"}, {**GPT_OSS, "name": "openai/gpt-oss-20b"}, {"takes": "bfloat16"}),
    ("type-unsupported", {"dtype": "float", "quantization": "fp8"}, {}, {"takes": "bfloat16 or float16"}),
    ("lora-not-enabled", {"lora_modules": [{"name": "a", "path": "/a"}]}, {}, {}),
    ("experts-without-eplb", {"eplb_config": {"num_redundant_experts": 8}}, {}, {"count": "8"}),
    (
        "chat-template-of-others",
        {"chat_template": "/x/tool_chat_template_mistral.jinja"},
        {"model": "google/gemma-4-31B-it", "vllm": "0.19.0"},
        {"fitting": "tool_chat_template_gemma4.jinja"},
    ),
    (
        "template-and-parser-differ",
        {"chat_template": TEMPLATE, "tool_call_parser": "hermes", "enable_auto_tool_choice": True},
        {},
        {"fitting": "gemma4"},
    ),
]


@in_one_test(("rule", "flags", "known", "says"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)])
def test_an_unintended_launch_is_reported(
    shelf: Specs, rule: str, flags: dict[str, Any], known: dict[str, Any], says: dict[str, str]
) -> None:
    """Each rule applies with all its facts, and reports its numbers."""
    verdict = only(shelf, f"meaning.{rule}", flags, **known)
    assert says.items() <= dict(verdict.says).items()
    assert all(value for value in verdict.says.values())


UNSAFE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("remote-code-needless", {"trust_remote_code": True}, {"model": "openai/gpt-oss-20b"}),
    ("remote-code", {"trust_remote_code": True}, {}),
    ("remote-code", {"trust_remote_code": True}, {"model": "deepseek-ai/DeepSeek-V3"}),
    ("whole-file-system", {"allowed_local_media_path": "/"}, {}),
    ("whole-file-system", {"allowed_local_media_path": "/data/.."}, {}),
    ("open-port", {"port": 10000}, {"entry": "serve"}),
    ("open-port", {"host": "0.0.0.0"}, {"entry": "api_server", "vllm": "0.7.2"}),  # noqa: S104 - the value under test
    ("secret-in-arguments", {"api_key": ["token"]}, {}),
    ("secret-in-arguments", {"hf_token": "token"}, {}),
]


@pytest.mark.parametrize(("rule", "flags", "known"), UNSAFE)
def test_an_unsafe_launch_is_reported(shelf: Specs, rule: str, flags: dict[str, Any], known: dict[str, Any]) -> None:
    """Safety rules need few facts, and never report a secret."""
    verdict = only(shelf, f"safety.{rule}", flags, **known)
    assert "token" not in str(dict(verdict.says)).replace("hf-token", "")


UNKNOWN = object()
SILENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sizes that fit", {"tensor_parallel_size": 8}, {"gpus": "8xRTX3090", **QWEN3}),
    ("a size nobody knows", {"tensor_parallel_size": UNKNOWN}, {"devices": ("0", "1"), "gpus": "2xL4", **QWEN3}),
    ("a model nobody knows", {"tensor_parallel_size": 3, "max_model_len": 10**6}, {"model": "someone/else"}),
    ("overridden configuration", {"tensor_parallel_size": 3, "hf_overrides": {}}, QWEN3),
    ("experts kept whole", {"tensor_parallel_size": 4, "enable_expert_parallel": True}, CUTS),
    ("all of the host", {}, {"gpus": "8xRTX3090"}),
    ("ranks on several hosts", {"tensor_parallel_size": 2}, {"gpus": "L4@a,L4@b"}),
    ("one rank of several hosts", {"data_parallel_size": 4, "data_parallel_address": "10.0.0.1"}, {"device_count": 1}),
    ("ranks over two hosts", {"tensor_parallel_size": 8, "nnodes": 2}, {"device_count": 4}),
    ("no GPU at all", {"device": "cpu", "tensor_parallel_size": 2}, {"device_count": 1}),
    ("Ray over two hosts", {"distributed_executor_backend": "ray", "tensor_parallel_size": 2}, {"gpus": "L4@a,L4@b"}),
    ("Ray, hosts unknown", {"distributed_executor_backend": "ray", "tensor_parallel_size": 2}, {}),
    ("a card of unknown capability", {"dtype": "bfloat16", "kv_cache_dtype": "fp8"}, {"gpus": "L20"}),
    ("FP8 in hardware", {"kv_cache_dtype": "fp8", "quantization": "fp8"}, {"gpus": "L4"}),
    ("an encoder on every GPU", {"tensor_parallel_size": 8, "mm_encoder_tp_mode": UNKNOWN}, GLM),
    ("an encoder that splits", {"tensor_parallel_size": 4}, GLM),
    ("no pictures at all", {"tensor_parallel_size": 8, "limit_mm_per_prompt": {"image": 0, "video": 0}}, GLM),
    ("a variable that is gone", {}, {"environment": {"VLLM_ATTENTION_BACKEND": "FLASHY"}, "vllm": "0.33.0"}),
    ("a parser that is always on", {"tool_call_parser": "openai", "api_key": UNKNOWN}, {"entry": "serve"}),
    ("all modalities limited", {"limit_mm_per_prompt": {"image": 4, "video": 0}}, GLM),
    ("text alone", {"limit_mm_per_prompt": {"image": 4}}, QWEN3),
    ("read by vLLM since", {"mm_processor_kwargs": {"max_pixels": 1}}, {**GLM, "vllm": "0.33.0"}),
    ("an argument of the model", {"mm_processor_kwargs": {"max_pixels": 1}}, {"model": "Qwen/Qwen2-VL-7B-Instruct"}),
    (
        "a longer context allowed",
        {"max_model_len": 65536},
        {**QWEN3, "environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}},
    ),
    ("a length of its own", {"max_model_len": 25480}, GLM),
    ("the whole context", {"max_model_len": 40960}, QWEN3),
    ("a parser of a plugin", {"reasoning_parser": "mine", "reasoning_parser_plugin": "/x.py"}, {}),
    (
        "parts that belong together",
        {
            "enable_auto_tool_choice": True,
            "tool_call_parser": "gemma4",
            "reasoning_parser": "gemma4",
            "chat_template": TEMPLATE,
        },
        {"model": "google/gemma-4-26B-A4B", "vllm": "0.19.0"},
    ),
    ("a key", {"port": 8000, "api_key": UNKNOWN}, {"entry": "serve"}),
    ("a key in the environment", {}, {"entry": "serve", "environment": {"VLLM_API_KEY": None}}),
    ("one host alone", {"host": "127.0.0.1"}, {"entry": "serve"}),
    ("a socket", {"uds": "/run/vllm.sock"}, {"entry": "serve"}),
    ("a folder of media", {"allowed_local_media_path": "/data"}, {}),
    ("pictures alone", {"limit_mm_per_prompt": {"video": 0}}, GLM),
    ("a parser of the same mark", {"reasoning_parser": "deepseek_r1"}, QWEN3),
    ("a parser of its own", {"reasoning_parser": "deepseek_r1"}, {"name": "Qwen/Qwen3-30B-A3B-Thinking-2507"}),
    ("a model of another house", {"tool_call_parser": "hermes"}, {"name": "house/Qwen3-Coder-30B"}),
    ("ranks that are started from outside", {"distributed_executor_backend": "external_launcher"}, {"device_count": 8}),
    ("a folder of any weights", {"quantization": "fp8"}, {**GPT_OSS, "name": "/models/gpt-oss-20b"}),
    ("an option that is overruled", {"quantization": "fp8"}, {**GPT_OSS, "name": GPT_OSS["model"], "vllm": "0.33.0"}),
    ("a type of several methods", {"dtype": "bfloat16"}, {"name": "Qwen/Qwen3-8B-AWQ"}),
    ("a half that is borne", {"dtype": "half"}, QWEN3),
    ("a half that is not refused yet", {"dtype": "half"}, {**GEMMA3, "vllm": "0.8.5"}),
    ("adapters that a file may allow", {"lora_modules": UNKNOWN}, {"is_elided": True}),
    ("trust withheld", {"trust_remote_code": False}, {}),
]


@in_one_test(("why", "flags", "known"), SILENT, ids=[case[0] for case in SILENT])
def test_valid_or_unknown_launches_have_no_issue(
    shelf: Specs, why: str, flags: dict[str, Any], known: dict[str, Any]
) -> None:
    """Neither a valid launch nor one with a missing fact is reported."""
    quiet = {"meaning.kv-heads-replicated"}
    assert [rule for rule in rules(shelf, flags, **known) if rule not in quiet] == [], why


def test_every_rule_has_a_test() -> None:
    """No rule is listed that no example above or below reaches."""
    shown = {f"meaning.{case[0]}" for case in BROKEN} | {f"safety.{case[0]}" for case in UNSAFE}
    known = [rule.id for rule in knowledge.knowledge().rules.values() if rule.id.startswith(("meaning.", "safety."))]
    assert sorted(shown | {"meaning.gpu-overcommitted", "meaning.gpu-shared", "meaning.port-shared"}) == sorted(known)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([({}, ("0",)), ({}, ("0",))], [(1, "meaning.gpu-overcommitted", "1.80")]),
        (
            [({"gpu_memory_utilization": 0.4}, ("0",)), ({"gpu_memory_utilization": 0.5}, ("0",))],
            [(1, "meaning.gpu-shared", "0.90")],
        ),
        ([({"gpu_memory_utilization": UNKNOWN}, ("0",)), ({}, ("0",))], [(1, "meaning.gpu-shared", None)]),
        ([({}, ("0",)), ({}, ("1",))], []),
        ([({"tensor_parallel_size": 2}, ("0", "1")), ({"tensor_parallel_size": 2}, ("2", "3"))], []),
        ([({}, None), ({}, None)], []),
        ([({"tensor_parallel_size": 2}, ("0", "1"))] * 2, [(1, "meaning.gpu-overcommitted", "1.80")]),
    ],
)
def test_launches_that_share_a_gpu_are_reported(
    shelf: Specs, starts: list[tuple[dict[str, Any], tuple[str, ...] | None]], expected: list[Any]
) -> None:
    """Two instances on one GPU are reported once, as an error if their shares exceed it."""
    commands = [
        command(shelf, flags, devices=devices, defaults={"gpu_memory_utilization": 0.9}) for flags, devices in starts
    ]
    found = [(index, said.rule, said.says.get("total")) for index, said in meaning.rules_broken_together(commands)]
    assert found == expected


@pytest.mark.parametrize(
    ("starts", "known", "expected"),
    [
        ([{}, {}], {}, [1]),
        ([{"port": 8001}, {"port": 8002}, {"port": 8001}], {}, [2]),
        ([{"port": 8001}, {"port": 8001}, {"port": 8001}], {}, [1, 2]),
        ([{"host": "127.0.0.1"}, {"host": "0.0.0.0"}], {}, [1]),  # noqa: S104 - the value under test
        ([{"host": "10.0.0.1"}, {"host": "10.0.0.2"}], {}, []),
        ([{"port": UNKNOWN}, {"port": UNKNOWN}], {}, []),
        ([{"uds": "/a"}, {"uds": "/b"}, {"headless": True}], {}, []),
        ([{}, {}], {"has_own_network": True}, []),
        ([{}, {}], {"is_elided": True}, []),
    ],
)
def test_servers_on_one_port_are_reported(
    shelf: Specs, starts: list[dict[str, Any]], known: dict[str, Any], expected: list[int]
) -> None:
    """Each later server on the same host's port; servers that may be elsewhere are not."""
    commands = [
        command(shelf, flags, entry="serve", defaults={"port": 8000, "host": None}, **known) for flags in starts
    ]
    assert [
        index for index, said in meaning.rules_broken_together(commands) if said.rule == "meaning.port-shared"
    ] == expected


BLANK = support.Support("0.16.0", frozenset(), frozenset(), {}, frozenset(), {}, {}, {}, {})
"""A release with only the facts of a test."""
TP, PP, DP = "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"
Said = tuple[str, tuple[str, ...], dict[str, str]]


def gpus(*cards: tuple[str | None, float] | tuple[str | None, float, str]) -> tuple[HostGpu, ...]:
    """GPUs by compute capability, memory and host, named by the first two."""
    return tuple(
        HostGpu(Gpu(f"{card[0]}/{card[1]:g}", card[1], (), capability=card[0]), card[2] if len(card) > 2 else None)
        for card in cards
    )


def said(
    flags: Mapping[str, Any],
    model: Mapping[str, Any] | None = None,
    release: Mapping[str, Any] | None = None,
    **known: Any,
) -> list[Said]:
    """Issues by rule, options and words, for a model and release reduced to relevant facts."""
    made = LaunchFacts(
        flags,
        replace(BLANK, **release or {}),
        None
        if model is None
        else Model("org/m", model.get("config", {}), **{k: v for k, v in model.items() if k != "config"}),
        **{"entry": "LLM", **known},
    )
    return [
        (one.rule, one.dests, {k: v for k, v in one.says.items() if k != "model"}) for one in meaning.rules_broken(made)
    ]


def _of_size(rule: str, **says: str) -> list[Said]:
    return [(f"meaning.{rule}", (TP,), says)]


@in_one_test(
    ("size", "model", "expected"),
    [
        (1, {"attention_heads": 7}, []),
        (2, {"attention_heads": 8}, []),
        (2, {"attention_heads": 9}, _of_size("heads-not-divisible", size="2", heads="9", fitting="1, 3, 9")),
        # More ranks than KV heads replicate them, if one number divides the other.
        (8, {"kv_heads": 4, "is_mla": False}, _of_size("kv-heads-replicated", size="8", heads="4", copies="2")),
        (4, {"kv_heads": 4, "is_mla": False}, []),
        (2, {"kv_heads": 4, "is_mla": False}, []),
        (3, {"kv_heads": 4, "is_mla": False}, _of_size("kv-heads-not-divisible", size="3", heads="4")),
        (6, {"kv_heads": 4, "is_mla": False}, _of_size("kv-heads-not-divisible", size="6", heads="4")),
        (6, {"kv_heads": 4, "is_mla": True}, []),
        (6, {"kv_heads": 4}, []),
        # The vocabulary is padded to a multiple of 64: 100 to 128, 128 to itself, 129 to 192.
        (2, {"vocabulary_size": 100}, []),
        (3, {"vocabulary_size": 100}, _of_size("vocabulary-not-divisible", size="3", vocabulary="128")),
        (3, {"vocabulary_size": 128}, _of_size("vocabulary-not-divisible", size="3", vocabulary="128")),
        (3, {"vocabulary_size": 129}, []),
        # No number of ranks.
        (True, {"attention_heads": 3}, []), ("2", {"attention_heads": 3}, []), (0, {"attention_heads": 3}, []),
        (1 << 20, {"attention_heads": 3}, _of_size("heads-not-divisible", size="1048576", heads="3", fitting="1, 3")),
        ((1 << 20) + 1, {"attention_heads": 3}, []),
    ],
)  # fmt: skip
def test_sizes_divided_by_the_ranks(size: Any, model: dict[str, Any], expected: list[Said]) -> None:
    """Heads and vocabulary must divide; each bound is tested on both sides."""
    assert said({TP: size}, model) == expected
    for dest in ("hf_overrides", "rope_scaling", "rope_parameters", "rope_theta", "hf_config_path", "model_impl"):
        assert said({TP: size, dest: None}, model) == []
        assert said({TP: size}, model, unknown=frozenset({dest})) == []


FP8 = {"quantization": "fp8", "config": {"quantization_config": {"weight_block_size": [128, 64]}}}
GPTQ = {"quantization": "gptq", "group_size": 128, "experts": 0, "intermediate_size": 1024}
EXPERTS = {**FP8, "experts": 8, "intermediate_size": 4096, "moe_intermediate_size": 512}
CUT_ALL = {"cut_groups_refused": True, "cut_blocks_refused": True, "cut_blocks_of_experts_refused": True}


def blocks(sizes: Any) -> dict[str, Any]:
    return {
        **FP8,
        "config": {"quantization_config": {"weight_block_size": sizes}},
        "experts": 0,
        "intermediate_size": 1024,
    }


@in_one_test(
    ("flags", "model", "facts", "expected"),
    [
        ({TP: 8}, GPTQ, CUT_ALL, None),
        ({TP: 16}, GPTQ, CUT_ALL, ("1024", "64", "128")),
        ({TP: 16}, {**GPTQ, "quantization": "awq"}, CUT_ALL, ("1024", "64", "128")),
        ({TP: 16}, {**GPTQ, "quantization": "gguf"}, CUT_ALL, None),
        ({TP: 16}, GPTQ, {**CUT_ALL, "cut_groups_refused": False}, None),
        ({TP: 16}, {**GPTQ, "group_size": None}, CUT_ALL, None),
        ({TP: 16}, {**GPTQ, "experts": 8}, CUT_ALL, None),
        ({TP: 16}, {**GPTQ, "experts": None}, CUT_ALL, None),
        ({TP: 16}, {**GPTQ, "intermediate_size": None}, CUT_ALL, None),
        ({TP: 16, "quantization": "mxfp4"}, GPTQ, CUT_ALL, None),
        ({TP: 16, "quantization": "gptq_marlin"}, GPTQ, CUT_ALL, ("1024", "64", "128")),
        ({TP: 16, "enable_expert_parallel": True}, GPTQ, CUT_ALL, ("1024", "64", "128")),
        ({TP: 3}, GPTQ, CUT_ALL, None),
        # FP8 blocks divide the width by their first number; an expert layer has one expert's width.
        ({TP: 16}, blocks([128, 64]), CUT_ALL, ("1024", "64", "128")),
        ({TP: 16}, blocks([64, 128]), CUT_ALL, None),
        ({TP: 16}, blocks([128, 64]), {**CUT_ALL, "cut_blocks_refused": False}, None),
        ({TP: 16}, blocks([128]), CUT_ALL, None),
        ({TP: 16}, blocks(["128", 128]), CUT_ALL, None),
        ({TP: 16}, blocks([0, 128]), CUT_ALL, None),
        ({TP: 16}, blocks([True, 128]), CUT_ALL, None),
        ({TP: 16}, blocks(128), CUT_ALL, None),
        ({TP: 16}, {**blocks([128, 64]), "quantization": "compressed-tensors"}, CUT_ALL, None),
        ({TP: 16}, {**blocks(None), "config": {"quantization_config": "fp8"}}, CUT_ALL, None),
        ({TP: 8}, EXPERTS, CUT_ALL, ("512", "64", "128")),
        ({TP: 8}, EXPERTS, {**CUT_ALL, "cut_blocks_refused": False}, ("512", "64", "128")),
        ({TP: 8}, EXPERTS, {**CUT_ALL, "cut_blocks_of_experts_refused": False}, None),
        ({TP: 8}, {**EXPERTS, "moe_intermediate_size": None}, CUT_ALL, None),
        ({TP: 64}, {**EXPERTS, "moe_intermediate_size": None}, CUT_ALL, ("4096", "64", "128")),
        ({TP: 8, "enable_expert_parallel": True}, EXPERTS, CUT_ALL, None),
        ({TP: 8, "quantization": "gpt_oss_mxfp4"}, EXPERTS, CUT_ALL, None),
    ],
)
def test_weights_with_a_common_scale_stay_together(
    flags: dict[str, Any], model: dict[str, Any], facts: dict[str, bool], expected: tuple[str, str, str] | None
) -> None:
    """If the release rejects a division: the width, each rank's share, and the group."""
    found = said(flags, model, {"facts": facts})

    if expected is None:
        assert found == []
    else:
        names = ("width", "share", "group")
        says = {**dict(zip(names, expected, strict=True)), "size": str(flags[TP]), "method": model["quantization"]}
        assert found == [("meaning.quantization-groups-cut", (TP,), says)]


def too_few(needed: int, given: int, *dests: str) -> list[Said]:
    says = {"needed": str(needed), "given": str(given)}
    return [("meaning.more-gpus-than-given", dests or (TP,), says)]


def unused(needed: int, given: int, *dests: str) -> list[Said]:
    says = {"needed": str(needed), "given": str(given), "unused": str(given - needed)}
    return [("meaning.gpus-unused", dests or (TP,), says)]


ONE_HOST, TWO_HOSTS = gpus(("9.0", 80), ("9.0", 80)), gpus(("9.0", 80, "a"), ("9.0", 80, "b"))
RAY, MP = {"distributed_executor_backend": "ray"}, {"distributed_executor_backend": "mp"}


@in_one_test(
    ("flags", "known", "expected"),
    [
        # Every size multiplies; a host has its share.
        ({TP: 2, PP: 3}, {"device_count": 6}, []),
        ({TP: 2, PP: 3}, {"device_count": 5}, too_few(6, 5, TP, PP)),
        ({TP: 2, PP: 3}, {"device_count": 7}, unused(6, 7, TP, PP)),
        ({DP: 2, "prefill_context_parallel_size": 2}, {"device_count": 3}, too_few(4, 3, DP)),
        ({"nnodes": 2, TP: 4}, {"device_count": 1}, too_few(2, 1, TP)),
        ({"nnodes": 2, TP: 4}, {"device_count": 2}, []),
        ({"nnodes": 8, TP: 4}, {"device_count": 1}, []),
        ({"nnodes": 8, TP: 4}, {"device_count": 2}, unused(1, 2, TP)),
        ({"nnodes": 0, TP: 4}, {"device_count": 1}, []),
        # Model replicas that this launch starts itself.
        ({DP: 4, "data_parallel_rank": 0}, {"device_count": 1}, []),
        ({DP: 4, "data_parallel_size_local": 2}, {"device_count": 1}, too_few(2, 1, DP, "data_parallel_size_local")),
        ({DP: 4, "data_parallel_size_local": 2}, {"device_count": 2}, []),
        ({DP: 4, "data_parallel_address": "10.0.0.1"}, {"device_count": 1}, []),
        ({DP: 4, "data_parallel_backend": "ray"}, {"device_count": 1}, []),
        # Not a launch on GPUs, or one with an external launcher.
        ({TP: 4, "device": "cpu"}, {"device_count": 1}, []),
        ({TP: 4, "device": "cuda"}, {"device_count": 1}, too_few(4, 1)),
        ({TP: 4, "distributed_executor_backend": "external_launcher"}, {"device_count": 1}, []),
        # Listed GPUs count once each, and take precedence over the host's.
        ({}, {"devices": ("0", "0")}, []),
        ({TP: 2}, {"devices": ("0", "0")}, too_few(2, 1)),
        ({TP: 2}, {"devices": ("0",), "cards": ONE_HOST}, too_few(2, 1)),
        ({TP: 4}, {"cards": ONE_HOST}, too_few(4, 2)),
        ({TP: 2}, {"cards": ONE_HOST}, []),
        ({}, {"cards": ONE_HOST}, []),
        # Over several hosts Ray may use more hosts than listed, also without an option.
        ({TP: 4}, {"cards": TWO_HOSTS}, []),
        ({TP: 4, **RAY}, {"cards": TWO_HOSTS}, []),
        ({TP: 4, **MP}, {"cards": TWO_HOSTS}, []),
        ({TP: 4, **MP}, {"cards": TWO_HOSTS, "device_count": 1}, too_few(4, 1)),
        ({TP: 4}, {"cards": TWO_HOSTS, "device_count": 1}, []),
        ({TP: 4, **RAY}, {"cards": TWO_HOSTS, "device_count": 1}, []),
        ({TP: 4, **RAY}, {"cards": ONE_HOST}, too_few(4, 2)),
        # Arguments that are not shown may use more, never less.
        ({}, {"device_count": 2, "is_elided": True}, []),
        ({TP: 2}, {"device_count": 1, "is_elided": True}, too_few(2, 1)),
        # Ray, if one host has all that is needed.
        ({TP: 2, **RAY}, {"cards": ONE_HOST}, [("meaning.ray-on-one-host", tuple(RAY), {"needed": "2"})]),
        ({TP: 2, **RAY}, {"device_count": 2}, [("meaning.ray-on-one-host", tuple(RAY), {"needed": "2"})]),
        (RAY, {}, []),
        ({TP: 2, **MP}, {"cards": ONE_HOST}, []),
        ({**RAY, "nnodes": 2, TP: 2}, {"device_count": 1}, []),
        (RAY, {"cards": TWO_HOSTS, "device_count": 1}, []),
        ({**RAY, "device": "cpu"}, {"device_count": 1}, []),
        # GPUs with different memory, if all are needed.
        (
            {TP: 2},
            {"cards": gpus(("8.6", 24), ("9.0", 47.5))},
            [(
                "meaning.unequal-gpus", (TP,),
                {"size": "2", "smallest": "8.6/24", "smallest_gib": "24", "largest": "9.0/47.5", "largest_gib": "47.5"},
            )],
        ),
        ({TP: 2}, {"cards": gpus(("8.6", 24), ("9.0", 24))}, []),
        ({TP: 2}, {"cards": gpus(("8.6", 24), ("9.0", 80), ("9.0", 80))}, []),
        ({TP: 1}, {"cards": gpus(("8.6", 24), ("9.0", 80))}, []),
        ({TP: "x"}, {"cards": gpus(("8.6", 24), ("9.0", 80))}, []),
    ],
)  # fmt: skip
def test_gpus_are_counted_by_ranks(flags: dict[str, Any], known: dict[str, Any], expected: list[Said]) -> None:
    """Too few, unused, or unequal GPUs, and unnecessary Ray, with the launch's numbers."""
    assert said(flags, **known) == expected


def test_the_variable_with_unused_gpus_is_marked() -> None:
    """If the launch sets it; otherwise there is none to change."""
    for environment, variables in (({"CUDA_VISIBLE_DEVICES": "0,1"}, ("CUDA_VISIBLE_DEVICES",)), ({"A": "1"}, ())):
        (one,) = meaning.rules_broken(LaunchFacts({}, BLANK, devices=("0", "1"), environment=environment, entry="LLM"))
        assert (one.rule, one.variables) == ("meaning.gpus-unused", variables)


ENCODER = {"encoder_heads": 9}
NINE = [("meaning.encoder-heads-not-divisible", (TP,), {"size": "2", "heads": "9"})]
EVERYWHERE = [("meaning.encoder-on-every-gpu", ("mm_encoder_tp_mode",), {"size": "2"})]


@pytest.mark.parametrize(
    ("flags", "defaults", "expected"),
    [
        ({TP: 2}, {}, NINE),
        ({TP: 3}, {}, []),
        ({TP: 1}, {}, []),
        ({TP: 2, "hf_overrides": {}}, {}, []),
        ({TP: 2}, {"mm_encoder_tp_mode": "data"}, []),
        ({TP: 2, "mm_encoder_tp_mode": "weights"}, {}, NINE),
        ({TP: 2, "mm_encoder_tp_mode": "data"}, {}, EVERYWHERE),
        ({"mm_encoder_tp_mode": "data"}, {}, []),
        # Without images, no encoder runs.
        ({TP: 2, "mm_encoder_tp_mode": "data", "limit_mm_per_prompt": {"image": 0, "video": 0}}, {}, []),
        ({TP: 2, "mm_encoder_tp_mode": "data", "limit_mm_per_prompt": {"image": {"count": 0}}}, {}, []),
        ({TP: 2, "mm_encoder_tp_mode": "data", "limit_mm_per_prompt": {"image": 0, "video": 1}}, {}, EVERYWHERE),
        ({TP: 2, "mm_encoder_tp_mode": "data", "limit_mm_per_prompt": {}}, {}, EVERYWHERE),
        ({TP: 2, "mm_encoder_tp_mode": "data", "language_model_only": True}, {}, []),
    ],
)
def test_the_encoders_heads_are_split_unless_it_is_whole_everywhere(
    flags: dict[str, Any], defaults: dict[str, Any], expected: list[Said]
) -> None:
    """By the option, else by the release's default."""
    assert said(flags, ENCODER, defaults=defaults) == expected


def test_the_option_for_a_whole_encoder_is_named_if_the_release_has_it() -> None:
    """An older one splits it and has no word for anything else."""
    (found,) = said({TP: 2}, ENCODER, defaults={"mm_encoder_tp_mode": "weights"})

    assert found[2] == {"size": "2", "heads": "9", "mode": "--mm-encoder-tp-mode data"}


OLD, AMPERE, ADA = gpus(("7.5", 16)), gpus(("8.6", 24)), gpus(("8.9", 24))
LACKS = {"gpu": "7.5/16", "capability": "7.5"}
REFUSES_HALF = {"float16_refused": ["gemma3"]}


@in_one_test(
    ("flags", "model", "facts", "cards", "expected"),
    [
        ({"dtype": "bfloat16"}, {}, {}, OLD, ("bfloat16-unsupported", "dtype", {**LACKS, "nearest": "half"})),
        ({"dtype": "torch.bfloat16"}, {}, {}, OLD, ("bfloat16-unsupported", "dtype", {**LACKS, "nearest": "half"})),
        ({"dtype": "bfloat16"}, {}, {}, gpus(("8.0", 40)), None),
        ({"dtype": "bfloat16"}, {}, {}, (*OLD, *AMPERE),
         ("bfloat16-unsupported", "dtype", {**LACKS, "nearest": "half"})),
        ({"dtype": "bfloat16"}, {}, {}, (*AMPERE, *OLD),
         ("bfloat16-unsupported", "dtype", {**LACKS, "nearest": "half"})),
        ({"dtype": "bfloat16"}, {}, {}, gpus(("7.5", 16), (None, 16)), None),
        ({"dtype": "half"}, {"dtype": "bfloat16"}, {}, OLD, None),
        # A release that casts converts a checkpoint's default.
        ({}, {"dtype": "bfloat16"}, {"casts_bfloat16": True}, OLD,
         ("bfloat16-cast", "model", {**LACKS, "nearest": "half", "type": "float16"})),
        ({"dtype": "auto"}, {"dtype": "torch.bfloat16"}, {}, OLD,
         ("bfloat16-unsupported", "model", {**LACKS, "nearest": "half", "type": "float16"})),
        ({}, {"dtype": "float16"}, {"casts_bfloat16": True}, OLD, None),
        ({}, {"dtype": "bfloat16", "model_type": "gemma3"}, {**REFUSES_HALF, "casts_bfloat16": True}, OLD,
         ("bfloat16-cast", "model", {**LACKS, "nearest": "float32", "type": "float32"})),
        ({"dtype": "bfloat16"}, {"model_type": "gemma3"}, REFUSES_HALF, OLD,
         ("bfloat16-unsupported", "dtype", {**LACKS, "nearest": "float32"})),
        # Models that overflow in half precision.
        ({"dtype": "half"}, {"model_type": "gemma3"}, REFUSES_HALF, AMPERE,
         ("float16-unsupported", "dtype", {"kind": "gemma3"})),
        ({"dtype": "torch.float16"}, {"model_type": "gemma3"}, REFUSES_HALF, None,
         ("float16-unsupported", "dtype", {"kind": "gemma3"})),
        ({"dtype": "half"}, {"model_type": "gemma2"}, REFUSES_HALF, AMPERE, None),
        ({"dtype": "half", "hf_overrides": {}}, {"model_type": "gemma3"}, REFUSES_HALF, AMPERE, None),
        ({"dtype": "float32"}, {"model_type": "gemma3"}, REFUSES_HALF, OLD, None),
    ],
)  # fmt: skip
def test_a_dtype_is_checked_by_gpu_model_and_release(
    flags: dict[str, Any],
    model: dict[str, Any],
    facts: dict[str, Any],
    cards: tuple[HostGpu, ...] | None,
    expected: tuple[str, str, dict[str, str]] | None,
) -> None:
    """bfloat16 needs capability 8.0; the least capable GPU decides."""
    found = said(flags, model, {"facts": facts}, cards=cards)

    assert found == ([(f"meaning.{expected[0]}", (expected[1],), expected[2])] if expected else [])


A, B, D = (
    Backend(frozenset({(8, 6), (8, 9)}), frozenset({"fp8"})),
    Backend(frozenset({(8, 6), (9, 0)}), frozenset({"auto"})),
    Backend(frozenset({(8, 9)}), frozenset({"auto"})),
)
CACHE, LACK = {"kv_cache_dtype": "fp8"}, {"type": "fp8", "gpu": "8.6/24", "capability": "8.6"}


def of_cache(rule: str, **says: str) -> list[Said]:
    return [(f"meaning.{rule}", ("kv_cache_dtype",), {**LACK, **says})]


@in_one_test(
    ("flags", "backends", "known", "expected"),
    [
        (CACHE, {}, {"cards": AMPERE}, of_cache("fp8-cache-without-hardware")),
        (CACHE, {"B": B, "A": A}, {"cards": AMPERE}, of_cache("fp8-cache-without-hardware", backends="A")),
        (CACHE, {"B": B}, {"cards": AMPERE}, of_cache("cache-type-unsupported")),
        (CACHE, {"A": A}, {"cards": ADA}, []),
        (CACHE, {"B": B}, {"cards": ADA},
         of_cache("cache-type-unsupported", gpu="8.9/24", capability="8.9")),
        ({**CACHE, "attention_backend": "d"}, {"A": A, "D": D}, {"cards": ADA},
         of_cache("cache-type-unsupported", gpu="8.9/24", capability="8.9", backend="D")),
        (CACHE, {"B": B}, {}, []),
        (CACHE, {"B": B}, {"cards": AMPERE, "model": {"is_mla": True}}, []),
        ({"kv_cache_dtype": "fp8_inc"}, {"B": B}, {"cards": AMPERE}, []),
        ({"kv_cache_dtype": "auto"}, {"B": B}, {"cards": AMPERE}, []),
        # The backend requested by option, key or variable decides.
        ({**CACHE, "attention_backend": "b"}, {"A": A, "B": B}, {"cards": AMPERE},
         of_cache("cache-type-unsupported", backend="B")),
        ({**CACHE, "attention_config": {"backend": "b"}}, {"A": A, "B": B}, {"cards": AMPERE},
         of_cache("cache-type-unsupported", backend="B")),
        ({**CACHE, "attention_config": {"backend": 7}}, {"A": A, "B": B}, {"cards": AMPERE},
         of_cache("fp8-cache-without-hardware", backends="A")),
        ({**CACHE, "attention_backend": "A"}, {"A": A, "B": B}, {"cards": AMPERE},
         of_cache("fp8-cache-without-hardware", backends="A")),
        (CACHE, {"A": A, "B": B}, {"cards": AMPERE, "environment": {"VLLM_ATTENTION_BACKEND": "B"}, "reads": True},
         of_cache("cache-type-unsupported", backend="B")),
        (CACHE, {"A": A, "B": B}, {"cards": AMPERE, "environment": {"VLLM_ATTENTION_BACKEND": "B"}},
         of_cache("fp8-cache-without-hardware", backends="A")),
        # A backend whose name or GPU the release does not support.
        ({"attention_backend": "auto"}, {"A": A}, {"cards": AMPERE}, []),
        ({"attention_backend": "C"}, {}, {"cards": AMPERE}, []),
        ({"attention_backend": "c"}, {"A": A}, {}, [("meaning.backend-unknown", ("attention_backend",),
         {"backend": "C"})]),
        ({"attention_config": {"backend": "c"}}, {"A": A}, {},
         [("meaning.backend-unknown", ("attention_config",), {"backend": "C"})]),
        ({}, {"A": A}, {"environment": {"VLLM_ATTENTION_BACKEND": "a"}, "reads": True},
         [("meaning.backend-variable-unknown", (), {"backend": "a"})]),
        ({"attention_backend": "B"}, {"B": B}, {"cards": OLD},
         [("meaning.backend-unsupported", ("attention_backend",), {"backend": "B", **LACKS, "takes": "8.6, 9.0"})]),
        ({"attention_backend": "B"}, {"B": B}, {"cards": gpus(("9.0", 80))}, []),
        ({"attention_backend": "B"}, {"B": B}, {}, []),
        ({"attention_backend": "N"}, {"N": None}, {"cards": OLD}, []),
        ({"attention_backend": "N"}, {"N": Backend(None, None)}, {"cards": OLD}, []),
    ],
)  # fmt: skip
def test_cache_dtypes_and_attention_backends_are_checked_together(
    flags: dict[str, Any], backends: dict[str, Backend | None], known: dict[str, Any], expected: list[Said]
) -> None:
    """Below capability 8.9 an FP8 cache is slower, or rejected if no backend supports it."""
    facts = {"reads_backend_variable": True} if "reads" in known else {}
    release = {"cache_types": frozenset({"fp8", "auto"}), "backends": backends, "facts": facts}
    more = {name: value for name, value in known.items() if name not in ("reads", "model")}

    assert said(flags, known.get("model"), release, **more) == expected


READS = {"a": {"reads": "a", "faster": "a_fast", "chooses": "auto_a"}, "f": {"computes": "fp8"}}


@in_one_test(
    ("flags", "model", "known", "expected"),
    [
        # The least capability of a method, of the option's or the checkpoint's.
        ({"quantization": "q"}, None, {"cards": OLD},
         ("quantization-unsupported", "quantization", {"method": "q", **LACKS, "least": "8.0"})),
        ({}, {"quantization": "q"}, {"cards": OLD},
         ("quantization-unsupported", "model", {"method": "q", **LACKS, "least": "8.0"})),
        ({"quantization": UNKNOWN}, {"quantization": "q"}, {"cards": OLD}, None),
        ({"quantization": "q"}, None, {"cards": gpus(("8.0", 40))}, None),
        ({"quantization": "q"}, None, {}, None),
        ({"quantization": "open"}, None, {"cards": OLD}, None),
        ({}, {"quantization": "none"}, {"cards": OLD}, None),
        ({"quantization": "f"}, None, {"cards": AMPERE},
         ("fp8-weights-without-hardware", "quantization", {"method": "f", "gpu": "8.6/24", "capability": "8.6"})),
        ({"quantization": "f"}, None, {"cards": ADA}, None),
        # A faster kernel for the same weights, if the GPU supports it and the format is equal.
        ({"quantization": "a"}, None, {"cards": gpus(("8.0", 40))},
         ("slower-kernel", "quantization", {"asked": "a", "faster": "a_fast", "gpu": "8.0/40"})),
        ({"quantization": "a"}, {"quantization": "a"}, {"cards": AMPERE},
         ("slower-kernel", "quantization", {"asked": "a", "faster": "a_fast", "gpu": "8.6/24"})),
        ({"quantization": "a"}, {"quantization": "q"}, {"cards": AMPERE}, None),
        ({"quantization": "a"}, None, {"cards": OLD}, None),
        ({"quantization": "a"}, None, {}, None),
        ({}, {"quantization": "a"}, {"cards": AMPERE}, None),
    ],
)  # fmt: skip
def test_a_quantization_method_is_checked_by_the_gpu(
    flags: dict[str, Any],
    model: dict[str, Any] | None,
    known: dict[str, Any],
    expected: tuple[str, str, dict[str, str]] | None,
) -> None:
    """Minimum capability, FP8 compute, and an unnecessarily slow kernel."""
    release = {"quantizations": {"q": 80, "open": None, "f": 75, "a": 75, "a_fast": 80}}
    found = said(flags, model, release, methods=READS, **known)

    assert found == ([(f"meaning.{expected[0]}", (expected[1],), expected[2])] if expected else [])


LENGTH = "max_model_len"
LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


@in_one_test(
    ("length", "environment", "nearest"),
    [
        (8192, {}, None), (8193, {}, "8192"), (8200, {}, "8192"), (8201, {}, None),
        (8191, {}, "8192"), (8184, {}, "8192"), (8183, {}, None), (1032, {}, "1024"), (1016, {}, "1024"),
        (8704, {}, None), (1, {}, None), (8, {}, None), (512, {}, None), (1023, {}, "1024"),
        ((1 << 40) - 1, {}, str(1 << 40)), ((1 << 40) + 1, {}, None), (True, {}, None), (-1, {}, None),
         ("8193", {}, None),
        # Up to the model's maximum; beyond it if a variable allows it.
        (40960, {}, None), (40961, {}, "beyond"), (65536, {}, "beyond"), (65536, {LONG: "0"}, "beyond"),
        (65536, {LONG: "1"}, None), (65536, {LONG: "TRUE"}, None), (65536, {LONG: "yes"}, None),
         (65536, {LONG: "on"}, None),
        (65536, {LONG: None}, None), (65536, {LONG: "no"}, "beyond"), (65537, {LONG: "1"}, "65536"),
    ],
)  # fmt: skip
def test_a_context_that_misses_a_round_length_or_the_models(
    length: Any, environment: dict[str, str | None], nearest: str | None
) -> None:
    """A typing error misses a multiple of 1024 by 8 at the most."""
    model = None if nearest not in (None, "beyond") and not environment else {"max_positions": 40960}
    model = None if isinstance(length, int) and length > 1 << 39 else model
    expected = {
        None: [],
        "beyond": [("meaning.context-beyond-model", (LENGTH,), {"length": str(length), "limit": "40960"})],
    }.get(nearest, [("meaning.context-odd", (LENGTH,), {"length": str(length), "nearest": nearest or ""})])

    assert said({LENGTH: length}, model, environment=environment) == expected


KINDS = {"modalities": {"Arch": {"image": True, "video": False, "audio": False}}}
SEES = {"architecture": "Arch", "modalities": ("video",)}
OPEN = {"unlimited": "video", "limited": "image 2"}


@in_one_test(
    ("flags", "model", "expected"),
    [
        ({"limit_mm_per_prompt": {"image": 2}}, SEES, OPEN),
        ({"limit_mm_per_prompt": {"image": {"count": 2, "width": 9}}}, SEES, OPEN),
        ({"limit_mm_per_prompt": {"image": 1 << 20}}, SEES, {**OPEN, "limited": "image 1048576"}),
        ({"limit_mm_per_prompt": {"image": (1 << 20) + 1}}, SEES, None),
        ({"limit_mm_per_prompt": {"image": True}}, SEES, None),
        ({"limit_mm_per_prompt": {"image": 0}}, SEES, None),
        ({"limit_mm_per_prompt": {"image": 2, "video": 0}}, SEES, None),
        ({"limit_mm_per_prompt": {"audio": 2}}, SEES, None),
        ({"limit_mm_per_prompt": {}}, SEES, None),
        ({"limit_mm_per_prompt": [2]}, SEES, None),
        ({"limit_mm_per_prompt": {"image": 2}, "language_model_only": True}, SEES, None),
        ({"limit_mm_per_prompt": {"image": 2}, "skip_mm_profiling": True}, SEES, None),
        ({"limit_mm_per_prompt": {"image": 2}}, {**SEES, "modalities": None}, None),
        ({"limit_mm_per_prompt": {"image": 2}}, {**SEES, "modalities": ("audio", "video")},
         {**OPEN, "unlimited": "video, audio"}),
        # An architecture without a table in the release uses its checkpoint's value.
        ({"limit_mm_per_prompt": {"image": 2}}, {"architecture": "None", "modalities": ("image", "video")}, OPEN),
        ({"limit_mm_per_prompt": {"image": 2}}, {"modalities": ("image", "video")}, None),
        ({"limit_mm_per_prompt": {"image": 2}}, None, None),
    ],
)  # fmt: skip
def test_a_kind_of_input_that_was_forgotten(
    flags: dict[str, Any], model: dict[str, Any] | None, expected: dict[str, str] | None
) -> None:
    """Who counts one kind and leaves another open has forgotten it; who shuts one out has not."""
    release = {"modalities": {**KINDS["modalities"], "None": None}}
    found = said(flags, model, release)

    assert found == ([("meaning.modality-unlimited", ("limit_mm_per_prompt",), expected)] if expected else [])


@in_one_test(
    ("flags", "model", "known", "expected"),
    [
        # An unknown architecture, unless another implementation is requested.
        ({}, {"architecture": "Other"}, {}, [("meaning.architecture-unknown", ("model",), {"architecture": "Other"})]),
        ({"model_impl": "vllm"}, {"architecture": "Other"}, {},
         [("meaning.architecture-unknown", ("model",), {"architecture": "Other"})]),
        ({"model_impl": "transformers"}, {"architecture": "Other"}, {}, []),
        ({"hf_overrides": {}}, {"architecture": "Other"}, {}, []),
        ({}, {"architecture": "Arch"}, {}, []),
        ({}, {}, {}, []),
        # Parsers: one without the option that enables it, and an unknown one.
        ({"tool_call_parser": "t"}, None, {"entry": "serve"},
         [("meaning.tool-parser-unused", ("tool_call_parser",), {"parser": "t"})]),
        ({"tool_call_parser": "t"}, None, {"entry": "image"},
         [("meaning.tool-parser-unused", ("tool_call_parser",), {"parser": "t"})]),
        ({"tool_call_parser": "t"}, None, {}, []),
        ({"tool_call_parser": "t"}, None, {"entry": "serve", "is_elided": True}, []),
        ({"tool_call_parser": "openai"}, None, {"entry": "serve"}, []),
        ({"tool_call_parser": "t", "enable_auto_tool_choice": UNKNOWN}, None, {"entry": "serve"}, []),
        ({"tool_call_parser": "u", "enable_auto_tool_choice": True}, None, {},
         [("meaning.tool-parser-unknown", ("tool_call_parser",), {"parser": "u", "known": "s, t"})]),
        ({"tool_call_parser": "u", "enable_auto_tool_choice": UNKNOWN}, None, {}, []),
        ({"tool_call_parser": "u", "enable_auto_tool_choice": True, "tool_parser_plugin": "/x.py"}, None, {}, []),
        ({"reasoning_parser": "u"}, None, {}, [("meaning.reasoning-parser-unknown", ("reasoning_parser",),
         {"parser": "u", "known": "r"})]),
        ({"reasoning_parser": "r"}, None, {}, []),
        ({"reasoning_parser": "u", "reasoning_parser_plugin": "/x.py"}, None, {}, []),
        # Adapters without their switch.
        ({"lora_modules": ["a=/a"]}, None, {}, [("meaning.lora-not-enabled", ("lora_modules",), {})]),
        ({"eplb_config": {"num_redundant_experts": 8}, "enable_eplb": True}, None, {}, []),
        ({"eplb_config": {"num_redundant_experts": 0}}, None, {}, []),
        ({"lora_modules": ["a=/a"], "enable_lora": UNKNOWN}, None, {}, []),
        ({"lora_modules": ["a=/a"]}, None, {"is_elided": True}, []),
        ({"lora_modules": []}, None, {}, []),
        # Arguments of a processor that none reads.
        ({"mm_processor_kwargs": {"a": 1, "c": 1, "b": 1}}, {"processor_arguments": ("b",)}, {},
         [("meaning.processor-argument-ignored", ("mm_processor_kwargs",), {"names": "a, c"})]),
        ({"mm_processor_kwargs": {"max_pixels": 1}}, {"processor_arguments": ("size",)}, {},
         [("meaning.processor-argument-ignored", ("mm_processor_kwargs",),
         {"names": "max_pixels", "instead": "size"})]),
        ({"mm_processor_kwargs": {"pixels": 1}}, {"processor_arguments": ("size",)}, {},
         [("meaning.processor-argument-ignored", ("mm_processor_kwargs",), {"names": "pixels"})]),
        ({"mm_processor_kwargs": {"min_pixels": 1}}, {"processor_arguments": ()}, {},
         [("meaning.processor-argument-ignored", ("mm_processor_kwargs",), {"names": "min_pixels"})]),
        ({"mm_processor_kwargs": {"images_kwargs": {}, "common_kwargs": {}}}, {"processor_arguments": ()}, {}, []),
        ({"mm_processor_kwargs": {"x": 1}}, {"processor_arguments": (), "architecture": "Arch"}, {}, []),
        ({"mm_processor_kwargs": {"a": 1}}, {}, {}, []),
        ({"mm_processor_kwargs": {}}, {"processor_arguments": ()}, {}, []),
        ({"mm_processor_kwargs": "a"}, {"processor_arguments": ()}, {}, []),
        # Code of the model's own, and files of the host.
        ({"trust_remote_code": True}, None, {}, [("safety.remote-code", ("trust_remote_code",), {})]),
        ({"trust_remote_code": True}, {"needs_remote_code": False}, {},
         [("safety.remote-code-needless", ("trust_remote_code",), {})]),
        ({"trust_remote_code": True}, {"needs_remote_code": True}, {}, []),
        ({"trust_remote_code": UNKNOWN}, None, {}, []),
        ({"allowed_local_media_path": " // "}, None, {},
         [("safety.whole-file-system", ("allowed_local_media_path",), {"path": "//"})]),
        ({"allowed_local_media_path": "/a/.."}, None, {},
         [("safety.whole-file-system", ("allowed_local_media_path",), {"path": "/a/.."})]),
        ({"allowed_local_media_path": "/a"}, None, {}, []),
        ({"api_key": ("k",)}, None, {}, [("safety.secret-in-arguments", ("api_key",), {"option": "api-key"})]),
        ({"ssl_keyfile_password": "k"}, None, {}, [("safety.secret-in-arguments", ("ssl_keyfile_password",),
         {"option": "ssl-keyfile-password"})]),
        ({"hf_token": True, "api_key": [UNKNOWN]}, None, {}, []),
        ({"enforce_eager": UNKNOWN}, None, {}, []),
    ],
)  # fmt: skip
def test_each_rule_needs_all_its_facts(
    flags: dict[str, Any], model: dict[str, Any] | None, known: dict[str, Any], expected: list[Said]
) -> None:
    """A missing, unknown or different fact silences it."""
    release = {
        "modalities": {"Arch": {}}, "tool_parsers": frozenset({"t", "s"}), "reasoning_parsers": frozenset({"r"}),
        "processor_reads": {"Arch": frozenset({"x"})},
    }  # fmt: skip
    assert said(flags, model, release, **known) == expected


ANYBODY = "0.0.0.0"  # noqa: S104 - the value under test


@in_one_test(
    ("flags", "known", "expected"),
    [
        ({}, {}, ((), {"host": ANYBODY})),
        ({"port": 9}, {}, (("port",), {"host": ANYBODY, "port": "9"})),
        ({"host": "::", "port": UNKNOWN}, {}, (("host", "port"), {"host": "::"})),
        ({"host": ""}, {"defaults": {"port": 8000}}, (("host",), {"host": ANYBODY, "port": "8000"})),
        ({"host": "*"}, {}, (("host",), {"host": "*"})),
        ({"host": "10.0.0.1"}, {}, None),
        ({}, {"defaults": {"host": "127.0.0.1"}}, None),
        ({}, {"defaults": {"host": ANYBODY}, "facts": {}}, ((), {"host": ANYBODY})),
        ({}, {"facts": {}}, None),
        ({}, {"facts": {"listens_everywhere": False}}, None),
        ({}, {"entry": "LLM"}, None), ({}, {"is_elided": True}, None), ({"uds": "/x"}, {}, None),
        ({"headless": True}, {}, None), ({"headless": UNKNOWN}, {}, ((), {"host": ANYBODY})),
        ({"api_key": UNKNOWN}, {}, None), ({}, {"environment": {"VLLM_API_KEY": None}}, None),
        ({"ssl_cert_reqs": 2}, {}, None), ({"ssl_cert_reqs": 0}, {}, ((), {"host": ANYBODY})),
    ],
)  # fmt: skip
def test_a_port_is_open_if_anyone_can_connect(
    flags: dict[str, Any], known: dict[str, Any], expected: tuple[tuple[str, ...], dict[str, str]] | None
) -> None:
    """By option, default or release; a key, certificate, socket or single host closes it."""
    facts = known.get("facts", {"listens_everywhere": True})
    more = {name: value for name, value in known.items() if name != "facts"}
    found = said(flags, None, {"facts": facts}, **{"entry": "serve", **more})

    assert found == ([("safety.open-port", *expected)] if expected else [])


SHARE = "gpu_memory_utilization"


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([({SHARE: 0.5}, "0"), ({SHARE: 0.5}, "0")], [(1, "gpu-shared", "0", "2", "1.00")]),
        ([({SHARE: 0.51}, "0"), ({SHARE: 0.5}, "0")], [(1, "gpu-overcommitted", "0", "2", "1.01")]),
        ([({SHARE: 0.5}, "0")] * 3, [(2, "gpu-overcommitted", "0", "3", "1.50")]),
        ([({SHARE: 0}, "0"), ({SHARE: 1}, "0")], [(1, "gpu-shared", "0", "2", "1.00")]),
        # An invalid share is unknown.
        ([({SHARE: 1.5}, "0"), ({SHARE: 0.5}, "0")], [(1, "gpu-shared", "0", "2", None)]),
        ([({SHARE: True}, "0"), ({SHARE: 0.5}, "0")], [(1, "gpu-shared", "0", "2", None)]),
        ([({SHARE: -0.1}, "0"), ({SHARE: 0.5}, "0")], [(1, "gpu-shared", "0", "2", None)]),
        # The launch's number of GPUs, from the first; each launch names one.
        ([({SHARE: 0.9}, "0,1"), ({SHARE: 0.9}, "1")], []),
        ([({SHARE: 0.9}, "0,1"), ({SHARE: 0.9}, "1,0"), ({SHARE: 0.9}, "0,2")],
         [(2, "gpu-overcommitted", "0", "2", "1.80")]),
        ([({SHARE: 0.9, TP: 2}, "0,0,1"), ({SHARE: 0.9}, "1")], [(1, "gpu-overcommitted", "1", "2", "1.80")]),
        ([({SHARE: 0.9, TP: "x"}, "0"), ({SHARE: 0.9}, "0")], []),
        ([({SHARE: 0.9, TP: "x"}, "0"), *[({SHARE: 0.9}, "0")] * 2], [(2, "gpu-overcommitted", "0", "2", "1.80")]),
    ],
)  # fmt: skip
def test_shares_of_a_gpu_are_summed(
    starts: list[tuple[dict[str, Any], str]], expected: list[tuple[int, str, str, str, str | None]]
) -> None:
    """A whole GPU may be used, and no more; unused GPUs have no share."""
    commands = [LaunchFacts(flags, BLANK, devices=tuple(seen.split(",")), entry="LLM") for flags, seen in starts]
    found = [
        (index, one.rule.removeprefix("meaning."), one.says["device"], one.says["starts"], one.says.get("total"))
        for index, one in meaning.rules_broken_together(commands)
    ]

    assert found == expected


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([{"port": 65535}] * 2, [(1, "65535", "2")]), ([{"port": 65536}] * 2, []), ([{"port": 0}] * 2, []),
        ([{"port": 1}] * 3, [(1, "1", "2"), (2, "1", "3")]), ([{"port": True}] * 2, []),
        ([{"port": 1, "host": "a"}, {"port": 1, "host": "b"}, {"port": 1, "host": "a"}], [(2, "1", "2")]),
        ([{"port": 1, "host": "a"}, {"port": 1, "host": ""}], [(1, "1", "2")]),
        ([{"port": 1, "host": 7}] * 2, []), ([{"port": 1, "nnodes": 2}] * 2, []),
        ([{"port": 1, "data_parallel_address": "a"}] * 2, []), ([{"port": 1, "headless": False}] * 2, []),
    ],
)  # fmt: skip
def test_a_port_is_used_once(starts: list[dict[str, Any]], expected: list[tuple[int, str, str]]) -> None:
    """By number and host; the message has the number of servers."""
    for entry in ("serve", "api_server", "image", "LLM"):
        commands = [LaunchFacts(flags, BLANK, entry=entry) for flags in starts]
        found = [
            (index, one.says["port"], one.says["starts"]) for index, one in meaning.rules_broken_together(commands)
        ]
        assert found == (expected if entry in ("serve", "api_server") else [])


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.text(), max_size=2)
DESTS = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "nnodes", "dtype", "quantization",
    "kv_cache_dtype", "attention_backend", "attention_config", "limit_mm_per_prompt", "mm_processor_kwargs", "host",
    "max_model_len", "tool_call_parser", "chat_template", "api_key", "allowed_local_media_path", "port", "device",
    "gpu_memory_utilization", "distributed_executor_backend", "trust_remote_code", "enforce_eager",
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(DESTS), VALUES | st.dictionaries(st.text(max_size=5), VALUES, max_size=2)),
    st.sampled_from([None, "Qwen/Qwen3-8B", "google/gemma-4-26B-A4B", "AutoGLM-Phone-9B", "deepseek-ai/DeepSeek-V3"]),
    st.sampled_from([None, "8xRTX3090", "T4", "L20", "RTX3090@a,H800@b"]),
    st.sampled_from(["0.6.6", "0.16.0", "0.33.0"]),
)
@settings(max_examples=80, deadline=None)
def test_any_value_can_be_checked(
    shelf: Specs, flags: dict[str, Any], model: str | None, gpus: str | None, vllm: str
) -> None:
    """Values of any type are checked or ignored, and messages are text."""
    judged = command(shelf, flags, vllm, model, gpus, entry="serve")
    for broken in meaning.rules_broken(judged):
        assert all(isinstance(value, str) for value in broken.says.values())
    together = [broken for _, broken in meaning.rules_broken_together([judged, judged])]
    port, host = flags.get("port"), flags.get("host")
    is_open = type(port) is int and 0 < port < 1 << 16 and (host is None or isinstance(host, str))
    is_shared = is_open and "nnodes" not in flags
    assert [broken.rule for broken in together] == ["meaning.port-shared"] * is_shared


def test_every_release_whose_options_are_known_has_its_support() -> None:
    """Both kinds of data are of the same releases, so one nearest release serves for both."""
    assert tuple(support._document()["releases"]) == options.known_releases()


@pytest.mark.parametrize(
    ("table", "name", "since", "until"),
    [
        ("tool_parsers", "gemma4", "0.19.0", None),
        ("tool_parsers", "hermes", "0.6.6", None),
        ("tool_parsers", "minimax", "0.9.2", "0.24.0"),
        ("reasoning_parsers", "deepseek_r1", "0.7.2", None),
        ("quantizations", "gptq_marlin_24", "0.6.6", "0.16.0"),
        ("activations", "mxfp4", "0.10.2", None),
        ("cache_types", "fp8_ds_mla", "0.11.2", None),
        ("backends", "XFORMERS", "0.6.6", "0.12.0"),
        ("modalities", "Glm4vForConditionalGeneration", "0.9.2", None),
    ],
)
def test_features_of_a_release_are_known(table: str, name: str, since: str, until: str | None) -> None:
    """A feature exists from its first release to the next known release without it."""
    known = support._document()["releases"]
    there = [version for version in known if name in getattr(support.load(version), table)]
    assert there[0] == since
    assert (None if there[-1] == known[-1] else known[known.index(there[-1]) + 1]) == until


SOURCES = {
    "tool_parsers/__init__.py": '_TOOL_PARSERS_TO_REGISTER = {"a": ("a_tool_parser", "A"), "b": ("b", "B")}\n',
    "reasoning/x.py": '@ReasoningParserManager.register_module(["r", "s"])\nclass X: pass\n',
    "model_executor/layers/quantization/__init__.py": (
        'QuantizationMethods = Literal["awq", "odd"]\nDEPRECATED_QUANTIZATION_METHODS = ["odd"]\n'
        'def get():\n    method_to_config: dict[str, type] = {"awq": AWQConfig, "odd": OddConfig}\n'
    ),
    "model_executor/layers/quantization/awq.py": (
        "class Base:\n    @classmethod\n    def get_min_capability(cls):\n        return 75\n"
        "    def get_supported_act_dtypes(self):\n        return [torch.half, torch.bfloat16]\n"
        "class AWQConfig(Base): pass\n"
        "class OddConfig:\n    def get_min_capability(self):\n        return 80 if x else 90\n"
    ),
    "config/model.py": '_FLOAT16_NOT_SUPPORTED_MODELS = {"b": "Overflows.", "a": "Overflows."}\n',
    "config/cache.py": 'CacheDType = Literal["auto", "fp8"]\n',
    "v1/attention/backends/registry.py": (
        "class AttentionBackendEnum(Enum):\n"
        '    FAST = "vllm.v1.attention.backends.fast.FastBackend"\n    NONE = ""\n'
        '    SLOW = "vllm.v1.attention.backends.fast.SlowBackend"\n'
        '    SOME = "vllm.v1.attention.backends.fast.SomeBackend"\n'
    ),
    "v1/attention/backends/fast.py": (
        "def supports_fp8():\n    return current_platform.is_device_capability_family(90)\n"
        "class FastBackend:\n"
        "    @classmethod\n    def supports_compute_capability(cls, capability):\n"
        "        return capability >= DeviceCapability(8, 0) and capability.major != 10\n"
        "    @classmethod\n    def supports_kv_cache_dtype(cls, kind):\n"
        '        if kind.startswith("fp8"):\n            return supports_fp8()\n        return kind == "auto"\n'
        "class SlowBackend:\n"
        '    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "fp8"]\n'
        "    @classmethod\n    def supports_compute_capability(cls, capability):\n"
        "        return capability.major in [7, 8]\n"
        "class SomeBackend(SlowBackend):\n"
        "    @classmethod\n    def supports_kv_cache_dtype(cls, kind):\n"
        '        if kind.startswith("fp8"):\n            return supports_fp8()\n'
        "        return super().supports_kv_cache_dtype(kind)\n"
    ),
    "model_executor/models/registry.py": (
        '_MODELS = {"XForCausalLM": ("x", "X"), "Y": ("y", "YModel"), "D": (a, "b"), "W": ("y", "W")}\n'
    ),
    "model_executor/models/x.py": "class X: pass\n",
    "model_executor/models/y.py": (
        "from .z import helper\n"
        "class YInfo(Base):\n    def get_supported_mm_limits(self):\n"
        '        limits = {"image": None}\n        if self.audio:\n            limits["audio"] = None\n'
        "        return limits\n"
        "@REGISTRY.register_processor(P, info=YInfo, dummy_inputs=D)\nclass YModel: pass\n"
        "class WInfo(YInfo):\n    def get_supported_mm_limits(self):\n"
        '        return {**super().get_supported_mm_limits(), "video": None}\n'
        "@REGISTRY.register_processor(P, info=WInfo)\nclass W: pass\n"
    ),
    "model_executor/models/z.py": (
        'def helper(mm_kwargs):\n    return mm_kwargs.get("max_pixels"), mm_kwargs["pixel_values"]\n'
    ),
    "entrypoints/cli_args.py": 'raise TypeError("Error: --enable-auto-tool-choice requires --tool-call-parser")\n',
    "entrypoints/server.py": 'sock_addr = (args.host or "", args.port)\n',
    "entrypoints/broken.py": "def (:\n",
}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_a_release_is_read_from_its_sources(release: Path) -> None:
    """Registries, least capabilities, backends, modalities and processor arguments are found by their form."""
    facts = supported.extract(release)
    assert list(facts["tool_parsers"]) == ["a", "b"]
    assert list(facts["reasoning_parsers"]) == ["r", "s"]
    assert facts["quantizations"] == {"awq": 75, "odd": None}
    assert facts["activations"] == {"awq": ["bfloat16", "float16"]}
    assert list(facts["cache_types"]) == ["auto", "fp8"]
    fast = {"8.0", "8.6", "8.9", "9.0", "12.0", "12.1"}
    assert set(facts["backends"]["FAST"]["capabilities"]) == fast
    assert facts["backends"]["FAST"]["fp8_from"] == "9.0"
    assert facts["backends"]["SLOW"]["cache_types"] == ["auto", "fp8"]
    assert facts["backends"]["NONE"] is None
    assert (facts["backends"]["FAST"]["decides"], facts["backends"]["SOME"]["decides"]) == (["fp8"], ["fp8"])
    assert facts["backends"]["FAST"]["families"] == [9]
    assert facts["modalities"] == {"XForCausalLM": {}, "Y": {"audio": False, "image": True}, "W": None}
    assert facts["processor_reads"] == {"Y": ["max_pixels"], "W": ["max_pixels"]}
    assert facts["facts"]["auto_tool_choice_needs_parser"] is True
    assert facts["facts"]["listens_everywhere"] is True
    assert facts["facts"]["float16_refused"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("raise ValueError(\"the gate's and up's weight is cut\")", True),
        ("validate_fp8_block_shape_moe(layer)", True),
        ("validate_fp8_block_shape_moe(layer, scale=weight_scale_refine)", False),
        ("validate_fp8_block_shape(layer)", False),
    ],
)
def test_uneven_blocks_of_experts_may_be_rejected(text: str, tmp_path: Path, *, is_refused: bool) -> None:
    """Older releases check it directly, newer ones in a function; refined scales are accepted."""
    path = tmp_path / "model_executor" / "layers" / "quantization" / "fp8.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert supported.extract(tmp_path)["facts"]["cut_blocks_of_experts_refused"] is is_refused


def test_a_release_without_data_is_empty(tmp_path: Path) -> None:
    """Missing data is left out, never guessed."""
    facts = supported.extract(tmp_path)
    assert {table: facts[table] for table in supported.TABLES if table != "facts"} == {
        table: {} for table in supported.TABLES if table != "facts"
    }


def test_releases_are_packed_and_unpacked_without_loss(release: Path, tmp_path: Path) -> None:
    """A document of many releases gives each one back; a new one takes its place by number."""
    newer = supported.extract(release)
    older = supported.extract(tmp_path / "nothing")
    document = supported.with_release(None, "0.10.0", newer)
    document = supported.with_release(document, "0.9.0", older)
    assert document["releases"] == ["0.9.0", "0.10.0"]
    assert supported.unpacked(document) == {"0.9.0": older, "0.10.0": newer}


def test_the_shipped_document_is_the_generators_output() -> None:
    """The file in the catalog is in the generator's own form, and small."""
    document = support._document()
    text = supported.written(document)
    path = folders.catalog_dir() / "releases" / "support.json"
    assert path.read_text(encoding="utf-8") == text
    assert supported.packed(supported.unpacked(document)) == document
    assert len(text) < 300_000


# ---- features of a release


def _backend(**told: Any) -> support.Backend:
    usual = {"capabilities": frozenset({(8, 0), (9, 0)}), "cache_types": frozenset({"auto", "fp8"})}
    return support.Backend(**{**usual, **told})


@pytest.mark.parametrize(
    ("told", "cache_type", "capability", "takes"),
    [
        ({}, "auto", (8, 0), True),
        ({}, "int8", (8, 0), False),
        ({}, "auto", (7, 5), False),
        ({"capabilities": None}, "auto", (8, 0), None),
        ({"cache_types": None}, "auto", (8, 0), None),
        ({"cache_types": None}, "auto", (7, 5), False),
        ({"decides": ("fp8",)}, "fp8_e5m2", (8, 0), None),
        ({"decides": ("fp8",), "fp8_from": (8, 9)}, "fp8", (8, 0), False),
        ({"decides": ("fp8",), "fp8_from": (8, 0)}, "fp8", (8, 0), None),
        ({"decides": ("int8",), "fp8_from": (8, 9)}, "int8", (8, 0), None),
        ({"decides": ("fp8",), "fp8_from": (8, 9)}, "auto", (8, 0), True),
        ({"decides": ("fp8",), "capabilities": None, "fp8_from": (8, 9)}, "fp8", (8, 0), False),
        ({"decides": ("fp8",), "families": (9,)}, "fp8", (8, 0), False),
        ({"decides": ("fp8",), "families": (9,)}, "fp8", (9, 0), None),
        ({"decides": ("fp8",), "families": (9,)}, "auto", (8, 0), True),
        ({"decides": ("",)}, "fp8", (8, 0), None),
        ({"decides": ("",)}, "fp8_inc", (8, 0), False),
        ({"decides": ("",), "cache_types": frozenset({"auto"})}, "fp8_inc", (8, 0), None),
    ],
)
def test_a_backend_supports_a_cache_as_in_its_sources(
    told: dict[str, Any], cache_type: str, capability: tuple[int, int], *, takes: bool | None
) -> None:
    """By GPU and dtype; undecided combinations stay open."""
    assert _backend(**told).takes(cache_type, capability) is takes


def test_backends_that_support_a_cache_are_nvidias() -> None:
    """Sorted by name, without MLA and other vendors; none for a release without data."""
    all_ = ("B_TWO", "A_ONE", "FLASH_MLA", "ROCM_ATTN", "TORCH_XPU", "PALLAS")
    data = replace(support.load("0.19.0"), backends={**{name: _backend() for name in all_}, "NONE": None})
    assert data.cache_takers("fp8", (8, 0)) == ("A_ONE", "B_TWO")
    assert data.cache_takers("fp8", (7, 5)) == ()
    for backends in ({}, {"NONE": None}, {"FLASH_MLA": _backend()}):
        assert replace(data, backends=backends).cache_takers("fp8", (8, 0)) is None


@pytest.mark.parametrize(
    ("release", "cache_type", "rejecting"),
    [
        ("0.25.1", "nvfp4", ("T4", "RTX3090", "H100-80GB", "RTX5090", "MI300X")),
        ("0.31.0", "nvfp4_4over6", ("T4", "RTX3090", "H100-80GB", "RTX5090", "MI300X")),
        ("0.33.0", "nvfp4", ("T4", "MI300X")),
        ("0.33.0", "fp8_inc", ("T4", "RTX3090", "H100-80GB", "B200", "RTX5090", "MI300X")),
        ("0.33.0", "octave_k3v4", ("T4", "RTX3090", "H100-80GB", "B200", "RTX5090")),
        ("0.33.0", "turboquant_k8v4", ()),
        ("0.33.0", "fp8_per_token_head", ()),
    ],
)
def test_a_cache_type_is_rejected_on_gpus_without_a_backend_for_it(
    shelf: Specs, release: str, cache_type: str, rejecting: tuple[str, ...]
) -> None:
    """By the sources of each release: NVFP4 needs compute capability 10.x, since 0.32.0 8.x, 9.x or 12.x, too."""
    names = ("T4", "RTX3090", "H100-80GB", "B200", "RTX5090", "MI300X")
    flags = {"kv_cache_dtype": cache_type}
    found = {
        name: [broken.says for broken in meaning.rules_broken(command(shelf, flags, release, QWEN3["model"], name))
               if broken.rule == "meaning.cache-type-unsupported"]
        for name in names
    }  # fmt: skip
    assert [name for name, says in found.items() if says] == list(rejecting)
    assert all(says == [{"type": cache_type, "amd": "MI300X"}] for says in [found["MI300X"]] if says)


def test_a_table_maps_ranges_of_releases_to_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first to the last release of a range; without a value it is undecided."""
    folder = tmp_path / "catalog" / "releases"
    folder.mkdir(parents=True)
    for name in ("0.1.0", "0.2.0", "0.3.0", "0.4.0"):
        (folder / f"{name}.json").write_text('{"set": {}, "unset": []}', encoding="utf-8")
    tables = (
        "tool_parsers", "reasoning_parsers", "cache_types", "modalities", "processor_reads",
        "facts", "activations",
    )  # fmt: skip
    document: dict[str, Any] = {name: {} for name in tables}
    document["releases"] = ["0.1.0", "0.2.0", "0.3.0"]
    document["facts"] = {"a": [[0, 0, "x"], [2, 2, "y"]], "b": [[1, 2]]}
    document["quantizations"] = {"q": [[1, 1, 75]]}
    document["backends"] = {
        "B": [[1, 2, {"capabilities": ["8.0", "12.1"], "cache_types": ["fp8"], "decides": ["f"], "fp8_from": "8.9"}]],
        "C": [[0, 2]],
        "D": [[0, 2, {}]],
    }
    document["activations"] = {"q": [[0, 2, ["half"]], [3, 3]], "r": [[0, 2]]}
    (folder / "support.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    for cached in (support._document, support.load):
        cached.cache_clear()
    try:
        found = [support.load(name) for name in ("0.1.0", "0.2.0", "0.3.0")]
        assert [dict(each.facts) for each in found] == [{"a": "x"}, {"b": None}, {"a": "y", "b": None}]
        assert [dict(each.quantizations) for each in found] == [{}, {"q": 75}, {}]
        assert [sorted(each.backends) for each in found] == [["C", "D"], ["B", "C", "D"], ["B", "C", "D"]]
        assert found[1].backends["B"] == support.Backend(
            frozenset({(8, 0), (12, 1)}), frozenset({"fp8"}), ("f",), (8, 9)
        )
        assert found[1].backends["C"] is None
        assert found[1].backends["D"] == support.Backend(None, None)
        assert found[0].activations == {"q": ("half",), "r": ()}
        assert [each.version for each in found] == ["0.1.0", "0.2.0", "0.3.0"]
        with pytest.raises(InputError, match=r"0\.4\.0: support\.json has no data of this release"):
            support.load("0.4.0")
        support._document.cache_clear()
        (folder / "support.json").write_text("{", encoding="utf-8")
        with pytest.raises(InputError, match=r"support\.json: cannot be read; reinstall the package"):
            support.load("0.4.0")
    finally:
        for cached in (support._document, support.load):
            cached.cache_clear()
