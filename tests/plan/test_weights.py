"""A model's weights are counted to the last parameter, with the layout of vLLM."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cost import seconds
from rows import in_one_test
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.encoders import encoder_tensors
from vllm_runbooks.plan.shape import Encoder, Rope, shape
from vllm_runbooks.plan.tensors import ModelTensor
from vllm_runbooks.plan.weights import (
    Loaded,
    Ranks,
    TensorInventory,
    inventory,
    load,
    mxfp4_kernel,
    on_rank,
    stages,
    table_bytes,
)

GIB = 2**30

PARAMETERS = """
HuggingFaceTB/SmolLM-1.7B-Instruct 1711376384
HuggingFaceTB/SmolLM2-135M-Instruct 134515008
HuggingFaceTB/SmolLM2-360M-Instruct 361821120
MiniMaxAI/MiniMax-M2.5 228703644928
MiniMaxAI/MiniMax-M2.7 228689764864 s
OpenGVLab/InternVL3-8B 7944373760
Qwen/Qwen1.5-MoE-A2.7B-Chat 14315784192
Qwen/Qwen2-0.5B-Instruct 494032768
Qwen/Qwen2-1.5B-Instruct 1543714304
Qwen/Qwen2-7B-Instruct 7615616512
Qwen/Qwen2-VL-72B-Instruct 73405560320
Qwen/Qwen2.5-0.5B 494032768
Qwen/Qwen2.5-0.5B-Instruct 494032768
Qwen/Qwen2.5-1.5B 1543714304
Qwen/Qwen2.5-1.5B-Instruct 1543714304
Qwen/Qwen2.5-14B 14770033664
Qwen/Qwen2.5-14B-Instruct 14770033664
Qwen/Qwen2.5-14B-Instruct-AWQ 14770033664
Qwen/Qwen2.5-32B 32763876352
Qwen/Qwen2.5-32B-Instruct 32763876352
Qwen/Qwen2.5-3B 3085938688
Qwen/Qwen2.5-3B-Instruct 3085938688
Qwen/Qwen2.5-72B 72706203648
Qwen/Qwen2.5-7B 7615616512
Qwen/Qwen2.5-7B-Instruct 7615616512
Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4 7615616512
Qwen/Qwen2.5-VL-3B-Instruct 3754622976
Qwen/Qwen2.5-VL-72B-Instruct 73410777344
Qwen/Qwen2.5-VL-7B-Instruct 8292166656
Qwen/Qwen3-14B 14768307200
Qwen/Qwen3-235B-A22B 235093634560
Qwen/Qwen3-235B-A22B-FP8 235107904512
Qwen/Qwen3-235B-A22B-Thinking-2507 235093634560
Qwen/Qwen3-30B-A3B 30532122624
Qwen/Qwen3-30B-A3B-Base 30532122624
Qwen/Qwen3-30B-A3B-FP8 30533947392
Qwen/Qwen3-30B-A3B-Instruct-2507 30532122624
Qwen/Qwen3-30B-A3B-Thinking-2507 30532122624
Qwen/Qwen3-32B 32762123264
Qwen/Qwen3-32B-FP8 32764027904
Qwen/Qwen3-4B 4022468096
Qwen/Qwen3-4B-Instruct-2507 4022468096
Qwen/Qwen3-4B-Thinking-2507 4022468096
Qwen/Qwen3-8B 8190735360
Qwen/Qwen3-Coder-30B-A3B-Instruct 30532122624
Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 30533947392
Qwen/Qwen3-Coder-480B-A35B-Instruct 480154875392
Qwen/Qwen3-Embedding-0.6B 595776512
Qwen/Qwen3-Embedding-4B 4021774336
Qwen/Qwen3-Next-80B-A3B-Instruct 81324862720
Qwen/Qwen3-VL-235B-A22B-Instruct 235670022896
Qwen/Qwen3-VL-2B-Instruct 2127532032
Qwen/Qwen3-VL-30B-A3B-Instruct 31070754032
Qwen/Qwen3-VL-32B-Instruct 33357390064
Qwen/Qwen3-VL-32B-Thinking 33357390064
Qwen/Qwen3-VL-4B-Instruct 4437815808
Qwen/Qwen3-VL-8B-Instruct 8767123696
Qwen/Qwen3.5-122B-A10B 125086497008
Qwen/Qwen3.5-27B 27781427952
Qwen/Qwen3.5-35B-A3B 35951822704
Qwen/Qwen3.5-397B-A17B 403397928944
Qwen/Qwen3.5-9B 9653104368
Qwen/Qwen3.6-35B-A3B 35951822704
TinyLlama/TinyLlama-1.1B-Chat-v1.0 1100048384
XiaomiMiMo/MiMo-7B-Base 7833409536
bigcode/starcoder2-7b 7173923840
codellama/CodeLlama-13b-hf 13016028160
codellama/CodeLlama-7b-hf 6738546688
deepseek-ai/DeepSeek-R1 684489845504 s
deepseek-ai/DeepSeek-R1-Distill-Llama-8B 8030261248
deepseek-ai/DeepSeek-V3 684531386000
deepseek-ai/DeepSeek-V3.2 685355329792 s
google/gemma-2-27b-it 27227128320
google/gemma-2-2b-it 2614341888
google/gemma-2-9b 9241705984
google/gemma-2-9b-it 9241705984
google/gemma-2b-it 2506172416
google/gemma-3-1b-it 999885952
google/gemma-3-27b-it 27432406640
google/gemma-4-E2B-it 5123178051
google/gemma-4-E4B-it 7996156490
llava-hf/llava-1.5-7b-hf 7063427072
meta-llama/Llama-3.1-70B-Instruct 70553706496
meta-llama/Llama-3.1-8B-Instruct 8030261248
meta-llama/Llama-3.2-11B-Vision-Instruct 10670220835
meta-llama/Llama-3.2-1B-Instruct 1235814400
meta-llama/Llama-3.2-3B 3212749824
meta-llama/Llama-3.2-3B-Instruct 3212749824
meta-llama/Llama-3.2-90B-Vision-Instruct 88593355323
meta-llama/Meta-Llama-3-70B 70553706496
meta-llama/Meta-Llama-3-8B 8030261248
meta-llama/Meta-Llama-3-8B-Instruct 8030261248
microsoft/Phi-3-mini-128k-instruct 3821079552
microsoft/Phi-3-mini-4k-instruct 3821079552
microsoft/Phi-3.5-mini-instruct 3821079552
microsoft/Phi-4-mini-instruct 3836021760
microsoft/phi-2 2779683840
microsoft/phi-4 14659507200
mistralai/Devstral-Small-2-24B-Instruct-2512 24011361840
mistralai/Mistral-7B-Instruct-v0.3 7248023552
mistralai/Mistral-7B-v0.1 7241732096
mistralai/Mistral-Small-3.1-24B-Instruct-2503 24011361280
moonshotai/Kimi-K2.5 1026879376368
nvidia/DeepSeek-V3.1-NVFP4 393632819968
nvidia/DeepSeek-V3.2-NVFP4 394498304256
nvidia/GLM-5-NVFP4 435238854912
nvidia/GLM-5.1-NVFP4 381523333632 scm
nvidia/GLM-5.3-NVFP4 390942074880 s
nvidia/Llama-3.1-70B-Instruct-FP8 70553706496
nvidia/Llama-3_3-Nemotron-Super-49B-v1 49867145216
nvidia/MiniMax-M2.5-NVFP4 116349510656 sc
nvidia/MiniMax-M2.7-NVFP4 116349510656 sc
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 31577937344 c
nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8 123611012096 c
nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16 560524578816 c
nvidia/Nemotron-H-56B-Base-8K 56324350464
nvidia/Qwen3-235B-A22B-NVFP4 132806618624
nvidia/Qwen3.5-122B-A10B-NVFP4 64580759280 sm
nvidia/Qwen3.6-27B-NVFP4 18164649200 sm
nvidia/Qwen3.6-35B-A3B-NVFP4 18683860336 sm
openai/gpt-oss-120b 116829156672
openai/gpt-oss-20b 20914757184
zai-org/GLM-5 753864139008
zai-org/GLM-5-FP8 753910024032
zai-org/GLM-5.1 753864139008
zai-org/GLM-5.1-FP8 753910024032
zai-org/GLM-5.2 753329940480
zai-org/GLM-5.2-FP8 753329940480 s
zai-org/GLM-5.3 753329940480
JetBrains/Mellum2-12B-A2.5B-Base 12149923072
JetBrains/Mellum2-12B-A2.5B-Instruct 12149923072
JetBrains/Mellum2-12B-A2.5B-Thinking 12149923072
poolside/Laguna-S-2.1 117561977600
poolside/Laguna-XS-2.1 33442617088
poolside/Laguna-XS.2 33442617088
Qwen/Qwen3.8-2.4T-A95B 2446182725504
allenai/OLMo-2-0325-32B-Instruct 32234279936
allenai/OLMo-2-0425-1B 1484916736
allenai/OLMo-2-0425-1B-Instruct 1484916736
allenai/OLMo-2-1124-13B-Instruct 13716198400
allenai/OLMo-2-1124-7B-Instruct 7298617344
ibm-granite/granite-swash-2b 2144463840
meta-llama/Llama-3.1-405B-Instruct 405853388800
swiss-ai/Apertus-70B-2509 70599864480
swiss-ai/Apertus-70B-Instruct-2509 70599864480
swiss-ai/Apertus-8B-2509 8053338176
IQuestLab/IQuest-Coder-V1-40B-Instruct 39794283520
XiaomiMiMo/MiMo-7B-RL 7833409536
"""
"""Published counts (PyPI llmfit 1.1.17, hf_models.json, parameters_raw: what the Hub counts in the files).
A last letter names what the count leaves out: s scales, c biases of the choice of experts,
m layers for speculative decoding."""

EXPLAINED = {
    "Qwen/Qwen3-0.6B": (155_582_464, "the files hold a head beside the tied embedding"),
    "Qwen/Qwen3-1.7B": (311_164_928, "the files hold a head beside the tied embedding"),
    "google/medgemma-27b-it": (1_409_630_208, "the files hold a head beside the tied embedding"),
    "Qwen/Qwen3-Embedding-8B": (-621_219_840, "the files of an embedding model hold no head"),
    "google/gemma-4-26B-A4B-it": (2_304, "`standardize`: not in the configuration's copy"),
    "google/gemma-4-31B-it": (2_304, "`standardize`: not in the configuration's copy"),
    "meta-llama/Llama-2-13b-hf": (2_560, "the files hold inverse frequencies"),
    "meta-llama/Llama-2-7b-hf": (2_048, "the files hold inverse frequencies"),
    "zai-org/glm-4-9b": (32, "the files hold inverse frequencies"),
}
"""Counts that differ because the files contain more than the configuration shows."""

KEPT: list[tuple[str, str, str, float, dict[str, Any]]] = [
    # what, model, release, printed GiB, launch
    ("gpt-oss-and-gemma-on-a100 1", "openai/gpt-oss-20b", "0.19.0", 13.72, {"capability": (8, 0)}),
    ("gpt-oss-and-gemma-on-a100 2", "google/gemma-4-26B-A4B-it", "0.19.0", 48.5, {}),
    ("gpt-oss-and-gemma-on-a100 3", "google/gemma-4-26B-A4B-it", "0.19.0", 25.7, {"quantization": "fp8"}),
    ("gpt-oss-and-gemma-on-a100 4", "google/gemma-4-31B-it", "0.19.0", 58.9, {}),
    ("qwen-a100-relogged-by-wrapper", "Qwen/Qwen2.5-0.5B-Instruct", "0.11.0", 0.93, {}),
    ("qwen-2x24gb-mp-glued", "Qwen/Qwen2.5-1.5B-Instruct", "0.7.2", 1.4495, {"tp": 2}),
    ("github 2215860382/VedioSifter", "Qwen/Qwen3-30B-A3B-Instruct-2507", "0.12.0", 56.9342, {}),
    ("github GiakyLi/llm-app-framework", "Qwen/Qwen3-4B-Instruct-2507", "0.10.0", 7.6065, {}),
    ("github Kelsidavis/rusteze", "Qwen/Qwen2.5-7B-Instruct", "0.13.0", 14.1931, {}),
    ("github LzyFischer/MemSuit", "meta-llama/Llama-3.1-8B-Instruct", "0.17.1", 14.99, {}),
    (
        "github NnamdiOdozi/mlops-assignment",
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "0.22.1",
        29.08,
        {"quantization": "fp8"},
    ),
    ("github StellaLee/vllm-experiment", "Qwen/Qwen2.5-7B-Instruct", "0.23.0", 14.29, {}),
    ("github amdgoose/arno_vllm_chat (ROCm)", "Qwen/Qwen2.5-7B-Instruct", "0.17.0", 14.37, {}),
    ("github faradawn/bench3", "meta-llama/Meta-Llama-3-8B-Instruct", "0.11.2", 14.9596, {}),
    ("github fpolica91/triton-example (ROCm)", "MiniMaxAI/MiniMax-M2.5", "0.16.0", 54.97, {"tp": 4}),
    (
        "github giyushino/ModelMerging",
        "Qwen/Qwen2.5-1.5B",
        "0.9.2",
        2.8798,
        {"config": {"max_position_embeddings": 4096}},
    ),
    (
        "github jayashan10/Deepseek-qwen-deployment",
        "Qwen/Qwen2.5-14B",
        "0.8.5",
        27.5916,
        {"config": {"tie_word_embeddings": False}},
    ),
    ("github kumaxxp/duo-talk", "Qwen/Qwen2.5-14B-Instruct-AWQ", "0.13.0", 9.3795, {}),
    ("llm-d-planner log, tp 4", "meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 3.77, {"tp": 4}),
    ("llm-d-planner log, gpt-oss tp 2", "openai/gpt-oss-20b", "0.19.0", 7.01, {"tp": 2, "capability": (9, 0)}),
    ("github parallelworks/activate-rag-vllm", "openai/gpt-oss-120b", "0.15.1", 32.98, {"tp": 2, "capability": (9, 0)}),
    ("github sridhar1804/local-ai", "microsoft/Phi-3-mini-4k-instruct", "0.19.1", 7.12, {}),
    ("vllm#13258", "meta-llama/Llama-2-70b-hf", "0.6.3", 16.0698, {"tp": 8}),
    ("vllm#16378", "google/gemma-3-27b-it", "0.8.0", 13.1664, {"tp": 4}),
    ("vllm#16692", "deepseek-ai/DeepSeek-R1", "0.8.4", 40.3174, {"tp": 16}),
    (
        "github zjpzhao/vllm-qwen3vl-cu118-t4",
        "Qwen/Qwen3-VL-2B-Instruct",
        "0.11.0",
        3.4554,
        {"encoder_off": True, "tokens": 8192},
    ),
    ("llm-d-planner 0.19.0 report tp1", "meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 14.99, {}),
    ("llm-d-planner 0.19.0 report tp2", "meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 7.51, {"tp": 2}),
    ("llm-d-planner 0.19.0 report q7 tp1", "Qwen/Qwen2.5-7B-Instruct", "0.19.0", 14.25, {}),
    ("llm-d-planner 0.19.0 report q7 tp2", "Qwen/Qwen2.5-7B-Instruct", "0.19.0", 7.12, {"tp": 2}),
    ("llm-d-planner 0.19.0 report q7 tp4", "Qwen/Qwen2.5-7B-Instruct", "0.19.0", 3.55, {"tp": 4}),
    ("llm-d-planner 0.19.0 report 8b pp2", "meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 7.51, {"pp": 2}),
    ("llm-d-planner 0.19.0 report 8b pp4", "meta-llama/Llama-3.1-8B-Instruct", "0.19.0", 4.26, {"pp": 4}),
    ("llm-d-planner 0.19.0 report q3-8b pp3", "Qwen/Qwen3-8B", "0.19.0", 5.48, {"pp": 3}),
    ("llm-d-planner 0.19.0 report moe a2.7", "Qwen/Qwen1.5-MoE-A2.7B-Chat", "0.19.0", 26.67, {}),
    ("llm-d-planner 0.19.0 report q3-8b", "Qwen/Qwen3-8B", "0.19.0", 15.27, {}),
    ("llm-d-benchmark table 20b", "openai/gpt-oss-20b", "0.15.0", 13.47, {"capability": (9, 0)}),
    ("llm-d-benchmark table 120b", "openai/gpt-oss-120b", "0.15.0", 64.38, {"capability": (9, 0)}),
    ("llm-d-benchmark table 70b fp8 tp2", "nvidia/Llama-3.1-70B-Instruct-FP8", "0.15.0", 33.88, {"tp": 2}),
    ("llm-d-benchmark table q3 .6", "Qwen/Qwen3-0.6B", "0.15.0", 1.12, {}),
    ("printed by worker.py, 1.5b", "Qwen/Qwen2.5-1.5B-Instruct", "0.7.3", 2.89, {}),
    (
        "printed by worker.py, q3-8b tp4",
        "Qwen/Qwen3-8B",
        "0.8.5",
        3.85,
        {"tp": 4, "config": {"max_position_embeddings": 131072}},
    ),
    ("printed by worker.py, llama6", "meta-llama/Llama-3.1-8B-Instruct", "0.6.6", 14.99, {}),
    ("printed by worker.py, 7b", "Qwen/Qwen2.5-7B-Instruct", "0.7.3", 14.27, {}),
    ("printed by worker.py, 32b tp2", "Qwen/Qwen2.5-32B", "0.7.3", 30.73, {"tp": 2}),
    ("printed by worker.py, .5b", "Qwen/Qwen2.5-0.5B", "0.6.6", 0.93, {}),
    (
        "printed by worker.py, math1.5",
        "Qwen/Qwen2.5-1.5B",
        "0.7.2",
        2.88,
        {"config": {"max_position_embeddings": 4096}},
    ),
    ("printed by worker.py, vl3b", "Qwen/Qwen2.5-VL-3B-Instruct", "0.7.3", 7.16, {}),
    ("printed by worker.py, 7b 085", "Qwen/Qwen2.5-7B-Instruct", "0.8.5", 14.25, {}),
    ("vllm#12126", "meta-llama/Llama-3.2-11B-Vision-Instruct", "0.7.0", 19.86, {}),
    ("vllm#10511", "meta-llama/Meta-Llama-3-8B", "0.6.5", 14.96, {}),
    ("vllm#10511, tp 2", "meta-llama/Meta-Llama-3-8B", "0.6.5", 7.48, {"tp": 2}),
    ("gateway-api-inference-extension#550", "meta-llama/Llama-2-7b-hf", "0.8.1", 12.55, {}),
    ("dsv2lite tp8", "deepseek-ai/DeepSeek-V2-Lite", "0.7.2", 3.97, {"tp": 8, "config": {"q_lora_rank": None}}),
    ("qwen3next tp4", "Qwen/Qwen3-Next-80B-A3B-Instruct", "0.10.2", 37.99, {"tp": 4, "with_mtp": True}),
    ("q3 8b 4090", "Qwen/Qwen3-8B", "0.15.0", 15.27, {}),
    ("q3vl8b b200", "Qwen/Qwen3-VL-8B-Instruct", "0.15.0", 16.97, {"tokens": 16384}),
    (".5b", "Qwen/Qwen2.5-0.5B", "0.26.0", 0.93, {}),
    ("l8b a100", "meta-llama/Llama-3.1-8B-Instruct", "0.31.0", 15.0, {}),
    ("vllm#17122", "meta-llama/Llama-3.1-8B-Instruct", "0.8.5", 14.9889, {}),
]
"""Launches with a printed "Model loading took" and a known configuration."""


@cache
def files() -> dict[str, specs.ModelFile]:
    return {file.id: file for file in specs.load(spec_files.compile_specs).files}


@pytest.fixture(scope="module")
def shelf() -> dict[str, specs.ModelFile]:
    return files()


def stock(file: specs.ModelFile, **changes: Any) -> TensorInventory:
    return inventory(shape({**file.config, **changes}, is_partial=file.is_partial))


def started(stock_: TensorInventory, release: str, options: dict[str, Any]) -> Loaded:
    """The stage with the largest weights of a launch."""
    options = dict(options)
    ranks = Ranks(options.pop("tp", 1), options.pop("pp", 1))
    loaded = load(stock_, ranks, release=tuple(map(int, release.split("."))), **options)
    assert loaded is not None, stock_.missing
    return max(loaded, key=lambda stage: stage.expected)


def measured(shelf: dict[str, specs.ModelFile]) -> list[tuple[str, float, Loaded]]:
    found = []
    for what, model, release, gib, told in KEPT:
        if model in shelf and not shelf[model].is_partial:
            options = dict(told)
            changes = options.pop("config", {})
            found.append((what, gib, started(stock(shelf[model], **changes), release, options)))
    return found


def test_parameters_are_exact(shelf: dict[str, specs.ModelFile]) -> None:
    """Every published count of a model of the catalog is met to the last parameter."""
    wrong = {}
    counted = 0
    for line in PARAMETERS.split("\n"):
        name, number, *left = line.split() or ("", "0")
        if name in shelf:
            out = left[0] if left else ""
            count = stock(shelf[name]).parameters(
                with_scales="s" not in out, with_corrections="c" not in out, with_mtp="m" not in out
            )
            counted += 1
            if count != int(number):
                wrong[name] = (count, int(number))
    assert wrong == {}
    assert counted >= 129


CLASS_DEFAULTS: list[tuple[str, int, dict[str, Any]]] = [
    (
        "olmo2",
        6888624128,
        {
            "vocab_size": 50304,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    (
        "olmo3",
        6888624128,
        {
            "vocab_size": 50304,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    (
        "seed_oss",
        28921040896,
        {
            "vocab_size": 155136,
            "hidden_size": 4096,
            "intermediate_size": 27648,
            "num_hidden_layers": 64,
            "num_attention_heads": 80,
        },
    ),
    (
        "smollm3",
        3075098624,
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
        },
    ),
    (
        "ernie4_5",
        360748032,
        {
            "vocab_size": 103424,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 18,
            "num_attention_heads": 16,
        },
    ),
    (
        "ernie4_5_moe",
        21825437888,
        {
            "vocab_size": 103424,
            "hidden_size": 2560,
            "intermediate_size": 12288,
            "num_hidden_layers": 28,
            "num_attention_heads": 20,
        },
    ),
    (
        "phimoe",
        41872793600,
        {
            "vocab_size": 32064,
            "hidden_size": 4096,
            "intermediate_size": 6400,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    ("granite", 6738415616, {}),
    (
        "exaone4",
        9429069824,
        {
            "vocab_size": 102400,
            "hidden_size": 4096,
            "intermediate_size": 16384,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    (
        "glm4",
        9400279040,
        {
            "vocab_size": 151552,
            "hidden_size": 4096,
            "intermediate_size": 13696,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "attention_bias": True,
        },
    ),
    (
        "glm4_moe",
        103481200640,
        {
            "vocab_size": 151552,
            "hidden_size": 4096,
            "intermediate_size": 10944,
            "num_hidden_layers": 46,
            "num_attention_heads": 96,
        },
    ),
    (
        "kimi_linear",
        49133074464,
        {
            "vocab_size": 163840,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 27,
            "num_attention_heads": 32,
            "linear_head_dim": 128,
            "linear_num_heads": 32,
            "linear_conv_kernel_dim": 4,
            "layer_types": [*["linear_attention"] * 4, *["full_attention", *["linear_attention"] * 3] * 5]
            + ["full_attention"]
            + ["linear_attention"] * 2,
        },
    ),
    (
        "phi",
        1418270720,
        {
            "vocab_size": 51200,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
        },
    ),
    (
        "mixtral",
        46702792704,
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
    ),
    (
        "starcoder2",
        3030371328,
        {
            "vocab_size": 49152,
            "hidden_size": 3072,
            "intermediate_size": 12288,
            "num_hidden_layers": 30,
            "num_attention_heads": 24,
        },
    ),
    ("gemma3n_text", 6866696688, {"hidden_size": 2048, "intermediate_size": [16384] * 35, "num_hidden_layers": 35}),
    ("glm4v", 10292777472, {"vision_config": {}}),
    (
        "qwen2_vl",
        73381962752,
        {
            "text_config": {
                "hidden_size": 8192,
                "intermediate_size": 29568,
                "num_hidden_layers": 80,
                "num_attention_heads": 64,
            },
            "vision_config": {"hidden_size": 3584},
        },
    ),
    (
        "qwen2_5_vl",
        75789228800,
        {
            "text_config": {
                "hidden_size": 8192,
                "intermediate_size": 29568,
                "num_hidden_layers": 80,
                "num_attention_heads": 64,
            },
            "vision_config": {"out_hidden_size": 3584},
        },
    ),
    (
        "qwen3_vl",
        12616410352,
        {
            "text_config": {
                "vocab_size": 151936,
                "hidden_size": 4096,
                "intermediate_size": 22016,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
            },
            "vision_config": {"out_hidden_size": 3584},
        },
    ),
    (
        "llava",
        7062902784,
        {
            "vision_config": {
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "image_size": 336,
                "patch_size": 14,
            }
        },
    ),
    (
        "mistral3",
        23340272640,
        {
            "vision_config": {"patch_size": 14},
            "text_config": {
                "vocab_size": 131072,
                "hidden_size": 5120,
                "intermediate_size": 32768,
                "num_hidden_layers": 40,
                "num_attention_heads": 32,
                "head_dim": 128,
            },
            "tie_word_embeddings": True,
        },
    ),
    (
        "gemma3",
        2723312896,
        {"text_config": {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26}, "vision_config": {}},
    ),
    (
        "llama4",
        108225039360,
        {
            "vision_config": {},
            "text_config": {
                "hidden_size": 5120,
                "intermediate_size": 8192,
                "num_hidden_layers": 48,
                "num_attention_heads": 40,
            },
        },
    ),
]
"""Parameters of a class with its own defaults (transformers 5.19.0, built without memory), and which defaults matter.
Gemma 3n's also has projections of the layers that share a cache, as in its checkpoints and vLLM."""


