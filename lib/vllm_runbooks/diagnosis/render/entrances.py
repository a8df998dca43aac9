"""Observations and where they lead: for the runbook to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views.elements import BLUE, badge, html_table, prose, tag, wrap

_MAX_LINES = 2
"""Most printed lines of each entrance."""


def every(entrances: Sequence[Entrance]) -> RenderedView:
    """All entrances: the observation, possible causes, and the runbook or commands for it."""
    rows = [[_seen(entrance), _leads(entrance)] for entrance in entrances]
    plain = "\n\n".join("\n".join([entrance.sees, wrap(entrance.says), *_commands(entrance)]) for entrance in entrances)
    return RenderedView(plain, html_table(("what do you see?", "what goes through it"), rows, widest="none"))


def leading(entrances: Sequence[Entrance], answer: Answer) -> RenderedView:
    """The entrances for an answer, the most specific first."""
    cause = answer.root_cause
    matching = [entrance for entrance in entrances if cause and entrance.leads_to(cause.symptom)]
    matching.sort(
        key=lambda entrance: (
            -max(len(name) for name in entrance.symptoms if cause and f"{cause.symptom}.".startswith(name))
        )
    )
    if not matching:
        text = "No runbook goes through this; the ways out below are what there is." if cause else "Nothing is wrong."
        text = text if cause or answer.outcome.is_healthy else "No cause is known; give the log up to its end."
        return RenderedView(text, tag("p", escape(text)))
    first = matching[0]
    runbook = f" · runbook {first.runbook}" if first.runbook else ""
    lines = [f"{first.sees}{runbook}", wrap(first.says), *_commands(first)]
    html = tag("p", f"{badge('this is', BLUE)} {_seen(first)}", "max-width:80ch") + tag("div", _leads(first))
    return RenderedView("\n".join(lines), html)


def _seen(entrance: Entrance) -> str:
    lines = "".join(
        tag(
            "div",
            tag("code", escape(line), "white-space:pre-wrap;overflow-wrap:anywhere"),
            "font-size:12px;opacity:.85",
        )
        for line in entrance.lines[:_MAX_LINES]
    )
    return f"<b>{escape(entrance.sees)}</b><br>{prose(entrance.says)}{lines}"


def _leads(entrance: Entrance) -> str:
    runbook = tag("div", f"runbook <code>{escape(entrance.runbook)}</code>") if entrance.runbook else ""
    return runbook + "".join(tag("div", tag("code", escape(command))) for command in entrance.commands)


def _commands(entrance: Entrance) -> list[str]:
    runbook = [f"  runbook {entrance.runbook}"] if entrance.runbook else []
    return [*runbook, *(f"  {command}" for command in entrance.commands)]
