"""`vllm-runbooks plan` on the command line: answers, exit statuses, errors, and files."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders, specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.lint import checking
from vllm_runbooks.plan import planner

GPT = ("openai/gpt-oss-20b", "--gpus", "A100-80GB", "--vllm", "0.19.0", "--no-calibration")
GLM = (
    "zai-org/AutoGLM-Phone-9B", "--gpus", "8xRTX3090", "--vllm", "0.16.0", "--no-calibration",
    "--max-model-len", "25480",
)  # fmt: skip
NO_VIDEO = ("--limit-mm-per-prompt", '{"image": 10, "video": 0}')


def planned(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    """The document that the command prints."""
    assert cli.run(["plan", *words, "--format", "json"]) == status
    return json.loads(capsys.readouterr().out)


def test_plan_of_a_measured_launch(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan matches the log: 13.72 GiB, 36.56 GiB, 798,624 tokens, 11.99 requests."""
    found = planned(capsys, *GPT, "--tp", "1", "--max-model-len", "131072", "--gpu-memory-utilization", "0.65")
    card, cache = found["per_gpu"][0], found["kv_cache"]
    terms = {term["name"]: term for term in card["terms"]}

    assert found["fits"] is True
    assert terms["weights"]["expected_gib"] == pytest.approx(13.72, rel=0.005)
    assert cache["gib"] == pytest.approx(36.56, rel=0.015)
    assert cache["tokens"] == pytest.approx(798_624, rel=0.015)
    assert cache["max_concurrency"] == pytest.approx(11.99, rel=0.02)
    assert cache["low"] <= cache["gib"] <= cache["high"]
    assert all(term["low_gib"] <= term["expected_gib"] <= term["high_gib"] for term in terms.values())
    assert found["deployment"]["flags"] == {"max_model_len": 131072, "gpu_memory_utilization": 0.65}


def test_documents_conform_to_their_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan and a ranking of layouts match `catalog/schema`."""
    jsonschema = pytest.importorskip("jsonschema")
    for name, words in (("plan", (*GPT, "--tp", "1")), ("layouts", GPT), ("plan", (*GPT, "--find", "context"))):
        schema = json.loads((folders.catalog_dir() / "schema" / f"{name}.json").read_text(encoding="utf-8"))
        errors = jsonschema.Draft202012Validator(schema).iter_errors(planned(capsys, *words))
        assert [error.message for error in errors] == []


def test_layouts_are_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight GPUs, each too small alone: pairs are first, invalid splits last with a reason."""
    found = planned(capsys, *GLM, *NO_VIDEO)
    first, last = found["layouts"][0], found["layouts"][-1]

    assert (found["fits"], first["layout"]) == (True, {"replicas": 4, "tp": 2, "pp": 1, "dp": 1})
    assert first["total_concurrency"] == pytest.approx(4 * first["kv_cache"]["max_concurrency"], rel=1e-3)
    single = next(one for one in found["layouts"] if one["layout"] == {"replicas": 8, "tp": 1, "pp": 1, "dp": 1})
    assert (single["legal"], single["fits"]) == (True, False)
    assert last["legal"] is False
    assert "12 heads of the encoder cannot be split over 8 ranks" in last["reasons"][0]


def test_a_single_given_size_sets_the_others_to_one(capsys: pytest.CaptureFixture[str]) -> None:
    """`--pp 2` is one launch on two GPUs, not a table of layouts."""
    found = planned(capsys, *GLM, *NO_VIDEO, "--pp", "2")

    assert [card["rank"] for card in found["per_gpu"]] == [0, 1]
    assert found["deployment"]["flags"]["pipeline_parallel_size"] == 2
    assert "6 of the 8 GPUs stay idle" in found["limits"]


