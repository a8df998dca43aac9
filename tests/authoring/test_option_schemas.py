"""Schemas by which editors check vLLM's options in YAML: of the file for `--config`, and of charts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rows import in_one_test, rest_full
from vllm_runbooks.authoring import option_schemas
from vllm_runbooks.catalog import options
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Issue

jsonschema = pytest.importorskip("jsonschema")
referencing = pytest.importorskip("referencing")

MANIFESTS = Path(__file__).parents[1] / "lint" / "manifests"
GONE = {"option.removed", "option.not-there-yet", "option.unknown"}


@cache
def validator(name: str, release: str) -> Any:
    schemas = {
        f"{kind}-{release}.json": schema for kind, schema in option_schemas.schemas(options.load(release)).items()
    }
    resources = [(file, referencing.Resource.from_contents(schema)) for file, schema in schemas.items()]
    schema = schemas[f"{name}-{release}.json"]
    return jsonschema.Draft7Validator(schema, registry=referencing.Registry().with_resources(resources))


def faults(text: str, *, name: str = "vllm-serve", release: str = "0.33.0") -> list[str]:
    """Paths of the values that a schema rejects in a YAML document."""
    errors = validator(name, release).iter_errors(YAML(typ="safe").load(text))
    return [".".join(map(str, error.absolute_path)) for error in errors]


def issues(lines: list[str], release: str) -> list[tuple[str, Issue]]:
    """What `lint` finds in a file for `--config` that names the schema of a release, with its lines."""
    modeline = f"# yaml-language-server: $schema=https://docs/schemas/vllm-serve-{release}.json"
    text = "".join(f"{line}\n" for line in [modeline, *lines])
    found = checking.lint_text(text, name="config.yaml").issues
    return [(text.splitlines()[issue.line - 1], issue) for issue in found]


@pytest.mark.parametrize("release", rest_full(["0.8.5", "0.11.0", "0.19.0", "0.33.0"], 0))
def test_a_schema_has_the_names_that_lint_accepts(release: str) -> None:
    """Of all names that any release has, schema and `lint` reject the same; a file cannot name another one."""
    names = sorted(text[2:] for text in options.past().lives if text.startswith("--"))
    names = [name for name in names if name not in ("config", "help")]
    errors = validator("vllm-serve", release).iter_errors(dict.fromkeys(names, "x"))
    (message,) = [error.message for error in errors if error.validator == "additionalProperties"]
    rejected = {name for name in names if f"'{name}'" in message}
    parts = [[f"{name}: x" for name in names[begin : begin + 9]] for begin in range(0, len(names), 9)]
    found = {line.partition(":")[0] for part in parts for line, issue in issues(part, release) if issue.rule in GONE}

    assert rejected == found
    assert len(rejected) > 50


GOOD = [
    "dtype: bfloat16", "tensor-parallel-size: 2", "tensor_parallel_size: '2'", "max-model-len: 16k",
    "max-model-len: auto", "gpu-memory-utilization: 0.9", "enforce-eager: true", "no-enable-prefix-caching: true",
    "served-model-name: [a, b]", "compilation-config: {cudagraph_mode: PIECEWISE}",
    "compilation-config: '{\"mode\": 3}'", "compilation-config.mode: 3", "limit-mm-per-prompt: {image: 2}",
    "kv-transfer-config: {kv_role: kv_both, kv_connector: NixlConnector}", "quantization: null",
    "compilation-config: {cudagraph_mode: full_and_piecewise}", "kernel-config: {moe_backend: Deep-GEMM}",
    "tool-call-parser: my_plugin",
]  # fmt: skip
BAD = [
    "dtype: bf16", "tensor-parallel-size: two", "max-model-len: 16x", "gpu-memory-utilization: high",
    "compilation-config: {cudagraph_modes: PIECEWISE}", "kv-transfer-config: {kv_role: both}", "swap-space: 4",
    "max-model-length: 4096", "compilation-config: {cudagraph_mode: PIECEWISED}",
    "kernel-config: {moe_backend: deepgem}",
]  # fmt: skip


def test_a_schema_rejects_the_values_that_lint_rejects() -> None:
    """Types, choices, keys of JSON objects, and names with dashes or underscores, each line a file of its own."""
    found = [line for name in (GOOD, BAD) for line in errors_of(name)]

    assert [line for line in [*GOOD, *BAD] if faults(line)] == BAD
    assert found == BAD


def errors_of(lines: list[str]) -> list[str]:
    found = [line for line in lines for _, issue in issues([line], "0.33.0") if issue.severity is IssueSeverity.ERROR]
    return list(dict.fromkeys(found))


@in_one_test(
    ("release", "line", "is_good"),
    [
        ("0.9.2", "served-model-name: [a, b]", False),
        ("0.10.2", "served-model-name: [a, b]", True),
        ("0.15.1", "compilation-config: {cudagraph_mode: FULL}", False),
        ("0.16.0", "compilation-config: {cudagraph_mode: FULL}", True),
        ("0.8.5", "compilation-config.level: 3", False),
        ("0.9.2", "compilation-config.level: 3", True),
        ("0.7.3", "model: org/m", False),
        ("0.8.5", "model: org/m", True),
    ],
)
def test_a_schema_follows_how_the_release_reads_the_file(release: str, line: str, *, is_good: bool) -> None:
    """Lists, objects, dotted keys and the model were added one by one."""
    assert (faults(line, release=release) == []) is is_good, (release, line)


def test_an_editor_shows_defaults_choices_and_what_is_deprecated() -> None:
    """Each property names its option; a switch that the release does not turn off by `false` says so."""
    new, old = (option_schemas.schemas(options.load(release))["vllm-serve"] for release in ("0.33.0", "0.11.0"))
    deprecated = [option.name[2:] for option in options.load("0.11.0").entries["serve"] if option.deprecated]

    assert new["properties"]["dtype"] == {
        "enum": ["auto", "bfloat16", "float", "float16", "float32", "half"],
        "description": "--dtype (ModelConfig)", "default": "auto",
    }  # fmt: skip
    assert "fp8" in new["properties"]["kv-cache-dtype"]["examples"]
    assert "hermes" in new["properties"]["tool-call-parser"]["examples"]
    assert "use `no-enable-prefix-caching: true`" in old["properties"]["enable-prefix-caching"]["description"]
    assert "ignores" not in new["properties"]["enable-prefix-caching"]["description"]
    assert deprecated
    assert all(old["properties"][name]["deprecated"] for name in deprecated)
    assert new["definitions"]["CompilationConfig"]["properties"]["cudagraph_num_of_warmups"]["default"] == 0


@pytest.mark.parametrize(
    ("name", "good", "bad", "path"),
    [
        ("vllm-serve", (MANIFESTS / "config.yaml").read_text("utf-8"), "port: web", "port"),
        (
            "production-stack",
            (MANIFESTS / "production-stack.yaml").read_text("utf-8"),
            "servingEngineSpec: {modelSpec: [{vllmConfig: {maxModelLen: long}}]}",
            "servingEngineSpec.modelSpec.0.vllmConfig.maxModelLen",
        ),
        (
            "ray-serve-llm",
            "applications: [{name: a, args: {llm_configs: [{engine_kwargs: {max_model_len: 8, kv_cache_dtype: x}}]}}]",
            "applications: [{args: {llm_configs: [{engine_kwargs: {max_modle_len: 8}}]}}]",
            "applications.0.args.llm_configs.0.engine_kwargs",
        ),
        ("kaito", "vllm: {max-model-len: 131072, cpu-offload-gb: 0}", "vllm: {max-model-length: 8}", "vllm"),
        (
            "vllm-engine",
            "{served_model_name: [a], compilation_config: {mode: 3}, enable_prefix_caching: null, tool_call_parser: x}",
            "{tensor_parallel_size: '2'}",
            "tensor_parallel_size",
        ),
    ],
)
def test_each_schema_accepts_good_documents_and_marks_the_fault_in_bad_ones(
    name: str, good: str, bad: str, path: str
) -> None:
    """Also those of charts, whose other keys are free, and whose options are in schemas next to them."""
    assert faults(good, name=name) == []
    assert faults(bad, name=name) == [path]


def test_schemas_are_valid_and_have_the_newest_release_as_latest() -> None:
    """All schemas of the oldest and the newest release fit the metaschema and are without unused parts."""
    known = options.known_releases()
    texts = dict(option_schemas.files([known[0], known[-1]]))

    for text in texts.values():
        schema = json.loads(text)
        jsonschema.Draft7Validator.check_schema(schema)
        assert all(text.count(f'"#/definitions/{name}"') for name in schema.get("definitions", ()))
    names = ["vllm-serve", "vllm-engine", "production-stack", "kaito", "ray-serve-llm"]
    assert sorted(texts) == sorted(
        f"{name}-{release}.json" for name in names for release in (known[0], known[-1], "latest")
    )
    assert texts["vllm-serve-latest.json"] == texts[f"vllm-serve-{known[-1]}.json"]
