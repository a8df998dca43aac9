"""The summary of a checked text: its problems in their places, and the corrected text."""

from __future__ import annotations

from dataclasses import replace

from vllm_runbooks.catalog.languages import Wording
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
    say = Wording(linted.lang)
    problems = sorted(issues.wrong(linted.issues), key=lambda issue: issue.severity is not IssueSeverity.ERROR)
    tone = Tone.GOOD if linted.deployments else Tone.WARN
    state, sentence, gravest = say("NO PROBLEMS"), "", list[Issue]()
    if problems:
        tone = _MARKS[problems[0].severity][1]
        gravest = [issue for issue in problems if issue.severity is problems[0].severity]
        state = issues.counted(gravest, linted.lang).upper()
    elif not linted.deployments:
        state, sentence = say("NO LAUNCH"), say("No vLLM launch found; nothing was checked.")
    else:
        sentence = f"{say('No problems found')}{say('.')}"
    rest = [issue for issue in linted.issues if issue not in gravest]
    count = len(linted.deployments)
    launches = say("{count} launch" if count == 1 else "{count} launches", count=count)
    others = [issues.counted(rest, linted.lang)] if rest else []
    about = (name, issues.release(linted), *([launches] if count else []), *others)
    statements = tuple(_statement(problem, say) for problem in problems[:_MOST_STATEMENTS])
    return Summary(state, tone, about, sentence, statements, _fix(linted) if problems else None)


def summary(linted: Linted, name: str) -> RenderedView:
    """The summary as a card."""
    return rendered(summarize(linted, name))


def page_summary(linted: Linted, name: str, pages: str) -> RenderedView:
    """The summary as a card above the findings and the corrected text; `pages` is the folder of the rules' pages."""
    say, record = Wording(linted.lang), summarize(linted, name)
    worst = min((issue.severity for issue in linted.issues), key=list(IssueSeverity).index, default=None)
    sentence = say(_EFFECTS[worst]) if worst in _EFFECTS else record.sentence
    statements = tuple(replace(statement, page=f"{pages}{statement.id}.html") for statement in record.statements)
    return rendered(replace(record, sentence=sentence, statements=statements, fix=None), say.__call__)


_EFFECTS = {
    IssueSeverity.ERROR: "As written, the launch fails or does something else.",
    IssueSeverity.WARNING: "It launches, but something is incorrect, unsafe or wasteful.",
}


def _statement(issue: Issue, say: Wording) -> Statement:
    sign, tone = _MARKS[issue.severity]
    first, *notes = issues.sentences(issue)
    return Statement(
        sign,
        first,
        tone,
        id=issue.rule,
        place=say("line {number}", number=issues.location(issue)),
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
