"""Validate authored records with pydantic, and checks that several kinds of files share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.authored import located as authored
from vllm_runbooks.catalog.authored.located import Location, Problem, plain
from vllm_runbooks.catalog.indexes import Index
from vllm_runbooks.core.errors import CatalogError
from vllm_runbooks.core.record_forms import document

L = TypeVar("L", str, Location)
T = TypeVar("T")
_MESSAGES = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
}


def parsed(adapter: TypeAdapter[Any], data: Any) -> tuple[Any, list[Problem]]:
    """Record of the data, None if invalid, and the problems."""
    try:
        return adapter.validate_json(json.dumps(plain(data)), strict=True), []
    except ValidationError as error:
        problems: list[Problem] = []
        for detail in error.errors(include_url=False, include_input=True):
            location = tuple(p.removesuffix("_") if isinstance(p, str) else p for p in detail["loc"])
            value = json.dumps(detail["input"], default=str)[:60]
            message = _MESSAGES.get(detail["type"], f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {value}")
            problems.append((location, message))
        return None, problems
    except (TypeError, ValueError, RecursionError) as error:
        return None, [((), str(error).splitlines()[0])]


def read_record(path: Path, where: str, adapter: TypeAdapter[T], problems_of: Callable[[T], Iterable[Problem]]) -> T:
    """Record of an authored file.

    Raises CatalogError with every problem, including `problems_of`.
    """
    record: T = authored.read_record(path, where, partial(parsed, adapter), problems_of)
    return record


def compile_files(paths: Iterable[Path], root: Path, read: Callable[[Path, str], Any]) -> tuple[list[Any], list[str]]:
    """The documents of the authored files that are good, and the problems of the others, one a line."""
    documents, problems = [], []
    for path in paths:
        try:
            documents.append(document(read(path, str(path.relative_to(root)))))
        except CatalogError as error:
            problems += str(error).splitlines()
    return documents, problems


def compile_records(
    index: Index[Any], root: Path, read: Callable[[Path, str], Any]
) -> tuple[dict[str, Any], list[str]]:
    """Index of a catalog folder's files, with the valid ones by name, and the problems."""
    documents, problems = compile_files(filter(Path.is_file, index.sources(root)), root, read)
    return {"key": index.key(root), index.name: documents}, problems


def not_one_of(location: L, value: object, allowed: Collection[str]) -> Iterator[tuple[L, str]]:
    """Yield the problem of a value that is not one of the allowed ones; None always is."""
    if value is not None and value not in allowed:
        yield location, f"{value!r} is not one of {', '.join(allowed)}"


def date_problems(written: str) -> Iterator[Problem]:
    """Problems of the date on which something was verified."""
    try:
        date.fromisoformat(written)
    except ValueError:
        yield ("verified", "date"), f"{written!r} is not a date; write '2026-11-20'"


def unknown_commands(text: str) -> Iterator[str]:
    """Problems of commands in a text that are not in the table."""
    for part in host_commands.unknown(text):
        yield f"`{part}` is not in tables/host_commands.yaml; add it there with its effect and how to undo it"
