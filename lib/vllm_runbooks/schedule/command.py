"""The commands `schedule add`, `list`, `show`, `remove`, `write`, `wake` and `alerts`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from vllm_runbooks.core.console import given, output
from vllm_runbooks.core.display import to_json
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import store

if TYPE_CHECKING:
    from vllm_runbooks.schedule.records import ScheduledJob

_OUT = given.value("-o --output target FILE", "Output file.", given.FILE)
_EXIT_PARTLY = 1


@click.group()
def schedule() -> None:
    """Run checks on a schedule.

    systemd or cron only triggers the scheduler, which decides what is due, missed or overlapping.
    """


@schedule.command(
    epilog=given.examples(
        "schedule add nightly --at '0 3 * * *' --zone Europe/Berlin -- check",
        "schedule add server --at '*/10 * * * *' --webhook-env HOOK -- run single-gpu-oom -p evidence=vllm.log",
    ),
)
@click.argument("name")
@given.value("--at CRON", "Cron expression (minute hour day month weekday), such as '0 3 * * *'.", required=True)
@given.value("--zone NAME", "Time zone, as in Europe/Berlin.", default="UTC")
@given.choice("--missed", "What to do after missed runs: run once, or skip.", ["run", "skip"], default="run")
@given.value("--grace T", "How late a missed run may start.", given.Span(most="31d"), default="1h")
@given.choice("--overlap", "If the last run is still active: skip, or wait.", ["skip", "wait"], default="skip")
@given.value("--timeout T", "Timeout per run.", given.Span("1s", "31d"), default="1h")
@given.value("--webhook-env VARIABLE", "Environment variable with the webhook address for changes.")
@given.value("--metrics FILE", "Text file for Prometheus' node exporter; the name must end in .prom.")
@given.value("--out DIR", "Folder for the output of the runs, one subfolder each.")
@click.option("--replace", is_flag=True, help="Replace a job of this name.")
@click.argument("command", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
def add(name: str, command: tuple[str, ...], *, replace: bool, **options: Any) -> None:
    """Add a job: `check`, `probe`, `run` or a papermill command.

    Nothing is run or installed: `schedule write` writes the timer. File names are relative to this folder.
    """
    from vllm_runbooks.schedule import cron, jobs, policy, wake
    from vllm_runbooks.schedule.records import Missed, Overlap, ScheduledJob

    file = jobs.path(name)
    if file.exists() and not replace:
        raise InputError(f"{name}: job already exists; use another name, or --replace")
    now = wake.clock()
    job = ScheduledJob(
        name=name,
        at=" ".join(options["at"].split()),
        zone=options["zone"],
        command=command,
        folder=str(Path.cwd()),
        added=policy.stamp(now),
        missed=Missed(options["missed"]),
        grace_s=options["grace"],
        overlap=Overlap(options["overlap"]),
        timeout_s=options["timeout"],
        webhook_env=options["webhook_env"],
        metrics=options["metrics"],
        out=options["out"],
    )
    for _, message in jobs.problems(job):
        raise InputError(message if message.startswith("--") else f"{name}: {message}")
    _asked(job)
    if job.metrics is not None and not Path(job.folder, job.metrics).parent.is_dir():
        raise InputError(f"--metrics {job.metrics}: {Path(job.metrics).parent} is not a folder; create it first")
    following = cron.after(cron.parse(job.at), cron.zone(job.zone), now)
    file = jobs.save(job)
    own = "" if job.command[0] == jobs.PAPERMILL else "vllm-runbooks "
    output.write(
        f"Added job {name}. It runs after you install its timer.\n"
        f"Next run:          {policy.stamp(following)} ({job.at}, {job.zone})\n"
        f"Install its timer: vllm-runbooks schedule write {name} systemd --apply  # or cron, or jupyter\n"
        f"Run it now:        {own}{shlex.join(job.command)}\n"
        f"File:              {file}"
    )


def _asked(job: ScheduledJob) -> tuple[Path, dict[str, Any]]:
    """Parse the job's command; for a notebook return its path and parameters.

    Raises:
        InputError: it cannot be parsed.
    """
    from vllm_runbooks.cli import commands
    from vllm_runbooks.core import extras
    from vllm_runbooks.schedule import jobs

    first, *rest = job.command
    if first != "probe":
        extras.require("runbooks")
    if first == jobs.PAPERMILL:
        return _notebook(job, rest)
    command = cast("click.Command", commands.get_command(click.Context(commands), first))  # one of jobs.OWN
    with command.make_context(f"vllm-runbooks {first}", list(rest)) as context:
        parameters = dict(context.params)
    if first != "run":
        return Path(), {}
    from vllm_runbooks.runbooks.commands.runbooks import find
    from vllm_runbooks.runbooks.notebook import bind

    runbook = find(parameters["runbook_id"], parameters["runbooks"])
    return Path(runbook.path), dict(bind(runbook, dict(parameters["parameters"])))


def _notebook(job: ScheduledJob, rest: list[str]) -> tuple[Path, dict[str, Any]]:
    """The notebook and parameters of a papermill command."""
    from papermill.cli import papermill

    with papermill.make_context("papermill", list(rest)) as context:
        parameters = dict(context.params)
    path = Path(job.folder, rest[0])
    if not path.is_file():
        raise InputError(f"{rest[0]}: no such notebook; use papermill IN OUT, then its options")
    values = {name: _typed(value) for name, value in parameters.get("parameters", ())}
    return path, {**values, **dict(parameters.get("parameters_raw", ()))}


def _typed(value: str) -> Any:
    """A value as papermill converts it."""
    words: dict[str, Any] = {"True": True, "False": False, "None": None}
    if value in words:
        return words[value]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


@schedule.command("list", epilog=given.examples("schedule list"))
@given.FORMAT
def list_(form: str) -> int:
    """List your jobs. A broken job is reported on stderr and causes exit status 1."""
    from vllm_runbooks.schedule import jobs
    from vllm_runbooks.schedule import render as shown
    from vllm_runbooks.schedule.records import Jobs

    stored, is_whole = [], True
    for name in jobs.names():
        try:
            stored.append(jobs.load(name))
        except InputError as error:
            is_whole = False
            output.say(str(error))
    output.write_json(to_json(Jobs(tuple(stored)))) if form == "json" else output.write(shown.jobs(stored))
    return 0 if is_whole else _EXIT_PARTLY


@schedule.command(epilog=given.examples("schedule show nightly"))
@click.argument("name")
@given.FORMAT
def show(name: str, form: str) -> None:
    """Show a job and when it is next due."""
    from vllm_runbooks.schedule import cron, jobs, policy, wake
    from vllm_runbooks.schedule import render as shown

    job = jobs.load(name)
    following = policy.stamp(cron.after(cron.parse(job.at), cron.zone(job.zone), wake.clock()))
    output.write_json(to_json(job)) if form == "json" else output.write(shown.job(job, following))


@schedule.command(epilog=given.examples("schedule remove nightly"))
@click.argument("name")
def remove(name: str) -> None:
    """Remove a job. Its runs and history stay; the command that stops its timer is printed."""
    from vllm_runbooks.catalog import host_commands
    from vllm_runbooks.schedule import jobs, units

    removed = jobs.remove(name)
    timer = units.user_units() / f"vllm-runbooks-{name}.timer"
    output.write(f"Removed {removed}")
    if timer.is_file():
        output.write(f"Its timer is still installed: {host_commands.line('user-timer-off', unit=timer.name)}")


@schedule.command(
    epilog=given.examples(
        "schedule write nightly systemd --apply",
        "schedule write nightly cron",
        "schedule write nightly jupyter --post http://localhost:8888 --token-env JUPYTER_TOKEN",
    )
)
@click.argument("name")
@click.argument("form", metavar="systemd|cron|jupyter", type=click.Choice(["systemd", "cron", "jupyter"]))
@given.value("-o --output target DIR|FILE", "Output folder or file.", click.Path(path_type=Path))
@click.option("--apply", "is_applied", is_flag=True, help="Copy the units to your systemd folder.")
@given.value("--post url URL", "Create the job in a running JupyterLab.")
@given.value("--token-env VARIABLE", "Environment variable with that server's token.")
@click.option("--now", "is_now", is_flag=True, help="Run the job in JupyterLab once, now.")
def write(
    name: str, form: str, *, target: Path | None, is_applied: bool, url: str | None, token_env: str | None, is_now: bool
) -> None:
    """Write a job's timer for systemd, cron or JupyterLab.

    Nothing on this host changes without --apply. The commands that enable and disable the timer are printed.
    """
    from vllm_runbooks.schedule import jobs

    job = jobs.load(name)
    if is_applied and form != "systemd":
        raise InputError(f"--apply: nothing to copy for {form}; remove it")
    if (url is None) != (token_env is None) or (url is not None and form != "jupyter") or (is_now and url is None):
        raise InputError("--post and --token-env require each other and jupyter; --now requires both")
    if form == "systemd":
        _write_units(job, target, is_applied=is_applied)
    elif form == "cron":
        _write_cron(job, target)
    else:
        _write_jupyter(job, target, url=url, token_env=token_env, is_now=is_now)


def _write_units(job: ScheduledJob, target: Path | None, *, is_applied: bool) -> None:
    from vllm_runbooks.catalog import host_commands
    from vllm_runbooks.schedule import units

    made = units.systemd(job)
    folder = units.user_units() if is_applied else target
    if folder is None:
        output.write("\n".join(f"# {file}\n{text}" for file, text in made.items()))
        return
    _make(folder)
    for file, text in made.items():
        store(folder / file, text)
        output.write(f"Stored {folder / file}")
    timer = f"{units.service_name(job)}.timer"
    if not is_applied:
        output.write(f"To copy them to {units.user_units()}: vllm-runbooks schedule write {job.name} systemd --apply")
        return
    output.write(f"To load them: {host_commands.line('user-units-reload')}")
    output.write(f"To start it:  {host_commands.line('user-timer-on', unit=timer)}")
    output.write(f"To undo that: {host_commands.line('user-timer-off', unit=timer)}")


def _write_cron(job: ScheduledJob, target: Path | None) -> None:
    from vllm_runbooks.catalog import host_commands
    from vllm_runbooks.schedule import units

    line = units.crontab(job)
    if target is None:
        output.write_script(line)
        return
    _make(target.parent)
    store(target, line)
    output.write(f"Stored {target}\nTo add the line: {host_commands.line('crontab-edit')}")


def _write_jupyter(
    job: ScheduledJob, target: Path | None, *, url: str | None, token_env: str | None, is_now: bool
) -> None:
    import json

    from vllm_runbooks.schedule import jupyter

    if job.command[0] not in ("run", "papermill"):
        raise InputError(f"{job.name}: JupyterLab runs only notebooks; use a job with `run ID` or papermill")
    notebook, parameters = _asked(job)
    if url is not None and token_env is not None:
        id_ = jupyter.create(job, notebook, parameters, url=url, token_env=token_env, is_now=is_now)
        output.write(f"Created {'job' if is_now else 'job definition'} {id_}")
        return
    text = json.dumps(jupyter.definition(job, parameters), indent=2) + "\n"
    if target is None:
        output.write_script(text)
        return
    _make(target.parent)
    store(target, text)
    output.write(f"Stored {target}\nCopy the notebook to the server under the name in it: {notebook}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}; use another folder") from None


@schedule.command(epilog=given.examples("schedule wake", "schedule wake nightly --format json"))
@click.argument("name", required=False)
@click.option("--quiet", is_flag=True, help="Print nothing if nothing was due.")
@given.FORMAT
def wake(name: str | None, *, quiet: bool, form: str) -> int:
    """Run the jobs that are due, one after the other; timers call this command.

    Exit status: 0 if nothing is due or all runs pass; 1 if a run fails, was missed or interrupted, or is unknown; 2
    if a job or the history cannot be read.
    """
    from vllm_runbooks.history import store as history
    from vllm_runbooks.schedule import jobs
    from vllm_runbooks.schedule import render as shown
    from vllm_runbooks.schedule import wake as waking
    from vllm_runbooks.schedule.records import Turns

    turns, status = [], 0
    # Without a stored result, the run would be repeated at every wake-up.
    with history.opened(say=output.say, is_needed=True) as kept:
        for job_name in [name] if name is not None else jobs.names():
            try:
                turns.append(waking.turn(jobs.load(job_name), kept))
            except RunbooksError as error:
                if name is not None:
                    raise
                output.say(str(error))
                status = 2
    status = max([status, *(waking.status(turn) for turn in turns)])
    if form == "json":
        output.write_json(to_json(Turns(tuple(turns))))
        return status
    reported = [turn for turn in turns if not quiet or turn.action != "nothing" or waking.status(turn)]
    if reported:
        output.write(shown.turns(reported))
    elif not turns and not quiet:
        output.write(shown.jobs(()))
    return status


@schedule.command(epilog=given.examples("schedule alerts -o vllm-runbooks.rules.yml"))
@_OUT
def alerts(target: Path | None) -> None:
    """Write Prometheus alert rules for jobs and vLLM servers."""
    from vllm_runbooks.catalog import load as catalog
    from vllm_runbooks.schedule import alerts as written

    text = written.rules_file(catalog.serving())
    if target is None:
        output.write_script(text)
        return
    store(target, text)
    output.write(f"Stored {target}")
