"""`vllm-runbooks diagnose`."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.host import collect

if TYPE_CHECKING:
    from vllm_runbooks.catalog.symptoms import Catalog
    from vllm_runbooks.core.evidence import Evidence
    from vllm_runbooks.core.records import Answer


@click.command(
    epilog=given.examples(
        "diagnose startup.log --command launch.sh --gpus 8xRTX3090",
        "diagnose --from docker:vllm --format json",
        "diagnose startup-pack.zip",
    )
)
@click.argument("logs", nargs=-1, type=complete.LOG, metavar="[LOG…|FOLDER|PACK|-]")
@click.option(
    "--from",
    "source",
    metavar="SOURCE",
    help=f"Fetch the log with a read-only command: {', '.join(collect.FORMS)}.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Keep updating the answer as the log grows: a file until Ctrl-C, standard input until its end.",
)
@click.option(
    "--command",
    metavar="FILE",
    type=complete.SCRIPT,
    help="Launch script or manifest of this log; fixes are shown as changes to it.",
)
@click.option(
    "--policy",
    metavar="NAME",
    type=complete.POLICY,
    help="Include the steps of a policy, such as lower-utilization (see `catalog list --policies`).",
)
@click.option(
    "--vllm",
    metavar="VERSION",
    type=complete.RELEASE,
    help="vLLM release that wrote the log (default: read from the log).",
)
@click.option(
    "--gpus",
    metavar="SPEC",
    type=complete.CARDS,
    help="GPUs of the launch, to plan fixes: 8xRTX3090, a snapshot file or case, or local.",
)
@click.option(
    "--start",
    metavar="N",
    type=click.IntRange(min=1),
    help="Which launch to use if there are several, from 1 (default: the last).",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Ignore what a running server logged before this time, such as '11-20 09:40', as the log prints it.",
)
@click.option("--until", metavar="TIME", help="Ignore all lines after this time.")
@click.option(
    "--explain",
    is_flag=True,
    help="Show everything: why, how to verify, all fixes, figures, the plan compared with the log.",
)
@click.option(
    "--catalog",
    "catalogs",
    multiple=True,
    metavar="DIR",
    help="Additional catalog folder (with symptoms/); repeatable.",
)
@catalog_options.LANG
@given.FORMAT
def diagnose(
    *,
    logs: tuple[str, ...],
    source: str | None,
    follow: bool,
    command: str | None,
    policy: str | None,
    vllm: str | None,
    gpus: str | None,
    start: int | None,
    since: str | None,
    until: str | None,
    explain: bool,
    catalogs: tuple[str, ...],
    form: str,
) -> int:
    """Find the root cause in the log of a vLLM launch.

    Pass a log file, several logs of one launch (nodes or ranks) or their folder, a recorded case, an evidence pack, or
    `-` for standard input.

    Exit status: 0 if the launch is healthy, 1 if a cause is found or health is unproven, 2 for invalid input.
    """
    from vllm_runbooks.catalog import folders, languages
    from vllm_runbooks.catalog.load import load_catalog
    from vllm_runbooks.core import printed
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.core.views.styled import BLANK, SentenceLines
    from vllm_runbooks.diagnosis import diagnosing
    from vllm_runbooks.diagnosis.render import answers as render_answers
    from vllm_runbooks.reading import sources

    if logs and source is not None:
        raise click.UsageError("use either log files or --from, not both.")
    if not logs and source is None:
        raise click.UsageError("pass a log file, a recorded case, or - for standard input.")
    if "-" in logs and command == "-":
        raise click.UsageError("standard input can be read only once; use a file for the log or the command.")
    if follow and source is not None:
        raise click.UsageError("--follow reads - or a file; pipe the log in, as in `docker logs -f NAME 2>&1` | … -.")
    if follow and (len(logs) != 1 or (start, command, policy, gpus, since, until) != (None,) * 6):
        raise click.UsageError("--follow accepts only one growing log, a file or -, and diagnoses its last launch.")
    shelf = load_catalog((*folders.own_catalogs(), *catalogs))
    output.name_left_out(shelf.problems)
    if policy is not None:
        shelf.policy(policy)
    evidence = None
    if follow:
        answer = _followed(logs[0], vllm, shelf)
    else:
        evidence = sources.load_files(logs, vllm=vllm) if source is None else _fetched(source, vllm)
        text = evidence.command if command is None else _command(command)
        evidence = replace(evidence, command=text, period=printed.period(since, until))
        answer = diagnosing.diagnose(evidence, start=start, catalog=shelf, policy=policy or "", gpus=gpus)
    answers: tuple[Answer, ...] = ()
    if evidence is not None and start is None:
        answers = diagnosing.different_launches(evidence, answer, catalog=shelf, policy=policy or "", gpus=gpus)
    if form == "json":
        output.write_json(to_json(_noted(answer) if answers else answer))
    else:
        is_file = not follow and "-" not in (*logs, command)
        again = "" if explain else terminal.again("--explain", is_repeatable=is_file)
        pack = terminal.command_line("pack", *logs) if logs and is_file else ""
        has_command = bool(evidence is not None and evidence.command)
        if answers:
            say = languages.Wording(answer.lang)
            text = say("{count} logs of different launches, each diagnosed separately:", count=len(answers))
            terminal.show([SentenceLines(text, ""), BLANK])
        for number, one in enumerate(answers or [answer]):
            view = render_answers.view(
                one,
                is_explained=explain,
                gpus=gpus or "",
                has_command=has_command,
                start=start,
                pack=pack,
                again=again,
            )
            terminal.show([*([BLANK] if number else []), *view])
    return int(not all(one.outcome.is_healthy for one in answers or [answer]))


def _noted(answer: Answer) -> Answer:
    """The answer of several launches' logs together, with a note that they are."""
    from vllm_runbooks.catalog import languages

    note = languages.Wording(answer.lang)("The logs are of different launches; diagnose each one separately.")
    return replace(answer, notes=(note, *answer.notes))


