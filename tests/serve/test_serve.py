"""The supervised launch: its checks, readiness, diagnosis of failures, and leftovers."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shlex
import signal
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from pace import scaled
from ports import free_port
from test_ask_parser import _MODULES
from vllm_runbooks import render
from vllm_runbooks.catalog import folders
from vllm_runbooks.cluster import starting_nodes
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import Outcome
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import card_locks, gpu_memory, leftovers
from vllm_runbooks.host.records import GpuFacts, GpuProcess
from vllm_runbooks.host.running import RedactedOutput, SupervisedCommand
from vllm_runbooks.plan import planner
from vllm_runbooks.probe.starts import Attempt, Check, Guarded, LaunchResult
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import recording
from vllm_runbooks.serve import command as cli_serve
from vllm_runbooks.serve import durations, places, preflight, retries
from vllm_runbooks.serve import guard as serve
from vllm_runbooks.serve.log import Log
from vllm_runbooks.serve.neighbours import Neighbours, Segments
from vllm_runbooks.serve.preflight import LaunchHost
from vllm_runbooks.serve.subject import ServedLaunch

SERVED = folders.cases_dir() / "tiny-cpu-served" / "startup.log"
RACE = folders.cases_dir() / "qwen-a100-shared-gpu-race" / "startup.log"
Steps = list[dict[str, Any]]
UP: Steps = [{"print": str(SERVED), "until": "Application startup complete"}]


class Stage:
    """A host with a fake `vllm` on its path, and its own state folder and locks."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.port = free_port()
        self.said: list[str] = []
        self.shown = b""
        program = folder / "bin" / "vllm"
        program.parent.mkdir()
        stand_in = Path(__file__).parents[1].joinpath("stand_in_server.py")
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in))} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # the stand-in has no model to download
        monkeypatch.setenv("VLLM_RUNBOOKS_LOCKS", str(folder / "locks"))
        monkeypatch.setenv("STAND_IN_COUNT", str(folder / "count"))
        self.setenv = monkeypatch.setenv

    def show(self, chunk: bytes) -> None:
        """Collects the server's output."""
        self.shown += chunk

    def command(self, *more: str) -> list[str]:
        """A launch on the stage's port."""
        return ["vllm", "serve", "tiny", "--host", "127.0.0.1", "--port", str(self.port), *more]

    def serve(self, steps: Any, *more: str, **asked: Any) -> Guarded:
        """Serve and return the steps' messages."""
        self.setenv("STAND_IN", json.dumps(steps))
        limits = serve.Limits(**{"look_s": 0.1, "patience_s": 2.0, **asked.pop("limits", {})})
        request = serve.LaunchRequest(
            subject=serve.subject(asked.pop("command", self.command(*more)), vllm=asked.pop("vllm", "0.32.0")),
            source=asked.pop("source", None),
            why_none="no GPU is read here",
            left_out=asked.pop("left_out", ("model",)),
            limits=limits,
            steady=serve.Steady(3, 0.05, 64.0, asked.pop("wait_s", 5.0)),
            **asked,
        )
        return serve.serve(request, show=self.show, say=self.said.append)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A host with its settings."""
    return Stage(tmp_path, monkeypatch)


def stands(stage: Stage, words: str) -> bool:
    """Whether the supervisor has printed it."""
    return any(words in line for line in stage.said)


def test_a_server_is_ready_once_it_has_answered(stage: Stage) -> None:
    """All health checks pass, the log is kept unchanged, and the exit status is the server's."""
    found = stage.serve([*UP, {"serve": {}}, {"sleep": 1.5}, {"exit": 7}])

    (tried,) = found.attempts
    assert [rung.name for rung in tried.health_checks] == [
        "port",
        "health",
        "models",
        "token",
        "stream",
        "chat",
        "tools",
    ]
    assert {rung.result for rung in tried.health_checks[:6]} == {LaunchResult.PASSED}
    assert tried.ready_s is not None
    assert found.status == 7
    log = Path(found.folder or "") / "server.log"
    assert log.read_text() == SERVED.read_text().partition("Application startup complete.")[0] + (
        "Application startup complete.\n"
    )
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stands(stage, "ready after")
    assert stands(stage, "load: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "rung", "words"),
    [
        ({"/health": [503, {}]}, "health", "503"),
        ({"/v1/models": [200, {"data": []}]}, "models", "lists no model"),
        ({"/v1/models": [401, {"error": "Unauthorized"}]}, "models", "an API key is required"),
        ({"/v1/completions": [500, {"error": {"message": "EngineCore encountered an issue."}}]}, "token", "EngineCore"),
        ({"/v1/completions": [200, "<html>"]}, "token", "200"),
        ({"/v1/completions": [0, "9"]}, "token", "no answer within 0.5 s"),
        ({"stream": [200, 'data: {"error": {"message": "dead"}}\n\ndata: [DONE]\n\n']}, "stream", "broke off: dead"),
        ({"stream": [200, 'data: {"choices": []}\n\n']}, "stream", "without [DONE]"),
        ({"/v1/chat/completions": [500, {"error": {"message": "boom"}}]}, "chat", "boom"),
        ({"tools": [400, {"error": {"message": "requires --tool-call-parser"}}]}, "tools", "tool-call-parser"),
    ],
)  # fmt: skip
def test_a_server_that_only_looks_healthy_is_never_ready(
    stage: Stage, answers: dict[str, Any], rung: str, words: str
) -> None:
    """The failed health check has the server's message; retries are limited."""
    more = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    is_refused = rung == "tools" or "key" in words  # it answers, so it keeps running
    limits = {"patience_s": 0.5, "ready_s": 2.5 if is_refused else 60.0, "look_s": 0.05}
    found = stage.serve([*UP, {"serve": answers}, {"hold": True}], *more, limits=limits, left_out=("model", "command"))

    (tried,) = found.attempts
    assert tried.ready_s is None
    assert (tried.health_checks[-1].name, tried.health_checks[-1].result) == (rung, LaunchResult.FAILED)
    assert words in tried.health_checks[-1].message
    assert found.status == 1


