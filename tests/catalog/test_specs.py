"""GPUs and models are found by the names people use, each figure has a source, and the unknown stays unknown."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost import seconds
from rows import in_one_test
from vllm_runbooks.authoring import checks as authoring
from vllm_runbooks.catalog import folders, options, specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.catalog.specs import Model, Specs
from vllm_runbooks.core.errors import InputError


@pytest.fixture(scope="module")
def shelf() -> Specs:
    return specs.load(spec_files.compile_specs)


def model(shelf: Specs, name: str) -> Model:
    found = shelf.model(name)
    assert found is not None, name
    return found


@pytest.mark.slow
def test_the_shipped_files_are_good() -> None:
    """No file of the catalog has a problem."""
    index, problems = spec_files.compile_specs(folders.catalog_dir())
    assert problems == []
    assert len(index["gpus"]["gpus"]) >= 75
    assert len(index["models"]) >= 320


@in_one_test(
    ("spec", "expected"),
    [
        ("8xRTX3090", [("RTX3090", None)] * 8),
        ("8 x rtx 3090", [("RTX3090", None)] * 8),
        ("2×RTX-3090", [("RTX3090", None)] * 2),  # noqa: RUF001 - the sign that people type
        ("NVIDIA GeForce RTX 3090", [("RTX3090", None)]),
        ("4090", [("RTX4090", None)]),
        ("A100-80GB", [("A100-80GB", None)]),
        ("a100 80gb", [("A100-80GB", None)]),
        ("80G A100", [("A100-80GB", None)]),
        ("A100-40", [("A100-40GB", None)]),
        ("NVIDIA A100-SXM4-80GB", [("A100-80GB-SXM", None)]),
        ("RTX3090-24GB", [("RTX3090", None)]),
        ("RTX3090@node1,H800@node2", [("RTX3090", "node1"), ("H800", "node2")]),
        ("2xL4@a, T4 @ b", [("L4", "a"), ("L4", "a"), ("T4", "b")]),
        ("h-100 nvl", [("H100-NVL", None)]),
        ("MI300X-OAM", [("MI300X", None)]),
        ("RTX 6000 Ada Generation", [("RTX 6000 Ada", None)]),
        ("H100x8", [("H100-80GB", None)] * 8),
        ("RTX 4090 x 2", [("RTX4090", None)] * 2),
        ("L40S:4", [("L40S", None)] * 4),
    ],
)
def test_gpus_are_found_by_common_names(shelf: Specs, spec: str, expected: list[Any]) -> None:
    """Case, spaces, dashes and vendor words are ignored; a count and a host may be given."""
    assert [(card.gpu.name, card.node) for card in shelf.gpus(spec)] == expected


def test_gpus_of_amd_have_memory_and_capability(shelf: Specs) -> None:
    """PyTorch's numbers for gfx942 and gfx950; rules for CUDA are not applied to them."""
    expected = {"MI300X": (192, "9.4"), "MI325X": (256, "9.4"), "MI350X": (288, "9.5"), "MI355X": (288, "9.5")}
    found = {name: shelf.gpu(name) for name in expected}
    assert {name: (gpu.memory_gib, gpu.capability) for name, gpu in found.items()} == expected
    assert {(gpu.version, gpu.formats) for gpu in found.values()} == {(None, None)}
    totals = {name: gpu.total and gpu.total.expected for name, gpu in found.items()}
    assert totals == {"MI300X": 191.98, "MI325X": 255.98, "MI350X": None, "MI355X": 287.98}
    assert shelf.gpu("L20").version == (8, 9)
    assert shelf.gpu("H100").name == "H100-80GB"


@in_one_test(
    ("spec", "said"),
    [
        ("A100", "ambiguous GPU name; use A100-40GB or A100-80GB"),
        ("gfx942", "ambiguous GPU name; use MI300A, MI300X or MI325X"),
        ("8xgfx950", "ambiguous GPU name; use MI350X or MI355X"),
        ("8xV100", "ambiguous GPU name; use V100-16GB or V100-32GB"),
        ("8xGaudi3", "Gaudi3: Intel Gaudi is not planned"),
        ("TPU-v6e", "TPU-v6e: Google TPU is not planned"),
        ("Ascend 910B", "Ascend 910B: Huawei Ascend is not planned"),
        ("cpu", "cpu: name the memory of a NUMA node, as in cpu-64GB"),
        ("cpu-64", "cpu-64: use cpu, or cpu-64GB for a host with 64 GB of memory"),
        ("RTX5060Ti", "ambiguous GPU name; use RTX5060Ti-8GB or RTX5060Ti-16GB"),
        ("2xGeForce RTX 5060 Ti", "ambiguous GPU name; use RTX5060Ti-8GB or RTX5060Ti-16GB"),
        ("RTX 6000", "ambiguous GPU name; use RTX 6000 Ada or RTX 6000 Turing"),
        ("2×48G A100", "no such GPU: A100 comes with 40 or 80 GB"),  # noqa: RUF001 - the sign that people type
        ("A100-48GB", "no such GPU: A100 comes with 40 or 80 GB"),
        ("RTX3090-48GB", "no such GPU: RTX3090 comes with 24 GB"),
        ("RTX 4090 Ti", "did you mean RTX4070Ti, RTX3090Ti or RTX4090?"),
        ("local", "not supported here"),
        ("inventory.json", "not supported here"),
        ("./hosts.yaml", "not supported here"),
        ("RTX3090@", "no host after @"),
        ("0xL4", "1 to 4096"),
        ("99999999xL4", "1 to 4096"),
        ("4096xL4,L4", "1 to 4096"),
        ("L4:0", "1 to 4096"),
        ("7900 XTX", "7900 XTX: unknown GPU"),
        ("Max 1550", "Max 1550: unknown GPU"),
        ("RTX PRO 3000", "RTX PRO 3000: unknown GPU; did you mean RTX PRO"),
        ("RTX PRO 5000", "ambiguous GPU name; use RTX PRO 5000-48GB or RTX PRO 5000-72GB"),
        ("", "an empty name"),
        ("L4,,T4", "an empty name"),
        ("x" * 100_000, "more than 100 characters"),
    ],
)
def test_an_ambiguous_name_is_rejected_with_candidates(shelf: Specs, spec: str, said: str) -> None:
    """A name of several GPUs lists them, an unknown memory size the existing ones."""
    with pytest.raises(InputError) as refused:
        shelf.gpus(spec)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("Llama-3.3-70B", ["meta-llama/Llama-3.3-70B-Instruct"]),
        ("llama 3.3 70b", ["meta-llama/Llama-3.3-70B-Instruct"]),
        ("gpt-oss", ["openai/gpt-oss-20b", "openai/gpt-oss-120b", "openai/gpt-oss-safeguard-20b"]),
        ("Llama-3.3-7", []),
        ("meta-llama/Llama-3.3-70B", ["meta-llama/Llama-3.3-70B-Instruct"]),
        ("other/Llama-3.3-70B", []),
        ("Qwen/Qwen-3-8B", ["Qwen/Qwen3-8B"]),
    ],
)
def test_the_beginning_of_a_name_finds_models(shelf: Specs, name: str, ids: list[str]) -> None:
    """Whole words of a name find the models that continue it, of its organization if it has one."""
    assert shelf.models_like(name) == ids


