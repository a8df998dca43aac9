"""The program that runs an installed vLLM's parser prints verdicts, or exits with a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vllm_runbooks.lint.second_opinion import ask_parser

_PROGRAM = str(Path(ask_parser.__file__))
_MODULES = {
    "vllm/__init__.py": "__version__ = '9.9.9'\nprint('chatter')\n",
    "vllm/utils.py": "import argparse\nclass FlexibleArgumentParser(argparse.ArgumentParser):\n    pass\n",
    "vllm/scripts.py": """
from vllm.utils import FlexibleArgumentParser
from vllm.entrypoints.openai.cli_args import make_arg_parser
def main():
    parser = FlexibleArgumentParser(prog="vllm")
    make_arg_parser(parser.add_subparsers(dest="subparser").add_parser("serve"))
    parser.parse_args()
""",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/cli_args.py": """
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--port", type=int)
    parser.add_argument("--options")
    return parser
def validate_parsed_serve_args(args):
    if args.port == 0:
        raise TypeError("no port")
""",
}


def _asked(request: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if folder is not None:
        environment["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, _PROGRAM], input=request, capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize("entry", ["serve", "api_server"])
def test_each_command_gets_its_verdict(tmp_path: Path, entry: str) -> None:
    """Stage, error and message of each command in order, and no other output."""
    for name, text in _MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    commands = [["m"], ["m", "--port", "x"], ["m", "--port", "0"], ["--help"]]
    done = _asked(json.dumps({"entry": entry, "commands": commands}), tmp_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["vllm"]) == (0, "9.9.9")
    assert [(each["stage"], each["error"]) for each in answer["verdicts"]] == [
        (None, None),
        ("parse", "SystemExit"),
        ("validate", "TypeError"),
        (None, None),
    ]


@pytest.mark.parametrize(
    "request_text", ["", "{}", "[]", '{"entry": "x", "commands": []}', '{"entry": "serve", "commands": [[1]]}']
)
def test_an_unreadable_request_exits_with_2(request_text: str) -> None:
    """With a one-line error and no output."""
    done = _asked(request_text)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_python_without_vllm_exits_with_3() -> None:
    """The one-line error names the missing package."""
    done = _asked('{"entry": "serve", "commands": [["m"]]}')
    assert (done.returncode, done.stdout, "vllm" in done.stderr.splitlines()[-1]) == (3, "", True)