@pytest.mark.slow
def test_a_chat_template_is_required_on_request(stage: Stage) -> None:
    """A base model serves completions without one."""
    refused = {"/v1/chat/completions": [400, {"error": {"message": "no chat template is defined"}}]}
    found = stage.serve([*UP, {"serve": refused}, {"sleep": 1.5}, {"exit": 0}])
    with_template = stage.serve(
        [*UP, {"serve": refused}, {"hold": True}], "--chat-template", "x.jinja", limits={"ready_s": 2.0}
    )

    assert found.attempts[0].ready_s is not None
    assert (found.attempts[0].health_checks[5].result, found.attempts[0].health_checks[5].is_needed) == (
        LaunchResult.FAILED,
        False,
    )
    assert with_template.attempts[0].ready_s is None


@pytest.mark.slow
def test_an_embedding_model_is_ready_with_an_embedding(stage: Stage) -> None:
    """Health checks that generate text are skipped."""
    pooling = {
        "/v1/completions": [400, {"error": {"message": "The model does not support Completions API"}}],
        "/v1/embeddings": [200, {"data": [{"embedding": [0.1]}]}],
    }
    found = stage.serve([*UP, {"serve": pooling}, {"sleep": 1.5}, {"exit": 0}])

    assert [(rung.name, rung.result) for rung in found.attempts[0].health_checks[3:]] == [
        ("token", LaunchResult.PASSED), ("stream", LaunchResult.LEFT_OUT),
        ("chat", LaunchResult.LEFT_OUT), ("tools", LaunchResult.LEFT_OUT),
    ]  # fmt: skip


def test_a_failed_launch_is_diagnosed(stage: Stage) -> None:
    """With the cause in its log; it was never ready, for any exit status."""
    log = folders.cases_dir() / "tiny-cpu-context-too-long" / "startup.log"
    found = stage.serve([{"print": str(log)}, {"exit": 3}])

    answer = found.attempts[0].answer
    assert answer is not None
    assert answer.root_cause is not None
    assert (answer.outcome, answer.root_cause.class_) == (Outcome.FAILED, "kv.max_len_too_large")
    assert found.status == 1
    assert "kv.max_len_too_large" in render.guarded.text(found)


def race(folder: Path, steps: list[tuple[float, float]]) -> gpu_memory.Recorded:
    """A series of one GPU: seconds and MiB in use."""
    path = folder / "memory.jsonl"
    card = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "uuid": "GPU-1", "total_mib": 81153.0}
    lines = [{"at_s": at, "gpus": [{**card, "used_mib": used, "processes": [{"pid": 4711}]}]} for at, used in steps]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return gpu_memory.Recorded(path)


@pytest.mark.slow
def test_a_memory_race_is_retried_unchanged(stage: Stage) -> None:
    """The supervisor waits for stable memory, gives the reason, and repeats the command."""
    up = [*UP, {"serve": {}}, {"sleep": 1.0}, {"exit": 0}]
    source = race(stage.folder, [(0, 5000), (0.8, 4000), (1.0, 3500), (1.2, 3000), (1.5, 3000)])
    found = stage.serve(
        [[{"print": str(RACE)}, {"sleep": 0.5}, {"exit": 1}], up], source=source, tries=2, left_out=("model", "plan")
    )

    first, second = found.attempts
    assert first.answer is not None
    assert first.answer.root_cause is not None
    assert first.answer.root_cause.class_ == "mem.profiling_assertion"
    assert second.ready_s is not None
    assert second.command == first.command
    assert second.change is not None
    assert second.change.edits == ()
    assert "memory was released by another process" in second.change.reason
    text = " ".join(render.guarded.text(found).split())
    assert text.startswith("STOPPED try 2 of 2 · ready after ")
    assert " Tried " in text
    assert "the time of another launch" in text
    assert found.waited_s > 0


@pytest.mark.slow
def test_memory_is_fixed_by_a_planned_change(stage: Stage) -> None:
    """The cheapest fix that is linted and planned; change, reason and cost are printed."""
    case = folders.cases_dir() / "autoglm-3090-video-oom"
    lines = [line for line in (case / "command.sh").read_text().splitlines() if not line.startswith("#")]
    words = shlex.split("\n".join(lines).replace("\\\n", " "))
    words[words.index("--port") + 1] = str(stage.port)
    fails = [{"print": str(case / "startup.log")}, {"exit": 1}]
    up = [*UP, {"serve": {}}, {"sleep": 1.0}, {"exit": 0}]
    found = stage.serve([fails, up], command=words, vllm="0.16.0", gpus="RTX3090", tries=3, left_out=("plan", "model"))

    first, second = found.attempts
    assert second.change is not None
    assert [edit.name for edit in second.change.edits] == ["limit_mm_per_prompt", "gpu_memory_utilization"]
    assert "oom.multimodal_encoder" in second.change.reason
    assert '"video": 0' not in first.command
    assert '"video": 0' in second.command
    assert second.ready_s is not None
    text = " ".join(render.guarded.text(found).split())
    assert text.startswith("STOPPED try 2 of 2 · ready after ")
    assert " Tried " in text
    assert "requests with a video are rejected" in text


