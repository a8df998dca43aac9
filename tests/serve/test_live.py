"""Real vLLM on a CPU: launched, provoked, diagnosed by its log, and launched with the fix."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import provoke
import set_up
import states
import tiny_models
from ports import free_port
from provoke import Failure

LIVE = set_up.place()  # read here: tests have their own cache folder
SEED = 20261121
_A_PART = {"engine": 1, "killed": 1}
"""How many of each group are tried without `-m full`."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it"),
]


def rows() -> list[object]:
    """Every failure: some of each group are slow, the others full."""
    draw = random.Random(SEED)  # noqa: S311 - drawn to be repeated
    every = provoke.failures()
    chosen = {
        one.id
        for group, count in _A_PART.items()
        for one in draw.sample([each for each in every if each.group == group], count)
    }
    marks = {True: pytest.mark.slow, False: pytest.mark.full}
    return [pytest.param(one, id=one.id, marks=marks[one.id in chosen]) for one in every]


@pytest.mark.parametrize("failure", rows())
def test_a_provoked_failure_is_diagnosed_by_its_log(failure: Failure, tmp_path: Path) -> None:
    """As predicted before its first run."""
    folder = tmp_path / failure.id
    folder.mkdir()
    found = provoke.provoke(failure, folder, live=LIVE)

    assert found.class_ in failure.accept, (found.class_, (folder / "server.log").read_text("utf-8")[-3000:])


@pytest.mark.slow
def test_supervision_costs_little(tmp_path: Path) -> None:
    """Until ready at most 5 % of the server's processor time; deliberate waits are reported."""
    healthy = Failure("healthy", "none", [])
    (tmp_path / "healthy").mkdir()
    found = provoke.provoke(healthy, tmp_path / "healthy", live=LIVE)
    report = json.loads((found.folder / "report.json").read_text("utf-8"))

    assert report["attempts"][0]["ready_s"] is not None
    print(f"guard {report['cpu_s']:.2f} CPU s, server {report['server_cpu_s']:.2f} CPU s until ready")
    assert report["cpu_s"] <= 0.05 * report["server_cpu_s"]


STOPS = [
    ("configure", "configure: began", "vllm"),
    ("engine", "engine: began", "EngineCore"),
    ("load", "load: began", "Worker_TP1"),
    ("kv_cache", "kv_cache: began", "Worker_TP1"),
    ("serve", "ready after", "Worker_TP0"),
]
"""Phase, the supervisor's message at its begin, and the title of the stopped process."""


