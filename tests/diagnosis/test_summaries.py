"""The summary has state, cause, first fix and the command for details in a few lines."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from rows import in_one_test
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.console import terminal
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.records import Answer, Checks, Edit, Level, MemoryUse, Remedy
from vllm_runbooks.core.views.styled import Layout, Tone, laid_out, plain
from vllm_runbooks.core.views.summary import WIDEST, Statement, Step, SuggestedFix, Summary, certainty, summary_view
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import summaries
from vllm_runbooks.reading import sources

CASES = sorted(
    path.parent.name
    for path in folders.cases_dir().glob("*/case.yaml")
    if any((path.parent / name).exists() for name in ("startup.log", "node0.log"))
)


ERROR = "ERROR 01-01 00:00:05 [serving_chat.py:257]"


LOGS = Path(__file__).resolve().parents[1] / "logs"


def answered(name: str, **options: Any) -> Answer:
    return diagnosing.diagnose(sources.load(name), **options)


def shown(answer: Answer, **options: Any) -> list[str]:
    return plain(
        summary_view(summaries.summarize(answer, again="vllm-runbooks diagnose x --explain", **options))
    ).split("\n")


def test_a_failed_launch_begins_with_state_cause_proof_and_fix() -> None:
    """The first log of the docs: what failed, its line, the option that helps, open checks."""
    evidence = replace(sources.load("autoglm-3090-video-oom"), command=None)
    lines = shown(diagnosing.diagnose(evidence))

    assert lines[0] == "FAILED   startup.log · vLLM 0.16.0 (from call sites) · GPU with 23.56 GiB"
    assert re.fullmatch(r"✗ CUDA out of memory in the .* encoder +●●● confirmed  oom\.multimodal_encoder", lines[2])
    assert lines[3].startswith("  line 109 | torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 698.00 MiB.")
    assert lines[5] == """  Fix   --limit-mm-per-prompt '{"video": 0}'"""
    assert lines[6].startswith("        Cost: requests with a video are rejected")
    assert "checked by" not in "".join(lines)
    assert "add --command FILE and --gpus." in lines[-3]
    assert lines[-1].strip().endswith("vllm-runbooks diagnose x --explain")
    assert any(line.endswith("add --command FILE.") for line in shown(diagnosing.diagnose(evidence), gpus="RTX3090"))


def test_the_build_of_a_version_is_left_out() -> None:
    """The first line has room for model and GPU; the version's local part decides nothing."""
    answer = answered("autoglm-3090-video-oom")
    built = replace(answer, vllm=replace(answer.vllm, version="0.16.0rc3.dev5+g5eeabc2a.d20250318", source="given"))
    assert shown(built)[0].startswith("FAILED   startup.log · vLLM 0.16.0rc3.dev5 (given) · ")


def test_with_command_and_gpus_the_fix_is_checked_and_complete() -> None:
    """Planned memory before and after, the checks, and the whole changed command."""
    lines = shown(answered("autoglm-3090-video-oom", gpus="RTX3090"), has_command=True, gpus="RTX3090")
    text = "\n".join(lines)

    assert lines[0].endswith(" · RTX3090")
    assert "lint ✓  plan ✓  not checked by vLLM's parser" in text
    now, fix = (next(line for line in lines if line.startswith(f"        {name} █")) for name in ("now", "fix"))
    assert re.search(r"█▓+░* needs 22\.83 GiB, limit 21\.20 GiB: no memory left for the KV cache$", now)
    assert re.search(r"█░{2,} \d+\.\d\d GiB for the KV cache, \d+\.\d\d GiB per request$", fix)
    assert "        vllm serve zai-org/AutoGLM-Phone-9B \\" in lines
    assert "To check the fix and print the full command, add --command" not in text


def test_without_the_command_the_changed_one_is_not_shown() -> None:
    """A log that prints its arguments would fill the screen with them."""
    answer = answered("autoglm-3090-video-oom")

    assert answer.remedies[0].command is not None
    assert "vllm serve" not in "\n".join(shown(answer))