@pytest.mark.slow
def test_memory_freed_by_neighbours_is_reported(stage: Stage) -> None:
    """With who did, as the race is explained by it."""
    path = stage.folder / "memory.jsonl"
    card = {"index": 0, "name": "NVIDIA A100-SXM4-80GB", "total_mib": 81153.0}
    rows = [(0.0, 5000.0), (1.2, 2000.0)]
    text = [
        {"at_s": at, "gpus": [{**card, "used_mib": used, "processes": [{"pid": 99999, "used_mib": used}]}]}
        for at, used in rows
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in text))
    fails = [{"sleep": 2.5}, {"print": str(RACE)}, {"exit": 1}]
    found = stage.serve(fails, source=gpu_memory.Recorded(path), left_out=("model", "plan"))

    (seen,) = found.attempts[0].events
    assert (seen.kind, seen.message) == ("memory-released", "GPU 0: other processes (process 99999) freed 2.93 GiB")
    assert stands(stage, seen.message)


@pytest.mark.slow
def test_retries_are_limited(stage: Stage) -> None:
    """There is none without a checked change."""
    fails = [{"print": str(RACE)}, {"exit": 1}]
    three = stage.serve([fails], tries=3, left_out=("model", "plan"))
    port = folders.cases_dir() / "tiny-cpu-port-in-use" / "startup.log"
    one = stage.serve([{"print": str(port)}, {"exit": 1}], tries=3)

    assert (len(three.attempts), three.status) == (3, 1)
    assert (len(one.attempts), one.status) == (1, 1)
    assert stands(stage, "another launch cannot fix port.in_use")


