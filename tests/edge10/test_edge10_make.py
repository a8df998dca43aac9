"""A job becomes files that agree, run in the right order, and have correct names."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.views.styled import plain
from vllm_runbooks.core.views.summary import summary_view
from vllm_runbooks.edge10 import summaries
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs import making, names, steps
from vllm_runbooks.edge10.jobs.records import EdgeJob
from vllm_runbooks.edge10.scripts import checking as script_checking

jsonschema = pytest.importorskip("jsonschema")
HERE = Path(__file__).resolve().parents[1]
STAND_INS = HERE / "edge10_stand_ins"
VLM = "model: Qwen/Qwen3-VL-4B-Instruct\ndies: 4\n"
LLM = "model: Qwen/Qwen3-1.7B\ndies: 4\n"
TOKENIZER = '{"model": {"vocab": {"a": 0}}}'
SECRET = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY"


def facts() -> Toolchain:
    return catalog.toolchain("1.1.7")


def read(text: str) -> EdgeJob:
    """The job that a description means, which has no problem."""
    found = jobs.read(text, catalog.toolchain)
    assert found.problems == ()
    assert found.job is not None
    return found.job


def wrong(text: str) -> list[str]:
    """Problems of a description: line, field and message."""
    found = jobs.read(text, catalog.toolchain)
    assert found.job is None
    return [f"{each.line} {each.field}: {each.text}; {each.do}" for each in found.problems]


def settings(text: str) -> dict[str, Any]:
    """The constants of a made script."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


# ---- the description


def test_a_job_of_two_lines_is_complete_and_lists_its_defaults() -> None:
    """Only model and dies are required; defaults come from the facts and are marked."""
    job = read(VLM)

    assert (job.kind, job.listed, job.toolchain) == ("vlm", "Qwen/Qwen3-VL-4B", "edge10-1.1.7")
    assert job.language_remap == job.vision_remap == (0, 1, 2, 3, *(0,) * 12)
    assert (job.lengths, job.context_tokens, job.picture, job.modality) == ((1, 96), 8192, (960, 540), "image")
    assert job.calibration is not None
    assert {"remap", "context", "picture", "gpu", "calibration.dataset", "evaluation.ports"} <= job.defaults.keys()
    assert job.defaults["context"] == "8192: as in edge10-1.1.7"
    assert "model" not in job.defaults


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        ("model: Qwen/Qwen3-VL-8B\ndies: 4\n", "Qwen/Qwen3-VL-8B-Instruct"),
        ("model: Llama3-8B\ndies: 4\nquantised: mine-AWQ\n", "meta-llama/Meta-Llama-3-8B"),
        ("model: Qwen3-4B\ndies: 4\n", "Qwen/Qwen3-4B"),
    ],
)
def test_repositories_are_those_of_the_hub(text: str, repository: str) -> None:
    """A listed name without organization becomes the Hub's, which is listed as a default."""
    job = read(text)
    made = steps.make_files(job, facts()).texts

    assert f"vllm serve {repository} " in made["3-serve-float.sh"]
    assert job.calibration is None or settings(made["1-quantise.py"])["MODEL"] == repository
    assert f"--model {repository} " in made["README.md"]
    assert job.defaults["model"].startswith(f"{repository}: on the Hub {job.model} is {repository}, as in")
    assert read(made["job.yaml"]).model == job.model


@pytest.mark.parametrize(("cards", "gpus"), [(1, 2), (2, 4)])
def test_a_host_has_gpus_for_both_servers(cards: int, gpus: int) -> None:
    """The float and the quantized model are served together, each on its own GPUs."""
    made = steps.make_files(read(f"{LLM}evaluation:\n  cards: {cards}\n"), facts()).texts
    taken = re.findall(r"CUDA_VISIBLE_DEVICES=(\S+)", made[steps.SERVE_FLOAT] + made[steps.SERVE_QUANTISED])

    assert f"On a host with {gpus} GPUs" in made["README.md"]
    assert sorted(",".join(taken).split(",")) == [str(card) for card in range(gpus)]


def test_a_name_without_an_organization_is_a_folder() -> None:
    """It is next to the generated files and listed as a default, unless the path is absolute."""
    assert "a folder next to the generated files" in read("model: own\nlike: Qwen3-4B\ndies: 4\n").defaults["model"]
    assert "model" not in read("model: /data/own\nlike: Qwen3-4B\ndies: 4\n").defaults


def test_given_values_are_not_defaults() -> None:
    """A field of the description is never listed as a default, and is in the record."""
    job = read(
        "model: /data/models/my-tune\nlike: Qwen3-4B\ndies: 3\nremap: [2, 0, 1]\nprefill: [1, 16, 8, 16]\n"
        "context: 16384\nkv_cache: 2048\nembedding_as_input: true\ngpu: false\nthreshold: 0.02\n"
        "calibration: {samples: 64, tokens: 256, dataset: wikitext, part: w2, split: test, column: text}\n"
        "evaluation: {datasets: [mmlu, arc], ports: [9000, 9001], limit: 50, seed: 3, cards: 2,\n"
        "  answer_tokens: 512}\n"
    )

    assert (job.kind, job.listed, job.dies, job.gpu, job.threshold) == ("llm", "Qwen/Qwen3-4B", 3, False, 0.02)
    assert job.language_remap[:4] == (2, 0, 1, 0)
    assert job.vision_remap == ()
    assert (job.prefill, job.kv_cache_tokens, job.embedding_as_input) == ((8, 16), 2048, True)
    assert job.calibration is not None
    assert (job.calibration.dataset, job.calibration.dataset_config, job.calibration.column) == (
        "wikitext",
        "w2",
        "text",
    )
    asked = job.evaluation
    assert (asked.float_port, asked.quantised_port, asked.limit, asked.seed, asked.cards) == (9000, 9001, 50, 3, 2)
    assert job.defaults == {}


