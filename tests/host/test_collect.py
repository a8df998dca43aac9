"""Logs are fetched with one command from a table: shown first, only reading, never built from anything but a name."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import psutil
import pytest

from pace import scaled
from vllm_runbooks import cli
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.host import collect

PORT = "OSError: [Errno 98] Address already in use"
TOOLS = ("docker", "podman", "kubectl", "journalctl")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake tools, first on the path; each is a shell script that a test writes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for name in TOOLS:
        stand_in(folder, name, "exit 99")
    return folder


def stand_in(folder: Path, name: str, script: str) -> None:
    """Write a tool to the folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def running(group: int) -> list[int]:
    """Processes of the group that have not ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command line in this process."""
    status = cli.run(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("source", "argv"),
    [
        ("docker:vllm-1", ["docker", "logs", "vllm-1"]),
        ("docker:4f1c2a", ["docker", "logs", "4f1c2a"]),
        ("podman:vllm", ["podman", "logs", "vllm"]),
        ("k8s:prod/vllm-0", ["kubectl", "logs", "--namespace=prod", "vllm-0"]),
        ("k8s:prod/vllm-0.a/server", ["kubectl", "logs", "--namespace=prod", "vllm-0.a", "--container=server"]),
        ("k8s-previous:prod/vllm-0", ["kubectl", "logs", "--namespace=prod", "vllm-0", "--previous"]),
        (
            "journal:vllm@gpu\\x2d0.service",
            ["journalctl", "--unit=vllm@gpu\\x2d0.service", "--boot", "--output=cat", "--no-pager"],
        ),
    ],
)
@pytest.mark.usefixtures("tools")
def test_a_source_is_one_command_of_the_table(source: str, argv: list[str]) -> None:
    """Its words are those of the table with the name filled in, and the command is printed."""
    command = collect.command(source)

    assert list(command.argv) == argv
    assert command.effect.endswith("changes nothing")


