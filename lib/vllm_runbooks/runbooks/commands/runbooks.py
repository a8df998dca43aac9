"""The commands `list`, `show`, `run` and `check`: find runbooks, execute them, turn verdicts into an exit status."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import sys
from collections import deque
from dataclasses import replace
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vllm_runbooks.catalog import complete
from vllm_runbooks.catalog import console as catalog_options
from vllm_runbooks.core.console import given, output, terminal
from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError, RunbooksError, suggestion
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Verdict
from vllm_runbooks.core.views.styled import BLANK, VERDICTS, Line, SentenceLines, TextBlock, listed, styled
from vllm_runbooks.history import kept
from vllm_runbooks.runbooks import history_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vllm_runbooks.cluster.tasks import RayExecutor
    from vllm_runbooks.core.records import Runbook, RunResult
    from vllm_runbooks.host.nodes.records import NodePart
    from vllm_runbooks.runbooks.suite import Progress, RunbookRequest, RunExecutor

_RUNBOOKS = given.value("--runbooks DIR", "Folder of runbooks to use instead of the packaged ones.")
_OUT = given.value("--out DIR", "Folder for executed notebooks and results.", given.FOLDER, default=Path("runbook-out"))


_TIMEOUT = given.value(
    "--timeout S",
    "Timeout per run, in seconds (default: 600, or 14400 with live).",
    click.FloatRange(min=1, max=86400),
)
_TIMEOUT_S, _LIVE_TIMEOUT_S = 600.0, 14400.0
"""The second is for runs that launch servers and may download a model."""


@click.command("list", epilog=given.examples("list --runbooks myrunbooks"))
@_RUNBOOKS
@given.FORMAT
def list_(runbooks: str | None, form: str) -> int:
    """List the runbooks.

    A broken runbook is reported on stderr and causes exit status 1.
    """
    good, bad = _inspect_all(runbooks)
    if not good and not bad and form == "text":
        output.say(f"{runbooks or 'the folder of runbooks'}: contains no runbook (.ipynb)")
    if form == "json":
        _print_json({"runbooks": [document(runbook) for runbook in good]})
    else:
        width = max((len(runbook.id) for runbook in good), default=0)
        for runbook in good:
            output.write(f"{runbook.id:<{width}}  {runbook.title}")
    for reason in bad.values():
        output.say(reason)
    return 1 if bad else 0


@click.command(epilog=given.examples("show single-gpu-oom", "show 4f1c9a02"))
@click.argument("runbook_id", metavar="ID", type=complete.RUNBOOK)
@_RUNBOOKS
@given.FORMAT
def show(runbook_id: str, runbooks: str | None, form: str) -> None:
    """Show what a runbook is for and its parameters, or an entry of the history.

    ID is a runbook's id, the path of an .ipynb file, or an entry's id or the beginning of one.
    """
    try:
        runbook = find(runbook_id, runbooks)
    except InputError:
        if not _show_entry(runbook_id, form):
            raise
        return
    if form == "json":
        _print_json(document(runbook))
        return
    declared = [(f"{p.name}: {p.type} = {p.default!r}", p.help) for p in runbook.parameters]
    width = max((len(left) for left, _ in declared), default=0)
    lines = [
        runbook.title,
        "",
        runbook.summary,
        "",
        f"Symptoms:     {', '.join(runbook.symptoms) or 'none in particular'}",
        f"Needs:        {'a GPU' if runbook.needs_gpu else 'no GPU'}",
        f"Side effects: {_side_effects(runbook)}",
        *([f"Steps:        {', '.join(runbook.steps)}"] if runbook.steps else []),
        "",
        "Parameters:",
        *(f"  {left:<{width}}  {text}".rstrip() for left, text in declared),
    ]
    output.write("\n".join(lines))


def _show_entry(id_: str, form: str) -> bool:
    from vllm_runbooks.core.display import to_json
    from vllm_runbooks.history import render as render_history
    from vllm_runbooks.history import store as history

    if not history.is_id(id_):
        return False
    with history.opened(say=output.say, is_needed=True) as kept_there:
        if not kept_there.beginning(id_):
            return False
        entry = kept_there.entry(id_)
        parts = kept_there.entries(part_of=entry.id)
    output.write_json(to_json(entry)) if form == "json" else output.write(render_history.entry(entry, parts))
    return True


def _side_effects(runbook: Runbook) -> str:
    if runbook.side_effects:
        return "yes, read it first"
    return "none without live" if any(parameter.name == "live" for parameter in runbook.parameters) else "none"


class _WithParameters(click.Command):
    """A command whose `-p` accepts NAME=VALUE as well as papermill's NAME VALUE.

    Names of parameters have no `=`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {name for parameter in self.params for name in parameter.opts}
        words: list[str] = []
        rest = deque(word for arg in args for word in _apart(arg))
        while rest:
            words.append(rest.popleft())
            if words[-1] not in ("-p", "--parameter"):
                continue
            name, is_joined, value = rest.popleft().partition("=") if rest else ("", "", "")
            if not is_joined and (not rest or not name or name in options or rest[0] in options):
                raise click.UsageError(f"{words[-1]} requires a name and a value, as in {words[-1]} NAME=VALUE.", ctx)
            words += [name, value if is_joined else rest.popleft()]
        return super().parse_args(ctx, words)


