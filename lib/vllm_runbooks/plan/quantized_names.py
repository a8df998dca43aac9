"""Quantized and fine-tuned checkpoints of the catalog's models, by the words of their name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar

from vllm_runbooks.catalog.specs import Model, ModelFile, Specs
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
    """The usual `quantization_config`; empty: none."""
    source: str
    organization: str = ""
    """The only one whose checkpoints the row is for; empty: any."""
    kept: tuple[str, ...] = _NOT_QUANTIZED
    """Modules without quantization."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the end of a name, in any case."""
        return re.compile(rf"(?:{self.ending})$", re.ASCII | re.IGNORECASE)

    def fits(self, name: str) -> bool:
        """Whether the row is for the name's organization."""
        return self.organization in ("", name.rpartition("/")[0])


@dataclass(frozen=True)
class NameWords:
    """A row of `name_words`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    words: tuple[str, ...]
    """In lower case."""
    source: str
    refusal: str = ""
    """Why a checkpoint with such a word is not planned; empty: its layers are those of its base."""


@dataclass(frozen=True)
class KnownCheckpoint:
    """A row of `quantized_checkpoints`, by its name on the Hub."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    source: str
    """A public text that names it."""


_SIXTEEN_BITS = "sixteen_bits"
"""The row of `quantized_names` for a name without a quantization's ending."""
_UNQUANTIZED = (None, "none")
_VERSION = r"(?:[-_.]?v\d{1,2}(?:[._]\d{1,2})?(?![^-_]))?"
"""Optional version after a word, as in `abliterated-v2`."""


def base_of(name: str, specs: Specs) -> tuple[ModelFile, QuantizedName] | None:
    """The model that a quantized or fine-tuned checkpoint is made from, and its quantization; None if unknown."""
    whole = re.sub(r"\s+", "-", name.strip())
    for form in dict.fromkeys((whole, _without_words(whole))):
        stem, row = without_ending(form) or (form, None)
        is_once = row is None or without_ending(stem) is None
        base = next(_bases(stem, specs), None) if is_once else None
        if base is None or base.id is None or _is_misspelled(stem, base.id):
            continue
        if row is not None or base.quantization in _UNQUANTIZED:
            return specs.file(base.id), row or load_table("quantized_names", QuantizedName)[_SIXTEEN_BITS]
    return None


def _is_misspelled(stem: str, base: str) -> bool:
    """Whether a name is almost that of a model of the same organization, as `Qwen/Qwen-3-8B`."""
    (organization, _, last), (own, _, known) = (name.casefold().rpartition("/") for name in (stem, base))
    return organization == own and last not in (known, known.removesuffix("-bf16"))


def refusal(name: str) -> str:
    """Why a checkpoint of that name is not planned; empty if nothing is known against it."""
    rows = load_table("name_words", NameWords).values()
    return next((row.refusal for row in rows if row.refusal and re.search(_pattern(row), name, re.IGNORECASE)), "")


def _without_words(name: str) -> str:
    """The name without the words of a fine-tune and their version."""
    organization, slash, last = name.rpartition("/")
    for row in load_table("name_words", NameWords).values():
        if not row.refusal:
            last = re.sub(_pattern(row) + _VERSION, "", last, flags=re.IGNORECASE)
    return organization + slash + re.sub(r"([-_.])[-_.]+", r"\1", last).strip("-_.")


def _pattern(row: NameWords) -> str:
    return rf"(?<![^-_./:])(?:{'|'.join(map(re.escape, row.words))})(?![^-_./:])"


def without_ending(name: str) -> tuple[str, QuantizedName] | None:
    """The name without a quantization's ending, and that quantization: the longest ending, of equal ones the first."""
    rows = (row for row in load_table("quantized_names", QuantizedName).values() if row.fits(name))
    found = ((match.start(), row) for row in rows if (match := row.pattern.search(name)))
    start, row = min(found, key=itemgetter(0), default=(0, None))
    return None if row is None else (name[:start], row)


def _bases(name: str, specs: Specs) -> Iterator[Model]:
    last = name.rpartition("/")[2]
    models = map(specs.model, (name, f"{name}-BF16", last, f"{last}-BF16"))
    return (model for model in models if model is not None)


def quantized_config(base: Mapping[str, Any], row: QuantizedName) -> dict[str, Any]:
    """A model's configuration with the usual quantization."""
    config = _unquantized(base)
    return {**config, "quantization_config": {**row.config, "ignore": list(row.kept)}} if row.config else config


def _unquantized(config: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in ("compression_config", "quantization_config")}
    return {key: _unquantized(value) if isinstance(value, Mapping) else value for key, value in kept.items()}
