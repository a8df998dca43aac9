"""Apply the first fix of each failure in fixes.yaml and ask the server: python tests/live/fixes.py [ID…] [--keep DIR].

launch.sh is launched with real vLLM and its log is diagnosed. The command of the first fix, or what its title
describes, replaces launch.sh; the fix works if the server then answers ask.sh.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
import provoke
import set_up
import tiny_models
from pace import scaled
from ports import free_port

HERE = Path(__file__).resolve().parent
_ASK = (
    "curl -sS --fail-with-body http://127.0.0.1:$port/v1/completions -H 'Content-Type:application/json'"
    ' -d \'{"model":"tiny","prompt":"Hello","max_tokens":4}\''
)
_READY = "Application startup complete"


@dataclass(frozen=True)
class FixedFailure:
    """A row of fixes.yaml."""

    id: str
    options: str = ""
    environment: str = ""
    script: str | None = None
    model: str = "llama"
    also: str | None = None
    port_taken: bool = False
    fix: Sequence[str] = ()
    title: str | None = None
    do: str | None = None
    another: str | None = None
    """Pattern of the fix that is offered first instead of the expected one, and works."""
    unproven: str | None = None
    ring: str = "full"


@dataclass(frozen=True)
class Proof:
    """What the first fix of a failure was, and whether it works."""

    id: str
    fails: bool
    class_: str | None = None
    title: str | None = None
    edits: Sequence[str] = field(default_factory=tuple)
    is_expected: bool = False
    applied: str | None = None
    """"command" if the diagnosis edited the command, "title" if the row carries out what the title describes."""
    works: bool = False
    seconds: float = 0.0


def rows() -> list[FixedFailure]:
    """All rows."""
    return [FixedFailure(**row) for row in YAML(typ="safe").load(HERE / "fixes.yaml")]


def prove(row: FixedFailure, folder: Path, *, live: Path) -> Proof:
    """Provoke the failure, diagnose it, apply the first fix and ask again.

    Args:
        row: The failure.
        folder: For scripts, models and logs.
        live: The environment with vLLM.
    """
    began = time.monotonic()
    places = _write(row, folder)
    with contextlib.ExitStack() as around:
        if row.port_taken:
            other = around.enter_context(socket.socket())
            other.bind(("127.0.0.1", int(places["port"])))
            other.listen()
        is_kept = (folder / "before.log").is_file()
        if not is_kept and _answers(folder, "before", live):
            return Proof(row.id, fails=False, seconds=time.monotonic() - began)
        answer = _diagnosed(folder)
        cause, first = answer.get("root_cause") or {}, next(iter(answer.get("remedies", ())), None)
        if first is None:
            return Proof(row.id, fails=True, class_=cause.get("class"), seconds=time.monotonic() - began)
        edits = [_edit_text(edit) for edit in first["edits"]]
        is_expected = _is_expected(row, first["title"], edits)
        applied = None
        if first["command"] is not None:
            applied = "command"
            (folder / "launch.sh").write_text(first["command"], "utf-8")
        elif is_expected and row.do is not None:
            applied = "title"
            subprocess.run(["bash", "-ec", _filled(row.do, places)], cwd=folder, check=True)
        works = applied is not None and _answers(folder, "after", live)
    return Proof(
        row.id, True, cause.get("class"), first["title"], edits, is_expected, applied, works, time.monotonic() - began
    )


def _write(row: FixedFailure, folder: Path) -> dict[str, str]:
    """Write models and scripts, and return the places that the row may name."""
    models = folder / "models"
    tiny_models.make_adapter(models / "adapter-16", rank=16)
    if row.also is not None:
        tiny_models.make(models, row.also)
    whole, model = tiny_models.make(models, "llama"), tiny_models.make(models, row.model)
    places = {"whole": str(whole), "model": str(model), "models": str(models), "host": "127.0.0.1"}
    places |= {"port": str(free_port()), "other_port": str(free_port())}
    words = [row.environment, provoke.SERVER, row.options]
    script = row.script or f"{' '.join(word for word in words if word)}\n"
    (folder / "launch.sh").write_text(_filled(script, places), "utf-8", newline="")
    asking = r"port=$(sed -nE 's/.*--port ([0-9]+).*/\1/p' launch.sh)"
    (folder / "ask.sh").write_text(f"{asking}\n{_ASK}\n", "utf-8")
    return places


def _filled(text: str, places: Mapping[str, str]) -> str:
    """The text with the places; other braces stay, as JSON has them."""
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    return text


def _answers(folder: Path, name: str, live: Path) -> bool:
    """Launch the server, and whether it answers; its log is NAME.log."""
    log = folder / f"{name}.log"
    # The worker runs in the engine's process: one import of vLLM less.
    environment = {**provoke.environment(live), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "launch.sh"], cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        is_ready = provoke.until(process, lambda: _READY in log.read_text("utf-8", "replace"), every_s=0.5)
        if not is_ready or process.poll() is not None:
            return False
        asked = subprocess.run(["bash", "ask.sh"], cwd=folder, capture_output=True, check=False, timeout=scaled(60))
        return asked.returncode == 0
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server with all of its processes."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)


def _diagnosed(folder: Path) -> dict[str, Any]:
    """The answer to the log, with the command."""
    command = [sys.executable, "-m", "vllm_runbooks", "diagnose", "before.log", "--command", "launch.sh"]
    output = subprocess.run([*command, "--format", "json"], cwd=folder, stdout=subprocess.PIPE, check=False).stdout
    (folder / "answer.json").write_bytes(output)
    answer: dict[str, Any] = json.loads(output or b"{}")
    return answer


def _edit_text(edit: Mapping[str, Any]) -> str:
    value = edit["value"]
    written = value if isinstance(value, str) else json.dumps(value)
    return f"{edit['op']} {edit['name']}" + (f" {written}" if value is not None else "")


def _is_expected(row: FixedFailure, title: str, edits: Sequence[str]) -> bool:
    """Whether the first fix has the row's edits, or a title as the row describes it."""
    if row.title is not None:
        return re.search(row.title, title) is not None
    return len(edits) == len(row.fix) and all(
        edit == wanted or (wanted.count(" ") == 1 and edit.startswith(f"{wanted} "))
        for edit, wanted in zip(sorted(edits), sorted(row.fix), strict=True)
    )


def main() -> None:
    """Run the command line."""
    proofs = []
    for row, folder in provoke.requested(rows(), __doc__, "proof.json"):
        try:
            proof = prove(row, folder, live=set_up.place())
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            print(f"ERROR {row.id}: {type(error).__name__}: {error}", flush=True)
            continue
        (folder / "proof.json").write_text(json.dumps(asdict(proof)), "utf-8")
        proofs.append(proof)
        state = "does not fail" if not proof.fails else "works" if proof.works else "DOES NOT WORK"
        expected = "expected" if proof.is_expected else "another"
        print(
            f"{state} {row.id}: {proof.class_}, {expected} fix: {proof.title} {list(proof.edits)}"
            f" ({proof.applied}), {proof.seconds:.0f} s",
            flush=True,
        )
    failed = [proof for proof in proofs if proof.fails]
    print(
        f"{len(failed)} failures: {sum(proof.works for proof in failed)} first fixes work, "
        f"{sum(proof.is_expected for proof in failed)} are the expected one, "
        f"{sum(proof.works and proof.is_expected for proof in failed)} are both"
    )


if __name__ == "__main__":
    main()