def _apart(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--parameter=") else [word]


@click.command(
    cls=_WithParameters,
    epilog=given.examples(
        "run single-gpu-oom -p evidence startup.log", "run single-gpu-oom -p evidence=startup.log -p stop_on_fail=no"
    ),
)
@click.argument("runbook_id", metavar="ID", type=complete.RUNBOOK)
@click.option(
    "-p",
    "--parameter",
    "parameters",
    metavar="NAME VALUE",
    nargs=2,
    multiple=True,
    help="Set a parameter, also as NAME=VALUE; repeatable. `show ID` lists the parameters.",
)
@_RUNBOOKS
@click.option(
    "--resume",
    "is_resumed",
    is_flag=True,
    help="Continue where the last run in this folder stopped; finished steps are kept.",
)
@given.value("--step NAME", "Run only this step; earlier steps must have run in this folder.")
@given.value("--step-tries N", "Tries of a failing step (default: 1).", click.IntRange(1, 100))
@given.value(
    "--step-timeout step_timeout_s S",
    "Timeout per try of a step, in seconds (default: the step's own).",
    click.FloatRange(0.1, 86400),
)
@catalog_options.CATALOG
@catalog_options.LANG
@_OUT
@_TIMEOUT
@kept.NO_HISTORY
@given.FORMAT
def run(
    *,
    runbook_id: str,
    parameters: Sequence[tuple[str, str]],
    runbooks: str | None,
    out: Path,
    timeout: float | None,
    step: str | None,
    no_history: bool,
    form: str,
    **of_steps: Any,
) -> int:
    """Run a runbook headless and report its verdict.

    ID is a runbook's id, or the path of an .ipynb file. Parameters are checked before a kernel starts.
    """
    from vllm_runbooks.runbooks.notebook import bind
    from vllm_runbooks.runbooks.suite import RunbookRequest, kept_steps

    runbook = find(runbook_id, runbooks)
    names = [name for name, _ in parameters]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{runbook.id}: parameter {twice[0]} is set twice")
    bound = bind(runbook, dict(parameters))
    _check_evidence(runbook, bound)
    if step is not None and step not in runbook.steps:
        all_steps = f"steps: {', '.join(runbook.steps)}" if runbook.steps else "it has no steps"
        raise InputError(f"{runbook.id}: has no step {step}; {suggestion(step, runbook.steps, all_steps)}")
    request = RunbookRequest(
        runbook.id,
        Path(runbook.path),
        parameters=_without_raising(runbook, bound),
        timeout_s=timeout or (_LIVE_TIMEOUT_S if bound.get("live") is True else _TIMEOUT_S),
        step=step,
        **of_steps,
    )
    begun = f"running {runbook.id}, at most {request.timeout_s:.0f} s"
    with terminal.waiting(begun), kept.opened(no_history=no_history) as history:
        runs = history_entries.Runs(history, [request])
        result = _execute([request], out=out, jobs=1, progress=None, runs=runs)[0]
    if result.refused:
        raise InputError(f"{runbook.id}: {result.reason}")
    if form == "json":
        _print_json(document(result))
    else:
        terminal.show([*_summary(bound), _line(result)])
        if reused := kept_steps(request, out):
            output.write(f"Kept from earlier runs: {', '.join(reused)}")
        if result.notebook:
            output.write(f"Executed notebook: {out / result.notebook}")
        output.write(f"Report: {out / 'index.html'}")
    return _status([result])


def _summary(parameters: dict[str, Any]) -> list[TextBlock]:
    """Summary of the log of a runbook; empty for other evidence."""
    from vllm_runbooks.core.views.summary import summary_view
    from vllm_runbooks.diagnosis import diagnosing
    from vllm_runbooks.diagnosis.render.summaries import summarize
    from vllm_runbooks.reading import sources

    texts = {
        name: str(parameters.get(name) or "") for name in ("evidence", "pasted_log", "more_logs", "vllm", "command")
    }
    gpus, start = str(parameters.get("gpus") or ""), parameters.get("start") or None
    if parameters.get("live") is True or not (texts["pasted_log"] or texts["evidence"]):
        return []
    try:
        evidence = sources.load(
            texts["evidence"],
            pasted=texts["pasted_log"],
            vllm=texts["vllm"] or None,
            more=texts["more_logs"],
            command=texts["command"],
        )
        answer = diagnosing.diagnose(evidence, start=start, gpus=gpus or None) if evidence.documents else None
    except RunbooksError:
        return []
    if answer is None or not answer.starts:
        return []
    return [*summary_view(summarize(answer, gpus=gpus, start=start)), BLANK]


@click.command(
    epilog=given.examples(
        "check --only 'tiny-cpu-*' --out report", "check --cases cases", "check --ray 10.0.0.1:6379 --every-node"
    )
)
@given.value(
    "--only ID", "Only these runbooks or cases: ids or globs; repeatable.", complete.RUNBOOK_OR_CASE, multiple=True
)
@_RUNBOOKS
@given.value("--cases DIR", "Folder of recorded cases, or a single case, to use instead of the packaged ones.")
@given.value(
    "-j --jobs N",
    "Concurrent runs (default: 2; with --ray the cluster's CPUs).",
    click.IntRange(min=1, max=4096),
)
@given.value("--ray ADDRESS", "Run on the nodes of this Ray cluster: HOST:PORT, or auto.")
@click.option("--every-node", is_flag=True, help="With --ray: run everything on every node and compare the nodes.")
@catalog_options.CATALOG
@catalog_options.LANG
@_OUT
@_TIMEOUT
@kept.NO_HISTORY
@given.FORMAT
def check(
    *,
    only: Sequence[str],
    runbooks: str | None,
    cases: str | None,
    jobs: int | None,
    ray: str | None,
    every_node: bool,
    out: Path,
    timeout: float | None,
    no_history: bool,
    form: str,
) -> int:
    """Run every runbook on every recorded case that names it, and compare with the expected answers.

    A case without a runbook is only diagnosed. The folder of --out gets index.html, the executed notebooks, junit.xml
    and results.json.
    """
    requests = _plan(only, runbooks=runbooks, cases=cases, timeout_s=timeout or _TIMEOUT_S)
    inputs = {"only": list(only), "runbooks": runbooks, "cases": cases, "timeout_s": timeout or _TIMEOUT_S}
    if every_node and ray is None:
        raise InputError("--every-node requires --ray")
    with contextlib.ExitStack() as stack:
        cluster, why = (None, "") if ray is None else _cluster(stack, ray, jobs=jobs)
        if why:
            requests = [replace(request, refused=why) for request in requests]
        if cluster is not None:
            requests = cluster.requests(requests, every_node=every_node)
            inputs |= {"ray": ray, "every_node": every_node}
        history = stack.enter_context(kept.opened(no_history=no_history))
        progress = stack.enter_context(_progress(len(requests)))
        runs = history_entries.Runs(
            history, requests, whole=", ".join(only) or "everything", inputs=inputs, cluster=cluster
        )
        results = _execute(requests, out=out, jobs=jobs or _JOBS, progress=progress, runs=runs, executor=cluster)
    nodes = () if cluster is None else cluster.nodes
    if form == "json":
        from vllm_runbooks.runbooks.suite import by_node

        _print_json({"runs": [document(result) for result in results], **by_node(nodes, results)})
    else:
        counts = [(verdict, sum(result.verdict is verdict for result in results)) for verdict in Verdict]
        counted = [styled(f"{count} {verdict}", VERDICTS[verdict]) for verdict, count in counts if count]
        bad = [_line(result) for result in results if result.verdict not in (Verdict.PASS, Verdict.SKIPPED)]
        bad = [] if why else bad
        terminal.show([*bad, *_by_node(nodes, results), Line(listed(counted)), Line(f"Report: {out / 'index.html'}")])
    return _status(results) if cluster is None or cluster.is_whole else 1


_JOBS = 2


def _cluster(stack: contextlib.ExitStack, address: str, *, jobs: int | None) -> tuple[RayExecutor | None, str]:
    from vllm_runbooks.cluster.tasks import RayExecutor
    from vllm_runbooks.core import extras

    nodes = RayExecutor(address, say=output.say, jobs=jobs)
    extras.require("`check --ray`")
    try:
        return stack.enter_context(nodes), ""
    except RunbooksError as error:
        # The address is valid: a problem of the cluster is a result.
        output.say(str(error))
        return None, str(error)


def _by_node(nodes: Sequence[NodePart], results: Sequence[RunResult]) -> Iterator[SentenceLines]:
    from vllm_runbooks.runbooks.suite import differences

    for node in nodes:
        verdicts = [result.verdict for result in results if result.node == node.name]
        counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts]
        summary = ", ".join([*(["lost"] if node.is_lost else []), *counts]) or "nothing executed"
        yield SentenceLines(f"Node {node.name}: {summary}")
    for difference in differences(nodes, results):
        values = "; ".join(f"{name}: {value or 'unknown'}" for name, value in difference.values.items())
        yield SentenceLines(f"Differs between nodes: {difference.fact} ({values})")


