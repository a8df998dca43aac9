"""gpustack: memory claimed by its scheduler for a model, compared with its share of the GPUs."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from material import DOES_NOT_FIT, DOES_NOT_SAY, FITS, GIB, Case, Said, checkpoint_bytes, report


def _judge(case: Case) -> Said:
    policies: Any = import_module("gpustack.policies.utils")
    models: Any = import_module("gpustack.schemas.models")
    # The hub alone has the size of a repository's weights.
    policies.get_model_weight_size = lambda *_: checkpoint_bytes(case["config"])
    model = models.Model(name="case", source=models.SourceEnum.HUGGING_FACE, huggingface_repo_id="case", replicas=1)
    claim = asyncio.run(policies.estimate_model_vram(model)) / GIB
    note = f"claims {claim:.2f} GiB of all cards together"
    if case["gpu_memory_utilization"] is None:
        return {"verdict": DOES_NOT_SAY, "note": note}
    given = case["gpu_total_gib"] * case["gpu_memory_utilization"] * case["tensor_parallel_size"]
    return {"verdict": FITS if claim <= given else DOES_NOT_FIT, "note": note}


if __name__ == "__main__":
    report("gpustack", "gpustack", _judge)
