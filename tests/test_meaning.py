"""A start that means something else than what was meant is judged from all the facts it needs, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_runbooks import catalog, options, session, specs, support
from vllm_runbooks.authoring import spec_files
from vllm_runbooks.lint import meaning
from vllm_runbooks.lint.meaning import Command, Judgement
from vllm_runbooks.releases import supported
from vllm_runbooks.specs import Specs


@pytest.fixture(scope="module")
def shelf() -> Specs:
    return specs.load(spec_files.compile_specs)


METHODS = session.knowledge().tables["meaning.quantization-differs"]


def command(
    shelf: Specs,
    flags: Mapping[str, Any],
    vllm: str = "0.16.0",
    model: str | None = None,
    gpus: str | None = None,
    **known: Any,
) -> Command:
    return Command(
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
    return [judgement.rule for judgement in meaning.judge(command(*given_, **known))]


def only(shelf: Specs, rule: str, flags: Mapping[str, Any], **known: Any) -> Judgement:
    found = [judgement for judgement in meaning.judge(command(shelf, flags, **known)) if judgement.rule == rule]
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
    ("vocabulary-not-divisible", {"tensor_parallel_size": 3}, QWEN3, {"padded": "151936"}),
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


@pytest.mark.parametrize(("rule", "flags", "known", "says"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)])
def test_what_was_not_meant_is_judged(
    shelf: Specs, rule: str, flags: dict[str, Any], known: dict[str, Any], says: dict[str, str]
) -> None:
    """Each rule holds with all its facts, and tells the numbers it rests on."""
    judgement = only(shelf, f"meaning.{rule}", flags, **known)
    assert says.items() <= dict(judgement.says).items()
    assert all(value for value in judgement.says.values())


UNSAFE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("remote-code-needless", {"trust_remote_code": True}, {"model": "openai/gpt-oss-20b"}),
    ("remote-code", {"trust_remote_code": True}, {}),
    ("remote-code", {"trust_remote_code": True}, {"model": "deepseek-ai/DeepSeek-V3"}),
    ("whole-file-system", {"allowed_local_media_path": "/"}, {}),
    ("whole-file-system", {"allowed_local_media_path": "/data/.."}, {}),
    ("open-port", {"port": 10000}, {"entry": "serve"}),
    ("open-port", {"host": "0.0.0.0"}, {"entry": "api_server", "vllm": "0.7.2"}),  # noqa: S104 - what is judged
    ("secret-in-arguments", {"api_key": ["token"]}, {}),
    ("secret-in-arguments", {"hf_token": "token"}, {}),
]


@pytest.mark.parametrize(("rule", "flags", "known"), UNSAFE)
def test_what_is_unsafe_is_judged(shelf: Specs, rule: str, flags: dict[str, Any], known: dict[str, Any]) -> None:
    """Safety needs few facts; a secret is never among what is told."""
    judgement = only(shelf, f"safety.{rule}", flags, **known)
    assert "token" not in str(dict(judgement.says)).replace("hf-token", "")


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


@pytest.mark.parametrize(("why", "flags", "known"), SILENT, ids=[case[0] for case in SILENT])
def test_what_is_right_or_unknown_is_not_judged(
    shelf: Specs, why: str, flags: dict[str, Any], known: dict[str, Any]
) -> None:
    """Nothing is told of what is in order, nor where a fact is missing."""
    quiet = {"meaning.kv-heads-replicated"}
    assert [rule for rule in rules(shelf, flags, **known) if rule not in quiet] == [], why


def test_every_rule_is_shown_to_hold() -> None:
    """No rule is listed that no example above or below reaches."""
    shown = {f"meaning.{case[0]}" for case in BROKEN} | {f"safety.{case[0]}" for case in UNSAFE}
    known = [rule.id for rule in session.knowledge().rules.values() if rule.id.startswith(("meaning.", "safety."))]
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
def test_starts_that_share_a_gpu_are_told(
    shelf: Specs, starts: list[tuple[dict[str, Any], tuple[str, ...] | None]], expected: list[Any]
) -> None:
    """Two instances on one named GPU are told once, as too much where their shares are known to exceed it."""
    commands = [
        command(shelf, flags, devices=devices, defaults={"gpu_memory_utilization": 0.9}) for flags, devices in starts
    ]
    found = [(index, said.rule, said.says.get("total")) for index, said in meaning.judge_together(commands)]
    assert found == expected


@pytest.mark.parametrize(
    ("starts", "known", "expected"),
    [
        ([{}, {}], {}, [1]),
        ([{"port": 8001}, {"port": 8002}, {"port": 8001}], {}, [2]),
        ([{"port": 8001}, {"port": 8001}, {"port": 8001}], {}, [1, 2]),
        ([{"host": "127.0.0.1"}, {"host": "0.0.0.0"}], {}, [1]),  # noqa: S104 - what is judged
        ([{"host": "10.0.0.1"}, {"host": "10.0.0.2"}], {}, []),
        ([{"port": UNKNOWN}, {"port": UNKNOWN}], {}, []),
        ([{"uds": "/a"}, {"uds": "/b"}, {"headless": True}], {}, []),
        ([{}, {}], {"has_own_network": True}, []),
        ([{}, {}], {"is_elided": True}, []),
    ],
)
def test_servers_on_one_port_are_told(
    shelf: Specs, starts: list[dict[str, Any]], known: dict[str, Any], expected: list[int]
) -> None:
    """Each server whose port an earlier one of the same host has; one that is not known to be the host's is not."""
    commands = [
        command(shelf, flags, entry="serve", defaults={"port": 8000, "host": None}, **known) for flags in starts
    ]
    assert [index for index, said in meaning.judge_together(commands) if said.rule == "meaning.port-shared"] == expected


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
def test_no_value_raises(shelf: Specs, flags: dict[str, Any], model: str | None, gpus: str | None, vllm: str) -> None:
    """Values of any type are judged or passed over, and what is told is words."""
    judged = command(shelf, flags, vllm, model, gpus, entry="serve")
    for judgement in meaning.judge(judged):
        assert all(isinstance(value, str) for value in judgement.says.values())
    together = [judgement for _, judgement in meaning.judge_together([judged, judged])]
    port, host = flags.get("port"), flags.get("host")
    is_open = type(port) is int and 0 < port < 1 << 16 and (host is None or isinstance(host, str))
    is_shared = is_open and "nnodes" not in flags
    assert [judgement.rule for judgement in together] == ["meaning.port-shared"] * is_shared


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
def test_what_a_release_has_is_known(table: str, name: str, since: str, until: str | None) -> None:
    """A thing is there from the release that brings it up to the next known release that lacks it."""
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
    assert list(facts["deprecated_quantizations"]) == ["odd"]
    assert facts["activations"] == {"awq": ["bfloat16", "float16"]}
    assert list(facts["cache_types"]) == ["auto", "fp8"]
    fast = {"8.0", "8.6", "8.9", "9.0", "12.0", "12.1"}
    assert set(facts["backends"]["FAST"]["capabilities"]) == fast
    assert facts["backends"]["FAST"]["fp8_from"] == "9.0"
    assert facts["backends"]["SLOW"]["cache_types"] == ["auto", "fp8"]
    assert facts["backends"]["NONE"] is None
    assert facts["modalities"] == {"XForCausalLM": {}, "Y": {"audio": False, "image": True}, "W": None}
    assert facts["processor_reads"] == {"Y": ["max_pixels"], "W": ["max_pixels"]}
    assert facts["facts"]["auto_tool_choice_needs_parser"] is True
    assert facts["facts"]["listens_everywhere"] is True
    assert facts["facts"]["float16_refused"] == ["a", "b"]


def test_a_release_without_anything_is_empty(tmp_path: Path) -> None:
    """What is not there is left out, never guessed."""
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


def test_the_shipped_document_is_what_the_generator_writes() -> None:
    """The file in the catalog is in the generator's own form, and small."""
    document = support._document()
    text = supported.written(document)
    path = catalog.catalog_dir() / "releases" / "support.json"
    assert path.read_text(encoding="utf-8") == text
    assert supported.packed(supported.unpacked(document)) == document
    assert len(text) < 300_000
