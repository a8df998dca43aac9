"""Wrong use of commands: one line with place, error and fix; nothing is written or lost."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import click
import pytest

from command_line import PORT, call, run
from rows import in_one_test
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.console import given
from vllm_runbooks.core.console import output as cli_output
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.records import RunbookVerdict, RunResult, Verdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.lint import checking
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import plan_evidence, suite, worker
from vllm_runbooks.runbooks.commands import runbooks
from vllm_runbooks.runbooks.notebook import conclude

SCRIPT = "vllm serve Qwen/Qwen3-8B --max_model_len 8k\n"
ANY = cast("Any", None)
JUDGED = RunbookVerdict(Verdict.PASS, "as expected", None, None, None, ())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, a log, a folder, and a file with invalid UTF-8."""
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT, encoding="utf-8")
    Path("a.log").write_text(PORT, encoding="utf-8")
    Path("latin.sh").write_bytes(f"# caf\xe9\n{SCRIPT}".encode("latin-1"))
    Path("binary").write_bytes(b"\x7fELF\x02\x01" + bytes(200))
    Path("folder").mkdir()
    os.mkfifo("pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("diagnos a.log", "No such command 'diagnos'. Did you mean 'diagnose'?"),
        ("Lint run.sh", "Did you mean 'lint'?"),
        ("zzzz", "No such command 'zzzz'. See"),
        ("--verion", "Did you mean '--version'?"),
        ("catalog new port.x y", "Got unexpected extra argument (y). See"),
        ("check -j x", "'x' is not a whole number. See"),
        ("check --timeout x", "'x' is not a number. See"),
        ("check --timeout nan", "nan is not a number of seconds"),
        ("inventory --need nan", "nan is not a number of GiB; pass one, such as 40"),
        ("serve --within nan -- vllm serve m", "nan is not a number of MiB; pass one, such as 64"),
        ("record --out a --for nan -- true", "nan is not a number of seconds"),
        ("releases add 0.99.0 --python python3 --timeout nan", "nan is not a number of seconds"),
        ("convert run.sh", "Missing option '--to'. Use one of shell, docker, compose, systemd"),
        ("edge10 preflight", "Missing argument: use one of quantise, evaluate, compile."),
    ],
)
def test_a_misspelt_word_has_a_suggestion(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """The nearest command or option, in user terms instead of click's."""
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lint none.sh", "none.sh: no such file, folder or recorded case; "),
        ("lint run.sh none.sh", "none.sh: no such file"),
        ("lint none.sh run.sh", "none.sh: no such file"),
        ("lint folder", "folder: contains no script; use a folder"),
        ("lint binary", "binary: is a program, not text; use a script"),
        ("lint pipe", "pipe: is a pipe without a writer; use a script"),
        ("convert none.sh --to shell", "none.sh: no such file"),
        ("migrate folder --from 0.11.0 --to 0.19.0", "use a script, manifest or page"),
        ("diagnose a.log --command binary", "binary: is a program, not text; use a script"),
    ],
)
def test_an_unreadable_script_is_not_called_a_log(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """The message of script commands names a script."""
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "pass a log" not in err


def test_a_broken_case_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """A recorded case given as a script has the place of its error."""
    Path("folder", "case.yaml").write_text("id: [\n", encoding="utf-8")

    status, _, err = run(capsys, "lint", "folder")

    assert status == 2
    assert "folder/case.yaml:2:1: not YAML" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lint -- ls -l", "the command after -- does not launch vLLM"),
        ("lint -- vllm", "the command after -- does not launch vLLM"),
        ("lint vllm serve m --max-model-len 8", "'--max-model-len'. Put the command after --"),
        ("lint run.sh --fxi", "Did you mean '--fix'?"),
    ],
)
def test_a_command_follows_two_dashes(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """A misplaced one has an explanation; its words are not files."""
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_command_must_be_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Invalid UTF-8 could not be stored."""
    status, out, err = run(capsys, "lint", "--fix", "-o", "new.sh", "--", "vllm", "serve", "\udcff")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "is not valid UTF-8" in err
    assert not Path("new.sh").exists()


def test_a_file_in_place_of_a_folder_is_reported_first(capsys: pytest.CaptureFixture[str]) -> None:
    """By every command that writes into one, before it begins."""
    for line in ("check --out", "site build --out", "catalog new port.x --dir", "catalog schemas --dir"):
        status, out, err = run(capsys, *shlex.split(line), "a.log")

        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "a.log is not a folder; use an existing or a new folder." in err


def test_invalid_input_in_a_kernel_is_reported_like_any_other(tmp_path: Path) -> None:
    """Without the cell, which the user does not know; other errors name it."""
    found = {}
    for name in ("InputError", "ValueError"):
        error: dict[str, Any] = {
            "output_type": "error",
            "ename": name,
            "evalue": "--start 9: the text holds 1 starts",
            "traceback": [],
        }
        cell = {"cell_type": "code", "id": "read", "metadata": {}, "source": "", "outputs": [error]}
        (tmp_path / name).write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        answer = worker._read_answer(tmp_path / name, f"{name}: told")
        result = suite._checked_result(suite.RunbookRequest("any", Path()), answer)
        found[name] = (result.verdict, result.refused, result.reason)

    assert found["InputError"] == (Verdict.ERROR, True, "--start 9: the text holds 1 starts")
    said = "ValueError: --start 9: the text holds 1 starts in cell read; no verdict was reached"
    assert found["ValueError"] == (Verdict.ERROR, False, said)


def test_words_after_two_dashes_are_files(capsys: pytest.CaptureFixture[str]) -> None:
    """As in other tools; and a fixed command ends with a newline."""
    assert " --> run.sh:1:" in run(capsys, "lint", "--", "run.sh")[1]
    assert run(capsys, "lint", "--fix", "--", *shlex.split(SCRIPT))[1] == SCRIPT.replace("_", "-")


@pytest.mark.parametrize(
    "line",
    [
        "diagnose -", "diagnose --follow -", "lint -", "lint --fix -", "convert - --to shell",
        "migrate - --from 0.11.0 --to 0.19.0",
    ],
)  # fmt: skip
def test_a_closed_standard_input_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """As `<&-` leaves it."""
    monkeypatch.setattr("sys.stdin", None)
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out) == (2, "")
    assert err == "vllm-runbooks: standard input: is closed; use a file, or pipe the text in\n"


@pytest.mark.parametrize(
    "line", ["diagnose - -", "lint - -", "diagnose - --command -", "record --out a --log - --log -"]
)
def test_standard_input_is_used_once(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Twice is a mistake, not an empty text."""
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "can be read only once" in err


@pytest.mark.slow
@pytest.mark.parametrize("descriptor", ["1", "2"])
def test_closed_outputs_cause_no_traceback(descriptor: str) -> None:
    """Without standard output nothing starts; without standard error the status is correct."""
    line = f"{shlex.quote(sys.executable)} -m vllm_runbooks lint none.sh {descriptor}>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (2, b"")
    assert (b"standard output is closed" in done.stderr) is (descriptor == "1")
    assert done.stderr.count(b"\n") == (descriptor == "1")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "the name is empty; use a file."),
        ("folder", "folder is a folder; use a file in it."),
        ("pipe", "pipe is not a regular file; use a writable file."),
        ("none/a.sh", "none is not a folder; create it first, or use another."),
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        "convert run.sh --to shell", "migrate run.sh --from 0.11.0 --to 0.19.0", "plan --from-log a.log",
    ],
)  # fmt: skip
def test_unwritable_output_is_reported_first(
    capsys: pytest.CaptureFixture[str], line: str, name: str, said: str
) -> None:
    """Before any work; devices and pipes are never replaced."""
    status, out, err = run(capsys, *shlex.split(line), "-o", name)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


