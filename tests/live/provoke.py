"""Provoke a failure of failures.yaml with real, supervised vLLM, and print its diagnosis.

python tests/live/provoke.py [ID…] [--keep DIR]      one line each: class, whether it is accepted, seconds
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
import set_up
import tiny_models
from pace import scaled
from ports import free_port

HERE = Path(__file__).resolve().parent
SERVER = "vllm serve {model} --host {host} --port {port} --served-model-name tiny --enforce-eager"
"""The command of every failure, before its own options."""
READY_S = 120.0
_AFTER_S = 30.0
"""How long a server may continue after the provocation."""


@dataclass(frozen=True)
class Failure:
    """A row of failures.yaml."""

    id: str
    group: str
    accept: list[str]
    arguments: list[str] = field(default_factory=list)
    model: str = "llama"
    repository: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    then: dict[str, str] = field(default_factory=dict)
    port_taken: bool = False
    host: str = "127.0.0.1"
    shared_memory_mib: int | None = None


@dataclass(frozen=True)
class Provoked:
    """The result of a provocation."""

    class_: str | None
    symptom: str | None
    outcome: str
    seconds: float
    folder: Path
    report: Mapping[str, Any]


def failures() -> list[Failure]:
    """All rows."""
    return [Failure(**row) for row in YAML(typ="safe").load(HERE / "failures.yaml")]


def environment(live: Path) -> dict[str, str]:
    """Variables with which vLLM runs on a CPU, offline, and from which nothing of this process's own is inherited."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR", "XDG_STATE_HOME") if name in os.environ}
    return {
        **kept,
        "PATH": f"{live / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(live / "overlay"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


def provoke(failure: Failure, folder: Path, *, live: Path) -> Provoked:
    """Launch the server under supervision, apply the failure's action, and read the report.

    Args:
        failure: The failure to provoke.
        folder: For the log and the report.
        live: The environment with vLLM.
    """
    models = live / "models"
    tiny_models.make_adapter(models / "adapter-16", rank=16)
    model = failure.repository or str(tiny_models.make(models, failure.model))
    port = free_port()
    places = {"model": model, "models": str(models), "port": str(port), "other_port": str(free_port())}
    began = time.monotonic()
    with contextlib.ExitStack() as around:
        if failure.port_taken:
            other = around.enter_context(socket.socket())
            other.bind(("127.0.0.1", port))
            other.listen()
        command = _command(failure, places, folder)
        guard = [sys.executable, "-m", "vllm_runbooks", "serve", "--dir", str(folder), "--end-hung-after", "20"]
        for check in ("command", "model", "port"):
            guard += ["--skip", check]
        guard += ["--ready-within", str(READY_S), "--", *command]
        env = {**environment(live), **failure.environment, "PYTHONPATH": str(live / "overlay")}
        with (folder.parent / f"{failure.id}.said").open("wb") as said:
            process = subprocess.Popen(
                _confined(guard, failure.shared_memory_mib), env=env, stdout=subprocess.DEVNULL, stderr=said
            )
            around.callback(end, process)
            _meddle(failure, process, port, folder)
            process.wait(READY_S + 60)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    tried = report["attempts"][-1]
    answer = tried["answer"] or {}
    if (folder / "client.log").is_file():  # the client gets the error, the log only the status
        answer = _diagnosed(folder)
    # A rejected request is not the cause of a failure, but a hint unless no server could accept it.
    hints = answer.get("findings") or [{}] if failure.group == "requests" else [{}]
    cause = answer.get("root_cause") or hints[0]
    return Provoked(
        cause.get("class"), cause.get("symptom"), tried["outcome"], time.monotonic() - began, folder, report
    )


def _diagnosed(folder: Path) -> dict[str, Any]:
    """The diagnosis of the server's log and its answer."""
    command = [sys.executable, "-m", "vllm_runbooks", "diagnose", "--format", "json"]
    names = [str(folder / "server.log"), str(folder / "client.log")]
    told: dict[str, Any] = json.loads(subprocess.run([*command, *names], capture_output=True, check=False).stdout)
    return told


def _command(failure: Failure, places: Mapping[str, str], folder: Path) -> list[str]:
    if failure.script is not None:
        script = folder.parent / f"{failure.id}.sh"
        script.write_text(failure.script.format(**places), newline="")
        return ["bash", str(script)]
    words = [each.format(**places) for each in failure.arguments]
    return [*shlex.split(SERVER.format(**places, host=failure.host)), *words]


def _confined(command: list[str], shared_memory_mib: int | None) -> list[str]:
    """The command with a small private /dev/shm, if required."""
    if shared_memory_mib is None:
        return command
    mount = f"mount -t tmpfs -o size={shared_memory_mib}m tmpfs /dev/shm && exec {shlex.join(command)}"
    return ["unshare", "--mount", "sh", "-c", mount]


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
    if process.poll() is None:
        process.kill()
        process.wait()


def _meddle(failure: Failure, guard: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    """Apply the row's action to the server at its time."""
    said = folder.parent / f"{failure.id}.said"
    if not failure.then:
        if until_said(guard, said, "ready after") and guard.poll() is None:
            guard.terminate()  # it does not fail at all
        return
    if "request" in failure.then:
        if until(guard, lambda: "ready after" in said.read_text() or "not ready: token" in said.read_text()):
            (folder / "client.log").write_text(_request(failure.then["request"], port), "utf-8")
            time.sleep(2)
        if guard.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(5)
        if guard.poll() is None:
            guard.terminate()
        return
    phase, title = failure.then["phase"], failure.then["process"]
    marks = {"ready": "ready after", "engine": "engine: began", "load": "engine: began"}
    if not until_said(guard, said, marks[phase]):
        return
    number = getattr(signal, f"SIG{failure.then['signal']}")
    with contextlib.suppress(LookupError):
        signalled(guard.pid, title, number)
    if phase == "ready":
        with contextlib.suppress(OSError):
            _request("completion", port)
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_AFTER_S)


def signalled(guard: int, title: str, number: int) -> psutil.Process:
    """Send the signal to the process of this title, or to the API server, once it exists.

    Raises:
        LookupError: No such process.
    """
    deadline = time.monotonic() + scaled(READY_S)
    while time.monotonic() < deadline and psutil.pid_exists(guard):
        for one in _below(guard):
            with contextlib.suppress(psutil.Error):
                words = one.cmdline()
                is_server = title == "vllm" and any(word.endswith("bin/vllm") for word in words[:2])
                if words and (is_server or (title != "vllm" and title in words[0])):
                    one.send_signal(number)
                    return one
        time.sleep(0.02)
    raise LookupError(title)


def _below(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        yield from psutil.Process(pid).children(recursive=True)


def until_said(guard: subprocess.Popen[bytes], said: Path, words: str, every_s: float = 0.1) -> bool:
    """Whether the supervisor prints this."""
    return until(guard, lambda: words in said.read_text(), every_s)


def until(guard: subprocess.Popen[bytes], is_so: Callable[[], bool], every_s: float = 0.1) -> bool:
    """Whether this becomes true while the supervisor runs."""
    deadline = time.monotonic() + scaled(READY_S)
    while time.monotonic() < deadline and guard.poll() is None:
        if is_so():
            return True
        time.sleep(every_s)
    return bool(is_so())


def _request(kind: str, port: int) -> str:
    """The server's response as curl prints it."""
    chat = {"messages": [{"role": "user", "content": "Hello"}]}
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "completion": ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}),
        "long": ("/v1/completions", {"prompt": "a" * 400, "max_tokens": 4}),
        "chat": ("/v1/chat/completions", chat),
    }
    path, body = asked[kind]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    said = ""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("POST", path, json.dumps({"model": "tiny", **body}), {"Content-Type": "application/json"})
        said = connection.getresponse().read().decode("utf-8", "replace")
    connection.close()
    return f"{said}\n"