def test_an_occupied_port_is_reported_with_its_process(stage: Stage) -> None:
    """And nothing is launched."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", stage.port))
        other.listen()
        found = stage.serve(UP)

    assert (found.attempts, found.status) == ((), 1)
    check = found.checks[-1]
    assert (check.name, check.result) == ("port", LaunchResult.FAILED)
    assert f"process {os.getpid()}" in check.message


def test_a_command_that_the_release_rejects_is_not_launched(stage: Stage) -> None:
    """Unless the check is not wanted."""
    found = stage.serve(UP, "--swap-space", "4")
    started = stage.serve([*UP, {"exit": 1}], "--swap-space", "4", left_out=("command", "model"))

    assert (found.checks[0].name, found.checks[0].result) == ("command", LaunchResult.FAILED)
    assert "--swap-space" in found.checks[0].message
    assert found.attempts == ()
    assert len(started.attempts) == 1


def test_changing_memory_is_awaited_and_then_reported(stage: Stage) -> None:
    """With the change and the processes on the GPU."""
    source = race(stage.folder, [(n / 10, 9000 + 500 * (n % 2)) for n in range(100)])
    found = stage.serve(UP, source=source, wait_s=0.5, left_out=("model", "plan"))

    assert found.attempts == ()
    assert "not stable" in found.checks[-1].message
    assert "500 MiB" in found.checks[-1].message
    assert "4711" in found.checks[-1].message
    assert stands(stage, "waiting for stable GPU memory")


def test_a_share_that_is_not_free_is_reported_before_the_launch(stage: Stage) -> None:
    """With a share that is free; the check calculates as the release does."""
    source = race(stage.folder, [(0, 40000)])
    found = stage.serve(UP, "--gpu-memory-utilization", "0.9", source=source, left_out=("model", "plan"))

    assert found.checks[-1].result is LaunchResult.FAILED
    assert "(71.33 GiB), and 40.19 GiB is free" in found.checks[-1].message
    assert "--gpu-memory-utilization to at most 0.5" in found.checks[-1].message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda m: (m / "config.json").unlink(), "config.json: not found"),
        (lambda m: (m / "tokenizer.json").unlink(), "contains no tokenizer"),
        (lambda m: (m / "model.safetensors").unlink(), "contains no weights"),
        (lambda m: (m / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS"),
        (lambda m: os.truncate(m / "model.safetensors", 80), "has 80 bytes, but its header says"),
        (lambda m: (m / "model.safetensors").write_bytes(b"\x01"), "header is damaged"),
        (
            lambda m: (m / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}'),
            "1 of 1 weight files are missing, first b.safetensors",
        ),
    ],
)  # fmt: skip
def test_an_incomplete_model_is_not_launched(stage: Stage, damage: Callable[[Path], object], words: str) -> None:
    """Missing and damaged files are named."""
    model = stage.folder / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    (model / "tokenizer.json").write_text("{}")
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    command = ["vllm", "serve", str(model), "--port", str(stage.port)]
    whole = stage.serve([{"exit": 1}], command=command, left_out=("plan",))
    damage(model)
    broken = stage.serve([{"exit": 1}], command=command, left_out=("plan",))

    assert (whole.checks[1].name, whole.checks[1].result) == ("model", LaunchResult.PASSED)
    assert (broken.checks[1].name, broken.checks[1].result) == ("model", LaunchResult.FAILED)
    assert words in broken.checks[1].message
    assert broken.attempts == ()


def test_a_key_is_never_shown(stage: Stage) -> None:
    """Not in output, messages, reports or records; the unchanged log is private."""
    key = "sk-4fT9qLz81mXcVbNa"
    steps = [{"print": str(SERVED), "until": "non-default"}, {"exit": 1}]
    found = stage.serve(steps, "--api-key", key)
    case = stage.folder / "cases" / "one"
    recording.record_last_try(found, case, say=stage.said.append)

    files = [*case.iterdir(), *Path(found.folder or "").iterdir()]
    texts = [path.read_text() for path in files if not path.name.startswith("server")]
    texts += [*stage.said, stage.shown.decode(), render.to_json(found), render.guarded.text(found)]
    assert not [text for text in texts if key in text]
    assert "--api-key" in (case / "command.sh").read_text()


def test_a_bare_key_in_the_log_is_hidden(stage: Stage) -> None:
    """The command identifies it; only the private log contains it."""
    (stage.folder / "log").write_text("INFO 11-21 08:00:00 [x.py:1] calling with hunter2xyzQ9\n")
    found = stage.serve([{"print": str(stage.folder / "log")}, {"exit": 1}], "--api-key", "hunter2xyzQ9")

    assert b"calling with" in stage.shown
    assert b"hunter2xyzQ9" not in stage.shown
    assert "hunter2xyzQ9" not in render.to_json(found)
    assert "hunter2xyzQ9" in (Path(found.folder or "") / "server.log").read_text()


@pytest.mark.slow
def test_a_port_in_a_variable_is_not_guessed(stage: Stage) -> None:
    """Another server on the default port is not used; only the log shows readiness."""
    script = stage.folder / "run.sh"
    script.write_text('#!/bin/bash\nexec vllm serve tiny --port "$PORT" --api-key "$KEY"\n')
    stage.setenv("PORT", str(stage.port))
    stage.setenv("KEY", "k")
    found = stage.serve(
        [*UP, {"sleep": 2.5}, {"exit": 0}], command=["bash", str(script)], left_out=("model", "command")
    )

    assert [check.result for check in found.checks if check.name == "port"] == [LaunchResult.UNKNOWN]
    assert found.attempts[0].ready_s is not None
    assert found.attempts[0].health_checks == ()
    assert stands(stage, "according to its log")


def test_a_folder_with_files_is_not_used(stage: Stage) -> None:
    """Nor are its permissions changed."""
    mine = stage.folder / "mine"
    mine.mkdir(mode=0o755)
    (mine / "server.log").write_text("an earlier start\n")
    with pytest.raises(InputError, match="is not empty; set a new folder"):
        stage.serve(UP, folder=mine)

    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    assert (mine / "server.log").read_text() == "an earlier start\n"


def test_a_command_without_a_server_is_rejected(stage: Stage) -> None:
    """In one line."""
    two = ["bash", "-c", "vllm serve a; vllm serve b"]
    for command in (["echo", "vllm serve m"], ["vllm", "bench", "latency"], two):
        with pytest.raises(InputError, match="use the command of one server"):
            serve.subject(command, vllm="0.32.0")
    with pytest.raises(InputError, match="no such command"):
        stage.serve(UP, command=["/nowhere/vllm", "serve", "tiny", "--port", str(stage.port)])


@pytest.mark.slow
def test_a_key_echoed_by_the_server_is_hidden(stage: Stage) -> None:
    """In its log and answers, which are printed and reported; the unchanged log is private.

    A key that is printed before the log names it is hidden in the records.
    """
    key, late = "hunter2xyzQ9", "Later8QzP3xW"
    stage.setenv("VLLM_API_KEY", key)
    for name, line in (("log", f"calling with {key}"), ("late", f"api_key={late}")):
        (stage.folder / name).write_text(f"INFO 11-21 08:00:00 [x.py:1] {line}\n")
    refused = {"/v1/completions": [400, {"error": {"message": f"{key} of {late} may not complete"}}]}
    up, calm = {"serve": refused}, {"sleep": scaled(1.4)}
    steps = [{"print": str(stage.folder / "log")}, up, calm, {"print": str(stage.folder / "late")}, {"exit": 1}]
    found = stage.serve(steps, folder=stage.folder / "mine")
    case = stage.folder / "case"
    recording.record_last_try(found, case, say=stage.said.append)

    texts = [path.read_text() for path in (*case.iterdir(), stage.folder / "mine" / "report.json")]
    texts += [render.to_json(found), render.guarded.text(found), str(found)]
    assert not [text for text in texts if late in text]
    texts += [*stage.said, stage.shown.decode()]
    assert not [text for text in texts if key in text]
    assert "may not complete" in found.attempts[0].health_checks[-1].message
    assert "calling with [secret" in "".join(texts)
    assert json.loads((stage.folder / "mine" / "report.json").read_text())["id"] == found.id
    kept = [path for path in (stage.folder / "mine").iterdir() if path.is_file()]
    assert {path.name for path in kept} >= {"server.log", "command.sh", "report.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_a_script_is_recorded_as_diagnosed(stage: Stage) -> None:
    """Not the command that runs it; secrets are replaced, and its leftovers are tracked."""
    script = stage.folder / "launch.sh"
    text = f"#!/bin/bash\nexport HF_TOKEN=hf_Zk3PqW9xLm2RtY7uB4vNAbCdEf\nexec vllm serve tiny --port {stage.port}\n"
    script.write_text(text)
    (stage.folder / "log").write_text("INFO 11-21 08:00:00 [x.py:1] vLLM API server version 0.32.0\n")
    asked = {"command": ["bash", str(script)], "left_out": ("model", "command", "plan")}
    steps = [{"print": str(stage.folder / "log")}, {"exit": 1}]
    found = stage.serve(steps, folder=stage.folder / "mine", **asked)
    (record,) = places.starts().iterdir()

    assert serve.evidence(found).command == text.replace("hf_Zk3PqW9xLm2RtY7uB4vNAbCdEf", "[secret-1]")
    assert [path.name for path in record.iterdir()] == [leftovers.RECORD]
    assert leftovers.is_over(record) is False  # the guard of this test is this process
    assert "last launch" not in str(durations.usual(found.attempts[0].command, places.starts()))


@pytest.mark.usefixtures("stage")
def test_old_launches_are_removed() -> None:
    """Those with a report, and those with only a record whose supervisor has ended."""
    for number in range(places.MOST + 3):
        old = places.starts() / f"{number:03}"
        old.mkdir(parents=True)
        (old / leftovers.RECORD).write_text(leftovers.written(f"{number}", 2**22 + 1, {}))
    alive = places.starts() / "000" / leftovers.RECORD
    alive.write_text(leftovers.written("0", os.getpid(), {}))
    places.make(places.starts() / "new")

    assert len([*places.starts().iterdir()]) == places.MOST + 2
    assert alive.is_file()


def test_a_locked_gpu_is_a_failed_check(stage: Stage) -> None:
    """With its report and status; `--check` does not wait, and names the owner."""
    with card_locks.held(["GPU-1"], wait_s=0, told=lambda *_: None):
        found = stage.serve(UP, source=race(stage.folder, [(0, 1000)]), wait_s=0.2, left_out=("model", "plan"))
        looked = stage.serve(UP, source=race(stage.folder, [(0, 1000)]), is_check=True, left_out=("model", "plan"))
        (stage.folder / "locks" / "GPU-1.lock").write_text("4711 1")
        elsewhere = card_locks.holders(["GPU-1"])
    free = card_locks.holders(["GPU-1"])

    check = found.checks[-1]
    assert (check.name, check.result, found.status, found.attempts) == ("lock", LaunchResult.FAILED, 1, ())
    assert f"process {os.getpid()} has been starting on it" in check.message
    assert json.loads((Path(found.folder or "") / "report.json").read_text())["status"] == 1
    assert stands(stage, "--skip lock launches anyway")
    results = {check.name: check.result for check in looked.checks}
    assert (results["lock"], results["memory"], looked.status) == (LaunchResult.UNKNOWN, LaunchResult.PASSED, 0)
    assert (elsewhere, free) == ({"GPU-1": "process 4711 of another container"}, {})


@pytest.mark.parametrize(
    ("more", "result"),
    [
        ((), LaunchResult.FAILED),
        (("--skip-tokenizer-init",), LaunchResult.PASSED),
        (("--tokenizer", "other"), LaunchResult.PASSED),
    ],
)
def test_a_cached_model_needs_the_files_of_the_command(
    tmp_path: Path, more: tuple[str, ...], result: LaunchResult
) -> None:
    """A tokenizer, unless another one is given or none is used."""
    place = tmp_path / "hub" / "models--a--b"
    model = place / "snapshots" / "1"
    model.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("1")
    (model / "config.json").write_text('{"model_type": "llama"}')
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = ["vllm", "serve", "a/b", "--load-format", "dummy", *more]
    given = serve.subject(command, vllm="0.32.0", environment=environment)
    others = [name for name in preflight.NAMES if name != "model"]
    lock = Check("lock", LaunchResult.PASSED, "")
    made = preflight.checks(
        given,
        LaunchHost(None, "", (), None),
        steady=serve.Steady(),
        left_out=others,
        say=print,
        lock=lambda: lock,
        is_cancelled=lambda: False,
    )

    assert next(check.result for check in made if check.name == "model") is result


def failed(case: str, subject: ServedLaunch, gpus: str | None = None) -> Attempt:
    """A try that ended as a recorded case did."""
    log = str(folders.cases_dir() / case / "startup.log")
    evidence = Evidence(sources.load_files([log]).documents, vllm=subject.vllm, command=f"{subject.shown}\n")
    answer = diagnosing.diagnose(evidence, gpus=gpus)
    return Attempt(1, subject.shown, None, answer.outcome, None, 1.0, "ended", answer=answer)


def test_a_lost_race_is_run_again_as_often_as_tries_are_left() -> None:
    """It may be lost again; nothing is changed each time."""
    given = serve.subject(["vllm", "serve", "m"], vllm="0.32.0", environment={})
    tried = failed(RACE.parent.name, given)
    first = retries.next_change(tried, given, [], print)
    assert first is not None
    again = retries.next_change(tried, given, [first], print)

    assert (first.edits, again) == ((), first)


def test_the_installed_release_checks_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change that its parser rejects is not tried; a parser that cannot run is ignored."""
    for name, text in _MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "vllm"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    case = folders.cases_dir() / "autoglm-3090-video-oom" / "command.sh"
    lines = [line for line in case.read_text().splitlines() if not line.startswith("#")]
    words = tuple(shlex.split("\n".join(lines).replace("\\\n", " ")))
    given = ServedLaunch(words, {"PATH": str(program.parent)}, "0.16.0", is_installed=True)
    tried = failed(case.parent.name, given, "RTX3090")
    not_asked = retries.next_change(tried, ServedLaunch(words, given.environment, "0.16.0"), [], print)
    without = retries.next_change(tried, given, [], print)
    said = capsys.readouterr().out
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    refused = retries.next_change(tried, given, [], print)

    assert not_asked is not None
    assert (without, refused) == (not_asked, None)
    assert "did not validate a change" in said
    assert f"not tried: {not_asked.title}: vLLM 9.9.9 rejects it" in capsys.readouterr().out


