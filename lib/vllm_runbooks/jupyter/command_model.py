"""What the panel Commands shows for a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.lint import checking
from vllm_runbooks.lint import render as issues
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.reading import sources

MAX_TEXT = 200_000
"""Characters that are checked while somebody writes; `vllm-runbooks lint` takes more."""


@dataclass(frozen=True)
class Asked:
    """A text, and by what it is judged."""

    text: str
    vllm: str = ""
    gpus: str = ""
    lang: str | None = None
    """None: as `catalog.load.language` has it."""


class Mark(NamedTuple):
    """A place in the text with what is wrong there; lines and columns from 1."""

    line: int
    column: int
    end_column: int
    severity: str
    message: str


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    marks: tuple[Mark, ...] = ()
    placed: Shown | None = None
    """The text with each finding below its line."""
    mended: str = ""
    """What the corrected text is, and what is left in it."""
    fixed: str = ""
    """The corrected text, secrets replaced; empty where nothing is to be mended."""
    difference: Shown | None = None
    starts: Shown | None = None


def told(asked: Asked) -> Told:
    """What is wrong with a text, and how it is mended; nothing where there is none yet."""
    if not asked.text.strip():
        return Told()
    try:
        if len(asked.text) > MAX_TEXT:
            raise InputError(f"the text: is larger than {MAX_TEXT:,} characters; give its file to `vllm-runbooks lint`")
        given = sources.paste(asked.text, vllm=asked.vllm.strip() or None)
        found = checking.lint_commands(given, gpus=asked.gpus.strip(), lang=asked.lang)
        shown = checking.shown(given)
    except RunbooksError as error:
        return Told(error=str(error))
    return Told(
        marks=tuple(_marks(asked.text, found)),
        placed=issues.in_place(shown, found),
        mended=issues.mended(found),
        fixed=(found.fixed or "") if issues.is_mended(found) else "",
        difference=issues.difference(shown, found),
        starts=issues.starts(found),
    )


def _marks(text: str, found: Linted) -> list[Mark]:
    """Where each finding stands, to the end of the word or of what its fix replaces."""
    lines = text.split("\n")
    marks = []
    for issue in found.issues:
        line = lines[issue.line - 1] if issue.line <= len(lines) else ""
        end = issue.column + max(len(line[issue.column - 1 :].partition(" ")[0]), 1)
        if issue.fix is not None and issue.fix.end_line == issue.line:
            end = max(end, issue.fix.end_column)
        marks.append(Mark(issue.line, issue.column, end, issue.severity.value, issue.message))
    return marks
