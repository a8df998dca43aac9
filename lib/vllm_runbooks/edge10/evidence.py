"""A job for an edge chip with what ran its steps and what they left, recorded or in a folder, judged as a whole.

What is not given is said in its place, and judged nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import AskedModel, Toolchain
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import JOB, Case, CaseKind, Document, Evidence
from vllm_runbooks.core.records import Answer, IssueSeverity, Judgement, Severity
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.edge10 import expected as job_expected
from vllm_runbooks.edge10 import models
from vllm_runbooks.edge10.accuracy import comparing as _accuracy
from vllm_runbooks.edge10.accuracy import reports
from vllm_runbooks.edge10.accuracy import results as evaluations
from vllm_runbooks.edge10.accuracy.records import Accuracy, JudgedAccuracy
from vllm_runbooks.edge10.artefacts import checks as artefact_checks
from vllm_runbooks.edge10.artefacts import kinds as artefacts
from vllm_runbooks.edge10.artefacts import listings
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents
from vllm_runbooks.edge10.host import loading, preflight
from vllm_runbooks.edge10.host import snapshots as host_snapshots
from vllm_runbooks.edge10.host.records import CheckedHost, EdgeHost
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
"""Files of a job, recorded or in its folder: its host, and listings of the folders between the steps."""
_LOGS = (".log", "log.txt")
"""How the name of a failed step's log ends."""
_FLOAT, _OTHER = "results-float", "results-quantised"
"""How the names of results begin."""
_SCRIPTS = (".py", ".sh", ".yaml", ".yml", ".ipynb")
_MAX_SCRIPTS = 64
_JOB_WRONG, _LOST, _CHAIN = "edge10.job", "edge10.accuracy_lost", "edge10.chain"
"""Ids of what is found and has no rule of its own."""

_Source = str | Document
"""A path of this host, or a text of a recorded job."""


class _Given(NamedTuple):
    """What there is of a job."""

    job: _Source | None = None
    scripts: tuple[_Source, ...] = ()
    host: _Source | None = None
    quantised: _Source | None = None
    original: _Source | None = None
    compiled: _Source | None = None
    results: tuple[_Source, ...] = ()
    logs: tuple[_Source, ...] = ()


class _HostAsked(NamedTuple):
    """What the host is looked at for."""

    step: str
    image: str | None = None
    is_live: bool = False


@dataclass(frozen=True)
class Told:
    """A job, and what is to be said of each part of it; a text is why there is nothing."""

    facts: Toolchain
    job: ReadJob | str
    model: AskedModel | None
    host: CheckedHost | str
    scripts: Mapping[str, LintedScripts] | str
    """By file."""
    quantised: CheckedFolder | str
    compiled: CheckedFolder | str
    accuracy: JudgedAccuracy | str
    log: Answer | str
    case: Case | None = None
    """What is examined, where it is recorded."""


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
) -> Told:
    """A job with what belongs to it; what is named takes the place of what the evidence holds.

    Args:
        evidence: A recorded job (a case), or a folder with `job.yaml` and what the job's steps left in it; empty: there
            is only what is named.
        job: Description of the job.
        scripts: Scripts, separated by commas.
        quantised: The quantised checkpoint: its folder, or a listing of it.
        original: The float model's folder, or a listing of it.
        compiled: The compiled model: its folder, or a listing of it.
        results: Results of the float and of the quantised model, separated by a comma.
        log: Log of a step that failed.
        host: A recorded host.
        image: The container of the step, as in `registry.example.com/edgex/tyllm:v1.1.7`; it is looked for on the host.
        step: The step that the host is looked at for.
        live: Whether this host is asked in place of a recorded one.

    Raises:
        InputError: Something of it cannot be read.
    """
    named = {"job": job, "quantised": quantised, "original": original, "compiled": compiled, "log": log, "host": host}
    check_texts(evidence=evidence, scripts=scripts, results=results, image=image, step=step, **named)
    if not isinstance(live, bool):
        raise InputError(f"live: {live!r} is neither True nor False; no host is asked")
    held, case = _held(evidence)
    own = {name: value.strip() for name, value in named.items()}
    parts = _Given(
        job=own["job"] or held.job,
        scripts=_parted(scripts) or held.scripts,
        host=own["host"] or held.host,
        quantised=own["quantised"] or held.quantised,
        original=own["original"] or held.original,
        compiled=own["compiled"] or held.compiled,
        results=_parted(results) or held.results,
        logs=(own["log"],) if own["log"] else held.logs,
    )
    return _told(parts, case, _HostAsked(step, image.strip() or None, live))


