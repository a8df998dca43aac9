"""`vllm-runbooks diagnose`."""

from __future__ import annotations

import click

from vllm_runbooks import render, session
from vllm_runbooks.cli import output


@click.command()
@click.argument("logs", nargs=-1, metavar="[LOG…|FOLDER|-]")
@click.option("--vllm", metavar="VERSION", help="Release that wrote the log, where the log does not say.")
@click.option("--start", type=click.IntRange(min=1), help="Which of several starts in the text (default: the last).")
@click.option(
    "--catalog",
    "own",
    multiple=True,
    metavar="DIR",
    help="Your own catalog folder (with symptoms/), on top; repeatable.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diagnose(logs: tuple[str, ...], vllm: str | None, start: int | None, own: tuple[str, ...], form: str) -> int:
    """Find the root cause in the log of a vLLM start.

    Give the log's file, several logs of one start (its nodes or ranks), a recorded case, or `-` for standard input.
    Exit status: 0 healthy, 1 a cause or no proof of health, 2 the input cannot be read.
    """
    if not logs:
        raise click.UsageError("give a log file, a recorded case, or - for standard input.")
    evidence = session.load_files(logs, vllm=vllm)
    catalog = session.load_catalog((*session.own_catalogs(), *own))
    output.name_left_out(catalog)
    answer = session.diagnose(evidence, start=start, catalog=catalog)
    if form == "json":
        output.write_json(render.to_json(answer))
    else:
        output.write(render.text(answer))
    return int(answer.root_cause is not None or not answer.outcome.is_healthy)
