"""Summary of a job for an edge chip, and its runbook's steps: each part's problems and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.files import JOB
from vllm_runbooks.core.records import Answer, IssueSeverity, Severity
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Statement, Step, Summary, count_of, sentence_of
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.diagnosis.render import steps as log_steps
from vllm_runbooks.diagnosis.render import summaries as log_summaries
from vllm_runbooks.edge10 import evidence, findings_render
from vllm_runbooks.edge10.accuracy.records import Accuracy, AccuracyComparison
from vllm_runbooks.edge10.artefacts.records import CheckedFolder
from vllm_runbooks.edge10.chain.records import OpenChain
from vllm_runbooks.edge10.evidence import JobReport
from vllm_runbooks.edge10.host.records import CheckedHost
from vllm_runbooks.edge10.jobs.records import ReadJob
from vllm_runbooks.edge10.jobs.steps import JobFiles
from vllm_runbooks.lint import render as issues
from vllm_runbooks.probe.starts import LaunchResult

_MOST_STATEMENTS, _MOST_PROBLEMS = 3, 8


def summary(report: JobReport) -> RenderedView:
    """Number of problems of a job, the most important ones, and unknown or missing parts."""
    return rendered(summarize(report))


def summarize(report: JobReport) -> Summary:
    """Summarize a job."""
    by_part = _by_part(report)
    problems = [statement for statements in by_part.values() for statement in statements]
    unknown = list(evidence.unestablished(report))
    first = [statements[0] for statements in by_part.values() if statements]
    answer = report.log
    state = ("OK", Tone.GOOD) if not unknown else ("UNKNOWN", Tone.WARN)
    if problems:
        tone = Tone.BAD if any(statement.tone is Tone.BAD for statement in problems) else Tone.WARN
        state = (count_of(len(problems), "problem").upper(), tone)
    counts = ", ".join(f"{name} {len(statements)}" for name, statements in by_part.items() if statements)
    notes = [f"By part: {counts}."] if len(problems) > _MOST_STATEMENTS else []
    notes += [f"Unknown: {unknown[0]}" + (f" and {len(unknown) - 1} more." if unknown[1:] else ".")] if unknown else []
    missing = [name for name, part in _parts(report).items() if isinstance(part, str)]
    notes += [f"Not given, so not checked: {', '.join(missing)}."] if missing else []
    return Summary(
        *state,
        tuple(_about(report)),
        "" if problems else "No problems found.",
        tuple(first[:_MOST_STATEMENTS]),
        fix=log_summaries.summarize(answer).fix if isinstance(answer, Answer) and by_part["log"] else None,
        steps=tuple(Step("Note", note) for note in notes),
    )


def _parts(report: JobReport) -> dict[str, object]:
    return {
        "log": report.log,
        "job": report.job,
        "host": report.host,
        "scripts": report.scripts,
        "checkpoint": report.quantised,
        "compiled model": report.compiled,
        "accuracy": report.accuracy,
    }


def _by_part(report: JobReport) -> dict[str, list[Statement]]:
    """The problems of each part, in the order in which they are to be solved."""
    return {
        "log": _of_log(report.log),
        "job": _of_description(report.job),
        "host": _of_findings(report.host),
        "scripts": _of_scripts(report),
        "checkpoint": _of_findings(report.quantised),
        "compiled model": _of_findings(report.compiled),
        "accuracy": _of_accuracy(report.accuracy),
    }


def _about(report: JobReport) -> Iterable[str]:
    job = report.job.job if isinstance(report.job, ReadJob) else None
    if report.case is not None:
        yield report.case.id
    if job is not None:
        yield job.listed
    yield report.facts.id
    if job is not None:
        yield count_of(job.dies, "die")


def _of_log(answer: Answer | str) -> list[Statement]:
    if isinstance(answer, str) or answer.root_cause is None:
        return []
    return list(log_summaries.summarize(answer).statements)


def _of_description(job: ReadJob | str) -> list[Statement]:
    if isinstance(job, str):
        return []
    return [
        Statement(
            "✗",
            redact_text(f"{problem.field}: {problem.text}" if problem.field else problem.text),
            Tone.BAD,
            place=f"{JOB}:{problem.line}",
            action=sentence_of(problem.do),
        )
        for problem in job.problems
    ]


def _of_findings(checked: CheckedHost | CheckedFolder | str) -> list[Statement]:
    findings: Sequence[RuleFinding] = () if isinstance(checked, str) else checked.findings
    return [
        Statement(
            "✗" if finding.severity is Severity.FATAL else "!",
            sentence_of(finding.text, end="")
            if finding.path is None
            else f"{findings_render.path(finding.path)} {finding.text}",
            Tone.BAD if finding.severity is Severity.FATAL else Tone.WARN,
            id=finding.id,
            effect=sentence_of(finding.effect),
            action=sentence_of(finding.do),
        )
        for finding in sorted(findings, key=lambda finding: finding.severity is not Severity.FATAL)
        if finding.severity is not Severity.HINT
    ]


def _of_scripts(report: JobReport) -> list[Statement]:
    if isinstance(report.scripts, str):
        return []
    located = [(name, issue) for name, linted in report.scripts.items() for issue in issues.wrong(linted.issues)]
    statements = []
    for name, issue in sorted(located, key=lambda pair: pair[1].severity is not IssueSeverity.ERROR):
        is_error = issue.severity is IssueSeverity.ERROR
        first, *notes = issues.sentences(issue)
        statements.append(
            Statement(
                "✗" if is_error else "!",
                first,
                Tone.BAD if is_error else Tone.WARN,
                id=issue.rule,
                place=f"{name}:{issue.line}:{issue.column}",
                quote=issue.text.strip(),
                effect=" ".join(notes),
            )
        )
    return statements


def _of_accuracy(comparison: AccuracyComparison | str) -> list[Statement]:
    if isinstance(comparison, str) or comparison.verdict is not Accuracy.LOST:
        return []
    return [Statement("✗", f"Accuracy lost: {comparison.reason}", Tone.BAD, id="edge10.accuracy_lost")]


def _texts(statements: Sequence[Statement]) -> list[StepText]:
    texts = []
    for statement in statements[:_MOST_PROBLEMS]:
        place = f"{statement.place}: " if statement.place else ""
        text = statement.text.rstrip(".")
        label = f" (`{statement.id}`)" if statement.id else ""
        texts.append(StepText(f"{place}{text}{label}.", statement.effect, statement.action))
    rest = len(statements) - _MOST_PROBLEMS
    return [*texts, *([StepText(f"{count_of(rest, 'more problem')} below.")] if rest > 0 else [])]


def log(report: JobReport) -> list[StepText | None]:
    """Why a step failed, and the first fix; empty without a log."""
    return [] if isinstance(report.log, str) else [log_steps.failure(report.log), log_steps.fixes(report.log)]


def host(report: JobReport) -> list[StepText]:
    """Problems of the host for the next step."""
    return _checked(report.host, _of_findings(report.host), "The host has what the step needs.")


def scripts(report: JobReport) -> list[StepText]:
    """Problems of the scripts, with the lines."""
    return _checked(report.scripts, _of_scripts(report), "No problems found in the scripts.")


def artefacts(report: JobReport) -> list[StepText]:
    """Problems of the quantised checkpoint and of the compiled model."""
    return [
        *_checked(report.quantised, _of_findings(report.quantised), "The checkpoint is complete."),
        *_checked(report.compiled, _of_findings(report.compiled), "The compiled model is complete."),
    ]


def _checked(part: object, statements: Sequence[Statement], good: str) -> list[StepText]:
    if isinstance(part, str):
        return []
    if statements:
        return _texts(statements)
    if isinstance(part, CheckedHost | CheckedFolder) and part.ok is None:
        return [StepText("Nothing wrong was found, but not everything could be checked.")]
    return [StepText(good)]


def accuracy(report: JobReport) -> StepText | None:
    """Accuracy loss of quantising, with the interval; None without results."""
    comparison = report.accuracy
    if isinstance(comparison, str):
        return None
    words = {
        Accuracy.KEPT: "The quantized model can be compiled.",
        Accuracy.LOST: "Do not compile this checkpoint: quantize again, or accept the loss with a larger threshold.",
        Accuracy.UNKNOWN: "Ask more questions: the interval is too wide for a verdict.",
    }
    return StepText(sentence_of(f"{comparison.verdict.value}: {comparison.reason}"), do=words[comparison.verdict])


def files(made: JobFiles | str, *, apply: bool) -> StepText:
    """The files that follow from the job's description, and how to write them."""
    if isinstance(made, str):
        return StepText("No files are made.", made)
    fact = f"{count_of(len(made.files), 'file')} generated from the job description."
    return StepText(
        fact, "Ports, names, sizes and the order of settings agree.", "" if apply else "Set `apply` to write them."
    )


def chain(run: OpenChain | None) -> StepText | None:
    """The result of the open chain; None if it was not run."""
    if run is None:
        return None
    if run.accuracy is not None:
        return StepText(sentence_of(f"{run.accuracy.verdict.value}: {run.accuracy.reason}"))
    failed = next((link for link in run.links if link.result is LaunchResult.FAILED), None)
    return StepText(
        f"No verdict: {run.no_accuracy_reason}.", sentence_of(f"{failed.name}: {failed.message}") if failed else ""
    )
