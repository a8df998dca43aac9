"""The front door for commands: scripts read, linted, mended and migrated with the data found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from vllm_runbooks import lint as _lint
from vllm_runbooks import session
from vllm_runbooks.errors import InputError
from vllm_runbooks.records import Document, Evidence, Judgement, Linted, Migrated

if TYPE_CHECKING:
    from vllm_runbooks.second_opinion import Verdict


def _ask(python: str, entry: str, commands: Sequence[Sequence[str]], *, is_config_checked: bool) -> list[Verdict]:
    from vllm_runbooks import second_opinion  # noqa: PLC0415 - rarely asked for

    return second_opinion.ask(python, entry, commands, is_config_checked=is_config_checked)


def lint_text(
    text: str,
    *,
    name: str = "",
    vllm: str | None = None,
    gpus: str | None = None,
    fix: bool = False,
    python: str | None = None,
    is_config_checked: bool = False,
) -> Linted:
    """Judge the vLLM commands of a script, manifest, program or page; see `lint.lint`.

    `python` names a Python with vLLM, whose own parser judges the commands as well (and, with `is_config_checked`, its
    configuration).

    Raises:
        InputError: the release or a GPU is not known, or that Python does not answer.
    """
    ask = None if python is None else partial(_ask, python, is_config_checked=is_config_checked)
    return _lint.lint(text, session.knowledge(), _lint.Asked(name, vllm or None, gpus or None), fix=fix, ask=ask)


def mended(text: str, *, name: str = "", vllm: str | None = None, gpus: str | None = None) -> str:
    """The text with every fix made, its secrets as they are: for the user's own file."""
    return _lint.mended(text, session.knowledge(), _lint.Asked(name, vllm or None, gpus or None))


def migrate_text(text: str, *, from_: str, to: str, name: str = "", gpus: str | None = None) -> tuple[Migrated, str]:
    """Move a script to another release; what is found, and the script rewritten, its secrets as they are.

    Raises:
        InputError: a release or a GPU is not known.
    """
    return _lint.migrate(text, session.knowledge(), _lint.Asked(name, to, gpus or None), from_=from_)


def lint_commands(evidence: Evidence, *, gpus: str = "") -> Linted:
    """Judge the script that was loaded or pasted, and correct it.

    Raises:
        InputError: the release or a GPU is not known, or the evidence is more than one text.
    """
    script = _script(evidence)
    return lint_text(script.text, name=script.name, vllm=evidence.vllm, gpus=gpus, fix=True)


def migrate_commands(evidence: Evidence, *, to: str, gpus: str = "") -> Migrated:
    """Move the script that was loaded or pasted to another release.

    Raises:
        InputError: as `lint_commands`.
    """
    script = _script(evidence)
    from_ = lint_commands(evidence, gpus=gpus).vllm.version
    return migrate_text(script.text, name=script.name, from_=from_, to=to, gpus=gpus)[0]


def shown(evidence: Evidence) -> str:
    """The script that was loaded or pasted as it may be shown, its secrets replaced."""
    script = _script(evidence)
    return _lint.hidden(script.text, session.knowledge(), _lint.Asked(script.name, evidence.vllm))


def _script(evidence: Evidence) -> Document:
    if len(evidence.documents) != 1:
        raise InputError(f"{len(evidence.documents)} texts were given; a script is one, so name it alone")
    return evidence.documents[0]


def judge_commands(found: Linted, evidence: Evidence) -> Judgement:
    """The verdict on commands: against the evidence's case, else on whether anything is wrong."""
    return _lint.judge(found, evidence.case)