def test_video_profile_is_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded launch does not fit because of its failed allocation; without videos it fits."""
    words = ("zai-org/AutoGLM-Phone-9B", "--gpus", "RTX3090", "--vllm", "0.16.0", "--no-calibration", "--tp", "1")
    given = ("--max-model-len", "25480", "--mm-encoder-tp-mode", "data", "--limit-mm-per-prompt")
    failed = planned(capsys, *words, *given, '{"image": 10}', status=1)
    without = planned(capsys, *words, *given, '{"image": 10, "video": 0}', "--gpu-memory-utilization", "0.95")

    assert failed["fits"] is False
    assert "video" in failed["limits"][0]
    assert "698.00 MiB" in failed["limits"][0]
    assert without["fits"] is True


@pytest.mark.parametrize(
    ("what", "least", "most"),
    [("context", 131_072, 131_072), ("concurrency", 11.7, 12.3), ("utilization", 0.2, 0.3), ("gpus", 1, 1)],
)
def test_inverse_questions(capsys: pytest.CaptureFixture[str], what: str, least: float, most: float) -> None:
    """The answer has a conservative and a best case, and the plan with it."""
    words = (*GPT, "--gpu-memory-utilization", "0.65", "--max-model-len", "131072", "--find", what)
    found = planned(capsys, *words)

    assert found["found"]["quantity"] == what
    assert least <= found["found"]["value"] <= most
    assert found["fits"] is True


def test_an_unknown_term_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    """With unknown GPU memory, `fits` is null and the missing fact is named."""
    found = planned(capsys, "openai/gpt-oss-20b", "--gpus", "MI350X", "--tp", "1", "--no-calibration", status=1)

    assert found["fits"] is None
    assert any("MI350X is unknown" in said for said in found["limits"])
    assert found["per_gpu"][0]["total_gib"] is None


def test_weights_above_the_physical_memory_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Also on a GPU of which the usable memory is unknown; the best layout splits them."""
    model = "deepseek-ai/DeepSeek-V3.1"
    single = planned(capsys, model, "--gpus", "MI350X", "--tp", "1", "--no-calibration", status=1)
    several = planned(capsys, model, "--gpus", "8xMI350X", "--no-calibration", status=1)
    best = several["layouts"][0]

    assert single["fits"] is False
    assert " GiB needed, MI350X has 288.00 GiB of physical memory" in single["limits"][0]
    assert best["fits"] is None
    assert best["layout"]["replicas"] < 8


