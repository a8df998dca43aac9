"""Content of the Diagnose panel for a request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vllm_runbooks.catalog import folders, options
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import annotated, answers, starts
from vllm_runbooks.reading import evidence, sources

MAX_UPLOAD = 64 << 20
"""Most bytes of files or characters of text in a message; a larger log is given by its path."""


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
    """None: the default of `catalog.load.language`."""


class ShownFix(NamedTuple):
    """A fix, and its command to copy."""

    shown: RenderedView
    command: str


@dataclass(frozen=True)
class LogReport:
    """Content of the panel."""

    error: str = ""
    """Why there is no answer, in one line."""
    source: str = ""
    """Which of the inputs is diagnosed."""
    outcome: RenderedView | None = None
    cause: RenderedView | None = None
    log: RenderedView | None = None
    timeline: RenderedView | None = None
    advice: RenderedView | None = None
    ways: tuple[ShownFix, ...] = ()
    checks: RenderedView | None = None
    others: RenderedView | None = None
    facts: RenderedView | None = None
    starts: int = 0
    """Number of launches in the text."""


NOTHING = LogReport()


def report_on(request: LogRequest) -> LogReport:
    """Diagnose a request; empty for an empty one."""
    if not (request.uploads or request.pasted.strip() or request.name.strip()):
        return NOTHING
    try:
        evidence = _evidence(request)
        answer = diagnosing.diagnose(
            evidence, start=request.start or None, gpus=request.gpus.strip() or None, lang=request.lang
        )
        read = diagnosing.read(evidence)
    except RunbooksError as error:
        return LogReport(error=str(error), source=_source(request))
    ways = [
        ShownFix(answers.way_out(n, way, answer.lang), way.command or "") for n, way in enumerate(answer.remedies, 1)
    ]
    return LogReport(
        source=_source(request),
        outcome=answers.outcome(answer),
        cause=answers.cause(answer),
        log=annotated.log(answer, evidence.documents),
        timeline=starts.timeline(read, start=request.start),
        advice=answers.advice(answer) if answer.root_cause or not ways else None,
        ways=tuple(ways),
        checks=answers.checks(answer),
        others=answers.others(answer),
        facts=answers.facts(answer),
        starts=len(answer.starts),
    )


def _evidence(request: LogRequest) -> Evidence:
    vllm = request.vllm.strip() or None
    if vllm:
        options.nearest(vllm)  # refuses what is no release before a log is read
    if request.uploads:
        if sum(len(upload.content) for upload in request.uploads) > MAX_UPLOAD:
            raise InputError(f"the files: are larger than {MAX_UPLOAD >> 20} MiB; name them by their paths instead")
        return Evidence(tuple(map(_document, request.uploads)), vllm=vllm)
    if len(request.pasted) > MAX_UPLOAD:
        raise InputError(f"the text: is larger than {MAX_UPLOAD >> 20} M characters; name its file by its path instead")
    if request.pasted.strip():
        return sources.paste(request.pasted, vllm=vllm)
    return sources.load(request.name.strip(), vllm=vllm)


def _source(request: LogRequest) -> str:
    if request.uploads:
        return f"the uploaded {', '.join(upload.name for upload in request.uploads)}"
    if request.pasted.strip():
        return f"the pasted text, {len(request.pasted):,} characters"
    return f"the file or case {request.name.strip()}"


def _document(upload: Upload) -> Document:
    return evidence.held(io.BytesIO(upload.content), upload.name, lambda: None)


def recorded() -> Sequence[str]:
    """Ids of the recorded cases with a log."""
    return sorted(path.parent.name for path in folders.cases_dir().glob("*/*.log"))