@pytest.mark.parametrize(
    "source",
    [
        "docker:--follow", "docker:a b", "docker:a;reboot", "docker:$(reboot)", "docker:", "docker:a/b", "docker:a\n",
        "podman:-l", "k8s:pod", "k8s:a/b/c/d", "k8s:a/-n", "k8s:Prod/pod", "k8s:a/b;c", "k8s:-a/b", "k8s:a//b",
        "k8s-previous:a", "journal:-b", "journal:*", "journal:a b", "journal:/etc/shadow", "journal:é",
        "file:/etc/passwd", "vllm", "", "docker", "DOCKER:a",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("tools")
def test_an_invalid_name_is_rejected(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Options, paths, patterns and shell text are not names, and no command runs."""
    status, out, err = run(capsys, "diagnose", "--from", source)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "log source; use docker:CONTAINER" in err or "no name given; use " in err


@pytest.mark.parametrize("source", ["docker:vllm", "podman:vllm", "k8s:prod/vllm-0", "journal:vllm.service"])
def test_a_fetched_log_is_diagnosed(source: str, tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command is printed first, and the file name of the answer is the source."""
    for name in TOOLS:
        stand_in(tools, name, f'echo "{PORT}"')
    status, out, err = run(capsys, "diagnose", "--from", source, "--vllm", "0.19.0", "--format", "json")
    document = json.loads(out)

    assert (status, document["files"], document["vllm"]["source"]) == (1, [source], "given")
    assert document["root_cause"]["symptom"] == "port.in_use"
    assert err.startswith("vllm-runbooks: running `")
    assert (err.count("\n"), "changes nothing" in err) == (1, True)


def test_both_streams_of_a_container_are_its_log(tools: Path) -> None:
    """In the order of writing; the output of kubectl itself is separate."""
    script = 'echo one; echo two >&2; echo three; [ "$1" = logs ] && [ -z "$(cat)" ]'
    stand_in(tools, "docker", script)
    stand_in(tools, "kubectl", script)
    of_docker, beside_docker = collect.fetch(collect.command("docker:a"))
    of_pod, beside_pod = collect.fetch(collect.command("k8s:a/b"))

    assert (of_docker.text, beside_docker) == ("one\ntwo\nthree\n", "")
    assert (of_pod.text, beside_pod) == ("one\nthree\n", "two")


def test_messages_of_the_tool_are_shown(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as which of a pod's containers it chose."""
    stand_in(tools, "kubectl", f'echo "Defaulted container \\"a\\" out of: a, b" >&2; echo "{PORT}"')
    _, _, err = run(capsys, "diagnose", "--from", "k8s:prod/vllm-0")

    assert err.splitlines()[1:] == ['vllm-runbooks: kubectl:  Defaulted container "a" out of: a, b']


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "log line"; echo "Error: No such container: a" >&2; exit 1', "status 1: Error: No such container: a"),
        ("exit 3", "`docker logs a` ended with status 3: no output"),
        ("kill -9 $$", "`docker logs a` was killed by signal 9: "),
        (
            'printf "\\033[31mHF_TOKEN=hf_abcdefghijklmnopqrstuvwx0\\n"; exit 1',
            "status 1:  [31mHF_TOKEN=[secret-",
        ),
        ("exit 0", "docker:a: the log is empty: the container has printed nothing; check whether it logs to a file"),
        ("echo '-- No entries --'", "docker:a: the log is empty: "),
        ("head -c 300 /dev/zero", "docker:a: is binary, not text"),
    ],
)
def test_a_tool_that_fails_is_one_line(tools: Path, script: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its last words, harmless to show, after the line that named the command."""
    stand_in(tools, "docker", script)
    status, out, err = run(capsys, "diagnose", "--from", "docker:a")

    assert (status, out, err.count("\n")) == (2, "", 2)
    assert said in err.splitlines()[1]
    assert "hf_abc" not in err


def test_a_missing_tool_is_named(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is shown as running."""
    (tools / "kubectl").unlink()
    monkeypatch.setenv("PATH", str(tools))
    status, out, err = run(capsys, "diagnose", "--from", "k8s:prod/vllm-0")

    assert (status, out) == (2, "")
    assert err == (
        "vllm-runbooks: k8s:prod/vllm-0: kubectl is not installed on this host; run this where it is, or use a log "
        "file\n"
    )


def test_a_tool_that_cannot_run_is_one_line(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its file is damaged."""
    (tools / "docker").write_bytes(b"\x7fELF damaged")
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(InputError, match="docker:a: docker cannot be run: Exec format error"):
        collect.fetch(collect.command("docker:a"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "bounds", "said"),
    [
        ("sleep 30", {"quiet_s": 0.3}, "printed nothing for 0.3 s; run it manually and use a log file"),
        ("while :; do echo x; sleep 0.05; done", {"whole_s": 0.5}, "did not finish within 0.5 s"),
        ("echo x; exec >&- 2>&-; sleep 30", {"quiet_s": 0.3}, "printed the log but did not exit within 0.3 s"),
        ("yes", {"max_bytes": 1 << 20}, "larger than 1 MiB; use its end, for example with `docker logs a 2>&1 | tail"),
        ("sleep 30", {"quiet_s": 9, "whole_s": 0.3}, "did not finish within 0.3 s"),
    ],
)
def test_time_and_size_are_bounded(  # noqa: PLR0917 - fixtures
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, bounds: dict[str, float], said: str
) -> None:
    """A tool that hangs or never stops is ended, with its child processes."""
    for name, bound in bounds.items():
        monkeypatch.setattr(collect, name.upper(), bound)
    stand_in(tools, "docker", f"echo $$ >{tmp_path}/pid\n{script}")
    began = time.monotonic()
    with pytest.raises(InputError, match=r"docker:a: ") as refused:
        collect.fetch(collect.command("docker:a"))

    assert said in str(refused.value)
    assert time.monotonic() - began < scaled(5)
    while running(int((tmp_path / "pid").read_text())):
        assert time.monotonic() - began < scaled(5)


@pytest.mark.usefixtures("tools")
def test_logs_and_a_source_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """The intended input is ambiguous."""
    status, out, err = run(capsys, "diagnose", "--from", "docker:a", "startup.log")

    assert (status, out) == (2, "")
    assert err.startswith("vllm-runbooks: use either log files or --from, not both.")
