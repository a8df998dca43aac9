"""Fake of the toolchain's quantization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import call

from quant_toolchain.configs.dataset_utils import get_dataloader
from quant_toolchain.configs.get_config import get_awq_config

__all__ = ["get_awq_config", "get_dataloader", "quantize_model", "save_quantized_model"]


def quantize_model(model: Any, config: Any, batches: Any, tokenizer: Any = None) -> Any:
    call("quantize_model", model, config, batches, tokenizer)
    return model


def save_quantized_model(model: Any, folder: str, tokenizer: Any = None) -> None:
    call("save_quantized_model", model, folder, tokenizer)
    (Path(folder) / "config.json").write_text("{}", encoding="utf-8")
