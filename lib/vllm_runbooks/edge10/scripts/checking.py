"""Check scripts of a toolchain with the data of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import knowledge
from vllm_runbooks.lint import linting as _lint
from vllm_runbooks.lint.checking import asked


def lint_scripts(
    texts: Mapping[str, str],
    *,
    toolchain: str | None = None,
    folders: Mapping[str, Path] = MappingProxyType({}),
    fix: bool = False,
    lang: str | None = None,
) -> dict[str, LintedScripts]:
    """Check scripts of a toolchain for edge chips together, by file.

    Servers and evaluations are checked for the release of vLLM that the toolchain evaluates with.

    Args:
        texts: Texts by name.
        toolchain: Its version; None for the newest.
        folders: Folders of the texts by name: configuration files of their commands are read there.
        fix: Whether to return each text with every fix applied.
        lang: As for `lint_text`.

    Raises:
        InputError: the version of the toolchain or the language is unknown.
    """
    from vllm_runbooks.edge10 import scripts

    facts = catalog.toolchain(toolchain)
    return scripts.lint(texts, knowledge.knowledge(lang), facts, _asked_of(texts, facts, folders), fix=fix)


def mended_script(
    texts: Mapping[str, str],
    name: str,
    *,
    toolchain: str | None = None,
    folders: Mapping[str, Path] = MappingProxyType({}),
) -> str:
    """One of the scripts with every fix applied; its secrets stay, so this is for the user's own file.

    Raises:
        InputError: as `lint_scripts`.
    """
    from vllm_runbooks.edge10 import scripts

    facts = catalog.toolchain(toolchain)
    return scripts.mended(texts, name, knowledge.knowledge(), facts, _asked_of(texts, facts, folders))


def _asked_of(texts: Mapping[str, str], facts: Toolchain, folders: Mapping[str, Path]) -> dict[str, _lint.LintRequest]:
    vllm = facts.steps["evaluate"].vllm
    return {name: asked(text, name, vllm, None, folders.get(name)) for name, text in texts.items()}
