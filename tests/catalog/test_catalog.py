"""The data folder is found in a fixed order, and the index is current or compiled."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vllm_runbooks.catalog import compiled, folders, indexes
from vllm_runbooks.catalog.authored import compiling, symptom_files
from vllm_runbooks.catalog.records import Rule, Symptom
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.scan import literals


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A small catalog folder."""
    (tmp_path / "own" / "symptoms").mkdir(parents=True)
    source = folders.catalog_dir() / "symptoms" / "port.in_use.yaml"
    shutil.copy(source, tmp_path / "own" / "symptoms")
    return tmp_path / "own"


def test_the_data_folder_is_given_by_environment_or_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each contains a folder catalog/."""
    (tmp_path / "b" / "catalog").mkdir(parents=True)
    checkout = Path(__file__).resolve().parents[2]

    assert folders.data_dir() == checkout
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path / "b"))
    assert folders.data_dir() == tmp_path / "b"
    assert folders.runbooks_dir() == tmp_path / "b" / "runbooks"


def test_an_invalid_data_folder_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the expected input."""
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))
    with pytest.raises(InputError, match="no catalog folder; use the folder that contains"):
        folders.data_dir()


def test_outside_a_checkout_the_data_lies_in_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in an installed wheel."""
    monkeypatch.setattr(
        folders, "__file__", str(tmp_path / "site-packages" / "vllm_runbooks" / "catalog" / "folders.py")
    )

    assert folders.data_dir() == (tmp_path / "site-packages" / "vllm_runbooks" / "_data").resolve()


def test_folders_may_be_given(tmp_path: Path) -> None:
    """A missing one is rejected."""
    assert folders.cases_dir(str(tmp_path)) == tmp_path
    with pytest.raises(InputError, match="is not a folder of runbooks; use an existing one"):
        folders.runbooks_dir(str(tmp_path / "none"))


@cache
def shipped() -> tuple[dict[str, Any], list[str]]:
    """The catalog, compiled once: that takes seconds."""
    return compiling.compile_index(folders.catalog_dir())


@pytest.mark.slow
def test_the_index_is_cached_by_the_digest_of_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second load compiles nothing; a damaged file is compiled again; else it raises."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    roots: list[Path] = []

    def compile_(root: Path) -> tuple[dict[str, Any], list[str]]:
        roots.append(root)
        return shipped()

    first = compiled.load(compile_)
    kept = next(tmp_path.rglob("index-*.json"))
    assert compiled.load(compile_).symptoms == first.symptoms
    assert len(roots) == 1
    key = compiled.key(folders.catalog_dir())
    damages: list[Any] = [
        [],
        {"symptoms": 3},
        {"key": key, "symptoms": [], "lines": [], "problems": 3},
        {"key": "x", "symptoms": [], "lines": []},
    ]
    damages += [{"key": key, "symptoms": [{"id": "a"}], "lines": []}, {"key": key, "symptoms": [3], "lines": []}]
    damages += [{"key": key, "symptoms": [], "lines": [{"no": 1}]}, {"key": key}]
    for damage in ("{", *map(json.dumps, damages)):
        kept.write_text(damage)
        assert compiled.load(compile_).symptoms == first.symptoms
    assert len(roots) == 10
    kept.unlink()
    monkeypatch.setitem(sys.modules, compiling.__name__, None)
    with pytest.raises(InputError, match="the catalog is not compiled; run `vllm-runbooks catalog check` once"):
        compiled.load()


def test_a_packaged_index_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wheel contains it next to its sources."""
    index, _ = shipped()
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "index.json").write_text(json.dumps({**index, "symptoms": index["symptoms"][:1]}))
    monkeypatch.setenv("VLLM_RUNBOOKS_DATA", str(tmp_path))

    assert len(compiled.load().symptoms) == 1


def test_the_index_returns_the_records(own: Path) -> None:
    """A compiled and loaded symptom equals its source."""
    loaded = compiled.load(compiling.compile_index, user_folders=[own])

    assert loaded.symptoms["port.in_use"] == symptom_files.read_symptom(own / "symptoms" / "port.in_use.yaml")
    assert list(loaded.symptoms) == sorted(loaded.symptoms)


def test_a_symptom_of_ones_own_replaces_the_shipped_one_and_a_broken_file_is_left_out(own: Path) -> None:
    """The rest works; the broken one is named with its folder."""
    path = own / "symptoms" / "port.in_use.yaml"
    path.write_text(path.read_text().replace("title: Port", "title: My port"))
    (own / "symptoms" / "broken.yaml").write_text("- a\n")
    (own / "index.json").write_text("{}")
    loaded = compiled.load(compiling.compile_index, user_folders=[str(own)])

    assert loaded.symptoms["port.in_use"].title.startswith("My port")
    assert len(loaded.problems) == 1
    assert loaded.problems[0].startswith(f"{own}/symptoms/broken.yaml:1: (file): input should be an object")
    with pytest.raises(InputError, match="no folder symptoms/; put your symptom files into"):
        compiled.load(compiling.compile_index, user_folders=[own / "symptoms"])


def test_every_pattern_has_its_owners() -> None:
    """A shared pattern is in the set once."""
    shelf = compiled.load(compiling.compile_index)
    patterns = shelf.patterns.patterns
    meanings = [meaning for index in range(len(patterns)) for meaning in shelf.meanings(index)]
    asked = [len(line.patterns) for line in shelf.lines]
    asked += [len(symptom.signatures) + len(symptom.companions) for symptom in shelf.symptoms.values()]

    assert len(set(patterns)) == len(patterns)
    assert len(meanings) == sum(asked)
    assert {kind for kind, _, _ in meanings} == {"line", "signature", "companion"}
    assert all(name in shelf.symptoms for kind, name, _ in meanings if kind != "line")


def test_the_index_is_not_that_of_another_release_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name depends on the code that compiles it, and a table's on the fields of its rows."""
    before = compiled.key(folders.catalog_dir())
    table = indexes.digest((), Symptom)
    assert table not in (indexes.digest(()), indexes.digest((), Rule))
    monkeypatch.setattr(indexes, "_code", lambda: b"changed")
    assert compiled.key(folders.catalog_dir()) != before
    assert indexes.digest((), Symptom) != table


def test_compiled_words_are_those_of_the_patterns() -> None:
    """The compiled catalog has the words of each pattern, so that no command computes them."""
    shelf = compiled.load()
    assert {p: tuple(words) for p, words in shelf.words.items()} == {p: literals(p) for p in shelf.patterns.patterns}


def test_the_catalog_is_compiled_once_without_a_writable_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then kept in the temporary folder, unless somebody else could have written there."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    calls = []

    def compiler(root: Path) -> tuple[dict[str, Any], list[str]]:
        calls.append(root)
        return {"key": "k"}, []

    def load() -> None:
        indexes.indexed("x", tmp_path, lambda _: "k", compiler, dict)

    load()
    load()
    assert len(calls) == 1
    next(tmp_path.glob("vllm-runbooks-*")).chmod(0o777)
    load()
    assert len(calls) == 2


def test_lines_in_your_own_folder_are_rejected(own: Path) -> None:
    """They would be left out in silence otherwise."""
    (own / "lines.yaml").write_text("[]\n")
    loaded = compiled.load(compiling.compile_index, user_folders=[own])

    assert [p for p in loaded.problems if "only symptoms and policies may be added" in p] == [
        f"{own}/lines.yaml:1: (file): is not used: only symptoms and policies may be added; remove the file"
    ]
    assert loaded.lines == compiled.load(compiling.compile_index).lines
