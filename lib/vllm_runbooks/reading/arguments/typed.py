"""Options as Python values: their types, and the words that set them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vllm_runbooks.catalog.options import Option, inner_type
from vllm_runbooks.reading.arguments.values import type_in_words

_SEVERAL = ("+", "*")
_NAMES_AND_PATHS = ("LoRAParserAction", "PromptAdapterParserAction")
"""Actions that accept name=path or a JSON object."""
_CLASSES: Mapping[str, tuple[type, ...]] = {
    "int": (int,), "human_int": (int,), "human_int_or_auto": (int,), "float": (int, float), "str": (str,),
    "int_pairs": (Mapping,), "json_or_pairs": (Mapping,), "dataclass": (Mapping,), "json_or_str": (Mapping, str),
}  # fmt: skip
"""Python types by conversion; all others return anything."""


def expected_type(option: Option, value: Any) -> str | None:
    """Describe the type of an option if a value does not have it; None if it does or is unknown."""
    if option.nargs == 0 or option.action == "StoreBoolean" or inner_type(option.type) == "bool":
        return None if isinstance(value, bool) else "True or False"
    if option.nargs in _SEVERAL or option.action == "_AppendAction":
        is_right = isinstance(value, (list, tuple)) and all(_is_of(option, item) for item in value)
        return None if is_right else f"a list, each {type_in_words(option.type)}"
    return None if _is_of(option, value) else type_in_words(option.type)


def _is_of(option: Option, value: Any) -> bool:
    kind = inner_type(option.type)
    name = kind if not isinstance(kind, Mapping) else next((name for name in _CLASSES if name in kind), "")
    if option.action in _NAMES_AND_PATHS:
        return isinstance(value, (str, Mapping))
    classes = _CLASSES.get(name) if isinstance(name, str) else None
    if classes is None or (name == "human_int_or_auto" and value == "auto"):
        return True
    if name == "dataclass" and isinstance(kind, Mapping) and "via" in kind and isinstance(value, (int, str)):
        return True
    return isinstance(value, classes) and not isinstance(value, bool)


def option_words(option: Option, value: Any) -> list[str]:
    """Words that set an option; empty for a switch that is off and has no negation."""
    if option.nargs == 0:
        word = next((text for text, sets in option.flag_values.items() if sets is value), None)
        return [option.name] if word is None and value else [word] if word is not None else []
    if option.nargs in _SEVERAL:
        return [option.name, *map(_text, value)]
    if option.action == "_AppendAction":
        return [f"{option.name}={_text(item)}" for item in value]
    return [f"{option.name}={_text(value)}"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
