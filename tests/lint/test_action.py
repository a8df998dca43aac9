"""The GitHub action: its steps run here as a runner runs them, on a repository with a pull request."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
OLD = "vllm serve Qwen/Qwen3-8B --max-model-length 8192\n"
COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.19.0
    command: --model Qwen/Qwen3-8B --swap-space 4
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  containers:
    - name: chat
      image: vllm/vllm-openai:v0.19.0
      command: [vllm, serve, Qwen/Qwen3-8B, --quantization, awk]
      resources: {limits: {nvidia.com/gpu: 1}}
"""


def git(repository: Path, *words: str) -> str:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *named, *words], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, str]:
    """A pull request's checkout with one commit, and the hash of its base, which it lacks."""
    origin = tmp_path / "origin"
    (origin / "deploy").mkdir(parents=True)
    git(origin, "init", "-q", "-b", "main")
    (origin / "deploy" / "before.sh").write_text(OLD)
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "before")
    base = git(origin, "rev-parse", "HEAD")
    (origin / "deploy" / "with blank.sh").write_text(OLD)
    (origin / "deploy" / "compose.yaml").write_text(COMPOSE)
    (origin / "pod.yaml").write_text(POD)
    (origin / "picture").write_bytes(b"vllm\0\1\2")
    (origin / "notes.txt").write_text("no launch\n")
    (origin / "--fix").write_text("vllm\n")
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "change")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "checkout")
    return tmp_path / "checkout", base


def run_lint(checkout: Path, base: str, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """Run the action's second step; its outputs and summary."""
    [step] = [step for step in ACTION["runs"]["steps"] if step.get("id") == "lint"]
    temp = checkout.parent / "temp"
    program = temp / "vllm-runbooks" / "bin" / "vllm-runbooks"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vllm_runbooks "$@"\n')
    program.chmod(0o755)
    values = {name: str(given["default"]) for name, given in ACTION["inputs"].items()} | inputs
    known = {f"inputs.{name}": value for name, value in values.items()} | {"github.event.pull_request.base.sha": base}
    variables = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], value) for name, value in step["env"].items()
    }
    files = {name: temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    runner = {"RUNNER_TEMP": str(temp), **{name: str(file) for name, file in files.items()}}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=checkout, env={**os.environ, **variables, **runner}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done, files["GITHUB_OUTPUT"].read_text(), files["GITHUB_STEP_SUMMARY"].read_text()


def test_a_pull_request_is_checked_where_it_changes_files(checkout: tuple[Path, str]) -> None:
    """Three changed files have one annotated error each; binary, other and unchanged files are not checked.

    A file's name is no option.
    """
    done, output, summary = run_lint(*checkout)
    errors = re.findall(r"^::error file=([^,]+),line=(\d+),col=\d+,title=([\w.-]+)::", done.stdout, re.MULTILINE)
    assert (done.returncode, sorted(errors)) == (
        1,
        [
            ("deploy/compose.yaml", "4", "option.removed"),
            ("deploy/with blank.sh", "1", "option.unknown"),
            ("pod.yaml", "8", "option.wrong-choice"),
        ],
    ), done.stderr
    assert "before.sh" not in done.stdout
    sarif = json.loads(Path(output.removeprefix("sarif=").strip()).read_text())
    assert [result["level"] for result in sarif["runs"][0]["results"]].count("error") == 3
    assert "Found 3 errors" in summary


def test_without_a_changed_text_file_nothing_is_checked(checkout: tuple[Path, str]) -> None:
    """The step passes and says so."""
    done, output, _ = run_lint(*checkout, paths="picture\n")
    assert (done.returncode, done.stdout, output) == (0, "No changed text file.\n", "")


def test_a_push_checks_all_files(checkout: tuple[Path, str]) -> None:
    """Also those of earlier commits; `fail-on` and `vllm` are passed on."""
    done, _, _ = run_lint(checkout[0], "", **{"fail-on": "warning", "vllm": "0.19.0"})
    assert done.returncode == 1
    assert "file=deploy/before.sh" in done.stdout
    assert "vLLM 0.19.0 has no option --max-model-length" in done.stdout


def test_the_action_installs_what_the_repository_has() -> None:
    """The files that its first step names exist."""
    install = ACTION["runs"]["steps"][0]["run"]
    assert all((ROOT / name).exists() for name in re.findall(r'\$SOURCE/([\w./]+)"', install))