@in_one_test(
    ("name", "hub_id"),
    [
        ("Qwen 3 8B", "Qwen/Qwen3-8B"),
        ("qwen/qwen3 8b", "Qwen/Qwen3-8B"),
        ("gpt oss 120b", "openai/gpt-oss-120b"),
        ("phi 4", "microsoft/phi-4"),
        ("kimi k3", "moonshotai/Kimi-K3"),
        ("meta-llama/llama 3.1 8b instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Llama-3.1-405B", "meta-llama/Meta-Llama-3.1-405B"),
        ("/models/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("./Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("acme/qwen3 8b", None),
        ("acme/Meta-Llama-3.1-8B-Instruct", None),
        ("Qwen/Qwen38B", None),
    ],
)
def test_a_model_is_found_as_people_type_it(shelf: Specs, name: str, hub_id: str | None) -> None:
    """Spaces for dashes, and both names of a Llama model or folder; another organization's Hub id is another model."""
    found = shelf.model(name)
    assert (found.id if found else None) == hub_id


def test_every_name_of_a_gpu_finds_it(shelf: Specs) -> None:
    """Names and aliases are unambiguous, and a capability is a number that can be compared."""
    for gpu in shelf.table.gpus:
        for name in (gpu.name, *gpu.aliases):
            assert shelf.gpu(name) is gpu
        assert (gpu.version is not None) == (gpu.capability is not None and gpu.vendor == "nvidia")


def test_lines_of_shared_memory_widen_no_other_gpu(shelf: Specs) -> None:
    """Two hosts with a GB10 differ by 2%; GPUs with memory of their own and few lines still have less than 1%."""
    gb10, *others = (shelf.gpu(name).total for name in ("GB10", "RTX5090", "MI300X", "L40S"))
    assert gb10 is not None
    assert gb10.high - gb10.low > 2
    for total in others:
        assert total is not None
        assert total.expected - total.low < 0.01 * total.expected


@pytest.mark.parametrize(
    ("name", "memory", "reported", "capability"),
    [
        ("RTX3090", 24, (23.56, 23.69), (8, 6)),
        ("A100-80GB", 80, (79.14, 79.25), (8, 0)),
        ("H800", 80, (79.10, 79.10), (9, 0)),
        ("A6000", 48, None, (8, 6)),
        ("L20", 48, (44.53, 44.53), (8, 9)),
    ],
)
def test_nominal_and_reported_memory_are_separate(
    shelf: Specs, name: str, memory: float, reported: tuple[float, float] | None, capability: tuple[int, int] | None
) -> None:
    """Memory as sold and as printed; None without a source."""
    gpu = shelf.gpu(name)
    sizes = [line.gib for line in gpu.reported]
    assert (gpu.memory_gib, gpu.version) == (memory, capability)
    assert ((min(sizes), max(sizes)) if sizes else None) == reported


def test_no_gpu_has_more_memory_than_sold(shelf: Specs) -> None:
    """What a launch can use is at most the nominal size."""
    expected = {gpu.name: gpu.total.expected - gpu.memory_gib for gpu in shelf.table.gpus if gpu.total is not None}
    assert {name: over for name, over in expected.items() if over > 0} == {}


@pytest.mark.parametrize(
    ("name", "least", "expected", "most"),
    [
        ("A100-80GB", 79.14, 79.25, 79.25),
        ("A100-SXM4-80GB", 79.14, 79.25, 79.25),
        ("H100-80GB", 79.10, 79.19, 79.22),
        ("NVIDIA H100 80GB HBM3", 79.10, 79.19, 79.22),
        ("RTX3090", 23.56, 23.69, 23.69),
    ],
)
def test_a_launch_has_the_typical_memory(shelf: Specs, name: str, least: float, expected: float, most: float) -> None:
    """With several printed lines the total is the median, inside their range."""
    total = shelf.gpu(name).total
    assert total is not None
    assert (total.low, total.expected, total.high) == (least, expected, most)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("L40S", (44.39,)),
        ("A10G", (22.04, 22.06, 22.07)),
        ("GB10", (121.63,)),
        ("V100-32GB", (31.74,)),
        ("RTX5090", (31.36,)),
    ],
)
def test_a_gpu_with_few_measurements_has_a_wider_range(shelf: Specs, name: str, printed: tuple[float, ...]) -> None:
    """Below three printed lines the range includes other launches on similar GPUs."""
    total = shelf.gpu(name).total
    assert total is not None
    assert total.high - total.low > 0.01 * total.expected
    for gib in printed:
        assert total.low <= gib <= total.high


