"""Explain and search: symptoms, rules and options of the catalog, and the pages of the site by words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from vllm_runbooks.catalog import folders, load, options
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError, suggestion
from vllm_runbooks.mcp.tools import Reply, bounded
from vllm_runbooks.site import markdown_text, option_pages
from vllm_runbooks.site.ranking import Ranking

if TYPE_CHECKING:
    import click

_REST = re.compile(r"^## (?:Examples in logs|Other examples|Similar lines|Left alone|References)$", re.MULTILINE)
"""Headings of a page from which it is left out without details."""
_MOST_FOUND = 10
_LONGEST = 200


def explain(name: str, *, vllm: str, details: bool) -> Reply:
    """Describe a symptom, a lint rule, or an option or environment variable."""
    name = name.strip()
    if not name:
        raise InputError("name is empty; pass the id of a symptom or rule, an option or a variable")
    catalog, rules = _catalog(), load.rules().by_id
    symptom, rule = catalog.symptoms.get(name), rules.get(name)
    if symptom is not None:
        return _page("symptom", symptom, markdown_text.symptom_text(symptom), details=details)
    if rule is not None:
        return _page("rule", rule, markdown_text.rule_text(rule), details=details)
    entry = option_pages.entry_of(name) or option_pages.entry_of(f"--{name.strip('-').replace('_', '-')}")
    if entry is not None:
        return _option(entry, name, vllm, details=details)
    if members := [i for i in (*catalog.symptoms, *rules) if i.startswith(f"{name}.")]:
        listed = "\n".join(f"- {i}: {(catalog.symptoms.get(i) or rules[i]).title}" for i in members)
        return Reply(bounded(listed, details=details), {"kind": "group", "id": name, "members": members})
    names = (*catalog.symptoms, *rules, *option_pages.links())
    raise InputError(
        f"{name[:80]}: no symptom, rule, option or variable of this name; {suggestion(name, names, 'use search')}"
    )


def _page(kind: str, record: Symptom | Rule, page: str, *, details: bool) -> Reply:
    text = page if details else _REST.split(page)[0]
    return Reply(bounded(text, details=details), {"kind": kind, "id": record.id, "title": record.title})


def _option(entry: option_pages.OptionEntry, name: str, vllm: str, *, details: bool) -> Reply:
    release = options.load(vllm or "latest")
    spelling = name if name in option_pages.links() else entry.name
    status = options.standing(spelling, release, options.past())
    state = {
        "known": "has it",
        "gone": f"does not have it: {status.last} was the last release with it",
        "to come": f"does not have it yet: {status.first} is the first release with it",
    }.get(status.kind, "does not have it")
    about = f"\n\nvLLM {release.asked} {state}.\n"
    page = markdown_text.option_text(entry, load.rules().by_id, _catalog().symptoms.values(), release.version)
    head, _, rest = page.partition("\n")
    document = {
        "kind": "option",
        "id": entry.name,
        "vllm": release.asked,
        "data": release.checked,
        "state": status.kind,
    }
    return Reply(bounded(f"{head}{about}{rest}", details=details), document)


def search(query: str, group: click.Group | None) -> Reply:
    """The best entries for words or a printed line."""
    if not query.strip():
        raise InputError("query is empty; pass words, or a line of the log")
    found = _ranking(group).best(query, _MOST_FOUND)
    rows = [{"kind": entry.kind, "id": _id(entry.page, entry.names), "title": entry.title} for entry in found]
    lines = [f"{row['kind']}  {row['id']}" + f"  {row['title']}" * (row["title"] != row["id"]) for row in rows]
    return Reply("\n".join(lines) or "Nothing found; use other words, or diagnose the log.", {"results": rows})


def _id(page: str, names: tuple[str, ...]) -> str:
    """What `explain` accepts, else the page."""
    return names[0] if names and page.startswith(("symptoms/", "rules/", "options/", "variables/")) else page


@cache
def _ranking(group: click.Group | None) -> Ranking:
    from vllm_runbooks.site import building

    try:
        docs = building.docs_dir()
    except InputError:  # a package without its documentation
        docs = folders.catalog_dir()
    symptoms, rules = _catalog().symptoms.values(), load.rules().by_id.values()
    return Ranking(building.search_entries([*symptoms], [*rules], [], docs, group))


def _catalog() -> Catalog:
    return load.load_catalog(folders.own_catalogs())


def index(kind: str) -> str:
    """All symptoms or rules with their titles, one per line."""
    records: Iterable[tuple[str, str]] = (
        ((symptom.id, symptom.title) for symptom in _catalog().symptoms.values())
        if kind == "symptom"
        else ((rule.id, rule.title) for rule in load.rules().by_id.values())
    )
    return "".join(f"{name}  {title[:_LONGEST]}\n" for name, title in records)
