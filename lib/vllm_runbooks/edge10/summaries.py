"""Summaries of Edge10's checks: hosts, folders, comparisons, and generated jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_runbooks.catalog.toolchains import ModelSupportReport
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.elements import cut
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Statement, Step, Summary, SummaryTable, count_of, rest_step
from vllm_runbooks.edge10 import findings_render
from vllm_runbooks.edge10.accuracy.records import Accuracy, AccuracyComparison, ScoreComparison
from vllm_runbooks.edge10.artefacts import render as artefacts_render
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.host.records import CheckedHost
from vllm_runbooks.edge10.jobs.records import MadeJob
from vllm_runbooks.host import finding_views
from vllm_runbooks.host.finding_views import as_sentence
from vllm_runbooks.host.summaries import gpus_of

_MOST_NOTES, _MOST_ROWS, _MOST_PROBLEMS, _MAX_NAME = 2, 6, 3, 60
_ACCURACY = {Accuracy.KEPT: Tone.GOOD, Accuracy.LOST: Tone.BAD, Accuracy.UNKNOWN: Tone.WARN}


def summarize_host(checked: CheckedHost, *, again: str = "") -> Summary:
    """Summarize the problems of a host for a step; `again` is the command that shows everything."""
    problems = finding_views.problems(checked.findings)
    state, tone = finding_views.problem_state(problems)
    gpus = gpus_of(checked.inventory.gpus)
    docker = [f"docker {checked.docker.state.value}"] if checked.docker is not None else []
    about = (f"before {checked.request.step}", checked.toolchain, gpus or "no GPU", *docker)
    unknown = [f"Unknown: {fact.fact} ({fact.reason})." for fact in checked.unknown]
    return Summary(
        *(("UNKNOWN", Tone.WARN) if checked.ok is None else (state, tone)),
        about,
        "" if problems else "No problems found.",
        finding_views.finding_statements(problems),
        steps=_notes(unknown),
        more=finding_views.more_of(checked.findings, ["all facts", "the effects of the commands"], again),
    )


def summarize_folder(checked: CheckedFolder, *, again: str = "") -> Summary:
    """Summarize the problems of a folder; `again` is the command that shows everything."""
    problems = finding_views.problems(checked.findings)
    state, tone = finding_views.problem_state(problems)
    return Summary(
        *(("UNKNOWN", Tone.WARN) if checked.ok is None else (state, tone)),
        tuple(_folder_parts(checked)),
        "" if problems else "No problems found; all files are present." if checked.ok else "No problems found.",
        finding_views.finding_statements(problems),
        steps=_notes([f"Unknown: {flat}" for flat in map(finding_views.flat, checked.unchecked)]),
        more=finding_views.more_of(checked.findings, ["unchecked parts"], again),
    )


def _folder_parts(checked: CheckedFolder) -> Iterator[str]:
    if name := findings_render.path(checked.name or checked.listing.name):
        yield name
    yield artefacts_render.ARTEFACT_NAMES[checked.artefact] + artefacts_render.KIND_NAMES.get(checked.kind or "", "")
    yield checked.toolchain
    if checked.dies is not None:
        yield f"{count_of(checked.dies, 'die')}, lengths {', '.join(map(str, checked.lengths or ())) or 'none'}"
    yield count_of(sum(file.kind == "file" for file in checked.listing.files), "file")


def summarize_accuracy(comparison: AccuracyComparison, *, again: str = "") -> Summary:
    """Summarize whether accuracy was lost; `again` is the command that shows everything."""
    models = [cut(name, _MAX_NAME) for name in (comparison.float_model, comparison.quantised_model) if name]
    deciding = [row for row in comparison.scores if row.is_deciding] or list(comparison.scores)
    deciding.sort(key=lambda row: row.verdict is not Accuracy.LOST)
    about = (" → ".join(models),) if models else ()
    limit = f"acceptable loss {comparison.threshold:g}"
    return Summary(
        comparison.verdict.value.upper(),
        _ACCURACY[comparison.verdict],
        (*about, limit),
        as_sentence(comparison.reason, names=[row.dataset or "" for row in comparison.scores]),
        table=_scores(deciding[:_MOST_ROWS]),
        steps=_notes([f"{doubt.text} {doubt.do}" for doubt in comparison.doubts]),
        more=rest_step(["all scores", "subsets", "methods"], again),
    )


def _scores(rows: Sequence[ScoreComparison]) -> SummaryTable | None:
    if not rows:
        return None
    cells = tuple(
        (
            cut(row.dataset or row.metric, _MAX_NAME),
            _number(row.float_score, ""),
            _number(row.quantised_score, ""),
            _number(row.difference, "+"),
            "unknown" if row.interval is None else f"{row.interval.low:+.4f} to {row.interval.high:+.4f}",
            row.verdict.value,
        )
        for row in rows
    )
    return SummaryTable(("data set", "float", "quantized", "difference", "interval", ""), cells, frozenset({1, 2, 3}))


def _number(value: float | None, sign: str) -> str:
    return "unknown" if value is None else f"{value:{sign}.4f}"


def summarize_made(made: MadeJob, *, again: str = "") -> Summary:
    """Summarize the generated files of a job; `again` is the command that shows everything."""
    steps = list(_notes([f"Unknown: {doubt}" for doubt in made.doubts]))
    if made.job is None:
        name = "standard input" if made.description == "-" else made.description
        problems = tuple(
            Statement(
                "✗",
                f"{f'{problem.field}: ' if problem.field else ''}{finding_views.flat(problem.text)}",
                Tone.BAD,
                place=f"{name}:{problem.line}",
                action=as_sentence(problem.do),
            )
            for problem in made.problems[:_MOST_PROBLEMS]
        )
        omitted = len(made.problems) - len(problems)
        steps += [Step("Note", f"{count_of(omitted, 'more problem')} in this file.")] if omitted > 0 else []
        is_cut = omitted > 0 or len(made.doubts) > _MOST_NOTES
        more = rest_step(["all problems", "all notes"], again if is_cut else "")
        return Summary("NOT MADE", Tone.BAD, (name,), statements=problems, steps=tuple(steps), more=more)
    state, tone = ("MADE", Tone.GOOD) if not (made.issues or made.doubts) else ("DOUBTS", Tone.WARN)
    dies = count_of(made.job.dies, "die")
    files = f"{count_of(len(made.files), 'file')} in {made.folder} ({len(made.written)} written)"
    issues = tuple(
        Statement("!", finding_views.flat(made_issue.issue.message), Tone.WARN, id=made_issue.issue.rule,
                  place=f"{made_issue.file}:{made_issue.issue.line}")
        for made_issue in made.issues[:_MOST_PROBLEMS]
    )  # fmt: skip
    folder = made.folder.rstrip("/") or "."
    steps.append(Step("Next", f"Follow the steps in {folder}/README.md."))
    steps.append(Step("Next", "Check the host", "vllm-runbooks edge10 preflight quantise"))
    more = rest_step(["every file", count_of(len(made.job.defaults), "default")], again)
    about = (made.job.listed, made.toolchain, dies, files)
    return Summary(state, tone, about, statements=issues, steps=tuple(steps), more=more)


def summarize_models(report: ModelSupportReport, *, is_list: bool) -> Summary:
    """Summarize the number of supported models: of the named ones, or of the whole list."""
    supported = sum(bool(model.quantise and model.compile) for model in report.models)
    about = (f"{supported} of {count_of(len(report.models), 'model')} can be quantized and compiled", report.toolchain)
    if is_list or supported == len(report.models):
        return Summary("OK", Tone.GOOD, about)
    is_unknown = any(model.quantise is None or model.compile is None for model in report.models)
    return Summary("UNKNOWN" if is_unknown else "LIMITED", Tone.WARN, about)


def _notes(texts: Sequence[str]) -> tuple[Step, ...]:
    """The first notes, and how many more there are."""
    omitted = len(texts) - _MOST_NOTES
    more = [Step("Note", f"{count_of(omitted, 'more note')}.")] if omitted > 0 else []
    return (*(Step("Note", visible(finding_views.flat(text))) for text in texts[:_MOST_NOTES]), *more)