def test_of_layouts_that_may_fit_the_fullest_is_not_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be the first to fail: weights beside which hardly any memory is left are split further."""
    model = "Qwen/Qwen3.5-397B-A17B"
    (best, *others) = planned(capsys, model, "--gpus", "8xMI350X", "--no-calibration", status=1)["layouts"]

    def weights(way: Mapping[str, Any]) -> Any:
        return max(
            term["expected_gib"] for rank in way["per_gpu"] for term in rank["terms"] if term["name"] == "weights"
        )

    assert best["fits"] is None
    assert weights(best) < 0.75 * 288 < max(weights(way) for way in others if way["fits"] is None)


def test_mixed_gpus_have_their_own_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    """Two unequal GPUs have their own memory, and both have the smaller one's blocks."""
    words = ("Qwen/Qwen2.5-1.5B-Instruct", "--gpus", "RTX3090,A100-80GB", "--vllm", "0.19.0", "--tp", "2")
    found = planned(capsys, *words, "--no-calibration")
    poor, rich = found["per_gpu"]
    caches = [next(term for term in card["terms"] if term["name"] == "kv_cache") for card in (poor, rich)]

    assert poor["available_gib"] < rich["available_gib"]
    assert caches[0]["expected_gib"] == caches[1]["expected_gib"] <= poor["available_gib"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("no/such", "--gpus", "A100-80GB"), "unknown model"),
        (("no/such", "--gpus", "A100-80GB", "--offline"), "no/such: unknown model; use a folder"),
        (("Qwen3", "--gpus", "A100-80GB"), "ambiguous model name; use Qwen/Qwen3-4B"),
        ((*GPT, "--block-size", "7", "--vllm", "0.16.0"), "--block-size does not accept 7 in vLLM 0.16.0"),
        ((*GPT, "--block-size", "7", "--vllm", "0.33.0"), "--block-size must be a multiple of 16"),
        ((*GPT, "--kv-cache-dtype", "fp9", "--vllm", "0.33.0"), "--kv-cache-dtype does not accept fp9"),
        (("MiniMax", "--gpus", "A100-80GB"), "MiniMaxAI/MiniMax-M2.5 or 1 other"),
        (("Llama-3", "--gpus", "A100-80GB"), "unknown model (similar: meta-llama/Llama-3"),
        (
            ("--lang", "zh", "Qwen/Qwen3-8B", "--gpus", "A100-80GB"),
            "No such option --lang. Engine options go after",
        ),
        (("--verbose", "Qwen/Qwen3-8B", "--gpus", "A100-80GB"), "No such option --verbose."),
        (("--gpu", "A100-80GB", "Qwen/Qwen3-8B"), "No such option --gpu. Did you mean --gpus?"),
        (("openai/gpt-oss-20b", "--gpus", "A100"), "ambiguous GPU name; use A100-40GB or A100-80GB"),
        (("openai/gpt-oss-20b", "--gpus", "2xFOO"), "unknown GPU"),
        (("openai/gpt-oss-20b",), "pass the GPUs"),
        ((), "pass a model and --gpus"),
        ((*GPT, "--max-model-lenn", "4"), "Did you mean --max-model-len?"),
        ((*GPT, "--swap-space", "4"), "--swap-space was removed: vLLM 0.19.0"),
        ((*GPT, "--tp", "0"), "parallel sizes must be at least 1"),
        ((*GPT, "--tp", "2"), "needs 2 GPUs"),
        ((*GPT, "--vllm", "zero"), "is not a vLLM version; use"),
        ((*GPT, "-o", "rows.json"), "--from-log"),
        ((*GPT, "--port", "9000"), "--port requires --deploy"),
        ((*GPT, "--retry-posts"), "--retry-posts requires --deploy"),
        ((*GPT, "--env", "CUDA_VISIBLE_DEVICES=3"), "CUDA_VISIBLE_DEVICES: follows from the GPUs"),
        ((*GPT, "--env", "VLLM_PP_LAYER_PARTITION=12,twelve"), "Invalid partition string: 12,twelve"),
        (("openai/gpt-oss-20b", "--find", "gpus"), "pass one GPU's name, as in --gpus H100-80GB"),
        (("--from-log", "no-such.log"), "no-such.log"),
    ],
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
    """Invalid input exits with 2 and one line on standard error, and prints no output."""
    assert cli.run(["plan", *words]) == 2
    printed = capsys.readouterr()

    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"), ("{", "invalid JSON"), ("[1]", "contains no JSON object"), ("{}", "cannot be planned"),
        ("[" * 100_000, "invalid JSON"),
    ],
)  # fmt: skip
def test_an_incomplete_local_configuration_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    """The one-line error names the folder without a usable config.json."""
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert cli.run(["plan", str(tmp_path), "--gpus", "A100-80GB"]) == 2
    printed = capsys.readouterr()

    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_local_folder_is_planned_as_the_catalog_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same configuration in a folder gives the same figures."""
    file = specs.load(spec_files.compile_specs).file("Qwen/Qwen2.5-7B-Instruct")
    (tmp_path / "config.json").write_text(json.dumps(file.config))
    words = ("--gpus", "A100-80GB", "--vllm", "0.19.0", "--tp", "1", "--no-calibration")
    here, there = planned(capsys, str(tmp_path), *words), planned(capsys, "Qwen/Qwen2.5-7B-Instruct", *words)

    assert here["kv_cache"] == there["kv_cache"]


def test_no_secret_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A key among options or variables is in no output and no file."""
    words = (
        *GPT,
        "--tp",
        "1",
        "--api-key",
        "sk-abcdef1234567890",
        "--env",
        "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123",
    )
    assert cli.run(["plan", *words, "--format", "json", "--deploy", str(tmp_path)]) == 0
    assert cli.run(["plan", *words]) == 0
    printed = capsys.readouterr()
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    for secret in ("sk-abcdef1234567890", "hf_abcdefghijklmnopqrstuvwxyz0123"):
        assert secret not in printed.out + printed.err + written