def test_a_container_has_its_own_environment_and_port() -> None:
    """Only passed variables come from this host; keys of either are hidden."""
    host = {"VLLM_API_KEY": "host-hunter2", "CUDA_VISIBLE_DEVICES": "3", "PATH": "/bin"}

    def container(*options: str) -> ServedLaunch:
        words = ["docker", "run", *options, "vllm/vllm-openai:v0.11.0", "--model", "m"]
        return serve.subject(words, environment=host)

    own = container("-e", "VLLM_API_KEY=theirs", "-p", "127.0.0.2:9000:8000/tcp", "-p9001:8001")
    handed_on = container("--env", "VLLM_API_KEY", "--publish=9000:8000")
    bare = container("--gpus", "device=1,2", "-p", "9000-9009:8000-8009")

    assert [one.target.key for one in (own, handed_on, bare)] == ["theirs", "host-hunter2", None]
    assert [one.target.place for one in (own, handed_on, bare)] == [
        "http://127.0.0.2:9000", "http://127.0.0.1:9000", "http://127.0.0.1:8000",
    ]  # fmt: skip
    assert [one.visible for one in (own, bare)] == [None, "1,2"]
    assert "PATH" not in own.variables
    assert "host-hunter2" in bare.known


def test_a_published_address_that_is_unknown_is_this_host(tmp_path: Path) -> None:
    """That of a variable; of a range of ports Docker chooses one."""
    script = tmp_path / "run.sh"
    script.write_text("docker run -p ${ADDRESS}:9000:8000 vllm/vllm-openai:v0.11.0 --model m\n")
    words = ["docker", "run", "-p", "9000-9009:8000", "vllm/vllm-openai:v0.11.0", "--model", "m"]
    assert serve.subject([str(script)]).target.place == "http://127.0.0.1:9000"
    assert serve.subject(words).target.place == "http://127.0.0.1:8000"


