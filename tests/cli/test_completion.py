"""Completion in real shells: candidates, speed, and no messages without candidates."""

from __future__ import annotations

import os
import pty
import resource
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import run
from pace import scaled
from vllm_runbooks.catalog import complete
from vllm_runbooks.lint.commands import convert
from vllm_runbooks.reading.deployment import forms

PROGRAM = Path(sys.executable).parent / "vllm-runbooks"
SHELLS = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}
SET_UP = {
    "bash": 'PS1="> "; bind "set show-all-if-ambiguous on"; eval "$(vllm-runbooks completion bash)"\n',
    "zsh": 'PS1="> "; autoload -Uz compinit; compinit -u -D; eval "$(vllm-runbooks completion zsh)"\n',
    "fish": "vllm-runbooks completion fish | source\n",
}


def asked(*words: str, shell: str = "bash") -> list[str]:
    """The candidates for the last of these words."""
    environment = os.environ | {
        "COMP_WORDS": "\n".join(("vllm-runbooks", *words)), "COMP_CWORD": str(len(words)),
        complete.VARIABLE: f"{shell}_complete",
    }  # fmt: skip
    done = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


class Terminal:
    """A shell that a person sits at."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.pid, self.descriptor = pty.fork()
        if not self.pid:
            os.chdir(folder)
            environment = {
                "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
                "HOME": str(folder),
                "TERM": "xterm",
                "LANG": "C.UTF-8",
            }
            os.execvpe(shell, [shell, *SHELLS[shell]], environment)  # noqa: S606 - the shell is what is tested

    def types(self, keys: str, awaited: str, *, seconds: float = 30) -> str:
        """Press keys, and read until something is shown."""
        os.write(self.descriptor, keys.encode())
        shown, until = "", time.monotonic() + scaled(seconds)
        while awaited not in shown and time.monotonic() < until:
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    shown += os.read(self.descriptor, 65536).decode(errors="replace")
                except OSError:
                    break
                if "\x1b[c" in shown or "\x1b[0c" in shown:  # fish queries the terminal's type
                    os.write(self.descriptor, b"\x1b[?62c")
        return shown

    def close(self) -> None:
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_in_a_real_shell(shell: str, tmp_path: Path) -> None:
    """Commands, options, cases, GPUs after a count, and files with blanks in their names."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "my start.log").write_text("x")
    terminal = Terminal(shell, tmp_path)
    try:
        terminal.types(SET_UP[shell] + "echo re''ady\n", "ready")
        for typed, awaited in (
            ("vllm-runbooks diag\t", "diagnose"),
            ("vllm-runbooks diagnose --fol\t", "--follow"),
            ("vllm-runbooks diagnose tiny-cpu-serv\t", "tiny-cpu-served"),
            ("vllm-runbooks plan Qwen/Qwen3-8B-FP\t", "Qwen/Qwen3-8B-FP8"),
            ("vllm-runbooks plan m --gpus 8xRTX5090\t", "8xRTX5090"),
            ("vllm-runbooks run is-it\t", "is-it-healthy"),
            ("vllm-runbooks schedule wa\t", "wake"),
            ("vllm-runbooks diagnose my\t", "start.log"),
        ):
            assert awaited in terminal.types(typed, awaited, seconds=10), typed
            terminal.types("\x15\n", "")  # the line is abandoned
    finally:
        terminal.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        (("",), "case", "site"),
        (("diagnose", "tiny-cpu-s"), "tiny-cpu-served", "tiny-cpu-shard-missing"),
        (("plan", "--vllm", "0.1"), "0.19.1", "0.10.2"),
        (("plan", "Qwen/Qwen3-8B-A"), "Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B-AWQ"),
        (("lint", "--gpus", "2xA100,4xH100-80"), "2xA100,4xH100-80GB", "2xA100,4xH100-80GB-PCIe"),
        (("diagnose", "--gpus", "a100-8"), "A100-80GB", "A100-80GB-PCIe"),
        (("run", "single"), "single-gpu-oom", "single-gpu-oom"),
        (("case", "add", "--expect", "oom.k"), "oom.kv_alloc", "oom.kv_alloc"),
        (("diagnose", "--policy", ""), "lower-utilization", "lower-utilization"),
        (("probe", "probe-wrong-k"), "probe-wrong-key", "probe-wrong-key"),
        (("history", "tr"), "trend", "trend"),
        (("diagnose", "--gp"), "--gpus", "--gpus"),
        (("convert", "--to", "c"), "compose", "compose"),
        (("diagnose", "--lang", ""), "en", "zh"),
        (("diagnose", "--format", "=", "js"), "json", "json"),
        (("diagnose", "--format", "="), "text", "json"),
        (("plan", "--gpus", "=", "RTX309"), "RTX3090", "RTX3090Ti"),
        (("plan", "Qwen/Qwen3-8B", "--max-mod"), "--max-model-len", "--max-model-len"),
        (("plan", "Qwen/Qwen3-8B", "--gpu"), "--gpus", "--gpu-memory-utilization"),
    ],
)
def test_names_of_the_catalog_are_completed(words: tuple[str, ...], first: str, last: str) -> None:
    """For options with names, those with the typed prefix; the newest release first."""
    offered = [line.split("\t")[1] for line in asked(*words) if line.startswith("plain\t")]

    assert (offered[0], offered[-1]) == (first, last)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_value_after_an_equals_sign_is_completed_as_a_word(shell: str) -> None:
    """If a shell reads option, sign and value as one word, the candidate is the whole word."""
    assert [line.split("\t")[1] for line in asked("diagnose", "--format=js", shell=shell)] == ["--format=json"]