def _plan(only: Sequence[str], *, runbooks: str | None, cases: str | None, timeout_s: float) -> list[RunbookRequest]:
    """Pair runbooks with their cases, and cases without runbooks with None.

    Broken ones become rejected runs.
    """
    from vllm_runbooks.catalog.folders import cases_dir
    from vllm_runbooks.runbooks.case_files import load_case
    from vllm_runbooks.runbooks.suite import RunbookRequest
    from vllm_runbooks.runbooks.verdict_fields import NO_RUNBOOK

    good, bad = _inspect_all(runbooks)
    # Shipped cases name shipped runbooks, so they do not apply to a user's own folder.
    others = runbooks is not None and cases is None
    by_id = {runbook.id: runbook for runbook in good}
    requests = [RunbookRequest(id_, Path(), refused=reason) for id_, reason in bad.items() if _is_selected(only, id_)]
    if not good and not bad and runbooks is not None:
        raise InputError(f"{runbooks}: contains no runbook; use a folder with .ipynb files")
    ids = {*by_id, *bad}
    shelf = cases_dir(cases)
    # A case's own folder is replaced by its parent, where a user has just recorded it.
    folders = [shelf] if (shelf / "case.yaml").is_file() else sorted(p.parent for p in shelf.glob("*/case.yaml"))
    if not folders:
        raise InputError(f"{cases or shelf}: contains no recorded case; use a case's folder, or a folder of cases")
    for folder in folders:
        ids.add(folder.name)
        try:
            case = load_case(folder)
        except InputError as error:
            if _is_selected(only, folder.name):
                requests.append(RunbookRequest("(any)", Path(), folder.name, refused=str(error)))
            continue
        ids.add(case.id)
        if not case.runbooks and not others and _is_selected(only, case.id, folder.name):
            requests.append(RunbookRequest(NO_RUNBOOK, folder, case.id, timeout_s=timeout_s, is_alone=True))
        requests += [
            _pair(by_id, id_, case.id, str(folder.absolute()) if cases else folder.name, timeout_s=timeout_s)
            for id_ in case.runbooks
            if _is_selected(only, id_, case.id, folder.name) and id_ not in bad and (id_ in by_id or not others)
        ]
    for pattern in only:
        if not fnmatch.filter(ids, pattern):
            nearest = ", ".join(get_close_matches(pattern, sorted(ids), n=3, cutoff=0))
            everything = f"closest: {nearest}; `vllm-runbooks list` lists the runbooks, {shelf} has the cases"
            hint = suggestion(pattern, ids, everything, cutoff=0.5)
            raise InputError(f"--only {pattern or '(nothing)'}: no runbook or case has this id; {hint}")
    if not requests:
        raise InputError("check: no recorded case uses one of these runbooks; add it to `runbooks` in a case.yaml")
    return requests


