"""Records as JSON, there and back; marks of their fields; settings of authored records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
AUTHORED: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True, "defer_build": True}
"""Pydantic settings for records that are written manually in YAML: an unknown field is rejected."""


class Authored:
    """Base of the records that are written manually in YAML."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED


OMIT_NONE: Mapping[str, Any] = {"where_told": True}
"""Metadata of a field that is omitted from documents if it is None."""
UNPRINTED: Mapping[str, Any] = {"unprinted": True}
"""Metadata of a field that views need and no document prints."""


_PLAIN = frozenset((str, int, bool, NoneType))
"""Kinds of values that JSON has as they are: most, so they are looked for first."""


def document(record: Any) -> Any:
    """The JSON form of a record: dataclasses to mappings, tuples to lists, floats rounded to 4 decimals."""
    kind: Any = type(record)
    if kind in _PLAIN:
        return record
    if isinstance(record, StrEnum):
        return record.value
    if isinstance(record, float):
        return round(record, 4)
    if is_dataclass(record):
        items = ((key, getattr(record, name), is_always) for name, key, is_always in _printed(kind))
        return {key: document(value) for key, value, is_always in items if is_always or value is not None}
    if isinstance(record, Mapping):
        return {str(key): document(value) for key, value in record.items()}
    if isinstance(record, (list, tuple)):
        return [document(value) for value in record]
    return record


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


@cache
def _printed(kind: type) -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (field.name, field.name.rstrip("_"), field.metadata != OMIT_NONE)
        for field in fields(kind)
        if field.metadata != UNPRINTED
    )


@cache
def _decoder(hint: Any) -> Callable[[Any], Any] | None:
    """Function that decodes the JSON form of a field's value, unless it is None.

    None to keep the value.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not NoneType]
        return _decoder(kinds[0]) if len(kinds) == 1 else None
    if origin in (tuple, list, frozenset):
        item = _decoder(inner[0])
        return origin if item is None else lambda value: origin(_decoded(item, element) for element in value)
    if origin in (dict, Mapping):
        item = _decoder(inner[1])
        return (
            None
            if item is None
            else lambda value: {key: _decoded(item, element) for key, element in dict(value).items()}
        )
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value: record(hint, value)
    return hint if isinstance(hint, type) and issubclass(hint, StrEnum) else None


def _decoded(decode: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if value is None or decode is None else decode(value)


@cache
def _read(kind: type) -> Mapping[str, tuple[str, Callable[[Any], Any] | None]]:
    return {
        name.rstrip("_"): (name, _decoder(hint)) for name, hint in _hints(kind).items() if not name.startswith("__")
    }


def form(kind: Any) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return {name: form(hint) for name, hint in _hints(kind).items() if not name.startswith("__")}
    inner = [form(part) for part in get_args(kind)]
    return [str(kind), *inner] if inner else str(kind)


def record(kind: type[T], data: Mapping[str, Any]) -> T:
    """Record of a JSON form; raises KeyError, TypeError or ValueError if the form is another one's."""
    hashable: Any = kind
    readers = _read(hashable)
    values = {}
    for key, value in dict(data).items():
        if key not in readers:
            raise TypeError(f"{kind.__name__} has no field {key!r}")
        name, decode = readers[key]
        values[name] = _decoded(decode, value)
    return kind(**values)
