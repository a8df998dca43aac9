"""Texts of the generated files of a job, from `catalog/tables/edge10_scripts.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED


@dataclass(frozen=True)
class ScriptTemplate:
    """Text of a generated file, with names between `@` as placeholders."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    text: str


def fill_template(name: str, **values: object) -> str:
    """Text of a template with its values; a line whose only value is empty is left out."""
    text = load_table("edge10_scripts", ScriptTemplate)[name].text
    for key, value in values.items():
        if value == "":
            text = text.replace(f"@{key}@\n", "")
    return re.sub(r"@([a-z_]{1,20})@", lambda match: str(values.get(match[1], match[0])), text)
