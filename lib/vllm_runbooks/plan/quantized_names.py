"""Quantized checkpoints of the catalog's models, by the end of their name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from vllm_runbooks.catalog.specs import ModelFile, Specs
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED

_NOT_QUANTIZED = ("lm_head", "re:.*(?:vision|visual|audio|linear_attn)", r"re:.*\.(?:gate|router|shared_expert_gate)$")
"""Modules that the tools leave out: the LM head, encoders, linear attention (llm-compressor's examples of Qwen3-Next
and Qwen3.5), and the gates of experts."""


@dataclass(frozen=True)
class QuantizedName:
    """A row of `quantized_names`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    ending: str
    """Pattern of the end of a name."""
    layout: str
    config: dict[str, Any]
    """The usual `quantization_config`."""
    source: str
    organization: str = ""
    """The only one whose checkpoints the row is for; empty: any."""
    kept: tuple[str, ...] = _NOT_QUANTIZED
    """Modules without quantization."""


def base_of(name: str, specs: Specs) -> tuple[ModelFile, QuantizedName] | None:
    """The model that a name with a quantization's ending is made from, and that quantization; None if unknown."""
    found = _ending(re.sub(r"\s+", "-", name.strip()))
    if found is None or _ending(found[0]) is not None:
        return None  # quantized twice
    base = next(_bases(found[0], specs), None)
    return None if base is None else (base, found[1])


def _ending(name: str) -> tuple[str, QuantizedName] | None:
    """The name without a quantization's ending, and that quantization."""
    for row in load_table("quantized_names", QuantizedName).values():
        match = re.search(rf"(?:{row.ending})$", name, re.ASCII | re.IGNORECASE)
        if match is not None and row.organization in ("", name.rpartition("/")[0]):
            return name[: match.start()], row
    return None


def _bases(name: str, specs: Specs) -> Iterator[ModelFile]:
    last = name.rpartition("/")[2]
    for candidate in (name, f"{name}-BF16", last):
        model = specs.model(candidate)
        if model is not None and model.id is not None:
            yield specs.file(model.id)


def quantized_config(base: Mapping[str, Any], row: QuantizedName) -> dict[str, Any]:
    """A model's configuration with the usual quantization."""
    config = {key: value for key, value in base.items() if key != "compression_config"}
    return {**config, "quantization_config": {**row.config, "ignore": list(row.kept)}}
