"""Recommend a GPU after several looks at this host's, or at a recorded series."""

from __future__ import annotations

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.host import inventory
from vllm_runbooks.host.records import Inspected

_LOOKS, _EVERY_S = 5, 1.0


def watched(memory: str = "", *, looks: int | None = None, every_s: float | None = None) -> Inspected:
    """GPUs of this host over several looks, or of the recorded series `memory`, with the recommended one."""
    check_texts(memory=memory)
    if not memory.strip():
        samples, seconds = looks or _LOOKS, _EVERY_S if every_s is None else every_s
        return inventory.watched(catalog.specs(), samples=samples, every_s=seconds)
    if looks is not None or every_s is not None:
        raise InputError(f"{memory}: a series has its own readings and times; remove looks and every_s")
    return inventory.recorded(memory, catalog.specs())
