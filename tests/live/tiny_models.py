"""Make tiny models that real vLLM serves on a CPU, whole or damaged; with the standard library alone.

python tests/live/tiny_models.py DIR      writes DIR/llama, a model of 0.4 million random weights
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Iterator, Mapping
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
    *, layers: int = LAYERS, inner: int = INNER, vocabulary: int = VOCABULARY
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a Llama's weights."""
    yield "model.embed_tokens.weight", (vocabulary, HIDDEN)
    for number in range(layers):
        at = f"model.layers.{number}"
        yield f"{at}.self_attn.q_proj.weight", (HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.k_proj.weight", (KV_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.v_proj.weight", (KV_HEADS * HEAD_SIZE, HIDDEN)
        yield f"{at}.self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_SIZE)
        yield f"{at}.mlp.gate_proj.weight", (inner, HIDDEN)
        yield f"{at}.mlp.up_proj.weight", (inner, HIDDEN)
        yield f"{at}.mlp.down_proj.weight", (HIDDEN, inner)
        yield f"{at}.input_layernorm.weight", (HIDDEN,)
        yield f"{at}.post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (vocabulary, HIDDEN)


def write_tensors(path: Path, shapes: Iterator[tuple[str, tuple[int, ...]]], *, seed: int = 0) -> None:
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
    """A whole model; `changes` are of its configuration, None takes a key out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    write_tokenizer(folder, template=template)
    write_tensors(folder / "model.safetensors", tensors())
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1]) / "llama"))