def test_every_total_has_its_source(shelf: Specs) -> None:
    """It is less than the nominal size; another vendor's is known only if a log printed it."""
    for gpu in shelf.table.gpus:
        if gpu.vendor == "nvidia":
            assert gpu.total is not None
            assert gpu.total.source
            assert gpu.reported or gpu.form_of or gpu.total.high - gpu.total.low > 0.02 * gpu.total.expected
            assert 0.85 * gpu.memory_gib < gpu.total.low <= gpu.total.expected <= gpu.total.high
        else:
            assert (gpu.total is not None) == bool(gpu.reported)
            assert gpu.total is None or gpu.total.expected < gpu.total.high == gpu.memory_gib


@pytest.mark.parametrize(
    ("name", "bandwidth", "formats"),
    [
        ("A100-80GB-SXM", 2039, ("bf16",)),
        ("H100-80GB-SXM", 3350, ("bf16", "fp8")),
        ("RTX5090", 1792, ("bf16", "fp8", "mxfp4")),
        ("T4", 320, ()),
        ("RTX 6000 Ada", None, ("bf16", "fp8")),
        ("L20", 864, ("bf16", "fp8")),
        ("MI300X", 5300, None),
    ],
)
def test_formats_and_bandwidth_of_a_gpu(
    shelf: Specs, name: str, bandwidth: float | None, formats: tuple[str, ...] | None
) -> None:
    """Known or None; native formats follow from the compute capability."""
    gpu = shelf.gpu(name)
    assert (gpu.memory_bandwidth_gb_s, gpu.formats) == (bandwidth, formats)


def test_recorded_logs_contain_the_cited_memory(shelf: Specs) -> None:
    """A figure with a shipped case as source is in its log."""
    cited = [line for gpu in shelf.table.gpus for line in gpu.reported if line.source.startswith("catalog/")]
    assert cited
    for line in cited:
        text = (folders.data_dir() / line.source).read_text(encoding="utf-8").replace(" ", "")
        assert f"{line.gib:.2f}GiB" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("google/gemma-4-31b-it", "google/gemma-4-31B-it"),
        ("/models/AutoGLM-Phone-9B", "zai-org/AutoGLM-Phone-9B"),
        ("/models/AutoGLM-Phone-9B/", "zai-org/AutoGLM-Phone-9B"),
        ("AutoGLM-Phone-9B", "zai-org/AutoGLM-Phone-9B"),
        (r"D:\models\Qwen3-8B", "Qwen/Qwen3-8B"),
        ("./Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0a1b", "Qwen/Qwen3-8B"),
        ("someone/Qwen3-8B", None),
        ("/models/final", None),
        ("", None),
        ("/", None),
    ],
)
def test_models_are_found_by_hub_id_or_folder(shelf: Specs, name: str, expected: str | None) -> None:
    """A local folder that carries a model's name is that model; another's repository of the same name is not."""
    found = shelf.model(name)
    assert (found.id if found else None) == expected


