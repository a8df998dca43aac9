"""A recording becomes a case that `check` runs, without secrets or leftover processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pace import scaled
from vllm_runbooks import cli
from vllm_runbooks.catalog import folders
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import CaseKind, Document, Evidence, Expectation
from vllm_runbooks.core.records import Outcome, Verdict
from vllm_runbooks.core.redaction.redact import Redactor
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.host import processes, running
from vllm_runbooks.probe.starts import Attempt, Guarded
from vllm_runbooks.reading import sources
from vllm_runbooks.runbooks import case_files, recording
from vllm_runbooks.serve import guard

PORT = "OSError: [Errno 98] Address already in use"
TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7"
PASSWORD = "correct-horse-77"  # noqa: S105 - made up
READY = "INFO:     Application startup complete."
CASES = sorted(
    path.parent.name
    for path in folders.cases_dir().glob("*/case.yaml")
    if (case := case_files.load_case(path.parent)).files and case.kind is not CaseKind.JOB  # a question has none
)


def run(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, str, str]:
    """The command line in this process."""
    status = cli.run(list(arguments))
    captured = capfdbinary.readouterr()
    return status, captured.out.decode(), captured.err.decode()


def shell(script: str) -> list[str]:
    """A command of the user's."""
    return ["sh", "-c", script]


