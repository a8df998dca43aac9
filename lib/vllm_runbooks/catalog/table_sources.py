"""The tables of `catalog/tables` and the classes of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vllm_runbooks.catalog.indexes import digest

TABLES: Mapping[str, str] = {
    "host_commands": "vllm_runbooks.catalog.host_commands:HostCommand",
    "languages": "vllm_runbooks.catalog.languages:Language",
    "launch_rules": "vllm_runbooks.catalog.start_rules:ReleaseChanges",
}
"""By name of a table the class of its rows, as `module:Class`: imported only to check and compile it."""


def table_source(root: Path, name: str) -> Path:
    return root / "tables" / f"{name}.yaml"


def table_key(root: Path, name: str, row: type) -> str:
    return digest((table_source(root, name),), row)
