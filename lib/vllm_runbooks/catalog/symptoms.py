"""The catalog of symptoms, policies and line formats, with their patterns ready to match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog.records import LineFormat, Policy, Symptom
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.scan import PatternSet


class Meaning(NamedTuple):
    """The symptom or line format that uses a pattern."""

    kind: str
    """"line", "signature" or "companion"."""
    id: str
    position: int
    """Index of the line format in the catalog, or of the signature in its symptom."""


@dataclass(frozen=True)
class Catalog:
    """The symptoms and line formats, with their patterns ready to match."""

    symptoms: Mapping[str, Symptom]
    lines: tuple[LineFormat, ...]
    problems: tuple[str, ...] = ()
    """Files that were skipped, one line each: file, line, field, problem."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False, compare=False)
    """Words that every match of a pattern has (`scan.literals`), by pattern."""
    lang: str | None = None
    """Language of the symptoms' texts; None for English."""
    english: Catalog | None = field(default=None, repr=False, compare=False)
    """English catalog of which this is a translation, sharing its slow-to-compile patterns; None if
    this is the English one."""
    _told: dict[str, Catalog] = field(default_factory=dict, init=False, repr=False, compare=False)

    def told_in(self, lang: str) -> Catalog:
        """The catalog with its texts in a language; untranslated texts are English with a mark."""
        if lang in self._told:
            return self._told[lang]
        mark = languages.LANGUAGES[lang].mark
        policies = {
            name: replace(policy, steps=tuple(replace(step, title=f"{mark}{step.title}") for step in policy.steps))
            for name, policy in self.policies.items()
        }
        symptoms = {name: languages.told_in(symptom, lang) for name, symptom in self.symptoms.items()}
        self._told[lang] = replace(self, symptoms=symptoms, policies=policies, lang=lang, english=self)
        return self._told[lang]

    def policy(self, name: str) -> Policy:
        if name not in self.policies:
            raise InputError(f"{name}: unknown policy; known: {', '.join(sorted(self.policies)) or 'none'}")
        return self.policies[name]

    @cached_property
    def patterns(self) -> PatternSet:
        """All patterns in one set, each once; `meanings` has their users."""
        return PatternSet(list(self._table), known=self.words) if self.english is None else self.english.patterns

    @cached_property
    def _table(self) -> dict[str, list[Meaning]]:
        table: dict[str, list[Meaning]] = {}
        for index, line in enumerate(self.lines):
            for pattern in line.patterns:
                table.setdefault(pattern, []).append(Meaning("line", line.id, index))
        for symptom in self.symptoms.values():
            for kind, signatures in (("signature", symptom.signatures), ("companion", symptom.companions)):
                for index, signature in enumerate(signatures):
                    table.setdefault(signature.pattern, []).append(Meaning(kind, symptom.id, index))
        return table

    @cached_property
    def _meanings(self) -> list[list[Meaning]]:
        return list(self._table.values())

    def meanings(self, pattern: int) -> Sequence[Meaning]:
        """Meanings of a pattern of `patterns`: several symptoms may use the same words."""
        return self._meanings[pattern]