def test_a_failed_write_has_a_fix(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that takes no files, for one."""
    status, out, err = run(capsys, "convert", "run.sh", "--to", "shell", "-o", "/proc/a.sh")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith("pass another path, or make room there\n")


@pytest.mark.parametrize(
    "line",
    [
        "case add a.log --expect ok --out", "record --log a.log --out", "catalog new port.x --dir",
        "catalog check --dir", "check --out", "site --out", "plan Qwen/Qwen3-8B --gpus H100-80GB --deploy",
        "list --runbooks", "check --cases", "diagnose a.log --catalog", "catalog list --catalog",
        "case add a.log --expect ok --id", "diagnose a.log --policy", "check --only",
    ],
)  # fmt: skip
def test_an_empty_name_is_not_this_folder(capsys: pytest.CaptureFixture[str], here: Path, line: str) -> None:
    """As of a variable that is not set."""
    before = sorted(here.rglob("*"))
    status, out, err = run(capsys, *shlex.split(line), "")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sorted(here.rglob("*")) == before


def test_a_text_in_another_encoding_is_not_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file or standard input, as characters would be lost."""
    for line in ("lint --fix", "migrate --from 0.11.0 --to 0.19.0"):
        for name in ("latin.sh", "-"):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("latin.sh").read_bytes())))
            status, out, err = run(capsys, *shlex.split(line), name)

            assert (status, out, err.count("\n")) == (2, "", 1)
            assert "is not UTF-8; convert it first, as in iconv" in err


