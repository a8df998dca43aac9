"""`vllm-runbooks plan`."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from vllm_runbooks.catalog import complete
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan.records import Find, Layouts, Plan

if TYPE_CHECKING:
    from vllm_runbooks.core.records import PlanComparison
    from vllm_runbooks.core.views.summary import Summary
    from vllm_runbooks.plan.requests import PlanningRequest


class _PlanCommand(click.Command):
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        items = super().shell_complete(ctx, incomplete)
        names = {item.value for item in items}
        return [*items, *(item for item in complete.engine_options(incomplete) if item.value not in names)]


@click.command(
    cls=_PlanCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
    epilog=given.examples(
        "plan Qwen/Qwen3-8B --gpus 2xRTX3090 --max-model-len 16k",
        "plan Qwen/Qwen3-8B --gpus RTX3090 --find context",
        "plan --from-log startup.log -o mine.json",
    ),
)
@click.argument("model", metavar="[MODEL]", required=False, type=complete.MODEL)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ENGINE OPTIONS…]")
@click.option(
    "--gpus",
    metavar="SPEC",
    type=complete.CARDS,
    help="GPUs: 8xRTX3090, A100-80GB@node1,A100-80GB@node2, a snapshot file, a recorded case, or local; without GPUs "
    "cpu-64GB.",
)
@click.option(
    "--vllm", metavar="VERSION", type=complete.RELEASE, help="Release to plan for (default: the newest known)."
)
@click.option(
    "--tp", metavar="N", type=int, help="Tensor parallel size. If you set any of --tp, --pp, --dp, the others are 1."
)
@click.option("--pp", metavar="N", type=int, help="Pipeline parallel size.")
@click.option("--dp", metavar="N", type=int, help="Data parallel size.")
@click.option(
    "--env", "environment", multiple=True, metavar="NAME=VALUE", help="Environment variable of the launch; repeatable."
)
@click.option(
    "--find",
    "what",
    type=click.Choice([find.value for find in Find]),
    help="Find the longest context, the most concurrent requests, the fewest GPUs or the lowest utilization.",
)
@click.option("--from-log", metavar="LOG", type=complete.LOG, help="Compare the plan with what a launch printed.")
@click.option(
    "--start",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --from-log: which launch to use if there are several, from 1 (default: the last).",
)
@click.option(
    "--calibration",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Correct the plan with a file written by --from-log … -o.",
)
@click.option("--no-calibration", is_flag=True, help="Plan without corrections from measured launches.")
@click.option("--offline", is_flag=True, help="Use only the catalog's models: no Hub, and no cache of it.")
@click.option(
    "--deploy",
    type=given.FOLDER,
    metavar="DIR",
    help="Write scripts, compose files, units and an nginx configuration to DIR.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1, 65535),
    help="With --deploy: port of the first instance (default: 8000).",
)
@click.option("--retry-posts", is_flag=True, help="With --deploy: nginx retries a failed POST on another instance.")
@click.option(
    "-o", "--output", "out", metavar="FILE", type=given.FILE, help="With --from-log: write corrections for later plans."
)
@click.option("--explain", is_flag=True, help="Show everything: memory per GPU, all layouts, sources, calibration.")
@given.FORMAT
def plan(
    *,
    model: str | None,
    arguments: tuple[str, ...],
    gpus: str | None,
    vllm: str | None,
    tp: int | None,
    pp: int | None,
    dp: int | None,
    environment: tuple[str, ...],
    what: str | None,
    from_log: str | None,
    start: int | None,
    calibration: Path | None,
    no_calibration: bool,
    offline: bool,
    deploy: Path | None,
    port: int | None,
    retry_posts: bool,
    out: Path | None,
    explain: bool,
    form: str,
) -> int:
    """Check whether a model fits your GPUs, and find the best parallel layout.

    MODEL is a name in the catalog (`catalog list --models`), a name on the Hugging Face Hub or a folder with
    config.json; engine options are those of vllm serve. Without --tp, --pp or --dp all parallel layouts are ranked.
    If the model does not fit, the cheapest changes that make it fit are listed.

    Exit status: 0 if the model fits, 1 if it does not or may not fit, 2 if it cannot be planned.
    """
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.plan import planner
    from vllm_runbooks.plan.hub import HubAccess
    from vllm_runbooks.plan.render import summaries

    if deploy is None and (port is not None or retry_posts):
        raise click.UsageError(f"{'--port' if port is not None else '--retry-posts'} requires --deploy DIR.")
    if from_log is not None:
        others = (model, arguments, tp, pp, dp, environment, what, calibration, no_calibration, offline, deploy)
        if any(others):
            raise click.UsageError(
                "--from-log plans the launch in the log; it accepts only --gpus, --vllm, --start and -o."
            )
        return _from_log(from_log, gpus=gpus, vllm=vllm, start=start, out=out, explain=explain, form=form)
    _check_model(model)
    if model is None and gpus is None:
        raise click.UsageError("pass a model and --gpus, or --from-log and a log.")
    if model is None or gpus is None:
        cards = "one GPU's name, as in --gpus H100-80GB" if what == Find.GPUS else "the GPUs, as in --gpus 8xRTX3090"
        raise click.UsageError(f"pass {'a model' if model is None else cards}.")
    if start is not None:
        raise click.UsageError("--start chooses a launch in a log; it needs --from-log.")
    if calibration is not None and no_calibration:
        raise click.UsageError("give either --calibration or --no-calibration.")
    if out is not None:
        raise click.UsageError("-o writes corrections from a log; it needs --from-log.")
    with _own_options_told(arguments), terminal.waiting(f"reading {model}"):
        request = planner.request(
            model,
            gpus,
            vllm=vllm,
            tp=tp,
            pp=pp,
            dp=dp,
            arguments=arguments,
            environment=dict(_variable(member) for member in environment),
            calibration=calibration,
            is_calibrated=not no_calibration,
            access=HubAccess.NONE if offline else HubAccess.NETWORK,
        )
    answer: Plan | Layouts
    with terminal.waiting(f"planning {model} on {gpus}"):
        if what is not None:
            answer = planner.find(request, what)
        else:
            answer = planner.plan(request) if planner.has_sizes(request) else planner.layouts(request)
    if deploy is not None:
        _deploy(request, answer, deploy, port=port, retries_posts=retry_posts)
    is_searched = what != Find.GPUS and (what is None or answer.fits is False)
    with terminal.waiting("searching for changes that make it fit"):
        remedies = planner.remedies(request, answer) if is_searched else ()
    repeated = [*arguments, *(word for member in environment for word in ("--env", member))]
    repeated += ["--calibration", str(calibration)] if calibration is not None else []
    repeated += ["--no-calibration"] * no_calibration + ["--offline"] * offline
    folder = str(deploy) if deploy is not None and answer.fits is not False else ""
    origin = request.model.source if request.model.is_downloaded or request.model.is_assumed else None
    summary = summaries.summarize(
        answer,
        remedies,
        options=repeated,
        folder=folder,
        again=_again(explain=explain),
        origin=origin or "",
        unread=request.model.unread or request.model.contradicted,
    )
    if form == "json":
        output.write_json(to_json(summaries.with_text(answer, remedies, summary)))
    else:
        detailed = summaries.layout_of_first_change(answer, remedies)
        _show(summary, answer if explain else None, detailed)
    return int(answer.fits is not True)


def _deploy(
    request: PlanningRequest, answer: Plan | Layouts, folder: Path, *, port: int | None, retries_posts: bool
) -> None:
    from vllm_runbooks.plan import fleet, planner

    if answer.fits is False:
        output.say(f"no files written to {folder}: the model does not fit")
        return
    first = fleet.FIRST_PORT if port is None else port
    for path in planner.deploy(request, answer, folder, first_port=first, retries_posts=retries_posts):
        output.say(f"wrote {path}")


def _again(*, explain: bool) -> str:
    return "" if explain else terminal.again("--explain")


def _show(summary: Summary, record: Plan | Layouts | PlanComparison | None, first: Plan | None = None) -> None:
    """Show a summary, and the details of a record below it; `first` is the layout to detail."""
    from vllm_runbooks.core.views.styled import BLANK
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.plan.render import plans

    terminal.show([*summary_view(summary), *([BLANK, *plans.details(record, first)] if record is not None else [])])


@contextlib.contextmanager
def _own_options_told(arguments: tuple[str, ...]) -> Iterator[None]:
    """Suggest an option of this command in place of an unknown engine option."""
    try:
        yield
    except InputError as error:
        options = [name for parameter in click.get_current_context().command.params for name in parameter.opts]
        unknown = (word for word in arguments if word.startswith("--") and f"no option {word}" in str(error))
        near = next((match for word in unknown for match in difflib.get_close_matches(word, options, n=1)), None)
        raise InputError(f"{error} Did you mean {near}?" if near else str(error)) from None


def _check_model(model: str | None) -> None:
    if model is None or not model.startswith("-"):
        return
    name = model.partition("=")[0]
    options = [option for parameter in click.get_current_context().command.params for option in parameter.opts]
    near = next(iter(difflib.get_close_matches(name, options, n=1, cutoff=0.75)), None)
    what = f"Did you mean {near}?" if near else "Engine options go after MODEL."
    raise click.UsageError(f"No such option {name}. {what}", click.get_current_context())


def _variable(text: str) -> tuple[str, str]:
    name, is_set, value = text.partition("=")
    if not is_set or not name:
        raise click.UsageError(f"--env {text}: write NAME=VALUE.")
    return name, value


def _from_log(
    log: str, *, gpus: str | None, vllm: str | None, start: int | None, out: Path | None, explain: bool, form: str
) -> int:
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.diagnosis import diagnosing
    from vllm_runbooks.plan import planner
    from vllm_runbooks.plan.render import summaries

    with terminal.waiting(f"reading {log}"):
        comparison = diagnosing.from_log(log, gpus=gpus, vllm=vllm, start=start)
    if out is not None:
        rows = planner.keep(comparison, out)
        output.say(f"wrote {out}: {rows} rows")
    about = (Path(log).name, gpus or "", f"vLLM {vllm}" if vllm else "")
    summary = summaries.summarize_comparison(comparison, about, again=_again(explain=explain))
    if form == "json":
        output.write_json(to_json(replace(comparison, verdict=summary.state, summary=summary.sentence)))
    else:
        _show(summary, comparison if explain else None)
    return int(comparison.off is not None or not comparison.terms)
