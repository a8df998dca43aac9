"""Fetch a server's log with one read-only command: docker, podman, kubectl or journalctl.

A source is `KIND:NAME`. A name that is not strictly valid for its kind is rejected, so no part of a
command is an option, a path or text for a shell.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from typing import IO, cast

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.evidence import Document
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.reading.evidence import held

_FEW_LINES = 10
"""Lines that a failed tool may print in place of a log."""
MAX_BYTES = 4 << 30
QUIET_S, WHOLE_S = 60.0, 600.0
_CONTAINER = f"(?P<container>{host_commands.VALUES['container']})"
_IN_POD = (
    f"(?P<namespace>{host_commands.VALUES['namespace']})/(?P<pod>{host_commands.VALUES['pod']})"
    f"(?:/(?P<pod_container>{host_commands.VALUES['pod_container']}))?"
)


@dataclass(frozen=True)
class _Kind:
    form: str
    name: str
    """Regular expression of its names, groups as the commands' placeholders."""
    commands: tuple[str, ...]
    """Commands of the table; the first whose placeholders the name has is used."""
    nothing: str
    is_mixed: bool = False
    """Whether the server's standard error arrives on the command's own: both are read as one."""


_LOOK_AT_CONTAINER = "the container has printed nothing; check whether it logs to a file"
_LOOK_AT_POD = "the container has printed nothing; check `kubectl describe pod`"
_KINDS = {
    "docker": _Kind("docker:CONTAINER", _CONTAINER, ("docker-logs",), _LOOK_AT_CONTAINER, is_mixed=True),
    "podman": _Kind("podman:CONTAINER", _CONTAINER, ("podman-logs",), _LOOK_AT_CONTAINER, is_mixed=True),
    "k8s": _Kind("k8s:NAMESPACE/POD[/CONTAINER]", _IN_POD, ("pod-logs", "pod-logs-first"), _LOOK_AT_POD),
    "k8s-previous": _Kind(
        "k8s-previous:NAMESPACE/POD[/CONTAINER]", _IN_POD, ("pod-logs-before", "pod-logs-before-first"), _LOOK_AT_POD
    ),
    "journal": _Kind(
        "journal:UNIT",
        f"(?P<unit>{host_commands.VALUES['unit']})",
        ("unit-log",),
        "no entries of this unit since boot, or no permission to read them; check `systemctl status`",
    ),
}
FORMS = tuple(kind.form for kind in _KINDS.values())


@dataclass(frozen=True)
class LogCommand:
    """A command that prints a log."""

    source: str
    argv: tuple[str, ...]
    effect: str
    nothing: str
    is_mixed: bool

    @property
    def line(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)


def command(source: str) -> LogCommand:
    """Build the command that fetches a source's log; raises InputError."""
    word, _, name = source.partition(":")
    kind = _KINDS.get(word)
    if kind is None:
        raise InputError(f"{_shown(source)}: is not a log source; use {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    match = re.fullmatch(kind.name, name, re.ASCII)
    if match is None:
        raise InputError(f"{_shown(source)}: no name given; use {kind.form}")
    values = {name: value for name, value in match.groupdict().items() if value is not None}
    name = next(row for row in kind.commands if set(host_commands.TABLE[row].places) <= set(values))
    argv = host_commands.argv(name, **values)
    if shutil.which(argv[0]) is None:
        raise InputError(f"{source}: {argv[0]} is not installed on this host; run this where it is, or use a log file")
    return LogCommand(source, argv, host_commands.TABLE[name].effect, kind.nothing, kind.is_mixed)


def _shown(source: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in source[:80]) or "(nothing)"


def fetch(command: LogCommand) -> tuple[Document, str]:
    """Run the command; return the log, and the tool's own last message or "".

    Raises InputError.
    """
    with contextlib.ExitStack() as files:
        log, beside = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        status = _run(command, log, beside)
        words = _last_words(_tail(beside))
        log.seek(0)
        if status and sum(1 for _ in islice(log, _FEW_LINES)) < _FEW_LINES:
            ended = f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
            words = (_last_words(_tail(log)) if command.is_mixed else words) or "no output"
            raise InputError(f"{command.source}: `{command.line}` {ended}: {words}")
        if _tail(log).strip() in (b"", b"-- No entries --"):
            raise InputError(f"{command.source}: the log is empty: {command.nothing}{f' ({words})' if words else ''}")
        if status:
            beside_words = f" ({words})" if words else ""
            words = f"it ended with status {status}; its output up to then is used{beside_words}"
        return held(log, command.source, files.pop_all().close), words


def _tail(file: IO[bytes]) -> bytes:
    file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
    return file.read()


def _run(command: LogCommand, log: IO[bytes], beside: IO[bytes]) -> int:
    """Write the command's output and return its exit status; kills its processes at a timeout."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the pieces come from the table, the names are checked
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if command.is_mixed else beside,
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"{command.source}: {command.argv[0]} cannot be run: {error.strerror}") from None
    try:
        _read(command, process, log)
        return process.wait(QUIET_S)
    except subprocess.TimeoutExpired:
        raise _too_slow(command, f"printed the log but did not exit within {QUIET_S:g} s") from None
    finally:
        _end(process)


def _read(command: LogCommand, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    output = cast("IO[bytes]", process.stdout)
    size = 0
    through_at = time.monotonic() + WHOLE_S
    while (wait := min(QUIET_S, through_at - time.monotonic())) > 0:
        if not select.select([output], [], [], wait)[0]:
            if wait < QUIET_S:
                break
            raise _too_slow(command, f"printed nothing for {QUIET_S:g} s")
        chunk = os.read(output.fileno(), 1 << 20)
        if not chunk:
            return
        size += log.write(chunk)
        if size > MAX_BYTES:
            raise InputError(
                f"{command.source}: the log is larger than {MAX_BYTES >> 20} MiB; use its end, for example "
                f"with `{command.line} 2>&1 | tail -c 100M | vllm-runbooks diagnose -`"
            )
    raise _too_slow(command, f"did not finish within {WHOLE_S:g} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its processes; it only reads, so there is nothing to wait for."""
    cast("IO[bytes]", process.stdout).close()
    if process.returncode is None:
        # Not waited for yet, so its process id is still valid.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _too_slow(command: LogCommand, what: str) -> InputError:
    return InputError(f"{command.source}: `{command.line}` {what}; run it manually and use a log file")


def _last_words(raw: bytes) -> str:
    lines = [line.strip() for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    words = "".join(c if c.isprintable() else " " for c in lines[-1]) if lines else ""
    return redact_text(words)[:300]