def test_a_deployment_is_written_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Script, compose file, units and proxy of the best layout pass the linter; a second time overwrites nothing."""
    assert cli.run(["plan", *GLM, *NO_VIDEO, "--deploy", str(tmp_path)]) == 0
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    units = [f"systemd/vllm-{port}.service" for port in range(8000, 8004)]

    assert names == ["compose.yaml", "nginx.conf", "start.sh", *units, "verify.txt"]
    found = checking.lint_text((tmp_path / "start.sh").read_text(), name="start.sh", vllm="0.16.0", gpus="8xRTX3090")
    assert [issue.rule for issue in found.issues if issue.severity in ("error", "warning")] == []
    assert [one.flags["tensor_parallel_size"] for one in found.deployments] == [2] * 4
    assert [one.env["CUDA_VISIBLE_DEVICES"] for one in found.deployments] == ["0,1", "2,3", "4,5", "6,7"]
    assert "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0" in (tmp_path / "verify.txt").read_text()
    (tmp_path / "start.sh").write_text("mine")
    capsys.readouterr()
    assert cli.run(["plan", *GLM, *NO_VIDEO, "--deploy", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "start.sh").read_text() == "mine"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_written_script_is_valid_bash(tmp_path: Path) -> None:
    """Bash can parse it."""
    assert cli.run(["plan", *GLM, *NO_VIDEO, "--deploy", str(tmp_path)]) == 0
    assert subprocess.run(["bash", "-n", str(tmp_path / "start.sh")], check=False).returncode == 0


AWQ = "the usual layout for this name: AWQ 4-bit, one scale per 128 weights"
MLLAMA = ("meta-llama/Llama-3.2-11B-Vision-Instruct", "--gpus", "H100-80GB", "--tp", "1")
SHARE = ("--gpu-memory-utilization", "0.75")
QWEN = ("Qwen/Qwen3-8B", "--gpus", "A100-80GB", "--vllm", "0.33.0", "--no-calibration", "--tp", "1")


@pytest.mark.parametrize(
    ("arguments", "assumed"),
    [
        (("Qwen/Qwen3.6-27B", "--gpus", "B200"), ["vLLM is built for CUDA 13, like PyPI's wheel of 0.33.0"]),
        (("Qwen/Qwen3.6-27B", "--gpus", "H200"), []),
        (
            ("acme/Qwen3-8B-AWQ", "--gpus", "L4"),
            [f"the checkpoint has the configuration of Qwen/Qwen3-8B and {AWQ}"],
        ),
        (
            ("Qwen/Qwen3-8B", "--gpus", "MI300X", "--env", "VLLM_ROCM_USE_AITER=1"),
            ["VLLM_ROCM_USE_AITER=1 changes no size: the plan is for kernels without AITER"],
        ),
        (("Qwen/Qwen3-8B", "--gpus", "MI300X"), []),
    ],
)  # fmt: skip
def test_a_plan_says_what_it_assumes(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], assumed: list[str]
) -> None:
    """In JSON and with --explain: the build of vLLM, its kernels, and the layout of a checkpoint."""
    told = ("plan", *arguments, "--vllm", "0.33.0", "--tp", "1", "--offline")
    document = json.loads(run(capsys, *told, "--format", "json")[1])
    shown = " ".join(run(capsys, *told, "--explain")[1].split())

    assert document["assumptions"] == assumed
    assert ("ASSUMPTIONS" in shown) is bool(assumed)
    assert all(sentence in shown for sentence in assumed)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*QWEN, "--kv-cache-memory-bytes", "500G"), "the requested KV cache needs 500.00 GiB"),
        ((*QWEN, "--num-gpu-blocks-override", "1000000"), "the requested KV cache needs"),
        (
            (
                "Qwen/Qwen2.5-1.5B-Instruct",
                "--gpus",
                "A100-80GB,T4",
                "--vllm",
                "0.19.0",
                "--pp",
                "2",
                "--no-calibration",
            ),
            "does not support bfloat16",
        ),
        ((*QWEN, "--num-gpu-blocks-override", "100"), "0.04 of one request of 40,960 tokens"),
        (("Qwen/Qwen3-30B-A3B", "--gpus", "2xA100-80GB", "--vllm", "0.7.2", "--tp", "2"), "implements no Qwen3Moe"),
        (("upstage/Solar-Open-100B", "--gpus", "8xH100", "--vllm", "0.11.0", "--tp", "8"), "implements no SolarOpen"),
        # Transformers' own class, which these releases try instead, lacks what they call.
        ((*MLLAMA, "--vllm", "0.11.2"), "implements no MllamaForConditionalGeneration"),
        ((*MLLAMA, "--vllm", "0.33.0"), "implements no MllamaForConditionalGeneration"),
        ((*MLLAMA, "--vllm", "0.10.2", "--env", "VLLM_USE_V1=1"), "the V1 engine lacks: cross attention"),
        (
            ("nvidia/Qwen3.6-27B-NVFP4", "--gpus", "A100-80GB", "--vllm", "0.16.0", "--tp", "1"),
            "modelopt needs compute capability 8.9",
        ),
        (
            ("nvidia/Qwen3.6-27B-NVFP4", "--gpus", "MI300X", "--vllm", "0.16.0", "--tp", "1"),
            "rejects quantization modelopt on AMD GPUs (MI300X)",
        ),
        (
            ("google/gemma-3-27b-it", "--gpus", "A100-80GB", "--vllm", "0.16.0", "--tp", "1", *SHARE),
            "vLLM's own check passes",
        ),
    ],
)
def test_a_launch_that_the_release_rejects_does_not_fit(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    """The launch would end or never serve the request, and the reason is first."""
    found = planned(capsys, *words, status=1)

    assert found["fits"] is False
    assert says in found["limits"][0]


@pytest.mark.parametrize(("model", "vllm"), [("nvidia/Qwen3.6-27B-NVFP4", "0.33.0"), ("Qwen/Qwen3-8B", "0.8.5")])
def test_a_launch_that_the_release_accepts_on_amd_gpus_fits(model: str, vllm: str) -> None:
    """Newer releases accept NVFP4; the engine of an old one does not depend on an AMD GPU's capability."""
    planned = planner.plan_model(model, "MI300X", vllm=vllm)

    assert planned.fits
    assert planned.limits == ()


