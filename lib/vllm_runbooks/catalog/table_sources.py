"""The tables of `catalog/tables` and the classes of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vllm_runbooks.catalog.compiled import digest

TABLES: Mapping[str, str] = {
    "edge10_artefact_findings": "vllm_runbooks.catalog.tables:FindingText",
    "edge10_host_findings": "vllm_runbooks.catalog.tables:FindingText",
}
"""By name of a table the class of its rows, as `module:Class`: imported only to check and compile it."""


def table_source(root: Path, name: str) -> Path:
    """The authored file of a table."""
    return root / "tables" / f"{name}.yaml"


def table_key(root: Path, name: str, row: type) -> str:
    """Key of a table's compiled index."""
    return digest((table_source(root, name),), row)