@in_one_test(("model_type", "count", "config"), CLASS_DEFAULTS, ids=[row[0] for row in CLASS_DEFAULTS])
def test_classes(model_type: str, count: int, config: dict[str, Any]) -> None:
    """A family has as many parameters as its class in transformers builds."""
    found = inventory(shape({"model_type": model_type, "architectures": ["X"], **config}))
    assert count in {found.parameters(with_corrections=choice, with_mtp=False) for choice in (True, False)}


@pytest.mark.parametrize("name", EXPLAINED)
def test_components_add_up(shelf: dict[str, specs.ModelFile], name: str) -> None:
    """The components of an unquantized model sum to its parameters, also if files contain more."""
    found = stock(shelf[name])
    assert (
        sum(tensor.values * times for tensor, _, times in found.everything if tensor.in_checkpoint)
        == found.parameters()
    )


def test_measured_launches(shelf: dict[str, specs.ModelFile]) -> None:
    """Nine of ten measured launches print the sum within 1%, and are in the range."""
    found = measured(shelf)
    print_rounding = 0.005
    near = [abs(load_.expected / GIB - gib) <= gib / 100 + print_rounding for _, gib, load_ in found]
    inside = [load_.low / GIB - print_rounding <= gib <= load_.high / GIB + print_rounding for _, gib, load_ in found]
    assert len(found) >= 60
    assert sum(near) >= 0.95 * len(found)
    assert sum(inside) >= 0.9 * len(found)