def _command(name: str) -> str:
    """Read the script or manifest that a log belongs to.

    Raises:
        InputError: it cannot be read, or launches no server.
    """
    from vllm_runbooks.lint import ways_out as commands
    from vllm_runbooks.reading import sources

    text = sources.read_text(name)
    commands.check_starts(text, name)
    return text


def _followed(name: str, vllm: str | None, catalog: Catalog) -> Answer:
    """The answer at the end of a growing log; each change before it is one line on standard error.

    Ctrl-C or a termination ends the log; the last output of a stopped server is still read, until a second signal.
    """
    from vllm_runbooks.diagnosis import diagnosing
    from vllm_runbooks.diagnosis.render import answers as render_answers

    interrupts: list[int] = []

    def interrupted(number: int, _: object) -> None:
        interrupts.append(number)
        if name == "-" and len(interrupts) == 1:
            click.echo("waiting a few seconds for the end of the log; interrupt again to get the answer now", err=True)

    summary = ""
    before = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for answer in diagnosing.follow(name, interrupts=lambda: len(interrupts), vllm=vllm, catalog=catalog):
            line = render_answers.interim(answer)
            if line.partition(": ")[2] != summary:
                click.echo(line, err=True)
            summary = line.partition(": ")[2]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return answer


def _fetched(source: str, vllm: str | None) -> Evidence:
    """Fetch the log; show the command before it runs, and its tool's messages after it."""
    from vllm_runbooks.core.evidence import Evidence
    from vllm_runbooks.core.redaction.redact import redact_text

    command = collect.command(source)
    output.say(f"running `{redact_text(command.line)}`: {command.effect}")
    document, reason = collect.fetch(command)
    if reason:
        output.say(f"{command.argv[0]}:  {'; '.join(reason.splitlines())}")
    return Evidence((document,), vllm=vllm)
