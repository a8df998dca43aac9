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
    problems = _problems(linted)
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
    statements = tuple(_statement(problem, say) for problem in _gravest(linted))
    return Summary(state, tone, about, sentence, statements, _fix(linted) if problems else None)


def _problems(linted: Linted) -> list[Issue]:
    """Errors, then warnings."""
    return sorted(issues.wrong(linted.issues), key=lambda issue: issue.severity is not IssueSeverity.ERROR)


def _gravest(linted: Linted) -> list[Issue]:
    """The problems that a summary shows."""
    return _problems(linted)[:_MOST_STATEMENTS]


def summary(linted: Linted, name: str) -> RenderedView:
    """The summary as a card."""
    return rendered(summarize(linted, name))


def page_summary(linted: Linted, name: str, pages: str, rest: Linted | None = None, given: str = "") -> RenderedView:
    """The summary as a card above the other issues and the corrected text.

    Args:
        linted: The result.
        name: The text, as it is to be named.
        pages: Folder of the rules' pages.
        rest: The result for the corrected text; None if nothing was corrected.
        given: The text before the correction, as it may be shown.
    """
    say, record = Wording(linted.lang), summarize(linted, name)
    worst = min((issue.severity for issue in linted.issues), key=list(IssueSeverity).index, default=None)
    sentence = say(_EFFECTS[worst]) if worst in _EFFECTS else record.sentence
    statements = tuple(_page_statement(issue, say, pages) for issue in _gravest(linted))
    fix = None
    if rest is not None:
        count = issues.fixed_text(linted.issues, rest.issues, linted.lang)
        is_short = is_in_card(linted)
        command = linted.fixed or ""
        fix = SuggestedFix(command, count, given=given) if is_short else SuggestedFix(count, is_command=False)
        known = {issue.message for issue in linted.issues}
        further = " ".join(issues.sentences(issue)[0] for issue in _problems(rest) if issue.message not in known)
        fix = replace(fix, note=say("The fix uncovers: {problems}", problems=further) if further else "")
    card = replace(record, sentence=sentence, statements=statements, fix=fix, fix_name=say("Fix"))
    view = rendered(card, say.__call__)
    return view if linted.lang is None else replace(view, html=f"<div{issues.language(linted.lang)}>{view.html}</div>")


def is_in_card(linted: Linted) -> bool:
    """Whether the corrected text is short enough for the card of a page."""
    return linted.fixed is not None and len(linted.fixed.strip("\n").splitlines()) <= _MOST_LINES


def beyond_card(linted: Linted) -> tuple[Issue, ...]:
    """The issues that the card of a page does not show."""
    shown = _gravest(linted)
    return tuple(issue for issue in linted.issues if not any(issue is other for other in shown))


_MOST_LINES = 12


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


def _page_statement(issue: Issue, say: Wording, pages: str) -> Statement:
    """The statement with its rule's page and its subject in the quote; "did you mean" is next to the corrected text."""
    statement, source = _statement(issue, say), issue.source
    span = None
    if source is not None:
        indent = len(source.text) - len(source.text.lstrip())
        span = (source.start - indent, source.end - indent)
    notes = issues.sentences(issue)[1:]
    if issue.fix is not None:
        notes = [note for note in notes if note not in issue.restated]
    return replace(statement, page=f"{pages}{issue.rule}.html", span=span, effect=" ".join(notes))


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
