"""Show checked scripts in a terminal, and merge them into one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vllm_runbooks.catalog.languages import Wording
from vllm_runbooks.core.display import one_line
from vllm_runbooks.core.views.styled import SentenceLines, TextBlock, Tone, styled
from vllm_runbooks.edge10.scripts.records import LintedScripts
from vllm_runbooks.lint import render as issues

UNKNOWN = "no toolchain step recognized"


def merged(checked: Mapping[str, LintedScripts]) -> LintedScripts:
    """Results of all files as one record, each issue with its file."""
    first = next(iter(checked.values()))
    return replace(
        first,
        issues=tuple(replace(issue, file=name) for name, linted in checked.items() for issue in linted.issues),
        deployments=tuple(start for linted in checked.values() for start in linted.deployments),
        fixed=first.fixed if len(checked) == 1 else None,
        steps=tuple(step for linted in checked.values() for step in linted.steps),
    )


def shown(checked: Mapping[str, LintedScripts], named: Callable[[str], str]) -> dict[str, LintedScripts]:
    names = {name: named(name) for name in checked}
    return {
        names[name]: replace(
            linted,
            issues=tuple(replace(issue, message=_renamed(issue.message, names)) for issue in linted.issues),
            steps=tuple(replace(step, file=names.get(step.file, step.file)) for step in linted.steps),
        )
        for name, linted in checked.items()
    }


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name, new in names.items():
        if name != new:
            text = text.replace(name, new)
    return text


def unknown(checked: Mapping[str, LintedScripts]) -> list[str]:
    """Files in which no step of the toolchain is recognised."""
    return [name for name, linted in checked.items() if not linted.steps]


def view(checked: Mapping[str, LintedScripts]) -> list[TextBlock]:
    """Show issues as paragraphs, then the actions of each file, and the count."""
    blocks: list[TextBlock] = []
    whole = merged(checked)
    say = Wording(whole.lang)
    for name, linted in checked.items():
        blocks += issues.paragraphs(linted, name)
    for name, linted in checked.items():
        does = say(", ").join(say(step) for step in dict.fromkeys(step.step for step in linted.steps))
        words = styled(does or say(UNKNOWN), Tone.HEADING if does else Tone.WARN)
        blocks.append(SentenceLines(styled(f"{one_line(name)}: ", Tone.FAINT) + words))
    nothing = (
        styled(say("No problems found"), Tone.GOOD) if whole.steps else styled(say("Nothing was checked"), Tone.WARN)
    )
    verdict = issues.issue_total(whole.issues, whole.lang) if whole.issues else nothing
    by = say(
        "{toolchain}; servers and evaluations against vLLM {version}",
        toolchain=whole.toolchain,
        version=whole.vllm.version,
    )
    return [*blocks, SentenceLines(verdict + styled(say(", checked against {release}.", release=by), Tone.FAINT))]
