"""Observations lead to matching symptoms, runbooks and existing commands."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from rows import in_one_test
from vllm_runbooks.authoring.checks import check_file
from vllm_runbooks.catalog import compiled, folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.authored import entrances_file
from vllm_runbooks.catalog.records import Entrance
from vllm_runbooks.cli import commands
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.diagnosis import diagnosing

ROOT = Path(__file__).resolve().parents[2]
GOOD = """- id: a
  sees: It dies
  says: For a reason.
  lines: ["OSError: [Errno 98] Address already in use"]
  symptoms: [port]
  commands: [vllm-runbooks leftovers]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog folder with two symptoms and room for entrances."""
    (tmp_path / "symptoms").mkdir()
    for name in ("port.in_use", "oom.weights"):
        shutil.copyfile(ROOT / "catalog" / "symptoms" / f"{name}.yaml", tmp_path / "symptoms" / f"{name}.yaml")
    return tmp_path


def test_every_group_of_failures_has_an_entrance() -> None:
    """Every fatal failure is reachable; other symptoms need none."""
    entrances = catalog.entrances()
    symptoms = catalog.load_catalog(()).symptoms
    missed = {name for name in symptoms if not any(entrance.leads_to(name) for entrance in entrances)}

    assert {name.split(".")[0] for name in missed} == {"other"}
    assert {name for entrance in entrances if (name := entrance.runbook)} == {
        path.stem for path in (ROOT / "runbooks").glob("*.ipynb") if path.stem != "start-here"
    }


@in_one_test("entrance", catalog.entrances(), ids=lambda entrance: entrance.id)
def test_a_line_leads_to_the_symptoms_of_its_entrance(entrance: Entrance) -> None:
    """Each pasted line has one of these symptoms, or none on its own."""
    from vllm_runbooks.core.evidence import Document

    for line in entrance.lines:
        found = diagnosing.diagnose(Evidence((Document("pasted", f"{line}\n"),))).findings
        assert [each.symptom for each in found if not entrance.leads_to(each.symptom)] == []


@in_one_test("command", sorted({c for entrance in catalog.entrances() for c in entrance.commands}))
def test_a_command_is_one_that_we_have(command: str) -> None:
    """Its options are read by the command line, which is not run."""
    words = shlex.split(command)[1:]
    context = click.Context(commands)
    name, found, rest = commands.resolve_command(context, words)

    assert found is not None
    found.make_context(name, rest, parent=context).close()


def test_valid_entrances_are_compiled(folder: Path) -> None:
    """The index keeps the order of the file."""
    (folder / "entrances.yaml").write_text(GOOD + GOOD.replace("id: a", "id: b"), "utf-8")
    index, problems = entrances_file.compile_entrances(folder)

    assert problems == []
    assert [each["id"] for each in index["entrances"][0]] == ["a", "b"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: a", "id: A b", "id: 'A b' is not a unique id"),
        ("[port]", "[prt]", "symptoms.0: 'prt' is neither a symptom nor a group of them"),
        ("[vllm-runbooks leftovers]", "[rm -rf x]", "commands.0: is not a vllm-runbooks command"),
        ("  commands: [vllm-runbooks leftovers]\n", "", "commands: is empty"),
        ("sees: It", "seas: It", "seas: is not a known field"),
        (
            "For a reason.",
            "Try `shutdown -h now`.",
            "says: `shutdown -h now` is not in tables/host_commands.yaml",
        ),
    ],
)
def test_errors_are_named(folder: Path, old: str, new: str, said: str) -> None:
    """By file, line and field, next to other errors."""
    path = folder / "entrances.yaml"
    path.write_text(GOOD.replace(old, new), "utf-8")

    with pytest.raises(CatalogError, match=said):
        check_file(path)
    assert [problem for problem in entrances_file.compile_entrances(folder)[1] if said in problem]


def test_an_unknown_line_is_rejected(folder: Path) -> None:
    """It must be in an example of one of the entrance's own symptoms."""
    path = folder / "entrances.yaml"
    symptoms = [s for n, s in catalog.load_catalog(()).symptoms.items() if n in ("port.in_use", "oom.weights")]

    def problems(text: str) -> list[str]:
        path.write_text(text, "utf-8")
        return entrances_file.line_problems(path, symptoms)

    assert problems(GOOD) == []
    assert problems(GOOD.replace("Errno 98", "Errno 99"))[0].startswith(
        "entrances.yaml:4: 0.lines.0: is not in any example"
    )
    assert len(problems(GOOD.replace("[port]", "[oom]"))) == 1


def test_a_runbook_and_a_page_must_exist(tmp_path: Path, folder: Path) -> None:
    """If folders of runbooks and pages exist; other catalogs may have neither."""
    root = tmp_path / "data" / "catalog"
    root.mkdir(parents=True)
    (root / "symptoms").symlink_to(folder / "symptoms")
    path = root / "entrances.yaml"
    path.write_text(f"{GOOD}  runbook: no-such\n  page: no-such\n", "utf-8")
    assert entrances_file.read_entrances(path)[0].page == "no-such"
    for name in ("runbooks", "docs"):
        (root.parent / name).mkdir()

    with pytest.raises(
        CatalogError, match=r"runbook: 'no-such' is not in runbooks/(.|\n)*page: 'no-such' is not in docs/"
    ):
        entrances_file.read_entrances(path)


def test_the_index_is_cached_and_renewed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second time without a compiler; a changed file is compiled again."""
    data = tmp_path / "data"
    (data / "catalog").mkdir(parents=True)
    (data / "catalog" / "symptoms").symlink_to(ROOT / "catalog" / "symptoms")
    path = data / "catalog" / "entrances.yaml"
    path.write_text(GOOD, "utf-8")
    monkeypatch.setenv(folders.DATA, str(data))
    roots: list[Any] = []

    def compiler(root: Path) -> tuple[dict[str, Any], list[str]]:
        roots.append(root)
        return entrances_file.compile_entrances(root)

    assert [each.id for each in compiled.ENTRANCES.load(compiler)] == ["a"]
    assert [each.id for each in compiled.ENTRANCES.load()] == ["a"]
    path.write_text(GOOD.replace("id: a", "id: b"), "utf-8")
    assert [each.id for each in compiled.ENTRANCES.load(compiler)] == ["b"]
    assert len(roots) == 2
