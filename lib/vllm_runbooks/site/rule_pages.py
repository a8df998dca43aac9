"""Rules as pages of the site: what each is about, an example wrong and corrected, what it leaves alone, its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from vllm_runbooks.catalog.records import Rule, RuleExample, RuleNearMiss
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.lint import checking
from vllm_runbooks.lint.records import Linted
from vllm_runbooks.site import bilingual
from vllm_runbooks.site.myst import (
    aside,
    badge,
    code,
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
    "shell": "Shell", "option": "Options", "environment": "Environment", "meaning": "Meaning", "safety": "Safety",
    "file": "Files", "parser": "The installed vLLM", "edge10": "Scripts for Edge10",
}  # fmt: skip
"""First words of ids as headings, in the order of the index; one that is missing here comes last, as its word."""
_COLUMNS = {
    "program": "Belongs to",
    "choices": "Known values",
    "instead": "Instead",
    "first": "From",
    "last": "To",
    "then": "What happens",
    "note": "Note",
}
"""Details of a table's rows that a reader needs, with their headings; what else a row holds is the program's matter."""
_SENTENCES = ("then", "note")
_SIGNS = str.maketrans({"\r": "␍", "\N{NO-BREAK SPACE}": "⍽", "\N{IDEOGRAPHIC SPACE}": "⍽", "\t": "→"})
_MIN_ROWS = 2

Links = Mapping[str, str]
"""Names of options and variables that have an entry on the site, with its target."""
Teller = Callable[[str, RuleExample], str]
"""What is said about an example of a rule; empty: that cannot be told here."""


def rule_page(
    rule: Rule, *, linked: Collection[str] = (), links: Links | None = None, tell: Teller | None = None
) -> str:
    """The page of one rule; the rules whose ids are `linked` have one as well."""
    say = bilingual.sayer(rule, {name for name in linked if name != rule.id})
    hole = (
        ["What stands in ⟨angle brackets⟩ is what was found; a sentence that needs what is not known is left out."]
        if any("{" in said for said in rule.message)
        else []
    )
    mends = rule.mends or "Nothing: what was meant cannot be known."
    near = [part for m in rule.near_misses for part in (f"{say(sentence(m.why))} {_asked(m)}".strip(), literal(m.text))]
    sections = [
        ("Why", [say(rule.why)]),
        ("What it says", [listed(say(said) for said in rule.message), *hole]),
        ("Examples", [part for example in rule.examples for part in _example(rule.id, example, tell)]),
        ("What `--fix` does", [say(mends)]),
        ("Left alone", ["These look alike, and nothing is said about them.", *near] if near else []),
        *((prose(sentence(name.replace("_", " "))), parts) for name, parts in _tables(rule.values, links or {})),
        ("References", [listed(reference(text) for text in rule.references)] if rule.references else []),
    ]
    return bilingual.page(rule, f"{badge(rule.severity.value)} {code(rule.id)}", sections)


def rule_index(rules: Sequence[Rule]) -> str:
    """The list of all rules by group, with the tables of contents that fill the sidebar."""
    count = f"{len(rules)} things" if len(rules) != 1 else "One thing"
    said = (
        f"{count} that `vllm-runbooks lint` finds wrong in scripts, manifests, programs and pages that start vLLM. "
        "[Checking a command](../linting.md) says how they are asked for."
    )
    entries = {r.id: f"{badge(r.severity.value)} [{prose(r.title)}]({r.id}.md) {aside(code(r.id))}" for r in rules}
    return "\n\n".join(["# Rules", said, *grouped(entries, GROUPS, kind="rules")]) + "\n"


def tell_by_linting(rule: str, example: RuleExample) -> str:
    """What `lint` says about an example, at its place."""
    before = example.text[: example.text.index(example.at)]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    try:
        if rule.startswith("edge10."):
            found: Linted = script_checking.lint_scripts({example.file: example.text})[example.file]
        else:
            found = checking.lint_text(example.text, name=example.file, vllm=example.vllm, gpus=example.gpus)
    except InputError:
        return ""
    said = [i.message for i in found.issues if i.rule == rule and (i.line, i.column) == place]
    return said[0] if said else ""


def _example(rule: str, example: RuleExample, tell: Teller | None) -> list[str]:
    said = tell(rule, example) if tell else ""
    start = example.text.index(example.at)
    end = start + len(example.at)
    wrong = [(example.text[:start], ""), (_visible(example.at), "wrong"), (example.text[end:].rstrip(), "")]
    parts = [f"{badge('wrong')} {_asked(example)}", marked(wrong, kind="text bad-example")]
    if said:
        parts.append(prose(said))
    if example.fixed is not None:
        parts += [badge("corrected"), marked(_mended(example.text, example.fixed))]
    return parts


def _asked(sample: RuleExample | RuleNearMiss) -> str:
    """What a sample is checked against."""
    asked = [f"vLLM {sample.vllm}" if sample.vllm else "", sample.gpus or "", sample.file]
    said = " · ".join(prose(text) for text in asked if text)
    return aside(said) if said else ""


def _visible(text: str) -> str:
    """A marked text in which blanks that matter can be seen."""
    shown = text.translate(_SIGNS)
    kept = shown.rstrip(" \n")
    tail = shown[len(kept) :]
    return kept + tail.replace(" ", "·").replace("\n", "↵\n") if kept.strip() in ("", "\\", "␍") or tail else shown


def _mended(old: str, new: str) -> list[tuple[str, str]]:
    """The new text with the lines marked that differ from the old one's."""
    before, after = old.splitlines(), new.splitlines()
    pieces: list[tuple[str, str]] = []
    for kind, _, _, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        text = "\n".join(after[first:last])
        if first < last:
            pieces.append((text, "" if kind == "equal" else "mended"))
            pieces.append(("\n", ""))
    return pieces[:-1]


