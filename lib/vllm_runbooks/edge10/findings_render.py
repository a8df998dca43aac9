"""Show findings about a host or a folder, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.display import one_line, visible
from vllm_runbooks.core.views.elements import badge, cut, html_table, prose, tag
from vllm_runbooks.core.views.styled import GROUNDS, SEVERITIES, Prose, TextBlock, Tone, bulleted, styled
from vllm_runbooks.core.views.summary import sentence_of

_MAX_PATH, _MAX_TEXT = 160, 600


def path(name: str) -> str:
    """Path of a file in one line."""
    return one_line(cut(name, _MAX_PATH))


def blocks(finding: RuleFinding) -> list[TextBlock]:
    """A finding with its effect and action, for a terminal."""
    severity = styled(finding.severity.value, SEVERITIES[finding.severity])
    where = f" {path(finding.path)}" if finding.path is not None else ""
    text = one_line(cut(finding.text, _MAX_TEXT))
    return [
        bulleted(severity + styled(f" {finding.id}", Tone.FAINT) + f":{where} {text if where else sentence_of(text)}"),
        Prose(styled("Effect:", Tone.HEADING) + f" {sentence_of(finding.effect)}", "    "),
        Prose(styled("Fix:", Tone.HEADING) + f" {sentence_of(one_line(finding.do))}", "    "),
    ]


def table(findings: Sequence[RuleFinding]) -> str:
    """HTML table of findings with effects and actions; empty if there are none."""
    return html_table(("", "finding, effect and fix"), list(map(_row, findings))) if findings else ""


def _row(finding: RuleFinding) -> list[str]:
    where = escape(f" · {visible(cut(finding.path, _MAX_PATH))}") if finding.path else ""
    text = escape(visible(cut(finding.text, _MAX_TEXT)))
    return [
        badge(finding.severity.value, GROUNDS[SEVERITIES[finding.severity]]),
        tag("code", escape(finding.id)) + f"{where}<br>{text}<br><b>Effect:</b> {prose(visible(finding.effect))}"
        f"<br><b>Fix:</b> {prose(visible(finding.do))}",
    ]