def of(evidence: Evidence) -> Told:
    """A recorded job.

    Raises:
        InputError: It is none, or something of it cannot be read.
    """
    return _told(_recorded(evidence), evidence.case, _HostAsked("compile"))


def _held(evidence: str) -> tuple[_Given, Case | None]:
    """What a recorded job or a folder holds."""
    if not evidence.strip():
        return _Given(), None
    if sources.is_job(evidence):
        return _in_folder(Path(evidence)), None
    found = sources.load(evidence)
    return _recorded(found), found.case


def _recorded(found: Evidence) -> _Given:
    if found.case is None or found.case.kind is not CaseKind.JOB:
        where = found.case.id if found.case is not None else "the evidence"
        raise InputError(f"{where}: is no recorded job; name one, or a folder with {JOB}")
    return _by_name({each.name: each for each in found.documents})


def _by_name(files: Mapping[str, _Source]) -> _Given:
    """What there is of a job, by the names of its files."""
    ends = [next((each for name, each in files.items() if name.startswith(begin)), None) for begin in (_FLOAT, _OTHER)]
    return _Given(
        job=files[JOB],
        scripts=tuple(each for name, each in files.items() if _is_script(name)),
        host=files.get(_HOST),
        quantised=files.get(_QUANTISED),
        original=files.get(_ORIGINAL),
        compiled=files.get(_COMPILED),
        results=tuple(each for each in ends if each is not None),
        logs=tuple(each for name, each in files.items() if name.endswith(_LOGS)),
    )


def _is_script(name: str) -> bool:
    return name.endswith(_SCRIPTS) and name != JOB and not name.startswith((_FLOAT, _OTHER))