def background(tmp_path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The command as a whole process."""
    with (tmp_path / "shown").open("wb") as shown:
        return subprocess.Popen([sys.executable, "-m", "vllm_runbooks", *arguments], stdout=shown, stderr=shown)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something has happened."""
    until = time.monotonic() + scaled(30)
    while not condition():
        assert time.monotonic() < until, "it did not happen within 30 s"
        time.sleep(0.02)


def alive(mark: str) -> list[str]:
    """Command lines of the processes that name this mark, but for the recorder's own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line and " vllm_runbooks" not in line and path.parent.name != str(os.getpid()):
            found.append(line)
    return found


# ----- record


@pytest.mark.slow
def test_a_command_becomes_a_valid_case(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Both streams in order; status 0 for any exit of the command; the printed command works."""
    out = tmp_path / "cases" / "my-start"
    status, shown, err = run(
        capfdbinary, "record", "--out", str(out), "--", *shell(f"echo one; echo '{PORT}' >&2; echo three; exit 3")
    )
    case = case_files.load_case(out)

    assert (status, err) == (0, "")
    assert shown.startswith(f"one\n{PORT}\nthree\n{out}: written (startup.log, case.yaml)\n")
    assert "  Command    ended with exit status 3, after 0 s\n" in shown
    assert "  Diagnosis  failed, port.in_use (confirmed): " in shown
    assert (out / "startup.log").read_text() == f"one\n{PORT}\nthree\n"
    assert sorted(p.name for p in out.parent.iterdir()) == ["my-start"]
    assert (case.id, case.expect.outcome, case.expect.class_) == ("my-start", "failed", "port.in_use")
    assert case.source.endswith(
        f"exit status 3: {shell('')[0]} -c 'echo one; echo '\"'\"'{PORT}'\"'\"' >&2; echo three; exit 3'"
    )
    assert "not reviewed" in (out / "case.yaml").read_text()
    assert cli.run(["catalog", "check", str(out / "case.yaml")]) == 0
    (told,) = re.findall(r"  Test       vllm-runbooks (check .*)\n", shown)
    assert cli.run([*told.split(), "--out", str(tmp_path / "report")]) == 0


@pytest.mark.parametrize(
    "id_", [case if at % 20 == 0 else pytest.param(case, marks=pytest.mark.slow) for at, case in enumerate(CASES)]
)
def test_a_recording_expects_its_diagnosis(id_: str, tmp_path: Path) -> None:
    """The case of any log passes with its facts, and is stored as read."""
    written = recording.record_logs(tmp_path / "case", sources.load(id_))
    evidence = sources.load(str(tmp_path / "case"))

    assert written.verdict.verdict is Verdict.PASS
    assert diagnosing.verdict(diagnosing.diagnose(evidence), evidence).verdict is Verdict.PASS
    assert evidence.case == written.case
    assert written.case.runbooks == ["shared-gpu-profiling" if id_.startswith("qwen-a100-") else "single-gpu-oom"]


def test_secrets_are_replaced_while_recording(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """In output, log and command; an option's secret is also recognized elsewhere."""
    out = tmp_path / "case"
    script = f"echo {PASSWORD} is mine; echo token {TOKEN}; echo again {TOKEN}; : --api-key {PASSWORD}"
    status, shown, _ = run(capfdbinary, "record", "--out", str(out), "--", *shell(script))
    written = (out / "startup.log").read_text() + (out / "case.yaml").read_text()
    named = re.findall(r"token (\S+)\nagain (\S+)\n", written)

    assert status == 0
    assert [secret for secret in (TOKEN, PASSWORD) if secret in shown + written] == []
    assert [first == second for first, second in named] == [True]
    assert re.search(r"  Secrets    \d+ replaced \(.*\d+ huggingface.*\)\n", shown)


KEY_LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1bC", "Zz9Yx8Wv7Uu6Tt5Ss4=="]
SPLIT = [
    ("--api-key \\", f"  {PASSWORD} \\", "  --port 1"),
    ("api_key:", f"  - {PASSWORD}", "port: 1"),
    ("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"),
    ("-----BEGIN PRIVATE KEY-----", *KEY_LINES, "Loading the certificate"),
]


@pytest.mark.slow
@pytest.mark.parametrize("lines", SPLIT)
def test_a_secret_in_several_writes_is_not_shown(lines: tuple[str, ...]) -> None:
    """The begin in one write is remembered for the next."""
    shown: list[bytes] = []
    script = "import sys, time\nfor line in sys.argv[1:]:\n    print(line, flush=True)\n    time.sleep(0.05)"
    output = recording.run_command([sys.executable, "-c", script, *lines], show=shown.append)
    text = b"".join(shown).decode()

    assert output.raw.decode().splitlines() == list(lines)
    assert [part for part in (PASSWORD, *KEY_LINES) if part in text] == []
    assert "[secret-" in text
    assert text.splitlines()[-1] in (lines[-1], "[secret-4]")


def test_a_secret_in_a_file_name_is_recognized_in_the_log(tmp_path: Path) -> None:
    """Log, file names, title and source have the same placeholder."""
    documents = (Document(f"api_key={PASSWORD}.log", f"{PORT}\n"), Document("b.log", f"no {TOKEN}, no {PASSWORD}\n"))
    written = recording.add_case(tmp_path / "case", Evidence(documents), Expectation(class_="port.in_use"))
    text = "".join(p.name + p.read_text() for p in (tmp_path / "case").iterdir())

    assert [secret for secret in (PASSWORD, TOKEN) if secret in text] == []
    assert written.case.files == ["api_key__secret-1_.log", "b.log"]
    assert written.case.title == "api_key=[secret-1].log: port.in_use"
    assert "from api_key=[secret-1].log, b.log" in written.case.source
    assert (tmp_path / "case" / "b.log").read_text() == "no [secret-2], no [secret-1]\n"


def test_a_recording_survives_a_failed_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output cannot be repeated: the log is kept without a case, and its place is printed."""

    def crash(_: Evidence) -> None:
        raise IndexError("out of range")

    def interrupt(_: Evidence) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnosing, "diagnose", crash)
    with pytest.raises(RunbooksError, match=r"crashed: contains the log, but no case .* \(IndexError: out of range\)"):
        recording.record_command(tmp_path / "crashed", ["echo", TOKEN], show=lambda _: None)
    with pytest.raises(IndexError):
        recording.record_logs(tmp_path / "read", Evidence((Document("a.log", PORT),)))
    monkeypatch.setattr(diagnosing, "diagnose", interrupt)
    with pytest.raises(KeyboardInterrupt):
        recording.record_command(tmp_path / "interrupted", ["echo", PORT], show=lambda _: None)

    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*")) == [
        "crashed/startup.log",
        "interrupted/startup.log",
    ]
    assert (tmp_path / "crashed" / "startup.log").read_text() == "[secret-1]\n"


def test_a_case_that_cannot_be_read_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any error after the diagnosis too."""

    def refuse(_: Path) -> None:
        raise InputError("case.yaml:1: is none")

    monkeypatch.setattr(case_files, "load_case", refuse)
    with pytest.raises(RunbooksError, match=r"no case could be created \(InputError: case\.yaml:1: is none\)"):
        recording.record_command(tmp_path / "a", ["echo", PORT], show=lambda _: None)

    assert [p.name for p in (tmp_path / "a").iterdir()] == ["startup.log"]


@pytest.mark.parametrize(
    ("symptoms", "runbooks"),
    [
        (["mem.profiling_assertion", "engine.v0_claimed"], ["shared-gpu-profiling"]),
        (["oom.weights", "engine.v0_claimed"], ["single-gpu-oom", "shared-gpu-profiling"]),
        (["mem.free_below_utilization.external_weights"], ["single-gpu-oom"]),
        (["oom.weights"], ["single-gpu-oom"]),
        (["port.in_use"], ["single-gpu-oom"]),
        ([], ["single-gpu-oom"]),
    ],
)
def test_a_recording_names_suitable_runbooks(symptoms: list[str], runbooks: list[str]) -> None:
    """By its findings; otherwise the most general one, which reads any log."""
    assert recording._runbooks(symptoms) == runbooks


@pytest.mark.slow
@pytest.mark.parametrize("id_", ["qwen-a100-shared-gpu-race", "autoglm-3090-video-oom"])
def test_a_failed_launch_is_recorded_checked_and_reported(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], id_: str
) -> None:
    """A failing command with a vLLM log; `check` runs the case by its folder or its parent."""
    log = folders.cases_dir() / id_ / "startup.log"
    script = f"import sys; sys.stdout.write(open({str(log)!r}).read()); sys.exit(1)"
    out = tmp_path / "cases" / "mine"
    status, shown, _ = run(capfdbinary, "record", "--out", str(out), "--", sys.executable, "-c", script)
    case = case_files.load_case(out)
    for cases in (out, out.parent):
        report = tmp_path / f"report-{cases.name}"
        checked, said, _ = run(capfdbinary, "check", "--cases", str(cases), "--out", str(report))

        assert (status, checked) == (0, 0), said
        assert f"  Test       vllm-runbooks check --cases {out}\n" in shown
        assert case.title in (report / "index.html").read_text()
        assert [p.name for p in report.glob("*.ipynb")] == [f"{case.runbooks[0]}--mine.ipynb"]


@pytest.mark.slow
def test_output_is_shown_immediately(tmp_path: Path) -> None:
    """Line by line, long before the command ends."""
    out = tmp_path / "case"
    recorder = background(tmp_path, "record", "--out", str(out), "--", *shell(f"echo '{READY}'; sleep 60"))
    wait_for(lambda: READY in (tmp_path / "shown").read_text())

    assert not out.exists()
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(30) == 0


SERVER = """
import os, signal, subprocess, sys, time
mark, kind = sys.argv[1:]
if kind == "stubborn":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
# One child in the group, one that has left it and its parent.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)", mark])
subprocess.run(["setsid", "-f", sys.executable, "-c", "import time; time.sleep(99)", mark])
print("INFO:     Application startup complete.", flush=True)
try:
    time.sleep(99)
except KeyboardInterrupt:
    print("INFO:     Shutting down", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tame", "stubborn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_server_becomes_a_case(tmp_path: Path, kind: str, number: signal.Signals) -> None:
    """The signal is passed on; all processes end within five seconds, and the case is written."""
    mark = f"{tmp_path}/{kind}"
    out = tmp_path / "case"
    recorder = background(tmp_path, "record", "--out", str(out), "--", sys.executable, "-c", SERVER, mark, kind)
    wait_for(lambda: READY in (tmp_path / "shown").read_text())
    began = time.monotonic()
    recorder.send_signal(number)
    wait_for(lambda: alive(mark) == [])
    seconds = time.monotonic() - began
    status = recorder.wait(30)

    assert seconds < scaled(5)
    assert (status, alive(mark)) == (0, [])
    assert f"was stopped by {number.name}" in case_files.load_case(out).source
    said_goodbye = "Shutting down" in (out / "startup.log").read_text()
    assert said_goodbye == (kind == "tame" and number == signal.SIGINT)


@pytest.mark.slow
def test_a_second_interrupt_ends_immediately(tmp_path: Path) -> None:
    """The case is still written."""
    out = tmp_path / "case"
    recorder = background(
        tmp_path, "record", "--out", str(out), "--", sys.executable, "-c", SERVER, f"{tmp_path}/x", "stubborn"
    )
    wait_for(lambda: READY in (tmp_path / "shown").read_text())
    began = time.monotonic()
    recorder.send_signal(signal.SIGINT)
    time.sleep(0.3)
    recorder.send_signal(signal.SIGINT)
    wait_for(lambda: alive(f"{tmp_path}/x") == [])

    assert time.monotonic() - began < scaled(2.5)
    assert recorder.wait(30) == 0


@pytest.mark.slow
def test_a_recorder_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """No process, no half of a case."""
    mark = f"{tmp_path}/x"
    recorder = background(
        tmp_path, "record", "--out", str(tmp_path / "case"), "--", sys.executable, "-c", SERVER, mark, "stubborn"
    )
    wait_for(lambda: READY in (tmp_path / "shown").read_text())
    recorder.kill()
    recorder.wait()
    wait_for(lambda: alive(mark) == [])

    assert [p.name for p in tmp_path.iterdir()] == ["shown"]


@pytest.mark.slow
def test_background_processes_end_with_their_command(tmp_path: Path) -> None:
    """They have a second for their last output."""
    script = f"(sleep 0.3; echo last words) & sh -c 'sleep 99; :' '{tmp_path}' 2>/dev/null & echo first"
    shown: list[bytes] = []
    began = time.monotonic()
    output = recording.run_command(shell(f"{script} # {tmp_path}"), show=shown.append)

    assert (output.raw, output.ending) == (b"first\nlast words\n", "ended with exit status 0")
    assert b"".join(shown) == output.raw
    assert time.monotonic() - began < scaled(4)
    assert alive(str(tmp_path)) == []


def test_a_command_is_stopped_when_its_time_is_up(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """As by Ctrl-C."""
    script = f"trap 'echo stopping; exit 0' INT; echo '{READY}'; while :; do sleep 0.1; done"
    status, shown, _ = run(capfdbinary, "record", "--out", str(tmp_path / "a"), "--for", "0.5", "--", *shell(script))

    assert (status, "  Command    was stopped at its time limit, after " in shown) == (0, True)
    assert (tmp_path / "a" / "startup.log").read_text() == f"{READY}\nstopping\n"


def test_the_command_has_a_clean_environment(tmp_path: Path) -> None:
    """No variable of ours, which vLLM would warn of; no standard input; default signals."""
    script = "env | grep VLLM_; cat; echo end; grep SigIgn /proc/self/status"
    output = recording.run_command(shell(script), show=lambda _: None)
    ignored = int(output.raw.decode().split()[-1], 16)

    assert output.raw.startswith(b"end\n")
    assert ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1)) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_log_becomes_a_case(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """One is startup.log; several of one launch keep their unique names."""
    for name in ("a/rank.log", "b/rank.log", "c/case.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"{PORT}\n")
    a, b, c = (str(tmp_path / name) for name in ("a/rank.log", "b/rank.log", "c/case.yaml"))
    alone, _, _ = run(capfdbinary, "record", "--out", str(tmp_path / "one"), "--log", a, "--vllm", "0.10")
    three, _, _ = run(capfdbinary, "record", "--out", str(tmp_path / "three"), "--log", a, "--log", b, "--log", c)

    assert (alone, three) == (0, 0)
    assert case_files.load_case(tmp_path / "one").files == ["startup.log"]
    assert case_files.load_case(tmp_path / "one").vllm == "0.10"
    assert case_files.load_case(tmp_path / "three").files == ["rank.log", "2-rank.log", "2-case.yaml"]
    assert diagnosing.diagnose(sources.load(str(tmp_path / "three"))).files == ("rank.log", "2-rank.log", "2-case.yaml")
    assert str(tmp_path) not in (tmp_path / "three" / "case.yaml").read_text()


def test_a_failure_without_a_cause_is_not_an_expected_answer(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Only the outcome is compared, and the user is asked for the class."""
    status, shown, _ = run(capfdbinary, "record", "--out", str(tmp_path / "a"), "--", "echo", "words")

    assert (status, case_files.load_case(tmp_path / "a").expect.class_) == (0, None)
    assert "no cause found: if you know it, add its class" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "{tmp}/a"], "use either a command after --, or --log FILE."),
        (["--out", "{tmp}/a", "--log", "{tmp}/x.log", "--", "true"], "use either a command after --, or --log FILE."),
        (["--out", "{tmp}/a", "--for", "3", "--log", "{tmp}/x.log"], "--for applies to a command"),
        (["--out", "{tmp}/a", "--for", "nan", "--", "true"], "nan is not a number of seconds"),
        (["--", "true"], "Missing option '--out'"),
        (["--out", "{tmp}/a", "--log", "{tmp}/none.log"], "none.log: no such file, folder or recorded case"),
        (["--out", "{tmp}/a", "--", "no-such-command"], "no-such-command: no such command; check its name"),
        (["--out", "{tmp}/a", "--", "{tmp}/damaged"], "damaged: cannot be run: Exec format error"),
        (["--out", "{tmp}/a", "--", "true"], "true: printed nothing and ended with exit status 0; no case was written"),
        (
            ["--out", "{tmp}/a", "--", "sh", "-c", "kill -9 $$"],
            "sh: printed nothing and was killed by SIGKILL; no case",
        ),
        (["--out", "{tmp}/full", "--", "touch", "{tmp}/ran"], "already exists and is not overwritten"),
        (["--out", "{tmp}/x.log", "--", "touch", "{tmp}/ran"], "already exists and is not overwritten"),
        (["--out", "{tmp}/link", "--", "touch", "{tmp}/ran"], "already exists and is not overwritten"),
        (["--out", "{tmp}/a b", "--", "touch", "{tmp}/ran"], "its name is the case's id; use letters"),
        (
            ["--out", "{tmp}/x.log/a", "--", "touch", "{tmp}/ran"],
            "cannot be created: File exists; use another folder",
        ),
    ],
)
def test_input_that_cannot_be_recorded_is_status_2(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, arguments: list[str], said: str
) -> None:
    """In one line, before the command runs if possible; no folder is left."""
    (tmp_path / "x.log").write_text(PORT)
    (tmp_path / "damaged").write_bytes(b"\x7fELF damaged")
    (tmp_path / "damaged").chmod(0o755)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    status, shown, err = run(capfdbinary, "record", *(a.format(tmp=tmp_path) for a in arguments))

    assert (status, shown, err.count("\n")) == (2, "", 1)
    assert said in err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    """Nothing is overwritten; a folder filled in the meantime is left alone."""
    (tmp_path / "empty").mkdir()
    evidence = Evidence((Document("x", PORT),))
    recording.record_logs(tmp_path / "empty", evidence)
    with pytest.raises(InputError, match="already exists"):
        recording.record_logs(tmp_path / "empty", evidence)

    def fill(_: bytes) -> None:
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "mine").touch()

    (tmp_path / "late.1").mkdir()
    with pytest.raises(
        RunbooksError,
        match=r"late: was created by another process while the command ran; the case is in .*/late\.2: move it",
    ):
        recording.record_command(tmp_path / "late", ["echo", PORT], show=fill)

    assert sorted(p.name for p in (tmp_path / "empty").iterdir()) == ["case.yaml", "startup.log"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "late", "late.1", "late.2"]
    assert [p.name for p in (tmp_path / "late").iterdir()] == ["mine"]
    assert case_files.load_case(tmp_path / "late.2").expect.class_ == "port.in_use"
    assert (tmp_path / "late.2" / "startup.log").read_text() == f"{PORT}\n"


