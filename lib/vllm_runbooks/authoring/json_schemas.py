"""JSON Schemas of the authored files, and of the documents that commands print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from vllm_runbooks.catalog.authored import (
    entrances_file,
    policy_files,
    rule_files,
    serving_file,
    symptom_files,
    table_files,
    tables,
    toolchain_files,
)
from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.record_forms import OMIT_NONE, UNPRINTED
from vllm_runbooks.runbooks import case_files, claims_file
from vllm_runbooks.schedule.records import ScheduledJob

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "symptom": symptom_files.ADAPTER,
    "lines": tables.ADAPTER,
    "case": case_files.ADAPTER,
    "claims": claims_file.ADAPTER,
    "rule": rule_files.ADAPTER,
    "policy": policy_files.ADAPTER,
    "job": TypeAdapter(ScheduledJob),
    "serving": serving_file.ADAPTER,
    "entrances": entrances_file.ADAPTER,
    "toolchain": toolchain_files.ADAPTER,
    **table_files.adapters(),
}
_PRINTED: dict[str, str] = {
    "diagnose": "vllm_runbooks.core.records:Answer",
    "pack": "vllm_runbooks.core.packs:Manifest",
    "lint": "vllm_runbooks.lint.records:Linted",
    "migrate": "vllm_runbooks.lint.records:Migrated",
    "plan": "vllm_runbooks.plan.records:Plan",
    "layouts": "vllm_runbooks.plan.records:Layouts",
    "compared": "vllm_runbooks.core.records:PlanComparison",
    "serve": "vllm_runbooks.probe.starts:Guarded",
    "schedule-list": "vllm_runbooks.schedule.records:Jobs",
    "schedule-show": "vllm_runbooks.schedule.records:ScheduledJob",
    "schedule-wake": "vllm_runbooks.schedule.records:Turns",
    "probe": "vllm_runbooks.probe.records:Health",
    "observation": "vllm_runbooks.probe.records:Observation",
    "history": "vllm_runbooks.history.records:Listed",
    "entry": "vllm_runbooks.history.records:HistoryEntry",
    "trend": "vllm_runbooks.history.records:Trend",
    "diff": "vllm_runbooks.history.records:EntryDifferences",
    "inventory": "vllm_runbooks.host.records:Inspected",
    "cluster": "vllm_runbooks.host.nodes.records:CheckedCluster",
    "cluster-files": "vllm_runbooks.plan.records:StartFiles",
    "edge10-check": "vllm_runbooks.edge10.artefacts.records:CheckedFolder",
    "edge10-compare": "vllm_runbooks.edge10.accuracy.records:AccuracyComparison",
    "edge10-lint": "vllm_runbooks.edge10.scripts.records:LintedScripts",
    "edge10-models": "vllm_runbooks.catalog.toolchains:ModelSupportReport",
    "edge10-make": "vllm_runbooks.edge10.jobs.records:MadeJob",
    "edge10-preflight": "vllm_runbooks.edge10.host.records:CheckedHost",
    "open-chain": "vllm_runbooks.edge10.chain.records:OpenChain",
}
"""Records that commands print as JSON, and those of a step for other programs."""


def _fields_with(mark: Mapping[str, Any]) -> dict[str, set[str]]:
    """Fields with a mark by record, of printed records and of the records in them."""
    by_record: dict[str, set[str]] = {}
    left: list[type] = [resolve_name(kind) for kind in _PRINTED.values()]
    while left:
        kind = left.pop()
        if is_dataclass(kind) and kind.__name__ not in by_record:
            by_record[kind.__name__] = {field.name for field in fields(kind) if field.metadata == mark}
            left += (inner for hint in get_type_hints(kind).values() for inner in _kinds_in(hint))
    return by_record


def _kinds_in(hint: Any) -> Iterator[type]:
    """Classes in a type hint, as in `tuple[Issue, ...] | None`."""
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _kinds_in(part)


_UNPRINTED = _fields_with(UNPRINTED)
_WHERE_TOLD = _fields_with(OMIT_NONE)


@cache
def schemas() -> dict[str, dict[str, Any]]:
    by_file = {f"{name}.json": _schema(adapter) for name, adapter in _ADAPTERS.items()}
    for name, kind in _PRINTED.items():
        printed = _schema(TypeAdapter(resolve_name(kind)), is_printed=True)
        printed["properties"] = {"schema": {"const": SCHEMA, "title": "Schema"}, **printed["properties"]}
        printed["required"] = ["schema", *printed["required"]]
        by_file[f"{name}.json"] = printed
    return by_file


def _schema(adapter: TypeAdapter[Any], *, is_printed: bool = False) -> dict[str, Any]:

    def adapted(node: Any, key: str | None = None) -> Any:
        if isinstance(node, list):
            return [value.rstrip("_") if key == "required" else adapted(value) for value in node]
        if not isinstance(node, dict):
            return node
        if key == "properties":
            return {name.rstrip("_"): _or_pieces(name, adapted(value, name)) for name, value in node.items()}
        schema = {name: adapted(value, name) for name, value in node.items()}
        if is_printed and isinstance(node.get("properties"), dict):
            title = node.get("title", "")
            for name in _UNPRINTED.get(title, ()):
                del schema["properties"][name]
            always = [name for name in schema["properties"] if name not in _WHERE_TOLD.get(title, ())]
            schema.update(additionalProperties=False, required=always)
        return schema

    def _or_pieces(name: str, node: Any) -> Any:
        """Allow patterns as lists of pieces, which are joined."""
        pieces = {"type": "array", "items": {"type": "string"}}
        if is_printed or name not in ("pattern", "patterns", "routine"):
            return node
        if name == "pattern":
            return {"anyOf": [node, pieces]}
        return {**node, "items": {"anyOf": [node["items"], pieces]}}

    result: dict[str, Any] = adapted(adapter.json_schema(mode="serialization" if is_printed else "validation"))
    while unused := {name for name in result.get("$defs", ()) if f'"#/$defs/{name}"' not in json.dumps(result)}:
        result["$defs"] = {name: node for name, node in result["$defs"].items() if name not in unused}
    return result
