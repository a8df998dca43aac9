"""llm-mem: its calculator, with the configuration and the parameter counts handed over. Its GB are 10^9 bytes."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from material import GIB, Case, Said, folder, parameters, report, whole

_GB = 10**9
_DTYPES = {None: "float16", "fp8": "float8"}


def _judge(case: Case, parent: Path) -> Said:
    module: Any = import_module("llm_mem.llm_memory_calculator")
    name = case["config"]
    file = folder(name, parent) / "config.json"
    module.hf_hub_download = lambda **_: str(file)
    module.get_safetensors_metadata = lambda *_, **__: SimpleNamespace(parameter_count=parameters(name))
    calculator = module.LLMMemoryCalculator()
    dtype = _DTYPES[case["quantization"]]
    weights = calculator.get_model_size(name, dtype)
    cache = calculator.calculate_kv_cache_memory(case["max_model_len"], name, dtype)
    errors = [said for said in (weights, cache) if isinstance(said, str)]
    return {
        **({} if isinstance(weights, str) else whole(case, weights * _GB / GIB)),
        "request_gib": None if isinstance(cache, str) else cache * _GB / GIB,
        "note": "; ".join(errors) or None,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        report("llm-mem", "llm-mem", lambda case: _judge(case, Path(made)))