@in_one_test(
    "name",
    [
        "zai-org/AutoGLM-Phone-9B", "Qwen/Qwen2.5-0.5B-Instruct", "openai/gpt-oss-20b", "google/gemma-4-26B-A4B",
        "google/gemma-4-26B-A4B-it", "google/gemma-4-31B-it", "Qwen/Qwen2.5-1.5B-Instruct",
        "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-4B-Instruct", "Qwen/Qwen3-4B", "Qwen/Qwen3-1.7B",
        "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2-VL-7B-Instruct", "Qwen/Qwen2-7B",
        "Qwen/Qwen1.5-1.8B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "meta-llama/Meta-Llama-3-8B",
    ],
)  # fmt: skip
def test_models_of_the_source_documents_are_in_the_catalog(shelf: Specs, name: str) -> None:
    """With architecture, heads, width, layers and vocabulary, and without remote code."""
    found = model(shelf, name)
    assert None not in (
        found.architecture, found.attention_heads, found.kv_heads, found.hidden_size, found.layers,
        found.vocabulary_size, found.intermediate_size,
    )  # fmt: skip
    assert found.needs_remote_code is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-oss-20b", {"quantization": "mxfp4", "experts": 32, "head_dim": 64, "max_positions": 131072}),
        ("google/gemma-4-26B-A4B", {"experts": 128, "modalities": ("image", "video"), "quantization": "none"}),
        ("deepseek-ai/DeepSeek-V3", {"is_mla": True, "needs_remote_code": None, "quantization": "fp8"}),
        ("Qwen/Qwen3-235B-A22B-FP8", {"kv_heads": 4, "moe_intermediate_size": 1536, "is_mla": False}),
        ("Qwen/Qwen2.5-0.5B-Instruct", {"dtype": None, "head_dim": 64, "ties_embeddings": True}),
        ("zai-org/AutoGLM-Phone-9B", {"max_positions": 65536, "quantization": None, "is_mla": False}),
        ("meta-llama/Meta-Llama-3.1-8B", {"max_positions": 131072, "modalities": ()}),
        ("BAAI/bge-m3", {"max_positions": 8192}),
        ("BAAI/bge-base-en-v1.5", {"max_positions": 512}),
    ],
)
def test_a_configuration_yields_a_models_facts(shelf: Specs, name: str, expected: dict[str, Any]) -> None:
    """Fields of the source are read, missing ones are None."""
    found = model(shelf, name)
    assert {field: getattr(found, field) for field in expected} == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"architecture": None, "attention_heads": None, "experts": None, "modalities": None}),
        ({"num_attention_heads": True, "hidden_size": -1, "vocab_size": "7"}, {"attention_heads": None}),
        ({"architectures": "X", "quantization_config": 3}, {"architecture": None}),
        (
            {"architectures": ["XForCausalLM"], "quantization_config": {"quant_method": "awq", "group_size": 128}},
            {"quantization": "awq", "group_size": 128, "modalities": (), "experts": 0},
        ),
        (
            {
                "architectures": ["X"],
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"a": {"weights": {"group_size": 64}}, "b": {"weights": {"group_size": 128}}},
                },
            },
            {"quantization": "compressed-tensors", "group_size": None},
        ),
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}},
            {"max_positions": 16384},
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768},
            },
            {"max_positions": 131072},
        ),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "llama3", "factor": 8.0}}, {"max_positions": 8192}),
        ({"max_position_embeddings": 4096, "model_max_length": 1048576}, {"max_positions": 1048576}),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "new", "factor": "x"}}, {"max_positions": None}),
        ({"auto_map": {}, "architectures": ["X"]}, {"needs_remote_code": None}),
        ({"architectures": ["X"]}, {"needs_remote_code": False}),
        ({"text_config": {"num_attention_heads": 8, "hidden_size": 64}}, {"attention_heads": 8, "head_dim": None}),
    ],
)
def test_any_configuration_is_read_as_far_as_possible(config: dict[str, Any], expected: dict[str, Any]) -> None:
    """Fields of another type are unknown."""
    found = specs.model_from_config(config)
    assert {field: getattr(found, field) for field in expected} == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "architectures", "text_config", "vision_config", "quantization_config", "rope_scaling", "head_dim", "dtype",
    "num_attention_heads", "hidden_size", "max_position_embeddings", "model_type", "num_experts",
)  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
@settings(max_examples=200, deadline=None)
def test_no_configuration_raises(config: dict[str, Any]) -> None:
    """Any content of config.json yields a model."""
    assert specs.model_from_config(config).config is config


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_name_is_found_or_rejected(shelf: Specs, name: str) -> None:
    """GPU names only raise InputError, model names nothing."""
    shelf.model(name)
    with contextlib.suppress(InputError):
        shelf.gpus(name)


