"""Read, check and compile the authored rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import compiled
from vllm_runbooks.catalog.authored import translations
from vllm_runbooks.catalog.authored.located import Problem
from vllm_runbooks.catalog.authored.yaml_files import compile_records, date_problems, read_record, unknown_commands
from vllm_runbooks.catalog.records import Rule
from vllm_runbooks.core.records import IssueSeverity

ADAPTER = TypeAdapter(Rule)
GROUPS = ("shell", "option", "environment", "meaning", "container", "safety", "parser", "file", "edge10")
"""First words of ids, in the order of the pages."""
_ID = re.compile(rf"(?:{'|'.join(GROUPS)})\.[a-z][a-z0-9]*(?:-[a-z0-9]+){{0,8}}", re.ASCII)


def read_rule(path: Path, where: str | None = None) -> Rule:
    rule: Rule = read_record(path, where or path.name, ADAPTER, lambda read: _problems(read, path.stem))
    return translations.unfolded(rule)


def _problems(rule: Rule, stem: str) -> Iterator[Problem]:
    if rule.id != stem:
        yield ("id",), f"is {rule.id!r}; the file's name says {stem!r}"
    if not _ID.fullmatch(rule.id):
        yield ("id",), f"must be <group>.<words-with-dashes>, the group one of {', '.join(GROUPS)}"
    if rule.is_style and rule.severity is not IssueSeverity.INFO:
        yield ("is_style",), f"is only for severity info; this is {rule.severity.value}"
    for name in ("message", "examples", "near_misses"):
        if not getattr(rule, name):
            yield (name,), "is empty; a rule needs at least one"
    for index, example in enumerate(rule.examples):
        if example.at not in example.text:
            yield ("examples", index, "at"), "is not in the text"
        if example.fixed is not None and not rule.fix:
            yield ("examples", index, "fixed"), "is given, but `fix` does not describe the fix"
    if rule.fix and not any(example.fixed is not None for example in rule.examples):
        yield ("fix",), "has no example; add `fixed` to one"
    for name in ("message", "why", "fix"):
        texts = getattr(rule, name) or ""
        for wrong in unknown_commands(texts if isinstance(texts, str) else " ".join(texts)):
            yield (name,), wrong
    yield from date_problems(rule.verified.date)
    yield from translations.problems(rule)


def compile_rules(root: Path) -> tuple[dict[str, Any], list[str]]:
    return compile_records(compiled.RULES, root, read_rule)