def test_a_text_on_standard_input_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UTF-8, neither empty nor too large."""
    texts = {SCRIPT: "", " \n": "is empty; use a script", "vllm\n" * 20: "is larger than 90 characters"}
    monkeypatch.setattr(sources, "MAX_SCRIPT", 90)
    for text, said in texts.items():
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status, out, err = run(capsys, "lint", "--fix", "-")

        assert (status, out) == ((2, "") if said else (0, SCRIPT.replace("_", "-")))
        assert said in err


@pytest.mark.slow
def test_a_script_is_printed_unchanged_in_any_locale() -> None:
    """Scripts that are saved and run have no escapes."""
    Path("run.sh").write_text(SCRIPT.replace("\n", " --api-key café\n"), encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = call("lint", "--fix", "run.sh", env=environment)

    assert done.stdout.decode().endswith("\n")
    assert b"\\x" not in done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "history",
        "history wipe --yes",
        "leftovers",
        "inventory",
        "schedule list",
        "schedule wake",
        "schedule wake n",
        "schedule add n --at '0 3 * * *' -- check",
    ],
)
def test_a_user_without_a_home_gets_the_variable_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """As in a container with a numeric user: only a variable gives a place for files."""

    def nobody(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "VLLM_RUNBOOKS_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "this user has no home folder; set XDG_" in err


SPANS = {"30": 30.0, "90s": 90.0, "1.5m": 90.0, "1h": 3600.0, "2d": 172800.0, "2w": 1209600.0, " 2m ": 120.0}
NO_SPANS = (
    "",
    "soon",
    "-1h",
    "+1h",
    "nan",
    "inf",
    "1e3",
    "1 h",
    "2M",
    "5x",
    "1h30m",
    "h",
    ".5h",
    "1.h",
    "٣m",
    "9" * 10,
)


@pytest.mark.parametrize("text", NO_SPANS)
@pytest.mark.parametrize(
    "line",
    [
        "probe http://127.0.0.1:9 --seconds={}",
        "probe http://127.0.0.1:9 --patience={}",
        "probe http://127.0.0.1:9 --load={}",
        "schedule add n --at '0 3 * * *' --grace={} -- check",
        "schedule add n --at '0 3 * * *' --timeout={} -- check",
        "history --since={}",
        "history prune --keep={}",
    ],
)
def test_an_invalid_time_is_rejected_by_every_command(capsys: pytest.CaptureFixture[str], line: str, text: str) -> None:
    """In one line with an example."""
    status, out, err = run(capsys, *(word.format(text) for word in shlex.split(line)))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "such as" in err


def test_a_duration_has_the_same_meaning_in_every_command() -> None:
    """Bare numbers are seconds, unless they may be a date or a count; bounds are checked."""
    assert {text: given.Span().convert(text, None, None) for text in SPANS} == SPANS
    assert given.span("30", is_bare=False) is None
    assert given.Span("0.1s", "1h").convert("60m", None, None) == 3600.0
    for text in ("0s", "3601s", "2d"):
        with pytest.raises(click.BadParameter, match=r"is not a duration from 0\.1s to 1h; use one such as 30s or 2m"):
            given.Span("0.1s", "1h").convert(text, None, None)


def test_messages_are_escaped_and_redacted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In every command: for an edited job file, and for a given name."""
    token = "hf_" + "abcdefghijKLMNOPQRST012345"
    jobs = Path("config", "vllm-runbooks", "jobs")
    jobs.mkdir(parents=True)
    (jobs / "n.yaml").write_text(f'name: n\nat: "\\e[31m{token}"\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("config").absolute()))
    Path("gpus.csv").write_text("index, name, memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, 81559 MiB\n", "utf-8")
    said = [
        run(capsys, "schedule", "list")[2],
        run(capsys, "schedule", "wake")[2],
        run(capsys, "inventory", "gpus.csv", "-o", "\x1b[31m.json")[2],
        run(capsys, "lint", "--fix", "run.sh", "-o", "\x1b[31m.sh")[2],
    ]

    assert all("\x1b" not in each for each in said)
    assert all("\\x1b[31m" in each for each in said[2:])
    assert all("n.yaml" in each and token not in each for each in said[:2])


def test_a_script_is_printed_in_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any stream encoding; bytes of the command line are unchanged."""
    poor = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", poor)
    cli_output.write_script("echo café \udcff\n")

    assert poor.buffer.getvalue() == b"echo caf\xc3\xa9 \xff\n"


def test_a_replaced_script_stays_executable(capsys: pytest.CaptureFixture[str]) -> None:
    """Permissions are kept, and links are followed."""
    Path("run.sh").chmod(0o750)
    Path("link.sh").symlink_to("run.sh")
    run(capsys, "lint", "--fix", "link.sh", "-o", "link.sh")

    assert Path("link.sh").is_symlink()
    assert "--max-model-len" in Path("run.sh").read_text(encoding="utf-8")
    assert stat.S_IMODE(Path("run.sh").stat().st_mode) == 0o750


@pytest.mark.parametrize(
    "line",
    ["diagnose a.log", "case add a.log --expect ok --out o", "record --out o --log a.log", "lint run.sh"],
)
def test_an_invalid_release_is_rejected_alike(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Also as the release of a log; an unknown later release is valid."""
    status, out, err = run(capsys, *shlex.split(line), "--vllm", "banana")

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "'banana' is not a vLLM version; use" in err
    assert not Path("o").exists()
    assert run(capsys, "diagnose", "a.log", "--vllm", "0.99.1rc2.dev3+gabc.cu129")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("diagnose tiny-cpu-servd", "did you mean tiny-cpu-served?"),
        ("diagnose zzzz.log", "zzzz.log: no such file, folder or recorded case; check the path"),
        ("diagnose --follow --from docker:x", "--follow reads - or a file; pipe the log in"),
        (
            "convert run.sh --to shell --start 2",
            "run.sh: contains 1 launch, so number 2 does not exist; use a lower --start",
        ),
        ("catalog check a.yaml --dir folder", "give either files or --dir, not both."),
        ("catalog new prt.in_use", "'prt' is not a group; did you mean port? There are api,"),
        ("catalog new lunch.late", "'lunch' is not a group; use one of api,"),
        ("check --runbooks folder", "folder: contains no runbook; use a folder with .ipynb files"),
        ("check --cases folder", "folder: contains no recorded case; use a case's folder, or a folder of cases"),
        ("check --only tiny-cpu-servd", "did you mean tiny-cpu-served?"),
        ("check --only two-nice-things", "no runbook or case has this id; closest: two-nodes-"),
        ("check --only zzzz", "; `vllm-runbooks list` lists the runbooks, "),
        ("plan Qwen/Qwen3-8B", "pass the GPUs, as in --gpus 8xRTX3090."),
        ("plan Qwen/Qwen3-8B --gpus H100-80GB --fnd context", "Did you mean --find?"),
        ("plan Qwen/Qwen3-8B --gpus H100-80GB --zzzz", "has no option --zzzz."),
        ("plan Qwen/Qwen3-8B --gpus H100-80GB --tp 0", "parallel sizes must be at least 1"),
        ("plan Qwen/Qwen3-8B --gpus H100-80GB --start 2", "--start chooses a launch in a log; it needs --from-log."),
        ("plan Qwen/Qwen3-8B --gpus H100-80GB --deploy new --port 0", "0 is not in the range 1<=x<=65535"),
    ],
)
def test_each_command_has_a_fix_in_its_message(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    """In its own words with the nearest valid one; options without effect are rejected."""
    status, out, err = run(capsys, *shlex.split(line))

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_launches_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A number above the count is rejected with the count."""
    Path("run.sh").write_text(SCRIPT * 2, encoding="utf-8")

    assert "contains 2 launches, so number 3" in run(capsys, "convert", "run.sh", "--to", "shell", "--start", "3")[2]


def test_an_empty_folder_of_runbooks_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """In text; the JSON document is an empty list."""
    assert run(capsys, "list", "--runbooks", "folder") == (
        0,
        "",
        "vllm-runbooks: folder: contains no runbook (.ipynb)\n",
    )
    assert json.loads(run(capsys, "list", "--runbooks", "folder", "--format", "json")[1])["runbooks"] == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[suite.RunbookRequest]:
    """The requested run, without running it."""
    found: list[suite.RunbookRequest] = []

    def execute(requests: list[suite.RunbookRequest], **_: Any) -> list[RunResult]:
        found.extend(requests)
        return [suite._result(one, Verdict.PASS, "as expected") for one in requests]

    monkeypatch.setattr(runbooks, "_execute", execute)
    return found


@pytest.mark.parametrize(
    "words", ["-p evidence a.log", "-p evidence=a.log", "--parameter=evidence=a.log", "--parameter evidence=a.log"]
)
def test_a_parameter_has_two_forms(
    capsys: pytest.CaptureFixture[str], asked: list[suite.RunbookRequest], words: str
) -> None:
    """As in papermill, or joined by `=`; a value may contain a `=`."""
    status, _, _ = run(capsys, "run", "single-gpu-oom", *words.split(), "-p", "pasted_log=a=b", "-p", "vllm", "0.19.0")

    assert status == 0
    assert asked[0].parameters == {
        "stop_on_fail": False, "evidence": "a.log", "pasted_log": "a=b", "vllm": "0.19.0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-p", "-p requires a name and a value, as in -p NAME=VALUE."),
        ("-p evidence", "-p requires a name and a value"),
        ("-p evidence --out ro", "-p requires a name and a value"),
        ("-p --out ro", "-p requires a name and a value"),
        ("--parameter evidence", "--parameter requires a name and a value"),
        ("-p evidnce=a.log", "no parameter named 'evidnce'; did you mean evidence?"),
        ("-p =x", "no parameter named ''; parameters: evidence"),
        ("-p start=x", "parameter start: 'x' is not int; use a whole number, such as 8"),
        ("-p stop_on_fail=maybe", "'maybe' is not bool; use true or false"),
        ("-p evidence=a.log -p evidence b.log", "parameter evidence is set twice"),
    ],
)
def test_an_invalid_parameter_is_reported(
    capsys: pytest.CaptureFixture[str], asked: list[suite.RunbookRequest], words: str, said: str
) -> None:
    """Before anything starts."""
    status, out, err = run(capsys, "run", "single-gpu-oom", *words.split())

    assert (status, out, err.count("\n"), asked) == (2, "", 1, [])
    assert said in err


@pytest.mark.parametrize(
    ("asked_for", "said"),
    [
        (
            lambda: sources.load("tiny-cpu-served", vllm=cast("str", 0.1)),
            "vllm: 0.1 is not a string; quote it, or pass it",
        ),
        (lambda: sources.load(cast("str", 5)), "evidence: 5 is not a string"),
        (
            lambda: diagnosing.diagnose(sources.load("a.log"), start=cast("int", "x")),
            "start: 'x' is not a whole number",
        ),
        (lambda: diagnosing.diagnose(sources.load("a.log"), start=True), "start: True is not a whole number"),
        (lambda: diagnosing.diagnose(sources.load("a.log"), gpus=cast("str", 8)), "gpus: 8 is not a string"),
        (lambda: checking.lint_commands(sources.load("run.sh"), gpus=cast("str", 8)), "gpus: 8 is not a string"),
        (lambda: checking.migrate_commands(sources.load("run.sh"), to=cast("str", 0.1)), "target: 0.1 is not a string"),
        (lambda: plan_evidence.question(sources.load("run.sh"), vllm=cast("str", 0.1)), "vllm: 0.1 is not a string"),
        (lambda: plan_evidence.write(ANY, "", "f", apply=cast("bool", "no")), "apply: 'no' must be True or False"),
        (lambda: conclude(JUDGED, stop_on_fail=cast("bool", "maybe")), "stop_on_fail: 'maybe' is not bool; use true"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_one_line_in_a_notebook(asked_for: Callable[[], object], said: str) -> None:
    """Papermill converts words: 0.10 becomes a number, and so another release."""
    with pytest.raises(InputError) as caught:
        asked_for()

    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.fixture
def own(here: Path) -> Iterator[str]:
    """A user's catalog folder with one new symptom."""
    text = (folders.catalog_dir() / "symptoms" / "port.in_use.yaml").read_text(encoding="utf-8")
    (here / "own" / "symptoms").mkdir(parents=True)
    mine = text.replace("id: port.in_use\n", "id: port.in_use.mine\n")
    (here / "own" / "symptoms" / "port.in_use.mine.yaml").write_text(mine, encoding="utf-8")
    yield "own"
    catalog.load_catalog.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("asked")
def test_your_own_catalog_is_used_by_every_command(
    capsys: pytest.CaptureFixture[str], own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `diagnose`; kernels get it by the environment, which is restored."""
    monkeypatch.delenv(folders.CATALOGS, raising=False)
    seen: list[str | None] = []

    def status(_: Any) -> int:
        seen.append(os.environ.get(folders.CATALOGS))
        return 0

    monkeypatch.setattr(runbooks, "_status", status)
    add = ("case", "add", "a.log", "--expect", "port.in_use", "--symptom", "port.in_use.mine")

    assert "port.in_use.mine" in run(capsys, "catalog", "list", "--catalog", own)[1]
    assert run(capsys, *add, "--out", "one")[0] == 2
    assert run(capsys, *add, "--out", "two", "--catalog", own)[0] == 0
    assert run(capsys, "run", "single-gpu-oom", "-p", "evidence=a.log", "--catalog", own)[0] == 0
    assert run(capsys, "check", "--only", "tiny-cpu-served", "--catalog", own)[0] == 0
    assert seen == [str(Path(own).absolute())] * 2
    assert folders.CATALOGS not in os.environ
    assert "port.in_use.mine" not in run(capsys, "catalog", "list")[1]

    monkeypatch.setenv(folders.CATALOGS, own)
    run(capsys, "catalog", "list", "--catalog", own)
    assert os.environ[folders.CATALOGS] == own


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("none", "none: no such catalog folder; use one that contains symptoms/"),
        ("folder", "folder: no folder symptoms/"),
        ("a:b", "--catalog a:b: contains ':', which separates folders; rename it"),
    ],
)
@pytest.mark.parametrize("line", ["catalog list", "run single-gpu-oom", "check", "case add a.log --expect ok"])
def test_an_invalid_catalog_is_rejected(
    capsys: pytest.CaptureFixture[str], asked: list[suite.RunbookRequest], line: str, folder: str, said: str
) -> None:
    """Before anything runs or is written."""
    status, out, err = run(capsys, *shlex.split(line), "--catalog", folder)

    assert (status, out, err.count("\n"), asked) == (2, "", 1, [])
    assert said in err


def commands(command: click.Command = cli.commands, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its name."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


@in_one_test(("name", "command"), list(commands()), ids=lambda each: each if isinstance(each, str) else "")
def test_help_explains_every_option(name: str, command: click.Command) -> None:
    """With words for each, no word of click's for a value, and examples that the command's own parser takes."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    shown = command.get_help(click.Context(command, info_name=name))

    assert [each.name for each in options if not each.help] == []
    assert not any(word in shown for word in (" INTEGER", " FLOAT", " TEXT"))
    if options and name not in ("releases list", "catalog schemas"):
        assert command.epilog
    for example in (command.epilog or "").replace(" \\\n", " ").splitlines()[2:]:
        words = shlex.split(example)
        assert f"{' '.join(words[1:])} ".startswith(f"{name} ")
        command.make_context(name, words[1 + len(name.split()) :], resilient_parsing=True)
