"""Check a quantised checkpoint: complete, from one save, in the expected format, plausible size.

A quantised weight takes 4 bits, with scales and zero points per group; everything else takes 16
bits. The format before conversion is undocumented and not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.catalog.toolchains import CheckpointFile, Toolchain
from vllm_runbooks.edge10.artefacts.findings import FolderNotes, meaning
from vllm_runbooks.edge10.artefacts.records import Contents, ListedFile

INDEX = "model.safetensors.index.json"
_CONFIG = "config.json"
_WEIGHTS = ".safetensors"
_QWEIGHT = ".qweight"
_VISION = re.compile(r"(?:^|\.)(?:visual|vision_tower|vision_model|vision_encoder|vit)\.", re.ASCII)
_BPE_PAIR = {"vocab.json": "merges.txt", "merges.txt": "vocab.json"}
"""Files of a byte-pair tokenizer, each useless without the other."""
_INCOMPLETE = tuple(f"edge10.checkpoint_{word}" for word in ("shard", "weights", "not_converted", "vision_missing"))
"""Prefixes of findings after which sizes are not compared."""
_MAX_OVERHEAD = 1.02
"""Factor by which a checkpoint may be larger than its tensors."""
_BITS = 4


@dataclass
class Checkpoint:
    """A checkpoint's files and their contents."""

    files: Mapping[str, ListedFile]
    """By name below the checkpoint's folder."""
    contents: Contents
    name: str = ""
    config: dict[str, Any] | None = field(init=False)
    """None if unknown."""

    def __post_init__(self) -> None:
        """Parse the configuration."""
        self.config = _parse_object(self.contents.texts.get(_CONFIG))

    @property
    def tensors(self) -> dict[str, tuple[str, int]]:
        """File and bytes of each tensor by name; empty if no header was read."""
        return {name: (path, size) for path, tensors in self.contents.tensors.items() for name, size in tensors.items()}

    @property
    def shards(self) -> list[str]:
        """Files of weights."""
        return sorted(name for name in self.files if name.endswith(_WEIGHTS) and "/" not in name)

    @property
    def kind(self) -> str | None:
        """`vlm` for a model with image input, `llm` for a language model; None if unknown."""
        if (self.config or {}).get("vision_config") is not None or any(map(_VISION.search, self.tensors)):
            return "vlm"
        if "preprocessor_config.json" in self.files:
            return "vlm"
        return "llm" if self.config is not None else None

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of the tensors, else of the files; None if unknown."""
        if self.tensors:
            return sum(size for _, size in self.tensors.values())
        sizes = [self.files[name].bytes for name in self.shards]
        return sum(size or 0 for size in sizes) if sizes and None not in sizes else None

    def setting(self, key: str) -> Any:
        """A value of the configuration or of its language part."""
        config = self.config or {}
        for part in (config, _mapping(config.get("text_config")), _mapping(config.get("llm_config"))):
            if part.get(key) is not None:
                return part[key]
        return None


def _parse_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class CheckpointCheck:
    """Check of a checkpoint."""

    def __init__(
        self, checkpoint: Checkpoint, facts: Toolchain, notes: FolderNotes, *, kind: str | None, step: str | None,
        float_model: Checkpoint | None,
    ) -> None:  # fmt: skip
        self.checkpoint, self.facts, self.kind, self.step, self.float = checkpoint, facts, kind, step, float_model
        self.notes, self.add = notes, notes.add
        self.files, self.contents, self.tensors = checkpoint.files, checkpoint.contents, checkpoint.tensors
        self.index = _parse_object(self.contents.texts.get(INDEX))
        self.places = _mapping(_mapping(self.index).get("weight_map"))
        """File of each tensor by the index."""
        self.names = frozenset(map(str, self.places)) | frozenset(self.tensors)
        """Names of all tensors; empty if unknown."""
        self.packed = sorted(name for name in self.names if name.endswith(_QWEIGHT))

    def run(self) -> None:
        """Add the problems to the notes."""
        self._check_files()
        self._check_weights()
        is_whole = not any(finding.id.startswith("edge10.checkpoint_shard_") for finding in self.notes.findings)
        has_vision = any(map(_VISION.search, self.names))
        if self.kind == "vlm" and self.names and is_whole and self.checkpoint.config is not None and not has_vision:
            self.add("edge10.checkpoint_vision_missing", None, "has no tensor of the vision encoder")
        self._check_quantization()
        self._compare_with_float()

    # ---- files

    def _check_files(self) -> None:
        missing: set[str] = set()
        for row in self.facts.checkpoint:
            is_of_kind = self.kind is None or self.kind in row.kinds
            if not is_of_kind or any(name in self.files for name in row.names) or missing.intersection(row.names):
                continue
            if self.kind is None and row.kinds != ("llm", "vlm"):
                self.notes.unchecked.append(f"whether {row.names[0]} is required: unknown kind of model")
                continue
            if reason := self._reason_for(row):
                name = next((name for name in row.names if self._float_has(name)), row.names[0])
                is_packed_config = name == _CONFIG and (self.step == "convert" or bool(self.packed))
                do = meaning("edge10.checkpoint_unsaid").do if is_packed_config else ""
                self.add("edge10.checkpoint_file_missing", name, reason, do=do)
                # Without the float model, any of the names may be the right one.
                missing.update(row.names if self.float is None else (name,))
        for path, problem in self.contents.damaged.items():
            if not path.endswith(_WEIGHTS):
                self.add("edge10.checkpoint_json_damaged", path, problem)

    def _float_has(self, name: str) -> bool:
        return self.float is not None and name in self.float.files

    def _reason_for(self, row: CheckpointFile) -> str:
        """Reason why a missing file is needed; empty if it is not."""
        if row.is_needed:
            return f"is missing: {row.says}" if row.says else "is missing"
        if self.float is not None:
            is_there = any(map(self._float_has, row.names))
            return f"is missing, but the float model has it: {row.says}" if is_there else ""
        partner = _BPE_PAIR.get(row.names[0], "")
        return f"is missing, but {partner} requires it" if partner in self.files else ""

    # ---- weights

    def _check_weights(self) -> None:
        shards = self.checkpoint.shards
        indexed = sorted({str(place) for place in self.places.values()})
        if not shards and not indexed:
            self.add("edge10.checkpoint_weights_missing", None, "contains no weights (*.safetensors)")
            return
        for name in indexed:
            if name not in self.files:
                self.add("edge10.checkpoint_shard_missing", name, "is missing, but listed in the index")
        if INDEX not in self.files and len(shards) > 1:
            self.add("edge10.checkpoint_index_missing", INDEX, "is missing, but the weights are in several files")
        for path, problem in self.contents.damaged.items():
            if path.endswith(_WEIGHTS):
                self.add("edge10.checkpoint_shard_damaged", path, problem)
        for name in shards:
            if self.files[name].bytes == 0 and name not in self.contents.damaged:
                self.add("edge10.checkpoint_shard_damaged", name, "is empty")
        if not self.contents.tensors:
            self.notes.remarks.append("unknown weight headers, so their format is not checked")

    # ---- the form after conversion

    def _check_quantization(self) -> None:
        if self.checkpoint.config is None:
            if self.step == "convert":
                self.notes.unchecked.append("whether it is converted: unknown config.json")
            return
        settings = self.checkpoint.setting("quantization_config")
        if not isinstance(settings, dict):
            self._check_without_settings()
            return
        method = str(settings.get("quant_method") or settings.get("quant_type") or "").lower()
        methods = self.facts.calibration.methods
        if self.step == "quantise" and (method not in methods or not self.packed):
            self.notes.remarks.append("its format before conversion is not documented and not checked")
            return
        if method not in methods:
            text = f"has quant_method {method or '(nothing)'}, but conversion writes {', '.join(methods)}"
            self.add("edge10.checkpoint_method", _CONFIG, text)
            return
        bits = settings.get("bits", settings.get("w_bit"))
        if bits != _BITS:
            number = bits if isinstance(bits, int) else "nothing of"
            self.add("edge10.checkpoint_bits", _CONFIG, f"has {number} bits, but weights have {_BITS} bits")
        quantised = [name for name in self.packed if _VISION.search(name)]
        if quantised and self.kind == "vlm" and not self.facts.calibration.vision:
            text = f"contains {_and_more(quantised)}: packed weights of the vision encoder"
            self.add("edge10.checkpoint_vision_quantised", self._file_of(quantised[0]), text)
        if self.names and not self.packed:
            text = "declares packed weights, but no tensor is packed (*.qweight)"
            self.add("edge10.checkpoint_not_converted", _CONFIG, text)

    def _check_without_settings(self) -> None:
        if self.packed:
            text = f"has no quantization_config, but {len(self.packed):,} weights are packed"
            self.add("edge10.checkpoint_unsaid", _CONFIG, text)
        elif self.step == "convert":
            text = "has no quantization_config" + (", and no weight is packed" if self.names else "")
            self.add("edge10.checkpoint_not_converted", _CONFIG, text)
        else:
            text = "it is not converted, or not quantized: its format before conversion is not documented"
            self.notes.remarks.append(text + ("" if self.step else "; --step convert requires the converted form"))

    def _file_of(self, tensor: str) -> str:
        return self.tensors[tensor][0] if tensor in self.tensors else INDEX

    # ---- the float model

    def _compare_with_float(self) -> None:
        if self.float is None:
            text = "no float model (--float), so sizes and optional files are not compared"
            self.notes.remarks.append(text)
            return
        if any(finding.id.startswith(_INCOMPLETE) for finding in self.notes.findings):
            return
        size, float_size = self.checkpoint.weight_bytes, self.float.weight_bytes
        if size is None or not float_size:
            self.notes.remarks.append("unknown weight sizes, not compared")
            return
        least, most = float_size * _BITS / 16, float_size * (0.95 if self.step == "convert" else _MAX_OVERHEAD)
        if not least <= size <= most:
            text = (
                f"has {size:,} bytes of weights, but {round(least):,} to {round(most):,} are plausible: 4 to 16 of "
                "the float model's 16 bits a weight"
            )
            self.add("edge10.checkpoint_size", None, text)


def _and_more(items: Sequence[object]) -> str:
    return f"{items[0]} and {len(items) - 1} more" if len(items) > 1 else f"{items[0]}"
