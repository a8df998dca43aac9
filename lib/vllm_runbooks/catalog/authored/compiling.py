"""A catalog folder to its index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import compiled
from vllm_runbooks.catalog.authored.policy_files import read_policy
from vllm_runbooks.catalog.authored.symptom_files import read_symptom
from vllm_runbooks.catalog.authored.tables import read_line_formats
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.record_forms import document


def compile_index(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder; returns the index of what is good, and the problems, one line each."""
    problems: list[str] = []
    symptoms, policies, formats = [], [], []
    for path in compiled.sources(root):
        where = str(path.relative_to(root))
        try:
            if path.parent.name == "symptoms":
                symptoms.append(document(read_symptom(path, where)))
            elif path.parent.name == "policies":
                policies.append(document(read_policy(path, where)))
            elif path.is_file():
                formats = [document(f) for f in read_line_formats(path, where)]
        except CatalogError as error:
            problems += str(error).splitlines()
    index = {"key": compiled.key(root), "symptoms": symptoms, "policies": policies, "lines": formats}
    return index, problems
