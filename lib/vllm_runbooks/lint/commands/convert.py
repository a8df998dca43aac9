"""`vllm-runbooks convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.files import store
from vllm_runbooks.lint.commands import GPUS, release

if TYPE_CHECKING:
    from vllm_runbooks.lint.checking import Converted

FORMS = ("shell", "docker", "compose", "systemd")


@click.command(epilog=given.examples("convert launch.sh --to compose --vllm 0.19.0 -o compose.yaml"))
@click.argument("file", metavar="[FILE|-]", default="-", type=complete.SCRIPT)
@click.option("--to", required=True, type=click.Choice(FORMS), help="Output format.")
@release("--vllm", text="Release to write for (default: the image's tag, else the newest).")
@GPUS
@click.option(
    "--start",
    metavar="N",
    type=click.IntRange(min=1),
    help="Which launch to use if there are several, from 1 (default: the first).",
)
@click.option("-o", "--output", "out", metavar="FILE", type=given.FILE, help="Output file (default: standard output).")
def convert(*, file: str, to: str, vllm: str | None, gpus: str | None, start: int | None, out: Path | None) -> int:
    """Convert a launch: a script to a compose file, a container to a systemd unit, and so on.

    Secrets become references to variables. Settings that the format cannot express, and problems of the launch, are
    printed on standard error.

    Exit status: 0 if no problem is found, 1 if there is a problem, 2 for invalid input or a launch that the format
    cannot express.
    """
    from vllm_runbooks.core.redaction.redact import redact_name
    from vllm_runbooks.lint import checking
    from vllm_runbooks.lint import render as render_issues
    from vllm_runbooks.lint.selection import LintSettings
    from vllm_runbooks.reading import sources
    from vllm_runbooks.reading.deployment.forms import FILES

    name = output.STDIN if file == "-" else file
    text = sources.read_text(file)
    done = checking.convert_text(text, to=to, name=name, vllm=vllm, start=start, gpus=gpus)
    if out is not None:
        store(out, done.text)
        output.say(f"wrote {out}")
    else:
        output.write_script(done.text)
    for line in _remarks(done, to, start):
        click.echo(line, err=True)
    terminal.remark(render_issues.left_view(done.linted, redact_name(str(out or FILES[to]))))
    output.say(render_issues.headline(done.linted))
    return int(LintSettings().is_failed(done.linted.issues))


def _remarks(done: Converted, to: str, start: int | None) -> list[str]:
    remarks = []
    if done.starts > 1 and start is None:
        remarks.append(f"first of {done.starts} launches: use --start N for another one")
    if done.needs:
        where = "in /etc/vllm.env" if to == "systemd" else "in the environment"
        remarks.append(f"set these variables {where}: {', '.join(done.needs)}")
    remarks += [f"not converted: {item}" for item in done.left_out]
    if done.is_loopback and to in ("docker", "compose"):
        why = "in a container, this address is not reachable from outside"
        remarks.append(f"--host: {why}")
    return remarks
