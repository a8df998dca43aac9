"""The frame of the report's pages: safe text, one style, one script, no request."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html import escape
from pathlib import Path

from vllm_runbooks.runbooks.verdict_fields import CheckState

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

CHECK_STYLES = {
    CheckState.NOT_AS_EXPECTED: "fail",
    CheckState.PROBLEM_FOUND: "fail",
    CheckState.ERROR: "error",
    CheckState.INTERRUPTED: "interrupted",
    CheckState.SKIPPED: "skipped",
    CheckState.AS_EXPECTED: "pass",
    CheckState.RUNS_WITH_INCIDENTS: "pass",
    CheckState.NO_PROBLEM_FOUND: "pass",
}
"""Style of a check in `report.css`: its colour is its severity."""


def printable(text: object) -> str:
    """Text without color codes and control characters."""
    return _CONTROL.sub("", _ANSI.sub("", str(text)))


def safe(text: object) -> str:
    """Text escaped for HTML."""
    return escape(printable(text))


def check_badge(check: CheckState) -> str:
    return f'<span class="badge {CHECK_STYLES[check]}">{safe(check)}</span>'


def page(title: str, body: str) -> str:
    """A whole page. Its policy allows this script alone, and no request: even if something got through the escaping."""
    script = _part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{safe(title)}</title><style>{_part('report.css')}</style></head>"
        f"<body>{body}<script>{script}</script></body></html>\n"
    )


@cache
def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8").strip()