CONTRADICTIONS = {
    "remap: [0,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0]": "remap: has 17 entries, but the toolchain accepts 16",
    "remap: [0, 1, 2, 4]": "remap: is not an order of the dies 0, 1, 2, 3; list each die once",
    "remap: [0, 1, 1, 2]": "remap: is not an order of the dies 0, 1, 2, 3",
    "remap: [1, 2, 3]": "remap: is not an order of the dies",
    "remap: [0, 1, 2, 3, 2]": "remap: is not an order of the dies",
    "remap: {vision: [0, 0, 1, 2]}": "remap.vision: is not an order of the dies",
    "context: 8196": "context: 8196 is close to 8192, which is probably intended; write 8192",
    "context: 4090": "context: 4090 is close to 4096",
    "prefill: 10000": "prefill: 10000 tokens exceed the 8192 of `context`",
    "prefill: 1": "prefill: 1 is the decode length",
    "kv_cache: 4096": "kv_cache: is for a language model, but this is a model with pictures",
    "embedding_as_input: true": "embedding_as_input: is for a language model",
    "modality: vidoe": "modality: 'vidoe' is not a modality; did you mean video?",
    "evaluation: {ports: [8000, 8000]}": "evaluation.ports: are 8000, 8000, but two servers",
    "evaluation: {ports: [8000]}": "evaluation.ports: are 8000, but two servers",
    "evaluation: {ports: [8000, 70000]}": "evaluation.ports: 70000 is out of range; use 1 to 65535",
    "evaluation: {answer_tokens: 9000}": "evaluation.answer_tokens: 9000 tokens leave no space for a question",
    "calibration: {dataset: wikitext, split: test}": "calibration.column: is required for this data set; ",
    "threshold: 2": "threshold: '2' is not a fraction between 0 and 1",
    "toolchain: 9.9": "toolchain: unknown toolchain version; known: 1.1.7",
    "like: Qwen3-9B": "like: 'Qwen3-9B' is not in the list of Edge10 1.1.7; did you mean",
    "dies: 17": "dies: 17 is out of range; use 1 to 16",
    "dies: -1": "dies: -1 is out of range; use 1 to 16",
    "dies: 99999999999999999999999": "dies: 99999999999999999999999 is out of range; use 1 to 16",
    "picture: 0x540": "picture: is not an image size",
    "picture: wide": "picture: is not an image size",
}
UNREADABLE = {
    "dyes: 4": "dyes: is not a key of a job; did you mean dies?",
    "calibration: {sample: 3}": "calibration.sample: is not a key of a job; did you mean samples?",
    "calibration: 128": "calibration: is not a mapping",
    "context: 8k": "context: '8k' is not a whole number",
    "dies: 2.0": "dies: '2.0' is not a whole number; write a whole number from 1 to 16",
    "prefill: '8,96'": "prefill: '8,96' is not a whole number",
    "gpu: maybe": "gpu: 'maybe' is not a boolean",
    "remap: 0123": "remap: is not a list",
    "prefill: []": "prefill: is an empty list",
    "prefill: [[8]]": "prefill: is a list or a mapping; write one value",
    "modality: ''": "modality: is empty",
    "? [a, b]\n: 3": ": has a key that is not a word",
}


@in_one_test("line", [*CONTRADICTIONS, *UNREADABLE])
def test_every_contradiction_is_one_line_at_its_place(line: str) -> None:
    """A conflict within the job or with the facts is reported once, with line and fix."""
    key = line.partition(":")[0]
    kept = [each for each in VLM.splitlines() if not each.startswith(f"{key}:")]
    text = "\n".join([*kept, line, ""])
    found = [each for each in wrong(text) if not each.startswith("1 dies: is missing")]

    assert len(found) == 1, found
    assert {**CONTRADICTIONS, **UNREADABLE}[line] in found[0]
    assert found[0].startswith(f"{len(kept) + 1} ")
    is_read = [each.is_read for each in jobs.read(text, catalog.toolchain).problems]
    assert all(is_read) is (line in CONTRADICTIONS)


@in_one_test(
    ("text", "expected"),
    [
        (
            "model: Qwen/Qwen2-7B\ndies: 4\n",
            "1 model: Qwen/Qwen2-7B cannot be quantized with Edge10 1.1.7, only compiled",
        ),
        (
            "model: Qwen/Qwen3-5B\ndies: 4\n",
            "1 model: 'Qwen/Qwen3-5B' is not in the list of Edge10 1.1.7; did you mean",
        ),
        ("model: ./Qwen3-4B\ndies: 4\n", "1 model: './Qwen3-4B' is neither a name nor a path visible in the container"),
        ("model: /data/../Qwen3-4B\ndies: 4\n", "is neither a name nor a path"),
        ("model: /data/Qwen3 4B\ndies: 4\n", "1 model: 'Qwen3 4B' cannot be part of a folder's name"),
        (f"{LLM}modality: image\n", "3 modality: is for a model with pictures, but this is a language model"),
        (f"{LLM}remap: {{vision: [0, 1, 2, 3]}}\n", "3 remap.vision: is for a model with pictures"),
        (f"{LLM}prefill: 5000\n", "3 prefill: 5000 tokens exceed the 4096 of `kv_cache`"),
        (f"{LLM}quantised: mine-AWQ\ncalibration: {{samples: 3}}\n", "4 calibration: is not used"),
        ("dies: 4\n", "1 model: is missing; use a model name, or its folder"),
        ("model: Qwen3-4B\ndies: 1\nremap: [1]\n", "3 remap: is not an order of the dies 0; list each"),
        ("model: Qwen3-4B\n", "1 dies: is missing; set the number of dies of the chip"),
        (f"{LLM}{LLM}", "3 model: appears twice; keep one of them"),
        ("", "1 : is empty; write one key"),
        ("- model", "1 : is not a mapping"),
        (f"{LLM}---\n# another\nmodel: x\n", "5 : contains 2 documents, the second starts here"),
        (f"---\n{LLM}...\n---\n- x\n---\ny\n", "6 : contains 3 documents"),
        ("model: [", "invalid YAML"),
        ("x" * 200_000, "1 : is longer than 100000 characters"),
    ],
)
def test_an_impossible_job_is_rejected(text: str, expected: str) -> None:
    """A model that must not be quantized, an unknown name, invalid text: one line each."""
    assert any(expected in each for each in wrong(text)), wrong(text)


def test_a_text_that_is_too_long_is_one_problem() -> None:
    """Its keys are not checked."""
    assert len(wrong("x" * 200_000)) == 1


def test_document_markers_are_not_a_second_job() -> None:
    """A marker before the first key, or at the end, is valid."""
    assert read(f"# a job\n---\n{LLM}") == read(f"{LLM}---\n# that is all\n") == read(LLM)
    assert read(f"%YAML 1.2\n---\n{LLM}...\n") == read(f"---\n---\n{LLM}") == read(LLM)


