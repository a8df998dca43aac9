"""Names and units of a launch's figures."""

from __future__ import annotations

from vllm_runbooks.catalog.templates import value_of
from vllm_runbooks.core.evidence import Evidence
from vllm_runbooks.core.records import COUNTED, Facts

FACT_NAMES = {
    "model": "model", "architecture": "architecture", "quantization": "quantization", "weights_gib": "weights",
    "activation_gib": "activation peak", "non_torch_gib": "non-torch memory", "cuda_graph_gib": "CUDA graphs",
    "cuda_graph_estimated_gib": "CUDA graphs (estimate)", "kv_cache_gib": "KV cache",
    "kv_cache_tokens": "KV cache size", "kv_cache_blocks": "KV cache blocks",
    "max_concurrency": "max concurrency", "gpu_total_gib": "GPU memory",
    "gpu_memory_utilization": "gpu_memory_utilization", "max_model_len": "max_model_len",
    "tensor_parallel_size": "tensor parallel size",
    "pipeline_parallel_size": "pipeline parallel size", "data_parallel_size": "data parallel size",
    "executor_backend": "executor backend", "load_seconds": "model loading", "startup_seconds": "startup time",
    "generation_tokens_per_s_max": "peak generation throughput", **COUNTED,
}  # fmt: skip
_UNITS = {
    "max_concurrency": "x",
    "kv_cache_blocks": "blocks",
    "generation_tokens_per_s_max": "tokens/s",
    "max_model_len": "tokens",
}


def figure(name: str, facts: Facts) -> str | None:
    """A fact with its unit; None if unknown."""
    value = value_of(name, {}, facts)
    unit = _UNITS.get(name, "")
    return value if value is None or not unit else f"{value}{unit}" if unit == "x" else f"{value} {unit}"


def printed_gib(captures: dict[str, str], name: str) -> float | None:
    """An amount of memory among a symptom's captures in GiB, whatever unit was printed; None if it is no number."""
    for suffix, divisor in (("gib", 1.0), ("mib", 1024.0), ("kib", 1024.0**2), ("bytes", 1024.0**3)):
        printed = captures.get(f"{name}_{suffix}")
        if printed is not None:
            try:
                return float(printed.replace(",", "")) / divisor
            except ValueError:
                return None
    return None


def gpu_total(facts: Facts, evidence: Evidence | None, gpu_gib: float = 0.0) -> float | None:
    """Total memory of a GPU in GiB: as printed, else as the user gives it, else as the recorded case gives it."""
    judged = evidence.case.claims if evidence and evidence.case else None
    size = next((g.value for g in judged.given if g.name == "gpu_total_gib"), None) if judged else None
    total = facts.gpu_total_gib or gpu_gib or size
    return float(total) if isinstance(total, (int, float)) and total > 0 else None
