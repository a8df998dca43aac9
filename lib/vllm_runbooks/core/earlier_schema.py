"""Read documents of schema 1, in which some keys had other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_runbooks.core.display import SCHEMA

HOST: Mapping[str, str] = {
    "by": "method",
    "foreign_cards": "foreign_gpus",
    "is_of_host": "is_host_pid",
    "is_parted": "is_mig",
    "is_there": "exists",
    "looked_at": "existing_path",
    "one": "first",
    "other": "second",
    "parts": "mig_instances",
    "reaches": "connections",
    "said": "message",
    "slowed_by": "throttled_by",
    "taken": "timestamp",
    "why": "reason",
    "why_none": "no_gpus_reason",
}
"""Keys of inventories, nodes, clusters and hosts for Edge10, with their present names."""
SERVER: Mapping[str, str] = {
    "at": "timestamp",
    "at_once": "concurrency",
    "cards": "gpus",
    "each_token": "inter_token_latency",
    "each_token_ms": "inter_token_latency_ms",
    "first_token": "time_to_first_token",
    "first_token_ms": "time_to_first_token_ms",
    "place": "address",
    "rung": "health_check",
    "rungs": "health_checks",
    "says": "message",
    "sightings": "events",
    "whole": "end_to_end_latency",
    "why_none": "reason",
}
"""Keys of probes, observations and supervised launches, with their present names."""


def upgrade(data: Any, names: Mapping[str, str]) -> Any:
    """Rename the keys of a document of schema 1; any other is returned as it is."""
    is_earlier = isinstance(data, dict) and type(data.get("schema")) is int and data["schema"] == 1
    return {**rename_keys(data, names), "schema": SCHEMA} if is_earlier else data


def rename_keys(data: Any, names: Mapping[str, str]) -> Any:
    if isinstance(data, list):
        return [rename_keys(item, names) for item in data]
    if not isinstance(data, dict):
        return data
    return {names.get(key, key): rename_keys(value, names) for key, value in data.items()}