@pytest.mark.full
def test_a_stopped_rank_and_a_slow_launch_are_distinguished_in_every_phase(tmp_path: Path) -> None:
    """Within ten seconds, with phase and process; the launch continues with the process."""
    model = tiny_models.write(
        tmp_path / "wide",
        hidden_size=1024,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=4096,
        num_hidden_layers=16,
    )
    port, said = free_port(), tmp_path / "said"
    guard = [sys.executable, "-m", "vllm_runbooks", "serve", "--dir", str(tmp_path / "start"), "--skip", "model", "--"]
    # Random weights of this size take some seconds: long enough to be met in the phase.
    server = ["vllm", "serve", str(model), "--load-format", "dummy", "--enforce-eager", "-tp", "2", "--port", str(port)]
    environment = {**provoke.environment(LIVE), "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    with said.open("wb") as file:
        process = subprocess.Popen([*guard, *server], env=environment, stdout=subprocess.DEVNULL, stderr=file)
    try:
        for number, (phase, words, title) in enumerate(STOPS, 1):
            assert provoke.until_said(process, said, words, every_s=0.01), said.read_text()[-2000:]
            stopped = provoke.signalled(process.pid, title, signal.SIGSTOP)
            began = time.monotonic()
            try:
                assert provoke.until(process, partial(_is_told, said, "stopped by a signal", number))
                lines = _unwrapped(said).splitlines()
                place = max(at for at, each in enumerate(lines) if "stopped by a signal" in each)
                line, took = lines[place], time.monotonic() - began
                # A phase may end before the signal arrives on a fast machine: the next one is then
                # reported.
                begun = [match[1] for each in lines[:place] if (match := re.search(r"(\w+): began", each))]
                assert f"{begun[-1]}: " in line, (begun, line)
                assert phase in begun, (phase, begun)
                assert f"(process {stopped.pid})" in line
                assert took < 10, line
                print(f"{line} told after {took:.1f} s")
            finally:
                stopped.send_signal(signal.SIGCONT)
            assert provoke.until(process, partial(_is_told, said, "running again after", number))
    finally:
        provoke.end(process)
    report = json.loads((tmp_path / "start" / "report.json").read_text("utf-8"))

    assert report["attempts"][0]["ready_s"] is not None
    kinds = [seen["kind"] for seen in report["attempts"][0]["events"]]
    assert kinds == ["stopped", "goes-on"] * len(STOPS)


def _is_told(said: Path, words: str, times: int) -> bool:
    return _unwrapped(said).count(words) >= times


def _unwrapped(said: Path) -> str:
    """What the supervisor said, each message in one line."""
    return said.read_text().replace("\n  ", " ")


def _run(notebook: str, out: Path, **given: object) -> str:
    """Run a runbook live on this host and return its output."""
    command = [sys.executable, "-m", "vllm_runbooks", "run", notebook, "--out", str(out)]
    for name, value in {"live": "true", **given}.items():
        command += ["-p", name, f"{value}"]
    done = subprocess.run(
        command,
        env={**os.environ, **provoke.environment(LIVE)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def _served(tmp_path: Path, *more: str) -> str:
    model = tiny_models.write(tmp_path / "model")
    port = str(free_port())
    return shlex.join(["vllm", "serve", str(model), "--enforce-eager", "--host", "127.0.0.1", "--port", port, *more])


@pytest.mark.full
def test_a_context_that_does_not_fit_is_fixed_and_verified(tmp_path: Path) -> None:
    """A KV cache too small for the context: before, change, after, no symptom."""
    model = tiny_models.write(tmp_path / "model", max_position_embeddings=8_000_000)
    words = ["vllm", "serve", str(model), "--enforce-eager", "--max-model-len", "8000000"]
    command = shlex.join([*words, "--host", "127.0.0.1", "--port", str(free_port())])
    told = _run("single-gpu-oom", tmp_path / "out", serve=command, apply="true")
    report = json.loads((tmp_path / "out" / "single-gpu-oom.steps" / "apply" / "report.json").read_text())

    assert told.startswith("0 PASS single-gpu-oom: "), told
    assert "gone after the change" in told
    assert report["attempts"][0]["change"]["edits"][0]["name"] == "max_model_len"


@pytest.mark.full
def test_two_settings_of_one_model_are_measured_and_compared(tmp_path: Path) -> None:
    """One after the other, with the same load by vLLM's own client; logs, results and cases stay."""
    command = _served(tmp_path, "--max-model-len", "512")
    told = _run("gpt-oss-gemma-a100", tmp_path / "out", serve=command, setting="--max-num-seqs 1", requests=16)
    steps = tmp_path / "out" / "gpt-oss-gemma-a100.steps"

    assert told.startswith("0 PASS gpt-oss-gemma-a100: both were ready and answered the load: "), told
    for step in ("first", "second"):
        assert {"server.log", "bench.log", "commands.jsonl", "report.json", "case"} <= {
            path.name for path in (steps / step).iterdir()
        }
    rates = [json.loads((steps / step / "bench.json").read_text())["output_throughput"] for step in ("first", "second")]
    assert rates[0] > 1.2 * rates[1], "eight at once are faster than one"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx (Debian: nginx-light)")
def test_replicas_behind_a_proxy_and_a_split_server_take_effect(tmp_path: Path) -> None:
    """Two servers behind real nginx, then tensor parallelism of 2, by vLLM's log lines."""
    command = _served(tmp_path, "--max-model-len", "512")
    told = _run("split-over-8x3090", tmp_path / "out", serve=command, requests=16)
    steps = tmp_path / "out" / "split-over-8x3090.steps"
    copied = json.loads((steps / "copies.json").read_text())["result"]

    assert told.startswith("0 PASS split-over-8x3090: 2 replicas behind one address answered 16 of 16 requests"), told
    assert sum(copied["answered"]) == 16
    assert all(copied["answered"])
    assert "rank 0 in world size 2 is assigned as" in (steps / "split" / "server.log").read_text()


@pytest.mark.full
def test_a_probe_proves_each_state_of_a_server(tmp_path: Path) -> None:
    """The eight of states.yaml as predicted; the key is in no output."""
    wrong = []
    for state, found in states.every(tmp_path, live=LIVE):
        print(f"{state.id}: {found.answer['reason']}")
        if not states.is_right(state, found):
            wrong.append((state.id, found.answer["reason"]))
        assert states.KEY not in found.printed, state.id

    assert wrong == []
