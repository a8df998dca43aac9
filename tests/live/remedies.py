"""Launch the fixes of provoked failures: python tests/live/remedies.py KEPT [ID…].

KEPT is the folder of `provoke.py --keep`. For each failure the first fix with a command is launched
under supervision; it is verified if the server answers.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import provoke
import set_up


def advised(report: Path) -> str | None:
    """The command of the first fix that has one and passes lint."""
    answer = json.loads(report.read_text("utf-8"))["attempts"][-1]["answer"] or {}
    for remedy in answer.get("remedies", ()):
        if remedy["command"] and remedy["checks"]["lint"] == "passed":
            return str(remedy["command"])
    return None


def is_ready(command: str, folder: Path, failure: provoke.Failure) -> bool:
    """Whether the command's server answers."""
    script = folder / "advised.sh"
    script.write_text(f"#!/bin/bash\n{command}\n", "utf-8")
    guard = [sys.executable, "-m", "vllm_runbooks", "serve", "--dir", str(folder / "after"), "--ready-within", "150"]
    with (folder / "advised.said").open("w+") as said:
        process = subprocess.Popen(
            [*guard, "--skip", "port", "--", "bash", str(script)],
            env={**provoke.environment(set_up.place()), **failure.environment},
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        try:
            return provoke.until_said(process, folder / "advised.said", "ready after")
        finally:
            provoke.end(process)


def main() -> None:
    """Run the command line."""
    kept, wanted = Path(sys.argv[1]), sys.argv[2:]
    ready = tried = 0
    for failure in provoke.failures():
        folder = kept / failure.id
        if (wanted and failure.id not in wanted) or not (folder / "report.json").is_file():
            continue
        command = advised(folder / "report.json")
        if command is None:
            continue
        tried += 1
        was_ready = is_ready(command, folder, failure)
        ready += was_ready
        print(f"{'ready' if was_ready else 'NOT READY'} {failure.id}: {shlex.join(shlex.split(command))}", flush=True)
    print(f"{ready} of {tried} ready")


if __name__ == "__main__":
    main()
