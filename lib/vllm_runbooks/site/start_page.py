"""Start page: a search for printed lines, three entry points, observations with their targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from vllm_runbooks.catalog.records import Entrance, Symptom
from vllm_runbooks.site import run_pages
from vllm_runbooks.site.myst import code, literal, plain, prose, raw
from vllm_runbooks.site.symptom_pages import GROUPS

DOORS = {
    "diagnose": (
        "Diagnose a log",
        "A launch failed or hangs: paste its log to get the first cause, the line that proves it, and the fix.",
        "reading",
    ),
    "check": (
        "Check a command",
        "Check a script or manifest against a vLLM release before you launch it, and get the fixed text.",
        "linting",
    ),
    "plan": (
        "Plan a deployment",
        "Find out how a model fits your GPUs: layout, context, concurrency, command.",
        "planning",
    ),
}
"""Pages that work in the browser: heading, purpose, and the page in its place if it is not built."""


def start(
    entrances: Sequence[Entrance],
    symptoms: Sequence[Symptom],
    *,
    runbooks: Collection[str],
    built: Collection[str] = (),
    has_runs: bool = False,
) -> str:
    """Observations on the start page; `runbooks` and `built` entry points have a page."""
    runs = [f"[Last results]({run_pages.NAME}.md)"] if has_runs else []
    return (
        "\n\n".join([_BOX, _doors(built), *runs, "## What do you see?", _cards(entrances, symptoms, runbooks)]) + "\n"
    )


def _doors(built: Collection[str]) -> str:
    links = "".join(
        f'<a class="door" href="{page if page in built else instead}.html">'
        f"<strong>{escape(name)}</strong><span>{escape(text)}</span></a>"
        for page, (name, text, instead) in DOORS.items()
    )
    return raw(f'<nav class="doors" aria-label="What you can do here">{links}</nav>')


_BOX = raw(
    '<div class="lookup" id="lookup" hidden>'
    '<label for="lookup-text">Search for an error, an option, a model or a GPU</label>'
    '<input id="lookup-text" type="search" autocomplete="off" spellcheck="false" aria-describedby="lookup-count" '
    'placeholder="No available memory">'
    '<p id="lookup-count" role="status"></p><ol id="lookup-found"></ol></div>'
)


def _cards(entrances: Iterable[Entrance], symptoms: Sequence[Symptom], runbooks: Collection[str]) -> str:
    cards = (_card(entrance, symptoms, runbooks) for entrance in entrances)
    return "\n\n".join(["::::{container} entrances", *cards, "::::"])


def _card(entrance: Entrance, symptoms: Sequence[Symptom], runbooks: Collection[str]) -> str:
    """One entrance: the observation, its first line, and its targets."""
    groups = dict.fromkeys(s.id.partition(".")[0] for s in symptoms if entrance.leads_to(s.id))
    targets = [
        *([("Runbook", f"runbooks/{entrance.runbook}.ipynb")] if entrance.runbook in runbooks else []),
        *((prose(GROUPS.get(group, group)), f"#symptoms-{group}") for group in groups),
        *([("How it works", f"{entrance.page}.md")] if entrance.page else []),
    ]
    links = [f"[{name}]({target})" for name, target in targets]
    title = f"[{plain(entrance.sees)}]({targets[0][1]})" if targets else plain(entrance.sees)
    parts = [
        f":::{{container}} entrance\n:name: see-{entrance.id}",
        f"```{{rubric}} {title}\n:heading-level: 3\n```",
        prose(entrance.says),
        *([literal(entrance.lines[0])] if entrance.lines else []),
        *([f"{code(entrance.commands[0])}{{.command}}"] if entrance.commands else []),
        " · ".join(links),
        ":::",
    ]
    return "\n\n".join(filter(None, parts))
