"""Settings of a launch by flat names, as tests of the planner write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vllm_runbooks.plan import settings as records

_GROUPS: dict[str, type] = {
    "scheduler": records.SchedulerSettings,
    "cache": records.CacheSettings,
    "graphs": records.GraphSettings,
    "media": records.MediaSettings,
    "speculation": records.SpeculationSettings,
    "lora": records.LoraSettings,
}
_FLAT = {
    "scheduler": "max_model_len batched_tokens sequences is_length_fitted concurrent_batches is_chunked",
    "cache": "cache_dtype:dtype block_tokens cache_bytes:size blocks_override mixes_groups decode_shards",
    "graphs": "piecewise_graphs:piecewise full_graphs:full is_eager is_compiled is_cached",
    "media": "items item_sizes skips_encoder_profile:skips_profile language_only processor",
    "speculation": "speculative_tokens:tokens draft_layers:layers draft_method:method draft_model:model",
    "lora": "lora_rank:rank loras:slots lora_bytes:value_bytes shards_loras:is_sharded lora_words:extra_words",
}
_FIELDS = {
    name: (group, field or name)
    for group, names in _FLAT.items()
    for name, _, field in (entry.partition(":") for entry in names.split())
}


def _grouped(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Take the fields of the records out of flat values, by record."""
    groups: dict[str, dict[str, Any]] = {}
    for name in [name for name in values if name in _FIELDS]:
        group, field = _FIELDS[name]
        groups.setdefault(group, {})[field] = values.pop(name)
    return groups


def make_settings(**values: Any) -> records.LaunchSettings:
    """Make settings from flat values."""
    groups = {name: _GROUPS[name](**fields) for name, fields in _grouped(values).items()}
    return records.LaunchSettings(**values, **groups)


def adjusted(settings: records.LaunchSettings, **values: Any) -> records.LaunchSettings:
    """Replace flat values of settings."""
    if "encoder_data" in values:
        settings = replace(settings, ranks=replace(settings.ranks, encoder_data=values.pop("encoder_data")))
    groups = {name: replace(getattr(settings, name), **fields) for name, fields in _grouped(values).items()}
    return replace(settings, **values, **groups)
