"""What the reasons mean that vLLM lists for each attention backend it cannot use."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LIST = re.compile(r"Reasons: ?\{(?P<all>[^}]{1,4000})", re.DOTALL)
_SELECTED = re.compile(r"\b(?P<name>kv_cache_dtype|block_size|dtype)=(?P<value>[\w.]{1,60})", re.ASCII)
_BACKEND = re.compile(r"(?P<name>[A-Z][A-Z0-9_]{2,59}): \[(?P<reasons>[^\]]{0,600})\]", re.ASCII)
_OPTIONS = {
    "kv_cache_dtype not supported": "kv_cache_dtype",
    "block_size not supported": "block_size",
    "dtype not supported": "dtype",
}
"""Reasons that an option decides (v1/attention/backend.py, validate_configuration)."""
_OF_FLASHINFER = re.compile(r"requires FlashInfer\b", re.ASCII)
_OF_GPU = re.compile(r"compute capability not supported|(?:not|only) supported on ", re.ASCII)
_ONLY_ON = re.compile(r"only supported on (?P<gpus>[A-Z][\w ,]{3,60}?)(?:\.|\]|, |\Z)", re.ASCII)


def rejecting_backends(message: str) -> Mapping[str, str]:
    """Captures for remedies.

    They name the backends that reject only one option, with the option's value as printed, those that
    only need FlashInfer, and those that only need another GPU.
    """
    listed = _LIST.search(message)
    if listed is None:
        return {}
    backends = {
        match["name"]: frozenset(reason.strip() for reason in match["reasons"].split(","))
        for match in _BACKEND.finditer(listed["all"])
    }
    if not backends:
        return {}
    captures = {
        f"rejects_{option}": ", ".join(names)
        for reason, option in _OPTIONS.items()
        if (names := [name for name, reasons in backends.items() if reasons == {reason}])
    }
    captures |= {
        f"selected_{match['name']}": match["value"] for match in _SELECTED.finditer(message, 0, listed.start())
    }
    without_flashinfer = [n for n, reasons in backends.items() if reasons and all(map(_OF_FLASHINFER.search, reasons))]
    if without_flashinfer:
        captures["flashinfer_backends"] = ", ".join(without_flashinfer)
    on_other_gpus = [name for name, reasons in backends.items() if reasons and all(map(_OF_GPU.search, reasons))]
    if on_other_gpus:
        captures["gpu_backends"] = ", ".join(on_other_gpus)
        if (kinds := _ONLY_ON.search(message)) is not None:
            captures["gpu_kinds"] = kinds["gpus"].strip()
    return captures