def test_an_occupied_folder_does_not_lose_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed diagnosis, and a file in the folder's place, or no folder at all."""

    def crash(_: Evidence) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(diagnosing, "diagnose", crash)
    with pytest.raises(RunbooksError, match=r"/a\.1: contains the log, but no case could be created"):
        recording.record_command(tmp_path / "a", shell(f"touch '{tmp_path}/a'; echo one"), show=lambda _: None)
    with pytest.raises(RunbooksError, match=r"/b/c: contains the log, but no case could be created"):
        recording.record_command(tmp_path / "b" / "c", shell(f"rmdir '{tmp_path}/b'; echo two"), show=lambda _: None)

    assert (tmp_path / "a").is_file()
    assert (tmp_path / "a.1" / "startup.log").read_text() == "one\n"
    assert (tmp_path / "b" / "c" / "startup.log").read_text() == "two\n"


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        ("head -c 4000 /dev/zero; echo", r"\x00" * 4000 + "\n"),
        (r"printf 'PK\003\004\n'", r"PK\x03\x04" + "\n"),
        ("echo %PDF", "%PDF\n"),
        (r"printf '\211PNG\000 caf\303\251\n'", r"\x89PNG\x00 café" + "\n"),
    ],
)
def test_binary_output_is_recorded(tmp_path: Path, head: str, kept: str) -> None:
    """Zeros or an archive's header do not lose the log; secrets in between are replaced."""
    script = f"{head}; printf '\\000{TOKEN}\\n'; echo '{PORT}'"
    written = recording.record_command(tmp_path / "a", shell(script), show=lambda _: None)
    first, rest = (tmp_path / "a" / "startup.log").read_text().split("\n", 1)
    evidence = sources.load(str(tmp_path / "a"))

    assert first == r"[vllm-runbooks record: not all of this is text; control characters are written as in \x00]"
    assert rest == rf"{kept}\x00[secret-1]" + f"\n{PORT}\n"
    assert written.case.expect.class_ == "port.in_use"
    assert diagnosing.verdict(diagnosing.diagnose(evidence), evidence).verdict is Verdict.PASS


