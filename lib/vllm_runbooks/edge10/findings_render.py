"""Findings about a host or a folder of a toolchain for edge chips, for a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.tables import RuleFinding
from vllm_runbooks.core.display import visible
from vllm_runbooks.core.views.elements import badge, cut, html_table, prose, tag
from vllm_runbooks.core.views.styled import GROUNDS, SEVERITIES, Block, Prose, Tone, bulleted, styled

_MAX_PATH, _MAX_TEXT = 160, 600


def one_line(text: str) -> str:
    """A text whose line ends are signs: a name may have some."""
    return text.replace("\n", "\\n")


def path(name: str) -> str:
    """A file's path, in one line."""
    return visible(cut(one_line(name), _MAX_PATH))


def blocks(found: RuleFinding) -> list[Block]:
    """A finding with how it would look, and what to do, for a terminal."""
    severity = styled(found.severity.value, SEVERITIES[found.severity])
    where = f" {path(found.path)}" if found.path is not None else ""
    said = visible(cut(one_line(found.text), _MAX_TEXT))
    return [
        bulleted(severity + styled(f" {found.id}", Tone.FAINT) + f":{where} {said}"),
        Prose(styled("so:", Tone.HEADING) + f" {found.effect}", "    "),
        Prose(styled("do:", Tone.HEADING) + f" {visible(one_line(found.do))}", "    "),
    ]


def table(found: Sequence[RuleFinding]) -> str:
    """HTML: each finding with how it would look, and what to do; empty where there is none."""
    return html_table(("", "what it means, how it would look, and what to do"), list(map(_row, found))) if found else ""


def _row(found: RuleFinding) -> list[str]:
    where = escape(f" · {visible(cut(found.path, _MAX_PATH))}") if found.path else ""
    said = escape(visible(cut(found.text, _MAX_TEXT)))
    return [
        badge(found.severity.value, GROUNDS[SEVERITIES[found.severity]]),
        tag("code", escape(found.id)) + f"{where}<br>{said}<br><b>so</b> {prose(visible(found.effect))}"
        f"<br><b>do</b> {prose(visible(found.do))}",
    ]
