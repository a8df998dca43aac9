"""Shared views of hosts and nodes: findings, tables and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.display import to_json, visible
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.records import Severity
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.styled import GROUNDS, SEVERITIES, Prose, Table, TextBlock, Tone, Words, bulleted, styled
from vllm_runbooks.core.views.summary import Statement, Step, count_of, first_clauses, rest_step, sentence_of

_MOST_STATEMENTS, _MOST_EXPLAINED = 3, 2
_MOST_TEXT, _MOST_EFFECT, _MOST_OF_SEVERAL = 300, 220, 72
"""Characters of a finding, of its effect if it is alone in a summary, and of its effect next to
others."""


def snapshot_json(snapshot: Any, kind: Any) -> str:
    """Fields of a snapshot's base class, for a file."""
    base = {name: value for name, value in document(snapshot).items() if name in kind.__dataclass_fields__}
    return to_json(base) + "\n"


def faint_table(head: Sequence[str], rows: Sequence[Sequence[Words]]) -> Table:
    """A table with a faint head."""
    return Table([styled(name, Tone.FAINT) for name in head], rows)


def named_gpus(numbers: Sequence[int]) -> str:
    """GPUs by number, as in "GPU 3" or "GPUs 1, 3-7": three and more in a row by the first and the last."""
    runs: list[list[int]] = []
    for number in numbers:
        if not runs or number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    listed = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"GPU{'s' if len(numbers) > 1 else ''} {listed}"


def finding_blocks(findings: Iterable[RuleFinding]) -> list[TextBlock]:
    """Findings, for a terminal."""
    blocks: list[TextBlock] = []
    for finding in findings:
        severity = styled(finding.severity.value, SEVERITIES[finding.severity])
        gpus = f"{named_gpus(finding.gpus)}: " if finding.gpus else ""
        blocks.append(
            bulleted(
                severity + styled(f" {finding.id}", Tone.FAINT) + f": {visible(sentence_of(f'{gpus}{finding.text}'))}"
            )
        )
        for word, text in (("Effect:", finding.effect), ("Fix:", finding.do)):
            if text:
                blocks.append(Prose(styled(word, Tone.HEADING) + f" {visible(sentence_of(text))}", "    "))
    return blocks


def findings_table(findings: Iterable[tuple[RuleFinding, str]], head: str) -> str:
    """Findings with their locations, as a table for a notebook."""
    rows = []
    for finding, where in findings:
        effect = f"<br><b>Effect:</b> {elements.prose(finding.effect)}" if finding.effect else ""
        cell = elements.tag("code", escape(finding.id)) + escape(f" · {where}" if where else "")
        cell += f"<br>{escape(visible(finding.text))}{effect}<br><b>Fix:</b> {elements.prose(finding.do)}"
        rows.append([elements.badge(finding.severity.value, GROUNDS[SEVERITIES[finding.severity]]), cell])
    return elements.html_table(("", head), rows)


def problems(findings: Iterable[RuleFinding]) -> list[RuleFinding]:
    """Findings that are more than hints, the worst first."""
    return sorted(
        (f for f in findings if f.severity is not Severity.HINT), key=lambda f: f.severity is not Severity.FATAL
    )


def problem_state(findings: Sequence[RuleFinding]) -> tuple[str, Tone]:
    """State of a summary by its problems."""
    tone = Tone.BAD if any(finding.severity is Severity.FATAL for finding in findings) else Tone.WARN
    return (count_of(len(findings), "problem").upper(), tone) if findings else ("OK", Tone.GOOD)


def finding_statements(findings: Sequence[RuleFinding]) -> tuple[Statement, ...]:
    """The worst findings: a fact each, with the first one's effect and action; no action twice."""
    statements: list[Statement] = []
    for number, finding in enumerate(findings[:_MOST_STATEMENTS]):
        is_fatal = finding.severity is Severity.FATAL
        where = f"{named_gpus(finding.gpus)}: " if finding.gpus else f"{finding.path}: " if finding.path else ""
        is_explained = number < _MOST_EXPLAINED
        most = _MOST_EFFECT if len(findings) == 1 else _MOST_OF_SEVERAL
        effect = first_clauses(finding.effect, most) if is_explained else ""
        action = as_sentence(finding.do) if is_explained else ""
        statements.append(
            Statement(
                "✗" if is_fatal else "!",
                where + (flat(finding.text) if where else as_sentence(finding.text, names=finding.nodes, end="")),
                Tone.BAD if is_fatal else Tone.WARN,
                id=finding.id,
                effect=as_sentence(effect) if number == 0 or len(effect) <= most else "",
                action="" if any(statement.action == action for statement in statements) else action,
            )
        )
    return tuple(statements)


def more_of(findings: Sequence[RuleFinding], others: Sequence[str], again: str) -> Step | None:
    """Reference to the parts that a summary omits; None without a command that shows them."""
    omitted = len(problems(findings)) - _MOST_STATEMENTS
    hints = sum(finding.severity is Severity.HINT for finding in findings)
    parts = [f"{count_of(omitted, 'more problem')}"] if omitted > 0 else []
    parts += [count_of(hints, "hint")] if hints else []
    return rest_step([*parts, *others], again)


def flat(text: str) -> str:
    """A text of a finding in one line, cut to a summary's length."""
    return elements.cut(" ".join(text.split()), _MOST_TEXT)


def as_sentence(text: str, *, names: Sequence[str] = (), end: str = ".") -> str:
    """A text with a capital and a full stop; a name or a value at its beginning stays."""
    return sentence_of(flat(text), names=names, end=end)
