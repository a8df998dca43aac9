"""Files for agents that read the site: llms.txt, the agent skill, and the catalog's pages as plain Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.site import markdown_text, rule_pages, search_index, symptom_pages

if TYPE_CHECKING:
    import click

_SUMMARY = """\
# vllm-runbooks

> Finds out why a vLLM launch failed and how to fix it, checks launch commands against a release of vLLM, and plans \
layouts that fit given GPUs. It runs on the user's machine; logs are not uploaded.

Use the commands with `--format json`, or the MCP server `vllm-runbooks mcp`. Exit status: 0 if there is no problem, 1
if there is one, 2 for invalid input. Each symptom and rule has a page in plain Markdown: `symptoms/ID.md`,
`rules/ID.md`.
"""
_MOST_HEADINGS = 4


def write(
    built: Path, symptoms: Sequence[Symptom], rules: Sequence[Rule], docs: Path, commands: click.Group | None
) -> None:
    """Write the files into a built site."""
    for name, text in files(symptoms, rules, docs, commands):
        (built / name).parent.mkdir(parents=True, exist_ok=True)
        (built / name).write_text(text, encoding="utf-8")


def files(
    symptoms: Sequence[Symptom], rules: Sequence[Rule], docs: Path, commands: click.Group | None
) -> Iterator[tuple[str, str]]:
    """Names and texts, from the root of the site."""
    yield "llms.txt", llms_txt(symptoms, rules, docs, commands)
    for path in sorted(docs.glob("skills/*/SKILL.md")):
        yield path.relative_to(docs).as_posix(), path.read_text(encoding="utf-8")
    for symptom in symptoms:
        yield f"symptoms/{symptom.id}.md", markdown_text.symptom_text(symptom)
    for rule in rules:
        yield f"rules/{rule.id}.md", markdown_text.rule_text(rule)


def llms_txt(symptoms: Sequence[Symptom], rules: Sequence[Rule], docs: Path, commands: click.Group | None) -> str:
    """The index of the site for language models, in the format of llmstxt.org."""
    authored = {path.name: path.read_text(encoding="utf-8") for path in sorted(docs.glob("*.md"))}
    pages = [*search_index.page_entries(authored)]
    skills = [path.relative_to(docs).as_posix() for path in sorted(docs.glob("skills/*/SKILL.md"))]
    sections = {
        "Agents": [
            *(
                _link(Path(skill).parent.name, skill, "how to fix a failed launch, with real commands")
                for skill in skills
            ),
            *(_link(page.title, page.page) for page in pages if page.page == "agents.html"),
        ],
        "Commands": [
            _link(entry.title, entry.page, " ".join(entry.seen)) for entry in search_index.command_entries(commands)
        ],
        "Symptoms and rules": [
            *_groups("symptoms", (symptom.id for symptom in symptoms), symptom_pages.GROUPS),
            *_groups("rules", (rule.id for rule in rules), rule_pages.GROUPS),
        ],
        "Pages": [
            _link(page.title, page.page, "; ".join(page.seen[:_MOST_HEADINGS]))
            for page in pages
            if page.page not in ("agents.html", "index.html")
        ],
    }
    parts = [f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items()]
    return "\n\n".join([_SUMMARY.rstrip(), *parts]) + "\n"


def _groups(folder: str, ids: Iterable[str], titles: dict[str, str]) -> Iterator[str]:
    """A line for each group of symptoms or rules, with the ids of its members."""
    members: dict[str, list[str]] = {}
    for name in ids:
        members.setdefault(name.partition(".")[0], []).append(name)
    for group, names in members.items():
        title = titles.get(group, group)
        yield _link(f"{title} ({folder})", f"{folder}/index.html#{folder}-{group}", ", ".join(names))


def _link(title: str, address: str, note: str = "") -> str:
    return f"- [{title}]({address})" + f": {note}" * bool(note)
