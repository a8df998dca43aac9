"""Rules as pages: the subject, a wrong and a corrected example, exceptions, tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from vllm_runbooks.catalog.records import Rule, RuleExample, RuleNearMiss
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.views.summary_html import changed_words
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.site import bilingual
from vllm_runbooks.site.myst import (
    aside,
    badge,
    code,
    filter_field,
    folded,
    front,
    grouped,
    listed,
    literal,
    marked,
    prose,
    reference,
    sentence,
    table,
)

GROUPS = {
    "shell": "Shell", "option": "Options", "environment": "Environment", "meaning": "Meaning",
    "container": "Containers", "safety": "Safety", "file": "Files", "parser": "The installed vLLM",
    "edge10": "Scripts for Edge10",
}  # fmt: skip
"""Headings by first word of the ids, in the order of the index; a missing one is last, under its
word."""
_COLUMNS = {
    "program": "Belongs to",
    "choices": "Known values",
    "instead": "Instead",
    "first": "From",
    "last": "To",
    "then": "What happens",
    "note": "Note",
}
"""Columns of a table that a reader needs, with their headings; the others are internal."""
_SENTENCES = ("then", "note")
_SIGNS = str.maketrans({"\r": "␍", "\N{NO-BREAK SPACE}": "⍽", "\N{IDEOGRAPHIC SPACE}": "⍽", "\t": "→"})
_MIN_ROWS = 2
_MOST_ROWS = 10
"""Rows of a table that is not folded."""
_LONGEST = 300
"""Characters of a description."""

Links = Mapping[str, str]
"""Targets of options and variables with an entry on the site."""
Teller = Callable[[str, RuleExample], str]
"""Returns the message on an example of a rule; empty if it cannot be linted here."""


def rule_page(
    rule: Rule, *, linked: Collection[str] = (), links: Links | None = None, tell: Teller | None = None
) -> str:
    """The page of one rule; the rules whose ids are `linked` have one as well."""
    fixed = bilingual.words(rule)
    say = bilingual.sayer(rule, {name for name in linked if name != rule.id})
    hole = (
        [fixed("Text in ⟨angle brackets⟩ is filled in from the finding; a sentence with an unknown value is omitted.")]
        if any("{" in text for text in rule.message)
        else []
    )
    fix = rule.fix or "Nothing: the intended value is unknown."
    near = [part for m in rule.near_misses for part in (f"{say(sentence(m.why))} {_asked(m)}".strip(), literal(m.text))]
    examples = [_example(rule.id, example, tell) for example in rule.examples]
    sections = [
        ("Example", [part for example in examples[:1] for part in example]),
        ("Why", [say(rule.why)]),
        ("What `--fix` does", [say(fix)]),
        *((prose(sentence(name.replace("_", " "))), parts) for name, parts in _tables(rule.values, links or {})),
        ("Other examples", [part for example in examples[1:] for part in example]),
        ("Left alone", [fixed("These look similar and are not reported."), *near] if near else []),
        ("What it says", [listed(say(text) for text in rule.message), *hole]),
        ("References", [listed(reference(text) for text in rule.references)] if rule.references else []),
    ]
    head = front(f"{rule.title} ({rule.id})", f"vllm-runbooks lint, {rule.id}: {rule.title}. {rule.why}"[:_LONGEST])
    fixable = f" {badge('fixable')}" if rule.fix else ""
    link = f'<a class="action" href="../check.html">{fixed("Check my command")}</a>'
    return head + bilingual.page(rule, f"{badge(rule.severity.value)}{fixable} {code(rule.id)} {link}", sections)


def rule_index(rules: Sequence[Rule]) -> str:
    """All rules by group, with the tables of contents for the sidebar."""
    count = f"{len(rules)} things" if len(rules) != 1 else "One thing"
    intro = (
        f"{count} that `vllm-runbooks lint` checks in scripts, manifests, programs and pages that launch vLLM. "
        "[Checking a command](../linting.md) explains how to run them."
    )
    entries = {
        r.id: f"{badge(r.severity.value)} [{prose(r.title)}]({r.id}.md) "
        f"{badge('fixable') if r.fix else ''} {aside(code(r.id))}"
        for r in rules
    }
    field = filter_field("Filter by words of the title or id", "quote, removed, tensor")
    return "\n\n".join(["# Rules", intro, field, *grouped(entries, GROUPS, kind="rules")]) + "\n"


def tell_by_linting(rule: str, example: RuleExample) -> str:
    """Message of `lint` on an example, with its location."""
    before = example.text[: example.text.index(example.at)]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    try:
        if rule.startswith("edge10."):
            linted: Linted = script_checking.lint_scripts({example.file: example.text})[example.file]
        else:
            linted = checking.lint_text(example.text, name=example.file, vllm=example.vllm, gpus=example.gpus)
    except InputError:
        return ""
    messages = [i.message for i in linted.issues if i.rule == rule and (i.line, i.column) == place]
    return messages[0] if messages else ""


def _example(rule: str, example: RuleExample, tell: Teller | None) -> list[str]:
    message = tell(rule, example) if tell else ""
    start = example.text.index(example.at)
    end = start + len(example.at)
    wrong = [(example.text[:start], ""), (_visible(example.at), "wrong"), (example.text[end:].rstrip(), "")]
    parts = [f"{badge('wrong')} {_asked(example)}", marked(wrong, kind="text bad-example")]
    if message:
        parts.append(prose(message))
    if example.fixed is not None:
        words = changed_words(example.text, example.fixed)
        parts += [badge("corrected"), marked((text, "fixed" if is_changed else "") for text, is_changed in words)]
    return parts


def _asked(sample: RuleExample | RuleNearMiss) -> str:
    """Release, GPUs and file of a sample."""
    parameters = [f"vLLM {sample.vllm}" if sample.vllm else "", sample.gpus or "", sample.file]
    line = " · ".join(prose(text) for text in parameters if text)
    return aside(line) if line else ""


def _visible(text: str) -> str:
    """A marked text with visible blanks where they matter."""
    visible_text = text.translate(_SIGNS)
    kept = visible_text.rstrip(" \n")
    tail = visible_text[len(kept) :]
    return (
        kept + tail.replace(" ", "·").replace("\n", "↵\n") if kept.strip() in ("", "\\", "␍") or tail else visible_text
    )


# Tables that a rule looks things up in: a mapping of names to details, in several levels.


def _tables(values: Mapping[str, Any], links: Links) -> list[tuple[str, list[str]]]:
    """Sections for the tables among a rule's values that a reader can use."""
    blocks = []
    for name, values_of in values.items():
        if isinstance(values_of, Mapping):
            inner = [value for value in values_of.values() if isinstance(value, Mapping)]
            parts = (
                [_table(values_of, links)]
                if _is_table(values_of)
                else [_table(value, links) for value in inner if _is_table(value)]
            )
            if any(parts):
                blocks.append((name, parts))
    return blocks


