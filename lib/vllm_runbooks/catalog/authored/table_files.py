"""Check and compile the tables of `catalog/tables`."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog.authored.located import plain, read_yaml
from vllm_runbooks.catalog.authored.yaml_files import read_record
from vllm_runbooks.catalog.table_sources import TABLES, table_key, table_source
from vllm_runbooks.core.errors import CatalogError


@cache
def adapter(row: type) -> TypeAdapter[Any]:
    return TypeAdapter(dict[str, row])  # type: ignore[valid-type] # a class that is chosen by name


def adapters() -> dict[str, TypeAdapter[Any]]:
    """Validator of each table, by name."""
    return {name: adapter(resolve_name(row)) for name, row in TABLES.items()}


def read_table(path: Path, where: str | None = None) -> dict[str, Any]:
    row = TABLES.get(path.stem)
    if row is None:
        raise CatalogError(f"{where or path}:1: (file): unknown table; known: {', '.join(TABLES)}")
    return _read(path, where or path.name, resolve_name(row))


def _read(path: Path, where: str, row: type) -> dict[str, Any]:
    rows: dict[str, Any] = read_record(path, where, adapter(row), lambda _: ())
    return rows


def compile_table(root: Path, name: str, row: type) -> tuple[dict[str, Any], list[str]]:
    """Compile a table to its index; also returns its problems, one a line.

    The index has the values as they are written: a record's JSON form has only four decimals.
    """
    path = table_source(root, name)
    key = table_key(root, name, row)
    try:
        _read(path, str(path.relative_to(root)), row)
    except CatalogError as error:
        return {"key": key, "rows": {}}, str(error).splitlines()
    return {"key": key, "rows": plain(read_yaml(path))}, []


def compilers() -> dict[str, Any]:
    """By name of the index the function that compiles a table from a catalog folder."""
    return {f"table-{name}": partial(compile_table, name=name, row=resolve_name(row)) for name, row in TABLES.items()}
