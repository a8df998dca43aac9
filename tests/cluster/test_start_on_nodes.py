"""Real vLLM over two network namespaces, launched by the generated scripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import namespaces
import provoke
import set_up
import tiny_models
from namespaces import Ring
from pace import scaled

LIVE = set_up.place()  # read here: tests have their own cache folder
READY_S = 300
GONE_S = 5
pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not set_up.is_ready(LIVE), reason="vLLM is not set up: python tests/live/set_up.py does it"),
    pytest.mark.skipif(bool(namespaces.why_not()), reason=f"no network namespaces here: {namespaces.why_not()}"),
]


def asked(ring: Ring, host: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The output of curl on a host, without a proxy."""
    return ring.run(host, ["curl", "-sS", "-m", "60", "--noproxy", "*", *words], capture_output=True, text=True)


@pytest.mark.full
def test_two_nodes_serve_one_model_with_the_generated_files(tmp_path: Path) -> None:
    """TP 2 over both: ready, key required, answered, and no process left after the scripts."""
    model = tiny_models.make(tmp_path, "llama")
    with Ring(2) as ring:
        first, second = ring.hosts
        nodes = [
            {"name": host, "kind": "node", "inventory": {"kind": "inventory", "packages": {"vllm": "0.32.0"}}}
            for host in ring.hosts
        ]
        snapshot = tmp_path / "nodes.json"
        snapshot.write_text(json.dumps({"schema": 2, "kind": "cluster", "nodes": nodes}))
        placed = [
            word
            for host in ring.hosts
            for word in ("--address", f"{host}={ring.address(host)}", "--interface", f"{host}=v0")
        ]
        command = [
            *(sys.executable, "-P", "-m", "vllm_runbooks", "cluster", "files", str(model), "--nodes", str(snapshot)),
            *("--gpus", f"RTX3090@{first},RTX3090@{second}", "--tp", "2", "--max-model-len", "512"),
            *("--enforce-eager", "--served-model-name", "tiny", "--env", "VLLM_CPU_OMP_THREADS_BIND=0"),
            *(*placed, "--master-port", "29711", "--port", "8181", "--out", str(tmp_path / "files")),
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
        environment = {**provoke.environment(LIVE), "VLLM_API_KEY": "sk-of-this-test"}
        scripts = [
            ring.start(host, ["bash", f"start-{host}.sh"], environment=environment, cwd=tmp_path / "files")
            for host in ring.hosts
        ]
        place = f"http://{ring.address(first)}:8181"
        until = time.monotonic() + scaled(READY_S)
        while asked(ring, first, "-f", f"{place}/health").returncode and time.monotonic() < until:
            assert all(script.poll() is None for script in scripts), (tmp_path / "files" / "steps.txt").read_text()
            time.sleep(2)
        body = json.dumps({"model": "tiny", "prompt": "a b", "max_tokens": 8})
        answer = asked(
            ring,
            second,
            *("-H", "Authorization: Bearer sk-of-this-test", "-H", "Content-Type: application/json", "-d", body),
            f"{place}/v1/completions",
        )
        refused = asked(ring, second, "-o", "/dev/null", "-w", "%{http_code}", f"{place}/v1/models")
        logs = {host: (tmp_path / "files" / f"vllm-8181-{host}.log").read_text("utf-8") for host in ring.hosts}
        for script in scripts:
            os.kill(script.pid, signal.SIGTERM)
        statuses = [script.wait(60) for script in scripts]
        # A worker that learns of its parent's end needs time to exit.
        until = time.monotonic() + scaled(GONE_S)
        while any(map(ring.pids, ring.hosts)) and time.monotonic() < until:
            time.sleep(0.1)
        left = [ring.pids(host) for host in ring.hosts]

    assert json.loads(answer.stdout)["usage"]["completion_tokens"] == 8
    assert refused.stdout == "401"
    for rank, host in enumerate((first, second)):
        assert (
            f"rank {rank} in world size 2 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {rank},"
            in logs[host]
        )
    assert statuses == [143, 143]
    assert left == [[], []]
    assert "sk-of-this-test" not in "".join(path.read_text() for path in (tmp_path / "files").glob("*.sh"))
