"""Tables of plain data: `catalog/tables/<name>.yaml` maps ids to the fields of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeVar

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.compiled import indexed
from vllm_runbooks.catalog.table_sources import table_key
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import AUTHORED, record
from vllm_runbooks.core.records import Severity

T = TypeVar("T")


@dataclass(frozen=True)
class FindingText:
    """What a rule's finding means, and what to do about it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    severity: Severity
    do: str
    """What to do about it."""
    source: str
    """Where the meaning can be looked up."""
    effect: str = ""
    """Why a launch fails because of it, and how that looks."""
    symptom: str = ""
    """Id of the symptom by which a log shows it."""
    fact: str = ""
    """The fact that the rule looks at, in words: printed where it is unknown."""
    needs: tuple[str, ...] = ()
    """Fields that must be known; in `a|b` one of them."""


@dataclass(frozen=True)
class RuleFinding:
    """What a rule found, what it means and what to do about it."""

    id: str
    severity: Severity
    text: str
    """What is wrong, with the values."""
    do: str
    source: str
    effect: str = ""
    symptom: str = ""
    """Id of the symptom by which a log shows it; empty if there is none."""
    gpus: tuple[int, ...] = ()
    """GPUs that it is about."""
    nodes: tuple[str, ...] = ()
    """Nodes that it is about; the one that differs where most agree."""
    path: str | None = None
    """File or folder that it is about, relative to the one that was checked."""


@cache
def load_table(name: str, row: type[T]) -> Mapping[str, T]:
    """Load the rows of a table by id, in the order of the file.

    Args:
        name: Name of the file without its ending.
        row: Class of the rows, as in `table_sources.TABLES`.

    Raises:
        InputError: the file is missing or broken.
    """

    def compile_table(root: Path) -> tuple[dict[str, Any], list[str]]:
        # By name: in the browser, which reads the compiled table, what compiles it is missing.
        compiler = resolve_name("vllm_runbooks.catalog.authored.table_files:compile_table")
        index, problems = compiler(root, name, row)
        return index, problems

    def decoded(index: Any) -> dict[str, T]:
        if index.get("problems"):
            raise InputError("; ".join(index["problems"]))
        return {row_id: record(row, fields) for row_id, fields in index["rows"].items()}

    return indexed(
        f"table-{name}", folders.catalog_dir(), lambda root: table_key(root, name, row), compile_table, decoded
    )