@pytest.mark.parametrize("text", [" ", ",", "/", "1", "- 8", "L4,", "8x", "a100@"])
def test_a_hostile_request_costs_nothing(shelf: Specs, text: str) -> None:
    """A megabyte of blanks, commas or slashes is answered immediately."""

    def ask(text: str) -> None:
        shelf.model(text)
        with contextlib.suppress(InputError):
            shelf.gpus(text)

    assert seconds(ask, text * (1_000_000 // len(text)), rounds=1) < 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "gpus.yaml",
            "sources: {}\ngpus:\n  - {name: A, memory_gib: 8, sources: [x]}\n",
            "gpus.yaml:3: gpus.0.sources",
        ),
        ("gpus.yaml", "sources: {}\ngpus:\n  - {name: A, memory_gib: 8, sources: []}\n", "needs a source"),
        ("gpus.yaml", "sources: {}\ngpus: [{name: A, sources: []}]\n", "memory_gib: is missing"),
        (
            "gpus.yaml",
            "sources: {s: t}\ngpus:\n  - {name: A, memory_gib: 8, sources: [s], form_of: B}\n",
            "gpus.0.form_of: 'B' is not a GPU with 8 GiB",
        ),
        (
            "gpus.yaml",
            "sources: {s: t}\ngpus:\n- {name: A, memory_gib: 8, sources: [s], nvidia_smi: [{mib: 16376, source: u}]}\n",
            "16376 MiB does not fit a GPU of 8",
        ),
        (
            "gpus.yaml",
            "sources: {s: t}\ngpus:\n  - {name: A, memory_gib: 8, sources: [s], memory_bandwidth_gb_s: 0.9}\n",
            "0.9 is not a GPU bandwidth",
        ),
        (
            "gpus.yaml",
            "sources: {s: t}\ngpus:\n  - {name: A, memory_gib: 8, sources: [s], vendor: intel}\n",
            "'intel' is not one of nvidia, amd",
        ),
        (
            "gpus.yaml",
            (
                "sources: {}\ngpus:\n"
                "- {name: A, memory_gib: 8, sources: [], total: {low: 7, expected: 7, high: 8, source: s}}\n"
            ),
            "is computed from the table",
        ),
        ("fits.yaml", "tool_parsers: {x: {models: []}}\n", "source: is missing"),
        ("architectures.yaml", "x: {sauce: y}\n", "is not a known field"),
        ("models/o/r.yaml", "id: o/other\nsource: s\nconfig: {architectures: [X]}\n", "the file's place says 'o/r'"),
        ("models/o/r.yaml", "id: o/r\nsource: ''\nconfig: {architectures: [X]}\n", "source: is empty"),
        ("models/o/r.yaml", "id: o/r\nsource: s\nconfig: {}\n", "names no class"),
        ("models/o/r.yaml", "id: [\n", "not YAML"),
        ("defaults.yaml", "options:\n  a: {matters: taste, why: w, source: s}\n", "defaults.yaml:2: options.a.matters"),
        ("defaults.yaml", "options:\n  a: {matters: unknown, why: w, source: s}\n", "marks it as unchecked"),
        (
            "defaults.yaml",
            "options:\n  a: {matters: api, why: w, source: 'vllm 0.8.5 config.py'}\n",
            "is not written as",
        ),
        (
            "defaults.yaml",
            "options:\n  a: {matters: api, why: w, source: 'vllm 0.8.5 config.py:7 and config.py'}\n",
            "is not written as",
        ),
        (
            "defaults.yaml",
            "options:\n  a: {matters: api, why: '', source: 'vllm 0.8.5 config.py:7'}\n",
            "why: is empty",
        ),
        ("defaults.yaml", "options:\n  seet: {matters: api, why: w, source: ''}\n", "'seet' is in no release"),
        ("defaults.yaml", "environment:\n  VLLM_X: {matters: api, why: w, source: ''}\n", "'VLLM_X' is in no release"),
        (
            "defaults.yaml",
            "options:\n  seed: {matters: api, why: w, source: '', only_with: [seet]}\n",
            "options.seed.only_with: 'seet' is in no release",
        ),
        (
            "defaults.yaml",
            "options:\n  seed: {matters: api, why: w, source: '', former: {of: 1, value: 1, option: seet}}\n",
            "options.seed.former: 'seet' is in no release",
        ),
    ],
)
def test_a_broken_file_is_named_by_file_line_and_field(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Errors are listed, and valid entries next to them are compiled."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (tmp_path / "releases").symlink_to(options.releases_dir())
    _, problems = spec_files.compile_specs(tmp_path)
    assert any(said in problem for problem in problems), problems


BASE = "id: o/base\nsource: s\nconfig: {architectures: [X], layers: 2, text_config: {heads: 4, dtype: a}}\n"


def _models(folder: Path, **files: str) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog of models of the organization `o`."""
    (folder / "models" / "o").mkdir(parents=True)
    for name, text in files.items():
        (folder / "models" / "o" / f"{name}.yaml").write_text(text, encoding="utf-8")
    index, problems = spec_files.compile_specs(folder)
    return {name: json.loads(text)["config"] for name, text in index["models"].items()}, problems


def test_a_model_has_the_configuration_of_the_one_it_is_like(tmp_path: Path) -> None:
    """A model's own fields are over those of the model that `like` names, also in the parts of a configuration."""
    own = "id: o/own\nsource: s\nlike: o/base\nconfig: {layers: null, text_config: {heads: 8}}\n"
    same = "id: o/same\nsource: s\nlike: o/base\n"

    configs, problems = _models(tmp_path, base=BASE, own=own, same=same)

    assert problems == []
    assert configs["o/same"] == configs["o/base"]
    assert configs["o/own"] == {"architectures": ["X"], "layers": None, "text_config": {"heads": 8, "dtype": "a"}}


def test_a_model_is_as_incomplete_as_the_one_it_is_like(tmp_path: Path) -> None:
    """The fields that the other's source lacks are missing in both."""
    own = "id: o/own\nsource: s\nlike: o/base\n"
    _models(tmp_path, base=f"{BASE}is_partial: true\n", own=own)
    index, problems = spec_files.compile_specs(tmp_path)

    assert problems == []
    assert json.loads(index["models"]["o/own"])["is_partial"] is True


@pytest.mark.parametrize("named", ["o/missing", "o/same"])
def test_a_model_is_like_one_with_its_own_configuration(tmp_path: Path, named: str) -> None:
    """`like` names no missing model and no model that is itself like another one."""
    same = "id: o/same\nsource: s\nlike: o/base\n"

    _, problems = _models(tmp_path, base=BASE, same=same, other=f"id: o/other\nsource: s\nlike: {named}\n")

    assert len(problems) == 1
    assert problems[0].startswith("models/o/other.yaml:3: like: ")
    assert "is not a model of the catalog with its own configuration" in problems[0]


def test_a_whole_folder_is_checked_with_its_specifications(tmp_path: Path) -> None:
    """Models, GPUs and defaults of a folder are counted and checked with the rest; a table may be left out."""
    good = "id: o/r\nsource: s\nconfig: {architectures: [X]}\n"
    (tmp_path / "models" / "o").mkdir(parents=True)
    (tmp_path / "models" / "o" / "r.yaml").write_text(good, encoding="utf-8")
    assert authoring.check_folder(tmp_path) == (1, [])

    (tmp_path / "models" / "o" / "r.yaml").write_text(good.replace("o/r", "o/q"), encoding="utf-8")
    (tmp_path / "gpus.yaml").write_text(
        "sources: {}\ngpus: [{name: A, memory_gib: 8, sources: []}]\n", encoding="utf-8"
    )
    (tmp_path / "defaults.yaml").write_text("options: {a: {matters: taste, why: w, source: s}}\n", encoding="utf-8")
    count, problems = authoring.check_folder(tmp_path)
    assert count == 3
    assert sorted(problem.partition(":")[0] for problem in problems) == [
        "defaults.yaml",
        "gpus.yaml",
        "models/o/r.yaml",
    ]


def test_every_reviewed_default_names_its_change(shelf: Specs) -> None:
    """Each name is in a release, and each source has release, file and line."""
    known = options.names(options.releases_dir())
    place = r"vllm [\d.]+(?:post\d+)? \S+\.py:\d+"
    reviews = {**shelf.defaults.options, **shelf.defaults.environment}
    named = {*shelf.defaults.options, *(other for review in reviews.values() for other in review.only_with)}
    named |= {review.former.option for review in reviews.values() if review.former and review.former.option}

    assert named <= known.arguments
    assert shelf.defaults.environment.keys() <= known.variables
    assert [name for name, said in reviews.items() if not re.fullmatch(f"{place}(?: and {place})?", said.source)] == []


def test_sources_can_be_opened(shelf: Specs) -> None:
    """A source is a package by name and version, a page of the web, or a file of ours."""
    fits = (shelf.fits.tool_parsers, shelf.fits.reasoning_parsers, shelf.fits.chat_templates)
    told = [file.source for file in shelf.files] + list(shelf.table.sources.values())
    told += [line.source for gpu in shelf.table.gpus for line in gpu.reported]
    told += [line.source for gpu in shelf.table.gpus for line in gpu.nvidia_smi]
    told += [fit.source for table in fits for fit in table.values()]
    told += [known.source for known in shelf.architectures.values()]
    for source in told:
        pages = re.findall(r"https://[\w.-]+\.[a-z]{2,}/\S+", source)
        assert pages or source.startswith(("PyPI ", "catalog/")), source


# ---- a small shelf, and configurations one field at a time


def _card(name: str, memory: float, *aliases: str, **more: Any) -> specs.Gpu:
    return specs.Gpu(name, memory, ("s",), aliases, **more)


def _shelf(**files: dict[str, Any]) -> Specs:
    gpus = (
        _card("A100-40GB", 40), _card("A100-80GB", 80, "NVIDIA A100 80"), _card("A100-80GB-PCIe", 80),
        _card("X9 Ultra", 16), _card("Y7 Plain", 8), _card("Y7 Plain Wide", 12),
    )  # fmt: skip
    texts = {
        name.replace("__", "/"): json.dumps({"id": name.replace("__", "/"), "source": "s", "config": {}, **told})
        for name, told in files.items()
    }
    return Specs(specs.GpuTable({"s": "x"}, gpus), texts, {}, specs.Fits({}, {}, {}))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("X9", "X9 Ultra"), ("x9 ULTRA", "X9 Ultra"), ("NVIDIA GeForce RTX X9 Ultra", "X9 Ultra"), ("Y7", "Y7 Plain"),
        ("Y7 Plain Wide", "Y7 Plain Wide"), ("X9-16", "X9 Ultra"), ("X9 16GB", "X9 Ultra"), ("16 GiB X9", "X9 Ultra"),
        ("X9 Ultra 16g", "X9 Ultra"), ("A100 40", "A100-40GB"), ("40g a100", "A100-40GB"), ("A100 80", "A100-80GB"),
        (" A100-80GB\t", "A100-80GB"),
    ],
)  # fmt: skip
def test_a_prefix_of_one_gpu_finds_it(asked: str, name: str) -> None:
    """The rest of a name and its memory may be missing or separate."""
    assert _shelf().gpu(asked).name == name


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("A100", "A100: ambiguous GPU name; use A100-40GB or A100-80GB"),
        ("X9 24GB", "X9 24GB: no such GPU: X9 comes with 16 GB"),
        ("A100 24", "A100 24: no such GPU: A100 comes with 40 or 80 GB"),
        ("x" * 100, "x" * 100 + f": unknown GPU; {specs.ALL_GPUS}"),
        ("x" * 101, "x" * 100 + ": not a GPU name: more than 100 characters"),
        ("X9 Ultro", f"X9 Ultro: unknown GPU; did you mean X9 Ultra? {specs.ALL_GPUS}"),
        ("", f"an empty name: unknown GPU; {specs.ALL_GPUS}"),
    ],
)
def test_an_unknown_gpu_name_is_rejected_in_one_sentence(asked: str, said: str) -> None:
    """With matching GPUs, existing sizes, or similar names."""
    with pytest.raises(InputError) as refused:
        _shelf().gpu(asked)
    assert str(refused.value) == said