Row = TypeVar("Row", bound="HasId")


class HasId(Protocol):
    """A row with a name."""

    @property
    def id(self) -> str: ...


def requested(rows: Sequence[Row], description: str | None, result: str) -> Iterator[tuple[Row, Path]]:
    """The rows that the command line names, all if none, with a folder each; those with a result are left out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--keep", type=Path, metavar="DIR", help=f"keep all files; a row with {result} is left out")
    request = parser.parse_args()
    keep = request.keep or Path(tempfile.mkdtemp())
    for row in rows:
        folder = keep / row.id
        if (not request.ids or row.id in request.ids) and not (folder / result).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            yield row, folder


def main() -> None:
    """Run the command line."""
    right = tried = 0
    for failure, folder in requested(failures(), __doc__, "report.json"):
        try:
            found = provoke(failure, folder, live=set_up.place())
        except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
            print(f"ERROR {failure.id}: {type(error).__name__}: {error}", flush=True)
            tried += 1
            continue
        is_right = found.class_ in failure.accept
        tried, right = tried + 1, right + is_right
        print(
            f"{'right' if is_right else 'WRONG'} {failure.id}: {found.class_} ({found.outcome}), {found.seconds:.0f} s",
            flush=True,
        )
    print(f"{right} of {tried} right")


if __name__ == "__main__":
    main()
