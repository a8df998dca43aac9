"""Tables of plain data: checked with the place of every fault, compiled, loaded as records in the order of the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vllm_runbooks.authoring import checks
from vllm_runbooks.catalog import folders, table_sources
from vllm_runbooks.catalog.authored import table_files
from vllm_runbooks.catalog.tables import FindingText, load_table
from vllm_runbooks.core.errors import CatalogError, InputError
from vllm_runbooks.core.records import Severity

GOOD = """nodes.b:
  severity: fatal
  do: Replace the cable.
  source: https://example.org/b
  needs: [used_mib]
nodes.a:
  severity: hint
  do: Nothing.
  source: https://example.org/a
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose catalog has one table, in place of the shipped ones."""
    root = tmp_path / "catalog"
    (root / "tables").mkdir(parents=True)
    shutil.copy(folders.catalog_dir() / "lines.yaml", root)
    monkeypatch.setenv(folders.DATA, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(table_sources, "TABLES", {"things": "vllm_runbooks.catalog.tables:FindingText"})
    monkeypatch.setattr(table_files, "TABLES", table_sources.TABLES)
    load_table.cache_clear()
    path = root / "tables" / "things.yaml"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_rows_are_records_in_the_order_of_the_file(table: Path) -> None:
    """They are loaded by id, from YAML the first time and from the compiled index afterwards."""
    rows = load_table("things", FindingText)
    load_table.cache_clear()

    assert list(rows) == ["nodes.b", "nodes.a"]
    assert rows["nodes.b"].severity is Severity.FATAL
    assert rows["nodes.b"].needs == ("used_mib",)
    assert load_table("things", FindingText) == rows
    checks.check_file(table)


def test_an_error_is_named_by_file_line_and_field(table: Path) -> None:
    """In the file, in the folder, and when the table is loaded."""
    table.write_text(GOOD.replace("severity: hint", "severity: bad\n  colour: red"), encoding="utf-8")

    with pytest.raises(CatalogError, match=r"things.yaml:7: nodes.a.severity: .*\n.*things.yaml:8: nodes.a.colour: "):
        checks.check_file(table)
    assert any("tables/things.yaml:7: nodes.a.severity" in line for line in checks.check_folder(table.parents[1])[1])
    with pytest.raises(InputError, match=r"tables/things.yaml:8: nodes.a.colour: is not a known field"):
        load_table("things", FindingText)


def test_an_unused_table_is_rejected(table: Path) -> None:
    """Its name is wrong, or its reader was removed."""
    other = table.rename(table.with_name("thinks.yaml"))

    with pytest.raises(CatalogError, match="unknown table; known: things"):
        checks.check_file(other)


def test_every_shipped_table_is_registered() -> None:
    """By its name, with a class whose rows it has."""
    shipped = {path.stem for path in (folders.catalog_dir() / "tables").glob("*.yaml")}

    assert shipped == set(table_sources.TABLES)
    for name in shipped:
        assert table_files.read_table(folders.catalog_dir() / "tables" / f"{name}.yaml")