def test_a_healthy_log_has_its_cache() -> None:
    """State, KV cache, concurrency, no problem, and nothing else."""
    lines = shown(answered("tiny-cpu-served"))

    assert lines[0] == "RUNNING  startup.log · vLLM 0.32.0 · tiny"
    assert lines[1] == "         KV cache 1.0 GiB: 2,048 concurrent requests of 512 tokens. No problems found."
    assert len(lines) == 4


def test_a_running_server_with_failed_requests_is_not_called_free_of_problems() -> None:
    """The counts stand in their place."""
    answer = answered("tiny-cpu-served")
    lines = shown(replace(answer, facts=replace(answer.facts, preemptions=1200, failed_requests=3)))

    assert lines[1].endswith("512 tokens. While it served: preemptions")
    assert lines[2] == "         1,200, HTTP 5xx responses 3."


OOM = (
    "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.19.0\n"
    "INFO 01-01 00:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 32768}\n"
    "INFO 01-01 00:00:09 [gpu_model_runner.py:4000] Starting to load model Qwen/Qwen3-8B...\n"
    f"{ERROR} Traceback (most recent call last):\n"
    f'{ERROR}   File "/opt/vllm/model_executor/model_loader/base_loader.py", line 55, in load_model\n'
    f"{ERROR} torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of "
    "8.00 GiB of which 60.00 MiB is free. Of the allocated memory 7.10 GiB is allocated by PyTorch.\n"
)