class Card:
    """A GPU with memory used by others, under the host's process numbers."""

    says = "told by the test"

    def __init__(self, *, is_of_host: bool, is_mig: bool = False) -> None:
        self.used, self.is_of_host, self.is_mig = 0.0, is_of_host, is_mig

    def read(self) -> gpu_memory.MemoryReading:
        """One more GiB each time."""
        self.used += 1024
        holder = GpuProcess(os.getpid(), command="python", used_mib=self.used, is_host_pid=self.is_of_host)
        card = GpuFacts(0, "A", "GPU-1", 81920, used_mib=self.used, processes=(holder,), is_mig=self.is_mig)
        return gpu_memory.MemoryReading(0, (card,))


@pytest.mark.parametrize(("is_of_host", "sightings"), [(False, 1), (True, 0)])
def test_process_numbers_of_the_host_are_unknown_in_a_container(is_of_host: bool, sightings: int) -> None:  # noqa: FBT001
    """They are labelled, and not compared with the launch's own."""
    given = serve.subject(["vllm", "serve", "m"], vllm="0.32.0", environment={})
    host = LaunchHost(Card(is_of_host=is_of_host), "", (0,), None)
    neighbours = Neighbours(host, 0, 64)
    seen = [*neighbours.look([], 0), *neighbours.look([], 9)]
    check = preflight.memory(given, host, serve.Steady(2, 0, 64, 0), print, lambda: False)

    assert len(seen) == sightings
    assert (f"process {os.getpid()} of the host (python)" in check.message) is is_of_host
    assert f"process {os.getpid()} (python)" not in check.message


def test_neighbours_that_are_temporarily_unknown_freed_nothing(tmp_path: Path) -> None:
    """A sample without processes is skipped; the next is compared with the last complete one."""

    def line(at_s: float, processes: list[dict[str, Any]] | None) -> str:
        return json.dumps({"at_s": at_s, "gpus": [{"index": 0, "processes": processes}]}) + "\n"

    held = [{"pid": 2**22 + 5, "used_mib": 4096}]
    path = tmp_path / "series.jsonl"
    path.write_text(line(0, held) + line(1, None) + line(2, held) + line(3, []), "utf-8")
    clock = iter((0.0, 1.0, 2.0, 3.0))
    neighbours = Neighbours(LaunchHost(gpu_memory.Recorded(path, lambda: next(clock)), "", (0,), None), 0, 64)

    seen = [neighbours.look([], now) for now in (0.0, 1.0, 2.0, 3.0)]

    assert [[one.kind for one in each] for each in seen] == [[], [], [], ["memory-released"]]


