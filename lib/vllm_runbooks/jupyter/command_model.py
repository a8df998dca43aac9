"""Content of the Commands panel for a text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.lint import checking, summaries
from vllm_runbooks.lint import render as issues
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.reading import sources

MAX_TEXT = 200_000
"""Most characters that are checked while typing; `vllm-runbooks lint` accepts more."""


@dataclass(frozen=True)
class CommandRequest:
    """A text with the release and GPUs to check it for."""

    text: str
    vllm: str = ""
    gpus: str = ""
    lang: str | None = None
    """None for the default of `catalog.load.language`."""


class Mark(NamedTuple):
    """An issue's position in the text; lines and columns from 1."""

    line: int
    column: int
    end_column: int
    severity: str
    message: str


@dataclass(frozen=True)
class CommandReport:
    """Content of the panel."""

    error: str = ""
    marks: tuple[Mark, ...] = ()
    summary: RenderedView | None = None
    placed: RenderedView | None = None
    """The text with each issue below its line."""
    correction: str = ""
    """A description of the corrected text, and of the remaining issues."""
    fixed: str = ""
    """The corrected text, secrets replaced; empty if nothing can be fixed."""
    difference: RenderedView | None = None
    starts: RenderedView | None = None


def report_on(request: CommandRequest) -> CommandReport:
    """Check and correct a text; empty for an empty text."""
    if not request.text.strip():
        return CommandReport()
    try:
        if len(request.text) > MAX_TEXT:
            raise InputError(f"the text: is larger than {MAX_TEXT:,} characters; use `vllm-runbooks lint` on the file")
        evidence = sources.paste(request.text, vllm=request.vllm.strip() or None)
        linted = checking.lint_commands(evidence, gpus=request.gpus.strip(), lang=request.lang)
        script = checking.shown(evidence)
    except RunbooksError as error:
        return CommandReport(error=str(error))
    return CommandReport(
        marks=tuple(_marks(request.text, linted)),
        # The corrected text is elsewhere in the panel.
        summary=rendered(replace(summaries.summarize(linted, "text"), fix=None)),
        placed=issues.in_place(script, linted),
        correction=issues.correction_summary(linted),
        fixed=(linted.fixed or "") if issues.is_corrected(linted) else "",
        difference=issues.difference(script, linted),
        starts=issues.starts(linted),
    )


def _marks(text: str, linted: Linted) -> list[Mark]:
    """Range of each issue, up to the end of its word or of its fix."""
    lines = text.split("\n")
    marks = []
    for issue in linted.issues:
        line = lines[issue.line - 1] if issue.line <= len(lines) else ""
        end = issue.column + max(len(line[issue.column - 1 :].partition(" ")[0]), 1)
        if issue.fix is not None and issue.fix.end_line == issue.line:
            end = max(end, issue.fix.end_column)
        marks.append(Mark(issue.line, issue.column, end, issue.severity.value, issue.message))
    return marks
