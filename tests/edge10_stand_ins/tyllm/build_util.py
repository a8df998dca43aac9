"""Fake of the language model compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recorded import call, demand

from tyllm import MODES, TRACED


def build_and_compile_llm(*, artifacts_path: str, **kwargs: Any) -> None:
    call("build_and_compile_llm", artifacts_path=artifacts_path, **kwargs)
    demand(TRACED == [True], "nothing says that it is traced only")
    demand("LM_die_remap" in MODES, "the order of the dies is not set")
    (Path(artifacts_path) / "config.json").write_text("{}", encoding="utf-8")