def test_all_problems_are_reported_together_by_line() -> None:
    """One run reports everything."""
    found = wrong("model: Qwen/Qwen2-7B\ndyes: 4\ncontext: 8196\nevaluation:\n  ports: [1, 1]\n  seeds: 3\n")

    assert [each.partition(":")[0] for each in found] == [
        "1 dies", "1 model", "2 dyes", "3 context", "5 evaluation.ports", "6 evaluation.seeds",
    ]  # fmt: skip


def test_facts_outside_the_guide_are_doubts() -> None:
    """Two dies, or an unlisted length, may compile: a doubt is printed, and files are written."""
    found = jobs.read("model: Qwen3-4B\ndies: 2\nprefill: [8, 24]\n", catalog.toolchain)

    assert found.job is not None
    assert found.doubts == (
        "dies: edge10-1.1.7 documents 1, 3, 4; unknown whether 2 compile",
        "prefill: edge10-1.1.7 shows 8, 96; unknown whether 24 compiles",
    )


def test_a_file_that_describes_no_job_has_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make` and `check` name a description, `lint` names scripts."""
    gone = str(tmp_path / "gone.yaml")
    for words, said in (
        (("make", gone, "--out", str(tmp_path / "out")), "pass the file that describes a job"),
        (("make", str(tmp_path), "--out", str(tmp_path / "out")), "pass the file that describes a job"),
        (("check", str(tmp_path), "--job", gone), "pass the file that describes a job"),
        (("lint", gone), "use a script, settings or a page of a step"),
    ):
        status, out, err = run(capsys, "edge10", *words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert said in err


def test_empty_values_count_as_missing() -> None:
    """A key without a value equals an absent key."""
    job = read(f"{VLM}remap:\npicture: 640x480\nevaluation:\n  limit: ~\n  ports: null\n")

    assert (job.picture, job.evaluation.limit, job.evaluation.float_port) == ((640, 480), None, 8000)
    assert "picture" not in job.defaults
    assert {"remap", "evaluation.ports"} <= job.defaults.keys()


def test_an_order_is_checked_without_the_number_of_dies() -> None:
    """Too many entries are reported in addition to the error in the dies."""
    found = wrong(f"model: Qwen3-4B\ndies: many\nremap: {[0] * 17}\n")

    assert [each.partition(";")[0] for each in found] == [
        "2 dies: 'many' is not a whole number",
        "3 remap: has 17 entries, but the toolchain accepts 16",
    ]


def test_complete_facts_list_no_open_questions() -> None:
    """Facts missing in the guide are listed; if there are none, so is no list."""
    of = facts()
    plain = replace(
        of,
        steps={name: replace(step, doubt="") for name, step in of.steps.items()},
        host=replace(of.host, packages={}),
    )

    assert "Not documented in the toolchain's guide" in steps.make_files(read(LLM), of).texts["README.md"]
    assert "Not documented" not in steps.make_files(read(LLM), plain).texts["README.md"]


def test_hostile_descriptions_are_rejected_quickly() -> None:
    """Aliases, depth, long lists, huge numbers, invisible characters: one line in a second."""
    bombs = [
        "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a, *a]\n" for i in range(100)),
        "remap: " + "[" * 500,
        f"{LLM}remap: [{'0, ' * 900}]\n",
        f"{LLM}context: {'9' * 5000}\n",
        f'{LLM}calibration: {{dataset: "a\\u202eb\\0"}}\n',
        "model: " + "a/" * 4000,
        "<<: [{model: a}, {dies: 3}]\n" * 50,
    ]
    began = time.process_time()
    for text in bombs:
        found = wrong(text)
        assert found
        assert all(len(each) < 1000 for each in found)
    assert time.process_time() - began < 10


# ---- names


def test_names_match_the_guide() -> None:
    """The settings of the guide's examples yield their folder names."""
    vlm = read("model: Qwen3-VL-4b\ndies: 4\n")
    llm = read("model: Qwen3-1.7B\ndies: 4\n")

    assert names.compiled(vlm, facts()) == "Qwen3-VL-4b-AWQ-AOT_960x540_8192_4die_image_01230123"
    assert names.compiled(llm, facts()) == "Qwen3-1.7B-AWQ-AOT_8_4096"
    assert names.quantised(llm, facts()) == "Qwen3-1.7B-AMTC-AWQ"
    assert names.converted(replace(llm, quantised="/data/own-GPTQ"), facts()) == "/data/own-GPTQ"
    assert names.compiled(replace(llm, quantised="/data/own-GPTQ"), facts()) == "own-GPTQ-AOT_8_4096"


def test_a_name_encodes_its_settings() -> None:
    """Settings of a compiled folder are read from its name; a suffix is separated."""
    told = names.read("/data/Qwen3-VL-4b-AWQ-AOT_960x540_8192_4die_image_01230123_gpu/", facts())

    assert told is not None
    assert (told.kind, told.model, told.picture, told.context_tokens) == ("vlm", "Qwen3-VL-4b-AWQ", (960, 540), 8192)
    assert (told.dies, told.modality, told.rest) == (4, "image", "gpu")
    assert told.orders == (((0, 1, 2, 3), (0, 1, 2, 3)),)
    begun = names.read("Qwen3-1.7B-AWQ-AOT", facts())
    assert begun is not None
    assert (begun.kind, begun.model, begun.dies) == (None, "Qwen3-1.7B-AWQ", None)
    for other in ("Qwen3-1.7B-AWQ", "x" * 300, "-AOT_8_4096_", ""):
        assert names.read(other, facts()) is None
    assert names.dies_of("4die", facts()) == 4
    assert names.dies_of("batch_1", facts()) is None


@pytest.mark.parametrize(
    ("digits", "dies", "expected"),
    [
        ("321123", 4, [((3, 2, 1, 0), (1, 2, 3, 0))]),
        ("3210123", 4, [((3, 2, 1, 0), (0, 1, 2, 3))]),
        ("0123321", 4, [((0, 1, 2, 3), (3, 2, 1, 0))]),
        ("", 1, [((0,), (0,))]),
        ("0101", 2, [((0, 1), (0, 1))]),
        ("11", 2, [((1, 0), (1, 0))]),
        ("0123", 4, []),
        ("0012", 2, []),
        ("01", 0, []),
    ],
)
def test_digits_of_a_name_are_read_as_orders(digits: str, dies: int, expected: list[Any]) -> None:
    """Trailing zeros missing in a name are restored; other digits are not an order."""
    assert list(names.orders(digits, dies)) == expected


def test_digits_of_more_than_ten_dies_are_not_read() -> None:
    """From eleven dies on entries have two digits: 1, 11 and 11, 1 are the same in a name."""
    assert names.orders("0123456789101112131415" * 2, 16) == ()
    told = names.read("Qwen3-VL-4B-AWQ-AOT_960x540_8192_11die_image_01234567891001234567891", facts())
    assert told is not None
    assert (told.dies, told.remap, told.orders) == (11, None, ())


# ---- generated files


def drawn(chance: random.Random) -> str:
    """A valid description."""
    kind = chance.choice(["llm", "vlm"])
    takes = [model.name for model in facts().models if model.kind == kind and model.quantise]
    name = chance.choice([*takes, f"/data/{chance.choice(takes).partition('/')[2]}-Instruct"])
    dies = chance.choice([1, 2, 3, 4, 8])
    lines = [f"model: {name}", f"dies: {dies}", f"gpu: {chance.choice(['true', 'false'])}"]

    def order() -> list[int]:
        found = chance.sample(range(dies), dies)
        return found + [0] * chance.choice([0, 16 - dies])

    if chance.random() < 0.7:
        lines.append(f"remap: {{language: {order()}}}" if kind == "llm" else f"remap: {{vision: {order()}}}")
    if chance.random() < 0.5:
        lines.append(f"prefill: {chance.sample([8, 16, 96, 128], chance.choice([1, 2]))}")
    if chance.random() < 0.5:
        lines.append(f"context: {chance.choice([4096, 5000, 10240, 32768])}")
    if kind == "llm" and chance.random() < 0.5:
        lines.append(f"kv_cache: {chance.choice([1024, 2048, 8192])}")
    if kind == "vlm" and chance.random() < 0.5:
        lines.append(f"picture: {chance.choice(['640x480', '1920x1080', '448x448'])}")
        lines.append(f"modality: {chance.choice(['image', 'video'])}")
    if chance.random() < 0.5:
        lines.append(f"threshold: {chance.choice([0.01, 0.005, 0.25])}")
    first = chance.randint(1024, 60_000)
    lines.append(f"evaluation: {{ports: [{first}, {first + 1}], cards: {chance.choice([1, 2])}, limit: {first}}}")
    return "\n".join([*lines, ""])


DRAWN = [drawn(random.Random(seed)) for seed in range(30)]  # noqa: S311 - jobs, no secrets


@in_one_test("text", DRAWN)
def test_files_agree_with_any_job(text: str) -> None:
    """Scripts are valid Python, names give the settings, clients query the servers."""
    job = read(text)
    made = steps.make_files(job, facts())
    compiled = settings(made.texts[steps.COMPILE])
    told = names.read(names.compiled(job, facts()), facts())

    for name, script in made.texts.items():
        if name.endswith(".py"):
            compile(script, name, "exec")
    again = read(made.texts[steps.JOB])
    assert replace(again, defaults={}) == replace(job, defaults={})
    assert told is not None
    assert told.kind == job.kind
    if job.kind == "vlm":
        assert told.orders == ((job.vision_remap[: job.dies], job.language_remap[: job.dies]),)
        assert (told.dies, told.picture, told.modality) == (compiled["DIES"], job.picture, compiled["MODALITY"])
        assert told.context_tokens == compiled["MAX_MODEL_LEN"] == job.context_tokens
        assert compiled["COMPILED"] == told.name
        assert compiled["VISION_REMAP"] == list(job.vision_remap)
        assert compiled["MIN_PIXELS"] <= compiled["WIDTH"] * compiled["HEIGHT"] <= compiled["MAX_PIXELS"]
    else:
        assert (told.prefill, told.context_tokens) == (job.prefill, compiled["KV_CACHE_TOKENS"])
        assert compiled["ARTEFACTS"] == f"{told.name}/{job.dies}die"
    assert compiled["LENGTHS"] == [1, *job.prefill]
    assert len(compiled["LANGUAGE_REMAP"]) == facts().limits.remap_entries
    assert compiled["COMPILE_THREAD"] == ("1" if job.gpu else "2")
    assert compiled["CHECKPOINT"] in made.texts[steps.SERVE_QUANTISED]
    served = [made.texts[name] for name in (steps.SERVE_FLOAT, steps.SERVE_QUANTISED)]
    asked = [text for name, text in made.texts.items() if re.fullmatch(r"4-evaluate-\w+\.(?:py|yaml)", name)]
    for server, client, port in zip(
        served, asked, (job.evaluation.float_port, job.evaluation.quantised_port), strict=True
    ):
        assert f"--port {port}\n" in server
        assert f"127.0.0.1:{port}/v1" in client
        alias = re.search(r"--served-model-name (\S+)", server)
        assert alias is not None
        assert alias[1] in client
        visible = re.search(r"CUDA_VISIBLE_DEVICES=(\S+)", server)
        assert visible is not None
        assert len(visible[1].split(",")) == job.evaluation.cards
        assert ("--tensor-parallel-size" in server) is (job.evaluation.cards > 1)


@pytest.mark.parametrize("text", DRAWN[:4])
def test_generated_files_have_no_lint_issues(text: str, tmp_path: Path) -> None:
    """By lint for the vLLM commands, `edge10 lint` for scripts, and shellcheck for shell files."""
    made = steps.make_files(read(text), facts())
    judged = script_checking.lint_scripts(made.texts, toolchain="1.1.7")
    assert {name: found.issues for name, found in judged.items() if found.issues} == {}
    for file in made.files:
        if file.step and not file.name.endswith(".txt"):
            assert judged[file.name].steps, file.name
    assert {judged[name].vllm.version for name in (steps.SERVE_FLOAT, steps.SERVE_QUANTISED)} == {"0.11.0"}
    shell = [name for name in made.texts if name.endswith(".sh")]
    for name in shell:
        (tmp_path / name).write_text(made.texts[name], encoding="utf-8")
    program = shutil.which("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))
    if Path(program).is_file():
        subprocess.run([program, *shell], cwd=tmp_path, check=True)


def test_a_checkpoint_that_is_quantised_already_needs_no_quantising() -> None:
    """A model that the toolchain does not quantise is compiled from a checkpoint of another tool."""
    job = read("model: Qwen/Qwen2-7B\nquantised: /data/Qwen2-7B-GPTQ\ndies: 4\n")
    made = steps.make_files(job, facts())

    assert steps.QUANTISE not in made.texts
    assert steps.CONVERT not in made.texts
    assert settings(made.texts[steps.COMPILE])["CHECKPOINT"] == "/data/Qwen2-7B-GPTQ"
    containers = made.texts["0-containers.sh"]
    assert "tyquantize" not in containers
    assert "--volume /data/Qwen2-7B-GPTQ:/data/Qwen2-7B-GPTQ:ro" in containers
    assert "vllm serve /data/Qwen2-7B-GPTQ" in made.texts[steps.SERVE_QUANTISED]


def test_generated_files_contain_no_credentials() -> None:
    """Registry, user and password are variables; docker reads the password from standard input."""
    for text in (VLM, LLM):
        together = "\n".join(steps.make_files(read(text), facts()).texts.values())
        assert "--password-stdin" in together
        assert not re.search(r"(?:-p|--password)[ =]", together)
        assert not re.search(r"\b[\w.-]+:\d{4,5}/edgex", together)


# ---- the generated scripts, run with fakes


class Border:
    """A folder of generated files, and the calls of its fakes."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder / "job"
        (folder / "job.yaml").write_text(text, encoding="utf-8")
        self.made = making.make(str(folder / "job.yaml"), self.folder)
        assert self.made.job is not None
        self.job: EdgeJob = self.made.job
        self._record, self._programs = folder / "calls", folder / "programs"
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name in ("docker", "vllm"):
            (self._bin / name).symlink_to(STAND_INS / "program.sh")

    def run(self, *command: str, gpu: bool = True, fails: bool = False, **variables: str) -> str:
        """Run a generated file and return its standard error."""
        self._record.write_text("", encoding="utf-8")
        self._programs.write_text("", encoding="utf-8")
        environment = {
            "PATH": f"{self._bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(STAND_INS),
            "PYTHONDONTWRITEBYTECODE": "1",
            "EDGE10_RECORD": str(self._record),
            "EDGE10_PROGRAMS": str(self._programs),
            "EDGE10_GPU": str(int(gpu)),
            **variables,
        }
        done = subprocess.run(
            command, cwd=self.folder.parent, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr

    def python(self, name: str, **more: Any) -> str:
        return self.run(sys.executable, str(self.folder / name), **more)

    def calls(self) -> list[tuple[str, list[Any], dict[str, Any]]]:
        """Calls of the last run, in order: name, values, and values by name."""
        return [tuple(json.loads(line)) for line in self._record.read_text(encoding="utf-8").splitlines()]

    def asked(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        """The single call of this name."""
        ((_, args, kwargs),) = [each for each in self.calls() if each[0] == name]
        return args, kwargs

    def programs(self) -> list[list[str]]:
        return [line.split("\t") for line in self._programs.read_text(encoding="utf-8").splitlines()]

    def change(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    def checkpoint(self) -> None:
        """The output of the conversion."""
        (self.folder / self.made.converted_folder).mkdir()
        (self.folder / self.made.converted_folder / "tokenizer.json").write_text(TOKENIZER, encoding="utf-8")

    def tree(self) -> set[str]:
        """Files of the compiled tree, below the folder of the dies."""
        root = self.folder / self.made.compiled_folder / self.made.dies_folder
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def llm(tmp_path: Path) -> Border:
    return Border(tmp_path, f"{LLM}remap: [3, 2, 1, 0]\nembedding_as_input: true\nevaluation: {{limit: 7}}\n")


@pytest.fixture
def vlm(tmp_path: Path) -> Border:
    return Border(tmp_path, f"{VLM}remap: {{vision: [3, 2, 1, 0]}}\n")


def test_quantising_and_converting_run(llm: Border) -> None:
    """The quantised checkpoint has the float model's tokenizer, and converting finds it under the names of the job."""
    llm.python(steps.QUANTISE)

    assert [name for name, _, _ in llm.calls()] == [
        "AutoTokenizer.from_pretrained", "AutoModelForCausalLM.from_pretrained", "load_dataset", "get_dataloader",
        "quantize_model", "save_quantized_model",
    ]  # fmt: skip
    assert llm.asked("load_dataset") == (["cnn_dailymail"], {"name": "3.0.0", "split": "train"})
    wanted = {"samples": 128, "tokens": 512, "column": "article", "concat": True, "pad": False}
    assert llm.asked("get_dataloader")[1] == wanted
    assert (llm.folder / "Qwen3-1.7B-AMTC-AWQ" / "tokenizer.json").is_file()
    assert "contains files of an earlier run" in llm.python(steps.QUANTISE, fails=True)

    llm.run(str(llm.folder / steps.CONVERT), CONVERTER=str(STAND_INS))
    given = ["--src", "Qwen3-1.7B-AMTC-AWQ", "--dst", "Qwen3-1.7B-AWQ", "--quant_type", "awq"]
    assert llm.asked("checkpoint_convert")[0] == given
    assert (llm.folder / "Qwen3-1.7B-AWQ" / "tokenizer.json").is_file()


def test_only_the_language_part_of_a_multimodal_model_is_quantized(vlm: Border) -> None:
    """The vision part is not passed on, and the image processor's files are kept."""
    vlm.python(steps.QUANTISE)

    assert vlm.asked("quantize_model")[0] == ["_Language", {"method": "awq", "apply_clip": True}, "batches", None]
    folder = vlm.folder / "Qwen3-VL-4B-Instruct-AMTC-LM-AWQ"
    assert vlm.asked("save_quantized_model")[0][1] == folder.name
    assert {path.name for path in folder.iterdir()} >= {"config.json", "preprocessor_config.json"}


def test_a_language_model_is_compiled_as_in_its_job(llm: Border) -> None:
    """Settings first, then one call with all sizes."""
    llm.checkpoint()
    llm.python(steps.COMPILE)

    assert [name for name, _, _ in llm.calls()] == ["set_trace_only_mode", "set_device_mode", "build_and_compile_llm"]
    assert llm.asked("set_device_mode")[0] == ["LM_die_remap", [3, 2, 1, 0, *[0] * 12]]
    assert llm.asked("build_and_compile_llm")[1] == {
        "artifacts_path": "Qwen3-1.7B-AWQ-AOT_8_4096/4die",
        "model_path": "Qwen3-1.7B-AWQ",
        "max_kv_cache_size": 4096,
        "seq_len_list": [1, 8],
        "dev_count": 4,
        "embedding_as_input": True,
    }
    assert "contains files of an earlier compilation" in llm.python(steps.COMPILE, fails=True)
    assert "job.yaml sets gpu: true" in llm.python(steps.COMPILE, gpu=False, fails=True)


def test_a_multimodal_model_is_compiled_in_order_and_its_files_renamed(vlm: Border) -> None:
    """Settings, patches, engine, prompt; then the raw tree has all required files."""
    vlm.checkpoint()
    vlm.python(steps.COMPILE)

    made = [name if name != "set_device_mode" else args[0] for name, args, _ in vlm.calls()]
    assert made == [
        "jit_device", "set_trace_only_mode", "exec_mode", "prefill_lens", "AOT_DIR", "tmp_image_path", "VM_die_remap",
        "LM_die_remap", "torch._dynamo.reset", "LLM", "AutoProcessor.from_pretrained", "apply_chat_template",
        "generate",
    ]  # fmt: skip
    engine = vlm.asked("LLM")[1]
    assert (engine["model"], engine["tensor_parallel_size"], engine["max_model_len"]) == (
        "Qwen3-VL-4B-Instruct-AWQ",
        4,
        8192,
    )
    assert (vlm.folder / "traced.png").read_text(encoding="utf-8") == "960x540"
    tree = vlm.tree()
    for file in facts().trees["vlm"]:
        if file.is_needed and "*" not in file.path and "{length}" not in file.path:
            assert {file.path.replace("{die}", str(die)) for die in range(4)} <= tree
    root = vlm.folder / vlm.made.compiled_folder / "4die"
    raw = "visual/2040_1536_[float16]" + "2040_1024_[float16]" * 6
    assert (root / "visual/vit_die2.so").read_text(encoding="utf-8") == f"{raw}_die2.so"
    assert (root / "visual/constant_die3.params").read_text(encoding="utf-8") == f"{raw}_die3.params"
    assert (root / "compute_rope_param.so").read_text(encoding="utf-8") == "mrope/3_8192_[int32]_die0.so"
    assert (root / "tokenizer.json").read_text(encoding="utf-8") == TOKENIZER
    assert not [name for name in tree if name.startswith(raw) and name.endswith((".so", ".params"))]


def test_the_renamed_tree_equals_the_guides(vlm: Border, seeds: Path) -> None:
    """File by file, as the guide lists its own compiled model."""
    vlm.checkpoint()
    vlm.python(steps.COMPILE)

    assert vlm.tree() == listed((seeds / "edge10-toolchain.md").read_text(encoding="utf-8"))


def test_compiled_output_passes_its_check(vlm: Border, capsys: pytest.CaptureFixture[str]) -> None:
    """`edge10 check` finds the tree of a generated script complete for the same job."""
    vlm.checkpoint()
    vlm.python(steps.COMPILE)
    compiled = str(vlm.folder / vlm.made.compiled_folder)
    status, told, _ = run(capsys, "edge10", "check", compiled, "--job", str(vlm.folder / steps.JOB))

    assert status == 0, told


def listed(page: str) -> set[str]:
    """Files below `4die` in the listing of a page."""
    lines = page[page.index("image_01230123$ tree") :].partition("```")[0].splitlines()
    found, path = set(), [""]
    for line, behind in zip(lines, [*lines[1:], ""], strict=True):
        match = re.match(r"([│├└─\s]*)(\S.*)$", line)
        if match is None or not match[1]:
            continue
        depth = len(match[1]) // 4
        path = [*path[:depth], match[2].strip()]
        deeper = re.match(r"[│├└─\s]*", behind)
        if deeper is None or len(deeper[0]) <= len(match[1]):
            found.add("/".join(path[2:]))
    return found


