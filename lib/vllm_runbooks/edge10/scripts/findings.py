"""Check files together, by the toolchain's rules and by the general linter's.

Commands that launch or query a server are checked for the release of vLLM that the toolchain
evaluates with. Programs in the compile container are not: its vLLM is another, unknown release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.scripts import (
    compile_rules,
    evaluations,
    page_rules,
    program_rules,
    quantise_rules,
    readings,
    secret_rules,
    serving_rules,
)
from vllm_runbooks.edge10.scripts.readings import FilePart, ReadFile, ScriptSet
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.linted_text import LintedText, LintRequest
from vllm_runbooks.lint.linting import Knowledge
from vllm_runbooks.reading.documents import LaunchFile

_NOT_PYTHON, _NOT_YAML = "file.not-python", "file.not-yaml"


class CheckedScripts:
    """Files that are checked together."""

    def __init__(
        self, texts: Mapping[str, str], knowledge: Knowledge, facts: Toolchain, requests: Mapping[str, LintRequest]
    ) -> None:
        """Read the files; `requests` has the requests to the general linter, by name."""
        self.texts, self.knowledge, self.facts, self.requests = dict(texts), knowledge, facts, dict(requests)
        imports = program_rules.known_imports(knowledge.tables)
        files = (
            readings.read_file(name, text, LintedText(text, knowledge, self.requests[name]), facts, imports)
            for name, text in self.texts.items()
        )
        self.scripts = ScriptSet(tuple(files), facts)

    @cached_property
    def files(self) -> dict[str, CheckedScript]:
        return {file.name: CheckedScript(file, self) for file in self.scripts.files}

    def with_text(self, name: str, text: str) -> CheckedScripts:
        return CheckedScripts({**self.texts, name: text}, self.knowledge, self.facts, self.requests)


class CheckedScript:
    """One file with its findings."""

    def __init__(self, file: ReadFile, group: CheckedScripts) -> None:
        self.file, self.group = file, group

    @property
    def text(self) -> str:
        return self.file.text

    @property
    def page(self) -> LaunchFile:
        return self.file.judged.page

    @property
    def knowledge(self) -> Knowledge:
        return self.group.knowledge

    @cached_property
    def hits(self) -> list[Hit]:
        """Findings in the order of the text, one per rule and location."""
        hits: dict[tuple[str, int, int], Hit] = {}
        others = (*self._ordinary(), *self._of_toolchain())
        for hit in (*others, *secret_rules.find_logins(self.file)):
            if hit.rule in self.knowledge.rules:
                hits.setdefault((hit.rule, hit.start, hit.end), hit)
        selected = self.file.judged.selected([*hits.values()])
        return sorted(selected, key=lambda hit: (hit.start, hit.end, hit.rule))

    def _ordinary(self) -> Iterator[Hit]:
        """Findings of the ordinary linter, outside of the compile container's programs."""
        for hit in self.file.judged.all_hits:
            if hit.rule == _NOT_PYTHON or not self.file.is_compiled(hit.start):
                yield hit

    def _of_toolchain(self) -> Iterator[Hit]:
        scripts, tables = self.group.scripts, self.knowledge.tables
        for part in self.file.parts:
            yield from _find_unreadable(part)
            yield from compile_rules.find(part, scripts, tables)
            yield from program_rules.find(part, scripts, tables)
            yield from quantise_rules.find(part, scripts)
            yield from serving_rules.find(part, scripts)
            yield from secret_rules.find_passwords(part)
        yield from quantise_rules.find_unconverted(self.file, scripts)
        yield from page_rules.find(self.file, scripts)


def _find_unreadable(part: FilePart) -> Iterator[Hit]:
    source = part.piece.text
    if part.piece.kind == "yaml" and part.has("evaluate"):
        error = evaluations.find_yaml_error(source)
        if error is not None:
            yield Hit(_NOT_YAML, error.at, error.at, {"says": str(error)})
    if part.error is not None:
        starts = [0, *(index + 1 for index, sign in enumerate(source.text) if sign == "\n")]
        line = min(max(part.error.line or 1, 1), len(starts)) - 1
        at = source.at[min(starts[line], len(source.text))]
        where = f"{part.piece.where}: " if part.piece.where else ""
        yield Hit(_NOT_PYTHON, at, at, part.error.told, where=where)
