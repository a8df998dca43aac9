"""`vllm-runbooks inventory`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal

_MAX_SAMPLES = 100_000


@click.command(
    epilog=given.examples(
        "inventory",
        "inventory -o node1.json",
        "inventory node1.json",
        "inventory --watch --samples 30 --every 2 --need 40",
        "inventory --watch --gpu-memory series.jsonl",
    )
)
@click.argument("file", metavar="[FILE|-]", required=False, type=complete.SNAPSHOT)
@given.value("-o --output out FILE", "Write a snapshot, for --gpus FILE.", given.FILE)
@given.value("--python PATH", "List the packages of this Python instead of the current one.")
@click.option("--watch", is_flag=True, help="Read GPU memory several times and recommend a GPU for the next launch.")
@given.value("--samples N", "With --watch: number of readings (default: 10).", click.IntRange(2, _MAX_SAMPLES))
@given.value("--every S", "With --watch: seconds between readings (default: 1).", click.FloatRange(0.0, 3600.0))
@given.value("--gpu-memory series SERIES", "With --watch: use a recorded series.")
@given.value(
    "--need GIB",
    "Memory that the launch needs (default: a server's default share).",
    click.FloatRange(0.0, 1e6, min_open=True),
)
@given.EXPLAIN
@given.FORMAT
def inventory(
    *,
    file: str | None,
    out: Path | None,
    python: str | None,
    watch: bool,
    samples: int | None,
    every: float | None,
    series: str | None,
    need: float | None,
    explain: bool,
    form: str,
) -> int:
    """Report this host's GPUs, limits and software, or a snapshot's, and what they mean for vLLM.

    FILE is a snapshot, a recorded case, nvidia-smi's CSV, or - for standard input; without FILE this host is read. A
    host without a driver is fine. Nothing is changed.

    Exit status: 0 if no problem is found; 1 if there is a problem or, with --watch, no suitable GPU; 2 for invalid
    input.
    """
    if not watch:
        unwatched = {"--samples": samples, "--every": every, "--gpu-memory": series}
        alone = next((name for name, value in unwatched.items() if value is not None), None)
        if alone is not None:
            raise click.UsageError(f"{alone} requires --watch.")
    elif file is not None:
        raise click.UsageError(
            f"--watch reads this host or --gpu-memory SERIES; to rank the GPUs of {file}, remove --watch."
        )
    elif out is not None or python is not None:
        raise click.UsageError(f"{'-o' if out is not None else '--python'} cannot be used with --watch.")
    elif series is not None and (samples is not None or every is not None):
        given_too = "--samples" if samples is not None else "--every"
        raise click.UsageError(f"{given_too} cannot be used with --gpu-memory: a series has its own times.")
    if file is not None and python is not None:
        raise click.UsageError("--python applies to this host; a snapshot has its own packages.")
    if watch:
        return _watched(series, samples or 10, 1.0 if every is None else every, need, explain=explain, form=form)
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.files import store
    from vllm_runbooks.core.records import Severity
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.host import inspection as inventories
    from vllm_runbooks.host import loading as host_loading
    from vllm_runbooks.host import render as render_inventories
    from vllm_runbooks.host.summaries import summarize

    if file is not None:
        snapshot = host_loading.read_snapshot(file)
    else:
        from vllm_runbooks.host import inventory as here
        from vllm_runbooks.serve import places

        with terminal.waiting("reading this host"):
            snapshot = here.collect(starts=places.starts(), python=python)
    host = inventories.inspect(snapshot, catalog.specs(), need_gib=need)
    if out is not None:
        store(out, render_inventories.snapshot_json(snapshot))
        output.say(f"wrote {out}")
    if form == "json":
        output.write_json(to_json(host))
    elif explain:
        terminal.show(render_inventories.view(host))
        if file is None and host.gpus:
            output.write("Reading GPUs was tested with a stand-in for NVML, never on a GPU.")
    else:
        again = terminal.again("--explain", is_repeatable=file != "-")
        terminal.show(summary_view(summarize(host, file=file or "", again=again)))
    return int(any(finding.severity is not Severity.HINT for finding in host.findings))


def _watched(series: str | None, samples: int, every_s: float, need: float | None, *, explain: bool, form: str) -> int:
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.host import inventory as here
    from vllm_runbooks.host import render as render_inventories
    from vllm_runbooks.host.summaries import summarize_choice

    if series is None:
        with terminal.waiting(f"reading GPU memory {samples} times, {samples * every_s:.0f} s"):
            host = here.watched(catalog.specs(), samples=samples, every_s=every_s, need_gib=need)
    else:
        host = here.recorded(series, catalog.specs(), need_gib=need)
    if form == "json":
        output.write_json(to_json(host))
    elif explain:
        output.write(render_inventories.chosen(host).plain)
    else:
        terminal.show(summary_view(summarize_choice(host, again=terminal.again("--explain"))))
    return int(host.recommendation is None or host.recommendation.gpu is None)