def test_a_request_has_at_most_4096_gpus() -> None:
    """As many as that in all, each with its host."""
    assert len(_shelf().gpus("4096xX9")) == 4096
    assert [card.node for card in _shelf().gpus("1 x X9@a, X9 @ b,X9")] == ["a", "b", None]
    assert len(_shelf().gpus("4095xX9,X9")) == 4096
    for spec in ("4097xX9", "4096xX9,X9", "0xX9"):
        with pytest.raises(InputError, match="1 to 4096 GPUs"):
            _shelf().gpus(spec)


@pytest.mark.parametrize(
    ("capability", "formats"),
    [
        ("7.5", ()), ("8.0", ("bf16",)), ("8.8", ("bf16",)), ("8.9", ("bf16", "fp8")), ("9.9", ("bf16", "fp8")),
        ("10.0", ("bf16", "fp8", "mxfp4")), (None, None), ("x.0", None), ("8", None), ("8.x", None),
    ],
)  # fmt: skip
def test_formats_begin_with_a_capability(capability: str | None, formats: tuple[str, ...] | None) -> None:
    """bf16 with 8.0, fp8 with 8.9, mxfp4 with 10.0 (PTX ISA, `mma`)."""
    assert _card("x", 1, capability=capability).formats == formats


def test_loaded_data_cannot_be_changed() -> None:
    """GPUs and models are loaded once and shared."""
    kinds = [kind for kind in vars(specs).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    assert len(kinds) >= 14
    for kind in kinds:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(object.__new__(kind), dataclasses.fields(kind)[0].name, None)
    assert "config=" not in repr(specs.model_from_config({"architectures": ["X"]}))


_CAUSAL = {"architectures": ["XForCausalLM"]}
_CONFIGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"n_head": 3}, {"attention_heads": 3}),
    ({"num_heads": 3, "n_heads": 4}, {"attention_heads": 4}),
    ({"num_attention_heads": 0, "n_head": 1}, {"attention_heads": 1}),
    ({"n_embd": 5, "n_layer": 6, "n_inner": 7}, {"hidden_size": 5, "layers": 6, "intermediate_size": 7}),
    ({"d_model": 5, "num_layers": 6, "ffn_hidden_size": 7}, {"hidden_size": 5, "layers": 6, "intermediate_size": 7}),
    ({"padded_vocab_size": 9}, {"vocabulary_size": 9}),
    ({"multi_query_group_num": 2}, {"kv_heads": 2}),
    ({"num_kv_heads": 2}, {"kv_heads": 2}),
    ({"llm_config": {"num_attention_heads": 8}, "num_attention_heads": 2}, {"attention_heads": 8}),
    ({"thinker_config": {"text_config": {"num_attention_heads": 8}}}, {"attention_heads": 8}),
    ({"text_config": 3, "num_attention_heads": 2}, {"attention_heads": 2}),
    ({"architectures": []}, {"architecture": None, "experts": None, "needs_remote_code": None}),
    ({"architectures": ("A", "B")}, {"architecture": "A"}),
    ({"architectures": [""]}, {"architecture": None}),
    ({"architectures": [7]}, {"architecture": None}),
    ({**_CAUSAL, "num_local_experts": 4}, {"experts": 4}),
    ({**_CAUSAL, "n_routed_experts": 4}, {"experts": 4}),
    ({"kv_lora_rank": 512}, {"is_mla": True}),
    ({"num_attention_heads": 8, "num_key_value_heads": 8}, {"is_mla": False}),
    ({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}, {"ties_embeddings": False}),
    ({"text_config": {"tie_word_embeddings": True}}, {"ties_embeddings": True}),
    ({"tie_word_embeddings": 1}, {"ties_embeddings": None}),
    ({"dtype": "float16", "torch_dtype": "bfloat16"}, {"dtype": "float16"}),
    ({"torch_dtype": "bfloat16", "text_config": {"dtype": "float32"}}, {"dtype": "bfloat16"}),
    ({"text_config": {"dtype": "float32"}}, {"dtype": "float32"}),
    ({"n_positions": 9}, {"max_positions": 9}),
    ({"max_seq_len": 9, "seq_length": 7, "max_sequence_length": 8}, {"max_positions": 7}),
    ({"n_positions": 9, "rope_scaling": {"type": "linear", "factor": 2.5}}, {"max_positions": 22}),
    (
        {"n_positions": 9, "model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 8}},
        {"max_positions": 9},
    ),
    ({"n_positions": 9, "rope_parameters": {"rope_type": "linear", "factor": 2}}, {"max_positions": 18}),
    ({"n_positions": 9, "rope_parameters": {"full": {"rope_type": "linear", "factor": 2}}}, {"max_positions": 9}),
    ({"n_positions": 9, "rope_scaling": {"factor": 2}}, {"max_positions": 9}),
    ({"n_positions": 9, "rope_scaling": {"type": 3, "factor": 2}}, {"max_positions": None}),
    ({"n_positions": 9, "rope_scaling": {"type": "linear", "factor": True}}, {"max_positions": None}),
    ({"n_positions": 9, "rope_scaling": {"type": "linear", "factor": 0}}, {"max_positions": None}),
    ({"n_positions": 9, "rope_scaling": {"type": "linear", "factor": 1e6}}, {"max_positions": None}),
    ({"n_positions": 9, "rope_scaling": {"type": "linear"}}, {"max_positions": None}),
    ({"n_positions": 9, "rope_scaling": {"type": "yarn", "factor": 2}}, {"max_positions": 18}),
    (
        {"n_positions": 9, "rope_scaling": {"type": "dynamic", "factor": 2, "original_max_position_embeddings": 4}},
        {"max_positions": 18},
    ),
    ({"rope_scaling": {"type": "linear", "factor": 2}}, {"max_positions": None}),
    ({**_CAUSAL, "vision_config": {}}, {"modalities": ("image",)}),
    ({**_CAUSAL, "vision_tower_config": {}, "video_token_index": 5}, {"modalities": ("image", "video")}),
    ({**_CAUSAL, "vision_config": {}, "video_token_id": 0}, {"modalities": ("image",)}),
    ({**_CAUSAL, "video_token_id": 5}, {"modalities": ()}),
    ({**_CAUSAL, "audio_config": {}}, {"modalities": ("audio",)}),
    ({**_CAUSAL, "thinker_config": {"audio_config": {}, "vision_config": {}}}, {"modalities": ("image", "audio")}),
    ({"architectures": ["XForSomething"]}, {"modalities": None}),
    ({}, {"quantization": "none", "group_size": None}),
    ({"quantization_config": None}, {"quantization": None}),
    ({"compression_config": {"quant_method": "awq"}}, {"quantization": "awq", "group_size": None}),
    ({"text_config": {"quantization_config": {"quant_method": "gptq", "group_size": 32}}}, {"group_size": 32}),
    (
        {"quantization_config": {"config_groups": {"a": {"weights": {"group_size": 64}}, "b": {"weights": 3}, "c": 5}}},
        {"quantization": None, "group_size": 64},
    ),
    ({"quantization_config": {"group_size": -1}}, {"group_size": None}),
]


