"""The compiled indexes of the catalog, each loaded as records."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.indexes import Compiler, Index, whole
from vllm_runbooks.catalog.indexes import indexed as indexed  # noqa: PLC0414 - `site` takes it from here
from vllm_runbooks.catalog.records import Entrance, LineFormat, Policy, Rule, Symptom
from vllm_runbooks.catalog.symptoms import Catalog
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import record

_AUTHORED = "vllm_runbooks.catalog.authored"


def sources(root: Path) -> list[Path]:
    """Authored files of the index of symptoms, in a fixed order."""
    authored = (path for kind in ("symptoms", "policies") for path in sorted((root / kind).glob("*.yaml")))
    return [root / "lines.yaml", *authored]


def rule_sources(root: Path) -> list[Path]:
    return sorted((root / "rules").glob("*.yaml"))


def entrances_source(root: Path) -> Path:
    return root / "entrances.yaml"


def _symptom_sources(root: Path) -> list[Path]:
    tables = ("patterns", "classes", "captures")
    return [*(folder / f"{name}.yaml" for folder in (folders.catalog_dir(), root) for name in tables), *sources(root)]


def _catalog(index: Any) -> Catalog:
    symptoms = [record(Symptom, data) for data in index["symptoms"]]
    lines = tuple(record(LineFormat, data) for data in index["lines"])
    policies = [record(Policy, data) for data in index["policies"]]
    problems = tuple(index.get("problems", ()))
    return Catalog({s.id: s for s in symptoms}, lines, problems, {p.id: p for p in policies}, words=index["words"])


class RulesById(UserDict[str, Any]):
    """Rules that become records when they are used: of a hundred a command breaks a few."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(data)
        self._records: dict[str, Rule] = {}

    def __getitem__(self, name: str) -> Rule:
        if name not in self._records:
            self._records[name] = record(Rule, self.data[name])
        return self._records[name]

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Any]]:
        """The tables of the rules, by rule."""
        return {name: data.get("values") or {} for name, data in self.data.items()}


class Rules(NamedTuple):
    """The rules that commands are checked by."""

    by_id: RulesById
    problems: tuple[str, ...]
    """Files that were left out, as the compiler named them."""


def _rules(index: Any) -> Rules:
    return Rules(RulesById({data["id"]: data for data in index["rules"]}), tuple(index.get("problems", ())))


SYMPTOMS = Index("index", _symptom_sources, f"{_AUTHORED}.compiling:compile_index", _catalog)
RULES = Index("rules", rule_sources, f"{_AUTHORED}.rule_files:compile_rules", _rules)
ENTRANCES = Index(
    "entrances",
    lambda root: [entrances_source(root)],
    f"{_AUTHORED}.entrances_file:compile_entrances",
    lambda index: tuple(record(Entrance, data) for data in whole(index, "entrances")),
)
"""Observations in the words of users, with their targets, in the order of the file."""
key, rules_key = SYMPTOMS.key, RULES.key
load_rules = RULES.load


def load(compiler: Compiler | None = None, *, user_folders: Iterable[str | Path] = ()) -> Catalog:
    """Load the catalog with the user's own folders on top, which replace entries of the same id.

    A broken file, shipped or the user's own, is skipped and listed in `problems`.
    """
    index = SYMPTOMS.load(compiler)
    problems = list(index.problems)
    symptoms, policies, words = dict(index.symptoms), dict(index.policies), dict(index.words)
    for folder in user_folders:
        root = Path(folder)
        if not str(folder).strip() or not root.is_dir():
            raise InputError(f"{folder or '(nothing)'}: no such catalog folder; use one that contains symptoms/")
        if not (root / "symptoms").is_dir():
            raise InputError(f"{folder}: no folder symptoms/; put your symptom files into {root / 'symptoms'}")
        added = SYMPTOMS.load(compiler, root)
        problems += [f"{folder}/{problem}" for problem in added.problems]
        symptoms.update(added.symptoms)
        policies.update(added.policies)
        words.update(added.words)
        if root.resolve() != folders.catalog_dir().resolve() and (root / "lines.yaml").is_file():
            problems.append(
                f"{folder}/lines.yaml:1: (file): is not used: only symptoms and policies may be added; remove the file"
            )
    policies = dict(sorted(policies.items()))
    return Catalog(dict(sorted(symptoms.items())), index.lines, tuple(problems), policies, words=words)