def _pair(by_id: dict[str, Runbook], id_: str, case_id: str, evidence: str, *, timeout_s: float) -> RunbookRequest:
    from vllm_runbooks.runbooks.notebook import bind
    from vllm_runbooks.runbooks.suite import RunbookRequest

    runbook = by_id.get(id_)
    if runbook is None:
        reason = f"case {case_id}: no runbook has the id {id_}; {_meant(id_, by_id)}"
        return RunbookRequest(id_, Path(), case_id, refused=reason)
    try:
        parameters = _without_raising(runbook, bind(runbook, {"evidence": evidence}))
    except InputError as error:
        return RunbookRequest(id_, Path(), case_id, refused=str(error))
    return RunbookRequest(id_, Path(runbook.path), case_id, parameters, timeout_s)


def _inspect_all(runbooks: str | None) -> tuple[list[Runbook], dict[str, str]]:
    from vllm_runbooks.catalog.folders import runbooks_dir
    from vllm_runbooks.runbooks.notebook import load_runbook

    good: list[Runbook] = []
    bad: dict[str, str] = {}
    for path in sorted(runbooks_dir(runbooks).glob("*.ipynb")):
        try:
            good.append(load_runbook(path))
        except InputError as error:
            bad[path.stem] = str(error)
    return good, bad