def test_a_shared_memory_segment_is_searched_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unused one costs nothing after a while; new and soon mapped ones are found."""
    monkeypatch.setattr(leftovers, "SHARED", tmp_path)
    asked = 0

    class Processes(list[int]):
        def __iter__(self) -> Any:
            nonlocal asked
            asked += 1
            return super().__iter__()

    def mapped(name: str) -> mmap.mmap:
        with (tmp_path / name).open("r+b") as file:
            return mmap.mmap(file.fileno(), 16)

    for name in ("psm_00000001", "psm_00000002"):
        (tmp_path / name).write_bytes(bytes(16))
    segments, own = Segments(), Processes([os.getpid()])
    looks = [segments.look(own, at) for at in range(20)]
    with mapped("psm_00000001"):
        segments.look(own, 20)
    for at in range(25, 1000, 5):
        segments.look(own, at)
    before = asked
    (tmp_path / "psm_00000003").write_bytes(bytes(16))
    with mapped("psm_00000003"):
        segments.look(own, 1000)

    assert looks.count(True) == 4
    assert before < 30
    assert asked == before + 1
    assert segments.own.keys() == {"psm_00000001", "psm_00000003"}


def test_shared_memory_of_an_ended_launch_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what its own processes created, and nothing that is still open or was there before."""
    monkeypatch.setattr(leftovers, "SHARED", tmp_path)
    names = ["psm_00000001", "psm_00000002", "psm_00000003", "psm_00000004"]
    earlier, closed, still_open, foreign = (tmp_path / name for name in names)
    earlier.write_bytes(bytes(16))
    segments = Segments()
    for path in (closed, still_open, foreign):
        path.write_bytes(bytes(16))
    with contextlib.ExitStack() as opened:
        for path in (earlier, closed, still_open):
            file = opened.enter_context(path.open("r+b"))
            segment = mmap.mmap(file.fileno(), 16)
            opened.callback(segment.close)
            if path == closed:
                first = segment
        segments.look([os.getpid()], 0.0)
        first.close()
        segments.remove()

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(set(names) - {closed.name})


def test_a_log_is_not_parsed_once_the_server_is_ready(tmp_path: Path) -> None:
    """It is kept and shown to its end."""
    shown, told = list[bytes](), list[Any]()
    lines = SERVED.read_bytes().splitlines(keepends=True)
    log = Log(tmp_path / "log", RedactedOutput(shown.append, known=""), told.append)
    for line in lines[: len(lines) // 2]:
        log.take(line)
    log.read_no_more()
    for line in lines[len(lines) // 2 :]:
        log.take(line)
    log.close()

    assert (tmp_path / "log").read_bytes() == SERVED.read_bytes()
    assert b"".join(shown).count(b"\n") == len(lines)
    assert told[-1].last_line <= len(lines) // 2


def test_a_log_is_kept_as_it_is_and_shown_without_control_characters(tmp_path: Path) -> None:
    """A server can't set the terminal's title or reorder its text; colors stay."""
    shown = list[bytes]()
    raw = b"\x1b[32mready\x1b[0m\x1b]0;mine\x07 \xe2\x80\xaegnp.exe \x9b2J\r\n"
    log = Log(tmp_path / "log", RedactedOutput(shown.append, known=""), list[Any]().append)
    log.take(raw)
    log.close()

    assert (tmp_path / "log").read_bytes() == raw
    assert shown == [b"\x1b[32mready\x1b[0m\\x1b]0;mine\\x07 \\u202egnp.exe \\x9b2J\r\n"]


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (["stopped: VLLM::Worker (process 7) is stopped by a signal"], Outcome.HUNG),
        (["idle: no activity and no output for 30 s"], Outcome.HUNG),
        (["idle: no activity", "goes-on: running again after 9 s"], Outcome.UNKNOWN),
        (["idle: no activity", "goes-on: running again", "idle: no activity"], Outcome.HUNG),
    ],
)
def test_an_observed_hang_is_reported(seen: list[str], outcome: Outcome) -> None:
    """One line is enough after its duration; progress withdraws it."""
    log = "".join(f"[vllm-runbooks] after {at}.0 s phase=load {each}\n" for at, each in enumerate(seen, 40))

    assert diagnosing.diagnose(Evidence((Document("guard.log", log),))).outcome is outcome


@pytest.mark.slow
def test_a_server_that_dies_while_serving_is_a_failure(stage: Stage) -> None:
    """For any exit status, so that a unit restarts it. The process that ended first is named."""
    log = folders.cases_dir() / "tiny-cpu-worker-killed-serving" / "startup.log"
    dies = [*UP, {"child": "VLLM::Worker", "pid_file": str(stage.folder / "pid")}, {"serve": {}}, {"sleep": 1.5}]
    dies += [{"kill": str(stage.folder / "pid")}, {"sleep": 0.6}, {"print": str(log), "from": "died unexpectedly"}]
    found = stage.serve([*dies, {"exit": 0}])

    assert found.attempts[0].ready_s is not None
    assert found.attempts[0].status == 0
    assert found.status == 1
    assert [seen.kind for seen in found.attempts[0].events] == ["gone"]
    assert found.attempts[0].events[0].process == "VLLM::Worker"


def test_checks_alone_store_nothing(stage: Stage) -> None:
    """The findings are printed; logs of real launches are kept."""
    found = stage.serve(UP, is_check=True)

    assert found.folder is None
    assert not places.starts().exists()