def test_files_are_completed_where_accepted() -> None:
    """A log may be a file or a recorded case; a release may not be a file."""
    assert asked("diagnose", "x-no-case") == ["file\tx-no-case"]
    assert asked("plan", "--vllm", "x") == [""]


@pytest.mark.parametrize("words", [("nonsense", ""), ("nonsense", "'"), ("plan", "--vllm", "z"), ("show", "zz")])
def test_completion_is_silent_without_candidates(words: tuple[str, ...]) -> None:
    """For an unknown command or an open quote: nothing on standard error, status 0."""
    assert not [line for line in asked(*words) if line.startswith("plain\t")]


@pytest.mark.slow
def test_a_broken_catalog_is_quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files that cannot be read offer no names, and no traceback."""
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    for words in (("plan", "--gpus", ""), ("diagnose", ""), ("run", "")):
        assert [line for line in asked(*words) if line.startswith("plain\t") and "local" not in line] == []


@pytest.mark.benchmark
@pytest.mark.parametrize(
    "words",
    [
        ("",),
        ("diagnose", ""),
        ("plan", "--gpus", "8x"),
        ("lint", "--vllm", ""),
        ("run", ""),
        ("plan", "m", "--max-mod"),
    ],
)
def test_an_offer_takes_less_than_three_tenths_of_a_second(words: tuple[str, ...]) -> None:
    """CPU time of the whole process, the best of three."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        asked(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(spent) < 0.3


@pytest.mark.parametrize("shell", complete.SCRIPTS)
def test_the_script_is_valid_for_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell itself finds nothing wrong with it."""
    status, out, err = run(capsys, "completion", shell)

    assert (status, err) == (0, "")
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=out, text=True, check=True, capture_output=True, timeout=30)


def test_the_formats_of_convert_match_the_table() -> None:
    """The list that needs no import is the table's."""
    assert tuple(forms.WRITERS) == convert.FORMS


def test_each_kind_of_case_is_offered_where_it_is_read() -> None:
    """A snapshot to `inventory`, an observed server to `probe`, and neither as a log."""
    kinds = {"host": complete.snapshots(), "probe": complete.servers()}

    assert all(names and all(name.startswith(f"{kind}-") for name in names) for kind, names in kinds.items())
    assert not {*complete.logs()} & {name for names in kinds.values() for name in names}