def find(runbook_id: str, runbooks: str | None) -> Runbook:
    from vllm_runbooks.catalog.folders import runbooks_dir
    from vllm_runbooks.runbooks.notebook import load_runbook

    if runbook_id.endswith(".ipynb") or "/" in runbook_id:
        return load_runbook(runbook_id)
    paths = {path.stem: path for path in runbooks_dir(runbooks).glob("*.ipynb")}
    if runbook_id not in paths:
        raise InputError(f"{runbook_id}: no runbook has this id; {_meant(runbook_id, paths)}")
    return load_runbook(paths[runbook_id])


def _check_evidence(runbook: Runbook, parameters: dict[str, Any]) -> None:
    """Load the evidence before a kernel starts; a job's folder is read by its runbook, in parts."""
    default = {parameter.name: parameter.default for parameter in runbook.parameters}.get("evidence")
    evidence = parameters.get("evidence", default)
    if isinstance(evidence, str) and evidence:
        from vllm_runbooks.reading import sources

        if not sources.is_job(evidence):
            sources.load(evidence)


def _without_raising(runbook: Runbook, parameters: dict[str, Any]) -> dict[str, Any]:
    if any(parameter.name == "stop_on_fail" for parameter in runbook.parameters):
        return {"stop_on_fail": False, **parameters}
    return parameters


def _execute(
    requests: Sequence[RunbookRequest],
    *,
    out: Path,
    jobs: int,
    progress: Progress | None,
    runs: history_entries.Runs,
    executor: RunExecutor | None = None,
) -> list[RunResult]:
    from vllm_runbooks.catalog.folders import own_catalogs
    from vllm_runbooks.catalog.load import load_catalog
    from vllm_runbooks.core import extras
    from vllm_runbooks.runbooks.suite import run_all

    if not all(request.is_alone for request in requests):
        extras.require("runbooks")
    if own_catalogs():
        # The kernels skip the same files, but without a visible message.
        output.name_left_out(load_catalog().problems)
    try:
        with runs:
            results = run_all(requests, out=out, jobs=jobs, progress=runs.progress(progress), executor=executor)
            runs.finish(results)
            return results
    except InputError:
        raise
    except RunbooksError as error:
        # The request was valid, but its results could not be stored: the status is 1, not 2.
        output.say(str(error))
        raise click.exceptions.Exit(1) from None


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Progress]:
    if not sys.stderr.isatty():
        numbers = count(1)

        def show_line(request: RunbookRequest, result: RunResult | None) -> None:
            if result is not None:
                done = f"[{next(numbers)}/{total}]"
                click.echo(f"{done} {result.verdict} {_subject(request)} ({result.seconds:.1f} s)", err=True)

        yield show_line
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    # One line at any width: the list of current runs is truncated if necessary.
    running_column = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    columns = (
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        BarColumn(bar_width=16, complete_style="cyan", finished_style="cyan"),
        running_column,
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task("", total=total)
        running: list[str] = []

        def show_bar(request: RunbookRequest, result: RunResult | None) -> None:
            name = request.case or request.runbook
            if result is None:
                running.append(name)
            else:
                running.remove(name)
                bar.advance(task)
                if result.verdict not in (Verdict.PASS, Verdict.SKIPPED):
                    bar.console.print(escape(f"{result.verdict} {_subject(result)}"), highlight=False)
            bar.update(task, description=escape(", ".join(running)))

        yield show_bar


def _subject(run: RunbookRequest | RunResult) -> str:
    return history_entries.subject(run.runbook, run.case, run.node)


def _line(result: RunResult) -> SentenceLines:
    return SentenceLines(
        styled(result.verdict.upper(), VERDICTS[result.verdict]) + f" {_subject(result)}: {result.reason}"
    )


def _status(results: Sequence[RunResult]) -> int:
    return 0 if all(result.verdict in (Verdict.PASS, Verdict.SKIPPED) for result in results) else 1


def _is_selected(only: Sequence[str], *ids: str) -> bool:
    return not only or any(fnmatch.fnmatchcase(id_, pattern) for pattern in only for id_ in ids)


def _meant(name: str, runbooks: Iterable[str]) -> str:
    return suggestion(name, runbooks, "`vllm-runbooks list` lists all runbooks", cutoff=0.5)


def _print_json(data: dict[str, Any]) -> None:
    output.write(json.dumps({"schema": SCHEMA, **data}, indent=2))
