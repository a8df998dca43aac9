"""`vllm-runbooks edge10 make`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal


@click.command(
    epilog=given.examples(
        "edge10 make --example",
        "edge10 make job.yaml --out qwen3-vl",
        "edge10 make job.yaml --out qwen3-vl --format json",
    )
)
@click.argument("job", required=False, metavar="JOB|-", type=complete.SCRIPT)
@given.value("--out DIR", "Output folder.", given.FOLDER)
@click.option("--replace", is_flag=True, help="Overwrite files that you wrote or changed.")
@click.option("--example", is_flag=True, help="Print an example JOB and exit.")
@given.EXPLAIN
@given.FORMAT
def make(*, job: str | None, out: Path | None, replace: bool, example: bool, explain: bool, form: str) -> int:
    """Write the scripts and settings that deploy a model to the chip.

    JOB is a small YAML file; the toolchain's facts supply the rest. The files are checked as
    `edge10 lint` checks yours. Nothing is run.

    Exit status: 0 if the files are written; 1 if the job contradicts itself or the facts, or a fact is unknown; 2 for
    invalid input, or if a file would be overwritten.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.edge10 import summaries
    from vllm_runbooks.edge10.jobs import render as render_edge10_jobs

    if example:
        from vllm_runbooks.catalog import load as catalog
        from vllm_runbooks.edge10.jobs import job as jobs

        output.write(jobs.example(catalog.toolchain()))
        return 0
    if job is None or out is None:
        raise click.UsageError("pass JOB and --out DIR, or --example.")
    from vllm_runbooks.edge10.jobs import making

    result = making.make(job, out, is_replaced=replace)
    if form == "json":
        output.write_json(to_json(result))
    elif explain:
        terminal.show(render_edge10_jobs.made_shown(result))
    else:
        again = terminal.again("--explain", is_repeatable=job != "-")
        terminal.show(summary_view(summaries.summarize_made(result, again=again)))
    return int(result.job is None or bool(result.doubts or result.issues))