# Tables that a rule looks things up in: a mapping of names to details, in several levels.


def _tables(values: Mapping[str, Any], links: Links) -> list[tuple[str, list[str]]]:
    """Sections for the tables among a rule's values that a reader can use."""
    found = []
    for name, told in values.items():
        if isinstance(told, Mapping):
            inner = [value for value in told.values() if isinstance(value, Mapping)]
            parts = (
                [_table(told, links)]
                if _is_table(told)
                else [_table(value, links) for value in inner if _is_table(value)]
            )
            if any(parts):
                found.append((name, parts))
    return found


def _is_table(told: Mapping[str, Any]) -> bool:
    rows = [row for row in told.values() if isinstance(row, Mapping)]
    return len(rows) == len(told) >= _MIN_ROWS and any(column in row for row in rows for column in _COLUMNS)


def _table(told: Mapping[str, Mapping[str, Any]], links: Links) -> str:
    columns = [column for column in _COLUMNS if any(row.get(column) not in (None, "") for row in told.values())]
    rows = [
        [_name(name, links), *(_cell(column, row.get(column), links) for column in columns)]
        for name, row in told.items()
    ]
    wide = [3 if column in _SENTENCES else 1 if column in ("first", "last") else 2 for column in columns]
    return table(["Name", *(_COLUMNS[column] for column in columns)], rows, " ".join(map(str, (2, *wide))))


def _name(text: str, links: Links) -> str:
    """A name as code that leads to its entry; an option may be written without its dashes."""
    name = next((each for each in (text, f"--{text}") if each in links), text)
    return f"[{code(name)}](#{links[name]})" if name in links else code(name)


def _cell(column: str, value: Any, links: Links) -> str:
    if value is None:
        return ""
    if column in _SENTENCES:
        return prose(str(value))
    if isinstance(value, Mapping):
        return ", ".join(_name(str(each), links) for each in value.values())
    if isinstance(value, list):
        return ", ".join(code(str(each)) for each in value)
    return _name(str(value), links)
