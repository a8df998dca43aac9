"""A job for an edge chip, recorded or in a folder, with its scripts, host and results.

It is checked as a whole, without missing parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import ModelSupport, Toolchain
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Case, CaseKind, Document, Evidence
from vllm_runbooks.core.expected import verdict_on_findings
from vllm_runbooks.core.files import JOB
from vllm_runbooks.core.records import Answer, IssueSeverity, RunbookVerdict, Severity, Verdict
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import answers
from vllm_runbooks.edge10 import models, pages
from vllm_runbooks.edge10.accuracy import comparing as _accuracy
from vllm_runbooks.edge10.accuracy import render as accuracy_render
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.accuracy import results as evaluations
from vllm_runbooks.edge10.accuracy.records import Accuracy, AccuracyComparison
from vllm_runbooks.edge10.artefacts import checks as artefact_checks
from vllm_runbooks.edge10.artefacts import kinds as artefacts
from vllm_runbooks.edge10.artefacts import listings
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents
from vllm_runbooks.edge10.host import preflight
from vllm_runbooks.edge10.host import render as host_render
from vllm_runbooks.edge10.host import snapshots as host_snapshots
from vllm_runbooks.edge10.host.records import CheckedHost
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs import making, names, steps
from vllm_runbooks.edge10.jobs.records import ReadJob
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.plan import planner
from vllm_runbooks.reading import sources

if TYPE_CHECKING:
    from vllm_runbooks.edge10.chain.records import OpenChain

_HOST, _QUANTISED, _ORIGINAL, _COMPILED = "host.json", "quantised.txt", "original.txt", "compiled.txt"
"""Names of a job's recorded host, and of listings of the folders between its steps."""
_LOGS = (".log", "log.txt")
"""Endings of the log of a failed step."""
_FLOAT, _OTHER = "results-float", "results-quantised"
"""Beginnings of the names of results."""
_SCRIPTS = (".py", ".sh", ".yaml", ".yml", ".ipynb")
_MAX_SCRIPTS = 64
_JOB_WRONG, _LOST, _CHAIN = "edge10.job", "edge10.accuracy_lost", "edge10.chain"
"""Ids of findings that have no rule."""

_Part = TypeVar("_Part")
_Source = str | Document
"""Path on this host, or text of a recorded job."""


class JobInputs(NamedTuple):
    """Files and folders of a job; None for one that is missing."""

    job: _Source | None = None
    scripts: tuple[_Source, ...] = ()
    host: _Source | None = None
    quantised: _Source | None = None
    original: _Source | None = None
    compiled: _Source | None = None
    results: tuple[_Source, ...] = ()
    logs: tuple[_Source, ...] = ()


class HostRequest(NamedTuple):
    """Step that the host is checked for."""

    step: str
    image: str | None = None
    is_live: bool = False


@dataclass(frozen=True)
class JobReport:
    """Results of checking each part of a job; a text is the reason for a missing one."""

    facts: Toolchain
    job: ReadJob | str
    model: ModelSupport | None
    host: CheckedHost | str
    scripts: Mapping[str, LintedScripts] | str
    """By file."""
    quantised: CheckedFolder | str
    compiled: CheckedFolder | str
    accuracy: AccuracyComparison | str
    log: Answer | str
    case: Case | None = None
    """The recorded job; None if it is not recorded."""


# ---- what there is


def read(
    evidence: str,
    *,
    job: str = "",
    scripts: str = "",
    quantised: str = "",
    original: str = "",
    compiled: str = "",
    results: str = "",
    log: str = "",
    host: str = "",
    image: str = "",
    step: str = "compile",
    live: bool = False,
) -> JobReport:
    """Check a job with its parts; named parts replace those of the evidence.

    Args:
        evidence: A recorded job (a case), or a folder with `job.yaml` and the results of the
            job's steps; empty to use only the named parts.
        job: Description of the job.
        scripts: Scripts, separated by commas.
        quantised: The quantised checkpoint: its folder, or a listing of it.
        original: The float model's folder, or a listing of it.
        compiled: The compiled model: its folder, or a listing of it.
        results: Results of the float and of the quantised model, separated by a comma.
        log: Log of a failed step.
        host: A recorded host.
        image: The container of the step, as in `registry.example.com/edgex/tyllm:v1.1.7`, to
            look for on the host.
        step: The step that the host is checked for.
        live: Whether this host is checked in place of a recorded one.

    Raises:
        InputError: A part cannot be read.
    """
    named = {"job": job, "quantised": quantised, "original": original, "compiled": compiled, "log": log, "host": host}
    check_texts(evidence=evidence, scripts=scripts, results=results, image=image, step=step, **named)
    if not isinstance(live, bool):
        raise InputError(f"live: {live!r} must be True or False; no host is read")
    case = None
    if not evidence.strip():
        recorded = JobInputs()
    elif sources.is_job(evidence):
        recorded = _in_folder(Path(evidence))
    else:
        source = sources.load(evidence)
        recorded, case = _recorded(source), source.case
    texts: dict[str, Any] = {name: value.strip() for name, value in named.items()}
    texts["logs"] = tuple(filter(None, (texts.pop("log"),)))
    for name, value in (("scripts", scripts), ("results", results)):
        texts[name] = tuple(part.strip() for part in value.split(",") if part.strip())
    parts = recorded._replace(**{name: value for name, value in texts.items() if value})
    return report_on(parts, case, HostRequest(step, image.strip() or None, live))


