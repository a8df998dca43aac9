"""Make tiny models that real vLLM serves on a CPU, whole or damaged; with the standard library alone.

python tests/live/tiny_models.py DIR      writes DIR/llama, a model of 0.4 million random weights
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, LAYERS, INNER, VOCABULARY = 128, 4, 2, 32, 2, 256, 384
CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "bos_token_id": 256,
    "eos_token_id": 257,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def tensors(
    *, layers: int = LAYERS, inner: int = INNER, vocabulary: int = VOCABULARY, head_size: int = HEAD_SIZE
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a Llama's weights."""
    yield "model.embed_tokens.weight", (vocabulary, HIDDEN)
    for number in range(layers):
        at = f"model.layers.{number}"
        yield f"{at}.self_attn.q_proj.weight", (HEADS * head_size, HIDDEN)
        yield f"{at}.self_attn.k_proj.weight", (KV_HEADS * head_size, HIDDEN)
        yield f"{at}.self_attn.v_proj.weight", (KV_HEADS * head_size, HIDDEN)
        yield f"{at}.self_attn.o_proj.weight", (HIDDEN, HEADS * head_size)
        yield f"{at}.mlp.gate_proj.weight", (inner, HIDDEN)
        yield f"{at}.mlp.up_proj.weight", (inner, HIDDEN)
        yield f"{at}.mlp.down_proj.weight", (HIDDEN, inner)
        yield f"{at}.input_layernorm.weight", (HIDDEN,)
        yield f"{at}.post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (vocabulary, HIDDEN)


def write_tensors(path: Path, shapes: Iterable[tuple[str, tuple[int, ...]]], *, seed: int = 0) -> None:
    """A file of safetensors with small random bfloat16 weights."""
    draw = random.Random(seed)  # noqa: S311 - drawn to be repeated
    small = [struct.pack("<f", draw.gauss(0, 0.02))[2:] for _ in range(997)]
    header: dict[str, Any] = {}
    body = bytearray()
    for name, shape in shapes:
        count = 1
        for size in shape:
            count *= size
        begin = len(body)
        is_norm = "norm" in name
        one = struct.pack("<f", 1.0)[2:]
        offset = draw.randrange(997)
        body += one * count if is_norm else b"".join(small[(offset + n * 31) % 997] for n in range(count))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, len(body)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def _byte_characters() -> list[str]:
    """The characters that a byte-level tokenizer writes the 256 bytes with."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    by_byte = {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [by_byte[byte] for byte in range(256)]


def write_tokenizer(folder: Path, *, template: str | None = TEMPLATE) -> None:
    """A tokenizer of single bytes, and two special tokens."""
    special = [
        {
            "id": 256 + n,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for n, word in enumerate(("<s>", "</s>"))
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "vocab": {character: number for number, character in enumerate(_byte_characters())}, "merges": [],
        },
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": 2048,
    }
    if template is not None:
        told["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")


def write(folder: Path, *, template: str | None = TEMPLATE, **changes: Any) -> Path:
    """A whole model; `changes` apply to its configuration, and None removes a key."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    write_tokenizer(folder, template=template)
    write_tensors(folder / "model.safetensors", tensors())
    return folder


def _rewritten(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **changes}), "utf-8")


def _sharded(folder: Path) -> None:
    names = [name for name, _ in tensors()]
    files = {name: f"model-0000{1 + (n % 2)}-of-00002.safetensors" for n, name in enumerate(names)}
    (folder / "model.safetensors").unlink()
    first = ((name, shape) for name, shape in tensors() if files[name].startswith("model-00001"))
    write_tensors(folder / "model-00001-of-00002.safetensors", first)
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def _extra(folder: Path) -> None:
    write_tensors(folder / "model.safetensors", (*tensors(), ("model.layers.0.mlp.extra_proj.weight", (4, HIDDEN))))


