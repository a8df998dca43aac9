"""What the stand-ins are asked, one line of JSON a call, in the file that EDGE10_RECORD names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

REPEATED = "Condition: status == DCL_ERROR_REPEAT_INITIALIZE failed"
"""What the compiler says where its settings come in another order than it takes."""


def call(name: str, /, *args: Any, **kwargs: Any) -> None:
    """Note a call."""
    with Path(os.environ["EDGE10_RECORD"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([name, list(args), kwargs], default=lambda value: type(value).__name__) + "\n")


def demand(is_met: object, why: str) -> None:
    """End as the compiler does where something stands in the wrong order."""
    if not is_met:
        raise RuntimeError(f"{REPEATED} ({why})")
