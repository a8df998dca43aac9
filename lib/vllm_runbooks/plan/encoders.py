"""Image and audio towers of a language model: their tensors, by family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_runbooks.catalog.eras import NEVER, Key
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import Authored
from vllm_runbooks.plan.shape import Encoder
from vllm_runbooks.plan.tensors import ModelTensor, TensorRow, evaluate, tensors_of


@dataclass(frozen=True)
class EncoderTower(Authored):
    """The tensors of a family's tower."""

    component: str = "vision"
    """"vision" or "audio"."""
    is_quantized: bool = True
    """Whether vLLM's class hands a quantization chosen at launch on to the tower's linear layers."""
    off_since: Key = NEVER
    """The first release that leaves it out where all its modalities are limited to 0."""
    heads: str = ""
    """Field with the number of heads if its class divides them among the ranks; others pad or
    replicate them."""
    whole_unless: str = ""
    """Field with the number of heads if each rank has the whole tower where the ranks cannot divide them."""
    bases: tuple[str, ...] = ()
    """Rows whose sizes and tensors it inherits; its own sizes replace theirs."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """By `model_type` the row that it is; without one its key is empty."""
    sizes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    """By name the default, then the fields of the configuration that give it."""
    flags: Mapping[str, tuple[str, bool | str, bool | str]] = field(default_factory=dict)
    """Sizes of 1 or 0: a field, its default, and the value that makes it 1."""
    read_layer: int | None = None
    """Layer whose output is used if `vision_feature_layer` is not set."""
    tensors: tuple[TensorRow, ...] = ()


def taps(config: Mapping[str, Any]) -> int:
    """Number of layers of Qwen 3's tower with output to the first decoder layers (deepstack)."""
    deep = config.get("deepstack_visual_indexes")
    # Qwen 3.5's class has no such field; the class with the field taps three layers by default.
    return len(deep) if isinstance(deep, (list, tuple)) else 0 if "3_5" in str(config.get("model_type")) else 3


class _TowerSizes:
    """The sizes of a tower by its configuration."""

    def __init__(self, config: Mapping[str, Any], towers: list[EncoderTower], hidden: int) -> None:
        self.config = config
        self.sizes = {name: size for tower in towers for name, size in tower.sizes.items()}
        self.values = {"hidden": hidden, "taps": taps(config)}
        for tower in towers:
            for name, (key, default, expected) in tower.flags.items():
                value = config.get(key, default)
                self.values[name] = int((value if isinstance(expected, str) else bool(value)) == expected)
        if "layers" in self.sizes:
            read_layer = next((tower.read_layer for tower in towers if tower.read_layer is not None), None)
            self.values["used"] = self._used(config.get("vision_feature_layer", read_layer))

    def _used(self, read: Any) -> int:
        """Number of layers up to the one whose output is used."""
        layers = self.of("layers")
        return max(0, min(layers, layers + read + 1 if read < 0 else read)) if isinstance(read, int) else layers

    def of(self, name: str) -> int:
        """A size by its name."""
        if name not in self.values:
            default, *keys = self.sizes[name]
            numbers = (number for key in keys if (number := self._number(str(key))) is not None)
            self.values[name] = next(numbers, None) or evaluate(default, self.of)
        return self.values[name]

    def _number(self, key: str) -> int | None:
        """A size from a field of the configuration or an item of it; None if it is not a number."""
        name, _, place = key.removeprefix("#").partition(".")
        value = self.config.get(name)
        if isinstance(value, (list, tuple)) and key.startswith("#"):
            value = len(value)
        elif isinstance(value, Mapping) and place:
            value = value.get(place)
        elif isinstance(value, (list, tuple)) and place:
            value = value[int(place)] if place.isdecimal() and int(place) < len(value) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def tower_of(encoder: Encoder) -> EncoderTower:
    """The row of an encoder's family."""
    towers = load_table("encoder_towers", EncoderTower)
    return towers[encoder.family] if encoder.family in towers else EncoderTower()


def is_whole(encoder: Encoder, ranks: int) -> bool:
    """Whether each rank has the whole tower because the ranks cannot divide its heads."""
    heads = encoder.sizes.get(tower_of(encoder).whole_unless)
    return isinstance(heads, int) and heads % ranks > 0


def _bases(family: str, kind: str) -> Iterator[EncoderTower | None]:
    """A row and its base rows, the most general first; None for an unknown row."""
    tower = load_table("encoder_towers", EncoderTower).get(family)
    if tower is not None:
        bases = (tower.kinds.get(kind, ""),) if tower.kinds else tower.bases
        for base in bases:
            yield from _bases(base, kind)
    yield tower


def encoder_tensors(encoder: Encoder, hidden: int) -> tuple[ModelTensor, ...] | None:
    """Tensors of a tower for a text model of this hidden size; None if the family is unknown."""
    kind = encoder.sizes.get("model_type")
    bases = tuple(_bases(encoder.family, "" if kind is None else str(kind)))
    towers = [tower for tower in bases if tower is not None]
    if len(towers) < len(bases):
        return None
    sizes, tower = _TowerSizes(encoder.sizes, towers, hidden), towers[-1]
    rows = (row for base in towers for row in base.tensors)
    return tuple(
        replace(tensor, is_linear=tensor.is_linear and tower.is_quantized)
        for tensor in tensors_of(rows, sizes.of, tower.component)
    )
