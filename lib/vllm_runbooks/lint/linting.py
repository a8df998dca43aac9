"""Judge every start of vLLM in a file on a release: what is wrong, where, why, and the change that mends it."""

from __future__ import annotations

from vllm_runbooks.lint import config_files, mending
from vllm_runbooks.lint.judged import Apart, Ask, Asked, Judged, Knowledge, Opinion
from vllm_runbooks.lint.migration import migrate
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import MAX_ISSUES, issues, launches, message
from vllm_runbooks.reading import documents

__all__ = [
    "MAX_ISSUES", "Apart", "Ask", "Asked", "Knowledge", "Opinion", "config_names", "hidden", "lint", "mended",
    "message", "migrate", "secrets_of",
]  # fmt: skip


def config_names(text: str, name: str = "") -> list[str]:
    """The configuration files that a text's commands name beside it; nothing is opened here."""
    return config_files.names(documents.read(text, name)) if "--config" in text else []


def lint(text: str, knowledge: Knowledge, asked: Asked, *, fix: bool = False, ask: Ask | None = None) -> Linted:
    """Judge a script, manifest, Python program or page of text; with `fix`, `fixed` is the whole text mended.

    Raises:
        InputError: the release or a GPU is not known, or the installed vLLM does not answer.
    """
    judged = Judged(text, knowledge, asked, ask)
    mended = mending.mended(judged) if fix else judged
    secrets = Secrets(*judged.readings, *(mended.readings if fix else ()))
    fixed = secrets.hidden(mended.text) if fix else None
    told = tuple(issues(judged, secrets))
    return Linted(judged.release, told, tuple(launches(judged, secrets)), fixed, knowledge.lang)


def mended(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text with every fix made, and those that show only then. Secrets are left as they are: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    return mending.mended(Judged(text, knowledge, asked)).text


def hidden(text: str, knowledge: Knowledge, asked: Asked) -> str:
    """The text as it may be shown: its secrets replaced, also those that only reading its commands tells."""
    return secrets_of(text, knowledge, asked).part(0, len(text))


def secrets_of(text: str, knowledge: Knowledge, asked: Asked) -> Secrets:
    """The secrets of a text, for showing parts of it."""
    return Secrets(*Judged(text, knowledge, asked).readings)
