"""What the views of hosts and nodes share: findings, tables and snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.display import to_json, visible
from vllm_runbooks.core.record_forms import document
from vllm_runbooks.core.views import elements
from vllm_runbooks.core.views.styled import GROUNDS, SEVERITIES, Prose, Table, TextBlock, Tone, Words, bulleted, styled


def snapshot_json(snapshot: Any, kind: Any) -> str:
    """The fields of a snapshot's base class alone, as they are kept in a file."""
    base = {name: value for name, value in document(snapshot).items() if name in kind.__dataclass_fields__}
    return to_json(base) + "\n"


def faint_table(head: Sequence[str], rows: Sequence[Sequence[Words]]) -> Table:
    """A table with a faint head."""
    return Table([styled(name, Tone.FAINT) for name in head], rows)


def listed_numbers(numbers: Sequence[int]) -> str:
    """Numbers of GPUs, three and more in a row by the first and the last."""
    runs: list[list[int]] = []
    for number in numbers:
        if not runs or number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def finding_blocks(findings: Iterable[RuleFinding]) -> list[TextBlock]:
    """Findings, for a terminal."""
    blocks: list[TextBlock] = []
    for finding in findings:
        severity = styled(finding.severity.value, SEVERITIES[finding.severity])
        gpus = f"GPU {listed_numbers(finding.gpus)}: " if finding.gpus else ""
        blocks.append(bulleted(severity + styled(f" {finding.id}", Tone.FAINT) + f": {gpus}{visible(finding.text)}"))
        for word, text in (("so:", finding.effect), ("do:", finding.do)):
            if text:
                blocks.append(Prose(styled(word, Tone.HEADING) + f" {visible(text)}", "    "))
    return blocks


def findings_table(findings: Iterable[tuple[RuleFinding, str]], head: str) -> str:
    """Findings with where they are, as a table of a notebook."""
    rows = []
    for finding, where in findings:
        effect = f"<br><b>so</b> {elements.prose(finding.effect)}" if finding.effect else ""
        cell = elements.tag("code", escape(finding.id)) + escape(f" · {where}" if where else "")
        cell += f"<br>{escape(visible(finding.text))}{effect}<br><b>do</b> {elements.prose(finding.do)}"
        rows.append([elements.badge(finding.severity.value, GROUNDS[SEVERITIES[finding.severity]]), cell])
    return elements.html_table(("", head), rows)
