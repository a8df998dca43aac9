"""Check scripts of a toolchain with the data of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import LineIndex
from vllm_runbooks.edge10.scripts import secret_rules
from vllm_runbooks.edge10.scripts.findings import CheckedScript, CheckedScripts
from vllm_runbooks.edge10.scripts.readings import COMPILE
from vllm_runbooks.edge10.scripts.records import LintedScripts, ScriptStep
from vllm_runbooks.lint import knowledge
from vllm_runbooks.lint.checking import asked
from vllm_runbooks.lint.fixing import with_fixes_by
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues, launches

_CONTAINERS = {
    "quantise": "quantise", "convert": "convert", "serve": "evaluate", "evaluate": "evaluate",
    **dict.fromkeys(COMPILE, "compile"),
}  # fmt: skip
"""Step of the toolchain whose container a script runs in, by its actions."""


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
    group = _group(texts, toolchain, folders, lang)
    return {name: _linted(name, script, fix=fix) for name, script in group.files.items()}


def fixed_script(
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
    return _fixed(_group(texts, toolchain, folders, None).files[name]).text


def _group(
    texts: Mapping[str, str], toolchain: str | None, folders: Mapping[str, Path], lang: str | None
) -> CheckedScripts:
    facts = catalog.toolchain(toolchain)
    vllm = facts.steps["evaluate"].vllm
    requests = {name: asked(text, name, vllm, None, folders.get(name)) for name, text in texts.items()}
    return CheckedScripts(texts, knowledge.knowledge(lang), facts, requests)


def _fixed(script: CheckedScript) -> CheckedScript:
    group, name = script.group, script.file.name
    return with_fixes_by(script, lambda text: group.with_text(name, text).files[name])


def _linted(name: str, script: CheckedScript, *, fix: bool) -> LintedScripts:
    fixed = _fixed(script) if fix else script
    file, judged, facts = script.file, script.file.judged, script.group.facts
    fixed_readings = fixed.file.judged.readings if fix else ()
    secrets = Secrets(*judged.readings, *fixed_readings, more=[*secret_rules.shown_passwords(file)])
    deployments = [
        launch
        for parsed, launch in zip(judged.parsed, launches(judged, secrets), strict=True)
        if not file.is_compiled(parsed[0].start)
    ]
    return LintedScripts(
        CommandRelease(judged.release.version, "toolchain", judged.release.data),
        tuple(issues(script, secrets)),
        tuple(deployments),
        secrets.hidden(fixed.text) if fix else None,
        script.knowledge.lang,
        steps=tuple(_steps(name, script, facts)),
        toolchain=facts.id,
    )


def _steps(name: str, script: CheckedScript, facts: Toolchain) -> list[ScriptStep]:
    """Steps of a file in order; the same step twice in a row is one."""
    places = LineIndex(script.text)
    steps: list[ScriptStep] = []
    for step, offset in sorted({step for part in script.file.parts for step in part.steps}, key=lambda step: step[1]):
        container = facts.steps.get(_CONTAINERS.get(step, ""))
        if not steps or steps[-1].step != step:
            vllm = container.vllm if container is not None else None
            steps.append(ScriptStep(name, step, places(offset).line, vllm))
    return steps
