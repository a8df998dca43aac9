"""Bring real servers into each state of states.yaml and have them probed: python tests/live/states.py [--keep DIR].

With --keep each observation is kept as a case, DIR/probe-<state>.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
import provoke
import set_up
import tiny_models
from pace import scaled
from ports import free_port

HERE = Path(__file__).resolve().parent
KEY = "sk-local-0123456789abcdef"
"""The made-up key of the server that requires one; it must be in no output."""
_VARIABLE = "PROBE_TEST_KEY"


@dataclass(frozen=True)
class State:
    """A row of states.yaml."""

    id: str
    server: str
    condition: str | None
    proof: str | None
    arguments: list[str] = field(default_factory=list)
    key: str | None = None


@dataclass(frozen=True)
class Probed:
    """The output of a probe."""

    status: int
    answer: dict[str, Any]
    printed: str


def states() -> list[State]:
    """All rows."""
    return [State(**row) for row in YAML(typ="safe").load(HERE / "states.yaml")]


@contextlib.contextmanager
def served(server: str, folder: Path, *, live: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A server of that name, until it is left: its port and its process."""
    port = free_port()
    if server == "other":
        command, environment = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)], dict(os.environ)
    else:
        # On two cores, the threads of several servers would block each other.
        environment = {**provoke.environment(live), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        environment["VLLM_KEEP_ALIVE_ON_ENGINE_DEATH"] = "1"
        variant = "llama-no-template" if server == "keyed" else "llama"
        model = tiny_models.make(live / "models", variant)
        words = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny", "--enforce-eager"]
        words += {
            "plain": ["--max-num-seqs", "4"],
            "keyed": ["--api-key", KEY],
            # Blocks of 128 tokens on a CPU: four are one request of 512 tokens, so two rarely run
            # concurrently. A
            # preemption is counted when the request that was preempted has its next token: the load must last for that.
            "tight": ["--max-model-len", "512", "--num-gpu-blocks-override", "6"],
        }[server]
        command = ["vllm", "serve", str(model), *words]
    with (folder / f"{server}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(process, port, server, folder)
        yield port, psutil.Process(process.pid)
    finally:
        below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        provoke.end(process)
        for one in below:
            with contextlib.suppress(psutil.Error):
                one.kill()


def _wait(process: subprocess.Popen[bytes], port: int, server: str, folder: Path) -> None:
    from vllm_runbooks.probe import asking, health_checks

    until = time.monotonic() + scaled(provoke.READY_S)
    while time.monotonic() < until and process.poll() is None:
        if asking.is_open(asking.Target(port=port)):
            rungs = list(health_checks.climb(asking.Target(port=port), patience_s=2)) if server == "plain" else []
            said = (folder / f"{server}.log").read_text("utf-8", "replace")
            if server == "other" or "Application startup complete" in said or any(r.name == "token" for r in rungs):
                return
        time.sleep(0.3)
    raise LookupError((folder / f"{server}.log").read_text("utf-8", "replace")[-3000:])


def probed(port: int, arguments: Sequence[str] = (), key: str | None = None) -> Probed:
    """The output of `vllm-runbooks probe` for the server at a port."""
    environment = {**os.environ, **({_VARIABLE: key} if key else {})}
    named = ["--key-env", _VARIABLE] if key else []
    command = [sys.executable, "-m", "vllm_runbooks", "probe", f"http://127.0.0.1:{port}", "--format", "json"]
    done = subprocess.run(
        [*command, *named, *arguments], env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    if done.returncode not in (0, 1):
        raise LookupError(done.stderr)
    return Probed(done.returncode, json.loads(done.stdout), done.stdout + done.stderr)


def every(
    folder: Path, *, live: Path, keep: Path | None = None, only: str | None = None
) -> Iterator[tuple[State, Probed]]:
    """Each state with its probe, from three vLLM servers."""
    rows = states()
    for server in ("plain", "keyed", "tight", "other"):
        if only not in (None, server):
            continue
        with served(server, folder, live=live) as (port, process):
            for state in (row for row in rows if row.server == server):
                yield state, _asked(state, port, keep)
            for state in (row for row in rows if row.server == "killed" and server == "plain"):
                engine = next(one for one in process.children(recursive=True) if "EngineCore" in "".join(one.cmdline()))
                engine.send_signal(signal.SIGKILL)
                time.sleep(1)
                yield state, _asked(state, port, keep)


def _asked(state: State, port: int, keep: Path | None) -> Probed:
    key = KEY if state.key == "right" else state.key
    kept = [] if keep is None else ["--record", str(keep / f"probe-{state.id}")]
    return probed(port, [*state.arguments, *kept], key)


def is_right(state: State, found: Probed) -> bool:
    """Whether the state was found with its proof."""
    cause = found.answer["cause"]
    if state.condition is None:
        return cause is None and found.status == 0
    proofs = [proof["health_check"] or proof["fact"] for proof in (cause or {}).get("proofs", ())]
    return found.status == 1 and cause is not None and cause["id"] == state.condition and state.proof in proofs


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep each observation as a case in this folder")
    parser.add_argument("--server", help="only the states of this one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for state, found in every(Path(folder), live=set_up.place(), keep=asked.keep, only=asked.server):
            said = "right" if is_right(state, found) else "WRONG"
            print(f"{said} {state.id}: {found.answer['reason']}", flush=True)


if __name__ == "__main__":
    main()
