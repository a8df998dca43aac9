"""Check scripts of a toolchain's steps: they are read, and never executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Excerpt, LineIndex
from vllm_runbooks.edge10.scripts import program_rules, readings, secret_rules
from vllm_runbooks.edge10.scripts.findings import CheckedScript, CheckedScripts
from vllm_runbooks.edge10.scripts.readings import COMPILE
from vllm_runbooks.edge10.scripts.records import LintedScripts, ScriptStep
from vllm_runbooks.lint.linting import Knowledge, LintRequest
from vllm_runbooks.lint.mending import mended_by
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues, launches

_CONTAINERS = {
    "quantise": "quantise", "convert": "convert", "serve": "evaluate", "evaluate": "evaluate",
    **dict.fromkeys(COMPILE, "compile"),
}  # fmt: skip
"""Step of the toolchain whose container a script runs in, by what it does."""


def lint(
    texts: Mapping[str, str],
    knowledge: Knowledge,
    facts: Toolchain,
    requests: Mapping[str, LintRequest],
    *,
    fix: bool = False,
) -> dict[str, LintedScripts]:
    """Check files that belong together.

    Args:
        texts: Scripts, programs, settings, notebooks or pages, by name.
        knowledge: Rules, GPUs and models.
        facts: Facts of the toolchain.
        requests: What the ordinary linter is asked, by name.
        fix: Whether to return each text with every fix applied.

    Raises:
        InputError: a release or a GPU is unknown.
    """
    group = CheckedScripts(texts, knowledge, facts, requests)
    return {name: _linted(name, script, fix=fix) for name, script in group.files.items()}


@dataclass(frozen=True)
class CompilePrograms:
    """Programs of a text that run in the compile container."""

    programs: tuple[Excerpt, ...]
    says: Mapping[str, str]

    def holds(self, offset: int) -> bool:
        """Whether an offset is within one of them."""
        return any(readings.contains_offset(program, offset) for program in self.programs)


def apart(text: str, name: str, knowledge: Knowledge, facts: Toolchain) -> CompilePrograms | None:
    """Programs of a text that run in the compile container, whose vLLM is another release; None if there are none."""
    if not any(module in text for module in facts.steps["compile"].modules):
        return None
    programs = readings.find_compile_programs(text, name, facts, program_rules.known_imports(knowledge.tables))
    return CompilePrograms(tuple(programs), {"toolchain": facts.id}) if programs else None


def mended(
    texts: Mapping[str, str], name: str, knowledge: Knowledge, facts: Toolchain, requests: Mapping[str, LintRequest]
) -> str:
    """One of the texts with every fix applied; its secrets stay, so print it nowhere.

    Raises:
        InputError: as `lint`.
    """
    return _fixed(CheckedScripts(texts, knowledge, facts, requests).files[name]).text


def _fixed(script: CheckedScript) -> CheckedScript:
    group, name = script.group, script.file.name
    return mended_by(script, lambda text: group.with_text(name, text).files[name])


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
