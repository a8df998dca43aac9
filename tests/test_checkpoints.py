"""The size of a checkpoint is read from its headers alone, and damage is one clear line."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from vllm_runbooks.checkpoints import tensor_bytes
from vllm_runbooks.errors import InputError


def _save(path: Path, shapes: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """Write a file in the published format; its weights are zeros. The bytes of its tensors."""
    widths = {"BF16": 2, "F32": 4, "U8": 1}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in shapes.items():
        size = widths[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    body = bytes(end)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return end


def test_headers_are_added_up(tmp_path: Path) -> None:
    """Of several files every tensor counts with its own dtype."""
    size = _save(tmp_path / "a.safetensors", {"x": ("BF16", (8, 16)), "y": ("U8", (3,))})
    size += _save(tmp_path / "b.safetensors", {"z": ("F32", (5, 5))})
    assert tensor_bytes(tmp_path) == size == 8 * 16 * 2 + 3 + 100


def test_index_speaks_for_files_that_are_not_there(tmp_path: Path) -> None:
    """The index's total counts until every file is there; then their headers do."""
    told = {"metadata": {"total_size": 1234}, "weight_map": {"x": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(told))
    assert tensor_bytes(tmp_path) == 1234
    size = _save(tmp_path / "a.safetensors", {"x": ("BF16", (4, 4))})
    assert tensor_bytes(tmp_path) == size


def test_folder_without_weights_says_nothing(tmp_path: Path) -> None:
    """A folder that holds a configuration alone has no known size."""
    assert tensor_bytes(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x05\x00\x00\x00\x00\x00\x00\x00[1,2]"])
def test_damaged_header_is_one_line(tmp_path: Path, content: bytes) -> None:
    """A file that is cut off or no safetensors at all is named with what to do."""
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="header is damaged; fetch the file again"):
        tensor_bytes(tmp_path)


def test_index_names_no_file_elsewhere(tmp_path: Path) -> None:
    """An index cannot make another folder's files be read."""
    told = {"metadata": {}, "weight_map": {"x": "../secret.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="no index of safetensors"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("side", ["Infinity", "NaN", "1e999", "8.5", "true", '"8"', "null", "-1"])
def test_place_that_is_no_number_of_bytes_is_damage(tmp_path: Path, side: str) -> None:
    """Python reads more as JSON than JSON has; none of it becomes a size or another error."""
    header = f'{{"x": {{"dtype": "U8", "shape": [8], "data_offsets": [0, {side}]}}}}'.encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(InputError, match="header is damaged; fetch the file again"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("total", ["Infinity", "-Infinity", "NaN", "1e999", "8.5", "true", '"8"', "-1"])
def test_total_that_is_no_number_of_bytes_is_damage(tmp_path: Path, total: str) -> None:
    """The index's total is a whole number of bytes or the index is none."""
    text = f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"x": "a.safetensors"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(InputError, match="no index of safetensors; fetch it again"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("metadata", ["{}", '{"total_size": null}', '{"total_size": 0}'])
def test_index_without_a_total_says_nothing(tmp_path: Path, metadata: str) -> None:
    """An index that states no total leaves the size unknown."""
    text = f'{{"metadata": {metadata}, "weight_map": {{"x": "a.safetensors"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert tensor_bytes(tmp_path) is None
