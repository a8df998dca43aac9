"""`vllm-runbooks record`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output

if TYPE_CHECKING:
    from vllm_runbooks.host.running import Show
    from vllm_runbooks.runbooks.recording import Recording


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=given.examples(
        "record --out cases/my-start --for 300 -- vllm serve Qwen/Qwen3-8B",
        "record --out cases/my-start --log startup.log",
    ),
)
@given.value("--out DIR", "Folder of the case; its name is the id.", given.NEW_FOLDER, required=True)
@given.value("--log logs FILE", "Record this log instead; several are logs of one launch.", complete.LOG, multiple=True)
@given.value("--vllm VERSION", "Release that writes the log, if the log does not print it.", complete.RELEASE)
@given.value(
    "--for seconds S",
    "Stop the command after this many seconds, as Ctrl-C does.",
    click.FloatRange(min=0.1, max=604800),
)
@catalog_options.CATALOG
@click.argument("command", nargs=-1, metavar="[-- COMMAND…]", type=click.UNPROCESSED)
def record(out: Path, logs: tuple[str, ...], vllm: str | None, seconds: float | None, command: tuple[str, ...]) -> int:
    """Record a command's output, or a log, as a case for `check`.

    The command runs until it ends, until Ctrl-C, or for the time set by --for; its child processes
    end with it. Its output is shown live. Secrets are replaced on screen and in the case. The
    diagnosis becomes the expected answer: review it.

    Exit status: 0 if the case is written, whatever the status of the command; 2 if it is not.
    """
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.reading import sources
    from vllm_runbooks.runbooks import recording

    if bool(command) == bool(logs):
        raise click.UsageError("use either a command after --, or --log FILE.")
    if logs and seconds is not None:
        raise click.UsageError("--for applies to a command; remove it with --log.")
    # Before anything is run: a catalog that cannot be loaded is to be known now.
    shelf = catalog.load_catalog()
    if logs:
        written = recording.record_logs(out, sources.load_files(logs, vllm=vllm))
    else:
        written = recording.record_command(out, command, show=shown_live(), seconds=seconds, vllm=vllm)
    output.name_left_out(shelf.problems)
    lines = [said_written(written)]
    if written.output is not None:
        lines.append(f"  Command    {written.output.ending}, after {written.output.seconds:.0f} s")
    cause = written.answer.root_cause
    diagnosis = f"{cause.class_} ({cause.level.value}): {cause.title}" if cause else "no root cause"
    file = shlex.quote(str(out / "case.yaml"))
    lines += [
        f"  Secrets    {said_secrets(written)}",
        f"  Diagnosis  {written.answer.outcome.value}, {diagnosis}",
        f"  Review     `expect` in {file}: it contains the current diagnosis; correct it if wrong",
    ]
    if cause is None and not written.answer.outcome.is_healthy:
        lines.append("             no cause found: if you know it, add its class")
    output.write("\n".join([*lines, said_test(written)]))
    return 0


def said_written(written: Recording) -> str:
    return f"{written.folder}: written ({', '.join([*written.case.files, 'case.yaml'])})"


def said_secrets(written: Recording) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(written.secrets.items()))
    return f"{sum(written.secrets.values())} replaced ({kinds})" if kinds else "none recognized; check manually"


def said_test(written: Recording) -> str:
    if not written.case.runbooks:
        return "  Test       add a runbook to `runbooks` in its case.yaml; none was found that reads a log"
    return f"  Test       vllm-runbooks check --cases {shlex.quote(str(written.folder))}"


def shown_live(*, is_error: bool = False) -> Show:
    """A function that prints chunks; if the reader has exited, the command goes on."""
    is_open = True

    def show(chunk: bytes) -> None:
        nonlocal is_open
        if not is_open:
            return
        try:
            click.echo(chunk, nl=False, err=is_error)
        except OSError:
            is_open = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if is_error else sys.stdout).fileno())

    return show
