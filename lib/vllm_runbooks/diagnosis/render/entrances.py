"""What people see, and where it leads: for the runbook that one starts with."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views.elements import BLUE, badge, html_table, prose, tag, wrap

_MAX_LINES = 2
"""Printed lines that are shown of each."""


def every(entrances: Sequence[Entrance]) -> Shown:
    """All of them: what is seen, what may be behind it, and what goes through it."""
    rows = [[_seen(each), _leads(each)] for each in entrances]
    plain = "\n\n".join("\n".join([each.sees, wrap(each.says), *_commands(each)]) for each in entrances)
    return Shown(plain, html_table(("what do you see?", "what goes through it"), rows, widest="none"))


def leading(entrances: Sequence[Entrance], answer: Answer) -> Shown:
    """Those that a log's own answer leads to, the most particular first."""
    cause = answer.root_cause
    found = [each for each in entrances if cause and each.leads_to(cause.symptom)]
    found.sort(
        key=lambda each: -max(len(name) for name in each.symptoms if cause and f"{cause.symptom}.".startswith(name))
    )
    if not found:
        said = "No runbook goes through this; the ways out below are what there is." if cause else "Nothing is wrong."
        said = said if cause or answer.outcome.is_healthy else "No cause is known; give the log up to its end."
        return Shown(said, tag("p", escape(said)))
    first = found[0]
    runbook = f" · runbook {first.runbook}" if first.runbook else ""
    lines = [f"{first.sees}{runbook}", wrap(first.says), *_commands(first)]
    html = tag("p", f"{badge('this is', BLUE)} {_seen(first)}", "max-width:80ch") + tag("div", _leads(first))
    return Shown("\n".join(lines), html)


def _seen(each: Entrance) -> str:
    lines = "".join(
        tag(
            "div",
            tag("code", escape(line), "white-space:pre-wrap;overflow-wrap:anywhere"),
            "font-size:12px;opacity:.85",
        )
        for line in each.lines[:_MAX_LINES]
    )
    return f"<b>{escape(each.sees)}</b><br>{prose(each.says)}{lines}"


def _leads(each: Entrance) -> str:
    runbook = tag("div", f"runbook <code>{escape(each.runbook)}</code>") if each.runbook else ""
    return runbook + "".join(tag("div", tag("code", escape(said))) for said in each.commands)


def _commands(each: Entrance) -> list[str]:
    runbook = [f"  runbook {each.runbook}"] if each.runbook else []
    return [*runbook, *(f"  {command}" for command in each.commands)]
