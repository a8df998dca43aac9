"""Snapshots of hosts without access to the host: read from text, turned into GPUs, and checked."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_runbooks.catalog.specs import Specs
from vllm_runbooks.host.cards import cards, unfit, usable_mib
from vllm_runbooks.host.meanings import IDS, findings
from vllm_runbooks.host.ranking import recommend, uses_of
from vllm_runbooks.host.records import GpuUse, Inspected, Inventory
from vllm_runbooks.host.snapshots import check, check_host, read

__all__ = [
    "IDS",
    "cards",
    "check",
    "check_host",
    "findings",
    "inspect",
    "read",
    "recommend",
    "unfit",
    "usable_mib",
]


def inspect(
    snapshot: Inventory,
    specs: Specs,
    *,
    uses: Sequence[GpuUse] | None = None,
    seconds: float = 0.0,
    need_gib: float | None = None,
) -> Inspected:
    """Check a snapshot and recommend a GPU for the next launch.

    Args:
        snapshot: The snapshot.
        specs: The GPUs of the catalog.
        uses: Results of several samples; None for one sample, the snapshot.
        seconds: Time from the first sample to the last.
        need_gib: Memory that the launch needs; None for vLLM's default share.
    """
    host_findings, unknown = findings(snapshot, specs)
    seen = uses_of(snapshot, specs) if uses is None else uses
    chosen = recommend(seen, seconds=seconds, need_gib=need_gib) if seen else None
    base = {name: getattr(snapshot, name) for name in Inventory.__dataclass_fields__}
    return Inspected(**base, findings=host_findings, unknown=unknown, recommendation=chosen)
