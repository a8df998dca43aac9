"""Families whose weights, caches and states were read off vLLM's own classes."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rows import in_one_test
from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.kv_cache import Kind, KvLayer
from vllm_runbooks.plan.kv_layers import CacheOptions, KvForms, kv_layers
from vllm_runbooks.plan.shape import shape
from vllm_runbooks.plan.weights import Ranks, inventory, load

PARAMETERS = """
LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct 2405327360
LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct 7818448896
LGAI-EXAONE/EXAONE-Deep-32B 32003200000
LiquidAI/LFM2-2.6B 2569272320
MiniMaxAI/MiniMax-M3 427040140160
PaddlePaddle/PaddleOCR-VL 958588736
ai21labs/Jamba-v0.1 51570323328
allenai/OLMoE-1B-7B-0924-Instruct 6919161856
allenai/olmOCR-2-7B-1025 8292166656
arcee-ai/AFM-4.5B 4619189760
arcee-ai/Trinity-Large-Thinking 398635286016
baidu/Qianfan-OCR 4741408256
deepseek-ai/DeepSeek-OCR 3336106240
ibm-granite/granite-3.1-3b-a800m-instruct 3298793472
ibm-granite/granite-4.0-h-1b 1461538368
ibm-granite/granite-4.0-h-tiny 6939037248
ibm-granite/granite-embedding-311m-multilingual-r2 311664384
ibm-granite/granite-embedding-english-r2 149014272
lightonai/LightOnOCR-2-1B 1005647872
nanonets/Nanonets-OCR2-3B 3754622976
nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16 3973556832
openai-community/gpt2 124439808
openai-community/gpt2-large 774030080
openai-community/gpt2-medium 354823168
openai-community/gpt2-xl 1557611200
rednote-hilab/dots.ocr 3039179264
swiss-ai/Apertus-8B-Instruct-2509 8053338176
tencent/Hunyuan-4B-Instruct 4221757440
tencent/Hunyuan-7B-Instruct 7504568320
tiiuae/falcon-mamba-7b 7272665088
upstage/Solar-Open-100B 102651793408
zai-org/GLM-4.5V 107710933120
zai-org/GLM-4.7-Flash 31221488576
zai-org/GLM-OCR 1325258240
zai-org/glm-4-9b-chat-hf 9399951360
"""
"""Published counts: what the Hub counts in the files (PyPI llmfit 1.1.17, hf_models.json, parameters_raw; of models
that are not in it, public listings of their files). The masks in GPT-2's files are left out: 1,024 by 1,024 for each
layer."""
BUILT = """
LiquidAI/LFM2.5-VL-1.6B 3193251808 1611699568
Qwen/Qwen3-Omni-30B-A3B-Instruct 63438410976 31755143792
Qwen/Qwen3-VL-30B-A3B-Instruct 62141508064 31088197488
Qwen/Qwen3.5-0.8B 1705972416 856049504
Qwen/Qwen3.5-35B-A3B 70214365792 35133026992
arcee-ai/Trinity-Large-Thinking 797355534336 398763485184
baidu/ERNIE-4.5-21B-A3B-PT 43659726592 21838860032
ibm-granite/granite-3.2-2b-instruct 5067313152 2533822464
mistralai/Devstral-2-123B-Instruct-2512 250051977216 125028163584
nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16 7947117696 3973693696
stepfun-ai/Step-3.5-Flash 394011375360 197105186560
upstage/Solar-Open-100B 205303586816 102677356544
"""
"""Bytes of parameters with TP 1 and 2 of the classes that vLLM 0.32.0 builds on the meta device for these models."""
_SMALL: dict[str, Any] = {
    "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 65_536, "max_position_embeddings": 4096,
}  # fmt: skip
_BESIDE = ("allocator", "rotary", "buffers")
"""Components without a parameter."""


@cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (Path(__file__).parents[1] / "measured_classes.json").read_text(encoding="utf-8")
    )
    return found


@cache
def _files() -> dict[str, specs.ModelFile]:
    return {file.id: file for file in specs.load(spec_files.compile_specs).files}


def _cases() -> list[Any]:
    return [
        pytest.param(model["config"], int(ranks), answer, id=f"{model['name']} {ranks}")
        for model in _record()["models"]
        for ranks, answer in model["answers"].items()
    ]


def _caches(config: dict[str, Any], ranks: int) -> KvForms:
    # Without a GPU the release keeps states of four bytes.
    asked = CacheOptions(1024, tensor_parallel=ranks, recurrent_dtype="float32", capability=(8, 0))
    return kv_layers(shape(config), asked, _record()["release"])


def _of_vllm(caches: list[list[Any]]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for kind, *said, count in caches:
        if kind == "state":
            # The convolution's is in the model's dtype.
            (first, *others) = (math.prod(each) for each in said[0])
            found["state", 2 * first + 4 * sum(others)] += count
        else:
            found[kind, *said] += count
    return found


def _of_ours(form: KvLayer) -> tuple[Any, ...]:
    if form.kind is Kind.STATE:
        return "state", form.state_bytes
    return "attention", form.heads, form.key_size, form.window


@in_one_test(("config", "ranks", "answer"), _cases())
def test_a_rank_has_the_bytes_of_vllms_class(config: dict[str, Any], ranks: int, answer: dict[str, Any]) -> None:
    """Its parameters equal those of the class that the release builds, to the byte."""
    release = tuple(map(int, _record()["release"].split(".")[:3]))
    loaded = load(inventory(shape(config)), Ranks(ranks), release=release)
    assert loaded is not None
    parts = loaded[0].components
    assert sum(size for name, size in parts.items() if name not in _BESIDE) == answer["bytes"]


@in_one_test("line", BUILT.strip().splitlines())
def test_models_of_the_catalog_have_the_bytes_of_vllms_class(line: str) -> None:
    """The whole model, not quantized, with one and two ranks."""
    name, *sizes = line.split()
    config = {key: value for key, value in _files()[name].config.items() if key != "quantization_config"}
    for ranks, size in enumerate(map(int, sizes), start=1):
        loaded = load(inventory(shape(config)), Ranks(ranks), release=(0, 32, 0))
        assert loaded is not None
        assert sum(part for key, part in loaded[0].components.items() if key not in _BESIDE) == size


@in_one_test(("config", "ranks", "answer"), _cases())
def test_layers_cache_as_vllms_layers_do(config: dict[str, Any], ranks: int, answer: dict[str, Any]) -> None:
    """Heads, sizes, windows and bytes of states match the release's layers."""
    forms = _caches(config, ranks)
    assert forms.missing == ()
    mine: Counter[tuple[Any, ...]] = Counter()
    for form, count in forms.stages[0].items():
        mine[_of_ours(form)] += count
    assert mine == _of_vllm(answer["caches"])


