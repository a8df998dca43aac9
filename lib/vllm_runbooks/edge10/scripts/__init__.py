"""Check scripts of a toolchain's steps: they are read, and never executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.edge10.scripts import program_rules, readings
from vllm_runbooks.lint.linting import Knowledge


@dataclass(frozen=True)
class CompilePrograms:
    """Programs of a text that run in the compile container."""

    programs: tuple[Excerpt, ...]
    says: Mapping[str, str]

    def holds(self, offset: int) -> bool:
        return any(readings.contains_offset(program, offset) for program in self.programs)


def apart(text: str, name: str, knowledge: Knowledge, facts: Toolchain) -> CompilePrograms | None:
    """Programs of a text that run in the compile container, whose vLLM is another release; None if there are none."""
    if not any(module in text for module in facts.steps["compile"].modules):
        return None
    programs = readings.find_compile_programs(text, name, facts, program_rules.known_imports(knowledge.tables))
    return CompilePrograms(tuple(programs), {"toolchain": facts.id}) if programs else None