def test_unreadable_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that begins like an archive, or exceeds a log's limit."""
    with pytest.raises(RunbooksError, match="a: contains the log, but no case could be created"):
        recording.record_command(tmp_path / "a", ["echo", "BZh"], show=lambda _: None)
    monkeypatch.setattr(recording, "MAX_CASE", 10)
    recording.record_command(tmp_path / "b", ["echo", PORT], show=lambda _: None)

    assert (tmp_path / "a" / "startup.log").read_text() == "BZh\n"
    assert (tmp_path / "b" / "startup.log").read_text() == f"{PORT}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_before_the_log_is_stored_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The secrets of a long log take their time; then the log is kept, and the handlers are the former ones."""
    before = signal.getsignal(number)
    text = Redactor.text

    def slow(redactor: Redactor, given: str) -> str:
        if TOKEN in given:
            signal.raise_signal(number)
        return text(redactor, given)

    monkeypatch.setattr(Redactor, "text", slow)
    with pytest.raises(KeyboardInterrupt, match="a: contains the log; create a case from it with --log"):
        recording.record_command(tmp_path / "a", ["echo", TOKEN], show=lambda _: None)

    assert [p.name for p in (tmp_path / "a").iterdir()] == ["startup.log"]
    assert (tmp_path / "a" / "startup.log").read_text() == "[secret-1]\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_diagnosis_and_keeps_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Immediately."""

    def interrupted(_: Evidence) -> None:
        signal.raise_signal(number)
        raise AssertionError

    monkeypatch.setattr(diagnosing, "diagnose", interrupted)
    with pytest.raises(KeyboardInterrupt, match="a: contains the log"):
        recording.record_command(tmp_path / "a", ["echo", PORT], show=lambda _: None)

    assert [p.name for p in (tmp_path / "a").iterdir()] == ["startup.log"]


