"""The size of a checkpoint is read from its headers alone, and damage is one clear line."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from vllm_runbooks.core.errors import InputError
from vllm_runbooks.plan import checkpoints
from vllm_runbooks.plan.checkpoints import problems, tensor_bytes


def _save(path: Path, shapes: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    """Write a file of zero weights in the published format and return the bytes of its tensors."""
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


def test_an_index_counts_until_all_files_exist(tmp_path: Path) -> None:
    """Then the headers of the files count."""
    told = {"metadata": {"total_size": 1234}, "weight_map": {"x": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(told))
    assert tensor_bytes(tmp_path) == 1234
    size = _save(tmp_path / "a.safetensors", {"x": ("BF16", (4, 4))})
    assert tensor_bytes(tmp_path) == size


def test_a_folder_without_weights_has_no_size(tmp_path: Path) -> None:
    """A folder with only a configuration has an unknown size."""
    assert tensor_bytes(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x05\x00\x00\x00\x00\x00\x00\x00[1,2]"])
def test_damaged_header_is_one_line(tmp_path: Path, content: bytes) -> None:
    """A truncated or invalid safetensors file is reported with a fix."""
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="header is damaged; download the file again"):
        tensor_bytes(tmp_path)


def test_index_names_no_file_elsewhere(tmp_path: Path) -> None:
    """An index cannot make another folder's files be read."""
    told = {"metadata": {}, "weight_map": {"x": "../secret.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="not a safetensors index; download"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("side", ["Infinity", "NaN", "1e999", "8.5", "true", '"8"', "null", "-1"])
def test_an_offset_that_is_not_a_number_of_bytes_is_damage(tmp_path: Path, side: str) -> None:
    """Python's JSON accepts more than the standard; no such value becomes a size or a crash."""
    header = f'{{"x": {{"dtype": "U8", "shape": [8], "data_offsets": [0, {side}]}}}}'.encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(InputError, match="header is damaged; download the file again"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("total", ["Infinity", "-Infinity", "NaN", "1e999", "8.5", "true", '"8"', "-1"])
def test_a_total_that_is_not_a_number_of_bytes_is_damage(tmp_path: Path, total: str) -> None:
    """An index whose total is not a whole number is invalid."""
    text = f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"x": "a.safetensors"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(InputError, match="not a safetensors index; download it again"):
        tensor_bytes(tmp_path)


@pytest.mark.parametrize("metadata", ["{}", '{"total_size": null}', '{"total_size": 0}'])
def test_an_index_without_a_total_has_no_size(tmp_path: Path, metadata: str) -> None:
    """The size stays unknown."""
    text = f'{{"metadata": {metadata}, "weight_map": {{"x": "a.safetensors"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert tensor_bytes(tmp_path) is None


CONFIG = '{"architectures": ["LlamaForCausalLM"],\n "model_type": "llama"}'
SECRET = "hf_" + "abcdefghijKLMNOPQRST012345"


def _whole(folder: Path) -> Path:
    """A model's folder with nothing wrong in it."""
    (folder / "config.json").write_text(CONFIG)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_text("{}")
    _save(folder / "model.safetensors", {"x": ("BF16", (4, 4))})
    return folder


NESTED = "is nested too deeply; download it again"
POINTER = "is a Git LFS pointer, not the file; run git lfs pull"
NAMELESS = "has neither architectures nor model_type; download it again"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", CONFIG[:-9], "is truncated or invalid JSON at 2:15; download it again"),
        ("config.json", "", "is empty; download it again"),
        ("config.json", " \n", "is empty; download it again"),
        ("config.json", "[]", "is not a JSON object; download it again"),
        ("config.json", "null", "is not a JSON object; download it again"),
        ("config.json", "{}", NAMELESS),
        ("config.json", '{"model_type": null}', NAMELESS),
        ("config.json", '{"model_type": 5, "architectures": [null], "auto_map": {}}', NAMELESS),
        ("config.json", '{"model_type": "", "architectures": "Llama"}', NAMELESS),
        pytest.param("config.json", "[" * 100_000, NESTED, id="lists"),
        pytest.param("config.json", '{"a": ' * 100_000, NESTED, id="objects"),
        ("config.json", b'{"model_type": "\xff"}', "is not UTF-8 text from byte 16 on; download it again"),
        ("config.json", f'{{"token": "{SECRET}', "is truncated or invalid JSON at 1:11; download it again"),
        ("tokenizer.json", '{"version": "1",\n "model": {', "is truncated or invalid JSON at 2:12; download it again"),
        ("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n", POINTER),
        ("tokenizer_config.json", "<!DOCTYPE html>", "is truncated or invalid JSON at 1:1; download it again"),
        ("generation_config.json", "{,}", "is truncated or invalid JSON at 1:2; download it again"),
        ("preprocessor_config.json", "", "is empty; download it again"),
        ("params.json", '{"dim": ', "is truncated or invalid JSON at 1:9; download it again"),
    ],
)  # fmt: skip
def test_damaged_json_is_one_line(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    """With the file, the place and a fix, and without its content."""
    _whole(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    assert problems(tmp_path) == [f"{tmp_path / name}: {says}"]


@pytest.mark.parametrize(
    ("files", "more"),
    [
        ({}, {}),
        ({"config.json": '{"architectures": ["LlamaForCausalLM"]}'}, {}),
        ({"config.json": '{"model_type": "llama", "architectures": []}'}, {}),
        ({"config.json": '{"auto_map": {"AutoConfig": "configuration.Config"}}'}, {}),
        ({"config.json": f'{{"model_type": "llama", "a": {"9" * 100_000}, "b": NaN}}'}, {}),
        ({"config.json": None, "params.json": '{"dim": 1}'}, {}),
        ({"config.json": '{"vocab_size": 1}', "params.json": '{"dim": 1}'}, {}),
        ({"config.json": "{}", "model.gguf": "GGUF"}, {}),
        ({"vocab.json": '["a"]', "trainer_state.json": "{"}, {}),
        ({"tokenizer.json": "{"}, {"needs_tokenizer": False}),
    ],
)
def test_a_complete_folder_has_no_issues(tmp_path: Path, files: dict[str, str | None], more: dict[str, bool]) -> None:
    """Either file name or another format is enough; unneeded files are not checked."""
    _whole(tmp_path)
    for name, content in files.items():
        (tmp_path / name).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / name).write_text(content)

    assert problems(tmp_path, **more) == []


def test_every_damaged_file_of_weights_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Independently of earlier files."""
    _whole(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"damaged")
    (tmp_path / "b.safetensors").write_bytes(b"denied")
    (tmp_path / "c.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    opened = Path.open

    def refuse(path: Path, mode: str) -> object:
        if path.name == "b.safetensors":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode)

    monkeypatch.setattr(Path, "open", refuse)

    found = problems(tmp_path)
    assert len(found) == 3
    assert found[0].startswith(f"{tmp_path / 'a.safetensors'}: ")
    assert found[1].startswith(f"{tmp_path / 'b.safetensors'}: cannot be read (Permission denied)")
    assert found[2].startswith(f"{tmp_path / 'c.safetensors'}: is a Git LFS pointer")


def test_of_a_huge_file_no_more_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most the size of the largest tokenizers; an unreadable file is reported too."""
    _whole(tmp_path)
    monkeypatch.setattr(checkpoints, "_MAX_JSON", 1 << 20)
    (tmp_path / "tokenizer.json").write_bytes(b" " * (1 << 20) + b"{}")
    opened = Path.open

    def refuse(path: Path, mode: str) -> object:
        if path.name == "generation_config.json":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode)

    monkeypatch.setattr(Path, "open", refuse)

    denied = "cannot be read (Permission denied); download it again, or fix its permissions"
    assert problems(tmp_path) == [
        f"{tmp_path / 'generation_config.json'}: {denied}",
        f"{tmp_path / 'tokenizer.json'}: is larger than the 1 MiB allowed for such a file; download it again",
    ]