ORDERS = {
    "a setting behind the engine": ('torch_edgex.set_device_mode("exec_mode", "AOT")\n', "engine"),
    "the device behind the executor": ('torch_edgex.set_device_mode("jit_device", JIT_DEVICE)\n', "executor"),
    "threads behind the compiler": ('os.environ["COMPILE_THREAD"] = COMPILE_THREAD\n', "compiler is imported"),
    "no patch of the configuration": ("ParallelConfig.__post_init__ = _one_process\n", "several processes"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_the_fakes_reject_another_order(vlm: Border, name: str) -> None:
    """Any other order ends like the real compiler."""
    line, why = ORDERS[name]
    vlm.checkpoint()
    vlm.change(steps.COMPILE, line, "")
    vlm.change(steps.COMPILE, '\n\nif __name__ == "__main__":\n    main()\n', f"\n\nmain()\n{line}")

    said = vlm.python(steps.COMPILE, fails=True)
    assert "DCL_ERROR_REPEAT_INITIALIZE" in said
    assert why in said


def test_an_unexpected_compiled_tree_is_not_changed(vlm: Border) -> None:
    """A missing or duplicate file is reported, and nothing is renamed."""
    vlm.checkpoint()
    vlm.change(
        steps.COMPILE,
        "    rename(of_dies)\n",
        '    next(of_dies.glob("visual/*die1.so")).unlink()\n'
        '    (of_dies / "visual" / "other_die0.params").write_text("")\n'
        "    rename(of_dies)\n",
    )
    said = vlm.python(steps.COMPILE, fails=True)

    assert "visual/*die1.so: file not found; it would become visual/vit_die1.so" in said
    assert "visual/*die0.params: 2 files" in said
    assert "visual/vit_die0.so" not in vlm.tree()


def test_the_evaluation_queries_each_server_by_its_name(llm: Border) -> None:
    """Equal requests at temperature 0 with a seed, each to its own port and name."""
    found = []
    for which in ("float", "quantised"):
        llm.python(f"4-evaluate-{which}.py")
        found.append(llm.asked("run_task")[1])
        llm.run(str(llm.folder / f"3-serve-{which}.sh"))
        ((program, *words),) = llm.programs()
        assert program == "vllm"
        assert words[words.index("--served-model-name") + 1] == found[-1]["model"]
        assert found[-1]["api_url"] == f"http://127.0.0.1:{words[words.index('--port') + 1]}/v1/chat/completions"
        assert words[-1] == f"CUDA_VISIBLE_DEVICES={which != 'float':d}"

    differing = {key for key in found[0] if found[0][key] != found[1][key]}
    assert differing == {"model", "api_url", "work_dir"}
    assert found[0]["generation_config"]["temperature"] == 0
    assert (found[0]["seed"], found[0]["limit"], found[0]["datasets"]) == (0, 7, ["mmlu"])


def test_evaluating_with_pictures_reads_its_settings(vlm: Border) -> None:
    """Both settings are YAML that names the servers' own ports and names."""
    from ruamel.yaml import YAML

    vlm.python("4-evaluate.py")
    asked = [YAML(typ="safe").load(args[0]) for _, args, _ in vlm.calls()]

    models = [each["eval_config"]["model"][0] for each in asked]
    assert [each["type"] for each in models] == ["Qwen3-VL-4B-Instruct-float", "Qwen3-VL-4B-Instruct-quantised"]
    assert [each["api_base"] for each in models] == [
        f"http://127.0.0.1:{port}/v1/chat/completions" for port in (8000, 8001)
    ]
    assert {each["temperature"] for each in models} == {0.0}
    assert [each["work_dir"] for each in asked] == ["evaluations/float", "evaluations/quantised"]
    assert asked[0]["eval_config"]["data"] == ["MMStar"]


def test_containers_are_fetched_without_a_password_in_any_command(llm: Border) -> None:
    """Docker reads the password; a command in a container gets the folder and the token's name, not its value."""
    script = str(llm.folder / "0-containers.sh")
    assert "EDGE10_REGISTRY" in llm.run(script, "pull", fails=True)
    assert "EDGE10_USER" in llm.run(script, "pull", fails=True, EDGE10_REGISTRY="registry.test:1")

    llm.run(script, "pull", EDGE10_REGISTRY="registry.test:1", EDGE10_USER="me", EDGE10_PASSWORD=SECRET)
    login, read_, *pulls, logout = llm.programs()
    assert read_ == ["read", SECRET]
    assert login[1:-1] == ["login", "registry.test:1", "--username", "me", "--password-stdin"]
    assert logout[1:3] == ["logout", "registry.test:1"]
    assert [each[2] for each in pulls] == [f"registry.test:1/edgex/{name}:v1.1.7" for name in ("tyquantize", "tyllm")]

    llm.run(script, "compile", "python3", steps.COMPILE, EDGE10_REGISTRY="r", HF_TOKEN=SECRET)
    ((_, *words),) = llm.programs()
    assert words[-4:-1] == ["r/edgex/tyllm:v1.1.7", "python3", steps.COMPILE]
    assert "--gpus" in words
    assert SECRET not in " ".join(words)
    assert "not a step with a container" in llm.run(script, "evaluate", fails=True, EDGE10_REGISTRY="r")


# ---- the command


def test_the_command_can_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run writes nothing; a changed job replaces the generated files."""
    asked, out = tmp_path / "asked.yaml", tmp_path / "out"
    asked.write_text(VLM, encoding="utf-8")
    summary = run(capsys, "edge10", "make", str(asked), "--out", str(out))
    assert (summary[0], summary[1].startswith("MADE     Qwen/Qwen3-VL-4B · edge10-1.1.7 · 4 dies")) == (0, True)
    assert "vllm-runbooks edge10 preflight quantise" in summary[1]
    first = run(capsys, "edge10", "make", str(asked), "--out", str(out), "--explain")
    assert first[0] == 0
    assert "Qwen3-VL-4B-Instruct-AWQ-AOT_960x540_8192_4die_image_01230123/4die" in first[1].replace("\n  ", "")
    assert "context: 8192: as in edge10-1.1.7" in first[1]
    assert (out / steps.SERVE_FLOAT).stat().st_mode & 0o111
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    again = run(capsys, "edge10", "make", str(asked), "--out", str(out), "--format", "json")
    told = json.loads(again[1])
    jsonschema.Draft202012Validator(
        json.loads((folders.catalog_dir() / "schema" / "edge10-make.json").read_text("utf-8"))
    ).validate(told)
    assert (told["schema"], told["written"], told["problems"]) == (2, [], [])
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before

    asked.write_text(LLM, encoding="utf-8")
    third = json.loads(run(capsys, "edge10", "make", str(asked), "--out", str(out), "--format", "json")[1])
    assert "4-evaluate-float.py" in third["written"]


def test_modified_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed file, a foreign file or a link: nothing is written, one line has the reason."""
    asked, out = tmp_path / "asked.yaml", tmp_path / "out"
    asked.write_text(LLM, encoding="utf-8")
    out.mkdir()
    (out / steps.COMPILE).write_text("mine", encoding="utf-8")
    refused = run(capsys, "edge10", "make", str(asked), "--out", str(out))
    assert refused[0] == 2
    assert "5-compile.py was written or changed by another program; use --replace" in refused[2]
    assert [path.name for path in out.iterdir()] == [steps.COMPILE]

    assert run(capsys, "edge10", "make", str(asked), "--out", str(out), "--replace")[0] == 0
    assert (out / steps.COMPILE).read_text(encoding="utf-8") != "mine"
    with (out / steps.QUANTISE).open("a", encoding="utf-8") as file:
        file.write("# mine\n")
    assert run(capsys, "edge10", "make", str(asked), "--out", str(out))[0] == 2
    (tmp_path / "elsewhere").write_text("theirs", encoding="utf-8")
    (out / steps.QUANTISE).unlink()
    (out / steps.QUANTISE).symlink_to(tmp_path / "elsewhere")
    (out / steps.CONVERT).unlink()
    os.mkfifo(out / steps.CONVERT)
    linked = run(capsys, "edge10", "make", str(asked), "--out", str(out), "--replace")
    assert linked[0] == 2
    assert "1-quantise.py is not a regular file, 2-convert.sh is not a regular file; use another folder" in linked[2]
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("mark", ["", "[]", '{"files": 3}', '{"files": {"../asked.yaml": "x"}}', "\0", "[" * 90_000])
def test_a_damaged_record_overwrites_nothing(tmp_path: Path, mark: str) -> None:
    """Without a record, a different file is the user's."""
    (tmp_path / "asked.yaml").write_text(LLM, encoding="utf-8")
    making.make(str(tmp_path / "asked.yaml"), tmp_path / "out")
    (tmp_path / "out" / ".edge10-made.json").write_text(mark, encoding="utf-8")

    assert making.make(str(tmp_path / "asked.yaml"), tmp_path / "out").written == ()
    (tmp_path / "out" / ".edge10-made.json").write_text(mark, encoding="utf-8")
    (tmp_path / "asked.yaml").write_text(f"{LLM}gpu: false\n", encoding="utf-8")
    with pytest.raises(InputError, match="written or changed by another program"):
        making.make(str(tmp_path / "asked.yaml"), tmp_path / "out")
    assert (tmp_path / "asked.yaml").is_file()


def test_the_description_may_be_in_the_output_folder(tmp_path: Path) -> None:
    """The files are generated again, and the folder's job.yaml is unchanged."""
    mine = tmp_path / steps.JOB
    mine.write_text(LLM, encoding="utf-8")
    making.make(str(mine), tmp_path)
    mine.write_text(f"# mine\n{LLM}gpu: false\n", encoding="utf-8")
    found = making.make(str(mine), tmp_path)

    assert steps.COMPILE in found.written
    assert steps.JOB not in found.written
    assert mine.read_text(encoding="utf-8").startswith("# mine")


def test_further_problems_are_counted(tmp_path: Path) -> None:
    """With the command that shows all; without further ones there is no such line."""
    path = tmp_path / "job.yaml"
    path.write_text(f"{LLM}context: 8196\n", encoding="utf-8")
    result = making.make(str(path), tmp_path / "out")
    for count in (1, 9):
        many = replace(result, problems=result.problems * count)
        text = plain(summary_view(summaries.summarize_made(many, again="make --explain")))
        assert ("For all problems and all notes: make --explain" in text) == (count > 1)


def test_problems_have_their_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A contradiction is 1, with a line each on standard output; unreadable input is 2."""
    asked, out = tmp_path / "asked.yaml", tmp_path / "out"
    asked.write_text(f"{LLM}context: 8196\nevaluation: {{ports: [1, 1]}}\n", encoding="utf-8")
    status, told, _ = run(capsys, "edge10", "make", str(asked), "--out", str(out))
    assert status == 1
    assert told.startswith(f"NOT MADE {asked}\n")
    assert told.splitlines()[2:] == [
        "✗ context: 8196 is close to 8192, which is probably intended",
        f"  {asked}:3",
        "  Fix   Write 8192.",
        "✗ evaluation.ports: are 1, 1, but two servers run concurrently",
        f"  {asked}:4",
        "  Fix   Use two different ports.",
    ]
    status, told, _ = run(capsys, "edge10", "make", str(asked), "--out", str(out), "--format", "json")
    assert status == 1
    assert [each["field"] for each in json.loads(told)["problems"]] == ["context", "evaluation.ports"]
    asked.write_text(f"{LLM}contexts: 8196\nprefil: 3\n", encoding="utf-8")
    status, told, said = run(capsys, "edge10", "make", str(asked), "--out", str(out))
    assert (status, told) == (2, "")
    assert "did you mean context?" in said
    assert "did you mean prefill?" in said
    assert not out.exists()
    assert run(capsys, "edge10", "make", str(asked))[0] == 2
    assert run(capsys, "edge10", "make", str(tmp_path / "none.yaml"), "--out", str(out))[0] == 2


def test_doubts_exit_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files are written."""
    asked = tmp_path / "asked.yaml"
    asked.write_text("model: Qwen3-4B\ndies: 2\n", encoding="utf-8")
    status, told, _ = run(capsys, "edge10", "make", str(asked), "--out", str(tmp_path / "out"))

    assert status == 1
    assert "whether 2 compile" in told
    assert (tmp_path / "out" / "README.md").is_file()


def test_the_example_is_a_valid_job(capsys: pytest.CaptureFixture[str]) -> None:
    """The output of `--example`, as printed and with a commented line enabled."""
    lines = run(capsys, "edge10", "make", "--example")[1].splitlines()
    assert read("\n".join(lines)).evaluation.limit == 200
    shown = [(at, match) for at, line in enumerate(lines) if (match := re.match(r"#( {1,3})(\w+:.*)", line))]
    assert len(shown) > 10
    for at, match in shown:
        indent = "  " if len(match[1]) > 1 else ""
        text = "\n".join([*lines[:at], f"{indent}{match[2]}", *lines[at + 1 :]])
        assert not [each for each in jobs.read(text, catalog.toolchain).problems if not each.is_read], match[2]


def test_a_secret_in_a_description_is_never_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rejected value has its secret replaced, in valid and invalid files."""
    for wrong_line, status in ((f"modality: {SECRET}\nlike: {SECRET}", 1), (f"{SECRET}: 1", 2)):
        for form in ("text", "json"):
            (tmp_path / "asked.yaml").write_text(f"{LLM}{wrong_line}\n", encoding="utf-8")
            found = run(
                capsys, "edge10", "make", str(tmp_path / "asked.yaml"), "--out", str(tmp_path / "out"), "--format", form
            )
            assert found[0] == status
            assert SECRET not in found[1] + found[2]


@pytest.mark.parametrize(
    "line",
    [f"model: /m/{SECRET}/Qwen3-4B\nlike: Qwen3-4B", f"quantised: /m/{SECRET}-AWQ",
     "model: /m/alice:Pl4nted5ecret@b\nlike: Qwen3-4B",
     f"calibration: {{dataset: 'https://a:{SECRET}@b/c'}}"],
)  # fmt: skip
def test_no_generated_file_contains_a_secret(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A token in a path or URL of the description is rejected with its field."""
    field = line.partition(":")[0]
    kept = "".join(f"{each}\n" for each in LLM.splitlines() if not each.startswith(f"{field}:"))
    (tmp_path / "asked.yaml").write_text(f"{line}\n{kept}", encoding="utf-8")
    status, out, err = run(capsys, "edge10", "make", str(tmp_path / "asked.yaml"), "--out", str(tmp_path / "out"))

    assert status == 1
    assert field in out
    assert "contains a secret" in out
    assert SECRET not in out + err
    assert "Pl4nted" not in out + err
    assert not (tmp_path / "out").exists()
