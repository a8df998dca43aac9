"""Fake of the settings of a method."""

from __future__ import annotations

from typing import Any


def get_awq_config(**more: Any) -> dict[str, Any]:
    return {"method": "awq", **more}
