"""`vllm-runbooks edge10 preflight`."""

from __future__ import annotations

from pathlib import Path

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.edge10.host.records import HOST_STEPS
from vllm_runbooks.edge10.options import VERSION


@click.command(
    epilog=given.examples(
        "edge10 preflight quantise --model Qwen/Qwen3-4B --data /data --image NAME:TAG",
        "edge10 preflight compile --registry 10.0.0.5:5000 --out host.json",
        "edge10 preflight evaluate --snapshot host.json --model Qwen/Qwen3-4B --format json",
    )
)
@click.argument("step", type=click.Choice(HOST_STEPS))
@given.value("--model NAME|FOLDER", "The model; the toolchain may reject it.", complete.MODEL)
@given.value("--data DIR", "Folder of models and artifacts that the container mounts.")
@given.value("--image NAME:TAG", "Container image of the step; it is looked up, not downloaded.")
@given.value("--registry HOST:PORT", "Registry of the images, if docker has to be configured for it.")
@given.value("--python PATH", "The Python that runs the step; its packages are checked.")
@given.value("--snapshot FILE", "A recorded host instead of this one; - for standard input.")
@given.value("--out FILE", "Write a snapshot of the host, for --snapshot FILE.", given.FILE)
@VERSION
@given.EXPLAIN
@given.FORMAT
def preflight(
    *, step: str, python: str | None, snapshot: str | None, out: Path | None, version: str | None, explain: bool,
    form: str, **named: str | None,
) -> int:  # fmt: skip
    """Check whether this host can run a step.

    Checks the driver, Docker and its settings, the image and the folder.
    Each Docker query has a timeout of 5 seconds. Nothing is downloaded, started, changed or logged in to.
    Facts that cannot be read are reported as unknown, never as passed.

    Exit status: 0 if no problem is found, 1 if there is a problem or an unknown fact, 2 for invalid input.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.files import store
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.edge10 import summaries
    from vllm_runbooks.edge10.host import preflight as here
    from vllm_runbooks.edge10.host import render as render_toolchains
    from vllm_runbooks.edge10.host import snapshots

    for name in ("model", "data"):
        if (value := named[name]) is not None and not value.strip():
            raise click.UsageError(f"--{name}: the name is empty; set one, or remove it.")
    if snapshot is not None and python is not None:
        raise click.UsageError("--python applies to this host; a snapshot has its own packages.")
    request = here.read_asked(step, **named)
    host = None if snapshot is None else snapshots.load(snapshot)
    with terminal.waiting(f"reading this host and docker before {step}"):
        checked_host = here.checked(request, snapshot=host, version=version, python=python)
    if out is not None:
        store(out, render_toolchains.host_snapshot(checked_host))
        output.say(f"wrote {out}")
    if form == "json":
        output.write_json(to_json(checked_host))
    elif explain:
        terminal.show(render_toolchains.host(checked_host))
    else:
        again = terminal.again("--explain", is_repeatable=snapshot != "-")
        terminal.show(summary_view(summaries.summarize_host(checked_host, again=again)))
    return int(checked_host.ok is not True)
