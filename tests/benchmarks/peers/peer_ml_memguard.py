"""ml-memguard: its check before a launch, with given GPU memory and model sizes."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from material import DOES_NOT_FIT, FITS, Case, Said, config, parameters, report

_BITS = {None: 16, "fp8": 8, "mxfp4": 4}
_MIB_PER_GIB = 1024


def _judge(case: Case) -> Said:
    guard_module: Any = import_module("memory_guard.guard")
    logging.disable(logging.WARNING)
    model = config(case["config"])
    text = model.get("text_config", model)
    heads = text["num_attention_heads"]
    method = case["quantization"] or model.get("quantization_config", {}).get("quant_method")
    cards = case["tensor_parallel_size"]
    share = case["gpu_memory_utilization"]
    given = case["gpu_total_gib"] * _MIB_PER_GIB * cards
    guard_module.get_available_memory_mb = lambda *_: given
    # Its own share replaces vLLM's, so that both have the same memory.
    guard = guard_module.MemoryGuard(safety_ratio=share or 0.9, enable_calibration=False, enable_bandit=False)
    guard.platform.swap_available_mb = 0
    counts = parameters(case["config"])
    # Bytes of mxfp4 contain two values each, without scales.
    packed = counts.get("U8", 0) * 32 // 17
    said = guard.preflight_inference(
        model_params=counts["BF16"] + counts.get("F8_E4M3", 0) + packed,
        model_bits=_BITS[method],
        num_kv_heads=text["num_key_value_heads"],
        head_dim=text.get("head_dim") or text["hidden_size"] // heads,
        num_layers=text["num_hidden_layers"],
        max_num_seqs=case["max_num_seqs"],
        max_seq_len=case["max_model_len"],
        hidden_dim=text["hidden_size"],
    )
    weights = said.estimate.model_weights_mb / _MIB_PER_GIB / cards
    if share is None:
        return {"weights_gib": weights}
    return {
        "weights_gib": weights,
        "max_concurrency": said.max_num_seqs if said.fits else 0,
        "request_gib": said.estimate.kv_cache_mb / _MIB_PER_GIB / said.max_num_seqs,
        "verdict": FITS if said.fits else DOES_NOT_FIT,
        "note": "counts no more requests than max_num_seqs" if said.max_num_seqs == case["max_num_seqs"] else None,
    }


if __name__ == "__main__":
    report("ml-memguard", "ml-memguard", _judge)