def _is_table(table: Mapping[str, Any]) -> bool:
    rows = [row for row in table.values() if isinstance(row, Mapping)]
    return len(rows) == len(table) >= _MIN_ROWS and any(column in row for row in rows for column in _COLUMNS)


def _table(rows_by_name: Mapping[str, Mapping[str, Any]], links: Links) -> str:
    columns = [column for column in _COLUMNS if any(row.get(column) not in (None, "") for row in rows_by_name.values())]
    rows = [
        [_name(name, links), *(_cell(column, row.get(column), links) for column in columns)]
        for name, row in rows_by_name.items()
    ]
    wide = [3 if column in _SENTENCES else 1 if column in ("first", "last") else 2 for column in columns]
    whole = table(["Name", *(_COLUMNS[column] for column in columns)], rows, " ".join(map(str, (2, *wide))))
    return whole if len(rows) <= _MOST_ROWS else folded(f"{len(rows)} entries", whole)


def _name(text: str, links: Links) -> str:
    """A name as code with a link to its entry; an option may be written without dashes."""
    name = next((candidate for candidate in (text, f"--{text}") if candidate in links), text)
    return f"[{code(name)}](#{links[name]})" if name in links else code(name)


def _cell(column: str, value: Any, links: Links) -> str:
    if value is None:
        return ""
    if column in _SENTENCES:
        return prose(str(value))
    if isinstance(value, Mapping):
        return ", ".join(_name(str(item), links) for item in value.values())
    if isinstance(value, list):
        return ", ".join(code(str(item)) for item in value)
    return _name(str(value), links)
