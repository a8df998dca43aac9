"""Authored YAML to records, index and JSON Schemas: every problem named by file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from vllm_runbooks import catalog, scan
from vllm_runbooks.errors import CatalogError
from vllm_runbooks.records import Case, LineFormat, Symptom, document

if TYPE_CHECKING:
    from ruamel.yaml.comments import CommentedMap

MAX_BYTES = 2 << 20
MAX_DEPTH = 24

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "symptom": TypeAdapter(Symptom),
    "lines": TypeAdapter(list[LineFormat]),
    "case": TypeAdapter(Case),
}
_PIECES = frozenset({"pattern", "patterns"})


def _guard(text: str, where: str) -> None:
    """Refuse what would make the parser slow or deep: aliases and deep nesting."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, AliasEvent):
            raise CatalogError(f"{where}:{event.start_mark.line + 1}: aliases (*name) are not allowed; write it out")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise CatalogError(f"{where}:{event.start_mark.line + 1}: nested deeper than {MAX_DEPTH} levels; flatten it")


def read_yaml(path: Path, where: str | None = None) -> CommentedMap | list[Any]:
    """Read one YAML file, with positions; raises CatalogError with file and line."""
    where = where or path.name
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CatalogError(f"{where}: cannot be read: {error.strerror}; check the path") from None
    if len(raw) > MAX_BYTES:
        raise CatalogError(f"{where}: {len(raw)} bytes; a catalog file has at most {MAX_BYTES}")
    try:
        text = raw.decode("utf-8")
        _guard(text, where)
        data = YAML(typ="rt", pure=True).load(text)
    except UnicodeDecodeError as error:
        raise CatalogError(f"{where}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or error).split("\n", 1)[0]
        raise CatalogError(f"{where}{line}: not YAML: {problem}") from None
    except (RecursionError, ValueError) as error:
        raise CatalogError(f"{where}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(data, (dict, list)):
        raise CatalogError(f"{where}:1: holds no mapping; see `vllm-runbooks catalog new` for a scaffold")
    return data


def _line(data: Any, location: Iterable[str | int]) -> int:
    """Line (from 1) at which the value at a location is written, as near as the file tells."""
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
        data = data[key] if isinstance(data, (dict, list)) else None
    return line


def _plain(data: Any, key: str | None = None) -> Any:
    """Data without YAML's own types, list-written patterns joined, `class` renamed to the record's field."""
    if isinstance(data, Mapping):
        return {("class_" if k == "class" else str(k)): _plain(v, str(k)) for k, v in data.items()}
    if isinstance(data, list):
        if key == "pattern":
            return "".join(str(piece) for piece in data)
        if key == "patterns":
            return ["".join(str(p) for p in piece) if isinstance(piece, list) else piece for piece in data]
        return [_plain(value) for value in data]
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    return data


def _problems(kind: str, data: Any, where: str) -> tuple[Any, list[str]]:
    try:
        record = _ADAPTERS[kind].validate_json(json.dumps(_plain(data)), strict=True)
    except ValidationError as error:
        found = []
        for detail in error.errors(include_url=False, include_input=True):
            location = [str(p).rstrip("_") if isinstance(p, str) else p for p in detail["loc"]]
            field = ".".join(str(p) for p in location) or "(file)"
            value = json.dumps(detail["input"], default=str)[:60] if detail["type"] != "missing" else ""
            message = {"missing": "is missing", "extra_forbidden": "is not a known field"}.get(
                detail["type"], f"{detail['msg'][0].lower()}{detail['msg'][1:]}: {value}"
            )
            found.append(f"{where}:{_line(data, location)}: {field}: {message}")
        return None, found
    except (TypeError, ValueError, RecursionError) as error:
        return None, [f"{where}:1: (file): {str(error).splitlines()[0]}"]
    return record, []


def _pattern_problems(data: Any, where: str, patterns: Iterable[tuple[tuple[str | int, ...], str]]) -> list[str]:
    return [
        f"{where}:{_line(data, location)}: {'.'.join(map(str, location))}: the pattern {fault}"
        for location, pattern in patterns
        for fault in scan.faults(pattern)
    ]


def _shared_patterns(root: Path) -> dict[str, str]:
    """Patterns by name: the shipped ones, and those of a folder of the user's own."""
    shared: dict[str, str] = {}
    for path in dict.fromkeys((catalog.catalog_dir() / "patterns.yaml", root / "patterns.yaml")):
        if path.is_file():
            data = read_yaml(path)
            shared.update({name: _plain(value, "pattern") for name, value in data.items()} if isinstance(data, dict) else {})
    return shared


def read_symptom(path: Path, where: str | None = None) -> Symptom:
    """Read one symptom; raises CatalogError with every problem of the file, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    symptom, problems = _problems("symptom", data, where)
    if symptom is not None:
        shared = _shared_patterns(path.parent.parent)
        problems += [
            f"{where}:{_line(data, [name, i, 'pattern'])}: {name}.{i}.pattern: {s.pattern!r} is not in patterns.yaml"
            for name in ("signatures", "companions")
            for i, s in enumerate(getattr(symptom, name))
            if s.pattern.startswith("@") and s.pattern[1:] not in shared
        ]
        named = {
            name: tuple(replace(s, pattern=shared.get(s.pattern[1:], s.pattern)) if s.pattern.startswith("@") else s
                        for s in getattr(symptom, name))
            for name in ("signatures", "companions")
        }
        symptom = replace(symptom, **named)
        if symptom.id != path.stem:
            problems.append(f"{where}:{_line(data, ['id'])}: id: is {symptom.id!r}; the file's name says {path.stem!r}")
        if symptom.id.count(".") < 1:
            problems.append(f"{where}:{_line(data, ['id'])}: id: needs a group and a word, as in port.in_use")
        problems += _pattern_problems(
            data,
            where,
            (
                ((name, i, "pattern"), s.pattern)
                for name in ("signatures", "companions")
                for i, s in enumerate(getattr(symptom, name))
            ),
        )
        problems += [
            f"{where}:{_line(data, [name])}: {name}: is empty; a symptom needs at least one"
            for name in ("signatures", "examples", "near_misses")
            if not getattr(symptom, name)
        ]
    if problems or symptom is None:
        raise CatalogError("\n".join(problems))
    return symptom


def read_line_formats(path: Path, where: str | None = None) -> list[LineFormat]:
    """Read the table of printed lines; raises CatalogError with every problem, one a line."""
    where = where or path.name
    data = read_yaml(path, where)
    formats, problems = _problems("lines", data, where)
    if formats is not None:
        problems += _pattern_problems(
            data, where, (((i, "patterns", j), p) for i, f in enumerate(formats) for j, p in enumerate(f.patterns))
        )
    if problems or formats is None:
        raise CatalogError("\n".join(problems))
    result: list[LineFormat] = formats
    return result


def read_case(path: Path, where: str | None = None) -> Case:
    """Read a case's `case.yaml`; raises CatalogError with every problem, one a line."""
    where = where or f"{path.parent.name}/{path.name}"
    data = read_yaml(path, where)
    case, problems = _problems("case", data, where)
    if case is not None:
        if case.expect == type(case.expect)():
            problems.append(f"{where}:{_line(data, ['expect'])}: expect: compares nothing; name an outcome or a class")
        problems += [
            f"{where}:{_line(data, ['files', i])}: files.{i}: {name!r} is not a file beside case.yaml"
            for i, name in enumerate(case.files)
            if Path(name).name != name or not (path.parent / name).is_file()
        ]
        if not case.files:
            problems.append(f"{where}:{_line(data, ['files'])}: files: is empty; name the recorded files")
    if problems or case is None:
        raise CatalogError("\n".join(problems))
    result: Case = case
    return result


def compile_index(root: Path) -> tuple[dict[str, Any], list[str]]:
    """Compile a catalog folder; returns the index of what is good, and the problems, one line each."""
    problems: list[str] = []
    symptoms, formats = [], []
    for path in catalog.sources(root):
        where = str(path.relative_to(root))
        try:
            if path.parent.name == "symptoms":
                symptoms.append(document(read_symptom(path, where)))
            elif path.is_file():
                formats = [document(f) for f in read_line_formats(path, where)]
        except CatalogError as error:
            problems += str(error).splitlines()
    return {"key": catalog.key(root), "symptoms": symptoms, "lines": formats}, problems


def cross_check(root: Path) -> list[str]:
    """Problems between the files of one folder: symptoms that do the same, runbooks that are not there."""
    problems: list[str] = []
    seen: dict[str, str] = {}
    runbooks = root.parent / "runbooks"
    for path in catalog.sources(root):
        if path.parent.name != "symptoms":
            continue
        where = str(path.relative_to(root))
        try:
            symptom = read_symptom(path, where)
        except CatalogError:
            continue
        for signature in symptom.signatures:
            if signature.frames or signature.phases:
                continue
            if seen.get(signature.pattern, where) != where:
                problems.append(f"{where}:1: signatures: the same pattern as in {seen[signature.pattern]}; merge the two")
            seen[signature.pattern] = where
        if symptom.runbook and runbooks.is_dir() and not (runbooks / f"{symptom.runbook}.ipynb").is_file():
            problems.append(f"{where}:1: runbook: {symptom.runbook!r} is not in runbooks/; write it or leave the field out")
    return problems


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas for the authored files and for the documents printed, by file name."""
    from vllm_runbooks.records import Answer  # noqa: PLC0415 - only here

    titles = {**_ADAPTERS, "diagnose": TypeAdapter(Answer)}
    return {f"{name}.json": _schema(adapter) for name, adapter in titles.items()}


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    schema = adapter.json_schema()

    def renamed(node: Any, key: str | None = None) -> Any:
        if isinstance(node, dict):
            if key == "pattern" and "type" in node:
                return {"anyOf": [node, {"type": "array", "items": {"type": "string"}}]}
            return {
                (k.rstrip("_") if key == "properties" else k): renamed(v, k)
                for k, v in node.items()
            }
        if isinstance(node, list):
            return [v.rstrip("_") if key == "required" else renamed(v) for v in node]
        return node

    result: dict[str, Any] = renamed(schema)
    return result
