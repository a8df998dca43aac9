"""`vllm-runbooks lab`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import quote

import click

from vllm_runbooks.core.console import given, output
from vllm_runbooks.core.errors import InputError

_FIRST = "start-here"


@click.command(epilog=given.examples("lab", "lab --no-browser --port 8899", "lab single-gpu-oom"))
@click.argument("runbook", default=_FIRST)
@given.value("--port PORT", "Port (default: JupyterLab's choice).", click.IntRange(1, 65535))
@click.option("--no-browser", is_flag=True, help="Do not open a browser; print the address.")
@given.value("--folder DIR", "Folder for your copy of the runbooks.", given.FOLDER)
@click.argument("more", metavar="[-- JUPYTER OPTIONS]", nargs=-1, type=click.UNPROCESSED)
def lab(runbook: str, *, port: int | None, no_browser: bool, folder: Path | None, more: tuple[str, ...]) -> int:
    """Open JupyterLab on a runbook (default: start-here).

    Runbooks of an installed package are copied to your own folder first; your changes are kept. JupyterLab listens on
    localhost and requires its token; Ctrl-C stops it.
    """
    from vllm_runbooks.core import extras
    from vllm_runbooks.runbooks.workspace import workspace

    extras.require("`vllm-runbooks lab`")
    if runbook.startswith("-"):  # an argument after `--` without a runbook
        runbook, more = _FIRST, (runbook, *more)
    placed = workspace(folder)
    path = placed.folder / f"{runbook.removesuffix('.ipynb')}.ipynb"
    if not path.is_file():
        raise InputError(f"{runbook}: is not a runbook in {placed.folder}; `vllm-runbooks list` lists all runbooks")
    if placed.said:
        output.say(placed.said)
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={placed.folder}"]
    # The printed or opened address is the runbook's; Ctrl-C needs no confirmation.
    words += [f"--LabApp.default_url=/lab/tree/{quote(path.name)}", "--ServerApp.answer_yes=True"]
    words += [f"--ServerApp.port={port}"] if port is not None else []
    words += ["--no-browser"] if no_browser else []
    sys.stdout.flush()
    # It replaces this process, so signals, the terminal and the exit status are JupyterLab's own.
    return os.execv(sys.executable, [*words, *more])  # noqa: S606 - no shell
