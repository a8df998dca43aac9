"""The JSON Schemas are current, and authored and printed documents match them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rows import in_one_test
from vllm_runbooks import render
from vllm_runbooks.authoring import json_schemas
from vllm_runbooks.catalog import folders
from vllm_runbooks.core import files
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.reading import sources

jsonschema = pytest.importorskip("jsonschema")
ROOT = folders.catalog_dir()
KEPT = sorted(path.name for path in (ROOT / "schema").glob("*.json"))
CASES = sorted(path.parent.name for path in (ROOT / "cases").glob("*/*.log") if not (path.parent / files.JOB).is_file())
FINDING = [
    "symptom", "class", "title", "severity", "level", "evidence", "captures", "conditions", "explanation", "do_first",
    "confirm", "refute", "look_in",
]  # fmt: skip
FACTS = [
    "weights_gib", "kv_cache_gib", "kv_cache_tokens", "max_concurrency", "max_concurrency_tokens", "cuda_graph_gib",
    "cuda_graph_estimated_gib", "activation_gib", "non_torch_gib", "gpu_total_gib", "gpu_memory_utilization",
    "max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "executor_backend",
    "model", "architecture", "quantization", "platform", "load_seconds", "startup_seconds",
    "generation_tokens_per_s_max", "preemptions", "errors", "failed_requests",
]  # fmt: skip


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schema" / name).read_text(encoding="utf-8")))


def test_every_schema_is_current() -> None:
    """And no other: a test of each is made of the names of the files."""
    assert sorted(json_schemas.schemas()) == KEPT


@in_one_test("name", KEPT)
def test_schemas_are_fresh(name: str) -> None:
    """`vllm-runbooks catalog schemas` writes them."""
    made = json_schemas.schemas()[name]
    jsonschema.Draft202012Validator.check_schema(made)

    assert json.loads((ROOT / "schema" / name).read_text(encoding="utf-8")) == made


@pytest.mark.slow
@in_one_test("case", CASES)
def test_every_answer_matches_the_schema(case: str) -> None:
    """Each recorded case, as a whole and per launch."""
    check = validator("diagnose.json")
    answer = diagnosing.diagnose(sources.load(case))
    for number in range(len(answer.starts) + 1):
        text = render.to_json(diagnosing.diagnose(sources.load(case), start=number))
        document = json.loads(text)

        assert [error.message for error in check.iter_errors(document)] == []
        assert text.startswith('{\n  "schema": 2,')


def test_the_document_has_exactly_the_fields_of_the_contract() -> None:
    """The design's keys, and the named extras."""
    document = json.loads(render.to_json(diagnosing.diagnose(sources.load("autoglm-3090-video-oom"))))

    assert list(document) == [
        "schema", "files", "outcome", "vllm", "root_cause", "findings", "starts", "remedies", "plan", "hidden", "facts",
        "ranks", "first_error", "notes",
    ]  # fmt: skip
    assert list(document["vllm"]) == ["version", "source", "candidates", "data"]
    assert list(document["root_cause"]) == FINDING
    assert list(document["findings"][0]) == FINDING
    assert list(document["root_cause"]["evidence"][0]) == ["file", "line", "column", "text"]
    assert list(document["root_cause"]["conditions"]) == ["matched", "mismatched", "unknown"]
    assert list(document["starts"][0]) == ["file", "first_line", "last_line", "outcome", "root_cause", "phase"]
    assert list(document["remedies"][0]) == ["title", "cost", "edits", "command", "checks"]
    assert list(document["remedies"][0]["edits"][0]) == ["op", "name", "value"]
    assert list(document["remedies"][0]["checks"]) == ["lint", "plan", "parser"]
    assert {*FACTS} | {"kv_cache_tokens_meaning", "kv_cache_blocks"} == {*document["facts"]}
    assert document["plan"] is None


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("plan"),
        lambda d: d.update(more=1),
        lambda d: d.update(outcome="fine"),
        lambda d: d["findings"][0].pop("class"),
        lambda d: d["findings"][0].update(level="sure"),
        lambda d: d["facts"].update(weights_gib="13"),
    ],
)
def test_the_schema_notices_another_document(change: Any) -> None:
    """A field too many, one too few, another word or type."""
    document = json.loads(render.to_json(diagnosing.diagnose(sources.load("autoglm-3090-video-oom"))))
    change(document)

    assert list(validator("diagnose.json").iter_errors(document))


@in_one_test(
    ("schema", "path"),
    [
        *(("symptom.json", path) for path in sorted((ROOT / "symptoms").glob("*.yaml"))),
        *(("policy.json", path) for path in sorted((ROOT / "policies").glob("*.yaml"))),
        *(("case.json", path) for path in sorted((ROOT / "cases").glob("*/case.yaml"))),
        *(("claims.json", path) for path in sorted((ROOT / "cases").glob("*/claims.yaml"))),
        ("lines.json", ROOT / "lines.yaml"),
    ],
    ids=lambda value: value.parent.name + "/" + value.stem if isinstance(value, Path) else "",
)
def test_editors_accept_valid_files(schema: str, path: Path) -> None:
    """The schemas of authored files know lists of pieces and plain names."""
    data = json.loads(json.dumps(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))))

    assert [error.message for error in validator(schema).iter_errors(data)] == []
