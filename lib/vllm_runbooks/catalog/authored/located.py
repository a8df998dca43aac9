"""Read authored YAML with line numbers, and reject hostile YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent
from ruamel.yaml.parser import RoundTripParser

from vllm_runbooks.core.errors import CatalogError

MAX_BYTES = 256 << 10
MAX_DEPTH = 24

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
"""Location in a file, and the problem there."""


class _GuardedParser(RoundTripParser):
    """Rejects YAML that makes the loader slow, deep or ambiguous: aliases, tags, deep nesting."""

    depth = 0

    def get_event(self) -> Any:
        event = super().get_event()
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            raise CatalogError(f"{line}: aliases (*name) are not allowed; write it out")
        if isinstance(event, (ScalarEvent, CollectionStartEvent)) and event.tag is not None:
            raise CatalogError(f"{line}: tags (!name) are not allowed; write plain YAML")
        self.depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if self.depth > MAX_DEPTH:
            raise CatalogError(f"{line}: nested deeper than {MAX_DEPTH} levels; flatten it")
        return event


@lru_cache(maxsize=1024)
def _loaded(text: str, where: str) -> Any:
    """Data of a YAML text, with positions.

    Cached, because a check reads a catalog several times.
    """
    yaml = YAML(typ="rt", pure=True)
    yaml.Parser = _GuardedParser
    try:
        return yaml.load(text)
    except CatalogError as error:
        raise CatalogError(f"{where}:{error}") from None


def read_yaml(path: Path, where: str | None = None) -> dict[Any, Any] | list[Any]:
    """Read one YAML file, with positions; raises CatalogError with file and line."""
    where = where or path.name
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CatalogError(f"{where}: cannot be read: {error.strerror}; check the path") from None
    if len(raw) > MAX_BYTES:
        raise CatalogError(f"{where}: {len(raw)} bytes; a catalog file has at most {MAX_BYTES}, split it")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CatalogError(f"{where}:{line}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    try:
        data = _loaded(text, where)
    except CatalogError:
        raise
    except Exception as error:  # noqa: BLE001 - on damaged text ruamel.yaml raises nearly anything
        raise CatalogError(f"{where}{_not_yaml(error, text)}") from None
    if not isinstance(data, (dict, list)):
        raise CatalogError(f"{where}:1: not a mapping; `vllm-runbooks catalog new` writes a scaffold")
    return data


def _not_yaml(error: Exception, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    position = getattr(error, "position", None)
    if mark is not None:
        line = f":{mark.line + 1}:{mark.column + 1}"
    else:
        line = f":{text.count(chr(10), 0, position) + 1}" if isinstance(position, int) else ":1"
    is_yaml_error = isinstance(error, YAMLError)
    problem = (
        getattr(error, "problem", None)
        or getattr(error, "reason", None)
        or (error if is_yaml_error else "cannot be parsed")
    )
    message = " ".join(str(problem).split("\n", 1)[0].split()) or "cannot be parsed"
    return f"{line}: not YAML: {message[:200]}; compare with a valid file"


def line_of(data: Any, location: Iterable[str | int]) -> int:
    """Line (from 1) of the value at a location, or the nearest known one."""
    line = 1
    for key in location:
        position = getattr(data, "lc", None)
        if position is None:
            break
        line = position.line + 1
        entries = position.data or {}
        if key not in entries:
            break
        line = entries[key][0] + 1
        data = data[key]
    return line


def plain(data: Any, key: str | None = None) -> Any:
    """Data without YAML's own types, list-written patterns joined, a case's `class` renamed to the record's field."""
    if isinstance(data, Mapping):
        renamed = {"class": "class_", "class_": "class__"} if key == "expect" else {}
        return {renamed.get(str(k), str(k)): plain(v, str(k)) for k, v in data.items()}
    if isinstance(data, list):
        if key == "pattern":
            return _joined(data)
        if key in ("patterns", "routine"):
            return [_joined(piece) for piece in data]
        return [plain(value) for value in data]
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    return str(data) if isinstance(data, date) else data


def _joined(pattern: Any) -> Any:
    if isinstance(pattern, list) and all(isinstance(piece, str) for piece in pattern):
        return "".join(pattern)
    return plain(pattern)


def named(data: Any, where: str, problems: Iterable[Problem]) -> list[str]:
    """Format problems as lines: file, line, field, problem."""
    return [
        f"{where}:{line_of(data, location)}: {'.'.join(map(str, location)) or '(file)'}: {' '.join(problem.split())}"
        for location, problem in problems
    ]


def read_record(
    path: Path,
    where: str,
    parse: Callable[[Any], tuple[Any, list[Problem]]],
    problems_of: Callable[[Any], Iterable[Problem]],
) -> Any:
    """The record of an authored file, as `parse` makes it; raises CatalogError with every problem, one a line."""
    data = read_yaml(path, where)
    value, problems = parse(data)
    problems += todos(data)
    if value is not None:
        problems += problems_of(value)
    if problems or value is None:
        raise CatalogError("\n".join(named(data, where, problems)))
    return value


def todos(data: Any, location: Location = ()) -> Iterator[Problem]:
    """Placeholders of the scaffold that are not filled in."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from todos(value, (*location, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from todos(value, (*location, index))
    elif isinstance(data, str) and data.startswith("TODO"):
        yield location, "still says TODO; fill it in"
