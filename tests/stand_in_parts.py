"""Fakes the Python of the open tools; JSON in STAND_IN_PARTS gives its behavior.

    {"lacks": [NAME]}                    missing packages
    {"quantise": DO, "evaluate": DO}     behavior of its programs:
        {"sleep": S}   {"grow": MIB}   {"exit": STATUS, "says": LINE}   {"leaves": []}   {"kill": TITLE}
    {"right": {"float": N, "quantised": N}}     numbers of correct answers

A model is quantized by copying its weights, and a report has the format of EvalScope 1.14.1.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

TOLD: dict[str, Any] = json.loads(os.environ.get("STAND_IN_PARTS", "{}"))
MARK = "vllm-runbooks quantiser: "


def _do(told: dict[str, Any]) -> None:
    """Run this behavior instead of the program."""
    if "grow" in told:
        held = bytearray(os.urandom(1 << 20) * told["grow"])
        time.sleep(60)
        print(len(held))
    time.sleep(told.get("sleep", 0))
    if "exit" in told:
        print(told.get("says", ""))
        print("a last line that says nothing", flush=True)
        sys.exit(told["exit"])


def _quantise(asked: dict[str, Any]) -> None:
    told = TOLD.get("quantise", {})
    print(f"{MARK}{json.dumps({'state': 'calibrates', 'samples': 3, 'tokens': 30})}", flush=True)
    print("(1/3): Calibrating:   0%|          | 0/3", flush=True)
    model, out = Path(asked["model"]), Path(asked["out"])
    out.mkdir()
    shutil.copyfile(model / "model.safetensors", out / "model.safetensors")
    _do(told)
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "compressed-tensors"}
    if "leaves" not in told:
        (out / "config.json").write_text(json.dumps(config))


def _evaluate(words: list[str]) -> None:
    given = dict(zip(words[0::2], words[1::2], strict=False))
    name, folder = given["--model-id"], Path(given["--work-dir"])
    print(f"api key: {os.environ.get('EVALSCOPE_API_KEY')}", flush=True)
    dataset = json.loads(given["--dataset-args"])["general_mcq"]
    (subset,) = dataset["subset_list"]
    count = len((Path(dataset["local_path"]) / f"{subset}_val.csv").read_text().splitlines()) - 1
    print("Evaluating[general_mcq]:  41%|", flush=True)
    _do(TOLD.get("evaluate", {}))
    right = TOLD.get("right", {}).get(name, count)
    score = right / count
    part = {"name": subset, "score": score, "num": count, "metadata": None, "is_aggregate": False}
    category = {"name": ["default"], "num": count, "score": score, "macro_score": score, "subsets": [part]}
    metric = {
        "identity": {"name": "accuracy", "aggregation": "mean", "dimensions": {}}, "legacy_name": None,
        "num": count, "score": score, "macro_score": score, "categories": [category],
        "semantics": {"metric_name": "Accuracy", "direction": "higher_is_better", "raw_unit": None},
    }  # fmt: skip
    report = {
        "schema_version": 2, "name": f"{name}@general_mcq", "dataset_name": "general_mcq",
        "dataset_pretty_name": "General-MCQ", "model_name": name, "metrics": [metric], "analysis": "N/A",
    }  # fmt: skip
    (folder / "reports" / name).mkdir(parents=True)
    (folder / "reports" / name / "general_mcq.json").write_text(json.dumps(report))
    (folder / "reviews" / name).mkdir(parents=True)
    with (folder / "reviews" / name / f"general_mcq_{subset}.jsonl").open("w") as file:
        for number in range(count):
            value = {"value": {"accuracy": float(number < right)}, "status": "success", "main_score_name": "accuracy"}
            sample = {"score": value, "sample_id": number, "group_id": number, "generation_index": 0}
            question = [{"role": "user", "content": f"question {number}"}]
            row = {"index": number, "target": ["A"], "messages": question, "sample_score": sample}
            file.write(f"{json.dumps(row)}\n")


def main(words: list[str]) -> None:
    """As Python takes its arguments."""
    if words[0] == "-c":
        print(json.dumps({name: None if name in TOLD.get("lacks", []) else "1.0" for name in words[2:]}))
    elif words[1] == "-m":
        _evaluate(words[4:])
    else:
        _quantise(json.loads(words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
