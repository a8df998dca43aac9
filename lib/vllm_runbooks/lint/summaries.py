"""The summary of a checked text: its problems in their places, and the corrected text."""

from __future__ import annotations

from collections import Counter

from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views.styled import Tone
from vllm_runbooks.core.views.summary import Statement, SuggestedFix, Summary, count_of
from vllm_runbooks.core.views.summary_html import rendered
from vllm_runbooks.lint import render as issues
from vllm_runbooks.lint.records import Issue, Linted

_MOST_STATEMENTS = 3
_MARKS = {IssueSeverity.ERROR: ("✗", Tone.BAD), IssueSeverity.WARNING: ("!", Tone.WARN)}


def summarize(linted: Linted, name: str) -> Summary:
    """Summarize a checked text: the gravest problems first; remarks are only counted.

    Args:
        linted: The result.
        name: The text, as it is to be named.
    """
    counts = Counter(issue.severity for issue in linted.issues)
    problems = sorted(issues.wrong(linted.issues), key=lambda issue: issue.severity is not IssueSeverity.ERROR)
    launches = count_of(len(linted.deployments), "launch")
    state = _state(linted, counts)
    named = {IssueSeverity.INFO} if state[1] is not Tone.BAD else {IssueSeverity.WARNING, IssueSeverity.INFO}
    others = [
        count_of(counts[severity], severity.value) for severity in IssueSeverity if severity in named & set(counts)
    ]
    if not problems:
        models = ", ".join(dict.fromkeys(launch.model or "an unknown model" for launch in linted.deployments))
        sentence = (
            f"{launches} of {models}: no problems found." if models else "It launches no vLLM: nothing was checked."
        )
        return Summary(*state, (name, issues.release(linted), *others), sentence)
    return Summary(
        *state,
        (name, issues.release(linted), launches, *others),
        statements=tuple(map(_statement, problems[:_MOST_STATEMENTS])),
        fix=_fix(linted),
    )


def summary(linted: Linted, name: str) -> RenderedView:
    """The summary in a card."""
    return rendered(summarize(linted, name))


def _state(linted: Linted, counts: Counter[IssueSeverity]) -> tuple[str, Tone]:
    for severity, (_, tone) in _MARKS.items():
        if counts[severity]:
            return count_of(counts[severity], severity.value).upper(), tone
    return ("NO PROBLEMS", Tone.GOOD) if linted.deployments else ("NO LAUNCH", Tone.WARN)


def _statement(issue: Issue) -> Statement:
    sign, tone = _MARKS[issue.severity]
    first, *notes = issues.sentences(issue)
    return Statement(
        sign,
        first,
        tone,
        id=issue.rule,
        place=f"line {issue.line}:{issue.column}",
        quote=issue.source.text.strip() if issue.source is not None else issue.text,
        effect=" ".join(notes),
    )


def _fix(linted: Linted) -> SuggestedFix:
    """The corrected text; without one, that the problems are the user's to decide."""
    rest = [issue for issue in issues.wrong(linted.issues) if issue.fix is None]
    lines = ", ".join(map(str, dict.fromkeys(issue.line for issue in rest)))
    decide = f"Decide on {count_of(len(rest), 'problem')} yourself (line {lines})." if rest else ""
    fixed = sum(issue.fix is not None for issue in linted.issues)
    if not fixed:
        return SuggestedFix(decide, is_command=False)
    change = f"The corrected text fixes {fixed} of {count_of(len(linted.issues), 'issue')}."
    return SuggestedFix(change, decide, is_command=False, command=linted.fixed or "")
