"""The tables of `catalog/tables` and the classes of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vllm_runbooks.catalog.indexes import digest

TABLES: Mapping[str, str] = {
    "host_commands": "vllm_runbooks.catalog.host_commands:HostCommand",
    "languages": "vllm_runbooks.catalog.languages:Language",
    "launch_rules": "vllm_runbooks.catalog.start_rules:ReleaseChanges",
    "band_widths": "vllm_runbooks.plan.costs:BandWidth",
    "measured_gpus": "vllm_runbooks.plan.costs:MeasuredGpu",
    "cuda_graph_memory": "vllm_runbooks.plan.costs:GraphMemory",
    "draft_rules": "vllm_runbooks.catalog.release_rules:ValueHistory",
    "encoder_towers": "vllm_runbooks.plan.encoders:EncoderTower",
    "families": "vllm_runbooks.plan.families:Family",
    "kv_cache_rules": "vllm_runbooks.catalog.release_rules:ValueHistory",
    "kv_layer_rules": "vllm_runbooks.catalog.release_rules:ValueHistory",
    "lora_models": "vllm_runbooks.plan.adapters:LoraModel",
    "mixer_tensors": "vllm_runbooks.plan.tensors:MixerTensors",
    "mtp_models": "vllm_runbooks.catalog.release_rules:SinceRelease",
    "name_words": "vllm_runbooks.plan.quantized_names:NameWords",
    "nginx": "vllm_runbooks.plan.proxy:NginxText",
    "non_torch_memory": "vllm_runbooks.plan.costs:MeasuredMemory",
    "quantized_checkpoints": "vllm_runbooks.plan.quantized_names:KnownCheckpoint",
    "quantized_names": "vllm_runbooks.plan.quantized_names:QuantizedName",
    "sampler_memory": "vllm_runbooks.plan.costs:SamplerMemory",
    "speculative_keys": "vllm_runbooks.catalog.release_rules:ValueHistory",
    "printed_lines": "vllm_runbooks.plan.confirmation:LineFormatRow",
    "engine_classes": "vllm_runbooks.reading.documents.engine_classes:EngineClass",
    "engine_programs": "vllm_runbooks.reading.documents.engine_programs:EngineProgram",
    "launch_forms": "vllm_runbooks.reading.documents.launch_forms:LaunchForm",
    "word_lists": "vllm_runbooks.reading.shell.word_lists:WordList",
    "configuration_fields": "vllm_runbooks.catalog.tables:ConfigurationField",
    "python_packages": "vllm_runbooks.catalog.tables:PackageName",
    "host_findings": "vllm_runbooks.catalog.tables:FindingText",
    "node_findings": "vllm_runbooks.catalog.tables:FindingText",
    "nvidia_smi_columns": "vllm_runbooks.host.records:CsvColumn",
    "unread_nodes": "vllm_runbooks.host.nodes.records:UnreadRemedy",
    "edge10_scripts": "vllm_runbooks.edge10.jobs.templates:ScriptTemplate",
    "internal_errors": "vllm_runbooks.diagnosis.internal_errors:CodeOwner",
    "edge10_artefact_findings": "vllm_runbooks.catalog.tables:FindingText",
    "edge10_host_findings": "vllm_runbooks.catalog.tables:FindingText",
}
"""By name of a table the class of its rows, as `module:Class`: imported only to check and compile it."""


def table_source(root: Path, name: str) -> Path:
    return root / "tables" / f"{name}.yaml"


def table_key(root: Path, name: str, row: type) -> str:
    return digest((table_source(root, name),), row)
