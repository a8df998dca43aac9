"""Read and check the vocabularies, shared patterns and printed lines of a catalog folder."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from vllm_runbooks.catalog import folders, records
from vllm_runbooks.catalog.authored.located import Problem, named, plain, read_yaml
from vllm_runbooks.catalog.authored.yaml_files import parsed
from vllm_runbooks.catalog.records import LineFormat
from vllm_runbooks.core import scan
from vllm_runbooks.core.errors import CatalogError

ADAPTER: TypeAdapter[Any] = TypeAdapter(list[LineFormat])
T = TypeVar("T")
_GROUP = re.compile(r"\(\?P<(\w+)>")


def read_words(path: Path, where: str | None = None) -> dict[str, str]:
    """Read a vocabulary, each word with its meaning.

    Raises CatalogError with every problem, one per line.
    """
    where = where or path.name
    data = read_yaml(path, where)
    if not isinstance(data, dict):
        raise CatalogError(f"{where}:1: (file): must map each word to its description")
    problems: list[Problem] = [
        ((word,), "needs a description") for word, meaning in data.items() if not isinstance(meaning, str)
    ]
    if problems:
        raise CatalogError("\n".join(named(data, where, problems)))
    return {str(word): str(meaning) for word, meaning in data.items()}


@cache
def _read(read: Callable[[Path], T], path: Path, _content: str) -> T:
    return read(path)


def _merged(name: str, root: Path, read: Callable[[Path], dict[str, T]]) -> dict[str, T]:
    """The shipped file of that name, with that of the user's own folder on top."""
    merged: dict[str, T] = {}
    for folder in dict.fromkeys((folders.catalog_dir(), root)):
        path = folder / f"{name}.yaml"
        if path.is_file():
            merged.update(_read(read, path, hashlib.sha256(path.read_bytes()).hexdigest()))
    return merged


def words(name: str, root: Path | None = None) -> dict[str, str]:
    return _merged(name, root or folders.catalog_dir(), read_words)


def pattern_faults(pattern: str) -> list[str]:
    """Reasons why a pattern is invalid, including warnings of `re`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return scan.faults(pattern)
        except FutureWarning as warning:
            return [f"is ambiguous: {warning}; escape the sign"]


def groups(text: str) -> set[str]:
    """Names of the groups of the patterns in a text."""
    return set(_GROUP.findall(text))


def read_patterns(path: Path, where: str | None = None) -> dict[str, list[str]]:
    """Read shared patterns, each name with its wordings; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    if not isinstance(data, dict):
        raise CatalogError(f"{where}:1: (file): must map each name to a list of patterns")
    shared: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for name, wordings in data.items():
        listed = plain(wordings, "patterns") if isinstance(wordings, list) else None
        if not listed or not all(isinstance(wording, str) for wording in listed):
            problems.append(((name,), "must be a list of patterns"))
            continue
        shared[str(name)] = listed
        problems += [
            ((name, index), f"the pattern {fault}")
            for index, wording in enumerate(listed)
            for fault in pattern_faults(wording)
        ]
    if problems:
        raise CatalogError("\n".join(named(data, where, problems)))
    return shared


def shared_patterns(root: Path) -> dict[str, list[str]]:
    return _merged("patterns", root, read_patterns)


def read_line_formats(path: Path, where: str | None = None) -> list[LineFormat]:
    """Read the table of printed lines; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    formats, problems = parsed(ADAPTER, data)
    for index, line_format in enumerate(formats or ()):
        for number, pattern in enumerate(line_format.patterns):
            problems += [((index, "patterns", number), f"the pattern {fault}") for fault in pattern_faults(pattern)]
        if line_format.phase is not None and line_format.phase not in records.PHASES:
            problems.append(((index, "phase"), f"is not a phase; use one of {', '.join(records.PHASES)}"))
    if problems or formats is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    result: list[LineFormat] = formats
    return result
