"""llm-mem-planner: its sizes of a model with latent attention, from a local configuration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from material import GIB, Case, Said, config, report


def _judge(case: Case) -> Said:
    planner: Any = import_module("llm_mem_planner.cli")
    sizes = planner.load_dims({key: value for key, value in config(case["config"]).items() if value is not None})
    counted = planner.estimate_params(sizes)
    layout = planner.Parallelism(tp=case["tensor_parallel_size"])
    weights = planner.estimate_weight_params_per_rank(sizes, counted, layout).total * sizes.dtype_bytes / GIB
    one = planner.estimate_kv_cache_gib(sizes, batch=1, seq_len=case["max_model_len"], kv_dtype_bytes=2)
    return {"weights_gib": weights, "request_gib": one}


if __name__ == "__main__":
    report("llm-mem-planner", "llm-mem-planner", _judge)