def _in_folder(folder: Path) -> _Given:
    """What a job's folder holds: under the names of a recorded job, and under those that the job's own files use."""
    try:
        files: dict[str, _Source] = {path.name: str(path) for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; give a folder that can be listed") from None
    found = _by_name(files)
    read = _job(found.job)
    if isinstance(read, str) or read.job is None:
        return found
    job, facts = read.job, catalog.toolchain(read.job.toolchain)
    checkpoints = (names.converted(job, facts), *([names.quantised(job, facts)] if job.calibration else []))
    given = [_there(folder / steps.RESULTS / which) for which in ("float", "quantised")]
    return found._replace(
        quantised=next((name for each in checkpoints if (name := _there(folder / each))), found.quantised),
        original=(_there(Path(job.model)) if Path(job.model).is_absolute() else None) or found.original,
        compiled=_there(folder / names.compiled(job, facts)) or found.compiled,
        results=tuple(each for each in given if each is not None) if all(given) else found.results,
    )


def _there(path: Path) -> str | None:
    return str(path) if path.exists() else None


def _parted(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


# ---- what is to be said of it


def _told(given: _Given, case: Case | None, of_host: _HostAsked) -> Told:
    job = _job(given.job)
    known = job.job if isinstance(job, ReadJob) else None
    facts = catalog.toolchain(known.toolchain if known is not None else None)
    asked = artefacts.Asked(job=known)
    original = _artefact(given.original) if given.original is not None else None

    def folder(source: _Source | None, name: str) -> CheckedFolder | str:
        if source is None:
            return f"Nothing is given of it; name its folder, or a listing of it, in {name}."
        return artefact_checks.without_secrets(artefacts.check(_artefact(source), facts, asked, float_=original))

    return Told(
        facts=facts,
        job=job,
        model=models.asked(known.listed, facts) if known is not None else None,
        host=_host(given.host, of_host, known.model if known is not None else None, facts),
        scripts=_scripts(given.scripts, facts),
        quantised=folder(given.quantised, "quantised"),
        compiled=folder(given.compiled, "compiled"),
        accuracy=_compared(given.results, known.threshold if known is not None else None),
        log=_logged(given.logs),
        case=case,
    )


def _job(source: _Source | None) -> ReadJob | str:
    if source is None:
        return f"No description of a job is given; name one in job, or a folder with {JOB} in evidence."
    return jobs.read(_text(source), catalog.toolchain)


def _name(source: _Source) -> str:
    return source.name if isinstance(source, Document) else Path(source).name


def _text(source: _Source) -> str:
    return source.text if isinstance(source, Document) else sources.read_text(source)


def _host(source: _Source | None, of_host: _HostAsked, model: str | None, facts: Toolchain) -> CheckedHost | str:
    asked = preflight.read_asked(of_host.step, model=_planned(model), image=of_host.image)
    if of_host.is_live:
        return preflight.checked(asked, version=facts.version)
    if source is None:
        return "No host is recorded; turn on live, or name in host what vllm-runbooks edge10 preflight --out wrote."
    return preflight.checked(asked, snapshot=_recorded_host(source), version=facts.version)


def _recorded_host(source: _Source) -> EdgeHost:
    if isinstance(source, Document):
        return host_snapshots.read(source.text, source.name)
    return loading.edge_host(source)


def _planned(model: str | None) -> str | None:
    """A model whose sizes the catalog, or its folder, tells; else what it takes stays unknown."""
    if model is None:
        return None
    try:
        planner.model(model)
    except InputError:
        return None
    return model


def _scripts(named: Sequence[_Source], facts: Toolchain) -> Mapping[str, LintedScripts] | str:
    if not named:
        return "No script is given; name them in scripts, separated by commas."
    if len(named) > _MAX_SCRIPTS:
        raise InputError(f"scripts: {len(named)} are there; name those of the job, {_MAX_SCRIPTS} at most")
    texts = {_name(each): _text(each) for each in named}
    return script_checking.lint_scripts(texts, toolchain=facts.version)


def _artefact(source: _Source) -> artefacts.Given:
    if isinstance(source, str):
        return artefact_checks.read(source)
    return artefacts.Given(listings.read(source.text, source.name), Contents())


def _compared(named: Sequence[_Source], threshold: float | None) -> JudgedAccuracy | str:
    if not named:
        return "No results are given; name those of the float and of the quantised model in results."
    if len(named) != 2:
        raise InputError(f"results: {len(named)} are given; name those of the float model, then the quantised one's")
    paths = [Path(each) for each in named if isinstance(each, str)]
    if len(paths) == len(named):
        evaluations.distinct(*paths)
    first, second = (
        reports.read([reports.Given("", each.text.encode())], each.name)
        if isinstance(each, Document)
        else evaluations.read(Path(each))
        for each in named
    )
    return _accuracy.judge(first, second, threshold=_accuracy.THRESHOLD if threshold is None else threshold)


def _logged(named: Sequence[_Source]) -> Answer | str:
    if not named:
        return "No log is given; name that of the step that failed in log."
    if len(named) > 1:
        raise InputError(f"log: {len(named)} are there ({', '.join(map(_name, named[:4]))}); name the one meant")
    (source,) = named
    return diagnosing.diagnose(Evidence((source,)) if isinstance(source, Document) else sources.load(source))


# ---- how it is shown


def job(told: Told) -> Shown:
    """The job's settings, each with where it comes from, and what is wrong with its description."""
    from vllm_runbooks.edge10 import pages as edge10_pages

    return Shown.said(told.job) if isinstance(told.job, str) else edge10_pages.job(told.job, told.facts, told.model)


def host(told: Told) -> Shown:
    """The host, and what stands in the way of the step."""
    from vllm_runbooks.edge10.host import render as toolchains

    return Shown.said(told.host) if isinstance(told.host, str) else toolchains.host_shown(told.host)


def scripts(told: Told) -> Shown:
    """What is wrong in the scripts, and what each does."""
    from vllm_runbooks.edge10 import pages as edge10_pages

    return Shown.said(told.scripts) if isinstance(told.scripts, str) else edge10_pages.scripts(told.scripts)


def quantised(told: Told) -> Shown:
    """The quantised checkpoint."""
    return _folder(told.quantised)


def compiled(told: Told) -> Shown:
    """The compiled model."""
    return _folder(told.compiled)


def _folder(found: CheckedFolder | str) -> Shown:
    from vllm_runbooks.edge10 import pages as edge10_pages

    return Shown.said(found) if isinstance(found, str) else edge10_pages.folder(found)


def accuracy(told: Told) -> Shown:
    """What the quantised model lost."""
    from vllm_runbooks.edge10.accuracy import render as views

    return Shown.said(told.accuracy) if isinstance(told.accuracy, str) else views.shown(told.accuracy)


def logged(told: Told) -> Shown:
    """Why a step failed, and what to do."""
    from vllm_runbooks.diagnosis.render import answers

    if isinstance(told.log, str):
        return Shown.said(told.log)
    return Shown.joined([answers.cause(told.log), answers.remedies(told.log)])


# ---- the steps, made anew


def made(told: Told) -> steps.JobFiles | str:
    """Every file of the job; else why there is none. Nothing is written."""
    if isinstance(told.job, str):
        return told.job
    if told.job.job is None:
        return "The description contradicts itself or the toolchain: mend what is wrong with it first."
    return steps.make_files(told.job.job, told.facts)


def made_shown(told: Told, found: steps.JobFiles | str) -> Shown:
    """The files that were made, each in full, and what the linters say of them."""
    from vllm_runbooks.edge10 import pages as edge10_pages

    if isinstance(found, str):
        return Shown.said(f"Nothing is made. {found}")
    return edge10_pages.made(found.files, found.texts, making.judged(found.texts, told.facts))


def write(found: steps.JobFiles | str, folder: str, *, apply: bool) -> Shown:
    """Write the files of the job into a folder, where that is asked for; what somebody changed is not overwritten.

    Raises:
        InputError: No folder is given, or a file would be lost.
    """
    if not isinstance(apply, bool):
        raise InputError(f"apply: {apply!r} is neither True nor False; nothing is written")
    check_texts(folder=folder)
    if isinstance(found, str):
        return Shown.said(f"Nothing is written. {found}")
    if not apply:
        return Shown.said("Nothing is written, since apply is False.")
    if not folder.strip():
        raise InputError("folder is empty; name the folder that the files are to be written into")
    written, _ = making.store_made(found, Path(folder))
    return Shown.said(f"Written into {folder}: {', '.join(written) or 'nothing, it was all there as it is'}.")


# ---- the verdict


def _judge_recorded(evidence: Evidence) -> Judgement:
    """The verdict on a recorded job.

    Raises:
        InputError: as `of`.
    """
    return judge(of(evidence))


def judge(told: Told, chain: OpenChain | None = None) -> Judgement:
    """The verdict on a job: against what its case expects, else on whether anything is wrong or left open.

    Args:
        told: The job.
        chain: The middle of the way as it was gone with open parts; None: it was not.
    """
    facts = {
        "scripts": 0 if isinstance(told.scripts, str) else len(told.scripts),
        **({} if isinstance(told.accuracy, str) else {"accuracy": told.accuracy.verdict.value}),
    }
    parts = [_is_given(part) for part in (told.job, told.host, told.scripts, told.quantised, told.compiled)]
    if not any((*parts, _is_given(told.accuracy), _is_given(told.log), chain is not None)):
        raise InputError("nothing of a job is given; name a recorded job or a folder in evidence, or a part of it")
    found, unknown = list(_wrong(told)), list(_open(told))
    if chain is not None:
        found += _wrong_in(chain)
        unknown += _open_in(chain)
    return job_expected.judge_job(found, unknown, told.case, facts)


def _is_given(part: object) -> bool:
    return not isinstance(part, str)


def _wrong(told: Told) -> Iterator[tuple[str, str]]:
    """What is wrong, by id, in the order of the runbook."""
    if isinstance(told.job, ReadJob):
        yield from ((_JOB_WRONG, redact_text(f"{JOB}:{each.line}: {each.text}")) for each in told.job.problems)
    if isinstance(told.host, CheckedHost):
        yield from ((each.id, each.text) for each in told.host.findings if each.severity is not Severity.HINT)
    if not isinstance(told.scripts, str):
        for name, found in told.scripts.items():
            issues = (each for each in found.issues if each.severity is not IssueSeverity.INFO)
            yield from ((each.rule, f"{name}:{each.line}: {each.message}") for each in issues)
    for folder in (told.quantised, told.compiled):
        if isinstance(folder, CheckedFolder):
            yield from ((each.id, each.text) for each in folder.findings if each.severity is not Severity.HINT)
    if isinstance(told.accuracy, JudgedAccuracy) and told.accuracy.verdict is Accuracy.LOST:
        yield _LOST, told.accuracy.why
    if isinstance(told.log, Answer) and told.log.root_cause is not None:
        yield told.log.root_cause.symptom, told.log.root_cause.title


def _open(told: Told) -> Iterator[str]:
    """What was given and could not be established, a sentence each."""
    if isinstance(told.host, CheckedHost) and told.host.ok is None:
        yield from (f"{each.what} of the host ({each.why})" for each in told.host.unknown)
    if not isinstance(told.scripts, str):
        yield from (f"what {name} does" for name, found in told.scripts.items() if not found.steps)
    for folder in (told.quantised, told.compiled):
        if isinstance(folder, CheckedFolder) and folder.ok is None:
            yield from folder.unchecked
    if isinstance(told.accuracy, JudgedAccuracy) and told.accuracy.verdict is Accuracy.UNKNOWN:
        yield f"what was lost: {told.accuracy.why}"


def _wrong_in(chain: OpenChain) -> Iterator[tuple[str, str]]:
    if chain.accuracy is not None and chain.accuracy.verdict is Accuracy.LOST:
        yield _CHAIN, chain.accuracy.why


def _open_in(chain: OpenChain) -> Iterator[str]:
    if chain.accuracy is None:
        yield f"the chain of open parts: {chain.why_none}"
    elif chain.accuracy.verdict is Accuracy.UNKNOWN:
        yield f"the chain of open parts: {chain.accuracy.why}"
