"""Compile the symptoms, policies and printed lines of a catalog folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import compiled
from vllm_runbooks.catalog.authored.policy_files import read_policy
from vllm_runbooks.catalog.authored.symptom_files import read_symptom
from vllm_runbooks.catalog.authored.tables import read_line_formats
from vllm_runbooks.catalog.authored.yaml_files import compile_files
from vllm_runbooks.core.scan import literals


def compile_index(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder; returns the index of valid entries, and a line per problem."""
    index: dict[str, Any] = {"key": compiled.key(root), "symptoms": [], "policies": [], "lines": []}
    index["lines"], problems = compile_files(filter(Path.is_file, [root / "lines.yaml"]), root, read_line_formats)
    index["lines"] = index["lines"][0] if index["lines"] else []
    for kind, read in (("symptoms", read_symptom), ("policies", read_policy)):
        index[kind], faults = compile_files(sorted((root / kind).glob("*.yaml")), root, read)
        problems += faults
    patterns = [pattern for line_format in index["lines"] for pattern in line_format["patterns"]]
    for symptom in index["symptoms"]:
        patterns += [signature["pattern"] for kind in ("signatures", "companions") for signature in symptom[kind]]
    index["words"] = {pattern: literals(pattern) for pattern in patterns}
    return index, problems