def _remote(folder: Path) -> None:
    _rewritten(
        folder,
        model_type="own_llama",
        architectures=["OwnLlamaForCausalLM"],
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnLlamaForCausalLM"},
    )
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig\n\n\nclass OwnConfig(LlamaConfig):\n    pass\n"
    )


def _own_configuration(folder: Path) -> None:
    _rewritten(folder, model_type="own_llama", auto_map={"AutoConfig": "own.OwnConfig"})
    (folder / "own.py").write_text(
        'from transformers import LlamaConfig\n\n\nclass OwnConfig(LlamaConfig):\n    model_type = "own_llama"\n'
    )


def _large_vocabulary(folder: Path) -> None:
    _rewritten(folder, vocab_size=512)
    write_tensors(folder / "model.safetensors", tensors(vocabulary=512))


def _cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _head_16(folder: Path) -> None:
    _rewritten(folder, head_dim=16)
    write_tensors(folder / "model.safetensors", tensors(head_size=16))


def _small_vocabulary(folder: Path) -> None:
    _rewritten(folder, vocab_size=64, bos_token_id=1, eos_token_id=2)
    write_tensors(folder / "model.safetensors", tensors(vocabulary=64))


def _no_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


VARIANTS: Mapping[str, Callable[[Path], object]] = {
    "llama": lambda _: None,
    "llama-8m": lambda m: _rewritten(m, max_position_embeddings=8_000_000),
    "llama-head-16": _head_16,
    "llama-other-shape": lambda m: write_tensors(m / "model.safetensors", tensors(inner=192)),
    "llama-extra-tensor": _extra,
    "llama-no-config": lambda m: (m / "config.json").unlink(),
    "llama-damaged-config": lambda m: (m / "config.json").write_text('{"model_type": "llama", '),
    "llama-lfs": lambda m: (m / "model.safetensors").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 790056\n"
    ),
    "llama-cut-off": _cut_off,
    "llama-shard-missing": _sharded,
    "llama-no-weights": lambda m: (m / "model.safetensors").unlink(),
    "llama-no-tokenizer": _no_tokenizer,
    "llama-damaged-tokenizer": lambda m: (m / "tokenizer.json").write_text('{"version": "1.0", '),
    "llama-no-template": lambda m: write_tokenizer(m, template=None),
    "llama-small-vocabulary": _small_vocabulary,
    "llama-unknown-architecture": lambda m: _rewritten(m, architectures=["NobodysForCausalLM"]),
    "llama-misspelt-architecture": lambda m: _rewritten(m, architectures=["LLamaForCausalLm"]),
    "llama-five-heads": lambda m: _rewritten(m, num_attention_heads=5, head_dim=None),
    "llama-large-vocabulary": _large_vocabulary,
    "llama-own-configuration": _own_configuration,
    "llama-unknown-type": lambda m: _rewritten(m, model_type="nobodys"),
    "llama-remote-code": _remote,
    "llama-unknown-quantization": lambda m: _rewritten(m, quantization_config={"quant_method": "nobodys"}),
}
"""Models by name, with the change to a whole one."""


def make(models: Path, name: str) -> Path:
    """One of the models, created on demand; any other name is a missing folder."""
    folder = models / name
    if name in VARIANTS and not folder.is_dir():
        write(folder)
        VARIANTS[name](folder)
    return folder


def make_adapter(folder: Path, *, rank: int) -> Path:
    """A LoRA adapter of the tiny model."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": ["q_proj"], "bias": "none",
        "task_type": "CAUSAL_LM", "base_model_name_or_path": "llama",
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(told), "utf-8")
    at = "base_model.model.model.layers.0.self_attn.q_proj"
    shapes = ((f"{at}.lora_A.weight", (rank, HIDDEN)), (f"{at}.lora_B.weight", (HEADS * HEAD_SIZE, rank)))
    write_tensors(folder / "adapter_model.safetensors", shapes)
    return folder


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), "llama"))