@in_one_test(("config", "ranks", "answer"), [case for case in _cases() if "tables" in case.values[2]])
def test_tables_have_the_size_of_vllms(config: dict[str, Any], ranks: int, answer: dict[str, Any]) -> None:
    """Cosines and sines have a row per position, and two bytes per rotated value of a head."""
    loaded = load(inventory(shape(config)), Ranks(ranks), release=(0, 32, 0))
    assert loaded is not None
    assert loaded[0].components["rotary"] == sum(2 * math.prod(table) for table in answer["tables"])


@in_one_test(("name", "count"), [line.split() for line in PARAMETERS.strip().split("\n")])
def test_published_counts_are_met(name: str, count: str) -> None:
    """The files of a model of these families hold as many parameters as the Hub counts, to the last one."""
    file = _files()[name]
    assert inventory(shape(file.config, is_partial=file.is_partial)).parameters() == int(count)


@pytest.mark.parametrize("model_type", ["granitemoehybrid", "bamba", "lfm2", "lfm2_moe", "zamba2", "step3p5"])
def test_the_layers_with_attention_must_be_listed(model_type: str) -> None:
    """If the file lists none and the class would make all layers equal, the layers are unknown."""
    assert shape({**_SMALL, "model_type": model_type, "num_attention_groups": 4}).missing == ("layer_types",)


@pytest.mark.parametrize(("version", "window"), [("0.28.0", 512), ("0.29.0", 513)])
def test_a_window_of_cohere_has_a_token_more_since_it_counts_the_last_one(version: str, window: int) -> None:
    """Command R7B's windows are a token longer since 0.29.0 (models/commandr.py)."""
    config = {**_SMALL, "model_type": "cohere2", "sliding_window": 512}
    forms = kv_layers(shape(config), CacheOptions(1024, capability=(8, 0)), version)
    assert {form.window for form in forms.stages[0]} == {window, None}


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [("jamba", {"attn_layer_offset": 1, "attn_layer_period": 2}), ("lfm2", {"full_attn_idxs": [1]})],
)
def test_the_first_releases_of_the_newer_engine_keep_states_of_mamba2_alone(
    model_type: str, changes: dict[str, Any]
) -> None:
    """0.9.2 looks for layers of Mamba 2 alone, 0.10.2 for all that have a state (v1/worker/gpu_model_runner.py)."""
    model = shape({**_SMALL, "model_type": model_type, **changes})
    asked = CacheOptions(1024, block_tokens=4096, capability=(8, 0))
    found = [kv_layers(model, asked, version).missing for version in ("0.9.2", "0.10.2")]
    assert found == [("how this engine stores the states of such layers",), ()]


def test_a_layer_with_two_mixers_keeps_both_caches_on_its_stage() -> None:
    """Each pipeline stage of Falcon-H1 has the attention and states of its layers."""
    config = {**_SMALL, "model_type": "falcon_h1", "mamba_n_heads": 16, "head_dim": 64}
    asked = CacheOptions(1024, stage_layers=(3, 1), capability=(8, 0))
    stages = kv_layers(shape(config), asked, "0.32.0").stages
    assert [sorted((form.kind.name, count) for form, count in stage.items()) for stage in stages] == [
        [("FULL", 3), ("STATE", 3)],
        [("FULL", 1), ("STATE", 1)],
    ]


