"""The start page: three entry points, observations and where they lead, and printed lines to search."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Entrance, Rule, Symptom
from vllm_runbooks.site import bilingual, run_pages
from vllm_runbooks.site.myst import code, literal, plain, printable, prose, raw, sentence
from vllm_runbooks.site.symptom_pages import GROUPS

DOORS = {
    "diagnose": (
        "Diagnose a log",
        "A start failed, or hangs. Paste its log: the first cause, and the lines that prove it.",
        "reading",
    ),
    "check": (
        "Check a command",
        "Before it runs: what this release refuses, what fits, the corrected script.",
        "linting",
    ),
    "plan": (
        "Plan a deployment",
        "A model and some cards: memory of every term, and the best way to use them.",
        "planning",
    ),
}
"""Pages that work in the browser: heading, purpose, and the page in its place if it is not built."""
LOOKUP = "lookup-data.js"
"""Static file with the data for the search box on the start page."""
_MAX_LINE = 240
_MAX_LINES = 12
_NO_MESSAGES = ("Traceback (most recent call last)", 'File "')


def start(
    entrances: Sequence[Entrance],
    symptoms: Sequence[Symptom],
    *,
    runbooks: Collection[str],
    built: Collection[str] = (),
    has_runs: bool = False,
) -> str:
    """The part of the start page that leads by observation; `runbooks` and `built` entry points have a page."""
    runs = [f"What the last runs came to stands [on a page of its own]({run_pages.NAME}.md)."] if has_runs else []
    return (
        "\n\n".join([_doors(built), *runs, "## What do you see?", _BOX, _cards(entrances, symptoms, runbooks)]) + "\n"
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
    '<label for="lookup-text">A line that was printed, or some of its words</label>'
    '<input id="lookup-text" type="search" autocomplete="off" spellcheck="false" aria-describedby="lookup-count" '
    'placeholder="e.g. No available memory for the cache blocks">'
    '<p id="lookup-count" role="status"></p><ol id="lookup-found"></ol></div>'
)


def _cards(entrances: Iterable[Entrance], symptoms: Sequence[Symptom], runbooks: Collection[str]) -> str:
    cards = (_card(entrance, symptoms, runbooks) for entrance in entrances)
    return "\n\n".join(["::::{container} entrances", *cards, "::::"])


def _card(entrance: Entrance, symptoms: Sequence[Symptom], runbooks: Collection[str]) -> str:
    """One entrance: the observation, its first line, and its targets."""
    groups = dict.fromkeys(s.id.partition(".")[0] for s in symptoms if entrance.leads_to(s.id))
    links = [
        *([f"[Runbook](runbooks/{entrance.runbook}.ipynb)"] if entrance.runbook in runbooks else []),
        *(f"[{prose(GROUPS.get(group, group))}](#symptoms-{group})" for group in groups),
        *([f"[How it works]({entrance.page}.md)"] if entrance.page else []),
    ]
    parts = [
        f":::{{container}} entrance\n:name: see-{entrance.id}",
        f"```{{rubric}} {plain(entrance.sees)}\n:heading-level: 3\n```",
        prose(entrance.says),
        *([literal(entrance.lines[0])] if entrance.lines else []),
        *([f"{code(entrance.commands[0])}"] if entrance.commands else []),
        " · ".join(links),
        ":::",
    ]
    return "\n\n".join(filter(None, parts))


def lookup_data(symptoms: Iterable[Symptom], rules: Iterable[Rule] = (), entrances: Sequence[Entrance] = ()) -> str:
    """The script with titles, ids and printed lines as data for the search box.

    A symptom is found by the words of its entrances as well, and both by their titles in other languages. It is a
    script, as a page that was opened from a folder may load one, but no JSON file.
    """
    entries = [
        *(_entry(f"symptoms/{s.id}.html", s, [e.sees for e in entrances if e.leads_to(s.id)]) for s in symptoms),
        *(_entry(f"rules/{r.id}.html", r) for r in rules),
    ]
    # Within a script file no text ends the script; the signs are written as escapes for whoever pastes it into a page.
    data = json.dumps(entries, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f"globalThis.LOOKUP = {data};\n"


def _entry(page: str, record: Symptom | Rule, seen: Sequence[str] = ()) -> dict[str, Any]:
    titles = {LANGUAGES[lang].tag: _plain(title) for lang, title in bilingual.titles(record).items()}
    return {
        "page": page,
        "id": record.id,
        "title": _plain(record.title),
        "titles": titles,
        "kind": record.severity.value,
        "lines": _lines(record) if isinstance(record, Symptom) else [],
        "seen": list(seen),
    }


def _plain(text: str) -> str:
    return " ".join(printable(sentence(text)).replace("`", "").split())


def _lines(symptom: Symptom) -> list[str]:
    """Meaningful lines of the examples, each once: no frames of tracebacks."""
    return list(dict.fromkeys(_messages(symptom)))[:_MAX_LINES]


def _messages(symptom: Symptom) -> Iterator[str]:
    for example in symptom.examples:
        lines = [line.strip() for line in printable(example.text).splitlines() if line.strip()]
        kept = [line for line in lines if not any(mark in line for mark in _NO_MESSAGES)]
        yield from (line[:_MAX_LINE] for line in kept[-2:])
