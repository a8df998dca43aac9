"""Observations with their targets, for the runbook to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.core.display import RenderedView
from vllm_runbooks.core.records import Answer
from vllm_runbooks.core.views.elements import html_table, prose, tag, wrap
from vllm_runbooks.core.views.runbook_steps import StepText

_MAX_LINES = 2
"""Most printed lines of each entrance."""


def every(entrances: Sequence[Entrance]) -> RenderedView:
    """All entrances: the observation, possible causes, and the runbook or commands for it."""
    rows = [[_seen(entrance), _leads(entrance)] for entrance in entrances]
    plain = "\n\n".join("\n".join([entrance.sees, wrap(entrance.says), *_commands(entrance)]) for entrance in entrances)
    return RenderedView(plain, html_table(("What you see", "What to use"), rows, widest="none"))


def leading(entrances: Sequence[Entrance], answer: Answer) -> StepText:
    """Runbook or command for an answer: the most specific of the matching entrances."""
    cause = answer.root_cause
    if cause is None:
        if answer.outcome.is_healthy:
            return StepText("Nothing in this log needs a runbook.")
        return StepText("No runbook matches without a cause.", do="Find what you see in the list below.")
    matching = [entrance for entrance in entrances if entrance.leads_to(cause.symptom)]
    if not matching:
        return StepText(f"`{cause.symptom}` has no specific runbook; the fixes above are complete.")
    first = max(matching, key=lambda entrance: _match_length(entrance, cause.symptom))
    do = f"Open the runbook `{first.runbook}` with the same log." if first.runbook else "Run the command."
    return StepText(f"This is “{first.sees}”.", first.says, do, "\n".join(first.commands))


def _match_length(entrance: Entrance, symptom: str) -> int:
    return max(len(name) for name in entrance.symptoms if f"{symptom}.".startswith(name))


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
    page = escape(entrance.runbook or "")
    runbook = tag("div", f'runbook <a href="{page}.ipynb">{page}</a>') if page else ""
    return runbook + "".join(tag("div", tag("code", escape(command))) for command in entrance.commands)


def _commands(entrance: Entrance) -> list[str]:
    runbook = [f"  runbook {entrance.runbook}"] if entrance.runbook else []
    return [*runbook, *(f"  {command}" for command in entrance.commands)]
