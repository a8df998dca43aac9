"""Findings about a host or a folder of a toolchain for edge chips, for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.display import visible
from vllm_runbooks.render.elements import badge, cut, html_table, prose, tag
from vllm_runbooks.render.styled import GROUNDS, SEVERITIES
from vllm_runbooks.toolchain_records import ToolchainFinding

_MAX_PATH, _MAX_TEXT = 160, 600


def table(found: Sequence[ToolchainFinding]) -> str:
    """HTML: each finding with how it would look, and what to do; empty where there is none."""
    return html_table(("", "what it means, how it would look, and what to do"), list(map(_row, found))) if found else ""


def _row(found: ToolchainFinding) -> list[str]:
    path = escape(f" · {visible(cut(found.path, _MAX_PATH))}") if found.path else ""
    said = escape(visible(cut(found.text, _MAX_TEXT)))
    return [
        badge(found.severity.value, GROUNDS[SEVERITIES[found.severity]]),
        tag("code", escape(found.id)) + f"{path}<br>{said}<br><b>so</b> {prose(visible(found.effect))}"
        f"<br><b>do</b> {prose(visible(found.do))}",
    ]
