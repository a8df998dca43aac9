"""Memory that a launch claims on a GPU, and free memory; any unit, consistently."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_runbooks.catalog import options

TAKEN_GIB = 1.0
"""Memory in use from which a GPU counts as shared, in GiB: more than an idle driver or a screen
uses."""


@dataclass(frozen=True)
class MemoryClaim:
    """A claim on a GPU's memory."""

    total: float
    """Memory available to processes."""
    used: float
    """By others."""
    wanted: float

    @property
    def free(self) -> float:
        return max(0.0, self.total - self.used)

    @property
    def is_enough(self) -> bool:
        """Whether the claim can be met: vLLM ends where less is free than its share (0.32.0 v1/worker/utils.py:766)."""
        return self.wanted <= self.free

    @property
    def most(self) -> float:
        """The largest `--gpu-memory-utilization` that can be met, in hundredths; 0: none."""
        return int(self.free / self.total * 100) / 100 if self.total else 0.0


def of_share(total: float, used: float, share: float) -> MemoryClaim:
    """The claim of a launch that requests a share of a GPU."""
    return MemoryClaim(total, used, share * total)


def usual_share() -> float | None:
    """Share that a server of the newest known release requests by default; None if unknown."""
    value = options.load(options.known_releases()[-1]).default("gpu_memory_utilization").value
    return value if isinstance(value, (int, float)) else None