@in_one_test(("config", "expected"), _CONFIGS)
def test_each_field_is_read_by_each_of_its_names(config: dict[str, Any], expected: dict[str, Any]) -> None:
    """Names differ between families; a value of another type counts as missing."""
    found = specs.model_from_config(config)
    assert {field: getattr(found, field) for field in expected} == expected


def test_scaled_rotary_embeddings_give_the_context_of_the_model(shelf: Specs) -> None:
    """For YaRN, vLLM multiplies the original context by the factor: the product is the published context."""
    scaled = 0
    for file in shelf.files:
        text = file.config.get("text_config", file.config)
        rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
        if "yarn" in (rope.get("rope_type"), rope.get("type")) and "original_max_position_embeddings" in rope:
            scaled += 1
            assert shelf.models[file.id].max_positions == text["max_position_embeddings"], file.id
    assert scaled > 20


def test_facts_missing_in_a_partial_source_are_unknown() -> None:
    """Not absent: experts, modalities, quantization and remote code."""
    found = specs.model_from_config({**_CAUSAL, "num_attention_heads": 8, "num_key_value_heads": 8}, is_partial=True)
    assert (found.experts, found.modalities, found.quantization) == (None, None, None)
    assert (found.needs_remote_code, found.is_mla) == (None, None)
    grouped = specs.model_from_config({"num_attention_heads": 8, "num_key_value_heads": 4}, is_partial=True)
    assert grouped.is_mla is False
    for config in ({"num_key_value_heads": 4}, {"num_attention_heads": 8}, {}):
        assert specs.model_from_config(config, is_partial=True).is_mla is None
    assert specs.model_from_config({"kv_lora_rank": 1}, is_partial=True).is_mla is True