@pytest.mark.parametrize("start", KEPT[:6])
def test_launches_of_the_documents(
    shelf: dict[str, specs.ModelFile], start: tuple[str, str, str, float, dict[str, Any]]
) -> None:
    """Within half a percent, including the rounding of their lines."""
    _, model, release, gib, told = start
    decimals = len(str(gib).partition(".")[2])
    away = abs(started(stock(shelf[model]), release, told).expected / GIB - gib)
    assert away <= 0.005 * gib + 0.5 * 10**-decimals


@pytest.mark.parametrize(
    ("layers", "ranks", "release", "expected"),
    [
        (32, Ranks(pipeline=4), None, (8, 8, 8, 8)),
        (36, Ranks(pipeline=8), (0, 19), (4, 4, 4, 5, 5, 5, 5, 4)),
        (30, Ranks(pipeline=4), (0, 8, 5), (7, 8, 8, 7)),
        (30, Ranks(pipeline=4), (0, 7, 3), (7, 7, 7, 9)),
        (30, Ranks(pipeline=2, partition=(20, 10)), (0, 19), (20, 10)),
    ],
)
def test_stages(layers: int, ranks: Ranks, release: tuple[int, ...] | None, expected: tuple[int, ...]) -> None:
    """Pipeline stages have the release's or the given layers."""
    assert stages(layers, ranks, release) == expected


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 32001,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "rope_theta": 10000.0,
}  # fmt: skip


def one(config: dict[str, Any], ranks: Ranks | None = None, **told: Any) -> dict[str, int]:
    loaded = load(inventory(shape(config)), ranks or Ranks(), **told)
    assert loaded is not None
    return dict(loaded[0].components)


