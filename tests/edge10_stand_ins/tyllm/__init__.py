"""Fake of the compiler: its settings are read once, in the order of its user guide."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from recorded import call, demand

IS_READ = {"executor": False, "engine": False}
"""Readers of the settings so far."""
MODES: dict[str, Any] = {}
TRACED: list[bool] = []
demand("COMPILE_THREAD" in os.environ, "COMPILE_THREAD is read where the compiler is imported")


def _set(name: str, value: Any) -> None:
    call("set_device_mode", name, value)
    demand(not IS_READ["engine"], f"{name} is set behind the engine")
    demand(name != "jit_device" or not IS_READ["executor"], "jit_device is set behind the executor")
    demand(not name.endswith("_die_remap") or len(value) == 16, f"{name} has {len(value)} entries")
    demand(name not in MODES, f"{name} is set twice")
    MODES[name] = value


def _trace_only(is_on: bool) -> None:  # noqa: FBT001 - the compiler's own
    call("set_trace_only_mode", is_on)
    demand(not IS_READ["engine"], "tracing is set behind the engine")
    TRACED.append(is_on)


torch_edgex = SimpleNamespace(
    set_device_mode=_set,
    set_device_trace_only=lambda _device, is_on: _trace_only(is_on),
    edgex_module=SimpleNamespace(set_trace_only_mode=_trace_only),
)
