"""Record the defaults of transformers' configuration classes for missing fields.

    PYTHON tests/defaults_of_transformers.py     PYTHON has transformers; rewrites class_defaults.json

For each family of `plan.families`, the fields with defaults, as in the class of its text part.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = HERE / "class_defaults.json"
_PATTERNS = ("sliding_window_pattern", "full_attention_interval")
_NONE = object()


def _text(whole: Any) -> Any:
    """The class of the text part."""
    parts = getattr(whole, "sub_configs", None) or {}
    if "thinker_config" in parts:
        return _text(parts["thinker_config"])
    for name in ("text_config", "llm_config", "language_config"):
        if name in parts:
            is_chosen = parts[name].__name__ == "AutoConfig"
            return type(whole().get_text_config(decoder=True)) if is_chosen else parts[name]
    return whole


def _value(text: Any, name: str) -> Any:
    found = getattr(text, name, _NONE)
    if not isinstance(found, property) and found is not _NONE:
        return found
    told = text().to_dict()
    if name in _PATTERNS and "full_attention" in (told.get("layer_types") or ()):
        return told["layer_types"].index("full_attention") + 1
    if name == "partial_rotary_factor":
        return (told.get("rope_parameters") or {}).get(name, _NONE)
    return told.get(name, _NONE)


def main() -> None:
    """Writes the values."""
    sys.path.insert(0, str(HERE.parent / "lib"))
    families = import_module("vllm_runbooks.plan.families").families()
    classes = import_module("transformers.models.auto.configuration_auto")
    rows = []
    for kind, family in families.items():
        if kind in classes.CONFIG_MAPPING_NAMES:
            text = _text(classes.CONFIG_MAPPING[kind])
            values = {name: _value(text, name) for name in sorted(family.defaults)}
            told = json.dumps({name: value for name, value in values.items() if value is not _NONE})
            rows.append(f"  {json.dumps(kind)}: {told}")
    release, every = import_module("transformers").__version__, ",\n".join(rows)
    RECORDED.write_text(f'{{"release": {json.dumps(release)}, "families": {{\n{every}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