def test_vocabulary_is_padded_and_split() -> None:
    """A vocabulary is padded to 64 rows, then divided (0.16.0 vocab_parallel_embedding.py:246, :289)."""
    rows = (32064, 32064 // 2, 32064 // 4)
    found = tuple(one(LLAMA, Ranks(tp))["embedding"] for tp in (1, 2, 4))
    assert found == tuple(row * 1024 * 2 for row in rows)


def test_kv_heads_are_repeated() -> None:
    """Where ranks are more than heads of keys, each rank has one head."""
    projections = [2 * 1024 * (16 // tp * 64 * 2 + 2 * max(1, 2 // tp) * 64) * 8 for tp in (1, 2, 4, 8)]
    assert [one(LLAMA, Ranks(tp))["attention"] for tp in (1, 2, 4, 8)] == projections


def test_norms_are_on_each_rank() -> None:
    """Norms are not divided."""
    assert one(LLAMA, Ranks(8))["norms"] == one(LLAMA)["norms"] == (2 * 8 + 1) * 1024 * 2


def test_a_tied_embedding_is_shared_on_one_gpu() -> None:
    """It exists once on one GPU, and on the first and last stage of a pipeline."""
    tied = {**LLAMA, "tie_word_embeddings": True}
    assert "head" not in one(tied)
    stages_ = load(inventory(shape(tied)), Ranks(pipeline=4))
    assert stages_ is not None
    assert ["embedding" in stage.components for stage in stages_] == [True, False, False, True]


MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 1024, "intermediate_size": 4096,
    "moe_intermediate_size": 768, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 4, "head_dim": 64,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "rope_theta": 10000.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "experts", "size"),
    [
        (Ranks(), 60, 768),
        (Ranks(4), 60, 192),
        (Ranks(4, splits_experts=True), 15, 768),
        (Ranks(2, data=4), 60, 96),
        (Ranks(2, data=4, splits_experts=True), 8, 768),
    ],
)
def test_experts_are_divided(ranks: Ranks, experts: int, size: int) -> None:
    """Over all tensor and data ranks by size, or whole with expert parallelism."""
    assert one(MOE, ranks)["experts"] == experts * 3 * size * 1024 * 2 * 4


def test_runtime_fp8_excludes_other_modules() -> None:
    """Linear layers and experts have a byte per weight; embedding, head, router, norms stay."""
    plain, small = one(MOE), one(MOE, quantization="fp8")
    assert plain["experts"] / small["experts"] == pytest.approx(2, rel=1e-4)
    assert plain["attention"] > 1.9 * small["attention"]
    kept = ("embedding", "head", "router", "norms", "rotary")
    assert {name: small[name] for name in kept} == {name: plain[name] for name in kept}


@pytest.mark.parametrize(
    ("told", "bits"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 16 / 128 + 4 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}, 4 + 16 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 64, "sym": False}, 8 + 16 / 64 + 8 / 64),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4 + 8 / 16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 32 / 64),
    ],
)
def test_quantised_layers(told: dict[str, Any], bits: float) -> None:
    """A quantised network takes its bits, scales and zeros; the head stays in the model's dtype."""
    found = one({**LLAMA, "quantization_config": told})
    assert found["mlp"] == pytest.approx(8 * 3 * 1024 * 4096 * bits / 8, rel=1e-5)
    assert found["head"] == one(LLAMA)["head"]


def test_compressed_tensors_groups() -> None:
    """Each group of compressed-tensors has its own format; ignored modules have none."""
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
    told = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["re:.*mlp.*"], "weights": weights},
            "group_1": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        },
        "ignore": ["lm_head", "re:model.layers.[01].mlp.*"],
    }
    found = one({**LLAMA, "quantization_config": told})
    layer = 3 * 1024 * 4096
    assert found["mlp"] == 2 * layer * 2 + 6 * layer * (4 + 16 / 32) / 8
    assert found["attention"] == pytest.approx(one(LLAMA)["attention"] / 2, rel=1e-4)


def test_shared_projections_follow_the_release(shelf: dict[str, specs.ModelFile]) -> None:
    """Layers of gemma 4 that use another layer's cache lose their projections of keys and values from 0.30 on."""
    sizes = [
        started(stock(shelf["google/gemma-4-E4B-it"]), release, {"tokens": 2048}).components["attention"]
        for release in ("0.29.0", "0.30.0")
    ]
    assert sizes[0] - sizes[1] == 2 * (15 * 2 * 512 * 2560 + 3 * 2 * 1024 * 2560)


def test_tables_of_cosines() -> None:
    """Scaled tables are as long as the stretched context, multimodal ones four times, and every stage has its own."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    assert one(LLAMA)["rotary"] == 4096 * 64 * 2
    assert one({**LLAMA, "rope_scaling": yarn})["rotary"] == 4 * 4096 * 64 * 2
    assert one({**LLAMA, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})["rotary"] == 4096 * 64 * 2
    dynamic = shape({**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}).kinds[0].mixer
    assert dynamic is not None
    table = getattr(dynamic, "rope", None)
    assert table is not None
    assert [table_bytes(table, release, 2) for release in ((0, 21), (0, 22, 1))] == [2 * 4096 * 64 * 2, 4096 * 64 * 2]
    assert table_bytes(replace(table, kind="default", is_multimodal=True), None, 2) == 4 * 4096 * 64 * 2


@pytest.mark.parametrize(
    ("capability", "kernel"),
    [((8, 0), "marlin"), ((9, 0), "triton"), ((10, 0), "trtllm"), ((12, 0), "marlin"), (None, None)],
)
def test_the_kernel_of_experts(capability: tuple[int, int] | None, kernel: str | None) -> None:
    """The kernel of MXFP4 experts follows from the GPU; an unknown GPU has none. Triton's is for gpt-oss alone."""
    gpt_oss, other = (shape({"model_type": name}) for name in ("gpt_oss", "kimi_k3"))
    assert mxfp4_kernel(gpt_oss, capability) == kernel
    assert mxfp4_kernel(other, capability) == ("marlin" if kernel == "triton" else kernel)


