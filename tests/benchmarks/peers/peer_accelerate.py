"""accelerate: the sizes that `estimate-memory` prints, of a model built here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from material import GIB, Case, Said, empty_model, report, whole


def _judge(case: Case) -> Said:
    estimate: Any = import_module("accelerate.commands.estimate")
    torch: Any = import_module("torch")
    rows = {"fp8": "int8", None: "float16"}
    # It looks a model up on the hub before it builds it, in float32.
    estimate.create_empty_model = lambda *_, **__: empty_model(case["config"]).to(torch.float32)
    arguments = estimate.estimate_command_parser().parse_args([case["config"], "--library_name", "transformers"])
    sizes = {row[0]: row[2] for row in estimate.gather_data(arguments)}
    row = rows[case["quantization"]]
    note = None
    if case["config"].startswith("gpt-oss"):
        note = f"it does not read the quantisation; its int4 row says {sizes['int4'] / GIB:.2f}"
    return {**whole(case, sizes[row] / GIB), "note": note}


if __name__ == "__main__":
    report("accelerate", "accelerate", _judge)