def of(evidence: Evidence) -> JobReport:
    """Check a recorded job; raises InputError."""
    return report_on(_recorded(evidence), evidence.case, HostRequest("compile"))


def _recorded(evidence: Evidence) -> JobInputs:
    if evidence.case is None or evidence.case.kind is not CaseKind.JOB:
        where = evidence.case.id if evidence.case is not None else "the evidence"
        raise InputError(f"{where}: is not a recorded job; use one, or a folder with {JOB}")
    return _by_name({document.name: document for document in evidence.documents})


def _by_name(files: Mapping[str, _Source]) -> JobInputs:
    results = [[source for name, source in files.items() if name.startswith(begin)] for begin in (_FLOAT, _OTHER)]
    others = (_FLOAT, _OTHER, JOB)
    return JobInputs(
        job=files[JOB],
        scripts=tuple(files[name] for name in files if name.endswith(_SCRIPTS) and not name.startswith(others)),
        host=files.get(_HOST),
        quantised=files.get(_QUANTISED),
        original=files.get(_ORIGINAL),
        compiled=files.get(_COMPILED),
        results=tuple(of_model[0] for of_model in results if of_model),
        logs=tuple(source for name, source in files.items() if name.endswith(_LOGS)),
    )


def _in_folder(folder: Path) -> JobInputs:
    """Inputs in a job's folder, under the names of a recorded job or of the job's own files."""
    try:
        files: dict[str, _Source] = {path.name: str(path) for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; use a readable folder") from None
    sources_by_name = _by_name(files)
    read = _job(sources_by_name.job)
    if isinstance(read, str) or read.job is None:
        return sources_by_name
    job, facts = read.job, catalog.toolchain(read.job.toolchain)
    checkpoints = (names.converted(job, facts), *([names.quantised(job, facts)] if job.calibration else []))
    results = [_there(folder / steps.RESULTS / which) for which in ("float", "quantised")]
    return sources_by_name._replace(
        quantised=next((name for path in checkpoints if (name := _there(folder / path))), sources_by_name.quantised),
        original=(_there(Path(job.model)) if Path(job.model).is_absolute() else None) or sources_by_name.original,
        compiled=_there(folder / names.compiled(job, facts)) or sources_by_name.compiled,
        results=tuple(path for path in results if path is not None) if all(results) else sources_by_name.results,
    )


def _there(path: Path) -> str | None:
    return str(path) if path.exists() else None


# ---- messages


def report_on(inputs: JobInputs, case: Case | None, of_host: HostRequest) -> JobReport:
    job = _job(inputs.job)
    description = job.job if isinstance(job, ReadJob) else None
    facts = catalog.toolchain(description.toolchain if description is not None else None)
    request = artefacts.ExpectedArtefact(job=description)
    original = _artefact(inputs.original) if inputs.original is not None else None

    def folder(source: _Source | None, name: str) -> CheckedFolder | str:
        if source is None:
            return f"Not given; set {name} to its folder or a listing."
        return artefact_checks.without_secrets(artefacts.check(_artefact(source), facts, request, float_=original))

    return JobReport(
        facts=facts,
        job=job,
        model=models.find_model(description.listed, facts) if description is not None else None,
        host=_host(inputs.host, of_host, description.model if description is not None else None, facts),
        scripts=_scripts(inputs.scripts, facts),
        quantised=folder(inputs.quantised, "quantised"),
        compiled=folder(inputs.compiled, "compiled"),
        accuracy=_compared(inputs.results, description.threshold if description is not None else None),
        log=_logged(inputs.logs),
        case=case,
    )


def _job(source: _Source | None) -> ReadJob | str:
    if source is None:
        return f"No job description; set job to one, or evidence to a folder with {JOB}."
    return jobs.read(_text(source), catalog.toolchain)


def _name(source: _Source) -> str:
    return source.name if isinstance(source, Document) else Path(source).name


def _text(source: _Source) -> str:
    return source.text if isinstance(source, Document) else sources.read_text(source)


def _host(source: _Source | None, of_host: HostRequest, model: str | None, facts: Toolchain) -> CheckedHost | str:
    request = preflight.read_asked(of_host.step, model=_planned(model), image=of_host.image)
    if of_host.is_live:
        return preflight.checked(request, version=facts.version)
    if source is None:
        return "No host recorded; set live, or set host to a file written by vllm-runbooks edge10 preflight --out."
    host = (
        host_snapshots.read(source.text, source.name) if isinstance(source, Document) else host_snapshots.load(source)
    )
    return preflight.checked(request, snapshot=host, version=facts.version)


def _planned(model: str | None) -> str | None:
    """A model of known size, from the catalog or its folder."""
    if model is None:
        return None
    try:
        planner.model(model)
    except InputError:
        return None
    return model


def _scripts(named: Sequence[_Source], facts: Toolchain) -> Mapping[str, LintedScripts] | str:
    if not named:
        return "No scripts; set scripts to a comma-separated list."
    if len(named) > _MAX_SCRIPTS:
        raise InputError(f"scripts: {len(named)} found; use the scripts of the job, at most {_MAX_SCRIPTS}")
    texts = {_name(source): _text(source) for source in named}
    return script_checking.lint_scripts(texts, toolchain=facts.version)


def _artefact(source: _Source) -> artefacts.ScannedFolder:
    if isinstance(source, str):
        return artefact_checks.read(source)
    return artefacts.ScannedFolder(listings.read(source.text, source.name), Contents())


def _compared(named: Sequence[_Source], threshold: float | None) -> AccuracyComparison | str:
    if not named:
        return "No results; set results to those of the float and of the quantized model."
    if len(named) != 2:
        raise InputError(
            f"results: {len(named)} given; use those of the float model, then those of the quantized model"
        )
    paths = [Path(source) for source in named if isinstance(source, str)]
    if len(paths) == len(named):
        evaluations.distinct(*paths)
    first, second = (
        reports.read([reports.ResultFile("", source.text.encode())], source.name)
        if isinstance(source, Document)
        else evaluations.read(Path(source))
        for source in named
    )
    return _accuracy.compare(first, second, threshold=_accuracy.THRESHOLD if threshold is None else threshold)


def _logged(named: Sequence[_Source]) -> Answer | str:
    if not named:
        return "No log; set log to that of the failed step."
    if len(named) > 1:
        raise InputError(f"log: {len(named)} found ({', '.join(map(_name, named[:4]))}); choose one")
    (source,) = named
    return diagnosing.diagnose(Evidence((source,)) if isinstance(source, Document) else sources.load(source))


# ---- how it is shown


def _view(part: _Part | str, view: Callable[[_Part], RenderedView]) -> RenderedView:
    return RenderedView.nothing(part) if isinstance(part, str) else view(part)


def job(report: JobReport) -> RenderedView:
    """Show the job's settings with their sources, and the problems of its description."""
    return _view(report.job, lambda read_job: pages.job(read_job, report.facts, report.model))


def host(report: JobReport) -> RenderedView:
    """Show the host, and problems for the step."""
    return _view(report.host, host_render.host_shown)


def scripts(report: JobReport) -> RenderedView:
    """Show the problems of the scripts, and what each script does."""
    return _view(report.scripts, pages.scripts)


def quantised(report: JobReport) -> RenderedView:
    """Show the quantised checkpoint."""
    return _view(report.quantised, pages.folder)


def compiled(report: JobReport) -> RenderedView:
    """Show the compiled model."""
    return _view(report.compiled, pages.folder)


def accuracy(report: JobReport) -> RenderedView:
    """Show the accuracy that the quantised model lost."""
    return _view(report.accuracy, accuracy_render.shown)


def logged(report: JobReport) -> RenderedView:
    """Show why a step failed, and the action."""
    return _view(report.log, lambda answer: RenderedView.joined([answers.cause(answer), answers.remedies(answer)]))


# ---- the steps, made anew


def made(report: JobReport) -> steps.JobFiles | str:
    """Generate the texts of the job's files, or return the reason for missing ones.

    Nothing is written.
    """
    if isinstance(report.job, str):
        return report.job
    if report.job.job is None:
        return "The description contradicts itself or the toolchain: fix it first."
    return steps.make_files(report.job.job, report.facts)


def made_shown(report: JobReport, files: steps.JobFiles | str) -> RenderedView:
    """Show the generated files, and the issues of the linters."""
    if isinstance(files, str):
        return RenderedView.nothing(f"No files made. {files}")
    return pages.made(files.files, files.texts, making.judged(files.texts, report.facts))


def write(files: steps.JobFiles | str, folder: str, *, apply: bool) -> RenderedView:
    """Write the files of the job into a folder if requested; changes by users are not overwritten.

    Raises:
        InputError: No folder is given, or a file would be lost.
    """
    if not isinstance(apply, bool):
        raise InputError(f"apply: {apply!r} must be True or False; no files written")
    check_texts(folder=folder)
    if isinstance(files, str):
        return RenderedView.nothing(f"No files written. {files}")
    if not apply:
        return RenderedView.nothing("No files written: apply is False.")
    if not folder.strip():
        raise InputError("folder is empty; set the output folder")
    written = making.store_made(files, Path(folder))
    return RenderedView.said(f"Written to {folder}: {', '.join(written) or 'nothing, all files were up to date'}.")


# ---- the verdict


def recorded_verdict(evidence: Evidence) -> RunbookVerdict:
    """Check a recorded job; raises InputError as `of`."""
    return verdict(of(evidence))


def verdict(report: JobReport, chain: OpenChain | None = None) -> RunbookVerdict:
    """Check a job against its case, or check that nothing is wrong or unknown.

    Args:
        report: The job.
        chain: Result of the chain of open parts; None if it was not run.
    """
    facts = {
        "scripts": 0 if isinstance(report.scripts, str) else len(report.scripts),
        **({} if isinstance(report.accuracy, str) else {"accuracy": report.accuracy.verdict.value}),
    }
    parts = (report.job, report.host, report.scripts, report.quantised, report.compiled, report.accuracy, report.log)
    if chain is None and all(isinstance(part, str) for part in parts):
        raise InputError("no job given; set evidence to a recorded job or a folder, or set one of its parts")
    findings, unknown = list(_wrong(report)), list(unestablished(report))
    compared = chain.accuracy if chain is not None else None
    if chain is not None and compared is None:
        unknown.append(f"the open-source chain: {chain.no_accuracy_reason}")
    elif compared is not None and compared.verdict is Accuracy.LOST:
        findings.append((_CHAIN, compared.reason))
    elif compared is not None and compared.verdict is Accuracy.UNKNOWN:
        unknown.append(f"the open-source chain: {compared.reason}")
    if report.case is not None:
        verdict, reason = verdict_on_findings([name for name, _ in findings], report.case.expect)
    elif findings:
        name, text = findings[0]
        more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        verdict, reason = Verdict.FAIL, f"{text} ({name}){more}"
    elif unknown:
        verdict, reason = Verdict.FAIL, f"unknown: {unknown[0]}"
    else:
        verdict, reason = Verdict.PASS, "nothing is wrong with what was given of the job"
    return RunbookVerdict(verdict, reason, report.case.id if report.case else None, None, None, (), facts)


def _wrong(report: JobReport) -> Iterator[tuple[str, str]]:
    if isinstance(report.job, ReadJob):
        yield from (
            (_JOB_WRONG, redact_text(f"{JOB}:{finding.line}: {finding.text}")) for finding in report.job.problems
        )
    yield from _serious(report.host)
    if not isinstance(report.scripts, str):
        for name, linted in report.scripts.items():
            issues = (finding for finding in linted.issues if finding.severity is not IssueSeverity.INFO)
            yield from ((finding.rule, f"{name}:{finding.line}: {finding.message}") for finding in issues)
    yield from _serious(report.quantised)
    yield from _serious(report.compiled)
    if isinstance(report.accuracy, AccuracyComparison) and report.accuracy.verdict is Accuracy.LOST:
        yield _LOST, report.accuracy.reason
    if isinstance(report.log, Answer) and report.log.root_cause is not None:
        yield report.log.root_cause.symptom, report.log.root_cause.title


def _serious(part: CheckedHost | CheckedFolder | str) -> Iterator[tuple[str, str]]:
    for finding in () if isinstance(part, str) else part.findings:
        if finding.severity is not Severity.HINT:
            yield finding.id, finding.text


def unestablished(report: JobReport) -> Iterator[str]:
    """Checks without a result in the given parts."""
    if isinstance(report.host, CheckedHost) and report.host.ok is None:
        yield from (f"{fact.fact} of the host ({fact.reason})" for fact in report.host.unknown)
    if not isinstance(report.scripts, str):
        yield from (f"what {name} does" for name, linted in report.scripts.items() if not linted.steps)
    for folder in (report.quantised, report.compiled):
        if isinstance(folder, CheckedFolder) and folder.ok is None:
            yield from folder.unchecked
    if isinstance(report.accuracy, AccuracyComparison) and report.accuracy.verdict is Accuracy.UNKNOWN:
        yield f"accuracy loss: {report.accuracy.reason}"
