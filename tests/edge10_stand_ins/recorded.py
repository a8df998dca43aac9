"""Calls of the fakes, one line of JSON each, in the file EDGE10_RECORD."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

REPEATED = "Condition: status == DCL_ERROR_REPEAT_INITIALIZE failed"
"""The compiler's message for settings in the wrong order."""


def call(name: str, /, *args: Any, **kwargs: Any) -> None:
    """Record a call."""
    with Path(os.environ["EDGE10_RECORD"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([name, list(args), kwargs], default=lambda value: type(value).__name__) + "\n")


def demand(is_met: object, why: str) -> None:
    """Exit as the compiler does for a wrong order."""
    if not is_met:
        raise RuntimeError(f"{REPEATED} ({why})")
