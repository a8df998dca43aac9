"""The command line as its users meet it: exit status, one line on stderr, one document on stdout."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command_line import PORT, call, run
from vllm_runbooks import cli
from vllm_runbooks.authoring import json_schemas
from vllm_runbooks.authoring.commands import catalog as catalog_cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.console import output
from vllm_runbooks.lint import checking
from vllm_runbooks.reading import sources

COMMANDS = [
    [], ["diagnose"], ["catalog"], ["catalog", "check"], ["catalog", "new"], ["catalog", "list"],
    ["catalog", "schemas"], ["list"], ["show"], ["run"], ["check"], ["site"],
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The log of a failed launch."""
    path = tmp_path / "startup.log"
    path.write_text(PORT)
    return str(path)


@pytest.mark.parametrize(
    ("case", "status", "outcome"),
    [
        ("tiny-cpu-served", 0, "running"),
        ("qwen-2x24gb-mp-glued", 0, "ready"),
        ("autoglm-3090-video-oom", 1, "failed"),
        ("tiny-cpu-engine-killed", 1, "failed"),
    ],
)
def test_the_exit_status_is_the_result(
    case: str, status: int, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 healthy, 1 a cause or no proof of health; nothing on stderr; one document."""
    returned, out, err = run(capsys, "diagnose", case, "--format", "json")

    assert (returned, err) == (status, "")
    assert out.startswith('{\n  "schema": 2,')
    assert json.loads(out)["outcome"] == outcome


def test_an_unknown_text_is_status_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Read, and nothing could be established."""
    (tmp_path / "a.log").write_text("words\n")
    status, out, err = run(capsys, "diagnose", str(tmp_path / "a.log"), "--format", "json")

    assert (status, err) == (1, "")
    assert (json.loads(out)["outcome"], json.loads(out)["root_cause"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diagnose"], "pass a log file, a recorded case, or - for standard input."),
        (["diagnose", "nothing-there"], "nothing-there: no such file, folder or recorded case"),
        (["diagnose", "{tmp}/folder"], "no case.yaml; use a log file"),
        (["diagnose", "{tmp}/binary"], "is a program, not text"),
        (["diagnose", "{tmp}/noise"], "is binary, not text"),
        (["diagnose", "{tmp}/empty"], "is empty; use the log of a vLLM launch"),
        (["diagnose", "{tmp}/a.log", "{tmp}"], "is a folder; several inputs must be log files of one launch"),
        (["diagnose", "{tmp}/a.log", "--start", "2"], "start 2: the log has one launch; choose one of them"),
        (["diagnose", "{tmp}/a.log", "--start", "0"], "Invalid value for '--start'"),
        (["diagnose", "{tmp}/a.log", "--start", "last"], "Invalid value for '--start'"),
        (["diagnose", "{tmp}/a.log", "--format", "xml"], "Invalid value for '--format'"),
        (["diagnose", "{tmp}/a.log", "--colour"], "No such option"),
        (["diagnose", "{tmp}/a.log", "--catalog", "{tmp}"], "no folder symptoms/; put your symptom files into"),
        (["diagnose", "{tmp}/case"], "case/case.yaml:1: title: is missing"),
        (["catalog", "check", "{tmp}/broken.yaml"], "broken.yaml:1: not a mapping"),
        (["catalog", "check", "{tmp}/case/case.yaml"], "case/case.yaml:1: title: is missing"),
        (["catalog", "check", "{tmp}/lines.yaml"], "lines.yaml:1: (file): input should be a valid array"),
        (["catalog", "check", "{tmp}"], "is a folder; use a file, or --dir for a catalog folder"),
        (["catalog", "check", "--dir", "{tmp}/none"], "no such folder; name a catalog folder"),
        (["catalog", "check", "--dir", "{tmp}/case"], "has no symptoms/*.yaml and no cases; use a catalog folder"),
        (["catalog", "new", "Port"], "Port: is not a symptom id; use <group>.<word>, as in port.in_use"),
        (["catalog", "new", "lunch.late"], "lunch.late: 'lunch' is not a group; use one of api,"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_unreadable_input_is_status_2_and_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], said: str
) -> None:
    """With the reason and a fix, and no output."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.log").write_text(PORT)
    (tmp_path / "binary").write_bytes(b"\x7fELF\x02\x01" + bytes(200))
    (tmp_path / "noise").write_bytes(bytes(range(32)) * 20)
    (tmp_path / "empty").write_bytes(b" \n")
    (tmp_path / "broken.yaml").write_text("")
    (tmp_path / "lines.yaml").write_text("{}")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "case.yaml").write_text("id: x\nfiles: [a.log]\nexpect: {outcome: failed}\n")
    status, out, err = run(capsys, *(a.format(tmp=tmp_path) for a in arguments))

    assert (status, out) == (2, "")
    assert said in err
    assert (err.count("\n"), err[-1]) == (1, "\n")
    assert err.startswith("vllm-runbooks: ")


@pytest.mark.slow
def test_bad_input_is_rejected_alike_as_a_whole_process(tmp_path: Path) -> None:
    """Never with a traceback."""
    for arguments in (["diagnose", str(tmp_path)], ["diagnose", "--nothing"], ["diagnose", "a\nb"]):
        done = call(*arguments)

        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


def test_standard_input_is_a_log(log: str) -> None:
    """As `-`, alone or among files."""
    alone = call("diagnose", "-", "--format", "json", input=PORT.encode())
    both = call("diagnose", log, "-", "--format", "json", input=b"INFO:     Application startup complete.\n")

    assert (alone.returncode, json.loads(alone.stdout)["files"]) == (1, ["-"])
    assert json.loads(both.stdout)["files"] == ["startup.log", "-"]
    assert call("diagnose", "-", input=b"").returncode == 2


def test_several_logs_of_one_launch_have_one_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence and launches have the index of the file; no path is printed."""
    lost = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4123\n"
    for name, text in (("rank0.log", lost), ("rank1.log", PORT)):
        (tmp_path / name).write_text(text)
    status, out, _ = run(
        capsys, "diagnose", str(tmp_path / "rank0.log"), str(tmp_path / "rank1.log"), "--format", "json"
    )
    document = json.loads(out)

    assert status == 1
    assert document["files"] == ["rank0.log", "rank1.log"]
    assert (document["root_cause"]["symptom"], document["root_cause"]["evidence"][0]["file"]) == ("port.in_use", 1)
    assert [start["file"] for start in document["starts"]] == [0, 1]
    assert str(tmp_path) not in out


@pytest.mark.slow
def test_the_same_input_gives_the_same_document_anywhere(tmp_path: Path) -> None:
    """No host, path or time of the machine is in it."""
    text = (folders.cases_dir() / "tiny-cpu-tp2-served" / "startup.log").read_bytes()
    outs = []
    for folder, zone in (("a", "UTC"), ("b", "Asia/Tokyo")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.log").write_bytes(text)
        done = call(
            "diagnose",
            "x.log",
            "--format",
            "json",
            cwd=tmp_path / folder,
            env={**os.environ, "TZ": zone, "LC_ALL": "C"},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        outs.append(done.stdout.decode("ascii", "backslashreplace"))

    assert outs[0] == outs[1]
    assert str(tmp_path) not in outs[0]


def test_floats_have_four_decimals_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    """In one place for all documents."""
    _, out, _ = run(capsys, "diagnose", "gpt-oss-gemma-a100-four-starts", "--format", "json")

    assert not re.findall(r": \d+\.\d{5,}", out)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_terminal_of_another_locale_gets_escapes(form: str) -> None:
    """Never an error, and JSON stays JSON."""
    text = "OSError: [Errno 98] Address already in use (café ✓)\n"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = call("diagnose", "-", "--format", form, input=text.encode(), env=environment)

    assert (done.returncode, done.stderr) == (1, b"")
    done.stdout.decode("ascii")
    if form == "json":
        assert json.loads(done.stdout)["outcome"] == "failed"


def test_a_closed_reader_is_not_an_error(log: str) -> None:
    """As in `… | head -1`: silent, and the exit status is still the result."""
    with subprocess.Popen(
        [sys.executable, "-m", "vllm_runbooks", "diagnose", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read()

    assert (process.returncode, error) == (1, b"")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_fast(command: list[str]) -> None:
    """In less than half a second of the processor, at the second try at the latest, with a sentence and the options."""
    seconds = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = call(*command, "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if seconds[-1] < 0.5:
            break

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Usage: " in done.stdout
    assert min(seconds) < 0.5


def test_without_a_command_the_help_is_shown() -> None:
    """With the status of a missing command; `--version` succeeds."""
    assert call().returncode == 2
    assert call("--version").stdout.strip().startswith(b"vllm-runbooks, version ")


def test_the_same_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    """`main` leaves with the status; the help names every command."""
    assert run(capsys)[0] == 2
    status, out, _ = run(capsys, "--help")
    with pytest.raises(SystemExit) as left:
        cli.main(["catalog", "check", "--nothing"])

    assert (status, left.value.code) == (0, 2)
    assert all(f"  {name} " in out for name in ("catalog", "check", "diagnose", "list", "run", "show", "site"))


def test_output_that_cannot_be_shown_or_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Escapes for a poor terminal; silence for a reader that went away."""
    poor = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", poor)
    output.write_json('{"a": "\u00e9\U0001f600"}')
    output.write("caf\u00e9")

    assert poor.buffer.getvalue() == b'{"a": "\\u00e9\\ud83d\\ude00"}\ncaf\\xe9\n'

    class Gone(io.TextIOWrapper):
        def flush(self) -> None:
            raise BrokenPipeError

    with (tmp_path / "pipe").open("wb") as file:
        gone = Gone(io.FileIO(os.dup(file.fileno()), "w"), encoding="utf-8", write_through=True)
        monkeypatch.setattr("sys.stdout", gone)
        output.write("words")
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            gone.close()


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the status of a signal."""
    monkeypatch.setattr(sources, "load_files", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    status, out, err = run(capsys, "diagnose", "x")

    assert (status, out, err.strip()) == (130, "", "vllm-runbooks: interrupted")


def test_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Root cause and first fix, or everything on request."""
    status, out, err = run(capsys, "diagnose", "autoglm-3090-video-oom", "--vllm", "0.16.0")

    assert (status, err) == (1, "")
    assert "vLLM 0.16.0 (given)" in out
    assert "✗ CUDA out of memory in the multimodal encoder" in out
    assert "  Fix   --limit-mm-per-prompt" in out
    assert "FIXES" not in out
    explained = run(capsys, "diagnose", "autoglm-3090-video-oom", "--vllm", "0.16.0", "--explain")[1]
    assert "limit_mm_per_prompt leaves video unlimited" in explained
    assert "FIXES, best first" in explained
    assert "  Fix   " not in explained  # the first of the list, not printed twice


# ----- catalog


@pytest.mark.full
def test_the_shipped_catalog_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it, and one file of each kind alone."""
    status, out, _ = run(capsys, "catalog", "check")

    assert status == 0
    assert re.search(r"^\d+ files checked, 0 problems$", out.strip())
    root = folders.catalog_dir()
    for name in ("lines.yaml", "patterns.yaml", "classes.yaml", "captures.yaml", "symptoms/port.in_use.yaml"):
        assert run(capsys, "catalog", "check", str(root / name))[:2] == (0, f"{root / name}: good\n")


def test_a_folder_with_problems_is_status_1_and_a_line_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By file, line and field; a broken file does not hide the next."""
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "a.b.yaml").write_text("- a\n")
    (tmp_path / "symptoms" / "c.d.yaml").write_text("id: c.d\nid: c.d\n")
    cases = {"gone": "", "other": "id: mine\n", "bad": "id: bad\n", "binary": "id: binary\n"}
    for name, text in cases.items():
        folder = tmp_path / "cases" / name
        folder.mkdir(parents=True)
        (folder / "x.log").write_bytes(b"\x7fELF" if name == "binary" else PORT.encode())
        if text:
            more = "" if name == "bad" else "title: t\nsource: s\nfiles: [x.log]\nexpect: {outcome: failed}\n"
            (folder / "case.yaml").write_text(text + more)
    status, out, err = run(capsys, "catalog", "check", "--dir", str(tmp_path))
    lines = out.splitlines()

    assert (status, err) == (1, "")
    assert lines[-1] == f"6 files checked, {len(lines) - 1} problems"
    for beginning in (
        "symptoms/a.b.yaml:1: (file): input should be an object",
        "symptoms/c.d.yaml:2:1: not YAML: found duplicate key",
        "cases/gone/case.yaml: cannot be read: No such file or directory",
        "cases/other/case.yaml:1: id: is 'mine', but the folder's name is 'other'",
        "cases/bad/case.yaml:1: title: is missing",
        "cases/binary/case.yaml:1: files: ",
    ):
        assert [line for line in lines if line.startswith(beginning)], beginning


def test_broken_tables_are_named_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Not once for every symptom that uses them."""
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "a.b.yaml").write_text("a: b\n")
    (tmp_path / "patterns.yaml").write_text("a: b\n")
    status, out, _ = run(capsys, "catalog", "check", "--dir", str(tmp_path))

    assert status == 1
    assert out == "patterns.yaml:1: a: must be a list of patterns\n2 files checked, 1 problems\n"


def test_several_files_are_checked_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Like a folder: a line for each problem, status 1."""
    good = folders.catalog_dir() / "symptoms" / "port.in_use.yaml"
    (tmp_path / "bad.yaml").write_text("[")
    status, out, _ = run(capsys, "catalog", "check", str(good), str(tmp_path / "bad.yaml"))

    assert status == 1
    assert out.splitlines()[0].startswith(f"{tmp_path / 'bad.yaml'}:")
    assert out.splitlines()[1] == "2 files checked, 1 problems"


FILLED = {
    "title: TODO the fault in a few words, never the fix": "title: The lunch is cold",
    "TODO the words that are always printed, (?P<": "lunch is cold, (?P<",
    "text: 'TODO a line as the software prints it'": "text: 'ValueError: lunch is cold, 3.5 GiB'",
    "source: TODO the recorded run it comes from, or release, file and line of the template": "source: ours",
    "captures: {}": "captures: {need_gib: '3.5'}",
    "text: 'TODO the line most easily confused with it'": "text: 'lunch is warm'",
    "why: TODO what that line means instead": "why: it is warm",
    "TODO what the software does, and why it fails here.": "It waited too long.",
    "TODO what happened, without a figure.": "The lunch is cold.",
    "TODO the same with this log's numbers.": "'{need} of it are cold.'",
    "do_first: TODO one action.": "do_first: Warm it.",
    "confirm: TODO what to look at, and what it shows if this is the cause.": "confirm: It is cold.",
    "refute: TODO what it shows if this is not the cause.": "refute: It is warm.",
}


def test_a_scaffold_is_rejected_only_because_of_its_todos(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Once they are filled it is valid and works."""
    folder = tmp_path / "own" / "symptoms"
    status, out, _ = run(capsys, "catalog", "new", "host.oom_killed.lunch", "--dir", str(folder))
    path = folder / "host.oom_killed.lunch.yaml"

    assert (status, out.split(":")[0]) == (0, str(path))
    assert run(capsys, "catalog", "new", "host.oom_killed.lunch", "--dir", str(folder))[0] == 2
    _, _, err = run(capsys, "catalog", "check", str(path))
    said = err.strip().removeprefix("vllm-runbooks: ").split("; " + str(path))
    assert len(said) == len(FILLED) - 1
    assert all("still says TODO" in problem for problem in said)

    text = path.read_text()
    for todo, filled in FILLED.items():
        assert text.count(todo) == 1, todo
        text = text.replace(todo, filled)
    assert "TODO" not in text
    path.write_text(text)
    assert run(capsys, "catalog", "check", str(path)) == (0, f"{path}: good\n", "")
    assert run(capsys, "catalog", "check", "--dir", str(tmp_path / "own"))[:2] == (0, "1 files checked, 0 problems\n")

    (tmp_path / "a.log").write_text("ValueError: lunch is cold, 3.5 GiB\n")
    status, out, err = run(
        capsys, "diagnose", str(tmp_path / "a.log"), "--catalog", str(tmp_path / "own"), "--format", "json"
    )
    cause = json.loads(out)["root_cause"]
    assert (status, err) == (1, "")
    assert (cause["symptom"], cause["class"]) == ("host.oom_killed.lunch", "host.oom_killed")
    assert cause["explanation"] == "The lunch is cold. 3.5 GiB of it are cold."


def test_a_scaffold_with_a_new_class_is_a_hint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only classes in classes.yaml may be fatal."""
    (tmp_path / "schema").mkdir()
    run(capsys, "catalog", "new", "dist.lunch", "--dir", str(tmp_path / "symptoms"))
    text = (tmp_path / "symptoms" / "dist.lunch.yaml").read_text()

    assert "\nseverity: hint " in text
    assert "$schema=../schema/symptom.json" in text


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_broken_file_in_your_catalog_is_named_and_skipped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, log: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Answer and status are the same."""
    (tmp_path / "own" / "symptoms").mkdir(parents=True)
    (tmp_path / "own" / "symptoms" / "a.b.yaml").write_text("id: [")
    arguments = ["--catalog", str(tmp_path / "own")] if way == "option" else []
    if way == "environment":
        monkeypatch.setenv("VLLM_RUNBOOKS_CATALOG", str(tmp_path / "own"))
    status, out, err = run(capsys, "diagnose", log, "--format", "json", *arguments)

    assert (status, json.loads(out)["root_cause"]["symptom"]) == (1, "port.in_use")
    assert err.startswith(f"vllm-runbooks: skipped: {tmp_path}/own/symptoms/a.b.yaml:1:6: not YAML: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_symptoms_are_listed(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Id, severity and title of each."""
    status, out, _ = run(capsys, "catalog", "list", "--format", form)
    ids = (
        [row["id"] for row in json.loads(out)["symptoms"]]
        if form == "json"
        else [x.split()[0] for x in out.splitlines()]
    )

    assert status == 0
    assert ids == sorted(catalog.load_catalog().symptoms)


def test_the_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With words only those that have all of them; a model of which `plan` reads the rest from the Hub says so."""
    status, out, _ = run(capsys, "catalog", "list", "--models", "qwen3", "8B")
    assert status == 0
    assert re.search(r"^Qwen/Qwen3-8B-AWQ +Qwen3ForCausalLM$", out, re.MULTILINE)
    assert all("qwen3" in line.casefold() and "8b" in line.casefold() for line in out.splitlines())
    rows = json.loads(run(capsys, "catalog", "list", "--models", "--format", "json")[1])["models"]
    assert len(rows) == len(catalog.specs().texts)
    assert any(row["is_partial"] and row["title"].endswith(", incomplete configuration") for row in rows)
    assert "none of the catalog's models has qwen99" in run(capsys, "catalog", "list", "--models", "qwen99")[2]
    assert run(capsys, "catalog", "list", "--models", "--gpus")[0] == 2


def test_the_gpus_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """As the message about an unknown GPU promises."""
    assert re.search(r"^RTX3090 +24 GiB$", run(capsys, "catalog", "list", "--gpus")[1], re.MULTILINE)
    rows = json.loads(run(capsys, "catalog", "list", "--gpus", "--format", "json")[1])["gpus"]
    assert {"id": "A100-80GB", "title": "80 GiB", "memory_gib": 80.0} in rows
    refused = run(capsys, "plan", "Qwen/Qwen3-8B", "--gpus", "RTX3091")[2]
    assert "did you mean RTX3090 or RTX3090Ti? `vllm-runbooks catalog list --gpus` lists all names" in refused
    assert run(capsys, "catalog", "list", "--gpus", "--policies")[0] == 2


@pytest.mark.slow
def test_schemas_are_written_and_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Outdated ones are named; the shipped ones are current."""
    names = ", ".join(json_schemas.schemas())

    assert run(capsys, "catalog", "schemas", "--dir", str(tmp_path), "--check")[:2] == (
        1,
        f"{tmp_path}: {names} stale\n",
    )
    assert run(capsys, "catalog", "schemas", "--dir", str(tmp_path))[:2] == (0, f"{tmp_path}: {names} written\n")
    assert run(capsys, "catalog", "schemas", "--dir", str(tmp_path))[:2] == (0, f"{tmp_path}: up to date\n")
    assert run(capsys, "catalog", "schemas", "--check")[0] == 0


def test_schemas_of_a_release_are_written_to_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a known release alone; without a folder nothing is written."""
    status, out, _ = run(capsys, "catalog", "schemas", "--vllm", "v0.19.0+cu129", "--dir", str(tmp_path))

    assert (status, len(out.splitlines())) == (0, 1)
    assert (tmp_path / "vllm-serve-0.19.0.json").is_file()
    assert run(capsys, "catalog", "schemas", "--vllm", "0.19.0", "--dir", str(tmp_path), "--check")[0] == 0
    assert run(capsys, "catalog", "schemas", "--vllm", "0.19.0")[::2] == (
        2, "vllm-runbooks: --vllm requires --dir. See `vllm-runbooks catalog schemas --help`.\n",
    )  # fmt: skip
    assert "is not a vLLM version" in run(capsys, "catalog", "schemas", "--vllm", "x", "--dir", str(tmp_path))[2]
    unknown = run(capsys, "catalog", "schemas", "--vllm", "0.20.0", "--dir", str(tmp_path))
    assert unknown[::2] == (2, "vllm-runbooks: the catalog has no release 0.20.0; the nearest is 0.20.2\n")


def test_the_scaffold_has_every_field_that_is_needed() -> None:
    """It is filled by formatting, so its braces must be right."""
    text = catalog_cli._SCAFFOLD.format(id="a.b", schema="s", severity="hint", date="2026-11-20")

    assert "{need} is need_gib with its unit" in text
    assert "(?P<need_gib>[\\d.]{1,12}) GiB" in text


# ----- the source documents


def cut(page: Path, *marks: str) -> str:
    """A page's fenced blocks with one of the marks."""
    blocks = re.split(r"^\s{0,3}(?:```|~~~).*$", page.read_text(encoding="utf-8", errors="replace"), flags=re.MULTILINE)
    return "\n".join(block for block in blocks[1::2] if any(mark in block for mark in marks))


def documents_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / "cut.md").write_text(text, encoding="utf-8")
    status, out, err = run(capsys, "diagnose", str(tmp_path / "cut.md"), "--format", "json")
    assert err == ""
    answer: dict[str, Any] = json.loads(out)
    return status, answer


def test_document_1_is_the_encoder(capsys: pytest.CaptureFixture[str], tmp_path: Path, seeds: Path) -> None:
    """Video: 698 MiB requested, 22.08 of 23.56 GiB allocated."""
    text = (seeds / "single-gpu-oom-and-8x3090-split.md").read_text(encoding="utf-8")
    status, answer = documents_answer(capsys, tmp_path, text)
    cause = answer["root_cause"]

    assert (status, answer["outcome"], cause["class"], cause["level"]) == (
        1, "failed", "oom.multimodal_encoder", "confirmed",
    )  # fmt: skip
    wanted = {"modality": "video", "tried_mib": "698.00", "allocated_gib": "22.08", "total_gib": "23.56"}
    assert wanted.items() <= cause["captures"].items()
    edit = answer["remedies"][0]["edits"][0]
    assert (edit["op"], edit["name"], edit["value"]["video"]) == ("set", "limit_mm_per_prompt", 0)


def test_document_2_is_the_race_and_then_a_healthy_launch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seeds: Path
) -> None:
    """41.19 to 41.64 GiB; then 0.93 GiB, 1,721,888 tokens, 52.55x."""
    page = seeds / "shared-gpu-memory-profiling.md"
    status, first = documents_answer(capsys, tmp_path, cut(page, "Error in memory profiling"))
    captures = first["root_cause"]["captures"]
    _, second = documents_answer(capsys, tmp_path, cut(page, "1,721,888"))

    assert (status, first["root_cause"]["class"]) == (1, "mem.profiling_assertion")
    assert (captures["initial_gib"][:5], captures["current_gib"][:5]) == ("41.19", "41.64")
    assert (second["outcome"], second["root_cause"]) == ("ready", None)
    facts = second["facts"]
    assert (facts["weights_gib"], facts["kv_cache_tokens"], facts["max_concurrency"]) == (0.93, 1721888, 52.55)


def test_document_3_is_four_healthy_launches(capsys: pytest.CaptureFixture[str], tmp_path: Path, seeds: Path) -> None:
    """Each with the figures in the page's own table."""
    text = (seeds / "gpt-oss-and-gemma-on-a100.md").read_text(encoding="utf-8")
    status, answer = documents_answer(capsys, tmp_path, text)
    wanted = [
        (13.72, 36.56, 798624, 11.99),
        (48.5, 21.5, 93936, 6.96),
        (25.7, 24.45, 106800, 4.37),
        (58.9, 15.18, 16576, 1.23),
    ]
    got = []
    for number in range(1, len(answer["starts"]) + 1):
        _, out, _ = run(capsys, "diagnose", str(tmp_path / "cut.md"), "--start", str(number), "--format", "json")
        facts = json.loads(out)["facts"]
        got.append((facts["weights_gib"], facts["kv_cache_gib"], facts["kv_cache_tokens"], facts["max_concurrency"]))

    assert (status, [s["outcome"] for s in answer["starts"]]) == (0, ["running"] * 4)
    assert [(round(w, 2), *rest) for w, *rest in got] == wanted


def test_document_4_ran_on_one_host(capsys: pytest.CaptureFixture[str], tmp_path: Path, seeds: Path) -> None:
    """TP=2, 40,269 blocks, 5033.62x, with mp."""
    text = (seeds / "multi-node-ray.md").read_text(encoding="utf-8")
    status, answer = documents_answer(capsys, tmp_path, text)
    facts = answer["facts"]

    assert (status, answer["root_cause"]) == (0, None)
    assert (facts["tensor_parallel_size"], facts["kv_cache_blocks"], facts["max_concurrency"]) == (2, 40269, 5033.62)
    assert facts["executor_backend"] == "mp"
    assert "dist.one_host" in [f["symptom"] for f in answer["findings"]]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the host has no /dev/full")
def test_an_answer_that_cannot_be_printed_is_an_error(log: str) -> None:
    """With a full disk as output: one line, and the status of invalid input."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vllm_runbooks", "diagnose", log],
            check=False, stdout=full, stderr=subprocess.PIPE, timeout=60,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "vllm-runbooks: standard output cannot be written: No space left on device; check the disk space"
    ]


def test_a_closed_output_is_reported(log: str) -> None:
    """In one line without a traceback."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m vllm_runbooks diagnose {log} >&-"],
        check=False, stderr=subprocess.PIPE, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"standard output is closed" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx"],
        ["run", "single-gpu-oom", "-p", "start", "hf_abcdefghijklmnopqrstuvwx"],
    ],
    ids=["a pasted line for a file", "a value of the wrong type"],
)  # fmt: skip
def test_rejected_input_is_not_echoed_with_its_secrets(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A misplaced token is replaced in the message too."""
    status, out, error = run(capsys, *arguments)

    assert (status, out) == (2, "")
    assert "hf_abc" not in error
    assert "[secret-" in error


def test_an_impossible_path_is_status_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With the path and a fix."""
    status, out, error = run(capsys, "catalog", "new", "storage.disk_full", "--dir", "/proc/none")

    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "/proc/none: " in error


def test_an_invalid_timeout_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    """`nan` seconds are not a timeout."""
    status, out, error = run(capsys, "run", "single-gpu-oom", "--timeout", "nan")

    assert (status, out) == (2, "")
    assert "nan is not a number of seconds" in error


def test_shipped_cases_do_not_count_for_your_own_runbooks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`check --runbooks DIR` with an unused runbook has nothing to do, and says so."""
    shipped = folders.runbooks_dir() / "single-gpu-oom.ipynb"
    mine = json.loads(shipped.read_text(encoding="utf-8"))
    mine["metadata"]["runbook"]["id"] = "mine"
    (tmp_path / "mine.ipynb").write_text(json.dumps(mine), encoding="utf-8")

    status, out, error = run(capsys, "check", "--runbooks", str(tmp_path), "--out", str(tmp_path / "out"))

    assert (status, out) == (2, "")
    assert "no recorded case uses one of these runbooks" in error


def test_a_broken_file_in_your_catalog_is_named_once(
    capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    """In one line, for any number of wrong fields."""
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "port.mine.yaml").write_text("a: 1\n", encoding="utf-8")

    _, _, error = run(capsys, "diagnose", "--catalog", str(tmp_path), log)

    assert error.count("\n") == 1
    assert "skipped: " in error
    assert " more; `vllm-runbooks catalog check` lists all)" in error


CONVERTED = """\
export HF_TOKEN={token}
export VLLM_LOGGING_LEVEL=DEBUG
nohup vllm serve Qwen/Qwen3-8B --api-key second-secret-value-2 --port 8001 --max-model-len 8k \\
  --chat-template '{{% if x %}}"a"$b{{% endif %}}' --limit-mm-per-prompt '{{"image": 2}}' > log 2>&1 &
"""


@pytest.mark.parametrize(("to", "expected"), [("shell", 0), ("docker", 0), ("compose", 0), ("systemd", 0)])
def test_a_launch_is_converted_to_another_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, to: str, expected: int
) -> None:
    """With the same options and variables when read; secrets are references, the rest is noted."""
    token = "hf_" + "AbCdEfGh1234567890IjKlMnOp"
    text = CONVERTED.format(token=token)
    script = tmp_path / "run.sh"
    script.write_text(text)
    name = {"compose": "compose.yaml", "systemd": "vllm.service"}.get(to, "serve.sh")
    target = tmp_path / name
    status = cli.run(["convert", str(script), "--to", to, "--vllm", "0.19.0"])
    out, err = capsys.readouterr()
    status_again = cli.run(["convert", str(script), "--to", to, "--vllm", "0.19.0", "-o", str(target)])
    before = checking.lint_text(text, vllm="0.19.0").deployments[0]
    after = checking.lint_text(out, name=name, vllm="0.19.0").deployments[0]
    hidden = {"api_key", "HF_TOKEN", "VLLM_API_KEY"}

    assert (status, status_again) == (expected, expected)
    assert target.read_text() == out
    assert token not in out + err
    assert "second-secret" not in out + err
    assert {k: v for k, v in before.flags.items() if k not in hidden} == {
        k: v for k, v in after.flags.items() if k not in hidden
    }
    assert before.model == after.model
    assert [{k: v for k, v in one.env.items() if k not in hidden} for one in (before, after)] == [
        {"VLLM_LOGGING_LEVEL": "DEBUG"}
    ] * 2
    assert "HF_TOKEN" in err
    assert ("vllm/vllm-openai:v0.19.0" in out) is (to in ("docker", "compose"))


def test_input_that_cannot_be_converted_is_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One line on standard error, and no output."""
    script = tmp_path / "run.sh"
    script.write_text("vllm serve m &\nvllm serve n &\n")
    (tmp_path / "none.sh").write_text("echo\n")
    (tmp_path / "call.py").write_text("from vllm import LLM\nLLM('m')\n")
    for arguments in (
        (str(script),),
        (str(script), "--to", "ham"),
        (str(script), "--to", "shell", "--vllm", "banana"),
        (str(script), "--to", "shell", "--start", "3"),
        (str(tmp_path / "no.sh"), "--to", "shell"),
        (str(tmp_path), "--to", "shell"),
        (str(tmp_path / "none.sh"), "--to", "shell"),
        (str(tmp_path / "call.py"), "--to", "shell"),
        ("/bin/ls", "--to", "shell"),
    ):
        status = cli.run(["convert", *arguments])
        out, err = capsys.readouterr()

        assert (status, out) == (2, ""), arguments
        assert len(err.splitlines()) == 1


def test_parts_without_an_equivalent_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Mounts, other launches, and an address that is unreachable outside a container."""
    script = tmp_path / "run.sh"
    script.write_text(
        "docker run -v /data:/data --shm-size 10g vllm/vllm-openai:v0.19.0 --model m --host 127.0.0.1\nvllm serve n\n"
    )
    cli.run(["convert", str(script), "--to", "compose"])
    _, err = capsys.readouterr()

    assert "first of 2 launches" in err
    assert "not converted: -v /data:/data" in err
    assert "not converted: --shm-size 10g" in err
    assert "not reachable from outside" in err


def test_the_command_of_a_log_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A text without a launch is rejected; of several, the answer names the one in use."""
    log = str(folders.catalog_dir() / "cases" / "autoglm-3090-video-oom" / "startup.log")
    (tmp_path / "none.sh").write_text("echo\n")
    (tmp_path / "two.sh").write_text("vllm serve a &\nvllm serve b &\n")

    assert cli.run(["diagnose", log, "--command", str(tmp_path / "none.sh")]) == 2
    assert "no vLLM launch found" in capsys.readouterr().err
    assert cli.run(["diagnose", log, "--command", str(tmp_path / "two.sh")]) == 1
    assert "contains 2 launches" in " ".join(capsys.readouterr().out.split())


def test_a_misspelt_subcommand_is_a_launch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The command is not rejected for the fault that the log reports; the first fix replaces the word."""
    log, script = tmp_path / "server.log", tmp_path / "launch.sh"
    log.write_text("vllm: error: argument subparser: invalid choice: 'srve' (choose from 'chat', 'serve', 'bench')\n")
    script.write_text("nohup vllm srve a/b --max-model-len 4096\n")

    assert cli.run(["diagnose", str(log), "--command", str(script), "--format", "json", "--vllm", "0.32.0"]) == 1
    first = json.loads(capsys.readouterr().out)["remedies"][0]
    assert (first["title"], first["command"]) == ("Run vllm serve", "nohup vllm serve a/b --max-model-len 4096\n")
    assert cli.run(["diagnose", str(log), "--explain"]) == 1
    assert "subparser serve" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [("lint", "--", "vllm", "serve", "m"), ("plan", "Qwen/Qwen3-8B", "--gpus", "2xRTX3090"), ("diagnose", "none.log"),
     ("probe", "--help"), ("record", "--help"), ("check", "--help"), ("inventory", "--help")],
    ids=lambda command: command[0],
)  # fmt: skip
def test_a_command_imports_only_the_packages_it_needs(command: tuple[str, ...], tmp_path: Path) -> None:
    """So that it starts quickly."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    layers = next(each["layers"] for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    own = cli._COMMANDS[command[0]][0].partition(".")[0]
    above = layers[1 : layers.index(own)]
    code = "import sys; from vllm_runbooks import cli; cli.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, cwd=tmp_path, check=True
    )

    loaded = {name.split(".")[1] for name in done.stderr.split() if name.startswith("vllm_runbooks.")}
    assert loaded & set(above) == set()


@pytest.mark.parametrize("completed", [False, True])
def test_version_and_completion_load_a_few_modules_only(*, completed: bool) -> None:
    """So that a key press in a shell costs little."""
    code = "import sys; from vllm_runbooks import cli; cli.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    words = {"_VLLM_RUNBOOKS_COMPLETE": "bash_complete", "COMP_WORDS": "vllm-runbooks\nli", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True,
        env=os.environ | (words if completed else {}),
    )  # fmt: skip

    assert ("lint" in done.stdout) == completed
    loaded = [name for name in done.stderr.split() if name.startswith("vllm_runbooks.")]
    assert len(loaded) <= 12
    assert "vllm_runbooks.core.records" not in loaded
