"""A page of the site as plain Markdown, for readers that fetch text: without HTML, directives and escapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import unescape

from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.site.option_pages import OptionEntry, entry_markdown
from vllm_runbooks.site.rule_pages import rule_page
from vllm_runbooks.site.symptom_pages import symptom_page

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_CODE = re.compile(r"^(`{3,})text\n.*?^\1$", re.DOTALL | re.MULTILINE)
_HTML = re.compile(r"^```\{raw\} html\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PRE = re.compile(r"<pre>\n?(.*?)</pre>", re.DOTALL)
_CUTS = (
    (re.compile(r"^\([\w.-]+\)=\n", re.MULTILINE), ""),  # anchors
    (re.compile(r"^:{3,}.*\n?|^:[\w-]+:.*\n", re.MULTILINE), ""),  # directives and their options
    (re.compile(r"<a class=\"action\".*?</a>"), ""),
    (re.compile(r"</?(?:a|span)\b[^>]*>"), ""),
    (re.compile(r"\[([^\[\]]*)\]\{[^}]*\}"), r"\1"),  # marks
    (re.compile(r"\[([^\[\]]*)\]\((?!https?:)[^()\s]*\)"), r"\1"),  # links to other pages
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
    (re.compile(r"\N{ZERO WIDTH SPACE}|[ \t]+$", re.MULTILINE), ""),
    (re.compile(r"\n{3,}"), "\n\n"),
)


_TABLE = re.compile(r"^:::\{list-table\}\n(.*?)^:::$", re.DOTALL | re.MULTILINE)


def _table(match: re.Match[str]) -> str:
    """A list of cells as a table, whose cells have one line."""
    rows: list[list[str]] = []
    for line in match[1].splitlines():
        if line.startswith("* - "):
            rows.append([line[4:]])
        elif line.startswith("  - ") and rows:
            rows[-1].append(line[4:])
        elif line.strip() and rows:
            rows[-1][-1] += f" {line.strip()}"
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *others])


def page_text(page: str) -> str:
    """A page as plain Markdown; its literal blocks stay as they are."""
    blocks: list[str] = []

    def kept(block: str) -> str:
        blocks.append(block)
        return f"\0{len(blocks) - 1}\0"

    def html(match: re.Match[str]) -> str:
        return "\n".join(
            kept(f"```text\n{unescape(re.sub('<[^>]*>', '', pre)).strip()}\n```") for pre in _PRE.findall(match[1])
        )

    text = _HTML.sub(html, _CODE.sub(lambda match: kept(match[0]), _FRONT.sub("", page).replace("\0", "")))
    text = _TABLE.sub(_table, text)
    for pattern, replacement in _CUTS:
        text = pattern.sub(replacement, text)
    return re.sub(r"\0(\d+)\0", lambda match: blocks[int(match[1])], text).strip() + "\n"


def symptom_text(symptom: Symptom) -> str:
    """The page of a symptom, in English."""
    return page_text(symptom_page(replace(symptom, translations={})))


def rule_text(rule: Rule) -> str:
    """The page of a rule, in English."""
    return page_text(rule_page(replace(rule, translations={})))


def option_text(entry: OptionEntry, rules: Mapping[str, Rule], symptoms: Iterable[Symptom], release: str) -> str:
    """The entry of an option or variable: values and default in a release, history, replacement."""
    values = {rule.id: rule.values for rule in rules.values()}
    return page_text(entry_markdown(entry, values, symptoms, release=release))
