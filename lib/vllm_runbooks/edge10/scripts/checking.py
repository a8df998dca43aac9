"""Scripts of a toolchain, judged with the data found."""

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
    """Judge scripts of a toolchain for edge chips, by file; what one says counts for the others.

    Servers and evaluations among them are judged by the release of vLLM that the toolchain evaluates with.

    Args:
        texts: By name.
        toolchain: Its version; None: the newest that is known.
        folders: By name where a text lies: the configuration files that its commands name are read there.
        fix: Whether each text is given with every fix made as well.
        lang: As for `lint_text`.

    Raises:
        InputError: the version of the toolchain or the language is not known.
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
    """One of the scripts with every fix made, its secrets as they are: for the user's own file.

    Raises:
        InputError: as `lint_scripts`.
    """
    from vllm_runbooks.edge10 import scripts

    facts = catalog.toolchain(toolchain)
    return scripts.mended(texts, name, knowledge.knowledge(), facts, _asked_of(texts, facts, folders))


def _asked_of(texts: Mapping[str, str], facts: Toolchain, folders: Mapping[str, Path]) -> dict[str, _lint.Asked]:
    vllm = facts.steps["evaluate"].vllm
    return {name: asked(text, name, vllm, None, folders.get(name)) for name, text in texts.items()}
