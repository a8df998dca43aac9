"""Index of the site's search as a script: every page with the words that people type.

A page opened from a folder may load a script, but not a JSON file. `lookup.js` ranks the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.languages import LANGUAGES
from vllm_runbooks.catalog.records import Entrance, Rule, Symptom
from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.core.records import Role, Runbook
from vllm_runbooks.site import bilingual, option_pages, spec_pages
from vllm_runbooks.site.model_fits import COMMON_GPUS, COMMON_MODELS
from vllm_runbooks.site.myst import printable, sentence
from vllm_runbooks.site.symptom_pages import without_prefix

if TYPE_CHECKING:
    import click

INDEX = "lookup-data.js"
"""Static file with the index."""
_MAX_LINE = 240
_MAX_LINES = 12
_NO_MESSAGES = ("Traceback (most recent call last)", 'File "')
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|\{[^}]*\}|[`*]")


_ROLE_RANKS = {Role.BENIGN: 0.6, Role.CONSEQUENCE: 0.9}


@dataclass(frozen=True)
class SearchEntry:
    """A page, or a section of one, for the search."""

    page: str
    """Address from the root of the site."""
    title: str
    kind: str
    """Kind, in a word."""
    names: tuple[str, ...] = ()
    """Ids and other names."""
    seen: tuple[str, ...] = ()
    """Observations and names used by people, and the explanation."""
    lines: tuple[str, ...] = ()
    """Printed lines that belong to it."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """The title in other languages, by their tags."""
    rank: float = 1.0
    """Factor of its score: symptoms that only report another failure rank lower."""


def symptom_entries(symptoms: Iterable[Symptom], entrances: Sequence[Entrance] = ()) -> Iterator[SearchEntry]:
    """Symptoms with their printed lines and the words of their entrances."""
    for symptom in symptoms:
        seen = [entrance.sees for entrance in entrances if entrance.leads_to(symptom.id)]
        # Words after the group: people type `trust_remote_code`, while `model` is our own term.
        names = (symptom.id, symptom.id.partition(".")[2])
        yield SearchEntry(
            f"symptoms/{symptom.id}.html",
            _plain(symptom.title),
            symptom.severity.value,
            names,
            (*seen, *filter(None, (_plain(symptom.cause), _plain(symptom.do_first or "")))),
            tuple(dict.fromkeys(_messages(symptom)))[:_MAX_LINES],
            _titles(symptom),
            rank=_ROLE_RANKS.get(symptom.role, 1.0) * 0.95 ** (symptom.id.count(".") - 1),
        )


def rule_entries(rules: Iterable[Rule]) -> Iterator[SearchEntry]:
    """Rules with their messages."""
    for rule in rules:
        text = (*map(_plain, rule.message), _plain(rule.why))
        yield SearchEntry(
            f"rules/{rule.id}.html", _plain(rule.title), "rule", (rule.id,), text, titles=_titles(rule), rank=0.8
        )


def option_entries() -> Iterator[SearchEntry]:
    """Options and variables of all known releases, at their places."""
    for kind, folder, word in (("option", "options", "option"), ("environment", "variables", "variable")):
        for entry in option_pages.entries(kind):
            names = tuple(dict.fromkeys((entry.name, *entry.data.get("strings", ()))))
            page = f"{folder}/{option_pages.file_name(entry.page)}.html#{entry.target}"
            gone = f"removed in vLLM {entry.went.release}" if entry.went else ""
            yield SearchEntry(page, entry.name, word, names, (gone,) if gone else (), rank=0.8 if gone else 0.95)


def spec_entries(specs: Specs) -> Iterator[SearchEntry]:
    """Models and GPUs by name."""
    for name, model in specs.models.items():
        yield SearchEntry(
            spec_pages.model_address(name),
            name,
            "model",
            (name, name.partition("/")[2]),
            tuple(filter(None, (model.architecture,))),
            rank=1.1 if name in COMMON_MODELS else 1.0,
        )
    for gpu in specs.table.gpus:
        page, name = spec_pages.gpu_address(gpu.name), gpu.name
        yield SearchEntry(
            page,
            name,
            "GPU",
            (name, *gpu.aliases),
            tuple(filter(None, (gpu.architecture,))),
            rank=1.1 if name in COMMON_GPUS else 0.8 if gpu.form_of else 1.0,
        )


def runbook_entries(runbooks: Iterable[Runbook]) -> Iterator[SearchEntry]:
    """Runbooks by title and summary."""
    for runbook in runbooks:
        page = f"runbooks/{runbook.id}.html"
        yield SearchEntry(page, _plain(runbook.title), "runbook", (runbook.id,), (_plain(runbook.summary),), rank=0.9)


def command_entries(group: click.Group | None) -> Iterator[SearchEntry]:
    """Commands by name and purpose."""
    if group is None:
        return
    import click

    context = click.Context(group, info_name="vllm-runbooks")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            page, purpose = f"commands/{name}.html", _plain(command.get_short_help_str(200))
            yield SearchEntry(page, f"vllm-runbooks {name}", "command", (name,), (purpose,), rank=0.9)


def page_entries(texts: Mapping[str, str]) -> Iterator[SearchEntry]:
    """Authored pages, Markdown by file name, by title and headings."""
    for name, text in texts.items():
        title = _TITLE.search(text)
        if title:
            page = f"{name.removesuffix('.md')}.html"
            yield SearchEntry(page, _text(title[1]), "page", seen=tuple(map(_text, _HEADING.findall(text))), rank=0.8)


def script(entries: Iterable[SearchEntry]) -> str:
    """The index as a script that sets `LOOKUP`."""
    rows = [{name: value for name, value in vars(entry).items() if value not in ((), {}, 1.0)} for entry in entries]
    # Escaped, so that no text ends the script, even if it is pasted into a page.
    data = json.dumps(rows, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return f"globalThis.LOOKUP = {data};\n"


def _titles(record: Symptom | Rule) -> dict[str, str]:
    return {LANGUAGES[lang].tag: _plain(title) for lang, title in bilingual.titles(record).items()}


def _text(markdown: str) -> str:
    return _plain(_MARKUP.sub(r"\1", markdown))


def _plain(text: str) -> str:
    return " ".join(printable(sentence(text)).replace("`", "").split())


def _messages(symptom: Symptom) -> Iterator[str]:
    """Meaningful lines of the examples: no frames of tracebacks."""
    for example in symptom.examples:
        lines = [line.strip() for line in printable(example.text).splitlines() if line.strip()]
        kept = [line for line in lines if not any(mark in line for mark in _NO_MESSAGES)]
        yield from (without_prefix(line)[:_MAX_LINE] for line in kept[-2:])
