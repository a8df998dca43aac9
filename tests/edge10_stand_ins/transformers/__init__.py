"""Fake of transformers: checkpoints are folders, or names on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import call


class _Saved:
    files: tuple[str, ...] = ()

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Any:
        call(f"{cls.__name__}.from_pretrained", name, **kwargs)
        return cls()

    def save_pretrained(self, folder: str) -> None:
        for name in self.files:
            (Path(folder) / name).write_text("{}", encoding="utf-8")


class AutoTokenizer(_Saved):
    files = ("tokenizer.json", "tokenizer_config.json")


class AutoProcessor(_Saved):
    files = ("preprocessor_config.json",)

    def apply_chat_template(self, messages: list[Any], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        assert add_generation_prompt
        call("apply_chat_template", messages)
        return "a prompt"


class AutoModelForCausalLM(_Saved):
    pass


class _Language:
    """The language part of a multimodal model."""


class AutoModelForImageTextToText(_Saved):
    language_model = _Language()
