"""A GPU that a rank runs on, or the memory of a NUMA node instead."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.catalog.specs import HostGpu
from vllm_runbooks.plan.terms import GIB, Band


@dataclass(frozen=True)
class Device:
    """A GPU that a rank runs on."""

    name: str
    total: Band | None
    """Bytes that the driver reports; None if unknown."""
    total_source: str = ""
    node: str | None = None
    capability: tuple[int, int] | None = None
    interconnect: str | None = None
    """Between the GPUs of one host: "nvlink", "nvlink-bridge" or "pcie"; None if unknown."""
    bandwidth_gb_s: float | None = None
    """Memory bandwidth in 10^9 bytes per second."""
    vendor: str = "nvidia"
    physical: int | None = None
    """Bytes of the data sheet, of which the driver reports no more; None if unknown."""
    limit: int | None = None
    """Bytes that a control group allows processes of a host without GPUs; None without a limit."""

    @property
    def is_rocm(self) -> bool:
        """Whether vLLM runs on it with ROCm."""
        return self.vendor == "amd"

    @property
    def is_cpu(self) -> bool:
        """Whether it is the memory of a NUMA node instead of a GPU."""
        return self.vendor == "cpu"

    def within(self, total: Band) -> Band:
        """The part of its memory that the limit of a control group leaves."""
        return total if self.limit is None else Band(*(min(side, self.limit) for side in total))

    @classmethod
    def of(cls, card: HostGpu) -> Device:
        """A GPU as the catalog has it."""
        gpu, total = card.gpu, card.gpu.total
        sides = Band(*(int(side * GIB) for side in (total.low, total.expected, total.high))) if total else None
        source = total.source if total else "unknown: how much of it the driver reserves"
        return cls(
            gpu.name,
            sides,
            source,
            card.node,
            gpu.version,
            gpu.interconnect,
            gpu.memory_bandwidth_gb_s,
            gpu.vendor,
            int(gpu.memory_gib * GIB),
            None if card.limit_gib is None else int(card.limit_gib * GIB),
        )
