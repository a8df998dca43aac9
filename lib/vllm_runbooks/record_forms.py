"""What all records share: marks of their fields, how pydantic takes authored ones, and JSON, there and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
AUTHORED: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True}
"""Of records that are written by hand, in YAML: a field that there is not is refused."""
WHERE_TOLD: Mapping[str, Any] = {"where_told": True}
"""Metadata of a field that a document has only where it is not None."""
UNPRINTED: Mapping[str, Any] = {"unprinted": True}
"""Metadata of a field that views need and no document prints."""


def document(record: Any) -> Any:
    """The JSON form of a record: dataclasses to mappings, tuples to lists, floats rounded to 4 decimals."""
    if isinstance(record, StrEnum):
        return record.value
    if isinstance(record, float):
        return round(record, 4)
    if is_dataclass(record):
        shown = ((f, getattr(record, f.name)) for f in fields(record) if f.metadata != UNPRINTED)
        return {f.name.rstrip("_"): document(v) for f, v in shown if v is not None or f.metadata != WHERE_TOLD}
    if isinstance(record, Mapping):
        return {str(key): document(value) for key, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [document(value) for value in record]
    return record


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _decoded(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _decoded(kinds[0], value) if len(kinds) == 1 else value
    if origin is tuple:
        return tuple(_decoded(get_args(hint)[0], item) for item in value)
    if origin is list:
        return [_decoded(get_args(hint)[0], item) for item in value]
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {key: _decoded(get_args(hint)[1], item) for key, item in value.items()}
    if isinstance(hint, type):
        if is_dataclass(hint):
            return record(hint, value)
        if issubclass(hint, StrEnum):
            return hint(value)
    return value


def form(kind: Any) -> Any:
    """The form of a record: its fields with their types, and those of the records inside of it."""
    if isinstance(kind, type) and is_dataclass(kind):
        return {name: form(hint) for name, hint in _hints(kind).items() if not name.startswith("__")}
    inner = [form(part) for part in get_args(kind)]
    return [str(kind), *inner] if inner else str(kind)


def record(kind: type[T], data: Mapping[str, Any]) -> T:
    """The record that `document` made this mapping from.

    Raises:
        KeyError, TypeError, ValueError: the mapping does not have the record's form.
    """
    values = {}
    hashable: Any = kind
    hints = _hints(hashable)
    for name, hint in hints.items():
        if name.startswith("__"):
            continue
        key = name.rstrip("_")
        if key in data:
            values[name] = _decoded(hint, data[key])
    unknown = set(data) - {name.rstrip("_") for name in hints}
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {min(unknown)!r}")
    return kind(**values)
