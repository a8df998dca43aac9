"""Size of a model's weights, from the headers of its safetensors files or from their index.

A header is eight bytes, its length as a little-endian number, and JSON of that length with the
dtype, shape and offsets of each tensor (https://github.com/huggingface/safetensors, README.md,
"Format"). The weights are not read.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vllm_runbooks.core.errors import InputError

MAX_HEADER = 100_000_000
"""Bytes of a header; the format itself rejects longer ones (safetensors/src/tensor.rs, MAX_HEADER_SIZE)."""
INDEX = "model.safetensors.index.json"
MAX_INDEX = 64 << 20
"""Maximum size of an index in bytes, ten times that of the largest models."""


def tensor_bytes(folder: Path) -> int | None:
    """Bytes of all tensors of a checkpoint; None if the folder has no safetensors and no index.

    Reads the headers if all files are present, else the index.

    Raises:
        InputError: A header or the index is damaged.
    """
    index = _index(folder)
    if index is not None:
        names = sorted(set(index.get("weight_map", {}).values()))
        if names and all((folder / name).is_file() for name in names):
            return sum(_header_bytes(folder / name) for name in names)
        total = index.get("metadata", {}).get("total_size")
        if isinstance(total, float) and total.is_integer():
            total = int(total)  # as some tools write it
        if total is not None and not _is_size(total):
            raise _no_index(folder / INDEX)
        return total or None
    files = _in_folder(folder)
    return sum(map(_header_bytes, files)) if files else None


def weight_files(names: Iterable[str]) -> list[str]:
    """Names of the weight files of a model without an index; Mistral's copy of the same weights counts if alone."""
    files = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    return [name for name in files if not name.startswith("consolidated")] or files


def _in_folder(folder: Path) -> list[Path]:
    return [folder / name for name in weight_files(path.name for path in folder.glob("*.safetensors"))]


def shards(folder: Path) -> list[str]:
    """Names of the weight files in a checkpoint's index; empty without an index.

    Raises:
        InputError: The index is damaged.
    """
    return sorted(set((_index(folder) or {}).get("weight_map", {}).values()))


def has_headers(folder: Path) -> bool:
    """Whether a folder has the header of every weight file.

    Raises:
        InputError: The index is damaged.
    """
    if (folder / INDEX).exists():
        names = shards(folder)
        return bool(names) and all((folder / name).is_file() for name in names)
    return any(folder.glob("*.safetensors"))


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _no_index(path: Path) -> InputError:
    return InputError(f"{path}: not a safetensors index; download it again")


def _index(folder: Path) -> dict[str, Any] | None:
    path = folder / INDEX
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_INDEX + 1)
    except FileNotFoundError:
        return None
    if len(text) > MAX_INDEX:
        raise InputError(f"{path}: has more than the {MAX_INDEX} bytes allowed for an index; download it again")
    try:
        index = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: invalid JSON; download the index again") from None
    parts = (index, index.get("weight_map", {}), index.get("metadata", {})) if isinstance(index, dict) else (None,)
    if not all(isinstance(part, dict) for part in parts) or not all(
        isinstance(name, str) and Path(name).name == name for name in index.get("weight_map", {}).values()
    ):
        raise _no_index(path)
    return dict(index)


def tensor_names(folder: Path) -> frozenset[str] | None:
    """Names of all tensors of a checkpoint; None if the folder has no safetensors and no index.

    Raises:
        InputError: A header or the index is damaged.
    """
    index = _index(folder)
    if index is not None:
        return frozenset(index.get("weight_map", {})) or None
    files = _in_folder(folder)
    return frozenset(name for path in files for name in _header(path)) if files else None


def tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Dtype, shape and bytes of each tensor of a safetensors file, by name.

    Raises:
        InputError: The file is damaged, truncated, longer than its header declares, or a Git
            LFS pointer.
        OSError: The file cannot be read.
    """
    end, size = _end_of(path), path.stat().st_size
    if end is None:
        raise InputError(f"{path}: is a Git LFS pointer, not the weights; run git lfs pull")
    if size != end:
        raise InputError(f"{path}: has {size} bytes, but its header says {end}; download it again")
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    entries = {}
    for name, (begin, last, _) in _header(path).items():
        dtype, shape = header[name].get("dtype"), header[name].get("shape")
        if not isinstance(dtype, str) or not isinstance(shape, list) or not all(map(_is_size, shape)):
            raise InputError(f"{path}: its header is damaged; download the file again")
        entries[name] = (dtype, tuple(shape), last - begin)
    return entries


def _header_bytes(path: Path) -> int:
    return sum(place.size for place in _header(path).values())


_LAYER = re.compile(
    r"(?:(?:model|language_model|text_model|llm|thinker|transformer|backbone)\.)*(?:layers|h|blocks)\.(\d{1,5})\."
)
"""Names of the text model's tensors; those of encoders begin with the name of their tower."""
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_SCALE = "scale"
"""Part of the names of tensors that vLLM does not convert to the model's dtype."""
_LEFT_OUT = (".attn.bias", ".attention.bias", ".masked_bias", ".inv_freq", "zeros", "zero_point", "g_idx")
"""Ends of the names of tensors that some files have whether vLLM loads them or not."""


def layer_bytes(folder: Path) -> dict[int, int]:
    """Bytes of each layer of the text model, without zero points; empty without all headers.

    Unquantized weights count as 16-bit values.

    Raises:
        InputError: A header or the index is damaged.
    """
    if not has_headers(folder):
        return {}
    layers: dict[int, int] = {}
    for file in [folder / name for name in shards(folder)] or _in_folder(folder):
        for name, place in _header(file).items():
            if (match := _LAYER.match(name)) is None or name.endswith(_LEFT_OUT):
                continue
            is_converted = place.dtype in _FLOATS and _SCALE not in name
            size = place.size // _FLOATS[place.dtype] * 2 if is_converted else place.size
            layers[int(match[1])] = layers.get(int(match[1]), 0) + size
    return layers


class TensorPlace(NamedTuple):
    """A tensor in a safetensors file."""

    begin: int
    end: int
    dtype: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


def _header(path: Path) -> dict[str, TensorPlace]:
    with path.open("rb") as stream:
        return places(stream, str(path))


def places(stream: BinaryIO, name: str) -> dict[str, TensorPlace]:
    """Offsets and dtype of each tensor in a safetensors file, from its header.

    Raises:
        InputError: The header is damaged; `name` is the file.
    """
    damaged = InputError(f"{name}: its header is damaged; download the file again")
    start = stream.read(8)
    if len(start) < 8:
        raise damaged
    (length,) = struct.unpack("<Q", start)
    if length > MAX_HEADER:
        raise damaged
    try:
        header = json.loads(stream.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        offsets = {name: entry["data_offsets"] for name, entry in entries.items()}
        made = {name: TensorPlace(begin, end, str(entries[name]["dtype"])) for name, (begin, end) in offsets.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged from None
    if not all(_is_size(place.begin) and _is_size(place.end) and place.size >= 0 for place in made.values()):
        raise damaged
    return made


_LFS = b"version https://git-lfs"
_TOKENIZERS = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "tekken.json", "spiece.model",
)  # fmt: skip
_MAX_JSON = 64 << 20
"""Bytes of a JSON file that are read; the tokenizers of the largest vocabularies have half of that."""
_SETTINGS = (
    "config.json", "params.json", "generation_config.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json",
)  # fmt: skip
_OF_TOKENIZERS = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "tekken.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.json",
)  # fmt: skip
_KINDS = ("auto_map", "architecture", "pretrained_cfg")
"""Fields that identify a model without `model_type`: custom code, and the two of timm."""
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.gguf", "*.pth", "consolidated*.safetensors")


