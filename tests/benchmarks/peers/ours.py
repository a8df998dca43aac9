"""This project's own planner on the same launches: writes `ours.json`.

    python tests/benchmarks/peers/ours.py

Its input is the configuration, the GPU's printed memory and the command. Unlike the peers it derives
batches and requests from the release if the command lacks them. Nothing is calibrated by logs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vllm_runbooks.catalog import specs
from vllm_runbooks.catalog.authored import spec_files
from vllm_runbooks.plan.budget import Budget, budget, subject
from vllm_runbooks.plan.devices import Device
from vllm_runbooks.plan.settings import settle
from vllm_runbooks.plan.terms import GIB, Band

HERE = Path(__file__).resolve().parent
PEER = "vllm-runbooks"
_CARDS = {"24 GB card": "RTX3090", "16 GB card": "RTX5080", "RTX 3090": "RTX3090"}
"""GPUs of the catalog for other or missing names in a log; memory is the printed one."""
_FABRIC = {"P3": "nvlink", "P4": "nvlink", "P5": "nvlink"}
"""Launches on a known machine: servers of H100 and A100."""
_GIVEN: Mapping[str, Mapping[str, Any]] = {
    "S2": {"enforce_eager": True},
    "S7": {"limit_mm_per_prompt": {"image": 10}, "mm_encoder_tp_mode": "data"},
    "P2": {"max_num_batched_tokens": 32768},
    "P4": {"max_num_batched_tokens": 8192, "max_num_seqs": 2, "dtype": "float16", "trust_remote_code": True},
    "P5": {"max_num_batched_tokens": 16384, "max_num_seqs": 64, "limit_mm_per_prompt": {"image": 50, "video": 2}},
}
"""Options of the command in addition to the columns of the cases."""
_ENVIRONMENT = {"P5": {"VLLM_USE_V1": "0"}}
_RELEASES = {"0.8.0rc3.dev5": "0.8.0"}
_VERDICTS = {True: "fits", False: "does not fit", None: "does not say"}


@cache
def _catalog() -> specs.Specs:
    return specs.load(spec_files.compile_specs)


def _budget(case: Mapping[str, Any]) -> Budget:
    gpu = _catalog().gpu(_CARDS.get(case["gpu"], case["gpu"]))
    config = json.loads((HERE / "configs" / f"{case['config']}.json").read_text(encoding="utf-8"))
    found = subject(case["config"], config)
    told = {name: case[name] for name in ("max_model_len", "gpu_memory_utilization", "quantization") if case[name]}
    settings = settle(
        found.shape,
        {
            **told,
            "tensor_parallel_size": case["tensor_parallel_size"],
            **case.get("options", {}),
            **_GIVEN.get(case["id"], {}),
        },
        _RELEASES.get(case["release"], case["release"]),
        environment=_ENVIRONMENT.get(case["id"]),
        gpu_name=gpu.aliases[0],
        memory_gib=gpu.memory_gib,
        capability=gpu.version,
        config=config,
        context=case.get("context", "serve"),
    )
    total = Band(*(int(case["gpu_total_gib"] * GIB),) * 3)
    fabric = case.get("fabric") or _FABRIC.get(case["id"], gpu.interconnect)
    one = Device(gpu.name, total, "", None, gpu.version, fabric)
    return budget(found, settings, [one] * case["tensor_parallel_size"])


def _row(case: Mapping[str, Any]) -> dict[str, Any]:
    made = _budget(case)
    row: dict[str, Any] = {
        "peer": PEER,
        "version": version(PEER),
        "case": case["id"],
        "weights_gib": None,
        "kv_gib": None,
        "kv_tokens": None,
        "max_concurrency": None,
        "model_gib": None,
        "request_gib": None,
        "verdict": "does not say",
        "note": "; ".join(made.limits) or None,
    }
    weights = [term.band.expected for rank in made.ranks for term in rank.terms if term.name == "weights" and term.band]
    if weights:
        row["weights_gib"] = round(max(weights) / GIB, 4)
    if made.pool is not None:
        cards = case["tensor_parallel_size"]
        length = case["max_model_len"]
        row["request_gib"] = round(made.pool.request_blocks(length) * made.pool.bytes_per_block[0] * cards / GIB, 4)
    if case["gpu_memory_utilization"] is None:
        row["note"] = "its share of the card is not known"
        return row
    row["verdict"] = _VERDICTS[made.fits]
    if made.available is not None and made.blocks is not None and made.pool is not None:
        row["kv_gib"] = round(max(0, min(made.available[1])) / GIB, 4)
        row["kv_tokens"] = made.pool.tokens(made.blocks.expected)
        row["max_concurrency"] = round(made.pool.concurrency(made.blocks.expected), 2)
    return row


def rows() -> list[dict[str, Any]]:
    """A row for every launch, in the format of the peers."""
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))["cases"]
    return [_row(case) for case in cases]


def main() -> None:
    """Write the rows."""
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows())
    (HERE / "ours.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(f"{len(rows())} rows\n")


if __name__ == "__main__":
    main()
