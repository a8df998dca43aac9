"""Read, check and compile `entrances.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_runbooks.catalog import compiled
from vllm_runbooks.catalog.authored.located import Location, Problem, named, read_yaml
from vllm_runbooks.catalog.authored.yaml_files import compile_records, read_record, unknown_commands
from vllm_runbooks.catalog.records import Entrance, Symptom
from vllm_runbooks.core.errors import CatalogError

ADAPTER = TypeAdapter(list[Entrance])
_ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){0,8}", re.ASCII)
_PROGRAM = "vllm-runbooks"


def read_entrances(path: Path, where: str | None = None) -> list[Entrance]:
    entrances: list[Entrance] = read_record(
        path, where or path.name, ADAPTER, lambda read: _problems(read, path.parent)
    )
    return entrances


def _problems(entrances: list[Entrance], root: Path) -> Iterator[Problem]:
    ids = [entrance.id for entrance in entrances]
    symptoms = {file.stem for file in (root / "symptoms").glob("*.yaml")}
    for index, entrance in enumerate(entrances):
        if ids.index(entrance.id) != index or not _ID.fullmatch(entrance.id):
            yield (index, "id"), f"{entrance.id!r} is not a unique id; use lowercase words with hyphens"
        for location, problem in _entrance_problems(entrance, symptoms, root.parent):
            yield (index, *location), problem


def _entrance_problems(entrance: Entrance, symptoms: Iterable[str], data: Path) -> Iterator[tuple[Location, str]]:
    if not (entrance.runbook or entrance.commands):
        yield ("commands",), "is empty; use a vllm-runbooks command, or a runbook"
    for number, name in enumerate(entrance.symptoms):
        if not any(id_ == name or id_.startswith(f"{name}.") for id_ in symptoms):
            yield ("symptoms", number), f"{name!r} is neither a symptom nor a group of them"
    for number, command in enumerate(entrance.commands):
        if command.split()[:1] != [_PROGRAM]:
            yield ("commands", number), f"is not a vllm-runbooks command; start it with {_PROGRAM}"
    for field, folder, ending in (("runbook", "runbooks", "ipynb"), ("page", "docs", "md")):
        name = getattr(entrance, field)
        if name and (data / folder).is_dir() and not (data / folder / f"{name}.{ending}").is_file():
            yield (field,), f"{name!r} is not in {folder}/; name one that is, or leave the field out"
    for field in ("sees", "says"):
        for wrong in unknown_commands(getattr(entrance, field)):
            yield (field,), wrong


def line_problems(path: Path, symptoms: Iterable[Symptom]) -> list[str]:
    """Problems of lines that are in no example of the symptoms that they lead to."""
    try:
        entrances = read_entrances(path)
    except CatalogError:
        return []  # reported when the file itself is checked
    texts = [(symptom.id, "\n".join(example.text for example in symptom.examples)) for symptom in symptoms]
    problems = [
        ((index, "lines", number), "is not in any example of its symptoms; quote one as printed")
        for index, entrance in enumerate(entrances)
        for number, line in enumerate(entrance.lines)
        if not any(line in text for name, text in texts if entrance.leads_to(name))
    ]
    return named(read_yaml(path), path.name, problems) if problems else []


def compile_entrances(root: Path) -> tuple[dict[str, Any], list[str]]:
    return compile_records(compiled.ENTRANCES, root, read_entrances)
