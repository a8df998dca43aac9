"""Files that are given together, with all that is wrong in each: by the toolchain's rules and by the ordinary linter's.

Whatever starts or asks a server is judged by the release of vLLM that the toolchain evaluates with. A program of the
compile container is not: its vLLM is another one, of a release that nobody tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.edge10.scripts import (
    argument_rules,
    compile_rules,
    evaluations,
    host_rules,
    lacking_rules,
    page_rules,
    program_rules,
    quantise_rules,
    readings,
    rename_rules,
    secret_rules,
    serving_rules,
)
from vllm_runbooks.edge10.scripts.readings import Job, ReadFile
from vllm_runbooks.lint.hits import Hit
from vllm_runbooks.lint.judged import Judged
from vllm_runbooks.lint.linting import Asked, Knowledge
from vllm_runbooks.reading.documents import Page

_OURS = "edge10."
_NOT_PYTHON, _NOT_YAML = "file.not-python", "file.not-yaml"


class JudgedFiles:
    """All files that are given together."""

    def __init__(
        self, texts: Mapping[str, str], knowledge: Knowledge, facts: Toolchain, asked: Mapping[str, Asked]
    ) -> None:
        """Read the files.

        Args:
            texts: By name.
            knowledge: The rules, GPUs and models.
            facts: Of the toolchain.
            asked: By name what is asked of the ordinary linter.
        """
        self.texts, self.knowledge, self.facts, self.asked = dict(texts), knowledge, facts, dict(asked)
        known = program_rules.dotted(knowledge.tables)
        files = [
            readings.read(name, text, Judged(text, knowledge, self.asked[name]), facts, known)
            for name, text in self.texts.items()
        ]
        self.job = Job(tuple(files), facts)

    @cached_property
    def files(self) -> dict[str, JudgedFile]:
        """Each file with what is wrong in it."""
        return {file.name: JudgedFile(file, self) for file in self.job.files}

    def again(self, name: str, text: str) -> JudgedFiles:
        """The same files with another text for one of them."""
        return JudgedFiles({**self.texts, name: text}, self.knowledge, self.facts, self.asked)


class JudgedFile:
    """One file with all that is wrong in it."""

    def __init__(self, file: ReadFile, beside: JudgedFiles) -> None:
        """Judge a file among others."""
        self.file, self.beside = file, beside

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.file.text

    @property
    def page(self) -> Page:
        """The text as the ordinary linter reads it."""
        return self.file.judged.page

    @property
    def knowledge(self) -> Knowledge:
        """The rules, GPUs and models."""
        return self.beside.knowledge

    @cached_property
    def hits(self) -> list[Hit]:
        """Every broken rule, in the order of the text; of the same rule at the same place one."""
        found: dict[tuple[str, int, int], Hit] = {}
        rules = self.knowledge.rules
        others = (*self._ordinary(), *self._own())
        shown = (value for value, _ in host_rules.secrets(self.file))
        for hit in (*others, *secret_rules.find(self.text, others, shown)):
            if hit.rule in rules:
                found.setdefault((hit.rule, hit.start, hit.end), hit)
        return sorted(found.values(), key=lambda hit: (hit.start, hit.end, hit.rule))

    def _ordinary(self) -> Iterator[Hit]:
        """What the ordinary linter finds outside of the compile container's programs."""
        for hit in self.file.judged.hits:
            if hit.rule == _NOT_PYTHON or not self.file.is_compiled(hit.start):
                yield hit

    def _own(self) -> Iterator[Hit]:
        job, tables = self.beside.job, self.knowledge.tables
        for part in self.file.parts:
            if part.trouble is not None:
                yield self._unread(part)
            if part.piece.kind == "yaml" and part.has("evaluate"):
                yield from self._no_settings(part)
            yield from compile_rules.find(part, job, tables)
            yield from argument_rules.find(part, job)
            yield from rename_rules.find(part, job)
            yield from lacking_rules.find(part, job)
            yield from program_rules.find(part, job, tables)
            yield from quantise_rules.find(self.file, part, job, tables)
            yield from serving_rules.find(part, job)
            yield from host_rules.find(part, job)
        yield from serving_rules.shared(self.file, job)
        yield from page_rules.find(self.file, job)

    @staticmethod
    def _no_settings(part: readings.Part) -> Iterator[Hit]:
        """Settings of an evaluation that no reader of YAML takes."""
        error = evaluations.broken(part.piece.text)
        if error is not None:
            yield Hit(_NOT_YAML, error.at, error.at, {"says": str(error)})

    @staticmethod
    def _unread(part: readings.Part) -> Hit:
        """A program that Python cannot read, told where Python says."""
        assert part.trouble is not None  # noqa: S101 - for the type checker
        source = part.piece.text
        starts = [0, *(index + 1 for index, sign in enumerate(source.text) if sign == "\n")]
        line = min(max(part.trouble.line or 1, 1), len(starts)) - 1
        at = source.at[min(starts[line], len(source.text))]
        where = f"{part.piece.where}: " if part.piece.where else ""
        return Hit(_NOT_PYTHON, at, at, part.trouble.told, where=where)
