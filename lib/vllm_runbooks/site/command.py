"""`vllm-runbooks site`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vllm_runbooks.core.console import given, output, terminal

if TYPE_CHECKING:
    from vllm_runbooks.history.records import HistoryEntry

_MOST_RUNS = 2000
"""Most entries of the history for the page of last results."""


@click.group()
def site() -> None:
    """Build the documentation site, which loads nothing from other sites.

    npm is needed once, for the pages that run in the browser.
    """


@site.command(
    epilog=given.examples("site build --out site-out", "site build --executed runbook-out", "site build --with-runs")
)
@given.value("--out DIR", "Output folder; an earlier build in it is replaced.", given.FOLDER, default=Path("site-out"))
@given.value(
    "--executed DIR",
    "Folder written by `check --out DIR` (default: run every runbook on its default case).",
    given.FOLDER,
)
@click.option(
    "--with-runs",
    is_flag=True,
    help="Publish this host's last results: verdicts, times and symptoms, without hosts, paths or commands.",
)
@click.pass_context
@terminal.waiting("building the site: runbooks, catalog and options of each release, a few minutes")
def build(context: click.Context, out: Path, executed: Path | None, *, with_runs: bool) -> int:
    """Build the site into a folder.

    It contains the executed runbooks, the catalog, the options of each release, and the docs. Prints the path of
    index.html.
    """
    from vllm_runbooks.site import building as sites

    root = context.find_root().command
    commands = root if isinstance(root, click.Group) else None
    runs = _runs() if with_runs else None
    output.write(str(sites.build(out, executed=executed, commands=commands, runs=runs, say=output.say)))
    return 0


def _runs() -> list[HistoryEntry]:
    from vllm_runbooks.history import store as history

    with history.opened(say=output.say, is_needed=True) as kept:
        return kept.entries(limit=_MOST_RUNS)