@pytest.mark.parametrize(
    ("model", "is_another"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", True),
        ("qwen/qwen3-8b", False),
        ("/models/any", False),
        ("models/qwen3-8b", False),
    ],
)
def test_a_command_of_another_model_is_not_mixed_with_the_log(
    model: str, *, is_another: bool, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """The difference stands below the cause, and no fix edits the command; a folder may be any model."""
    log, command = tmp_path / "a.log", tmp_path / "a.sh"
    log.write_text(OOM)
    command.write_text(f"vllm serve {model} --max-model-len 32768 --kv-cache-dtype fp8\n")
    _, out, _ = run(capsys, "diagnose", str(log), "--command", str(command), "--gpus", "RTX3060Ti")

    assert re.search(
        r"^! The command and the log come from different launches .* cli\.command_differs$", out, re.MULTILINE
    )
    assert (f"model: {model} in the command" in " ".join(out.split())) == is_another
    assert "kv_cache_dtype: fp8 in the command" in " ".join(out.split())
    _, out, _ = run(capsys, "diagnose", str(log), "--command", str(command), "--explain")
    assert (model in out.partition("FIXES")[2].partition("ALSO")[0]) != is_another


SHORT = (
    "INFO 11-20 09:14:02 [api_server.py:1212] vLLM API server version 0.19.0\n{named}\n"
    "ERROR 11-20 09:14:40 [core.py:866] EngineCore failed to start.\n"
    "ERROR 11-20 09:14:40 [core.py:866] ValueError: To serve at least one request with the models's max seq len "
    "(65536), (8.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.0 GiB). "
    "Based on the available memory, the estimated maximum model length is 24576.\n"
)
QWEN = "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len 32768"
LLAMA = "vllm serve meta-llama/Llama-3.1-8B-Instruct --port 8001 --gpu-memory-utilization 0.95"
NONE = "launches, and the log is of none of them"


@pytest.mark.parametrize(
    ("named", "command", "edited", "note"),
    [
        ("non-default args: {{'model_tag': '{model}', 'max_model_len': 65536}}", [QWEN, LLAMA], None, NONE),
        ("Starting to load model {model}...", [QWEN, LLAMA], None, NONE),
        ("Starting to load model {model}...", [QWEN], None, ""),
        ("Initializing a V1 LLM engine (v0.19.0) with config: model='{model}', max_seq_len=65536", [QWEN], None, ""),
        ("Starting to load model meta-llama/Llama-3.1-8B-Instruct...", [QWEN, LLAMA], LLAMA, "the one in line 2"),
        ("Starting to load model /models/a...", [QWEN], QWEN, ""),
        ("non-default args: {{'model_tag': '/models/a', 'max_model_len': 65536}}", [QWEN, LLAMA], None, NONE),
    ],
)
def test_a_command_that_the_log_is_not_of_is_not_edited(
    named: str, command: list[str], edited: str | None, *, note: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever line names the model; of several launches the one that serves it is edited, and none if none does."""
    log, script = tmp_path / "a.log", tmp_path / "a.sh"
    said = named.format(model="mistralai/Mistral-7B-v0.3")
    log.write_text(SHORT.format(named=f"INFO 11-20 09:14:02 [a.py:1] {said}"))
    script.write_text("\n".join(command) + "\n")
    document = json.loads(run(capsys, "diagnose", str(log), "--command", str(script), "--format", "json")[1])

    served = (document["remedies"][0]["command"] or "").partition(" --")[0]
    changed = [line for line in command if served == line.partition(" --")[0]]
    assert changed == ([] if edited is None else [edited])
    assert note in " ".join(document["notes"])


def test_a_rejected_request_is_a_note_of_a_healthy_server(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """Exit status 0: the client has the problem."""
    log = tmp_path / "serve.log"
    log.write_text(
        "INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.10.2\n"
        "INFO 01-01 00:00:01 [launcher.py:36] Available routes are:\n"
        "INFO:     Application startup complete.\n"
        'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        f"{ERROR} Error in preprocessing prompt inputs\n"
        f"{ERROR} Traceback (most recent call last):\n"
        f'{ERROR}   File "/opt/vllm/entrypoints/openai/serving_chat.py", line 237, in create_chat_completion\n'
        f"{ERROR} ValueError: This model's maximum context length is 8000 tokens. However, you requested 9000 tokens "
        "(8900 in the messages, 100 in the completion). Please reduce the length of the messages or completion.\n"
        'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 400 Bad Request\n'
    )
    status, out, _ = run(capsys, "diagnose", str(log))

    assert status == 0
    assert out.startswith("RUNNING  serve.log · vLLM 0.10.2\n")
    assert re.search(r"^! .*context.*  api\.context_overflow$\n  line 8 \| ", out, re.MULTILINE)
    assert "No problems found" not in out


def test_input_that_is_not_a_log_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """With what to use instead; there is nothing to share."""
    (tmp_path / "notes.txt").write_text("hello\n")
    status, out, _ = run(capsys, "diagnose", str(tmp_path / "notes.txt"))

    assert status == 1
    assert "? This does not look like the log of a vLLM launch." in out
    assert "  Next  Diagnose the complete output" in out
    assert "Share" not in out


def test_an_unknown_failure_shows_its_first_error_whole_and_how_to_share_it() -> None:
    """Its own words are the best lead."""
    answer = answered("tiny-cpu-port-in-use")
    error = (
        replace(answer.root_cause.evidence[0], text="OSError: " + "word " * 39 + "word 1")
        if answer.root_cause
        else None
    )
    unknown = replace(answer, root_cause=None, findings=(), remedies=(), first_error=error)
    lines = shown(unknown, pack="vllm-runbooks pack logs/startup.log")
    text = " ".join(" ".join(lines).split())

    assert "? No known symptom explains this failure; its first error:" in text
    assert text.count("word ") == 40
    assert "Share without secrets: vllm-runbooks pack logs/startup.log" in text


def test_a_cause_in_another_log_is_not_confirmed_here() -> None:
    """It has a question mark, and the next step is the other log."""
    lines = shown(diagnosing.diagnose(sources.load_files([str(LOGS / "engine-killed-0.16.log")])))

    assert lines[2].startswith("? The cause is not in this log. Closest match: ")
    assert any(line.startswith("  Next  Check the ") for line in lines)


def test_a_chosen_launch_is_named_and_described(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first of two, which ends before it is ready, has its last line."""
    log = tmp_path / "twice.log"
    text = (LOGS / "cut-off-while-loading.log").read_text()
    log.write_text(text + text)
    _, out, _ = run(capsys, "diagnose", str(log), "--start", "1")

    assert "launch 1 of 2 (from line 1)" in " ".join(out.split())
    last = int(re.findall(r"\(\D*, line (\d+)\)", out)[0])
    assert last < 1.5 * len(text.splitlines())


def test_an_excerpt_shows_its_captured_values() -> None:
    """A long line is cut before them."""
    answer = answered("autoglm-3090-video-oom")
    assert answer.root_cause is not None
    proof = answer.root_cause.evidence[0]
    wrapped = replace(proof, text=f"InductorError: {'word ' * 30}{proof.text}")
    cause = replace(answer.root_cause, evidence=(wrapped,))
    line = next(line for line in shown(replace(answer, root_cause=cause)) if line.startswith("  line"))

    assert line.startswith("  line 109 | … ")
    assert "698.00 MiB" in line


def test_the_command_for_details_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its option precedes `--`; secrets and unprintable words are not repeated."""
    for words, line in (
        (["diagnose", "a b.log"], "vllm-runbooks diagnose 'a b.log' --explain"),
        (["diagnose", "--", "-a.log"], "vllm-runbooks diagnose --explain -- -a.log"),
        (["diagnose", "a\nb.log"], "add --explain"),
        (["plan", "m", "--api-key", "sk-abcdefghijklmnopqrstuvwx"], "add --explain"),
        (["diagnose", "x" * 90], f"vllm-runbooks diagnose {'x' * 90} --explain"),
        (["diagnose", "x" * 400], "add --explain"),
    ):
        monkeypatch.setattr(sys, "argv", ["vllm-runbooks", *words])
        assert terminal.again("--explain") == line


@pytest.mark.slow
def test_every_recorded_log_is_summarized_in_few_lines() -> None:
    """At most 24 lines without the changed command, none over 100 columns; a fix or a next step for every failure."""
    for name in CASES:
        answer = answered(name)
        for width in (None, 60, 80, 140):
            lines = laid_out(summary_view(summaries.summarize(answer, again="x")), Layout(table=width))
            assert len(lines) <= (24 if width is None or width >= 80 else 32), name
            wide = [str(line) for line in lines if len(str(line)) > min(width or WIDEST, WIDEST)]
            assert not [line for line in wide if width is None or width >= 80 or "--" not in line], (name, width, wide)
        if not answer.outcome.is_healthy:
            assert any(str(line).startswith(("  Fix ", "  Next ")) for line in lines), name


@in_one_test(
    ("edits", "text"),
    [
        ([Edit("set", "max_num_seqs", 32)], "--max-num-seqs 32"),
        ([Edit("set", "enforce_eager", True)], "--enforce-eager"),
        ([Edit("set", "enable_prefix_caching", False)], "--no-enable-prefix-caching"),
        ([Edit("set", "limit_mm_per_prompt", {"video": 0})], """--limit-mm-per-prompt '{"video": 0}'"""),
        ([Edit("env", "NCCL_DEBUG", "a b")], "NCCL_DEBUG='a b'"),
        ([Edit("remove", "swap_space"), Edit("remove", "lora_modules")], "remove --swap-space, --lora-modules"),
        ([Edit("set", "seed", 1), Edit("remove", "swap_space")], "--seed 1 (remove --swap-space)"),
        ([Edit("env", "VLLM_PORT"), Edit("remove", "seed")], "remove --seed, unset VLLM_PORT"),
    ],
)
def test_edits_are_written_as_options(edits: list[Edit], text: str) -> None:
    """In the syntax of a command, quoted for a shell."""
    assert summaries.option_text(edits) == text


def test_a_removal_is_translated() -> None:
    """The option's name stays."""
    assert summaries.option_text([Edit("remove", "swap_space")], Wording("zh")) == "移除 --swap-space"


def test_a_long_cost_ends_with_a_whole_clause() -> None:
    """The rest is in `--explain`."""
    answer = answered("autoglm-3090-video-oom")
    cost = "; ".join(f"clause number {number} of a cost that goes on" for number in range(9))
    remedy = Remedy("t", cost, (Edit("set", "seed", 1),), None, Checks("passed", "unknown: x", "unknown: x"))
    text = " ".join(" ".join(shown(replace(answer, remedies=(remedy,)))).split())

    assert "Cost: clause number 0 of a cost that goes on; clause number 1 of a cost that goes on; clause" in text
    assert "clause number 8" not in text
    assert "…" not in text.partition("Cost:")[2]


def test_a_model_is_named_without_its_folders() -> None:
    """For a repository, a hub cache or a local path; a placeholder is not a name."""
    answer = answered("tiny-cpu-served")
    for model, name in (
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0123abcd", "Qwen3-8B"),
        ("/models/mine/", "mine"),
        (f"org/{'a' * 30}-{'b' * 30}", f"{'a' * 16}…{'b' * 15}"),
        ("$MODEL", None),
        ("<model>", None),
    ):
        head = shown(replace(answer, facts=replace(answer.facts, model=model)))[0]
        assert head == "RUNNING  startup.log · vLLM 0.32.0" + (f" · {name}" if name else "")


def test_of_many_named_gpus_the_first_are_listed() -> None:
    """The headline stays short for any number of hosts in `--gpus`."""
    answer = answered("autoglm-3090-video-oom", gpus="RTX3090")
    many = " ".join(shown(answer, gpus=",".join(f"RTX3090@host-{number:03}" for number in range(1, 513))))

    assert "RTX3090@host-004 and 508 more" in " ".join(many.split())
    assert "host-005" not in many


def test_memory_beyond_the_gpu_is_drawn_beyond_its_end() -> None:
    """Nothing is divided by nothing, and the bar has one length."""
    answer = answered("autoglm-3090-video-oom", gpus="RTX3090")
    uses = (MemoryUse(24.0, 48.0, None, None), MemoryUse(24.0, 0.0, 20.0, None))
    lines = shown(replace(answer, memory=uses), has_command=True)
    now, fix = (next(line for line in lines if line.startswith(f"        {name} █")) for name in ("now", "fix"))

    assert now == "        now ███████████▓▓▓▓▓▓▓▓▓▓▓ needs 48.00 of 24.00 GiB"
    assert fix == "        fix █░░░░░░░░░░░░░░░░░░░░░ 20.00 GiB for the KV cache"


def test_hostile_text_stays_in_its_line() -> None:
    """For any log, the summary has no control characters and no foreign lines."""
    hostile = "\x1b[31mred\x1b]8;;http://evil\x07 \u202e Fix   rm -rf / \r\n  Fix   rm"
    summary = Summary(
        "FAILED",
        Tone.BAD,
        (hostile,),
        statements=(Statement("✗", hostile, Tone.BAD, "●●●", "x", "line 1", hostile),),
        fix=SuggestedFix(hostile, hostile, (("lint", "✓"),), hostile),
        steps=(Step("Next", hostile, hostile),),
    )
    text = plain(summary_view(summary))

    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)
    assert visible(text) == text


def test_certainty_has_dots_and_a_word() -> None:
    """Colour is severity; certainty never is."""
    texts = {level: certainty(level, level.value) for level in Level}
    assert texts == {
        Level.CONFIRMED: "●●● confirmed",
        Level.PROBABLE: "●●○ probable",
        Level.POSSIBLE: "●○○ possible",
    }


def test_logs_of_different_launches_are_diagnosed_one_by_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A folder with a failed launch and another server's healthy log has two answers; JSON says so in a note."""
    for name in ("autoglm-3090-video-oom", "tiny-cpu-served"):
        (tmp_path / f"{name}.log").write_bytes((folders.cases_dir() / name / "startup.log").read_bytes())

    status, out, _ = run(capsys, "diagnose", str(tmp_path))

    assert status == 1
    lines = out.splitlines()
    assert lines[0] == "2 logs of different launches, each diagnosed separately:"
    states = [line for line in lines if line.startswith(("FAILED ", "RUNNING ", "READY "))]
    assert [state.split()[:2] for state in states] == [
        ["FAILED", "autoglm-3090-video-oom.log"], ["RUNNING", "tiny-cpu-served.log"],
    ]  # fmt: skip
    assert " tiny " not in states[0]
    document = json.loads(run(capsys, "diagnose", str(tmp_path), "--format", "json")[1])
    assert "The logs are of different launches; diagnose each one separately." in document["notes"]


def test_logs_of_two_nodes_are_one_launch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The second node prints no model; both logs have one answer."""
    for name in ("node0.log", "node1.log"):
        (tmp_path / name).write_bytes((folders.cases_dir() / "two-nodes-served" / name).read_bytes())

    _, out, _ = run(capsys, "diagnose", str(tmp_path))

    assert "different launches" not in out
    assert out.startswith("RUNNING  node0.log, node1.log ")
