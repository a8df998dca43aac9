"""Lint every launch in a file for a release."""

from __future__ import annotations

from vllm_runbooks.lint import config_files, mending
from vllm_runbooks.lint.judged import Ask, Knowledge, LintedText, LintRequest, OtherPrograms
from vllm_runbooks.lint.migration import migrate
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues, launches
from vllm_runbooks.reading import documents

__all__ = ["Ask", "Knowledge", "LintRequest", "OtherPrograms", "config_names", "hidden", "lint", "mended", "migrate"]


def config_names(text: str, name: str = "") -> list[str]:
    """Names of the config files next to the text; opens nothing."""
    return config_files.names(documents.read(text, name)) if "--config" in text else []


def lint(text: str, knowledge: Knowledge, request: LintRequest, *, fix: bool = False, ask: Ask | None = None) -> Linted:
    """Lint a script, manifest, Python program or page; with `fix`, `fixed` is the whole corrected text."""
    judged = LintedText(text, knowledge, request, ask)
    mended = mending.mended(judged) if fix else judged
    secrets = Secrets(*judged.readings, *(mended.readings if fix else ()))
    fixed = secrets.hidden(mended.text) if fix else None
    found_issues = tuple(issues(judged, secrets))
    return Linted(judged.release, found_issues, tuple(launches(judged, secrets)), fixed, knowledge.lang)


def mended(text: str, knowledge: Knowledge, request: LintRequest) -> str:
    """Apply every fix, repeatedly. Secrets stay: never show the text."""
    return mending.mended(LintedText(text, knowledge, request)).text


def hidden(text: str, knowledge: Knowledge, request: LintRequest) -> str:
    """Return the text with its secrets replaced, also those that only parsing finds."""
    return Secrets(*LintedText(text, knowledge, request).readings).part(0, len(text))
