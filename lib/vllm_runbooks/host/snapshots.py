"""Read the text of a snapshot, or nvidia-smi's CSV; damaged ones are rejected in one line."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from vllm_runbooks.catalog import host_commands
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.display import SCHEMA, visible
from vllm_runbooks.core.earlier_schema import HOST, upgrade
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.json_errors import loaded
from vllm_runbooks.core.record_forms import record
from vllm_runbooks.core.redaction.redact import redact_record, redact_text
from vllm_runbooks.host.records import KIND, CsvColumn, GpuFacts, Inspected, Inventory

_MAX_TEXT = 4_000_000
_MAX_CARDS = 1024
_MAX_ITEMS = 1_000_000
_MAX_WORD = 8_000
_MOST = 2**60
"""No figure of a host is larger."""
_DERIVED = tuple({field.name for field in fields(Inspected)} - {field.name for field in fields(Inventory)})
"""Fields of `inventory` output other than the snapshot: they are recomputed."""
_UNITS = ("MiB", "%", "W", "MHz")
_UNTOLD = ("", "n/a", "[n/a]", "not supported", "[not supported]", "[unknown error]", "[gpu requires reset]")
_LIMITS = ("memlock_mib", "open_files", "open_files_max", "memory_limit_mib")
"""Fields in which -1 is no limit."""
_SIGNED = ("clock_offset_s",)
_WHOLE = 100
_ROUNDED_MIB = 2
"""By how much parts that are rounded may exceed the whole."""
_CAPABILITY = re.compile(r"\d{1,2}\.\d{1,2}", re.ASCII)
_WRITE = "write it with vllm-runbooks inventory -o FILE"


def read(text: str, where: str) -> Inventory:
    """Read a snapshot, with secrets replaced; raises InputError."""
    if len(text) > _MAX_TEXT:
        raise InputError(f"{where}: larger than {_MAX_TEXT >> 20} MiB, not a host snapshot; {_WRITE}")
    inventory = _of_json(text, where) if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) else _of_csv(text, where)
    check_host(inventory, where)
    return redact_record(inventory)


def check_host(inventory: Inventory, where: str) -> None:
    """Check that the facts of a host are possible; raises InputError."""
    for gpu in inventory.gpus:
        check_card(gpu, where)
    counts = Counter(gpu.index for gpu in inventory.gpus)
    twice = next((number for number, count in counts.items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{where}: gpus: lists GPU {twice} twice; list each GPU once")
    for pair in inventory.pairs:
        if pair.first == pair.second or not {pair.first, pair.second} <= counts.keys():
            raise InputError(f"{where}: pairs: GPU {pair.first} and GPU {pair.second}: use two of the listed GPUs")


def check_card(gpu: GpuFacts, where: str) -> None:
    """Check that the facts of a GPU are possible; raises InputError."""
    total = gpu.total_mib
    if total is not None and not total:
        raise InputError(f"{where}: GPU {gpu.index}: total_mib is 0; leave it out if unknown")
    for name in ("reserved_mib", "used_mib", "free_mib"):
        part = getattr(gpu, name)
        if total is not None and part is not None and part > total:
            raise InputError(
                f"{where}: GPU {gpu.index}: {name} is {part:.12g}, and total_mib {total:.12g}; correct one of them"
            )
    taken_mib = (gpu.used_mib or 0) + (gpu.reserved_mib or 0)
    if total is not None and taken_mib > total + _ROUNDED_MIB:
        raise InputError(
            f"{where}: GPU {gpu.index}: used_mib and reserved_mib are {taken_mib:.12g}, and total_mib {total:.12g}; "
            "correct one of them"
        )
    if gpu.busy_percent is not None and gpu.busy_percent > _WHOLE:
        raise InputError(f"{where}: GPU {gpu.index}: busy_percent is {gpu.busy_percent:g}, must be at most 100")
    if gpu.capability is not None and not _CAPABILITY.fullmatch(gpu.capability):
        capability = visible(gpu.capability[:20])
        raise InputError(
            f"{where}: GPU {gpu.index}: capability is {capability}, not a compute capability; write it as 8.6"
        )


def _of_json(text: str, where: str) -> Inventory:
    try:
        data = upgrade(loaded(text.lstrip("\ufeff")), HOST)
    except ValueError as error:
        raise InputError(f"{where}: invalid JSON ({error}); use the snapshot as it was written") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise InputError(f'{where}: not a host snapshot: "kind" is not "{KIND}"; {_WRITE}')
    values = read_fields(data, where, _DERIVED, _WRITE)
    if "gpus" not in values:
        raise InputError(f"{where}: gpus: missing; use an empty list for a host without GPUs")
    check(Inventory, values, where, "")
    return record(Inventory, values)


def read_fields(data: dict[str, Any], where: str, derived: Sequence[str], write: str) -> dict[str, Any]:
    """The fields of a snapshot without the derived ones; raises InputError if it has another schema."""
    if data.get("schema") != SCHEMA or isinstance(data["schema"], bool):
        raise InputError(f"{where}: has schema {str(data.get('schema'))[:20]}, supported is {SCHEMA}; {write}")
    return {name: value for name, value in data.items() if name != "schema" and name not in derived}


def redact_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with secret values replaced, which their names may reveal."""
    return {name: redact_text(f"{name}={value}").partition("=")[2] for name, value in environment.items()}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


