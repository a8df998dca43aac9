"""Results of an installed vLLM's parser become issues; a failing Python is a one-line error."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from pace import scaled
from test_ask_parser import _MODULES
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.lint import checking, second_opinion

VERSION = "0.19.0"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package named vllm that counts as the release and has a parser with three options."""
    for name, text in _MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("9.9.9", VERSION))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def opinions(command: str, python: str = sys.executable) -> list[tuple[str, str]]:
    """Issues from asking another Python: rule and message."""
    found = checking.lint_text(f"{command}\n", name="run.sh", vllm=VERSION, python=python)
    return [(issue.rule, issue.message) for issue in found.issues if issue.rule.startswith("parser.")]


@pytest.mark.parametrize(
    ("command", "rules", "says"),
    [
        ("vllm serve m --port 8000", [], ""),
        ("vllm serve m --port x", ["parser.refuses"], "invalid int value"),
        ("vllm serve m --seed 1", ["parser.disagrees", "parser.refuses"], "--seed"),
        ("vllm serve m --options x", ["parser.disagrees"], "0.19.0"),
        ("python -m vllm.entrypoints.openai.api_server --port 0", ["parser.disagrees", "parser.refuses"], "no port"),
        ("vllm serve $MODEL", [], ""),
    ],
)
def test_a_verdict_becomes_an_issue(command: str, rules: list[str], says: str) -> None:
    """Rejected by both, by vLLM only, or by the data only; incomplete commands are not asked."""
    found = opinions(command)

    assert sorted(rule for rule, _ in found) == rules
    assert any(says in message for _, message in found) or not rules


def python(folder: Path, *lines: str) -> str:
    """A program in place of Python."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["echo '{'"], "invalid response"),
        (["echo '[]'"], "invalid response"),
        (['echo \'{"vllm": "0.19.0", "verdicts": [{}]}\''], "invalid response"),
        (["printf '\\377'"], "invalid response"),
        (["echo 'no such thing' >&2", "exit 3"], "no such thing; use a Python with vLLM"),
        (["exit 1"], "no reason given"),
    ],
)
def test_a_python_without_an_answer_is_reported(tmp_path: Path, lines: list[str], says: str) -> None:
    """In one line with a fix, for any output."""
    with pytest.raises(InputError, match=says) as raised:
        opinions("vllm serve m", python(tmp_path, *lines))

    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["no-such-python", "/", "a\0b"])
def test_a_python_that_cannot_run_is_reported(name: str) -> None:
    """A missing or impossible file name raises no other error."""
    with pytest.raises(InputError, match="cannot be run"):
        opinions("vllm serve m", name)


def test_a_python_without_vllm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own message is included."""
    monkeypatch.delenv("PYTHONPATH")

    with pytest.raises(InputError, match=r"cannot import vLLM.*use a Python with vLLM"):
        opinions("vllm serve m")


@pytest.mark.slow
@pytest.mark.parametrize("waits", ["sleep 600 & echo $! > {pids}; wait", "sleep 600 & echo $! > {pids}; exit 0"])
def test_a_hanging_python_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    """Also if it exited, and a child process keeps its output open."""
    monkeypatch.setattr(second_opinion, "LIMIT_S", 1)
    pids = tmp_path / "pids"
    began = time.monotonic()
    with pytest.raises(InputError, match="no answer within 1 s"):
        opinions("vllm serve m", python(tmp_path, f"echo $$ > {pids}.own", waits.format(pids=pids)))
    took = time.monotonic() - began
    started = [int(path.read_text()) for path in (pids, tmp_path / "pids.own")]
    psutil.wait_procs([psutil.Process(pid) for pid in started if psutil.pid_exists(pid)], timeout=scaled(5))

    assert took < scaled(10)
    assert [pid for pid in started if _is_alive(pid)] == []


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("words", "stage", "says"),
    [
        ([], "config", "built with trust False"),
        (["--trust-remote-code"], "config", "built with trust False"),
        (["--trust-remote-code", "--port", "7"], None, "not checked: the model's configuration"),
        (["--port", "7"], "config", "pass trust_remote_code=True"),
        (["--tool-parser-plugin", "p.py"], None, "not checked: uses plugins or custom classes"),
        (["--scheduler-cls", "own.Scheduler"], None, "not checked: uses plugins or custom classes"),
        (["--distributed-executor-backend", "own.Executor"], None, "not checked: uses plugins or custom classes"),
        (["--distributed-executor-backend", "mp"], "config", "built with trust False"),
        (["--kv", '{"kv_connector_module_path": "own.module"}'], None, "not checked: uses plugins or custom classes"),
        (["--port", "x"], "parse", "invalid int value"),
    ],
)
def test_a_configuration_is_created_without_remote_code(
    tmp_path: Path, words: list[str], stage: str | None, says: str
) -> None:
    """Remote code is not trusted, and commands with custom code are not evaluated."""
    arguments = tmp_path / "vllm" / "entrypoints" / "openai" / "cli_args.py"
    options = (
        '    parser.add_argument("--trust-remote-code", action="store_true")\n'
        '    parser.add_argument("--tool-parser-plugin", default="")\n'
        '    parser.add_argument("--scheduler-cls", default="vllm.Scheduler")\n'
        '    parser.add_argument("--distributed-executor-backend")\n'
        '    parser.add_argument("--kv", type=__import__("json").loads)\n'
    )
    arguments.write_text(arguments.read_text().replace("    return parser\n", f"{options}    return parser\n"))
    (tmp_path / "vllm" / "engine").mkdir()
    (tmp_path / "vllm" / "engine" / "arg_utils.py").write_text(
        "class AsyncEngineArgs:\n"
        "    @classmethod\n"
        "    def from_cli_args(cls, args):\n"
        "        cls.args = args\n"
        "        return cls()\n"
        "    def create_engine_config(self):\n"
        "        if self.args.port == 7:\n"
        '            raise ValueError("pass trust_remote_code=True")\n'
        '        raise ValueError(f"built with trust {self.args.trust_remote_code}")\n'
    )
    [verdict] = second_opinion.ask(sys.executable, "serve", [["m", *words]], is_config_checked=True)

    assert verdict.stage == stage
    assert says in verdict.says