def problems(folder: Path, *, needs_weights: bool = True, needs_tokenizer: bool = True) -> list[str]:
    """Missing or damaged files in a model folder, one line each; weights are not read.

    Args:
        folder: The model's folder.
        needs_weights: Whether weights are loaded from it (not with dummy weights).
        needs_tokenizer: Whether its tokenizer is used.
    """
    faults: list[str] = []
    config = folder / "config.json"
    has_params = (folder / "params.json").is_file()
    if not config.is_file() and not has_params and not any(folder.glob("*.gguf")):
        faults.append(f"{config}: not found; download the model again, or correct the path")
    if needs_tokenizer and not any((folder / name).is_file() for name in _TOKENIZERS):
        faults.append(f"{folder}: contains no tokenizer (tokenizer.json or tokenizer.model); download it, or name one")
    has_other = has_params or any(folder.glob("*.gguf"))
    for name in (*_SETTINGS, *(_OF_TOKENIZERS if needs_tokenizer else ())):
        fault = _json_problem(folder / name, is_config=name == config.name and not has_other)
        if fault is not None:
            faults.append(f"{folder / name}: {fault}")
    if needs_weights:
        faults += _weight_problems(folder)
    return faults


def _json_problem(path: Path, *, is_config: bool) -> str | None:
    """Problem of a model's JSON file and its fix; None if it is valid or does not exist.

    Contents of the file are not quoted.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MAX_JSON + 1)
    except OSError as error:
        return f"cannot be read ({error.strerror}); download it again, or fix its permissions"
    if len(raw) > _MAX_JSON:
        return f"is larger than the {_MAX_JSON >> 20} MiB allowed for such a file; download it again"
    if raw.startswith(_LFS):
        return "is a Git LFS pointer, not the file; run git lfs pull"
    if not raw.strip():
        return "is empty; download it again"
    try:
        # Numbers are not converted: parsing very long ones is slow.
        content = json.loads(raw.decode(), parse_int=len, parse_float=len)
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text from byte {error.start} on; download it again"
    except json.JSONDecodeError as error:
        return f"is truncated or invalid JSON at {error.lineno}:{error.colno}; download it again"
    except RecursionError:
        return "is nested too deeply; download it again"
    if not isinstance(content, dict) and path.name != "vocab.json":  # some are lists
        return "is not a JSON object; download it again"
    if is_config and not _names_kind(content):
        return "has neither architectures nor model_type; download it again"
    return None


def _names_kind(config: dict[str, Any]) -> bool:
    kind, classes = config.get("model_type"), config.get("architectures")
    if (isinstance(kind, str) and kind.strip()) or any(config.get(name) for name in _KINDS):
        return True
    return isinstance(classes, list) and any(isinstance(name, str) and name.strip() for name in classes)


def _weight_problems(folder: Path) -> list[str]:
    faults = []
    try:
        index = _index(folder)
    except InputError as error:
        return [str(error)]
    named = sorted(set(index.get("weight_map", {}).values())) if index is not None else []
    missing = [name for name in named if not (folder / name).is_file()]
    if missing:
        shortage = f"{len(missing)} of {len(named)} weight files are missing"
        faults.append(f"{folder}: {shortage}, first {missing[0]}; download them")
    files = [folder / name for name in named if name not in missing] or _in_folder(folder)
    if not files and not missing:
        others = [path for pattern in _OTHER_WEIGHTS for path in folder.glob(pattern)]
        return (
            faults if others else [*faults, f"{folder}: contains no weights (*.safetensors); download the model again"]
        )
    for path in files:
        try:
            end, size = _end_of(path), path.stat().st_size
        except InputError as error:
            faults.append(str(error))
            continue
        except OSError as error:
            faults.append(f"{path}: cannot be read ({error.strerror}); download it again, or fix its permissions")
            continue
        if end is None:
            faults.append(f"{path}: is a Git LFS pointer, not the weights; run git lfs pull")
        elif size != end:
            faults.append(f"{path}: has {size} bytes, but its header says {end}; download it again")
    return faults


def _end_of(path: Path) -> int | None:
    """Size in bytes that a weights file must have by its header; None for a Git LFS pointer."""
    with path.open("rb") as stream:
        head = stream.read(max(8, len(_LFS)))
    if head.startswith(_LFS):
        return None
    length = struct.unpack("<Q", head[:8])[0] if len(head) >= 8 else 0
    return 8 + length + max((place.end for place in _header(path).values()), default=0)
