"""What is known before anything is started is told then, and not after minutes."""

from __future__ import annotations

from vllm_runbooks.runbooks.live import fleets, starting
from vllm_runbooks.serve.load import Load


def check(
    command: str, *, setting: str | None = None, parts: int | None = None, vllm: str = "", load: Load | None = None
) -> None:
    """See that what is to be started can be, before anything is: nothing is found out after minutes that is known now.

    Args:
        command: As in `start`.
        setting: As in `start`.
        parts: How many copies are to share a load, and over how many cards one server is to be split.
        vllm: As in `start`.
        load: As in `start`.

    Raises:
        InputError: what cannot be, and why.
    """
    one = starting.subject(command, vllm)
    if load is not None:
        starting.check_load(one)
    if setting is not None:
        one.edited(starting.edits_of(one, setting))
    if parts is not None:
        fleets.check(one, parts)
