"""`vllm-runbooks serve`."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
_F = TypeVar("_F", bound="Callable[..., Any]")


def _amount(
    name: str, metavar: str, least: float, most: float, text: str, *, default: float | None = None
) -> Callable[[_F], _F]:
    bounds, is_default_shown = click.FloatRange(least, most), default is not None
    return click.option(
        name,
        metavar=metavar,
        type=bounds,
        default=default,
        show_default=is_default_shown,
        callback=given.number,
        help=text,
    )


def _repeatable(name: str, parameter: str, metavar: str, text: str) -> Callable[[_F], _F]:
    return click.option(name, parameter, metavar=metavar, multiple=True, help=f"With nodes: {text}")


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
@click.option(
    "--vllm",
    metavar="VERSION",
    type=complete.RELEASE,
    help="Release that is started (default: the one that the command's Python has).",
)
@click.option(
    "--gpus",
    metavar="SPEC",
    type=complete.CARDS,
    help="The cards for the plan: 2xA100-80GB or a snapshot's file (default: those of this host).",
)
@click.option(
    "--gpu-memory",
    metavar="SOURCE",
    default=_NVML,
    show_default=True,
    help="Where readings of GPU memory come from: the driver (nvml), or a recorded series (a file).",
)
@click.option("--skip", "left_out", multiple=True, type=click.Choice(_CHECKS), help="Leave a check out; repeatable.")
@click.option(
    "--samples",
    metavar="N",
    type=click.IntRange(2, 1000),
    default=5,
    show_default=True,
    help="Readings that must agree.",
)
@_amount("--every", "S", 0.05, 600, "Seconds between two of them.", default=1.0)
@_amount("--within", "MIB", 0, 1e6, "By how much the memory in use may move over them.", default=64.0)
@_amount(
    "--wait", "S", 0, _DAY_S, "Longest wait for stable memory, and for another start on the same card.", default=600.0
)
@_amount("--ready-within", "S", 1, _DAY_S, "End the start when it is not ready by then (default: no limit).")
@_amount("--end-hung-after", "S", 0, _DAY_S, "End the server when it has hung for so long; 0: never.", default=600.0)
@_amount(
    "--probe-every",
    "S",
    1,
    _DAY_S,
    "Ask the server that is ready for a token now and then (default: not; over several nodes 30).",
)
@click.option(
    "--retry",
    metavar="N",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    help="Further tries at most, each with a change that was checked and is said.",
)
@click.option("--ray", metavar="ADDRESS", help="Start MODEL over the nodes of the Ray cluster there.")
@click.option("--hosts", metavar="FILE|LIST", help="Start MODEL over these hosts, by ssh: a file, or HOST,HOST.")
@click.option("--expect", metavar="N", type=click.IntRange(1, 10_000), help="With --ray: how many nodes there are.")
@click.option("--ssh-config", metavar="FILE", help="With --hosts: a configuration of ssh in place of the user's own.")
@_repeatable("--python", "pythons", "[NODE=]PATH", "the Python that vLLM runs with, on all of them or on one.")
@_repeatable(
    "--env",
    "environment",
    "NAME[=VALUE]",
    "a variable of the start, without a value that of this shell; repeatable.",
)
@click.option("--record", metavar="DIR", type=given.NEW_FOLDER, help="Make a case of it, secrets replaced.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=given.NEW_FOLDER,
    help="Folder for the log as it is (default: among those of all starts).",
)
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
