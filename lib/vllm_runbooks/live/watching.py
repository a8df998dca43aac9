"""Which GPU the next start should take, after several looks at this host's, or at a recorded series."""

from __future__ import annotations

from vllm_runbooks import session
from vllm_runbooks.host import inventory
from vllm_runbooks.host_records import Inspected

_LOOKS, _EVERY_S = 5, 1.0


def watched(memory: str = "", *, looks: int = _LOOKS, every_s: float = _EVERY_S) -> Inspected:
    """The GPUs as so many looks showed them, with the recommended one; `memory` is a series in place of the driver.

    Raises:
        InputError: there is no such series.
    """
    session.check_texts(memory=memory)
    return inventory.watched(memory, session.specs(), samples=looks, every_s=every_s)
