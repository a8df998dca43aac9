"""Content of the Diagnose panel for a request."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from vllm_runbooks.catalog import folders, options
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.core.records import RunbookVerdict
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import annotated, answers, log_steps
from vllm_runbooks.reading import evidence, sources

MAX_UPLOAD = 64 << 20
"""Maximum bytes of files or characters of text in a message; a larger log is given by its path."""


LogView = Callable[[log_steps.DiagnosedLog], RenderedView]


class Upload(NamedTuple):
    """An uploaded file."""

    name: str
    content: bytes | memoryview


@dataclass(frozen=True)
class LogRequest:
    """A log to diagnose: files, else the pasted text, else a name."""

    uploads: tuple[Upload, ...] = ()
    pasted: str = ""
    name: str = ""
    """A file of this host, or a recorded case."""
    vllm: str = ""
    gpus: str = ""
    start: int = 0
    """Number of the launch from 1; 0: the last."""
    lang: str | None = None
    """None for the default of `catalog.load.language`."""
    runbook: str = ""
    """The runbook that the panel drives: its steps show the details."""
    steps: tuple[LogView, ...] = ()
    """Views of the same log."""
    cancelled: threading.Event = field(default_factory=threading.Event, compare=False)
    """Set to stop reading."""


class ShownFix(NamedTuple):
    """A fix, and its command to copy."""

    shown: RenderedView
    command: str


@dataclass(frozen=True)
class LogDetails:
    """Content of the panel below the summary."""

    log: RenderedView
    ways: tuple[ShownFix, ...]
    cause: RenderedView
    """The cause, and the first action."""
    checks: RenderedView
    timeline: RenderedView
    facts: RenderedView
    others: RenderedView
    launches: RenderedView


@dataclass(frozen=True)
class LogReport:
    """Content of the panel."""

    error: str = ""
    """Why there is no answer, in one line."""
    source: str = ""
    """The input that is diagnosed."""
    diagnosed: log_steps.DiagnosedLog | None = None
    summary: RenderedView | None = None
    fix: str = ""
    """The first fix to copy: the whole command if it is known, else the change."""
    details: LogDetails | None = None
    """None if the steps of a runbook show them."""
    steps: tuple[RenderedView, ...] = ()
    """Results of the requested views."""


NOTHING = LogReport()


class FixedLog:
    """The log of a runbook without a panel: that of its parameters."""

    def __init__(self, log: log_steps.DiagnosedLog, runbook: str) -> None:
        self._log, self._runbook = log, runbook

    def summary(self) -> RenderedView:
        """State, cause and first fix."""
        return answers.summary(self._log.answer, gpus=self._log.gpus, runbook=self._runbook)

    def step(self, view: LogView) -> RenderedView:
        """A step about the log."""
        return view(self._log)

    def verdict(self) -> RunbookVerdict:
        """The verdict on the log."""
        return diagnosing.verdict(self._log.answer, self._log.evidence)


def report_on(request: LogRequest) -> LogReport:
    """Diagnose a request; empty for an empty one."""
    if not (request.uploads or request.pasted.strip() or request.name.strip()):
        return NOTHING
    try:
        evidence = _evidence(request)
        cancellable = _cancellable(evidence, request.cancelled)
        log = log_steps.diagnosed(cancellable, gpus=request.gpus.strip(), start=request.start, lang=request.lang)
        answer = log.answer
        if not answer.starts and not answer.findings:
            raise InputError(f"{_source(request)}: not the log of a vLLM launch; use the server's output")
        fix = answers.summary_record(answer, gpus=log.gpus).fix
        return LogReport(
            source=_source(request),
            diagnosed=replace(log, evidence=evidence),
            summary=answers.summary(answer, gpus=log.gpus, runbook=request.runbook),
            fix=(fix.command or fix.change) if fix is not None and fix.is_command else "",
            details=None if request.runbook else _details(log),
            steps=tuple(view(log) for view in request.steps),
        )
    except RunbooksError as error:
        return LogReport(error=str(error), source=_source(request))


def _details(log: log_steps.DiagnosedLog) -> LogDetails:
    answer = log.answer
    ways = [
        ShownFix(answers.way_out(n, way, answer.lang), way.command or "") for n, way in enumerate(answer.remedies, 1)
    ]
    return LogDetails(
        log=annotated.log(answer, log.evidence.documents),
        ways=tuple(ways),
        cause=RenderedView.joined([answers.cause(answer), answers.advice(answer)]),
        checks=answers.checks(answer),
        timeline=log_steps.timeline(log),
        facts=answers.facts(answer),
        others=answers.others(answer),
        launches=answers.starts(answer),
    )


def _cancellable(evidence: Evidence, cancelled: threading.Event) -> Evidence:
    """Evidence whose documents raise InputError while they are read, once it is cancelled."""

    def pieces(document: Document) -> Iterator[str]:
        for piece in document.pieces():
            if cancelled.is_set():
                raise InputError(f"{document.name}: reading was cancelled")
            yield piece

    documents = tuple(replace(document, source=partial(pieces, document)) for document in evidence.documents)
    return replace(evidence, documents=documents)


def _evidence(request: LogRequest) -> Evidence:
    vllm = request.vllm.strip() or None
    if vllm:
        options.nearest(vllm)  # rejects an invalid release before a log is read
    if request.uploads:
        if sum(len(upload.content) for upload in request.uploads) > MAX_UPLOAD:
            raise InputError(f"the files: are larger than {MAX_UPLOAD >> 20} MiB; use their paths instead")
        return Evidence(tuple(map(_document, request.uploads)), vllm=vllm)
    if len(request.pasted) > MAX_UPLOAD:
        raise InputError(f"the text: is larger than {MAX_UPLOAD >> 20} M characters; use the path of its file instead")
    if request.pasted.strip():
        return sources.paste(request.pasted, vllm=vllm)
    return sources.load(request.name.strip(), vllm=vllm)


def _source(request: LogRequest) -> str:
    if request.uploads:
        return f"uploaded {', '.join(upload.name for upload in request.uploads)}"
    if request.pasted.strip():
        return f"pasted text, {len(request.pasted):,} characters"
    return request.name.strip()


def _document(upload: Upload) -> Document:
    return evidence.held(io.BytesIO(upload.content), upload.name, lambda: None)


def recorded() -> Sequence[str]:
    """Ids of the recorded cases with a log."""
    return sorted(path.parent.name for path in folders.cases_dir().glob("*/*.log"))
