"""Read and check the authored policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.authored.located import Problem
from vllm_runbooks.catalog.authored.remedy_texts import remedy_problems
from vllm_runbooks.catalog.authored.tables import groups, words
from vllm_runbooks.catalog.authored.yaml_files import read_record
from vllm_runbooks.catalog.records import Policy

ADAPTER = TypeAdapter(Policy)


def read_policy(path: Path, where: str | None = None) -> Policy:
    return read_record(path, where or path.name, ADAPTER, lambda read: _policy_problems(read, path))


def _policy_problems(policy: Policy, path: Path) -> Iterator[Problem]:
    if policy.id != path.stem:
        yield ("id",), f"is {policy.id!r}; the file's name says {path.stem!r}"
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,8}", policy.id, re.ASCII):
        yield ("id",), "must be lowercase words with hyphens, as in lower-utilization"
    if not policy.steps:
        yield ("steps",), "is empty; a policy needs at least one"
    root = path.absolute().parent.parent
    roots = dict.fromkeys((folders.catalog_dir(), root))
    symptoms = [file for folder in roots for file in (folder / "symptoms").glob("*.yaml")]
    names = {*words("classes", root), *(file.stem for file in symptoms)}
    for field in ("helps", "refused_for"):
        for index, name in enumerate(getattr(policy, field)):
            if name not in names:
                key = name if field == "refused_for" else index
                yield (field, key), f"{name!r} is neither a symptom nor a class"
    for name in policy.refused_for.keys() & set(policy.helps):
        yield ("refused_for", name), "is also in `helps`; remove one of the two"
    patterns = [file for folder in roots if (file := folder / "patterns.yaml").is_file()]
    captures = {name for file in (*patterns, *symptoms) for name in groups(file.read_text(encoding="utf-8"))}
    for index, step in enumerate(policy.steps):
        if not step.edits:
            yield ("steps", index), "has no edits; add them"
        for location, problem in remedy_problems(step, captures, "any symptom"):
            yield ("steps", index, *location), problem
