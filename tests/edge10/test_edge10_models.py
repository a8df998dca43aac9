"""Which models a toolchain takes; a broken file of facts is named by line; another version is a file and no code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import toolchain_files
from vllm_runbooks.catalog.toolchains import ModelSupport
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs import making, names, steps

jsonschema = pytest.importorskip("jsonschema")
FACTS = folders.catalog_dir() / "toolchains" / "edge10-1.1.7.yaml"


def asked(name: str) -> ModelSupport:
    return models.find_model(name, catalog.toolchain("1.1.7"))


# ---- models


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("Qwen/Qwen3-VL-8B", "Qwen/Qwen3-VL-8B"),
        ("qwen3-vl-8b", "Qwen/Qwen3-VL-8B"),
        ("Qwen/Qwen3-VL-4B-Instruct", "Qwen/Qwen3-VL-4B"),
        ("Qwen3_1.7b-AMTC-AWQ", "Qwen/Qwen3-1.7B"),
        ("/data/quantised/Qwen2.5-VL-7B-Instruct-AMTC-LM-AWQ/", "Qwen/Qwen2.5-VL-7B"),
        ("./models/org/Qwen3-4B", "Qwen/Qwen3-4B"),
        ("C:\\models\\Qwen3-4B", "Qwen/Qwen3-4B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama3-8B"),
        ("someone/Llama3-8B", "Llama3-8B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
    ],
)
def test_a_listed_model_is_found_under_the_names_that_it_has(name: str, listed: str) -> None:
    """Case, punctuation, suffixes of the guide's steps, folders and the vendor are ignored."""
    found = asked(name)

    assert found.listed is not None
    assert found.listed.name == listed
    assert (found.quantise, found.compile) == (found.listed.quantise, found.listed.compile)


@pytest.mark.parametrize(
    "name",
    [
        "someone/Qwen3-4B",
        "Qwen/Qwen3-4B-Thinking",
        "Qwen/Qwen3-40B",
        "Qwen/Qwen3",
        "Qwen3-4B-AWQ-tuned",
        "-AWQ",
        "..",
        "/",
    ],
)
def test_another_model_is_unknown_and_never_a_guess(name: str) -> None:
    """Another organisation's, another size, a word that the guide does not use: unknown, neither yes nor no."""
    found = asked(name)

    assert (found.listed, found.quantise, found.compile) == (None, None, None)


@pytest.mark.parametrize("listed", [each.name for each in catalog.toolchain("1.1.7").models])
def test_every_listed_model_has_a_repository_that_the_catalog_confirms(listed: str) -> None:
    """A listed name may differ from its repository, which is a model of the catalog."""
    facts = catalog.toolchain("1.1.7")
    found = catalog.specs().model(models.weights(listed, facts))

    assert found is not None
    assert found.id == models.weights(listed, facts) == models.weights(listed.rpartition("/")[2].lower(), facts)
    assert models.listed(found.id, facts) == models.listed(listed, facts)


@pytest.mark.parametrize(
    "name", ["/data/Qwen3-VL-8B", "Qwen/Qwen3-4B-AWQ", "someone/Qwen3-4B", "my-tune", "./Qwen3-4B"]
)
def test_other_names_are_kept(name: str) -> None:
    """Folders, other organizations and quantized models have other weights."""
    assert models.weights(name, catalog.toolchain("1.1.7")) == name


