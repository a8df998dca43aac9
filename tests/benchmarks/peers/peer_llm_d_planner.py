"""llm-d-planner: the functions of its capacity calculation, with a local model folder."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from material import DOES_NOT_FIT, FITS, GIB, Case, Said, config, folder, parameters, report

_BLOCK = 16


class _Plain:
    """A configuration as a record, for a model that `AutoConfig` reads and the planner cannot."""

    def __init__(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            setattr(self, key, _Plain(value) if key.endswith("_config") and key != "quantization_config" else value)


def _judge(case: Case, parent: Path) -> Said:
    planner: Any = import_module("planner.capacity_planner")
    name = case["config"]
    model = str(folder(name, parent))
    # The hub alone has the parameter counts of a repository.
    planner.get_safetensors_metadata_from_hf = lambda *_: SimpleNamespace(parameter_count=parameters(name))
    read = planner.get_model_config_from_hf(model)
    note = None
    try:
        planner.KVCacheDetail(model, read)
    except Exception as error:  # noqa: BLE001 # whatever it raises is its answer
        note = f"as installed it raises {type(error).__name__}; asked again with the configuration as a plain record"
        read = _Plain(config(name))
    cards = case["tensor_parallel_size"]
    weights = planner.per_gpu_model_memory_required(model, read, tp=cards)
    share = case["gpu_memory_utilization"]
    if share is None:
        return {"weights_gib": weights, "note": note}
    card = case["gpu_total_gib"]
    length = case["max_model_len"]
    cache = planner.allocatable_kv_cache_memory(model, read, card, share, tp=cards)
    blocks = planner.total_kv_cache_blocks(model, read, length, card, share, block_size=_BLOCK, tp=cards)
    return {
        "weights_gib": weights,
        "kv_gib": cache / cards,
        "kv_tokens": blocks * _BLOCK,
        "max_concurrency": planner.max_concurrent_requests(model, read, length, card, share, tp=cards),
        "request_gib": planner.KVCacheDetail(model, read, length).per_request_kv_cache_bytes / GIB,
        "verdict": FITS if cache > 0 else DOES_NOT_FIT,
        "note": note,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        report("llm-d-planner", "llm-d-planner", lambda case: _judge(case, Path(made)))