class _RecordField(NamedTuple):
    hint: Any
    plain: type | None
    is_open: bool
    is_needed: bool
    least: int

    def allows(self, value: Any) -> bool:
        return self.is_open if value is None else self.plain is not None and _is(self.plain, value, self.least)


@cache
def _fields(kind: Any) -> dict[str, _RecordField]:
    by_name = {}
    for field in fields(kind):
        hint = _hints(kind)[field.name]
        is_open = NoneType in _choices(hint)
        only = [choice for choice in _choices(hint) if choice is not NoneType] if is_open else [hint]
        by_name[field.name] = _RecordField(
            hint=hint,
            plain=next((choice for choice in only if choice in _NAMES and len(only) == 1), None),
            is_open=is_open,
            is_needed=field.default is MISSING and field.default_factory is MISSING,
            least=_least(field.name),
        )
    return by_name


@cache
def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)


def check(hint: Any, value: Any, where: str, at: str = "") -> None:
    """Check that a value has the form of a record's field; raises InputError."""
    choices = _choices(hint)
    if NoneType in choices:
        if value is not None:
            check(next(choice for choice in choices if choice is not NoneType), value, where, at)
    elif is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise _wrong(where, at, "must be an object", value)
        by_name, begun = _fields(hint), f"{at}." if at else ""
        unknown = next((name for name in value if name not in by_name), None)
        if unknown is not None:
            raise InputError(f"{where}: {begun}{visible(unknown[:60])}: unknown field; remove it")
        for name, field in by_name.items():
            if name not in value:
                if field.is_needed:
                    what = "the number" if field.plain in (int, float) else "it"
                    raise InputError(f"{where}: {begun}{name}: missing; add {what}")
            # Most values are valid or missing: nothing more is done about those.
            elif not field.allows(value[name]):
                check(field.hint, value[name], where, f"{begun}{name}")
    elif get_origin(hint) is tuple:
        most = _MAX_CARDS if at.rpartition(".")[2] == "gpus" else _MAX_ITEMS
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(where, at, f"must be a list of at most {most:,}", value)
        for number, item in enumerate(value):
            check(choices[0], item, where, f"{at}[{number}]")
    elif choices:
        is_flat = choices[1] is str
        if not isinstance(value, dict) or (is_flat and not all(_is(str, choice, 0) for choice in value.values())):
            raise _wrong(where, at, f"must be an object{' of strings' * is_flat}", value)
        for name, item in value.items() if not is_flat else ():
            check(choices[1], item, where, f"{at}.{visible(name[:60])}")
    elif issubclass(hint, StrEnum):
        if value not in list(hint):
            raise _wrong(where, at, f"must be one of {', '.join(hint)}", value)
    elif not _is(hint, value, _least(at.rpartition(".")[2])):
        raise _wrong(where, at, _NAMES[hint], value)


def _least(name: str) -> int:
    return -_MOST if name in _SIGNED else -1 if name in _LIMITS else 0


_NAMES = {
    bool: "must be true or false",
    int: "must be a whole number in a plausible range",
    float: "must be a number in a plausible range",
    str: f"must be a string of at most {_MAX_WORD:,} characters",
}


def _is(kind: type, value: Any, least: int) -> bool:
    if kind is str:
        return isinstance(value, str) and len(value) <= _MAX_WORD
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if not isinstance(value, int if kind is int else (int, float)):
        return False
    return bool(least <= value <= _MOST)


def _wrong(where: str, at: str, what: str, value: Any) -> InputError:
    return InputError(f"{where}: {at}: {what}; {json.dumps(value, default=str)[:40]} given")


def _of_csv(text: str, where: str) -> Inventory:
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.lstrip("\ufeff").splitlines()) if row]
    except csv.Error as error:
        raise InputError(f"{where}: invalid CSV ({error}); {_WRITE}") from None
    # "memory.total [MiB]": the header has the unit as well.
    fields_by_column = load_table("nvidia_smi_columns", CsvColumn)
    columns = [fields_by_column.get(cell.partition(" [")[0]) for cell in rows[0]] if rows else []
    head = [None if column is None else column.field for column in columns]
    if "index" not in head or "name" not in head:
        raise InputError(
            f"{where}: neither a host snapshot nor nvidia-smi CSV with the columns index and name; "
            f"{_WRITE}, or use the output of {host_commands.line('gpus-table')}"
        )
    if len(rows) > _MAX_CARDS:
        raise InputError(f"{where}: lists more than {_MAX_CARDS} GPUs; use the GPUs of one host")
    gpus = []
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(rows[0]):
            raise InputError(f"{where}:{line}: has {len(row)} columns, the header {len(rows[0])}; use the whole line")
        values: dict[str, Any] = {}
        for name, cell in zip(head, row, strict=True):
            if name is not None and cell.casefold() not in _UNTOLD:
                values[name] = _cell(_hints(GpuFacts)[name], name, cell, f"{where}:{line}")
        if "index" not in values:
            raise InputError(f"{where}:{line}: index: missing; add the number")
        gpus.append(GpuFacts(**values))
    return Inventory(source="printed by nvidia-smi", gpus=tuple(gpus))


def _cell(hint: Any, name: str, cell: str, where: str) -> Any:
    kind = next((option for option in get_args(hint) if option is not NoneType), hint)
    if kind is str:
        value: Any = cell
    else:
        unit = next((option for option in _UNITS if cell.endswith(f" {option}")), "")
        try:
            value = kind(cell.removesuffix(unit))
        except ValueError:
            value = cell
    check(kind, value, where, name)
    return value