def test_unknown_names_have_suggestions(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name has its nearest ones."""
    assert asked("Qwen/Qwen3-VL-4").similar[0] == "Qwen/Qwen3-VL-4B"
    assert asked("Qwen/Qwen3-VL-9B-Instruct").similar
    assert asked("gpt-oss-20b").similar == ()
    status, told, _ = run(capsys, "edge10", "models", "Qwen/Qwen3-5B")
    assert status == 1
    assert "unknown" in told
    assert re.search(r"Qwen/Qwen3-5B: Qwen/Qwen3-\S+", told)


def test_the_command_answers_yes_no_or_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name all of the list and status 0; a model that may not be quantised, or is unknown, is status 1."""
    status, told, _ = run(capsys, "edge10", "models")
    assert status == 0
    assert all(model.name in told for model in catalog.toolchain().models)
    assert run(capsys, "edge10", "models", "Qwen3-4B", "Qwen/Qwen2.5-VL-3B")[0] == 0
    status, told, _ = run(capsys, "edge10", "models", "Qwen3-4B", "Qwen/Qwen2-7B")
    assert status == 1
    assert re.search(r"Qwen/Qwen2-7B +no +yes", told)
    assert run(capsys, "edge10", "models", "")[0] == 2
    assert run(capsys, "edge10", "models", "--toolchain", "9.9")[0] == 2


def test_the_document_matches_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """One document, with null for unknown values."""
    printed = run(capsys, "edge10", "models", "Qwen3-4B", "x\u202ey", "--format", "json")[1]
    found = json.loads(printed)
    schema = json.loads((folders.catalog_dir() / "schema" / "edge10-models.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(found)

    assert [each["quantise"] for each in found["models"]] == [True, None]
    assert found["models"][1]["listed"] is None


def test_hostile_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Long ones are cut, and control characters are visible."""
    told = run(capsys, "edge10", "models", "a-" * 50_000, "\x1b[31mred")[1]

    assert "\x1b" not in told
    assert len(told) < 5_000


# ---- facts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("id: edge10-1.1.7", "id: edge10-1.1.8", "'edge10-1.1.8' is not the file's name"),
        ("version: 1.1.7\nreleased", "version: 1.1.6\nreleased", "id: 'edge10-1.1.7' is not the file's name"),
        ("released: '2025-11-28'", "released: '2025-13-28'", "7: released: '2025-13-28' is not a date"),
        ("  convert:\n", "  bake:\n", "steps.bake: is not one of quantise, convert, evaluate, compile"),
        ("gpu: advised", "gpu: nice", "gpu: 'nice' is neither needed nor advised"),
        ("    has_vllm: true\n    programs", "    programs", "has_vllm: is not set, but a vLLM release is"),
        ("Qwen/Qwen3-VL-4B, kind: vlm", "Qwen/Qwen3-VL-4B, kind: tts", "kind: 'tts' is not one of llm, vlm"),
        ("name: Qwen/Qwen3-VL-4B,", "name: qwen/qwen3-vl-8b,", "name: 'qwen/qwen3-vl-8b' is listed twice"),
        ("{model}-AOT_{prefill}_", "{model}-AOT_{prefil}_", "names.compiled_llm: {prefil} is not a setting of a job"),
        ("  dies: '{dies}die'\n", "", "names: has no dies"),
        ("  converted: '{model}-AWQ'\n", "", "names: has no converted"),
        ("prefill: {llm: 8, vlm: 96}", "prefill: {llm: 8}", "limits.prefill: has no vlm"),
        ("datasets: {llm: [mmlu], vlm", "datasets: {vlm", "evaluation.datasets: has no llm"),
        ("trees:\n  llm:\n", "trees:\n  tts:\n", "trees.tts: is not one of llm, vlm"),
        ("phase: decode, says: the program", "phase: pause, says: the program", "phase: 'pause' is not one of decode"),
        ("path: buffer_config.json", "path: ../buffer_config.json", "path: is outside the folder of the dies"),
        ("renamed_from: 'mrope/*.so'", "renamed_from: /mrope/*.so", "renamed_from: is outside the folder of the dies"),
        ("common_die{die}.params", "common_die{chip}.params", "path: {chip} is neither a die nor a length"),
        (
            "path: buffer_config.json,",
            "path: buffer_config.json, lengths: [7],",
            "lengths: 7 is not a length of this file",
        ),
        ("path: buffer_config.json,", "path: buffer_config.json, phase: decode,", "phase: belongs to a file of one"),
        ("edge10.compile_segfault, step: compile", "edge10.compile_segfault, step: bake", "step: 'bake' is not a step"),
        ("remap_entries: 16", "remap_entries: many", "remap_entries: input should be a valid int"),
        ("  dev_count: 1\n", "", "limits.dev_count: is missing"),
        ("suffixes: [", "prefixes: [", "prefixes: is not a known field"),
    ],
)
def test_broken_facts_are_named_by_file_and_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    """Every rule for facts has a file that violates it."""
    text = FACTS.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / FACTS.name
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CatalogError) as refused:
        toolchain_files.read_toolchain(path)

    assert expected in str(refused.value)
    assert all(re.match(rf"{re.escape(FACTS.name)}:\d+: ", line) for line in str(refused.value).splitlines())


def test_all_problems_of_facts_are_reported_together(tmp_path: Path) -> None:
    """Two broken fields are two lines; the index excludes this file and keeps the others."""
    broken = FACTS.read_text(encoding="utf-8").replace("kind: vlm", "kind: tts", 2)
    shelf = tmp_path / "toolchains"
    shelf.mkdir()
    (shelf / FACTS.name).write_text(broken, encoding="utf-8")
    (shelf / "edge10-1.0.8.yaml").write_text(newer(version="1.0.8"), encoding="utf-8")
    index, problems = toolchain_files.compile_toolchains(tmp_path)

    assert [line.split(":")[2].strip() for line in problems] == ["models.0.kind", "models.1.kind"]
    assert [each["id"] for each in index["toolchains"]] == ["edge10-1.0.8"]


# ---- another version


def newer(version: str = "1.2.0", *changes: tuple[str, str]) -> str:
    """The facts of a version with these differences."""
    text = FACTS.read_text(encoding="utf-8")
    of_version = (("id: edge10-1.1.7", f"id: edge10-{version}"), ("version: 1.1.7", f"version: {version}"))
    for old, new in (*of_version, ("/v1.1.7", f"/v{version}"), *changes):
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog that knows two versions."""
    root = tmp_path / "catalog"
    root.mkdir()
    for path in folders.catalog_dir().iterdir():
        if path.name != "toolchains" and path.suffix != ".json":
            (root / path.name).symlink_to(path)
    (root / "toolchains").mkdir()
    (root / "toolchains" / FACTS.name).write_bytes(FACTS.read_bytes())
    changed = newer(
        "1.10.0",
        ("Qwen/Qwen2-VL-7B, kind: vlm, quantise: false", "Qwen/Qwen4-VL-1B, kind: vlm, quantise: true"),
        ("remap_entries: 16", "remap_entries: 8"),
        ("vlm: 96}", "vlm: 64}"),
        ("{tokens: 96, phases", "{tokens: 64, phases"),
        ("ports: [8000, 8001]", "ports: [7000, 7001]"),
        (
            "'{model}-AOT_{width}x{height}_{context}_{dies}die_{modality}_{remap}'",
            "'{dies}d.{remap}.{model}.{width}-{height}.{context}.{modality}.{dies}'",
        ),
        ("'{dies}die'", "'chip{dies}'"),
        ("visual/vit_die{die}.so", "visual/eye{die}.so"),
        ("edgex/tyllm", "edgex/compiler"),
        ("vllm: 0.11.0", "vllm: 0.12.0"),
        ("split: train", "split: dev"),
    )
    (root / "toolchains" / "edge10-1.10.0.yaml").write_text(changed, encoding="utf-8")
    monkeypatch.setattr(folders, "catalog_dir", lambda: root)
    return root


def test_another_version_is_a_file(shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Models, limits, names and files follow the requested version, by default the newest."""
    assert (shelf / "toolchains").is_dir()
    assert catalog.toolchain().version == "1.10.0"
    assert catalog.toolchain("v1.1.7").limits.remap_entries == 16
    assert run(capsys, "edge10", "models", "Qwen/Qwen4-VL-1B")[0] == 0
    assert run(capsys, "edge10", "models", "Qwen/Qwen4-VL-1B", "--toolchain", "1.1.7")[0] == 1
    with pytest.raises(InputError, match=r"known: 1\.1\.7, 1\.10\.0"):
        catalog.toolchain("1.2")

    (tmp_path / "job.yaml").write_text(
        "model: Qwen/Qwen4-VL-1B-Instruct\ndies: 3\nremap: [2, 1, 0]\n", encoding="utf-8"
    )
    made = making.make(str(tmp_path / "job.yaml"), tmp_path / "out")
    facts = catalog.toolchain()
    assert made.job is not None
    assert made.job.language_remap == (2, 1, 0, 0, 0, 0, 0, 0)
    assert made.compiled_folder == "3d.2121.Qwen4-VL-1B-Instruct-AWQ.960-540.8192.image.3"
    told = names.read(made.compiled_folder, facts)
    assert told is not None
    assert told.orders == (((2, 1, 0), (2, 1, 0)),)
    assert (told.picture, told.context_tokens, told.model) == ((960, 540), 8192, "Qwen4-VL-1B-Instruct-AWQ")
    assert names.read(f"{made.compiled_folder[:-1]}4", facts) is None
    assert made.dies_folder == "chip3"
    texts = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert "('visual/*die2.so', 'visual/eye2.so', False)" in texts[steps.COMPILE]
    assert "LENGTHS = [1, 64]" in texts[steps.COMPILE]
    assert "edgex/compiler:v1.10.0" in texts["0-containers.sh"]
    assert "SPLIT = 'dev'" in texts[steps.QUANTISE]
    assert texts["requirements-evaluate.txt"].startswith("vllm==0.12.0\n")
    assert "--port 7001" in texts[steps.SERVE_QUANTISED]
    assert made.issues == ()
    assert "1.1.7" not in "".join(texts.values())


def test_a_job_names_its_version(shelf: Path) -> None:
    """A description of an older version has that version's facts and limits."""
    assert shelf.is_dir()

    def found(text: str) -> Any:
        return jobs.read(text, catalog.toolchain)

    older = found("model: Qwen/Qwen3-4B\ndies: 4\ntoolchain: 1.1.7\nremap: [0, 1, 2, 3, 0, 0, 0, 0, 0]\n")
    assert older.job is not None
    assert older.job.toolchain == "edge10-1.1.7"
    (problem,) = found("model: Qwen/Qwen3-4B\ndies: 4\nremap: [0, 1, 2, 3, 0, 0, 0, 0, 0]\n").problems
    assert problem.text == "has 9 entries, but the toolchain accepts 8"
    (problem,) = found("model: Qwen/Qwen3-4B\ndies: 9\n").problems
    assert problem.text == "9 is out of range"
    assert "Qwen/Qwen4" not in jobs.example(catalog.toolchain("1.1.7"))
    assert found(jobs.example(catalog.toolchain())).job.toolchain == "edge10-1.10.0"