def test_a_class_of_transformers_is_planned() -> None:
    """Newer releases run an architecture for which vLLM has no class with the one of transformers."""
    planned = planner.plan_model("upstage/Solar-Open-100B", "8xH100", tp=8, vllm="0.33.0")
    assert planned.fits
    assert planned.limits == ()


@pytest.mark.parametrize(
    "words",
    [
        ("--max-model-len", "-5"), ("--max-model-len", "0"), ("--gpu-memory-utilization", "nan"),
        ("--cpu-offload-gb", "inf"), ("--num-gpu-blocks-override", "-5"), ("--max-num-batched-tokens", "-7"),
        ("--block-size", "-16"), ("--max-num-seqs", "9" * 23), ("--pipeline-parallel-size", "0"),
        ("--tensor-parallel-size", "2"), ("--tensor-parallel-size", "-1"),
    ],
)  # fmt: skip
def test_impossible_numbers_are_rejected(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """In one line, without a plan."""
    assert cli.run(["plan", *QWEN, *words]) == 2
    printed = capsys.readouterr()

    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("what", "option"), [("context", "--max-model-len"), ("utilization", "--gpu-memory-utilization")]
)
def test_the_planned_launch_is_deployed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, what: str, option: str
) -> None:
    """The script has the value that answers the question."""
    words = ("Qwen/Qwen3-32B", "--gpus", "A100-80GB", "--vllm", "0.19.0", "--no-calibration", "--tp", "1")
    found = planned(capsys, *words, "--find", what, "--deploy", str(tmp_path))

    assert f"{option} {found['found']['value']:g}" in (tmp_path / "start.sh").read_text()


