"""Check a launch before it takes minutes."""

from __future__ import annotations

from vllm_runbooks.runbooks.live import fleets, starting
from vllm_runbooks.serve.load import Load


def check(
    command: str, *, setting: str | None = None, parts: int | None = None, vllm: str = "", load: Load | None = None
) -> None:
    """Check what can be checked before a launch, for the arguments of `start` and `split`."""
    launch = starting.subject(command, vllm)
    if load is not None:
        starting.check_load(launch)
    if setting is not None:
        launch.edited(starting.edits_of(launch, setting))
    if parts is not None:
        fleets.check(launch, parts)