def test_facts_of_a_family_complete_its_models() -> None:
    """The head size from the hidden size, the tower's heads, the processor's arguments."""
    known = {
        "a": specs.Architecture("s", ("max_pixels",), derives_head_dim=True, encoder_heads="heads"),
        "b": specs.Architecture("s"),
    }

    def read(kind: str | None, **more: Any) -> Model:
        config = {"model_type": kind, "vision_config": {"heads": 12}, "num_attention_heads": 4, "hidden_size": 64}
        return specs.model_from_config({**config, **more}, known)

    made = read("a")
    assert (made.head_dim, made.encoder_heads, made.processor_arguments) == (16, 12, ("max_pixels",))
    assert read("a", head_dim=20).head_dim == 20
    assert read("a", hidden_size=65).head_dim is None
    assert read("a", hidden_size=None).head_dim is None
    assert read("a", num_attention_heads=None).head_dim is None
    for other in (read("b"), read("c"), read(None)):
        assert (other.head_dim, other.encoder_heads, other.processor_arguments) == (None, None, None)


@in_one_test(
    ("name", "has"),
    [
        ("Org/Model-7B", True), ("org/model-7b", True), ("org/model-70b", True), ("other/model-7b", False),
        ("/models/Model-7B", True), ("Model-7B", True), ("/models/another", False), ("a/b/model-7b", True),
        ("./model-7b", True), ("~/model-7b", True), (r"c:\model-7b", True), ("", False),
        ("/root/hub/models--org--model-7b/snapshots/1", True), ("/root/hub/models--other--model-7b/x", False),
        ("any/wild-1", True), ("/models/wild-1", False),
    ],
)  # fmt: skip
def test_a_parser_matches_a_model_by_its_id_or_its_folder(name: str, *, has: bool) -> None:
    """A pattern with a leading wildcard does not match folder names."""
    fit = specs.ParserFit(("org/Model-7*", "any/*-1"), "s")
    assert fit.has(name) is has


def test_models_are_found_by_a_unique_last_part() -> None:
    """If two models share it, a folder of that name is neither."""
    shelf = _shelf(
        a__One={}, b__Two={}, c__Two={}, d__Own={"needs_remote_code": True}, e__Map={"config": {"auto_map": {}}}
    )
    names = {name: shelf.model(name) for name in ("One", "/x/one", "a/ONE", "Two", "b/Two", "x/One", "/", "", "a/One/")}
    assert {name: None if found is None else found.id for name, found in names.items()} == {
        "One": "a/One", "/x/one": "a/One", "a/ONE": "a/One", "Two": None, "b/Two": "b/Two", "x/One": None, "/": None,
        "": None, "a/One/": None,
    }  # fmt: skip
    assert model(shelf, "d/Own").needs_remote_code is True
    assert model(shelf, "e/Map").needs_remote_code is None
    assert model(shelf, "d/Own").sources == ("s",)
    assert shelf.model("d/Own") is shelf.model("own")
    assert list(shelf.models) == ["a/One", "b/Two", "c/Two", "d/Own", "e/Map"]
    assert [file.id for file in shelf.files] == list(shelf.models)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA GeForce RTX 3090", "3090"), ("rtx_6000-Ada", "6000ada"), ("Tesla T4", "t4"), ("RTX", "rtx"),
        ("nvidia rtx", "rtx"), ("H100 NVL", "h100nvl"), ("NVIDIA NVIDIA X", "x"),
    ],
)  # fmt: skip
def test_names_are_compared_without_brands_and_punctuation(name: str, key: str) -> None:
    """A name that is a brand and nothing else stays."""
    assert specs.name_key(name) == key
