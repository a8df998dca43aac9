"""hf-mem: a whole run, with configuration and checkpoint header in place of the hub."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from material import GIB, Case, Said, config, header, report, whole


def _judge(case: Case) -> Said:
    tool: Any = import_module("hf_mem.run")
    name = case["config"]

    async def file(client: Any, url: str, headers: Any = None) -> Any:  # noqa: ARG001 # its own signature
        if url.endswith("/config.json"):
            return config(name)
        return [{"path": path, "type": "file"} for path in ("config.json", "model.safetensors")]

    async def metadata(client: Any, url: str, headers: Any = None) -> Any:  # noqa: ARG001 # its own signature
        return header(name)

    tool.get_json_file, tool.fetch_safetensors_metadata = file, metadata
    asked = {"experimental": True, "max_model_len": case["max_model_len"]}
    note = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            said = tool.run(name, **asked)
        except RuntimeError as error:
            note = f"with the cache's dtype left alone: {' '.join(str(error).split())[:60]}…; asked again with bfloat16"
            said = tool.run(name, **asked, kv_cache_dtype="bfloat16")
    return {
        **whole(case, said.memory / GIB),
        "request_gib": None if said.kv_cache is None else said.kv_cache / GIB,
        "note": note,
    }


if __name__ == "__main__":
    report("hf-mem", "hf-mem", _judge)