def test_a_context_from_vllms_message_is_tried_without_a_plan() -> None:
    """The message has the longest context that fits; other fixes need a plan."""
    given = serve.subject(["vllm", "serve", "m", "--max-model-len", "4000000"], vllm="0.32.0", environment={})
    tried = failed("tiny-cpu-context-too-long", given)
    assert tried.answer is not None
    change = retries.next_change(tried, given, [], print)
    assert change is not None
    none = retries.next_change(tried, given, [change], print)

    assert {remedy.checks.plan for remedy in tried.answer.remedies if remedy.edits}.isdisjoint({"passed"})
    assert [edit.name for edit in change.edits] == ["max_model_len"]
    assert none is None
    assert "(model /models/bigctx is not in the catalog" in retries.why_none(tried)


def test_a_fix_is_planned_with_the_models_own_folder(tmp_path: Path) -> None:
    """If the user may read it; another user's log cannot choose the folder."""
    model = tiny_models.write(tmp_path / "model", max_position_embeddings=8_000_000)
    log = (folders.cases_dir() / "tiny-cpu-context-too-long" / "startup.log").read_text()
    log = log.replace("'enforce_eager': True,", "'enforce_eager': True, 'gpu_memory_utilization': 0.03,")
    evidence = Evidence((Document("a.log", log),), vllm="0.32.0", command="vllm serve x --max-model-len 4000000\n")
    plain = diagnosing.diagnose(evidence, gpus="A100-80GB")
    own = diagnosing.diagnose(evidence, gpus="A100-80GB", model=lambda: planner.model(str(model)))

    assert next(each.checks.plan for each in plain.remedies if each.edits).startswith(
        "unknown: model /models/bigctx is not in the catalog"
    )
    assert next(each.checks.plan for each in own.remedies if each.edits) == "passed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bash", "nosuch.sh"], "nosuch.sh: no such script; check its name"),
        (["nosuchcmd", "serve"], "nosuchcmd: no such command; check its name and PATH"),
    ],
)
def test_a_missing_program_is_named(words: list[str], said: str) -> None:
    """A script or a program."""
    with pytest.raises(InputError, match=said):
        serve.subject(words, vllm="0.32.0")


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("exec vllm serve m\n", "0.16.0"),
        ("A=1 vllm serve m\n", "0.16.0"),
        (". venv/bin/activate\nvllm serve m\n", None),
        ("PATH=/opt/bin:$PATH\nvllm serve m\n", None),
        ("/opt/vllm serve m\n", None),
    ],
)
def test_a_scripts_release_is_that_of_the_path(tmp_path: Path, text: str, release: str | None) -> None:
    """Unless the script uses another one; also with `env`."""
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho 0.16.0\n")
    program = tmp_path / "vllm"
    program.write_text(f"#!{python}\n")
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/bash\n{text}")
    for each in (python, program):
        each.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    assert serve.subject(["bash", str(script)], environment=environment).vllm == release
    assert serve.subject(["env", "A=1", "vllm", "serve", "m"], environment=environment).vllm == "0.16.0"


def test_a_killed_supervisor_is_not_an_invalid_command() -> None:
    """Its processes ended, and the reason is printed."""
    with SupervisedCommand(["sleep", "60"]) as running:
        os.kill(running.pid, signal.SIGKILL)
        list(running.chunks())

    assert running.status is None
    assert running.ending == "was stopped when its supervisor was killed"


@pytest.mark.parametrize("visible", ["-1", "", "NoDevFiles", "MIG-4f0c"])
def test_hidden_gpus_are_not_checked(visible: str) -> None:
    """As for a server on a CPU; a part of a GPU is not read."""
    given = serve.subject(["vllm", "serve", "m"], vllm="0.32.0", environment={"CUDA_VISIBLE_DEVICES": visible})
    host = preflight.host_of(given, Card(is_of_host=False), "", None)
    check = preflight.memory(given, host, serve.Steady(2, 0, 64, 0), print, lambda: False)

    assert (host.numbers, check.result) == ((), LaunchResult.UNKNOWN)


def test_a_mig_gpu_is_not_checked_as_a_whole() -> None:
    """Its memory is that of all its parts."""
    given = serve.subject(["vllm", "serve", "m"], vllm="0.32.0", environment={})
    check = preflight.memory(
        given, LaunchHost(Card(is_of_host=False, is_mig=True), "", (0,), None), serve.Steady(), print, bool
    )

    assert check.result is LaunchResult.UNKNOWN
    assert "MIG" in check.message


def test_a_cancelled_launch_stops_waiting(stage: Stage) -> None:
    """For memory or a lock, and nothing is launched."""
    moving = race(stage.folder, [(n / 10, 9000 + 500 * (n % 2)) for n in range(100)])
    found = stage.serve(UP, source=moving, wait_s=60.0, left_out=("model", "plan"), is_cancelled=lambda: True)
    with card_locks.held(["GPU-1"], wait_s=0, told=print):
        still = race(stage.folder, [(0, 0)])
        other = stage.serve(UP, source=still, wait_s=60.0, left_out=("model", "plan"), is_cancelled=lambda: True)

    assert (found.attempts, found.checks[-1].name, found.status) == ((), "memory", 1)
    assert (other.attempts, other.checks[-1].name, other.status) == ((), "lock", 1)


def test_every_check_can_be_skipped_by_name() -> None:
    """The command line has the names without importing the checks."""
    assert cli_serve._CHECKS == starting_nodes.NAMES == ("nodes", *preflight.NAMES)
