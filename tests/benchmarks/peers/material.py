"""What every peer is handed: the cases, each model's configuration and the headers of its checkpoint.

The model hub is not contacted. Headers are made from the configuration: transformers builds the model on the
`meta` device, without weights, and its parameters are listed as a safetensors file lists them. Runs in the peers'
environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
GIB = 2**30
FITS, DOES_NOT_FIT, DOES_NOT_SAY = "fits", "does not fit", "does not say"

Case = Mapping[str, Any]
Said = Mapping[str, Any]
"""The answer of a peer to a case; missing fields are unanswered."""

_WIDTHS = {"U8": 1, "F8_E4M3": 1, "F32": 4}
_MXFP4_BLOCK = 32
"""Values that share one scale."""


def cases() -> list[Case]:
    """The launches in the order of the table."""
    found: list[Case] = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))["cases"]
    return found


def config(name: str) -> dict[str, Any]:
    """A model's `config.json`."""
    found: dict[str, Any] = json.loads((HERE / "configs" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def folder(name: str, parent: Path) -> Path:
    """A folder with nothing but the model's `config.json`, as the loaders of local models want it."""
    made = parent / name
    made.mkdir(exist_ok=True)
    (made / "config.json").write_text(json.dumps(config(name)), encoding="utf-8")
    return made


def empty_model(name: str) -> Any:
    """The model as transformers builds it, in bfloat16, on the `meta` device; a quantised one before quantisation."""
    torch, transformers = import_module("torch"), import_module("transformers")
    fields = {key: value for key, value in config(name).items() if key != "quantization_config"}
    read = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    is_text = read.architectures[0].endswith("ForCausalLM")
    kind = transformers.AutoModelForCausalLM if is_text else transformers.AutoModelForImageTextToText
    with torch.device("meta"):
        return kind.from_config(read, dtype=torch.bfloat16)


_FP8_BLOCK = 128
"""Rows and columns that share one scale."""
_NOT_FP8 = ("embed", "lm_head", "norm", ".gate.weight", "bias", "weights_proj")


def _stored(name: str, shape: list[int], *, is_mxfp4: bool, is_fp8: bool) -> Iterator[tuple[str, str, list[int]]]:
    if is_fp8 and len(shape) > 1 and not any(part in name for part in _NOT_FP8):
        yield name, "F8_E4M3", shape
        yield f"{name}_scale_inv", "F32", [*shape[:-2], *(-(-size // _FP8_BLOCK) for size in shape[-2:])]
    elif is_mxfp4 and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        experts, columns, rows = shape
        blocks = columns // _MXFP4_BLOCK
        yield f"{name}_blocks", "U8", [experts, rows, blocks, _MXFP4_BLOCK // 2]
        yield f"{name}_scales", "U8", [experts, rows, blocks]
    else:
        yield name, "BF16", shape


@cache
def header(name: str) -> dict[str, Any]:
    """The header of a safetensors file with the whole checkpoint, tied weights once."""
    method = config(name).get("quantization_config", {}).get("quant_method")
    how = {"is_mxfp4": method == "mxfp4", "is_fp8": method == "fp8"}
    found: dict[str, Any] = {}
    end = 0
    for key, value in empty_model(name).named_parameters():
        for stored, dtype, shape in _stored(key, list(value.shape), **how):
            start, end = end, end + _count(shape) * _WIDTHS.get(dtype, 2)
            found[stored] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    return found


def _count(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def parameters(name: str) -> dict[str, int]:
    """Values by dtype, as the hub's client counts them from a header."""
    found: dict[str, int] = {}
    for tensor in header(name).values():
        found[tensor["dtype"]] = found.get(tensor["dtype"], 0) + _count(tensor["shape"])
    return found


def checkpoint_bytes(name: str) -> int:
    """Size of the checkpoint's tensors."""
    end: int = max(tensor["data_offsets"][1] for tensor in header(name).values())
    return end


def whole(case: Case, gib: float) -> dict[str, float]:
    """The answer of a peer about a model that it does not distribute over GPUs."""
    return {"weights_gib" if case["tensor_parallel_size"] == 1 else "model_gib": gib}


def report(peer: str, package: str, judge: Callable[[Case], Said]) -> None:
    """Print a row of JSON for every case."""
    for case in cases():
        try:
            said = judge(case)
        except Exception as error:  # noqa: BLE001 # whatever a peer raises is its answer
            words = " ".join(str(error).split())
            said = {"verdict": "error", "note": f"{type(error).__name__}: {words[:300]}"}
        row = {
            "peer": peer,
            "version": version(package),
            "case": case["id"],
            "weights_gib": None,
            "kv_gib": None,
            "kv_tokens": None,
            "max_concurrency": None,
            "model_gib": None,
            "request_gib": None,
            "verdict": DOES_NOT_SAY,
            "note": None,
            **said,
        }
        rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        sys.stdout.write(json.dumps(rounded) + "\n")
        sys.stdout.flush()
