"""`vllm-runbooks site`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.cli import given, output


@click.command(epilog=given.examples("site --out site-out", "site --executed runbook-out"))
@click.option(
    "--out",
    metavar="DIR",
    type=given.FOLDER,
    default=Path("site-out"),
    show_default=True,
    help="Folder for the site; one that an earlier build wrote is replaced.",
)
@click.option(
    "--executed",
    metavar="DIR",
    type=given.FOLDER,
    help="Folder that `check --out DIR` wrote (default: execute every runbook on its default case).",
)
def site(out: Path, executed: Path | None) -> int:
    """Build the documentation site: the executed runbooks, a page for every symptom, how to read and how to add one.

    Prints the path of its index.html. It needs no network, neither to build nor to read.
    """
    from vllm_runbooks.site import build  # noqa: PLC0415 - `--help` needs none of it

    output.write(str(build(out, executed=executed, say=output.say)))
    return 0
