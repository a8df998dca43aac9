"""Scripts of a toolchain's steps judged before they cost hours: read, followed, and never executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Excerpt, Places
from vllm_runbooks.edge10.scripts import host_rules, program_rules, readings
from vllm_runbooks.edge10.scripts.judged import JudgedFile, JudgedFiles
from vllm_runbooks.edge10.scripts.readings import COMPILE
from vllm_runbooks.edge10.scripts.records import LintedScripts, ScriptStep
from vllm_runbooks.lint.linting import Asked, Knowledge
from vllm_runbooks.lint.mending import mended_by
from vllm_runbooks.lint.records import CommandRelease
from vllm_runbooks.lint.secrecy import Secrets
from vllm_runbooks.lint.told import issues, launches

_STEPS = {
    "quantise": "quantise", "convert": "convert", "serve": "evaluate", "evaluate": "evaluate",
    **dict.fromkeys(COMPILE, "compile"),
}  # fmt: skip
"""By what a script does, the step of the toolchain whose container it runs in."""


def lint(
    texts: Mapping[str, str], knowledge: Knowledge, facts: Toolchain, asked: Mapping[str, Asked], *, fix: bool = False
) -> dict[str, LintedScripts]:
    """Judge files that belong together: what one says counts for the others.

    Args:
        texts: By name; a script, program, settings, notebook or page.
        knowledge: The rules, GPUs and models.
        facts: Of the toolchain.
        asked: By name what is asked of the ordinary linter.
        fix: Whether each text is given with every fix made as well.

    Raises:
        InputError: a release or a GPU is not known.
    """
    judged = JudgedFiles(texts, knowledge, facts, asked)
    return {name: _told(name, one, fix=fix) for name, one in judged.files.items()}


@dataclass(frozen=True)
class Apart:
    """The programs of a text that run in the compile container."""

    programs: tuple[Excerpt, ...]
    says: Mapping[str, str]

    def holds(self, offset: int) -> bool:
        """Whether a place is within one of them."""
        return any(readings.holds(program, offset) for program in self.programs)


def apart(text: str, name: str, knowledge: Knowledge, facts: Toolchain) -> Apart | None:
    """The programs of a text that run in the compile container, whose vLLM is another one; None: there are none."""
    modules = facts.steps["compile"].modules
    if not any(module in text for module in modules):
        return None
    found = readings.compiled(text, name, facts, program_rules.dotted(knowledge.tables))
    return Apart(tuple(found), {"toolchain": facts.id}) if found else None


def mended(
    texts: Mapping[str, str], name: str, knowledge: Knowledge, facts: Toolchain, asked: Mapping[str, Asked]
) -> str:
    """One of the texts with every fix made. Secrets are left as they are: show it to nobody.

    Raises:
        InputError: as `lint`.
    """
    return _mended(JudgedFiles(texts, knowledge, facts, asked).files[name]).text


def _mended(one: JudgedFile) -> JudgedFile:
    beside, name = one.beside, one.file.name
    return mended_by(one, lambda text: beside.again(name, text).files[name])


def _told(name: str, one: JudgedFile, *, fix: bool) -> LintedScripts:
    changed = _mended(one) if fix else one
    own, judged = one.file, one.file.judged
    further = changed.file.judged.readings if fix else ()
    given = [*host_rules.secrets(own)]
    secrets = Secrets(*judged.readings, *further, more=given)
    starts = [launch for start, launch in zip(judged.parsed, launches(judged, secrets), strict=True)
              if not own.is_compiled(start[0].start)]  # fmt: skip
    facts = one.beside.facts
    return LintedScripts(
        CommandRelease(judged.release.version, "toolchain", judged.release.data),
        tuple(issues(one, secrets)),
        tuple(starts),
        secrets.hidden(changed.text) if fix else None,
        one.knowledge.lang,
        steps=tuple(_steps(name, one, facts)),
        toolchain=facts.id,
    )


def _steps(name: str, one: JudgedFile, facts: Toolchain) -> list[ScriptStep]:
    """What a file does, in order."""
    places = Places(one.text)
    found = {}
    for part in one.file.parts:
        for step, offset in part.steps:
            of = facts.steps.get(_STEPS.get(step, ""))
            found[step, offset] = ScriptStep(name, step, places(offset).line, of.vllm if of is not None else None)
    ordered = sorted(found.items(), key=lambda each: each[0][1])
    kept: list[ScriptStep] = []
    for _, each in ordered:
        if not kept or kept[-1].step != each.step:
            kept.append(each)
    return kept
