"""`vllm-runbooks serve`."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.cluster.commands import serve as serve_nodes
from vllm_runbooks.core.console import given, output
from vllm_runbooks.history import kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vllm_runbooks.host.running import Show
    from vllm_runbooks.probe.starts import Guarded
    from vllm_runbooks.serve.subject import ServedLaunch

_CHECKS = ("nodes", "command", "model", "plan", "port", "lock", "memory")
_NVML = "nvml"
_DAY_S = 86400


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog=given.examples(
        "serve -- vllm serve Qwen/Qwen3-8B --max-model-len 16384",
        "serve --retry 2 --record cases/night -- bash launch.sh",
        "serve --check -- vllm serve Qwen/Qwen3-8B --port 8001",
        "serve --ray 10.0.0.1:6379 Qwen/Qwen3-32B --tensor-parallel-size 2",
        "serve --hosts hosts.txt Qwen/Qwen3-32B --pipeline-parallel-size 2 --port 8001",
    ),
)
@click.option("--check", "is_check", is_flag=True, help="Make the checks alone, and start nothing.")
@click.option("--until-ready", is_flag=True, help="End the server as soon as it is ready: 0 proves the command.")
@given.value(
    "--vllm VERSION", "Release that is started (default: the one that the command's Python has).", complete.RELEASE
)
@given.value(
    "--gpus SPEC",
    "The cards for the plan: 2xA100-80GB or a snapshot's file (default: those of this host).",
    complete.CARDS,
)
@given.value(
    "--gpu-memory SOURCE",
    "Where readings of GPU memory come from: the driver (nvml), or a recorded series (a file).",
    default=_NVML,
)
@click.option("--skip", "left_out", multiple=True, type=click.Choice(_CHECKS), help="Leave a check out; repeatable.")
@given.value("--samples N", "Readings that must agree.", click.IntRange(2, 1000), default=5)
@given.value("--every S", "Seconds between two of them.", click.FloatRange(0.05, 600), default=1.0)
@given.value(
    "--within MIB", "By how much the memory in use may move over them.", click.FloatRange(0, 1e6), default=64.0
)
@given.value(
    "--wait S",
    "Longest wait for stable memory, and for another start on the same card.",
    click.FloatRange(0, _DAY_S),
    default=600.0,
)
@given.value(
    "--ready-within S", "End the start when it is not ready by then (default: no limit).", click.FloatRange(1, _DAY_S)
)
@given.value(
    "--end-hung-after S",
    "End the server when it has hung for so long; 0: never.",
    click.FloatRange(0, _DAY_S),
    default=600.0,
)
@given.value(
    "--probe-every S",
    "Ask the server that is ready for a token now and then (default: not; over several nodes 30).",
    click.FloatRange(1, _DAY_S),
)
@given.value(
    "--retry N",
    "Further tries at most, each with a change that was checked and is said.",
    click.IntRange(0, 10),
    default=0,
)
@given.value("--ray ADDRESS", "Start MODEL over the nodes of the Ray cluster there.")
@given.value("--hosts FILE|LIST", "Start MODEL over these hosts, by ssh: a file, or HOST,HOST.")
@given.value("--expect N", "With --ray: how many nodes there are.", click.IntRange(1, 10000))
@given.value("--ssh-config FILE", "With --hosts: a configuration of ssh in place of the user's own.")
@given.value(
    "--python pythons [NODE=]PATH",
    "With nodes: the Python that vLLM runs with, on all of them or on one.",
    multiple=True,
)
@given.value(
    "--env environment NAME[=VALUE]",
    "With nodes: a variable of the start, without a value that of this shell; repeatable.",
    multiple=True,
)
@given.value("--record DIR", "Make a case of it, secrets replaced.", given.NEW_FOLDER)
@given.value("--dir folder DIR", "Folder for the log as it is (default: among those of all starts).", given.NEW_FOLDER)
@catalog_options.CATALOG
@catalog_options.LANG
@kept.NO_HISTORY
@given.FORMAT
@click.argument("command", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
def serve(
    *,
    command: tuple[str, ...],
    left_out: tuple[str, ...],
    probe_every: float | None,
    record: Path | None,
    no_history: bool,
    form: str,
    **options: Any,
) -> int:
    """Start a vLLM server with a guard: in place of `vllm serve …` write `vllm-runbooks serve -- vllm serve …`.

    Before: the command is linted and planned, its port, its files and the memory of its GPUs are checked, and a lock
    keeps two starts from profiling on one GPU at the same time. While it starts: its log is kept whole, its phases are
    told, a hang is told from a slow start. It is ready when it has answered a request, not when a port is open. A start
    that fails is diagnosed. Signals are handed on, and nothing of the server is left behind.

    With --ray or --hosts it is one server over several nodes: MODEL with options of `vllm serve`. The nodes are asked
    and measured first, each gets its own part and environment, and when one part ends, all are ended.

    Exit status: the server's own; 128 and its number after a signal; 1 when it was never ready; 2 when the request
    cannot be read.
    """
    from vllm_runbooks.host import gpu_memory as readings
    from vllm_runbooks.runbooks import recording
    from vllm_runbooks.serve import guard as guarded_start
    from vllm_runbooks.serve import history_entry as serve_history

    over_nodes = options["ray"] is not None or options["hosts"] is not None
    if not command and not over_nodes:
        raise click.UsageError("give the command that starts the server, after --, as in -- vllm serve MODEL.")
    series = "" if options["gpu_memory"] == _NVML else options["gpu_memory"]
    if over_nodes and probe_every is None:
        probe_every = serve_nodes.PROBE_EVERY_S
    is_check, tries = options["is_check"], 1 + options["retry"]
    request = functools.partial(
        guarded_start.LaunchRequest,
        gpus=options["gpus"],
        left_out=left_out,
        steady=guarded_start.Steady(options["samples"], options["every"], options["within"], options["wait"]),
        limits=guarded_start.Limits(
            options["ready_within"], options["end_hung_after"] or None, probe_every_s=probe_every
        ),
        tries=tries,
        folder=options["folder"],
        is_check=is_check,
        proof=(lambda _: None) if options["until_ready"] else None,
    )
    if record is not None:
        recording.check_folder(record)
    inputs = {"tries": tries, "left_out": list(left_out), "gpus": options["gpus"]}
    of_nodes = {name: options[name] for name in ("expect", "ssh_config", "pythons", "environment")}

    @contextlib.contextmanager
    def told(subject: ServedLaunch) -> Iterator[Callable[[Guarded], None]]:
        # Checks alone start nothing.
        with (
            kept.opened(no_history=no_history or is_check) as history,
            serve_history.start(history, subject, inputs) as tell,
        ):
            yield tell

    if over_nodes:
        launch = serve_nodes.start(
            command,
            request,
            ray=options["ray"],
            hosts=options["hosts"],
            **of_nodes,
            vllm=options["vllm"],
            gpu_memory=series,
            show=_shown(form),
            told=told,
        )
    else:
        _check_alone(of_nodes, left_out)
        source, why_none = readings.source_of(series)
        subject = guarded_start.subject(command, vllm=options["vllm"])
        with told(subject) as tell:
            if sys.stderr.isatty():
                output.say("checking the launch: command, plan, port, files, GPU memory")
            launch = guarded_start.serve(
                request(subject=subject, source=source, why_none=why_none), show=_shown(form), say=output.say
            )
            tell(launch)
    _tell(launch, form)
    return _recorded(launch, record)


def _check_alone(of_nodes: dict[str, Any], left_out: tuple[str, ...]) -> None:
    names = {"ssh_config": "ssh-config", "pythons": "python", "environment": "env"}
    options = [f"--{names.get(name, name)}" for name, value in of_nodes.items() if value]
    alone = next(iter(options), "--skip nodes" if "nodes" in left_out else None)
    if alone is not None:
        raise click.UsageError(f"{alone} is for --ray or --hosts; give one of them as well.")


def _recorded(launch: Guarded, record: Path | None) -> int:
    from vllm_runbooks.core.errors import RunbooksError
    from vllm_runbooks.runbooks import recording

    if record is not None and launch.attempts:
        try:
            recording.record_last_try(launch, record, say=output.say)
        except RunbooksError as error:
            output.say(f"no case was made: {error}")
    return launch.status


def _shown(form: str) -> Show:
    from vllm_runbooks.runbooks.commands.record import shown_live

    return shown_live(is_error=form == "json")


def _tell(launch: Guarded, form: str) -> None:
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.serve import render as render_guarded

    if form == "json":
        output.write_json(to_json(launch))
    else:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            click.echo(render_guarded.text(launch), err=True)
