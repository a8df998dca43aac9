"""Tables of plain data: `catalog/tables/<name>.yaml` maps ids to the fields of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog.indexes import indexed
from vllm_runbooks.catalog.table_sources import table_key
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.record_forms import Authored, record
from vllm_runbooks.core.records import Severity

T = TypeVar("T")


@dataclass(frozen=True)
class FindingText(Authored):
    """Meaning of a rule's finding, and the action."""

    severity: Severity
    do: str
    """Action for the finding."""
    source: str
    """Source of the meaning."""
    effect: str = ""
    """Why a launch fails because of it, and how that looks."""
    symptom: str = ""
    """Id of the symptom that shows it in a log."""
    fact: str = ""
    """Description of the fact that the rule needs: printed if it is unknown."""
    needs: tuple[str, ...] = ()
    """Fields that must be known; in `a|b` one of them."""


@dataclass(frozen=True)
class RuleFinding:
    """A finding of a rule, with its meaning and action."""

    id: str
    severity: Severity
    text: str
    """The problem, with the values."""
    do: str
    source: str
    effect: str = ""
    symptom: str = ""
    """Id of the symptom that shows it in a log; empty if there is none."""
    gpus: tuple[int, ...] = ()
    """GPUs that it is about."""
    nodes: tuple[str, ...] = ()
    """Nodes that it is about; the one that differs where most agree."""
    path: str | None = None
    """File or folder that it is about, relative to the one that was checked."""


@dataclass(frozen=True)
class PackageName(Authored):
    """Name under which a Python module is installed."""

    install: str
    """Package, with its extra, as in `vllm[audio]`."""
    rocm: str | None = None
    """Package for ROCm, if it is another one."""


@dataclass(frozen=True)
class ConfigurationField(Authored):
    """Option of a field of a configuration class, `Class.field`, that has another name."""

    option: str
    """Destination of the option."""


@cache
def load_table(name: str, row: type[T]) -> Mapping[str, T]:
    """The rows of a table by id, in the order of its file; raises InputError if that is missing or broken."""

    def decode(index: Any) -> dict[str, T]:
        if index.get("problems"):
            raise InputError("; ".join(index["problems"]))
        return {row_id: record(row, fields) for row_id, fields in index["rows"].items()}

    def compile_rows(root: Path) -> tuple[dict[str, Any], list[str]]:
        compile_table: Callable[..., tuple[dict[str, Any], list[str]]] = resolve_name(
            "vllm_runbooks.catalog.authored.table_files:compile_table"
        )
        return compile_table(root, name, row)

    return indexed(
        f"table-{name}", folders.catalog_dir(), lambda root: table_key(root, name, row), compile_rows, decode
    )


class LazyTable(Mapping[str, T]):
    """The rows of a table, loaded when first used."""

    def __init__(self, name: str, row: type[T]) -> None:
        self._name, self._row = name, row

    def _rows(self) -> Mapping[str, T]:
        row: Any = self._row
        return load_table(self._name, row)

    def __getitem__(self, row_id: str) -> T:
        return self._rows()[row_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())