@pytest.mark.parametrize(("release", "inner"), [((0, 25, 1), 3072), ((0, 28), 2944)])
def test_the_padding_of_experts_on_blackwell(
    shelf: dict[str, specs.ModelFile], release: tuple[int, ...], inner: int
) -> None:
    """2880 values are padded to a multiple of 256, since 0.28.0 of 128 (fused_moe/oracle/mxfp4.py)."""
    loaded = load(stock(shelf["openai/gpt-oss-20b"]), Ranks(), release=release, capability=(10, 0))
    assert loaded is not None
    between = load(stock(shelf["openai/gpt-oss-20b"]), Ranks(), release=(0, 27), capability=(10, 0))
    assert between is not None
    assert between[0].low <= loaded[0].expected <= between[0].high
    weights = 3 * 3072 * inner
    assert loaded[0].components["experts"] == 24 * 32 * (weights * 17 // 32 + 2 * (2 * inner + 3072))


def test_an_unknown_gpu_widens_the_range(shelf: dict[str, specs.ModelFile]) -> None:
    """The range of gpt-oss covers the padding of each kernel, and the reason is named."""
    file = stock(shelf["openai/gpt-oss-20b"])
    loaded = started(file, "0.19.0", {})
    for capability in ((8, 0), (9, 0), (10, 0)):
        known = started(file, "0.19.0", {"capability": capability})
        assert loaded.low <= known.expected <= loaded.high
    assert any("kernel" in reason for reason in loaded.reasons)


def test_the_lower_end_for_an_unknown_gpu_has_no_padding() -> None:
    """2880 divided by 64 GPUs is 45 each, and the lower end is not more."""
    config = {**GPT_OSS, "num_local_experts": 128}
    parts = one(config, Ranks(64), release=(0, 19))
    first = 90 * 2880 // 2 + 90 * 90 + 90 * 2
    back = 2880 * 45 // 2 + 2880 * 2 + 2880 * 2
    loaded = load(inventory(shape(config)), Ranks(64), release=(0, 19))

    assert loaded is not None
    assert loaded[0].low <= 128 * (first + back) + sum(parts.values()) - parts["experts"]


@pytest.mark.parametrize(
    ("config", "told", "missing"),
    [
        ({"model_type": "mamba9", "architectures": ["Mamba9"]}, {}, "architecture Mamba9"),
        ({**LLAMA, "quantization_config": {"quant_method": "magic"}}, {}, "the quantization method magic"),
        (LLAMA, {"quantization": "magic"}, None),
    ],
)
def test_unknown_facts_are_named(config: dict[str, Any], told: dict[str, Any], missing: str | None) -> None:
    """No size is guessed."""
    found = inventory(shape(config))
    assert load(found, Ranks(), **told) is None
    assert missing is None or missing in found.missing


def test_plain_json(shelf: dict[str, specs.ModelFile]) -> None:
    """A configuration read from JSON gives the same as the catalog's."""
    file = shelf["openai/gpt-oss-20b"]
    assert inventory(shape(json.loads(json.dumps(file.config)))).parameters() == stock(file).parameters()


GPT_OSS = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
    "num_hidden_layers": 1, "num_attention_heads": 64, "num_local_experts": 4, "vocab_size": 1024,
    "max_position_embeddings": 1024, "layer_types": ["full_attention"],
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["self_attn", "mlp.router"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("capability", "release", "tensor", "sizes", "bias"),
    [
        # Rows and columns of gate and up each and of their scales; the same of the way back; bytes of a bias.
        ((8, 0), (0, 19), 1, [(2944, 3072, 2944, 96), (3072, 2944, 3072, 92)], 2),
        ((8, 0), (0, 19), 2, [(1536, 3072, 1536, 96), (3072, 1536, 3072, 48)], 2),
        ((9, 0), (0, 18), 1, [(2880, 3072, 3072, 90), (2880, 3072, 3072, 90)], 4),
        ((9, 0), (0, 18), 2, [(1472, 3072, 1536, 90), (2880, 1536, 3072, 46)], 4),
        ((9, 0), (0, 19), 2, [(1536, 3072, 1536, 90), (2880, 1536, 3072, 48)], 4),
        ((10, 0), (0, 19), 1, [(3072, 3072, 3072, 96), (3072, 3072, 3072, 96)], 2),
    ],
)
def test_kernels_pad_experts_of_four_bits(
    capability: tuple[int, int],
    release: tuple[int, ...],
    tensor: int,
    sizes: list[tuple[int, ...]],
    bias: int,
) -> None:
    """2880 outside and inside, 1440 on two GPUs: 4 bits a weight, a byte per 32, a bias per row.

    Marlin pads the outside to 256 and the inside to 128; Triton the inside to 64, since 0.19 to
    128, inputs and rows of scales to 256; TRTLLM both to 256 (quantization/mxfp4.py, 0.15.1 :277;
    fused_moe/oracle/mxfp4.py, 0.19.0 :370).
    """
    first, back = (rows * columns // 2 + scaled * groups + rows * bias for rows, columns, scaled, groups in sizes)
    assert one(GPT_OSS, Ranks(tensor), release=release, capability=capability)["experts"] == 4 * (2 * first + back)


@pytest.mark.parametrize(
    ("quantization", "bits", "scales"),
    [
        ("fp8", 8, 4), ("fp8_per_tensor", 8, 4), ("fp8_per_block", 8, 4 * 8 * 32), ("ptpc_fp8", 8, 4 * 4096),
        ("bitsandbytes", 4, 4 * 4096 * 1024 // 64),
    ],
)  # fmt: skip
def test_quantisations_done_while_loading(quantization: str, bits: int, scales: int) -> None:
    """Bits of a weight, and scales of four bytes: of a tensor, of 128 x 128, of a row, of 64 weights.

    A network of Llama's has three matrices of 4096 x 1024; the last one's rows are 1024.
    """
    last = {"ptpc_fp8": 4 * 1024}.get(quantization, scales)
    assert one(LLAMA, quantization=quantization)["mlp"] == 8 * (3 * 1024 * 4096 * bits // 8 + 2 * scales + last)


def test_experts_alone_are_quantised_to_integers() -> None:
    """`experts_int8`: a byte a weight and a scale of four for each row; all else stays."""
    plain, small = one(MOE), one(MOE, quantization="experts_int8")
    assert small["experts"] == 4 * 60 * (3 * 768 * 1024 + 4 * (768 + 768 + 1024))
    assert {name: size for name, size in small.items() if name not in ("experts", "allocator")} == {
        name: size for name, size in plain.items() if name not in ("experts", "allocator")
    }


SCALED: list[tuple[dict[str, Any], int]] = [
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, 8 // 2 * 256 + 8 * 2 * 2 + 8 * 2 // 2),
    ({"quant_method": "awq_marlin", "w_bit": 4, "q_group_size": 64}, 8 // 2 * 256 + 8 * 4 * 2 + 8 * 4 // 2),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 8 // 2 * 256 + 8 * 2 * 2),
    ({"quant_method": "gptq", "bits": 4}, 8 // 2 * 256 + 8 * 2 * 2),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8 * 256 + 8 * 2),
    ({"quant_method": "gptq", "bits": 8, "group_size": 0}, 8 * 256 + 8 * 2),
    ({"quant_method": "gptq_marlin", "bits": 8, "group_size": 128, "desc_act": True}, 8 * 256 + 8 * 2 * 2 + 256 * 4),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "desc_act": True}, 8 // 2 * 256 + 8 * 2 * 2 + 8 * 2 // 2),
    ({"quant_method": "gptq", "bits": 8, "group_size": 128, "sym": False}, 8 * 256 + 8 * 2 * 2 + 8 * 2),
    ({"quant_method": "fp8"}, 8 * 256 + 4),
    ({"quant_method": "fp8", "weight_block_size": [4, 100]}, 8 * 256 + 2 * 3 * 4),
    ({"quant_method": "fp8", "weight_block_size": [4, 100, 1]}, 8 * 256 + 4),
    ({"quant_method": "fp8", "weight_block_size": ["4", "100"]}, 8 * 256 + 4),
    ({"quant_method": "bitsandbytes", "_load_in_4bit": True}, 8 // 2 * 256 + 8 * 4 * 4),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8 * 256 + 8 * 2),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8 * 256 + 4),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, 8 // 2 * 256 + 8 * 8),
    ({"quant_method": "modelopt", "quant_algo": "nvfp4"}, 8 // 2 * 256 + 8 * 16),
    ({"producer": {"name": "modelopt"}, "quant_algo": "FP8_PB_WO"}, 8 * 256 + 4),
]
"""A quantisation, and the bytes of a matrix of 8 rows and 256 columns with it: weights, scales, zeros, the order.

A group's scale has two bytes and its zero the bits of a weight; a row's two bytes, a tensor's and a block's four; of
bitsandbytes four for 64 weights; of NVFP4 one for 16. GPTQ that is reordered keeps four bytes for each column.
"""
GROUPS: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({"num_bits": 4, "type": "int", "group_size": 128}, {}, 8 // 2 * 256 + 8 * 2 * 2),
    ({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": False}, {}, 8 // 2 * 256 + 8 * 2 * 2 + 8 * 2 // 2),
    ({"num_bits": 4, "type": "int", "group_size": 64, "actorder": "group"}, {}, 8 // 2 * 256 + 8 * 4 * 2 + 256 * 4),
    ({"num_bits": 4, "type": "int", "group_size": 64, "actorder": "weight"}, {}, 8 // 2 * 256 + 8 * 4 * 2),
    ({"num_bits": 4, "type": "int", "group_size": 64, "actorder": "dynamic"}, {}, 8 // 2 * 256 + 8 * 4 * 2 + 256 * 4),
    ({"num_bits": 8, "type": "int"}, {}, 8 * 256 + 8 * 2),
    ({"num_bits": 8, "type": "int", "strategy": "channel", "group_size": 64}, {}, 8 * 256 + 8 * 2),
    ({"num_bits": 8, "type": "float"}, {}, 8 * 256 + 4),
    ({"num_bits": 8, "type": "float", "strategy": "channel"}, {}, 8 * 256 + 8 * 2),
    ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [4, 100]}, {}, 8 * 256 + 2 * 3 * 4),
    ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, {}, 8 // 2 * 256 + 8 * 16),
    ({"num_bits": 4, "type": "float"}, {"format": "nvfp4-pack-quantized"}, 8 // 2 * 256 + 8 * 16),
    ({"num_bits": 4, "type": "float"}, {"format": "mxfp4-pack-quantized"}, 8 // 2 * 256 + 8 * 8),
]
"""Weights of a group of compressed-tensors, their additional tensors, and the same in bytes."""


def _form(told: dict[str, Any]) -> int:
    """Bytes of the weights and of additional tensors of a matrix of 8 rows and 256 columns."""
    quantization = shape({**LLAMA, "quantization_config": told}).quantization
    assert quantization is not None
    ((_, form),) = quantization.formats
    shown = ModelTensor("mlp", "mlp.up_proj", 8, 256, is_linear=True)
    found = inventory(shape({**LLAMA, "num_hidden_layers": 1, "quantization_config": told}))
    stored = replace(found, variants=(), embedding=((shown, form),), head=(), norm=None)
    loaded = load(stored, Ranks())
    assert loaded is not None
    return loaded[0].components["mlp"]


@in_one_test(("told", "size"), SCALED, ids=[json.dumps(told) for told, _ in SCALED])
def test_a_matrix_has_its_bits_and_additional_tensors(told: dict[str, Any], size: int) -> None:
    """Scales, zeros and the order of columns are counted with the weights."""
    assert _form(told) == size


@pytest.mark.parametrize(("weights", "beside", "size"), GROUPS, ids=[json.dumps(weights) for weights, *_ in GROUPS])
def test_a_group_of_compressed_tensors_has_one_format(
    weights: dict[str, Any], beside: dict[str, Any], size: int
) -> None:
    """Defaults follow from its type: per tensor for floats, per row for integers."""
    told = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": weights, **beside}}}
    assert _form(told) == size


def test_a_group_without_bits_is_reported() -> None:
    """The quantization is then unknown."""
    told = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"type": "int"}}, "b": 3}}
    missing = shape({**LLAMA, "quantization_config": told}).missing
    assert missing[:2] == ("quantization_config.config_groups.a", "quantization_config.config_groups.b")


COUNTED: list[tuple[dict[str, Any], int, int]] = [
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, 2048, 2048),
    ({"quant_method": "fp8"}, 2048, 2048),
    ({"quant_method": "fp8", "activation_scheme": "static"}, 2050, 2048),
    ({"quant_method": "fp8", "weight_block_size": [4, 100]}, 2048 + 6, 2048),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 1024 + 128, 1024),
    ({"quant_method": "bitsandbytes"}, 2048 + 8, 2048),
]
"""A quantization, and the Hub's counts for a matrix of 8 x 256, with and without scales.

Packed integers count as the original weights, NVFP4 as bytes; a static scheme writes two scales as
vectors of one, otherwise they have no dimension.
"""


@pytest.mark.parametrize(("told", "with_scales", "without"), COUNTED)
def test_parameters_are_counted_as_on_the_hub(told: dict[str, Any], with_scales: int, without: int) -> None:
    """A bias is counted too, for each of several matrices."""
    quantization = shape({**LLAMA, "quantization_config": told}).quantization
    assert quantization is not None
    ((_, form),) = quantization.formats
    bare = replace(inventory(shape(LLAMA)), variants=(), head=(), norm=None)
    for tensor, times, more in (
        (ModelTensor("mlp", "a", 8, 256), 1, 0),
        (ModelTensor("mlp", "a", 8, 256, bias=True), 1, 8),
        (ModelTensor("mlp", "a", 8, 256, bias=True, count=3), 3, 8),
    ):
        found = replace(bare, embedding=((tensor, form),))
        assert found.parameters() == times * (with_scales + more)
        assert found.parameters(with_scales=False) == times * (without + more)
    plain = replace(bare, embedding=((ModelTensor("mlp", "a", 8, 256), replace(form, bits=16)),))
    assert plain.parameters() == 2048


MIB = 2**20


@in_one_test(
    ("blocks", "slack"),
    [
        ((10 * MIB,), 0),
        # A rest of 1 MiB or less stays with a segment of 2 MiB's multiple; a larger one is split off.
        ((11 * MIB,), MIB),
        ((11 * MIB - 2,), 0),
        ((11 * MIB + 2,), MIB - 2),
        ((10 * MIB + 2,), 0),
        # The rest of 20 MiB, from which a smaller tensor was cut, is used for one that fits.
        ((5 * MIB, 11 * MIB), 0),
        ((5 * MIB, 15 * MIB), 0),
        ((5 * MIB, 17 * MIB), MIB),
        ((5 * MIB, 3 * MIB, 17 * MIB), 0),
        ((9 * MIB, 11 * MIB), 0),
        ((10 * MIB - 2, 11 * MIB), MIB),
        # A tensor of at most 1 MiB comes from another kind of segment.
        ((MIB, 19 * MIB), MIB),
        ((MIB + 2, 19 * MIB), MIB),
        ((MIB + 2, 17 * MIB), 0),
    ],
)
def test_the_allocator_rounds_large_tensors(blocks: tuple[int, ...], slack: int) -> None:
    """Padding of 2 MiB segments for separate bfloat16 tensors (CUDACachingAllocator.cpp)."""
    bare = replace(inventory(shape(LLAMA)), variants=(), head=(), norm=None)
    stored = tuple((ModelTensor("mlp", str(at), size // 2), None) for at, size in enumerate(blocks))
    loaded = load(replace(bare, embedding=stored), Ranks())
    assert loaded is not None
    assert loaded[0].components["allocator"] == slack


@in_one_test(
    ("release", "is_rocm", "slack"),
    [
        ((0, 20, 2), False, 0),
        ((0, 21, 0), False, 3 * MIB // 2),
        ((0, 30, 0), True, 0),
        ((0, 31, 0), True, 3 * MIB // 2),
        (None, False, 3 * MIB // 2),
    ],
)
def test_large_blocks_are_kept_whole_since_0_21(release: tuple[int, ...] | None, *, is_rocm: bool, slack: int) -> None:
    """While weights load, blocks of 20 MiB are not split: one of 24.5 MiB keeps 26 MiB.

    Smaller ones are. Qwen2.5-7B has 28 of the first size: vLLM prints 14.25 GiB before this release, then 14.29 GiB.
    """
    bare = replace(inventory(shape(LLAMA)), variants=(), head=(), norm=None)
    for size, kept in ((49 * MIB // 2, slack), (37 * MIB // 2, 0)):
        stored = ((ModelTensor("mlp", "a", size // 2), None),)
        loaded = load(replace(bare, embedding=stored), Ranks(), release=release, is_rocm=is_rocm)
        assert loaded is not None
        assert loaded[0].components["allocator"] == kept


def test_the_range_covers_allocator_and_kernels() -> None:
    """Half of the rounding or a 400th more, all of it and a 1000th less; where kernels differ a 200th of both."""
    bare = replace(inventory(shape(LLAMA)), variants=(), head=(), norm=None)
    stored = replace(bare, embedding=((ModelTensor("mlp", "a", 11 * MIB // 2), None),))
    for told, low, high in ((None, MIB + 12 * MIB // 1000, MIB // 2), ("fp8", MIB + 12 * MIB // 1000, MIB // 2)):
        loaded = load(stored, Ranks(), quantization=told)
        assert loaded is not None
        (stage,) = loaded
        assert (stage.expected, stage.expected - stage.low, stage.high - stage.expected) == (12 * MIB, low, high)
        assert stage.reasons[0] == "the range covers allocator rounding, which depends on the order of allocations"
        assert (len(stage.reasons) > 1) == (told is not None)
    even = replace(bare, embedding=((ModelTensor("mlp", "a", 20 * MIB // 2), None),))
    for told, parts in ((None, (1000, 400)), ("fp8", (200, 200))):
        loaded = load(even, Ranks(), quantization=told)
        assert loaded is not None
        (stage,) = loaded
        assert (stage.expected - stage.low, stage.high - stage.expected) == tuple(20 * MIB // part for part in parts)
        assert "the range covers allocator rounding, which depends on the order of allocations" not in stage.reasons


TOWERS = """
0.10 qwen2_vl qwen2_5_vl llava pixtral llama4 qwen2_5_omni qwen2_5_omni_audio
0.11 qwen3_vl
0.15 glm4v gemma3 internvit cohere2_vision idefics3 internvl lfm2_vl llava_next llava_onevision paligemma
0.15 qwen2_audio_audio deepseek_ocr dots_ocr glm_ocr paddleocr_vl qianfan voxtral_audio
0.16 moonvit
0.19 gemma4 gemma4_audio
0.32 qwen3_omni_moe qwen3_omni_moe_audio qwen3_asr_audio
"""
"""Since when a family's tower is left out where all modalities are limited to 0 (models/*.py: `get_limit_per_prompt` in
0.10.2, `_mark_tower_model` in 0.15.1)."""


@pytest.mark.parametrize("row", TOWERS.strip().splitlines())
def test_an_unused_tower_is_left_out(row: str) -> None:
    """From the release on that does so, and with the newest rules; another family's never."""
    since, *families = row.split()
    key = tuple(map(int, since.split(".")))
    bare = inventory(shape(LLAMA))
    for family in families:
        told = replace(bare.shape, encoders=(Encoder(family, {}),))
        found = replace(bare, shape=told, encoders=((ModelTensor("vision", "tower", 1024), None),))
        for release, off, has_tower in (
            ((0, key[1] - 1, 9), True, True), (key, True, False), (None, True, False), (key, False, True),
        ):  # fmt: skip
            loaded = load(found, Ranks(), release=release, encoder_off=off)
            assert loaded is not None
            assert ("vision" in loaded[0].components) is has_tower, (family, release)
    other = replace(found, shape=replace(bare.shape, encoders=(Encoder("mllama", {}),)))
    loaded = load(other, Ranks(), release=(0, 33), encoder_off=True)
    assert loaded is not None
    assert "vision" in loaded[0].components


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("default", 8000), ("llama3", 8000), ("proportional", 8000), ("yarn", 2500), ("deepseek_yarn", 2500),
        ("linear", 2500), ("ntk", 2500), ("longrope", 9000), ("su", 9000), ("dynamic", 8000),
    ],
)  # fmt: skip
def test_a_table_has_a_row_for_each_position(kind: str, rows: int) -> None:
    """Scaled tables have the trained length times the factor, LongRoPE's also the longest.

    For 1000 positions by 2.5, 8000 at the longest; 64 values of two bytes (layers/rotary_embedding/
    of 0.33.0).
    """
    rope = Rope(kind, 64, 1000, 2.5, 10000.0, 8000)
    assert table_bytes(rope, None, 2) == rows * 64 * 2
    assert table_bytes(rope, None, 4) == rows * 64 * 4
    assert table_bytes(replace(rope, is_multimodal=True), None, 2) == 4 * rows * 64 * 2


@pytest.mark.parametrize(
    ("split", "tensor", "expected"),
    [
        ("", 4, (3, 10, 7)), ("column", 4, (3, 3, 7)), ("row", 4, (3, 10, 2)), ("kv", 4, (3, 5, 7)),
        ("vocabulary", 1, (3, 64, 7)), ("vocabulary", 4, (3, 16, 7)), ("column", 1, (3, 10, 7)), ("kv", 1, (3, 10, 7)),
        ("experts/column", 4, (3, 3, 7)), ("experts/row", 4, (3, 10, 2)), ("experts/row", 1, (3, 10, 7)),
    ],
)  # fmt: skip
def test_a_rank_has_its_part_of_a_tensor(split: str, tensor: int, expected: tuple[int, ...]) -> None:
    """Rows by output, columns by input, whole heads (two here), words by 64, all rounded up."""
    told = ModelTensor("mlp", "a", 10, 7, split, count=3, heads=2)
    assert on_rank(told, Ranks(tensor)) == expected


@pytest.mark.parametrize(
    ("ranks", "cards", "stages_"),
    [
        (Ranks(2, 3), 6, [0, 0, 1, 1, 2, 2]),
        (Ranks(2, 2, data=2), 8, [0, 0, 1, 1, 0, 0, 1, 1]),
        (Ranks(1, 2, prefill=3), 6, [0, 0, 0, 1, 1, 1]),
        (Ranks(), 1, [0]),
    ],
)
def test_ranks_count_tensor_first_then_stages(ranks: Ranks, cards: int, stages_: list[int]) -> None:
    """The GPUs of a replica, and the stage of each."""
    assert ranks.cards == cards
    assert [ranks.stage(rank) for rank in range(cards)] == stages_


NAMES = [
    ("lm_head", "lm_head", True), ("mlp", "layers.0.mlp.up_proj", True), ("up_proj", "layers.0.mlp.up_proj", True),
    ("up", "layers.0.mlp.up_proj", False), ("model.layers.0.mlp", "layers.0.mlp.up_proj", True),
    ("model.layers.0", "layers.0.mlp.up_proj", True), ("layers.0.mlp.up_proj", "layers.0.mlp.up_proj", True),
    ("model.layers.1", "layers.0.mlp.up_proj", False), ("model.layers.0.m", "layers.0.mlp.up_proj", False),
    ("model.layers.0.m*", "layers.0.mlp.up_proj", True), ("*mlp*", "layers.0.mlp.up_proj", True),
    ("*.self_attn*", "layers.0.mlp.up_proj", False), ("re:.*mlp\\..*", "layers.0.mlp.up_proj", True),
    ("re:mlp", "layers.0.mlp.up_proj", False), ("backbone.layers.0.mlp.up_proj", "layers.0.mlp.up_proj", True),
    ("language_model.model.layers.0.mlp", "layers.0.mlp.up_proj", True),
    ("model.language_model.layers.0.mlp", "layers.0.mlp.up_proj", True),
    ("other.layers.0.mlp", "layers.0.mlp.up_proj", False),
]  # fmt: skip


@in_one_test(("pattern", "name", "is_meant"), NAMES)
def test_a_module_is_excluded_by_any_form_of_its_name(pattern: str, name: str, is_meant: bool) -> None:  # noqa: FBT001
    """Full names, parents with any root, single words, prefixes, wildcards and expressions."""
    told = {"quant_method": "fp8", "ignored_layers": [pattern]}
    found = inventory(shape({**LLAMA, "quantization_config": told}))
    forms = {f"layers.{index}.{tensor.name}": form for variant in found.variants for index in variant.layers
             for tensor, form in variant.tensors}  # fmt: skip
    if name in forms:
        assert (forms[name] is None) is is_meant
        assert (forms["layers.1.mlp.up_proj"] is None) is ((is_meant and ".0" not in pattern) or ".1" in pattern)
    else:
        assert found.head[0][1] is None


def test_missing_facts_give_no_number() -> None:
    """Neither parameters nor a layout; for a model without layers they are the missing fact."""
    bare = {name: value for name, value in LLAMA.items() if name != "tie_word_embeddings"}
    found = inventory(shape({**bare, "model_type": "internvl"}))
    assert "tie_word_embeddings" in found.missing
    assert (found.parameters(), load(found, Ranks())) == (None, None)
    assert inventory(shape({**LLAMA, "num_hidden_layers": 0})).missing == ("layers",)


def test_buffers_are_sized_for_the_tokens_of_a_step() -> None:
    """By default 8,192, with a range from none to twice as many.

    Qwen3-VL's three taps of 4096 values (0.33.0 models/qwen3_vl.py), and no more where its tower is
    left out.
    """
    vision = {"deepstack_visual_indexes": [8, 16, 24], "hidden_size": 64, "intermediate_size": 64, "depth": 1}
    config = {
        "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "vision_config": vision,
        "text_config": {**LLAMA, "model_type": "qwen3_vl_text"},
    }  # fmt: skip
    found = inventory(shape(config))
    for tokens, counted in ((None, 8192), (100, 100)):
        loaded = load(found, Ranks(), tokens=tokens, release=(0, 33))
        assert loaded is not None
        assert loaded[0].components["buffers"] == 3 * counted * 1024 * 2
        said = "buffers grow with the tokens per step, which are unknown"
        assert (said in loaded[0].reasons) == (tokens is None)
    off = load(found, Ranks(), tokens=100, release=(0, 33), encoder_off=True)
    assert off is not None
    assert "buffers" not in off[0].components
    unsure, sure = (load(found, Ranks(), tokens=tokens, release=(0, 33)) for tokens in (None, 8192))
    assert unsure is not None
    assert sure is not None
    spread = 3 * 8192 * 1024 * 2
    assert (sure[0].low - unsure[0].low, unsure[0].high - sure[0].high) == (spread, spread)
    assert unsure[0].expected == sure[0].expected


@pytest.mark.parametrize(("dtype", "width"), [(None, 2), ("half", 2), ("float16", 2), ("float", 4), ("float32", 4)])
def test_a_given_dtype_applies_to_all_weights(dtype: str | None, width: int) -> None:
    """Bytes of a value; routers of four bytes stay so."""
    assert one(LLAMA, dtype=dtype)["mlp"] == 8 * 3 * 1024 * 4096 * width
    glm = {**MOE, "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "n_routed_experts": 60}
    assert one(glm, dtype=dtype)["router"] == 3 * (60 * 1024 * 4 + 60 * 4)


_SMALL_TOWER: dict[str, Any] = {
    "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 70,
    "patch_size": 7, "num_channels": 3,
}  # fmt: skip
COUNTED_TOWERS: list[tuple[str, dict[str, Any], int]] = [
    ("qwen2_vl", {"hidden_size": 3584}, 675_759_104),
    (
        "qwen2_vl",
        {
            "depth": 3,
            "embed_dim": 96,
            "hidden_size": 192,
            "mlp_ratio": 3,
            "num_heads": 2,
            "patch_size": 7,
            "spatial_merge_size": 3,
            "temporal_patch_size": 1,
            "in_channels": 1,
        },
        1_198_272,
    ),
    ("qwen2_5_vl", {"out_hidden_size": 3584}, 3_083_025_152),
    (
        "qwen2_5_vl",
        {
            "depth": 3,
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_heads": 2,
            "patch_size": 7,
            "spatial_merge_size": 3,
            "temporal_patch_size": 1,
            "in_channels": 1,
            "out_hidden_size": 192,
        },
        1_170_048,
    ),
    ("qwen3_vl", {"out_hidden_size": 3584}, 566_949_104),
    (
        "qwen3_vl",
        {
            "depth": 3,
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_heads": 2,
            "patch_size": 7,
            "spatial_merge_size": 3,
            "temporal_patch_size": 1,
            "in_channels": 1,
            "out_hidden_size": 192,
            "deepstack_visual_indexes": [0, 2],
            "num_position_embeddings": 49,
        },
        2_959_296,
    ),
    ("glm4v", {"out_hidden_size": 4096}, 892_498_432),
    (
        "glm4v",
        {
            "depth": 3,
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_heads": 2,
            "patch_size": 7,
            "spatial_merge_size": 3,
            "temporal_patch_size": 1,
            "in_channels": 1,
            "out_hidden_size": 192,
            "image_size": 70,
        },
        587_136,
    ),
    ("gemma3", {}, 93_032_448),
    ("gemma3", _SMALL_TOWER | {"vision_use_head": False}, 248_352),
    ("llava", {"model_type": "clip_vision_model"}, 87_640_704),
    ("llava", _SMALL_TOWER | {"model_type": "clip_vision_model"}, 285_792),
    ("llava", _SMALL_TOWER | {"model_type": "siglip_vision_model"}, 285_504),
    ("llava", _SMALL_TOWER | {"model_type": "pixtral", "head_dim": 48}, 319_296),
    ("llava_next", _SMALL_TOWER | {"model_type": "clip_vision_model"}, 285_984),
    ("llava_onevision", _SMALL_TOWER | {"model_type": "siglip_vision_model"}, 285_696),
    ("paligemma", _SMALL_TOWER | {"vision_use_head": False}, 248_448),
    ("idefics3", _SMALL_TOWER, 303_552),
    ("lfm2_vl", _SMALL_TOWER | {"num_patches": 100, "model_type": "siglip2_vision_model"}, 1_707_904),
    ("internvl", {}, 304_770_432),
    (
        "internvl",
        {
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": [70, 70],
            "patch_size": [7, 7],
            "attention_bias": True,
            "use_qk_norm": True,
            "norm_type": "rms_norm",
            "use_mean_pooling": False,
        },
        342_336,
    ),
    ("cohere2_vision", _SMALL_TOWER | {"model_type": "siglip_vision_model"}, 17_961_600),
    ("pixtral", {"model_type": "pixtral"}, 407_918_592),
    ("pixtral", _SMALL_TOWER | {"model_type": "pixtral", "head_dim": 48}, 355_872),
    ("llama4", {}, 417_331_200),
    (
        "llama4",
        {
            "hidden_size": 96,
            "intermediate_size": 384,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "image_size": 70,
            "patch_size": 7,
            "vision_output_dim": 200,
            "projector_input_dim": 200,
            "projector_output_dim": 200,
            "pixel_shuffle_ratio": 0.5,
        },
        515_008,
    ),
    ("mllama", {}, 837_762_771),
    (
        "mllama",
        {
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_global_layers": 2,
            "attention_heads": 2,
            "image_size": 70,
            "patch_size": 7,
            "max_num_tiles": 3,
            "vision_output_dim": 384,
            "intermediate_layers_indices": [0, 1, 2],
            "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3]],
        },
        557_991,
    ),
    ("qwen2_audio_audio", {}, 637_214_912),
    (
        "qwen2_audio_audio",
        {
            "d_model": 96,
            "encoder_layers": 3,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 160,
            "num_mel_bins": 20,
            "max_source_positions": 30,
        },
        260_832,
    ),
]
"""Family, configuration of the tower, and parameters of tower and projector that transformers 5.19.0 builds
before a text part of 192 values (without memory; the class fills in defaults).

SigLIP's head, which no class of vLLM but Gemma 3's has, is left out: 68,512 of 96 and 160 values. PaliGemma's projector
goes to the text part's 192 (97 values each) instead of 2,048.
"""


@in_one_test(("family", "sizes", "count"), COUNTED_TOWERS)
def test_a_tower_has_the_parameters_of_its_class(family: str, sizes: dict[str, Any], count: int) -> None:
    """To the last one, for any sizes that its configuration sets or leaves out."""
    tensors = encoder_tensors(Encoder(family, sizes), 192)
    assert tensors is not None
    assert sum(tensor.values for tensor in tensors) == count


@pytest.mark.parametrize(
    ("told", "used"),
    [({}, 3), ({"vision_feature_layer": -1}, 3), ({"vision_feature_layer": -2}, 2), ({"vision_feature_layer": -4}, 0),
     ({"vision_feature_layer": 0}, 0), ({"vision_feature_layer": 1}, 1), ({"vision_feature_layer": 3}, 3),
     ({"vision_feature_layer": 9}, 3), ({"vision_feature_layer": [1]}, 3), ({"vision_feature_layer": -9}, 0)],
)  # fmt: skip
def test_a_tower_is_loaded_up_to_the_layer_that_is_read(told: dict[str, Any], used: int) -> None:
    """Counted from the end where negative (`get_num_selected_vision_layers`); of CLIP the last but one."""
    for kind in ("siglip_vision_model", "clip_vision_model"):
        tensors = encoder_tensors(Encoder("llava", {**_SMALL_TOWER, "model_type": kind, **told}), 192)
        assert tensors is not None
        of_layers = [tensor for tensor in tensors if tensor.name == "mlp.fc1"]
        loaded = sum(tensor.count for tensor in of_layers if tensor.is_loaded)
        assert loaded == (2 if kind.startswith("clip") and not told else used)
        assert sum(tensor.count for tensor in of_layers) == 3


def test_towers_without_a_class_in_transformers_have_their_modules() -> None:
    """InternViT, MoonViT, Gemma 4's towers and Qwen 2.5 Omni's, with their files' defaults.

    A layer of the first two has two norms, four matrices and their biases, InternViT's two scales
    as well; four patches make a token.
    """
    size, wide, out = 1024, 4096, 192
    layer = 4 * size + 2 * size + 4 * (size * size + size) + 2 * size * wide + wide + size
    merger = 2 * 4 * size + (4 * size * out + out) + (out * out + out)
    intern = size + (3 * 14 * 14 * size + size) + 1025 * size + 24 * layer + merger
    size, wide = 1152, 4304
    layer = 4 * size + 4 * (size * size + size) + 2 * size * wide + wide + size
    merger = 2 * 2 * size + (4 * size * 4 * size + 4 * size) + (4 * size * out + out)
    moon = (3 * 14 * 14 * size + size) + 64 * 64 * size + 27 * layer + merger
    size, wide = 768, 3072
    layer = 4 * size + 2 * 64 + 4 * size * size + 3 * size * wide
    gemma = 3 * 16 * 16 * size + 2 * 10_240 * size + 16 * layer + size * out
    size = 1024
    layer = 4 * 4 * size * size + 9 * size + 5 * size * size + size // 8 + 3 * size * size + 5 * size
    sound = 128 * 9 + 32 * 128 * 9 + 160 + size * 32 * 32 + 12 * layer + (1536 * size + 1536) + 1536 * out
    # Whisper's encoder without a bias of keys: 128 mel bands, then steps of three.
    size, wide = 1280, 5120
    layer = 4 * size + 4 * size * size + 3 * size + 2 * size * wide + wide + size
    whisper = (3 * 128 * size + size) + (3 * size * size + size) + 32 * layer + 2 * size
    omni = whisper + 2 * out + (size * out + out)
    for family, told, count in (
        ("internvit", {}, intern),
        ("moonvit", {}, moon),
        ("gemma4", {}, gemma),
        ("gemma4", {"standardize": True}, gemma + 2 * 768),
        ("gemma4_audio", {}, sound),
        ("qwen2_5_omni_audio", {}, omni),
        ("foo", {}, None),
        ("llava", {"model_type": "foo"}, None),
    ):
        tensors = encoder_tensors(Encoder(family, told), out)
        assert (tensors and sum(tensor.values for tensor in tensors)) == count, family


def test_towers_are_quantized_if_their_class_passes_it_on() -> None:
    """Linear layers of most towers, but not of Gemma 4's and MoonViT's."""
    for family, is_quantized in (("qwen2_5_vl", True), ("llama4", True), ("gemma4", False), ("moonvit", False)):
        tensors = encoder_tensors(Encoder(family, {}), 192)
        assert tensors is not None
        assert any(tensor.is_linear for tensor in tensors) is is_quantized


ALL_JUNK: tuple[Any, ...] = (None, "", "x", -1, 0, 3, 1.5, True, [], ["a"], {}, {"a": 1}, [1, 2], 10**9)
JUNK = st.sampled_from(ALL_JUNK)


@given(seed=st.integers(0, 10**6), junk=JUNK)
@example(seed=135_936, junk=0)  # no group of attention heads
@settings(max_examples=200, deadline=None)
def test_load_never_raises(seed: int, junk: Any) -> None:
    """Any value of a field yields sizes with a range, or the missing fact."""
    chance = random.Random(seed)  # noqa: S311 - what is drawn is a test case
    config: dict[str, Any] = dict(files()[chance.choice(sorted(files()))].config)
    parts = [name for name, value in config.items() if isinstance(value, dict) and value]
    if parts and chance.random() < 0.8:
        name = chance.choice(parts)
        part = config[name] = dict(config[name])
    else:
        part = config
    part[chance.choice(sorted(part))] = junk
    found = inventory(shape(config))
    loaded = load(found, Ranks(chance.choice([1, 2, 8]), chance.choice([1, 2])), release=(0, 19, 0))
    assert (loaded is None) == bool(found.missing)
    assert all(stage.low <= stage.expected <= stage.high for stage in loaded or ())


@pytest.mark.full
def test_no_field_of_a_known_configuration_raises() -> None:
    """Each field of each model, with each kind of wrong value."""
    for file in files().values():
        config = dict(file.config)
        for part in (None, *(name for name, value in config.items() if isinstance(value, dict))):
            for name, junk in itertools.product(config if part is None else config[part], ALL_JUNK):
                changed = {**config, **({name: junk} if part is None else {part: {**config[part], name: junk}})}
                for ranks in (1, 2):
                    load(inventory(shape(changed)), Ranks(ranks), release=(0, 19, 0))


@pytest.mark.benchmark
def test_speed(shelf: dict[str, specs.ModelFile]) -> None:
    """The weights of a layout take less than 300 microseconds for a known shape."""
    found = stock(shelf["google/gemma-4-26B-A4B-it"])

    def layouts(_: str) -> None:
        for tp in (1, 2, 4, 8):
            for pp in (1, 2, 4):
                load(found, Ranks(tp, pp), release=(0, 19, 0))

    assert seconds(layouts, "") / 12 < 300e-6


# ---- ROCm


def _on_amd(config: dict[str, Any], tensor: int = 1) -> tuple[Loaded, Loaded]:
    stock = inventory(shape(config))
    loaded = [load(stock, Ranks(tensor), release=(0, 18), is_rocm=is_rocm) for is_rocm in (False, True)]
    assert loaded[0] is not None
    assert loaded[1] is not None
    return loaded[0][0], loaded[1][0]


@pytest.mark.parametrize(
    ("hidden", "size", "tensor", "first", "second"),
    [(2048, 768, 1, True, True), (2048, 768, 4, True, False), (2048, 200, 1, True, False), (1000, 768, 1, False, True)],
)
def test_rocm_pads_the_rows_of_experts(hidden: int, size: int, tensor: int, first: bool, second: bool) -> None:  # noqa: FBT001 - columns of a table
    """A row whose size is a multiple of 512 bytes gets 256 more; with both padded, memory stays unused."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": hidden, "num_experts": 128,
        "intermediate_size": 6144, "moe_intermediate_size": size, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 65_536, "num_experts_per_tok": 8,
    }  # fmt: skip
    plain, padded = _on_amd(config, tensor)
    part = size // tensor
    rows = 2 * part * first + hidden * second
    assert padded.components["experts"] - plain.components["experts"] == 2 * 128 * rows * 256
    unused = 2 * 128 * (2 * part * hidden * 2 - hidden * (part * 2 + 256)) if first and second else 0
    assert padded.components.get("fragments", 0) == unused
    assert padded.expected - padded.low >= unused


_FP8_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "num_experts": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 65_536, "num_experts_per_tok": 8,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


def test_rocm_pads_no_quantized_experts() -> None:
    """FP8 experts keep their size."""
    plain, padded = _on_amd(_FP8_MOE)
    assert padded.components["experts"] == plain.components["experts"]
    assert "fragments" not in padded.components


@pytest.mark.parametrize(
    ("strategy", "hidden", "rows"), [("block", 2048, 4096), ("tensor", 2000, 2000), ("channel", 2048, 0)]
)
def test_rocm_pads_the_rows_of_fp8_layers(strategy: str, hidden: int, rows: int) -> None:
    """A row of 512 bytes or a multiple gets 256 more, if a scale is for a tensor or a block."""
    weights = {"num_bits": 8, "type": "float", "strategy": strategy, "block_structure": [128, 128]}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    compressed = {"quant_method": "compressed-tensors", "config_groups": groups}
    plain, padded = _on_amd({**_FP8_MOE, "hidden_size": hidden, "quantization_config": compressed})
    # queries, keys and values: 2048 rows of `hidden`; the output: `hidden` rows of 1024
    assert padded.components["attention"] - plain.components["attention"] == 2 * 256 * rows


# ---- FlashInfer's experts


@pytest.mark.parametrize(
    ("release", "capability", "multiple"),
    [((0, 16), (9, 0), 1), ((0, 17), (9, 0), 128), ((0, 33), (12, 0), 128), ((0, 33), (8, 9), 1), ((0, 33), None, 1)],
)
def test_flashinfer_pads_experts_without_a_gate(
    shelf: dict[str, specs.ModelFile], release: tuple[int, ...], capability: tuple[int, int] | None, multiple: int
) -> None:
    """The intermediate size of FP8 experts becomes a multiple of 128, if they have no gate and FlashInfer runs them."""
    found = stock(shelf["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"])
    loaded = load(found, Ranks(2), release=release, capability=capability)
    assert loaded is not None
    size = -(-2688 // 2 // multiple) * multiple
    # 40 layers of 512 experts between latent states of 1024, each matrix with a scale of 4 bytes
    assert loaded[0].components["experts"] == 40 * 512 * 2 * (size * 1024 + 4)


@pytest.mark.parametrize(("capability", "multiple"), [((10, 0), 128), ((12, 1), 1)])
def test_flashinfer_pads_nvfp4_experts_only_for_its_trtllm_kernel(
    shelf: dict[str, specs.ModelFile], capability: tuple[int, int], multiple: int
) -> None:
    """NVFP4 experts are padded on GPUs of compute capability 10."""
    found = stock(shelf["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"])
    loaded = load(found, Ranks(2), release=(0, 33), capability=capability)
    assert loaded is not None
    size = -(-2688 // 2 // multiple) * multiple
    assert loaded[0].components["experts"] == 40 * 512 * 2 * (size * 1024 // 2 + size * 1024 // 16)


def test_flashinfer_pads_no_experts_with_a_gate() -> None:
    """FP8 experts with a gate and one scale per tensor keep their size."""
    config = {**_FP8_MOE, "quantization_config": {"quant_method": "fp8"}, "moe_intermediate_size": 720}
    sizes = [load(inventory(shape(config)), Ranks(), release=(0, 33), capability=gpu) for gpu in ((9, 0), (8, 9))]
    assert sizes[0] == sizes[1]
