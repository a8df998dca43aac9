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
@click.option("--check", "is_check", is_flag=True, help="Run the checks only.")
@click.option(
    "--until-ready",
    is_flag=True,
    help="Stop the server as soon as it is ready: exit status 0 means that the command works.",
)
@given.value(
    "--vllm VERSION", "Release to launch (default: the one installed in the command's Python).", complete.RELEASE
)
@given.value(
    "--gpus SPEC",
    "GPUs for the plan: 2xA100-80GB or a snapshot file (default: this host's).",
    complete.CARDS,
)
@given.value(
    "--gpu-memory SOURCE",
    "Source of GPU memory readings: the driver (nvml), or a recorded series (a file).",
    default=_NVML,
)
@given.choice("--skip left_out", "Skip this check; repeatable.", _CHECKS, multiple=True)
@given.value("--samples N", "Number of GPU memory readings that must agree.", click.IntRange(2, 1000), default=5)
@given.value("--every S", "Seconds between two readings.", click.FloatRange(0.05, 600), default=1.0)
@given.value(
    "--within MIB", "Largest change in memory used over these readings.", click.FloatRange(0, 1e6), default=64.0
)
@given.value(
    "--wait S",
    "Maximum time to wait for stable memory, and for another launch on the same GPU.",
    click.FloatRange(0, _DAY_S),
    default=600.0,
)
@given.value(
    "--ready-within S", "Stop a launch that is not ready after this time (default: never).", click.FloatRange(1, _DAY_S)
)
@given.value(
    "--end-hung-after S",
    "Stop a server that has hung for this long (0: never).",
    click.FloatRange(0, _DAY_S),
    default=600.0,
)
@given.value(
    "--probe-every S",
    "Request a token from the running server at this interval (default: never; on several nodes 30).",
    click.FloatRange(1, _DAY_S),
)
@given.value(
    "--retry N",
    "Retries after a failure, each with a checked change.",
    click.IntRange(0, 10),
    default=0,
)
@given.value("--ray ADDRESS", "Launch MODEL on the nodes of the Ray cluster at ADDRESS.")
@given.value("--hosts FILE|LIST", "Launch MODEL on these hosts over ssh: a file, or HOST,HOST.")
@given.value("--expect N", "With --ray: number of nodes.", click.IntRange(1, 10000))
@given.value("--ssh-config FILE", "With --hosts: an ssh configuration file to use instead of your own.")
@given.value(
    "--python pythons [NODE=]PATH",
    "On several nodes: the Python with vLLM, on all nodes or on one.",
    multiple=True,
)
@given.value(
    "--env environment NAME[=VALUE]",
    "On several nodes: environment variable of the launch; without =VALUE, its value in this shell; repeatable.",
    multiple=True,
)
@given.value("--record DIR", "Write a case to DIR, without secrets.", given.NEW_FOLDER)
@given.value("--dir folder DIR", "Folder for the log (default: in the folder of all launches).", given.NEW_FOLDER)
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
    """Launch a vLLM server under supervision: replace `vllm serve …` with `vllm-runbooks serve -- vllm serve …`.

    Before the launch the command is linted and planned; port, files and free GPU memory are
    checked, and a lock prevents two launches from profiling the same GPU concurrently. During the
    launch the whole log is kept, phases are reported, and a hang is distinguished from a slow
    startup. The server is ready once it has answered a request. A failed launch is diagnosed.
    Signals are forwarded, and no process of the server is left behind.

    With --ray or --hosts, MODEL is launched as one server across several nodes, with the options of `vllm serve`: the
    nodes are checked first, each gets its own arguments and environment, and if the process on one node exits, those on
    all nodes are stopped.

    Exit status: the server's own; 128 plus the signal number if a signal ended it; 1 if it was never ready; 2 for
    invalid input.
    """
    from vllm_runbooks.host import gpu_memory as readings
    from vllm_runbooks.runbooks import recording
    from vllm_runbooks.serve import guard as guarded_start
    from vllm_runbooks.serve import history_entry as serve_history

    over_nodes = options["ray"] is not None or options["hosts"] is not None
    if not command and not over_nodes:
        raise click.UsageError("no launch command; add it after --, as in -- vllm serve MODEL.")
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
        # A check launches nothing, so it has no entry.
        with (
            kept.opened(no_history=no_history or is_check) as history,
            serve_history.start(history, subject, inputs) as tell,
        ):
            yield tell

    lines = _SupervisorLines(are_kept=is_check)
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
            say=lines.say,
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
                request(subject=subject, source=source, why_none=why_none), show=_shown(form), say=lines.say
            )
            tell(launch)
    _tell(launch, form)
    lines.print()
    return _recorded(launch, record)


class _SupervisorLines:
    """The supervisor's lines on standard error; those of checks alone are kept until their answer is printed."""

    def __init__(self, *, are_kept: bool) -> None:
        self._kept: list[str] | None = [] if are_kept else None

    def say(self, line: str) -> None:
        if self._kept is None or line.startswith("waiting for "):
            _say(line)
        else:
            self._kept.append(line)

    def print(self) -> None:
        for line in self._kept or ():
            _say(line)


def _say(line: str) -> None:
    from vllm_runbooks.core.console import terminal
    from vllm_runbooks.core.display import one_line
    from vllm_runbooks.core.redaction.redact import redact_text
    from vllm_runbooks.core.views.styled import SentenceLines

    terminal.remark([SentenceLines(f"vllm-runbooks: {one_line(redact_text(line))}", "  ")])


def _check_alone(of_nodes: dict[str, Any], left_out: tuple[str, ...]) -> None:
    names = {"ssh_config": "ssh-config", "pythons": "python", "environment": "env"}
    options = [f"--{names.get(name, name)}" for name, value in of_nodes.items() if value]
    alone = next(iter(options), "--skip nodes" if "nodes" in left_out else None)
    if alone is not None:
        raise click.UsageError(f"{alone} requires --ray or --hosts.")


def _recorded(launch: Guarded, record: Path | None) -> int:
    from vllm_runbooks.core.errors import RunbooksError
    from vllm_runbooks.runbooks import recording

    if record is not None and launch.attempts:
        try:
            recording.record_last_try(launch, record, say=output.say)
        except RunbooksError as error:
            output.say(f"no case was written: {error}")
    return launch.status


def _shown(form: str) -> Show:
    from vllm_runbooks.runbooks.commands.record import shown_live

    return shown_live(is_error=form == "json")


def _tell(launch: Guarded, form: str) -> None:
    from vllm_runbooks.core.console import terminal
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.serve import render as render_guarded

    if form == "json":
        output.write_json(to_json(launch))
    else:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        terminal.remark(summary_view(render_guarded.summary_of(launch)))