def test_uneven_stages_are_deployed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two unequal GPUs fit only with uneven stages, and the script sets them."""
    words = ("Qwen/Qwen3-32B", "--gpus", "RTX3090,A100-80GB", "--vllm", "0.19.0", "--no-calibration")
    found = planned(capsys, *words, "--deploy", str(tmp_path))
    split = found["layouts"][0]["deployment"]["env"]["VLLM_PP_LAYER_PARTITION"]

    assert f"VLLM_PP_LAYER_PARTITION={split}" in (tmp_path / "start.sh").read_text()


def test_the_fewest_gpus_may_be_on_several_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    """628 GiB of weights on 80 GB GPUs: given one GPU type, the answer is two hosts of eight."""
    found = planned(capsys, "deepseek-ai/DeepSeek-R1", "--gpus", "H100-80GB", "--vllm", "0.19.0", "--find", "gpus")
    command = found["deployment"]["command"]

    assert found["found"]["value"] == 16
    assert (
        found["found"]["reasons"][0] == "TP 8 PP 2, on 2 hosts of 8 GPUs (beyond one host only whole hosts are tried)"
    )
    assert [(one["count"], one["node"]) for one in found["gpus"]] == [(8, "host0"), (8, "host1")]
    assert [line for line in command.splitlines() if line.startswith("#")] == ["# On host0:", "# On host1:"]
    assert command.index("--node-rank 0") < command.index("# On host1:") < command.index("--node-rank 1")
    assert "--headless" in command


def test_expected_log_lines_have_the_planned_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The launch printed 13.72 GiB of weights; each expected line has its planned value."""
    words = ("--tp", "1", "--max-model-len", "131072", "--gpu-memory-utilization", "0.65", "--deploy", str(tmp_path))
    found = planned(capsys, *GPT, *words)
    told = (tmp_path / "verify.txt").read_text()
    cache = found["kv_cache"]

    assert "GiB of the weights: the full model: Model loading took; planned: 13.7" in told
    assert f"Available KV cache memory; planned: {cache['gib']:.2f} GiB ({cache['low']:.2f} to " in told
    assert f"GPU KV cache size; planned: {cache['tokens']:,} tokens ({cache['tokens_low']:,} to " in told
    assert f"Maximum concurrency for 131,072 tokens; planned: {cache['max_concurrency']:.2f}x (" in told
    assert "it uses close to gpu_memory_utilization" in told


def test_hosts_that_ray_joins_have_a_script_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """For a release without --nnodes the plan shows how each host joins, and the files do it."""
    cards = ("--gpus", "4xA100-80GB@a,4xA100-80GB@b", "--vllm", "0.10.2", "--no-calibration", "--tp", "4", "--pp", "2")
    found = planned(capsys, "Qwen/Qwen3-32B", *cards, "--deploy", str(tmp_path))
    command = found["deployment"]["command"]

    assert "ray start --head --port=6379 --num-gpus=4" in (tmp_path / "ray-a.sh").read_text()
    assert "ray start --address=a:6379 --num-gpus=4" in (tmp_path / "ray-b.sh").read_text()
    assert command.index("ray start --head") < command.index("ray start --address=a") < command.index("vllm serve")
    assert subprocess.run(["bash", "-n", tmp_path / "ray-b.sh"], check=False).returncode == 0


def test_an_answer_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """A launch with the lowest utilization that was found fits."""
    words = ("Qwen/Qwen2.5-14B-Instruct", "--gpus", "A100-40GB", "--vllm", "0.19.0", "--no-calibration", "--tp", "1")
    found = planned(capsys, *words, "--find", "utilization")["found"]

    assert found["low"] <= found["value"] <= found["high"]
    assert planned(capsys, *words, "--gpu-memory-utilization", str(found["value"]))["fits"] is True


def test_a_log_is_learned_from_once(tmp_path: Path) -> None:
    """A log that is read twice leaves the rows that it left the first time."""
    rows = tmp_path / "rows.json"
    words = ["plan", "--from-log", "gpt-oss-gemma-a100-four-starts", "--gpus", "A100-80GB", "-o", str(rows)]
    assert cli.run(words) == 0
    first = rows.read_text()
    assert cli.run(words) == 0
    assert rows.read_text() == first


def test_an_invalid_name_is_not_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, whether it is the model's or the drafting one's."""
    assert cli.run(["plan", "m" * 5000, "--gpus", "A100-80GB"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

    found = planner.plan_model(
        "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB", vllm="0.33.0",
        options={"speculative_config": {"model": "d" * 5000, "method": "draft_model", "num_speculative_tokens": 3}},
    )  # fmt: skip
    assert found.fits is None


@pytest.mark.parametrize(("words", "port"), [(("81xH100-80GB",), 8081), (("3xRTX3090", "--port", "8079"), 8082)])
def test_the_proxy_has_a_port_of_its_own(tmp_path: Path, words: tuple[str, ...], port: int) -> None:
    """If a server has the usual port of the proxy, the proxy gets the first one after those of the servers."""
    assert cli.run(["plan", "Qwen/Qwen3-0.6B", "--gpus", *words, "--deploy", str(tmp_path)]) == 0
    assert f"listen 127.0.0.1:{port};" in (tmp_path / "nginx.conf").read_text()