@pytest.mark.parametrize(("release", "has_tower"), [((0, 14, 1), True), ((0, 15, 1), False)])
def test_a_tower_is_left_out_since_its_release(release: tuple[int, ...], has_tower: bool) -> None:  # noqa: FBT001
    """With all modalities limited to 0 SmolVLM's tower is loaded before 0.15.1 all the same (models/idefics3.py)."""
    config = next(model["config"] for model in _record()["models"] if model["name"] == "smolvlm")
    loaded = load(inventory(shape(config)), Ranks(), release=release, encoder_off=True)
    assert loaded is not None
    assert ("vision" in loaded[0].components) is has_tower


@pytest.mark.parametrize(("model_type", "has_table"), [("opt", False), ("llama", True)])
def test_a_family_that_learns_its_positions_has_no_table_of_cosines(model_type: str, has_table: bool) -> None:  # noqa: FBT001
    """OPT adds an embedding of each position and rotates nothing (0.32.0 models/opt.py)."""
    loaded = load(inventory(shape({**_SMALL, "model_type": model_type})), Ranks(), release=(0, 32, 0))
    assert loaded is not None
    assert bool(loaded[0].components.get("rotary")) is has_table


@pytest.mark.parametrize(
    ("model_type", "field", "harmless", "value"),
    [
        ("stablelm", "qk_layernorm", False, True),
        ("opt", "word_embed_proj_dim", 1024, 512),
        ("bailing_moe", "use_bias", False, True),
    ],
)
def test_modules_that_are_not_counted_leave_the_weights_unknown(
    model_type: str, field: str, harmless: Any, value: Any
) -> None:
    """StableLM's norms of heads, OPT's narrower embedding and Ling's biases are named as missing, not left out."""
    told = {**_SMALL, "model_type": model_type}
    found = [inventory(shape({**told, field: each})).missing for each in (harmless, value)]
    assert found == [(), (f"sizes with {field}",)]


LLAVA: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "text_config": {"model_type": "llama", **_SMALL},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "num_hidden_layers": 24},
    "tie_word_embeddings": False,
}
INTERN: dict[str, Any] = {
    "architectures": ["InternVLForConditionalGeneration"],
    "model_type": "internvl",
    "text_config": {"model_type": "qwen2", **_SMALL},
    "vision_config": {"model_type": "internvl_vision", "hidden_size": 1024},
}


def _vision(config: dict[str, Any], **changed: Any) -> int | None:
    """Parameters of the tower; None: something keeps them from being known."""
    stock = inventory(shape({**config, "vision_config": {**config["vision_config"], **changed}}))
    return (
        None
        if stock.missing
        else sum(
            tensor.values * times
            for tensor, _, times in stock.everything
            if tensor.in_checkpoint and tensor.component == "vision"
        )
    )


@pytest.mark.parametrize("layer", [-25, -100, 0])
def test_a_layer_outside_the_tower_leaves_no_negative_rest(layer: int) -> None:
    """The tower is cut at the layer that is read, and never has fewer than no layers."""
    found = []
    for told in ({"vision_feature_layer": layer}, {"vision_feature_layer": -1}):
        loaded = load(inventory(shape({**LLAVA, **told})), Ranks())
        assert loaded is not None
        found.append(loaded[0].components["vision"])

    assert 0 < found[0] < found[1]


def test_a_tower_that_llava_lacks_is_unknown() -> None:
    """Its parameters are not assumed to be CLIP's."""
    assert _vision(LLAVA) is not None
    assert _vision(LLAVA, model_type="foo_tower") is None


@pytest.mark.parametrize("size", [0, "14", [], [14, 14], None])
def test_sizes_of_a_patch_in_any_form_are_read_or_left_to_the_class(size: Any) -> None:
    """An invalid size counts as absent."""
    assert _vision(INTERN, patch_size=size) == _vision(INTERN, patch_size=14)


def test_a_family_without_states_has_unknown_layers_if_one_is_a_state() -> None:
    """The class cannot build such a layer."""
    plain = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "head_dim": 64, **_SMALL}
    kinds = ["sliding_attention", "full_attention"] * 2

    assert "layer_types" not in shape({**plain, "layer_types": kinds, "sliding_window": 512}).missing
    assert "layer_types" in shape({**plain, "layer_types": ["mamba", *kinds[1:]], "sliding_window": 512}).missing


def test_a_long_list_of_places_costs_no_more_than_reading_it() -> None:
    """A configuration of many entries and layers is read in a moment."""
    config = {
        "model_type": "bamba", "architectures": ["BambaForCausalLM"], **_SMALL, "num_hidden_layers": 2000,
        "attn_layer_indices": list(range(600_000)),
    }  # fmt: skip
    begun = time.process_time()
    shape(config)

    assert time.process_time() - begun < 2
