"""aiconfigurator: `sdk.memory.estimate_kv_cache` for vLLM, with a local folder as the model."""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path

from material import DOES_NOT_FIT, FITS, GIB, Case, Said, config, folder, report

_SYSTEMS = {
    "H100-80GB": "h100_sxm", "A100-80GB": "a100_sxm", "A100-40GB": "a100_sxm", "H200": "h200_sxm", "B200": "b200_sxm",
    "L4": "l4", "RTX PRO 6000": "rtx_pro_6000_server",
}  # fmt: skip
"""Its own description of the GPU."""
_OTHER = "a100_sxm"
"""Replaces GPUs that it does not describe, with their own memory."""


def _judge(case: Case, parent: Path) -> Said:
    memory = import_module("aiconfigurator.sdk.memory")
    cards = case["tensor_parallel_size"]
    model = config(case["config"])
    text = model.get("text_config", model)
    has_experts = any(text.get(key) for key in ("num_experts", "num_local_experts", "n_routed_experts"))
    share = case["gpu_memory_utilization"]
    eight_bit = {"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8"} if case["quantization"] == "fp8" else {}
    asked = {
        "backend_version": "current",
        "max_num_tokens": case["max_num_batched_tokens"],
        "max_batch_size": case["max_num_seqs"],
        "memory_fraction_kind": "of_total",
        "memory_fraction_value": 0.9 if share is None else share,
        "tp_size": cards,
        "moe_tp_size": cards if has_experts else 1,
        "gpu_memory_capacity_bytes_override": int(case["gpu_total_gib"] * GIB),
        **eight_bit,
    }
    where = (str(folder(case["config"], parent)), _SYSTEMS.get(case["gpu"], _OTHER), "vllm")
    notes = [] if case["gpu"] in _SYSTEMS else [f"its {_OTHER} stands for the card"]
    try:
        said = memory.estimate_kv_cache(*where, **asked)
    except ValueError as error:
        if "no KV budget" in str(error):
            return {"verdict": DOES_NOT_FIT, "note": str(error)}
        notes.append("no model of this architecture: its fallback, from the text model's configuration")
        flat = {key: value for key, value in {**model, **text}.items() if not key.endswith("_config")}
        (Path(where[0]) / "config.json").write_text(json.dumps(flat), encoding="utf-8")
        said = memory.estimate_kv_cache(*where, **asked, allow_naive_fallback=True)
    parts = said["memory_breakdown"]
    if share is None:
        return {"weights_gib": parts["weights_bytes"] / GIB}
    return {
        "weights_gib": parts and parts["weights_bytes"] / GIB,
        "kv_gib": said["total_kv_size_bytes"] / GIB,
        "kv_tokens": said["total_kv_size_tokens"],
        "verdict": FITS,
        "note": "; ".join(notes) or None,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        report("aiconfigurator", "aiconfigurator", lambda case: _judge(case, Path(made)))