def test_an_interrupt_during_the_launch_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the command's end."""
    handing_on = running.SupervisedCommand._handing_on

    def late(one: running.SupervisedCommand) -> contextlib.AbstractContextManager[None]:
        signal.raise_signal(signal.SIGINT)
        return handing_on(one)

    monkeypatch.setattr(running.SupervisedCommand, "_handing_on", late)
    began = time.monotonic()
    with pytest.raises(InputError, match="printed nothing and was stopped by SIGINT"):
        recording.record_command(tmp_path / "a", ["sleep", "99"], show=lambda _: None)

    assert time.monotonic() - began < scaled(6)


def test_descendants_of_a_process_are_ended() -> None:
    """And no others; neither marks nor environments are read."""
    script = "import subprocess, sys; subprocess.Popen(['sleep', '99']); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(["sleep", "99"])
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        root.stdout.readline()
        (child,) = psutil.Process(root.pid).children()
        processes.end_descendants(root.pid)

        assert (root.poll(), other.poll()) == (None, None)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    processes.end_descendants(root.pid)
    other.kill()
    other.wait()


def test_begin_and_end_of_a_long_output_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whole lines; a line between them has the omitted size."""
    monkeypatch.setattr(recording, "MAX_KEPT", 300_000)
    output = recording.run_command(shell("seq -f 'line %06g' 100000"), show=lambda _: None)
    lines = output.raw.decode().splitlines()
    (gap,) = [line for line in lines if line.startswith("[")]

    assert (lines[0], lines[-1]) == ("line 000001", "line 100000")
    assert all(re.fullmatch(r"line \d{6}", line) for line in lines if line != gap)
    assert gap == f"[vllm-runbooks record: {12 * (100000 - len(lines) + 1)} bytes left out]"
    assert 200_000 < len(output.raw) < 300_100


@pytest.mark.slow
def test_any_bytes_are_shown_and_kept(tmp_path: Path) -> None:
    """An open line, one of megabytes, a progress bar, and invalid UTF-8."""
    shown: list[bytes] = []
    script = r"printf 'caf\303\251 \377\n'; printf '10%%\r20%%\r'; head -c 3000000 /dev/zero | tr '\0' x; printf end"
    written = recording.record_command(tmp_path / "a", shell(script), show=shown.append)
    raw = b"caf\xc3\xa9 \xff\n10%\r20%\r" + b"x" * 3000000 + b"end"

    assert written.output is not None
    assert written.output.raw == raw
    assert b"".join(shown) == raw + b"\n"
    assert (tmp_path / "a" / "startup.log").read_text().startswith("caf\u00e9 \\xff\n")


@pytest.mark.slow
def test_a_closed_reader_does_not_end_the_recording(tmp_path: Path) -> None:
    """As in `… | head -1`."""
    out = tmp_path / "case"
    command = [sys.executable, "-m", "vllm_runbooks", "record", "--out", str(out), "--", "seq", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()

    assert process.returncode == 0
    assert (out / "startup.log").read_text().endswith("\n100000\n")


# ----- case add


@pytest.mark.slow
def test_a_wrong_answer_becomes_a_failing_test(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """With the difference; `check` fails with the same words until the answer is right."""
    (tmp_path / "my start.log").write_text(f"login with {TOKEN}\n{PORT}\n")
    out = tmp_path / "cases" / "mine"
    log = str(tmp_path / "my start.log")
    status, shown, err = run(capfdbinary, "case", "add", log, "--expect", "oom.weights", "--out", str(out))
    checked = cli.run(["check", "--cases", str(out.parent), "--format", "json", "--out", str(tmp_path / "report")])
    results = json.loads(capfdbinary.readouterr().out)["runs"]

    assert (status, err) == (0, "")
    assert "  Check      fails, as expected: class: expected oom.weights, got port.in_use\n" in shown
    assert (checked, [r["verdict"] for r in results]) == (1, ["fail"])
    assert case_files.load_case(out).title == "my start.log: oom.weights"
    assert (out / "startup.log").read_text() == f"login with [secret-1]\n{PORT}\n"


def test_a_correct_answer_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Given outcome and symptom are compared; the default folder is cases/ID."""
    monkeypatch.chdir(tmp_path)
    Path("a.log").write_text(f"{PORT}\n")
    options = ["--outcome", "failed", "--symptom", "port.in_use"]
    status, shown, _ = run(capfdbinary, "case", "add", "a.log", "--expect", "port.in_use", *options)
    named, _, _ = run(capfdbinary, "case", "add", "a.log", "--expect", "ok", "--id", "other", "--vllm", "0.19.0")
    expect = case_files.load_case(tmp_path / "cases" / "a-port-in_use").expect

    assert (status, named) == (0, 0)
    assert "cases/a-port-in_use: written (startup.log, case.yaml)\n" in shown
    assert "  Check      passes: as expected: failed, port.in_use\n" in shown
    assert (expect.outcome, expect.class_, expect.symptom) == ("failed", "port.in_use", "port.in_use")
    assert case_files.load_case(tmp_path / "cases" / "other").vllm == "0.19.0"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expect", "oom.weight"], "--expect oom.weight: is not a class; did you mean oom.weights?"),
        (["--expect", "multimodal_encoder"], "did you mean oom.multimodal_encoder?"),
        (["--expect", "oom.xyzzy"], "is not a class; oom has oom.cudagraph_capture, "),
        (["--expect", "lunch.late"], "is not a class; `vllm-runbooks catalog list` lists the symptoms; groups: api, "),
        (
            ["--expect", "oom.profile_run.unplaced"],
            "is not a class; use --expect oom.profile_run --symptom oom.profile_run.unplaced",
        ),
        (["--expect", "port.in_use", "--symptom", "port.in_user"], "no such symptom; did you mean port.in_use?"),
        (["--expect", "oom.weights", "--symptom", "port.in_use"], "has class port.in_use, not oom.weights"),
        (["--expect", "ok", "--outcome", "fine"], "Invalid value for '--outcome'"),
        (["--expect", "ok", "--id", "a", "--out", "{tmp}/a"], "use either --id or --out"),
        (
            ["--expect", "ok", "--id", "../b"],
            "--id ../b: is not an id; use a name, or set the case's folder with --out",
        ),
        (["--expect", "ok", "--id", "-b"], "its name is the case's id"),
        ([], "Missing option '--expect'"),
    ],
)
def test_an_impossible_expectation_is_status_2(
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    said: str,
) -> None:
    """In one line, with the nearest valid one."""
    monkeypatch.chdir(tmp_path)
    Path("a").write_text(f"{PORT}\n")
    status, shown, err = run(capfdbinary, "case", "add", "a", *(o.format(tmp=tmp_path) for o in options))

    assert (status, shown, err.count("\n")) == (2, "", 1)
    assert said in err
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_the_page_shows_real_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Both samples of docs/recording.md equal the output, except for figures."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "recording.md").read_text(encoding="utf-8")
    recorded, added = re.findall(r"```\{code-block\} text\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("startup.log").write_text(f"{PORT}\n")
    script = f"echo {TOKEN}; echo --api-key {PASSWORD}; echo '{PORT}'; exit 1"
    _, as_recorded, _ = run(capfdbinary, "record", "--out", "cases/my-start", "--", *shell(script))
    _, as_added, _ = run(capfdbinary, "case", "add", "startup.log", "--expect", "oom.weights")

    assert as_added == added
    figures = re.compile(r"after \d+ s|\d+ replaced \(.*\)")
    assert figures.sub("", as_recorded).endswith(figures.sub("", recorded))


def test_a_name_with_a_secret_is_not_an_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be in every report; the message does not repeat it."""
    token = "hf" + "_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    (tmp_path / "a.log").write_text("INFO 11-20 08:29:25 [api_server.py:1] vLLM API server version 0.19.0\n")

    assert cli.run(["record", "--out", str(tmp_path / token), "--log", str(tmp_path / "a.log")]) == 2
    printed = capsys.readouterr()
    assert "looks like a secret" in printed.err
    assert token not in printed.err + printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_the_source_of_a_supervised_launch_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logs, then how it ended, without secrets."""
    logs = Evidence((Document("server.log", f"{PORT}\n"), Document("guard.log", "[vllm-runbooks] seen\n")))
    ending = f"ended with exit status 1 as it was told {TOKEN}"

    tried = Attempt(1, "vllm serve m", None, Outcome.FAILED, None, 1.0, ending)
    monkeypatch.setattr(guard, "evidence", lambda _: logs)
    recording.record_last_try(Guarded("a", None, (), (tried,), 1), tmp_path / "a-start", say=print)

    source = case_files.load_case(tmp_path / "a-start").source
    assert re.fullmatch(
        r"recorded with `vllm-runbooks serve` on [\d-]{10} from server\.log, guard\.log; "
        r"the server ended with exit status 1 as it was told \[secret-1\]",
        source,
    )
