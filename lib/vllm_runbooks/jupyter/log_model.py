"""What the panel Diagnose shows for what was asked of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vllm_runbooks.catalog import folders, options
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import Document, Evidence
from vllm_runbooks.diagnosis import diagnosing
from vllm_runbooks.diagnosis.render import annotated, answers, starts
from vllm_runbooks.reading import evidence, sources

MAX_UPLOAD = 64 << 20
"""Bytes of the files, or characters of the text, that are handed over at once; a larger log is named by its path."""


class Upload(NamedTuple):
    """A file that was handed over."""

    name: str
    content: bytes | memoryview


@dataclass(frozen=True)
class Asked:
    """What is to be diagnosed: files, else the pasted text, else what is named."""

    uploads: tuple[Upload, ...] = ()
    pasted: str = ""
    name: str = ""
    """A file of this host, or a recorded case."""
    vllm: str = ""
    gpus: str = ""
    start: int = 0
    """From 1; 0: the last."""
    lang: str | None = None
    """None: as `catalog.load.language` has it."""


class Way(NamedTuple):
    """A way out, and its command as it is copied."""

    shown: Shown
    command: str


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    """Why nothing is shown, in one line."""
    source: str = ""
    """What of all that was given is answered."""
    outcome: Shown | None = None
    cause: Shown | None = None
    log: Shown | None = None
    timeline: Shown | None = None
    advice: Shown | None = None
    ways: tuple[Way, ...] = ()
    checks: Shown | None = None
    others: Shown | None = None
    facts: Shown | None = None
    starts: int = 0
    """How many the text holds."""


NOTHING = Told()


def told(asked: Asked) -> Told:
    """The diagnosis of what was asked; nothing where nothing was given yet."""
    if not (asked.uploads or asked.pasted.strip() or asked.name.strip()):
        return NOTHING
    try:
        given = _evidence(asked)
        answer = diagnosing.diagnose(given, start=asked.start or None, gpus=asked.gpus.strip() or None, lang=asked.lang)
        read = diagnosing.read(given)
    except RunbooksError as error:
        return Told(error=str(error), source=_source(asked))
    ways = [Way(answers.way_out(n, way, answer.lang), way.command or "") for n, way in enumerate(answer.remedies, 1)]
    return Told(
        source=_source(asked),
        outcome=answers.outcome(answer),
        cause=answers.cause(answer),
        log=annotated.log(answer, given.documents),
        timeline=starts.timeline(read, start=asked.start),
        advice=answers.advice(answer) if answer.root_cause or not ways else None,
        ways=tuple(ways),
        checks=answers.checks(answer),
        others=answers.others(answer),
        facts=answers.facts(answer),
        starts=len(answer.starts),
    )


def _evidence(asked: Asked) -> Evidence:
    vllm = asked.vllm.strip() or None
    if vllm:
        options.nearest(vllm)  # refuses what is no release before a log is read
    if asked.uploads:
        if sum(len(upload.content) for upload in asked.uploads) > MAX_UPLOAD:
            raise InputError(f"the files: are larger than {MAX_UPLOAD >> 20} MiB; name them by their paths instead")
        return Evidence(tuple(map(_document, asked.uploads)), vllm=vllm)
    if len(asked.pasted) > MAX_UPLOAD:
        raise InputError(f"the text: is larger than {MAX_UPLOAD >> 20} M characters; name its file by its path instead")
    if asked.pasted.strip():
        return sources.paste(asked.pasted, vllm=vllm)
    return sources.load(asked.name.strip(), vllm=vllm)


def _source(asked: Asked) -> str:
    if asked.uploads:
        return f"the uploaded {', '.join(upload.name for upload in asked.uploads)}"
    if asked.pasted.strip():
        return f"the pasted text, {len(asked.pasted):,} characters"
    return f"the file or case {asked.name.strip()}"


def _document(upload: Upload) -> Document:
    return evidence.held(io.BytesIO(upload.content), upload.name, lambda: None)


def recorded() -> Sequence[str]:
    """Ids of the recorded cases that hold a log."""
    return sorted(path.parent.name for path in folders.cases_dir().glob("*/*.log"))
