"""Steps of the runbook on a command: problems, the corrected text, the move to another release."""

from __future__ import annotations

from dataclasses import replace

from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.views.runbook_steps import StepText
from vllm_runbooks.core.views.summary import count_of
from vllm_runbooks.lint import render as issues
from vllm_runbooks.lint.records import Issue, Linted, Migrated

_MOST_ISSUES = 8


def problems(linted: Linted) -> list[StepText]:
    """The errors with their locations and actions; without errors the warnings."""
    errors = [issue for issue in linted.issues if issue.severity is IssueSeverity.ERROR]
    listed = errors or issues.wrong(linted.issues)
    texts = [_text(issue) for issue in listed[:_MOST_ISSUES]]
    rest = [issue for issue in linted.issues if issue not in listed[:_MOST_ISSUES]]
    return [
        *texts,
        *([StepText(f"The table of all issues has {issues.counted(rest)} more.")] if rest and texts else []),
    ]


def _text(issue: Issue) -> StepText:
    first, *notes = issues.sentences(issue)
    do = "The corrected text fixes it." if issue.fix is not None else "No fix is safe: change it yourself."
    return StepText(f"Line {issue.line}:{issue.column}: {first}", " ".join(notes), do)


def correction(linted: Linted) -> list[StepText]:
    """Number of issues that the corrected text fixes, with the text; then the remaining warnings."""
    fixed = sum(issue.fix is not None for issue in linted.issues)
    rest = [issue for issue in issues.wrong(linted.issues) if issue.fix is None]
    has_errors = any(issue.severity is IssueSeverity.ERROR for issue in linted.issues)
    warnings = [issue for issue in rest if issue.severity is IssueSeverity.WARNING] if has_errors else []
    texts = [replace(_text(warning), do="") for warning in warnings[:_MOST_ISSUES]]
    if not fixed:
        return texts
    decide = f"{count_of(len(rest), 'problem')} remain: they need a value or a decision from you." if rest else ""
    fact = f"{fixed} of {count_of(len(linted.issues), 'issue')} are fixed in this text; comments and order are kept."
    return [StepText(fact, decide, command=(linted.fixed or "").rstrip("\n")), *texts]


def migration(moved: Migrated) -> StepText:
    """Options that another release rejects, and defaults that it changed."""
    count = len(moved.changed_defaults)
    counts = issues.counted(moved.issues) if moved.issues else "no problems"
    fact = f"For {issues.release(moved)}: {counts}; {count_of(count, 'default')} changed."
    explicit = sum(change.explicit for change in moved.changed_defaults)
    so = f"The rewritten text sets {explicit} of them to the old default to keep the behavior." if explicit else ""
    return StepText(fact, so)
